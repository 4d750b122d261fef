/// Vertices, edges and triangles against implicit surfaces; see obstacles.h and docs/theory-obstacles.md.
///
/// Broad phase: phi is 1-Lipschitz, so a ball about the motion of a whole surface, then the motion of each feature, is proven
/// apart by one value of phi. What is left is decided by its own positions: slices and threads play no part.
#include "engine/collision/obstacles.h"

#include "engine/collision/implicit.h"

#include "base/mem.h"

static const double TOLERANCE = 0.01; // of the separation: largest stop tolerance of a motion test
static const double SLACK = 0.05;     // of the separation: the inside of a triangle may be that much nearer than its edges without a row
static const double LEVEL = 0.25;     // of the separation: how much farther the ends of a stretch may be than the nearest point
static const double APART = 2.0;      // separations: least length of a stretch that is held at its ends

/// Who may touch an obstacle: features of one surface.
typedef struct particles {
    int32_t surface, first_node, node_count, edge_count, edge_base, triangle_count, triangle_base;
    double radius;
    const qpc_topology *topology; // NULL: a chain
    const int32_t *triangles;     // (triangles x 3)
    bool rigid;
} particles;

/// One obstacle over one motion (or at rest).
typedef struct task {
    qpc_detector *det;
    const qpc_obstacle_part *part;
    const double *x0, *x1; // the same: at rest
    qpc_implicit_motion motion;
    double factor;         // of separations
} task;

static particles of_chain(const qpc_chain_part *c) {
    return (particles){.surface = c->surface, .first_node = c->first_node, .node_count = c->node_count, .edge_count = c->node_count - 1,
                       .edge_base = c->edge_base, .radius = c->radius};
}

static particles of_mesh(const qpc_mesh_part *m) {
    return (particles){.surface = m->surface, .first_node = m->first_node, .node_count = m->node_count, .edge_count = m->edge_count,
                       .edge_base = m->edge_base, .triangle_count = m->triangle_count, .triangle_base = m->triangle_base, .radius = m->radius,
                       .topology = m->topology, .triangles = m->triangles, .rigid = m->rigid};
}

/// Inner vertices of a soft body are of no edge.
static bool is_skin(const particles *p, int32_t k) {
    return p->topology == NULL || p->topology->vertex_edge_start[k + 1] > p->topology->vertex_edge_start[k];
}

/// Nodes of a vertex, an edge or a triangle: count of them.
static void nodes_of(const particles *p, int count, int32_t feature, int32_t *ret) {
    for (int k = 0; k < count; k++) {
        int32_t v = feature + k;
        if (count == 3) v = p->triangles[3 * (int64_t)feature + k];
        else if (count == 2 && p->topology != NULL) v = p->topology->edge_vertex[2 * (int64_t)feature + k];
        ret[k] = p->first_node + v;
    }
}

static int32_t features_of(const particles *p, int count) { return count == 1 ? p->node_count : count == 2 ? p->edge_count : p->triangle_count; }

