/// Control and the step around it: forces, targets, motions, parameters; failed steps change nothing.
#include "tests/unit/world/support.h"

#include "tests/support/faults.h"

#define PARTICLE "{'kind':'cable','name':'p','nodes':[[0,1,0]],'mass':2,'radius':0.01}"

static void a_force_accelerates_its_node_as_implicit_euler_says(void **state) {
    (void)state;
    qpc_world *w;
    qpc_error err = {0};
    qpc_step_report r;
    assert_ok(world_of("{'bodies':[" PARTICLE "],'gravity':[0,0,0],'dt':0.01}", &w, NULL, &err), &err);
    assert_ok(world_control(w, "{'forces':[{'body':'p','force':[4,0,0]}]}", &err), &err);
    world_steps(w, 10, &r);
    // v = n a h and x = a h^2 n (n + 1) / 2, exactly implicit Euler's own; a = 2 m/s2
    assert_near(qpc_world_velocities(w)[0], 2.0 * 0.01 * 10, 1e-15);
    assert_near(qpc_world_positions(w)[0], 2.0 * 1e-4 * 55, 1e-15);
    assert_near(r.work, 4.0 * 2.0 * 1e-4 * 55, 1e-14);
    assert_ok(world_control(w, "{'clear_forces':true}", &err), &err);
    world_steps(w, 1, &r);
    assert_near(qpc_world_velocities(w)[0], 0.2, 1e-15);
    qpc_world_destroy(w);
}

static void a_fixed_node_goes_exactly_where_its_target_is(void **state) {
    (void)state;
    qpc_world *w;
    qpc_error err = {0};
    qpc_step_report r;
    assert_ok(world_of("{'bodies':[" CABLE "],'dt':0.01,'constraints':[{'kind':'fixed','body':'c','nodes':[0]}]}", &w, NULL, &err), &err);
    world_steps(w, 5, &r);
    assert_true(qpc_world_positions(w)[0] == 0.0 && qpc_world_positions(w)[1] == 1.0);
    assert_ok(world_control(w, "{'targets':[{'body':'c','node':0,'position':[0.01,1.02,0]}]}", &err), &err);
    world_steps(w, 1, &r);
    assert_true(qpc_world_positions(w)[0] == 0.01 && qpc_world_positions(w)[1] == 1.02);
    assert_near(qpc_world_velocities(w)[1], 2.0, 1e-12);
    world_steps(w, 1, &r); // stays
    assert_true(qpc_world_positions(w)[1] == 1.02);
    assert_near(qpc_world_velocities(w)[1], 0.0, 1e-12);
    assert_ok(world_control(w, "{'targets':[{'body':'c','node':0,'velocity':[0,1,0]}]}", &err), &err);
    world_steps(w, 10, &r);
    assert_near(qpc_world_positions(w)[1], 1.12, 1e-12);
    assert_near(r.lag, 0.0, 1e-15);
    qpc_world_destroy(w);
}

static void the_reaction_of_a_hanging_cable_is_its_weight(void **state) {
    (void)state;
    qpc_world *w;
    qpc_error err = {0};
    qpc_step_report r;
    assert_ok(world_of("{'bodies':[{'kind':'cable','nodes':[[0,0,0],[0,-0.1,0],[0,-0.2,0]],'mass':0.5,'stiffness':500,'radius':0.01}],"
                       "'gravity':[0,-10,0],'dt':1,'constraints':[{'kind':'fixed','body':0,'nodes':[0]}]}", &w, NULL, &err), &err);
    world_steps(w, 60, &r); // long steps of implicit Euler damp to rest
    const int32_t *nodes;
    int32_t count;
    const double *reaction = qpc_world_reactions(w, &nodes, &count);
    assert_int_equal(count, 1);
    assert_near(reaction[1], 15.0, 1e-9); // holds all three particles up
    assert_near(qpc_world_positions(w)[7], -0.2 - 0.01 * (2 + 1), 1e-9); // links stretched by 10 N and 5 N over 500 N/m
    qpc_world_destroy(w);
}

static void a_resting_particle_is_carried_by_its_weight(void **state) {
    (void)state;
    qpc_world *w;
    qpc_error err = {0};
    qpc_step_report r;
    assert_ok(world_of("{'bodies':[{'kind':'cable','name':'p','nodes':[[0.2,0.03,0.1]],'mass':2,'radius':0.02}," FLOOR "],"
                       "'gravity':[0,-10,0],'dt':0.01}", &w, NULL, &err), &err);
    world_steps(w, 100, &r);
    int32_t count;
    const qpc_contact_info *contact = qpc_world_contacts(w, &count);
    assert_true(count >= 1);
    double force = 0.0;
    for (int32_t i = 0; i < count; i++) {
        force += contact[i].force * contact[i].normal[1];
        assert_true(contact[i].force >= 0.0);
    }
    // The QP is solved to 1e-7 r/dt = 2e-7 m/s: times 2 kg over 0.01 s.
    assert_near(force, 20.0, 4e-5);
    assert_near(qpc_world_positions(w)[1], 0.02, 1e-9);
    assert_near(r.min_gap, 1.0, 1e-6);
    assert_int_equal(r.failsafe, 0);
    qpc_world_destroy(w);
}

