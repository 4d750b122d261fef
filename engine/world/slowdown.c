/// A step out of budget: its best iterate may gain energy. Groups of bodies that do are slowed down, the rest goes its way.
///
/// Runs on the worker in the world.
#include "engine/world/attempt.h"
#include "engine/world/elastic.h"
#include "engine/world/joints.h"

#include <string.h>

// Of its way that a group goes; less is nothing. What no attempt resolves goes on in small parts, or it would stand for good. Out of budget
// it stands sooner: of unsolved QPs neither way nor forces say much.
static const double LEAST_PART = 1e-3, LEAST_OF_BUDGET = 0.1;
static const double MOST_PAID = 0.99; // of its kinetic energy that a group pays

typedef struct groups { // of free bodies that rows join
    int32_t *of;        // (bodies) the lowest body of the group, -1: not free
    double *energy;     // (bodies) at the start
    double *gain;       // (bodies) summed at the lowest body of the group
    double *part;       // (bodies) of its way that the group goes
    bool *paid;         // (bodies) with its velocity
    int32_t count;
} groups;

/// A rigid body stands.
static void stop(qpc_world *w, const qpc_trial *t, int32_t rigid) {
    qpc_rigid_stop(w, rigid, w->dv);
    qpc_rigid_place_end(w, rigid, t->h, 0.0, w->dv);
}

void qpc_step_stand_still(qpc_world *w, qpc_trial *t) {
    for (int32_t i = 0; i < 3 * w->free_count; i++) {
        if (w->row_dof[i / 3] < 0) continue;
        w->dv[i] = -w->v[i];
        w->x1[i] = w->x[i];
    }
    for (int32_t i = 0; i < w->rigid_count; i++) stop(w, t, i);
    for (int32_t i = 0; i < w->rows.m; i++) w->rows.lambda[i] = 0.0;
    qpc_step_drop_friction(w);
    w->rub.unmet = w->rub.row.count > 0; // what stands without forces obeys no law
    // What a step out of budget came to is where the next one goes on from, unless it ran away.
    if (!t->exhausted || t->runaway) w->warm_count = w->kept.count = 0;
    t->given = qpc_step_given(w, t->h);
    qpc_trial_test_energy(w, t);
}

/// Kinetic energy of one body, J; of a rigid one in `pose`. *ret_mass: its mass, kg.
static double kinetic_of(const qpc_world *w, const qpc_body *body, const double *v, const double *dv, const qpc_rigid_state *pose,
                         double *ret_mass) {
    double sum = 0.0;
    *ret_mass = 0.0;
    if (body->motion == QPC_RIGID) {
        const qpc_rigid_part *part = &w->rigids[body->rigid];
        *ret_mass = part->inertia.mass;
        return qpc_rigid_energy(&part->inertia, &pose[body->rigid]);
    }
    for (int32_t i = body->first_node; i < body->first_node + body->node_count; i++) {
        qpc_vec3 velocity = v3_load(v + 3 * i);
        if (dv != NULL) velocity = v3_add(velocity, v3_load(dv + 3 * i));
        sum += 0.5 * w->mass[i] * v3_norm2(velocity);
        *ret_mass += w->mass[i];
    }
    return sum;
}

/// Gravitational and elastic energy.
static double potential_of(const qpc_world *w, const qpc_body *body, const double *x, const qpc_rigid_state *pose) {
    double sum = 0.0;
    if (body->motion == QPC_RIGID) return -w->rigids[body->rigid].inertia.mass * v3_dot(w->gravity, pose[body->rigid].x);
    for (int32_t i = body->first_node; i < body->first_node + body->node_count; i++)
        sum -= w->mass[i] * v3_dot(w->gravity, v3_load(x + 3 * i));
    return sum + qpc_elastic_energy_of(w, (int32_t)(body - w->bodies), x);
}

static double energy_of(const qpc_world *w, const qpc_body *body, const double *x, const double *v, const double *dv,
                        const qpc_rigid_state *pose) {
    double mass;
    return kinetic_of(w, body, v, dv, pose, &mass) + potential_of(w, body, x, pose);
}

