/// Features of meshes and chains as contacts see them: cones of the Voronoi regions (is a closest
/// pair a local minimum of distance?), normals where features touch, quick forerunners of the cones
/// for static meshes. Internal edges and vertices of a flat surface are no features of their own.
#include "engine/collision/features.h"

#include <float.h>

static const double flat_eps = 1e-9;  // sine below which a direction counts as perpendicular
static const double local_eps = 1e-6; // the same between cables

void qpc_triangle_feature(const qpc_mesh_part *m, int32_t t, const double *weight,
                          int32_t *ret_edge, int32_t *ret_vertex) {
    int count = 0, one = 0, zero = 0;
    for (int k = 0; k < 3; k++) {
        if (weight[1 + k] != 0) {
            count++;
            one = k;
        } else {
            zero = k;
        }
    }
    *ret_edge = *ret_vertex = -1;
    if (count == 2) *ret_edge = m->topology->triangle_edge[3 * (int64_t)t + (zero + 1) % 3];
    if (count < 3 && *ret_edge < 0) *ret_vertex = m->triangles[3 * (int64_t)t + one];
}

// ---- cones ----

qpc_vec3 qpc_edge_tangent(const qpc_mesh_part *m, const double *x, int32_t e, int32_t triangle) {
    if (m->topology->triangle_degenerate[triangle]) return v3(0, 0, 0);
    const int32_t *v = m->triangles + 3 * (int64_t)triangle, *w = qpc_edge_nodes(m, e);
    int32_t opposite = v[0] != w[0] && v[0] != w[1]   ? v[0]
                       : v[1] != w[0] && v[1] != w[1] ? v[1]
                                                      : v[2];
    qpc_vec3 a = qpc_node(x, m->first_node + w[0]);
    qpc_vec3 along = v3_sub(qpc_node(x, m->first_node + w[1]), a);
    qpc_vec3 to = v3_sub(qpc_node(x, m->first_node + opposite), a);
    return qpc_unit(v3_madd(to, -v3_dot(to, along) / v3_norm2(along), along));
}

/// d points away from the surface at edge e. With `sharp`, an edge at which the surface runs on
/// straight as seen along d is no feature.
bool qpc_mesh_edge_is_nearest(const qpc_mesh_part *m, const double *x, int32_t e, qpc_vec3 d,
                              bool sharp) {
    const qpc_topology *t = m->topology;
    double eps = flat_eps * v3_norm(d);
    qpc_vec3 level = v3(0, 0, 0);
    bool has_level = false;
    int32_t first = t->edge_triangle_start[e], end = t->edge_triangle_start[e + 1];
    const double *kept = !m->moving && end - first <= 2 ? m->tangent + 6 * (int64_t)e : NULL;
    for (int32_t i = first; i < end; i++) {
        qpc_vec3 u = kept != NULL ? v3_load(kept + 3 * (i - first))
                                  : qpc_edge_tangent(m, x, e, t->edge_triangle[i]);
        double rise = v3_dot(d, u);
        if (rise > eps) return false;
        if (!sharp || rise < -eps || !(v3_norm2(u) > 0)) continue;
        if (has_level && v3_dot(level, u) < 0) return false;
        level = u;
        has_level = true;
    }
    return true;
}

bool qpc_mesh_vertex_is_nearest(const qpc_mesh_part *m, const double *x, int32_t v, qpc_vec3 d,
                                bool sharp) {
    const qpc_topology *t = m->topology;
    double eps = flat_eps * v3_norm(d);
    bool falls = false, boundary = false;
    qpc_vec3 p = qpc_node(x, m->first_node + v);
    for (int32_t i = t->vertex_edge_start[v]; i < t->vertex_edge_start[v + 1]; i++) {
        int32_t e = t->vertex_edge[i];
        const int32_t *w = qpc_edge_nodes(m, e);
        qpc_vec3 u = qpc_unit(v3_sub(qpc_node(x, m->first_node + (w[0] == v ? w[1] : w[0])), p));
        double rise = v3_dot(d, u);
        if (rise > eps) return false;
        falls |= rise < -eps;
        boundary |= t->edge_triangle_start[e + 1] - t->edge_triangle_start[e] == 1;
    }
    return !sharp || falls || boundary;
}

/// The closest pair lies between a cable vertex p and its neighbours no farther than elsewhere on
/// the edges at p. away: unit direction from edge b of cable o to p. An edge at p that has no
/// contact with b, or with less thickness than this pair, cannot stand in for it.
bool qpc_chain_vertex_is_nearest(const qpc_chain_part *c, const double *x, int32_t k, qpc_vec3 away,
                                 const qpc_chain_part *o, int32_t b, bool near_self) {
    qpc_vec3 p = qpc_node(x, c->first_node + k);
    for (int32_t side = -1; side <= 1; side += 2) {
        if (k + side < 0 || k + side >= c->node_count) continue;
        int32_t edge = side < 0 ? k - 1 : k;
        if (c == o && (edge - b <= 1 && b - edge <= 1)) continue;
        if (c == o && !near_self && qpc_chain_near_self(c, edge, b)) continue;
        qpc_vec3 u = qpc_unit(v3_sub(qpc_node(x, c->first_node + k + side), p));
        if (v3_dot(away, u) < -local_eps) return false;
    }
    return true;
}

