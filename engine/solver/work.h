/// What the engines share inside one qpc_solve: the prepared problem, row products, residuals.
#ifndef QPC_ENGINE_SOLVER_WORK_H
#define QPC_ENGINE_SOLVER_WORK_H

#include "engine/solver/solver.h"

/// Prepared once per solve; everything lives in the arena.
typedef struct qpc_work {
    const qpc_qp *qp;
    qpc_arena *arena;
    double *free_dv;  // (n) K^-1 b
    double *kt2;      // (m) sum_j J_ij^2 / K_jj, 1/kg; 0 for an empty row
    double *kt;       // (m) its root
    double free_norm; // |K^-1 b|_K
    double scale;     // S so far: max(|K^-1 b|_K, max viol_i(K^-1 b) / kt_i), floor 1e-140
    bool exact;       // of the options: residuals are measured without what K^-1 b violates, which rows can blow up
    bool rough;       // free_dv is known to two digits only: there was no factor
    double stat_tolerance; // to which |r|_{K^-1} is taken where there is no factor
    double stat_enough; // |r|_{D^-1} / S, D the masses, up to which that is taken for |r|_{K^-1} there
    double beyond;    // of the options
    double spare;     // m/s: what an empty row may ask for and count as met, of the options
    int32_t missed;   // rows that K^-1 b misses, equalities included: 0 means it is the answer
} qpc_work;

/// Checks that K, b, J, c and the warm start are finite and prepares the rest.
qpc_status qpc_work_init(qpc_work *work, const qpc_qp *qp, const qpc_solver_options *options, qpc_arena *arena,
                         const double *lambda, qpc_error *err);

/// A row that no motion moves (kt = 0) and that asks for more than round-off, 0 <= c_i or 0 = c_i: a proof by itself that there is
/// no solution, its multiplier being 1. -1: there is none.
int32_t qpc_work_impossible(const qpc_work *work);

static inline double qpc_row_dot(const qpc_qp *qp, int32_t row, const double *x) {
    double s = 0;
    for (int32_t k = qp->row_start[row]; k < qp->row_start[row + 1]; k++)
        s += qp->value[k] * x[qp->column[k]];
    return s;
}

static inline void qpc_row_add(const qpc_qp *qp, int32_t row, double s, double *y) {
    for (int32_t k = qp->row_start[row]; k < qp->row_start[row + 1]; k++)
        y[qp->column[k]] += s * qp->value[k];
}

/// |J_i| |x| + |c_i|: what round-off in the row is measured against.
static inline double qpc_row_size(const qpc_qp *qp, int32_t row, const double *x) {
    double s = qp->c[row] < 0 ? -qp->c[row] : qp->c[row];
    for (int32_t k = qp->row_start[row]; k < qp->row_start[row + 1]; k++) {
        double t = qp->value[k] * x[qp->column[k]];
        s += t < 0 ? -t : t;
    }
    return s;
}

typedef struct qpc_residuals { // as in certificate.h, for the engines' own decisions
    double stat, prim, comp, natural, scale;
} qpc_residuals;

/// r, z (n): scratch. One K-product and, unless a bound will do, one K-solve.
qpc_residuals qpc_work_residuals(const qpc_work *work, const double *x, const double *lambda,
                                 double *r, double *z);
/// The acceptance rule of a step's QP; margin < 1 asks for more than the options do.
bool qpc_work_accepts(const qpc_residuals *residuals, const qpc_solver_options *options,
                      double margin);
/// Of an engine out of iterations: x and lambda (m, in and out) become the motion and the impulses with the largest dual objective
/// between `start` (m) and lambda (T43). r (n), rows (m): scratch. K is factored.
void qpc_work_best_between(const qpc_work *work, const double *start, double *x, double *lambda, double *r, double *rows);
/// Rows with lambda > 0, plus equalities.
int32_t qpc_work_active(const qpc_qp *qp, const double *lambda);

