/// Pre-flight on small meshes with one fault each, and crossings against brute force.
#include "tests/support/check.h"

#include "base/mem.h"
#include "engine/geometry/predicates.h"
#include "engine/preflight/preflight.h"

#define COUNT(a) (int64_t)(sizeof(a) / sizeof((a)[0]))

static const double cube_x[] = {0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1};
static const int32_t cube_t[] = {0, 2, 1, 0, 3, 2, 4, 5, 6, 4, 6, 7, 0, 1, 5, 0, 5, 4,
                                 1, 2, 6, 1, 6, 5, 2, 3, 7, 2, 7, 6, 3, 0, 4, 3, 4, 7};

static qpc_preflight run(const double *x, int64_t numbers, const int32_t *e, int64_t indices, int nodes) {
    qpc_preflight r;
    qpc_error err = {0};
    assert_int_equal(qpc_preflight_run(x, numbers / 3, e, indices / nodes, nodes, NULL, &r, &err), QPC_OK);
    return r;
}

/// No finding but those listed.
static void only(const qpc_preflight *r, int count, const qpc_finding_kind *kinds) {
    for (int k = 0; k < QPC_FINDING_COUNT; k++) {
        bool listed = false;
        for (int i = 0; i < count; i++) listed |= kinds[i] == (qpc_finding_kind)k;
        if (listed != (r->finding[k].total > 0))
            fail_msg("%s: %lld", qpc_finding_specs[k].name, (long long)r->finding[k].total);
    }
}

static void a_cube_is_good_for_everything(void **state) {
    (void)state;
    qpc_preflight r = run(cube_x, COUNT(cube_x), cube_t, COUNT(cube_t), 3);
    only(&r, 0, NULL);
    assert_true(r.closed && r.oriented && r.complete);
    assert_int_equal(r.vertices, 8);
    assert_int_equal(r.edges, 18);
    assert_int_equal(r.euler, 2);
    assert_int_equal(r.parts, 1);
    assert_float_equal(r.volume, 1, 1e-15);
    assert_float_equal(r.area, 6, 1e-14);
    qpc_preflight_fini(&r);
}

/// As world.create has it: tetrahedra for soft bodies, triangles for the others.
static void elements_that_a_use_does_not_take_are_told_with_what_makes_them(void **state) {
    (void)state;
    for (int u = 0; u < QPC_USE_COUNT; u++)
        for (int nodes = 2; nodes <= 4; nodes++) {
            const char *text = qpc_preflight_unfit(nodes, (qpc_mesh_use)u);
            assert_int_equal(text == NULL, nodes == (u == QPC_USE_SOFT ? 4 : 3));
            if (u == QPC_USE_SOFT && text != NULL) assert_non_null(strstr(text, "tetgen -pq"));
            if (u != QPC_USE_SOFT && nodes == 4) assert_non_null(strstr(text, "--surface"));
        }
}

static void a_missing_triangle_opens_three_edges(void **state) {
    (void)state;
    qpc_preflight r = run(cube_x, COUNT(cube_x), cube_t, COUNT(cube_t) - 3, 3);
    only(&r, 1, (qpc_finding_kind[]){QPC_FINDING_OPEN_EDGES});
    const qpc_finding *f = &r.finding[QPC_FINDING_OPEN_EDGES];
    assert_int_equal(f->total, 3);
    const int32_t want[] = {3, 4, 10, 3, 7, 8, 4, 7, 3};
    assert_memory_equal(f->items, want, sizeof want);
    assert_int_equal(qpc_preflight_weight(&r, QPC_FINDING_OPEN_EDGES, QPC_USE_RIGID), 'E');
    assert_int_equal(qpc_preflight_weight(&r, QPC_FINDING_OPEN_EDGES, QPC_USE_SURFACE), 'W');
    assert_int_equal(qpc_preflight_weight(&r, QPC_FINDING_OPEN_EDGES, QPC_USE_CLOTH), '-');
    qpc_preflight_fini(&r);
}

