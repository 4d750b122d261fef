/// Preparation and residuals shared by the engines (the certificate has its own code).
#include "engine/solver/work.h"

#include <float.h>
#include <math.h>
#include <string.h>

// Without a factor: K^-1 b as a start, |r| in K^-1 as a measure.
static const double FREE_TOLERANCE = 1e-2, STAT_TOLERANCE = 0.1, STAT_EXACT = 0.01;
// |r| in K^-1 and S from rough solves are off by so much at most, against a certificate's bound (measured: 1.1).
static const double UNSURE = 1.12;
// Of the stationarity that is asked for: up to there a bound of it that is never below, and costs nothing, is taken for it.
static const double CLEARLY = 0.25;
// Where K^-1 b is the answer: its residual, of what is asked of stationarity; and as far as doubles go.
static const double FREE_DIGITS = 1e-4, FREE_EXACT = 1e-14;

static bool all_finite(const double *a, int64_t count) {
    // A sum of zeros times a is zero unless something is not finite.
    double s = 0;
    for (int64_t i = 0; i < count; i++) s += 0 * a[i];
    return s == 0;
}

/// What K^-1 b tells: its norm, S, the rows that it misses; and the kt. Kx: scratch (n).
static void measure_free(qpc_work *work, const double *inverse, double *Kx) {
    const qpc_qp *qp = work->qp;
    double norm2 = 0, scale = 1e-140;
    work->missed = 0;
    if (work->rough) { // x'(2b - Kx) is never above b'K^-1 b, wherever x comes from
        qpc_linsys_multiply(qp->sys, work->free_dv, Kx);
        for (int32_t i = 0; i < qp->n; i++) norm2 += work->free_dv[i] * (2 * qp->b[i] - Kx[i]);
    } else
        for (int32_t i = 0; i < qp->n; i++) norm2 += qp->b[i] * work->free_dv[i];
    work->free_norm = sqrt(norm2 > 0 ? norm2 : 0);
    if (isnan(norm2)) work->free_norm = NAN;
    if (work->free_norm > scale) scale = work->free_norm;
    for (int32_t i = 0; i < qp->m; i++) {
        double kt2 = 0, g = -qp->c[i];
        for (int32_t k = qp->row_start[i]; k < qp->row_start[i + 1]; k++) {
            double v = qp->value[k];
            kt2 += v * v * inverse[qp->column[k]];
            g += v * work->free_dv[qp->column[k]];
        }
        work->kt2[i] = kt2;
        work->kt[i] = sqrt(kt2);
        if (qp->equality[i] && g < 0) g = -g;
        work->missed += g > 0;
        if (kt2 > 0 && g > scale * work->kt[i]) scale = g / work->kt[i];
    }
    work->scale = scale;
}

