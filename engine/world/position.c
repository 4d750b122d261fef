/// Position-based dynamics: what a step's problem comes to by projecting one constraint after the other; see position.h.
#include "engine/world/position.h"

#include <string.h>

typedef struct projection {
    qpc_world *w;
    const qpc_friction *friction;
    double h;
    double *dv, *pull;    // (3 free_count) m/s; (3 springs) impulse of each on its first end, N s
    double *row_mass;     // (rows) J_i M^-1 J_i', 1/kg
    double change;        // largest change of a velocity in the sweep, m/s
} projection;

static double inverse_mass(const qpc_world *w, int32_t node) { return w->row_dof[node] < 0 ? 0.0 : 1.0 / w->mass[node]; }

/// From one end to the other at the present dv.
static qpc_vec3 between(const projection *p, int32_t i, int32_t j) {
    const qpc_world *w = p->w;
    qpc_vec3 d = v3_sub(v3_load(w->x + 3 * j), v3_load(w->x + 3 * i));
    for (int k = 0; k < 2; k++) {
        int32_t node = k == 0 ? i : j;
        d = v3_madd(d, k == 0 ? -p->h : p->h, v3_add(v3_load(w->v + 3 * node), v3_load(p->dv + 3 * node)));
    }
    return d;
}

static void move(projection *p, int32_t node, double by, qpc_vec3 impulse) {
    v3_store(p->dv + 3 * node, v3_madd(v3_load(p->dv + 3 * node), by, impulse));
    p->change = fmax(p->change, fabs(by) * v3_norm(impulse));
}

/// TP2: the impulse of a spring that is right where the rest of the sweep would have its ends without it.
static void project_springs(projection *p) {
    const qpc_world *w = p->w;
    for (int32_t s = 0; s < w->springs.count; s++) {
        int32_t i = w->spring_node[s], j = qpc_springs_other(&w->springs, s);
        double mi = inverse_mass(w, i), mj = inverse_mass(w, j), k = w->stiffness[s];
        if (!(k > 0.0) || mi + mj == 0.0) continue;
        qpc_vec3 had = v3_load(p->pull + 3 * s), now = between(p, i, j), d = v3_madd(now, p->h * (mi + mj), had);
        if (!(v3_dot(d, now) > 0.0)) d = now; // pressed through itself: the other side is not meant
        double length = v3_norm(d), soft = 1.0 / (k * p->h * p->h);
        double pull = length > 0.0 ? (length - w->rest_length[s]) / (p->h * (mi + mj + soft)) : 0.0;
        qpc_vec3 has = v3_scale(length > 0.0 ? pull / length : 0.0, d), more = v3_sub(has, had);
        v3_store(p->pull + 3 * s, has);
        move(p, i, mi, more);
        move(p, j, -mj, more);
    }
}

static void push(projection *p, int32_t count, const int32_t *column, const double *value, double impulse) {
    for (int32_t k = 0; k < count; k++) {
        double by = value[k] * impulse / p->w->mass[column[k] / 3];
        p->dv[column[k]] -= by;
        p->change = fmax(p->change, fabs(by));
    }
}

static double dot(int32_t count, const int32_t *column, const double *value, const double *dv) {
    double sum = 0.0;
    for (int32_t k = 0; k < count; k++) sum += value[k] * dv[column[k]];
    return sum;
}

static double over_masses(const qpc_world *w, int32_t count, const int32_t *column, const double *value) {
    double sum = 0.0;
    for (int32_t k = 0; k < count; k++) sum += value[k] * value[k] / w->mass[column[k] / 3];
    return sum;
}

/// Towards no sliding, as far as the contact's impulse allows.
static void rub(projection *p, int32_t k, double lambda) {
    const qpc_friction *f = p->friction;
    double *beta = p->w->rub.beta.data + 2 * k, now[2] = {beta[0], beta[1]};
    for (int a = 0; a < 2; a++) {
        int32_t first = f->start[2 * k + a], count = f->start[2 * k + a + 1] - first;
        double mass = over_masses(p->w, count, f->column + first, f->value + first);
        if (mass > 0.0) now[a] += (dot(count, f->column + first, f->value + first, p->dv) + f->u0[2 * k + a]) / mass;
    }
    double size = hypot(now[0], now[1]), most = f->mu[k] * lambda;
    for (int a = 0; a < 2; a++) {
        int32_t first = f->start[2 * k + a], count = f->start[2 * k + a + 1] - first;
        if (size > most) now[a] *= most / size;
        push(p, count, f->column + first, f->value + first, now[a] - beta[a]);
        beta[a] = now[a];
    }
}

