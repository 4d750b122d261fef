// The checker itself: against exact truth, against all pairs without a grid, and on motions whose
// answer is known by construction.
#include "tests/support/checker.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double uniform(uint64_t *seed) { // [0, 1)
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) * 0x1p-53;
}
static qpc_checker *empty_checker(void) {
    static const double x[3] = {0, 0, 0};
    const qpc_checker_body body = {.node_count = 1, .radius = 1};
    qpc_checker *c;
    assert_int_equal(qpc_checker_create(&body, 1, x, 1, &c, NULL), QPC_OK);
    return c;
}

// ---- exact truth ----

static void agrees_with_truth(const char *name) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/ccd/%s", QPC_TEST_DATA, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    uint8_t head[32];
    assert_int_equal(fread(head, 1, sizeof head, f), sizeof head);
    uint32_t header, record, count;
    memcpy(&header, head + 12, 4);
    memcpy(&record, head + 16, 4);
    memcpy(&count, head + 20, 4);
    assert_int_equal(record, 232);
    assert_int_equal(fseek(f, (long)header, SEEK_SET), 0);
    qpc_checker *c = empty_checker();
    int filtered = 0, misses = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t raw[232];
        double v[28], time = 2;
        assert_int_equal(fread(raw, 1, sizeof raw, f), sizeof raw);
        memcpy(v, raw, sizeof v);
        bool edges = raw[224] == 1, exact;
        int answer = qpc_checker_query(c, edges, v, v + 12, &time, &exact);
        if (answer != raw[225]) fail_msg("%s record %u: truth %d, answer %d", name, i, raw[225], answer);
        if (answer == 1) {
            // rounded down from the exact root, which lies in [v24, v25]
            assert_true(time <= v[25]);
            assert_true(time >= v[24] - 1e-15);
            continue;
        }
        misses++;
        if (!exact) filtered++;
        // distances seen on the way are never below the proven minimum (up to rounding of our own)
        for (int k = 0; k <= 8; k++) {
            double x[12], size = 0;
            for (int j = 0; j < 12; j++) {
                x[j] = v[j] + k / 8.0 * (v[12 + j] - v[j]);
                size = fmax(size, fabs(x[j]));
            }
            double d = edges ? qpc_checker_distance_ee(x) : qpc_checker_distance_vt(x);
            assert_true(d >= v[26] * (1 - 1e-6) - 1e-14 * size);
        }
    }
    (void)fclose(f);
    qpc_checker_destroy(c);
    print_message("%s: %u records, filter proves %d of %d misses\n", name, count, filtered, misses);
}
static void decides_every_degenerate_query_as_exact_arithmetic_does(void **state) {
    (void)state;
    agrees_with_truth("degenerate.bin");
}
static void decides_every_simulation_query_as_exact_arithmetic_does(void **state) {
    (void)state;
    agrees_with_truth("sim.bin");
}
static void decides_every_published_query_as_exact_arithmetic_does(void **state) {
    (void)state;
    agrees_with_truth("sample_queries.bin");
}
static void not_finite_is_undecided_never_a_miss(void **state) {
    (void)state;
    qpc_checker *c = empty_checker();
    double x0[12] = {0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0}, x1[12];
    memcpy(x1, x0, sizeof x1);
    x1[2] = NAN;
    assert_int_equal(qpc_checker_query(c, false, x0, x1, NULL, NULL), -1);
    x1[2] = INFINITY;
    assert_int_equal(qpc_checker_query(c, true, x0, x1, NULL, NULL), -1);
    qpc_checker_destroy(c);
}
static void order_of_corners_and_ends_does_not_matter(void **state) {
    (void)state;
    qpc_checker *c = empty_checker();
    uint64_t seed = 7;
    int hits = 0;
    for (int n = 0; n < 250; n++) {
        double x0[12], x1[12];
        for (int k = 0; k < 12; k++) {
            // small integers: ties, coplanar and parallel cases are common
            x0[k] = floor(5 * uniform(&seed));
            x1[k] = floor(5 * uniform(&seed));
        }
        for (int edges = 0; edges < 2; edges++) {
            int answer = qpc_checker_query(c, edges, x0, x1, NULL, NULL);
            hits += answer;
            double y0[12], y1[12];
            static const int order[2][4] = {{0, 2, 3, 1}, {3, 2, 1, 0}};
            for (int k = 0; k < 4; k++) {
                memcpy(y0 + 3 * k, x0 + 3 * order[edges][k], 3 * sizeof *y0);
                memcpy(y1 + 3 * k, x1 + 3 * order[edges][k], 3 * sizeof *y1);
            }
            assert_int_equal(qpc_checker_query(c, edges, y0, y1, NULL, NULL), answer);
            assert_int_equal(qpc_checker_query(c, edges, y1, y0, NULL, NULL), answer); // backwards
        }
    }
    assert_true(hits > 20);
    qpc_checker_destroy(c);
}

