/// Reading a scene and sending its meshes: the meshes are made first, so that a mistake in the file
/// is found before a server is looked for.
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "client/cli/cli.h"
#include "client/meshio/scene.h"

struct cli_mesh {
    qpc_mesh_data data;
    char name[64];
    char sha256[65];
};

static qpc_status collect(void *user, const char *where, const char *name, qpc_mesh_data *mesh,
                          char ret_sha256[65], qpc_error *err) {
    cli_meshes *meshes = user;
    struct cli_mesh item = {0};
    (void)where;
    snprintf(item.name, sizeof item.name, "%s", name);
    qpc_status status = qpc_mesh_data_sha256(mesh, item.sha256, err);
    if (status != QPC_OK) return status;
    memcpy(ret_sha256, item.sha256, sizeof item.sha256);
    for (int32_t i = 0; i < meshes->count; i++)
        if (strcmp(meshes->items[i].sha256, item.sha256) == 0) return QPC_OK;
    QPC_ARRAY(struct cli_mesh) list = {meshes->items, meshes->count, meshes->capacity};
    item.data = *mesh;
    bool ok = qpc_array_push(&list, item);
    meshes->items = list.data;
    meshes->count = list.count;
    meshes->capacity = list.capacity;
    if (!ok) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory: meshes of a scene");
    *mesh = (qpc_mesh_data){0};
    return QPC_OK;
}

void cli_meshes_fini(cli_meshes *meshes) {
    for (int32_t i = 0; i < meshes->count; i++) qpc_mesh_data_fini(&meshes->items[i].data);
    qpc_free(meshes->items);
    *meshes = (cli_meshes){0};
}

cli_exit cli_read_scene(const cli *c, const char *path, qpc_value *ret_scene,
                        cli_meshes *ret_meshes) {
    qpc_error err = {0};
    cli_meshes meshes = {0};
    qpc_status status = qpc_scene_read(path, collect, &meshes, ret_scene, &err);
    if (status != QPC_OK) {
        cli_meshes_fini(&meshes);
        return cli_fail(c, CLI_BAD_FILE, &err, NULL);
    }
    *ret_meshes = meshes;
    return CLI_OK;
}

static void show_sent(void *user, uint64_t sent, uint64_t total) {
    char text[64];
    snprintf(text, sizeof text, "%.1f of %.1f MB", (double)sent / 1e6, (double)total / 1e6);
    cli_progress_show(user, (double)sent / (double)total, text);
}

cli_exit cli_upload_meshes(cli *c, const char *path, const cli_meshes *meshes) {
    for (int32_t i = 0; i < meshes->count; i++) {
        const struct cli_mesh *mesh = &meshes->items[i];
        cli_progress progress;
        cli_progress_start(&progress, c, "upload");
        progress.on = progress.on && mesh->data.element_count > 100000;
        qpc_mesh_source source = {.name = mesh->name,
                                  .vertices = mesh->data.vertices,
                                  .elements = mesh->data.elements,
                                  .vertex_count = mesh->data.vertex_count,
                                  .element_count = mesh->data.element_count,
                                  .nodes_per_element = mesh->data.nodes_per_element,
                                  .progress = show_sent,
                                  .user = &progress};
        qpc_mesh_receipt receipt;
        qpc_error err = {0};
        qpc_status status = qpc_client_mesh_upload(c->client, &source, &receipt, &err);
        cli_progress_end(&progress);
        if (status != QPC_OK) {
            qpc_error why = err;
            qpc_fail(&err, status, "mesh %s: %s", mesh->name, why.message);
            return cli_fail_input(c, &err, path);
        }
        qpc_message_fini(&receipt.message);
    }
    return CLI_OK;
}
