/// Tetrahedra: energy, forces, and the clamped Jacobian of K and b, four elements at a time. No state; any thread.
///
/// Up to four elements of one material that follow each other are gathered into lanes, computed, and added to the nodes
/// one after the other: sums have the order of the elements.
#include "engine/dynamics/tets.h"

#include "base/cpu.h"

#include <math.h>
#include <string.h>

enum { LANES = 4, SWEEPS = 12 };
static const double ORTHOGONAL = 1e-15; // cosine of columns that count as orthogonal
static const double NEEDLE = 1e-12;     // s2 / s1 below which U has no second direction
static const double TWIST_FLOOR = 1e-2; // least s_i + s_j in the stiffness against turning (TS6)

typedef double four __attribute__((vector_size(32)));
typedef int64_t mask __attribute__((vector_size(32)));
#define PICK(m, a, b) ((four)(((mask)(a) & (m)) | ((mask)(b) & ~(m))))

typedef struct tet_batch {
    four F[9], g[9]; // B of each: gradients of the hat functions of nodes 1 to 3
    four volume, mu, lambda;
    int32_t material, count, first;
} tet_batch;

/// Collapsed into a line or a point, s2 is as good as 0: any second direction across the first serves.
static void complete_frame(four U[9], four s[3], int lane) {
    double a[3] = {1, 0, 0}, b[3];
    int least = 0;
    if (s[0][lane] > 0)
        for (int k = 0; k < 3; k++) a[k] = U[3 * k][lane];
    for (int k = 1; k < 3; k++)
        if (fabs(a[k]) < fabs(a[least])) least = k;
    for (int k = 0; k < 3; k++) b[k] = (k == least) - a[least] * a[k];
    double norm = sqrt(b[0] * b[0] + b[1] * b[1] + b[2] * b[2]);
    for (int k = 0; k < 3; k++) {
        U[3 * k][lane] = a[k];
        U[3 * k + 1][lane] = b[k] / norm;
    }
    s[1][lane] = 0;
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
static void clamp_symmetric(four A[6], int lane) {
    double S[3][3] = {{A[0][lane], A[5][lane], A[4][lane]},
                      {A[5][lane], A[1][lane], A[3][lane]},
                      {A[4][lane], A[3][lane], A[2][lane]}};
    double Q[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        turn_symmetric(S, Q, 0, 1);
        turn_symmetric(S, Q, 0, 2);
        turn_symmetric(S, Q, 1, 2);
    }
    static const int ROW[6] = {0, 1, 2, 1, 2, 0}, COLUMN[6] = {0, 1, 2, 2, 0, 1};
    for (int k = 0; k < 6; k++) {
        double sum = 0;
        for (int e = 0; e < 3; e++) sum += (S[e][e] < 0 ? 0 : S[e][e]) * Q[ROW[k]][e] * Q[COLUMN[k]][e];
        A[k][lane] = sum;
    }
}

#define TARGET
#define NAME(x) base_##x
#include "engine/dynamics/tets_lanes.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#define NAME(x) avx2_##x
#include "engine/dynamics/tets_lanes.h"
#define CALL(x, ...) (qpc_has_avx2() ? avx2_##x(__VA_ARGS__) : base_##x(__VA_ARGS__))
#else
#define CALL(x, ...) base_##x(__VA_ARGS__)
#endif

// ---- in and out of lanes ----

/// The elements from `first` on that make up a batch; lanes that are left over repeat the last one.
static void gather(const qpc_tets *tets, const double *x, int32_t first, tet_batch *t) {
    t->first = first;
    t->material = tets->material[first];
    t->count = 1;
    while (t->count < LANES && first + t->count < tets->count && tets->material[first + t->count] == t->material)
        t->count++;
    for (int l = 0; l < LANES; l++) {
        int32_t e = first + (l < t->count ? l : t->count - 1);
        const int32_t *node = tets->node + 4 * (int64_t)e;
        const double *B = tets->inverse + 9 * (int64_t)e, *o = x + 3 * (int64_t)node[0];
        double d[3][3];
        for (int k = 0; k < 3; k++)
            for (int r = 0; r < 3; r++) d[k][r] = x[3 * (int64_t)node[k + 1] + r] - o[r];
        for (int r = 0; r < 3; r++)
            for (int c = 0; c < 3; c++) t->F[3 * r + c][l] = d[0][r] * B[c] + d[1][r] * B[3 + c] + d[2][r] * B[6 + c];
        for (int k = 0; k < 9; k++) t->g[k][l] = B[k];
        t->volume[l] = tets->volume[e];
        t->mu[l] = tets->mu[e];
        t->lambda[l] = tets->lambda[e];
    }
}

/// to (3 n) += (nodes 1 to 3 by three) of each lane, minus their sum at node 0.
static void scatter(const qpc_tets *tets, const tet_batch *t, const four part[9], double *to) {
    for (int l = 0; l < t->count; l++) {
        const int32_t *node = tets->node + 4 * (int64_t)(t->first + l);
        double *o = to + 3 * (int64_t)node[0];
        for (int r = 0; r < 3; r++) o[r] -= part[r][l] + part[3 + r][l] + part[6 + r][l];
        for (int k = 0; k < 3; k++)
            for (int r = 0; r < 3; r++) to[3 * (int64_t)node[k + 1] + r] += part[3 * k + r][l];
    }
}

/// Hv of nodes 1 to 3; those of all four sum to zero.
static void multiply(const qpc_tets *tets, const tet_batch *t, four H[10][9], const double *v, four part[9]) {
    static const int BLOCK[3][3] = {{1, 7, 8}, {7, 2, 9}, {8, 9, 3}};
    four d[9];
    for (int l = 0; l < LANES; l++) {
        const int32_t *node = tets->node + 4 * (int64_t)(t->first + (l < t->count ? l : t->count - 1));
        for (int k = 0; k < 3; k++)
            for (int r = 0; r < 3; r++) d[3 * k + r][l] = v[3 * (int64_t)node[k + 1] + r] - v[3 * (int64_t)node[0] + r];
    }
    for (int i = 0; i < 3; i++)
        for (int r = 0; r < 3; r++) {
            four sum = {0};
            for (int j = 0; j < 3; j++) {
                const four *h = H[BLOCK[i][j]] + (i <= j ? 3 * r : r);
                int step = i <= j ? 1 : 3;
                for (int c = 0; c < 3; c++) sum += h[c * step] * d[3 * j + c];
            }
            part[3 * i + r] = sum;
        }
}

/// The lower triangle by columns: diagonal blocks, then edges, transposed where the first node is the higher one.
static void add_to_columns(const qpc_tets *tets, const tet_batch *t, four H[10][9], qpc_linsys *K) {
    static const int EDGES[6][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
    for (int l = 0; l < t->count; l++) {
        const int32_t *node = tets->node + 4 * (int64_t)(t->first + l), *place = tets->place + 6 * (int64_t)(t->first + l);
        double *column[4][3]; // below the diagonal block
        for (int a = 0; a < 4; a++)
            for (int b = 0; b < 3; b++) {
                double *at = K->value + K->start[3 * (int64_t)node[a] + b];
                for (int r = b; r < 3; r++) at[r - b] += H[a][3 * r + b][l];
                column[a][b] = at + (3 - b);
            }
        for (int e = 0; e < 6; e++) {
            int a = EDGES[e][0], b = EDGES[e][1];
            const four *h = H[4 + e];
            bool upper = node[a] < node[b]; // the stored block is (b, a)
            for (int c = 0; c < 3; c++) {
                double *at = column[upper ? a : b][c] + place[e];
                for (int r = 0; r < 3; r++) at[r] += upper ? h[3 * c + r][l] : h[3 * r + c][l];
            }
        }
    }
}

// ---- all elements ----

double qpc_tets_energy(const qpc_tets *tets, const double *x) {
    double sum = 0;
    tet_batch t;
    four part;
    for (int32_t e = 0; e < tets->count; e += t.count) {
        gather(tets, x, e, &t);
        CALL(energy, &t, &part);
        for (int l = 0; l < t.count; l++) sum += part[l];
    }
    return sum;
}

void qpc_tets_force(const qpc_tets *tets, const double *x, double *f) {
    tet_batch t;
    four P[9], part[9];
    for (int32_t e = 0; e < tets->count; e += t.count) {
        gather(tets, x, e, &t);
        CALL(stress, &t, P);
        for (int k = 0; k < 9; k += 3)
            for (int r = 0; r < 3; r++)
                part[k + r] = -(P[3 * r] * t.g[k] + P[3 * r + 1] * t.g[k + 1] + P[3 * r + 2] * t.g[k + 2]);
        scatter(tets, &t, part, f);
    }
}

void qpc_tets_linearise(const qpc_tets *tets, const double *x, const double *v, double dt, qpc_linsys *K, double *f,
                        double *Hv) {
    double dt2 = dt * dt;
    tet_batch t;
    four part[9], H[10][9];
    for (int32_t e = 0; e < tets->count; e += t.count) {
        gather(tets, x, e, &t);
        CALL(linearise, &t, part, H);
        if (f != NULL) scatter(tets, &t, part, f);
        if (Hv != NULL) {
            multiply(tets, &t, H, v, part);
            scatter(tets, &t, part, Hv);
        }
        if (K == NULL) continue;
        for (int b = 0; b < 10; b++)
            for (int k = 0; k < 9; k++) H[b][k] *= dt2;
        add_to_columns(tets, &t, H, K);
    }
}

void qpc_tets_stress(const qpc_tets *tets, const double *x, double *ret) {
    static const int ROW[6] = {0, 1, 2, 0, 1, 2}, COLUMN[6] = {0, 1, 2, 1, 2, 0};
    tet_batch t;
    four P[9];
    for (int32_t e = 0; e < tets->count; e += t.count) {
        gather(tets, x, e, &t);
        CALL(stress, &t, P);
        const four *F = t.F;
        four J = F[0] * (F[4] * F[8] - F[5] * F[7]) - F[1] * (F[3] * F[8] - F[5] * F[6]) +
                 F[2] * (F[3] * F[7] - F[4] * F[6]);
        for (int k = 0; k < 6; k++) {
            const four *p = P + 3 * ROW[k], *q = F + 3 * COLUMN[k];
            four value = (p[0] * q[0] + p[1] * q[1] + p[2] * q[2]) / (J * t.volume);
            for (int l = 0; l < t.count; l++) ret[6 * (int64_t)(e + l) + k] = value[l];
        }
    }
}
