/// Sweeps of projected Gauss-Seidel over the rows and tangents that stand, with K: a step out of budget goes on from its best iterate
/// (T43).
///
/// lambda_i <- (lambda_i + (J_i dv - c_i) / A_ii)_+ and dv with it, A = J K^-1 J'; friction of a contact right after its row, within
/// mu lambda. Each such change raises the dual objective, and dv stays K^-1 (b - J'lambda - T'beta), a motion of its impulses. Columns of
/// A are made for rows that ever push; where those could be too many for a bounded time, nothing is done (settle.c has the masses
/// instead). Runs on the worker in the world; memory from the arena.
#include "engine/world/attempt.h"

#include <string.h>

enum {
    SWEEPS = 40,
    MOST_ENTRIES = 1 << 19, // of K^-1 J' and A, if every row pushes
};
static const double ENOUGH = 0.1; // of the solver's tolerance: changes that are none

typedef struct sweeps {
    qpc_world *w;
    int32_t m, count;  // rows; with tangents
    double **column;   // (count) of A (count), NULL: not needed so far
    double *excess;    // (count) J dv - c; T dv + u0
    double *z;         // (unknowns)
    double most;       // change of excess in this sweep, m/s
    bool no_memory;
} sweeps;

typedef struct row { // of J or T
    const int32_t *column;
    const double *value;
    int32_t count;
} row;

static row row_of(const sweeps *s, int32_t i) {
    const qpc_rows *rows = &s->w->rows;
    const qpc_rub *rub = &s->w->rub;
    bool tangent = i >= s->m;
    int32_t from = tangent ? rub->start.data[i - s->m] : rows->row_start[i];
    int32_t to = tangent ? rub->start.data[i - s->m + 1] : rows->row_start[i + 1];
    if (tangent) return (row){rub->column.data + from, rub->value.data + from, to - from};
    return (row){rows->column + from, rows->value + from, to - from};
}

static double dot(row r, const double *x) {
    double sum = 0.0;
    for (int32_t k = 0; k < r.count; k++) sum += r.value[k] * x[r.column[k]];
    return sum;
}

static const double *column_of(sweeps *s, int32_t i) {
    if (s->column[i] != NULL) return s->column[i];
    double *a = qpc_arena_array(&s->w->arena, (size_t)s->count, sizeof *a);
    if (a == NULL) {
        s->no_memory = true;
        return NULL;
    }
    memset(s->z, 0, 3 * (size_t)s->w->block_count * sizeof *s->z);
    row r = row_of(s, i);
    for (int32_t k = 0; k < r.count; k++) s->z[r.column[k]] += r.value[k];
    qpc_linsys_solve(&s->w->sys, s->z, s->z);
    for (int32_t j = 0; j < s->count; j++) a[j] = dot(row_of(s, j), s->z);
    return s->column[i] = a;
}

/// Impulse i grows by that.
static void push(sweeps *s, const double *a, int32_t i, double impulse) {
    if (impulse == 0.0) return;
    for (int32_t j = 0; j < s->count; j++) s->excess[j] -= impulse * a[j];
    s->most = fmax(s->most, fabs(impulse) * a[i]);
}

static void press(sweeps *s, int32_t i) {
    const qpc_rows *rows = &s->w->rows;
    if (!rows->equality[i] && !(s->excess[i] > 0.0) && !(rows->lambda[i] > 0.0)) return;
    const double *a = column_of(s, i);
    if (a == NULL || !(a[i] > 0.0)) return;
    double now = rows->lambda[i] + s->excess[i] / a[i];
    if (!rows->equality[i]) now = fmax(now, 0.0);
    push(s, a, i, now - rows->lambda[i]);
    rows->lambda[i] = now;
}

