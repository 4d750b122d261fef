/// Binary tree of boxes over numbered items (triangles): built once by the surface-area heuristic,
/// refitted when items move, asked which items may touch a box.
///
/// Boxes are floats relative to an origin of the caller's, rounded outward, so that nothing that
/// overlaps in exact numbers is missed. Queries do not change the tree: any number of threads.
#ifndef QPC_ENGINE_COLLISION_BVH_H
#define QPC_ENGINE_COLLISION_BVH_H

#include "base/array.h"
#include "base/status.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

typedef struct qpc_fbox { // the fourth numbers are 0, so that four are compared at once
    float lo[4], hi[4];
} qpc_fbox;

static inline bool qpc_fbox_overlap(const qpc_fbox *a, const qpc_fbox *b) {
#ifdef __SSE2__
    __m128 below = _mm_cmple_ps(_mm_loadu_ps(a->lo), _mm_loadu_ps(b->hi));
    __m128 above = _mm_cmple_ps(_mm_loadu_ps(b->lo), _mm_loadu_ps(a->hi));
    return _mm_movemask_ps(_mm_and_ps(below, above)) == 15;
#else
    return (a->lo[0] <= b->hi[0]) & (b->lo[0] <= a->hi[0]) & (a->lo[1] <= b->hi[1]) &
           (b->lo[1] <= a->hi[1]) & (a->lo[2] <= b->hi[2]) & (b->lo[2] <= a->hi[2]);
#endif
}
/// The float box around [lo, hi] - origin; monotonic: a wider box gives one that contains it.
static inline qpc_fbox qpc_fbox_around(const double lo[3], const double hi[3],
                                       const double origin[3]) {
    qpc_fbox b = {{0}, {0}};
    for (int d = 0; d < 3; d++) {
        // 2^-22 is more than two float roundings; the last term covers subnormals.
        double l = lo[d] - origin[d], h = hi[d] - origin[d];
        b.lo[d] = (float)(l - fabs(l) * 0x1p-22 - 0x1p-126);
        b.hi[d] = (float)(h + fabs(h) * 0x1p-22 + 0x1p-126);
    }
    return b;
}

typedef struct qpc_bvh qpc_bvh;
typedef QPC_ARRAY(int32_t) qpc_items;

qpc_status qpc_bvh_build(const qpc_fbox *boxes, int32_t count, qpc_bvh **ret, qpc_error *err);
void qpc_bvh_destroy(qpc_bvh *bvh);
/// Same items, moved.
void qpc_bvh_refit(qpc_bvh *bvh, const qpc_fbox *boxes);
/// Append the items whose box overlaps; QPC_ERR_MEMORY. boxes as last built or refitted with.
qpc_status qpc_bvh_query(const qpc_bvh *bvh, const qpc_fbox *boxes, const qpc_fbox *box,
                         qpc_items *ret, uint64_t *box_tests);
/// Linear-time check that parents contain children and each item is in one leaf.
bool qpc_bvh_check(const qpc_bvh *bvh, const qpc_fbox *boxes);

#endif
