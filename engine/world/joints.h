/// Joints of a world (docs/theory-joints.md): points that are held together, and tendons.
///
/// A point is a node, or moves with a rigid or kinematic body as the same combination of four of its vertices. Joints have no
/// state of their own but the multipliers of their rows, which are kept by key like all others.
#ifndef QPC_ENGINE_WORLD_JOINTS_H
#define QPC_ENGINE_WORLD_JOINTS_H

#include "engine/world/attempt.h"

enum { QPC_JOINT_MOST_ROWS = 5 };

typedef struct qpc_joint {
    qpc_joint_kind kind;
    int32_t count, rows;   // points: two that are one; a hinge: two more on its axis, across which those are one; tendon: in its order.
                           // Rows of a tendon: its length, then one for each part, made where it is short
    qpc_row_point *point;  // (count)
    int32_t *body;         // (count) that the point is of, -1: of none that can move
    int32_t *named;        // (count) the same, but also static ones
    qpc_vec3 *place;       // (count) where a point of none is, m
    qpc_vec3 *along;       // (rows x count) gradients of the rows as they were made last
    double *aim;           // (rows) what is left of the gap at the end of the motion, m
    double length;         // tendon, m
    double *least;         // (count) of a tendon's parts, m: where its points stop at each other; 0: nothing does (TJ15)
    bool equal;
} qpc_joint;

// ---- joints_create.c ----
/// Room for the points and rows of a joint, and its points; the arrays belong to it.
qpc_status qpc_joint_reserve(qpc_joint *joint, int32_t count, int32_t rows, qpc_error *err);
qpc_status qpc_joint_make_points(const qpc_world *w, qpc_joint *joint, const qpc_point_def *points, int32_t count, const char *where,
                                 qpc_error *err);
void qpc_joint_fini(qpc_joint *joint);
qpc_status qpc_joints_make(qpc_world *w, const qpc_scene_def *def, qpc_error *err);
void qpc_joints_fini(qpc_world *w);
/// The first body of a joint that moves freely.
int32_t qpc_joints_body(const qpc_world *w, int32_t joint);
/// Bodies that joints hold together, driven ones too, are of one group.
void qpc_joints_group(const qpc_world *w, int32_t *group);
/// A joint joins these bodies.
bool qpc_joints_join(const qpc_world *w, int32_t body, int32_t other);

// ---- joint_moments.c ----
/// Moments `more` (count) about the bodies' centres, m, by which those of a unit impulse along the gradients `a` at the points differ from
/// what arms half way give (TJ16). Returns what they add to the rate of the row under the kicks of the present end, m/s.
double qpc_joint_find_moments(const qpc_world *w, const qpc_joint *joint, const qpc_vec3 *a, double h, qpc_vec3 *more);

// ---- joints.c ----
/// The place of a point, with nodes at x.
qpc_vec3 qpc_joint_place(const qpc_joint *joint, int32_t point, const double *x);
/// Key of a row.
uint64_t qpc_joints_key(int32_t joint, int32_t row);
/// Rows of all joints for the motion on trial, linearised between x and `end` (TJ1, TJ2, TJ4).
qpc_status qpc_joints_add_rows(qpc_world *w, const qpc_trial *t, const double *end, qpc_error *err);
/// The motion on trial leaves a joint further open than its rows mean to: they are to be made anew.
bool qpc_joints_open(const qpc_world *w, const qpc_trial *t);
/// The largest gap that the motion on trial leaves beyond what its rows aim at, m, where that is more than it may be, and whose it is; else 0.
double qpc_joints_apart(const qpc_world *w, const qpc_trial *t, int32_t *ret_joint);
/// The curvature of the joints' rows under the multipliers of the last QP into K, and into b what it makes of w->dv, the iterate (TJ14):
/// for bodies that it is not small for. *ret_any: there are some.
qpc_status qpc_joints_stiffen(qpc_world *w, double h, bool *ret_any, qpc_error *err);
/// Work of what drives through that row, of which the part `trust` counts, reactions of fixed nodes, and what the row pushes.
void qpc_joints_add_work(qpc_world *w, qpc_trial *t, int32_t row, double trust);
/// The first of those over all rows, J; *ret_drive: no less than the speed of what drives, m/s.
double qpc_joints_driven_work(const qpc_world *w, double h, double *ret_drive);
/// Rows among those of the last QP.
int32_t qpc_joints_rows(const qpc_world *w);
/// Forces and gaps after a motion of length h, for readers and the report.
void qpc_joints_publish(qpc_world *w, double h);

#endif
