/// A chain of particles that are close together against itself: what detection leaves untested because
/// the chain is nearly straight there, against every pair.
#include "engine/collision/ccd.h"
#include "engine/collision/detector.h"
#include "engine/geometry/closest.h"
#include "tests/support/check.h"

#include <math.h>
#include <string.h>

enum { NODES = 90 };
static const double RADIUS = 0.03, SPACING = 0.006, FACTOR = 0.95;

static uint64_t seed = 11;
static double uniform(void) { // in [-1, 1)
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (double)(int64_t)(seed >> 11) / (double)(1LL << 52) - 1;
}

/// Along an arc of a large circle, with a hairpin of legs `apart` at node `at` (none if it is 0), and noise.
static void shape(double *x, int32_t at, double apart, double noise) {
    qpc_vec3 p = {0, 0, 0}, along = {1, 0, 0};
    for (int32_t k = 0; k < NODES; k++) {
        v3_store(x + 3 * k, v3_madd(p, noise, v3(uniform(), uniform(), uniform())));
        double turn = SPACING / 1.036;
        along = v3(cos(turn) * along.x - sin(turn) * along.y, sin(turn) * along.x + cos(turn) * along.y, 0);
        bool back = at > 0 && k == at;
        p = back ? v3_madd(p, apart, v3(0, 0, 1)) : v3_madd(p, SPACING, along);
        if (back) along = v3_neg(along);
    }
}

static qpc_detector *make(const double *x, double exclusion) {
    static double rest[NODES];
    for (int32_t k = 0; k + 1 < NODES; k++) rest[k] = SPACING;
    qpc_surface s = {.motion = QPC_DYNAMIC, .node_count = NODES, .rest_length = rest, .radius = RADIUS,
                     .self_exclusion = exclusion};
    qpc_detector *det = NULL;
    qpc_error err = {0};
    assert_ok(qpc_detector_create(&s, 1, x, NODES, 1000000, &det, &err), &err);
    return det;
}

static void load(const double *x, int32_t k, int32_t l, qpc_vec3 p[4]) {
    p[0] = v3_load(x + 3 * k);
    p[1] = v3_load(x + 3 * k + 3);
    p[2] = v3_load(x + 3 * l);
    p[3] = v3_load(x + 3 * l + 3);
}

/// The keys of all hits, and how many of them are no hit of any pair, or the other way round.
static int32_t compare_hits(const qpc_contacts *found, const double *x0, const double *x1) {
    static uint64_t keys[NODES * NODES];
    int32_t count = 0, wrong = 0;
    for (int32_t k = 0; k + 1 < NODES; k++)
        for (int32_t l = k + 2; l + 1 < NODES; l++) {
            qpc_vec3 p[4], q[4];
            qpc_ccd_result hit;
            double at_start, separation = 2 * RADIUS * 0.01;
            load(x0, k, l, p);
            load(x1, k, l, q);
            qpc_ccd_ee_keep(p, q, FACTOR * separation, 0.01 * separation, &hit, &at_start);
            if (hit.outcome == QPC_CCD_MISS) continue;
            const int32_t node[4] = {k, k + 1, l, l + 1};
            keys[count++] = qpc_ee_key(node, hit.weight, k, l);
        }
    for (int32_t i = 0; i < count; i++) {
        bool there = false;
        for (int32_t j = 0; j < found->count; j++) there |= found->data[j].key == keys[i];
        wrong += !there;
    }
    for (int32_t j = 0; j < found->count; j++) {
        bool there = false;
        for (int32_t i = 0; i < count; i++) there |= found->data[j].key == keys[i];
        wrong += !there;
    }
    return wrong;
}

/// The exclusion is the whole chain, so that every pair keeps a hundredth of the thickness: windows of
/// neighbours, and lists for what is further along.
static void hits_are_those_of_all_pairs(void **state) {
    (void)state;
    static double x0[3 * NODES], x1[3 * NODES];
    qpc_contacts found = {0};
    int32_t with = 0, straight = 0;
    for (int32_t run = 0; run < 240; run++) {
        int32_t at = run % 4 == 0 ? 0 : 8 + run % 70;
        double apart = 0.0008 * (1 + run % 5), noise = run % 3 == 0 ? 0.0002 : 0;
        qpc_error err = {0};
        shape(x0, at, apart, noise);
        memcpy(x1, x0, sizeof x1);
        for (int32_t i = 0; i < 3 * NODES; i++) x1[i] += run % 2 == 0 ? 0 : 0.0003 * uniform();
        if (at > 0 && run % 8 != 1) // the second leg goes through the first one
            for (int32_t k = at + 1; k < NODES; k++) x1[3 * k + 2] -= 2 * apart;
        qpc_detector *det = make(x0, 1e3);
        assert_ok(qpc_detect_motion(det, x0, x1, FACTOR, &found, &err), &err);
        assert_int_equal(compare_hits(&found, x0, x1), 0);
        with += found.count > 0;
        if (found.count == 0) {
            straight++;
            if (noise == 0 && at == 0) assert_true(qpc_detector_counts(det).ee_tests == 0); // nothing was tested
        }
        qpc_detector_destroy(det);
    }
    qpc_array_fini(&found);
    assert_true(with > 100 && straight > 40);
}

static void the_nearest_neighbour_is_found_at_rest(void **state) {
    (void)state;
    static double x[3 * NODES];
    qpc_contacts found = {0};
    for (int32_t run = 0; run < 80; run++) {
        qpc_error err = {0};
        double least = HUGE_VAL, nearest = HUGE_VAL, separation = 2 * RADIUS * 0.01;
        shape(x, 10 + run, 0.0004 + 0.00001 * run, 0.00002); // an edge as long joins the legs
        qpc_detector *det = make(x, -1);
        assert_ok(qpc_detect_proximity(det, x, 1.25, &found, &err), &err);
        for (int32_t k = 0; k + 1 < NODES; k++)
            for (int32_t l = k + 2; l + 1 < NODES && SPACING * (l - k - 1) < acos(-1.0) * RADIUS; l++) {
                qpc_vec3 p[4];
                qpc_closest near;
                load(x, k, l, p);
                qpc_closest_ee(p, &near);
                least = fmin(least, near.distance);
            }
        for (int32_t i = 0; i < found.count; i++)
            if (found.data[i].flags & QPC_CONTACT_NEAR_SELF) nearest = fmin(nearest, found.data[i].distance);
        if (least < 1.25 * separation) assert_true(fabs(nearest - least) <= 1e-15);
        else assert_true(nearest == HUGE_VAL);
        qpc_detector_destroy(det);
    }
    qpc_array_fini(&found);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hits_are_those_of_all_pairs),
        cmocka_unit_test(the_nearest_neighbour_is_found_at_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
