/// A step out of budget whose best iterate would collide: it is settled, so that it need not stand still.
///
///   go on   sweeps with K from the best iterate, where rows are few (sweeps.c): they solve on, and change nothing else
///   stop    sweeps of projected Gauss-Seidel over the rows and hits, with the masses (and inertia) alone in the place of K: what
///           approaches is stopped, friction within its cone
///   join    what is still hit: free nodes that hit each other go on together, by their mean velocity, and stand with
///           what is static or driven; more and more of them, until nothing is hit
///
/// The latter two take energy out of the relative motion and leave momentum as it is; energy test and fail-safe judge the rest.
/// All of it is a fixed number of sweeps and tests, none of which counts in the budget: it is no QP that is solved. The
/// next step goes on from the impulses of the solvers and of sweeps with K. Runs on the worker in the world.
#include "engine/world/attempt.h"

#include <string.h>

enum {
    SWEEPS = 40,      // of a pass
    PASSES = 6,       // of continuous detection between them
    JOIN_ROUNDS = 40,
};

typedef struct settling {
    int32_t *rigid;     // (rigid bodies) by the order of their unknowns
    qpc_mat3 *inverse;  // (rigid bodies) of their inertia in space, by number
    double *compliance; // (m) J M^-1 J'; 0: nobody can give way
    double *aim;        // (m) c, but never more than standing still satisfies
    double *rub_compliance; // (2 rub)
} settling;

/// K dv = b: nothing pushes.
static qpc_status free_motion(qpc_world *w, qpc_error *err) {
    qpc_status st = qpc_linsys_ensure(&w->sys, err);
    if (st != QPC_OK) return st;
    for (int32_t i = 0; i < w->rows.m; i++) w->rows.lambda[i] = 0.0;
    qpc_step_drop_friction(w);
    qpc_linsys_solve(&w->sys, w->b, w->dv);
    qpc_step_order_pins(w); // b has them as they were before they were held back
    return QPC_OK;
}

// ---- stop ----

/// Of an unknown behind those of nodes: its body, and which of the six it is.
static int32_t rigid_of(const qpc_world *w, const settling *s, int32_t column, int32_t *ret_part) {
    int32_t at = column - 3 * w->free_count;
    *ret_part = at % 6;
    return s->rigid[at / 6];
}

/// dv += impulse M^-1 d for entries d of a row.
static void add_motion(const qpc_world *w, const settling *s, const int32_t *column, const double *value, int32_t from, int32_t to,
                       double impulse, double *dv) {
    for (int32_t k = from; k < to; k++) {
        int32_t c = column[k], part;
        if (c < 3 * w->free_count) {
            dv[c] += impulse * value[k] / w->mass[c / 3];
            continue;
        }
        int32_t rigid = rigid_of(w, s, c, &part);
        const qpc_rigid_part *body = &w->rigids[rigid];
        if (part < 3) dv[c] += impulse * value[k] / body->inertia.mass;
        for (int32_t a = 0; a < 3 && part >= 3; a++) dv[body->dof + 3 + a] += impulse * value[k] * s->inverse[rigid].m[3 * a + part - 3];
    }
}

/// d M^-1 d' of a row. spare (unknowns): zeros, and zeros again.
static double compliance_of(const qpc_world *w, const settling *s, const int32_t *column, const double *value, int32_t from, int32_t to,
                            double *spare) {
    double sum = 0.0;
    add_motion(w, s, column, value, from, to, 1.0, spare);
    for (int32_t k = from; k < to; k++) sum += value[k] * spare[column[k]];
    for (int32_t k = from; k < to; k++) {
        int32_t c = column[k], part;
        spare[c] = 0.0;
        if (c < 3 * w->free_count) continue;
        int32_t dof = w->rigids[rigid_of(w, s, c, &part)].dof;
        for (int32_t a = 0; a < 6; a++) spare[dof + a] = 0.0;
    }
    return sum;
}

