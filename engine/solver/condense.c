/// Block elimination of the nodes of a chain that no row touches.
///
/// Along a run between kept nodes a and b, node by node from the left. Node i couples to a by F
/// (its row, a's columns) and to i + 1 by E' (E: row i + 1, column i):
///
///     P = D^-1 F,  Q = D^-1 E',  s = D^-1 r
///     D_a -= F'P,  b_a -= F's,   D_{i+1} -= E Q,  r_{i+1} -= E s,  F_{i+1} = -E P.
///
/// Behind the last kept node it goes from the right end, so that no node there couples to two; by
/// turns with the nodes in front of the first kept one.
///
/// Runs on the worker in the world; memory from the arena.
#include "engine/solver/condense.h"

#include "base/cpu.h"

#include <string.h>

enum {
    BAND = 5,
    STRIDE = BAND + 1,
    NODES_LEAST = 24,
    BACK = 21,
};
static const double KEPT_MOST = 0.7; // of the nodes

typedef struct block {
    double m[9]; // rows of 3
} block;

/// L D L' of a symmetric 3x3 block: l10, l20, l21 and the reciprocal pivots.
typedef struct pivot {
    double l10, l20, l21, d0, d1, d2;
} pivot;

static bool good(double d) {
    return d > 0 && d <= 1.7976931348623157e308;
}

/// Rows of 3x3 blocks with a number of the right-hand side behind each, so that both are solved and
/// multiplied at once; each lane has the operations, and so the bits, that it would have alone.
typedef double four __attribute__((vector_size(32), aligned(8), may_alias));

/// The block of a node's row and the column of the node before.
static block before_of(const double *band, int32_t node) {
    const double *r0 = band + (int64_t)node * 3 * STRIDE, *r1 = r0 + STRIDE, *r2 = r1 + STRIDE;
    return (block){{r0[2], r0[3], r0[4], r1[1], r1[2], r1[3], r2[0], r2[1], r2[2]}};
}

static void put_node(double *band, double *b, int32_t node, const four from[3]) {
    double *r0 = band + (int64_t)node * 3 * STRIDE + BAND, *r1 = r0 + STRIDE, *r2 = r1 + STRIDE;
    r0[0] = from[0][0];
    r1[-1] = from[1][0];
    r1[0] = from[1][1];
    r2[-2] = from[2][0];
    r2[-1] = from[2][1];
    r2[0] = from[2][2];
    for (int32_t k = 0; k < 3; k++) b[3 * (int64_t)node + k] = from[k][3];
}

static void put_before(double *band, int32_t node, const block *B) {
    double *row = band + (int64_t)node * 3 * STRIDE;
    for (int32_t a = 0; a < 3; a++)
        for (int32_t c = 0; c < 3; c++) row[a * STRIDE + 2 + c - a] = B->m[3 * a + c];
}

#define TARGET
#define NAME(x) base_##x
#include "engine/solver/condense_lanes.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#define NAME(x) avx2_##x
#include "engine/solver/condense_lanes.h"
#endif

/// The elimination; -1 or the node without a positive pivot.
static int32_t eliminate(const qpc_qp *qp, qpc_condensed *c, double *b) {
#if defined(__x86_64__)
    if (qpc_has_avx2()) return avx2_eliminate(qp, c, b);
#endif
    return base_eliminate(qp, c, b);
}

/// Number the nodes that a row touches.
static int32_t number_kept(const qpc_qp *qp, int32_t nodes, int32_t *place) {
    int32_t kept = 0, count = qp->row_start[qp->m];
    for (int32_t i = 0; i < nodes; i++) place[i] = -1;
    for (int32_t k = 0; k < count; k++) place[qp->column[k] / 3] = 0;
    for (int32_t i = 0; i < nodes; i++)
        if (place[i] == 0) place[i] = kept++;
    return kept;
}

