/// Intersections of triangle surfaces by exact predicates, and the check of the pairs that their
/// broad phase gives against brute force; see sheets.h.
///
/// Two surfaces intersect where an edge of one meets a triangle of the other; touching counts.
/// Within one surface features share vertices. An edge and a triangle with one vertex in common
/// meet elsewhere only if the edge lies in the triangle's plane and runs into the triangle, as two
/// triangles do that are folded flat onto each other; lying side by side they do not. An edge of
/// the triangle itself is left out.
#include "base/mem.h"
#include "engine/collision/features.h"
#include "engine/collision/sheets.h"
#include "engine/geometry/predicates.h"

#include <stdlib.h>
#include <string.h>

/// The projection of a non-degenerate triangle along one axis that has an area: its sign, or 0.
static int turn(const qpc_vec3 p[3], int drop) {
    double q[3][2];
    for (int i = 0; i < 3; i++) {
        double v[3] = {p[i].x, p[i].y, p[i].z};
        q[i][0] = v[(drop + 1) % 3];
        q[i][1] = v[(drop + 2) % 3];
    }
    return qpc_orient2d(q[0], q[1], q[2]);
}

static int turn3(qpc_vec3 a, qpc_vec3 b, qpc_vec3 c, int drop) {
    return turn((qpc_vec3[3]){a, b, c}, drop);
}

typedef struct search {
    qpc_detector *det;
    const double *x;
    const qpc_mesh_part *mi, *mj;
    int32_t edge, triangle; // being looked at
} search;

static qpc_vec3 vertex(const search *s, const qpc_mesh_part *m, int32_t v) {
    return qpc_node(s->x, m->first_node + v);
}

/// The edge from `shared` to `to` runs into the triangle, which has a corner at `shared`; within
/// one plane. Where it runs along a side, a triangle at the edge decides: on the same side of the
/// edge they lie on each other.
static bool folded(const search *s, int32_t shared, int32_t to, int corner) {
    const qpc_mesh_part *m = s->mi;
    const int32_t *v = m->triangles + 3 * (int64_t)s->triangle;
    qpc_vec3 a = vertex(s, m, shared), w = vertex(s, m, to);
    qpc_vec3 b = vertex(s, m, v[(corner + 1) % 3]), c = vertex(s, m, v[(corner + 2) % 3]);
    int drop = 0, area = 0;
    if (qpc_orient3d(a, b, c, w) != 0) return false;
    for (; drop < 3 && area == 0; drop++) area = turn3(a, b, c, drop);
    if (area == 0) return false; // the triangle has no area
    drop--;
    int from_b = turn3(a, b, w, drop) * area, from_c = turn3(a, w, c, drop) * area;
    if (from_b > 0 && from_c > 0) return true;
    // Along side a b or a c, in its direction?
    qpc_vec3 side = from_b == 0 ? b : c, other = from_b == 0 ? c : b;
    if (from_b < 0 || from_c < 0) return false;
    if (!(v3_dot(v3_sub(w, a), v3_sub(side, a)) > 0)) return false;
    const qpc_topology *t = m->topology;
    for (int32_t i = t->edge_triangle_start[s->edge]; i < t->edge_triangle_start[s->edge + 1];
         i++) {
        int32_t n = t->edge_triangle[i];
        const int32_t *u = m->triangles + 3 * (int64_t)n;
        if (n == s->triangle || t->triangle_degenerate[n]) continue;
        int32_t third = -1;
        for (int k = 0; k < 3; k++)
            if (u[k] != shared && u[k] != to) third = u[k];
        if (third < 0) continue;
        qpc_vec3 d = vertex(s, m, third);
        if (qpc_orient3d(a, b, c, d) != 0) continue;
        if (turn3(a, w, d, drop) * turn3(a, w, other, drop) > 0) return true;
    }
    return false;
}

static bool meets(const search *s) {
    const int32_t *e = qpc_edge_nodes(s->mi, s->edge);
    const int32_t *v = s->mj->triangles + 3 * (int64_t)s->triangle;
    if (s->mi == s->mj) {
        int common = 0, end = 0, corner = 0;
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < 3; k++)
                if (e[i] == v[k]) {
                    common |= 1 << i;
                    end = i;
                    corner = k;
                }
        if (common == 3) return false;
        if (common != 0) return folded(s, e[end], e[1 - end], corner);
    }
    return qpc_segment_meets_triangle(vertex(s, s->mi, e[0]), vertex(s, s->mi, e[1]),
                                      vertex(s, s->mj, v[0]), vertex(s, s->mj, v[1]),
                                      vertex(s, s->mj, v[2]));
}

