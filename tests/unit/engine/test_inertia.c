/// Mass, centre and inertia: closed forms, meshes near and far, principal axes, refusals.
#include "engine/dynamics/inertia.h"

#include "engine/dynamics/rigid.h"
#include "tests/support/check.h"
#include "tests/support/faults.h"
#include "tests/support/generate.h"

#include <stdlib.h>

static const double PI = 3.14159265358979323846;

// Corners of a unit cube by bits of the number, outside counter-clockwise.
static const double CUBE[24] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0,
                                0, 0, 1, 1, 0, 1, 0, 1, 1, 1, 1, 1};
static const int32_t FACES[36] = {0, 2, 1, 1, 2, 3, 4, 5, 6, 5, 7, 6, 0, 1, 4, 1, 5, 4,
                                  2, 6, 3, 3, 6, 7, 0, 4, 2, 2, 4, 6, 1, 3, 5, 3, 7, 5};

static qpc_mesh *mesh_of(const double *x, int64_t vertices, const int32_t *triangles,
                         int64_t count) {
    qpc_mesh *mesh = NULL;
    qpc_error err = {0};
    assert_ok(qpc_mesh_create(x, vertices, triangles, count, 3, NULL, &mesh, NULL, &err), &err);
    return mesh;
}

/// A generated solid, turned by q and moved by `by`.
static qpc_mesh *moved(const generated *g, const double q[4], qpc_vec3 by) {
    double *x = malloc((size_t)g->x.count * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < g->x.count; i += 3)
        v3_store(x + i, v3_add(by, v3_rotate(q, v3_load(g->x.data + i))));
    qpc_mesh *mesh = mesh_of(x, g->x.count / 3, g->triangle.data, g->triangle.count / 3);
    free(x);
    return mesh;
}

static const double NO_TURN[4] = {1, 0, 0, 0};

static void a_mesh_of_a_box_has_the_inertia_of_the_box(void **state) {
    (void)state;
    generated g = {0};
    qpc_error err = {0};
    qpc_inertia mesh_inertia, box;
    assert_true(generate_box(&g, (const double[3]){-1, 2, 3}, (const double[3]){1, 3, 3.5}));
    qpc_mesh *mesh = generated_mesh(&g);
    assert_ok(qpc_inertia_of_mesh(mesh, 2.0, 800, false, &mesh_inertia, &err), &err);
    assert_ok(qpc_inertia_of_box(v3(4, 2, 1), 800, &box, &err), &err);
    assert_near(mesh_inertia.volume, 8, 1e-14);
    assert_near(mesh_inertia.mass, 6400, 1e-11);
    assert_near(mesh_inertia.centre.x, 0, 1e-15);
    assert_near(mesh_inertia.centre.y, 5, 1e-14);
    assert_near(mesh_inertia.centre.z, 6.5, 1e-14);
    for (int i = 0; i < 9; i++) assert_near(mesh_inertia.tensor.m[i], box.tensor.m[i], 1e-10);
    // m (b^2 + c^2)/12 by hand, axes kept in their order.
    assert_near(box.moment[0], 6400 * 5 / 12.0, 1e-10);
    assert_near(box.moment[1], 6400 * 17 / 12.0, 1e-10);
    assert_near(box.moment[2], 6400 * 20 / 12.0, 1e-10);
    for (int i = 0; i < 4; i++) assert_near(mesh_inertia.axes[i], NO_TURN[i], 0);
    qpc_mesh_unref(mesh);
    generated_fini(&g);
}

