/// Log lines, read back through a pipe.
#include "tests/support/check.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int ends[2];

static int open_pipe(void **state) {
    (void)state;
    if (pipe(ends) != 0) return -1;
    return fcntl(ends[0], F_SETFL, O_NONBLOCK);
}

static int close_pipe(void **state) {
    (void)state;
    qpc_log_init(QPC_LOG_INFO, 2);
    close(ends[0]);
    close(ends[1]);
    return 0;
}

/// All that was logged since the last call.
static const char *logged(void) {
    static char text[16384];
    ssize_t n = read(ends[0], text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void a_line_has_time_level_event_and_pairs(void **state) {
    (void)state;
    regex_t pattern;
    qpc_log_init(QPC_LOG_INFO, ends[1]);
    qpc_log(QPC_LOG_WARN, "step_failed", "world=%d step=%lld", 3, 120LL);
    assert_int_equal(
        regcomp(&pattern,
                "^ts=20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]\\.[0-9]{3}Z "
                "level=warn event=step_failed world=3 step=120\n$",
                REG_EXTENDED | REG_NOSUB),
        0);
    assert_int_equal(regexec(&pattern, logged(), 0, NULL, 0), 0);
    regfree(&pattern);
    qpc_log(QPC_LOG_INFO, "started", "%s", "");
    const char *text = logged();
    assert_non_null(strstr(text, "event=started"));
}

static void lines_below_the_level_are_dropped(void **state) {
    (void)state;
    qpc_log_init(QPC_LOG_WARN, ends[1]);
    qpc_log(QPC_LOG_DEBUG, "x", "a=1");
    qpc_log(QPC_LOG_INFO, "x", "a=1");
    assert_string_equal(logged(), "");
    assert_false(qpc_log_enabled(QPC_LOG_INFO));
    assert_true(qpc_log_enabled(QPC_LOG_ERROR));
    qpc_log(QPC_LOG_ERROR, "x", "a=1");
    assert_non_null(strstr(logged(), "level=error"));
    qpc_log_init(QPC_LOG_OFF, ends[1]);
    qpc_log(QPC_LOG_ERROR, "x", "a=1");
    qpc_log(QPC_LOG_OFF, "x", "a=1");
    assert_string_equal(logged(), "");
}

static void level_names_are_known(void **state) {
    (void)state;
    qpc_log_level level = QPC_LOG_INFO;
    assert_true(qpc_log_level_from_name("debug", &level));
    assert_int_equal(level, QPC_LOG_DEBUG);
    assert_true(qpc_log_level_from_name("ERROR", &level));
    assert_int_equal(level, QPC_LOG_ERROR);
    assert_true(qpc_log_level_from_name("off", &level));
    assert_int_equal(level, QPC_LOG_OFF);
    assert_false(qpc_log_level_from_name("verbose", &level));
    assert_false(qpc_log_level_from_name("", &level));
    assert_int_equal(level, QPC_LOG_OFF);
}

static void one_call_is_one_line(void **state) {
    (void)state;
    qpc_log_init(QPC_LOG_INFO, ends[1]);
    qpc_log(QPC_LOG_INFO, "x", "msg=%s", "two\nlines\r\x1b[31m");
    const char *text = logged();
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    assert_null(strchr(text, '\x1b'));
}

static void long_lines_are_cut_and_marked(void **state) {
    (void)state;
    static char long_text[10000];
    memset(long_text, 'y', sizeof long_text - 1);
    qpc_log_init(QPC_LOG_INFO, ends[1]);
    qpc_log(QPC_LOG_INFO, "x", "msg=%s", long_text);
    const char *text = logged();
    size_t n = strlen(text);
    assert_true(n > 4000 && n <= 4096);
    assert_string_equal(text + n - 5, "y...\n");
}

static void errno_is_kept(void **state) {
    (void)state;
    qpc_log_init(QPC_LOG_INFO, -1);
    errno = ENOSPC;
    qpc_log(QPC_LOG_INFO, "x", "a=1"); // to nowhere
    assert_int_equal(errno, ENOSPC);
}

static void outside_text_is_quoted_and_escaped(void **state) {
    (void)state;
    char out[64], small[8];
    assert_string_equal(qpc_log_quote("plain text", out, sizeof out), "\"plain text\"");
    assert_string_equal(qpc_log_quote("a\"b\\c\nd\x01\x7F", out, sizeof out),
                        "\"a\\\"b\\\\c\\nd\\x01\\x7f\"");
    assert_string_equal(qpc_log_quote("caf\xC3\xA9", out, sizeof out), "\"caf\xC3\xA9\"");
    assert_string_equal(qpc_log_quote("", out, sizeof out), "\"\"");
    assert_string_equal(qpc_log_quote("123456789", small, sizeof small), "\"12345\"");
    assert_string_equal(qpc_log_quote("1234\xC3\xA9", small, sizeof small), "\"1234\"");
    assert_string_equal(qpc_log_quote("1234\n", small, sizeof small), "\"1234\"");
    assert_string_equal(qpc_log_quote("123456", small, 3), "\"\"");
    assert_string_equal(qpc_log_quote("123456", small, 2), "");
    assert_string_equal(qpc_log_quote("123456", small, 0), "");
}

static void a_limiter_admits_one_per_interval(void **state) {
    (void)state;
    qpc_log_limit limit = {0};
    int64_t suppressed = -1;
    assert_true(qpc_log_admit(&limit, 50, &suppressed));
    assert_true(suppressed == 0);
    for (int i = 0; i < 5; i++) assert_false(qpc_log_admit(&limit, 50, &suppressed));
    struct timespec t = {0, 60000000};
    nanosleep(&t, NULL);
    assert_true(qpc_log_admit(&limit, 50, &suppressed));
    assert_true(suppressed == 5);
}

static void *write_lines(void *arg) {
    for (int i = 0; i < 50; i++) qpc_log(QPC_LOG_INFO, "thread", "a=%d b=%d", *(int *)arg, i);
    return NULL;
}

static void lines_of_threads_do_not_mix(void **state) {
    (void)state;
    pthread_t threads[3];
    int ids[3] = {1, 2, 3}, lines = 0;
    qpc_log_init(QPC_LOG_INFO, ends[1]);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, &ids[i]), 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    char *text = strdup(logged()), *rest = text;
    for (char *line = strsep(&rest, "\n"); line != NULL && *line != '\0';
         line = strsep(&rest, "\n"), lines++) {
        int a = 0, b = -1, used = 0;
        const char *tail = strstr(line, "event=thread ");
        assert_true(strncmp(line, "ts=20", 5) == 0 && tail != NULL);
        assert_int_equal(sscanf(tail, "event=thread a=%d b=%d%n", &a, &b, &used), 2);
        assert_true(a >= 1 && a <= 3 && b >= 0 && b < 50 && tail[used] == '\0');
    }
    free(text);
    assert_int_equal(lines, 150);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_has_time_level_event_and_pairs, open_pipe,
                                        close_pipe),
        cmocka_unit_test_setup_teardown(lines_below_the_level_are_dropped, open_pipe, close_pipe),
        cmocka_unit_test(level_names_are_known),
        cmocka_unit_test_setup_teardown(one_call_is_one_line, open_pipe, close_pipe),
        cmocka_unit_test_setup_teardown(long_lines_are_cut_and_marked, open_pipe, close_pipe),
        cmocka_unit_test_setup_teardown(errno_is_kept, open_pipe, close_pipe),
        cmocka_unit_test(outside_text_is_quoted_and_escaped),
        cmocka_unit_test(a_limiter_admits_one_per_interval),
        cmocka_unit_test_setup_teardown(lines_of_threads_do_not_mix, open_pipe, close_pipe),
    };
    return cmocka_run_group_tests_name("base/log", tests, NULL, NULL);
}
