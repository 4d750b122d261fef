/// Dense Cholesky of small symmetric positive definite matrices, on BLAS.
///
/// Column-major, lower triangle, leading dimension n: A[i][j] at a[j * n + i], i >= j; what stands above
/// the diagonal is neither read nor written. No overhead beyond the arithmetic: below a few hundred
/// unknowns two to four times as fast as a sparse factor of a full matrix. qpc_blas_one_thread() comes first. Any thread.
#ifndef QPC_ENGINE_DYNAMICS_DENSE_H
#define QPC_ENGINE_DYNAMICS_DENSE_H

#include <stdint.h>

/// A = L L', in place. The first column whose pivot is not positive and finite, or -1.
int32_t qpc_dense_factor(int32_t n, double *a);
/// X = A^-1 X, (n x columns) column-major.
void qpc_dense_solve(int32_t n, const double *l, double *x, int32_t columns);

#endif
