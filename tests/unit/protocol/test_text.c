/// UTF-8: what is, what is not, and how text from outside becomes fit to be shown.
#include "tests/unit/protocol/support.h"

#include "protocol/text.h"

static void well_formed_text_passes(void **state) {
    (void)state;
    static const char *const good[] = {
        "",
        "plain",
        "Z\xc3\xbcrich",
        "\xe6\x9d\xb1\xe4\xba\xac",
        "\xf0\x9f\xaa\xa2",
        "\xc2\x80",
        "\xdf\xbf",
        "\xe0\xa0\x80",
        "\xed\x9f\xbf",
        "\xee\x80\x80",
        "\xef\xbf\xbf",
        "\xf0\x90\x80\x80",
        "\xf4\x8f\xbf\xbf",
        "-123456789abcdef\xc3\xbcghijklmnop",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(qpc_utf8_prefix(good[i], strlen(good[i])), strlen(good[i]));
}

static void the_first_bad_byte_is_found(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t bad;
    } cases[] = {
        {"\x80", 0},                 // a continuation alone
        {"ab\xff", 2},               //
        {"\xc0\x80", 0},             // overlong NUL
        {"\xc1\xbf", 0},             // overlong
        {"\xe0\x9f\xbf", 0},         // overlong
        {"\xed\xa0\x80", 0},         // a surrogate
        {"\xf0\x8f\xbf\xbf", 0},     // overlong
        {"\xf4\x90\x80\x80", 0},     // beyond U+10FFFF
        {"\xf5\x80\x80\x80", 0},     //
        {"x\xc3", 1},                // cut
        {"\xe6\x9d", 0},             // cut
        {"\xf0\x9f\xaa", 0},         // cut
        {"\xc3\x28", 0},             // no continuation
        {"01234567\xe2\x28\xa1", 8}, //
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t at = qpc_utf8_prefix(cases[i].text, strlen(cases[i].text));
        if (at != cases[i].bad) fail_msg("case %zu: %zu, want %zu", i, at, cases[i].bad);
    }
}

static void cleaned_text_is_always_text(void **state) {
    (void)state;
    char out[16];
    qpc_utf8_clean("a\xff"
                   "b\n\0c",
                   6, out, sizeof out);
    assert_string_equal(out, "a?b??c");
    qpc_utf8_clean("Z\xc3\xbcrich", 7, out, 3); // the two bytes of the letter do not fit
    assert_string_equal(out, "Z");
    qpc_utf8_clean("Z\xc3\xbcrich", 7, out, 4);
    assert_string_equal(out, "Z\xc3\xbc");
    qpc_utf8_clean("anything", 8, out, 1);
    assert_string_equal(out, "");

    uint64_t seed = 3;
    for (int round = 0; round < 20000; round++) {
        char bytes[24];
        size_t size = next_random(&seed) % sizeof bytes, room = 1 + next_random(&seed) % 12;
        for (size_t i = 0; i < size; i++) bytes[i] = (char)next_random(&seed);
        qpc_utf8_clean(bytes, size, out, room);
        size_t length = strlen(out);
        assert_true(length < room);
        assert_int_equal(qpc_utf8_prefix(out, length), length);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(well_formed_text_passes),
        cmocka_unit_test(the_first_bad_byte_is_found),
        cmocka_unit_test(cleaned_text_is_always_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
