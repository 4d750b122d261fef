/// Moments of joints on bodies that turn (docs/theory-joints.md, TJ16).
///
/// Runs on the worker in the world; no memory is taken.
#include "engine/world/joints.h"

static const double FAINT = 1e-3; // rad a motion: turns far below that are by the arms alone, which are exact to their square

/// What a vector along the body's axes is times its moments.
static qpc_vec3 by_moments(const double *I, qpc_vec3 a) { return v3(I[0] * a.x, I[1] * a.y, I[2] * a.z); }

/// Part of the change of w_i w_j on the way that falls to axis j rather than to the third one, k: the one that is the less like i.
static double share(const double *I, int i, int j, int k) {
    double a = (I[i] - I[j]) * (I[i] - I[j]), b = (I[i] - I[k]) * (I[i] - I[k]);
    return a + b > 0.0 ? a / (a + b) : 0.5;
}

/// How much of the moment about the body's axis j goes with the axis, and not with space: 1 - I_j / I_i of a symmetric body's own axis, 0 of
/// the others.
static double fixed_in_body(const double *I, int j) {
    int i = (j + 1) % 3, k = (j + 2) % 3;
    return 0.5 * ((I[k] - I[j]) / I[i] * share(I, i, j, k) + (I[i] - I[j]) / I[k] * share(I, k, j, i));
}

/// Of a unit impulse along a at the point that is at `from` from the centre of body `rigid` at the start of the motion, at `to` at its end.
static qpc_vec3 moment_of(const qpc_world *w, int32_t rigid, double h, qpc_vec3 from, qpc_vec3 to, qpc_vec3 a) {
    const qpc_rigid_part *part = &w->rigids[rigid];
    const double *I = part->inertia.moment, *start = w->pose[rigid].q, *half = part->middle.q;
    qpc_vec3 W = qpc_quat_unrotate(start, v3_add(w->pose[rigid].w, part->twist));
    qpc_vec3 body = v3_cross(qpc_quat_unrotate(start, from), qpc_quat_unrotate(half, a)); // half way, along its axes there
    qpc_vec3 m = qpc_quat_unrotate(start, v3_rotate(half, body)), more = v3_sub(body, m);
    m = v3_add(m, v3(fixed_in_body(I, 0) * more.x, fixed_in_body(I, 1) * more.y, fixed_in_body(I, 2) * more.z));
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
