/// Conjugate gradients on [K J_A'; J_A -L], after sections 5.1 and 7.2 of the 2006 paper (T31).
///
/// For comparison with the paper, not for use: the matrix is indefinite (CG may break down), L
/// leaves every active row short by L_i lambda_i, and the watch list keeps the loop finite by
/// giving rows up. Algorithm 1: start from the warm set, solve, drop rows that pull, add rows that
/// are violated, until nothing changes; a row that toggles more than TOGGLES times goes on the
/// watch list and is left out for the rest of the solve. Runs on the worker in the world; memory
/// from the arena.
#include "engine/solver/work.h"

#include <math.h>
#include <string.h>

enum { TOGGLES = 3 };

typedef struct cg {
    const qpc_work *work;
    const qpc_qp *qp;
    double *L;                 // (m)
    double *v, *r, *p, *q;     // (n + m) unknowns (dv, lambda_A), residual, direction, A p
    uint8_t *active, *toggles; // (m)
    bool broke_down;
    int32_t left; // steps at most
    int32_t restarts;
} cg;

/// y = [K J_A'; J_A -L] x; places of rows outside A are zero.
static void multiply(const cg *s, const double *x, double *y) {
    const qpc_qp *qp = s->qp;
    qpc_linsys_multiply(qp->sys, x, y);
    for (int32_t i = 0; i < qp->m; i++) {
        int32_t at = qp->n + i;
        if (!s->active[i]) {
            y[at] = 0;
            continue;
        }
        qpc_row_add(qp, i, x[at], y);
        y[at] = qpc_row_dot(qp, i, x) - s->L[i] * x[at];
    }
}

static double dot(const double *a, const double *b, int32_t count) {
    double s = 0;
    for (int32_t i = 0; i < count; i++) s += a[i] * b[i];
    return s;
}

/// CG for the present set from the present v; returns its steps.
static int32_t iterate(cg *s) {
    const qpc_qp *qp = s->qp;
    int32_t size = qp->n + qp->m, rows = 0, step = 0;
    double rhs2 = dot(qp->b, qp->b, qp->n);
    for (int32_t i = 0; i < qp->m; i++) {
        rows += s->active[i];
        if (s->active[i])
            rhs2 += qp->c[i] * qp->c[i];
        else
            s->v[qp->n + i] = 0;
    }
    int32_t cap = 3 * qp->n + rows; // the paper's own bound
    if (cap > s->left) cap = s->left;
    multiply(s, s->v, s->q);
    for (int32_t i = 0; i < qp->n; i++) s->r[i] = qp->b[i] - s->q[i];
    for (int32_t i = 0; i < qp->m; i++)
        s->r[qp->n + i] = s->active[i] ? qp->c[i] - s->q[qp->n + i] : 0;
    memcpy(s->p, s->r, (size_t)size * sizeof(double));
    double rr = dot(s->r, s->r, size);
    for (; step < cap && rr > 1e-24 * rhs2; step++) {
        multiply(s, s->p, s->q);
        double pq = dot(s->p, s->q, size);
        // p'Ap has no sign here; where it vanishes CG has no step to take. A start that solves the
        // first block, as the last set's answer does, gives such a p at once: begin from zero then.
        double bound = 1e-14 * sqrt(dot(s->p, s->p, size) * dot(s->q, s->q, size));
        if (!(fabs(pq) > bound) || !isfinite(pq)) {
            s->broke_down = true;
            break;
        }
        double alpha = rr / pq;
        for (int32_t i = 0; i < size; i++) {
            s->v[i] += alpha * s->p[i];
            s->r[i] -= alpha * s->q[i];
        }
        double next = dot(s->r, s->r, size), beta = next / rr;
        rr = next;
        if (!isfinite(rr)) {
            s->broke_down = true;
            break;
        }
        for (int32_t i = 0; i < size; i++) s->p[i] = s->r[i] + beta * s->p[i];
    }
    return step;
}

