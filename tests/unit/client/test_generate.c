/// Mesh generators: exact counts, closed and oriented surfaces, volumes by their closed form.
#include "tests/support/check.h"

#include "base/json.h"
#include "client/meshio/generate.h"
#include "tests/support/faults.h"

#include <stdlib.h>

#define PI 3.14159265358979323846

static qpc_mesh_data make(const char *json) {
    qpc_error err = {0};
    qpc_value spec;
    qpc_mesh_data mesh = {0};
    assert_ok(qpc_json_parse(json, strlen(json), &spec, &err), &err);
    assert_ok(qpc_mesh_generate(&spec, "generate", &mesh, &err), &err);
    qpc_value_fini(&spec);
    return mesh;
}

static void refuse(const char *json, qpc_status wanted, const char *text) {
    qpc_error err = {0};
    qpc_value spec;
    qpc_mesh_data mesh = {0};
    assert_ok(qpc_json_parse(json, strlen(json), &spec, &err), &err);
    assert_fails(qpc_mesh_generate(&spec, "generate", &mesh, &err), wanted, &err, text);
    assert_null(mesh.vertices);
    qpc_value_fini(&spec);
}

typedef struct edge {
    int32_t from, to;
} edge;

static int compare_edges(const void *a, const void *b) {
    const edge *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

/// Directed edges without their opposite; fails if one appears twice, or on a bad index.
static int64_t boundary_edges(const qpc_mesh_data *mesh) {
    int64_t count = 3 * (int64_t)mesh->element_count, open = 0;
    edge *edges = malloc((size_t)count * sizeof *edges);
    assert_non_null(edges);
    for (int64_t i = 0; i < count; i++) {
        int64_t face = i / 3;
        edges[i].from = mesh->elements[i];
        edges[i].to = mesh->elements[3 * face + (i + 1) % 3];
        assert_in_range(edges[i].from, 0, mesh->vertex_count - 1);
        assert_int_not_equal(edges[i].from, edges[i].to);
    }
    qsort(edges, (size_t)count, sizeof *edges, compare_edges);
    for (int64_t i = 0; i < count; i++) {
        if (i > 0) assert_int_not_equal(compare_edges(&edges[i - 1], &edges[i]), 0);
        edge opposite = {edges[i].to, edges[i].from};
        if (bsearch(&opposite, edges, (size_t)count, sizeof opposite, compare_edges) == NULL)
            open++;
    }
    free(edges);
    return open;
}

/// V - E + F of a closed triangle mesh whose vertices are all used.
static int64_t euler(const qpc_mesh_data *mesh) {
    unsigned char *used = calloc((size_t)mesh->vertex_count, 1);
    int64_t vertices = 0;
    assert_non_null(used);
    for (int64_t i = 0; i < 3 * (int64_t)mesh->element_count; i++) used[mesh->elements[i]] = 1;
    for (int32_t i = 0; i < mesh->vertex_count; i++) vertices += used[i];
    free(used);
    assert_int_equal(vertices, mesh->vertex_count);
    return vertices - 3 * (int64_t)mesh->element_count / 2 + mesh->element_count;
}

static double least_area(const qpc_mesh_data *mesh) {
    double least = INFINITY;
    for (int32_t f = 0; f < mesh->element_count; f++) {
        const int32_t *e = mesh->elements + 3 * (size_t)f;
        double u[3], v[3];
        for (int k = 0; k < 3; k++) {
            u[k] = mesh->vertices[3 * e[1] + k] - mesh->vertices[3 * e[0] + k];
            v[k] = mesh->vertices[3 * e[2] + k] - mesh->vertices[3 * e[0] + k];
        }
        double n[3] = {u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2],
                       u[0] * v[1] - u[1] * v[0]};
        least = fmin(least, 0.5 * sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]));
    }
    return least;
}

/// Volume of a polygon (rho, t), counter-clockwise, turned in n flat steps.
static double turned_volume(const double *corners, int count, int n) {
    double sum = 0;
    for (int i = 0; i < count; i++) {
        const double *p = corners + 2 * i, *q = corners + 2 * ((i + 1) % count);
        sum += (q[1] - p[1]) * (p[0] * p[0] + p[0] * q[0] + q[0] * q[0]) / 3;
    }
    return 0.5 * n * sin(2 * PI / n) * sum;
}

