/// The certificate of a solved QP: its own arithmetic over K, J, b, c, straight from the definitions.
///
/// Shares nothing with the solvers except the factor behind K^-1, whose own error is shown in
/// solve_check. Runs on the worker in the world; memory from the arena, given back.
#include "engine/solver/certificate.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

/// Sum with a running correction (Neumaier), for the residual of long rows of K.
typedef struct sum2 {
    double s, c;
} sum2;

static inline void add2(sum2 *a, double v) {
    double t = a->s + v;
    a->c += fabs(a->s) >= fabs(v) ? (a->s - t) + v : (v - t) + a->s;
    a->s = t;
}

/// Entry (i, j) of K from the stored lower band; 0 outside.
static inline double entry(const qpc_linsys *K, int32_t i, int32_t j) {
    int32_t row = i > j ? i : j, column = i > j ? j : i, w = K->bandwidth;
    if (row - column > w) return 0;
    return K->band[(int64_t)row * (w + 1) + (column - row + w)];
}

/// (K x)_i
static double k_row(const qpc_linsys *K, int32_t i, const double *x) {
    sum2 s = {0, 0};
    int32_t first = i > K->bandwidth ? i - K->bandwidth : 0;
    int32_t last = K->n - 1 - i > K->bandwidth ? i + K->bandwidth : K->n - 1;
    for (int32_t j = first; j <= last; j++) add2(&s, entry(K, i, j) * x[j]);
    return s.s + s.c;
}

static double norm_K(const qpc_linsys *K, const double *x) {
    sum2 s = {0, 0};
    for (int32_t i = 0; i < K->n; i++) add2(&s, x[i] * k_row(K, i, x));
    double v = s.s + s.c;
    return v > 0 ? sqrt(v) : 0;
}

/// *most = max(*most, v), and NaN stays once it is there.
static void raise(double *most, double v) {
    if (v > *most || isnan(v)) *most = v;
}

static void sort_keys(uint64_t *a, int32_t count) {
    for (int32_t gap = count / 2; gap > 0; gap = gap == 2 ? 1 : (int32_t)((int64_t)gap * 5 / 11)) {
        for (int32_t i = gap; i < count; i++) {
            uint64_t v = a[i];
            int32_t k = i;
            for (; k >= gap && a[k - gap] > v; k -= gap) a[k] = a[k - gap];
            a[k] = v;
        }
    }
}

qpc_status qpc_certify(const qpc_qp *qp, const double *dv, const double *lambda, qpc_arena *arena,
                       qpc_certificate *ret, qpc_error *err) {
    const qpc_linsys *K = qp->sys;
    int32_t n = qp->n, m = qp->m;
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    double *r = qpc_arena_array(arena, (size_t)n, sizeof *r);
    double *z = qpc_arena_array(arena, (size_t)n, sizeof *z);
    double *free_dv = qpc_arena_array(arena, (size_t)n, sizeof *free_dv);
    uint64_t *keys = qpc_arena_array(arena, (size_t)m, sizeof *keys);
    if (r == NULL || z == NULL || free_dv == NULL || keys == NULL) {
        qpc_arena_rewind(arena, mark);
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for the certificate of %d rows", m);
    }
    qpc_certificate out = {.scale = 1e-140};
    qpc_linsys_solve(qp->sys, qp->b, free_dv);
    double size = norm_K(K, free_dv);
    if (size > out.scale) out.scale = size;
    size = norm_K(K, dv);
    if (size > out.scale) out.scale = size;

    // r = K dv - b + J'lambda
    for (int32_t i = 0; i < n; i++) r[i] = k_row(K, i, dv) - qp->b[i];
    double comp = 0, prim = 0, dual = 0;
    for (int32_t i = 0; i < m; i++) {
        double kt2 = 0;
        sum2 slack = {qp->c[i], 0}, free_slack = {qp->c[i], 0};
        for (int32_t k = qp->row_start[i]; k < qp->row_start[i + 1]; k++) {
            int32_t j = qp->column[k];
            double v = qp->value[k];
            kt2 += v * v / entry(K, j, j);
            add2(&slack, -v * dv[j]);
            add2(&free_slack, -v * free_dv[j]);
            r[j] += lambda[i] * v;
        }
        double s = slack.s + slack.c, s0 = free_slack.s + free_slack.c, kt = sqrt(kt2);
        double violation = s >= 0 ? 0 : -s, natural; // NaN stays NaN
        if (qp->equality[i]) {
            violation = natural = fabs(s);
            s0 = -fabs(s0);
        } else {
            double push = lambda[i] * kt2;
            natural = fabs(s > push ? push : s);
            if (!(lambda[i] >= 0)) raise(&dual, -lambda[i] * kt);
        }
        raise(&out.natural, natural);
        raise(&out.violation, violation);
        comp += fabs(lambda[i] * s);
        if (kt > 0) {
            raise(&prim, violation / kt);
            if (-s0 / kt > out.scale) out.scale = -s0 / kt;
        }
        if (qp->equality[i] || lambda[i] > 0) {
            keys[out.active++] = qp->key[i];
        }
    }
    // |r|_{K^-1}, and how well its solve was done
    qpc_linsys_solve(qp->sys, r, z);
    double rz = 0, miss = 0, r2 = 0;
    for (int32_t i = 0; i < n; i++) {
        double e = k_row(K, i, z) - r[i];
        rz += r[i] * z[i];
        miss += e * e;
        r2 += r[i] * r[i];
    }
    out.solve_check = r2 > 0 ? sqrt(miss / r2) : 0;
    out.stat = sqrt(fabs(rz)) / out.scale;
    out.prim = prim / out.scale;
    out.dual = dual / out.scale;
    out.comp = comp / (out.scale * out.scale);
    out.err = out.stat + sqrt(out.comp);
    sort_keys(keys, out.active);
    out.active_hash = XXH3_64bits(keys, (size_t)out.active * sizeof *keys);
    *ret = out;
    qpc_arena_rewind(arena, mark);
    return QPC_OK;
}
