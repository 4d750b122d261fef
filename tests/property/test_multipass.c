// Collisions that lead to collisions within one step: a push that runs through a row, a wedge,
// cloth that is pinched or lies in layers, momentum of all kinds of bodies together; and what is
// left when passes run out.
#include "engine/world/world.h"
#include "tests/property/promised.h"
#include "tests/property/text.h"

#include <math.h>

#define BOX                                                                                        \
    "'radius': 0.001, 'mesh': {'generate': {'kind': 'box', 'width': %g, 'height': %g, 'depth': "   \
    "%g}}"

static qpc_vec3 velocity(const simulation *sim, int body) {
    return sim->w.world->pose[sim->w.world->bodies[body].rigid].v;
}

// ---- a row ----

enum { ROW = 8 };
static const double ROW_GAP = 0.003, ROW_DT = 0.02, ROW_SPEED = 4;

/// Boxes of 1 kg, each `ROW_GAP` further from the next than the two keep; the first flies at the
/// others.
static void start_row(simulation *sim, const char *solver) {
    text t = {.used = 0};
    put(&t, "{'dt': %g, 'gravity': [0, 0, 0], 'solver': {%s}, 'bodies': [", ROW_DT, solver);
    for (int i = 0; i < ROW; i++)
        put(&t,
            "%s{'kind': 'rigid', 'mass': 1, 'position': [%.17g, 0, 0], 'velocity': [%g, 0, 0]," BOX
            "}",
            i ? "," : "", i * (0.1 + 0.002 + ROW_GAP), i ? 0.0 : ROW_SPEED, 0.1, 0.1, 0.1);
    put(&t, "]}");
    simulation_start(sim, t.c);
}

static void a_push_runs_through_a_row_in_one_step(void **state) {
    (void)state;
    simulation sim;
    start_row(&sim, "");
    simulation_step(&sim, 1);
    // K = M: v_i = v_0 - i g / h of those that are reached, and the momentum is what it was.
    double slower = ROW_GAP / ROW_DT, first = 0;
    int reached = 1;
    for (; reached <= ROW; reached++) {
        first = (ROW_SPEED + slower * reached * (reached - 1) / 2) / reached;
        if (reached < ROW && first - slower * (reached - 1) < slower)
            break; // it comes short of the next
    }
    assert_true(reached == 7);
    for (int i = 0; i < ROW; i++) {
        qpc_vec3 v = velocity(&sim, i);
        assert_near(v.x, i < reached ? first - slower * i : 0, 1e-6);
        assert_true(fabs(v.y) < 1e-8 && fabs(v.z) < 1e-8);
    }
    assert_near(sim.report.momentum_x, ROW_SPEED, 1e-10 * ROW_SPEED);
    assert_true(sim.report.passes >= 2 && sim.report.passes <= 12);
    assert_int_equal(sim.report.failsafe, 0);
    simulation_end(&sim);
}

static void past_the_last_pass_the_failsafe_keeps_them_apart(void **state) {
    (void)state;
    simulation sim;
    start_row(&sim, "'passes': 1");
    int64_t saved = 0;
    for (int i = 0; i < 20; i++) {
        simulation_step(&sim, 1);
        assert_int_equal(sim.report.proven, 1);
        assert_true(sim.report.min_gap > 0 &&
                    sim.report.kinetic <= 0.5 * ROW_SPEED * ROW_SPEED * (1 + 1e-9));
        saved += sim.report.failsafe + sim.report.halvings;
    }
    assert_true(saved > 0);
    for (int i = 1; i < ROW; i++)
        assert_true(velocity(&sim, i).x > 0); // and the push has gone on from step to step
    simulation_end(&sim);
}

// ---- a wedge ----