static void a_triangle_wound_the_other_way_is_found_by_its_edges(void **state) {
    (void)state;
    int32_t t[COUNT(cube_t)];
    memcpy(t, cube_t, sizeof t);
    t[1] = cube_t[2], t[2] = cube_t[1];
    qpc_preflight r = run(cube_x, COUNT(cube_x), t, COUNT(t), 3);
    only(&r, 1, (qpc_finding_kind[]){QPC_FINDING_FLIPPED_EDGES});
    assert_int_equal(r.finding[QPC_FINDING_FLIPPED_EDGES].total, 3);
    assert_true(r.closed && !r.oriented);
    qpc_preflight_fini(&r);
    for (int64_t i = 0; i < COUNT(t); i += 3) t[i] = cube_t[i], t[i + 1] = cube_t[i + 2], t[i + 2] = cube_t[i + 1];
    r = run(cube_x, COUNT(cube_x), t, COUNT(t), 3);
    only(&r, 1, (qpc_finding_kind[]){QPC_FINDING_INSIDE_OUT});
    assert_float_equal(r.volume, -1, 1e-15);
    qpc_preflight_fini(&r);
}

static void repeated_corners_count_once_and_are_said(void **state) {
    (void)state;
    double x[3 * COUNT(cube_t) + 3];
    int32_t t[COUNT(cube_t)];
    for (int32_t i = 0; i < COUNT(cube_t); i++) {
        for (int d = 0; d < 3; d++) x[3 * i + d] = -cube_x[3 * cube_t[i] + d]; // has -0
        t[i] = i;
    }
    for (int d = 0; d < 3; d++) x[3 * COUNT(cube_t) + d] = 0.5; // belongs to nothing
    qpc_preflight r = run(x, COUNT(x), t, COUNT(t), 3);
    only(&r, 3, (qpc_finding_kind[]){QPC_FINDING_DUPLICATE_VERTICES, QPC_FINDING_UNREFERENCED_VERTICES,
                                     QPC_FINDING_INSIDE_OUT});
    assert_true(r.oriented);
    assert_int_equal(r.vertices, 8);
    assert_int_equal(r.finding[QPC_FINDING_DUPLICATE_VERTICES].total, 28);
    assert_int_equal(r.finding[QPC_FINDING_DUPLICATE_VERTICES].count, QPC_PREFLIGHT_LIST);
    assert_int_equal(r.finding[QPC_FINDING_UNREFERENCED_VERTICES].items[0], 36);
    qpc_preflight_fini(&r);
}

static void triangles_without_area_and_repeated_ones_are_left_out(void **state) {
    (void)state;
    const double x[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0};
    const int32_t t[] = {0, 1, 2, 0, 1, 3, 0, 1, 4, 2, 1, 0, 1, 2, 0, 0, 1, 1};
    qpc_preflight r = run(x, COUNT(x), t, COUNT(t), 3);
    only(&r, 4, (qpc_finding_kind[]){QPC_FINDING_ZERO_AREA, QPC_FINDING_DUPLICATE_TRIANGLES,
                                     QPC_FINDING_DUPLICATE_VERTICES, QPC_FINDING_OPEN_EDGES});
    const int32_t flat[] = {1, 2, 5}, repeated[] = {3, 4};
    assert_int_equal(r.finding[QPC_FINDING_ZERO_AREA].total, 3);
    assert_memory_equal(r.finding[QPC_FINDING_ZERO_AREA].items, flat, sizeof flat);
    assert_memory_equal(r.finding[QPC_FINDING_DUPLICATE_TRIANGLES].items, repeated, sizeof repeated);
    assert_int_equal(r.triangles, 1);
    qpc_preflight_fini(&r);
}

static void three_triangles_at_an_edge_are_no_manifold(void **state) {
    (void)state;
    const double x[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, -1, 0, 0, 0, 1};
    const int32_t t[] = {0, 1, 2, 1, 0, 3, 0, 1, 4};
    qpc_preflight r = run(x, COUNT(x), t, COUNT(t), 3);
    only(&r, 3, (qpc_finding_kind[]){QPC_FINDING_NON_MANIFOLD_EDGES, QPC_FINDING_OPEN_EDGES, QPC_FINDING_UNBALANCED_EDGES}); // an odd number
    const int32_t want[] = {0, 1, 0};
    assert_memory_equal(r.finding[QPC_FINDING_NON_MANIFOLD_EDGES].items, want, sizeof want);
    qpc_preflight_fini(&r);
}

