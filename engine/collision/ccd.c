/// Directional conservative advancement; docs/theory-ccd.md derives the guarantees.
///
/// With w_i(t) the relative positions of the vertex pairs (vertex-triangle: p-a, p-b, p-c;
/// edge-edge: a0-b0, a0-b1, a1-b0, a1-b1), each linear in t, two features are further apart than s
/// for as long as one fixed unit direction n has n.w_i(t) > s for all i. The time at which such a
/// certificate ends is a division. n is the direction of the closest points at the present t: a
/// poor one costs speed, never safety. A second certificate bounds the distance by |F|/|N|, F the
/// coplanarity cubic; it is what makes grazing contact quick. A third turns the direction with the
/// features, for what slides along edges. Any thread; takes no memory. Must be compiled without
/// -ffast-math.
#include "engine/collision/ccd.h"

#include "base/cpu.h"
#include "engine/geometry/closest.h"

#include <float.h>

#define ALWAYS_INLINE static inline QPC_ALWAYS_INLINE

enum {
    CUBIC_FROM = 4,   // iteration at which the second certificate joins
    TURN_FROM = 10,   // iteration at which the third does
    TRIES = 4,        // spans that the third tries in one iteration
    SHARPEN = 2,      // steps from a hit within the tolerance towards s
    ITERATIONS = 100, // then the pair is a hit, flagged uncertain
};

static const double unit_roundoff = DBL_EPSILON / 2;

typedef struct motion {
    const qpc_vec3 *w0, *w1; // pair differences at t = 0 and t = 1
    double largest;          // M: largest 1-norm among them
    double threshold;        // s (1 + 16 u) + E
} motion;

/// End of the interval after t on which n certifies a distance above s, or -1 if it fails at t.
/// With lower, the certificate may start after t; *lower gets where.
ALWAYS_INLINE double certificate(int count, const motion *m, qpc_vec3 n, double t, double *lower) {
    double end = INFINITY, start = 0, thr = m->threshold;
    for (int i = 0; i < count; i++) {
        double f0 = v3_dot(n, m->w0[i]), f1 = v3_dot(n, m->w1[i]);
        if (f1 < thr) {
            double e = f0 > thr ? (f0 - thr) / (f0 - f1) : -1;
            if (e < end) end = e;
        } else if (f0 < thr) {
            double s = (thr - f0) / (f1 - f0);
            if (s > start) start = s;
        }
    }
    if (lower != NULL) return *lower = start, end;
    return start > t ? -1 : end;
}

ALWAYS_INLINE void at_time(int count, const motion *m, double t, qpc_vec3 *w) {
    for (int i = 0; i < count; i++) w[i] = v3_lerp(m->w0[i], m->w1[i], t);
}

ALWAYS_INLINE qpc_vec3 nearest(bool vt, const qpc_vec3 *w) {
    double s, t;
    return vt ? qpc_origin_triangle(w, NULL) : qpc_origin_edges(w, &s, &t);
}

/// Unit normal of the plane of two vectors, accurate also when they are nearly parallel: one is
/// made perpendicular to the other twice before the cross product. False if there is no plane.
static bool plane_normal(qpc_vec3 a, qpc_vec3 b, qpc_vec3 *ret) {
    if (v3_norm2(a) < v3_norm2(b)) {
        qpc_vec3 swap = a;
        a = b;
        b = swap;
    }
    double aa = v3_norm2(a);
    if (!(aa > 0)) return false;
    for (int i = 0; i < 2; i++) b = v3_madd(b, -v3_dot(a, b) / aa, a);
    qpc_vec3 n = v3_cross(a, b);
    double length = v3_norm(n);
    if (!(length > 0)) return false;
    *ret = v3_scale(1 / length, n);
    return true;
}

static void consider(int count, const qpc_vec3 *w, qpc_vec3 c, qpc_vec3 *best, double *best_q) {
    double length = v3_norm(c);
    if (!(length > 0)) return;
    qpc_vec3 n = v3_scale(1 / length, c);
    double q = INFINITY;
    for (int i = 0; i < count; i++) q = fmin(q, v3_dot(n, w[i]));
    if (q > *best_q) *best_q = q, *best = n;
}

