/// Which side of a rigid body a contact at a predicted end is on (docs/theory-rigid.md, TR19).
///
/// Where a motion leads into a body, what is near there is its skin seen from inside: its direction is the wrong one, and
/// a row of it would push sideways or inwards. Such pairs are left to continuous detection. The sign is that of the angle with the
/// pseudonormal of the closest feature (Baerentzen and Aanaes 2005), which tells inside from outside of a closed mesh. No state;
/// runs on the worker in the world.
#include "engine/geometry/topology.h"
#include "engine/world/world.h"

static const double TOUCHING = 1e-6; // of the separation: nearer than this there is no direction

static const double FLAT = 1e-8;     // 1 - cos of the angle between faces that are one
static const double ALONG = 0.999;   // cos of the angle between a direction and the normal that it is taken for

typedef struct surface {
    const qpc_topology *topology;
    const int32_t *triangles;
    const double *x, *x1; // of its first node; between them
    double t;
} surface;

static qpc_vec3 corner(const surface *s, int32_t triangle, int k) {
    int64_t at = 3 * (int64_t)s->triangles[3 * (int64_t)triangle + k % 3];
    qpc_vec3 p = v3_load(s->x + at);
    return s->t > 0.0 ? v3_madd(v3_scale(1.0 - s->t, p), s->t, v3_load(s->x1 + at)) : p;
}

/// Unit outward normal, or 0.
static qpc_vec3 normal_of(const surface *s, int32_t triangle) {
    qpc_vec3 a = corner(s, triangle, 0);
    qpc_vec3 n = v3_cross(v3_sub(corner(s, triangle, 1), a), v3_sub(corner(s, triangle, 2), a));
    double length = v3_norm(n);
    return length > 0.0 ? v3_scale(1.0 / length, n) : v3(0.0, 0.0, 0.0);
}

/// Angle of a triangle at its vertex.
static double angle_at(const surface *s, int32_t triangle, int32_t vertex) {
    for (int k = 0; k < 3; k++) {
        if (s->triangles[3 * (int64_t)triangle + k] != vertex) continue;
        qpc_vec3 at = corner(s, triangle, k), a = v3_sub(corner(s, triangle, k + 1), at), b = v3_sub(corner(s, triangle, k + 2), at);
        return atan2(v3_norm(v3_cross(a, b)), v3_dot(a, b));
    }
    return 0.0;
}

static qpc_vec3 normal_at_edge(const surface *s, int32_t edge) {
    qpc_vec3 sum = v3(0.0, 0.0, 0.0);
    for (int32_t i = s->topology->edge_triangle_start[edge]; i < s->topology->edge_triangle_start[edge + 1]; i++)
        sum = v3_add(sum, normal_of(s, s->topology->edge_triangle[i]));
    return sum;
}

/// Each triangle comes twice, once by each of its edges there.
static qpc_vec3 normal_at_vertex(const surface *s, int32_t vertex) {
    const qpc_topology *t = s->topology;
    qpc_vec3 sum = v3(0.0, 0.0, 0.0);
    for (int32_t i = t->vertex_edge_start[vertex]; i < t->vertex_edge_start[vertex + 1]; i++) {
        int32_t edge = t->vertex_edge[i];
        for (int32_t k = t->edge_triangle_start[edge]; k < t->edge_triangle_start[edge + 1]; k++)
            sum = v3_madd(sum, angle_at(s, t->edge_triangle[k], vertex), normal_of(s, t->edge_triangle[k]));
    }
    return sum;
}

/// Vertices of the mesh that side i (0) or j (1) of a contact is on; how many.
static int vertices_of(const qpc_contact *c, int side, int32_t first_node, int32_t vertex[3]) {
    int split = qpc_contact_split(c), count = 0;
    for (int k = side == 0 ? 0 : split; k < (side == 0 ? split : 4); k++)
        if (c->weight[k] != 0.0) vertex[count++] = c->node[k] - first_node;
    return count;
}

