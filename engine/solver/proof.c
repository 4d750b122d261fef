/// Proofs that rows contradict (T35), from multipliers of interior-point.
///
/// y >= 0 with J'y = q and y'c = -v < 0: every x that satisfies the rows has q'x <= -v, so that |x|_K >= v / |q|_{K^-1}. Beyond
/// 100 S, further than anything in the problem, that counts as none; and so does what is faster than the caller has use for, V in
/// any unknown, which a proof with v > V |q|_1 excludes. The multipliers that an interior point runs into have all rows
/// in them. They are moved onto fewer, one row after the other, from the row with the largest one to its neighbours: a row that
/// depends on those kept, J_p' - J_W' r = 0, gives its multiplier away along (-1, r), or takes some along (1, -r), whichever way y'c
/// falls, until one of them is zero. Dependent is what the room between v and 100 S |q| (or V |q|_1) allows. Where (1, -r) >= 0 is a proof
/// by itself, that one is told: none of its rows can be spared. Runs on the worker in the world; memory from the arena, given
/// back.
#include "engine/solver/proof.h"

#include "engine/solver/delassus.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const double FAR = 100;           // no answer is further off than this many S
static const double NOISE = 16;          // DBL_EPSILON of the sum of multipliers: what J'y cannot tell from zero
static const double SURE = 64;           // DBL_EPSILON of the terms of y'c
static const double TRIFLE = 1e-9;       // of the largest multiplier: not in the proof
static const double DEPENDENT = 1e-12;   // of A_pp: dependent whatever the room
static const double SHARE = 0.5;         // of the room that dependence may take
enum {
    FIRST_CAPACITY = 64,
    KEPT_MOST = 128, // rows that W may have, and
    LOOKS_MOST = 512, // directions that may be looked at, before what is left of y is told as it is
};

/// What |q'x| may be at most for any x that counts as an answer.
static double burden(const qpc_work *work, const double *q, double q2, bool by_speed) {
    double sum = 0;
    if (!by_speed) return FAR * work->scale * sqrt(fabs(q2));
    for (int32_t j = 0; j < work->qp->n; j++) sum += fabs(q[j]);
    return work->beyond * sum;
}

/// v, and into q J'y. *ret_noise: what J'y cannot tell from zero, in K^-1. 0 if v may be round-off.
static double gain(const qpc_work *work, const double *y, double *q, double *ret_noise) {
    const qpc_qp *qp = work->qp;
    double v = 0, doubt = 0, sum = 0;
    memset(q, 0, (size_t)qp->n * sizeof *q);
    for (int32_t i = 0; i < qp->m; i++) {
        if (y[i] == 0) continue;
        v -= y[i] * qp->c[i];
        doubt += fabs(y[i] * qp->c[i]);
        sum += fabs(y[i]) * work->kt[i];
        qpc_row_add(qp, i, y[i], q);
    }
    *ret_noise = NOISE * DBL_EPSILON * sum;
    return v > SURE * DBL_EPSILON * doubt ? v : 0;
}

bool qpc_proof_by_speed(const qpc_work *work, const double *y, double *q) {
    double noise;
    if (!(work->beyond > 0)) return false;
    double v = gain(work, y, q, &noise);
    return v > 0 && v > burden(work, q, 0, true) + FAR * work->scale * noise;
}

bool qpc_proof_holds(const qpc_work *work, const double *y, double *q, double *z) {
    const qpc_qp *qp = work->qp;
    double noise, rough = 0, q2 = 0, v = gain(work, y, q, &noise), most = v / (FAR * work->scale);
    if (!(v > 0)) return false;
    if (work->beyond > 0 && v > burden(work, q, 0, true) + FAR * work->scale * noise) return true;
    // diag(K) tells whether it is worth a solve: rows of K have a few dozen entries.
    for (int32_t j = 0; j < qp->n; j++) rough += q[j] * q[j] / qp->sys->diagonal[j];
    if (!(sqrt(rough) < 8 * most)) return false;
    qpc_linsys_solve(qp->sys, q, z);
    for (int32_t j = 0; j < qp->n; j++) q2 += q[j] * z[j];
    return most > sqrt(fabs(q2)) + noise;
}

