/// Obstacles that answer at the level of velocities (docs/theory-obstacles.md, TO5): what would come into them in a motion is put
/// back onto the tangent plane of where it came in, and its velocity reflected and rubbed, one contact after the other. No rows,
/// no QP: for explicit integrators and position-based steps. Runs on the worker in the world.
#include "engine/world/attempt.h"
#include "engine/world/obstacles.h"

static const double RESTING = 2.0; // g h: approaches slower than that do not bounce (T-friction, as for rows)
enum { MOST_ROUNDS = 8 };          // of all contacts: corners between obstacles

bool qpc_obstacle_responds(const qpc_world *w, const qpc_contact *c) { return w->responds && w->bodies[c->surface[1]].responds; }

qpc_status qpc_obstacles_check_solver(const qpc_world *w, const qpc_solver_def *solver, const char *where, qpc_error *err) {
    if (!w->responds || solver->position_based || !qpc_is_implicit(w)) return QPC_OK;
    return qpc_fail_at(err, QPC_ERR_UNSUPPORTED, where,
                       "an obstacle with response \"velocity\" needs the solver \"position-based\" or an explicit integrator (\"symplectic-euler\", \"rk4\")");
}

static double inverse_mass(const qpc_world *w, int32_t node) { return w->row_dof[node] < 0 ? 0.0 : 1.0 / w->mass[node]; }

/// Velocity of the point against the surface at the end of the motion, m/s.
static qpc_vec3 approach(const qpc_world *w, const qpc_contact *c) {
    qpc_vec3 u = v3_neg(qpc_obstacle_spin(w, c));
    for (int k = 0; k < QPC_CONTACT_NODES; k++) {
        qpc_vec3 v = v3_load((k < qpc_contact_split(c) ? w->v : w->v_frame) + 3 * (int64_t)c->node[k]);
        if (k < qpc_contact_split(c)) v = v3_add(v, v3_load(w->dv + 3 * (int64_t)c->node[k]));
        u = v3_madd(u, c->weight[k], v);
    }
    return u;
}

/// Change of that velocity: v_n -> -e v_n, v_t reduced by up to mu times the change of v_n.
static qpc_vec3 reflected(const qpc_world *w, double h, const qpc_contact *c) {
    qpc_contact_law law = qpc_world_law(w, c);
    qpc_vec3 u = approach(w, c);
    double into = -v3_dot(u, c->n);
    if (!(into > 0.0)) return v3(0.0, 0.0, 0.0);
    double change = into > RESTING * h * v3_norm(w->gravity) ? (1.0 + law.restitution) * into : into;
    qpc_vec3 along = v3_madd(u, into, c->n);
    double slip = v3_norm(along), stopped = w->solver.friction == QPC_FRICTION_OFF ? 0.0 : fmin(law.friction * change, slip);
    qpc_vec3 all = v3_scale(change, c->n);
    return slip > 0.0 ? v3_madd(all, -stopped / slip, along) : all;
}

static qpc_status note(qpc_world *w, const qpc_contact *c, qpc_vec3 impulse, qpc_error *err) {
    for (int32_t i = 0; i < w->responses.count; i++) {
        qpc_response *r = &w->responses.data[i];
        if (r->contact.key != c->key) continue;
        r->contact = *c;
        r->impulse = v3_add(r->impulse, impulse);
        return QPC_OK;
    }
    if (!qpc_array_push(&w->responses, ((qpc_response){*c, impulse}))) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for responses");
    return QPC_OK;
}

