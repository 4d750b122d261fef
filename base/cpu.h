/// What this processor can do, asked for in one place. Any thread.
#ifndef QPC_BASE_CPU_H
#define QPC_BASE_CPU_H

#include <stdbool.h>

static inline bool qpc_has_avx2(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") != 0;
#else
    return false;
#endif
}

static inline bool qpc_has_avx512f(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512f") != 0;
#else
    return false;
#endif
}

#endif
