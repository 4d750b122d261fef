/// Momentum of what nothing holds (docs/theory.md, T58): groups of bodies that are coupled by rows with each other alone are translated
/// by what a QP has left of their momentum. Runs on the worker in the world.
#include "engine/world/loads.h"

static const double BALANCED = 1e-12; // of a row's largest entry: its sum over the translations is 0
static const double ROUNDING = 1e-14; // of sum m (|v| + |dv|): an excess that is none

typedef struct balance {
    int32_t *group;      // (body_count)
    int32_t *body;       // (block_count) that three unknowns translate, or -1 where they turn it
    bool *held;          // (body_count) of a group's lowest body
    double *mass, *size; // (body_count) of a group: kg; sum m (|v| + |dv|), kg m/s
    qpc_vec3 *by;        // (body_count) excess of a group, kg m/s, then what it is translated by, m/s
} balance;

static qpc_status allocate(qpc_world *w, balance *a, qpc_error *err) {
    size_t bodies = (size_t)w->body_count, blocks = (size_t)w->block_count;
    a->group = qpc_arena_array(&w->arena, bodies, sizeof *a->group);
    a->body = qpc_arena_array(&w->arena, blocks, sizeof *a->body);
    a->held = qpc_arena_array(&w->arena, bodies, sizeof *a->held);
    a->mass = qpc_arena_array(&w->arena, bodies, sizeof *a->mass);
    a->size = qpc_arena_array(&w->arena, bodies, sizeof *a->size);
    a->by = qpc_arena_array(&w->arena, bodies, sizeof *a->by);
    bool ok = a->group != NULL && a->body != NULL && a->held != NULL && a->mass != NULL && a->size != NULL && a->by != NULL;
    return ok ? QPC_OK : qpc_fail(err, QPC_ERR_MEMORY, "no memory for the momentum of %d bodies", w->body_count);
}

/// The blocks that translate a body are first .. end - 1.
static void blocks_of(const qpc_world *w, int32_t body, int32_t *ret_first, int32_t *ret_end) {
    qpc_body_blocks(w, &w->bodies[body], ret_first, ret_end);
    if (w->bodies[body].motion == QPC_RIGID) *ret_end = *ret_first + 1;
}

static void begin(const qpc_world *w, balance *a) {
    for (int32_t k = 0; k < w->block_count; k++) a->body[k] = -1;
    for (int32_t i = 0; i < w->body_count; i++) {
        const qpc_body *body = &w->bodies[i];
        int32_t first, end;
        a->group[i] = i;
        a->held[i] = !qpc_body_is_free(body) || body->gone || w->still[i] != 0;
        a->by[i] = v3(0.0, 0.0, 0.0);
        if (!qpc_body_is_free(body)) continue;
        blocks_of(w, i, &first, &end);
        for (int32_t k = first; k < end; k++) a->body[k] = i;
        for (int32_t k = first; k < end && body->motion == QPC_DYNAMIC; k++) a->held[i] = a->held[i] || w->row_dof[k] < 0;
    }
}

static void join(balance *a, int32_t i, int32_t k) {
    bool held = a->held[qpc_group_of(a->group, i)] || a->held[qpc_group_of(a->group, k)];
    qpc_group_join(a->group, i, k);
    a->held[qpc_group_of(a->group, i)] = held;
}

/// Springs join, or hold where an end is given; drag and pressure on an open surface push.
static void look_at_loads(const qpc_world *w, balance *a) {
    for (int32_t i = 0; i < w->load_count; i++) {
        const qpc_load *load = &w->loads[i];
        const int32_t *end = load->link.body;
        bool inner = load->kind == QPC_LOAD_DAMPING || (load->kind == QPC_LOAD_PRESSURE && load->pressed.border_count == 0);
        if (inner) continue;
        if (load->kind == QPC_LOAD_SPRING && end[0] >= 0 && end[1] >= 0) {
            join(a, end[0], end[1]);
            continue;
        }
        for (int32_t k = 0; k < w->body_count; k++) {
            bool on = load->kind == QPC_LOAD_SPRING ? k == end[0] || k == end[1] : load->body < 0 || k == load->body;
            if (on) a->held[qpc_group_of(a->group, k)] = true;
        }
    }
}

typedef struct row_sum {
    double change;      // of J dv where each group is translated by its own, m/s
    bool balanced, one; // no translation of all that it is of changes it; they are of one group
} row_sum;

static row_sum sum_row(const qpc_world *w, const balance *a, int32_t row) {
    double sum[3] = {0.0, 0.0, 0.0}, largest = 0.0, change = 0.0;
    int32_t first = -1;
    bool one = true;
    for (int32_t k = w->rows.row_start[row]; k < w->rows.row_start[row + 1]; k++) {
        int32_t column = w->rows.column[k], body = a->body[column / 3];
        if (body < 0) continue;
        int32_t group = qpc_group_of(a->group, body);
        const double value = w->rows.value[k], by[3] = {a->by[group].x, a->by[group].y, a->by[group].z};
        first = first < 0 ? group : first;
        one = one && group == first;
        sum[column % 3] += value;
        change += value * by[column % 3];
        largest = fmax(largest, fabs(value));
    }
    double most = fmax(fabs(sum[0]), fmax(fabs(sum[1]), fabs(sum[2])));
    return (row_sum){change, most <= BALANCED * largest, one};
}

