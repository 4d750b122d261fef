/// Driven bodies that press harder than the world can follow (T41): they go a part of their way, or none of it.
///
/// Two signs: rows that contradict and name what such a body closes in on, and free nodes that what it pushes makes rush off, far
/// faster than it goes. The second is the first seen a hair away: rows that nearly exclude each other leave a way out sideways, as
/// long as the tangent is flat, which the bodies do not have. Nothing free is slowed down; the driver is what gives way, as a
/// press of finite force does. Runs on the worker in the world.
#include "engine/world/attempt.h"

#include <string.h>

static const double RUSH = 4.0;      // times the speed of the driver
static const double NATURAL = 1.01;  // of the speed that there is without the driver
static const double OWN = 0.1;       // of the energy of the fastest node, that does not tell
static const double CLOSING = 1e-6;  // of the speed of the driver, that counts
static const double PARTS[] = {0.25, 0.0625, 0.0}; // of its way that a driver goes
enum {
    LEVELS = 3,
    MAX_ROUNDS = 8, // from there on nothing that is kinematic moves
    TRIED_STEPS = 8,
};

typedef struct press {
    int32_t *group;  // (bodies) joined by contacts with a force
    double *drive;   // (bodies) speed of what drives in the body, m/s
    double *fastest; // (bodies) of a group, by its lowest body: at the end of the motion
    double *allowed;
    double *mass;    // (bodies) of what is fastest, kg; 0: of a rigid body
    double *work;    // (bodies) of drivers, pins and forces on the group, J
    bool *driven;    // (bodies) something kinematic in the group moves, or is kept from it
    double out;      // speed of pushing out at the start of the motion, m/s; < 0: not looked at
} press;

static bool holdable(const qpc_body *body) { return qpc_motion_is_driven(body) && body->hold > 0.0; }

/// How fast the driven side of a contact closes it, m/s.
static double closing(const qpc_world *w, const qpc_contact *c, int32_t body) {
    const qpc_body *of = &w->bodies[body];
    double sum = 0.0;
    for (int k = 0; k < QPC_CONTACT_NODES; k++) {
        int32_t node = c->node[k];
        if (c->weight[k] == 0.0 || node < of->first_node || node >= of->first_node + of->node_count) continue;
        sum -= c->weight[k] * v3_dot(c->n, v3_load(w->v_frame + 3 * node));
    }
    return sum;
}

double qpc_press_explains(const qpc_world *w, double h, double drive) { // round things that are pressed together by d slip by sqrt(2 r d)
    return RUSH * drive + sqrt(2.0 * w->min_separation * drive / h);
}

static double speed_of(const qpc_world *w, const qpc_body *body) {
    double fast = 0.0;
    for (int32_t i = body->first_node; i < body->first_node + body->node_count; i++) fast = fmax(fast, v3_norm(v3_load(w->v_frame + 3 * i)));
    return fast;
}

/// Driven bodies that close the contact of a row are pressing.
static bool mark(qpc_world *w, int32_t row) {
    bool any = false;
    if (w->rows.kind[row] != QPC_ROW_CONTACT) return false;
    const qpc_contact *c = &w->held.data[w->rows.source[row]];
    for (int side = 0; side < 2; side++) {
        qpc_body *body = &w->bodies[c->surface[side]];
        if (!holdable(body) || !(closing(w, c, c->surface[side]) > CLOSING * speed_of(w, body))) continue;
        body->pressing = any = true;
    }
    return any;
}

bool qpc_press_is_in_proof(qpc_world *w, const qpc_solver_report *report) {
    bool any = false;
    int32_t named = qpc_conflict_named(report);
    for (int32_t i = 0; i < named; i++) any = mark(w, report->conflict_row[i]) || any;
    for (int32_t i = 0; i < w->rows.m && !any && named < report->conflict_count; i++) any = mark(w, i) || any; // not all are named
    return any;
}

static void clear(qpc_world *w) {
    for (int32_t i = 0; i < w->body_count; i++) w->bodies[i].pressing = false;
}

