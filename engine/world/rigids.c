/// Motion of the rigid bodies of a world: kick, free motion, vertices, and what rows, K and b need of them
/// (docs/theory-rigid.md, TR17 to TR21).
///
/// Forces and rows change the velocities of a body at the pose where the step begins; from there it moves freely, exactly
/// (dynamics/rigid.h), and its vertices follow. Runs on the worker in the world; no memory is taken.
#include "engine/world/world.h"

#include <string.h>

static const qpc_body *body_of(const qpc_world *w, const qpc_rigid_part *part) { return &w->bodies[part->body]; }

static const double HOLD = 1e-10; // of the smallest separation: vertices that would move by less stay, to the bit (TR23)

/// Vertices of a body in a state into x (nodes x 3).
static void place_vertices(const qpc_world *w, const qpc_rigid_part *part, const qpc_rigid_state *state, double *x) {
    const qpc_body *body = body_of(w, part);
    qpc_rigid_place(state, body->node_count, body->local, x + 3 * (int64_t)body->first_node, NULL);
}

/// At the end of the motion no vertex is farther than HOLD from where it begins: they stay there.
static bool hold_vertices(const qpc_world *w, const qpc_body *body) {
    int64_t first = 3 * (int64_t)body->first_node;
    const double *x = w->x + first;
    double *x1 = w->x1 + first, most = HOLD * w->min_separation;
    for (int32_t k = 0; k < 3 * body->node_count; k++)
        if (!(fabs(x1[k] - x[k]) <= most)) return false;
    memcpy(x1, x, 3 * (size_t)body->node_count * sizeof *x);
    return true;
}

void qpc_rigid_place_end(qpc_world *w, int32_t rigid, double h, double scale, const double *dv) {
    qpc_rigid_part *part = &w->rigids[rigid];
    const qpc_body *body = body_of(w, part);
    qpc_rigid_state *end = &w->pose1[rigid];
    *end = w->pose[rigid];
    part->held = 0.0;
    part->kick = v3_load(dv + part->dof);
    part->twist = v3_load(dv + part->dof + 3);
    end->v = v3_add(end->v, part->kick);
    end->w = v3_add(end->w, part->twist);
    double *x1 = w->x1 + 3 * (int64_t)body->first_node;
    bool still = w->still[part->body] != 0;
    if (still) end->v = end->w = v3(0.0, 0.0, 0.0);
    if (scale <= 0.0 || still) { // to the bit
        memcpy(x1, w->x + 3 * (int64_t)body->first_node, 3 * (size_t)body->node_count * sizeof *x1);
        return;
    }
    qpc_error err = {0};
    if (qpc_rigid_drift(&part->inertia, scale * h, end, &err) != QPC_OK) {
        for (int32_t k = 0; k < 3 * body->node_count; k++) x1[k] = NAN; // whoever looks at it fails
        return;
    }
    place_vertices(w, part, end, w->x1);
    // Joints close gaps of round-off between points of theirs, which would be work on what does not move.
    if (w->joint_count == 0 && hold_vertices(w, body)) part->held = scale;
}

void qpc_rigid_stop(const qpc_world *w, int32_t rigid, double *dv) {
    v3_store(dv + w->rigids[rigid].dof, v3_neg(w->pose[rigid].v));
    v3_store(dv + w->rigids[rigid].dof + 3, v3_neg(w->pose[rigid].w));
}

bool qpc_rigid_leads_somewhere(const qpc_world *w, double h, double farthest, const double *dv) {
    for (int32_t i = 0; i < w->rigid_count; i++) {
        const qpc_rigid_part *part = &w->rigids[i];
        const double *I = part->inertia.moment, *kick = dv + part->dof;
        qpc_vec3 end = v3_madd(w->pose[i].x, h, v3_add(w->pose[i].v, v3_load(kick)));
        double turn = h * v3_norm(v3_add(w->pose[i].w, v3_load(kick + 3)));
        turn *= fmax(I[0], fmax(I[1], I[2])) / fmin(I[0], fmin(I[1], I[2])); // |L| / I at most: TR6
        if (!(v3_norm(end) < farthest) || !(turn < 0.5 * QPC_RIGID_MOST_SUBSTEPS)) return false;
    }
    return true;
}

void qpc_rigid_place_ends(qpc_world *w, double h, const double *dv) {
    for (int32_t i = 0; i < w->rigid_count; i++) qpc_rigid_place_end(w, i, h, 1.0, dv);
}

/// Where the kick of the present end leads to in half of the motion.
static void place_middle(const qpc_world *w, qpc_rigid_part *part, int32_t rigid, double h) {
    qpc_rigid_state *middle = &part->middle;
    qpc_error unused = {0};
    *middle = w->pose[rigid];
    middle->v = v3_add(middle->v, part->kick);
    middle->w = v3_add(middle->w, part->twist);
    (void)qpc_rigid_drift(&part->inertia, 0.5 * h, middle, &unused); // what fails does so at the end as well
}

