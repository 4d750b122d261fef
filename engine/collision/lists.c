/// Candidate lists over fat boxes: which pairs may come near while every chain vertex stays in its
/// box and every node of a moving mesh within the mesh's slack. What tests walk is the choice of
/// these that tight boxes leave for a step (shortlist.c).
///
/// A vertex that leaves its box gets a new one, leading in the direction it moves, and the lists of
/// that vertex and its two edges are made again; all others stay. Lists only ever hold too much:
/// every pair test starts with an exact box test of its own (pairs.c), so contacts do not depend on
/// when a list was made. Lists live in one array that is compacted into its twin when it is full.
#include "engine/collision/detector.h"

#include "base/mem.h"

#include <string.h>

enum { MOST_LEAD = 4 }; // steps that a fat box reaches ahead at most

// ---- lists ----

static int32_t room_for(int32_t count) {
    return count + count / 2 + 4;
}

static qpc_status no_memory(qpc_error *err) {
    return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for candidate lists");
}

/// Pack all lists with fresh room at their ends, growing the array if that does not leave enough.
static qpc_status compact(qpc_detector *det, int32_t extra, qpc_error *err) {
    qpc_list *group[3] = {det->vt, det->ee, det->cc};
    int64_t need = extra;
    for (int g = 0; g < 3; g++)
        for (int32_t f = 0; f < det->feature_count; f++) need += room_for(group[g][f].count);
    if (2 * need > det->items_capacity) {
        int64_t capacity = 3 * need;
        if (capacity > INT32_MAX) return no_memory(err);
        int32_t *grown = qpc_alloc_array((size_t)capacity, 2 * sizeof *grown);
        if (grown == NULL) return no_memory(err);
        memcpy(grown, det->items, (size_t)det->items_used * sizeof *grown);
        qpc_free(det->items < det->spare ? det->items : det->spare);
        det->items = grown;
        det->spare = grown + capacity;
        det->items_capacity = (int32_t)capacity;
    }
    int32_t used = 0;
    for (int g = 0; g < 3; g++)
        for (int32_t f = 0; f < det->feature_count; f++) {
            qpc_list *l = &group[g][f];
            memcpy(det->spare + used, det->items + l->start, (size_t)l->count * sizeof *det->spare);
            l->start = used;
            l->capacity = room_for(l->count);
            used += l->capacity;
        }
    int32_t *swap = det->items;
    det->items = det->spare;
    det->spare = swap;
    det->items_used = used;
    return QPC_OK;
}

static qpc_status reserve(qpc_detector *det, qpc_list *l, int32_t count, qpc_error *err) {
    if (count <= l->capacity) return QPC_OK;
    int32_t room = room_for(count);
    if ((int64_t)det->items_used + room > det->items_capacity) {
        qpc_status status = compact(det, room, err);
        if (status != QPC_OK) return status;
    }
    memcpy(det->items + det->items_used, det->items + l->start,
           (size_t)l->count * sizeof *det->items);
    l->start = det->items_used;
    l->capacity = room;
    det->items_used += room;
    return QPC_OK;
}

static qpc_status set(qpc_detector *det, qpc_list *l, const int32_t *items, int32_t count,
                      qpc_error *err) {
    det->live += count - l->count;
    l->count = 0;
    if (det->live > det->max_candidates)
        return qpc_fail(err, QPC_ERR_LIMIT,
                        "more than max_candidates = %lld candidate pairs are near each other",
                        (long long)det->max_candidates);
    qpc_status status = reserve(det, l, count, err);
    if (status != QPC_OK) return status;
    memcpy(det->items + l->start, items, (size_t)count * sizeof *items);
    l->count = count;
    return QPC_OK;
}

static qpc_status add(qpc_detector *det, qpc_list *l, int32_t item, qpc_error *err) {
    if (det->live + 1 > det->max_candidates)
        return qpc_fail(err, QPC_ERR_LIMIT,
                        "more than max_candidates = %lld candidate pairs are near each other",
                        (long long)det->max_candidates);
    qpc_status status = reserve(det, l, l->count + 1, err);
    if (status != QPC_OK) return status;
    det->items[l->start + l->count++] = item;
    det->live++;
    return QPC_OK;
}

