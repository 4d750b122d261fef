/// Judges answers to instances by the definitions of tests/data/qp/README.md: its own arithmetic
/// over the arrays of the file, sums in extended precision, K^-1 by a factor of its own. Shares
/// nothing with the engine. For the tool qp_instances and its tests. One thread.
#ifndef QPC_TOOLS_QP_SCORE_H
#define QPC_TOOLS_QP_SCORE_H

#include "tools/qp_cholesky.h"
#include "tools/qp_file.h"

/// What a file itself determines.
typedef struct qp_ground {
    const qp_file *file;
    qp_cholesky L; // QP
    double *kappa; // QP: (m) sqrt(J_i K^-1 J_i'), 1 for an empty row
    double *rho;   // friction: (m) 1 / lambda_max(W_kk)
    double scale;  // S, floor 1e-140
} qp_ground;

/// Dimensionless. A kind that does not have one leaves 0.
typedef struct qp_score {
    double stat;       // QP |K x - b + J'lam|_{K^-1} / S; LCP |x - M^-1 J'f|_M / S
    double stat_cw;    // QP, component by component
    double prim;       // QP violation; LCP max(-w_i) / (sqrt(A_ii) S)
    double dual;       // QP negative multipliers; LCP max(-f_i) sqrt(A_ii) / S
    double comp;       // QP, LCP
    double distance;   // from the stored solution: QP |x - x*|_K / S; LCP |v_plus - v_plus*|_M / S
    double w_distance; // LCP: max |w_i - w_i*| / (sqrt(A_ii) S)
    double natural, penetration, cone, dissipation; // friction
} qp_score;

/// Factor, kappa, S; then the file's own claims: kappa, S, that what it stores is a solution
/// (1e-9), or a proof, the objective of that, and b = (1 + eps) J v of an LCP. QPC_ERR_CORRUPT says
/// which is not so. The file is borrowed.
qpc_status qp_ground_init(qp_ground *ground, const qp_file *file, qpc_error *err);
void qp_ground_fini(qp_ground *ground);

/// relaxed: against c + relax_s, rows with relax_s != 0 as equalities. QPC_ERR_MEMORY.
qpc_status qp_score_qp(const qp_ground *ground, const double *x, const double *lam, bool relaxed,
                       qp_score *ret, qpc_error *err);
/// x (n): change of velocity, f (m) impulses.
qpc_status qp_score_lcp(const qp_ground *ground, const double *x, const double *f, qp_score *ret,
                        qpc_error *err);
qpc_status qp_score_friction(const qp_ground *ground, const double *r, qp_score *ret,
                             qpc_error *err);

/// Do these rows contradict? y >= 0 on them (free on equalities) with c'y < 0 and the least
/// |J'y|_{K^-1} is looked for: what the engine had in mind does not matter.
typedef struct qp_conflict {
    double size;   // |J'y|_{K^-1} / sum |y| kappa
    double slope;  // c'y / sum |y c|
    double radius; // no x with |x|_K below that many S meets the rows
    bool holds;    // size <= 1e-12, slope < 0 beyond round-off (1e-12), radius >= 1e3
} qp_conflict;
qpc_status qp_score_conflict(const qp_ground *ground, const int32_t *rows, int32_t count,
                             qp_conflict *ret, qpc_error *err);
/// |s - relax_s|_2 / |relax_s|_2
double qp_score_relaxation(const qp_ground *ground, const double *s);

#endif
