/// What the parts of augmented-lagrangian share: one run's state, and the three ways to a Newton step.
///
/// augmented_lagrangian.c has the method; alm_band.c (K banded) and alm_sparse.c (K of any pattern, one sparse
/// Cholesky a change of the set) factor K + J_A'R J_A for it. alm_pcg.c is a run of its own, without any
/// factor.
#ifndef QPC_ENGINE_SOLVER_ALM_H
#define QPC_ENGINE_SOLVER_ALM_H

#include "engine/solver/normal.h"
#include "engine/solver/sparse.h"
#include "engine/solver/work.h"

/// K + J_A'R J_A in a band, with what reaches beyond it.
typedef struct qpc_alm_band {
    uint8_t *far, *used;    // (m) columns beyond the band; taken into the sparse structure
    double *band, *factor;  // K + near rows
    int64_t size;
    int32_t far_rows;  // rows that reach beyond the band
    int32_t far_count; // active ones
    int32_t *far_row;  // (far_rows)
    double *Y;         // blocks of (n x 4): B^-1 J_far'
    double *S;         // packed factor of R^-1 + J_far Y, as in delassus.c
    double *e;         // (FAR_DIRECT)
    double *cg;        // (3 n) CG
    bool valid;         // the banded factor is that of `factored`
    bool by_sparse;     // the sparse factor is
    int8_t sparse_fits; // -1 not analysed yet, 0 no, 1 yes
    bool hand_over;     // stop where active-set is faster
    qpc_sparse sparse;  // of K, near rows and those with `used`
    qpc_arena_mark sparse_from;
} qpc_alm_band;

/// K + J_A'R J_A by normal.h.
typedef struct qpc_alm_sparse {
    qpc_normal *normal;
    uint8_t *used;      // (m) rows in its pattern
    double *weight;     // (m)
    int32_t patterns;   // made so far
} qpc_alm_sparse;

typedef struct qpc_alm {
    const qpc_work *work;
    const qpc_qp *qp;
    double *x;                        // (n)
    double *mu;                       // (m) the caller's lambda
    double *R, *u, *g, *Jd, *trial;   // (m)
    uint8_t *active, *factored;       // (m) now; in the factor
    double *grad, *d, *t, *rd;        // (n)
    double *kept_x, *kept_mu;         // (n), (m) what was accepted
    bool have_factor;
    bool no_memory;                   // for a factor
    qpc_solver_report *report;
    bool general;                     // K of any pattern: `sparse`, else `band`
    bool stepped;                     // trial holds the multipliers of a Newton step's target, on the set in the factor
    bool refined;                     // R is so large that stationarity needs refinement
    qpc_alm_band band;
    qpc_alm_sparse sparse;
} qpc_alm;

/// Minimum of phi along d: the root of its slope, which is increasing and piecewise linear in t. Newton on the slope,
/// kept inside a bracket; exact once a step stays on one piece. R, u, Jd (m); stops at a relative change of `precision`.
double qpc_alm_line_search(const qpc_qp *qp, const double *R, const double *u, const double *Jd, double slope0,
                           double curve0, double precision);

// For either way: memory from the arena (false: none left); R is new, nothing of the factor holds;
// K + J_A'R J_A of the present active set, into `factored` (false: not positive definite, no memory or
// handed over); d = its inverse times rhs, rhs being kept.
bool qpc_alm_band_allocate(qpc_alm *s, qpc_arena *arena);
void qpc_alm_band_renew(qpc_alm *s);
bool qpc_alm_band_factor(qpc_alm *s);
void qpc_alm_band_solve(qpc_alm *s, const double *rhs, double *d);
bool qpc_alm_sparse_allocate(qpc_alm *s, qpc_arena *arena);
bool qpc_alm_sparse_factor(qpc_alm *s);
void qpc_alm_sparse_solve(qpc_alm *s, const double *rhs, double *d);
void qpc_alm_sparse_fini(qpc_alm *s);

#endif
