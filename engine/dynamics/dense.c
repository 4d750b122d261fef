/// Recursive dense Cholesky: two halves, the second less what the first takes from it.
#include "engine/dynamics/dense.h"

#include <cblas.h>
#include <math.h>
#include <stddef.h>

enum { LEAF = 16 };

/// Column by column, each taken from those to its right as soon as it is ready.
static int32_t factor_leaf(int32_t n, double *a, int32_t ld) {
    for (int32_t j = 0; j < n; j++) {
        double *l = a + (ptrdiff_t)j * ld, d = l[j];
        if (!(d > 0 && d <= 1.7976931348623157e308)) return j;
        l[j] = sqrt(d);
        double inverse = 1 / l[j];
        for (int32_t i = j + 1; i < n; i++) l[i] *= inverse;
        for (int32_t k = j + 1; k < n; k++) {
            double *right = a + (ptrdiff_t)k * ld, v = l[k];
            for (int32_t i = k; i < n; i++) right[i] -= l[i] * v;
        }
    }
    return -1;
}

static int32_t factor(int32_t n, double *a, int32_t ld) {
    if (n <= LEAF) return factor_leaf(n, a, ld);
    int32_t half = n <= 4 * LEAF ? LEAF : n / 2, rest = n - half;
    int32_t bad = factor(half, a, ld);
    if (bad >= 0) return bad;
    double *below = a + half, *corner = a + (ptrdiff_t)half * ld + half;
    cblas_dtrsm(CblasColMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, rest, half, 1, a, ld, below, ld);
    cblas_dsyrk(CblasColMajor, CblasLower, CblasNoTrans, rest, half, -1, below, ld, 1, corner, ld);
    bad = factor(rest, corner, ld);
    return bad < 0 ? bad : half + bad;
}

int32_t qpc_dense_factor(int32_t n, double *a) {
    return factor(n, a, n);
}

void qpc_dense_solve(int32_t n, const double *l, double *x, int32_t columns) {
    if (n == 0 || columns <= 0) return;
    if (columns == 1) {
        cblas_dtrsv(CblasColMajor, CblasLower, CblasNoTrans, CblasNonUnit, n, l, n, x, 1);
        cblas_dtrsv(CblasColMajor, CblasLower, CblasTrans, CblasNonUnit, n, l, n, x, 1);
        return;
    }
    cblas_dtrsm(CblasColMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, n, columns, 1, l, n, x, n);
    cblas_dtrsm(CblasColMajor, CblasLeft, CblasLower, CblasTrans, CblasNonUnit, n, columns, 1, l, n, x, n);
}