static void a_kilometre_away_and_turned_it_is_the_same_body(void **state) {
    (void)state;
    generated g = {0};
    qpc_error err = {0};
    qpc_inertia near, far;
    // 1 cm: a kilometre away its coordinates are good to 1e-11 of its size, and so is the answer.
    assert_true(generate_box(&g, (const double[3]){0, 0, 0}, (const double[3]){0.01, 0.02, 0.03}));
    double q[4] = {0.8, 0.3, -0.4, 0.33};
    assert_true(qpc_quat_normalise(q));
    qpc_mesh *home = moved(&g, NO_TURN, v3(0, 0, 0));
    qpc_mesh *away = moved(&g, q, v3(1000, -1000, 1000));
    assert_ok(qpc_inertia_of_mesh(home, 1, 1000, false, &near, &err), &err);
    assert_ok(qpc_inertia_of_mesh(away, 1, 1000, false, &far, &err), &err);
    assert_near(far.mass, near.mass, 1e-10 * near.mass);
    qpc_vec3 centre = v3_add(v3(1000, -1000, 1000), v3_rotate(q, near.centre));
    assert_near(v3_norm(v3_sub(far.centre, centre)), 0, 1e-12);
    double sorted[2][3];
    for (int k = 0; k < 2; k++) {
        const double *p = k ? far.moment : near.moment;
        double low = fmin(p[0], fmin(p[1], p[2])), high = fmax(p[0], fmax(p[1], p[2]));
        sorted[k][0] = low;
        sorted[k][1] = p[0] + p[1] + p[2] - low - high;
        sorted[k][2] = high;
    }
    for (int i = 0; i < 3; i++) assert_near(sorted[1][i], sorted[0][i], 1e-10 * sorted[0][2]);
    qpc_mesh_unref(home);
    qpc_mesh_unref(away);
    generated_fini(&g);
}

/// Under x -> A x second moments go to det(A) A C A': a skewed cube has all products of inertia.
static void a_skewed_mesh_has_the_products_of_inertia_of_algebra(void **state) {
    (void)state;
    const double A[3][3] = {{1, 0.3, -0.2}, {0.4, 2, 0.1}, {-0.5, 0.2, 0.7}};
    double det = A[0][0] * (A[1][1] * A[2][2] - A[1][2] * A[2][1]) -
                 A[0][1] * (A[1][0] * A[2][2] - A[1][2] * A[2][0]) +
                 A[0][2] * (A[1][0] * A[2][1] - A[1][1] * A[2][0]);
    double x[24], C[3][3] = {{0}};
    for (int v = 0; v < 8; v++)
        for (int i = 0; i < 3; i++)
            x[3 * v + i] =
                A[i][0] * CUBE[3 * v] + A[i][1] * CUBE[3 * v + 1] + A[i][2] * CUBE[3 * v + 2];
    for (int i = 0; i < 3; i++) // a unit cube has C = 1/12
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 3; k++) C[i][j] += det * A[i][k] * A[j][k] / 12;
    qpc_error err = {0};
    qpc_inertia body;
    int32_t faces[45];
    memcpy(faces, FACES, sizeof FACES);
    // Triangles without area, twice a corner or folded onto an edge and back, change nothing.
    memcpy(faces + 36, (const int32_t[9]){3, 3, 1, 0, 1, 0, 5, 5, 5}, 9 * sizeof *faces);
    qpc_mesh *mesh = mesh_of(x, 8, faces, 15);
    assert_ok(qpc_inertia_of_mesh(mesh, 1, 3, false, &body, &err), &err);
    assert_near(body.mass, 3 * det, 1e-14);
    double trace = C[0][0] + C[1][1] + C[2][2];
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++)
            assert_near(body.tensor.m[3 * i + j], 3 * ((i == j ? trace : 0) - C[i][j]), 1e-14);
        double middle = 0.5 * (A[i][0] + A[i][1] + A[i][2]);
        assert_near(i == 0 ? body.centre.x : i == 1 ? body.centre.y : body.centre.z, middle, 1e-15);
    }
    const qpc_rigid_body own = {1, {body.moment[0], body.moment[1], body.moment[2]}};
    qpc_mat3 again = qpc_rigid_tensor(&own, body.axes);
    for (int i = 0; i < 9; i++) assert_near(again.m[i], body.tensor.m[i], 1e-14);
    qpc_mesh_unref(mesh);
}

