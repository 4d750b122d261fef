/// Minimum degree, block Cholesky from the left, solves. See sparse.h.
#include "engine/solver/sparse.h"

#include <math.h>
#include <string.h>

// ---- the graph ----

typedef struct graph {
    qpc_arena *arena;
    int32_t blocks;
    int32_t **list;     // (blocks) neighbours that are not eliminated yet
    int32_t *count, *capacity;
    int32_t *mark;      // (blocks) stamp of who has seen it last
    int32_t *first;     // (blocks) blocks by degree, doubly linked
    int32_t *next, *previous;
    int32_t stamp;
} graph;

static bool graph_add(graph *g, int32_t a, int32_t b) {
    if (g->count[a] == g->capacity[a]) {
        int32_t capacity = g->capacity[a] > 0 ? 2 * g->capacity[a] : 6;
        int32_t *grown = qpc_arena_array(g->arena, (size_t)capacity, sizeof *grown);
        if (grown == NULL) return false;
        if (g->count[a] > 0) memcpy(grown, g->list[a], (size_t)g->count[a] * sizeof *grown);
        g->list[a] = grown;
        g->capacity[a] = capacity;
    }
    g->list[a][g->count[a]++] = b;
    return true;
}

/// Neighbours come by columns and by rows, most of them often: look before adding.
static bool graph_join(graph *g, int32_t a, int32_t b) {
    for (int32_t k = g->count[a] - 1; k >= 0; k--)
        if (g->list[a][k] == b) return true;
    return graph_add(g, a, b) && graph_add(g, b, a);
}

static bool graph_fill(graph *g, const qpc_qp *qp) {
    int32_t w = qp->sys->bandwidth;
    for (int32_t i = 0; i < qp->n; i++) {
        const double *row = qp->sys->band + (int64_t)i * (w + 1) - i + w;
        for (int32_t j = i > w ? i - w : 0; j < i / 3 * 3; j++)
            if (row[j] != 0 && !graph_join(g, i / 3, j / 3)) return false;
    }
    for (int32_t i = 0; i < qp->m; i++) {
        int32_t last = -1;
        for (int32_t k = qp->row_start[i]; k < qp->row_start[i + 1]; k++) {
            if (qp->column[k] / 3 == last) continue;
            last = qp->column[k] / 3;
            int32_t before = -1;
            for (int32_t l = qp->row_start[i]; l < k; l++) {
                if (qp->column[l] / 3 == before) continue;
                before = qp->column[l] / 3;
                if (before != last && !graph_join(g, last, before)) return false;
            }
        }
    }
    return true;
}

static void degree_insert(graph *g, int32_t b) {
    int32_t d = g->count[b];
    g->next[b] = g->first[d];
    g->previous[b] = -1;
    if (g->first[d] >= 0) g->previous[g->first[d]] = b;
    g->first[d] = b;
}

static void degree_remove(graph *g, int32_t b) {
    if (g->previous[b] >= 0)
        g->next[g->previous[b]] = g->next[b];
    else
        g->first[g->count[b]] = g->next[b];
    if (g->next[b] >= 0) g->previous[g->next[b]] = g->previous[b];
}

/// Take `b` out: its neighbours become neighbours of each other. list[b] is its column of L then.
static bool eliminate(graph *g, int32_t b) {
    for (int32_t i = 0; i < g->count[b]; i++) {
        int32_t u = g->list[b][i], kept = 0;
        degree_remove(g, u);
        g->stamp++;
        for (int32_t k = 0; k < g->count[u]; k++) {
            int32_t other = g->list[u][k];
            g->mark[other] = g->stamp;
            if (other != b) g->list[u][kept++] = other;
        }
        g->count[u] = kept;
        for (int32_t k = 0; k < g->count[b]; k++) {
            int32_t other = g->list[b][k];
            if (other != u && g->mark[other] != g->stamp && !graph_add(g, u, other)) return false;
        }
        degree_insert(g, u);
    }
    return true;
}