// Sums of some ten thousand rounded terms of size 1 leave 1e-12; the closed forms are exact.
#define VOLUME_TOLERANCE 1e-11

static void the_demo_sheave_is_the_one_of_the_notes(void **state) {
    (void)state;
    qpc_mesh_data mesh = make("{\"kind\": \"sheave\"}");
    assert_int_equal(mesh.element_count, 13722);
    assert_int_equal(mesh.vertex_count, 70 * 98 + 1);
    assert_int_equal(boundary_edges(&mesh), 0);
    assert_int_equal(euler(&mesh), 0); // a torus: it has a bore
    double corner[15][2];
    for (int i = 0; i <= 8; i++) {
        double a = (-81 + 162.0 * i / 8) * PI / 180;
        corner[i][0] = 1 + 0.06 - 0.06 * cos(a);
        corner[i][1] = 0.06 * sin(a);
    }
    const double rest[6][2] = {{1.12, 0.085}, {1.12, 0.1},  {0.2, 0.1},
                               {0.2, -0.1},   {1.12, -0.1}, {1.12, -0.085}};
    memcpy(corner + 9, rest, sizeof rest);
    assert_near(qpc_mesh_data_volume(&mesh), turned_volume(corner[0], 15, 98), VOLUME_TOLERANCE);
    assert_true(least_area(&mesh) > 1e-6);
    // The bottom of the groove is a ring of radius 1 at z = 0, with a vertex on the axis x.
    int on_groove = 0;
    for (int32_t i = 0; i < mesh.vertex_count; i++) {
        const double *p = mesh.vertices + 3 * (size_t)i;
        if (fabs(p[2]) < 1e-12 && fabs(hypot(p[0], p[1]) - 1) < 1e-12) on_groove++;
    }
    assert_int_equal(on_groove, 98);
    qpc_mesh_data_fini(&mesh);
}

static void the_demo_funnel_is_the_one_of_the_notes(void **state) {
    (void)state;
    qpc_mesh_data mesh = make("{\"kind\": \"funnel\", \"triangles\": 11712}");
    assert_int_equal(mesh.element_count, 11712);
    assert_int_equal(mesh.vertex_count, 61 * 96);
    assert_int_equal(boundary_edges(&mesh), 0);
    assert_int_equal(euler(&mesh), 0);
    const double corner[6][2] = {{0.13, -1.1}, {0.13, -0.8}, {0.55, 0},
                                 {0.5, 0},     {0.08, -0.8}, {0.08, -1.1}};
    assert_near(qpc_mesh_data_volume(&mesh), turned_volume(corner[0], 6, 96), VOLUME_TOLERANCE);
    double low = INFINITY, high = -INFINITY; // its axis is y
    for (int32_t i = 0; i < mesh.vertex_count; i++) {
        low = fmin(low, mesh.vertices[3 * (size_t)i + 1]);
        high = fmax(high, mesh.vertices[3 * (size_t)i + 1]);
    }
    assert_near(low, -1.1, 1e-15);
    assert_near(high, 0, 0);
    qpc_mesh_data_fini(&mesh);
}

static void a_grid_has_even_vertices_and_faces_along_its_axis(void **state) {
    (void)state;
    static const char *const axes[] = {"x", "y", "z"};
    for (int axis = 0; axis < 3; axis++)
        for (int alternate = 0; alternate < 2; alternate++) {
            char json[160];
            snprintf(json, sizeof json, "{\"kind\": \"grid\", \"columns\": 5, \"rows\": 3, \"width\": 2, \"depth\": 1, "
                                        "\"axis\": \"%s\", \"alternate\": %s}", axes[axis], alternate ? "true" : "false");
            qpc_mesh_data mesh = make(json);
            assert_int_equal(mesh.vertex_count, 15);
            assert_int_equal(mesh.element_count, 16);
            int u = axis == 0 ? 1 : 0, v = axis == 2 ? 1 : 2; // columns run along x (y), rows along z (y)
            for (int i = 0; i < 15; i++) {
                assert_near(mesh.vertices[3 * i + u], 0.5 * (i % 5) - 1, 1e-15);
                assert_near(mesh.vertices[3 * i + v], 0.5 * (i / 5) - 0.5, 1e-15);
                assert_near(mesh.vertices[3 * i + axis], 0, 0);
            }
            for (int t = 0; t < 16; t++) { // all of one area, all facing along the axis
                const double *p[3];
                for (int k = 0; k < 3; k++) p[k] = mesh.vertices + 3 * mesh.elements[3 * t + k];
                int a = (axis + 1) % 3, b = (axis + 2) % 3;
                double area = (p[1][a] - p[0][a]) * (p[2][b] - p[0][b]) - (p[1][b] - p[0][b]) * (p[2][a] - p[0][a]);
                assert_near(area, 0.25, 1e-15);
            }
            qpc_mesh_data_fini(&mesh);
        }
}

