/// Exact predicates against integer arithmetic, on points so close to degenerate that floating
/// point alone has the sign wrong.
#include "tests/support/check.h"

#include "engine/geometry/predicates.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

static uint64_t seed = 777;
static int64_t small(int64_t range) { // -range .. range
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)(seed >> 33) % (2 * range + 1) - range;
}

/// Points at 2^26 + small integers in units of 2^-26: coordinates of up to 53 bits whose
/// differences are small integers, so int64 has the exact determinant.
static qpc_vec3 far_point(const int64_t v[3]) {
    return v3(0x1p26 + (double)v[0] * 0x1p-26, -0x1p26 + (double)v[1] * 0x1p-26,
              0x1p25 + (double)v[2] * 0x1p-26);
}

static int sign64(int64_t v) {
    return (v > 0) - (v < 0);
}

static void orientation_is_exact(void **state) {
    (void)state;
    int zeros = 0;
    for (int i = 0; i < 200000; i++) {
        int64_t p[4][3], range = i % 2 ? 3 : 100000;
        for (int k = 0; k < 4; k++)
            for (int d = 0; d < 3; d++) p[k][d] = small(range);
        int64_t m[3][3];
        for (int k = 0; k < 3; k++)
            for (int d = 0; d < 3; d++) m[k][d] = p[k + 1][d] - p[0][d];
        int64_t det = m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) -
                      m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0]) +
                      m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0]);
        qpc_vec3 q[4];
        for (int k = 0; k < 4; k++) q[k] = far_point(p[k]);
        assert_int_equal(qpc_orient3d(q[0], q[1], q[2], q[3]), sign64(det));
        assert_int_equal(qpc_orient3d(q[1], q[0], q[2], q[3]), -sign64(det));
        zeros += det == 0;
        double a[2] = {q[0].x, q[0].y}, b[2] = {q[1].x, q[1].y}, c[2] = {q[2].x, q[2].y};
        assert_int_equal(qpc_orient2d(a, b, c), sign64(m[0][0] * m[1][1] - m[0][1] * m[1][0]));
    }
    assert_true(zeros > 1000);
}

/// Coordinates of very different size, where the differences themselves round.
static void orientation_survives_rounded_differences(void **state) {
    (void)state;
    // d lies 2^-60 above the plane z = 0 that passes 2^30 away.
    qpc_vec3 a = {0x1p30, 0, 0}, b = {0, 0x1p30, 0}, c = {-0x1p30, -0x1p30, 0};
    for (int s = -1; s <= 1; s++) {
        qpc_vec3 d = {0.3, 0.7, s * 0x1p-60};
        assert_int_equal(qpc_orient3d(a, b, c, d), s);
    }
    // Multiples of 0.1 are not exact: the plane through them is decided on what they really are.
    qpc_vec3 p[4] = {{0.1, 0.1, 0.1}, {0.2, 0.2, 0.2}, {0.3, 0.3, 0.3}, {0.7, 0.1, 0.4}};
    assert_int_equal(qpc_orient3d(p[0], p[1], p[2], p[3]), 0); // three points on the line x = y = z
}

__extension__ typedef __int128 wide;

/// One corner so far away along x that its differences round: 128 bits have the determinant.
static void orientation_is_exact_where_differences_round(void **state) {
    (void)state;
    int zeros = 0;
    for (int i = 0; i < 50000; i++) {
        int64_t p[4][3], range = i % 2 ? 2 : 1000; // in units of 2^-14
        for (int k = 0; k < 4; k++)
            for (int d = 0; d < 3; d++) p[k][d] = small(range);
        p[0][0] = (2 * small(3) + 1) * ((int64_t)1 << 54);
        wide m[3][3];
        for (int k = 0; k < 3; k++)
            for (int d = 0; d < 3; d++) m[k][d] = (wide)p[k + 1][d] - p[0][d];
        wide det = m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0]) +
                       m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0]);
        wide area = m[0][0] * m[1][1] - m[0][1] * m[1][0];
        qpc_vec3 q[4];
        for (int k = 0; k < 4; k++) q[k] = v3((double)p[k][0] * 0x1p-14, (double)p[k][1] * 0x1p-14, (double)p[k][2] * 0x1p-14);
        assert_int_equal(qpc_orient3d(q[0], q[1], q[2], q[3]), (det > 0) - (det < 0));
        double a[2] = {q[0].x, q[0].y}, b[2] = {q[1].x, q[1].y}, c[2] = {q[2].x, q[2].y};
        assert_int_equal(qpc_orient2d(a, b, c), (area > 0) - (area < 0));
        zeros += det == 0;
    }
    assert_true(zeros > 100);
}

