/// The broad phase of surfaces against brute force over all boxes, and what it promises about
/// threads, memory, limits and errors. Long sequences are in tests/property.
#include "tests/support/check.h"
#include "tests/support/faults.h"
#include "tests/support/surfaces.h"

#include "engine/collision/boxtree.h"

#include <stdlib.h>

static uint64_t seed = 7;
static double uniform(void) {
    return surfaces_uniform(&seed);
}

typedef struct scene {
    qpc_broad_surface surface[8];
    qpc_mesh *mesh[8];
    int32_t count, nodes;
    double *x0, *x1;
} scene;

/// Triangles that share some vertices, anywhere in a unit cube; the last vertex belongs to none.
static void add_soup(scene *s, qpc_motion_kind motion, int32_t triangles, double size,
                     double radius) {
    int32_t nodes = 2 * triangles + 2;
    double *v = calloc((size_t)nodes, 3 * sizeof *v);
    int32_t *t = calloc((size_t)triangles, 3 * sizeof *t);
    for (int32_t i = 0; i < triangles; i++)
        for (int k = 0; k < 3; k++) t[3 * i + k] = (2 * i + k) % (nodes - 1);
    for (int32_t i = 0; i < nodes / 2; i++) {
        double c[3] = {uniform(), uniform(), uniform()};
        for (int k = 0; k < 2; k++)
            for (int d = 0; d < 3; d++) v[6 * i + 3 * k + d] = c[d] + size * uniform();
    }
    qpc_error err = {0};
    int32_t n = s->count++;
    assert_ok(qpc_mesh_create(v, nodes, t, triangles, 3, NULL, &s->mesh[n], NULL, &err), &err);
    s->surface[n] = (qpc_broad_surface){motion, s->nodes, s->mesh[n], radius};
    s->nodes += nodes;
    free(v);
    free(t);
}

static void place(scene *s, double scale, double offset, double move) {
    s->x0 = calloc((size_t)s->nodes, 3 * sizeof *s->x0);
    s->x1 = calloc((size_t)s->nodes, 3 * sizeof *s->x1);
    for (int32_t i = 0; i < s->count; i++) {
        const double *v = qpc_mesh_vertices(s->mesh[i]);
        s->surface[i].radius *= scale;
        for (int64_t k = 0; k < 3 * qpc_mesh_vertex_count(s->mesh[i]); k++) {
            int64_t at = 3 * (int64_t)s->surface[i].first_node + k;
            double step = s->surface[i].motion == QPC_STATIC ? 0 : move * (uniform() - 0.5);
            s->x0[at] = offset + scale * v[k];
            s->x1[at] = offset + scale * (v[k] + step);
        }
    }
}

static void clear(scene *s) {
    for (int32_t i = 0; i < s->count; i++) qpc_mesh_unref(s->mesh[i]);
    free(s->x0);
    free(s->x1);
    *s = (scene){0};
}

/// All pairs of brute force, and none beyond boxes a rounding wider: by at most 2^-21 of the
/// distance from the origin of boxes, which is a few of the scene's size.
static void compare(const qpc_broad *broad, const scene *s, const double *x0, const double *x1,
                    double reach, double size) {
    surfaces_pairs found = {0}, least = {0}, most = {0};
    qpc_error err = {0};
    double slack = 0x1p-18 * size;
    assert_true(surfaces_brute(s->surface, s->count, x0, x1, reach, slack, &least, &most));
    assert_true(surfaces_found(broad, &found));
    assert_true(surfaces_contained(&least.vt, &found.vt));
    assert_true(surfaces_contained(&least.ee, &found.ee));
    assert_true(surfaces_contained(&found.vt, &most.vt));
    assert_true(surfaces_contained(&found.ee, &most.ee));
    if (!qpc_broad_check(broad, &err)) fail_msg("%s", err.message);
    surfaces_pairs_fini(&found);
    surfaces_pairs_fini(&least);
    surfaces_pairs_fini(&most);
}

static void mixed_soups(scene *s, int round) {
    add_soup(s, QPC_DYNAMIC, 1 + round * 17, 0.2, 0.01);
    if (round % 2) add_soup(s, QPC_STATIC, 150, 0.3, 0.02 * (round % 3));
    if (round % 3) add_soup(s, QPC_KINEMATIC, 100, 0.2, 0.01);
    if (round % 4) add_soup(s, QPC_DYNAMIC, 90, 0.1, 0);
    if (round % 5 == 0) add_soup(s, QPC_STATIC, 60, 0.2, 0.03);
}

