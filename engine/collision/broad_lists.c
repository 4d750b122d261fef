/// Lists of pairs: trees are walked two by two, and what the walks found is filtered by the boxes
/// of each motion; see broad_work.h.
///
/// Pairs of roots are opened level by level until there are enough tasks; slices take runs of tasks
/// of equal length. Neither depends on how many threads there are. Leaves are compared four boxes
/// at once; items that share a vertex drop out here, once a list.
#include "engine/collision/broad_work.h"

#include <string.h>

enum { TASKS_A_SLICE = 16, STACK = 320, LEAF_PAIRS = QPC_BOX_LANES * QPC_BOX_LANES, FLUSH = 1024, FEW = 4 };

// ---- tasks ----

static bool touch(const qpc_fbox *a, const qpc_fbox *b, float grow) {
    qpc_f4 g = f4_all(grow);
    return m4_bits(m4_and(f4_le(f4_sub(f4_load(a->lo), g), f4_load(b->hi)),
                          f4_le(f4_load(b->lo), f4_add(f4_load(a->hi), g)))) == 15;
}

static bool push_task(const qpc_broad *broad, qpc_broad_tasks *tasks, qpc_broad_task t,
                      uint64_t *tests) {
    const qpc_boxtree *a = &broad->parts[t.part_a].tree[t.kind_a],
                      *b = &broad->parts[t.part_b].tree[t.kind_b];
    *tests += 1;
    if (!touch(&a->node[t.node_a], &b->node[t.node_b], t.grow)) return true;
    return qpc_array_push(tasks, t);
}

/// A float that is at least a (>= 0).
static float round_up(double a) {
    return a > 0 ? (float)(a + a * 0x1p-22 + 0x1p-126) : 0;
}

/// Roots of the trees of two surfaces, or of one.
static bool push_roots(qpc_broad *broad, int32_t s, int32_t t) {
    const qpc_broad_part *p = &broad->parts[s], *q = &broad->parts[t];
    if (p->def.motion < QPC_DYNAMIC && q->def.motion < QPC_DYNAMIC) return true;
    if (s == t && p->def.motion == QPC_RIGID) return true;
    double radius = p->def.motion == QPC_STATIC   ? p->def.radius
                    : q->def.motion == QPC_STATIC ? q->def.radius
                                                  : 0;
    float grow = round_up(broad->cover * radius);
    // All vertices and edges are within the triangles: one test for surfaces that are far apart.
    broad->counts.box_tests++;
    if (!touch(&p->tree[TRIANGLE].node[1], &q->tree[TRIANGLE].node[1], grow)) return true;
    static const uint8_t kind[3][2] = {{VERTEX, TRIANGLE}, {TRIANGLE, VERTEX}, {EDGE, EDGE}};
    for (int k = 0; k < 3; k++) {
        if (s == t && k == 1) continue;
        if (p->tree[kind[k][0]].count == 0 || q->tree[kind[k][1]].count == 0) continue;
        qpc_broad_task task = {s, t, 1, 1, kind[k][0], kind[k][1], grow};
        if (!push_task(broad, &broad->tasks[0], task, &broad->counts.box_tests)) return false;
    }
    return true;
}

/// A task opened by one level, or copied if both nodes are leaves.
static bool open_task(const qpc_broad *broad, qpc_broad_task t, qpc_broad_tasks *to,
                      uint64_t *tests) {
    int32_t leaf_a = broad->parts[t.part_a].tree[t.kind_a].leaf_count;
    int32_t leaf_b = broad->parts[t.part_b].tree[t.kind_b].leaf_count;
    bool inner_a = t.node_a < leaf_a, inner_b = t.node_b < leaf_b;
    if (!inner_a && !inner_b) return qpc_array_push(to, t);
    bool same = t.part_a == t.part_b && t.kind_a == t.kind_b && t.node_a == t.node_b;
    for (int i = 0; i < (inner_a ? 2 : 1); i++)
        for (int k = same ? i : 0; k < (inner_b ? 2 : 1); k++) {
            qpc_broad_task child = t;
            if (inner_a) child.node_a = 2 * t.node_a + i;
            if (inner_b) child.node_b = 2 * t.node_b + k;
            if (!push_task(broad, to, child, tests)) return false;
        }
    return true;
}

