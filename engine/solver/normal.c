/// K + J'DJ: pattern, scatter maps, factor.
///
/// Rows of the same columns that follow one another (the points of one interface, copies) form a
/// group: their sum V'DV is formed densely and scattered once. Narrow groups have a map from each
/// pair of their columns to its place among the values; wide ones find the places column by column,
/// so that dense rows cost no map. Built in time n + nnz(K) + sum of squared group widths. All sums
/// run in a fixed order. Runs on the worker in the world; keeps its own memory from call to call.
#include "engine/solver/normal.h"

#include "engine/dynamics/factor.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

enum {
    WIDE = 48,       // columns from which a group has no map of its own and BLAS forms V'DV
    GROUP_MOST = 96, // rows of a group at most: what the dense block is formed from stays in cache
};

typedef struct group {
    int32_t first, rows, width; // rows: in use[], from `first`
    int64_t map;                // narrow: first of width (width + 1) / 2 places
} group;

struct qpc_normal {
    int32_t n, group_count, widest, most_rows;
    int32_t *row; // rows in use, ascending
    group *groups;
    int32_t *k_place; // (entries of K) places among the values
    int32_t *map;
    int32_t *start, *index; // the lower triangle by columns
    double *value;
    int32_t *place;         // (n) by row of one column
    double *dense, *scaled; // (widest^2), (most_rows x widest)
    qpc_factor *factor;
};

void qpc_normal_destroy(qpc_normal *s) {
    if (s == NULL) return;
    qpc_free(s->row);
    qpc_free(s->groups);
    qpc_free(s->k_place);
    qpc_free(s->map);
    qpc_free(s->start);
    qpc_free(s->index);
    qpc_free(s->value);
    qpc_free(s->place);
    qpc_free(s->dense);
    qpc_free(s->scaled);
    qpc_factor_destroy(s->factor);
    qpc_free(s);
}

/// Where column j of the lower triangle of K is stored: rows from..from + count - 1 (a band), or
/// row[].
static inline int32_t k_column(const qpc_linsys *K, int32_t j, const int32_t **row) {
    if (K->kind == QPC_LINSYS_SPARSE) {
        *row = K->row + K->start[j];
        return K->start[j + 1] - K->start[j];
    }
    *row = NULL;
    return K->n - j <= K->bandwidth ? K->n - j : K->bandwidth + 1;
}

static inline bool same_columns(const qpc_qp *qp, int32_t a, int32_t b) {
    int32_t width = qp->row_start[a + 1] - qp->row_start[a];
    if (width != qp->row_start[b + 1] - qp->row_start[b]) return false;
    return width == 0 || memcmp(qp->column + qp->row_start[a], qp->column + qp->row_start[b],
                                (size_t)width * sizeof(int32_t)) == 0;
}

/// Rows in use and their groups; rows without entries are left out.
static int64_t make_groups(qpc_normal *s, const qpc_qp *qp, const uint8_t *use) {
    int32_t count = 0;
    int64_t map = 0;
    for (int32_t i = 0; i < qp->m; i++) {
        int32_t width = qp->row_start[i + 1] - qp->row_start[i];
        if (width == 0 || (use != NULL && !use[i])) continue;
        group *last = s->group_count > 0 ? &s->groups[s->group_count - 1] : NULL;
        s->row[count] = i;
        if (last != NULL && last->rows < GROUP_MOST && same_columns(qp, s->row[last->first], i)) {
            last->rows++;
        } else {
            s->groups[s->group_count++] =
                (group){.first = count, .rows = 1, .width = width, .map = map};
            if (width < WIDE) map += (int64_t)width * (width + 1) / 2;
            if (width > s->widest) s->widest = width;
        }
        count++;
    }
    for (int32_t g = 0; g < s->group_count; g++)
        if (s->groups[g].rows > s->most_rows) s->most_rows = s->groups[g].rows;
    return map;
}

