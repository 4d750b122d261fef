/// Tetrahedra: energy, forces, and the clamped Jacobian of K and b. No state; any thread. What is done to single elements
/// and which processor does how many at once (tets_lanes.h, tets_batch.h).
#include "engine/dynamics/tets.h"

#include "base/cpu.h"

#include <math.h>
#include <string.h>

enum { SWEEPS = 12, NEWTON_MOST = 40 };
static const double ORTHOGONAL = 1e-15; // cosine of columns that count as orthogonal
static const double NEEDLE = 1e-12;     // s2 / s1 below which U has no second direction
static const double ROUNDING = 2e-16;   // relative, of s1 + s2 + s3
static const double DETERMINED = 1e-2;  // (s1 + s2)(s2 + s3)(s3 + s1) / (s1 + s2 + s3)^3 above which R has all its digits
static const double NEAR_REST = 0.1;    // |R'F - 1| below which W is computed from it (TS9)
static const double TWIST_FLOOR = 1e-2; // least s_i + s_j in the stiffness against turning (TS6)
static const int SYM_ROW[6] = {0, 1, 2, 1, 2, 0}, SYM_COLUMN[6] = {0, 1, 2, 2, 0, 1}; // of a symmetric matrix xx yy zz yz zx xy

/// y - log(1 + y), to all digits near 0.
static double less_its_log(double y) {
    if (!(fabs(y) < 0.01)) return y - log1p(y);
    double sum = 0;
    for (int k = 9; k >= 2; k--) sum = 1.0 / k - y * sum;
    return y * y * sum;
}

/// Collapsed into a line along a, or a point (length 0), s2 is as good as 0: any second direction b across serves.
static void complete_frame(double length, double a[3], double b[3]) {
    int least = 0;
    if (!(length > 0))
        for (int k = 0; k < 3; k++) a[k] = k == 0;
    for (int k = 1; k < 3; k++)
        if (fabs(a[k]) < fabs(a[least])) least = k;
    for (int k = 0; k < 3; k++) b[k] = (k == least) - a[least] * a[k];
    double norm = sqrt(b[0] * b[0] + b[1] * b[1] + b[2] * b[2]);
    for (int k = 0; k < 3; k++) b[k] /= norm;
}

/// One turn of Jacobi's method: A_pq becomes 0.
static void turn_symmetric(double A[3][3], double Q[3][3], int p, int q) {
    double d = A[q][q] - A[p][p], e = 2 * A[p][q];
    if (!(fabs(e) > 1e-18 * (fabs(A[p][p]) + fabs(A[q][q]))) || !(e * e > 0)) return;
    double t = e / (fabs(d) + sqrt(d * d + e * e));
    if (d < 0) t = -t;
    double c = 1 / sqrt(1 + t * t), s = t * c;
    for (int k = 0; k < 3; k++) {
        double x = A[k][p], y = A[k][q];
        A[k][p] = c * x - s * y;
        A[k][q] = s * x + c * y;
    }
    for (int k = 0; k < 3; k++) {
        double x = A[p][k], y = A[q][k], u = Q[k][p], v = Q[k][q];
        A[p][k] = c * x - s * y;
        A[q][k] = s * x + c * y;
        Q[k][p] = c * u - s * v;
        Q[k][q] = s * u + c * v;
    }
    A[p][q] = A[q][p] = 0;
}

/// Negative eigenvalues of A (xx yy zz yz zx xy) become 0; seldom needed, and so one by one.
static void clamp_symmetric(double A[6]) {
    double S[3][3] = {{A[0], A[5], A[4]}, {A[5], A[1], A[3]}, {A[4], A[3], A[2]}};
    double Q[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        turn_symmetric(S, Q, 0, 1);
        turn_symmetric(S, Q, 0, 2);
        turn_symmetric(S, Q, 1, 2);
    }
    for (int k = 0; k < 6; k++) {
        A[k] = 0;
        for (int e = 0; e < 3; e++) A[k] += (S[e][e] < 0 ? 0 : S[e][e]) * Q[SYM_ROW[k]][e] * Q[SYM_COLUMN[k]][e];
    }
}

typedef double four __attribute__((vector_size(32)));
typedef int64_t four_masks __attribute__((vector_size(32)));

#define TARGET
#define NAME(x) base_##x
#define LANES 4
#define VEC four
#define MASK four_masks
#include "engine/dynamics/tets_lanes.h"
#include "engine/dynamics/tets_batch.h"

#if defined(__x86_64__) && !defined(QPC_PORTABLE_LANES)
typedef double eight __attribute__((vector_size(64)));
typedef int64_t eight_masks __attribute__((vector_size(64)));

#define TARGET __attribute__((target("avx2")))
#define NAME(x) avx2_##x
#define LANES 4
#define VEC four
#define MASK four_masks
#include "engine/dynamics/tets_lanes.h"
#include "engine/dynamics/tets_batch.h"

#define TARGET __attribute__((target("avx512f")))
#define NAME(x) avx512_##x
#define LANES 8
#define VEC eight
#define MASK eight_masks
#include "engine/dynamics/tets_lanes.h"
#include "engine/dynamics/tets_batch.h"

#define CALL(x, ...) \
    (qpc_has_avx512f() ? avx512_##x(__VA_ARGS__) : qpc_has_avx2() ? avx2_##x(__VA_ARGS__) : base_##x(__VA_ARGS__))
#else
#define CALL(x, ...) base_##x(__VA_ARGS__)
#endif

double qpc_tets_energy(const qpc_tets *tets, const double *x) { return CALL(all_energy, tets, x); }

void qpc_tets_force(const qpc_tets *tets, const double *x, double *f) { CALL(all_force, tets, x, f); }

void qpc_tets_linearise(const qpc_tets *tets, const double *x, const double *v, double dt, qpc_linsys *K, double *f,
                        double *Hv) {
    CALL(all_linearise, tets, x, v, dt, K, f, Hv);
}

void qpc_tets_stress(const qpc_tets *tets, const double *x, double *ret) { CALL(all_stress, tets, x, ret); }
