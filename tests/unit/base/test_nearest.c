/// The nearest known name.
#include "tests/support/check.h"

#include "base/nearest.h"

static const char *const names[] = {"mass", "radius",  "stiffness", "damping", "initial_velocity",
                                    "dt",   "gravity", NULL};

static const char *nearest(const char *s) {
    return qpc_nearest(s, strlen(s), names);
}

static void misspelt_names_are_recognised(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {"mas", "mass"},
        {"masss", "mass"},
        {"msas", "mass"},
        {"MASS", "mass"},
        {"stifness", "stiffness"},
        {"Radius", "radius"},
        {"raduis", "radius"},
        {"initialVelocity", "initial_velocity"},
        {"dampign", "damping"},
        {"gravty", "gravity"},
        {"td", "dt"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        assert_non_null(nearest(pairs[i][0]));
        assert_string_equal(nearest(pairs[i][0]), pairs[i][1]);
    }
}

static void far_names_give_none(void **state) {
    (void)state;
    assert_null(nearest("temperature"));
    assert_null(nearest("xq"));
    assert_null(nearest(""));
    assert_null(qpc_nearest("mass", 4, (const char *const[]){NULL}));
}

static void of_equals_the_first_wins(void **state) {
    (void)state;
    static const char *const equals[] = {"bb", "bc", "ab", NULL};
    assert_string_equal(qpc_nearest("b", 1, equals), "bb");
}

static void long_and_binary_names_are_safe(void **state) {
    (void)state;
    char text[300];
    memset(text, 'm', sizeof text);
    assert_null(qpc_nearest(text, sizeof text, names));
    memset(text, '\xFF', sizeof text);
    assert_null(qpc_nearest(text, sizeof text, names));
    memset(text, 0, sizeof text);
    assert_null(qpc_nearest(text, 10, names));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(misspelt_names_are_recognised),
        cmocka_unit_test(far_names_give_none),
        cmocka_unit_test(of_equals_the_first_wins),
        cmocka_unit_test(long_and_binary_names_are_safe),
    };
    return cmocka_run_group_tests_name("base/nearest", tests, NULL, NULL);
}
