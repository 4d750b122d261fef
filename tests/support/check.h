/// cmocka with the headers that it wants before it, and a few assertions of ours.
#ifndef QPC_TESTS_SUPPORT_CHECK_H
#define QPC_TESTS_SUPPORT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/status.h"

#include <math.h>
#include <string.h>

/// The call succeeded; else its message is shown.
#define assert_ok(call, err)                                                                       \
    do {                                                                                           \
        qpc_status assert_ok_status = (call);                                                      \
        if (assert_ok_status != QPC_OK)                                                            \
            fail_msg("%s: %s: %s", #call, qpc_status_name(assert_ok_status), (err)->message);      \
    } while (0)

/// The call failed with this status, and its message holds this text.
#define assert_fails(call, wanted, err, text)                                                      \
    do {                                                                                           \
        qpc_status assert_fails_status = (call);                                                   \
        if (assert_fails_status != (wanted))                                                       \
            fail_msg("%s: got %s, want %s", #call, qpc_status_name(assert_fails_status),           \
                     qpc_status_name(wanted));                                                     \
        if (strstr((err)->message, (text)) == NULL)                                                \
            fail_msg("message \"%s\" lacks \"%s\"", (err)->message, (text));                       \
    } while (0)

/// |a - b| <= tolerance; NaN never passes.
#define assert_near(a, b, tolerance)                                                               \
    do {                                                                                           \
        double assert_near_a = (a), assert_near_b = (b);                                           \
        if (!(fabs(assert_near_a - assert_near_b) <= (tolerance)))                                 \
            fail_msg("%s is %.17g, want %.17g within %g", #a, assert_near_a, assert_near_b,        \
                     (double)(tolerance));                                                         \
    } while (0)

#endif
