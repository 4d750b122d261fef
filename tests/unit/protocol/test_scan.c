/// The pre-scan: every header form, claims that the bytes do not back, limits, and pieces.
#include "tests/unit/protocol/support.h"

#include "protocol/scan.h"

static const qpc_scan_limits usual = {
    .max_message = 64 << 20, .max_depth = 32, .max_items = 1 << 20, .max_key = 1 << 20};

static qpc_scan_outcome scan(const uint8_t *bytes, size_t size, const qpc_scan_limits *limits,
                             size_t *ret_size, qpc_error *err) {
    qpc_scanner scanner = {0};
    return qpc_scan(&scanner, bytes, size, limits, ret_size, err);
}

/// What is refused as soon as its header is there, with a status and words of the message.
static void assert_refused(const uint8_t *bytes, size_t size, const qpc_scan_limits *limits,
                           qpc_status status, const char *text) {
    qpc_error err = {0};
    size_t whole = 12345;
    assert_int_equal(scan(bytes, size, limits, &whole, &err), QPC_SCAN_MALFORMED);
    assert_int_equal(err.status, status);
    if (strstr(err.message, text) == NULL) fail_msg("\"%s\" lacks \"%s\"", err.message, text);
    assert_int_equal(whole, 12345);
}

static void assert_hex_refused(const char *hex, qpc_status status, const char *text) {
    uint8_t bytes[256];
    assert_refused(bytes, from_hex(hex, bytes, sizeof bytes), &usual, status, text);
}

/// One valid object of every form there is. Payloads are 0x11, so that a wrong length shows.
typedef struct form {
    const char *front; // hex
    size_t payload;
} form;
static const form forms[] = {
    {"00", 0},       {"7f", 0},         {"e0", 0},         {"ff", 0},         {"c0", 0},
    {"c2", 0},       {"c3", 0},         {"cc", 1},         {"cd", 2},         {"ce", 4},
    {"cf", 8},       {"d0", 1},         {"d1", 2},         {"d2", 4},         {"d3", 8},
    {"ca", 4},       {"cb", 8},         {"a0", 0},         {"a3", 3},         {"bf", 31},
    {"d900", 0},     {"d905", 5},       {"da0100", 256},   {"db00000003", 3}, {"c400", 0},
    {"c4ff", 255},   {"c50100", 256},   {"c600000002", 2}, {"d4", 2},         {"d5", 3},
    {"d6", 5},       {"d7", 9},         {"d8", 17},        {"c700", 1},       {"c703", 4},
    {"c80100", 257}, {"c900000001", 2}, {"90", 0},         {"93", 3},         {"9f", 15},
    {"dc0000", 0},   {"dc0014", 20},    {"dd00000005", 5}, {"80", 0},         {"82", 4},
    {"8f", 30},      {"de0003", 6},     {"df00000002", 4},
};
enum { FORM_COUNT = sizeof forms / sizeof forms[0] };

static size_t make_form(const form *f, uint8_t *out, size_t room) {
    size_t n = from_hex(f->front, out, room);
    memset(out + n, 0x11, f->payload);
    return n + f->payload;
}

static void every_form_is_walked_to_its_end(void **state) {
    (void)state;
    uint8_t bytes[600];
    for (size_t i = 0; i < FORM_COUNT; i++) {
        size_t size = make_form(&forms[i], bytes, sizeof bytes), whole = 0;
        qpc_error err = {0};
        // With other bytes behind it too: those belong to the next object.
        for (size_t more = 0; more < 3; more++) {
            bytes[size + more] = 0xc1;
            if (scan(bytes, size + more, &usual, &whole, &err) != QPC_SCAN_WHOLE || whole != size)
                fail_msg("%s: %zu of %zu: %s", forms[i].front, whole, size, err.message);
        }
    }
}

static void every_truncation_is_partial(void **state) {
    (void)state;
    uint8_t bytes[600];
    for (size_t i = 0; i < FORM_COUNT; i++) {
        size_t size = make_form(&forms[i], bytes, sizeof bytes), whole = 0;
        for (size_t cut = 0; cut < size; cut++) {
            // A copy of exactly that size, so that a sanitizer sees a read too far.
            uint8_t *copy = malloc(cut > 0 ? cut : 1);
            assert_non_null(copy);
            memcpy(copy, bytes, cut);
            qpc_error err = {0};
            if (scan(copy, cut, &usual, &whole, &err) != QPC_SCAN_PARTIAL)
                fail_msg("%s cut to %zu: %s", forms[i].front, cut, err.message);
            free(copy);
        }
    }
}

