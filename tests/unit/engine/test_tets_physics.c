/// Tetrahedra against tests/data/physics: single_tet_forces, patch_test_tets, bar_stretch_tets, column_own_weight. What
/// is stated for small strain is asked of H at the rest shape. Refinement studies: tests/property/test_tets.c.
#include "engine/dynamics/tets.h"

#include "base/vec.h"
#include "tests/support/oracle.h"
#include "tests/support/softload.h"

static oracle open_file(const char *name) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/physics/%s.json", QPC_TEST_DATA, name);
    return oracle_open(path);
}

static void compare(const oracle *o, const char *quantity, const double *got, int32_t count) {
    double want[144], tolerance;
    assert_int_equal(oracle_result(o, quantity, want, 144, &tolerance), count);
    for (int32_t i = 0; i < count; i++)
        if (!(fabs(got[i] - want[i]) <= tolerance))
            fail_msg("%s [%d] is %.17g, want %.17g within %g", quantity, i, got[i], want[i], tolerance);
}

/// A softbox of other elements than those of a box.
static void make_mesh(softbox *b, const double *x, int32_t nodes, const int32_t *tet, int32_t count, double young, double poisson,
                      qpc_tet_material material) {
    qpc_error err = {0};
    memset(b, 0, sizeof *b);
    b->nodes = nodes;
    b->count = count;
    b->x = malloc(3 * sizeof *x * (size_t)nodes);
    b->tet = malloc(4 * sizeof *tet * (size_t)count);
    assert_true(b->x != NULL && b->tet != NULL);
    memcpy(b->x, x, 3 * sizeof *x * (size_t)nodes);
    memcpy(b->tet, tet, 4 * sizeof *tet * (size_t)count);
    if (!softbox_finish(b, young, poisson, material, &err)) fail_msg("%s", err.message);
}

/// Eigenvalues of K come by Sturm's law of inertia: as many are below s as K - s has negative pivots.
static int below(const double *K, double s) {
    double A[12][12];
    int count = 0;
    for (int i = 0; i < 144; i++) A[i / 12][i % 12] = K[i] - (i % 13 == 0 ? s : 0);
    for (int k = 0; k < 12; k++) {
        count += A[k][k] < 0;
        for (int i = k + 1; i < 12; i++)
            for (int j = k + 1; j < 12; j++) A[i][j] -= A[i][k] * A[k][j] / A[k][k];
    }
    return count;
}

static void one_element_has_the_forces_of_the_file(void **state) {
    (void)state;
    for (int m = 0; m < 2; m++) {
        oracle o = open_file("single_tet_forces");
        double h = oracle_setup(&o, "h_m"), u[12], R[9], want[12], tolerance;
        double x[12] = {0, 0, 0, h, 0, 0, 0, h, 0, 0, 0, h}, y[12], zero[12] = {0}, f[12] = {0}, K[144];
        static const int32_t node[] = {0, 1, 2, 3};
        softbox b;
        oracle_setup_list(&o, "displacement_m", u, 12);
        oracle_setup_list(&o, "rotation_matrix", R, 9);
        make_mesh(&b, x, 4, node, 1, oracle_setup(&o, "young_Pa"), oracle_setup(&o, "poisson"), m ? QPC_TET_NEO_HOOKEAN : QPC_TET_COROTATIONAL);
        qpc_tets_linearise(&b.tets, x, u, 1, &b.K, NULL, f);
        for (int i = 0; i < 12; i++)
            for (int j = 0; j < 12; j++) K[12 * i + j] = *qpc_linsys_entry(&b.K, i > j ? i : j, i > j ? j : i);
        compare(&o, "stiffness matrix", K, 144);
        oracle_result(&o, "eigenvalues, rising", want, 12, &tolerance);
        for (int e = 0; e < 12; e++) {
            assert_true(below(K, want[e] + tolerance) >= e + 1);
            assert_true(below(K, want[e] - tolerance) <= e);
        }
        double energy = 0;
        for (int i = 0; i < 12; i++) {
            energy += 0.5 * u[i] * f[i];
            f[i] = -f[i]; // the elastic force is against the motion
        }
        double turn[12] = {0}, largest = 0;
        compare(&o, "linear elastic forces on the vertices", f, 12);
        compare(&o, "linear strain energy of the displacement", &energy, 1);
        for (int i = 0; i < 12; i++) {
            y[i] = R[3 * (i % 3)] * x[i - i % 3] + R[3 * (i % 3) + 1] * x[i - i % 3 + 1] + R[3 * (i % 3) + 2] * x[i - i % 3 + 2];
            turn[i] = y[i] - x[i];
            f[i] = 0;
        }
        qpc_tets_force(&b.tets, y, f);
        for (int i = 0; i < 12; i++) largest = fmax(largest, fabs(f[i]));
        compare(&o, "largest force after a pure rotation by the given matrix: corotational", (double[]){largest, 0}, 2);
        memset(f, 0, sizeof f);
        qpc_tets_linearise(&b.tets, x, turn, 1, NULL, NULL, f);
        for (int i = 0; i < 12; i++) largest = fmax(largest, fabs(f[i]));
        compare(&o, "largest force after the same rotation by the linear law", &largest, 1);
        if (m == 0) {
            memset(f, 0, sizeof f);
            for (int i = 0; i < 12; i++) y[i] = x[i] + u[i];
            qpc_tets_linearise(&b.tets, y, zero, 1, NULL, f, NULL);
            compare(&o, "corotational forces on the vertices", f, 12);
        }
        softbox_fini(&b);
        oracle_close(&o);
    }
}

