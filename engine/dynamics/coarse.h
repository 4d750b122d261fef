/// A coarse space for conjugate gradients on large sheets (ssor.h): nodes in aggregates that move as a whole.
///
/// Gauss-Seidel does not see what is smooth over many nodes, and a fine, stiff sheet moves so: sqrt(h^2 k / m) nodes
/// together. Z has three columns an aggregate, its translations, and A_c = Z'(K + E) Z is factored; conjugate gradients
/// are deflated by Z. Aggregates are what is nearest to each of a set of nodes far enough from each other, made from
/// the pattern alone; A_c goes in a band, reordered by reverse Cuthill-McKee. Beside it stands L'Z (L: what is left of
/// the diagonal in the order of a sweep), which is all of Z that a step of conjugate gradients needs. Made with the
/// blocks of K; constant between refills; any thread.
#ifndef QPC_ENGINE_DYNAMICS_COARSE_H
#define QPC_ENGINE_DYNAMICS_COARSE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct qpc_blocks;

typedef struct qpc_coarse_factor { // of A_c, L D L' in a band
    int32_t width;    // half bandwidth
    int64_t room;     // doubles in band
    int32_t *place;   // (count) of each aggregate in the band
    int32_t *scratch; // (2 count)
    double *band, *x; // x: (3 count)
} qpc_coarse_factor;

typedef struct qpc_coarse {
    int32_t count;              // aggregates
    int32_t *of;                // (nodes) aggregate of each, `count`: in none
    int32_t *at;                // the same by positions of a sweep
    float *weight;              // by positions: Z in scaled unknowns, 1 / scale or 0
    int32_t *start, *other;     // (count + 1) aggregates that K couples, both ways
    double *value, *diagonal;   // (start[count] x 9), (count x 9): Z'KZ, blocks left of the diagonal and on it
    int32_t *value_place;       // (blocks of K) in value; -1: none, or on the diagonal
    int32_t *left_start, *left_other; // L'Z, by positions
    float *left;                // 3x3 by columns of 3 and a zero
    int32_t *left_place;        // (blocks of a sweep) in left; -1: none
    double *trace;              // (2 count) of the diagonal blocks of K, of K against a translation of all
    qpc_coarse_factor factor;   // of Z'KZ
    bool pays;                  // for K as it stands, and is factored
} qpc_coarse;

typedef struct qpc_coarse_rows { // E = J_A'R J_A of the rows listed, J by rows
    int32_t listed;
    const int32_t *list, *row_start, *column;
    const double *value, *R;
} qpc_coarse_rows;

/// *ret = NULL where it would not pay whatever the values are. QPC_ERR_MEMORY.
qpc_status qpc_coarse_create(const struct qpc_blocks *K, qpc_coarse **ret, qpc_error *err);
void qpc_coarse_destroy(qpc_coarse *z);
/// After K's values, in its blocks and in the sweep, have changed.
void qpc_coarse_refill(qpc_coarse *z, const struct qpc_blocks *K);

/// Doubles that a factor of Z'(K + E) Z takes, and to place it there. couplings: pairs of nodes that rows couple.
int64_t qpc_coarse_factor_size(const qpc_coarse *z, int64_t couplings);
void qpc_coarse_factor_init(const qpc_coarse *z, qpc_coarse_factor *f, double *memory);
/// False where its band would be too wide or it is not positive definite. No rows: Z'KZ.
bool qpc_coarse_factor_make(const qpc_coarse *z, const qpc_coarse_rows *rows, qpc_coarse_factor *f);
/// mu = A_c^-1 c, both (count x 4), the fourth entries as they are.
void qpc_coarse_solve(const qpc_coarse *z, const qpc_coarse_factor *f, const double *c, float *mu);

/// Half bandwidth of the reverse Cuthill-McKee order of a graph, plus that of another on the same vertices (or NULL).
int32_t qpc_coarse_order(int32_t count, const int32_t *start, const int32_t *other, const int32_t *more_start,
                         const int32_t *more_other, int32_t *place, int32_t *scratch);

#endif
