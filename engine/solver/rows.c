/// Rows J dv <= c from contacts, strain limits and fixed points (docs/theory-rows.md, T20 to T28).
///
/// Every row is first gathered as (node, vector) pairs; nodes that occur twice are merged, known
/// nodes are left to c, and the columns come out increasing. Runs on the worker in the world.
#include "engine/solver/rows.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

void qpc_rows_clear(qpc_rows *rows) {
    rows->m = 0;
    rows->nnz = 0;
    if (rows->row_start != NULL) rows->row_start[0] = 0;
}

void qpc_rows_fini(qpc_rows *rows) {
    if (rows == NULL) return;
    qpc_free(rows->row_start);
    qpc_free(rows->column);
    qpc_free(rows->value);
    qpc_free(rows->c);
    qpc_free(rows->lambda);
    qpc_free(rows->equality);
    qpc_free(rows->priority);
    qpc_free(rows->kind);
    qpc_free(rows->key);
    qpc_free(rows->source);
    qpc_free(rows->order);
    memset(rows, 0, sizeof *rows);
}

static bool grow(void *array, int64_t count, size_t size) {
    void *old;
    memcpy(&old, array, sizeof old);
    void *p = qpc_realloc_array(old, (size_t)count, size);
    if (p == NULL) return false;
    memcpy(array, &p, sizeof p);
    return true;
}

/// Room for `rows_more` rows and `nnz_more` entries. A failure part-way leaves larger arrays
/// behind, which is harmless: the capacities are raised last.
static qpc_status reserve(qpc_rows *rows, int32_t rows_more, int32_t nnz_more, qpc_error *err) {
    int64_t want = (int64_t)rows->m + rows_more;
    if (want > rows->m_capacity) {
        int64_t to = 2 * (int64_t)rows->m_capacity + 64;
        if (to < want) to = want;
        bool fresh = rows->row_start == NULL;
        if (to >= INT32_MAX || !grow(&rows->row_start, to + 1, sizeof *rows->row_start) ||
            !grow(&rows->c, to, sizeof *rows->c) ||
            !grow(&rows->lambda, to, sizeof *rows->lambda) ||
            !grow(&rows->equality, to, sizeof *rows->equality) ||
            !grow(&rows->priority, to, sizeof *rows->priority) ||
            !grow(&rows->kind, to, sizeof *rows->kind) ||
            !grow(&rows->key, to, sizeof *rows->key) ||
            !grow(&rows->source, to, sizeof *rows->source) ||
            !grow(&rows->order, to, sizeof *rows->order)) {
            if (fresh && rows->row_start != NULL) rows->row_start[0] = 0;
            return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for %lld rows", (long long)want);
        }
        if (fresh) rows->row_start[0] = 0;
        rows->m_capacity = (int32_t)to;
    }
    want = (int64_t)rows->nnz + nnz_more;
    if (want > rows->nnz_capacity) {
        int64_t to = 2 * (int64_t)rows->nnz_capacity + 768;
        if (to < want) to = want;
        if (to >= INT32_MAX || !grow(&rows->column, to, sizeof *rows->column) ||
            !grow(&rows->value, to, sizeof *rows->value))
            return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for %lld row entries",
                            (long long)want);
        rows->nnz_capacity = (int32_t)to;
    }
    return QPC_OK;
}

typedef struct term { // coefficient of one node's three velocities
    int32_t dof;
    qpc_vec3 a;
} term;

/// Append a row; terms are merged by node and sorted here. Room is there already.
static void push(qpc_rows *rows, term *terms, int32_t count, double c, qpc_row_kind kind,
                 uint8_t priority, uint64_t key, int32_t source) {
    for (int32_t i = 1; i < count; i++) { // eight as a rule, two a point of a tendon: insertion sort
        term t = terms[i];
        int32_t k = i;
        for (; k > 0 && terms[k - 1].dof > t.dof; k--) terms[k] = terms[k - 1];
        terms[k] = t;
    }
    int32_t at = rows->nnz;
    for (int32_t i = 0; i < count; i++) {
        qpc_vec3 a = terms[i].a;
        while (i + 1 < count && terms[i + 1].dof == terms[i].dof) a = v3_add(a, terms[++i].a);
        const double part[3] = {a.x, a.y, a.z};
        for (int32_t k = 0; k < 3; k++) {
            if (part[k] == 0) continue;
            rows->column[at] = terms[i].dof + k;
            rows->value[at++] = part[k];
        }
    }
    int32_t row = rows->m++;
    rows->nnz = at;
    rows->row_start[row + 1] = at;
    rows->c[row] = c;
    rows->lambda[row] = 0;
    rows->equality[row] = kind == QPC_ROW_FIXED;
    rows->priority[row] = priority;
    rows->kind[row] = (uint8_t)kind;
    rows->key[row] = key;
    rows->source[row] = source;
}

