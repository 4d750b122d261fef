/// Scenes: any JSON either makes a world or is refused with a message; a world steps, and its numbers
/// stay finite. Nothing leaks. The first 64 digits of a mesh hash that is not known stand for the floor.
#include "base/json.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>

static qpc_status lookup(void *user, const uint8_t sha256[32], qpc_mesh **ret, qpc_error *err) {
    (void)user;
    (void)sha256;
    static const double vertices[] = {-1, 0, -1, 1, 0, -1, 1, 0, 1, -1, 0, 1};
    static const int32_t triangles[] = {0, 2, 1, 0, 3, 2};
    return qpc_mesh_create(vertices, 4, triangles, 2, 3, NULL, ret, NULL, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int64_t live = qpc_mem_live_blocks();
    qpc_value scene = qpc_nil();
    qpc_error err = {0};
    if (size < 16384 && qpc_json_parse((const char *)data, size, &scene, &err) == QPC_OK) {
        qpc_world_env env = {.mesh_lookup = lookup,
                             .limits = {.max_bodies = 8, .max_nodes = 200, .max_candidates = 100000}};
        qpc_world *w = NULL;
        qpc_scene_report report;
        qpc_status st = qpc_world_create(&scene, &env, &w, &report, &err);
        FUZZ_CHECK((st == QPC_OK) == (w != NULL));
        FUZZ_CHECK(st == QPC_OK || err.message[0] != '\0');
        FUZZ_CHECK(st != QPC_ERR_INTERNAL && st != QPC_ERR_MEMORY);
        for (int i = 0; i < 3 && st == QPC_OK; i++) {
            qpc_step_report step;
            st = qpc_world_step(w, &step, &err);
            FUZZ_CHECK(st != QPC_ERR_INTERNAL && st != QPC_ERR_MEMORY);
            for (int32_t k = 0; k < 3 * qpc_world_node_count(w); k++)
                FUZZ_CHECK(isfinite(qpc_world_positions(w)[k]) && isfinite(qpc_world_velocities(w)[k]));
        }
        qpc_world_destroy(w);
    }
    qpc_value_fini(&scene);
    FUZZ_CHECK(qpc_mem_live_blocks() == live);
    return 0;
}
