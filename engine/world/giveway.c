/// Strain limits that give way (T40): where they contradict what is driven, those of the bodies concerned become stiff
/// springs for the rest of the motion, and the motion is tried again.
///
/// Linearised limits cannot be relaxed by their rows alone. Unless a cable is exactly straight, nodes that move sideways by
/// many lengths "shorten" it, and the least sum of squares asks for that. A spring has its energy at any length, so that the
/// incremental potential, its minimum and the energy test stay what they are. Runs on the worker in the world.
#include "engine/world/attempt.h"

#include <string.h>

static const double LEFT_BEHIND = 2e-3; // relative; lengths so far past a limit that holds were not found

/// The limits of that body give way; false if they do already.
static bool let_go(qpc_world *w, int32_t body) {
    const qpc_body *of = &w->bodies[body];
    if (of->stretch_count == 0 || w->giving[of->first_spring] != 0) return false;
    memset(w->giving + of->first_spring, 1, (size_t)of->stretch_count);
    w->springs.giving = w->giving;
    return true;
}

static bool may_give(const qpc_world *w) { return w->any_limit && qpc_is_implicit(w) && !w->solver.position_based; }

/// Bodies with springs past a limit at x: where a motion begins so, the limit gave way in the one before; where it ends so, the
/// limits that should hold do not.
static bool let_go_past(qpc_world *w, const double *x) {
    bool any = false;
    for (int32_t s = 0; s < w->springs.count; s++) {
        qpc_vec3 n;
        if (w->giving[s] != 0) continue;
        double length = qpc_spring_direction(w, s, x, &n);
        if (length > w->spring_max[s] * (1.0 + LEFT_BEHIND) || length < w->spring_min[s] * (1.0 - LEFT_BEHIND))
            any = let_go(w, qpc_world_body_of_spring(w, s)) || any;
    }
    return any;
}

void qpc_step_hold_limits(qpc_world *w) {
    if (w->springs.giving != NULL) memset(w->giving, 0, (size_t)w->springs.count);
    w->springs.giving = NULL;
    // A row that holds again where its spring is far past pulls that in within one motion, whatever it takes.
    if (may_give(w)) let_go_past(w, w->x);
}

bool qpc_step_conflict_gives(qpc_world *w, const qpc_solver_report *report) {
    bool any = false;
    if (!may_give(w)) return false;
    int32_t named = qpc_conflict_named(report);
    for (int32_t i = 0; i < named; i++) {
        int32_t row = report->conflict_row[i];
        if (!qpc_row_limits_strain(w->rows.kind[row])) continue;
        any = let_go(w, qpc_world_body_of_spring(w, w->rows.source[row])) || any;
    }
    for (int32_t i = 0; i < w->rows.m && !any && named < report->conflict_count; i++) // not all are named
        if (qpc_row_limits_strain(w->rows.kind[i]))
            any = let_go(w, qpc_world_body_of_spring(w, w->rows.source[i])) || any;
    if (any) let_go_past(w, w->x); // a proof names one conflict; others that go on are not found one by one
    return any;
}

/// Limits that pulled or pushed in the motion give way.
static bool let_go_loaded(qpc_world *w) {
    bool any = false;
    for (int32_t i = 0; i < w->rows.m; i++)
        if (qpc_row_limits_strain(w->rows.kind[i]) && w->rows.lambda[i] > 0.0) any = let_go(w, qpc_world_body_of_spring(w, w->rows.source[i])) || any;
    return any;
}

bool qpc_step_overrun_gives(qpc_world *w, const qpc_trial *t) {
    if (!may_give(w) || t->gentle || t->exhausted) return false;
    if (let_go_past(w, w->x1)) return true;
    return qpc_trial_gains(w, t) && let_go_loaded(w);
}

double qpc_step_given(const qpc_world *w, double h) {
    double most = 0.0;
    if (w->springs.giving == NULL) return 0.0;
    for (int32_t s = 0; s < w->springs.count; s++)
        if (w->giving[s] != 0) most = fmax(most, fabs(qpc_springs_past_limit(&w->springs, s, w->x1)));
    return most / h;
}
