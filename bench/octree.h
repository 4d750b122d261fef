/// A loose octree without pointers, for comparison with the trees of the broad phase: cells twice
/// as wide as they are apart, each item in the smallest cell whose spacing is at least its extent,
/// cells in Morton order with the number of the next cell outside (so a query needs no stack).
/// Built anew each step by a radix sort, which is linear.
#ifndef QPC_BENCH_OCTREE_H
#define QPC_BENCH_OCTREE_H

#include "engine/collision/bvh.h"

typedef struct octree octree;

octree *octree_create(int32_t count); // items; NULL: out of memory
void octree_destroy(octree *tree);
/// boxes stay the caller's, until the next build.
bool octree_build(octree *tree, const qpc_fbox *boxes);
/// Append the items whose boxes touch; false: out of memory.
bool octree_query(const octree *tree, const qpc_fbox *box, qpc_items *ret, uint64_t *box_tests);

#endif
