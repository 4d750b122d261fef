/// Position-based dynamics with compliance (after XPBD, but with the impulse of a spring as a vector; docs/theory-position.md): the nonlinear
/// problem of an implicit step, solved by projecting springs and rows one after the other, so many sweeps.
#ifndef QPC_ENGINE_WORLD_POSITION_H
#define QPC_ENGINE_WORLD_POSITION_H

#include "engine/world/world.h"

enum { QPC_POSITION_ENGINE = 15 }; // `engine` of a step's report; no engine of QPs, whose numbers are less
_Static_assert((int)QPC_SOLVER_COUNT <= (int)QPC_POSITION_ENGINE, "an engine of QPs has the number of position-based steps");

/// dv (3 free_count), multipliers of w->rows and impulses of w->rub, from none, under the rows and friction that stand. Ends after
/// `most` sweeps (iteration limit) or when a sweep changes no velocity by more than tolerance, m/s (optimal; the certificate is what
/// tells how good it is). QPC_ERR_NUMERIC: it ran away.
qpc_status qpc_position_solve(qpc_world *w, double h, const qpc_friction *friction, int32_t most, double tolerance, double *dv,
                              qpc_solver_report *report, qpc_error *err);
/// QPC_ERR_INVALID, if this solver is not for what is in the world.
qpc_status qpc_position_check(const qpc_world *w, const qpc_solver_def *solver, const char *where, qpc_error *err);

#endif
