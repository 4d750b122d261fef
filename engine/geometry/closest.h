/// Closest points of a vertex and a triangle, and of two edges, at one instant.
///
/// Everything is computed from differences of the input points, so that the result does not depend
/// on where the origin is. Weights of a closest point on the boundary are exactly 0 or 1, and masks
/// name the supporting points. Degenerate triangles (zero area, coincident corners) and edges (zero
/// length, parallel) are legal: their closest points come from edges and end points. Any thread; no
/// memory is taken.
#ifndef QPC_ENGINE_GEOMETRY_CLOSEST_H
#define QPC_ENGINE_GEOMETRY_CLOSEST_H

#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct qpc_closest {
    qpc_vec3 d;       // x_i - x_j, the shortest difference, m
    double distance;  // |d|, m
    double weight[4]; // signed as in qpc_contact: d = sum_k weight[k] x[k]
    unsigned mask;    // bit k is set when weight[k] is not zero
    bool parallel;    // edges within about 0.01 rad of each other, or one of no length
} qpc_closest;

/// x: vertex, then the triangle's corners.
void qpc_closest_vt(const qpc_vec3 x[4], qpc_closest *ret);
/// x: a0, a1, b0, b1.
void qpc_closest_ee(const qpc_vec3 x[4], qpc_closest *ret);

/// Smallest sine squared between two edges that are not treated as parallel.
#define QPC_PARALLEL_SINE2 1e-4

// ---- the same relative to the vertex or to edge j, for inner loops ----

/// Closest point to the origin of the segment from a to b; *t in [0, 1], exact at the ends.
static inline qpc_vec3 qpc_origin_segment(qpc_vec3 a, qpc_vec3 b, double *t) {
    qpc_vec3 e = v3_sub(a, b);
    double along = v3_dot(a, e), length2 = v3_norm2(e);
    if (!(along > 0)) return *t = 0, a;
    if (!(along < length2)) return *t = 1, b;
    *t = along / length2;
    return v3_madd(a, -*t, e);
}

/// The same as the two functions below for shapes that are nearly degenerate, where a plain cross
/// product is mostly rounding. Slower.
qpc_vec3 qpc_origin_sliver(const qpc_vec3 w[3], double bary[3]);
qpc_vec3 qpc_origin_parallel(const qpc_vec3 w[3], double *ret_s, double *ret_t);
/// Sine squared from which on a shape is nearly degenerate.
#define QPC_SLIVER_SINE2 1e-6

/// Closest point to the origin of the triangle w; its barycentric weights in bary unless that is
/// NULL. Face interior: along the plane's normal, which is exact where the weights would cancel.
static inline qpc_vec3 qpc_origin_triangle(const qpc_vec3 w[3], double *bary) {
    qpc_vec3 ab = v3_sub(w[0], w[1]), ac = v3_sub(w[0], w[2]);
    qpc_vec3 n = v3_cross(ab, ac);
    double nn = v3_norm2(n), l2 = v3_norm2(ab) > v3_norm2(ac) ? v3_norm2(ab) : v3_norm2(ac);
    if (!(nn > QPC_SLIVER_SINE2 * l2 * l2)) {
        double unused[3];
        return qpc_origin_sliver(w, bary != NULL ? bary : unused);
    }
    double v[3] = {v3_dot(n, v3_cross(w[1], w[2])), v3_dot(n, v3_cross(w[2], w[0])),
                   v3_dot(n, v3_cross(w[0], w[1]))};
    if (v[0] > 0 && v[1] > 0 && v[2] > 0) {
        if (bary != NULL) {
            double sum = 1 / (v[0] + v[1] + v[2]);
            for (int i = 0; i < 3; i++) bary[i] = v[i] * sum;
        }
        return v3_scale(v3_dot(n, w[0]) / nn, n);
    }
    // The projection lies outside: the closest point is on an edge whose half-plane it violates.
    qpc_vec3 best = w[0];
    double best2 = INFINITY, best_t = 0;
    int best_i = 0;
    for (int i = 0; i < 3; i++) {
        if (v[i] > 0) continue;
        double t;
        qpc_vec3 c = qpc_origin_segment(w[(i + 1) % 3], w[(i + 2) % 3], &t);
        double c2 = v3_norm2(c);
        if (c2 < best2) best = c, best2 = c2, best_t = t, best_i = i;
    }
    if (bary != NULL) {
        bary[best_i] = 0;
        bary[(best_i + 1) % 3] = 1 - best_t;
        bary[(best_i + 2) % 3] = best_t;
    }
    return best;
}

/// The weights of an inner closest point d again, so that they reproduce d also on slivers, whose
/// areas (what bary comes from) are mostly rounding: shift weight along the longest side.
void qpc_refine_bary(const qpc_vec3 w[3], qpc_vec3 d, double bary[3]);

/// Closest difference of two edges given w = {a0 - b0, a0 - b1, a1 - b0}: the point nearest to the
/// origin of w0 + s (a1 - a0) - t (b1 - b0).
static inline qpc_vec3 qpc_origin_edges(const qpc_vec3 w[3], double *ret_s, double *ret_t) {
    qpc_vec3 da = v3_sub(w[2], w[0]), db = v3_sub(w[0], w[1]), n = v3_cross(da, db);
    double aa = v3_norm2(da), bb = v3_norm2(db), ab = v3_dot(da, db), nn = v3_norm2(n);
    double aw = v3_dot(da, w[0]), bw = v3_dot(db, w[0]);
    if (!(nn > QPC_SLIVER_SINE2 * aa * bb)) return qpc_origin_parallel(w, ret_s, ret_t);
    double s = -v3_dot(v3_cross(w[0], db), n), t = -v3_dot(v3_cross(w[0], da), n);
    if (s >= 0 && s <= nn && t >= 0 && t <= nn) {
        *ret_s = s / nn;
        *ret_t = t / nn;
        return v3_scale(v3_dot(n, w[0]) / nn, n);
    }
    s = s <= 0 ? 0 : s >= nn ? 1 : s / nn;
    // Clamp s, then t for that s, then s again for that t: exact for segments.
    t = ab * s + bw;
    if (!(t > 0)) {
        t = 0;
        s = !(-aw > 0) ? 0 : -aw >= aa ? 1 : -aw / aa;
    } else if (t >= bb) {
        t = 1;
        double along = ab - aw;
        s = !(along > 0) ? 0 : along >= aa ? 1 : along / aa;
    } else {
        t /= bb;
    }
    *ret_s = s;
    *ret_t = t;
    // Build the point from the corner it is nearest to, so that end points come out exact.
    qpc_vec3 c = s == 1 ? w[2] : v3_madd(w[0], s, da);
    if (t == 1) return s == 0 ? w[1] : v3_sub(c, db);
    return v3_madd(c, -t, db);
}

#endif
