/// Damping by stiffness of soft bodies (docs/theory-joints.md, TJ13): H is that of the start of the motion. Runs on the worker in the world.
#include "engine/world/loads.h"

#include <math.h>

/// h beta omega^2 of the fastest mode: beyond that the body moves as a rigid one to six digits, and what is left of its own motion is lost in the
/// rounding of H v.
static const double MOST_DAMPED = 1e6;

qpc_status qpc_damping_check(const qpc_world *w, const qpc_load *load, double h, const char *where, qpc_error *err) {
    double rate = h * qpc_softs_stiffest(w, load->body);
    if (!(load->per_stiffness * rate > MOST_DAMPED)) return QPC_OK;
    return qpc_fail_at(err, QPC_ERR_INVALID, where,
                       "per_stiffness of %g s would damp the body's stiffest motion to %.1g of it in a step of %g s, below what numbers resolve; at most "
                       "%.3g s here (what must not deform at all is a rigid body)",
                       load->per_stiffness, 1.0 / (load->per_stiffness * rate), h, MOST_DAMPED / rate);
}

/// Hv of its nodes into w->Hu: nothing else is there between assembly and the next.
static void multiply(const qpc_world *w, const qpc_load *load, const double *v) {
    const qpc_body *body = &w->bodies[load->body];
    qpc_tets tets = qpc_softs_of(w, load->body);
    for (int32_t k = 3 * body->first_node; k < 3 * (body->first_node + body->node_count); k++) w->Hu[k] = 0.0;
    qpc_tets_linearise(&tets, w->x, v, 0.0, NULL, NULL, w->Hu);
}

void qpc_damping_linearise(qpc_world *w, const qpc_load *load, double h) {
    const qpc_body *body = &w->bodies[load->body];
    qpc_tets tets = qpc_softs_of(w, load->body);
    qpc_tets_linearise(&tets, w->x, NULL, sqrt(h * load->per_stiffness), &w->sys, NULL, NULL); // h beta H
    multiply(w, load, w->v);
    for (int32_t k = 3 * body->first_node; k < 3 * (body->first_node + body->node_count); k++) w->b[k] -= h * load->per_stiffness * w->Hu[k];
}

double qpc_damping_potential(const qpc_world *w, const qpc_load *load, double h, const double *dv) {
    const qpc_body *body = &w->bodies[load->body];
    int32_t first = 3 * body->first_node, end = first + 3 * body->node_count;
    double *v1 = w->f, sum = 0.0;
    for (int32_t k = first; k < end; k++) v1[k] = w->v[k] + dv[k];
    multiply(w, load, v1);
    for (int32_t k = first; k < end; k++) sum += v1[k] * w->Hu[k];
    return 0.5 * h * load->per_stiffness * sum;
}