static void every_possible_count_is_hit_exactly(void **state) {
    (void)state;
    static const struct {
        const char *kind;
        int least, step, holes; // holes: handles of the closed surface; -1: open
    } kinds[] = {{"sheave", 90, 2, 1}, {"funnel", 36, 2, 1}, {"cylinder", 12, 2, 0},
                 {"sphere", 6, 2, 0},  {"box", 12, 2, 0},    {"sheet", 2, 1, -1}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (int n = kinds[k].least; n < 4000; n += kinds[k].step * (n < 300 ? 1 : 61)) {
            char json[80];
            snprintf(json, sizeof json, "{\"kind\": \"%s\", \"triangles\": %d}", kinds[k].kind, n);
            qpc_mesh_data mesh = make(json);
            assert_int_equal(mesh.element_count, n);
            int64_t open = boundary_edges(&mesh);
            if (kinds[k].holes < 0) {
                assert_true(open > 0);
            } else {
                assert_int_equal(open, 0);
                assert_int_equal(euler(&mesh), 2 - 2 * kinds[k].holes);
                assert_true(qpc_mesh_data_volume(&mesh) > 0);
            }
            assert_true(least_area(&mesh) > 0);
            qpc_mesh_data_fini(&mesh);
        }
    }
}

static void cylinders_have_the_volume_of_their_prism(void **state) {
    (void)state;
    qpc_mesh_data mesh = make("{\"kind\": \"cylinder\"}");
    assert_int_equal(mesh.element_count, 2048);
    assert_near(qpc_mesh_data_volume(&mesh), 32 * sin(2 * PI / 64) * 0.09 * 2, VOLUME_TOLERANCE);
    double top = 0;
    for (int32_t i = 0; i < mesh.vertex_count; i++)
        top = fmax(top, mesh.vertices[3 * (size_t)i + 1]);
    assert_near(top, 0.3, 1e-15); // a corner of the cross-section points up
    qpc_mesh_data_fini(&mesh);
    mesh = make("{\"kind\": \"cylinder\", \"radius\": 0.1, \"length\": 3, \"segments\": 7, "
                "\"axis\": \"x\", \"triangles\": 142}");
    assert_int_equal(mesh.element_count, 142);
    assert_near(qpc_mesh_data_volume(&mesh), 3.5 * sin(2 * PI / 7) * 0.01 * 3, VOLUME_TOLERANCE);
    qpc_mesh_data_fini(&mesh);
}

static void tubes_are_open_and_may_have_an_odd_count(void **state) {
    (void)state;
    for (int n = 128; n < 300; n++) {
        char json[120];
        snprintf(json, sizeof json,
                 "{\"kind\": \"cylinder\", \"caps\": false, \"segments\": 64, \"triangles\": %d}",
                 n);
        qpc_mesh_data mesh = make(json);
        assert_int_equal(mesh.element_count, n);
        assert_int_equal(boundary_edges(&mesh), 128 + n % 2);
        qpc_mesh_data_fini(&mesh);
    }
}

