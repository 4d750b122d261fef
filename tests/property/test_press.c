/// Cables under a press: a plate that is driven down on the floor they lie on. It cannot close: rows that contradict, or nearly do,
/// must hold it back, and nothing free may pay for it. What is asserted are bounds from the orders alone: speeds of the order of
/// the plate's, no work once it stands, the thickness, no crossing.
#include "tests/property/simulation.h"

#define BOX "'mesh': {'generate': {'kind': 'box', 'width': %g, 'height': 0.2, 'depth': %g}}"
static const double DT = 0.005, PLATE = 0.1, RADIUS = 0.012, MASS = 0.01;

typedef struct pressing {
    simulation sim;
    double stack; // height that the cables need between plate and floor, m
    double work, push, strain, speed;
    int64_t held, conflicts;
} pressing;

/// Cables on the floor, the second one across the first, the third along it; the plate's face is 2 mm above what they need.
static void start(pressing *p, int cables, const char *extra) {
    char text[4096];
    int at = snprintf(text, sizeof text,
                      "{'dt': %g, 'gravity': [0, -9.81, 0], %s 'bodies': ["
                      "{'name': 'floor', 'kind': 'static', 'position': [0, -0.1, 0], " BOX "},"
                      "{'name': 'plate', 'kind': 'kinematic', 'position': [0, %.17g, 0], 'velocity': [0, %g, 0], " BOX "}",
                      DT, extra, 4.0, 4.0, 0.1 + 0.002 + (cables == 1 ? 2 : 4) * RADIUS, -PLATE, 1.0, 1.0);
    const char *line[3] = {"'from': [-0.4, 0.0121, 0], 'to': [0.4, 0.0121, 0.02]", "'from': [0.01, 0.0362, -0.4], 'to': [-0.01, 0.0362, 0.4]",
                           "'from': [-0.4, 0.0121, -0.06], 'to': [0.4, 0.0121, -0.08]"};
    for (int k = 0; k < cables; k++)
        at += snprintf(text + at, sizeof text - (size_t)at,
                       ", {'name': 'c%d', 'kind': 'cable', 'mass': %g, 'stiffness': 1e4, 'radius': %g, 'nodes': {'generate': {'kind': "
                       "'line', %s, 'count': 40}}}",
                       k, MASS, RADIUS, line[k]);
    (void)snprintf(text + at, sizeof text - (size_t)at, "]}");
    *p = (pressing){.stack = (cables == 1 ? 2 : 4) * RADIUS};
    simulation_start(&p->sim, text);
}

static double face_of_plate(const simulation *sim) {
    for (int32_t i = 0;; i++) {
        qpc_body_info body = qpc_world_body(sim->w.world, i);
        if (strcmp(body.name, "plate") != 0) continue;
        double low = HUGE_VAL;
        for (int k = 0; k < body.node_count; k++) low = fmin(low, simulation_x(sim, body.first_node + k)[1]);
        return low;
    }
}

static void run(pressing *p, int steps) {
    for (int i = 0; i < steps; i++) {
        simulation_step(&p->sim, 1);
        const qpc_step_report *r = &p->sim.report;
        assert_int_equal(r->proven, 1);
        assert_true(r->min_gap > 0.94);
        p->held += r->failsafe > 0;
        p->conflicts += r->conflicts > 0;
        if (r->failsafe > 0) assert_int_equal(r->outcome, QPC_STEP_FAILSAFE);
        p->speed = fmax(p->speed, r->max_speed);
        p->strain = fmax(p->strain, r->max_strain);
        p->work = r->work;
        p->push = r->work_pushed;
    }
}

/// After two seconds of orders the plate stands where the cables leave it no room, and says how far it is behind.
static void stays_caught(pressing *p, int cables, int steps) {
    run(p, steps);
    double face = face_of_plate(&p->sim), start_face = p->stack + 0.002;
    assert_true(face > 0.95 * p->stack && face < start_face);
    assert_near(p->sim.report.lag, PLATE * DT * steps - (start_face - face), 1e-9);
    assert_true(p->held > steps / 2);
    assert_true(p->conflicts > 0);
    // What slips in the last tenths of a millimetre: five times the kinetic energy that all of it would have at that speed.
    assert_true(p->speed <= 10 * PLATE);
    assert_true(p->strain < 0.1);
    assert_true(p->work + p->push < cables * 2.5 * MASS * (10 * PLATE) * (10 * PLATE));
    double work = p->work;
    run(p, 20); // and no more of it
    assert_true(p->work - work <= 1e-3 * (fabs(work) + 1e-3));
    simulation_end(&p->sim);
}