/// Surface by surface, so that a list has few segments.
static bool make_tasks(qpc_broad *broad) {
    broad->tasks[0].count = 0;
    for (int32_t s = 0; s < broad->part_count; s++)
        for (int32_t t = s; t < broad->part_count; t++)
            if (!push_roots(broad, s, t)) return false;
    int32_t wanted = TASKS_A_SLICE * broad->slice_count, before = -1;
    while (broad->tasks[0].count < wanted && broad->tasks[0].count != before) {
        before = broad->tasks[0].count;
        broad->tasks[1].count = 0;
        for (int32_t i = 0; i < before; i++)
            if (!open_task(broad, broad->tasks[0].data[i], &broad->tasks[1],
                           &broad->counts.box_tests))
                return false;
        qpc_broad_tasks swap = broad->tasks[0];
        broad->tasks[0] = broad->tasks[1];
        broad->tasks[1] = swap;
    }
    return true;
}

// ---- walks ----

typedef struct walk {
    qpc_broad *broad;
    const qpc_boxtree *a, *b;
    int32_t slot_a, slot_b;             // of the first leaves
    const int32_t *corner_a, *corner_b; // of the first slots of all
    float grow;
    bool same; // one tree against itself
    bool self; // items of one surface, which may share vertices
    const qpc_broad_part *planes_a, *planes_b; // the one with large triangles, if that is so
    int kind_a, kind_b;
    qpc_pairs *out;
    int32_t flushed; // pairs of out that are counted in so_far
    uint64_t tests;
} walk;

/// Which of 4 x 4 boxes touch: bit 4 k + i for box i of a, k of b.
static unsigned leaf_mask(const qpc_box_leaf *a, const qpc_box_leaf *b, float grow) {
    qpc_f4 lo[3], hi[3], g = f4_all(grow);
    for (int d = 0; d < 3; d++) {
        // The growth goes to the four of a, one box of b at a time is spread over the lanes.
        lo[d] = f4_sub(f4_load(a->lo[d]), g);
        hi[d] = f4_add(f4_load(a->hi[d]), g);
    }
    unsigned mask = 0;
    for (int k = 0; k < QPC_BOX_LANES; k++) {
        qpc_m4 m = m4_and(f4_le(lo[0], f4_all(b->hi[0][k])), f4_le(f4_all(b->lo[0][k]), hi[0]));
        for (int d = 1; d < 3; d++)
            m = m4_and(
                m, m4_and(f4_le(lo[d], f4_all(b->hi[d][k])), f4_le(f4_all(b->lo[d][k]), hi[d])));
        mask |= m4_bits(m) << (4 * k);
    }
    return mask;
}

/// Which of them share a vertex: items of one surface. corners_*: of the items.
static inline unsigned shared_mask(const walk *w, int32_t a, int32_t b, int corners_a,
                                   int corners_b) {
    if (corners_a == 2)
        return i4_pairs_share(w->corner_a + 2 * (int64_t)a, w->corner_b + 2 * (int64_t)b);
    // Vertices are a, a + 1, a + 2, a + 3.
    QPC_ASSERT(corners_a == 1 && corners_b == 3);
    unsigned mask = 0;
    for (int k = 0; k < QPC_BOX_LANES; k++)
        for (int i = 0; i < 3; i++) {
            unsigned lane = (unsigned)(w->corner_b[3 * ((int64_t)b + k) + i] - a);
            mask |= (unsigned)(lane < 4) << (4 * k + (int)(lane & 3));
        }
    return mask;
}

/// Whether all four items of a leaf with planes are apart from a box.
static bool leaf_beside(const walk *w, const qpc_broad_part *part, int kind, int32_t leaf, const qpc_fbox *box) {
    for (int k = 0; k < QPC_BOX_LANES; k++)
        if (!qpc_broad_beside(w->broad, part, kind, part->slot[kind] + QPC_BOX_LANES * leaf + k, box->lo, box->hi, w->grow)) return false;
    return true;
}