static bool prepare_rigid(qpc_world *w, settling *s) {
    s->rigid = qpc_arena_array(&w->arena, (size_t)w->rigid_count, sizeof *s->rigid);
    s->inverse = qpc_arena_array(&w->arena, (size_t)w->rigid_count, sizeof *s->inverse);
    if (s->rigid == NULL || s->inverse == NULL) return false;
    for (int32_t i = 0; i < w->rigid_count; i++) {
        qpc_rigid_body inverse = w->rigids[i].inertia;
        for (int a = 0; a < 3; a++) inverse.moment[a] = 1.0 / inverse.moment[a];
        s->rigid[(w->rigids[i].dof - 3 * w->free_count) / 6] = i;
        s->inverse[i] = qpc_rigid_tensor(&inverse, w->pose[i].q);
    }
    return true;
}

/// Velocity of an unknown as the step begins.
static double speed_of(const qpc_world *w, const settling *s, int32_t column) {
    int32_t part;
    if (column < 3 * w->free_count) return w->v[column];
    const qpc_rigid_state *now = &w->pose[rigid_of(w, s, column, &part)];
    const double six[6] = {now->v.x, now->v.y, now->v.z, now->w.x, now->w.y, now->w.z};
    return six[part];
}

static bool prepare(qpc_world *w, settling *s) {
    const qpc_rows *rows = &w->rows;
    const qpc_rub *rub = &w->rub;
    size_t n = 3 * (size_t)w->block_count;
    s->compliance = qpc_arena_array(&w->arena, (size_t)rows->m, sizeof(double));
    s->aim = qpc_arena_array(&w->arena, (size_t)rows->m, sizeof(double));
    s->rub_compliance = qpc_arena_array(&w->arena, 2 * (size_t)rub->row.count, sizeof(double));
    double *spare = qpc_arena_array(&w->arena, n, sizeof *spare);
    if (s->compliance == NULL || s->aim == NULL || s->rub_compliance == NULL || spare == NULL || !prepare_rigid(w, s)) return false;
    memset(spare, 0, n * sizeof *spare);
    for (int32_t i = 0; i < rows->m; i++) {
        double stand = 0.0;
        for (int32_t k = rows->row_start[i]; k < rows->row_start[i + 1]; k++) stand -= rows->value[k] * speed_of(w, s, rows->column[k]);
        s->compliance[i] = compliance_of(w, s, rows->column, rows->value, rows->row_start[i], rows->row_start[i + 1], spare);
        s->aim[i] = fmax(rows->c[i], stand);
    }
    for (int32_t r = 0; r < 2 * rub->row.count; r++)
        s->rub_compliance[r] = compliance_of(w, s, rub->column.data, rub->value.data, rub->start.data[r], rub->start.data[r + 1], spare);
    return true;
}

static void push(qpc_world *w, const settling *s, const int32_t *column, const double *value, int32_t from, int32_t to, double impulse) {
    add_motion(w, s, column, value, from, to, -impulse, w->dv);
}

/// Friction of contact k: towards no sliding, within its cone.
static void rub_once(qpc_world *w, const settling *s, int32_t k) {
    const qpc_rub *rub = &w->rub;
    double *beta = rub->beta.data + 2 * k, wanted[2], most = rub->mu.data[k] * fmax(w->rows.lambda[rub->row.data[k]], 0.0);
    double soft = fmax(s->rub_compliance[2 * k], s->rub_compliance[2 * k + 1]);
    if (!(soft > 0.0)) return;
    for (int32_t a = 0; a < 2; a++) {
        int32_t r = 2 * k + a;
        double u = rub->u0.data[r];
        for (int32_t e = rub->start.data[r]; e < rub->start.data[r + 1]; e++) u += rub->value.data[e] * w->dv[rub->column.data[e]];
        wanted[a] = beta[a] + u / soft;
    }
    double size = hypot(wanted[0], wanted[1]), part = size > most ? most / size : 1.0;
    for (int32_t a = 0; a < 2; a++) {
        int32_t r = 2 * k + a;
        push(w, s, rub->column.data, rub->value.data, rub->start.data[r], rub->start.data[r + 1], part * wanted[a] - beta[a]);
        beta[a] = part * wanted[a];
    }
}