// ---- whole scenes ----

typedef struct scene {
    double x0[600], x1[600];
    int32_t triangles[300];
    int32_t cable_nodes, mesh_nodes, triangle_count;
} scene;

static qpc_checker *scene_checker(const scene *s, double radius, bool mesh_moves) {
    const qpc_checker_body bodies[2] = {
        {.first_node = 0, .node_count = s->mesh_nodes, .triangles = s->triangles,
         .triangle_count = s->triangle_count, .moves = mesh_moves},
        {.first_node = s->mesh_nodes, .node_count = s->cable_nodes, .radius = radius, .moves = true,
         .self_exclusion = -1},
    };
    qpc_checker *c;
    assert_int_equal(
        qpc_checker_create(bodies, 2, s->x0, s->mesh_nodes + s->cable_nodes, &c, NULL), QPC_OK);
    return c;
}
// A flat square of two triangles in z = 0 and a cable of two nodes that moves from z0 to z1.
static scene plate(double z0, double z1, double shift) {
    scene s = {.mesh_nodes = 4, .cable_nodes = 2, .triangle_count = 2,
               .triangles = {0, 1, 2, 0, 2, 3}};
    static const double corner[4][2] = {{-1, -1}, {1, -1}, {1, 1}, {-1, 1}};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 2; k++) s.x0[3 * i + k] = s.x1[3 * i + k] = corner[i][k];
    for (int i = 0; i < 2; i++) {
        double *p0 = s.x0 + 3 * (4 + i), *p1 = s.x1 + 3 * (4 + i);
        p0[0] = p1[0] = shift + 0.25 * i;
        p0[1] = p1[1] = 0.1;
        p0[2] = z0;
        p1[2] = z1;
    }
    return s;
}
static qpc_check_report run(const scene *s, double radius, bool mesh_moves) {
    qpc_checker *c = scene_checker(s, radius, mesh_moves);
    qpc_check_report r;
    qpc_check_report_init(&r);
    bool clean = qpc_checker_step(c, s->x0, s->x1, &r);
    assert_int_equal(clean, r.crossings + r.intersections + r.undecided == 0);
    qpc_checker_destroy(c);
    return r;
}
static void passing_through_a_sheet_is_a_crossing_although_both_ends_are_clean(void **state) {
    (void)state;
    scene s = plate(3, -1, 0);
    qpc_check_report r = run(&s, 0.01, false);
    assert_true(r.crossings > 0);
    assert_int_equal(r.intersections, 0);
    assert_int_equal(r.finding[0].kind, QPC_FOUND_CROSSING);
    assert_true(fabs(r.finding[0].time - 0.75) < 1e-15);
}
static void a_motion_beside_the_sheet_is_clean(void **state) {
    (void)state;
    scene s = plate(3, -1, 1.0000001);
    qpc_check_report r = run(&s, 1e-9, false);
    assert_int_equal(r.crossings + r.intersections + r.undecided, 0);
    // one ulp outside is clean, exactly on the rim is not
    s = plate(3, -1, nextafter(1, 2));
    assert_int_equal(run(&s, 1e-9, false).crossings, 0);
    s = plate(3, -1, 1);
    assert_true(run(&s, 1e-9, false).crossings > 0);
}
static void an_edge_through_a_triangle_is_an_intersection_of_the_state(void **state) {
    (void)state;
    scene s = plate(0.5, 0.5, 0);
    s.x0[3 * 5 + 2] = s.x1[3 * 5 + 2] = -0.5;
    qpc_check_report r = run(&s, 0.01, false);
    assert_true(r.intersections > 0);
    assert_true(r.worst_penetration == 1);
    assert_true(r.least_ratio == 0);
}
static void touching_exactly_at_the_end_counts(void **state) {
    (void)state;
    scene s = plate(0.5, 0, 0);
    qpc_check_report r = run(&s, 0.01, false);
    assert_true(r.crossings > 0);
    assert_true(r.intersections > 0);
    s = plate(0.5, 0x1p-1074, 0); // the smallest number above 0
    r = run(&s, 0.01, false);
    assert_int_equal(r.crossings + r.intersections, 0);
    assert_true(r.worst_penetration == 1);
}
static void penetration_is_the_missing_part_of_the_thickness(void **state) {
    (void)state;
    scene s = plate(0.5, 0.0096, 0);
    qpc_check_report r = run(&s, 0.01, false);
    assert_true(fabs(r.worst_penetration - 0.04) < 1e-12);
    assert_true(fabs(r.least_ratio - 0.96) < 1e-12);
    s = plate(0.5, 0.0104, 0);
    r = run(&s, 0.01, false);
    assert_true(r.worst_penetration == 0);
    assert_true(fabs(r.least_ratio - 1.04) < 1e-12);
}
static void a_mesh_that_moves_over_a_resting_cable_is_seen(void **state) {
    (void)state;
    scene s = plate(1, 1, 0);
    for (int i = 0; i < 4; i++) s.x1[3 * i + 2] = 2;
    assert_true(run(&s, 0.01, true).crossings > 0);
}
static void a_cable_that_folds_through_itself_is_seen(void **state) {
    (void)state;
    // four nodes in a U; the last node swings through the first edge
    double x0[12] = {0, 0, 0, 1, 0, 0, 1, 1, 0, 0.5, 0.6, 0.5}, x1[12];
    memcpy(x1, x0, sizeof x1);
    x1[10] = -0.5;
    x1[11] = -0.2;
    const qpc_checker_body body = {.node_count = 4, .radius = 0.01, .moves = true,
                                   .self_exclusion = 100};
    qpc_checker *c;
    qpc_check_report r;
    qpc_check_report_init(&r);
    assert_int_equal(qpc_checker_create(&body, 1, x0, 4, &c, NULL), QPC_OK);
    qpc_checker_step(c, x0, x0, &r);
    assert_int_equal(r.crossings, 0);
    qpc_checker_step(c, x0, x1, &r);
    assert_int_equal(r.crossings, 1);
    assert_int_equal(r.finding[0].feature[0], 0);
    assert_int_equal(r.finding[0].feature[1], 2);
    assert_true(r.worst_penetration == 0); // near along the rest shape: no thickness asked
    qpc_checker_destroy(c);
}
static void neighbours_of_a_fine_cable_are_not_penetrating(void **state) {
    (void)state;
    double x[60];
    for (int i = 0; i < 20; i++) x[3 * i] = 0.001 * i, x[3 * i + 1] = x[3 * i + 2] = 0;
    qpc_checker_body body = {.node_count = 20, .radius = 0.01, .moves = true,
                             .self_exclusion = -1};
    qpc_checker *c;
    qpc_check_report r;
    qpc_check_report_init(&r);
    assert_int_equal(qpc_checker_create(&body, 1, x, 20, &c, NULL), QPC_OK);
    qpc_checker_state(c, x, &r);
    qpc_checker_destroy(c);
    assert_int_equal(r.intersections, 0);
    assert_true(r.worst_penetration == 0);
    body.self_exclusion = 0.0015; // now most pairs count
    qpc_check_report_init(&r);
    assert_int_equal(qpc_checker_create(&body, 1, x, 20, &c, NULL), QPC_OK);
    qpc_checker_state(c, x, &r);
    qpc_checker_destroy(c);
    assert_true(fabs(r.worst_penetration - 0.9) < 1e-9); // 2 mm apart, 20 mm thick
}

