/// Restitution: contacts that approached when the step began bounce when it has ended (docs/theory-friction.md).
///
/// Newton's law per contact, simultaneous over the step's impacts (Giang, Bradshaw and O'Sullivan 2003, eqs. 8-14). v0 is what
/// the step would end with but for the impulses lambda of the contacts that carry any, v1 = v0 + M^-1 J'lambda what it ends with:
///
///     v+ = v0 + M^-1 J'f,   0 <= f  _|_  J v+ + eps a >= 0,
///
/// a < 0 being the relative normal velocity at the start of the step, J relative normal velocity at its end; contacts that did
/// not approach keep what they have (eps 0), and with eps 0 everywhere v+ is v1. Positions stay as they are: what was proven of
/// the motion still holds. A gain of energy lowers eps until there is none. Sequential: from v0, one impact at a time with its own
/// eps, the fastest approach first, until nothing approaches (the textbook cradle). Runs on the worker in the world.
#include "engine/world/attempt.h"

#include <string.h>

static const double RESTING = 2.0; // g h: approaches slower than that do not bounce
static const double LOWERED = 0.02; // by which restitution is lowered first if it gains energy; then twice that, and so on
enum {
    SEQUENTIAL_MOST = 10000,
    MOST_FRICTION_STEPS = 100, // M is banded: each costs what is linear in the nodes
    FEW = 60,                  // impacts that active-set is the fastest for
};

typedef struct bouncing {
    int32_t m;
    int32_t *row, *start, *column;     // rows of the step; J
    double *value, *c, *eps_a, *base;  // base: J v1 + what driven bodies add
    double *beta;                      // of the impacts' friction; NULL: none
    double *f, *d, *v, *load;          // load: M (v0 - v1)
    double *rubbed;                    // the part of friction in it
    uint8_t *equality, *priority;
    uint64_t *key;
    int32_t *rub;                      // contact of w->rub, or -1
} bouncing;

static bool is_of_rigid(const qpc_world *w, const qpc_contact *c) {
    return w->bodies[c->surface[0]].motion == QPC_RIGID || w->bodies[c->surface[1]].motion == QPC_RIGID;
}

static bool is_solid(const qpc_world *w, int32_t body) { return w->bodies[body].motion != QPC_DYNAMIC; }

/// What rigid bodies bounce with is that of their poses at the end of the step: arms and M.
static qpc_status turn_to_end(qpc_world *w, qpc_error *err) {
    for (int32_t i = 0; i < w->rigid_count; i++) {
        const qpc_body *body = &w->bodies[w->rigids[i].body];
        for (int32_t k = body->first_node; k < body->first_node + body->node_count; k++)
            v3_store(w->arm + 3 * k, v3_sub(v3_load(w->x1 + 3 * k), w->pose1[i].x));
    }
    if (w->rigid_count == 0) return QPC_OK;
    qpc_linsys_clear(&w->inertia);
    for (int32_t i = 0; i < 3 * w->free_count; i++) qpc_linsys_add(&w->inertia, i, i, w->mass[i / 3]);
    qpc_rigid_add_masses(w, w->pose1, &w->inertia);
    return qpc_linsys_factor(&w->inertia, err);
}

/// Relative velocity of a contact along d at the end of the step, velocities being given for the unknowns.
static double rate_along(const qpc_world *w, const qpc_contact *c, qpc_vec3 d, const double *u) {
    double sum = 0.0;
    for (int k = 0; k < QPC_CONTACT_NODES; k++) {
        int32_t node = c->node[k];
        if (node >= w->free_count && w->row_dof[node] >= 0) {
            const double *of = u + w->row_dof[node];
            sum += c->weight[k] * v3_dot(d, v3_add(v3_load(of), v3_cross(v3_load(of + 3), qpc_step_arm(w, c, k))));
            continue;
        }
        const double *at = node < w->free_count && w->row_dof[node] >= 0 ? u + 3 * node : w->v_frame + 3 * node;
        sum += c->weight[k] * v3_dot(d, v3_load(at));
    }
    return sum;
}

static double opening(const qpc_world *w, const qpc_contact *c, const double *u) { return rate_along(w, c, c->n, u); }

/// The same when the step began.
static double approach(const qpc_world *w, const qpc_contact *c) {
    double sum = 0.0;
    for (int k = 0; k < QPC_CONTACT_NODES; k++) {
        int32_t node = c->node[k];
        const double *at = w->row_dof[node] >= 0 ? w->v + 3 * node : w->v_frame + 3 * node;
        sum += c->weight[k] * v3_dot(c->n, v3_load(at));
    }
    return sum;
}

