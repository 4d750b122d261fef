/// Proofs that rows contradict, from multipliers that an engine ran into; see proof.c.
#ifndef QPC_ENGINE_SOLVER_PROOF_H
#define QPC_ENGINE_SOLVER_PROOF_H

#include "engine/solver/work.h"

/// y (m), >= 0 on inequalities, q = J'y and v = -y'c > 0: whether no x can satisfy the rows that counts as an answer. v > 100 S |q|
/// in K^-1, or v > V |q|_1, V being `beyond` of the options. q, z (n): scratch.
bool qpc_proof_holds(const qpc_work *work, const double *y, double *q, double *z);
/// The second of the two alone, which takes no solve.
bool qpc_proof_by_speed(const qpc_work *work, const double *y, double *q);
/// The rows of the proof y (m, lost), as few of them as are found to do, into the report, with outcome INFEASIBLE.
qpc_status qpc_proof_name(const qpc_work *work, double *y, qpc_solver_report *report, qpc_error *err);

#endif
