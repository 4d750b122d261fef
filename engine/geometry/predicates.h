/// Exact predicates: signs that are right for all finite doubles (barring over- and underflow of
/// products of three coordinates). A floating-point filter answers nearly always; the rest is
/// summed exactly as an expansion of non-overlapping parts. Any thread; no memory is taken.
#ifndef QPC_ENGINE_GEOMETRY_PREDICATES_H
#define QPC_ENGINE_GEOMETRY_PREDICATES_H

#include "base/vec.h"

#include <stdbool.h>

/// Sign of det(b - a, c - a, d - a): 1 when d is on the side of the normal (b - a) x (c - a).
int qpc_orient3d(qpc_vec3 a, qpc_vec3 b, qpc_vec3 c, qpc_vec3 d);
/// Sign of the turn a, b, c in the plane, 1 for left.
int qpc_orient2d(const double a[2], const double b[2], const double c[2]);

/// Closed segment p q and closed triangle a b c have a point in common; both may be degenerate.
bool qpc_segment_meets_triangle(qpc_vec3 p, qpc_vec3 q, qpc_vec3 a, qpc_vec3 b, qpc_vec3 c);
/// Closed segments p q and a b have a point in common; both may be points.
bool qpc_segments_meet(qpc_vec3 p, qpc_vec3 q, qpc_vec3 a, qpc_vec3 b);

#endif
