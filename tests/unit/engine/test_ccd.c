/// Continuous detection against exact ground truth: never a miss, never late, no hit beyond the
/// tolerance.
#include "tests/support/check.h"

#include "base/json.h"
#include "base/mem.h"
#include "engine/collision/ccd.h"
#include "engine/geometry/closest.h"
#include "tests/unit/engine/queries.h"

#include <dirent.h>

static void run(int kind, const qpc_vec3 x0[4], const qpc_vec3 x1[4], double s, double tol,
                qpc_ccd_result *ret) {
    if (kind == 1)
        qpc_ccd_ee(x0, x1, s, tol, ret);
    else
        qpc_ccd_vt(x0, x1, s, tol, ret);
}

/// What a hit promises besides being one: unit normal, weights that sum to one on each side and
/// reproduce the difference, the distance it names.
static void check_hit(int kind, const qpc_vec3 x0[4], const qpc_vec3 x1[4], const qpc_ccd_result *r,
                      double most) {
    qpc_vec3 d = v3(0, 0, 0);
    double size = 0, left = 0, right = 0;
    int split = kind == 1 ? 2 : 1;
    for (int k = 0; k < 4; k++) {
        qpc_vec3 x = v3_lerp(x0[k], x1[k], r->toi);
        d = v3_madd(d, r->weight[k], x);
        size = fmax(size, fmax(v3_norm(x0[k]), v3_norm(x1[k])));
        if (k < split) {
            assert_true(r->weight[k] >= 0);
            left += r->weight[k];
        } else {
            assert_true(r->weight[k] <= 0);
            right += r->weight[k];
        }
    }
    assert_near(left, 1, 1e-15 * 8);
    assert_near(right, -1, 1e-15 * 8);
    assert_near(v3_norm(r->n), 1, 1e-14);
    assert_true(r->distance <= most + 6e-14 * size);
    // On slivers (widths down to 1e-9 of the length in the data) the plane itself is that
    // uncertain.
    assert_near(v3_norm(d), r->distance, 1e-9 * size);
}

static void check_file(const char *name, double s, double tol) {
    char path[512];
    int32_t n = 0;
    snprintf(path, sizeof path, "%s/ccd/%s.bin", QPC_TEST_DATA, name);
    query *q = read_queries(path, &n);
    assert_non_null(q);
    assert_true(n > 1000);
    int32_t hits = 0, misses = 0;
    for (int32_t i = 0; i < n; i++) {
        qpc_vec3 x0[4], x1[4];
        qpc_ccd_result r;
        query_points(&q[i], x0, x1);
        run(q[i].kind, x0, x1, s, tol, &r);
        bool hit = r.outcome != QPC_CCD_MISS;
        bool must = s > 0 ? q[i].dmin[1] <= s : q[i].truth == 1;
        if (must && !hit) fail_msg("%s %d at s = %g: missed", name, (int)i, s);
        if (!must && hit && q[i].dmin[0] > s + tol)
            fail_msg("%s %d at s = %g: hit, but never nearer than %.17g", name, (int)i, s,
                     q[i].dmin[0]);
        if (hit && s == 0 && q[i].truth == 1 && r.toi > q[i].toi[1])
            fail_msg("%s %d: late, %.17g after %.17g", name, (int)i, r.toi, q[i].toi[1]);
        if (hit) {
            assert_true(r.toi >= 0 && r.toi <= 1);
            assert_int_equal(r.outcome, r.toi > 0 ? QPC_CCD_HIT : QPC_CCD_AT_START);
        }
        if (hit) check_hit(q[i].kind, x0, x1, &r, s + tol);
        // Bounds the time of the worst query; the limit at which ccd gives up is 100.
        if ((hit && r.uncertain) || r.iterations > 40)
            fail_msg("%s %d at s = %g: uncertain after %d", name, (int)i, s, r.iterations);
        hits += hit;
        misses += !hit;
    }
    assert_true(hits > 100 && misses > 100);
    free(q);
}

