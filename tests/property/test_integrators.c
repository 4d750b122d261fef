// Integrators: orders in dt against closed forms, energy, and what they do at contacts.
#include "tests/property/simulation.h"

#include <math.h>

typedef struct error_and_drift {
    double error, drift;
} error_and_drift;

/// A unit mass on a spring of 100 N/m, 0.1 m out, at rest: x = 0.1 cos(10 t); after 0.5 s.
static error_and_drift oscillate(const char *integrator, double dt) {
    simulation sim;
    char text[512];
    (void)snprintf(text, sizeof text,
                   "{'dt': %.17g, 'gravity': [0, 0, 0], 'integrator': '%s', 'bodies': [{'kind': 'cable', 'nodes': [[-1, 0, 0], [0.1, 0, 0]],"
                   "'rest_length': 1, 'stiffness': 100, 'mass': 1, 'radius': 0.01}],"
                   "'constraints': [{'kind': 'fixed', 'body': 0, 'nodes': [0]}]}",
                   dt, integrator);
    simulation_start(&sim, text);
    simulation_step(&sim, (int)lround(0.5 / dt));
    error_and_drift e = {fabs(simulation_x(&sim, 1)[0] - 0.1 * cos(5)), sim.report.energy_drift};
    simulation_end(&sim);
    return e;
}

static void errors_fall_with_the_order_of_the_integrator(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double ratio; // of errors at dt and dt / 2
    } all[] = {{"implicit-euler", 2}, {"symplectic-euler", 2}, {"implicit-midpoint", 4}, {"rk4", 16}};
    for (int i = 0; i < 4; i++) {
        double ratio = oscillate(all[i].name, 0.005).error / oscillate(all[i].name, 0.0025).error;
        assert_near(ratio, all[i].ratio, 0.12 * all[i].ratio);
    }
}

/// Exactly, not to an order: what tensions do over the step is what springs lose. RK4 loses (h w)^6 / 72 a step of a mode.
static void the_midpoint_keeps_energy_and_rk4_loses_next_to_none(void **state) {
    (void)state;
    assert_near(oscillate("implicit-midpoint", 0.05).drift, 0, 1e-12);
    double lost = -oscillate("rk4", 0.01).drift;
    assert_near(lost, 50 * pow(0.1, 6) / 72, 0.02 * lost);
    assert_true(fabs(oscillate("symplectic-euler", 0.01).drift) < 0.1); // swings by h w / 2, no trend
    assert_true(oscillate("implicit-euler", 0.01).drift < -0.3);
}

/// Also where lengths and directions change a lot, with momentum and angular momentum.
static void a_tumbling_chain_keeps_energy_and_momenta(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.02, 'gravity': [0, 0, 0], 'integrator': 'implicit-midpoint', 'solver': {'newton': 40}, 'bodies': ["
                           "{'kind': 'cable', 'nodes': [[0, 0, 0], [1, 0, 0], [2, 0.3, 0], [3, 0.3, 0.2]], 'mass': [1, 2, 1, 3], 'stiffness': 50,"
                           "'radius': 0.01, 'velocity': [[0, 1, 0], [0, 0, 0.5], [0, -1, 0], [0.5, -1, 0]]}]}");
    double before[3] = {0}, after[3] = {0};
    for (int pass = 0; pass < 2; pass++) {
        double *sum = pass == 0 ? before : after;
        for (int i = 0; i < 4; i++) {
            const double *x = simulation_x(&sim, i), *v = simulation_v(&sim, i), m = qpc_world_masses(sim.w.world)[i];
            for (int a = 0; a < 3; a++) sum[a] += m * (x[(a + 1) % 3] * v[(a + 2) % 3] - x[(a + 2) % 3] * v[(a + 1) % 3]);
        }
        if (pass == 0) simulation_step(&sim, 100);
    }
    assert_near(sim.report.energy_drift, 0, 1e-6);
    assert_near(sim.report.momentum_y, -3, 1e-12);
    for (int a = 0; a < 3; a++) assert_near(after[a], before[a], 1e-4);
    simulation_end(&sim);
}