/// The two bodies of a contact with a force; NULL: the row is none.
static const int32_t *side_of(const qpc_world *w, int32_t row) {
    if (w->rows.kind[row] != QPC_ROW_CONTACT || !(w->rows.lambda[row] > 0.0)) return NULL;
    return w->held.data[w->rows.source[row]].surface;
}

static void note_speed(press *p, int32_t root, double speed, double mass) {
    if (speed <= p->fastest[root]) return;
    p->fastest[root] = isfinite(speed) ? speed : HUGE_VAL;
    p->mass[root] = mass;
}

/// Nodes of a free body: how fast they were and are, and pins that drive it.
static void measure_body(const qpc_world *w, const qpc_trial *t, press *p, int32_t k) {
    const qpc_body *body = &w->bodies[k];
    int32_t root = qpc_group_of(p->group, k);
    for (int32_t i = body->first_node; i < body->first_node + body->node_count; i++) {
        qpc_vec3 before = v3_load(w->v + 3 * i);
        if (w->row_dof[i] < 0) {
            p->drive[k] = fmax(p->drive[k], v3_norm(v3_load(w->v_frame + 3 * i)));
            continue;
        }
        double after = v3_norm(v3_add(before, v3_load(w->dv + 3 * i)));
        note_speed(p, root, after, w->mass[i]);
        double pulled = t->h * (v3_norm(qpc_world_load(w, 3 * i)) / w->mass[i] + v3_norm(w->gravity));
        p->allowed[root] = fmax(p->allowed[root], v3_norm(before) + pulled);
    }
}

static void measure_rigid(const qpc_world *w, const qpc_trial *t, press *p, int32_t k) {
    const qpc_rigid_part *part = &w->rigids[w->bodies[k].rigid];
    const qpc_rigid_state *now = &w->pose[w->bodies[k].rigid];
    const double *dv = w->dv + part->dof, *I = part->inertia.moment;
    int32_t root = qpc_group_of(p->group, k);
    double after = qpc_rigid_speed(part, v3_add(now->v, v3_load(dv)), v3_add(now->w, v3_load(dv + 3)));
    double pulled = v3_norm(qpc_world_load(w, part->dof)) / part->inertia.mass + v3_norm(w->gravity) +
                    part->reach * v3_norm(qpc_world_load(w, part->dof + 3)) / fmin(I[0], fmin(I[1], I[2]));
    note_speed(p, root, after, 0.0);
    p->allowed[root] = fmax(p->allowed[root], qpc_rigid_speed(part, now->v, now->w) + t->h * pulled);
}

/// Groups, how fast they are, and how fast what drives and what was there before explains.
static void measure(const qpc_world *w, const qpc_trial *t, press *p) {
    for (int32_t i = 0; i < w->body_count; i++) {
        p->group[i] = i;
        p->fastest[i] = p->allowed[i] = p->mass[i] = 0.0;
        p->driven[i] = false;
        p->drive[i] = holdable(&w->bodies[i]) ? w->bodies[i].hold * qpc_motion_speed(&w->bodies[i], t->h) : 0.0;
    }
    for (int32_t i = 0; i < w->rows.m; i++) {
        const int32_t *side = side_of(w, i);
        if (side != NULL && w->bodies[side[0]].motion != QPC_STATIC && w->bodies[side[1]].motion != QPC_STATIC)
            qpc_group_join(p->group, side[0], side[1]);
    }
    for (int32_t k = 0; k < w->body_count; k++) {
        const qpc_body *body = &w->bodies[k];
        if (body->motion == QPC_KINEMATIC && (body->hold < 1.0 || qpc_motion_speed(body, t->h) > 0.0)) p->driven[qpc_group_of(p->group, k)] = true;
        if (w->bodies[k].motion == QPC_DYNAMIC) measure_body(w, t, p, k);
        if (w->bodies[k].motion == QPC_RIGID) measure_rigid(w, t, p, k);
    }
    for (int32_t k = 0; k < w->body_count; k++) {
        double drive = fmax(p->drive[k], p->out), *allowed = &p->allowed[qpc_group_of(p->group, k)];
        if (drive > 0.0) *allowed = fmax(*allowed, qpc_press_explains(w, t->h, drive) + t->h * v3_norm(w->gravity));
    }
}

