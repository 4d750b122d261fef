/// Properties of the batch filter: what it proves is true (against the exact predicate and against
/// continuous detection), and the answer does not depend on the origin, the unit, the direction of
/// time or the width; on the order of points only as far as rounding goes.
#include "engine/collision/ccd.h"
#include "engine/collision/filter.h"
#include "tests/property/hard_pairs.h"

static uint64_t seed = 7;
static double uniform(void) { // [-1, 1), 20 bits, so that dyadic shifts are exact
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(seed >> 43) * 0x1p-20 - 1;
}

/// One pair at a time through all widths, in a lane that moves, the others filled with a neighbour.
static bool proven(bool ee, const qpc_vec3 x0[4], const qpc_vec3 x1[4], double s) {
    static qpc_filter_block block;
    static int lane;
    lane = (lane + 3) % QPC_FILTER_LANES;
    qpc_filter_put(&block, lane, x0, x1, s);
    uint8_t first = 0;
    for (int w = 0; w < QPC_FILTER_WIDTHS; w++) {
        if (!qpc_filter_runs((qpc_filter_width)w)) continue;
        uint8_t open = 0;
        if (ee)
            qpc_filter_ee_by((qpc_filter_width)w, &block, QPC_FILTER_LANES, &open);
        else
            qpc_filter_vt_by((qpc_filter_width)w, &block, QPC_FILTER_LANES, &open);
        if (w == 0) first = open;
        assert_int_equal(open, first);
    }
    return !(first >> lane & 1);
}

static void random_pair(int i, bool *ee, qpc_vec3 x0[4], qpc_vec3 x1[4], double *s) {
    static const double separation[4] = {0, 1e-3, 0.03, 0.2}, speed[4] = {0.1, 1, 1, 16};
    *ee = i % 2;
    *s = separation[i / 2 % 4];
    double move = speed[i / 8 % 4];
    for (int k = 0; k < 4; k++) {
        x0[k] = v3(uniform(), uniform(), uniform());
        x1[k] = v3_add(x0[k], v3(move * uniform(), move * uniform(), move * uniform()));
    }
    if (i % 5 == 0) x0[3] = v3_madd(x0[2], 0.5, v3_sub(x0[1], x0[*ee ? 0 : 2]));
}

static void proofs_hold_on_hard_pairs(void **state) {
    (void)state;
    qpc_exact *exact = qpc_exact_create();
    int32_t n = 0, proofs = 0, touches = 0;
    query *q = hard_queries(&n);
    assert_non_null(exact);
    for (int32_t i = 0; i < n; i += hard_stride)
        for (int variant = 0; variant < HARD_VARIANTS; variant++) {
            hard_pair h;
            hard_variant(&q[i], variant, exact, &h);
            bool apart = proven(h.ee, h.x0, h.x1, 0);
            if (apart && h.truth) fail_msg("query %d, variant %d: missed", (int)i, variant);
            proofs += apart;
            touches += h.truth;
        }
    assert_true(proofs > 2000 / hard_stride && touches > 2000 / hard_stride);
    free(q);
    qpc_exact_destroy(exact);
}

/// Continuous detection with a tolerance of next to nothing never comes within s of what the filter
/// proves apart.
static void proofs_hold_with_separation(void **state) {
    (void)state;
    int proofs = 0, hits = 0;
    for (int i = 0; i < 40000; i++) {
        bool ee;
        qpc_vec3 x0[4], x1[4];
        double s;
        random_pair(i, &ee, x0, x1, &s);
        bool apart = proven(ee, x0, x1, s);
        qpc_ccd_result r;
        if (ee)
            qpc_ccd_ee(x0, x1, s, 1e-12, &r);
        else
            qpc_ccd_vt(x0, x1, s, 1e-12, &r);
        hits += r.outcome != QPC_CCD_MISS;
        proofs += apart;
        if (apart && r.outcome != QPC_CCD_MISS)
            fail_msg("pair %d, s = %g: proven apart, but %.17g at %g", i, s, r.distance, r.toi);
    }
    if (proofs < 10000 || hits < 2000) fail_msg("%d proofs, %d hits", proofs, hits);
}

/// At the very separation: a gap of s less an ulp must stay open, a gap a little above is proven.
static void the_separation_itself_is_sharp(void **state) {
    (void)state;
    static const double scales[5] = {1e-6, 1e-3, 1, 1e3, 1e6}, offsets[3] = {0, 1, 1e6};
    for (int i = 0; i < 15; i++) {
        double scale = scales[i % 5], offset = offsets[i / 5] * scale;
        qpc_vec3 x0[4] = {{0.2, 0.2, 0.1}, {0, 0, 0}, {1, 0, 0}, {0, 1, 0}}, x1[4];
        for (int k = 0; k < 4; k++) {
            x0[k] = v3_madd(v3(offset, offset, offset), scale, x0[k]);
            x1[k] = v3_add(x0[k], v3(0.25 * scale, -0.125 * scale, 0));
            x1[k].z = x0[k].z;
        }
        double gap = x0[0].z - x0[1].z;
        assert_true(gap > 0.099 * scale);
        assert_false(proven(false, x0, x1, gap));
        assert_false(proven(false, x0, x1, nextafter(gap, 0)));
        assert_true(proven(false, x0, x1, gap - 1e-13 * scale));
    }
}

