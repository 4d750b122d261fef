// Properties of a world that need no numbers from outside: same scene, same bits; no allocation once
// warm; a failed allocation changes nothing; a rejected control changes nothing.
#include "tests/property/simulation.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

// Cables that fall on each other and on a box, one tied, one with a limit, one turning mesh.
static const char TANGLE[] =
    "{'dt': 0.005, 'bodies': ["
    "{'kind': 'static', 'mesh': {'generate': {'kind': 'box', 'width': 0.6, 'height': 0.2,"
    "'depth': 0.6, 'triangles': 108}}},"
    "{'kind': 'kinematic', 'mesh': {'generate': {'kind': 'cylinder', 'radius': 0.1, 'length': 0.5,"
    "'segments': 24}}, 'position': [0, -0.6, 0], 'velocity': [0, 0.1, 0],"
    "'angular_velocity': [0, 0, 2]},"
    "{'kind': 'cable', 'name': 'a', 'nodes': {'generate': {'kind': 'line', 'from': [-0.8, 0.2, 0],"
    "'to': [0.8, 0.2, 0.1], 'count': 33}}, 'mass': 0.02, 'stiffness': 2e4, 'radius': 0.01},"
    "{'kind': 'cable', 'name': 'b', 'nodes': {'generate': {'kind': 'line', 'from': [0, 0.3, -0.7],"
    "'to': [0.1, 0.3, 0.7], 'count': 29}}, 'mass': 0.02, 'stiffness': 2e4, 'radius': 0.012},"
    "{'kind': 'cable', 'name': 'c', 'nodes': {'generate': {'kind': 'line', 'from': [-0.5, 0.4, -0.5],"
    "'to': [0.5, 0.4, 0.5], 'count': 25}}, 'mass': 0.03, 'stiffness': 2e4, 'radius': 0.015,"
    "'velocity': [0.3, -1, 0]},"
    "{'kind': 'cable', 'name': 'ball', 'nodes': [[0.02, 0.55, 0.03]], 'mass': 0.5, 'radius': 0.05}],"
    "'constraints': [{'kind': 'fixed', 'body': 'b', 'nodes': [0]},"
    "{'kind': 'strain-limit', 'body': 'c', 'max': 1.05}]}";

// ---- same bits ----

enum { CHAIN = 240 };
typedef struct chain {
    uint64_t hash[CHAIN];
    int64_t cable_contacts, mesh_contacts;
    bool ok;
} chain;
// No cmocka in here: it runs on other threads too.
static void *run_chain(void *argument) {
    chain *out = argument;
    qpc_error err = {0};
    qpc_test_meshes *meshes = qpc_test_meshes_create();
    qpc_value scene = qpc_nil();
    qpc_scene_report scene_report;
    qpc_step_report report;
    qpc_world *world = NULL;
    const qpc_world_env env = {.user = meshes, .mesh_lookup = qpc_test_mesh_lookup};
    out->ok = meshes != NULL && qpc_test_scene_text(TANGLE, meshes, &scene, &err) == QPC_OK &&
              qpc_world_create(&scene, &env, &world, &scene_report, &err) == QPC_OK;
    for (int i = 0; out->ok && i < CHAIN; i++) {
        out->ok = qpc_world_step(world, &report, &err) == QPC_OK;
        out->hash[i] = qpc_world_hash(world);
        int32_t count;
        const qpc_contact_info *c = qpc_world_contacts(world, &count);
        for (int32_t k = 0; k < count; k++) {
            bool cables = qpc_world_body(world, c[k].body[0]).mesh == NULL &&
                          qpc_world_body(world, c[k].body[1]).mesh == NULL;
            if (c[k].force > 0) *(cables ? &out->cable_contacts : &out->mesh_contacts) += 1;
        }
    }
    if (!out->ok) fprintf(stderr, "%s\n", err.message);
    qpc_world_destroy(world);
    qpc_value_fini(&scene);
    qpc_test_meshes_destroy(meshes);
    return NULL;
}
static void the_same_scene_gives_the_same_bits_also_on_two_threads_at_once(void **state) {
    (void)state;
    static chain first, again, left, right;
    pthread_t a, b;
    run_chain(&first);
    run_chain(&again);
    assert_int_equal(pthread_create(&a, NULL, run_chain, &left), 0);
    assert_int_equal(pthread_create(&b, NULL, run_chain, &right), 0);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    assert_true(first.ok && again.ok && left.ok && right.ok);
    assert_true(first.cable_contacts > 100);
    assert_true(first.mesh_contacts > 100);
    assert_memory_equal(first.hash, again.hash, sizeof first.hash);
    assert_memory_equal(first.hash, left.hash, sizeof first.hash);
    assert_memory_equal(first.hash, right.hash, sizeof first.hash);
    for (int i = 1; i < CHAIN; i++) assert_true(first.hash[i] != first.hash[i - 1]);
}
static void the_tangle_never_crosses(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, TANGLE);
    for (int i = 0; i < CHAIN; i++) {
        simulation_step(&sim, 1);
        assert_true(sim.report.natural_ratio <= 1e-7 || sim.report.outcome != QPC_STEP_OPTIMAL);
    }
    assert_true(sim.w.found.worst_penetration <= 0.05);
    simulation_end(&sim);
}
static void names_and_record_do_not_change_the_scene_hash_but_a_mass_does(void **state) {
    (void)state;
    static const char *const text[] = {
        "{'bodies': [{'kind': 'cable', 'nodes': [[0, 0, 0]], 'mass': 1, 'radius': 0.1}]}",
        "{'name': 'x', 'record': {'frames': 7}, 'bodies': [{'name': 'y', 'kind': 'cable', 'radius':"
        "0.1, 'nodes': [[0, 0, 0]], 'mass': 1.0}]}",
        "{'bodies': [{'kind': 'cable', 'nodes': [[0, 0, 0]], 'mass': 1.0000000000000002, 'radius':"
        "0.1}]}",
    };
    uint64_t hash[3], after[3];
    for (int i = 0; i < 3; i++) {
        simulation sim;
        simulation_start(&sim, text[i]);
        hash[i] = qpc_world_scene_hash(sim.w.world);
        simulation_step(&sim, 3);
        after[i] = qpc_world_hash(sim.w.world);
        simulation_end(&sim);
    }
    assert_true(hash[0] == hash[1]);
    assert_true(hash[0] != hash[2]);
    assert_true(after[0] == after[1]);
    assert_true(after[0] != after[2]);
}

