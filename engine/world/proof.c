/// What is known of a motion: continuous tests, and the proof that they give.
///
/// A motion x -> x1 is proven by a test of this very motion, at the acceptance distance or a larger
/// one, that ran to its end and found nothing; a pair that detection cannot decide is a hit. What was found
/// clean is kept and compared with what is taken over, so that a path through the step that forgets the test, or
/// changes the motion after it, shows itself in the report. Runs on the thread in the world.
#include "engine/world/attempt.h"

#include <string.h>

/// The nodes of a body that may be elsewhere at the end of a motion.
static bool may_move(const qpc_body *body) { return qpc_body_is_free(body) || qpc_motion_is_driven(body); }

bool qpc_motion_is_proven(const qpc_world *w) {
    if (!w->proof) return false;
    for (int32_t i = 0; i < w->body_count; i++) {
        const qpc_body *body = &w->bodies[i];
        if (body->motion == QPC_STATIC) continue;
        const double *end = may_move(body) ? w->proven : w->x;
        size_t first = 3 * (size_t)body->first_node, count = 3 * (size_t)body->node_count;
        if (memcmp(end + first, w->x1 + first, count * sizeof(double)) != 0) return false;
    }
    return true;
}

qpc_status qpc_motion_test(qpc_world *w, double factor, double *ret_toi, qpc_error *err) {
    if (!qpc_motion_is_proven(w)) { // another motion than the one that was found clean
        w->proof = false;
        for (int32_t i = 0; i < w->body_count; i++) {
            size_t first = 3 * (size_t)w->bodies[i].first_node, count = 3 * (size_t)w->bodies[i].node_count;
            if (may_move(&w->bodies[i])) memcpy(w->proven + first, w->x1 + first, count * sizeof(double));
        }
    }
    qpc_status st = qpc_detect_motion(w->detector, w->x, w->x1, factor, &w->probe, err);
    if (st != QPC_OK) return st;
    double toi = 1.0;
    for (int32_t i = 0; i < w->probe.count; i++) {
        toi = fmin(toi, w->probe.data[i].toi);
        w->report->ccd_uncertain += (w->probe.data[i].flags & QPC_CONTACT_UNCERTAIN) != 0;
    }
    w->report->hits += w->probe.count;
    if (ret_toi != NULL) *ret_toi = toi;
    w->proof = w->proof || (w->probe.count == 0 && factor >= QPC_ACCEPT_FACTOR);
    return QPC_OK;
}

static const double CLOSER = 1e-5; // of a distance: what is less is no motion

/// A pair that is closer than that at the start of a motion comes closer still.
static bool squeezes(const qpc_world *w, const qpc_contact *c, double factor) {
    double before = qpc_contact_gap_at(c, w->x);
    return before < factor * c->separation && qpc_contact_gap_at(c, w->x1) < before * (1.0 - CLOSER);
}

qpc_status qpc_motion_find_squeezed(qpc_world *w, double factor, qpc_error *err) {
    double gap = factor;
    w->probe.count = 0;
    qpc_status st = qpc_detect_gap_within(w->detector, w->x1, gap, &gap, err);
    if (st != QPC_OK || gap >= factor) return st;
    if ((st = qpc_detect_proximity(w->detector, w->x1, factor, &w->probe, err)) != QPC_OK) return st;
    int32_t count = 0;
    for (int32_t i = 0; i < w->probe.count; i++) {
        if (!squeezes(w, &w->probe.data[i], factor)) continue;
        w->probe.data[count] = w->probe.data[i];
        w->probe.data[count++].flags |= QPC_CONTACT_AT_START;
    }
    w->probe.count = count;
    return QPC_OK;
}

qpc_status qpc_motion_find_end(qpc_world *w, double *gap, bool *ret_nearer, qpc_error *err) {
    qpc_status st = qpc_detect_gap_within(w->detector, w->x1, *gap, gap, err);
    *ret_nearer = false;
    if (st != QPC_OK || !(*gap < QPC_PASS_FACTOR)) return st;
    double before = QPC_PASS_FACTOR;
    st = qpc_detect_gap_within(w->detector, w->x, before, &before, err);
    *ret_nearer = *gap < before * (1.0 - CLOSER);
    return st;
}

qpc_status qpc_motion_test_strictly(qpc_world *w, qpc_error *err) {
    qpc_status st = qpc_motion_test(w, QPC_ACCEPT_FACTOR, NULL, err);
    return st != QPC_OK || w->probe.count > 0 ? st : qpc_motion_find_squeezed(w, QPC_ACCEPT_FACTOR, err);
}
