/// Integrators beside Euler's two: classical Runge-Kutta and the implicit midpoint (docs/theory-integrators.md).
///
/// Both end free motion at an x1 that is not x + h (v + dv), which is what rows are about. So a motion has *plain* nodes, that end
/// there, and others. Whatever has a row is plain: with Runge-Kutta the node alone (K = M couples nothing), with the
/// midpoint its body, which then takes a step of implicit Euler.
#ifndef QPC_ENGINE_WORLD_INTEGRATE_H
#define QPC_ENGINE_WORLD_INTEGRATE_H

#include "base/status.h"

#include <stdbool.h>

struct qpc_world;

/// What the integrator of the world keeps; nothing for Euler's.
qpc_status qpc_integrate_make(struct qpc_world *w, qpc_error *err);
void qpc_integrate_fini(struct qpc_world *w);
/// A motion of length h from the state begins, after qpc_motion_prepare(). plain: the midpoint is not tried.
qpc_status qpc_integrate_begin(struct qpc_world *w, double h, bool plain, qpc_error *err);
/// Every node is plain: the motion is one of Euler's.
bool qpc_integrate_is_plain(const struct qpc_world *w);
/// Nodes, or bodies, of the rows that stand are plain from now on; true if some were not: K and x1 are to be made anew.
bool qpc_integrate_by_rows(struct qpc_world *w);
/// Everything is plain from now on; false: it was, or that is of no use.
bool qpc_integrate_fall_back(struct qpc_world *w);
/// x1 of free nodes, the change of their velocities being dv.
void qpc_integrate_place(struct qpc_world *w, double h, const double *dv);
/// Where the forces of an implicit motion that ends in x1 are linearised, (free_count x 3) m; and what w->sys, w->f and w->Hu
/// become after that.
const double *qpc_integrate_linearise_at(struct qpc_world *w, const double *x1);
void qpc_integrate_adapt(struct qpc_world *w, const double *x1);

#endif
