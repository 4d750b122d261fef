/// Closest points at one instant; see closest.h. The inline forms there do the work, this file
/// turns their parameters into signed weights and masks.
#include "engine/geometry/closest.h"

static void finish(qpc_closest *ret) {
    ret->distance = v3_norm(ret->d);
    ret->mask = 0;
    for (unsigned k = 0; k < 4; k++)
        if (ret->weight[k] != 0) ret->mask |= 1u << k;
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
    ret->parallel =
        v3_norm2(v3_cross(da, db)) <= QPC_PARALLEL_SINE2 * v3_norm2(da) * v3_norm2(db);
    finish(ret);
}