static void sample_queries_without_thickness(void **state) {
    (void)state;
    check_file("sample_queries", 0, 1e-6);
}
static void sample_queries_with_thickness(void **state) {
    (void)state;
    check_file("sample_queries", 1e-3, 1e-6);
}
static void simulation_queries_without_thickness(void **state) {
    (void)state;
    check_file("sim", 0, 1e-6);
}
static void simulation_queries_with_thickness(void **state) {
    (void)state;
    check_file("sim", 1e-3, 1e-6);
}
static void degenerate_queries_without_thickness(void **state) {
    (void)state;
    check_file("degenerate", 0, 1e-6);
}
static void degenerate_queries_with_thickness(void **state) {
    (void)state;
    check_file("degenerate", 1e-3, 1e-6);
}
static void tight_tolerance_misses_nothing_either(void **state) {
    (void)state;
    check_file("sample_queries", 0, 1e-12);
    check_file("sim", 0, 1e-12);
    check_file("degenerate", 0, 1e-10);
    check_file("degenerate", 0, 1e-12);
    check_file("degenerate", 1e-3, 1e-12);
    check_file("degenerate", 1e-6, 1e-12);
}

static int by_value(const void *a, const void *b) {
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/// The time of a hit, and not only the distance at it, is close: the tolerance is no loss of time.
static void times_are_tight(void **state) {
    (void)state;
    int32_t n = 0, hits = 0;
    query *q = read_queries(QPC_TEST_DATA "/ccd/sim.bin", &n);
    assert_non_null(q);
    double *early = calloc((size_t)n, sizeof *early);
    assert_non_null(early);
    for (int32_t i = 0; i < n; i++) {
        if (!q[i].truth) continue;
        qpc_vec3 x0[4], x1[4];
        qpc_ccd_result r;
        query_points(&q[i], x0, x1);
        run(q[i].kind, x0, x1, 0, 1e-6, &r);
        assert_int_equal(r.outcome, QPC_CCD_HIT);
        early[hits++] = q[i].toi[0] - r.toi;
    }
    assert_int_equal(hits, 800);
    qsort(early, (size_t)hits, sizeof *early, by_value);
    assert_true(early[hits / 2] <= 1e-6);
    assert_true(early[hits * 99 / 100] <= 5e-4);
    free(early);
    free(q);
}

/// A pair that comes within s + tolerance, but not within s, and leaves again: told apart from a
/// hit, and if it stays near, a hit within the tolerance.
static void near_but_not_a_hit(void **state) {
    (void)state;
    qpc_vec3 x0[4] = {{-0.5, 0.2, 0.03 + 4e-7}, {0, 0, 0}, {1, 0, 0}, {0, 1, 0}}, x1[4];
    memcpy(x1, x0, sizeof x1);
    x1[0].x = 0.5;
    qpc_ccd_result r;
    qpc_ccd_vt(x0, x1, 0.03, 1e-6, &r);
    assert_int_equal(r.outcome, QPC_CCD_MISS);
    x1[0].z = 0.03 - 1e-7;
    qpc_ccd_vt(x0, x1, 0.03, 1e-6, &r);
    assert_int_equal(r.outcome, QPC_CCD_HIT);
    assert_true(r.distance > 0.03 && r.distance < 0.03 + 1e-9);
}

// ---- cases in JSON ----

static void parse_file(const char *path, qpc_value *ret) {
    qpc_error err = {0};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = malloc(1 << 20);
    assert_non_null(text);
    size_t size = fread(text, 1, 1 << 20, file);
    fclose(file);
    assert_ok(qpc_json_parse(text, size, ret, &err), &err);
    free(text);
}

static void read_points(const qpc_value *v, const char *const *names, qpc_vec3 p[4]) {
    for (int k = 0; k < 4; k++) {
        const qpc_value *x = names != NULL ? qpc_map_get(v, names[k]) : &v->list.items[k];
        double c[3];
        assert_non_null(x);
        for (int d = 0; d < 3; d++)
            assert_ok(qpc_read_real(&x->list.items[d], "x", -1e9, 1e9, &c[d], NULL),
                      &(qpc_error){0});
        p[k] = v3_load(c);
    }
}

/// C01 to C07: hits in their window of time, misses as misses; C05 would freeze a step.
static void robustness_cases(void **state) {
    (void)state;
    static const char *const vt_names[] = {"vertex", "tri0", "tri1", "tri2"};
    static const char *const ee_names[] = {"a0", "a1", "b0", "b1"};
    DIR *dir = opendir(QPC_TEST_DATA "/ccd/cases");
    assert_non_null(dir);
    int cases = 0, shared_edge = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (strstr(entry->d_name, ".json") == NULL) continue;
        char path[1024];
        qpc_value v;
        snprintf(path, sizeof path, "%s/ccd/cases/%s", QPC_TEST_DATA, entry->d_name);
        parse_file(path, &v);
        bool ee = qpc_str_equal(qpc_map_get(&v, "pair"), "edge_edge");
        qpc_vec3 x0[4], x1[4];
        read_points(qpc_map_get(&v, "start"), ee ? ee_names : vt_names, x0);
        read_points(qpc_map_get(&v, "end"), ee ? ee_names : vt_names, x1);
        const qpc_value *expect = qpc_map_get(&v, "expect");
        bool hit = false;
        assert_ok(qpc_read_bool(qpc_map_get(expect, "hit"), "hit", &hit, NULL), &(qpc_error){0});
        qpc_ccd_result r;
        // 1e-9: below the gap of 1e-6 that C05 starts with.
        run(ee, x0, x1, 0, 1e-9, &r);
        if ((r.outcome != QPC_CCD_MISS) != hit) fail_msg("%s: wrong answer", entry->d_name);
        if (hit) {
            const qpc_value *window = qpc_map_get(expect, "accepted_time");
            double low, high;
            assert_ok(qpc_read_real(&window->list.items[0], "t", 0, 1, &low, NULL),
                      &(qpc_error){0});
            assert_ok(qpc_read_real(&window->list.items[1], "t", 0, 1, &high, NULL),
                      &(qpc_error){0});
            assert_true(r.toi >= low && r.toi <= high);
            shared_edge += strncmp(entry->d_name, "C02", 3) == 0;
        }
        cases++;
        qpc_value_fini(&v);
    }
    closedir(dir);
    assert_int_equal(cases, 8);
    assert_int_equal(shared_edge, 2);
}