/// A box on its edge sinks between two blocks, without friction: each face moves a block sideways
/// as fast as it sinks, so that M g s = M v^2 / 2 + 2 m v^2 / 2, and a = g M / (M + 2 m).
static void a_wedge_parts_two_blocks(void **state) {
    (void)state;
    simulation sim;
    text t = {.used = 0};
    double mass = 2, block = 1, top = 0.002 + 0.1, side = 0.2, half = side / sqrt(2), inner = 0.04;
    // The faces of the box go through (+-inner, top), 2 radii away.
    double height = top + half - inner + 0.0021 * sqrt(2);
    put(&t, "{'dt': 0.005, 'bodies': [{'kind': 'static', 'position': [0, -0.5, 0]," BOX "}", 6.0,
        1.0, 6.0);
    for (int i = -1; i <= 1; i += 2)
        put(&t, ",{'kind': 'rigid', 'mass': %g, 'position': [%.17g, %.17g, 0]," BOX "}", block,
            i * (inner + 0.15), top - 0.05, 0.3, 0.1, 0.3);
    put(&t,
        ",{'kind': 'rigid', 'mass': %g, 'position': [0, %.17g, 0], 'rotation': [%.17g, 0, 0, "
        "%.17g]," BOX "}]}",
        mass, height, cos(acos(-1.0) / 8), sin(acos(-1.0) / 8), side, side, 0.2);
    simulation_start(&sim, t.c);
    simulation_step(&sim, 4); // it comes to rest on them
    double sunk = velocity(&sim, 3).y;
    simulation_step(&sim, 20);
    double a = 9.81 * mass / (mass + 2 * block);
    assert_near((sunk - velocity(&sim, 3).y) / 0.1, a, 1e-3 * a);
    assert_near(velocity(&sim, 1).x, velocity(&sim, 3).y, 1e-3 * a * 0.1);
    assert_near(velocity(&sim, 2).x, -velocity(&sim, 3).y, 1e-3 * a * 0.1);
    simulation_end(&sim);
}

// ---- cloth ----

static void cloth_between_two_plates_is_pinched_and_let_go(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    text t = {.used = 0};
    put(&t,
        "{'dt': 0.005, 'contacts': {'friction': 0.5}, 'bodies': [{'kind': 'cloth', 'mesh': "
        "{'generate': {'kind': 'grid', 'columns': 9, 'width': 0.4, 'axis': 'x'}},"
        "'position': [0, 0.5, 0], 'rotation': [1, 0, 0.1, 0.06], 'area_density': 0.3, "
        "'membrane_stiffness': 300, 'bending_stiffness': 0.5, 'radius': 0.005},"
        "{'name': 'l', 'kind': 'kinematic', 'position': [-0.12, 0.45, 0], 'velocity': [0.5, 0, "
        "0]," BOX "},"
        "{'name': 'r', 'kind': 'kinematic', 'position': [0.12, 0.45, 0.05], 'velocity': [-0.5, 0, "
        "0]," BOX "}]}",
        0.1, 0.3, 0.3, 0.1, 0.3, 0.3);
    simulation_start(&sim, t.c);
    int64_t held = 0, most = 0, contacts = 0;
    for (int i = 0; i < 90; i++) {
        if (i == 50)
            simulation_control(&sim, "{'motions': [{'body': 'l', 'velocity': [-0.5, 0, 0]}, "
                                     "{'body': 'r', 'velocity': [0.5, 0, 0]}]}");
        run(&sim, 1, &w);
        held += sim.report.lag > 0;
        most = sim.report.passes > most ? sim.report.passes : most;
        contacts = sim.report.contacts > contacts ? sim.report.contacts : contacts;
        assert_true(sim.report.min_gap > 0.94);
    }
    assert_true(held > 5); // there was no room left
    assert_true(most <= 12 && contacts > 10);
    assert_int_equal(w.unproven, 0);
    assert_true(w.step <= 1e-6 && w.drift <= 1e-6);
    assert_near(sim.report.lag, 0, 1e-12);
    simulation_end(&sim);
}

