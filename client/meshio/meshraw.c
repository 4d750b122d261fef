/// Raw meshes, checked as they grow; polygons as triangles. See meshraw.h.
#include "client/meshio/meshraw.h"

#include <math.h>

void qpc_raw_fini(qpc_mesh_raw *raw) {
    qpc_array_fini(&raw->nodes);
    qpc_array_fini(&raw->tets);
    qpc_array_fini(&raw->triangles);
    qpc_array_fini(&raw->corners);
    qpc_array_fini(&raw->ring);
    qpc_array_fini(&raw->plane);
}

static qpc_status no_memory(qpc_error *err) {
    return qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
}

qpc_status qpc_raw_node(qpc_mesh_raw *raw, const qpc_mesh_text *t, const double x[3],
                        qpc_error *err) {
    for (int k = 0; k < 3; k++)
        if (!isfinite(x[k]))
            return qpc_text_fail(t, err, "coordinate %d of node %d is not finite", k,
                                 (int)qpc_raw_node_count(raw));
    if (!qpc_array_reserve(&raw->nodes, (int64_t)raw->nodes.count + 3)) return no_memory(err);
    memcpy(raw->nodes.data + raw->nodes.count, x, 3 * sizeof *x);
    raw->nodes.count += 3;
    return QPC_OK;
}

qpc_status qpc_raw_index(const qpc_mesh_raw *raw, const qpc_mesh_text *t, int64_t index,
                         int64_t base, int32_t *ret, qpc_error *err) {
    int32_t count = qpc_raw_node_count(raw);
    if (index < base || index - base >= count)
        return qpc_text_fail(t, err, "an element uses node %lld; the nodes are %lld to %lld",
                             (long long)index, (long long)base, (long long)(base + count - 1));
    *ret = (int32_t)(index - base);
    return QPC_OK;
}

qpc_status qpc_raw_tet(qpc_mesh_raw *raw, const qpc_mesh_text *t, const int32_t nodes[4],
                       qpc_error *err) {
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            if (nodes[i] == nodes[j])
                return qpc_text_fail(t, err, "tetrahedron %d has a node twice (the file's node %d)",
                                     raw->tets.count / 4, nodes[i]);
    if (!qpc_array_reserve(&raw->tets, (int64_t)raw->tets.count + 4)) return no_memory(err);
    memcpy(raw->tets.data + raw->tets.count, nodes, 4 * sizeof *nodes);
    raw->tets.count += 4;
    return QPC_OK;
}

qpc_status qpc_raw_triangle(qpc_mesh_raw *raw, int32_t a, int32_t b, int32_t c, qpc_error *err) {
    if (!qpc_array_reserve(&raw->triangles, (int64_t)raw->triangles.count + 3))
        return no_memory(err);
    int32_t *to = raw->triangles.data + raw->triangles.count;
    to[0] = a;
    to[1] = b;
    to[2] = c;
    raw->triangles.count += 3;
    return QPC_OK;
}

// ---- polygons ----
//
// A polygon is looked at in the coordinate plane that its normal (the sum over its edges) is
// nearest to, where it runs counter-clockwise.

typedef struct polygon {
    qpc_mesh_raw *raw;
    const int32_t *corners;
    const double *xy; // (count x 2), relative to corner 0
    int32_t *before, *after;
    int32_t count;
} polygon;

/// False if the polygon has no area vector to speak of.
static bool project(qpc_mesh_raw *raw, const int32_t *corners, int32_t count) {
    const double *x = raw->nodes.data, *o = x + 3 * (size_t)corners[0];
    double n[3] = {0};
    for (int32_t i = 1; i + 1 < count; i++) {
        const double *a = x + 3 * (size_t)corners[i], *b = x + 3 * (size_t)corners[i + 1];
        for (int k = 0; k < 3; k++) {
            int u = (k + 1) % 3, v = (k + 2) % 3;
            n[k] += (a[u] - o[u]) * (b[v] - o[v]) - (a[v] - o[v]) * (b[u] - o[u]);
        }
    }
    int k = 0;
    if (fabs(n[1]) > fabs(n[k])) k = 1;
    if (fabs(n[2]) > fabs(n[k])) k = 2;
    int u = n[k] > 0 ? (k + 1) % 3 : (k + 2) % 3, v = n[k] > 0 ? (k + 2) % 3 : (k + 1) % 3;
    for (int32_t i = 0; i < count; i++) {
        const double *a = x + 3 * (size_t)corners[i];
        raw->plane.data[2 * i] = a[u] - o[u];
        raw->plane.data[2 * i + 1] = a[v] - o[v];
    }
    return fabs(n[k]) > 0 && isfinite(n[k]);
}