/// Like consider() for the closest point c of an edge e: made perpendicular to it, since at a small
/// distance the rounding of c tilts its direction by more than the ends of the edge allow.
static void consider_edge(int count, const qpc_vec3 *w, qpc_vec3 c, qpc_vec3 e, qpc_vec3 *best,
                          double *best_q) {
    double length = v3_norm(c), ee = v3_norm2(e);
    consider(count, w, c, best, best_q);
    if (!(length > 0 && ee > 0)) return;
    qpc_vec3 n = v3_scale(1 / length, c);
    for (int i = 0; i < 2; i++) n = v3_madd(n, -v3_dot(e, n) / ee, e);
    consider(count, w, n, best, best_q);
}

/// The best separating direction among all that the shape offers (plane normal, edges, corners),
/// for degenerate shapes where the quick closest point is poor. Slow; rarely called.
static qpc_vec3 careful_direction(bool vt, const qpc_vec3 *w) {
    qpc_vec3 best = v3(1, 0, 0), n;
    double q = -INFINITY, t;
    if (vt) {
        qpc_vec3 ab = v3_sub(w[0], w[1]), bc = v3_sub(w[1], w[2]), ca = v3_sub(w[2], w[0]);
        // The two longest sides give the normal: their angle is the best conditioned.
        double l0 = v3_norm2(ab), l1 = v3_norm2(bc), l2 = v3_norm2(ca);
        qpc_vec3 u = l0 <= l1 && l0 <= l2 ? bc : ab, v = l2 < l0 && l2 < l1 ? bc : ca;
        if (plane_normal(u, v, &n)) {
            consider(3, w, n, &best, &q);
            consider(3, w, v3_neg(n), &best, &q);
        }
        for (int i = 0; i < 3; i++)
            consider_edge(3, w, qpc_origin_segment(w[i], w[(i + 1) % 3], &t),
                          v3_sub(w[i], w[(i + 1) % 3]), &best, &q);
    } else {
        if (plane_normal(v3_sub(w[2], w[0]), v3_sub(w[0], w[1]), &n)) {
            consider(4, w, n, &best, &q);
            consider(4, w, v3_neg(n), &best, &q);
        }
        static const int side[4][2] = {{0, 1}, {2, 3}, {0, 2}, {1, 3}};
        for (int i = 0; i < 4; i++)
            consider_edge(4, w, qpc_origin_segment(w[side[i][0]], w[side[i][1]], &t),
                          v3_sub(w[side[i][0]], w[side[i][1]]), &best, &q);
    }
    return best;
}

static double largest_component(qpc_vec3 a, qpc_vec3 b) {
    return fmax(fmax(fmax(fabs(a.x), fabs(a.y)), fabs(a.z)),
                fmax(fmax(fabs(b.x), fabs(b.y)), fabs(b.z)));
}

/// First zero of the lower convex hull of control values (spaced by a third) that starts above
/// zero; infinite if it has none. The crossing of the hull is the earliest one among all chords
/// that fall through zero.
static double hull_zero(const double g[4]) {
    double x = HUGE_VAL;
    for (int k = 0; k < 3; k++)
        for (int j = k + 1; j < 4; j++)
            if (g[k] > 0 && !(g[j] > 0)) {
                double z = (k + (j - k) * (g[k] / (g[k] - g[j]))) / 3;
                x = z < x ? z : x;
            }
    return x;
}

