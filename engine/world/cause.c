/// Why a step ran out of the range of numbers: what a body would do in it that none can, into the message of the error.
#include "engine/world/world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double MOST_TURN = 1e3, MOST_WAY = 1e12; // in a step, rad and m: more than can be followed in doubles
static const double LOST = 1e-13;                     // of h^2 k: masses below are lost in round-off beside it

static int explain_mass(const qpc_world *w, const qpc_body *body, char *out, size_t size) {
    double stiffest = 0.0;
    for (int32_t s = body->first_spring; s < body->first_spring + body->spring_count; s++) stiffest = fmax(stiffest, (w->base != NULL ? w->base : w->stiffness)[s]);
    for (int32_t i = body->first_node; i < body->first_node + body->node_count; i++)
        if (body->motion == QPC_DYNAMIC && w->mass[i] < LOST * w->dt * w->dt * stiffest)
            return snprintf(out, size, "a mass of %.3g kg (node %d) is lost beside its stiffness, %.3g N/m times dt^2", w->mass[i], i - body->first_node, stiffest);
    return 0;
}

/// What is out of range about one body, or nothing; the length of the text.
static int explain(const qpc_world *w, const qpc_body *body, char *out, size_t size) {
    double spin = v3_norm(body->rigid >= 0 ? w->pose[body->rigid].w : body->angular_velocity), fast = 0.0;
    double fall = qpc_body_is_free(body) ? v3_norm(w->gravity) * w->dt : 0.0;
    if (spin * w->dt > MOST_TURN) return snprintf(out, size, "its angular velocity is %.3g rad/s, %.3g rad in a step of %g s", spin, spin * w->dt, w->dt);
    for (int32_t i = body->first_node; i < body->first_node + body->node_count && i < w->moving_count; i++) fast = fmax(fast, v3_norm(v3_load(w->v + 3 * (int64_t)i)));
    if (fast * w->dt > MOST_WAY) return snprintf(out, size, "its speed is %.3g m/s, %.3g m in a step of %g s", fast, fast * w->dt, w->dt);
    if (fall * w->dt > MOST_WAY) return snprintf(out, size, "it would fall by %.3g m in a step of %g s", fall * w->dt, w->dt);
    return explain_mass(w, body, out, size);
}

void qpc_world_name_cause(const qpc_world *w, qpc_error *err) {
    if (err == NULL) return;
    for (int32_t i = 0; i < w->body_count; i++) {
        char why[256];
        size_t used = strlen(err->message);
        if (explain(w, &w->bodies[i], why, sizeof why) <= 0) continue;
        (void)snprintf(err->message + used, sizeof err->message - used, "; of bodies[%d] %s", i, why);
        return;
    }
}