static void drop(qpc_detector *det, qpc_list *l, int32_t item) {
    for (int32_t i = 0; i < l->count; i++) {
        if (det->items[l->start + i] != item) continue;
        det->items[l->start + i] = det->items[l->start + --l->count];
        det->live--;
        return;
    }
}

// ---- moving meshes ----

void qpc_mesh_part_fit(qpc_mesh_part *m, const double *x) {
    qpc_dbox all = qpc_dbox_empty();
    for (int32_t t = 0; t < 3 * m->triangle_count; t++)
        qpc_dbox_add(&all, x + 3 * (m->first_node + m->triangles[t]));
    m->size = 0;
    for (int d = 0; d < 3; d++) {
        m->origin[d] = 0.5 * all.lo[d] + 0.5 * all.hi[d];
        m->size = fmax(m->size, fmax(all.hi[d] - m->origin[d], m->origin[d] - all.lo[d]));
    }
    for (int32_t t = 0; t < m->triangle_count; t++) {
        qpc_dbox b = qpc_dbox_empty();
        for (int k = 0; k < 3; k++)
            qpc_dbox_add(&b, x + 3 * (m->first_node + m->triangles[3 * t + k]));
        m->triangle_box[t] = qpc_fbox_around(b.lo, b.hi, m->origin);
    }
    for (int32_t e = 0; e < m->edge_count; e++) {
        qpc_dbox b = qpc_dbox_empty();
        for (int k = 0; k < 2; k++)
            qpc_dbox_add(&b, x + 3 * (m->first_node + m->topology->edge_vertex[2 * e + k]));
        m->edge_box[e] = qpc_fbox_around(b.lo, b.hi, m->origin);
    }
    if (m->bvh != NULL) qpc_bvh_refit(m->bvh, m->triangle_box);
}

/// How far nodes are from the reference and how far they move, by coordinate; false if a position
/// is not finite. Four lanes, since a single maximum would wait for itself.
static bool measure_motion(const qpc_mesh_part *m, const double *p0, const double *p1,
                           double *ret_far, double *ret_step) {
    enum { LANES = 4 };
    double far[LANES] = {0}, step[LANES] = {0}, sum[LANES] = {0};
    const double *r = m->reference;
    int64_t n = 3 * qpc_mesh_vertex_count(m->mesh), i = 0;
#define LANE(k)                                                                                    \
    do {                                                                                           \
        double a = fabs(p0[i + (k)] - r[i + (k)]), b = fabs(p1[i + (k)] - r[i + (k)]);             \
        double c = fabs(p1[i + (k)] - p0[i + (k)]);                                                \
        far[k] = a > far[k] ? a : far[k];                                                          \
        far[k] = b > far[k] ? b : far[k];                                                          \
        step[k] = c > step[k] ? c : step[k];                                                       \
        sum[k] += a + b;                                                                           \
    } while (0)
    for (; i + LANES <= n; i += LANES) {
        LANE(0);
        LANE(1);
        LANE(2);
        LANE(3);
    }
    for (; i < n; i++) LANE(0);
#undef LANE
    *ret_far = fmax(fmax(far[0], far[1]), fmax(far[2], far[3]));
    *ret_step = fmax(fmax(step[0], step[1]), fmax(step[2], step[3]));
    return isfinite(sum[0] + sum[1] + sum[2] + sum[3]);
}

/// New reference positions for a mesh that has moved out of its slack: *ret_moved is set if so.
static qpc_status follow(qpc_mesh_part *m, const double *x0, const double *x1, bool *ret_moved,
                         qpc_error *err) {
    const double *p0 = x0 + 3 * (int64_t)m->first_node, *p1 = x1 + 3 * (int64_t)m->first_node;
    double far, step;
    if (!measure_motion(m, p0, p1, &far, &step))
        return qpc_fail(err, QPC_ERR_NUMERIC, "a position of surface %d is not finite",
                        (int)m->surface);
    if (x0 != x1) m->last_step = step;
    if (far <= m->slack) return QPC_OK;
    // Boxes at the end of the motion, good for a few more like it.
    memcpy(m->reference, p1, 3 * (size_t)qpc_mesh_vertex_count(m->mesh) * sizeof *p1);
    qpc_mesh_part_fit(m, x1);
    m->slack = 3 * fmax(step, m->last_step) + 1e-6 * m->size;
    *ret_moved = true;
    return QPC_OK;
}

// ---- chains ----