/// What stands by its orders is no driver, but a wall like any other.
static double rush_of(const qpc_world *w, const press *p, int32_t body) {
    int32_t root = qpc_group_of(p->group, body);
    return w->bodies[body].motion == QPC_KINEMATIC && p->driven[root] && p->fastest[root] > p->allowed[root] ? p->fastest[root] : 0.0;
}

/// Energy tells who made a group fast: if nobody did as much work on it as the haste of its fastest node alone takes, or no more than a
/// small part of what that node has, it was in it before (a stiff sheet that swings back). Of an unsolved QP work says nothing.
static void excuse(qpc_world *w, const qpc_trial *t, press *p) {
    if (t->limited) return;
    qpc_trial measured = *t;
    memset(p->work, 0, (size_t)w->body_count * sizeof *p->work);
    measured.work_of = p->work;
    qpc_trial_test_energy(w, &measured);
    if (measured.pushes) return; // by more than is booked
    for (int32_t k = 0; k < w->body_count; k++) {
        int32_t root = qpc_group_of(p->group, k);
        if (root != k) p->work[root] += p->work[k];
    }
    for (int32_t k = 0; k < w->body_count; k++) {
        double fast = p->fastest[k], allowed = p->allowed[k];
        if (!(fast > allowed) || !(fast < HUGE_VAL)) continue;
        double gained = fmax(fast * fast - allowed * allowed, OWN * fast * fast);
        if (p->work[k] + measured.work_pushed <= 0.5 * p->mass[k] * gained) p->allowed[k] = fast;
    }
}

static double fastest_rush(const qpc_world *w, const press *p) {
    double rush = 0.0;
    for (int32_t k = 0; k < w->body_count; k++) rush = fmax(rush, rush_of(w, p, k));
    return rush;
}

/// How fast the fastest group rushes that something kinematic touches; 0: none does. Pairs that are too near at the start drive as well.
static qpc_status find_rush(qpc_world *w, const qpc_trial *t, press *p, double *ret_rush, qpc_error *err) {
    double ratio = 1.0, widest = 0.0;
    measure(w, t, p);
    *ret_rush = fastest_rush(w, p);
    if (*ret_rush > 0.0 && p->out < 0.0) {
        qpc_status st = qpc_detect_gap_within(w->detector, w->x, 1.0, &ratio, err);
        if (st != QPC_OK) return st;
        for (int32_t i = 0; i < w->held.count; i++) widest = fmax(widest, w->held.data[i].separation);
        p->out = fmax(0.0, 1.0 - ratio) * widest / t->h;
        measure(w, t, p);
        *ret_rush = fastest_rush(w, p);
    }
    if (!(*ret_rush > 0.0)) return QPC_OK;
    excuse(w, t, p);
    *ret_rush = fastest_rush(w, p);
    return QPC_OK;
}

/// Marks the drivers that close in: on groups that rush, or on any if the attempt has no answer.
static bool mark_drivers(qpc_world *w, press *p, bool all) {
    bool any = false;
    for (int32_t i = 0; i < w->rows.m; i++) {
        const int32_t *side = side_of(w, i);
        if (side != NULL && (all || rush_of(w, p, side[0]) > 0.0 || rush_of(w, p, side[1]) > 0.0)) any = mark(w, i) || any;
    }
    return any;
}

