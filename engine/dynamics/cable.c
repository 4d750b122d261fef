/// Springs: energy, forces, and the clamped Jacobian of K and b. No state; any thread.
///
/// A spring of length zero has no direction: it gives no force and no stiffness for that step (its
/// ends are apart again as soon as anything else moves them).
#include "engine/dynamics/cable.h"

#include "base/mem.h"
#include "base/vec.h"

#include <stdlib.h>
#include <string.h>

/// Length l and direction n (from node i to node j); n = 0 for a spring of no length.
static qpc_vec3 direction(const double *x, int32_t i, int32_t j, double *ret_length) {
    qpc_vec3 d = v3_sub(v3_load(x + 3 * (int64_t)j), v3_load(x + 3 * (int64_t)i));
    double l = v3_norm(d);
    *ret_length = l;
    return l > 0 ? v3_scale(1 / l, d) : v3(0, 0, 0);
}

double qpc_springs_energy(const qpc_springs *springs, const double *x) {
    double sum = 0;
    for (int32_t s = 0; s < springs->count; s++) {
        int32_t i = springs->node[s], j = qpc_springs_other(springs, s);
        double l = v3_norm(v3_sub(v3_load(x + 3 * (int64_t)j), v3_load(x + 3 * (int64_t)i)));
        double stretch = l - springs->rest_length[s];
        sum += 0.5 * springs->stiffness[s] * stretch * stretch;
    }
    return sum;
}

/// Limits are kept up to a slack: none of this is stored or pulls before that.
static double past_limit(const qpc_springs *springs, int32_t s, double length) {
    if (springs->most == NULL) return 0;
    double over = length - springs->most[s] * (1 + QPC_LIMIT_SLACK), under = length - springs->least[s] * (1 - QPC_LIMIT_SLACK);
    return over > 0 ? over : under < 0 ? under : 0;
}

double qpc_springs_past_limit(const qpc_springs *springs, int32_t s, const double *x) {
    double l;
    direction(x, springs->node[s], qpc_springs_other(springs, s), &l);
    return past_limit(springs, s, l);
}

/// N/m of a limit that gives way.
static double limit_stiffness(const qpc_springs *springs, int32_t s) {
    return QPC_LIMIT_STIFFNESS * (springs->base != NULL ? springs->base : springs->stiffness)[s];
}

double qpc_springs_limit_energy(const qpc_springs *springs, const double *x, bool giving) {
    double sum = 0;
    if (springs->most == NULL || (giving && springs->giving == NULL)) return 0;
    for (int32_t s = 0; s < springs->count; s++) {
        if (giving && springs->giving[s] == 0) continue;
        double past = qpc_springs_past_limit(springs, s, x);
        sum += 0.5 * limit_stiffness(springs, s) * past * past;
    }
    return sum;
}

double qpc_springs_limit_force(const qpc_springs *springs, int32_t s, const double *x) {
    if (springs->giving == NULL || springs->giving[s] == 0) return 0;
    return limit_stiffness(springs, s) * qpc_springs_past_limit(springs, s, x);
}

static inline void pull_together(double *f, int32_t i, int32_t j, qpc_vec3 pull) {
    double *fi = f + 3 * (int64_t)i, *fj = f + 3 * (int64_t)j;
    v3_store(fi, v3_add(v3_load(fi), pull));
    v3_store(fj, v3_sub(v3_load(fj), pull));
}

void qpc_springs_force(const qpc_springs *springs, const double *x, double *f) {
    for (int32_t s = 0; s < springs->count; s++) {
        int32_t i = springs->node[s], j = qpc_springs_other(springs, s);
        double l;
        qpc_vec3 n = direction(x, i, j, &l);
        pull_together(f, i, j, v3_scale(springs->stiffness[s] * (l - springs->rest_length[s]), n));
    }
}

void qpc_springs_add_limit_forces(const qpc_springs *springs, const double *x, double *f) {
    for (int32_t s = 0; s < springs->count && springs->most != NULL; s++) {
        int32_t i = springs->node[s], j = qpc_springs_other(springs, s);
        double l;
        qpc_vec3 n = direction(x, i, j, &l);
        pull_together(f, i, j, v3_scale(limit_stiffness(springs, s) * past_limit(springs, s, l), n));
    }
}