static bool graph_start(graph *g, const qpc_qp *qp, int32_t blocks, qpc_arena *arena) {
    size_t n = (size_t)blocks;
    *g = (graph){.arena = arena, .blocks = blocks};
    g->list = qpc_arena_array(arena, n, sizeof *g->list);
    int32_t *numbers = qpc_arena_array(arena, 6 * n + 1, sizeof *numbers);
    if (g->list == NULL || numbers == NULL) return false;
    g->count = numbers;
    g->capacity = numbers + n;
    g->mark = numbers + 2 * n;
    g->next = numbers + 3 * n;
    g->previous = numbers + 4 * n;
    g->first = numbers + 5 * n; // (blocks + 1): a degree each
    memset(numbers, 0, 3 * n * sizeof *numbers);
    for (int32_t i = 0; i <= blocks; i++) g->first[i] = -1;
    if (!graph_fill(g, qp)) return false;
    for (int32_t i = blocks - 1; i >= 0; i--) degree_insert(g, i);
    return true;
}

// ---- structure ----

static void sort_rows(int32_t *row, int32_t count) {
    for (int32_t i = 1; i < count; i++) {
        int32_t moved = row[i], at = i;
        for (; at > 0 && row[at - 1] > moved; at--) row[at] = row[at - 1];
        row[at] = moved;
    }
}