static void a_kinematic_floor_lifts_what_lies_on_it(void **state) {
    (void)state;
    qpc_world *w;
    qpc_error err = {0};
    qpc_step_report r;
    assert_ok(world_of("{'bodies':[{'kind':'cable','name':'p','nodes':[[0.2,0.03,0.1]],'mass':2,'radius':0.02},"
                       "{'kind':'kinematic','name':'lift','mesh':{'sha256':'@'},'velocity':[0,0.5,0]}],"
                       "'gravity':[0,-10,0],'dt':0.01}", &w, NULL, &err), &err);
    for (int i = 0; i < 100; i++) {
        world_steps(w, 1, &r);
        assert_true(r.min_gap > 0.95);
        assert_int_equal(r.failsafe, 0);
        assert_true(r.energy_drift <= 1e-6);
    }
    assert_near(qpc_world_positions(w)[1], 0.5 + 0.02, 1e-6);
    assert_near(qpc_world_velocities(w)[1], 0.5, 1e-6);
    assert_ok(world_control(w, "{'motions':[{'body':'lift','velocity':[0,0,0]}]}", &err), &err);
    world_steps(w, 20, &r);
    qpc_body_info lift = qpc_world_body(w, 1);
    assert_near(qpc_world_positions(w)[3 * lift.first_node + 1], 0.5, 1e-12);
    qpc_world_destroy(w);
}

static void bad_controls_change_nothing(void **state) {
    (void)state;
    qpc_world *w, *twin;
    qpc_error err = {0};
    qpc_step_report r;
    const char *scene = "{'bodies':[" CABLE "],'dt':0.01,'constraints':[{'kind':'fixed','body':'c','nodes':[0]}]}";
    assert_ok(world_of(scene, &w, NULL, &err), &err);
    assert_ok(world_of(scene, &twin, NULL, &err), &err);
    assert_fails(world_control(w, "{'forces':[{'body':'c','force':[1,0,0]}],'target':[]}", &err), QPC_ERR_INVALID, &err, "targets");
    assert_fails(world_control(w, "{'forces':[{'body':'c','force':[1,0,0]},{'body':'d','force':[1,0,0]}]}", &err), QPC_ERR_INVALID, &err, "\"c\"");
    assert_fails(world_control(w, "{'targets':[{'body':'c','node':1,'position':[0,0,0]}]}", &err), QPC_ERR_INVALID, &err, "not fixed");
    assert_fails(world_control(w, "{'motions':[{'body':'c','velocity':[0,0,0]}]}", &err), QPC_ERR_INVALID, &err, "kinematic");
    assert_fails(world_control(w, "{'parameters':{'dt':0}}", &err), QPC_ERR_INVALID, &err, "dt");
    assert_fails(world_control(w, "{'parameters':{'solver':{'newton':-1}}}", &err), QPC_ERR_INVALID, &err, "newton");
    world_steps(w, 3, &r);
    world_steps(twin, 3, &r);
    assert_true(qpc_world_hash(w) == qpc_world_hash(twin));
    assert_ok(world_control(w, "{'parameters':{'dt':0.02,'gravity':[0,0,-1]}}", &err), &err);
    world_steps(w, 1, &r);
    world_steps(twin, 1, &r);
    assert_true(qpc_world_hash(w) != qpc_world_hash(twin));
    qpc_world_destroy(w);
    qpc_world_destroy(twin);
}

static void an_obstacle_turns_a_quarter_a_step_at_most_whatever_changes(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_world *w;
    assert_ok(world_of("{'dt':0.005,'bodies':[" CABLE ",{'kind':'obstacle','name':'o','shape':{'kind':'sphere','radius':0.1},'angular_velocity':[0,0,100]}]}", &w, NULL, &err), &err);
    assert_fails(world_control(w, "{'parameters':{'dt':0.1}}", &err), QPC_ERR_INVALID, &err, "control.parameters.dt: an obstacle would turn by 10 rad in a step of 0.1 s");
    assert_fails(world_control(w, "{'parameters':{'dt':0.001},'motions':[{'body':'o','angular_velocity':[0,0,2000]}]}", &err), QPC_ERR_INVALID, &err, "control.motions[0].angular_velocity");
    assert_ok(world_control(w, "{'parameters':{'dt':0.001},'motions':[{'body':'o','angular_velocity':[0,0,1000]}]}", &err), &err);
    assert_ok(world_control(w, "{'parameters':{'dt':0.1},'motions':[{'body':'o','angular_velocity':[0,0,10]}]}", &err), &err);
    qpc_world_destroy(w);
}

