/// Inside qpc_solve_friction: the exact mode where K has any pattern (cloth, mixtures), in memory linear in the rows.
///
/// All rows are blocks at once (friction_block.h) and W is never formed. De Saxce's fixed point on the augmented Lagrangian of
/// its convex problems (docs/theory-friction.md), each Newton step by conjugate gradients or by a sparse Cholesky of
/// K + H'C H. friction_sparse.c decides, friction_sparse_step.c takes the steps. One thread; memory from the arena.
#ifndef QPC_ENGINE_SOLVER_FRICTION_SPARSE_H
#define QPC_ENGINE_SOLVER_FRICTION_SPARSE_H

#include "engine/dynamics/ssor.h"
#include "engine/solver/friction_block.h"
#include "engine/solver/normal.h"

/// K is no band, no row has more than 12 columns, and there are contacts enough for it to pay, or K is dear to factor.
bool qpc_friction_sparse_pays(const qpc_qp *qp, const qpc_friction *friction);

/// K is near the masses everywhere, and conjugate gradients do without a factor.
bool qpc_friction_is_mild(const qpc_linsys *sys);

/// start (n): a guess of dv, or NULL. lambda (m), beta (2 count): warm start in, best iterate out; dv (n) its motion. At most
/// `most` Newton steps, added to found->newton; found: residuals and counts.
/// Ends early where `doubt` says so. report: conjugate gradients and factorisations are added. QPC_ERR_MEMORY, QPC_ERR_NUMERIC.
qpc_status qpc_friction_sparse_solve(const qpc_qp *qp, const qpc_friction *friction, double tolerance, int32_t most,
                                     const double *start, const qpc_friction_doubt *doubt, qpc_arena *arena, double *dv,
                                     double *lambda, double *beta,
                                     qpc_solver_report *report, qpc_friction_report *found, qpc_error *err);

// ---- what the two files share ----

typedef struct qpc_sheet {
    const qpc_qp *qp;
    const qpc_friction *friction;
    qpc_arena *arena;
    qpc_friction_block *blocks; // (m)
    qpc_qp rows;                // G with G'G = H'C H, `size` rows a block, all of a block on its columns
    int32_t *row_start, *row_column, *list, listed;
    double *carried;            // (m x 3) x in the residual that is followed
    double *row_value, *weight; // weight: 1 of what is listed, else 0
    qpc_ssor ssor;
    qpc_normal *normal;         // with a factor instead
    bool by_cg;
    bool single;                // K d of steps in single precision: `rest` drifts off by 1e-7 of it
    bool late;                  // alike, and residuals are followed without products (ssor.h): `dv`, `rest` and `grad` are
    bool fresh;                 // as they were at the last refresh then, unless fresh
    double *dv, *rest, *grad, *d, *Kd, *free_dv; // (3 nodes); rest: K dv - b, grad: H'x - rest
    double gradient;            // in the norm of what preconditions
    int64_t cg_steps;
    int32_t factorizations;
} qpc_sheet;

bool qpc_sheet_allocate_steps(qpc_sheet *s);
void qpc_sheet_fini_steps(qpc_sheet *s);
/// x of all blocks (linear: P at the centres, linearised), the gradient and the matrix of the next step. False: K + H'C H
/// is not positive definite to single precision.
bool qpc_sheet_linearise(qpc_sheet *s, bool linear);
/// A step from there, the gradient being taken down to `target`, and to the minimum along it (whole: all of it).
/// *ret_good false: there is no such step. QPC_ERR_MEMORY, QPC_ERR_LIMIT.
qpc_status qpc_sheet_step(qpc_sheet *s, double target, bool whole, bool *ret_good, qpc_error *err);
/// The factor of what was linearised, where there is one.
qpc_status qpc_sheet_factor(qpc_sheet *s, bool *ret_good, qpc_error *err);
/// y = K x; both (3 nodes)
static inline void qpc_sheet_multiply(const qpc_qp *qp, const double *x, double *y) {
    qpc_linsys_product(qp->sys, x, y);
}
/// x becomes the centre of all blocks, and g what it is there.
void qpc_sheet_center(qpc_sheet *s);
/// mu |y_T|
double qpc_sheet_slide(const qpc_friction_block *b);
/// Whole Newton steps that see g move, as long as they get on, down to an error of `goal`. *ret_gained: some did; else all is as it was
/// (but what was linearised).
qpc_status qpc_sheet_leap(qpc_sheet *s, double R, double goal, int32_t most, int32_t *steps, bool *ret_gained, qpc_error *err);
/// Newton on the law in the form of Alart and Curnier from x of the blocks, at most `most` steps, down to a natural residual of `goal`.
/// x of the blocks: the best so far by it, dv: its motion to the round-off of K^-1. QPC_ERR_MEMORY, QPC_ERR_LIMIT.
qpc_status qpc_sheet_newton(qpc_sheet *s, double goal, int32_t most, int32_t *steps, qpc_error *err);
/// rest and y afresh from dv, with the steps that were followed.
void qpc_sheet_refresh(qpc_sheet *s);

#endif
