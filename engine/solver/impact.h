/// Impacts with restitution: Newton's law per contact, simultaneous over all impacts of a step
/// (Giang, Bradshaw & O'Sullivan 2003, eqs. 8-14), or one after the other.
///
///     v+ = v + M^-1 J'f,   w = J v+ + eps J v >= 0 (on contacts that approach: eps 0 on the
///     others),   f >= 0,   f'w = 0
///
/// with J the rows of relative normal velocity (> 0: separating). A QP over K = M: solved by the
/// dual active set. With friction v+ = v + M^-1 (J'f - T'beta), |beta| <= mu f, beta along the
/// sliding T v+; any gain of kinetic energy lowers eps until there is none.
#ifndef QPC_ENGINE_SOLVER_IMPACT_H
#define QPC_ENGINE_SOLVER_IMPACT_H

#include "engine/solver/friction.h"

typedef enum qpc_impact_mode { // "simultaneous", "sequential"
    QPC_IMPACT_SIMULTANEOUS,
    QPC_IMPACT_SEQUENTIAL, // the fastest approach first, pair by pair, until none approaches: the
                           // textbook cradle
} qpc_impact_mode;

typedef struct qpc_impact_report {
    int32_t impacts, rounds; // contacts that approached; sequential: single impacts worked off
    // Kinetic, J; after <= before (1 + 1e-12). With `approach`, before includes what the step took
    // from these contacts: the least that it can have been.
    double energy_before, energy_after;
    double
        restitution_scale; // what eps was multiplied by to lose no promise of energy, 1 as a rule
    double natural;        // natural residual of the complementarity problem, m/s
    bool converged;
} qpc_impact_report;

/// M: the mass matrix as a factored system (diagonal or 6x6 blocks; its factor is used). v (n): in
/// and out. approach (m): relative normal velocity before the step, m/s, what eps is applied to (<
/// -threshold; NULL: J v itself; sequential then starts from the v that has it, and f is what leads
/// from v to the end, f >= 0 in the simultaneous mode only). A resting contact has threshold 2 g h.
/// friction: NULL, or tangents as in friction.h with u0 = 0 and row indices into J. f (m) and beta
/// (2 friction->count) out: impulses, N s.
qpc_status qpc_solve_impact(qpc_linsys *M, int32_t m, const int32_t *start, const int32_t *column,
                            const double *value, const double *eps, const double *approach,
                            double threshold, const qpc_friction *friction, qpc_impact_mode mode,
                            qpc_arena *arena, double *v, double *f, double *beta,
                            qpc_impact_report *report, qpc_error *err);

#endif
