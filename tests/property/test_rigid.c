// Rigid bodies in scenes: closed forms of free motion, rest, sliding and impacts; what they touch; promises
// while they tumble.
#include "engine/world/world.h"
#include "tests/property/simulation.h"
#include "tests/support/faults.h"

#include <math.h>

#define FLOOR                                                                                      \
    "{'kind': 'static', 'mesh': {'generate': {'kind': 'box', 'width': 10, 'height': 1, "           \
    "'depth': 10}}, 'position': [0, -0.5, 0], 'radius': 0.001}"
#define CUBE                                                                                       \
    "{'kind': 'rigid', 'mesh': {'generate': {'kind': 'box', 'width': 0.1, 'height': 0.1, "         \
    "'depth': 0.1}}, 'radius': 0.001, "

static const qpc_rigid_state *pose(const simulation *sim, int body) {
    return &sim->w.world->pose[sim->w.world->bodies[body].rigid];
}
static const qpc_rigid_part *part(const simulation *sim, int body) {
    return &sim->w.world->rigids[sim->w.world->bodies[body].rigid];
}
/// Angular momentum about the origin.
static qpc_vec3 angular_momentum(const simulation *sim) {
    const qpc_world *w = sim->w.world;
    qpc_vec3 sum = v3(0, 0, 0);
    for (int32_t i = 0; i < w->rigid_count; i++) {
        const qpc_rigid_state *s = &w->pose[i];
        sum = v3_add(sum, qpc_rigid_inertia_times(&w->rigids[i].inertia, s->q, s->w));
        sum = v3_add(sum, v3_cross(s->x, v3_scale(w->rigids[i].inertia.mass, s->v)));
    }
    return sum;
}
static qpc_vec3 momentum(const simulation *sim) {
    return v3(sim->report.momentum_x, sim->report.momentum_y, sim->report.momentum_z);
}
/// Steps without the checker; every one is to be proven and solved.
static void run(simulation *sim, int steps) {
    qpc_error err = {0};
    for (int i = 0; i < steps; i++) {
        assert_ok(qpc_world_step(sim->w.world, &sim->report, &err), &err);
        assert_int_equal(sim->report.proven, 1);
    }
}
static double moved(const qpc_rigid_state *a, const qpc_rigid_state *b, double reach) {
    double turn = 0;
    for (int k = 0; k < 4; k++) turn += a->q[k] * b->q[k];
    return v3_norm(v3_sub(a->x, b->x)) + 2 * reach * sqrt(fmax(0, 2 * (1 - fabs(turn))));
}

// ---- free motion ----