typedef struct reduction {
    const qpc_work *work;
    const qpc_qp *qp;
    double *y;                 // (m)
    double *z, *q, *w;         // (n) K^-1 J_p', J_p' - J_W' r, K^-1 q
    double *l, *r;             // (n + 1) L^-1 J_W z, r
    qpc_delassus kept;         // W
    int32_t *order, *of_column, *next; // (m) rows in the order they are looked at; rows by column
    uint8_t *met;              // (m)
    int32_t count, looks;      // rows in that order; directions so far
    bool by_speed;             // which proof it is
    double strict;             // times the burden is what the fewer rows must prove as well: the root of what all of them do
    double room;               // v less that
} reduction;

static bool allocate(reduction *p, qpc_arena *arena) {
    size_t n = (size_t)p->qp->n, m = (size_t)p->qp->m, nnz = (size_t)p->qp->row_start[p->qp->m];
    p->z = qpc_arena_array(arena, n, sizeof(double));
    p->q = qpc_arena_array(arena, n, sizeof(double));
    p->w = qpc_arena_array(arena, n, sizeof(double));
    p->l = qpc_arena_array(arena, n + 1, sizeof(double));
    p->r = qpc_arena_array(arena, n + 1, sizeof(double));
    p->order = qpc_arena_array(arena, m, sizeof(int32_t));
    p->next = qpc_arena_array(arena, n + 2, sizeof(int32_t));
    p->of_column = qpc_arena_array(arena, nnz, sizeof(int32_t));
    p->met = qpc_arena_array(arena, m, 1);
    return p->z != NULL && p->q != NULL && p->w != NULL && p->l != NULL && p->r != NULL && p->order != NULL && p->next != NULL &&
           p->of_column != NULL && p->met != NULL && qpc_delassus_init(&p->kept, arena, FIRST_CAPACITY);
}

/// Rows with a multiplier by their columns: those of column j at of_column[next[j] .. next[j + 1]].
static void sort_by_column(reduction *p) {
    const qpc_qp *qp = p->qp;
    int32_t *at = p->next + 1; // moves to the left by one as it is filled
    memset(p->next, 0, ((size_t)qp->n + 2) * sizeof *p->next);
    for (int32_t i = 0; i < qp->m; i++)
        for (int32_t k = qp->row_start[i]; k < qp->row_start[i + 1] && p->y[i] != 0; k++) at[qp->column[k] + 1]++;
    for (int32_t j = 0; j < qp->n; j++) at[j + 1] += at[j];
    for (int32_t i = 0; i < qp->m; i++)
        for (int32_t k = qp->row_start[i]; k < qp->row_start[i + 1] && p->y[i] != 0; k++) p->of_column[at[qp->column[k]]++] = i;
}

/// The largest multiplier not yet met; -1 if there is none.
static int32_t largest_left(const reduction *p) {
    int32_t best = -1;
    double most = 0;
    for (int32_t i = 0; i < p->qp->m; i++) {
        double size = fabs(p->y[i]) * p->work->kt[i];
        if (p->met[i] || !(size > most)) continue;
        most = size;
        best = i;
    }
    return best;
}

/// From the largest multiplier to rows of the same unknowns, and so on.
static void make_order(reduction *p) {
    const qpc_qp *qp = p->qp;
    sort_by_column(p);
    memset(p->met, 0, (size_t)qp->m);
    int32_t at = 0;
    for (int32_t first; (first = largest_left(p)) >= 0;) {
        p->met[p->order[p->count++] = first] = 1;
        for (; at < p->count; at++) {
            int32_t row = p->order[at];
            for (int32_t k = qp->row_start[row]; k < qp->row_start[row + 1]; k++) {
                for (int32_t e = p->next[qp->column[k]]; e < p->next[qp->column[k] + 1]; e++) {
                    int32_t other = p->of_column[e];
                    if (!p->met[other]) p->met[p->order[p->count++] = other] = 1;
                }
            }
        }
    }
}

