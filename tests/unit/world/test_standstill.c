/// Bodies that no step can move stand, and what is beside them goes on: a sheet of two triangles, or a cable, so stiff that its masses
/// are buried in round-off.
#include "tests/unit/world/support.h"

#include <stdio.h>

#define G 9.81
#define H 0.005
#define SHEET "{'kind':'cloth','name':'sheet','mesh':{'sha256':'@'},'membrane_stiffness':1e30,'radius':0.005,'area_density':0.2}"
#define FAR "{'kind':'cable','name':'far','nodes':[[50,5,0],[51,5,0]],'mass':1,'stiffness':100,'radius':0.01}"

static int32_t body_of(const qpc_world *w, const char *name) {
    int32_t i = 0;
    while (strcmp(qpc_world_body(w, i).name, name) != 0) i++;
    return i;
}

static const double *first_node_of(const qpc_world *w, const double *x, const char *name) {
    return x + 3 * qpc_world_body(w, body_of(w, name)).first_node;
}

/// Implicit Euler in free fall, from rest.
static double fallen(int n) { return 0.5 * G * H * H * n * (n + 1); }

static void only_the_body_that_no_step_can_move_stands(void **state) {
    (void)state;
    qpc_world *w = world_made("{'dt':0.005,'bodies':[" SHEET "," FAR "]}");
    qpc_step_report r;
    for (int n = 1; n <= 40; n++) { // steps in which it is tried again among them
        world_steps(w, 1, &r);
        assert_near(first_node_of(w, qpc_world_positions(w), "far")[1], 5.0 - fallen(n), 1e-13);
        assert_near(first_node_of(w, qpc_world_velocities(w), "far")[1], -G * H * n, 1e-13);
        assert_true(first_node_of(w, qpc_world_positions(w), "sheet")[1] == 0.0);
        assert_true(first_node_of(w, qpc_world_velocities(w), "sheet")[1] == 0.0);
        assert_int_equal(r.failsafe, 1);
        assert_int_equal(r.outcome, QPC_STEP_FAILSAFE);
        assert_true(r.failsafe_scale == 0.0 && r.proven == 1 && r.stat < 1e-12);
    }
    assert_int_equal(qpc_world_still(w, body_of(w, "sheet")), QPC_STILL_BURIED);
    assert_int_equal(qpc_world_still(w, body_of(w, "far")), QPC_STILL_NOT);
    assert_false(qpc_world_all_stood(w));
    qpc_world_destroy(w);
}

/// A spring between points of a rigid body and of space, that buries its mass.
static void a_rigid_body_that_no_step_can_move_stands_alone(void **state) {
    (void)state;
    qpc_world *w = world_made("{'dt':0.005,'bodies':[{'kind':'rigid','name':'ball','shape':{'kind':'sphere','radius':0.1},'mass':1,'position':[0,3,0]}," FAR "],"
                        "'loads':[{'kind':'spring','points':[{'body':'ball','at':[0.05,3.05,0.05]},{'at':[0,4,0]}],'stiffness':1e30,'rest_length':0.5}]}");
    qpc_step_report r;
    for (int n = 1; n <= 40; n++) {
        world_steps(w, 1, &r);
        assert_near(first_node_of(w, qpc_world_positions(w), "far")[1], 5.0 - fallen(n), 1e-13);
        assert_true(first_node_of(w, qpc_world_positions(w), "ball")[1] == 3.0);
        assert_int_equal(r.failsafe, 1);
        assert_int_equal(r.outcome, QPC_STEP_FAILSAFE);
    }
    assert_int_equal(qpc_world_still(w, body_of(w, "ball")), QPC_STILL_BURIED);
    assert_int_equal(qpc_world_still(w, body_of(w, "far")), QPC_STILL_NOT);
    qpc_world_destroy(w);
}