/// A time up to which the distance of the planes (lines) stays above s, at least t. F is walked in
/// Bernstein form: the lower convex hull of its control values less thr N + EF bounds it. The walk
/// ends early where the bound comes within a part of tol of s: there a hit is likely.
static double cubic_step(bool vt, const motion *m, double t, double tol, int effort) {
    const qpc_vec3 *w0 = m->w0, *w1 = m->w1;
    qpc_vec3 e1[2] = {vt ? v3_sub(w0[0], w0[1]) : v3_sub(w0[2], w0[0]),
                      vt ? v3_sub(w1[0], w1[1]) : v3_sub(w1[2], w1[0])};
    qpc_vec3 e2[2] = {vt ? v3_sub(w0[0], w0[2]) : v3_sub(w0[0], w0[1]),
                      vt ? v3_sub(w1[0], w1[2]) : v3_sub(w1[0], w1[1])};
    double A = largest_component(e1[0], e1[1]), B = largest_component(e2[0], e2[1]);
    double D = largest_component(w0[0], w1[0]), u = unit_roundoff;
    qpc_vec3 a = v3_lerp(e1[0], e1[1], t), b = v3_lerp(e2[0], e2[1], t);
    qpc_vec3 q0 = v3_lerp(w0[0], w1[0], t), q1 = w1[0];
    qpc_vec3 n0 = v3_cross(a, b), n2 = v3_cross(e1[1], e2[1]);
    qpc_vec3 n1 = v3_scale(0.5, v3_add(v3_cross(a, e2[1]), v3_cross(e1[1], b)));
    // |N(t)| is at most the polynomial with the norms of the control vectors as values.
    double slack = u * (64 * A * B + 32 * m->largest * (A + B)), grow = 1 + 16 * u;
    double m0 = v3_norm(n0) * grow + slack, m1 = v3_norm(n1) * grow + slack;
    double m2 = v3_norm(n2) * grow + slack, N = fmax(m0, fmax(m1, m2)), thr = m->threshold;
    double EF = u * D * (2048 * A * B + 64 * m->largest * (A + B));
    EF += 256 * u * (thr * N + EF);
    double K[4] = {thr * m0 + EF, thr * ((m0 + 2 * m1) / 3) + EF, thr * ((2 * m1 + m2) / 3) + EF,
                   thr * m2 + EF};
    double f[4] = {v3_dot(n0, q0), (2 * v3_dot(n1, q0) + v3_dot(n0, q1)) / 3,
                   (v3_dot(n2, q0) + 2 * v3_dot(n1, q1)) / 3, v3_dot(n2, q1)};
    double sign = f[0] < 0 ? -1 : 1, g[4];
    for (int i = 0; i < 4; i++) g[i] = sign * f[i] - K[i];
    for (int walk = 0; walk < 12; walk++) {
        if (!(g[0] > (walk > 0 ? 0.1 * tol * m0 : 0))) break;
        // The hull of all of [t, 1] may fall steeply because of what comes late: look at the left
        // half, and its left half, until the first zero is not near the start.
        double h[4] = {g[0], g[1], g[2], g[3]}, length = 1, x;
        for (int half = 0;; half++) {
            x = hull_zero(h);
            if (x >= 0.25 || half == effort) break;
            // Left half by de Casteljau.
            double h01 = 0.5 * (h[0] + h[1]), h12 = 0.5 * (h[1] + h[2]), h23 = 0.5 * (h[2] + h[3]);
            double left = 0.5 * (h01 + h12), right = 0.5 * (h12 + h23);
            h[1] = h01;
            h[2] = left;
            h[3] = 0.5 * (left + right);
            length *= 0.5;
        }
        if (isinf(x) && length == 1) return INFINITY;
        x = fmin(x, 1) * length;
        t += x * (1 - t);
        if (!(t < 1)) return INFINITY;
        if (x < 1e-3) break;
        // The right part after a split at x.
        for (int level = 3; level > 0; level--)
            for (int i = 0; i < level; i++) g[i] = g[i] + x * (g[i + 1] - g[i]);
    }
    return t;
}

/// Whether two of the w support the direction n, an edge; then which.
static bool edge_support(int count, const qpc_vec3 *w, qpc_vec3 n, double slack, int pair[2]) {
    double q[4], least = INFINITY;
    int support = 0;
    for (int i = 0; i < count; i++) {
        q[i] = v3_dot(n, w[i]);
        least = fmin(least, q[i]);
    }
    for (int i = 0; i < count; i++) {
        if (q[i] - least > slack) continue;
        if (support < 2) pair[support] = i;
        support++;
    }
    return support == 2;
}

/// n made perpendicular to the edge e: how a direction turns with the edge that supports it. Unlike
/// the direction of the closest points it is not mostly rounding where they are very near.
static qpc_vec3 carried(qpc_vec3 n, qpc_vec3 e) {
    double ee = v3_norm2(e);
    if (!(ee > 0)) return n;
    for (int i = 0; i < 2; i++) n = v3_madd(n, -v3_dot(e, n) / ee, e);
    double length = v3_norm(n);
    return length > 0 ? v3_scale(1 / length, n) : n;
}