/// Groups by column: of[first[j] .. first[j + 1]) are those with an entry there, at[] its number.
static qpc_status groups_by_column(const qpc_normal *s, const qpc_qp *qp, int32_t **ret_first,
                                   int32_t **ret_of, int32_t **ret_at) {
    int64_t total = 0;
    for (int32_t g = 0; g < s->group_count; g++) total += s->groups[g].width;
    int32_t *first = qpc_calloc((size_t)s->n + 2, sizeof *first);
    int32_t *of = qpc_alloc_array((size_t)total, sizeof *of);
    int32_t *at = qpc_alloc_array((size_t)total, sizeof *at);
    if (first == NULL || of == NULL || at == NULL) {
        qpc_free(first);
        qpc_free(of);
        qpc_free(at);
        return QPC_ERR_MEMORY;
    }
    for (int32_t g = 0; g < s->group_count; g++) {
        const int32_t *column = qp->column + qp->row_start[s->row[s->groups[g].first]];
        for (int32_t a = 0; a < s->groups[g].width; a++) first[column[a] + 2]++;
    }
    for (int32_t j = 0; j < s->n; j++) first[j + 2] += first[j + 1];
    for (int32_t g = 0; g < s->group_count; g++) {
        const int32_t *column = qp->column + qp->row_start[s->row[s->groups[g].first]];
        for (int32_t a = 0; a < s->groups[g].width; a++) {
            int32_t place = first[column[a] + 1]++;
            of[place] = g;
            at[place] = a;
        }
    }
    *ret_first = first;
    *ret_of = of;
    *ret_at = at;
    return QPC_OK;
}

typedef struct builder {
    qpc_normal *s;
    const qpc_qp *qp;
    const int32_t *first, *of, *at; // groups by column
} builder;

/// Distinct rows >= j of column j into list (unless NULL), in no order; their number.
static int32_t gather(const builder *b, int32_t j, int32_t *list) {
    qpc_normal *s = b->s;
    const int32_t *row;
    int32_t count = 0, in_k = k_column(b->qp->sys, j, &row);
    for (int32_t k = 0; k < in_k; k++) {
        int32_t i = row != NULL ? row[k] : j + k;
        s->place[i] = j;
        if (list != NULL) list[count] = i;
        count++;
    }
    for (int32_t k = b->first[j]; k < b->first[j + 1]; k++) {
        const group *g = &s->groups[b->of[k]];
        const int32_t *column = b->qp->column + b->qp->row_start[s->row[g->first]];
        for (int32_t a = b->at[k] + 1; a < g->width; a++) {
            int32_t i = column[a];
            if (s->place[i] == j) continue;
            s->place[i] = j;
            if (list != NULL) list[count] = i;
            count++;
        }
    }
    return count;
}

/// The pattern, sorted: gathered by columns, turned to rows, and back to columns.
static qpc_status make_pattern(builder *b, qpc_error *err) {
    qpc_normal *s = b->s;
    int32_t n = s->n;
    int64_t total = 0;
    for (int32_t j = 0; j < n; j++) s->place[j] = -1;
    for (int32_t j = 0; j < n; j++) {
        s->start[j] = (int32_t)total;
        total += gather(b, j, NULL);
        if (total > INT32_MAX)
            return qpc_fail(err, QPC_ERR_LIMIT,
                            "the normal equations of %d unknowns have 2^31 entries or more", n);
    }
    s->start[n] = (int32_t)total;
    s->index = qpc_alloc_array((size_t)total, sizeof *s->index);
    s->value = qpc_alloc_array((size_t)total, sizeof *s->value);
    int32_t *column = qpc_alloc_array((size_t)total, sizeof *column);
    int32_t *next = qpc_calloc((size_t)n + 2, sizeof *next);
    qpc_status st = QPC_OK;
    if (s->index == NULL || s->value == NULL || column == NULL || next == NULL) {
        st = QPC_ERR_MEMORY;
        goto out;
    }
    for (int32_t j = 0; j < n; j++) s->place[j] = -1;
    for (int32_t j = 0; j < n; j++) gather(b, j, s->index + s->start[j]);
    for (int64_t k = 0; k < total; k++) next[s->index[k] + 2]++;
    for (int32_t i = 0; i < n; i++) next[i + 2] += next[i + 1];
    for (int32_t j = 0; j < n; j++)
        for (int32_t k = s->start[j]; k < s->start[j + 1]; k++) column[next[s->index[k] + 1]++] = j;
    memcpy(s->place, s->start, (size_t)n * sizeof *s->place);
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = next[i]; k < next[i + 1]; k++) s->index[s->place[column[k]]++] = i;
out:
    qpc_free(column);
    qpc_free(next);
    return st;
}

