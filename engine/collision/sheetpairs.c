/// Pair tests of triangle surfaces; see sheets.h.
///
/// By proximity, vertex-triangle tests find all that vertices are near, of either surface, faces,
/// edges and vertices alike; edge-edge tests only pairs of inner points of edges. Over a motion
/// both tests report what they meet. Feature pairs that several tests find get one key and one
/// form, whichever found them: a vertex and an edge is (vertex, first triangle at the edge), two
/// vertices (lower node, higher node) by their first edges.
///
/// A pair is a contact if it is a local minimum of the distance on both sides (cones). A vertex of
/// a deforming surface is a particle of its own and is asked less strictly: what counts is that it
/// sees the nearest point of the other surface and that its own surface does not fall steeply
/// towards it. On a flat patch over a flat patch all vertices hold, whatever the last bits say, and
/// keys persist. What is not tested against the other feature (it shares a vertex, or is near it
/// along the rest shape) cannot stand in for a pair that is.
#include "engine/collision/ccd.h"
#include "engine/collision/features.h"
#include "engine/collision/nearby.h"
#include "engine/collision/sheets.h"
#include "engine/geometry/closest.h"

static const double tolerance = 0.01; // of the separation: largest stop tolerance of a motion test
static const double level = 1e-9;     // sine below which a direction counts as perpendicular
static const double snap = 1e-8;      // weight below which proximity takes a side for an edge
static const double steep = 0.5;      // the same for vertices of deforming surfaces, own side

bool qpc_sheet_near_self(const qpc_sheet_pair *pair) {
    const qpc_mesh_part *m = pair->mesh[0];
    if (m != pair->mesh[1] || qpc_nearby_is_empty(m->nearby)) return false;
    int split = pair->vt ? 1 : 2;
    for (int a = 0; a < split; a++)
        for (int b = split; b < 4; b++)
            if (qpc_nearby_has(m->nearby, pair->node[a] - m->first_node,
                               pair->node[b] - m->first_node))
                return true;
    return false;
}

// ---- cones ----

/// The nodes of the other feature, as far as they decide what may stand in for this one.
typedef struct rival {
    const qpc_mesh_part *self; // the one mesh of both features; NULL if there are two
    int32_t node[3];           // of the other feature, within the mesh
    int count;
    bool near_self; // the pair is
} rival;

static rival rival_of(const qpc_sheet_pair *pair, int side) {
    rival r = {.self = pair->mesh[0] == pair->mesh[1] ? pair->mesh[0] : NULL,
               .near_self = pair->near_self};
    int split = pair->vt ? 1 : 2;
    for (int k = side == 0 ? split : 0; k < (side == 0 ? 4 : split); k++)
        r.node[r.count++] = pair->node[k] - pair->mesh[1 - side]->first_node;
    return r;
}

/// Is the feature of these vertices tested against the rival, at the pair's separation?
static bool stands_in(const rival *r, const int32_t *vertex, int count) {
    if (r->self == NULL) return true;
    for (int a = 0; a < r->count; a++)
        for (int b = 0; b < count; b++) {
            if (r->node[a] == vertex[b]) return false;
            if (!r->near_self && qpc_nearby_has(r->self->nearby, r->node[a], vertex[b]))
                return false;
        }
    return true;
}

/// d points away from the surface at edge e. With `sharp`, an edge at which the surface runs on
/// straight as seen along d is no feature.
static bool edge_holds(const qpc_mesh_part *m, const double *x, int32_t e, qpc_vec3 d, bool sharp,
                       const rival *r) {
    const qpc_topology *t = m->topology;
    double eps = level * v3_norm(d);
    qpc_vec3 flat = v3(0, 0, 0);
    for (int32_t i = t->edge_triangle_start[e]; i < t->edge_triangle_start[e + 1]; i++) {
        int32_t triangle = t->edge_triangle[i];
        qpc_vec3 u = qpc_edge_tangent(m, x, e, triangle);
        double rise = v3_dot(d, u);
        if (!(rise >= -eps) || !(v3_norm2(u) > 0)) continue;
        if (!stands_in(r, m->triangles + 3 * (int64_t)triangle, 3)) continue;
        if (rise > eps) return false;
        if (!sharp) continue;
        if (v3_dot(flat, u) < 0) return false;
        flat = u;
    }
    return true;
}