static void random_soups_match_brute_force(void **state) {
    (void)state;
    for (int round = 0; round < 12; round++) {
        // Sizes from micrometres to kilometres; far from zero the differences of positions are what
        // is left of them.
        double scale = round % 3 == 1   ? 1e-6
                       : round % 3 == 2 ? 1e3
                                        : 1,
               offset = round % 4 == 3 && scale >= 1 ? 1e6 : 0;
        scene s = {0};
        mixed_soups(&s, round);
        place(&s, scale, offset, 0.1);
        qpc_broad *broad = NULL;
        qpc_error err = {0};
        assert_ok(qpc_broad_create(s.surface, s.count, s.x0, 1 << 24, &broad, &err), &err);
        // Large moves, none, and reaches up and down, on lists that may be used again.
        for (int k = 0; k < 4; k++) {
            const double *to = k % 2 ? s.x0 : s.x1;
            double reach = k == 0 ? 1.25 : k == 1 ? 0.3 : k == 2 ? 0.95 : 2;
            assert_ok(qpc_broad_update(broad, s.x0, to, reach, NULL, &err), &err);
            compare(broad, &s, s.x0, to, reach, scale);
        }
        qpc_broad_destroy(broad);
        clear(&s);
    }
}

/// A sheet of 41 x 41 vertices in waves through the unit cube.
static void add_waves(scene *s, double radius) {
    generated g = {0};
    assert_true(generate_sheet(&g, 40, 40, 1.0 / 40, 0, 0));
    int32_t n = s->count++, count = g.x.count / 3;
    for (int32_t i = 0; i < count; i++) g.x.data[3 * i + 2] = 0.5 + 0.1 * sin(7 * g.x.data[3 * i] + 3 * g.x.data[3 * i + 1]);
    s->mesh[n] = generated_mesh(&g);
    assert_non_null(s->mesh[n]);
    s->surface[n] = (qpc_broad_surface){QPC_DYNAMIC, s->nodes, s->mesh[n], radius};
    s->nodes += count;
    generated_fini(&g);
}

/// Distance of a point from the segment or triangle of these corners, by the nearest of 33 rows of points on it, m: never too small.
static double from_feature(const double *p, const double *x, const int32_t *node, int corners) {
    double least = INFINITY;
    enum { ROWS = 32 };
    for (int i = 0; i <= ROWS; i++) {
        double a[3], b[3], ab = 0, ap = 0, sum = 0;
        for (int d = 0; d < 3; d++) { // the row from side to side, or a point of the segment
            const double *v = x + 3 * (int64_t)node[0], *u = x + 3 * (int64_t)node[1], *w = x + 3 * (int64_t)node[corners - 1];
            a[d] = v[d] + (u[d] - v[d]) * i / ROWS;
            b[d] = v[d] + (w[d] - v[d]) * i / ROWS;
            ab += (b[d] - a[d]) * (b[d] - a[d]);
            ap += (b[d] - a[d]) * (p[d] - a[d]);
        }
        double t = ab > 0 ? fmin(1, fmax(0, ap / ab)) : 0;
        for (int d = 0; d < 3; d++) {
            double miss = p[d] - a[d] - t * (b[d] - a[d]);
            sum += miss * miss;
        }
        least = fmin(least, sqrt(sum));
    }
    return least;
}

/// Pairs that boxes leave and the broad phase does not are apart on the whole way.
static void missing_are_apart(const qpc_broad *broad, const scene *s, double reach, const qpc_pairs *boxes, const qpc_pairs *found, bool edges) {
    int32_t missing = 0, across = 0; // surfaces
    for (int32_t i = 0, k = 0; i < boxes->count; i++) {
        qpc_pair p = boxes->data[i];
        while (k < found->count && (found->data[k].a < p.a || (found->data[k].a == p.a && found->data[k].b < p.b))) k++;
        int32_t of[2], local, a[2] = {p.a, p.a}, b[3];
        if (edges) {
            qpc_broad_edge(broad, p.a, &of[0], &local, a);
            qpc_broad_edge(broad, p.b, &of[1], &local, b);
        } else {
            of[0] = qpc_broad_node_surface(broad, p.a);
            qpc_broad_triangle(broad, p.b, &of[1], &local, b);
        }
        across += of[0] != of[1];
        if (k < found->count && found->data[k].a == p.a && found->data[k].b == p.b) continue;
        if (missing++ % 10 != 0) continue; // some of them
        double apart = reach * (s->surface[of[0]].radius + s->surface[of[1]].radius);
        for (int time = 0; time <= 4; time++)
            for (int at = 0; at <= 8; at++) {
                double x[15], q[3];
                int32_t corner[3] = {2, 3, 4};
                for (int d = 0; d < 3; d++) {
                    int32_t all[5] = {a[0], a[1], b[0], b[1], b[edges ? 1 : 2]};
                    for (int c = 0; c < 5; c++)
                        x[3 * c + d] = s->x0[3 * all[c] + d] + (s->x1[3 * all[c] + d] - s->x0[3 * all[c] + d]) * time / 4;
                    q[d] = x[d] + (x[3 + d] - x[d]) * at / 8;
                }
                assert_true(from_feature(q, x, corner, edges ? 2 : 3) > apart);
            }
    }
    assert_true(across > 1000 && 3 * missing > 2 * across);
}

