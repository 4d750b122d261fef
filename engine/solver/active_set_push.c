/// One violated row into the working set of the dual active set (active_set.c). Runs on the worker
/// in the world; allocates only where the factor of A_WW grows.
#include "engine/solver/active_set.h"

#include <string.h>

static const double GOOD_ENOUGH =
    5e-10; // kt S: a violation that is left where it can be mended no further
static const double NOISE = 1e-26;   // d / a_pp that may be round-off of zero
static const double FAR = 100;       // no answer is further off than this many S
static const double HUGE_PUSH = 1e8; // lambda kt / S whose round-off would show in K x + J'lambda

enum {
    REFINE_MOST = 6,
    NEAR_LEAST = 3, // rows from which on a block solve pays
};

/// z, a_pp of row p. Where a block of right-hand sides is cheaper, the other rows of the last look
/// at all get theirs along with it: most of them are pushed next.
static double look_at(qpc_das *s, int32_t p) {
    const qpc_qp *qp = s->qp;
    int64_t n = qp->n;
    if (qpc_das_columns(qp->sys) && s->near_solved == 0 && s->near_count >= NEAR_LEAST) {
        memset(s->near_z, 0, (size_t)n * (size_t)s->near_count * sizeof(double));
        for (int32_t k = 0; k < s->near_count; k++)
            qpc_row_add(qp, s->near[k], 1, s->near_z + k * n);
        if (qpc_linsys_solve_many(qp->sys, s->near_z, s->near_count, NULL) == QPC_OK)
            s->near_solved = s->near_count;
    }
    int32_t at = 0;
    while (at < s->near_solved && s->near[at] != p) at++;
    if (at < s->near_solved) {
        memcpy(s->z, s->near_z + at * n, (size_t)n * sizeof(double));
    } else {
        memset(s->z, 0, (size_t)n * sizeof(double));
        qpc_row_add(qp, p, 1, s->z);
        qpc_linsys_solve(qp->sys, s->z, s->z);
    }
    return s->a_diag[p] = qpc_row_dot(qp, p, s->z) + qpc_das_shift(s, p);
}

/// r, q, w and d of row p against W (z is there). *ret_error: what J_W w should be and is not,
/// relative.
double qpc_das_direction(qpc_das *s, int32_t p, double a_pp, double *ret_error) {
    const qpc_qp *qp = s->qp;
    int32_t count = s->del.count;
    double d = a_pp;
    *ret_error = 0;
    for (int32_t i = 0; i < count; i++) s->y[i] = qpc_row_dot(qp, s->del.row[i], s->z);
    qpc_delassus_forward(&s->del, s->y);
    memcpy(s->r, s->y, (size_t)count * sizeof(double));
    qpc_delassus_backward(&s->del, s->r);
    double before = HUGE_VAL;
    for (int32_t pass = 0;; pass++) {
        memset(s->q, 0, (size_t)qp->n * sizeof(double));
        qpc_row_add(qp, p, 1, s->q);
        for (int32_t i = 0; i < count; i++)
            if (s->r[i] != 0) qpc_row_add(qp, s->del.row[i], -s->r[i], s->q);
        qpc_linsys_solve(qp->sys, s->q, s->w);
        d = qpc_das_shift(s, p);
        for (int32_t i = 0; i < qp->n; i++) d += s->q[i] * s->w[i];
        double worst = 0;
        for (int32_t i = 0; i < count; i++) {
            int32_t row = s->del.row[i];
            s->e[i] = qpc_row_dot(qp, row, s->w);
            if (s->shift != NULL) {
                s->e[i] -= s->shift[row] * s->r[i];
                d += s->shift[row] * s->r[i] * s->r[i];
            }
            double miss = fabs(s->e[i]) / sqrt(s->a_diag[row] * a_pp);
            if (!(miss <= worst)) worst = miss;
        }
        *ret_error = worst;
        if (count == 0 || (worst <= 1e-11 && (d >= 1e-6 * a_pp || pass > 0))) break;
        // Refine r while that helps.
        if (pass == REFINE_MOST || worst > 0.5 * before) break;
        before = worst;
        qpc_delassus_solve(&s->del, s->e);
        for (int32_t i = 0; i < count; i++) s->r[i] += s->e[i];
    }
    return d;
}

