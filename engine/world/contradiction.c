/// What a contradiction is about: what known nodes leave nobody a way to meet (T57, T61), and the groups of bodies that a proof touches.
///
/// Runs on the worker in the world.
#include "engine/geometry/closest.h"
#include "engine/world/attempt.h"

#include <string.h>

// Of what is known in a pair, that what is free in it is let as near: beside a known point that is too near, the gap grows with the
// square of a turn about it only.
static const double LET_NEARER = 0.95;
static const double STAYS = 1e-9; // of a distance: less is rounding

/// Known nodes of a side take the places of free ones. False: none is known.
static bool fill_with_known(const qpc_world *w, const qpc_contact *c, int first, int end, int32_t *node) {
    int32_t known = -1;
    for (int k = first; k < end; k++)
        if (w->row_dof[c->node[k]] < 0) known = c->node[k];
    for (int k = first; k < end; k++) node[k] = w->row_dof[c->node[k]] < 0 ? c->node[k] : known;
    return known >= 0;
}

static qpc_vec3 place_of(const qpc_world *w, int32_t node, double h) {
    return v3_madd(v3_load(w->x + 3 * (int64_t)node), h, v3_load(w->v_frame + 3 * (int64_t)node));
}

/// Distance of the features of those nodes after h of the way that is known, m.
static double distance_of(const qpc_world *w, const qpc_contact *c, const int32_t *node, double h) {
    const qpc_body *other = &w->bodies[c->surface[1]];
    int count = other->obstacle ? qpc_contact_split(c) : 4;
    qpc_vec3 at[4];
    for (int k = 0; k < count; k++) at[k] = place_of(w, node[k], h);
    if (other->obstacle) {
        double frame[3 * QPC_IMPLICIT_NODES];
        for (int32_t k = 0; k < QPC_IMPLICIT_NODES; k++) v3_store(frame + 3 * k, place_of(w, other->first_node + k, h));
        qpc_implicit_frame f = qpc_implicit_frame_of(frame);
        for (int k = 0; k < count; k++) at[k] = qpc_implicit_to_local(&f, at[k]);
        return qpc_implicit_closest(&other->shape, count, at).phi;
    }
    qpc_closest near;
    if (c->kind == QPC_CONTACT_VT) qpc_closest_vt(at, &near);
    else qpc_closest_ee(at, &near);
    return near.distance;
}

/// Distance of what is known on both sides of a contact, m, where that stays too near: no motion of what is free in it makes it larger. Else infinite.
static double known_distance(const qpc_world *w, double h, const qpc_contact *c) {
    int32_t node[QPC_CONTACT_NODES];
    bool obstacle = w->bodies[c->surface[1]].obstacle;
    int split = qpc_contact_split(c);
    if (!fill_with_known(w, c, 0, split, node) || (!obstacle && !fill_with_known(w, c, split, 4, node))) return HUGE_VAL;
    double now = distance_of(w, c, node, 0.0);
    if (!(now < c->separation)) return HUGE_VAL;
    return distance_of(w, c, node, h) < now - STAYS * fabs(now) ? HUGE_VAL : now; // what closes it gives way
}

double qpc_step_separation(const qpc_world *w, double h, const qpc_contact *c) {
    double known = known_distance(w, h, c);
    return known < c->separation ? LET_NEARER * known : c->separation;
}

qpc_status qpc_step_ask_nobody(qpc_world *w, qpc_trial *t, double tolerance, qpc_error *err) {
    qpc_rows *rows = &w->rows;
    qpc_solver_report proof = {.outcome = QPC_OUTCOME_INFEASIBLE};
    for (int32_t i = 0; i < rows->m; i++) {
        if (rows->kind[i] != QPC_ROW_CONTACT) continue;
        const qpc_contact *c = &w->held.data[rows->source[i]];
        double past = fmin((c->separation - known_distance(w, t->h, c)) / t->h, w->recovery);
        if (!(past > tolerance)) continue;
        t->unmeetable = fmax(t->unmeetable, past);
        if (rows->row_start[i] == rows->row_start[i + 1]) rows->lambda[i] = 0.0;
        if (proof.conflict_count < QPC_CONFLICT_MAX) proof.conflict_row[proof.conflict_count] = i;
        proof.conflict_count++;
    }
    // A proof that says more stands.
    return proof.conflict_count > 0 && w->conflict_info_count == 0 ? qpc_step_keep_conflict(w, &proof, err) : QPC_OK;
}

