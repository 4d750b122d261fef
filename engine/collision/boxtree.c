/// Heap-shaped tree of boxes; see boxtree.h.
///
/// The build cuts the items at the leaf count that the heap wants on the left, along the axis on
/// which their centres are spread most, by selection (expected n a level).
#include "engine/collision/boxtree.h"

#include "base/mem.h"

#include <string.h>

qpc_status qpc_boxtree_init(qpc_boxtree *tree, int32_t count, qpc_error *err) {
    QPC_ASSERT(count >= 1);
    *tree = (qpc_boxtree){.count = count, .built_area = -1};
    tree->leaf_count = (int32_t)(((int64_t)count + QPC_BOX_LANES - 1) / QPC_BOX_LANES);
    tree->node = qpc_alloc_array(2 * (size_t)tree->leaf_count, sizeof *tree->node);
    tree->leaf = qpc_alloc_array((size_t)tree->leaf_count, sizeof *tree->leaf);
    if (tree->node == NULL || tree->leaf == NULL) {
        qpc_boxtree_fini(tree);
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a tree of %d boxes", (int)count);
    }
    return QPC_OK;
}

void qpc_boxtree_fini(qpc_boxtree *tree) {
    qpc_free(tree->node);
    qpc_free(tree->leaf);
    *tree = (qpc_boxtree){0};
}

size_t qpc_boxtree_bytes(const qpc_boxtree *tree) {
    return (size_t)tree->leaf_count * (2 * sizeof *tree->node + sizeof *tree->leaf);
}

// ---- build ----

qpc_box_centre *qpc_boxtree_centres(qpc_boxtree *tree) {
    _Static_assert(sizeof(qpc_box_leaf) >= QPC_BOX_LANES * sizeof(qpc_box_centre), "centres fit");
    void *room = tree->leaf;
    return room;
}

static void swap(qpc_box_centre *a, qpc_box_centre *b) {
    qpc_box_centre t = *a;
    *a = *b;
    *b = t;
}

/// Reorder so that no key among the first `left` is above one of the others.
static void select_low(qpc_box_centre *r, int32_t count, int32_t left, int axis) {
    int32_t low = 0, high = count - 1;
    while (high > low) {
        // Pivot: the middle of three; equal keys are spread over both sides.
        int32_t mid = low + (high - low) / 2;
        if (r[mid].c[axis] < r[low].c[axis]) swap(&r[mid], &r[low]);
        if (r[high].c[axis] < r[low].c[axis]) swap(&r[high], &r[low]);
        if (r[high].c[axis] < r[mid].c[axis]) swap(&r[high], &r[mid]);
        float pivot = r[mid].c[axis];
        int32_t i = low, j = high;
        while (i <= j) {
            while (r[i].c[axis] < pivot) i++;
            while (r[j].c[axis] > pivot) j--;
            if (i > j) break;
            swap(&r[i++], &r[j--]);
        }
        if (left <= j)
            high = j;
        else if (left >= i)
            low = i;
        else
            return;
    }
}

static int widest_axis(const qpc_box_centre *r, int32_t count) {
    float lo[3] = {r->c[0], r->c[1], r->c[2]}, hi[3] = {r->c[0], r->c[1], r->c[2]};
    for (int32_t i = 1; i < count; i++)
        for (int d = 0; d < 3; d++) {
            lo[d] = r[i].c[d] < lo[d] ? r[i].c[d] : lo[d];
            hi[d] = r[i].c[d] > hi[d] ? r[i].c[d] : hi[d];
        }
    int axis = 0;
    for (int d = 1; d < 3; d++)
        if (hi[d] - lo[d] > hi[axis] - lo[axis]) axis = d;
    return axis;
}

/// Leaves in the left half of a heap over `leaves` of them.
static int32_t left_leaves(int32_t leaves) {
    int32_t full = 1;
    while (full <= leaves / 2) full *= 2;
    int32_t last = leaves - full;
    return full / 2 + (last < full / 2 ? last : full / 2);
}