static void make_patch(const oracle *o, softbox *b, qpc_tet_material material) {
    double x[27], list[48];
    int32_t tet[48];
    assert_int_equal(oracle_setup_list(o, "vertices_m", x, 27), 27);
    assert_int_equal(oracle_setup_list(o, "tets", list, 48), 48);
    for (int k = 0; k < 48; k++) tet[k] = (int32_t)list[k];
    for (int k = 0; k < 12; k++) softbox_turn(x, tet + 4 * k);
    make_mesh(b, x, 9, tet, 12, oracle_setup(o, "young_Pa"), oracle_setup(o, "poisson"), material);
}

static void the_patch_test_is_exact(void **state) {
    (void)state;
    for (int m = 0; m < 2; m++) {
        oracle o = open_file("patch_test_tets");
        softbox b;
        make_patch(&o, &b, m ? QPC_TET_NEO_HOOKEAN : QPC_TET_COROTATIONAL);
        double A[9], energy = 0;
        oracle_setup_list(&o, "A", A, 9);
        softload s = softload_make(&b);
        for (int i = 0; i < 24; i++) {
            const double *p = b.x + i - i % 3, *row = A + 3 * (i % 3);
            s.held[i] = 1;
            s.u[i] = row[0] * p[0] + row[1] * p[1] + row[2] * p[2];
        }
        softload_solve(&b, &s);
        compare(&o, "displacement of the inner vertex", s.u + 24, 3);
        compare(&o, "support forces on the 8 corners", s.support, 24);
        for (int i = 0; i < 27; i++) energy += 0.5 * s.u[i] * s.support[i];
        compare(&o, "strain energy", &energy, 1);
        // stress, by its limit for a small part of the displacement: rounding over it, and a relative error of strain times it
        double part = 1e-4, x[27], stress[72], want[6], tolerance;
        for (int i = 0; i < 27; i++) x[i] = b.x[i] + part * s.u[i];
        qpc_tets_stress(&b.tets, x, stress);
        oracle_result(&o, "stress (xx", want, 6, &tolerance);
        for (int k = 0; k < 72; k++) assert_near(stress[k] / part, want[k % 6], tolerance + 1e-6 * 1443);
        softload_fini(&s);
        softbox_fini(&b);
        oracle_close(&o);
    }
}

/// Any affine motion, however large: one stress everywhere, no force on the inner vertex.
static void a_large_affine_motion_is_a_patch_test_too(void **state) {
    (void)state;
    static const double A[9] = {1.4, 0.6, -0.2, -0.5, 0.7, 0.3, 0.1, -0.4, 1.2};
    for (int m = 0; m < 2; m++) {
        oracle o = open_file("patch_test_tets");
        softbox b;
        make_patch(&o, &b, m ? QPC_TET_NEO_HOOKEAN : QPC_TET_COROTATIONAL);
        double x[27], f[27] = {0}, stress[72], size = 0;
        for (int i = 0; i < 27; i++) {
            const double *p = b.x + i - i % 3, *row = A + 3 * (i % 3);
            x[i] = row[0] * p[0] + row[1] * p[1] + row[2] * p[2];
        }
        qpc_tets_force(&b.tets, x, f);
        qpc_tets_stress(&b.tets, x, stress);
        for (int i = 0; i < 27; i++) size = fmax(size, fabs(f[i]));
        assert_true(size > 1e4);
        for (int i = 24; i < 27; i++) assert_near(f[i], 0, 1e-13 * size);
        for (int k = 6; k < 72; k++) assert_near(stress[k], stress[k % 6], 1e-13 * 1e7);
        softbox_fini(&b);
        oracle_close(&o);
    }
}

