/// Pairs that truly intersect, by exact predicates; and the check of the lists against brute force.
#include "engine/collision/obstacles.h"
#include "engine/collision/sheets.h"
#include "engine/collision/walk.h"
#include "engine/geometry/closest.h"
#include "engine/geometry/predicates.h"

static void report(qpc_overlap *ret, int32_t max, int64_t *count, qpc_overlap o) {
    if (*count < max) ret[*count] = o;
    ++*count;
}

double qpc_overlap_depth(const qpc_vec3 p[2], const qpc_vec3 t[3]) {
    qpc_vec3 n = v3_cross(v3_sub(t[1], t[0]), v3_sub(t[2], t[0]));
    double length = v3_norm(n);
    if (!(length > 0)) return 0;
    double a = v3_dot(n, v3_sub(p[0], t[0])) / length, b = v3_dot(n, v3_sub(p[1], t[0])) / length;
    return fmax(0, fmin(fmax(a, b), -fmin(a, b)));
}

/// Heap sort.
void qpc_sort_items(int32_t *v, int32_t n) {
    for (int32_t top = n / 2, end = n; end > 1;) {
        int32_t item, at, child;
        if (top > 0) {
            item = v[--top];
            at = top;
        } else {
            item = v[--end];
            v[end] = v[0];
            at = 0;
        }
        for (; (child = 2 * at + 1) < end; at = child) {
            if (child + 1 < end && v[child + 1] > v[child]) child++;
            if (v[child] <= item) break;
            v[at] = v[child];
        }
        v[at] = item;
    }
}

static qpc_status overlaps_mesh(qpc_detector *det, const double *x, const qpc_chain_part *c,
                                int32_t k, const qpc_mesh_part *m, qpc_overlap *ret, int32_t max,
                                int64_t *count, qpc_error *err) {
    qpc_vec3 p[2] = {qpc_node(x, c->first_node + k), qpc_node(x, qpc_chain_next(c, k))};
    qpc_dbox b = qpc_dbox_empty();
    for (int i = 0; i < 2; i++) qpc_dbox_add(&b, (double[3]){p[i].x, p[i].y, p[i].z});
    b = qpc_dbox_grow(&b, m->slack + (m->moving ? 1e-6 * m->size : 0));
    qpc_fbox box = qpc_fbox_around(b.lo, b.hi, m->origin);
    det->found.count = 0;
    if (qpc_bvh_query(m->bvh, m->triangle_box, &box, &det->found, &det->counts.box_tests) != QPC_OK)
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for overlaps");
    qpc_sort_items(det->found.data, det->found.count); // the tree's order should not show
    for (int32_t i = 0; i < det->found.count; i++) {
        int32_t t = det->found.data[i];
        qpc_vec3 q[3];
        for (int j = 0; j < 3; j++)
            q[j] = qpc_node(x, m->first_node + m->triangles[3 * (int64_t)t + j]);
        if (!qpc_segment_meets_triangle(p[0], p[1], q[0], q[1], q[2])) continue;
        report(ret, max, count,
               (qpc_overlap){{c->surface, m->surface}, {k, t}, qpc_overlap_depth(p, q)});
    }
    return QPC_OK;
}

static void overlaps_chain(const double *x, const qpc_chain_part *c, int32_t a,
                           const qpc_chain_part *o, int32_t b, qpc_overlap *ret, int32_t max,
                           int64_t *count) {
    qpc_vec3 p[4] = {qpc_node(x, c->first_node + a), qpc_node(x, qpc_chain_next(c, a)),
                     qpc_node(x, o->first_node + b), qpc_node(x, qpc_chain_next(o, b))};
    qpc_closest near;
    qpc_closest_ee(p, &near);
    double size = 0;
    for (int i = 1; i < 4; i++) size = fmax(size, v3_norm(v3_sub(p[i], p[0])));
    if (near.distance >= 1e-12 * size && !qpc_segments_meet(p[0], p[1], p[2], p[3])) return;
    report(ret, max, count, (qpc_overlap){{c->surface, o->surface}, {a, b}, c->radius + o->radius});
}