static void a_box_falls_as_a_particle_does(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.01, 'gravity': [0, 0, -10], 'bodies': [" CUBE
                           "'density': 700, 'position': [0, 0, 100]}]}");
    simulation_step(&sim, 200);
    assert_near(pose(&sim, 0)->x.z, 100 - 10 * 1e-4 * 200 * 201 / 2, 200 * 1.5e-14);
    assert_near(pose(&sim, 0)->v.z, -20, 1e-13);
    assert_near(part(&sim, 0)->inertia.mass, 0.7, 1e-15);
    for (int k = 0; k < 8; k++) // vertices go along
        assert_near(fabs(simulation_x(&sim, k)[2] - pose(&sim, 0)->x.z), 0.05, 1e-13);
    simulation_end(&sim);
}
static void tumbling_keeps_energy_and_angular_momentum(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim,
                     "{'dt': 0.01, 'gravity': [0, 0, 0], 'bodies': [{'kind': 'rigid', 'mesh': "
                     "{'generate': {'kind': 'box', 'width': 0.1, 'height': 0.2, 'depth': 0.3}}, "
                     "'radius': 0.001, 'mass': 2, 'velocity': [0.3, 0, 0], "
                     "'angular_velocity': [0.01, 3, 0.02]}]}");
    qpc_vec3 L = angular_momentum(&sim);
    const double *I = part(&sim, 0)->inertia.moment;
    double energy = qpc_rigid_energy(&part(&sim, 0)->inertia, pose(&sim, 0)), least = 3;
    assert_near(I[0], 2.0 / 12 * (0.04 + 0.09), 1e-15);
    for (int i = 0; i < 1000; i++) {
        run(&sim, 10);
        least = fmin(least, qpc_quat_unrotate(pose(&sim, 0)->q, pose(&sim, 0)->w).y);
    }
    assert_true(least < -2.9); // it has flipped over its middle axis
    assert_near(qpc_rigid_energy(&part(&sim, 0)->inertia, pose(&sim, 0)) / energy, 1, 1e-12);
    assert_true(v3_norm(v3_sub(angular_momentum(&sim), L)) < 1e-12 * v3_norm(L));
    assert_near(pose(&sim, 0)->x.x, 30, 1e-10);
    assert_int_equal(sim.report.halvings, 0);
    simulation_end(&sim);
}
static void a_torque_spins_a_body_up(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.01, 'gravity': [0, 0, 0], 'bodies': [" CUBE
                           "'mass': 3, 'inertia': [0.1, 0.2, 0.15], 'center': [0.01, 0, 0]}]}");
    assert_near(pose(&sim, 0)->x.x, 0.01, 1e-17);
    simulation_control(&sim, "{'forces': [{'body': 0, 'force': [0, 6, 0], 'torque': [0, 0.4, 0]}]}");
    simulation_step(&sim, 50);
    assert_near(pose(&sim, 0)->w.y, 0.4 / 0.2 * 0.5, 1e-13);
    assert_near(pose(&sim, 0)->v.y, 6.0 / 3 * 0.5, 1e-13);
    assert_near(sim.report.kinetic, 0.5 * 0.2 * 1 + 0.5 * 3 * 1, 1e-12);
    assert_true(sim.report.work >= sim.report.kinetic);
    assert_near(sim.report.work, sim.report.kinetic, 0.03 * sim.report.kinetic);
    simulation_end(&sim);
}

// ---- rest ----

static void a_box_stands_still_for_a_minute(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.005, 'bodies': [" FLOOR "," CUBE
                           "'density': 1000, 'position': [0, 0.0522, 0]}],"
                           "'contacts': {'friction': 0.5}}");
    simulation_step(&sim, 20);
    qpc_rigid_state then = *pose(&sim, 1);
    assert_near(then.x.y, 0.052, 1e-8);
    run(&sim, 12000);
    simulation_step(&sim, 1);
    assert_true(moved(pose(&sim, 1), &then, 0.0866) < 1e-9);
    assert_true(sim.report.max_speed < 1e-9);
    double weight = 0; // carried by its contacts
    int32_t count;
    const qpc_contact_info *c = qpc_world_contacts(sim.w.world, &count);
    for (int32_t i = 0; i < count; i++) weight += c[i].force * fabs(c[i].normal[1]);
    assert_int_equal(count, 4);
    assert_near(weight, 9.81 * 1.0, 1e-8);
    simulation_end(&sim);
}
static void a_stack_of_five_stands_still_for_a_minute(void **state) {
    (void)state;
    char text[4096];
    size_t used = (size_t)snprintf(text, sizeof text, "{'dt': 0.005, 'bodies': [" FLOOR);
    for (int i = 0; i < 5; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "," CUBE "'density': 1000, 'position': [%g, %g, 0]}",
                                 0.002 * (i % 2), 0.052 + 0.102 * i);
    (void)snprintf(text + used, sizeof text - used, "], 'contacts': {'friction': 0.5}}");
    simulation sim;
    simulation_start(&sim, text);
    simulation_step(&sim, 20);
    qpc_rigid_state then[6];
    for (int i = 1; i < 6; i++) then[i] = *pose(&sim, i);
    run(&sim, 12000);
    simulation_step(&sim, 1);
    for (int i = 1; i < 6; i++) assert_true(moved(pose(&sim, i), &then[i], 0.0866) < 1e-5);
    assert_true(sim.report.max_speed < 1e-6);
    simulation_end(&sim);
}

// ---- slopes ----