/// of (bodies): free bodies joined by contact rows and joints, by their lowest; -1: not free.
static void join_bodies(const qpc_world *w, int32_t *of) {
    for (int32_t i = 0; i < w->body_count; i++) of[i] = qpc_body_is_free(&w->bodies[i]) ? i : -1;
    for (int32_t i = 0; i < w->rows.m; i++) {
        if (w->rows.kind[i] != QPC_ROW_CONTACT) continue;
        const int32_t *side = w->held.data[w->rows.source[i]].surface;
        if (of[side[0]] >= 0 && of[side[1]] >= 0) qpc_group_join(of, side[0], side[1]);
    }
    for (int32_t i = 0; i < w->joint_count; i++) {
        const qpc_joint *joint = &w->joints[i];
        for (int32_t p = 0, first = -1; p < joint->count; p++) {
            int32_t body = joint->body[p];
            if (body < 0 || of[body] < 0) continue;
            if (first >= 0) qpc_group_join(of, first, body);
            else first = body;
        }
    }
    for (int32_t i = 0; i < w->body_count; i++)
        if (of[i] >= 0) of[i] = qpc_group_of(of, i);
}

static bool join(const qpc_world *w, qpc_arena *arena, groups *g) {
    g->of = qpc_arena_array(arena, (size_t)w->body_count, sizeof *g->of);
    g->energy = qpc_arena_array(arena, 3 * (size_t)w->body_count, sizeof(double));
    g->paid = qpc_arena_array(arena, (size_t)w->body_count, sizeof *g->paid);
    if (g->of == NULL || g->energy == NULL || g->paid == NULL) return false;
    g->gain = g->energy + w->body_count;
    g->part = g->gain + w->body_count;
    g->count = 0;
    join_bodies(w, g->of);
    for (int32_t i = 0; i < w->body_count; i++) {
        g->energy[i] = g->of[i] >= 0 ? energy_of(w, &w->bodies[i], w->x, w->v, NULL, w->pose) : 0.0;
        g->part[i] = 1.0;
        g->paid[i] = false;
        g->count += g->of[i] == i;
    }
    return true;
}

/// Speed of what drives the free side of a contact with a force, m/s.
static double drive_of(const qpc_world *w, const qpc_contact *c) {
    double fast = 0.0;
    for (int k = 0; k < QPC_CONTACT_NODES; k++)
        if (c->weight[k] != 0.0 && c->node[k] >= w->live_count) fast = fmax(fast, v3_norm(v3_load(w->v_frame + 3 * c->node[k])));
    return fast;
}

typedef struct pushed { // a group of bodies that something driven pushes
    double lost, rise;  // change of its energy, and of the potential one, J
    double mass, work;  // kg; J, as the multipliers have it
    double drive;       // speed of what drives it, m/s
    double way, before; // of its fastest node over h, and its speed before, m/s
} pushed;

static void measure_body(const qpc_world *w, double h, int32_t body_index, pushed *p) {
    const qpc_body *body = &w->bodies[body_index];
    double m, kinetic = kinetic_of(w, body, w->v, w->dv, w->pose1, &m) - kinetic_of(w, body, w->v, NULL, w->pose, &m);
    double potential = potential_of(w, body, w->x1, w->pose1) - potential_of(w, body, w->x, w->pose);
    p->rise += potential;
    p->lost += kinetic + potential;
    p->mass += m;
    for (int32_t i = body->first_node; i < body->first_node + body->node_count; i++) {
        p->way = fmax(p->way, v3_norm(v3_sub(v3_load(w->x1 + 3 * i), v3_load(w->x + 3 * i))) / h);
        p->before = fmax(p->before, v3_norm(v3_load(w->v + 3 * i)));
    }
}

/// Where nodes go further than the driver explains, potential is not its doing either: it goes with the square of the way.
static double bound_of(const qpc_world *w, double h, const pushed *p) {
    double explained = p->before + h * v3_norm(w->gravity) + qpc_press_explains(w, h, p->drive);
    double part = p->way > explained ? explained / p->way : 1.0;
    return fmax(0.0, p->rise) * part * part + p->mass * p->drive * p->drive;
}

