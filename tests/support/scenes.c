// Scenes in process, see scenes.h.
#include "tests/support/scenes.h"

#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "client/meshio/scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- meshes ----

struct qpc_test_meshes {
    qpc_mesh *mesh[64];
    int32_t count;
};

qpc_test_meshes *qpc_test_meshes_create(void) { return calloc(1, sizeof(qpc_test_meshes)); }
void qpc_test_meshes_destroy(qpc_test_meshes *meshes) {
    for (int32_t i = 0; meshes != NULL && i < meshes->count; i++) qpc_mesh_unref(meshes->mesh[i]);
    free(meshes);
}
static qpc_mesh *find(const qpc_test_meshes *meshes, const uint8_t sha256[32]) {
    for (int32_t i = 0; i < meshes->count; i++)
        if (memcmp(qpc_mesh_sha256(meshes->mesh[i]), sha256, 32) == 0) return meshes->mesh[i];
    return NULL;
}
qpc_status qpc_test_mesh_lookup(void *user, const uint8_t sha256[32], qpc_mesh **ret,
                                qpc_error *err) {
    qpc_mesh *mesh = find(user, sha256);
    if (mesh == NULL) return qpc_fail(err, QPC_ERR_NOT_FOUND, "no such mesh");
    *ret = qpc_mesh_ref(mesh);
    return QPC_OK;
}
qpc_status qpc_test_meshes_add(qpc_test_meshes *meshes, const double *vertices,
                               int32_t vertex_count, const int32_t *elements, int32_t element_count,
                               int32_t per_element, char ret_sha256[65], qpc_error *err) {
    if (meshes->count == (int32_t)(sizeof meshes->mesh / sizeof meshes->mesh[0]))
        return qpc_fail(err, QPC_ERR_LIMIT, "too many meshes for a test");
    qpc_mesh *mesh;
    qpc_status status = qpc_mesh_create(vertices, vertex_count, elements, element_count, per_element, NULL,
                                        &mesh, NULL, err);
    if (status != QPC_OK) return status;
    qpc_hex_encode(qpc_mesh_sha256(mesh), 32, ret_sha256);
    if (find(meshes, qpc_mesh_sha256(mesh)) != NULL) qpc_mesh_unref(mesh);
    else meshes->mesh[meshes->count++] = mesh;
    return QPC_OK;
}
static qpc_status sink(void *user, const char *where, const char *name, qpc_mesh_data *mesh,
                       char ret_sha256[65], qpc_error *err) {
    (void)where, (void)name;
    return qpc_test_meshes_add(user, mesh->vertices, mesh->vertex_count, mesh->elements,
                               mesh->element_count, mesh->nodes_per_element, ret_sha256, err);
}
bool qpc_test_check_lookup(void *user, const char sha256[65], qpc_check_mesh *ret) {
    uint8_t bytes[32];
    if (!qpc_hex_decode(sha256, 64, bytes, sizeof bytes)) return false;
    const qpc_mesh *mesh = find(user, bytes);
    if (mesh == NULL) return false;
    *ret = (qpc_check_mesh){.vertices = qpc_mesh_vertices(mesh),
                            .triangles = qpc_mesh_elements(mesh),
                            .vertex_count = (int32_t)qpc_mesh_vertex_count(mesh),
                            .triangle_count = (int32_t)qpc_mesh_element_count(mesh),
                            .per = qpc_mesh_nodes_per_element(mesh)};
    return true;
}

// ---- scenes ----

