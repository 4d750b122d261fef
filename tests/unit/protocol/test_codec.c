/// MessagePack to values and back: vectors made by Python, extremes, arrays, refusals, faults.
#include "tests/unit/protocol/support.h"

#include "base/json.h"
#include "protocol/codec.h"
#include "tests/support/faults.h"

#include <math.h>

static void decode_hex(const char *hex, uint8_t *bytes, size_t room, qpc_value *ret) {
    qpc_error err = {0};
    size_t size = from_hex(hex, bytes, room);
    assert_ok(qpc_decode(bytes, size, ret, &err), &err);
}

static void assert_hex_refused(const char *hex, qpc_status status, const char *text) {
    uint8_t bytes[400];
    qpc_error err = {0};
    qpc_value v = qpc_int(77);
    size_t size = from_hex(hex, bytes, sizeof bytes);
    if (qpc_decode(bytes, size, &v, &err) != status || strstr(err.message, text) == NULL)
        fail_msg("%s: %s, \"%s\"; want \"%s\"", hex, qpc_status_name(err.status), err.message,
                 text);
    assert_int_equal(err.status, status);
    assert_int_equal(v.i, 77);
}

static void assert_encodes(const qpc_value *v, bool bin_keys, const char *hex) {
    uint8_t wanted[400];
    size_t size = from_hex(hex, wanted, sizeof wanted);
    qpc_buffer buffer = {0};
    qpc_error err = {0};
    assert_ok(qpc_encode(v, bin_keys, &buffer, &err), &err);
    assert_int_equal(buffer.size, size);
    assert_memory_equal(buffer.data, wanted, size);
    qpc_buffer_fini(&buffer);
}

/// Equal as JSON: arrays as nested lists, bin as hex.
static void assert_json(const qpc_value *v, const char *json, const char *name) {
    char *text = NULL;
    qpc_error err = {0};
    qpc_value a = qpc_nil(), b = qpc_nil();
    assert_ok(qpc_json_write(v, 0, true, &text, &err), &err);
    assert_ok(qpc_json_parse(text, strlen(text), &a, &err), &err);
    assert_ok(qpc_json_parse(json, strlen(json), &b, &err), &err);
    if (!qpc_value_equal(&a, &b)) fail_msg("%s: got %.200s, want %.200s", name, text, json);
    qpc_value_fini(&a);
    qpc_value_fini(&b);
    qpc_free(text);
}

static void vectors_made_by_python_read_and_write(void **state) {
    (void)state;
    size_t size = 0;
    int count = 0;
    char *text = (char *)read_case("vectors.txt", &size), *rest = text, *line;
    while ((line = strsep(&rest, "\n")) != NULL && *line != '\0') {
        const char *name = strsep(&line, "\t"), *flags = strsep(&line, "\t");
        const char *hex = strsep(&line, "\t"), *json = line;
        assert_non_null(json);
        size_t n = strlen(hex) / 2;
        uint8_t *bytes = malloc(n);
        assert_non_null(bytes);
        assert_true(qpc_hex_decode(hex, 2 * n, bytes, n));

        qpc_value v = qpc_nil();
        qpc_error err = {0};
        if (qpc_decode(bytes, n, &v, &err) != QPC_OK) fail_msg("%s: %s", name, err.message);
        assert_json(&v, json, name);
        if (strchr(flags, '=') != NULL) {
            qpc_buffer buffer = {0};
            assert_ok(qpc_encode(&v, strchr(flags, 'b') != NULL, &buffer, &err), &err);
            if (buffer.size != n || memcmp(buffer.data, bytes, n) != 0)
                fail_msg("%s: other bytes", name);
            qpc_buffer_fini(&buffer);
        }
        qpc_value_fini(&v);
        free(bytes);
        count++;
    }
    assert_int_equal(count, 84);
    free(text);
}

