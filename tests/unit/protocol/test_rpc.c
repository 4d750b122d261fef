/// Envelopes: the case files about ids, method names and malformed messages, writing, errors,
/// faults.
#include "tests/unit/protocol/support.h"

#include "protocol/methods.h"
#include "protocol/rpc.h"
#include "protocol/scan.h"
#include "protocol/text.h"
#include "tests/support/faults.h"

/// What must come of the one message of a case file.
typedef struct expectation {
    const char *file;
    qpc_status status;
    bool has_id;
    uint32_t id;
    const char *method; // NULL: not looked at
    bool known_text;
} expectation;

/// Runs the scan as a server does, then parses. The bytes are a copy of exactly their size.
static qpc_status parse_copy(const uint8_t *bytes, size_t size, uint8_t **ret_bytes,
                             size_t *ret_size, qpc_rpc_message *ret, qpc_error *err) {
    qpc_scan_limits limits = qpc_scan_limits_default();
    qpc_scanner scanner = {0};
    if (qpc_scan(&scanner, bytes, size, &limits, ret_size, err) != QPC_SCAN_WHOLE)
        fail_msg("not whole: %s", err->message);
    *ret_bytes = malloc(*ret_size);
    assert_non_null(*ret_bytes);
    memcpy(*ret_bytes, bytes, *ret_size);
    return qpc_rpc_parse(*ret_bytes, *ret_size, ret, err);
}

static void expect(const expectation *e, const uint8_t *bytes, size_t size) {
    qpc_rpc_message m;
    qpc_error err = {0};
    uint8_t *copy = NULL;
    size_t used = 0;
    qpc_status status = parse_copy(bytes, size, &copy, &used, &m, &err);
    if (used != size) fail_msg("%s: %zu of %zu bytes", e->file, used, size);
    if (status != e->status)
        fail_msg("%s: %s (%s), want %s", e->file, qpc_status_name(status), err.message,
                 qpc_status_name(e->status));
    if (m.has_id != e->has_id || (e->has_id && m.id != e->id))
        fail_msg("%s: id %d %u, want %d %u", e->file, m.has_id, m.id, e->has_id, e->id);
    if (e->method != NULL) {
        assert_string_equal(m.method, e->method);
        assert_int_equal(m.method_known_text, e->known_text);
    }
    if (status == QPC_OK) assert_int_equal(m.params.kind, QPC_MAP);
    if (status != QPC_OK) assert_true(err.message[0] != '\0' && err.status == status);
    qpc_rpc_message_fini(&m);
    free(copy);
}

static void run_cases(const expectation *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t size = 0;
        uint8_t *bytes = read_case(cases[i].file, &size);
        expect(&cases[i], bytes, size);
        free(bytes);
    }
}

#define RUN(cases) run_cases((cases), sizeof(cases) / sizeof(cases)[0])
#define NAME "no_such_method"