static void put_leaf(qpc_chain_part *c, int32_t k, const qpc_dbox *box) {
    int32_t i = c->leaves + k;
    c->tree[i] = *box;
    for (i /= 2; i >= 1; i /= 2) c->tree[i] = qpc_dbox_join(&c->tree[2 * i], &c->tree[2 * i + 1]);
}

/// Part of a chain's tree: node i, which answers for 2^level leaves.
typedef struct subtree {
    int32_t i, level;
} subtree;

static bool asks(const qpc_chain_part *c, subtree s, const qpc_dbox *box, int32_t low, int32_t high) {
    int32_t first = (int32_t)(((int64_t)s.i << s.level) - c->leaves), last = first + (1 << s.level) - 1;
    return !(first >= low && last <= high) && qpc_dbox_overlap(&c->tree[s.i], box);
}

/// Ask a chain's tree for edges whose fat box overlaps, but for edges low to high (they are near
/// anyway); appends edge numbers within the chain.
static qpc_status query_chain(const qpc_chain_part *c, const qpc_dbox *box, int32_t low, int32_t high,
                              qpc_items *ret, uint64_t *box_tests) {
    subtree stack[64], s = {1, 0};
    int32_t height = 0;
    uint64_t tests = 1;
    while (1 << s.level < c->leaves) s.level++;
    if (asks(c, s, box, low, high)) stack[height++] = s;
    while (height > 0) {
        s = stack[--height];
        if (s.level == 0) {
            if (!qpc_array_push(ret, s.i - c->leaves)) return QPC_ERR_MEMORY;
            continue;
        }
        subtree left = {2 * s.i, s.level - 1}, right = {2 * s.i + 1, s.level - 1};
        tests += 2;
        if (asks(c, right, box, low, high)) stack[height++] = right;
        if (asks(c, left, box, low, high)) stack[height++] = left;
    }
    *box_tests += tests;
    return QPC_OK;
}

/// A box around the motion of a vertex that reaches some steps ahead, and a little to all sides.
static qpc_dbox fat_box(const qpc_chain_part *c, const qpc_dbox *now, qpc_vec3 motion) {
    double step = qpc_largest(motion);
    double lead = step > 0 ? fmin(MOST_LEAD, c->lead_max / step) : 0;
    double along[3] = {lead * motion.x, lead * motion.y, lead * motion.z};
    qpc_dbox b = *now;
    for (int d = 0; d < 3; d++) {
        b.lo[d] += along[d] < 0 ? along[d] : 0;
        b.hi[d] += along[d] > 0 ? along[d] : 0;
    }
    return qpc_dbox_grow(&b, 0.3 * c->radius);
}

/// Lists of edge k against meshes, and of the vertices it answers for if they have new boxes.
static qpc_status list_meshes(qpc_detector *det, const qpc_chain_part *c, int32_t k,
                              qpc_error *err) {
    int32_t f = c->feature_base + k, last = k + 1 < c->node_count ? f + 1 : f;
    bool own = det->changed[f], next = last != f && k == c->edge_count - 1 && det->changed[last];
    qpc_dbox hull = qpc_dbox_join(&det->fat[f], &det->fat[last]);
    det->near_edges.count = det->near_triangles.count = 0;
    for (int32_t i = 0; i < det->mesh_count; i++) {
        qpc_mesh_part *m = &det->meshes[i];
        if (c->motion != QPC_DYNAMIC && m->motion != QPC_DYNAMIC) continue;
        // Rounding of a moving mesh's float boxes goes into the slack: its pair tests use doubles.
        double by =
            det->cover * (c->radius + m->radius) + m->slack + (m->moving ? 1e-6 * m->size : 0);
        qpc_dbox b = qpc_dbox_grow(&hull, by);
        qpc_fbox box = qpc_fbox_around(b.lo, b.hi, m->origin);
        det->found.count = 0;
        if (qpc_bvh_query(m->bvh, m->triangle_box, &box, &det->found, &det->counts.box_tests) !=
            QPC_OK)
            return no_memory(err);
        for (int32_t q = 0; q < det->found.count; q++) {
            int32_t t = det->found.data[q], owns = m->topology->triangle_owns[t];
            for (int side = 0; side < 3; side++) {
                int32_t e = m->topology->triangle_edge[3 * t + side];
                if (!(owns >> side & 1) || !qpc_fbox_overlap(&m->edge_box[e], &box)) continue;
                if (!qpc_array_push(&det->near_edges, m->edge_base + e)) return no_memory(err);
            }
        }
        for (int v = 0; v < 2; v++) {
            if (v == 0 ? !own : !next) continue;
            b = qpc_dbox_grow(&det->fat[v == 0 ? f : last], by);
            qpc_fbox around = qpc_fbox_around(b.lo, b.hi, m->origin);
            for (int32_t q = 0; q < det->found.count; q++) {
                int32_t t = det->found.data[q];
                if (!qpc_fbox_overlap(&m->triangle_box[t], &around)) continue;
                // The last vertex has a list of its own: negative numbers until they are parted.
                int32_t item = m->triangle_base + t;
                if (!qpc_array_push(&det->near_triangles, v == 0 ? item : -1 - item))
                    return no_memory(err);
            }
        }
    }
    qpc_status status = QPC_OK;
    if (c->node_count > 1)
        status = set(det, &det->ee[f], det->near_edges.data, det->near_edges.count, err);
    // Part the two vertices' triangles, in place.
    int32_t mine = 0, *t = det->near_triangles.data;
    det->found.count = 0;
    for (int32_t i = 0; i < det->near_triangles.count; i++) {
        if (t[i] >= 0) {
            t[mine++] = t[i];
        } else if (!qpc_array_push(&det->found, -1 - t[i])) {
            return no_memory(err);
        }
    }
    if (status == QPC_OK && own) status = set(det, &det->vt[f], t, mine, err);
    if (status == QPC_OK && next)
        status = set(det, &det->vt[last], det->found.data, det->found.count, err);
    return status;
}

