/// See drape.h.
#include "tests/support/drape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double DT = 0.005, BALL = 0.3, THICK = 0.008, NEAR = 0.004, DENSITY = 0.2;

static void add_spring(drape *d, int32_t a, int32_t b, double stiffness) {
    int32_t s = d->springs++;
    double sum = 0;
    for (int32_t k = 0; k < 3; k++) sum += (d->x[3 * a + k] - d->x[3 * b + k]) * (d->x[3 * a + k] - d->x[3 * b + k]);
    d->pair[2 * s] = a < b ? a : b;
    d->pair[2 * s + 1] = a < b ? b : a;
    d->stiffness[s] = stiffness;
    d->rest[s] = sqrt(sum);
}

/// Pattern of K from the springs, ascending.
static bool make_pattern(drape *d) {
    int32_t nodes = d->k * d->k, total = 0;
    int32_t *start = calloc((size_t)d->n + 1, sizeof *start);
    int32_t *row = calloc(9 * ((size_t)nodes + (size_t)d->springs), sizeof *row);
    int32_t *other = calloc((size_t)nodes * 16, sizeof *other), *count = calloc((size_t)nodes, sizeof *count);
    bool ok = start != NULL && row != NULL && other != NULL && count != NULL;
    for (int32_t s = 0; ok && s < d->springs; s++) {
        int32_t a = d->pair[2 * s], b = d->pair[2 * s + 1], *list = other + 16 * (int64_t)a, at = count[a]++;
        for (; at > 0 && list[at - 1] > b; at--) list[at] = list[at - 1];
        list[at] = b;
    }
    for (int32_t i = 0; ok && i < nodes; i++) {
        for (int32_t a = 0; a < 3; a++) {
            for (int32_t c = a; c < 3; c++) row[total++] = 3 * i + c;
            for (int32_t k = 0; k < count[i]; k++)
                for (int32_t c = 0; c < 3; c++) row[total++] = 3 * other[16 * (int64_t)i + k] + c;
            start[3 * i + a + 1] = total;
        }
    }
    ok = ok && qpc_linsys_resize_sparse(&d->sys, d->n, start, row, NULL) == QPC_OK;
    free(start);
    free(row);
    free(other);
    free(count);
    return ok;
}

bool drape_init(drape *d, int32_t k, double membrane) {
    memset(d, 0, sizeof *d);
    d->k = k;
    int32_t nodes = k * k, most = 2 * nodes;
    d->n = 3 * nodes;
    size_t n = (size_t)d->n, rows = (size_t)most;
    d->mass = DENSITY / nodes;
    d->pair = calloc(12 * (size_t)nodes, sizeof *d->pair);
    d->stiffness = calloc(6 * (size_t)nodes, sizeof(double));
    d->rest = calloc(6 * (size_t)nodes, sizeof(double));
    d->x = calloc(n, sizeof(double));
    d->v = calloc(n, sizeof(double));
    d->b = calloc(n, sizeof(double));
    d->value = calloc(6 * rows, sizeof(double));
    d->c = calloc(rows, sizeof(double));
    d->lambda = calloc(rows, sizeof(double));
    d->last_lambda = calloc(rows, sizeof(double));
    d->row_start = calloc(rows + 1, sizeof(int32_t));
    d->column = calloc(6 * rows, sizeof(int32_t));
    d->equality = calloc(rows, 1);
    d->priority = calloc(rows, 1);
    d->key = calloc(rows, sizeof(uint64_t));
    d->last_key = calloc(rows, sizeof(uint64_t));
    if (d->pair == NULL || d->stiffness == NULL || d->rest == NULL || d->x == NULL || d->v == NULL || d->b == NULL ||
        d->value == NULL || d->c == NULL || d->lambda == NULL || d->last_lambda == NULL || d->row_start == NULL ||
        d->column == NULL || d->equality == NULL || d->priority == NULL || d->key == NULL || d->last_key == NULL)
        return false;
    double h = 1.0 / (k - 1);
    for (int32_t i = 0; i < nodes; i++) {
        d->x[3 * i] = h * (i % k) - 0.47;
        d->x[3 * i + 1] = BALL + THICK + 0.002;
        d->x[3 * i + 2] = h * (i / k) - 0.52;
        d->v[3 * i + 1] = -1;
    }
    for (int32_t i = 0; i < nodes; i++) {
        bool right = i % k < k - 1, down = i / k < k - 1;
        if (right) add_spring(d, i, i + 1, membrane);
        if (down) add_spring(d, i, i + k, membrane);
        if (right && down) add_spring(d, i, i + k + 1, membrane);
        // Across the diagonal and the two other edges.
        if (right && down) add_spring(d, i + 1, i + k, 0.01 * membrane);
        if (i % k < k - 2 && down) add_spring(d, i, i + k + 2, 0.01 * membrane);
        if (right && i / k < k - 2) add_spring(d, i, i + 2 * k + 1, 0.01 * membrane);
    }
    return make_pattern(d);
}