static void start_slope(simulation *sim, double angle, double mu) {
    char text[2048];
    double c = cos(angle), s = sin(angle), q[2] = {cos(angle / 2), sin(angle / 2)};
    (void)snprintf(text, sizeof text,
                   "{'dt': 0.005, 'bodies': [{'kind': 'static', 'mesh': {'generate': {'kind': 'box', "
                   "'width': 10, 'height': 1, 'depth': 10}}, 'radius': 0.001, "
                   "'position': [%.17g, %.17g, 0], 'rotation': [%.17g, 0, 0, %.17g]}," CUBE
                   "'density': 1000, 'position': [%.17g, %.17g, 0], 'orientation': [%.17g, 0, 0, %.17g]}],"
                   "'contacts': {'friction': %g}}",
                   0.5 * s, -0.5 * c, q[0], q[1], -0.052 * s, 0.052 * c, q[0], q[1], mu);
    simulation_start(sim, text);
}
static void a_box_on_a_slope_sticks_below_the_angle_of_friction(void **state) {
    (void)state;
    simulation sim;
    start_slope(&sim, acos(-1.0) / 9, 0.5); // 20 degrees, tan = 0.364
    qpc_rigid_state then = *pose(&sim, 1);
    simulation_step(&sim, 400);
    assert_true(moved(pose(&sim, 1), &then, 0.0866) < 1e-9);
    simulation_end(&sim);
}
static void a_box_on_a_slope_slides_above_it(void **state) {
    (void)state;
    simulation sim;
    double angle = acos(-1.0) / 9, mu = 0.2, pull = 9.81 * (sin(angle) - mu * cos(angle));
    start_slope(&sim, angle, mu);
    qpc_rigid_state then = *pose(&sim, 1);
    simulation_step(&sim, 200);
    assert_near(v3_norm(pose(&sim, 1)->v), pull * 1.0, 1e-7);
    assert_near(v3_norm(v3_sub(pose(&sim, 1)->x, then.x)), pull * 0.005 * 0.005 * 200 * 201 / 2, 1e-7);
    assert_true(v3_norm(pose(&sim, 1)->w) < 1e-8);
    simulation_end(&sim);
}

#define GROUND                                                                                     \
    "{'kind': 'static', 'mesh': {'generate': {'kind': 'box', 'width': 10, 'height': 10, "          \
    "'depth': 1}}, 'position': [0, 0, -0.5], 'radius': 0.001}"
static void a_sliding_block_stops_where_it_has_to(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.01, 'gravity': [0, 0, -10], 'bodies': [" GROUND "," CUBE
                           "'mass': 2, 'position': [0, 0, 0.052], 'velocity': [2.01, 0, 0]}],"
                           "'contacts': {'friction': 0.25}}");
    double from = pose(&sim, 1)->x.x;
    simulation_step(&sim, 80);
    assert_true(pose(&sim, 1)->v.x > 0.005);
    simulation_step(&sim, 20);
    assert_oracle(pose(&sim, 1)->x.x - from, "block_stopping_distance", 0, 0);
    assert_true(fabs(pose(&sim, 1)->v.x) < 1e-8);
    simulation_end(&sim);
}
static void a_block_that_starts_on_a_slope_slides_as_it_has_to(void **state) {
    (void)state;
    simulation sim;
    double angle = acos(-1.0) / 6;
    start_slope(&sim, angle, 0.5);
    qpc_vec3 from = pose(&sim, 1)->x, down = v3(-cos(angle), -sin(angle), 0);
    char text[256];
    (void)snprintf(text, sizeof text, "{'parameters': {'dt': 0.01}, 'forces': [{'body': 1, 'force': [%.17g, %.17g, 0]}]}",
                   0.1 / 0.01 * down.x, 0.1 / 0.01 * down.y); // an impulse of 0.1 N s on 1 kg
    simulation_control(&sim, text);
    simulation_step(&sim, 1);
    simulation_control(&sim, "{'clear_forces': true}");
    simulation_step(&sim, 99);
    double a = 9.81 * (sin(angle) - 0.5 * cos(angle));
    assert_near(v3_dot(pose(&sim, 1)->v, down) - 0.1, a * 1.0, 1e-7);
    assert_oracle((v3_dot(pose(&sim, 1)->v, down) - 0.1) / 1.0, "incline_slip", 0, 0);
    assert_oracle(v3_dot(v3_sub(pose(&sim, 1)->x, from), down), "incline_slip", 1, 0);
    simulation_end(&sim);
}