/// A random valid object of at most `room` bytes; returns its size.
static size_t random_object(uint64_t *seed, uint8_t *out, size_t room, int depth) {
    for (;;) {
        const form *f = &forms[next_random(seed) % FORM_COUNT];
        uint8_t front[8];
        size_t n = from_hex(f->front, front, sizeof front);
        bool container = (front[0] >= 0x80 && front[0] <= 0x9f) || front[0] >= 0xdc;
        if (front[0] >= 0xe0) container = false;
        if (n + f->payload * (container ? 40 : 1) > room) {
            out[0] = 0xc0;
            return 1;
        }
        if (container && depth == 0) continue;
        memcpy(out, front, n);
        if (!container) {
            memset(out + n, 0xdd, f->payload); // a bomb, were it not a payload
            return n + f->payload;
        }
        for (size_t i = 0; i < f->payload; i++)
            n += random_object(seed, out + n, (room - n) / (f->payload - i), depth - 1);
        return n;
    }
}

static void pieces_of_any_size_give_the_same_as_the_whole(void **state) {
    (void)state;
    enum { ROOM = 6000 };
    static uint8_t bytes[ROOM];
    uint64_t seed = 7;
    for (int round = 0; round < 60; round++) {
        size_t size = random_object(&seed, bytes, ROOM, 5), whole = 0;
        qpc_error err = {0};
        if (scan(bytes, size, &usual, &whole, &err) != QPC_SCAN_WHOLE || whole != size)
            fail_msg("round %d: %zu of %zu: %s", round, whole, size, err.message);
        for (int by = 0; by < 2; by++) {
            qpc_scanner scanner = {0};
            size_t have = 0;
            while (have < size) {
                have += by == 0 ? 1 : 1 + next_random(&seed) % 40;
                if (have > size) have = size;
                // The buffer moves between the calls.
                uint8_t *copy = malloc(have);
                assert_non_null(copy);
                memcpy(copy, bytes, have);
                whole = 0;
                qpc_scan_outcome outcome = qpc_scan(&scanner, copy, have, &usual, &whole, &err);
                free(copy);
                if (outcome != (have < size ? QPC_SCAN_PARTIAL : QPC_SCAN_WHOLE))
                    fail_msg("round %d: outcome %d at %zu of %zu", round, outcome, have, size);
            }
            assert_int_equal(whole, size);
        }
    }
}

static void a_whole_object_stays_whole_when_asked_again(void **state) {
    (void)state;
    const uint8_t bytes[] = {0x92, 0xa1, 'x', 0x01, 0xc0};
    qpc_scanner scanner = {0};
    size_t whole = 0;
    assert_int_equal(qpc_scan(&scanner, bytes, 5, &usual, &whole, NULL), QPC_SCAN_WHOLE);
    assert_int_equal(whole, 4);
    whole = 0;
    assert_int_equal(qpc_scan(&scanner, bytes, 5, &usual, &whole, NULL), QPC_SCAN_WHOLE);
    assert_int_equal(whole, 4);
}

static void the_byte_c1_is_malformed_anywhere(void **state) {
    (void)state;
    assert_hex_refused("c1", QPC_ERR_MALFORMED, "0xc1");
    assert_hex_refused("9200c1", QPC_ERR_MALFORMED, "offset 2");
    assert_hex_refused("81a178c1", QPC_ERR_MALFORMED, "0xc1");
}

static void a_refused_scanner_stays_so(void **state) {
    (void)state;
    const uint8_t bad[] = {0xc1, 0x00};
    qpc_scanner scanner = {0};
    qpc_error err = {0};
    size_t whole = 0;
    assert_int_equal(qpc_scan(&scanner, bad, 1, &usual, &whole, &err), QPC_SCAN_MALFORMED);
    assert_int_equal(qpc_scan(&scanner, bad, 2, &usual, &whole, &err), QPC_SCAN_MALFORMED);
    assert_int_equal(err.status, QPC_ERR_MALFORMED);
    assert_int_equal(qpc_scan(&scanner, bad, 2, &usual, &whole, NULL), QPC_SCAN_MALFORMED);
}

