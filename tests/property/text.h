/// A text built piece by piece, for scenes that are made by loops. Include last.
#ifndef QPC_TESTS_PROPERTY_TEXT_H
#define QPC_TESTS_PROPERTY_TEXT_H

#include "tests/support/check.h"

#include <stdarg.h>
#include <stdio.h>

typedef struct text {
    char c[65536];
    size_t used;
} text;
static inline void put(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline void put(text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->c + t->used, sizeof t->c - t->used, format, args);
    va_end(args);
    assert_true(n >= 0 && (size_t)n < sizeof t->c - t->used);
    t->used += (size_t)n;
}

#endif