static void ids_have_any_integer_width_and_32_bits(void **state) {
    (void)state;
    static const expectation cases[] = {
        {"P07a-msgid-zero-fixint.bin", QPC_OK, true, 0, NAME, true},
        {"P07b-msgid-zero-uint8.bin", QPC_OK, true, 0, NAME, true},
        {"P07c-msgid-zero-uint16.bin", QPC_OK, true, 0, NAME, true},
        {"P07d-msgid-zero-uint32.bin", QPC_OK, true, 0, NAME, true},
        {"P07e-msgid-zero-uint64.bin", QPC_OK, true, 0, NAME, true},
        {"P07f-msgid-seven-int8.bin", QPC_OK, true, 7, NAME, true},
        {"P07g-msgid-seven-int16.bin", QPC_OK, true, 7, NAME, true},
        {"P07h-msgid-seven-int32.bin", QPC_OK, true, 7, NAME, true},
        {"P07i-msgid-seven-int64.bin", QPC_OK, true, 7, NAME, true},
        {"P07j-msgid-max-uint32.bin", QPC_OK, true, UINT32_MAX, NAME, true},
        {"P07k-msgid-max-uint64form.bin", QPC_OK, true, UINT32_MAX, NAME, true},
        {"P07l-msgid-over-32-bit.bin", QPC_ERR_MALFORMED, false, 0, NULL, false},
        {"P07m-msgid-minus-one.bin", QPC_ERR_MALFORMED, false, 0, NULL, false},
        {"P07n-msgid-float.bin", QPC_ERR_MALFORMED, false, 0, NULL, false},
        {"P07o-msgid-string.bin", QPC_ERR_MALFORMED, false, 0, NULL, false},
        {"P06-split-request.bin", QPC_OK, true, 70000, "split_across_many_reads", true},
    };
    RUN(cases);
    // Negative in every width.
    static const char *const negative[] = {
        "9400 d0ff a0 90",
        "9400 d1ffff a0 90",
        "9400 d2ffffffff a0 90",
        "9400 d3ffffffffffffffff a0 90",
        "9400 d38000000000000000 a0 90",
        "9400 cfffffffffffffffff a0 90",
    };
    for (size_t i = 0; i < sizeof negative / sizeof negative[0]; i++) {
        uint8_t bytes[32];
        size_t size = from_hex(negative[i], bytes, sizeof bytes);
        expect(&(expectation){negative[i], QPC_ERR_MALFORMED, false, 0, NULL, false}, bytes, size);
    }
}

static void odd_method_names_are_unknown_ones_and_keep_the_id(void **state) {
    (void)state;
    static const expectation cases[] = {
        {"P08a-method-bin8.bin", QPC_OK, true, 20, NAME, false},
        {"P08b-method-str8-not-shortest.bin", QPC_OK, true, 21, NAME, true},
        {"P08c-method-str16-not-shortest.bin", QPC_OK, true, 22, NAME, true},
        {"P08d-method-str32-not-shortest.bin", QPC_OK, true, 23, NAME, true},
        {"P08e-method-empty.bin", QPC_OK, true, 24, "", false},
        {"P08f-method-with-zero-byte.bin", QPC_OK, true, 25, "no_such?method", false},
        {"P08g-method-bad-utf8.bin", QPC_OK, true, 26, "no???", false},
    };
    RUN(cases);

    // 70000 bytes, as in P08h.
    enum { LENGTH = 70000 };
    uint8_t *bytes = malloc(LENGTH + 9);
    assert_non_null(bytes);
    memcpy(bytes, "\x94\x00\x1b\xdb\x00\x01\x11\x70", 8);
    memset(bytes + 8, 'm', LENGTH);
    bytes[8 + LENGTH] = 0x90;
    expect(&(expectation){"P08h", QPC_OK, true, 27, NULL, false}, bytes, LENGTH + 9);
    qpc_rpc_message m;
    qpc_error err = {0};
    assert_ok(qpc_rpc_parse(bytes, LENGTH + 9, &m, &err), &err);
    assert_false(m.method_known_text);
    assert_int_equal(strlen(m.method), sizeof m.method - 1);

    // What a server answers is short, and text.
    qpc_method method = QPC_METHOD_COUNT;
    qpc_buffer out = {0};
    assert_fails(qpc_method_resolve(m.method, m.method_known_text, &method, &err),
                 QPC_ERR_UNKNOWN_METHOD, &err, "mmm");
    assert_int_equal(qpc_rpc_error(m.id, &err, NULL, &out), QPC_OK);
    assert_true(out.size < 4096);
    qpc_rpc_message answer;
    assert_ok(qpc_rpc_parse(out.data, out.size, &answer, &err), &err);
    assert_int_equal(answer.id, 27);
    qpc_rpc_message_fini(&answer);
    qpc_buffer_fini(&out);
    qpc_rpc_message_fini(&m);
    free(bytes);
}

