/// Sweeps of projected block Gauss-Seidel, with Newton now and then.
///
/// x_k = P(x_k - y^_k) block by block, a few times each, forwards and backwards in turn. Slow to
/// gain digits, but quick to find which contacts stick, slide and open where many are coupled
/// loosely, as in piles; Newton does the rest. A sweep costs the entries of A that are not zero.
/// Worker thread of the world; memory from the arena.
#include "engine/solver/cones.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { INNER = 4, NEWTON_STEPS = 30 };

typedef struct sparse_rows {
    int32_t *start, *column;
    double *value;
} sparse_rows;

static bool compress(const qpc_cone_problem *p, qpc_arena *arena, sparse_rows *ret) {
    size_t n = (size_t)p->size, entries = 0;
    for (size_t i = 0; i < n * n; i++) entries += p->A[i] != 0;
    ret->start = qpc_arena_array(arena, n + 1, sizeof *ret->start);
    ret->column = qpc_arena_array(arena, entries, sizeof *ret->column);
    ret->value = qpc_arena_array(arena, entries, sizeof *ret->value);
    if (ret->start == NULL || ret->column == NULL || ret->value == NULL) return false;
    int32_t at = 0;
    for (size_t i = 0; i < n; i++) {
        ret->start[i] = at;
        for (size_t j = 0; j < n; j++) {
            if (p->A[i * n + j] == 0) continue;
            ret->column[at] = (int32_t)j;
            ret->value[at++] = p->A[i * n + j];
        }
    }
    ret->start[n] = at;
    return true;
}

static void project_contact(double mu, const double *y, double *x) {
    double z[3] = {x[0] - y[0] - mu * hypot(y[1], y[2]), x[1] - y[1], x[2] - y[2]};
    double t = hypot(z[1], z[2]);
    if (t <= mu * z[0]) {
        memcpy(x, z, sizeof z);
    } else if (mu * t <= -z[0]) {
        x[0] = x[1] = x[2] = 0;
    } else {
        x[0] = (z[0] + mu * t) / (1 + mu * mu);
        x[1] = mu * x[0] * z[1] / t;
        x[2] = mu * x[0] * z[2] / t;
    }
}

static void project(const qpc_cone_problem *p, int32_t k, const double *y, double *x) {
    switch ((qpc_block_kind)p->kind[k]) {
    case QPC_BLOCK_CONTACT:
        project_contact(p->mu[k], y, x);
        break;
    case QPC_BLOCK_DISC: {
        double z0 = x[0] - y[0], z1 = x[1] - y[1], t = hypot(z0, z1);
        double s = t > p->mu[k] ? p->mu[k] / t : 1;
        x[0] = s * z0;
        x[1] = s * z1;
        break;
    }
    case QPC_BLOCK_HALF_LINE:
        x[0] = x[0] > y[0] ? x[0] - y[0] : 0;
        break;
    case QPC_BLOCK_FREE:
        x[0] -= y[0];
        break;
    }
}

/// y of one block from the whole x, then a few projections with the block's own matrix.
static void visit(const qpc_cone_problem *p, const sparse_rows *rows, int32_t k, double *x) {
    int32_t at = p->at[k], n = p->at[k + 1] - at;
    double y[3], old[3];
    for (int32_t i = 0; i < n; i++) {
        y[i] = p->p[at + i];
        for (int32_t l = rows->start[at + i]; l < rows->start[at + i + 1]; l++)
            y[i] += rows->value[l] * x[rows->column[l]];
    }
    for (int32_t turn = 0; turn < INNER; turn++) {
        memcpy(old, x + at, (size_t)n * sizeof *old);
        project(p, k, y, x + at);
        for (int32_t i = 0; i < n; i++)
            for (int32_t j = 0; j < n; j++)
                y[i] += p->A[(int64_t)(at + i) * p->size + at + j] * (x[at + j] - old[j]);
    }
}

static void keep(const double *x, double norm, size_t size, double *best, double *least) {
    if (!(norm < *least)) return;
    memcpy(best, x, size * sizeof *x);
    *least = norm;
}

qpc_status qpc_cone_sweep(const qpc_cone_problem *p, int32_t rounds, int32_t sweeps, double goal,
                          double tolerance, int32_t max_steps, qpc_arena *arena, double *x,
                          double *ret_norm, int32_t *ret_outers, int32_t *ret_newton,
                          qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    size_t size = (size_t)p->size;
    double *slow = qpc_arena_array(arena, size, sizeof *slow);
    double *fast = qpc_arena_array(arena, size, sizeof *fast);
    qpc_natural natural;
    sparse_rows rows;
    qpc_status status = QPC_OK;
    if (slow == NULL || fast == NULL || !qpc_natural_alloc(&natural, p, arena) ||
        !compress(p, arena, &rows)) {
        qpc_arena_rewind(arena, mark);
        return QPC_CONE_MEMORY(err, p);
    }
    qpc_natural_map(p, x, &natural);
    double least = natural.norm;
    memset(slow, 0, size * sizeof *slow);
    for (int32_t round = 0; round < rounds && least > tolerance; round++) {
        if (*ret_outers + *ret_newton >= max_steps) break;
        for (int32_t s = 0; s < sweeps; s++)
            for (int32_t k = 0; k < p->count; k++)
                visit(p, &rows, s % 2 == 0 ? k : p->count - 1 - k, slow);
        ++*ret_outers;
        qpc_natural_map(p, slow, &natural);
        if (!(natural.norm < DBL_MAX)) break;
        keep(slow, natural.norm, size, x, &least);
        double norm = DBL_MAX;
        int32_t left = max_steps - *ret_outers - *ret_newton;
        memcpy(fast, slow, size * sizeof *fast);
        status = qpc_cone_newton(p, goal, tolerance, round % 4 == 3,
                                 left < NEWTON_STEPS ? left : NEWTON_STEPS, arena, fast, &norm,
                                 ret_newton, err);
        if (status != QPC_OK) break;
        keep(fast, norm, size, x, &least);
    }
    *ret_norm = least;
    qpc_arena_rewind(arena, mark);
    return status;
}
