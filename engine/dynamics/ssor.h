/// Conjugate gradients on K + E with the preconditioner of blocks.h, in the unknowns W'd.
///
/// The caller sets D = D_K + D_E (diagonal blocks of K + E) and, for E = J'RJ beyond them, a callback.
/// Sums run in a fixed order; memory from the caller.
#ifndef QPC_ENGINE_DYNAMICS_SSOR_H
#define QPC_ENGINE_DYNAMICS_SSOR_H

#include "engine/dynamics/blocks.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct qpc_ssor {
    const qpc_blocks *K;
    double *D, *inverse, *rest; // (count x 9) D, D^-1, 2 D - D_K
    double *r, *z, *p, *t, *q, *v; // (3 count)
    /// y += E t; NULL: E = 0
    void (*add)(void *self, const double *t, double *y);
    void *self;
    int64_t steps; // CG steps so far: exact work count
    bool lost;     // a direction without curvature was met: K + E is not positive definite
} qpc_ssor;

/// Doubles that one needs, and to place it there; D = D_K.
size_t qpc_ssor_size(int32_t count);
void qpc_ssor_init(qpc_ssor *s, const qpc_blocks *K, double *memory);
/// After D has changed: false if a block is not positive definite.
bool qpc_ssor_prepare(qpc_ssor *s);
/// |rhs|_{M^-1}; what a solve of the same rhs starts from is kept.
double qpc_ssor_start(qpc_ssor *s, const double *rhs);
/// After qpc_ssor_start(): d (3 count) = (K + E)^-1 rhs until |residual|_{M^-1} <= target or `most` steps are
/// done; the |residual|_{M^-1} reached.
double qpc_ssor_solve(qpc_ssor *s, double target, int32_t most, double *d);

#endif
