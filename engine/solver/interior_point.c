/// Interior point: Mehrotra's predictor and corrector on the normal equations (T39).
///
///     K x - b + J'lambda = 0     J x + s = c     lambda_i s_i = mu -> 0     s, lambda > 0
///
/// Each step solves with K + J'WJ, W = lambda / s on inequalities and 1 / delta on equalities (a
/// proximal term of the multipliers, so that dependent equalities do no harm). Rows are taken per
/// unit of kt, so that their scaling, units and masses do not matter; dependent rows share their
/// load and cost nothing. Cholesky of K + J'WJ stays accurate however large W grows, so the same
/// steps go on to the last digits. No warm start. Where rows contradict, multipliers grow along a
/// proof of it: that is looked for at every step (proof.c). The elastic problem, J x + s = c + eps lambda,
/// always has an answer, and its multipliers prove more the smaller eps is. Runs on the worker in the world;
/// vectors from the arena, the factor on the heap until the end of the call.
#include "engine/solver/normal.h"
#include "engine/solver/proof.h"
#include "engine/solver/work.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const double NEAR = 1e-8, NEAR_COMP = 1e-13; // from where the exact residuals are looked at
static const double GOOD_STAT = 1e-10, GOOD_PRIM = 1e-10, GOOD_COMP = 1e-16; // where it ends
static const double DELTA_EQUALITY = 1e-11,
                    DELTA = 1e-13;       // proximal terms of multipliers, per unit of kt
static const double KEEP_MOST = 0.99999; // of the way to the border
static const double SHORT = 0.05;        // steps that get nowhere
static const double RUNAWAY = 1e12;      // lambda kt / S of rows that contradict
static const double ELASTIC = 1e-8, HARDER = 1e-2, ELASTIC_LEAST = 1e-13; // eps kt^2 of the elastic problems for a proof

enum {
    STEPS_MOST = 80,
    POOR_MOST = 8, // steps in a row that get nowhere
    IDLE_MOST = 3, // and near the end, that do not halve what is left
    UNPROVEN = 4,  // steps before a proof is looked for
};

typedef struct ipm {
    const qpc_work *work;
    const qpc_qp *qp;
    qpc_normal *normal;
    double *x, *rd, *rhs, *dx, *best_x; // (n)
    double *inverse;                    // (m) 1 / kt, 0: an empty row, which is left out
    double *l, *s, *rp, *w, *h, *Jd, *dl, *ds, *weight; // (m) per unit of kt
    double *best_lambda;                                // (m)
    double best;
    double elastic; // eps per unit of kt, or 0
    double *proof;  // (m) multipliers that prove that rows contradict
    bool proved;
    int32_t count; // inequalities that take part
    qpc_solver_report *report;
} ipm;

static bool allocate(ipm *p) {
    qpc_arena *arena = p->work->arena;
    size_t n = (size_t)p->qp->n, m = (size_t)p->qp->m;
    double **const of_n[] = {&p->rd, &p->rhs, &p->dx, &p->best_x};
    double **const of_m[] = {&p->inverse, &p->l,  &p->s,      &p->rp,          &p->w,    &p->h, &p->Jd,
                             &p->dl,      &p->ds, &p->weight, &p->best_lambda, &p->proof};
    for (size_t k = 0; k < sizeof of_n / sizeof *of_n; k++)
        if ((*of_n[k] = qpc_arena_array(arena, n, sizeof(double))) == NULL) return false;
    for (size_t k = 0; k < sizeof of_m / sizeof *of_m; k++)
        if ((*of_m[k] = qpc_arena_array(arena, m, sizeof(double))) == NULL) return false;
    return true;
}

/// s = max(c - J x, st), l = st^2 / s at x = K^-1 b; st is the largest violation.
static void start(ipm *p) {
    const qpc_qp *qp = p->qp;
    double st = 0;
    memcpy(p->x, p->work->free_dv, (size_t)qp->n * sizeof(double));
    for (int32_t i = 0; i < qp->m; i++) {
        p->dl[i] = p->ds[i] = 0;
        double kt = p->work->kt[i];
        p->inverse[i] = kt > 0 ? 1 / kt : 0;
        p->s[i] = (qp->c[i] - qpc_row_dot(qp, i, p->x)) * p->inverse[i];
        if (-p->s[i] > st) st = -p->s[i];
        if (qp->equality[i]) {
            if (p->s[i] > st) st = p->s[i];
            p->l[i] = p->s[i] = 0;
        } else {
            p->count += kt > 0;
        }
    }
    if (!(st > 1e-3 * p->work->scale)) st = 1e-3 * p->work->scale;
    for (int32_t i = 0; i < qp->m; i++) {
        if (qp->equality[i]) continue;
        if (p->s[i] < st) p->s[i] = st;
        p->l[i] = p->inverse[i] > 0 ? st * st / p->s[i] : 0;
    }
}

