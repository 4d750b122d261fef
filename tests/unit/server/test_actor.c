/// A world and its mailbox in a pool without threads, on a stand-in for the engine: order, slices,
/// cancel, deadline, drain, destroy, retries, snapshots and frames.
#include "engine_double.h"
#include "server/actor.h"

#include "base/log.h"
#include "base/mem.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/faults.h"

#define assert_near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

typedef struct fixture {
    uv_loop_t loop;
    qpc_bridge bridge;
    qpc_pool *pool;
    qpc_counters counters;
    atomic_bool draining;
    _Atomic int64_t worlds_memory;
    qpc_actor_env env;
    qpc_actor *actor;
    int frames_posted;
} fixture;

static fixture *current; // for callbacks out of the engine

static void on_frames(void *user, qpc_actor *actor) {
    fixture *f = user;
    (void)actor;
    f->frames_posted++;
}

static qpc_value scene_of(int64_t nodes, int64_t fixed, int64_t fail_at) {
    qpc_value scene = qpc_map();
    assert_int_equal(qpc_map_set(&scene, "nodes", qpc_int(nodes)), QPC_OK);
    assert_int_equal(qpc_map_set(&scene, "static", qpc_int(fixed)), QPC_OK);
    assert_int_equal(qpc_map_set(&scene, "fail_at", qpc_int(fail_at)), QPC_OK);
    return scene;
}

static void make_world(fixture *f, int64_t nodes, int64_t fixed, int64_t fail_at) {
    qpc_value scene = scene_of(nodes, fixed, fail_at);
    qpc_scene_report report;
    qpc_error error = {0};
    assert_int_equal(
        qpc_actor_create(&f->env, &scene, "w", false, &f->actor, &report, &error), QPC_OK);
    qpc_value_fini(&scene);
}

static int set_up(void **state) {
    fixture *f = test_calloc(1, sizeof *f);
    qpc_pool_options options = {.workers = 0};
    qpc_log_init(QPC_LOG_OFF, 2);
    uv_loop_init(&f->loop);
    if (qpc_bridge_init(&f->bridge, &f->loop, NULL) != QPC_OK) return 1;
    if (qpc_pool_create(&options, &f->pool, NULL) != QPC_OK) return 1;
    f->env = (qpc_actor_env){
        .pool = f->pool,
        .bridge = &f->bridge,
        .counters = &f->counters,
        .draining = &f->draining,
        .slice_ns = INT64_C(20000000),
        .publish_ns = INT64_C(10000000),
        .mailbox_capacity = 4,
        .max_nodes = 1000,
        .max_world_memory = 1 << 20,
        .max_worlds_memory = 1 << 20,
        .worlds_memory = &f->worlds_memory,
        .on_frames = on_frames,
        .user = f,
    };
    qpc_double_on_step = NULL;
    current = f;
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    qpc_double_on_step = NULL;
    qpc_actor_free(f->actor);
    qpc_pool_destroy(f->pool);
    qpc_bridge_close(&f->bridge);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    uv_loop_close(&f->loop);
    bool clean = atomic_load(&f->worlds_memory) == 0 && qpc_double_worlds == 0 &&
                 qpc_mem_live_blocks() == 0;
    test_free(f);
    return clean ? 0 : 1;
}

// ---- requests ----

static int returned; // counts replies, to see their order

typedef struct call {
    qpc_request *request;
    int order;
} call;

static void note_return(qpc_post *post) {
    qpc_request *request = (qpc_request *)(void *)((char *)post - offsetof(qpc_request, post));
    call *c = request->object;
    c->order = ++returned;
}

static qpc_request *make_request(qpc_method method, call *c) {
    qpc_request *request = qpc_request_create(method);
    assert_non_null(request);
    request->post.run = note_return;
    request->object = c;
    request->id = 5;
    request->step.n = 1;
    c->request = request;
    c->order = 0;
    return request;
}

static qpc_status post(fixture *f, call *c, qpc_method method, int64_t n) {
    qpc_request *request = make_request(method, c);
    request->step.n = n;
    qpc_status status = qpc_actor_post(f->actor, request, NULL);
    if (status != QPC_OK) qpc_request_destroy(request);
    return status;
}