static void spheres_boxes_and_sheets_have_their_size(void **state) {
    (void)state;
    qpc_mesh_data mesh = make("{\"kind\": \"sphere\", \"radius\": 2, \"triangles\": 40000}");
    // 100 bands and 200 segments: 1 - (2 pi / 200)^2 / 6 in the section, about as much along it
    assert_near(qpc_mesh_data_volume(&mesh) / (4.0 / 3 * PI * 8), 1, 1e-3);
    for (int32_t i = 0; i < mesh.vertex_count; i++) {
        const double *p = mesh.vertices + 3 * (size_t)i;
        assert_near(sqrt(p[0] * p[0] + p[1] * p[1] + p[2] * p[2]), 2, 1e-14);
    }
    qpc_mesh_data_fini(&mesh);
    for (int n = 12; n < 500; n += 14) {
        char json[120];
        snprintf(json, sizeof json,
                 "{\"kind\": \"box\", \"width\": 2, \"height\": 3, \"depth\": 0.01, "
                 "\"triangles\": %d}",
                 n);
        mesh = make(json);
        assert_near(qpc_mesh_data_volume(&mesh), 0.06, 1e-13);
        qpc_mesh_data_fini(&mesh);
    }
    // A sheet faces along its axis; its width is along x.
    mesh = make("{\"kind\": \"sheet\", \"width\": 4, \"depth\": 2, \"triangles\": 77}");
    double area = 0;
    for (int32_t f = 0; f < mesh.element_count; f++) {
        const int32_t *e = mesh.elements + 3 * (size_t)f;
        const double *a = mesh.vertices + 3 * (size_t)e[0], *b = mesh.vertices + 3 * (size_t)e[1],
                     *c = mesh.vertices + 3 * (size_t)e[2];
        area += 0.5 * ((b[2] - a[2]) * (c[0] - a[0]) - (b[0] - a[0]) * (c[2] - a[2])); // +y
        assert_true(fabs(a[0]) <= 2 && fabs(a[2]) <= 1 && a[1] == 0);
    }
    assert_near(area, 8, 1e-13);
    qpc_mesh_data_fini(&mesh);
}

static void the_axis_turns_a_solid_without_mirroring_it(void **state) {
    (void)state;
    static const char axes[] = "xyz";
    for (int k = 0; k < 3; k++) {
        char json[80];
        snprintf(json, sizeof json, "{\"kind\": \"sheave\", \"axis\": \"%c\"}", axes[k]);
        qpc_mesh_data mesh = make(json);
        double most[3] = {0, 0, 0};
        for (int64_t i = 0; i < 3 * (int64_t)mesh.vertex_count; i++)
            most[i % 3] = fmax(most[i % 3], fabs(mesh.vertices[i]));
        assert_near(most[k], 0.1, 1e-15);
        assert_near(most[(k + 1) % 3], 1.12, 1e-3);
        assert_true(qpc_mesh_data_volume(&mesh) > 0);
        qpc_mesh_data_fini(&mesh);
    }
}

static void a_sheave_scales_with_its_radius(void **state) {
    (void)state;
    qpc_mesh_data a = make("{\"kind\": \"sheave\"}");
    qpc_mesh_data b = make("{\"kind\": \"sheave\", \"radius\": 0.5}");
    assert_near(qpc_mesh_data_volume(&b) * 8, qpc_mesh_data_volume(&a), VOLUME_TOLERANCE);
    qpc_mesh_data_fini(&a);
    qpc_mesh_data_fini(&b);
}

static void bad_parameters_are_refused_by_name(void **state) {
    (void)state;
    refuse("{\"kind\": \"sheeve\"}", QPC_ERR_INVALID, "sheave");
    refuse("{}", QPC_ERR_INVALID, "generate.kind");
    refuse("{\"kind\": \"box\", \"heigth\": 1}", QPC_ERR_INVALID, "height");
    refuse("{\"kind\": \"box\", \"height\": 0}", QPC_ERR_INVALID, "generate.height");
    refuse("{\"kind\": \"box\", \"height\": \"1\"}", QPC_ERR_INVALID, "generate.height");
    refuse("{\"kind\": \"sheave\", \"triangles\": 13721}", QPC_ERR_INVALID, "13720 or 13722");
    refuse("{\"kind\": \"sheave\", \"triangles\": 20}", QPC_ERR_INVALID, "at least 90");
    refuse("{\"kind\": \"sheave\", \"hub\": 1.5}", QPC_ERR_INVALID, "hub");
    refuse("{\"kind\": \"sheave\", \"flange\": 1.01}", QPC_ERR_INVALID, "flange");
    refuse("{\"kind\": \"sheave\", \"width\": 0.01}", QPC_ERR_INVALID, "lip");
    refuse("{\"kind\": \"sphere\", \"axis\": \"w\"}", QPC_ERR_INVALID, "axis");
    refuse("{\"kind\": \"cylinder\", \"segments\": 2}", QPC_ERR_INVALID, "segments");
    refuse("{\"kind\": \"cylinder\", \"caps\": 1}", QPC_ERR_INVALID, "generate.caps");
    refuse("{\"kind\": \"sphere\", \"triangles\": 400000000}", QPC_ERR_INVALID, "triangles");
    refuse("[]", QPC_ERR_INVALID, "map");
}

