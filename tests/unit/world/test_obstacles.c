/// Obstacles in worlds: particles, cables and cloth against planes, spheres, capsules, boxes and cylinders that are functions.
/// Closed forms; distances of paths from the shapes are worked out here, not by the engine.
#include "tests/unit/world/support.h"

#include "base/vec.h"
#include "engine/geometry/closest.h"

#include <math.h>
#include <stdio.h>

static const double g = 9.81;

__attribute__((format(printf, 1, 2))) static qpc_world *world_from(const char *format, ...) {
    char text[4096];
    qpc_world *w = NULL;
    qpc_error err = {0};
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    assert_ok(world_of(text, &w, NULL, &err), &err);
    return w;
}

static qpc_step_report step(qpc_world *w) {
    qpc_step_report r;
    qpc_error err = {0};
    assert_ok(qpc_world_step(w, &r, &err), &err);
    assert_int_equal(r.proven, 1);
    return r;
}

static qpc_vec3 place(const qpc_world *w, int32_t node) { return v3_load(qpc_world_positions(w) + 3 * node); }
static qpc_vec3 speed(const qpc_world *w, int32_t node) { return v3_load(qpc_world_velocities(w) + 3 * node); }

#define PARTICLE "{'kind':'cable','nodes':[[%.17g,%.17g,%.17g]],'mass':0.1,'radius':0.01,'velocity':[%.17g,%.17g,%.17g]}"

static void a_particle_bounces_off_a_plane_to_e_squared_of_its_height(void **state) {
    (void)state;
    static const char *const integrators[] = {"implicit-euler", "symplectic-euler", "rk4"};
    for (int i = 0; i < 3; i++) {
        qpc_world *w = world_from("{'dt':0.0005,'integrator':'%s','gravity':[0,-9.81,0],'contacts':{'restitution':0.5},'bodies':[" PARTICLE
                                  ",{'kind':'obstacle','shape':{'kind':'plane'}}]}", integrators[i], 0.0, 0.51, 0.0, 0.0, 0.0, 0.0);
        double apex = 0, fall = sqrt(2 * 0.5 / g);
        for (int s = 0; s < (int)((fall + fall) / 0.0005); s++) { // to the top of the first bounce, and a little over
            step(w);
            if (s * 0.0005 > fall + 0.02) apex = fmax(apex, place(w, 0).y - 0.01);
        }
        assert_near(apex, 0.25 * 0.5, 0.004);
        qpc_world_destroy(w);
    }
}

/// A plane that slopes down towards +x by the angle a.
static qpc_world *incline(double a, double mu) {
    return world_from("{'dt':0.005,'gravity':[0,-9.81,0],'contacts':{'friction':%.17g},'bodies':[" PARTICLE
                      ",{'kind':'obstacle','shape':{'kind':'plane'},'rotation':[%.17g,0,0,%.17g]}]}",
                      mu, 0.01 * sin(a), 0.01 * cos(a), 0.0, 0.0, 0.0, 0.0, cos(0.5 * a), -sin(0.5 * a));
}

static void a_particle_sticks_below_the_angle_of_friction_and_slips_as_the_formula_above_it(void **state) {
    (void)state;
    qpc_world *stick = incline(0.28, 0.3), *slip = incline(0.5, 0.3); // tan 0.28 = 0.2875
    qpc_vec3 from = place(stick, 0), start = place(slip, 0);
    for (int s = 0; s < 400; s++) {
        qpc_step_report r = step(stick);
        assert_int_equal(r.sticking, 1);
        step(slip);
    }
    assert_true(v3_norm(v3_sub(place(stick, 0), from)) < 1e-9);
    double a = g * (sin(0.5) - 0.3 * cos(0.5)), t = 400 * 0.005;
    assert_near(v3_norm(speed(slip, 0)), a * t, 1e-9);
    assert_near(v3_norm(v3_sub(place(slip, 0), start)), 0.5 * a * t * (t + 0.005), 1e-9);
    qpc_world_destroy(stick);
    qpc_world_destroy(slip);
}

