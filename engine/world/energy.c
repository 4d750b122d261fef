/// Work of the orders given to a world, reactions of fixed nodes, and the energy test (T6).
#include "engine/world/attempt.h"
#include "engine/world/elastic.h"
#include "engine/world/joints.h"
#include "engine/world/loads.h"
#include "engine/world/obstacles.h"

#include <string.h>

static const double ABSURD_SPEED = 10.0;  // times the fastest thing that explains it
static const double LEAST_ENERGY = 1e-12; // J, of a scale
static const double OF_NO_USE = 10.0;     // the same, of a change of velocity that no contradiction need be told from
static const double MOST_PUSHED = 1e-3;   // of the energy scale, by pushing out in a motion
static const double ABSURD_ENERGY = 10.0; // kinetic and elastic, times all the energy there is

/// Impulse of the fixed-point constraint of pin i on its node over the motion: K dv + J'lambda - b there.
static qpc_vec3 pin_impulse(const qpc_world *w, const qpc_pin *pin) {
    qpc_vec3 r = v3_neg(pin->b);
    for (int32_t k = pin->first; k < pin->first + pin->count; k++) {
        const double *B = w->pin_block + 9 * k, *dv = w->dv + 3 * w->pin_other[k];
        r.x += B[0] * dv[0] + B[1] * dv[1] + B[2] * dv[2];
        r.y += B[3] * dv[0] + B[4] * dv[1] + B[5] * dv[2];
        r.z += B[6] * dv[0] + B[7] * dv[1] + B[8] * dv[2];
    }
    return r;
}

/// The same of a motion whose QP was not solved, from the forces at its end: m dv - h f(x1), rows apart. f (3 n): elastic forces.
static qpc_vec3 balance(const qpc_world *w, double h, const qpc_pin *pin, const double *f) {
    int32_t at = 3 * pin->node;
    qpc_vec3 force = v3_madd(v3_add(v3_load(f + at), v3_load(w->force + at)), w->mass[pin->node], w->gravity);
    return v3_madd(v3_scale(w->mass[pin->node], v3_load(w->dv + at)), -h, force);
}

/// Elastic forces at the end of the motion for balance(), those of limits that are overrun among them, as their energy is counted;
/// NULL: what the QP says is used.
static double *forces_at_end(qpc_world *w, const qpc_trial *t) {
    if (!t->exhausted || w->pin_count == 0) return NULL;
    double *f = qpc_arena_array(&w->arena, 3 * (size_t)w->free_count, sizeof *f);
    if (f == NULL) return NULL;
    memset(f, 0, 3 * (size_t)w->free_count * sizeof *f);
    qpc_elastic_force(w, w->x1, f);
    qpc_loads_force(w, w->x1, w->dv, f);
    qpc_springs_add_limit_forces(&w->springs, w->x1, f);
    return f;
}

void qpc_trial_credit(qpc_trial *t, int32_t body, double work) {
    t->work += work;
    if (t->work_of != NULL) t->work_of[body] += work;
}

/// Of the two sides of a contact: into the one that moves freely.
static void credit(const qpc_world *w, qpc_trial *t, double *contact, const int32_t *surface, double work) {
    int32_t body = qpc_body_is_free(&w->bodies[surface[0]]) ? surface[0] : surface[1];
    if (contact != NULL) contact[body] += work;
    else qpc_trial_credit(t, body, work);
}

/// Of a node over the motion: m/s. Vertices of rigid bodies go along chords.
qpc_vec3 qpc_step_node_velocity(const qpc_world *w, double h, int32_t node) {
    if (node < w->free_count) return v3_add(v3_load(w->v + 3 * node), v3_load(w->dv + 3 * node));
    if (node >= w->live_count) return v3_load(w->v_frame + 3 * node);
    return v3_scale(1.0 / h, v3_sub(v3_load(w->x1 + 3 * node), v3_load(w->x + 3 * node)));
}

