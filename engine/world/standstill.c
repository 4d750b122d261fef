/// Bodies that no step can move: they are made to stand, and the rest goes on without them.
///
/// An attempt makes no sense where a body moves faster than anything explains, or where its stiffness buries its masses in
/// round-off so that K has no factor. If that is so in the smallest part of a step too, the bodies to blame are marked, and the
/// step is made again from its start: they are fixed nodes in it, as static ones, at rest. So what else there is goes the way that
/// it would go beside something static. A marked body is tried again every so manieth step, and stands at once if that fails.
/// Runs on the worker in the world.
#include "engine/world/attempt.h"
#include "engine/world/joints.h"
#include "engine/world/loads.h"

#include <string.h>

static const double BURIED = 1e6;  // h^2 k / m from which on a body can be to blame for K without a factor
static const double ALMOST = 1e-3; // of the largest: to blame as well
enum {
    TRIED_STEPS = 16, // a body that stands is let go after 1, 2, 4, 8 and then every so many steps,
    PATIENCE = 64,    // and in every so manieth step all is tried that there is
    MOST_ROUNDS = 4,  // of a step, before everything stands
};

qpc_status qpc_still_make(qpc_world *w, qpc_error *err) {
    w->still = qpc_calloc(2 * (size_t)w->body_count + 1, sizeof *w->still);
    if (w->still == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d bodies", w->body_count);
    w->stuck = w->still + w->body_count;
    w->stood_for = qpc_calloc((size_t)w->body_count + 1, sizeof *w->stood_for);
    if (w->stood_for == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d bodies", w->body_count);
    return QPC_OK;
}

/// Its nodes are fixed ones, or are so no more.
static void fix(qpc_world *w, int32_t index, bool fixed) {
    const qpc_body *body = &w->bodies[index];
    bool rigid = body->motion == QPC_RIGID;
    for (int32_t k = body->first_node; k < body->first_node + body->node_count; k++) {
        bool free_node = !fixed && (rigid || w->pin_of[k] < 0);
        int32_t dof = rigid ? w->rigids[body->rigid].dof : 3 * k;
        w->row_dof[k] = free_node ? dof : -1;
        if (rigid) w->row_turn[k] = free_node ? dof + 3 : -1;
    }
}

static void mark(qpc_world *w, int32_t index, qpc_still_reason why) {
    if (w->still[index] != 0) return;
    w->still[index] = (uint8_t)why;
    fix(w, index, true);
}

void qpc_still_begin(qpc_world *w) {
    w->still_found = w->still_retry = false;
    w->still_rounds = 0;
    bool again = false, patient = false; // all of them together: what one is in contact with may be another
    for (int32_t i = 0; i < w->body_count; i++) {
        int32_t steps = w->stood_for[i];
        w->still[i] = 0;
        again = again || (steps > 0 && ((steps & (steps - 1)) == 0 || steps % TRIED_STEPS == 0));
        patient = patient || steps == 1 || (steps > 0 && steps % PATIENCE == 0);
    }
    w->still_retry = again && !patient;
    for (int32_t i = 0; i < w->body_count; i++)
        if (w->bodies[i].gone && qpc_body_is_free(&w->bodies[i])) mark(w, i, QPC_STILL_REMOVED);
    for (int32_t i = 0; i < w->body_count && !again; i++)
        if (w->stuck[i] != 0) mark(w, i, (qpc_still_reason)w->stuck[i]);
}

void qpc_still_end(qpc_world *w, bool taken) {
    if (taken && w->all_stood) {
        w->report->failsafe++;
        w->report->failsafe_scale = 0.0;
    }
    for (int32_t i = 0; i < w->body_count; i++) {
        if (w->still[i] != 0) fix(w, i, false);
        if (w->bodies[i].gone) continue;
        if (taken) w->stuck[i] = w->still[i];
        if (taken) w->stood_for[i] = w->still[i] != 0 ? w->stood_for[i] + 1 : 0;
        if (!taken || w->still[i] == 0) continue;
        w->report->failsafe++;
        w->report->failsafe_scale = 0.0;
        w->report->outcome = QPC_STEP_FAILSAFE;
    }
}

// ---- who is to blame ----

/// Largest diagonal entry of K over what it is not less than, of a body.
static double stiffness_over_mass(const qpc_world *w, int32_t index) {
    const qpc_body *body = &w->bodies[index];
    const qpc_linsys *K = &w->sys;
    double most = 0.0;
    if (!qpc_body_is_free(body)) return most;
    int32_t first = body->motion == QPC_RIGID ? w->rigids[body->rigid].dof : 3 * body->first_node;
    int32_t end = first + (body->motion == QPC_RIGID ? 6 : 3 * body->node_count);
    for (int32_t k = first; k < end; k++) {
        double value = K->kind == QPC_LINSYS_BAND ? K->band[(int64_t)k * (K->bandwidth + 1) + K->bandwidth] : K->value[K->start[k]];
        bool fixed = body->motion != QPC_RIGID && w->row_dof[k / 3] < 0;
        double ratio = fixed ? 0.0 : fabs(value) / w->mass_floor[k];
        most = isfinite(ratio) ? fmax(most, ratio) : HUGE_VAL;
    }
    return most;
}

static bool mark_buried(qpc_world *w) {
    double most = BURIED;
    bool any = false;
    for (int32_t i = 0; i < w->body_count; i++) most = fmax(most, w->still[i] == 0 ? stiffness_over_mass(w, i) : 0.0);
    for (int32_t i = 0; i < w->body_count; i++) {
        double ratio = w->still[i] == 0 ? stiffness_over_mass(w, i) : 0.0;
        if (!(ratio > BURIED && (ratio == HUGE_VAL || ratio > ALMOST * most))) continue;
        mark(w, i, QPC_STILL_BURIED);
        any = true;
    }
    return any;
}

static bool mark_fast(qpc_world *w, const qpc_trial *t) {
    bool any = false;
    for (int32_t i = 0; i < w->body_count; i++) {
        if (w->still[i] != 0 || !qpc_body_is_free(&w->bodies[i]) || !qpc_trial_is_wild(w, t, i)) continue;
        mark(w, i, QPC_STILL_FAST);
        any = true;
    }
    return any;
}

/// What joints and springs hold to a body that stands does too.
static void mark_joined(qpc_world *w) {
    qpc_arena_mark at = qpc_arena_get_mark(&w->arena);
    int32_t *group = qpc_arena_array(&w->arena, (size_t)w->body_count, sizeof *group);
    if (group == NULL) return; // no worse than without joints: their rows stand in the way of a bad answer
    for (int32_t i = 0; i < w->body_count; i++) group[i] = i;
    qpc_joints_group(w, group);
    for (int32_t i = 0; i < w->load_count; i++) {
        const int32_t *end = w->loads[i].link.body;
        if (w->loads[i].kind == QPC_LOAD_SPRING && end[0] >= 0 && end[1] >= 0 && qpc_body_is_free(&w->bodies[end[0]]) &&
            qpc_body_is_free(&w->bodies[end[1]]))
            qpc_group_join(group, end[0], end[1]);
    }
    for (int32_t i = 0; i < w->body_count; i++)
        for (int32_t k = 0; k < w->body_count && w->still[i] != 0; k++)
            if (qpc_body_is_free(&w->bodies[k]) && qpc_group_of(group, k) == qpc_group_of(group, i)) mark(w, k, (qpc_still_reason)w->still[i]);
    qpc_arena_rewind(&w->arena, at);
}

bool qpc_still_find(qpc_world *w, const qpc_trial *t) {
    if (w->still_rounds >= MOST_ROUNDS) return false;
    bool any = t->broken ? mark_buried(w) : mark_fast(w, t);
    if (!any) return false;
    mark_joined(w);
    w->still_rounds++;
    w->still_found = true;
    return true;
}

bool qpc_still_find_again(qpc_world *w) {
    if (!w->still_retry) return false;
    w->still_retry = false;
    for (int32_t i = 0; i < w->body_count; i++)
        if (w->stuck[i] != 0) mark(w, i, (qpc_still_reason)w->stuck[i]);
    w->still_found = true;
    return true;
}

// ---- what stands in the parts of an attempt ----

static void stand(qpc_world *w, int32_t unknown, double velocity) {
    qpc_linsys *K = &w->sys;
    double own = fmax(1.0, w->mass_floor[unknown]);
    if (K->kind == QPC_LINSYS_BAND) {
        double *row = K->band + (int64_t)unknown * (K->bandwidth + 1);
        memset(row, 0, (size_t)K->bandwidth * sizeof *row);
        row[K->bandwidth] = own;
    } else {
        int32_t from = K->start[unknown];
        memset(K->value + from, 0, (size_t)(K->start[unknown + 1] - from) * sizeof *K->value);
        K->value[from] = own;
    }
    w->b[unknown] = -own * velocity;
}

void qpc_still_assemble(qpc_world *w) {
    for (int32_t i = 0; i < w->body_count; i++) {
        const qpc_body *body = &w->bodies[i];
        if (w->still[i] == 0) continue;
        if (body->motion == QPC_RIGID) {
            const qpc_rigid_state *now = &w->pose[body->rigid];
            const double six[6] = {now->v.x, now->v.y, now->v.z, now->w.x, now->w.y, now->w.z};
            for (int32_t a = 0; a < 6; a++) stand(w, w->rigids[body->rigid].dof + a, six[a]);
            continue;
        }
        for (int32_t k = 3 * body->first_node; k < 3 * (body->first_node + body->node_count); k++) stand(w, k, w->v[k]);
    }
}

void qpc_still_place(qpc_world *w) {
    for (int32_t i = 0; i < w->body_count; i++) {
        size_t first = 3 * (size_t)w->bodies[i].first_node, size = 3 * (size_t)w->bodies[i].node_count * sizeof(double);
        if (w->still[i] == 0) continue;
        memcpy(w->x1 + first, w->x + first, size);
        memset(w->v_frame + first, 0, size);
    }
}

void qpc_still_stop(const qpc_world *w, double *v1) {
    for (int32_t i = 0; i < w->body_count; i++) {
        const qpc_body *body = &w->bodies[i];
        if (w->still[i] != 0 && body->motion == QPC_DYNAMIC)
            memset(v1 + 3 * (size_t)body->first_node, 0, 3 * (size_t)body->node_count * sizeof *v1);
    }
}
