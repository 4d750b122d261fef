/// The tree of boxes against looking at every box.
#include "tests/support/check.h"
#include "tests/support/faults.h"

#include "base/mem.h"
#include "engine/collision/bvh.h"

#include <stdlib.h>

static uint64_t seed = 99;
static double uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) * 0x1p-53;
}

static void fill(qpc_fbox *boxes, int32_t n, int shape) {
    for (int32_t i = 0; i < n; i++) {
        double c[3] = {uniform(), uniform(), uniform()}, size = 0.02 * uniform();
        if (shape == 1) c[1] = c[2] = 0.5;        // on a line
        if (shape == 2) c[0] = c[1] = c[2] = 0.5; // all in one place
        if (shape == 3 && i % 7 == 0) size = 3;   // some that cover all
        double lo[3], hi[3], zero[3] = {0, 0, 0};
        for (int d = 0; d < 3; d++) lo[d] = c[d] - size, hi[d] = c[d] + size;
        boxes[i] = qpc_fbox_around(lo, hi, zero);
    }
}

static void check_queries(const qpc_bvh *bvh, const qpc_fbox *boxes, int32_t n) {
    qpc_items found = {0};
    uint64_t tests = 0;
    assert_true(qpc_bvh_check(bvh, boxes));
    for (int k = 0; k < 50; k++) {
        qpc_fbox q;
        fill(&q, 1, k % 3 == 0 ? 3 : 0);
        found.count = 0;
        assert_int_equal(qpc_bvh_query(bvh, boxes, &q, &found, &tests), QPC_OK);
        uint8_t *seen = calloc((size_t)n, 1);
        for (int32_t i = 0; i < found.count; i++) assert_int_equal(seen[found.data[i]]++, 0);
        for (int32_t i = 0; i < n; i++) assert_int_equal(seen[i], qpc_fbox_overlap(&boxes[i], &q));
        free(seen);
    }
    assert_true(tests > 0);
    qpc_array_fini(&found);
}

static void queries_find_what_brute_force_finds(void **state) {
    (void)state;
    const int32_t sizes[] = {1, 2, 3, 4, 5, 17, 1000, 5000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int shape = 0; shape < 4; shape++) {
            int32_t n = sizes[s];
            qpc_fbox *boxes = calloc((size_t)n, sizeof *boxes);
            fill(boxes, n, shape);
            qpc_bvh *bvh = NULL;
            assert_ok(qpc_bvh_build(boxes, n, &bvh, NULL), &(qpc_error){0});
            check_queries(bvh, boxes, n);
            fill(boxes, n, 0); // everything moves
            qpc_bvh_refit(bvh, boxes);
            check_queries(bvh, boxes, n);
            qpc_bvh_destroy(bvh);
            free(boxes);
        }
}

static void float_boxes_contain_and_are_monotonic(void **state) {
    (void)state;
    for (int i = 0; i < 100000; i++) {
        double scale = pow(10, 20 * uniform() - 10), lo[3], hi[3], origin[3], wide_lo[3],
               wide_hi[3];
        for (int d = 0; d < 3; d++) {
            origin[d] = scale * (uniform() - 0.5);
            lo[d] = scale * (uniform() - 0.5);
            hi[d] = lo[d] + scale * uniform() * 1e-6;
            wide_lo[d] = lo[d] - (i % 2 ? 0 : 1e-16 * scale);
            wide_hi[d] = hi[d] + (i % 2 ? 0 : 1e-16 * scale);
        }
        qpc_fbox b = qpc_fbox_around(lo, hi, origin), w = qpc_fbox_around(wide_lo, wide_hi, origin);
        for (int d = 0; d < 3; d++) {
            assert_true((double)b.lo[d] <= lo[d] - origin[d]);
            assert_true((double)b.hi[d] >= hi[d] - origin[d]);
            assert_true(w.lo[d] <= b.lo[d] && w.hi[d] >= b.hi[d]);
        }
    }
}

static void failing_memory_leaves_no_trace(void **state) {
    (void)state;
    qpc_fbox boxes[100];
    fill(boxes, 100, 0);
    QPC_FAULTS(f) {
        qpc_bvh *bvh = NULL;
        qpc_error err = {0};
        qpc_status status = qpc_bvh_build(boxes, 100, &bvh, &err);
        if (qpc_faults_ended(&f, status)) qpc_bvh_destroy(bvh);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries_find_what_brute_force_finds),
        cmocka_unit_test(float_boxes_contain_and_are_monotonic),
        cmocka_unit_test(failing_memory_leaves_no_trace),
    };
    return cmocka_run_group_tests_name("engine/collision/bvh", tests, NULL, NULL);
}
