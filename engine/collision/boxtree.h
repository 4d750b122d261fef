/// Tree of boxes whose shape depends on the number of items alone: a heap of nodes over leaves of
/// four. Made for many items that all move: no pointers to follow, siblings side by side, refitted
/// by one sweep from the end, walked against itself or another tree.
///
///     node 1 is the root, i has the children 2 i and 2 i + 1, leaf l is node leaf_count + l
///     leaf l holds the items of slots 4 l .. 4 l + 3; all are full but for the last of the build
///
/// The caller owns the boxes of items and says which item is in which slot (build); it fills the
/// leaves when items have moved and then calls fit. Walking changes nothing: any number of threads.
/// (bvh.h is the tree for few queries on a mesh that stands still: splits by cost, not by count.)
#ifndef QPC_ENGINE_COLLISION_BOXTREE_H
#define QPC_ENGINE_COLLISION_BOXTREE_H

#include "base/status.h"
#include "engine/collision/bvh.h"
#include "engine/collision/lanes.h"

enum { QPC_BOX_LANES = 4 };

typedef struct qpc_box_leaf { // four boxes side by side
    float lo[3][QPC_BOX_LANES], hi[3][QPC_BOX_LANES];
} qpc_box_leaf;

typedef struct qpc_boxtree {
    int32_t count, leaf_count;
    qpc_fbox *node;     // (2 leaf_count)
    qpc_box_leaf *leaf; // (leaf_count)
    double area;        // summed surface of the inner nodes at the last fit, m^2; see there
    double built_area;  // the same after the build, < 0: not yet measured; for the caller
} qpc_boxtree;

/// An item and the centre of its box, for the build.
typedef struct qpc_box_centre {
    float c[3];
    int32_t item;
} qpc_box_centre;

/// A box that touches none and adds nothing to a sum of boxes.
static inline qpc_fbox qpc_fbox_empty(void) {
    return (qpc_fbox){{INFINITY, INFINITY, INFINITY, 0}, {-INFINITY, -INFINITY, -INFINITY, 0}};
}

/// Memory for count >= 1 items. A zeroed tree can be finished too.
qpc_status qpc_boxtree_init(qpc_boxtree *tree, int32_t count, qpc_error *err);
void qpc_boxtree_fini(qpc_boxtree *tree);
size_t qpc_boxtree_bytes(const qpc_boxtree *tree);

/// Room for the centres of all items, lent by the tree: what the leaves hold is lost.
qpc_box_centre *qpc_boxtree_centres(qpc_boxtree *tree);
/// Sort the centres into leaves: item[slot] is the item of a slot, or -1. Depends on the centres
/// alone. Takes n log n; leaves and nodes must be filled again.
void qpc_boxtree_build(qpc_boxtree *tree, int32_t *item);

/// Four boxes into a leaf.
void qpc_boxtree_set_leaf(qpc_boxtree *tree, int32_t leaf, const qpc_fbox box[QPC_BOX_LANES]);
/// Inner nodes from the leaves, and their area as if boxes were smaller by grow on every side.
void qpc_boxtree_fit(qpc_boxtree *tree, double grow);
/// Parents contain children and leaves what is in them.
bool qpc_boxtree_check(const qpc_boxtree *tree);

#endif
