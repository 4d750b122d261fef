/// The engine inside a program of one's own: no server, no files but the scene.
///
///     build/examples/embed examples/scenes/pulley-1.json 200
///
/// Reads a scene file with the client's reader, gives the engine the meshes it asks for, steps, and
/// prints where the cable is and how well each step was solved.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "client/meshio/scene.h"
#include "engine/engine.h"

enum { MESH_MAX = 16 };

/// The meshes of the scene, found by hash.
typedef struct meshes {
    qpc_mesh *mesh[MESH_MAX];
    int count;
} meshes;

/// Called by the scene reader for every mesh it made or read.
static qpc_status take_mesh(void *user, const char *where, const char *name, qpc_mesh_data *data,
                            char ret_sha256[65], qpc_error *err) {
    meshes *m = user;
    (void)name;
    if (m->count == MESH_MAX)
        return qpc_fail_at(err, QPC_ERR_LIMIT, where, "more than %d meshes", MESH_MAX);
    qpc_status status =
        qpc_mesh_create(data->vertices, data->vertex_count, data->elements, data->element_count,
                        data->nodes_per_element, NULL, &m->mesh[m->count], NULL, err);
    if (status != QPC_OK) return status;
    qpc_hex_encode(qpc_mesh_sha256(m->mesh[m->count++]), 32, ret_sha256);
    return QPC_OK;
}

/// Called by the engine for every mesh that the scene names.
static qpc_status find_mesh(void *user, const uint8_t sha256[32], qpc_mesh **ret, qpc_error *err) {
    meshes *m = user;
    for (int i = 0; i < m->count; i++) {
        if (memcmp(qpc_mesh_sha256(m->mesh[i]), sha256, 32) != 0) continue;
        *ret = qpc_mesh_ref(m->mesh[i]);
        return QPC_OK;
    }
    return qpc_fail(err, QPC_ERR_NOT_FOUND, "no such mesh");
}

static int run(const char *path, int steps) {
    qpc_error err = {0};
    qpc_value scene;
    meshes m = {0};
    qpc_world *world = NULL;
    qpc_scene_report scene_report;
    qpc_step_report step = {0};
    qpc_status status = qpc_scene_read(path, take_mesh, &m, &scene, &err);
    if (status == QPC_OK) {
        qpc_world_env env = {.user = &m, .mesh_lookup = find_mesh};
        status = qpc_world_create(&scene, &env, &world, &scene_report, &err);
        qpc_value_fini(&scene);
    }
    for (int i = 0; status == QPC_OK && i < steps; i++) {
        status = qpc_world_step(world, &step, &err);
        if (status != QPC_OK || ((i + 1) % 100 != 0 && i + 1 != steps)) continue;
        const double *x = qpc_world_positions(world);
        int32_t middle = qpc_world_body(world, qpc_world_body_count(world) - 1).first_node;
        printf(
            "t %.3f s  first node of the last body (%.4f, %.4f, %.4f) m  contacts %lld  gap %.3f  "
            "residual %.1e  hash %016llx\n",
            qpc_world_time(world), x[3 * middle], x[3 * middle + 1], x[3 * middle + 2],
            (long long)step.contacts, step.min_gap, step.natural_ratio,
            (unsigned long long)qpc_world_hash(world));
    }
    qpc_world_destroy(world);
    for (int i = 0; i < m.count; i++) qpc_mesh_unref(m.mesh[i]);
    if (status == QPC_OK) return 0;
    fprintf(stderr, "embed: %s\n", err.message);
    return 1;
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: embed SCENE.json [STEPS]\n");
        return 2;
    }
    return run(argv[1], argc > 2 ? atoi(argv[2]) : 1000);
}