void qpc_step_bound_work(qpc_world *w, double h, double *contact) {
    size_t n = (size_t)w->body_count;
    bool any = false;
    for (size_t i = 0; i < n; i++) any = any || contact[i] != 0.0;
    if (!any) return;
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    int32_t *of = qpc_arena_array(&w->arena, n, sizeof *of);
    pushed *all = qpc_arena_array(&w->arena, n, sizeof *all); // of a group, at its lowest body
    if (of == NULL || all == NULL) { // it answers for nothing
        memset(contact, 0, n * sizeof *contact);
        qpc_arena_rewind(&w->arena, mark);
        return;
    }
    memset(all, 0, n * sizeof *all);
    join_bodies(w, of);
    for (int32_t i = 0; i < w->rows.m; i++) {
        if (w->rows.kind[i] != QPC_ROW_CONTACT || w->rows.lambda[i] == 0.0) continue;
        const qpc_contact *c = &w->held.data[w->rows.source[i]];
        int32_t at = of[c->surface[0]] >= 0 ? of[c->surface[0]] : of[c->surface[1]];
        if (at >= 0) all[at].drive = fmax(all[at].drive, drive_of(w, c));
    }
    for (int32_t i = 0; i < w->body_count; i++) {
        if (of[i] < 0) continue;
        measure_body(w, h, i, &all[of[i]]);
        all[of[i]].work += contact[i];
        contact[i] = 0.0;
    }
    for (int32_t i = 0; i < w->body_count; i++)
        if (of[i] == i) contact[i] = fmin(fmax(all[i].work, fmin(0.0, all[i].lost)), bound_of(w, h, &all[i]));
    qpc_arena_rewind(&w->arena, mark);
}

static bool is_of(const groups *g, int32_t group, const int32_t side[2]) {
    return (g->of[side[0]] == group) || (g->of[side[1]] == group);
}

static void slow_rigid(qpc_world *w, const qpc_trial *t, int32_t rigid, bool stands) {
    double *dv = w->dv + w->rigids[rigid].dof;
    const qpc_rigid_state *now = &w->pose[rigid];
    if (stands) {
        stop(w, t, rigid);
        return;
    }
    v3_store(dv, v3_scale(0.5, v3_sub(v3_load(dv), now->v)));
    v3_store(dv + 3, v3_scale(0.5, v3_sub(v3_load(dv + 3), now->w)));
    qpc_rigid_place_end(w, rigid, t->h, 1.0, w->dv);
}

/// Half of its way and velocity, or none of it and no forces.
static void slow(qpc_world *w, const qpc_trial *t, groups *g, int32_t group) {
    g->part[group] *= 0.5;
    bool stands = g->part[group] < (t->exhausted ? LEAST_OF_BUDGET : LEAST_PART);
    if (stands) g->part[group] = 0.0;
    for (int32_t k = group; k < w->body_count; k++) {
        const qpc_body *body = &w->bodies[k];
        if (g->of[k] != group) continue;
        if (body->motion == QPC_RIGID) {
            slow_rigid(w, t, body->rigid, stands);
            continue;
        }
        for (int32_t i = body->first_node; i < body->first_node + body->node_count; i++) {
            if (w->row_dof[i] < 0) continue;
            for (int32_t a = 3 * i; a < 3 * i + 3; a++) {
                w->dv[a] = stands ? -w->v[a] : 0.5 * (w->v[a] + w->dv[a]) - w->v[a];
                w->x1[a] = stands ? w->x[a] : w->x[a] + t->h * (w->v[a] + w->dv[a]);
            }
        }
    }
    for (int32_t i = 0; i < w->rows.m && stands; i++) {
        bool contact = w->rows.kind[i] == QPC_ROW_CONTACT;
        if (contact && !is_of(g, group, w->held.data[w->rows.source[i]].surface)) continue;
        if (!contact && g->of[qpc_world_body_of_row(w, i)] != group) continue;
        int32_t rub = contact ? qpc_rub_of_row(&w->rub, i) : -1;
        w->rows.lambda[i] = 0.0;
        if (rub >= 0) w->rub.unmet = true;
        if (rub >= 0) w->rub.beta.data[2 * rub] = w->rub.beta.data[2 * rub + 1] = 0.0;
    }
}

static double kinetic_of_group(const qpc_world *w, const groups *g, int32_t group) {
    double sum = 0.0, mass;
    for (int32_t k = group; k < w->body_count; k++)
        if (g->of[k] == group) sum += kinetic_of(w, &w->bodies[k], w->v, w->dv, w->pose1, &mass);
    return sum;
}