/// The pairs of the mask that no plane tells apart.
static unsigned not_beside(const walk *w, int32_t la, int32_t lb, unsigned mask) {
    bool of_a = w->planes_a != NULL;
    const qpc_broad_part *part = of_a ? w->planes_a : w->planes_b;
    const qpc_box_leaf *other = of_a ? &w->b->leaf[lb] : &w->a->leaf[la];
    for (unsigned left = mask; left != 0; left &= left - 1) {
        int bit = __builtin_ctz(left), i = bit & 3, k = bit >> 2, lane = of_a ? k : i;
        float lo[3], hi[3];
        for (int d = 0; d < 3; d++) lo[d] = other->lo[d][lane], hi[d] = other->hi[d][lane];
        int32_t slot = of_a ? w->slot_a + QPC_BOX_LANES * la + i : w->slot_b + QPC_BOX_LANES * lb + k;
        if (qpc_broad_beside(w->broad, part, of_a ? w->kind_a : w->kind_b, slot, lo, hi, w->grow)) mask &= ~(1u << bit);
    }
    return mask;
}

/// Pairs of two leaves; false when memory is out. corners_*: constants, so that code is made for
/// each.
static inline bool leaf_pairs(walk *w, int32_t la, int32_t lb, int corners_a, int corners_b) {
    unsigned mask = leaf_mask(&w->a->leaf[la], &w->b->leaf[lb], w->grow);
    if (w->same && la == lb) mask &= 0x7310; // bit 4 k + i with i < k
    int32_t a = w->slot_a + QPC_BOX_LANES * la, b = w->slot_b + QPC_BOX_LANES * lb;
    if (w->self && mask != 0) mask &= ~shared_mask(w, a, b, corners_a, corners_b);
    if (mask != 0 && (w->planes_a != NULL || w->planes_b != NULL)) mask = not_beside(w, la, lb, mask);
    if (mask == 0) return true;
    qpc_pairs *out = w->out;
    if (!qpc_array_reserve(out, (int64_t)out->count + LEAF_PAIRS)) return false;
    for (; mask != 0; mask &= mask - 1) {
        int bit = __builtin_ctz(mask);
        qpc_pair p = {a + (bit & 3), b + (bit >> 2)};
        // Vertices come first.
        out->data[out->count++] = corners_a == 3 ? (qpc_pair){p.b, p.a} : p;
    }
    return true;
}

/// Count what was found in the common sum; false if it is too much already.
static bool flush(walk *w) {
    int64_t more = w->out->count - w->flushed;
    w->flushed = w->out->count;
    return atomic_fetch_add_explicit(&w->broad->so_far, more, memory_order_relaxed) + more <=
           w->broad->most;
}

typedef struct node_pair {
    int32_t a, b;
} node_pair;

/// All pairs below two nodes that touch. Ends early, true, when there are too many pairs in all.
static inline bool walk_nodes(walk *w, int32_t root_a, int32_t root_b, int corners_a,
                              int corners_b) {
    node_pair stack[STACK];
    int height = 0;
    const qpc_fbox *na = w->a->node, *nb = w->b->node;
    const int32_t leaf_a = w->a->leaf_count, leaf_b = w->b->leaf_count;
    const float grow = w->grow;
    stack[height++] = (node_pair){root_a, root_b};
    while (height > 0) {
        node_pair p = stack[--height];
        bool inner_a = p.a < leaf_a, inner_b = p.b < leaf_b;
        if (!inner_a && !inner_b) {
            w->tests += LEAF_PAIRS;
            if (!leaf_pairs(w, p.a - leaf_a, p.b - leaf_b, corners_a, corners_b)) return false;
            if (w->out->count - w->flushed >= FLUSH && !flush(w)) return true;
            continue;
        }
        int32_t a = inner_a ? 2 * p.a : p.a, b = inner_b ? 2 * p.b : p.b;
        if (w->same && p.a == p.b) {
            stack[height++] = (node_pair){a + 1, a + 1};
            stack[height++] = (node_pair){a, a};
            stack[height] = (node_pair){a, a + 1};
            height += touch(&na[a], &na[a + 1], grow);
            w->tests++;
        } else if (inner_a && inner_b) {
            for (int i = 0; i < 4; i++) {
                stack[height] = (node_pair){a + (i & 1), b + (i >> 1)};
                height += touch(&na[a + (i & 1)], &nb[b + (i >> 1)], grow);
            }
            w->tests += 4;
        } else {
            for (int i = 0; i < 2; i++) {
                node_pair c = {a + (inner_a ? i : 0), b + (inner_b ? i : 0)};
                stack[height] = c;
                bool near = touch(&na[c.a], &nb[c.b], grow);
                if (near && !inner_a && w->planes_a != NULL) near = !leaf_beside(w, w->planes_a, w->kind_a, c.a - leaf_a, &nb[c.b]);
                if (near && !inner_b && w->planes_b != NULL) near = !leaf_beside(w, w->planes_b, w->kind_b, c.b - leaf_b, &na[c.a]);
                height += near;
            }
            w->tests += 2;
        }
    }
    return true;
}

