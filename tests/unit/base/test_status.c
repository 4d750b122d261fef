/// Status codes and error texts.
#include "tests/support/check.h"

#include <stdlib.h>

static void codes_and_names_are_the_published_ones(void **state) {
    (void)state;
    static const struct {
        int code;
        const char *name;
    } published[] = {
        {0, "OK"},          {1, "INVALID"},        {2, "NOT_FOUND"},  {3, "EXISTS"},
        {4, "LIMIT"},       {5, "BUSY"},           {6, "STATE"},      {7, "UNAUTHORISED"},
        {8, "UNSUPPORTED"}, {9, "UNKNOWN_METHOD"}, {10, "MALFORMED"}, {11, "MEMORY"},
        {12, "IO"},         {13, "FULL"},          {14, "CORRUPT"},   {15, "NUMERIC"},
        {16, "CANCELLED"},  {17, "DEADLINE"},      {18, "INTERNAL"},
    };
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        assert_string_equal(qpc_status_name((qpc_status)published[i].code), published[i].name);
        assert_true(strlen(qpc_status_text((qpc_status)published[i].code)) > 5);
    }
    assert_string_equal(qpc_status_name((qpc_status)19), "UNKNOWN");
    assert_string_equal(qpc_status_name((qpc_status)-1), "UNKNOWN");
}

static void a_failure_carries_status_place_and_message(void **state) {
    (void)state;
    qpc_error err = {0};
    assert_int_equal(qpc_fail_at(&err, QPC_ERR_LIMIT, "meshes[3]", "%d faces", 7), QPC_ERR_LIMIT);
    assert_int_equal(err.status, QPC_ERR_LIMIT);
    assert_string_equal(err.where, "meshes[3]");
    assert_string_equal(err.message, "meshes[3]: 7 faces");
    assert_int_equal(qpc_fail(&err, QPC_ERR_IO, "no %s", "disk"), QPC_ERR_IO);
    assert_string_equal(err.where, "");
    assert_string_equal(err.message, "no disk");
}

static void an_empty_place_leaves_no_mark(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_fail_at(&err, QPC_ERR_INVALID, "", "x");
    assert_string_equal(err.message, "x");
    qpc_fail_at(&err, QPC_ERR_INVALID, NULL, "y");
    assert_string_equal(err.message, "y");
}

static void a_null_error_is_accepted(void **state) {
    (void)state;
    assert_int_equal(qpc_fail(NULL, QPC_ERR_IO, "x"), QPC_ERR_IO);
    assert_int_equal(qpc_fail_at(NULL, QPC_ERR_IO, "w", "x"), QPC_ERR_IO);
}

static void an_error_can_wrap_itself(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_fail_at(&err, QPC_ERR_INVALID, "mass", "negative");
    qpc_fail_at(&err, err.status, "bodies[2]", "%s", err.message);
    assert_string_equal(err.message, "bodies[2]: mass: negative");
    qpc_fail_at(&err, err.status, err.where, "again %s", err.message);
    assert_string_equal(err.message, "bodies[2]: again bodies[2]: mass: negative");
}

static int is_whole_utf8(const char *s) {
    while (*s != '\0') {
        unsigned char c = (unsigned char)*s++;
        int more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : c >= 0xC0 ? 1 : 0;
        for (; more > 0; more--)
            if (((unsigned char)*s++ & 0xC0U) != 0x80U) return 0;
    }
    return 1;
}

static void long_texts_are_cut_between_characters(void **state) {
    (void)state;
    static const char *const letters[] = {"x", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    for (int letter = 0; letter < 4; letter++) {
        for (int shift = 0; shift < 4; shift++) {
            char text[4096] = "", name[4096] = "";
            size_t size = strlen(letters[letter]);
            memset(text, 'a', (size_t)shift);
            for (size_t n = (size_t)shift; n + size < sizeof text; n += size)
                memcpy(text + n, letters[letter], size + 1);
            memcpy(name, text, 400);
            name[400 - (400 - (size_t)shift) % size] = '\0';
            qpc_error err = {0};
            qpc_fail_at(&err, QPC_ERR_INVALID, name, "%s", text);
            assert_true(is_whole_utf8(err.where));
            assert_true(is_whole_utf8(err.message));
            assert_true(strlen(err.where) >= sizeof err.where - 4);
            assert_true(strlen(err.message) >= sizeof err.message - 4);
            qpc_fail(&err, QPC_ERR_INVALID, "%s", text);
            assert_true(is_whole_utf8(err.message));
        }
    }
}

static void a_text_that_fits_exactly_is_whole(void **state) {
    (void)state;
    qpc_error err = {0};
    char text[sizeof err.message];
    memset(text, 'a', sizeof text);
    memcpy(text + sizeof text - 3, "\xC3\xA9", 3);
    qpc_fail(&err, QPC_ERR_INVALID, "%s", text);
    assert_string_equal(err.message, text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_and_names_are_the_published_ones),
        cmocka_unit_test(a_failure_carries_status_place_and_message),
        cmocka_unit_test(an_empty_place_leaves_no_mark),
        cmocka_unit_test(a_null_error_is_accepted),
        cmocka_unit_test(an_error_can_wrap_itself),
        cmocka_unit_test(long_texts_are_cut_between_characters),
        cmocka_unit_test(a_text_that_fits_exactly_is_whole),
    };
    return cmocka_run_group_tests_name("base/status", tests, NULL, NULL);
}
