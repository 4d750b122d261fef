/// Loads of a world besides gravity and applied forces: springs and dampers between points, drag (docs/theory-joints.md, TJ7 to TJ9).
#ifndef QPC_ENGINE_WORLD_LOADS_H
#define QPC_ENGINE_WORLD_LOADS_H

#include "engine/world/joints.h"

typedef struct qpc_load {
    qpc_load_kind kind;
    qpc_joint link;                         // spring: its two points
    int32_t body;                           // drag; -1: everything
    double stiffness, rest_length, damping; // N/m, m, N s/m
    double per_mass;                        // 1/s
} qpc_load;

qpc_status qpc_loads_make(qpc_world *w, const qpc_scene_def *def, qpc_error *err);
void qpc_loads_fini(qpc_world *w);
/// Half bandwidth of K that springs need.
int32_t qpc_loads_band(const qpc_world *w);
/// Stored in springs at x, J.
double qpc_loads_energy(const qpc_world *w, const double *x);
/// What dampers and drag add to the incremental potential of the motion x -> x1 by dv.
double qpc_loads_dissipation(const qpc_world *w, double h, const double *dv);
/// Into K and b, as qpc_step_assemble() has them.
void qpc_loads_linearise(qpc_world *w, double h, const double *x, const double *u, double sign);
/// Work of driven points through springs, their part of the reactions of fixed nodes.
void qpc_loads_add_work(qpc_world *w, qpc_trial *t);

#endif