static void integers_keep_their_extremes(void **state) {
    (void)state;
    uint8_t bytes[16];
    qpc_value v = qpc_nil();
    decode_hex("cfffffffffffffffff", bytes, sizeof bytes, &v);
    assert_int_equal(v.kind, QPC_INT);
    assert_true(v.is_unsigned);
    assert_true(v.u == UINT64_MAX);
    assert_encodes(&v, false, "cfffffffffffffffff");
    decode_hex("cf8000000000000000", bytes, sizeof bytes, &v);
    assert_true(v.is_unsigned && v.u == (uint64_t)INT64_MAX + 1);
    decode_hex("cf7fffffffffffffff", bytes, sizeof bytes, &v);
    assert_true(!v.is_unsigned && v.i == INT64_MAX);
    decode_hex("d38000000000000000", bytes, sizeof bytes, &v);
    assert_true(!v.is_unsigned && v.i == INT64_MIN);
    assert_encodes(&v, false, "d38000000000000000");
    // Wider than need be.
    decode_hex("d30000000000000007", bytes, sizeof bytes, &v);
    assert_int_equal(v.i, 7);
    assert_encodes(&v, false, "07");
    decode_hex("d3ffffffffffffffff", bytes, sizeof bytes, &v);
    assert_int_equal(v.i, -1);
}

static void reals_keep_their_bits(void **state) {
    (void)state;
    uint8_t bytes[16];
    qpc_value v = qpc_nil();
    decode_hex("ca3f800001", bytes, sizeof bytes, &v);
    assert_int_equal(v.kind, QPC_REAL);
    assert_true(v.real == (double)1.00000012f);
    decode_hex("cb8000000000000000", bytes, sizeof bytes, &v);
    assert_true(v.real == 0.0 && signbit(v.real));
    assert_encodes(&v, false, "cb8000000000000000");
    decode_hex("cb7ff8000000000000", bytes, sizeof bytes, &v);
    assert_true(isnan(v.real));
    decode_hex("ca7f800000", bytes, sizeof bytes, &v);
    assert_true(isinf(v.real));
}

static void text_and_bytes_are_borrowed_from_the_message(void **state) {
    (void)state;
    uint8_t bytes[64];
    qpc_value v = qpc_nil();
    decode_hex("83 a1 61 a3 78797a a1 62 c4 02 0001 c4 01 63 a0", bytes, sizeof bytes, &v);
    const qpc_value *a = qpc_map_get(&v, "a"), *b = qpc_map_get(&v, "b"), *c = qpc_map_get(&v, "c");
    assert_true(qpc_str_equal(a, "xyz"));
    assert_ptr_equal(a->str.bytes, bytes + 4);
    assert_false(a->owns);
    assert_int_equal(b->kind, QPC_BIN);
    assert_ptr_equal(b->str.bytes, bytes + 11);
    // A key as bin is a key like any other.
    assert_true(qpc_str_equal(c, ""));
    qpc_value_fini(&v);
}

static void large_sizes_have_their_headers(void **state) {
    (void)state;
    static const size_t sizes[] = {65535, 65536, 200000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *bytes = malloc(sizes[i]);
        assert_non_null(bytes);
        memset(bytes, 'y', sizes[i]);
        for (int form = 0; form < 2; form++) {
            qpc_value v =
                form == 0 ? qpc_str_borrow(bytes, sizes[i]) : qpc_bin_borrow(bytes, sizes[i]);
            qpc_value back = qpc_nil();
            qpc_buffer buffer = {0};
            qpc_error err = {0};
            assert_ok(qpc_encode(&v, false, &buffer, &err), &err);
            assert_int_equal(buffer.size, sizes[i] + (sizes[i] > 65535 ? 5 : 3));
            assert_ok(qpc_decode(buffer.data, buffer.size, &back, &err), &err);
            assert_true(qpc_value_equal(&v, &back));
            qpc_value_fini(&back);
            qpc_buffer_fini(&buffer);
        }
        free(bytes);
    }
    qpc_value list = qpc_list(), back = qpc_nil();
    for (int i = 0; i < 70000; i++) assert_int_equal(qpc_list_push(&list, qpc_int(i)), QPC_OK);
    qpc_buffer buffer = {0};
    qpc_error err = {0};
    assert_ok(qpc_encode(&list, false, &buffer, &err), &err);
    assert_int_equal(buffer.data[0], 0xdd);
    assert_ok(qpc_decode(buffer.data, buffer.size, &back, &err), &err);
    assert_true(qpc_value_equal(&list, &back));
    assert_int_equal(back.list.capacity, 70000);
    qpc_value_fini(&list);
    qpc_value_fini(&back);
    qpc_buffer_fini(&buffer);
}

