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
#include "engine/solver/delassus.h"
#include "engine/solver/work.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const double FEASIBLE = 1e-11;    // rows hold when viol <= FEASIBLE kt S, or at round-off
static const double GOOD_ENOUGH = 5e-10; // the same for a row that can be mended no further
static const double DEPENDENT = 1e-14;   // d / a_pp of a row nearly in the span of W
static const double NOISE = 1e-26;       // d / a_pp that may be round-off of zero
static const double FAR = 100;           // no answer is further off than this many S
static const double HUGE_PUSH = 1e8; // lambda kt / S whose round-off would show in K x + J'lambda
static const double BUILD_DEPENDENT = 1e-9; // the same in a warm build, where d is a difference and
                                            // a row left out comes back if it is missed

enum {
    REFRESH_EVERY = 50,   // major steps between recomputations of x from lambda
    NO_RISE_REBUILD = 30, // major steps without rise of the dual objective
    NO_RISE_STOP = 120,
    REFINE_MOST = 6,
    FIRST_CAPACITY = 64,
};

enum row_state { OUT, WORKING, IMPLIED, EMPTY };

typedef struct das {
    const qpc_work *work;
    const qpc_qp *qp;
    const double *shift; // or NULL
    qpc_delassus del;
    double *x, *lambda; // (n), (m)
    double *z, *q, *w;  // (n) K^-1 J_p', J_p' - J_W' r, K^-1 q
    double *a, *r, *e;  // (n + 2) by place in W: J_W z, r, scratch. W is independent: count <= n
    double *block;      // (n x 4) right-hand sides of a warm build
    double *a_diag;     // (m) A_ii of rows that have been looked at, else 0
    uint8_t *state;     // (m) enum row_state
    int32_t *list;      // (m) candidates of a warm build
    double scale;
    int32_t max_count; // most rows W may hold
    bool least_index;
    int32_t unproven; // rows that could neither join nor be shown to contradict
    qpc_solver_report *report;
    qpc_error *err;
} das;

static double shift_of(const das *s, int32_t row) {
    return s->shift != NULL ? s->shift[row] : 0;
}

/// J_i x - c_i - shift_i lambda_i: > 0 where an inequality is violated.
static double excess(const das *s, int32_t row) {
    return qpc_row_dot(s->qp, row, s->x) - s->qp->c[row] - shift_of(s, row) * s->lambda[row];
}

static double tolerance(const das *s, int32_t row) {
    double t = FEASIBLE * s->work->kt[row] * s->scale;
    double round_off = 32 * DBL_EPSILON * qpc_row_size(s->qp, row, s->x);
    return t > round_off ? t : round_off;
}