static void the_principal_frame_gives_the_tensor_back(void **state) {
    (void)state;
    uint64_t seed = 7;
    for (int n = 0; n < 200; n++) {
        double q[4], diagonal[3];
        for (int i = 0; i < 7; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            double u = (double)(seed >> 11) / 9007199254740992.0;
            if (i < 4) q[i] = u - 0.5;
            if (i >= 4) diagonal[i - 4] = exp(10 * (u - 0.5));
        }
        if (n % 4 == 1) diagonal[1] = diagonal[0];
        if (n % 4 == 2) diagonal[1] = diagonal[2] = diagonal[0];
        if (n % 4 == 3) diagonal[2] = diagonal[1] * (1 + 1e-9);
        assert_true(qpc_quat_normalise(q));
        const qpc_rigid_body body = {1, {diagonal[0], diagonal[1], diagonal[2]}};
        qpc_mat3 tensor = qpc_rigid_tensor(&body, q);
        qpc_rigid_body found = {.mass = 1};
        double axes[4], trace = diagonal[0] + diagonal[1] + diagonal[2];
        qpc_principal_axes(&tensor, found.moment, axes);
        qpc_mat3 again = qpc_rigid_tensor(&found, axes);
        for (int i = 0; i < 9; i++) assert_near(again.m[i], tensor.m[i], 1e-14 * trace);
        double norm = 0;
        for (int i = 0; i < 4; i++) norm += axes[i] * axes[i];
        assert_near(norm, 1, 1e-15);
        assert_near(found.moment[0] + found.moment[1] + found.moment[2], trace, 1e-14 * trace);
    }
}

static void primitives_have_their_closed_forms(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_inertia body, limit;
    assert_ok(qpc_inertia_of_sphere(0.5, 2, &body, &err), &err);
    assert_near(body.mass, 2 * 4.0 / 3 * PI * 0.125, 1e-15);
    for (int i = 0; i < 3; i++) assert_near(body.moment[i], 0.4 * body.mass * 0.25, 1e-15);
    assert_ok(qpc_inertia_of_cylinder(0.5, 3, 2, &body, &err), &err);
    assert_near(body.mass, 2 * PI * 0.25 * 3, 1e-14);
    assert_near(body.moment[2], body.mass * 0.125, 1e-14);
    assert_near(body.moment[0], body.mass * (3 * 0.25 + 9) / 12, 1e-13);
    // A capsule without a cylinder is a sphere; one that is nearly all cylinder is that.
    assert_ok(qpc_inertia_of_capsule(0.5, 0, 2, &body, &err), &err);
    assert_ok(qpc_inertia_of_sphere(0.5, 2, &limit, &err), &err);
    for (int i = 0; i < 3; i++) assert_near(body.moment[i], limit.moment[i], 1e-15);
    assert_near(body.mass, limit.mass, 1e-15);
    assert_ok(qpc_inertia_of_capsule(0.001, 3, 2e6, &body, &err), &err);
    assert_ok(qpc_inertia_of_cylinder(0.001, 3, 2e6, &limit, &err), &err);
    assert_near(body.moment[0] / limit.moment[0], 1, 3e-3); // caps: 4/3 r of 3 m, at the ends
    assert_ok(qpc_inertia_set_mass(&limit, 5, &err), &err);
    assert_near(limit.mass, 5, 0);
    assert_near(limit.moment[0], 5 * (3e-6 + 9) / 12, 1e-14);
    assert_near(limit.tensor.m[8], 5 * 0.5e-6, 1e-20);
}

