// Pressure in worlds: closed forms of what it does to cloth, soft and rigid bodies.
#include "engine/world/world.h"
#include "tests/property/simulation.h"

#include <math.h>

#define SHEET(more)                                                                                                                       \
    "{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 6, 'width': 0.5, 'axis': 'z'}}, 'radius': 0.002, "                \
    "'area_density': 0.4, 'young': 1e5, 'thickness': 0.001" more "}"

/// p A / m along the normal, nothing else: a flat sheet stays flat. The work is p times the volume that it went through.
static void a_flat_sheet_goes_up_as_p_over_its_density(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.01, 'gravity': [0, 0, 0], 'bodies': [" SHEET("") "], 'loads': [{'kind': 'pressure', 'body': 0, 'pressure': 2}]}");
    simulation_run(&sim, 10);
    double v = 0, m = 0, z = 2 / 0.4 * 0.01 * 0.01 * 55; // backward Euler: 1 + 2 + ... + 10
    for (int i = 0; i < sim.w.world->free_count; i++) {
        m += sim.w.world->mass[i];
        v += sim.w.world->mass[i] * simulation_v(&sim, i)[2];
    }
    assert_near(fabs(v / m), 2 / 0.4 * 0.1, 1e-4); // its border, of a sixth of the mass and a sixth of the force at corners, pulls a little
    assert_near(sim.report.work, 2 * 0.25 * z, 1e-4 * z);
    simulation_end(&sim);
}

/// Held at its border, the fixed points take p times the area of its rim, whatever shape is between: the pressure of a closed surface less the lid.
static void what_holds_a_bulged_sheet_takes_p_times_the_area_of_its_rim(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.05, 'gravity': [0, 0, 0], 'bodies': [" SHEET("") "], 'loads': [{'kind': 'pressure', 'body': 0, 'pressure': 20}, "
                           "{'kind': 'drag', 'per_mass': 5}], 'constraints': [{'kind': 'fixed', 'body': 0, "
                           "'nodes': [0, 1, 2, 3, 4, 5, 6, 11, 12, 17, 18, 23, 24, 29, 30, 31, 32, 33, 34, 35]}]}");
    simulation_run(&sim, 200);
    const int32_t *node;
    int32_t count;
    const double *f = qpc_world_reactions(sim.w.world, &node, &count);
    double sum[3] = {0}, high = 0;
    for (int32_t i = 0; i < 3 * count; i++) sum[i % 3] += f[i];
    for (int i = 0; i < 36; i++) high = fmax(high, fabs(simulation_x(&sim, i)[2]));
    assert_true(high > 0.02);
    assert_near(fabs(sum[2]), 20 * 0.25, 1e-7);
    assert_near(sum[0], 0, 1e-7);
    assert_near(sum[1], 0, 1e-7);
    simulation_end(&sim);
}

/// Uniform pressure on a solid of any shape: strain -p (1 - 2 nu) / E in every direction.
static void a_soft_block_under_pressure_shrinks_alike(void **state) {
    (void)state;
    simulation sim;
    double E = 1e6, nu = 0.3, p = 2000;
    simulation_start(&sim, "{'dt': 0.5, 'gravity': [0, 0, 0], 'bodies': [{'kind': 'soft', 'mesh': {'generate': {'kind': 'block', 'columns': 4, 'width': 0.2, 'height': 0.1, "
                           "'depth': 0.1}}, 'radius': 0.001, 'density': 1000, 'young': 1e6, 'poisson': 0.3}],"
                           "'loads': [{'kind': 'pressure', 'body': 0, 'pressure': -2000}]}");
    double low = INFINITY, high = -INFINITY, before = 0;
    for (int pass = 0; pass < 2; pass++) {
        low = INFINITY, high = -INFINITY;
        for (int i = 0; i < sim.w.world->free_count; i++) {
            low = fmin(low, simulation_x(&sim, i)[0]);
            high = fmax(high, simulation_x(&sim, i)[0]);
        }
        if (pass == 0) before = high - low;
        if (pass == 0) simulation_run(&sim, 20);
    }
    assert_near(before, 0.2, 1e-12);
    assert_near((high - low) / before - 1, -p * (1 - 2 * nu) / E, 0.01 * p * (1 - 2 * nu) / E);
    simulation_end(&sim);
}