/// The part of the span from w to v on which the direction n(x), quadratic with control vectors n0,
/// n1, n2, separates by more than thr; 1 for all of it.
static double turn_part(int count, const qpc_vec3 *w, const qpc_vec3 *v, const qpc_vec3 n[3],
                        double thr) {
    double m1 = v3_norm(n[1]), k1 = thr * ((1 + 2 * m1) / 3), x = 1;
    if (!(m1 <= 2)) return 0; // features change in between
    for (int i = 0; i < count; i++) {
        double f[4] = {
            v3_dot(n[0], w[i]) - thr, (v3_dot(n[0], v[i]) + 2 * v3_dot(n[1], w[i])) / 3 - k1,
            (v3_dot(n[2], w[i]) + 2 * v3_dot(n[1], v[i])) / 3 - k1, v3_dot(n[2], v[i]) - thr};
        if (!(f[0] > 0)) return 0;
        x = fmin(x, hull_zero(f));
    }
    return x;
}

/// Third certificate: a direction that turns along with the features. It is the quadratic through
/// three directions, at t, t + span/2 and t + span; its products with the w_i are cubics, its
/// length at most the quadratic of its control lengths, and the hull of the Bernstein values of the
/// difference is a bound. Returns a time up to which the distance stays above s, at least end;
/// *next is the span to begin with, and gets that of the next iteration.
static double turn(bool vt, const motion *m, double t, double end, double *next) {
    const int count = vt ? 3 : 4;
    const double thr = m->threshold, u = unit_roundoff;
    qpc_vec3 w[4], v[4], middle[4], n[3];
    at_time(count, m, t, w);
    n[0] = careful_direction(vt, w);
    int pair[2] = {0, 0};
    bool carry = edge_support(count, w, n[0], 32 * u * m->largest, pair);
    double gap = INFINITY, span = fmax(*next, 2 * (end - t));
    for (int i = 0; i < count; i++) gap = fmin(gap, v3_dot(n[0], w[i]) - thr);
    for (int tries = 0; tries < TRIES && span > 0 && end < 1; tries++) {
        double ahead = fmin(t + span, 1), left = INFINITY;
        at_time(count, m, ahead, v);
        for (int i = 0; i < count; i++) middle[i] = v3_lerp(w[i], v[i], 0.5);
        if (carry) {
            n[1] = carried(n[0], v3_sub(middle[pair[0]], middle[pair[1]]));
            n[2] = carried(n[0], v3_sub(v[pair[0]], v[pair[1]]));
        } else {
            n[1] = careful_direction(vt, middle);
            n[2] = careful_direction(vt, v);
        }
        n[1] = v3_madd(v3_scale(2, n[1]), -0.5, v3_add(n[0], n[2])); // control vector
        double x = turn_part(count, w, v, n, thr), reached = ahead < 1 ? ahead : 2;
        // Where a part of the span is proven, rounding of the time is a part of it too: step back.
        if (x < 1) reached = t + x * (1 - 16 * u) * (ahead - t) - 4 * u;
        bool better = reached > end;
        if (better) end = reached;
        if (x < 1) {
            span *= x > 0.5 ? x : 0.5;
            if (better || span < end - t) break;
            carry = !carry && pair[0] != pair[1];
            continue;
        }
        // All of it: the next span ends where the gap would, were it to close at this rate.
        for (int i = 0; i < count; i++) left = fmin(left, v3_dot(n[2], v[i]) - thr);
        double grow = left < gap ? fmin(0.9 * gap / (gap - left), 8) : 8;
        if (grow < 1.1) {
            span *= fmax(grow - 1, 0.01); // what is left of it, for the next iteration
            break;
        }
        span *= grow;
    }
    *next = span;
    return end;
}

