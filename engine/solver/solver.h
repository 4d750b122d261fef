/// One interface for every solver, and the table of their names.
#ifndef QPC_ENGINE_SOLVER_SOLVER_H
#define QPC_ENGINE_SOLVER_SOLVER_H

#include "base/mem.h"
#include "engine/solver/qp.h"

/// Names as scenes write them; the order is stored in run files and never changes.
/// X(enumerator, name, one line for docs)
#define QPC_SOLVER_LIST(X)                                                                         \
    X(AUTO, "auto", "augmented-lagrangian, and active-set when that misses its certificate")       \
    X(AUGMENTED_LAGRANGIAN, "augmented-lagrangian",                                                \
      "semismooth Newton on the augmented Lagrangian; sets many rows at once")                     \
    X(ACTIVE_SET, "active-set",                                                                    \
      "dual active set (Goldfarb-Idnani) on the Delassus operator; exact; section 5.2")            \
    X(AUGMENTED_CG, "augmented-cg",                                                                \
      "conjugate gradients on [K J'; J -L], sections 5.1 and 7.2, for comparison")               \
    X(PROJECTED, "projected",                                                                      \
      "projected Gauss-Seidel on the dual, as in game engines, for comparison")                    \
    X(INTERIOR_POINT, "interior-point",                                                            \
      "predictor and corrector on K + J'WJ; cold and many rows, dependent or not; no warm start")     \
    X(LCP_IMPULSE, "lcp-impulse",                                                                  \
      "Lemke's pivoting on w = A f + q, all impulses at once (2003, eqs. 19-20); few rows, dense")

typedef enum qpc_solver_id {
#define QPC_SOLVER_ENUM(id, name, text) QPC_SOLVER_##id,
    QPC_SOLVER_LIST(QPC_SOLVER_ENUM)
#undef QPC_SOLVER_ENUM
        QPC_SOLVER_COUNT
} qpc_solver_id;

typedef enum qpc_outcome { // stored in run files: order never changes
    QPC_OUTCOME_OPTIMAL,
    QPC_OUTCOME_ITERATION_LIMIT, // best iterate returned, residuals in the certificate
    QPC_OUTCOME_INFEASIBLE,      // rows contradict; conflict_* name them; dv, lambda are the last iterate
    QPC_OUTCOME_STALLED,
} qpc_outcome;

typedef struct qpc_solver_options {
    double residual_tolerance;  // natural residual, m/s
    double stat_tolerance;      // relative stationarity |K dv - b + J'lambda|_{K^-1} / S
    int32_t max_iterations;     // 0: the solver's own bound
    double perturbation;        // augmented-cg: L; > 0 absolute, < 0 relative to the Delassus diagonal
    const double *start;        // (n) a guess of dv, or NULL; may be dv itself. Engines may go without
    bool at_sight;              // rows that contradict are told as soon as that is seen: there is no last iterate then
    double beyond;              // > 0: rows that no dv with all unknowns within this can satisfy may be told as contradicting
    bool anytime;               // out of iterations, dv and lambda are a motion and its impulses that never fall behind the warm start's (T43)
    bool draft;                 // the answer is only a point to go on from: good enough by the tolerances is good enough
    bool hits;                  // rows came that the last set knows nothing of: where K is banded it is not tried first
    bool exact;                 // iterate to stat, prim <= 1e-9 and comp <= 1e-12 whatever the tolerances
} qpc_solver_options;
qpc_solver_options qpc_solver_options_default(void);

enum { QPC_CONFLICT_MAX = 1024 };
typedef struct qpc_solver_report {
    qpc_outcome outcome;
    qpc_solver_id engine;       // the one that gave the answer (never AUTO)
    int32_t iterations;         // Newton steps, sweeps, CG steps; adds and drops: never more than max_iterations
    int32_t restored;           // rows of the warm start (or of a rebuild) put back into the working set
    int32_t adds, drops, exchanges, rebuilds, implied; // adds, drops: changes of that set
    int32_t active;             // inequality rows with lambda > 0, plus equalities
    int32_t factorizations, solves;
    int32_t cg_steps;           // conjugate gradients of augmented-lagrangian without a factor
    bool fell_back;
    int32_t conflict_count;     // rows of the infeasibility proof; the first QPC_CONFLICT_MAX are named, in rising order
    int32_t conflict_row[QPC_CONFLICT_MAX];
} qpc_solver_report;
static inline int32_t qpc_conflict_named(const qpc_solver_report *report) {
    return report->conflict_count < QPC_CONFLICT_MAX ? report->conflict_count : QPC_CONFLICT_MAX;
}

/// dv (n): out. lambda (m): in the warm start (>= 0 on inequalities, zeros if none), out multipliers.
/// Scratch from arena, given back on return. Same bits for the same input. QPC_OK for every outcome;
/// QPC_ERR_NUMERIC (input not finite, K lost definiteness) and QPC_ERR_MEMORY leave dv and lambda untouched.
qpc_status qpc_solve(qpc_solver_id id, const qpc_qp *qp, const qpc_solver_options *options,
                     qpc_arena *arena, double *dv, double *lambda, qpc_solver_report *report,
                     qpc_error *err);

const char *qpc_solver_name(qpc_solver_id id);
bool qpc_solver_from_name(const char *name, qpc_solver_id *ret);

/// Infeasible rows: the least-squares relaxation. Raises c (m, in and out) by the least-norm s >= 0 such that
/// J dv <= c + s has a solution, s being nonzero on rows of priority >= level only (3 tries none).
/// QPC_ERR_STATE if even that set cannot make the rest feasible.
/// most_steps: proximal steps at most (QPC_RELAX_EXACT for the least norm). However few, the result makes the
/// rows feasible; fewer steps leave a norm that is not quite the least.
enum { QPC_RELAX_EXACT = 60 };
qpc_status qpc_relax(const qpc_qp *qp, int32_t level, int32_t most_steps, qpc_arena *arena, double *c, double *ret_largest,
                     qpc_error *err);
/// The same, but steps end before the motion that it is for has an unknown beyond that, if `beyond` > 0 and all rows give way: the
/// last bit of a least norm can take motions without bounds.
qpc_status qpc_relax_within(const qpc_qp *qp, int32_t level, int32_t most_steps, double beyond, qpc_arena *arena, double *c,
                            double *ret_largest, qpc_error *err);

#endif
