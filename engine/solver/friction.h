/// Coulomb friction with maximum dissipation on the contacts of a step's QP (docs/theory.md).
///
/// A contact is a row of J (its normal row, -n.(relative dv) <= c) and two tangent rows T; with
/// lambda its normal impulse and beta (2) its friction impulse,
///     K dv + J'lambda + T'beta = b,      u_T = T dv + u0 (relative tangential velocity at the end
///     of the step), |beta| <= mu lambda,   beta = mu lambda u_T / |u_T| where u_T is not zero.
/// (T'beta enters like J'lambda: beta points along the sliding of the first side, and brakes it.)
/// So dv, lambda solve the QP with b - T'beta in the place of b: that is what a certificate judges.
/// In the algebraic form below r = (lambda, -beta) and u = (c - J dv, T dv + u0).
#ifndef QPC_ENGINE_SOLVER_FRICTION_H
#define QPC_ENGINE_SOLVER_FRICTION_H

#include "engine/solver/solver.h"

typedef enum qpc_friction_mode { // names as scenes write them: "off", "staggered", "exact"; order
                                 // never changes
    QPC_FRICTION_OFF,
    QPC_FRICTION_STAGGERED, // alternating projections (Kaufman et al. 2008), warm, capped
    QPC_FRICTION_EXACT,     // De Saxce fixed point over convex cone problems, then Newton on the
                            // natural map
} qpc_friction_mode;

typedef struct qpc_friction {
    int32_t count;         // contacts with mu > 0
    const int32_t *row;    // (count) their rows in J, inequalities, no row twice
    const double *mu;      // (count)
    const int32_t *start;  // (2 count + 1) tangent rows, two a contact, orthonormal directions
    const int32_t *column; // strictly increasing within a row
    const double *value;
    const double *u0; // (2 count) m/s
} qpc_friction;

typedef struct qpc_friction_options {
    qpc_friction_mode mode;
    double tolerance;       // natural residual, dimensionless (0: 1e-9 exact, 1e-3 staggered)
    int32_t max_iterations; // staggered: alternations (0: 50); exact: Newton and interior-point
                            // steps (0: own bound)
    int32_t max_total;      // iterations of both reports together, QPs included (0: no bound)
} qpc_friction_options;

/// The way that a solve of a QP went; stored in run files: order never changes.
typedef enum qpc_friction_path {
    QPC_FRICTION_BY_CHAIN,  // K is banded: linear time (friction_chain.h)
    QPC_FRICTION_BY_SPARSE, // any other K and more than a few contacts: linear memory (friction_sparse.h)
    QPC_FRICTION_BY_DENSE,  // what pushes condensed to dense matrices (friction_set.h)
    QPC_FRICTION_BY_TURNS,  // staggered
} qpc_friction_path;

/// natural = |r - P(r - rho (u + mu |u_T| e_N))|, weighted by rho^-1/2, over S = sqrt(sum rho
/// |q|^2), with rho = 1 / lambda_max of a contact's block of W (docs/theory-friction.md). In
/// qpc_solve_friction it runs over the contacts and over the other rows that were kept.
typedef struct qpc_friction_report {
    double natural, penetration, cone, complementarity,
        dissipation_defect; // dimensionless, solvers.md 3c
    int32_t iterations, outers, newton, sticking, sliding, open;
    bool converged;
    qpc_friction_path path; // of qpc_solve_friction: what gave the answer
} qpc_friction_report;

/// The way an exact solve goes first, by the form of the QP alone (docs/theory-friction.md has the rule).
qpc_friction_path qpc_friction_choose(const qpc_qp *qp, const qpc_friction *friction);

/// Solve the QP with friction. beta (2 count): warm start in, impulses out, N s. dv, lambda,
/// report: as qpc_solve() has them (its own solves go through `id`). QPC_OK also when it did not
/// converge: the best iterate, with report->converged false. If the rows alone contradict
/// (report->outcome), dv and lambda are qpc_solve()'s and beta is zero.
qpc_status qpc_solve_friction(qpc_solver_id id, const qpc_qp *qp, const qpc_friction *friction,
                              const qpc_solver_options *options,
                              const qpc_friction_options *friction_options, qpc_arena *arena,
                              double *dv, double *lambda, double *beta, qpc_solver_report *report,
                              qpc_friction_report *friction_report, qpc_error *err);

/// The algebraic form, u = W r + q, per contact (N, T1, T2): r in the cone of mu, u_N >= 0, r_N u_N
/// = 0, r_T opposite to u_T with |r_T| = mu r_N when sliding. W (3 count x 3 count) by rows, need
/// not be symmetric to the last bit. r: warm start in (zeros: none), solution out.
typedef struct qpc_cones {
    int32_t count;
    const int32_t *start, *column;
    const double *value;
    const double *q;  // (3 count)
    const double *mu; // (count)
} qpc_cones;
qpc_status qpc_solve_cones(const qpc_cones *cones, const qpc_friction_options *options,
                           qpc_arena *arena, double *r, qpc_friction_report *report,
                           qpc_error *err);
/// The residuals of any r, by their definitions alone.
qpc_status qpc_cones_residuals(const qpc_cones *cones, const double *r, qpc_arena *arena,
                               qpc_friction_report *report, qpc_error *err);

#endif
