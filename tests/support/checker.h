/// The independent checker of the product's promise: no state intersects, and no motion between two
/// recorded states passes through anything.
///
/// It sees bodies (chains of edges, triangle meshes) and positions only. Every node moves linearly
/// between two successive states, which is how the engine moves them; halved sub-steps must be handed
/// over one by one. It shares nothing with the engine: a uniform grid over swept boxes finds pairs, a
/// filter in doubles with an error bound drops those that are certainly apart, and whatever it
/// leaves is decided exactly (exact.h). There is no tolerance: touching counts as a crossing.
///
/// What is tested: chain edges against triangles (vertex-triangle and edge-edge over the motion, edge
/// through triangle at the end), chain edges against chain edges that share no node (centre lines), and
/// deforming meshes against themselves and all other meshes (vertex-triangle both ways and edge-edge of
/// features that share no vertex, edge through triangle at the end). Meshes that do not deform are not
/// tested against each other. One thread at a time. Memory by malloc, not base/mem, so
/// that counting and failing the engine's allocations is not disturbed.
#ifndef QPC_TESTS_SUPPORT_CHECKER_H
#define QPC_TESTS_SUPPORT_CHECKER_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct qpc_checker_body {
    int32_t first_node, node_count;
    const int32_t *triangles; // (triangle_count x 3) local node numbers, copied; NULL: a chain
    int32_t triangle_count;
    bool moves;                // false: positions never change after creation
    bool deforms;              // mesh: also tested against itself and other meshes
    const double *rest;        // deforming mesh: (node_count x 3) rest shape, copied; NULL: as at creation
    double radius;             // half thickness, m
    const double *rest_length; // chain: (node_count - 1) m, copied; NULL: lengths at creation
    double self_exclusion;     // m along the rest shape; < 0: pi (r + r) / 2. Of a mesh, pairs of which two
                               // vertices are nearer in a straight line at rest have no thickness here
} qpc_checker_body;

enum { QPC_FINDINGS_MAX = 16 };
typedef enum qpc_finding_kind {
    QPC_FOUND_INTERSECTION, // at the end of a motion
    QPC_FOUND_CROSSING,     // during a motion
    QPC_FOUND_UNDECIDED,    // a coordinate is not finite
} qpc_finding_kind;
typedef struct qpc_finding {
    qpc_finding_kind kind;
    int64_t state;                 // number of the state that ends the motion, from 0
    int32_t body[2], feature[2];   // edge of a chain; edge or triangle of the other body
    double time;                   // of first contact in [0, 1] of the motion
} qpc_finding;

/// Sums over all calls with the same report; zero-initialise (and see qpc_check_report_init).
typedef struct qpc_check_report {
    int64_t states, motions;
    int64_t intersections;    // pairs that intersect, summed over states
    int64_t crossings;        // pairs that touch, summed over motions
    int64_t undecided;        // pairs with coordinates that are not finite
    double worst_penetration; // largest (thickness - distance) / thickness, 0 if none is closer
    double least_ratio;       // smallest distance / thickness of pairs looked at; 2 if none is nearer
    int64_t worst_state;      // number of the state of worst_penetration
    int64_t pairs, queries, exact_queries, distances; // work done
    int32_t finding_count;
    qpc_finding finding[QPC_FINDINGS_MAX];
} qpc_check_report;

typedef struct qpc_checker qpc_checker;

void qpc_check_report_init(qpc_check_report *report);

/// x (node_count x 3): positions at the start; bodies that do not move keep them.
qpc_status qpc_checker_create(const qpc_checker_body *bodies, int32_t body_count, const double *x,
                              int32_t node_count, qpc_checker **ret, qpc_error *err);
void qpc_checker_destroy(qpc_checker *checker);
/// From now on the body is not there.
void qpc_checker_remove(qpc_checker *checker, int32_t body);

/// Intersections and distances of one state.
void qpc_checker_state(qpc_checker *checker, const double *x, qpc_check_report *report);
/// The motion x0 -> x1, then the state x1. True if nothing was found.
bool qpc_checker_step(qpc_checker *checker, const double *x0, const double *x1,
                      qpc_check_report *report);

/// Distances by this file's own arithmetic, for tests: vertex, a, b, c and a0, a1, b0, b1.
double qpc_checker_distance_vt(const double x[12]);
double qpc_checker_distance_ee(const double x[12]);
/// The decision on one query (filter, then exact): 1 they touch, 0 they never do, -1 not finite.
/// *ret_exact (may be NULL): whether the filter left it to the exact test.
int qpc_checker_query(qpc_checker *checker, bool edges, const double x0[12], const double x1[12],
                      double *ret_time, bool *ret_exact);

#endif