/// Angle from the top at which a particle without friction has left a ball of radius 0.99 + 0.01.
static double leaves_at(double dt) {
    double tilt = 0.1;
    qpc_world *w = world_from("{'dt':%.17g,'gravity':[0,-9.81,0],'bodies':[" PARTICLE ",{'kind':'obstacle','shape':{'kind':'sphere','radius':0.99}}]}", dt,
                              sin(tilt), cos(tilt), 0.0, 0.0, 0.0, 0.0);
    int32_t count = 0;
    double angle = 0;
    for (int s = 0; s < 3 / dt && place(w, 0).y > 0.3; s++) {
        step(w);
        const qpc_contact_info *c = qpc_world_contacts(w, &count);
        if (count > 0 && c[0].force > 0) angle = atan2(place(w, 0).x, place(w, 0).y);
    }
    qpc_world_destroy(w);
    return angle;
}

static void a_particle_leaves_a_ball_where_it_should_to_first_order_in_dt(void **state) {
    (void)state;
    // From rest at the angle a: cos = 2/3 cos a.
    double exact = acos(2.0 / 3.0 * cos(0.1)), coarse = fabs(leaves_at(0.004) - exact), fine = fabs(leaves_at(0.001) - exact);
    assert_true(coarse < 0.03 && fine < 0.4 * coarse);
}

static void a_particle_thrown_at_a_corner_of_a_box_stops_there_and_one_beside_it_passes(void **state) {
    (void)state;
    qpc_world *w = world_from("{'dt':0.01,'gravity':[0,0,0],'bodies':[" PARTICLE "," PARTICLE ",{'kind':'obstacle','shape':{'kind':'box'}}]}", 2.0, 2.0, 2.0,
                              -100.0, -100.0, -100.0, 2.0, 2.0, 0.512 + 0.7, 0.0, -300.0, 0.0);
    qpc_vec3 normal = {0, 0, 0};
    for (int s = 0; s < 5; s++) {
        step(w);
        int32_t count;
        const qpc_contact_info *c = qpc_world_contacts(w, &count);
        if (count > 0 && c[0].force > 0) normal = v3_load(c[0].normal);
    }
    qpc_vec3 p = place(w, 0), corner = v3(0.5, 0.5, 0.5);
    assert_near(v3_norm(v3_sub(p, corner)), 0.01, 1e-4);
    assert_near(v3_dot(normal, v3(1, 1, 1)), sqrt(3.0), 1e-6);
    assert_near(place(w, 1).y, 2.0 - 5 * 3.0, 1e-9);
    qpc_world_destroy(w);
}

static double uniform(uint64_t *seed) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*seed >> 11) * 0x1p-53;
}

/// Distance of the way p0 -> p1 from the axis a -> b of a capsule.
static double apart(qpc_vec3 p0, qpc_vec3 p1, qpc_vec3 a, qpc_vec3 b) {
    qpc_closest near;
    const qpc_vec3 p[4] = {p0, p1, a, b};
    qpc_closest_ee(p, &near);
    return near.distance;
}

static void bullets(const char *solver, const char *integrator, const char *response) {
    uint64_t seed = 7;
    for (int i = 0; i < 40; i++) { // one step goes 1,000 times the diameter of a wire of 1 mm; half of them aim at it
        double aim = (uniform(&seed) - 0.5) * (i % 2 == 0 ? 0.0005 : 0.01), tilt = uniform(&seed) - 0.5;
        qpc_world *w = world_from("{'dt':0.01,'gravity':[0,0,0],'integrator':'%s','solver':{'name':'%s'},'bodies':["
                                  "{'kind':'cable','nodes':[[0.3,%.17g,%.17g]],'mass':0.1,'radius':0.0005,'velocity':[-200,0,%.17g]},"
                                  "{'kind':'obstacle','shape':{'kind':'capsule','radius':0.0005,'length':1},'response':'%s'}]}",
                                  integrator, solver, aim, 0.3 * tilt, 20 * tilt, response);
        for (int s = 0; s < 3; s++) {
            qpc_vec3 p0 = place(w, 0);
            step(w);
            assert_true(apart(p0, place(w, 0), v3(0, 0, -0.5), v3(0, 0, 0.5)) > 0.0005 + 0.3 * 0.0005 - 1e-9);
        }
        qpc_world_destroy(w);
    }
}

