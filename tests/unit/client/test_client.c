/// libqpc against a scripted server in a thread: matching of replies, kept notifications,
/// time-outs, broken connections, uploads, allocation failures.
#include "tests/support/check.h"

#include "base/hash.h"
#include "client/libqpc/qpc.h"
#include "protocol/rpc.h"
#include "protocol/scan.h"
#include "tests/support/faults.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

// ---- the scripted server ----

typedef struct server {
    char folder[40], path[60], address[70];
    int listener;
    pthread_t thread;
    void (*script)(struct server *s, int fd); // run for each connection, one after the other
    void *user;
    // Bytes of the connection; plain malloc, so that fault injection counts the client alone.
    uint8_t *in;
    size_t in_size, in_capacity;
} server;

static void *serve(void *arg) {
    server *s = arg;
    for (;;) {
        int fd = accept(s->listener, NULL, NULL);
        if (fd < 0) return NULL;
        s->in_size = 0;
        s->script(s, fd);
        close(fd);
    }
}

static void start(server *s, void (*script)(server *s, int fd), void *user) {
    *s = (server){.script = script, .user = user};
    strcpy(s->folder, "/tmp/qpc-client-XXXXXX");
    assert_non_null(mkdtemp(s->folder));
    snprintf(s->path, sizeof s->path, "%s/s", s->folder);
    snprintf(s->address, sizeof s->address, "unix:%s", s->path);
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    snprintf(where.sun_path, sizeof where.sun_path, "%s", s->path);
    s->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(s->listener, (struct sockaddr *)&where, sizeof where), 0);
    assert_int_equal(listen(s->listener, 8), 0);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void stop(server *s) {
    shutdown(s->listener, SHUT_RDWR); // ends accept
    pthread_join(s->thread, NULL);
    close(s->listener);
    unlink(s->path);
    rmdir(s->folder);
    free(s->in);
}