typedef struct measures {
    double stat, prim, comp; // relative to S; stat in the norm of diag(K)^-1
} measures;

/// rd = K x - b + J'lambda and rp = (J x - c) / kt + s, afresh.
static measures residuals(ipm *p) {
    const qpc_qp *qp = p->qp;
    measures out = {0};
    double S = p->work->scale;
    qpc_linsys_multiply(qp->sys, p->x, p->rd);
    for (int32_t i = 0; i < qp->n; i++) p->rd[i] -= qp->b[i];
    for (int32_t i = 0; i < qp->m; i++) {
        double inverse = p->inverse[i];
        p->rp[i] = 0;
        if (inverse == 0) continue;
        p->rp[i] = (qpc_row_dot(qp, i, p->x) - qp->c[i]) * inverse - p->elastic * p->l[i];
        qpc_row_add(qp, i, p->l[i] * inverse, p->rd);
        if (!qp->equality[i]) {
            p->rp[i] += p->s[i];
            out.comp += p->l[i] * p->s[i];
        }
        if (!(fabs(p->rp[i]) <= out.prim)) out.prim = fabs(p->rp[i]);
    }
    for (int32_t i = 0; i < qp->n; i++) out.stat += p->rd[i] * p->rd[i] / qp->sys->diagonal[i];
    out.stat = sqrt(out.stat) / S;
    out.prim /= S;
    out.comp /= S * S;
    return out;
}

static qpc_status factor(ipm *p, qpc_error *err) {
    const qpc_qp *qp = p->qp;
    double of_equalities = DELTA_EQUALITY + p->elastic, of_others = DELTA + p->elastic;
    for (int32_t i = 0; i < qp->m; i++) {
        if (p->inverse[i] == 0)
            p->w[i] = 0;
        else
            p->w[i] = qp->equality[i] ? 1 / of_equalities : p->l[i] / (p->s[i] + of_others * p->l[i]);
        p->weight[i] = p->w[i] * p->inverse[i] * p->inverse[i];
    }
    p->report->factorizations++;
    return qpc_normal_factor(p->normal, qp, p->weight, err);
}

/// (dx, dl, ds) for the complementarity l s + ds0 dl0 - target: the products of the predictor's
/// step are in ds and dl if `corrector`.
static qpc_status direction(ipm *p, double target, bool corrector, qpc_error *err) {
    const qpc_qp *qp = p->qp;
    double give = DELTA + p->elastic;
    for (int32_t i = 0; i < qp->n; i++) p->rhs[i] = -p->rd[i];
    for (int32_t i = 0; i < qp->m; i++) {
        if (p->inverse[i] == 0) continue;
        p->h[i] = 0;
        if (!qp->equality[i]) {
            double rc = p->l[i] * p->s[i] - target;
            if (corrector) rc += p->dl[i] * p->ds[i];
            p->h[i] = -rc / (p->s[i] + give * p->l[i]);
        }
        qpc_row_add(qp, i, -(p->w[i] * p->rp[i] + p->h[i]) * p->inverse[i], p->rhs);
    }
    qpc_status st = qpc_normal_solve(p->normal, p->rhs, p->dx, err);
    p->qp->sys->solves++;
    if (st != QPC_OK) return st;
    for (int32_t i = 0; i < qp->m; i++) {
        p->Jd[i] = p->dl[i] = p->ds[i] = 0;
        if (p->inverse[i] == 0) continue;
        p->Jd[i] = qpc_row_dot(qp, i, p->dx) * p->inverse[i];
        p->dl[i] = p->w[i] * (p->rp[i] + p->Jd[i]) + p->h[i];
        if (!qp->equality[i]) p->ds[i] = -p->rp[i] - p->Jd[i] + give * p->dl[i];
    }
    return QPC_OK;
}

