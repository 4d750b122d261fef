// Soft bodies in worlds (docs/theory-soft.md): against closed forms, and the promise in scenes in which they fall, are pressed
// and touch themselves.
#include "base/vec.h"
#include "tests/property/promised.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/// Both ends of a rod of 3 x 3 nodes across are on nodes 0 to 8 and the last nine.
static void put_ends(char *text, size_t size, int columns) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < 9; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%d", i > 0 ? "," : "", i + 9 * columns);
}

/// Hung by its upper end, nu = 0: at y below it rho g (L y - y^2 / 2) / E further down. Lumped masses of these elements are not
/// even over a layer, so that the ends of the bar bulge; means over layers follow the rod.
static void a_hanging_bar_stretches_as_a_rod(void **state) {
    (void)state;
    enum { COLUMNS = 10 };
    simulation sim;
    worst w = {0};
    char text[1024], ends[128];
    double young = 1e5, density = 1000, g = 10, length = 1;
    put_ends(ends, sizeof ends, COLUMNS);
    (void)snprintf(text, sizeof text,
                   "{'dt': 0.1, 'gravity': [-10, 0, 0], 'bodies': [{'kind': 'soft', 'mesh': {'generate': {'kind': 'block',"
                   "'columns': %d, 'rows': 2, 'layers': 2, 'width': 1, 'height': 0.2, 'depth': 0.2}}, 'radius': 0.001,"
                   "'density': %g, 'young': %g, 'poisson': 0}], 'constraints': [{'kind': 'fixed', 'body': 0, 'nodes': [%s]}]}",
                   COLUMNS, density, young, ends);
    simulation_start(&sim, text);
    double top = simulation_x(&sim, 9 * COLUMNS)[0];
    run(&sim, 400, &w);
    for (int layer = 0; layer < COLUMNS; layer++) {
        double mean = 0, y = length * (COLUMNS - layer) / COLUMNS;
        for (int i = 0; i < 9; i++) mean += (top - simulation_x(&sim, 9 * layer + i)[0]) / 9;
        double sag = density * g * (length * y - y * y / 2) / young;
        assert_near(mean - y, sag, 0.02 * density * g * length * length / (2 * young));
    }
    end_promised(&sim, &w, 0);
}

/// A force on the free end and none else: E A strain, exactly, since the strain is uniform where the ends may move aside.
static void pulled_evenly_it_is_hookes_law(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    simulation_start(&sim, "{'dt': 0.2, 'gravity': [0, 0, 0], 'bodies': [{'kind': 'soft', 'mesh': {'generate': {'kind': 'block',"
                           "'columns': 3, 'rows': 1, 'layers': 1, 'width': 0.6, 'height': 0.2, 'depth': 0.2}}, 'radius': 0.001,"
                           "'mass': 1, 'young': 1e5, 'poisson': 0.3}]}");
    // 20 N on each end as tractions: the ends are cut from their first to their last corner, a third of each half goes to its corners
    for (int i = 0; i < 8; i++) {
        char control[200];
        int corner = i % 4;
        double share = corner == 0 || corner == 3 ? 2.0 / 6 : 1.0 / 6;
        (void)snprintf(control, sizeof control, "{'forces': [{'body': 0, 'nodes': [%d], 'force': [%.17g, 0, 0]}]}",
                       i < 4 ? corner : 12 + corner, (i < 4 ? -20.0 : 20.0) * share);
        simulation_control(&sim, control);
    }
    run(&sim, 200, &w);
    double left = 0, right = 0, high = 0, low = 0;
    for (int i = 0; i < 4; i++) {
        left += simulation_x(&sim, i)[0] / 4;
        right += simulation_x(&sim, 12 + i)[0] / 4;
    }
    for (int i = 0; i < 16; i++) {
        double y = simulation_x(&sim, i)[1];
        if (i % 4 >= 2) high += y / 8;
        else low += y / 8;
    }
    double stress = 20 / (0.2 * 0.2), strain = stress / 1e5;
    print_message("  strain over Hooke's %.6f, contraction over Poisson's %.6f\n", (right - left - 0.6) / 0.6 / strain,
                  (0.2 - (high - low)) / 0.2 / (0.3 * strain));
    assert_near((right - left - 0.6) / 0.6, strain, 1e-5 * strain);
    assert_near((0.2 - (high - low)) / 0.2, 0.3 * strain, 1e-4 * strain);
    end_promised(&sim, &w, 0);
}