// Random soup: the grid and the sweep must find what looking at every pair finds.
static void grid_and_sweep_lose_no_pair(void **state) {
    (void)state;
    uint64_t seed = 12345;
    int crossings = 0, intersections = 0;
    for (int round = 0; round < 15; round++) {
        scene s = {.mesh_nodes = 40, .cable_nodes = 12, .triangle_count = 60};
        double motion = round % 3 == 0 ? 0.02 : round % 3 == 1 ? 0.3 : 2;
        bool mesh_moves = round % 2 == 1;
        for (int t = 0; t < s.triangle_count; t++) {
            int a = (int)(37 * uniform(&seed));
            for (int k = 0; k < 3; k++) s.triangles[3 * t + k] = a + k + (k == 2 && t % 2);
        }
        for (int i = 0; i < s.mesh_nodes + s.cable_nodes; i++) {
            for (int k = 0; k < 3; k++) {
                bool cable = i >= s.mesh_nodes;
                s.x0[3 * i + k] = 3 * uniform(&seed);
                if (round % 5 == 0) s.x0[3 * i + k] = floor(3 * s.x0[3 * i + k]) / 3;
                s.x1[3 * i + k] = s.x0[3 * i + k];
                if (cable || mesh_moves) s.x1[3 * i + k] += motion * (uniform(&seed) - 0.5);
            }
        }
        qpc_check_report r = run(&s, 0.05, mesh_moves);
        qpc_checker *c = empty_checker();
        int64_t expect = 0, meet = 0;
        double least = 2;
        for (int e = s.mesh_nodes; e < s.mesh_nodes + s.cable_nodes - 1; e++) {
            for (int t = 0; t < s.triangle_count; t++) {
                double p0[5][3], p1[5][3], q0[12], q1[12];
                for (int k = 0; k < 5; k++) {
                    int node = k < 2 ? e + k : s.triangles[3 * t + k - 2];
                    memcpy(p0[k], s.x0 + 3 * node, sizeof p0[k]);
                    memcpy(p1[k], s.x1 + 3 * node, sizeof p1[k]);
                }
                int hit = 0;
                double d = INFINITY;
                for (int v = 0; v < 2; v++) {
                    memcpy(q0, p0[v], sizeof p0[v]);
                    memcpy(q1, p1[v], sizeof p1[v]);
                    memcpy(q0 + 3, p0[2], 9 * sizeof(double));
                    memcpy(q1 + 3, p1[2], 9 * sizeof(double));
                    bool mine = v == 0 || e == s.mesh_nodes + s.cable_nodes - 2;
                    if (mine) hit |= qpc_checker_query(c, false, q0, q1, NULL, NULL);
                    d = fmin(d, qpc_checker_distance_vt(q1));
                }
                for (int k = 0; k < 3; k++) {
                    memcpy(q0, p0[0], 6 * sizeof(double));
                    memcpy(q1, p1[0], 6 * sizeof(double));
                    memcpy(q0 + 6, p0[2 + k], sizeof p0[k]);
                    memcpy(q1 + 6, p1[2 + k], sizeof p1[k]);
                    memcpy(q0 + 9, p0[2 + (k + 1) % 3], sizeof p0[k]);
                    memcpy(q1 + 9, p1[2 + (k + 1) % 3], sizeof p1[k]);
                    hit |= qpc_checker_query(c, true, q0, q1, NULL, NULL);
                    d = fmin(d, qpc_checker_distance_ee(q1));
                }
                expect += hit;
                memcpy(q0, p1[0], sizeof p1[0]);
                memcpy(q1, p1[1], sizeof p1[1]);
                memcpy(q0 + 3, p1[2], 9 * sizeof(double));
                memcpy(q1 + 3, p1[2], 9 * sizeof(double));
                int now = qpc_checker_query(c, false, q0, q1, NULL, NULL);
                meet += now;
                least = fmin(least, now ? 0 : d / 0.05);
            }
        }
        for (int a = s.mesh_nodes; a < s.mesh_nodes + s.cable_nodes - 1; a++) {
            for (int b = a + 2; b < s.mesh_nodes + s.cable_nodes - 1; b++) {
                double q0[12], q1[12];
                memcpy(q0, s.x0 + 3 * a, 6 * sizeof(double));
                memcpy(q1, s.x1 + 3 * a, 6 * sizeof(double));
                memcpy(q0 + 6, s.x0 + 3 * b, 6 * sizeof(double));
                memcpy(q1 + 6, s.x1 + 3 * b, 6 * sizeof(double));
                expect += qpc_checker_query(c, true, q0, q1, NULL, NULL);
                int now = qpc_checker_query(c, true, q1, q1, NULL, NULL);
                meet += now;
                least = fmin(least, now ? 0 : qpc_checker_distance_ee(q1) / 0.1);
            }
        }
        qpc_checker_destroy(c);
        assert_int_equal(r.crossings, expect);
        assert_int_equal(r.intersections, meet);
        assert_true(r.least_ratio == least);
        crossings += (int)expect;
        intersections += (int)meet;
    }
    assert_true(crossings > 300);
    assert_true(intersections > 50);
}
// ---- deforming meshes ----

