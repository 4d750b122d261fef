/// One step of the pipeline (docs/architecture.md, "One step"): try the motion (attempt.c); if its energy
/// grows or it would still collide, try two halves; at the bottom hold back what drives, then cut the
/// motion before its first impact (failsafe.c); take it over; report. Runs on the one thread that is in
/// the world. Nothing is ordered by pointer, thread or clock.
#include "engine/world/attempt.h"
#include "engine/world/joints.h"
#include "engine/world/obstacles.h"

#include <stdio.h>
#include <string.h>

enum { ABSURD_HALVINGS = 6, MOST_ABSURD = 256 }; // halvings more, of motions that have no answer; of a step, up to which there are more
static const double MOST_RUBBED = 1e-4; // of the energy scale, that a motion in which something rubs may gain at the bottom of halving

// ---- state that a failed attempt gives back ----

typedef struct saved_state {
    double *x, *v, *reactions, *warm_lambda;
    qpc_rigid_state *pose;
    uint64_t *warm_key;
    qpc_body *bodies;
    qpc_pin *pins;
    qpc_kept_friction *kept;
    uint8_t *touched;
    bool any_touched;
    int32_t kept_count;
    int32_t warm_count;
    double warm_h, energy, gained, work, work_most, work_pushed, elastic_most, height_low, height_high;
} saved_state;

static void *copy_into(qpc_arena *arena, const void *from, size_t size) {
    void *to = qpc_arena_alloc(arena, size);
    if (to != NULL && size > 0) memcpy(to, from, size);
    return to;
}

