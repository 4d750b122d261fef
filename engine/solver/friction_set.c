/// The rows that take part in a step with friction, and W = H K^-1 H' over them, by columns of four
/// solves.
#include "engine/solver/friction_set.h"

#include <cblas.h>
#include <float.h>
#include <math.h>
#include <string.h>

enum { COLUMNS = 32 }; // that CHOLMOD takes at once

qpc_status qpc_friction_set_init(qpc_friction_set *set, const qpc_qp *qp,
                                 const qpc_friction *friction, qpc_arena *arena, qpc_error *err) {
    size_t n = (size_t)qp->n, m = (size_t)qp->m;
    *set = (qpc_friction_set){.qp = qp, .friction = friction};
    set->contact_of = qpc_arena_array(arena, m, sizeof *set->contact_of);
    set->block_of = qpc_arena_array(arena, m, sizeof *set->block_of);
    set->row = qpc_arena_array(arena, m, sizeof *set->row);
    set->kind = qpc_arena_array(arena, m, 1);
    set->at = qpc_arena_array(arena, m + 1, sizeof *set->at);
    set->free_dv = qpc_arena_array(arena, n, sizeof *set->free_dv);
    bool side_by_side = qp->sys->kind == QPC_LINSYS_BAND || qp->sys->method == QPC_LINSYS_BY_BAND;
    set->lanes = side_by_side ? QPC_LINSYS_BLOCK : COLUMNS;
    set->stride = side_by_side ? QPC_LINSYS_BLOCK : 1;
    set->apart = side_by_side ? 1 : qp->n;
    set->columns = qpc_arena_array(arena, n * (size_t)set->lanes, sizeof *set->columns);
    if (set->contact_of == NULL || set->block_of == NULL || set->row == NULL || set->kind == NULL ||
        set->at == NULL || set->free_dv == NULL || set->columns == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for friction on %d rows", qp->m);
    set->at[0] = 0;
    for (int32_t i = 0; i < qp->m; i++) set->contact_of[i] = set->block_of[i] = -1;
    for (int32_t k = 0; k < friction->count; k++)
        if (friction->mu[k] > 0) set->contact_of[friction->row[k]] = k;
    qpc_linsys_solve(qp->sys, qp->b, set->free_dv);
    return QPC_OK;
}

bool qpc_friction_set_add(qpc_friction_set *set, int32_t i) {
    if (set->block_of[i] >= 0) return false;
    qpc_block_kind kind = set->qp->equality[i]      ? QPC_BLOCK_FREE
                          : set->contact_of[i] >= 0 ? QPC_BLOCK_CONTACT
                                                    : QPC_BLOCK_HALF_LINE;
    set->block_of[i] = set->count;
    set->row[set->count] = i;
    set->kind[set->count] = (uint8_t)kind;
    set->size += qpc_block_size(kind);
    set->at[++set->count] = set->size;
    return true;
}

/// Line j of a block in H: its columns, values and sign.
typedef struct line {
    const int32_t *column;
    const double *value;
    int32_t count;
    double sign, offset;
} line;

static line line_of(const qpc_friction_set *set, int32_t block, int32_t j) {
    int32_t i = set->row[block];
    if (j == 0) {
        int32_t from = set->qp->row_start[i];
        return (line){set->qp->column + from, set->qp->value + from,
                      set->qp->row_start[i + 1] - from, -1, set->qp->c[i]};
    }
    const qpc_friction *f = set->friction;
    int32_t t = 2 * set->contact_of[i] + j - 1, from = f->start[t];
    return (line){f->column + from, f->value + from, f->start[t + 1] - from, 1, f->u0[t]};
}

static double line_dot(const line *l, const double *x, int64_t stride) {
    double s = 0;
    for (int32_t k = 0; k < l->count; k++) s += l->value[k] * x[l->column[k] * stride];
    return l->sign * s;
}

static void line_add(const line *l, double s, double *y, int64_t stride) {
    for (int32_t k = 0; k < l->count; k++) y[l->column[k] * stride] += l->sign * s * l->value[k];
}

typedef struct pending { // columns that wait for their common solve
    int32_t unknown[COLUMNS], count;
} pending;

static qpc_status flush(qpc_friction_set *set, pending *p, int32_t all, qpc_error *err) {
    if (p->count == 0) return QPC_OK;
    if (set->apart == 1)
        qpc_linsys_solve_block(set->qp->sys, set->columns);
    else {
        qpc_status st = qpc_linsys_solve_many(set->qp->sys, set->columns, p->count, err);
        if (st != QPC_OK) return st;
    }
    for (int32_t block = 0; block < set->count; block++) {
        for (int32_t i = set->at[block]; i < set->at[block + 1]; i++) {
            line l = line_of(set, block, i - set->at[block]);
            for (int32_t c = 0; c < p->count; c++) {
                double w = line_dot(&l, set->columns + (int64_t)c * set->apart, set->stride);
                set->W[(int64_t)i * all + p->unknown[c]] = w;
                if (block < set->done) set->W[(int64_t)p->unknown[c] * all + i] = w;
            }
        }
    }
    memset(set->columns, 0, (size_t)set->qp->n * (size_t)set->lanes * sizeof *set->columns);
    p->count = 0;
    return QPC_OK;
}

qpc_status qpc_friction_set_condense(qpc_friction_set *set, qpc_arena *arena, qpc_error *err) {
    size_t size = (size_t)set->size, old = (size_t)set->at[set->done];
    double *W = qpc_arena_array(arena, size * size, sizeof *W);
    double *q = qpc_arena_array(arena, size, sizeof *q);
    if ((size > 0 && size > SIZE_MAX / size / sizeof *W) || W == NULL || q == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY,
                        "out of memory for %d unknowns of contacts with friction", set->size);
    for (size_t i = 0; i < old; i++) memcpy(W + i * size, set->W + i * old, old * sizeof *W);
    set->W = W;
    set->q = q;
    memset(set->columns, 0, (size_t)set->qp->n * (size_t)set->lanes * sizeof *set->columns);
    pending p = {.count = 0};
    for (int32_t block = 0; block < set->count; block++) {
        for (int32_t i = set->at[block]; i < set->at[block + 1]; i++) {
            line l = line_of(set, block, i - set->at[block]);
            q[i] = l.offset + line_dot(&l, set->free_dv, 1);
            if (block < set->done) continue;
            line_add(&l, 1, set->columns + (int64_t)p.count * set->apart, set->stride);
            p.unknown[p.count++] = i;
            qpc_status st = p.count == set->lanes ? flush(set, &p, set->size, err) : QPC_OK;
            if (st != QPC_OK) return st;
        }
    }
    qpc_status st = flush(set, &p, set->size, err);
    if (st == QPC_OK) set->done = set->count;
    return st;
}

static void add_impulses(const qpc_friction_set *set, const double *r, double *rhs) {
    for (int32_t block = 0; block < set->count; block++) {
        for (int32_t i = set->at[block]; i < set->at[block + 1]; i++) {
            if (r[i] == 0) continue;
            line l = line_of(set, block, i - set->at[block]);
            line_add(&l, r[i], rhs, 1);
        }
    }
}

void qpc_friction_set_motion(const qpc_friction_set *set, const double *r, double *rhs,
                             double *dv) {
    size_t n = (size_t)set->qp->n;
    double *change = set->columns, *product = set->columns + n; // n x 4 is room enough
    memcpy(rhs, set->qp->b, n * sizeof *rhs);
    add_impulses(set, r, rhs);
    qpc_linsys_solve(set->qp->sys, rhs, dv);
    qpc_linsys_multiply(set->qp->sys, dv, product);
    for (size_t i = 0; i < n; i++) change[i] = rhs[i] - product[i];
    qpc_linsys_solve(set->qp->sys, change, change);
    for (size_t i = 0; i < n; i++) dv[i] += change[i];
}

void qpc_friction_set_velocity(const qpc_friction_set *set, int32_t block, const double *dv,
                               double *u) {
    for (int32_t j = 0; j < set->at[block + 1] - set->at[block]; j++) {
        line l = line_of(set, block, j);
        u[j] = l.offset + line_dot(&l, dv, 1);
    }
}

void qpc_friction_set_gather(const qpc_friction_set *set, const double *lambda, const double *beta,
                             double *r) {
    for (int32_t block = 0; block < set->count; block++) {
        int32_t i = set->row[block], at = set->at[block];
        r[at] = lambda[i];
        if (set->kind[block] != QPC_BLOCK_CONTACT) continue;
        r[at + 1] = -beta[2 * set->contact_of[i]];
        r[at + 2] = -beta[2 * set->contact_of[i] + 1];
    }
}

void qpc_friction_set_scatter(const qpc_friction_set *set, const double *r, double *lambda,
                              double *beta) {
    memset(lambda, 0, (size_t)set->qp->m * sizeof *lambda);
    memset(beta, 0, 2 * (size_t)set->friction->count * sizeof *beta);
    for (int32_t block = 0; block < set->count; block++) {
        int32_t i = set->row[block], at = set->at[block];
        lambda[i] = r[at] > 0 || set->kind[block] == QPC_BLOCK_FREE ? r[at] : 0;
        if (set->kind[block] != QPC_BLOCK_CONTACT || lambda[i] == 0) continue;
        beta[2 * set->contact_of[i]] = r[at + 1] == 0 ? 0 : -r[at + 1];
        beta[2 * set->contact_of[i] + 1] = r[at + 2] == 0 ? 0 : -r[at + 2];
    }
}

void qpc_friction_set_report(const qpc_friction_set *set, const double *dv, const double *r,
                             qpc_friction_report *report) {
    qpc_contact_sums sums = {0};
    double square = 0;
    report->sticking = report->sliding = report->open = 0;
    for (int32_t block = 0; block < set->count; block++) {
        int32_t at = set->at[block], n = set->at[block + 1] - at;
        double u[3], rho = qpc_cone_rho(n, set->W + (int64_t)at * set->size + at, set->size);
        for (int32_t j = 0; j < n; j++) square += rho * set->q[at + j] * set->q[at + j];
        qpc_friction_set_velocity(set, block, dv, u);
        if (n == 3) {
            double mu = set->friction->mu[set->contact_of[set->row[block]]];
            qpc_contact_judge(mu, rho, u, r + at, &sums, report);
        } else {
            bool held = set->kind[block] == QPC_BLOCK_FREE || r[at] - rho * u[0] > 0;
            double f = held ? rho * u[0] : r[at], root = sqrt(rho);
            double below = set->kind[block] == QPC_BLOCK_FREE ? fabs(u[0]) : -u[0];
            sums.natural += f * f / rho;
            if (below * root > sums.penetration) sums.penetration = below * root;
            sums.complementarity += fabs(r[at] * u[0]);
        }
    }
    for (int32_t k = 0; k < set->friction->count; k++)
        if (set->block_of[set->friction->row[k]] < 0) report->open++;
    double scale = square > 0 ? sqrt(square) : 1;
    qpc_contact_sums_finish(&sums, scale, report);
}
