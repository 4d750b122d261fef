/// Updates of the factor L D L' of A_WW. Runs on the worker in the world; memory from the arena.
#include "engine/solver/delassus.h"

#include <string.h>

static double *factor_row(const qpc_delassus *del, int32_t i) {
    return del->factor + (int64_t)i * (i + 1) / 2;
}

static bool reserve(qpc_delassus *del, int32_t want) {
    if (want <= del->capacity) return true;
    int32_t to = 2 * del->capacity > want ? 2 * del->capacity : want;
    size_t packed = (size_t)to * ((size_t)to + 1) / 2;
    int32_t *row = qpc_arena_array(del->arena, (size_t)to, sizeof *row);
    double *factor = qpc_arena_array(del->arena, packed, sizeof *factor);
    double *scratch = qpc_arena_array(del->arena, 2 * (size_t)to, sizeof *scratch);
    if (row == NULL || factor == NULL || scratch == NULL) return false;
    if (del->count > 0) {
        memcpy(row, del->row, (size_t)del->count * sizeof *row);
        memcpy(factor, del->factor,
               (size_t)del->count * ((size_t)del->count + 1) / 2 * sizeof *factor);
    }
    del->row = row;
    del->factor = factor;
    del->p = scratch;
    del->beta = scratch + to;
    del->capacity = to;
    return true;
}

bool qpc_delassus_init(qpc_delassus *del, qpc_arena *arena, int32_t capacity) {
    *del = (qpc_delassus){.arena = arena, .loops = qpc_delassus_loops_of(-1)};
    return reserve(del, capacity > 0 ? capacity : 1);
}

// ---- inner loops ----

typedef double two __attribute__((vector_size(16), aligned(8), may_alias));
typedef double four __attribute__((vector_size(32), aligned(8), may_alias));
typedef double eight __attribute__((vector_size(64), aligned(8), may_alias));

#define TARGET
#define NAME(x) base_##x
#define V two
#define PARTS 4
#include "engine/solver/delassus_lanes.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#define NAME(x) avx2_##x
#define V four
#define PARTS 2
#include "engine/solver/delassus_lanes.h"

#define TARGET __attribute__((target("avx512f")))
#define NAME(x) avx512_##x
#define V eight
#define PARTS 1
#include "engine/solver/delassus_lanes.h"
#endif

static const qpc_delassus_loops loops[] = {
    {base_dot, base_take4},
#if defined(__x86_64__)
    {avx2_dot, avx2_take4},
    {avx512_dot, avx512_take4},
#endif
};

const qpc_delassus_loops *qpc_delassus_loops_of(int32_t set) {
#if defined(__x86_64__)
    const bool has[] = {true, __builtin_cpu_supports("avx2") != 0,
                        __builtin_cpu_supports("avx512f") != 0};
#else
    const bool has[] = {true};
#endif
    if (set < 0) // the widest
        for (set = (int32_t)(sizeof has / sizeof *has) - 1; !has[set];) set--;
    return set < (int32_t)(sizeof has / sizeof *has) && has[set] ? &loops[set] : NULL;
}

// ---- substitutions ----

double qpc_delassus_forward(const qpc_delassus *del, double *v) {
    double sum = 0;
    for (int32_t i = 0; i < del->count; i++) {
        const double *l = factor_row(del, i);
        v[i] -= del->loops->dot(l, v, i);
        sum += v[i] * v[i] / l[i];
    }
    return sum;
}

bool qpc_delassus_append(qpc_delassus *del, int32_t row, const double *v, double d) {
    int32_t k = del->count;
    if (!reserve(del, k + 1)) return false;
    double *l = factor_row(del, k);
    for (int32_t i = 0; i < k; i++) l[i] = v[i] / factor_row(del, i)[i];
    l[k] = d;
    del->row[k] = row;
    del->count = k + 1;
    return true;
}