static void a_bar_stretches_as_f_over_ea(void **state) {
    (void)state;
    oracle o = open_file("bar_stretch_tets");
    double length = oracle_setup(&o, "length_m"), side = oracle_setup(&o, "side_m"), energy = 0;
    for (int five = 0; five < 2; five++) {
        softbox b;
        qpc_error err = {0};
        if (!softbox_make(&b, (int32_t[]){8, 3, 2}, (double[]){length, side, side}, five, oracle_setup(&o, "young_Pa"), oracle_setup(&o, "poisson"),
                          QPC_TET_COROTATIONAL, &err))
            fail_msg("%s", err.message);
        softload s = softload_make(&b);
        softload_end(&b, (double[]){oracle_setup(&o, "pull_N"), 0, 0}, s.load);
        // rollers; one edge keeps y, one z: the axis of the bar is not a row of nodes, so the corner is measured from there
        for (int32_t i = 0; i < b.nodes; i++)
            for (int r = 0; r < 3; r++) s.held[3 * i + r] = b.x[3 * i + r] == 0;
        softload_solve(&b, &s);
        const double *corner = s.u + 3 * softbox_node(&b, 8, 3, 2);
        compare(&o, "displacement of the corner", (double[]){corner[0], corner[1] / 2, corner[2] / 2}, 3);
        energy = 0;
        for (int32_t i = 0; i < 3 * b.nodes; i++) energy += 0.5 * s.u[i] * s.support[i];
        compare(&o, "strain energy", &energy, 1);
        double *x = malloc(3 * sizeof *x * (size_t)b.nodes), *stress = malloc(6 * sizeof *stress * (size_t)b.count), part = 1e-4;
        assert_true(x != NULL && stress != NULL);
        for (int32_t i = 0; i < 3 * b.nodes; i++) x[i] = b.x[i] + part * s.u[i];
        qpc_tets_stress(&b.tets, x, stress);
        for (int32_t e = 0; e < b.count; e++) assert_near(stress[6 * e] / part, 5000, 0.01); // strain 5e-7 of it, and rounding
        free(x);
        free(stress);
        softload_fini(&s);
        softbox_fini(&b);
    }
    oracle_close(&o);
}

/// The column lies along x here; its weight pulls towards x = 0.
static void a_column_settles_under_its_weight(void **state) {
    (void)state;
    oracle o = open_file("column_own_weight");
    double height = oracle_setup(&o, "height_m"), side = oracle_setup(&o, "side_m");
    for (int walls = 0; walls < 2; walls++) {
        softbox b;
        qpc_error err = {0};
        if (!softbox_make(&b, (int32_t[]){16, 2, 2}, (double[]){height, side, side}, true, oracle_setup(&o, "young_Pa"), oracle_setup(&o, "poisson"),
                          QPC_TET_NEO_HOOKEAN, &err))
            fail_msg("%s", err.message);
        softload s = softload_make(&b);
        double weight = softload_weight(&b, oracle_setup(&o, "density_kg_m3"), -oracle_setup(&o, "gravity_m_s2"), 0, s.load), base = 0;
        for (int32_t i = 0; i < b.nodes; i++)
            for (int r = 0; r < 3; r++) s.held[3 * i + r] = b.x[3 * i + r] == 0 || (walls && r > 0);
        softload_solve(&b, &s);
        double drop = -s.u[3 * softbox_node(&b, 16, 1, 1)];
        compare(&o, walls ? "(b)" : "(a)", &drop, 1);
        for (int32_t i = 0; i < b.nodes; i++)
            if (b.x[3 * i] == 0) base += s.support[3 * i] - s.load[3 * i];
        compare(&o, "force on the base", &base, 1);
        assert_near(base, -weight, 1e-9);
        softload_fini(&s);
        softbox_fini(&b);
    }
    oracle_close(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_element_has_the_forces_of_the_file),
        cmocka_unit_test(the_patch_test_is_exact),
        cmocka_unit_test(a_large_affine_motion_is_a_patch_test_too),
        cmocka_unit_test(a_bar_stretches_as_f_over_ea),
        cmocka_unit_test(a_column_settles_under_its_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
