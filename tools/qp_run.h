/// Runs the engine on instances and holds the answers against what was promised. For the tool
/// qp_instances and its tests. One thread.
#ifndef QPC_TOOLS_QP_RUN_H
#define QPC_TOOLS_QP_RUN_H

#include "engine/solver/friction.h"
#include "engine/solver/solver.h"
#include "tools/qp_score.h"

typedef enum qp_verdict {
    QP_HOLDS, // as promised, or says itself what it did not reach where no more is promised
    QP_SHORT, // misses the limits, and says "optimal" or does not
    QP_WRONG, // says what is not so: optimal and far off, infeasible and is not
} qp_verdict;

/// Multipliers of a step before, by row id.
typedef struct qp_memory {
    int32_t count, *row_id;
    double *lam;
} qp_memory;
void qp_memory_fini(qp_memory *memory);
qpc_status qp_memory_keep(qp_memory *memory, const qp_file *file, const double *lam,
                          qpc_error *err);

typedef struct qp_result {
    qpc_solver_id asked; // friction: AUTO, the mode is in `mode`
    qpc_friction_mode mode;
    bool warm;
    qpc_status status; // of the engine: not OK is an answer, too
    char message[160];
    qpc_solver_report report;
    qpc_friction_report friction;
    double ms;       // thread CPU time, factor of K included, best of the repeats
    double *x, *lam; // (n), (m): the answer; friction: lam (3 m) holds r
    int32_t changes; // warm: rows that entered or left the working set
    int32_t net;     // warm: rows in one set of positive multipliers and not in the other
    qp_score score;
    qp_conflict conflict; // of the rows named
    double relaxation;    // |s - relax_s| / |relax_s|; -1: not computed
    qp_verdict verdict;
    char why[160]; // of a verdict other than QP_HOLDS
} qp_result;

/// The limits that answers are held to.
#define QP_LIMIT 1e-9 // stat, prim, dual; LCP: comp too
#define QP_LIMIT_COMP 1e-12
#define QP_LIMIT_DISTANCE 1e-8
#define QP_LIMIT_RELAXATION 1e-7
#define QP_LIMIT_NATURAL 1e-6 // friction; 1e-9 on 15 of 17
#define QP_LIMIT_WRONG 1e-6   // beyond this "optimal" is a false claim
enum { QP_LIMIT_CHANGES = 15 };

/// For comparison only: falling short is no broken promise, a false claim is.
bool qp_engine_compares(qpc_solver_id id);

/// Solve `repeat` times and judge. warm: NULL, or where to start from. QPC_ERR_MEMORY; on failure
/// nothing is kept.
qpc_status qp_run(const qp_ground *ground, qpc_solver_id id, const qp_memory *warm, int repeat,
                  qpc_arena *arena, qp_result *ret, qpc_error *err);
qpc_status qp_run_friction(const qp_ground *ground, qpc_friction_mode mode, int repeat,
                           qpc_arena *arena, qp_result *ret, qpc_error *err);
/// The judging alone: fills score, conflict, verdict, why of a result whose answer and report are
/// there.
qpc_status qp_judge(const qp_ground *ground, qp_result *result, qpc_error *err);
void qp_result_fini(qp_result *result);

#endif
