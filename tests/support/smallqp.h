/// A small dense QP for tests: fill K, J, b, c by hand, get a qpc_qp over them.
#ifndef QPC_TESTS_SUPPORT_SMALLQP_H
#define QPC_TESTS_SUPPORT_SMALLQP_H

#include "engine/solver/qp.h"
#include "tests/support/check.h"

#include <string.h>

enum { SMALLQP_N = 64, SMALLQP_M = 400 };

typedef struct smallqp {
    int32_t n, m;
    double K[SMALLQP_N][SMALLQP_N], b[SMALLQP_N];
    double J[SMALLQP_M][SMALLQP_N], c[SMALLQP_M];
    uint8_t equality[SMALLQP_M], priority[SMALLQP_M];
    uint64_t key[SMALLQP_M];
    // made by smallqp_build
    qpc_linsys sys;
    qpc_qp qp;
    int32_t row_start[SMALLQP_M + 1], column[SMALLQP_M * SMALLQP_N];
    double value[SMALLQP_M * SMALLQP_N];
} smallqp;

/// K's band is as wide as its entries are; zeros of J are left out. The arrays must stay in place.
static inline const qpc_qp *smallqp_build(smallqp *s) {
    qpc_error err = {0};
    int32_t width = 0, at = 0;
    for (int32_t i = 0; i < s->n; i++)
        for (int32_t j = 0; j < i; j++)
            if (s->K[i][j] != 0 && i - j > width) width = i - j;
    assert_ok(qpc_linsys_resize(&s->sys, s->n, width, &err), &err);
    for (int32_t i = 0; i < s->n; i++)
        for (int32_t j = i - width > 0 ? i - width : 0; j <= i; j++)
            qpc_linsys_add(&s->sys, i, j, s->K[i][j]);
    assert_ok(qpc_linsys_factor(&s->sys, &err), &err);
    for (int32_t i = 0; i < s->m; i++) {
        s->row_start[i] = at;
        for (int32_t j = 0; j < s->n; j++) {
            if (s->J[i][j] == 0) continue;
            s->column[at] = j;
            s->value[at++] = s->J[i][j];
        }
    }
    s->row_start[s->m] = at;
    s->qp = (qpc_qp){.n = s->n,
                     .m = s->m,
                     .sys = &s->sys,
                     .b = s->b,
                     .row_start = s->row_start,
                     .column = s->column,
                     .value = s->value,
                     .c = s->c,
                     .equality = s->equality,
                     .priority = s->priority,
                     .key = s->key};
    return &s->qp;
}

#endif
