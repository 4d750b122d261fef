/// Dispatch of the batch filter and its widths; filter_lanes.h holds the arithmetic, filter.h what
/// it promises. Variants are chosen by the processor, once a call. Compiled with -ffp-contract=off
/// (meson.build): a fused multiply-add in one width and not in another would give different bits.
#include "engine/collision/filter.h"

#include "base/cpu.h"

#include <float.h>
#include <stddef.h>
#include <string.h>

#define UNIT (DBL_EPSILON / 2)
#define INLINE_FOR(isa) __attribute__((target(isa)))

#define WIDTH 1
#define V double
#define TARGET
#define NAME(x) scalar_##x
#define MIN(a, b) scalar_min(a, b)
#define MAX(a, b) scalar_max(a, b)
#define ABOVE(a, b) ((unsigned)((a) > (b)))
#define SPREAD(c) ((double)(c))
static inline double scalar_min(double a, double b) {
    return a < b ? a : b;
}
static inline double scalar_max(double a, double b) {
    return a > b ? a : b;
}
#include "engine/collision/filter_lanes.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define WIDTH 2
#define V __m128d
#define TARGET
#define NAME(x) base_##x
#define MIN(a, b) _mm_min_pd(a, b)
#define MAX(a, b) _mm_max_pd(a, b)
#define ABOVE(a, b) ((unsigned)_mm_movemask_pd(_mm_cmpgt_pd(a, b)))
#define SPREAD(c) _mm_set1_pd(c)
#include "engine/collision/filter_lanes.h"

#define WIDTH 4
#define V __m256d
#define TARGET INLINE_FOR("avx2")
#define NAME(x) avx2_##x
#define MIN(a, b) _mm256_min_pd(a, b)
#define MAX(a, b) _mm256_max_pd(a, b)
#define ABOVE(a, b) ((unsigned)_mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_GT_OQ)))
#define SPREAD(c) _mm256_set1_pd(c)
#include "engine/collision/filter_lanes.h"

#define WIDTH 8
#define V __m512d
#define TARGET INLINE_FOR("avx512f")
#define NAME(x) avx512_##x
#define MIN(a, b) _mm512_min_pd(a, b)
#define MAX(a, b) _mm512_max_pd(a, b)
#define ABOVE(a, b) ((unsigned)_mm512_cmp_pd_mask(a, b, _CMP_GT_OQ))
#define SPREAD(c) _mm512_set1_pd(c)
#include "engine/collision/filter_lanes.h"
#endif

bool qpc_filter_runs(qpc_filter_width width) {
    switch (width) {
    case QPC_FILTER_SCALAR:
        return true;
#if defined(__x86_64__)
    case QPC_FILTER_BASE:
        return true;
    case QPC_FILTER_AVX2:
        return __builtin_cpu_supports("avx2") != 0;
    case QPC_FILTER_AVX512:
        return __builtin_cpu_supports("avx512f") != 0;
#endif
    default:
        return false;
    }
}

qpc_filter_width qpc_filter_widest(void) {
    int width = QPC_FILTER_WIDTHS - 1;
    while (!qpc_filter_runs((qpc_filter_width)width)) width--;
    return (qpc_filter_width)width;
}

const char *qpc_filter_name(qpc_filter_width width) {
    static const char *const names[QPC_FILTER_WIDTHS] = {"scalar", "base", "avx2", "avx512"};
    return width >= 0 && width < QPC_FILTER_WIDTHS ? names[width] : "none";
}

/// Bits past the end of the last block do not count.
static void clear_tail(int32_t count, uint8_t *open) {
    if (count % QPC_FILTER_LANES != 0)
        open[count / QPC_FILTER_LANES] &= (uint8_t)((1u << count % QPC_FILTER_LANES) - 1);
}

void qpc_filter_vt_by(qpc_filter_width width, const qpc_filter_block *blocks, int32_t count,
                      uint8_t *ret_open) {
    int32_t n = count / QPC_FILTER_LANES + (count % QPC_FILTER_LANES != 0);
    switch (width) {
#if defined(__x86_64__)
    case QPC_FILTER_BASE:
        base_vt(blocks, n, ret_open);
        break;
    case QPC_FILTER_AVX2:
        avx2_vt(blocks, n, ret_open);
        break;
    case QPC_FILTER_AVX512:
        avx512_vt(blocks, n, ret_open);
        break;
#endif
    default:
        scalar_vt(blocks, n, ret_open);
        break;
    }
    clear_tail(count, ret_open);
}

void qpc_filter_ee_by(qpc_filter_width width, const qpc_filter_block *blocks, int32_t count,
                      uint8_t *ret_open) {
    int32_t n = count / QPC_FILTER_LANES + (count % QPC_FILTER_LANES != 0);
    switch (width) {
#if defined(__x86_64__)
    case QPC_FILTER_BASE:
        base_ee(blocks, n, ret_open);
        break;
    case QPC_FILTER_AVX2:
        avx2_ee(blocks, n, ret_open);
        break;
    case QPC_FILTER_AVX512:
        avx512_ee(blocks, n, ret_open);
        break;
#endif
    default:
        scalar_ee(blocks, n, ret_open);
        break;
    }
    clear_tail(count, ret_open);
}

void qpc_filter_vt(const qpc_filter_block *blocks, int32_t count, uint8_t *ret_open) {
    qpc_filter_vt_by(qpc_filter_widest(), blocks, count, ret_open);
}

void qpc_filter_ee(const qpc_filter_block *blocks, int32_t count, uint8_t *ret_open) {
    qpc_filter_ee_by(qpc_filter_widest(), blocks, count, ret_open);
}

void qpc_filter_put(qpc_filter_block *block, int lane, const qpc_vec3 x0[4], const qpc_vec3 x1[4],
                    double s) {
    for (int k = 0; k < 4; k++) {
        block->x0[k][0][lane] = x0[k].x;
        block->x0[k][1][lane] = x0[k].y;
        block->x0[k][2][lane] = x0[k].z;
        block->x1[k][0][lane] = x1[k].x;
        block->x1[k][1][lane] = x1[k].y;
        block->x1[k][2][lane] = x1[k].z;
    }
    block->s[lane] = s;
}

void qpc_filter_gather(const double *x0, const double *x1, const int32_t *nodes, int32_t count,
                       double s, qpc_filter_block *ret_blocks) {
    for (int32_t i = 0; i < count; i += QPC_FILTER_LANES) {
        qpc_filter_block *block = &ret_blocks[i / QPC_FILTER_LANES];
        for (int lane = 0; lane < QPC_FILTER_LANES; lane++) {
            const int32_t *node = nodes + 4 * (ptrdiff_t)(i + lane < count ? i + lane : count - 1);
            qpc_filter_put_nodes(block, lane, x0, x1, node, s);
        }
    }
}