// ---- memory ----

static void a_warm_step_allocates_nothing(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, TANGLE);
    simulation_step(&sim, 160);
    uint64_t before = qpc_mem_thread_allocations();
    int64_t reported = 0, contacts = 0;
    for (int i = 0; i < 80; i++) {
        simulation_step(&sim, 1);
        reported += sim.report.allocations;
        contacts += sim.report.contacts;
    }
    assert_true(contacts > 0);
    assert_int_equal(reported, 0);
    assert_int_equal(qpc_mem_thread_allocations() - before, 0);
    simulation_end(&sim);
}
static void a_failed_allocation_while_creating_leaves_nothing_behind(void **state) {
    (void)state;
    qpc_test_meshes *meshes = qpc_test_meshes_create();
    qpc_value scene;
    qpc_error err = {0};
    qpc_scene_report report;
    const qpc_world_env env = {.user = meshes, .mesh_lookup = qpc_test_mesh_lookup};
    assert_ok(qpc_test_scene_text(TANGLE, meshes, &scene, &err), &err);
    int64_t live = qpc_mem_live_blocks();
    for (int and_after = 0; and_after < 2; and_after++) {
        for (uint64_t nth = 1;; nth++) {
            assert_true(nth < 100000);
            qpc_world *world = NULL;
            qpc_mem_fail_at(nth, and_after);
            qpc_status status = qpc_world_create(&scene, &env, &world, &report, &err);
            bool failed = qpc_mem_failed();
            qpc_mem_fail_at(0, false);
            if (!failed) {
                assert_int_equal(status, QPC_OK);
                qpc_world_destroy(world);
                assert_int_equal(qpc_mem_live_blocks(), live);
                break;
            }
            if (status != QPC_ERR_MEMORY)
                fail_msg("allocation %llu failed: status %s: %s", (unsigned long long)nth,
                         qpc_status_name(status), err.message);
            assert_null(world);
            if (qpc_mem_live_blocks() != live)
                fail_msg("allocation %llu failed: %lld blocks leaked", (unsigned long long)nth,
                         (long long)(qpc_mem_live_blocks() - live));
        }
    }
    qpc_value_fini(&scene);
    qpc_test_meshes_destroy(meshes);
}
static void a_failed_allocation_in_a_step_changes_nothing(void **state) {
    (void)state;
    // Steps that still grow something: the first, and those around the first contacts.
    qpc_test_meshes *meshes = qpc_test_meshes_create();
    qpc_value scene;
    qpc_error err = {0};
    qpc_scene_report scene_report;
    qpc_step_report report;
    const qpc_world_env env = {.user = meshes, .mesh_lookup = qpc_test_mesh_lookup};
    assert_ok(qpc_test_scene_text(TANGLE, meshes, &scene, &err), &err);
    int64_t live = qpc_mem_live_blocks();
    uint64_t injected = 0;
    static const int before_step[] = {0, 20, 30};
    for (size_t k = 0; k < sizeof before_step / sizeof before_step[0]; k++) {
        qpc_world *plain; // what should come out
        assert_ok(qpc_world_create(&scene, &env, &plain, &scene_report, &err), &err);
        for (int i = 0; i < before_step[k] + 2; i++)
            assert_ok(qpc_world_step(plain, &report, &err), &err);
        for (uint64_t nth = 1;; nth++) {
            assert_true(nth < 10000);
            qpc_world *world;
            assert_ok(qpc_world_create(&scene, &env, &world, &scene_report, &err), &err);
            for (int i = 0; i < before_step[k]; i++)
                assert_ok(qpc_world_step(world, &report, &err), &err);
            size_t size = 3 * (size_t)qpc_world_node_count(world) * sizeof(double);
            double *x = malloc(size), *v = malloc(size);
            memcpy(x, qpc_world_positions(world), size);
            memcpy(v, qpc_world_velocities(world), size);
            uint64_t hash = qpc_world_hash(world);
            double time = qpc_world_time(world);
            qpc_mem_fail_at(nth, nth % 2 == 0);
            qpc_status status = qpc_world_step(world, &report, &err);
            bool failed = qpc_mem_failed();
            qpc_mem_fail_at(0, false);
            // the arena may do without a joined block: a failure can be survived
            if (failed && status != QPC_OK) {
                assert_int_equal(status, QPC_ERR_MEMORY);
                assert_true(qpc_world_hash(world) == hash);
                assert_true(qpc_world_time(world) == time);
                assert_int_equal(qpc_world_step_number(world), before_step[k]);
                assert_memory_equal(qpc_world_positions(world), x, size);
                assert_memory_equal(qpc_world_velocities(world), v, size);
                assert_ok(qpc_world_step(world, &report, &err), &err);
                injected++;
            } else {
                assert_int_equal(status, QPC_OK);
            }
            assert_ok(qpc_world_step(world, &report, &err), &err);
            assert_true(qpc_world_hash(world) == qpc_world_hash(plain));
            free(x);
            free(v);
            qpc_world_destroy(world);
            if (!failed) break;
        }
        qpc_world_destroy(plain);
        assert_int_equal(qpc_mem_live_blocks(), live);
    }
    assert_true(injected > 0);
    qpc_value_fini(&scene);
    qpc_test_meshes_destroy(meshes);
}

