/// Four floats at once: SSE where it is the baseline (x86-64), plain C elsewhere or if
/// QPC_PORTABLE_LANES is defined. Both give the same bits: only min, max, add, sub and compare.
#ifndef QPC_ENGINE_COLLISION_LANES_H
#define QPC_ENGINE_COLLISION_LANES_H

#if defined(__SSE2__) && !defined(QPC_PORTABLE_LANES)
#include <emmintrin.h>

typedef __m128 qpc_f4;
typedef __m128 qpc_m4; // what a comparison says of each

static inline qpc_f4 f4_load(const float *p) { return _mm_loadu_ps(p); }
static inline void f4_store(float *p, qpc_f4 a) { _mm_storeu_ps(p, a); }
static inline qpc_f4 f4_all(float s) { return _mm_set1_ps(s); }
static inline qpc_f4 f4_min(qpc_f4 a, qpc_f4 b) { return _mm_min_ps(a, b); }
static inline qpc_f4 f4_max(qpc_f4 a, qpc_f4 b) { return _mm_max_ps(a, b); }
static inline qpc_f4 f4_add(qpc_f4 a, qpc_f4 b) { return _mm_add_ps(a, b); }
static inline qpc_f4 f4_sub(qpc_f4 a, qpc_f4 b) { return _mm_sub_ps(a, b); }
static inline qpc_m4 f4_le(qpc_f4 a, qpc_f4 b) { return _mm_cmple_ps(a, b); }
static inline qpc_m4 m4_and(qpc_m4 a, qpc_m4 b) { return _mm_and_ps(a, b); }
static inline unsigned m4_bits(qpc_m4 a) { return (unsigned)_mm_movemask_ps(a); }
static inline void f4_transpose(qpc_f4 row[4]) {
    _MM_TRANSPOSE4_PS(row[0], row[1], row[2], row[3]);
}

#else

typedef struct qpc_f4 {
    float v[4];
} qpc_f4;
typedef unsigned qpc_m4;

#define QPC_F4_EACH(expression)                                                                    \
    qpc_f4 r;                                                                                      \
    for (int i = 0; i < 4; i++) r.v[i] = (expression);                                             \
    return r
static inline qpc_f4 f4_load(const float *p) { QPC_F4_EACH(p[i]); }
static inline void f4_store(float *p, qpc_f4 a) {
    for (int i = 0; i < 4; i++) p[i] = a.v[i];
}
static inline qpc_f4 f4_all(float s) { QPC_F4_EACH(s); }
static inline qpc_f4 f4_min(qpc_f4 a, qpc_f4 b) { QPC_F4_EACH(a.v[i] < b.v[i] ? a.v[i] : b.v[i]); }
static inline qpc_f4 f4_max(qpc_f4 a, qpc_f4 b) { QPC_F4_EACH(a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
static inline qpc_f4 f4_add(qpc_f4 a, qpc_f4 b) { QPC_F4_EACH(a.v[i] + b.v[i]); }
static inline qpc_f4 f4_sub(qpc_f4 a, qpc_f4 b) { QPC_F4_EACH(a.v[i] - b.v[i]); }
static inline qpc_m4 f4_le(qpc_f4 a, qpc_f4 b) {
    qpc_m4 m = 0;
    for (int i = 0; i < 4; i++) m |= (qpc_m4)(a.v[i] <= b.v[i]) << i;
    return m;
}
static inline qpc_m4 m4_and(qpc_m4 a, qpc_m4 b) { return a & b; }
static inline unsigned m4_bits(qpc_m4 a) { return a; }
static inline void f4_transpose(qpc_f4 row[4]) {
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++) {
            float swap = row[i].v[j];
            row[i].v[j] = row[j].v[i];
            row[j].v[i] = swap;
        }
}
#undef QPC_F4_EACH
#endif

#endif
