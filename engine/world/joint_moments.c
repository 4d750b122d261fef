/// Moments of joints on bodies that turn (docs/theory-joints.md, TJ16).
///
/// Runs on the worker in the world; no memory is taken.
#include "engine/world/joints.h"

static const double FAINT = 1e-3;  // rad a motion: turns far below that are by arms half way, which are exact to their square
static const double FASTEST = 2.0; // rad a motion that gyroscopic terms are taken for

/// What a vector of the body's axes is times (or by) its moments.
static qpc_vec3 by_moments(const double *I, qpc_vec3 a) { return v3(I[0] * a.x, I[1] * a.y, I[2] * a.z); }
static qpc_vec3 over_moments(const double *I, qpc_vec3 a) { return v3(a.x / I[0], a.y / I[1], a.z / I[2]); }

/// Moment, along the body's axes, of an impulse half way with the moment T there: with what the free motion on both sides of it makes of it.
static qpc_vec3 carried(const double *I, qpc_vec3 W, double h, qpc_vec3 T) {
    double most = v3_norm(W) * h > FASTEST ? FASTEST / v3_norm(W) : h;
    qpc_vec3 turned = over_moments(I, T), sum = v3_cross(W, T);
    sum = v3_sub(sum, v3_cross(by_moments(I, W), turned));
    sum = v3_add(sum, by_moments(I, v3_cross(W, turned)));
    return v3_madd(T, 0.25 * most, sum);
}

/// Of a unit impulse along a at the point that is at `from` from the centre of body `rigid` at the start of the motion, at `to` at its end.
static qpc_vec3 moment_of(const qpc_world *w, int32_t rigid, double h, qpc_vec3 from, qpc_vec3 to, qpc_vec3 a) {
    const qpc_rigid_part *part = &w->rigids[rigid];
    const double *I = part->inertia.moment, *start = w->pose[rigid].q, *half = part->middle.q;
    qpc_vec3 at = qpc_quat_unrotate(start, from), spin = v3_add(w->pose[rigid].w, part->twist);
    qpc_vec3 W = qpc_quat_unrotate(start, spin);
    qpc_vec3 m = carried(I, qpc_quat_unrotate(half, part->middle.w), h, v3_cross(at, qpc_quat_unrotate(half, a)));
    // Exactly the work that is done on the way.
    double turn2 = h * h * v3_norm2(W), energy = v3_dot(W, by_moments(I, W));
    double missing = v3_dot(a, v3_sub(to, from)) / h - v3_dot(m, W);
    if (energy > 0.0) m = v3_madd(m, missing / energy * turn2 / (turn2 + FAINT * FAINT), by_moments(I, W));
    return v3_rotate(start, m);
}

double qpc_joint_find_moments(const qpc_world *w, const qpc_joint *joint, const qpc_vec3 *a, double h, qpc_vec3 *more) {
    double rate = 0.0;
    for (int32_t p = 0; p < joint->count; p++) {
        int32_t rigid = joint->body[p] >= 0 ? w->bodies[joint->body[p]].rigid : -1;
        more[p] = v3(0.0, 0.0, 0.0);
        if (rigid < 0 || w->still[joint->body[p]] != 0) continue;
        qpc_vec3 from = v3_sub(qpc_joint_place(joint, p, w->x), w->pose[rigid].x), to = v3_sub(qpc_joint_place(joint, p, w->x1), w->pose1[rigid].x);
        qpc_vec3 half = v3_scale(0.5, v3_add(from, to));
        more[p] = v3_sub(moment_of(w, rigid, h, from, to, a[p]), v3_cross(half, a[p]));
        rate += v3_dot(more[p], w->rigids[rigid].twist);
    }
    return rate;
}