/// Work of force and torque on the rigid bodies.
static void add_rigid_work(const qpc_world *w, qpc_trial *t) {
    for (int32_t i = 0; i < w->rigid_count; i++) {
        const qpc_rigid_part *part = &w->rigids[i];
        double work = v3_dot(v3_load(w->force + part->dof), v3_sub(w->pose1[i].x, w->pose[i].x));
        work += t->h * v3_dot(v3_load(w->force + part->dof + 3), v3_add(w->pose[i].w, part->twist));
        qpc_trial_credit(t, part->body, work);
    }
}

/// Of all that moves freely, kg.
static double free_mass(const qpc_world *w) {
    double mass = 0.0;
    for (int32_t i = 0; i < w->free_count; i++) mass += w->mass[i];
    for (int32_t i = 0; i < w->rigid_count; i++) mass += w->rigids[i].inertia.mass;
    return mass;
}

/// Part of what the multipliers of joints have driven bodies do that is believed. Where rows gave way or joints are left open they can be
/// larger than anything that happens by ten orders: then no more than what energy changes by, and in a step twice what brings all to the driver's
/// speed (TJ17).
static double trust_in_joints(const qpc_world *w, const qpc_trial *t) {
    int32_t joint;
    double drive = 0.0;
    if (w->joint_count == 0 || !(t->relaxed || qpc_joints_apart(w, t, &joint) > 0.0)) return 1.0;
    double work = fabs(qpc_joints_driven_work(w, t->h, &drive));
    double most = fabs(t->energy - w->energy) + 2.0 * free_mass(w) * drive * drive * (t->h / w->dt);
    return work > most ? most / work : 1.0;
}