static bool allocate(qpc_world *w, bouncing *b) {
    size_t m = (size_t)w->rows.m, nnz = w->rigid_count > 0 ? QPC_CONTACT_ENTRIES * m : (size_t)w->rows.nnz, n = 3 * (size_t)w->block_count;
    qpc_arena *a = &w->arena;
    b->row = qpc_arena_array(a, m, sizeof *b->row);
    b->rub = qpc_arena_array(a, m, sizeof *b->rub);
    b->start = qpc_arena_array(a, m + 1, sizeof *b->start);
    b->column = qpc_arena_array(a, nnz, sizeof *b->column);
    b->value = qpc_arena_array(a, nnz, sizeof *b->value);
    b->c = qpc_arena_array(a, 4 * m, sizeof *b->c);
    b->d = qpc_arena_array(a, 4 * n, sizeof *b->d);
    b->equality = qpc_arena_array(a, 2 * m, 1);
    b->key = qpc_arena_array(a, m, sizeof *b->key);
    if (b->row == NULL || b->rub == NULL || b->start == NULL || b->column == NULL || b->value == NULL || b->c == NULL || b->d == NULL ||
        b->equality == NULL || b->key == NULL)
        return false;
    b->eps_a = b->c + m;
    b->base = b->c + 2 * m;
    b->f = b->c + 3 * m;
    b->v = b->d + n;
    b->load = b->d + 2 * n;
    b->rubbed = b->d + 3 * n;
    memset(b->load, 0, 2 * n * sizeof *b->load);
    b->priority = b->equality + m;
    memset(b->equality, 0, 2 * m);
    return true;
}

/// sum += size times the entries along d.
static void add_along(const qpc_world *w, const qpc_contact *c, qpc_vec3 d, double size, double *sum) {
    int32_t column[QPC_CONTACT_ENTRIES];
    double value[QPC_CONTACT_ENTRIES];
    int32_t count = qpc_step_entries(w, c, d, column, value);
    for (int32_t k = 0; k < count; k++) sum[column[k]] += size * value[k];
}

/// Contacts with a force; returns how many of them bounce.
static int32_t collect(const qpc_world *w, double h, const double *v1, bouncing *b) {
    const qpc_rows *rows = &w->rows;
    double rest = RESTING * h * v3_norm(w->gravity);
    int32_t bounce = 0, rub = 0, at = 0;
    b->start[0] = 0;
    for (int32_t i = 0; i < rows->m; i++) {
        if (rows->kind[i] != QPC_ROW_CONTACT) continue;
        bool rubs = rub < w->rub.row.count && w->rub.row.data[rub] == i;
        if (rubs) rub++;
        if (!(rows->lambda[i] > 0.0)) continue;
        const qpc_contact *c = &w->held.data[rows->source[i]];
        double a = approach(w, c), eps = qpc_world_law(w, c).restitution;
        bool bounces = eps > 0.0 && a < -rest && a < 0.0;
        bounce += bounces;
        b->row[b->m] = i;
        b->rub[b->m] = rubs ? rub - 1 : -1;
        if (rubs && is_of_rigid(w, c)) {
            for (int32_t r = 2 * (rub - 1); r < 2 * rub; r++)
                add_along(w, c, w->rub.tangent.data[r], w->rub.beta.data[r], b->rubbed);
        } else if (rubs) { // what friction took is given back as well
            for (int32_t r = 2 * (rub - 1); r < 2 * rub; r++)
                for (int32_t k = w->rub.start.data[r]; k < w->rub.start.data[r + 1]; k++)
                    b->rubbed[w->rub.column.data[k]] += w->rub.beta.data[r] * w->rub.value.data[k];
        }
        b->eps_a[b->m] = bounces ? eps * a : 0.0;
        b->base[b->m] = opening(w, c, v1);
        b->key[b->m] = rows->key[i];
        if (is_of_rigid(w, c)) {
            int32_t count = qpc_step_entries(w, c, v3_neg(c->n), b->column + at, b->value + at);
            for (int32_t k = at; k < at + count; k++) b->load[b->column[k]] += rows->lambda[i] * b->value[k];
            at += count;
            b->start[++b->m] = at;
            continue;
        }
        for (int32_t k = rows->row_start[i]; k < rows->row_start[i + 1]; k++) { // -n at the first side: -J
            b->load[rows->column[k]] += rows->lambda[i] * rows->value[k];
            b->column[at] = rows->column[k];
            b->value[at++] = rows->value[k];
        }
        b->start[++b->m] = at;
    }
    return bounce;
}