/// All tetrahedra have volume, and together that of the shape: exactly of a block, from below of an ellipsoid.
static void blocks_and_ellipsoids_are_filled(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        int32_t vertices, tets;
        double volume, short_of;
    } cases[] = {
        {"{\"kind\": \"block\", \"columns\": 3, \"rows\": 2, \"layers\": 4, \"width\": 3, \"height\": 1, \"depth\": 2}", 60, 144, 6, 1e-12},
        {"{\"kind\": \"block\"}", 125, 384, 1, 1e-12},
        {"{\"kind\": \"ellipsoid\", \"columns\": 16, \"width\": 2, \"depth\": 1}", 4913, 24576, 4.0 / 3 * PI * 0.5, 0.02},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qpc_mesh_data mesh = make(cases[i].spec);
        assert_int_equal(mesh.vertex_count, cases[i].vertices);
        assert_int_equal(mesh.element_count, cases[i].tets);
        assert_int_equal(mesh.nodes_per_element, 4);
        double volume = qpc_mesh_data_volume(&mesh), least = 1e9, mean = volume / mesh.element_count;
        assert_true(volume <= cases[i].volume * (1 + 1e-12) && volume >= cases[i].volume * (1 - cases[i].short_of));
        for (int32_t t = 0; t < mesh.element_count; t++) {
            qpc_mesh_data one = mesh;
            one.elements = mesh.elements + 4 * t;
            one.element_count = 1;
            least = fmin(least, qpc_mesh_data_volume(&one));
        }
        assert_true(least > 0.05 * mean); // none is flat
        qpc_mesh_data_fini(&mesh);
    }
    refuse("{\"kind\": \"ellipsoid\", \"columns\": 1}", QPC_ERR_INVALID, "at least 2");
    refuse("{\"kind\": \"block\", \"columns\": 300}", QPC_ERR_LIMIT, "tetrahedra");
}

static void allocation_failures_leak_nothing(void **state) {
    (void)state;
    static const char *const specs[] = {"{\"kind\": \"sheave\", \"triangles\": 100}",
                                        "{\"kind\": \"funnel\", \"triangles\": 38}",
                                        "{\"kind\": \"cylinder\"}",
                                        "{\"kind\": \"sphere\"}",
                                        "{\"kind\": \"sheet\"}",
                                        "{\"kind\": \"box\"}",
                                        "{\"kind\": \"block\"}"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        qpc_value spec;
        qpc_error err = {0};
        assert_ok(qpc_json_parse(specs[i], strlen(specs[i]), &spec, &err), &err);
        QPC_FAULTS(f) {
            qpc_mesh_data mesh = {0};
            qpc_status status = qpc_mesh_generate(&spec, "generate", &mesh, &err);
            if (qpc_faults_ended(&f, status)) qpc_mesh_data_fini(&mesh);
        }
        qpc_value_fini(&spec);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_demo_sheave_is_the_one_of_the_notes),
        cmocka_unit_test(the_demo_funnel_is_the_one_of_the_notes),
        cmocka_unit_test(a_grid_has_even_vertices_and_faces_along_its_axis),
        cmocka_unit_test(every_possible_count_is_hit_exactly),
        cmocka_unit_test(cylinders_have_the_volume_of_their_prism),
        cmocka_unit_test(tubes_are_open_and_may_have_an_odd_count),
        cmocka_unit_test(spheres_boxes_and_sheets_have_their_size),
        cmocka_unit_test(the_axis_turns_a_solid_without_mirroring_it),
        cmocka_unit_test(a_sheave_scales_with_its_radius),
        cmocka_unit_test(bad_parameters_are_refused_by_name),
        cmocka_unit_test(blocks_and_ellipsoids_are_filled),
        cmocka_unit_test(allocation_failures_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