/// Touches worked out in exact fractions: decision and time.
static void check_physics(const char *name, bool ee) {
    char path[512];
    qpc_value v;
    snprintf(path, sizeof path, "%s/ccd/physics/%s.json", QPC_TEST_DATA, name);
    parse_file(path, &v);
    const qpc_value *cases = qpc_map_get(qpc_map_get(&v, "setup"), "cases");
    const qpc_value *results = qpc_map_get(&v, "results");
    assert_true(cases->list.count >= 8);
    for (int32_t i = 0; i < cases->list.count; i++) {
        const qpc_value *c = &cases->list.items[i], *label = qpc_map_get(c, "label");
        qpc_vec3 x0[4], x1[4];
        read_points(qpc_map_get(c, "start"), NULL, x0);
        read_points(qpc_map_get(c, "end"), NULL, x1);
        qpc_ccd_result r;
        run(ee, x0, x1, 0, 1e-12, &r);
        int found = 0;
        for (int32_t k = 0; k < results->list.count; k++) {
            const qpc_value *q = qpc_map_get(&results->list.items[k], "quantity");
            const qpc_value *value = qpc_map_get(&results->list.items[k], "value");
            size_t n = label->str.size;
            if (q->str.size < n || memcmp(q->str.bytes, label->str.bytes, n) != 0) continue;
            const char *rest = q->str.bytes + n;
            size_t size = q->str.size - n;
            if (size == 5 && memcmp(rest, ": hit", 5) == 0) {
                if (value->b != (r.outcome != QPC_CCD_MISS))
                    fail_msg("%s, case %d: wrong answer", name, (int)i);
                found++;
            } else if (size > 6 && memcmp(rest, ": time", 6) == 0) {
                double t;
                assert_ok(qpc_read_real(value, "t", 0, 1, &t, NULL), &(qpc_error){0});
                // A double root: distance grows as the square of the time, so 1e-12 is 1e-6 in
                // time.
                assert_true(r.toi <= t + 1e-15 && r.toi >= t - 1e-5);
            }
        }
        assert_int_equal(found, 1);
    }
    qpc_value_fini(&v);
}

