/// Loads of a world besides gravity and applied forces: springs and dampers between points, drag, pressure, damping (docs/theory-joints.md, TJ7 to TJ13), wind (docs/theory-cloth.md, TC8).
#ifndef QPC_ENGINE_WORLD_LOADS_H
#define QPC_ENGINE_WORLD_LOADS_H

#include "engine/dynamics/pressure.h"
#include "engine/world/joints.h"

typedef struct qpc_load {
    qpc_load_kind kind;
    qpc_joint link;                         // spring: its two points
    int32_t body;                           // drag; -1: everything; pressure, damping, wind
    double stiffness, rest_length, damping; // N/m, m, N s/m
    double per_mass, per_stiffness;         // 1/s, s
    qpc_pressed pressed;                    // pressure: on what
    double pressure;                        // Pa, along the area vectors of `pressed`
    qpc_wind wind;
} qpc_load;

qpc_status qpc_loads_make(qpc_world *w, const qpc_scene_def *def, qpc_error *err);
void qpc_load_fini(qpc_load *load);
void qpc_loads_fini(qpc_world *w);
/// Half bandwidth of K that springs need.
int32_t qpc_loads_band(const qpc_world *w);
/// Stored in springs at x, J.
double qpc_loads_energy(const qpc_world *w, const double *x);
/// What dampers, drag, damping, pressure and wind add to the incremental potential of the motion x -> x1 by dv.
double qpc_loads_potential(const qpc_world *w, double h, const double *dv);
/// Into K and b, as qpc_step_assemble() has them.
void qpc_loads_linearise(qpc_world *w, double h, const double *x, const double *u, double sign);
/// Work of driven points through springs, their part of the reactions of fixed nodes; work of pressure and wind.
void qpc_loads_add_work(qpc_world *w, qpc_trial *t);
/// Of pressure and wind on nodes at the end of the motion, as the implicit step has them: f (3 n) += forces, N.
void qpc_loads_force(const qpc_world *w, const double *x1, const double *dv, double *f);
/// Room for w->pushed, once. QPC_ERR_MEMORY.
qpc_status qpc_loads_need_pushed(qpc_world *w, qpc_error *err);
/// Forces and torques (N, N m) of all pressure at x, and of all wind at x and v, into w->pushed.
void qpc_loads_push(qpc_world *w);

// ---- pressure.c ----
qpc_status qpc_pressure_make(qpc_world *w, qpc_load *load, const char *where, qpc_error *err);
/// Forces and torques (N, N m) of one load at x: w->pushed += that.
void qpc_pressure_push(qpc_world *w, const qpc_load *load);
/// One load into K and b: as it is at x on nodes, as at the start of the motion on rigid bodies.
void qpc_pressure_linearise(qpc_world *w, const qpc_load *load, double h, const double *x, const double *u, double sign);
/// Of one load on nodes at x1, as the implicit step has it: f (3 n) += forces, N.
void qpc_pressure_force(const qpc_world *w, const qpc_load *load, const double *x1, double *f);
/// Work of one load over the motion x -> x1 of length h, J.
double qpc_pressure_work(const qpc_world *w, const qpc_load *load, double h);

// ---- damping.c ----
/// QPC_ERR_INVALID where it is so much that steps of h could not be resolved.
qpc_status qpc_damping_check(const qpc_world *w, const qpc_load *load, double h, const char *where, qpc_error *err);
/// K += h beta H, b -= h beta H v, H at the start of the motion.
void qpc_damping_linearise(qpc_world *w, const qpc_load *load, double h);
/// h beta / 2 v1'H v1, J.
double qpc_damping_potential(const qpc_world *w, const qpc_load *load, double h, const double *dv);

// ---- wind.c: on triangles as they are at the start of the motion, their velocity that of its end, v + dv ----
/// f (3 n) += forces of one load, N; dv NULL: of the start of the motion.
void qpc_wind_force(const qpc_world *w, const qpc_load *load, const double *dv, double *f);
/// K += h J, b += h f + h J dv, J = -df/dv >= 0; u and sign as in qpc_step_assemble().
void qpc_wind_linearise(qpc_world *w, const qpc_load *load, double h, const double *u, double sign);
/// h/3 rho A/2 (C_d |u_n|^3 + C_t |u_t|^3), summed, J.
double qpc_wind_potential(const qpc_world *w, const qpc_load *load, double h, const double *dv);
/// Of one load over the motion x -> x1, J.
double qpc_wind_work(const qpc_world *w, const qpc_load *load, const double *dv);

#endif
