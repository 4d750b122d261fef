/// Bytes for the tests of this room: files of tests/data/protocol and hex literals.
#ifndef QPC_TESTS_UNIT_PROTOCOL_SUPPORT_H
#define QPC_TESTS_UNIT_PROTOCOL_SUPPORT_H

#include "tests/support/check.h"

#include "base/hash.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// A file of tests/data/protocol, with a NUL behind it; free() it. Fails the test if it cannot be
/// read.
static inline uint8_t *read_case(const char *name, size_t *ret_size) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", QPC_TEST_DATA, name);
    FILE *f = fopen(path, "rb");
    if (f == NULL) fail_msg("cannot open %s", path);
    size_t capacity = 1 << 16, size = 0, n;
    uint8_t *bytes = malloc(capacity + 1);
    if (bytes == NULL) abort();
    while ((n = fread(bytes + size, 1, capacity - size, f)) > 0) {
        size += n;
        if (size < capacity) continue;
        capacity *= 2;
        uint8_t *grown = realloc(bytes, capacity + 1);
        if (grown == NULL) abort();
        bytes = grown;
    }
    fclose(f);
    bytes[size] = '\0';
    *ret_size = size;
    return bytes;
}

/// "93 00 a1 78" (spaces allowed) to bytes; at most room.
static inline size_t from_hex(const char *hex, uint8_t *out, size_t room) {
    size_t n = 0;
    while (*hex != '\0') {
        if (*hex == ' ') {
            hex++;
            continue;
        }
        if (n == room || !qpc_hex_decode(hex, 2, out + n, 1)) fail_msg("bad hex at %.8s", hex);
        n++;
        hex += 2;
    }
    return n;
}

/// Numbers that look random and are the same everywhere (splitmix64).
static inline uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

#endif
