/// Points of vertices, segments and triangles that are nearest to a simple convex shape; see implicit.h and
/// docs/theory-obstacles.md, TO2, TO6 and TO7.
#include "engine/collision/implicit.h"

#include <math.h>

static const double WITHIN = 1e-6;  // least weight of a corner of a triangle for a point inside of it
static const double LEVEL = 0.02;   // largest change of slope along a stretch that is level, rad
static const double ROUNDING = 1e-14; // of a length
static const double OBLIQUE = 1.1;  // way to a corner along the normal of a triangle over the distance to the shape
enum { MOST_STEPS = 60, LEVEL_STEPS = 30 };

static qpc_implicit_nearest at_weight(const qpc_implicit *shape, const qpc_vec3 *p, double w) {
    qpc_implicit_nearest near = {.weight = {1 - w, w}};
    near.at = w == 0 ? p[0] : w == 1 ? p[1] : v3_madd(p[0], w, v3_sub(p[1], p[0]));
    near.phi = qpc_implicit_phi(shape, near.at, &near.n);
    return near;
}

/// phi along a segment is convex: where its slope changes sign. Regula falsi (Illinois); halving where that is slow, as inside, where
/// the slope may jump.
static qpc_implicit_nearest on_segment(const qpc_implicit *shape, const qpc_vec3 p[2]) {
    qpc_implicit_nearest low = at_weight(shape, p, 0);
    qpc_vec3 along = v3_sub(p[1], p[0]);
    double fa = v3_dot(low.n, along);
    if (fa >= 0) return low;
    qpc_implicit_nearest high = at_weight(shape, p, 1);
    double fb = v3_dot(high.n, along);
    if (fb <= 0) return high;
    double a = 0, b = 1, length = v3_norm(along), steepness = HUGE_VAL, last = 4;
    qpc_implicit_nearest best = low.phi < high.phi ? low : high;
    for (int i = 0, side = 0; i < MOST_STEPS && b - a > 1e-15; i++) {
        bool slow = i % 3 == 2 && b - a > 0.25 * last;
        if (i % 3 == 2) last = b - a;
        qpc_implicit_nearest middle = at_weight(shape, p, slow ? 0.5 * (a + b) : a + fa / (fa - fb) * (b - a));
        double slope = v3_dot(middle.n, along);
        if (middle.phi < best.phi - ROUNDING * length || (middle.phi <= best.phi + ROUNDING * length && fabs(slope) < steepness))
            best = middle, steepness = fabs(slope); // phi is flat there: its slope tells where
        if (fabs(slope) <= 1e-13 * length) break;
        if (slope < 0) {
            a = middle.weight[1], fa = slope;
            if (side == 1) fb *= 0.5;
            side = 1;
        } else {
            b = middle.weight[1], fb = slope;
            if (side == -1) fa *= 0.5;
            side = -1;
        }
    }
    return best;
}

// ---- triangles ----

/// Unit normal away from the shape's middle; false: the triangle has no area.
static bool normal_of(const qpc_vec3 p[3], qpc_vec3 *ret) {
    qpc_vec3 n = v3_cross(v3_sub(p[1], p[0]), v3_sub(p[2], p[0]));
    double size = v3_norm(n);
    if (!(size > 0)) return false;
    *ret = v3_scale((v3_dot(n, p[0]) < 0 ? -1 : 1) / size, n);
    return true;
}

/// Weights of a point of the plane; false: it is not inside.
static bool is_within(const qpc_vec3 p[3], qpc_vec3 at, double weight[3]) {
    qpc_vec3 normal = v3_cross(v3_sub(p[1], p[0]), v3_sub(p[2], p[0]));
    double area = v3_norm2(normal);
    for (int k = 1; k < 3; k++) {
        qpc_vec3 a = p[(k + 1) % 3], b = p[(k + 2) % 3];
        weight[k] = v3_dot(normal, v3_cross(v3_sub(a, at), v3_sub(b, at))) / area;
    }
    weight[0] = 1 - weight[1] - weight[2];
    return weight[0] > WITHIN && weight[1] > WITHIN && weight[2] > WITHIN;
}

static double component(qpc_vec3 p, int i) { return i == 0 ? p.x : i == 1 ? p.y : p.z; }

static qpc_vec3 from_parts(const double p[3]) { return v3(p[0], p[1], p[2]); }

/// Where a cylinder is farthest out across its axis, in direction d.
static qpc_vec3 across(const qpc_implicit *s, qpc_vec3 d) {
    double r[3] = {d.x, d.y, d.z};
    r[s->axis] = 0;
    double size = v3_norm(from_parts(r));
    if (size > 1e-9) return v3_scale(1 / size, from_parts(r));
    r[0] = r[1] = r[2] = 0;
    r[(s->axis + 1) % 3] = 1;
    return from_parts(r);
}

/// The point of the shape that is farthest in direction d (unit). Not for planes.
static qpc_vec3 support(const qpc_implicit *s, qpc_vec3 d) {
    double end[3] = {0, 0, 0};
    for (int i = 0; i < 3; i++) end[i] = component(d, i) < 0 ? -s->half[i] : s->half[i];
    qpc_vec3 q = from_parts(end);
    if (s->kind == QPC_IMPLICIT_SPHERE || s->kind == QPC_IMPLICIT_CAPSULE) return v3_madd(q, s->radius, d);
    return s->kind == QPC_IMPLICIT_CYLINDER ? v3_madd(q, s->radius, across(s, d)) : q;
}

