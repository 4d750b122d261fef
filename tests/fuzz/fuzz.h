/// What fuzz targets share: the entry point, and a check that is on in every build.
#ifndef QPC_TESTS_FUZZ_FUZZ_H
#define QPC_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// Called by libFuzzer, or by replay.c. Returns 0; a finding aborts.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(x)                                                                              \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #x);                      \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
