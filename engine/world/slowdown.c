/// A step out of budget: its best iterate may gain energy. Groups of bodies that do are slowed down, the rest goes its way.
///
/// Runs on the worker in the world.
#include "engine/world/attempt.h"
#include "engine/world/elastic.h"

#include <string.h>

static const double LEAST_PART = 0.1; // of its way that a group goes; less is nothing

typedef struct groups { // of free bodies that rows join
    int32_t *of;        // (bodies) the lowest body of the group, -1: not free
    double *energy;     // (bodies) at the start
    double *gain;       // (bodies) summed at the lowest body of the group
    double *part;       // (bodies) of its way that the group goes
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
    // What a step out of budget came to is where the next one goes on from, unless it ran away.
    if (!t->exhausted || t->runaway) w->warm_count = w->kept.count = 0;
    t->given = qpc_step_given(w, t->h);
    qpc_trial_test_energy(w, t);
}

/// Kinetic, gravitational and elastic energy of one body, J; of a rigid one in `pose`.
static double energy_of(const qpc_world *w, const qpc_body *body, const double *x, const double *v, const double *dv,
                        const qpc_rigid_state *pose) {
    double sum = 0.0;
    if (body->motion == QPC_RIGID) {
        const qpc_rigid_part *part = &w->rigids[body->rigid];
        const qpc_rigid_state *state = &pose[body->rigid];
        return qpc_rigid_energy(&part->inertia, state) - part->inertia.mass * v3_dot(w->gravity, state->x);
    }
    for (int32_t i = body->first_node; i < body->first_node + body->node_count; i++) {
        qpc_vec3 velocity = v3_load(v + 3 * i);
        if (dv != NULL) velocity = v3_add(velocity, v3_load(dv + 3 * i));
        sum += 0.5 * w->mass[i] * v3_norm2(velocity) - w->mass[i] * v3_dot(w->gravity, v3_load(x + 3 * i));
    }
    return sum + qpc_elastic_energy_of(w, (int32_t)(body - w->bodies), x);
}

static bool join(const qpc_world *w, qpc_arena *arena, groups *g) {
    g->of = qpc_arena_array(arena, (size_t)w->body_count, sizeof *g->of);
    g->energy = qpc_arena_array(arena, 3 * (size_t)w->body_count, sizeof(double));
    if (g->of == NULL || g->energy == NULL) return false;
    g->gain = g->energy + w->body_count;
    g->part = g->gain + w->body_count;
    g->count = 0;
    for (int32_t i = 0; i < w->body_count; i++) {
        bool free_one = qpc_body_is_free(&w->bodies[i]);
        g->of[i] = free_one ? i : -1;
        g->energy[i] = free_one ? energy_of(w, &w->bodies[i], w->x, w->v, NULL, w->pose) : 0.0;
        g->part[i] = 1.0;
    }
    for (int32_t i = 0; i < w->rows.m; i++) {
        if (w->rows.kind[i] != QPC_ROW_CONTACT) continue;
        const int32_t *side = w->held.data[w->rows.source[i]].surface;
        if (g->of[side[0]] >= 0 && g->of[side[1]] >= 0) qpc_group_join(g->of, side[0], side[1]);
    }
    for (int32_t i = 0; i < w->body_count; i++) {
        if (g->of[i] < 0) continue;
        g->of[i] = qpc_group_of(g->of, i);
        g->count += g->of[i] == i;
    }
    return true;
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
    bool stands = g->part[group] < LEAST_PART;
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
        if (!contact && g->of[qpc_world_body_of_spring(w, w->rows.source[i])] != group) continue;
        int32_t rub = contact ? qpc_rub_of_row(&w->rub, i) : -1;
        w->rows.lambda[i] = 0.0;
        if (rub >= 0) w->rub.beta.data[2 * rub] = w->rub.beta.data[2 * rub + 1] = 0.0;
    }
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
        slow(w, t, g, i);
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
        for (int32_t i = 0; i < w->body_count && !any; i++) // a drift of many steps, or it makes no sense: all that move
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