/// One sweep, in the order of the rows; forth and back in turn. Impulses only grow: `least` is what the rows had.
static void sweep(qpc_world *w, const settling *s, const double *least, bool back) {
    const qpc_rows *rows = &w->rows;
    for (int32_t n = 0; n < rows->m; n++) {
        int32_t i = back ? rows->m - 1 - n : n, from = rows->row_start[i], to = rows->row_start[i + 1];
        if (s->compliance[i] > 0.0) {
            double over = -s->aim[i];
            for (int32_t k = from; k < to; k++) over += rows->value[k] * w->dv[rows->column[k]];
            double now = rows->lambda[i] + over / s->compliance[i];
            if (!rows->equality[i]) now = fmax(now, least[i]);
            if (now != rows->lambda[i]) push(w, s, rows->column, rows->value, from, to, now - rows->lambda[i]);
            rows->lambda[i] = now;
        }
        int32_t k = qpc_rub_of_row(&w->rub, i);
        if (k >= 0) rub_once(w, s, k);
    }
}

/// Rows of rigid bodies anew where the motion is by now, with the impulses that there are.
static qpc_status renew(qpc_world *w, qpc_trial *t, qpc_error *err) {
    qpc_friction unused;
    qpc_status st = w->rubs ? qpc_step_keep_friction(w, err) : QPC_OK;
    if (st == QPC_OK) st = qpc_step_keep_warm(w, t->h, err);
    if (st == QPC_OK) st = qpc_step_renew_rows(w, t, err);
    bool rubs = w->rub.row.count > 0;
    return st == QPC_OK && rubs ? qpc_step_make_friction(w, t->h, NULL, &unused, err) : st;
}

static qpc_status sweep_by_masses(qpc_world *w, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    settling s;
    double *least = qpc_arena_array(&w->arena, (size_t)w->rows.m, sizeof *least);
    if (least == NULL || !prepare(w, &s)) return qpc_fail(err, QPC_ERR_MEMORY, "no memory to settle %d rows", w->rows.m);
    for (int32_t i = 0; i < w->rows.m; i++) least[i] = w->rows.lambda[i] > 0.0 ? w->rows.lambda[i] : 0.0;
    for (int32_t n = 0; n < SWEEPS; n++) sweep(w, &s, least, (n & 1) != 0);
    qpc_arena_rewind(&w->arena, mark);
    return QPC_OK;
}

/// whole: by K, as long as that pays; else by the masses.
static qpc_status stop(qpc_world *w, qpc_trial *t, bool whole, qpc_error *err) {
    for (int32_t pass = 0; pass < PASSES; pass++) {
        int32_t added = 0;
        if (whole && !qpc_sweeps_pay(w)) return QPC_OK;
        qpc_status st = whole ? qpc_step_sweep(w, t->h, err) : sweep_by_masses(w, err);
        if (st != QPC_OK) return st;
        qpc_step_place_end(w, t->h, w->dv);
        st = qpc_motion_test(w, QPC_PASS_FACTOR, &t->near, err);
        if (st != QPC_OK || w->probe.count == 0) return st;
        if ((st = qpc_step_add_hits(w, t, &added, err)) != QPC_OK || added == 0) return st;
        if (t->renew && (st = renew(w, t, err)) != QPC_OK) return st;
    }
    return QPC_OK;
}

// ---- join ----

static void velocity_of_zones(qpc_world *w, int32_t *zone, double *sum, const double *anchor) {
    size_t size = 4 * (size_t)w->free_count * sizeof *sum;
    memset(sum, 0, size);
    for (int32_t i = 0; i < w->free_count; i++) { // momentum of a zone, and its mass
        if (w->row_dof[i] < 0) continue;
        double *of = sum + 4 * (int64_t)qpc_group_of(zone, i);
        for (int32_t a = 0; a < 3; a++) of[a] += w->mass[i] * (w->v[3 * i + a] + w->dv[3 * i + a]);
        of[3] += w->mass[i];
    }
    for (int32_t i = 0; i < w->free_count; i++) {
        int32_t root = qpc_group_of(zone, i);
        const double *of = sum + 4 * (int64_t)root, *held = anchor + 4 * (int64_t)root;
        bool alone = of[3] == w->mass[i] && !(held[3] > 0.0);
        if (w->row_dof[i] < 0 || alone) continue;
        for (int32_t a = 0; a < 3; a++)
            w->dv[3 * i + a] = (held[3] > 0.0 ? held[a] / held[3] : of[a] / of[3]) - w->v[3 * i + a];
    }
}