void qpc_springs_tension(const qpc_springs *springs, const double *x, double *ret) {
    for (int32_t s = 0; s < springs->count; s++) {
        double l;
        direction(x, springs->node[s], qpc_springs_other(springs, s), &l);
        ret[s] = springs->stiffness[s] * (l - springs->rest_length[s]);
    }
}

// ---- the Jacobian ----

static void add_to_band(qpc_linsys *K, int32_t i, int32_t j, double dt2, double h[3][3]) {
    for (int32_t a = 0; a < 3; a++) {
        for (int32_t b = 0; b <= a; b++) {
            qpc_linsys_add(K, i + a, i + b, dt2 * h[a][b]);
            qpc_linsys_add(K, j + a, j + b, dt2 * h[a][b]);
        }
        for (int32_t b = 0; b < 3; b++) qpc_linsys_add(K, j + a, i + b, -dt2 * h[a][b]);
    }
}

/// The same where j is i + 3 and the half bandwidth 5: every place is known from row i on.
static void add_to_cable(double *row, double dt2, double h[3][3]) {
    enum { STRIDE = 6, DIAGONAL = 5 };
    for (int32_t a = 0; a < 3; a++) {
        double *ri = row + a * STRIDE + DIAGONAL - a, *rj = ri + 3 * STRIDE;
        for (int32_t b = 0; b < 3; b++) {
            double v = dt2 * h[a][b];
            if (b <= a) {
                ri[b] += v;
                rj[b] += v;
            }
            rj[b - 3] += -v;
        }
    }
}

/// The lower triangle by columns; place: where block (j, i) begins below the diagonal block of i.
static void add_to_columns(qpc_linsys *K, int32_t i, int32_t j, int32_t place, double dt2, double h[3][3]) {
    for (int32_t b = 0; b < 3; b++) {
        double *at_i = K->value + K->start[i + b], *at_j = K->value + K->start[j + b];
        for (int32_t a = b; a < 3; a++) {
            double v = dt2 * h[a][b];
            at_i[a - b] += v;
            at_j[a - b] += v;
        }
        double *below = at_i + (3 - b) + place;
        for (int32_t a = 0; a < 3; a++) below[a] -= dt2 * h[a][b];
    }
}

void qpc_springs_add(const qpc_springs *springs, int32_t s, qpc_linsys *K, double factor, double h[3][3]) {
    int32_t i = 3 * springs->node[s], j = 3 * qpc_springs_other(springs, s);
    if (springs->place != NULL) add_to_columns(K, i, j, springs->place[s], factor, h);
    else if (K->bandwidth == 5 && j == i + 3) add_to_cable(K->band + (int64_t)i * 6, factor, h);
    else add_to_band(K, i, j, factor, h);
}

void qpc_springs_stiffness(const qpc_springs *springs, const double *x, const double *v, double dt,
                           qpc_linsys *K, double *Hv) {
    qpc_springs_linearise(springs, x, v, dt, K, NULL, Hv);
}

void qpc_springs_linearise(const qpc_springs *springs, const double *x, const double *v, double dt,
                           qpc_linsys *K, double *f, double *Hv) {
    double dt2 = dt * dt;
    for (int32_t s = 0; s < springs->count; s++) {
        double k = springs->stiffness[s], l;
        if (!(k > 0) && (springs->giving == NULL || springs->giving[s] == 0)) continue; // of a sheet: shell.h
        int32_t node = springs->node[s], other = qpc_springs_other(springs, s);
        qpc_vec3 n = direction(x, node, other, &l);
        if (!(l > 0)) continue;
        double pull = k * (l - springs->rest_length[s]);
        double across = (1 - springs->rest_length[s] / l) * k;
        if (springs->giving != NULL && springs->giving[s] != 0) {
            double past = past_limit(springs, s, l), stiff = past != 0 ? limit_stiffness(springs, s) : 0;
            pull += stiff * past;
            across += stiff * past / l;
            k += stiff;
        }
        if (f != NULL) pull_together(f, node, other, v3_scale(pull, n));
        across = across > 0 ? across : 0;
        // H = along n n' + across I
        double along = k - across;
        double h[3][3] = {
            {along * n.x * n.x + across, along * n.x * n.y, along * n.x * n.z},
            {along * n.y * n.x, along * n.y * n.y + across, along * n.y * n.z},
            {along * n.z * n.x, along * n.z * n.y, along * n.z * n.z + across},
        };
        int32_t i = 3 * node, j = 3 * other;
        qpc_springs_add(springs, s, K, dt2, h);
        const double *vi = v + i, *vj = v + j;
        double d[3] = {vi[0] - vj[0], vi[1] - vj[1], vi[2] - vj[2]};
        for (int32_t a = 0; a < 3; a++) {
            double t = h[a][0] * d[0] + h[a][1] * d[1] + h[a][2] * d[2];
            Hv[i + a] += t;
            Hv[j + a] -= t;
        }
    }
}