/// As in the inertia of a rigid body: each edge is run along as often forth as back.
static void tetrahedra_that_share_an_edge_or_a_face_enclose_a_volume(void **state) {
    (void)state;
    const double x[] = {0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, -1, 0, 0, 0, -1, 0};
    const int32_t edge[] = {0, 2, 1, 2, 3, 1, 3, 0, 1, 0, 3, 2, 0, 4, 1, 4, 5, 1, 5, 0, 1, 0, 5, 4};
    qpc_preflight r = run(x, COUNT(x), edge, COUNT(edge), 3);
    only(&r, 1, (qpc_finding_kind[]){QPC_FINDING_NON_MANIFOLD_EDGES});
    assert_int_equal(qpc_preflight_weight(&r, QPC_FINDING_NON_MANIFOLD_EDGES, QPC_USE_RIGID), 'W');
    assert_int_equal(qpc_preflight_weight(&r, QPC_FINDING_NON_MANIFOLD_EDGES, QPC_USE_SOFT), 'E');
    assert_true(fabs(r.volume - 2.0 / 6) < 1e-15);
    qpc_preflight_fini(&r);
    // The face 0 1 3 of both, once in each direction.
    const int32_t face[] = {0, 2, 1, 2, 3, 1, 3, 0, 1, 0, 3, 2, 4, 0, 1, 4, 1, 3, 4, 3, 0, 0, 3, 1};
    r = run(x, COUNT(x) - 3, face, COUNT(face), 3);
    only(&r, 2, (qpc_finding_kind[]){QPC_FINDING_NON_MANIFOLD_EDGES, QPC_FINDING_DUPLICATE_TRIANGLES});
    qpc_preflight_fini(&r);
    // The same way twice: a rigid body is refused.
    int32_t twice[COUNT(edge) / 2 + 3];
    memcpy(twice, edge, 12 * sizeof *edge);
    memcpy(twice + 12, edge, 3 * sizeof *edge);
    r = run(x, COUNT(x) - 6, twice, 15, 3);
    assert_int_equal(r.finding[QPC_FINDING_FLIPPED_EDGES].total, 0);
    assert_int_equal(r.finding[QPC_FINDING_UNBALANCED_EDGES].total, 3);
    assert_int_equal(qpc_preflight_weight(&r, QPC_FINDING_UNBALANCED_EDGES, QPC_USE_RIGID), 'E');
    qpc_preflight_fini(&r);
}

static void vertices_without_a_mass_are_errors_of_bodies_that_need_one(void **state) {
    (void)state;
    const double x[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 2, 2, 2};
    const int32_t t[] = {0, 1, 2, 3};
    qpc_preflight r = run(x, COUNT(x), t, COUNT(t), 4);
    const int32_t want[] = {4};
    assert_memory_equal(r.finding[QPC_FINDING_UNREFERENCED_VERTICES].items, want, sizeof want);
    const char weight[] = {'W', 'E', 'W', 'E'};
    for (int u = 0; u < QPC_USE_COUNT; u++)
        assert_int_equal(qpc_preflight_weight(&r, QPC_FINDING_UNREFERENCED_VERTICES, (qpc_mesh_use)u), weight[u]);
    qpc_preflight_fini(&r);
}

