/// Scenes as JSON text with one mesh at hand: two triangles in the plane y = 0, 2 m wide.
#ifndef QPC_TESTS_UNIT_WORLD_SUPPORT_H
#define QPC_TESTS_UNIT_WORLD_SUPPORT_H

#include "tests/support/check.h"

#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "engine/engine.h"

static inline qpc_mesh *floor_mesh(void) {
    static const double vertices[] = {-1, 0, -1, 1, 0, -1, 1, 0, 1, -1, 0, 1};
    static const int32_t triangles[] = {0, 2, 1, 0, 3, 2};
    qpc_mesh *mesh;
    qpc_error err = {0};
    assert_ok(qpc_mesh_create(vertices, 4, triangles, 2, 3, NULL, &mesh, NULL, &err), &err);
    return mesh;
}

/// user: the mesh of floor_mesh().
static inline qpc_status lookup(void *user, const uint8_t sha256[32], qpc_mesh **ret, qpc_error *err) {
    qpc_mesh *mesh = user;
    if (memcmp(qpc_mesh_sha256(mesh), sha256, 32) != 0) return qpc_fail(err, QPC_ERR_NOT_FOUND, "no such mesh");
    *ret = qpc_mesh_ref(mesh);
    return QPC_OK;
}

/// Every @ in text becomes the floor's hash, ' becomes ".
static inline qpc_value scene_of(const char *text, const qpc_mesh *mesh) {
    char out[8192], hex[65];
    size_t used = 0;
    qpc_value v;
    qpc_error err = {0};
    qpc_hex_encode(qpc_mesh_sha256(mesh), 32, hex);
    for (; *text != '\0' && used + 80 < sizeof out; text++) {
        if (*text == '@') {
            memcpy(out + used, hex, 64);
            used += 64;
        } else
            out[used++] = *text == '\'' ? '"' : *text;
    }
    assert_ok(qpc_json_parse(out, used, &v, &err), &err);
    return v;
}

/// A world from text; the mesh reference is the world's afterwards.
static inline qpc_status world_of(const char *text, qpc_world **ret, qpc_scene_report *report, qpc_error *err) {
    qpc_mesh *mesh = floor_mesh();
    qpc_value scene = scene_of(text, mesh);
    qpc_world_env env = {.user = mesh, .mesh_lookup = lookup};
    qpc_status st = qpc_world_create(&scene, &env, ret, report, err);
    qpc_value_fini(&scene);
    qpc_mesh_unref(mesh);
    return st;
}

#define CABLE "{'kind':'cable','name':'c','nodes':[[0,1,0],[0.1,1,0],[0.2,1,0]],'mass':0.1,'stiffness':1000,'radius':0.01}"
#define FLOOR "{'kind':'static','name':'floor','mesh':{'sha256':'@'}}"

/// The world of a scene that is right.
static inline qpc_world *world_made(const char *text) {
    qpc_world *w;
    qpc_error err = {0};
    assert_ok(world_of(text, &w, NULL, &err), &err);
    return w;
}

/// n steps that succeed; *r (may be NULL): the report of the last.
static inline void world_steps(qpc_world *w, int n, qpc_step_report *r) {
    qpc_error err = {0};
    for (int i = 0; i < n; i++) assert_ok(qpc_world_step(w, r, &err), &err);
}

static inline qpc_status world_control(qpc_world *w, const char *text, qpc_error *err) {
    qpc_mesh *mesh = floor_mesh();
    qpc_value v = scene_of(text, mesh);
    qpc_status st = qpc_world_control(w, &v, err);
    qpc_value_fini(&v);
    qpc_mesh_unref(mesh);
    return st;
}

#endif