/// List of edge k against edges of chains, kept symmetrical.
static qpc_status list_chains(qpc_detector *det, const qpc_chain_part *c, int32_t k,
                              qpc_error *err) {
    int32_t f = c->feature_base + k;
    qpc_list *mine = &det->cc[f];
    for (int32_t i = 0; i < mine->count; i++) drop(det, &det->cc[det->items[mine->start + i]], f);
    const qpc_dbox *box = &c->tree[c->leaves + k];
    det->near_edges.count = 0;
    for (int32_t i = 0; i < det->chain_count; i++) {
        const qpc_chain_part *o = &det->chains[i];
        if (c->motion != QPC_DYNAMIC && o->motion != QPC_DYNAMIC) continue;
        // Neighbours along the chain are in no list (kinks.c): who has edge k among those ahead of it?
        int32_t low = o == c ? k : 1, high = o == c ? c->neighbour[k] : 0;
        while (o == c && low > 0 && c->neighbour[low - 1] >= k) low--;
        det->found.count = 0;
        if (query_chain(o, box, low, high, &det->found, &det->counts.box_tests) != QPC_OK)
            return no_memory(err);
        for (int32_t q = 0; q < det->found.count; q++) {
            int32_t e = det->found.data[q];
            if (!qpc_array_push(&det->near_edges, o->feature_base + e)) return no_memory(err);
        }
    }
    qpc_status status = set(det, mine, det->near_edges.data, det->near_edges.count, err);
    for (int32_t i = 0; i < det->near_edges.count && status == QPC_OK; i++)
        status = add(det, &det->cc[det->near_edges.data[i]], f, err);
    return status;
}

static qpc_status update_chains(qpc_detector *det, const double *x0, const double *x1,
                                bool *ret_changed, qpc_error *err) {
    bool any = det->rebuild;
    for (int32_t i = 0; i < det->chain_count; i++) {
        qpc_chain_part *c = &det->chains[i];
        for (int32_t k = 0; k < c->node_count; k++) {
            int32_t f = c->feature_base + k;
            const double *p0 = x0 + 3 * (int64_t)(c->first_node + k);
            const double *p1 = x1 + 3 * (int64_t)(c->first_node + k);
            if (!isfinite(p0[0] + p0[1] + p0[2] + p1[0] + p1[1] + p1[2]))
                return qpc_fail(err, QPC_ERR_NUMERIC, "the position of node %d is not finite",
                                (int)(c->first_node + k));
            if (x0 != x1) det->last_motion[f] = v3_sub(v3_load(p1), v3_load(p0));
            // What is asked about at rest gets a tight box, which the fat one must hold.
            qpc_dbox now = x0 == x1 ? qpc_tight_box(c, p0, det->last_motion[f]) : qpc_dbox_empty();
            qpc_dbox_add(&now, p0);
            qpc_dbox_add(&now, p1);
            det->changed[f] = det->rebuild;
            if (qpc_dbox_holds(&det->fat[f], now.lo) && qpc_dbox_holds(&det->fat[f], now.hi))
                continue;
            det->fat[f] = fat_box(c, &now, det->last_motion[f]);
            det->changed[f] = any = true;
        }
        for (int32_t k = 0; any && k < c->edge_count; k++) {
            int32_t f = c->feature_base + k, g = k + 1 < c->node_count ? f + 1 : f;
            if (!det->changed[f] && !det->changed[g]) continue;
            qpc_dbox hull = qpc_dbox_join(&det->fat[f], &det->fat[g]);
            hull = qpc_dbox_grow(&hull, det->cover * c->radius * (1 + 1e-12));
            put_leaf(c, k, &hull);
        }
    }
    *ret_changed = any;
    return QPC_OK;
}

