/// Which vertices of a mesh are near along its rest shape, against relaxation, and what it costs to
/// know.
#include "tests/support/check.h"
#include "tests/support/deforming.h"

#include "engine/collision/nearby.h"

#include <stdlib.h>

static uint64_t seed = 20061;

static void neighbourhoods_agree_with_relaxation(void **state) {
    (void)state;
    const double lengths[] = {0.05, 0.13, 0.37, 0.9, 3};
    generated g = {0};
    qpc_error err = {0};
    assert_true(generate_sheet(&g, 9, 7, 0.1, 0, 0));
    for (int32_t i = 0; i < g.x.count; i++) g.x.data[i] += 0.01 * deforming_uniform(&seed);
    int32_t n = g.x.count / 3;
    for (int k = 0; k < 3; k++) { // a triangle apart, and a vertex of none
        for (int c = 0; c < 3; c++) assert_true(qpc_array_push(&g.x, 5 + (k == c) * 0.1));
        assert_true(qpc_array_push(&g.triangle, n + k));
    }
    for (int c = 0; c < 3; c++) assert_true(qpc_array_push(&g.x, 9));
    n += 4;
    qpc_mesh *mesh = generated_mesh(&g);
    rest_links links = rest_links_of(mesh);
    double *far = calloc((size_t)n, sizeof *far);
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        qpc_nearby *near = NULL;
        int32_t pairs = 0;
        assert_ok(qpc_nearby_create(mesh, lengths[l], &near, &err), &err);
        for (int32_t a = 0; a < n; a++) {
            rest_paths(&links, n, a, far);
            for (int32_t b = 0; b < n; b++) {
                if (a == b) continue;
                pairs += far[b] < lengths[l];
                if (fabs(far[b] - lengths[l]) < 1e-12) continue;
                assert_int_equal(qpc_nearby_has(near, a, b), far[b] < lengths[l]);
            }
        }
        assert_int_equal(qpc_nearby_is_empty(near), pairs == 0);
        qpc_nearby_destroy(near);
    }
    qpc_array_fini(&links);
    free(far);
    qpc_mesh_unref(mesh);
    generated_fini(&g);
}

static void neighbourhoods_are_stored_compactly(void **state) {
    (void)state;
    generated g = {0};
    qpc_error err = {0};
    assert_true(generate_sheet(&g, 100, 100, 1, 0, 0));
    qpc_mesh *mesh = generated_mesh(&g);
    qpc_nearby *near = NULL;
    size_t n = 101 * 101;
    assert_ok(qpc_nearby_create(mesh, 0.8, &near, &err), &err);
    assert_true(qpc_nearby_is_empty(near) && qpc_nearby_bytes(near) < 16 * n);
    qpc_nearby_destroy(near);
    assert_ok(qpc_nearby_create(mesh, 9.5, &near, &err), &err); // about 250 each
    assert_true(qpc_nearby_bytes(near) < 300 * n);
    qpc_nearby_destroy(near);
    assert_ok(qpc_nearby_create(mesh, INFINITY, &near, &err), &err);
    assert_true(qpc_nearby_has(near, 0, 10200) && qpc_nearby_bytes(near) < 16 * n);
    qpc_nearby_destroy(near);
    qpc_mesh_unref(mesh);
    generated_fini(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbourhoods_agree_with_relaxation),
        cmocka_unit_test(neighbourhoods_are_stored_compactly),
    };
    return cmocka_run_group_tests_name("engine/nearby", tests, NULL, NULL);
}
