/// Contradictions that are seen without solving anything, see glance.c. Not for users of solvers: qpc_solve() does it if
/// options->at_sight.
#ifndef QPC_ENGINE_SOLVER_GLANCE_H
#define QPC_ENGINE_SOLVER_GLANCE_H

#include "engine/solver/solver.h"

/// Two inequalities over the same columns with opposite values, J_k = -s J_i, that leave no room between them: by more than
/// ten times the tolerance. Of all pairs the one that misses most; ret_row in rising order. False: there is none.
qpc_status qpc_glance(const qpc_qp *qp, double tolerance, qpc_arena *arena, int32_t ret_row[2], bool *ret_found, qpc_error *err);

#endif