qpc_status qpc_detect_overlaps(qpc_detector *det, const double *x, qpc_overlap *ret, int32_t max,
                               int64_t *ret_count, qpc_error *err) {
    det->near_valid = false; // the lists themselves are walked here
    qpc_status status = qpc_lists_update(det, x, x, 0, err);
    if (status == QPC_OK && det->sheets != NULL) status = qpc_lists_follow(det, x, x, err);
    int64_t count = 0;
    int32_t surfaces = 0; // below this are done
    for (int32_t i = 0; i < det->chain_count; i++) {
        const qpc_chain_part *c = &det->chains[i];
        if (status == QPC_OK)
            status = qpc_sheets_overlaps(det, x, surfaces, c->surface, ret, max, &count, err);
        surfaces = c->surface + 1;
        if (status != QPC_OK) return status;
        qpc_chain_find_kinks(c, x, x, 1);
        for (int32_t k = 0; k < c->edge_count; k++) {
            for (int32_t j = 0; j < det->mesh_count; j++) {
                if (c->motion != QPC_DYNAMIC && det->meshes[j].motion != QPC_DYNAMIC) continue;
                if (status != QPC_OK) return status;
                status = overlaps_mesh(det, x, c, k, &det->meshes[j], ret, max, &count, err);
            }
            for (int32_t o = k + 2; c->kinked[k] && o <= c->neighbour[k]; o++) overlaps_chain(x, c, k, c, o, ret, max, &count);
            // Partners after this edge, in order: lists keep them in any order.
            int32_t f = c->feature_base + k, after = f;
            const qpc_list *l = &det->cc[f];
            for (;;) {
                int32_t next = INT32_MAX;
                for (int32_t q = 0; q < l->count; q++) {
                    int32_t g = det->items[l->start + q];
                    if (g > after && g < next) next = g;
                }
                if (next == INT32_MAX) break;
                const qpc_chain_part *o = &det->chains[det->feature_chain[next]];
                overlaps_chain(x, c, k, o, next - o->feature_base, ret, max, &count);
                after = next;
            }
        }
    }
    if (status == QPC_OK)
        status = qpc_sheets_overlaps(det, x, surfaces, INT32_MAX, ret, max, &count, err);
    if (status == QPC_OK) qpc_obstacles_overlaps(det, x, ret, max, &count);
    if (status == QPC_OK) *ret_count = count;
    return status;
}

// ---- check ----

static bool lists_hold(const qpc_detector *det, const qpc_list *l, int32_t item) {
    int32_t times = 0;
    for (int32_t i = 0; i < l->count; i++) times += det->items[l->start + i] == item;
    return times == 1;
}

/// What the tight boxes left out is out of reach at x, or no feature of a static mesh.
static bool choice_is_complete(const qpc_detector *det, const double *x, double reach,
                               qpc_error *err) {
    for (int32_t f = 0; f < det->feature_count; f++) {
        const qpc_chain_part *c = &det->chains[det->feature_chain[f]];
        int32_t k = f - c->feature_base;
        for (int edge = 0; edge < (k < c->edge_count ? 2 : 1); edge++) {
            const qpc_list *all = edge ? &det->ee[f] : &det->vt[f];
            const qpc_list *near = edge ? &det->near_ee[f] : &det->near_vt[f];
            for (int32_t i = 0, n = 0; i < all->count; i++) {
                int32_t item = det->items[all->start + i];
                if (n < near->count && det->near_items[near->start + n] == item) { // same order
                    n++;
                    continue;
                }
                const qpc_mesh_part *m = qpc_mesh_of(det->meshes, item, edge);
                int32_t j = item - (edge ? m->edge_base : m->triangle_base);
                const int32_t *v = edge ? qpc_edge_nodes(m, j) : m->triangles + 3 * (int64_t)j;
                double by = reach * (c->radius + m->radius);
                qpc_vec3 p[4] = {qpc_node(x, c->first_node + k), qpc_node(x, qpc_chain_next(c, k))};
                for (int s = 1 + edge; s < 4; s++)
                    p[s] = qpc_node(x, m->first_node + v[s - 1 - edge]);
                qpc_closest near_by;
                edge ? qpc_closest_ee(p, &near_by) : qpc_closest_vt(p, &near_by);
                if (near_by.distance >= by ||
                    (edge ? qpc_behind_edge(m, j, p, by, 0) : qpc_beside_triangle(m, j, p, by, 0)))
                    continue;
                qpc_fail(
                    err, QPC_ERR_INTERNAL,
                    "%s %d of surface %d and %s %d of surface %d, %g m apart, are missing from "
                    "the candidates near x",
                    edge ? "edge" : "vertex", (int)k, (int)c->surface, edge ? "edge" : "triangle",
                    (int)j, (int)m->surface, near_by.distance);
                return false;
            }
        }
    }
    return true;
}

