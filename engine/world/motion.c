/// Prescribed motion: kinematic bodies follow their velocity, pinned nodes their target. What the
/// fail-safe holds back is owed: a body makes up for it at no more than half its speed on top.
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

static qpc_vec3 rotate(const double q[4], qpc_vec3 p) {
    qpc_vec3 u = v3(q[1], q[2], q[3]);
    qpc_vec3 t = v3_scale(2.0, v3_cross(u, p));
    return v3_add(v3_madd(p, q[0], t), v3_cross(u, t));
}

static bool is_driven(const qpc_body *body) {
    return body->motion == QPC_KINEMATIC &&
           (v3_norm2(body->velocity) > 0.0 || v3_norm2(body->angular_velocity) > 0.0);
}

/// Seconds of its own motion that a body makes in h.
static double advance_time(const qpc_body *body, double h) {
    return h + (body->pending < 0.5 * h ? body->pending : 0.5 * h);
}

static void pose_after(const qpc_body *body, double seconds, qpc_vec3 *position, double rotation[4]) {
    *position = v3_madd(body->position, seconds, body->velocity);
    memcpy(rotation, body->rotation, sizeof body->rotation);
    if (v3_norm2(body->angular_velocity) > 0.0) {
        double turn[4];
        quaternion_of(v3_scale(seconds, body->angular_velocity), turn);
        quaternion_multiply(turn, body->rotation, rotation);
    }
}

void qpc_motion_place(qpc_world *w, int32_t body_index, double h, double scale) {
    const qpc_body *body = &w->bodies[body_index];
    qpc_vec3 position;
    double rotation[4];
    pose_after(body, scale * advance_time(body, h), &position, rotation);
    for (int32_t k = 0; k < body->node_count; k++)
        v3_store(w->x1 + 3 * (body->first_node + k),
                 v3_add(position, rotate(rotation, v3_load(body->local + 3 * k))));
}

void qpc_motion_begin_step(qpc_world *w) {
    for (int32_t i = 0; i < w->pin_count; i++)
        w->pins[i].target = v3_madd(w->pins[i].target, w->dt, w->pins[i].velocity);
}

void qpc_motion_prepare(qpc_world *w, double h, double left) {
    for (int32_t i = 0; i < 3 * w->free_count; i++) w->v_frame[i] = w->v[i];
    for (int32_t i = 0; i < w->pin_count; i++) {
        const qpc_pin *pin = &w->pins[i];
        qpc_vec3 at = v3_load(w->x + 3 * pin->node), way = v3_sub(pin->target, at);
        // A node that was held back makes up for it at one and a half times its speed at most.
        double most = 1.5 * left * v3_norm(pin->velocity), length = v3_norm(way);
        if (most > 0.0 && length > most) way = v3_scale(most / length, way);
        bool last = h >= left;
        qpc_vec3 end = last && (most <= 0.0 || length <= most) ? pin->target : v3_madd(at, last ? 1.0 : h / left, way);
        v3_store(w->x1 + 3 * pin->node, end);
        v3_store(w->v_frame + 3 * pin->node, v3_scale(1.0 / h, v3_sub(end, at)));
    }
    for (int32_t i = 0; i < w->body_count; i++) {
        const qpc_body *body = &w->bodies[i];
        if (body->motion != QPC_KINEMATIC) continue;
        int32_t first = 3 * body->first_node, count = 3 * body->node_count;
        if (!is_driven(body)) {
            memcpy(w->x1 + first, w->x + first, (size_t)count * sizeof(double));
            memset(w->v_frame + first, 0, (size_t)count * sizeof(double));
            continue;
        }
        qpc_motion_place(w, i, h, 1.0);
        for (int32_t k = 0; k < count; k++) w->v_frame[first + k] = (w->x1[first + k] - w->x[first + k]) / h;
    }
}

void qpc_motion_commit(qpc_world *w, double h, const double *body_scale) {
    for (int32_t i = 0; i < w->body_count; i++) {
        qpc_body *body = &w->bodies[i];
        if (!is_driven(body)) continue;
        double made = (body_scale != NULL ? body_scale[i] : 1.0) * advance_time(body, h);
        pose_after(body, made, &body->position, body->rotation);
        body->pending += h - made;
        if (body->pending < 0.0) body->pending = 0.0;
    }
}

double qpc_motion_lag(const qpc_world *w) {
    double lag = 0.0;
    for (int32_t i = 0; i < w->body_count; i++) {
        const qpc_body *body = &w->bodies[i];
        if (body->motion != QPC_KINEMATIC || body->pending <= 0.0) continue;
        double reach = 0.0;
        for (int32_t k = 0; k < body->node_count; k++) reach = fmax(reach, v3_norm(v3_load(body->local + 3 * k)));
        lag = fmax(lag, body->pending * (v3_norm(body->velocity) + reach * v3_norm(body->angular_velocity)));
    }
    for (int32_t i = 0; i < w->pin_count; i++)
        lag = fmax(lag, v3_norm(v3_sub(w->pins[i].target, v3_load(w->x + 3 * w->pins[i].node))));
    return lag;
}
