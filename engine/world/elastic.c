/// Everything elastic of a world; see elastic.h.
#include "engine/world/elastic.h"

#include "engine/world/loads.h"
#include "engine/world/sheets.h"
#include "engine/world/world.h"

double qpc_elastic_energy(const qpc_world *w, const double *x, bool giving) {
    double sum = qpc_springs_energy(&w->springs, x) + qpc_springs_limit_energy(&w->springs, x, giving);
    if (w->sheet_count > 0) sum += qpc_sheets_energy(w, x);
    if (w->softs.tets.count > 0) sum += qpc_tets_energy(&w->softs.tets, x);
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
