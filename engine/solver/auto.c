/// The rule of `auto`: which engine, and which one next when an answer misses the residuals asked
/// for.
///
/// K of chains in a band (cables): augmented-lagrangian, then active-set. Any other K: what each
/// engine would take is estimated from counts alone, so that the same QP always goes the same way:
/// active-set where few rows will be active, augmented-lagrangian from a warm start with many,
/// interior-point cold with many. Whatever misses goes on to interior-point and from there to
/// the elastic problem, which tells rows that contradict, and to active-set, which tells fewer rows of
/// them and takes long where they nearly depend on each other: it is bounded. docs/solvers.md has the
/// rule and its figures. Runs on the worker in the world.
#include "engine/dynamics/factor.h"
#include "engine/solver/work.h"

#include <float.h>
#include <math.h>
#include <string.h>

// ns, as measured on one machine; only their ratios matter.
static const double NS_PIVOT = 2000, NS_PIVOT_SQUARE = 0.16; // of active-set, k rows: a + b k^2
static const double NS_ROW = 100, NS_PAIR = 0.5, NS_OPERATION = 0.12; // of a factor of K + J'WJ
static const double MISSED_SHARE = 0.8, PIVOTS_A_ROW = 1.5, PIVOTS_A_ROW_WARM = 0.5;

enum {
    AUTO_NEWTON_STEPS = 100,
    SMALL = 400,         // unknowns up to which active-set always comes first
    INTERIOR_STEPS = 15, // factors that interior-point takes
    WARM_STEPS = 4,      // and augmented-lagrangian from a good start
    WARM_NEWTON_MOST = 25,
    ANYTIME_ENTRIES = 1 << 19, // of K^-1 J' and A of the rows that active-set holds under a limit
    CHAIN = 3, // half bandwidth from which nodes are coupled: below, K is that of single bodies
    PIVOTS_FIRST = 2,   // for each row that active-set is expected to hold, where it comes first,
    PIVOTS_SPARE = 100, // and some more
    PIVOTS_SMALL = 3,   // for each row that it may hold at most, where K is small or nothing else is left
};

/// Changes of the working set that are enough unless rows nearly depend on each other.
static int32_t pivots_most(const qpc_qp *qp) {
    return PIVOTS_SMALL * (qp->n < qp->m ? qp->n : qp->m) + PIVOTS_SPARE;
}

/// How far residuals are from acceptance: <= 1 is accepted. A NaN is as far as it gets.
static double shortfall(const qpc_residuals *residuals, const qpc_solver_options *options) {
    double a = residuals->natural / options->residual_tolerance;
    double b = residuals->stat / options->stat_tolerance;
    double worst = a > b ? a : b;
    return isfinite(a) && isfinite(b) ? worst : DBL_MAX;
}

/// Whether it is an answer. What decides is the residuals: an engine out of steps may be good enough, its own optimum may be short.
static bool is_answer(qpc_outcome outcome, const qpc_residuals *residuals, const qpc_solver_options *options) {
    if (outcome == QPC_OUTCOME_OPTIMAL) return shortfall(residuals, options) <= 1;
    return outcome != QPC_OUTCOME_INFEASIBLE && qpc_work_accepts(residuals, options, 1);
}

/// active-set needs the factor that conjugate gradients have done without, and K^-1 b to all
/// digits.
static qpc_status factor_for_columns(const qpc_work *work, qpc_error *err) {
    qpc_status status = qpc_linsys_ensure(work->qp->sys, err);
    if (status == QPC_OK && work->rough)
        qpc_linsys_solve(work->qp->sys, work->qp->b, work->free_dv);
    return status;
}

/// Few enough for active-set to put them all back in a time that is bounded by K alone.
static bool few_rows(const qpc_work *work, const double *lambda) {
    int64_t rows = 0;
    for (int32_t i = 0; i < work->qp->m; i++) rows += lambda[i] != 0;
    if (rows < work->missed) rows = work->missed;
    return rows * (rows + work->qp->n) <= ANYTIME_ENTRIES;
}

