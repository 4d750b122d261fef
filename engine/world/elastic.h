/// What is elastic in a world, whatever it is made of: springs and the limits of them that give way, thin sheets, tetrahedra.
#ifndef QPC_ENGINE_WORLD_ELASTIC_H
#define QPC_ENGINE_WORLD_ELASTIC_H

#include "engine/dynamics/linsys.h"

struct qpc_world;
struct qpc_scene_report;

/// Remarks on bodies whose stiffness leaves little of their masses in K = M + h^2 H.
void qpc_elastic_check(const struct qpc_world *w, struct qpc_scene_report *report);
/// Elastic energy, J; of limits past their length: of those that give way, or all.
double qpc_elastic_energy(const struct qpc_world *w, const double *x, bool giving);
/// That of one body, all limits.
double qpc_elastic_energy_of(const struct qpc_world *w, int32_t body, const double *x);
/// K += h^2 H(x), f (3 n) += forces at x, Hv (3 n) += H(x) v.
void qpc_elastic_linearise(struct qpc_world *w, const double *x, const double *v, double h, qpc_linsys *K, double *f, double *Hv);
/// f (3 n) += forces at x, N; without limits.
void qpc_elastic_force(const struct qpc_world *w, const double *x, double *f);

#endif
