/// Exact orientation tests and the intersection tests made of them; see predicates.h.
///
/// Expansions after Shewchuk (1997): a number is kept as a sum of doubles, smallest first, that do
/// not overlap; growing one by a double is exact. A 3x3 determinant of coordinates has 24 products
/// of three, each of at most four parts: small arrays on the stack suffice.
#include "engine/geometry/predicates.h"

#include <float.h>

typedef struct expansion {
    int count;
    double part[112];
} expansion;

static void two_sum(double a, double b, double *sum, double *error) {
    double s = a + b, bb = s - a;
    *error = (a - (s - bb)) + (b - bb);
    *sum = s;
}

static void two_product(double a, double b, double *product, double *error) {
    double p = a * b;
    *error = fma(a, b, -p);
    *product = p;
}

static void grow(expansion *e, double b) {
    double q = b;
    int out = 0;
    for (int i = 0; i < e->count; i++) {
        double sum, error;
        two_sum(q, e->part[i], &sum, &error);
        if (error != 0) e->part[out++] = error;
        q = sum;
    }
    if (q != 0 || out == 0) e->part[out++] = q;
    e->count = out;
}

/// e += sign * a * b * c, exactly.
static void add_product3(expansion *e, double sign, double a, double b, double c) {
    double p, pe, h, he, l, le;
    two_product(a, b, &p, &pe);
    two_product(p, sign * c, &h, &he);
    two_product(pe, sign * c, &l, &le);
    grow(e, le);
    grow(e, l);
    grow(e, he);
    grow(e, h);
}

static int sign_of(const expansion *e) {
    double top = e->count > 0 ? e->part[e->count - 1] : 0;
    return (top > 0) - (top < 0);
}

/// e += sign * det of the rows p, q, r
static void add_determinant(expansion *e, double sign, qpc_vec3 p, qpc_vec3 q, qpc_vec3 r) {
    add_product3(e, sign, p.x, q.y, r.z);
    add_product3(e, -sign, p.x, q.z, r.y);
    add_product3(e, sign, p.y, q.z, r.x);
    add_product3(e, -sign, p.y, q.x, r.z);
    add_product3(e, sign, p.z, q.x, r.y);
    add_product3(e, -sign, p.z, q.y, r.x);
}

/// A product of differences with a factor that is 0 is 0 exactly: a difference is rounded to 0 only where it is 0.
static bool vanishes(double a, double b, double c) { return a == 0 || b == 0 || c == 0; }

int qpc_orient3d(qpc_vec3 a, qpc_vec3 b, qpc_vec3 c, qpc_vec3 d) {
    qpc_vec3 u = v3_sub(b, a), v = v3_sub(c, a), w = v3_sub(d, a);
    double t[6] = {u.x * v.y * w.z, u.x * v.z * w.y, u.y * v.z * w.x,
                   u.y * v.x * w.z, u.z * v.x * w.y, u.z * v.y * w.x};
    double det = (t[0] - t[1]) + (t[2] - t[3]) + (t[4] - t[5]), size = 0;
    for (int i = 0; i < 6; i++) size += fabs(t[i]);
    // Each product carries 3 rounded differences and 2 roundings, the sum 5 more: 10 u at most.
    if (fabs(det) > 8 * DBL_EPSILON * size && isfinite(size)) return (det > 0) - (det < 0);
    // In a plane of two coordinates, as all of a flat mesh, all six vanish.
    if (vanishes(u.x, v.y, w.z) && vanishes(u.x, v.z, w.y) && vanishes(u.y, v.z, w.x) &&
        vanishes(u.y, v.x, w.z) && vanishes(u.z, v.x, w.y) && vanishes(u.z, v.y, w.x))
        return 0;
    // det(b-a, c-a, d-a) = |b c d| - |a c d| + |a b d| - |a b c|
    expansion e = {0};
    add_determinant(&e, 1, b, c, d);
    add_determinant(&e, -1, a, c, d);
    add_determinant(&e, 1, a, b, d);
    add_determinant(&e, -1, a, b, c);
    return sign_of(&e);
}

