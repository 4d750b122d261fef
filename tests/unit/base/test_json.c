/// JSON text to and from trees.
#include "tests/support/check.h"

#include "base/json.h"
#include "tests/support/faults.h"

#include <float.h>
#include <locale.h>
#include <stdlib.h>

static qpc_value parse(const char *text) {
    qpc_error err = {0};
    qpc_value v;
    assert_ok(qpc_json_parse(text, strlen(text), &v, &err), &err);
    return v;
}

static void assert_written(const qpc_value *v, int indent, bool sort_keys, const char *wanted) {
    qpc_error err = {0};
    char *text = NULL;
    assert_ok(qpc_json_write(v, indent, sort_keys, &text, &err), &err);
    assert_string_equal(text, wanted);
    qpc_free(text);
}

static void documents_become_trees_in_their_order(void **state) {
    (void)state;
    qpc_value v =
        parse("{\"z\": [1, 2.0, -3e2, true, false, null], \"a\": \"h\\u00e9\\n\", \"m\": {}}");
    assert_int_equal(v.kind, QPC_MAP);
    assert_int_equal(v.map.count, 3);
    assert_true(qpc_str_equal(&v.map.pairs[0].key, "z"));
    assert_true(qpc_str_equal(&v.map.pairs[1].key, "a"));
    assert_true(qpc_str_equal(qpc_map_get(&v, "a"), "h\xC3\xA9\n"));
    const qpc_value *z = qpc_map_get(&v, "z");
    assert_int_equal(z->list.count, 6);
    assert_int_equal(z->list.items[0].kind, QPC_INT);
    assert_int_equal(z->list.items[1].kind, QPC_REAL);
    assert_true(z->list.items[2].real == -300.0);
    assert_int_equal(z->list.items[5].kind, QPC_NIL);
    assert_written(&v, 0, false,
                   "{\"z\":[1,2.0,-300.0,true,false,null],\"a\":\"h\xC3\xA9\\n\",\"m\":{}}");
    assert_written(&v, 0, true,
                   "{\"a\":\"h\xC3\xA9\\n\",\"m\":{},\"z\":[1,2.0,-300.0,true,false,null]}");
    assert_written(&v, 2, false,
                   "{\n  \"z\": [1, 2.0, -300.0, true, false, null],\n"
                   "  \"a\": \"h\xC3\xA9\\n\",\n  \"m\": {}\n}");
    qpc_value_fini(&v);
    v = parse(" 7 ");
    assert_true(v.kind == QPC_INT && v.i == 7);
    v = parse("[-9223372036854775808, 9223372036854775807]");
    assert_true(v.list.items[0].i == INT64_MIN && v.list.items[1].i == INT64_MAX);
    qpc_value_fini(&v);
}

static void bad_documents_are_refused_with_their_place(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"", "line 1"},
        {"{\"a\": 1,\n \"a\": 2}", "line 2, column 4: not JSON: duplicate object key"},
        {"[1, 2", "line 1"},
        {"[1,\n2,\nNaN]", "line 3"},
        {"[Infinity]", "line 1"},
        {"[1] 2", "end of file expected"},
        {"[1]]", "end of file expected"},
        {"[99999999999999999999]", "too big integer"},
        {"[1e999]", "real number overflow"},
        {"[\"\\u0000\"]", "not JSON"},
        {"[\"\\ud800\"]", "not JSON"},
        {"[\"\xC3\"]", "line"},
        {"[01]", "not JSON"},
        {"{a: 1}", "not JSON"},
        {"{\"a\" 1}", "not JSON"},
        {"['a']", "not JSON"},
        {"[1,]", "not JSON"},
        {"\"\n\"", "not JSON"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        qpc_error err = {0};
        qpc_value v = qpc_int(42);
        assert_fails(qpc_json_parse(bad[i].text, strlen(bad[i].text), &v, &err), QPC_ERR_INVALID,
                     &err, bad[i].message);
        assert_non_null(strstr(err.where, "line"));
        assert_true(v.kind == QPC_INT && v.i == 42);
    }
    qpc_error err = {0};
    qpc_value v;
    assert_fails(qpc_json_parse("[1\0]", 4, &v, &err), QPC_ERR_INVALID, &err, "not JSON");
    assert_fails(qpc_json_parse("[1]\0", 4, &v, &err), QPC_ERR_INVALID, &err, "not JSON");
}