/// Where iterations may run out, active-set comes first: each of its changes is a better point of the dual, rows of the warm start cost
/// none, and the next step goes on where it was interrupted. augmented-lagrangian is nowhere until a stage of it is done (T43).
static qpc_status run_anytime(const qpc_work *work, const qpc_solver_options *options, double *x, double *lambda, double *r, double *z,
                              qpc_solver_report *report, bool *ret_done, qpc_error *err) {
    qpc_status st = factor_for_columns(work, err);
    if (st == QPC_OK) st = qpc_active_set_run(work, options, NULL, x, lambda, report, err);
    *ret_done = st != QPC_OK || report->outcome == QPC_OUTCOME_INFEASIBLE || report->iterations + 2 > options->max_iterations;
    if (*ret_done) return st;
    qpc_residuals residuals = qpc_work_residuals(work, x, lambda, r, z);
    *ret_done = report->outcome == QPC_OUTCOME_OPTIMAL && is_answer(report->outcome, &residuals, options);
    if (!*ret_done) *report = (qpc_solver_report){.iterations = report->iterations, .rebuilds = report->rebuilds};
    return QPC_OK;
}

/// K in a band: augmented-lagrangian, then active-set from the multipliers reached.
static qpc_status run_banded(const qpc_work *work, const qpc_solver_options *options, double *x,
                             double *lambda, double *r, double *z, qpc_solver_report *report,
                             qpc_error *err) {
    bool enough = options->max_iterations >= AUTO_NEWTON_STEPS + work->qp->m / 8; // nothing is interrupted, and nothing else than without
    if (options->anytime && !enough && few_rows(work, lambda)) {
        bool done = false;
        qpc_status st = run_anytime(work, options, x, lambda, r, z, report, &done, err);
        if (st != QPC_OK || done) return st;
    }
    size_t n = (size_t)work->qp->n, m = (size_t)work->qp->m;
    double *first_x = qpc_arena_array(work->arena, n, sizeof *first_x);
    double *first_lambda = qpc_arena_array(work->arena, m, sizeof *first_lambda);
    double *warm = qpc_arena_array(work->arena, m, sizeof *warm);
    if (first_x == NULL || first_lambda == NULL || warm == NULL)
        return QPC_SOLVER_MEMORY(err, work);
    memcpy(warm, lambda, m * sizeof *lambda);
    // A few dozen Newton steps, some more for many rows: where it needs more, active-set is the
    // faster one.
    qpc_solver_options bounded = *options;
    if (bounded.max_iterations <= 0) bounded.max_iterations = AUTO_NEWTON_STEPS + work->qp->m / 8;
    qpc_status status = qpc_augmented_lagrangian_run(work, &bounded, true, x, lambda, report, err);
    if (status != QPC_OK || report->outcome == QPC_OUTCOME_OPTIMAL || report->outcome == QPC_OUTCOME_INFEASIBLE) return status;
    if (options->max_iterations > 0 && report->iterations >= options->max_iterations)
        return status; // all it was given

    // Keep what it reached: the best of both is the answer.
    memcpy(first_x, x, n * sizeof *x);
    memcpy(first_lambda, lambda, m * sizeof *lambda);
    qpc_residuals residuals = qpc_work_residuals(work, x, lambda, r, z);
    double first_short = shortfall(&residuals, options), largest = 0;
    bool first_good = is_answer(report->outcome, &residuals, options);
    qpc_solver_report first = *report;

    // Multipliers of rows that contradict run away: start afresh from those. Where the first engine
    // hardly began, its multipliers say nothing yet.
    for (size_t i = 0; i < m; i++) {
        double l = fabs(lambda[i]) * work->kt[i];
        if (!(l <= largest)) largest = l;
    }
    if (!(largest <= 1e6 * work->scale)) memset(lambda, 0, m * sizeof *lambda);
    if (first.iterations <= 1) memcpy(lambda, warm, m * sizeof *lambda);
    *report =
        (qpc_solver_report){.iterations = first.iterations, .factorizations = first.factorizations};
    qpc_solver_options rest = *options;
    if (rest.max_iterations > 0) rest.max_iterations -= first.iterations;
    status = factor_for_columns(work, err);
    if (status != QPC_OK) return status;
    if (rest.max_iterations <= 0) rest.max_iterations = pivots_most(work->qp);
    status = qpc_active_set_run(work, &rest, NULL, x, lambda, report, err);
    report->fell_back = true;
    if (status != QPC_OK || report->outcome == QPC_OUTCOME_INFEASIBLE) return status;

    residuals = qpc_work_residuals(work, x, lambda, r, z);
    if (is_answer(report->outcome, &residuals, options)) {
        report->outcome = QPC_OUTCOME_OPTIMAL;
        return QPC_OK;
    }
    if (report->outcome == QPC_OUTCOME_OPTIMAL) report->outcome = QPC_OUTCOME_STALLED;
    if (first_good || first_short < shortfall(&residuals, options)) {
        memcpy(x, first_x, n * sizeof *x);
        memcpy(lambda, first_lambda, m * sizeof *lambda);
        report->engine = first.engine;
        report->outcome = first_good ? QPC_OUTCOME_OPTIMAL : first.outcome;
    }
    return QPC_OK;
}

