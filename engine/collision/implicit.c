/// Signed distances of simple convex shapes and the time at which points come near them; see implicit.h.
#include "engine/collision/implicit.h"

#include <math.h>
#include <stddef.h>

static const double ROUNDING = 64 * 0x1p-52; // of the coordinates of a pair
enum { MOST_ITERATIONS = 100 };

// ---- distances ----

static void unpack(qpc_vec3 p, double ret[3]) {
    ret[0] = p.x;
    ret[1] = p.y;
    ret[2] = p.z;
}

static qpc_vec3 unit_axis(int axis, double sign) { return v3(axis == 0 ? sign : 0, axis == 1 ? sign : 0, axis == 2 ? sign : 0); }

/// |d| - radius; the gradient where d = 0 is along `otherwise`.
static double ball(qpc_vec3 d, double radius, int otherwise, qpc_vec3 *n) {
    double length = v3_norm(d);
    *n = length > 0 ? v3_scale(1 / length, d) : unit_axis(otherwise, 1);
    return length - radius;
}

static double box(const double p[3], const double half[3], qpc_vec3 *n) {
    double out[3], apart = 0, deepest = -HUGE_VAL;
    int face = 0;
    for (int i = 0; i < 3; i++) {
        double q = fabs(p[i]) - half[i];
        if (q > deepest) deepest = q, face = i;
        out[i] = q > 0 ? copysign(q, p[i]) : 0;
        apart += out[i] * out[i];
    }
    if (!(apart > 0)) {
        *n = unit_axis(face, p[face] < 0 ? -1 : 1);
        return deepest;
    }
    apart = sqrt(apart);
    *n = v3_scale(1 / apart, v3(out[0], out[1], out[2]));
    return apart;
}

static double cylinder(const qpc_implicit *s, const double p[3], qpc_vec3 *n) {
    int a = s->axis;
    double radial[3] = {p[0], p[1], p[2]};
    radial[a] = 0;
    double rho = sqrt(radial[0] * radial[0] + radial[1] * radial[1] + radial[2] * radial[2]);
    qpc_vec3 out = rho > 0 ? v3_scale(1 / rho, v3(radial[0], radial[1], radial[2])) : unit_axis((a + 1) % 3, 1);
    qpc_vec3 up = unit_axis(a, p[a] < 0 ? -1 : 1);
    double side = rho - s->radius, end = fabs(p[a]) - s->half[a];
    if (side > 0 && end > 0) { // the rim
        double apart = sqrt(side * side + end * end);
        *n = v3_add(v3_scale(side / apart, out), v3_scale(end / apart, up));
        return apart;
    }
    *n = side >= end ? out : up;
    return fmax(side, end);
}

double qpc_implicit_phi(const qpc_implicit *s, qpc_vec3 at, qpc_vec3 *ret_n) {
    double p[3], phi = 0;
    qpc_vec3 n = {0, 0, 0};
    unpack(at, p);
    switch (s->kind) {
    case QPC_IMPLICIT_PLANE:
        n = unit_axis(s->axis, 1);
        phi = p[s->axis];
        break;
    case QPC_IMPLICIT_SPHERE: phi = ball(at, s->radius, s->axis, &n); break;
    case QPC_IMPLICIT_CAPSULE:
        p[s->axis] -= fmin(fmax(p[s->axis], -s->half[s->axis]), s->half[s->axis]);
        phi = ball(v3(p[0], p[1], p[2]), s->radius, (s->axis + 1) % 3, &n);
        break;
    case QPC_IMPLICIT_BOX: phi = box(p, s->half, &n); break;
    case QPC_IMPLICIT_CYLINDER: phi = cylinder(s, p, &n); break;
    }
    if (ret_n != NULL) *ret_n = n;
    return phi;
}

