/// Properties of continuous detection that need no reference: a miss stays away and a hit comes
/// near by sampling; the answer does not depend on the order of points, the origin, the unit or the
/// direction of time.
#include "tests/support/check.h"

#include "engine/collision/ccd.h"
#include "engine/collision/filter.h"
#include "engine/geometry/closest.h"
#include "tests/property/hard_pairs.h"

static uint64_t seed = 2024;
static double uniform(void) { // [-1, 1)
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(seed & ~(uint64_t)2047) * 0x1p-63;
}

typedef struct pair {
    qpc_vec3 x0[4], x1[4];
    double s, tol;
    bool ee;
} pair;

static void run(const pair *p, qpc_ccd_result *r) {
    if (p->ee)
        qpc_ccd_ee(p->x0, p->x1, p->s, p->tol, r);
    else
        qpc_ccd_vt(p->x0, p->x1, p->s, p->tol, r);
}

static double distance_at(const pair *p, double t) {
    qpc_vec3 x[4];
    qpc_closest c;
    for (int k = 0; k < 4; k++) x[k] = v3_lerp(p->x0[k], p->x1[k], t);
    if (p->ee)
        qpc_closest_ee(x, &c);
    else
        qpc_closest_vt(x, &c);
    return c.distance;
}

/// Coordinates of 20 bits, so that dyadic shifts are exact.
static qpc_vec3 grid(double scale) {
    qpc_vec3 p = {uniform(), uniform(), uniform()};
    return v3(scale * floor(p.x * 0x1p20) * 0x1p-20, scale * floor(p.y * 0x1p20) * 0x1p-20,
              scale * floor(p.z * 0x1p20) * 0x1p-20);
}

static pair random_pair(int i) {
    static const double separation[4] = {0, 1e-3, 0.03, 0.2}, speed[4] = {0.1, 1, 1, 16};
    pair p = {.s = separation[i / 2 % 4], .tol = i / 8 % 2 ? 1e-6 : 1e-3, .ee = i % 2};
    double move = speed[i / 16 % 4];
    for (int k = 0; k < 4; k++) {
        p.x0[k] = grid(1);
        p.x1[k] = v3_add(p.x0[k], grid(move));
    }
    if (i % 5 == 0) // nearly degenerate: three points on a line, or parallel edges
        p.x0[3] = v3_madd(p.x0[2], 0.5, v3_sub(p.x0[1], p.x0[p.ee ? 0 : 2]));
    return p;
}

static void misses_stay_away_and_hits_come_near(void **state) {
    (void)state;
    int hits = 0, misses = 0;
    for (int i = 0; i < 20000; i++) {
        pair p = random_pair(i);
        qpc_ccd_result r;
        run(&p, &r);
        double end = r.outcome == QPC_CCD_MISS ? 1 : r.toi;
        for (int k = 0; k <= 64 && r.outcome != QPC_CCD_AT_START; k++) {
            double d = distance_at(&p, end * k / 64);
            if (!(d > p.s - 1e-13)) fail_msg("pair %d comes to %.17g, s = %g", i, d, p.s);
        }
        if (r.outcome == QPC_CCD_MISS) {
            misses++;
            continue;
        }
        hits++;
        assert_false(r.uncertain);
        assert_near(r.distance, distance_at(&p, r.toi), 1e-12);
        assert_true(r.distance <= p.s + p.tol + 1e-13);
        assert_true(r.iterations < 100);
    }
    assert_true(hits > 2000 && misses > 2000);
}

/// Two answers to one question may differ in outcome only for pairs that come within [s, s + tol],
/// and hits only in time, not in order: each is no later than the first contact.
static void same_answer(const pair *p, const qpc_ccd_result *a, const qpc_ccd_result *b) {
    if (a->outcome == b->outcome || (a->outcome != QPC_CCD_MISS && b->outcome != QPC_CCD_MISS))
        return;
    const qpc_ccd_result *hit = a->outcome == QPC_CCD_MISS ? b : a;
    assert_true(hit->distance > p->s - 1e-13 && hit->distance <= p->s + p->tol + 1e-13);
}

