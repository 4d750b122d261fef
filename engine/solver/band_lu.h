/// LU with partial pivoting of a banded matrix that need not be symmetric, and its solves. No state; any thread.
///
/// Row i holds columns i - w .. i + 2 w at lu[i * (3 w + 1) + (j - i + w)]; the last w of them are zero before it is
/// factored and take what exchanges of rows fill in.
#ifndef QPC_ENGINE_SOLVER_BAND_LU_H
#define QPC_ENGINE_SOLVER_BAND_LU_H

#include <stdbool.h>
#include <stdint.h>

enum { QPC_BAND_LU_MOST = 16 }; // half bandwidth

static inline int64_t qpc_band_lu_stride(int32_t w) {
    return 3 * (int64_t)w + 1;
}

/// In place. pivot (n) out: the row that came to place i. False: singular or not finite.
bool qpc_band_lu_factor(int32_t n, int32_t w, double *lu, int32_t *pivot);
void qpc_band_lu_solve(int32_t n, int32_t w, const double *lu, const int32_t *pivot, double *x);

#endif
