/// Four floats, or three doubles, at once: SSE where it is the baseline (x86-64), plain C elsewhere
/// or if QPC_PORTABLE_LANES is defined. Both give the same bits: each operation rounds once or not
/// at all.
#ifndef QPC_ENGINE_COLLISION_LANES_H
#define QPC_ENGINE_COLLISION_LANES_H

#include <stdint.h>

#if defined(__SSE2__) && !defined(QPC_PORTABLE_LANES)
#include <emmintrin.h>

typedef __m128 qpc_f4;
typedef __m128 qpc_m4; // what a comparison says of each

static inline qpc_f4 f4_load(const float *p) {
    return _mm_loadu_ps(p);
}
static inline void f4_store(float *p, qpc_f4 a) {
    _mm_storeu_ps(p, a);
}
static inline qpc_f4 f4_all(float s) {
    return _mm_set1_ps(s);
}
static inline qpc_f4 f4_min(qpc_f4 a, qpc_f4 b) {
    return _mm_min_ps(a, b);
}
static inline qpc_f4 f4_max(qpc_f4 a, qpc_f4 b) {
    return _mm_max_ps(a, b);
}
static inline qpc_f4 f4_add(qpc_f4 a, qpc_f4 b) {
    return _mm_add_ps(a, b);
}
static inline qpc_f4 f4_sub(qpc_f4 a, qpc_f4 b) {
    return _mm_sub_ps(a, b);
}
static inline qpc_m4 f4_le(qpc_f4 a, qpc_f4 b) {
    return _mm_cmple_ps(a, b);
}
static inline qpc_m4 m4_and(qpc_m4 a, qpc_m4 b) {
    return _mm_and_ps(a, b);
}
static inline unsigned m4_bits(qpc_m4 a) {
    return (unsigned)_mm_movemask_ps(a);
}
static inline void f4_transpose(qpc_f4 row[4]) {
    _MM_TRANSPOSE4_PS(row[0], row[1], row[2], row[3]);
}

/// Which of four pairs of numbers share one with which of four others: bit 4 k + i for pair i of a,
/// k of b. a, b: (4 x 2).
static inline unsigned i4_pairs_share(const int32_t *a, const int32_t *b) {
    __m128 v = _mm_castsi128_ps(_mm_loadu_si128((const __m128i *)(const void *)a));
    __m128 w = _mm_castsi128_ps(_mm_loadu_si128((const __m128i *)(const void *)(a + 4)));
    __m128i first = _mm_castps_si128(_mm_shuffle_ps(v, w, _MM_SHUFFLE(2, 0, 2, 0)));
    __m128i second = _mm_castps_si128(_mm_shuffle_ps(v, w, _MM_SHUFFLE(3, 1, 3, 1)));
    unsigned mask = 0;
    for (int k = 0; k < 4; k++) {
        __m128i c = _mm_set1_epi32(b[2 * k]), d = _mm_set1_epi32(b[2 * k + 1]);
        __m128i same =
            _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi32(first, c), _mm_cmpeq_epi32(second, c)),
                         _mm_or_si128(_mm_cmpeq_epi32(first, d), _mm_cmpeq_epi32(second, d)));
        mask |= (unsigned)_mm_movemask_ps(_mm_castsi128_ps(same)) << (4 * k);
    }
    return mask;
}

typedef struct qpc_d3 { // x y, z and a number without meaning
    __m128d xy, z;
} qpc_d3;
typedef __m128d qpc_md3;

