/// Narrow phase: conservative continuous collision detection of vertex-triangle and edge-edge pairs
/// that move linearly, by directional conservative advancement (docs/theory-ccd.md).
///
/// Guarantees, floating point included: MISS means that the distance stays above s for all t in
/// [0, 1]; a HIT's time is never later than the first time at distance s, and the distance there is
/// within [s - O(E), s + tol + O(E)], E = 32 u M with M the largest relative coordinate. The time
/// is close to that at distance s, not only within the tolerance of it (T-ccd10). At most 100
/// iterations are done, none allocates: no query takes more than about 100 us.
#ifndef QPC_ENGINE_COLLISION_CCD_H
#define QPC_ENGINE_COLLISION_CCD_H

#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum qpc_ccd_outcome { QPC_CCD_MISS, QPC_CCD_HIT, QPC_CCD_AT_START } qpc_ccd_outcome;

typedef struct qpc_ccd_result {
    qpc_ccd_outcome outcome;
    double toi;       // [0, 1]
    qpc_vec3 n;       // unit, from feature j (triangle, edge b) to feature i (vertex, edge a)
    double weight[4]; // signed as in qpc_contact
    double distance;  // at toi, m
    int32_t iterations;
    bool uncertain;
} qpc_ccd_result;

/// x0, x1: the four points at t = 0 and t = 1. VT: vertex, a, b, c. EE: a0, a1, b0, b1.
/// s >= 0 separation, tol > 0 tolerance, both m. Input that is not finite (or beyond 1e60) is
/// AT_START, uncertain. A miss writes outcome, toi = 1, iterations and uncertain only.
void qpc_ccd_vt(const qpc_vec3 x0[4], const qpc_vec3 x1[4], double s, double tol,
                qpc_ccd_result *ret);
void qpc_ccd_ee(const qpc_vec3 x0[4], const qpc_vec3 x1[4], double s, double tol,
                qpc_ccd_result *ret);

/// For pairs that may start closer than s: with d0 the distance at the start, written to ret_start
/// unless the answer is a miss at s, the pair is tested at s if d0 > s (1 + 1e-6), else at 0.9 d0,
/// with tolerance 0.1 (d0 - what is tested), at most `most`. So a pair that leaves is a miss
/// wherever it starts (d0 above rounding), and AT_START is left to pairs that touch.
void qpc_ccd_vt_keep(const qpc_vec3 x0[4], const qpc_vec3 x1[4], double s, double most,
                     qpc_ccd_result *ret, double *ret_start);
void qpc_ccd_ee_keep(const qpc_vec3 x0[4], const qpc_vec3 x1[4], double s, double most,
                     qpc_ccd_result *ret, double *ret_start);

#endif