double qpc_implicit_bends(const qpc_implicit *shape, qpc_vec3 p, qpc_vec3 d, double *ret_radius) {
    double at[3], along[3], end = shape->half[shape->axis];
    unpack(p, at);
    unpack(d, along);
    bool beside = shape->kind != QPC_IMPLICIT_SPHERE && fabs(at[shape->axis]) <= end, round = shape->kind == QPC_IMPLICIT_SPHERE || shape->kind == QPC_IMPLICIT_CAPSULE;
    *ret_radius = 0;
    if (!round && (shape->kind != QPC_IMPLICIT_CYLINDER || !beside)) return 0;
    if (beside) at[shape->axis] = along[shape->axis] = 0;
    else if (shape->kind == QPC_IMPLICIT_CAPSULE) at[shape->axis] -= copysign(end, at[shape->axis]);
    *ret_radius = sqrt(at[0] * at[0] + at[1] * at[1] + at[2] * at[2]);
    double size = v3_norm2(d);
    if (beside && shape->kind == QPC_IMPLICIT_CYLINDER && *ret_radius < shape->radius) return 0; // inside, where an end may be nearer
    return size > 0 ? (along[0] * along[0] + along[1] * along[1] + along[2] * along[2]) / size : 0;
}

double qpc_implicit_reach(const qpc_implicit *s) {
    switch (s->kind) {
    case QPC_IMPLICIT_SPHERE: return s->radius;
    case QPC_IMPLICIT_CAPSULE: return s->half[s->axis] + s->radius;
    case QPC_IMPLICIT_BOX: return sqrt(s->half[0] * s->half[0] + s->half[1] * s->half[1] + s->half[2] * s->half[2]);
    case QPC_IMPLICIT_CYLINDER: return hypot(s->half[s->axis], s->radius);
    case QPC_IMPLICIT_PLANE: break;
    }
    return 1;
}

// ---- frames ----

qpc_implicit_frame qpc_implicit_frame_of(const double *x) {
    qpc_implicit_frame f = {.o = v3_load(x)};
    for (int i = 0; i < 3; i++) {
        qpc_vec3 d = v3_sub(v3_load(x + 3 * (i + 1)), f.o);
        f.e[i] = v3_scale(1 / v3_norm(d), d);
    }
    return f;
}

qpc_vec3 qpc_implicit_to_local(const qpc_implicit_frame *f, qpc_vec3 p) {
    qpc_vec3 r = v3_sub(p, f->o);
    return v3(v3_dot(r, f->e[0]), v3_dot(r, f->e[1]), v3_dot(r, f->e[2]));
}

qpc_vec3 qpc_implicit_to_world(const qpc_implicit_frame *f, qpc_vec3 d) {
    return v3_madd(v3_madd(v3_scale(d.x, f->e[0]), d.y, f->e[1]), d.z, f->e[2]);
}

qpc_implicit_motion qpc_implicit_motion_of(const double *x0, const double *x1) {
    qpc_implicit_frame end = qpc_implicit_frame_of(x1);
    qpc_implicit_motion m = {.start = qpc_implicit_frame_of(x0), .axis = {1, 0, 0}};
    m.shift = v3_sub(end.o, m.start.o);
    qpc_vec3 about = {0, 0, 0}; // 2 sin(turn) axis
    double trace = -1;          // 2 cos(turn)
    bool same = true;
    for (int i = 0; i < 3; i++) {
        qpc_vec3 d0 = v3_sub(v3_load(x0 + 3 * (i + 1)), v3_load(x0)), d1 = v3_sub(v3_load(x1 + 3 * (i + 1)), v3_load(x1));
        same = same && v3_norm(v3_sub(d1, d0)) <= ROUNDING * (v3_norm(d0) + v3_norm(m.start.o) + v3_norm(end.o));
        about = v3_add(about, v3_cross(m.start.e[i], end.e[i]));
        trace += v3_dot(m.start.e[i], end.e[i]);
    }
    double sine = v3_norm(about);
    if (same || !(sine > 0)) return m;
    m.axis = v3_scale(1 / sine, about);
    m.turn = atan2(sine, trace);
    return m;
}

/// r turned by `angle` about the unit axis (Rodrigues).
static qpc_vec3 turned(qpc_vec3 r, qpc_vec3 axis, double angle) {
    double c = cos(angle), s = sin(angle);
    return v3_madd(v3_madd(v3_scale(c, r), s, v3_cross(axis, r)), (1 - c) * v3_dot(axis, r), axis);
}