static void a_known_name_in_a_wrong_form_is_unknown(void **state) {
    (void)state;
    uint8_t bytes[32];
    size_t size = from_hex("94 00 01 c405 68656c6c6f 90", bytes, sizeof bytes); // bin "hello"
    qpc_rpc_message m;
    qpc_error err = {0};
    qpc_method method = QPC_METHOD_COUNT;
    assert_ok(qpc_rpc_parse(bytes, size, &m, &err), &err);
    assert_string_equal(m.method, "hello");
    assert_fails(qpc_method_resolve(m.method, m.method_known_text, &method, &err),
                 QPC_ERR_UNKNOWN_METHOD, &err, "names are str");
    qpc_rpc_message_fini(&m);
}

static void malformed_messages_give_their_id_if_they_have_one(void **state) {
    (void)state;
    static const expectation cases[] = {
        {"P09a-malformed-integer.bin", QPC_ERR_MALFORMED, false, 0, NULL, false},
        {"P09b-malformed-map.bin", QPC_ERR_MALFORMED, false, 0, NULL, false},
        {"P09c-malformed-nil.bin", QPC_ERR_MALFORMED, false, 0, NULL, false},
        {"P09d-malformed-empty-array.bin", QPC_ERR_MALFORMED, false, 0, NULL, false},
        {"P09e-malformed-one-element.bin", QPC_ERR_MALFORMED, false, 0, NULL, false},
        {"P09f-malformed-request-of-three.bin", QPC_ERR_MALFORMED, true, 1, NULL, false},
        {"P09g-malformed-request-of-five.bin", QPC_ERR_MALFORMED, true, 1, NULL, false},
        {"P09h-malformed-type-five.bin", QPC_ERR_MALFORMED, true, 1, NULL, false},
        {"P09i-malformed-type-string.bin", QPC_ERR_MALFORMED, true, 1, NULL, false},
        {"P09j-malformed-method-integer.bin", QPC_ERR_MALFORMED, true, 1, NULL, false},
        {"P09k-malformed-params-map.bin", QPC_ERR_INVALID, true, 1, NAME, true},
        {"P09l-malformed-params-nil.bin", QPC_ERR_INVALID, true, 1, NAME, true},
        {"P09m-malformed-params-integer.bin", QPC_ERR_INVALID, true, 1, NAME, true},
        {"P09n-malformed-notification-of-four.bin", QPC_ERR_MALFORMED, false, 0, NULL, false},
        {"P09o-malformed-float-type.bin", QPC_ERR_MALFORMED, true, 1, NULL, false},
    };
    RUN(cases);
}

static void notifications_have_no_id_whatever_is_wrong(void **state) {
    (void)state;
    static const struct {
        qpc_rpc_type type;
        qpc_status status;
        bool has_id;
    } wanted[] = {
        {QPC_RPC_NOTIFICATION, QPC_OK, false},
        {QPC_RPC_NOTIFICATION, QPC_ERR_INVALID, false},
        {QPC_RPC_REQUEST, QPC_OK, true},
    };
    size_t size = 0, at = 0;
    uint8_t *bytes = read_case("P10-notification-then-request.bin", &size);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        qpc_rpc_message m;
        qpc_error err = {0};
        uint8_t *copy = NULL;
        size_t used = 0;
        qpc_status status = parse_copy(bytes + at, size - at, &copy, &used, &m, &err);
        assert_int_equal(status, wanted[i].status);
        assert_int_equal(m.type, wanted[i].type);
        assert_int_equal(m.has_id, wanted[i].has_id);
        if (m.has_id) assert_int_equal(m.id, 9);
        qpc_rpc_message_fini(&m);
        free(copy);
        at += used;
    }
    assert_int_equal(at, size);
    free(bytes);
}

static void parse_hex(const char *hex, uint8_t *bytes, size_t room, qpc_rpc_message *ret) {
    qpc_error err = {0};
    assert_ok(qpc_rpc_parse(bytes, from_hex(hex, bytes, room), ret, &err), &err);
}

