/// The quadratic program of a step:  min 1/2 dv'K dv - b'dv  subject to  J dv <= c (or = c),
/// KKT:  K dv + J'lambda = b, lambda >= 0 on inequalities, lambda (c - J dv) = 0.
#ifndef QPC_ENGINE_SOLVER_QP_H
#define QPC_ENGINE_SOLVER_QP_H

#include "engine/dynamics/linsys.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct qpc_qp {
    int32_t n, m;
    qpc_linsys *sys;          // K, factored; solvers use its factor and band, and count solves in it
    const double *b;          // (n) N s
    const int32_t *row_start; // (m + 1) J by rows
    const int32_t *column;    // strictly increasing within a row
    const double *value;
    const double *c;          // (m) m/s
    const uint8_t *equality;  // (m) 1: equality row, never dropped, multiplier of either sign
    const uint8_t *priority;  // (m) which rows give way first if rows contradict: 0 never, 1 contacts, 2 strain limits
    const uint64_t *key;      // (m) persistent row ids: ties break by them, duplicates allowed
} qpc_qp;

#endif
