/// Closest points at one instant; see closest.h. The inline forms there do the work, this file
/// turns their parameters into signed weights and masks.
#include "engine/geometry/closest.h"

static void finish(qpc_closest *ret) {
    ret->distance = v3_norm(ret->d);
    ret->mask = 0;
    for (unsigned k = 0; k < 4; k++)
        if (ret->weight[k] != 0) ret->mask |= 1u << k;
}

/// The part of b across a, twice over so that it is across to the last bit; *ret_along a is the
/// rest.
static qpc_vec3 across(qpc_vec3 a, qpc_vec3 b, double *ret_along) {
    double aa = v3_norm2(a), along = v3_dot(a, b) / aa;
    qpc_vec3 h = v3_madd(b, -along, a);
    double again = v3_dot(a, h) / aa;
    *ret_along = along + again;
    return v3_madd(h, -again, a);
}

qpc_vec3 qpc_origin_sliver(const qpc_vec3 w[3], double bary[3]) {
    // Best of the sides.
    qpc_vec3 best = w[0];
    double best2 = INFINITY;
    int longest = 0;
    double length2 = -1;
    for (int i = 0; i < 3; i++) {
        int j = (i + 1) % 3;
        double t;
        qpc_vec3 c = qpc_origin_segment(w[i], w[j], &t);
        if (v3_norm2(c) < best2) {
            best = c;
            best2 = v3_norm2(c);
            bary[i] = 1 - t;
            bary[j] = t;
            bary[(i + 2) % 3] = 0;
        }
        double l2 = v3_norm2(v3_sub(w[j], w[i]));
        if (l2 > length2) length2 = l2, longest = i;
    }
    // The face, in the frame of the longest side and the height on it.
    int i = longest, j = (i + 1) % 3, k = (i + 2) % 3;
    if (!(length2 > 0)) return best;
    double c, u, v;
    qpc_vec3 e = v3_sub(w[j], w[i]), h = across(e, v3_sub(w[k], w[i]), &c);
    double hh = v3_norm2(h);
    if (!(hh > 1e-30 * length2)) return best;
    qpc_vec3 d = across(e, v3_neg(w[i]), &u);
    d = across(h, d, &v);
    double b[3];
    b[k] = v;
    b[j] = u - v * c;
    b[i] = 1 - b[j] - b[k];
    if (!(b[0] > 0 && b[1] > 0 && b[2] > 0)) return best;
    for (int q = 0; q < 3; q++) bary[q] = b[q];
    // Along the normal: d itself keeps the rounding of the parts that were taken off it.
    qpc_vec3 n = v3_cross(e, h);
    return v3_scale(v3_dot(n, w[i]) / v3_norm2(n), n);
}

qpc_vec3 qpc_origin_parallel(const qpc_vec3 w[3], double *ret_s, double *ret_t) {
    qpc_vec3 da = v3_sub(w[2], w[0]), db = v3_sub(w[0], w[1]);
    qpc_vec3 corner = v3_sub(w[2], db); // a1 - b1
    // Each end against the other edge: w as a function of one parameter is a segment.
    const qpc_vec3 from[4] = {w[0], w[2], w[0], w[1]}, to[4] = {w[1], corner, w[2], corner};
    qpc_vec3 best = w[0];
    double best2 = INFINITY;
    for (int side = 0; side < 4; side++) {
        double r;
        qpc_vec3 c = qpc_origin_segment(from[side], to[side], &r);
        if (!(v3_norm2(c) < best2)) continue;
        best = c;
        best2 = v3_norm2(c);
        *ret_s = side < 2 ? side : r;
        *ret_t = side < 2 ? r : side - 2;
    }
    // Both insides: t db has a part along da, which s takes up, and a part across.
    double c, u, t;
    bool swap = v3_norm2(da) < v3_norm2(db); // the longer one is the frame
    qpc_vec3 a = swap ? db : da, b = swap ? da : db;
    if (!(v3_norm2(a) > 0)) return best;
    qpc_vec3 h = across(a, b, &c);
    if (!(v3_norm2(h) > 1e-30 * v3_norm2(b))) return best;
    qpc_vec3 d = across(h, across(a, w[0], &u), &t), n = v3_cross(a, h);
    d = v3_scale(v3_dot(n, w[0]) / v3_norm2(n), n); // d itself keeps the rounding of what was taken
    // w0 = u a + t h + d, and w0 + s da - t db is to be d.
    double sa = swap ? u - t * c : -(u - t * c), sb = swap ? -t : t;
    double s = swap ? sb : sa, r = swap ? sa : sb;
    if (!(s >= 0 && s <= 1 && r >= 0 && r <= 1) || !(v3_norm2(d) <= best2)) return best;
    *ret_s = s;
    *ret_t = r;
    return d;
}

void qpc_refine_bary(const qpc_vec3 w[3], qpc_vec3 d, double bary[3]) {
    if (bary[0] == 0 || bary[1] == 0 || bary[2] == 0) return;
    int from = 0;
    double longest = -1;
    for (int i = 0; i < 3; i++) {
        double length2 = v3_norm2(v3_sub(w[(i + 1) % 3], w[i]));
        if (length2 > longest) longest = length2, from = i;
    }
    int to = (from + 1) % 3;
    for (int pass = 0; pass < 2; pass++) {
        qpc_vec3 r = d, e = v3_sub(w[to], w[from]);
        for (int i = 0; i < 3; i++) r = v3_madd(r, -bary[i], w[i]);
        double shift = v3_dot(r, e) / longest;
        if (!(bary[from] - shift > 0 && bary[to] + shift > 0)) return;
        bary[from] -= shift;
        bary[to] += shift;
    }
}

void qpc_closest_vt(const qpc_vec3 x[4], qpc_closest *ret) {
    qpc_vec3 w[3] = {v3_sub(x[0], x[1]), v3_sub(x[0], x[2]), v3_sub(x[0], x[3])};
    double bary[3];
    ret->d = qpc_origin_triangle(w, bary);
    qpc_refine_bary(w, ret->d, bary);
    ret->weight[0] = 1;
    for (int i = 0; i < 3; i++) ret->weight[i + 1] = -bary[i];
    ret->parallel = false;
    finish(ret);
}

void qpc_closest_ee(const qpc_vec3 x[4], qpc_closest *ret) {
    qpc_vec3 w[3] = {v3_sub(x[0], x[2]), v3_sub(x[0], x[3]), v3_sub(x[1], x[2])};
    double s, t;
    ret->d = qpc_origin_edges(w, &s, &t);
    ret->weight[0] = 1 - s;
    ret->weight[1] = s;
    ret->weight[2] = -(1 - t);
    ret->weight[3] = -t;
    qpc_vec3 da = v3_sub(x[1], x[0]), db = v3_sub(x[3], x[2]);
    ret->parallel = v3_norm2(v3_cross(da, db)) <= QPC_PARALLEL_SINE2 * v3_norm2(da) * v3_norm2(db);
    finish(ret);
}