static void arrange(const qpc_boxtree *tree, qpc_box_centre *r, int32_t count, int32_t leaves,
                    int32_t node, int32_t *item) {
    while (leaves > 1) {
        int32_t left = left_leaves(leaves), items = QPC_BOX_LANES * left;
        select_low(r, count, items, widest_axis(r, count));
        arrange(tree, r, items, left, 2 * node, item); // at most 30 deep
        r += items;
        count -= items;
        leaves -= left;
        node = 2 * node + 1;
    }
    int32_t *slot = item + (int64_t)QPC_BOX_LANES * (node - tree->leaf_count);
    for (int k = 0; k < QPC_BOX_LANES; k++) slot[k] = k < count ? r[k].item : -1;
}

void qpc_boxtree_build(qpc_boxtree *tree, int32_t *item) {
    arrange(tree, qpc_boxtree_centres(tree), tree->count, tree->leaf_count, 1, item);
    tree->built_area = -1;
}

// ---- fit ----

void qpc_boxtree_set_leaf(qpc_boxtree *tree, int32_t leaf, const qpc_fbox box[QPC_BOX_LANES]) {
    qpc_f4 lo[4], hi[4];
    for (int k = 0; k < 4; k++) lo[k] = f4_load(box[k].lo), hi[k] = f4_load(box[k].hi);
    qpc_fbox *node = &tree->node[tree->leaf_count + leaf];
    f4_store(node->lo, f4_min(f4_min(lo[0], lo[1]), f4_min(lo[2], lo[3])));
    f4_store(node->hi, f4_max(f4_max(hi[0], hi[1]), f4_max(hi[2], hi[3])));
    f4_transpose(lo);
    f4_transpose(hi);
    for (int d = 0; d < 3; d++) {
        f4_store(tree->leaf[leaf].lo[d], lo[d]);
        f4_store(tree->leaf[leaf].hi[d], hi[d]);
    }
}

void qpc_boxtree_fit(qpc_boxtree *tree, double grow) {
    double area = 0;
    float shrink = (float)(2 * grow);
    for (int32_t i = tree->leaf_count - 1; i >= 1; i--) {
        const qpc_fbox *child = &tree->node[2 * (int64_t)i];
        qpc_f4 lo = f4_min(f4_load(child[0].lo), f4_load(child[1].lo));
        qpc_f4 hi = f4_max(f4_load(child[0].hi), f4_load(child[1].hi));
        f4_store(tree->node[i].lo, lo);
        f4_store(tree->node[i].hi, hi);
        float side[4];
        f4_store(side, f4_max(f4_sub(f4_sub(hi, lo), f4_all(shrink)), f4_all(0)));
        double x = (double)side[0], y = (double)side[1], z = (double)side[2];
        area += x * y + y * z + z * x;
    }
    tree->area = 2 * area;
}

bool qpc_boxtree_check(const qpc_boxtree *tree) {
    for (int32_t i = 2; i < 2 * tree->leaf_count; i++)
        for (int d = 0; d < 3; d++)
            if (!(tree->node[i / 2].lo[d] <= tree->node[i].lo[d] &&
                  tree->node[i / 2].hi[d] >= tree->node[i].hi[d]))
                return false;
    int64_t items = 0;
    for (int32_t i = 0; i < tree->leaf_count; i++)
        for (int k = 0; k < QPC_BOX_LANES; k++) {
            const qpc_box_leaf *l = &tree->leaf[i];
            const qpc_fbox *n = &tree->node[tree->leaf_count + i];
            if (l->lo[0][k] > l->hi[0][k]) continue; // no item
            items++;
            for (int d = 0; d < 3; d++)
                if (!(n->lo[d] <= l->lo[d][k] && l->hi[d][k] <= n->hi[d])) return false;
        }
    return items == tree->count;
}