static void params_are_one_map_or_nothing(void **state) {
    (void)state;
    uint8_t bytes[64];
    qpc_rpc_message m;
    // [{"n": 5}]
    parse_hex("94 00 01 a178 91 81 a16e 05", bytes, sizeof bytes, &m);
    assert_int_equal(m.params.map.count, 1);
    assert_int_equal(qpc_map_get(&m.params, "n")->i, 5);
    qpc_rpc_message_fini(&m);
    // [], [{}] and [[]], and params as array16.
    static const char *const empty[] = {"94 00 01 a178 90", "94 00 01 a178 91 80",
                                        "94 00 01 a178 91 90", "94 00 01 a178 dc0001 80",
                                        "dc0004 00 01 a178 dd00000000"};
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) {
        parse_hex(empty[i], bytes, sizeof bytes, &m);
        assert_int_equal(m.params.kind, QPC_MAP);
        assert_int_equal(m.params.map.count, 0);
        qpc_rpc_message_fini(&m);
    }
    // {"a": nil, "n": 5, "b": nil}: nil is the same as left out.
    parse_hex("94 00 01 a178 91 83 a161 c0 a16e 05 a162 c0", bytes, sizeof bytes, &m);
    assert_int_equal(m.params.map.count, 1);
    assert_non_null(qpc_map_get(&m.params, "n"));
    qpc_rpc_message_fini(&m);

    static const expectation refused[] = {
        {"94 00 03 a178 92 80 80", QPC_ERR_INVALID, true, 3, "x", true},
        {"94 00 03 a178 91 05", QPC_ERR_INVALID, true, 3, "x", true},
        {"94 00 03 a178 91 91 80", QPC_ERR_INVALID, true, 3, "x", true},
        {"94 00 03 a178 91 c0", QPC_ERR_INVALID, true, 3, "x", true},
        // What the decoder refuses has its id too: a bad array, a key twice, bad UTF-8.
        {"94 00 03 a178 91 81 a161 81 a26e64 c3", QPC_ERR_INVALID, true, 3, "x", true},
        {"94 00 03 a178 91 82 a161 01 a161 02", QPC_ERR_INVALID, true, 3, "x", true},
        {"94 00 03 a178 91 81 a161 a1ff", QPC_ERR_INVALID, true, 3, "x", true},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        expect(&refused[i], bytes, from_hex(refused[i].file, bytes, sizeof bytes));
}