/// The longest step, at most 1, that keeps s and l >= 0.
static double longest(const ipm *p) {
    double most = 1;
    for (int32_t i = 0; i < p->qp->m; i++) {
        if (p->qp->equality[i]) continue;
        if (p->ds[i] < 0 && p->s[i] < -most * p->ds[i]) most = -p->s[i] / p->ds[i];
        if (p->dl[i] < 0 && p->l[i] < -most * p->dl[i]) most = -p->l[i] / p->dl[i];
    }
    return most;
}

/// sum l s after a step of length t, inequalities only.
static double gap_after(const ipm *p, double t) {
    double sum = 0;
    for (int32_t i = 0; i < p->qp->m; i++)
        if (!p->qp->equality[i]) sum += (p->l[i] + t * p->dl[i]) * (p->s[i] + t * p->ds[i]);
    return sum;
}

/// Predictor, corrector, step. *ret_length: how far it went.
static qpc_status advance(ipm *p, double *ret_length, qpc_error *err) {
    const qpc_qp *qp = p->qp;
    double gap = gap_after(p, 0), t = 1;
    qpc_status st = factor(p, err);
    if (st == QPC_OK) st = direction(p, 0, false, err);
    if (st != QPC_OK) return st;
    if (p->count > 0) {
        t = longest(p);
        double ratio = gap > 0 ? gap_after(p, t) / gap : 0;
        st = direction(p, ratio * ratio * ratio * gap / p->count, true, err);
        if (st != QPC_OK) return st;
        t = longest(p);
        double keep = 1 - 0.1 * ratio;
        t *= keep < 0.9 ? 0.9 : keep > KEEP_MOST ? KEEP_MOST : keep;
    }
    for (int32_t i = 0; i < qp->n; i++) p->x[i] += t * p->dx[i];
    for (int32_t i = 0; i < qp->m; i++) {
        p->l[i] += t * p->dl[i];
        p->s[i] += t * p->ds[i];
    }
    *ret_length = t;
    return QPC_OK;
}

/// The multipliers of the answer: a row is held by its multiplier or by its slack, whichever is the
/// larger.
static void clean(const ipm *p, double *lambda) {
    for (int32_t i = 0; i < p->qp->m; i++) {
        bool held = p->qp->equality[i] || p->l[i] > p->s[i];
        lambda[i] = held ? p->l[i] * p->inverse[i] : 0;
    }
}

/// Keeps the iterate if it is the best so far, all[] being how far it is from what is asked for.
static bool better(ipm *p, const qpc_residuals *now, double *lambda) {
    const qpc_qp *qp = p->qp;
    double all = fmax(fmax(now->stat / GOOD_STAT, now->prim / GOOD_PRIM), now->comp / GOOD_COMP);
    if (!(all < p->best)) return false;
    bool much = all < 0.5 * p->best;
    p->best = all;
    memcpy(p->best_x, p->x, (size_t)qp->n * sizeof(double));
    memcpy(p->best_lambda, lambda, (size_t)qp->m * sizeof(double));
    return much;
}

/// Whether the multipliers prove that rows contradict; they are kept if so. On the way of the problem itself only what is too fast
/// counts.
static bool proves(ipm *p, bool on_the_way) {
    for (int32_t i = 0; i < p->qp->m; i++) p->proof[i] = p->l[i] * p->inverse[i];
    p->proved = on_the_way ? qpc_proof_by_speed(p->work, p->proof, p->rhs) : qpc_proof_holds(p->work, p->proof, p->rhs, p->dx);
    return p->proved;
}

