/// A box of tetrahedra with everything that its forces need, and the linear problem at its rest shape.
#ifndef QPC_TESTS_SUPPORT_SOFTBOX_H
#define QPC_TESTS_SUPPORT_SOFTBOX_H

#include "base/mem.h"
#include "engine/dynamics/tets.h"

#include <stdlib.h>
#include <string.h>

typedef struct softbox {
    int32_t nodes, count, cells[3];
    double size[3], *x, *mu, *lambda; // x: rest shape
    int32_t *tet, *place;
    uint8_t *material;
    qpc_tet_rest rest;
    qpc_linsys K;
    qpc_tets tets;
} softbox;

static inline int32_t softbox_node(const softbox *b, int32_t i, int32_t j, int32_t k) {
    return (i * (b->cells[1] + 1) + j) * (b->cells[2] + 1) + k;
}

/// Of two ways to look at a tetrahedron the one with positive volume.
static inline void softbox_turn(const double *x, int32_t n[4]) {
    double d[3][3];
    for (int a = 0; a < 3; a++)
        for (int r = 0; r < 3; r++) d[a][r] = x[3 * n[a + 1] + r] - x[3 * n[0] + r];
    double v = d[0][0] * (d[1][1] * d[2][2] - d[1][2] * d[2][1]) - d[0][1] * (d[1][0] * d[2][2] - d[1][2] * d[2][0]) +
               d[0][2] * (d[1][0] * d[2][1] - d[1][1] * d[2][0]);
    if (v > 0) return;
    int32_t swap = n[2];
    n[2] = n[3];
    n[3] = swap;
}

/// Corners of a cell by bits x 1, y 2, z 4. Five: mirrored from cell to cell; six: all cells alike, around a diagonal.
static inline void softbox_fill(softbox *b, bool five) {
    static const int FIVE[2][5][4] = {
        {{0, 3, 5, 6}, {1, 0, 3, 5}, {2, 0, 3, 6}, {4, 0, 5, 6}, {7, 3, 5, 6}},
        {{1, 2, 4, 7}, {0, 1, 2, 4}, {3, 1, 2, 7}, {5, 1, 4, 7}, {6, 2, 4, 7}},
    };
    static const int SIX[6][4] = {{0, 1, 3, 7}, {0, 1, 5, 7}, {0, 2, 3, 7}, {0, 2, 6, 7}, {0, 4, 5, 7}, {0, 4, 6, 7}};
    b->count = 0;
    for (int32_t i = 0; i <= b->cells[0]; i++)
        for (int32_t j = 0; j <= b->cells[1]; j++)
            for (int32_t k = 0; k <= b->cells[2]; k++) {
                double *p = b->x + 3 * softbox_node(b, i, j, k);
                p[0] = b->size[0] * i / b->cells[0];
                p[1] = b->size[1] * j / b->cells[1];
                p[2] = b->size[2] * k / b->cells[2];
            }
    for (int32_t i = 0; i < b->cells[0]; i++)
        for (int32_t j = 0; j < b->cells[1]; j++)
            for (int32_t k = 0; k < b->cells[2]; k++)
                for (int t = 0; t < (five ? 5 : 6); t++) {
                    int32_t *n = b->tet + 4 * b->count++;
                    for (int c = 0; c < 4; c++) {
                        int corner = five ? FIVE[(i + j + k) % 2][t][c] : SIX[t][c];
                        n[c] = softbox_node(b, i + (corner & 1), j + (corner >> 1 & 1), k + (corner >> 2));
                    }
                    softbox_turn(b->x, n);
                }
}