static double *entry_at(qpc_sparse *s, double *value, double *diagonal, int32_t row, int32_t column) {
    if (row == column) return diagonal + 9 * (int64_t)row;
    int32_t low = s->start[column], high = s->start[column + 1] - 1;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (s->row[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return value + 9 * (int64_t)low;
}

/// A[i][j] += v for unknowns j <= i
static void add(qpc_sparse *s, double *value, double *diagonal, int32_t i, int32_t j, double v) {
    int32_t p = s->place[i / 3], q = s->place[j / 3];
    if (p >= q)
        entry_at(s, value, diagonal, p, q)[3 * (i % 3) + j % 3] += v;
    else
        entry_at(s, value, diagonal, q, p)[3 * (j % 3) + i % 3] += v;
}

static void take_over_K(qpc_sparse *s) {
    const qpc_qp *qp = s->qp;
    int32_t w = qp->sys->bandwidth;
    memset(s->K_value, 0, 9 * (size_t)s->start[s->blocks] * sizeof(double));
    memset(s->K_diagonal, 0, 9 * (size_t)s->blocks * sizeof(double));
    for (int32_t i = 0; i < qp->n; i++) {
        const double *row = qp->sys->band + (int64_t)i * (w + 1) - i + w;
        for (int32_t j = i > w ? i - w : 0; j <= i; j++)
            if (row[j] != 0) add(s, s->K_value, s->K_diagonal, i, j, row[j]);
    }
    for (int32_t i = qp->n; i < 3 * s->blocks; i++) add(s, s->K_value, s->K_diagonal, i, i, 1);
}

bool qpc_sparse_analyse(qpc_sparse *s, qpc_arena *arena, const qpc_qp *qp, int64_t most,
                        bool *ret_fits) {
    int32_t blocks = (qp->n + 2) / 3;
    size_t n = (size_t)blocks;
    graph g;
    *s = (qpc_sparse){.qp = qp, .blocks = blocks};
    *ret_fits = false;
    int32_t *numbers = qpc_arena_array(arena, 6 * n + 1, sizeof *numbers);
    int32_t *order = qpc_arena_array(arena, n, sizeof *order);
    if (numbers == NULL || order == NULL || !graph_start(&g, qp, blocks, arena)) return false;
    s->place = numbers;
    s->head = numbers + n;
    s->next = numbers + 2 * n;
    s->at = numbers + 3 * n;
    s->slot = numbers + 4 * n;
    s->start = numbers + 5 * n;
    int64_t entries = 0;
    for (int32_t k = 0, degree = 0; k < blocks; k++) {
        while (g.first[degree] < 0) degree++;
        int32_t b = g.first[degree];
        int64_t count = g.count[b];
        degree_remove(&g, b);
        order[k] = b;
        s->place[b] = k;
        entries += count;
        s->products += count * (count + 3) / 2 + 1;
        if (s->products > most) return true;
        if (!eliminate(&g, b)) return false;
        degree = degree > 0 ? degree - 1 : 0; // a neighbour loses one and may gain none
    }
    s->row = qpc_arena_array(arena, (size_t)entries, sizeof *s->row);
    s->value = qpc_arena_array(arena, (size_t)entries, 9 * sizeof(double));
    s->K_value = qpc_arena_array(arena, (size_t)entries, 9 * sizeof(double));
    s->diagonal = qpc_arena_array(arena, n, 9 * sizeof(double));
    s->K_diagonal = qpc_arena_array(arena, n, 9 * sizeof(double));
    s->x = qpc_arena_array(arena, n, 3 * sizeof(double));
    if (s->row == NULL || s->value == NULL || s->K_value == NULL || s->diagonal == NULL ||
        s->K_diagonal == NULL || s->x == NULL)
        return false;
    s->start[0] = 0;
    for (int32_t k = 0; k < blocks; k++) {
        int32_t b = order[k], *row = s->row + s->start[k];
        for (int32_t i = 0; i < g.count[b]; i++) row[i] = s->place[g.list[b][i]];
        sort_rows(row, g.count[b]);
        s->start[k + 1] = s->start[k] + g.count[b];
    }
    take_over_K(s);
    *ret_fits = true;
    return true;
}

// ---- values ----

void qpc_sparse_load(qpc_sparse *s) {
    memcpy(s->value, s->K_value, 9 * (size_t)s->start[s->blocks] * sizeof(double));
    memcpy(s->diagonal, s->K_diagonal, 9 * (size_t)s->blocks * sizeof(double));
}

void qpc_sparse_add_row(qpc_sparse *s, int32_t i, double weight) {
    const qpc_qp *qp = s->qp;
    int32_t first = qp->row_start[i], last = qp->row_start[i + 1];
    for (int32_t a = first, a_end; a < last; a = a_end) { // by pairs of blocks
        int32_t block = qp->column[a] / 3, p = s->place[block];
        for (a_end = a; a_end < last && qp->column[a_end] / 3 == block; a_end++) {}
        for (int32_t c = first, c_end; c <= a; c = c_end) {
            int32_t other = qp->column[c] / 3, q = s->place[other];
            for (c_end = c; c_end < last && qp->column[c_end] / 3 == other; c_end++) {}
            double *entry = p >= q ? entry_at(s, s->value, s->diagonal, p, q)
                                   : entry_at(s, s->value, s->diagonal, q, p);
            int32_t down = p >= q ? 3 : 1, across = p >= q ? 1 : 3;
            for (int32_t k = a; k < a_end; k++) {
                double v = weight * qp->value[k];
                double *to = entry + down * (qp->column[k] - 3 * block);
                for (int32_t l = c; l < c_end && l <= k; l++)
                    to[across * (qp->column[l] - 3 * other)] += v * qp->value[l];
            }
        }
    }
}

/// C -= A B'
static inline void subtract_product(double *restrict c, const double *restrict a,
                                    const double *restrict b) {
    for (int32_t r = 0; r < 3; r++)
        for (int32_t t = 0; t < 3; t++)
            c[3 * r + t] -= a[3 * r] * b[3 * t] + a[3 * r + 1] * b[3 * t + 1] + a[3 * r + 2] * b[3 * t + 2];
}

/// Lower triangle of d to its Cholesky factor with reciprocals on the diagonal.
static bool factor_block(double *d) {
    if (!(d[0] > 0) || !isfinite(d[0])) return false;
    d[0] = 1 / sqrt(d[0]);
    d[3] *= d[0];
    d[6] *= d[0];
    double second = d[4] - d[3] * d[3];
    if (!(second > 0) || !isfinite(second)) return false;
    d[4] = 1 / sqrt(second);
    d[7] = (d[7] - d[6] * d[3]) * d[4];
    double third = d[8] - d[6] * d[6] - d[7] * d[7];
    if (!(third > 0) || !isfinite(third)) return false;
    d[8] = 1 / sqrt(third);
    return true;
}

bool qpc_sparse_factor(qpc_sparse *s) {
    int32_t n = s->blocks;
    for (int32_t i = 0; i < n; i++) s->head[i] = -1;
    for (int32_t j = 0; j < n; j++) {
        double *d = s->diagonal + 9 * (int64_t)j;
        int32_t first = s->start[j], last = s->start[j + 1];
        for (int32_t q = first; q < last; q++) s->slot[s->row[q]] = q;
        for (int32_t k = s->head[j], after; k >= 0; k = after) {
            after = s->next[k];
            int32_t p = s->at[k], end = s->start[k + 1];
            const double *b = s->value + 9 * (int64_t)p;
            subtract_product(d, b, b);
            for (int32_t q = p + 1; q < end; q++)
                subtract_product(s->value + 9 * (int64_t)s->slot[s->row[q]], s->value + 9 * (int64_t)q, b);
            s->at[k] = p + 1;
            if (p + 1 < end) {
                s->next[k] = s->head[s->row[p + 1]];
                s->head[s->row[p + 1]] = k;
            }
        }
        if (!factor_block(d)) return false;
        for (int32_t q = first; q < last; q++)
            for (double *v = s->value + 9 * (int64_t)q, *end = v + 9; v < end; v += 3) {
                v[0] *= d[0];
                v[1] = (v[1] - v[0] * d[3]) * d[4];
                v[2] = (v[2] - v[0] * d[6] - v[1] * d[7]) * d[8];
            }
        s->at[j] = first;
        if (first < last) {
            s->next[j] = s->head[s->row[first]];
            s->head[s->row[first]] = j;
        }
    }
    return true;
}

void qpc_sparse_solve(qpc_sparse *s, const double *rhs, double *x) {
    int32_t n = s->qp->n;
    for (int32_t i = 3 * (n / 3); i < 3 * s->blocks; i++) s->x[3 * s->place[i / 3] + i % 3] = 0;
    for (int32_t i = 0; i < n; i++) s->x[3 * s->place[i / 3] + i % 3] = rhs[i];
    for (int32_t j = 0; j < s->blocks; j++) {
        const double *d = s->diagonal + 9 * (int64_t)j;
        double *y = s->x + 3 * (int64_t)j;
        y[0] *= d[0];
        y[1] = (y[1] - d[3] * y[0]) * d[4];
        y[2] = (y[2] - d[6] * y[0] - d[7] * y[1]) * d[8];
        double a = y[0], b = y[1], c = y[2];
        for (int32_t q = s->start[j]; q < s->start[j + 1]; q++) {
            const double *v = s->value + 9 * (int64_t)q;
            double *to = s->x + 3 * (int64_t)s->row[q];
            to[0] -= v[0] * a + v[1] * b + v[2] * c;
            to[1] -= v[3] * a + v[4] * b + v[5] * c;
            to[2] -= v[6] * a + v[7] * b + v[8] * c;
        }
    }
    for (int32_t j = s->blocks - 1; j >= 0; j--) {
        const double *d = s->diagonal + 9 * (int64_t)j;
        double *y = s->x + 3 * (int64_t)j, a = y[0], b = y[1], c = y[2];
        for (int32_t q = s->start[j]; q < s->start[j + 1]; q++) {
            const double *v = s->value + 9 * (int64_t)q, *from = s->x + 3 * (int64_t)s->row[q];
            a -= v[0] * from[0] + v[3] * from[1] + v[6] * from[2];
            b -= v[1] * from[0] + v[4] * from[1] + v[7] * from[2];
            c -= v[2] * from[0] + v[5] * from[1] + v[8] * from[2];
        }
        y[2] = c * d[8];
        y[1] = (b - d[7] * y[2]) * d[4];
        y[0] = (a - d[3] * y[1] - d[6] * y[2]) * d[0];
    }
    for (int32_t i = 0; i < n; i++) x[i] = s->x[3 * s->place[i / 3] + i % 3];
}
