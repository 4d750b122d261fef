/// Proofs that rows contradict, found from the rows alone: nonnegative least squares (Lawson &
/// Hanson) over the directions L^-1 J_i' / kappa_i with the weights summing to one, in extended
/// precision.
#include "tools/qp_score.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

typedef struct nnls {
    int32_t length, count; // of a column, of columns
    long double *column;   // (count x length), the last element c_i / kappa_i in some unit
    long double *basis;    // (count x length) orthonormal, of the columns in use
    long double *R;        // (count x count) upper triangle of their QR
    long double *y, *trial, *residual;
    int32_t *used, used_count;
    int32_t ready; // of the columns in use, those that basis and R hold
} nnls;

static long double dot(int32_t n, const long double *a, const long double *b) {
    long double s = 0;
    for (int32_t i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}

/// Least squares over the columns in use by Gram-Schmidt, twice; target: 0, ..., 0, -1. Columns that were there
/// before keep their part of the basis.
static void solve_used(nnls *p) {
    int32_t n = p->length, count = p->used_count;
    for (int32_t k = p->ready; k < count; k++) {
        long double *v = p->basis + (size_t)k * n;
        memcpy(v, p->column + (size_t)p->used[k] * n, (size_t)n * sizeof *v);
        for (int32_t i = 0; i < k; i++) p->R[i * p->count + k] = 0;
        for (int pass = 0; pass < 2; pass++)
            for (int32_t i = 0; i < k; i++) {
                const long double *q = p->basis + (size_t)i * n;
                long double h = dot(n, q, v);
                p->R[i * p->count + k] += h;
                for (int32_t j = 0; j < n; j++) v[j] -= h * q[j];
            }
        long double norm = sqrtl(dot(n, v, v));
        p->R[k * p->count + k] = norm > 0 ? norm : 1;
        for (int32_t j = 0; j < n; j++) v[j] /= norm > 0 ? norm : 1;
    }
    p->ready = count;
    for (int32_t k = 0; k < count; k++) p->trial[k] = -p->basis[(size_t)k * n + n - 1];
    for (int32_t k = count - 1; k >= 0; k--) {
        for (int32_t i = k + 1; i < count; i++) p->trial[k] -= p->R[k * p->count + i] * p->trial[i];
        p->trial[k] /= p->R[k * p->count + k];
    }
}

static void find_residual(nnls *p) {
    int32_t n = p->length;
    for (int32_t j = 0; j < n; j++) p->residual[j] = j == n - 1 ? -1 : 0;
    for (int32_t c = 0; c < p->count; c++) {
        if (p->y[c] == 0) continue;
        const long double *v = p->column + (size_t)c * n;
        for (int32_t j = 0; j < n; j++) p->residual[j] -= p->y[c] * v[j];
    }
}

/// Move y towards the trial until it would turn negative; what is zero then leaves. False: it is
/// there.
static bool step_back(nnls *p) {
    long double part = 1;
    int32_t blocker = -1, kept = 0;
    for (int32_t k = 0; k < p->used_count; k++) {
        long double now = p->y[p->used[k]];
        if (p->trial[k] > 0 || (blocker >= 0 && now / (now - p->trial[k]) >= part)) continue;
        part = now > 0 ? now / (now - p->trial[k]) : 0;
        blocker = k;
    }
    for (int32_t k = 0; k < p->used_count; k++) {
        int32_t c = p->used[k];
        p->y[c] += part * (p->trial[k] - p->y[c]);
        if (k == blocker || p->y[c] <= 0) {
            p->y[c] = 0;
            if (p->ready > kept) p->ready = kept;
        } else
            p->used[kept++] = c;
    }
    p->used_count = kept;
    return blocker >= 0;
}

static void run(nnls *p) {
    for (int32_t turn = 0; turn < 10 * p->count; turn++) {
        find_residual(p);
        int32_t best = -1;
        long double steepest = 1e-17L;
        for (int32_t c = 0; c < p->count; c++) {
            bool in = p->y[c] != 0;
            for (int32_t k = 0; k < p->used_count && !in; k++) in = p->used[k] == c;
            long double slope =
                in ? 0 : dot(p->length, p->column + (size_t)c * p->length, p->residual);
            if (slope > steepest) {
                steepest = slope;
                best = c;
            }
        }
        if (best < 0) return;
        p->used[p->used_count++] = best;
        do solve_used(p);
        while (step_back(p));
    }
}

/// Weights of the rows as columns of p say, and what they prove.
static void prove(const qp_ground *g, const nnls *p, const int32_t *row, const double *sign,
                  double *work, qp_conflict *ret) {
    const qp_file *f = g->file;
    long double cy = 0, size = 0, total = 0;
    memset(work, 0, (size_t)f->n * sizeof *work);
    long double *left = p->residual; // its length is n + 1
    for (int32_t j = 0; j < f->n; j++) left[j] = 0;
    for (int32_t c = 0; c < p->count; c++) {
        long double y = p->y[c] * sign[c] / g->kappa[row[c]];
        cy += y * f->c[row[c]];
        size += fabsl(y * f->c[row[c]]);
        total += fabsl(y) * g->kappa[row[c]];
        for (int32_t k = f->J.start[row[c]]; k < f->J.start[row[c] + 1]; k++)
            left[f->J.index[k]] += y * f->J.value[k];
    }
    for (int32_t j = 0; j < f->n; j++) work[j] = (double)left[j];
    qp_cholesky_forward(&g->L, 0, work);
    long double norm2 = 0;
    for (int32_t j = 0; j < f->n; j++) norm2 += (long double)work[j] * work[j];
    if (!(total > 0)) return;
    ret->size = (double)(sqrtl(norm2) / total);
    ret->slope = size > 0 ? (double)(cy / size) : 0;
    ret->radius = norm2 > 0 ? (double)(-cy / sqrtl(norm2) / g->scale) : HUGE_VAL;
    ret->holds = ret->size <= 1e-12 && ret->slope < -1e-12 && ret->radius >= 1e3;
}

qpc_status qp_score_conflict(const qp_ground *g, const int32_t *rows, int32_t count,
                             qp_conflict *ret, qpc_error *err) {
    const qp_file *f = g->file;
    *ret = (qp_conflict){.size = HUGE_VAL};
    int32_t columns = 0, most = count;
    for (int32_t i = 0; i < count; i++) {
        if (rows[i] < 0 || rows[i] >= f->m) return QPC_OK; // no such row: no proof
        most += f->type[rows[i]];
    }
    size_t n = (size_t)f->n, k = (size_t)most;
    nnls p = {.length = f->n + 1, .used = qpc_alloc_array(k + 1, sizeof *p.used)};
    long double *wide = qpc_calloc(2 * k * (n + 1) + k * k + 2 * k + n + 1, sizeof *wide);
    double *work = qpc_alloc_array(n, sizeof *work), *sign = qpc_alloc_array(k, sizeof *sign);
    int32_t *row = qpc_alloc_array(k, sizeof *row);
    qpc_status status = QPC_OK;
    if (p.used == NULL || wide == NULL || work == NULL || sign == NULL || row == NULL) {
        status = qpc_fail(err, QPC_ERR_MEMORY, "no memory to judge an answer");
        goto done;
    }
    p.column = wide;
    p.basis = p.column + k * (n + 1);
    p.R = p.basis + k * (n + 1);
    p.y = p.R + k * k;
    p.trial = p.y + k;
    p.residual = p.trial + k;
    double unit = 0;
    for (int32_t i = 0; i < count; i++) unit = fmax(unit, fabs(f->c[rows[i]]) / g->kappa[rows[i]]);
    for (int32_t i = 0; i < count; i++) {
        memset(work, 0, n * sizeof *work);
        for (int32_t e = f->J.start[rows[i]]; e < f->J.start[rows[i] + 1]; e++)
            work[f->J.index[e]] = f->J.value[e];
        qp_cholesky_forward(&g->L, 0, work);
        for (int side = 0; side <= f->type[rows[i]]; side++) { // an equality pulls as well
            long double *v = p.column + (size_t)columns * (n + 1);
            sign[columns] = side == 0 ? 1 : -1;
            row[columns++] = rows[i];
            for (size_t j = 0; j < n; j++) v[j] = sign[columns - 1] * work[j] / g->kappa[rows[i]];
            v[n] = unit > 0 ? sign[columns - 1] * f->c[rows[i]] / g->kappa[rows[i]] / unit : 0;
        }
    }
    p.count = columns;
    run(&p);
    prove(g, &p, row, sign, work, ret);
done:
    qpc_free(p.used);
    qpc_free(wide);
    qpc_free(work);
    qpc_free(sign);
    qpc_free(row);
    return status;
}
