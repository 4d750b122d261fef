/// Thousands of contacts that hold at once: a sheet of cloth, and ten cables side by side, fall flat on a floor. They carry
/// exactly the weight, and nothing moves on. Argument: quick (2,500 contacts), else 10,000.
#include "tests/property/simulation.h"

#include <math.h>

static bool quick;

#define FLOOR                                                                                      \
    "{'dt': 0.005, 'gravity': [0, -10, 0], 'bodies': [{'kind': 'static', 'rotation': [0.99, 0, 0.14, 0], 'mesh': "          \
    "{'generate': {'kind': 'grid', 'columns': 15, 'rows': 15, 'width': %.17g, 'depth': %.17g}}}"

/// Until it lies still; then every node has its contact, and the contacts carry `weight`, N.
static void settle(simulation *sim, int32_t contacts, double weight) {
    for (int step = 0; step < 12; step++) {
        simulation_step(sim, 1);
        assert_int_equal(sim->report.outcome, QPC_STEP_OPTIMAL);
        assert_int_equal(sim->report.proven, 1);
        assert_int_equal(sim->report.fallbacks, 0);
    }
    assert_true(sim->report.max_speed < 1e-6);
    assert_int_equal(sim->report.active, contacts);
    assert_int_equal(sim->report.rows, contacts);
    int32_t count;
    const qpc_contact_info *c = qpc_world_contacts(sim->w.world, &count);
    double force = 0;
    for (int32_t i = 0; i < count; i++) {
        assert_true(c[i].force >= 0);
        assert_near(fabs(c[i].normal[1]), 1, 1e-12);
        assert_near(c[i].gap, 0, 1e-9); // 1e-7 r is what a step's QP is solved to
        force += c[i].force;
    }
    assert_near(force, weight, 1e-6 * weight);
    assert_near(sim->w.found.worst_penetration, 0, 1e-6);
    simulation_end(sim);
}

static void a_sheet_lies_on_all_of_its_vertices(void **state) {
    (void)state;
    simulation sim;
    char text[1024];
    int n = quick ? 50 : 101;
    double width = 0.01 * (n - 1);
    (void)snprintf(text, sizeof text,
                   FLOOR ", {'kind': 'cloth', 'radius': 0.004, 'area_density': 0.2, 'membrane_stiffness': 500, 'bending_stiffness': "
                         "0.5, 'position': [0, 0.0045, 0], 'mesh': {'generate': {'kind': 'grid', 'columns': %d, 'width': %.17g}}}]}",
                   1.6, 1.6, n, width);
    simulation_start(&sim, text);
    settle(&sim, n * n, 10 * 0.2 * width * width);
}

static void cables_lie_on_all_of_their_particles(void **state) {
    (void)state;
    simulation sim;
    char text[4096];
    int n = quick ? 250 : 1000;
    double half = 0.005 * (n - 1);
    int at = snprintf(text, sizeof text, FLOOR, 2.5 * half, 2.5 * half);
    for (int k = 0; k < 10; k++)
        at += snprintf(text + at, sizeof text - (size_t)at,
                       ", {'kind': 'cable', 'radius': 0.004, 'axial_stiffness': 1e5, 'mass': 0.005, 'nodes': {'generate': {'kind': 'line', "
                       "'from': [%.17g, 0.0045, %g], 'to': [%.17g, 0.0045, %g], 'count': %d}}}",
                       -half, 0.012 * k, half, 0.012 * k, n);
    (void)snprintf(text + at, sizeof text - (size_t)at, "]}");
    simulation_start(&sim, text);
    settle(&sim, 10 * n, 10 * 0.005 * 10 * n);
}

/// Between a plate that is driven down and the floor: its rows contradict as soon as it has no room left. The plate is held
/// back, nothing is crossed, and no step goes on for ever (5 million rows put back by rebuilds, once).
static void a_pressed_sheet_holds_the_plate(void **state) {
    (void)state;
    simulation sim;
    char text[2048];
    (void)snprintf(text, sizeof text,
                   FLOOR ", {'kind': 'cloth', 'radius': 0.004, 'area_density': 0.2, 'membrane_stiffness': 500, 'bending_stiffness': "
                         "0.5, 'position': [0, 0.0045, 0], 'mesh': {'generate': {'kind': 'grid', 'columns': 8, 'width': 0.07}}}, "
                         "{'kind': 'kinematic', 'position': [0, 0.0105, 0], 'velocity': [0, -0.1, 0], 'mesh': {'generate': {'kind': "
                         "'grid', 'columns': 15, 'width': 0.112}}}]}",
                   0.112, 0.112);
    simulation_start(&sim, text);
    int64_t contradictions = 0;
    for (int step = 0; step < 10; step++) {
        simulation_step(&sim, 1);
        contradictions += sim.report.conflicts > 0;
        assert_int_equal(sim.report.proven, 1);
        assert_true(sim.report.solver_iterations < 300000);
    }
    assert_true(contradictions >= 3);
    assert_true(sim.report.lag > 0.001);
    simulation_end(&sim);
}

