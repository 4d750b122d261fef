/// Reader of LCP and friction instances (kinds 2 and 3 of tests/data/qp), and their residuals by
/// long way: written from the definitions in 80-bit arithmetic, sharing nothing with the engine.
#ifndef QPC_TESTS_SUPPORT_CONES_H
#define QPC_TESTS_SUPPORT_CONES_H

#include "engine/solver/friction.h"
#include "tests/support/qpb.h"

#include <math.h>

typedef struct cones_file {
    unsigned char *bytes;
    size_t size;
    qpc_cones cones; // kind 3
    const double *r; // a stored solution
    double scale;    // S
    int32_t rows, n; // kind 2: contacts, unknowns
    const int32_t *J_p, *J_i;
    const double *J_x, *M, *v, *eps, *w, *v_plus, *A_x;
    const int32_t *A_p, *A_i;
    int32_t eps_count;
} cones_file;

static inline const void *cones_array(const cones_file *f, const char *name, size_t element,
                                      size_t *count) {
    return qpb_find(f->bytes, f->size, name, element, count);
}

static inline bool cones_open(const char *path, uint32_t kind, cones_file *ret) {
    memset(ret, 0, sizeof *ret);
    FILE *file = fopen(path, "rb");
    if (file == NULL) return false;
    fseek(file, 0, SEEK_END);
    long length = ftell(file);
    rewind(file);
    ret->size = length > 0 ? (size_t)length : 0;
    ret->bytes = malloc(ret->size + 1);
    bool ok =
        ret->bytes != NULL && ret->size >= 64 && fread(ret->bytes, 1, ret->size, file) == ret->size;
    fclose(file);
    uint32_t got = 0;
    if (ok) memcpy(&got, ret->bytes + 40, 4);
    ok = ok && memcmp(ret->bytes, "QPBIN01\n", 8) == 0 && got == kind;
    size_t count = 0;
    const int32_t *dims = ok ? cones_array(ret, "dims", 4, &count) : NULL;
    const double *scale = dims != NULL ? cones_array(ret, "S", 8, &count) : NULL;
    if (scale == NULL) {
        free(ret->bytes);
        return false;
    }
    ret->scale = scale[0];
    if (kind == 3) {
        ret->cones = (qpc_cones){.count = dims[0],
                                 .start = cones_array(ret, "W_p", 4, &count),
                                 .column = cones_array(ret, "W_i", 4, &count),
                                 .value = cones_array(ret, "W_x", 8, &count),
                                 .q = cones_array(ret, "q", 8, &count),
                                 .mu = cones_array(ret, "mu", 8, &count)};
        ret->r = cones_array(ret, "r", 8, &count);
    } else {
        ret->rows = dims[0];
        ret->n = dims[1];
        ret->J_p = cones_array(ret, "J_p", 4, &count);
        ret->J_i = cones_array(ret, "J_i", 4, &count);
        ret->J_x = cones_array(ret, "J_x", 8, &count);
        ret->A_p = cones_array(ret, "A_p", 4, &count);
        ret->A_i = cones_array(ret, "A_i", 4, &count);
        ret->A_x = cones_array(ret, "A_x", 8, &count);
        ret->M = cones_array(ret, "M", 8, &count);
        ret->v = cones_array(ret, "v", 8, &count);
        ret->w = cones_array(ret, "w", 8, &count);
        ret->v_plus = cones_array(ret, "v_plus", 8, &count);
        ret->eps = cones_array(ret, "eps", 8, &count);
        ret->eps_count = (int32_t)count;
    }
    return true;
}

static inline void cones_close(cones_file *f) {
    free(f->bytes);
    memset(f, 0, sizeof *f);
}

/// Largest eigenvalue of the symmetric part of a 3x3 block by power iteration on its square.
static inline long double cones_lambda_max(long double b[3][3]) {
    long double x[3] = {1, 0.7L, 0.4L}, value = 0;
    for (int32_t k = 0; k < 5000; k++) {
        long double y[3] = {0}, s = 0;
        for (int32_t i = 0; i < 3; i++)
            for (int32_t j = 0; j < 3; j++) y[i] += 0.5L * (b[i][j] + b[j][i]) * x[j];
        for (int32_t i = 0; i < 3; i++) s += y[i] * y[i];
        value = sqrtl(s);
        if (value == 0) break;
        for (int32_t i = 0; i < 3; i++) x[i] = y[i] / value;
    }
    return value;
}

/// Natural residual as the data's README defines it.
static inline double cones_natural(const qpc_cones *c, const double *r) {
    long double sum = 0, square = 0;
    for (int32_t k = 0; k < c->count; k++) {
        long double u[3], block[3][3] = {{0}};
        for (int32_t j = 0; j < 3; j++) {
            u[j] = c->q[3 * k + j];
            for (int32_t l = c->start[3 * k + j]; l < c->start[3 * k + j + 1]; l++) {
                u[j] += (long double)c->value[l] * (long double)r[c->column[l]];
                if (c->column[l] / 3 == k) block[j][c->column[l] % 3] += (long double)c->value[l];
            }
        }
        long double rho = 1 / cones_lambda_max(block), mu = (long double)c->mu[k], z[3], p[3] = {0};
        long double slide = sqrtl(u[1] * u[1] + u[2] * u[2]);
        z[0] = (long double)r[3 * k] - rho * (u[0] + mu * slide);
        for (int32_t j = 1; j < 3; j++) z[j] = (long double)r[3 * k + j] - rho * u[j];
        long double t = sqrtl(z[1] * z[1] + z[2] * z[2]);
        if (t <= mu * z[0]) {
            memcpy(p, z, sizeof p);
        } else if (mu * t > -z[0]) {
            p[0] = (z[0] + mu * t) / (1 + mu * mu);
            for (int32_t j = 1; j < 3; j++) p[j] = mu * p[0] * z[j] / t;
        }
        for (int32_t j = 0; j < 3; j++) {
            long double f = (long double)r[3 * k + j] - p[j], q = (long double)c->q[3 * k + j];
            sum += f * f / rho;
            square += rho * q * q;
        }
    }
    return (double)(square > 0 ? sqrtl(sum / square) : sqrtl(sum));
}

#endif