void qpc_delassus_backward(const qpc_delassus *del, double *v) {
    int32_t k = del->count;
    for (int32_t i = 0; i < k; i++) v[i] /= factor_row(del, i)[i];
    int32_t i = k - 1;
    for (; i >= 4; i -= 4) { // four rows of L at once: v is read and written a quarter of the times
        const double *d = factor_row(del, i), *c = factor_row(del, i - 1),
                     *b = factor_row(del, i - 2);
        const double *a = factor_row(del, i - 3);
        double *t = v + i - 3;
        t[2] -= d[i - 1] * t[3];
        t[1] -= d[i - 2] * t[3] + c[i - 2] * t[2];
        t[0] -= (d[i - 3] * t[3] + c[i - 3] * t[2]) + b[i - 3] * t[1];
        del->loops->take4(a, b, c, d, t, v, i - 3);
    }
    for (; i > 0; i--) {
        const double *l = factor_row(del, i);
        double t = v[i];
        for (int32_t j = 0; j < i; j++) v[j] -= l[j] * t;
    }
}

void qpc_delassus_solve(const qpc_delassus *del, double *r) {
    for (int32_t i = 0; i < del->count; i++) r[i] -= del->loops->dot(factor_row(del, i), r, i);
    qpc_delassus_backward(del, r);
}

/// One step of the update of a row: t and L_ij of the new factor from those of the old one.
#define STEP(t, from, to, j)                                                                       \
    do {                                                                                           \
        double l_ = (from)[j];                                                                     \
        (t) -= p[j] * l_;                                                                          \
        (to)[(j)-1] = l_ + beta[j] * (t);                                                          \
    } while (0)

enum {
    TOGETHER = 8
}; // rows whose recurrences run side by side: each alone waits for its own results

/// Rows i .. i + TOGETHER - 1, all columns before i. The rows move up by one: what a row writes has
/// been read by then.
static void update_rows(const qpc_delassus *del, int32_t q, int32_t i, double *t) {
    const double *p = del->p, *beta = del->beta;
    double *to[TOGETHER];
    const double *from[TOGETHER];
    for (int32_t r = 0; r < TOGETHER; r++) {
        from[r] = factor_row(del, i + r);
        to[r] = factor_row(del, i + r - 1);
        t[r] = from[r][q];
    }
    double t0 = t[0], t1 = t[1], t2 = t[2], t3 = t[3], t4 = t[4], t5 = t[5], t6 = t[6], t7 = t[7];
    for (int32_t j = q + 1; j < i; j++) {
        STEP(t0, from[0], to[0], j);
        STEP(t1, from[1], to[1], j);
        STEP(t2, from[2], to[2], j);
        STEP(t3, from[3], to[3], j);
        STEP(t4, from[4], to[4], j);
        STEP(t5, from[5], to[5], j);
        STEP(t6, from[6], to[6], j);
        STEP(t7, from[7], to[7], j);
    }
    t[0] = t0, t[1] = t1, t[2] = t2, t[3] = t3, t[4] = t4, t[5] = t5, t[6] = t6, t[7] = t7;
}

void qpc_delassus_remove(qpc_delassus *del, int32_t q) {
    // What stood below the row is L33 D3 L33' + d_q l l': a rank-one update with positive weight
    // (Gill, Golub, Murray & Saunders 1974, method C1), done row by row while the rows move up.
    int32_t k = del->count;
    double alpha = factor_row(del, q)[q], t[TOGETHER], d[TOGETHER];
    double *p = del->p, *beta = del->beta;
    for (int32_t first = q + 1; first < k; first += TOGETHER) {
        int32_t rows = k - first < TOGETHER ? k - first : TOGETHER;
        for (int32_t r = 0; r < rows; r++) d[r] = factor_row(del, first + r)[first + r];
        if (rows == TOGETHER) {
            update_rows(del, q, first, t);
        } else {
            for (int32_t r = 0; r < rows; r++) {
                const double *from = factor_row(del, first + r);
                double *to = factor_row(del, first + r - 1);
                t[r] = from[q];
                for (int32_t j = q + 1; j < first; j++) STEP(t[r], from, to, j);
            }
        }
        for (int32_t r = 0; r < rows; r++) {
            int32_t i = first + r;
            const double *from = factor_row(del, i);
            double *to = factor_row(del, i - 1);
            for (int32_t j = first; j < i; j++) STEP(t[r], from, to, j);
            if (q > 0) memcpy(to, from, (size_t)q * sizeof *to);
            double raised = d[r] + alpha * t[r] * t[r];
            p[i] = t[r];
            beta[i] = alpha * t[r] / raised;
            alpha *= d[r] / raised;
            to[i - 1] = raised;
        }
    }
    memmove(del->row + q, del->row + q + 1, (size_t)(k - q - 1) * sizeof *del->row);
    del->count = k - 1;
}
