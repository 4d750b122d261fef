/// What is stiff falls as all else does: momentum, and claims that hold, where K is ill-conditioned.
#include "engine/world/world.h"
#include "tests/property/simulation.h"

#include <math.h>

#define CLOTH                                                                                                                             \
    "{'name': 's', 'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 10, 'width': 0.6}}, 'position': [0, 0.5, 0], "       \
    "'area_density': 6, 'membrane_stiffness': 12758, 'bending_stiffness': 2, 'radius': 0.0047}"
#define BOX                                                                                                                               \
    "{'name': 'box', 'kind': 'rigid', 'mesh': {'generate': {'kind': 'box', 'width': 0.1, 'height': 0.1, 'depth': 0.1}}, "                 \
    "'density': 500, 'radius': 0.002, 'position': [5, 3, 5]}"

/// After `steps` of free fall from rest the momentum is (m g t) and no step claims what is not so; engine steps are not cut in smaller ones.
static void falls(const char *text, int steps, double dt, bool optimal) {
    simulation sim;
    double mass = 0;
    simulation_start(&sim, text);
    const qpc_world *w = sim.w.world;
    for (int32_t i = 0; i < w->live_count; i++) mass += w->mass[i];
    for (int32_t i = 0; i < w->rigid_count; i++) mass += w->rigids[i].inertia.mass;
    for (int k = 0; k < steps; k++) {
        simulation_step(&sim, 1);
        assert_true(sim.report.outcome != QPC_STEP_OPTIMAL || sim.report.stat <= 1e-6);
        if (!optimal) continue;
        assert_int_equal(sim.report.outcome, QPC_STEP_OPTIMAL);
        assert_int_equal(sim.report.halvings, 0);
        assert_near(sim.report.momentum_y, -9.81 * mass * dt * (k + 1), 1e-6 * mass * dt * (k + 1));
    }
    simulation_end(&sim);
}

static void a_bent_stiff_cable_leaves_the_fall_of_others_alone(void **state) {
    (void)state;
    char text[4096], nodes[1024] = "";
    size_t at = 0;
    for (int i = 0; i < 21; i++) at += (size_t)snprintf(nodes + at, sizeof nodes - at, "%s[%g,%.17g,0]", i ? "," : "", 0.05 * i, 1.5 + 0.02 * sin(i));
    static const char *const solver[] = {"{}", "{'newton': 0}", "{'name': 'augmented-lagrangian'}"};
    for (size_t k = 0; k < sizeof solver / sizeof *solver; k++) {
        (void)snprintf(text, sizeof text, "{'dt': 0.01, 'gravity': [0, -9.81, 0], 'solver': %s, 'bodies': [" BOX ", " CLOTH ", {'name': 'c', "
                       "'kind': 'cable', 'nodes': [%s], 'mass': 2.2e-4, 'stiffness': 174768, 'radius': 0.0034}]}", solver[k], nodes);
        falls(text, 10, 0.01, true);
    }
}

static void steel_falls(void **state) {
    (void)state;
    falls("{'dt': 0.02, 'gravity': [0, -9.81, 0], 'bodies': [{'kind': 'soft', 'name': 'x', 'mesh': {'generate': {'kind': 'block', 'columns': 3, "
          "'width': 0.1}}, 'young': 2e11, 'density': 7800, 'radius': 0.001, 'rotation': [0.8, 0.3, 0.4, 0.2]}]}", 10, 0.02, true);
}

/// Motions of a step are below the round-off of positions there: whatever comes out, it is not called optimal.
static void steps_too_short_for_their_place_claim_nothing(void **state) {
    (void)state;
    falls("{'dt': 1e-9, 'gravity': [0, -9.81, 0], 'bodies': [{'name': 'c', 'kind': 'cable', 'nodes': {'generate': {'kind': 'line', 'from': "
          "[0, 2, 0], 'to': [1, 2, 0], 'count': 11}}, 'mass': 0.01, 'stiffness': 500, 'radius': 0.005}]}", 50, 1e-9, false);
}

/// Neither conjugate gradients nor a factor do: the step ends all the same.
static void what_no_factor_solves_is_given_up(void **state) {
    (void)state;
    static const char *const how[] = {"1e-6, 'stiffness': 1e13", "1e-6, 'stiffness': 1e15", "1e-3, 'stiffness': 1e16"};
    for (size_t k = 0; k < sizeof how / sizeof *how; k++) {
        char text[1024];
        (void)snprintf(text, sizeof text, "{'dt': 0.005, 'gravity': [0, -9.81, 0], 'bodies': [{'name': 's', 'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', "
                       "'columns': 10, 'width': 0.5}}, 'rotation': [0.995, 0.1, 0, 0.02], 'radius': 0.001, 'mass': %s}]}", how[k]);
        falls(text, 3, 0.005, false);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bent_stiff_cable_leaves_the_fall_of_others_alone),
        cmocka_unit_test(steel_falls),
        cmocka_unit_test(what_no_factor_solves_is_given_up),
        cmocka_unit_test(steps_too_short_for_their_place_claim_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
