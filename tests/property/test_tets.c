/// Refinement studies of boxes of linear tetrahedra against tests/data/physics: cantilever_beam, twisted_square_bar,
/// column_own_weight. Slow: the finest cantilever has 204,800 elements.
///
/// Constant strain makes linear tetrahedra too stiff in bending: the error falls with the square of the cell size, but from
/// a third of the deflection with two cells across. Cells of five tetrahedra, mirrored from one to the next, lock less than
/// six around a diagonal (10.8 % instead of 20.8 % short at four cells across), and have fewer elements.
#include "tests/support/oracle.h"
#include "tests/support/softload.h"

#include <stdlib.h>

static oracle open_file(const char *name) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/physics/%s.json", QPC_TEST_DATA, name);
    return oracle_open(path);
}

static void make_bar(softbox *b, const oracle *o, const char *length, int32_t along, int32_t across) {
    qpc_error err = {0};
    double side = oracle_setup(o, "side_m");
    if (!softbox_make(b, (int32_t[]){along, across, across}, (double[]){oracle_setup(o, length), side, side}, true,
                      oracle_setup(o, "young_Pa"), oracle_setup(o, "poisson"), QPC_TET_COROTATIONAL, &err))
        fail_msg("%s", err.message);
}

static double result(const oracle *o, const char *quantity, double *ret_tolerance) {
    double value[2];
    oracle_result(o, quantity, value, 2, ret_tolerance);
    return value[0];
}

/// Errors of a study: of one sign, and falling by a factor between `least` and `most` from mesh to mesh.
static void assert_converges(const char *name, const double *error, int count, double least, double most) {
    for (int k = 0; k + 1 < count; k++) {
        double factor = error[k] / error[k + 1];
        if (!(factor > least && factor < most)) fail_msg("%s: error %g, then %g", name, error[k], error[k + 1]);
    }
}

static void a_cantilever_bends_by_the_theory(void **state) {
    (void)state;
    oracle o = open_file("cantilever_beam");
    double force = oracle_setup(&o, "tip_load_N"), length = oracle_setup(&o, "length_m"), tolerance[2], error[2][3];
    double want[2] = {result(&o, "tip deflection under the end load, 3D", &tolerance[0]), result(&o, "tip deflection under own weight", &tolerance[1])};
    for (int k = 0; k < 3; k++)
        for (int own = 0; own < 2; own++) {
            softbox b;
            make_bar(&b, &o, "length_m", 40 << k, 4 << k);
            softload s = softload_make(&b);
            double moment = 0, lift = 0;
            if (own) softload_weight(&b, oracle_setup(&o, "density_kg_m3"), -oracle_setup(&o, "gravity_m_s2"), 2, s.load);
            else softload_end(&b, (double[]){0, 0, -force}, s.load);
            for (int32_t i = 0; i < 3 * b.nodes; i++) s.held[i] = b.x[i - i % 3] == 0;
            softload_solve(&b, &s);
            error[own][k] = (want[own] + softload_mean_at_end(&b, s.u, 2)) / want[own];
            for (int32_t i = 0; i < b.nodes && !own; i++)
                if (s.held[3 * i]) {
                    lift += s.support[3 * i + 2];
                    moment -= s.support[3 * i] * b.x[3 * i + 2];
                }
            if (!own) {
                double support[2], most;
                oracle_result(&o, "support force and moment", support, 2, &most);
                assert_near(lift, support[0], most);
                assert_near(fabs(moment), support[1], most * (1 + length));
            }
            print_message("%s, %d cells across, %d elements: %.2f %% short\n", own ? "own weight" : "end load", 4 << k, b.count, 100 * error[own][k]);
            softload_fini(&s);
            softbox_fini(&b);
        }
    for (int own = 0; own < 2; own++) {
        assert_converges("cantilever", error[own], 3, 3, 4.5);
        assert_near(error[own][2] * want[own], 0, tolerance[own]); // 1 %
    }
    oracle_close(&o);
}

