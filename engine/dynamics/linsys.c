/// The two storages of K behind one set of calls. Runs on the worker in the world; no state.
#include "engine/dynamics/linsys.h"

#include "base/mem.h"
#include "engine/dynamics/blas.h"
#include "engine/dynamics/blocks.h"
#include "engine/dynamics/dense.h"
#include "engine/dynamics/factor.h"
#include "engine/dynamics/ssor.h"

#include <math.h>
#include <string.h>

enum {
    NARROW = 8,       // half bandwidth that is banded for any n
    DENSE_MOST = 400, // unknowns
    COLUMNS_AT_ONCE = 32,
    CG_MOST = 2000,
};
static const double CG_TOLERANCE = 1e-14;
static const double STIFFEST = 4e6; // K_ii over the masses from which single precision has two bits of those at most: no conjugate gradients
static const double ROUND = 1e-4, HALT = 0.5; // of a round: what it aims at; the least it must bring
// Measured, ns: a multiply-add of the banded and the dense code, an operation and a row of CHOLMOD's;
// below QUICK nothing better is looked for.
static const double BAND_NS = 0.23, DENSE_NS = 0.06, DENSE_START = 1000, CHOLMOD_NS = 0.2, CHOLMOD_ROW_NS = 30,
                    QUICK = 3e4, SOLVES = 64; // a factor is made for some dozens of these

static void drop_sparse(qpc_linsys *sys) {
    qpc_free(sys->start);
    qpc_free(sys->row);
    qpc_free(sys->value);
    qpc_free(sys->work);
    qpc_factor_destroy(sys->sparse);
    qpc_blocks_destroy(sys->blocks);
    qpc_free(sys->free);
    sys->blocks = NULL;
    sys->free = sys->left = sys->cg = NULL;
    sys->guessed = sys->left_known = false;
    sys->start = sys->row = NULL;
    sys->value = sys->work = NULL;
    sys->sparse = NULL;
}

qpc_status qpc_linsys_resize(qpc_linsys *sys, int32_t n, int32_t bandwidth, qpc_error *err) {
    if (n < 0 || bandwidth < 0)
        return qpc_fail(err, QPC_ERR_INVALID, "matrix of order %d and half bandwidth %d", n,
                        bandwidth);
    if (n > 0 && bandwidth > n - 1) bandwidth = n - 1;
    int64_t want = (int64_t)n * (bandwidth + 1) + n; // the diagonal fits behind either array
    if (want > sys->capacity) {
        double *band = qpc_alloc_array((size_t)want, sizeof *band);
        double *factor = qpc_alloc_array((size_t)want, sizeof *factor);
        double *diagonal = qpc_alloc_array((size_t)want, sizeof *diagonal);
        if (band == NULL || factor == NULL || diagonal == NULL) {
            qpc_free(band);
            qpc_free(factor);
            qpc_free(diagonal);
            return qpc_fail(err, QPC_ERR_MEMORY,
                            "out of memory for a matrix of order %d, half bandwidth %d", n,
                            bandwidth);
        }
        qpc_free(sys->band);
        qpc_free(sys->factor);
        qpc_free(sys->diagonal);
        sys->band = band;
        sys->factor = factor;
        sys->diagonal = diagonal;
        sys->capacity = want;
    }
    drop_sparse(sys);
    sys->kind = QPC_LINSYS_BAND;
    sys->n = n;
    sys->bandwidth = bandwidth;
    qpc_linsys_clear(sys);
    return QPC_OK;
}

static bool pattern_is_good(int32_t n, const int32_t *start, const int32_t *row) {
    if (start[0] != 0) return false;
    for (int32_t j = 0; j < n; j++) {
        if (start[j + 1] <= start[j] || row[start[j]] != j) return false;
        for (int32_t k = start[j] + 1; k < start[j + 1]; k++)
            if (row[k] <= row[k - 1] || row[k] >= n) return false;
    }
    return true;
}

