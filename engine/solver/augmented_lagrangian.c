/// Semismooth Newton on the augmented Lagrangian (T33).
///
///     phi(x) = 1/2 x'Kx - b'x + sum_i R_i/2 (J_i x - c_i + mu_i / R_i)_+^2     R_i = rhoF / kt_i^2
///
/// (no + on equalities) is convex and piecewise quadratic. A Newton step takes the rows with
/// u_i = mu_i + R_i (J_i x - c_i) > 0 as active, solves (K + J_A'R_A J_A) d = -grad, and goes to
/// the exact minimum along d. When a full step leaves the active set as it was, x minimises phi,
/// and mu <- (u)_+ is the next multiplier. Many rows change at once, and dependent rows need no
/// care.
///
/// The matrix is factored in a band (alm_band.c) or by a sparse Cholesky (alm_sparse.c). From afar rhoF rises from small to large by
/// tenths: a soft minimum finds nearly the right set in few Newton steps, and each stage starts next
/// to its own. All at once, the set grows and shrinks by the rows at its borders only, and a cable
/// along a drum takes hundreds of steps. A warm start tries the last set at the final rhoF first.
/// Of rows that contradict it can tell only that no motion of use satisfies them (proof.c), else it
/// stops at its limits. Runs on the worker in the world; memory from the arena.
#include "engine/solver/alm.h"
#include "engine/solver/proof.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const double SMALL_COMP = 1e-14; // sum |lambda s| / S^2: dv is known to 1e-7 then
static const double RHO_FIRST = 1e2, RHO_FIRST_OF_MANY = 1, RHO_GROWTH = 10, RHO = 1e6;
static const double RHO_MOST = 1e13, RHO_MOST_BEFORE_OTHERS = 1e9; // alone, and where active-set comes next
// Where hundreds of rows meet in one unknown, round-off in R (J x - c) of 1e6 costs stationarity of 1e-9.
static const double RHO_GENERAL = 1e5;
// Multipliers of conjugate gradients that ran out of steps are a start as good as the last stage but one's, unless those went
// astray: violations by so many tolerances.
static const double RHO_NEAR = 1e4, NEAR = 1e4;

static const double NO_STEP = 1e-30; // |d|_K^2 / S^2 below which d is noise
static const double REFINED = 1e-12; // stationarity that refinement leaves alone

enum {
    REFINEMENTS = 5,
    SOFT_STAGES = 5, // of a relaxation, each with ten times the weight of the one before
    OUTER_MOST = 40,
    NEWTON_MOST = 400, // by a factor, alone, and where interior-point comes next, which takes some twenty factors
    NEWTON_MOST_BEFORE_OTHERS = 100,
    INNER_MOST = 100, // Newton steps per multiplier update
    FEW = 12,         // missed rows that need no soft start
    MANY = 150,       // missed rows that need a softer one
    PROBE = 12,       // Newton steps that the last set gets to prove itself
    PROBE_OF_MANY = 4, // the same where many rows are missed, and some reach beyond the band of K
    SLOW_MOST = 12,   // multiplier updates in a row that do not help
    SLOW_MOST_BEFORE_OTHERS = 6,
};

static bool factor(qpc_alm *s) {
    s->report->factorizations++;
    return s->general ? qpc_alm_sparse_factor(s) : qpc_alm_band_factor(s);
}

static void solve(qpc_alm *s, const double *rhs, double *d) {
    s->qp->sys->solves++;
    if (s->general)
        qpc_alm_sparse_solve(s, rhs, d);
    else
        qpc_alm_band_solve(s, rhs, d);
}

/// Whether u of row i says other than `now`. Within round-off of zero it says nothing, so that
/// weakly active rows do not flip for ever.
static inline bool flips(const qpc_alm *s, int32_t i, double u, bool now) {
    if (s->qp->equality[i] || (u > 0) == now || s->work->kt2[i] == 0) return false;
    return fabs(u) > 16 * DBL_EPSILON * (s->R[i] * qpc_row_size(s->qp, i, s->x));
}

/// u = mu + R g, and the active set by u > 0, rows at zero staying as they are in the factor.
static void update_active(qpc_alm *s) {
    const qpc_qp *qp = s->qp;
    for (int32_t i = 0; i < qp->m; i++) {
        s->u[i] = s->mu[i] + s->R[i] * s->g[i];
        bool on = qp->equality[i] || s->u[i] > 0;
        if (s->have_factor && on != (s->factored[i] != 0) && !flips(s, i, s->u[i], s->factored[i]))
            on = s->factored[i] != 0;
        s->active[i] = on && s->work->kt2[i] > 0;
    }
}