qpc_scene_variant qpc_scene_variant_none(void) {
    return (qpc_scene_variant){.cable_speed = NAN, .newton = -1};
}
// The value behind a key of a map, to be changed in place.
static qpc_value *edit(qpc_value *map, const char *key) {
    return (qpc_value *)(uintptr_t)qpc_map_get(map, key);
}
static qpc_status vary(qpc_value *scene, const qpc_scene_variant *v) {
    qpc_status status = QPC_OK;
    if (v->dt > 0) status = qpc_map_set(scene, "dt", qpc_real(v->dt));
    if (status == QPC_OK && (v->solver != NULL || v->newton >= 0)) {
        if (qpc_map_get(scene, "solver") == NULL) status = qpc_map_set(scene, "solver", qpc_map());
        qpc_value *solver = edit(scene, "solver");
        if (status == QPC_OK && v->solver != NULL)
            status = qpc_map_set(solver, "name", qpc_text_borrow(v->solver));
        if (status == QPC_OK && v->newton >= 0)
            status = qpc_map_set(solver, "newton", qpc_int(v->newton));
    }
    qpc_value *bodies = edit(scene, "bodies");
    for (int32_t i = 0; status == QPC_OK && bodies != NULL && i < bodies->list.count; i++) {
        qpc_value *body = &bodies->list.items[i];
        if (!qpc_str_equal(qpc_map_get(body, "kind"), "cable")) continue;
        if (isfinite(v->cable_speed)) {
            qpc_value velocity = qpc_list();
            for (int k = 0; status == QPC_OK && k < 3; k++)
                status = qpc_list_push(&velocity, qpc_real(k == 1 ? v->cable_speed : 0));
            if (status == QPC_OK) status = qpc_map_set(body, "velocity", velocity);
        }
        if (status != QPC_OK || !(v->cable_radius > 0)) continue;
        qpc_value *generate = edit(edit(body, "nodes"), "generate");
        qpc_value *line = edit(generate, "radius");
        if (line != NULL) { // the line of the cable: wheel + radius + gap
            double now, was;
            status = qpc_read_real(line, "radius", 0, 1e9, &now, NULL);
            if (status == QPC_OK)
                status = qpc_read_real(qpc_map_get(body, "radius"), "radius", 0, 1e9, &was, NULL);
            if (status == QPC_OK) *line = qpc_real(now - was + v->cable_radius);
        }
        if (status == QPC_OK) status = qpc_map_set(body, "radius", qpc_real(v->cable_radius));
    }
    return status;
}
qpc_status qpc_test_scene_read(const char *path, const qpc_scene_variant *variant,
                               qpc_test_meshes *meshes, qpc_value *ret, qpc_error *err) {
    qpc_value scene;
    qpc_status status = qpc_json_read_file(path, &scene, err);
    if (status != QPC_OK) return status;
    char folder[512] = ".";
    const char *slash = strrchr(path, '/');
    if (slash != NULL && (size_t)(slash - path) < sizeof folder) {
        memcpy(folder, path, (size_t)(slash - path));
        folder[slash - path] = 0;
    }
    if (variant != NULL) status = vary(&scene, variant);
    if (status == QPC_OK) status = qpc_scene_resolve(&scene, folder, sink, meshes, err);
    if (status == QPC_OK) *ret = scene;
    else qpc_value_fini(&scene);
    return status;
}
qpc_status qpc_test_scene_text(const char *text, qpc_test_meshes *meshes, qpc_value *ret,
                               qpc_error *err) {
    char *copy = strdup(text);
    if (copy == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "scene");
    for (char *c = copy; *c; c++)
        if (*c == '\'') *c = '"';
    qpc_value scene;
    qpc_status status = qpc_json_parse(copy, strlen(copy), &scene, err);
    free(copy);
    if (status != QPC_OK) return status;
    status = qpc_scene_resolve(&scene, NULL, sink, meshes, err);
    if (status == QPC_OK) *ret = scene;
    else qpc_value_fini(&scene);
    return status;
}

// ---- watched worlds ----

// Sub-states name all nodes or those that move, which come first.
static void substep(void *user, int64_t step, double time, const double *x, int32_t node_count) {
    (void)step, (void)time;
    qpc_watched *w = user;
    double *frame = malloc(3 * (size_t)w->check.frame_nodes * sizeof *frame);
    if (frame == NULL) abort();
    memcpy(frame, w->check.x0, 3 * (size_t)w->check.frame_nodes * sizeof *frame);
    memcpy(frame, x, 3 * (size_t)node_count * sizeof *frame);
    (void)qpc_check_scene_next(&w->check, frame, &w->found);
    w->substeps++;
    free(frame);
}
// The world has one user pointer, the watched object; meshes are asked for at creation only.
static _Thread_local qpc_test_meshes *creating_with;
static qpc_status lookup_while_creating(void *user, const uint8_t sha256[32], qpc_mesh **ret,
                                        qpc_error *err) {
    (void)user;
    return qpc_test_mesh_lookup(creating_with, sha256, ret, err);
}
qpc_status qpc_watched_create(const qpc_value *scene, qpc_test_meshes *meshes, qpc_watched *watched,
                              qpc_scene_report *report, qpc_error *err) {
    qpc_scene_report unused;
    *watched = (qpc_watched){0};
    qpc_check_report_init(&watched->found);
    creating_with = meshes;
    const qpc_world_env env = {
        .user = watched, .mesh_lookup = lookup_while_creating, .substep = substep};
    qpc_status status =
        qpc_world_create(scene, &env, &watched->world, report ? report : &unused, err);
    if (status != QPC_OK) return status;
    qpc_world *w = watched->world;
    int32_t count = qpc_world_body_count(w), *first = calloc((size_t)count + 1, sizeof *first);
    if (first == NULL) abort();
    for (int32_t i = 0; i < count; i++) first[i] = qpc_world_body(w, i).first_node;
    status = qpc_check_scene_create(scene, first, qpc_world_node_count(w), qpc_world_positions(w),
                                    qpc_test_check_lookup, meshes, &watched->check, err);
    free(first);
    if (status == QPC_OK)
        (void)qpc_check_scene_next(&watched->check, qpc_world_positions(w), &watched->found);
    else qpc_watched_fini(watched);
    return status;
}
void qpc_watched_fini(qpc_watched *watched) {
    qpc_world_destroy(watched->world);
    qpc_check_scene_fini(&watched->check);
    watched->world = NULL;
}
qpc_status qpc_watched_step(qpc_watched *watched, qpc_step_report *report, qpc_error *err) {
    qpc_status status = qpc_world_step(watched->world, report, err);
    if (status != QPC_OK) return status;
    (void)qpc_check_scene_next(&watched->check, qpc_world_positions(watched->world),
                               &watched->found);
    return QPC_OK;
}