static void run(fixture *f) {
    while (qpc_pool_run_ready(f->pool, 1) > 0 || qpc_bridge_drain(&f->bridge) > 0) continue;
}

/// The reply as a value tree; forget() it.
static qpc_rpc_message reply_of(const call *c) {
    qpc_rpc_message m;
    assert_true(c->order > 0);
    assert_int_equal(qpc_rpc_parse(c->request->reply.data, c->request->reply.size, &m, NULL),
                     QPC_OK);
    assert_int_equal(m.type, QPC_RPC_RESPONSE);
    assert_int_equal(m.id, 5);
    return m;
}

static void forget(call *c, qpc_rpc_message *m) {
    qpc_rpc_message_fini(m);
    c->request->object = NULL;
    qpc_request_destroy(c->request);
}

static void expect_ok(call *c, const char *status, int64_t reached) {
    qpc_rpc_message m = reply_of(c);
    assert_int_equal(m.error.kind, QPC_NIL);
    assert_true(qpc_str_equal(qpc_map_get(&m.result, "status"), status));
    assert_int_equal(qpc_map_get(&m.result, "reached")->i, reached);
    forget(c, &m);
}

static void expect_error(call *c, qpc_status status) {
    qpc_rpc_message m = reply_of(c);
    assert_int_equal(m.error.kind, QPC_MAP);
    assert_int_equal(qpc_map_get(&m.error, "code")->i, status);
    assert_true(c->request->failed);
    forget(c, &m);
}

// ---- tests ----

static void steps_run_in_order_and_add_up(void **state) {
    fixture *f = *state;
    call a, b, c;
    make_world(f, 2, 0, -1);
    returned = 0;
    assert_int_equal(post(f, &a, QPC_METHOD_WORLD_STEP, 3), QPC_OK);
    assert_int_equal(post(f, &b, QPC_METHOD_WORLD_STEP, 1), QPC_OK);
    assert_int_equal(post(f, &c, QPC_METHOD_WORLD_STEP, 4), QPC_OK);
    run(f);
    assert_int_equal(a.order, 1);
    assert_int_equal(b.order, 2);
    assert_int_equal(c.order, 3);
    qpc_rpc_message m = reply_of(&c);
    const qpc_value *summary = qpc_map_get(&m.result, "summary");
    assert_int_equal(qpc_map_get(summary, "steps")->i, 4);
    assert_int_equal(qpc_map_get(summary, "contacts_max")->i, 3); // steps 5 to 8: 0 1 2 3
    assert_near(qpc_map_get(summary, "min_gap")->real, 1.92, 1e-12);
    assert_near(qpc_map_get(summary, "cpu_s")->real, 4e-7, 1e-15);
    assert_int_equal(qpc_map_get(qpc_map_get(summary, "last"), "step")->i, 8);
    forget(&c, &m);
    expect_ok(&a, "ok", 3);
    expect_ok(&b, "ok", 4);
    assert_int_equal(atomic_load(&f->counters.steps), 8);
}

static void a_failed_step_ends_the_batch_and_says_why(void **state) {
    fixture *f = *state;
    call a;
    make_world(f, 1, 0, 4);
    assert_int_equal(post(f, &a, QPC_METHOD_WORLD_STEP, 10), QPC_OK);
    run(f);
    qpc_rpc_message m = reply_of(&a);
    assert_true(qpc_str_equal(qpc_map_get(&m.result, "status"), "failed"));
    assert_int_equal(qpc_map_get(&m.result, "reached")->i, 3);
    const qpc_value *error = qpc_map_get(&m.result, "error");
    assert_int_equal(qpc_map_get(error, "code")->i, QPC_ERR_NUMERIC);
    assert_int_equal(qpc_map_get(qpc_map_get(error, "data"), "step")->i, 4);
    forget(&a, &m);
    assert_int_equal(atomic_load(&f->counters.steps_failed), 1);
}

