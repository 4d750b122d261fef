/// Broad phase of triangle surfaces, static, kinematic or deforming: which vertex-triangle and
/// edge-edge pairs may come within reach of each other over one motion, between surfaces and within
/// one (self-collision).
///
/// Three trees a surface (vertices, triangles, edges), refitted as it moves and built again when
/// they have grown loose. Fat boxes and their pair lists are reused while every node stays within
/// its margin; each update filters them by the boxes of the motion at hand, so what a list holds
/// besides never shows. Pairs that share a vertex are left out, and pairs of two surfaces of which
/// neither is dynamic. Work is cut into slices by size alone; see base/parallel.h. One thread at a
/// time calls. After warm-up nothing is allocated.
///
/// Boxes are floats relative to an origin amid what moves, rounded outward: wider than asked for by
/// at most 2^-21 of the distance from there, never narrower.
#ifndef QPC_ENGINE_COLLISION_BROAD_H
#define QPC_ENGINE_COLLISION_BROAD_H

#include "base/array.h"
#include "base/parallel.h"
#include "engine/collision/bvh.h"
#include "engine/collision/detect.h"
#include "engine/geometry/mesh.h"

typedef struct qpc_broad_surface {
    qpc_motion_kind motion;
    int32_t first_node;   // of its vertices in the global node arrays
    const qpc_mesh *mesh; // triangles; referenced
    double radius;        // m
} qpc_broad_surface;

/// Triangles and edges are numbered over all surfaces in order. VT: a the global node of a vertex,
/// b a triangle. EE: two edges, a < b.
typedef struct qpc_pair {
    int32_t a, b;
} qpc_pair;
typedef QPC_ARRAY(qpc_pair) qpc_pairs;

typedef struct qpc_broad_counts { // since the last reset
    uint64_t box_tests, refits, builds, list_builds, fat_pairs, pairs;
} qpc_broad_counts;

typedef struct qpc_broad qpc_broad;

/// x: positions (all nodes x 3), m; those of static surfaces are taken from here for good.
/// Vertices that belong to no triangle are never looked at. max_pairs bounds the pairs of an update
/// (QPC_ERR_LIMIT names max_candidates; a pair is never silently dropped).
/// QPC_ERR_INVALID: meshes not of triangles, a negative radius. QPC_ERR_NUMERIC: positions that are
/// not finite or beyond 1e30 m, here and in updates.
qpc_status qpc_broad_create(const qpc_broad_surface *surfaces, int32_t surface_count,
                            const double *x, int64_t max_pairs, qpc_broad **ret, qpc_error *err);
void qpc_broad_destroy(qpc_broad *broad);

/// Find every pair whose boxes over the straight motion x0 -> x1, each grown by reach (>= 0) times
/// the radius of its surface, overlap. After an error no pairs are held and the next call starts
/// with new lists. parallel may be NULL.
qpc_status qpc_broad_update(qpc_broad *broad, const double *x0, const double *x1, double reach,
                            const qpc_parallel *parallel, qpc_error *err);

/// Make lists anew on the next update, whatever has moved: for measurements.
void qpc_broad_forget(qpc_broad *broad);

/// What the last update found, in slices whose number depends on sizes only: pairs of slice s, each
/// pair in one slice once. Their order depends on positions, of this update and those before it,
/// never on threads: sort where an order is wanted. Borrowed until the next update.
int32_t qpc_broad_slice_count(const qpc_broad *broad);
const qpc_pairs *qpc_broad_vt(const qpc_broad *broad, int32_t slice);
const qpc_pairs *qpc_broad_ee(const qpc_broad *broad, int32_t slice);

/// Global numbers back to features: surface, its number within the mesh, its nodes (global).
void qpc_broad_triangle(const qpc_broad *broad, int32_t b, int32_t *ret_surface, int32_t *ret_local,
                        int32_t node[3]);
void qpc_broad_edge(const qpc_broad *broad, int32_t e, int32_t *ret_surface, int32_t *ret_local,
                    int32_t node[2]);
int32_t qpc_broad_node_surface(const qpc_broad *broad, int32_t node);

qpc_broad_counts qpc_broad_get_counts(const qpc_broad *broad);
void qpc_broad_counts_reset(qpc_broad *broad);
size_t qpc_broad_bytes(const qpc_broad *broad);
/// Slow check of trees and boxes, for tests and -Dvalidate.
bool qpc_broad_check(const qpc_broad *broad, qpc_error *err);

#endif
