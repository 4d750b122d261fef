/// Making the rigid bodies of a world from a scene, and their place in K. On the thread that is in the world.
#include "base/mem.h"
#include "engine/world/joints.h"
#include "engine/world/world.h"

#include <stdlib.h>

/// Nodes of a sphere: its centre and a point on each axis; of a capsule: its two centres and points on the other axes. The
/// surface is about the first one or two; all show how it is turned, and joints weigh points by them.
static void round_nodes(const qpc_implicit *shape, qpc_body *body, double nodes[3 * QPC_ROUND_NODES]) {
    bool capsule = shape->kind == QPC_IMPLICIT_CAPSULE;
    body->core_count = capsule ? 2 : 1;
    body->core_length = capsule ? 2.0 * shape->half[shape->axis] : 0.0;
    memset(nodes, 0, 3 * QPC_ROUND_NODES * sizeof *nodes);
    if (capsule) nodes[shape->axis] = -0.5 * body->core_length;
    if (capsule) nodes[3 + shape->axis] = 0.5 * body->core_length;
    for (int32_t k = body->core_count, axis = capsule ? shape->axis + 1 : 0; k < QPC_ROUND_NODES; k++, axis++) nodes[3 * k + axis % 3] = shape->radius;
}

/// A rigid body: vertices along its principal axes, from its centre.
qpc_status qpc_rigid_create(qpc_world *w, int32_t index, const qpc_body_def *def, qpc_error *err) {
    qpc_body *body = &w->bodies[index];
    double round[3 * QPC_ROUND_NODES];
    const double *vertices = def->round ? round : qpc_mesh_vertices(def->mesh);
    const qpc_inertia *inertia = &def->inertia;
    qpc_rigid_part *part = &w->rigids[w->rigid_count];
    qpc_rigid_state *pose = &w->pose[w->rigid_count];
    body->mesh = def->round ? NULL : qpc_mesh_ref(def->mesh);
    if (def->round) round_nodes(&def->shape, body, round);
    body->rigid = w->rigid_count++;
    *part = (qpc_rigid_part){.body = index, .inertia = {.mass = inertia->mass}};
    memcpy(part->inertia.moment, inertia->moment, sizeof inertia->moment);
    body->local = qpc_alloc_array((size_t)def->node_count, 3 * sizeof *body->local);
    if (body->local == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for the vertices of body %d", index);
    for (int32_t k = 0; k < def->node_count; k++) {
        qpc_vec3 arm = v3_sub(v3_scale(def->scale, v3_load(vertices + 3 * k)), inertia->centre);
        v3_store(body->local + 3 * k, qpc_quat_unrotate(inertia->axes, arm));
        part->reach = fmax(part->reach, v3_norm(arm));
        if (k < body->core_count || !def->round) part->swing = fmax(part->swing, v3_norm(arm));
    }
    if (def->round) part->reach = part->swing + def->radius;
    pose->x = v3_add(def->position, v3_rotate(def->rotation, inertia->centre));
    qpc_quat_multiply(def->rotation, inertia->axes, pose->q);
    pose->v = def->velocity;
    pose->w = def->angular_velocity;
    qpc_status st = qpc_rigid_check(&part->inertia, pose, err);
    if (st != QPC_OK) return st;
    qpc_rigid_place(pose, def->node_count, body->local, w->x + 3 * body->first_node, w->v + 3 * body->first_node);
    for (int32_t k = 3 * body->first_node; k < 3 * (body->first_node + body->node_count); k++)
        if (!isfinite(w->x[k]) || fabs(w->x[k]) > 1e15)
            return qpc_fail(err, QPC_ERR_INVALID, "body %d has a vertex beyond 1e15 m", index);
    return QPC_OK;
}

void qpc_rigid_number(qpc_world *w) {
    qpc_vec3 up = v3_norm2(w->gravity) > 0.0 ? v3_neg(w->gravity) : v3(0.0, 1.0, 0.0);
    for (int32_t i = 0; i < w->rigid_count; i++) {
        double height = v3_dot(up, w->pose[i].x);
        int32_t rank = 0;
        for (int32_t k = 0; k < w->rigid_count; k++) {
            double other = v3_dot(up, w->pose[k].x);
            rank += other < height || (other == height && k < i);
        }
        w->rigids[i].dof = 3 * (w->free_count + 2 * rank);
    }
}

/// How much larger the boxes are that tell who lies by whom, of a body's own size.
static const double NEAR = 0.05;
enum {
    BAND_CABLES = 5,
    BAND_LEAST = 11, // rows of a body and the next
    BAND_MOST = 83,  // what the friction of a band takes (friction_chain.c)
};

static void box_of(const qpc_world *w, const qpc_rigid_part *part, double box[6]) {
    const qpc_body *body = &w->bodies[part->body];
    double more = body->radius + NEAR * part->reach;
    for (int a = 0; a < 3; a++) {
        box[a] = HUGE_VAL;
        box[3 + a] = -HUGE_VAL;
        for (int32_t k = body->first_node; k < body->first_node + body->node_count; k++) {
            box[a] = fmin(box[a], w->x[3 * (int64_t)k + a] - more);
            box[3 + a] = fmax(box[3 + a], w->x[3 * (int64_t)k + a] + more);
        }
    }
}

int32_t qpc_rigid_band(const qpc_world *w) {
    if (w->rigid_count < 2 || w->free_count >= 2 * w->rigid_count) return w->rigid_count > 0 || w->free_count > 1 ? BAND_CABLES : 2;
    int32_t band = BAND_LEAST;
    for (int32_t i = 0; i < w->rigid_count && band < BAND_MOST; i++) {
        double mine[6], other[6];
        box_of(w, &w->rigids[i], mine);
        for (int32_t k = 0; k < i; k++) {
            int32_t span = abs(w->rigids[i].dof - w->rigids[k].dof) + 5;
            if (span <= band) continue;
            box_of(w, &w->rigids[k], other);
            bool apart = false;
            for (int a = 0; a < 3; a++) apart = apart || mine[a] > other[3 + a] || other[a] > mine[3 + a];
            if (!apart || qpc_joints_join(w, w->rigids[i].body, w->rigids[k].body)) band = span;
        }
    }
    return band < BAND_MOST ? band : BAND_MOST;
}

qpc_status qpc_rigid_widen(qpc_world *w, qpc_error *err) {
    if (w->rigid_count < 2 || w->sys.kind != QPC_LINSYS_BAND || w->step % QPC_WIDEN_STEPS != 0) return QPC_OK;
    int32_t band = qpc_rigid_band(w);
    return band > w->sys.bandwidth ? qpc_linsys_resize(&w->sys, 3 * w->block_count, band, err) : QPC_OK;
}

/// Two blocks of three a rigid body, behind the pattern of the nodes; one of six where springs pull at points of bodies: their arms
/// couple the velocity with the turning.
qpc_status qpc_rigid_add_pattern(const qpc_world *w, int32_t **start, int32_t **row, qpc_error *err) {
    int32_t n = 3 * w->free_count, all = 3 * w->block_count, at = (*start)[n];
    int32_t block = w->load_count > 0 ? 6 : 3;
    int64_t entries = (int64_t)at + (block == 6 ? 21 : 12) * (int64_t)w->rigid_count;
    if (entries > INT32_MAX) return qpc_fail(err, QPC_ERR_LIMIT, "a matrix of %lld entries is too large", (long long)entries);
    int32_t *columns = qpc_realloc_array(*start, (size_t)all + 1, sizeof *columns);
    if (columns != NULL) *start = columns;
    int32_t *rows = qpc_realloc_array(*row, (size_t)entries, sizeof *rows);
    if (rows != NULL) *row = rows;
    if (columns == NULL || rows == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d rigid bodies", w->rigid_count);
    for (int32_t i = n; i < all; i++) {
        for (int32_t k = i; k < i - (i - n) % block + block; k++) rows[at++] = k;
        columns[i + 1] = at;
    }
    return QPC_OK;
}