static void a_full_mailbox_is_busy(void **state) {
    fixture *f = *state;
    call calls[4], extra;
    make_world(f, 1, 0, -1);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(post(f, &calls[i], QPC_METHOD_WORLD_STEP, 1), QPC_OK);
    }
    assert_int_equal(post(f, &extra, QPC_METHOD_WORLD_STEP, 1), QPC_ERR_BUSY);
    run(f);
    for (int i = 0; i < 4; i++) expect_ok(&calls[i], "ok", i + 1);
    assert_int_equal(post(f, &extra, QPC_METHOD_WORLD_STEP, 1), QPC_OK);
    run(f);
    expect_ok(&extra, "ok", 5);
}

static void expect_step_and_keys_protect_from_stepping_twice(void **state) {
    fixture *f = *state;
    call a, b, c, d;
    make_world(f, 1, 0, -1);
    qpc_request *r = make_request(QPC_METHOD_WORLD_STEP, &a);
    r->step.expect_step = 1;
    assert_int_equal(qpc_actor_post(f->actor, r, NULL), QPC_OK);
    r = make_request(QPC_METHOD_WORLD_STEP, &b);
    r->step.expect_step = 0;
    strcpy(r->step.key, "k");
    assert_int_equal(qpc_actor_post(f->actor, r, NULL), QPC_OK);
    r = make_request(QPC_METHOD_WORLD_STEP, &c);
    r->step.expect_step = 0;
    strcpy(r->step.key, "k");
    assert_int_equal(qpc_actor_post(f->actor, r, NULL), QPC_OK);
    r = make_request(QPC_METHOD_WORLD_STEP, &d);
    r->step.n = 2;
    strcpy(r->step.key, "k");
    assert_int_equal(qpc_actor_post(f->actor, r, NULL), QPC_OK);
    run(f);
    qpc_rpc_message m = reply_of(&a);
    assert_int_equal(qpc_map_get(&m.error, "code")->i, QPC_ERR_STATE);
    assert_int_equal(qpc_map_get(qpc_map_get(&m.error, "data"), "step")->i, 0);
    forget(&a, &m);
    expect_ok(&b, "ok", 1);
    expect_ok(&c, "ok", 1);
    expect_error(&d, QPC_ERR_INVALID);
    assert_int_equal(qpc_actor_get_info(f->actor).step, 1);
}

static void cancel_now(int64_t step) {
    if (step == 5) assert_true(qpc_actor_cancel(current->actor));
}

static void cancel_acts_between_steps_on_all_that_wait(void **state) {
    fixture *f = *state;
    call a, b, c;
    make_world(f, 1, 0, -1);
    assert_false(qpc_actor_cancel(f->actor));
    qpc_double_on_step = cancel_now;
    post(f, &a, QPC_METHOD_WORLD_STEP, 100);
    post(f, &b, QPC_METHOD_WORLD_STEP, 100);
    run(f);
    expect_ok(&a, "cancelled", 5);
    expect_ok(&b, "cancelled", 5);
    post(f, &c, QPC_METHOD_WORLD_STEP, 1);
    run(f);
    expect_ok(&c, "ok", 6);
}

static void drain_now(int64_t step) {
    if (step == 3) atomic_store(&current->draining, true);
}

static void drain_acts_between_steps(void **state) {
    fixture *f = *state;
    call a, b;
    make_world(f, 1, 0, -1);
    qpc_double_on_step = drain_now;
    post(f, &a, QPC_METHOD_WORLD_STEP, 100);
    post(f, &b, QPC_METHOD_WORLD_STEP, 100);
    run(f);
    expect_ok(&a, "draining", 3);
    expect_ok(&b, "draining", 3);
}

static void a_deadline_acts_between_steps(void **state) {
    fixture *f = *state;
    call a;
    make_world(f, 1, 0, -1);
    qpc_request *r = make_request(QPC_METHOD_WORLD_STEP, &a);
    r->step.n = 1000000000;
    r->step.deadline_ns = (int64_t)uv_hrtime() + 5000000;
    qpc_actor_post(f->actor, r, NULL);
    run(f);
    qpc_rpc_message m = reply_of(&a);
    assert_true(qpc_str_equal(qpc_map_get(&m.result, "status"), "deadline"));
    assert_true(qpc_map_get(&m.result, "reached")->i < 1000000000);
    forget(&a, &m);
}

static void count_run(qpc_task *task) { (void)task; }

