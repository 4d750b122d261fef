/// A QP over the rows that matter, see screen.c. Not for users of solvers: qpc_solve() does it.
#ifndef QPC_ENGINE_SOLVER_SCREEN_H
#define QPC_ENGINE_SOLVER_SCREEN_H

#include "engine/solver/solver.h"

typedef qpc_status qpc_solve_rows(qpc_solver_id id, const qpc_qp *qp, const qpc_solver_options *options,
                                  qpc_arena *arena, double *dv, double *lambda, qpc_solver_report *report,
                                  qpc_error *err);

/// As qpc_solve(), by solve() over a choice of rows. *ret_done false: it does not pay, or did not end in an
/// optimum; dv and lambda are as they were, report counts the work done.
qpc_status qpc_screen(qpc_solver_id id, const qpc_qp *qp, const qpc_solver_options *options, qpc_arena *arena,
                      qpc_solve_rows *solve, double *dv, double *lambda, qpc_solver_report *report, bool *ret_done,
                      qpc_error *err);

#endif