static qpc_status check_node(const qpc_row_frame *frame, int32_t node, const char *what,
                             qpc_error *err) {
    if (node >= 0 && node < frame->node_count) return QPC_OK;
    return qpc_fail(err, QPC_ERR_INTERNAL, "%s of a row uses node %d, there are %d", what, node,
                    frame->node_count);
}

qpc_status qpc_rows_add_contact(qpc_rows *rows, const qpc_row_frame *frame,
                                const qpc_contact *contact, double separation, double gap_floor,
                                int32_t source, qpc_error *err) {
    qpc_vec3 n = contact->n, apart = v3(0, 0, 0), opening = v3(0, 0, 0);
    term terms[8];
    int32_t count = 0;
    for (int32_t k = 0; k < QPC_CONTACT_NODES; k++) {
        int32_t node = contact->node[k];
        double w = contact->weight[k];
        if (w == 0) continue;
        qpc_status status = check_node(frame, node, "a contact", err);
        if (status != QPC_OK) return status;
        apart = v3_madd(apart, w, v3_load(frame->x + 3 * (int64_t)node));
        opening = v3_madd(opening, w, v3_load(frame->v + 3 * (int64_t)node));
        if (frame->dof[node] >= 0) terms[count++] = (term){frame->dof[node], v3_scale(-w, n)};
        if (frame->turn != NULL && frame->turn[node] >= 0)
            terms[count++] = (term){frame->turn[node], v3_cross(v3_load(frame->arm + 3 * (int64_t)node), v3_scale(-w, n))};
    }
    // T21: -n.(sum w dv) <= (g - separation)/dt + n.(sum w v)
    double gap = v3_dot(n, apart) - contact->offset - separation;
    if (gap < gap_floor) gap = gap_floor;
    double c = gap / frame->dt + v3_dot(n, opening);
    if (!isfinite(c) || !v3_finite(n))
        return qpc_fail(err, QPC_ERR_NUMERIC, "a contact row is not finite (key %016llx)",
                        (unsigned long long)contact->key);
    qpc_status status = reserve(rows, 1, 24, err);
    if (status != QPC_OK) return status;
    push(rows, terms, count, c, QPC_ROW_CONTACT, 1, contact->key, source);
    return QPC_OK;
}

qpc_status qpc_rows_add_strain(qpc_rows *rows, const qpc_row_frame *frame, int32_t node, int32_t other,
                               qpc_vec3 n, bool maximum, double limit, uint64_t key, int32_t source,
                               qpc_error *err) {
    qpc_status status = check_node(frame, node, "a spring", err);
    if (status == QPC_OK) status = check_node(frame, other, "a spring", err);
    if (status != QPC_OK) return status;
    int64_t at = 3 * (int64_t)node, to = 3 * (int64_t)other;
    qpc_vec3 d = v3_sub(v3_load(frame->x + at), v3_load(frame->x + to));
    qpc_vec3 u = v3_sub(v3_load(frame->v + at), v3_load(frame->v + to));
    // T26, T27: sign (dv_i - dv_j).n <= sign ((limit - l)/dt - (v_i - v_j).n), l along n
    double sign = maximum ? 1 : -1;
    double c = sign * ((limit - v3_dot(n, d)) / frame->dt - v3_dot(n, u));
    if (!isfinite(c) || !v3_finite(n))
        return qpc_fail(err, QPC_ERR_NUMERIC, "the strain row of nodes %d and %d is not finite",
                        node, other);
    status = reserve(rows, 1, 6, err);
    if (status != QPC_OK) return status;
    term terms[2];
    int32_t count = 0;
    if (frame->dof[node] >= 0) terms[count++] = (term){frame->dof[node], v3_scale(sign, n)};
    if (frame->dof[other] >= 0)
        terms[count++] = (term){frame->dof[other], v3_scale(-sign, n)};
    push(rows, terms, count, c, maximum ? QPC_ROW_STRAIN_MAX : QPC_ROW_STRAIN_MIN, 2, key, source);
    return QPC_OK;
}