void qpc_rigid_linearise(qpc_world *w, double h) {
    for (int32_t i = 0; i < w->rigid_count; i++) {
        qpc_rigid_part *part = &w->rigids[i];
        if (w->joint_count > 0) place_middle(w, part, i, h);
        const qpc_body *body = body_of(w, part);
        for (int32_t k = body->first_node; k < body->first_node + body->node_count; k++) {
            qpc_vec3 from = v3_load(w->x + 3 * (int64_t)k), to = v3_load(w->x1 + 3 * (int64_t)k);
            qpc_vec3 arm = v3_scale(0.5, v3_add(v3_sub(from, w->pose[i].x), v3_sub(to, w->pose1[i].x)));
            qpc_vec3 kicked = v3_add(part->kick, v3_cross(part->twist, arm)), velocity = v3_scale(1.0 / h, v3_sub(to, from));
            if (part->held > 0.0) { // what is held back of it is less than h can tell
                qpc_vec3 before = v3_add(w->pose[i].v, v3_cross(w->pose[i].w, arm));
                velocity = v3_scale(part->held, v3_add(before, kicked));
            }
            v3_store(w->arm + 3 * (int64_t)k, arm);
            if (w->still[part->body] != 0) velocity = kicked = v3(0.0, 0.0, 0.0); // its vertices are fixed nodes
            v3_store(w->v_frame + 3 * (int64_t)k, v3_sub(velocity, kicked));
        }
    }
}

void qpc_rigid_add_masses(const qpc_world *w, const qpc_rigid_state *pose, qpc_linsys *K) {
    for (int32_t i = 0; i < w->rigid_count; i++) {
        const qpc_rigid_part *part = &w->rigids[i];
        qpc_mat3 tensor = qpc_rigid_tensor(&part->inertia, pose[i].q);
        for (int32_t a = 0; a < 3; a++) {
            *qpc_linsys_entry(K, part->dof + a, part->dof + a) += part->inertia.mass;
            for (int32_t c = 0; c <= a; c++) *qpc_linsys_entry(K, part->dof + 3 + a, part->dof + 3 + c) += tensor.m[3 * a + c];
        }
    }
}

void qpc_rigid_add_loads(const qpc_world *w, double h, double *b) {
    for (int32_t i = 0; i < w->rigid_count; i++) {
        const qpc_rigid_part *part = &w->rigids[i];
        const double *force = w->force + part->dof;
        qpc_vec3 load = v3_madd(v3_load(force), part->inertia.mass, w->gravity);
        v3_store(b + part->dof, v3_scale(h, load));
        v3_store(b + part->dof + 3, v3_scale(h, v3_load(force + 3)));
    }
}

double qpc_rigid_potential(const qpc_world *w, double h, const double *dv) {
    double sum = 0.0;
    for (int32_t i = 0; i < w->rigid_count; i++) {
        const qpc_rigid_part *part = &w->rigids[i];
        qpc_rigid_state kick = w->pose[i];
        qpc_vec3 force = v3_load(w->force + part->dof), torque = v3_load(w->force + part->dof + 3);
        qpc_vec3 v = v3_add(kick.v, v3_load(dv + part->dof)), turning = v3_add(kick.w, v3_load(dv + part->dof + 3));
        kick.v = v3_load(dv + part->dof);
        kick.w = v3_load(dv + part->dof + 3);
        sum += qpc_rigid_energy(&part->inertia, &kick);
        sum -= h * (v3_dot(v3_madd(force, part->inertia.mass, w->gravity), v) + v3_dot(torque, turning));
    }
    return sum;
}

void qpc_rigid_velocities(const qpc_world *w, const qpc_rigid_state *pose, double *u) {
    for (int32_t i = 0; i < w->rigid_count; i++) {
        v3_store(u + w->rigids[i].dof, pose[i].v);
        v3_store(u + w->rigids[i].dof + 3, pose[i].w);
    }
}

void qpc_rigid_set_velocities(const qpc_world *w, const double *u, qpc_rigid_state *pose) {
    for (int32_t i = 0; i < w->rigid_count; i++) {
        pose[i].v = v3_load(u + w->rigids[i].dof);
        pose[i].w = v3_load(u + w->rigids[i].dof + 3);
    }
}

void qpc_rigid_vertex_velocities(const qpc_world *w, const qpc_rigid_state *pose, const double *x, double *v) {
    for (int32_t i = 0; i < w->rigid_count; i++) {
        const qpc_body *body = body_of(w, &w->rigids[i]);
        for (int32_t k = body->first_node; k < body->first_node + body->node_count; k++) {
            qpc_vec3 arm = v3_sub(v3_load(x + 3 * (int64_t)k), pose[i].x);
            v3_store(v + 3 * (int64_t)k, v3_add(pose[i].v, v3_cross(pose[i].w, arm)));
        }
    }
}

/// Along the way |p''| <= |r| (|w|^2 + |w'|), and |w'| <= |w|^2 / sqrt(3) in free motion (TR20), so that |w| grows by a bounded part.
double qpc_rigid_swerve(const qpc_world *w, double h) {
    double most = 0.0;
    for (int32_t i = 0; i < w->rigid_count; i++) {
        const qpc_rigid_part *part = &w->rigids[i];
        double turn = h * v3_norm(v3_add(w->pose[i].w, part->twist)), part_of_reach = 2.0;
        if (turn < 1.0) {
            turn /= 1.0 - 0.58 * turn;
            part_of_reach = fmin(0.2 * turn * turn, 2.0);
        }
        most = fmax(most, part_of_reach * part->swing / body_of(w, part)->radius);
    }
    return most;
}

double qpc_rigid_speed(const qpc_rigid_part *part, qpc_vec3 v, qpc_vec3 turning) {
    return v3_norm(v) + part->reach * v3_norm(turning);
}
