/// Scene files: disk form to wire form.
#include "tests/support/check.h"

#include "base/json.h"
#include "client/meshio/scene.h"
#include "tests/support/faults.h"

#include <stdio.h>
#include <stdlib.h>

#define PI 3.14159265358979323846

typedef struct seen {
    int meshes;
    char name[64], where[120];
    int32_t elements;
} seen;

static qpc_status take(void *user, const char *where, const char *name, qpc_mesh_data *mesh,
                       char ret_sha256[65], qpc_error *err) {
    seen *s = user;
    s->meshes++;
    snprintf(s->name, sizeof s->name, "%s", name);
    snprintf(s->where, sizeof s->where, "%s", where);
    s->elements = mesh->element_count;
    return qpc_mesh_data_sha256(mesh, ret_sha256, err);
}

static qpc_value parse(const char *json) {
    qpc_error err = {0};
    qpc_value v;
    assert_ok(qpc_json_parse(json, strlen(json), &v, &err), &err);
    return v;
}

static qpc_value resolve(const char *json, seen *s) {
    qpc_error err = {0};
    qpc_value scene = parse(json);
    *s = (seen){0};
    assert_ok(qpc_scene_resolve(&scene, NULL, take, s, &err), &err);
    return scene;
}

static void refuse(const char *json, qpc_status wanted, const char *text) {
    qpc_error err = {0};
    seen s = {0};
    qpc_value scene = parse(json);
    assert_fails(qpc_scene_resolve(&scene, NULL, take, &s, &err), wanted, &err, text);
    qpc_value_fini(&scene);
}

static const qpc_value *body(const qpc_value *scene, int i) {
    return &qpc_map_get(scene, "bodies")->list.items[i];
}

static double point(const qpc_value *nodes, int64_t i, int k) {
    double v;
    memcpy(&v, (const char *)nodes->tensor.data + 8 * (3 * i + k), 8);
    return v;
}

static void generated_meshes_become_hashes(void **state) {
    (void)state;
    seen s;
    qpc_value scene = resolve("{\"bodies\": [{\"kind\": \"static\", \"mesh\": {\"generate\": "
                              "{\"kind\": \"box\"}}}]}",
                              &s);
    assert_int_equal(s.meshes, 1);
    assert_int_equal(s.elements, 12);
    assert_string_equal(s.name, "box");
    assert_string_equal(s.where, "bodies[0].mesh");
    const qpc_value *mesh = qpc_map_get(body(&scene, 0), "mesh");
    assert_int_equal(mesh->map.count, 1);
    assert_int_equal(qpc_map_get(mesh, "sha256")->str.size, 64);
    qpc_value_fini(&scene);
}

static void cables_are_laid_over_a_pulley(void **state) {
    (void)state;
    seen s;
    qpc_value scene = resolve(
        "{\"bodies\": [{\"kind\": \"cable\", \"mass\": {\"all\": 0.7, \"first\": 10000, \"last\": "
        "9}, "
        "\"nodes\": {\"generate\": {\"kind\": \"pulley\", \"count\": 100, \"spacing\": 0.1, "
        "\"radius\": 1.036}}}]}",
        &s);
    const qpc_value *nodes = qpc_map_get(body(&scene, 0), "nodes");
    assert_int_equal(nodes->kind, QPC_TENSOR);
    assert_int_equal(nodes->tensor.shape[0], 100);
    double length = 9.9, turn = PI * 1.036, left = (length - turn) / 2 + 1;
    assert_near(point(nodes, 0, 0), -1.036, 0);
    assert_near(point(nodes, 0, 1), -left, 1e-14);
    assert_near(point(nodes, 99, 0), 1.036, 0);
    assert_near(point(nodes, 99, 1), -(length - turn - left), 1e-13);
    for (int i = 0; i < 99; i++) {
        double d2 = 0;
        for (int k = 0; k < 3; k++) d2 += pow(point(nodes, i + 1, k) - point(nodes, i, k), 2);
        // an arc of 0.1 m on a radius of 1.036 m has a chord shorter by s^3 / 24 R^2 = 4e-5
        assert_near(sqrt(d2), 0.1, 5e-5);
        assert_true(hypot(point(nodes, i, 0), point(nodes, i, 1)) > 1.036 - 1e-12);
    }
    const qpc_value *mass = qpc_map_get(body(&scene, 0), "mass");
    assert_int_equal(mass->list.count, 100);
    assert_near(mass->list.items[0].real, 10000, 0);
    assert_near(mass->list.items[1].real, 0.7, 0);
    assert_near(mass->list.items[99].real, 9, 0);
    qpc_value_fini(&scene);
}