/// Zones of the hits grow; false: no free node is in them. anchor (4 per free node, at the root): velocities of what does not give way, and how many.
static bool grow(qpc_world *w, double h, int32_t *zone, double *anchor) {
    bool any = false;
    for (int32_t n = 0; n < w->probe.count; n++) {
        const qpc_contact *c = &w->probe.data[n];
        int32_t first = -1;
        double held[4] = {0.0, 0.0, 0.0, 0.0};
        for (int k = 0; k < QPC_CONTACT_NODES; k++) {
            int32_t node = c->node[k];
            if (c->weight[k] == 0.0) continue;
            if (node >= w->free_count || w->row_dof[node] < 0) {
                for (int32_t a = 0; a < 3; a++) held[a] += (w->x1[3 * node + a] - w->x[3 * node + a]) / h;
                held[3] += 1.0;
                continue;
            }
            if (first < 0) {
                first = node;
                continue;
            }
            int32_t i = qpc_group_of(zone, first), j = qpc_group_of(zone, node);
            if (i == j) continue;
            qpc_group_join(zone, i, j);
            int32_t root = i < j ? i : j, other = i < j ? j : i;
            for (int32_t a = 0; a < 4; a++) anchor[4 * (int64_t)root + a] += anchor[4 * (int64_t)other + a];
        }
        if (first < 0) continue;
        any = true;
        for (int32_t a = 0; a < 4; a++) anchor[4 * (int64_t)qpc_group_of(zone, first) + a] += held[a];
    }
    return any;
}