static void claims_without_bytes_are_refused_from_the_header(void **state) {
    (void)state;
    assert_hex_refused("ddffffffff", QPC_ERR_LIMIT, "elements");
    assert_hex_refused("dd02000000", QPC_ERR_LIMIT, "elements");
    assert_hex_refused("ddff000000c0c0c0c0", QPC_ERR_LIMIT, "elements");
    assert_hex_refused("dfffffffff", QPC_ERR_LIMIT, "elements");
    assert_hex_refused("df80000000", QPC_ERR_LIMIT, "elements"); // twice this is 2^32
    assert_hex_refused("dbfffffff0", QPC_ERR_LIMIT, "a str of 4294967280 bytes");
    assert_hex_refused("c6fffffff0", QPC_ERR_LIMIT, "4294967285 bytes");
    assert_hex_refused("c9ffffffff01", QPC_ERR_LIMIT, "4294967301 bytes");
    assert_hex_refused("940001ae6e6f5f737563685f6d6574686f64ddffffffff", QPC_ERR_LIMIT,
                       "offset 18");
}

static void the_bombs_of_the_case_files_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {
        "P01a-array32-bomb.bin",
        "P01b-array32-bomb-in-params.bin",
        "P01c-array32-bomb-small-body.bin",
        "P02a-map32-claims-4-gigabytes.bin",
        "P02b-str32-claims-4-gigabytes.bin",
        "P02c-bin32-claims-4-gigabytes.bin",
        "P02d-ext32-claims-4-gigabytes.bin",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t size = 0;
        uint8_t *bytes = read_case(names[i], &size);
        assert_refused(bytes, size, &usual, QPC_ERR_LIMIT, "limit");
        free(bytes);
    }
    size_t size = 0;
    uint8_t *bytes = read_case("P03c-nesting-40-levels.bin", &size);
    assert_refused(bytes, size, &usual, QPC_ERR_MALFORMED, "deeper than 32");
    free(bytes);
}

static void nesting_is_refused_at_the_level_beyond_the_limit(void **state) {
    (void)state;
    uint8_t bytes[40];
    size_t whole = 0;
    qpc_error err = {0};
    // 32 levels pass, empty or not; the 33rd does not.
    memset(bytes, 0x91, sizeof bytes);
    bytes[31] = 0x90;
    assert_int_equal(scan(bytes, 32, &usual, &whole, &err), QPC_SCAN_WHOLE);
    bytes[31] = 0x91;
    bytes[32] = 0xc0;
    assert_int_equal(scan(bytes, 33, &usual, &whole, &err), QPC_SCAN_WHOLE);
    bytes[32] = 0x90;
    assert_refused(bytes, 33, &usual, QPC_ERR_MALFORMED, "deeper than 32 levels at offset 32");
    // Without a container, depth is 0; one level is the outermost.
    qpc_scan_limits shallow = usual;
    shallow.max_depth = 1;
    assert_int_equal(scan(bytes + 32, 1, &shallow, &whole, &err), QPC_SCAN_WHOLE);
    assert_refused((const uint8_t[]){0x91, 0x90}, 2, &shallow, QPC_ERR_MALFORMED, "deeper than 1");
    // A limit above what the decoder can do is that.
    shallow.max_depth = 1000;
    memset(bytes, 0x91, sizeof bytes);
    assert_refused(bytes, 40, &shallow, QPC_ERR_MALFORMED, "deeper than 32");
}

static void a_hundred_thousand_levels_cost_nothing(void **state) {
    (void)state;
    enum { COUNT = 100000 };
    uint8_t *bytes = malloc(COUNT);
    assert_non_null(bytes);
    memset(bytes, 0x91, COUNT);
    assert_refused(bytes, COUNT, &usual, QPC_ERR_MALFORMED, "deeper");
    // dc ff ff, 24000 times: each claims 65535 more.
    for (int i = 0; i < 24000; i++) memcpy(bytes + (size_t)3 * i, "\xdc\xff\xff", 3);
    uint64_t before = qpc_mem_thread_allocations();
    assert_refused(bytes, 72000, &usual, QPC_ERR_LIMIT, "elements");
    qpc_scan_limits many = usual;
    many.max_items = SIZE_MAX / 2;
    assert_refused(bytes, 72000, &many, QPC_ERR_MALFORMED, "deeper");
    assert_int_equal(qpc_mem_thread_allocations(), before);
    free(bytes);
}

static void elements_are_counted_over_all_containers(void **state) {
    (void)state;
    const uint8_t bytes[] = {0x92, 0x93, 0, 0, 0, 0x81, 0xa0, 0xc0}; // 2 + 3 + 2
    qpc_scan_limits limits = usual;
    size_t whole = 0;
    limits.max_items = 7;
    assert_int_equal(scan(bytes, sizeof bytes, &limits, &whole, NULL), QPC_SCAN_WHOLE);
    limits.max_items = 6;
    assert_refused(bytes, sizeof bytes, &limits, QPC_ERR_LIMIT, "7 elements are claimed");
}