static qpc_dbox motion_box(const double *x0, const double *x1, const int32_t *nodes, int count,
                           double by) {
    qpc_dbox b = qpc_dbox_empty();
    for (int i = 0; i < count; i++) {
        qpc_dbox_add(&b, x0 + 3 * (int64_t)nodes[i]);
        qpc_dbox_add(&b, x1 + 3 * (int64_t)nodes[i]);
    }
    return qpc_dbox_grow(&b, by);
}

bool qpc_detector_check(qpc_detector *det, const double *x0, const double *x1, qpc_error *err) {
    for (int end = 0; end < 2; end++) {
        const double *x = end == 0 ? x0 : x1;
        if (qpc_lists_update(det, x, x, 1, err) != QPC_OK || !choice_is_complete(det, x, 1, err))
            return false;
    }
    det->near_valid = false; // the lists themselves are checked from here on
    if (qpc_lists_update(det, x0, x1, det->cover, err) != QPC_OK) return false;
    for (int32_t i = 0; i < det->mesh_count; i++)
        if (!qpc_bvh_check(det->meshes[i].bvh, det->meshes[i].triangle_box)) {
            qpc_fail(err, QPC_ERR_INTERNAL, "the tree of surface %d does not hold its triangles",
                     (int)det->meshes[i].surface);
            return false;
        }
    for (int32_t i = 0; i < det->chain_count; i++) {
        const qpc_chain_part *c = &det->chains[i];
        for (int32_t k = 0; k < c->node_count; k++) {
            int32_t f = c->feature_base + k;
            int32_t edge[2] = {c->first_node + k, qpc_chain_next(c, k)};
            for (int32_t j = 0; j < det->mesh_count; j++) {
                const qpc_mesh_part *m = &det->meshes[j];
                if (c->motion != QPC_DYNAMIC && m->motion != QPC_DYNAMIC) continue;
                double by = det->cover * (c->radius + m->radius);
                qpc_dbox vertex_box = motion_box(x0, x1, edge, 1, by);
                qpc_dbox edge_box = motion_box(x0, x1, edge, 2, by);
                for (int32_t t = 0; t < m->triangle_count; t++) {
                    int32_t v[3];
                    for (int s = 0; s < 3; s++) v[s] = m->first_node + m->triangles[3 * t + s];
                    qpc_dbox b = motion_box(x0, x1, v, 3, 0);
                    if (!qpc_dbox_overlap(&b, &vertex_box) ||
                        lists_hold(det, &det->vt[f], m->triangle_base + t))
                        continue;
                    qpc_fail(err, QPC_ERR_INTERNAL,
                             "vertex %d of surface %d and triangle %d of surface %d are missing "
                             "from the lists",
                             (int)k, (int)c->surface, (int)t, (int)m->surface);
                    return false;
                }
                for (int32_t e = 0; e < m->edge_count && k < c->edge_count && c->node_count > 1;
                     e++) {
                    int32_t v[2];
                    for (int s = 0; s < 2; s++)
                        v[s] = m->first_node + m->topology->edge_vertex[2 * e + s];
                    qpc_dbox b = motion_box(x0, x1, v, 2, 0);
                    if (!qpc_dbox_overlap(&b, &edge_box) ||
                        lists_hold(det, &det->ee[f], m->edge_base + e))
                        continue;
                    qpc_fail(err, QPC_ERR_INTERNAL,
                             "edge %d of surface %d and edge %d of surface %d are missing from the "
                             "lists",
                             (int)k, (int)c->surface, (int)e, (int)m->surface);
                    return false;
                }
            }
            if (k >= c->edge_count) continue;
            for (int32_t j = 0; j < det->chain_count; j++) {
                const qpc_chain_part *o = &det->chains[j];
                if (c->motion != QPC_DYNAMIC && o->motion != QPC_DYNAMIC) continue;
                for (int32_t q = 0; q < o->edge_count; q++) {
                    if (o == c && (q > k ? q <= c->neighbour[k] : k <= c->neighbour[q])) continue;
                    int32_t other[2] = {o->first_node + q, qpc_chain_next(o, q)};
                    qpc_dbox a = motion_box(x0, x1, edge, 2, det->cover * c->radius);
                    qpc_dbox b = motion_box(x0, x1, other, 2, det->cover * o->radius);
                    if (!qpc_dbox_overlap(&a, &b) ||
                        lists_hold(det, &det->cc[f], o->feature_base + q))
                        continue;
                    qpc_fail(err, QPC_ERR_INTERNAL,
                             "edge %d of surface %d and edge %d of surface %d are missing from the "
                             "lists",
                             (int)k, (int)c->surface, (int)q, (int)o->surface);
                    return false;
                }
            }
        }
    }
    return qpc_sheets_check(det, x0, x1, err);
}