static qpc_status make_blocks(qpc_linsys *sys, const int32_t *start, const int32_t *row, const uint8_t *inside, qpc_error *err) {
    qpc_status st = qpc_blocks_create(sys->n, start, row, inside, &sys->blocks, err);
    if (st != QPC_OK) return st;
    // Two guesses of the callers'; CG's right-hand side, its solution, their sum and the product with that, and its own
    int32_t count = sys->blocks->count;
    sys->free = qpc_alloc_array(qpc_ssor_size(sys->blocks, false, 0) + 18 * (size_t)count, sizeof *sys->cg);
    sys->left = sys->free != NULL ? sys->free + 3 * (size_t)count : NULL;
    sys->cg = sys->free != NULL ? sys->left + 3 * (size_t)count : NULL;
    if (sys->free != NULL) return QPC_OK;
    return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for conjugate gradients of order %d", sys->n);
}

/// Which factor, and memory for it; sys->work is scratch.
static qpc_status choose_method(qpc_linsys *sys, const int32_t *start, const int32_t *row, const uint8_t *inside, qpc_error *err) {
    int32_t n = sys->n;
    double *first = sys->work, envelope = 0;
    for (int32_t i = 0; i < n; i++) first[i] = i;
    for (int32_t j = n - 1; j >= 0; j--) {
        for (int32_t k = start[j]; k < start[j + 1]; k++) first[row[k]] = j;
        if (row[start[j + 1] - 1] - j > sys->width) sys->width = row[start[j + 1] - 1] - j;
    }
    for (int32_t i = 0; i < n; i++) envelope += 0.5 * (i - first[i]) * (i - first[i]);
    double band = BAND_NS * envelope, dense = DENSE_START + DENSE_NS / 6 * n * (double)n * n;
    double band_solve = 2 * BAND_NS * n * (double)sys->width, dense_solve = 2 * DENSE_NS * n * (double)n;
    bool fits = (double)n * (sys->width + 1) <= 8 * envelope + 64 * (double)n; // no long way to a few entries
    if (!fits) band = HUGE_VAL;
    if (n > DENSE_MOST) dense = HUGE_VAL;
    double least = band < dense ? band : dense;
    sys->method = band < dense ? QPC_LINSYS_BY_BAND : QPC_LINSYS_BY_DENSE;
    if (!(fits && sys->width <= NARROW) && !(least <= QUICK)) {
        qpc_status st = qpc_factor_create(n, start, row, &sys->sparse, err);
        if (st != QPC_OK) return st;
        double cholmod = CHOLMOD_NS * qpc_factor_operations(sys->sparse) + CHOLMOD_ROW_NS * n;
        double cholmod_solve = 2 * CHOLMOD_NS * qpc_factor_entries(sys->sparse);
        least += SOLVES * (band < dense ? band_solve : dense_solve);
        if (cholmod + SOLVES * cholmod_solve < least) {
            sys->method = QPC_LINSYS_BY_CHOLMOD;
            sys->operations = qpc_factor_operations(sys->sparse);
            return make_blocks(sys, start, row, inside, err);
        }
        qpc_factor_destroy(sys->sparse);
        sys->sparse = NULL;
    }
    qpc_blas_one_thread();
    sys->operations = sys->method == QPC_LINSYS_BY_BAND ? 2 * envelope : (double)n * n * n / 3;
    if (sys->method == QPC_LINSYS_BY_BAND && sys->width > NARROW && band > QUICK) {
        qpc_status st = make_blocks(sys, start, row, inside, err);
        if (st != QPC_OK) return st;
    }
    size_t order = (size_t)n, stride = sys->method == QPC_LINSYS_BY_BAND ? (size_t)sys->width + 1 : order;
    sys->factor = qpc_alloc_array(order, stride * sizeof *sys->factor);
    if (sys->factor == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for the factor of a matrix of order %d", n);
    return QPC_OK;
}

qpc_status qpc_linsys_resize_sparse(qpc_linsys *sys, int32_t n, const int32_t *start, const int32_t *row,
                                    qpc_error *err) {
    return qpc_linsys_resize_soft(sys, n, start, row, NULL, err);
}

qpc_status qpc_linsys_resize_soft(qpc_linsys *sys, int32_t n, const int32_t *start, const int32_t *row, const uint8_t *inside,
                                  qpc_error *err) {
    if (n < 0 || !pattern_is_good(n, start, row))
        return qpc_fail(err, QPC_ERR_INVALID,
                        "a pattern of order %d must have columns with ascending rows, the diagonal first", n);
    size_t count = (size_t)start[n], order = (size_t)n;
    qpc_linsys fresh = {.kind = QPC_LINSYS_SPARSE, .n = n};
    fresh.start = qpc_alloc_array(order + 1, sizeof *fresh.start);
    fresh.row = qpc_alloc_array(count, sizeof *fresh.row);
    fresh.value = qpc_alloc_array(count, sizeof *fresh.value);
    fresh.diagonal = qpc_alloc_array(order, sizeof *fresh.diagonal);
    fresh.work = qpc_alloc_array(order, QPC_LINSYS_BLOCK * sizeof *fresh.work);
    qpc_status st = QPC_OK;
    if (fresh.start == NULL || fresh.row == NULL || fresh.value == NULL || fresh.diagonal == NULL || fresh.work == NULL)
        st = qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a matrix of order %d with %zu entries", n, count);
    if (st == QPC_OK) st = choose_method(&fresh, start, row, inside, err);
    if (st != QPC_OK) {
        qpc_linsys_fini(&fresh);
        return st;
    }
    memcpy(fresh.start, start, (order + 1) * sizeof *start);
    if (count > 0) memcpy(fresh.row, row, count * sizeof *row);
    qpc_linsys_fini(sys);
    *sys = fresh;
    qpc_linsys_clear(sys);
    return QPC_OK;
}

void qpc_linsys_fini(qpc_linsys *sys) {
    if (sys == NULL) return;
    drop_sparse(sys);
    qpc_free(sys->band);
    qpc_free(sys->factor);
    qpc_free(sys->diagonal);
    memset(sys, 0, sizeof *sys);
}

void qpc_linsys_clear(qpc_linsys *sys) {
    sys->factored = sys->prepared = false;
    int64_t count;
    const double *value = qpc_linsys_values(sys, &count);
    if (count > 0) memset((sys->kind == QPC_LINSYS_BAND ? sys->band : sys->value), 0, (size_t)count * sizeof *value);
}

const double *qpc_linsys_values(const qpc_linsys *sys, int64_t *ret_count) {
    if (sys->kind == QPC_LINSYS_BAND) {
        *ret_count = (int64_t)sys->n * (sys->bandwidth + 1);
        return sys->band;
    }
    *ret_count = sys->start[sys->n];
    return sys->value;
}

double *qpc_linsys_entry(qpc_linsys *sys, int32_t i, int32_t j) {
    if (sys->kind == QPC_LINSYS_BAND) {
        if (i - j > sys->bandwidth) return NULL;
        return &sys->band[(int64_t)i * (sys->bandwidth + 1) + (j - i + sys->bandwidth)];
    }
    int32_t low = sys->start[j], high = sys->start[j + 1];
    while (high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        if (sys->row[middle] <= i)
            low = middle;
        else
            high = middle;
    }
    return sys->row[low] == i ? &sys->value[low] : NULL;
}

static qpc_status not_positive(int32_t bad, qpc_error *err) {
    if (bad < 0) return QPC_OK;
    return qpc_fail(err, QPC_ERR_NUMERIC, "K is not positive definite and finite at row %d (node %d)", bad,
                    bad / 3);
}

void qpc_linsys_prepare(qpc_linsys *sys) {
    if (sys->prepared) return;
    int32_t stride = sys->bandwidth + 1;
    for (int32_t i = 0; i < sys->n; i++)
        sys->diagonal[i] = sys->kind == QPC_LINSYS_SPARSE ? sys->value[sys->start[i]]
                                                          : sys->band[(int64_t)i * stride + sys->bandwidth];
    if (sys->blocks != NULL) qpc_blocks_refill(sys->blocks, sys->start, sys->row, sys->value);
    for (int32_t i = 0; sys->blocks != NULL && sys->least != NULL && i < sys->n; i++)
        if (sys->diagonal[i] > STIFFEST * sys->least[i]) sys->blocks->definite = false;
    sys->prepared = true;
}

static qpc_status factor_sparse(qpc_linsys *sys, qpc_error *err) {
    int32_t n = sys->n, w = sys->width;
    if (sys->method == QPC_LINSYS_BY_CHOLMOD) {
        // CHOLMOD compares pivots with zero only, which lets NaN and infinity through.
        for (int32_t j = 0; j < n; j++) {
            double sum = 0;
            for (int32_t k = sys->start[j]; k < sys->start[j + 1]; k++) sum += 0 * sys->value[k];
            if (!(sum == 0)) return not_positive(j, err);
        }
        qpc_status st = qpc_factor_refill(sys->sparse, sys->value, NULL, err);
        if (st != QPC_OK || sys->solvable) return st;
        // Its solves take their memory now: later they have nobody to tell that there is none.
        if (n > 0) memset(sys->work, 0, (size_t)n * QPC_LINSYS_BLOCK * sizeof *sys->work);
        st = qpc_factor_solve(sys->sparse, sys->work, sys->work, 1, err);
        if (st == QPC_OK) st = qpc_factor_solve(sys->sparse, sys->work, sys->work, QPC_LINSYS_BLOCK, err);
        sys->solvable = st == QPC_OK;
        return st;
    }
    bool dense = sys->method == QPC_LINSYS_BY_DENSE;
    if (n > 0) memset(sys->factor, 0, (size_t)n * (dense ? (size_t)n : (size_t)w + 1) * sizeof *sys->factor);
    for (int32_t j = 0; j < n; j++) {
        // K[i][j] is at place[i * stride]
        double *place = sys->factor + (dense ? (int64_t)j * n : w + j);
        int64_t stride = dense ? 1 : w;
        for (int32_t k = sys->start[j]; k < sys->start[j + 1]; k++) place[sys->row[k] * stride] = sys->value[k];
    }
    if (dense) return not_positive(qpc_dense_factor(n, sys->factor), err);
    return not_positive(qpc_band_factor(n, w, sys->factor, sys->factor, 0), err);
}

static qpc_status factor_as_band(qpc_linsys *sys, qpc_error *err) {
    return not_positive(qpc_band_factor(sys->n, sys->bandwidth, sys->band, sys->factor, 0), err);
}

qpc_status qpc_linsys_factor(qpc_linsys *sys, qpc_error *err) {
    sys->factorizations++;
    sys->prepared = false;
    qpc_linsys_prepare(sys);
    qpc_status st = sys->kind == QPC_LINSYS_SPARSE ? factor_sparse(sys, err) : factor_as_band(sys, err);
    sys->factored = st == QPC_OK;
    return st;
}

qpc_status qpc_linsys_ensure(qpc_linsys *sys, qpc_error *err) {
    return sys->factored ? QPC_OK : qpc_linsys_factor(sys, err);
}

static bool by_band(const qpc_linsys *sys, int32_t *ret_width) {
    *ret_width = sys->kind == QPC_LINSYS_BAND ? sys->bandwidth : sys->width;
    return sys->kind == QPC_LINSYS_BAND || sys->method == QPC_LINSYS_BY_BAND;
}

/// x may be rhs. CHOLMOD's solves have their memory since the first factorisation; should one fail all the same, NaN
/// tells whoever looks at the result.
static void solve_columns(qpc_linsys *sys, const double *rhs, double *x, int32_t columns) {
    if (sys->method == QPC_LINSYS_BY_DENSE) {
        if (x != rhs) memcpy(x, rhs, (size_t)sys->n * (size_t)columns * sizeof *x);
        qpc_dense_solve(sys->n, sys->factor, x, columns);
        return;
    }
    if (qpc_factor_solve(sys->sparse, rhs, x, columns, NULL) == QPC_OK) return;
    for (int64_t i = 0; i < (int64_t)sys->n * columns; i++) x[i] = NAN;
}

/// rhs may be x. A round reduces the residual in single precision, the next starts from that in double.
static void solve_by_cg(qpc_linsys *sys, const double *rhs, const double *guess, double tolerance, int32_t most, double *x) {
    int32_t n = sys->n;
    size_t padded = 3 * (size_t)sys->blocks->count;
    double *r = sys->cg, *d = r + padded, *sum = d + padded, *Kx = sum + padded;
    qpc_ssor cg;
    qpc_ssor_init(&cg, sys->blocks, false, 0, Kx + padded);
    bool good = qpc_ssor_prepare(&cg, 0, NULL, NULL, NULL, NULL, NULL);
    memset(r, 0, 3 * padded * sizeof *r);
    memcpy(r, rhs, (size_t)n * sizeof *r);
    double norm = good ? qpc_ssor_start(&cg, r) : (double)NAN, target = tolerance * norm, last = HUGE_VAL;
    if (good && guess != NULL) {
        memcpy(sum, guess, (size_t)n * sizeof *sum);
        qpc_blocks_multiply(sys->blocks, sum, Kx);
        for (int32_t i = 0; i < n; i++) r[i] -= Kx[i];
        norm = qpc_ssor_start(&cg, r);
    }
    while (norm > target && norm < HALT * last && cg.steps < most) {
        last = norm;
        double aim = target > ROUND * norm ? target : ROUND * norm;
        norm = qpc_ssor_solve(&cg, aim, most - (int32_t)cg.steps, d);
        for (int32_t i = 0; i < n; i++) sum[i] += d[i];
        if (cg.lost || aim == target || cg.steps >= most) break;
        qpc_blocks_multiply(sys->blocks, sum, Kx);
        for (int32_t i = 0; i < n; i++) r[i] = rhs[i] - Kx[i];
        norm = qpc_ssor_start(&cg, r);
    }
    sys->cg_steps += (uint64_t)cg.steps;
    memcpy(x, sum, (size_t)n * sizeof *x);
    if (!good || cg.lost || isnan(norm)) // whoever looks at the result is told
        for (int32_t i = 0; i < n; i++) x[i] = NAN;
}

void qpc_linsys_solve_roughly(qpc_linsys *sys, const double *rhs, const double *guess, double tolerance, int32_t most, double *x) {
    if (sys->factored || sys->blocks == NULL) {
        qpc_linsys_solve(sys, rhs, x);
        return;
    }
    qpc_linsys_prepare(sys);
    sys->solves++;
    solve_by_cg(sys, rhs, guess, tolerance, most > 0 ? most : CG_MOST, x);
}

void qpc_linsys_solve_like_last(qpc_linsys *sys, const double *rhs, double tolerance, double *x) {
    double sum = 0;
    qpc_linsys_solve_roughly(sys, rhs, sys->guessed ? sys->free : NULL, tolerance, 0, x);
    for (int32_t i = 0; i < sys->n; i++) sum += 0 * (sys->free[i] = x[i]);
    sys->guessed = sum == 0; // all are finite
}

void qpc_linsys_solve(qpc_linsys *sys, const double *rhs, double *x) {
    int32_t w;
    if (!sys->factored && sys->blocks != NULL) {
        qpc_linsys_solve_roughly(sys, rhs, NULL, CG_TOLERANCE, 0, x);
        return;
    }
    sys->solves++;
    if (!by_band(sys, &w)) {
        solve_columns(sys, rhs, x, 1);
        return;
    }
    if (x != rhs && sys->n > 0) memcpy(x, rhs, (size_t)sys->n * sizeof *x);
    qpc_band_solve(sys->n, w, sys->factor, x);
}

/// Between (n x lanes) by rows and `lanes` columns of n.
static void to_columns(int64_t n, const double *x, double *columns) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < QPC_LINSYS_BLOCK; k++) columns[k * n + i] = x[i * QPC_LINSYS_BLOCK + k];
}