/// Work of pins, driven bodies, applied forces; apart from it the work of rows that push outwards.
static void add_work(qpc_world *w, qpc_trial *t) {
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    const double *f = forces_at_end(w, t);
    // Of a QP that was not solved the multipliers answer for no more than what they can have done.
    double *contact = t->exhausted ? qpc_arena_array(&w->arena, (size_t)w->body_count, sizeof *contact) : NULL;
    if (contact != NULL) memset(contact, 0, (size_t)w->body_count * sizeof *contact);
    for (int32_t i = 0; i < w->pin_count; i++) {
        qpc_vec3 impulse = w->pins[i].gone ? v3(0.0, 0.0, 0.0) : f != NULL ? balance(w, t->h, &w->pins[i], f) : pin_impulse(w, &w->pins[i]);
        v3_store(w->reactions + 3 * i, impulse);
    }
    for (int32_t r = 0; r < w->rub.row.count; r++) { // friction: what driven bodies and pins rub against
        const qpc_contact *c = &w->held.data[w->rows.source[w->rub.row.data[r]]];
        qpc_vec3 impulse = qpc_rub_impulse(&w->rub, r);
        if (w->bodies[c->surface[1]].obstacle) credit(w, t, contact, c->surface, v3_dot(impulse, qpc_obstacle_spin(w, c)));
        for (int k = 0; k < QPC_CONTACT_NODES; k++) {
            int32_t node = c->node[k];
            if (node >= w->live_count) credit(w, t, contact, c->surface, -c->weight[k] * v3_dot(impulse, v3_load(w->v_frame + 3 * node)));
            else if (w->row_dof[node] < 0 && node < w->free_count && w->pin_of[node] >= 0 && c->weight[k] != 0.0)
                v3_store(w->reactions + 3 * w->pin_of[node], v3_madd(v3_load(w->reactions + 3 * w->pin_of[node]), -c->weight[k], impulse));
        }
    }
    qpc_loads_add_work(w, t);
    qpc_obstacles_add_work(w, t);
    const qpc_rows *rows = &w->rows;
    double trust = trust_in_joints(w, t);
    for (int32_t i = 0; i < rows->m; i++) {
        double lambda = rows->lambda[i];
        if (lambda == 0.0) continue;
        if (rows->kind[i] == QPC_ROW_CONTACT) {
            const qpc_contact *c = &w->held.data[rows->source[i]];
            double opening = 0.0; // relative velocity along n at the end
            for (int k = 0; k < QPC_CONTACT_NODES; k++) {
                int32_t node = c->node[k];
                double part = c->weight[k] * v3_dot(c->n, qpc_step_node_velocity(w, t->h, node));
                opening += part;
                if (node >= w->live_count) credit(w, t, contact, c->surface, -lambda * part); // a driven body pushes
                int32_t p = node < w->free_count ? w->pin_of[node] : -1;
                if (p >= 0) // the pin holds against the contact
                    v3_store(w->reactions + 3 * p, v3_madd(v3_load(w->reactions + 3 * p), -lambda * c->weight[k], c->n));
            }
            if (opening > 0.0) t->work_pushed += lambda * opening;
            if (lambda > 0.0) t->fastest_push = fmax(t->fastest_push, opening);
        } else if (qpc_row_limits_strain(rows->kind[i])) {
            int32_t s = rows->source[i], end[2] = {w->spring_node[s], qpc_springs_other(&w->springs, s)};
            qpc_vec3 n = qpc_step_limit_direction(w, i); // of the row that was solved: the spring has turned since
            double opening = 0.0;
            for (int32_t a = 0; a < 2; a++) {
                double side = a == 0 ? 1.0 : -1.0;
                qpc_vec3 v = v3_add(v3_load(w->v + 3 * end[a]), v3_load(w->dv + 3 * end[a]));
                opening += side * v3_dot(n, v);
                int32_t p = w->pin_of[end[a]];
                if (p >= 0) v3_store(w->reactions + 3 * p, v3_madd(v3_load(w->reactions + 3 * p), lambda * side, n));
            }
            if (opening < 0.0) t->work_pushed += lambda * fabs(opening);
            t->fastest_push = fmax(t->fastest_push, -opening);
        } else if (rows->kind[i] == QPC_ROW_JOINT)
            qpc_joints_add_work(w, t, i, trust);
    }
    for (int32_t i = 0; i < w->pin_count; i++) {
        qpc_vec3 impulse = v3_load(w->reactions + 3 * i);
        double work = v3_dot(impulse, v3_load(w->v_frame + 3 * w->pins[i].node));
        qpc_trial_credit(t, qpc_world_body_of_node(w, w->pins[i].node), work);
    }
    if (contact != NULL) qpc_step_bound_work(w, t->h, contact);
    for (int32_t i = 0; contact != NULL && i < w->body_count; i++) qpc_trial_credit(t, i, contact[i]);
    qpc_arena_rewind(&w->arena, mark);
    for (int32_t i = 0; i < 3 * w->free_count; i++) t->work += w->force[i] * (w->x1[i] - w->x[i]);
    add_rigid_work(w, t);
    for (int32_t k = 0; k < w->body_count && t->work_of != NULL; k++) {
        const qpc_body *body = &w->bodies[k];
        if (body->motion != QPC_DYNAMIC) continue;
        for (int32_t i = 3 * body->first_node; i < 3 * (body->first_node + body->node_count); i++)
            t->work_of[k] += w->force[i] * (w->x1[i] - w->x[i]);
    }
}

/// What pushing out may add in a motion, J: a little of what is there, or all that is free at the speed of pushing out.
static double most_pushed(const qpc_world *w, const qpc_trial *t) {
    return MOST_PUSHED * t->energy_bound + 0.5 * free_mass(w) * w->solver.recovery_speed * w->solver.recovery_speed;
}

/// What the loads on all that is free can do over the smallest separation, J: nothing that matters to a contact is smaller. What rests
/// from the start has no other scale than what rounding moves it by, and would gain by rounding.
static double work_over_a_thickness(const qpc_world *w) {
    double load = 0.0;
    for (int32_t i = 0; i < w->free_count; i++) load += v3_norm(v3_madd(qpc_world_load(w, 3 * i), w->mass[i], w->gravity));
    for (int32_t i = 0; i < w->rigid_count; i++)
        load += v3_norm(v3_madd(qpc_world_load(w, w->rigids[i].dof), w->rigids[i].inertia.mass, w->gravity));
    return load * w->min_separation;
}

