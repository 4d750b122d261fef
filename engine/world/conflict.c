/// Rows that contradict each other, by the names of their features, for readers.
#include "engine/world/attempt.h"
#include "engine/world/joints.h"

#include <string.h>

/// The body of a spring, and its number there.
static void spring_of(const qpc_world *w, int32_t spring, qpc_conflict_info *ret) {
    ret->body[0] = qpc_world_body_of_spring(w, spring);
    ret->feature[0] = spring - w->bodies[ret->body[0]].first_spring;
}

static void joint_of(const qpc_world *w, int32_t joint, qpc_conflict_info *ret) {
    ret->kind = QPC_CONFLICT_JOINT;
    ret->body[0] = qpc_joints_body(w, joint);
    ret->feature[0] = w->joint_info[joint].constraint;
}

static bool same(const qpc_conflict_info *a, const qpc_conflict_info *b) {
    return a->kind == b->kind && a->key == b->key && a->body[0] == b->body[0] && a->body[1] == b->body[1] &&
           a->feature[0] == b->feature[0] && a->feature[1] == b->feature[1];
}

/// Rows of one pair or spring, in several directions, have one name: whether that of entry `at` is there already. At most
/// 1,024 entries.
static bool named_before(const qpc_conflict_info *list, int32_t at) {
    for (int32_t i = 0; i < at; i++)
        if (same(&list[i], &list[at])) return true;
    return false;
}

static qpc_status reserve(qpc_world *w, int32_t count, qpc_error *err) {
    if (count <= w->conflict_info_capacity) return QPC_OK;
    qpc_conflict_info *grown = qpc_realloc_array(w->conflict_info, (size_t)count, sizeof *grown);
    if (grown == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d rows that contradict", count);
    w->conflict_info = grown;
    w->conflict_info_capacity = count;
    return QPC_OK;
}

qpc_status qpc_step_keep_open(qpc_world *w, int32_t joint, qpc_error *err) {
    if (w->conflict_info_count > 0) return QPC_OK;
    qpc_status st = reserve(w, 1, err);
    if (st != QPC_OK) return st;
    w->conflict_info[0] = (qpc_conflict_info){.body = {-1, -1}, .feature = {-1, -1}, .key = qpc_joints_key(joint, 0)};
    joint_of(w, joint, &w->conflict_info[0]);
    w->report->conflicts = w->conflict_info_count = 1;
    return QPC_OK;
}

qpc_status qpc_step_keep_given(qpc_world *w, qpc_error *err) {
    int32_t count = 0, named = 0;
    if (w->springs.giving == NULL || w->conflict_info_count > 0) return QPC_OK;
    for (int32_t s = 0; s < w->springs.count; s++)
        count += w->giving[s] != 0 && qpc_springs_past_limit(&w->springs, s, w->x) != 0.0;
    int32_t most = count < QPC_CONFLICT_MAX ? count : QPC_CONFLICT_MAX;
    qpc_status st = reserve(w, most, err);
    if (st != QPC_OK) return st;
    for (int32_t s = 0; s < w->springs.count && named < most; s++) {
        double past = w->giving[s] != 0 ? qpc_springs_past_limit(&w->springs, s, w->x) : 0.0;
        if (past == 0.0) continue;
        qpc_conflict_info *out = &w->conflict_info[named++];
        *out = (qpc_conflict_info){.body = {-1, -1}, .feature = {-1, -1}, .key = qpc_step_strain_key(s, past > 0.0)};
        out->kind = past > 0.0 ? QPC_CONFLICT_STRAIN_MAX : QPC_CONFLICT_STRAIN_MIN;
        spring_of(w, s, out);
    }
    w->conflict_info_count = named;
    w->report->conflicts = count;
    return QPC_OK;
}

qpc_status qpc_step_keep_conflict(qpc_world *w, const qpc_solver_report *report, qpc_error *err) {
    int32_t count = qpc_conflict_named(report);
    qpc_status st = reserve(w, count, err);
    if (st != QPC_OK) return st;
    int32_t named = 0;
    for (int32_t i = 0; i < count; i++) {
        int32_t row = report->conflict_row[i], source = w->rows.source[row];
        qpc_conflict_info *out = &w->conflict_info[named];
        *out = (qpc_conflict_info){.body = {-1, -1}, .feature = {-1, -1}, .key = w->rows.key[row]};
        if (w->rows.kind[row] == QPC_ROW_CONTACT) {
            const qpc_contact *c = &w->held.data[source];
            out->kind = c->kind == QPC_CONTACT_EE ? QPC_CONFLICT_EDGE_EDGE : QPC_CONFLICT_VERTEX_TRIANGLE;
            memcpy(out->body, c->surface, sizeof out->body);
            memcpy(out->feature, c->feature, sizeof out->feature);
        } else if (w->rows.kind[row] == QPC_ROW_JOINT)
            joint_of(w, source, out);
        else {
            out->kind = w->rows.kind[row] == QPC_ROW_STRAIN_MAX ? QPC_CONFLICT_STRAIN_MAX : QPC_CONFLICT_STRAIN_MIN;
            spring_of(w, source, out);
        }
        named += !named_before(w->conflict_info, named);
    }
    w->conflict_info_count = named;
    w->report->conflicts = report->conflict_count;
    return QPC_OK;
}