static void to_rows(int64_t n, const double *columns, double *x) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < QPC_LINSYS_BLOCK; k++) x[i * QPC_LINSYS_BLOCK + k] = columns[k * n + i];
}

void qpc_linsys_solve_block(qpc_linsys *sys, double *x) {
    int32_t w;
    if (sys->blocks != NULL && qpc_linsys_ensure(sys, NULL) != QPC_OK) {
        for (int64_t i = 0; i < (int64_t)sys->n * QPC_LINSYS_BLOCK; i++) x[i] = NAN;
        return;
    }
    sys->solves += QPC_LINSYS_BLOCK;
    if (by_band(sys, &w)) {
        qpc_band_solve_block(sys->n, w, sys->factor, x);
        return;
    }
    to_columns(sys->n, x, sys->work);
    solve_columns(sys, sys->work, sys->work, QPC_LINSYS_BLOCK);
    to_rows(sys->n, sys->work, x);
}

qpc_status qpc_linsys_solve_many(qpc_linsys *sys, double *X, int32_t columns, qpc_error *err) {
    int32_t w, done = 0;
    int64_t n = sys->n;
    if (columns <= 0) return QPC_OK;
    if (sys->blocks != NULL) {
        qpc_status st = qpc_linsys_ensure(sys, err);
        if (st != QPC_OK) return st;
    }
    sys->solves += (uint64_t)columns;
    if (!by_band(sys, &w)) {
        if (sys->method == QPC_LINSYS_BY_DENSE) {
            qpc_dense_solve(sys->n, sys->factor, X, columns);
            return QPC_OK;
        }
        for (; done < columns; done += COLUMNS_AT_ONCE) {
            int32_t count = columns - done < COLUMNS_AT_ONCE ? columns - done : COLUMNS_AT_ONCE;
            qpc_status st = qpc_factor_solve(sys->sparse, X + done * n, X + done * n, count, err);
            if (st != QPC_OK) return st;
        }
        return QPC_OK;
    }
    if (sys->work != NULL) { // a banded storage has no such scratch: one by one
        for (; done + QPC_LINSYS_BLOCK <= columns; done += QPC_LINSYS_BLOCK) {
            to_rows(n, X + done * n, sys->work);
            qpc_band_solve_block(sys->n, w, sys->factor, sys->work);
            to_columns(n, sys->work, X + done * n);
        }
    }
    for (; done < columns; done++) qpc_band_solve(sys->n, w, sys->factor, X + done * n);
    return QPC_OK;
}

void qpc_linsys_multiply(const qpc_linsys *sys, const double *x, double *y) {
    if (sys->kind == QPC_LINSYS_BAND) {
        qpc_band_multiply(sys->n, sys->bandwidth, sys->band, x, y);
        return;
    }
    for (int32_t i = 0; i < sys->n; i++) y[i] = 0;
    for (int32_t j = 0; j < sys->n; j++) {
        double xj = x[j], sum = sys->value[sys->start[j]] * xj;
        for (int32_t k = sys->start[j] + 1; k < sys->start[j + 1]; k++) {
            sum += sys->value[k] * x[sys->row[k]];
            y[sys->row[k]] += sys->value[k] * xj;
        }
        y[j] += sum;
    }
}

void qpc_linsys_product(qpc_linsys *sys, const double *x, double *y) {
    if (sys->blocks == NULL) {
        qpc_linsys_multiply(sys, x, y);
        return;
    }
    qpc_linsys_prepare(sys);
    qpc_blocks_multiply(sys->blocks, x, y);
}
