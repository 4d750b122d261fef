/// The kernels of a banded K: L D L' row by row, products and solves. No state; any thread.
///
/// Row i of the factor comes from the rows above it in the band:
///     u_j = K_ij - sum_{k<j} u_k L_jk,   L_ij = u_j / D_j,   D_i = K_ii - sum_j u_j L_ij.
/// u needs no division, so the only chain from row to row is 1/D_{i-1} -> L -> D_i -> 1/D_i.
/// Half bandwidth 5 (cables) has its loops written out; wider bands use dot products.
#include "engine/dynamics/linsys.h"

#include <stdbool.h>
#include <string.h>

enum { CABLE = 5, STRIDE5 = CABLE + 1 };

/// a'b with four partial sums in a fixed order.
static double dot(const double *a, const double *b, int32_t count) {
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    int32_t k = 0;
    for (; k + 4 <= count; k += 4) {
        s0 += a[k] * b[k];
        s1 += a[k + 1] * b[k + 1];
        s2 += a[k + 2] * b[k + 2];
        s3 += a[k + 3] * b[k + 3];
    }
    for (; k < count; k++) s0 += a[k] * b[k];
    return (s0 + s2) + (s1 + s3);
}

static bool pivot_is_good(double d) {
    return d > 0 && d <= 1.7976931348623157e308;
}

/// One row by dot products; false if the pivot is bad. out may be in.
static bool factor_row(int32_t i, int32_t w, const double *in, double *factor) {
    int64_t stride = w + 1;
    double *out = factor + (int64_t)i * stride;
    // Columns left of the first non-zero of the row stay zero.
    int32_t first = i > w ? i - w : 0;
    while (first < i && in[first - i + w] == 0) first++;
    double diagonal = in[w];
    for (int32_t k = 0; k < first - i + w; k++) out[k] = 0;
    for (int32_t j = first; j < i; j++) {
        const double *above = factor + (int64_t)j * stride;
        int32_t k0 = j - w > first ? j - w : first;
        out[j - i + w] = in[j - i + w] - dot(out + (k0 - i + w), above + (k0 - j + w), j - k0);
    }
    double taken = 0;
    for (int32_t j = first; j < i; j++) {
        double u = out[j - i + w];
        double l = u * factor[(int64_t)j * stride + w];
        taken += u * l;
        out[j - i + w] = l;
    }
    double d = diagonal - taken;
    out[w] = 1 / d;
    return pivot_is_good(d);
}

/// Half bandwidth 5, rows from 5 on: all five columns are there.
static int32_t factor_cable(int32_t n, const double *K, double *factor, int32_t from) {
    for (int32_t i = from; i < n && i < CABLE; i++)
        if (!factor_row(i, CABLE, K + (int64_t)i * STRIDE5, factor)) return i;
    for (int32_t i = from > CABLE ? from : CABLE; i < n; i++) {
        const double *in = K + (int64_t)i * STRIDE5;
        double *out = factor + (int64_t)i * STRIDE5;
        const double *r5 = out - 5 * STRIDE5, *r4 = out - 4 * STRIDE5, *r3 = out - 3 * STRIDE5,
                     *r2 = out - 2 * STRIDE5, *r1 = out - 1 * STRIDE5;
        double u5 = in[0];
        double u4 = in[1] - u5 * r4[4];
        double u3 = in[2] - u5 * r3[3] - u4 * r3[4];
        double u2 = in[3] - u5 * r2[2] - u4 * r2[3] - u3 * r2[4];
        double u1 = in[4] - u5 * r1[1] - u4 * r1[2] - u3 * r1[3] - u2 * r1[4];
        double l5 = u5 * r5[5], l4 = u4 * r4[5], l3 = u3 * r3[5], l2 = u2 * r2[5], l1 = u1 * r1[5];
        double d = in[5] - u5 * l5 - u4 * l4 - u3 * l3 - u2 * l2 - u1 * l1;
        out[0] = l5;
        out[1] = l4;
        out[2] = l3;
        out[3] = l2;
        out[4] = l1;
        out[5] = 1 / d;
        if (!pivot_is_good(d)) return i;
    }
    return -1;
}

int32_t qpc_band_factor(int32_t n, int32_t bandwidth, const double *K, double *factor,
                        int32_t from) {
    if (bandwidth == CABLE) return factor_cable(n, K, factor, from);
    for (int32_t i = from; i < n; i++)
        if (!factor_row(i, bandwidth, K + (int64_t)i * (bandwidth + 1), factor)) return i;
    return -1;
}