/// Outward direction at the point of side i (0) or j (1) of a contact: 0 if there is none.
static qpc_vec3 outward(const qpc_world *w, const qpc_contact *c, int side, const double *x) {
    const qpc_body *body = &w->bodies[c->surface[side]];
    const surface s = {.topology = qpc_mesh_topology(body->mesh), .triangles = qpc_mesh_elements(body->mesh),
                       .x = x + 3 * (int64_t)body->first_node};
    int32_t vertex[3];
    int count = vertices_of(c, side, body->first_node, vertex);
    if (count == 3) return normal_of(&s, c->feature[side]);
    if (count == 1) return normal_at_vertex(&s, vertex[0]);
    int32_t edge = count == 2 ? qpc_topology_edge(s.topology, vertex[0], vertex[1]) : -1;
    return edge >= 0 ? normal_at_edge(&s, edge) : v3(0.0, 0.0, 0.0);
}

/// Its two points moved by less, against each other, than they are apart: the side cannot have changed.
static bool stays(const qpc_world *w, const qpc_contact *c) {
    qpc_vec3 before = v3_scale(-c->distance, c->n);
    for (int k = 0; k < QPC_CONTACT_NODES; k++) before = v3_madd(before, c->weight[k], v3_load(w->x + 3 * (int64_t)c->node[k]));
    return v3_norm(before) < 0.9 * c->distance;
}

bool qpc_rigid_is_outside(const qpc_world *w, const qpc_contact *c, const double *x) {
    bool any = false;
    if (stays(w, c)) return true;
    for (int side = 0; side < 2; side++) {
        const qpc_body *body = &w->bodies[c->surface[side]];
        if (body->motion != QPC_RIGID || body->mesh == NULL) continue; // what is round is outside all about its core
        any = true;
        double sign = side == 0 ? -1.0 : 1.0; // n goes from j to i
        if (sign * v3_dot(c->n, outward(w, c, side, x)) < 0.0) return false;
    }
    return !any || c->distance > TOUCHING * c->separation;
}

/// All triangles at an edge lie in one plane, if there are two at least; their normal then.
static bool is_flat(const surface *s, int32_t edge, qpc_vec3 *normal, int *triangles) {
    for (int32_t i = s->topology->edge_triangle_start[edge]; i < s->topology->edge_triangle_start[edge + 1]; i++) {
        qpc_vec3 n = normal_of(s, s->topology->edge_triangle[i]);
        if (*triangles == 0) *normal = n;
        if (fabs(v3_dot(n, *normal)) < 1.0 - FLAT) return false;
        ++*triangles;
    }
    return true;
}

/// A side of a hit is an edge or vertex within a flat part of a mesh, and the direction is not its normal.
static bool is_beside(const qpc_world *w, const qpc_contact *c, int side) {
    const qpc_body *body = &w->bodies[c->surface[side]];
    int32_t vertex[3];
    qpc_vec3 normal = v3(0.0, 0.0, 0.0);
    if (body->mesh == NULL) return false;
    const qpc_topology *t = qpc_mesh_topology(body->mesh);
    int64_t first = 3 * (int64_t)body->first_node;
    const surface s = {.topology = t, .triangles = qpc_mesh_elements(body->mesh), .x = w->x + first, .x1 = w->x1 + first,
                       .t = body->motion == QPC_STATIC ? 0.0 : c->toi};
    int count = vertices_of(c, side, body->first_node, vertex), triangles = 0;
    if (count == 2) {
        int32_t edge = qpc_topology_edge(t, vertex[0], vertex[1]);
        if (edge < 0 || !is_flat(&s, edge, &normal, &triangles) || triangles < 2) return false;
    } else if (count == 1) {
        int32_t from = t->vertex_edge_start[vertex[0]], end = t->vertex_edge_start[vertex[0] + 1];
        for (int32_t i = from; i < end; i++) {
            if (t->edge_triangle_start[t->vertex_edge[i] + 1] - t->edge_triangle_start[t->vertex_edge[i]] < 2) return false; // a rim
            if (!is_flat(&s, t->vertex_edge[i], &normal, &triangles)) return false;
        }
        if (triangles == 0) return false;
    } else
        return false;
    return fabs(v3_dot(c->n, normal)) < ALONG;
}

bool qpc_rigid_is_beside(const qpc_world *w, const qpc_contact *hit) { return is_beside(w, hit, 0) || is_beside(w, hit, 1); }