// ---- impacts ----

/// Both exact methods for an impact on several points at once.
static const char *const impact_solvers[] = {"auto", "lcp-impulse"};

static void start_landing(simulation *sim, double tilt, double height, const char *solver) {
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "{'dt': 0.001, 'gravity': [0, 0, 0], 'bodies': [" GROUND ",{'kind': 'rigid', 'mesh': {'generate': "
                   "{'kind': 'box', 'width': 0.4, 'height': 0.3, 'depth': 0.2}}, 'radius': 0.001, 'mass': 2,"
                   "'position': [0, 0, %g], 'rotation': [%.17g, 0, %.17g, 0], 'velocity': [0, 0, -3]}],"
                   "'contacts': {'restitution': 0.5}, 'solver': {'name': '%s'}}",
                   height, cos(tilt / 2), sin(tilt / 2), solver);
    simulation_start(sim, text);
}
static void a_box_lands_on_its_face(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof impact_solvers / sizeof *impact_solvers; k++) {
        simulation sim;
        start_landing(&sim, 0, 0.11, impact_solvers[k]);
        simulation_step(&sim, 10);
        assert_oracle(pose(&sim, 1)->v.z, "box_four_corners", 2, 0);
        assert_oracle(v3_norm(pose(&sim, 1)->w), "box_four_corners", 2, 1);
        simulation_end(&sim);
    }
}
static void a_box_lands_on_its_edge(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof impact_solvers / sizeof *impact_solvers; k++) {
        simulation sim;
        start_landing(&sim, acos(-1.0) / 9, 0.18, impact_solvers[k]);
        int64_t impacts = 0;
        for (int i = 0; i < 20 && impacts == 0; i++) {
            simulation_step(&sim, 1);
            impacts = sim.report.impacts;
        }
        assert_true(k == 0 || sim.report.engine == QPC_SOLVER_LCP_IMPULSE);
        // It turns on while what is left of the step goes by: of first order in dt.
        oracle z = oracle_read("box_edge_landing", 1, 0), turn = oracle_read("box_edge_landing", 2, 1);
        assert_near(pose(&sim, 1)->v.z, z.value, 0.03);
        assert_near(pose(&sim, 1)->w.y, turn.value, 0.3);
        assert_true(fabs(pose(&sim, 1)->w.x) < 1e-6 && fabs(pose(&sim, 1)->w.z) < 1e-6);
        simulation_end(&sim);
    }
}