static void a_message_has_its_largest_size(void **state) {
    (void)state;
    const uint8_t bytes[] = {0x93, 0xc4, 0x02, 1, 2, 0xc0, 0xcd, 0x01, 0x00}; // 9 bytes
    qpc_scan_limits limits = usual;
    size_t whole = 0;
    limits.max_message = 9;
    assert_int_equal(scan(bytes, 9, &limits, &whole, NULL), QPC_SCAN_WHOLE);
    limits.max_message = 8;
    assert_refused(bytes, 8, &limits, QPC_ERR_LIMIT, "limit");
    assert_refused(bytes, 9, &limits, QPC_ERR_LIMIT, "at least 9 bytes");
    // Three elements cannot fit into two bytes: known from the first byte.
    limits.max_message = 3;
    assert_refused(bytes, 1, &limits, QPC_ERR_LIMIT, "at least 4 bytes");
    // A bin that fits with its header but not with the elements after it.
    limits.max_message = 5;
    assert_refused(bytes, 3, &limits, QPC_ERR_LIMIT, "at least 7 bytes");
    // A header that lacks its length at the very limit can never be whole.
    limits.max_message = 1;
    assert_refused((const uint8_t[]){0xc5}, 1, &limits, QPC_ERR_LIMIT, "limit of 1 bytes");
}

static void text_has_its_own_limit_and_bytes_do_not(void **state) {
    (void)state;
    qpc_scan_limits limits = usual;
    uint8_t bytes[64] = {0xd9, 40};
    size_t whole = 0;
    limits.max_key = 40;
    assert_int_equal(scan(bytes, 42, &limits, &whole, NULL), QPC_SCAN_WHOLE);
    limits.max_key = 39;
    assert_refused(bytes, 42, &limits, QPC_ERR_LIMIT, "a str of 40 bytes");
    bytes[0] = 0xc4;
    assert_int_equal(scan(bytes, 42, &limits, &whole, NULL), QPC_SCAN_WHOLE);
}

static void waiting_for_a_long_payload_is_not_walking_it_again(void **state) {
    (void)state;
    enum { SIZE = 1 << 20 };
    uint8_t *bytes = calloc(1, SIZE + 8);
    assert_non_null(bytes);
    memcpy(bytes, "\x92\xc6\x00\x10\x00\x00", 6);
    bytes[6 + SIZE] = 0x05;
    qpc_scanner scanner = {0};
    size_t whole = 0;
    assert_int_equal(qpc_scan(&scanner, bytes, 6, &usual, &whole, NULL), QPC_SCAN_PARTIAL);
    // The next header is known to be behind the payload.
    assert_int_equal(scanner.at, 6 + SIZE);
    for (size_t have = 7; have <= SIZE + 6; have += 1 + have / 3)
        assert_int_equal(qpc_scan(&scanner, bytes, have, &usual, &whole, NULL), QPC_SCAN_PARTIAL);
    assert_int_equal(qpc_scan(&scanner, bytes, SIZE + 7, &usual, &whole, NULL), QPC_SCAN_WHOLE);
    assert_int_equal(whole, SIZE + 7);
    free(bytes);
}

static void defaults_are_the_documented_ones(void **state) {
    (void)state;
    qpc_scan_limits limits = qpc_scan_limits_default();
    assert_int_equal(limits.max_message, 64 << 20);
    assert_int_equal(limits.max_depth, 32);
    assert_int_equal(limits.max_items, 1 << 20);
    assert_int_equal(limits.max_key, 1 << 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_walked_to_its_end),
        cmocka_unit_test(every_truncation_is_partial),
        cmocka_unit_test(pieces_of_any_size_give_the_same_as_the_whole),
        cmocka_unit_test(a_whole_object_stays_whole_when_asked_again),
        cmocka_unit_test(the_byte_c1_is_malformed_anywhere),
        cmocka_unit_test(a_refused_scanner_stays_so),
        cmocka_unit_test(claims_without_bytes_are_refused_from_the_header),
        cmocka_unit_test(the_bombs_of_the_case_files_are_refused),
        cmocka_unit_test(nesting_is_refused_at_the_level_beyond_the_limit),
        cmocka_unit_test(a_hundred_thousand_levels_cost_nothing),
        cmocka_unit_test(elements_are_counted_over_all_containers),
        cmocka_unit_test(a_message_has_its_largest_size),
        cmocka_unit_test(text_has_its_own_limit_and_bytes_do_not),
        cmocka_unit_test(waiting_for_a_long_payload_is_not_walking_it_again),
        cmocka_unit_test(defaults_are_the_documented_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