static void cables_are_laid_along_a_line(void **state) {
    (void)state;
    seen s;
    qpc_value scene = resolve("{\"bodies\": [{\"kind\": \"cable\", \"nodes\": {\"generate\": "
                              "{\"kind\": \"line\", \"from\": [-1, 2, 0], \"to\": [1, 2, 4], "
                              "\"count\": 5}}}]}",
                              &s);
    const qpc_value *nodes = qpc_map_get(body(&scene, 0), "nodes");
    for (int i = 0; i < 5; i++) {
        assert_near(point(nodes, i, 0), -1 + 0.5 * i, 0);
        assert_near(point(nodes, i, 1), 2, 0);
        assert_near(point(nodes, i, 2), i, 0);
    }
    qpc_value_fini(&scene);
    scene = resolve("{\"bodies\": [{\"nodes\": {\"generate\": {\"kind\": \"line\", "
                    "\"from\": [1, 2, 3], \"to\": [1, 2, 3], \"count\": 1}}}]}",
                    &s);
    assert_int_equal(qpc_map_get(body(&scene, 0), "nodes")->tensor.shape[0], 1);
    qpc_value_fini(&scene);
}

static void cables_are_wound_around_a_drum(void **state) {
    (void)state;
    seen s;
    qpc_value scene = resolve(
        "{\"bodies\": [{\"kind\": \"cable\", \"nodes\": {\"generate\": {\"kind\": \"helix\", "
        "\"count\": 1000, \"spacing\": 0.01, \"radius\": 0.256, \"turns\": 3, \"pitch\": -0.013, "
        "\"extra\": 0.5}}}]}",
        &s);
    const qpc_value *nodes = qpc_map_get(body(&scene, 0), "nodes");
    assert_int_equal(nodes->tensor.shape[0], 1000);
    double wound = 7 * PI * hypot(0.256, 0.013 / (2 * PI)), up = (9.99 - wound + 0.5) / 2;
    assert_near(point(nodes, 0, 0), -0.256, 0);
    assert_near(point(nodes, 0, 1), -up, 1e-13);
    assert_near(point(nodes, 0, 2), 3.5 * 0.0065, 1e-15);
    assert_near(point(nodes, 999, 0), 0.256, 0);
    assert_near(point(nodes, 999, 1), -(9.99 - wound - up), 1e-13);
    assert_near(point(nodes, 999, 2), -3.5 * 0.0065, 1e-15);
    double turned = 0;
    for (int i = 0; i < 999; i++) {
        double d2 = 0, a[3], b[3];
        for (int k = 0; k < 3; k++) {
            a[k] = point(nodes, i, k);
            b[k] = point(nodes, i + 1, k);
            d2 += (b[k] - a[k]) * (b[k] - a[k]);
        }
        // where it leaves the leg the tangent turns by the slope of the helix, 0.008: 1e-4 at most
        assert_near(sqrt(d2), 0.01, 1e-4 * 0.01);
        turned += atan2(a[0] * b[1] - a[1] * b[0], a[0] * b[0] + a[1] * b[1]);
        assert_true(hypot(a[0], a[1]) > 0.256 - 1e-12 && b[2] <= a[2]);
    }
    // clockwise seen from +z: three full turns, and from below the left side to below the right one
    double legs = atan2(up, 0.256) + atan2(9.99 - wound - up, 0.256);
    assert_near(turned, -(7 * PI + legs), 1e-9);
    qpc_value_fini(&scene);
}