static void what_lies_beside_a_large_static_triangle_is_no_pair(void **state) {
    (void)state;
    for (int round = 0; round < 2; round++) { // static surfaces first, and last
        scene s = {0};
        if (round == 0) add_soup(&s, QPC_STATIC, 30, 1, 0.01);
        add_waves(&s, 0.004);
        if (round == 1) add_soup(&s, QPC_STATIC, 30, 1, 0.01);
        place(&s, 1, 1e3, 0.02);
        qpc_broad *broad = NULL;
        qpc_error err = {0};
        assert_ok(qpc_broad_create(s.surface, s.count, s.x0, 1 << 24, &broad, &err), &err);
        for (int k = 0; k < 2; k++) {
            double reach = k ? 0.5 : 2;
            surfaces_pairs found = {0}, least = {0}, most = {0};
            assert_ok(qpc_broad_update(broad, s.x0, s.x1, reach, NULL, &err), &err);
            assert_true(surfaces_brute(s.surface, s.count, s.x0, s.x1, reach, 0x1p-18, &least, &most));
            assert_true(surfaces_found(broad, &found));
            assert_true(surfaces_contained(&found.vt, &most.vt) && surfaces_contained(&found.ee, &most.ee));
            missing_are_apart(broad, &s, reach, &least.vt, &found.vt, false);
            missing_are_apart(broad, &s, reach, &least.ee, &found.ee, true);
            surfaces_pairs_fini(&found);
            surfaces_pairs_fini(&least);
            surfaces_pairs_fini(&most);
        }
        qpc_broad_destroy(broad);
        clear(&s);
    }
}

static void many_small_surfaces_in_any_order(void **state) {
    (void)state;
    enum { MANY = 150 };
    qpc_broad_surface surface[MANY];
    const double low[3] = {0, 0, 0}, high[3] = {0.1, 0.1, 0.1};
    generated g = {0};
    assert_true(generate_box(&g, low, high));
    qpc_mesh *mesh = generated_mesh(&g);
    double *x = calloc(MANY * 8, 3 * sizeof *x);
    for (int i = 0; i < MANY; i++) {
        int place = (i * 77) % MANY; // nodes are not in the order of the surfaces
        surface[i] = (qpc_broad_surface){(qpc_motion_kind)(i % 3), 8 * place, mesh, 0.002};
        for (int d = 0; d < 3; d++) {
            double at = uniform();
            for (int k = 0; k < 8; k++) x[3 * (8 * place + k) + d] = at + g.x.data[3 * k + d];
        }
    }
    qpc_broad *broad = NULL;
    qpc_error err = {0};
    surfaces_pairs found = {0}, least = {0}, most = {0};
    assert_ok(qpc_broad_create(surface, MANY, x, 1 << 20, &broad, &err), &err);
    assert_ok(qpc_broad_update(broad, x, x, 1, NULL, &err), &err);
    assert_true(surfaces_brute(surface, MANY, x, x, 1, 0x1p-18, &least, &most));
    assert_true(surfaces_found(broad, &found));
    assert_true(surfaces_contained(&least.vt, &found.vt) &&
                surfaces_contained(&found.vt, &most.vt));
    assert_true(surfaces_contained(&least.ee, &found.ee) &&
                surfaces_contained(&found.ee, &most.ee));
    assert_true(found.vt.count > 100);
    for (int i = 0; i < MANY; i++)
        for (int k = 0; k < 8; k++)
            assert_int_equal(qpc_broad_node_surface(broad, surface[i].first_node + k), i);
    assert_int_equal(qpc_broad_node_surface(broad, -1), -1);
    surfaces_pairs_fini(&found);
    surfaces_pairs_fini(&least);
    surfaces_pairs_fini(&most);
    qpc_broad_destroy(broad);
    qpc_mesh_unref(mesh);
    generated_fini(&g);
    free(x);
}

static void numbers_lead_back_to_features(void **state) {
    (void)state;
    scene s = {0};
    add_soup(&s, QPC_DYNAMIC, 10, 0.2, 0);
    add_soup(&s, QPC_STATIC, 7, 0.2, 0);
    add_soup(&s, QPC_KINEMATIC, 12, 0.2, 0);
    place(&s, 1, 0, 0);
    qpc_broad *broad = NULL;
    qpc_error err = {0};
    assert_ok(qpc_broad_create(s.surface, s.count, s.x0, 1000, &broad, &err), &err);
    int32_t at = 0, surface, local, node[3];
    for (int32_t i = 0; i < 3; i++)
        for (int32_t t = 0; t < qpc_mesh_element_count(s.mesh[i]); t++, at++) {
            qpc_broad_triangle(broad, at, &surface, &local, node);
            assert_int_equal(surface, i);
            assert_int_equal(local, t);
            for (int k = 0; k < 3; k++) {
                assert_int_equal(node[k],
                                 s.surface[i].first_node + qpc_mesh_elements(s.mesh[i])[3 * t + k]);
                assert_int_equal(qpc_broad_node_surface(broad, node[k]), i);
            }
        }
    qpc_broad_edge(broad, 30, &surface, &local, node); // 10 triangles in a ring have 30 edges
    assert_int_equal(surface, 1);
    assert_int_equal(local, 0);
    assert_int_equal(node[0], s.surface[1].first_node);
    assert_int_equal(qpc_broad_node_surface(broad, s.nodes), -1);
    qpc_broad_destroy(broad);
    clear(&s);
}