static qpc_vec3 in_axes(const qpc_implicit_frame *f, qpc_vec3 r) {
    return v3(v3_dot(r, f->e[0]), v3_dot(r, f->e[1]), v3_dot(r, f->e[2]));
}

/// Place and velocity, in the frame, of a point that goes from p by `way` while the frame moves.
static void follow(const qpc_implicit_motion *m, qpc_vec3 p, qpc_vec3 way, double t, qpc_vec3 *at, qpc_vec3 *rate) {
    qpc_vec3 r = v3_madd(v3_sub(p, m->start.o), t, v3_sub(way, m->shift)), dr = v3_sub(way, m->shift);
    if (m->turn > 0) {
        dr = v3_madd(dr, -m->turn, v3_cross(m->axis, r));
        r = turned(r, m->axis, -t * m->turn);
        dr = turned(dr, m->axis, -t * m->turn);
    }
    *at = in_axes(&m->start, r);
    *rate = in_axes(&m->start, dr);
}

qpc_vec3 qpc_implicit_at_end(const qpc_implicit_motion *m, qpc_vec3 d) {
    qpc_vec3 world = qpc_implicit_to_world(&m->start, d);
    return m->turn > 0 ? turned(world, m->axis, m->turn) : world;
}

// ---- over a motion ----

/// Least t > 0 with d + g t - A/2 t^2 = 0 for d >= 0; infinite if there is none.
static double reaches_zero(double d, double g, double A) {
    if (!(d > 0)) return 0;
    double root = sqrt(g * g + 2 * A * d);
    if (g <= 0) return root - g > 0 ? 2 * d / (root - g) : HUGE_VAL;
    return A > 0 ? (g + root) / A : HUGE_VAL;
}

bool qpc_implicit_hits(const qpc_implicit *shape, const qpc_implicit_motion *m, int count, const qpc_vec3 *x0,
                       const qpc_vec3 *x1, double s, double most, qpc_implicit_hit *ret) {
    qpc_vec3 way[3], at[3], rate[3];
    double bend[3], error = 0;
    *ret = (qpc_implicit_hit){0};
    for (int k = 0; k < count; k++) {
        way[k] = v3_sub(x1[k], x0[k]);
        qpc_vec3 r0 = v3_sub(x0[k], m->start.o), go = v3_sub(way[k], m->shift);
        double far = fmax(v3_norm(r0), v3_norm(v3_add(r0, go)));
        bend[k] = m->turn * (2 * v3_norm(go) + m->turn * far); // of the path in the frame
        error = fmax(error, ROUNDING * (v3_norm(x0[k]) + v3_norm(x1[k]) + v3_norm(m->start.o) + far + qpc_implicit_reach(shape)));
    }
    double t = 0;
    for (int i = 0; i < MOST_ITERATIONS; i++) {
        for (int k = 0; k < count; k++) follow(m, x0[k], way[k], t, &at[k], &rate[k]);
        ret->near = qpc_implicit_closest(shape, count, at);
        if (i == 0) {
            ret->start = ret->near.phi;
            ret->at_start = !(ret->start > s * (1 + 1e-6));
            if (ret->at_start) s = 0.9 * ret->start;
            most = fmin(most, 0.1 * (ret->start - s));
            s += error;
        }
        double gap = ret->near.phi - s, step = HUGE_VAL;
        if (!(gap > most) && (i > 0 || !(ret->start > 0))) break; // there, or inside from the start
        for (int k = 0; k < count; k++) {
            double ahead = gap + v3_dot(ret->near.n, v3_sub(at[k], ret->near.at));
            step = fmin(step, reaches_zero(ahead, v3_dot(ret->near.n, rate[k]), bend[k]));
        }
        if (t + step > 1) return false;
        ret->uncertain = i == MOST_ITERATIONS - 1 || !(t + step > t);
        if (ret->uncertain) break;
        t += step;
    }
    ret->toi = t;
    return true;
}
