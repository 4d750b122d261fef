/// The natural map of a scaled cone problem.
///
/// F(x) = x - P(x - y^), y^ = y + mu |y_T| e_N, y = A x + p. Its zeros are the solutions; its norm
/// is what all methods are judged by. Worker thread of the world.
#include "engine/solver/cones.h"

#include <cblas.h>
#include <float.h>
#include <math.h>
#include <string.h>

bool qpc_natural_alloc(qpc_natural *natural, const qpc_cone_problem *problem, qpc_arena *arena) {
    size_t n = (size_t)problem->size;
    natural->y = qpc_arena_array(arena, n, sizeof *natural->y);
    natural->z = qpc_arena_array(arena, n, sizeof *natural->z);
    natural->f = qpc_arena_array(arena, n, sizeof *natural->f);
    natural->state = qpc_arena_array(arena, (size_t)problem->count, 1);
    return natural->y != NULL && natural->z != NULL && natural->f != NULL && natural->state != NULL;
}

static uint8_t map_contact(double mu, const double *x, const double *y, double *z, double *f) {
    double slide = hypot(y[1], y[2]);
    z[0] = x[0] - (y[0] + mu * slide);
    z[1] = x[1] - y[1];
    z[2] = x[2] - y[2];
    double t = hypot(z[1], z[2]);
    if (t <= mu * z[0]) { // F = y^, without the difference of large numbers
        f[0] = y[0] + mu * slide;
        f[1] = y[1];
        f[2] = y[2];
        return 1;
    }
    if (mu * t <= -z[0]) {
        memcpy(f, x, 3 * sizeof *f);
        return 0;
    }
    double normal = (z[0] + mu * t) / (1 + mu * mu);
    f[0] = x[0] - normal;
    f[1] = x[1] - mu * normal * z[1] / t;
    f[2] = x[2] - mu * normal * z[2] / t;
    return 2;
}

static uint8_t map_disc(double radius, const double *x, const double *y, double *z, double *f) {
    z[0] = x[0] - y[0];
    z[1] = x[1] - y[1];
    double t = hypot(z[0], z[1]);
    if (t <= radius) {
        f[0] = y[0];
        f[1] = y[1];
        return 1;
    }
    f[0] = x[0] - radius * z[0] / t;
    f[1] = x[1] - radius * z[1] / t;
    return radius > 0 ? 2 : 0;
}

uint8_t qpc_natural_block(qpc_block_kind kind, double mu, const double *x, const double *y,
                          double *z, double *f) {
    if (kind == QPC_BLOCK_CONTACT) return map_contact(mu, x, y, z, f);
    if (kind == QPC_BLOCK_DISC) return map_disc(mu, x, y, z, f);
    z[0] = x[0] - y[0];
    bool held = kind == QPC_BLOCK_FREE || z[0] > 0;
    f[0] = held ? y[0] : x[0];
    return held;
}

void qpc_natural_map(const qpc_cone_problem *problem, const double *x, qpc_natural *natural) {
    int32_t n = problem->size;
    qpc_cone_set_up();
    memcpy(natural->y, problem->p, (size_t)n * sizeof *x);
    if (n > 0)
        cblas_dgemv(CblasRowMajor, CblasNoTrans, n, n, 1, problem->A, n, x, 1, 1, natural->y, 1);
    double sum = 0;
    for (int32_t k = 0; k < problem->count; k++) {
        int32_t i = problem->at[k];
        natural->state[k] =
            qpc_natural_block((qpc_block_kind)problem->kind[k], problem->mu[k], x + i,
                              natural->y + i, natural->z + i, natural->f + i);
        for (int32_t j = i; j < problem->at[k + 1]; j++) sum += natural->f[j] * natural->f[j];
    }
    natural->norm = isfinite(sum) ? sqrt(sum) : DBL_MAX;
}