int qpc_orient2d(const double a[2], const double b[2], const double c[2]) {
    double l = (b[0] - a[0]) * (c[1] - a[1]), r = (b[1] - a[1]) * (c[0] - a[0]);
    if (fabs(l - r) > 4 * DBL_EPSILON * (fabs(l) + fabs(r)) && isfinite(l - r))
        return (l > r) - (l < r);
    if (vanishes(b[0] - a[0], c[1] - a[1], 1) && vanishes(b[1] - a[1], c[0] - a[0], 1)) return 0;
    expansion e = {0};
    add_product3(&e, 1, b[0], c[1], 1);
    add_product3(&e, -1, b[1], c[0], 1);
    add_product3(&e, -1, a[0], c[1], 1);
    add_product3(&e, 1, a[1], c[0], 1);
    add_product3(&e, 1, a[0], b[1], 1);
    add_product3(&e, -1, a[1], b[0], 1);
    return sign_of(&e);
}

// ---- tests in the coordinate planes ----

static void project(qpc_vec3 a, int drop, double ret[2]) {
    double v[3] = {a.x, a.y, a.z};
    ret[0] = v[(drop + 1) % 3];
    ret[1] = v[(drop + 2) % 3];
}

static int turn(qpc_vec3 a, qpc_vec3 b, qpc_vec3 c, int drop) {
    double p[2], q[2], r[2];
    project(a, drop, p);
    project(b, drop, q);
    project(c, drop, r);
    return qpc_orient2d(p, q, r);
}

static bool collinear(qpc_vec3 a, qpc_vec3 b, qpc_vec3 c) {
    return turn(a, b, c, 0) == 0 && turn(a, b, c, 1) == 0 && turn(a, b, c, 2) == 0;
}

static bool between(double x, double a, double b) {
    return a < b ? a <= x && x <= b : b <= x && x <= a;
}

static bool point_on_segment(qpc_vec3 p, qpc_vec3 a, qpc_vec3 b) {
    return between(p.x, a.x, b.x) && between(p.y, a.y, b.y) && between(p.z, a.z, b.z) &&
           collinear(a, b, p);
}

bool qpc_segments_meet(qpc_vec3 p, qpc_vec3 q, qpc_vec3 a, qpc_vec3 b) {
    if (point_on_segment(p, a, b) || point_on_segment(q, a, b) || point_on_segment(a, p, q) ||
        point_on_segment(b, p, q))
        return true;
    if (qpc_orient3d(p, q, a, b) != 0) return false;
    // Coplanar, no end on the other: they meet only if they cross properly, in each projection in
    // which the plane does not degenerate.
    for (int drop = 0; drop < 3; drop++) {
        int pa = turn(p, q, a, drop), pb = turn(p, q, b, drop);
        int ap = turn(a, b, p, drop), aq = turn(a, b, q, drop);
        if (pa == 0 && pb == 0 && ap == 0 && aq == 0) continue;
        return pa * pb < 0 && ap * aq < 0;
    }
    return false;
}

/// p, coplanar with the triangle, is in it.
static bool point_in_triangle(qpc_vec3 p, qpc_vec3 a, qpc_vec3 b, qpc_vec3 c) {
    for (int drop = 0; drop < 3; drop++) {
        int area = turn(a, b, c, drop);
        if (area == 0) continue;
        return turn(a, b, p, drop) * area >= 0 && turn(b, c, p, drop) * area >= 0 &&
               turn(c, a, p, drop) * area >= 0;
    }
    return false;
}

bool qpc_segment_meets_triangle(qpc_vec3 p, qpc_vec3 q, qpc_vec3 a, qpc_vec3 b, qpc_vec3 c) {
    if (collinear(a, b, c))
        return qpc_segments_meet(p, q, a, b) || qpc_segments_meet(p, q, b, c) ||
               qpc_segments_meet(p, q, c, a);
    int sp = qpc_orient3d(a, b, c, p), sq = qpc_orient3d(a, b, c, q);
    if (sp * sq > 0) return false;
    if (sp == 0 && sq == 0)
        return point_in_triangle(p, a, b, c) || point_in_triangle(q, a, b, c) ||
               qpc_segments_meet(p, q, a, b) || qpc_segments_meet(p, q, b, c) ||
               qpc_segments_meet(p, q, c, a);
    if (sp == 0) return point_in_triangle(p, a, b, c);
    if (sq == 0) return point_in_triangle(q, a, b, c);
    // The line passes the triangle's sides all on the same hand, or touches some.
    int ab = qpc_orient3d(p, q, a, b), bc = qpc_orient3d(p, q, b, c), ca = qpc_orient3d(p, q, c, a);
    return !((ab > 0 || bc > 0 || ca > 0) && (ab < 0 || bc < 0 || ca < 0));
}