double qpc_alm_line_search(const qpc_qp *qp, const double *R, const double *u, const double *Jd, double slope0,
                           double curve0, double precision) {
    double low = 0, high = HUGE_VAL, t = 1;
    for (int32_t turn = 0; turn < 60; turn++) {
        double slope = slope0 + t * curve0, curve = curve0;
        for (int32_t i = 0; i < qp->m; i++) {
            double v = u[i] + t * R[i] * Jd[i];
            if (v > 0 || qp->equality[i]) {
                slope += v * Jd[i];
                curve += R[i] * Jd[i] * Jd[i];
            }
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
        if (!(fabs(next - t) > precision * t)) return next > 0 ? next : t;
        t = next;
    }
    return t;
}

static bool allocate(qpc_alm *s, qpc_arena *arena) {
    size_t n = (size_t)s->qp->n, m = (size_t)s->qp->m;
    double *rows = qpc_arena_array(arena, 6 * m, sizeof(double));
    uint8_t *flags = qpc_arena_array(arena, 2 * m, 1);
    double *columns = qpc_arena_array(arena, 5 * n, sizeof(double));
    if (rows == NULL || flags == NULL || columns == NULL) return false;
    s->R = rows;
    s->u = rows + m;
    s->g = rows + 2 * m;
    s->Jd = rows + 3 * m;
    s->trial = rows + 4 * m;
    s->kept_mu = rows + 5 * m;
    s->active = flags;
    s->factored = flags + m;
    s->grad = columns;
    s->d = columns + n;
    s->t = columns + 2 * n;
    s->rd = columns + 3 * n;
    s->kept_x = columns + 4 * n;
    return s->general ? qpc_alm_sparse_allocate(s, arena) : qpc_alm_band_allocate(s, arena);
}

static void set_penalty(qpc_alm *s, double rho) {
    for (int32_t i = 0; i < s->qp->m; i++)
        s->R[i] = s->work->kt2[i] > 0 ? rho / s->work->kt2[i] : 0;
    s->have_factor = s->stepped = false;
    if (!s->general) qpc_alm_band_renew(s);
}

/// Interrupted on the way: u belongs to no motion, and where R is large it is nowhere near an impulse. The last Newton step's target is
/// stationary for its own set: its multipliers, those of the wrong sign left out.
static void take_target(qpc_alm *s) {
    const qpc_qp *qp = s->qp;
    for (int32_t i = 0; i < qp->m && s->stepped; i++) s->mu[i] = s->factored[i] && (qp->equality[i] || s->trial[i] > 0) ? s->trial[i] : 0;
}

/// Where R is large, round-off of the factor shows in K x - b + J_A'u: corrections of x and u together, by the
/// factor at hand, so that u - mu = R (J x - c) stays.
static void refine(qpc_alm *s) {
    const qpc_qp *qp = s->qp;
    for (int32_t pass = 0; pass < REFINEMENTS; pass++) {
        double size = 0;
        qpc_linsys_multiply(qp->sys, s->x, s->rd);
        for (int32_t i = 0; i < qp->n; i++) s->grad[i] = qp->b[i] - s->rd[i];
        for (int32_t i = 0; i < qp->m; i++)
            if (s->active[i]) qpc_row_add(qp, i, -s->u[i], s->grad);
        for (int32_t i = 0; i < qp->n; i++) size += s->grad[i] * s->grad[i] / qp->sys->diagonal[i];
        if (!(sqrt(size) > REFINED * s->work->scale)) return;
        solve(s, s->grad, s->d);
        for (int32_t i = 0; i < qp->n; i++) s->x[i] += s->d[i];
        for (int32_t i = 0; i < qp->m; i++) s->u[i] += s->R[i] * qpc_row_dot(qp, i, s->d);
    }
}

/// Minimise phi from x for the present mu. Returns false if a limit or a lost factor stops it; x
/// and u are those of the last point in any case. K x - b and J x - c are formed afresh at the
/// start and carried along by K d and J d from there.
static bool minimise(qpc_alm *s, bool warm, int32_t limit) {
    const qpc_qp *qp = s->qp;
    int32_t n = qp->n, m = qp->m;
    qpc_linsys_multiply(qp->sys, s->x, s->rd);
    for (int32_t i = 0; i < n; i++) s->rd[i] -= qp->b[i];
    for (int32_t i = 0; i < m; i++) s->g[i] = qpc_row_dot(qp, i, s->x) - qp->c[i];
    for (int32_t step = 0;; step++) {
        if (warm && step == 0) {
            // The set of the last solve, whole: u > 0 only says what this x would need.
            for (int32_t i = 0; i < m; i++) {
                s->u[i] = s->mu[i] + s->R[i] * s->g[i];
                s->active[i] = (qp->equality[i] || s->mu[i] > 0) && s->work->kt2[i] > 0;
            }
        } else {
            update_active(s);
        }
        if (step >= INNER_MOST || s->report->iterations >= limit) return false;
        s->report->iterations++;
        // -grad = -(K x - b) - J_A' u_A
        bool fresh = !s->have_factor;
        for (int32_t i = 0; i < n; i++) s->grad[i] = -s->rd[i];
        for (int32_t i = 0; i < m; i++) {
            if (s->active[i]) qpc_row_add(qp, i, -s->u[i], s->grad);
            fresh |= s->active[i] != s->factored[i];
        }
        if (fresh && !factor(s)) return false;
        solve(s, s->grad, s->d);
        qpc_linsys_multiply(qp->sys, s->d, s->t);
        double curve = 0, slope = 0;
        for (int32_t i = 0; i < n; i++) {
            curve += s->d[i] * s->t[i];
            slope += s->rd[i] * s->d[i];
        }
        if (!isfinite(curve)) return false;
        // The full step, if the set holds there: then it is the minimum of phi.
        bool same = true;
        for (int32_t i = 0; i < m; i++) {
            s->Jd[i] = qpc_row_dot(qp, i, s->d);
            s->trial[i] = s->u[i] + s->R[i] * s->Jd[i];
            same &= !flips(s, i, s->trial[i], s->active[i] != 0);
        }
        s->stepped = true;
        // A step below round-off ends it as well: nothing along d can be told from noise.
        if (same || curve <= NO_STEP * s->work->scale * s->work->scale) {
            // Multipliers from the same J x - c that made the right-hand side: its round-off, times
            // R, then cancels in K x - b + J'u.
            for (int32_t i = 0; i < n; i++) s->x[i] += s->d[i];
            memcpy(s->u, s->trial, (size_t)m * sizeof(double));
            if (s->refined) refine(s);
            return true;
        }
        double t = warm && step == 0 ? 1 : qpc_alm_line_search(qp, s->R, s->u, s->Jd, slope, curve, 1e-14);
        // Nor does a line search that round-off stops at once: rows that are all but at zero would flip for ever.
        if (t * t * curve <= NO_STEP * s->work->scale * s->work->scale) return true;
        for (int32_t i = 0; i < n; i++) {
            s->x[i] += t * s->d[i];
            s->rd[i] += t * s->t[i];
        }
        for (int32_t i = 0; i < m; i++) s->g[i] += t * s->Jd[i];
    }
}

// ---- proximal steps with one weight for all rows (relax.c) ----

struct qpc_alm_proximal {
    qpc_alm s;
    qpc_solver_report report;
    double eps, beyond;
    int32_t steps;
};

/// Whether the motion has come so far that a relaxation is not to go on.
static bool too_far(const qpc_alm_proximal *p) {
    double most = 0;
    for (int32_t i = 0; i < p->s.qp->n; i++) most = fmax(most, fabs(p->s.x[i]));
    return p->beyond > 0 && most > p->beyond;
}

static void set_weight(qpc_alm *s, double weight) {
    for (int32_t i = 0; i < s->qp->m; i++) s->R[i] = s->work->kt2[i] > 0 ? weight : 0;
    s->have_factor = false;
    if (!s->general) qpc_alm_band_renew(s);
}

qpc_status qpc_alm_proximal_begin(const qpc_work *work, double eps, double beyond, double *x, double *lambda,
                                  qpc_alm_proximal **ret, qpc_error *err) {
    qpc_alm_proximal *p = qpc_arena_array(work->arena, 1, sizeof *p);
    if (p == NULL) return QPC_SOLVER_MEMORY(err, work);
    *p = (qpc_alm_proximal){.eps = eps, .beyond = beyond};
    p->s = (qpc_alm){.work = work, .qp = work->qp, .x = x, .mu = lambda, .report = &p->report,
                     .general = work->qp->sys->kind != QPC_LINSYS_BAND};
    memcpy(x, work->free_dv, (size_t)work->qp->n * sizeof *x);
    memset(lambda, 0, (size_t)work->qp->m * sizeof *lambda);
    if (!allocate(&p->s, work->arena)) return QPC_SOLVER_MEMORY(err, work);
    *ret = p;
    return QPC_OK;
}

qpc_status qpc_alm_proximal_step(qpc_alm_proximal *p, bool *ret_ended, qpc_error *err) {
    qpc_alm *s = &p->s;
    size_t n = (size_t)s->qp->n;
    *ret_ended = false;
    if (p->steps > 0) memcpy(s->kept_x, s->x, n * sizeof *s->x);
    // The first one from soft to hard, as a QP.
    double weight = p->steps == 0 ? 1 / (p->eps * pow(RHO_GROWTH, SOFT_STAGES)) : 1 / p->eps;
    for (int32_t stage = p->steps == 0 ? SOFT_STAGES : 0; stage >= 0; stage--) {
        if (p->steps == 0) set_weight(s, stage > 0 ? weight : 1 / p->eps);
        weight *= RHO_GROWTH;
        (void)minimise(s, false, p->report.iterations + INNER_MOST);
        if (s->no_memory) return QPC_SOLVER_MEMORY(err, s->work);
        *ret_ended = (p->steps > 0 || stage < SOFT_STAGES) && too_far(p);
        if (*ret_ended) {
            memcpy(s->x, s->kept_x, n * sizeof *s->x);
            return QPC_OK;
        }
        memcpy(s->kept_x, s->x, n * sizeof *s->x);
    }
    p->steps++;
    for (int32_t i = 0; i < s->qp->m; i++)
        s->mu[i] = s->R[i] > 0 && (s->qp->equality[i] || s->u[i] > 0) ? s->u[i] : 0;
    for (int32_t i = 0; i < s->qp->n; i++)
        if (!isfinite(s->x[i])) return qpc_fail(err, QPC_ERR_NUMERIC, "a relaxation is not finite");
    return QPC_OK;
}

void qpc_alm_proximal_end(qpc_alm_proximal *p) {
    if (p != NULL) qpc_alm_sparse_fini(&p->s);
}

/// *ret_near: a copy of x, if that and lambda are near enough to an answer to go on from.
static qpc_status reached(const qpc_work *work, const qpc_solver_options *options, const double *x, const double *lambda,
                          const double **ret_near, qpc_error *err) {
    size_t n = (size_t)work->qp->n;
    double *copy = qpc_arena_array(work->arena, 3 * n, sizeof(double));
    if (copy == NULL) return QPC_SOLVER_MEMORY(err, work);
    memcpy(copy, x, n * sizeof(double));
    qpc_residuals residuals = qpc_work_residuals(work, copy, lambda, copy + n, copy + 2 * n);
    *ret_near = residuals.natural <= NEAR * options->residual_tolerance ? copy : NULL;
    return QPC_OK;
}

qpc_status qpc_augmented_lagrangian_run(const qpc_work *work, const qpc_solver_options *options,
                                        bool hand_over, double *x, double *lambda,
                                        qpc_solver_report *report, qpc_error *err) {
    const qpc_qp *qp = work->qp;
    qpc_alm s = {.work = work, .qp = qp, .x = x, .mu = lambda, .report = report,
                 .general = qp->sys->kind != QPC_LINSYS_BAND};
    s.band.hand_over = hand_over;
    report->engine = QPC_SOLVER_AUGMENTED_LAGRANGIAN;
    report->outcome = QPC_OUTCOME_ITERATION_LIMIT;
    const double *near = NULL;
    if (s.general && qpc_alm_pcg_pays_with(qp)) {
        qpc_status st = qpc_alm_pcg_run(work, options, x, lambda, report, err);
        if (st != QPC_OK || report->outcome == QPC_OUTCOME_OPTIMAL) return st;
        if (options->max_iterations > 0 && report->iterations >= options->max_iterations) return QPC_OK;
        st = qpc_linsys_ensure(qp->sys, err);
        if (st == QPC_OK) st = reached(work, options, x, lambda, &near, err);
        if (st != QPC_OK) return st;
    }
    if (!allocate(&s, work->arena)) return QPC_SOLVER_MEMORY(err, work);
    bool warm = false, improved = false;
    for (int32_t i = 0; i < qp->m; i++) {
        if (work->kt2[i] == 0) lambda[i] = 0;
        warm |= lambda[i] != 0;
    }
    memcpy(x, work->free_dv, (size_t)qp->n * sizeof(double));
    int32_t own = hand_over ? NEWTON_MOST_BEFORE_OTHERS : NEWTON_MOST, slow = 0;
    int32_t limit = options->max_iterations > 0 ? options->max_iterations : report->iterations + own;
    double full = s.general ? RHO_GENERAL : RHO, rho = full, best = DBL_MAX;
    set_penalty(&s, rho);
    bool tangled = s.general || s.band.far_rows > 0; // a factor costs more, and the last set says less
    int32_t probe = work->missed > MANY && tangled ? PROBE_OF_MANY : PROBE;
    bool afar = options->hits && !s.general && !options->anytime; // new rows have no multipliers yet, and the set moves far
    bool probed = warm && work->missed > FEW && !afar && minimise(&s, true, limit < probe ? limit : probe);
    bool spent = options->anytime && report->iterations >= limit;
    if (work->missed > FEW && !probed && !spent) {
        rho = near != NULL ? RHO_NEAR : work->missed > MANY ? RHO_FIRST_OF_MANY : RHO_FIRST;
        set_penalty(&s, rho);
        memcpy(x, near != NULL ? near : work->free_dv, (size_t)qp->n * sizeof(double));
    }
    for (int32_t outer = 0; outer < OUTER_MOST; outer++) {
        bool done = (probed && outer == 0) || minimise(&s, warm && outer == 0, limit);
        if (s.no_memory) break;
        if (!done && options->anytime && report->iterations >= limit) {
            take_target(&s);
            break;
        }
        // lambda <- (u)_+
        double runaway = 0;
        for (int32_t i = 0; i < qp->m; i++) {
            double u = work->kt2[i] > 0 && (qp->equality[i] || s.u[i] > 0) ? s.u[i] : 0;
            lambda[i] = u;
            if (fabs(u) * work->kt[i] > runaway) runaway = fabs(u) * work->kt[i];
        }
        if (qpc_proof_by_speed(work, lambda, s.grad)) {
            memcpy(s.kept_mu, lambda, (size_t)qp->m * sizeof(double));
            qpc_status st = qpc_proof_name(work, s.kept_mu, report, err);
            if (st != QPC_OK) qpc_alm_sparse_fini(&s);
            if (st != QPC_OK) return st;
            break;
        }
        qpc_residuals residuals = qpc_work_residuals(work, x, lambda, s.grad, s.t);
        if (qpc_work_accepts(&residuals, options, 0.25)) {
            // Accepted; one more update with the factor at hand squares the error bound away.
            report->outcome = QPC_OUTCOME_OPTIMAL;
            if (residuals.comp <= SMALL_COMP || improved || !done || options->draft) break;
            improved = true;
            memcpy(s.kept_x, x, (size_t)qp->n * sizeof(double));
            memcpy(s.kept_mu, lambda, (size_t)qp->m * sizeof(double));
        } else if (improved) { // never worse than what was accepted
            memcpy(x, s.kept_x, (size_t)qp->n * sizeof(double));
            memcpy(lambda, s.kept_mu, (size_t)qp->m * sizeof(double));
            break;
        }
        // Where it gets no further, what is asked for without that reserve is enough.
        bool enough = qpc_work_accepts(&residuals, options, 0.9);
        if (!done || !isfinite(runaway)) {
            if (enough) report->outcome = QPC_OUTCOME_OPTIMAL;
            break;
        }
        if (rho < full) {
            rho = fmin(full, RHO_GROWTH * rho);
            set_penalty(&s, rho);
            continue;
        }
        // Progress: of the violation, or of the stationarity when only that is left.
        double measure = residuals.prim + residuals.stat;
        if (measure > 0.25 * best) {
            if (enough) {
                report->outcome = QPC_OUTCOME_OPTIMAL;
                break;
            }
            if (++slow >= (hand_over ? SLOW_MOST_BEFORE_OTHERS : SLOW_MOST)) break;
            if (rho < (hand_over ? RHO_MOST_BEFORE_OTHERS : RHO_MOST) && slow >= 2 && residuals.prim > residuals.stat) {
                rho *= 10;
                s.refined = true;
                set_penalty(&s, rho);
            }
        } else {
            slow = 0;
        }
        if (measure < best) best = measure;
    }
    qpc_alm_sparse_fini(&s);
    if (s.no_memory) return QPC_SOLVER_MEMORY(err, work);
    report->active = qpc_work_active(qp, lambda);
    return QPC_OK;
}
