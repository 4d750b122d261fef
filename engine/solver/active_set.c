/// Dual active set (Goldfarb & Idnani 1983) on the Delassus operator of the working set (T34, T35).
///
/// Starts from the unconstrained K^-1 b or from last step's multipliers and keeps, at all times,
/// J_W x = c_W with lambda >= 0 on inequalities of W and K x = b - J_W' lambda. One violated row p
/// at a time is pushed in:
///
///     r = A_WW^-1 J_W K^-1 J_p'     q = J_p' - J_W' r     w = K^-1 q     d = q'w
///     moving lambda_p by +t takes lambda_W by -t r, x by -t w, and the violation by -t d.
///
/// Either the violation is gone first (p joins W) or a multiplier of W hits zero first (that row
/// leaves, and p goes on). The dual objective rises at every step, so nothing cycles in exact
/// arithmetic, dependent rows are exchanged instead of perturbed, and a row that can neither join
/// nor push anything out proves that the rows contradict. d is formed as a norm, not as a
/// difference, and so tells dependence down to angles of 1e-7. Sums and ties (key, then number)
/// have a fixed order. Runs on the worker in the world; memory from the arena.
#include "engine/solver/active_set.h"
#include "engine/solver/proof.h"

#include <string.h>

static const double NEARLY = 0.3; // of the worst violation seen at the last look at all rows

enum {
    REFRESH_EVERY = 50,   // major steps between recomputations of x from lambda
    LOOK_EVERY = 8,       // and between looks at whether it went too far
    NO_RISE_REBUILD = 30, // major steps without rise of the dual objective
    NO_RISE_STOP = 120,
    REBUILDS_MOST = 100, // of A_WW: a QP that wears out every factor goes nowhere
    REBUILDS_FEW = 10,   // where changes are limited: others may do better
    FIRST_CAPACITY = 64,
    BLOCK_MOST = 1 << 20, // doubles
};

/// x = K^-1 (b - J'lambda), once refined.
void qpc_das_refresh(qpc_das *s, bool refine) {
    const qpc_qp *qp = s->qp;
    memcpy(s->q, qp->b, (size_t)qp->n * sizeof(double));
    for (int32_t i = 0; i < qp->m; i++)
        if (s->lambda[i] != 0) qpc_row_add(qp, i, -s->lambda[i], s->q);
    qpc_linsys_solve(qp->sys, s->q, s->x);
    double x2 = 0;
    if (refine) {
        qpc_linsys_multiply(qp->sys, s->x, s->w);
        for (int32_t i = 0; i < qp->n; i++) s->w[i] = s->q[i] - s->w[i];
        qpc_linsys_solve(qp->sys, s->w, s->w);
        for (int32_t i = 0; i < qp->n; i++) s->x[i] += s->w[i];
    }
    for (int32_t i = 0; i < qp->n; i++) x2 += s->x[i] * s->q[i];
    if (x2 > s->scale * s->scale) s->scale = sqrt(x2);
}

void qpc_das_drop(qpc_das *s, int32_t place) {
    int32_t row = s->del.row[place];
    qpc_delassus_remove(&s->del, place);
    s->state[row] = QPC_ROW_OUT;
    s->lambda[row] = 0;
    s->report->drops++;
    // What W implied may be free again.
    for (int32_t i = 0; i < s->qp->m && s->implied > 0; i++) {
        if (s->state[i] != QPC_ROW_IMPLIED) continue;
        s->state[i] = QPC_ROW_OUT;
        s->implied--;
    }
}

/// How far row i outside W is violated, in units of kt; 0 if it holds.
static double depth_of(const qpc_das *s, int32_t i, double least) {
    if (s->state[i] != QPC_ROW_OUT) return 0;
    double violation = qpc_das_excess(s, i);
    if (s->qp->equality[i]) violation = fabs(violation);
    if (!(violation > 0)) return 0;
    double depth = violation / s->work->kt[i];
    return depth >= least && violation > qpc_das_tolerance(s, i) ? depth : 0;
}

