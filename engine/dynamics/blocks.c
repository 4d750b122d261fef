/// Products and sweeps of a symmetric matrix of 3x3 blocks, stored once.
#include "engine/dynamics/blocks.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "engine/dynamics/coarse.h"

#include <math.h>
#include <string.h>

enum { LANES = 4 };

/// The blocks in the order of a sweep; `next` (count) is scratch.
static bool make_sweep(qpc_blocks *b, int32_t *next) {
    int32_t count = b->count, blocks = b->start[count], at = 0;
    b->scale = qpc_calloc((size_t)count, sizeof *b->scale);
    b->position = qpc_alloc_array((size_t)count, sizeof *b->position);
    b->node = qpc_alloc_array((size_t)count, sizeof *b->node);
    b->sweep_start = qpc_calloc((size_t)count + 1, sizeof *b->sweep_start);
    b->sweep_column = qpc_alloc_array((size_t)blocks, sizeof *b->sweep_column);
    b->sweep_from = qpc_alloc_array((size_t)blocks, sizeof *b->sweep_from);
    b->sweep = qpc_calloc(12 * (size_t)blocks, sizeof *b->sweep);
    b->sweep_diagonal = qpc_calloc(12 * (size_t)count, sizeof *b->sweep_diagonal);
    b->sweep_inverse = qpc_calloc(12 * (size_t)count, sizeof *b->sweep_inverse);
    if (b->scale == NULL || b->position == NULL || b->node == NULL || b->sweep_start == NULL || b->sweep_column == NULL ||
        b->sweep_from == NULL || b->sweep == NULL || b->sweep_diagonal == NULL || b->sweep_inverse == NULL)
        return false;
    int32_t part = (count + LANES - 1) / LANES;
    for (int32_t k = 0; k < part; k++)
        for (int32_t i = k; i < count; i += part) {
            b->position[i] = at;
            b->node[at++] = i;
        }
    // Each block goes to the row of its later node, into its place there.
    int32_t *start = b->sweep_start;
    for (int32_t i = 0; i < count; i++)
        for (int32_t k = b->start[i]; k < b->start[i + 1]; k++) {
            int32_t p = b->position[i], q = b->position[b->column[k]];
            start[(p > q ? p : q) + 1]++;
        }
    for (int32_t i = 0; i < count; i++) start[i + 1] += start[i];
    for (int32_t i = 0; i < count; i++) next[i] = start[i];
    for (int32_t i = 0; i < count; i++)
        for (int32_t k = b->start[i]; k < b->start[i + 1]; k++) {
            int32_t p = b->position[i], q = b->position[b->column[k]], place = next[p > q ? p : q]++;
            int32_t column = p > q ? q : p, from = p > q ? k : -1 - k;
            for (; place > start[p > q ? p : q] && b->sweep_column[place - 1] > column; place--) {
                b->sweep_column[place] = b->sweep_column[place - 1];
                b->sweep_from[place] = b->sweep_from[place - 1];
            }
            b->sweep_column[place] = column;
            b->sweep_from[place] = from;
        }
    return true;
}

