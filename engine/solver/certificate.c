/// The certificate of a solved QP (T32): its own arithmetic over K, J, b, c, straight from the
/// definitions.
///
/// Shares nothing with the solvers except the factor behind K^-1, whose own error is shown in
/// solve_check. Runs on the worker in the world; memory from the arena, given back.
#include "engine/solver/certificate.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

// How far K^-1 b and K^-1 r are solved for where K has no factor.
static const double LOOSE_SCALE = 0.1, LOOSE_BOUND = 0.01, LOOSE_ESTIMATE = 1e-3;

/// K_ii, as stored.
static inline double diagonal(const qpc_linsys *K, int32_t i) {
    if (K->kind == QPC_LINSYS_SPARSE) return K->value[K->start[i]];
    return K->band[(int64_t)i * (K->bandwidth + 1) + K->bandwidth];
}

/// y = K x, by columns of the lower triangle and their mirror.
static void sparse_product(const qpc_linsys *K, const double *x, double *y) {
    for (int32_t i = 0; i < K->n; i++) y[i] = 0;
    for (int32_t j = 0; j < K->n; j++) {
        y[j] += diagonal(K, j) * x[j];
        for (int32_t k = K->start[j] + 1; k < K->start[j + 1]; k++) {
            y[K->row[k]] += K->value[k] * x[j];
            y[j] += K->value[k] * x[K->row[k]];
        }
    }
}

/// y = K x; a band by rows of its lower triangle and their mirror.
static void product(const qpc_linsys *K, const double *x, double *y) {
    if (K->kind == QPC_LINSYS_SPARSE) {
        sparse_product(K, x, y);
        return;
    }
    int32_t w = K->bandwidth;
    for (int32_t i = 0; i < K->n; i++) {
        int32_t first = i > w ? i - w : 0;
        const double *row = K->band + (int64_t)i * (w + 1) + (w - i);
        double sum = diagonal(K, i) * x[i];
        for (int32_t j = first; j < i; j++) {
            sum += row[j] * x[j];
            y[j] += row[j] * x[i];
        }
        y[i] = sum;
    }
}

static double inner(int32_t n, const double *a, const double *b) {
    double s = 0;
    for (int32_t i = 0; i < n; i++) s += a[i] * b[i];
    return s;
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
    double *Kx = qpc_arena_array(arena, (size_t)n, sizeof *Kx);
    uint64_t *keys = qpc_arena_array(arena, (size_t)m, sizeof *keys);
    if (r == NULL || z == NULL || free_dv == NULL || Kx == NULL || keys == NULL) {
        qpc_arena_rewind(arena, mark);
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for the certificate of %d rows", m);
    }
    bool loose = !K->factored && K->blocks != NULL;
    qpc_status status = loose ? QPC_OK : qpc_linsys_ensure(qp->sys, err);
    if (loose) qpc_linsys_prepare(qp->sys);
    if (status != QPC_OK) {
        qpc_arena_rewind(arena, mark);
        return status;
    }
    qpc_certificate out = {.scale = 1e-140};
    qpc_linsys_solve_roughly(qp->sys, qp->b, LOOSE_SCALE, free_dv);
    product(K, free_dv, Kx);
    double size = sqrt(fmax(inner(n, free_dv, Kx), 0));
    if (size > out.scale) out.scale = size;
    product(K, dv, Kx);
    size = sqrt(fmax(inner(n, dv, Kx), 0));
    if (size > out.scale) out.scale = size;

    // r = K dv - b + J'lambda
    for (int32_t i = 0; i < n; i++) r[i] = Kx[i] - qp->b[i];
    double comp = 0, prim = 0, dual = 0;
    for (int32_t i = 0; i < m; i++) {
        double kt2 = 0, s = qp->c[i], s0 = qp->c[i];
        for (int32_t k = qp->row_start[i]; k < qp->row_start[i + 1]; k++) {
            int32_t j = qp->column[k];
            double v = qp->value[k];
            kt2 += v * v / diagonal(K, j);
            s -= v * dv[j];
            s0 -= v * free_dv[j];
            r[j] += lambda[i] * v;
        }
        double kt = sqrt(kt2);
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
    qpc_linsys_solve_roughly(qp->sys, r, K->least != NULL ? LOOSE_BOUND : LOOSE_ESTIMATE, z);
    product(K, z, Kx);
    double rz = inner(n, r, z), r2 = inner(n, r, r), miss = 0, beyond = 0;
    for (int32_t i = 0; i < n; i++) {
        miss += (Kx[i] - r[i]) * (Kx[i] - r[i]);
        if (loose && K->least != NULL) beyond += (Kx[i] - r[i]) * (Kx[i] - r[i]) / K->least[i];
    }
    out.solve_check = r2 > 0 ? sqrt(miss / r2) : 0;
    if (loose) {
        rz = 2 * rz - inner(n, z, Kx) + beyond;
        out.by = K->least != NULL ? QPC_BY_BOUND : QPC_BY_ESTIMATE;
    }
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