/// r, q and w of row p against W, once refined; d = |J_p' - J_W' r|^2 in K^-1.
static double direction(reduction *p, int32_t row, double *ret_a) {
    const qpc_qp *qp = p->qp;
    int32_t count = p->kept.count;
    memset(p->z, 0, (size_t)qp->n * sizeof(double));
    qpc_row_add(qp, row, 1, p->z);
    qpc_linsys_solve(qp->sys, p->z, p->z);
    *ret_a = qpc_row_dot(qp, row, p->z);
    for (int32_t i = 0; i < count; i++) p->l[i] = qpc_row_dot(qp, p->kept.row[i], p->z);
    qpc_delassus_forward(&p->kept, p->l);
    memcpy(p->r, p->l, (size_t)count * sizeof(double));
    qpc_delassus_backward(&p->kept, p->r);
    double d = 0;
    memset(p->q, 0, (size_t)qp->n * sizeof(double));
    qpc_row_add(qp, row, 1, p->q);
    for (int32_t i = 0; i < count; i++) qpc_row_add(qp, p->kept.row[i], -p->r[i], p->q);
    qpc_linsys_solve(qp->sys, p->q, p->w);
    for (int32_t i = 0; i < qp->n; i++) d += p->q[i] * p->w[i];
    return fabs(d);
}

/// (1, -r) on the row and W, of which nothing is negative where it must not be: a proof by itself.
static bool closes(reduction *p, int32_t row, double d) {
    const qpc_work *work = p->work;
    const qpc_qp *qp = p->qp;
    double v = -qp->c[row], doubt = fabs(v), sum = work->kt[row];
    for (int32_t i = 0; i < p->kept.count; i++) {
        int32_t other = p->kept.row[i];
        double y = -p->r[i], size = fabs(y) * work->kt[other];
        if (!qp->equality[other] && y < 0 && size > TRIFLE * work->kt[row]) return false;
        v -= y * qp->c[other];
        doubt += fabs(y * qp->c[other]);
        sum += size;
    }
    double noise = FAR * work->scale * NOISE * DBL_EPSILON * sum;
    return v > SURE * DBL_EPSILON * doubt && v > p->strict * burden(work, p->q, d, p->by_speed) + noise;
}

/// y moves by t along +-(1, -r) until something of it is zero, which leaves. True: that was the row itself, or nothing stopped it.
static bool move(reduction *p, int32_t row, double way, double t, int32_t blocker) {
    const qpc_qp *qp = p->qp;
    for (int32_t i = 0; i < p->kept.count; i++) {
        int32_t other = p->kept.row[i];
        p->y[other] -= way * t * p->r[i];
        if (!qp->equality[other] && p->y[other] < 0) p->y[other] = 0;
    }
    p->y[row] += way * t;
    if (blocker < 0) {
        p->y[row] = 0;
        return true;
    }
    p->y[p->kept.row[blocker]] = 0;
    qpc_delassus_remove(&p->kept, blocker);
    return false;
}

/// How far y can go along way (1, -r) until something of it is zero, and the place in W of what that is (-1: the row itself).
static double reach(const reduction *p, int32_t row, double way, int32_t *ret_blocker) {
    double t = way * p->y[row] < 0 ? fabs(p->y[row]) : HUGE_VAL;
    *ret_blocker = -1;
    for (int32_t i = 0; i < p->kept.count; i++) {
        int32_t other = p->kept.row[i];
        double fall = way * p->r[i];
        if (p->qp->equality[other] || !(fall > 0) || !(p->y[other] < t * fall)) continue;
        t = p->y[other] / fall;
        *ret_blocker = i;
    }
    return t;
}