static void trees_of_any_size_hold_each_item_once(void **state) {
    (void)state;
    for (int32_t n = 1; n < 140; n++)
        for (int shape = 0; shape < 3; shape++) {
            qpc_boxtree tree;
            qpc_error err = {0};
            assert_ok(qpc_boxtree_init(&tree, n, &err), &err);
            qpc_box_centre *c = qpc_boxtree_centres(&tree);
            for (int32_t i = 0; i < n; i++) {
                float x = (float)uniform();
                c[i] = (qpc_box_centre){{x, shape == 0 ? (float)uniform() : 0, 0}, i};
                if (shape == 2) c[i].c[0] = 1; // all in one place
            }
            int32_t item[144] = {0};
            qpc_boxtree_build(&tree, item);
            bool seen[140] = {false};
            for (int32_t l = 0; l < tree.leaf_count; l++) {
                qpc_fbox box[4];
                for (int k = 0; k < 4; k++) {
                    int32_t it = item[4 * l + k];
                    box[k] = qpc_fbox_empty();
                    if (it < 0) continue;
                    assert_true(it < n && !seen[it]);
                    seen[it] = true;
                    for (int d = 0; d < 4; d++)
                        box[k].lo[d] = box[k].hi[d] = (float)(d < 3 ? it : 0);
                }
                qpc_boxtree_set_leaf(&tree, l, box);
            }
            qpc_boxtree_fit(&tree, 0);
            for (int32_t i = 0; i < n; i++) assert_true(seen[i]);
            assert_true(qpc_boxtree_check(&tree));
            tree.node[1].hi[1] -= 1; // the check can fail
            assert_false(qpc_boxtree_check(&tree) && n > 1);
            qpc_boxtree_fini(&tree);
        }
}

// ---- sheets ----

enum { N = 45 }; // 3,872 triangles

static void one_sheet(scene *s, double radius) {
    generated g = {0};
    s->nodes = N * N;
    s->x0 = calloc((size_t)s->nodes, 3 * sizeof *s->x0);
    s->x1 = calloc((size_t)s->nodes, 3 * sizeof *s->x1);
    surfaces_sheet_at(SURFACES_FOLD, N, 0, s->x0);
    for (int32_t i = 0; i < 3 * s->nodes; i++) assert_true(qpc_array_push(&g.x, s->x0[i]));
    assert_true(surfaces_grid(N, &g));
    s->mesh[0] = generated_mesh(&g);
    assert_non_null(s->mesh[0]);
    s->surface[s->count++] = (qpc_broad_surface){QPC_DYNAMIC, 0, s->mesh[0], radius};
    generated_fini(&g);
}

static void move_to(scene *s, surfaces_sequence sequence, double t) {
    memcpy(s->x0, s->x1, 3 * (size_t)s->nodes * sizeof *s->x0);
    surfaces_sheet_at(sequence, N, t, s->x1);
}

/// Every other row is turned round: what was near is not.
static void tear(double *x) {
    for (int32_t i = 0; i < N * N; i++)
        if (i / N % 2) x[3 * i + 1] = 1.5 - x[3 * i + 1];
}

static void static_trees_are_never_refitted(void **state) {
    (void)state;
    scene s = {0};
    add_soup(&s, QPC_DYNAMIC, 50, 0.2, 0.01);
    add_soup(&s, QPC_STATIC, 500, 0.2, 0.01);
    place(&s, 1, 0, 0.01);
    qpc_broad *broad = NULL;
    qpc_error err = {0};
    assert_ok(qpc_broad_create(s.surface, s.count, s.x0, 1 << 20, &broad, &err), &err);
    // Static positions are those of the creation: what is in the arrays later is not looked at.
    for (int32_t i = 3 * s.surface[1].first_node; i < 3 * s.nodes; i++) s.x1[i] = NAN;
    const double reach[3] = {1, 2, 0.5};
    for (int i = 0; i < 3; i++) {
        qpc_broad_forget(broad);
        assert_ok(qpc_broad_update(broad, s.x0, s.x1, reach[i], NULL, &err), &err);
        memcpy(s.x1 + 3 * s.surface[1].first_node, s.x0 + 3 * s.surface[1].first_node,
               3 * (size_t)(s.nodes - s.surface[1].first_node) * sizeof *s.x1);
        compare(broad, &s, s.x0, s.x1, reach[i], 1);
    }
    qpc_broad_counts c = qpc_broad_get_counts(broad);
    assert_int_equal(c.list_builds, 3);
    assert_int_equal(c.refits, 9); // three trees of the dynamic surface, three times
    assert_int_equal(c.builds, 6);
    qpc_broad_destroy(broad);
    clear(&s);
}

