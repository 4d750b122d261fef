// Rigid bodies at rest and almost at rest: what is left out of a step does not show, and slow motion is not lost.
#include "engine/world/world.h"
#include "tests/property/simulation.h"

#include <math.h>

#define FLOOR                                                                                      \
    "{'kind': 'static', 'mesh': {'generate': {'kind': 'box', 'width': 10, 'height': 1, "           \
    "'depth': 10}}, 'position': [0, -0.5, 0], 'radius': 0.001}"
#define CUBE                                                                                       \
    "{'kind': 'rigid', 'mesh': {'generate': {'kind': 'box', 'width': 0.1, 'height': 0.1, "         \
    "'depth': 0.1}}, 'radius': 0.001, 'density': 1000, "

static const qpc_rigid_state *pose(const simulation *sim, int body) {
    return &sim->w.world->pose[sim->w.world->bodies[body].rigid];
}
static void start_stack(simulation *sim, int boxes) {
    char text[4096];
    size_t used = (size_t)snprintf(text, sizeof text, "{'dt': 0.005, 'bodies': [" FLOOR);
    for (int i = 0; i < boxes; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "," CUBE "'position': [0, %g, 0]}", 0.052 + 0.102 * i);
    (void)snprintf(text + used, sizeof text - used, "], 'contacts': {'friction': 0.5}}");
    simulation_start(sim, text);
}

static void a_stack_at_rest_is_certified_in_each_step_and_hardly_tested(void **state) {
    (void)state;
    simulation sim;
    start_stack(&sim, 5);
    simulation_step(&sim, 20);
    int tested = 0;
    for (int i = 0; i < 1000; i++) {
        qpc_error err = {0};
        assert_ok(qpc_world_step(sim.w.world, &sim.report, &err), &err);
        assert_true(sim.report.proven == 1 && sim.report.outcome == QPC_STEP_OPTIMAL && sim.report.qps == 1);
        assert_true(sim.report.natural_ratio < 1e-12 && sim.report.stat < 1e-12 && sim.report.friction_natural < 1e-9);
        assert_true(sim.report.rows == 20 && sim.report.active == 20);
        assert_near(sim.report.min_gap, 1, 1e-9);
        tested += sim.report.vt_tests + sim.report.ee_tests > 0;
    }
    assert_true(tested <= 20);
    for (int i = 1; i < 6; i++) assert_near(pose(&sim, i)->x.y, 0.052 + 0.102 * (i - 1), 1e-11);
    simulation_step(&sim, 1);
    simulation_end(&sim);
}

static void a_box_on_a_stack_that_is_pushed_leaves_it_at_once(void **state) {
    (void)state;
    simulation sim;
    start_stack(&sim, 3);
    simulation_step(&sim, 100);
    simulation_control(&sim, "{'forces': [{'body': 3, 'force': [6, 0, 0]}]}");
    simulation_step(&sim, 40);
    double a = 6 - 0.5 * 9.81, t = 0.2, h = 0.005; // of 1 kg
    assert_near(pose(&sim, 3)->v.x, a * t, 1e-6);
    assert_near(pose(&sim, 3)->x.x, 0.5 * a * t * (t + h), 1e-6);
    assert_near(pose(&sim, 2)->x.x, 0, 1e-9);
    assert_near(pose(&sim, 3)->x.y, 0.256, 1e-7);
    simulation_end(&sim);
}

static void a_body_that_creeps_goes_as_far_as_it_should(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.01, 'gravity': [0, 0, 0], 'bodies': [" CUBE
                           "'velocity': [1e-11, 0, 0], 'angular_velocity': [0, 0, 1e-10]}]}");
    const qpc_world *w = sim.w.world;
    double exact[24], away = 0;
    for (int i = 0; i < 3000; i++) {
        qpc_error err = {0};
        assert_ok(qpc_world_step(sim.w.world, &sim.report, &err), &err);
        qpc_rigid_place(pose(&sim, 0), 8, w->bodies[0].local, exact, NULL);
        for (int k = 0; k < 24; k++) away = fmax(away, fabs(w->x[k] - exact[k]));
    }
    assert_near(pose(&sim, 0)->x.x, 3e-10, 1e-15);
    assert_true(away <= 1.01e-10 * 0.002);
    double spin = 0; // by the vertices alone: (r x dr) over |r|^2, dr from the corner of the box that stood still
    for (int k = 0; k < 8; k++) {
        double x = copysign(0.05, w->x[3 * k]), y = copysign(0.05, w->x[3 * k + 1]);
        spin += 0.125 * (x * (w->x[3 * k + 1] - y) - y * (w->x[3 * k] - 3e-10 - x)) / 0.005;
    }
    assert_near(spin, 3e-9, 2e-11);
    simulation_end(&sim);
}

static void a_creeping_body_stops_at_what_it_meets(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.01, 'gravity': [0, 0, 0], 'bodies': [" FLOOR "," CUBE
                           "'position': [0, 0.05200000002, 0], 'velocity': [0, -1e-11, 0]}]}");
    double least = 1;
    for (int i = 0; i < 500; i++) {
        qpc_error err = {0};
        assert_ok(qpc_world_step(sim.w.world, &sim.report, &err), &err);
        least = fmin(least, sim.report.min_gap);
        if (i == 99) assert_near(pose(&sim, 1)->x.y, 0.05200000001, 1e-14);
    }
    assert_true(least > 1 - 1e-9);
    assert_near(pose(&sim, 1)->x.y, 0.052, 1e-12);
    simulation_step(&sim, 1);
    simulation_end(&sim);
}