static void responses_give_error_and_result(void **state) {
    (void)state;
    uint8_t bytes[64];
    qpc_rpc_message m;
    parse_hex("94 01 cd0102 c0 81 a161 92 01 02", bytes, sizeof bytes, &m);
    assert_int_equal(m.type, QPC_RPC_RESPONSE);
    assert_true(m.has_id);
    assert_int_equal(m.id, 258);
    assert_string_equal(m.method, "");
    assert_int_equal(m.params.kind, QPC_NIL);
    assert_int_equal(m.error.kind, QPC_NIL);
    assert_int_equal(qpc_map_get(&m.result, "a")->list.count, 2);
    qpc_rpc_message_fini(&m);
    parse_hex("94 01 05 a3626164 c0", bytes, sizeof bytes, &m);
    assert_true(qpc_str_equal(&m.error, "bad"));
    assert_int_equal(m.result.kind, QPC_NIL);
    qpc_rpc_message_fini(&m);
    // A client fails that one call: the id is there.
    static const expectation refused[] = {
        {"93 01 06 c0", QPC_ERR_MALFORMED, true, 6, "", false},
        {"94 01 06 c0 a1ff", QPC_ERR_INVALID, true, 6, "", false},
        {"94 01 a131 c0 c0", QPC_ERR_MALFORMED, false, 0, "", false},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        expect(&refused[i], bytes, from_hex(refused[i].file, bytes, sizeof bytes));
}

static void what_is_written_reads_back(void **state) {
    (void)state;
    static const uint32_t ids[] = {0, 1, 127, 128, 255, 256, 65535, 65536, UINT32_MAX};
    qpc_value params = qpc_map();
    assert_int_equal(qpc_map_set(&params, "world", qpc_int(3)), QPC_OK);
    qpc_error err = {0};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        qpc_buffer out = {0};
        qpc_rpc_message m;
        assert_ok(qpc_rpc_request(ids[i], "world.step", &params, false, &out, &err), &err);
        assert_ok(qpc_rpc_parse(out.data, out.size, &m, &err), &err);
        assert_int_equal(m.type, QPC_RPC_REQUEST);
        assert_int_equal(m.id, ids[i]);
        assert_string_equal(m.method, "world.step");
        assert_true(m.method_known_text);
        assert_true(qpc_value_equal(&m.params, &params));
        qpc_rpc_message_fini(&m);
        out.size = 0;
        assert_ok(qpc_rpc_result(ids[i], &params, true, &out, &err), &err);
        assert_ok(qpc_rpc_parse(out.data, out.size, &m, &err), &err);
        assert_int_equal(m.type, QPC_RPC_RESPONSE);
        assert_int_equal(m.id, ids[i]);
        assert_true(qpc_value_equal(&m.result, &params));
        assert_int_equal(m.error.kind, QPC_NIL);
        qpc_rpc_message_fini(&m);
        qpc_buffer_fini(&out);
    }
    qpc_buffer out = {0};
    qpc_rpc_message m;
    assert_ok(qpc_rpc_notify("frame", &params, false, &out, &err), &err);
    assert_ok(qpc_rpc_parse(out.data, out.size, &m, &err), &err);
    assert_int_equal(m.type, QPC_RPC_NOTIFICATION);
    assert_string_equal(m.method, "frame");
    assert_false(m.has_id);
    assert_true(qpc_value_equal(&m.params, &params));
    qpc_rpc_message_fini(&m);
    out.size = 0;
    assert_ok(qpc_rpc_request(1, "world.list", NULL, false, &out, &err), &err);
    assert_memory_equal(out.data + out.size - 1, "\x90", 1);
    qpc_buffer_fini(&out);
    qpc_value_fini(&params);
}

static void errors_travel_whole(void **state) {
    (void)state;
    qpc_error err = {0}, error = {0}, back = {0};
    qpc_buffer out = {0};
    qpc_rpc_message m;
    qpc_fail_at(&error, QPC_ERR_NOT_FOUND, "params.world", "no world %d", 17);
    assert_int_equal(qpc_rpc_error(5, &error, NULL, &out), QPC_OK);
    assert_ok(qpc_rpc_parse(out.data, out.size, &m, &err), &err);
    assert_int_equal(m.result.kind, QPC_NIL);
    assert_int_equal(qpc_map_get(&m.error, "code")->i, 2);
    assert_true(qpc_str_equal(qpc_map_get(&m.error, "name"), "NOT_FOUND"));
    assert_true(qpc_str_equal(qpc_map_get(&m.error, "message"), "params.world: no world 17"));
    assert_true(qpc_str_equal(qpc_map_get(qpc_map_get(&m.error, "data"), "where"), "params.world"));
    qpc_error_from_value(&m.error, &back);
    assert_int_equal(back.status, QPC_ERR_NOT_FOUND);
    assert_string_equal(back.message, error.message);
    assert_string_equal(back.where, error.where);
    qpc_rpc_message_fini(&m);

    // data given: that; no place: nil.
    qpc_value data = qpc_map();
    assert_int_equal(qpc_map_set(&data, "step", qpc_int(120)), QPC_OK);
    out.size = 0;
    assert_int_equal(qpc_rpc_error(5, &error, &data, &out), QPC_OK);
    assert_ok(qpc_rpc_parse(out.data, out.size, &m, &err), &err);
    assert_true(qpc_value_equal(qpc_map_get(&m.error, "data"), &data));
    qpc_rpc_message_fini(&m);
    qpc_fail(&error, QPC_ERR_BUSY, "full");
    out.size = 0;
    assert_int_equal(qpc_rpc_error(5, &error, NULL, &out), QPC_OK);
    assert_ok(qpc_rpc_parse(out.data, out.size, &m, &err), &err);
    assert_int_equal(qpc_map_get(&m.error, "data")->kind, QPC_NIL);
    qpc_rpc_message_fini(&m);

    // As a value that borrows nothing.
    qpc_value v = qpc_nil();
    assert_int_equal(qpc_error_to_value(&error, &data, &v), QPC_OK);
    qpc_value_fini(&data);
    memset(&error, 'x', sizeof error);
    qpc_error_from_value(&v, &back);
    assert_int_equal(back.status, QPC_ERR_BUSY);
    assert_string_equal(back.message, "full");
    assert_int_equal(qpc_map_get(qpc_map_get(&v, "data"), "step")->i, 120);
    qpc_value_fini(&v);
    qpc_buffer_fini(&out);
}

