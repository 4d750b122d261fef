/// For tests of a tool that reads data files: runs it, looks into what it said, and gives it bent copies of good files.
///
/// The test defines QPC_BENT_FILE, the name that a copy gets, before it includes this. One thread.
#ifndef QPC_TESTS_SUPPORT_BENT_H
#define QPC_TESTS_SUPPORT_BENT_H

#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BENT_OUTPUT = 1 << 20, BENT_SIZE_MOST = 1 << 22 };

static const char *folder;
static char output[BENT_OUTPUT]; // of the last run, both streams

static inline int run_tool(const char *tool, const char *arguments) {
    char command[2048];
    (void)snprintf(command, sizeof command, "%s %s 2>&1", tool, arguments);
    FILE *pipe = popen(command, "re");
    assert_non_null(pipe);
    size_t size = fread(output, 1, sizeof output - 1, pipe);
    output[size] = '\0';
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static inline void says(const char *text) {
    if (strstr(output, text) == NULL) fail_msg("\"%s\" is not in:\n%s", text, output);
}

static inline int count_of(const char *text) {
    int n = 0;
    for (const char *at = output; (at = strstr(at, text)) != NULL; at += strlen(text)) n++;
    return n;
}

/// Commas of a line.
static inline int commas(const char *line) {
    int n = 0;
    for (; *line != '\0' && *line != '\n'; line++) n += *line == ',';
    return n;
}

typedef struct bytes {
    uint8_t *data; // room for BENT_SIZE_MOST
    size_t size;
} bytes;

static inline bytes load_bytes(const char *path) {
    FILE *file = fopen(path, "rbe");
    if (file == NULL) fail_msg("%s", path);
    bytes b = {malloc(BENT_SIZE_MOST), 0};
    assert_non_null(b.data);
    b.size = fread(b.data, 1, BENT_SIZE_MOST, file);
    (void)fclose(file);
    return b;
}

/// Writes the first bytes into the folder and runs the tool on them.
static inline int run_tool_on(const char *tool, const char *arguments, const bytes *b, size_t size) {
    char path[256], all[1024];
    (void)snprintf(path, sizeof path, "%s/" QPC_BENT_FILE, folder);
    FILE *file = fopen(path, "wbe");
    assert_non_null(file);
    assert_true(fwrite(b->data, 1, size, file) == size);
    assert_int_equal(fclose(file), 0);
    (void)snprintf(all, sizeof all, "%s '%s'", arguments, path);
    return run_tool(tool, all);
}

static inline void put(uint8_t *p, uint64_t v, int size) {
    for (int i = 0; i < size; i++) p[i] = (uint8_t)(v >> 8 * i);
}
static inline uint64_t get(const uint8_t *p, int size) {
    uint64_t v = 0;
    for (int i = size - 1; i >= 0; i--) v = v << 8 | p[i];
    return v;
}
static inline void put_real(uint8_t *p, double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    put(p, bits, 8);
}
static inline double get_real(const uint8_t *p) {
    uint64_t bits = get(p, 8);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/// Group set-up and tear-down.
static inline int make_folder(void **state) {
    static char name[] = "/tmp/qpcollide-bent-XXXXXX";
    (void)state;
    folder = mkdtemp(name);
    return folder == NULL;
}
static inline int remove_folder(void **state) {
    char path[128];
    (void)state;
    (void)snprintf(path, sizeof path, "%s/" QPC_BENT_FILE, folder);
    (void)unlink(path);
    return rmdir(folder);
}

#endif