/// Steps until the iterate is as good as can be, or until they get nowhere.
static qpc_status iterate(ipm *p, const qpc_solver_options *options, int32_t limit, double *lambda,
                          qpc_error *err) {
    int32_t poor = 0, idle = 0;
    for (;;) {
        measures now = residuals(p);
        double S = p->work->scale, largest = 0;
        for (int32_t i = 0; i < p->qp->m; i++)
            if (!(p->l[i] <= largest)) largest = p->l[i];
        if (!isfinite(now.stat + now.prim + now.comp) || !(largest <= RUNAWAY * S)) return QPC_OK;
        bool near = now.prim <= NEAR && p->elastic == 0;
        if (p->report->iterations >= UNPROVEN && !near && proves(p, p->elastic == 0)) return QPC_OK;
        if (p->elastic > 0 && now.stat <= NEAR && now.prim <= NEAR && now.comp <= NEAR_COMP) {
            if (p->elastic <= ELASTIC_LEAST) return QPC_OK; // and proves nothing
            p->elastic *= HARDER;
            continue;
        }
        if (now.stat <= NEAR && now.prim <= NEAR && now.comp <= NEAR_COMP) {
            clean(p, lambda);
            qpc_residuals exact = qpc_work_residuals(p->work, p->x, lambda, p->rhs, p->dx);
            idle = better(p, &exact, lambda) ? 0 : idle + 1;
            if (qpc_work_accepts(&exact, options, 0.25)) p->report->outcome = QPC_OUTCOME_OPTIMAL;
            if (p->best <= 1 || idle >= IDLE_MOST) return QPC_OK;
        }
        if (p->report->iterations >= limit) return QPC_OK;
        p->report->iterations++;
        double t;
        qpc_status st = advance(p, &t, err);
        if (st == QPC_ERR_NUMERIC) return QPC_OK; // a factor lost to round-off: as near as it gets
        if (st != QPC_OK) return st;
        poor = t > SHORT || p->elastic > 0 ? 0 : poor + 1;
        if (poor >= POOR_MOST) return QPC_OK;
    }
}

qpc_status qpc_interior_point_run(const qpc_work *work, const qpc_solver_options *options,
                                  double *x, double *lambda, qpc_solver_report *report,
                                  qpc_error *err) {
    const qpc_qp *qp = work->qp;
    ipm p = {.work = work, .qp = qp, .x = x, .best = DBL_MAX, .report = report};
    report->engine = QPC_SOLVER_INTERIOR_POINT;
    report->outcome = QPC_OUTCOME_STALLED;
    qpc_arena_mark mark = qpc_arena_get_mark(work->arena);
    if (!allocate(&p)) return QPC_SOLVER_MEMORY(err, work);
    int32_t limit = options->max_iterations > 0 ? options->max_iterations : STEPS_MOST;
    qpc_status st = QPC_OK;
    start(&p);
    clean(&p, lambda);
    st = qpc_normal_create(qp, NULL, &p.normal, err);
    if (st == QPC_OK) st = iterate(&p, options, limit, lambda, err);
    if (st == QPC_OK && report->outcome == QPC_OUTCOME_STALLED && !p.proved) (void)proves(&p, false);
    if (st == QPC_OK && p.proved) st = qpc_proof_name(work, p.proof, report, err);
    if (st != QPC_OK) goto out;
    if (p.best < DBL_MAX) {
        memcpy(x, p.best_x, (size_t)qp->n * sizeof *x);
        memcpy(lambda, p.best_lambda, (size_t)qp->m * sizeof *lambda);
    } else {
        clean(&p, lambda);
    }
    if (report->outcome == QPC_OUTCOME_STALLED && report->iterations >= limit)
        report->outcome = QPC_OUTCOME_ITERATION_LIMIT;
out:
    qpc_normal_destroy(p.normal);
    qpc_arena_rewind(work->arena, mark);
    return st;
}

qpc_status qpc_interior_point_prove(const qpc_work *work, const qpc_solver_options *options, qpc_solver_report *report,
                                    qpc_error *err) {
    const qpc_qp *qp = work->qp;
    qpc_arena_mark mark = qpc_arena_get_mark(work->arena);
    ipm p = {.work = work, .qp = qp, .best = DBL_MAX, .elastic = ELASTIC, .report = report};
    report->engine = QPC_SOLVER_INTERIOR_POINT;
    report->outcome = QPC_OUTCOME_STALLED;
    p.x = qpc_arena_array(work->arena, (size_t)qp->n, sizeof(double));
    double *lambda = qpc_arena_array(work->arena, (size_t)qp->m, sizeof(double));
    qpc_status st = QPC_OK;
    if (p.x == NULL || lambda == NULL || !allocate(&p)) {
        qpc_arena_rewind(work->arena, mark);
        return QPC_SOLVER_MEMORY(err, work);
    }
    start(&p);
    st = qpc_normal_create(qp, NULL, &p.normal, err);
    if (st == QPC_OK) st = iterate(&p, options, options->max_iterations > 0 ? options->max_iterations : STEPS_MOST, lambda, err);
    if (st == QPC_OK && p.proved) st = qpc_proof_name(work, p.proof, report, err);
    qpc_normal_destroy(p.normal);
    qpc_arena_rewind(work->arena, mark);
    return st;
}
