/// Products and sweeps of a symmetric matrix of 3x3 blocks, stored once.
#include "engine/dynamics/blocks.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

qpc_status qpc_blocks_create(int32_t n, const int32_t *start, const int32_t *row, qpc_blocks **ret, qpc_error *err) {
    int32_t count = (n + 2) / 3;
    size_t nodes = (size_t)count;
    qpc_blocks *b = qpc_calloc(1, sizeof *b);
    int32_t *last = qpc_alloc_array(nodes, sizeof *last);
    if (b == NULL || last == NULL) goto no_memory;
    b->n = n;
    b->count = count;
    b->start = qpc_calloc(nodes + 2, sizeof *b->start);
    b->diagonal = qpc_calloc(9 * nodes, sizeof *b->diagonal);
    b->place = qpc_alloc_array((size_t)start[n], sizeof *b->place);
    if (b->start == NULL || b->diagonal == NULL || b->place == NULL) goto no_memory;
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
    b->value = qpc_calloc(9 * blocks, sizeof *b->value);
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
    qpc_free(last);
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
    qpc_free(b->place);
    qpc_free(b);
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
}

void qpc_blocks_scale(int32_t count, const double *block, const double *x, double *y) {
    for (int32_t i = 0; i < count; i++, block += 9, x += 3, y += 3) {
        double a = x[0], b = x[1], c = x[2];
        y[0] = block[0] * a + block[1] * b + block[2] * c;
        y[1] = block[3] * a + block[4] * b + block[5] * c;
        y[2] = block[6] * a + block[7] * b + block[8] * c;
    }
}

void qpc_blocks_multiply(const qpc_blocks *b, const double *x, double *y) {
    qpc_blocks_scale(b->count, b->diagonal, x, y);
    for (int32_t i = 0; i < b->count; i++) {
        double a = x[3 * i], c = x[3 * i + 1], e = x[3 * i + 2], s0 = 0, s1 = 0, s2 = 0;
        for (int32_t k = b->start[i]; k < b->start[i + 1]; k++) {
            const double *m = b->value + 9 * (int64_t)k, *xj = x + 3 * b->column[k];
            double *yj = y + 3 * b->column[k];
            s0 += m[0] * xj[0] + m[1] * xj[1] + m[2] * xj[2];
            s1 += m[3] * xj[0] + m[4] * xj[1] + m[5] * xj[2];
            s2 += m[6] * xj[0] + m[7] * xj[1] + m[8] * xj[2];
            yj[0] += m[0] * a + m[3] * c + m[6] * e;
            yj[1] += m[1] * a + m[4] * c + m[7] * e;
            yj[2] += m[2] * a + m[5] * c + m[8] * e;
        }
        y[3 * i] += s0;
        y[3 * i + 1] += s1;
        y[3 * i + 2] += s2;
    }
}

int32_t qpc_blocks_invert(int32_t count, const double *block, double *inverse) {
    for (int32_t i = 0; i < count; i++, block += 9, inverse += 9) {
        // L D L' of [a b c; b d e; c e f], then the inverse from its columns
        double a = block[0], l10 = block[3] / a, l20 = block[6] / a;
        double d = block[4] - l10 * block[3], e = block[7] - l20 * block[3], l21 = e / d;
        double f = block[8] - l20 * block[6] - l21 * e;
        if (!(a > 0 && d > 0 && f > 0)) return i;
        double i2 = 1 / f, i1 = 1 / d, i0 = 1 / a, m = l10 * l21 - l20; // L^-1 = [1; -l10 1; m -l21 1]
        inverse[8] = i2;
        inverse[7] = inverse[5] = -l21 * i2;
        inverse[6] = inverse[2] = m * i2;
        inverse[4] = i1 + l21 * l21 * i2;
        inverse[3] = inverse[1] = -l10 * i1 - l21 * m * i2;
        inverse[0] = i0 + l10 * l10 * i1 + m * m * i2;
    }
    return -1;
}

void qpc_blocks_forward(const qpc_blocks *b, const double *inverse, const double *v, double *y) {
    for (int32_t i = 0; i < b->count; i++) {
        double s0 = v[3 * i], s1 = v[3 * i + 1], s2 = v[3 * i + 2];
        for (int32_t k = b->start[i]; k < b->start[i + 1]; k++) {
            const double *m = b->value + 9 * (int64_t)k, *yj = y + 3 * b->column[k];
            s0 -= m[0] * yj[0] + m[1] * yj[1] + m[2] * yj[2];
            s1 -= m[3] * yj[0] + m[4] * yj[1] + m[5] * yj[2];
            s2 -= m[6] * yj[0] + m[7] * yj[1] + m[8] * yj[2];
        }
        const double *d = inverse + 9 * (int64_t)i;
        y[3 * i] = d[0] * s0 + d[1] * s1 + d[2] * s2;
        y[3 * i + 1] = d[3] * s0 + d[4] * s1 + d[5] * s2;
        y[3 * i + 2] = d[6] * s0 + d[7] * s1 + d[8] * s2;
    }
}

void qpc_blocks_backward(const qpc_blocks *b, const double *inverse, double *v, double *y) {
    for (int32_t i = b->count - 1; i >= 0; i--) {
        const double *d = inverse + 9 * (int64_t)i;
        double s0 = v[3 * i], s1 = v[3 * i + 1], s2 = v[3 * i + 2];
        double a = d[0] * s0 + d[1] * s1 + d[2] * s2, c = d[3] * s0 + d[4] * s1 + d[5] * s2,
               e = d[6] * s0 + d[7] * s1 + d[8] * s2;
        y[3 * i] = a;
        y[3 * i + 1] = c;
        y[3 * i + 2] = e;
        for (int32_t k = b->start[i]; k < b->start[i + 1]; k++) {
            const double *m = b->value + 9 * (int64_t)k;
            double *vj = v + 3 * b->column[k];
            vj[0] -= m[0] * a + m[3] * c + m[6] * e;
            vj[1] -= m[1] * a + m[4] * c + m[7] * e;
            vj[2] -= m[2] * a + m[5] * c + m[8] * e;
        }
    }
}
