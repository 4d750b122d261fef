/// The last digits of interior-point: multipliers and the active set of a near iterate, made exact.
///
///     u = lambda + R (J x - c), active: u > 0 and equalities;  (K + J_A'R J_A) d = -(K x - b + J_A'u_A)
///
/// R is large, so that with the right set each update of lambda = u+ gains several digits for one
/// solve with the factor at hand. Steps end at the exact minimum along d, as in augmented_lagrangian.c,
/// so a set that is not quite right is mended, not cycled over. Runs on the worker in the world.
#include "engine/solver/interior.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const double RHO = 1e6, SMALL_COMP = 1e-15;

enum { OUTER_MOST = 60, SLOW_MOST = 3 };

typedef struct finish {
    const qpc_work *work;
    const qpc_qp *qp;
    qpc_normal *normal;
    double *x, *lambda;
    double *R, *g, *u, *Jd, *weight, *best_lambda; // (m)
    double *grad, *d, *t, *best_x;                 // (n)
    uint8_t *active, *factored;                    // (m)
    bool have_factor;
    int32_t limit;
    qpc_solver_report *report;
} finish;

static bool allocate(finish *s) {
    qpc_arena *arena = s->work->arena;
    size_t n = (size_t)s->qp->n, m = (size_t)s->qp->m;
    double **const of_n[] = {&s->grad, &s->d, &s->t, &s->best_x};
    double **const of_m[] = {&s->R, &s->g, &s->u, &s->Jd, &s->weight, &s->best_lambda};
    for (size_t k = 0; k < sizeof of_n / sizeof *of_n; k++)
        if ((*of_n[k] = qpc_arena_array(arena, n, sizeof(double))) == NULL) return false;
    for (size_t k = 0; k < sizeof of_m / sizeof *of_m; k++)
        if ((*of_m[k] = qpc_arena_array(arena, m, sizeof(double))) == NULL) return false;
    s->active = qpc_arena_array(arena, m, 1);
    s->factored = qpc_arena_array(arena, m, 1);
    return s->active != NULL && s->factored != NULL;
}

/// Within round-off of zero u says nothing.
static bool flips(const finish *s, int32_t i, double u, bool now) {
    if (s->qp->equality[i] || (u > 0) == now || s->work->kt2[i] == 0) return false;
    return fabs(u) > 16 * DBL_EPSILON * (s->R[i] * qpc_row_size(s->qp, i, s->x) + s->lambda[i]);
}

static void update_active(finish *s) {
    for (int32_t i = 0; i < s->qp->m; i++) {
        s->u[i] = s->lambda[i] + s->R[i] * s->g[i];
        bool on = s->qp->equality[i] || s->u[i] > 0;
        if (s->have_factor && on != (s->factored[i] != 0) && !flips(s, i, s->u[i], s->factored[i]))
            on = s->factored[i] != 0;
        s->active[i] = on && s->work->kt2[i] > 0;
    }
}

/// Minimum along d: the root of the slope, increasing and piecewise linear in t.
static double line_search(const finish *s, double slope0, double curve0) {
    double low = 0, high = HUGE_VAL, t = 1;
    for (int32_t turn = 0; turn < 60; turn++) {
        double slope = slope0 + t * curve0, curve = curve0;
        for (int32_t i = 0; i < s->qp->m; i++) {
            double u = s->u[i] + t * s->R[i] * s->Jd[i];
            if (u <= 0 && !s->qp->equality[i]) continue;
            slope += u * s->Jd[i];
            curve += s->R[i] * s->Jd[i] * s->Jd[i];
        }
        if (slope > 0)
            high = t;
        else
            low = t;
        double next = t - slope / curve;
        if (!(next > low))
            next = high < HUGE_VAL ? 0.5 * (low + high) : low;
        else if (!(next < high))
            next = 0.5 * (low + high);
        if (!(fabs(next - t) > 1e-12 * t)) return next > 0 ? next : t;
        t = next;
    }
    return t;
}

static qpc_status factor(finish *s, qpc_error *err) {
    for (int32_t i = 0; i < s->qp->m; i++) {
        s->factored[i] = s->active[i];
        s->weight[i] = s->active[i] ? s->R[i] : 0;
    }
    s->report->factorizations++;
    qpc_status st = qpc_normal_factor(s->normal, s->qp, s->weight, err);
    s->have_factor = st == QPC_OK;
    return st;
}

