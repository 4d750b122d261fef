// Cloth as a thin sheet in worlds (docs/theory-cloth.md): against closed forms, and the promise in scenes in which it falls,
// folds, is crumpled and held by limits.
#include "base/vec.h"
#include "tests/property/promised.h"
#include "tests/property/text.h"

#include <math.h>
#include <stdlib.h>

/// Masses of a plain grid in proportion to the cells around a vertex, `cell` kg each.
static void put_masses(text *t, int columns, int rows, double cell) {
    for (int j = 0; j < rows; j++)
        for (int i = 0; i < columns; i++)
            put(t, "%s%.17g", i + j > 0 ? "," : "",
                cell * (i > 0 && i + 1 < columns ? 1 : 0.5) * (j > 0 && j + 1 < rows ? 1 : 0.5));
}

// ---- closed forms ----

/// Hung by its upper side it stretches as a rod does, whose nodes linear elements place exactly: at y below the top
/// rho g (L y - y^2 / 2) / E h.
static void a_hanging_sheet_stretches_as_a_rod(void **state) {
    (void)state;
    enum { COLUMNS = 4, ROWS = 9 };
    simulation sim;
    worst w = {0};
    text t = {.used = 0};
    double young = 2e5, thickness = 1e-3, length = 1, density = 0.2, g = 10;
    put(&t, "{'dt': 0.1, 'gravity': [0, -10, 0], 'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 4,"
            "'rows': 9, 'width': 0.3, 'depth': 1, 'alternate': false, 'axis': 'z'}}, 'radius': 0.001, 'young': %g, 'poisson': 0,"
            "'thickness': %g, 'mass': [", young, thickness);
    put_masses(&t, COLUMNS, ROWS, density * 0.1 * 0.125);
    put(&t, "]}], 'constraints': [{'kind': 'fixed', 'body': 0, 'nodes': [32, 33, 34, 35]}]}");
    simulation_start(&sim, t.c);
    double top = simulation_x(&sim, 32)[1], start[ROWS];
    for (int j = 0; j < ROWS; j++) start[j] = top - simulation_x(&sim, COLUMNS * j)[1];
    assert_near(start[0], length, 1e-12);
    run(&sim, 600, &w);
    for (int j = 0; j < ROWS; j++)
        for (int i = 0; i < COLUMNS; i++) {
            double y = start[j], sag = density * g * (length * y - y * y / 2) / (young * thickness);
            assert_near(top - simulation_x(&sim, COLUMNS * j + i)[1], y + sag, 1e-9);
        }
    end_promised(&sim, &w, 0);
}

/// Held by one side and let down slowly, an almost weightless strip bends as a plate: rho g L^4 / 8 D at its end.
static double sag_over_plate(int columns) {
    simulation sim;
    worst w = {0};
    text t = {.used = 0};
    double rigidity = 1e-3, density = 1e-3, g = 1, length = 1.0 - 1.0 / (columns - 1);
    put(&t, "{'dt': 0.2, 'gravity': [0, -1, 0], 'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': %d,"
            "'rows': 4, 'width': 1, 'depth': 0.15, 'alternate': false}}, 'radius': 0.001, 'young': 1e5, 'poisson': 0,"
            "'thickness': 0.001, 'bending_rigidity': %g, 'mass': [", columns, rigidity);
    put_masses(&t, columns, 4, density * 0.05 / (columns - 1));
    put(&t, "]}], 'constraints': [{'kind': 'fixed', 'body': 0, 'nodes': [0,1");
    for (int j = 1; j < 4; j++) put(&t, ",%d,%d", columns * j, columns * j + 1);
    put(&t, "]}]}");
    simulation_start(&sim, t.c);
    double start = simulation_x(&sim, columns - 1)[1];
    run(&sim, 1500, &w);
    double sum = 0;
    for (int j = 0; j < 4; j++) sum += (start - simulation_x(&sim, columns * (j + 1) - 1)[1]) / 4;
    double plate = density * g * length * length * length * length / (8 * rigidity);
    end_promised(&sim, &w, 0);
    return sum / plate;
}
static void a_strip_bends_as_a_plate(void **state) {
    (void)state;
    double coarse = sag_over_plate(9), fine = sag_over_plate(17);
    print_message("  sag over that of a plate: %.4f, %.4f\n", coarse, fine);
    assert_near(fine, 1, 0.15);
    assert_true(fabs(fine - 1) < 0.7 * fabs(coarse - 1));
}

static void an_isolated_sheet_keeps_its_momentum(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    text t = {.used = 0};
    put(&t, "{'dt': 0.01, 'gravity': [0, 0, 0], 'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 9}},"
            "'radius': 0.01, 'mass': 0.5, 'young': 2e5, 'thickness': 0.001, 'bending_rigidity': 0.02, 'velocity': [");
    for (int i = 0; i < 81; i++)
        put(&t, "%s[%.3g, %.3g, %.3g]", i ? "," : "", 2 * sin(3.0 * i) + 0.5, 2 * sin(5.0 * i + 1), 2 * cos(7.0 * i));
    put(&t, "]}]}");
    simulation_start(&sim, t.c);
    run(&sim, 1, &w);
    qpc_step_report first = sim.report;
    run(&sim, 199, &w);
    assert_near(sim.report.momentum_x, first.momentum_x, 1e-9);
    assert_near(sim.report.momentum_y, first.momentum_y, 1e-9);
    assert_near(sim.report.momentum_z, first.momentum_z, 1e-9);
    assert_true(sim.report.kinetic + sim.report.elastic < first.kinetic + first.elastic);
    end_promised(&sim, &w, 0);
}

