/// Triangles of one mesh that cross, touch, or fold onto each other, by exact signs.
///
/// A tree over the boxes gives the pairs. Without a common vertex two triangles cross if an edge of
/// one passes through the inside of the other, and touch if they have a point in common otherwise.
/// With one common vertex only the edges opposite to it can pass through; with a common edge the
/// two can only lie on each other.
#include "engine/preflight/internal.h"

#include "base/vec.h"
#include "engine/collision/bvh.h"
#include "engine/geometry/predicates.h"

#include <stdlib.h>

typedef struct hit {
    int32_t triangle;
    qpc_finding_kind kind;
} hit;
typedef QPC_ARRAY(hit) hits;

static const qpc_finding_kind NOTHING = QPC_FINDING_COUNT;

/// All points lie clearly outside of one side of t, seen along its normal: no point of their hull is
/// in t. Floating point with a margin for its rounding; it keeps flat neighbours from the exact
/// signs, which are slow where everything is in one plane.
static bool beside(const qpc_vec3 *p, int count, const qpc_vec3 t[3]) {
    qpc_vec3 u[3], normal = v3_cross(v3_sub(t[1], t[0]), v3_sub(t[2], t[0]));
    double reach = 0;
    for (int k = 0; k < count; k++) {
        u[k] = v3_sub(p[k], t[0]);
        reach = fmax(reach, fmax(fabs(u[k].x), fmax(fabs(u[k].y), fabs(u[k].z))));
    }
    qpc_vec3 c[3] = {v3(0, 0, 0), v3_sub(t[1], t[0]), v3_sub(t[2], t[0])};
    for (int k = 1; k < 3; k++)
        reach = fmax(reach, fmax(fabs(c[k].x), fmax(fabs(c[k].y), fabs(c[k].z))));
    for (int k = 0; k < 3; k++) {
        qpc_vec3 m = v3_cross(v3_sub(c[(k + 1) % 3], c[k]), normal);
        double margin = 0x1p-48 * reach * (fabs(m.x) + fabs(m.y) + fabs(m.z)) + 1e-300;
        double inner = fmax(0, fmax(v3_dot(m, c[1]), v3_dot(m, c[2]))), outer = INFINITY;
        for (int i = 0; i < count; i++) outer = fmin(outer, v3_dot(m, u[i]));
        if (outer - inner > margin) return true;
    }
    return false;
}

/// The open segment, whose ends are on different sides, passes through the open triangle.
static bool pierces(qpc_vec3 p, qpc_vec3 q, const qpc_vec3 t[3]) {
    int a = qpc_orient3d(p, q, t[0], t[1]);
    return a != 0 && qpc_orient3d(p, q, t[1], t[2]) == a && qpc_orient3d(p, q, t[2], t[0]) == a;
}

static bool meets(const qpc_vec3 a[3], const qpc_vec3 b[3]) {
    for (int k = 0; k < 3; k++)
        if (qpc_segment_meets_triangle(a[k], a[(k + 1) % 3], b[0], b[1], b[2]) ||
            qpc_segment_meets_triangle(b[k], b[(k + 1) % 3], a[0], a[1], a[2]))
            return true;
    return false;
}

/// Sides of the corners of p: all strictly on one side of the plane of t is no contact.
static bool apart(const qpc_vec3 p[3], const qpc_vec3 t[3], int ret_side[3]) {
    for (int k = 0; k < 3; k++) ret_side[k] = qpc_orient3d(t[0], t[1], t[2], p[k]);
    return ret_side[0] != 0 && ret_side[0] == ret_side[1] && ret_side[1] == ret_side[2];
}

static qpc_finding_kind without_common_vertex(const qpc_vec3 a[3], const qpc_vec3 b[3]) {
    int side_a[3], side_b[3];
    if (beside(a, 3, b) || beside(b, 3, a)) return NOTHING;
    if (apart(a, b, side_a) || apart(b, a, side_b)) return NOTHING;
    for (int k = 0; k < 3; k++) {
        int n = (k + 1) % 3;
        if (side_a[k] * side_a[n] < 0 && pierces(a[k], a[n], b)) return QPC_FINDING_SELF_INTERSECTIONS;
        if (side_b[k] * side_b[n] < 0 && pierces(b[k], b[n], a)) return QPC_FINDING_SELF_INTERSECTIONS;
    }
    return meets(a, b) ? QPC_FINDING_TOUCHING_TRIANGLES : NOTHING;
}

/// a[0] is b[0].
static qpc_finding_kind at_common_vertex(const qpc_vec3 a[3], const qpc_vec3 b[3]) {
    for (int k = 0; k < 2; k++) {
        const qpc_vec3 *s = k == 0 ? a : b, *t = k == 0 ? b : a;
        if (beside(s + 1, 2, t)) continue;
        int p = qpc_orient3d(t[0], t[1], t[2], s[1]), q = qpc_orient3d(t[0], t[1], t[2], s[2]);
        if (p * q > 0) return NOTHING; // all of s but the vertex is on one side
        if (p * q < 0 && pierces(s[1], s[2], t)) return QPC_FINDING_FOLDED_TRIANGLES;
    }
    return NOTHING;
}