qpc_status qpc_blocks_create(int32_t n, const int32_t *start, const int32_t *row, qpc_blocks **ret, qpc_error *err) {
    int32_t count = (n + 2) / 3;
    size_t nodes = (size_t)count;
    qpc_blocks *b = qpc_calloc(1, sizeof *b);
    int32_t *last = qpc_alloc_array(nodes, sizeof *last);
    if (b == NULL || last == NULL) goto no_memory;
    b->n = n;
    b->count = count;
    b->start = qpc_calloc(nodes + 2, sizeof *b->start);
    b->diagonal = qpc_calloc(9 * nodes + 1, sizeof *b->diagonal);
    b->wide = qpc_alloc_array(8 * nodes, sizeof *b->wide);
    b->place = qpc_alloc_array((size_t)start[n], sizeof *b->place);
    if (b->start == NULL || b->diagonal == NULL || b->wide == NULL || b->place == NULL) goto no_memory;
    // Blocks of each row, columns ascending since the matrix is walked by columns.
    for (int32_t i = 0; i < count; i++) last[i] = -1;
    for (int32_t j = 0; j < n; j++) {
        for (int32_t k = start[j]; k < start[j + 1]; k++) {
            int32_t node = row[k] / 3;
            if (node == j / 3 || last[node] == j / 3) continue;
            last[node] = j / 3;
            b->start[node + 2]++;
        }
    }
    for (int32_t i = 0; i < count; i++) b->start[i + 2] += b->start[i + 1];
    size_t blocks = (size_t)b->start[count + 1];
    b->column = qpc_alloc_array(blocks, sizeof *b->column);
    b->value = qpc_calloc(9 * blocks + 1, sizeof *b->value); // rows are read four entries at a time
    if (b->column == NULL || b->value == NULL) goto no_memory;
    for (int32_t i = 0; i < count; i++) last[i] = -1;
    for (int32_t j = 0; j < n; j++) {
        for (int32_t k = start[j]; k < start[j + 1]; k++) {
            int32_t node = row[k] / 3;
            if (node == j / 3) {
                b->place[k] = -1 - (9 * node + 3 * (row[k] % 3) + j % 3);
                continue;
            }
            int32_t *next = &b->start[node + 1];
            if (last[node] != j / 3) {
                last[node] = j / 3;
                b->column[(*next)++] = j / 3;
            }
            b->place[k] = 9 * (*next - 1) + 3 * (row[k] % 3) + j % 3;
        }
    }
    for (int32_t k = n; k < 3 * count; k++) b->diagonal[9 * (count - 1) + 4 * (k % 3)] = 1;
    if (!make_sweep(b, last)) goto no_memory;
    qpc_status st = qpc_coarse_create(b, &b->coarse, err);
    qpc_free(last);
    if (st != QPC_OK) {
        qpc_blocks_destroy(b);
        return st;
    }
    *ret = b;
    return QPC_OK;
no_memory:
    qpc_free(last);
    qpc_blocks_destroy(b);
    return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for the blocks of a matrix of order %d", n);
}

void qpc_blocks_destroy(qpc_blocks *b) {
    if (b == NULL) return;
    qpc_free(b->start);
    qpc_free(b->column);
    qpc_free(b->value);
    qpc_free(b->diagonal);
    qpc_free(b->wide);
    qpc_free(b->scale);
    qpc_free(b->position);
    qpc_free(b->node);
    qpc_free(b->sweep_start);
    qpc_free(b->sweep_column);
    qpc_free(b->sweep_from);
    qpc_free(b->sweep);
    qpc_free(b->sweep_diagonal);
    qpc_free(b->sweep_inverse);
    qpc_free(b->place);
    qpc_coarse_destroy(b->coarse);
    qpc_free(b);
}

/// D^-1 by L D L' of [a b c; b d e; c e f], from the rounded D; false if it is not positive definite.
static bool invert(const float *m, float *out) {
    double a = (double)m[0], b = (double)m[1], c = (double)m[2], l10 = b / a, l20 = c / a;
    double d = (double)m[5] - l10 * b, e = (double)m[6] - l20 * b, l21 = e / d, f = (double)m[10] - l20 * c - l21 * e;
    if (!(a > 0 && d > 0 && f > 0)) return false;
    double i2 = 1 / f, i1 = 1 / d, i0 = 1 / a, k = l10 * l21 - l20; // L^-1 = [1; -l10 1; k -l21 1]
    out[10] = (float)i2;
    out[9] = out[6] = (float)(-l21 * i2);
    out[8] = out[2] = (float)(k * i2);
    out[5] = (float)(i1 + l21 * l21 * i2);
    out[4] = out[1] = (float)(-l10 * i1 - l21 * k * i2);
    out[0] = (float)(i0 + l10 * l10 * i1 + k * k * i2);
    out[3] = out[7] = out[11] = 0;
    return true;
}