static void exact_vertex_triangle_cases(void **state) {
    (void)state;
    check_physics("ccd_vertex_triangle", false);
}
static void exact_edge_edge_cases(void **state) {
    (void)state;
    check_physics("ccd_edge_edge", true);
}

static void numbers_that_are_not_finite_are_hits(void **state) {
    (void)state;
    qpc_vec3 x[4] = {{0.2, 0.2, 1}, {0, 0, 0}, {1, 0, 0}, {0, 1, 0}};
    const double bad[4] = {NAN, INFINITY, -INFINITY, 1e61};
    for (int b = 0; b < 4; b++)
        for (int k = 0; k < 4; k++)
            for (int kind = 0; kind < 2; kind++) {
                qpc_vec3 y[4];
                qpc_ccd_result r;
                memcpy(y, x, sizeof y);
                y[k].y = bad[b];
                run(kind, x, y, 0, 1e-6, &r);
                assert_int_equal(r.outcome, QPC_CCD_AT_START);
                assert_true(r.uncertain);
                assert_true(r.toi == 0);
            }
}

static void a_pair_at_no_distance_gets_a_unit_normal(void **state) {
    (void)state;
    qpc_vec3 on_face[4] = {{0.25, 0.25, 0}, {0, 0, 0}, {1, 0, 0}, {0, 1, 0}};
    qpc_vec3 same[4] = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
    qpc_ccd_result r;
    qpc_ccd_vt(on_face, on_face, 0, 1e-9, &r);
    assert_int_equal(r.outcome, QPC_CCD_AT_START);
    assert_near(fabs(r.n.z), 1, 1e-15);
    qpc_ccd_ee(same, same, 0, 1e-9, &r);
    assert_int_equal(r.outcome, QPC_CCD_AT_START);
    assert_near(v3_norm(r.n), 1, 1e-15);
}

/// A vertex that flies by at the separation plus a little must not be a hit, however far it moves.
static void fast_flyby_is_a_miss(void **state) {
    (void)state;
    for (double speed = 1; speed < 1e5; speed *= 10) {
        double s = 0.03, gap = 1e-4;
        qpc_vec3 x0[4] = {{-speed, 0.1, s + gap}, {-1, -1, 0}, {1, -1, 0}, {0, 1, 0}}, x1[4];
        memcpy(x1, x0, sizeof x1);
        x1[0].x = speed;
        qpc_ccd_result r;
        qpc_ccd_vt(x0, x1, s, 1e-6, &r);
        assert_int_equal(r.outcome, QPC_CCD_MISS);
        x0[0].z = x1[0].z = s - gap;
        qpc_ccd_vt(x0, x1, s, 1e-6, &r);
        assert_int_equal(r.outcome, QPC_CCD_HIT);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sample_queries_without_thickness),
        cmocka_unit_test(sample_queries_with_thickness),
        cmocka_unit_test(simulation_queries_without_thickness),
        cmocka_unit_test(simulation_queries_with_thickness),
        cmocka_unit_test(degenerate_queries_without_thickness),
        cmocka_unit_test(degenerate_queries_with_thickness),
        cmocka_unit_test(tight_tolerance_misses_nothing_either),
        cmocka_unit_test(times_are_tight),
        cmocka_unit_test(near_but_not_a_hit),
        cmocka_unit_test(robustness_cases),
        cmocka_unit_test(exact_vertex_triangle_cases),
        cmocka_unit_test(exact_edge_edge_cases),
        cmocka_unit_test(numbers_that_are_not_finite_are_hits),
        cmocka_unit_test(a_pair_at_no_distance_gets_a_unit_normal),
        cmocka_unit_test(fast_flyby_is_a_miss),
    };
    return cmocka_run_group_tests_name("engine/collision/ccd", tests, NULL, NULL);
}
