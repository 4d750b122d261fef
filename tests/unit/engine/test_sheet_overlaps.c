/// Intersections of deforming surfaces, within one and between several, by exact predicates.
#include "tests/support/check.h"
#include "tests/support/deforming.h"

#include <stdlib.h>

static uint64_t seed = 20061;

static int64_t overlaps_of(const double *x, int32_t vertices, const int32_t *triangles,
                           int32_t count, qpc_overlap *ret, int32_t max) {
    qpc_mesh *mesh = NULL;
    qpc_error err = {0};
    qpc_detector *det = NULL;
    int64_t found = -1;
    assert_ok(qpc_mesh_create(x, vertices, triangles, count, 3, NULL, &mesh, NULL, &err), &err);
    qpc_surface s = {.motion = QPC_DYNAMIC,
                     .node_count = vertices,
                     .mesh = mesh,
                     .radius = 0.001,
                     .self_exclusion = -1};
    assert_ok(qpc_detector_create(&s, 1, x, vertices, 1000, &det, &err), &err);
    assert_ok(qpc_detect_overlaps(det, x, ret, max, &found, &err), &err);
    qpc_detector_destroy(det);
    qpc_mesh_unref(mesh);
    return found;
}

static void intersections_within_a_surface(void **state) {
    (void)state;
    const int32_t two[] = {0, 1, 2, 0, 2, 3};
    // A square in two triangles: neighbours do not intersect, however they are bent.
    double x[12] = {0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0};
    assert_int_equal(overlaps_of(x, 4, two, 2, NULL, 0), 0);
    x[11] = 0.7;
    assert_int_equal(overlaps_of(x, 4, two, 2, NULL, 0), 0);
    // Folded exactly flat along the diagonal: 1 falls on 3. Both triangles lie on each other.
    double y[12] = {0, 0, 0, 1, 0, 0, 1, 1, 0, 1, 0, 0};
    assert_true(overlaps_of(y, 4, two, 2, NULL, 0) > 0);
    y[9] = 0.9, y[10] = 0.1; // and not quite so far
    assert_true(overlaps_of(y, 4, two, 2, NULL, 0) > 0);
    y[11] = 1e-30; // a hair above
    assert_int_equal(overlaps_of(y, 4, two, 2, NULL, 0), 0);
    // Two triangles with one vertex in common: side by side, folded over, and crossing.
    const int32_t fan[] = {0, 1, 2, 0, 3, 4};
    double z[15] = {0, 0, 0, 1, 0, 0, 1, 1, 0, -1, 0, 0, -1, -1, 0};
    assert_int_equal(overlaps_of(z, 5, fan, 2, NULL, 0), 0);
    z[9] = 2, z[10] = 0.5, z[12] = 2, z[13] = -0.5;
    assert_int_equal(overlaps_of(z, 5, fan, 2, NULL, 0), 3);
    z[4] = 0.1, z[11] = 0.1, z[14] = -0.1; // only the shared vertex and what lies opposite
    assert_int_equal(overlaps_of(z, 5, fan, 2, NULL, 0), 0);
    z[9] = z[12] = 0.5, z[10] = z[13] = 0.25;
    qpc_overlap o[4];
    assert_int_equal(overlaps_of(z, 5, fan, 2, o, 4), 1);
    assert_int_equal(o[0].surface[0], 0);
    assert_int_equal(o[0].feature[1], 0);
    assert_near(o[0].depth, 0.1, 1e-15);
}

static void intersections_of_two_surfaces_in_order(void **state) {
    (void)state;
    enum { MOST = 4000 };
    deforming d = {0};
    qpc_detector *det = NULL;
    qpc_error err = {0};
    qpc_overlap *o = calloc(MOST, sizeof *o);
    int64_t count = 0, again = 0;
    assert_true(deforming_add_soup(&d, 20, 20, QPC_DYNAMIC, 0.01, &seed));
    deforming_add_chain(&d, 5, (double[3]){-1, 0, 0}, (double[3]){1, 0.1, 0.1}, QPC_DYNAMIC, 0.01);
    assert_true(deforming_add_soup(&d, 20, 20, QPC_STATIC, 0.01, &seed));
    assert_ok(qpc_detector_create(d.surface, 3, d.x0, d.nodes, 100000, &det, &err), &err);
    assert_ok(qpc_detect_overlaps(det, d.x0, o, MOST, &count, &err), &err);
    assert_true(count > 100 && count < MOST);
    int pairs[3][3] = {{0}};
    for (int64_t i = 0; i < count; i++) {
        pairs[o[i].surface[0]][o[i].surface[1]]++;
        if (i == 0) continue;
        int32_t p[4] = {o[i - 1].surface[0], o[i - 1].surface[1], o[i - 1].feature[0],
                        o[i - 1].feature[1]};
        int32_t q[4] = {o[i].surface[0], o[i].surface[1], o[i].feature[0], o[i].feature[1]};
        if (p[0] == 1) p[1] = p[2], p[2] = o[i - 1].surface[1]; // cables edge by edge
        if (q[0] == 1) q[1] = q[2], q[2] = o[i].surface[1];
        int k = 0;
        while (k < 4 && p[k] == q[k]) k++;
        assert_true(k < 4 && p[k] < q[k]);
    }
    assert_true(pairs[0][0] > 0 && pairs[0][2] > 0 && pairs[2][0] > 0);
    assert_true(pairs[1][0] > 0 && pairs[2][2] == 0);
    // A shorter list is its beginning.
    qpc_overlap few[7];
    assert_ok(qpc_detect_overlaps(det, d.x0, few, 7, &again, &err), &err);
    assert_true(again == count);
    assert_memory_equal(few, o, 7 * sizeof *o);
    qpc_detector_destroy(det);
    deforming_fini(&d);
    free(o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intersections_within_a_surface),
        cmocka_unit_test(intersections_of_two_surfaces_in_order),
    };
    return cmocka_run_group_tests_name("engine/sheet-overlaps", tests, NULL, NULL);
}
