/// Detection: all contacts of a set of surfaces at rest (proximity) or over one motion
/// (continuous).
///
/// A detector knows surfaces, each a chain of edges (cable) or a triangle mesh, over one global
/// array of nodes. Pairs are tested if at least one side is dynamic: cable-mesh by vertex-triangle
/// (cable vertex against triangle) and edge-edge; cable-cable and a cable with itself by edge-edge;
/// mesh-mesh and a dynamic (deforming) mesh with itself by vertex-triangle both ways and edge-edge.
/// Obstacles are surfaces by a function (implicit.h): vertices, edges and triangles of chains and dynamic meshes against it, in kinds
/// VT, EE and TO, side j the nodes of its frame, feature 0.
/// It keeps candidate lists over fat boxes, so that the proximity, the passes and the acceptance
/// test of a step share one broad phase; lists depend on positions only, never on time or thread.
/// One thread at a time; tests are split over helping threads if there are some
/// (qpc_detector_set_parallel), with the same bits on any number. After warm-up nothing is
/// allocated.
///
/// Self pairs: features that share a vertex are left out; pairs nearer along the rest shape than
/// self_exclusion get separation min(0.01 (r_i + r_j), their present distance) and the flag
/// QPC_CONTACT_NEAR_SELF.
#ifndef QPC_ENGINE_COLLISION_DETECT_H
#define QPC_ENGINE_COLLISION_DETECT_H

#include "base/parallel.h"
#include "base/status.h"
#include "engine/collision/contact.h"
#include "engine/collision/implicit.h"
#include "engine/geometry/mesh.h"

/// Rigid: a mesh, or a chain of one or two nodes (a sphere, a capsule), that moves as its world says and touches like a dynamic one, but never itself.
typedef enum qpc_motion_kind { QPC_STATIC, QPC_KINEMATIC, QPC_DYNAMIC, QPC_RIGID } qpc_motion_kind;

typedef struct qpc_surface {
    qpc_motion_kind motion;
    int32_t first_node, node_count; // in the global node arrays
    const qpc_mesh *mesh;           // triangles; NULL: a chain of node_count - 1 edges, or an obstacle
    const qpc_implicit *shape;      // obstacle, static or kinematic: over QPC_IMPLICIT_NODES nodes of its frame; copied. Else NULL
    const double *rest_length;      // chain: (node_count - 1) m, borrowed
    double radius;                  // half thickness, m; > 0, for a static or kinematic mesh >= 0
    double self_exclusion;          // self pairs: m along the rest shape; < 0: pi (r + r) / 2
    bool absent;                    // nothing touches it, and features (so keys) are numbered without it
} qpc_surface;

typedef struct qpc_detector qpc_detector;

typedef struct qpc_detect_counts { // since the last qpc_detector_counts_reset()
    uint64_t candidates, vt_tests, ee_tests, hits, list_rebuilds, box_tests, ccd_iterations;
} qpc_detect_counts;

/// x: positions at the start, (node_count x 3) m, used for static surfaces and the first lists.
/// surfaces are copied, meshes referenced. max_candidates bounds the lists of one step
/// (QPC_ERR_LIMIT names it when exceeded; a pair is never silently dropped).
/// The rest shape of a dynamic mesh is that of its qpc_mesh, along edges (nearby.h).
/// Refused: meshes that are not of triangles (QPC_ERR_UNSUPPORTED), positions that are not finite
/// (QPC_ERR_NUMERIC, here and in every call below; the detector stays usable).
qpc_status qpc_detector_create(const qpc_surface *surfaces, int32_t surface_count, const double *x,
                               int32_t node_count, int64_t max_candidates, qpc_detector **ret,
                               qpc_error *err);
void qpc_detector_destroy(qpc_detector *detector);
/// Who helps from now on; referenced. NULL: nobody, as at the start.
void qpc_detector_set_parallel(qpc_detector *detector, const qpc_parallel *parallel);

/// Contacts of the positions x with distance < reach * separation (reach about 1.05 to 1.25),
/// each closest feature pair once, filtered to real local minima of distance (no internal edges of
/// a flat surface, numerics of the Voronoi regions), sorted by key. ret is emptied first. Every
/// contact has toi 0, distance measured at x. Vertices of chains and of dynamic meshes are
/// particles: each has its contact with what is nearest, whether or not its neighbours are nearer
/// (unless a mesh falls steeply towards it, by 30 degrees or more, from the vertex).
/// Between meshes a vertex and an edge have one form whichever test found them, kind VT with the
/// first triangle at the edge; two vertices, lower node first, are kind EE with their first edges.
qpc_status qpc_detect_proximity(qpc_detector *detector, const double *x, double reach,
                                qpc_contacts *ret, qpc_error *err);

/// Conservative CCD of the motion x0 -> x1 at separation `factor * separation` of each pair, and
/// if a pair starts closer than that, at min(that, 0.9 of its distance at x0). Reports every hit,
/// not filtered, normal and weights at the time of impact, sorted by key; tol = min(0.1 (d0 - s),
/// 0.01 separation) but at least a rounding bound. The same features found by several tests are
/// reported once, at the earliest time. QPC_CONTACT_AT_START marks pairs that were closer than
/// factor * separation at x0; one that only slides or leaves is no hit. ret is emptied first.
qpc_status qpc_detect_motion(qpc_detector *detector, const double *x0, const double *x1,
                             double factor, qpc_contacts *ret, qpc_error *err);

/// Smallest distance over separation of any candidate pair at x that is within reach 2 (at most 2
/// when none is); pairs flagged QPC_CONTACT_NEAR_SELF are left out.
qpc_status qpc_detect_minimum_gap(qpc_detector *detector, const double *x, double *ret_ratio,
                                  qpc_error *err);

/// The same up to reach, which is the answer if no pair is nearer.
qpc_status qpc_detect_gap_within(qpc_detector *detector, const double *x, double reach, double *ret_ratio,
                                 qpc_error *err);

/// Pairs that truly intersect at x (an edge crosses a triangle; centre lines of cables that meet),
/// by exact predicates. Of one mesh, an edge and a triangle that share a vertex intersect if they
/// are folded flat onto each other; neighbours that merely touch are left out. depth: smallest
/// translation along the triangle's normal that separates the pair, m (two cables: the sum of their
/// radii). Of an obstacle, feature[1] says what feature[0] is: 0 a vertex, 1 an edge, 2 a triangle;
/// depth: of its deepest point. At most max pairs are written, in order of surfaces and features; *ret_count is the
/// number found in all. Touching counts.
typedef struct qpc_overlap {
    int32_t surface[2], feature[2];
    double depth;
} qpc_overlap;
qpc_status qpc_detect_overlaps(qpc_detector *detector, const double *x, qpc_overlap *ret,
                               int32_t max, int64_t *ret_count, qpc_error *err);

qpc_detect_counts qpc_detector_counts(const qpc_detector *detector);
void qpc_detector_counts_reset(qpc_detector *detector);

/// Linear-time check of the lists against brute force, for tests and -Dvalidate: false and a
/// message if a pair within reach is missing.
bool qpc_detector_check(qpc_detector *detector, const double *x0, const double *x1, qpc_error *err);

#endif