// ---- any other K ----

/// Operations of a factorisation of K: K + J'WJ takes as many at least.
static double operations(const qpc_linsys *K) {
    double n = K->n, w = (K->kind == QPC_LINSYS_BAND ? K->bandwidth : K->width) + 1;
    if (K->kind == QPC_LINSYS_BAND) return n * w * w;
    switch (K->method) {
    case QPC_LINSYS_BY_BAND:
        return n * w * w;
    case QPC_LINSYS_BY_DENSE:
        return n * n * n / 3;
    case QPC_LINSYS_BY_CHOLMOD:
        break;
    }
    return qpc_factor_operations(K->sparse);
}

typedef struct estimate {
    double active_set, factor; // ns: active-set as a whole, one factor of K + J'WJ
    double rows;               // rows that active-set would hold
} estimate;

static estimate estimate_of(const qpc_work *work, int32_t warm) {
    const qpc_qp *qp = work->qp;
    double pairs = 0, k = warm > 0 ? warm : MISSED_SHARE * work->missed;
    for (int32_t i = 0; i < qp->m; i++) {
        double width = qp->row_start[i + 1] - qp->row_start[i];
        pairs += width * width;
    }
    if (k > qp->n) k = qp->n;
    double pivots = k * (warm > 0 ? PIVOTS_A_ROW_WARM : PIVOTS_A_ROW);
    return (estimate){.active_set = pivots * (NS_PIVOT + NS_PIVOT_SQUARE * k * k),
                      .factor = NS_ROW * ((double)qp->n + qp->m) + NS_PAIR * pairs +
                                NS_OPERATION * operations(qp->sys),
                      .rows = k};
}

typedef struct trial { // one engine after the other on the same QP
    const qpc_work *work;
    const qpc_solver_options *options;
    double *x, *lambda, *r, *z, *best_x, *best_lambda;
    double best;          // shortfall of best_x
    qpc_solver_id engine; // whose it is
    qpc_outcome outcome;
    qpc_solver_report *report; // of all of them
    int32_t tried;
    bool over; // there is an answer, a proof, or nothing left of the budget
} trial;

static void add_report(trial *t, const qpc_solver_report *one) {
    qpc_report_add(t->report, one);
    t->report->fell_back = t->tried++ > 0;
}

/// One engine from the multipliers in lambda, with at most `most` iterations (0: its own bound).
static qpc_status try_engine(trial *t, qpc_solver_id id, int32_t most, qpc_error *err) {
    const qpc_work *work = t->work;
    qpc_solver_options options = *t->options;
    if (options.max_iterations > 0) options.max_iterations -= t->report->iterations;
    if (most > 0 && (options.max_iterations <= 0 || most < options.max_iterations))
        options.max_iterations = most;
    qpc_solver_report one = {0};
    qpc_arena_mark mark = qpc_arena_get_mark(work->arena);
    qpc_status st = id == QPC_SOLVER_ACTIVE_SET ? factor_for_columns(work, err) : QPC_OK;
    if (st != QPC_OK) return st;
    if (id == QPC_SOLVER_ACTIVE_SET)
        st = qpc_active_set_run(work, &options, NULL, t->x, t->lambda, &one, err);
    else if (id == QPC_SOLVER_INTERIOR_POINT)
        st = qpc_interior_point_run(work, &options, t->x, t->lambda, &one, err);
    else
        st = qpc_augmented_lagrangian_run(work, &options, true, t->x, t->lambda, &one, err);
    qpc_arena_rewind(work->arena, mark);
    if (st != QPC_OK) return st;
    // augmented-lagrangian says optimal after looking at just these.
    bool optimal = one.outcome == QPC_OUTCOME_OPTIMAL,
         proof = one.outcome == QPC_OUTCOME_INFEASIBLE;
    qpc_residuals residuals = {0};
    if (!optimal || id != QPC_SOLVER_AUGMENTED_LAGRANGIAN)
        residuals = qpc_work_residuals(work, t->x, t->lambda, t->r, t->z);
    double now = shortfall(&residuals, t->options);
    bool good = is_answer(one.outcome, &residuals, t->options);
    if (good)
        one.outcome = QPC_OUTCOME_OPTIMAL;
    else if (optimal)
        one.outcome = QPC_OUTCOME_STALLED;
    if (proof || good || now < t->best || t->tried == 0) {
        t->best = now;
        t->engine = one.engine;
        t->outcome = one.outcome;
        memcpy(t->best_x, t->x, (size_t)work->qp->n * sizeof(double));
        memcpy(t->best_lambda, t->lambda, (size_t)work->qp->m * sizeof(double));
    }
    add_report(t, &one);
    bool spent =
        t->options->max_iterations > 0 && t->report->iterations >= t->options->max_iterations;
    t->over = proof || good || spent;
    return QPC_OK;
}

