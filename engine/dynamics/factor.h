/// Sparse Cholesky factor of a symmetric positive definite matrix of any pattern, by CHOLMOD.
///
/// Ordered and analysed once per pattern, refilled with values as often as need be. The lower triangle
/// is given by columns, rows ascending in a column, the diagonal first and always there. Same bits for
/// the same input on one machine: BLAS runs on the calling thread alone. One thread at a time.
#ifndef QPC_ENGINE_DYNAMICS_FACTOR_H
#define QPC_ENGINE_DYNAMICS_FACTOR_H

#include "base/status.h"

#include <stdint.h>

typedef struct qpc_factor qpc_factor;

/// Fill-reducing order and symbolic analysis of the pattern; neither array is kept.
/// QPC_ERR_LIMIT if the factor would have 2^31 entries or more.
qpc_status qpc_factor_create(int32_t n, const int32_t *start, const int32_t *row, qpc_factor **ret,
                             qpc_error *err);
void qpc_factor_destroy(qpc_factor *factor);
/// L L' of the matrix with these values (in the order of the pattern).
/// QPC_ERR_NUMERIC and *ret_bad >= 0, the first column without a positive pivot, if it is not positive
/// definite; the factor is of no use then. ret_bad may be NULL.
qpc_status qpc_factor_refill(qpc_factor *factor, const double *value, int32_t *ret_bad, qpc_error *err);
/// X = A^-1 B, both n x columns by columns; X may be B. QPC_ERR_MEMORY (first call of a width only).
qpc_status qpc_factor_solve(qpc_factor *factor, const double *B, double *X, int32_t columns, qpc_error *err);
/// Entries of L, floating-point operations of a factorisation: exact, known after the analysis.
double qpc_factor_entries(const qpc_factor *factor);
double qpc_factor_operations(const qpc_factor *factor);

#endif
