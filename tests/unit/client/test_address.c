/// Addresses as text.
#include "tests/support/check.h"

#include "client/libqpc/address.h"

#include <stdio.h>

static void good_forms_are_taken_apart(void **state) {
    (void)state;
    static const struct {
        const char *text, *host, *port;
        bool is_unix;
    } good[] = {
        {"localhost:80", "localhost", "80", false},
        {"localhost", "localhost", "7447", false},
        {"10.0.0.1:65535", "10.0.0.1", "65535", false},
        {"[::1]:7447", "::1", "7447", false},
        {"[fe80::1%eth0]", "fe80::1%eth0", "7447", false},
        {"unix:/run/q.sock", "/run/q.sock", "7447", true},
        {"unix:relative", "relative", "7447", true},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        qpc_address a;
        qpc_error err = {0};
        assert_ok(qpc_address_parse(good[i].text, &a, &err), &err);
        assert_string_equal(a.host, good[i].host);
        assert_string_equal(a.port, good[i].port);
        assert_int_equal(a.is_unix, good[i].is_unix);
    }
}

static void bad_forms_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"", "host is empty"},
        {":7447", "host is empty"},
        {"h:", "port"},
        {"h:0", "port"},
        {"h:65536", "port"},
        {"h:7x", "port"},
        {"h:-1", "port"},
        {"h: 1", "port"},
        {"::1", "brackets"},
        {"[::1", "[ipv6]:port"},
        {"[::1]7", "[ipv6]:port"},
        {"[]:7", "host is empty"},
        {"unix:", "path is empty"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qpc_address a;
        qpc_error err = {0};
        assert_fails(qpc_address_parse(bad[i].text, &a, &err), QPC_ERR_INVALID, &err,
                     bad[i].message);
    }
    char text[400];
    qpc_address a;
    qpc_error err = {0};
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_fails(qpc_address_parse(text, &a, &err), QPC_ERR_INVALID, &err, "too long");
    memcpy(text, "unix:", 5);
    assert_fails(qpc_address_parse(text, &a, &err), QPC_ERR_INVALID, &err, "at most 107");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_forms_are_taken_apart),
        cmocka_unit_test(bad_forms_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