static void an_isolated_body_keeps_its_momentum(void **state) {
    (void)state;
    static const char *const models[] = {"corotational", "neo-hookean"};
    for (int m = 0; m < 2; m++) {
        simulation sim;
        worst w = {0};
        char text[8192];
        size_t used = (size_t)snprintf(text, sizeof text,
                                       "{'dt': 0.01, 'gravity': [0, 0, 0], 'bodies': [{'kind': 'soft', 'mesh': {'generate': {'kind': 'block',"
                                       "'columns': 3, 'width': 0.3}}, 'radius': 0.002, 'mass': 2, 'young': 1e4, 'model': '%s', 'velocity': [",
                                       models[m]);
        for (int i = 0; i < 64; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s[%.3g, %.3g, %.3g]", i ? "," : "", 0.5 * sin(3.0 * i) + 0.5,
                                     0.5 * sin(5.0 * i + 1), 0.5 * cos(7.0 * i));
        (void)snprintf(text + used, sizeof text - used, "]}]}");
        simulation_start(&sim, text);
        run(&sim, 1, &w);
        qpc_step_report first = sim.report;
        run(&sim, 150, &w);
        assert_near(sim.report.momentum_x, first.momentum_x, 1e-9);
        assert_near(sim.report.momentum_y, first.momentum_y, 1e-9);
        assert_near(sim.report.momentum_z, first.momentum_z, 1e-9);
        assert_true(sim.report.kinetic + sim.report.elastic < first.kinetic + first.elastic);
        end_promised(&sim, &w, 0);
    }
}

// ---- scenes ----

static void a_ball_falls_on_a_floor(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    simulation_start(&sim, "{'dt': 0.005, 'bodies': [{'kind': 'soft', 'mesh': {'generate': {'kind': 'ellipsoid', 'columns': 6, 'width': 0.3,"
                           "'height': 0.2}}, 'position': [0, 0.2, 0], 'radius': 0.005, 'density': 300, 'young': 2e4},"
                           "{'kind': 'static', 'mesh': {'generate': {'kind': 'sheet', 'width': 4, 'depth': 4}}}]}");
    run(&sim, 200, &w);
    double low = 1;
    for (int i = 0; i < 343; i++) low = fmin(low, simulation_x(&sim, i)[1]);
    assert_true(low >= 0.005 * 0.95 && low < 0.0052);
    end_promised(&sim, &w, 4);
}

/// Its weight is what the floor carries.
static void a_block_at_rest_weighs_what_it_should(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    simulation_start(&sim, "{'dt': 0.02, 'gravity': [0, -10, 0], 'bodies': [{'kind': 'soft', 'mesh': {'generate': {'kind': 'block', 'columns': 3,"
                           "'width': 0.2}}, 'position': [0, 0.105, 0], 'radius': 0.005, 'mass': 4, 'young': 5e4, 'model': 'neo-hookean'},"
                           "{'kind': 'static', 'mesh': {'generate': {'kind': 'box', 'width': 2, 'height': 0.2, 'depth': 2}}, 'position': [0, -0.1, 0]}]}");
    run(&sim, 200, &w);
    int32_t count;
    const qpc_contact_info *c = qpc_world_contacts(sim.w.world, &count);
    double force = 0;
    for (int32_t i = 0; i < count; i++) force += c[i].force * fabs(c[i].normal[1]);
    assert_near(force, 40, 1e-3);
    end_promised(&sim, &w, 16);
}

static void everything_touches_soft_bodies(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    simulation_start(&sim,
                     "{'dt': 0.005, 'bodies': [{'kind': 'soft', 'mesh': {'generate': {'kind': 'block', 'columns': 3, 'width': 0.3, 'height': 0.1}},"
                     "'position': [0, 0.06, 0], 'radius': 0.005, 'density': 300, 'young': 3e4},"
                     "{'kind': 'soft', 'mesh': {'generate': {'kind': 'ellipsoid', 'columns': 4, 'width': 0.15}}, 'position': [0.02, 0.21, 0.01],"
                     "'radius': 0.005, 'density': 300, 'young': 3e4},"
                     "{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 7, 'width': 0.4}}, 'mass': 0.05, 'young': 3e5,"
                     "'thickness': 0.001, 'radius': 0.005, 'position': [0, 0.31, 0]},"
                     "{'kind': 'cable', 'nodes': {'generate': {'kind': 'line', 'from': [-0.2, 0.35, 0.01], 'to': [0.2, 0.35, -0.02],"
                     "'count': 9}}, 'mass': 0.01, 'stiffness': 1e3, 'radius': 0.01},"
                     "{'kind': 'rigid', 'mesh': {'generate': {'kind': 'box', 'width': 0.06, 'height': 0.06, 'depth': 0.06}}, 'mass': 0.1,"
                     "'radius': 0.005, 'position': [0.1, 0.42, 0.05]},"
                     "{'kind': 'static', 'mesh': {'generate': {'kind': 'sheet', 'width': 4, 'depth': 4}}}]}");
    run(&sim, 160, &w);
    end_promised(&sim, &w, 20);
}