#define QPC_D3_BOTH(op, a, b) ((qpc_d3){op((a).xy, (b).xy), op((a).z, (b).z)})
static inline qpc_d3 d3_load(const double *p) {
    return (qpc_d3){_mm_loadu_pd(p), _mm_load_sd(p + 2)};
}
static inline void d3_store(double *p, qpc_d3 a) {
    _mm_storeu_pd(p, a.xy);
    _mm_store_sd(p + 2, a.z);
}
static inline qpc_d3 d3_all(double s) {
    return (qpc_d3){_mm_set1_pd(s), _mm_set1_pd(s)};
}
static inline qpc_d3 d3_min(qpc_d3 a, qpc_d3 b) {
    return QPC_D3_BOTH(_mm_min_pd, a, b);
}
static inline qpc_d3 d3_max(qpc_d3 a, qpc_d3 b) {
    return QPC_D3_BOTH(_mm_max_pd, a, b);
}
static inline qpc_d3 d3_add(qpc_d3 a, qpc_d3 b) {
    return QPC_D3_BOTH(_mm_add_pd, a, b);
}
static inline qpc_d3 d3_sub(qpc_d3 a, qpc_d3 b) {
    return QPC_D3_BOTH(_mm_sub_pd, a, b);
}
static inline qpc_d3 d3_mul(qpc_d3 a, qpc_d3 b) {
    return QPC_D3_BOTH(_mm_mul_pd, a, b);
}
static inline qpc_d3 d3_abs(qpc_d3 a) {
    __m128d sign = _mm_set1_pd(-0.0);
    return (qpc_d3){_mm_andnot_pd(sign, a.xy), _mm_andnot_pd(sign, a.z)};
}
/// All of x, y, z are at most those of b; gathered by md3_and, asked by md3_true.
static inline qpc_md3 d3_le(qpc_d3 a, qpc_d3 b) {
    // The number without meaning counts as z does.
    __m128d z = _mm_cmple_sd(a.z, b.z);
    return _mm_and_pd(_mm_cmple_pd(a.xy, b.xy), _mm_unpacklo_pd(z, z));
}
static inline qpc_md3 md3_and(qpc_md3 a, qpc_md3 b) {
    return _mm_and_pd(a, b);
}
static inline int md3_true(qpc_md3 a) {
    return _mm_movemask_pd(a) == 3;
}
/// Rounded to nearest, the fourth lane 0.
static inline qpc_f4 d3_float(qpc_d3 a) {
    return _mm_movelh_ps(_mm_cvtpd_ps(a.xy), _mm_cvtpd_ps(_mm_unpacklo_pd(a.z, _mm_setzero_pd())));
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
static inline qpc_f4 f4_load(const float *p) {
    QPC_F4_EACH(p[i]);
}
static inline void f4_store(float *p, qpc_f4 a) {
    for (int i = 0; i < 4; i++) p[i] = a.v[i];
}
static inline qpc_f4 f4_all(float s) {
    QPC_F4_EACH(s);
}
static inline qpc_f4 f4_min(qpc_f4 a, qpc_f4 b) {
    QPC_F4_EACH(a.v[i] < b.v[i] ? a.v[i] : b.v[i]);
}
static inline qpc_f4 f4_max(qpc_f4 a, qpc_f4 b) {
    QPC_F4_EACH(a.v[i] > b.v[i] ? a.v[i] : b.v[i]);
}
static inline qpc_f4 f4_add(qpc_f4 a, qpc_f4 b) {
    QPC_F4_EACH(a.v[i] + b.v[i]);
}
static inline qpc_f4 f4_sub(qpc_f4 a, qpc_f4 b) {
    QPC_F4_EACH(a.v[i] - b.v[i]);
}
static inline qpc_m4 f4_le(qpc_f4 a, qpc_f4 b) {
    qpc_m4 m = 0;
    for (int i = 0; i < 4; i++) m |= (qpc_m4)(a.v[i] <= b.v[i]) << i;
    return m;
}
static inline qpc_m4 m4_and(qpc_m4 a, qpc_m4 b) {
    return a & b;
}
static inline unsigned m4_bits(qpc_m4 a) {
    return a;
}
static inline void f4_transpose(qpc_f4 row[4]) {
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++) {
            float swap = row[i].v[j];
            row[i].v[j] = row[j].v[i];
            row[j].v[i] = swap;
        }
}
#undef QPC_F4_EACH
static inline unsigned i4_pairs_share(const int32_t *a, const int32_t *b) {
    unsigned mask = 0;
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 4; i++)
            mask |= (unsigned)((a[2 * i] == b[2 * k]) | (a[2 * i + 1] == b[2 * k]) |
                               (a[2 * i] == b[2 * k + 1]) | (a[2 * i + 1] == b[2 * k + 1]))
                    << (4 * k + i);
    return mask;
}

typedef struct qpc_d3 {
    double v[3];
} qpc_d3;
typedef int qpc_md3;

#define QPC_D3_EACH(expression)                                                                    \
    qpc_d3 r;                                                                                      \
    for (int i = 0; i < 3; i++) r.v[i] = (expression);                                             \
    return r
static inline qpc_d3 d3_load(const double *p) {
    QPC_D3_EACH(p[i]);
}
static inline void d3_store(double *p, qpc_d3 a) {
    for (int i = 0; i < 3; i++) p[i] = a.v[i];
}
static inline qpc_d3 d3_all(double s) {
    QPC_D3_EACH(s);
}
static inline qpc_d3 d3_min(qpc_d3 a, qpc_d3 b) {
    QPC_D3_EACH(a.v[i] < b.v[i] ? a.v[i] : b.v[i]);
}
static inline qpc_d3 d3_max(qpc_d3 a, qpc_d3 b) {
    QPC_D3_EACH(a.v[i] > b.v[i] ? a.v[i] : b.v[i]);
}
static inline qpc_d3 d3_add(qpc_d3 a, qpc_d3 b) {
    QPC_D3_EACH(a.v[i] + b.v[i]);
}
static inline qpc_d3 d3_sub(qpc_d3 a, qpc_d3 b) {
    QPC_D3_EACH(a.v[i] - b.v[i]);
}
static inline qpc_d3 d3_mul(qpc_d3 a, qpc_d3 b) {
    QPC_D3_EACH(a.v[i] * b.v[i]);
}
static inline qpc_d3 d3_abs(qpc_d3 a) {
    QPC_D3_EACH(a.v[i] < 0 ? -a.v[i] : a.v[i]);
}
static inline qpc_md3 d3_le(qpc_d3 a, qpc_d3 b) {
    return (a.v[0] <= b.v[0]) & (a.v[1] <= b.v[1]) & (a.v[2] <= b.v[2]);
}
static inline qpc_md3 md3_and(qpc_md3 a, qpc_md3 b) {
    return a & b;
}
static inline int md3_true(qpc_md3 a) {
    return a;
}
static inline qpc_f4 d3_float(qpc_d3 a) {
    return (qpc_f4){{(float)a.v[0], (float)a.v[1], (float)a.v[2], 0}};
}
#undef QPC_D3_EACH
#endif

#endif