static void boxes_bounce_face_to_face(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.005, 'gravity': [0, 0, 0], 'bodies': [" CUBE
                           "'mass': 1, 'velocity': [1, 0, 0]}," CUBE
                           "'mass': 2, 'position': [0.2, 0, 0], 'velocity': [-0.4, 0, 0]}],"
                           "'contacts': {'restitution': 0.6}}");
    simulation_step(&sim, 1);
    qpc_vec3 P = momentum(&sim);
    simulation_step(&sim, 60);
    // u1 = (p - m2 e (u1 - u2)) / (m1 + m2)
    assert_near(pose(&sim, 0)->v.x, (0.2 - 2 * 0.6 * 1.4) / 3, 1e-9);
    assert_near(pose(&sim, 1)->v.x, (0.2 + 1 * 0.6 * 1.4) / 3, 1e-9);
    assert_true(v3_norm(v3_sub(momentum(&sim), P)) < 1e-10);
    assert_true(v3_norm(pose(&sim, 0)->w) < 1e-9 && v3_norm(pose(&sim, 1)->w) < 1e-9);
    simulation_end(&sim);
}
/// Boxes in touch, struck by a first one at 1 m/s: one pair after the other, the fastest first.
static void a_cradle_of_boxes_in_touch_is_that_of_the_textbook(void **state) {
    (void)state;
    const double want[3][5] = {{0, 0, 1}, {0, 0, 0, 0, 1}, {13.0 / 64, 15.0 / 64, 36.0 / 64}};
    const int count[3] = {3, 5, 3};
    for (int k = 0; k < 3; k++) {
        simulation sim;
        char text[2048];
        int used = snprintf(text, sizeof text, "{'dt': 0.002, 'gravity': [0, 0, 0], 'contacts': {'restitution': %g}, 'solver': {'impact': 'sequential'}, 'bodies': [",
                            k == 2 ? 0.5 : 1.0);
        for (int i = 0; i < count[k]; i++)
            used += snprintf(text + used, sizeof text - (size_t)used, "%s" CUBE "'mass': 1, 'position': [%.17g, 0, 0], 'velocity': [%d, 0, 0]}", i ? "," : "",
                             i ? 0.102 * i : -0.06, i == 0);
        (void)snprintf(text + used, sizeof text - (size_t)used, "]}");
        simulation_start(&sim, text);
        simulation_step(&sim, 100);
        for (int i = 0; i < count[k]; i++) assert_near(pose(&sim, i)->v.x, want[k][i], 1e-6);
        simulation_end(&sim);
    }
}
/// A turning box hits a ball; what is missing of the angular momentum, relative.
static double hit_turning(double dt) {
    simulation sim;
    char text[2048];
    (void)snprintf(text, sizeof text,
                   "{'dt': %g, 'gravity': [0, 0, 0], 'bodies': [" CUBE
                   "'mass': 1, 'velocity': [1, 0, 0], 'rotation': [0.8, 0.1, 0.3, 0.5], "
                   "'angular_velocity': [1, 2, 3]},"
                   "{'kind': 'rigid', 'mesh': {'generate': {'kind': 'sphere', 'radius': 0.05, "
                   "'triangles': 120}}, 'radius': 0.001, 'mass': 2, 'position': [0.25, 0.03, 0.02],"
                   "'velocity': [-0.5, 0, 0]}],"
                   "'contacts': {'restitution': 0.7, 'friction': 0.3}}",
                   dt);
    simulation_start(&sim, text);
    simulation_step(&sim, 1);
    qpc_vec3 P = momentum(&sim), L = angular_momentum(&sim);
    double kinetic = sim.report.kinetic;
    int64_t impacts = 0;
    for (int i = 0; i * dt < 0.3; i++) {
        simulation_step(&sim, 1);
        impacts += sim.report.impacts;
        assert_true(v3_norm(v3_sub(momentum(&sim), P)) < 1e-10);
        assert_true(sim.report.kinetic <= kinetic * (1 + 1e-9));
    }
    assert_true(impacts > 0);
    assert_true(sim.report.kinetic < 0.95 * kinetic);
    double missing = v3_norm(v3_sub(angular_momentum(&sim), L)) / v3_norm(L);
    simulation_end(&sim);
    return missing;
}
static void a_turning_box_that_is_hit_keeps_momentum(void **state) {
    (void)state;
    // The kick is at the start of the step, arms are of its middle (TR18): of first order in dt.
    double coarse = hit_turning(1e-3), fine = hit_turning(1e-4);
    assert_true(coarse < 0.01);
    assert_true(fine < 0.5 * coarse);
}
static void a_frictionless_tumble_gains_no_energy(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.005, 'bodies': [" FLOOR "," CUBE
                           "'density': 1000, 'position': [0, 0.3, 0], 'rotation': [0.8, 0.1, 0.3, 0.5],"
                           "'angular_velocity': [1, -2, 3]}]}");
    double energy = HUGE_VAL;
    for (int i = 0; i < 400; i++) {
        simulation_step(&sim, 1);
        double now = sim.report.kinetic + sim.report.potential - sim.report.work_pushed;
        assert_true(now <= energy + 1e-6 * sim.report.energy_scale);
        energy = now;
    }
    assert_near(pose(&sim, 1)->x.y, 0.052, 2e-4); // it lies on a face
    simulation_end(&sim);
}

// ---- what they touch ----