/// m g on the floor and nothing moves; sliding down a slope with friction, g (sin a - mu cos a) at every integrator.
static void contacts_carry_the_whole_force(void **state) {
    (void)state;
    static const char *const names[] = {"rk4", "implicit-midpoint", "symplectic-euler"};
    for (int i = 0; i < 3; i++) {
        simulation sim;
        char text[768];
        double a = 0.5, g = 10, mu = 0.3;
        (void)snprintf(text, sizeof text,
                       "{'dt': 0.01, 'gravity': [%.17g, %.17g, 0], 'integrator': '%s', 'bodies': [{'kind': 'cable', 'nodes': [[-1, 0.0102, 0.1]],"
                       "'mass': 0.7, 'radius': 0.01}, {'kind': 'static', 'mesh': {'generate': {'kind': 'sheet', 'width': 8, 'depth': 8}}}],"
                       "'contacts': {'friction': %g}}",
                       g * sin(a), -g * cos(a), names[i], mu);
        simulation_start(&sim, text);
        simulation_step(&sim, 60);
        int32_t count;
        const qpc_contact_info *contact = qpc_world_contacts(sim.w.world, &count);
        assert_int_equal(count, 1);
        assert_near(contact[0].force, 0.7 * g * cos(a), 1e-5);
        assert_near(simulation_v(&sim, 0)[0], 0.6 * g * (sin(a) - mu * cos(a)), 2e-3);
        assert_near(simulation_v(&sim, 0)[1], 0, 1e-6);
        simulation_end(&sim);
    }
}

static void a_cable_falls_on_a_bar_without_a_crossing(void **state) {
    (void)state;
    static const char *const names[] = {"rk4", "implicit-midpoint"};
    for (int i = 0; i < 2; i++) {
        simulation sim;
        char text[768];
        (void)snprintf(text, sizeof text,
                       "{'dt': 0.002, 'gravity': [0, -10, 0], 'integrator': '%s', 'bodies': [{'kind': 'static', 'mesh': {'generate': {'kind':"
                       "'cylinder', 'radius': 0.1, 'length': 1, 'axis': 'z'}}}, {'kind': 'cable', 'nodes': {'generate': {'kind': 'line',"
                       "'from': [-0.5, 0.2, 0], 'to': [0.5, 0.2, 0.01], 'count': 21}}, 'mass': 0.05, 'stiffness': 2000, 'radius': 0.01}]}",
                       names[i]);
        simulation_start(&sim, text);
        for (int k = 0; k < 120; k++) {
            simulation_step(&sim, 1);
            assert_int_equal(sim.report.proven, 1);
            if (i == 1) assert_true(sim.report.energy_drift <= 1e-6);
        }
        assert_true(simulation_x(&sim, 10)[1] > 0.1); // hangs over it
        assert_true(simulation_x(&sim, 10)[1] < 0.12);
        simulation_end(&sim);
    }
}

static void what_an_integrator_does_not_do_is_said(void **state) {
    (void)state;
    qpc_test_meshes *meshes = qpc_test_meshes_create();
    qpc_value scene;
    qpc_watched w;
    qpc_error err = {0};
    qpc_scene_report report;
    assert_ok(qpc_test_scene_text("{'integrator': 'implicit-midpoint', 'bodies': [{'kind': 'cloth', 'radius': 0.01, 'area_density': 0.1,"
                                  "'young': 1e6, 'thickness': 1e-3, 'bending_rigidity': 1e-4, 'mesh': {'generate': {'kind': 'grid', 'columns': 2,"
                                  "'rows': 2, 'width': 1, 'depth': 1}}}]}",
                                  meshes, &scene, &err), &err);
    assert_int_equal(qpc_watched_create(&scene, meshes, &w, NULL, &err), QPC_ERR_INVALID);
    assert_non_null(strstr(err.message, "thin sheet"));
    qpc_value_fini(&scene);
    err = (qpc_error){0};
    assert_ok(qpc_test_scene_text("{'dt': 0.01, 'integrator': 'rk4', 'bodies': [{'kind': 'cable', 'nodes': [[0, 0, 0], [1, 0, 0]], 'mass': 1,"
                                  "'stiffness': 1e6, 'radius': 0.01}]}", meshes, &scene, &err), &err);
    assert_ok(qpc_watched_create(&scene, meshes, &w, &report, &err), &err);
    assert_int_equal(report.warning_count, 1); // 0.01 sqrt(2e6) = 14
    assert_non_null(strstr(report.warning[0], "unstable"));
    qpc_watched_fini(&w);
    qpc_value_fini(&scene);
    qpc_test_meshes_destroy(meshes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_fall_with_the_order_of_the_integrator),
        cmocka_unit_test(the_midpoint_keeps_energy_and_rk4_loses_next_to_none),
        cmocka_unit_test(a_tumbling_chain_keeps_energy_and_momenta),
        cmocka_unit_test(contacts_carry_the_whole_force),
        cmocka_unit_test(a_cable_falls_on_a_bar_without_a_crossing),
        cmocka_unit_test(what_an_integrator_does_not_do_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
