/// Working sets made of many rows at once, for the dual active set (active_set.c): the warm build
/// and the guess of a cold start.
///
/// Rows come in blocks of right-hand sides, so that K^-1 J' costs a fraction of what single solves
/// do, and need only the products A_W,row and one forward substitution each. Runs on the worker in
/// the world.
#include "engine/solver/active_set.h"

#include <string.h>

/// d / a_pp of a row that depends on W: here d is a difference, and a row left out comes back if it
/// is missed.
static const double BUILD_DEPENDENT = 1e-9;

// Of the largest violation: rows that come in one round. In a band single solves are cheap.
static const double GUESS_NEAR = 0.15, GUESS_NEAR_BAND = 0.7;
enum {
    NARROW = 8,   // half bandwidth of a cable and of rigid blocks
    DROP_ALL = 3, // rounds in which all negative multipliers leave at once
    GUESS_ROUNDS = 8,
    GUESS_LEAST = 8, // fewer violated rows are for the exact loop
};

// ---- order ----

static bool goes_before(const qpc_das *s, int32_t a, int32_t b) {
    // Equalities first, then the largest weight, then by key and number.
    const qpc_qp *qp = s->qp;
    if (qp->equality[a] != qp->equality[b]) return qp->equality[a] != 0;
    if (!qp->equality[a] && s->weight[a] != s->weight[b]) return s->weight[a] > s->weight[b];
    return qp->key[a] != qp->key[b] ? qp->key[a] < qp->key[b] : a < b;
}

static void sort_list(const qpc_das *s, int32_t count) {
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
            if (child + 1 < end && goes_before(s, list[child], list[child + 1])) child++;
            if (!goes_before(s, list[root], list[child])) break;
            int32_t t = list[root];
            list[root] = list[child];
            list[child] = t;
            root = child;
        }
    }
}

// ---- rows into W ----

/// K^-1 J_row' of one row among a block: unknown j at z[j * stride].
typedef struct column {
    const double *z;
    int32_t stride;
} column;

static double column_dot(const qpc_qp *qp, int32_t row, column v) {
    double sum = 0;
    for (int32_t k = qp->row_start[row]; k < qp->row_start[row + 1]; k++)
        sum += qp->value[k] * v.z[(int64_t)qp->column[k] * v.stride];
    return sum;
}

/// lambda_row moves onto W so that J'lambda stays (Caratheodory): it falls along -1 while lambda_W
/// rises along r = A_WW^-1 a. True if all of it has moved; else an inequality of W reached zero
/// first and has left: if it was put back in this very build, that is no change of the set, and counts in no limit.
static bool shift_multiplier(qpc_das *s, int32_t row, const int32_t *count_as) {
    const qpc_qp *qp = s->qp;
    int32_t count = s->del.count, blocker = -1;
    double move = s->lambda[row];
    s->report->exchanges++;
    if (move == 0) return true;
    memcpy(s->r, s->y, (size_t)count * sizeof(double));
    qpc_delassus_backward(&s->del, s->r);
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
    if (blocker < 0) {
        s->lambda[row] = 0;
        return true;
    }
    s->lambda[row] -= move;
    qpc_das_drop(s, blocker);
    if (count_as == &s->report->restored) {
        s->report->restored--;
        s->report->drops--;
    }
    return false;
}

/// Put `row` into W; if it depends on W, its multiplier goes there instead. *count_as: which count
/// a row that joins raises. False when memory is out.
static bool build_row(qpc_das *s, int32_t row, column v, int32_t *count_as) {
    const qpc_qp *qp = s->qp;
    double a_pp = qpc_das_shift(s, row) + column_dot(qp, row, v);
    s->a_diag[row] = a_pp;
    for (;;) {
        int32_t count = s->del.count;
        for (int32_t i = 0; i < count; i++) s->y[i] = column_dot(qp, s->del.row[i], v);
        double d = a_pp - qpc_delassus_forward(&s->del, s->y);
        bool independent = count < s->max_count && d > BUILD_DEPENDENT * a_pp && d > 0;
        if (!independent && qp->equality[row] && count < s->max_count) {
            // An equality belongs into W if it can be there at all: measure d as a norm.
            double error;
            for (int32_t i = 0; i < qp->n; i++) s->z[i] = v.z[(int64_t)i * v.stride];
            d = qpc_das_direction(s, row, a_pp, &error);
            independent = d > QPC_DAS_DEPENDENT * a_pp && error <= 1e-8;
        }
        if (independent) {
            if (!qpc_delassus_append(&s->del, row, s->y, d)) return false;
            s->state[row] = QPC_ROW_WORKING;
            (*count_as)++;
            return true;
        }
        if (shift_multiplier(s, row, count_as)) return true;
    }
}