static void arrays_come_as_tensors_with_borrowed_data(void **state) {
    (void)state;
    uint8_t bytes[200];
    qpc_value v = qpc_nil();
    // {nd: true, type: "<i4", kind: "", shape: [1, 2], data: ...}
    const char *hex = "85 a26e64 c3 a474797065 a33c6934 a46b696e64 a0 a57368617065 92 01 02"
                      "a464617461 c408 01000000 feffffff";
    decode_hex(hex, bytes, sizeof bytes, &v);
    assert_int_equal(v.kind, QPC_TENSOR);
    assert_int_equal(v.tensor.dtype, QPC_I32);
    assert_int_equal(v.tensor.ndim, 2);
    assert_int_equal(v.tensor.shape[0], 1);
    assert_int_equal(v.tensor.shape[1], 2);
    assert_int_equal(v.tensor.size, 8);
    assert_true((const uint8_t *)v.tensor.data > bytes &&
                (const uint8_t *)v.tensor.data < bytes + sizeof bytes);
    assert_encodes(&v, false, hex);
    assert_encodes(&v, true,
                   "85 c4026e64 c3 c40474797065 a33c6934 c4046b696e64 c400 c4057368617065 92 01 02"
                   "c40464617461 c408 01000000 feffffff");
    qpc_value_fini(&v);
    // Other orders of keys, kind left out or nil, data and type as the other kind of bytes.
    static const char *const others[] = {
        "84 a26e64 c3 a474797065 a33c6934 a57368617065 92 01 02 a464617461 c408 01000000feffffff",
        ("85 a464617461 c408 01000000feffffff a57368617065 92 01 02 a46b696e64 c0"
         "a474797065 c4033c6934 a26e64 c3"),
        "84 c4026e64 c3 a474797065 a33c6934 a57368617065 92 01 02 a464617461 a8 01000000feffffff",
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        decode_hex(others[i], bytes, sizeof bytes, &v);
        assert_int_equal(v.kind, QPC_TENSOR);
        assert_encodes(&v, false, hex);
        qpc_value_fini(&v);
    }
    // No dimensions: one element.
    decode_hex("84 a26e64 c3 a474797065 a37c7531 a57368617065 90 a464617461 c401 09", bytes,
               sizeof bytes, &v);
    assert_int_equal(v.tensor.ndim, 0);
    assert_int_equal(v.tensor.size, 1);
}

static void numpy_scalars_come_as_numbers(void **state) {
    (void)state;
    uint8_t bytes[64];
    qpc_value v = qpc_nil();
    decode_hex("83 a26e64 c2 a474797065 a33c6638 a464617461 c408 000000000000f83f", bytes,
               sizeof bytes, &v);
    assert_int_equal(v.kind, QPC_REAL);
    assert_true(v.real == 1.5);
    decode_hex("83 a26e64 c2 a474797065 a33c7538 a464617461 c408 ffffffffffffffff", bytes,
               sizeof bytes, &v);
    assert_true(v.kind == QPC_INT && v.is_unsigned && v.u == UINT64_MAX);
    decode_hex("83 a26e64 c2 a474797065 a33c6934 a464617461 c404 feffffff", bytes, sizeof bytes,
               &v);
    assert_true(v.kind == QPC_INT && v.i == -2);
    assert_hex_refused("83 a26e64 c2 a474797065 a33c6934 a464617461 c403 feffff", QPC_ERR_INVALID,
                       "has 3 bytes; want 4");
}

/// A map {nd: true, type, kind, shape, data} from parts in hex.
static void assert_array_refused(const char *type, const char *kind, const char *shape,
                                 const char *data, const char *text) {
    char hex[400];
    snprintf(hex, sizeof hex, "85a26e64c3a474797065%sa46b696e64%sa57368617065%sa464617461%s", type,
             kind, shape, data);
    assert_hex_refused(hex, QPC_ERR_INVALID, text);
    // And where it is, inside something else.
    char outer[500];
    snprintf(outer, sizeof outer, "92c081a178%s", hex);
    assert_hex_refused(outer, QPC_ERR_INVALID, "[1].x: ");
}