// ---- the pattern ----

static int by_value(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/// upper[first[i] .. end[i]): the nodes above i that a spring joins to it, ascending, each once.
static void gather(const qpc_springs *springs, int32_t node_count, int32_t *first, int32_t *end, int32_t *upper) {
    memset(first, 0, ((size_t)node_count + 1) * sizeof *first);
    for (int32_t s = 0; s < springs->count; s++) first[springs->node[s] + 1]++;
    for (int32_t i = 0; i < node_count; i++) first[i + 1] += first[i];
    for (int32_t i = 0; i < node_count; i++) end[i] = first[i];
    for (int32_t s = 0; s < springs->count; s++) upper[end[springs->node[s]]++] = qpc_springs_other(springs, s);
    for (int32_t i = 0; i < node_count; i++) {
        int32_t *list = upper + first[i], count = end[i] - first[i], kept = 0;
        qsort(list, (size_t)count, sizeof *list, by_value);
        for (int32_t k = 0; k < count; k++)
            if (k == 0 || list[k] != list[k - 1]) list[kept++] = list[k];
        end[i] = first[i] + kept;
    }
}

/// Columns of node i: its own block, then the blocks of the nodes above it.
static void write_columns(int32_t node_count, const int32_t *first, const int32_t *end, const int32_t *upper, int32_t *start,
                          int32_t *row) {
    int32_t at = 0;
    start[0] = 0;
    for (int32_t i = 0; i < node_count; i++)
        for (int32_t b = 0; b < 3; b++) {
            for (int32_t a = b; a < 3; a++) row[at++] = 3 * i + a;
            for (int32_t k = first[i]; k < end[i]; k++)
                for (int32_t a = 0; a < 3; a++) row[at++] = 3 * upper[k] + a;
            start[3 * i + b + 1] = at;
        }
}

qpc_status qpc_springs_pattern(const qpc_springs *springs, int32_t node_count, int32_t **ret_start, int32_t **ret_row,
                               int32_t *place, qpc_error *err) {
    size_t n = (size_t)node_count;
    int32_t *first = qpc_alloc_array(n + 1, sizeof *first), *end = qpc_alloc_array(n + 1, sizeof *end);
    int32_t *upper = qpc_alloc_array((size_t)springs->count + 1, sizeof *upper), *start = NULL, *row = NULL;
    int64_t entries = 6 * (int64_t)node_count;
    qpc_status st = QPC_OK;
    if (first == NULL || end == NULL || upper == NULL) goto memory;
    gather(springs, node_count, first, end, upper);
    for (int32_t i = 0; i < node_count; i++) entries += 9 * (int64_t)(end[i] - first[i]);
    if (entries > INT32_MAX) {
        st = qpc_fail(err, QPC_ERR_LIMIT, "a matrix of %lld entries is too large", (long long)entries);
        goto done;
    }
    start = qpc_alloc_array(3 * n + 1, sizeof *start);
    row = qpc_alloc_array((size_t)entries + 1, sizeof *row);
    if (start == NULL || row == NULL) goto memory;
    write_columns(node_count, first, end, upper, start, row);
    for (int32_t s = 0; s < springs->count; s++) {
        int32_t i = springs->node[s], j = qpc_springs_other(springs, s), low = first[i], high = end[i];
        while (high - low > 1) {
            int32_t middle = low + (high - low) / 2;
            if (upper[middle] <= j) low = middle;
            else high = middle;
        }
        place[s] = 3 * (low - first[i]);
    }
    *ret_start = start;
    *ret_row = row;
    start = row = NULL;
    goto done;
memory:
    st = qpc_fail(err, QPC_ERR_MEMORY, "no memory for a matrix over %d nodes", node_count);
done:
    qpc_free(first);
    qpc_free(end);
    qpc_free(upper);
    qpc_free(start);
    qpc_free(row);
    return st;
}