qpc_status qpc_work_init(qpc_work *work, const qpc_qp *qp, const qpc_solver_options *options, qpc_arena *arena,
                         const double *lambda, qpc_error *err) {
    *work = (qpc_work){.qp = qp, .arena = arena, .beyond = options->beyond, .exact = options->exact, .stat_tolerance = options->exact ? STAT_EXACT : STAT_TOLERANCE,
                        .stat_enough = options->exact ? 0 : CLEARLY * options->stat_tolerance};
    qp->sys->left_known = false;
    int32_t n = qp->n, m = qp->m;
    if (QPC_NEVER(n != qp->sys->n || n < 0 || m < 0))
        return qpc_fail(err, QPC_ERR_INTERNAL, "a QP of %d unknowns over a matrix of order %d", n,
                        qp->sys->n);
    int32_t nnz = m > 0 ? qp->row_start[m] : 0;
    // A K that factored has finite pivots, but an infinite entry can hide behind 1/inf = 0.
    int64_t stored;
    const double *values = qpc_linsys_values(qp->sys, &stored);
    if (!all_finite(values, stored))
        return qpc_fail(err, QPC_ERR_NUMERIC, "K is not finite");
    if (!all_finite(qp->b, n)) return qpc_fail(err, QPC_ERR_NUMERIC, "b is not finite");
    if (!all_finite(qp->value, nnz)) return qpc_fail(err, QPC_ERR_NUMERIC, "J is not finite");
    if (!all_finite(qp->c, m)) return qpc_fail(err, QPC_ERR_NUMERIC, "c is not finite");
    if (!all_finite(lambda, m))
        return qpc_fail(err, QPC_ERR_NUMERIC, "the warm start is not finite");
    work->free_dv = qpc_arena_array(arena, (size_t)n, sizeof(double));
    work->kt2 = qpc_arena_array(arena, (size_t)m, sizeof(double));
    work->kt = qpc_arena_array(arena, (size_t)m, sizeof(double));
    double *inverse = qpc_arena_array(arena, (size_t)n, sizeof(double)); // of diag(K)
    work->rough = !qp->sys->factored && qp->sys->blocks != NULL;
    double *Kx = work->rough ? qpc_arena_array(arena, (size_t)n, sizeof(double)) : inverse;
    if (work->free_dv == NULL || work->kt2 == NULL || work->kt == NULL || inverse == NULL || Kx == NULL)
        return QPC_SOLVER_MEMORY(err, work);
    for (int32_t i = 0; i < n; i++) {
        double d = qp->sys->diagonal[i];
        inverse[i] = 1 / d;
        if (!(d > 0 && isfinite(inverse[i])))
            return qpc_fail(err, QPC_ERR_NUMERIC, "K has diagonal %g at row %d", d, i);
    }
    if (work->rough) // a step has several QPs of one K and b
        qpc_linsys_solve_like_last(qp->sys, qp->b, FREE_TOLERANCE, work->free_dv);
    else
        qpc_linsys_solve(qp->sys, qp->b, work->free_dv);
    measure_free(work, inverse, Kx);
    if (work->rough && work->missed == 0) { // it may be the answer
        double digits = options->exact ? 0 : FREE_DIGITS * options->stat_tolerance;
        const double *guess = options->start != NULL ? options->start : work->free_dv;
        work->rough = false;
        qpc_linsys_solve_roughly(qp->sys, qp->b, guess, fmax(digits, FREE_EXACT), 0, work->free_dv);
        measure_free(work, inverse, Kx);
    }
    if (!isfinite(work->free_norm))
        return qpc_fail(err, QPC_ERR_NUMERIC, "K^-1 b is not finite: K lost definiteness");
    return QPC_OK;
}

/// |r|_{D^-1} with the D of the masses, at least |r|_{K^-1} (T49); HUGE_VAL: it is not known.
static double left_at_most(const qpc_linsys *sys, const double *r) {
    double square = 0;
    if (sys->least == NULL) return HUGE_VAL;
    for (int32_t i = 0; i < sys->n; i++) square += r[i] * r[i] / sys->least[i];
    return sqrt(square);
}

/// |r|_{K^-1}, or where K has no factor a bound that is clearly enough, or roughly (z, kept for a certificate).
static double measure_left(const qpc_work *work, bool unsure, double scale, const double *r, double *z) {
    qpc_linsys *sys = work->qp->sys;
    double most = unsure ? left_at_most(sys, r) : HUGE_VAL, square = 0;
    if (most <= work->stat_enough * scale) return most;
    qpc_linsys_solve_roughly(sys, r, NULL, work->stat_tolerance, 0, z);
    for (int32_t i = 0; i < sys->n; i++) square += r[i] * z[i];
    if (unsure) memcpy(sys->left, z, (size_t)sys->n * sizeof *z);
    sys->left_known = unsure;
    return (unsure ? UNSURE : 1) * sqrt(fabs(square));
}