/// A body that stood in the motion before is let go in parts in every so manieth step only: to find that it cannot takes far longer.
static void hold_marked(qpc_world *w, int32_t round) {
    bool all = round >= MAX_ROUNDS;
    for (int32_t i = 0; i < w->body_count; i++) {
        qpc_body *body = &w->bodies[i];
        if (!holdable(body) || !(body->pressing || all)) continue;
        int32_t level = all || (body->stood && w->step % TRIED_STEPS != 0) ? LEVELS - 1 : 0;
        while (level < LEVELS - 1 && PARTS[level] >= body->hold) level++;
        body->hold = PARTS[level];
    }
}

static qpc_status again(qpc_world *w, qpc_trial *t, bool pressing, qpc_error *err) {
    qpc_trial_count(w, t);
    *t = (qpc_trial){.h = t->h, .left = t->left, .pressing = pressing, .divisible = t->divisible};
    clear(w);
    return qpc_trial_attempt(w, t, err);
}

static bool has_kinematic(const qpc_world *w) {
    for (int32_t i = 0; i < w->body_count; i++)
        if (w->bodies[i].motion == QPC_KINEMATIC) return true;
    return false;
}

static bool start(qpc_world *w, press *p) {
    size_t bodies = (size_t)w->body_count;
    p->group = qpc_arena_array(&w->arena, bodies, sizeof *p->group);
    p->drive = qpc_arena_array(&w->arena, 5 * bodies, sizeof *p->drive);
    p->driven = qpc_arena_array(&w->arena, bodies, sizeof *p->driven);
    if (p->group == NULL || p->drive == NULL || p->driven == NULL) return false;
    p->fastest = p->drive + bodies;
    p->allowed = p->drive + 2 * bodies;
    p->mass = p->drive + 3 * bodies;
    p->work = p->drive + 4 * bodies;
    p->out = -1.0;
    return true;
}

/// The rows left each other next to nothing: what hits added contradicts, or the default engine did not solve them.
static bool has_no_answer(const qpc_world *w, const qpc_trial *t) {
    return t->squeezed || (t->limited && w->solver.id == QPC_SOLVER_AUTO);
}

static bool stays(const press *p, int32_t body) { return p->drive[qpc_group_of(p->group, body)] > 0.0; }

/// Rows of a group that stays carry nothing.
static void let_go(qpc_world *w, press *p) {
    for (int32_t i = 0; i < w->rows.m; i++) {
        bool contact = w->rows.kind[i] == QPC_ROW_CONTACT;
        int32_t spring_of = contact ? 0 : qpc_world_body_of_row(w, i);
        const int32_t alone[2] = {spring_of, spring_of}, *side = contact ? w->held.data[w->rows.source[i]].surface : alone;
        if (!stays(p, side[0]) && !stays(p, side[1])) continue;
        int32_t rub = contact ? qpc_rub_of_row(&w->rub, i) : -1;
        w->rows.lambda[i] = 0.0;
        if (rub >= 0) w->rub.beta.data[2 * rub] = w->rub.beta.data[2 * rub + 1] = 0.0;
    }
}

/// Out of budget: groups that rush stay where they are, and what drives them does too.
static qpc_status stand(qpc_world *w, qpc_trial *t, press *p, qpc_error *err) {
    for (int32_t k = 0; k < w->body_count; k++) p->drive[k] = 0.0;
    for (int32_t k = 0; k < w->body_count; k++)
        if (rush_of(w, p, k) > 0.0) p->drive[qpc_group_of(p->group, k)] = 1.0;
    for (int32_t k = 0; k < w->body_count; k++)
        if (holdable(&w->bodies[k]) && stays(p, k)) w->bodies[k].hold = 0.0;
    let_go(w, p);
    qpc_motion_prepare(w, t->h, t->left);
    for (int32_t k = 0; k < w->body_count; k++) {
        const qpc_body *body = &w->bodies[k];
        if (body->motion == QPC_RIGID) {
            if (stays(p, k)) qpc_rigid_stop(w, body->rigid, w->dv);
            qpc_rigid_place_end(w, body->rigid, t->h, stays(p, k) ? 0.0 : 1.0, w->dv);
        }
        for (int32_t a = 3 * body->first_node; a < 3 * (body->first_node + body->node_count) && body->motion == QPC_DYNAMIC; a++) {
            if (w->row_dof[a / 3] < 0) continue;
            if (stays(p, k)) w->dv[a] = -w->v[a];
            w->x1[a] = stays(p, k) ? w->x[a] : w->x[a] + t->h * (w->v[a] + w->dv[a]);
        }
    }
    w->warm_count = w->kept.count = 0;
    qpc_trial_test_energy(w, t);
    t->absurd = qpc_trial_is_absurd(w, t);
    qpc_status st = qpc_motion_test(w, QPC_ACCEPT_FACTOR, NULL, err);
    t->impact = st == QPC_OK && (t->absurd || w->probe.count > 0);
    return st;
}

