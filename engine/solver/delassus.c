/// Updates of the factor L D L' of A_WW. Runs on the worker in the world; memory from the arena.
#include "engine/solver/delassus.h"

#include <string.h>

static double *factor_row(const qpc_delassus *del, int32_t i) {
    return del->factor + (int64_t)i * (i + 1) / 2;
}

static bool reserve(qpc_delassus *del, int32_t want) {
    if (want <= del->capacity) return true;
    int32_t to = 2 * del->capacity > want ? 2 * del->capacity : want;
    size_t packed = (size_t)to * ((size_t)to + 1) / 2;
    int32_t *row = qpc_arena_array(del->arena, (size_t)to, sizeof *row);
    double *factor = qpc_arena_array(del->arena, packed, sizeof *factor);
    double *scratch = qpc_arena_array(del->arena, 2 * (size_t)to, sizeof *scratch);
    if (row == NULL || factor == NULL || scratch == NULL) return false;
    if (del->count > 0) {
        memcpy(row, del->row, (size_t)del->count * sizeof *row);
        memcpy(factor, del->factor,
               (size_t)del->count * ((size_t)del->count + 1) / 2 * sizeof *factor);
    }
    del->row = row;
    del->factor = factor;
    del->p = scratch;
    del->beta = scratch + to;
    del->capacity = to;
    return true;
}

bool qpc_delassus_init(qpc_delassus *del, qpc_arena *arena, int32_t capacity) {
    *del = (qpc_delassus){.arena = arena};
    return reserve(del, capacity > 0 ? capacity : 1);
}

static double dot(const double *a, const double *b, int32_t count) {
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    int32_t k = 0;
    for (; k + 4 <= count; k += 4) {
        s0 += a[k] * b[k];
        s1 += a[k + 1] * b[k + 1];
        s2 += a[k + 2] * b[k + 2];
        s3 += a[k + 3] * b[k + 3];
    }
    for (; k < count; k++) s0 += a[k] * b[k];
    return (s0 + s2) + (s1 + s3);
}

double qpc_delassus_forward(const qpc_delassus *del, double *v) {
    double sum = 0;
    for (int32_t i = 0; i < del->count; i++) {
        const double *l = factor_row(del, i);
        v[i] -= dot(l, v, i);
        sum += v[i] * v[i] / l[i];
    }
    return sum;
}

bool qpc_delassus_append(qpc_delassus *del, int32_t row, const double *v, double d) {
    int32_t k = del->count;
    if (!reserve(del, k + 1)) return false;
    double *l = factor_row(del, k);
    for (int32_t i = 0; i < k; i++) l[i] = v[i] / factor_row(del, i)[i];
    l[k] = d;
    del->row[k] = row;
    del->count = k + 1;
    return true;
}

void qpc_delassus_backward(const qpc_delassus *del, double *v) {
    int32_t k = del->count;
    for (int32_t i = 0; i < k; i++) v[i] /= factor_row(del, i)[i];
    for (int32_t i = k - 1; i > 0; i--) {
        const double *l = factor_row(del, i);
        double t = v[i];
        for (int32_t j = 0; j < i; j++) v[j] -= l[j] * t;
    }
}

void qpc_delassus_solve(const qpc_delassus *del, double *r) {
    for (int32_t i = 0; i < del->count; i++) r[i] -= dot(factor_row(del, i), r, i);
    qpc_delassus_backward(del, r);
}

void qpc_delassus_remove(qpc_delassus *del, int32_t q) {
    // What stood below the row is L33 D3 L33' + d_q l l': a rank-one update with positive weight
    // (Gill, Golub, Murray & Saunders 1974, method C1), done row by row while the rows move up.
    int32_t k = del->count;
    double alpha = factor_row(del, q)[q];
    double *p = del->p, *beta = del->beta;
    for (int32_t i = q + 1; i < k; i++) {
        const double *from = factor_row(del, i);
        double *to = factor_row(del, i - 1); // never overtakes from
        double t = from[q], d = from[i];
        for (int32_t j = 0; j < q; j++) to[j] = from[j];
        for (int32_t j = q + 1; j < i; j++) {
            double l = from[j];
            t -= p[j] * l;
            to[j - 1] = l + beta[j] * t;
        }
        double raised = d + alpha * t * t;
        p[i] = t;
        beta[i] = alpha * t / raised;
        alpha *= d / raised;
        to[i - 1] = raised;
    }
    memmove(del->row + q, del->row + q + 1, (size_t)(k - q - 1) * sizeof *del->row);
    del->count = k - 1;
}