/// Rest data, pattern and K of elements and x as they are in b. False: see err.
static inline bool softbox_finish(softbox *b, double young, double poisson, qpc_tet_material material, qpc_error *err) {
    size_t count = (size_t)b->count;
    int32_t *start = NULL, *row = NULL;
    b->mu = malloc(count * sizeof *b->mu);
    b->lambda = malloc(count * sizeof *b->lambda);
    b->material = malloc(count);
    b->place = malloc(6 * count * sizeof *b->place);
    if (b->mu == NULL || b->lambda == NULL || b->material == NULL || b->place == NULL) abort();
    double mu, lambda;
    if (qpc_tet_lame(young, poisson, &mu, &lambda, err) != QPC_OK ||
        qpc_tet_rest_make(b->x, b->nodes, b->tet, b->count, 1, &b->rest, err) != QPC_OK)
        return false;
    for (int32_t e = 0; e < b->count; e++) {
        b->mu[e] = mu;
        b->lambda[e] = lambda;
        b->material[e] = (uint8_t)material;
    }
    b->tets = (qpc_tets){.count = b->count, .node = b->tet, .inverse = b->rest.inverse, .volume = b->rest.volume, .mu = b->mu,
                         .lambda = b->lambda, .material = b->material, .place = b->place};
    bool good = qpc_tets_pattern(NULL, &b->tets, b->nodes, &start, &row, NULL, b->place, err) == QPC_OK &&
                qpc_linsys_resize_sparse(&b->K, 3 * b->nodes, start, row, err) == QPC_OK;
    qpc_free(start);
    qpc_free(row);
    return good;
}

static inline bool softbox_make(softbox *b, const int32_t cells[3], const double size[3], bool five, double young, double poisson,
                                qpc_tet_material material, qpc_error *err) {
    memset(b, 0, sizeof *b);
    memcpy(b->cells, cells, sizeof b->cells);
    memcpy(b->size, size, sizeof b->size);
    b->nodes = (cells[0] + 1) * (cells[1] + 1) * (cells[2] + 1);
    b->x = malloc(3 * sizeof *b->x * (size_t)b->nodes);
    b->tet = malloc(24 * sizeof *b->tet * (size_t)cells[0] * (size_t)cells[1] * (size_t)cells[2]);
    if (b->x == NULL || b->tet == NULL) abort();
    softbox_fill(b, five);
    return softbox_finish(b, young, poisson, material, err);
}

static inline void softbox_fini(softbox *b) {
    qpc_tet_rest_fini(&b->rest);
    qpc_linsys_fini(&b->K);
    free(b->x);
    free(b->tet);
    free(b->mu);
    free(b->lambda);
    free(b->material);
    free(b->place);
    memset(b, 0, sizeof *b);
}

/// H at rest, u = load on the unknowns that are not held; held ones keep what u has. support (3 n, or NULL) = H u.
static inline qpc_status softbox_solve(softbox *b, const double *load, const uint8_t *held, double *u, double *support,
                                       qpc_error *err) {
    int32_t n = 3 * b->nodes;
    double *rhs = calloc(3 * (size_t)b->nodes, sizeof *rhs);
    if (rhs == NULL) abort();
    for (int32_t i = 0; i < n; i++)
        if (!held[i]) u[i] = 0;
    qpc_linsys_clear(&b->K);
    qpc_tets_linearise(&b->tets, b->x, u, 1, &b->K, NULL, rhs);
    for (int32_t i = 0; i < n; i++) rhs[i] = held[i] ? 0 : load[i] - rhs[i];
    for (int32_t j = 0; j < n; j++)
        for (int32_t k = b->K.start[j]; k < b->K.start[j + 1]; k++)
            if (held[j] || held[b->K.row[k]]) b->K.value[k] = b->K.row[k] == j;
    qpc_status st = qpc_linsys_factor(&b->K, err);
    if (st == QPC_OK) {
        qpc_linsys_solve(&b->K, rhs, rhs);
        for (int32_t i = 0; i < n; i++)
            if (!held[i]) u[i] = rhs[i];
        if (support != NULL) {
            memset(support, 0, 3 * (size_t)b->nodes * sizeof *support);
            qpc_tets_linearise(&b->tets, b->x, u, 1, NULL, NULL, support);
        }
    }
    free(rhs);
    return st;
}

#endif