/// p is nearly in the span of W: its multiplier goes back to W, and it is looked at no more until W
/// loses a row.
static void leave_to_working_set(qpc_das *s, int32_t p) {
    for (int32_t i = 0; i < s->del.count && s->lambda[p] != 0; i++) {
        int32_t row = s->del.row[i];
        double l = s->lambda[row] + s->lambda[p] * s->r[i];
        s->lambda[row] = s->qp->equality[row] || l > 0 ? l : 0;
    }
    s->lambda[p] = 0;
    s->state[p] = QPC_ROW_IMPLIED;
    s->implied++;
    s->report->implied++;
}

/// y = (1 at p, -r on W; times the sign of the miss) has J'y = q, and y'(J x - c) = v > 0 at the
/// present x: any point that satisfies the rows is at least v / |q|_{K^-1} away. A proof if that is
/// further than anything in the problem, v and |q| taken with the round-off they may carry.
static bool proves_infeasible(const qpc_das *s, int32_t p, double sigma, double d, double size) {
    double v = sigma * qpc_das_excess(s, p), doubt = qpc_row_size(s->qp, p, s->x);
    for (int32_t i = 0; i < s->del.count; i++) {
        int32_t row = s->del.row[i];
        v -= sigma * s->r[i] * qpc_das_excess(s, row);
        doubt += fabs(s->r[i]) * qpc_row_size(s->qp, row, s->x);
    }
    double noise = 1e-30 * size;
    return v > 64 * DBL_EPSILON * doubt && v > FAR * s->scale * sqrt(d > noise ? d : noise);
}

static void report_infeasible(qpc_das *s, int32_t p) {
    qpc_solver_report *report = s->report;
    report->outcome = QPC_OUTCOME_INFEASIBLE;
    double largest = s->work->kt[p];
    for (int32_t i = 0; i < s->del.count; i++) {
        double y = fabs(s->r[i]) * s->work->kt[s->del.row[i]];
        if (y > largest) largest = y;
    }
    int32_t count = 0;
    s->list[count++] = p;
    for (int32_t i = 0; i < s->del.count; i++)
        if (fabs(s->r[i]) * s->work->kt[s->del.row[i]] > 1e-9 * largest)
            s->list[count++] = s->del.row[i];
    for (int32_t i = 1; i < count; i++) { // few: insertion sort by row number
        int32_t row = s->list[i], k = i;
        for (; k > 0 && s->list[k - 1] > row; k--) s->list[k] = s->list[k - 1];
        s->list[k] = row;
    }
    report->conflict_count = count;
    memcpy(report->conflict_row, s->list, (size_t)qpc_conflict_named(report) * sizeof(int32_t));
}