static void depth_is_limited_to_64(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_value v;
    char text[200];
    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    assert_ok(qpc_json_parse(text, 128, &v, &err), &err);
    char *back = NULL;
    assert_ok(qpc_json_write(&v, 0, true, &back, &err), &err);
    assert_memory_equal(back, text, 128);
    qpc_free(back);
    qpc_value_fini(&v);
    memset(text, '[', 65);
    memset(text + 65, ']', 65);
    assert_fails(qpc_json_parse(text, 130, &v, &err), QPC_ERR_INVALID, &err,
                 "line 1, column 65: nested deeper than 64 levels");
    // A file of brackets stops at the limit, and brackets in text do not count.
    char *many = qpc_alloc(1000000);
    memset(many, '[', 1000000);
    assert_fails(qpc_json_parse(many, 1000000, &v, &err), QPC_ERR_INVALID, &err, "column 65");
    many[0] = many[999999] = '"';
    many[1] = '\\';
    many[2] = '"';
    assert_ok(qpc_json_parse(many, 1000000, &v, &err), &err);
    qpc_value_fini(&v);
    qpc_free(many);
}

static void reals_read_back_to_the_same_bits(void **state) {
    (void)state;
    qpc_error err = {0};
    static const double fixed[] = {0.0,         -0.0,      0.1,     1.0,     1e15,      1e16,
                                   123456789.0, 5e-324,    DBL_MIN, DBL_MAX, -1e-7,     1e22,
                                   1e23,        0.1 + 0.2, 1.0 / 3, 0x1p53,  0x1p53 + 2};
    enum { FIXED = sizeof fixed / sizeof fixed[0] };
    uint64_t seed = 12345;
    for (int i = 0; i < FIXED + 20000; i++) {
        double d;
        if (i < FIXED) {
            d = fixed[i];
        } else {
            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            memcpy(&d, &seed, sizeof d);
            if (!isfinite(d)) continue;
        }
        qpc_value v = qpc_real(d), back;
        char *text = NULL;
        assert_ok(qpc_json_write(&v, 0, false, &text, &err), &err);
        assert_ok(qpc_json_parse(text, strlen(text), &back, &err), &err);
        assert_int_equal(back.kind, QPC_REAL);
        assert_memory_equal(&back.real, &d, sizeof d);
        qpc_free(text);
    }
    qpc_value v = qpc_real(0.1);
    assert_written(&v, 0, false, "0.1");
}

static void what_json_has_not_is_written_by_rule(void **state) {
    (void)state;
    qpc_value v = qpc_real((double)NAN);
    assert_written(&v, 0, false, "null");
    v = qpc_real((double)-INFINITY);
    assert_written(&v, 0, false, "null");
    v = qpc_uint(UINT64_MAX);
    assert_written(&v, 0, false, "18446744073709551615");
    v = qpc_bin_borrow("\x00\xAB\xFF", 3);
    assert_written(&v, 0, false, "\"00abff\"");
    v = qpc_str_borrow("a\0\x1F\"\\\t\x7F", 7);
    assert_written(&v, 0, false, "\"a\\u0000\\u001f\\\"\\\\\\t\x7F\"");
    // Lone, overlong, surrogate, too large and cut sequences.
    v = qpc_str_borrow("x\x80 \xC0\x80 \xED\xA0\x80 \xF4\x90\x80\x80 \xE2\x82", 17);
    char *text = NULL;
    qpc_error err = {0};
    qpc_value back;
    assert_ok(qpc_json_write(&v, 0, false, &text, &err), &err);
    assert_ok(qpc_json_parse(text, strlen(text), &back, &err), &err);
    assert_true(strncmp(back.str.bytes, "x\xEF\xBF\xBD ", 5) == 0);
    qpc_free(text);
    qpc_value_fini(&back);
}

