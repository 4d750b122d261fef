/// Rigid spheres and capsules by their shape: masses, rolling, bouncing and standing by closed forms.
#include "tests/unit/world/support.h"

#include <math.h>
#include <stdio.h>

static const double PI = 3.14159265358979323846;

static void control(qpc_world *w, const char *text) {
    qpc_error err = {0};
    assert_ok(world_control(w, text, &err), &err);
}

static const double *node(const qpc_world *w, const double *list, int body, int k) { return list + 3 * (qpc_world_body(w, body).first_node + k); }

#define GROUND "{'kind':'obstacle','name':'ground','shape':{'kind':'plane'}}"
#define SLOPE "'dt':0.005,'gravity':[3,-9,0],'contacts':{'friction':0.6}"

/// Without slip a = g sin / (1 + I / (m R^2)); implicit Euler goes a h^2 n (n + 1) / 2. The point at R on the axis `across` shows the spin.
static void rolls(const char *bodies, double k, double radius, int across) {
    char text[1024];
    (void)snprintf(text, sizeof text, "{" SLOPE ",'bodies':[%s]}", bodies);
    qpc_world *w = world_made(text);
    qpc_step_report r;
    double from = node(w, qpc_world_positions(w), 0, 0)[0], h = 0.005, a = 3.0 / (1.0 + k);
    world_steps(w, 100, &r);
    assert_near(node(w, qpc_world_positions(w), 0, 0)[0] - from, a * h * h * 5050.0, 1e-6);
    assert_near(node(w, qpc_world_velocities(w), 0, 0)[0], a * 100 * h, 1e-6);
    assert_int_equal(r.sliding, 0);
    const double *v = node(w, qpc_world_velocities(w), 0, across), *of = node(w, qpc_world_velocities(w), 0, 0);
    const double *x = node(w, qpc_world_positions(w), 0, across), *at = node(w, qpc_world_positions(w), 0, 0);
    double spin = ((x[0] - at[0]) * (v[1] - of[1]) - (x[1] - at[1]) * (v[0] - of[0])) / (radius * radius);
    assert_near(spin, -a * 100 * h / radius, 1e-4); // of chords: v - v0 = w x r to second order
    qpc_world_destroy(w);
}

static void a_sphere_rolls_down_at_five_sevenths(void **state) {
    (void)state;
    rolls("{'kind':'rigid','shape':{'kind':'sphere','radius':0.1},'density':1000,'position':[0,0.1,0]}," GROUND, 0.4, 0.1, 1);
    rolls("{'kind':'rigid','shape':{'kind':'sphere','radius':0.1},'mass':7,'position':[-0.4,0.1,0.05]}," FLOOR, 0.4, 0.1, 1); // over triangles
}

/// Of a solid capsule about its axis: cylinder m R^2 / 2, ball 2/5 m R^2.
static double capsule_spin_inertia(double R, double L, double *mass, double *across) {
    double cylinder = PI * R * R * L, ball = 4.0 / 3.0 * PI * R * R * R;
    *mass = cylinder + ball;
    *across = cylinder * (L * L / 12 + R * R / 4) + ball * (0.4 * R * R + L * L / 4 + 0.375 * L * R);
    return 0.5 * cylinder * R * R + 0.4 * ball * R * R;
}

static void a_capsule_rolls_as_its_inertia_says(void **state) {
    (void)state;
    double mass, across, I = capsule_spin_inertia(0.1, 0.3, &mass, &across);
    rolls("{'kind':'rigid','shape':{'kind':'capsule','radius':0.1,'length':0.3},'density':500,'position':[0,0.1,0]}," GROUND,
          I / (mass * 0.01), 0.1, 2);
    rolls("{'kind':'rigid','shape':{'kind':'capsule','radius':0.1,'length':0.3},'density':500,'position':[-0.4,0.1,0.1]}," FLOOR,
          I / (mass * 0.01), 0.1, 2);
}

static void a_torque_turns_a_capsule_by_its_moments(void **state) {
    (void)state;
    static const char *const axes[] = {"x", "y", "z"};
    double mass, across, along = capsule_spin_inertia(0.1, 0.3, &mass, &across);
    for (int axis = 0; axis < 3; axis++)
        for (int about = 0; about < 3; about++) {
            char text[512], torque[128];
            (void)snprintf(text, sizeof text, "{'dt':0.001,'gravity':[0,0,0],'bodies':[{'kind':'rigid','name':'c','shape':{'kind':'capsule',"
                           "'radius':0.1,'length':0.3,'axis':'%s'},'density':1000}]}", axes[axis]);
            qpc_world *w = world_made(text);
            (void)snprintf(torque, sizeof torque, "{'forces':[{'body':'c','torque':[%d,%d,%d]}]}", about == 0, about == 1, about == 2);
            control(w, torque);
            qpc_step_report r;
            world_steps(w, 10, &r);
            double I = 1000.0 * (axis == about ? along : across), rate = 10 * 0.001 / I;
            assert_near(r.kinetic, 0.5 * I * rate * rate, 1e-9 * r.kinetic + 1e-6 * r.kinetic);
            qpc_world_destroy(w);
        }
}

