/// Batch filter in front of the narrow phase: eight pairs at a time, each tried against fixed
/// directions: the axes; the normal, the centre and its part across the normal at mid step; and
/// then, unless all are apart by now, the sides and the centre across the mean motion. A pair that
/// one direction separates by more than s at both ends of the step is proven apart for the whole
/// step, rounding included, since points move linearly (docs/theory-ccd.md, T-ccd2 and T-ccd8).
/// Most pairs that a broad phase leaves are, so that ccd sees few of them.
///
/// The same source is compiled for one, two, four and eight lanes; each width does the same
/// operations in the same order and gives the same bits. Any thread; takes no memory.
#ifndef QPC_ENGINE_COLLISION_FILTER_H
#define QPC_ENGINE_COLLISION_FILTER_H

#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { QPC_FILTER_LANES = 8 };

/// Eight pairs, each a lane. Points as for ccd. VT: vertex, a, b, c. EE: a0, a1, b0, b1.
typedef struct qpc_filter_block {
    _Alignas(64) double x0[4][3][QPC_FILTER_LANES]; // [point][x, y, z][lane] at t = 0
    double x1[4][3][QPC_FILTER_LANES];              // at t = 1
    double s[QPC_FILTER_LANES];                     // separation >= 0, m
} qpc_filter_block;                                 // 1600 bytes

/// Widths of the compiled variants, narrowest first.
typedef enum qpc_filter_width {
    QPC_FILTER_SCALAR, // one lane
    QPC_FILTER_BASE,   // two: SSE2, x86-64 only, as are the next
    QPC_FILTER_AVX2,   // four
    QPC_FILTER_AVX512, // eight
    QPC_FILTER_WIDTHS
} qpc_filter_width;

/// Whether this machine runs a variant; the widest it runs; a name.
bool qpc_filter_runs(qpc_filter_width width);
qpc_filter_width qpc_filter_widest(void);
const char *qpc_filter_name(qpc_filter_width width);

/// count pairs in blocks of eight (the last may be partly filled; what its other lanes hold does
/// not matter, but they must be initialised). Bit i of ret_open[b] is set when pair 8 b + i is NOT
/// proven apart; bits past count are 0. A bit that is not set is a proof that the distance stays
/// above s for all t in [0, 1]. Numbers that are not finite, or beyond 1e60, leave the bit set.
void qpc_filter_vt(const qpc_filter_block *blocks, int32_t count, uint8_t *ret_open);
void qpc_filter_ee(const qpc_filter_block *blocks, int32_t count, uint8_t *ret_open);

/// The same by one variant, which must run here: for tests and benchmarks.
void qpc_filter_vt_by(qpc_filter_width width, const qpc_filter_block *blocks, int32_t count,
                      uint8_t *ret_open);
void qpc_filter_ee_by(qpc_filter_width width, const qpc_filter_block *blocks, int32_t count,
                      uint8_t *ret_open);

/// Writes one pair into a lane.
void qpc_filter_put(qpc_filter_block *block, int lane, const qpc_vec3 x0[4], const qpc_vec3 x1[4],
                    double s);

/// The same with points from arrays of positions, three doubles a node.
static inline void qpc_filter_put_nodes(qpc_filter_block *block, int lane, const double *x0,
                                        const double *x1, const int32_t node[4], double s) {
    for (int k = 0; k < 4; k++) {
        const double *p = x0 + 3 * (ptrdiff_t)node[k], *q = x1 + 3 * (ptrdiff_t)node[k];
        for (int d = 0; d < 3; d++) {
            block->x0[k][d][lane] = p[d];
            block->x1[k][d][lane] = q[d];
        }
    }
    block->s[lane] = s;
}

/// Fills blocks from arrays of positions, three doubles a node, the nodes of pair i being
/// nodes[4 i] to nodes[4 i + 3], all with separation s. Lanes past count repeat the last pair.
/// Needs (count + 7) / 8 blocks.
void qpc_filter_gather(const double *x0, const double *x1, const int32_t *nodes, int32_t count,
                       double s, qpc_filter_block *ret_blocks);

#endif
