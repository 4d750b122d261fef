/// K in blocks of 3x3 and symmetric successive over-relaxation: conjugate gradients without a factor.
///
/// Three unknowns in a row are a node; what is left over at the end is filled up with the identity, so all
/// vectors here have 3 * count entries, those beyond n being zero. Written for K + E with a few rows' worth
/// of E = J'RJ on top, whose diagonal blocks go into D while the rest stays with the caller:
///
///     K = L + D_K + L',  W = D + L,  D = D_K + D_E;  preconditioner M = W D^-1 W' (Eisenstat 1981).
///
/// In the unknowns W'd one product with the preconditioned matrix costs one sweep up and one down, which is
/// what a product with K alone costs. Nothing is kept from call to call; any thread.
#ifndef QPC_ENGINE_DYNAMICS_BLOCKS_H
#define QPC_ENGINE_DYNAMICS_BLOCKS_H

#include "base/status.h"

#include <stdint.h>

typedef struct qpc_blocks {
    int32_t n, count;     // unknowns, nodes
    int32_t *start;       // (count + 1) blocks left of the diagonal, row by row
    int32_t *column;      // node of each
    double *value;        // (start[count] x 9) by rows
    double *diagonal;     // (count x 9) D_K, whole
    int32_t *place;       // (entries of K) in value, or -1 - place in diagonal
} qpc_blocks;

/// Pattern of a lower triangle by columns (linsys.h). QPC_ERR_MEMORY.
qpc_status qpc_blocks_create(int32_t n, const int32_t *start, const int32_t *row, qpc_blocks **ret, qpc_error *err);
void qpc_blocks_destroy(qpc_blocks *b);
/// Values in the order of the pattern.
void qpc_blocks_refill(qpc_blocks *b, const int32_t *start, const int32_t *row, const double *value);
/// y = K x
void qpc_blocks_multiply(const qpc_blocks *b, const double *x, double *y);
/// Inverse (count x 9) of symmetric positive definite blocks; the first that is none, or -1.
int32_t qpc_blocks_invert(int32_t count, const double *block, double *inverse);
/// y = block diagonal times x
void qpc_blocks_scale(int32_t count, const double *block, const double *x, double *y);
/// y = W^-1 v, y = W^-T v; y is not v.
void qpc_blocks_forward(const qpc_blocks *b, const double *inverse, const double *v, double *y);
void qpc_blocks_backward(const qpc_blocks *b, const double *inverse, double *v, double *y); // v is lost

#endif
