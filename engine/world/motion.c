/// Prescribed motion: kinematic bodies follow their velocity, pinned nodes their target. What the
/// fail-safe holds back is owed, as a way and a turn: the pose plus what is owed is where the orders would have
/// the body. It goes there at no more than one and a half times the speed of its orders; so does a pin.
/// Runs on the thread in the world.
#include "engine/world/world.h"

#include <string.h>

/// Quaternion of a rotation by the vector a (rad).
static void quaternion_of(qpc_vec3 a, double q[4]) {
    double angle = v3_norm(a);
    double s = angle > 1e-12 ? sin(0.5 * angle) / angle : 0.5;
    q[0] = cos(0.5 * angle);
    q[1] = s * a.x;
    q[2] = s * a.y;
    q[3] = s * a.z;
}

static void quaternion_multiply(const double a[4], const double b[4], double out[4]) {
    double q[4] = {
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    };
    double norm = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    for (int i = 0; i < 4; i++) out[i] = q[i] / norm;
}

bool qpc_motion_is_driven(const qpc_body *body) {
    if (body->motion != QPC_KINEMATIC) return false;
    return v3_norm2(body->velocity) > 0.0 || v3_norm2(body->angular_velocity) > 0.0 ||
           v3_norm2(body->owed) > 0.0 || v3_norm2(body->owed_turn) > 0.0;
}

static qpc_vec3 at_most(qpc_vec3 way, double most) {
    double length = v3_norm(way);
    return length > most ? v3_scale(most / length, way) : way;
}

/// Way and turn of a body in a motion of length h that nothing cuts: to where its orders have it then, but no
/// faster than one and a half times what it was ordered to go.
static void whole_motion(const qpc_body *body, double h, qpc_vec3 *shift, qpc_vec3 *turn) {
    *shift = at_most(v3_madd(body->owed, h, body->velocity), 1.5 * h * body->pace);
    *turn = at_most(v3_madd(body->owed_turn, h, body->angular_velocity), 1.5 * h * body->turn_pace);
}

/// What is owed after the part `made` of a motion whose whole is `whole`; `all` would have left nothing.
static qpc_vec3 still_owed(qpc_vec3 all, qpc_vec3 whole, double made) {
    return v3_madd(v3_sub(all, whole), 1.0 - made, whole);
}

/// Pose after the part s of a motion.
static void pose_after(const qpc_body *body, double h, double s, qpc_vec3 *position, double rotation[4]) {
    qpc_vec3 shift, turn;
    whole_motion(body, h, &shift, &turn);
    *position = v3_madd(body->position, s, shift);
    memcpy(rotation, body->rotation, sizeof body->rotation);
    if (s * v3_norm2(turn) > 0.0) {
        double q[4];
        quaternion_of(v3_scale(s, turn), q);
        quaternion_multiply(q, body->rotation, rotation);
    }
}

double qpc_motion_speed(const qpc_body *body, double h) {
    qpc_vec3 shift, turn;
    double reach = 0.0;
    whole_motion(body, h, &shift, &turn);
    double rate = v3_norm(turn) / h;
    for (int32_t k = 0; k < body->node_count && rate > 0.0; k++) reach = fmax(reach, v3_norm(v3_load(body->local + 3 * k)));
    return v3_norm(shift) / h + rate * reach;
}

void qpc_motion_place(qpc_world *w, int32_t body_index, double h, double scale) {
    const qpc_body *body = &w->bodies[body_index];
    qpc_vec3 position;
    double rotation[4];
    pose_after(body, h, body->hold * scale, &position, rotation);
    for (int32_t k = 0; k < body->node_count; k++)
        v3_store(w->x1 + 3 * (body->first_node + k),
                 v3_add(position, v3_rotate(rotation, v3_load(body->local + 3 * k))));
}

