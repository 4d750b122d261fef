/// The Delassus operator A = J K^-1 J' on a working set W, and its updated L D L' factor.
#ifndef QPC_ENGINE_SOLVER_DELASSUS_H
#define QPC_ENGINE_SOLVER_DELASSUS_H

#include "base/mem.h"

#include <stdint.h>

/// Inner loops by instruction set; all give the same bits.
typedef struct qpc_delassus_loops {
    double (*dot)(const double *a, const double *b, int32_t count);
    void (*take4)(const double *a, const double *b, const double *c, const double *d,
                  const double *t, double *y,
                  int32_t count); // y -= t[0] a + .. + t[3] d
} qpc_delassus_loops;
/// 0, 1, ..: the sets from narrow to wide, NULL where the processor has it not; -1: the widest.
const qpc_delassus_loops *qpc_delassus_loops_of(int32_t set);

/// Packed: row i of L at i (i + 1) / 2, unit diagonal not stored, D in its place.
typedef struct qpc_delassus {
    qpc_arena *arena;
    const qpc_delassus_loops *loops;
    int32_t count, capacity;
    int32_t *row;     // (count) rows of J in the order of the factor
    double *factor;   // packed
    double *p, *beta; // scratch of a removal
} qpc_delassus;

/// False when memory is out; the factor is as before.
bool qpc_delassus_init(qpc_delassus *del, qpc_arena *arena, int32_t capacity);
static inline void qpc_delassus_clear(qpc_delassus *del) {
    del->count = 0;
}
/// v = L^-1 a in place; returns sum v_i^2 / D_i, so that the pivot of a row is a_pp less this.
double qpc_delassus_forward(const qpc_delassus *del, double *v);
/// L' \ (D \ v) in place: after a forward substitution, A_WW^-1 a.
void qpc_delassus_backward(const qpc_delassus *del, double *v);
/// r = A_WW^-1 r in place.
void qpc_delassus_solve(const qpc_delassus *del, double *r);
/// Append a row of which v = L^-1 a, a its products with W, and whose pivot (its squared distance
/// from the span of W) is d > 0. False when memory is out.
bool qpc_delassus_append(qpc_delassus *del, int32_t row, const double *v, double d);
/// Take out the row at `position` of the order; later ones move up.
void qpc_delassus_remove(qpc_delassus *del, int32_t position);

#endif
