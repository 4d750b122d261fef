// Position-based dynamics: what it converges to, what the certificate says on the way, and that nothing is crossed.
#include "tests/property/simulation.h"

#include <math.h>

/// A mass on one spring, stretched by 1 cm: one constraint, which a sweep meets exactly however stiff it is.
static void one_spring_is_implicit_euler_after_any_number_of_sweeps(void **state) {
    (void)state;
    double x[4], v[4];
    for (int i = 0; i < 4; i++) {
        simulation sim;
        char text[512];
        (void)snprintf(text, sizeof text,
                       "{'dt': 0.01, 'gravity': [0, 0, 0], 'solver': {%s}, 'bodies': [{'kind': 'cable', 'nodes': [[-1, 0, 0], [0.01, 0, 0]],"
                       "'rest_length': 1, 'stiffness': 1e4, 'mass': 0.7, 'radius': 0.01}],"
                       "'constraints': [{'kind': 'fixed', 'body': 0, 'nodes': [0]}]}",
                       (const char *[]){"'name': 'auto'", "'name': 'position-based', 'iterations': 1", "'name': 'position-based', 'iterations': 4",
                                        "'name': 'position-based', 'iterations': 100"}[i]);
        simulation_start(&sim, text);
        simulation_step(&sim, 10);
        x[i] = simulation_x(&sim, 1)[0];
        v[i] = simulation_v(&sim, 1)[0];
        assert_near(x[i], x[0], 1e-13);
        assert_near(v[i], v[0], 1e-11);
        if (i > 0) assert_int_equal(sim.report.engine, 15);
        simulation_end(&sim);
    }
    assert_true(fabs(x[0]) > 1e-6);
}

typedef struct hanging {
    double drop, first_stat, first_natural;
} hanging;

/// Nine masses of 0.1 kg below a fixed one, released at rest length: drop of the lowest one at rest.
static hanging hang(int iterations, int steps) {
    simulation sim;
    char text[512];
    (void)snprintf(text, sizeof text,
                   "{'dt': 0.02, 'gravity': [0, -10, 0], 'solver': {'name': 'position-based', 'iterations': %d, 'newton': 2}, 'bodies': [{'kind': 'cable',"
                   "'nodes': {'generate': {'kind': 'line', 'from': [0, 0, 0], 'to': [0, -0.9, 0], 'count': 10}}, 'mass': 0.1, 'stiffness': 500,"
                   "'radius': 0.001}], 'constraints': [{'kind': 'fixed', 'body': 0, 'nodes': [0]}]}",
                   iterations);
    simulation_start(&sim, text);
    simulation_step(&sim, 1);
    hanging h = {.first_stat = sim.report.stat, .first_natural = sim.report.natural};
    simulation_step(&sim, steps - 1);
    h.drop = -0.9 - simulation_x(&sim, 9)[1];
    simulation_end(&sim);
    return h;
}

/// Link i carries m g (10 - i): the drop is m g / k (1 + ... + 9) = 45 m g / k = 0.09 m.
static void a_hanging_chain_converges_to_its_rest_with_sweeps(void **state) {
    (void)state;
    double error[3], stat[3];
    static const int iterations[3] = {3, 12, 400};
    for (int i = 0; i < 3; i++) {
        hanging h = hang(iterations[i], 800);
        error[i] = fabs(h.drop - 0.09);
        stat[i] = h.first_stat;
    }
    assert_true(error[1] < 0.5 * error[0]);
    assert_true(error[2] < 1e-4 * 0.09);
    assert_true(stat[1] < 0.5 * stat[0] && stat[2] < 1e-6); // and the certificate of the first step says so
}

/// A chain let go from the horizontal, whose links turn: the same step by a QP and Newton's iteration is the other method.
static void a_swinging_chain_converges_to_implicit_euler(void **state) {
    (void)state;
    simulation sim[2];
    for (int i = 0; i < 2; i++) {
        char text[512];
        (void)snprintf(text, sizeof text,
                       "{'dt': 0.005, 'solver': {%s}, 'bodies': [{'kind': 'cable', 'nodes': {'generate': {'kind': 'line', 'from': [0, 0, 0],"
                       "'to': [0.98, 0, 0], 'count': 15}}, 'mass': 0.06, 'stiffness': 800, 'radius': 0.01}],"
                       "'constraints': [{'kind': 'fixed', 'body': 0, 'nodes': [0]}]}",
                       i == 0 ? "'name': 'auto'" : "'name': 'position-based', 'iterations': 400");
        simulation_start(&sim[i], text);
    }
    for (int s = 0; s < 100; s++) {
        simulation_step(&sim[0], 1);
        simulation_step(&sim[1], 1);
        assert_true(sim[1].report.stat < 1e-6 && sim[1].report.outcome == QPC_STEP_OPTIMAL);
        for (int k = 0; k < 45; k++) assert_near(simulation_x(&sim[1], 0)[k], simulation_x(&sim[0], 0)[k], 1e-7);
    }
    assert_true(simulation_x(&sim[0], 14)[1] < -0.5);
    simulation_end(&sim[0]);
    simulation_end(&sim[1]);
}

