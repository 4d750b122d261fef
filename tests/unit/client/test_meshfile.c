/// Mesh files: what is written reads back, corners are merged exactly, bad files are errors.
#include "tests/support/check.h"

#include "base/hash.h"
#include "base/json.h"
#include "client/meshio/generate.h"
#include "client/meshio/meshfile.h"
#include "tests/support/faults.h"
#include "tests/support/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *path_of(const char *name) {
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static const char *put(const char *name, const void *bytes, size_t size) {
    const char *path = path_of(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    return path;
}

static const char *put_text(const char *name, const char *text) {
    return put(name, text, strlen(text));
}

static qpc_mesh_data read_mesh(const char *path, qpc_mesh_file_report *report) {
    qpc_error err = {0};
    qpc_mesh_data mesh = {0};
    assert_ok(qpc_mesh_file_read(path, NULL, &mesh, report, &err), &err);
    return mesh;
}

static void refuse(const char *path, qpc_status wanted, const char *text) {
    qpc_error err = {0};
    qpc_mesh_data mesh = {0};
    assert_fails(qpc_mesh_file_read(path, NULL, &mesh, NULL, &err), wanted, &err, text);
    assert_non_null(strstr(err.message, path)); // it names the file
}

static qpc_mesh_data generate(const char *json) {
    qpc_error err = {0};
    qpc_value spec;
    qpc_mesh_data mesh = {0};
    assert_ok(qpc_json_parse(json, strlen(json), &spec, &err), &err);
    assert_ok(qpc_mesh_generate(&spec, "generate", &mesh, &err), &err);
    qpc_value_fini(&spec);
    return mesh;
}

static void what_is_written_as_obj_reads_back(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_mesh_data a = generate("{\"kind\": \"sheave\", \"triangles\": 2000}");
    FILE *file = fopen(path_of("a.obj"), "w");
    assert_ok(qpc_mesh_data_write_obj(&a, "a sheave", file, &err), &err);
    fclose(file);
    qpc_mesh_data b = read_mesh(path_of("a.obj"), NULL);
    assert_int_equal(b.element_count, 2000);
    assert_int_equal(b.vertex_count, a.vertex_count);
    assert_near(qpc_mesh_data_volume(&b), qpc_mesh_data_volume(&a), 1e-14); // another order of sums
    for (int64_t i = 0; i < 3 * (int64_t)a.element_count; i++)
        for (int k = 0; k < 3; k++)
            assert_true(b.vertices[3 * (size_t)b.elements[i] + k] ==
                        a.vertices[3 * (size_t)a.elements[i] + k]);
    qpc_mesh_data_fini(&a);
    qpc_mesh_data_fini(&b);
}

static void what_is_written_as_qpm_reads_back_exactly(void **state) {
    (void)state;
    qpc_error err = {0};
    char hash_a[65], hash_b[65];
    qpc_mesh_data a = generate("{\"kind\": \"funnel\", \"triangles\": 500}");
    FILE *file = fopen(path_of("a.qpm"), "w");
    assert_ok(qpc_mesh_data_write_qpm(&a, file, &err), &err);
    fclose(file);
    qpc_mesh_data b = read_mesh(path_of("a.qpm"), NULL);
    assert_ok(qpc_mesh_data_sha256(&a, hash_a, &err), &err);
    assert_ok(qpc_mesh_data_sha256(&b, hash_b, &err), &err);
    assert_string_equal(hash_a, hash_b);
    qpc_mesh_data_fini(&a);
    qpc_mesh_data_fini(&b);
}

static void the_canonical_bytes_are_as_documented(void **state) {
    (void)state;
    double vertices[9] = {-0.0, 0, 0, 1, 0, 0, 0, 2, 0};
    int32_t elements[3] = {0, 1, 2};
    qpc_mesh_data mesh = {vertices, elements, 3, 1, 3};
    qpc_error err = {0};
    uint8_t *bytes;
    char hash[65];
    assert_ok(qpc_mesh_data_canonical(&mesh, &bytes, &err), &err);
    assert_int_equal(qpc_mesh_data_canonical_size(&mesh), 24 + 72 + 12);
    const uint8_t head[24] = {'Q', 'P', 'M', '1', 3, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1};
    assert_memory_equal(bytes, head, sizeof head);
    for (int i = 24; i < 32; i++) assert_int_equal(bytes[i], 0); // -0 is written as 0
    qpc_free(bytes);
    assert_ok(qpc_mesh_data_sha256(&mesh, hash, &err), &err);
    // printf 'QPM1\3\0\0\0...' | sha256sum, by Python's hashlib over struct.pack
    assert_string_equal(hash, "ee0153ac584627da26b24f5a071dbb0aec14dd31d29abdce67048ac581918504");
}

static void corners_at_one_position_become_one_vertex(void **state) {
    (void)state;
    qpc_mesh_file_report report;
    // An STL repeats every corner; 1e-9 apart is apart.
    put_text("two.stl", "solid two\n"
                        "facet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\n"
                        "endloop\nendfacet\n"
                        "facet normal 0 0 1\nouter loop\nvertex 1 0 0\nvertex 1 1 0\n"
                        "vertex 1e-9 1 0\nendloop\nendfacet\nendsolid two\n");
    qpc_mesh_data mesh = read_mesh(path_of("two.stl"), &report);
    assert_int_equal(mesh.element_count, 2);
    assert_int_equal(mesh.vertex_count, 5);
    assert_int_equal(report.merged, 1);
    assert_int_equal(mesh.elements[1], mesh.elements[3]);
    qpc_mesh_data_fini(&mesh);
}

static void vertices_that_no_triangle_has_are_left_out_and_named(void **state) {
    (void)state;
    qpc_mesh_file_report report;
    put_text("loose.obj", "v 9 9 9\nv 0 0 0\nv 1 0 0\nv 8 8 8\nv 0 1 0\nf 2 3 5\nv 0 0 0\n"); // the last one at another's place, but no less loose
    qpc_mesh_data mesh = read_mesh(path_of("loose.obj"), &report);
    assert_int_equal(mesh.vertex_count, 3);
    assert_int_equal(report.unused, 3);
    const int32_t want[] = {0, 3, 5};
    assert_memory_equal(report.unused_first, want, sizeof want);
    qpc_mesh_data_fini(&mesh);
    put_text("tight.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n");
    mesh = read_mesh(path_of("tight.obj"), &report);
    assert_int_equal(report.unused, 0);
    qpc_mesh_data_fini(&mesh);
}

static void polygons_become_triangles_and_lines_are_left_out(void **state) {
    (void)state;
    qpc_mesh_file_report report;
    put_text("quad.obj", "v 0 0 0\nv 2 0 0\nv 2 1 0\nv 0 1 0\nf 1 2 3 4\nl 1 3\n");
    qpc_mesh_data mesh = read_mesh(path_of("quad.obj"), &report);
    assert_int_equal(mesh.element_count, 2);
    assert_int_equal(mesh.vertex_count, 4);
    assert_true(report.skipped >= 1);
    qpc_mesh_data_fini(&mesh);
    put_text("one.off", "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n");
    mesh = read_mesh(path_of("one.off"), &report);
    assert_int_equal(mesh.element_count, 1);
    qpc_mesh_data_fini(&mesh);
    put_text("one.PLY", "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\n"
                        "property float y\nproperty float z\nelement face 1\n"
                        "property list uchar int vertex_indices\nend_header\n"
                        "0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n");
    mesh = read_mesh(path_of("one.PLY"), &report);
    assert_int_equal(mesh.element_count, 1);
    assert_int_equal(mesh.vertex_count, 3);
    qpc_mesh_data_fini(&mesh);
}

static void bad_files_are_errors_that_name_the_file(void **state) {
    (void)state;
    refuse(path_of("none.obj"), QPC_ERR_NOT_FOUND, "cannot open");
    refuse(put_text("empty.obj", ""), QPC_ERR_INVALID, "empty");
    refuse(put_text("text.obj", "this is no mesh\n"), QPC_ERR_INVALID, "text.obj");
    refuse(put_text("points.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\n"), QPC_ERR_INVALID, "points.obj");
    refuse(put_text("a.blend", "x"), QPC_ERR_UNSUPPORTED, ".obj");
    refuse(put_text("short.qpm", "QPM1"), QPC_ERR_INVALID, "QPM1");
    refuse(put_text("short.stl", "solid"), QPC_ERR_INVALID, "short.stl");
    refuse(folder, QPC_ERR_IO, "regular file");
    uint8_t head[24] = {'Q', 'P', 'M', '1', 3};
    memset(head + 8, 0xff, 16);
    refuse(put("huge.qpm", head, sizeof head), QPC_ERR_LIMIT, "max_vertices");
    memset(head + 8, 0, 16);
    head[8] = 100;
    refuse(put("cut.qpm", head, sizeof head), QPC_ERR_INVALID, "100 vertices");
}

// The third vertex, and where it should be.
static const struct {
    const char *line;
    double x[3];
} VERTICES[] = {
    {"v .5 7 0", {0.5, 7, 0}},          {"v -.5 +.25 .125e1", {-0.5, 0.25, 1.25}},
    {"  v 5 7 0", {5, 7, 0}},           {"v\t5\t7\t0\r", {5, 7, 0}},
    {"v 5 7 0 .5 .5 .5", {5, 7, 0}},    {"v .5 7 0 1 1 1", {0.5, 7, 0}},
    {"v 5 7 0 1 0 0 1", {5, 7, 0}},     {"v 5 7 0 2", {2.5, 3.5, 0}},
    {"v 5 \\\n.5 0", {5, 0.5, 0}},      {"v 5. 7E0 0 # five 6 7", {5, 7, 0}},
    {"v 5 7 0 1 # 2 3", {5, 7, 0}},     {"# old\rv .5 7 0\r\n", {0.5, 7, 0}},
};

static void vertices_of_obj_files_are_read_as_they_are_written(void **state) {
    (void)state;
    char text[200];
    for (size_t i = 0; i < sizeof VERTICES / sizeof VERTICES[0]; i++) {
        snprintf(text, sizeof text, "v 1 0 0\nv 0 1 0\n%s\nv 9 9 9\nv 8 8 8\n f 1 2 \\\n 3\n", VERTICES[i].line);
        put_text("odd.obj", text);
        qpc_mesh_data mesh = read_mesh(path_of("odd.obj"), NULL);
        assert_int_equal(mesh.element_count, 1);
        const double *x = mesh.vertices + 3 * (size_t)mesh.elements[2];
        for (int k = 0; k < 3; k++) assert_true(x[k] == VERTICES[i].x[k]); // all are exact in single precision
        qpc_mesh_data_fini(&mesh);
    }
    static const char *const bad[] = {"v 5 7",      "v 5 7 0 1 1", "v 1 2 3 4 5 6 7 8", "v 0x5 7 0", "v 1d1 7 0", "v 5 foo 0",
                                      "v 5,5 7 0", "v . 7 0",     "v 5 7e 0",          "v nan 7 0", "v",         "v \\"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(text, sizeof text, "v 1 0 0\nv 0 1 0\n%s\nv 9 9 9\nv 8 8 8\nf 1 2 3\n", bad[i]);
        refuse(put_text("bad.obj", text), QPC_ERR_INVALID, "line 3");
    }
}

static void limits_are_named(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_mesh_data mesh = {0};
    put_text("quad.obj", "v 0 0 0\nv 2 0 0\nv 2 1 0\nv 0 1 0\nf 1 2 3 4\n");
    qpc_mesh_file_limits bytes = {.max_bytes = 10};
    assert_fails(qpc_mesh_file_read(path_of("quad.obj"), &bytes, &mesh, NULL, &err), QPC_ERR_LIMIT,
                 &err, "max_bytes");
    qpc_mesh_file_limits elements = {.max_elements = 1};
    assert_fails(qpc_mesh_file_read(path_of("quad.obj"), &elements, &mesh, NULL, &err),
                 QPC_ERR_LIMIT, &err, "max_elements");
}

static void allocation_failures_leak_nothing(void **state) {
    (void)state;
    qpc_error err = {0};
    put_text("quad.obj", "v 0 0 0\nv 2 0 0\nv 2 1 0\nv 0 1 0\nf 1 2 3 4\n");
    qpc_mesh_data a = generate("{\"kind\": \"box\"}");
    FILE *file = fopen(path_of("a.qpm"), "w");
    assert_ok(qpc_mesh_data_write_qpm(&a, file, &err), &err);
    fclose(file);
    qpc_mesh_data_fini(&a);
    static const char *const names[] = {"quad.obj", "a.qpm"};
    for (int i = 0; i < 2; i++) {
        QPC_FAULTS(f) {
            qpc_mesh_data mesh = {0};
            qpc_status status = qpc_mesh_file_read(path_of(names[i]), NULL, &mesh, NULL, &err);
            if (qpc_faults_ended(&f, status)) qpc_mesh_data_fini(&mesh);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_as_obj_reads_back),
        cmocka_unit_test(what_is_written_as_qpm_reads_back_exactly),
        cmocka_unit_test(the_canonical_bytes_are_as_documented),
        cmocka_unit_test(corners_at_one_position_become_one_vertex),
        cmocka_unit_test(vertices_that_no_triangle_has_are_left_out_and_named),
        cmocka_unit_test(polygons_become_triangles_and_lines_are_left_out),
        cmocka_unit_test(bad_files_are_errors_that_name_the_file),
        cmocka_unit_test(vertices_of_obj_files_are_read_as_they_are_written),
        cmocka_unit_test(limits_are_named),
        cmocka_unit_test(allocation_failures_leak_nothing),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
