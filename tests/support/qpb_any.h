/// Reader of QP and LCP instances with K in its sparse storage, for tests and bench only.
///
/// As qpb.h, of which it takes the container and the QP arrays, but K keeps the pattern of the
/// file. An LCP w = A f + b >= 0, f >= 0, f'w = 0 with A = J M^-1 J' is the QP  min 1/2 x'M x, -J x
/// <= b, x = v_plus - v.
#ifndef QPC_TESTS_SUPPORT_QPB_ANY_H
#define QPC_TESTS_SUPPORT_QPB_ANY_H

#include "tests/support/qpb.h"

/// K as the file has it, to build sys again and again.
typedef struct qpb_any {
    qpb_problem p;
    bool lcp;
    int32_t *K_p, *K_i;
    double *K_x;
    double *kappa; // (m) sqrt(J_i K^-1 J_i'), 1 for an empty row
} qpb_any;

static inline void qpb_any_free(qpb_any *a) {
    free(a->K_p);
    free(a->K_i);
    free(a->K_x);
    free(a->kappa);
    qpb_free(&a->p);
    memset(a, 0, sizeof *a);
}

/// sys afresh from the file's K: order, analysis, values, factor.
static inline qpc_status qpb_any_factor(qpb_any *a, qpc_error *err) {
    qpc_linsys *sys = &a->p.sys;
    int32_t n = a->p.qp.n;
    qpc_status st = qpc_linsys_resize_sparse(sys, n, a->K_p, a->K_i, err);
    if (st != QPC_OK) return st;
    if (a->K_p[n] > 0) memcpy(sys->value, a->K_x, (size_t)a->K_p[n] * sizeof(double));
    return qpc_linsys_factor(sys, err);
}

static inline bool qpb_any_arrays(qpb_any *a, const unsigned char *file, size_t size,
                                  const int32_t *dims) {
    qpb_problem *p = &a->p;
    size_t n = (size_t)dims[a->lcp ? 1 : 0], m = (size_t)dims[a->lcp ? 0 : 1], nj = 0;
    p->row_start = qpb_copy(file, size, "J_p", 4, m + 1);
    if (p->row_start != NULL) nj = (size_t)p->row_start[m];
    p->column = qpb_copy(file, size, "J_i", 4, nj);
    p->value = qpb_copy(file, size, "J_x", 8, nj);
    p->equality = calloc(m + 1, 1);
    p->priority = calloc(m + 1, 1);
    p->key = calloc(m + 1, sizeof *p->key);
    double *scale = qpb_copy(file, size, "S", 8, 1);
    p->scale = scale != NULL ? scale[0] : 0;
    free(scale);
    bool ok = p->row_start != NULL && p->column != NULL && p->value != NULL &&
              p->equality != NULL && p->priority != NULL && p->key != NULL;
    for (size_t i = 0; ok && i < m; i++) {
        p->priority[i] = 1;
        p->key[i] = i;
    }
    if (a->lcp) {
        double *v = qpb_copy(file, size, "v", 8, n);
        p->x = qpb_copy(file, size, "v_plus", 8, n);
        a->K_x = qpb_copy(file, size, "M", 8, n);
        p->b = calloc(n + 1, sizeof *p->b);
        p->c = qpb_copy(file, size, "b", 8, m);
        p->lambda = qpb_copy(file, size, "f", 8, m);
        a->K_p = calloc(n + 1, sizeof *a->K_p);
        a->K_i = calloc(n + 1, sizeof *a->K_i);
        a->kappa = calloc(m + 1, sizeof *a->kappa);
        ok = ok && v != NULL && p->x != NULL && a->K_x != NULL && p->b != NULL && p->c != NULL &&
             p->lambda != NULL && a->K_p != NULL && a->K_i != NULL && a->kappa != NULL;
        for (size_t i = 0; ok && i < n; i++) {
            p->x[i] -= v[i];
            a->K_p[i + 1] = (int32_t)i + 1;
            a->K_i[i] = (int32_t)i;
        }
        for (size_t i = 0; ok && i < m; i++) {
            double sum = 0;
            for (int32_t k = p->row_start[i]; k < p->row_start[i + 1]; k++) {
                sum += p->value[k] * p->value[k] / a->K_x[p->column[k]];
                p->value[k] = -p->value[k];
            }
            a->kappa[i] = sum > 0 ? __builtin_sqrt(sum) : 1;
        }
        free(v);
        return ok;
    }
    a->K_p = qpb_copy(file, size, "K_p", 4, n + 1);
    a->K_i = qpb_copy(file, size, "K_i", 4, (size_t)dims[2]);
    a->K_x = qpb_copy(file, size, "K_x", 8, (size_t)dims[2]);
    a->kappa = qpb_copy(file, size, "kappa", 8, m);
    p->b = qpb_copy(file, size, "b", 8, n);
    p->c = qpb_copy(file, size, "c", 8, m);
    p->x = qpb_copy(file, size, "x", 8, n);
    p->lambda = qpb_copy(file, size, "lam", 8, m);
    p->relax = qpb_copy(file, size, "relax_s", 8, m); // infeasible ones only
    int32_t *type = qpb_copy(file, size, "type", 4, m), *ids = qpb_copy(file, size, "row_id", 4, m);
    int32_t *status = qpb_copy(file, size, "status", 4, 1);
    p->infeasible = status != NULL && status[0] == 1;
    ok = ok && a->K_p != NULL && a->K_i != NULL && a->K_x != NULL && p->b != NULL && p->c != NULL &&
         p->x != NULL && p->lambda != NULL && type != NULL && ids != NULL;
    for (size_t i = 0; ok && i < m; i++) {
        p->equality[i] = type[i] == 1;
        p->key[i] = (uint64_t)(uint32_t)ids[i];
    }
    free(type);
    free(ids);
    free(status);
    return ok;
}

/// False if the file is missing or is neither a QP nor an LCP. K is factored.
static inline bool qpb_any_load(const char *path, qpb_any *ret) {
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
    ok = ok && memcmp(file, "QPBIN01\n", 8) == 0 && (kind == 1 || kind == 2);
    ret->lcp = kind == 2;
    int32_t *dims = ok ? qpb_copy(file, size, "dims", 4, kind == 2 ? 2 : 5) : NULL;
    ok = dims != NULL;
    if (ok) {
        qpb_problem *p = &ret->p;
        const char *slash = strrchr(path, '/');
        snprintf(p->name, sizeof p->name, "%.60s", slash != NULL ? slash + 1 : path);
        ok = qpb_any_arrays(ret, file, size, dims);
        p->qp = (qpc_qp){.n = dims[ret->lcp ? 1 : 0],
                         .m = dims[ret->lcp ? 0 : 1],
                         .sys = &p->sys,
                         .b = p->b,
                         .row_start = p->row_start,
                         .column = p->column,
                         .value = p->value,
                         .c = p->c,
                         .equality = p->equality,
                         .priority = p->priority,
                         .key = p->key};
        ok = ok && qpb_any_factor(ret, NULL) == QPC_OK;
    }
    free(dims);
    free(file);
    if (!ok) qpb_any_free(ret);
    return ok;
}

#endif