/// The velocity that a group ends with pays for a gain, once: its way stays what it is. False: that is not enough.
static bool pay(qpc_world *w, groups *g, int32_t group, double gain) {
    double kinetic = kinetic_of_group(w, g, group);
    if (g->paid[group] || !(gain < MOST_PAID * kinetic)) return false;
    double factor = sqrt(1.0 - gain / kinetic);
    g->paid[group] = true;
    for (int32_t k = group; k < w->body_count; k++) {
        const qpc_body *body = &w->bodies[k];
        if (g->of[k] != group) continue;
        if (body->motion == QPC_RIGID) {
            w->pose1[body->rigid].v = v3_scale(factor, w->pose1[body->rigid].v);
            w->pose1[body->rigid].w = v3_scale(factor, w->pose1[body->rigid].w);
            continue;
        }
        for (int32_t a = 3 * body->first_node; a < 3 * (body->first_node + body->node_count); a++)
            if (w->row_dof[a / 3] >= 0) w->dv[a] = factor * (w->v[a] + w->dv[a]) - w->v[a];
    }
    return true;
}

/// A drift of many steps is paid by all that move.
static bool pay_together(qpc_world *w, const qpc_trial *t, groups *g) {
    double kinetic = 0.0, gain = t->excess * t->energy_bound;
    bool any = false;
    for (int32_t i = 0; i < w->body_count; i++)
        if (g->of[i] == i) kinetic += kinetic_of_group(w, g, i);
    for (int32_t i = 0; i < w->body_count; i++)
        if (g->of[i] == i && g->part[i] > 0.0) any = pay(w, g, i, gain * (kinetic_of_group(w, g, i) / kinetic)) || any;
    return any;
}

static void measure(const qpc_world *w, const qpc_trial *t, groups *g) {
    for (int32_t i = 0; i < w->body_count; i++) g->gain[i] = 0.0;
    for (int32_t i = 0; i < w->body_count; i++)
        if (g->of[i] >= 0) g->gain[g->of[i]] += energy_of(w, &w->bodies[i], w->x1, w->v, w->dv, w->pose1) - g->energy[i] - t->work_of[i];
}

/// Slow what gains its share of what the step may not; false: nothing that still moves does.
static bool slow_those_that_gain(qpc_world *w, const qpc_trial *t, groups *g) {
    double share = 0.5 * QPC_ENERGY_TOLERANCE * t->energy_bound / g->count;
    bool any = false;
    for (int32_t i = 0; i < w->body_count; i++) {
        if (g->of[i] != i || !(g->part[i] > 0.0) || !(g->gain[i] > share)) continue;
        if (t->absurd || !pay(w, g, i, g->gain[i])) slow(w, t, g, i);
        any = true;
    }
    return any;
}

qpc_status qpc_step_slow_down(qpc_world *w, qpc_trial *t, qpc_error *err) {
    groups g;
    t->work_of = qpc_arena_array(&w->arena, (size_t)w->body_count, sizeof(double));
    if (t->work_of == NULL || !join(w, &w->arena, &g)) return qpc_fail(err, QPC_ERR_MEMORY, "no memory to slow %d bodies down", w->body_count);
    t->runaway = t->absurd;
    qpc_trial_test_energy(w, t);
    while (qpc_trial_gains(w, t) || t->absurd) {
        measure(w, t, &g);
        bool any = slow_those_that_gain(w, t, &g);
        any = any || (!t->absurd && pay_together(w, t, &g));
        for (int32_t i = 0; i < w->body_count && !any; i++) // that was not enough, or it makes no sense: all that move
            if (g.of[i] == i && g.part[i] > 0.0) slow(w, t, &g, i);
        for (int32_t i = 0; i < w->body_count; i++) any = any || (g.of[i] == i && g.part[i] > 0.0);
        qpc_trial_test_energy(w, t);
        t->absurd = qpc_trial_is_absurd(w, t);
        if (any) continue;
        qpc_step_stand_still(w, t);
        break;
    }
    t->work_of = NULL;
    for (int32_t i = 0; i < w->body_count && t->runaway; i++) // what ran away is not where the next step goes on from
        if (g.of[i] == i && g.part[i] == 0.0) w->warm_count = w->kept.count = 0;
    t->given = qpc_step_given(w, t->h);
    qpc_status st = qpc_motion_test(w, QPC_ACCEPT_FACTOR, NULL, err);
    t->impact = st == QPC_OK && w->probe.count > 0;
    return st;
}