static void a_sphere_bounces_by_its_restitution(void **state) {
    (void)state;
    qpc_world *w = world_made("{'dt':0.001,'gravity':[0,-10,0],'contacts':{'restitution':0.5},'bodies':["
                        "{'kind':'rigid','shape':{'kind':'sphere','radius':0.2},'mass':3,'position':[0,0.7,0],'angular_velocity':[0,4,0]}," GROUND "]}");
    qpc_step_report r;
    double top = 0.0;
    for (int i = 0; i < 700; i++) {
        world_steps(w, 1, &r);
        double y = node(w, qpc_world_positions(w), 0, 0)[1];
        assert_true(y > 0.2 * 0.95);
        if (i > 330) top = fmax(top, y);
    }
    assert_near(top, 0.2 + 0.25 * 0.5, 5e-3); // e^2 of the height; Euler's fall is off by h v
    qpc_world_destroy(w);
}

static void spheres_stand_on_each_other_and_carry_what_is_above(void **state) {
    (void)state;
    qpc_world *w = world_made("{'dt':0.005,'gravity':[0,-10,0],'contacts':{'friction':0.5},'bodies':[" GROUND
                        ",{'kind':'rigid','name':'a','shape':{'kind':'sphere','radius':0.1},'mass':1,'position':[0,0.1,0]}"
                        ",{'kind':'rigid','name':'b','shape':{'kind':'sphere','radius':0.2},'mass':2,'position':[0,0.4,0]}"
                        ",{'kind':'rigid','name':'c','shape':{'kind':'capsule','radius':0.1,'length':0.4},'mass':3,'position':[0,0.7,0]}]}");
    qpc_step_report r;
    int32_t count;
    world_steps(w, 100, &r);
    const qpc_contact_info *contacts = qpc_world_contacts(w, &count);
    double carried[4] = {0};
    for (int32_t i = 0; i < count; i++) {
        int top = contacts[i].body[0] > contacts[i].body[1] ? contacts[i].body[0] : contacts[i].body[1];
        carried[top] += contacts[i].force;
    }
    assert_near(carried[1], 60.0, 1e-3);
    assert_near(carried[2], 50.0, 1e-3);
    assert_near(carried[3], 30.0, 1e-3);
    assert_near(node(w, qpc_world_positions(w), 3, 0)[1], 0.7, 1e-5);
    qpc_world_destroy(w);
}

static void a_joint_holds_a_point_of_a_sphere(void **state) {
    (void)state;
    // Held at its top it swings as a physical pendulum: T = 2 pi sqrt((R^2 + 2/5 R^2) / (g R)) about small angles.
    qpc_world *w = world_made("{'dt':0.0005,'gravity':[0.1,-10,0],'bodies':["
                        "{'kind':'rigid','name':'s','shape':{'kind':'sphere','radius':0.2},'mass':3,'position':[0,0,0]}],"
                        "'constraints':[{'kind':'ball','body':'s','at':[0,0.2,0]}]}");
    qpc_step_report r;
    double last = 0.0, turned = 0.0;
    for (int i = 1; turned == 0.0 && i < 4000; i++) {
        world_steps(w, 1, &r);
        double v = node(w, qpc_world_velocities(w), 0, 0)[0];
        if (last > 0.0 && v <= 0.0) turned = 0.0005 * i;
        last = v;
    }
    assert_near(turned, PI * sqrt(1.4 * 0.2 / 10.0), 2e-3); // half a period
    qpc_world_destroy(w);
}

static void refused(const char *body, const char *words) {
    char text[1024];
    qpc_world *w;
    qpc_error err = {0};
    (void)snprintf(text, sizeof text, "{'bodies':[%s]}", body);
    assert_int_equal(world_of(text, &w, NULL, &err), QPC_ERR_INVALID);
    if (strstr(err.message, words) == NULL) fail_msg("\"%s\" lacks \"%s\"", err.message, words);
}

static void shapes_that_make_no_sense_are_refused(void **state) {
    (void)state;
    refused("{'kind':'rigid','shape':{'kind':'plane'},'mass':1}", "a plane has no mass");
    refused("{'kind':'rigid','shape':{'kind':'sphere','radius':-1},'mass':1}", "bodies[0].shape.radius");
    refused("{'kind':'rigid','shape':{'kind':'sphere'},'mass':1,'radius':0.1}", "takes no radius");
    refused("{'kind':'rigid','shape':{'kind':'sphere'}}", "give mass (kg) or density");
    refused("{'kind':'rigid','shape':{'kind':'box'},'mass':1,'radius':0.01}", "collides by its mesh");
    refused("{'kind':'rigid','shape':{'kind':'box'},'mesh':{'sha256':'@'},'mass':1,'radius':0.01}", "off the surface");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sphere_rolls_down_at_five_sevenths),
        cmocka_unit_test(a_capsule_rolls_as_its_inertia_says),
        cmocka_unit_test(a_torque_turns_a_capsule_by_its_moments),
        cmocka_unit_test(a_sphere_bounces_by_its_restitution),
        cmocka_unit_test(spheres_stand_on_each_other_and_carry_what_is_above),
        cmocka_unit_test(a_joint_holds_a_point_of_a_sphere),
        cmocka_unit_test(shapes_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