static void a_driven_box_pushes_one(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.005, 'bodies': [" FLOOR ",{'kind': 'kinematic', 'mesh': {'generate': "
                           "{'kind': 'box', 'width': 0.1, 'height': 0.1, 'depth': 0.1}}, 'radius': 0.001, "
                           "'position': [-0.2, 0.06, 0], 'velocity': [0.5, 0, 0]}," CUBE
                           "'density': 1000, 'position': [0, 0.052, 0]}], 'contacts': {'friction': 0.3}}");
    simulation_step(&sim, 200);
    assert_near(pose(&sim, 2)->v.x, 0.5, 1e-7);
    assert_near(pose(&sim, 2)->x.x, -0.2 + 0.5 + 0.102, 1e-6);
    // What drives does the work of friction.
    assert_true(sim.report.work > 0.3 * 9.81 * 0.3);
    simulation_end(&sim);
}
static void a_cable_lies_over_a_box(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.005, 'bodies': [" FLOOR "," CUBE
                           "'density': 1000, 'position': [0, 0.052, 0]},"
                           "{'kind': 'cable', 'nodes': {'generate': {'kind': 'line', 'count': 41, "
                           "'from': [-0.3, 0.13, 0.01], 'to': [0.3, 0.13, 0.01]}}, 'mass': 0.002, "
                           "'axial_stiffness': 500, 'radius': 0.003}], 'contacts': {'friction': 0.3}}");
    simulation_step(&sim, 300);
    double top = 0, low = 1;
    for (int k = 0; k < 41; k++) {
        top = fmax(top, simulation_x(&sim, k)[1]);
        low = fmin(low, simulation_x(&sim, k)[1]);
    }
    assert_true(top > 0.102 && top < 0.12);
    assert_true(low > 0.003 && low < 0.006);
    assert_near(pose(&sim, 1)->x.y, 0.052, 1e-6);
    assert_true(sim.w.found.worst_penetration < 0.05);
    simulation_end(&sim);
}
static void a_box_falls_on_cloth(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim,
                     "{'dt': 0.005, 'bodies': [" FLOOR ",{'kind': 'cloth', 'mesh': {'generate': {'kind': "
                     "'grid', 'columns': 15, 'rows': 15, 'width': 0.6}}, 'position': [0, 0.3, 0], "
                     "'area_density': 0.3, 'membrane_stiffness': 200, 'radius': 0.003}," CUBE
                     "'density': 300, 'position': [0, 0.4, 0], 'rotation': [0.9, 0.2, 0.3, 0.1]}],"
                     "'constraints': [{'kind': 'fixed', 'body': 1, 'nodes': [0, 14, 210, 224]}],"
                     "'contacts': {'friction': 0.3}}");
    double low = 1;
    int64_t rows = 0;
    for (int i = 0; i < 200; i++) {
        simulation_step(&sim, 1);
        low = fmin(low, pose(&sim, 2)->x.y);
        rows += sim.report.contacts;
    }
    assert_true(rows > 200);
    assert_true(low > 0.054 && pose(&sim, 2)->x.y > 0.1); // caught
    assert_true(fabs(pose(&sim, 2)->x.x) < 0.2 && fabs(pose(&sim, 2)->x.z) < 0.2);
    assert_true(sim.w.found.worst_penetration < 0.05);
    simulation_end(&sim);
}

// ---- promises ----

static uint64_t draw(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}
static double uniform(uint64_t *seed, double low, double high) {
    return low + (high - low) * (double)draw(seed) / (double)(1u << 31);
}
static uint64_t tumble(uint64_t seed, double dt, int steps) {
    char text[16384];
    size_t used = (size_t)snprintf(text, sizeof text, "{'dt': %g, 'bodies': [" FLOOR, dt);
    static const char *const shapes[] = {
        "'box', 'width': 0.1, 'height': 0.1, 'depth': 0.1", "'box', 'width': 0.2, 'height': 0.06, 'depth': 0.1",
        "'cylinder', 'radius': 0.05, 'length': 0.12, 'segments': 12", "'sphere', 'radius': 0.06, 'triangles': 80"};
    for (int i = 0; i < 8; i++) {
        used += (size_t)snprintf(
            text + used, sizeof text - used,
            ",{'kind': 'rigid', 'mesh': {'generate': {'kind': %s}}, 'radius': 0.002, 'density': %g, "
            "'position': [%g, %g, %g], 'rotation': [%g, %g, %g, %g], 'velocity': [0, -2, 0], "
            "'angular_velocity': [%g, %g, %g]}",
            shapes[i % 4], i % 3 == 0 ? 2000.0 : 500.0, uniform(&seed, -0.1, 0.1), 0.3 + 0.27 * i,
            uniform(&seed, -0.1, 0.1), uniform(&seed, 0.1, 1), uniform(&seed, -1, 1), uniform(&seed, -1, 1),
            uniform(&seed, -1, 1), uniform(&seed, -8, 8), uniform(&seed, -8, 8), uniform(&seed, -8, 8));
        assert_true(used < sizeof text);
    }
    (void)snprintf(text + used, sizeof text - used, "], 'contacts': {'friction': 0.3, 'restitution': 0.2}}");
    simulation sim;
    simulation_start(&sim, text);
    for (int i = 0; i < steps; i++) {
        simulation_step(&sim, 1);
        assert_int_equal(sim.report.proven, 1);
        assert_true(sim.report.energy_drift < 1e-6);
    }
    assert_true(sim.w.found.worst_penetration < 0.05);
    if (steps >= 150) assert_true(sim.report.kinetic < 1); // most lie by then
    uint64_t hash = qpc_world_hash(sim.w.world);
    simulation_end(&sim);
    return hash;
}
static void tumbling_bodies_never_cross_or_sink_in(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) (void)tumble(seed, 0.01, 150);
}
static void the_same_scene_has_the_same_bits(void **state) {
    (void)state;
    assert_true(tumble(7, 0.01, 60) == tumble(7, 0.01, 60));
    assert_true(tumble(7, 0.01, 60) != tumble(8, 0.01, 60));
}
static void a_fast_spinner_near_a_wall_is_followed_in_smaller_steps(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'dt': 0.01, 'gravity': [0, 0, 0], 'bodies': [" FLOOR
                           ",{'kind': 'rigid', 'mesh': {'generate': {'kind': 'box', 'width': 0.3, 'height': "
                           "0.02, 'depth': 0.02}}, 'radius': 0.001, 'mass': 1, 'position': [0, 0.1525, 0], "
                           "'angular_velocity': [0, 0, 25], 'velocity': [0, -0.02, 0]}]}");
    int64_t halvings = 0;
    for (int i = 0; i < 60; i++) {
        simulation_step(&sim, 1);
        halvings += sim.report.halvings;
        assert_int_equal(sim.report.proven, 1);
    }
    assert_true(halvings > 0);
    assert_true(sim.w.found.worst_penetration < 0.05);
    simulation_end(&sim);
}