/// -J d <= c, d = v+ - v1: restitution scaled by `part` where contacts bounce, no faster approach than now elsewhere.
static void aim(bouncing *b, double part) {
    for (int32_t i = 0; i < b->m; i++) b->c[i] = b->eps_a[i] < 0.0 ? b->base[i] + part * b->eps_a[i] : fmax(b->base[i], 0.0);
}

/// Friction of the impacts: the same contacts and tangents, moving as v1 does.
static qpc_status rub_of(qpc_world *w, const bouncing *b, const double *v1, qpc_friction *ret, double **ret_beta, qpc_error *err) {
    const qpc_rub *rub = &w->rub;
    *ret = (qpc_friction){0};
    int32_t count = 0, nnz = 0;
    for (int32_t i = 0; i < b->m; i++) count += b->rub[i] >= 0;
    if (count == 0) return QPC_OK;
    int32_t *row = qpc_arena_array(&w->arena, (size_t)count, sizeof *row);
    int32_t *start = qpc_arena_array(&w->arena, 2 * (size_t)count + 1, sizeof *start);
    size_t entries = w->rigid_count > 0 ? 2 * QPC_CONTACT_ENTRIES * (size_t)count : (size_t)rub->column.count;
    int32_t *column = qpc_arena_array(&w->arena, entries, sizeof *column);
    double *value = qpc_arena_array(&w->arena, entries, sizeof *value);
    double *mu = qpc_arena_array(&w->arena, (size_t)count, sizeof *mu);
    double *u0 = qpc_arena_array(&w->arena, 4 * (size_t)count, sizeof *u0);
    if (row == NULL || start == NULL || column == NULL || value == NULL || mu == NULL || u0 == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory for the friction of %d impacts", count);
    *ret_beta = u0 + 2 * (size_t)count;
    start[0] = 0;
    count = 0;
    for (int32_t i = 0; i < b->m; i++) {
        if (b->rub[i] < 0) continue;
        row[count] = i;
        mu[count] = rub->mu.data[b->rub[i]];
        for (int32_t r = 2 * b->rub[i]; r < 2 * b->rub[i] + 2; r++) {
            int32_t place = 2 * count + (r & 1);
            (*ret_beta)[place] = rub->beta.data[r];
            const qpc_contact *c = &w->held.data[w->rows.source[b->row[i]]];
            if (is_of_rigid(w, c)) { // anew, in the poses at the end
                nnz += qpc_step_entries(w, c, rub->tangent.data[r], column + nnz, value + nnz);
                u0[place] = rate_along(w, c, rub->tangent.data[r], v1);
                start[place + 1] = nnz;
                continue;
            }
            double u = rub->u0.data[r];
            for (int32_t k = rub->start.data[r]; k < rub->start.data[r + 1]; k++) {
                int32_t j = rub->column.data[k];
                u += rub->value.data[k] * (v1[j] - w->v[j]);
                column[nnz] = j;
                value[nnz++] = rub->value.data[k];
            }
            u0[place] = u;
            start[place + 1] = nnz;
        }
        count++;
    }
    *ret = (qpc_friction){count, row, mu, start, column, value, u0};
    return QPC_OK;
}

/// rub: with friction of the impacts; else that of the step stands as it was. *ret_solved: false where the budget of the
/// step does not reach.
static qpc_status simultaneous(qpc_world *w, bouncing *b, const double *v1, double tolerance, bool rub, bool *ret_solved,
                               qpc_error *err) {
    int32_t n = 3 * w->block_count;
    for (int32_t i = 0; i < b->m; i++) b->f[i] = w->rows.lambda[b->row[i]];
    qpc_qp qp = {.n = n, .m = b->m, .sys = &w->inertia, .b = b->load, .row_start = b->start, .column = b->column, .value = b->value,
                 .c = b->c, .equality = b->equality, .priority = b->priority, .key = b->key};
    qpc_solver_options options = qpc_solver_options_default();
    qpc_solver_report report;
    options.exact = true;
    options.residual_tolerance = tolerance;
    qpc_solver_id id = b->m > FEW ? QPC_SOLVER_AUTO : QPC_SOLVER_ACTIVE_SET;
    if (w->solver.id == QPC_SOLVER_LCP_IMPULSE) id = w->solver.id;
    int32_t left = qpc_step_budget_left(w);
    *ret_solved = true;
    qpc_friction friction;
    b->beta = NULL;
    friction.count = 0;
    qpc_status st = !rub ? QPC_OK : rub_of(w, b, v1, &friction, &b->beta, err);
    if (st != QPC_OK) return st;
    if (friction.count > 0 && left > 2) {
        qpc_friction_options how = {.mode = QPC_FRICTION_EXACT, .max_iterations = MOST_FRICTION_STEPS};
        if (left < INT32_MAX) how.max_total = left - left / 3;
        qpc_friction_report rubbing;
        for (int32_t k = 0; k < n; k++) b->load[k] += b->rubbed[k];
        st = qpc_solve_friction(id, &qp, &friction, &options, &how, &w->arena, b->d, b->f, b->beta, &report,
                                &rubbing, err);
        for (int32_t k = 0; k < n; k++) b->load[k] -= b->rubbed[k];
        if (st != QPC_OK) return st;
        w->report->solver_iterations += rubbing.iterations + report.iterations;
        if (rubbing.converged) return st;
        if (left < INT32_MAX && report.iterations + rubbing.iterations + 1 >= how.max_total) w->report->exhausted = 1;
        b->beta = NULL; // the friction of the step stands as it was
        for (int32_t i = 0; i < b->m; i++) b->f[i] = w->rows.lambda[b->row[i]];
    }
    left = qpc_step_budget_left(w);
    *ret_solved = left > 0;
    if (left == 0) return QPC_OK;
    if (left < INT32_MAX) options.max_iterations = left;
    st = qpc_solve(id, &qp, &options, &w->arena, b->d, b->f, &report, err);
    if (st != QPC_OK) return st;
    w->report->solver_iterations += report.iterations;
    *ret_solved = report.outcome == QPC_OUTCOME_OPTIMAL || left == INT32_MAX;
    return QPC_OK;
}

/// M^-1 times a row, where M is more than the masses of nodes: into b->v.
static const double *pull_of(qpc_world *w, const bouncing *b, int32_t i) {
    memset(b->v, 0, 3 * (size_t)w->block_count * sizeof *b->v);
    for (int32_t k = b->start[i]; k < b->start[i + 1]; k++) b->v[b->column[k]] = b->value[k];
    qpc_linsys_solve(&w->inertia, b->v, b->v);
    return b->v;
}

/// Relative velocity of row i with the changes so far.
static double now_of(const bouncing *b, int32_t i) {
    double now = b->base[i];
    for (int32_t k = b->start[i]; k < b->start[i + 1]; k++) now -= b->value[k] * b->d[b->column[k]];
    return now;
}

/// What row i, which moves at `now`, is to move at after its impact.
static double after_impact(const qpc_world *w, const bouncing *b, int32_t i, double now, double part, double rest) {
    const qpc_contact *c = &w->held.data[w->rows.source[b->row[i]]];
    double approach = fmin(now - b->c[i], 0.0);
    double eps = approach < -rest ? part * qpc_world_law(w, c).restitution : 0.0;
    return fmax(-eps * approach, fmin(b->base[i], 0.0));
}

/// Two rigid bodies that touch in many places meet in all of them at once: one after the other, the places of a face would turn
/// the bodies against each other, and a cradle of boxes would be none.
static qpc_status strike_pair(qpc_world *w, bouncing *b, int32_t fastest, double part, double rest, double tolerance, qpc_error *err) {
    const qpc_contact *c = &w->held.data[w->rows.source[b->row[fastest]]];
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    int32_t n = 3 * w->block_count, m = 0, at = 0;
    size_t rows = (size_t)b->m;
    int32_t *row = qpc_arena_array(&w->arena, rows, sizeof *row), *start = qpc_arena_array(&w->arena, rows + 1, sizeof *start);
    int32_t *column = qpc_arena_array(&w->arena, (size_t)b->start[b->m], sizeof *column);
    double *value = qpc_arena_array(&w->arena, (size_t)b->start[b->m], sizeof *value), *bound = qpc_arena_array(&w->arena, 2 * rows, sizeof *bound);
    double *x = qpc_arena_array(&w->arena, 2 * (size_t)n, sizeof *x);
    if (row == NULL || start == NULL || column == NULL || value == NULL || bound == NULL || x == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d impacts", b->m);
    start[0] = 0;
    for (int32_t i = 0; i < b->m; i++) {
        const qpc_contact *o = &w->held.data[w->rows.source[b->row[i]]];
        bool same = o->surface[0] == c->surface[0] && o->surface[1] == c->surface[1];
        if (!same && !(o->surface[0] == c->surface[1] && o->surface[1] == c->surface[0])) continue;
        double now = now_of(b, i);
        row[m] = i;
        bound[m] = now - after_impact(w, b, i, now, part, rest);
        for (int32_t k = b->start[i]; k < b->start[i + 1]; k++) {
            column[at] = b->column[k];
            value[at++] = b->value[k];
        }
        start[++m] = at;
    }
    double *push = bound + rows, *zero = x + n;
    memset(push, 0, (size_t)m * sizeof *push);
    memset(zero, 0, (size_t)n * sizeof *zero);
    qpc_qp qp = {.n = n, .m = m, .sys = &w->inertia, .b = zero, .row_start = start, .column = column, .value = value,
                 .c = bound, .equality = b->equality, .priority = b->priority, .key = b->key};
    qpc_solver_options options = qpc_solver_options_default();
    options.exact = true;
    options.residual_tolerance = tolerance;
    qpc_solver_report report;
    qpc_status st = qpc_solve(m > FEW ? QPC_SOLVER_AUTO : QPC_SOLVER_ACTIVE_SET, &qp, &options, &w->arena, x, push, &report, err);
    for (int32_t k = 0; k < n && st == QPC_OK; k++) b->d[k] += x[k];
    for (int32_t k = 0; k < m && st == QPC_OK; k++) b->f[row[k]] += push[k];
    qpc_arena_rewind(&w->arena, mark);
    return st;
}

/// One contact alone. False: between bodies that are driven.
static bool strike_one(qpc_world *w, bouncing *b, int32_t i, double part, double rest) {
    int32_t n = 3 * w->block_count;
    double compliance = 0.0, now = now_of(b, i);
    const double *pull = w->rigid_count > 0 ? pull_of(w, b, i) : NULL;
    for (int32_t k = b->start[i]; k < b->start[i + 1]; k++)
        compliance += pull != NULL ? b->value[k] * pull[b->column[k]] : b->value[k] * b->value[k] / w->mass[b->column[k] / 3];
    if (!(compliance > 0.0)) return false;
    double push = (after_impact(w, b, i, now, part, rest) - now) / compliance;
    b->f[i] += push;
    for (int32_t k = 0; k < n && pull != NULL; k++) b->d[k] -= push * pull[k];
    for (int32_t k = b->start[i]; k < b->start[i + 1] && pull == NULL; k++) b->d[b->column[k]] -= push * b->value[k] / w->mass[b->column[k] / 3];
    return true;
}

/// The fastest approach first, each with an impulse of its own (of two rigid bodies: all of their contacts), until nothing
/// approaches. *ret_solved false: the budget of the step does not reach.
static qpc_status sequential(qpc_world *w, bouncing *b, double part, double rest, double tolerance, bool *ret_solved, qpc_error *err) {
    int32_t n = 3 * w->block_count;
    if (w->rigid_count > 0) qpc_linsys_solve(&w->inertia, b->load, b->d);
    for (int32_t k = 0; k < n && w->rigid_count == 0; k++) b->d[k] = b->load[k] / w->mass[k / 3];
    memset(b->f, 0, (size_t)b->m * sizeof *b->f);
    for (int32_t i = 0; i < b->m; i++) { // what forces added to the approach during the step does not bounce
        const qpc_contact *c = &w->held.data[w->rows.source[b->row[i]]];
        b->c[i] = fmin(now_of(b, i) - approach(w, c), 0.0);
    }
    *ret_solved = true;
    for (int32_t turn = 0; turn < SEQUENTIAL_MOST; turn++) {
        int32_t fastest = -1;
        double least = 0.0;
        for (int32_t i = 0; i < b->m; i++) {
            double now = now_of(b, i);
            if (!(now < fmin(b->base[i], 0.0) - tolerance) || !(now < least)) continue;
            least = now;
            fastest = i;
        }
        if (fastest < 0) break;
        *ret_solved = qpc_step_budget_left(w) > 0;
        if (!*ret_solved) break;
        w->report->solver_iterations++;
        const qpc_contact *c = &w->held.data[w->rows.source[b->row[fastest]]];
        bool rigid = c->surface[0] != c->surface[1] && is_solid(w, c->surface[0]) && is_solid(w, c->surface[1]) && is_of_rigid(w, c);
        qpc_status st = rigid ? strike_pair(w, b, fastest, part, rest, 0.1 * tolerance, err) : QPC_OK;
        if (st != QPC_OK) return st;
        if (!rigid && !strike_one(w, b, fastest, part, rest)) break;
    }
    return QPC_OK;
}

/// E+ - E - W of the step with velocities v, over the tolerance of the energy test.
static bool gains(const qpc_world *w, qpc_trial *t, const double *v, qpc_rigid_state *pose) {
    qpc_rigid_set_velocities(w, v, pose);
    double kinetic, potential, elastic, energy = qpc_world_energy(w, w->x1, v, pose, &kinetic, &potential, &elastic);
    double step = t->energy_step, drift = t->energy_drift;
    if (qpc_trial_measure_energy(w, t, energy) > QPC_ENERGY_TOLERANCE) {
        t->energy_step = step;
        t->energy_drift = drift;
        return true;
    }
    t->energy = energy;
    t->kinetic = kinetic;
    return false;
}

qpc_status qpc_step_bounce(qpc_world *w, qpc_trial *t, double *v1, qpc_error *err) {
    w->bounce.count = 0;
    if (!w->bounces || w->rows.m == 0) return QPC_OK;
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    bouncing b = {0};
    double tolerance = w->solver.tolerance * w->min_separation / t->h, part = 1.0;
    int32_t n = 3 * w->block_count;
    qpc_status st = allocate(w, &b) ? QPC_OK : qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d impacts", w->rows.m);
    qpc_rigid_state *pose = qpc_arena_array(&w->arena, (size_t)w->rigid_count, sizeof *pose); // with the velocities on trial
    if (st == QPC_OK && pose == NULL) st = qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d bodies", w->rigid_count);
    if (st == QPC_OK) st = turn_to_end(w, err);
    if (st == QPC_OK && w->rigid_count > 0) memcpy(pose, w->pose1, (size_t)w->rigid_count * sizeof *pose);
    int32_t bounced = st == QPC_OK ? collect(w, t->h, v1, &b) : 0;
    bool solved = true;
    for (int32_t turn = 0; st == QPC_OK && bounced > 0; turn++, part = 1.0 - LOWERED * (double)(1 << turn)) {
        if (part <= 0.0) {
            part = 0.0;
            break;
        }
        aim(&b, part);
        if (w->solver.impact == QPC_IMPACT_SEQUENTIAL)
            st = sequential(w, &b, part, RESTING * t->h * v3_norm(w->gravity), tolerance, &solved, err);
        else
            st = simultaneous(w, &b, v1, tolerance, turn == 0, &solved, err);
        if (st != QPC_OK) break;
        if (!solved) { // v1 stays as the step left it
            w->report->exhausted = 1;
            part = 0.0;
            break;
        }
        for (int32_t k = 0; k < n; k++) b.v[k] = k < 3 * w->free_count && w->row_dof[k / 3] < 0 ? v1[k] : v1[k] + b.d[k];
        if (gains(w, t, b.v, pose)) continue;
        memcpy(v1, b.v, (size_t)n * sizeof *v1);
        if (!qpc_array_reserve(&w->bounce, (int64_t)w->rows.m)) {
            st = qpc_fail(err, QPC_ERR_MEMORY, "no memory for the impulses of %d rows", w->rows.m);
            break;
        }
        memset(w->bounce.data, 0, (size_t)w->rows.m * sizeof *w->bounce.data);
        w->bounce.count = w->rows.m;
        for (int32_t i = 0, k = 0; i < b.m && b.beta != NULL; i++) { // friction of step and impact together
            if (b.rub[i] < 0) continue;
            memcpy(w->rub.beta.data + 2 * b.rub[i], b.beta + 2 * k++, 2 * sizeof(double));
        }
        for (int32_t i = 0; i < b.m; i++) w->bounce.data[b.row[i]] = b.f[i] - w->rows.lambda[b.row[i]];
        break;
    }
    if (st == QPC_OK && bounced > 0) {
        w->report->impacts += part > 0.0 ? bounced : 0;
        w->report->restitution_scale = fmin(w->report->restitution_scale, part);
    }
    qpc_arena_rewind(&w->arena, mark);
    return st;
}
