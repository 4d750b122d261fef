/// The certificate of a solved QP, computed from K, J, b, c alone, sharing nothing with the solvers.
///
/// |v|_K = sqrt(v'Kv); kt_i = sqrt(sum_j J_ij^2 / K_jj);
/// S = max(|dv|_K, |K^-1 b|_K, max_i viol_i(K^-1 b) / kt_i), floor 1e-140; r = K dv - b + J'lambda.
/// stat = |r|_{K^-1} / S, prim = max viol_i / (kt_i S), dual = max max(-lambda_i, 0) kt_i / S,
/// comp = sum |lambda_i (c_i - J_i dv)| / S^2, err = stat + sqrt(comp).
/// natural = max_i |min(c_i - J_i dv, lambda_i kt_i^2)| (equalities: |c_i - J_i dv|), m/s.
/// kt = 1 for an empty row (which S leaves out). K^-1 by the factor, each solve checked by a product. A K
/// with a floor that is not factored is judged by bounds (`bounded`): |r|_{K^-1} <= |r|_{F^-1},
/// F = diag(floor), and S >= max(|dv|_K, b'v / |v|_K), v = D^-1 b, so that no figure comes out too small.
#ifndef QPC_ENGINE_SOLVER_CERTIFICATE_H
#define QPC_ENGINE_SOLVER_CERTIFICATE_H

#include "base/mem.h"
#include "engine/solver/friction.h"
#include "engine/solver/qp.h"

typedef struct qpc_certificate {
    double stat, prim, dual, comp, err; // dimensionless
    double natural;                     // m/s
    double violation;                   // largest viol_i, m/s
    double scale;                       // S, sqrt(J)
    double solve_check;                 // |K z - r| / |r| of the K-solve behind stat
    uint64_t active_hash;               // XXH3-64 of the sorted keys with lambda > 0
    int32_t active;
    bool bounded;               // stat, prim, dual, comp, err are upper bounds: K is not factored
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

#endif