/// place[i] = where row i of column j stands.
static inline void look_up(const qpc_normal *s, int32_t j) {
    for (int32_t k = s->start[j]; k < s->start[j + 1]; k++) s->place[s->index[k]] = k;
}

static void make_maps(const builder *b) {
    const qpc_normal *s = b->s;
    int64_t at_k = 0;
    for (int32_t j = 0; j < s->n; j++) {
        look_up(s, j);
        const int32_t *row;
        int32_t in_k = k_column(b->qp->sys, j, &row);
        for (int32_t k = 0; k < in_k; k++)
            s->k_place[at_k++] = s->place[row != NULL ? row[k] : j + k];
        for (int32_t k = b->first[j]; k < b->first[j + 1]; k++) {
            const group *g = &s->groups[b->of[k]];
            if (g->width >= WIDE) continue;
            // Pairs of a group by columns: (0,0) (1,0) .. (w-1,0) (1,1) ..
            const int32_t *column = b->qp->column + b->qp->row_start[s->row[g->first]];
            int64_t a = b->at[k], w = g->width;
            int32_t *map = s->map + g->map + a * w - a * (a - 1) / 2 - a;
            for (int64_t c = a; c < w; c++) map[c] = s->place[column[c]];
        }
    }
}

qpc_status qpc_normal_create(const qpc_qp *qp, const uint8_t *use, qpc_normal **ret,
                             qpc_error *err) {
    size_t n = (size_t)qp->n, m = (size_t)qp->m;
    int32_t *first = NULL, *of = NULL, *at = NULL;
    int64_t k_entries;
    (void)qpc_linsys_values(qp->sys, &k_entries);
    qpc_status st = QPC_ERR_MEMORY;
    qpc_normal *s = qpc_calloc(1, sizeof *s);
    if (s == NULL) goto out;
    s->n = qp->n;
    s->row = qpc_alloc_array(m, sizeof *s->row);
    s->groups = qpc_alloc_array(m, sizeof *s->groups);
    s->start = qpc_alloc_array(n + 1, sizeof *s->start);
    s->place = qpc_alloc_array(n, sizeof *s->place);
    s->k_place = qpc_alloc_array((size_t)k_entries, sizeof *s->k_place);
    if (s->row == NULL || s->groups == NULL || s->start == NULL || s->place == NULL ||
        s->k_place == NULL)
        goto out;
    int64_t map = make_groups(s, qp, use);
    size_t widest = (size_t)s->widest, most = (size_t)s->most_rows;
    s->map = qpc_alloc_array((size_t)map, sizeof *s->map);
    s->dense = qpc_alloc_array(widest * widest, sizeof *s->dense);
    s->scaled = qpc_alloc_array(most * widest, sizeof *s->scaled);
    if (s->map == NULL || s->dense == NULL || s->scaled == NULL) goto out;
    st = groups_by_column(s, qp, &first, &of, &at);
    if (st != QPC_OK) goto out;
    builder b = {.s = s, .qp = qp, .first = first, .of = of, .at = at};
    st = make_pattern(&b, err);
    if (st != QPC_OK) goto out;
    make_maps(&b);
    st = qpc_factor_create(qp->n, s->start, s->index, &s->factor, err);
out:
    qpc_free(first);
    qpc_free(of);
    qpc_free(at);
    if (st == QPC_OK) {
        *ret = s;
        return QPC_OK;
    }
    qpc_normal_destroy(s);
    if (st != QPC_ERR_MEMORY) return st;
    return qpc_fail(err, QPC_ERR_MEMORY,
                    "out of memory for the normal equations of %d unknowns and %d rows", qp->n,
                    qp->m);
}

/// The group's rows of weight other than zero, times the root of it; their number.
static int32_t scale_rows(const qpc_normal *s, const qpc_qp *qp, const group *g,
                          const double *weight) {
    int32_t rows = 0;
    for (int32_t r = 0; r < g->rows; r++) {
        int32_t i = s->row[g->first + r];
        if (weight[i] == 0) continue;
        double root = sqrt(weight[i]), *out = s->scaled + (int64_t)rows++ * g->width;
        const double *v = qp->value + qp->row_start[i];
        for (int32_t a = 0; a < g->width; a++) out[a] = root * v[a];
    }
    return rows;
}

