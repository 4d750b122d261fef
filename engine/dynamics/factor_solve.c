/// Kernels of factor_solve.h and their choice by the processor, once a call. Runs on the worker in
/// the world; no state.
#include "engine/dynamics/factor_solve.h"

#include "base/cpu.h"

#include <stdbool.h>

typedef double two __attribute__((vector_size(16), aligned(8), may_alias));
typedef double four __attribute__((vector_size(32), aligned(8), may_alias));
typedef double eight __attribute__((vector_size(64), aligned(8), may_alias));
enum { PANEL = 8 }; // columns of a triangle done together

#define TARGET
#define NAME(x) base_##x
#define V two
#define PARTS 4
#define ROWS 2
#include "engine/dynamics/factor_lanes.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#define NAME(x) avx2_##x
#define V four
#define PARTS 2
#define ROWS 4
#include "engine/dynamics/factor_lanes.h"

#define TARGET __attribute__((target("avx512f")))
#define NAME(x) avx512_##x
#define V eight
#define PARTS 1
#define ROWS 8
#include "engine/dynamics/factor_lanes.h"
#endif

// ---- L by columns ----

static void columns_solve(const qpc_supernodes *L, double *x) {
    for (int32_t j = 0; j < L->n; j++) {
        if (x[j] == 0) continue;
        const int32_t *row = L->row + L->row_start[j];
        const double *l = L->value + L->row_start[j];
        double t = x[j] / l[0];
        x[j] = t;
        for (int32_t k = 1; k < L->row_count[j]; k++) x[row[k]] -= l[k] * t;
    }
    for (int32_t j = L->n - 1; j >= 0; j--) {
        const int32_t *row = L->row + L->row_start[j];
        const double *l = L->value + L->row_start[j];
        double t = x[j];
        for (int32_t k = 1; k < L->row_count[j]; k++) t -= l[k] * x[row[k]];
        x[j] = t / l[0];
    }
}

static void columns_solve_lanes(const qpc_supernodes *L, double *values) {
    two *x = (two *)values;
    for (int32_t j = 0; j < L->n; j++) {
        const int32_t *row = L->row + L->row_start[j];
        const double *l = L->value + L->row_start[j];
        two *t = x + 4 * (int64_t)j;
        bool zero = true;
        for (int32_t k = 0; k < QPC_FACTOR_LANES && zero; k++)
            zero = values[QPC_FACTOR_LANES * (int64_t)j + k] == 0;
        if (zero) continue;
        two a = t[0] / l[0], b = t[1] / l[0], c = t[2] / l[0], d = t[3] / l[0];
        t[0] = a, t[1] = b, t[2] = c, t[3] = d;
        for (int32_t k = 1; k < L->row_count[j]; k++) {
            two *y = x + 4 * (int64_t)row[k];
            y[0] -= l[k] * a, y[1] -= l[k] * b, y[2] -= l[k] * c, y[3] -= l[k] * d;
        }
    }
    for (int32_t j = L->n - 1; j >= 0; j--) {
        const int32_t *row = L->row + L->row_start[j];
        const double *l = L->value + L->row_start[j];
        two *t = x + 4 * (int64_t)j, a = t[0], b = t[1], c = t[2], d = t[3];
        for (int32_t k = 1; k < L->row_count[j]; k++) {
            const two *y = x + 4 * (int64_t)row[k];
            a -= l[k] * y[0], b -= l[k] * y[1], c -= l[k] * y[2], d -= l[k] * y[3];
        }
        t[0] = a / l[0], t[1] = b / l[0], t[2] = c / l[0], t[3] = d / l[0];
    }
}

qpc_factor_width qpc_factor_widest(void) {
#if defined(__x86_64__)
    if (qpc_has_avx512f()) return QPC_FACTOR_AVX512;
    if (qpc_has_avx2()) return QPC_FACTOR_AVX2;
#endif
    return QPC_FACTOR_BASE;
}

void qpc_supernodes_solve(const qpc_supernodes *L, qpc_factor_width width, double *x,
                          double *below) {
    if (L->count == 0) {
        columns_solve(L, x);
        return;
    }
    switch (width) {
#if defined(__x86_64__)
    case QPC_FACTOR_AVX512:
        avx512_forward1(L, x, below);
        avx512_backward1(L, x, below);
        return;
    case QPC_FACTOR_AVX2:
        avx2_forward1(L, x, below);
        avx2_backward1(L, x, below);
        return;
#endif
    default:
        base_forward1(L, x, below);
        base_backward1(L, x, below);
    }
}

void qpc_supernodes_solve_lanes(const qpc_supernodes *L, qpc_factor_width width, double *x) {
    if (L->count == 0) {
        columns_solve_lanes(L, x);
        return;
    }
    switch (width) {
#if defined(__x86_64__)
    case QPC_FACTOR_AVX512:
        avx512_forward8(L, x);
        avx512_backward8(L, x);
        return;
    case QPC_FACTOR_AVX2:
        avx2_forward8(L, x);
        avx2_backward8(L, x);
        return;
#endif
    default:
        base_forward8(L, x);
        base_backward8(L, x);
    }
}