static qpc_implicit_nearest point_at(const qpc_implicit *shape, qpc_vec3 at, const double weight[3]) {
    qpc_implicit_nearest near = {.weight = {weight[0], weight[1], weight[2]}, .at = at};
    near.phi = qpc_implicit_phi(shape, at, &near.n);
    return near;
}

/// The nearest point if it is inside of the triangle (TO6).
static bool nearest_inside(const qpc_implicit *shape, const qpc_vec3 p[3], qpc_implicit_nearest *ret) {
    qpc_vec3 d;
    double weight[3];
    if (shape->kind == QPC_IMPLICIT_PLANE || !normal_of(p, &d)) return false;
    qpc_vec3 q = support(shape, d);
    double away = v3_dot(d, v3_sub(p[0], q));
    qpc_vec3 at = v3_madd(q, away, d);
    if (away < 0) { // the plane goes through the shape: a point of both
        qpc_vec3 other = support(shape, v3_neg(d));
        double width = v3_dot(d, v3_sub(q, other));
        at = v3_madd(q, fmax(away / width, -1), v3_sub(q, other));
    }
    if (!is_within(p, at, weight)) return false;
    *ret = point_at(shape, at, weight);
    return true;
}

qpc_implicit_nearest qpc_implicit_closest(const qpc_implicit *shape, int count, const qpc_vec3 *p) {
    qpc_implicit_nearest best;
    if (count == 1) return at_weight(shape, p, 0);
    if (count == 2) return on_segment(shape, p);
    if (nearest_inside(shape, p, &best)) return best;
    best.phi = HUGE_VAL;
    for (int k = 0; k < 3; k++) {
        int other = (k + 1) % 3;
        qpc_implicit_nearest near = on_segment(shape, (const qpc_vec3[2]){p[k], p[other]});
        if (!(near.phi < best.phi)) continue;
        best = near;
        best.weight[k] = near.weight[0];
        best.weight[other] = near.weight[1];
        best.weight[3 - k - other] = 0;
    }
    return best;
}

/// Points of the shape that may be the first to touch a plane with normal d, if it lies nearly along a side.
static int corners_of(const qpc_implicit *s, qpc_vec3 d, qpc_vec3 ret[QPC_IMPLICIT_CORNERS]) {
    int count = 0;
    if (s->kind == QPC_IMPLICIT_BOX) {
        for (int i = 0; i < 8; i++)
            ret[count++] = v3((i & 1) != 0 ? s->half[0] : -s->half[0], (i & 2) != 0 ? s->half[1] : -s->half[1], (i & 4) != 0 ? s->half[2] : -s->half[2]);
        return count;
    }
    double axis[3] = {0, 0, 0};
    axis[s->axis] = s->half[s->axis];
    qpc_vec3 end = from_parts(axis), u = s->kind == QPC_IMPLICIT_CYLINDER ? across(s, d) : d;
    qpc_vec3 v = v3_scale(1 / fmax(s->half[s->axis], 1e-300), v3_cross(end, u));
    for (int sign = -1; sign <= 1; sign += 2) {
        qpc_vec3 middle = v3_scale(sign, end);
        ret[count++] = v3_madd(middle, s->radius, u);
        if (s->kind == QPC_IMPLICIT_SPHERE) break;
        if (s->kind == QPC_IMPLICIT_CAPSULE) continue;
        ret[count++] = v3_madd(middle, -s->radius, u);
        ret[count++] = v3_madd(middle, s->radius, v);
        ret[count++] = v3_madd(middle, -s->radius, v);
    }
    return count;
}

int qpc_implicit_over_corners(const qpc_implicit *shape, const qpc_vec3 p[3], qpc_implicit_nearest *ret) {
    qpc_vec3 d, corner[QPC_IMPLICIT_CORNERS];
    int count = 0;
    if (shape->kind == QPC_IMPLICIT_PLANE || !normal_of(p, &d)) return 0;
    int corners = corners_of(shape, d, corner);
    for (int i = 0; i < corners; i++) {
        double weight[3], away = v3_dot(d, v3_sub(p[0], corner[i]));
        qpc_vec3 at = v3_madd(corner[i], away, d);
        if (!is_within(p, at, weight)) continue;
        qpc_implicit_nearest near = point_at(shape, at, weight);
        if (away < 0 ? near.phi > 0 : away > OBLIQUE * near.phi) continue; // something else of the shape is nearer
        if (away < 0) near.phi = away, near.n = d; // through it: the way back
        near.place = i;
        ret[count++] = near;
    }
    return count;
}

// ---- stretches ----

int qpc_implicit_level_ends(const qpc_implicit *shape, const qpc_vec3 p[2], const qpc_implicit_nearest *near, double deep, double apart,
                            qpc_implicit_nearest *ret) {
    qpc_vec3 along = v3_sub(p[1], p[0]);
    double length = v3_norm(along), slope = v3_dot(near->n, along), from[2];
    int count = 0;
    for (int end = 0; end < 2; end++) { // slope and phi grow from the nearest point on
        double good = near->weight[1], bad = end;
        for (int i = 0; i < LEVEL_STEPS && fabs(bad - good) * length > 1e-3 * apart; i++) {
            double w = i == 0 ? bad : 0.5 * (good + bad);
            qpc_implicit_nearest there = at_weight(shape, p, w);
            bool level = fabs(v3_dot(there.n, along) - slope) <= LEVEL * length && there.phi <= near->phi + deep;
            *(level ? &good : &bad) = w;
        }
        from[end] = good;
    }
    if (!((from[1] - from[0]) * length > apart)) return 0;
    for (int end = 0; end < 2; end++) {
        ret[count] = at_weight(shape, p, from[end]);
        ret[count++].place = 1 + end;
    }
    return count;
}
