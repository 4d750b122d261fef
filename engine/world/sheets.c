/// Thin sheets of a world; see sheets.h. Everything is allocated with the world.
#include "engine/world/sheets.h"

#include "engine/world/world.h"

#include <string.h>

static bool allocate(qpc_sheet *s, const qpc_shell_rest *rest) {
    size_t count = (size_t)rest->count + 1, hinges = (size_t)rest->hinge_count + 1;
    s->node = qpc_alloc_array(count, 3 * sizeof *s->node);
    s->place = qpc_alloc_array(count, 3 * sizeof *s->place);
    s->bend = qpc_alloc_array(count, 3 * sizeof *s->bend);
    s->inverse = qpc_alloc_array(count, 4 * sizeof *s->inverse);
    s->area = qpc_alloc_array(count, sizeof *s->area);
    s->mu = qpc_alloc_array(count, sizeof *s->mu);
    s->lambda = qpc_alloc_array(count, sizeof *s->lambda);
    s->couple = qpc_alloc_array(count, 6 * sizeof *s->couple);
    s->hinge = qpc_alloc_array(hinges, 4 * sizeof *s->hinge);
    s->hinge_place = qpc_alloc_array(hinges, 6 * sizeof *s->hinge_place);
    s->stiffness = qpc_alloc_array(hinges, sizeof *s->stiffness);
    s->angle = qpc_alloc_array(hinges, sizeof *s->angle);
    s->scratch = qpc_calloc(hinges, 2 * sizeof *s->scratch);
    return s->node != NULL && s->place != NULL && s->bend != NULL && s->inverse != NULL && s->area != NULL && s->mu != NULL &&
           s->lambda != NULL && s->couple != NULL && s->hinge != NULL && s->hinge_place != NULL && s->stiffness != NULL &&
           s->angle != NULL && s->scratch != NULL;
}

static void fill(const qpc_world *w, const qpc_body_def *def, qpc_sheet *s) {
    const qpc_shell_rest *rest = &def->sheet;
    const qpc_body *body = &w->bodies[s->body];
    const int32_t *corner = qpc_mesh_elements(def->mesh), *place = w->spring_place + body->first_spring;
    size_t count = (size_t)rest->count, hinges = (size_t)rest->hinge_count;
    for (size_t k = 0; k < 3 * count; k++) {
        s->node[k] = body->first_node + corner[k];
        s->place[k] = place[rest->pair[k]];
    }
    for (size_t t = 0; t < count; t++) {
        s->mu[t] = def->sheet_mu;
        s->lambda[t] = def->sheet_lambda;
    }
    for (size_t k = 0; k < 6 * count; k++) s->couple[k] = def->sheet_rigidity * rest->couple[k];
    for (size_t k = 0; k < 4 * hinges; k++) s->hinge[k] = body->first_node + rest->hinge[k];
    for (size_t k = 0; k < 6 * hinges; k++) s->hinge_place[k] = place[rest->hinge_pair[k]];
    for (size_t k = 0; k < hinges; k++) s->stiffness[k] = def->sheet_rigidity * rest->stiffness[k];
    memcpy(s->bend, rest->bend, 3 * count * sizeof *s->bend);
    memcpy(s->inverse, rest->inverse, 4 * count * sizeof *s->inverse);
    memcpy(s->area, rest->area, count * sizeof *s->area);
    memcpy(s->angle, rest->angle, hinges * sizeof *s->angle);
    s->shells = (qpc_shells){.count = rest->count, .node = s->node, .inverse = s->inverse, .area = s->area, .mu = s->mu,
                             .lambda = s->lambda, .place = s->place, .bend = s->bend, .couple = s->couple,
                             .hinge_count = def->sheet_rigidity > 0.0 ? rest->hinge_count : 0, .hinge = s->hinge,
                             .stiffness = s->stiffness, .angle = s->angle, .hinge_place = s->hinge_place, .scratch = s->scratch};
}

qpc_status qpc_sheets_make(qpc_world *w, const qpc_scene_def *def, qpc_error *err) {
    int32_t count = 0;
    for (int32_t i = 0; i < def->bodies.count; i++) count += def->bodies.data[i].sheet.count > 0;
    if (count == 0) return QPC_OK;
    w->sheets = qpc_calloc((size_t)count, sizeof *w->sheets);
    if (w->sheets == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d sheets", count);
    w->sheet_count = count;
    for (int32_t i = 0, at = 0; i < def->bodies.count; i++) {
        const qpc_body_def *body = &def->bodies.data[i];
        if (body->sheet.count == 0) continue;
        qpc_sheet *s = &w->sheets[at++];
        s->body = i;
        if (!allocate(s, &body->sheet)) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d triangles", body->sheet.count);
        fill(w, body, s);
    }
    return QPC_OK;
}

void qpc_sheets_fini(qpc_world *w) {
    for (int32_t i = 0; i < w->sheet_count; i++) {
        qpc_sheet *s = &w->sheets[i];
        void *const all[] = {s->node,   s->place, s->bend,   s->hinge,     s->hinge_place, s->inverse, s->area,
                             s->mu,     s->lambda, s->couple, s->stiffness, s->angle,       s->scratch};
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) qpc_free(all[k]);
    }
    qpc_free(w->sheets);
}

size_t qpc_sheets_memory(const qpc_world *w) {
    size_t per_triangle = 9 * sizeof(int32_t) + 13 * sizeof(double), per_hinge = 10 * sizeof(int32_t) + 4 * sizeof(double), sum = 0;
    for (int32_t i = 0; i < w->sheet_count; i++)
        sum += (size_t)w->sheets[i].shells.count * per_triangle + (size_t)w->sheets[i].shells.hinge_count * per_hinge;
    return sum;
}

double qpc_sheets_energy(const qpc_world *w, const double *x) {
    double sum = 0.0;
    for (int32_t i = 0; i < w->sheet_count; i++) sum += qpc_shells_energy(&w->sheets[i].shells, x);
    return sum;
}

double qpc_sheets_energy_of(const qpc_world *w, int32_t body, const double *x) {
    for (int32_t i = 0; i < w->sheet_count; i++)
        if (w->sheets[i].body == body) return qpc_shells_energy(&w->sheets[i].shells, x);
    return 0.0;
}

void qpc_sheets_slacken(qpc_world *w, int32_t body) {
    for (int32_t i = 0; i < w->sheet_count; i++)
        if (w->sheets[i].body == body) w->sheets[i].shells.count = w->sheets[i].shells.hinge_count = 0;
}

void qpc_sheets_linearise(const qpc_world *w, const double *x, const double *v, double dt, qpc_linsys *K, double *f, double *Hv) {
    for (int32_t i = 0; i < w->sheet_count; i++) qpc_shells_linearise(&w->sheets[i].shells, x, v, dt, K, f, Hv);
}
