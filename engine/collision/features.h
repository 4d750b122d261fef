/// Features of meshes and chains as contacts see them. Not for users of detection.
#ifndef QPC_ENGINE_COLLISION_FEATURES_H
#define QPC_ENGINE_COLLISION_FEATURES_H

#include "engine/collision/detector.h"

// ---- small things that pair tests share ----

static inline qpc_vec3 qpc_unit(qpc_vec3 a) {
    double length = v3_norm(a);
    return length > 0 ? v3_scale(1 / length, a) : v3(0, 0, 0);
}
static inline qpc_vec3 qpc_node(const double *x, int32_t n) {
    return v3_load(x + 3 * (int64_t)n);
}
static inline const int32_t *qpc_edge_nodes(const qpc_mesh_part *m, int32_t e) {
    return m->topology->edge_vertex + 2 * (int64_t)e;
}

static inline void qpc_load_nodes(const double *x, const int32_t node[4], qpc_vec3 p[4]) {
    for (int k = 0; k < 4; k++) p[k] = qpc_node(x, node[k]);
}
/// What the weights of a vertex-triangle pair name: an edge or a vertex of the triangle t, by its
/// number in the mesh, or the face (both -1).
void qpc_triangle_feature(const qpc_mesh_part *m, int32_t t, const double *weight,
                          int32_t *ret_edge, int32_t *ret_vertex);

// ---- cones: is a closest pair a local minimum of the distance to a mesh? ----

/// d points away from the surface at edge e. With `sharp`, an edge at which the surface runs on
/// straight as seen along d is no feature.
bool qpc_mesh_edge_is_nearest(const qpc_mesh_part *m, const double *x, int32_t e, qpc_vec3 d,
                              bool sharp);
/// v: vertex of the mesh.
bool qpc_mesh_vertex_is_nearest(const qpc_mesh_part *m, const double *x, int32_t v, qpc_vec3 d,
                                bool sharp);
/// The closest pair lies between a cable vertex k and its neighbours no farther than elsewhere on
/// the edges at k. away: unit direction from edge b of cable o to the vertex.
bool qpc_chain_vertex_is_nearest(const qpc_chain_part *c, const double *x, int32_t k, qpc_vec3 away,
                                 const qpc_chain_part *o, int32_t b, bool near_self);

// ---- normals of pairs that touch, where no difference gives a direction ----

/// Mean normal of the triangles at edge e, or if e < 0 that of the triangle.
qpc_vec3 qpc_mesh_normal(const qpc_mesh_part *m, const double *x, int32_t triangle, int32_t e);
/// A direction perpendicular to both edges, or to one of them: two cables.
qpc_vec3 qpc_chain_normal(const qpc_vec3 p[4]);
/// Distances below this say nothing about direction.
double qpc_direction_limit(const qpc_vec3 *p, int count);

/// Forerunners reject by so much of the reach more than a cone does.
#define QPC_CONE_SLACK 1e-7

// ---- quick forerunners of the cones, for static meshes; by: how far p[0] and p[1] may move, m
// ----

/// All of an edge p[0] p[1] lies on the inner side of a tangent of mesh edge e, or the surface is
/// flat there. p[2]: the mesh edge's first vertex.
bool qpc_behind_edge(const qpc_mesh_part *m, int32_t e, const qpc_vec3 p[4], double reach,
                     double by);
/// Vertex p[0] is outside a triangle across edges of which each leads up into its other triangle.
bool qpc_beside_triangle(const qpc_mesh_part *m, int32_t t, const qpc_vec3 p[4], double reach,
                         double by);

#endif