/// What a capsule's integral is by slices across its axis (Simpson's rule).
static void a_capsule_agrees_with_its_slices(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_inertia body;
    const double r = 0.3, l = 1.1, half = l / 2 + r;
    enum { SLICES = 200000 };
    double mass = 0, along = 0, across = 0;
    for (int i = 0; i <= SLICES; i++) {
        double z = half * (2.0 * i / SLICES - 1), beyond = fmax(0, fabs(z) - l / 2);
        double radius2 = fmax(0, r * r - beyond * beyond);
        double w = (i == 0 || i == SLICES ? 1.0 : i % 2 ? 4.0 : 2.0) * 2 * half / SLICES / 3;
        mass += w * PI * radius2;
        along += w * PI * radius2 * radius2 / 2;
        across += w * PI * radius2 * (radius2 / 4 + z * z);
    }
    assert_ok(qpc_inertia_of_capsule(r, l, 1, &body, &err), &err);
    assert_near(body.mass, mass, 1e-9); // the rule is of second order where the caps begin
    assert_near(body.moment[2], along, 1e-9);
    assert_near(body.moment[0], across, 1e-9);
}

static void a_fine_sphere_mesh_comes_close_to_the_sphere(void **state) {
    (void)state;
    qpc_error err = {0};
    double error[2];
    for (int k = 0; k < 2; k++) {
        generated g = {0};
        qpc_inertia mesh_inertia, sphere;
        assert_true(generate_sphere(&g, k ? 80 : 40, 0.2));
        qpc_mesh *mesh = generated_mesh(&g);
        qpc_status status = qpc_inertia_of_mesh(mesh, 1, 1000, false, &mesh_inertia, &err);
        assert_ok(status, &err);
        assert_ok(qpc_inertia_of_sphere(0.2, 1000, &sphere, &err), &err);
        error[k] = fabs(mesh_inertia.moment[0] / sphere.moment[0] - 1);
        qpc_mesh_unref(mesh);
        generated_fini(&g);
    }
    assert_true(error[1] < 0.01);
    assert_near(error[0] / error[1], 4, 0.2); // second order in the edges
}

static void meshes_that_are_no_solid_are_refused_by_name(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_inertia body = {.mass = -7};
    int32_t faces[36];
    qpc_mesh *mesh = mesh_of(CUBE, 8, FACES, 12);
    assert_ok(qpc_inertia_of_mesh(mesh, 1, 1, false, &body, &err), &err);
    assert_near(body.volume, 1, 1e-15);
    body.mass = -7;
    assert_fails(qpc_inertia_of_mesh(mesh, 1, 0, false, &body, &err), QPC_ERR_INVALID, &err,
                 "density");
    assert_fails(qpc_inertia_of_mesh(mesh, -1, 1, false, &body, &err), QPC_ERR_INVALID, &err,
                 "scale");
    assert_fails(qpc_inertia_of_mesh(mesh, 1, NAN, false, &body, &err), QPC_ERR_INVALID, &err,
                 "density");
    qpc_mesh_unref(mesh);
    mesh = mesh_of(CUBE, 8, FACES, 11);
    assert_fails(qpc_inertia_of_mesh(mesh, 1, 1, false, &body, &err), QPC_ERR_INVALID, &err,
                 "open");
    qpc_mesh_unref(mesh);
    memcpy(faces, FACES, sizeof faces);
    faces[0] = 2, faces[1] = 0;
    mesh = mesh_of(CUBE, 8, faces, 12);
    assert_fails(qpc_inertia_of_mesh(mesh, 1, 1, false, &body, &err), QPC_ERR_INVALID, &err,
                 "turned over");
    qpc_mesh_unref(mesh);
    for (int i = 0; i < 36; i += 3)
        faces[i] = FACES[i + 1], faces[i + 1] = FACES[i], faces[i + 2] = FACES[i + 2];
    mesh = mesh_of(CUBE, 8, faces, 12);
    assert_fails(qpc_inertia_of_mesh(mesh, 1, 1, false, &body, &err), QPC_ERR_INVALID, &err,
                 "inside out");
    qpc_mesh_unref(mesh);
    double flat[24];
    memcpy(flat, CUBE, sizeof flat);
    for (int i = 2; i < 24; i += 3) flat[i] = 0.3 * flat[i - 2] + 0.7 * flat[i - 1];
    mesh = mesh_of(flat, 8, FACES, 12);
    assert_fails(qpc_inertia_of_mesh(mesh, 1, 1, false, &body, &err), QPC_ERR_INVALID, &err,
                 "no volume");
    qpc_mesh_unref(mesh);
    assert_near(body.mass, -7, 0);
}

