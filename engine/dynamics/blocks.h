/// K in blocks of 3x3, for products and for conjugate gradients without a factor (ssor.h).
///
/// Three unknowns in a row are a node; what is left over at the end is filled up with the identity, so all
/// vectors here have 3 * count entries, those beyond n being zero. Beside K itself there is K in single precision
/// (sweep.h): what inexact solves work with. Nothing is kept from call to call; any thread.
#ifndef QPC_ENGINE_DYNAMICS_BLOCKS_H
#define QPC_ENGINE_DYNAMICS_BLOCKS_H

#include "base/status.h"
#include "engine/dynamics/sweep.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct qpc_blocks {
    int32_t n, count;     // unknowns, nodes
    int32_t *start;       // (count + 1) blocks left of the diagonal, row by row
    int32_t *column;      // node of each
    double *value;        // (start[count] x 9) by rows
    double *diagonal;     // (count x 9) D_K, whole
    double *scale;        // (count) s = 1 / sqrt(mean of the node's diagonal)
    qpc_sweep sweep;      // K in those units
    bool definite;        // every block of D is positive definite
    double *wide;         // (count x 8) vectors of a product, each node with a fourth entry
    int32_t *place;       // (entries of K) in value, or -1 - place in diagonal
    struct qpc_coarse *coarse; // large meshes: a coarse space (coarse.h); else NULL
} qpc_blocks;

/// Pattern of a lower triangle by columns (linsys.h); inside (n / 3): nodes that no row is ever on, or NULL. QPC_ERR_MEMORY.
qpc_status qpc_blocks_create(int32_t n, const int32_t *start, const int32_t *row, const uint8_t *inside, qpc_blocks **ret,
                             qpc_error *err);
void qpc_blocks_destroy(qpc_blocks *b);
/// Values in the order of the pattern.
void qpc_blocks_refill(qpc_blocks *b, const int32_t *start, const int32_t *row, const double *value);
/// D of a position (9), in the units of a sweep.
void qpc_blocks_diagonal(const qpc_blocks *b, int32_t position, double *D);
/// y = K x
void qpc_blocks_multiply(const qpc_blocks *b, const double *x, double *y);

#endif
