/// Springs of cables: energy, forces, and the clamped Jacobian of K and b. No state; any thread.
///
/// A spring of length zero has no direction: it gives no force and no stiffness for that step (its
/// ends are apart again as soon as anything else moves them).
#include "engine/dynamics/cable.h"

#include "base/vec.h"

/// Length l and direction n (from node to node + 1); n = 0 for a spring of no length.
static qpc_vec3 direction(const double *x, int32_t node, double *ret_length) {
    const double *p = x + 3 * (int64_t)node;
    qpc_vec3 d = v3_sub(v3_load(p + 3), v3_load(p));
    double l = v3_norm(d);
    *ret_length = l;
    return l > 0 ? v3_scale(1 / l, d) : v3(0, 0, 0);
}

double qpc_springs_energy(const qpc_springs *springs, const double *x) {
    double sum = 0;
    for (int32_t s = 0; s < springs->count; s++) {
        double l;
        direction(x, springs->node[s], &l);
        double stretch = l - springs->rest_length[s];
        sum += 0.5 * springs->stiffness[s] * stretch * stretch;
    }
    return sum;
}

void qpc_springs_force(const qpc_springs *springs, const double *x, double *f) {
    for (int32_t s = 0; s < springs->count; s++) {
        double l;
        qpc_vec3 n = direction(x, springs->node[s], &l);
        qpc_vec3 pull = v3_scale(springs->stiffness[s] * (l - springs->rest_length[s]), n);
        double *fi = f + 3 * (int64_t)springs->node[s];
        v3_store(fi, v3_add(v3_load(fi), pull));
        v3_store(fi + 3, v3_sub(v3_load(fi + 3), pull));
    }
}

void qpc_springs_tension(const qpc_springs *springs, const double *x, double *ret) {
    for (int32_t s = 0; s < springs->count; s++) {
        double l;
        direction(x, springs->node[s], &l);
        ret[s] = springs->stiffness[s] * (l - springs->rest_length[s]);
    }
}

void qpc_springs_stiffness(const qpc_springs *springs, const double *x, const double *v, double dt,
                           qpc_linsys *K, double *Hv) {
    double dt2 = dt * dt;
    for (int32_t s = 0; s < springs->count; s++) {
        int32_t node = springs->node[s];
        double l;
        qpc_vec3 n = direction(x, node, &l);
        if (!(l > 0)) continue;
        double k = springs->stiffness[s];
        double across = 1 - springs->rest_length[s] / l;
        across = across > 0 ? across * k : 0;
        // H = along n n' + across I
        double along = k - across;
        double h[3][3] = {
            {along * n.x * n.x + across, along * n.x * n.y, along * n.x * n.z},
            {along * n.y * n.x, along * n.y * n.y + across, along * n.y * n.z},
            {along * n.z * n.x, along * n.z * n.y, along * n.z * n.z + across},
        };
        int32_t i = 3 * node, j = i + 3;
        for (int32_t a = 0; a < 3; a++) {
            for (int32_t b = 0; b <= a; b++) {
                qpc_linsys_add(K, i + a, i + b, dt2 * h[a][b]);
                qpc_linsys_add(K, j + a, j + b, dt2 * h[a][b]);
            }
            for (int32_t b = 0; b < 3; b++) qpc_linsys_add(K, j + a, i + b, -dt2 * h[a][b]);
        }
        const double *vi = v + i;
        double d[3] = {vi[0] - vi[3], vi[1] - vi[4], vi[2] - vi[5]};
        for (int32_t a = 0; a < 3; a++) {
            double t = h[a][0] * d[0] + h[a][1] * d[1] + h[a][2] * d[2];
            Hv[i + a] += t;
            Hv[j + a] -= t;
        }
    }
}