static bool walk_vt(walk *w, int32_t a, int32_t b) {
    return walk_nodes(w, a, b, 1, 3);
}
static bool walk_tv(walk *w, int32_t a, int32_t b) {
    return walk_nodes(w, a, b, 3, 1);
}
static bool walk_ee(walk *w, int32_t a, int32_t b) {
    return walk_nodes(w, a, b, 2, 2);
}

static bool run_task(qpc_broad *broad, qpc_broad_slice *slice, const qpc_broad_task *t) {
    const qpc_broad_part *p = &broad->parts[t->part_a], *q = &broad->parts[t->part_b];
    int list = t->kind_a == EDGE;
    walk w = {.broad = broad,
              .a = &p->tree[t->kind_a],
              .b = &q->tree[t->kind_b],
              .slot_a = p->slot[t->kind_a],
              .slot_b = q->slot[t->kind_b],
              .corner_a = broad->corner[t->kind_a],
              .corner_b = broad->corner[t->kind_b],
              .grow = t->grow,
              .same = p == q && t->kind_a == t->kind_b,
              .self = p == q,
              .planes_a = qpc_broad_planes_pay(p, q) ? p : NULL,
              .planes_b = qpc_broad_planes_pay(q, p) ? q : NULL,
              .kind_a = t->kind_a,
              .kind_b = t->kind_b,
              .out = &slice->fat[list],
              .flushed = slice->fat[list].count};
    double radius = p->def.motion == QPC_STATIC   ? p->def.radius
                    : q->def.motion == QPC_STATIC ? q->def.radius
                                                  : 0;
    qpc_broad_segments *segments = &slice->segments[list];
    if (segments->count == 0 || segments->data[segments->count - 1].radius != radius)
        if (!qpc_array_push(segments, ((qpc_broad_segment){w.out->count, radius}))) return false;
    bool ok = t->kind_a == EDGE     ? walk_ee(&w, t->node_a, t->node_b)
              : t->kind_a == VERTEX ? walk_vt(&w, t->node_a, t->node_b)
                                    : walk_tv(&w, t->node_a, t->node_b);
    (void)flush(&w);
    slice->box_tests += w.tests;
    return ok;
}

static void list_slice(void *data, int32_t index) {
    qpc_broad *broad = data;
    qpc_broad_slice *slice = &broad->slices[index];
    slice->failed = false;
    slice->box_tests = 0;
    for (int k = 0; k < 2; k++) slice->fat[k].count = slice->segments[k].count = 0;
    int64_t tasks = broad->tasks[0].count;
    int64_t from = tasks * index / broad->slice_count,
            to = tasks * (index + 1) / broad->slice_count;
    for (int64_t i = from; i < to && !slice->failed; i++) {
        if (atomic_load_explicit(&broad->so_far, memory_order_relaxed) > broad->most) return;
        slice->failed = !run_task(broad, slice, &broad->tasks[0].data[i]);
    }
}

static qpc_status no_memory(qpc_error *err) {
    return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for candidate pairs");
}

qpc_status qpc_broad_list(qpc_broad *broad, const qpc_parallel *parallel, bool *ret_too_many,
                          qpc_error *err) {
    if (!make_tasks(broad)) return no_memory(err);
    atomic_store_explicit(&broad->so_far, 0, memory_order_relaxed);
    qpc_parallel_run(parallel, broad->slice_count, list_slice, broad);
    int64_t pairs = 0;
    for (int32_t i = 0; i < broad->slice_count; i++) {
        if (broad->slices[i].failed) return no_memory(err);
        pairs += broad->slices[i].fat[0].count + (int64_t)broad->slices[i].fat[1].count;
    }
    broad->counts.list_builds++;
    // A slice stops early only when the sum is beyond `most` already, so this is no race.
    *ret_too_many = pairs > broad->most;
    if (*ret_too_many) return QPC_OK;
    broad->counts.fat_pairs += (uint64_t)pairs;
    for (int32_t i = 0; i < broad->slice_count; i++)
        broad->counts.box_tests += broad->slices[i].box_tests;
    return QPC_OK;
}

// ---- filter ----

