/// Bodies taken out of a running world: what rested on them falls as if they had never been, what hung on them is free.
#include "tests/unit/world/support.h"

#include "base/mem.h"

static double height(const qpc_world *w, int body) { return qpc_world_positions(w)[3 * qpc_world_body(w, body).first_node + 1]; }

#define BALL(name, x, y) "{'kind':'cable','name':'" name "','nodes':[[" x "," y ",0]],'mass':2,'radius':0.01}"
#define RESTING "{'dt':0.01,'gravity':[0,-10,0],'bodies':[" FLOOR "," BALL("p", "0", "0.01") "," BALL("q", "0.5", "0.01") "]}"

static void what_rested_on_a_removed_body_falls_freely(void **state) {
    (void)state;
    qpc_world *w = world_made(RESTING);
    qpc_error err = {0};
    qpc_step_report r;
    world_steps(w, 20, &r);
    double from = height(w, 1);
    assert_near(from, 0.01, 1e-6);
    assert_ok(world_control(w, "{'remove':['floor']}", &err), &err);
    assert_int_equal(qpc_world_body(w, 0).removed, 20);
    assert_int_equal(qpc_world_body(w, 1).removed, -1);
    int32_t count;
    (void)qpc_world_contacts(w, &count);
    assert_int_equal(count, 0);
    world_steps(w, 30, &r);
    assert_near(height(w, 1), from - 10.0 * 1e-4 * 30 * 31 / 2, 1e-9); // implicit Euler's own fall
    assert_int_equal(r.contacts, 0);
    assert_true(r.energy_drift < 1e-9 && r.energy_step < 1e-9); // Euler loses m (g h)^2 / 2 a step
    qpc_world_destroy(w);
}

static void a_removed_body_that_moves_stays_and_weighs_nothing(void **state) {
    (void)state;
    qpc_world *w = world_made(RESTING), *alone = world_made("{'dt':0.01,'gravity':[0,-10,0],'bodies':[" FLOOR "," BALL("p", "0", "0.01") "]}");
    qpc_error err = {0};
    qpc_step_report r, other;
    world_steps(w, 5, &r);
    assert_ok(world_control(w, "{'forces':[{'body':'q','force':[3,5,0]}]}", &err), &err);
    world_steps(w, 5, &r);
    assert_ok(world_control(w, "{'remove':['q'],'parameters':{'gravity':[0,-5,0]}}", &err), &err);
    double at = height(w, 2);
    world_steps(w, 10, &r);
    assert_true(height(w, 2) == at);
    world_steps(alone, 1, &other);
    assert_near(r.potential, -2.0 * -5.0 * 0.01, 1e-6); // of p alone
    assert_near(r.kinetic, 0.0, 1e-12);
    assert_int_equal(r.failsafe, 0);
    assert_int_equal(r.outcome, QPC_STEP_OPTIMAL);
    qpc_world_destroy(alone);
    qpc_world_destroy(w);
}

static void joints_springs_and_strain_go_with_their_body(void **state) {
    (void)state;
    // p hangs on a stretched cable that hangs on the static floor; a spring holds q to the cable's end
    qpc_world *w = world_made("{'dt':0.01,'gravity':[0,-10,0],'bodies':[" FLOOR
                        ",{'kind':'cable','name':'c','nodes':[[0,1,0],[0,0.9,0],[0,0.8,0]],'mass':0.1,'stiffness':1000,'radius':0.01},"
                        BALL("p", "0", "0.7") "," BALL("q", "0.7", "0.8") "],"
                        "'constraints':[{'kind':'fixed','body':'c','nodes':[0]},"
                        "{'kind':'attach','points':[{'body':'floor'},{'body':'q','node':0}]},"
                        "{'kind':'strain-limit','body':'c','max':1.1}],"
                        "'loads':[{'kind':'spring','points':[{'body':'c','node':2},{'body':'p','node':0}],'stiffness':500}]}");
    qpc_error err = {0};
    qpc_step_report r;
    int32_t joints;
    world_steps(w, 40, &r);
    assert_true(r.elastic > 1e-3 && r.joint_rows == 3);
    assert_ok(world_control(w, "{'remove':['c','floor']}", &err), &err);
    (void)qpc_world_joints(w, &joints);
    assert_int_equal(joints, 0);
    double from = height(w, 2), speed = qpc_world_velocities(w)[3 * qpc_world_body(w, 2).first_node + 1];
    world_steps(w, 20, &r);
    assert_near(height(w, 2), from + 0.2 * speed - 10.0 * 1e-4 * 20 * 21 / 2, 1e-9);
    assert_near(height(w, 3), 0.8 - 10.0 * 1e-4 * 20 * 21 / 2, 1e-9);
    assert_near(r.elastic, 0.0, 1e-12);
    assert_near(r.max_strain, 0.0, 1e-12);
    int32_t pins;
    const int32_t *node;
    const double *reaction = qpc_world_reactions(w, &node, &pins);
    assert_int_equal(pins, 1);
    for (int k = 0; k < 3; k++) assert_true(reaction[k] == 0.0);
    qpc_world_destroy(w);
}

