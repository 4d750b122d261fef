/// Reader of QP instances in the QPB1 container (tests/data/qp/README.md): tests and bench only.
///
/// Loads a file whole, checks its directory, and builds the qpc_qp over a banded K. Hosts are
/// little-endian.
#ifndef QPC_TESTS_SUPPORT_QPB_H
#define QPC_TESTS_SUPPORT_QPB_H

#include "base/mem.h"
#include "engine/solver/qp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct qpb_problem {
    qpc_qp qp;
    qpc_linsys sys;
    char name[64];
    double *b, *value, *c, *x, *lambda, *relax;
    int32_t *row_start, *column;
    uint8_t *equality, *priority;
    uint64_t *key;
    double scale; // S of the file
    bool infeasible;
} qpb_problem;

static inline void qpb_free(qpb_problem *p) {
    qpc_linsys_fini(&p->sys);
    free(p->b);
    free(p->value);
    free(p->c);
    free(p->x);
    free(p->lambda);
    free(p->relax);
    free(p->row_start);
    free(p->column);
    free(p->equality);
    free(p->priority);
    free(p->key);
    memset(p, 0, sizeof *p);
}

/// Entry `name` of the directory: its bytes, or NULL.
static inline const unsigned char *qpb_find(const unsigned char *file, size_t size,
                                            const char *name, size_t element, size_t *ret_count) {
    uint32_t arrays;
    memcpy(&arrays, file + 12, 4);
    for (uint32_t k = 0; k < arrays && 64 + 64 * ((size_t)k + 1) <= size; k++) {
        const unsigned char *e = file + 64 + 64 * (size_t)k;
        if (strncmp((const char *)e, name, 32) != 0) continue;
        uint32_t dtype;
        uint64_t count, offset;
        memcpy(&dtype, e + 32, 4);
        memcpy(&count, e + 40, 8);
        memcpy(&offset, e + 48, 8);
        if ((dtype == 1 ? 8U : 4U) != element || offset > size || count > (size - offset) / element)
            return NULL;
        *ret_count = (size_t)count;
        return file + offset;
    }
    return NULL;
}

static inline void *qpb_copy(const unsigned char *file, size_t size, const char *name,
                             size_t element, size_t want) {
    size_t count = 0;
    const unsigned char *from = qpb_find(file, size, name, element, &count);
    void *p = calloc(want + 1, element);
    if (from == NULL || count != want || p == NULL) {
        free(p);
        return NULL;
    }
    memcpy(p, from, want * element);
    return p;
}

