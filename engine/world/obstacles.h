/// Obstacles of a world: static and kinematic bodies that are an implicit surface instead of a mesh (docs/theory-obstacles.md).
/// Their nodes are those of a frame, so that they move, are held back and cut like any driven body.
#ifndef QPC_ENGINE_WORLD_OBSTACLES_H
#define QPC_ENGINE_WORLD_OBSTACLES_H

#include "engine/world/world.h"

/// `shape` of an obstacle or a rigid body. Names and defaults are those of the generators of meshes.
qpc_status qpc_shape_def_read(const qpc_value *map, const char *where, qpc_implicit *ret, qpc_error *err);
/// An `obstacle` of a scene.
qpc_status qpc_obstacle_def_read(const qpc_value *map, const char *where, qpc_body_def *body, qpc_error *err);
/// What the bodies of a scene mean for each other: rigid bodies are refused beside obstacles that answer by velocities,
/// and turns of more than a quarter in a step.
qpc_status qpc_obstacles_check(const qpc_scene_def *def, qpc_error *err);
/// Nodes of the frame in the frame itself, (QPC_IMPLICIT_NODES x 3) m.
void qpc_obstacle_frame(const qpc_implicit *shape, double *local);
/// An obstacle may turn that fast: by no more than a quarter of a turn in a step.
qpc_status qpc_obstacle_check_turn(qpc_vec3 angular_velocity, double dt, const char *where, qpc_error *err);
/// How much faster than the points that stand for it in a contact the surface of side j moves along itself, m/s; zero if side j is
/// no obstacle.
qpc_vec3 qpc_obstacle_spin(const qpc_world *w, const qpc_contact *c);

// ---- respond.c: obstacles that answer at the level of velocities (TO5) ----
struct qpc_trial;
/// Side j is such an obstacle: the contact has no row.
bool qpc_obstacle_responds(const qpc_world *w, const qpc_contact *c);
/// QPC_ERR_UNSUPPORTED if there are some and the steps are those of a QP with an energy test.
qpc_status qpc_obstacles_check_solver(const qpc_world *w, const qpc_solver_def *solver, const char *where, qpc_error *err);
/// Changes x1 and dv of the motion on trial; w->responses says by what. w->probe is emptied.
qpc_status qpc_obstacles_respond(qpc_world *w, struct qpc_trial *t, qpc_error *err);
/// Impulses onto b, for the certificate; the work of obstacles that move; contacts of the step, sorted into list.
void qpc_obstacles_add_load(const qpc_world *w, double *b);
void qpc_obstacles_add_work(const qpc_world *w, struct qpc_trial *t);
int32_t qpc_obstacles_publish(const qpc_world *w, double h, qpc_contact_info *list, int32_t count);

#endif