/// Beside a cable that falls far away every correction has a K of its own; alone the first one keeps that of the prediction.
static void a_kept_matrix_leads_to_the_same_motion(void **state) {
    (void)state;
    enum { NODES = 125, FIXED = 3 };
    static const char CABLE[] = ", {'kind': 'cable', 'nodes': {'generate': {'kind': 'line', 'from': [5, 5, 0], 'to': [5.1, 5, 0], 'count': 2}},"
                                "'mass': 0.01, 'stiffness': 100, 'radius': 0.001}";
    double x[2][3 * NODES], reaction[2][3 * FIXED];
    worst w = {0};
    for (int with = 0; with < 2; with++) {
        simulation sim;
        char text[2048];
        (void)snprintf(text, sizeof text,
                       "{'dt': 0.005, 'bodies': [{'kind': 'soft', 'mesh': {'generate': {'kind': 'ellipsoid', 'columns': 4, 'width': 0.2,"
                       "'height': 0.1, 'depth': 0.15}}, 'position': [0, 0.0515, 0], 'radius': 0.001, 'density': 1000, 'young': 1e4, 'poisson': 0.4},"
                       "{'kind': 'kinematic', 'radius': 0.001, 'position': [0.02, 0.122, 0.01], 'velocity': [0, -0.1, 0], 'mesh': {'generate':"
                       "{'kind': 'sphere', 'radius': 0.02, 'triangles': 200}}}, {'kind': 'static', 'mesh': {'generate': {'kind': 'sheet',"
                       "'width': 4, 'depth': 4}}}%s], 'constraints': [{'kind': 'fixed', 'body': 0, 'nodes': [60, 61, 62]}],"
                       "'contacts': {'friction': 0.3}}", with ? CABLE : "");
        simulation_start(&sim, text);
        w = (worst){0};
        run(&sim, 40, &w);
        memcpy(x[with], simulation_x(&sim, 0), sizeof x[with]);
        int32_t count;
        const int32_t *node;
        const double *r = qpc_world_reactions(sim.w.world, &node, &count);
        assert_int_equal(count, FIXED);
        memcpy(reaction[with], r, sizeof reaction[with]);
        end_promised(&sim, &w, 4);
    }
    double most = 0, force = 0;
    for (int k = 0; k < 3 * FIXED; k++) force = fmax(force, fabs(reaction[1][k]));
    for (int k = 0; k < 3 * NODES; k++) most = fmax(most, fabs(x[0][k] - x[1][k]));
    print_message("  kept or not: %.2e m, of forces up to %.3g N\n", most, force);
    assert_true(most <= 2e-5); // Newton stops at changes of 1e-5 m a step
    for (int k = 0; k < 3 * FIXED; k++) assert_near(reaction[0][k], reaction[1][k], 0.02 * force);
}

/// Its nodes stay where their energy was known.
static void a_removed_body_stores_nothing(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    simulation_start(&sim, "{'dt': 0.01, 'gravity': [0, -10, 0], 'bodies': [{'kind': 'soft', 'mesh': {'generate': {'kind': 'block',"
                           "'columns': 2, 'rows': 1, 'layers': 1, 'width': 0.2, 'height': 0.1, 'depth': 0.1}}, 'radius': 0.001,"
                           "'mass': 1, 'young': 1e4, 'poisson': 0.3}], 'constraints': [{'kind': 'fixed', 'body': 0, 'nodes': [0, 1, 2, 3]}]}");
    run(&sim, 10, &w);
    assert_true(sim.report.elastic > 1e-4);
    simulation_control(&sim, "{'remove': [0]}");
    run(&sim, 1, &w);
    assert_true(sim.report.elastic == 0);
    end_promised(&sim, &w, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hanging_bar_stretches_as_a_rod),
        cmocka_unit_test(pulled_evenly_it_is_hookes_law),
        cmocka_unit_test(an_isolated_body_keeps_its_momentum),
        cmocka_unit_test(a_ball_falls_on_a_floor),
        cmocka_unit_test(a_block_at_rest_weighs_what_it_should),
        cmocka_unit_test(everything_touches_soft_bodies),
        cmocka_unit_test(a_kept_matrix_leads_to_the_same_motion),
        cmocka_unit_test(a_removed_body_stores_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
