/// Rows that contradict each other, by the names of their features, for readers.
#include "engine/world/attempt.h"

#include <string.h>

/// The body of a spring, and its number there.
static void spring_of(const qpc_world *w, int32_t spring, qpc_conflict_info *ret) {
    for (int32_t i = 0; i < w->body_count; i++) {
        qpc_body_info body = qpc_world_body(w, i);
        int32_t inside = spring - body.first_spring;
        if (inside < 0 || inside >= body.spring_count) continue;
        ret->body[0] = i;
        ret->feature[0] = inside;
    }
}

qpc_status qpc_step_keep_conflict(qpc_world *w, const qpc_solver_report *report, qpc_error *err) {
    int32_t count = qpc_conflict_named(report);
    if (count > w->conflict_info_capacity) {
        qpc_conflict_info *grown = qpc_realloc_array(w->conflict_info, (size_t)count, sizeof *grown);
        if (grown == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d rows that contradict", count);
        w->conflict_info = grown;
        w->conflict_info_capacity = count;
    }
    for (int32_t i = 0; i < count; i++) {
        int32_t row = report->conflict_row[i], source = w->rows.source[row];
        qpc_conflict_info *out = &w->conflict_info[i];
        *out = (qpc_conflict_info){.body = {-1, -1}, .feature = {-1, -1}, .key = w->rows.key[row]};
        if (w->rows.kind[row] == QPC_ROW_CONTACT) {
            const qpc_contact *c = &w->held.data[source];
            out->kind = c->kind == QPC_CONTACT_VT ? QPC_CONFLICT_VERTEX_TRIANGLE : QPC_CONFLICT_EDGE_EDGE;
            memcpy(out->body, c->surface, sizeof out->body);
            memcpy(out->feature, c->feature, sizeof out->feature);
        } else {
            out->kind = w->rows.kind[row] == QPC_ROW_STRAIN_MAX ? QPC_CONFLICT_STRAIN_MAX : QPC_CONFLICT_STRAIN_MIN;
            spring_of(w, source, out);
        }
    }
    w->conflict_info_count = count;
    w->report->conflicts = report->conflict_count;
    return QPC_OK;
}