/// Pairs of [from, to) whose boxes touch, to *ret; their number.
static int32_t keep_touching(const qpc_pair *from, const qpc_pair *to, const qpc_fbox *box_a,
                             const qpc_fbox *box_b, float grow, qpc_pair *ret) {
    int32_t n = 0;
    if (grow > 0)
        for (; from < to; from++) {
            ret[n] = *from;
            n += touch(&box_a[from->a], &box_b[from->b], grow);
        }
    else
        for (; from < to; from++) {
            qpc_f4 in = f4_load(box_a[from->a].lo);
            ret[n] = *from;
            n += m4_bits(m4_and(f4_le(in, f4_load(box_b[from->b].hi)),
                                f4_le(f4_load(box_b[from->b].lo), f4_load(box_a[from->a].hi)))) ==
                 15;
        }
    return n;
}

/// The same where pairs are few, with boxes of triangles and edges from those of their vertices.
static int32_t keep_touching_few(const qpc_broad *broad, const qpc_pair *from, const qpc_pair *to, int kind_a, int kind_b, float grow,
                                 qpc_pair *ret) {
    const qpc_fbox *box = broad->box[VERTEX];
    int corners_a = qpc_broad_corners(kind_a), corners_b = qpc_broad_corners(kind_b);
    int32_t n = 0;
    for (; from < to; from++) {
        qpc_fbox a = kind_a == VERTEX ? box[from->a] : qpc_broad_join(box, broad->corner[kind_a] + corners_a * (int64_t)from->a, corners_a);
        qpc_fbox b = qpc_broad_join(box, broad->corner[kind_b] + corners_b * (int64_t)from->b, corners_b);
        ret[n] = *from;
        n += touch(&a, &b, grow);
    }
    return n;
}

static bool filter_list(const qpc_broad *broad, qpc_broad_slice *slice, int list) {
    const qpc_pairs *fat = &slice->fat[list];
    const qpc_broad_segments *segments = &slice->segments[list];
    qpc_pairs *out = &slice->out[list];
    const int kind_a = list ? EDGE : VERTEX, kind_b = list ? EDGE : TRIANGLE;
    out->count = 0;
    if (fat->count == 0) return true;
    if (fat->count > out->capacity && !qpc_array_reserve(out, fat->capacity)) return false;
    int32_t n = 0;
    if (broad->exact) {
        n = fat->count;
        memcpy(out->data, fat->data, (size_t)n * sizeof *out->data);
    }
    for (int32_t s = 0; s < segments->count && !broad->exact; s++) {
        int32_t end = s + 1 < segments->count ? segments->data[s + 1].first : fat->count;
        float grow = round_up(broad->reach * segments->data[s].radius);
        const qpc_pair *first = fat->data + segments->data[s].first, *last = fat->data + end;
        n += broad->few ? keep_touching_few(broad, first, last, kind_a, kind_b, grow, out->data + n)
                        : keep_touching(first, last, broad->box[kind_a], broad->box[kind_b], grow, out->data + n);
    }
    // From slots to numbers.
    const int32_t *id_a = broad->id[kind_a], *id_b = broad->id[kind_b];
    for (int32_t i = 0; i < n; i++) {
        int32_t a = id_a[out->data[i].a], b = id_b[out->data[i].b];
        bool turn = list && a > b;
        out->data[i] = (qpc_pair){turn ? b : a, turn ? a : b};
    }
    out->count = n;
    return true;
}

static void filter_slice(void *data, int32_t index) {
    qpc_broad *broad = data;
    qpc_broad_slice *slice = &broad->slices[index];
    slice->failed = !filter_list(broad, slice, 0) || !filter_list(broad, slice, 1);
}

qpc_status qpc_broad_filter(qpc_broad *broad, const qpc_parallel *parallel, qpc_error *err) {
    int64_t pairs = 0;
    for (int32_t i = 0; i < broad->slice_count; i++) pairs += broad->slices[i].fat[0].count + (int64_t)broad->slices[i].fat[1].count;
    broad->few = pairs * FEW < (int64_t)broad->slot_count[TRIANGLE] + broad->slot_count[EDGE];
    if (!broad->exact && !broad->few) qpc_broad_feature_boxes(broad, parallel);
    qpc_parallel_run(parallel, broad->slice_count, filter_slice, broad);
    for (int32_t i = 0; i < broad->slice_count; i++)
        if (broad->slices[i].failed) return no_memory(err);
    return QPC_OK;
}
