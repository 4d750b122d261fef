/// Motion of one rigid body: state, free motion, impulses (docs/theory-rigid.md, TR5 to TR11).
///
/// A step is kick, drift, kick: forces change velocities at a fixed pose, and between kicks the
/// body moves freely, by Taylor series of Euler's equations down to rounding. So free motion keeps
/// energy and angular momentum whatever dt is, and only forces have an order: the second. Space
/// axes for everything but moments, which are along the body's own (principal) axes. No state; any
/// thread; no memory is taken.
#ifndef QPC_ENGINE_DYNAMICS_RIGID_H
#define QPC_ENGINE_DYNAMICS_RIGID_H

#include "base/status.h"
#include "base/vec.h"

#include <stdint.h>

typedef struct qpc_rigid_body {
    double mass;      // kg, > 0
    double moment[3]; // kg m2 about the centre (or about a fixed pivot, then v = 0), each > 0
} qpc_rigid_body;

typedef struct qpc_rigid_state {
    qpc_vec3 x;  // m, centre of mass (or pivot)
    double q[4]; // unit quaternion (w, x, y, z), body axes to space
    qpc_vec3 v;  // m/s
    qpc_vec3 w;  // rad/s, along space axes
} qpc_rigid_state;

/// Substeps that one drift may take: about 1 rad of turning each.
enum { QPC_RIGID_MOST_SUBSTEPS = 10000 };

/// r = p q: first q, then p.
static inline void qpc_quat_multiply(const double p[4], const double q[4], double r[4]) {
    double w = p[0] * q[0] - p[1] * q[1] - p[2] * q[2] - p[3] * q[3];
    double x = p[0] * q[1] + p[1] * q[0] + p[2] * q[3] - p[3] * q[2];
    double y = p[0] * q[2] - p[1] * q[3] + p[2] * q[0] + p[3] * q[1];
    double z = p[0] * q[3] + p[1] * q[2] - p[2] * q[1] + p[3] * q[0];
    r[0] = w;
    r[1] = x;
    r[2] = y;
    r[3] = z;
}
/// p turned back: from space axes to the body's.
static inline qpc_vec3 qpc_quat_unrotate(const double q[4], qpc_vec3 p) {
    const double back[4] = {q[0], -q[1], -q[2], -q[3]};
    return v3_rotate(back, p);
}
/// To length 1. False, q as it was, if its length is 0 or not finite.
static inline int qpc_quat_normalise(double q[4]) {
    double n = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    if (!(n > 0.0) || !isfinite(n)) return 0;
    for (int i = 0; i < 4; i++) q[i] /= n;
    return 1;
}

/// QPC_ERR_INVALID: mass or a moment that is not positive, anything that is not finite, a
/// quaternion without length. It is normalised here.
qpc_status qpc_rigid_check(const qpc_rigid_body *body, qpc_rigid_state *state, qpc_error *err);

/// R I R' w: angular momentum about the centre of an angular velocity, N m s.
qpc_vec3 qpc_rigid_inertia_times(const qpc_rigid_body *body, const double q[4], qpc_vec3 w);
/// (R I R')^-1 L, rad/s.
qpc_vec3 qpc_rigid_inertia_solve(const qpc_rigid_body *body, const double q[4], qpc_vec3 L);
/// R I R', kg m2: with m on the other diagonal block the 6x6 mass block of (v, w).
qpc_mat3 qpc_rigid_tensor(const qpc_rigid_body *body, const double q[4]);
/// Kinetic energy, J.
double qpc_rigid_energy(const qpc_rigid_body *body, const qpc_rigid_state *state);

/// Vertices at points X (count x 3) along body axes from the centre, m: positions x and velocities
/// v = V + w x r; each (count x 3) or NULL.
void qpc_rigid_place(const qpc_rigid_state *state, int32_t count, const double *X, double *x,
                     double *v);

/// An impulse P (N s) at the centre and an angular one (N m s): v += P/m, w += (R I R')^-1 angular.
void qpc_rigid_kick(const qpc_rigid_body *body, qpc_vec3 impulse, qpc_vec3 angular,
                    qpc_rigid_state *state);
/// Free motion over h (of either sign), s; exact down to rounding. QPC_ERR_NUMERIC, the state as it
/// was: not finite, or turns too far for QPC_RIGID_MOST_SUBSTEPS.
qpc_status qpc_rigid_drift(const qpc_rigid_body *body, double h, qpc_rigid_state *state,
                           qpc_error *err);

/// Force (N) and torque about the centre (N m) on a body in a state. Where they depend on
/// velocities the step is of first order.
typedef void (*qpc_rigid_load)(void *context, const qpc_rigid_state *state, qpc_vec3 *ret_force,
                               qpc_vec3 *ret_torque);
/// Half a kick, drift, half a kick (Strang): second order, and symplectic where loads have a
/// potential. As qpc_rigid_drift() otherwise.
qpc_status qpc_rigid_step(const qpc_rigid_body *body, double h, qpc_rigid_load load, void *context,
                          qpc_rigid_state *state, qpc_error *err);

#endif
