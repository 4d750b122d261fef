/// Motion of one rigid body; see rigid.h.
///
/// Free motion: with m = R'L/|L| (the momentum along body axes, of length 1) and W = |L| I^-1 m,
///
///     m' = m x W,   p' = 1/2 p W,   p(0) = 1,   q(t) = q(0) p(t)                      (TR6)
///
/// both sides are products, so that Taylor coefficients follow from lower ones by sums of products.
/// As many as the time to go needs; if the most are not enough, a part of it is gone, and again.
/// L is kept as it is in space, and w is what belongs to it at the new pose: the error of a step
/// does not touch L at all.
#include "engine/dynamics/rigid.h"

#include <string.h>

enum { MOST_ORDER = 20 };
#define TERM_MOST 2e-17 // of the last two terms of a series; the result is of size 1

qpc_status qpc_rigid_check(const qpc_rigid_body *body, qpc_rigid_state *state, qpc_error *err) {
    if (!(isfinite(body->mass) && body->mass > 0.0))
        return qpc_fail(err, QPC_ERR_INVALID,
                        "the mass of a rigid body is %g kg; it must be "
                        "positive",
                        body->mass);
    for (int i = 0; i < 3; i++)
        if (!(isfinite(body->moment[i]) && body->moment[i] > 0.0))
            return qpc_fail(err, QPC_ERR_INVALID,
                            "moment of inertia %d of a rigid body is %g kg m2; "
                            "it must be positive",
                            i, body->moment[i]);
    if (!v3_finite(state->x) || !v3_finite(state->v) || !v3_finite(state->w))
        return qpc_fail(err, QPC_ERR_INVALID, "place or velocity of a rigid body is not finite");
    if (!qpc_quat_normalise(state->q))
        return qpc_fail(err, QPC_ERR_INVALID,
                        "the orientation of a rigid body, (%g, %g, %g, %g), is "
                        "no quaternion that can be normalised",
                        state->q[0], state->q[1], state->q[2], state->q[3]);
    return QPC_OK;
}

/// R p of a quaternion that is of length 1 but for rounding: scaled by its length, so that what is
/// missing there does not add up over 100,000 steps. side -1: R'p.
static qpc_vec3 turn(const double q[4], double side, qpc_vec3 p) {
    double norm2 = q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3];
    qpc_vec3 u = v3(q[1], q[2], q[3]), t = v3_cross(u, p);
    return v3_madd(p, 2.0 / norm2, v3_madd(v3_cross(u, t), side * q[0], t));
}

static qpc_vec3 times(const double moment[3], qpc_vec3 own) {
    return v3(moment[0] * own.x, moment[1] * own.y, moment[2] * own.z);
}

qpc_vec3 qpc_rigid_inertia_times(const qpc_rigid_body *body, const double q[4], qpc_vec3 w) {
    return turn(q, 1.0, times(body->moment, turn(q, -1.0, w)));
}

qpc_vec3 qpc_rigid_inertia_solve(const qpc_rigid_body *body, const double q[4], qpc_vec3 L) {
    qpc_vec3 own = turn(q, -1.0, L);
    const double *I = body->moment;
    return turn(q, 1.0, v3(own.x / I[0], own.y / I[1], own.z / I[2]));
}

qpc_mat3 qpc_rigid_tensor(const qpc_rigid_body *body, const double q[4]) {
    qpc_mat3 ret = {{0}};
    for (int k = 0; k < 3; k++) { // sum of I_k a_k a_k' over the axes: symmetric in every bit
        qpc_vec3 axis = turn(q, 1.0, v3(k == 0, k == 1, k == 2));
        const double a[3] = {axis.x, axis.y, axis.z};
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) ret.m[3 * i + j] += body->moment[k] * (a[i] * a[j]);
    }
    return ret;
}

double qpc_rigid_energy(const qpc_rigid_body *body, const qpc_rigid_state *state) {
    qpc_vec3 own = turn(state->q, -1.0, state->w);
    return 0.5 * (body->mass * v3_norm2(state->v) + v3_dot(times(body->moment, own), own));
}

void qpc_rigid_place(const qpc_rigid_state *state, int32_t count, const double *X, double *x,
                     double *v) {
    for (int64_t i = 0; i < count; i++) {
        qpc_vec3 r = v3_rotate(state->q, v3_load(X + 3 * i));
        if (x != NULL) v3_store(x + 3 * i, v3_add(state->x, r));
        if (v != NULL) v3_store(v + 3 * i, v3_add(state->v, v3_cross(state->w, r)));
    }
}

void qpc_rigid_kick(const qpc_rigid_body *body, qpc_vec3 impulse, qpc_vec3 angular,
                    qpc_rigid_state *state) {
    state->v = v3_madd(state->v, 1.0 / body->mass, impulse);
    state->w = v3_add(state->w, qpc_rigid_inertia_solve(body, state->q, angular));
}

// ---- free motion ----

typedef struct series { // Taylor coefficients of m, W and p
    double m[MOST_ORDER + 1][3], W[MOST_ORDER + 1][3], p[MOST_ORDER + 1][4];
} series;