void qpc_motion_begin_step(qpc_world *w) {
    for (int32_t i = 0; i < w->pin_count; i++) {
        qpc_pin *pin = &w->pins[i];
        qpc_vec3 at = v3_load(w->x + 3 * pin->node);
        double speed = v3_norm(pin->velocity);
        if (pin->told) speed = fmax(speed, v3_norm(v3_sub(pin->target, at)) / w->dt);
        bool behind = !pin->told && v3_norm2(v3_sub(pin->target, at)) > 0.0;
        pin->pace = behind ? fmax(pin->pace, speed) : speed;
        pin->told = false;
        pin->target = v3_madd(pin->target, w->dt, pin->velocity);
    }
    for (int32_t i = 0; i < w->body_count; i++) {
        qpc_body *body = &w->bodies[i];
        double speed = v3_norm(body->velocity), turn = v3_norm(body->angular_velocity);
        body->pace = v3_norm2(body->owed) > 0.0 ? fmax(body->pace, speed) : speed;
        body->turn_pace = v3_norm2(body->owed_turn) > 0.0 ? fmax(body->turn_pace, turn) : turn;
    }
}

void qpc_motion_release(qpc_world *w) {
    for (int32_t i = 0; i < w->pin_count; i++) w->pins[i].hold = 1.0;
    for (int32_t i = 0; i < w->body_count; i++) w->bodies[i].hold = 1.0;
}

void qpc_motion_prepare(qpc_world *w, double h, double left) {
    for (int32_t i = 0; i < 3 * w->live_count; i++) w->v_frame[i] = w->v[i];
    for (int32_t i = 0; i < w->pin_count; i++) {
        const qpc_pin *pin = &w->pins[i];
        qpc_vec3 at = v3_load(w->x + 3 * pin->node), way = v3_sub(pin->target, at);
        double most = 1.5 * left * pin->pace, length = v3_norm(way);
        bool whole = h >= left && length <= most && pin->hold >= 1.0;
        double part = pin->hold * (h >= left ? 1.0 : h / left);
        if (length > most) part *= most / length;
        qpc_vec3 end = whole ? pin->target : v3_madd(at, part, way);
        v3_store(w->x1 + 3 * pin->node, end);
        v3_store(w->v_frame + 3 * pin->node, v3_scale(1.0 / h, v3_sub(end, at)));
    }
    for (int32_t i = 0; i < w->body_count; i++) {
        const qpc_body *body = &w->bodies[i];
        if (body->motion != QPC_KINEMATIC) continue;
        int32_t first = 3 * body->first_node, count = 3 * body->node_count;
        if (!qpc_motion_is_driven(body) || body->hold <= 0.0) {
            memcpy(w->x1 + first, w->x + first, (size_t)count * sizeof(double));
            memset(w->v_frame + first, 0, (size_t)count * sizeof(double));
            continue;
        }
        qpc_motion_place(w, i, h, 1.0);
        for (int32_t k = 0; k < count; k++) w->v_frame[first + k] = (w->x1[first + k] - w->x[first + k]) / h;
    }
    qpc_still_place(w);
}

void qpc_motion_commit(qpc_world *w, double h, const double *body_scale) {
    for (int32_t i = 0; i < w->body_count; i++) {
        qpc_body *body = &w->bodies[i];
        body->stood = qpc_motion_is_driven(body) && body->hold <= 0.0;
        if (!qpc_motion_is_driven(body)) continue;
        double made = body->hold * (body_scale != NULL ? body_scale[i] : 1.0);
        qpc_vec3 shift, turn, position;
        double rotation[4];
        whole_motion(body, h, &shift, &turn);
        pose_after(body, h, made, &position, rotation);
        body->position = position;
        memcpy(body->rotation, rotation, sizeof rotation);
        body->owed = still_owed(v3_madd(body->owed, h, body->velocity), shift, made);
        body->owed_turn = still_owed(v3_madd(body->owed_turn, h, body->angular_velocity), turn, made);
    }
}

double qpc_motion_lag(const qpc_world *w) {
    double lag = 0.0;
    for (int32_t i = 0; i < w->body_count; i++) {
        const qpc_body *body = &w->bodies[i];
        if (body->motion != QPC_KINEMATIC) continue;
        double turn = v3_norm(body->owed_turn), reach = 0.0;
        for (int32_t k = 0; k < body->node_count && turn > 0.0; k++) reach = fmax(reach, v3_norm(v3_load(body->local + 3 * k)));
        lag = fmax(lag, v3_norm(body->owed) + reach * turn);
    }
    for (int32_t i = 0; i < w->pin_count; i++)
        lag = fmax(lag, v3_norm(v3_sub(w->pins[i].target, v3_load(w->x + 3 * w->pins[i].node))));
    return lag;
}
