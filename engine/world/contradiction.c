/// What a contradiction is about (T57): rows between known nodes, which nobody can meet, and the groups of bodies that a proof touches.
///
/// Runs on the worker in the world.
#include "engine/world/attempt.h"

#include <string.h>

/// How fast the known sides of a contact open it, m/s; < 0: what drives closes it.
static double opening_of(const qpc_world *w, int32_t row) {
    const qpc_contact *c = &w->held.data[w->rows.source[row]];
    double opening = 0.0;
    for (int k = 0; k < QPC_CONTACT_NODES; k++) opening += c->weight[k] * v3_dot(c->n, v3_load(w->v_frame + 3 * c->node[k]));
    return opening;
}

qpc_status qpc_step_ask_nobody(qpc_world *w, qpc_trial *t, double tolerance, qpc_error *err) {
    qpc_rows *rows = &w->rows;
    qpc_solver_report proof = {.outcome = QPC_OUTCOME_INFEASIBLE};
    for (int32_t i = 0; i < rows->m; i++) {
        if (rows->row_start[i] != rows->row_start[i + 1] || rows->kind[i] != QPC_ROW_CONTACT || !(rows->c[i] < -tolerance) || opening_of(w, i) < 0.0) continue;
        t->unmeetable = fmax(t->unmeetable, -rows->c[i]);
        rows->c[i] = rows->lambda[i] = 0.0;
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