enum { SIDE = 7, CLOTH = SIDE * SIDE };
// A sheet of 6 x 6 cells of 0.1 m at height z, and its triangles.
static void sheet_at(double z, double *x, int32_t *t) {
    for (int i = 0; i < CLOTH; i++) {
        x[3 * i] = 0.1 * (i % SIDE);
        x[3 * i + 1] = 0.1 * (i / SIDE) + 0.013;
        x[3 * i + 2] = z;
    }
    for (int j = 0, k = 0; j + 1 < SIDE; j++)
        for (int i = 0; i + 1 < SIDE; i++) {
            int32_t p = j * SIDE + i, cell[] = {p, p + 1, p + SIDE + 1, p, p + SIDE + 1, p + SIDE};
            memcpy(t + 6 * (size_t)k++, cell, sizeof cell);
        }
}
/// exclusion: of the first, self_exclusion.
static qpc_checker *two_sheets_of(double *x, bool second_deforms, double exclusion) {
    static int32_t t[6 * (SIDE - 1) * (SIDE - 1)];
    sheet_at(0, x, t);
    sheet_at(0.1, x + 3 * (size_t)CLOTH, t);
    for (int i = 0; i < CLOTH; i++) x[3 * (CLOTH + i)] += 0.037; // no edge above an edge
    qpc_checker_body b[2] = {{0, CLOTH, t, 2 * (SIDE - 1) * (SIDE - 1), true, true, NULL, 0.01, NULL, -1}};
    b[1] = b[0];
    b[1].first_node = CLOTH;
    b[1].deforms = second_deforms;
    b[0].self_exclusion = exclusion;
    qpc_checker *c;
    assert_int_equal(qpc_checker_create(b, 2, x, 2 * CLOTH, &c, NULL), QPC_OK);
    return c;
}
static qpc_checker *two_sheets(double *x, bool second_deforms) { return two_sheets_of(x, second_deforms, -1); }
static void a_sheet_that_passes_through_another_is_a_crossing_although_both_ends_are_clean(void **state) {
    (void)state;
    for (int second = 0; second < 2; second++)
        for (int which = 0; which < 2; which++) { // whichever of the two moves
            double x0[6 * CLOTH], x1[6 * CLOTH];
            qpc_check_report r;
            qpc_checker *c = two_sheets(x0, second != 0);
            memcpy(x1, x0, sizeof x1);
            for (int i = 0; i < CLOTH; i++) x1[3 * (which * CLOTH + i) + 2] += which == 0 ? 0.25 : -0.25;
            qpc_check_report_init(&r);
            assert_false(qpc_checker_step(c, x0, x1, &r));
            assert_true(r.crossings > 100);
            assert_int_equal(r.intersections, 0);
            qpc_checker_destroy(c);
        }
}
static void one_vertex_or_one_edge_through_a_sheet_is_seen(void **state) {
    (void)state;
    for (int edge = 0; edge < 2; edge++) {
        double x0[6 * CLOTH], x1[6 * CLOTH];
        qpc_check_report r;
        qpc_checker *c = two_sheets(x0, true);
        memcpy(x1, x0, sizeof x1);
        // an inner vertex of the upper sheet through the lower, or the lower one's edge pushed up between
        // vertices of the upper, far enough that edges cross but no vertex gets through a triangle's middle
        if (edge) x1[3 * (3 * SIDE + 3) + 2] = 0.12;
        else x1[3 * (CLOTH + 3 * SIDE + 3) + 2] = -0.02;
        qpc_check_report_init(&r);
        assert_false(qpc_checker_step(c, x0, x1, &r));
        assert_true(r.crossings > 0 && r.intersections > 0);
        assert_int_equal(r.finding[0].body[0] + r.finding[0].body[1], 1);
        qpc_checker_destroy(c);
    }
}
static void a_sheet_that_folds_through_itself_is_seen_and_one_that_only_folds_is_not(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) { // folds, folds through itself, and so as a body that is not to meet itself
        double x[4][6 * CLOTH];
        qpc_check_report r;
        bool through = kind > 0, seen = kind == 1;
        qpc_checker *c = two_sheets_of(x[0], false, kind == 2 ? HUGE_VAL : -1);
        for (int i = 0; i < CLOTH; i++) x[0][3 * (CLOTH + i) + 2] = 50; // the other one is elsewhere
        for (int step = 1; step < 4; step++) { // the last columns turn up and over, towards the first ones
            memcpy(x[step], x[0], sizeof x[0]);
            double angle = step * acos(-1.0) / 3, height = through && step == 3 ? -0.03 : 0.05;
            for (int i = 0; i < CLOTH; i++) {
                double along = 0.1 * (i % SIDE) - 0.33;
                if (along < 0) continue;
                x[step][3 * i] = 0.33 + along * cos(angle);
                x[step][3 * i + 2] = along * sin(angle) + (step == 3 ? height : 0);
            }
        }
        qpc_check_report_init(&r);
        bool clean = true;
        for (int step = 0; step < 3; step++) clean = qpc_checker_step(c, x[step], x[step + 1], &r) && clean;
        assert_int_equal(clean, !seen);
        assert_int_equal(r.crossings > 0, seen);
        if (seen) assert_true(r.finding[0].body[0] == 0 && r.finding[0].body[1] == 0);
        qpc_checker_destroy(c);
    }
}
static void penetration_of_sheets_is_the_missing_part_of_the_thickness(void **state) {
    (void)state;
    double x[6 * CLOTH];
    qpc_check_report r;
    qpc_checker *c = two_sheets(x, true);
    for (int i = 0; i < CLOTH; i++) x[3 * (CLOTH + i) + 2] = 0.015; // of 0.02
    qpc_check_report_init(&r);
    qpc_checker_state(c, x, &r);
    assert_true(fabs(r.worst_penetration - 0.25) < 1e-12);
    assert_int_equal(r.intersections, 0);
    // folded to within half a thickness: far apart at rest, so it counts; neighbours do not
    sheet_at(0, x, (int32_t[6 * (SIDE - 1) * (SIDE - 1)]){0});
    for (int i = 0; i < CLOTH; i++) {
        x[3 * (CLOTH + i) + 2] = 50;
        if (i % SIDE < 4) continue;
        x[3 * i] = 0.3 - 0.1 * (i % SIDE - 4);
        x[3 * i + 2] = 0.01;
    }
    qpc_check_report_init(&r);
    qpc_checker_state(c, x, &r);
    assert_true(r.worst_penetration >= 0.5 && r.worst_penetration < 0.51); // diagonals of the upright cells
    qpc_checker_destroy(c);
}
/// Brute force over all pairs of features against grid and ownership: the number of crossings found and the least distance.
static void grids_lose_no_pair_of_sheets(void **state) {
    (void)state;
    uint64_t seed = 3;
    static int32_t t[6 * (SIDE - 1) * (SIDE - 1)];
    int found = 0;
    for (int turn = 0; turn < 12; turn++) {
        double x0[6 * CLOTH], x1[6 * CLOTH];
        qpc_checker *c = two_sheets(x0, true);
        sheet_at(0, x1, t);
        memcpy(x1, x0, sizeof x1);
        for (int i = 0; i < 6 * CLOTH; i++) x1[i] = x0[i] + (turn % 3 == 0 ? 0.03 : 0.12) * (uniform(&seed) - 0.5);
        qpc_check_report r;
        qpc_check_report_init(&r);
        (void)qpc_checker_step(c, x0, x1, &r);
        int64_t crossings = 0;
        const int triangles = 2 * (SIDE - 1) * (SIDE - 1);
        bool edge[2 * CLOTH][2 * CLOTH] = {{false}}; // each once
        int32_t ends[4000][2], edges = 0;
        for (int s = 0; s < 2; s++)
            for (int k = 0; k < 3 * triangles; k++) {
                int32_t p = t[k] + s * CLOTH, q = t[3 * (k / 3) + (k + 1) % 3] + s * CLOTH, low = p < q ? p : q;
                int32_t high = p < q ? q : p;
                if (edge[low][high]) continue;
                edge[low][high] = true;
                ends[edges][0] = low;
                ends[edges++][1] = high;
            }
        double a[12], b[12], time;
        for (int v = 0; v < 2 * CLOTH; v++)
            for (int k = 0; k < 2 * triangles; k++) {
                int32_t node[4] = {v};
                bool own = false;
                for (int j = 0; j < 3; j++) {
                    node[1 + j] = t[3 * (k % triangles) + j] + (k / triangles) * CLOTH;
                    own = own || node[1 + j] == v;
                }
                for (int j = 0; j < 12; j++) a[j] = x0[3 * node[j / 3] + j % 3], b[j] = x1[3 * node[j / 3] + j % 3];
                if (!own) crossings += qpc_checker_query(c, false, a, b, &time, NULL) == 1;
            }
        for (int i = 0; i < edges; i++)
            for (int k = i + 1; k < edges; k++) {
                int32_t node[4] = {ends[i][0], ends[i][1], ends[k][0], ends[k][1]};
                if (node[0] == node[2] || node[0] == node[3] || node[1] == node[2] || node[1] == node[3]) continue;
                for (int j = 0; j < 12; j++) a[j] = x0[3 * node[j / 3] + j % 3], b[j] = x1[3 * node[j / 3] + j % 3];
                crossings += qpc_checker_query(c, true, a, b, &time, NULL) == 1;
            }
        assert_int_equal(r.crossings, crossings);
        found += crossings > 0;
        qpc_checker_destroy(c);
    }
    assert_true(found > 3);
}