// ---- normals ----

static qpc_vec3 face_normal(const qpc_mesh_part *m, const double *x, int32_t triangle) {
    const int32_t *v = m->triangles + 3 * (int64_t)triangle;
    qpc_vec3 a = qpc_node(x, m->first_node + v[0]);
    return qpc_unit(v3_cross(v3_sub(qpc_node(x, m->first_node + v[1]), a),
                             v3_sub(qpc_node(x, m->first_node + v[2]), a)));
}

/// Mean normal of the triangles at the mesh feature a contact names, for pairs that touch.
qpc_vec3 qpc_mesh_normal(const qpc_mesh_part *m, const double *x, int32_t triangle, int32_t e) {
    qpc_vec3 n = v3(0, 0, 0);
    const qpc_topology *t = m->topology;
    if (e < 0) n = face_normal(m, x, triangle);
    for (int32_t i = e < 0 ? 0 : t->edge_triangle_start[e];
         i < (e < 0 ? 0 : t->edge_triangle_start[e + 1]); i++)
        if (!t->triangle_degenerate[t->edge_triangle[i]])
            n = v3_add(n, face_normal(m, x, t->edge_triangle[i]));
    n = qpc_unit(n);
    return v3_norm2(n) > 0.5 ? n : v3(0, 0, 1);
}

/// A direction perpendicular to both edges, or to one of them: two cables that touch.
qpc_vec3 qpc_chain_normal(const qpc_vec3 p[4]) {
    qpc_vec3 a = qpc_unit(v3_sub(p[1], p[0])), b = qpc_unit(v3_sub(p[3], p[2]));
    qpc_vec3 n = v3_cross(a, b);
    if (v3_norm2(n) > 1e-12) return qpc_unit(n);
    if (!(v3_norm2(a) > 0.5)) a = b;
    // The coordinate axis most across the cable, made perpendicular to it.
    double x = fabs(a.x), y = fabs(a.y), z = fabs(a.z);
    qpc_vec3 axis = z <= x && z <= y ? v3(0, 0, 1) : y <= x ? v3(0, 1, 0) : v3(1, 0, 0);
    return qpc_unit(v3_madd(axis, -v3_dot(axis, a), a));
}

/// Distances below this say nothing about direction.
double qpc_direction_limit(const qpc_vec3 *p, int count) {
    double largest = 0;
    for (int i = 1; i < count; i++) {
        qpc_vec3 d = v3_sub(p[i], p[0]);
        double norm = fabs(d.x) + fabs(d.y) + fabs(d.z);
        largest = norm > largest ? norm : largest;
    }
    return 256 * DBL_EPSILON * largest;
}

// ---- forerunners ----

// Quick forerunners of the cones, for static meshes: they reject only what the cones would, with
// `slack` far above their eps. At a mesh vertex, the edge that falls least from the cable passes
// them whenever the vertex passes its cone: with d.u' <= d.u <= 0 for an edge u' of a triangle at
// u, its tangent t has d.t = (d.u' - cos d.u) / sin <= d.u tan(angle / 2) <= 0.
static const double slack = QPC_CONE_SLACK;

/// All of a cable edge lies on the inner side of a tangent of a mesh edge, or the surface is flat
/// there.
bool qpc_behind_edge(const qpc_mesh_part *m, int32_t e, const qpc_vec3 p[4], double reach,
                     double by) {
    if (m->moving) return false;
    if (m->flat[e]) return true;
    const double *t = m->tangent + 6 * (int64_t)e;
    qpc_vec3 a = v3_sub(p[0], p[2]), b = v3_sub(p[1], p[2]);
    for (int s = 0; s < 2; s++, t += 3) {
        qpc_vec3 u = v3_load(t);
        if (v3_dot(a, u) > slack * reach + by && v3_dot(b, u) > slack * reach + by) return true;
    }
    return false;
}

/// A vertex is outside a triangle across edges of which each leads up into its other triangle.
bool qpc_beside_triangle(const qpc_mesh_part *m, int32_t t, const qpc_vec3 p[4], double reach,
                         double by) {
    if (m->moving) return false;
    bool outside = false;
    for (int side = 0; side < 3; side++) {
        int32_t e = m->topology->triangle_edge[3 * (int64_t)t + side];
        if (e < 0) return false;
        int mine = m->beside[2 * e] == t ? 0 : 1;
        if (m->beside[2 * e + mine] != t) return false; // one of many triangles at this edge
        const double *u = m->tangent + 6 * (int64_t)e;
        qpc_vec3 a = v3_sub(p[0], p[1 + side]);
        double in = v3_dot(a, v3_load(u + 3 * mine));
        if (!(in < by - slack * reach)) continue;
        if (m->beside[2 * e + 1 - mine] == t) return false; // the rim
        if (!(v3_dot(a, v3_load(u + 3 * (1 - mine))) > slack * reach + by)) return false;
        outside |= in < -by - slack * reach;
    }
    return outside;
}