/// `count` rows of the list from `from` on into W, in that order.
static bool build_list(qpc_das *s, int32_t from, int32_t count, int32_t *count_as) {
    const qpc_qp *qp = s->qp;
    bool lanes_apart = !qpc_das_columns(qp->sys);
    int32_t n = qp->n, width = s->lanes;
    // Lanes side by side, or column after column.
    int32_t stride = lanes_apart ? QPC_LINSYS_BLOCK : 1, apart = lanes_apart ? 1 : n;
    for (int32_t first = 0; first < count; first += width) {
        int32_t lanes = count - first < width ? count - first : width;
        memset(s->block, 0, (size_t)n * (size_t)(lanes_apart ? width : lanes) * sizeof(double));
        for (int32_t lane = 0; lane < lanes; lane++) {
            int32_t row = s->list[from + first + lane];
            double *z = s->block + (int64_t)lane * apart;
            for (int32_t k = qp->row_start[row]; k < qp->row_start[row + 1]; k++)
                z[(int64_t)qp->column[k] * stride] = qp->value[k];
        }
        if (lanes_apart)
            qpc_linsys_solve_block(qp->sys, s->block);
        else if (qpc_linsys_solve_many(qp->sys, s->block, lanes, NULL) != QPC_OK)
            return false;
        for (int32_t lane = 0; lane < lanes; lane++) {
            column v = {s->block + (int64_t)lane * apart, stride};
            if (!build_row(s, s->list[from + first + lane], v, count_as)) return false;
        }
    }
    return true;
}

// ---- lambda of W ----

/// r = A_WW^-1 (J_W K^-1 b - c_W): the multipliers at which J_W x = c_W. True if none is negative.
static bool stationary(qpc_das *s) {
    const qpc_qp *qp = s->qp;
    bool all = true;
    for (int32_t i = 0; i < s->del.count; i++) {
        int32_t row = s->del.row[i];
        s->r[i] = qpc_row_dot(qp, row, s->work->free_dv) - qp->c[row];
    }
    qpc_delassus_solve(&s->del, s->r);
    for (int32_t i = 0; i < s->del.count; i++)
        all = all && (qp->equality[s->del.row[i]] || s->r[i] >= 0);
    return all;
}

static int32_t negative(const qpc_das *s) {
    int32_t count = 0;
    for (int32_t i = 0; i < s->del.count; i++) count += !s->qp->equality[s->del.row[i]] && s->r[i] < 0;
    return count;
}

/// lambda_W to its stationary point; rows that come out negative leave, all at once in the first
/// rounds, then the first one on the way there. Where the limit is met on that way, lambda stays as it is. x follows.
static void settle(qpc_das *s) {
    const qpc_qp *qp = s->qp;
    bool there;
    for (int32_t round = 0; !(there = stationary(s)) && qpc_das_left(s) > 0; round++) {
        if (round < DROP_ALL && negative(s) <= qpc_das_left(s)) {
            for (int32_t i = s->del.count - 1; i >= 0; i--)
                if (!qp->equality[s->del.row[i]] && s->r[i] < 0) qpc_das_drop(s, i);
            continue;
        }
        int32_t worst = -1;
        double reach = 1;
        for (int32_t i = 0; i < s->del.count; i++) {
            int32_t row = s->del.row[i];
            if (qp->equality[row] || s->r[i] >= 0) continue;
            double t = s->lambda[row] / (s->lambda[row] - s->r[i]);
            if (worst >= 0 && !(t < reach)) continue;
            reach = t;
            worst = i;
        }
        for (int32_t i = 0; i < s->del.count; i++) {
            int32_t row = s->del.row[i];
            s->lambda[row] += reach * (s->r[i] - s->lambda[row]);
            if (!qp->equality[row] && s->lambda[row] < 0) s->lambda[row] = 0;
        }
        qpc_das_drop(s, worst);
    }
    for (int32_t i = 0; i < s->del.count && there; i++) s->lambda[s->del.row[i]] = s->r[i];
    qpc_das_refresh(s, false);
    s->unsettled = !there;
    if (!there) return;
    // Where rows of W are nearly dependent, x of these lambda is not on them yet.
    for (int32_t i = 0; i < s->del.count; i++) {
        if (fabs(qpc_das_excess(s, s->del.row[i])) <= qpc_das_tolerance(s, s->del.row[i])) continue;
        qpc_das_polish(s);
        break;
    }
}

