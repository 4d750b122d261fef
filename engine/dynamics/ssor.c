/// M^-1 (K + E) in the unknowns W'd (Eisenstat): with t = W^-T p,
///     W^-1 (K + E) t = t + W^-1 (p + E t - (2 D - D_K) t),
/// since K + E = W + W' + E - (2 D - D_K). Residuals are kept as W^-1 r; their square in M^-1 is that in D.
#include "engine/dynamics/ssor.h"

#include <math.h>
#include <string.h>

size_t qpc_ssor_size(int32_t count) {
    return (3 * 9 + 6 * 3) * (size_t)count;
}

void qpc_ssor_init(qpc_ssor *s, const qpc_blocks *K, double *memory) {
    size_t blocks = 9 * (size_t)K->count, n = 3 * (size_t)K->count;
    double *vectors = memory + 3 * blocks;
    *s = (qpc_ssor){.K = K, .D = memory, .inverse = memory + blocks, .rest = memory + 2 * blocks};
    s->r = vectors;
    s->z = vectors + n;
    s->p = vectors + 2 * n;
    s->t = vectors + 3 * n;
    s->q = vectors + 4 * n;
    s->v = vectors + 5 * n;
    if (blocks > 0) memcpy(s->D, K->diagonal, blocks * sizeof *s->D);
}

bool qpc_ssor_prepare(qpc_ssor *s) {
    int64_t blocks = 9 * (int64_t)s->K->count;
    for (int64_t k = 0; k < blocks; k++) s->rest[k] = 2 * s->D[k] - s->K->diagonal[k];
    return qpc_blocks_invert(s->K->count, s->D, s->inverse) < 0;
}

static double inner(int32_t n, const double *a, const double *b) {
    double s0 = 0, s1 = 0, s2 = 0;
    for (int32_t i = 0; i < n; i += 3) {
        s0 += a[i] * b[i];
        s1 += a[i + 1] * b[i + 1];
        s2 += a[i + 2] * b[i + 2];
    }
    return s0 + s1 + s2;
}

double qpc_ssor_start(qpc_ssor *s, const double *rhs) {
    qpc_blocks_forward(s->K, s->inverse, rhs, s->r);
    qpc_blocks_scale(s->K->count, s->D, s->r, s->z);
    return sqrt(inner(3 * s->K->count, s->r, s->z));
}

double qpc_ssor_solve(qpc_ssor *s, double target, int32_t most, double *d) {
    int32_t count = s->K->count, n = 3 * count;
    double rz = inner(n, s->r, s->z);
    memset(d, 0, (size_t)n * sizeof *d);
    memcpy(s->p, s->z, (size_t)n * sizeof *s->p);
    for (int32_t step = 0; step < most && rz > target * target; step++) {
        s->steps++;
        memcpy(s->q, s->p, (size_t)n * sizeof *s->q);
        qpc_blocks_backward(s->K, s->inverse, s->q, s->t);
        qpc_blocks_scale(count, s->rest, s->t, s->v);
        for (int32_t i = 0; i < n; i++) s->v[i] = s->p[i] - s->v[i];
        if (s->add != NULL) s->add(s->self, s->t, s->v);
        qpc_blocks_forward(s->K, s->inverse, s->v, s->q);
        double curve = 0;
        for (int32_t i = 0; i < n; i++) {
            s->q[i] += s->t[i];
            curve += s->p[i] * s->q[i];
        }
        if (!(curve > 0)) {
            s->lost = true;
            break;
        }
        double alpha = rz / curve, last = rz;
        for (int32_t i = 0; i < n; i++) {
            d[i] += alpha * s->t[i];
            s->r[i] -= alpha * s->q[i];
        }
        qpc_blocks_scale(count, s->D, s->r, s->z);
        rz = inner(n, s->r, s->z);
        double beta = rz / last;
        for (int32_t i = 0; i < n; i++) s->p[i] = s->z[i] + beta * s->p[i];
    }
    return sqrt(rz);
}