/// The same at vertex v: no edge there rises by more than eps.
static bool vertex_holds(const qpc_mesh_part *m, const double *x, int32_t v, qpc_vec3 d, bool sharp,
                         double eps, const rival *r) {
    const qpc_topology *t = m->topology;
    eps *= v3_norm(d);
    bool falls = false, boundary = false;
    qpc_vec3 p = qpc_node(x, m->first_node + v);
    for (int32_t i = t->vertex_edge_start[v]; i < t->vertex_edge_start[v + 1]; i++) {
        int32_t e = t->vertex_edge[i];
        const int32_t *w = qpc_edge_nodes(m, e);
        int32_t to = w[0] == v ? w[1] : w[0];
        double rise = v3_dot(d, qpc_unit(v3_sub(qpc_node(x, m->first_node + to), p)));
        if (rise > eps && stands_in(r, &to, 1)) return false;
        falls |= rise < -eps;
        boundary |= t->edge_triangle_start[e + 1] - t->edge_triangle_start[e] == 1;
    }
    return !sharp || falls || boundary;
}

// ---- form and key ----

/// What a contact's weights name: local numbers, -1 where another one does.
typedef struct named {
    int32_t vertex_i, edge_j, vertex_j;
} named;

static named name_vt(const qpc_sheet_pair *pair, const double *weight) {
    named r = {.vertex_i = pair->feature[0]};
    qpc_triangle_feature(pair->mesh[1], pair->feature[1], weight, &r.edge_j, &r.vertex_j);
    return r;
}

/// Side s of r becomes an edge that starts or ends at the vertex, all weight on it.
static void put_vertex(qpc_contact *r, int s, const qpc_mesh_part *m, int32_t vertex) {
    const qpc_topology *t = m->topology;
    bool bare = t->vertex_edge_start[vertex] == t->vertex_edge_start[vertex + 1];
    int32_t e = bare ? -1 : t->vertex_edge[t->vertex_edge_start[vertex]];
    r->surface[s] = m->surface;
    r->feature[s] = e;
    for (int k = 0; k < 2; k++) {
        int32_t v = bare ? vertex : qpc_edge_nodes(m, e)[k];
        r->node[2 * s + k] = m->first_node + v;
        r->weight[2 * s + k] = v == vertex && (k == 0 || !bare) ? 1 - 2 * s : 0;
    }
}

static void form_vertices(qpc_contact *r, const qpc_mesh_part *mi, int32_t i,
                          const qpc_mesh_part *mj, int32_t j) {
    bool swap = mj->first_node + j < mi->first_node + i;
    if (swap) r->n = v3_neg(r->n);
    r->kind = QPC_CONTACT_EE;
    put_vertex(r, swap ? 1 : 0, mi, i);
    put_vertex(r, swap ? 0 : 1, mj, j);
    int32_t a = mi->first_node + i, b = mj->first_node + j;
    r->key = qpc_contact_key(QPC_KEY_VERTEX_VERTEX, swap ? b : a, swap ? a : b);
}

/// weight: of the ends of edge e, not negative.
static void form_vertex_edge(qpc_contact *r, const qpc_mesh_part *mi, int32_t i,
                             const qpc_mesh_part *mj, int32_t e, const double weight[2]) {
    const int32_t *ends = qpc_edge_nodes(mj, e);
    int32_t t = mj->topology->edge_triangle[mj->topology->edge_triangle_start[e]];
    bool given[2] = {false, false};
    double w[4] = {1, 0, 0, 0};
    r->kind = QPC_CONTACT_VT;
    r->surface[0] = mi->surface;
    r->surface[1] = mj->surface;
    r->feature[0] = i;
    r->feature[1] = t;
    r->node[0] = mi->first_node + i;
    for (int k = 0; k < 3; k++) {
        int32_t v = mj->triangles[3 * (int64_t)t + k];
        r->node[1 + k] = mj->first_node + v;
        for (int s = 0; s < 2; s++)
            if (v == ends[s] && !given[s]) w[1 + k] = -weight[s], given[s] = true;
    }
    memcpy(r->weight, w, sizeof w);
    r->key = qpc_contact_key(QPC_KEY_VERTEX_EDGE, r->node[0], mj->edge_base + e);
}