bool qpc_das_build(qpc_das *s) {
    const qpc_qp *qp = s->qp;
    int32_t count = 0;
    qpc_delassus_clear(&s->del);
    s->implied = 0;
    for (int32_t i = 0; i < qp->m; i++) {
        if (s->state[i] == QPC_ROW_EMPTY) continue;
        s->state[i] = QPC_ROW_OUT;
        s->weight[i] = fabs(s->lambda[i]) * s->work->kt[i];
        if (qp->equality[i] || s->lambda[i] > 0)
            s->list[count++] = i;
        else
            s->lambda[i] = 0;
    }
    sort_list(s, count);
    if (!build_list(s, 0, count, &s->report->restored)) return false;
    settle(s);
    return true;
}

/// Whether a single solve costs hardly more than its share of a block.
static bool quick_solves(const qpc_linsys *sys) {
    return !qpc_das_columns(sys) &&
           (sys->kind == QPC_LINSYS_BAND ? sys->bandwidth : sys->width) <= NARROW;
}

/// Into the list, sorted: rows violated by at least GUESS_NEAR of the largest violation (in units
/// of kt). Returns their number.
static int32_t list_violated(qpc_das *s) {
    const qpc_qp *qp = s->qp;
    int32_t count = 0, kept = 0;
    double most = 0, near = quick_solves(qp->sys) ? GUESS_NEAR_BAND : GUESS_NEAR;
    for (int32_t i = 0; i < qp->m; i++) {
        if (s->state[i] != QPC_ROW_OUT) continue;
        double violation = qpc_das_excess(s, i);
        if (qp->equality[i]) violation = fabs(violation);
        if (!(violation > 0)) continue;
        double depth = violation / s->work->kt[i];
        if (depth < near * most || violation <= qpc_das_tolerance(s, i)) continue;
        if (depth > most) most = depth;
        s->weight[i] = depth;
        s->list[count++] = i;
    }
    for (int32_t i = 0; i < count; i++)
        if (s->weight[s->list[i]] >= near * most) s->list[kept++] = s->list[i];
    sort_list(s, kept);
    return kept;
}

/// How many rows may prove dependent before guessing does more harm than good.
static int32_t allowed(int32_t added) {
    return 4 + added / 2;
}

bool qpc_das_guess(qpc_das *s, int64_t budget) {
    qpc_solver_report *report = s->report;
    for (int32_t round = 0; round < GUESS_ROUNDS; round++) {
        int32_t count = list_violated(s), adds = report->adds, drops = report->drops;
        int64_t left = budget - adds - drops, room = QPC_DAS_ROWS_MOST - s->del.count;
        if (s->limit < INT64_MAX) left = (qpc_das_left(s) - s->del.count) / 2; // all of them may leave again
        if (room < left) left = room;
        if (count > left) count = left > 0 ? (int32_t)left : 0;
        if (count < GUESS_LEAST) break;
        if (round == 0 && count < s->del.count / 2) break; // a warm start that is nearly right
        int32_t turned_down = 0;
        for (int32_t first = 0; first < count && turned_down <= allowed(report->adds - adds);
             first += QPC_DAS_COLUMNS) {
            int32_t some = count - first < QPC_DAS_COLUMNS ? count - first : QPC_DAS_COLUMNS;
            if (!build_list(s, first, some, &report->adds)) return false;
            turned_down = first + some - (report->adds - adds);
        }
        settle(s);
        adds = report->adds - adds;
        drops = report->drops - drops;
        if (turned_down > allowed(adds) || drops > adds) break;
    }
    return true;
}
