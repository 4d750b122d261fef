/// Dense kernels of the friction solvers: LAPACK on one thread, and the scaling of a cone problem.
///
/// LAPACK is called by its Fortran names, which take the caller's memory; LAPACKE would allocate
/// its own.
#include "engine/dynamics/blas.h"
#include "engine/solver/cones.h"

#include <float.h>
#include <math.h>
#include <string.h>

extern void dgetrf_(const int *m, const int *n, double *a, const int *lda, int *pivots, int *info);
extern void dgetrs_(const char *trans, const int *n, const int *columns, const double *a,
                    const int *lda, const int *pivots, double *b, const int *ldb, int *info);
extern void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info);
extern void dpotrs_(const char *uplo, const int *n, const int *columns, const double *a,
                    const int *lda, double *b, const int *ldb, int *info);

void qpc_cone_set_up(void) {
    qpc_blas_one_thread();
}

bool qpc_lu_solve(int32_t n, double *matrix, bool by_rows, int *pivots, double *x, bool factored) {
    int size = n, one = 1, info = 0;
    qpc_cone_set_up();
    if (!factored) dgetrf_(&size, &size, matrix, &size, pivots, &info);
    if (info != 0) return false;
    dgetrs_(by_rows ? "T" : "N", &size, &one, matrix, &size, pivots, x, &size, &info);
    for (int32_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return info == 0;
}

bool qpc_cholesky_solve(int32_t n, double *matrix, double *x, bool factored) {
    int size = n, one = 1, info = 0;
    qpc_cone_set_up();
    if (!factored) dpotrf_("L", &size, matrix, &size, &info);
    if (info != 0) return false;
    dpotrs_("L", &size, &one, matrix, &size, x, &size, &info);
    for (int32_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return info == 0;
}

/// Largest eigenvalue of the symmetric part of a block of 1 to 3, by its characteristic polynomial.
static double largest_eigenvalue(int32_t n, const double *block, int64_t stride) {
    double a[3][3] = {{0}};
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < n; j++)
            a[i][j] = 0.5 * (block[i * stride + j] + block[j * stride + i]);
    if (n == 1) return a[0][0];
    if (n == 2) return 0.5 * (a[0][0] + a[1][1]) + hypot(0.5 * (a[0][0] - a[1][1]), a[0][1]);
    double off = a[0][1] * a[0][1] + a[0][2] * a[0][2] + a[1][2] * a[1][2];
    double mean = (a[0][0] + a[1][1] + a[2][2]) / 3;
    double d0 = a[0][0] - mean, d1 = a[1][1] - mean, d2 = a[2][2] - mean;
    double spread = sqrt((d0 * d0 + d1 * d1 + d2 * d2 + 2 * off) / 6);
    if (!(spread > DBL_MIN)) return mean;
    d0 /= spread;
    d1 /= spread;
    d2 /= spread;
    double e01 = a[0][1] / spread, e02 = a[0][2] / spread, e12 = a[1][2] / spread;
    double det =
        d0 * (d1 * d2 - e12 * e12) - e01 * (e01 * d2 - e12 * e02) + e02 * (e01 * e12 - d1 * e02);
    double half = 0.5 * det;
    half = half < -1 ? -1 : half > 1 ? 1 : half;
    return mean + 2 * spread * cos(acos(half) / 3);
}

double qpc_cone_rho(int32_t n, const double *block, int64_t stride) {
    double largest = largest_eigenvalue(n, block, stride);
    return largest > DBL_MIN ? 1 / largest : 1;
}

void qpc_cone_scale(qpc_cone_problem *problem, const double *given) {
    int32_t size = problem->size;
    double sum = 0;
    for (int32_t k = 0; k < problem->count; k++) {
        int32_t at = problem->at[k], n = problem->at[k + 1] - at;
        double rho = qpc_cone_rho(n, problem->A + (int64_t)at * size + at, size);
        if (given != NULL && given[k] > 0) rho = given[k];
        problem->root[k] = sqrt(rho);
        for (int32_t i = 0; i < n; i++) sum += rho * problem->p[at + i] * problem->p[at + i];
    }
    problem->scale = sum > DBL_MIN ? sqrt(sum) : 1;
    for (int32_t k = 0; k < problem->count; k++) {
        for (int32_t i = problem->at[k]; i < problem->at[k + 1]; i++) {
            double *row = problem->A + (int64_t)i * size;
            for (int32_t l = 0; l < problem->count; l++) {
                double s = problem->root[k] * problem->root[l];
                for (int32_t j = problem->at[l]; j < problem->at[l + 1]; j++) row[j] *= s;
            }
            problem->p[i] *= problem->root[k] / problem->scale;
        }
        if (problem->kind[k] == QPC_BLOCK_DISC) problem->mu[k] /= problem->root[k] * problem->scale;
    }
}