static void bad_bodies_are_refused(void **state) {
    (void)state;
    static const double x[6] = {0};
    static const int32_t bad[3] = {0, 1, 2};
    qpc_checker *c;
    qpc_checker_body b = {.first_node = 0, .node_count = 3};
    assert_int_equal(qpc_checker_create(&b, 1, x, 2, &c, NULL), QPC_ERR_INVALID);
    b = (qpc_checker_body){.node_count = 2, .triangles = bad, .triangle_count = 1};
    assert_int_equal(qpc_checker_create(&b, 1, x, 2, &c, NULL), QPC_ERR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decides_every_degenerate_query_as_exact_arithmetic_does),
        cmocka_unit_test(decides_every_simulation_query_as_exact_arithmetic_does),
        cmocka_unit_test(decides_every_published_query_as_exact_arithmetic_does),
        cmocka_unit_test(not_finite_is_undecided_never_a_miss),
        cmocka_unit_test(order_of_corners_and_ends_does_not_matter),
        cmocka_unit_test(passing_through_a_sheet_is_a_crossing_although_both_ends_are_clean),
        cmocka_unit_test(a_motion_beside_the_sheet_is_clean),
        cmocka_unit_test(an_edge_through_a_triangle_is_an_intersection_of_the_state),
        cmocka_unit_test(touching_exactly_at_the_end_counts),
        cmocka_unit_test(penetration_is_the_missing_part_of_the_thickness),
        cmocka_unit_test(a_mesh_that_moves_over_a_resting_cable_is_seen),
        cmocka_unit_test(a_cable_that_folds_through_itself_is_seen),
        cmocka_unit_test(neighbours_of_a_fine_cable_are_not_penetrating),
        cmocka_unit_test(grid_and_sweep_lose_no_pair),
        cmocka_unit_test(a_sheet_that_passes_through_another_is_a_crossing_although_both_ends_are_clean),
        cmocka_unit_test(one_vertex_or_one_edge_through_a_sheet_is_seen),
        cmocka_unit_test(a_sheet_that_folds_through_itself_is_seen_and_one_that_only_folds_is_not),
        cmocka_unit_test(penetration_of_sheets_is_the_missing_part_of_the_thickness),
        cmocka_unit_test(grids_lose_no_pair_of_sheets),
        cmocka_unit_test(bad_bodies_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