static void holes_are_closed_where_that_is_asked_for(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_inertia body, cube;
    // The first two triangles are the bottom, the last two the face x = 1.
    qpc_mesh *mesh = mesh_of(CUBE, 8, FACES + 6, 8);
    assert_ok(qpc_inertia_of_box(v3(1, 1, 1), 5, &cube, &err), &err);
    assert_fails(qpc_inertia_of_mesh(mesh, 1, 5, false, &body, &err), QPC_ERR_INVALID, &err,
                 "holes closed");
    qpc_mesh_unref(mesh);
    // The bottom alone is missing; a triangle without area at an edge of the hole changes nothing.
    int32_t faces[33];
    memcpy(faces, FACES + 6, 30 * sizeof *faces);
    memcpy(faces + 30, (const int32_t[3]){0, 0, 1}, 3 * sizeof *faces);
    mesh = mesh_of(CUBE, 8, faces, 11);
    assert_ok(qpc_inertia_of_mesh(mesh, 1, 5, true, &body, &err), &err);
    assert_int_equal(body.closed, 4);
    for (int i = 0; i < 9; i++) assert_near(body.tensor.m[i], cube.tensor.m[i], 1e-15);
    assert_near(body.centre.z, 0.5, 1e-15);
    qpc_mesh_unref(mesh);
    int count = 0; // top and bottom missing: two holes, and two fans
    for (int i = 0; i < 36; i++)
        if (i / 3 > 3) faces[count++] = FACES[i];
    mesh = mesh_of(CUBE, 8, faces, count / 3);
    assert_ok(qpc_inertia_of_mesh(mesh, 1, 5, true, &body, &err), &err);
    assert_int_equal(body.closed, 8);
    for (int i = 0; i < 9; i++) assert_near(body.tensor.m[i], cube.tensor.m[i], 1e-15);
    QPC_FAULTS(f) {
        err = (qpc_error){0};
        qpc_status status = qpc_inertia_of_mesh(mesh, 1, 5, true, &body, &err);
        if (qpc_faults_ended(&f, status)) assert_near(body.mass, 5, 1e-14);
    }
    qpc_mesh_unref(mesh);
    mesh = mesh_of(CUBE, 8, FACES, 2); // a sheet closes to nothing
    assert_fails(qpc_inertia_of_mesh(mesh, 1, 5, true, &body, &err), QPC_ERR_INVALID, &err,
                 "no volume");
    qpc_mesh_unref(mesh);
    memcpy(faces, FACES + 6, 30 * sizeof *faces);
    int32_t kept = faces[0];
    faces[0] = faces[1];
    faces[1] = kept;
    mesh = mesh_of(CUBE, 8, faces, 10); // no holes close what is turned over
    assert_fails(qpc_inertia_of_mesh(mesh, 1, 5, true, &body, &err), QPC_ERR_INVALID, &err,
                 "turned over");
    qpc_mesh_unref(mesh);
}

static void a_cavity_counts_as_empty(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_inertia body, outer, inner;
    double x[48];
    int32_t faces[72];
    for (int i = 0; i < 24; i++) {
        x[i] = CUBE[i] - 0.5;
        x[24 + i] = 0.5 * x[i];
    }
    for (int i = 0; i < 36; i += 3) {
        for (int k = 0; k < 3; k++) {
            faces[i + k] = FACES[i + k];
            faces[36 + i + k] = 8 + FACES[i + (k == 0 ? 1 : k == 1 ? 0 : 2)];
        }
    }
    qpc_mesh *mesh = mesh_of(x, 16, faces, 24);
    assert_ok(qpc_inertia_of_mesh(mesh, 1, 100, false, &body, &err), &err);
    assert_ok(qpc_inertia_of_box(v3(1, 1, 1), 100, &outer, &err), &err);
    assert_ok(qpc_inertia_of_box(v3(0.5, 0.5, 0.5), 100, &inner, &err), &err);
    assert_near(body.mass, outer.mass - inner.mass, 1e-12);
    assert_near(body.moment[1], outer.moment[1] - inner.moment[1], 1e-13);
    qpc_mesh_unref(mesh);
}