#define SLOPE 0.3 // rad, and friction of 1.02 times its tangent
#define COS 0.95533648912560602
#define SIN 0.29552020666133955
#define TURNED "'rotation': [0.98877107793604227, 0, 0, -0.14943813247359922]"

/// On a slope made of triangles: what contacts do to the bodies is their weight, in each step.
static void rests_on_a_slope(const char *bodies, double mass, int steps) {
    char text[4096];
    simulation sim;
    (void)snprintf(text, sizeof text, "{'dt': 0.005, 'contacts': {'friction': %.17g}, 'bodies': [{'kind': 'static', "
                   "'mesh': {'generate': {'kind': 'sheet', 'width': 40, 'depth': 8}}, " TURNED "}, %s]}",
                   1.02 * SIN / COS, bodies);
    simulation_start(&sim, text);
    qpc_world *w = sim.w.world;
    for (int n = 0; n < steps; n++) {
        qpc_error err = {0};
        assert_ok(qpc_world_step(w, &sim.report, &err), &err);
        assert_true(sim.report.outcome == QPC_STEP_OPTIMAL && sim.report.friction_missed == 0 && sim.report.halvings == 0);
        assert_true(sim.report.energy_step <= 1e-6 && (n < 10 || sim.report.qps <= 4));
        int32_t count;
        const qpc_contact_info *c = qpc_world_contacts(w, &count);
        double sum[3] = {0, 0, 0};
        for (int32_t i = 0; i < count; i++) {
            double side = c[i].body[0] == 0 ? -1 : 1;
            if (c[i].body[0] != 0 && c[i].body[1] != 0) continue; // among themselves
            for (int a = 0; a < 3; a++) sum[a] += side * (c[i].force * c[i].normal[a] + c[i].friction[a]);
        }
        for (int a = 0; a < 3; a++) assert_near(sum[a], a == 1 ? 9.81 * mass : 0, 1e-5 * mass);
        assert_true(sim.report.max_speed < 1e-8);
    }
    simulation_end(&sim);
}

/// Its centre `up` above the slope.
static void rigid_box_rests(double width, double height, double up, int boxes, int steps) {
    char text[3000];
    size_t used = 0;
    for (int i = 0; i < boxes; i++) {
        double at = up + i * (height + 0.02);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s{'kind': 'rigid', 'mesh': {'generate': {'kind': 'box', 'width': %g, "
                                 "'height': %g, 'depth': %g}}, 'mass': 2, 'radius': 0.01, " TURNED ", 'position': [%.17g, %.17g, 0]}",
                                 i > 0 ? ", " : "", width, height, width, SIN * at, COS * at);
    }
    rests_on_a_slope(text, 2.0 * boxes, steps);
}

static void particle_rests(int steps) {
    rests_on_a_slope("{'kind': 'cable', 'nodes': [[0.0029552020666133955, 0.0095533648912560602, 0]], 'mass': 0.5, 'radius': 0.01}", 0.5, steps);
}

static void cloth_rests(int steps) {
    rests_on_a_slope("{'kind': 'cloth', 'mesh': {'generate': {'kind': 'sheet', 'width': 0.4, 'depth': 0.4, 'triangles': 18}}, 'mass': 0.3, "
                     "'stiffness': 1000, 'radius': 0.01, " TURNED ", 'position': [0.0029552020666133955, 0.0095533648912560602, 0.3]}", 0.3, steps);
}

/// Their way is of the size of what rounding moves them by, and so is all the energy that they ever had.
static void what_begins_at_rest_on_a_slope_keeps_its_forces(void **state) {
    (void)state;
    rigid_box_rests(0.25, 0.1, 0.06, 1, 100);
    rigid_box_rests(0.15, 0.15, 0.085, 1, 100);
    particle_rests(100);
    cloth_rests(50);
}

static const int MINUTE = 12000;

static void boxes_rest_on_a_slope_for_a_minute(void **state) {
    (void)state;
    rigid_box_rests(0.2, 0.2, 0.11, 1, MINUTE);
    rigid_box_rests(0.4, 0.1, 0.06, 1, MINUTE);
    rigid_box_rests(0.4, 0.1, 0.06, 4, MINUTE);
}

static void what_is_elastic_rests_on_a_slope_for_a_minute(void **state) {
    (void)state;
    particle_rests(MINUTE);
    cloth_rests(MINUTE);
}

int main(int argc, char **argv) {
    const struct CMUnitTest minutes[] = {
        cmocka_unit_test(boxes_rest_on_a_slope_for_a_minute),
        cmocka_unit_test(what_is_elastic_rests_on_a_slope_for_a_minute),
    };
    if (argc > 1 && strcmp(argv[1], "full") == 0) return cmocka_run_group_tests(minutes, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_begins_at_rest_on_a_slope_keeps_its_forces),
        cmocka_unit_test(a_stack_at_rest_is_certified_in_each_step_and_hardly_tested),
        cmocka_unit_test(a_box_on_a_stack_that_is_pushed_leaves_it_at_once),
        cmocka_unit_test(a_body_that_creeps_goes_as_far_as_it_should),
        cmocka_unit_test(a_creeping_body_stops_at_what_it_meets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
