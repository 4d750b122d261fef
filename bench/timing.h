/// Times, and what is said of many of them.
#ifndef QPC_BENCH_TIMING_H
#define QPC_BENCH_TIMING_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/// ms of a clock: CLOCK_THREAD_CPUTIME_ID where the machine may be shared.
static inline double bench_ms(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static inline int bench_by_value(const void *a, const void *b) {
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/// Sorts v; the value at the nearest rank to q, from 0 to 1.
static inline double bench_quantile(double *v, int64_t n, double q) {
    qsort(v, (size_t)n, sizeof *v, bench_by_value);
    return v[(int64_t)(q * (double)(n - 1) + 0.5)];
}

#endif
