/// A checker made from a scene's wire form: what a run file holds, or a world says of itself.
///
/// Bodies get node numbers of the caller's frames; bodies that do not move are appended behind them,
/// placed by this file's own arithmetic. Memory by malloc. Any thread.
#ifndef QPC_TESTS_SUPPORT_CHECK_SCENE_H
#define QPC_TESTS_SUPPORT_CHECK_SCENE_H

#include "base/value.h"
#include "tests/support/check_obstacles.h"
#include "tests/support/checker.h"

typedef struct qpc_check_mesh {
    const double *vertices; // (vertex_count x 3) m
    const int32_t *triangles; // or tetrahedra
    int32_t vertex_count, triangle_count;
    int32_t per; // nodes per element, 3 or 4
} qpc_check_mesh;
/// False: no such mesh. What *ret points to must live until the call below returns.
typedef bool (*qpc_check_mesh_lookup)(void *user, const char sha256[65], qpc_check_mesh *ret);

typedef struct qpc_check_scene {
    qpc_checker *checker;
    int32_t frame_nodes; // nodes of a frame
    int32_t node_count;  // all nodes that the checker wants
    double *x0, *x1;     // (node_count x 3): put frames at the front; the rest stands still
    qpc_check_obstacle *obstacles;
    qpc_check_feature_list *lists; // of what may touch them
    int32_t obstacle_count, list_count;
    bool started;
} qpc_check_scene;

/// first_node[i]: where body i begins in a frame of frame_nodes nodes, or -1: it is not in frames (and
/// does not move). A body with a place in frames starts as the scene says, if start is NULL.
qpc_status qpc_check_scene_create(const qpc_value *scene, const int32_t *first_node,
                                  int32_t frame_nodes, const double *start,
                                  qpc_check_mesh_lookup lookup, void *user, qpc_check_scene *ret,
                                  qpc_error *err);
void qpc_check_scene_fini(qpc_check_scene *s);
/// From the next state on that body of the scene is not there.
void qpc_check_scene_remove(qpc_check_scene *s, int32_t body);

/// The next recorded state (frame_nodes x 3). The first one is checked as it stands, later ones with
/// the motion that leads to them. True if nothing was found.
bool qpc_check_scene_next(qpc_check_scene *s, const double *frame, qpc_check_report *report);

/// One line for people, and one per finding, to stdout.
void qpc_check_report_print(const char *name, const qpc_check_report *report);

#endif
