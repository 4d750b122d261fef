/// Sequences of folding, rolling and twisting sheets through the broad phase, lists reused: every
/// pair of brute force is there in each step, and none beyond the boxes. A big sheet by samples.
///
///     test_broad quick|full
#include "tests/support/check.h"
#include "tests/support/surfaces.h"

#include <stdlib.h>

/// A sheet of n x n vertices, a ball that is pushed through its folds, and a floor that stands
/// still.
typedef struct scene {
    qpc_broad_surface surface[3];
    qpc_mesh *mesh[3];
    int32_t nodes, sheet_nodes;
    double *x0, *x1;
    int n;
} scene;

static void make(scene *s, int n, double radius, bool others) {
    *s = (scene){.n = n, .sheet_nodes = n * n};
    generated g[3] = {{{0}, {0}}, {{0}, {0}}, {{0}, {0}}};
    assert_true(qpc_array_reserve(&g[0].x, 3 * n * n));
    g[0].x.count = 3 * n * n;
    surfaces_sheet_at(SURFACES_FOLD, n, 0, g[0].x.data);
    assert_true(surfaces_grid(n, &g[0]));
    assert_true(generate_sphere(&g[1], 8, 0.08));
    assert_true(generate_sheet(&g[2], 20, 20, 0.055, -0.05, -0.05));
    const qpc_motion_kind motion[3] = {QPC_DYNAMIC, QPC_KINEMATIC, QPC_STATIC};
    for (int i = 0; i < 3; i++) {
        s->mesh[i] = generated_mesh(&g[i]);
        assert_non_null(s->mesh[i]);
        s->surface[i] = (qpc_broad_surface){motion[i], s->nodes, s->mesh[i], radius};
        if (i == 0 || others) s->nodes += g[i].x.count / 3;
    }
    s->x0 = calloc((size_t)s->nodes, 3 * sizeof *s->x0);
    s->x1 = calloc((size_t)s->nodes, 3 * sizeof *s->x1);
    for (int i = 0; i < (others ? 3 : 1); i++)
        memcpy(s->x1 + 3 * s->surface[i].first_node, g[i].x.data,
               (size_t)g[i].x.count * sizeof *s->x1);
    for (int i = 0; i < 3; i++) generated_fini(&g[i]);
}

static void clear(scene *s) {
    for (int i = 0; i < 3; i++) qpc_mesh_unref(s->mesh[i]);
    free(s->x0);
    free(s->x1);
}

static void move_to(scene *s, surfaces_sequence sequence, double t, bool others) {
    memcpy(s->x0, s->x1, 3 * (size_t)s->nodes * sizeof *s->x0);
    surfaces_sheet_at(sequence, s->n, t, s->x1);
    const double *ball = qpc_mesh_vertices(s->mesh[1]);
    for (int32_t i = 0; others && i < qpc_mesh_vertex_count(s->mesh[1]); i++) {
        double *x = s->x1 + 3 * (s->surface[1].first_node + i);
        x[0] = ball[3 * i] + 0.5;
        x[1] = ball[3 * i + 1] + t;
        x[2] = ball[3 * i + 2] + 0.05;
    }
}

static void check_step(const qpc_broad *broad, const scene *s, double reach, int64_t *pairs) {
    surfaces_pairs found = {0}, least = {0}, most = {0};
    // Boxes may be wider by 2^-21 of some metres.
    assert_true(surfaces_brute(s->surface, 3, s->x0, s->x1, reach, 0x1p-18, &least, &most));
    assert_true(surfaces_found(broad, &found));
    assert_true(surfaces_contained(&least.vt, &found.vt));
    assert_true(surfaces_contained(&least.ee, &found.ee));
    assert_true(surfaces_contained(&found.vt, &most.vt));
    assert_true(surfaces_contained(&found.ee, &most.ee));
    *pairs += least.vt.count + (int64_t)least.ee.count;
    surfaces_pairs_fini(&found);
    surfaces_pairs_fini(&least);
    surfaces_pairs_fini(&most);
}

