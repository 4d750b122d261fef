/// Products and sweeps of a symmetric matrix of 3x3 blocks, stored once.
#include "engine/dynamics/blocks.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "engine/dynamics/coarse.h"

#include <math.h>
#include <string.h>

qpc_status qpc_blocks_create(int32_t n, const int32_t *start, const int32_t *row, const uint8_t *inside, qpc_blocks **ret,
                             qpc_error *err) {
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
    b->scale = qpc_calloc(nodes, sizeof *b->scale);
    if (b->scale == NULL || !qpc_sweep_make(&b->sweep, count, b->start, b->column, inside)) goto no_memory;
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
    qpc_sweep_fini(&b->sweep);
    qpc_free(b->place);
    qpc_coarse_destroy(b->coarse);
    qpc_free(b);
}

void qpc_blocks_diagonal(const qpc_blocks *b, int32_t position, double *D) {
    int32_t node = b->sweep.node[position];
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
        double D[9];
        qpc_blocks_diagonal(b, i, D);
        if (!qpc_sweep_round(D, i, b->sweep.diagonal, b->sweep.inverse)) b->definite = false;
    }
    qpc_sweep_refill(&b->sweep, b->value, b->scale);
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

enum { AHEAD = 576 }; // doubles of K that are on their way from memory, where large ones stay between products

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
