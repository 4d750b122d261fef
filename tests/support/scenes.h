/// Scenes for tests and benchmarks in process: files of examples/scenes resolved by client/meshio, a
/// world made from them, and every state it travels through handed to the independent checker.
/// One thread at a time per object.
#ifndef QPC_TESTS_SUPPORT_SCENES_H
#define QPC_TESTS_SUPPORT_SCENES_H

#include "engine/engine.h"
#include "tests/support/check_scene.h"

/// Meshes by SHA-256; keeps one reference each.
typedef struct qpc_test_meshes qpc_test_meshes;
qpc_test_meshes *qpc_test_meshes_create(void);
void qpc_test_meshes_destroy(qpc_test_meshes *meshes);
/// A qpc_mesh_lookup (user: the store).
qpc_status qpc_test_mesh_lookup(void *user, const uint8_t sha256[32], qpc_mesh **ret,
                                qpc_error *err);
/// A qpc_check_mesh_lookup (user: the store).
bool qpc_test_check_lookup(void *user, const char sha256[65], qpc_check_mesh *ret);
/// Adds a mesh and gives its hash.
qpc_status qpc_test_meshes_add(qpc_test_meshes *meshes, const double *vertices,
                               int32_t vertex_count, const int32_t *elements, int32_t element_count,
                               int32_t per_element, char ret_sha256[65], qpc_error *err);

/// Change of a scene in its disk form, before it is resolved.
typedef struct qpc_scene_variant {
    double dt;            // s; 0: as it is
    double cable_radius;  // m; 0: as it is; generated pulley lines keep their gap of radius + 6 mm
    double cable_speed;   // m/s along y for every cable; NAN: as it is
    const char *solver;   // NULL: as it is
    int newton;           // -1: as it is
} qpc_scene_variant;
qpc_scene_variant qpc_scene_variant_none(void);

/// Reads and resolves the scene of that file name; meshes go to the store. The tree is the caller's.
qpc_status qpc_test_scene_read(const char *path, const qpc_scene_variant *variant,
                               qpc_test_meshes *meshes, qpc_value *ret, qpc_error *err);
/// The same from JSON text (single quotes may stand for double ones).
qpc_status qpc_test_scene_text(const char *text, qpc_test_meshes *meshes, qpc_value *ret,
                               qpc_error *err);

/// A world under the checker.
typedef struct qpc_watched {
    qpc_world *world;
    qpc_check_scene check;
    qpc_check_report found;
    int64_t substeps;       // states inside steps that were seen
} qpc_watched;
/// The scene stays the caller's. watched must not move while the world lives.
qpc_status qpc_watched_create(const qpc_value *scene, qpc_test_meshes *meshes, qpc_watched *watched,
                              qpc_scene_report *report, qpc_error *err);
void qpc_watched_fini(qpc_watched *watched);
/// One step, its sub-steps and its end checked.
qpc_status qpc_watched_step(qpc_watched *watched, qpc_step_report *report, qpc_error *err);

#endif
