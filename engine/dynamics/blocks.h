/// K in blocks of 3x3, for products and for conjugate gradients without a factor (ssor.h).
///
/// Three unknowns in a row are a node; what is left over at the end is filled up with the identity, so all
/// vectors here have 3 * count entries, those beyond n being zero. Beside K itself there is K in single precision,
/// each node's unknowns scaled so that the diagonal is about 1: what inexact solves work with, half the memory and
/// four entries at a time. There the nodes are dealt out to LANES parts, whose nodes take turns: those that follow
/// each other in a sweep then seldom wait for each other, as neighbours in a mesh would, while within its part a
/// sweep runs as it would through the whole. Nothing is kept from call to call; any thread.
#ifndef QPC_ENGINE_DYNAMICS_BLOCKS_H
#define QPC_ENGINE_DYNAMICS_BLOCKS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct qpc_blocks {
    int32_t n, count;     // unknowns, nodes
    int32_t *start;       // (count + 1) blocks left of the diagonal, row by row
    int32_t *column;      // node of each
    double *value;        // (start[count] x 9) by rows
    double *diagonal;     // (count x 9) D_K, whole
    double *scale;        // (count) s = 1 / sqrt(mean of the node's diagonal)
    int32_t *position;    // (count) of each node in a sweep
    int32_t *node;        // (count) at each position
    int32_t *sweep_start, *sweep_column; // blocks left of the diagonal by positions, columns ascending
    int32_t *sweep_from;  // block in value, or -1 - block: its transpose
    float *sweep;         // (start[count] x 12) s_i s_j times the block, by rows of 3 and a zero
    float *sweep_diagonal, *sweep_inverse; // (count x 12) D by positions in those units, by rows of 3 and a zero; D^-1
    bool definite;        // every block of D is positive definite
    double *wide;         // (count x 8) vectors of a product, each node with a fourth entry
    int32_t *place;       // (entries of K) in value, or -1 - place in diagonal
    struct qpc_coarse *coarse; // large meshes: a coarse space (coarse.h); else NULL
} qpc_blocks;

/// Pattern of a lower triangle by columns (linsys.h). QPC_ERR_MEMORY.
qpc_status qpc_blocks_create(int32_t n, const int32_t *start, const int32_t *row, qpc_blocks **ret, qpc_error *err);
void qpc_blocks_destroy(qpc_blocks *b);
/// Values in the order of the pattern.
void qpc_blocks_refill(qpc_blocks *b, const int32_t *start, const int32_t *row, const double *value);
/// D of a position (9), in those units.
void qpc_blocks_diagonal(const qpc_blocks *b, int32_t position, double *D);
/// A block of D (9) and its inverse in single precision, by rows of 3 and a zero; false if it is not positive definite.
bool qpc_blocks_round(const double *D, float *rounded, float *inverse);
/// y = K x
void qpc_blocks_multiply(const qpc_blocks *b, const double *x, double *y);

#endif