static void write_hit(bool vt, const motion *m, double t, bool uncertain, int iterations,
                      qpc_ccd_result *ret) {
    qpc_vec3 w[4], d;
    double bary[3], s, r;
    at_time(vt ? 3 : 4, m, t, w);
    if (vt) {
        d = qpc_origin_triangle(w, bary);
        qpc_refine_bary(w, d, bary);
        ret->weight[0] = 1;
        for (int i = 0; i < 3; i++) ret->weight[i + 1] = -bary[i];
    } else {
        d = qpc_origin_edges(w, &s, &r);
        ret->weight[0] = 1 - s;
        ret->weight[1] = s;
        ret->weight[2] = -(1 - r);
        ret->weight[3] = -r;
    }
    ret->outcome = t > 0 ? QPC_CCD_HIT : QPC_CCD_AT_START;
    ret->toi = t;
    // Squares of tiny numbers lose bits, or all: in another unit they do not.
    double unit = v3_norm2(d) > 1e-200 ? 1 : 0x1p600;
    qpc_vec3 scaled = v3_scale(unit, d);
    double length = v3_norm(scaled);
    ret->distance = length / unit;
    ret->n = length > 0 ? v3_scale(1 / length, scaled) : v3(0, 0, 0);
    if (!(v3_norm2(ret->n) > 0.5)) {
        // No difference to take a direction from: the plane of the feature, or any direction.
        qpc_vec3 e1 = v3_sub(w[0], w[1]), e2 = vt ? v3_sub(w[0], w[2]) : v3_sub(w[2], w[0]);
        if (!plane_normal(e1, e2, &ret->n)) ret->n = v3(0, 0, 1);
    }
    ret->uncertain = uncertain;
    ret->iterations = iterations;
}

static void write_not_finite(bool vt, qpc_ccd_result *ret) {
    *ret = (qpc_ccd_result){.outcome = QPC_CCD_AT_START, .n = {0, 0, 1}, .uncertain = true};
    ret->weight[0] = 1;
    ret->weight[vt ? 1 : 2] = -1;
}

static inline void write_miss(int iterations, qpc_ccd_result *ret) {
    ret->outcome = QPC_CCD_MISS;
    ret->toi = 1;
    ret->uncertain = false;
    ret->iterations = iterations;
}

/// From a hit within the tolerance at *t on: certificates go further while the distance at their
/// end is within stop too, so that the time of the hit is near the time at s and not only the
/// distance near s. True if they reach the end of the step: the pair was near, but is none.
static bool sharpen(bool vt, const motion *m, double stop, double *t) {
    const int count = vt ? 3 : 4;
    qpc_vec3 w[4];
    at_time(count, m, *t, w);
    qpc_vec3 c = nearest(vt, w);
    double distance = v3_norm(c);
    for (int i = 0; i < SHARPEN && distance > m->threshold; i++) {
        double end = certificate(count, m, v3_scale(1 / distance, c), *t, NULL);
        if (!(end > *t)) end = certificate(count, m, careful_direction(vt, w), *t, NULL);
        if (end >= 1) return true;
        if (!(end > *t)) break;
        at_time(count, m, end, w);
        c = nearest(vt, w);
        distance = v3_norm(c);
        if (!(distance <= stop)) break;
        *t = end;
    }
    return false;
}

/// Everything after the first look: the general loop from time t, iteration count `iteration`.
static __attribute__((noinline)) void advance(bool vt, const motion *m, double stop, double t,
                                              int iteration, qpc_ccd_result *ret) {
    const int count = vt ? 3 : 4;
    qpc_vec3 w[4];
    double span = 0;
    for (;; iteration++) {
        at_time(count, m, t, w);
        qpc_vec3 c = nearest(vt, w);
        double distance = v3_norm(c);
        if (distance <= stop || iteration >= ITERATIONS) {
            if (distance <= stop && t > 0 && sharpen(vt, m, stop, &t))
                write_miss(iteration, ret);
            else
                write_hit(vt, m, t, !(distance <= stop), iteration, ret);
            return;
        }
        double end = certificate(count, m, v3_scale(1 / distance, c), t, NULL);
        bool stuck = !(end > t);
        if (stuck) end = certificate(count, m, careful_direction(vt, w), t, NULL);
        if (iteration >= CUBIC_FROM || stuck)
            end = fmax(end, cubic_step(vt, m, t, stop - m->threshold, iteration < 8 ? 3 : 24));
        if (iteration >= TURN_FROM && end < 1) {
            end = turn(vt, m, t, end, &span);
        }
        if (!(end > t)) {
            write_hit(vt, m, t, true, iteration, ret);
            return;
        }
        if (end >= 1) {
            write_miss(iteration, ret);
            return;
        }
        t = end;
    }
}