qpc_status qpc_lists_follow(qpc_detector *det, const double *x0, const double *x1, qpc_error *err) {
    for (int32_t i = 0; i < det->mesh_count; i++) {
        qpc_mesh_part *m = &det->meshes[i];
        if (!m->moving) continue;
        qpc_status status = follow(m, x0, x1, &det->rebuild, err);
        if (status != QPC_OK) return status;
    }
    return QPC_OK;
}

static void note_motion(qpc_detector *det, const double *x0, const double *x1) {
    for (int32_t i = 0; i < det->chain_count; i++) {
        const qpc_chain_part *c = &det->chains[i];
        for (int32_t k = 0; k < c->node_count; k++) {
            int64_t at = 3 * (int64_t)(c->first_node + k);
            det->last_motion[c->feature_base + k] = v3_sub(v3_load(x1 + at), v3_load(x0 + at));
        }
    }
}

/// Lists of what has a new fat box.
static qpc_status renew(qpc_detector *det, const double *x0, const double *x1, qpc_error *err) {
    if (det->rebuild) {
        memset(det->vt, 0, (size_t)det->feature_count * sizeof *det->vt);
        memset(det->ee, 0, (size_t)det->feature_count * sizeof *det->ee);
        memset(det->cc, 0, (size_t)det->feature_count * sizeof *det->cc);
        det->items_used = 0;
        det->live = 0;
    }
    bool changed = false;
    qpc_status status = update_chains(det, x0, x1, &changed, err);
    if (status != QPC_OK || !changed) return status;
    for (int32_t i = 0; i < det->chain_count && status == QPC_OK; i++) {
        const qpc_chain_part *c = &det->chains[i];
        for (int32_t k = 0; k < c->edge_count && status == QPC_OK; k++) {
            int32_t f = c->feature_base + k, g = k + 1 < c->node_count ? f + 1 : f;
            if (!det->changed[f] && !det->changed[g]) continue;
            det->counts.list_rebuilds++;
            if ((c->motion == QPC_DYNAMIC || det->sheets != NULL) && det->mesh_count > 0)
                status = list_meshes(det, c, k, err);
            if (status == QPC_OK) status = list_chains(det, c, k, err);
        }
    }
    return status;
}

qpc_status qpc_lists_update(qpc_detector *det, const double *x0, const double *x1, double reach,
                            qpc_error *err) {
    // Without chains only the broad phase of surfaces follows them.
    if (det->chain_count > 0 || det->sheets == NULL) {
        qpc_status status = qpc_lists_follow(det, x0, x1, err);
        if (status != QPC_OK) return status;
    }
    if (!(reach <= det->cover)) det->cover = reach, det->rebuild = true;
    det->use_near = !det->rebuild && qpc_shortlist_holds(det, x1, reach) && (x0 == x1 || qpc_shortlist_holds(det, x0, reach));
    if (det->use_near) {
        if (x0 != x1) note_motion(det, x0, x1);
        return QPC_OK;
    }
    qpc_status status = renew(det, x0, x1, err);
    if (status == QPC_OK && x0 == x1) {
        status = qpc_shortlist_make(det, x0, reach, err);
        det->use_near = true;
    } else if (det->rebuild) {
        det->near_valid = false; // global numbers stay, but a mesh may have moved
    }
    det->rebuild = status != QPC_OK;
    return status;
}