static double apart(const simulation *sim, int i, int j) {
    return v3_norm(v3_sub(v3_load(simulation_x(sim, i)), v3_load(simulation_x(sim, j))));
}

static void strain_limits_hold_a_sheet(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    simulation_start(&sim, "{'dt': 0.005, 'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 7, 'width': 0.5, 'alternate': false}},"
                           "'mass': 1, 'young': 6e4, 'thickness': 0.001, 'radius': 0.005}], 'constraints':"
                           "[{'kind': 'fixed', 'body': 0, 'nodes': [0, 6]}, {'kind': 'strain-limit', 'body': 0, 'max': 1.1}]}");
    double most = 0, longest = 0;
    for (int step = 0; step < 200; step++) {
        int32_t count;
        run(&sim, 1, &w);
        const double *force = qpc_world_limit_forces(sim.w.world, &count);
        for (int32_t k = 0; k < count; k++) most = fmax(most, force[k]);
        for (int j = 0; j < 7; j++)
            for (int i = 0; i < 7; i++) {
                double side = 0.5 / 6;
                if (i < 6) longest = fmax(longest, apart(&sim, 7 * j + i, 7 * j + i + 1) / side);
                if (j < 6) longest = fmax(longest, apart(&sim, 7 * j + i, 7 * j + i + 7) / side);
                if (i > 0 && j < 6) longest = fmax(longest, apart(&sim, 7 * j + i, 7 * j + i + 6) / (side * sqrt(2)));
            }
    }
    print_message("  largest strain %.4f, largest force of a limit %.2f N\n", longest - 1, most);
    assert_true(most > 0.5);
    assert_true(longest > 1.09 && longest <= 1.102);
    simulation_end(&sim);
}

// ---- scenes ----

static void a_sheet_falls_on_a_sphere(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    simulation_start(&sim, "{'dt': 0.005, 'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 14}},"
                           "'position': [0, 0.35, 0], 'area_density': 0.2, 'young': 5e5, 'thickness': 0.001, 'bending_rigidity': 1e-4,"
                           "'radius': 0.004}, {'kind': 'static', 'mesh': {'generate': {'kind': 'sphere', 'radius': 0.3}}}]}");
    run(&sim, 200, &w);
    end_promised(&sim, &w, 50);
}

static void a_sheet_folds_in_layers(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    simulation_start(&sim, "{'dt': 0.005, 'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 5, 'rows': 21,"
                           "'width': 0.2, 'depth': 1, 'axis': 'z'}}, 'position': [0, 0.52, 0], 'rotation': [0.9995, 0.03, 0, 0],"
                           "'area_density': 0.3, 'young': 3e5, 'thickness': 0.001, 'bending_rigidity': 2e-4, 'radius': 0.005},"
                           "{'kind': 'static', 'mesh': {'generate': {'kind': 'sheet', 'width': 4, 'depth': 4}}}]}");
    int64_t self = 0;
    for (int i = 0; i < 200; i++) {
        run(&sim, 1, &w);
        int32_t count;
        const qpc_contact_info *c = qpc_world_contacts(sim.w.world, &count);
        for (int32_t k = 0; k < count; k++) self += c[k].body[0] == 0 && c[k].body[1] == 0 && c[k].force > 0;
    }
    print_message("  self-contacts with a force: %lld\n", (long long)self);
    assert_true(self > 100);
    end_promised(&sim, &w, 20);
}

static void springs_and_sheets_share_a_world(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    simulation_start(&sim, "{'dt': 0.005, 'bodies': [{'kind': 'cable', 'nodes': {'generate': {'kind': 'line', 'from': [-0.2, 0.08, 0.01],"
                           "'to': [0.2, 0.1, -0.02], 'count': 9}}, 'mass': 0.01, 'stiffness': 1e3, 'radius': 0.01},"
                           "{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 7, 'width': 0.6}}, 'mass': 0.2,"
                           "'young': 3e5, 'thickness': 0.001, 'radius': 0.005},"
                           "{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 6, 'width': 0.4}}, 'mass': 0.1,"
                           "'membrane_stiffness': 300, 'bending_stiffness': 0.5, 'radius': 0.005, 'position': [0, 0.04, 0]}],"
                           "'constraints': [{'kind': 'fixed', 'body': 1, 'nodes': [0, 6, 42, 48]}]}");
    run(&sim, 200, &w);
    for (int i = 0; i < 9; i++) assert_true(fabs(simulation_x(&sim, i)[0]) < 0.4);
    end_promised(&sim, &w, 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hanging_sheet_stretches_as_a_rod),
        cmocka_unit_test(a_strip_bends_as_a_plate),
        cmocka_unit_test(an_isolated_sheet_keeps_its_momentum),
        cmocka_unit_test(strain_limits_hold_a_sheet),
        cmocka_unit_test(a_sheet_falls_on_a_sphere),
        cmocka_unit_test(a_sheet_folds_in_layers),
        cmocka_unit_test(springs_and_sheets_share_a_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