qpc_status qpc_condense(const qpc_qp *qp, qpc_arena *arena, qpc_condensed *ret, bool *ret_done,
                        qpc_error *err) {
    *ret_done = false;
    const qpc_linsys *sys = qp->sys;
    if (sys->kind != QPC_LINSYS_BAND || sys->bandwidth != BAND || qp->n != sys->n ||
        qp->n % 3 != 0 || qp->m <= 0 || qp->n < 3 * NODES_LEAST)
        return QPC_OK;
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    qpc_condensed c = {.qp = *qp, .nodes = qp->n / 3};
    c.place = qpc_arena_array(arena, (size_t)c.nodes, sizeof *c.place);
    if (c.place == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for %d unknowns", qp->n);
    int32_t kept = number_kept(qp, c.nodes, c.place);
    if (kept == 0 || kept > KEPT_MOST * c.nodes) {
        qpc_arena_rewind(arena, mark);
        return QPC_OK;
    }
    for (c.last = c.nodes - 1; c.place[c.last] < 0; c.last--) {
    }
    size_t n = 3 * (size_t)kept, count = (size_t)qp->row_start[qp->m];
    c.sys = (qpc_linsys){.kind = QPC_LINSYS_BAND, .n = 3 * kept, .bandwidth = kept > 1 ? BAND : 2};
    size_t stride = (size_t)c.sys.bandwidth + 1;
    c.back = qpc_arena_array(arena, (size_t)c.nodes * BACK, sizeof(double));
    c.sys.band = qpc_arena_array(arena, n * STRIDE, sizeof(double));
    c.sys.factor = qpc_arena_array(arena, n * stride, sizeof(double));
    c.sys.diagonal = qpc_arena_array(arena, n, sizeof(double));
    double *b = qpc_arena_array(arena, n, sizeof(double));
    int32_t *column = qpc_arena_array(arena, count, sizeof *column);
    if (c.back == NULL || c.sys.band == NULL || c.sys.factor == NULL || c.sys.diagonal == NULL ||
        b == NULL || column == NULL) {
        qpc_arena_rewind(arena, mark);
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for %d unknowns", qp->n);
    }
    memset(c.sys.band, 0, n * STRIDE * sizeof(double));
    int32_t bad = eliminate(qp, &c, b);
    if (bad >= 0) {
        qpc_arena_rewind(arena, mark);
        return qpc_fail(err, QPC_ERR_NUMERIC, "K is not positive definite and finite at node %d",
                        bad);
    }
    if (kept == 1) // half bandwidth 2: rows of three
        for (int32_t i = 0; i < 3; i++)
            memmove(c.sys.band + 3 * i, c.sys.band + STRIDE * i + 3, 3 * sizeof(double));
    for (size_t k = 0; k < count; k++)
        column[k] = 3 * c.place[qp->column[k] / 3] + qp->column[k] % 3;
    qpc_status st = qpc_linsys_factor(&c.sys, err);
    if (st != QPC_OK) {
        qpc_arena_rewind(arena, mark);
        return st;
    }
    c.qp.n = 3 * kept;
    c.qp.b = b;
    c.qp.column = column;
    *ret = c;
    ret->qp.sys = &ret->sys;
    *ret_done = true;
    return QPC_OK;
}

void qpc_condensed_expand(const qpc_condensed *c, const double *kept, double *x) {
    // Back from the right; an eliminated node knows its right neighbour then. Its kept node on the
    // left: from a sweep in front.
    static const double zero[3];
    const double *right = zero;
    for (int32_t i = c->last; i >= 0;) {
        if (c->place[i] >= 0) {
            memcpy(x + 3 * i, kept + 3 * c->place[i], 3 * sizeof(double));
            right = x + 3 * i;
            i--;
            continue;
        }
        int32_t first = i; // of the run
        while (first > 0 && c->place[first - 1] < 0) first--;
        const double *left = first > 0 ? kept + 3 * c->place[first - 1] : zero;
        for (; i >= first; i--) {
            const double *m = c->back + (int64_t)i * BACK;
            for (int32_t k = 0; k < 3; k++) {
                const double *P = m + 3 * k, *Q = m + 9 + 3 * k;
                x[3 * i + k] = m[18 + k] - (P[0] * left[0] + P[1] * left[1] + P[2] * left[2]) -
                               (Q[0] * right[0] + Q[1] * right[1] + Q[2] * right[2]);
            }
            right = x + 3 * i;
        }
    }
    for (int32_t i = c->last + 1; i < c->nodes; i++) // behind the last kept node: from it on
        for (int32_t k = 0; k < 3; k++) {
            const double *m = c->back + (int64_t)i * BACK, *Q = m + 9 + 3 * k,
                         *before = x + 3 * i - 3;
            x[3 * i + k] = m[18 + k] - (Q[0] * before[0] + Q[1] * before[1] + Q[2] * before[2]);
        }
}