/// Triangles of mesh j whose box an edge's box meets, in order, in det->found.
static qpc_status near_triangles(search *s, qpc_error *err) {
    const qpc_mesh_part *m = s->mj;
    qpc_dbox b = qpc_dbox_empty();
    for (int k = 0; k < 2; k++)
        qpc_dbox_add(&b,
                     s->x + 3 * (int64_t)(s->mi->first_node + qpc_edge_nodes(s->mi, s->edge)[k]));
    b = qpc_dbox_grow(&b, m->slack + (m->moving ? 1e-6 * m->size : 0));
    qpc_fbox box = qpc_fbox_around(b.lo, b.hi, m->origin);
    s->det->found.count = 0;
    if (qpc_bvh_query(m->bvh, m->triangle_box, &box, &s->det->found, &s->det->counts.box_tests) !=
        QPC_OK)
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for overlaps");
    qpc_sort_items(s->det->found.data, s->det->found.count); // the tree's order should not show
    return QPC_OK;
}

static double depth(const search *s) {
    const int32_t *e = qpc_edge_nodes(s->mi, s->edge);
    const int32_t *v = s->mj->triangles + 3 * (int64_t)s->triangle;
    qpc_vec3 p[2], q[3];
    for (int k = 0; k < 2; k++) p[k] = vertex(s, s->mi, e[k]);
    for (int k = 0; k < 3; k++) q[k] = vertex(s, s->mj, v[k]);
    return qpc_overlap_depth(p, q);
}

qpc_status qpc_sheets_overlaps(qpc_detector *det, const double *x, int32_t first, int32_t end,
                               qpc_overlap *ret, int32_t max, int64_t *count, qpc_error *err) {
    if (det->sheets == NULL) return QPC_OK;
    search s = {.det = det, .x = x};
    for (int32_t i = 0; i < det->mesh_count; i++) {
        s.mi = &det->meshes[i];
        if (s.mi->surface < first || s.mi->surface >= end) continue;
        for (int32_t j = 0; j < det->mesh_count; j++) {
            s.mj = &det->meshes[j];
            if (s.mi->motion != QPC_DYNAMIC && s.mj->motion != QPC_DYNAMIC) continue;
            if (i == j && s.mi->rigid) continue;
            for (s.edge = 0; s.edge < s.mi->edge_count; s.edge++) {
                qpc_status status = near_triangles(&s, err);
                if (status != QPC_OK) return status;
                for (int32_t k = 0; k < det->found.count; k++) {
                    s.triangle = det->found.data[k];
                    if (!meets(&s)) continue;
                    if (*count < max)
                        ret[*count] = (qpc_overlap){
                            {s.mi->surface, s.mj->surface}, {s.edge, s.triangle}, depth(&s)};
                    ++*count;
                }
            }
        }
    }
    return QPC_OK;
}

// ---- check ----

static qpc_dbox motion_box(const double *x0, const double *x1, const int32_t *nodes, int count,
                           int32_t first, double by) {
    qpc_dbox b = qpc_dbox_empty();
    for (int i = 0; i < count; i++) {
        qpc_dbox_add(&b, x0 + 3 * (int64_t)(first + nodes[i]));
        qpc_dbox_add(&b, x1 + 3 * (int64_t)(first + nodes[i]));
    }
    return qpc_dbox_grow(&b, by);
}

static bool share(const int32_t *a, int count_a, const int32_t *b, int count_b) {
    for (int i = 0; i < count_a; i++)
        for (int k = 0; k < count_b; k++)
            if (a[i] == b[k]) return true;
    return false;
}

static int by_numbers(const void *a, const void *b) {
    const qpc_pair *p = a, *q = b;
    if (p->a != q->a) return p->a < q->a ? -1 : 1;
    return (p->b > q->b) - (p->b < q->b);
}

