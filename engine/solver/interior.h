/// Between interior_point.c and its finish.
#ifndef QPC_ENGINE_SOLVER_INTERIOR_H
#define QPC_ENGINE_SOLVER_INTERIOR_H

#include "engine/solver/normal.h"
#include "engine/solver/work.h"

/// From an iterate near the solution to the solution: semismooth Newton on the augmented Lagrangian (T33), from
/// these multipliers and with a large penalty, every factor being one of `normal` (pattern of all rows).
/// limit: Newton steps at most. x, lambda: in the iterate, out the best one. QPC_OK for every outcome in
/// the report, whose counters go on from what they were.
qpc_status qpc_interior_finish(const qpc_work *work, const qpc_solver_options *options, qpc_normal *normal,
                               int32_t limit, double *x, double *lambda, qpc_solver_report *report,
                               qpc_error *err);

#endif