// The engines. x (n) out, lambda (m) in the warm start, out multipliers: both are scratch copies of
// the caller, so that an error leaves the user's arrays untouched. shift: NULL, or (m) diagonal
// added to the Delassus operator on relaxed rows (J x - shift lambda <= c).
qpc_status qpc_active_set_run(const qpc_work *work, const qpc_solver_options *options,
                              const double *shift, double *x, double *lambda,
                              qpc_solver_report *report, qpc_error *err);
/// hand_over: stop where active-set is known to be faster (for `auto`).
qpc_status qpc_augmented_lagrangian_run(const qpc_work *work, const qpc_solver_options *options,
                                        bool hand_over, double *x, double *lambda,
                                        qpc_solver_report *report, qpc_error *err);
/// Proximal steps of the dual with one weight for all rows: x minimises 1/2 x'Kx - b'x + 1/(2 eps) |(J x - c + eps lambda)_+|^2,
/// and lambda goes to (lambda + (J x - c) / eps)_+. From K^-1 b and no multipliers; c is that of work->qp. A step may stop
/// short of its minimum. beyond > 0: *ret_ended is set where x would have an unknown beyond that, x being the last one without (or
/// the first one of all). end accepts NULL.
typedef struct qpc_alm_proximal qpc_alm_proximal;
qpc_status qpc_alm_proximal_begin(const qpc_work *work, double eps, double beyond, double *x, double *lambda,
                                  qpc_alm_proximal **ret, qpc_error *err);
qpc_status qpc_alm_proximal_step(qpc_alm_proximal *p, bool *ret_ended, qpc_error *err);
void qpc_alm_proximal_end(qpc_alm_proximal *p);
/// The same without a factor (alm_pcg.c), where that pays by the sizes of K (and with these rows); OPTIMAL or a limit in the report.
bool qpc_alm_pcg_pays(const qpc_linsys *sys);
bool qpc_alm_pcg_pays_with(const qpc_qp *qp);
/// Floating-point operations of one step of conjugate gradients on K.
double qpc_alm_pcg_step_operations(const qpc_linsys *sys);
qpc_status qpc_alm_pcg_run(const qpc_work *work, const qpc_solver_options *options, double *x,
                           double *lambda, qpc_solver_report *report, qpc_error *err);
qpc_status qpc_augmented_cg_run(const qpc_work *work, const qpc_solver_options *options, double *x,
                                double *lambda, qpc_solver_report *report, qpc_error *err);
/// Whether rows contradict, by the elastic problem: INFEASIBLE with the rows of a proof in the report, or STALLED.
qpc_status qpc_interior_point_prove(const qpc_work *work, const qpc_solver_options *options, qpc_solver_report *report,
                                    qpc_error *err);
/// Cold: what lambda holds is not looked at.
qpc_status qpc_interior_point_run(const qpc_work *work, const qpc_solver_options *options, double *x,
                                  double *lambda, qpc_solver_report *report, qpc_error *err);
/// Dense: A = J K^-1 J' and a dictionary of that size. With more than 2,048 rows: the free motion and ITERATION_LIMIT.
qpc_status qpc_lcp_impulse_run(const qpc_work *work, const qpc_solver_options *options, double *x, double *lambda,
                               qpc_solver_report *report, qpc_error *err);
qpc_status qpc_projected_run(const qpc_work *work, const qpc_solver_options *options, double *x,
                             double *lambda, qpc_solver_report *report, qpc_error *err);

/// The rule of `auto`. r, z (n): scratch.
qpc_status qpc_auto_run(const qpc_work *work, const qpc_solver_options *options, double *x, double *lambda,
                        double *r, double *z, qpc_solver_report *report, qpc_error *err);

#define QPC_SOLVER_MEMORY(err, work)                                                               \
    qpc_fail((err), QPC_ERR_MEMORY, "out of memory for a QP of %d unknowns and %d rows",           \
             (work)->qp->n, (work)->qp->m)

/// Work counts add up, the rest is the last one's.
void qpc_report_add(qpc_solver_report *sum, const qpc_solver_report *one);

#endif
