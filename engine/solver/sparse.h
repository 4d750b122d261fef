/// Cholesky factor of K + J'RJ where rows of J reach beyond the band of K (cable on cable).
///
/// Blocks of three unknowns are the nodes of a graph, K and every row of J that may become active
/// its edges. It is eliminated by minimum degree: a coil of w turns keeps w or so blocks a column, and
/// straight parts stay the chain they are. Analysed once per QP; values come and go with the active
/// set. Memory from the arena; nothing depends on addresses. Runs on the worker in the world.
#ifndef QPC_ENGINE_SOLVER_SPARSE_H
#define QPC_ENGINE_SOLVER_SPARSE_H

#include "base/mem.h"
#include "engine/solver/qp.h"

typedef struct qpc_sparse {
    const qpc_qp *qp;
    int32_t blocks;   // of three unknowns; the last one is filled up with the identity
    int32_t *place;   // (blocks) when a block is eliminated
    int32_t *start;   // (blocks + 1) columns of L, in order of elimination
    int32_t *row;     // (entries) places below the diagonal, ascending in a column
    double *value;    // (entries x 9) A, then L
    double *diagonal; // (blocks x 9) A, then L with reciprocals on its diagonal
    double *K_value, *K_diagonal; // the same of K alone
    int32_t *head, *next, *at;    // (blocks) columns that reach the row at hand next; where in them
    int32_t *slot;                // (blocks) entry of the column at hand that is in this row
    double *x;                    // (3 blocks)
    int64_t products;             // 3x3 products of a factorisation
} qpc_sparse;

/// Order and structure of the band of K and all rows of J. *ret_fits is false, and the object of no
/// use, if a factorisation would take more than `most` products of blocks. False: no memory.
bool qpc_sparse_analyse(qpc_sparse *s, qpc_arena *arena, const qpc_qp *qp, int64_t most,
                        bool *ret_fits);
/// A = K
void qpc_sparse_load(qpc_sparse *s);
/// A += weight J_i'J_i
void qpc_sparse_add_row(qpc_sparse *s, int32_t i, double weight);
/// L of A = L L'; false if A is not positive definite.
bool qpc_sparse_factor(qpc_sparse *s);
/// x = A^-1 rhs; x may be rhs.
void qpc_sparse_solve(qpc_sparse *s, const double *rhs, double *x);

#endif