static void what_is_of_the_wire_form_passes_untouched(void **state) {
    (void)state;
    static const char text[] =
        "{\"dt\":0.01,\"bodies\":[{\"kind\":\"cable\",\"nodes\":[[0,0,0],[1,0,0]],\"mass\":[1,2],"
        "\"unknown\":{\"a\":1}},{\"kind\":\"static\",\"mesh\":{\"sha256\":\"00\"}},7],\"x\":null}";
    seen s;
    qpc_error err = {0};
    qpc_value scene = resolve(text, &s);
    char *after;
    assert_ok(qpc_json_write(&scene, 0, false, &after, &err), &err);
    assert_string_equal(after, text);
    qpc_free(after);
    qpc_value_fini(&scene);
    scene = resolve("{}", &s);
    qpc_value_fini(&scene);
    scene = resolve("{\"bodies\": 3}", &s);
    qpc_value_fini(&scene);
}

static void mistakes_are_named_with_their_place(void **state) {
    (void)state;
    refuse("[]", QPC_ERR_INVALID, "map");
    refuse("{\"bodies\": [{}, {\"mesh\": {\"generat\": {}}}]}", QPC_ERR_INVALID, "bodies[1].mesh");
    refuse("{\"bodies\": [{\"mesh\": {\"generat\": {}}}]}", QPC_ERR_INVALID, "generate");
    refuse("{\"bodies\": [{\"mesh\": {}}]}", QPC_ERR_INVALID, "exactly one");
    refuse("{\"bodies\": [{\"mesh\": {\"file\": \"a.obj\", \"sha256\": \"00\"}}]}", QPC_ERR_INVALID,
           "exactly one");
    refuse("{\"bodies\": [{\"mesh\": {\"file\": 3}}]}", QPC_ERR_INVALID, "bodies[0].mesh.file");
    refuse("{\"bodies\": [{\"mesh\": {\"file\": \"/no/such.obj\"}}]}", QPC_ERR_NOT_FOUND,
           "/no/such.obj");
    refuse("{\"bodies\": [{\"mesh\": {\"generate\": {\"kind\": \"box\", \"witdh\": 1}}}]}",
           QPC_ERR_INVALID, "width");
    refuse("{\"bodies\": [{\"nodes\": {\"generate\": {\"kind\": \"lin\"}}}]}", QPC_ERR_INVALID,
           "did you mean \"line\"");
    refuse("{\"bodies\": [{\"nodes\": {\"generate\": {\"kind\": \"line\", \"count\": 3, "
           "\"form\": [0,0,0]}}}]}",
           QPC_ERR_INVALID, "from");
    refuse("{\"bodies\": [{\"nodes\": {\"generate\": {\"kind\": \"line\", \"count\": 0, "
           "\"from\": [0,0,0], \"to\": [1,0,0]}}}]}",
           QPC_ERR_INVALID, "generate.count");
    refuse("{\"bodies\": [{\"nodes\": {\"generate\": {\"kind\": \"line\", \"count\": 3, "
           "\"from\": [0,0], \"to\": [1,0,0]}}}]}",
           QPC_ERR_INVALID, "generate.from");
    refuse("{\"bodies\": [{\"nodes\": {\"generate\": {\"kind\": \"pulley\", \"count\": 10, "
           "\"spacing\": 0.1, \"radius\": 1}}}]}",
           QPC_ERR_INVALID, "legs");
    refuse("{\"bodies\": [{\"nodes\": {\"generate\": {\"kind\": \"helix\", \"count\": 10, "
           "\"spacing\": 0.1, \"radius\": 1, \"pitch\": 0.1, \"turns\": 3}}}]}",
           QPC_ERR_INVALID, "legs");
    refuse("{\"bodies\": [{\"nodes\": {\"generate\": {\"kind\": \"helix\", \"count\": 10, "
           "\"spacing\": 0.1, \"radius\": 1, \"pitch\": 0.1, \"turns\": 0.5}}}]}",
           QPC_ERR_INVALID, "generate.turns");
    refuse("{\"bodies\": [{\"nodes\": {\"generate\": {\"kind\": \"helix\", \"count\": 10, "
           "\"spacing\": 0.1, \"radius\": 1, \"turns\": 1}}}]}",
           QPC_ERR_INVALID, "generate.pitch");
    refuse("{\"bodies\": [{\"nodes\": {\"generate\": {\"kind\": \"helix\", \"turn\": 10}}}]}",
           QPC_ERR_INVALID, "turns");
    refuse("{\"bodies\": [{\"nodes\": {\"generate\": {\"kind\": \"helx\"}}}]}", QPC_ERR_INVALID,
           "did you mean \"helix\"");
    refuse("{\"bodies\": [{\"nodes\": [[0,0,0]], \"mass\": {\"all\": 1, \"frist\": 3}}]}",
           QPC_ERR_INVALID, "first");
    refuse("{\"bodies\": [{\"mass\": {\"all\": 1}}]}", QPC_ERR_INVALID, "bodies[0].mass");
    refuse("{\"bodies\": [{\"nodes\": [[0,0,0]], \"mass\": {\"first\": 1}}]}", QPC_ERR_INVALID,
           "mass.all");
}

