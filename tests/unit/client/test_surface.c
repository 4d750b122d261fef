/// Surface files: one cube from every format, odd but good forms, polygons that are not convex, bad
/// files with the line.
#include "tests/support/check.h"

#include "client/meshio/meshfile.h"
#include "client/meshio/meshraw.h"
#include "tests/support/faults.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const CUBES[] = {"obj/cube.obj",   "ply/cube.ply", "ply/little.ply", "ply/big.ply",
                                    "off/cube.off",   "off/line.off", "stl/cube.stl",   "stl/cubebin.stl"};
enum { CUBE_COUNT = sizeof CUBES / sizeof CUBES[0] };

static const char *data_path(const char *file) {
    static char path[400];
    snprintf(path, sizeof path, "%s%s", QPC_TEST_MESHES, file);
    return path;
}

typedef qpc_status parser(const void *bytes, size_t size, qpc_mesh_raw *raw, qpc_error *err);

static void one_cube_reads_the_same_from_every_format(void **state) {
    (void)state;
    for (int i = 0; i < CUBE_COUNT; i++) {
        qpc_error err = {0};
        qpc_mesh_data m = {0};
        assert_ok(qpc_mesh_file_read(data_path(CUBES[i]), NULL, &m, NULL, &err), &err);
        assert_int_equal(m.vertex_count, 8);
        assert_int_equal(m.element_count, 12);
        assert_int_equal(m.nodes_per_element, 3);
        assert_near(qpc_mesh_data_volume(&m), 1, 1e-15);
        qpc_mesh_data_fini(&m);
    }
}

static double area_of(const qpc_mesh_raw *raw, double *ret_least) {
    double sum = 0;
    *ret_least = INFINITY;
    for (int32_t i = 0; i < raw->triangles.count; i += 3) {
        const int32_t *v = raw->triangles.data + i;
        const double *a = raw->nodes.data + 3 * v[0], *b = raw->nodes.data + 3 * v[1], *c = raw->nodes.data + 3 * v[2];
        double z = ((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])) / 2;
        sum += z;
        if (z < *ret_least) *ret_least = z;
    }
    return sum;
}

static void polygons_that_are_not_convex_keep_their_area(void **state) {
    (void)state;
    // In the plane z = 0, counter-clockwise: an L from each of its corners, a comb, a square with a
    // corner in the middle of an edge. Every triangle must turn the same way.
    static const double ell[][2] = {{0, 0}, {2, 0}, {2, 1}, {1, 1}, {1, 2}, {0, 2}};
    static const double comb[][2] = {{0, 0}, {7, 0}, {7, 3}, {6, 3}, {6, 1}, {5, 1}, {5, 3},  {4, 3},
                                     {4, 1}, {3, 1}, {3, 3}, {2, 3}, {2, 1}, {1, 1}, {1, 3}, {0, 3}};
    static const double mid[][2] = {{0, 0}, {1, 0}, {2, 0}, {2, 2}, {0, 2}};
    static const struct {
        const double (*x)[2];
        int count;
        double area;
    } cases[] = {{ell, 6, 3}, {comb, 16, 15}, {mid, 5, 4}};
    for (size_t c = 0; c < 3; c++) {
        for (int start = 0; start < cases[c].count; start++) {
            qpc_mesh_raw raw = {0};
            qpc_error err = {0};
            int32_t corners[16];
            const qpc_mesh_text none = qpc_text_over("", 0, 0);
            for (int i = 0; i < cases[c].count; i++) {
                double x[3] = {cases[c].x[i][0], cases[c].x[i][1], 0};
                assert_ok(qpc_raw_node(&raw, &none, x, &err), &err);
                corners[i] = (start + i) % cases[c].count;
            }
            assert_ok(qpc_raw_polygon(&raw, corners, cases[c].count, &err), &err);
            assert_int_equal(raw.triangles.count, 3 * (cases[c].count - 2));
            double least;
            assert_near(area_of(&raw, &least), cases[c].area, 1e-14);
            assert_true(least > 0);
            qpc_raw_fini(&raw);
        }
    }
}

static void polygons_that_cost_too_much_are_refused(void **state) {
    (void)state;
    // A spiral-like saw of many corners that see none of each other is costly; the budget ends it.
    qpc_mesh_raw raw = {.work = QPC_POLYGON_WORK_MOST + 1};
    qpc_error err = {0};
    const qpc_mesh_text none = qpc_text_over("", 0, 0);
    static const double x[4][3] = {{0, 0, 0}, {2, 0, 0}, {0.5, 0.5, 0}, {0, 2, 0}};
    static const int32_t corners[4] = {0, 1, 2, 3};
    for (int i = 0; i < 4; i++) assert_ok(qpc_raw_node(&raw, &none, x[i], &err), &err);
    assert_fails(qpc_raw_polygon(&raw, corners, 4, &err), QPC_ERR_LIMIT, &err, "not convex");
    qpc_raw_fini(&raw);
}

#define PLY(counts) "ply\nformat ascii 1.0\nelement vertex " counts "\nproperty float x\nproperty float y\nproperty float z\n"
#define PLY_FACE "element face 1\nproperty list uchar int vertex_indices\nend_header\n"