static void no_bullet_goes_through_a_wire(void **state) {
    (void)state;
    bullets("auto", "implicit-euler", "rows");
    bullets("auto", "rk4", "rows");
    bullets("position-based", "implicit-euler", "rows");
    bullets("auto", "rk4", "velocity");
    bullets("auto", "symplectic-euler", "velocity");
    bullets("position-based", "implicit-euler", "velocity");
}

static void a_wire_that_is_swung_sweeps_along_what_is_in_its_way(void **state) {
    (void)state;
    // 1.5 rad a step: the end goes 0.75 m, past a particle at 45 degrees that nothing else holds.
    qpc_world *w = world_from("{'dt':0.01,'gravity':[0,0,0],'bodies':[" PARTICLE
                              ",{'kind':'obstacle','shape':{'kind':'capsule','radius':0.002,'length':1,'axis':'x'},'angular_velocity':[0,0,%g]}]}",
                              0.25, 0.25, 0.0, 0.0, 0.0, 0.0, 150.0);
    bool pushed = false;
    for (int s = 0; s < 4; s++) {
        qpc_step_report r = step(w);
        qpc_body_info body = qpc_world_body(w, 1);
        qpc_vec3 o = place(w, body.first_node), e = v3_sub(place(w, body.first_node + 1), o);
        qpc_vec3 p = v3_sub(place(w, 0), o), along = v3_scale(1 / v3_norm(e), e);
        double from = v3_norm(v3_madd(p, -v3_dot(p, along), along));
        assert_true(v3_norm(p) > 0.5 || from > 0.002 + 0.3 * 0.01 - 1e-9);
        // It has not got past: what is in front of it stays in front of it.
        assert_true(v3_norm(p) > 0.5 || along.x * p.y - along.y * p.x > 0);
        pushed = pushed || (r.active > 0 && v3_norm(speed(w, 0)) > 1);
    }
    assert_true(pushed);
    qpc_world_destroy(w);
}

/// Implicit Euler needs the sweeps of position-based dynamics for a response by velocities.
static const struct scheme {
    const char *integrator, *solver;
} schemes[] = {{"symplectic-euler", "auto"}, {"rk4", "auto"}, {"implicit-euler", "position-based"}};

static void a_response_by_velocities_bounces_sticks_and_slips_as_the_formulas(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        // Thrown down at 3 m/s onto ground with mu and e: (v_t, v_n) -> (v_t - mu (1 + e) v_n, e v_n).
        qpc_world *w = world_from("{'dt':0.001,'gravity':[0,0,0],'integrator':'%s','solver':{'name':'%s'},'contacts':{'restitution':0.5,'friction':0.2},'bodies':[" PARTICLE
                                  ",{'kind':'obstacle','response':'velocity','shape':{'kind':'plane'}}]}", schemes[i].integrator, schemes[i].solver, 0.0, 0.0151, 0.0, 2.0, -3.0, 0.0);
        int32_t count = 0;
        double impulse = 0, rubbed = 0;
        for (int s = 0; s < 4; s++) {
            assert_true(step(w).stat < 1e-9);
            const qpc_contact_info *c = qpc_world_contacts(w, &count);
            for (int32_t k = 0; k < count; k++) impulse += c[k].force * 0.001, rubbed += c[k].friction[0] * 0.001;
        }
        assert_near(speed(w, 0).x, 2 - 0.2 * 1.5 * 3, 1e-12);
        assert_near(speed(w, 0).y, 1.5, 1e-12);
        assert_near(impulse, 0.1 * 4.5, 1e-12);
        assert_near(rubbed, -0.2 * 0.1 * 4.5, 1e-12);
        qpc_world_destroy(w);
        for (int slips = 0; slips < 2; slips++) {
            double a = slips ? 0.5 : 0.28, mu = 0.3, t = 200 * 0.005, slip = g * (sin(a) - mu * cos(a));
            w = world_from("{'dt':0.005,'gravity':[0,-9.81,0],'integrator':'%s','solver':{'name':'%s'},'contacts':{'friction':%.17g},'bodies':[" PARTICLE
                           ",{'kind':'obstacle','response':'velocity','shape':{'kind':'plane'},'rotation':[%.17g,0,0,%.17g]}]}", schemes[i].integrator, schemes[i].solver,
                           mu, 0.01 * sin(a), 0.01 * cos(a), 0.0, 0.0, 0.0, 0.0, cos(0.5 * a), -sin(0.5 * a));
            for (int s = 0; s < 200; s++) assert_int_equal(step(w).failsafe, 0);
            assert_near(v3_norm(speed(w, 0)), slips ? slip * t : 0.0, 1e-9);
            qpc_world_destroy(w);
        }
    }
}

