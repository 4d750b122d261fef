/// Inside qpc_solve_friction: the exact mode where K is banded, in time linear in the unknowns.
///
/// All rows are blocks at once; products with W go through the factor of K, and a Newton step is one banded LU of
/// K + H'C H, C being of 3x3 blocks, one a contact (docs/theory-friction.md). friction_chain.c sets up and decides,
/// friction_chain_step.c takes the steps. One thread; memory from the arena.
#ifndef QPC_ENGINE_SOLVER_FRICTION_CHAIN_H
#define QPC_ENGINE_SOLVER_FRICTION_CHAIN_H

#include "engine/solver/friction_block.h"

/// K is banded, no row has more than 12 columns, and there are contacts enough for it to pay.
bool qpc_friction_chain_pays(const qpc_qp *qp, const qpc_friction *friction);

/// lambda (m), beta (2 count): warm start in, best iterate out; dv (n) its motion. At most `most` Newton steps, added to
/// found->newton; found: residuals and counts; ends early where `doubt` says so. K is factored. QPC_ERR_MEMORY, QPC_ERR_NUMERIC.
qpc_status qpc_friction_chain_solve(const qpc_qp *qp, const qpc_friction *friction, double tolerance, int32_t most,
                                    const qpc_friction_doubt *doubt, qpc_arena *arena, double *dv, double *lambda, double *beta,
                                    qpc_friction_report *found, qpc_error *err);

// ---- what the two files share ----

enum { QPC_CHAIN_FAR = 48 }; // blocks beyond the band that carry something

typedef struct qpc_chain {
    const qpc_qp *qp;
    const qpc_friction *friction;
    qpc_arena *arena;
    qpc_friction_block *blocks;                          // (m)
    double *lu;                                       // (n x stride)
    double *rhs, *step, *dv, *spare, *free_dv, *rest; // (n); free_dv: K^-1 b; rest: K dv - b
    double *Z;                                        // band of K^-1
    int32_t *first;                                   // (n) the first unknown that K^-1 couples to this one, if not zero
    double *Y, *S, *e;     // of far blocks: (n x 3 f) B^-1 h', (3 f)^2, (3 f)
    int *far_pivots;
    int32_t *pivot, *far;  // (n), (f) blocks
    int32_t w, far_count;  // half bandwidth of the matrix
    double square;         // S^2
    double norm, best;     // |F|; least of it
    bool no_memory;
} qpc_chain;

/// A whole Newton step of the natural map, with `shift` against what is redundant. False: no such step.
bool qpc_chain_leap(qpc_chain *c, double shift);
/// A Newton step on the augmented Lagrangian of the convex problem, to the minimum along it; x is the multiplier there.
/// Returns the decrement before it, in the units of |F|; < 0: no such step.
double qpc_chain_descend(qpc_chain *c, double R);

#endif
