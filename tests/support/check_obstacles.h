/// The checker's part for obstacles: no vertex, edge or triangle of what moves comes into a plane, sphere, capsule, box or cylinder, at a
/// state or during a motion. Own arithmetic: distances to the shapes are worked out from closest points, times by halving the motion
/// until the bound of its speed decides. Memory by malloc.
#ifndef QPC_TESTS_SUPPORT_CHECK_OBSTACLES_H
#define QPC_TESTS_SUPPORT_CHECK_OBSTACLES_H

#include "tests/support/checker.h"

typedef struct qpc_check_obstacle {
    int32_t body, first_node; // four nodes: origin, and the ends of three axes
    char shape;               // its first letter; 'C' for a capsule
    int axis;
    double radius, half[3], thickness;
} qpc_check_obstacle;

/// Features of a body: `nodes` (count x size) node numbers, edges (2) or triangles with their edges and vertices (3).
typedef struct qpc_check_feature_list {
    int32_t body, count, size;
    int32_t *nodes;
    double radius;
} qpc_check_feature_list;

/// The motion x0 -> x1 (the same: a state) of all lists against all obstacles. True if nothing was found.
bool qpc_check_obstacles(const qpc_check_obstacle *obstacles, int32_t obstacle_count, const qpc_check_feature_list *lists,
                         int32_t list_count, const double *x0, const double *x1, qpc_check_report *report);

#endif
