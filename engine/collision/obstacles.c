/// Vertices and edges against implicit surfaces; see obstacles.h and docs/theory-obstacles.md.
///
/// Broad phase: phi is 1-Lipschitz, so a ball about the motion of a whole surface, then the motion of each feature, is proven
/// apart by one value of phi. What is left is decided by its own positions: slices and threads play no part.
#include "engine/collision/obstacles.h"

#include "engine/collision/implicit.h"

#include "base/mem.h"

static const double TOLERANCE = 0.01; // of the separation: largest stop tolerance of a motion test

/// Who may touch an obstacle: features of one surface.
typedef struct particles {
    int32_t surface, first_node, node_count, edge_count, edge_base;
    double radius;
    const qpc_topology *topology; // NULL: a chain
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
    return (particles){c->surface, c->first_node, c->node_count, c->node_count - 1, c->edge_base, c->radius, NULL};
}

static particles of_mesh(const qpc_mesh_part *m) {
    return (particles){m->surface, m->first_node, m->node_count, m->edge_count, m->edge_base, m->radius, m->topology};
}

/// Inner vertices of a soft body are of no edge.
static bool is_skin(const particles *p, int32_t k) {
    return p->topology == NULL || p->topology->vertex_edge_start[k + 1] > p->topology->vertex_edge_start[k];
}

static void nodes_of(const particles *p, int count, int32_t feature, int32_t ret[2]) {
    for (int k = 0; k < count; k++)
        ret[k] = p->first_node + (count == 1 || p->topology == NULL ? feature + k : p->topology->edge_vertex[2 * (int64_t)feature + k]);
}

