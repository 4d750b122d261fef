/// Where free motion leads by other integrators than Euler's; see integrate.h. Runs on the worker in the world.
#include "engine/world/integrate.h"

#include "engine/world/elastic.h"
#include "engine/world/world.h"

#include <string.h>

// ---- creation ----

qpc_status qpc_integrate_make(qpc_world *w, qpc_error *err) {
    if (w->integrator != QPC_RK4 && w->integrator != QPC_IMPLICIT_MIDPOINT) return QPC_OK;
    size_t n = (size_t)w->free_count + 1;
    w->plain = qpc_calloc(n, sizeof *w->plain);
    w->free_kick = qpc_calloc(3 * n, sizeof(double));
    w->ahead = qpc_calloc(3 * n, sizeof(double));
    w->between = qpc_calloc(3 * n, sizeof(double));
    if (w->plain == NULL || w->free_kick == NULL || w->ahead == NULL || w->between == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory for the integrator of %d nodes", w->free_count);
    return QPC_OK;
}

void qpc_integrate_fini(qpc_world *w) {
    qpc_free(w->plain);
    qpc_free(w->free_kick);
    qpc_free(w->ahead);
    qpc_free(w->between);
}

// ---- classical Runge-Kutta (TI2) ----

/// Positions and velocities of a stage after the time c: x + c u and v + c a, with the velocities u and accelerations a of the stage
/// before (u may be v). Fixed nodes are where their orders have them by then.
static void stage(const qpc_world *w, double c, const double *u, const double *a, double *x, double *v) {
    for (int32_t i = 0; i < 3 * w->free_count; i++) {
        bool pinned = w->row_dof[i / 3] < 0;
        x[i] = w->x[i] + c * (pinned ? w->v_frame[i] : u[i]);
        v[i] = pinned ? w->v_frame[i] : w->v[i] + c * a[i];
    }
}

static void accelerations(const qpc_world *w, const double *x, double *a) {
    double g[3] = {w->gravity.x, w->gravity.y, w->gravity.z};
    memset(a, 0, 3 * (size_t)w->free_count * sizeof(double));
    qpc_elastic_force(w, x, a);
    for (int32_t i = 0; i < 3 * w->free_count; i++) a[i] = (a[i] + w->force[i]) / w->mass[i / 3] + g[i % 3];
}

static qpc_status run_stages(qpc_world *w, double h, qpc_error *err) {
    static const double part[4] = {0.0, 0.5, 0.5, 1.0}, weight[4] = {1.0 / 6.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 6.0};
    size_t n = 3 * (size_t)w->free_count;
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    double *a = qpc_arena_array(&w->arena, n, sizeof *a), *v = qpc_arena_array(&w->arena, n, sizeof *v);
    double *mean = qpc_arena_array(&w->arena, n, sizeof *mean);
    if (a == NULL || v == NULL || mean == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for stages of %d nodes", w->free_count);
    memset(a, 0, n * sizeof(double));
    memset(mean, 0, n * sizeof(double));
    memset(w->free_kick, 0, n * sizeof(double));
    memcpy(v, w->v, n * sizeof(double));
    for (int32_t s = 0; s < 4; s++) {
        stage(w, part[s] * h, v, a, w->between, v);
        accelerations(w, w->between, a);
        for (size_t i = 0; i < n; i++) {
            w->free_kick[i] += h * weight[s] * a[i];
            mean[i] += weight[s] * v[i];
        }
    }
    for (size_t i = 0; i < n; i++) w->ahead[i] = w->v[i] + w->free_kick[i] - mean[i];
    qpc_arena_rewind(&w->arena, mark);
    return QPC_OK;
}

// ---- implicit midpoint with mean tensions (TI3) ----

/// f += forces of springs of nodes that are not plain, along their middle direction, such that their work over x -> x1 is exactly
/// what they lose.
static void add_mean_tensions(const qpc_world *w, const double *x1, double *f) {
    for (int32_t s = 0; s < w->springs.count; s++) {
        int32_t i = 3 * w->spring_node[s], j = 3 * qpc_springs_other(&w->springs, s);
        double k = w->stiffness[s];
        if (!(k > 0.0) || w->plain[i / 3]) continue;
        qpc_vec3 before = v3_sub(v3_load(w->x + j), v3_load(w->x + i)), after = v3_sub(v3_load(x1 + j), v3_load(x1 + i));
        double both = v3_norm(before) + v3_norm(after);
        if (!(both > 0.0)) continue;
        qpc_vec3 pull = v3_scale(0.5 * k * (1.0 - 2.0 * w->rest_length[s] / both), v3_add(before, after));
        v3_store(f + i, v3_add(v3_load(f + i), pull));
        v3_store(f + j, v3_sub(v3_load(f + j), pull));
    }
}

/// A quarter of h^2 H for nodes that are not plain; springs join nodes of one body only, which are plain together.
static void quarter(qpc_world *w, int32_t node) {
    qpc_linsys *K = &w->sys;
    int64_t from, to;
    if (K->kind == QPC_LINSYS_BAND) {
        from = 3 * (int64_t)node * (K->bandwidth + 1);
        to = from + 3 * (int64_t)(K->bandwidth + 1);
    } else {
        from = K->start[3 * node];
        to = K->start[3 * node + 3];
    }
    double *value = K->kind == QPC_LINSYS_BAND ? K->band : K->value;
    for (int64_t k = from; k < to; k++) value[k] *= 0.25;
    for (int32_t a = 3 * node; a < 3 * node + 3; a++) w->Hu[a] *= 0.25;
}

const double *qpc_integrate_linearise_at(qpc_world *w, const double *x1) {
    if (w->integrator != QPC_IMPLICIT_MIDPOINT) return x1;
    for (int32_t i = 0; i < 3 * w->free_count; i++) w->between[i] = w->plain[i / 3] ? x1[i] : 0.5 * (w->x[i] + x1[i]);
    return w->between;
}

void qpc_integrate_adapt(qpc_world *w, const double *x1) {
    if (w->integrator != QPC_IMPLICIT_MIDPOINT) return;
    for (int32_t i = 0; i < w->free_count; i++) {
        if (w->plain[i]) continue;
        quarter(w, i);
        for (int32_t a = 3 * i; a < 3 * i + 3; a++) w->f[a] = 0.0;
    }
    add_mean_tensions(w, x1, w->f);
}

// ---- of every motion ----

qpc_status qpc_integrate_begin(qpc_world *w, double h, bool plain, qpc_error *err) {
    if (w->plain == NULL) return QPC_OK;
    plain = w->integrator == QPC_IMPLICIT_MIDPOINT && (plain || w->springs.giving != NULL);
    memset(w->plain, plain ? 1 : 0, (size_t)w->free_count);
    return w->integrator == QPC_RK4 ? run_stages(w, h, err) : QPC_OK;
}

bool qpc_integrate_is_plain(const qpc_world *w) {
    if (w->plain == NULL) return true;
    for (int32_t i = 0; i < w->free_count; i++)
        if (!w->plain[i]) return false;
    return true;
}

bool qpc_integrate_by_rows(qpc_world *w) {
    bool changed = false;
    if (w->plain == NULL || w->rows.m == 0) return false;
    for (int32_t k = 0; k < w->rows.row_start[w->rows.m]; k++) {
        int32_t node = w->rows.column[k] / 3;
        if (node >= w->free_count || w->plain[node]) continue;
        changed = true;
        w->plain[node] = 1;
        if (w->integrator == QPC_RK4) continue;
        const qpc_body *body = &w->bodies[qpc_world_body_of_node(w, node)];
        memset(w->plain + body->first_node, 1, (size_t)body->node_count);
    }
    return changed;
}

bool qpc_integrate_fall_back(qpc_world *w) {
    if (w->integrator != QPC_IMPLICIT_MIDPOINT || qpc_integrate_is_plain(w)) return false;
    memset(w->plain, 1, (size_t)w->free_count);
    return true;
}

void qpc_integrate_place(qpc_world *w, double h, const double *dv) {
    for (int32_t i = 0; i < w->free_count; i++) {
        if (w->row_dof[i] < 0) continue;
        if (w->plain == NULL || w->plain[i])
            for (int32_t a = 3 * i; a < 3 * i + 3; a++) w->x1[a] = w->x[a] + h * (w->v[a] + dv[a]);
        else if (w->integrator == QPC_RK4)
            for (int32_t a = 3 * i; a < 3 * i + 3; a++) w->x1[a] = w->x[a] + h * (w->v[a] + dv[a] - w->ahead[a]);
        else
            for (int32_t a = 3 * i; a < 3 * i + 3; a++) w->x1[a] = w->x[a] + h * (w->v[a] + 0.5 * dv[a]);
    }
}
