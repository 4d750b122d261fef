/// Damping by stiffness of soft bodies (docs/theory-joints.md, TJ13): H is that of the start of the motion. Runs on the worker in the world.
#include "engine/world/loads.h"

#include <math.h>

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