/// What a row is of becomes one group, which is held if the row is also of something that has no unknowns.
static void join_row(const qpc_world *w, balance *a, int32_t row) {
    bool balanced = sum_row(w, a, row).balanced;
    int32_t first = -1;
    for (int32_t k = w->rows.row_start[row]; k < w->rows.row_start[row + 1]; k++) {
        int32_t body = a->body[w->rows.column[k] / 3];
        if (body < 0 || body == first) continue;
        if (first < 0) first = body;
        else join(a, first, body);
    }
    if (first >= 0 && !balanced) a->held[qpc_group_of(a->group, first)] = true;
}

static double size_of(qpc_vec3 v) { return fabs(v.x) + fabs(v.y) + fabs(v.z); }

/// K - M has no translation in it, nor have the rows: b less M dv sums to what is left of K dv + J'lambda = b.
static void add_excess(const qpc_world *w, balance *a, int32_t body, const double *dv) {
    int32_t first, end, group = qpc_group_of(a->group, body), rigid = w->bodies[body].rigid;
    qpc_vec3 sum = v3(0.0, 0.0, 0.0);
    blocks_of(w, body, &first, &end);
    for (int32_t k = first; k < end; k++) {
        const double *change = dv + 3 * (int64_t)k;
        double mass = rigid < 0 ? w->mass[k] : w->rigids[rigid].inertia.mass;
        qpc_vec3 own = rigid < 0 ? v3_load(w->v + 3 * (int64_t)k) : w->pose[rigid].v;
        a->mass[group] += mass;
        a->size[group] += mass * (size_of(own) + size_of(v3_load(change)));
        sum = v3_add(sum, v3_madd(v3_load(w->b + 3 * (int64_t)k), -mass, v3_load(change)));
    }
    a->by[group] = v3_add(a->by[group], sum);
}

static bool may_shift(const qpc_world *w, const balance *a, int32_t body) {
    return qpc_body_is_free(&w->bodies[body]) && !a->held[qpc_group_of(a->group, body)];
}

/// What each group is translated by; false if none is.
static bool find_shifts(const qpc_world *w, balance *a, const double *dv) {
    for (int32_t g = 0; g < w->body_count; g++) {
        a->mass[g] = a->size[g] = 0.0;
        a->by[g] = v3(0.0, 0.0, 0.0);
    }
    for (int32_t i = 0; i < w->body_count; i++)
        if (may_shift(w, a, i)) add_excess(w, a, i, dv);
    bool any = false;
    for (int32_t g = 0; g < w->body_count; g++) {
        bool none = !(v3_norm(a->by[g]) > ROUNDING * a->size[g]);
        a->by[g] = none ? v3(0.0, 0.0, 0.0) : v3_scale(1.0 / a->mass[g], a->by[g]);
        any = any || !none;
    }
    return any;
}

static void shift(const qpc_world *w, const balance *a, double *dv) {
    for (int32_t i = 0; i < w->body_count; i++) {
        qpc_vec3 by = a->by[qpc_group_of(a->group, i)];
        int32_t first, end;
        if (!may_shift(w, a, i) || v3_norm2(by) == 0.0) continue;
        blocks_of(w, i, &first, &end);
        for (int32_t k = first; k < end; k++) v3_store(dv + 3 * (int64_t)k, v3_add(v3_load(dv + 3 * (int64_t)k), by));
    }
}

/// Rows without a force that the translations would break are taken as if they had one. True if there are any.
static bool join_broken(const qpc_world *w, balance *a, const double *dv) {
    bool any = false;
    for (int32_t i = 0; i < w->rows.m; i++) {
        if (w->rows.lambda[i] != 0.0 || w->rows.equality[i]) continue;
        row_sum row = sum_row(w, a, i);
        if ((row.balanced && row.one) || !(row.change > 0.0)) continue;
        double slack = w->rows.c[i] - row.change;
        for (int32_t k = w->rows.row_start[i]; k < w->rows.row_start[i + 1]; k++) slack -= w->rows.value[k] * dv[w->rows.column[k]];
        if (slack >= 0.0) continue;
        join_row(w, a, i);
        any = true;
    }
    return any;
}

qpc_status qpc_momentum_balance(qpc_world *w, double *dv, qpc_error *err) {
    balance a;
    bool exact = w->rows.m == 0 && (w->sys.blocks == NULL || w->sys.factored); // K^-1 b by a factor
    if (exact) return QPC_OK;
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    qpc_status st = allocate(w, &a, err);
    if (st != QPC_OK) return st;
    begin(w, &a);
    look_at_loads(w, &a);
    bool any = false;
    for (int32_t i = 0; i < w->body_count; i++) any = any || may_shift(w, &a, i);
    for (int32_t i = 0; any && i < w->rows.m; i++)
        if (w->rows.lambda[i] != 0.0 || w->rows.equality[i]) join_row(w, &a, i);
    any = any && find_shifts(w, &a, dv);
    while (any && join_broken(w, &a, dv)) any = find_shifts(w, &a, dv); // each time there is a group less that moves
    if (any) shift(w, &a, dv);
    qpc_arena_rewind(&w->arena, mark);
    return QPC_OK;
}