// ---- what is refused ----

static void refused(const char *body, const char *says) {
    char text[2048];
    qpc_test_meshes *meshes = qpc_test_meshes_create();
    qpc_value scene;
    qpc_error err = {0};
    (void)snprintf(text, sizeof text, "{'bodies': [{'kind': 'rigid', %s}]}", body);
    assert_ok(qpc_test_scene_text(text, meshes, &scene, &err), &err);
    qpc_watched w;
    assert_int_equal(qpc_watched_create(&scene, meshes, &w, NULL, &err), QPC_ERR_INVALID);
    if (strstr(err.message, says) == NULL) print_message("%s\n", err.message);
    assert_non_null(strstr(err.message, says));
    qpc_value_fini(&scene);
    qpc_test_meshes_destroy(meshes);
}
static void bodies_that_make_no_sense_are_refused_by_key(void **state) {
    (void)state;
#define BOX "'mesh': {'generate': {'kind': 'box'}}, 'radius': 0.01"
    refused(BOX, "give mass (kg) or density");
    refused(BOX ", 'mass': 1, 'density': 1", "give mass (kg) or density");
    refused(BOX ", 'mass': -1", "bodies[0].mass");
    refused("'mesh': {'generate': {'kind': 'box'}}, 'mass': 1", "bodies[0].radius");
    refused("'mesh': {'generate': {'kind': 'sheet'}}, 'radius': 0.01, 'mass': 1", "bodies[0].mesh");
    refused(BOX ", 'mass': 1, 'inertia': [1, 1, 3]", "bodies[0].inertia");
    refused(BOX ", 'mass': 1, 'inertia': [1, 1]", "bodies[0].inertia");
    refused(BOX ", 'density': 1, 'inertia': [1, 1, 1]", "goes with mass");
    refused(BOX ", 'mass': 1, 'center': [0, 0, 0]", "center goes with inertia");
    refused(BOX ", 'mass': 1, 'rotation': [1, 0, 0, 0], 'orientation': [1, 0, 0, 0]", "not both");
    refused(BOX ", 'mass': 1, 'orientation': [0, 0, 0, 0]", "bodies[0].orientation");
    refused(BOX ", 'mass': 1, 'spin': 2", "spin");
}

