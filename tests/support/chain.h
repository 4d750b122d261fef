/// A QP over a chain of nodes, for tests: its arrays, random numbers for them, and the QP that points at them. Who includes this
/// says how large first: CHAIN_NODES, CHAIN_ROWS, CHAIN_ENTRIES (of a row at most), CHAIN_SEED. One thread.
#ifndef QPC_TESTS_SUPPORT_CHAIN_H
#define QPC_TESTS_SUPPORT_CHAIN_H

#include "engine/solver/qp.h"

#include <stdint.h>

enum { NODES = CHAIN_NODES, N = 3 * NODES, ROWS = CHAIN_ROWS };

static uint64_t chain_seed = CHAIN_SEED;
static inline double uniform(void) { // in [-1, 1)
    chain_seed = chain_seed * 6364136223846793005U + 1442695040888963407U;
    return (double)(int64_t)(chain_seed >> 11) / (double)(1LL << 52) - 1;
}

typedef struct chain {
    qpc_linsys K;
    qpc_qp qp;
    double b[N], c[ROWS], value[CHAIN_ENTRIES * ROWS];
    int32_t row_start[ROWS + 1], column[CHAIN_ENTRIES * ROWS];
    uint8_t equality[ROWS], priority[ROWS];
    uint64_t key[ROWS];
} chain;

/// The first m rows.
static inline void chain_point(chain *q, int32_t m) {
    q->qp = (qpc_qp){.n = N, .m = m, .sys = &q->K, .b = q->b, .row_start = q->row_start, .column = q->column,
                     .value = q->value, .c = q->c, .equality = q->equality, .priority = q->priority, .key = q->key};
}

/// Row i ends with entry `end`.
static inline void chain_close_row(chain *q, int32_t i, int32_t end, double c, bool equality) {
    q->row_start[i + 1] = end;
    q->c[i] = c;
    q->equality[i] = equality;
    q->priority[i] = 1;
    q->key[i] = (uint64_t)i;
}

#endif