/// Put one contact right. *ret_any: there was something to do.
static qpc_status answer(qpc_world *w, double h, const qpc_contact *c, bool *ret_any, qpc_error *err) {
    double gap = qpc_contact_gap_at(c, w->x1) - c->separation, mobility = 0.0;
    for (int k = 0; k < qpc_contact_split(c); k++) mobility += c->weight[k] * c->weight[k] * inverse_mass(w, c->node[k]);
    if (!(gap < -1e-9 * c->separation) || !(mobility > 0.0)) return QPC_OK;
    qpc_vec3 impulse = v3_scale(1.0 / mobility, reflected(w, h, c));
    for (int k = 0; k < qpc_contact_split(c); k++) {
        double part = c->weight[k] * inverse_mass(w, c->node[k]);
        double *x1 = w->x1 + 3 * (int64_t)c->node[k], *dv = w->dv + 3 * (int64_t)c->node[k];
        v3_store(x1, v3_madd(v3_load(x1), -part * gap / mobility, c->n));
        v3_store(dv, v3_madd(v3_load(dv), part, impulse));
    }
    *ret_any = true;
    return note(w, c, impulse, err);
}

qpc_status qpc_obstacles_respond(qpc_world *w, qpc_trial *t, qpc_error *err) {
    bool any = w->responds;
    w->responses.count = 0;
    for (int round = 0; round < MOST_ROUNDS && any; round++) {
        any = false;
        for (int pass = 0; pass < 2; pass++) { // what comes through, then what ends too near
            qpc_status st = pass == 0 ? qpc_detect_motion(w->detector, w->x, w->x1, QPC_PASS_FACTOR, &w->probe, err)
                                      : qpc_detect_proximity(w->detector, w->x1, 1.0, &w->probe, err);
            for (int32_t i = 0; i < w->probe.count && st == QPC_OK; i++)
                if (qpc_obstacle_responds(w, &w->probe.data[i])) st = answer(w, t->h, &w->probe.data[i], &any, err);
            w->probe.count = 0;
            if (st != QPC_OK) return st;
        }
    }
    return QPC_OK;
}

void qpc_obstacles_add_load(const qpc_world *w, double *b) {
    for (int32_t i = 0; i < w->responses.count; i++) {
        const qpc_response *r = &w->responses.data[i];
        for (int k = 0; k < qpc_contact_split(&r->contact); k++) {
            double *at = b + 3 * (int64_t)r->contact.node[k];
            if (w->row_dof[r->contact.node[k]] >= 0) v3_store(at, v3_madd(v3_load(at), r->contact.weight[k], r->impulse));
        }
    }
}

void qpc_obstacles_add_work(const qpc_world *w, qpc_trial *t) {
    for (int32_t i = 0; i < w->responses.count; i++) {
        const qpc_response *r = &w->responses.data[i];
        qpc_vec3 surface = qpc_obstacle_spin(w, &r->contact);
        for (int k = qpc_contact_split(&r->contact); k < QPC_CONTACT_NODES; k++)
            surface = v3_madd(surface, -r->contact.weight[k], v3_load(w->v_frame + 3 * (int64_t)r->contact.node[k]));
        qpc_trial_credit(t, r->contact.surface[0], v3_dot(r->impulse, surface));
    }
}

int32_t qpc_obstacles_publish(const qpc_world *w, double h, qpc_contact_info *list, int32_t count) {
    for (int32_t i = 0; i < w->responses.count; i++) {
        const qpc_contact *c = &w->responses.data[i].contact;
        qpc_vec3 at = {0.0, 0.0, 0.0}, impulse = w->responses.data[i].impulse;
        double pressed = v3_dot(impulse, c->n);
        qpc_contact_info info = {.kind = c->kind, .gap = qpc_contact_gap_at(c, w->x) - c->separation, .force = pressed / h, .key = c->key,
                                 .body = {c->surface[0], c->surface[1]}, .feature = {c->feature[0], c->feature[1]}};
        for (int k = 0; k < qpc_contact_split(c); k++) at = v3_madd(at, c->weight[k], v3_load(w->x + 3 * (int64_t)c->node[k]));
        v3_store(info.position, at);
        v3_store(info.normal, c->n);
        v3_store(info.friction, v3_scale(1.0 / h, v3_madd(impulse, -pressed, c->n)));
        int32_t k = count++;
        for (; k > 0 && list[k - 1].key > info.key; k--) list[k] = list[k - 1];
        list[k] = info;
    }
    return count;
}