static void order_of_points_does_not_matter(void **state) {
    (void)state;
    static const int vt[6][4] = {{0, 1, 2, 3}, {0, 2, 3, 1}, {0, 3, 1, 2},
                                 {0, 1, 3, 2}, {0, 3, 2, 1}, {0, 2, 1, 3}};
    static const int ee[8][4] = {{0, 1, 2, 3}, {1, 0, 2, 3}, {0, 1, 3, 2}, {1, 0, 3, 2},
                                 {2, 3, 0, 1}, {3, 2, 0, 1}, {2, 3, 1, 0}, {3, 2, 1, 0}};
    for (int i = 0; i < 5000; i++) {
        pair p = random_pair(i);
        qpc_ccd_result r, q;
        run(&p, &r);
        for (int o = 1; o < (p.ee ? 8 : 6); o++) {
            pair other = p;
            for (int k = 0; k < 4; k++) {
                other.x0[k] = p.x0[p.ee ? ee[o][k] : vt[o][k]];
                other.x1[k] = p.x1[p.ee ? ee[o][k] : vt[o][k]];
            }
            run(&other, &q);
            same_answer(&p, &r, &q);
        }
    }
}

static void backwards_in_time(void **state) {
    (void)state;
    for (int i = 0; i < 5000; i++) {
        pair p = random_pair(i), back = p;
        qpc_ccd_result r, q;
        memcpy(back.x0, p.x1, sizeof p.x1);
        memcpy(back.x1, p.x0, sizeof p.x0);
        run(&p, &r);
        run(&back, &q);
        same_answer(&p, &r, &q);
        if (r.outcome != QPC_CCD_MISS && q.outcome != QPC_CCD_MISS)
            assert_true(r.toi <= 1 - q.toi + 1e-12 ||
                        distance_at(&p, r.toi) <= p.s + p.tol + 1e-12);
    }
}

/// Moving everything by a power of two changes no bit, since differences come first.
static void far_from_the_origin(void **state) {
    (void)state;
    for (int i = 0; i < 5000; i++) {
        pair p = random_pair(i), far = p;
        qpc_ccd_result r, q;
        qpc_vec3 shift = {0x1p20, -0x1p21, 0x1p20};
        for (int k = 0; k < 4; k++) {
            far.x0[k] = v3_add(p.x0[k], shift);
            far.x1[k] = v3_add(p.x1[k], shift);
            // Exact, or the case says nothing.
            assert_true(v3_norm(v3_sub(v3_sub(far.x0[k], shift), p.x0[k])) == 0);
            if (v3_norm(v3_sub(v3_sub(far.x1[k], shift), p.x1[k])) != 0) far.x0[0].x = NAN;
        }
        if (isnan(far.x0[0].x)) continue;
        run(&p, &r);
        run(&far, &q);
        assert_int_equal(r.outcome, q.outcome);
        assert_true(r.toi == q.toi);
        if (r.outcome == QPC_CCD_MISS) continue;
        assert_true(r.distance == q.distance);
        assert_memory_equal(&r.n, &q.n, sizeof r.n);
        assert_memory_equal(r.weight, q.weight, sizeof r.weight);
    }
}

static void any_unit_of_length(void **state) {
    (void)state;
    static const double unit[4] = {0x1p-30, 0x1p-10, 0x1p10, 0x1p30};
    for (int i = 0; i < 5000; i++) {
        pair p = random_pair(i), scaled = p;
        qpc_ccd_result r, q;
        double f = unit[i % 4];
        for (int k = 0; k < 4; k++) {
            scaled.x0[k] = v3_scale(f, p.x0[k]);
            scaled.x1[k] = v3_scale(f, p.x1[k]);
        }
        scaled.s *= f;
        scaled.tol *= f;
        run(&p, &r);
        run(&scaled, &q);
        assert_int_equal(r.outcome, q.outcome);
        assert_true(r.toi == q.toi);
        if (r.outcome == QPC_CCD_MISS) continue;
        assert_true(q.distance == f * r.distance);
        assert_memory_equal(r.weight, q.weight, sizeof r.weight);
    }
}