static void solve_cable(int32_t n, const double *factor, double *x) {
    // Forward, L y = x, the newest unknown last so that the chain is one product and one sum.
    int32_t head = n < CABLE ? n : CABLE;
    for (int32_t i = 0; i < head; i++) {
        const double *l = factor + (int64_t)i * STRIDE5 + CABLE - i;
        for (int32_t k = 0; k < i; k++) x[i] -= l[k] * x[k];
    }
    if (n <= CABLE) {
        for (int32_t i = n - 1; i >= 0; i--) {
            double v = x[i] * factor[(int64_t)i * STRIDE5 + CABLE];
            for (int32_t j = i + 1; j < n; j++)
                v -= factor[(int64_t)j * STRIDE5 + (i - j + CABLE)] * x[j];
            x[i] = v;
        }
        return;
    }
    double a = x[0], b = x[1], c = x[2], d = x[3], e = x[4]; // y_{i-5} .. y_{i-1}
    for (int32_t i = CABLE; i < n; i++) {
        const double *l = factor + (int64_t)i * STRIDE5;
        double y = ((x[i] - l[0] * a) - (l[1] * b + l[2] * c)) - l[3] * d - l[4] * e;
        x[i] = y;
        a = b;
        b = c;
        c = d;
        d = e;
        e = y;
    }
    // Backward, D L' x = y.
    a = b = c = d = e = 0; // x_{i+5} .. x_{i+1}
    for (int32_t i = n - 1; i >= 0; i--) {
        const double *l = factor + (int64_t)i * STRIDE5; // column i of L steps down by STRIDE5 - 1
        double v = x[i] * l[5];
        if (i + CABLE < n) {
            v = ((v - l[5 + 5 * CABLE] * a) - (l[5 + 4 * CABLE] * b + l[5 + 3 * CABLE] * c)) -
                l[5 + 2 * CABLE] * d - l[5 + CABLE] * e;
        } else {
            for (int32_t j = n - 1; j > i; j--) v -= l[5 + (j - i) * CABLE] * x[j];
        }
        x[i] = v;
        a = b;
        b = c;
        c = d;
        d = e;
        e = v;
    }
}

void qpc_band_solve(int32_t n, int32_t bandwidth, const double *factor, double *x) {
    if (bandwidth == CABLE) {
        solve_cable(n, factor, x);
        return;
    }
    int32_t w = bandwidth;
    int64_t stride = w + 1;
    for (int32_t i = 0; i < n; i++) {
        int32_t first = i > w ? i - w : 0;
        x[i] -= dot(factor + (int64_t)i * stride + (first - i + w), x + first, i - first);
    }
    for (int32_t i = 0; i < n; i++) x[i] *= factor[(int64_t)i * stride + w];
    for (int32_t i = n - 1; i >= 0; i--) {
        int32_t first = i > w ? i - w : 0;
        const double *l = factor + (int64_t)i * stride + (first - i + w);
        double v = x[i];
        for (int32_t k = first; k < i; k++) x[k] -= l[k - first] * v;
    }
}

/// Two right-hand sides side by side. Two pairs fit the registers of any x86-64 or arm64 with the
/// five unknowns that the band of a cable needs; wider vectors would not without AVX.
typedef double pair __attribute__((vector_size(16)));
typedef double pair_at __attribute__((vector_size(16), aligned(8), may_alias));

static inline pair band_step(pair v, double l0, double l1, double l2, double l3, double l4, pair a,
                             pair b, pair c, pair d, pair e) {
    return ((v - l0 * a) - (l1 * b + l2 * c)) - l3 * d - l4 * e;
}

