/// Static condensation: the QP of a step over the nodes that its rows touch.
///
/// K of cables is a chain of 3x3 blocks. What no row reaches is eliminated from it once, run by run
/// between touched nodes; what is left is a chain again, and the same QP (T37): same rows, same multipliers,
/// same residuals in the norms of the certificate. Engines that go through K many times go through less of it.
#ifndef QPC_ENGINE_SOLVER_CONDENSE_H
#define QPC_ENGINE_SOLVER_CONDENSE_H

#include "base/mem.h"
#include "engine/solver/qp.h"

typedef struct qpc_condensed {
    qpc_qp qp;       // over the kept unknowns; rows, keys and multipliers are those of the whole
    qpc_linsys sys;  // factored; in the arena
    int32_t nodes, last; // last: the last one kept
    int32_t *place;  // (nodes) number among the kept, or -1
    double *back;    // (nodes x 21) P, Q (3x3), s: x_i = s - P x_left - Q x_{i+1} of an eliminated node; behind
                   // the last one kept s - Q x_{i-1}
} qpc_condensed;

/// *ret_done false: the QP is of another form, or too little would be gained; nothing is held then.
/// QPC_ERR_NUMERIC: K is not positive definite and finite, with the node; QPC_ERR_MEMORY.
qpc_status qpc_condense(const qpc_qp *qp, qpc_arena *arena, qpc_condensed *ret, bool *ret_done,
                        qpc_error *err);
/// The solution of the whole from that of the kept unknowns.
void qpc_condensed_expand(const qpc_condensed *c, const double *kept, double *x);

#endif
