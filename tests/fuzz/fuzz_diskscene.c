/// Any JSON is a scene in its disk form or an error that says why; resolving leaks nothing, keeps to
/// what it was given, and what it resolved has nothing of the disk form left: resolving it again
/// changes nothing.
#include "base/json.h"
#include "base/mem.h"
#include "client/meshio/scene.h"
#include "tests/fuzz/fuzz.h"

enum { LARGE = 20000 };

/// Inputs that would only take long or look at this machine's files.
static bool is_dull(const qpc_value *v) {
    if (v->kind == QPC_INT) return v->is_unsigned || v->i > LARGE;
    if (v->kind == QPC_LIST) {
        for (int32_t i = 0; i < v->list.count; i++)
            if (is_dull(&v->list.items[i])) return true;
    }
    if (v->kind == QPC_MAP) {
        for (int32_t i = 0; i < v->map.count; i++)
            if (qpc_str_equal(&v->map.pairs[i].key, "file") || is_dull(&v->map.pairs[i].value))
                return true;
    }
    return false;
}

static qpc_status take(void *user, const char *where, const char *name, qpc_mesh_data *mesh,
                       char ret_sha256[65], qpc_error *err) {
    (void)user;
    FUZZ_CHECK(where[0] != '\0' && name[0] != '\0');
    FUZZ_CHECK(mesh->nodes_per_element == 3 && mesh->element_count > 0);
    for (int64_t i = 0; i < 3 * (int64_t)mesh->element_count; i++)
        FUZZ_CHECK(mesh->elements[i] >= 0 && mesh->elements[i] < mesh->vertex_count);
    return qpc_mesh_data_sha256(mesh, ret_sha256, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qpc_error err = {0};
    qpc_value v, again;
    if (qpc_json_parse((const char *)data, size, &v, &err) == QPC_OK) {
        if (!is_dull(&v)) {
            qpc_status status = qpc_scene_resolve(&v, "/nonexistent", take, NULL, &err);
            FUZZ_CHECK(status == QPC_OK || err.message[0] != '\0');
            if (status == QPC_OK) {
                FUZZ_CHECK(qpc_value_copy(&v, &again) == QPC_OK);
                FUZZ_CHECK(qpc_scene_resolve(&v, NULL, take, NULL, &err) == QPC_OK);
                FUZZ_CHECK(qpc_value_equal(&v, &again));
                qpc_value_fini(&again);
            }
        }
        qpc_value_fini(&v);
    }
    FUZZ_CHECK(qpc_mem_live_blocks() == 0);
    return 0;
}
