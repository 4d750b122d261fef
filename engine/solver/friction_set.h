/// Inside qpc_solve_friction: the rows that take part, and the problem condensed to them.
///
/// H has a row -J_i for each normal row, equality and frictionless row that takes part and two rows
/// T for each contact: u = q + W r with W = H K^-1 H', q = (c, u0) + H K^-1 b, r = (lambda, -beta),
/// dv = K^-1 (b + H'r). The set only grows, so that going through it ends. One thread; memory from
/// the arena.
#ifndef QPC_ENGINE_SOLVER_FRICTION_SET_H
#define QPC_ENGINE_SOLVER_FRICTION_SET_H

#include "engine/solver/cones.h"

typedef struct qpc_friction_set {
    const qpc_qp *qp;
    const qpc_friction *friction;
    int32_t *contact_of; // (m) number of the row's contact with friction, or -1
    int32_t *block_of;   // (m) its block, or -1
    int32_t count, size; // blocks, unknowns
    int32_t *row;        // (m) rows of the blocks, in the order of their coming
    uint8_t *kind;       // (m)
    int32_t *at;         // (m + 1)
    int32_t done;        // blocks that W has
    double *W, *q;       // (size x size), (size); q of blocks < done
    double *free_dv;     // (n) K^-1 b
    double *columns;     // (n x lanes) right-hand sides, side by side, or column after column where that is faster
    int32_t lanes, stride, apart;
} qpc_friction_set;

qpc_status qpc_friction_set_init(qpc_friction_set *set, const qpc_qp *qp,
                                 const qpc_friction *friction, qpc_arena *arena, qpc_error *err);
/// Row i takes part from now on; false if it did already.
bool qpc_friction_set_add(qpc_friction_set *set, int32_t i);
/// W and q for all blocks; what is there is kept.
qpc_status qpc_friction_set_condense(qpc_friction_set *set, qpc_arena *arena, qpc_error *err);
/// dv = K^-1 (b + H'r) with one refinement; rhs (n): scratch.
void qpc_friction_set_motion(const qpc_friction_set *set, const double *r, double *rhs, double *dv);
/// u of a block at dv.
void qpc_friction_set_velocity(const qpc_friction_set *set, int32_t block, const double *dv,
                               double *u);
/// r (size) from lambda and beta, and back (lambda of rows outside and beta of theirs become 0).
void qpc_friction_set_gather(const qpc_friction_set *set, const double *lambda, const double *beta,
                             double *r);
void qpc_friction_set_scatter(const qpc_friction_set *set, const double *r, double *lambda,
                              double *beta);
/// The residuals at dv and r, by their definitions, from J, T, c, u0 and the diagonal blocks of W.
void qpc_friction_set_report(const qpc_friction_set *set, const double *dv, const double *r,
                             qpc_friction_report *report);

#endif