/// Push violated row p into W. *ret_rise: by how much the dual objective rose.
qpc_das_verdict qpc_das_push(qpc_das *s, int32_t p, double *ret_rise) {
    const qpc_qp *qp = s->qp;
    double sigma = qpc_das_excess(s, p) < 0 ? -1 : 1; // an equality missed from below
    double a_pp = look_at(s, p), tol = qpc_das_tolerance(s, p);
    *ret_rise = 0;
    // Each inner turn drops a row of W, so there are at most |W| + 1.
    for (;;) {
        double error;
        double d = qpc_das_direction(s, p, a_pp, &error);
        if (!(error <= 1e-8)) {
            // The factor has worn out. lambda_p so far stays: the build keeps J'lambda.
            return QPC_DAS_REBUILD;
        }
        double violation = sigma * qpc_das_excess(s, p);
        bool near = d <= QPC_DAS_DEPENDENT * a_pp || s->del.count >= s->max_count;
        if (near && violation <= 10 * tol && s->lambda[p] == 0) {
            // In the span of W up to round-off, and so is its bound.
            leave_to_working_set(s, p);
            return QPC_DAS_GO_ON;
        }
        // Nearly in the span: x would have to move by violation / sqrt(d) to mend it. Within reach
        // of anything in the problem that is what must be done, beyond it the row counts as
        // dependent.
        double size = a_pp;
        for (int32_t i = 0; i < s->del.count; i++)
            size += s->r[i] * s->r[i] * s->a_diag[s->del.row[i]];
        bool dependent = s->del.count >= s->max_count || d <= NOISE * size ||
                         (near && violation > FAR * s->scale * sqrt(d));
        double t2 = dependent ? HUGE_VAL : (violation > 0 ? violation / d : 0);
        double t1 = HUGE_VAL;
        int32_t blocker = -1;
        for (int32_t i = 0; i < s->del.count; i++) {
            int32_t row = s->del.row[i];
            double fall = sigma * s->r[i];
            if (qp->equality[row] || !(fall > 0)) continue;
            // A rate that is round-off of a zero blocks nothing.
            if (fall * fall * s->a_diag[row] <= 1e-26 * size) continue;
            double t = s->lambda[row] / fall;
            bool tie = blocker >= 0 && t == t1;
            int32_t held = blocker >= 0 ? s->del.row[blocker] : -1;
            if (t < t1 || (tie && (qp->key[row] < qp->key[held] ||
                                   (qp->key[row] == qp->key[held] && row < held)))) {
                t1 = t;
                blocker = i;
            }
        }
        if (blocker < 0 && dependent) {
            if (violation <= 10 * tol || violation <= GOOD_ENOUGH * s->work->kt[p] * s->scale) {
                leave_to_working_set(s, p);
                return QPC_DAS_GO_ON;
            }
            if (proves_infeasible(s, p, sigma, d, size)) {
                report_infeasible(s, p);
                return QPC_DAS_CONTRADICTION;
            }
            // Neither way. Begin afresh if that has not been tried; else the residuals tell.
            if (s->unproven++ < 3) return QPC_DAS_REBUILD;
            leave_to_working_set(s, p);
            return QPC_DAS_GO_ON;
        }
        if (blocker < 0 && !(t2 <= t1)) { // numbers beyond doubles: neither row nor blocker to go to
            leave_to_working_set(s, p);
            return QPC_DAS_GO_ON;
        }
        if (near && (t1 < t2 ? t1 : t2) * sqrt(a_pp) > HUGE_PUSH * s->scale) {
            // Mending it takes multipliers that doubles cannot carry: it stays as it is, and the
            // residuals tell.
            leave_to_working_set(s, p);
            return QPC_DAS_GO_ON;
        }
        double t = t1 < t2 ? t1 : t2;
        if (t > 0) {
            for (int32_t i = 0; i < s->del.count; i++) {
                int32_t row = s->del.row[i];
                s->lambda[row] -= t * sigma * s->r[i];
                if (!qp->equality[row] && s->lambda[row] < 0) s->lambda[row] = 0;
            }
            s->lambda[p] += t * sigma;
            if (!dependent)
                for (int32_t i = 0; i < qp->n; i++) s->x[i] -= t * sigma * s->w[i];
            *ret_rise += t * (violation - (dependent ? 0 : 0.5 * t * d));
        }
        if (qpc_das_left(s) < 1) return QPC_DAS_OUT_OF_STEPS;
        if (t2 <= t1) {
            if (!qpc_delassus_append(&s->del, p, s->y, d)) return QPC_DAS_NO_MEMORY;
            s->state[p] = QPC_ROW_WORKING;
            s->report->adds++;
            return QPC_DAS_GO_ON;
        }
        if (dependent) s->report->exchanges++;
        qpc_das_drop(s, blocker);
    }
}
