/// Exact answer to "do two moving primitives ever touch", for any double coordinates.
///
/// Vertex against triangle and edge against edge, every point moving linearly over t in [0, 1]. The
/// closed question is decided: touching counts, t = 0 and t = 1 count, and triangles or edges may be
/// degenerate. Coordinates become integers (doubles are dyadic), the coplanarity cubic is made square
/// free, its roots in [0, 1] are isolated by Bernstein sign changes, and the signs that tell inside
/// from outside are taken at the algebraic root itself. No tolerance, no rounding: this is the last
/// word of the independent checker. It shares no code with the engine. Integers are libcrypto's.
/// One query at a time per object; any thread. Slow (about 0.1 ms): filter before asking.
#ifndef QPC_TESTS_SUPPORT_EXACT_H
#define QPC_TESTS_SUPPORT_EXACT_H

#include <stdbool.h>

typedef struct qpc_exact qpc_exact; // scratch

/// NULL when memory is out.
qpc_exact *qpc_exact_create(void);
void qpc_exact_destroy(qpc_exact *exact);

typedef enum qpc_exact_answer {
    QPC_EXACT_MISS = 0,
    QPC_EXACT_HIT = 1,
    QPC_EXACT_UNDECIDED = -1, // a coordinate is not finite
} qpc_exact_answer;

/// x0, x1: four points (x y z each) at t = 0 and t = 1: vertex, a, b, c. On a hit *ret_toi (may be
/// NULL) is the first time of contact rounded down.
qpc_exact_answer qpc_exact_vt(qpc_exact *exact, const double x0[12], const double x1[12],
                              double *ret_toi);
/// The same for edges: a0, a1, b0, b1.
qpc_exact_answer qpc_exact_ee(qpc_exact *exact, const double x0[12], const double x1[12],
                              double *ret_toi);

#endif