/// Minimise over x for the present multipliers: u is that of the last point. *ret_done: it is the minimum.
static qpc_status minimise(finish *s, bool *ret_done, qpc_error *err) {
    const qpc_qp *qp = s->qp;
    int32_t n = qp->n, m = qp->m;
    *ret_done = false;
    for (;;) {
        // All afresh: K x - b and J x - c carried along would lose what the finish is there for.
        qpc_linsys_multiply(qp->sys, s->x, s->t);
        for (int32_t i = 0; i < n; i++) s->t[i] -= qp->b[i];
        for (int32_t i = 0; i < m; i++) s->g[i] = qpc_row_dot(qp, i, s->x) - qp->c[i];
        update_active(s);
        if (s->limit-- <= 0) return QPC_OK;
        s->report->iterations++;
        bool fresh = !s->have_factor;
        for (int32_t i = 0; i < n; i++) s->grad[i] = -s->t[i];
        for (int32_t i = 0; i < m; i++) {
            if (s->active[i]) qpc_row_add(qp, i, -s->u[i], s->grad);
            fresh |= s->active[i] != s->factored[i];
        }
        qpc_status st = fresh ? factor(s, err) : QPC_OK;
        if (st == QPC_OK) st = qpc_normal_solve(s->normal, s->grad, s->d, err);
        if (st != QPC_OK) return st == QPC_ERR_NUMERIC ? QPC_OK : st;
        qp->sys->solves++;
        double slope = 0, curve = 0;
        for (int32_t i = 0; i < n; i++) slope += s->t[i] * s->d[i];
        qpc_linsys_multiply(qp->sys, s->d, s->t);
        for (int32_t i = 0; i < n; i++) curve += s->d[i] * s->t[i];
        if (!isfinite(curve)) return QPC_OK;
        bool same = true;
        for (int32_t i = 0; i < m; i++) {
            s->Jd[i] = qpc_row_dot(qp, i, s->d);
            same &= !flips(s, i, s->u[i] + s->R[i] * s->Jd[i], s->active[i] != 0);
        }
        if (same || curve <= 1e-30 * s->work->scale * s->work->scale) {
            for (int32_t i = 0; i < n; i++) s->x[i] += s->d[i];
            for (int32_t i = 0; i < m; i++) s->u[i] += s->R[i] * s->Jd[i];
            *ret_done = true;
            return QPC_OK;
        }
        double t = line_search(s, slope, curve);
        for (int32_t i = 0; i < n; i++) s->x[i] += t * s->d[i];
    }
}

static double most(double a, double b) {
    return a > b ? a : b;
}

qpc_status qpc_interior_finish(const qpc_work *work, const qpc_solver_options *options, qpc_normal *normal,
                               int32_t limit, double *x, double *lambda, qpc_solver_report *report,
                               qpc_error *err) {
    const qpc_qp *qp = work->qp;
    finish s = {.work = work, .qp = qp, .normal = normal, .x = x, .lambda = lambda, .limit = limit, .report = report};
    size_t n = (size_t)qp->n, m = (size_t)qp->m;
    report->outcome = QPC_OUTCOME_ITERATION_LIMIT;
    qpc_arena_mark mark = qpc_arena_get_mark(work->arena);
    if (!allocate(&s)) return QPC_SOLVER_MEMORY(err, work);
    for (int32_t i = 0; i < qp->m; i++) s.R[i] = work->kt2[i] > 0 ? RHO / work->kt2[i] : 0;
    double best = DBL_MAX;
    int32_t slow = 0;
    qpc_status st = QPC_OK;
    for (int32_t outer = 0; outer < OUTER_MOST; outer++) {
        bool done;
        st = minimise(&s, &done, err);
        if (st != QPC_OK) goto out;
        for (int32_t i = 0; i < qp->m; i++)
            lambda[i] = work->kt2[i] > 0 && (qp->equality[i] || s.u[i] > 0) ? s.u[i] : 0;
        qpc_residuals now = qpc_work_residuals(work, x, lambda, s.grad, s.t);
        double all = most(most(now.stat, now.prim) / 1e-12, now.comp / SMALL_COMP);
        bool accepted = qpc_work_accepts(&now, options, 0.25);
        if (accepted) report->outcome = QPC_OUTCOME_OPTIMAL;
        if (all < best) {
            slow = all < 0.25 * best ? 0 : slow + 1;
            best = all;
            memcpy(s.best_x, x, n * sizeof *x);
            if (m > 0) memcpy(s.best_lambda, lambda, m * sizeof *lambda);
        } else {
            slow++;
        }
        if (!done || !isfinite(all) || slow >= SLOW_MOST || (accepted && (now.comp <= SMALL_COMP || slow > 0))) break;
    }
    if (best < DBL_MAX) {
        memcpy(x, s.best_x, n * sizeof *x);
        if (m > 0) memcpy(lambda, s.best_lambda, m * sizeof *lambda);
    }
    if (report->outcome != QPC_OUTCOME_OPTIMAL && s.limit >= 0) report->outcome = QPC_OUTCOME_STALLED;
out:
    qpc_arena_rewind(work->arena, mark);
    return st;
}
