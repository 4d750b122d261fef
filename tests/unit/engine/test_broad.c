/// The broad phase of surfaces against brute force over all boxes.
#include "tests/support/check.h"
#include "tests/support/faults.h"
#include "tests/support/surfaces.h"

#include <stdlib.h>

static uint64_t seed = 7;
static double uniform(void) { return surfaces_uniform(&seed); }

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
        for (int k = 0; k < 3; k++)
            t[3 * i + k] = (2 * i + k) % (nodes - 1);
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

static void place(scene *s, double move) {
    s->x0 = calloc((size_t)s->nodes, 3 * sizeof *s->x0);
    s->x1 = calloc((size_t)s->nodes, 3 * sizeof *s->x1);
    for (int32_t i = 0; i < s->count; i++) {
        const double *v = qpc_mesh_vertices(s->mesh[i]);
        for (int64_t k = 0; k < 3 * qpc_mesh_vertex_count(s->mesh[i]); k++) {
            int64_t at = 3 * (int64_t)s->surface[i].first_node + k;
            double step = s->surface[i].motion == QPC_STATIC ? 0 : move * (uniform() - 0.5);
            s->x0[at] = v[k];
            s->x1[at] = v[k] + step;
        }
    }
}

static void clear(scene *s) {
    for (int32_t i = 0; i < s->count; i++) qpc_mesh_unref(s->mesh[i]);
    free(s->x0);
    free(s->x1);
    *s = (scene){0};
}

/// All pairs of brute force, and none beyond boxes a rounding wider.
static void compare(const qpc_broad *broad, const scene *s, double reach) {
    surfaces_pairs found = {0}, least = {0}, most = {0};
    qpc_error err = {0};
    // Float boxes are wider by at most 2^-21 of the scene, which is a few units large.
    assert_true(surfaces_brute(s->surface, s->count, s->x0, s->x1, reach, 0, &least));
    assert_true(surfaces_brute(s->surface, s->count, s->x0, s->x1, reach, 0x1p-17, &most));
    assert_true(surfaces_found(broad, &found));
    assert_true(surfaces_contained(&least.vt, &found.vt));
    assert_true(surfaces_contained(&least.ee, &found.ee));
    assert_true(surfaces_contained(&found.vt, &most.vt));
    assert_true(surfaces_contained(&found.ee, &most.ee));
    assert_true(qpc_broad_check(broad, &err));
    surfaces_pairs_fini(&found);
    surfaces_pairs_fini(&least);
    surfaces_pairs_fini(&most);
}

static void random_soups_match_brute_force(void **state) {
    (void)state;
    for (int round = 0; round < 12; round++) {
        scene s = {0};
        add_soup(&s, QPC_DYNAMIC, 1 + round * 23, 0.2, 0.01);
        if (round % 2) add_soup(&s, QPC_STATIC, 150, 0.3, 0.02 * (round % 3));
        if (round % 3) add_soup(&s, QPC_KINEMATIC, 100, 0.2, 0.01);
        if (round % 4) add_soup(&s, QPC_DYNAMIC, 90, 0.1, 0);
        if (round % 5 == 0) add_soup(&s, QPC_STATIC, 60, 0.2, 0);
        place(&s, 0.1);
        qpc_broad *broad = NULL;
        qpc_error err = {0};
        assert_ok(qpc_broad_create(s.surface, s.count, s.x0, 1 << 24, &broad, &err), &err);
        assert_ok(qpc_broad_update(broad, s.x0, s.x1, 1.25, NULL, &err), &err);
        compare(broad, &s, 1.25);
        assert_ok(qpc_broad_update(broad, s.x0, s.x0, 0.3, NULL, &err), &err);
        double *keep = s.x1;
        s.x1 = s.x0;
        compare(broad, &s, 0.3);
        s.x1 = keep;
        qpc_broad_destroy(broad);
        clear(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_soups_match_brute_force),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
