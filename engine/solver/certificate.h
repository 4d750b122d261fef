/// The certificate of a solved QP, computed from K, J, b, c alone, sharing nothing with the solvers.
///
/// |v|_K = sqrt(v'Kv); kt_i = sqrt(sum_j J_ij^2 / K_jj);
/// S = max(|dv|_K, |K^-1 b|_K, max_i viol_i(K^-1 b) / kt_i), floor 1e-140; r = K dv - b + J'lambda.
/// stat = |r|_{K^-1} / S, prim = max viol_i / (kt_i S), dual = max max(-lambda_i, 0) kt_i / S,
/// comp = sum |lambda_i (c_i - J_i dv)| / S^2, err = stat + sqrt(comp).
/// natural = max_i |min(c_i - J_i dv, lambda_i kt_i^2)| (equalities: |c_i - J_i dv|), m/s.
///
/// Where such a D as below is known and |r|_{D^-1} >= |r|_{K^-1} and |dv|_K <= S in place of both give stat, prim and dual
/// <= 1e-9 and comp <= 1e-12, these upper bounds are what is returned (`by` says so): nothing is solved, nothing factored. So too
/// with b'y / |y|_K <= |K^-1 b|_K, y = D^-1 b, where |dv|_K is too little: bodies at rest.
///
/// Else K^-1 comes from the factor. Where K has none (conjugate gradients were enough), z with K z ~ r gives, with
/// q = r - K z and a diagonal D such that K - D is positive semidefinite (the masses, qpc_linsys.least),
///     |r|^2_{K^-1} = 2 r'z - z'Kz + |q|^2_{K^-1} <= 2 r'z - z'Kz + |q|^2_{D^-1}:
/// stat is a bound then, `by` says so; |r|_{D^-1} itself where that is at most 1e-8 S and K_ii at most 300 D_ii. Without such a D it is the estimate with |q| neglected, |q| / |r| being
/// solve_check. S is then a little too small, never too large: |K^-1 b|_K is that of an approximate K^-1 b (the last one that was
/// asked of qpc_linsys, if a product and D show that it gives S to a factor of 2), and what that violates is left out. kt = 1 for an empty row (which S leaves out).
#ifndef QPC_ENGINE_SOLVER_CERTIFICATE_H
#define QPC_ENGINE_SOLVER_CERTIFICATE_H

#include "base/mem.h"
#include "engine/solver/friction.h"
#include "engine/solver/qp.h"

#include <stdbool.h>

typedef enum qpc_certified_by {
    QPC_BY_FACTOR,
    QPC_BY_BOUND,    // stat is an upper bound
    QPC_BY_ESTIMATE, // stat is an estimate from below, to a part in a hundred or so
} qpc_certified_by;

typedef struct qpc_certificate {
    double stat, prim, dual, comp, err; // dimensionless
    double natural;                     // m/s
    double violation;                   // largest viol_i, m/s
    double scale;                       // S, sqrt(J)
    double solve_check;                 // |K z - r| / |r|, |K z - b| / |b|: the worse of the solves
    uint64_t active_hash;               // XXH3-64 of the sorted keys with lambda > 0
    int32_t active;
    qpc_certified_by by;
} qpc_certificate;

/// Coulomb's law at a solution, by the definitions alone: over contacts k with u = T dv + u0 and kt_k^2 the larger of the two
/// sum_j T_ij^2 / K_jj,
///     natural = max |beta - P(beta + u / kt^2)| kt^2, m/s,   P: onto the disc of radius mu max(lambda, 0),
///     defect = sum (mu lambda |u| - beta'u) / S^2  (0: as much is dissipated as can be).
typedef struct qpc_friction_certificate {
    double natural, defect;
    int32_t sticking, sliding; // contacts with lambda > 0 and beta inside, on the rim of its disc
} qpc_friction_certificate;
qpc_friction_certificate qpc_certify_friction(const qpc_qp *qp, const qpc_friction *friction, const double *dv,
                                              const double *lambda, const double *beta, double scale);

qpc_status qpc_certify(const qpc_qp *qp, const double *dv, const double *lambda, qpc_arena *arena,
                       qpc_certificate *ret, qpc_error *err);
/// Whether stat is within the tolerance: by |r|_{D^-1} and |dv|_K where these do, else by the certificate.
qpc_status qpc_is_stationary(const qpc_qp *qp, const double *dv, const double *lambda, double tolerance, qpc_arena *arena, bool *ret,
                             qpc_error *err);

#endif