static void a_twisted_bar_has_saint_venants_torque(void **state) {
    (void)state;
    oracle o = open_file("twisted_square_bar");
    double twist = oracle_setup(&o, "twist_deg") * acos(-1.0) / 180, tolerance[2], error[2][3];
    double want[2] = {result(&o, "torque", &tolerance[0]), result(&o, "strain energy", &tolerance[1])};
    for (int k = 0; k < 3; k++) {
        softbox b;
        make_bar(&b, &o, "length_m", 40 << k, 4 << k);
        softload s = softload_make(&b);
        double torque = 0, energy = 0;
        for (int32_t i = 0; i < b.nodes; i++) {
            double y = b.x[3 * i + 1] - b.size[1] / 2, z = b.x[3 * i + 2] - b.size[2] / 2;
            bool far = softload_at_end(&b, i, 0);
            if (!far && b.x[3 * i] > 0) continue;
            s.held[3 * i + 1] = s.held[3 * i + 2] = 1;
            s.u[3 * i + 1] = -(far ? 0.5 : -0.5) * twist * z;
            s.u[3 * i + 2] = (far ? 0.5 : -0.5) * twist * y;
        }
        s.held[3 * softbox_node(&b, 20 << k, 2 << k, 2 << k)] = 1; // the axis does not slide
        softload_solve(&b, &s);
        for (int32_t i = 0; i < b.nodes; i++) {
            for (int r = 0; r < 3; r++) energy += 0.5 * s.u[3 * i + r] * s.support[3 * i + r];
            if (softload_at_end(&b, i, 0))
                torque += (b.x[3 * i + 1] - b.size[1] / 2) * s.support[3 * i + 2] - (b.x[3 * i + 2] - b.size[2] / 2) * s.support[3 * i + 1];
        }
        error[0][k] = (torque - want[0]) / want[0];
        error[1][k] = (energy - want[1]) / want[1];
        print_message("twist, %d cells across, %d elements: %.2f %% too stiff\n", 4 << k, b.count, 100 * error[0][k]);
        softload_fini(&s);
        softbox_fini(&b);
    }
    for (int q = 0; q < 2; q++) {
        assert_converges("twist", error[q], 3, 2.5, 4.5);
        assert_near(error[q][2] * want[q], 0, tolerance[q]);
    }
    oracle_close(&o);
}

static void a_column_converges_with_the_square_of_the_cells(void **state) {
    (void)state;
    oracle o = open_file("column_own_weight");
    for (int walls = 0; walls < 2; walls++) {
        double tolerance, want = result(&o, walls ? "(b)" : "(a)", &tolerance), error[3];
        for (int k = 0; k < 3; k++) {
            softbox b;
            make_bar(&b, &o, "height_m", 8 << k, 2 << k);
            softload s = softload_make(&b);
            softload_weight(&b, oracle_setup(&o, "density_kg_m3"), -oracle_setup(&o, "gravity_m_s2"), 0, s.load);
            for (int32_t i = 0; i < 3 * b.nodes; i++) s.held[i] = b.x[i] == 0 || (walls && i % 3 > 0);
            if (!walls) // the middle of its faces slides up and down only
                for (int32_t i = 0; i < b.nodes; i++)
                    for (int r = 1; r < 3; r++) s.held[3 * i + r] = fabs(b.x[3 * i + r] - b.size[r] / 2) < 1e-9 * b.size[r];
            softload_solve(&b, &s);
            error[k] = (want + s.u[3 * softbox_node(&b, 8 << k, 1 << k, 1 << k)]) / want;
            print_message("column %d, %d cells high: %.3f %%\n", walls, 8 << k, 100 * error[k]);
            softload_fini(&s);
            softbox_fini(&b);
        }
        assert_near(error[2] * want, 0, tolerance);
        // (a) is the law of a bar whose base may bend; flat, it gives 0.04 % less
        if (walls) assert_converges("column", error, 3, 3, 5);
    }
    oracle_close(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cantilever_bends_by_the_theory),
        cmocka_unit_test(a_twisted_bar_has_saint_venants_torque),
        cmocka_unit_test(a_column_converges_with_the_square_of_the_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