static void given_inertia_is_checked(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_inertia body;
    qpc_mat3 tensor = {{2, 0.5, 0, 0.5, 2, 0, 0, 0, 3}};
    assert_ok(qpc_inertia_given(4, v3(1, 2, 3), &tensor, &body, &err), &err);
    assert_near(body.moment[0] * body.moment[1], 3.75, 1e-14); // 1.5 and 2.5
    assert_near(body.moment[2], 3, 0);
    assert_fails(qpc_inertia_given(0, v3(0, 0, 0), &tensor, &body, &err), QPC_ERR_INVALID, &err,
                 "mass");
    assert_fails(qpc_inertia_given(1, v3(0, NAN, 0), &tensor, &body, &err), QPC_ERR_INVALID, &err,
                 "centre");
    tensor.m[8] = 4.1;
    assert_fails(qpc_inertia_given(1, v3(0, 0, 0), &tensor, &body, &err), QPC_ERR_INVALID, &err,
                 "above the sum");
    tensor.m[8] = -1;
    assert_fails(qpc_inertia_given(1, v3(0, 0, 0), &tensor, &body, &err), QPC_ERR_INVALID, &err,
                 "positive");
    tensor.m[8] = INFINITY;
    assert_fails(qpc_inertia_given(1, v3(0, 0, 0), &tensor, &body, &err), QPC_ERR_INVALID, &err,
                 "finite");
    tensor.m[8] = 3;
    tensor.m[1] = 0.4;
    assert_fails(qpc_inertia_given(1, v3(0, 0, 0), &tensor, &body, &err), QPC_ERR_INVALID, &err,
                 "symmetric");
    assert_fails(qpc_inertia_of_sphere(-1, 1, &body, &err), QPC_ERR_INVALID, &err, "radius");
    assert_fails(qpc_inertia_of_capsule(1, -1, 1, &body, &err), QPC_ERR_INVALID, &err, "length");
    assert_fails(qpc_inertia_of_box(v3(1, 0, 1), 1, &body, &err), QPC_ERR_INVALID, &err, "along y");
    assert_fails(qpc_inertia_set_mass(&body, -1, &err), QPC_ERR_INVALID, &err, "mass");
    assert_near(body.mass, 4, 0);
}

static void memory_that_runs_out_leaves_nothing(void **state) {
    (void)state;
    qpc_mesh *mesh = mesh_of(CUBE, 8, FACES, 12);
    QPC_FAULTS(f) {
        qpc_error err = {0};
        qpc_inertia body;
        qpc_status status = qpc_inertia_of_mesh(mesh, 1, 1, false, &body, &err);
        if (qpc_faults_ended(&f, status)) assert_near(body.mass, 1, 1e-15);
    }
    qpc_mesh_unref(mesh);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mesh_of_a_box_has_the_inertia_of_the_box),
        cmocka_unit_test(a_kilometre_away_and_turned_it_is_the_same_body),
        cmocka_unit_test(a_skewed_mesh_has_the_products_of_inertia_of_algebra),
        cmocka_unit_test(the_principal_frame_gives_the_tensor_back),
        cmocka_unit_test(primitives_have_their_closed_forms),
        cmocka_unit_test(a_capsule_agrees_with_its_slices),
        cmocka_unit_test(a_fine_sphere_mesh_comes_close_to_the_sphere),
        cmocka_unit_test(meshes_that_are_no_solid_are_refused_by_name),
        cmocka_unit_test(holes_are_closed_where_that_is_asked_for),
        cmocka_unit_test(a_cavity_counts_as_empty),
        cmocka_unit_test(given_inertia_is_checked),
        cmocka_unit_test(memory_that_runs_out_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