void drape_fini(drape *d) {
    free(d->pair);
    free(d->stiffness);
    free(d->rest);
    free(d->x);
    free(d->v);
    free(d->b);
    free(d->value);
    free(d->c);
    free(d->lambda);
    free(d->last_lambda);
    free(d->row_start);
    free(d->column);
    free(d->equality);
    free(d->priority);
    free(d->key);
    free(d->last_key);
    qpc_linsys_fini(&d->sys);
    memset(d, 0, sizeof *d);
}

/// Forces and clamped stiffness, b = dt (f - dt H v).
static void add_springs(drape *d) {
    for (int32_t s = 0; s < d->springs; s++) {
        int32_t a = d->pair[2 * s], b = d->pair[2 * s + 1];
        double u[3], l2 = 0, along = 0, H[9], w[3];
        for (int32_t k = 0; k < 3; k++) {
            u[k] = d->x[3 * b + k] - d->x[3 * a + k];
            w[k] = d->v[3 * b + k] - d->v[3 * a + k];
            l2 += u[k] * u[k];
        }
        double l = sqrt(l2), ratio = 1 - d->rest[s] / l, f = d->stiffness[s] * (l - d->rest[s]);
        if (ratio < 0) ratio = 0;
        for (int32_t k = 0; k < 3; k++) u[k] /= l;
        for (int32_t k = 0; k < 3; k++) along += u[k] * w[k];
        for (int32_t i = 0; i < 3; i++) {
            for (int32_t j = 0; j < 3; j++)
                H[3 * i + j] = d->stiffness[s] * ((1 - ratio) * u[i] * u[j] + (i == j ? ratio : 0));
            double push = DT * (f * u[i] + DT * d->stiffness[s] * ((1 - ratio) * along * u[i] + ratio * w[i]));
            d->b[3 * a + i] += push;
            d->b[3 * b + i] -= push;
        }
        for (int32_t i = 0; i < 3; i++) {
            for (int32_t j = 0; j <= i; j++) {
                *qpc_linsys_entry(&d->sys, 3 * a + i, 3 * a + j) += DT * DT * H[3 * i + j];
                *qpc_linsys_entry(&d->sys, 3 * b + i, 3 * b + j) += DT * DT * H[3 * i + j];
            }
            for (int32_t j = 0; j < 3; j++) *qpc_linsys_entry(&d->sys, 3 * b + i, 3 * a + j) -= DT * DT * H[3 * i + j];
        }
    }
}

/// The point half way between a and b (the same: a particle) against the ball.
static void add_row(drape *d, int32_t a, int32_t b, uint64_t key) {
    double p[3], v[3], r = 0, vn = 0;
    for (int32_t k = 0; k < 3; k++) {
        p[k] = 0.5 * (d->x[3 * a + k] + d->x[3 * b + k]);
        v[k] = 0.5 * (d->v[3 * a + k] + d->v[3 * b + k]);
        r += p[k] * p[k];
    }
    r = sqrt(r);
    double gap = r - BALL - THICK;
    if (gap > NEAR) return;
    if (gap < -0.001) gap = -0.001;
    int32_t at = d->row_start[d->m];
    for (int32_t k = 0; k < 3; k++) vn += p[k] / r * v[k];
    for (int32_t k = 0; k < 3; k++) {
        d->column[at] = 3 * a + k;
        d->value[at++] = -(a == b ? 1 : 0.5) * p[k] / r;
    }
    for (int32_t k = 0; k < 3 && a != b; k++) {
        d->column[at] = 3 * b + k;
        d->value[at++] = -0.5 * p[k] / r;
    }
    d->c[d->m] = gap / DT + vn;
    d->key[d->m] = key;
    d->priority[d->m] = 1;
    d->row_start[++d->m] = at;
}

bool drape_assemble(drape *d) {
    int32_t nodes = d->k * d->k;
    qpc_linsys_clear(&d->sys);
    for (int32_t i = 0; i < d->n; i++) {
        *qpc_linsys_entry(&d->sys, i, i) = d->mass;
        d->b[i] = i % 3 == 1 ? -9.81 * DT * d->mass : 0;
    }
    add_springs(d);
    d->m = 0;
    for (int32_t i = 0; i < nodes; i++) {
        add_row(d, i, i, 2 * (uint64_t)i);
        if (i % d->k < d->k - 1 && i / d->k < d->k - 1) add_row(d, i, i + d->k + 1, 2 * (uint64_t)i + 1);
    }
    for (int32_t i = 0, j = 0; i < d->m; i++) { // keys ascend
        while (j < d->last_m && d->last_key[j] < d->key[i]) j++;
        d->lambda[i] = j < d->last_m && d->last_key[j] == d->key[i] ? d->last_lambda[j] : 0;
    }
    d->qp = (qpc_qp){.n = d->n, .m = d->m, .sys = &d->sys, .b = d->b, .row_start = d->row_start, .column = d->column,
                     .value = d->value, .c = d->c, .equality = d->equality, .priority = d->priority, .key = d->key};
    return true;
}

void drape_advance(drape *d, const double *dv) {
    for (int32_t i = 0; i < d->n; i++) {
        d->v[i] += dv[i];
        d->x[i] += DT * d->v[i];
    }
    d->last_m = d->m;
    memcpy(d->last_key, d->key, (size_t)d->m * sizeof *d->key);
    memcpy(d->last_lambda, d->lambda, (size_t)d->m * sizeof *d->lambda);
}
