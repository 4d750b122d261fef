/// Reading scenes, inside: what scene.c (the scene, constraints, its hash), scene_bodies.c and scene_rigid.c (bodies) share.
#ifndef QPC_ENGINE_WORLD_SCENE_READ_H
#define QPC_ENGINE_WORLD_SCENE_READ_H

#include "engine/world/scene.h"

#define QPC_SCENE_MAX_NUMBER 1e30  // so that squares stay finite
#define QPC_SCENE_LEAST_MASS 1e-30 // kg; so that products and inverses of masses keep their digits

/// One of a list of words (ending in NULL) by its index; an error names the nearest.
qpc_status qpc_read_word(const qpc_value *v, const char *where, const char *const *words, int32_t *ret,
                         qpc_error *err);
/// Greater than zero and at most 1e30.
qpc_status qpc_read_positive(const qpc_value *v, const char *where, double *ret, qpc_error *err);
/// One entry of `bodies`. nodes_so_far: degrees of freedom of the bodies before it, of env's limit.
qpc_status qpc_body_def_read(const qpc_value *map, const char *where, const qpc_world_env *env, int64_t nodes_so_far,
                             qpc_body_def *body, qpc_error *err);
/// `mesh` of a body: by content.
qpc_status qpc_mesh_ref_read(const qpc_value *map, const char *where, const char *kind, const qpc_world_env *env, qpc_body_def *body,
                             qpc_error *err);
qpc_status qpc_rigid_def_read(const qpc_value *map, const char *where, const qpc_world_env *env, qpc_body_def *body, qpc_error *err);
/// A constraint of that kind at place `index` of the list.
qpc_status qpc_joint_def_read(const qpc_value *map, const char *where, qpc_joint_kind kind, int32_t index, qpc_scene_def *def,
                              qpc_error *err);
/// The list `loads`.
qpc_status qpc_load_defs_read(const qpc_value *list, qpc_scene_def *def, qpc_error *err);
/// Position, scale and rotation of a body, defaults where not given.
qpc_status qpc_read_place(const qpc_value *map, const char *where, qpc_body_def *body, qpc_error *err);
void qpc_body_def_fini(qpc_body_def *body);

#endif