static void crossings_touches_and_folds_are_told_apart(void **state) {
    (void)state;
    const struct {
        double x[18];
        int32_t t[6];
        qpc_finding_kind kind; // or COUNT: nothing
    } cases[] = {
        // an edge through the inside
        {{0, 0, 0, 4, 0, 0, 0, 4, 0, 1, 1, -1, 1, 1, 1, 9, 9, 0}, {0, 1, 2, 3, 4, 5}, QPC_FINDING_SELF_INTERSECTIONS},
        // a corner on the inside, a corner on an edge, flat on each other, edge through edge
        {{0, 0, 0, 4, 0, 0, 0, 4, 0, 1, 1, 0, 1, 1, 1, 2, 1, 1}, {0, 1, 2, 3, 4, 5}, QPC_FINDING_TOUCHING_TRIANGLES},
        {{0, 0, 0, 4, 0, 0, 0, 4, 0, 1, 0, 0, 1, -1, 1, 2, -1, 1}, {0, 1, 2, 3, 4, 5}, QPC_FINDING_TOUCHING_TRIANGLES},
        {{0, 0, 0, 4, 0, 0, 0, 4, 0, 1, 1, 0, 5, 1, 0, 1, 5, 0}, {0, 1, 2, 3, 4, 5}, QPC_FINDING_TOUCHING_TRIANGLES},
        // in one plane beside each other, and one above the other
        {{0, 0, 0, 4, 0, 0, 0, 4, 0, 3, 2, 0, 5, 1, 0, 5, 5, 0}, {0, 1, 2, 3, 4, 5}, QPC_FINDING_COUNT},
        {{0, 0, 0, 4, 0, 0, 0, 4, 0, 1, 1, 1e-9, 5, 1, 1, 1, 5, 1}, {0, 1, 2, 3, 4, 5}, QPC_FINDING_COUNT},
        // with a common vertex: through, and beside
        {{0, 0, 0, 4, 0, 0, 0, 4, 0, 2, 1, -1, 2, 1, 1}, {0, 1, 2, 0, 3, 4}, QPC_FINDING_FOLDED_TRIANGLES},
        {{0, 0, 0, 4, 0, 0, 0, 4, 0, -2, -1, -1, -2, -1, 1}, {0, 1, 2, 0, 3, 4}, QPC_FINDING_COUNT},
        // with a common edge: folded flat, and nearly
        {{0, 0, 0, 4, 0, 0, 0, 4, 0, 1, 5, 0}, {0, 1, 2, 1, 0, 3}, QPC_FINDING_FOLDED_TRIANGLES},
        {{0, 0, 0, 4, 0, 0, 0, 4, 0, 1, 5, 1e-12}, {0, 1, 2, 1, 0, 3}, QPC_FINDING_COUNT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t most = 0;
        for (int k = 0; k < 6; k++) most = cases[i].t[k] > most ? cases[i].t[k] : most;
        qpc_preflight r = run(cases[i].x, 3 * (most + 1), cases[i].t, 6, 3);
        for (int k = QPC_FINDING_SELF_INTERSECTIONS; k <= QPC_FINDING_FOLDED_TRIANGLES; k++)
            if (r.finding[k].total != ((qpc_finding_kind)k == cases[i].kind))
                fail_msg("case %zu: %lld of %s", i, (long long)r.finding[k].total, qpc_finding_specs[k].name);
        qpc_preflight_fini(&r);
    }
}

static uint32_t next(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

enum { SOUP = 40 };

/// The triangles that count, by the same rule but written otherwise.
static int32_t sift(const double *x, const int32_t *t, int32_t *kept) {
    int32_t n = 0, weld[SOUP];
    for (int i = 0; i < SOUP; i++)
        for (weld[i] = 0; memcmp(x + 3 * weld[i], x + 3 * i, 3 * sizeof *x) != 0;) weld[i]++;
    for (int i = 0; i < SOUP; i++) {
        int32_t v[3] = {weld[t[3 * i]], weld[t[3 * i + 1]], weld[t[3 * i + 2]]};
        qpc_vec3 p[3];
        for (int k = 0; k < 3; k++) p[k] = v3_load(x + 3 * v[k]);
        if (!(v3_norm(v3_cross(v3_sub(p[1], p[0]), v3_sub(p[2], p[0]))) > 1e-10)) continue;
        bool repeated = false;
        for (int j = 0; j < n; j++) {
            int common = 0;
            for (int a = 0; a < 9; a++) common += kept[3 * j + a / 3] == v[a % 3];
            repeated |= common == 3;
        }
        if (!repeated) memcpy(kept + 3 * n++, v, sizeof v);
    }
    return n;
}

/// No common corner, and a point in common.
static bool meet(const double *x, const int32_t *s, const int32_t *t) {
    qpc_vec3 p[3], q[3];
    for (int k = 0; k < 9; k++)
        if (s[k / 3] == t[k % 3]) return false;
    for (int k = 0; k < 3; k++) p[k] = v3_load(x + 3 * s[k]), q[k] = v3_load(x + 3 * t[k]);
    for (int k = 0; k < 3; k++)
        if (qpc_segment_meets_triangle(p[k], p[(k + 1) % 3], q[0], q[1], q[2]) ||
            qpc_segment_meets_triangle(q[k], q[(k + 1) % 3], p[0], p[1], p[2]))
            return true;
    return false;
}

/// Corners on a coarse lattice: everything degenerate happens. Every pair without a common corner
/// that has a point in common, by the slow exact test, is a crossing or a touch, and no other.
static void pairs_of_a_lattice_agree_with_brute_force(void **state) {
    (void)state;
    uint32_t seed = 1;
    int64_t all = 0;
    for (uint32_t round = 0; round < 60; round++) {
        double x[3 * SOUP];
        int32_t t[3 * SOUP], kept[3 * SOUP];
        for (int i = 0; i < 3 * SOUP; i++) {
            double at = 0.1 * (double)(next(&seed) % (2 + round % 5));
            x[i] = i % 3 == 2 && round % 3 == 0 ? 0.25 : at; // one in three is flat
            t[i] = (int32_t)(next(&seed) % SOUP);
        }
        qpc_preflight r = run(x, 3 * SOUP, t, 3 * SOUP, 3);
        int32_t n = sift(x, t, kept);
        int64_t met = 0;
        for (int i = 0; i < n; i++)
            for (int j = 0; j < i; j++) met += meet(x, kept + 3 * i, kept + 3 * j);
        assert_int_equal(r.triangles, n);
        assert_int_equal(r.finding[QPC_FINDING_SELF_INTERSECTIONS].total +
                             r.finding[QPC_FINDING_TOUCHING_TRIANGLES].total,
                         met);
        all += met;
        qpc_preflight_fini(&r);
    }
    assert_true(all > 1000);
}

static void tetrahedra_are_judged_by_their_surface_and_volumes(void **state) {
    (void)state;
    const double x[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 0.5, 0.5, 0};
    const int32_t t[] = {0, 1, 2, 3, 1, 3, 2, 4, 0, 1, 2, 5};
    qpc_preflight r = run(x, 15, t, 8, 4);
    only(&r, 1, (qpc_finding_kind[]){QPC_FINDING_INVERTED_TETRAHEDRA});
    assert_int_equal(r.finding[QPC_FINDING_INVERTED_TETRAHEDRA].items[0], 1);
    assert_true(r.oriented);
    assert_float_equal(r.volume, 0.5, 1e-15);
    assert_int_equal(r.triangles, 6);
    assert_int_equal(r.elements, 2);
    qpc_preflight_fini(&r);
    r = run(x, COUNT(x), t, COUNT(t), 4);
    assert_int_equal(r.finding[QPC_FINDING_FLAT_TETRAHEDRA].total, 1);
    assert_int_equal(r.finding[QPC_FINDING_FLAT_TETRAHEDRA].items[0], 2);
    qpc_preflight_fini(&r);
}

static void edges_as_elements_have_no_surface(void **state) {
    (void)state;
    const double x[] = {0, 0, 0, 1, 0, 0, 2, 0, 0, 9, 9, 9};
    const int32_t e[] = {0, 1, 1, 2};
    qpc_preflight r = run(x, COUNT(x), e, COUNT(e), 2);
    only(&r, 1, (qpc_finding_kind[]){QPC_FINDING_UNREFERENCED_VERTICES});
    assert_int_equal(r.triangles, 0);
    assert_int_equal(r.vertices, 3);
    qpc_preflight_fini(&r);
}

static void sizes_out_of_proportion_are_named(void **state) {
    (void)state;
    enum { N = 20 };
    double x[3 * N * N];
    int32_t t[6 * (N - 1) * (N - 1)], n = 0;
    for (int i = 0; i < N * N; i++) x[3 * i] = 0.01 * (i % N), x[3 * i + 1] = 0.01 * (i / N), x[3 * i + 2] = 0;
    for (int i = 0; i < N - 1; i++)
        for (int j = 0; j < N - 1; j++) {
            int32_t v = N * i + j, quad[6] = {v, v + 1, v + N + 1, v, v + N + 1, v + N};
            memcpy(t + n, quad, sizeof quad);
            n += 6;
        }
    qpc_preflight r = run(x, COUNT(x), t, n, 3);
    only(&r, 1, (qpc_finding_kind[]){QPC_FINDING_OPEN_EDGES});
    qpc_preflight_fini(&r);
    x[3 * (N * N - 1)] = 5000;
    r = run(x, COUNT(x), t, n, 3);
    assert_int_equal(r.finding[QPC_FINDING_FAR_VERTICES].total, 1);
    assert_int_equal(r.finding[QPC_FINDING_FAR_VERTICES].items[0], N * N - 1);
    assert_int_equal(r.finding[QPC_FINDING_EDGE_OUTLIERS].total, 3); // all at that corner
    assert_int_equal(r.finding[QPC_FINDING_SCALE].total, 1);
    qpc_preflight_fini(&r);
    for (int i = 0; i < 3 * N * N; i++) x[i] *= 1e-9;
    x[3 * (N * N - 1)] = 0.19e-9;
    r = run(x, COUNT(x), t, n, 3);
    only(&r, 2, (qpc_finding_kind[]){QPC_FINDING_OPEN_EDGES, QPC_FINDING_SCALE});
    qpc_preflight_fini(&r);
}

static void the_list_and_the_pairs_are_bounded(void **state) {
    (void)state;
    enum { N = 200 };
    double x[9 * N];
    int32_t t[3 * N];
    for (int i = 0; i < N; i++) {
        double a = 1.0 + i * 1e-3;
        const double p[9] = {-a, -a, a, a, -a, -a, a, a, a};
        memcpy(x + 9 * i, p, sizeof p);
        for (int k = 0; k < 3; k++) t[3 * i + k] = 3 * i + k;
    }
    qpc_preflight r;
    qpc_preflight_options options = {.list = 3, .max_pairs = 500};
    assert_int_equal(qpc_preflight_run(x, 3 * N, t, N, 3, &options, &r, NULL), QPC_OK);
    assert_false(r.complete);
    assert_true(r.pairs < 500 + N);
    for (int k = 0; k < QPC_FINDING_COUNT; k++) assert_true(r.finding[k].count <= 3);
    qpc_preflight_fini(&r);
}

static void check_open_cube(void *context) {
    qpc_status *status = context;
    qpc_preflight r = {0};
    qpc_error err = {0};
    *status = qpc_preflight_run(cube_x, 8, cube_t, 11, 3, NULL, &r, &err);
    qpc_preflight_fini(&r);
}

static void memory_that_runs_out_is_an_error(void **state) {
    (void)state;
    int64_t before = qpc_mem_live_blocks();
    for (uint64_t n = 1; n < 100; n++) {
        qpc_status status;
        qpc_mem_fail_at(n, true);
        check_open_cube(&status);
        bool failed = qpc_mem_failed();
        qpc_mem_fail_at(0, false);
        assert_int_equal(qpc_mem_live_blocks(), before);
        assert_int_equal(status, failed ? QPC_ERR_MEMORY : QPC_OK);
        if (!failed) return;
    }
    fail_msg("never enough memory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cube_is_good_for_everything),
        cmocka_unit_test(elements_that_a_use_does_not_take_are_told_with_what_makes_them),
        cmocka_unit_test(a_missing_triangle_opens_three_edges),
        cmocka_unit_test(a_triangle_wound_the_other_way_is_found_by_its_edges),
        cmocka_unit_test(repeated_corners_count_once_and_are_said),
        cmocka_unit_test(triangles_without_area_and_repeated_ones_are_left_out),
        cmocka_unit_test(three_triangles_at_an_edge_are_no_manifold),
        cmocka_unit_test(tetrahedra_that_share_an_edge_or_a_face_enclose_a_volume),
        cmocka_unit_test(vertices_without_a_mass_are_errors_of_bodies_that_need_one),
        cmocka_unit_test(crossings_touches_and_folds_are_told_apart),
        cmocka_unit_test(pairs_of_a_lattice_agree_with_brute_force),
        cmocka_unit_test(tetrahedra_are_judged_by_their_surface_and_volumes),
        cmocka_unit_test(edges_as_elements_have_no_surface),
        cmocka_unit_test(sizes_out_of_proportion_are_named),
        cmocka_unit_test(the_list_and_the_pairs_are_bounded),
        cmocka_unit_test(memory_that_runs_out_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