static void a_long_batch_gives_way_and_keeps_its_place(void **state) {
    fixture *f = *state;
    call a, b;
    f->env.slice_ns = 0; // every look at the clock ends the slice
    make_world(f, 1, 0, -1);
    post(f, &a, QPC_METHOD_WORLD_STEP, 5);
    post(f, &b, QPC_METHOD_WORLD_STEP, 1);
    qpc_task others[3] = {{NULL, count_run}, {NULL, count_run}, {NULL, count_run}};
    for (int i = 0; i < 3; i++) qpc_pool_push(f->pool, &others[i]);
    // The batch has its turn, sees that others wait, and goes behind them without a step.
    assert_int_equal(qpc_pool_run_ready(f->pool, 1), 1);
    assert_int_equal(qpc_pool_get_stats(f->pool).ready, 4);
    run(f);
    expect_ok(&a, "ok", 5);
    expect_ok(&b, "ok", 6);
}

static void destroy_now(int64_t step) {
    if (step == 2) qpc_actor_doom(current->actor);
}

static void destroy_ends_what_runs_and_what_waits(void **state) {
    fixture *f = *state;
    call a, b, c;
    make_world(f, 1, 0, -1);
    qpc_double_on_step = destroy_now;
    post(f, &a, QPC_METHOD_WORLD_STEP, 100);
    post(f, &b, QPC_METHOD_WORLD_STEP, 1);
    post(f, &c, QPC_METHOD_WORLD_DESTROY, 0);
    run(f);
    expect_ok(&a, "cancelled", 2);
    expect_error(&b, QPC_ERR_CANCELLED);
    qpc_rpc_message m = reply_of(&c);
    assert_int_equal(qpc_map_get(&m.result, "steps")->i, 2);
    forget(&c, &m);
    assert_int_equal(qpc_double_worlds, 0);
    assert_int_equal(atomic_load(&f->worlds_memory), 0);
}

static void controls_come_in_order_and_change_nothing_when_refused(void **state) {
    fixture *f = *state;
    call a, b, c;
    make_world(f, 1, 0, -1);
    qpc_snapshot *before = qpc_actor_snapshot(f->actor);
    qpc_request *r = make_request(QPC_METHOD_WORLD_CONTROL, &a);
    qpc_value control = qpc_map();
    r->params = qpc_map();
    qpc_map_set(&control, "push", qpc_real(2));
    qpc_map_set(&r->params, "control", control);
    qpc_actor_post(f->actor, r, NULL);
    r = make_request(QPC_METHOD_WORLD_CONTROL, &b);
    r->params = qpc_map();
    qpc_map_set(&r->params, "control", qpc_map());
    qpc_actor_post(f->actor, r, NULL);
    run(f);
    qpc_rpc_message m = reply_of(&a);
    assert_true(qpc_map_get(&m.result, "accepted")->b);
    forget(&a, &m);
    expect_error(&b, QPC_ERR_INVALID);
    qpc_snapshot *after = qpc_actor_snapshot(f->actor);
    assert_true(before->hash != after->hash);
    assert_near(after->velocities[0], 2, 0);
    qpc_snapshot_unref(before);
    qpc_snapshot_unref(after);
    // A step whose control is refused does not step.
    r = make_request(QPC_METHOD_WORLD_STEP, &c);
    r->params = qpc_map();
    qpc_map_set(&r->params, "control", qpc_map());
    qpc_actor_post(f->actor, r, NULL);
    run(f);
    expect_error(&c, QPC_ERR_INVALID);
    assert_int_equal(qpc_actor_get_info(f->actor).step, 0);
}