static bool write_all(int fd, const void *bytes, size_t size) {
    const char *p = bytes;
    while (size > 0) {
        ssize_t n = send(fd, p, size, MSG_NOSIGNAL);
        if (n <= 0) return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

/// Size of the next whole message in s->in; 0 when the client has gone.
static size_t next_message(server *s, int fd) {
    qpc_scanner scanner = {0};
    qpc_scan_limits limits = qpc_scan_limits_default();
    for (;;) {
        size_t size = 0;
        if (s->in_size > 0 &&
            qpc_scan(&scanner, s->in, s->in_size, &limits, &size, NULL) == QPC_SCAN_WHOLE)
            return size;
        if (s->in_capacity - s->in_size < 65536) {
            s->in_capacity = 2 * s->in_capacity + 65536;
            s->in = realloc(s->in, s->in_capacity);
        }
        ssize_t n = recv(fd, s->in + s->in_size, s->in_capacity - s->in_size, 0);
        if (n <= 0) return 0;
        s->in_size += (size_t)n;
    }
}

static void take(server *s, size_t size) {
    s->in_size -= size;
    memmove(s->in, s->in + size, s->in_size);
}

/// Id of a request without decoding it: [0, id, ...].
static uint32_t id_of(const uint8_t *m) {
    if (m[2] < 0x80) return m[2];
    if (m[2] == 0xcc) return m[3];
    if (m[2] == 0xcd) return (uint32_t)m[3] << 8 | m[4];
    return (uint32_t)m[3] << 24 | (uint32_t)m[4] << 16 | (uint32_t)m[5] << 8 | m[6];
}

static bool has(const uint8_t *m, size_t size, const char *text) {
    return memmem(m, size, text, strlen(text)) != NULL;
}

/// [1, id, nil, {"n": n}]
static bool reply_small(int fd, uint32_t id, uint8_t n) {
    const uint8_t m[] = {0x94,
                         1,
                         0xce,
                         (uint8_t)(id >> 24),
                         (uint8_t)(id >> 16),
                         (uint8_t)(id >> 8),
                         (uint8_t)id,
                         0xc0,
                         0x81,
                         0xa1,
                         'n',
                         n};
    return write_all(fd, m, sizeof m);
}

/// [2, "tick", [{"n": n}]]
static bool notify_small(int fd, uint8_t n) {
    const uint8_t m[] = {0x93, 2, 0xa4, 't', 'i', 'c', 'k', 0x91, 0x81, 0xa1, 'n', n};
    return write_all(fd, m, sizeof m);
}

static void answer_all(server *s, int fd) {
    size_t size;
    uint8_t n = 0;
    while ((size = next_message(s, fd)) > 0) {
        reply_small(fd, id_of(s->in), n++);
        take(s, size);
    }
}

static qpc_client *open_client(const server *s, const qpc_connect_options *options) {
    qpc_client *client;
    qpc_error err = {0};
    assert_ok(qpc_client_connect(s->address, options, &client, &err), &err);
    return client;
}

static int64_t number(const qpc_message *m) {
    int64_t n = -1;
    qpc_error err = {0};
    assert_ok(qpc_read_int(qpc_map_get(m->value, "n"), "n", 0, 255, &n, &err), &err);
    return n;
}

// ---- calls ----

static void calls_get_their_answers(void **state) {
    (void)state;
    server s;
    start(&s, answer_all, NULL);
    qpc_client *client = open_client(&s, NULL);
    qpc_error err = {0};
    for (int i = 0; i < 100; i++) { // beyond 127 the reply's number would be another byte
        qpc_message m;
        assert_ok(qpc_call(client, "x", NULL, &m, &err), &err);
        assert_int_equal(number(&m), i);
        qpc_message_fini(&m);
    }
    assert_ok(qpc_call(client, "x", NULL, NULL, &err), &err);
    qpc_client_close(client);
    stop(&s);
}

/// Answers pairs of requests in reverse, with a notification in between.
static void answer_in_reverse(server *s, int fd) {
    size_t size;
    while ((size = next_message(s, fd)) > 0) {
        uint32_t first = id_of(s->in);
        take(s, size);
        if ((size = next_message(s, fd)) == 0) return;
        uint32_t second = id_of(s->in);
        take(s, size);
        reply_small(fd, second, 2);
        notify_small(fd, 9);
        reply_small(fd, first, 1);
    }
}

static void replies_are_matched_by_id(void **state) {
    (void)state;
    server s;
    start(&s, answer_in_reverse, NULL);
    qpc_client *client = open_client(&s, NULL);
    qpc_error err = {0};
    uint32_t a, b;
    qpc_message m;
    assert_ok(qpc_send(client, "a", NULL, &a, &err), &err);
    assert_ok(qpc_send(client, "b", NULL, &b, &err), &err);
    assert_int_not_equal(a, b);
    assert_ok(qpc_wait(client, a, 5000, &m, &err), &err);
    assert_int_equal(number(&m), 1);
    qpc_message_fini(&m);
    assert_ok(qpc_wait(client, b, 5000, &m, &err), &err);
    assert_int_equal(number(&m), 2);
    qpc_message_fini(&m);
    assert_fails(qpc_wait(client, b, 1000, &m, &err), QPC_ERR_NOT_FOUND, &err, "not in flight");
    assert_ok(qpc_poll(client, 0, &m, &err), &err);
    assert_int_equal(m.kind, QPC_MESSAGE_NOTIFICATION);
    assert_string_equal(m.method, "tick");
    qpc_message_fini(&m);
    // Polling gives all three in the order they came.
    static const int wanted[] = {2, 9, 1};
    assert_ok(qpc_send(client, "a", NULL, &a, &err), &err);
    assert_ok(qpc_send(client, "b", NULL, &b, &err), &err);
    for (int i = 0; i < 3; i++) {
        struct pollfd p = {.fd = qpc_client_fd(client), .events = POLLIN};
        if (i == 0) assert_int_equal(poll(&p, 1, 5000), 1);
        assert_ok(qpc_poll(client, 5000, &m, &err), &err);
        assert_int_equal(number(&m), wanted[i]);
        if (i == 0) assert_int_equal(m.id, b);
        qpc_message_fini(&m);
    }
    assert_ok(qpc_poll(client, 0, &m, &err), &err);
    assert_int_equal(m.kind, QPC_MESSAGE_NONE);
    // A forgotten reply is dropped.
    assert_ok(qpc_send(client, "a", NULL, &a, &err), &err);
    qpc_forget(client, a);
    assert_ok(qpc_call(client, "b", NULL, &m, &err), &err);
    assert_int_equal(number(&m), 2);
    qpc_message_fini(&m);
    qpc_client_close(client);
    stop(&s);
}

static void answer_every_second(server *s, int fd) {
    size_t size;
    uint32_t held = 0;
    for (int i = 0; (size = next_message(s, fd)) > 0; i++) {
        uint32_t id = id_of(s->in);
        take(s, size);
        if (i % 2 == 0) {
            held = id;
        } else {
            reply_small(fd, held, 1); // late
            reply_small(fd, id, 2);
        }
    }
}

static void late_answers_are_dropped_and_the_connection_goes_on(void **state) {
    (void)state;
    server s;
    start(&s, answer_every_second, NULL);
    qpc_connect_options options = {.timeout_ms = 50};
    qpc_client *client = open_client(&s, &options);
    qpc_error err = {0};
    qpc_message m;
    for (int i = 0; i < 3; i++) {
        qpc_client_set_timeout(client, 50);
        assert_fails(qpc_call(client, "slow", NULL, &m, &err), QPC_ERR_DEADLINE, &err, "slow");
        assert_false(qpc_client_answered(client));
        assert_true(qpc_client_is_open(client));
        qpc_client_set_timeout(client, 5000);
        assert_ok(qpc_call(client, "quick", NULL, &m, &err), &err);
        assert_int_equal(number(&m), 2);
        qpc_message_fini(&m);
    }
    qpc_client_close(client);
    stop(&s);
}

static void answer_with_error(server *s, int fd) {
    size_t size;
    while ((size = next_message(s, fd)) > 0) {
        uint32_t id = id_of(s->in);
        take(s, size);
        qpc_error error = {0};
        qpc_value data = qpc_map();
        qpc_buffer out = {0};
        qpc_fail(&error, QPC_ERR_STATE, "the world is at step 7");
        if (qpc_map_set(&data, "step", qpc_int(7)) != QPC_OK ||
            qpc_rpc_error(id, &error, &data, &out) != QPC_OK)
            return;
        write_all(fd, out.data, out.size);
        qpc_value_fini(&data);
        qpc_buffer_fini(&out);
    }
}

static void errors_of_the_server_come_with_code_message_and_data(void **state) {
    (void)state;
    server s;
    start(&s, answer_with_error, NULL);
    qpc_client *client = open_client(&s, NULL);
    qpc_error err = {0};
    qpc_message m;
    int64_t step;
    assert_fails(qpc_call(client, "world.step", NULL, &m, &err), QPC_ERR_STATE, &err,
                 "the world is at step 7");
    assert_true(qpc_client_answered(client));
    assert_ok(
        qpc_read_int(qpc_map_get(qpc_client_error_data(client), "step"), "step", 0, 9, &step, &err),
        &err);
    assert_int_equal(step, 7);
    uint32_t id;
    assert_ok(qpc_send(client, "world.step", NULL, &id, &err), &err);
    assert_ok(qpc_wait(client, id, 5000, &m, &err), &err);
    assert_int_equal(m.status, QPC_ERR_STATE);
    assert_non_null(qpc_map_get(m.error_data, "step"));
    qpc_message_fini(&m);
    qpc_client_close(client);
    stop(&s);
}

// ---- broken connections ----

static void say_goodbye(server *s, int fd) {
    size_t size = next_message(s, fd);
    if (size == 0) return;
    take(s, size);
    qpc_error error = {0};
    qpc_value map;
    qpc_buffer out = {0};
    qpc_fail(&error, QPC_ERR_LIMIT, "your message is too long");
    if (qpc_error_to_value(&error, NULL, &map) != QPC_OK) return;
    if (qpc_rpc_notify("error", &map, false, &out, NULL) == QPC_OK)
        write_all(fd, out.data, out.size);
    qpc_value_fini(&map);
    qpc_buffer_fini(&out);
}

static void close_at_once(server *s, int fd) {
    (void)next_message(s, fd);
}

static void a_closed_connection_is_an_error_that_says_why(void **state) {
    (void)state;
    server s;
    qpc_error err = {0};
    qpc_message m;
    uint32_t id;
    start(&s, say_goodbye, NULL);
    qpc_client *client = open_client(&s, NULL);
    assert_fails(qpc_call(client, "x", NULL, &m, &err), QPC_ERR_IO, &err,
                 "your message is too long");
    assert_false(qpc_client_is_open(client));
    assert_false(qpc_client_answered(client));
    assert_int_equal(qpc_client_fd(client), -1);
    assert_fails(qpc_call(client, "x", NULL, &m, &err), QPC_ERR_IO, &err, "closed");
    assert_fails(qpc_send(client, "x", NULL, &id, &err), QPC_ERR_IO, &err, "closed");
    // The notification itself is still there.
    assert_ok(qpc_poll(client, 0, &m, &err), &err);
    assert_string_equal(m.method, "error");
    qpc_message_fini(&m);
    assert_fails(qpc_poll(client, 0, &m, &err), QPC_ERR_IO, &err, "closed");
    qpc_client_close(client);
    stop(&s);
    start(&s, close_at_once, NULL);
    client = open_client(&s, NULL);
    assert_fails(qpc_call(client, "x", NULL, &m, &err), QPC_ERR_IO, &err, "closed");
    qpc_client_close(client);
    stop(&s);
}

static void answer_with_bytes(server *s, int fd) {
    size_t size = next_message(s, fd);
    if (size == 0) return;
    write_all(fd, s->user, strlen(s->user));
    take(s, size);
    (void)next_message(s, fd);
}

static void nonsense_ends_the_connection(void **state) {
    (void)state;
    static char never[] = "\xc1", number_alone[] = "\x07", claims[] = "\xdd\xff\xff\xff\xff";
    char *const cases[] = {never, number_alone, claims};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        server s;
        start(&s, answer_with_bytes, cases[i]);
        qpc_client *client = open_client(&s, NULL);
        qpc_error err = {0};
        qpc_message m;
        qpc_status status = qpc_call(client, "x", NULL, &m, &err);
        assert_true(status == QPC_ERR_MALFORMED || status == QPC_ERR_LIMIT);
        assert_false(qpc_client_is_open(client));
        qpc_client_close(client);
        stop(&s);
    }
}

static void nobody_listening_is_told_apart(void **state) {
    (void)state;
    qpc_client *client;
    qpc_error err = {0};
    assert_fails(qpc_client_connect("unix:/tmp/no/such/socket", NULL, &client, &err),
                 QPC_ERR_NOT_FOUND, &err, "/tmp/no/such/socket");
    // Port 1 on loopback: refused.
    assert_fails(qpc_client_connect("127.0.0.1:1", NULL, &client, &err), QPC_ERR_IO, &err,
                 "127.0.0.1:1");
    assert_fails(qpc_client_connect("h:x", NULL, &client, &err), QPC_ERR_INVALID, &err, "port");
}

// ---- notifications ----

static void tick_and_answer(server *s, int fd) {
    size_t size;
    while ((size = next_message(s, fd)) > 0) {
        uint32_t id = id_of(s->in);
        for (int i = 0; i < 10; i++) notify_small(fd, (uint8_t)i);
        reply_small(fd, id, 77);
        take(s, size);
    }
}

static void notifications_are_kept_within_their_bound(void **state) {
    (void)state;
    server s;
    start(&s, tick_and_answer, NULL);
    qpc_connect_options options = {.max_kept = 4};
    qpc_client *client = open_client(&s, &options);
    qpc_error err = {0};
    qpc_message m;
    assert_ok(qpc_call(client, "x", NULL, &m, &err), &err);
    assert_int_equal(number(&m), 77);
    qpc_message_fini(&m);
    assert_int_equal(qpc_client_dropped(client), 6);
    for (int i = 6; i < 10; i++) {
        assert_ok(qpc_poll(client, 0, &m, &err), &err);
        assert_int_equal(number(&m), i);
        qpc_message_fini(&m);
    }
    qpc_client_close(client);
    stop(&s);
}

/// [2, "frame", [{subscription, world, step, time, hash, dropped, positions}]]
static void send_frame(int fd, uint64_t subscription, int64_t step) {
    const double x[6] = {1, 2, 3, 4, 5, (double)step};
    const int64_t shape[2] = {2, 3};
    qpc_value map = qpc_map();
    qpc_buffer out = {0};
    if (qpc_map_set(&map, "subscription", qpc_uint(subscription)) == QPC_OK &&
        qpc_map_set(&map, "world", qpc_uint(5)) == QPC_OK &&
        qpc_map_set(&map, "step", qpc_int(step)) == QPC_OK &&
        qpc_map_set(&map, "time", qpc_real(0.5)) == QPC_OK &&
        qpc_map_set(&map, "hash", qpc_uint(UINT64_MAX)) == QPC_OK &&
        qpc_map_set(&map, "dropped", qpc_int(3)) == QPC_OK &&
        qpc_map_set(&map, "positions", qpc_tensor_borrow(QPC_F64, 2, shape, x)) == QPC_OK &&
        qpc_rpc_notify("frame", &map, false, &out, NULL) == QPC_OK)
        write_all(fd, out.data, out.size);
    qpc_value_fini(&map);
    qpc_buffer_fini(&out);
}

static void stream_frames(server *s, int fd) {
    for (int i = 0; i < 3; i++) {
        send_frame(fd, 1, i);
        send_frame(fd, 2, 100 + i);
    }
    answer_all(s, fd);
}

static void frames_are_taken_by_subscription(void **state) {
    (void)state;
    server s;
    start(&s, stream_frames, NULL);
    qpc_client *client = open_client(&s, NULL);
    qpc_error err = {0};
    qpc_frame frame;
    for (int i = 0; i < 3; i++) {
        assert_ok(qpc_client_next_frame(client, 2, 5000, &frame, &err), &err);
        assert_int_equal(frame.step, 100 + i);
        assert_int_equal(frame.dropped, 3);
        assert_true(frame.hash == UINT64_MAX);
        assert_non_null(frame.positions);
        double last;
        memcpy(&last, (const char *)frame.positions->data + 40, sizeof last);
        assert_near(last, 100 + i, 0);
        qpc_message_fini(&frame.message);
    }
    for (int i = 0; i < 3; i++) {
        assert_ok(qpc_client_next_frame(client, 0, 5000, &frame, &err), &err);
        assert_int_equal(frame.step, i);
        qpc_message_fini(&frame.message);
    }
    assert_ok(qpc_client_next_frame(client, 0, 20, &frame, &err), &err);
    assert_int_equal(frame.message.kind, QPC_MESSAGE_NONE);
    qpc_client_close(client);
    stop(&s);
}

// ---- large messages ----

enum { LARGE = 6 << 20 };

/// Writes much before it reads anything: a client that only writes would wait for ever.
static void write_before_reading(server *s, int fd) {
    uint8_t *m = calloc(1, LARGE + 32);
    const uint8_t head[] = {0x93,
                            2,
                            0xa4,
                            'b',
                            'u',
                            'l',
                            'k',
                            0x91,
                            0x81,
                            0xa1,
                            'd',
                            0xc6,
                            LARGE >> 24,
                            (LARGE >> 16) & 255,
                            (LARGE >> 8) & 255,
                            LARGE & 255};
    memcpy(m, head, sizeof head);
    m[sizeof head + LARGE - 1] = 0x5a;
    write_all(fd, m, sizeof head + LARGE);
    free(m);
    answer_all(s, fd);
}

static void large_messages_pass_in_both_directions_at_once(void **state) {
    (void)state;
    server s;
    start(&s, write_before_reading, NULL);
    qpc_client *client = open_client(&s, NULL);
    qpc_error err = {0};
    qpc_message m;
    uint8_t *bytes = calloc(1, LARGE);
    qpc_value params = qpc_map();
    assert_int_equal(qpc_map_set(&params, "data", qpc_bin_borrow(bytes, LARGE)), QPC_OK);
    assert_ok(qpc_call(client, "x", &params, &m, &err), &err);
    qpc_message_fini(&m);
    qpc_value_fini(&params);
    free(bytes);
    assert_ok(qpc_poll(client, 0, &m, &err), &err);
    const qpc_value *d = qpc_map_get(m.value, "d");
    assert_int_equal(d->kind, QPC_BIN);
    assert_int_equal(d->str.size, LARGE);
    assert_int_equal((unsigned char)d->str.bytes[LARGE - 1], 0x5a);
    qpc_message_fini(&m);
    qpc_client_close(client);
    stop(&s);
}

// ---- uploads ----

typedef struct upload {
    bool known;
    int messages;
    size_t received;
    uint8_t *bytes;
    char sha256[65];
} upload;

static void reply_value(int fd, uint32_t id, qpc_value *result) {
    qpc_buffer out = {0};
    if (qpc_rpc_result(id, result, false, &out, NULL) == QPC_OK) write_all(fd, out.data, out.size);
    qpc_buffer_fini(&out);
    qpc_value_fini(result);
}

/// mesh.list with one mesh if u->known, and chunks of mesh.upload put together.
static void take_upload(server *s, int fd) {
    upload *u = s->user;
    size_t size;
    while ((size = next_message(s, fd)) > 0) {
        qpc_rpc_message m;
        qpc_error err = {0};
        if (qpc_rpc_parse(s->in, size, &m, &err) != QPC_OK) return;
        qpc_value result = qpc_map();
        if (has(s->in, 20, "mesh.list")) {
            qpc_value list = qpc_list(), entry = qpc_map();
            if (u->known && qpc_map_set(&entry, "sha256", qpc_text_borrow(u->sha256)) == QPC_OK)
                (void)qpc_list_push(&list, entry);
            (void)qpc_map_set(&result, "meshes", list);
        } else {
            const qpc_value *data = qpc_map_get(&m.params, "data");
            int64_t offset = -1, total = 0;
            qpc_read_int(qpc_map_get(&m.params, "offset"), "offset", 0, INT64_MAX, &offset, NULL);
            qpc_read_int(qpc_map_get(&m.params, "size"), "size", 0, INT64_MAX, &total, NULL);
            if (data == NULL || (size_t)offset != u->received) return;
            u->messages++;
            u->bytes = realloc(u->bytes, u->received + data->str.size);
            memcpy(u->bytes + u->received, data->str.bytes, data->str.size);
            u->received += data->str.size;
            (void)qpc_map_set(&result, "received", qpc_uint(u->received));
            bool complete = u->received == (size_t)total;
            (void)qpc_map_set(&result, "complete", qpc_bool(complete));
            if (complete) {
                uint8_t hash[32];
                qpc_sha256_of(u->bytes, u->received, hash, NULL);
                qpc_hex_encode(hash, 32, u->sha256);
                (void)qpc_map_set(&result, "sha256", qpc_text_borrow(u->sha256));
            }
        }
        reply_value(fd, m.id, &result);
        qpc_rpc_message_fini(&m);
        take(s, size);
    }
}

static void count_progress(void *user, uint64_t sent, uint64_t total) {
    int *calls = user;
    assert_true(sent <= total);
    ++*calls;
}

static void large_meshes_go_in_chunks_and_known_ones_not_at_all(void **state) {
    (void)state;
    upload u = {0};
    server s;
    start(&s, take_upload, &u);
    qpc_client *client = open_client(&s, NULL);
    qpc_error err = {0};
    enum { N = 400000 };
    double *x = calloc(3 * N, sizeof *x);
    const int32_t e[3] = {0, 1, 2};
    x[3] = x[7] = 1;
    x[0] = -0.0;
    int calls = 0;
    qpc_mesh_source mesh = {.vertices = x,
                            .elements = e,
                            .vertex_count = N,
                            .element_count = 1,
                            .nodes_per_element = 3,
                            .progress = count_progress,
                            .user = &calls};
    qpc_mesh_receipt receipt;
    assert_ok(qpc_client_mesh_upload(client, &mesh, &receipt, &err), &err);
    assert_int_equal(receipt.bytes, 24 + 24 * N + 12);
    assert_int_equal(u.received, receipt.bytes);
    assert_int_equal(u.messages, 3);
    assert_int_equal(calls, 3);
    assert_false(receipt.known);
    assert_string_equal(receipt.sha256, u.sha256);
    assert_int_equal(u.bytes[24 + 7], 0); // -0 is sent as 0
    qpc_message_fini(&receipt.message);
    u.known = true;
    assert_ok(qpc_client_mesh_upload(client, &mesh, &receipt, &err), &err);
    assert_true(receipt.known);
    assert_int_equal(u.messages, 3);
    assert_null(receipt.message.memory);
    mesh.element_count = 0;
    assert_fails(qpc_client_mesh_upload(client, &mesh, &receipt, &err), QPC_ERR_INVALID, &err,
                 "elements");
    qpc_client_close(client);
    stop(&s);
    free(x);
    free(u.bytes);
}

// ---- interruption ----

static bool say_yes(void *user) {
    ++*(int *)user;
    return true;
}

static void do_nothing(int number) {
    (void)number;
}

static void never_answer(server *s, int fd) {
    (void)next_message(s, fd);
    s->in_size = 0;
    (void)next_message(s, fd); // until the client closes
}

static void a_signal_ends_waiting_if_the_caller_says_so(void **state) {
    (void)state;
    server s;
    start(&s, never_answer, NULL);
    int asked = 0;
    qpc_connect_options options = {.timeout_ms = -1, .interrupted = say_yes, .user = &asked};
    qpc_client *client = open_client(&s, &options);
    qpc_error err = {0};
    struct sigaction action = {.sa_handler = do_nothing}, old;
    sigaction(SIGALRM, &action, &old);
    struct itimerval soon = {.it_value.tv_usec = 20000, .it_interval.tv_usec = 20000}, off = {0};
    setitimer(ITIMER_REAL, &soon, NULL);
    // The thread of the server takes the signal too: a few of them reach this one.
    assert_fails(qpc_call(client, "x", NULL, NULL, &err), QPC_ERR_CANCELLED, &err, "interrupted");
    setitimer(ITIMER_REAL, &off, NULL);
    sigaction(SIGALRM, &old, NULL);
    assert_true(asked >= 1);
    assert_true(qpc_client_is_open(client));
    qpc_client_close(client);
    stop(&s);
}

// ---- memory ----

static void allocation_failures_leak_nothing(void **state) {
    (void)state;
    server s;
    start(&s, tick_and_answer, NULL); // takes no memory of ours
    QPC_FAULTS(f) {
        qpc_client *client = NULL;
        qpc_error err = {0};
        qpc_message m = {0};
        qpc_value params = qpc_map();
        qpc_status status = qpc_client_connect(s.address, NULL, &client, &err);
        if (status == QPC_OK) status = qpc_map_set(&params, "a", qpc_int(1));
        if (status == QPC_OK) status = qpc_call(client, "x", &params, &m, &err);
        if (status == QPC_OK) {
            qpc_message_fini(&m);
            status = qpc_poll(client, 1000, &m, &err);
        }
        qpc_faults_ended(&f, status);
        qpc_message_fini(&m);
        qpc_value_fini(&params);
        qpc_client_close(client);
    }
    stop(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_get_their_answers),
        cmocka_unit_test(replies_are_matched_by_id),
        cmocka_unit_test(late_answers_are_dropped_and_the_connection_goes_on),
        cmocka_unit_test(errors_of_the_server_come_with_code_message_and_data),
        cmocka_unit_test(a_closed_connection_is_an_error_that_says_why),
        cmocka_unit_test(nonsense_ends_the_connection),
        cmocka_unit_test(nobody_listening_is_told_apart),
        cmocka_unit_test(notifications_are_kept_within_their_bound),
        cmocka_unit_test(frames_are_taken_by_subscription),
        cmocka_unit_test(large_messages_pass_in_both_directions_at_once),
        cmocka_unit_test(large_meshes_go_in_chunks_and_known_ones_not_at_all),
        cmocka_unit_test(a_signal_ends_waiting_if_the_caller_says_so),
        cmocka_unit_test(allocation_failures_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
