/// Springs and areas of a triangle mesh; see cloth.h. Made once, when a scene is read.
#include "engine/dynamics/cloth.h"

#include "base/mem.h"
#include "base/vec.h"

#include <string.h>

static qpc_vec3 vertex(const qpc_mesh *mesh, int32_t i) { return v3_load(qpc_mesh_vertices(mesh) + 3 * (int64_t)i); }

static double area(const qpc_mesh *mesh, int32_t triangle) {
    const int32_t *c = qpc_mesh_elements(mesh) + 3 * (int64_t)triangle;
    qpc_vec3 a = vertex(mesh, c[0]);
    return 0.5 * v3_norm(v3_cross(v3_sub(vertex(mesh, c[1]), a), v3_sub(vertex(mesh, c[2]), a)));
}

void qpc_cloth_areas(const qpc_mesh *mesh, double scale, double *ret, double *ret_all) {
    const int32_t *corners = qpc_mesh_elements(mesh);
    memset(ret, 0, (size_t)qpc_mesh_vertex_count(mesh) * sizeof *ret);
    *ret_all = 0.0;
    for (int32_t t = 0; t < qpc_mesh_element_count(mesh); t++) {
        double a = scale * scale * area(mesh, t);
        *ret_all += a;
        for (int k = 0; k < 3; k++) ret[corners[3 * (int64_t)t + k]] += a / 3.0;
    }
}

/// The corner of a triangle that is not on this edge.
static int32_t opposite(const qpc_mesh *mesh, int32_t triangle, const int32_t edge[2]) {
    const int32_t *c = qpc_mesh_elements(mesh) + 3 * (int64_t)triangle;
    for (int k = 0; k < 2; k++)
        if (c[k] != edge[0] && c[k] != edge[1]) return c[k];
    return c[2];
}

bool qpc_cloth_across(const qpc_mesh *mesh, int32_t edge, int32_t ret[2]) {
    const qpc_topology *t = qpc_mesh_topology(mesh);
    int32_t at = t->edge_triangle_start[edge];
    if (t->edge_triangle_start[edge + 1] - at != 2) return false;
    for (int k = 0; k < 2; k++) {
        if (t->triangle_degenerate[t->edge_triangle[at + k]]) return false;
        ret[k] = opposite(mesh, t->edge_triangle[at + k], t->edge_vertex + 2 * (int64_t)edge);
    }
    if (ret[0] > ret[1]) {
        int32_t low = ret[1];
        ret[1] = ret[0];
        ret[0] = low;
    }
    return ret[0] != ret[1]; // the same triangle twice
}

static qpc_status add(qpc_cloth_springs *s, const qpc_mesh *mesh, double scale, const int32_t ends[2], double stiffness,
                      qpc_error *err) {
    double length = scale * v3_norm(v3_sub(vertex(mesh, ends[1]), vertex(mesh, ends[0])));
    if (!(length > 0.0))
        return qpc_fail(err, QPC_ERR_INVALID, "vertices %d and %d of the mesh are at the same place: a spring between "
                        "them has no length", ends[0], ends[1]);
    s->node[s->count] = ends[0];
    s->other[s->count] = ends[1];
    s->stiffness[s->count] = stiffness;
    s->rest_length[s->count++] = length;
    return QPC_OK;
}

static qpc_status fill(qpc_cloth_springs *s, const qpc_mesh *mesh, double scale, const double *stiffness, double membrane,
                       double bending, qpc_error *err) {
    const qpc_topology *t = qpc_mesh_topology(mesh);
    int32_t ends[2];
    for (int32_t e = 0; e < t->edge_count; e++) {
        const int32_t *v = t->edge_vertex + 2 * (int64_t)e;
        double k = stiffness != NULL ? stiffness[e] : 0.0, l2 = v3_norm2(v3_sub(vertex(mesh, v[1]), vertex(mesh, v[0])));
        for (int32_t i = t->edge_triangle_start[e]; i < t->edge_triangle_start[e + 1] && stiffness == NULL; i++)
            if (l2 > 0.0) k += membrane * area(mesh, t->edge_triangle[i]) / l2;
        qpc_status st = add(s, mesh, scale, v, k, err);
        if (st != QPC_OK) return st;
    }
    s->stretch_count = s->count;
    for (int32_t e = 0; e < t->edge_count && bending > 0.0; e++) {
        if (!qpc_cloth_across(mesh, e, ends)) continue;
        qpc_status st = add(s, mesh, scale, ends, bending, err);
        if (st != QPC_OK) return st;
    }
    return QPC_OK;
}

qpc_status qpc_cloth_springs_make(const qpc_mesh *mesh, double scale, const double *stiffness, double membrane,
                                  double bending, qpc_cloth_springs *ret, qpc_error *err) {
    const qpc_topology *t = qpc_mesh_topology(mesh);
    int32_t ends[2];
    size_t most = (size_t)t->edge_count;
    for (int32_t e = 0; e < t->edge_count && bending > 0.0; e++) most += qpc_cloth_across(mesh, e, ends);
    if (most > INT32_MAX / 8) return qpc_fail(err, QPC_ERR_LIMIT, "%zu springs are too many", most);
    qpc_cloth_springs s = {0};
    s.node = qpc_alloc_array(most + 1, sizeof *s.node);
    s.other = qpc_alloc_array(most + 1, sizeof *s.other);
    s.stiffness = qpc_alloc_array(most + 1, sizeof *s.stiffness);
    s.rest_length = qpc_alloc_array(most + 1, sizeof *s.rest_length);
    qpc_status st = s.node != NULL && s.other != NULL && s.stiffness != NULL && s.rest_length != NULL
                        ? fill(&s, mesh, scale, stiffness, membrane, bending, err)
                        : qpc_fail(err, QPC_ERR_MEMORY, "no memory for %zu springs", most);
    if (st != QPC_OK) {
        qpc_cloth_springs_fini(&s);
        return st;
    }
    *ret = s;
    return QPC_OK;
}

void qpc_cloth_springs_fini(qpc_cloth_springs *springs) {
    qpc_free(springs->node);
    qpc_free(springs->other);
    qpc_free(springs->stiffness);
    qpc_free(springs->rest_length);
    memset(springs, 0, sizeof *springs);
}