/// Energies at the end of the motion and the test of item 4: E+ - E - W and E+ - E0 - W within tolerance.
void qpc_trial_test_energy(qpc_world *w, qpc_trial *t) {
    double *v1 = w->dv_best; // free for use between solves
    for (int32_t i = 0; i < 3 * w->free_count; i++) v1[i] = w->v[i] + w->dv[i];
    t->energy = qpc_world_energy(w, w->x1, v1, w->pose1, &t->kinetic, &t->potential, &t->elastic);
    t->work = t->work_pushed = t->fastest_push = 0.0;
    for (int32_t k = 0; k < w->body_count && t->work_of != NULL; k++) t->work_of[k] = 0.0;
    add_work(w, t);
    double weight = 0.0, g = v3_norm(w->gravity);
    t->elastic_most = fmax(w->elastic_most, t->elastic);
    t->height_low = w->height_low;
    t->height_high = w->height_high;
    for (int32_t i = 0; i < w->free_count; i++) {
        weight += w->mass[i] * g;
        double height = g > 0.0 ? -v3_dot(w->gravity, v3_load(w->x1 + 3 * i)) / g : 0.0;
        double before = g > 0.0 ? -v3_dot(w->gravity, v3_load(w->x + 3 * i)) / g : 0.0;
        t->height_low = fmin(t->height_low, fmin(height, before));
        t->height_high = fmax(t->height_high, fmax(height, before));
    }
    for (int32_t i = 0; i < w->rigid_count && g > 0.0; i++) {
        double height = -v3_dot(w->gravity, w->pose1[i].x) / g, before = -v3_dot(w->gravity, w->pose[i].x) / g;
        weight += w->rigids[i].inertia.mass * g;
        t->height_low = fmin(t->height_low, fmin(height, before));
        t->height_high = fmax(t->height_high, fmax(height, before));
    }
    t->energy_bound = w->kinetic_start + t->elastic_most;
    if (t->height_high > t->height_low) t->energy_bound += weight * (t->height_high - t->height_low);
    // Pushing out is answered for by what it gains, no more: multipliers can be far larger than what they do. Those of an
    // unsolved QP answer for nothing. What is more than pushing out may do is a gain like any other.
    double pushed = t->limited ? 0.0 : fmin(t->work_pushed, fmax(0.0, t->energy - w->energy - t->work)), most = most_pushed(w, t);
    t->pushes = pushed > most;
    t->overpush = t->pushes ? pushed / most : 1.0;
    t->work_pushed = fmin(pushed, most);
    t->energy_bound = fmax(t->energy_bound, work_over_a_thickness(w)); // of gains: pushing out is not bounded by what rounding needs
    t->energy_scale = t->energy_bound + fmax(w->work_most, fabs(w->work + t->work));
    t->excess = qpc_trial_measure_energy(w, t, t->energy);
}

double qpc_trial_measure_energy(const qpc_world *w, qpc_trial *t, double energy) {
    double gained = t->work + t->work_pushed, part = energy - w->energy - gained, step = w->gained + part;
    double drift = energy - w->energy_start - (w->work + w->work_pushed) - gained, elapsed = (w->dt - t->left + t->h) / w->dt;
    t->energy_step = step / fmax(t->energy_scale, LEAST_ENERGY);
    t->energy_drift = drift / fmax(t->energy_scale, LEAST_ENERGY);
    t->overdraft = step / elapsed / fmax(t->energy_bound, LEAST_ENERGY);
    return fmax(part, drift) / fmax(t->energy_bound, LEAST_ENERGY);
}

bool qpc_trial_gains(const qpc_world *w, const qpc_trial *t) {
    return qpc_is_implicit(w) && !w->solver.position_based && t->excess > QPC_ENERGY_TOLERANCE;
}

bool qpc_trial_overdraws(const qpc_world *w, const qpc_trial *t) {
    return qpc_is_implicit(w) && !w->solver.position_based && fmax(t->excess, t->overdraft) > QPC_ENERGY_TOLERANCE;
}