/// Friction and an impact; every allocation fails once.
static void memory_that_runs_out_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    qpc_test_meshes *meshes = qpc_test_meshes_create();
    qpc_value scene;
    qpc_error err = {0};
    assert_ok(qpc_test_scene_text("{'dt': 0.01, 'bodies': [" FLOOR "," CUBE
                                  "'density': 1000, 'position': [0, 0.06, 0], 'velocity': [0.5, -2, 0]}," CUBE
                                  "'density': 1000, 'position': [0, 0.17, 0]},"
                                  "{'kind': 'cable', 'nodes': [[-0.02, 0.25, 0], [0.02, 0.25, 0]], 'radius': 0.01, "
                                  "'mass': 0.1, 'stiffness': 100}],"
                                  "'contacts': {'friction': 0.5, 'restitution': 0.5}}",
                                  meshes, &scene, &err),
              &err);
    qpc_world_env env = {.user = meshes, .mesh_lookup = qpc_test_mesh_lookup};
    QPC_FAULTS(f) {
        qpc_world *w = NULL;
        qpc_step_report report;
        qpc_status st = qpc_world_create(&scene, &env, &w, NULL, &err);
        for (int i = 0; i < 2 && st == QPC_OK; i++) st = qpc_world_step(w, &report, &err);
        (void)qpc_faults_ended(&f, st);
        qpc_world_destroy(w);
    }
    qpc_value_fini(&scene);
    qpc_test_meshes_destroy(meshes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_box_falls_as_a_particle_does),
        cmocka_unit_test(tumbling_keeps_energy_and_angular_momentum),
        cmocka_unit_test(a_torque_spins_a_body_up),
        cmocka_unit_test(a_box_stands_still_for_a_minute),
        cmocka_unit_test(a_stack_of_five_stands_still_for_a_minute),
        cmocka_unit_test(a_box_on_a_slope_sticks_below_the_angle_of_friction),
        cmocka_unit_test(a_box_on_a_slope_slides_above_it),
        cmocka_unit_test(a_sliding_block_stops_where_it_has_to),
        cmocka_unit_test(a_block_that_starts_on_a_slope_slides_as_it_has_to),
        cmocka_unit_test(a_box_lands_on_its_face),
        cmocka_unit_test(a_box_lands_on_its_edge),
        cmocka_unit_test(boxes_bounce_face_to_face),
        cmocka_unit_test(a_cradle_of_boxes_in_touch_is_that_of_the_textbook),
        cmocka_unit_test(a_turning_box_that_is_hit_keeps_momentum),
        cmocka_unit_test(a_frictionless_tumble_gains_no_energy),
        cmocka_unit_test(a_driven_box_pushes_one),
        cmocka_unit_test(a_cable_lies_over_a_box),
        cmocka_unit_test(a_box_falls_on_cloth),
        cmocka_unit_test(tumbling_bodies_never_cross_or_sink_in),
        cmocka_unit_test(the_same_scene_has_the_same_bits),
        cmocka_unit_test(a_fast_spinner_near_a_wall_is_followed_in_smaller_steps),
        cmocka_unit_test(bodies_that_make_no_sense_are_refused_by_key),
        cmocka_unit_test(memory_that_runs_out_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