static void a_step_without_memory_leaves_the_state_as_it_was(void **state) {
    (void)state;
    const char *scene = "{'bodies':[{'kind':'cable','nodes':[[-0.1,0.02,0],[0,0.021,0],[0.1,0.02,0]],'mass':1,'stiffness':1e4,"
                        "'radius':0.015,'velocity':[0,-3,0]}," FLOOR "],'constraints':[{'kind':'fixed','body':0,'nodes':[0]}]}";
    qpc_world *twin;
    qpc_error err = {0};
    qpc_step_report r;
    assert_ok(world_of(scene, &twin, NULL, &err), &err);
    world_steps(twin, 3, &r);
    for (uint64_t nth = 1;; nth++) {
        qpc_world *w;
        assert_ok(world_of(scene, &w, NULL, &err), &err);
        uint64_t before = qpc_world_hash(w);
        double x = qpc_world_positions(w)[4], v = qpc_world_velocities(w)[4];
        qpc_mem_fail_at(nth, false);
        qpc_status st = qpc_world_step(w, &r, &err);
        bool failed = qpc_mem_failed();
        qpc_mem_disarm();
        if (failed && st != QPC_OK) {
            assert_int_equal(st, QPC_ERR_MEMORY);
            assert_true(qpc_world_hash(w) == before);
            assert_true(qpc_world_positions(w)[4] == x && qpc_world_velocities(w)[4] == v);
        } else
            assert_int_equal(st, QPC_OK);
        world_steps(w, st == QPC_OK ? 2 : 3, &r); // and it goes on as if nothing had been
        assert_true(qpc_world_hash(w) == qpc_world_hash(twin));
        qpc_world_destroy(w);
        if (!failed) break;
        assert_true(nth < 10000);
    }
    qpc_world_destroy(twin);
}

static void after_warm_up_a_step_allocates_nothing(void **state) {
    (void)state;
    qpc_world *w;
    qpc_error err = {0};
    qpc_step_report r;
    assert_ok(world_of("{'bodies':[" CABLE "," FLOOR "],'dt':0.005}", &w, NULL, &err), &err);
    world_steps(w, 150, &r); // has fallen onto the floor
    assert_true(r.contacts > 0);
    for (int i = 0; i < 100; i++) {
        world_steps(w, 1, &r);
        assert_int_equal(r.allocations, 0);
    }
    qpc_world_destroy(w);
}

static void every_place_of_a_control_begins_with_control(void **state) {
    (void)state;
    static const struct {
        const char *text, *where;
    } cases[] = {
        {"{'force':[]}", "control.force"},
        {"{'forces':1}", "control.forces"},
        {"{'forces':[1]}", "control.forces[0]"},
        {"{'forces':[{'body':'c','force':[0,0,0]},{'body':'d','force':[0,0,0]}]}", "control.forces[1].body"},
        {"{'forces':[{'body':'c','forc':[0,0,0]}]}", "control.forces[0].forc"},
        {"{'forces':[{'body':'c','nodes':[7],'force':[0,0,0]}]}", "control.forces[0].nodes[0]"},
        {"{'targets':[{'body':'c','node':1,'position':[0,0,0]}]}", "control.targets[0].node"},
        {"{'motions':[{'body':'c','velocity':[0,0,0]}]}", "control.motions[0]"},
        {"{'clear_forces':2}", "control.clear_forces"},
        {"{'parameters':3}", "control.parameters"},
        {"{'parameters':{'dt':-1}}", "control.parameters.dt"},
        {"{'parameters':{'solver':{'newton':-1}}}", "control.parameters.solver.newton"},
        {"[]", "control"},
    };
    qpc_world *w = NULL;
    qpc_error err = {0};
    assert_ok(world_of("{'bodies':[" CABLE "],'constraints':[{'kind':'fixed','body':'c','nodes':[0]}]}", &w, NULL, &err), &err);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qpc_mesh *mesh = floor_mesh();
        qpc_value v = scene_of(cases[i].text, mesh);
        assert_int_equal(qpc_world_control(w, &v, &err), QPC_ERR_INVALID);
        assert_string_equal(err.where, cases[i].where);
        qpc_value_fini(&v);
        qpc_mesh_unref(mesh);
    }
    qpc_world_destroy(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_force_accelerates_its_node_as_implicit_euler_says),
        cmocka_unit_test(every_place_of_a_control_begins_with_control),
        cmocka_unit_test(a_fixed_node_goes_exactly_where_its_target_is),
        cmocka_unit_test(the_reaction_of_a_hanging_cable_is_its_weight),
        cmocka_unit_test(a_resting_particle_is_carried_by_its_weight),
        cmocka_unit_test(a_kinematic_floor_lifts_what_lies_on_it),
        cmocka_unit_test(bad_controls_change_nothing),
        cmocka_unit_test(an_obstacle_turns_a_quarter_a_step_at_most_whatever_changes),
        cmocka_unit_test(a_step_without_memory_leaves_the_state_as_it_was),
        cmocka_unit_test(after_warm_up_a_step_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