static void snapshots_hold_the_moving_nodes_only(void **state) {
    fixture *f = *state;
    call a;
    make_world(f, 3, 4, -1);
    qpc_snapshot *start = qpc_actor_snapshot(f->actor);
    assert_int_equal(start->node_count, 3);
    assert_near(start->positions[0], 4, 0); // behind the static ones
    assert_false(start->stepped);
    post(f, &a, QPC_METHOD_WORLD_STEP, 1);
    run(f);
    expect_ok(&a, "ok", 1);
    qpc_snapshot *next = qpc_actor_snapshot(f->actor);
    assert_near(start->positions[1], 0, 0); // immutable
    assert_near(next->positions[1], -0.001, 1e-15);
    assert_int_equal(next->contact_count, 1);
    assert_int_equal(next->contact_key[0], 9);
    assert_int_equal(next->reaction_node[0], 0);
    const qpc_layout *layout = qpc_actor_get_info(f->actor).layout;
    assert_int_equal(layout->bodies[0].node_count, 0);
    assert_int_equal(layout->bodies[1].first_node, 0);
    qpc_value v = qpc_text_borrow("cable");
    int32_t body = -1;
    assert_int_equal(qpc_layout_find_body(layout, &v, "body", &body, NULL), QPC_OK);
    assert_int_equal(body, 1);
    v = qpc_int(2);
    assert_int_equal(qpc_layout_find_body(layout, &v, "body", &body, NULL), QPC_ERR_INVALID);
    qpc_value map = qpc_map();
    assert_int_equal(qpc_snapshot_to_map(next, layout, QPC_PART_ALL, true, 1, &map), QPC_OK);
    assert_int_equal(qpc_map_get(&map, "positions")->tensor.dtype, QPC_F32);
    assert_int_equal(qpc_map_get(&map, "positions")->tensor.shape[0], 3);
    assert_int_equal(qpc_map_get(qpc_map_get(&map, "contacts"), "kind")->tensor.dtype, QPC_U8);
    qpc_value_fini(&map);
    qpc_snapshot_unref(start);
    qpc_snapshot_unref(next);
}

static void frames_are_taken_for_subscribers_and_the_oldest_go(void **state) {
    fixture *f = *state;
    call a;
    qpc_snapshot *frames[300];
    uint64_t missed = 1;
    make_world(f, 1, 0, -1);
    qpc_actor_set_frames(f->actor, 2, QPC_PART_POSITIONS | QPC_PART_SINGLE);
    post(f, &a, QPC_METHOD_WORLD_STEP, 6);
    run(f);
    expect_ok(&a, "ok", 6);
    assert_int_equal(f->frames_posted, 1); // wake-ups merge
    assert_int_equal(qpc_actor_take_frames(f->actor, frames, 2, &missed), 2);
    assert_int_equal(missed, 0);
    assert_int_equal(frames[0]->step, 2);
    assert_int_equal(frames[1]->step, 4);
    assert_non_null(frames[0]->positions32);
    assert_null(frames[0]->velocities);
    qpc_snapshot_unref(frames[0]);
    qpc_snapshot_unref(frames[1]);
    assert_int_equal(qpc_actor_take_frames(f->actor, frames, 2, &missed), 1);
    qpc_snapshot_unref(frames[0]);
    // More than the ring holds before anybody looks.
    post(f, &a, QPC_METHOD_WORLD_STEP, 1000);
    run(f);
    expect_ok(&a, "ok", 1006);
    int32_t count = qpc_actor_take_frames(f->actor, frames, 300, &missed);
    assert_int_equal(count + (int64_t)missed, 500);
    assert_true(missed > 0);
    assert_int_equal(frames[count - 1]->step, 1006);
    for (int32_t i = 0; i < count; i++) qpc_snapshot_unref(frames[i]);
    qpc_actor_set_frames(f->actor, 0, 0);
    post(f, &a, QPC_METHOD_WORLD_STEP, 10);
    run(f);
    expect_ok(&a, "ok", 1016);
    assert_int_equal(qpc_actor_take_frames(f->actor, frames, 300, &missed), 0);
}

static int taken;
static call meanwhile[8];

static void take_one(void *user, qpc_actor *actor) {
    fixture *f = user;
    qpc_snapshot *frame;
    uint64_t missed;
    f->frames_posted++;
    while (qpc_actor_take_frames(actor, &frame, 1, &missed) > 0) {
        taken++;
        qpc_snapshot_unref(frame);
        // A worker steps while the loop is still taking: its post must go out once, not twice.
        if (taken >= 6 || qpc_actor_get_info(actor).busy) continue;
        post(f, &meanwhile[taken], QPC_METHOD_WORLD_STEP, 1);
        qpc_pool_run_ready(f->pool, 10);
    }
}

