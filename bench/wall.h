/// Generated QPs: a wall of rigid bricks, and a sheet of springs pressed on bumpy ground.
///
/// Wall: courses of `columns` and `columns - 1` bricks in turn, 0.2 x 0.1 x 0.1 m, half a brick
/// apart, so that each rests on two, the lowest on the ground; 4 points per interface, normals
/// upright. Six unknowns a brick (velocity, spin), K = masses and inertias, masses from 1 to
/// `ratio` kg at random. b: gravity over dt 5 ms; c: velocities of up to `jitter` m/s in every
/// direction. Highly dependent rows: most bricks stand on 8 points where 3 would do. Sheet: side x
/// side nodes, springs along the edges and one diagonal, in one step of backward Euler; every
/// `every`-th node is held above the ground and pressed on it. Same bits from the same numbers. The
/// caller frees with generated_free().
#ifndef QPC_BENCH_WALL_H
#define QPC_BENCH_WALL_H

#include "engine/solver/qp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct generated {
    qpc_qp qp;
    qpc_linsys sys;
    double *b, *value, *c;
    int32_t *row_start, *column;
    uint8_t *equality, *priority;
    uint64_t *key;
    uint64_t seed;
    int32_t at; // entries of J so far
} generated;

static inline void generated_free(generated *g) {
    qpc_linsys_fini(&g->sys);
    free(g->b);
    free(g->value);
    free(g->c);
    free(g->row_start);
    free(g->column);
    free(g->equality);
    free(g->priority);
    free(g->key);
    memset(g, 0, sizeof *g);
}

static inline double generated_uniform(generated *g) { // in [0, 1)
    g->seed = g->seed * 6364136223846793005U + 1442695040888963407U;
    return (double)(g->seed >> 11) / (double)(1ULL << 53);
}

static inline bool generated_rows(generated *g, int32_t n, int32_t m, int64_t entries) {
    size_t rows = (size_t)m + 1;
    g->b = calloc((size_t)n + 1, sizeof *g->b);
    g->c = calloc(rows, sizeof *g->c);
    g->value = calloc((size_t)entries + 1, sizeof *g->value);
    g->column = calloc((size_t)entries + 1, sizeof *g->column);
    g->row_start = calloc(rows, sizeof *g->row_start);
    g->equality = calloc(rows, 1);
    g->priority = calloc(rows, 1);
    g->key = calloc(rows, sizeof *g->key);
    g->qp = (qpc_qp){.n = n,
                     .sys = &g->sys,
                     .b = g->b,
                     .row_start = g->row_start,
                     .column = g->column,
                     .value = g->value,
                     .c = g->c,
                     .equality = g->equality,
                     .priority = g->priority,
                     .key = g->key};
    return g->b != NULL && g->c != NULL && g->value != NULL && g->column != NULL &&
           g->row_start != NULL && g->equality != NULL && g->priority != NULL && g->key != NULL;
}

static inline void generated_entry(generated *g, int32_t column, double value) {
    g->column[g->at] = column;
    g->value[g->at++] = value;
}

/// Ends the row that the entries since the last call make up.
static inline void generated_row(generated *g, double c) {
    int32_t i = g->qp.m++;
    g->c[i] = c;
    g->key[i] = (uint64_t)i;
    g->priority[i] = 1;
    g->row_start[i + 1] = g->at;
}

/// Six of brick `k`: the velocity of its point (x, y, z from its centre) upwards, times sign.
static inline void generated_point(generated *g, int32_t k, double x, double y, double sign) {
    generated_entry(g, 6 * k + 2, sign); // u_z = v_z + w_x y - w_y x
    generated_entry(g, 6 * k + 3, sign * y);
    generated_entry(g, 6 * k + 4, -sign * x);
}

static inline int32_t wall_bricks(int32_t columns, int32_t courses) {
    return (courses + 1) / 2 * columns + courses / 2 * (columns - 1);
}

