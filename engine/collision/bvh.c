/// Bounding volume tree; see bvh.h.
///
/// Nodes are 32 bytes; siblings are adjacent and children come after their parent, so that a refit
/// is one sweep from the end. Splits: 16 bins per axis by the surface-area heuristic, by the median
/// of the order at hand when all centres coincide or the tree gets too deep. Leaves hold up to
/// four.
#include "engine/collision/bvh.h"

#include "base/mem.h"

#include <string.h>

enum { LEAF_MAX = 4, BINS = 16, DEPTH_SAH = 40, STACK = 96 };

typedef struct node {
    float lo[3];
    int32_t first; // left child (right is next to it), or first item of a leaf
    float hi[3];
    int32_t count; // items of a leaf, 0 for inner nodes
} node;

struct qpc_bvh {
    int32_t count, node_count;
    node *nodes;
    int32_t *items;
};

static void clear(node *n) {
    for (int d = 0; d < 3; d++) n->lo[d] = INFINITY, n->hi[d] = -INFINITY;
}

static void include(float lo[3], float hi[3], const float blo[3], const float bhi[3]) {
    for (int d = 0; d < 3; d++) {
        lo[d] = blo[d] < lo[d] ? blo[d] : lo[d];
        hi[d] = bhi[d] > hi[d] ? bhi[d] : hi[d];
    }
}

static double half_area(const float lo[3], const float hi[3]) {
    double x = (double)(hi[0] - lo[0]), y = (double)(hi[1] - lo[1]), z = (double)(hi[2] - lo[2]);
    return x * y + y * z + z * x;
}

static double centre(const qpc_fbox *b, int axis) {
    return 0.5 * ((double)b->lo[axis] + (double)b->hi[axis]);
}

static int bin_of(double c, double low, double scale) {
    double b = (c - low) * scale;
    return b > 0 ? b < BINS - 1 ? (int)b : BINS - 1 : 0;
}

/// Reorder items of [first, first + count) into two parts; the size of the left one, or 0 for a
/// leaf.
static int32_t split(const qpc_fbox *boxes, int32_t *items, int32_t count, int depth) {
    if (count <= LEAF_MAX) return 0;
    double low[3] = {INFINITY, INFINITY, INFINITY}, high[3] = {-INFINITY, -INFINITY, -INFINITY};
    for (int32_t i = 0; i < count; i++)
        for (int d = 0; d < 3; d++) {
            double c = centre(&boxes[items[i]], d);
            low[d] = fmin(low[d], c);
            high[d] = fmax(high[d], c);
        }
    double best = INFINITY;
    int best_axis = -1, best_bin = 0;
    for (int axis = 0; axis < 3 && depth < DEPTH_SAH; axis++) {
        double scale = BINS / (high[axis] - low[axis]);
        if (!(high[axis] > low[axis]) || !isfinite(scale)) continue;
        int32_t in[BINS] = {0};
        node bin[BINS];
        for (int b = 0; b < BINS; b++) clear(&bin[b]);
        for (int32_t i = 0; i < count; i++) {
            const qpc_fbox *box = &boxes[items[i]];
            int b = bin_of(centre(box, axis), low[axis], scale);
            in[b]++;
            include(bin[b].lo, bin[b].hi, box->lo, box->hi);
        }
        double right_cost[BINS];
        node sum;
        clear(&sum);
        int32_t items_right = 0;
        for (int b = BINS - 1; b > 0; b--) {
            include(sum.lo, sum.hi, bin[b].lo, bin[b].hi);
            items_right += in[b];
            right_cost[b] = items_right > 0 ? items_right * half_area(sum.lo, sum.hi) : 0;
        }
        clear(&sum);
        int32_t items_left = 0;
        for (int b = 0; b < BINS - 1; b++) {
            include(sum.lo, sum.hi, bin[b].lo, bin[b].hi);
            items_left += in[b];
            if (items_left == 0 || items_left == count) continue;
            double cost = items_left * half_area(sum.lo, sum.hi) + right_cost[b + 1];
            if (cost < best) best = cost, best_axis = axis, best_bin = b;
        }
    }
    if (best_axis < 0) return count / 2;
    double scale = BINS / (high[best_axis] - low[best_axis]);
    int32_t left = 0;
    for (int32_t i = 0; i < count; i++) {
        if (bin_of(centre(&boxes[items[i]], best_axis), low[best_axis], scale) > best_bin) continue;
        int32_t swap = items[i];
        items[i] = items[left];
        items[left++] = swap;
    }
    return left;
}

static void fit(qpc_bvh *bvh, int32_t at, const qpc_fbox *boxes) {
    node *n = &bvh->nodes[at];
    clear(n);
    if (n->count > 0) {
        for (int32_t i = n->first; i < n->first + n->count; i++)
            include(n->lo, n->hi, boxes[bvh->items[i]].lo, boxes[bvh->items[i]].hi);
    } else {
        for (int32_t i = n->first; i < n->first + 2; i++)
            include(n->lo, n->hi, bvh->nodes[i].lo, bvh->nodes[i].hi);
    }
}

void qpc_bvh_refit(qpc_bvh *bvh, const qpc_fbox *boxes) {
    for (int32_t i = bvh->node_count - 1; i >= 0; i--) fit(bvh, i, boxes);
}