static void a_larger_reach_of_what_stands_still_is_noticed(void **state) {
    (void)state;
    scene s = {0};
    // No box of the dynamic surface depends on the reach.
    add_soup(&s, QPC_DYNAMIC, 80, 0.2, 0);
    add_soup(&s, QPC_STATIC, 80, 0.2, 0.03);
    place(&s, 1, 0, 0);
    qpc_broad *broad = NULL;
    qpc_error err = {0};
    assert_ok(qpc_broad_create(s.surface, s.count, s.x0, 1 << 20, &broad, &err), &err);
    const double reach[4] = {0.2, 1, 0.5, 2};
    for (int i = 0; i < 4; i++) {
        assert_ok(qpc_broad_update(broad, s.x0, s.x0, reach[i], NULL, &err), &err);
        compare(broad, &s, s.x0, s.x0, reach[i], 1);
    }
    assert_int_equal(qpc_broad_get_counts(broad).list_builds, 3); // a smaller one needs none
    qpc_broad_destroy(broad);
    clear(&s);
}

static void lists_are_reused_while_things_move_little(void **state) {
    (void)state;
    scene s = {0};
    one_sheet(&s, 0.003);
    qpc_broad *broad = NULL;
    qpc_error err = {0};
    assert_ok(qpc_broad_create(s.surface, s.count, s.x0, 1 << 24, &broad, &err), &err);
    surfaces_sheet_at(SURFACES_FOLD, N, 0.3, s.x1);
    for (int step = 0; step < 40; step++) {
        move_to(&s, SURFACES_FOLD, 0.3 + 1e-4 * step);
        // As a step does: proximity, two passes, acceptance.
        assert_ok(qpc_broad_update(broad, s.x0, s.x0, 1.25, NULL, &err), &err);
        assert_ok(qpc_broad_update(broad, s.x0, s.x1, 0.95, NULL, &err), &err);
        assert_ok(qpc_broad_update(broad, s.x0, s.x1, 0.95, NULL, &err), &err);
        assert_ok(qpc_broad_update(broad, s.x0, s.x1, 0.3, NULL, &err), &err);
    }
    qpc_broad_counts c = qpc_broad_get_counts(broad);
    assert_true(c.list_builds >= 2 && c.list_builds <= 8);
    qpc_broad_destroy(broad);
    clear(&s);
}

static void passes_over_a_fast_step_share_lists(void **state) {
    (void)state;
    scene s = {0};
    one_sheet(&s, 0.003);
    double *x = calloc((size_t)s.nodes, 3 * sizeof *x);
    qpc_broad *broad = NULL;
    qpc_error err = {0};
    assert_ok(qpc_broad_create(s.surface, s.count, s.x0, 1 << 24, &broad, &err), &err);
    surfaces_sheet_at(SURFACES_FOLD, N, 0.3, s.x1);
    for (int step = 0; step < 30; step++) {
        move_to(&s, SURFACES_FOLD, 0.3 + 0.01 * step); // half an edge and more
        if (step == 10) qpc_broad_counts_reset(broad);
        assert_ok(qpc_broad_update(broad, s.x0, s.x0, 1.25, NULL, &err), &err);
        for (int pass = 0; pass < 4; pass++) { // the QP moves nodes a little from pass to pass
            for (int32_t i = 0; i < 3 * s.nodes; i++) x[i] = s.x1[i] + 2e-4 * (uniform() - 0.5);
            assert_ok(qpc_broad_update(broad, s.x0, x, 0.95, NULL, &err), &err);
        }
    }
    qpc_broad_counts c = qpc_broad_get_counts(broad);
    assert_true(c.list_builds >= 20 && c.list_builds <= 30);
    qpc_broad_destroy(broad);
    free(x);
    clear(&s);
}

static void loose_trees_are_built_again(void **state) {
    (void)state;
    scene s = {0};
    one_sheet(&s, 0.003);
    qpc_broad *broad = NULL;
    qpc_error err = {0};
    assert_ok(qpc_broad_create(s.surface, s.count, s.x0, 1 << 24, &broad, &err), &err);
    assert_ok(qpc_broad_update(broad, s.x0, s.x0, 1, NULL, &err), &err);
    assert_int_equal(qpc_broad_get_counts(broad).builds, 3);
    memcpy(s.x1, s.x0, 3 * (size_t)s.nodes * sizeof *s.x1);
    tear(s.x1);
    assert_ok(qpc_broad_update(broad, s.x1, s.x1, 1, NULL, &err), &err);
    assert_int_equal(qpc_broad_get_counts(broad).builds, 6);
    compare(broad, &s, s.x1, s.x1, 1, 1);
    qpc_broad_destroy(broad);
    clear(&s);
}

static void the_origin_follows_what_flies_off(void **state) {
    (void)state;
    scene s = {0};
    add_soup(&s, QPC_DYNAMIC, 120, 0.1, 0.01);
    add_soup(&s, QPC_STATIC, 80, 0.1, 0.02);
    place(&s, 1, 0, 0.02);
    qpc_broad *broad = NULL;
    qpc_error err = {0};
    assert_ok(qpc_broad_create(s.surface, s.count, s.x0, 1 << 20, &broad, &err), &err);
    double *start = calloc((size_t)s.nodes, 3 * sizeof *start);
    memcpy(start, s.x0, 3 * (size_t)s.nodes * sizeof *start);
    for (int k = 0; k < 10; k++) {
        double off = k < 5 ? pow(30, k) : k == 5 ? 0 : -0.01 * k; // away to 8e5 m, and back
        for (int32_t i = 0; i < 3 * s.surface[1].first_node; i++)
            s.x0[i] = s.x1[i] = start[i] + off;
        assert_ok(qpc_broad_update(broad, s.x0, s.x1, 1, NULL, &err), &err);
        // Boxes near the surface stay fine, or some pair would be too much.
        compare(broad, &s, s.x0, s.x1, 1, 1);
    }
    free(start);
    qpc_broad_destroy(broad);
    clear(&s);
}

