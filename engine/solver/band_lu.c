/// LU of a banded matrix by columns of multipliers: rows are exchanged within the band, so that U is 2 w wide.
///
/// The multipliers of column j stay in the rows they were formed in (below the diagonal, w deep) and are not exchanged
/// afterwards; a solve goes through the exchanges in the order they were made.
#include "engine/solver/band_lu.h"

#include <math.h>

/// Column j: the largest of the entries below comes to the diagonal, the others are cleared.
static inline bool eliminate(int32_t n, int32_t w, double *lu, int32_t *pivot, int32_t j) {
    const int64_t stride = qpc_band_lu_stride(w);
    int32_t last = j + w < n ? j + w : n - 1, best = j, width = 2 * w;
    double *top = lu + j * stride + w; // entry (j, j); the row below has (j + 1, j) at top + stride - 1
    double most = fabs(top[0]);
    for (int32_t i = j + 1; i <= last; i++) {
        double size = fabs(top[(i - j) * (stride - 1)]);
        if (size > most) {
            most = size;
            best = i;
        }
    }
    pivot[j] = best;
    if (!(most > 0.0) || !(most <= 1.7976931348623157e308)) return false;
    if (best != j) {
        double *other = top + (best - j) * (stride - 1);
        for (int32_t k = 0; k <= width; k++) {
            double swap = top[k];
            top[k] = other[k];
            other[k] = swap;
        }
    }
    double inverse = 1.0 / top[0];
    for (int32_t i = j + 1; i <= last; i++) {
        double *row = top + (i - j) * (stride - 1), l = row[0] * inverse;
        row[0] = l;
        if (l == 0.0) continue;
        for (int32_t k = 1; k <= width; k++) row[k] -= l * top[k];
    }
    return true;
}

bool qpc_band_lu_factor(int32_t n, int32_t w, double *lu, int32_t *pivot) {
    // Row i ends at column i + 2 w: a row further down has its places for them, as w more are there than it needs itself.
    if (w == 5) {
        for (int32_t j = 0; j < n; j++)
            if (!eliminate(n, 5, lu, pivot, j)) return false;
        return true;
    }
    for (int32_t j = 0; j < n; j++)
        if (!eliminate(n, w, lu, pivot, j)) return false;
    return true;
}

void qpc_band_lu_solve(int32_t n, int32_t w, const double *lu, const int32_t *pivot, double *x) {
    const int64_t stride = qpc_band_lu_stride(w);
    for (int32_t j = 0; j < n; j++) {
        const double *top = lu + j * stride + w;
        double v = x[pivot[j]];
        x[pivot[j]] = x[j];
        x[j] = v;
        int32_t last = j + w < n ? j + w : n - 1;
        for (int32_t i = j + 1; i <= last; i++) x[i] -= top[(i - j) * (stride - 1)] * v;
    }
    for (int32_t j = n - 1; j >= 0; j--) {
        const double *top = lu + j * stride + w;
        int32_t width = j + 2 * w < n ? 2 * w : n - 1 - j;
        double v = x[j];
        for (int32_t k = 1; k <= width; k++) v -= top[k] * x[j + k];
        x[j] = v / top[0];
    }
}