static qpc_status save_state(qpc_world *w, saved_state *s, qpc_error *err) {
    qpc_arena *a = &w->arena;
    size_t moving = 3 * (size_t)w->moving_count * sizeof(double), free_size = 3 * (size_t)w->live_count * sizeof(double);
    s->x = copy_into(a, w->x, moving);
    s->v = copy_into(a, w->v, free_size);
    s->reactions = copy_into(a, w->reactions, 3 * (size_t)w->pin_count * sizeof(double));
    s->warm_key = copy_into(a, w->warm_key, (size_t)w->warm_count * sizeof *w->warm_key);
    s->warm_lambda = copy_into(a, w->warm_lambda, (size_t)w->warm_count * sizeof(double));
    s->bodies = copy_into(a, w->bodies, (size_t)w->body_count * sizeof *w->bodies);
    s->pose = copy_into(a, w->pose, (size_t)w->rigid_count * sizeof *w->pose);
    s->pins = copy_into(a, w->pins, (size_t)w->pin_count * sizeof *w->pins);
    if (s->x == NULL || s->v == NULL || s->reactions == NULL || s->warm_key == NULL || s->warm_lambda == NULL ||
        s->bodies == NULL || s->pins == NULL || s->pose == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory to keep the state of a step");
    s->kept = copy_into(a, w->kept.data, (size_t)w->kept.count * sizeof *w->kept.data);
    s->touched = copy_into(a, w->touched, (size_t)w->free_count);
    if (s->kept == NULL || s->touched == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory to keep the state of a step");
    s->any_touched = w->any_touched;
    s->kept_count = w->kept.count;
    s->warm_count = w->warm_count;
    s->warm_h = w->warm_h;
    s->energy = w->energy;
    s->gained = w->gained;
    s->work = w->work;
    s->work_most = w->work_most;
    s->work_pushed = w->work_pushed;
    s->elastic_most = w->elastic_most;
    s->height_low = w->height_low;
    s->height_high = w->height_high;
    return QPC_OK;
}

static void restore_state(qpc_world *w, const saved_state *s) {
    memcpy(w->x, s->x, 3 * (size_t)w->moving_count * sizeof(double));
    memcpy(w->v, s->v, 3 * (size_t)w->live_count * sizeof(double));
    if (w->rigid_count > 0) memcpy(w->pose, s->pose, (size_t)w->rigid_count * sizeof *w->pose);
    memcpy(w->reactions, s->reactions, 3 * (size_t)w->pin_count * sizeof(double));
    if (s->warm_count > 0) { // the arrays only grow, so what was there fits
        memcpy(w->warm_key, s->warm_key, (size_t)s->warm_count * sizeof *w->warm_key);
        memcpy(w->warm_lambda, s->warm_lambda, (size_t)s->warm_count * sizeof(double));
    }
    memcpy(w->bodies, s->bodies, (size_t)w->body_count * sizeof *w->bodies);
    if (w->pin_count > 0) memcpy(w->pins, s->pins, (size_t)w->pin_count * sizeof *w->pins);
    if (s->kept_count > 0) memcpy(w->kept.data, s->kept, (size_t)s->kept_count * sizeof *s->kept);
    w->kept.count = s->kept_count;
    memcpy(w->touched, s->touched, (size_t)w->free_count);
    w->any_touched = s->any_touched;
    w->warm_count = s->warm_count;
    w->warm_h = s->warm_h;
    w->energy = s->energy;
    w->gained = s->gained;
    w->work = s->work;
    w->work_most = s->work_most;
    w->work_pushed = s->work_pushed;
    w->elastic_most = s->elastic_most;
    w->height_low = s->height_low;
    w->height_high = s->height_high;
    w->proof = false;
}

// ---- commit ----

static void count_certificate(qpc_world *w, const qpc_trial *t, const qpc_certificate *c) {
    qpc_step_report *r = w->report;
    r->stat = fmax(r->stat, c->stat);
    r->prim = fmax(r->prim, c->prim);
    r->dual = fmax(r->dual, c->dual);
    r->comp = fmax(r->comp, c->comp);
    r->err = fmax(r->err, c->err);
    r->natural = fmax(r->natural, c->natural);
    r->natural_ratio = fmax(r->natural_ratio, c->natural * t->h / w->min_separation);
    r->violation = fmax(r->violation, c->violation);
    r->solve_check = fmax(r->solve_check, c->solve_check);
    r->active_hash = (int64_t)c->active_hash;
    r->active = c->active;
}

/// Of whatever way the motion was come to: contacts that it left friction out of have none, and are judged like the others.
static qpc_status count_friction(qpc_world *w, const qpc_qp *qp, double h, const qpc_certificate *rows, qpc_error *err) {
    qpc_rub *rub = &w->rub;
    bool whole = qpc_rub_is_whole(w), none = rub->row.count == 0;
    if (none && whole) return QPC_OK;
    qpc_status st = whole ? QPC_OK : qpc_rub_complete(w, h, err);
    if (st != QPC_OK) return st;
    const qpc_friction friction = {rub->row.count, rub->row.data, rub->mu.data, rub->start.data, rub->column.data,
                                   rub->value.data, rub->u0.data};
    qpc_friction_certificate c = qpc_certify_friction(qp, &friction, w->dv, w->rows.lambda, rub->beta.data, rows->scale);
    w->report->friction_natural = fmax(w->report->friction_natural, c.natural);
    w->report->friction_defect = fmax(w->report->friction_defect, c.defect);
    w->report->sticking = c.sticking;
    w->report->sliding = c.sliding;
    double enough = w->solver.tolerance * w->min_separation / h; // as for rows
    bool met = c.natural <= enough && rows->natural <= enough && rows->stat <= QPC_STAT_TOLERANCE;
    if (met) w->rub.unmet = false; // nobody saw it, but it is met
    if (none) rub->row.count = rub->beta.count = 0; // an impact of theirs has no friction either
    return QPC_OK;
}

/// Positions and forces of the contacts that have a row, for readers.
static qpc_status publish_contacts(qpc_world *w, double h, qpc_error *err) {
    const qpc_rows *rows = &w->rows;
    int32_t most = w->held.count + w->responses.count;
    if (most > w->contact_info_capacity) {
        int32_t capacity = most + most / 2 + 16;
        qpc_contact_info *grown = qpc_realloc_array(w->contact_info, (size_t)capacity, sizeof *grown);
        if (grown == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d contacts", capacity);
        w->contact_info = grown;
        w->contact_info_capacity = capacity;
    }
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    qpc_keyed *list = qpc_arena_array(&w->arena, 2 * (size_t)rows->m, sizeof *list);
    if (list == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d contacts", rows->m);
    int32_t count = 0;
    for (int32_t s = 0; s < w->springs.count; s++) w->limit_force[s] = qpc_springs_limit_force(&w->springs, s, w->x);
    for (int32_t i = 0; i < rows->m; i++) {
        if (rows->kind[i] == QPC_ROW_CONTACT) list[count++] = (qpc_keyed){w->held.data[rows->source[i]].key, i};
        if (rows->kind[i] == QPC_ROW_STRAIN_MAX) w->limit_force[rows->source[i]] += rows->lambda[i] / h;
        if (rows->kind[i] == QPC_ROW_STRAIN_MIN) w->limit_force[rows->source[i]] -= rows->lambda[i] / h;
    }
    list = qpc_keyed_sort(list, list + rows->m, count); // rows of one pair in the order they were made
    for (int32_t i = 0; i < count; i++) {
        const qpc_contact *c = &w->held.data[rows->source[list[i].item]];
        qpc_contact_info *out = &w->contact_info[i];
        qpc_vec3 at = v3(0.0, 0.0, 0.0);
        for (int k = 0; k < qpc_contact_split(c); k++) at = v3_madd(at, c->weight[k], v3_load(w->x + 3 * c->node[k]));
        int32_t row = list[i].item, rub = qpc_rub_of_row(&w->rub, row);
        double bounce = row < w->bounce.count ? w->bounce.data[row] : 0.0;
        *out = (qpc_contact_info){.kind = c->kind, .gap = qpc_contact_gap_at(c, w->x) - c->separation,
                                  .force = (rows->lambda[row] + bounce) / h, .key = c->key};
        memcpy(out->body, c->surface, sizeof out->body);
        memcpy(out->feature, c->feature, sizeof out->feature);
        v3_store(out->position, at);
        v3_store(out->normal, c->n);
        if (rub >= 0) v3_store(out->friction, v3_scale(1.0 / h, qpc_rub_impulse(&w->rub, rub)));
    }
    qpc_arena_rewind(&w->arena, mark);
    w->contact_info_count = qpc_obstacles_publish(w, h, w->contact_info, count);
    return QPC_OK;
}

/// The outcome of a step is the worst of its parts: fail-safe, relaxed, stalled, iteration limit, optimal.
static void worsen(qpc_step_report *r, int64_t outcome) {
    static const int rank[] = {[QPC_STEP_OPTIMAL] = 0, [QPC_STEP_ITERATION_LIMIT] = 1, [QPC_STEP_STALLED] = 2,
                               [QPC_STEP_RELAXED] = 3, [QPC_STEP_FAILSAFE] = 4};
    if (rank[outcome] > rank[r->outcome]) r->outcome = outcome;
}

/// A cut motion keeps its velocities, unless energy would come of it: who is stopped in the air and falls on in
/// velocity alone would be shot away later. Then what was cut is slowed down.
static void brake(qpc_world *w, const qpc_trial *t, const double *cut, double *v1) {
    double part = 1.0, kinetic = 0.0;
    for (int32_t i = 0; i < w->body_count; i++) part = fmin(part, cut[i]);
    double gain = qpc_world_energy(w, w->x1, v1, w->pose1, NULL, NULL, NULL) - w->energy - part * fmax(0.0, t->work);
    for (int32_t pass = 0; pass < 2; pass++) { // energy of what was cut, then its velocities
        if (pass == 1 && !(gain > 0.0)) return;
        double factor = gain < kinetic ? sqrt(1.0 - gain / kinetic) : 0.0;
        for (int32_t i = 0; i < w->body_count; i++) {
            const qpc_body *body = &w->bodies[i];
            if (body->motion == QPC_RIGID && cut[i] < 1.0) {
                qpc_rigid_state *end = &w->pose1[body->rigid];
                if (pass == 0) kinetic += qpc_rigid_energy(&w->rigids[body->rigid].inertia, end);
                else {
                    end->v = v3_scale(factor, end->v);
                    end->w = v3_scale(factor, end->w);
                }
            }
            if (body->motion != QPC_DYNAMIC || cut[i] >= 1.0) continue;
            for (int32_t k = body->first_node; k < body->first_node + body->node_count; k++) {
                if (w->row_dof[k] < 0) continue;
                if (pass == 0) kinetic += 0.5 * w->mass[k] * v3_norm2(v3_load(v1 + 3 * k));
                else v3_store(v1 + 3 * k, v3_scale(factor, v3_load(v1 + 3 * k)));
            }
        }
    }
}

/// Out of budget velocities are what the way is: those of an iterate that did not go its way say nothing.
static void go_as_far(qpc_world *w, const double *cut, double *v1) {
    for (int32_t i = 0; i < w->body_count; i++) {
        const qpc_body *body = &w->bodies[i];
        if (!(cut[i] < 1.0) || !qpc_body_is_free(body)) continue;
        if (body->motion == QPC_RIGID) {
            qpc_rigid_state *end = &w->pose1[body->rigid];
            end->v = v3_scale(cut[i], end->v);
            end->w = v3_scale(cut[i], end->w);
        }
        for (int32_t k = 3 * body->first_node; k < 3 * (body->first_node + body->node_count) && body->motion == QPC_DYNAMIC; k++)
            if (w->row_dof[k / 3] >= 0) v1[k] *= cut[i];
    }
}

/// Take over x1 and v + dv. cut: factors of bodies whose motion the fail-safe shortened, or NULL.
static qpc_status commit(qpc_world *w, qpc_trial *t, const double *cut, qpc_error *err) {
    int64_t since = qpc_clock_ns(CLOCK_MONOTONIC);
    qpc_qp qp = qpc_rows_qp(&w->rows, &w->sys, w->b);
    qpc_certificate certificate;
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    if (w->rub.row.count > 0 || w->responses.count > 0) { // dv and lambda answer b less what friction takes
        double *load = qpc_arena_array(&w->arena, (size_t)qp.n, sizeof *load);
        if (load == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for the certificate");
        qpc_rub_load(&w->rub, qp.n, w->b, load);
        qpc_obstacles_add_load(w, load);
        qp.b = load;
    }
    qpc_status st = qpc_certify(&qp, w->dv, w->rows.lambda, &w->arena, &certificate, err);
    if (st == QPC_OK) st = count_friction(w, &qp, t->h, &certificate, err);
    qpc_arena_rewind(&w->arena, mark);
    if (st != QPC_OK) return st;
    count_certificate(w, t, &certificate);
    if (w->rub.unmet) w->report->friction_missed = 1;
    if (w->rub.unmet && w->rub.cut_short) w->report->exhausted = 1;

    double *v1 = w->dv_best;
    for (int32_t i = 0; i < 3 * w->free_count; i++) v1[i] = w->v[i] + w->dv[i];
    qpc_still_stop(w, v1);
    if (cut != NULL) { // positions were shortened: what that changes of the energy is set apart
        if (t->exhausted) go_as_far(w, cut, v1);
        brake(w, t, cut, v1);
        double energy = qpc_world_energy(w, w->x1, v1, w->pose1, &t->kinetic, &t->potential, &t->elastic);
        t->work_pushed += energy - t->energy;
        t->energy = energy;
        t->elastic_most = fmax(t->elastic_most, t->elastic);
    } else {
        qpc_lap(&since, &w->report->ns_certify);
        qpc_rigid_velocities(w, w->pose1, v1);
        st = qpc_step_bounce(w, t, v1, err);
        qpc_rigid_set_velocities(w, v1, w->pose1);
        qpc_lap(&since, &w->report->ns_solve);
        if (st != QPC_OK) return st;
    }
    for (int32_t i = 0; i < 3 * w->moving_count; i++)
        if (!isfinite(w->x1[i])) return qpc_fail(err, QPC_ERR_NUMERIC, "position of node %d is not finite", i / 3);
    if (!qpc_motion_is_proven(w)) w->report->proven = 0;
    w->report->toi_margin = fmin(w->report->toi_margin, t->near);
    qpc_lap(&since, &w->report->ns_certify);
    double gap = w->solver.reach;
    bool nearer;
    if ((st = qpc_motion_find_end(w, &gap, &nearer, err)) != QPC_OK) return st;
    qpc_lap(&since, &w->report->ns_detect);
    w->near_valid = false; // who needs the contacts here asks for them
    qpc_lost_keep(w);
    w->proof = false; // of the motion from an x that is past
    qpc_motion_commit(w, t->h, cut);
    memcpy(w->x, w->x1, 3 * (size_t)w->moving_count * sizeof(double));
    memcpy(w->v, v1, 3 * (size_t)w->free_count * sizeof(double));
    if (w->rigid_count > 0) memcpy(w->pose, w->pose1, (size_t)w->rigid_count * sizeof *w->pose);
    qpc_rigid_vertex_velocities(w, w->pose, w->x, w->v);
    for (int32_t i = 3 * w->live_count; i < 3 * w->moving_count; i++) w->v[i] = w->v_frame[i];
    w->gained += t->energy - w->energy - t->work - t->work_pushed;
    w->energy = t->energy;
    w->work += t->work;
    w->work_most = fmax(w->work_most, fabs(w->work));
    w->work_pushed += t->work_pushed;
    w->elastic_most = t->elastic_most;
    w->height_low = t->height_low;
    w->height_high = t->height_high;
    for (int32_t i = 0; i < 3 * w->pin_count; i++) w->reactions[i] /= t->h;
    qpc_lap(&since, &w->report->ns_certify);

    qpc_step_report *r = w->report;
    r->kinetic = t->kinetic;
    r->potential = t->potential;
    r->elastic = t->elastic;
    r->energy_scale = t->energy_scale;
    r->energy_step = t->energy_step;
    r->energy_drift = t->energy_drift;
    r->passes += t->passes;
    r->newton += t->newton;
    r->contacts = w->held.count + w->responses.count;
    r->rows = w->rows.m;
    r->strain_rows = w->rows.m - w->held.count - qpc_joints_rows(w);
    r->joint_rows = qpc_joints_rows(w);
    r->relaxed = fmax(r->relaxed, fmax(fmax(t->relaxation, t->unmeetable), fmax(t->apart / t->h, t->given)));
    bool last = !(t->left > t->h), gains = last ? qpc_trial_overdraws(w, t) : qpc_trial_gains(w, t);
    if (t->limited || gains || certificate.natural > w->solver.tolerance * w->min_separation / t->h * 1.0000001)
        worsen(r, QPC_STEP_ITERATION_LIMIT);
    if (!(certificate.stat <= QPC_STAT_TOLERANCE)) worsen(r, QPC_STEP_ITERATION_LIMIT);
    if (w->rub.unmet) worsen(r, QPC_STEP_ITERATION_LIMIT); // the motion that is taken misses Coulomb's law
    if (nearer) worsen(r, QPC_STEP_ITERATION_LIMIT);
    if (t->stalled) worsen(r, QPC_STEP_STALLED);
    if (t->relaxed || t->unmeetable > 0.0 || t->given > 0.0 || t->apart > 0.0) worsen(r, QPC_STEP_RELAXED);
    if (st == QPC_OK && t->apart > 0.0) st = qpc_step_keep_open(w, t->apart_joint, err);
    if (cut != NULL || t->held_back > 0) worsen(r, QPC_STEP_FAILSAFE);
    if (gap < w->solver.reach) r->min_gap = fmin(r->min_gap, gap);
    return st;
}

/// Last resort: cut the motion before its first impact, group by group.
static qpc_status commit_cut(qpc_world *w, qpc_trial *t, qpc_error *err) {
    double *scale = qpc_arena_array(&w->arena, (size_t)w->body_count, sizeof *scale);
    int32_t groups = 0;
    if (scale == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for the fail-safe");
    int64_t since = qpc_clock_ns(CLOCK_MONOTONIC);
    qpc_status st = qpc_failsafe_cut(w, t->h, t->exhausted, scale, &groups, err);
    if (st == QPC_OK) st = qpc_motion_test(w, QPC_PASS_FACTOR, &t->near, err);
    qpc_lap(&since, &w->report->ns_detect);
    if (st != QPC_OK) return st;
    w->report->failsafe += groups;
    for (int32_t i = 0; i < w->body_count; i++) w->report->failsafe_scale = fmin(w->report->failsafe_scale, scale[i]);
    return commit(w, t, scale, err);
}

/// Hold back what drives bodies into the impacts of the last attempt, more from round to round; in the last one
/// nothing is pushed out either, so that to stand still satisfies every row. early: before smaller steps are tried, also where
/// a motion only squeezes; not at all if nothing can be held back.
static qpc_status attempt_held_back(qpc_world *w, qpc_trial *t, bool early, qpc_error *err) {
    bool any = !early;
    for (int32_t round = 0; round < QPC_HOLD_ROUNDS && (t->impact || t->doubtful || (early && t->squeezed)); round++) {
        bool last = round == QPC_HOLD_ROUNDS - 1;
        int32_t count = 0;
        qpc_status st = t->impact || t->squeezed ? qpc_failsafe_hold(w, round, &count, err) : QPC_OK;
        if (st != QPC_OK) return st;
        any = any || count > 0;
        if (count == 0 && !(last && any)) continue;
        if ((st = qpc_trial_attempt_cautiously(w, t, last, err)) != QPC_OK) return st;
        if (last || t->impact || t->exhausted) continue;
        bool rushes; // no answer either, and not to be found by its impacts
        if ((st = qpc_press_rushes(w, t, &rushes, err)) != QPC_OK) return st;
        if (!rushes) continue;
        t->impact = true;
        w->probe.count = 0;
    }
    return QPC_OK;
}

/// Something driven lags behind: what contradicted in the step before will do so again.
static bool lags(const qpc_world *w) {
    for (int32_t i = 0; i < w->body_count; i++)
        if (v3_norm2(w->bodies[i].owed) > 0.0 || v3_norm2(w->bodies[i].owed_turn) > 0.0) return true;
    for (int32_t i = 0; i < w->pin_count; i++)
        if (v3_norm(v3_sub(w->pins[i].target, v3_load(w->x + 3 * w->pins[i].node))) > 1.01 * w->dt * v3_norm(w->pins[i].velocity))
            return true;
    return false;
}

/// Count what is held back in the motion that is taken over.
static int32_t note_hold(qpc_world *w) {
    int32_t count = 0;
    double least = 1.0;
    for (int32_t i = 0; i < w->body_count; i++) {
        if (!qpc_motion_is_driven(&w->bodies[i]) || !(w->bodies[i].hold < 1.0)) continue;
        least = fmin(least, w->bodies[i].hold);
        count++;
    }
    for (int32_t i = 0; i < w->pin_count; i++) {
        if (!(w->pins[i].hold < 1.0)) continue;
        least = fmin(least, w->pins[i].hold);
        count++;
    }
    w->report->failsafe += count;
    w->report->failsafe_scale = fmin(w->report->failsafe_scale, least);
    return count;
}

/// Keep a state inside the step for whoever wants them: handed out when the step has succeeded.
static qpc_status keep_substate(qpc_world *w, double time, qpc_error *err) {
    if (w->env.substep == NULL) return QPC_OK;
    int32_t size = 3 * w->node_count;
    if (!qpc_array_reserve(&w->substates, (int64_t)w->substates.count + 1 + size))
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory for a state inside a step");
    double *to = w->substates.data + w->substates.count;
    to[0] = time;
    memcpy(to + 1, w->x, (size_t)size * sizeof(double));
    w->substates.count += 1 + size;
    return QPC_OK;
}

/// A motion that hits nothing and gains energy all the same. Where something rubs a little is reported, not stopped: what slides
/// would never go on again (a cable that slips over a drum).
static bool gains_at_the_bottom(const qpc_world *w, const qpc_trial *t) {
    return !t->impact && qpc_trial_gains(w, t) && (w->rub.row.count == 0 || t->excess > MOST_RUBBED);
}

/// Whether contacts that its prediction loses are looked for in a motion (T44).
static bool may_lose_contacts(const qpc_world *w) { return qpc_is_implicit(w) && !w->solver.position_based && !qpc_has_cloth(w); }

/// Whether a motion that proves too long for its contacts may be made in halves; of a budget, half must be left.
static bool may_be_divided(const qpc_world *w, int32_t depth) {
    if (!may_lose_contacts(w) || depth >= w->solver.halvings) return false;
    return w->solver.budget <= 0 || 2 * (int64_t)qpc_step_budget_left(w) > w->solver.budget;
}

/// Times that a motion may be halved. Light, slender bodies on joints turn so fast about themselves that a few halvings find no answer at all:
/// before all stands for that they get more, as long as the step has not been halved often.
static int32_t halvings_of(const qpc_world *w, const qpc_trial *t) {
    bool more = t->absurd && w->joint_count > 0 && w->solver.halvings > 0 && w->report->halvings < MOST_ABSURD;
    return w->solver.halvings + (more ? ABSURD_HALVINGS : 0);
}

/// Bodies were found that cannot be stepped: the whole step is made again without them, so that the others go undivided what they can.
static qpc_status give_up_part(qpc_world *w, const qpc_trial *t, qpc_arena_mark mark) {
    qpc_trial_count(w, t);
    qpc_arena_rewind(&w->arena, mark);
    return QPC_OK;
}

/// Ends early, with nothing taken over, where w->still_found.
static qpc_status advance(qpc_world *w, double h, double left, int32_t depth, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    saved_state saved;
    bool watched = may_lose_contacts(w);
    qpc_trial t = {.h = h, .left = left, .watched = watched, .divided = watched && depth > 0, .divisible = may_be_divided(w, depth)};
    qpc_status st = save_state(w, &saved, err);
    if (st != QPC_OK) return st;
    qpc_motion_release(w);
    w->recovery = w->solver.recovery_speed;
    st = qpc_press_attempt(w, &t, err);
    if (st == QPC_OK && t.absurd && !t.exhausted && qpc_still_find_again(w)) return give_up_part(w, &t, mark);
    // Orders that contradicted before and still do, or that rows gave way to: smaller steps would not help.
    if (st == QPC_OK && !t.exhausted && (t.squeezed || (t.impact && (t.walls || lags(w)))))
        st = attempt_held_back(w, &t, t.squeezed || !lags(w), err);
    // An unsolved QP that gains energy: the same.
    if (st == QPC_OK && t.doubtful && t.limited && !t.impact && !t.exhausted) st = qpc_trial_attempt_cautiously(w, &t, true, err);
    if (st == QPC_OK && t.pushes) st = qpc_trial_attempt_slowly(w, &t, err);
    if (st == QPC_OK && t.pushes && qpc_trial_gains(w, &t) && !t.impact && !t.exhausted) st = qpc_trial_attempt_cautiously(w, &t, true, err);
    if (st == QPC_OK && (t.impact || t.tight || t.swerves || t.too_long || t.apart > 0.0 || qpc_trial_overdraws(w, &t)) && depth < halvings_of(w, &t) && !t.exhausted) {
        restore_state(w, &saved);
        w->report->halvings++;
        qpc_trial_count(w, &t);
        st = advance(w, 0.5 * h, left, depth + 1, err);
        if (st == QPC_OK && !w->still_found) st = keep_substate(w, w->time + (w->dt - left) + 0.5 * h, err);
        if (st == QPC_OK && !w->still_found) st = advance(w, 0.5 * h, left - 0.5 * h, depth + 1, err);
        qpc_arena_rewind(&w->arena, mark);
        return st;
    }
    if (st == QPC_OK && (t.impact || t.doubtful) && !t.cautious && !t.exhausted) st = qpc_trial_attempt_cautiously(w, &t, false, err);
    if (st == QPC_OK && (t.impact || t.doubtful) && !t.exhausted) st = attempt_held_back(w, &t, false, err);
    if (st == QPC_OK && !t.exhausted && gains_at_the_bottom(w, &t)) st = qpc_trial_attempt_patiently(w, &t, err);
    if (st == QPC_OK && !t.exhausted && gains_at_the_bottom(w, &t)) st = qpc_trial_attempt_downhill(w, &t, err);
    if (st == QPC_OK && t.exhausted) st = qpc_step_wind_up(w, &t, err);
    else if (st == QPC_OK && gains_at_the_bottom(w, &t)) st = qpc_step_slow_down(w, &t, err);
    else if (st == QPC_OK && t.absurd) {
        if (qpc_still_find(w, &t)) return give_up_part(w, &t, mark);
        qpc_step_stand_still(w, &t);
        w->all_stood = true;
    }
    if (st == QPC_OK) {
        t.held_back = note_hold(w);
        st = t.impact ? commit_cut(w, &t, err) : commit(w, &t, NULL, err);
    }
    qpc_arena_rewind(&w->arena, mark);
    return st;
}

// ---- the step ----

static void count_detection(qpc_world *w) {
    qpc_detect_counts c = qpc_detector_counts(w->detector);
    w->report->candidates = (int64_t)c.candidates;
    w->report->vt_tests = (int64_t)c.vt_tests;
    w->report->ee_tests = (int64_t)c.ee_tests;
    w->report->list_rebuilds = (int64_t)c.list_rebuilds;
}

/// Figures of the whole step, from the state after it.
static void finish_report(qpc_world *w) {
    qpc_step_report *r = w->report;
    r->step = w->step;
    r->time = w->time;
    r->hash = (int64_t)w->hash;
    r->work = w->work;
    r->work_pushed = w->work_pushed;
    r->lag = qpc_motion_lag(w);
    qpc_vec3 momentum = v3(0.0, 0.0, 0.0);
    for (int32_t i = 0; i < w->live_count; i++) { // vertices of rigid bodies have no mass of their own
        qpc_vec3 v = v3_load(w->v + 3 * i);
        momentum = v3_madd(momentum, w->mass[i], v);
        r->max_speed = fmax(r->max_speed, v3_norm(v));
    }
    for (int32_t i = 0; i < w->rigid_count; i++) momentum = v3_madd(momentum, w->rigids[i].inertia.mass, w->pose[i].v);
    r->momentum_x = momentum.x;
    r->momentum_y = momentum.y;
    r->momentum_z = momentum.z;
    qpc_springs_tension(&w->springs, w->x, w->tension);
    for (int32_t i = 0; i < w->body_count; i++) { // bending springs apart
        const qpc_body *body = &w->bodies[i];
        for (int32_t s = body->first_spring; s < body->first_spring + body->stretch_count; s++) {
            qpc_vec3 n;
            r->max_strain = fmax(r->max_strain, fabs(qpc_spring_direction(w, s, w->x, &n) / w->rest_length[s] - 1.0));
        }
    }
    r->arena_bytes = (int64_t)w->arena.high_water;
}

static qpc_step_report empty_report(const qpc_world *w) {
    return (qpc_step_report){.failsafe_scale = 1.0, .toi_margin = 1.0, .proven = 1, .restitution_scale = 1.0, .min_gap = w->solver.reach,
                             .budget = w->solver.budget};
}

/// Of what was tried only the work counts: no half of it is a part of the motion.
static void begin_again(qpc_world *w) {
    qpc_step_report *r = w->report, spent = *r;
    *r = empty_report(w);
    r->qps = spent.qps;
    r->solver_iterations = spent.solver_iterations;
    r->set_changes = spent.set_changes;
    r->factorizations = spent.factorizations;
    r->solves = spent.solves;
    r->fallbacks = spent.fallbacks;
    r->newton = spent.newton;
    r->passes = spent.passes;
    r->ns_detect = spent.ns_detect;
    r->ns_rows = spent.ns_rows;
    r->ns_assemble = spent.ns_assemble;
    r->ns_solve = spent.ns_solve;
    r->ns_certify = spent.ns_certify;
    w->conflict_info_count = 0;
}

static qpc_status advance_whole(qpc_world *w, qpc_error *err) {
    w->still_found = w->all_stood = false;
    w->substates.count = 0;
    w->rub.missed = 0;
    w->rub.cut_short = false;
    w->gained = 0.0;
    qpc_rub_forget_contradiction(&w->rub);
    w->sys.guessed = w->sys.left_known = false;
    qpc_motion_begin_step(w);
    return advance(w, w->dt, w->dt, 0, err);
}

qpc_status qpc_world_step(qpc_world *w, qpc_step_report *report, qpc_error *err) {
    int64_t cpu = qpc_clock_ns(CLOCK_THREAD_CPUTIME_ID), wall = qpc_clock_ns(CLOCK_MONOTONIC);
    uint64_t allocations = qpc_mem_thread_allocations();
    qpc_step_report unused;
    w->report = report != NULL ? report : &unused;
    *w->report = empty_report(w);
    w->conflict_info_count = 0;
    qpc_arena_reset(&w->arena);
    qpc_detector_counts_reset(w->detector);

    saved_state saved;
    qpc_status st = qpc_rigid_widen(w, err);
    if (st == QPC_OK) st = save_state(w, &saved, err);
    if (st != QPC_OK) return st;
    qpc_still_begin(w);
    st = advance_whole(w, err);
    while (st == QPC_OK && w->still_found) {
        restore_state(w, &saved);
        w->near_valid = false;
        begin_again(w);
        st = advance_whole(w, err);
    }
    if (st == QPC_OK) st = qpc_step_find_forces(w, err);
    if (st == QPC_OK) st = publish_contacts(w, w->warm_h, err); // of the last part of the step
    if (st == QPC_OK) st = qpc_step_keep_given(w, err);
    if (st == QPC_OK) qpc_joints_publish(w, w->warm_h);
    qpc_still_end(w, st == QPC_OK);
    if (st != QPC_OK) {
        restore_state(w, &saved);
        w->near_valid = false;
        if (st == QPC_ERR_NUMERIC) qpc_world_name_cause(w, err);
        return st;
    }
    int64_t since = qpc_clock_ns(CLOCK_MONOTONIC);
    w->step++;
    if (w->factor_first > 0) w->factor_first--;
    for (int32_t i = 0; i < w->substates.count; i += 1 + 3 * w->node_count)
        w->env.substep(w->env.user, w->step, w->substates.data[i], w->substates.data + i + 1, w->node_count);
    w->time += w->dt;
    w->hash = qpc_world_state_hash(w);
    count_detection(w);
    finish_report(w);
    qpc_lap(&since, &w->report->ns_certify);
    w->report->allocations = (int64_t)(qpc_mem_thread_allocations() - allocations);
    w->report->ns_wall = qpc_clock_ns(CLOCK_MONOTONIC) - wall;
    w->report->ns_total = qpc_clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
    return QPC_OK;
}