static void bad_arrays_say_what_is_wrong(void **state) {
    (void)state;
    const char *f8 = "a33c6638", *none = "a0", *three = "9103";
    const char *data = "c418 000000000000000000000000000000000000000000000000";
    assert_array_refused(f8, none, "9104", data, "make 32 bytes has 24");
    assert_array_refused(f8, none, "920301 ", "c400", "make 24 bytes has 0");
    assert_array_refused(f8, none, "9200cf2000000000000000", "c400", "overflow");
    assert_array_refused(f8, none, "92cf4000000000000000cf4000000000000000", "c400", "overflow");
    assert_array_refused(f8, none, "92cf0100000000000000 cd0100", "c400", "overflow");
    assert_array_refused(f8, none, "91cf8000000000000000", "c400", "shape[0]");
    assert_array_refused(f8, none, "9201ff", data, "shape[1] of an array is -1");
    assert_array_refused(f8, none, "91cb4008000000000000", data, "is a real number; want a size");
    assert_array_refused(f8, none, "950101010103", data, "5 dimensions; at most 4");
    assert_array_refused(f8, none, "03", data, "shape of an array is an integer");
    assert_array_refused("a33e6638", none, three, data, "big-endian");
    assert_array_refused("a27c4f", none, three, data, "Python objects");
    assert_array_refused("a14f", none, three, data, "Python objects");
    assert_array_refused("a33c6932", none, three, data, "type \"<i2\"; want \"<f8\"");
    assert_array_refused("a0", none, three, data, "type \"\"");
    assert_array_refused("07", none, three, data, "type of an array is an integer");
    assert_array_refused(f8, "a156", three, data, "kind \"V\"");
    assert_array_refused(f8, "a14f", three, data, "kind \"O\"");
    assert_array_refused(f8, "a17a", three, data, "kind of an array is \"z\"");
    assert_array_refused(f8, "01", three, data, "kind of an array is an integer");
    assert_array_refused(f8, none, three, "93000000", "data of an array is a list");
    // nd is not a boolean; keys missing, unknown, twice.
    assert_hex_refused("81a26e6401", QPC_ERR_INVALID, "nd of an array is an integer");
    assert_hex_refused("81a26e64c3", QPC_ERR_INVALID, "without type");
    assert_hex_refused("82a26e64c3a474797065a33c6638", QPC_ERR_INVALID,
                       "data of an array is missing");
    assert_hex_refused("83a26e64c3a474797065a33c6638a464617461c400", QPC_ERR_INVALID,
                       "without shape");
    assert_hex_refused("82a26e64c3a17801", QPC_ERR_INVALID, "keys are nd, type, kind, shape");
    assert_hex_refused("82a26e64c3a26e64c3", QPC_ERR_INVALID, "once each");
}

static void what_is_not_a_value_of_ours_is_refused_with_its_place(void **state) {
    (void)state;
    assert_hex_refused("a2c328", QPC_ERR_INVALID, "not UTF-8 at byte 0 of 2");
    assert_hex_refused("9391a161a162a1ff", QPC_ERR_INVALID, "[2]: a str that is not UTF-8");
    assert_hex_refused("81a1ff00", QPC_ERR_INVALID, "not UTF-8");
    assert_hex_refused("81a161 81 01 02", QPC_ERR_INVALID, "a: a map key is an integer; want text");
    assert_hex_refused("82a16101a16102", QPC_ERR_INVALID, "a: the key is there twice");
    assert_hex_refused("82a16101c4016102", QPC_ERR_INVALID, "twice");
    assert_hex_refused("81a162 92 c0 d40500", QPC_ERR_INVALID, "b[1]: extension type 5");
    assert_hex_refused("d6ff00000000", QPC_ERR_INVALID, "extension type -1");
}

static void what_is_not_one_whole_object_is_malformed(void **state) {
    (void)state;
    assert_hex_refused("", QPC_ERR_MALFORMED, "cut short");
    assert_hex_refused("92c0", QPC_ERR_MALFORMED, "cut short");
    assert_hex_refused("ddffffffff", QPC_ERR_MALFORMED, "cut short");
    assert_hex_refused("dd02000000", QPC_ERR_MALFORMED, "cut short");
    assert_hex_refused("c0c0", QPC_ERR_MALFORMED, "1 bytes follow");
    assert_hex_refused("c1", QPC_ERR_MALFORMED, "0xc1");
    assert_hex_refused("91919191919191919191919191919191919191919191919191919191919191919190",
                       QPC_ERR_MALFORMED, "deeper than 32");
    uint8_t bytes[40];
    qpc_value v = qpc_nil();
    decode_hex("9191919191919191919191919191919191919191919191919191919191919190", bytes,
               sizeof bytes, &v);
    qpc_value_fini(&v);
}