static void files_are_read_relative_to_the_scene(void **state) {
    (void)state;
    char folder[] = "/tmp/qpc-scene-XXXXXX", path[100], command[100];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/m.obj", folder);
    FILE *file = fopen(path, "w");
    fputs("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", file);
    fclose(file);
    snprintf(path, sizeof path, "%s/s.json", folder);
    file = fopen(path, "w");
    fputs("{\"bodies\": [{\"mesh\": {\"file\": \"m.obj\"}}]}", file);
    fclose(file);
    qpc_error err = {0};
    seen s = {0};
    qpc_value scene;
    assert_ok(qpc_scene_read(path, take, &s, &scene, &err), &err);
    assert_string_equal(s.name, "m.obj");
    assert_int_equal(s.elements, 1);
    qpc_value_fini(&scene);
    QPC_FAULTS(f) {
        qpc_status status = qpc_scene_read(path, take, &s, &scene, &err);
        if (qpc_faults_ended(&f, status)) qpc_value_fini(&scene);
    }
    file = fopen(path, "w");
    fputs("{\"bodies\":\n  [1, 2,]}", file);
    fclose(file);
    assert_fails(qpc_scene_read(path, take, &s, &scene, &err), QPC_ERR_INVALID, &err, "line 2");
    assert_non_null(strstr(err.message, "s.json"));
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    assert_fails(qpc_scene_read(path, take, &s, &scene, &err), QPC_ERR_NOT_FOUND, &err, path);
}

static void allocation_failures_leak_nothing(void **state) {
    (void)state;
    static const char text[] =
        "{\"bodies\": [{\"mass\": {\"all\": 1}, \"nodes\": {\"generate\": {\"kind\": \"line\", "
        "\"from\": [0,0,0], \"to\": [1,0,0], \"count\": 4}}}, {\"mesh\": {\"generate\": "
        "{\"kind\": \"sheet\"}}}]}";
    QPC_FAULTS(f) {
        qpc_error err = {0};
        seen s = {0};
        qpc_value scene = qpc_nil();
        qpc_status status = qpc_json_parse(text, sizeof text - 1, &scene, &err);
        if (status == QPC_OK) status = qpc_scene_resolve(&scene, NULL, take, &s, &err);
        qpc_faults_ended(&f, status);
        qpc_value_fini(&scene);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generated_meshes_become_hashes),
        cmocka_unit_test(cables_are_laid_over_a_pulley),
        cmocka_unit_test(cables_are_laid_along_a_line),
        cmocka_unit_test(cables_are_wound_around_a_drum),
        cmocka_unit_test(what_is_of_the_wire_form_passes_untouched),
        cmocka_unit_test(mistakes_are_named_with_their_place),
        cmocka_unit_test(files_are_read_relative_to_the_scene),
        cmocka_unit_test(allocation_failures_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