/// The `keep` forms: pairs that leave are misses wherever they start, and none comes nearer than
/// what it keeps.
static void pairs_that_start_inside(void **state) {
    (void)state;
    int inside = 0, hits = 0;
    for (int i = 0; i < 20000; i++) {
        pair p = random_pair(i);
        p.s = 0.2;
        qpc_ccd_result r;
        double start = -1;
        if (p.ee)
            qpc_ccd_ee_keep(p.x0, p.x1, p.s, 0.01 * p.s, &r, &start);
        else
            qpc_ccd_vt_keep(p.x0, p.x1, p.s, 0.01 * p.s, &r, &start);
        double d0 = distance_at(&p, 0), keep = d0 > p.s * (1 + 1e-6) ? p.s : 0.9 * d0;
        double end = r.outcome == QPC_CCD_MISS ? 1 : r.toi;
        for (int k = 0; k <= 64; k++) {
            double d = distance_at(&p, end * k / 64);
            if (!(d > keep - 1e-13)) fail_msg("pair %d comes to %.17g from %.17g", i, d, d0);
        }
        inside += d0 < p.s;
        if (r.outcome == QPC_CCD_MISS) continue;
        hits++;
        assert_near(start, d0, 1e-13);
        assert_true(d0 < 1e-12 || r.outcome == QPC_CCD_HIT);
        assert_true(r.distance <= keep + 0.1 * (d0 - keep) + 1e-13);
    }
    assert_true(inside > 1000 && hits > 1000);
}

/// Exact truth on hard pairs, with a loose and a tight tolerance: none missed, none late, hits
/// within the tolerance (or four bounds on rounding, E), and none uncertain.
static void hard_pairs_are_never_missed(void **state) {
    (void)state;
    qpc_exact *exact = qpc_exact_create();
    int32_t n = 0, touches = 0, misses = 0;
    query *q = hard_queries(&n);
    assert_non_null(exact);
    for (int32_t i = 0; i < n; i += hard_stride)
        for (int variant = 0; variant < HARD_VARIANTS; variant++) {
            hard_pair h;
            hard_variant(&q[i], variant, exact, &h);
            for (int tight = 0; tight < 2; tight++) {
                pair p = {.tol = h.scale * (tight ? 1e-12 : 1e-6), .ee = h.ee};
                memcpy(p.x0, h.x0, sizeof p.x0);
                memcpy(p.x1, h.x1, sizeof p.x1);
                qpc_ccd_result r;
                run(&p, &r);
                if (r.outcome == QPC_CCD_MISS) {
                    if (h.truth) fail_msg("query %d, variant %d: missed", (int)i, variant);
                    misses++;
                    continue;
                }
                double size = 0;
                for (int k = 1; k < 4; k++)
                    for (int j = 0; j < k; j++)
                        size = fmax(size, fmax(v3_norm(v3_sub(p.x0[k], p.x0[j])),
                                               v3_norm(v3_sub(p.x1[k], p.x1[j]))));
                if (h.truth && r.toi > h.toi)
                    fail_msg("query %d, variant %d: late, %.17g after %.17g", (int)i, variant,
                             r.toi, h.toi);
                // M is a norm of sums, at most sqrt(3) times size.
                double most = fmax(p.tol, 4 * 32 * 0x1p-53 * 1.8 * size);
                if (r.uncertain || r.distance > most)
                    fail_msg("query %d, variant %d: %s, %d iterations, at %g", (int)i, variant,
                             r.uncertain ? "uncertain" : "beyond", r.iterations, r.distance);
                touches += h.truth;
            }
        }
    assert_true(touches > 3000 / hard_stride && misses > 3000 / hard_stride);
    free(q);
    qpc_exact_destroy(exact);
}

