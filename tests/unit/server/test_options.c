/// Options: sources and their order, ranges, addresses, what --help says.
#include "server/options.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char *no_environment[] = {(char *)(uintptr_t)"HOME=/home/user", NULL};

/// Words to argv; at most 15.
static qpc_status parse(const char *line, char *const *environment, qpc_options *ret,
                        qpc_error *err) {
    static char buffer[1024];
    char *argv[16] = {(char *)(uintptr_t)"qpcollided"};
    int argc = 1;
    snprintf(buffer, sizeof buffer, "%s", line);
    for (char *word = strtok(buffer, " "); word != NULL && argc < 15; word = strtok(NULL, " ")) {
        argv[argc++] = word;
    }
    return qpc_options_parse(argc, argv, environment, ret, err);
}

static void refused(const char *line, const char *word) {
    qpc_options options;
    qpc_error error = {0};
    assert_int_equal(parse(line, no_environment, &options, &error), QPC_ERR_INVALID);
    if (strstr(error.message, word) == NULL) fail_msg("'%s' is not in: %s", word, error.message);
}

static void defaults_listen_on_loopback_and_find_the_data_folder(void **state) {
    (void)state;
    qpc_options o;
    assert_int_equal(parse("", no_environment, &o, NULL), QPC_OK);
    assert_int_equal(o.listen_count, 2);
    assert_string_equal(o.listen[0], "127.0.0.1:7447");
    assert_string_equal(o.listen[1], "[::1]:7447");
    assert_true(o.listen_default);
    assert_string_equal(o.data_dir, "/home/user/.local/share/qpcollide");
    assert_int_equal(o.max_message_bytes, 64 << 20);
    assert_true(o.workers >= 1);
    assert_true(o.record);
    char *xdg[] = {(char *)(uintptr_t)"HOME=/h", (char *)(uintptr_t)"XDG_DATA_HOME=/x", NULL};
    assert_int_equal(parse("", xdg, &o, NULL), QPC_OK);
    assert_string_equal(o.data_dir, "/x/qpcollide");
    char *nothing[] = {NULL};
    assert_int_equal(parse("", nothing, &o, NULL), QPC_ERR_INVALID);
    assert_int_equal(parse("--data /d", nothing, &o, NULL), QPC_OK);
}

static void numbers_bytes_and_switches_are_read(void **state) {
    (void)state;
    qpc_options o;
    assert_int_equal(parse("--workers 3 --max-message-bytes=2M --max-queued-bytes 1GiB --no-record "
                           "--log-level debug --storage-queue-bytes 100000B",
                           no_environment, &o, NULL),
                     QPC_OK);
    assert_int_equal(o.workers, 3);
    assert_int_equal(o.max_message_bytes, 2 << 20);
    assert_int_equal(o.max_queued_bytes, 1 << 30);
    assert_int_equal(o.storage_queue_bytes, 100000);
    assert_false(o.record);
    assert_int_equal(o.log_level, QPC_LOG_DEBUG);
}

static void flags_win_over_environment_over_file(void **state) {
    (void)state;
    char path[] = "/tmp/qpc-options-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    const char text[] = "# a comment\n[qpcollided]\nmax-worlds = 1\nmax-depth = 11\n"
                        "listen = 127.0.0.1:1, [::1]:2\nno-record = yes\n";
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    char line[200];
    char *environment[] = {(char *)(uintptr_t)"HOME=/h", (char *)(uintptr_t)"QPC_MAX_DEPTH=12",
                           (char *)(uintptr_t)"QPC_MAX_MESHES=2", NULL};
    qpc_options o;
    qpc_error error = {0};
    snprintf(line, sizeof line, "--max-meshes 3 --config %s", path);
    assert_int_equal(parse(line, environment, &o, &error), QPC_OK);
    assert_int_equal(o.max_worlds, 1);
    assert_int_equal(o.max_depth, 12);
    assert_int_equal(o.max_meshes, 3);
    assert_int_equal(o.listen_count, 2);
    assert_string_equal(o.listen[1], "[::1]:2");
    assert_false(o.listen_default);
    assert_false(o.record);
    // A list of a stronger source replaces the weaker one's.
    snprintf(line, sizeof line, "--listen 127.0.0.1:9 --config %s", path);
    assert_int_equal(parse(line, environment, &o, &error), QPC_OK);
    assert_int_equal(o.listen_count, 1);
    assert_string_equal(o.listen[0], "127.0.0.1:9");
    unlink(path);
}