static void follow(surfaces_sequence sequence, int n, int steps, int check_every) {
    scene s;
    make(&s, n, 0.003, true);
    qpc_broad *broad = NULL;
    qpc_error err = {0};
    move_to(&s, sequence, 0, true);
    move_to(&s, sequence, 0, true);
    assert_ok(qpc_broad_create(s.surface, 3, s.x0, 1 << 24, &broad, &err), &err);
    int64_t pairs = 0;
    double t = 0;
    for (int step = 0; step < steps; step++) {
        // Slow, fast and halting: lists are made for one pace and meet another.
        int phase = step * 8 / steps;
        t += (phase % 4 == 1 ? 2.2 : phase % 4 == 3 ? 0.02 : 0.8) / steps;
        move_to(&s, sequence, t, true);
        double reach = step % 3 == 0 ? 1.25 : 0.95;
        assert_ok(qpc_broad_update(broad, s.x0, s.x1, reach, NULL, &err), &err);
        if (step % check_every == 0) check_step(broad, &s, reach, &pairs);
        if (!qpc_broad_check(broad, &err)) fail_msg("%s", err.message);
    }
    qpc_broad_counts c = qpc_broad_get_counts(broad);
    print_message("%lld pairs by brute force; %d lists in %d steps, %d builds\n", (long long)pairs,
                  (int)c.list_builds, steps, (int)c.builds);
    assert_true(pairs > 10000);
    assert_true(c.list_builds > 3 && c.list_builds < (uint64_t)steps * 9 / 10);
    qpc_broad_destroy(broad);
    clear(&s);
}

static void follow_all(int n, int steps, int check_every) {
    follow(SURFACES_FOLD, n, steps, check_every);
    follow(SURFACES_ROLL, n, steps, check_every);
    follow(SURFACES_TWIST, n, steps, check_every);
}

static void sheets_fold_roll_and_twist(void **state) {
    (void)state;
    follow_all(17, 400, 12); // 512 triangles
}

static void sheets_of_2000_triangles_fold_roll_and_twist(void **state) {
    (void)state;
    follow_all(33, 600, 6); // 2,048 triangles
}

static void sample(surfaces_sequence sequence, int n, int steps, int32_t draws) {
    scene s;
    make(&s, n, 2e-4, false);
    qpc_error err = {0};
    qpc_broad *broad = NULL;
    qpc_team *team = NULL;
    assert_ok(qpc_team_create(2, &team, &err), &err);
    qpc_parallel parallel = qpc_team_parallel(team);
    assert_ok(qpc_broad_create(s.surface, 1, s.x1, 1 << 26, &broad, &err), &err);
    uint64_t seed = 3;
    int64_t pairs = 0, missing = 0;
    surfaces_pairs found = {0};
    double t = 0.9;
    move_to(&s, sequence, t, false);
    for (int step = 0; step < steps; step++) {
        t += 1e-4;
        move_to(&s, sequence, t, false);
        assert_ok(qpc_broad_update(broad, s.x0, s.x1, 1, &parallel, &err), &err);
        int64_t some, lost;
        assert_true(surfaces_found(broad, &found));
        assert_true(
            surfaces_sample(s.surface, 1, s.x0, s.x1, 1, draws, &seed, &found, &some, &lost));
        pairs += some;
        missing += lost;
    }
    print_message("%lld pairs sampled of %d in the last step, %lld missing\n", (long long)pairs,
                  found.vt.count + found.ee.count, (long long)missing);
    assert_int_equal(missing, 0);
    assert_true(pairs > draws);
    surfaces_pairs_fini(&found);
    qpc_broad_destroy(broad);
    qpc_team_destroy(team);
    clear(&s);
}

static void big_sheets_by_samples(void **state) {
    (void)state;
    sample(SURFACES_FOLD, 225, 6, 150); // 100,352 triangles
    sample(SURFACES_TWIST, 225, 6, 150);
}

int main(int argc, char **argv) {
    const struct CMUnitTest quick[] = {
        cmocka_unit_test(sheets_fold_roll_and_twist),
    };
    const struct CMUnitTest full[] = {
        cmocka_unit_test(sheets_of_2000_triangles_fold_roll_and_twist),
        cmocka_unit_test(big_sheets_by_samples),
    };
    if (argc > 1 && strcmp(argv[1], "full") == 0) return cmocka_run_group_tests(full, NULL, NULL);
    return cmocka_run_group_tests(quick, NULL, NULL);
}
