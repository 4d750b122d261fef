/// Everything elastic of a world; see elastic.h.
#include "engine/world/elastic.h"

#include "engine/world/loads.h"
#include "engine/world/sheets.h"
#include "engine/world/world.h"

#include <math.h>

/// h^2 omega^2 of the fastest motion of a node. M beside h^2 H keeps 16 digits less those of this, and what weight does to the body is lost with the
/// rest: a pinned sheet falls as it should at 4e10, half as far at 4e12, a fourteenth at 4e16, and stands at 4e22.
static const double MOST_STIFF = 1e11;

/// Square of about the highest frequency of a body's springs, 1/s2: of its lighter free node against one of them.
static double stiffest_spring(const qpc_world *w, const qpc_body *body) {
    double most = 0.0;
    for (int32_t s = body->first_spring; s < body->first_spring + body->spring_count; s++) {
        const int32_t end[2] = {w->spring_node[s], qpc_springs_other(&w->springs, s)};
        double stiffness = fmax(w->stiffness[s], w->base != NULL ? w->base[s] : 0.0);
        for (int k = 0; k < 2; k++)
            if (w->row_dof[end[k]] >= 0) most = fmax(most, stiffness / w->mass[end[k]]);
    }
    return most;
}

void qpc_elastic_check(const qpc_world *w, qpc_scene_report *report) {
    if (w->solver.position_based) return; // takes the inverse of the stiffness, which may be 0
    for (int32_t i = 0; i < w->body_count; i++) {
        const qpc_body *body = &w->bodies[i];
        if (body->motion != QPC_DYNAMIC) continue;
        double rate = fmax(stiffest_spring(w, body), body->tet_count > 0 ? qpc_softs_stiffest(w, i) : 0.0);
        double stiff = w->dt * w->dt * rate;
        if (stiff > MOST_STIFF)
            qpc_scene_warn(report, "body %d is so stiff for its masses that it may fall too slowly or stand: stiffness dt^2 / mass is %.2g, right up to %g", i,
                           stiff, MOST_STIFF);
    }
}

double qpc_elastic_energy(const qpc_world *w, const double *x, bool giving) {
    double sum = qpc_springs_energy(&w->springs, x) + qpc_springs_limit_energy(&w->springs, x, giving);
    if (w->sheet_count > 0) sum += qpc_sheets_energy(w, x);
    if (w->softs.tets.count > 0) sum += qpc_softs_energy(w, x);
    return sum + qpc_loads_energy(w, x);
}

double qpc_elastic_energy_of(const qpc_world *w, int32_t index, const double *x) {
    const qpc_body *body = &w->bodies[index];
    qpc_springs part = w->springs;
    part.count = body->spring_count;
    part.node += body->first_spring;
    part.stiffness += body->first_spring;
    part.rest_length += body->first_spring;
    if (part.other != NULL) part.other += body->first_spring;
    if (part.base != NULL) part.base += body->first_spring;
    if (part.most != NULL) {
        part.least += body->first_spring;
        part.most += body->first_spring;
    }
    double sum = qpc_springs_energy(&part, x) + qpc_springs_limit_energy(&part, x, false);
    if (w->sheet_count > 0) sum += qpc_sheets_energy_of(w, index, x);
    if (body->tet_count > 0) {
        qpc_tets tets = qpc_softs_of(w, index);
        sum += qpc_tets_energy(&tets, x);
    }
    return sum;
}

void qpc_elastic_linearise(qpc_world *w, const double *x, const double *v, double h, qpc_linsys *K, double *f, double *Hv) {
    qpc_springs_linearise(&w->springs, x, v, h, K, f, Hv);
    if (w->sheet_count > 0) qpc_sheets_linearise(w, x, v, h, K, f, Hv);
    if (w->softs.tets.count > 0) qpc_tets_linearise(&w->softs.tets, x, v, h, K, f, Hv);
}

void qpc_elastic_force(const qpc_world *w, const double *x, double *f) {
    qpc_springs_force(&w->springs, x, f);
    if (w->sheet_count > 0) qpc_sheets_linearise(w, x, NULL, 0.0, NULL, f, NULL);
    if (w->softs.tets.count > 0) qpc_tets_force(&w->softs.tets, x, f);
}