qpc_status qpc_obstacles_init(qpc_detector *det, const qpc_surface *surfaces, int32_t count, qpc_error *err) {
    int32_t total = 0;
    for (int32_t i = 0; i < count; i++) total += surfaces[i].shape != NULL;
    det->obstacles = qpc_calloc((size_t)total, sizeof *det->obstacles);
    if (det->obstacles == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for %d obstacles", (int)total);
    for (int32_t i = 0; i < count; i++)
        if (surfaces[i].shape != NULL)
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

/// The same for an edge, whose contact has room for the origin and one axis: the point of an axis whose arm about n differs least
/// from that of q. No difference for spheres, round parts of capsules and cylinders about their axis, and what does not turn.
static void hold_by_axis(qpc_vec3 q, qpc_vec3 n, double reach, double weight[2], int *axis, double *offset) {
    static const qpc_vec3 unit[3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    qpc_vec3 arm = v3_cross(q, n);
    double most = -1, z = 0;
    for (int i = 0; i < 3; i++) {
        qpc_vec3 own = v3_cross(unit[i], n);
        double size = v3_norm2(own), along = v3_dot(arm, own);
        if (!(size > 1e-12) || !(along * along > most * size)) continue;
        most = along * along / size;
        *axis = i;
        z = along / size;
    }
    *offset = v3_dot(n, q) - z * part_of(n, *axis);
    weight[1] = -z / reach;
    weight[0] = -1 - weight[1];
}

static qpc_contact contact_of(const task *t, const particles *p, int count, int32_t feature, const qpc_implicit_nearest *near, qpc_vec3 n) {
    const qpc_obstacle_part *o = t->part;
    double reach = qpc_implicit_reach(&o->shape);
    qpc_vec3 q = v3_madd(near->at, -near->phi, near->n); // on the surface
    qpc_contact c = {.n = n, .distance = near->phi, .separation = p->radius + o->radius, .surface = {p->surface, o->surface}, .feature = {feature, 0}};
    nodes_of(p, count, feature, c.node);
    c.weight[0] = count == 1 ? 1 : near->weight[0];
    if (count == 1) {
        int axes[2];
        hold_by_axes(q, near->n, reach, c.weight + 1, axes, &c.offset);
        c.node[1] = o->first_node;
        for (int k = 0; k < 2; k++) c.node[2 + k] = o->first_node + 1 + axes[k];
        c.kind = QPC_CONTACT_VT;
        c.key = qpc_contact_key(QPC_KEY_VERTEX_OBSTACLE, c.node[0], o->surface);
    } else {
        int axis = 0;
        c.weight[1] = near->weight[1];
        hold_by_axis(q, near->n, reach, c.weight + 2, &axis, &c.offset);
        c.node[2] = o->first_node;
        c.node[3] = o->first_node + 1 + axis;
        c.kind = QPC_CONTACT_EE;
        c.key = qpc_contact_key(QPC_KEY_EDGE_OBSTACLE, p->edge_base + feature, o->surface);
    }
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
    for (int count = 1; count <= (t->part->shape.kind == QPC_IMPLICIT_PLANE ? 1 : 2); count++) // vertices are all that a plane meets
        for (int32_t f = 0; f < (count == 1 ? p->node_count : p->edge_count); f++) {
            int32_t node[2];
            qpc_vec3 p0[2], p1[2];
            if (count == 1 && !is_skin(p, f)) continue;
            nodes_of(p, count, f, node);
            double way = 0, size = 0;
            for (int k = 0; k < count; k++) {
                p0[k] = v3_load(t->x0 + 3 * (int64_t)node[k]);
                p1[k] = t->x1 == t->x0 ? p0[k] : v3_load(t->x1 + 3 * (int64_t)node[k]);
                way = fmax(way, way_of(t, p0[k], p1[k]));
            }
            qpc_vec3 middle = count == 1 ? p0[0] : v3_scale(0.5, v3_add(p0[0], p0[1]));
            if (count == 2) size = 0.5 * v3_norm(v3_sub(p0[1], p0[0]));
            double phi = qpc_implicit_phi(&t->part->shape, qpc_implicit_to_local(&t->motion.start, middle), NULL);
            t->det->counts.candidates++;
            if (phi - way - size > by * (1 + 1e-9) + 1e-12 * (way + size + fabs(phi))) continue;
            *(count == 1 ? &t->det->counts.vt_tests : &t->det->counts.ee_tests) += 1;
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
            if (m != NULL ? m->motion != QPC_DYNAMIC || m->rigid : det->chains[k].motion != QPC_DYNAMIC) continue;
            particles p = m != NULL ? of_mesh(m) : of_chain(&det->chains[k]);
            double by = most * (p.radius + o->radius);
            if (!is_far(&t, &p, by)) room = visit_features(&t, &p, by, visit, user);
        }
    }
    return room ? QPC_OK : qpc_fail(err, QPC_ERR_MEMORY, "out of memory for contacts");
}

/// Nearest point of a feature at rest. False: of an edge, but one of its vertices is as near.
static bool nearest(const task *t, int count, const qpc_vec3 *p, qpc_implicit_nearest *ret) {
    qpc_vec3 local[2];
    for (int k = 0; k < count; k++) local[k] = qpc_implicit_to_local(&t->motion.start, p[k]);
    *ret = qpc_implicit_closest(&t->part->shape, count, local);
    return count == 1 || (ret->weight[0] > 1e-6 && ret->weight[1] > 1e-6);
}

static bool take_near(void *user, const task *t, const particles *p, int count, int32_t feature, const qpc_vec3 *p0, const qpc_vec3 *p1) {
    qpc_implicit_nearest near;
    (void)user;
    (void)p1;
    if (!nearest(t, count, p0, &near) || near.phi >= t->factor * (p->radius + t->part->radius)) return true;
    return qpc_array_push(&t->det->raw, contact_of(t, p, count, feature, &near, qpc_implicit_to_world(&t->motion.start, near.n)));
}

qpc_status qpc_obstacles_proximity(qpc_detector *det, const double *x, double reach, qpc_error *err) {
    return visit_all(det, x, x, reach, reach, take_near, NULL, err);
}

static bool take_hit(void *user, const task *t, const particles *p, int count, int32_t feature, const qpc_vec3 *p0, const qpc_vec3 *p1) {
    double separation = p->radius + t->part->radius;
    qpc_implicit_hit hit;
    (void)user;
    if (!qpc_implicit_hits(&t->part->shape, &t->motion, count, p0, p1, t->factor * separation, TOLERANCE * separation, &hit)) return true;
    qpc_contact c = contact_of(t, p, count, feature, &hit.near, hit.n);
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
    if (*to->count < to->max) to->ret[*to->count] = (qpc_overlap){{p->surface, t->part->surface}, {feature, 0}, -near.phi};
    ++*to->count;
    return true;
}

void qpc_obstacles_overlaps(qpc_detector *det, const double *x, qpc_overlap *ret, int32_t max, int64_t *count) {
    overlaps to = {ret, max, count};
    visit_all(det, x, x, 0, 0, take_overlap, &to, NULL);
}
