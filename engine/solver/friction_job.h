/// Inside qpc_solve_friction: one call, what it was given and what it has come to.
#ifndef QPC_ENGINE_SOLVER_FRICTION_JOB_H
#define QPC_ENGINE_SOLVER_FRICTION_JOB_H

#include "engine/solver/friction_set.h"

typedef struct qpc_friction_job {
    qpc_solver_id id;
    const qpc_qp *qp;
    const qpc_friction *friction;
    const qpc_solver_options *options;
    double tolerance;
    int32_t most, total; // 0: no bound
    int32_t stop;        // bound of the present attempt with dense matrices on its steps and those before; 0: none
    bool after;          // what is not dense has been tried
    bool bounded;        // factorisations of one solve of the set by DENSE_OPERATIONS
    qpc_arena *arena;
    qpc_friction_set set;
    double *dv, *lambda, *beta; // the iterate
    double *rhs;                // (n)
    qpc_solver_report report, alone; // alone: of the rows without friction, its outcome
    qpc_friction_report found;
    double *alone_dv, *alone_lambda;
    double *best_dv, *best_lambda, *best_beta; // with `least` the least natural residual of what several ways came to
    double least;
    qpc_friction_report best;
    bool asked; // the rows have been solved alone
} qpc_friction_job;

/// What is left of the bound on all iterations together; INT32_MAX: there is none.
int32_t qpc_friction_left(const qpc_friction_job *job);
/// qpc_solve() with friction as it stands.
qpc_status qpc_friction_under(qpc_friction_job *job, qpc_error *err);
/// No friction at all: what contradicting rows get, and mode off.
qpc_status qpc_friction_without(qpc_friction_job *job, qpc_error *err);
/// The staggered mode; the best iterate out.
qpc_status qpc_friction_stagger(qpc_friction_job *job, double *best_dv, double *best_lambda, double *best_beta, qpc_error *err);

#endif
