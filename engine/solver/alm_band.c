/// Newton steps of augmented-lagrangian where K is banded.
///
/// Rows whose columns lie within the band of K keep K + J_A'R J_A banded (a cable's contacts);
/// a few rows that reach further (cable on cable) enter by the Woodbury formula on the banded factor,
/// many by a sparse factor of their own (sparse.h). Where the band is wide or the sparse factor would
/// be too full, Woodbury goes on up to FAR_DIRECT of them, then come conjugate gradients preconditioned
/// with the banded part (or, under `auto`, active-set, which is faster there). Runs on the worker in
/// the world; memory from the arena.
#include "engine/solver/alm.h"

#include <math.h>
#include <string.h>

enum {
    FAR_DIRECT = 128, // active rows beyond the band that Woodbury takes
    FAR_MOST = 800,   // up to which active-set beats CG
    FAR_FEW = 12,     // up to which Woodbury beats the sparse factor
    NARROW = 8,       // half bandwidth of K up to which there is one
    SPARSE_MOST = 3000000, // block products a factorisation, 30 ms
};

static bool far_direct(const qpc_alm *s) {
    return s->band.far_count <= FAR_DIRECT;
}

/// R J_i'J_i of a row over `count` unknowns side by side; at: where the first of them has its diagonal in the band.
static inline void add_run(double *at, int64_t stride, double R, const double *value, int count) {
    for (int k = 0; k < count; k++) {
        double v = R * value[k], *row = at + k * (stride - 1);
        for (int l = 0; l <= k; l++) row[l] += v * value[l];
    }
}

/// Factor of K + J_A'R J_A for the present active set. Rows of the matrix above the first unknown
/// of any row that came or went are as they were, and so is their part of the factor.
static bool factor_band(qpc_alm *s) {
    const qpc_qp *qp = s->qp;
    int32_t n = qp->n, w = qp->sys->bandwidth, from = s->band.valid ? n : 0;
    int64_t stride = w + 1;
    for (int32_t i = 0; i < qp->m && s->band.valid; i++) {
        if (s->active[i] == s->factored[i] || s->band.far[i]) continue;
        int32_t first = qp->column[qp->row_start[i]];
        if (first < from) from = first;
    }
    memcpy(s->band.band + from * stride, qp->sys->band + from * stride,
           (size_t)(s->band.size - from * stride) * sizeof(double));
    s->band.far_count = 0;
    for (int32_t i = 0; i < qp->m; i++) {
        s->factored[i] = s->active[i];
        if (!s->active[i]) continue;
        if (s->band.far[i]) {
            s->band.far_row[s->band.far_count++] = i;
            continue;
        }
        int32_t first = qp->row_start[i], last = qp->row_start[i + 1], count = last - first;
        if ((count == 3 || count == 6) && qp->column[first] >= from && qp->column[last - 1] - qp->column[first] == count - 1) {
            double *at = s->band.band + (int64_t)qp->column[first] * stride + w;
            if (count == 3) add_run(at, stride, s->R[i], qp->value + first, 3);
            else add_run(at, stride, s->R[i], qp->value + first, 6);
            continue;
        }
        for (int32_t k = first; k < last; k++) {
            if (qp->column[k] < from) continue;
            double v = s->R[i] * qp->value[k];
            double *row = s->band.band + (int64_t)qp->column[k] * stride + (w - qp->column[k]);
            for (int32_t l = first; l <= k; l++) row[qp->column[l]] += v * qp->value[l];
        }
    }
    s->band.valid = s->have_factor = qpc_band_factor(n, w, s->band.band, s->band.factor, from) < 0;
    if (!s->have_factor) return false;
    if (s->band.hand_over && s->band.far_count > FAR_DIRECT && s->band.far_count <= FAR_MOST) return false;
    if (s->band.far_count == 0 || !far_direct(s)) return true;
    // Y = B^-1 J_far', S = R^-1 + J_far Y = L D L'
    for (int32_t first = 0; first < s->band.far_count; first += QPC_LINSYS_BLOCK) {
        double *block = s->band.Y + (int64_t)first * n;
        memset(block, 0, (size_t)n * QPC_LINSYS_BLOCK * sizeof(double));
        for (int32_t lane = 0; lane < QPC_LINSYS_BLOCK && first + lane < s->band.far_count; lane++) {
            int32_t row = s->band.far_row[first + lane];
            for (int32_t k = qp->row_start[row]; k < qp->row_start[row + 1]; k++)
                block[(int64_t)qp->column[k] * QPC_LINSYS_BLOCK + lane] = qp->value[k];
        }
        qpc_band_solve_block(n, w, s->band.factor, block);
    }
    for (int32_t i = 0; i < s->band.far_count; i++) {
        int32_t row = s->band.far_row[i];
        double *l = s->band.S + (int64_t)i * (i + 1) / 2;
        for (int32_t j = 0; j <= i; j++) {
            const double *y = s->band.Y + (int64_t)(j - j % QPC_LINSYS_BLOCK) * n + j % QPC_LINSYS_BLOCK;
            double sum = 0;
            for (int32_t k = qp->row_start[row]; k < qp->row_start[row + 1]; k++)
                sum += qp->value[k] * y[(int64_t)qp->column[k] * QPC_LINSYS_BLOCK];
            l[j] = sum;
        }
        l[i] += 1 / s->R[row];
        double pivot = l[i];
        for (int32_t j = 0; j < i; j++) {
            const double *above = s->band.S + (int64_t)j * (j + 1) / 2;
            for (int32_t k = 0; k < j; k++) l[j] -= l[k] * above[k];
        }
        for (int32_t j = 0; j < i; j++) {
            double v = l[j] / s->band.S[(int64_t)j * (j + 1) / 2 + j];
            pivot -= v * l[j];
            l[j] = v;
        }
        l[i] = pivot;
        if (!(pivot > 0)) return s->band.valid = s->have_factor = false;
    }
    return true;
}

