/// Contacts that a prediction leaves behind (T44).
///
/// A cable that slides over a body of radius R goes straight on by v h when a motion is predicted, and is (v h)^2 / R above the
/// surface then. Where that is more than rows reach, contacts that go on all the same have none. Such a motion is one for
/// smaller steps.
///
/// Runs on the worker in the world.
#include "engine/world/attempt.h"

#include <string.h>

static const double FEW = 0.1; // of the nodes that are pushed: what comes off at the ends of a contact

/// Mark the free nodes that a contact acts on.
static void mark(qpc_world *w, const qpc_contact *c) {
    for (int k = 0; k < 4; k++) {
        if (c->weight[k] == 0.0 || c->node[k] >= w->free_count) continue;
        w->touched[c->node[k]] = 1;
        w->any_touched = true;
    }
}

void qpc_lost_keep(qpc_world *w) {
    memset(w->touched, 0, (size_t)w->free_count);
    w->any_touched = false;
    for (int32_t i = 0; i < w->rows.m; i++)
        if (w->rows.kind[i] == QPC_ROW_CONTACT && w->rows.lambda[i] > 0.0) mark(w, &w->held.data[w->rows.source[i]]);
}

void qpc_lost_start(qpc_world *w) {
    for (int32_t i = 0; i < w->near.count; i++) mark(w, &w->near.data[i]);
}

bool qpc_lost_look(qpc_world *w) {
    int32_t pushed = 0, lost = 0;
    if (!w->any_touched) return false;
    memcpy(w->lost, w->touched, (size_t)w->free_count);
    for (int32_t i = 0; i < w->probe.count; i++)
        for (int k = 0; k < 4; k++)
            if (w->probe.data[i].node[k] < w->free_count) w->lost[w->probe.data[i].node[k]] = 0;
    for (int32_t i = 0; i < w->free_count; i++) {
        pushed += w->touched[i];
        lost += w->lost[i];
    }
    return lost > FEW * pushed;
}
