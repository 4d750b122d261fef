/// Pressure on the surfaces of cloth, soft and rigid bodies (docs/theory-joints.md, TJ10 to TJ12). Runs on the worker in the world.
#include "engine/world/loads.h"

#include <string.h>

qpc_status qpc_pressure_make(qpc_world *w, qpc_load *load, const char *where, qpc_error *err) {
    const qpc_body *body = &w->bodies[load->body];
    qpc_error why = {0};
    qpc_status st = qpc_pressed_make(qpc_mesh_elements(body->mesh), (int32_t)qpc_mesh_element_count(body->mesh), body->first_node,
                                     body->node_count, &load->pressed, &why);
    if (st == QPC_ERR_INVALID) return qpc_fail_at(err, st, where, "%s", why.message);
    if (st != QPC_OK) return qpc_fail(err, st, "no memory for pressure on %d nodes", body->node_count);
    if ((st = qpc_loads_need_pushed(w, err)) != QPC_OK) return st;
    const qpc_pressed *s = &load->pressed;
    bool inwards = s->border_count == 0 && qpc_pressed_volume(s, w->x, qpc_pressed_origin(s, w->x)) < 0.0;
    if (inwards) load->pressure = -load->pressure; // positive is outwards, whichever way round the mesh is
    return QPC_OK;
}

static bool is_rigid(const qpc_world *w, const qpc_load *load) { return w->bodies[load->body].motion == QPC_RIGID; }

/// Force p a of each triangle at its centre.
static void push_rigid(qpc_world *w, const qpc_load *load) {
    int32_t rigid = w->bodies[load->body].rigid;
    const qpc_pressed *s = &load->pressed;
    qpc_vec3 force = v3(0.0, 0.0, 0.0), torque = force, centre = w->pose[rigid].x;
    for (int32_t t = 0; t < s->count; t++) {
        qpc_vec3 p[3];
        for (int k = 0; k < 3; k++) p[k] = v3_sub(v3_load(w->x + 3 * (int64_t)s->node[3 * (int64_t)t + k]), centre);
        qpc_vec3 f = v3_scale(0.5 * load->pressure, v3_cross(v3_sub(p[1], p[0]), v3_sub(p[2], p[0])));
        force = v3_add(force, f);
        torque = v3_add(torque, v3_cross(v3_scale(1.0 / 3.0, v3_add(p[0], v3_add(p[1], p[2]))), f));
    }
    v3_store(w->pushed + w->rigids[rigid].dof, force);
    v3_store(w->pushed + w->rigids[rigid].dof + 3, torque);
}

void qpc_pressure_push(qpc_world *w, const qpc_load *load) {
    if (is_rigid(w, load)) push_rigid(w, load);
    else qpc_pressed_force(&load->pressed, load->pressure, w->x, w->pushed);
}

/// Forces at x1: those of the volume's potential, and that on the open side as it is at the start (TJ10).
static void add_force(const qpc_world *w, const qpc_load *load, const double *x1, double *f) {
    const qpc_pressed *s = &load->pressed;
    qpc_vec3 o = qpc_pressed_origin(s, w->x);
    qpc_pressed_force(s, load->pressure, x1, f);
    qpc_pressed_open_force(s, load->pressure, x1, o, f);
    qpc_pressed_open_force(s, -load->pressure, w->x, o, f);
}

void qpc_pressure_force(const qpc_world *w, const qpc_load *load, const double *x1, double *f) {
    if (!is_rigid(w, load)) add_force(w, load, x1, f);
}

void qpc_pressure_linearise(qpc_world *w, const qpc_load *load, double h, const double *x, const double *u, double sign) {
    const qpc_body *body = &w->bodies[load->body];
    if (is_rigid(w, load)) {
        int32_t dof = w->rigids[body->rigid].dof;
        for (int32_t k = dof; k < dof + 6; k++) w->b[k] += h * w->pushed[k];
        return;
    }
    const qpc_pressed *s = &load->pressed;
    int32_t first = 3 * body->first_node, end = first + 3 * body->node_count;
    for (int32_t k = first; k < end; k++) w->f[k] = w->Hu[k] = 0.0; // K and b of what is elastic are made
    add_force(w, load, x, w->f);
    qpc_pressed_stiffness(s, load->pressure, x, qpc_pressed_origin(s, w->x), u, h, w->mass, &w->sys, w->Hu);
    for (int32_t k = first; k < end; k++) w->b[k] += h * w->f[k] + sign * h * h * w->Hu[k];
}

double qpc_pressure_work(const qpc_world *w, const qpc_load *load, double h) {
    const qpc_pressed *s = &load->pressed;
    if (!is_rigid(w, load)) return qpc_pressed_work(s, load->pressure, w->x, w->x1, qpc_pressed_origin(s, w->x));
    int32_t rigid = w->bodies[load->body].rigid, dof = w->rigids[rigid].dof;
    qpc_vec3 turn = v3_scale(h, v3_add(w->pose[rigid].w, w->rigids[rigid].twist));
    return v3_dot(v3_load(w->pushed + dof), v3_sub(w->pose1[rigid].x, w->pose[rigid].x)) + v3_dot(v3_load(w->pushed + dof + 3), turn);
}