static qpc_vec3 grid_point(void) {
    qpc_vec3 p = {uniform(), uniform(), uniform()};
    return p;
}

/// Features that touch in exact numbers, at rest or in motion, in no special direction: what the
/// products give instead of 0 is rounding alone, of one sign often enough.
static void an_exact_touch_is_never_proven_apart(void **state) {
    (void)state;
    for (int i = 0; i < 20000; i++) {
        bool ee = i % 2;
        qpc_vec3 x0[4], x1[4], u = grid_point();
        for (int k = 1; k < 4; k++) x0[k] = grid_point();
        if (ee) { // the edges cross at a quarter and at a half
            x0[0] = grid_point();
            qpc_vec3 p = v3_madd(x0[0], 0.25, v3_sub(x0[1], x0[0]));
            x0[2] = v3_add(p, u);
            x0[3] = v3_sub(p, u);
        } else { // inside the face
            x0[0] = v3_madd(x0[1], 0.25, v3_sub(x0[2], x0[1]));
            x0[0] = v3_madd(x0[0], 0.5, v3_sub(x0[3], x0[1]));
        }
        for (int k = 0; k < 4; k++) x1[k] = i % 4 < 2 ? x0[k] : v3_add(x0[k], u);
        assert_false(proven(ee, x0, x1, 0));
        if (i % 4 >= 2) continue;
        // And at one end only, the other in the plane.
        x1[ee ? 2 : 0] = v3_madd(x1[ee ? 2 : 0], 0.5, v3_sub(x0[1], x0[ee ? 0 : 2]));
        assert_false(proven(ee, x0, x1, 0));
    }
}

static void origin_unit_and_direction_of_time_change_nothing(void **state) {
    (void)state;
    static const double unit[4] = {0x1p-30, 0x1p-10, 0x1p10, 0x1p30};
    for (int i = 0; i < 20000; i++) {
        bool ee;
        qpc_vec3 x0[4], x1[4], y0[4], y1[4], shift = {0x1p20, -0x1p21, 0x1p20};
        double s, f = unit[i % 4];
        random_pair(i, &ee, x0, x1, &s);
        bool apart = proven(ee, x0, x1, s), exact = true;
        assert_int_equal(apart, proven(ee, x1, x0, s));
        for (int k = 0; k < 4; k++) {
            y0[k] = v3_scale(f, x0[k]);
            y1[k] = v3_scale(f, x1[k]);
        }
        assert_int_equal(apart, proven(ee, y0, y1, f * s));
        for (int k = 0; k < 4; k++) {
            y0[k] = v3_add(x0[k], shift);
            y1[k] = v3_add(x1[k], shift);
            exact &= v3_norm(v3_sub(v3_sub(y0[k], shift), x0[k])) == 0 &&
                     v3_norm(v3_sub(v3_sub(y1[k], shift), x1[k])) == 0;
        }
        if (exact) assert_int_equal(apart, proven(ee, y0, y1, s));
    }
}

/// The normal and the centre round differently in another order; a pair at the edge of a proof may
/// then be proven in one order only, but few are.
static void order_of_points_hardly_matters(void **state) {
    (void)state;
    int differ = 0, proofs = 0;
    for (int i = 0; i < 20000; i++) {
        hard_pair h = {.scale = 1};
        double s;
        random_pair(i, &h.ee, h.x0, h.x1, &s);
        bool apart = proven(h.ee, h.x0, h.x1, s);
        hard_reorder(&h);
        differ += apart != proven(h.ee, h.x0, h.x1, s);
        proofs += apart;
    }
    if (differ > 4 || proofs < 4000) fail_msg("%d of %d proofs differ", differ, proofs);
}

int main(int argc, char **argv) {
    hard_arguments(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proofs_hold_on_hard_pairs),
        cmocka_unit_test(proofs_hold_with_separation),
        cmocka_unit_test(the_separation_itself_is_sharp),
        cmocka_unit_test(an_exact_touch_is_never_proven_apart),
        cmocka_unit_test(origin_unit_and_direction_of_time_change_nothing),
        cmocka_unit_test(order_of_points_hardly_matters),
    };
    return cmocka_run_group_tests_name("property/filter", tests, NULL, NULL);
}
