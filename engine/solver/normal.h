/// The matrix K + J'DJ of Newton steps over many rows: pattern, values, factor.
///
/// The pattern is that of K and of the rows that may take part, analysed once; K and the weights are
/// refilled as often as need be. What augmented-lagrangian (D = R on active rows) and interior-point
/// (D = lambda / s on all) have in common. One thread.
#ifndef QPC_ENGINE_SOLVER_NORMAL_H
#define QPC_ENGINE_SOLVER_NORMAL_H

#include "base/mem.h"
#include "engine/solver/qp.h"

typedef struct qpc_normal qpc_normal;

/// Pattern of K and of the rows with `use` (m; NULL: all). Freed by qpc_normal_destroy().
qpc_status qpc_normal_create(const qpc_qp *qp, const uint8_t *use, qpc_normal **ret, qpc_error *err);
void qpc_normal_destroy(qpc_normal *normal);
/// Factor K + sum_i weight_i J_i'J_i (rows outside the pattern must have weight 0). K is read anew from
/// the QP that is given: its K and J must have the pattern of the first. QPC_ERR_NUMERIC if it is not
/// positive definite.
qpc_status qpc_normal_factor(qpc_normal *normal, const qpc_qp *qp, const double *weight, qpc_error *err);
/// x = (K + J'DJ)^-1 rhs; x may be rhs.
qpc_status qpc_normal_solve(qpc_normal *normal, const double *rhs, double *x, qpc_error *err);
/// Floating-point operations of one factorisation, entries of the factor.
double qpc_normal_operations(const qpc_normal *normal);
double qpc_normal_entries(const qpc_normal *normal);

#endif