/// The row into W, or its multiplier onto W. *ret_closed: a proof by itself was found, y is that now. False when memory is out.
static bool take(reduction *p, int32_t row, int32_t left, bool *ret_closed) {
    const qpc_qp *qp = p->qp;
    for (;;) {
        if (p->looks++ >= LOOKS_MOST) return true;
        double a, d = direction(p, row, &a), change = qp->c[row];
        if (closes(p, row, d)) {
            memset(p->y, 0, (size_t)qp->m * sizeof(double));
            p->y[row] = 1;
            for (int32_t i = 0; i < p->kept.count; i++) p->y[p->kept.row[i]] = -p->r[i];
            return *ret_closed = true;
        }
        for (int32_t i = 0; i < p->kept.count; i++) change -= p->r[i] * qp->c[p->kept.row[i]];
        double way = change > 0 ? -1 : 1, t = HUGE_VAL; // y'c must not rise
        int32_t blocker = -1;
        for (int pass = 0; pass < 2 && !isfinite(t); pass++, way = isfinite(t) ? way : -way) t = reach(p, row, way, &blocker);
        double cost = t * p->strict * burden(p->work, p->q, d, p->by_speed);
        bool dependent = p->kept.count >= qp->n || d <= DEPENDENT * a || cost <= SHARE * p->room / left;
        if (!dependent) return qpc_delassus_append(&p->kept, row, p->l, d);
        p->room -= cost;
        if (move(p, row, way, t, blocker)) return true;
    }
}

static void name(reduction *p, qpc_solver_report *report) {
    const qpc_qp *qp = p->qp;
    double largest = 0;
    int32_t count = 0;
    for (int32_t i = 0; i < qp->m; i++) largest = fmax(largest, fabs(p->y[i]) * p->work->kt[i]);
    for (int32_t i = 0; i < qp->m; i++) {
        if (!(fabs(p->y[i]) * p->work->kt[i] > TRIFLE * largest)) continue;
        if (count < QPC_CONFLICT_MAX) report->conflict_row[count] = i;
        count++;
    }
    report->conflict_count = count;
    report->outcome = QPC_OUTCOME_INFEASIBLE;
}

qpc_status qpc_proof_name(const qpc_work *work, double *y, qpc_solver_report *report, qpc_error *err) {
    const qpc_qp *qp = work->qp;
    qpc_arena_mark mark = qpc_arena_get_mark(work->arena);
    reduction p = {.work = work, .qp = qp, .y = y};
    double *whole = qpc_arena_array(work->arena, (size_t)qp->m, sizeof *whole), largest = 0;
    if (whole == NULL || !allocate(&p, work->arena)) {
        qpc_arena_rewind(work->arena, mark);
        return QPC_SOLVER_MEMORY(err, work);
    }
    for (int32_t i = 0; i < qp->m; i++) largest = fmax(largest, fabs(y[i]) * work->kt[i]);
    for (int32_t i = 0; i < qp->m; i++) {
        y[i] /= largest;
        if (fabs(y[i]) * work->kt[i] < DBL_EPSILON) y[i] = 0;
    }
    memcpy(whole, y, (size_t)qp->m * sizeof *whole);
    bool closed = false, holds = qpc_proof_holds(work, y, p.q, p.z);
    if (holds) {
        double noise, q2 = 0, v = gain(work, y, p.q, &noise);
        p.by_speed = qpc_proof_by_speed(work, y, p.q);
        if (!p.by_speed) qpc_linsys_solve(qp->sys, p.q, p.z);
        for (int32_t j = 0; j < qp->n && !p.by_speed; j++) q2 += p.q[j] * p.z[j];
        double all = burden(work, p.q, q2, p.by_speed);
        noise *= FAR * work->scale;
        p.strict = sqrt(v / (all + noise));
        p.room = v - p.strict * all - noise;
        make_order(&p);
    }
    for (int32_t k = 0; k < p.count && !closed && p.looks < LOOKS_MOST && p.kept.count < KEPT_MOST; k++) {
        if (take(&p, p.order[k], p.count - k, &closed)) continue;
        qpc_arena_rewind(work->arena, mark);
        return QPC_SOLVER_MEMORY(err, work);
    }
    // Round-off may have spoilt what is left of it: then the whole of it is told.
    if (!closed && !qpc_proof_holds(work, y, p.q, p.z)) memcpy(y, whole, (size_t)qp->m * sizeof *y);
    name(&p, report);
    qpc_arena_rewind(work->arena, mark);
    return QPC_OK;
}