/// Coefficient k + 1 from those up to k.
static void next_coefficient(series *s, int k, const double rate[3]) {
    double m[3] = {0}, p[4] = {0};
    for (int j = 0; j <= k; j++) {
        const double *a = s->m[j], *W = s->W[k - j], *b = s->p[j];
        m[0] += a[1] * W[2] - a[2] * W[1];
        m[1] += a[2] * W[0] - a[0] * W[2];
        m[2] += a[0] * W[1] - a[1] * W[0];
        p[0] -= b[1] * W[0] + b[2] * W[1] + b[3] * W[2];
        p[1] += b[0] * W[0] + b[2] * W[2] - b[3] * W[1];
        p[2] += b[0] * W[1] + b[3] * W[0] - b[1] * W[2];
        p[3] += b[0] * W[2] + b[1] * W[1] - b[2] * W[0];
    }
    for (int i = 0; i < 3; i++) {
        s->m[k + 1][i] = m[i] / (k + 1);
        s->W[k + 1][i] = rate[i] * s->m[k + 1][i];
    }
    for (int i = 0; i < 4; i++) s->p[k + 1][i] = 0.5 * p[i] / (k + 1);
}

/// Size of the terms of order k at time 1.
static double term_size(const series *s, int k) {
    double m = 0.0, p = 0.0;
    for (int i = 0; i < 3; i++) m = fmax(m, fabs(s->m[k][i]));
    for (int i = 0; i < 4; i++) p = fmax(p, fabs(s->p[k][i]));
    return fmax(m, p);
}

/// How far the series of m (at time 0, scaled to the time to go: 1 is all of it) is good, and p
/// there.
static double advance(const double m[3], const double rate[3], double p[4]) {
    series s;
    for (int i = 0; i < 3; i++) {
        s.m[0][i] = m[i];
        s.W[0][i] = rate[i] * m[i];
    }
    memcpy(s.p[0], (const double[4]){1, 0, 0, 0}, sizeof s.p[0]);
    int order = 0;
    double size = 1.0, before = 1.0, far = 1.0;
    while (order < MOST_ORDER && !(size <= TERM_MOST && before <= TERM_MOST)) {
        next_coefficient(&s, order++, rate);
        before = size;
        size = term_size(&s, order);
    }
    if (!(size <= TERM_MOST && before <= TERM_MOST)) {
        far = fmin(pow(TERM_MOST / size, 1.0 / order), pow(TERM_MOST / before, 1.0 / (order - 1)));
        far = fmin(far, 1.0);
    }
    for (int i = 0; i < 4; i++) {
        p[i] = s.p[order][i];
        for (int k = order - 1; k >= 0; k--) p[i] = p[i] * far + s.p[k][i];
    }
    return far;
}

qpc_status qpc_rigid_drift(const qpc_rigid_body *body, double h, qpc_rigid_state *state,
                           qpc_error *err) {
    qpc_rigid_state end = *state;
    end.x = v3_madd(state->x, h, state->v);
    qpc_vec3 L = qpc_rigid_inertia_times(body, state->q, state->w);
    double size = v3_norm(L);
    if (!v3_finite(end.x) || !isfinite(size))
        return qpc_fail(err, QPC_ERR_NUMERIC, "a rigid body's motion is not finite");
    double left = size > 0.0 ? h : 0.0;
    for (int32_t substep = 0; left != 0.0; substep++) {
        qpc_vec3 own = v3_scale(1.0 / size, turn(end.q, -1.0, L));
        const double m[3] = {own.x, own.y, own.z};
        double rate[3], p[4];
        for (int i = 0; i < 3; i++) rate[i] = left * (size / body->moment[i]);
        double far = advance(m, rate, p);
        if (substep == QPC_RIGID_MOST_SUBSTEPS || !(far > 0.0))
            return qpc_fail(err, QPC_ERR_NUMERIC,
                            "a rigid body turns at %g rad/s: too fast for a step of %g s",
                            v3_norm(state->w), h);
        qpc_quat_multiply(end.q, p, end.q);
        if (!qpc_quat_normalise(end.q))
            return qpc_fail(err, QPC_ERR_NUMERIC, "a rigid body's orientation is not finite");
        left = far < 1.0 ? left * (1.0 - far) : 0.0;
    }
    if (size > 0.0) {
        // Refined once, so that the next step finds L where it was, but for the rounding of w
        // itself.
        end.w = qpc_rigid_inertia_solve(body, end.q, L);
        qpc_vec3 lost = v3_sub(L, qpc_rigid_inertia_times(body, end.q, end.w));
        end.w = v3_add(end.w, qpc_rigid_inertia_solve(body, end.q, lost));
    }
    *state = end;
    return QPC_OK;
}

qpc_status qpc_rigid_step(const qpc_rigid_body *body, double h, qpc_rigid_load load, void *context,
                          qpc_rigid_state *state, qpc_error *err) {
    qpc_rigid_state end = *state;
    qpc_vec3 force = v3(0, 0, 0), torque = v3(0, 0, 0);
    load(context, &end, &force, &torque);
    qpc_rigid_kick(body, v3_scale(0.5 * h, force), v3_scale(0.5 * h, torque), &end);
    qpc_status status = qpc_rigid_drift(body, h, &end, err);
    if (status != QPC_OK) return status;
    load(context, &end, &force, &torque);
    qpc_rigid_kick(body, v3_scale(0.5 * h, force), v3_scale(0.5 * h, torque), &end);
    *state = end;
    return QPC_OK;
}