/// Whether the elastic problem proves that rows contradict: the best iterate so far is what comes back then.
static qpc_status try_proof(trial *t, qpc_error *err) {
    qpc_solver_options options = *t->options;
    if (options.max_iterations > 0) options.max_iterations -= t->report->iterations;
    qpc_solver_report one = {0};
    qpc_status st = qpc_interior_point_prove(t->work, &options, &one, err);
    if (st != QPC_OK) return st;
    add_report(t, &one);
    t->over = one.outcome == QPC_OUTCOME_INFEASIBLE;
    if (t->over) t->outcome = one.outcome;
    if (t->options->max_iterations > 0 && t->report->iterations >= t->options->max_iterations) t->over = true;
    return QPC_OK;
}

/// Multipliers that ran away, as those of rows that contradict do, say nothing: none then.
static void tame(const trial *t) {
    double largest = 0;
    for (int32_t i = 0; i < t->work->qp->m; i++) {
        double l = fabs(t->lambda[i]) * t->work->kt[i];
        if (!(l <= largest)) largest = l;
    }
    if (!(largest <= 1e6 * t->work->scale))
        memset(t->lambda, 0, (size_t)t->work->qp->m * sizeof(double));
}

static qpc_status run_any(trial *t, qpc_error *err) {
    const qpc_qp *qp = t->work->qp;
    int32_t warm = 0;
    for (int32_t i = 0; i < qp->m; i++) warm += t->lambda[i] != 0;
    estimate e = estimate_of(t->work, warm);
    bool few =
        qp->n <= SMALL || e.active_set <= e.factor * (warm > 0 ? WARM_STEPS : INTERIOR_STEPS);
    qpc_status st = QPC_OK;
    if (qp->n > SMALL && qpc_alm_pcg_pays_with(qp)) // large nets of springs: no factor as long as that goes well
        st = try_engine(t, QPC_SOLVER_AUGMENTED_LAGRANGIAN, 0, err);
    else if (few) // the estimate may be far off where rows push each other in: it is bounded then
        st = try_engine(t, QPC_SOLVER_ACTIVE_SET,
                        qp->n <= SMALL ? pivots_most(qp) : (int32_t)(PIVOTS_FIRST * e.rows) + PIVOTS_SPARE, err);
    else if (warm > 0)
        st = try_engine(t, QPC_SOLVER_AUGMENTED_LAGRANGIAN, WARM_NEWTON_MOST, err);
    if (st == QPC_OK && !t->over) st = try_engine(t, QPC_SOLVER_INTERIOR_POINT, 0, err);
    if (st == QPC_OK && !t->over) st = try_proof(t, err);
    if (st != QPC_OK || t->over) return st;
    tame(t);
    return try_engine(t, QPC_SOLVER_ACTIVE_SET, pivots_most(qp), err);
}

qpc_status qpc_auto_run(const qpc_work *work, const qpc_solver_options *options, double *x,
                        double *lambda, double *r, double *z, qpc_solver_report *report,
                        qpc_error *err) {
    const qpc_linsys *K = work->qp->sys;
    if (K->kind == QPC_LINSYS_BAND && (K->bandwidth >= CHAIN || K->n <= CHAIN))
        return run_banded(work, options, x, lambda, r, z, report, err);
    size_t n = (size_t)work->qp->n, m = (size_t)work->qp->m;
    trial t = {.work = work,
               .options = options,
               .x = x,
               .lambda = lambda,
               .r = r,
               .z = z,
               .report = report};
    t.best_x = qpc_arena_array(work->arena, n, sizeof(double));
    t.best_lambda = qpc_arena_array(work->arena, m, sizeof(double));
    if (t.best_x == NULL || t.best_lambda == NULL) return QPC_SOLVER_MEMORY(err, work);
    qpc_status st = run_any(&t, err);
    if (st != QPC_OK) return st;
    memcpy(x, t.best_x, n * sizeof *x);
    memcpy(lambda, t.best_lambda, m * sizeof *lambda);
    report->engine = t.engine;
    report->outcome = t.outcome;
    return QPC_OK;
}