/// Twice the area of a, b, c.
static double turn(const polygon *g, int32_t a, int32_t b, int32_t c) {
    const double *p = g->xy + 2 * (size_t)a, *q = g->xy + 2 * (size_t)b, *r = g->xy + 2 * (size_t)c;
    return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]);
}

static bool same_place(const polygon *g, int32_t a, int32_t b) {
    return memcmp(g->xy + 2 * (size_t)a, g->xy + 2 * (size_t)b, 2 * sizeof(double)) == 0;
}

/// No other corner is in the triangle of i and its neighbours, which turns left.
static bool is_ear(const polygon *g, int32_t i) {
    int32_t a = g->before[i], c = g->after[i];
    if (!(turn(g, a, i, c) > 0)) return false;
    for (int32_t k = g->after[c]; k != a; k = g->after[k]) {
        g->raw->work++;
        if (same_place(g, k, a) || same_place(g, k, i) || same_place(g, k, c)) continue;
        if (turn(g, a, i, k) >= 0 && turn(g, i, c, k) >= 0 && turn(g, c, a, k) >= 0) return false;
    }
    return true;
}

/// Where no ear is left (a polygon that crosses itself), the next corner goes as if it were one.
static qpc_status cut_ears(polygon *g, qpc_error *err) {
    int32_t at = 0, tried = 0;
    for (int32_t left = g->count; left > 3;) {
        if (g->raw->work > QPC_POLYGON_WORK_MOST)
            return qpc_fail(err, QPC_ERR_LIMIT,
                            "polygons that are not convex have too many corners (here %d); more "
                            "than %d tests",
                            (int)g->count, QPC_POLYGON_WORK_MOST);
        g->raw->work++;
        if (tried < left && !is_ear(g, at)) {
            tried++;
            at = g->after[at];
            continue;
        }
        int32_t a = g->before[at], c = g->after[at];
        qpc_status st = qpc_raw_triangle(g->raw, g->corners[a], g->corners[at], g->corners[c], err);
        if (st != QPC_OK) return st;
        g->after[a] = c;
        g->before[c] = a;
        at = c;
        tried = 0;
        left--;
    }
    int32_t a = g->before[at], c = g->after[at];
    return qpc_raw_triangle(g->raw, g->corners[a], g->corners[at], g->corners[c], err);
}

qpc_status qpc_raw_polygon(qpc_mesh_raw *raw, const int32_t *corners, int32_t count,
                           qpc_error *err) {
    if (count < 3) {
        raw->skipped++;
        return QPC_OK;
    }
    if (count == 3) return qpc_raw_triangle(raw, corners[0], corners[1], corners[2], err);
    if (!qpc_array_reserve(&raw->ring, 2 * (int64_t)count) ||
        !qpc_array_reserve(&raw->plane, 2 * (int64_t)count))
        return no_memory(err);
    polygon g = {.raw = raw,
                 .corners = corners,
                 .xy = raw->plane.data,
                 .before = raw->ring.data,
                 .after = raw->ring.data + count,
                 .count = count};
    bool fan = true;
    if (project(raw, corners, count))
        for (int32_t i = 0; i < count && fan; i++)
            fan = turn(&g, (i + count - 1) % count, i, (i + 1) % count) > 0;
    qpc_status st = QPC_OK;
    for (int32_t i = 1; fan && i + 1 < count && st == QPC_OK; i++)
        st = qpc_raw_triangle(raw, corners[0], corners[i], corners[i + 1], err);
    if (fan) return st;
    for (int32_t i = 0; i < count; i++) {
        g.before[i] = (i + count - 1) % count;
        g.after[i] = (i + 1) % count;
    }
    return cut_ears(&g, err);
}