/// Pressure that the masses of a step do not outweigh, on a free block: forces sum to zero, so momentum stays, converged or not.
static void a_free_block_under_its_pressure_keeps_its_momentum(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.01, 'gravity': [0, 0, 0], 'bodies': [{'kind': 'soft', 'mesh': {'generate': {'kind': 'block', 'columns': 3, 'rows': 2, 'layers': 2, "
                           "'width': 0.3, 'height': 0.2, 'depth': 0.25}}, 'radius': 0.001, 'density': 1000, 'young': 1e5, 'poisson': 0.3, 'model': 'neo-hookean'}],"
                           "'loads': [{'kind': 'pressure', 'body': 0, 'pressure': 3e4}]}");
    double scale = 0;
    for (int s = 0; s < 30; s++) {
        simulation_run(&sim, 1);
        qpc_vec3 momentum = v3(0, 0, 0);
        double kinetic = 0, mass = 0;
        for (int i = 0; i < sim.w.world->free_count; i++) {
            qpc_vec3 v = v3_load(simulation_v(&sim, i));
            momentum = v3_madd(momentum, sim.w.world->mass[i], v);
            mass += sim.w.world->mass[i];
            kinetic += 0.5 * sim.w.world->mass[i] * v3_norm2(v);
        }
        scale = fmax(scale, sqrt(2 * mass * kinetic));
        assert_true(v3_norm(momentum) < 1e-12 * scale);
    }
    assert_true(scale > 1);
    simulation_end(&sim);
}

/// As large as that K is not factored, so that what conjugate gradients leave is seen.
static void a_balloon_in_flight_keeps_its_momentum(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.01, 'gravity': [0, 0, 0], 'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'sphere', 'radius': 0.2, 'triangles': 256}}, "
                           "'young': 5e5, 'poisson': 0.35, 'thickness': 0.002, 'radius': 0.001, 'area_density': 0.5, 'velocity': [0.3, 0.1, -0.2]}],"
                           "'loads': [{'kind': 'pressure', 'body': 0, 'pressure': 900}]}");
    qpc_vec3 start = v3(0, 0, 0);
    for (int s = 0; s < 10; s++) {
        qpc_vec3 momentum = v3(0, 0, 0);
        if (s > 0) simulation_run(&sim, 1);
        for (int i = 0; i < sim.w.world->free_count; i++) momentum = v3_madd(momentum, sim.w.world->mass[i], v3_load(simulation_v(&sim, i)));
        if (s == 0) start = momentum;
        assert_true(v3_norm(v3_sub(momentum, start)) < 1e-12 * v3_norm(start));
    }
    assert_non_null(sim.w.world->sys.blocks);
    simulation_end(&sim);
}

#define BOX(more)                                                                                                                       \
    "{'kind': 'rigid', 'mesh': {'generate': {'kind': 'box', 'width': 0.2, 'height': 0.1, 'depth': 0.1}}, 'radius': 0.001, 'mass': 1" more "}"

static void a_closed_rigid_body_does_not_feel_pressure(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.01, 'gravity': [0, 0, 0], 'bodies': [" BOX(", 'angular_velocity': [1, 2, 3]") "],"
                           "'loads': [{'kind': 'pressure', 'body': 0, 'pressure': 1e5}]}");
    double before = qpc_rigid_energy(&sim.w.world->rigids[0].inertia, &sim.w.world->pose[0]);
    simulation_run(&sim, 100);
    assert_true(v3_norm(sim.w.world->pose[0].v) < 1e-9);
    assert_near(qpc_rigid_energy(&sim.w.world->rigids[0].inertia, &sim.w.world->pose[0]), before, 1e-9);
    simulation_end(&sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flat_sheet_goes_up_as_p_over_its_density),
        cmocka_unit_test(what_holds_a_bulged_sheet_takes_p_times_the_area_of_its_rim),
        cmocka_unit_test(a_soft_block_under_pressure_shrinks_alike),
        cmocka_unit_test(a_free_block_under_its_pressure_keeps_its_momentum),
        cmocka_unit_test(a_balloon_in_flight_keeps_its_momentum),
        cmocka_unit_test(a_closed_rigid_body_does_not_feel_pressure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
