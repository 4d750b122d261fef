// Bodies alone in space: whatever meets, the sum of m v stays what it was, to 1e-10 of sum m |v| in every step.
#include "engine/world/world.h"
#include "tests/property/simulation.h"

#include <math.h>
#include <stdio.h>

#define SOFT(at, v)                                                                                                                            \
    "{'kind': 'soft', 'radius': 0.002, 'young': 1e5, 'poisson': 0.4, 'density': 1000, 'mesh': {'generate': {'kind': 'ellipsoid', 'columns': 4, " \
    "'rows': 4, 'layers': 4, 'width': 0.2, 'height': 0.2, 'depth': 0.2}}, 'position': " at ", 'velocity': " v "}"
#define CLOTH(at, v)                                                                                                                            \
    "{'kind': 'cloth', 'radius': 0.003, 'area_density': 0.2, 'membrane_stiffness': 1000, 'mesh': {'generate': {'kind': 'grid', 'columns': 13, " \
    "'width': 0.4}}, 'position': " at ", 'velocity': " v "}"
#define BOX(at, v)                                                                                                                          \
    "{'kind': 'rigid', 'radius': 0.002, 'density': 1000, 'mesh': {'generate': {'kind': 'box', 'width': 0.1, 'height': 0.1, 'depth': 0.1}}, " \
    "'position': " at ", 'rotation': [0.939, 0.092, 0.183, 0.275], 'velocity': " v "}"
#define BALL(at, v) "{'kind': 'rigid', 'shape': {'kind': 'sphere', 'radius': 0.1}, 'density': 1000, 'position': " at ", 'velocity': " v "}"
#define PLATE(at) "{'kind': 'static', 'radius': 0.001, 'mesh': {'generate': {'kind': 'box', 'width': 1, 'height': 0.02, 'depth': 1}}, 'position': " at "}"

/// sum m v, kg m/s, and sum m |v|.
static qpc_vec3 momentum_of(const qpc_world *w, double *ret_size) {
    qpc_vec3 sum = v3(0, 0, 0);
    *ret_size = 0;
    for (int32_t i = 0; i < w->free_count; i++) {
        sum = v3_madd(sum, w->mass[i], v3_load(w->v + 3 * i));
        *ret_size += w->mass[i] * v3_norm(v3_load(w->v + 3 * i));
    }
    for (int32_t i = 0; i < w->rigid_count; i++) {
        sum = v3_madd(sum, w->rigids[i].inertia.mass, w->pose[i].v);
        *ret_size += w->rigids[i].inertia.mass * v3_norm(w->pose[i].v);
    }
    return sum;
}

/// Gravity g adds g h times the mass; everything else that there is adds nothing.
static void stays(const char *bodies, double mu, double g, int steps) {
    simulation sim;
    char text[4000];
    (void)snprintf(text, sizeof text, "{'dt': 0.005, 'gravity': [0, %g, 0], 'contacts': {'friction': %g}, 'bodies': [%s]}", -g, mu, bodies);
    simulation_start(&sim, text);
    const qpc_world *w = sim.w.world;
    double size = 0, mass = 0, forces = 0;
    qpc_error err = {0};
    for (int32_t i = 0; i < w->free_count; i++) mass += w->mass[i];
    for (int32_t i = 0; i < w->rigid_count; i++) mass += w->rigids[i].inertia.mass;
    for (int s = 0; s < steps; s++) {
        qpc_vec3 before = momentum_of(w, &size);
        assert_ok(qpc_world_step(sim.w.world, &sim.report, &err), &err);
        assert_true(sim.report.outcome <= QPC_STEP_ITERATION_LIMIT); // friction may miss its law
        forces += (double)sim.report.active;
        double unused;
        qpc_vec3 change = v3_sub(momentum_of(w, &unused), before);
        change.y += g * 0.005 * mass;
        assert_true(v3_norm(change) <= 1e-10 * size);
    }
    assert_true(forces > 0); // they have met
    simulation_end(&sim);
}

static void of_two_soft_bodies(void **state) {
    (void)state;
    stays(SOFT("[-0.11, 0, 0]", "[1, 0, 0]") "," SOFT("[0.11, 0.03, 0.02]", "[-1, 0, 0]"), 0, 0, 12);
}

static void of_two_soft_bodies_that_rub(void **state) {
    (void)state;
    stays(SOFT("[-0.11, 0, 0]", "[1, 0, 0]") "," SOFT("[0.11, 0.03, 0.02]", "[-1, 0, 0]"), 0.4, 0, 10);
}

static void of_a_soft_body_and_a_box(void **state) {
    (void)state;
    stays(SOFT("[-0.11, 0, 0]", "[1, 0, 0]") "," BOX("[0.1, 0.03, 0.02]", "[-2, 0, 0]"), 0, 0, 12);
}

static void of_cloth_on_a_ball(void **state) {
    (void)state;
    stays(CLOTH("[0, 0.12, 0]", "[0, -2, 0]") "," BALL("[0, 0, 0]", "[0, 0, 0]"), 0, 0, 20);
}

static void of_cloth_on_a_soft_body(void **state) {
    (void)state;
    stays(CLOTH("[0, 0.12, 0]", "[0, -2, 0]") "," SOFT("[0, 0, 0]", "[0, 0, 0]"), 0, 0, 8);
}

static void of_two_boxes(void **state) {
    (void)state;
    stays(BOX("[-0.1, 0, 0]", "[1, 0, 0]") "," BOX("[0.1, 0.03, 0.02]", "[-2, 0, 0]"), 0, 0, 20);
}

static void but_for_gravity_next_to_a_wall_that_nothing_touches(void **state) {
    (void)state;
    stays(CLOTH("[0, 0.12, 0]", "[0, -2, 0]") "," BALL("[0, 0, 0]", "[0, 0.3, 0]") "," PLATE("[0, -0.118, 0]"), 0, 9.81, 12);
}

/// Of all that it loses the floor takes what the contacts say: lambda along their normals.
static void goes_to_a_floor_where_there_is_one(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.005, 'gravity': [0, 0, 0], 'bodies': [" SOFT("[0, 0.12, 0]", "[0, -1, 0]") "," PLATE("[0, 0, 0]") "]}");
    const qpc_world *w = sim.w.world;
    qpc_error err = {0};
    double size = 0, taken = 0;
    for (int s = 0; s < 12; s++) {
        qpc_vec3 before = momentum_of(w, &size);
        assert_ok(qpc_world_step(sim.w.world, &sim.report, &err), &err);
        double push = 0, unused;
        for (int32_t i = 0; i < w->rows.m; i++) push += w->rows.lambda[i]; // every normal is up
        qpc_vec3 change = v3_sub(momentum_of(w, &unused), before);
        assert_near(change.y, push, 1e-6 * size);
        taken += push;
    }
    assert_true(taken > 0.5);
    simulation_end(&sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_two_soft_bodies),
        cmocka_unit_test(of_two_soft_bodies_that_rub),
        cmocka_unit_test(of_a_soft_body_and_a_box),
        cmocka_unit_test(of_cloth_on_a_ball),
        cmocka_unit_test(of_cloth_on_a_soft_body),
        cmocka_unit_test(of_two_boxes),
        cmocka_unit_test(but_for_gravity_next_to_a_wall_that_nothing_touches),
        cmocka_unit_test(goes_to_a_floor_where_there_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