/// The same pairs at a separation, by sampling: none comes nearer than s before the time of its hit
/// or, as a miss, at all. Bound on rounding: of the interpolated coordinates, which are large.
static void hard_pairs_keep_their_separation(void **state) {
    (void)state;
    int32_t n = 0, hits = 0, misses = 0, uncertain = 0;
    query *q = hard_queries(&n);
    for (int32_t i = 0; i < n; i++)
        for (int variant = 0; variant < 4 * HARD_VARIANTS; variant++) {
            hard_pair h;
            hard_variant(&q[i], variant % HARD_VARIANTS, NULL, &h);
            bool tight = variant / HARD_VARIANTS % 2;
            pair p = {.s = h.scale * (variant / HARD_VARIANTS / 2 ? 1e-3 : 1e-6), .ee = h.ee};
            p.tol = h.scale * (tight ? 1e-12 : 1e-7);
            memcpy(p.x0, h.x0, sizeof p.x0);
            memcpy(p.x1, h.x1, sizeof p.x1);
            qpc_ccd_result r;
            run(&p, &r);
            double end = r.outcome == QPC_CCD_MISS ? 1 : r.toi, large = 0;
            for (int k = 0; k < 4; k++)
                large = fmax(large, fmax(v3_norm(p.x0[k]), v3_norm(p.x1[k])));
            hits += r.outcome != QPC_CCD_MISS;
            misses += r.outcome == QPC_CCD_MISS;
            uncertain += r.outcome != QPC_CCD_MISS && r.uncertain;
            for (int k = 0; k <= 40 && r.outcome != QPC_CCD_AT_START; k++) {
                double t =
                    k <= 20 ? end * k / 20 : end * (1 - ldexp(1, 20 - 2 * k)); // and near end
                double d = distance_at(&p, t);
                if (!(d > p.s - 1e-14 * large))
                    fail_msg("query %d, variant %d: %.17g at %g, s = %g", (int)i, variant, d, t,
                             p.s);
            }
        }
    assert_true(hits > 10000 && misses > 10000);
    assert_int_equal(uncertain, 0);
    free(q);
}

/// Shaken slivers, contact at next to no tolerance: their distances are exact enough to end there.
static void slivers_are_decided(void **state) {
    (void)state;
    int32_t n = 0, hits = 0;
    query *q = hard_queries(&n);
    for (int32_t i = 0; i < n; i++)
        for (int k = 0; k < 50 * HARD_VARIANTS && q[i].class == 13; k++) {
            hard_pair h;
            hard_variant(&q[i], k % HARD_VARIANTS, NULL, &h);
            pair p = {.tol = 1e-12 * h.scale, .ee = h.ee};
            memcpy(p.x0, h.x0, sizeof p.x0);
            memcpy(p.x1, h.x1, sizeof p.x1);
            qpc_ccd_result r;
            run(&p, &r);
            if (r.outcome == QPC_CCD_MISS) continue;
            hits++;
            if (r.uncertain)
                fail_msg("query %d: %d iterations, %g", (int)i, r.iterations, r.distance);
        }
    assert_true(hits > 10000);
    free(q);
}