/// Into group (bodies): bodies joined by rows. Into body (blocks of three unknowns): whose they are.
static void join_by_rows(const qpc_world *w, int32_t *group, int32_t *body) {
    for (int32_t k = 0; k < w->body_count; k++) {
        int32_t first, end;
        group[k] = k;
        qpc_body_blocks(w, &w->bodies[k], &first, &end);
        for (int32_t i = first; i < end; i++) body[i] = k;
    }
    for (int32_t i = 0; i < w->rows.m; i++)
        for (int32_t k = w->rows.row_start[i] + 1; k < w->rows.row_start[i + 1]; k++)
            qpc_group_join(group, body[w->rows.column[k - 1] / 3], body[w->rows.column[k] / 3]);
}

static qpc_status groups(qpc_world *w, int32_t **ret_group, int32_t **ret_body, qpc_error *err) {
    *ret_group = qpc_arena_array(&w->arena, (size_t)w->body_count, sizeof **ret_group);
    *ret_body = qpc_arena_array(&w->arena, (size_t)w->block_count, sizeof **ret_body);
    if (*ret_group == NULL || *ret_body == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for the groups of %d bodies", w->body_count);
    join_by_rows(w, *ret_group, *ret_body);
    return QPC_OK;
}

qpc_status qpc_rub_find_contradiction(qpc_world *w, const qpc_solver_report *proof, qpc_error *err) {
    qpc_rub *rub = &w->rub;
    int32_t *group, *body, named = qpc_conflict_named(proof);
    if (!qpc_array_reserve(&rub->lawless, w->body_count)) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d bodies", w->body_count);
    if (rub->lawless.count != w->body_count) memset(rub->lawless.data, 0, (size_t)w->body_count * sizeof *rub->lawless.data);
    rub->lawless.count = w->body_count;
    rub->contradicts = true;
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    qpc_status st = groups(w, &group, &body, err);
    for (int32_t i = 0; i < named && st == QPC_OK; i++) {
        int32_t row = proof->conflict_row[i], at = w->rows.row_start[row];
        if (at < w->rows.row_start[row + 1]) rub->lawless.data[body[w->rows.column[at] / 3]] = true;
    }
    for (int32_t k = 0; k < w->body_count && named < proof->conflict_count; k++) rub->lawless.data[k] = true; // not all are named
    qpc_arena_rewind(&w->arena, mark);
    return st;
}

qpc_status qpc_rub_make_lawful(qpc_world *w, double h, qpc_friction *ret, qpc_error *err) {
    qpc_rub *rub = &w->rub;
    int32_t *group, *body;
    if (!rub->contradicts) return qpc_step_make_friction(w, h, NULL, ret, err);
    bool *left_out = qpc_arena_array(&w->arena, (size_t)w->rows.m, sizeof *left_out);
    bool *of_group = qpc_arena_array(&w->arena, (size_t)w->body_count, sizeof *of_group);
    if (left_out == NULL || of_group == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for the friction of %d rows", w->rows.m);
    qpc_status st = groups(w, &group, &body, err);
    if (st != QPC_OK) return st;
    memset(of_group, 0, (size_t)w->body_count * sizeof *of_group);
    for (int32_t k = 0; k < w->body_count; k++)
        if (rub->lawless.data[k]) of_group[qpc_group_of(group, k)] = true;
    for (int32_t i = 0; i < w->rows.m; i++) {
        int32_t at = w->rows.row_start[i];
        left_out[i] = at < w->rows.row_start[i + 1] && of_group[qpc_group_of(group, body[w->rows.column[at] / 3])];
    }
    return qpc_step_make_friction(w, h, left_out, ret, err);
}
