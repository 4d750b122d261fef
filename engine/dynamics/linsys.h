/// K of one step: a symmetric positive definite banded matrix, its Cholesky factor and solves.
///
/// Cables numbered along their length give half bandwidth 5 (3x3 blocks, tridiagonal); a dense
/// matrix is the case bandwidth = n - 1. Direct, allocation-free after qpc_linsys_resize().
/// Storage: row i holds K[i][i - bandwidth .. i] at band[i * (bandwidth + 1) + (j - i + bandwidth)];
/// places left of column 0 are kept zero.
#ifndef QPC_ENGINE_DYNAMICS_LINSYS_H
#define QPC_ENGINE_DYNAMICS_LINSYS_H

#include "base/status.h"

#include <stdint.h>

typedef struct qpc_linsys {
    int32_t n, bandwidth;
    double *band;     // (n x (bandwidth + 1)) lower band of K
    double *factor;   // the same shape: L of K = L L', diagonal stored inverted
    double *diagonal; // (n) copy of diag(K)
    int64_t capacity; // doubles allocated in band and in factor each
    uint64_t factorizations, solves; // exact work counts
} qpc_linsys;

qpc_status qpc_linsys_resize(qpc_linsys *sys, int32_t n, int32_t bandwidth, qpc_error *err);
void qpc_linsys_fini(qpc_linsys *sys);
void qpc_linsys_clear(qpc_linsys *sys); // K = 0
/// K[i][j] += v for j <= i, i - j <= bandwidth
static inline void qpc_linsys_add(qpc_linsys *sys, int32_t i, int32_t j, double v) {
    sys->band[(int64_t)i * (sys->bandwidth + 1) + (j - i + sys->bandwidth)] += v;
}
/// Cholesky of K; QPC_ERR_NUMERIC naming the row if K is not positive definite or not finite.
qpc_status qpc_linsys_factor(qpc_linsys *sys, qpc_error *err);
/// x = K^-1 rhs; x may be rhs.
void qpc_linsys_solve(qpc_linsys *sys, const double *rhs, double *x);
/// y = K x, from the band, not the factor.
void qpc_linsys_multiply(const qpc_linsys *sys, const double *x, double *y);

#endif