static void segments_and_triangles(void **state) {
    (void)state;
    const qpc_vec3 a = {0, 0, 0}, b = {1, 0, 0}, c = {0, 1, 0};
    const struct {
        qpc_vec3 p, q;
        bool meets;
    } at[] = {
        {{0.2, 0.2, -1}, {0.2, 0.2, 1}, true},      // through
        {{0.2, 0.2, 0}, {0.2, 0.2, 1}, true},       // touches with its end
        {{0.2, 0.2, 1e-300}, {0.2, 0.2, 1}, false}, // just above
        {{0.5, 0.5, -1}, {0.5, 0.5, 1}, true},      // through the long side
        {{0.5000000000000001, 0.5, -1}, {0.5000000000000001, 0.5, 1}, false},
        {{0, 0, -1}, {0, 0, 1}, true},        // through a corner
        {{-1, 0.2, 0}, {2, 0.2, 0}, true},    // in the plane, across
        {{-1, -0.2, 0}, {2, -0.2, 0}, false}, // in the plane, beside
        {{0.2, 0.2, 0}, {0.3, 0.3, 0}, true}, // in the plane, inside
        {{-1, 0, 0}, {2, 0, 0}, true},        // along a side
        {{1.5, 0, 0}, {2, 0, 0}, false},
        {{0.2, 0.2, 0}, {0.2, 0.2, 0}, true}, // a point in it
        {{0.2, 0.2, 0.1}, {0.2, 0.2, 0.1}, false},
        {{0.9, 0.9, -1}, {0.9, 0.9, 1}, false},
    };
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        assert_int_equal(qpc_segment_meets_triangle(at[i].p, at[i].q, a, b, c), at[i].meets);
        assert_int_equal(qpc_segment_meets_triangle(at[i].q, at[i].p, c, a, b), at[i].meets);
        assert_int_equal(qpc_segment_meets_triangle(at[i].p, at[i].q, b, a, c), at[i].meets);
    }
    // Triangles without area are their sides.
    assert_true(qpc_segment_meets_triangle(v3(0.5, 0, -1), v3(0.5, 0, 1), a, b, v3(0.7, 0, 0)));
    assert_false(
        qpc_segment_meets_triangle(v3(0.5, 0.1, -1), v3(0.5, 0.1, 1), a, b, v3(0.7, 0, 0)));
    assert_true(qpc_segment_meets_triangle(v3(0, 0, -1), v3(0, 0, 1), a, a, a));
}

static void segments_meet_in_space(void **state) {
    (void)state;
    const qpc_vec3 p = {-1, 0, 0}, q = {1, 0, 0};
    assert_true(qpc_segments_meet(p, q, v3(0, -1, 0), v3(0, 1, 0)));
    assert_true(qpc_segments_meet(p, q, v3(0, 0, -1), v3(0, 0, 1)));
    assert_true(qpc_segments_meet(p, q, v3(0, 0, 0), v3(0, 1, 1)));
    assert_false(qpc_segments_meet(p, q, v3(0, 1e-300, 0), v3(0, 1, 1)));
    assert_true(qpc_segments_meet(p, q, v3(1, 0, 0), v3(2, 0, 0)));
    assert_false(qpc_segments_meet(p, q, v3(1.0000000000000002, 0, 0), v3(2, 0, 0)));
    assert_false(qpc_segments_meet(p, q, v3(-1, 1, 0), v3(1, 1, 0)));
    assert_true(qpc_segments_meet(p, p, v3(-2, 0, 0), v3(1, 0, 0)));
    assert_true(qpc_segments_meet(p, p, p, p));
    assert_false(qpc_segments_meet(p, p, q, q));
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/// Time for 2000 orientations of points in the plane y = 0.3, the last one raised by `up`; the least of five.
static double time_in_plane(double up, int *ret_sum) {
    double least = HUGE_VAL;
    for (int round = 0; round < 5; round++) {
        double from = seconds();
        *ret_sum = 0;
        for (int i = 0; i < 2000; i++) {
            double at = 0.1 * i;
            qpc_vec3 a = {at, 0.3, 0}, b = {at + 0.7, 0.3, 0.1}, c = {at, 0.3, 0.9}, d = {at + 0.3, 0.3 + up, 0.7};
            *ret_sum += qpc_orient3d(a, b, c, d);
        }
        least = fmin(least, seconds() - from);
    }
    return least;
}

static void planes_of_two_coordinates_cost_no_long_arithmetic(void **state) {
    (void)state;
    int flat, above, near;
    double in = time_in_plane(0, &flat), off = time_in_plane(0.5, &above);
    time_in_plane(0x1p-54, &near); // one unit in the last place of 0.3
    assert_int_equal(flat, 0);
    assert_int_equal(abs(above), 2000);
    assert_int_equal(near, above);
    assert_true(in < 20 * off); // with expansions some hundred times
}

static void points_in_line_with_an_axis_have_no_turn(void **state) {
    (void)state;
    double a[2] = {0.1, 0.3}, b[2] = {0.7, 0.3}, c[2] = {123.4, 0.3}, up[2] = {123.4, nextafter(0.3, 1)};
    assert_int_equal(qpc_orient2d(a, b, c), 0);
    assert_int_equal(qpc_orient2d(a, b, up), 1);
    assert_int_equal(qpc_orient2d(a, a, up), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orientation_is_exact),
        cmocka_unit_test(orientation_survives_rounded_differences),
        cmocka_unit_test(orientation_is_exact_where_differences_round),
        cmocka_unit_test(segments_and_triangles),
        cmocka_unit_test(segments_meet_in_space),
        cmocka_unit_test(planes_of_two_coordinates_cost_no_long_arithmetic),
        cmocka_unit_test(points_in_line_with_an_axis_have_no_turn),
    };
    return cmocka_run_group_tests_name("engine/geometry/predicates", tests, NULL, NULL);
}