static void a_contact_pushes_and_rubs(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) { // slides; sticks
        simulation sim;
        char text[768];
        double a = 0.5, g = 10, mu = i == 0 ? 0.3 : 0.8;
        (void)snprintf(text, sizeof text,
                       "{'dt': 0.01, 'gravity': [%.17g, %.17g, 0], 'solver': {'name': 'position-based'}, 'bodies': [{'kind': 'cable',"
                       "'nodes': [[-1, 0.01, 0.1]], 'mass': 0.7, 'radius': 0.01}, {'kind': 'static', 'mesh': {'generate': {'kind': 'sheet',"
                       "'width': 8, 'depth': 8}}}], 'contacts': {'friction': %g}}",
                       g * sin(a), -g * cos(a), mu);
        simulation_start(&sim, text);
        simulation_step(&sim, 60);
        int32_t count;
        const qpc_contact_info *contact = qpc_world_contacts(sim.w.world, &count);
        assert_int_equal(count, 1);
        assert_near(contact[0].force, 0.7 * g * cos(a), 1e-6);
        assert_near(simulation_v(&sim, 0)[0], i == 0 ? 0.6 * g * (sin(a) - mu * cos(a)) : 0, 1e-6);
        assert_int_equal(sim.report.friction_missed, 0);
        simulation_end(&sim);
    }
}

/// Far from solved, with 8 sweeps of a stiff cable and of cloth, and never through.
static void few_sweeps_cross_nothing(void **state) {
    (void)state;
    static const char *const bodies[] = {
        "{'kind': 'cable', 'nodes': {'generate': {'kind': 'line', 'from': [-0.9, 0.45, 0], 'to': [0.9, 0.45, 0.01], 'count': 31}}, 'mass': 0.05,"
        "'stiffness': 1e5, 'radius': 0.02}",
        "{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 8, 'rows': 8, 'width': 0.8, 'depth': 0.8}}, 'position': [0, 0.4, 0],"
        "'area_density': 0.3, 'stiffness': 1000, 'radius': 0.015}"};
    for (int i = 0; i < 2; i++) {
        simulation sim;
        char text[1024];
        (void)snprintf(text, sizeof text,
                       "{'dt': 0.005, 'gravity': [0, -10, 0], 'solver': {'name': 'position-based', 'iterations': 8}, 'contacts': {'friction': 0.3},"
                       "'bodies': [{'kind': 'static', 'mesh': {'generate': {'kind': 'cylinder', 'radius': 0.3, 'length': 2, 'axis': 'z'}}}, %s]}",
                       bodies[i]);
        simulation_start(&sim, text);
        for (int k = 0; k < 60; k++) {
            simulation_step(&sim, 1);
            assert_int_equal(sim.report.proven, 1);
            assert_int_equal(sim.report.outcome == QPC_STEP_OPTIMAL && sim.report.stat > 1e-6, 0); // no claim that is not so
        }
        simulation_end(&sim);
    }
}

static void what_it_is_not_for_is_refused(void **state) {
    (void)state;
    qpc_test_meshes *meshes = qpc_test_meshes_create();
    qpc_value scene;
    qpc_watched w;
    static const char *const scenes[] = {
        "{'integrator': 'rk4', 'solver': {'name': 'position-based'}, 'bodies': [{'kind': 'cable', 'nodes': [[0, 0, 0]], 'mass': 1, 'radius': 0.1}]}",
        "{'solver': {'name': 'position-based'}, 'bodies': [{'kind': 'rigid', 'radius': 0.01, 'density': 1000,"
        "'mesh': {'generate': {'kind': 'sphere', 'radius': 0.1}}}]}"};
    for (int i = 0; i < 2; i++) {
        qpc_error err = {0};
        assert_ok(qpc_test_scene_text(scenes[i], meshes, &scene, &err), &err);
        assert_int_equal(qpc_watched_create(&scene, meshes, &w, NULL, &err), QPC_ERR_INVALID);
        assert_non_null(strstr(err.message, "position-based"));
        qpc_value_fini(&scene);
    }
    qpc_test_meshes_destroy(meshes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_spring_is_implicit_euler_after_any_number_of_sweeps),
        cmocka_unit_test(a_hanging_chain_converges_to_its_rest_with_sweeps),
        cmocka_unit_test(a_swinging_chain_converges_to_implicit_euler),
        cmocka_unit_test(a_contact_pushes_and_rubs),
        cmocka_unit_test(few_sweeps_cross_nothing),
        cmocka_unit_test(what_it_is_not_for_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