/// Held back as far as it goes, and with nothing pushed out: what is fast then is so by itself. If the world was no faster than
/// that when everything went its way (first; 0: that was no answer), it is let.
static qpc_status ease(qpc_world *w, qpc_trial *t, press *p, double first, qpc_error *err) {
    double rush = 0.0, natural = 0.0;
    qpc_status st = qpc_trial_attempt_cautiously(w, t, true, err);
    if (st == QPC_OK && !t->exhausted) st = find_rush(w, t, p, &natural, err);
    if (st != QPC_OK || t->exhausted || !(first > 0.0 && first <= NATURAL * natural)) return st;
    qpc_motion_release(w);
    if ((st = again(w, t, false, err)) == QPC_OK && !t->exhausted) st = find_rush(w, t, p, &rush, err);
    if (st != QPC_OK || t->exhausted || (rush <= NATURAL * natural && !has_no_answer(w, t))) return st;
    (void)mark_drivers(w, p, true);
    hold_marked(w, MAX_ROUNDS);
    return qpc_trial_attempt_cautiously(w, t, true, err);
}

/// How an attempt went. *ret_marked: drivers are to blame, *ret_rush: for this, if it has an answer.
static qpc_status judge(qpc_world *w, const qpc_trial *t, press *p, double *ret_rush, bool *ret_marked, qpc_error *err) {
    *ret_rush = 0.0;
    *ret_marked = t->pressed;
    if (t->pressed || t->too_long) return QPC_OK;
    qpc_status st = find_rush(w, t, p, ret_rush, err);
    if (st != QPC_OK || t->exhausted) return st;
    bool none = has_no_answer(w, t);
    *ret_marked = (none || *ret_rush > 0.0) && mark_drivers(w, p, none);
    return QPC_OK;
}

qpc_status qpc_press_attempt(qpc_world *w, qpc_trial *t, qpc_error *err) {
    press p;
    double first = 0.0, rush;
    bool marked;
    if (!has_kinematic(w)) return qpc_trial_attempt(w, t, err);
    if (!start(w, &p)) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d bodies that press", w->body_count);
    qpc_status st = again(w, t, true, err);
    for (int32_t round = 0; st == QPC_OK; round++) {
        if ((st = judge(w, t, &p, &rush, &marked, err)) != QPC_OK) break;
        if (round == 0 && !has_no_answer(w, t)) first = rush;
        if (!marked) {
            t->pressing = false;
            if (rush > 0.0) st = t->exhausted ? stand(w, t, &p, err) : ease(w, t, &p, first, err);
            break;
        }
        hold_marked(w, round);
        st = again(w, t, true, err);
    }
    t->pressing = false;
    return st;
}

qpc_status qpc_press_rushes(qpc_world *w, const qpc_trial *t, bool *ret_rushes, qpc_error *err) {
    press p;
    double rush = 0.0;
    *ret_rushes = false;
    if (!has_kinematic(w)) return QPC_OK;
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    if (!start(w, &p)) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d bodies that press", w->body_count);
    qpc_status st = find_rush(w, t, &p, &rush, err);
    qpc_arena_rewind(&w->arena, mark);
    *ret_rushes = rush > 0.0;
    return st;
}