static void many_keys_are_compared_fast(void **state) {
    (void)state;
    // 30,000 keys of 8 bytes; pair by pair this would be half a billion comparisons.
    enum { COUNT = 30000 };
    qpc_buffer buffer = {0};
    qpc_value v = qpc_nil();
    qpc_error err = {0};
    const uint8_t front[] = {0xde, COUNT >> 8, COUNT & 0xff};
    assert_ok(qpc_buffer_append(&buffer, front, sizeof front), &err);
    for (int i = 0; i < COUNT; i++) {
        char pair[16];
        snprintf(pair, sizeof pair, "\xa8%08d\xc0", i);
        assert_ok(qpc_buffer_append(&buffer, pair, 10), &err);
    }
    assert_ok(qpc_decode(buffer.data, buffer.size, &v, &err), &err);
    assert_int_equal(v.map.count, COUNT);
    qpc_value_fini(&v);
    memcpy(buffer.data + 3 + 10 * 29999 + 1, "00000123", 8);
    assert_fails(qpc_decode(buffer.data, buffer.size, &v, &err), QPC_ERR_INVALID, &err,
                 "00000123: the key is there twice");
    qpc_buffer_fini(&buffer);
}

static void a_key_twice_is_found_in_maps_of_every_size(void **state) {
    (void)state;
    // Keys that differ in their middle only, so that some share a slot of the table.
    static const int sizes[] = {2, 3, 16, 60, 127, 128, 129, 130, 300};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        int n = sizes[s];
        qpc_buffer buffer = {0};
        qpc_value v = qpc_nil();
        qpc_error err = {0};
        const uint8_t front[] = {0xde, (uint8_t)(n >> 8), (uint8_t)n};
        assert_ok(qpc_buffer_append(&buffer, front, sizeof front), &err);
        for (int i = 0; i < n; i++) {
            char pair[32];
            snprintf(pair, sizeof pair,
                     "\xb4"
                     "same-hea%04dsame-tai\xc0",
                     i);
            assert_ok(qpc_buffer_append(&buffer, pair, 22), &err);
        }
        assert_ok(qpc_decode(buffer.data, buffer.size, &v, &err), &err);
        qpc_value_fini(&v);
        // The last one becomes each of a few others.
        for (int i = 0; i < n - 1; i += 1 + n / 7) {
            char digits[16];
            snprintf(digits, sizeof digits, "%04d", i);
            memcpy(buffer.data + 3 + (size_t)22 * (size_t)(n - 1) + 9, digits, 4);
            assert_fails(qpc_decode(buffer.data, buffer.size, &v, &err), QPC_ERR_INVALID, &err,
                         "the key is there twice");
        }
        qpc_buffer_fini(&buffer);
    }
}

static void text_that_is_not_utf8_leaves_as_text(void **state) {
    (void)state;
    qpc_value v = qpc_str_borrow("a\xff"
                                 "b\xc3\xbc\xc3",
                                 6);
    assert_encodes(&v, false, "a6 61 3f 62 c3bc 3f");
}

static void a_tree_too_deep_is_refused_and_the_buffer_kept(void **state) {
    (void)state;
    qpc_value v = qpc_nil();
    for (int i = 0; i < 66; i++) {
        qpc_value list = qpc_list();
        assert_int_equal(qpc_list_push(&list, v), QPC_OK);
        v = list;
    }
    qpc_buffer buffer = {0};
    qpc_error err = {0};
    assert_ok(qpc_buffer_append(&buffer, "kept", 4), &err);
    assert_fails(qpc_encode(&v, false, &buffer, &err), QPC_ERR_LIMIT, &err, "64 levels");
    assert_int_equal(buffer.size, 4);
    assert_memory_equal(buffer.data, "kept", 4);
    qpc_buffer_fini(&buffer);
    qpc_value_fini(&v);
}

static const char faults_hex[] =
    "93 85 a26e64 c3 a474797065 a33c6934 a46b696e64 a0 a57368617065 92 01 02 a464617461 c408"
    "01000000 feffffff  82 a161 93 01 02 03 a162 81 a163 a3787978  dc0003 c0c0c0";