static void errors_of_other_servers_become_ours(void **state) {
    (void)state;
    qpc_error e = {0};
    qpc_value v = qpc_nil();
    qpc_error_from_value(&v, &e);
    assert_int_equal(e.status, QPC_OK);
    v = qpc_text_borrow("it broke");
    qpc_error_from_value(&v, &e);
    assert_int_equal(e.status, QPC_ERR_INTERNAL);
    assert_string_equal(e.message, "it broke");
    v = qpc_int(5);
    qpc_error_from_value(&v, &e);
    assert_int_equal(e.status, QPC_ERR_INTERNAL);
    v = qpc_map();
    assert_int_equal(qpc_map_set(&v, "code", qpc_int(99)), QPC_OK);
    assert_int_equal(qpc_map_set(&v, "message", qpc_text_borrow("100% new")), QPC_OK);
    qpc_error_from_value(&v, &e);
    assert_int_equal(e.status, QPC_ERR_INTERNAL);
    assert_string_equal(e.message, "100% new");
    assert_int_equal(qpc_map_set(&v, "code", qpc_int(QPC_ERR_FULL)), QPC_OK);
    qpc_error_from_value(&v, &e);
    assert_int_equal(e.status, QPC_ERR_FULL);
    qpc_value_fini(&v);
}

static void a_deep_result_keeps_the_buffer(void **state) {
    (void)state;
    qpc_value v = qpc_nil();
    for (int i = 0; i < 70; i++) {
        qpc_value list = qpc_list();
        assert_int_equal(qpc_list_push(&list, v), QPC_OK);
        v = list;
    }
    qpc_buffer out = {0};
    qpc_error err = {0};
    assert_ok(qpc_buffer_append(&out, "kept", 4), &err);
    assert_fails(qpc_rpc_result(1, &v, false, &out, &err), QPC_ERR_LIMIT, &err, "levels");
    assert_fails(qpc_rpc_request(1, "x", &v, false, &out, &err), QPC_ERR_LIMIT, &err, "levels");
    assert_fails(qpc_rpc_notify("x", &v, false, &out, &err), QPC_ERR_LIMIT, &err, "levels");
    assert_int_equal(out.size, 4);
    qpc_buffer_fini(&out);
    qpc_value_fini(&v);
}