/// Give r, with the pair's weights and n, the form and key of the features its weights name.
static void form(const qpc_sheet_pair *pair, qpc_contact *r) {
    const qpc_mesh_part *mi = pair->mesh[0], *mj = pair->mesh[1];
    const double *w = r->weight;
    r->kind = pair->vt ? QPC_CONTACT_VT : QPC_CONTACT_EE;
    for (int s = 0; s < 2; s++) {
        r->surface[s] = pair->mesh[s]->surface;
        r->feature[s] = pair->feature[s];
    }
    memcpy(r->node, pair->node, sizeof pair->node);
    for (int k = 0; k < 4; k++) r->weight[k] += 0.0; // no -0
    if (pair->vt) {
        named is = name_vt(pair, w);
        if (is.vertex_j >= 0) {
            form_vertices(r, mi, is.vertex_i, mj, is.vertex_j);
        } else if (is.edge_j >= 0) {
            double weight[2] = {0, 0};
            const int32_t *ends = qpc_edge_nodes(mj, is.edge_j);
            for (int k = 0; k < 3; k++)
                for (int s = 0; s < 2; s++)
                    if (pair->node[1 + k] - mj->first_node == ends[s]) weight[s] -= w[1 + k];
            form_vertex_edge(r, mi, is.vertex_i, mj, is.edge_j, weight);
        } else {
            r->key = qpc_contact_key(QPC_KEY_VERTEX_FACE, r->node[0],
                                     mj->triangle_base + pair->feature[1]);
        }
        return;
    }
    int i = w[1] == 0 ? 0 : w[0] == 0 ? 1 : -1, j = w[3] == 0 ? 2 : w[2] == 0 ? 3 : -1;
    if (i >= 0 && j >= 0) {
        form_vertices(r, mi, pair->node[i] - mi->first_node, mj, pair->node[j] - mj->first_node);
    } else if (i >= 0) {
        double weight[2] = {-w[2], -w[3]};
        form_vertex_edge(r, mi, pair->node[i] - mi->first_node, mj, pair->feature[1], weight);
    } else if (j >= 0) {
        double weight[2] = {w[0], w[1]};
        r->n = v3_neg(r->n);
        form_vertex_edge(r, mj, pair->node[j] - mj->first_node, mi, pair->feature[0], weight);
    } else {
        r->key = qpc_contact_key(QPC_KEY_EDGE_EDGE, mi->edge_base + pair->feature[0],
                                 mj->edge_base + pair->feature[1]);
    }
}

// ---- normals of pairs that touch ----

/// From j to i by the surfaces' own normals; apart: the difference of the pair while it still had a
/// side, or zero.
static qpc_vec3 touching_normal(const qpc_sheet_pair *pair, const double *x, const double *weight,
                                qpc_vec3 apart) {
    qpc_vec3 p[4], n;
    qpc_load_nodes(x, pair->node, p);
    if (pair->vt) {
        named is = name_vt(pair, weight);
        n = qpc_mesh_normal(pair->mesh[1], x, pair->feature[1], is.edge_j);
    } else {
        qpc_vec3 of_i = qpc_mesh_normal(pair->mesh[0], x, 0, pair->feature[0]);
        qpc_vec3 of_j = qpc_mesh_normal(pair->mesh[1], x, 0, pair->feature[1]);
        qpc_vec3 out = v3_sub(of_j, of_i);
        qpc_vec3 a = qpc_unit(v3_sub(p[1], p[0])), b = qpc_unit(v3_sub(p[3], p[2]));
        n = v3_cross(a, b);
        if (v3_norm2(n) > QPC_PARALLEL_SINE2) {
            n = qpc_unit(n);
            if (v3_dot(n, out) < 0) n = v3_neg(n);
        } else {
            n = v3_norm2(out) > 1e-12 ? qpc_unit(out) : of_j;
        }
    }
    if (v3_dot(n, apart) < 0) n = v3_neg(n);
    return n;
}

// ---- proximity ----

/// A vertex over an edge up to rounding is over the edge, whichever triangle it is seen from; and
/// over a vertex likewise. False if that leaves an end of an edge in an edge-edge pair.
static bool snap_weights(bool vt, double weight[4]) {
    double sum = 0;
    if (!vt) {
        for (int k = 0; k < 4; k++)
            if (fabs(weight[k]) < snap) return false;
        return true;
    }
    for (int k = 1; k < 4; k++) {
        if (fabs(weight[k]) < snap) weight[k] = 0;
        sum -= weight[k];
    }
    for (int k = 1; k < 4; k++) weight[k] /= sum;
    return true;
}

static void emit(const qpc_contact *r, qpc_slice *out) {
    if (!qpc_array_push(&out->found, *r)) out->full = true;
}