static inline bool wall_make(int32_t columns, int32_t courses, double ratio, double jitter,
                             generated *g) {
    int32_t bricks = wall_bricks(columns, courses), n = 6 * bricks, most = 8 * bricks, brick = 0,
            below = 0;
    memset(g, 0, sizeof *g);
    g->seed = (uint64_t)columns * 1009 + (uint64_t)courses;
    int32_t *start = calloc((size_t)n + 1, sizeof *start);
    double *v = calloc((size_t)n, sizeof *v);
    bool ok = start != NULL && v != NULL && generated_rows(g, n, most, (int64_t)most * 6);
    for (int32_t i = 0; ok && i <= n; i++) start[i] = i;
    ok = ok && qpc_linsys_resize_sparse(&g->sys, n, start, start, NULL) == QPC_OK;
    const double dt = 0.005, half[3] = {0.1, 0.05, 0.05};
    for (int32_t k = 0; ok && k < bricks; k++) {
        double mass = pow(ratio, generated_uniform(g));
        for (int32_t a = 0; a < 6; a++) {
            double turn = 0;
            if (a >= 3)
                for (int32_t o = 0; o < 3; o++) turn += o == a - 3 ? 0 : half[o] * half[o] / 3;
            g->sys.value[6 * k + a] = a < 3 ? mass : mass * turn;
            v[6 * k + a] = jitter * (2 * generated_uniform(g) - 1);
        }
        g->b[6 * k + 2] = -9.81 * dt * mass;
    }
    for (int32_t course = 0; ok && course < courses; course++) {
        int32_t count = course % 2 == 0 ? columns : columns - 1;
        for (int32_t k = 0; k < count; k++, brick++) {
            // Its left and right half on the two below, or all of it on the ground.
            for (int32_t side = 0; side < (course == 0 ? 1 : 2); side++) {
                for (int32_t corner = 0; corner < 4; corner++) {
                    int32_t on = course == 0 ? -1 : below + k + side - (course % 2 == 0);
                    double from = course == 0 || side == 0 ? -half[0] : 0,
                           to = course == 0 || side == 1 ? half[0] : 0;
                    double x = corner % 2 == 0 ? from : to, y = corner < 2 ? -half[1] : half[1],
                           c = 0;
                    if (course > 0 && (on < below || on >= brick - k))
                        continue; // at the end of a course
                    int32_t first = g->at;
                    if (on >= 0) generated_point(g, on, x + (side == 0 ? half[0] : -half[0]), y, 1);
                    generated_point(g, brick, x, y, -1);
                    for (int32_t e = first; e < g->at; e++) c -= g->value[e] * v[g->column[e]];
                    generated_row(g, c);
                }
            }
        }
        below = brick - count;
    }
    ok = ok && qpc_linsys_factor(&g->sys, NULL) == QPC_OK;
    free(start);
    free(v);
    if (!ok) generated_free(g);
    return ok;
}

static inline void sheet_couple(generated *g, int32_t i, int32_t j, double k) { // i > j
    for (int32_t a = 0; a < 3; a++) {
        *qpc_linsys_entry(&g->sys, 3 * i + a, 3 * i + a) += k;
        *qpc_linsys_entry(&g->sys, 3 * j + a, 3 * j + a) += k;
        *qpc_linsys_entry(&g->sys, 3 * i + a, 3 * j + a) -= k;
    }
}

static inline bool sheet_make(int32_t side, int32_t every, generated *g) {
    int32_t nodes = side * side, n = 3 * nodes, at = 0;
    memset(g, 0, sizeof *g);
    g->seed = (uint64_t)side;
    int32_t *start = calloc((size_t)n + 1, sizeof *start),
            *row = calloc((size_t)n * 4, sizeof *row);
    bool ok = start != NULL && row != NULL &&
              generated_rows(g, n, nodes / every + 1, (int64_t)(nodes / every + 1) * 3);
    for (int32_t j = 0; ok && j < n; j++) {
        int32_t node = j / 3, x = node % side, y = node / side;
        start[j] = at;
        row[at++] = j;
        if (x + 1 < side) row[at++] = j + 3;
        if (y + 1 < side) row[at++] = j + 3 * side;
        if (x + 1 < side && y + 1 < side) row[at++] = j + 3 * side + 3;
        start[j + 1] = at;
    }
    ok = ok && qpc_linsys_resize_sparse(&g->sys, n, start, row, NULL) == QPC_OK;
    const double mass = 1e-4, stiffness = 20, dt = 0.005; // kg, N/m, s
    for (int32_t node = 0; ok && node < nodes; node++) {
        int32_t x = node % side, y = node / side;
        for (int32_t a = 0; a < 3; a++)
            *qpc_linsys_entry(&g->sys, 3 * node + a, 3 * node + a) += mass;
        if (x > 0) sheet_couple(g, node, node - 1, stiffness * dt * dt);
        if (y > 0) sheet_couple(g, node, node - side, stiffness * dt * dt);
        if (x > 0 && y > 0) sheet_couple(g, node, node - side - 1, stiffness * dt * dt);
        g->b[3 * node + 2] = -9.81 * dt * mass - 1e-4 * generated_uniform(g);
        if (node % every != 0) continue;
        double slope[2] = {0.3 * sin(0.4 * x), 0.3 * cos(0.3 * y)};
        generated_entry(g, 3 * node, slope[0]);
        generated_entry(g, 3 * node + 1, slope[1]);
        generated_entry(g, 3 * node + 2, -1);
        generated_row(g, 0.05 * generated_uniform(g));
    }
    ok = ok && qpc_linsys_factor(&g->sys, NULL) == QPC_OK;
    free(start);
    free(row);
    if (!ok) generated_free(g);
    return ok;
}

#endif
