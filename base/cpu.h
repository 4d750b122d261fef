/// What this processor can do, asked for in one place. Any thread.
#ifndef QPC_BASE_CPU_H
#define QPC_BASE_CPU_H

#include <stdbool.h>

/// Marks a kernel that becomes part of each of its callers, compiled for their processor and their constants. Not in
/// sanitized builds: instrumented, all these copies of each other would take the compiler minutes.
#if defined(__has_feature) // clang's way to ask
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define QPC_ALWAYS_INLINE
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define QPC_ALWAYS_INLINE
#endif
#ifndef QPC_ALWAYS_INLINE
#define QPC_ALWAYS_INLINE __attribute__((always_inline))
#endif

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