/// Solve for the present set; if CG breaks down, once more from zero.
static int32_t solve(cg *s) {
    int32_t steps = iterate(s);
    if (!s->broke_down) return steps;
    s->broke_down = false;
    s->restarts++;
    memset(s->v, 0, (size_t)(s->qp->n + s->qp->m) * sizeof(double));
    s->left -= steps;
    return steps + iterate(s);
}

qpc_status qpc_augmented_cg_run(const qpc_work *work, const qpc_solver_options *options, double *x,
                                double *lambda, qpc_solver_report *report, qpc_error *err) {
    const qpc_qp *qp = work->qp;
    size_t n = (size_t)qp->n, m = (size_t)qp->m;
    cg s = {.work = work, .qp = qp};
    report->engine = QPC_SOLVER_AUGMENTED_CG;
    report->outcome = QPC_OUTCOME_ITERATION_LIMIT;
    s.L = qpc_arena_array(work->arena, m, sizeof(double));
    double *columns = qpc_arena_array(work->arena, 4 * (n + m), sizeof(double));
    double *kept = qpc_arena_array(work->arena, n + m, sizeof(double));
    uint8_t *flags = qpc_arena_array(work->arena, 2 * m, 1);
    if (s.L == NULL || columns == NULL || kept == NULL || flags == NULL)
        return QPC_SOLVER_MEMORY(err, work);
    s.v = columns;
    s.r = columns + (n + m);
    s.p = columns + 2 * (n + m);
    s.q = columns + 3 * (n + m);
    s.active = flags;
    s.toggles = flags + m;
    for (size_t i = 0; i < m; i++) {
        bool empty = work->kt2[i] == 0;
        s.L[i] = options->perturbation >= 0 ? options->perturbation
                                            : -options->perturbation * work->kt2[i];
        s.active[i] = !empty && (qp->equality[i] || lambda[i] > 0);
        s.toggles[i] = 0;
        s.v[n + i] = s.active[i] ? lambda[i] : 0;
    }
    memset(s.v, 0, n * sizeof(double));
    int32_t limit = options->max_iterations > 0 ? options->max_iterations : INT32_MAX;
    for (int32_t turn = 0; turn < 100 && report->iterations < limit; turn++) {
        s.left = limit - report->iterations;
        memcpy(kept, s.v, (n + m) * sizeof(double));
        report->iterations += solve(&s);
        if (s.broke_down) { // the last finite iterate is the answer
            memcpy(s.v, kept, (n + m) * sizeof(double));
            report->outcome = QPC_OUTCOME_STALLED;
            break;
        }
        bool changed = false;
        for (int32_t i = 0; i < qp->m; i++) {
            if (qp->equality[i] || work->kt2[i] == 0) continue;
            bool on = s.active[i] != 0, want = on;
            if (on) {
                want = s.v[qp->n + i] > 0;
            } else {
                double violation = qpc_row_dot(qp, i, s.v) - qp->c[i];
                want = violation > options->residual_tolerance && s.toggles[i] <= TOGGLES;
            }
            if (want == on || report->iterations >= limit) {
                changed = changed || want != on;
                continue;
            }
            report->iterations++;
            changed = true;
            s.active[i] = want;
            if (s.toggles[i] < 255) s.toggles[i]++;
            if (want)
                report->adds++;
            else
                report->drops++;
            if (!want && s.toggles[i] > TOGGLES) report->implied++; // on the watch list
        }
        if (!changed) {
            report->outcome = QPC_OUTCOME_OPTIMAL;
            break;
        }
    }
    memcpy(x, s.v, n * sizeof(double));
    for (int32_t i = 0; i < qp->m; i++) {
        double l = s.active[i] ? s.v[qp->n + i] : 0;
        lambda[i] = qp->equality[i] || l > 0 ? l : 0;
    }
    report->rebuilds = s.restarts;
    // Its own stopping rule says nothing about the residuals: judge by those.
    qpc_residuals residuals = qpc_work_residuals(work, x, lambda, s.r, s.q);
    if (report->outcome == QPC_OUTCOME_OPTIMAL && !qpc_work_accepts(&residuals, options, 1))
        report->outcome = QPC_OUTCOME_ITERATION_LIMIT;
    report->active = qpc_work_active(qp, lambda);
    return QPC_OK;
}