static void one_cable_is_held_at_its_thickness(void **state) {
    (void)state;
    pressing p;
    start(&p, 1, "");
    run(&p, 100);
    assert_near(face_of_plate(&p.sim), 2 * RADIUS, 1e-3 * RADIUS); // the rows contradict at once: not a hair is lost
    assert_true(p.strain < 1e-3);
    assert_true(p.speed <= 2 * PLATE);
    assert_true(p.work <= MASS * PLATE * PLATE);
    simulation_end(&p.sim);
}

static void two_crossing_cables_stay_caught(void **state) {
    (void)state;
    pressing p;
    start(&p, 2, "");
    stays_caught(&p, 2, 300);
}

static void three_cables_stay_caught(void **state) {
    (void)state;
    pressing p;
    start(&p, 3, "");
    stays_caught(&p, 3, 120);
}

static void with_strain_limits(void **state) {
    (void)state;
    pressing p;
    start(&p, 2,
          "'constraints': [{'kind': 'strain-limit', 'body': 'c0', 'max': 1.05}, {'kind': 'strain-limit', 'body': 'c1', 'max': 1.05}],");
    stays_caught(&p, 2, 120);
}

static void with_friction(void **state) {
    (void)state;
    pressing p;
    start(&p, 2, "'contacts': {'friction': 0.3},");
    stays_caught(&p, 2, 60);
}

static void within_a_budget(void **state) {
    (void)state;
    pressing p;
    start(&p, 2, "'solver': {'budget': 1000},");
    stays_caught(&p, 2, 120);
}

/// The plate goes up again: it makes up for what it owes first, and leaves the cables as they were.
static void a_plate_that_is_lifted_lets_them_go(void **state) {
    (void)state;
    pressing p;
    start(&p, 2, "");
    run(&p, 60);
    simulation_control(&p.sim, "{'motions': [{'body': 'plate', 'velocity': [0, 0.2, 0]}]}");
    run(&p, 60);
    assert_true(face_of_plate(&p.sim) > p.stack + 0.01);
    assert_true(p.speed <= 10 * PLATE);
    assert_true(p.sim.report.failsafe == 0 && p.sim.report.lag < 1e-12);
    simulation_end(&p.sim);
}

/// What may go aside goes: two cables one on the other slip past each other, and the plate comes down to one thickness.
static void cables_that_can_slip_aside_do(void **state) {
    (void)state;
    pressing p = {.stack = 2 * RADIUS};
    simulation_start(&p.sim, "{'dt': 0.005, 'gravity': [0, -9.81, 0], 'bodies': ["
                             "{'name': 'floor', 'kind': 'static', 'position': [0, -0.1, 0], 'mesh': {'generate': {'kind': 'box', 'width': 4, "
                             "'height': 0.2, 'depth': 4}}},"
                             "{'name': 'plate', 'kind': 'kinematic', 'position': [0, 0.15, 0], 'velocity': [0, -0.1, 0], 'mesh': {'generate': "
                             "{'kind': 'box', 'width': 1, 'height': 0.2, 'depth': 1}}},"
                             "{'kind': 'cable', 'mass': 0.01, 'stiffness': 1e4, 'radius': 0.012, 'nodes': {'generate': {'kind': 'line', "
                             "'from': [-0.2, 0.0121, 0], 'to': [0.2, 0.0121, 0], 'count': 20}}},"
                             "{'kind': 'cable', 'mass': 0.01, 'stiffness': 1e4, 'radius': 0.012, 'nodes': {'generate': {'kind': 'line', "
                             "'from': [-0.21, 0.0362, 0.001], 'to': [0.19, 0.0362, 0.001], 'count': 20}}}]}");
    run(&p, 100);
    assert_near(face_of_plate(&p.sim), 2 * RADIUS, 0.05 * 2 * RADIUS);
    assert_true(p.speed <= 10 * PLATE);
    simulation_end(&p.sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_cable_is_held_at_its_thickness),
        cmocka_unit_test(two_crossing_cables_stay_caught),
        cmocka_unit_test(three_cables_stay_caught),
        cmocka_unit_test(with_strain_limits),
        cmocka_unit_test(with_friction),
        cmocka_unit_test(within_a_budget),
        cmocka_unit_test(a_plate_that_is_lifted_lets_them_go),
        cmocka_unit_test(cables_that_can_slip_aside_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