// ---- threads and variants ----

static uint64_t hash_pairs(uint64_t h, const qpc_pairs *p) {
    h = (h ^ (uint64_t)p->count) * 0x100000001b3u;
    for (int32_t i = 0; i < p->count; i++)
        h = (h ^ ((uint64_t)(uint32_t)p->data[i].a << 32 | (uint32_t)p->data[i].b)) *
            0x9e3779b97f4a7c15u;
    return h;
}

static uint64_t hash_found(const qpc_broad *broad) {
    uint64_t h = 1;
    for (int32_t i = 0; i < qpc_broad_slice_count(broad); i++)
        h = hash_pairs(hash_pairs(h, qpc_broad_vt(broad, i)), qpc_broad_ee(broad, i));
    return h;
}

/// Steps of a sequence with some threads (0: in place): a hash of all that was found, order and
/// all.
static uint64_t run_threads(int32_t threads, qpc_broad_counts *ret) {
    scene s = {0};
    one_sheet(&s, 0.006);
    qpc_error err = {0};
    qpc_team *team = NULL;
    if (threads > 0) assert_ok(qpc_team_create(threads, &team, &err), &err);
    qpc_parallel parallel = qpc_team_parallel(team);
    qpc_broad *broad = NULL;
    assert_ok(qpc_broad_create(s.surface, s.count, s.x0, 1 << 24, &broad, &err), &err);
    surfaces_sheet_at(SURFACES_TWIST, N, 0.5, s.x1);
    uint64_t hash = 0;
    for (int step = 0; step < 12; step++) {
        move_to(&s, SURFACES_TWIST, 0.5 + (step < 4 ? 0.05 * step : 0.2 + 2e-4 * step));
        if (step == 8) tear(s.x0), tear(s.x1); // and back with the next step
        assert_ok(qpc_broad_update(broad, s.x0, s.x1, 1, threads > 0 ? &parallel : NULL, &err),
                  &err);
        hash = hash * 31 + hash_found(broad);
    }
    assert_true(qpc_broad_slice_count(broad) > 1);
    *ret = qpc_broad_get_counts(broad);
    qpc_broad_destroy(broad);
    qpc_team_destroy(team);
    clear(&s);
    return hash;
}

static void any_number_of_threads_gives_the_same_bits(void **state) {
    (void)state;
    qpc_broad_counts one, more;
    uint64_t hash = run_threads(0, &one);
    assert_true(one.list_builds > 1 && one.list_builds < 12 && one.builds > 3);
    for (int32_t threads = 1; threads <= 4; threads *= 2) {
        assert_true(run_threads(threads, &more) == hash);
        assert_memory_equal(&one, &more, sizeof one);
    }
}

// The same files, compiled without SSE; see broad_portable.h.
qpc_status portable_broad_create(const qpc_broad_surface *surfaces, int32_t surface_count,
                                 const double *x, int64_t max_pairs, qpc_broad **ret,
                                 qpc_error *err);
void portable_broad_destroy(qpc_broad *broad);
qpc_status portable_broad_update(qpc_broad *broad, const double *x0, const double *x1, double reach,
                                 const qpc_parallel *parallel, qpc_error *err);
int32_t portable_broad_slice_count(const qpc_broad *broad);
const qpc_pairs *portable_broad_vt(const qpc_broad *broad, int32_t slice);
const qpc_pairs *portable_broad_ee(const qpc_broad *broad, int32_t slice);

static void portable_lanes_give_the_same_bits(void **state) {
    (void)state;
    for (int round = 1; round < 8; round++) {
        scene s = {0};
        mixed_soups(&s, round);
        place(&s, 1, 0, 0.02);
        qpc_broad *a = NULL, *b = NULL;
        qpc_error err = {0};
        assert_ok(qpc_broad_create(s.surface, s.count, s.x0, 1 << 24, &a, &err), &err);
        assert_ok(portable_broad_create(s.surface, s.count, s.x0, 1 << 24, &b, &err), &err);
        for (int k = 0; k < 3; k++) {
            assert_ok(qpc_broad_update(a, s.x0, k ? s.x0 : s.x1, 1 + k, NULL, &err), &err);
            assert_ok(portable_broad_update(b, s.x0, k ? s.x0 : s.x1, 1 + k, NULL, &err), &err);
            uint64_t hash = 1;
            for (int32_t i = 0; i < portable_broad_slice_count(b); i++)
                hash =
                    hash_pairs(hash_pairs(hash, portable_broad_vt(b, i)), portable_broad_ee(b, i));
            assert_true(hash == hash_found(a));
        }
        qpc_broad_destroy(a);
        portable_broad_destroy(b);
        clear(&s);
    }
}