/// The fastest that what moves, falls, is pulled or drives explains, m/s.
static double fastest_explained(const qpc_world *w, double h) {
    double fast = w->min_separation / h + h * v3_norm(w->gravity);
    for (int32_t i = 0; i < w->moving_count; i++) fast = fmax(fast, v3_norm(v3_load(w->v_frame + 3 * i)));
    for (int32_t i = 0; i < w->free_count; i++) fast = fmax(fast, h * v3_norm(qpc_world_load(w, 3 * i)) / w->mass[i]);
    for (int32_t i = 0; i < w->rigid_count; i++) {
        const qpc_rigid_part *part = &w->rigids[i];
        const double *I = part->inertia.moment;
        fast = fmax(fast, h * v3_norm(qpc_world_load(w, part->dof)) / part->inertia.mass);
        fast = fmax(fast, h * part->reach * v3_norm(qpc_world_load(w, part->dof + 3)) / fmin(I[0], fmin(I[1], I[2])));
    }
    return fast;
}

static double node_speed(const qpc_world *w, int32_t node, const double *dv) {
    return v3_norm(v3_add(v3_load(w->v + 3 * node), v3_load(dv + 3 * node)));
}

/// Of its fastest point.
static double rigid_speed(const qpc_world *w, int32_t rigid, const double *dv) {
    const qpc_rigid_state *now = &w->pose[rigid];
    const double *change = dv + w->rigids[rigid].dof;
    return qpc_rigid_speed(&w->rigids[rigid], v3_add(now->v, v3_load(change)), v3_add(now->w, v3_load(change + 3)));
}

static double fastest(const qpc_world *w, const double *dv) {
    double speed = 0.0;
    for (int32_t i = 0; i < w->free_count; i++) speed = fmax(speed, node_speed(w, i, dv));
    for (int32_t i = 0; i < w->rigid_count; i++) speed = fmax(speed, rigid_speed(w, i, dv));
    return speed;
}

bool qpc_trial_is_wild(const qpc_world *w, const qpc_trial *t, int32_t body_index) {
    const qpc_body *body = &w->bodies[body_index];
    double most = ABSURD_SPEED * fastest_explained(w, t->h);
    if (body->motion == QPC_RIGID) return !(rigid_speed(w, body->rigid, w->dv) <= most);
    for (int32_t i = body->first_node; i < body->first_node + body->node_count && body->motion == QPC_DYNAMIC; i++)
        if (!(node_speed(w, i, w->dv) <= most)) return true;
    return false;
}

double qpc_step_beyond(const qpc_world *w, double h) {
    double fast = fastest_explained(w, h);
    for (int32_t i = 0; i < w->live_count; i++) fast = fmax(fast, v3_norm(v3_load(w->v + 3 * i)));
    double slowest = 1.0; // of the unknowns of a body that is as fast: those of turning are larger by 1 / m
    for (int32_t i = 0; i < w->rigid_count; i++) slowest = fmin(slowest, w->rigids[i].reach);
    return OF_NO_USE * fast / slowest;
}

bool qpc_trial_runs_away(const qpc_world *w, const qpc_trial *t, const double *before) {
    return !(fastest(w, w->dv) <= ABSURD_SPEED * fmax(fastest_explained(w, t->h), fastest(w, before)));
}

/// Rows that nearly exclude each other, or a driven body in a narrow wedge, can leave such an answer.
bool qpc_trial_is_absurd(const qpc_world *w, const qpc_trial *t) {
    double kinetic = 0.0, weight = 0.0;
    if (!(fastest(w, w->dv) > ABSURD_SPEED * fastest_explained(w, t->h))) return false;
    for (int32_t i = 0; i < w->free_count; i++) {
        kinetic += 0.5 * w->mass[i] * v3_norm2(v3_load(w->v + 3 * i));
        weight += w->mass[i] * v3_norm(w->gravity);
    }
    for (int32_t i = 0; i < w->rigid_count; i++) {
        kinetic += qpc_rigid_energy(&w->rigids[i].inertia, &w->pose[i]);
        weight += w->rigids[i].inertia.mass * v3_norm(w->gravity);
    }
    double there = kinetic + w->kinetic_start + w->elastic_most;
    if (w->height_high > w->height_low) there += weight * (w->height_high - w->height_low);
    return t->kinetic + t->elastic > ABSURD_ENERGY * there;
}