static bool vt_holds(const qpc_sheet_pair *pair, const double *x, const qpc_closest *near) {
    const qpc_mesh_part *mi = pair->mesh[0], *mj = pair->mesh[1];
    named is = name_vt(pair, near->weight);
    rival other = rival_of(pair, 1);
    if (is.edge_j >= 0 && !edge_holds(mj, x, is.edge_j, near->d, false, &other)) return false;
    if (is.vertex_j >= 0 && !vertex_holds(mj, x, is.vertex_j, near->d, false, level, &other))
        return false;
    bool free = mi->motion == QPC_DYNAMIC;
    other = rival_of(pair, 0);
    return vertex_holds(mi, x, is.vertex_i, v3_neg(near->d), !free, free ? steep : level, &other);
}

static bool ee_holds(const qpc_sheet_pair *pair, const double *x, const qpc_closest *near) {
    rival i = rival_of(pair, 0), j = rival_of(pair, 1);
    return edge_holds(pair->mesh[1], x, pair->feature[1], near->d, true, &j) &&
           edge_holds(pair->mesh[0], x, pair->feature[0], v3_neg(near->d), true, &i);
}

double qpc_sheet_proximity(const qpc_sheet_pair *pair, const double *x, double reach, qpc_slice *out) {
    qpc_vec3 p[4];
    qpc_closest near;
    qpc_load_nodes(x, pair->node, p);
    if (pair->vt) {
        out->counts.vt_tests++;
        qpc_closest_vt(p, &near);
    } else {
        out->counts.ee_tests++;
        qpc_closest_ee(p, &near);
    }
    if (!(near.distance < reach * pair->separation)) return near.distance;
    // What ends of edges are near is found by vertex-triangle tests.
    if (!snap_weights(pair->vt, near.weight)) return near.distance;
    qpc_contact r = {.distance = near.distance, .separation = pair->separation};
    memcpy(r.weight, near.weight, sizeof near.weight);
    if (near.distance <= qpc_direction_limit(p, 4)) {
        r.n = touching_normal(pair, x, r.weight, v3(0, 0, 0));
    } else {
        if (!(pair->vt ? vt_holds(pair, x, &near) : ee_holds(pair, x, &near))) return near.distance;
        r.n = v3_scale(1 / near.distance, near.d);
    }
    if (pair->near_self) {
        r.flags = QPC_CONTACT_NEAR_SELF;
        r.separation = fmin(r.separation, r.distance);
    }
    form(pair, &r);
    emit(&r, out);
    return near.distance;
}

// ---- motion ----

void qpc_sheet_motion(const qpc_sheet_pair *pair, const double *x0, const double *x1, double factor,
                      qpc_slice *out) {
    qpc_vec3 p[4], q[4];
    qpc_ccd_result hit;
    double start, s = factor * pair->separation, most = tolerance * pair->separation;
    qpc_load_nodes(x0, pair->node, p);
    qpc_load_nodes(x1, pair->node, q);
    if (pair->vt) {
        out->counts.vt_tests++;
        qpc_ccd_vt_keep(p, q, s, most, &hit, &start);
    } else {
        out->counts.ee_tests++;
        qpc_ccd_ee_keep(p, q, s, most, &hit, &start);
    }
    out->counts.ccd_iterations += (uint64_t)hit.iterations;
    if (hit.outcome == QPC_CCD_MISS) return;
    out->counts.hits++;
    qpc_contact r = {
        .n = hit.n, .distance = hit.distance, .separation = pair->separation, .toi = hit.toi};
    memcpy(r.weight, hit.weight, sizeof hit.weight);
    if (start < s) r.flags |= QPC_CONTACT_AT_START;
    if (hit.uncertain) r.flags |= QPC_CONTACT_UNCERTAIN;
    double limit = qpc_direction_limit(p, 4);
    if (r.distance <= limit) {
        // The side it comes from, if there is one.
        qpc_vec3 apart = v3(0, 0, 0);
        for (int k = 0; k < 4; k++) apart = v3_madd(apart, r.weight[k], v3_sub(p[k], p[0]));
        if (v3_norm(apart) <= limit) apart = v3(0, 0, 0);
        r.n = touching_normal(pair, x0, r.weight, apart);
    }
    if (pair->near_self) {
        r.flags |= QPC_CONTACT_NEAR_SELF;
        r.separation = fmin(r.separation, start);
    }
    form(pair, &r);
    emit(&r, out);
}

// ---- smallest gap ----

void qpc_sheet_gap(const qpc_sheet_pair *pair, const double *x, qpc_slice *out) {
    qpc_vec3 p[4];
    qpc_closest near;
    qpc_load_nodes(x, pair->node, p);
    if (pair->vt)
        qpc_closest_vt(p, &near);
    else
        qpc_closest_ee(p, &near);
    if (near.distance < out->best * pair->separation) out->best = near.distance / pair->separation;
}