static void what_falls_on_a_body_that_stands_rests_on_it(void **state) {
    (void)state;
    qpc_world *w = world_made("{'dt':0.005,'bodies':[" SHEET ",{'kind':'cable','name':'p','nodes':[[0.3,0.05,0.1]],'mass':2,'radius':0.01}]}");
    qpc_step_report r;
    for (int n = 0; n < 60; n++) {
        world_steps(w, 1, &r);
        assert_true(r.min_gap > 0.9 && r.proven == 1);
    }
    int32_t count;
    const qpc_contact_info *c = qpc_world_contacts(w, &count);
    double force = 0.0; // its weight
    for (int32_t i = 0; i < count; i++) force += c[i].force * fabs(c[i].normal[1]);
    assert_near(force, 2.0 * G, 1e-9);
    assert_near(first_node_of(w, qpc_world_velocities(w), "p")[1], 0.0, 1e-9);
    qpc_world_destroy(w);
}

/// A second cable hangs from it by `how`, a part of the scene.
static void stands_too(const char *how) {
    char text[1024];
    (void)snprintf(text, sizeof text, "{'dt':0.005,'bodies':[{'kind':'cable','name':'stiff','nodes':[[0,0,0],[0.3,0.2,0],[0.5,0.3,0.1]],'mass':0.1,"
                   "'stiffness':1e30,'radius':0.005},{'kind':'cable','name':'hangs','nodes':[[0,-0.1,0],[0,-0.2,0]],'mass':0.1,'stiffness':1000,"
                   "'radius':0.005}," FAR "],%s}", how);
    qpc_world *w = world_made(text);
    qpc_step_report r;
    for (int n = 1; n <= 20; n++) {
        world_steps(w, 1, &r);
        assert_near(first_node_of(w, qpc_world_positions(w), "far")[1], 5.0 - fallen(n), 1e-13);
        assert_true(first_node_of(w, qpc_world_positions(w), "stiff")[1] == 0.0);
        assert_true(first_node_of(w, qpc_world_positions(w), "hangs")[4] == -0.2); // its other end
        assert_int_equal(r.failsafe, 2);
        assert_true(r.rows == 0 && r.strain_rows == 0 && r.joint_rows == 0);
    }
    qpc_world_destroy(w);
}

static void what_is_joined_to_a_body_that_stands_does_too(void **state) {
    (void)state;
    stands_too("'constraints':[{'kind':'tendon','points':[{'body':'hangs','node':0},{'body':'stiff','node':0}]}]");
    stands_too("'loads':[{'kind':'spring','points':[{'body':'hangs','node':0},{'body':'stiff','node':0}],'stiffness':100}]");
}

static void a_body_that_stood_goes_on_when_it_can(void **state) {
    (void)state;
    static const char dt[] = "{'parameters':{'dt':1e-9}}";
    qpc_world *w = world_made("{'dt':0.005,'bodies':[{'kind':'cloth','name':'sheet','mesh':{'sha256':'@'},'membrane_stiffness':1e26,"
                        "'radius':0.005,'area_density':0.2}]}");
    qpc_error err = {0};
    qpc_step_report r;
    qpc_mesh *mesh = floor_mesh();
    qpc_value control = scene_of(dt, mesh);
    qpc_mesh_unref(mesh);
    world_steps(w, 20, &r);
    assert_int_equal(r.failsafe, 1);
    assert_ok(qpc_world_control(w, &control, &err), &err);
    qpc_value_fini(&control);
    world_steps(w, 12, &r); // it is tried in the 33rd
    assert_int_equal(r.failsafe, 1);
    world_steps(w, 10, &r);
    assert_int_equal(r.failsafe, 0);
    assert_int_equal(qpc_world_still(w, 0), QPC_STILL_NOT);
    assert_near(first_node_of(w, qpc_world_velocities(w), "sheet")[1], -G * 1e-9 * 10, 1e-13);
    qpc_world_destroy(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_body_that_no_step_can_move_stands),
        cmocka_unit_test(a_rigid_body_that_no_step_can_move_stands_alone),
        cmocka_unit_test(what_falls_on_a_body_that_stands_rests_on_it),
        cmocka_unit_test(what_is_joined_to_a_body_that_stands_does_too),
        cmocka_unit_test(a_body_that_stood_goes_on_when_it_can),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