static void tensors_become_nested_lists(void **state) {
    (void)state;
    static const double f64[4] = {1, 0.5, -2, 1e300};
    static const float f32[4] = {0.1F, 1, 16777216.0F, 3.4e38F};
    static const int32_t i32[4] = {1, -2, 3, INT32_MIN};
    static const uint8_t u8[4] = {0, 1, 255, 7};
    static const int64_t i64[4] = {INT64_MIN, 0, 1, 2}, square[2] = {2, 2}, flat[1] = {4};
    static const uint64_t u64[4] = {UINT64_MAX, 0, 1, 2};
    qpc_value v = qpc_tensor_borrow(QPC_F64, 2, square, f64);
    assert_written(&v, 0, false, "[[1.0,0.5],[-2.0,1e+300]]");
    assert_written(&v, 2, false, "[\n  [1.0, 0.5],\n  [-2.0, 1e+300]\n]");
    v = qpc_tensor_borrow(QPC_F32, 1, flat, f32);
    assert_written(&v, 0, false, "[0.1,1.0,16777216.0,3.4e+38]");
    v = qpc_tensor_borrow(QPC_I32, 2, square, i32);
    assert_written(&v, 0, false, "[[1,-2],[3,-2147483648]]");
    v = qpc_tensor_borrow(QPC_U8, 1, flat, u8);
    assert_written(&v, 0, false, "[0,1,255,7]");
    v = qpc_tensor_borrow(QPC_I64, 1, flat, i64);
    assert_written(&v, 0, false, "[-9223372036854775808,0,1,2]");
    v = qpc_tensor_borrow(QPC_U64, 1, flat, u64);
    assert_written(&v, 0, false, "[18446744073709551615,0,1,2]");
    v = qpc_tensor_borrow(QPC_F64, 2, (const int64_t[]){0, 3}, f64);
    assert_written(&v, 0, false, "[]");
    v = qpc_tensor_borrow(QPC_F64, 0, NULL, f64);
    assert_written(&v, 0, false, "1.0");
}

static void canonical_keys_go_by_bytes(void **state) {
    (void)state;
    qpc_value v = parse("{\"b\":1,\"B\":2,\"a\":3,\"aa\":4,\"\":5,\"\\u00e9\":6}");
    assert_written(&v, 0, true, "{\"\":5,\"B\":2,\"a\":3,\"aa\":4,\"b\":1,\"\xC3\xA9\":6}");
    qpc_value_fini(&v);
}

static void trees_too_deep_are_an_error(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_value v = qpc_list();
    for (int i = 0; i < 200; i++) {
        qpc_value outer = qpc_list();
        assert_int_equal(qpc_list_push(&outer, v), QPC_OK);
        v = outer;
    }
    char *text = NULL;
    assert_fails(qpc_json_write(&v, 0, false, &text, &err), QPC_ERR_INVALID, &err, "128 levels");
    assert_null(text);
    qpc_value_fini(&v);
}

static void parsing_and_writing_survive_failed_allocations(void **state) {
    (void)state;
    static const char text[] = "{\"dt\": 0.005, \"bodies\": [{\"kind\": \"cable\", \"x\": [[0,1,2],"
                               "[3,4,5]]}, {\"kind\": \"static\"}], \"name\": \"caf\\u00e9\"}";
    QPC_FAULTS(f) {
        qpc_error err = {0};
        qpc_value v = qpc_nil();
        if (qpc_faults_ended(&f, qpc_json_parse(text, strlen(text), &v, &err))) qpc_value_fini(&v);
    }
    qpc_value v = parse(text);
    QPC_FAULTS(f) {
        char *out = NULL;
        if (qpc_faults_ended(&f, qpc_json_write(&v, 2, true, &out, NULL))) qpc_free(out);
    }
    qpc_value_fini(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_become_trees_in_their_order),
        cmocka_unit_test(bad_documents_are_refused_with_their_place),
        cmocka_unit_test(depth_is_limited_to_64),
        cmocka_unit_test(reals_read_back_to_the_same_bits),
        cmocka_unit_test(what_json_has_not_is_written_by_rule),
        cmocka_unit_test(tensors_become_nested_lists),
        cmocka_unit_test(canonical_keys_go_by_bytes),
        cmocka_unit_test(trees_too_deep_are_an_error),
        cmocka_unit_test(parsing_and_writing_survive_failed_allocations),
    };
    int failed = cmocka_run_group_tests_name("base/json", tests, NULL, NULL);
    return failed != 0 || qpc_mem_live_blocks() != 0;
}