qpc_status qpc_obstacles_init(qpc_detector *det, const qpc_surface *surfaces, int32_t count, qpc_error *err) {
    int32_t total = 0;
    for (int32_t i = 0; i < count; i++) total += surfaces[i].shape != NULL && !surfaces[i].absent;
    det->obstacles = qpc_calloc((size_t)total, sizeof *det->obstacles);
    if (det->obstacles == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for %d obstacles", (int)total);
    for (int32_t i = 0; i < count; i++)
        if (surfaces[i].shape != NULL && !surfaces[i].absent)
            det->obstacles[det->obstacle_count++] =
                (qpc_obstacle_part){.surface = i, .first_node = surfaces[i].first_node, .radius = surfaces[i].radius, .shape = *surfaces[i].shape};
    return QPC_OK;
}

// ---- contacts ----

static double part_of(qpc_vec3 p, int i) { return i == 0 ? p.x : i == 1 ? p.y : p.z; }

/// The point c on the line from q along n where coordinate `without` is 0: it is held by the origin and two axes, and moves along n
/// as q does, however the frame turns (TO3). offset: from c to q.
static void hold_by_axes(qpc_vec3 q, qpc_vec3 n, double reach, double weight[3], int axes[2], double *offset) {
    int without = fabs(n.x) >= fabs(n.y) ? (fabs(n.x) >= fabs(n.z) ? 0 : 2) : (fabs(n.y) >= fabs(n.z) ? 1 : 2);
    *offset = part_of(q, without) / part_of(n, without);
    qpc_vec3 c = v3_madd(q, -*offset, n);
    weight[0] = -1;
    for (int k = 0; k < 2; k++) {
        axes[k] = (without + 1 + k) % 3;
        weight[1 + k] = -part_of(c, axes[k]) / reach;
        weight[0] -= weight[1 + k];
    }
}

/// Keys tell places of one feature apart, and triangles from edges. Numbers of surfaces are smaller than 2^25.
static uint64_t key_of(const task *t, const particles *p, int count, int32_t feature, int place) {
    if (count == 1) return qpc_contact_key(QPC_KEY_VERTEX_OBSTACLE, p->first_node + feature, t->part->surface);
    int32_t j = t->part->surface | place << 25 | (count == 3) << 29;
    return qpc_contact_key(QPC_KEY_EDGE_OBSTACLE, (count == 2 ? p->edge_base : p->triangle_base) + feature, j);
}

static qpc_contact contact_of(const task *t, const particles *p, int count, int32_t feature, const qpc_implicit_nearest *near, qpc_vec3 n) {
    static const qpc_contact_kind kinds[4] = {[1] = QPC_CONTACT_VT, [2] = QPC_CONTACT_EE, [3] = QPC_CONTACT_TO};
    const qpc_obstacle_part *o = t->part;
    qpc_vec3 q = v3_madd(near->at, -near->phi, near->n); // on the surface
    qpc_contact c = {.n = n, .distance = near->phi, .separation = p->radius + o->radius, .surface = {p->surface, o->surface}, .feature = {feature, 0}};
    int axes[2];
    nodes_of(p, count, feature, c.node);
    for (int k = 0; k < count; k++) c.weight[k] = count == 1 ? 1 : near->weight[k];
    hold_by_axes(q, near->n, qpc_implicit_reach(&o->shape), c.weight + count, axes, &c.offset);
    c.node[count] = o->first_node;
    for (int k = 0; k < 2; k++) c.node[count + 1 + k] = o->first_node + 1 + axes[k];
    c.kind = (uint8_t)kinds[count];
    c.key = key_of(t, p, count, feature, near->place);
    return c;
}

// ---- walking ----

/// Longest way, relative to the frame, of what goes from p to q.
static double way_of(const task *t, qpc_vec3 p, qpc_vec3 q) {
    qpc_vec3 r0 = v3_sub(p, t->motion.start.o), go = v3_sub(v3_sub(q, p), t->motion.shift);
    double way = v3_norm(go);
    return t->motion.turn > 0 ? way + t->motion.turn * fmax(v3_norm(r0), v3_norm(v3_add(r0, go))) : way;
}

/// The surface stays farther from the obstacle than `by`.
static bool is_far(const task *t, const particles *p, double by) {
    qpc_dbox b = qpc_dbox_empty();
    for (int32_t k = p->first_node; k < p->first_node + p->node_count; k++) {
        qpc_dbox_add(&b, t->x0 + 3 * (int64_t)k);
        if (t->x1 != t->x0) qpc_dbox_add(&b, t->x1 + 3 * (int64_t)k);
    }
    qpc_vec3 middle = v3_scale(0.5, v3_add(v3_load(b.lo), v3_load(b.hi)));
    double ball = 0.5 * v3_norm(v3_sub(v3_load(b.hi), v3_load(b.lo)));
    double way = v3_norm(t->motion.shift) +
                 t->motion.turn * (v3_norm(v3_sub(middle, t->motion.start.o)) + ball + v3_norm(t->motion.shift));
    double phi = qpc_implicit_phi(&t->part->shape, qpc_implicit_to_local(&t->motion.start, middle), NULL);
    return phi - ball - way > by * (1 + 1e-9) + 1e-9 * ball;
}

typedef bool (*visitor)(void *user, const task *t, const particles *p, int count, int32_t feature, const qpc_vec3 *p0, const qpc_vec3 *p1);

/// Features of a surface that may come nearer than `by`; false: the visitor gave up.
static bool visit_features(const task *t, const particles *p, double by, visitor visit, void *user) {
    for (int count = 1; count <= (t->part->shape.kind == QPC_IMPLICIT_PLANE ? 1 : 3); count++) // vertices are all that a plane meets
        for (int32_t f = 0; f < features_of(p, count); f++) {
            int32_t node[3];
            qpc_vec3 p0[3], p1[3], middle = {0, 0, 0};
            if (count == 1 && !is_skin(p, f)) continue;
            nodes_of(p, count, f, node);
            double way = 0, size = 0;
            for (int k = 0; k < count; k++) {
                p0[k] = v3_load(t->x0 + 3 * (int64_t)node[k]);
                p1[k] = t->x1 == t->x0 ? p0[k] : v3_load(t->x1 + 3 * (int64_t)node[k]);
                way = fmax(way, way_of(t, p0[k], p1[k]));
                middle = v3_madd(middle, 1.0 / count, p0[k]);
            }
            for (int k = 0; k < count && count > 1; k++) size = fmax(size, v3_norm(v3_sub(p0[k], middle)));
            double phi = qpc_implicit_phi(&t->part->shape, qpc_implicit_to_local(&t->motion.start, middle), NULL);
            t->det->counts.candidates++;
            if (phi - way - size > by * (1 + 1e-9) + 1e-12 * (way + size + fabs(phi))) continue;
            *(count == 2 ? &t->det->counts.ee_tests : &t->det->counts.vt_tests) += 1;
            if (!visit(user, t, p, count, f, p0, p1)) return false;
        }
    return true;
}

/// All obstacles against all that deforms.
static qpc_status visit_all(qpc_detector *det, const double *x0, const double *x1, double factor, double most, visitor visit, void *user,
                            qpc_error *err) {
    bool room = true;
    for (int32_t i = 0; i < det->obstacle_count && room; i++) {
        const qpc_obstacle_part *o = &det->obstacles[i];
        task t = {det, o, x0, x1, qpc_implicit_motion_of(x0 + 3 * (int64_t)o->first_node, x1 + 3 * (int64_t)o->first_node), factor};
        for (int32_t k = 0; k < det->chain_count + det->mesh_count && room; k++) {
            const qpc_mesh_part *m = k < det->chain_count ? NULL : &det->meshes[k - det->chain_count];
            if (m != NULL ? m->motion != QPC_DYNAMIC : det->chains[k].motion != QPC_DYNAMIC) continue;
            particles p = m != NULL ? of_mesh(m) : of_chain(&det->chains[k]);
            double by = most * (p.radius + o->radius);
            if (!is_far(&t, &p, by)) room = visit_features(&t, &p, by, visit, user);
        }
    }
    return room ? QPC_OK : qpc_fail(err, QPC_ERR_MEMORY, "out of memory for contacts");
}

static void to_local(const task *t, int count, const qpc_vec3 *p, qpc_vec3 ret[3]) {
    for (int k = 0; k < count; k++) ret[k] = qpc_implicit_to_local(&t->motion.start, p[k]);
}

/// How many of the points of a feature have a part in the nearest one.
static int points_in(int count, const qpc_implicit_nearest *near) {
    int points = 0;
    for (int k = 0; k < count; k++) points += near->weight[k] > 1e-6;
    return points;
}

/// Nearest point of a feature at rest. False: one of its vertices or edges is as near.
static bool nearest(const task *t, int count, const qpc_vec3 *p, qpc_implicit_nearest *ret) {
    qpc_vec3 local[3] = {{0, 0, 0}};
    to_local(t, count, p, local);
    *ret = qpc_implicit_closest(&t->part->shape, count, local);
    return count == 1 || points_in(count, ret) == count;
}

static bool push_near(const task *t, const particles *p, int count, int32_t feature, const qpc_implicit_nearest *near) {
    return qpc_array_push(&t->det->raw, contact_of(t, p, count, feature, near, qpc_implicit_to_world(&t->motion.start, near->n)));
}

/// The edges of what deforms hold the inside of its triangles too, up to a part of the separation (TO6).
static double held_by_edges(const task *t, const particles *p, const qpc_vec3 local[3]) {
    double least = HUGE_VAL;
    if (p->rigid) return least;
    for (int k = 0; k < 3; k++) least = fmin(least, qpc_implicit_closest(&t->part->shape, 2, (const qpc_vec3[2]){local[k], local[(k + 1) % 3]}).phi);
    return least - SLACK * (p->radius + t->part->radius);
}

static bool take_near_triangle(const task *t, const particles *p, int32_t feature, const qpc_vec3 *p0) {
    qpc_implicit_nearest over[QPC_IMPLICIT_CORNERS];
    qpc_vec3 local[3] = {{0, 0, 0}};
    double most = t->factor * (p->radius + t->part->radius);
    to_local(t, 3, p0, local);
    int count = qpc_implicit_over_corners(&t->part->shape, local, over);
    for (int i = 0; i < count; i++)
        if (over[i].phi < most) {
            double held = held_by_edges(t, p, local);
            for (; i < count; i++)
                if (over[i].phi < fmin(most, held) && !push_near(t, p, 3, feature, &over[i])) return false;
        }
    return true;
}

/// An edge of a rigid body that lies along something is held at both ends of the stretch: it would rock about a single point (TO7).
static bool take_level_ends(const task *t, const particles *p, int32_t feature, const qpc_vec3 *p0, const qpc_implicit_nearest *near) {
    qpc_implicit_nearest ends[2];
    qpc_vec3 local[3] = {{0, 0, 0}};
    double separation = p->radius + t->part->radius;
    to_local(t, 2, p0, local);
    int count = qpc_implicit_level_ends(&t->part->shape, local, near, LEVEL * separation, APART * separation, ends);
    for (int i = 0; i < count; i++)
        if (points_in(2, &ends[i]) == 2 && fabs(ends[i].weight[0] - near->weight[0]) * v3_norm(v3_sub(p0[1], p0[0])) > 0.5 * APART * separation &&
            ends[i].phi < t->factor * separation && !push_near(t, p, 2, feature, &ends[i]))
            return false;
    return true;
}

static bool take_near(void *user, const task *t, const particles *p, int count, int32_t feature, const qpc_vec3 *p0, const qpc_vec3 *p1) {
    qpc_implicit_nearest near;
    (void)user;
    (void)p1;
    if (count == 3) return take_near_triangle(t, p, feature, p0);
    bool own = nearest(t, count, p0, &near);
    if (near.phi >= t->factor * (p->radius + t->part->radius)) return true;
    if (count == 2 && p->rigid && !take_level_ends(t, p, feature, p0, &near)) return false;
    return !own || push_near(t, p, count, feature, &near);
}

qpc_status qpc_obstacles_proximity(qpc_detector *det, const double *x, double reach, qpc_error *err) {
    return visit_all(det, x, x, reach, reach, take_near, NULL, err);
}

/// A triangle was stopped by its own edge or vertex: that is a hit as well, and has its row.
static bool is_hit_by_part(const task *t, const qpc_implicit_nearest *near, const qpc_vec3 *p0, const qpc_vec3 *p1, double s, double most) {
    qpc_vec3 from[2], to[2];
    int points = 0;
    qpc_implicit_hit hit;
    if (points_in(3, near) == 3) return false;
    for (int k = 0; k < 3; k++)
        if (near->weight[k] > 1e-6) from[points] = p0[k], to[points++] = p1[k];
    return qpc_implicit_hits(&t->part->shape, &t->motion, points, from, to, s, most, &hit);
}

/// Where the obstacle turns the tangent plane of a hit is another one at the end, which rows are about, and what goes along an edge is
/// over another point of it by then: the nearest point at the end, if it is too near, and outside, on the side that it started on (TO8).
static bool nearest_at_end(const task *t, const particles *p, int count, int32_t feature, const qpc_vec3 *p1, double s, qpc_contact *ret) {
    qpc_implicit_frame end = qpc_implicit_frame_of(t->x1 + 3 * (int64_t)t->part->first_node);
    qpc_vec3 local[3] = {{0, 0, 0}};
    for (int k = 0; k < count; k++) local[k] = qpc_implicit_to_local(&end, p1[k]);
    qpc_implicit_nearest near = qpc_implicit_closest(&t->part->shape, count, local);
    if (near.phi >= s || near.phi <= -(p->radius + t->part->radius)) return false;
    *ret = contact_of(t, p, count, feature, &near, qpc_implicit_to_world(&end, near.n));
    return qpc_contact_gap_at(ret, t->x0) > 0;
}

static bool take_hit(void *user, const task *t, const particles *p, int count, int32_t feature, const qpc_vec3 *p0, const qpc_vec3 *p1) {
    double separation = p->radius + t->part->radius, s = t->factor * separation, most = TOLERANCE * separation;
    qpc_implicit_hit hit;
    (void)user;
    if (!qpc_implicit_hits(&t->part->shape, &t->motion, count, p0, p1, s, most, &hit)) return true;
    if (count == 3 && is_hit_by_part(t, &hit.near, p0, p1, s, most)) return true;
    qpc_contact c;
    if (!(t->motion.turn > 0) || !nearest_at_end(t, p, count, feature, p1, s, &c))
        c = contact_of(t, p, count, feature, &hit.near, qpc_implicit_at_end(&t->motion, hit.near.n));
    c.toi = hit.toi;
    c.flags = (uint8_t)((hit.at_start ? QPC_CONTACT_AT_START : 0) | (hit.uncertain ? QPC_CONTACT_UNCERTAIN : 0));
    t->det->counts.hits++;
    return qpc_array_push(&t->det->raw, c);
}

qpc_status qpc_obstacles_motion(qpc_detector *det, const double *x0, const double *x1, double factor, qpc_error *err) {
    return visit_all(det, x0, x1, factor, factor + 1.1 * TOLERANCE, take_hit, NULL, err);
}

static bool take_gap(void *user, const task *t, const particles *p, int count, int32_t feature, const qpc_vec3 *p0, const qpc_vec3 *p1) {
    double *best = user, separation = p->radius + t->part->radius;
    qpc_implicit_nearest near;
    (void)feature;
    (void)p1;
    nearest(t, count, p0, &near);
    if (near.phi < *best * separation) *best = near.phi / separation;
    return true;
}

void qpc_obstacles_gap(qpc_detector *det, const double *x, double *best) {
    visit_all(det, x, x, *best, *best, take_gap, best, NULL);
}

typedef struct overlaps {
    qpc_overlap *ret;
    int32_t max;
    int64_t *count;
} overlaps;

static bool take_overlap(void *user, const task *t, const particles *p, int count, int32_t feature, const qpc_vec3 *p0, const qpc_vec3 *p1) {
    overlaps *to = user;
    qpc_implicit_nearest near;
    (void)p1;
    if (!nearest(t, count, p0, &near) || near.phi > 0) return true;
    if (*to->count < to->max) to->ret[*to->count] = (qpc_overlap){{p->surface, t->part->surface}, {feature, count - 1}, fmax(-near.phi, 0)};
    ++*to->count;
    return true;
}

void qpc_obstacles_overlaps(qpc_detector *det, const double *x, qpc_overlap *ret, int32_t max, int64_t *count) {
    overlaps to = {ret, max, count};
    visit_all(det, x, x, 0, 0, take_overlap, &to, NULL);
}