static bool key_before(const qpc_qp *qp, int32_t a, int32_t b) {
    return qp->key[a] != qp->key[b] ? qp->key[a] < qp->key[b] : a < b;
}

/// The first violated row by key and number.
static int32_t choose_first(const qpc_das *s) {
    int32_t best = -1;
    for (int32_t i = 0; i < s->qp->m; i++)
        if (depth_of(s, i, 0) > 0 && (best < 0 || key_before(s->qp, i, best))) best = i;
    return best;
}

/// The most violated row outside W (in units of kt; the first by key and number among equals), -1
/// if all hold. A look at all rows keeps the few most violated ones: these are asked first while
/// they are nearly as bad as the worst one was.
static int32_t choose(qpc_das *s) {
    if (s->least_index) return choose_first(s);
    int32_t best = -1;
    double most = 0;
    for (int32_t k = 0; k < s->near_count; k++) {
        double depth = depth_of(s, s->near[k], NEARLY * s->near_most);
        if (!(depth > 0) || depth < most || (depth == most && !key_before(s->qp, s->near[k], best)))
            continue;
        most = depth;
        best = s->near[k];
    }
    if (best >= 0) return best;
    double depths[QPC_DAS_NEAR];
    int32_t count = 0;
    for (int32_t i = 0; i < s->qp->m; i++) {
        double depth = depth_of(s, i, count == QPC_DAS_NEAR ? depths[count - 1] : 0);
        if (!(depth > 0)) continue;
        int32_t k = count;
        if (count < QPC_DAS_NEAR)
            count++;
        else if (depth == depths[--k] && !key_before(s->qp, i, s->near[k]))
            continue;
        for (; k > 0 && (depth > depths[k - 1] ||
                         (depth == depths[k - 1] && key_before(s->qp, i, s->near[k - 1])));
             k--) {
            depths[k] = depths[k - 1];
            s->near[k] = s->near[k - 1];
        }
        depths[k] = depth;
        s->near[k] = i;
    }
    s->near_count = count;
    s->near_most = count > 0 ? depths[0] : 0;
    s->near_solved = 0;
    return count > 0 ? s->near[0] : -1;
}

/// The last digits: lambda to the stationary point of W, and x along with it by the change of
/// lambda, not from lambda afresh, whose rounding would show in J x - c where lambda is large.
void qpc_das_polish(qpc_das *s) {
    const qpc_qp *qp = s->qp;
    qpc_das_refresh(s, true);
    for (int32_t pass = 0; pass < 2 && s->del.count > 0; pass++) {
        for (int32_t i = 0; i < s->del.count; i++) s->r[i] = qpc_das_excess(s, s->del.row[i]);
        qpc_delassus_solve(&s->del, s->r);
        memset(s->q, 0, (size_t)qp->n * sizeof(double));
        for (int32_t i = 0; i < s->del.count; i++) {
            int32_t row = s->del.row[i];
            double l = s->lambda[row] + s->r[i];
            s->lambda[row] = qp->equality[row] || l > 0 ? l : 0;
            qpc_row_add(qp, row, s->r[i], s->q);
        }
        qpc_linsys_solve(qp->sys, s->q, s->w);
        for (int32_t i = 0; i < qp->n; i++) s->x[i] -= s->w[i];
    }
}