/// Whether the present active set goes to the sparse factor.
static bool wants_sparse(qpc_alm *s) {
    int32_t far = 0;
    for (int32_t i = 0; i < s->qp->m; i++) far += s->band.far[i] && s->active[i];
    if (far <= FAR_FEW || s->qp->sys->bandwidth > NARROW) return false;
    bool anew = s->band.sparse_fits < 0;
    for (int32_t i = 0; i < s->qp->m; i++) {
        if (!s->band.far[i] || !s->active[i] || s->band.used[i]) continue;
        s->band.used[i] = 1;
        anew |= s->band.sparse_fits > 0 && !qpc_sparse_holds(&s->band.sparse, i);
    }
    if (anew && s->band.sparse_fits != 0) {
        bool fits = false;
        qpc_arena_rewind(s->work->arena, s->band.sparse_from);
        s->no_memory = !qpc_sparse_analyse(&s->band.sparse, s->work->arena, s->qp, s->band.used, SPARSE_MOST, &fits);
        s->band.sparse_fits = fits && !s->no_memory;
    }
    return s->band.sparse_fits > 0;
}

bool qpc_alm_band_factor(qpc_alm *s) {
    s->band.by_sparse = wants_sparse(s);
    if (s->no_memory) return s->have_factor = false;
    if (!s->band.by_sparse) return factor_band(s);
    s->band.valid = false;
    qpc_sparse_load(&s->band.sparse);
    for (int32_t i = 0; i < s->qp->m; i++) {
        s->factored[i] = s->active[i];
        if (s->active[i]) qpc_sparse_add_row(&s->band.sparse, i, s->R[i]);
    }
    return s->have_factor = qpc_sparse_factor(&s->band.sparse);
}

static void far_system_solve(const qpc_alm *s, double *e) {
    for (int32_t i = 0; i < s->band.far_count; i++) {
        const double *l = s->band.S + (int64_t)i * (i + 1) / 2;
        for (int32_t j = 0; j < i; j++) e[i] -= l[j] * e[j];
    }
    for (int32_t i = 0; i < s->band.far_count; i++) e[i] /= s->band.S[(int64_t)i * (i + 1) / 2 + i];
    for (int32_t i = s->band.far_count - 1; i > 0; i--) {
        const double *l = s->band.S + (int64_t)i * (i + 1) / 2;
        for (int32_t j = 0; j < i; j++) e[j] -= l[j] * e[i];
    }
}

/// y = (K + J_A'R J_A) x of the factored set.
static void multiply(const qpc_alm *s, const double *x, double *y) {
    const qpc_qp *qp = s->qp;
    qpc_linsys_multiply(qp->sys, x, y);
    for (int32_t i = 0; i < qp->m; i++)
        if (s->factored[i]) qpc_row_add(qp, i, s->R[i] * qpc_row_dot(qp, i, x), y);
}