static void project_rows(projection *p) {
    qpc_rows *rows = &p->w->rows;
    for (int32_t i = 0, k = 0; i < rows->m; i++) {
        int32_t first = rows->row_start[i], count = rows->row_start[i + 1] - first;
        if (p->row_mass[i] > 0.0) {
            double miss = dot(count, rows->column + first, rows->value + first, p->dv) - rows->c[i];
            double lambda = rows->lambda[i] + miss / p->row_mass[i];
            if (lambda < 0.0 && !rows->equality[i]) lambda = 0.0;
            push(p, count, rows->column + first, rows->value + first, lambda - rows->lambda[i]);
            rows->lambda[i] = lambda;
        }
        if (k < p->friction->count && p->friction->row[k] == i) rub(p, k++, rows->lambda[i]);
    }
}

/// Predicted: gravity and applied forces alone, no multipliers; fixed nodes go where they are told.
static void predict(projection *p) {
    const qpc_world *w = p->w;
    const double g[3] = {w->gravity.x, w->gravity.y, w->gravity.z};
    for (int32_t i = 0; i < 3 * w->free_count; i++)
        p->dv[i] = w->row_dof[i / 3] < 0 ? w->v_frame[i] - w->v[i] : p->h * (g[i % 3] + w->force[i] / w->mass[i / 3]);
    memset(p->pull, 0, 3 * (size_t)w->springs.count * sizeof *p->pull);
    for (int32_t i = 0; i < w->rows.m; i++) {
        int32_t first = w->rows.row_start[i], count = w->rows.row_start[i + 1] - first;
        w->rows.lambda[i] = 0.0;
        p->row_mass[i] = over_masses(w, count, w->rows.column + first, w->rows.value + first);
    }
    for (int32_t i = 0; i < 2 * p->friction->count; i++) w->rub.beta.data[i] = 0.0;
}

qpc_status qpc_position_solve(qpc_world *w, double h, const qpc_friction *friction, int32_t most, double tolerance, double *dv,
                              qpc_solver_report *report, qpc_error *err) {
    projection p = {.w = w, .friction = friction, .h = h, .dv = dv};
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    p.pull = qpc_arena_array(&w->arena, 3 * (size_t)w->springs.count, sizeof *p.pull);
    p.row_mass = qpc_arena_array(&w->arena, (size_t)w->rows.m, sizeof *p.row_mass);
    if (p.pull == NULL || p.row_mass == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d constraints", w->springs.count + w->rows.m);
    *report = (qpc_solver_report){.engine = (qpc_solver_id)QPC_POSITION_ENGINE, .outcome = QPC_OUTCOME_ITERATION_LIMIT};
    predict(&p);
    while (report->iterations < most && report->outcome != QPC_OUTCOME_OPTIMAL) {
        p.change = 0.0;
        project_springs(&p);
        project_rows(&p);
        report->iterations++;
        if (p.change <= tolerance) report->outcome = QPC_OUTCOME_OPTIMAL;
    }
    for (int32_t i = 0; i < w->rows.m; i++) report->active += w->rows.lambda[i] > 0.0;
    qpc_arena_rewind(&w->arena, mark);
    for (int32_t i = 0; i < 3 * w->free_count; i++)
        if (!isfinite(dv[i])) return qpc_fail(err, QPC_ERR_NUMERIC, "node %d: projections ran into infinity", i / 3);
    return QPC_OK;
}

qpc_status qpc_position_check(const qpc_world *w, const qpc_solver_def *solver, const char *where, qpc_error *err) {
    if (!solver->position_based) return QPC_OK;
    const char *what = w->rigid_count > 0 ? "rigid bodies" : w->sheet_count > 0 ? "thin sheets" : w->softs.tets.count > 0 ? "soft bodies"
                       : w->joint_count > 0 ? "joints" : w->load_count > 0 ? "loads" : NULL;
    if (what != NULL)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "\"position-based\" is for cables and cloth of springs; this scene has %s", what);
    if (w->integrator != QPC_IMPLICIT_EULER)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "\"position-based\" approximates \"implicit-euler\", no other integrator");
    return QPC_OK;
}