/// start: NULL, or where the distance at the start goes (the `keep` forms, with tol the largest
/// tolerance).
ALWAYS_INLINE void detect(bool vt, const qpc_vec3 *w0, const qpc_vec3 *w1, double s, double tol,
                          qpc_ccd_result *ret, double *start) {
    const int count = vt ? 3 : 4;
    double M = 0, sum = 0;
    for (int i = 0; i < count; i++) {
        double a = fabs(w0[i].x) + fabs(w0[i].y) + fabs(w0[i].z);
        double b = fabs(w1[i].x) + fabs(w1[i].y) + fabs(w1[i].z);
        M = a > M ? a : M;
        M = b > M ? b : M;
        sum += a + b;
    }
    if (!(sum + s + tol < 1e60)) {
        write_not_finite(vt, ret);
        if (start != NULL) *start = 0;
        return;
    }
    // The floor keeps squares of lengths above it representable; it matters to nothing real.
    double E = 32 * unit_roundoff * M + 1e-70;
    double thr = s * (1 + 16 * unit_roundoff) + E;

    // Coordinate axes as directions: rejects most pairs that are not near each other. (Those that
    // come here from detection have passed the like.)
    bool apart = false;
#define AXIS(c)                                                                                    \
    do {                                                                                           \
        double low = w0[0].c, high = w0[0].c;                                                      \
        for (int i = 0; i < count; i++) {                                                          \
            low = w0[i].c < low ? w0[i].c : low;                                                   \
            low = w1[i].c < low ? w1[i].c : low;                                                   \
            high = w0[i].c > high ? w0[i].c : high;                                                \
            high = w1[i].c > high ? w1[i].c : high;                                                \
        }                                                                                          \
        apart |= low > thr || high < -thr;                                                         \
    } while (0)
    if (start == NULL) {
        AXIS(x);
        AXIS(y);
        AXIS(z);
    }
#undef AXIS
    if (apart) {
        write_miss(0, ret);
        return;
    }

    motion m = {w0, w1, M, thr};
    qpc_vec3 c = nearest(vt, w0);
    double distance = v3_norm(c);
    if (start != NULL) {
        *start = distance;
        double keep = distance > s * (1 + 1e-6) ? s : 0.9 * distance;
        tol = fmin(tol, 0.1 * (distance - keep));
        s = keep;
        m.threshold = s * (1 + 16 * unit_roundoff) + E;
    }
    double stop = fmax(s + tol, s + 4 * E), end = -1;
    if (distance > stop) {
        end = certificate(count, &m, v3_scale(1 / distance, c), 0, NULL);
        if (end >= 1) {
            write_miss(1, ret);
            return;
        }
    }
    advance(vt, &m, stop, end > 0 ? end : 0, end > 0, ret);
}

static inline void vt_pairs(const qpc_vec3 x[4], qpc_vec3 w[3]) {
    for (int i = 0; i < 3; i++) w[i] = v3_sub(x[0], x[i + 1]);
}

static inline void ee_pairs(const qpc_vec3 x[4], qpc_vec3 w[4]) {
    for (int i = 0; i < 4; i++) w[i] = v3_sub(x[i >> 1], x[2 + (i & 1)]);
}

void qpc_ccd_vt(const qpc_vec3 x0[4], const qpc_vec3 x1[4], double s, double tol,
                qpc_ccd_result *ret) {
    qpc_vec3 w0[3], w1[3];
    vt_pairs(x0, w0);
    vt_pairs(x1, w1);
    detect(true, w0, w1, s, tol, ret, NULL);
}

void qpc_ccd_ee(const qpc_vec3 x0[4], const qpc_vec3 x1[4], double s, double tol,
                qpc_ccd_result *ret) {
    qpc_vec3 w0[4], w1[4];
    ee_pairs(x0, w0);
    ee_pairs(x1, w1);
    detect(false, w0, w1, s, tol, ret, NULL);
}

void qpc_ccd_vt_keep(const qpc_vec3 x0[4], const qpc_vec3 x1[4], double s, double most,
                     qpc_ccd_result *ret, double *ret_start) {
    qpc_vec3 w0[3], w1[3];
    vt_pairs(x0, w0);
    vt_pairs(x1, w1);
    detect(true, w0, w1, s, most, ret, ret_start);
}

void qpc_ccd_ee_keep(const qpc_vec3 x0[4], const qpc_vec3 x1[4], double s, double most,
                     qpc_ccd_result *ret, double *ret_start) {
    qpc_vec3 w0[4], w1[4];
    ee_pairs(x0, w0);
    ee_pairs(x1, w1);
    detect(false, w0, w1, s, most, ret, ret_start);
}