static qpc_status join(qpc_world *w, qpc_trial *t, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    size_t n = (size_t)w->free_count;
    int32_t *zone = qpc_arena_array(&w->arena, n, sizeof *zone);
    double *anchor = qpc_arena_array(&w->arena, 4 * n, sizeof *anchor);
    double *sum = qpc_arena_array(&w->arena, 4 * n, sizeof *sum);
    if (zone == NULL || anchor == NULL || sum == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory to join %d nodes", w->free_count);
    memset(anchor, 0, 4 * n * sizeof *anchor);
    for (int32_t i = 0; i < w->free_count; i++) zone[i] = i;
    qpc_status st = QPC_OK;
    for (int32_t round = 0; round < JOIN_ROUNDS && st == QPC_OK; round++) {
        st = qpc_motion_test(w, QPC_ACCEPT_FACTOR, NULL, err);
        if (st != QPC_OK || w->probe.count == 0) break;
        if (!grow(w, t->h, zone, anchor)) break;
        velocity_of_zones(w, zone, sum, anchor);
        qpc_step_place_end(w, t->h, w->dv);
    }
    if (st == QPC_OK && w->probe.count > 0) st = qpc_motion_test(w, QPC_ACCEPT_FACTOR, NULL, err);
    qpc_arena_rewind(&w->arena, mark);
    return st;
}

// ---- the warm start of the next step ----

typedef struct solved { // what the solvers came to
    uint64_t *key;
    double *lambda, h;
    qpc_kept_friction *kept;
    int32_t count, kept_count;
} solved;

static bool copy_solved(qpc_world *w, solved *s) {
    *s = (solved){.h = w->warm_h, .count = w->warm_count, .kept_count = w->kept.count};
    s->key = qpc_arena_array(&w->arena, (size_t)s->count, sizeof *s->key);
    s->lambda = qpc_arena_array(&w->arena, (size_t)s->count, sizeof *s->lambda);
    s->kept = qpc_arena_array(&w->arena, (size_t)s->kept_count, sizeof *s->kept);
    if (s->key == NULL || s->lambda == NULL || s->kept == NULL) return false;
    if (s->count > 0) memcpy(s->key, w->warm_key, (size_t)s->count * sizeof *s->key);
    if (s->count > 0) memcpy(s->lambda, w->warm_lambda, (size_t)s->count * sizeof *s->lambda);
    if (s->kept_count > 0) memcpy(s->kept, w->kept.data, (size_t)s->kept_count * sizeof *s->kept);
    return true;
}

static void put_back(qpc_world *w, const solved *s) { // the arrays only grow
    if (s->count > 0) memcpy(w->warm_key, s->key, (size_t)s->count * sizeof *s->key);
    if (s->count > 0) memcpy(w->warm_lambda, s->lambda, (size_t)s->count * sizeof *s->lambda);
    if (s->kept_count > 0) memcpy(w->kept.data, s->kept, (size_t)s->kept_count * sizeof *s->kept);
    w->warm_count = s->count;
    w->kept.count = s->kept_count;
    w->warm_h = s->h;
}

/// The impulses that the next step goes on from: of rigid bodies alone K is M, and those of the sweeps are further. Else they belong to
/// other bodies than there are: a light node that is pulled over an obstacle stops by a thousandth of what holds what pulls it.
static qpc_status keep_impulses(qpc_world *w, const qpc_trial *t, const solved *s, qpc_error *err) {
    if (w->free_count > 0) {
        put_back(w, s);
        return QPC_OK;
    }
    qpc_status st = w->rubs ? qpc_step_keep_friction(w, err) : QPC_OK;
    return st == QPC_OK ? qpc_step_keep_warm(w, t->h, err) : st;
}

static void judge(qpc_world *w, qpc_trial *t) {
    t->impact = w->probe.count > 0;
    t->limited = true;
    if (w->rubs && w->solver.friction != QPC_FRICTION_OFF) w->rub.unmet = true; // the certificate may say that it is met
    qpc_trial_test_energy(w, t);
    t->absurd = qpc_trial_is_absurd(w, t);
    t->given = qpc_step_given(w, t->h);
}

qpc_status qpc_step_go_on(qpc_world *w, qpc_trial *t, qpc_error *err) {
    // Sheets that are pressed have no impulses to go on to: they would be thrown out.
    if (w->solver.position_based || (w->rub.contradicts && qpc_has_cloth(w)) || !qpc_sweeps_pay(w)) return QPC_OK;
    int64_t since = qpc_clock_ns(CLOCK_MONOTONIC);
    qpc_status st = t->absurd ? free_motion(w, err) : QPC_OK;
    if (st == QPC_OK) st = stop(w, t, true, err);
    if (st == QPC_OK) st = qpc_motion_test(w, QPC_ACCEPT_FACTOR, NULL, err);
    if (st == QPC_OK && w->rubs) st = qpc_step_keep_friction(w, err);
    if (st == QPC_OK) st = qpc_step_keep_warm(w, t->h, err);
    if (st == QPC_OK) judge(w, t);
    qpc_lap(&since, &w->report->ns_solve);
    return st;
}

qpc_status qpc_step_settle(qpc_world *w, qpc_trial *t, qpc_error *err) {
    int64_t since = qpc_clock_ns(CLOCK_MONOTONIC);
    solved s;
    if (!copy_solved(w, &s)) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d multipliers", w->warm_count);
    qpc_status st = t->absurd ? free_motion(w, err) : QPC_OK;
    if (st == QPC_OK) st = stop(w, t, false, err);
    if (st == QPC_OK) st = keep_impulses(w, t, &s, err);
    if (st == QPC_OK) st = join(w, t, err);
    if (st == QPC_OK) judge(w, t);
    qpc_lap(&since, &w->report->ns_solve);
    return st;
}

// ---- forces of what stands ----

static bool rests(const qpc_world *w, int32_t rigid) {
    const qpc_rigid_state *now = &w->pose[rigid];
    return !(v3_norm2(now->v) + v3_norm2(now->w) > 0.0);
}

/// Rows of bodies that move keep what they have: they ask for nothing here. How many are left.
static int32_t leave_out_what_moves(const qpc_world *w, settling *s) {
    const qpc_rows *rows = &w->rows;
    int32_t left = 0;
    for (int32_t i = 0; i < rows->m; i++) {
        bool moves = rows->kind[i] != QPC_ROW_CONTACT;
        int32_t part, rub = qpc_rub_of_row(&w->rub, i);
        for (int32_t k = rows->row_start[i]; k < rows->row_start[i + 1]; k++) moves = moves || !rests(w, rigid_of(w, s, rows->column[k], &part));
        left += !moves;
        if (!moves) continue;
        s->compliance[i] = 0.0;
        if (rub >= 0) s->rub_compliance[2 * rub] = s->rub_compliance[2 * rub + 1] = 0.0;
    }
    return left;
}

/// What stands keeps its impulses times the factor that is best in the dual objective (T43); free: the motion without them.
static void scale_impulses(qpc_world *w, const settling *s, const double *free) {
    const qpc_rows *rows = &w->rows;
    double wanted = 0.0, done = 0.0; // l'(J free - aim), l'A l
    for (int32_t i = 0; i < rows->m; i++) {
        double before = 0.0, now = 0.0;
        if (!(s->compliance[i] > 0.0)) continue;
        for (int32_t k = rows->row_start[i]; k < rows->row_start[i + 1]; k++) {
            before += rows->value[k] * free[rows->column[k]];
            now += rows->value[k] * w->dv[rows->column[k]];
        }
        wanted += rows->lambda[i] * (before - s->aim[i]);
        done += rows->lambda[i] * (before - now);
    }
    if (!(wanted > 0.0 && done > 0.0)) return;
    double factor = wanted / done;
    for (int32_t k = 0; k < 3 * w->block_count; k++) w->dv[k] = free[k] + factor * (w->dv[k] - free[k]);
    for (int32_t i = 0; i < rows->m; i++) {
        int32_t rub = s->compliance[i] > 0.0 ? qpc_rub_of_row(&w->rub, i) : -1;
        if (s->compliance[i] > 0.0) rows->lambda[i] *= factor;
        for (int32_t a = 2 * rub; rub >= 0 && a < 2 * rub + 2; a++) w->rub.beta.data[a] *= factor;
    }
}

/// The impulses that the steps before came to, in the place of those of rows that stand; w->dv is their motion.
static qpc_status start_forces(qpc_world *w, const settling *s, double *before, double *free, qpc_error *err) {
    const qpc_rows *rows = &w->rows;
    memcpy(before, rows->lambda, (size_t)rows->m * sizeof *before);
    qpc_status st = qpc_linsys_ensure(&w->sys, err);
    if (st == QPC_OK) st = qpc_step_start_warm(w, w->warm_h, err);
    if (st != QPC_OK) return st;
    qpc_linsys_solve(&w->sys, w->b, free);
    memcpy(w->dv, free, 3 * (size_t)w->block_count * sizeof *free);
    for (int32_t i = 0; i < rows->m; i++) {
        bool stands = s->compliance[i] > 0.0;
        int32_t rub = stands ? qpc_rub_of_row(&w->rub, i) : -1;
        rows->lambda[i] = stands ? fmax(rows->lambda[i], 0.0) : before[i];
        if (stands) push(w, s, rows->column, rows->value, rows->row_start[i], rows->row_start[i + 1], rows->lambda[i]);
        if (rub >= 0) w->rub.beta.data[2 * rub] = w->rub.beta.data[2 * rub + 1] = 0.0;
    }
    return QPC_OK;
}

qpc_status qpc_step_find_forces(qpc_world *w, qpc_error *err) {
    size_t m = (size_t)w->rows.m;
    if (w->report->exhausted == 0 || w->free_count > 0 || m == 0) return QPC_OK;
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    settling s;
    double *least = qpc_arena_array(&w->arena, 2 * m, sizeof *least), *before = least + m;
    double *free = qpc_arena_array(&w->arena, 3 * (size_t)w->block_count, sizeof *free);
    if (least == NULL || free == NULL || !prepare(w, &s)) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for the forces of %d rows", w->rows.m);
    memset(least, 0, m * sizeof *least);
    bool any = leave_out_what_moves(w, &s) > 0;
    qpc_status st = any ? start_forces(w, &s, before, free, err) : QPC_OK;
    if (st != QPC_OK) return st;
    for (int32_t n = 0; n < SWEEPS && any; n++) {
        if (n % 10 == 0) scale_impulses(w, &s, free);
        sweep(w, &s, least, (n & 1) != 0);
    }
    if (any) scale_impulses(w, &s, free);
    qpc_arena_rewind(&w->arena, mark);
    return QPC_OK;
}