static void mistakes_are_named(void **state) {
    (void)state;
    refused("--workrs 2", "workers");
    refused("--workers two", "whole number");
    refused("--workers 1000", "256");
    refused("--max-message-bytes 1Q", "number of bytes");
    refused("--max-message-bytes 99999999999999999999", "number of bytes");
    refused("--max-message-bytes 9999999999G", "number of bytes");
    refused("--log-level loud", "debug, info");
    refused("--listen", "wants a value");
    refused("--listen here", "HOST:PORT");
    refused("--listen ::1:80", "HOST:PORT");
    refused("--listen 127.0.0.1:65536", "65535");
    refused("--listen 0.0.0.0:80", "--token");
    refused("--listen [::]:80", "--token");
    refused("--token /nonexistent/file", "cannot read");
    refused("--config /nonexistent/file", "cannot read");
    refused("stray", "stray");
}

static void the_first_line_of_the_token_file_is_the_token(void **state) {
    (void)state;
    char path[] = "/tmp/qpc-token-XXXXXX", line[100];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "secret words \r\nmore\n", 20), 20);
    qpc_options o;
    snprintf(line, sizeof line, "--listen 0.0.0.0:80 --token %s", path);
    assert_int_equal(parse(line, no_environment, &o, NULL), QPC_OK);
    assert_string_equal(o.token, "secret words");
    assert_int_equal(o.token_size, 12);
    char text[300];
    memset(text, 'x', sizeof text);
    assert_int_equal(pwrite(fd, text, sizeof text, 0), sizeof text);
    refused(line, "longer than");
    assert_int_equal(ftruncate(fd, 3), 0);
    refused(line, "characters");
    close(fd);
    unlink(path);
}

static void addresses_split_into_host_and_port(void **state) {
    (void)state;
    char host[QPC_ADDRESS_SIZE];
    int port = -1;
    assert_int_equal(qpc_options_split_address("[::1]:7447", host, sizeof host, &port, NULL), 0);
    assert_string_equal(host, "::1");
    assert_int_equal(port, 7447);
    assert_int_equal(qpc_options_split_address("name:0", host, sizeof host, &port, NULL), 0);
    assert_string_equal(host, "name");
    assert_int_equal(port, 0);
    const char *wrong[] = {"", ":", ":1", "a", "a:", "a:x", "[::1]", "[::1:1", "a:-1", "a:1x"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(qpc_options_split_address(wrong[i], host, sizeof host, &port, NULL),
                         QPC_ERR_INVALID);
    }
    assert_true(qpc_options_host_is_loopback("127.9.9.9"));
    assert_true(qpc_options_host_is_loopback("localhost"));
    assert_true(qpc_options_host_is_loopback("::1"));
    assert_false(qpc_options_host_is_loopback("10.0.0.1"));
    assert_false(qpc_options_host_is_loopback("::"));
    assert_false(qpc_options_host_is_loopback("example.org"));
}

static void help_has_a_line_for_every_option_and_skips_the_rest(void **state) {
    (void)state;
    char *text = qpc_options_help();
    assert_non_null(text);
    assert_non_null(strstr(text, "--max-world-memory BYTES"));
    assert_non_null(strstr(text, "Default: 64M."));
    assert_non_null(strstr(text, "Exit codes"));
    qpc_free(text);
    qpc_options o;
    assert_int_equal(parse("--help --workers 3", no_environment, &o, NULL), QPC_OK);
    assert_true(o.help);
    assert_int_equal(parse("--version", no_environment, &o, NULL), QPC_OK);
    assert_true(o.version);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_listen_on_loopback_and_find_the_data_folder),
        cmocka_unit_test(numbers_bytes_and_switches_are_read),
        cmocka_unit_test(flags_win_over_environment_over_file),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(the_first_line_of_the_token_file_is_the_token),
        cmocka_unit_test(addresses_split_into_host_and_port),
        cmocka_unit_test(help_has_a_line_for_every_option_and_skips_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
