/// Obstacles in a detector: vertices, edges and triangles of chains, deforming and rigid meshes against implicit surfaces (implicit.h).
/// Inside of detection. Contacts have side i the feature, side j the obstacle; see qpc_contact for `offset`.
#ifndef QPC_ENGINE_COLLISION_OBSTACLES_H
#define QPC_ENGINE_COLLISION_OBSTACLES_H

#include "engine/collision/detector.h"

/// Room for obstacles among the surfaces; then each of them.
qpc_status qpc_obstacles_init(qpc_detector *det, const qpc_surface *surfaces, int32_t count, qpc_error *err);
/// Contacts within reach of their separation at x, appended to det->raw.
qpc_status qpc_obstacles_proximity(qpc_detector *det, const double *x, double reach, qpc_error *err);
/// Hits of x0 -> x1 at factor of the separation, appended to det->raw; their planes are those at the end of the motion (TO8).
qpc_status qpc_obstacles_motion(qpc_detector *det, const double *x0, const double *x1, double factor, qpc_error *err);
/// Lowers *best to the smallest phi over separation at x.
void qpc_obstacles_gap(qpc_detector *det, const double *x, double *best);
/// Features with phi <= 0, appended to ret from *count on.
void qpc_obstacles_overlaps(qpc_detector *det, const double *x, qpc_overlap *ret, int32_t max, int64_t *count);

#endif