/// A sheet of 324 nodes under a press of one face, on the floor. Hits of a motion between two walls contradict once more: rows
/// are not collected for ever (38,000 once, 25 s a step), the press is held back, and the sheet does not run out sideways.
static void a_sheet_under_a_press_takes_bounded_work(void **state) {
    (void)state;
    simulation sim;
    char text[2048];
    double r = 0.3 / 18;
    (void)snprintf(text, sizeof text,
                   FLOOR ", {'kind': 'cloth', 'radius': %.17g, 'area_density': 0.2, 'membrane_stiffness': 500, 'bending_stiffness': "
                         "0.2, 'position': [0, %.17g, 0], 'mesh': {'generate': {'kind': 'grid', 'columns': 18, 'width': 0.8}}}, "
                         "{'kind': 'kinematic', 'position': [0, %.17g, 0], 'velocity': [0, -0.2, 0], 'mesh': {'generate': {'kind': "
                         "'box', 'width': 1.2, 'height': 0.2, 'depth': 1.2}}}]}",
                   3.0, 3.0, r, 0.35 / 18, 0.7 / 18 + 0.1);
    simulation_start(&sim, text);
    int64_t contradictions = 0;
    for (int step = 0; step < 40; step++) {
        simulation_step(&sim, 1);
        contradictions += sim.report.conflicts > 0;
        assert_int_equal(sim.report.proven, 1);
        assert_true(sim.report.rows < 5000 && sim.report.qps < 200);
        assert_true(sim.report.solver_iterations + sim.report.set_changes < 10000);
        assert_true(sim.report.max_speed < 1);
    }
    assert_true(contradictions >= 20);
    assert_true(sim.report.min_gap > 0.29);
    assert_true(sim.report.lag > 0.001);
    simulation_end(&sim);
}

/// A turning box drives two sheets against a ball. Rows that nearly exclude each other have an answer, of 1,000 m/s and more;
/// what that runs into was thousands of rows (5 s a step), and its energy stayed.
static void a_box_that_drives_sheets_against_a_ball_leaves_them_their_speed(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.01, 'gravity': [0, -10, 0], 'bodies': ["
                           "{'kind': 'static', 'mesh': {'generate': {'kind': 'sheet', 'width': 6, 'depth': 6, 'triangles': 8}}},"
                           "{'kind': 'static', 'mesh': {'generate': {'kind': 'sphere', 'radius': 0.25, 'triangles': 256}}, 'position': [0, 0.25, 0]},"
                           "{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 7, 'width': 0.5}}, 'position': [-0.09, 0.95, 0],"
                           "'radius': 0.015, 'area_density': 0.1, 'membrane_stiffness': 5000, 'velocity': [0, -2.2, 0]},"
                           "{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 7, 'width': 0.5}}, 'position': [0.05, 1.2, 0],"
                           "'radius': 0.015, 'area_density': 2, 'membrane_stiffness': 5000, 'velocity': [0, -6, 0]},"
                           "{'kind': 'kinematic', 'mesh': {'generate': {'kind': 'box', 'width': 0.2, 'height': 0.2, 'depth': 0.2}},"
                           "'position': [1.5, 0.2, 0], 'velocity': [-1.5, 0, 0], 'angular_velocity': [0, 3, 0]}]}");
    double lag = 0;
    for (int step = 0; step < 110; step++) {
        simulation_step(&sim, 1);
        lag = fmax(lag, sim.report.lag);
        assert_int_equal(sim.report.proven, 1);
        assert_true(sim.report.rows < 2500 && sim.report.qps < 150);
        assert_true(sim.report.solver_iterations + sim.report.set_changes < 5000);
        assert_true(sim.report.max_speed < 25);
    }
    assert_true(lag > 0.001); // the box was in the way
    simulation_end(&sim);
}

int main(int argc, char **argv) {
    quick = argc > 1 && strcmp(argv[1], "quick") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sheet_lies_on_all_of_its_vertices),
        cmocka_unit_test(cables_lie_on_all_of_their_particles),
        cmocka_unit_test(a_pressed_sheet_holds_the_plate),
        cmocka_unit_test(a_sheet_under_a_press_takes_bounded_work),
        cmocka_unit_test(a_box_that_drives_sheets_against_a_ball_leaves_them_their_speed),
    };
    return cmocka_run_group_tests_name("many-contacts", tests, NULL, NULL);
}
