/// A sheet falling onto a ball, as a sequence of QPs: what solvers for cloth are tested and timed on.
///
/// k x k particles over 1 m x 1 m, springs along the edges of its triangles, weak ones across them; implicit
/// Euler of 5 ms with K clamped to be positive definite. Rows: particles and middles of diagonals near
/// the ball. No collision detection, no randomness.
#ifndef QPC_TESTS_SUPPORT_DRAPE_H
#define QPC_TESTS_SUPPORT_DRAPE_H

#include "engine/solver/qp.h"

typedef struct drape {
    int32_t k, n, springs, m;
    int32_t *pair;          // (springs x 2)
    double *stiffness, *rest;
    double mass, *x, *v;    // a particle's, kg; (n) m, m/s
    qpc_linsys sys;         // sparse
    double *b, *value, *c, *lambda; // lambda: warm start by key, then the answer
    int32_t *row_start, *column;
    uint8_t *equality, *priority;
    uint64_t *key;
    int32_t last_m;         // rows of the step before
    uint64_t *last_key;
    double *last_lambda;
    qpc_qp qp;
} drape;

/// membrane: N/m. ball: radius in m. False: no memory.
bool drape_init(drape *d, int32_t k, double membrane);
void drape_fini(drape *d);
/// K, b, rows and the warm start of the next step; K is not factored.
bool drape_assemble(drape *d);
/// Move on by the solution; d->lambda holds its multipliers.
void drape_advance(drape *d, const double *dv);

#endif
