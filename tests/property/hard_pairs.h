/// Hard pairs without end: the degenerate queries of tests/data/ccd, moved far away, scaled, shaken
/// by an ulp, reordered and turned back in time. What they answer is asked of the exact predicate
/// (tests/support/exact.h), since any of that may turn a touch into a miss. One thread.
#ifndef QPC_TESTS_PROPERTY_HARD_PAIRS_H
#define QPC_TESTS_PROPERTY_HARD_PAIRS_H

#include "tests/support/check.h"

#include "base/vec.h"
#include "tests/support/exact.h"
#include "tests/unit/engine/queries.h"

#include <stdbool.h>

typedef struct hard_pair {
    qpc_vec3 x0[4], x1[4];
    double scale; // what lengths were multiplied by
    bool ee, truth;
    double toi; // of a truth: exact, rounded down
} hard_pair;

enum { HARD_VARIANTS = 12 };

/// Every query, or with an argument only every nth: the exact predicate takes its time.
static int32_t hard_stride = 1;
static void hard_arguments(int argc, char **argv) {
    if (argc > 1) hard_stride = atoi(argv[1]) > 0 ? atoi(argv[1]) : 1;
}

static uint64_t hard_seed = 99;
static unsigned hard_random(unsigned n) { // [0, n)
    hard_seed = hard_seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((hard_seed >> 33) % n);
}

static void hard_swap(qpc_vec3 *a, qpc_vec3 *b) {
    qpc_vec3 t = *a;
    *a = *b;
    *b = t;
}

static void hard_exchange(hard_pair *p, int a, int b) {
    hard_swap(&p->x0[a], &p->x0[b]);
    hard_swap(&p->x1[a], &p->x1[b]);
}

/// Another order of the points of the same two features.
static void hard_reorder(hard_pair *p) {
    if (p->ee) {
        if (hard_random(2)) hard_exchange(p, 0, 1);
        if (hard_random(2)) hard_exchange(p, 2, 3);
        if (hard_random(2)) {
            hard_exchange(p, 0, 2);
            hard_exchange(p, 1, 3);
        }
    } else {
        for (int i = 3; i > 1; i--) hard_exchange(p, i, 1 + (int)hard_random((unsigned)i));
    }
}

static void hard_affine(hard_pair *p, double scale, qpc_vec3 shift) {
    for (int k = 0; k < 4; k++) {
        p->x0[k] = v3_madd(shift, scale, p->x0[k]);
        p->x1[k] = v3_madd(shift, scale, p->x1[k]);
    }
    p->scale *= scale;
}

static void hard_shake(hard_pair *p) {
    for (int n = 1 + (int)hard_random(4); n > 0; n--) {
        qpc_vec3 *x = (hard_random(2) ? p->x0 : p->x1) + hard_random(4);
        double *c = hard_random(3) == 0 ? &x->x : hard_random(2) ? &x->y : &x->z;
        *c = nextafter(*c, hard_random(2) ? 1e300 : -1e300);
    }
}

static void hard_back(hard_pair *p) {
    for (int k = 0; k < 4; k++) hard_swap(&p->x0[k], &p->x1[k]);
}

static void hard_variant(const query *q, int variant, qpc_exact *exact, hard_pair *ret) {
    static const double scales[4] = {1e-6, 1e6, 0x1p-20, 1.0 / 3};
    hard_pair p = {.ee = q->kind == 1, .scale = 1};
    query_points(q, p.x0, p.x1);
    if (variant % 2) hard_reorder(&p);
    if (variant / 2 % 2) hard_back(&p);
    if (variant >= 4 && variant < 8) hard_affine(&p, 1, v3(1e6, -1e6 / 3, variant < 6 ? 0 : 1e6));
    if (variant >= 8) hard_affine(&p, scales[variant - 8], v3(0, 0, 0));
    if (variant > 0) hard_shake(&p);
    *ret = p;
    if (exact == NULL) return; // the truth is not wanted
    double y0[12], y1[12];
    for (int k = 0; k < 4; k++) {
        v3_store(y0 + 3 * k, p.x0[k]);
        v3_store(y1 + 3 * k, p.x1[k]);
    }
    p.truth = (p.ee ? qpc_exact_ee(exact, y0, y1, &p.toi) : qpc_exact_vt(exact, y0, y1, &p.toi)) ==
              QPC_EXACT_HIT;
    *ret = p;
}

static query *hard_queries(int32_t *ret_count) {
    query *q = read_queries(QPC_TEST_DATA "/ccd/degenerate.bin", ret_count);
    assert_non_null(q);
    return q;
}

#endif