static bool allocate(qpc_das *s, qpc_arena *arena) {
    size_t n = (size_t)s->qp->n, m = (size_t)s->qp->m;
    int32_t capacity = s->max_count < FIRST_CAPACITY ? s->max_count : FIRST_CAPACITY;
    size_t places = (size_t)s->max_count + 2;
    s->z = qpc_arena_array(arena, n, sizeof(double));
    s->q = qpc_arena_array(arena, n, sizeof(double));
    s->w = qpc_arena_array(arena, n, sizeof(double));
    s->y = qpc_arena_array(arena, places, sizeof(double));
    s->r = qpc_arena_array(arena, places, sizeof(double));
    s->e = qpc_arena_array(arena, places, sizeof(double));
    s->lanes = QPC_LINSYS_BLOCK;
    if (qpc_das_columns(
            s->qp->sys)) { // for many unknowns fewer at once, so that memory stays that of K
        s->lanes = QPC_DAS_COLUMNS;
        while (s->lanes > QPC_DAS_NEAR && n * (size_t)s->lanes > BLOCK_MOST) s->lanes /= 2;
    }
    s->block = qpc_arena_array(arena, n * (size_t)s->lanes, sizeof(double));
    s->near_z = qpc_das_columns(s->qp->sys)
                    ? qpc_arena_array(arena, n * QPC_DAS_NEAR, sizeof(double))
                    : s->block;
    s->a_diag = qpc_arena_array(arena, m, sizeof(double));
    s->weight = qpc_arena_array(arena, m, sizeof(double));
    s->state = qpc_arena_array(arena, m, sizeof(uint8_t));
    s->list = qpc_arena_array(arena, m + 1, sizeof(int32_t));
    return s->z != NULL && s->q != NULL && s->w != NULL && s->y != NULL && s->r != NULL &&
           s->e != NULL && s->block != NULL && s->near_z != NULL && s->a_diag != NULL &&
           s->weight != NULL && s->state != NULL && s->list != NULL &&
           qpc_delassus_init(&s->del, arena, capacity);
}

/// The motion so far is further than what is of use, and its multipliers prove that any other is.
static bool too_fast(qpc_das *s) {
    double most = 0;
    if (!(s->work->beyond > 0)) return false;
    for (int32_t i = 0; i < s->qp->n; i++) most = fmax(most, fabs(s->x[i]));
    return most > s->work->beyond && qpc_proof_by_speed(s->work, s->lambda, s->q);
}