static void layers_of_cloth_settle_in_few_passes(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    text t = {.used = 0};
    put(&t, "{'dt': 0.005, 'bodies': [{'kind': 'static', 'mesh': {'generate': {'kind': 'sheet', "
            "'width': 4, 'depth': 4}}, 'radius': 0.001}");
    for (int i = 0; i < 4; i++)
        put(&t,
            ",{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 7, 'width': "
            "0.4}}, 'position': [%g, %g, 0],"
            "'rotation': [1, %g, 0, 0.01], 'area_density': 0.3, 'membrane_stiffness': 300, "
            "'bending_stiffness': 0.2, 'radius': 0.005}",
            0.01 * i, 0.025 + 0.03 * i, i % 2 ? 0.02 : -0.02);
    put(&t, "]}");
    simulation_start(&sim, t.c);
    int64_t most = 0, factors = 0;
    for (int i = 0; i < 60; i++) {
        run(&sim, 1, &w);
        most = sim.report.passes > most ? sim.report.passes : most;
        factors += sim.report.factorizations;
        assert_int_equal(sim.report.failsafe, 0);
    }
    print_message("  passes at most %lld, factorizations %lld\n", (long long)most,
                  (long long)factors);
    assert_true(most <= 4);
    // The lowest carry those above them: 4 sheets of 0.3 kg/m2 on the floor.
    int32_t count;
    const qpc_contact_info *c = qpc_world_contacts(sim.w.world, &count);
    double weight = 0;
    for (int32_t k = 0; k < count; k++)
        if (c[k].body[0] == 0 || c[k].body[1] == 0) weight += c[k].force * fabs(c[k].normal[1]);
    double all = 4 * 0.3 * 0.16 * 9.81;
    assert_near(weight, all, 0.01 * all);
    end_promised(&sim, &w, 60);
}

// ---- momentum ----

static void all_kinds_together_keep_their_momentum(void **state) {
    (void)state;
    simulation sim;
    text t = {.used = 0};
    put(&t,
        "{'dt': 0.005, 'gravity': [0, 0, 0], 'contacts': {'friction': 0.3}, 'bodies': ["
        "{'kind': 'rigid', 'mass': 0.5, 'position': [0, 0.2, 0], 'velocity': [0.1, -2, 0.05], "
        "'angular_velocity': [1, 2, 3]," BOX "},"
        "{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 7, 'width': 0.4}}, "
        "'mass': 0.1, 'membrane_stiffness': 300,"
        "'bending_stiffness': 0.2, 'radius': 0.005},"
        "{'kind': 'cable', 'nodes': {'generate': {'kind': 'line', 'from': [-0.3, -0.05, 0.01], "
        "'to': [0.3, -0.06, 0.03], 'count': 13}},"
        "'mass': 0.01, 'stiffness': 1e4, 'radius': 0.01, 'velocity': [0, 0.5, 0]},"
        "{'kind': 'soft', 'mesh': {'generate': {'kind': 'block', 'width': 0.1, 'height': 0.1, "
        "'depth': 0.1, 'columns': 2, 'rows': 2, 'layers': 2}},"
        "'young': 1e4, 'density': 500, 'radius': 0.002, 'position': [0.02, -0.2, 0], 'velocity': "
        "[0, 1, 0]}]}",
        0.1, 0.1, 0.1);
    simulation_start(&sim, t.c);
    simulation_step(&sim, 1);
    double size = 0.5 * 2 + 0.13 * 0.5 + 0.5;
    int64_t contacts = 0;
    for (int i = 0; i < 60; i++) {
        double x = sim.report.momentum_x, y = sim.report.momentum_y, z = sim.report.momentum_z;
        simulation_step(&sim, 1);
        contacts += sim.report.active;
        double lost = fabs(sim.report.momentum_x - x) + fabs(sim.report.momentum_y - y) +
                      fabs(sim.report.momentum_z - z);
        assert_true(lost <= 1e-10 * size);
    }
    assert_true(contacts > 100);
    simulation_end(&sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_push_runs_through_a_row_in_one_step),
        cmocka_unit_test(past_the_last_pass_the_failsafe_keeps_them_apart),
        cmocka_unit_test(a_wedge_parts_two_blocks),
        cmocka_unit_test(cloth_between_two_plates_is_pinched_and_let_go),
        cmocka_unit_test(layers_of_cloth_settle_in_few_passes),
        cmocka_unit_test(all_kinds_together_keep_their_momentum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