qpc_residuals qpc_work_residuals(const qpc_work *work, const double *x, const double *lambda,
                                 double *r, double *z) {
    const qpc_qp *qp = work->qp;
    // Without a factor by what a certificate can know of S and |r| then: as strict as that.
    bool unsure = !qp->sys->factored && qp->sys->blocks != NULL;
    qpc_residuals out = {.scale = unsure || work->exact ? fmax(work->free_norm, 1e-140) : work->scale};
    qpc_linsys_multiply(qp->sys, x, r);
    double x2 = 0, comp = 0;
    for (int32_t i = 0; i < qp->n; i++) {
        x2 += x[i] * r[i];
        r[i] -= qp->b[i];
    }
    if (x2 > out.scale * out.scale) out.scale = sqrt(x2);
    for (int32_t i = 0; i < qp->m; i++) {
        double s = qp->c[i] - qpc_row_dot(qp, i, x);
        double natural, violation;
        if (lambda[i] != 0) qpc_row_add(qp, i, lambda[i], r);
        comp += fabs(lambda[i] * s);
        if (qp->equality[i]) {
            natural = violation = fabs(s);
        } else {
            double l = lambda[i] * work->kt2[i];
            natural = fabs(s < l ? s : l);
            violation = s < 0 ? -s : 0;
        }
        if (natural > out.natural) out.natural = natural;
        // An empty row cannot be helped by any x: it counts in m/s only.
        if (work->kt2[i] > 0 && violation > out.prim * work->kt[i])
            out.prim = violation / work->kt[i];
    }
    out.stat = measure_left(work, unsure, out.scale, r, z) / out.scale;
    out.prim /= out.scale;
    out.comp = comp / (out.scale * out.scale);
    if (!isfinite(x2)) out.stat = out.natural = DBL_MAX;
    return out;
}

bool qpc_work_accepts(const qpc_residuals *residuals, const qpc_solver_options *options,
                      double margin) {
    // Written so that a NaN is refused.
    if (!(residuals->natural <= margin * options->residual_tolerance)) return false;
    if (!(residuals->stat <= margin * options->stat_tolerance)) return false;
    if (!options->exact) return true;
    return residuals->stat <= margin * 1e-9 && residuals->prim <= margin * 1e-9 &&
           residuals->comp <= margin * 1e-12;
}

/// x = K^-1 (b - J'lambda).
static void motion_of(const qpc_work *work, const double *lambda, double *load, double *x) {
    const qpc_qp *qp = work->qp;
    for (int32_t i = 0; i < qp->n; i++) load[i] = qp->b[i];
    for (int32_t i = 0; i < qp->m; i++)
        if (lambda[i] != 0) qpc_row_add(qp, i, -lambda[i], load);
    qpc_linsys_solve(qp->sys, load, x);
}

void qpc_work_best_between(const qpc_work *work, const double *start, double *x, double *lambda, double *r, double *rows) {
    const qpc_qp *qp = work->qp;
    // q(l) = -1/2 (b - J'l)'K^-1 (b - J'l) - c'l has the gradient J x(l) - c, which is linear along the way: two of its slopes tell the top.
    double low = 0, high = 0;
    motion_of(work, start, r, x);
    for (int32_t i = 0; i < qp->m; i++) {
        rows[i] = lambda[i] - start[i];
        low += rows[i] * (qpc_row_dot(qp, i, x) - qp->c[i]);
    }
    motion_of(work, lambda, r, x);
    for (int32_t i = 0; i < qp->m; i++) high += rows[i] * (qpc_row_dot(qp, i, x) - qp->c[i]);
    if (high >= 0) return; // it rises all the way
    double part = low > 0 ? low / (low - high) : 0;
    for (int32_t i = 0; i < qp->m; i++) lambda[i] = part > 0 ? start[i] + part * rows[i] : start[i];
    motion_of(work, lambda, r, x);
}

int32_t qpc_work_active(const qpc_qp *qp, const double *lambda) {
    int32_t active = 0;
    for (int32_t i = 0; i < qp->m; i++) active += qp->equality[i] || lambda[i] > 0;
    return active;
}

void qpc_report_add(qpc_solver_report *sum, const qpc_solver_report *one) {
    qpc_solver_report last = *one;
    last.iterations += sum->iterations;
    last.restored += sum->restored;
    last.adds += sum->adds;
    last.drops += sum->drops;
    last.exchanges += sum->exchanges;
    last.rebuilds += sum->rebuilds;
    last.factorizations += sum->factorizations;
    last.cg_steps += sum->cg_steps;
    last.solves += sum->solves;
    last.fell_back |= sum->fell_back;
    *sum = last;
}