/// d = (K + J_A'R J_A)^-1 rhs; rhs is kept.
void qpc_alm_band_solve(qpc_alm *s, const double *rhs, double *d) {
    const qpc_qp *qp = s->qp;
    int32_t n = qp->n, w = qp->sys->bandwidth;
    qp->sys->solves++;
    if (s->band.by_sparse) {
        qpc_sparse_solve(&s->band.sparse, rhs, d);
        return;
    }
    memcpy(d, rhs, (size_t)n * sizeof(double));
    qpc_band_solve(n, w, s->band.factor, d);
    if (s->band.far_count == 0) return;
    if (far_direct(s)) {
        for (int32_t i = 0; i < s->band.far_count; i++) s->band.e[i] = qpc_row_dot(qp, s->band.far_row[i], d);
        far_system_solve(s, s->band.e);
        for (int32_t i = 0; i < s->band.far_count; i++) {
            const double *y = s->band.Y + (int64_t)(i - i % QPC_LINSYS_BLOCK) * n + i % QPC_LINSYS_BLOCK;
            for (int32_t k = 0; k < n; k++) d[k] -= y[(int64_t)k * QPC_LINSYS_BLOCK] * s->band.e[i];
        }
        return;
    }
    // Preconditioned CG from the banded solution.
    double *r = s->band.cg, *p = s->band.cg + n, *q = s->band.cg + 2 * (int64_t)n, *z = s->t;
    multiply(s, d, q);
    double norm0 = 0, rz = 0;
    for (int32_t i = 0; i < n; i++) {
        r[i] = rhs[i] - q[i];
        norm0 += rhs[i] * d[i];
    }
    for (int32_t step = 0; step < 4 * s->band.far_count + 40; step++) {
        memcpy(z, r, (size_t)n * sizeof(double));
        qpc_band_solve(n, w, s->band.factor, z);
        qp->sys->solves++;
        double last = rz;
        rz = 0;
        for (int32_t i = 0; i < n; i++) rz += r[i] * z[i];
        if (!(rz > 1e-22 * fabs(norm0))) break;
        double beta = step > 0 ? rz / last : 0;
        for (int32_t i = 0; i < n; i++) p[i] = z[i] + (step > 0 ? beta * p[i] : 0);
        multiply(s, p, q);
        double pq = 0;
        for (int32_t i = 0; i < n; i++) pq += p[i] * q[i];
        if (!(pq > 0)) break;
        double alpha = rz / pq;
        for (int32_t i = 0; i < n; i++) {
            d[i] += alpha * p[i];
            r[i] -= alpha * q[i];
        }
    }
}

bool qpc_alm_band_allocate(qpc_alm *s, qpc_arena *arena) {
    const qpc_qp *qp = s->qp;
    size_t n = (size_t)qp->n, m = (size_t)qp->m;
    s->band.size = (int64_t)qp->n * (qp->sys->bandwidth + 1);
    uint8_t *flags = qpc_arena_array(arena, 2 * m, 1);
    s->band.band = qpc_arena_array(arena, (size_t)s->band.size, sizeof(double));
    s->band.factor = qpc_arena_array(arena, (size_t)s->band.size, sizeof(double));
    if (flags == NULL || s->band.band == NULL || s->band.factor == NULL) return false;
    s->band.far = flags;
    s->band.used = flags + m;
    s->band.sparse_fits = -1;
    for (int32_t i = 0; i < qp->m; i++) {
        int32_t first = qp->row_start[i], last = qp->row_start[i + 1];
        s->band.far[i] = last > first && qp->column[last - 1] - qp->column[first] > qp->sys->bandwidth;
        s->band.far_rows += s->band.far[i];
    }
    if (s->band.far_rows == 0) return true;
    size_t direct = s->band.far_rows < FAR_DIRECT ? (size_t)s->band.far_rows : FAR_DIRECT;
    size_t blocks = (direct + QPC_LINSYS_BLOCK - 1) / QPC_LINSYS_BLOCK;
    s->band.far_row = qpc_arena_array(arena, (size_t)s->band.far_rows, sizeof(int32_t));
    s->band.Y = qpc_arena_array(arena, blocks * QPC_LINSYS_BLOCK * n, sizeof(double));
    s->band.S = qpc_arena_array(arena, direct * (direct + 1) / 2, sizeof(double));
    s->band.e = qpc_arena_array(arena, direct, sizeof(double));
    s->band.cg = qpc_arena_array(arena, s->band.far_rows > FAR_DIRECT ? 3 * n : 0, sizeof(double));
    s->band.sparse_from = qpc_arena_get_mark(arena); // nothing is taken from the arena behind it
    return s->band.far_row != NULL && s->band.Y != NULL && s->band.S != NULL && s->band.e != NULL && s->band.cg != NULL;
}

void qpc_alm_band_renew(qpc_alm *s) {
    s->band.valid = false;
    if (s->band.far_rows == 0) return;
    for (int32_t i = 0; i < s->qp->m; i++) s->band.used[i] = !s->band.far[i]; // the stage finds its own rows
    if (s->band.sparse_fits > 0) s->band.sparse_fits = -1;
}