static void solve_block_cable(int32_t n, const double *factor, double *x) {
    const pair zero = {0, 0};
    // y_{i-5} .. y_{i-1}, for both pairs. Left of column 0 they are zero, and so is L.
    pair a = zero, b = zero, c = zero, d = zero, e = zero;
    pair f = zero, g = zero, h = zero, p = zero, q = zero;
    for (int32_t i = 0; i < n; i++) {
        const double *l = factor + (int64_t)i * STRIDE5;
        pair_at *xi = (pair_at *)(x + (int64_t)i * 4);
        pair y = band_step(xi[0], l[0], l[1], l[2], l[3], l[4], a, b, c, d, e);
        pair z = band_step(xi[1], l[0], l[1], l[2], l[3], l[4], f, g, h, p, q);
        xi[0] = y;
        xi[1] = z;
        a = b, b = c, c = d, d = e, e = y;
        f = g, g = h, h = p, p = q, q = z;
    }
    a = b = c = d = e = f = g = h = p = q = zero; // x_{i+5} .. x_{i+1}
    for (int32_t i = n - 1; i >= 0; i--) {
        const double *l = factor + (int64_t)i * STRIDE5 + CABLE; // L_ji at l[(j - i) * CABLE]
        pair_at *xi = (pair_at *)(x + (int64_t)i * 4);
        pair y = xi[0] * l[0], z = xi[1] * l[0];
        if (i + CABLE < n) {
            y = band_step(y, l[25], l[20], l[15], l[10], l[5], a, b, c, d, e);
            z = band_step(z, l[25], l[20], l[15], l[10], l[5], f, g, h, p, q);
        } else {
            for (int32_t j = 1; i + j < n; j++) {
                y -= l[j * CABLE] * xi[2 * j];
                z -= l[j * CABLE] * xi[2 * j + 1];
            }
        }
        xi[0] = y;
        xi[1] = z;
        a = b, b = c, c = d, d = e, e = y;
        f = g, g = h, h = p, p = q, q = z;
    }
}

void qpc_band_solve_block(int32_t n, int32_t bandwidth, const double *factor, double *x) {
    if (bandwidth == CABLE) {
        solve_block_cable(n, factor, x);
        return;
    }
    int32_t w = bandwidth;
    int64_t stride = w + 1;
    pair_at *v = (pair_at *)x;
    for (int32_t i = 0; i < n; i++) {
        const double *l = factor + (int64_t)i * stride - i + w;
        pair y = v[2 * i], z = v[2 * i + 1];
        for (int32_t k = i > w ? i - w : 0; k < i; k++) {
            y -= l[k] * v[2 * k];
            z -= l[k] * v[2 * k + 1];
        }
        v[2 * i] = y;
        v[2 * i + 1] = z;
    }
    for (int32_t i = 0; i < n; i++) {
        v[2 * i] *= factor[(int64_t)i * stride + w];
        v[2 * i + 1] *= factor[(int64_t)i * stride + w];
    }
    for (int32_t i = n - 1; i >= 0; i--) {
        const double *l = factor + (int64_t)i * stride - i + w;
        pair y = v[2 * i], z = v[2 * i + 1];
        for (int32_t k = i > w ? i - w : 0; k < i; k++) {
            v[2 * k] -= l[k] * y;
            v[2 * k + 1] -= l[k] * z;
        }
    }
}

void qpc_band_multiply(int32_t n, int32_t bandwidth, const double *K, const double *x, double *y) {
    int32_t w = bandwidth;
    int64_t stride = w + 1;
    if (w == CABLE) {
        // y_{i-5} .. y_{i-1} so far, in registers; a place left of column 0 is zero.
        double a = 0, b = 0, c = 0, d = 0, e = 0, before[CABLE] = {0};
        for (int32_t i = 0; i < n; i++) {
            const double *row = K + (int64_t)i * STRIDE5;
            const double *xk = x + i - CABLE;
            double xi = x[i], sum;
            if (i < CABLE) {
                sum = row[5] * xi;
                for (int32_t k = 0; k < i; k++) sum += row[k - i + CABLE] * x[k];
            } else {
                sum = ((row[0] * xk[0] + row[1] * xk[1]) + (row[2] * xk[2] + row[3] * xk[3])) +
                      (row[4] * xk[4] + row[5] * xi);
                y[i - CABLE] = a + row[0] * xi;
            }
            a = b + row[1] * xi;
            b = c + row[2] * xi;
            c = d + row[3] * xi;
            d = e + row[4] * xi;
            e = sum;
        }
        before[0] = a;
        before[1] = b;
        before[2] = c;
        before[3] = d;
        before[4] = e;
        int32_t last = n < CABLE ? n : CABLE;
        for (int32_t k = 0; k < last; k++) y[n - last + k] = before[CABLE - last + k];
        return;
    }
    for (int32_t i = 0; i < n; i++) y[i] = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t first = i > w ? i - w : 0;
        const double *row = K + (int64_t)i * stride - i + w;
        double xi = x[i], sum = 0;
        for (int32_t k = first; k < i; k++) {
            sum += row[k] * x[k];
            y[k] += row[k] * xi;
        }
        y[i] += sum + row[i] * xi;
    }
}