// ---- limits, errors, memory ----

static void too_many_pairs_are_an_error_never_a_dropped_pair(void **state) {
    (void)state;
    scene s = {0};
    one_sheet(&s, 0.01);
    surfaces_sheet_at(SURFACES_TWIST, N, 0.5, s.x0);
    surfaces_sheet_at(SURFACES_TWIST, N, 0.5003, s.x1);
    qpc_broad *broad = NULL;
    qpc_error err = {0};
    assert_ok(qpc_broad_create(s.surface, s.count, s.x0, 1 << 24, &broad, &err), &err);
    assert_ok(qpc_broad_update(broad, s.x0, s.x1, 1, NULL, &err), &err);
    int64_t pairs = (int64_t)qpc_broad_get_counts(broad).pairs;
    assert_true(pairs > 1000 && qpc_broad_get_counts(broad).fat_pairs > (uint64_t)pairs);
    qpc_broad_destroy(broad);
    // Fat lists would be beyond this limit; what was asked for is not.
    assert_ok(qpc_broad_create(s.surface, s.count, s.x0, pairs, &broad, &err), &err);
    assert_ok(qpc_broad_update(broad, s.x0, s.x1, 1, NULL, &err), &err);
    compare(broad, &s, s.x0, s.x1, 1, 1);
    qpc_broad_destroy(broad);
    assert_ok(qpc_broad_create(s.surface, s.count, s.x0, pairs - 1, &broad, &err), &err);
    assert_fails(qpc_broad_update(broad, s.x0, s.x1, 1, NULL, &err), QPC_ERR_LIMIT, &err,
                 "max_candidates");
    for (int32_t i = 0; i < qpc_broad_slice_count(broad); i++)
        assert_int_equal(qpc_broad_vt(broad, i)->count + qpc_broad_ee(broad, i)->count, 0);
    // Everything in one place is the worst that can be; then a smaller reach is fine again.
    double *heap = calloc((size_t)s.nodes, 3 * sizeof *heap);
    assert_fails(qpc_broad_update(broad, heap, heap, 1, NULL, &err), QPC_ERR_LIMIT, &err,
                 "max_candidates");
    assert_ok(qpc_broad_update(broad, s.x0, s.x1, 0.1, NULL, &err), &err);
    compare(broad, &s, s.x0, s.x1, 0.1, 1);
    free(heap);
    qpc_broad_destroy(broad);
    clear(&s);
}

static void positions_that_are_no_numbers_are_refused(void **state) {
    (void)state;
    scene s = {0};
    add_soup(&s, QPC_DYNAMIC, 60, 0.2, 0.01);
    add_soup(&s, QPC_KINEMATIC, 60, 0.2, 0.01);
    place(&s, 1, 0, 0.01);
    qpc_broad *broad = NULL;
    qpc_error err = {0};
    // The last vertex of a soup belongs to no triangle.
    double *loose = s.x1 + 3 * (s.surface[1].first_node - 1);
    loose[1] = NAN;
    assert_ok(qpc_broad_create(s.surface, s.count, s.x1, 1 << 20, &broad, &err), &err);
    const double bad[4] = {NAN, INFINITY, -INFINITY, 1e31};
    for (int i = 0; i < 4; i++)
        for (int at = 0; at < 2; at++) {
            double *x = (at ? s.x1 : s.x0) + 3 * s.surface[1].first_node + 10 + i, keep = *x;
            *x = bad[i];
            assert_fails(qpc_broad_update(broad, s.x0, s.x1, 1, NULL, &err), QPC_ERR_NUMERIC, &err,
                         "surface 1");
            qpc_broad *none = NULL;
            if (at)
                assert_fails(qpc_broad_create(s.surface, 2, s.x1, 1, &none, &err), QPC_ERR_NUMERIC,
                             &err, "surface 1");
            *x = keep;
            assert_ok(qpc_broad_update(broad, s.x0, s.x1, 1, NULL, &err), &err);
            compare(broad, &s, s.x0, s.x1, 1, 1);
        }
    // As far as it goes.
    s.x1[0] = 1e30;
    assert_ok(qpc_broad_update(broad, s.x0, s.x1, 1, NULL, &err), &err);
    assert_fails(qpc_broad_update(broad, s.x0, s.x0, NAN, NULL, &err), QPC_ERR_INVALID, &err,
                 "reach");
    assert_fails(qpc_broad_update(broad, s.x0, s.x0, -1, NULL, &err), QPC_ERR_INVALID, &err,
                 "reach");
    assert_ok(qpc_broad_update(broad, s.x0, s.x0, 0, NULL, &err), &err);
    compare(broad, &s, s.x0, s.x0, 0, 1);
    qpc_broad_destroy(broad);
    clear(&s);
}

