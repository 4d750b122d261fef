/// Projected Gauss-Seidel on the dual: what game engines do, for comparison with them.
///
///     minimise 1/2 l'A l - (J K^-1 b - c)'l,  l >= 0 on inequalities,  A = J K^-1 J'
///
/// one row after the other: l_i = max(0, l_i + (J_i x - c_i) / A_ii), and x = K^-1 (b - J'l)
/// follows along K^-1 J_i'. These columns are kept, without their zeros, while they fit into
/// COLUMN_BYTES; a row without one takes a solve. Sweeps go through the rows in their order, so
/// that the same input gives the same bits. The dual objective rises with every row, but a sweep
/// carries an impulse from a row to its neighbours only: a heavy body on light ones, or rows that
/// depend on each other, take thousands. It never proves anything: rows that contradict end at the
/// limit (an empty one does not get here). Runs on the worker in the world; memory from the arena.
#include "engine/solver/work.h"

#include <string.h>

enum { SWEEPS = 500, REFRESH_EVERY = 16, COLUMN_BYTES = 64 << 20 };

typedef struct column { // of K^-1 J'
    int32_t count;      // -1: not kept
    int32_t *index;
    double *value;
} column;

typedef struct pgs {
    const qpc_work *work;
    const qpc_qp *qp;
    column *columns;  // (m)
    double *diagonal; // (m) A_ii; 0: no row to push on
    double *block;    // (n x QPC_LINSYS_BLOCK)
    double *r, *z;    // (n)
    double *x, *lambda;
} pgs;

/// Keeps lane `lane` of the block as the column of `row`, if there is room. False when memory is
/// out.
static bool keep(pgs *s, int32_t row, int32_t lane, size_t *room) {
    int32_t n = s->qp->n, count = 0;
    const double *from = s->block + lane;
    for (int32_t i = 0; i < n; i++) count += from[(int64_t)i * QPC_LINSYS_BLOCK] != 0;
    size_t bytes = (size_t)count * (sizeof(int32_t) + sizeof(double));
    s->columns[row].count = -1;
    if (bytes > *room) return true;
    *room -= bytes;
    column *c = &s->columns[row];
    c->index = qpc_arena_array(s->work->arena, (size_t)count, sizeof *c->index);
    c->value = qpc_arena_array(s->work->arena, (size_t)count, sizeof *c->value);
    if (c->index == NULL || c->value == NULL) return false;
    c->count = 0;
    for (int32_t i = 0; i < n; i++) {
        double v = from[(int64_t)i * QPC_LINSYS_BLOCK];
        if (v == 0) continue;
        c->index[c->count] = i;
        c->value[c->count++] = v;
    }
    return true;
}

static bool find_columns(pgs *s) {
    const qpc_qp *qp = s->qp;
    size_t room = COLUMN_BYTES;
    for (int32_t first = 0; first < qp->m; first += QPC_LINSYS_BLOCK) {
        int32_t lanes = qp->m - first < QPC_LINSYS_BLOCK ? qp->m - first : QPC_LINSYS_BLOCK;
        memset(s->block, 0, (size_t)qp->n * QPC_LINSYS_BLOCK * sizeof(double));
        for (int32_t lane = 0; lane < lanes; lane++)
            for (int32_t k = qp->row_start[first + lane]; k < qp->row_start[first + lane + 1]; k++)
                s->block[(int64_t)qp->column[k] * QPC_LINSYS_BLOCK + lane] = qp->value[k];
        qpc_linsys_solve_block(qp->sys, s->block);
        for (int32_t lane = 0; lane < lanes; lane++) {
            int32_t row = first + lane;
            double sum = 0;
            for (int32_t k = qp->row_start[row]; k < qp->row_start[row + 1]; k++)
                sum += qp->value[k] * s->block[(int64_t)qp->column[k] * QPC_LINSYS_BLOCK + lane];
            s->diagonal[row] = sum > 0 ? sum : 0;
            if (!keep(s, row, lane, &room)) return false;
        }
    }
    return true;
}

/// x -= step K^-1 J_row'
static void follow(pgs *s, int32_t row, double step) {
    const column *c = &s->columns[row];
    for (int32_t k = 0; k < c->count; k++) s->x[c->index[k]] -= step * c->value[k];
    if (c->count >= 0) return;
    memset(s->r, 0, (size_t)s->qp->n * sizeof(double));
    qpc_row_add(s->qp, row, step, s->r);
    qpc_linsys_solve(s->qp->sys, s->r, s->z);
    for (int32_t i = 0; i < s->qp->n; i++) s->x[i] -= s->z[i];
}

static void sweep(pgs *s) {
    const qpc_qp *qp = s->qp;
    for (int32_t i = 0; i < qp->m; i++) {
        if (s->diagonal[i] == 0) continue;
        double old = s->lambda[i];
        double now = old + (qpc_row_dot(qp, i, s->x) - qp->c[i]) / s->diagonal[i];
        if (!qp->equality[i] && now < 0) now = 0;
        if (now == old) continue;
        s->lambda[i] = now;
        follow(s, i, now - old);
    }
}

/// x = K^-1 (b - J'lambda) afresh.
static void refresh(pgs *s) {
    const qpc_qp *qp = s->qp;
    if (qp->n > 0) memcpy(s->r, qp->b, (size_t)qp->n * sizeof(double));
    for (int32_t i = 0; i < qp->m; i++)
        if (s->lambda[i] != 0) qpc_row_add(qp, i, -s->lambda[i], s->r);
    qpc_linsys_solve(qp->sys, s->r, s->x);
}

qpc_status qpc_projected_run(const qpc_work *work, const qpc_solver_options *options, double *x,
                             double *lambda, qpc_solver_report *report, qpc_error *err) {
    const qpc_qp *qp = work->qp;
    size_t n = (size_t)qp->n, m = (size_t)qp->m;
    pgs s = {.work = work, .qp = qp, .x = x, .lambda = lambda};
    s.columns = qpc_arena_array(work->arena, m, sizeof *s.columns);
    s.diagonal = qpc_arena_array(work->arena, m, sizeof *s.diagonal);
    s.block = qpc_arena_array(work->arena, n * QPC_LINSYS_BLOCK, sizeof *s.block);
    s.r = qpc_arena_array(work->arena, n, sizeof *s.r);
    s.z = qpc_arena_array(work->arena, n, sizeof *s.z);
    if (s.columns == NULL || s.diagonal == NULL || s.block == NULL || s.r == NULL || s.z == NULL ||
        !find_columns(&s))
        return QPC_SOLVER_MEMORY(err, work);
    report->engine = QPC_SOLVER_PROJECTED;
    report->outcome = QPC_OUTCOME_ITERATION_LIMIT;
    for (size_t i = 0; i < m; i++)
        if (s.diagonal[i] == 0) lambda[i] = 0;
    refresh(&s);
    int32_t limit = options->max_iterations > 0 ? options->max_iterations : SWEEPS;
    for (int32_t done = 1; done <= limit; done++) {
        sweep(&s);
        report->iterations++;
        // The first few sweeps may do; later it is not worth a look every time.
        if ((done & (done - 1)) != 0 && done % REFRESH_EVERY != 0 && done < limit) continue;
        refresh(&s);
        qpc_residuals residuals = qpc_work_residuals(work, x, lambda, s.r, s.z);
        if (!qpc_work_accepts(&residuals, options, 1)) continue;
        report->outcome = QPC_OUTCOME_OPTIMAL;
        break;
    }
    return QPC_OK;
}
