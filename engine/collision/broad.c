/// Broad phase of surfaces: creation, updates and numbers; see broad.h and broad_work.h.
///
/// An update makes the boxes of the motion (broad_fit.c). If a vertex has left its fat box, it
/// makes fat boxes, trees and lists anew; then it filters the lists by the boxes (broad_lists.c).
/// What static surfaces lack of their reach is added where they meet another, so that a reach that
/// changes from call to call never touches them.
#include "engine/collision/broad.h"

#include "base/mem.h"
#include "engine/collision/broad_work.h"

#include <string.h>

enum { CHUNK = 4096, ITEMS_A_SLICE = 4096, MOST_SLICES = 64 };

// ---- creation ----

static qpc_status init_part(qpc_broad *broad, int32_t s, const qpc_broad_surface *def,
                            const double *x, qpc_error *err) {
    qpc_broad_part *p = &broad->parts[s];
    p->def = *def;
    p->topology = qpc_mesh_topology(def->mesh);
    if (p->topology == NULL)
        return qpc_fail(err, QPC_ERR_INVALID, "surface %d is not made of triangles", (int)s);
    if (!(def->radius >= 0 && def->radius <= 1e30))
        return qpc_fail(err, QPC_ERR_INVALID, "surface %d has radius %g, want 0 to 1e30", (int)s,
                        def->radius);
    p->triangle = qpc_mesh_elements(def->mesh);
    p->node_count = (int32_t)qpc_mesh_vertex_count(def->mesh);
    int32_t triangles = (int32_t)qpc_mesh_element_count(def->mesh), used = 0;
    p->node_slot = qpc_alloc_array((size_t)p->node_count, sizeof *p->node_slot);
    if (p->node_slot == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for surface %d", (int)s);
    for (int32_t i = 0; i < p->node_count; i++) p->node_slot[i] = -1;
    for (int64_t i = 0; i < 3 * (int64_t)triangles; i++) {
        used += p->node_slot[p->triangle[i]] < 0;
        p->node_slot[p->triangle[i]] = 0;
    }
    for (int32_t i = 0; i < p->node_count; i++)
        for (int d = 0; d < 3 && p->node_slot[i] == 0; d++)
            if (!(fabs(x[3 * ((int64_t)def->first_node + i) + d]) <= QPC_BROAD_FARTHEST))
                return qpc_broad_not_finite(s, err);
    const int32_t count[KINDS] = {used, triangles, p->topology->edge_count};
    for (int kind = 0; kind < KINDS; kind++) {
        if (count[kind] == 0) continue;
        qpc_status status = qpc_boxtree_init(&p->tree[kind], count[kind], err);
        if (status != QPC_OK) return status;
    }
    if (def->motion != QPC_STATIC) return QPC_OK;
    p->rest =
        qpc_alloc_array((size_t)p->tree[VERTEX].leaf_count * QPC_BOX_LANES, 3 * sizeof(double));
    if (p->rest == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for surface %d", (int)s);
    return qpc_broad_planes_init(p, err);
}

/// Slots of all parts in one row a kind; numbers of triangles and edges over all of them.
static qpc_status lay_out(qpc_broad *broad, qpc_error *err) {
    int64_t slots[KINDS] = {0}, triangles = 0, edges = 0;
    for (int32_t s = 0; s < broad->part_count; s++) {
        qpc_broad_part *p = &broad->parts[s];
        p->triangle_base = (int32_t)triangles;
        p->edge_base = (int32_t)edges;
        triangles += p->tree[TRIANGLE].count;
        edges += p->tree[EDGE].count;
        for (int kind = 0; kind < KINDS; kind++) {
            p->slot[kind] = (int32_t)slots[kind];
            slots[kind] += QPC_BOX_LANES * (int64_t)p->tree[kind].leaf_count;
        }
        slots[VERTEX] += QPC_BOX_LANES; // the one without an item
        if (slots[VERTEX] > INT32_MAX || slots[TRIANGLE] > INT32_MAX || slots[EDGE] > INT32_MAX)
            return qpc_fail(err, QPC_ERR_LIMIT, "more than 2^31 triangles or edges");
    }
    bool ok = true;
    for (int kind = 0; kind < KINDS; kind++) {
        size_t n = (size_t)slots[kind], corners = (size_t)qpc_broad_corners(kind);
        broad->slot_count[kind] = (int32_t)slots[kind];
        broad->box[kind] = qpc_alloc_array(n, sizeof(qpc_fbox));
        broad->id[kind] = qpc_alloc_array(n, sizeof(int32_t));
        if (kind != VERTEX) broad->corner[kind] = qpc_alloc_array(n, corners * sizeof(int32_t));
        ok = ok && broad->box[kind] != NULL && broad->id[kind] != NULL &&
             (kind == VERTEX || broad->corner[kind] != NULL);
    }
    broad->fat = qpc_alloc_array((size_t)slots[VERTEX], sizeof(qpc_fbox));
    if (!ok || broad->fat == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for the boxes of %lld triangles",
                        (long long)triangles);
    for (int64_t i = 0; i < slots[VERTEX]; i++) {
        broad->box[VERTEX][i] = broad->fat[i] = qpc_fbox_empty();
        broad->id[VERTEX][i] = -1;
    }
    return QPC_OK;
}

/// Passes in chunks, walks in slices: how many depends on sizes alone.
static qpc_status divide(qpc_broad *broad, qpc_error *err) {
    int64_t moving = 0;
    for (int pass = 0; pass < 2; pass++) { // count, then write
        int32_t n[2] = {0};
        for (int32_t s = 0; s < broad->part_count; s++)
            for (int kind = 0; kind < KINDS; kind++) {
                const qpc_broad_part *p = &broad->parts[s];
                int32_t slots = QPC_BOX_LANES * p->tree[kind].leaf_count;
                if (pass == 0 && p->def.motion >= QPC_DYNAMIC) moving += slots;
                for (int32_t at = 0; at < slots; at += CHUNK) {
                    int32_t i = n[kind != VERTEX]++;
                    if (pass == 0) continue;
                    broad->chunks[kind == VERTEX ? i : broad->chunk_count[0] + i] =
                        (qpc_broad_chunk){.part = s,
                                          .kind = kind,
                                          .first = p->slot[kind] + at,
                                          .count = slots - at < CHUNK ? slots - at : CHUNK};
                }
            }
        if (pass == 1) break;
        broad->chunk_count[0] = n[0];
        broad->chunk_count[1] = n[1];
        broad->chunks = qpc_calloc((size_t)n[0] + (size_t)n[1], sizeof *broad->chunks);
        int64_t slices = moving / ITEMS_A_SLICE;
        broad->slice_count = (int32_t)(slices < 1             ? 1
                                       : slices < MOST_SLICES ? slices
                                                              : MOST_SLICES);
        broad->slices = qpc_calloc((size_t)broad->slice_count, sizeof *broad->slices);
        if (broad->chunks == NULL || broad->slices == NULL)
            return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for the broad phase");
    }
    return QPC_OK;
}

static void keep_rest(qpc_broad *broad, qpc_broad_part *p, const double *x) {
    for (int32_t i = 0; p->rest != NULL && i < QPC_BOX_LANES * p->tree[VERTEX].leaf_count; i++) {
        int32_t node = broad->id[VERTEX][p->slot[VERTEX] + i];
        for (int d = 0; d < 3; d++)
            p->rest[3 * (int64_t)i + d] = node < 0 ? 0 : x[3 * (int64_t)node + d];
    }
}

qpc_status qpc_broad_create(const qpc_broad_surface *surfaces, int32_t surface_count,
                            const double *x, int64_t max_pairs, qpc_broad **ret, qpc_error *err) {
    qpc_broad *broad = qpc_calloc(1, sizeof *broad);
    if (broad != NULL) {
        broad->parts = qpc_calloc((size_t)surface_count, sizeof *broad->parts);
        broad->by_node = qpc_alloc_array((size_t)surface_count, sizeof *broad->by_node);
    }
    if (broad == NULL || broad->parts == NULL || broad->by_node == NULL) {
        qpc_broad_destroy(broad);
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for %d surfaces", (int)surface_count);
    }
    broad->part_count = surface_count;
    broad->max_pairs = max_pairs < INT32_MAX / 2 ? max_pairs : INT32_MAX / 2;
    qpc_status status = QPC_OK;
    for (int32_t s = 0; s < surface_count && status == QPC_OK; s++)
        status = init_part(broad, s, &surfaces[s], x, err);
    if (status == QPC_OK) status = lay_out(broad, err);
    if (status == QPC_OK) status = divide(broad, err);
    if (status != QPC_OK) {
        qpc_broad_destroy(broad);
        return status;
    }
    for (int32_t s = 0; s < surface_count; s++) { // mostly in order already
        int32_t i = s;
        for (; i > 0 && surfaces[broad->by_node[i - 1]].first_node > surfaces[s].first_node; i--)
            broad->by_node[i] = broad->by_node[i - 1];
        broad->by_node[i] = s;
    }
    broad->x0 = broad->x1 = x;
    for (int32_t s = 0; s < surface_count; s++) {
        qpc_broad_build(broad, &broad->parts[s], NULL);
        keep_rest(broad, &broad->parts[s], x);
    }
    qpc_broad_choose_origin(broad);
    *ret = broad;
    return QPC_OK;
}

void qpc_broad_destroy(qpc_broad *broad) {
    if (broad == NULL) return;
    for (int32_t s = 0; broad->parts != NULL && s < broad->part_count; s++) {
        qpc_broad_part *p = &broad->parts[s];
        for (int kind = 0; kind < KINDS; kind++) qpc_boxtree_fini(&p->tree[kind]);
        qpc_free(p->node_slot);
        qpc_free(p->rest);
        qpc_free(p->plane);
    }
    for (int32_t i = 0; broad->slices != NULL && i < broad->slice_count; i++)
        for (int k = 0; k < 2; k++) {
            qpc_array_fini(&broad->slices[i].fat[k]);
            qpc_array_fini(&broad->slices[i].out[k]);
            qpc_array_fini(&broad->slices[i].segments[k]);
        }
    for (int kind = 0; kind < KINDS; kind++) {
        qpc_free(broad->box[kind]);
        qpc_free(broad->id[kind]);
        qpc_free(broad->corner[kind]);
    }
    for (int k = 0; k < 2; k++) qpc_array_fini(&broad->tasks[k]);
    qpc_free(broad->fat);
    qpc_free(broad->chunks);
    qpc_free(broad->slices);
    qpc_free(broad->by_node);
    qpc_free(broad->parts);
    qpc_free(broad);
}

// ---- update ----

qpc_status qpc_broad_not_finite(int32_t surface, qpc_error *err) {
    return qpc_fail(err, QPC_ERR_NUMERIC, "a position of surface %d is not finite, or beyond %g m",
                    (int)surface, QPC_BROAD_FARTHEST);
}

static qpc_status too_many(const qpc_broad *broad, qpc_error *err) {
    return qpc_fail(err, QPC_ERR_LIMIT,
                    "more than max_candidates = %lld candidate pairs are near each other",
                    (long long)broad->max_pairs);
}

/// Fat boxes and lists for this motion and some like it; if that is too much, for this one alone.
static qpc_status renew(qpc_broad *broad, const qpc_parallel *parallel, qpc_error *err) {
    broad->listed = false;
    broad->most = broad->max_pairs;
    for (int lean = 0; lean < 2; lean++) {
        broad->cover = lean ? broad->reach
                            : fmax(broad->reach, fmax(broad->reach_seen, broad->reach_seen_before));
        qpc_broad_fatten(broad, parallel, !lean);
        bool over;
        qpc_status status = qpc_broad_list(broad, parallel, &over, err);
        if (status != QPC_OK) return status;
        if (over) continue;
        broad->listed = true;
        broad->exact = broad->cover == broad->reach;
        for (int32_t s = 0; s < broad->part_count; s++)
            broad->exact = broad->exact && broad->parts[s].margin == 0;
        broad->reach_seen_before = broad->reach_seen;
        broad->reach_seen = broad->reach;
        return QPC_OK;
    }
    return too_many(broad, err);
}

static void empty(qpc_broad *broad) {
    for (int32_t i = 0; i < broad->slice_count; i++)
        broad->slices[i].out[0].count = broad->slices[i].out[1].count = 0;
}

static qpc_status find(qpc_broad *broad, const qpc_parallel *parallel, qpc_error *err) {
    bool inside = false;
    int32_t bad = 0;
    if (broad->list_age > 0 || broad->listed) broad->list_age++;
    if (!qpc_broad_boxes(broad, parallel, &inside, &bad)) return qpc_broad_not_finite(bad, err);
    if (qpc_broad_is_far(broad)) {
        qpc_broad_choose_origin(broad);
        (void)qpc_broad_boxes(broad, parallel, &inside, &bad);
        broad->listed = false;
        broad->list_age = 0;
    }
    broad->reach_seen = fmax(broad->reach_seen, broad->reach);
    broad->exact = false;
    if (!broad->listed || !inside || broad->reach > broad->cover) {
        qpc_status status = renew(broad, parallel, err);
        if (status != QPC_OK) return status;
    }
    qpc_status status = qpc_broad_filter(broad, parallel, err);
    if (status != QPC_OK) return status;
    int64_t pairs = 0;
    for (int32_t i = 0; i < broad->slice_count; i++)
        pairs += broad->slices[i].out[0].count + (int64_t)broad->slices[i].out[1].count;
    broad->counts.pairs += (uint64_t)pairs;
    return QPC_OK;
}

qpc_status qpc_broad_update(qpc_broad *broad, const double *x0, const double *x1, double reach,
                            const qpc_parallel *parallel, qpc_error *err) {
    empty(broad);
    if (!(reach >= 0 && reach <= 1e6))
        return qpc_fail(err, QPC_ERR_INVALID, "reach is %g, want 0 to 1e6", reach);
    broad->x0 = x0;
    broad->x1 = x1;
    broad->reach = reach;
    qpc_status status = find(broad, parallel, err);
#ifdef QPC_VALIDATE
    if (status == QPC_OK && !qpc_broad_check(broad, err)) status = QPC_ERR_INTERNAL;
#endif
    if (status != QPC_OK) {
        broad->listed = false;
        empty(broad);
    }
    return status;
}

void qpc_broad_forget(qpc_broad *broad) {
    broad->listed = false;
}

// ---- what was found ----

int32_t qpc_broad_slice_count(const qpc_broad *broad) {
    return broad->slice_count;
}
const qpc_pairs *qpc_broad_vt(const qpc_broad *broad, int32_t slice) {
    return &broad->slices[slice].out[0];
}
const qpc_pairs *qpc_broad_ee(const qpc_broad *broad, int32_t slice) {
    return &broad->slices[slice].out[1];
}

/// The last part whose first number is not above n; numbers grow with parts.
static const qpc_broad_part *part_of(const qpc_broad *broad, int32_t n, int kind) {
    int32_t low = 0, high = broad->part_count - 1;
    while (low < high) {
        int32_t mid = low + (high - low + 1) / 2;
        const qpc_broad_part *p = &broad->parts[mid];
        if ((kind == TRIANGLE ? p->triangle_base : p->edge_base) <= n)
            low = mid;
        else
            high = mid - 1;
    }
    return &broad->parts[low];
}

void qpc_broad_triangle(const qpc_broad *broad, int32_t b, int32_t *ret_surface, int32_t *ret_local,
                        int32_t node[3]) {
    const qpc_broad_part *p = part_of(broad, b, TRIANGLE);
    *ret_surface = (int32_t)(p - broad->parts);
    *ret_local = b - p->triangle_base;
    for (int k = 0; k < 3; k++)
        node[k] = p->def.first_node + p->triangle[3 * (int64_t)*ret_local + k];
}

void qpc_broad_edge(const qpc_broad *broad, int32_t e, int32_t *ret_surface, int32_t *ret_local,
                    int32_t node[2]) {
    const qpc_broad_part *p = part_of(broad, e, EDGE);
    *ret_surface = (int32_t)(p - broad->parts);
    *ret_local = e - p->edge_base;
    for (int k = 0; k < 2; k++)
        node[k] = p->def.first_node + p->topology->edge_vertex[2 * (int64_t)*ret_local + k];
}

int32_t qpc_broad_node_surface(const qpc_broad *broad, int32_t node) {
    int32_t low = 0, high = broad->part_count - 1;
    while (low < high) {
        int32_t mid = low + (high - low + 1) / 2;
        if (broad->parts[broad->by_node[mid]].def.first_node <= node)
            low = mid;
        else
            high = mid - 1;
    }
    if (broad->part_count == 0) return -1;
    const qpc_broad_part *p = &broad->parts[broad->by_node[low]];
    int64_t local = (int64_t)node - p->def.first_node;
    return local >= 0 && local < p->node_count ? broad->by_node[low] : -1;
}

qpc_broad_counts qpc_broad_get_counts(const qpc_broad *broad) {
    return broad->counts;
}
void qpc_broad_counts_reset(qpc_broad *broad) {
    broad->counts = (qpc_broad_counts){0};
}

size_t qpc_broad_bytes(const qpc_broad *broad) {
    size_t bytes =
        sizeof *broad + (size_t)broad->part_count * (sizeof *broad->parts + sizeof *broad->by_node);
    for (int32_t s = 0; s < broad->part_count; s++) {
        const qpc_broad_part *p = &broad->parts[s];
        for (int kind = 0; kind < KINDS; kind++) bytes += qpc_boxtree_bytes(&p->tree[kind]);
        bytes += (size_t)p->node_count * sizeof *p->node_slot;
        if (p->rest != NULL)
            bytes += (size_t)p->tree[VERTEX].leaf_count * QPC_BOX_LANES * 3 * sizeof *p->rest;
        bytes += qpc_broad_planes_bytes(p);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        size_t corners = kind == VERTEX ? 0 : (size_t)qpc_broad_corners(kind);
        size_t boxes = kind == VERTEX ? 2 : 1; // and fat ones
        bytes += (size_t)broad->slot_count[kind] *
                 (boxes * sizeof(qpc_fbox) + (1 + corners) * sizeof(int32_t));
    }
    for (int32_t i = 0; i < broad->slice_count; i++)
        for (int k = 0; k < 2; k++) {
            const qpc_broad_slice *s = &broad->slices[i];
            bytes += (size_t)s->fat[k].capacity * sizeof(qpc_pair);
            bytes += (size_t)s->out[k].capacity * sizeof(qpc_pair);
            bytes += (size_t)s->segments[k].capacity * sizeof(qpc_broad_segment);
        }
    bytes += (size_t)broad->slice_count * sizeof *broad->slices;
    bytes +=
        ((size_t)broad->chunk_count[0] + (size_t)broad->chunk_count[1]) * sizeof *broad->chunks;
    for (int k = 0; k < 2; k++) bytes += (size_t)broad->tasks[k].capacity * sizeof(qpc_broad_task);
    return bytes;
}

bool qpc_broad_check(const qpc_broad *broad, qpc_error *err) {
    for (int32_t s = 0; s < broad->part_count; s++) {
        const qpc_broad_part *p = &broad->parts[s];
        // What moves has no boxes before its first lists.
        if (p->def.motion != QPC_STATIC && !broad->listed) continue;
        for (int kind = 0; kind < KINDS; kind++) {
            if (p->tree[kind].count == 0 || qpc_boxtree_check(&p->tree[kind])) continue;
            qpc_fail(err, QPC_ERR_INTERNAL, "a tree of surface %d does not hold its boxes", (int)s);
            return false;
        }
        for (int32_t i = 0; i < QPC_BOX_LANES * p->tree[VERTEX].leaf_count; i++) {
            const qpc_fbox *fat = &broad->fat[p->slot[VERTEX] + i],
                           *box = &broad->box[VERTEX][p->slot[VERTEX] + i];
            for (int d = 0; d < 3; d++)
                if (!(fat->lo[d] <= box->lo[d] && box->hi[d] <= fat->hi[d])) {
                    qpc_fail(err, QPC_ERR_INTERNAL, "a vertex of surface %d has left its fat box",
                             (int)s);
                    return false;
                }
        }
    }
    return true;
}
