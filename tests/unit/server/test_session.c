/// Sessions on a real loop and a Unix socket, with a pool without threads: splitting, half-close,
/// garbage, large messages, slow readers, time-outs, failing memory.
#include "engine_double.h"
#include "server/router.h"

#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct fixture {
    qpc_server *server;
    uv_pipe_t listener;
    char folder[32], path[48];
    int client;
    qpc_buffer in; // what the client has read and not yet taken
    bool closed;   // by the server
} fixture;

static void on_connection(uv_stream_t *stream, int status) {
    assert_int_equal(status, 0);
    qpc_session_accept(stream->data, stream, true);
}

/// Turns of the loop until nothing moves any more.
static void pump(fixture *f) {
    for (int i = 0; i < 20; i++) {
        qpc_pool_run_ready(f->server->pool, 100);
        qpc_bridge_drain(&f->server->bridge);
        uv_run(&f->server->loop, UV_RUN_NOWAIT);
        qpc_server_flush(f->server);
    }
}

static void dial(fixture *f) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, f->path);
    f->client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(f->client, (struct sockaddr *)&address, sizeof address), 0);
    f->closed = false;
    f->in.size = 0;
    pump(f);
    assert_int_equal(f->server->session_count, 1);
}

static int set_up(void **state) {
    fixture *f = test_calloc(1, sizeof *f);
    char *environment[] = {(char *)(uintptr_t)"HOME=/nonexistent", NULL};
    char *argv[] = {(char *)(uintptr_t)"qpcollided", NULL};
    qpc_log_init(QPC_LOG_OFF, 2);
    f->server = qpc_calloc(1, sizeof *f->server);
    qpc_server *server = f->server;
    assert_int_equal(qpc_options_parse(1, argv, environment, &server->options, NULL), QPC_OK);
    uv_loop_init(&server->loop);
    assert_int_equal(qpc_bridge_init(&server->bridge, &server->loop, NULL), QPC_OK);
    qpc_pool_options pool = {.workers = 0};
    assert_int_equal(qpc_pool_create(&pool, &server->pool, NULL), QPC_OK);
    server->worlds.limit = 10;
    server->session_limit = 10;
    server->actor_env = (qpc_actor_env){
        .pool = server->pool,
        .bridge = &server->bridge,
        .counters = &server->counters,
        .draining = &server->draining,
        .slice_ns = INT64_C(1000000000),
        .publish_ns = INT64_C(1000000000),
        .mailbox_capacity = 100,
        .max_nodes = 1000,
        .max_world_memory = 1 << 20,
        .max_worlds_memory = 1 << 20,
        .worlds_memory = &server->worlds_memory,
    };
    strcpy(f->folder, "/tmp/qpc-session-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->path, sizeof f->path, "%s/s", f->folder);
    uv_pipe_init(&server->loop, &f->listener, 0);
    f->listener.data = server;
    assert_int_equal(uv_pipe_bind(&f->listener, f->path), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&f->listener, 10, on_connection), 0);
    dial(f);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    qpc_server *server = f->server;
    close(f->client);
    pump(f);
    bool clean = server->sessions == NULL && server->charged == 0 && server->in_flight == 0 &&
                 server->session_count == 0 && server->dirty == NULL;
    while (server->worlds.actors.count > 0) {
        qpc_actor *actor = server->worlds.actors.data[0];
        qpc_worlds_remove(&server->worlds, actor);
        qpc_actor_free(actor);
    }
    qpc_worlds_fini(&server->worlds);
    qpc_pool_destroy(server->pool);
    qpc_bridge_close(&server->bridge);
    uv_close((uv_handle_t *)&f->listener, NULL);
    uv_run(&server->loop, UV_RUN_DEFAULT);
    clean = clean && uv_loop_close(&server->loop) == 0;
    rmdir(f->folder);
    qpc_buffer_fini(&f->in);
    qpc_free(server);
    clean = clean && qpc_mem_live_blocks() == 0;
    test_free(f);
    return clean ? 0 : 1;
}

// ---- the client's side ----