/// All pairs of the broad phase in order; NULL when memory is out.
static qpc_pair *all_pairs(const qpc_broad *broad, bool vt, int64_t *ret_count) {
    int64_t count = 0;
    int32_t slices = qpc_broad_slice_count(broad);
    for (int32_t s = 0; s < slices; s++)
        count += (vt ? qpc_broad_vt(broad, s) : qpc_broad_ee(broad, s))->count;
    qpc_pair *pairs = qpc_alloc_array((size_t)count, sizeof *pairs);
    if (pairs == NULL) return NULL;
    count = 0;
    for (int32_t s = 0; s < slices; s++) {
        const qpc_pairs *from = vt ? qpc_broad_vt(broad, s) : qpc_broad_ee(broad, s);
        if (from->count > 0) memcpy(pairs + count, from->data, (size_t)from->count * sizeof *pairs);
        count += from->count;
    }
    qsort(pairs, (size_t)count, sizeof *pairs, by_numbers);
    *ret_count = count;
    return pairs;
}

static bool pairs_hold(const qpc_pair *pairs, int64_t count, qpc_pair want) {
    const qpc_pair *at = bsearch(&want, pairs, (size_t)count, sizeof *pairs, by_numbers);
    if (at == NULL) return false;
    bool twice = (at > pairs && by_numbers(at - 1, at) == 0) ||
                 (at + 1 < pairs + count && by_numbers(at + 1, at) == 0);
    return !twice;
}

/// Features of mesh i (vertices or edges) against those of mesh j (triangles or edges).
static bool check_meshes(const qpc_detector *det, const qpc_mesh_part *mi, const qpc_mesh_part *mj,
                         bool vt, const double *x0, const double *x1, const qpc_pair *pairs,
                         int64_t count, qpc_error *err) {
    int32_t features = vt ? mi->node_count : mi->edge_count;
    int32_t others = vt ? mj->triangle_count : mj->edge_count;
    int64_t most = 1 << 25; // boxes to look at
    int32_t stride = (int32_t)((int64_t)features * others / most) + 1;
    for (int32_t a = 0; a < features; a += stride) {
        const int32_t *edges = mi->topology->vertex_edge_start;
        if (vt && edges[a] == edges[a + 1]) continue; // in no triangle, or in a point only
        const int32_t *p = vt ? &a : qpc_edge_nodes(mi, a);
        qpc_dbox box = motion_box(x0, x1, p, vt ? 1 : 2, mi->first_node, det->cover * mi->radius);
        for (int32_t b = !vt && mi == mj ? a + 1 : 0; b < others; b++) {
            const int32_t *q = vt ? mj->triangles + 3 * (int64_t)b : qpc_edge_nodes(mj, b);
            qpc_dbox other =
                motion_box(x0, x1, q, vt ? 3 : 2, mj->first_node, det->cover * mj->radius);
            if (!qpc_dbox_overlap(&box, &other)) continue;
            if (mi == mj && share(p, vt ? 1 : 2, q, vt ? 3 : 2)) continue;
            qpc_pair want = {vt ? mi->first_node + a : mi->sheet_edge_base + a,
                             vt ? mj->triangle_base + b : mj->sheet_edge_base + b};
            if (pairs_hold(pairs, count, want)) continue;
            qpc_fail(err, QPC_ERR_INTERNAL,
                     "%s %d of surface %d and %s %d of surface %d are missing from the pairs",
                     vt ? "vertex" : "edge", (int)a, (int)mi->surface, vt ? "triangle" : "edge",
                     (int)b, (int)mj->surface);
            return false;
        }
    }
    return true;
}

bool qpc_sheets_check(qpc_detector *det, const double *x0, const double *x1, qpc_error *err) {
    if (det->sheets == NULL) return true;
    if (qpc_sheets_update(det, x0, x1, det->cover, err) != QPC_OK) return false;
    const qpc_broad *broad = qpc_sheets_broad(det->sheets);
    bool ok = qpc_broad_check(broad, err);
    for (int kind = 0; kind < 2 && ok; kind++) {
        int64_t count;
        qpc_pair *pairs = all_pairs(broad, kind == 0, &count);
        if (pairs == NULL) {
            qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a check");
            return false;
        }
        for (int32_t i = 0; i < det->mesh_count && ok; i++)
            for (int32_t j = kind == 0 ? 0 : i; j < det->mesh_count && ok; j++) {
                const qpc_mesh_part *mi = &det->meshes[i], *mj = &det->meshes[j];
                if (mi->motion != QPC_DYNAMIC && mj->motion != QPC_DYNAMIC) continue;
                if (i == j && mi->rigid) continue;
                ok = check_meshes(det, mi, mj, kind == 0, x0, x1, pairs, count, err);
            }
        qpc_free(pairs);
    }
    return ok;
}
