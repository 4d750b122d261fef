// Damping by stiffness of soft bodies: the step of a single mode, decay of a bar, what it leaves alone.
#include "engine/world/loads.h"
#include "tests/property/simulation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 16, ACROSS = 4 };
#define BAR(velocity, loads)                                                                                                         \
    "{'dt': 0.002, 'gravity': [0, 0, 0], 'bodies': [{'kind': 'soft', 'mesh': {'generate': {'kind': 'block', 'columns': 16, 'rows': 1, " \
    "'layers': 1, 'width': 1.6, 'height': 0.1, 'depth': 0.1}}, 'radius': 0.001, 'density': 1000, 'young': 1e6, 'poisson': 0, "       \
    "'velocity': " velocity "}]" loads "}"

/// Mean place of the free end along the bar: its corners are of unlike masses.
static double end_of(const simulation *sim) {
    double sum = 0;
    for (int i = 0; i < ACROSS; i++) sum += simulation_x(sim, ACROSS * CELLS + i)[0] / ACROSS;
    return sum;
}

/// Let go along its first mode, one end held: the mode's own recursion, omega = pi/2L sqrt(E / rho).
static void a_bar_swings_out_as_its_first_mode_does(void **state) {
    (void)state;
    double length = 1.6, omega = acos(0.0) / length * sqrt(1e6 / 1000), h = 0.002, peak[2];
    for (int damped = 0; damped < 2; damped++) {
        simulation sim;
        double beta = damped ? 0.02 : 0, x = 0, v = 0.01, worst = 0;
        char velocity[200 * 4 * (CELLS + 1)], text[sizeof velocity + 1000];
        int at = 0;
        for (int i = 0; i < ACROSS * (CELLS + 1); i++)
            at += snprintf(velocity + at, sizeof velocity - (size_t)at, "%s[%.12g, 0, 0]", i == 0 ? "[" : ", ",
                           0.01 * sin(acos(0.0) * (i / ACROSS) / CELLS));
        (void)snprintf(text, sizeof text, BAR("%s]", ", 'constraints': [{'kind': 'fixed', 'body': 0, 'nodes': [0, 1, 2, 3]}], "
                                              "'loads': [{'kind': 'damping', 'body': 0, 'per_stiffness': %g}]"), velocity, beta);
        simulation_start(&sim, text);
        double start = end_of(&sim);
        peak[damped] = 0;
        for (int k = 0; k < 100; k++) { // one period
            simulation_run(&sim, 1);
            v = (v - h * omega * omega * x) / (1 + h * beta * omega * omega + h * h * omega * omega);
            x += h * v;
            worst = fmax(worst, fabs(end_of(&sim) - start - x));
            peak[damped] = fmax(peak[damped], fabs(x));
        }
        print_message("  off by %.2g of %.3g m\n", worst, peak[damped]);
        assert_true(worst < 0.01 * peak[damped]);
        simulation_end(&sim);
    }
    assert_true(peak[1] < 0.8 * peak[0]);
}

/// What line search takes is what K and b are of: P(dv) = 1/2 dv'K dv - b'dv + P(0), and P(0) = -1/2 v'b.
static void its_potential_is_that_of_its_part_of_k_and_b(void **state) {
    (void)state;
    simulation sim;
    double h = 0.002, v[3 * ACROSS * (CELLS + 1)], dv[3 * ACROSS * (CELLS + 1)], Kdv[3 * ACROSS * (CELLS + 1)];
    int n = 3 * ACROSS * (CELLS + 1);
    simulation_start(&sim, BAR("[0, 0, 0]", ", 'loads': [{'kind': 'damping', 'body': 0, 'per_stiffness': 0.3}]"));
    qpc_world *w = sim.w.world;
    for (int k = 0; k < n; k++) {
        v[k] = w->v[k] = sin(k * k);
        dv[k] = cos(3 * k * k);
        w->x[k] += 0.005 * sin(5 * k); // its H is not that at rest
    }
    memset(w->b, 0, (size_t)n * sizeof *w->b);
    qpc_linsys_clear(&w->sys);
    qpc_damping_linearise(w, &w->loads[0], h);
    qpc_linsys_multiply(&w->sys, dv, Kdv);
    double at_start = 0, change = 0, zero[3 * ACROSS * (CELLS + 1)] = {0};
    for (int k = 0; k < n; k++) {
        at_start -= 0.5 * v[k] * w->b[k];
        change += 0.5 * dv[k] * Kdv[k] - w->b[k] * dv[k];
    }
    assert_true(at_start > 0);
    assert_near(qpc_loads_potential(w, h, zero), at_start, 1e-10 * at_start);
    assert_near(qpc_loads_potential(w, h, dv), at_start + change, 1e-10 * at_start);
    simulation_end(&sim);
}

static void a_body_that_flies_is_not_held_back(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, BAR("[3, 2, 1]", ", 'loads': [{'kind': 'damping', 'body': 0, 'per_stiffness': 10}]"));
    simulation_run(&sim, 50);
    for (int i = 0; i < ACROSS * (CELLS + 1); i++)
        for (int a = 0; a < 3; a++) assert_near(simulation_v(&sim, i)[a], 3 - a, 1e-8);
    simulation_end(&sim);
}

/// Of so much damping only a rigid motion is left: what is refused says how much can be, and that is allowed.
static void damping_that_steps_cannot_resolve_is_refused(void **state) {
    (void)state;
    qpc_test_meshes *meshes = qpc_test_meshes_create();
    char text[1024];
    double bound = 0;
    for (int k = 0; k < 3; k++) {
        double damping = k == 0 ? 1e20 : k == 1 ? 0.99 * bound : 1.02 * bound;
        qpc_value scene;
        qpc_watched w;
        qpc_error err = {0};
        snprintf(text, sizeof text, BAR("[0, 0, 0]", ", 'loads': [{'kind': 'damping', 'body': 0, 'per_stiffness': %g}]"), damping);
        assert_ok(qpc_test_scene_text(text, meshes, &scene, &err), &err);
        qpc_status st = qpc_watched_create(&scene, meshes, &w, NULL, &err);
        qpc_value_fini(&scene);
        if (k == 1) {
            assert_ok(st, &err);
            qpc_watched_fini(&w);
            continue;
        }
        assert_int_equal(st, QPC_ERR_INVALID);
        const char *at = strstr(err.message, "at most ");
        assert_non_null(at);
        bound = strtod(at + strlen("at most "), NULL);
    }
    // The cells' own modes: omega^2 = E / rho / a^2 or so, h 0.002 s.
    double about = 1e6 / (0.002 * 1e6 / 1000 / (0.1 * 0.1));
    assert_true(bound > 0.1 * about && bound < 10 * about);
    qpc_test_meshes_destroy(meshes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bar_swings_out_as_its_first_mode_does),
        cmocka_unit_test(its_potential_is_that_of_its_part_of_k_and_b),
        cmocka_unit_test(a_body_that_flies_is_not_held_back),
        cmocka_unit_test(damping_that_steps_cannot_resolve_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