static void a_response_by_velocities_holds_a_chain_and_an_edge_and_reports_their_weight(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        qpc_world *w = world_from("{'dt':0.002,'gravity':[0,-9.81,0],'integrator':'%s','solver':{'name':'%s'},'bodies':[{'kind':'cable','nodes':[[-0.5,0.03,0],[0.5,0.03,0]],"
                                  "'mass':0.1,'radius':0.01,'stiffness':1000},{'kind':'obstacle','response':'velocity','shape':{'kind':'capsule','radius':0.01}}]}",
                                  schemes[i].integrator, schemes[i].solver);
        for (int s = 0; s < 100; s++) assert_int_equal(step(w).failsafe, 0);
        int32_t count;
        const qpc_contact_info *c = qpc_world_contacts(w, &count);
        assert_int_equal(count, 1);
        assert_near(c[0].force, 0.2 * g, 1e-6);
        assert_near(0.5 * (place(w, 0).y + place(w, 1).y), 0.02, 1e-6);
        qpc_world_destroy(w);
    }
}

static void a_response_by_velocities_is_refused_where_steps_promise_their_energy(void **state) {
    (void)state;
    qpc_world *w = NULL;
    qpc_error err = {0};
    assert_fails(world_of("{'bodies':[" CABLE ",{'kind':'obstacle','response':'velocity','shape':{'kind':'plane'}}]}", &w, NULL, &err), QPC_ERR_UNSUPPORTED, &err,
                 "position-based");
}

static void an_edge_that_falls_across_a_thin_rod_is_held_between_its_nodes(void **state) {
    (void)state;
    static const char *const shapes[] = {"'kind':'capsule','radius':0.01", "'kind':'cylinder','radius':0.01", "'kind':'box','width':0.02,'height':0.02,'depth':2"};
    for (int i = 0; i < 3; i++) {
        qpc_world *w = world_from("{'dt':0.005,'gravity':[0,-9.81,0],'solver':{'reach':1.2},'bodies':[{'kind':'cable','nodes':[[-0.5,0.05,0],[0.5,0.05,0]],"
                                  "'mass':0.1,'radius':0.01,'stiffness':1000},{'kind':'obstacle','shape':{%s}}]}", shapes[i]);
        double weight = 0;
        for (int s = 0; s < 100; s++) {
            step(w);
            int32_t count;
            const qpc_contact_info *c = qpc_world_contacts(w, &count);
            weight = 0;
            for (int32_t k = 0; k < count; k++) weight += c[k].force * c[k].normal[1];
        }
        assert_near(0.5 * (place(w, 0).y + place(w, 1).y), 0.02, 2e-3);
        assert_near(weight, 0.2 * g, 0.02 * g);
        qpc_world_destroy(w);
    }
}