/// Friction of contact k: towards no sliding, within its cone.
static void rub_once(sweeps *s, int32_t k) {
    const qpc_rub *rub = &s->w->rub;
    double *beta = rub->beta.data + 2 * k, most = rub->mu.data[k] * fmax(s->w->rows.lambda[rub->row.data[k]], 0.0), wanted[2];
    if (most == 0.0 && beta[0] == 0.0 && beta[1] == 0.0) return;
    int32_t first = s->m + 2 * k;
    const double *a[2] = {column_of(s, first), column_of(s, first + 1)};
    if (a[0] == NULL || a[1] == NULL) return;
    // The sum of the two is no less than any eigenvalue of their 2 x 2 block.
    double soft = a[0][first] + a[1][first + 1];
    if (!(soft > 0.0)) return;
    for (int32_t e = 0; e < 2; e++) wanted[e] = beta[e] + s->excess[first + e] / soft;
    double size = hypot(wanted[0], wanted[1]), part = size > most ? most / size : 1.0;
    for (int32_t e = 0; e < 2; e++) {
        push(s, a[e], first + e, part * wanted[e] - beta[e]);
        beta[e] = part * wanted[e];
    }
}

static bool begin(sweeps *s, qpc_world *w) {
    *s = (sweeps){.w = w, .m = w->rows.m, .count = w->rows.m + 2 * w->rub.row.count};
    s->column = qpc_arena_array(&w->arena, (size_t)s->count, sizeof *s->column);
    s->excess = qpc_arena_array(&w->arena, (size_t)s->count, sizeof *s->excess);
    s->z = qpc_arena_array(&w->arena, 3 * (size_t)w->block_count, sizeof *s->z);
    if (s->column == NULL || s->excess == NULL || s->z == NULL) return false;
    for (int32_t i = 0; i < s->count; i++) s->column[i] = NULL;
    return true;
}

/// dv of the impulses that stand, by a fresh solve.
static void move(sweeps *s) {
    qpc_world *w = s->w;
    qpc_rub_load(&w->rub, 3 * w->block_count, w->b, s->z);
    for (int32_t i = 0; i < s->m; i++) {
        row r = row_of(s, i);
        if (w->rows.lambda[i] == 0.0) continue;
        for (int32_t k = 0; k < r.count; k++) s->z[r.column[k]] -= w->rows.lambda[i] * r.value[k];
    }
    qpc_linsys_solve(&w->sys, s->z, w->dv);
}

bool qpc_sweeps_pay(const qpc_world *w) {
    int64_t count = w->rows.m + 2 * (int64_t)w->rub.row.count;
    return count * (count + 3 * (int64_t)w->block_count) <= MOST_ENTRIES;
}

qpc_status qpc_step_sweep(qpc_world *w, double h, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    sweeps s;
    qpc_status st = qpc_linsys_ensure(&w->sys, err);
    if (st != QPC_OK) return st;
    if (!begin(&s, w)) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for sweeps over %d rows", w->rows.m);
    for (int32_t i = 0; i < s.m; i++)
        if (!w->rows.equality[i] && !(w->rows.lambda[i] > 0.0)) w->rows.lambda[i] = 0.0;
    move(&s);
    for (int32_t i = 0; i < s.count; i++) s.excess[i] = dot(row_of(&s, i), w->dv) + (i < s.m ? -w->rows.c[i] : w->rub.u0.data[i - s.m]);
    double enough = ENOUGH * w->solver.tolerance * w->min_separation / h;
    for (int32_t n = 0; n < SWEEPS && !s.no_memory; n++) { // forth and back in turn
        s.most = 0.0;
        for (int32_t k = 0; k < s.m; k++) {
            int32_t i = (n & 1) != 0 ? s.m - 1 - k : k, contact = qpc_rub_of_row(&w->rub, i);
            press(&s, i);
            if (contact >= 0) rub_once(&s, contact);
        }
        if (!(s.most > enough)) break;
    }
    move(&s);
    qpc_arena_rewind(&w->arena, mark);
    return s.no_memory ? qpc_fail(err, QPC_ERR_MEMORY, "no memory for sweeps over %d rows", w->rows.m) : QPC_OK;
}