static void random_bytes_never_do_harm(void **state) {
    (void)state;
    // What the scan lets pass, the parser takes; whatever the parser says, an answer can be made.
    uint64_t seed = 11;
    int whole_count = 0;
    static const uint8_t start[][3] = {{0x94, 0x00, 0x07}, {0x93, 0x02, 0xa1}, {0x94, 0x01, 0xc0}};
    for (int round = 0; round < 60000; round++) {
        uint8_t bytes[40];
        size_t size = 1 + next_random(&seed) % sizeof bytes, used = 0;
        for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)next_random(&seed);
        if (size > 3) memcpy(bytes, start[next_random(&seed) % 3], next_random(&seed) % 4);
        qpc_scan_limits limits = qpc_scan_limits_default();
        qpc_scanner scanner = {0};
        qpc_error err = {0};
        if (qpc_scan(&scanner, bytes, size, &limits, &used, &err) != QPC_SCAN_WHOLE) continue;
        whole_count++;
        qpc_rpc_message m;
        qpc_status status = qpc_rpc_parse(bytes, used, &m, &err);
        assert_int_equal(qpc_utf8_prefix(m.method, sizeof m.method - 1), sizeof m.method - 1);
        if (status != QPC_OK) {
            qpc_buffer out = {0};
            assert_int_equal(qpc_rpc_error(m.id, &err, NULL, &out), QPC_OK);
            assert_true(out.size < 4096);
            qpc_buffer_fini(&out);
        }
        qpc_rpc_message_fini(&m);
    }
    assert_true(whole_count > 10000);
}

static void every_failed_allocation_is_reported(void **state) {
    (void)state;
    uint8_t request[64], response[64];
    size_t request_size =
        from_hex("94 00 01 a178 91 82 a16e 93 01 02 03 a16d 81 a161 05", request, sizeof request);
    size_t response_size =
        from_hex("94 01 01 81 a161 01 82 a16e 93 01 02 03 a16d 80", response, sizeof response);
    QPC_FAULTS(f) {
        qpc_rpc_message m;
        qpc_error err = {0};
        qpc_status status = qpc_rpc_parse(request, request_size, &m, &err);
        assert_true(m.has_id && m.id == 1);
        if (qpc_faults_ended(&f, status)) qpc_rpc_message_fini(&m);
    }
    QPC_FAULTS(g) {
        qpc_rpc_message m;
        qpc_error err = {0};
        qpc_status status = qpc_rpc_parse(response, response_size, &m, &err);
        if (qpc_faults_ended(&g, status)) qpc_rpc_message_fini(&m);
    }
    static char text[2000];
    memset(text, 't', sizeof text);
    qpc_value params = qpc_map();
    assert_int_equal(qpc_map_set(&params, "t", qpc_str_borrow(text, sizeof text)), QPC_OK);
    qpc_error error = {0};
    qpc_fail_at(&error, QPC_ERR_INVALID, "x", "wrong");
    for (int which = 0; which < 4; which++) {
        QPC_FAULTS(h) {
            qpc_buffer out = {0};
            qpc_error err = {0};
            qpc_status status = which == 0   ? qpc_rpc_request(1, "m", &params, false, &out, &err)
                                : which == 1 ? qpc_rpc_result(1, &params, false, &out, &err)
                                : which == 2 ? qpc_rpc_notify("m", &params, false, &out, &err)
                                             : qpc_rpc_error(1, &error, &params, &out);
            if (!qpc_faults_ended(&h, status)) assert_int_equal(out.size, 0);
            qpc_buffer_fini(&out);
        }
    }
    QPC_FAULTS(i) {
        qpc_value v = qpc_nil();
        if (qpc_faults_ended(&i, qpc_error_to_value(&error, &params, &v)))
            qpc_value_fini(&v);
        else
            assert_int_equal(v.kind, QPC_NIL);
    }
    qpc_value_fini(&params);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_have_any_integer_width_and_32_bits),
        cmocka_unit_test(odd_method_names_are_unknown_ones_and_keep_the_id),
        cmocka_unit_test(a_known_name_in_a_wrong_form_is_unknown),
        cmocka_unit_test(malformed_messages_give_their_id_if_they_have_one),
        cmocka_unit_test(notifications_have_no_id_whatever_is_wrong),
        cmocka_unit_test(params_are_one_map_or_nothing),
        cmocka_unit_test(responses_give_error_and_result),
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(errors_travel_whole),
        cmocka_unit_test(errors_of_other_servers_become_ours),
        cmocka_unit_test(a_deep_result_keeps_the_buffer),
        cmocka_unit_test(random_bytes_never_do_harm),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
