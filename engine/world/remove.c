/// Bodies taken out of a running world (docs/architecture.md, Removing bodies).
///
/// A removed body keeps its number, its nodes and its unknowns, so that frames keep their layout: its nodes stay where they are, at
/// rest, as those of a body that stands (standstill.c). Nothing touches it any more, joints and loads that name it go with it, and it
/// has neither forces nor energy. Between steps, on the worker in the world.
#include "engine/world/joints.h"
#include "engine/world/loads.h"
#include "engine/world/obstacles.h"
#include "engine/world/sheets.h"

#include <string.h>

qpc_status qpc_world_make_detector(const qpc_world *w, const bool *gone, qpc_detector **ret, qpc_error *err) {
    qpc_surface *surfaces = qpc_calloc((size_t)w->body_count, sizeof *surfaces);
    if (surfaces == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for detection");
    for (int32_t i = 0; i < w->body_count; i++) {
        const qpc_body *body = &w->bodies[i];
        surfaces[i] = (qpc_surface){
            .motion = body->motion,
            .first_node = body->first_node,
            .node_count = body->core_count > 0 ? body->core_count : body->node_count,
            .mesh = body->mesh,
            .shape = body->obstacle ? &body->shape : NULL,
            .rest_length = body->mesh != NULL || body->obstacle ? NULL : body->core_count > 0 ? &body->core_length : w->rest_length + body->first_spring,
            .radius = body->radius,
            .self_exclusion = body->self_exclusion,
            .absent = gone != NULL && gone[i],
        };
    }
    int64_t most = w->env.limits.max_candidates > 0 ? w->env.limits.max_candidates : 20000000;
    qpc_status st = qpc_detector_create(surfaces, w->body_count, w->x, w->node_count, most, ret, err);
    if (st == QPC_OK) qpc_detector_set_parallel(*ret, w->env.parallel);
    qpc_free(surfaces);
    return st;
}

// ---- what hangs on bodies ----

static bool names_gone(const qpc_joint *joint, const bool *gone) {
    for (int32_t p = 0; p < joint->count; p++)
        if (joint->named[p] >= 0 && gone[joint->named[p]]) return true;
    return false;
}

static void drop_joints(qpc_world *w, const bool *gone) {
    int32_t kept = 0;
    for (int32_t i = 0; i < w->joint_count; i++) {
        if (names_gone(&w->joints[i], gone)) {
            qpc_joint_fini(&w->joints[i]);
            continue;
        }
        w->joint_info[kept] = w->joint_info[i];
        w->joints[kept++] = w->joints[i];
    }
    w->joint_count = kept;
}

static void drop_loads(qpc_world *w, const bool *gone) {
    int32_t kept = 0;
    for (int32_t i = 0; i < w->load_count; i++) {
        const qpc_load *load = &w->loads[i];
        if (names_gone(&load->link, gone) || (load->kind != QPC_LOAD_SPRING && load->body >= 0 && gone[load->body])) {
            qpc_load_fini(&w->loads[i]);
            continue;
        }
        w->loads[kept++] = w->loads[i];
    }
    w->load_count = kept;
}

static void drop_contacts(qpc_world *w, const bool *gone) {
    int32_t kept = 0;
    for (int32_t i = 0; i < w->contact_info_count; i++)
        if (!gone[w->contact_info[i].body[0]] && !gone[w->contact_info[i].body[1]]) w->contact_info[kept++] = w->contact_info[i];
    w->contact_info_count = kept;
    w->conflict_info_count = 0;
    w->warm_count = w->kept.count = 0; // their keys number features, and joints
    w->near_valid = w->proof = false;
}

// ---- one body ----

/// It is at rest, and nothing drives it.
static void stop(qpc_world *w, int32_t index) {
    qpc_body *body = &w->bodies[index];
    qpc_vec3 zero = v3(0.0, 0.0, 0.0);
    memset(w->v + 3 * (size_t)body->first_node, 0, 3 * (size_t)body->node_count * sizeof *w->v);
    body->velocity = body->angular_velocity = body->owed = body->owed_turn = zero;
    body->pace = body->turn_pace = 0.0;
    if (body->motion == QPC_RIGID) {
        w->pose[body->rigid].v = w->pose[body->rigid].w = zero;
        memset(w->force + w->rigids[body->rigid].dof, 0, 6 * sizeof *w->force);
    }
    if (body->motion != QPC_DYNAMIC) return;
    memset(w->force + 3 * (size_t)body->first_node, 0, 3 * (size_t)body->node_count * sizeof *w->force);
    memset(w->touched + body->first_node, 0, (size_t)body->node_count);
    memset(w->lost + body->first_node, 0, (size_t)body->node_count);
    for (int32_t i = 0; i < w->pin_count; i++) {
        qpc_pin *pin = &w->pins[i];
        if (pin->node < body->first_node || pin->node >= body->first_node + body->node_count) continue;
        pin->target = v3_load(w->x + 3 * (size_t)pin->node);
        pin->velocity = pin->reaction = zero;
        pin->pace = 0.0;
        pin->told = false;
        pin->gone = true;
        v3_store(w->reactions + 3 * (size_t)i, zero);
    }
}

/// It stores nothing: its lengths are those at rest, and nothing resists.
static void slacken(qpc_world *w, int32_t index) {
    const qpc_body *body = &w->bodies[index];
    for (int32_t s = body->first_spring; s < body->first_spring + body->spring_count; s++) {
        double length = v3_norm(v3_sub(v3_load(w->x + 3 * (size_t)qpc_springs_other(&w->springs, s)), v3_load(w->x + 3 * (size_t)w->spring_node[s])));
        if (length > 0.0) w->rest_length[s] = length;
        w->stiffness[s] = w->tension[s] = w->limit_force[s] = w->spring_min[s] = 0.0;
        if (w->base != NULL) w->base[s] = 0.0;
        w->spring_max[s] = HUGE_VAL;
    }
    qpc_softs_slacken(w, index);
    qpc_sheets_slacken(w, index);
}

/// What it weighs where it is, kg m: that is no potential energy any more.
static qpc_vec3 moment_of(const qpc_world *w, int32_t index) {
    const qpc_body *body = &w->bodies[index];
    qpc_vec3 sum = v3(0.0, 0.0, 0.0);
    if (body->motion == QPC_RIGID) return v3_scale(w->rigids[body->rigid].inertia.mass, w->pose[body->rigid].x);
    for (int32_t k = body->first_node; k < body->first_node + body->node_count && body->motion == QPC_DYNAMIC; k++)
        sum = v3_madd(sum, w->mass[k], v3_load(w->x + 3 * (size_t)k));
    return sum;
}

void qpc_world_take_out(qpc_world *w, const bool *gone, qpc_detector *detector) {
    qpc_detector_destroy(w->detector);
    w->detector = detector;
    drop_joints(w, gone);
    drop_loads(w, gone);
    drop_contacts(w, gone);
    for (int32_t i = 0; i < w->body_count; i++) {
        qpc_body *body = &w->bodies[i];
        if (!gone[i] || body->gone) continue;
        body->gone = true;
        body->gone_since = w->step;
        w->stuck[i] = 0;
        w->stood_for[i] = 0;
        stop(w, i);
        slacken(w, i);
        w->gone_moment = v3_add(w->gone_moment, moment_of(w, i));
    }
}
