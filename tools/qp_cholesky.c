/// Structure by the elimination tree, then the columns from left to right.
#include "tools/qp_cholesky.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_number(const void *a, const void *b) {
    int32_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/// The rows of column j: those of K and those of its children in the elimination tree.
static int64_t merge_column(qp_cholesky *L, const qp_matrix *K, int32_t j, const int32_t *child,
                            const int32_t *sibling, int32_t *mark) {
    int64_t end = L->start[j];
    for (int32_t k = K->start[j]; k < K->start[j + 1]; k++) {
        L->row[end++] = K->index[k];
        mark[K->index[k]] = j;
    }
    for (int32_t c = child[j]; c >= 0; c = sibling[c]) {
        for (int64_t k = L->start[c] + 1; k < L->start[c + 1]; k++) {
            int32_t i = L->row[k];
            if (mark[i] == j) continue;
            mark[i] = j;
            L->row[end++] = i;
        }
    }
    qsort(L->row + L->start[j], (size_t)(end - L->start[j]), sizeof *L->row, by_number);
    return end;
}

static qpc_status structure(qp_cholesky *L, const qp_matrix *K, qpc_error *err) {
    int32_t n = L->n;
    int64_t room = 0;
    int32_t *child = qpc_alloc_array((size_t)n, sizeof *child);
    int32_t *sibling = qpc_alloc_array((size_t)n, sizeof *sibling);
    int32_t *mark = qpc_alloc_array((size_t)n, sizeof *mark);
    qpc_status status = QPC_OK;
    if (child == NULL || sibling == NULL || mark == NULL)
        status = qpc_fail(err, QPC_ERR_MEMORY, "no memory to factor K");
    for (int32_t j = 0; status == QPC_OK && j < n; j++) child[j] = mark[j] = -1;
    L->start[0] = 0;
    for (int32_t j = 0; status == QPC_OK && j < n; j++) {
        int64_t most = L->start[j] + (n - j); // a column is no longer than what is below
        if (most > room) {
            int64_t bound = 2 * room + n;
            if (L->start[j] > QP_CHOLESKY_MOST) {
                status = qpc_fail(err, QPC_ERR_LIMIT,
                                  "K: its factor has over %d entries in the order of the file",
                                  (int)QP_CHOLESKY_MOST);
                break;
            }
            int32_t *more = qpc_realloc_array(L->row, (size_t)bound, sizeof *more);
            if (more == NULL) {
                status = qpc_fail(err, QPC_ERR_MEMORY, "no memory to factor K");
                break;
            }
            L->row = more;
            room = bound;
        }
        L->start[j + 1] = merge_column(L, K, j, child, sibling, mark);
        if (L->start[j + 1] - L->start[j] > 1) {
            int32_t parent = L->row[L->start[j] + 1];
            sibling[j] = child[parent];
            child[parent] = j;
        }
    }
    qpc_free(child);
    qpc_free(sibling);
    qpc_free(mark);
    return status;
}

/// column -= L_jk L_k for every k < j with an entry in row j; these are kept in lists by that row.
static void apply_columns(const qp_cholesky *L, int32_t j, int64_t *at, int32_t *list,
                          int32_t *next, double *column) {
    for (int32_t k = list[j]; k >= 0;) {
        int32_t following = next[k];
        double ljk = L->value[at[k]];
        for (int64_t p = at[k]; p < L->start[k + 1]; p++) column[L->row[p]] -= ljk * L->value[p];
        if (++at[k] < L->start[k + 1]) {
            int32_t row = L->row[at[k]];
            next[k] = list[row];
            list[row] = k;
        }
        k = following;
    }
}

static qpc_status numbers(qp_cholesky *L, const qp_matrix *K, qpc_error *err) {
    int32_t n = L->n;
    int64_t *at = qpc_alloc_array((size_t)n, sizeof *at);
    int32_t *list = qpc_alloc_array((size_t)n, sizeof *list);
    int32_t *next = qpc_alloc_array((size_t)n, sizeof *next);
    double *column = qpc_calloc((size_t)n, sizeof *column);
    L->value = qpc_alloc_array((size_t)L->start[n], sizeof *L->value);
    qpc_status status = QPC_OK;
    if (at == NULL || list == NULL || next == NULL || column == NULL || L->value == NULL)
        status = qpc_fail(err, QPC_ERR_MEMORY, "no memory to factor K");
    for (int32_t j = 0; status == QPC_OK && j < n; j++) list[j] = -1;
    for (int32_t j = 0; status == QPC_OK && j < n; j++) {
        for (int32_t k = K->start[j]; k < K->start[j + 1]; k++) column[K->index[k]] = K->value[k];
        apply_columns(L, j, at, list, next, column);
        double d = column[j];
        if (!(d > 0 && isfinite(d))) {
            status = qpc_fail(err, QPC_ERR_CORRUPT,
                              "K_x: K is not positive definite at row %d (pivot %g)", j, d);
            break;
        }
        d = sqrt(d);
        for (int64_t p = L->start[j]; p < L->start[j + 1]; p++) {
            int32_t i = L->row[p];
            L->value[p] = i == j ? d : column[i] / d;
            column[i] = 0;
        }
        at[j] = L->start[j] + 1;
        if (at[j] < L->start[j + 1]) {
            int32_t row = L->row[at[j]];
            next[j] = list[row];
            list[row] = j;
        }
    }
    qpc_free(at);
    qpc_free(list);
    qpc_free(next);
    qpc_free(column);
    return status;
}

qpc_status qp_cholesky_init(qp_cholesky *L, int32_t n, const qp_matrix *K, qpc_error *err) {
    *L = (qp_cholesky){.n = n, .start = qpc_alloc_array((size_t)n + 1, sizeof *L->start)};
    qpc_status status =
        L->start == NULL ? qpc_fail(err, QPC_ERR_MEMORY, "no memory to factor K") : QPC_OK;
    if (status == QPC_OK) status = structure(L, K, err);
    if (status == QPC_OK) status = numbers(L, K, err);
    if (status != QPC_OK) qp_cholesky_fini(L);
    return status;
}

void qp_cholesky_fini(qp_cholesky *L) {
    qpc_free(L->start);
    qpc_free(L->row);
    qpc_free(L->value);
    *L = (qp_cholesky){0};
}

void qp_cholesky_forward(const qp_cholesky *L, int32_t from, double *x) {
    for (int32_t j = from; j < L->n; j++) {
        if (x[j] == 0) continue;
        x[j] /= L->value[L->start[j]];
        for (int64_t p = L->start[j] + 1; p < L->start[j + 1]; p++)
            x[L->row[p]] -= L->value[p] * x[j];
    }
}

void qp_cholesky_backward(const qp_cholesky *L, double *x) {
    for (int32_t j = L->n - 1; j >= 0; j--) {
        for (int64_t p = L->start[j] + 1; p < L->start[j + 1]; p++)
            x[j] -= L->value[p] * x[L->row[p]];
        x[j] /= L->value[L->start[j]];
    }
}