static void add_narrow(qpc_normal *s, const qpc_qp *qp, const group *g, const double *weight) {
    int32_t w = g->width;
    const int32_t *map = s->map + g->map;
    if (g->rows == 1) {
        int32_t i = s->row[g->first];
        const double *v = qp->value + qp->row_start[i];
        if (weight[i] == 0) return;
        for (int32_t a = 0; a < w; a++) {
            double t = weight[i] * v[a];
            for (int32_t c = a; c < w; c++) s->value[*map++] += t * v[c];
        }
        return;
    }
    int32_t rows = scale_rows(s, qp, g, weight);
    if (rows == 0) return;
    double sum[WIDE];
    for (int32_t a = 0; a < w; a++) {
        for (int32_t c = a; c < w; c++) sum[c] = 0;
        for (int32_t r = 0; r < rows; r++) {
            const double *v = s->scaled + (int64_t)r * w;
            double t = v[a];
            for (int32_t c = a; c < w; c++) sum[c] += t * v[c];
        }
        for (int32_t c = a; c < w; c++) s->value[*map++] += sum[c];
    }
}

static void add_wide(qpc_normal *s, const qpc_qp *qp, const group *g, const double *weight) {
    int32_t w = g->width, rows = scale_rows(s, qp, g, weight);
    const int32_t *column = qp->column + qp->row_start[s->row[g->first]];
    if (rows == 0) return;
    cblas_dsyrk(CblasRowMajor, CblasUpper, CblasTrans, w, rows, 1, s->scaled, w, 0, s->dense, w);
    for (int32_t a = 0; a < w; a++) {
        int32_t j = column[a];
        const double *sum = s->dense + (int64_t)a * w;
        if (s->start[j + 1] - s->start[j] == s->n - j) { // a full column needs no looking up
            double *out = s->value + s->start[j] - j;
            for (int32_t c = a; c < w; c++) out[column[c]] += sum[c];
        } else {
            look_up(s, j);
            for (int32_t c = a; c < w; c++) s->value[s->place[column[c]]] += sum[c];
        }
    }
}

qpc_status qpc_normal_factor(qpc_normal *s, const qpc_qp *qp, const double *weight,
                             qpc_error *err) {
    const qpc_linsys *K = qp->sys;
    if (QPC_NEVER(qp->n != s->n))
        return qpc_fail(err, QPC_ERR_INTERNAL, "normal equations of another size");
    if (s->start[s->n] > 0) memset(s->value, 0, (size_t)s->start[s->n] * sizeof *s->value);
    int64_t at_k = 0;
    for (int32_t j = 0; j < s->n; j++) {
        const int32_t *row;
        int32_t in_k = k_column(K, j, &row);
        const double *value = row != NULL
                                  ? K->value + K->start[j]
                                  : K->band + (int64_t)j * (K->bandwidth + 1) + K->bandwidth;
        int64_t step = row != NULL ? 1 : K->bandwidth; // down a column of the band
        for (int32_t k = 0; k < in_k; k++) s->value[s->k_place[at_k++]] = value[k * step];
    }
    for (int32_t k = 0; k < s->group_count; k++) {
        const group *g = &s->groups[k];
        if (g->width < WIDE)
            add_narrow(s, qp, g, weight);
        else
            add_wide(s, qp, g, weight);
    }
    double finite = 0; // a sum of zeros times what is finite
    for (int32_t k = 0; k < s->start[s->n]; k++) finite += 0 * s->value[k];
    if (finite != 0) return qpc_fail(err, QPC_ERR_NUMERIC, "the normal equations are not finite");
    return qpc_factor_refill(s->factor, s->value, NULL, err);
}

qpc_status qpc_normal_solve(qpc_normal *s, const double *rhs, double *x, qpc_error *err) {
    return qpc_factor_solve(s->factor, rhs, x, 1, err);
}

double qpc_normal_operations(const qpc_normal *s) {
    return qpc_factor_operations(s->factor);
}

double qpc_normal_entries(const qpc_normal *s) {
    return qpc_factor_entries(s->factor);
}