qpc_status qpc_rows_add_fixed(qpc_rows *rows, const qpc_row_frame *frame, int32_t node,
                              qpc_vec3 target_velocity, qpc_error *err) {
    qpc_status status = check_node(frame, node, "a fixed point", err);
    if (status != QPC_OK) return status;
    if (frame->dof[node] < 0)
        return qpc_fail(err, QPC_ERR_INTERNAL, "node %d has no unknowns to fix", node);
    qpc_vec3 change = v3_sub(target_velocity, v3_load(frame->v + 3 * (int64_t)node));
    if (!v3_finite(change))
        return qpc_fail(err, QPC_ERR_NUMERIC, "the target velocity of node %d is not finite", node);
    status = reserve(rows, 3, 3, err);
    if (status != QPC_OK) return status;
    const qpc_vec3 axis[3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    const double part[3] = {change.x, change.y, change.z};
    for (int32_t k = 0; k < 3; k++) { // T28: e_a.dv = target_a - v_a
        term t = {frame->dof[node], axis[k]};
        uint64_t key = 0xF000000000000000U | ((uint64_t)(uint32_t)node << 2) | (uint64_t)k;
        push(rows, &t, 1, part[k], QPC_ROW_FIXED, 0, key, node);
    }
    return QPC_OK;
}

qpc_status qpc_rows_add_joint(qpc_rows *rows, const qpc_row_frame *frame, int32_t count, const qpc_row_point *points,
                              const qpc_vec3 *a, const qpc_vec3 *more, double gap, bool equality, uint64_t key, int32_t source, qpc_error *err) {
    enum { NODES = 4 };
    term terms[NODES * QPC_ROW_POINTS];
    int32_t used = 0;
    double c = -gap / frame->dt; // TJ1
    if (count > QPC_ROW_POINTS) return qpc_fail(err, QPC_ERR_INTERNAL, "a joint of %d points", count);
    for (int32_t p = 0; p < count; p++) {
        qpc_vec3 arm = v3(0, 0, 0);
        int32_t turning = -1;
        for (int32_t k = 0; k < NODES && points[p].node[k] >= 0; k++) {
            int32_t node = points[p].node[k];
            double w = points[p].weight[k];
            qpc_status status = check_node(frame, node, "a joint", err);
            if (status != QPC_OK) return status;
            c -= w * v3_dot(a[p], v3_load(frame->v + 3 * (int64_t)node));
            if (frame->turn != NULL && frame->turn[node] >= 0) {
                turning = node;
                arm = v3_madd(arm, w, v3_load(frame->arm + 3 * (int64_t)node));
            } else if (frame->dof[node] >= 0)
                terms[used++] = (term){frame->dof[node], v3_scale(w, a[p])};
        }
        if (turning < 0) continue;
        terms[used++] = (term){frame->dof[turning], a[p]};
        terms[used++] = (term){frame->turn[turning], v3_add(v3_cross(arm, a[p]), more[p])};
    }
    if (!isfinite(c)) return qpc_fail(err, QPC_ERR_NUMERIC, "the row of joint %d is not finite", source);
    qpc_status status = reserve(rows, 1, 3 * used, err);
    if (status != QPC_OK) return status;
    push(rows, terms, used, c, QPC_ROW_JOINT, 2, key, source);
    rows->equality[rows->m - 1] = equality;
    return QPC_OK;
}

static bool before(const qpc_rows *rows, int32_t a, int32_t b) {
    return rows->key[a] != rows->key[b] ? rows->key[a] < rows->key[b] : a < b;
}

/// rows->order = the rows by key, then by number (heap sort: no memory, no worst case; rows of contacts
/// come in order as a rule).
static void sort_by_key(qpc_rows *rows) {
    int32_t *order = rows->order;
    bool sorted = true;
    for (int32_t i = 0; i < rows->m; i++) {
        order[i] = i;
        sorted &= i == 0 || rows->key[i - 1] <= rows->key[i];
    }
    if (sorted) return;
    int32_t start = rows->m / 2, end = rows->m;
    while (end > 1) {
        if (start > 0) {
            start--;
        } else {
            end--;
            int32_t t = order[0];
            order[0] = order[end];
            order[end] = t;
        }
        int32_t root = start;
        for (;;) {
            int32_t child = 2 * root + 1;
            if (child >= end) break;
            if (child + 1 < end && before(rows, order[child], order[child + 1])) child++;
            if (!before(rows, order[root], order[child])) break;
            int32_t t = order[root];
            order[root] = order[child];
            order[child] = t;
            root = child;
        }
    }
}

void qpc_rows_warm_start(qpc_rows *rows, const uint64_t *keys, const double *lambda,
                         int32_t count) {
    if (rows->m == 0) return;
    sort_by_key(rows);
    // Merge: the k-th row of a key takes the k-th multiplier of that key.
    int32_t at = 0;
    for (int32_t i = 0; i < rows->m; i++) {
        int32_t row = rows->order[i];
        while (at < count && keys[at] < rows->key[row]) at++;
        bool met = at < count && keys[at] == rows->key[row];
        double l = met ? lambda[at++] : 0;
        rows->lambda[row] = rows->equality[row] || l > 0 ? l : 0;
    }
}

qpc_qp qpc_rows_qp(const qpc_rows *rows, qpc_linsys *sys, const double *b) {
    static const int32_t none[1] = {0};
    return (qpc_qp){
        .n = sys->n,
        .m = rows->m,
        .sys = sys,
        .b = b,
        .row_start = rows->m > 0 ? rows->row_start : none,
        .column = rows->column,
        .value = rows->value,
        .c = rows->c,
        .equality = rows->equality,
        .priority = rows->priority,
        .key = rows->key,
    };
}