static void every_failed_allocation_of_decoding_is_reported(void **state) {
    (void)state;
    uint8_t bytes[400];
    size_t size = from_hex(faults_hex, bytes, sizeof bytes);
    QPC_FAULTS(f) {
        qpc_value v = qpc_int(5);
        qpc_error err = {0};
        qpc_status status = qpc_decode(bytes, size, &v, &err);
        if (qpc_faults_ended(&f, status))
            qpc_value_fini(&v);
        else
            assert_int_equal(v.i, 5);
    }
    // The list for comparing many keys too.
    enum { MANY = 150 };
    uint8_t many[3 + 4 * MANY] = {0xde, 0, MANY};
    for (int i = 0; i < MANY; i++) {
        const uint8_t pair[4] = {0xa2, (uint8_t)('A' + i / 50), (uint8_t)('A' + i % 50), 0xc0};
        memcpy(many + 3 + 4 * i, pair, 4);
    }
    QPC_FAULTS(g) {
        qpc_value v = qpc_nil();
        qpc_error err = {0};
        qpc_status status = qpc_decode(many, sizeof many, &v, &err);
        if (qpc_faults_ended(&g, status)) qpc_value_fini(&v);
    }
}

static void every_failed_allocation_of_encoding_keeps_the_buffer(void **state) {
    (void)state;
    uint8_t bytes[400];
    qpc_value v = qpc_nil();
    decode_hex(faults_hex, bytes, sizeof bytes, &v);
    // A long text beside it, so that the buffer has to grow in between.
    static char text[3000];
    memset(text, 't', sizeof text);
    qpc_value list = qpc_list();
    assert_int_equal(qpc_list_push(&list, qpc_str_borrow(text, sizeof text)), QPC_OK);
    assert_int_equal(qpc_list_push(&list, v), QPC_OK);
    QPC_FAULTS(f) {
        qpc_buffer buffer = {0};
        qpc_error err = {0};
        qpc_status status = qpc_buffer_append(&buffer, "kept", 4);
        if (status == QPC_OK) status = qpc_encode(&list, false, &buffer, &err);
        if (!qpc_faults_ended(&f, status)) assert_true(buffer.size == 0 || buffer.size == 4);
        if (buffer.size > 0) assert_memory_equal(buffer.data, "kept", 4);
        qpc_buffer_fini(&buffer);
    }
    qpc_value_fini(&list);
}

static void a_buffer_grows_to_what_is_asked(void **state) {
    (void)state;
    qpc_buffer buffer = {0};
    assert_int_equal(qpc_buffer_reserve(&buffer, 3 << 20), QPC_OK);
    assert_true(buffer.capacity >= 3 << 20 && buffer.capacity < 4 << 20);
    const uint8_t *data = buffer.data;
    static uint8_t bytes[3 << 20];
    assert_int_equal(qpc_buffer_append(&buffer, bytes, sizeof bytes), QPC_OK);
    assert_ptr_equal(buffer.data, data);
    assert_int_equal(qpc_buffer_reserve(&buffer, SIZE_MAX - 10), QPC_ERR_MEMORY);
    assert_int_equal(buffer.size, sizeof bytes);
    qpc_buffer_fini(&buffer);
    qpc_buffer_fini(&buffer);
    qpc_buffer_fini(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_made_by_python_read_and_write),
        cmocka_unit_test(integers_keep_their_extremes),
        cmocka_unit_test(reals_keep_their_bits),
        cmocka_unit_test(text_and_bytes_are_borrowed_from_the_message),
        cmocka_unit_test(large_sizes_have_their_headers),
        cmocka_unit_test(arrays_come_as_tensors_with_borrowed_data),
        cmocka_unit_test(numpy_scalars_come_as_numbers),
        cmocka_unit_test(bad_arrays_say_what_is_wrong),
        cmocka_unit_test(what_is_not_a_value_of_ours_is_refused_with_its_place),
        cmocka_unit_test(what_is_not_one_whole_object_is_malformed),
        cmocka_unit_test(many_keys_are_compared_fast),
        cmocka_unit_test(a_key_twice_is_found_in_maps_of_every_size),
        cmocka_unit_test(text_that_is_not_utf8_leaves_as_text),
        cmocka_unit_test(a_tree_too_deep_is_refused_and_the_buffer_kept),
        cmocka_unit_test(every_failed_allocation_of_decoding_is_reported),
        cmocka_unit_test(every_failed_allocation_of_encoding_keeps_the_buffer),
        cmocka_unit_test(a_buffer_grows_to_what_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