// ---- all or nothing ----

static void a_rejected_control_changes_nothing(void **state) {
    (void)state;
    static const char *const bad[] = {
        "{'forces': [{'body': 'a', 'force': [0, 1, 0]}, {'body': 'nobody', 'force': [0, 1, 0]}]}",
        "{'parameters': {'dt': 0.01, 'gravity': [0, 0, 1e999]}}",
        "{'parameters': {'dt': 0.01}, 'targets': [{'body': 'b', 'node': 5, 'position': [0, 0, 0]}]}",
        "{'parameters': {'dt': -1}}",
        "{'force': []}",
    };
    simulation sim, plain;
    simulation_start(&sim, TANGLE);
    simulation_start(&plain, TANGLE);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[512];
        size_t size = strlen(bad[i]);
        for (size_t k = 0; k <= size; k++) text[k] = bad[i][k] == '\'' ? '"' : bad[i][k];
        qpc_value v;
        qpc_error err = {0};
        if (qpc_json_parse(text, size, &v, &err) == QPC_OK) { // 1e999 is refused there already
            assert_int_equal(qpc_world_control(sim.w.world, &v, &err), QPC_ERR_INVALID);
            assert_true(strlen(err.message) > 10);
            qpc_value_fini(&v);
        }
        simulation_step(&sim, 1);
        simulation_step(&plain, 1);
        assert_true(qpc_world_hash(sim.w.world) == qpc_world_hash(plain.w.world));
    }
    simulation_control(&sim, "{'forces': [{'body': 'a', 'force': [0, 1, 0]}]}");
    simulation_step(&sim, 1);
    simulation_step(&plain, 1);
    assert_true(qpc_world_hash(sim.w.world) != qpc_world_hash(plain.w.world));
    simulation_end(&sim);
    simulation_end(&plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_scene_gives_the_same_bits_also_on_two_threads_at_once),
        cmocka_unit_test(the_tangle_never_crosses),
        cmocka_unit_test(names_and_record_do_not_change_the_scene_hash_but_a_mass_does),
        cmocka_unit_test(a_warm_step_allocates_nothing),
        cmocka_unit_test(a_failed_allocation_while_creating_leaves_nothing_behind),
        cmocka_unit_test(a_failed_allocation_in_a_step_changes_nothing),
        cmocka_unit_test(a_rejected_control_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