/// Coordinates of a few small integers: features that touch at corners, along edges, for a while or
/// at an end, degenerate ones among them, in every way there is. The filter is asked too.
static void small_integers_touch_in_every_way(void **state) {
    (void)state;
    static qpc_filter_block block;
    qpc_exact *exact = qpc_exact_create();
    int touches = 0, misses = 0, proofs = 0;
    assert_non_null(exact);
    for (int i = 0; i < 12000 / hard_stride; i++) {
        pair p = {.tol = i / 2 % 2 ? 1e-6 : 1e-12, .ee = i % 2};
        unsigned range = 2 + hard_random(4);
        double y0[12], y1[12], toi;
        for (int k = 0; k < 12; k++) {
            y0[k] = hard_random(range) - 1.0;
            y1[k] = hard_random(3) ? hard_random(range) - 1.0 : y0[k];
        }
        for (int k = 0; k < 4; k++) p.x0[k] = v3_load(y0 + 3 * k), p.x1[k] = v3_load(y1 + 3 * k);
        bool truth = (p.ee ? qpc_exact_ee(exact, y0, y1, &toi)
                           : qpc_exact_vt(exact, y0, y1, &toi)) == QPC_EXACT_HIT;
        qpc_ccd_result r;
        uint8_t open;
        run(&p, &r);
        qpc_filter_put(&block, 0, p.x0, p.x1, 0);
        if (p.ee)
            qpc_filter_ee(&block, 1, &open);
        else
            qpc_filter_vt(&block, 1, &open);
        if (truth && (r.outcome == QPC_CCD_MISS || open == 0))
            fail_msg("pair %d: missed%s", i, open == 0 ? " by the filter" : "");
        if (truth && r.toi > toi) fail_msg("pair %d: late, %.17g after %.17g", i, r.toi, toi);
        if (r.outcome != QPC_CCD_MISS && (r.uncertain || r.distance > p.tol))
            fail_msg("pair %d: at %g, %d iterations", i, r.distance, r.iterations);
        touches += truth;
        misses += r.outcome == QPC_CCD_MISS;
        proofs += open == 0;
    }
    assert_true(touches > 2000 / hard_stride && misses > 2000 / hard_stride);
    assert_true(proofs > 2000 / hard_stride);
    qpc_exact_destroy(exact);
}

/// With next to no tolerance what is left of false hits is within rounding of contact. Asking the
/// exact predicate about those, and only those, tells them apart.
static void false_hits_are_ties(void **state) {
    (void)state;
    qpc_exact *exact = qpc_exact_create();
    int32_t n = 0, wrong[2] = {0}, left[2] = {0};
    query *q = read_queries(QPC_TEST_DATA "/ccd/sample_queries.bin", &n);
    assert_true(exact != NULL && q != NULL);
    for (int32_t i = 0; i < n; i++) {
        pair p = {.tol = 1e-12, .ee = q[i].kind == 1};
        qpc_ccd_result r;
        double size = 0;
        query_points(&q[i], p.x0, p.x1);
        run(&p, &r);
        if (r.outcome == QPC_CCD_MISS || q[i].truth) continue;
        wrong[p.ee]++;
        for (int k = 0; k < 16; k++)
            size = fmax(size, fmax(v3_norm(v3_sub(p.x0[k / 4], p.x0[k % 4])),
                                   v3_norm(v3_sub(p.x1[k / 4], p.x1[k % 4]))));
        bool tie = r.distance < 8 * 32 * 0x1p-53 * size; // 8 E
        qpc_exact_answer answer = QPC_EXACT_HIT;
        if (tie)
            answer = p.ee ? qpc_exact_ee(exact, q[i].p0, q[i].p1, NULL)
                          : qpc_exact_vt(exact, q[i].p0, q[i].p1, NULL);
        left[p.ee] += answer == QPC_EXACT_HIT;
    }
    assert_true(wrong[0] <= 104 && wrong[1] <= 150);
    assert_true(left[0] <= 5 && left[1] <= 5);
    free(q);
    qpc_exact_destroy(exact);
}

int main(int argc, char **argv) {
    hard_arguments(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(misses_stay_away_and_hits_come_near),
        cmocka_unit_test(order_of_points_does_not_matter),
        cmocka_unit_test(backwards_in_time),
        cmocka_unit_test(far_from_the_origin),
        cmocka_unit_test(any_unit_of_length),
        cmocka_unit_test(pairs_that_start_inside),
        cmocka_unit_test(hard_pairs_are_never_missed),
        cmocka_unit_test(hard_pairs_keep_their_separation),
        cmocka_unit_test(slivers_are_decided),
        cmocka_unit_test(small_integers_touch_in_every_way),
        cmocka_unit_test(false_hits_are_ties),
    };
    return cmocka_run_group_tests_name("property/ccd", tests, NULL, NULL);
}
