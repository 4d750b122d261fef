/// Rows that matter.
///
/// Detection offers a row for whatever is within reach: along a cable of fine particles five of six hold
/// nothing. A QP is solved over those that had a multiplier or that the guess violates, what the answer
/// violates of the rest is added, and so on until nothing is. The last answer is that of the whole QP, the
/// multipliers of rows left out being 0: fewer rows touch fewer nodes, so that condensation leaves a short
/// chain. Whatever does not end in an optimum (contradictions, limits) goes the long way. Under a budget the
/// iterations of all rounds count together. Runs on the worker in the world; memory from the arena, given back.
#include "engine/solver/screen.h"

#include "engine/solver/work.h"

#include <string.h>

enum {
    ROWS_LEAST = 64, // below, a choice does not pay
    ROUNDS_MOST = 6,
};
static const double CHOSEN_MOST = 0.6; // of the rows
static const double SETTLED = 0.02;    // of the tolerance: what rows left out may be violated by

typedef struct chosen {
    qpc_qp qp; // of the rows taken
    int32_t *row;
    double *x, *lambda;
    int32_t *row_start, *column;
    double *value, *c;
    uint8_t *equality, *priority;
    uint64_t *key;
} chosen;

static double excess(const qpc_qp *qp, int32_t i, const double *x) {
    double g = -qp->c[i];
    for (int32_t k = qp->row_start[i]; k < qp->row_start[i + 1]; k++) g += qp->value[k] * x[qp->column[k]];
    return g;
}

static bool allocate(chosen *s, const qpc_qp *qp, qpc_arena *arena) {
    size_t n = (size_t)qp->n, m = (size_t)qp->m, count = (size_t)qp->row_start[qp->m];
    s->row = qpc_arena_array(arena, m, sizeof *s->row);
    s->x = qpc_arena_array(arena, n, sizeof *s->x);
    s->lambda = qpc_arena_array(arena, m, sizeof *s->lambda);
    s->row_start = qpc_arena_array(arena, m + 1, sizeof *s->row_start);
    s->column = qpc_arena_array(arena, count, sizeof *s->column);
    s->value = qpc_arena_array(arena, count, sizeof *s->value);
    s->c = qpc_arena_array(arena, m, sizeof *s->c);
    s->equality = qpc_arena_array(arena, m, sizeof *s->equality);
    s->priority = qpc_arena_array(arena, m, sizeof *s->priority);
    s->key = qpc_arena_array(arena, m, sizeof *s->key);
    return s->row != NULL && s->x != NULL && s->lambda != NULL && s->row_start != NULL && s->column != NULL &&
           s->value != NULL && s->c != NULL && s->equality != NULL && s->priority != NULL && s->key != NULL;
}

/// The QP of the rows with `in`, in their order.
static void gather(chosen *s, const qpc_qp *qp, const uint8_t *in, const double *lambda) {
    int32_t m = 0, at = 0;
    for (int32_t i = 0; i < qp->m; i++) {
        if (!in[i]) continue;
        int32_t count = qp->row_start[i + 1] - qp->row_start[i];
        s->row[m] = i;
        s->row_start[m] = at;
        memcpy(s->column + at, qp->column + qp->row_start[i], (size_t)count * sizeof *s->column);
        memcpy(s->value + at, qp->value + qp->row_start[i], (size_t)count * sizeof *s->value);
        s->c[m] = qp->c[i];
        s->equality[m] = qp->equality[i];
        s->priority[m] = qp->priority[i];
        s->key[m] = qp->key[i];
        s->lambda[m++] = lambda[i];
        at += count;
    }
    s->row_start[m] = at;
    s->qp = *qp;
    s->qp.m = m;
    s->qp.row_start = s->row_start;
    s->qp.column = s->column;
    s->qp.value = s->value;
    s->qp.c = s->c;
    s->qp.equality = s->equality;
    s->qp.priority = s->priority;
    s->qp.key = s->key;
}

/// Who is taken at first; the number of them, or more than there are if something is not finite.
static int32_t choose(const qpc_qp *qp, const double *start, const double *lambda, uint8_t *in) {
    int32_t count = 0;
    double sum = 0;
    for (int32_t i = 0; i < qp->m; i++) {
        double g = start != NULL ? excess(qp, i, start) : -qp->c[i];
        in[i] = qp->equality[i] || lambda[i] > 0 || g > 0;
        count += in[i];
        sum += 0 * (g + lambda[i]);
    }
    for (int32_t k = 0; k < qp->row_start[qp->m]; k++) sum += 0 * qp->value[k];
    return sum == 0 ? count : qp->m + 1;
}

qpc_status qpc_screen(qpc_solver_id id, const qpc_qp *qp, const qpc_solver_options *options, qpc_arena *arena,
                      qpc_solve_rows *solve, double *dv, double *lambda, qpc_solver_report *report, bool *ret_done,
                      qpc_error *err) {
    *ret_done = false;
    *report = (qpc_solver_report){.engine = id};
    if (id != QPC_SOLVER_AUTO || qp->sys->kind != QPC_LINSYS_BAND || qp->m < ROWS_LEAST || options->exact ||
        qp->n != qp->sys->n)
        return QPC_OK;
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    chosen s;
    uint8_t *in = qpc_arena_array(arena, (size_t)qp->m, 1);
    double *warm = qpc_arena_array(arena, (size_t)qp->m, sizeof *warm);
    qpc_status st = QPC_OK;
    if (in == NULL || warm == NULL || !allocate(&s, qp, arena)) {
        st = qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a choice of %d rows", qp->m);
        goto out;
    }
    memcpy(warm, lambda, (size_t)qp->m * sizeof *warm);
    int32_t count = choose(qp, options->start, lambda, in);
    for (int32_t round = 0; round < ROUNDS_MOST && count <= CHOSEN_MOST * qp->m; round++) {
        qpc_solver_report one;
        qpc_solver_options left = *options;
        if (left.max_iterations > 0) left.max_iterations -= report->iterations;
        gather(&s, qp, in, warm);
        st = solve(id, &s.qp, &left, arena, s.x, s.lambda, &one, err);
        if (st != QPC_OK) goto out;
        qpc_report_add(report, &one);
        bool spent = options->max_iterations > 0 && report->iterations >= options->max_iterations;
        if (one.outcome != QPC_OUTCOME_OPTIMAL && !spent) break;
        if (one.outcome != QPC_OUTCOME_OPTIMAL) { // nothing is left to find out more with
            report->outcome = QPC_OUTCOME_ITERATION_LIMIT;
            report->conflict_count = 0;
        }
        memset(warm, 0, (size_t)qp->m * sizeof *warm);
        for (int32_t k = 0; k < s.qp.m; k++) warm[s.row[k]] = s.lambda[k];
        int32_t added = 0;
        for (int32_t i = 0; i < qp->m; i++) {
            if (in[i] || !(excess(qp, i, s.x) > SETTLED * options->residual_tolerance)) continue;
            in[i] = 1;
            added++;
        }
        if (added > 0 && spent) report->outcome = QPC_OUTCOME_ITERATION_LIMIT;
        if (added == 0 || spent) {
            memcpy(dv, s.x, (size_t)qp->n * sizeof *dv);
            memcpy(lambda, warm, (size_t)qp->m * sizeof *lambda);
            *ret_done = true;
            break;
        }
        count += added;
    }
out:
    qpc_arena_rewind(arena, mark);
    return st;
}