static void the_same_commands_give_the_same_hash_and_others_do_not(void **state) {
    (void)state;
    uint64_t hash[3];
    for (int run = 0; run < 3; run++) {
        qpc_world *w = world_made(RESTING);
        qpc_error err = {0};
        world_steps(w, 10, NULL);
        uint64_t before = qpc_world_hash(w);
        assert_ok(world_control(w, run < 2 ? "{'remove':[2]}" : "{}", &err), &err);
        assert_true(qpc_world_hash(w) == before); // of steps
        world_steps(w, 10, NULL);
        hash[run] = qpc_world_hash(w);
        qpc_world_destroy(w);
    }
    assert_true(hash[0] == hash[1] && hash[0] != hash[2]);
}

static void controls_of_removed_bodies_are_refused_by_place(void **state) {
    (void)state;
    static const char *const refused[][2] = {
        {"{'remove':'q'}", "control.remove"},
        {"{'remove':['q','none']}", "control.remove[1]"},
        {"{'remove':['q',2]}", "control.remove[1]"},
        {"{'remove':['p']}", "control.remove[0]"},
        {"{'remove':['q'],'forces':[{'body':'q','force':[0,1,0]}]}", "control.forces[0].body"},
        {"{'forces':[{'body':'p','force':[0,1,0]}]}", "control.forces[0].body"},
    };
    qpc_world *w = world_made(RESTING);
    qpc_error err = {0};
    assert_ok(world_control(w, "{'remove':['p']}", &err), &err);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_int_equal(world_control(w, refused[i][0], &err), QPC_ERR_INVALID);
        assert_string_equal(err.where, refused[i][1]);
        assert_int_equal(qpc_world_body(w, 2).removed, -1); // nothing changed
    }
    qpc_world_destroy(w);
}

static void without_memory_nothing_is_removed(void **state) {
    (void)state;
    qpc_world *w = world_made(RESTING);
    qpc_error err = {0};
    qpc_status st = QPC_ERR_MEMORY;
    qpc_mesh *mesh = floor_mesh();
    qpc_value v = scene_of("{'remove':['floor']}", mesh);
    for (uint64_t nth = 1; st != QPC_OK; nth++) {
        qpc_mem_fail_at(nth, false);
        st = qpc_world_control(w, &v, &err);
        qpc_mem_disarm();
        assert_true(st == QPC_OK || (st == QPC_ERR_MEMORY && qpc_world_body(w, 0).removed == -1));
    }
    assert_int_equal(st, QPC_OK);
    world_steps(w, 2, NULL);
    qpc_value_fini(&v);
    qpc_mesh_unref(mesh);
    qpc_world_destroy(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_rested_on_a_removed_body_falls_freely),
        cmocka_unit_test(a_removed_body_that_moves_stays_and_weighs_nothing),
        cmocka_unit_test(joints_springs_and_strain_go_with_their_body),
        cmocka_unit_test(the_same_commands_give_the_same_hash_and_others_do_not),
        cmocka_unit_test(controls_of_removed_bodies_are_refused_by_place),
        cmocka_unit_test(without_memory_nothing_is_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