static void a_drum_that_spins_drags_along_what_lies_on_it(void **state) {
    (void)state;
    // On top of a cylinder of radius 0.3 that turns at 1 rad/s about z; pulled to it hard, slow enough to stay near the top.
    qpc_world *w = world_from("{'dt':0.002,'gravity':[0,-9.81,0],'contacts':{'friction':0.5},'bodies':[" PARTICLE
                              ",{'kind':'obstacle','shape':{'kind':'cylinder'},'angular_velocity':[0,0,-0.2]}]}", 0.0, 0.31, 0.0, 0.0, 0.0, 0.0);
    qpc_step_report r = {0};
    for (int s = 0; s < 7; s++) r = step(w);
    assert_near(speed(w, 0).x, 0.2 * 0.3, 1e-5); // it rolls along with the surface, 0.3 from the axis
    assert_near(r.work, 0.1 * pow(0.2 * 0.3, 2), 1e-5); // its momentum times the speed of the surface; half of it is lost
    assert_true(r.energy_drift < 1e-6);
    qpc_world_destroy(w);
}

static void what_cannot_be_is_refused_with_its_key(void **state) {
    (void)state;
    static const char *const text[][2] = {
        {"{'bodies':[{'kind':'obstacle','shape':{'kind':'cone'}}]}", "bodies[0].shape.kind"},
        {"{'bodies':[{'kind':'obstacle','shape':{'kind':'sphere','length':1}}]}", "length"},
        {"{'bodies':[{'kind':'obstacle','shape':{'kind':'sphere','radius':0}}]}", "bodies[0].shape.radius"},
        {"{'bodies':[{'kind':'obstacle'}]}", "bodies[0].shape"},
        {"{'dt':0.01,'bodies':[{'kind':'obstacle','shape':{'kind':'box'},'angular_velocity':[0,200,0]}]}", "quarter turn"},
        {"{'bodies':[{'kind':'cable','nodes':[[0,0,0]],'mass':1,'radius':0.1},{'kind':'obstacle','shape':{'kind':'box'}}]}", "intersect at the start"},
        {"{'bodies':[{'kind':'rigid','mesh':{'sha256':'@'},'mass':1,'inertia':[1,1,1],'radius':0.1,'position':[0,5,0]},{'kind':'obstacle','response':'velocity','shape':{'kind':'box'}}]}",
         "is for particles"},
    };
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) {
        qpc_world *w = NULL;
        qpc_error err = {0};
        assert_true(world_of(text[i][0], &w, NULL, &err) != QPC_OK);
        assert_non_null(strstr(err.message, text[i][1]));
    }
}

static void push_out_takes_what_is_inside_to_the_nearest_side(void **state) {
    (void)state;
    qpc_world *w = world_from("{'start':'push-out','start_push_limit':0.2,'bodies':[" PARTICLE ",{'kind':'obstacle','shape':{'kind':'box'}}]}", 0.45, 0.0, 0.1, 0.0,
                              0.0, 0.0);
    assert_near(place(w, 0).x, 0.51, 1e-4);
    assert_near(place(w, 0).z, 0.1, 1e-9);
    qpc_world_destroy(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_particle_bounces_off_a_plane_to_e_squared_of_its_height),
        cmocka_unit_test(a_particle_sticks_below_the_angle_of_friction_and_slips_as_the_formula_above_it),
        cmocka_unit_test(a_particle_leaves_a_ball_where_it_should_to_first_order_in_dt),
        cmocka_unit_test(a_particle_thrown_at_a_corner_of_a_box_stops_there_and_one_beside_it_passes),
        cmocka_unit_test(no_bullet_goes_through_a_wire),
        cmocka_unit_test(a_wire_that_is_swung_sweeps_along_what_is_in_its_way),
        cmocka_unit_test(a_response_by_velocities_bounces_sticks_and_slips_as_the_formulas),
        cmocka_unit_test(a_response_by_velocities_holds_a_chain_and_an_edge_and_reports_their_weight),
        cmocka_unit_test(a_response_by_velocities_is_refused_where_steps_promise_their_energy),
        cmocka_unit_test(an_edge_that_falls_across_a_thin_rod_is_held_between_its_nodes),
        cmocka_unit_test(a_drum_that_spins_drags_along_what_lies_on_it),
        cmocka_unit_test(what_cannot_be_is_refused_with_its_key),
        cmocka_unit_test(push_out_takes_what_is_inside_to_the_nearest_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