/// x = K^-1 (b - J'lambda), once refined.
static void refresh(das *s, bool refine) {
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

static void drop(das *s, int32_t place) {
    int32_t row = s->del.row[place];
    qpc_delassus_remove(&s->del, place);
    s->state[row] = OUT;
    s->lambda[row] = 0;
    s->report->drops++;
    // What W implied may be free again.
    for (int32_t i = 0; i < s->qp->m; i++)
        if (s->state[i] == IMPLIED) s->state[i] = OUT;
}

// ---- warm build ----

static bool build_before(const das *s, int32_t a, int32_t b) {
    // Equalities first, then the largest lambda kt, then by key and number.
    const qpc_qp *qp = s->qp;
    if (qp->equality[a] != qp->equality[b]) return qp->equality[a] != 0;
    double la = fabs(s->lambda[a]) * s->work->kt[a], lb = fabs(s->lambda[b]) * s->work->kt[b];
    if (!qp->equality[a] && la != lb) return la > lb;
    return qp->key[a] != qp->key[b] ? qp->key[a] < qp->key[b] : a < b;
}

static void sort_list(const das *s, int32_t count) {
    int32_t *list = s->list, start = count / 2, end = count;
    while (end > 1) {
        if (start > 0) {
            start--;
        } else {
            end--;
            int32_t t = list[0];
            list[0] = list[end];
            list[end] = t;
        }
        for (int32_t root = start;;) {
            int32_t child = 2 * root + 1;
            if (child >= end) break;
            if (child + 1 < end && build_before(s, list[child], list[child + 1])) child++;
            if (!build_before(s, list[root], list[child])) break;
            int32_t t = list[root];
            list[root] = list[child];
            list[child] = t;
            root = child;
        }
    }
}

/// Put `row`, with z = K^-1 J_row' at `stride` doubles per unknown, into W. If it depends on W, its
/// multiplier moves onto the others so that J'lambda stays (Caratheodory): lambda_row falls along
/// -1 while lambda_W rises along r; an inequality of W that reaches zero first leaves and `row` is
/// tried again with what is left.
static double direction(das *s, int32_t p, double a_pp, double *ret_error);

static bool build_row(das *s, int32_t row, const double *z, int32_t stride) {
    const qpc_qp *qp = s->qp;
    double a_pp = shift_of(s, row);
    for (int32_t k = qp->row_start[row]; k < qp->row_start[row + 1]; k++)
        a_pp += qp->value[k] * z[(int64_t)qp->column[k] * stride];
    s->a_diag[row] = a_pp;
    for (;;) {
        int32_t count = s->del.count;
        for (int32_t i = 0; i < count; i++) {
            int32_t other = s->del.row[i];
            double sum = 0;
            for (int32_t k = qp->row_start[other]; k < qp->row_start[other + 1]; k++)
                sum += qp->value[k] * z[(int64_t)qp->column[k] * stride];
            s->a[i] = sum;
        }
        memcpy(s->r, s->a, (size_t)count * sizeof(double));
        double d = a_pp - qpc_delassus_forward(&s->del, s->r);
        bool independent = count < s->max_count && d > BUILD_DEPENDENT * a_pp && d > 0;
        if (!independent && qp->equality[row] && count < s->max_count) {
            // An equality belongs into W if it can be there at all: measure d as a norm.
            double error;
            for (int32_t i = 0; i < qp->n; i++) s->z[i] = z[(int64_t)i * stride];
            d = direction(s, row, a_pp, &error);
            independent = d > DEPENDENT * a_pp && error <= 1e-8;
        }
        if (independent) {
            if (!qpc_delassus_append(&s->del, row, s->a, d)) return false;
            s->state[row] = WORKING;
            s->report->adds++;
            s->report->restored++;
            return true;
        }
        memcpy(s->r, s->a, (size_t)count * sizeof(double));
        qpc_delassus_solve(&s->del, s->r);
        double move = s->lambda[row]; // all of it, unless blocked
        int32_t blocker = -1;
        for (int32_t i = 0; i < count; i++) {
            int32_t other = s->del.row[i];
            if (qp->equality[other] || s->r[i] >= 0) continue;
            double most = s->lambda[other] / -s->r[i];
            if (most < move) {
                move = most;
                blocker = i;
            }
        }
        for (int32_t i = 0; i < count; i++) {
            int32_t other = s->del.row[i];
            s->lambda[other] += move * s->r[i];
            if (!qp->equality[other] && s->lambda[other] < 0) s->lambda[other] = 0;
        }
        s->report->exchanges++;
        if (blocker < 0) {
            s->lambda[row] = 0;
            return true;
        }
        s->lambda[row] -= move;
        drop(s, blocker);
    }
}

/// W and its factor from the rows with lambda != 0 and all equalities, then lambda at the
/// stationary point of W. Also the way to start afresh when the factor has worn out.
static bool build(das *s) {
    const qpc_qp *qp = s->qp;
    int32_t n = qp->n, count = 0;
    qpc_delassus_clear(&s->del);
    for (int32_t i = 0; i < qp->m; i++) {
        if (s->state[i] == EMPTY) continue;
        s->state[i] = OUT;
        if (qp->equality[i] || s->lambda[i] > 0)
            s->list[count++] = i;
        else
            s->lambda[i] = 0;
    }
    sort_list(s, count);
    for (int32_t first = 0; first < count; first += QPC_LINSYS_BLOCK) {
        int32_t lanes = count - first < QPC_LINSYS_BLOCK ? count - first : QPC_LINSYS_BLOCK;
        memset(s->block, 0, (size_t)n * QPC_LINSYS_BLOCK * sizeof(double));
        for (int32_t lane = 0; lane < lanes; lane++) {
            int32_t row = s->list[first + lane];
            for (int32_t k = qp->row_start[row]; k < qp->row_start[row + 1]; k++)
                s->block[(int64_t)qp->column[k] * QPC_LINSYS_BLOCK + lane] = qp->value[k];
        }
        qpc_linsys_solve_block(qp->sys, s->block);
        for (int32_t lane = 0; lane < lanes; lane++)
            if (!build_row(s, s->list[first + lane], s->block + lane, QPC_LINSYS_BLOCK))
                return false;
    }
    // lambda_W = A_WW^-1 (J_W K^-1 b - c_W); rows that come out negative leave, all at once in the
    // first rounds, then the first one on the way there.
    for (int32_t round = 0;; round++) {
        int32_t worst = -1;
        double reach = 1;
        for (int32_t i = 0; i < s->del.count; i++) {
            int32_t row = s->del.row[i];
            s->r[i] = qpc_row_dot(qp, row, s->work->free_dv) - qp->c[row];
        }
        qpc_delassus_solve(&s->del, s->r);
        bool all = true;
        for (int32_t i = 0; i < s->del.count; i++) {
            int32_t row = s->del.row[i];
            if (qp->equality[row] || s->r[i] >= 0) continue;
            all = false;
            double t = s->lambda[row] / (s->lambda[row] - s->r[i]);
            if (worst < 0 || t < reach) {
                reach = t;
                worst = i;
            }
        }
        if (all) {
            for (int32_t i = 0; i < s->del.count; i++) s->lambda[s->del.row[i]] = s->r[i];
            break;
        }
        if (round < 3) {
            for (int32_t i = s->del.count - 1; i >= 0; i--) {
                int32_t row = s->del.row[i];
                if (!qp->equality[row] && s->r[i] < 0) drop(s, i);
            }
        } else {
            for (int32_t i = 0; i < s->del.count; i++) {
                int32_t row = s->del.row[i];
                s->lambda[row] += reach * (s->r[i] - s->lambda[row]);
                if (!qp->equality[row] && s->lambda[row] < 0) s->lambda[row] = 0;
            }
            drop(s, worst);
        }
    }
    refresh(s, false);
    return true;
}

// ---- one row ----

/// z, a_pp of row p.
static double look_at(das *s, int32_t p) {
    memset(s->z, 0, (size_t)s->qp->n * sizeof(double));
    qpc_row_add(s->qp, p, 1, s->z);
    qpc_linsys_solve(s->qp->sys, s->z, s->z);
    return s->a_diag[p] = qpc_row_dot(s->qp, p, s->z) + shift_of(s, p);
}

/// r, q, w and d of row p against W (z is there). *ret_error: what J_W w should be and is not,
/// relative.
static double direction(das *s, int32_t p, double a_pp, double *ret_error) {
    const qpc_qp *qp = s->qp;
    int32_t count = s->del.count;
    double d = a_pp;
    *ret_error = 0;
    for (int32_t i = 0; i < count; i++) s->a[i] = qpc_row_dot(qp, s->del.row[i], s->z);
    memcpy(s->r, s->a, (size_t)count * sizeof(double));
    qpc_delassus_solve(&s->del, s->r);
    double before = HUGE_VAL;
    for (int32_t pass = 0;; pass++) {
        memset(s->q, 0, (size_t)qp->n * sizeof(double));
        qpc_row_add(qp, p, 1, s->q);
        for (int32_t i = 0; i < count; i++)
            if (s->r[i] != 0) qpc_row_add(qp, s->del.row[i], -s->r[i], s->q);
        qpc_linsys_solve(qp->sys, s->q, s->w);
        d = shift_of(s, p);
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
static void leave_to_working_set(das *s, int32_t p) {
    for (int32_t i = 0; i < s->del.count && s->lambda[p] != 0; i++) {
        int32_t row = s->del.row[i];
        double l = s->lambda[row] + s->lambda[p] * s->r[i];
        s->lambda[row] = s->qp->equality[row] || l > 0 ? l : 0;
    }
    s->lambda[p] = 0;
    s->state[p] = IMPLIED;
    s->report->implied++;
}

/// y = (1 at p, -r on W; times the sign of the miss) has J'y = q, and y'(J x - c) = v > 0 at the
/// present x: any point that satisfies the rows is at least v / |q|_{K^-1} away. A proof if that is
/// further than anything in the problem, v and |q| taken with the round-off they may carry.
static bool proves_infeasible(const das *s, int32_t p, double sigma, double d, double size) {
    double v = sigma * excess(s, p), doubt = qpc_row_size(s->qp, p, s->x);
    for (int32_t i = 0; i < s->del.count; i++) {
        int32_t row = s->del.row[i];
        v -= sigma * s->r[i] * excess(s, row);
        doubt += fabs(s->r[i]) * qpc_row_size(s->qp, row, s->x);
    }
    double noise = 1e-30 * size;
    return v > 64 * DBL_EPSILON * doubt && v > FAR * s->scale * sqrt(d > noise ? d : noise);
}

static void report_infeasible(das *s, int32_t p) {
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
    report->conflict_count = count < QPC_CONFLICT_MAX ? count : QPC_CONFLICT_MAX;
    memcpy(report->conflict_row, s->list, (size_t)report->conflict_count * sizeof(int32_t));
}

typedef enum verdict { GO_ON, REBUILD, CONTRADICTION, NO_MEMORY } verdict;

/// Push violated row p into W. *ret_rise: by how much the dual objective rose.
static verdict push_row(das *s, int32_t p, double *ret_rise) {
    const qpc_qp *qp = s->qp;
    double sigma = excess(s, p) < 0 ? -1 : 1; // an equality missed from below
    double a_pp = look_at(s, p), tol = tolerance(s, p);
    *ret_rise = 0;
    // Each inner turn drops a row of W, so there are at most |W| + 1.
    for (;;) {
        double error;
        double d = direction(s, p, a_pp, &error);
        if (!(error <= 1e-8)) {
            // The factor has worn out. lambda_p so far stays: the build keeps J'lambda.
            return REBUILD;
        }
        double violation = sigma * excess(s, p);
        bool near = d <= DEPENDENT * a_pp || s->del.count >= s->max_count;
        if (near && violation <= 10 * tol && s->lambda[p] == 0) {
            // In the span of W up to round-off, and so is its bound.
            leave_to_working_set(s, p);
            return GO_ON;
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
            if (fall * fall * s->a_diag[row] <= 1e-26 * a_pp) continue;
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
                return GO_ON;
            }
            if (proves_infeasible(s, p, sigma, d, size)) {
                report_infeasible(s, p);
                return CONTRADICTION;
            }
            // Neither way. Begin afresh if that has not been tried; else the residuals tell.
            if (s->unproven++ < 3) return REBUILD;
            leave_to_working_set(s, p);
            return GO_ON;
        }
        if (near && (t1 < t2 ? t1 : t2) * sqrt(a_pp) > HUGE_PUSH * s->scale) {
            // Mending it takes multipliers that doubles cannot carry: it stays as it is, and the
            // residuals tell.
            leave_to_working_set(s, p);
            return GO_ON;
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
        if (t2 <= t1) {
            if (!qpc_delassus_append(&s->del, p, s->a, d)) return NO_MEMORY;
            s->state[p] = WORKING;
            s->report->adds++;
            return GO_ON;
        }
        if (dependent) s->report->exchanges++;
        drop(s, blocker);
    }
}

/// The most violated row outside W (in units of kt), or the first by key and number; -1 if all
/// hold.
static int32_t choose(const das *s) {
    const qpc_qp *qp = s->qp;
    int32_t best = -1;
    double most = 0;
    for (int32_t i = 0; i < qp->m; i++) {
        if (s->state[i] != OUT) continue;
        double violation = excess(s, i);
        if (qp->equality[i]) violation = fabs(violation);
        if (!(violation > 0)) continue;
        double depth = violation / s->work->kt[i];
        bool better;
        if (best < 0)
            better = true;
        else if (s->least_index || depth == most)
            better = qp->key[i] < qp->key[best] || (qp->key[i] == qp->key[best] && i < best);
        else
            better = depth > most;
        if (!better || violation <= tolerance(s, i)) continue;
        most = depth;
        best = i;
    }
    return best;
}

/// The last digits: lambda to the stationary point of W, and x along with it by the change of
/// lambda, not from lambda afresh, whose rounding would show in J x - c where lambda is large.
static void polish(das *s) {
    const qpc_qp *qp = s->qp;
    refresh(s, true);
    for (int32_t pass = 0; pass < 2 && s->del.count > 0; pass++) {
        for (int32_t i = 0; i < s->del.count; i++) s->r[i] = excess(s, s->del.row[i]);
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

static bool allocate(das *s, qpc_arena *arena) {
    size_t n = (size_t)s->qp->n, m = (size_t)s->qp->m;
    int32_t capacity = s->max_count < FIRST_CAPACITY ? s->max_count : FIRST_CAPACITY;
    size_t places = (size_t)s->max_count + 2;
    s->z = qpc_arena_array(arena, n, sizeof(double));
    s->q = qpc_arena_array(arena, n, sizeof(double));
    s->w = qpc_arena_array(arena, n, sizeof(double));
    s->a = qpc_arena_array(arena, places, sizeof(double));
    s->r = qpc_arena_array(arena, places, sizeof(double));
    s->e = qpc_arena_array(arena, places, sizeof(double));
    s->block = qpc_arena_array(arena, n * QPC_LINSYS_BLOCK, sizeof(double));
    s->a_diag = qpc_arena_array(arena, m, sizeof(double));
    s->state = qpc_arena_array(arena, m, sizeof(uint8_t));
    s->list = qpc_arena_array(arena, m + 1, sizeof(int32_t));
    return s->z != NULL && s->q != NULL && s->w != NULL && s->a != NULL && s->r != NULL &&
           s->e != NULL && s->block != NULL && s->a_diag != NULL && s->state != NULL &&
           s->list != NULL && qpc_delassus_init(&s->del, arena, capacity);
}

qpc_status qpc_active_set_run(const qpc_work *work, const qpc_solver_options *options,
                              const double *shift, double *x, double *lambda,
                              qpc_solver_report *report, qpc_error *err) {
    const qpc_qp *qp = work->qp;
    das s = {.work = work,
             .qp = qp,
             .shift = shift,
             .x = x,
             .lambda = lambda,
             .scale = work->scale,
             .report = report,
             .err = err};
    // Without a shift independent rows are at most n; a shift makes every row independent.
    s.max_count = shift == NULL && qp->n < qp->m ? qp->n : qp->m;
    report->outcome = QPC_OUTCOME_OPTIMAL;
    report->engine = QPC_SOLVER_ACTIVE_SET;
    if (!allocate(&s, work->arena)) return QPC_SOLVER_MEMORY(err, work);

    bool warm = false;
    for (int32_t i = 0; i < qp->m; i++) {
        s.a_diag[i] = 0;
        s.state[i] = work->kt2[i] > 0 ? OUT : EMPTY;
        if (s.state[i] == EMPTY) {
            lambda[i] = 0;
            double miss = qp->equality[i] ? fabs(qp->c[i]) : -qp->c[i];
            if (miss > 0 && report->conflict_count == 0) { // 0 <= c_i fails for every x
                report->outcome = QPC_OUTCOME_INFEASIBLE;
                report->conflict_row[report->conflict_count++] = i;
            }
        } else if (qp->equality[i] || lambda[i] > 0) {
            warm = true;
        }
    }
    if (report->outcome == QPC_OUTCOME_INFEASIBLE) {
        memset(lambda, 0, (size_t)qp->m * sizeof(double));
        memcpy(x, work->free_dv, (size_t)qp->n * sizeof(double));
        return QPC_OK;
    }
    if (warm) {
        if (!build(&s)) return QPC_SOLVER_MEMORY(err, work);
    } else {
        for (int32_t i = 0; i < qp->m; i++) lambda[i] = 0;
        memcpy(x, work->free_dv, (size_t)qp->n * sizeof(double));
    }

    int64_t limit =
        options->max_iterations > 0 ? options->max_iterations : 100 + 20 * ((int64_t)qp->n + qp->m);
    int32_t major = 0, no_rise = 0, polished = 0;
    for (;;) {
        int32_t p = choose(&s);
        if (p < 0) {
            // Polishing may show a row that round-off had hidden: go on from there, but not for
            // ever.
            polish(&s);
            if (polished++ == 3 || choose(&s) < 0) break;
            continue;
        }
        if ((int64_t)report->adds + report->drops + major >= limit) {
            report->outcome = QPC_OUTCOME_ITERATION_LIMIT;
            break;
        }
        double rise;
        verdict v = push_row(&s, p, &rise);
        if (v == NO_MEMORY) return QPC_SOLVER_MEMORY(err, work);
        if (v == CONTRADICTION) break;
        major++;
        if (rise > 1e-16 * s.scale * s.scale)
            no_rise = 0;
        else
            no_rise++;
        bool tired = no_rise > 0 && no_rise % NO_RISE_REBUILD == 0;
        if (v == REBUILD || tired) {
            report->rebuilds++;
            if (tired) s.least_index = true;
            if (!build(&s)) return QPC_SOLVER_MEMORY(err, work);
            if (v == REBUILD) no_rise++; // a rebuild that helps nothing must end, too
        } else if (major % REFRESH_EVERY == 0) {
            refresh(&s, false);
        }
        if (no_rise >= NO_RISE_STOP) {
            report->outcome = QPC_OUTCOME_STALLED;
            polish(&s);
            break;
        }
    }
    report->iterations += report->adds + report->drops;
    report->active = qpc_work_active(qp, lambda);
    return QPC_OK;
}