static void send_bytes(fixture *f, const void *bytes, size_t size) {
    ssize_t sent = send(f->client, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    assert_int_equal(sent, (ssize_t)size);
}

static void take_in(fixture *f) {
    uint8_t chunk[65536];
    while (!f->closed) {
        ssize_t got = recv(f->client, chunk, sizeof chunk, MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN) break;
        if (got <= 0) {
            f->closed = true;
        } else {
            assert_int_equal(qpc_buffer_append(&f->in, chunk, (size_t)got), QPC_OK);
        }
    }
}

/// The next message; the pointers in it are good until the next call.
static bool next_message(fixture *f, qpc_rpc_message *ret) {
    static uint8_t kept[1 << 16];
    qpc_scan_limits limits = qpc_scan_limits_default();
    qpc_scanner scanner = {0};
    size_t size = 0;
    take_in(f);
    if (f->in.size == 0 || qpc_scan(&scanner, f->in.data, f->in.size, &limits, &size, NULL) !=
                               QPC_SCAN_WHOLE) {
        return false;
    }
    assert_true(size <= sizeof kept);
    memcpy(kept, f->in.data, size);
    memmove(f->in.data, f->in.data + size, f->in.size - size);
    f->in.size -= size;
    assert_int_equal(qpc_rpc_parse(kept, size, ret, NULL), QPC_OK);
    return true;
}

static qpc_buffer request_of(uint32_t id, const char *method, const qpc_value *params) {
    qpc_buffer out = {0};
    assert_int_equal(qpc_rpc_request(id, method, params, false, &out, NULL), QPC_OK);
    return out;
}

static void send_request(fixture *f, uint32_t id, const char *method, const qpc_value *params) {
    qpc_buffer out = request_of(id, method, params);
    send_bytes(f, out.data, out.size);
    qpc_buffer_fini(&out);
}

/// The next message is the error reply to id with that status.
static void expect_error(fixture *f, uint32_t id, qpc_status status) {
    qpc_rpc_message m;
    assert_true(next_message(f, &m));
    assert_int_equal(m.type, QPC_RPC_RESPONSE);
    assert_int_equal(m.id, id);
    assert_int_equal(qpc_map_get(&m.error, "code")->i, status);
    qpc_rpc_message_fini(&m);
}

static void expect_closed(fixture *f) {
    pump(f);
    take_in(f);
    assert_int_equal(f->in.size, 0);
    assert_true(f->closed);
}

// ---- tests ----

static void a_request_split_anywhere_is_answered_once(void **state) {
    fixture *f = *state;
    qpc_buffer out = request_of(70000, "no_such_method", NULL);
    for (size_t cut = 0; cut <= out.size; cut++) {
        send_bytes(f, out.data, cut);
        pump(f);
        send_bytes(f, out.data + cut, out.size - cut);
        pump(f);
        expect_error(f, 70000, QPC_ERR_UNKNOWN_METHOD);
        take_in(f);
        assert_int_equal(f->in.size, 0);
    }
    qpc_buffer_fini(&out);
}

static void two_and_a_half_requests_in_one_write(void **state) {
    fixture *f = *state;
    qpc_buffer out = {0};
    for (uint32_t id = 1; id <= 3; id++) {
        assert_int_equal(qpc_rpc_request(id, "x", NULL, false, &out, NULL), QPC_OK);
    }
    send_bytes(f, out.data, out.size - 2);
    pump(f);
    expect_error(f, 1, QPC_ERR_UNKNOWN_METHOD);
    expect_error(f, 2, QPC_ERR_UNKNOWN_METHOD);
    take_in(f);
    assert_int_equal(f->in.size, 0);
    assert_int_equal(f->server->sessions->in_size, out.size / 3 - 2);
    send_bytes(f, out.data + out.size - 2, 2);
    pump(f);
    expect_error(f, 3, QPC_ERR_UNKNOWN_METHOD);
    assert_null(f->server->sessions->in); // nothing waits: no memory is held
    qpc_buffer_fini(&out);
}

static void a_half_closed_session_gets_its_replies(void **state) {
    fixture *f = *state;
    send_request(f, 1, "x", NULL);
    send_request(f, 2, "x", NULL);
    shutdown(f->client, SHUT_WR);
    pump(f);
    expect_error(f, 1, QPC_ERR_UNKNOWN_METHOD);
    expect_error(f, 2, QPC_ERR_UNKNOWN_METHOD);
    expect_closed(f);
}

static void bytes_that_are_no_messages_end_the_session(void **state) {
    fixture *f = *state;
    const uint8_t never[1024] = {0xc1};
    qpc_rpc_message m;
    send_request(f, 1, "x", NULL);
    send_bytes(f, never, sizeof never);
    pump(f);
    expect_error(f, 1, QPC_ERR_UNKNOWN_METHOD);
    assert_true(next_message(f, &m));
    assert_int_equal(m.type, QPC_RPC_NOTIFICATION);
    assert_string_equal(m.method, "error");
    assert_int_equal(qpc_map_get(&m.params, "code")->i, QPC_ERR_MALFORMED);
    qpc_rpc_message_fini(&m);
    expect_closed(f); // our side is shut; what else comes is thrown away until the client closes
    assert_int_equal(f->server->session_count, 1);
    send_bytes(f, never, sizeof never);
    pump(f);
    qpc_session_tick(f->server->sessions, (int64_t)uv_hrtime() + INT64_C(2000000000));
    assert_int_equal(f->server->session_count, 0);
}

static void three_malformed_requests_are_enough(void **state) {
    fixture *f = *state;
    const uint8_t three_elements[] = {0x93, 0x00, 0x05, 0xa1, 'x'};
    for (int i = 0; i < 5; i++) send_bytes(f, three_elements, sizeof three_elements);
    pump(f);
    for (int i = 0; i < 3; i++) expect_error(f, 5, QPC_ERR_MALFORMED);
    expect_closed(f);
}

static void notifications_are_never_answered(void **state) {
    fixture *f = *state;
    qpc_buffer out = {0};
    qpc_value params = qpc_map();
    qpc_map_set(&params, "nonsense", qpc_int(1));
    qpc_rpc_notify("no_such_method", &params, false, &out, NULL);
    qpc_rpc_notify("world.control", &params, false, &out, NULL);
    qpc_rpc_notify("world.list", NULL, false, &out, NULL);
    qpc_rpc_request(9, "x", NULL, false, &out, NULL);
    send_bytes(f, out.data, out.size);
    pump(f);
    expect_error(f, 9, QPC_ERR_UNKNOWN_METHOD);
    take_in(f);
    assert_int_equal(f->in.size, 0);
    qpc_buffer_fini(&out);
    qpc_value_fini(&params);
}

static void a_large_message_is_decoded_apart_and_keeps_its_place(void **state) {
    fixture *f = *state;
    static char text[100000];
    memset(text, 'x', sizeof text);
    qpc_value params = qpc_map();
    qpc_map_set(&params, "text", qpc_str_borrow(text, sizeof text));
    qpc_buffer out = {0};
    qpc_rpc_request(1, "small", NULL, false, &out, NULL);
    qpc_rpc_request(2, "large", &params, false, &out, NULL);
    qpc_rpc_request(3, "small", NULL, false, &out, NULL);
    qpc_rpc_request(4, "large", &params, false, &out, NULL);
    qpc_rpc_request(5, "small", NULL, false, &out, NULL);
    send_bytes(f, out.data, out.size);
    for (int i = 0; i < 5; i++) {
        uv_run(&f->server->loop, UV_RUN_NOWAIT);
        qpc_server_flush(f->server);
    }
    expect_error(f, 1, QPC_ERR_UNKNOWN_METHOD);
    // Nothing goes past it while it is on its way through a worker.
    assert_true(f->server->sessions->decoding);
    take_in(f);
    assert_int_equal(f->in.size, 0);
    pump(f);
    for (uint32_t id = 2; id <= 5; id++) expect_error(f, id, QPC_ERR_UNKNOWN_METHOD);
    qpc_buffer_fini(&out);
    qpc_value_fini(&params);
}

static void a_reader_that_sleeps_is_not_read_until_it_wakes(void **state) {
    fixture *f = *state;
    f->server->options.max_queued_bytes = 64 << 10;
    qpc_buffer out = {0};
    for (uint32_t id = 0; id < 3000; id++) qpc_rpc_request(id, "x", NULL, false, &out, NULL);
    size_t at = 0;
    bool was_held = false;
    // The client writes until nothing goes any more.
    for (int i = 0; i < 200 && at < out.size; i++) {
        ssize_t sent = send(f->client, out.data + at, out.size - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) at += (size_t)sent;
        pump(f);
        was_held = was_held || f->server->sessions->held_back;
        assert_true(qpc_session_queued(f->server->sessions) <= 64 << 10);
    }
    assert_true(was_held);
    for (uint32_t id = 0; id < 3000; id++) {
        qpc_rpc_message m;
        while (!next_message(f, &m)) {
            if (at < out.size) {
                ssize_t sent =
                    send(f->client, out.data + at, out.size - at, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (sent > 0) at += (size_t)sent;
            }
            pump(f);
        }
        assert_int_equal(m.id, id);
        qpc_rpc_message_fini(&m);
    }
    assert_int_equal(atomic_load(&f->server->counters.sessions_slow), 0);
    qpc_buffer_fini(&out);
}

static void half_a_message_times_out(void **state) {
    fixture *f = *state;
    qpc_rpc_message m;
    int64_t second = INT64_C(1000000000);
    send_bytes(f, "\x94", 1);
    pump(f);
    int64_t now = (int64_t)uv_hrtime();
    qpc_session_tick(f->server->sessions, now + 29 * second);
    assert_int_equal(f->server->sessions->state, QPC_SESSION_OPEN);
    qpc_session_tick(f->server->sessions, now + 31 * second);
    pump(f);
    assert_true(next_message(f, &m));
    assert_int_equal(qpc_map_get(&m.params, "code")->i, QPC_ERR_DEADLINE);
    qpc_rpc_message_fini(&m);
    expect_closed(f);
}

static void input_beyond_the_budget_is_refused(void **state) {
    fixture *f = *state;
    qpc_rpc_message m;
    f->server->options.max_session_bytes = 100000;
    const uint8_t bin_of_a_million[] = {0x94, 0, 1, 0xa1, 'x', 0x91, 0xc6, 0, 15, 66, 64};
    static uint8_t zeros[100000];
    send_bytes(f, bin_of_a_million, sizeof bin_of_a_million);
    for (int i = 0; i < 3; i++) {
        send(f->client, zeros, sizeof zeros, MSG_NOSIGNAL | MSG_DONTWAIT);
        pump(f);
    }
    assert_true(next_message(f, &m));
    assert_int_equal(qpc_map_get(&m.params, "code")->i, QPC_ERR_LIMIT);
    assert_non_null(strstr(qpc_map_get(&m.params, "message")->str.bytes, "--max-session-bytes"));
    qpc_rpc_message_fini(&m);
    expect_closed(f);
}

static void decoded_elements_count_against_the_budget(void **state) {
    fixture *f = *state;
    qpc_rpc_message m;
    f->server->options.max_session_bytes = 2 << 20;
    // 60,000 small integers: 60 kB on the wire, far more as values.
    static uint8_t message[60016] = {0x94, 0, 1, 0xa1, 'x', 0x91, 0x81, 0xa1, 'l', 0xdc, 0xea, 0x60};
    send_bytes(f, message, 12 + 60000);
    pump(f);
    assert_true(next_message(f, &m));
    assert_int_equal(m.type, QPC_RPC_NOTIFICATION);
    assert_int_equal(qpc_map_get(&m.params, "code")->i, QPC_ERR_LIMIT);
    qpc_rpc_message_fini(&m);
    expect_closed(f);
}

static uint64_t create_world(fixture *f) {
    qpc_value params = qpc_map();
    qpc_map_set(&params, "scene", qpc_map());
    send_request(f, 1, "world.create", &params);
    qpc_value_fini(&params);
    pump(f);
    qpc_rpc_message m;
    assert_true(next_message(f, &m));
    assert_int_equal(m.error.kind, QPC_NIL);
    uint64_t id = qpc_map_get(&m.result, "world")->u;
    qpc_rpc_message_fini(&m);
    return id;
}

static void worlds_answer_through_the_session(void **state) {
    fixture *f = *state;
    qpc_value params = qpc_map();
    qpc_map_set(&params, "world", qpc_uint(create_world(f)));
    send_request(f, 2, "world.step", &params);
    send_request(f, 3, "world.state", &params);
    pump(f);
    for (uint32_t i = 0; i < 2; i++) {
        qpc_rpc_message m;
        assert_true(next_message(f, &m));
        assert_int_equal(m.error.kind, QPC_NIL);
        qpc_rpc_message_fini(&m);
    }
    qpc_value_fini(&params);
}

static void a_session_that_goes_leaves_its_batch_running(void **state) {
    fixture *f = *state;
    qpc_value params = qpc_map();
    qpc_map_set(&params, "world", qpc_uint(create_world(f)));
    qpc_map_set(&params, "n", qpc_int(50));
    send_request(f, 2, "world.step", &params);
    uv_run(&f->server->loop, UV_RUN_NOWAIT); // read and queued, not run
    assert_int_equal(f->server->in_flight, 1);
    close(f->client);
    for (int i = 0; i < 5; i++) uv_run(&f->server->loop, UV_RUN_NOWAIT);
    assert_int_equal(f->server->in_flight, 1);
    pump(f);
    assert_int_equal(f->server->in_flight, 0);
    assert_int_equal(atomic_load(&f->server->counters.steps), 50);
    f->client = dup(0); // for the tear-down
    qpc_value_fini(&params);
}

static void failing_memory_costs_a_reply_or_the_session_no_more(void **state) {
    fixture *f = *state;
    qpc_value params = qpc_map();
    qpc_map_set(&params, "world", qpc_uint(create_world(f)));
    const char *methods[] = {"world.step", "world.state", "world.list", "hello", "x",
                             "world.subscribe"};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        const qpc_value *p = i < 2 || i == 5 ? &params : NULL;
        for (uint64_t nth = 1;; nth++) {
            qpc_buffer out = request_of(4, methods[i], p);
            send_bytes(f, out.data, out.size);
            qpc_mem_fail_at(nth, nth % 2 == 0);
            pump(f);
            bool failed = qpc_mem_failed();
            qpc_mem_fail_at(0, false);
            qpc_buffer_fini(&out);
            qpc_rpc_message m;
            bool answered = next_message(f, &m);
            if (answered) {
                assert_int_equal(m.id, 4);
                qpc_rpc_message_fini(&m);
            } else {
                take_in(f);
                assert_true(failed && f->closed);
                close(f->client);
                pump(f);
                dial(f);
            }
            if (!failed) break;
            assert_true(nth < 500);
            // Anew, so that subscriptions do not pile up.
            if (i == 5 && !f->closed) {
                close(f->client);
                pump(f);
                dial(f);
            }
        }
    }
    qpc_value_fini(&params);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_request_split_anywhere_is_answered_once),
        TEST(two_and_a_half_requests_in_one_write),
        TEST(a_half_closed_session_gets_its_replies),
        TEST(bytes_that_are_no_messages_end_the_session),
        TEST(three_malformed_requests_are_enough),
        TEST(notifications_are_never_answered),
        TEST(a_large_message_is_decoded_apart_and_keeps_its_place),
        TEST(a_reader_that_sleeps_is_not_read_until_it_wakes),
        TEST(half_a_message_times_out),
        TEST(input_beyond_the_budget_is_refused),
        TEST(decoded_elements_count_against_the_budget),
        TEST(worlds_answer_through_the_session),
        TEST(a_session_that_goes_leaves_its_batch_running),
        TEST(failing_memory_costs_a_reply_or_the_session_no_more),
    };
    signal(SIGPIPE, SIG_IGN); // as the server does
    return cmocka_run_group_tests(tests, NULL, NULL);
}
