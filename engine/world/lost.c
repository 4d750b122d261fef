/// Contacts that a prediction leaves behind (T44), and cables that it stretches (T45).
///
/// A cable that slides over a body of radius R goes straight on by v h when a motion is predicted, and is (v h)^2 / R above the
/// surface then. Where that is more than rows reach, contacts that go on all the same have none. Such a motion is one for
/// smaller steps. Where it is less, the cable may still be stretched there by more than it carries, and a QP that is linearised
/// there says little.
///
/// Runs on the worker in the world.
#include "engine/world/attempt.h"

#include <string.h>

static const double FEW = 0.1;  // of the nodes that are pushed: what comes off at the ends of a contact
// Of the tension that there is:
static const double FAR = 3.0;  // what the prediction has more than that, led nowhere near
static const double MUCH = 2.0; // or so much that corrections are needed
static const double OFF = 0.1;  // as they are for so much in the answer that the QP does not know of

/// Mark the free nodes that a contact acts on; whether there are any.
static bool mark(const qpc_world *w, const qpc_contact *c, uint8_t *nodes) {
    bool any = false;
    for (int k = 0; k < 4; k++) {
        if (c->weight[k] == 0.0 || c->node[k] >= w->free_count) continue;
        nodes[c->node[k]] = 1;
        any = true;
    }
    return any;
}

/// The same of all that pushes in the answer at hand.
static bool mark_pushed(const qpc_world *w, uint8_t *nodes) {
    bool any = false;
    for (int32_t i = 0; i < w->rows.m; i++)
        if (w->rows.kind[i] == QPC_ROW_CONTACT && w->rows.lambda[i] > 0.0)
            any = mark(w, &w->held.data[w->rows.source[i]], nodes) || any;
    return any;
}

void qpc_lost_keep(qpc_world *w) {
    memset(w->touched, 0, (size_t)w->free_count);
    w->any_touched = mark_pushed(w, w->touched);
}

void qpc_lost_start(qpc_world *w) {
    for (int32_t i = 0; i < w->near.count; i++) w->any_touched = mark(w, &w->near.data[i], w->touched) || w->any_touched;
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

/// Sums over springs between nodes that were pushed, of tension where positive, N.
typedef struct tensions {
    double before, predicted, after; // at x; x + h v; x1
    double unknown;                  // at x1, apart from what the QP has there, which is linearised at x + h v
} tensions;

static double pull(const qpc_world *w, int32_t spring, double length) {
    return w->stiffness[spring] * fmax(0.0, length - w->rest_length[spring]);
}

static void add_tensions(const qpc_world *w, double h, int32_t spring, tensions *sum) {
    int32_t i = 3 * w->spring_node[spring], j = 3 * qpc_springs_other(&w->springs, spring);
    qpc_vec3 before = v3_sub(v3_load(w->x + i), v3_load(w->x + j)), after = v3_sub(v3_load(w->x1 + i), v3_load(w->x1 + j));
    qpc_vec3 predicted = v3_madd(before, h, v3_sub(v3_load(w->v + i), v3_load(w->v + j)));
    double length = v3_norm(predicted);
    sum->before += pull(w, spring, v3_norm(before));
    sum->predicted += pull(w, spring, length);
    double pulls = pull(w, spring, v3_norm(after));
    sum->after += pulls;
    if (length > 0.0) sum->unknown += pulls - pull(w, spring, v3_dot(predicted, after) / length); // never negative
}

void qpc_lost_compare(const qpc_world *w, qpc_trial *t) {
    tensions sum = {0};
    uint8_t *pushed = w->lost;
    memcpy(pushed, w->touched, (size_t)w->free_count);
    if (!mark_pushed(w, pushed) && !w->any_touched) return;
    for (int32_t b = 0; b < w->body_count; b++) {
        const qpc_body *body = &w->bodies[b];
        for (int32_t s = body->first_spring; s < body->first_spring + body->stretch_count; s++)
            if (pushed[w->spring_node[s]] && pushed[qpc_springs_other(&w->springs, s)]) add_tensions(w, t->h, s, &sum);
    }
    double there = fmax(sum.after, sum.before);
    t->overshoots = sum.predicted > FAR * there;
    t->rough = sum.predicted > MUCH * there || sum.unknown > OFF * there;
}