static void frames_that_come_while_others_are_taken_are_posted_once(void **state) {
    fixture *f = *state;
    call a;
    f->env.on_frames = take_one;
    make_world(f, 1, 0, -1);
    qpc_actor_set_frames(f->actor, 1, QPC_PART_POSITIONS);
    taken = 0;
    post(f, &a, QPC_METHOD_WORLD_STEP, 1);
    run(f);
    expect_ok(&a, "ok", 1);
    assert_int_equal(taken, 6);
    for (int i = 1; i < 6; i++) expect_ok(&meanwhile[i], "ok", i + 1);
    assert_int_equal(f->frames_posted, 2); // the first, and one for all that came meanwhile
}

static void a_world_beyond_its_memory_is_refused(void **state) {
    fixture *f = *state;
    qpc_value scene = scene_of(100000, 0, -1);
    qpc_scene_report report;
    qpc_error error = {0};
    assert_int_equal(qpc_actor_create(&f->env, &scene, "", false, &f->actor, &report, &error),
                     QPC_ERR_LIMIT);
    assert_non_null(strstr(error.message, "--max-world-memory"));
    qpc_value_fini(&scene);
    assert_int_equal(atomic_load(&f->worlds_memory), 0);
}

static void creation_survives_every_failed_allocation(void **state) {
    fixture *f = *state;
    qpc_value scene = scene_of(3, 4, -1);
    QPC_FAULTS(faults) {
        qpc_scene_report report;
        qpc_actor *actor = NULL;
        qpc_error error = {0};
        qpc_status status =
            qpc_actor_create(&f->env, &scene, "w", false, &actor, &report, &error);
        if (qpc_faults_ended(&faults, status)) qpc_actor_free(actor);
    }
    qpc_value_fini(&scene);
}

static void a_step_survives_every_failed_allocation(void **state) {
    fixture *f = *state;
    make_world(f, 3, 4, -1);
    qpc_actor_set_frames(f->actor, 1, QPC_PART_ALL);
    int64_t steps = 0;
    for (uint64_t nth = 1;; nth++) {
        call a;
        qpc_request *r = make_request(QPC_METHOD_WORLD_STEP, &a);
        snprintf(r->step.key, sizeof r->step.key, "k%d", (int)nth);
        r->step.positions = r->step.contacts = r->step.single = true;
        qpc_actor_post(f->actor, r, NULL);
        qpc_mem_fail_at(nth, false);
        run(f);
        bool failed = qpc_mem_failed();
        qpc_mem_fail_at(0, false);
        assert_true(a.order > 0);
        steps++; // whatever failed, the world stepped once and the reply says so, or says MEMORY
        if (r->reply.size > 0) {
            qpc_rpc_message m = reply_of(&a);
            if (m.error.kind == QPC_NIL) {
                assert_int_equal(qpc_map_get(&m.result, "reached")->i, steps);
            } else {
                assert_int_equal(qpc_map_get(&m.error, "code")->i, QPC_ERR_MEMORY);
            }
            qpc_rpc_message_fini(&m);
        }
        r->object = NULL;
        qpc_request_destroy(r);
        if (!failed) break;
        assert_true(nth < 200);
    }
    qpc_snapshot *frames[256];
    uint64_t missed;
    int32_t count = qpc_actor_take_frames(f->actor, frames, 256, &missed);
    for (int32_t i = 0; i < count; i++) qpc_snapshot_unref(frames[i]);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(steps_run_in_order_and_add_up),
        TEST(a_failed_step_ends_the_batch_and_says_why),
        TEST(a_full_mailbox_is_busy),
        TEST(expect_step_and_keys_protect_from_stepping_twice),
        TEST(cancel_acts_between_steps_on_all_that_wait),
        TEST(drain_acts_between_steps),
        TEST(a_deadline_acts_between_steps),
        TEST(a_long_batch_gives_way_and_keeps_its_place),
        TEST(destroy_ends_what_runs_and_what_waits),
        TEST(controls_come_in_order_and_change_nothing_when_refused),
        TEST(snapshots_hold_the_moving_nodes_only),
        TEST(frames_are_taken_for_subscribers_and_the_oldest_go),
        TEST(frames_that_come_while_others_are_taken_are_posted_once),
        TEST(a_world_beyond_its_memory_is_refused),
        TEST(creation_survives_every_failed_allocation),
        TEST(a_step_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