bool qpc_blocks_round(const double *D, float *rounded, float *inverse) {
    for (int r = 0; r < 3; r++) {
        for (int c = 0; c < 3; c++) rounded[4 * r + c] = (float)D[3 * r + c];
        rounded[4 * r + 3] = 0;
    }
    return invert(rounded, inverse);
}

void qpc_blocks_diagonal(const qpc_blocks *b, int32_t position, double *D) {
    int32_t node = b->node[position];
    double scale = b->scale[node] * b->scale[node];
    for (int k = 0; k < 9; k++) D[k] = scale * b->diagonal[9 * (int64_t)node + k];
}

static void refill_sweep(qpc_blocks *b) {
    for (int32_t i = 0; i < b->count; i++) {
        const double *d = b->diagonal + 9 * (int64_t)i;
        double mean = (d[0] + d[4] + d[8]) / 3;
        b->scale[i] = mean > 0 ? 1 / sqrt(mean) : 1; // a K that is not positive definite is found out later
    }
    b->definite = true;
    for (int32_t i = 0; i < b->count; i++) {
        double scale = b->scale[b->node[i]], D[9];
        qpc_blocks_diagonal(b, i, D);
        if (!qpc_blocks_round(D, b->sweep_diagonal + 12 * (int64_t)i, b->sweep_inverse + 12 * (int64_t)i)) b->definite = false;
        for (int32_t k = b->sweep_start[i]; k < b->sweep_start[i + 1]; k++) {
            int32_t from = b->sweep_from[k], across = from >= 0 ? 1 : 3, down = from >= 0 ? 3 : 1;
            const double *m = b->value + 9 * (int64_t)(from >= 0 ? from : -1 - from);
            float *out = b->sweep + 12 * (int64_t)k;
            double s = scale * b->scale[b->node[b->sweep_column[k]]];
            for (int c = 0; c < 3; c++)
                for (int r = 0; r < 3; r++) out[4 * r + c] = (float)(s * m[down * r + across * c]);
        }
    }
}

void qpc_blocks_refill(qpc_blocks *b, const int32_t *start, const int32_t *row, const double *value) {
    for (int32_t j = 0; j < b->n; j++) {
        for (int32_t k = start[j]; k < start[j + 1]; k++) {
            int32_t place = b->place[k];
            if (place >= 0) {
                b->value[place] = value[k];
                continue;
            }
            b->diagonal[-1 - place] = value[k];
            b->diagonal[9 * (j / 3) + 3 * (j % 3) + row[k] % 3] = value[k];
        }
    }
    refill_sweep(b);
    if (b->coarse != NULL) qpc_coarse_refill(b->coarse, b);
}

typedef double two __attribute__((vector_size(16), aligned(8), may_alias));
typedef double four __attribute__((vector_size(32), aligned(8), may_alias));

#define TARGET
#define NAME(x) base_##x
#include "engine/dynamics/blocks_lanes.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#define NAME(x) avx2_##x
#include "engine/dynamics/blocks_lanes.h"
#endif

void qpc_blocks_multiply(const qpc_blocks *b, const double *x, double *y) {
    double *wide = b->wide, *sum = b->wide + 4 * (size_t)b->count;
    for (int64_t i = 0; i < b->count; i++) {
        for (int a = 0; a < 3; a++) wide[4 * i + a] = x[3 * i + a];
        wide[4 * i + 3] = 0;
    }
#if defined(__x86_64__)
    if (qpc_has_avx2())
        avx2_multiply(b, wide, sum);
    else
#endif
        base_multiply(b, wide, sum);
    for (int64_t i = 0; i < b->count; i++)
        for (int a = 0; a < 3; a++) y[3 * i + a] = sum[4 * i + a];
}
