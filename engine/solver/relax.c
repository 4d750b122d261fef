/// The relaxation of rows that contradict (T36):
///
///     min 1/2 |s|^2 subject to J x <= c + s,  by proximal steps of the dual,
///     lambda+ = argmin 1/2 l'A l - (J K^-1 b - c)'l + eps/2 |l - lambda|^2 over relaxed rows,
///
/// s = eps (lambda+ - lambda). Rows below the level are in every subproblem as they stand. The multipliers grow for
/// ever, along a proof of the contradiction; s converges, linearly and fast as eps is small against A (Chiche & Gilbert
/// 2016). A step is a QP for active-set, with eps on the diagonal of the Delassus operator. Then no two rows depend on
/// each other, so that it may hold all of them: where they are many and all give way, it is a minimisation of the
/// augmented Lagrangian with weights 1/eps instead, in the unknowns. Runs on the worker in the world.
#include "engine/solver/work.h"

#include <math.h>
#include <string.h>

static const double EPSILON = 1e-6;  // times the least kt^2
static const double SETTLED = 1e-10; // of the largest s: a step that changes no more is the last
static const double HAIR = 1e-10;    // of it: so much more than needed, so that round-off does not contradict again
static const double NOTHING = 1e-9;  // of it: what is no relaxation

enum {
    MANY = 512,  // rows from which active-set is not asked,
    A_FEW = 32,  // where x must not go far
};

typedef struct relaxation {
    const qpc_qp *qp;
    double *c;                                       // (m) of the caller
    double *shift, *moved, *s, *lambda, *old, *zero; // (m) eps on relaxed rows; c less eps old
    double *x;                                       // (n)
    qpc_work work;                                   // of a QP with `moved` for c
    qpc_qp inner;
    double largest;
} relaxation;

static bool allocate(relaxation *r, qpc_arena *arena) {
    size_t n = (size_t)r->qp->n, m = (size_t)r->qp->m;
    double *rows = qpc_arena_array(arena, 6 * m, sizeof *rows);
    r->x = qpc_arena_array(arena, n, sizeof *r->x);
    if (rows == NULL || r->x == NULL) return false;
    memset(rows, 0, 6 * m * sizeof *rows);
    r->shift = rows;
    r->moved = rows + m;
    r->s = rows + 2 * m;
    r->lambda = rows + 3 * m;
    r->old = rows + 4 * m;
    r->zero = rows + 5 * m;
    return true;
}

/// s at this x, row by row: what is left over, which is free of the cancellation in lambda. Its largest change.
static double measure(relaxation *r) {
    double change = 0;
    r->largest = 0;
    for (int32_t i = 0; i < r->qp->m; i++) {
        double now = 0;
        if (r->shift[i] > 0) now = qpc_row_dot(r->qp, i, r->x) - r->c[i];
        if (!r->qp->equality[i] && now < 0) now = 0;
        if (fabs(now - r->s[i]) > change) change = fabs(now - r->s[i]);
        if (fabs(now) > r->largest) r->largest = fabs(now);
        r->s[i] = now;
    }
    return change;
}

static qpc_status step_by_active_set(relaxation *r, int32_t level, qpc_error *err) {
    const qpc_solver_options options = qpc_solver_options_default();
    size_t m = (size_t)r->qp->m;
    memcpy(r->old, r->lambda, m * sizeof *r->old);
    for (size_t i = 0; i < m; i++) {
        r->moved[i] = r->c[i] - r->shift[i] * r->old[i];
        if (r->shift[i] > 0 && r->work.kt2[i] == 0) r->moved[i] = 0; // an empty row: s = -c at once
    }
    qpc_solver_report report = {0};
    qpc_arena_mark inside = qpc_arena_get_mark(r->work.arena);
    qpc_status st = qpc_active_set_run(&r->work, &options, r->shift, r->x, r->lambda, &report, err);
    qpc_arena_rewind(r->work.arena, inside);
    if (st == QPC_OK && report.outcome == QPC_OUTCOME_INFEASIBLE)
        st = qpc_fail(err, QPC_ERR_STATE,
                      "rows contradict even with those of priority %d and more relaxed "
                      "(row %d and %d more)",
                      level, report.conflict_row[0], report.conflict_count - 1);
    return st;
}

qpc_status qpc_relax(const qpc_qp *qp, int32_t level, int32_t most_steps, qpc_arena *arena, double *c, double *ret_largest,
                     qpc_error *err) {
    return qpc_relax_within(qp, level, most_steps, 0, arena, c, ret_largest, err);
}

qpc_status qpc_relax_within(const qpc_qp *qp, int32_t level, int32_t most_steps, double beyond, qpc_arena *arena, double *c,
                            double *ret_largest, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    relaxation r = {.qp = qp, .c = c, .inner = *qp};
    qpc_status st = QPC_OK;
    if (!allocate(&r, arena)) {
        st = qpc_fail(err, QPC_ERR_MEMORY, "out of memory to relax %d rows", qp->m);
        goto out;
    }
    r.inner.c = r.moved;
    memcpy(r.moved, c, (size_t)qp->m * sizeof *c);
    st = qpc_linsys_ensure(qp->sys, err);
    qpc_solver_options options = qpc_solver_options_default();
    if (st == QPC_OK) st = qpc_work_init(&r.work, &r.inner, &options, arena, r.zero, err);
    if (st != QPC_OK) goto out;
    double least = 0;
    int32_t relaxed = 0;
    for (int32_t i = 0; i < qp->m; i++) {
        relaxed += qp->priority[i] >= level;
        if (r.work.kt2[i] > 0 && (least == 0 || r.work.kt2[i] < least)) least = r.work.kt2[i];
    }
    if (least == 0) least = 1; // nothing but empty rows
    if (relaxed == 0) {
        st = qpc_fail(err, QPC_ERR_STATE, "no row of priority %d or more is there to relax", level);
        goto out;
    }
    double eps = EPSILON * least;
    for (int32_t i = 0; i < qp->m; i++) r.shift[i] = qp->priority[i] >= level ? eps : 0;
    bool many = relaxed == qp->m && relaxed > (beyond > 0 ? A_FEW : MANY), ended = false;
    qpc_alm_proximal *steps = NULL;
    if (many) {
        st = qpc_alm_proximal_begin(&r.work, eps, beyond, r.x, r.lambda, &steps, err);
        if (st != QPC_OK) goto out;
    }
    for (int32_t step = 0; step < most_steps && st == QPC_OK && !ended; step++) {
        st = many ? qpc_alm_proximal_step(steps, &ended, err) : step_by_active_set(&r, level, err);
        if (st == QPC_OK && measure(&r) <= SETTLED * r.largest) break;
    }
    qpc_alm_proximal_end(steps);
    if (st != QPC_OK) goto out;
    for (int32_t i = 0; i < qp->m; i++) {
        if (r.shift[i] == 0 || fabs(r.s[i]) <= NOTHING * r.largest) continue;
        c[i] += r.s[i] + (qp->equality[i] ? 0 : HAIR * r.largest);
    }
    if (ret_largest != NULL) *ret_largest = r.largest;
out:
    qpc_arena_rewind(arena, mark);
    return st;
}