qpc_status qpc_active_set_run(const qpc_work *work, const qpc_solver_options *options,
                              const double *shift, double *x, double *lambda,
                              qpc_solver_report *report, qpc_error *err) {
    const qpc_qp *qp = work->qp;
    qpc_das s = {.work = work,
                 .qp = qp,
                 .shift = shift,
                 .x = x,
                 .lambda = lambda,
                 .scale = work->scale,
                 .limit = options->max_iterations > 0 ? options->max_iterations : INT64_MAX,
                 .report = report,
                 .err = err};
    // Without a shift independent rows are at most n; a shift makes every row independent.
    s.max_count = shift == NULL && qp->n < qp->m ? qp->n : qp->m;
    report->outcome = QPC_OUTCOME_OPTIMAL;
    report->engine = QPC_SOLVER_ACTIVE_SET;
    if (!allocate(&s, work->arena)) return QPC_SOLVER_MEMORY(err, work);

    int32_t warm = 0;
    for (int32_t i = 0; i < qp->m; i++) {
        s.a_diag[i] = 0;
        s.state[i] = work->kt2[i] > 0 ? QPC_ROW_OUT : QPC_ROW_EMPTY;
        if (s.state[i] == QPC_ROW_EMPTY) {
            lambda[i] = 0;
        } else if (qp->equality[i] || lambda[i] > 0) {
            warm++;
        }
    }
    int32_t impossible = qpc_work_impossible(work); // of a relaxation: c has changed
    if (impossible >= 0) {
        report->outcome = QPC_OUTCOME_INFEASIBLE;
        report->conflict_row[report->conflict_count++] = impossible;
        memset(lambda, 0, (size_t)qp->m * sizeof(double));
        memcpy(x, work->free_dv, (size_t)qp->n * sizeof(double));
        return QPC_OK;
    }
    if (warm > QPC_DAS_ROWS_MOST) { // a case for the other engines: x of these multipliers is what
                                    // there is
        qpc_das_refresh(&s, false);
        report->outcome = QPC_OUTCOME_ITERATION_LIMIT;
        report->active = qpc_work_active(qp, lambda);
        return QPC_OK;
    }
    if (warm > 0) {
        if (!qpc_das_build(&s)) return QPC_SOLVER_MEMORY(err, work);
    } else {
        for (int32_t i = 0; i < qp->m; i++) lambda[i] = 0;
        memcpy(x, work->free_dv, (size_t)qp->n * sizeof(double));
    }

    // Its own bound; under one that is given, changes are counted as they come.
    int64_t limit = s.limit < INT64_MAX ? INT64_MAX : 100 + 20 * ((int64_t)qp->n + qp->m);
    if (!qpc_das_guess(&s, limit)) return QPC_SOLVER_MEMORY(err, work);
    int32_t major = 0, no_rise = 0, polished = 0;
    for (;;) {
        int32_t p = s.unsettled ? 0 : choose(&s);
        if (shift == NULL && (p < 0 || major % LOOK_EVERY == 0) && too_fast(&s)) {
            memcpy(s.weight, lambda, (size_t)qp->m * sizeof(double));
            qpc_status st = qpc_proof_name(work, s.weight, report, err);
            if (st != QPC_OK) return st;
            break;
        }
        if (p < 0) {
            // Polishing may show a row that round-off had hidden: go on from there, but not for
            // ever.
            qpc_das_polish(&s);
            if (polished++ == 3 || choose(&s) < 0) break;
            continue;
        }
        if ((int64_t)report->adds + report->drops + major >= limit ||
            s.del.count >= QPC_DAS_ROWS_MOST || qpc_das_left(&s) < 1) { // what is unsettled has none left
            report->outcome = QPC_OUTCOME_ITERATION_LIMIT;
            break;
        }
        double rise;
        qpc_das_verdict v = qpc_das_push(&s, p, &rise);
        if (v == QPC_DAS_NO_MEMORY) return QPC_SOLVER_MEMORY(err, work);
        if (v == QPC_DAS_CONTRADICTION) break;
        if (v == QPC_DAS_OUT_OF_STEPS) {
            report->outcome = QPC_OUTCOME_ITERATION_LIMIT;
            break;
        }
        major++;
        if (rise > 1e-16 * s.scale * s.scale)
            no_rise = 0;
        else
            no_rise++;
        bool tired = no_rise > 0 && no_rise % NO_RISE_REBUILD == 0;
        if ((v == QPC_DAS_REBUILD || tired) && qpc_das_left(&s) < 2) { // it would not be all
            report->outcome = QPC_OUTCOME_ITERATION_LIMIT;
            break;
        }
        if (v == QPC_DAS_REBUILD || tired) {
            report->rebuilds++;
            if (tired) s.least_index = true;
            if (!qpc_das_build(&s)) return QPC_SOLVER_MEMORY(err, work);
            if (v == QPC_DAS_REBUILD) no_rise++; // a rebuild that helps nothing must end, too
        } else if (major % REFRESH_EVERY == 0) {
            qpc_das_refresh(&s, false);
        }
        if (no_rise >= NO_RISE_STOP || report->rebuilds >= (s.limit < INT64_MAX ? REBUILDS_FEW : REBUILDS_MOST)) {
            // What decides is the residuals: nothing may have been left to do but round-off.
            qpc_das_polish(&s);
            qpc_residuals r = qpc_work_residuals(work, x, lambda, s.q, s.w);
            bool solved = r.stat <= 1e-9 && r.prim <= 1e-9 && r.comp <= 1e-12;
            report->outcome = solved ? QPC_OUTCOME_OPTIMAL : QPC_OUTCOME_STALLED;
            break;
        }
    }
    report->iterations += report->adds + report->drops;
    report->active = qpc_work_active(qp, lambda);
    return QPC_OK;
}