/// False if the file is missing or is not a QP of this format.
static inline bool qpb_load_as(qpc_linsys_kind storage, const char *path, qpb_problem *ret) {
    memset(ret, 0, sizeof *ret);
    FILE *f = fopen(path, "rb");
    if (f == NULL) return false;
    fseek(f, 0, SEEK_END);
    long length = ftell(f);
    rewind(f);
    unsigned char *file = length >= 64 ? malloc((size_t)length) : NULL;
    size_t size = (size_t)length;
    bool ok = file != NULL && fread(file, 1, size, f) == size;
    fclose(f);
    uint32_t kind = 0;
    if (ok) memcpy(&kind, file + 40, 4);
    ok = ok && memcmp(file, "QPBIN01\n", 8) == 0 && kind == 1;
    int32_t *dims = ok ? qpb_copy(file, size, "dims", 4, 5) : NULL;
    int32_t *state = NULL, *K_p = NULL, *K_i = NULL, *ids = NULL;
    double *K_x = NULL;
    if (dims != NULL) {
        size_t n = (size_t)dims[0], m = (size_t)dims[1], nk = (size_t)dims[2], nj = (size_t)dims[3];
        const char *slash = strrchr(path, '/');
        snprintf(ret->name, sizeof ret->name, "%.60s", slash != NULL ? slash + 1 : path);
        K_p = qpb_copy(file, size, "K_p", 4, n + 1);
        K_i = qpb_copy(file, size, "K_i", 4, nk);
        K_x = qpb_copy(file, size, "K_x", 8, nk);
        ret->b = qpb_copy(file, size, "b", 8, n);
        ret->row_start = qpb_copy(file, size, "J_p", 4, m + 1);
        ret->column = qpb_copy(file, size, "J_i", 4, nj);
        ret->value = qpb_copy(file, size, "J_x", 8, nj);
        ret->c = qpb_copy(file, size, "c", 8, m);
        ret->x = qpb_copy(file, size, "x", 8, n);
        ret->lambda = qpb_copy(file, size, "lam", 8, m);
        ret->relax = qpb_copy(file, size, "relax_s", 8, m); // infeasible ones only
        state = qpb_copy(file, size, "type", 4, m);
        ids = qpb_copy(file, size, "row_id", 4, m);
        double *scale = qpb_copy(file, size, "S", 8, 1);
        int32_t *status = qpb_copy(file, size, "status", 4, 1);
        ret->equality = calloc(m + 1, 1);
        ret->priority = calloc(m + 1, 1);
        ret->key = calloc(m + 1, sizeof *ret->key);
        ok = K_p != NULL && K_i != NULL && K_x != NULL && ret->b != NULL &&
             ret->row_start != NULL && ret->column != NULL && ret->value != NULL &&
             ret->c != NULL && ret->x != NULL && ret->lambda != NULL && state != NULL &&
             ids != NULL && ret->equality != NULL && ret->priority != NULL && ret->key != NULL;
        ret->scale = scale != NULL ? scale[0] : 0;
        ret->infeasible = status != NULL && status[0] == 1;
        free(scale);
        free(status);
        if (ok) {
            int32_t width = 0;
            for (int32_t j = 0; j < dims[0]; j++)
                for (int32_t k = K_p[j]; k < K_p[j + 1]; k++)
                    if (K_i[k] - j > width) width = K_i[k] - j;
            if (storage == QPC_LINSYS_SPARSE)
                ok = qpc_linsys_resize_sparse(&ret->sys, dims[0], K_p, K_i, NULL) == QPC_OK;
            else
                ok = qpc_linsys_resize(&ret->sys, dims[0], width, NULL) == QPC_OK;
            for (int32_t j = 0; ok && j < dims[0]; j++)
                for (int32_t k = K_p[j]; k < K_p[j + 1]; k++)
                    *qpc_linsys_entry(&ret->sys, K_i[k], j) += K_x[k];
            ok = ok && qpc_linsys_factor(&ret->sys, NULL) == QPC_OK;
            for (size_t i = 0; i < m; i++) {
                ret->equality[i] = state[i] == 1;
                ret->priority[i] = 1;
                ret->key[i] = (uint64_t)(uint32_t)ids[i];
            }
            ret->qp = (qpc_qp){.n = dims[0],
                               .m = dims[1],
                               .sys = &ret->sys,
                               .b = ret->b,
                               .row_start = ret->row_start,
                               .column = ret->column,
                               .value = ret->value,
                               .c = ret->c,
                               .equality = ret->equality,
                               .priority = ret->priority,
                               .key = ret->key};
        }
    } else {
        ok = false;
    }
    free(K_p);
    free(K_i);
    free(K_x);
    free(state);
    free(ids);
    free(dims);
    free(file);
    if (!ok) qpb_free(ret);
    return ok;
}

static inline bool qpb_load(const char *path, qpb_problem *ret) {
    return qpb_load_as(QPC_LINSYS_BAND, path, ret);
}

/// |x - y|_K / S
static inline double qpb_distance(const qpb_problem *p, const double *x, const double *y) {
    size_t n = (size_t)p->qp.n;
    double *d = calloc(n + 1, sizeof *d), *e = calloc(n + 1, sizeof *e), sum = 0;
    if (d == NULL || e == NULL) abort();
    for (size_t i = 0; i < n; i++) d[i] = x[i] - y[i];
    qpc_linsys_multiply(&p->sys, d, e);
    for (size_t i = 0; i < n; i++) sum += d[i] * e[i];
    free(d);
    free(e);
    double root = sum > 0 ? sum : 0, s = p->scale > 1e-140 ? p->scale : 1e-140;
    return __builtin_sqrt(root) / s;
}

#endif