/// a and b share p and q; c and d are their other corners.
static qpc_finding_kind at_common_edge(qpc_vec3 p, qpc_vec3 q, qpc_vec3 c, qpc_vec3 d) {
    qpc_vec3 u = v3_sub(q, p), n = v3_cross(u, v3_sub(c, p)), m = v3_cross(u, v3_sub(d, p));
    if (!(v3_dot(n, m) > 0) || qpc_orient3d(p, q, c, d) != 0) return NOTHING;
    return QPC_FINDING_FOLDED_TRIANGLES;
}

static qpc_finding_kind classify(const qpc_check *c, int64_t s, int64_t t) {
    const int32_t *v = c->corner + 3 * s, *w = c->corner + 3 * t;
    int common = 0, at[2][3] = {{0}}; // common corners first
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            if (v[i] == w[j]) {
                at[0][common] = i;
                at[1][common++] = j;
            }
    qpc_vec3 a[3], b[3];
    for (int k = 0; k < 3; k++) {
        a[k] = v3_load(c->x + 3 * (int64_t)v[common == 1 ? (at[0][0] + k) % 3 : k]);
        b[k] = v3_load(c->x + 3 * (int64_t)w[common == 1 ? (at[1][0] + k) % 3 : k]);
    }
    switch (common) {
    case 0:
        return without_common_vertex(a, b);
    case 1:
        return at_common_vertex(a, b);
    case 2:
        return at_common_edge(a[at[0][0]], a[at[0][1]], a[3 - at[0][0] - at[0][1]],
                              b[3 - at[1][0] - at[1][1]]);
    default:
        return NOTHING; // the same three: found as repeated
    }
}

static int by_triangle(const void *a, const void *b) {
    const hit *p = a, *q = b;
    return (p->triangle > q->triangle) - (p->triangle < q->triangle);
}

static qpc_status cross_one(qpc_check *c, const qpc_bvh *bvh, const qpc_fbox *boxes, int32_t t,
                            qpc_items *found, hits *met) {
    uint64_t tests = 0;
    found->count = met->count = 0;
    if (qpc_bvh_query(bvh, boxes, &boxes[t], found, &tests) != QPC_OK) return QPC_ERR_MEMORY;
    for (int32_t i = 0; i < found->count; i++) {
        int32_t other = found->data[i];
        if (other <= t) continue;
        c->ret->pairs++;
        hit h = {other, classify(c, t, other)};
        if (h.kind != NOTHING && !qpc_array_push(met, h)) return QPC_ERR_MEMORY;
    }
    if (met->count > 1) qsort(met->data, (size_t)met->count, sizeof *met->data, by_triangle);
    for (int32_t i = 0; i < met->count; i++)
        qpc_check_add(c, met->data[i].kind, c->element[t], c->element[met->data[i].triangle], 0);
    return QPC_OK;
}

qpc_status qpc_check_crossings(qpc_check *c, qpc_error *err) {
    int32_t n = (int32_t)c->triangle_count;
    if (n < 2) return QPC_OK;
    qpc_items found = {0};
    hits met = {0};
    qpc_bvh *bvh = NULL;
    qpc_fbox *boxes = qpc_alloc_array((size_t)n, sizeof *boxes);
    qpc_status status = boxes != NULL ? QPC_OK : QPC_ERR_MEMORY;
    double origin[3];
    for (int d = 0; d < 3; d++) origin[d] = 0.5 * c->ret->low[d] + 0.5 * c->ret->high[d];
    for (int32_t t = 0; t < n && status == QPC_OK; t++) {
        double low[3] = {INFINITY, INFINITY, INFINITY}, high[3] = {-INFINITY, -INFINITY, -INFINITY};
        for (int k = 0; k < 3; k++)
            for (int d = 0; d < 3; d++) {
                double x = c->x[3 * (int64_t)c->corner[3 * (int64_t)t + k] + d];
                low[d] = x < low[d] ? x : low[d];
                high[d] = x > high[d] ? x : high[d];
            }
        boxes[t] = qpc_fbox_around(low, high, origin);
    }
    if (status == QPC_OK) status = qpc_bvh_build(boxes, n, &bvh, err);
    for (int32_t t = 0; t < n && status == QPC_OK; t++) {
        if (c->ret->pairs >= c->max_pairs) {
            c->ret->complete = false;
            break;
        }
        status = cross_one(c, bvh, boxes, t, &found, &met);
    }
    qpc_array_fini(&found);
    qpc_array_fini(&met);
    qpc_bvh_destroy(bvh);
    qpc_free(boxes);
    if (status != QPC_OK)
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory to look for crossings of %d triangles", (int)n);
    return QPC_OK;
}