qpc_status qpc_bvh_build(const qpc_fbox *boxes, int32_t count, qpc_bvh **ret, qpc_error *err) {
    QPC_ASSERT(count > 0);
    typedef struct work {
        int32_t node, first, count, depth;
    } work;
    qpc_bvh *bvh = qpc_calloc(1, sizeof *bvh);
    // Depth first, so never more than one pending sibling per level.
    work *pending = qpc_alloc_array(STACK, sizeof *pending);
    if (bvh != NULL) {
        bvh->items = qpc_alloc_array((size_t)count, sizeof *bvh->items);
        bvh->nodes = qpc_alloc_array(2 * (size_t)count, sizeof *bvh->nodes);
    }
    if (bvh == NULL || pending == NULL || bvh->items == NULL || bvh->nodes == NULL) {
        qpc_free(pending);
        qpc_bvh_destroy(bvh);
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a tree of %d boxes", (int)count);
    }
    bvh->count = count;
    for (int32_t i = 0; i < count; i++) bvh->items[i] = i;
    bvh->node_count = 1;
    int32_t waiting = 0;
    pending[waiting++] = (work){0, 0, count, 0};
    while (waiting > 0) {
        work w = pending[--waiting];
        int32_t left = split(boxes, bvh->items + w.first, w.count, w.depth);
        if (left == 0) {
            bvh->nodes[w.node].first = w.first;
            bvh->nodes[w.node].count = w.count;
            continue;
        }
        int32_t child = bvh->node_count;
        bvh->node_count += 2;
        bvh->nodes[w.node].first = child;
        bvh->nodes[w.node].count = 0;
        QPC_ASSERT(waiting + 2 <= STACK);
        pending[waiting++] = (work){child + 1, w.first + left, w.count - left, w.depth + 1};
        pending[waiting++] = (work){child, w.first, left, w.depth + 1};
    }
    qpc_free(pending);
    qpc_bvh_refit(bvh, boxes);
    *ret = bvh;
    return QPC_OK;
}

void qpc_bvh_destroy(qpc_bvh *bvh) {
    if (bvh == NULL) return;
    qpc_free(bvh->items);
    qpc_free(bvh->nodes);
    qpc_free(bvh);
}

static inline bool overlaps(const node *n, const qpc_fbox *b) {
#ifdef __SSE2__
    // The fourth lanes hold numbers of the node, whatever they compare to.
    const char *bytes = (const char *)n;
    __m128 lo = _mm_castsi128_ps(_mm_loadu_si128((const __m128i *)(const void *)bytes));
    __m128 hi = _mm_castsi128_ps(_mm_loadu_si128((const __m128i *)(const void *)(bytes + 16)));
    __m128 in =
        _mm_and_ps(_mm_cmple_ps(lo, _mm_loadu_ps(b->hi)), _mm_cmple_ps(_mm_loadu_ps(b->lo), hi));
    return (_mm_movemask_ps(in) & 7) == 7;
#else
    return (n->lo[0] <= b->hi[0]) & (b->lo[0] <= n->hi[0]) & (n->lo[1] <= b->hi[1]) &
           (b->lo[1] <= n->hi[1]) & (n->lo[2] <= b->hi[2]) & (b->lo[2] <= n->hi[2]);
#endif
}

qpc_status qpc_bvh_query(const qpc_bvh *bvh, const qpc_fbox *boxes, const qpc_fbox *box,
                         qpc_items *ret, uint64_t *box_tests) {
    int32_t stack[STACK], height = 0;
    uint64_t tests = 1;
    stack[height++] = 0;
    if (!overlaps(&bvh->nodes[0], box)) height = 0;
    while (height > 0) {
        const node *n = &bvh->nodes[stack[--height]];
        if (n->count == 0) {
            tests += 2;
            if (overlaps(&bvh->nodes[n->first + 1], box)) stack[height++] = n->first + 1;
            if (overlaps(&bvh->nodes[n->first], box)) stack[height++] = n->first;
            continue;
        }
        tests += (uint64_t)n->count;
        for (int32_t i = n->first; i < n->first + n->count; i++)
            if (qpc_fbox_overlap(&boxes[bvh->items[i]], box) && !qpc_array_push(ret, bvh->items[i]))
                return QPC_ERR_MEMORY;
    }
    *box_tests += tests;
    return QPC_OK;
}

bool qpc_bvh_check(const qpc_bvh *bvh, const qpc_fbox *boxes) {
    int64_t items = 0;
    for (int32_t i = 0; i < bvh->node_count; i++) {
        const node *n = &bvh->nodes[i];
        items += n->count;
        for (int32_t k = 0; k < (n->count > 0 ? n->count : 2); k++) {
            const float *lo =
                n->count > 0 ? boxes[bvh->items[n->first + k]].lo : bvh->nodes[n->first + k].lo;
            const float *hi =
                n->count > 0 ? boxes[bvh->items[n->first + k]].hi : bvh->nodes[n->first + k].hi;
            for (int d = 0; d < 3; d++)
                if (!(lo[d] >= n->lo[d] && hi[d] <= n->hi[d])) return false;
        }
    }
    return items == bvh->count;
}
