/// The curvature of round obstacles in K (T54): what the contacts of a cable's edges add to the matrix of a step.
#include "engine/world/attempt.h"

#include <math.h>

static const double LEAST_PART = 1e-6;  // of an edge beyond the point that touches: nearer to a node it cannot roll
static const double LEAST_CROSS = 0.1;  // of the curvature of the shape that an edge must see: one along the axis touches all over
static const double MOST = 10.0;        // in units of a node's own m + h^2 k: multipliers of rows that contradict run away

/// The spring of the edge of a contact with an obstacle that may roll on it; -1: none.
static int32_t rolling_spring(const qpc_world *w, const qpc_contact *c) {
    const qpc_body *body = &w->bodies[c->surface[0]];
    if (c->kind != QPC_CONTACT_EE || !w->bodies[c->surface[1]].obstacle || body->motion != QPC_DYNAMIC || body->mesh != NULL) return -1;
    if (!(c->weight[0] > LEAST_PART && c->weight[1] > LEAST_PART)) return -1;
    int32_t s = body->first_spring + c->feature[0];
    return w->spring_node[s] == c->node[0] && qpc_springs_other(&w->springs, s) == c->node[1] ? s : -1;
}

/// Resistance of the edge of spring s that is pressed on by lambda (N s) against turning towards the obstacle, kg.
static double resistance(const qpc_world *w, const qpc_contact *c, int32_t s, const double *x, double h, double lambda) {
    const qpc_body *obstacle = &w->bodies[c->surface[1]];
    qpc_implicit_frame frame = qpc_implicit_frame_of(x + 3 * (int64_t)obstacle->first_node);
    qpc_vec3 a = qpc_implicit_to_local(&frame, v3_load(x + 3 * c->node[0])), b = qpc_implicit_to_local(&frame, v3_load(x + 3 * c->node[1]));
    qpc_vec3 along = v3_sub(b, a), at = v3_madd(a, c->weight[1], along);
    double radius, part = qpc_implicit_bends(&obstacle->shape, at, along, &radius);
    if (!(part > LEAST_CROSS)) return 0.0;
    return fmin(h * lambda * radius / (part * v3_norm2(along)), MOST * (w->mass[c->node[0]] + h * h * (w->base != NULL ? w->base : w->stiffness)[s]));
}

void qpc_step_add_contact_curvature(qpc_world *w, double h, const qpc_contacts *contacts, const double *x, const double *u, double *Hu) {
    for (int32_t i = 0, at = 0; i < contacts->count && at < w->warm_count; i++) { // both by key
        const qpc_contact *c = &contacts->data[i];
        while (at < w->warm_count && w->warm_key[at] < c->key) at++;
        if (at == w->warm_count || w->warm_key[at] != c->key || !(w->warm_lambda[at] > 0.0)) continue;
        int32_t s = rolling_spring(w, c);
        double k = s >= 0 ? resistance(w, c, s, x, h, w->warm_lambda[at] * h / w->warm_h) : 0.0, n[3] = {c->n.x, c->n.y, c->n.z}, add[3][3];
        if (!(k > 0.0)) continue;
        double turn = 0.0;
        for (int a = 0; a < 3; a++) turn += n[a] * (u[3 * c->node[0] + a] - u[3 * c->node[1] + a]);
        for (int a = 0; a < 3; a++) {
            for (int b = 0; b < 3; b++) add[a][b] = k * n[a] * n[b];
            Hu[3 * c->node[0] + a] += k / (h * h) * n[a] * turn;
            Hu[3 * c->node[1] + a] -= k / (h * h) * n[a] * turn;
        }
        qpc_springs_add(&w->springs, s, &w->sys, 1.0, add);
    }
}
