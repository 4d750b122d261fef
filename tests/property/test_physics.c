// Worlds against closed forms and against the numbers of tests/data/physics, each with the tolerance
// that is given there: discrete answers to rounding, rests to the solver's residual.
#include "tests/property/simulation.h"
#include "tests/property/text.h"

#include <math.h>
#include <stdlib.h>

// ---- one particle, one spring: implicit Euler's own answers ----

static void free_fall_is_exactly_implicit_euler(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.01, 'gravity': [0, 0, -10], 'bodies': [{'kind': 'cable',"
                           "'nodes': [[0, 0, 100]], 'mass': 0.7, 'radius': 0.01}]}");
    simulation_step(&sim, 200);
    assert_oracle(simulation_v(&sim, 0)[2], "free_fall_backward_euler", 0, 0);
    assert_oracle(simulation_x(&sim, 0)[2], "free_fall_backward_euler", 1, 0);
    // -g dt^2 N (N + 1) / 2; 200 sums near 100 m round by at most half an ulp of 1.4e-14 each
    assert_near(simulation_x(&sim, 0)[2], 100 - 10 * 1e-4 * 200 * 201 / 2, 200 * 1.5e-14);
    assert_true(simulation_x(&sim, 0)[0] == 0);
    simulation_end(&sim);
}
static void a_thrown_particle_is_exactly_implicit_euler(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.01, 'gravity': [0, 0, -9.81], 'bodies': [{'kind': 'cable',"
                           "'nodes': [[1, 2, 3]], 'velocity': [3, 4, 12], 'mass': 0.7,"
                           "'radius': 0.01}]}");
    double top = 0;
    for (int i = 0; i < 150; i++) {
        simulation_step(&sim, 1);
        top = fmax(top, simulation_x(&sim, 0)[2]);
    }
    for (int k = 0; k < 3; k++)
        assert_oracle(simulation_x(&sim, 0)[k], "projectile_backward_euler", 0, k);
    assert_oracle(top, "projectile_backward_euler", 1, 0);
    simulation_end(&sim);
}
static void symplectic_free_fall_is_exact_too(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.01, 'gravity': [0, 0, -10], 'integrator': 'symplectic-euler',"
                           "'bodies': [{'kind': 'cable', 'nodes': [[0, 0, 100]], 'mass': 0.7,"
                           "'radius': 0.01}]}");
    simulation_step(&sim, 200);
    assert_near(simulation_x(&sim, 0)[2], 100 - 10 * 1e-4 * 200 * 201 / 2, 200 * 1.5e-14);
    simulation_end(&sim);
}
static void a_spring_follows_backward_euler(void **state) {
    (void)state;
    simulation sim;
    // rest position 0: fixed at -1, rest length 1
    simulation_start(&sim,
                     "{'dt': 0.01, 'gravity': [0, 0, 0], 'bodies': [{'kind': 'cable', 'nodes':"
                     "[[-1, 0, 0], [0.01, 0, 0]], 'rest_length': 1, 'stiffness': 1e4, 'mass': 0.7,"
                     "'radius': 0.01}], 'constraints': [{'kind': 'fixed', 'body': 0, 'nodes': [0]}]}");
    simulation_step(&sim, 10);
    double x = simulation_x(&sim, 1)[0], v = simulation_v(&sim, 1)[0];
    assert_oracle(x, "spring_backward_euler", 0, 0);
    assert_oracle(v, "spring_backward_euler", 1, 0);
    assert_oracle((0.35 * v * v + 5e3 * x * x) / (5e3 * 1e-4), "spring_backward_euler", 2, 0);
    // and the report says the same; l - l0 with l near 1 is off by an ulp, times k x
    assert_near(sim.report.kinetic, 0.35 * v * v, 1e-15);
    assert_near(sim.report.elastic, 5e3 * x * x, 1e-12);
    simulation_end(&sim);
}
static void two_particles_on_a_spring_follow_backward_euler(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.01, 'gravity': [0, 0, 0], 'bodies': [{'kind': 'cable', 'nodes':"
                           "[[0, 0, 0], [0.6, 0, 0]], 'rest_length': 0.5, 'stiffness': 1e4,"
                           "'mass': [0.7, 2.1], 'velocity': [[1, 0, 0], [-0.5, 0, 0]],"
                           "'radius': 0.01}]}");
    simulation_step(&sim, 25);
    assert_oracle(simulation_x(&sim, 0)[0], "two_particle_spring", 0, 0);
    assert_oracle(simulation_x(&sim, 1)[0], "two_particle_spring", 0, 1);
    assert_oracle(0.7 * simulation_v(&sim, 0)[0] + 2.1 * simulation_v(&sim, 1)[0],
                  "two_particle_spring", 1, 0);
    assert_oracle(sim.report.momentum_x, "two_particle_spring", 1, 0);
    simulation_end(&sim);
}
static void longitudinal_modes_decay_as_backward_euler_says(void **state) {
    (void)state;
    // five masses between two walls, springs at rest length; mode 1, its middle 1 mm off
    simulation sim;
    text t = {.used = 0};
    put(&t, "{'dt': 0.002, 'gravity': [0, 0, 0], 'bodies': [{'kind': 'cable', 'nodes': [");
    for (int i = 0; i < 7; i++)
        put(&t, "%s[%.17g, 0, 0]", i ? "," : "", i + (i < 6 ? 1e-3 * sin(acos(-1.0) * i / 6) : 0));
    put(&t, "], 'rest_length': 1, 'stiffness': 1e4, 'mass': 0.7, 'radius': 0.01}],"
            "'constraints': [{'kind': 'fixed', 'body': 0, 'nodes': [0, -1]}]}");
    simulation_start(&sim, t.c);
    simulation_step(&sim, 50);
    for (int i = 0; i < 5; i++)
        assert_oracle(simulation_x(&sim, i + 1)[0] - (i + 1), "chain_modes", 2, i);
    simulation_end(&sim);
}

// ---- rest ----

static double reaction(const simulation *sim, int pin, int axis) {
    int32_t count;
    const int32_t *node;
    const double *r = qpc_world_reactions(sim->w.world, &node, &count);
    assert_true(pin < count);
    return r[3 * pin + axis];
}
// Force of the contacts of the last step on cables, along an axis.
static double contact_force(const simulation *sim, int axis) {
    int32_t count;
    const qpc_contact_info *c = qpc_world_contacts(sim->w.world, &count);
    double sum = 0;
    for (int32_t i = 0; i < count; i++) {
        // the normal points from side j to side i: the way in which side i is pushed
        double sign = qpc_world_body(sim->w.world, c[i].body[0]).mesh == NULL ? 1 : -1;
        sum += sign * c[i].force * c[i].normal[axis];
    }
    return sum;
}
static void a_hanging_cable_stretches_and_its_support_carries_it(void **state) {
    (void)state;
    // Settling: vertical modes only; implicit Euler at dt 1 s damps the slowest (about 1.9 rad/s) by
    // more than a factor of 2 a step, so 300 steps leave nothing.
    simulation sim;
    text t = {.used = 0};
    put(&t, "{'dt': 1, 'gravity': [0, 0, -10], 'bodies': [{'kind': 'cable', 'nodes': [");
    for (int i = 0; i <= 100; i++) put(&t, "%s[0, 0, %.17g]", i ? "," : "", -0.1 * i);
    put(&t, "], 'rest_length': 0.1, 'stiffness': 1e4, 'mass': 0.7, 'radius': 0.001}],"
            "'constraints': [{'kind': 'fixed', 'body': 0, 'nodes': [0]}]}");
    simulation_start(&sim, t.c);
    simulation_step(&sim, 300);
    assert_oracle(-10 - simulation_x(&sim, 100)[2], "hanging_cable_stretch", 0, 0);
    int32_t count;
    const double *tension = qpc_world_tensions(sim.w.world, &count);
    assert_int_equal(count, 100);
    assert_oracle(tension[0], "hanging_cable_stretch", 1, 0);
    assert_oracle(-5 - simulation_x(&sim, 50)[2], "hanging_cable_stretch", 2, 0);
    // 100 hanging particles and the fixed one itself
    assert_near(reaction(&sim, 0, 2), 101 * 7.0, 7e-6);
    simulation_end(&sim);
}
static void the_catenary_of_a_hundred_particles_comes_to_its_sag(void **state) {
    (void)state;
    // Start: every link at its rest length, a V with one level link in the middle.
    // Settling: 400 steps of 0.5 s take the swing out (implicit Euler damps whatever is faster than
    // 1/dt), 100 steps of 20 s are Newton steps towards the rest.
    simulation sim;
    text t = {.used = 0};
    double across = (8 - 0.1) / 98, down = sqrt(0.01 - across * across);
    put(&t, "{'dt': 0.5, 'gravity': [0, 0, -10], 'bodies': [{'kind': 'cable', 'nodes': [");
    for (int i = 0; i < 100; i++)
        put(&t, "%s[%.17g, 0, %.17g]", i ? "," : "", i < 50 ? across * i : 8 - across * (99 - i),
            -down * (i < 50 ? i : 99 - i));
    put(&t, "], 'rest_length': 0.1, 'stiffness': 1.38e6, 'mass': 0.7, 'radius': 0.001}],"
            "'constraints': [{'kind': 'fixed', 'body': 0, 'nodes': [0, -1]}]}");
    simulation_start(&sim, t.c);
    simulation_step(&sim, 400);
    simulation_control(&sim, "{'parameters': {'dt': 20}}");
    simulation_step(&sim, 100);
    double lowest = 0;
    for (int i = 0; i < 100; i++) lowest = fmin(lowest, simulation_x(&sim, i)[2]);
    assert_oracle(-lowest, "catenary_chain_100", 0, 0);
    int32_t count;
    const double *tension = qpc_world_tensions(sim.w.world, &count);
    assert_oracle(tension[0], "catenary_chain_100", 1, 0);
    assert_oracle(tension[49], "catenary_chain_100", 1, 1);
    assert_oracle(fabs(reaction(&sim, 0, 0)), "catenary_chain_100", 2, 0);
    assert_oracle(fabs(reaction(&sim, 1, 0)), "catenary_chain_100", 2, 0);
    assert_oracle(reaction(&sim, 0, 2), "catenary_chain_100", 3, 0);
    assert_oracle(reaction(&sim, 1, 2), "catenary_chain_100", 3, 0);
    simulation_end(&sim);
}
static void a_resting_particle_weighs_what_it_weighs(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.005, 'gravity': [0, -9.81, 0], 'bodies': ["
                           "{'kind': 'static', 'mesh': {'generate': {'kind': 'sheet', 'width': 1,"
                           "'depth': 1}}},"
                           "{'kind': 'cable', 'nodes': [[0.1, 0.06, 0.2]], 'mass': 0.7,"
                           "'radius': 0.05}]}");
    simulation_step(&sim, 400);
    // the solver's tolerance, 1e-7 r / dt in m/s, times m / dt
    assert_near(contact_force(&sim, 1), 0.7 * 9.81, 0.7 * 1e-7 * 0.05 / (0.005 * 0.005));
    assert_near(simulation_x(&sim, 0)[1], 0.05, 1e-6);
    assert_near(simulation_v(&sim, 0)[1], 0, 1e-5);
    simulation_end(&sim);
}
static void a_taut_cable_presses_on_a_cylinder_as_theory_says(void **state) {
    (void)state;
    // 2 m of cable over a cylinder of 0.25 m (its 10 mm of thickness included: the mesh has 0.24),
    // ends at (+-1, -0.2); no gravity; EA 2e4 N. It starts as a tent above.
    simulation sim;
    text t = {.used = 0};
    int n = 101;
    put(&t,
        "{'dt': 0.05, 'gravity': [0, 0, 0], 'bodies': [{'kind': 'static', 'mesh':"
        "{'generate': {'kind': 'cylinder', 'radius': 0.24, 'length': 1, 'segments': 256,"
        "'axis': 'z', 'caps': false}}}, {'kind': 'cable', 'axial_stiffness': 2e4,"
        "'rest_length': %.17g, 'mass': 0.05, 'radius': 0.01, 'nodes': [",
        2.0 / (n - 1));
    for (int i = 0; i < n; i++) {
        double s = 2.0 * i / (n - 1) - 1;
        put(&t, "%s[%.17g, %.17g, 0]", i ? "," : "", s, 0.4 - 0.6 * fabs(s));
    }
    put(&t, "]}], 'constraints': [{'kind': 'fixed', 'body': 1, 'nodes': [0, -1]}]}");
    simulation_start(&sim, t.c);
    simulation_step(&sim, 200);
    int32_t count;
    const double *tension = qpc_world_tensions(sim.w.world, &count);
    assert_oracle(tension[0], "taut_cable_over_cylinder", 1, 0);
    assert_oracle(tension[50], "taut_cable_over_cylinder", 1, 0);
    assert_oracle(-(reaction(&sim, 0, 1) + reaction(&sim, 1, 1)), "taut_cable_over_cylinder", 3, 0);
    assert_oracle(contact_force(&sim, 1), "taut_cable_over_cylinder", 3, 0);
    simulation_end(&sim);
}

// ---- rows ----

static void a_strain_limit_holds_a_mass(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim,
                     "{'dt': 0.05, 'gravity': [0, 0, -9.81], 'bodies': [{'kind': 'cable', 'nodes':"
                     "[[0, 0, 0], [0, 0, -1]], 'rest_length': 1, 'stiffness': 100, 'mass': 2,"
                     "'radius': 0.01}], 'constraints': [{'kind': 'fixed', 'body': 0, 'nodes': [0]},"
                     "{'kind': 'strain-limit', 'body': 0, 'max': 1.1}]}");
    simulation_step(&sim, 400);
    assert_oracle(-simulation_x(&sim, 1)[2], "strain_limited_spring", 0, 0);
    int32_t count;
    const double *force = qpc_world_limit_forces(sim.w.world, &count);
    assert_int_equal(count, 1);
    assert_oracle(force[0], "strain_limited_spring", 1, 0);
    // the fixed particle has a weight of its own
    oracle o = oracle_read("strain_limited_spring", 2, 0);
    assert_near(reaction(&sim, 0, 2), o.value + 2 * 9.81, o.tolerance);
    simulation_end(&sim);
}
static void a_strain_limit_holds_a_heavy_end_that_falls(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim,
                     "{'dt': 0.005, 'gravity': [0, -10, 0], 'bodies': [{'kind': 'cable', 'nodes':"
                     "{'generate': {'kind': 'line', 'from': [0, 0, 0], 'to': [3.9, 0, 0], 'count':"
                     "40}}, 'stiffness': 1.38e6, 'mass': {'all': 0.7, 'first': 1, 'last': 10000},"
                     "'radius': 0.02}], 'constraints': [{'kind': 'fixed', 'body': 0, 'nodes': [0]},"
                     "{'kind': 'strain-limit', 'body': 0, 'max': 1.1}]}");
    double worst = 0, drift = 0;
    int64_t failsafe = 0;
    for (int i = 0; i < 600; i++) {
        simulation_step(&sim, 1);
        worst = fmax(worst, sim.report.max_strain);
        drift = fmax(drift, sim.report.energy_drift);
        failsafe += sim.report.failsafe;
    }
    print_message("falling 10 t on a limit of 1.1: strain %.5f, energy drift %.2e\n", worst, drift);
    assert_true(worst > 0.09);   // it was needed
    assert_true(worst <= 0.102); // cuts hold it to 2 % of the limit
    assert_true(drift <= 1e-6);
    assert_int_equal(failsafe, 0);
    simulation_end(&sim);
}
static void a_driven_particle_keeps_its_velocity_and_reports_the_force(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.01, 'gravity': [0, 0, 0], 'bodies': [{'kind': 'cable', 'nodes':"
                           "[[0, 0, 0], [0.1005, 0, 0]], 'rest_length': 0.1, 'stiffness': 1.38e6,"
                           "'mass': [10000, 0.7], 'velocity': [[-2, 0, 0], [-1.5, 0, 0]],"
                           "'radius': 0.01}], 'constraints': [{'kind': 'fixed', 'body': 0,"
                           "'nodes': [0]}]}");
    simulation_control(&sim, "{'targets': [{'body': 0, 'node': 0, 'velocity': [-2, 0, 0]}]}");
    simulation_step(&sim, 1);
    oracle dv = oracle_read("fixed_velocity_reaction_step", 0, 1);
    assert_near(simulation_x(&sim, 0)[0], -0.02, 1e-16);
    assert_near(simulation_v(&sim, 1)[0], -1.5 + dv.value, dv.tolerance);
    assert_oracle(reaction(&sim, 0, 0), "fixed_velocity_reaction_step", 2, 0);
    simulation_end(&sim);
}
static void a_row_of_particles_takes_up_a_push_in_one_step(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.01, 'gravity': [0, 0, 0], 'bodies': ["
                           "{'kind': 'cable', 'nodes': [[0, 0, 0]], 'mass': 1, 'radius': 0.05,"
                           "'velocity': [1, 0, 0]},"
                           "{'kind': 'cable', 'nodes': [[0.101, 0, 0]], 'mass': 1, 'radius': 0.05},"
                           "{'kind': 'cable', 'nodes': [[0.203, 0, 0]], 'mass': 1,"
                           "'radius': 0.05}]}");
    simulation_step(&sim, 1);
    // the natural residual allows 1e-7 (r_i + r_j) / dt
    double tolerance = 1e-7 * 0.1 / 0.01;
    for (int i = 0; i < 3; i++) {
        oracle o = oracle_read("two_pass_chain", 2, i);
        assert_near(simulation_v(&sim, i)[0], o.value, tolerance);
    }
    assert_oracle(sim.report.momentum_x, "two_pass_chain", 4, 0);
    simulation_end(&sim);
}
static void contact_between_free_cables_keeps_the_momentum(void **state) {
    (void)state;
    // two cables that cross, thrown at each other
    simulation sim;
    simulation_start(
        &sim, "{'dt': 0.005, 'gravity': [0, 0, 0], 'bodies': ["
              "{'kind': 'cable', 'nodes': {'generate': {'kind': 'line', 'from': [-0.5, 0, 0],"
              "'to': [0.5, 0, 0], 'count': 11}}, 'mass': 0.3, 'stiffness': 1e5, 'radius': 0.02,"
              "'velocity': [0.1, 0, 3]},"
              "{'kind': 'cable', 'nodes': {'generate': {'kind': 'line', 'from': [0.02, -0.4, 0.1],"
              "'to': [-0.01, 0.6, 0.12], 'count': 13}}, 'mass': 0.2, 'stiffness': 1e5,"
              "'radius': 0.03, 'velocity': [0, -0.2, -2]}]}");
    double p[3] = {3.3 * 0.1, 2.6 * -0.2, 3.3 * 3 - 2.6 * 2};
    int64_t active = 0;
    for (int i = 0; i < 200; i++) {
        simulation_step(&sim, 1);
        active += sim.report.active;
        // equal and opposite forces cancel to the stationarity of the solve (1e-9 of the largest
        // momentum that moves, about 16 kg m/s)
        assert_near(sim.report.momentum_x, p[0], 1.6e-8);
        assert_near(sim.report.momentum_y, p[1], 1.6e-8);
        assert_near(sim.report.momentum_z, p[2], 1.6e-8);
        assert_true(sim.report.energy_drift <= 1e-6);
    }
    assert_true(active > 0);
    simulation_end(&sim);
}

// ---- Atwood's machine ----

// Mean acceleration of the masses between times t0 and t1 of the fall.
static double atwood(double dt, double t0, double t1) {
    // No initial gap beyond what a polygon over a polygon needs: chords of 50 mm sag 0.3 mm. Stiff: at
    // 1e6 N/m the masses still swing on the cable's stretch, which shows as 0.3 % over this window.
    simulation sim;
    text t = {.used = 0};
    put(&t,
        "{'dt': %.17g, 'gravity': [0, -10, 0], 'bodies': [{'kind': 'static', 'mesh':"
        "{'generate': {'kind': 'sheave', 'triangles': 13722, 'radius': 1}}},"
        "{'kind': 'cable', 'nodes': {'generate': {'kind': 'pulley', 'count': 121,"
        "'spacing': 0.05, 'radius': 1.0304, 'extra': 0}}, 'stiffness': 1e7, 'radius':"
        "0.03, 'mass': {'all': %.17g, 'first': 2, 'last': 1}}]}",
        dt, 0.01 / 119);
    simulation_start(&sim, t.c);
    int first = qpc_world_body(sim.w.world, 1).first_node, last = first + 120;
    double v0 = 0, v1 = 0;
    int n0 = (int)lround(t0 / dt), n1 = (int)lround(t1 / dt);
    for (int i = 1; i <= n1; i++) {
        simulation_step(&sim, 1);
        double v = (simulation_v(&sim, last)[1] - simulation_v(&sim, first)[1]) / 2;
        if (i == n0) v0 = v;
        if (i == n1) v1 = v;
    }
    simulation_end(&sim);
    return (v1 - v0) / (t1 - t0);
}
static void atwood_at_10_ms_is_within_one_percent(void **state) {
    (void)state;
    double a = atwood(0.01, 0.1, 0.6);
    print_message("Atwood 2 kg : 1 kg, dt 10 ms: %.5f m/s2 (exact 3.322)\n", a);
    assert_near(a, 10 / 3.01, 0.01 * 3.322);
}
static void atwood_at_1_ms_is_within_a_fifth_of_a_percent(void **state) {
    (void)state;
    double a = atwood(0.001, 0.1, 0.6);
    print_message("Atwood 2 kg : 1 kg, dt 1 ms: %.5f m/s2 (exact 3.322)\n", a);
    assert_near(a, 10 / 3.01, 0.002 * 3.322);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(free_fall_is_exactly_implicit_euler),
        cmocka_unit_test(a_thrown_particle_is_exactly_implicit_euler),
        cmocka_unit_test(symplectic_free_fall_is_exact_too),
        cmocka_unit_test(a_spring_follows_backward_euler),
        cmocka_unit_test(two_particles_on_a_spring_follow_backward_euler),
        cmocka_unit_test(longitudinal_modes_decay_as_backward_euler_says),
        cmocka_unit_test(a_hanging_cable_stretches_and_its_support_carries_it),
        cmocka_unit_test(the_catenary_of_a_hundred_particles_comes_to_its_sag),
        cmocka_unit_test(a_resting_particle_weighs_what_it_weighs),
        cmocka_unit_test(a_taut_cable_presses_on_a_cylinder_as_theory_says),
        cmocka_unit_test(a_strain_limit_holds_a_mass),
        cmocka_unit_test(a_strain_limit_holds_a_heavy_end_that_falls),
        cmocka_unit_test(a_driven_particle_keeps_its_velocity_and_reports_the_force),
        cmocka_unit_test(a_row_of_particles_takes_up_a_push_in_one_step),
        cmocka_unit_test(contact_between_free_cables_keeps_the_momentum),
        cmocka_unit_test(atwood_at_10_ms_is_within_one_percent),
        cmocka_unit_test(atwood_at_1_ms_is_within_a_fifth_of_a_percent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