static const struct {
    parser *parse;
    const char *text, *message;
} BAD[] = {
    {qpc_obj_parse, "v 0,0 0,0 1,5\n", "line 1: \"0,0\""},
    {qpc_obj_parse, "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 4\n", "line 4: a face uses vertex 4; 3 are there"},
    {qpc_obj_parse, "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 0\n", "vertex 0"},
    {qpc_obj_parse, "v 0 0 0\nv 1 0 0\nv 0 1 0\nf -1 -2 -4\n", "vertex -4"},
    {qpc_obj_parse, "v 0 0 0\nf 1 1 1x\n", "line 2: \"1x\""},
    {qpc_obj_parse, "v 0 0 0\nf 1/ 1 1\n", "no corner"},
    {qpc_obj_parse, "v 0 0 0\nf 1 1\n", "a face with 2 corners"},
    {qpc_obj_parse, "v 0 0 0 0\n", "weight 0"},
    {qpc_off_parse, "4OFF\n", "starts with OFF"},
    {qpc_off_parse, "OFF BINARY\n", "binary"},
    {qpc_off_parse, "OFF\n4000000000 1 0\n", "4000000000 vertices"},
    {qpc_off_parse, "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 inf\n3 0 1 2\n", "line 5: coordinate 2 of vertex 2"},
    {qpc_off_parse, "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 3\n", "line 6: an element uses node 3"},
    {qpc_off_parse, "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n4 0 1 2\n", "corner 3 of a face of 4"},
    {qpc_off_parse, "OFF\n3 1 0\n0 0 0\n1 0 0\n", "the file ends"},
    {qpc_ply_parse, PLY("3") PLY_FACE "0 0 0 1 0 0 0 1 0\n3 0 1 3\n", "node 3"},
    {qpc_ply_parse, PLY("3") PLY_FACE "0 0 0 1 0 0 0 1 0\n3 0 1\n", "the file ends"},
    {qpc_ply_parse, PLY("4000000000") PLY_FACE "0 0 0\n", "4000000000 elements"},
    {qpc_ply_parse, PLY("1") "element face 1\nproperty list float int vertex_indices\nend_header\n", "integer type"},
    {qpc_ply_parse, PLY("1") "end_header\n0 0 0\n", "no faces"},
    {qpc_ply_parse, "ply\nformat ascii 1.0\n" PLY_FACE, "before the vertices"},
    {qpc_ply_parse, "ply\nformat ascii 2.0\n", "1.0"},
    {qpc_ply_parse, "ply\nformat ascii 1.0\nelement vertex 3\n", "no end"},
    {qpc_stl_parse, "solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nendloop\n", "line 6: \"vertex\""},
    {qpc_stl_parse, "solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 nan\n", "line 4: \"nan\""},
    {qpc_stl_parse, "solid a\n", "without endsolid"},
    {qpc_stl_parse, "binary", "has 84 bytes"},
};

static void bad_files_say_what_is_wrong_and_where(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        qpc_mesh_raw raw = {0};
        qpc_error err = {0};
        assert_fails(BAD[i].parse(BAD[i].text, strlen(BAD[i].text), &raw, &err), QPC_ERR_INVALID, &err, BAD[i].message);
        qpc_raw_fini(&raw);
    }
    // Binary STL: the count is held against the size before anything is read.
    char stl[84 + 49] = "binary";
    for (int i = 0; i < 2; i++) {
        qpc_mesh_raw raw = {0};
        qpc_error err = {0};
        memset(stl + 80, i == 0 ? 0xff : 0, 4);
        assert_fails(qpc_stl_parse(stl, sizeof stl, &raw, &err), QPC_ERR_INVALID, &err, "not 133");
        assert_null(raw.nodes.data);
        qpc_raw_fini(&raw);
    }
}

static void numbers_are_read_right(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double value;
    } good[] = {{"0.1", 0.1},   {"-3E-06", -3e-6},  {"1e22", 1e22},           {"1e23", 1e23},         {"5e-324", 5e-324},
                {"+.5", 0.5},   {"7.", 7},          {"123456789012345678901", 123456789012345678901.0},
                {"0.06333800000000001", 0.06333800000000001}, {"9007199254740993", 9007199254740993.0}, {"1e-400", 0}};
    static const char *const bad[] = {"", "-", ".", "1e", "1e+", "0x1", "nan", "inf", "1e400", "1,5", "1 ", "1d3", "--1", "1.2.3"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        double v = NAN;
        assert_true(qpc_token_real((qpc_token){good[i].text, strlen(good[i].text)}, &v));
        assert_true(v == good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        double v = 7;
        assert_false(qpc_token_real((qpc_token){bad[i], strlen(bad[i])}, &v));
        assert_true(v == 7);
    }
    int64_t n = 0;
    assert_true(qpc_token_int((qpc_token){"9223372036854775807", 19}, &n) && n == INT64_MAX);
    assert_false(qpc_token_int((qpc_token){"9223372036854775808", 19}, &n));
}

static void allocation_failures_leak_nothing(void **state) {
    (void)state;
    for (int i = 0; i < CUBE_COUNT; i++) {
        QPC_FAULTS(f) {
            qpc_mesh_data m = {0};
            qpc_error err = {0};
            qpc_status st = qpc_mesh_file_read(data_path(CUBES[i]), NULL, &m, NULL, &err);
            if (qpc_faults_ended(&f, st)) qpc_mesh_data_fini(&m);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_cube_reads_the_same_from_every_format),
        cmocka_unit_test(polygons_that_are_not_convex_keep_their_area),
        cmocka_unit_test(polygons_that_cost_too_much_are_refused),
        cmocka_unit_test(bad_files_say_what_is_wrong_and_where),
        cmocka_unit_test(numbers_are_read_right),
        cmocka_unit_test(allocation_failures_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