static void only_triangles_make_a_surface(void **state) {
    (void)state;
    const double x[9] = {0, 0, 0, 1, 0, 0, 0, 1, 0};
    const int32_t edges[4] = {0, 1, 1, 2}, triangle[3] = {0, 1, 2};
    qpc_mesh *line = NULL, *mesh = NULL;
    qpc_error err = {0};
    assert_ok(qpc_mesh_create(x, 3, edges, 2, 2, NULL, &line, NULL, &err), &err);
    assert_ok(qpc_mesh_create(x, 3, triangle, 1, 3, NULL, &mesh, NULL, &err), &err);
    qpc_broad_surface s[2] = {{QPC_DYNAMIC, 0, mesh, 0}, {QPC_DYNAMIC, 0, line, 0}};
    qpc_broad *broad = NULL;
    assert_fails(qpc_broad_create(s, 2, x, 10, &broad, &err), QPC_ERR_INVALID, &err, "surface 1");
    s[0].radius = -1;
    assert_fails(qpc_broad_create(s, 1, x, 10, &broad, &err), QPC_ERR_INVALID, &err, "radius");
    s[0].radius = 0;
    assert_ok(qpc_broad_create(s, 1, x, 10, &broad, &err), &err);
    assert_ok(qpc_broad_update(broad, x, x, 1, NULL, &err), &err);
    assert_int_equal(qpc_broad_get_counts(broad).pairs, 0);
    qpc_broad_destroy(broad);
    assert_ok(qpc_broad_create(NULL, 0, NULL, 10, &broad, &err), &err); // none at all
    assert_ok(qpc_broad_update(broad, NULL, NULL, 1, NULL, &err), &err);
    qpc_broad_destroy(broad);
    qpc_mesh_unref(line);
    qpc_mesh_unref(mesh);
}

static void nothing_is_allocated_after_warm_up(void **state) {
    (void)state;
    scene s = {0};
    one_sheet(&s, 0.004);
    surfaces_sheet_at(SURFACES_FOLD, N, 0.1, s.x1);
    qpc_broad *broad = NULL;
    qpc_error err = {0};
    assert_ok(qpc_broad_create(s.surface, s.count, s.x0, 1 << 24, &broad, &err), &err);
    // The sheet folds and opens, again and again; in place, so that all slices are counted here.
    uint64_t before = 0;
    qpc_broad_counts counts = {0};
    for (int step = 0; step < 60; step++) {
        if (step == 40) {
            before = qpc_mem_thread_allocations();
            counts = qpc_broad_get_counts(broad);
        }
        move_to(&s, SURFACES_FOLD, 0.5 - 0.4 * cos(0.314159265358979 * step));
        assert_ok(qpc_broad_update(broad, s.x0, s.x1, 1, NULL, &err), &err);
    }
    assert_int_equal(qpc_mem_thread_allocations(), before);
    assert_true(qpc_broad_get_counts(broad).list_builds > counts.list_builds);
    qpc_broad_destroy(broad);
    clear(&s);
}

static void failing_memory_leaves_it_usable(void **state) {
    (void)state;
    scene s = {0};
    add_soup(&s, QPC_DYNAMIC, 300, 0.2, 0.01);
    add_soup(&s, QPC_STATIC, 30, 0.2, 0.02);
    place(&s, 1, 0, 0.05);
    QPC_FAULTS(f) {
        qpc_broad *broad = NULL;
        qpc_error err = {0};
        qpc_status status = qpc_broad_create(s.surface, s.count, s.x0, 1 << 20, &broad, &err);
        if (status == QPC_OK) status = qpc_broad_update(broad, s.x0, s.x1, 1, NULL, &err);
        if (status == QPC_OK) status = qpc_broad_update(broad, s.x1, s.x0, 1.5, NULL, &err);
        (void)qpc_faults_ended(&f, status);
        if (broad != NULL) { // and whatever failed before, the next call does all
            assert_ok(qpc_broad_update(broad, s.x0, s.x1, 1, NULL, &err), &err);
            if (f.nth % 8 == 1) compare(broad, &s, s.x0, s.x1, 1, 1);
        }
        qpc_broad_destroy(broad);
    }
    clear(&s);
}

/// test_engine_broad [PATTERN]: the functions whose names match.
int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_soups_match_brute_force),
        cmocka_unit_test(what_lies_beside_a_large_static_triangle_is_no_pair),
        cmocka_unit_test(many_small_surfaces_in_any_order),
        cmocka_unit_test(numbers_lead_back_to_features),
        cmocka_unit_test(trees_of_any_size_hold_each_item_once),
        cmocka_unit_test(static_trees_are_never_refitted),
        cmocka_unit_test(a_larger_reach_of_what_stands_still_is_noticed),
        cmocka_unit_test(lists_are_reused_while_things_move_little),
        cmocka_unit_test(passes_over_a_fast_step_share_lists),
        cmocka_unit_test(loose_trees_are_built_again),
        cmocka_unit_test(the_origin_follows_what_flies_off),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(portable_lanes_give_the_same_bits),
        cmocka_unit_test(too_many_pairs_are_an_error_never_a_dropped_pair),
        cmocka_unit_test(positions_that_are_no_numbers_are_refused),
        cmocka_unit_test(only_triangles_make_a_surface),
        cmocka_unit_test(nothing_is_allocated_after_warm_up),
        cmocka_unit_test(failing_memory_leaves_it_usable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
