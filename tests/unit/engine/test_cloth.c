/// Springs of a mesh, and K over any pattern of them.
#include "engine/dynamics/cloth.h"

#include "base/mem.h"
#include "base/vec.h"
#include "engine/dynamics/cable.h"
#include "tests/support/check.h"

static uint64_t seed = 11;
static double uniform(void) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (double)(int64_t)(seed >> 11) / (double)(1LL << 52) - 1;
}

// Two triangles of a rectangle of 3 by 4, and one folded up at the diagonal's end.
//   3---2
//   |  /|
//   | / |
//   0---1
static const double vertices[] = {0, 0, 0, 3, 0, 0, 3, 4, 0, 0, 4, 0};
static const int32_t triangles[] = {0, 1, 2, 0, 2, 3};

static qpc_mesh *make_mesh(const double *x, int64_t n, const int32_t *t, int64_t m) {
    qpc_mesh *mesh;
    qpc_error err = {0};
    assert_ok(qpc_mesh_create(x, n, t, m, 3, NULL, &mesh, NULL, &err), &err);
    return mesh;
}

static void springs_lie_along_edges_and_across_them(void **state) {
    (void)state;
    qpc_mesh *mesh = make_mesh(vertices, 4, triangles, 2);
    qpc_cloth_springs s;
    qpc_error err = {0};
    assert_ok(qpc_cloth_springs_make(mesh, 2, NULL, 100, 7, &s, &err), &err);
    // edges 01 02 03 12 23, then 1-3 across 02
    static const int32_t node[] = {0, 0, 0, 1, 2, 1}, other[] = {1, 2, 3, 2, 3, 3};
    static const double length[] = {6, 10, 8, 8, 6, 10};
    // 100 A / l^2 with A = 6 of a side, 12 of the diagonal, in the mesh's own size: scale cancels out
    static const double k[] = {600.0 / 9, 1200.0 / 25, 600.0 / 16, 600.0 / 16, 600.0 / 9, 7};
    assert_int_equal(s.count, 6);
    assert_int_equal(s.stretch_count, 5);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(s.node[i], node[i]);
        assert_int_equal(s.other[i], other[i]);
        assert_near(s.rest_length[i], length[i], 1e-14);
        assert_near(s.stiffness[i], k[i], 1e-12);
    }
    qpc_cloth_springs_fini(&s);
    static const double given[] = {1, 2, 3, 4, 5};
    assert_ok(qpc_cloth_springs_make(mesh, 1, given, 0, 0, &s, &err), &err);
    assert_int_equal(s.count, 5);
    for (int i = 0; i < 5; i++) assert_near(s.stiffness[i], given[i], 0);
    qpc_cloth_springs_fini(&s);
    double area[4], all;
    qpc_cloth_areas(mesh, 2, area, &all);
    assert_near(all, 48, 1e-13);
    for (int i = 0; i < 4; i++) assert_near(area[i], i % 2 == 0 ? 16 : 8, 1e-13);
    qpc_mesh_unref(mesh);
}

static void edges_of_three_triangles_and_doubled_ones_do_not_bend(void **state) {
    (void)state;
    static const double x[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, -1, 0, 0, 0, 1};
    static const int32_t fan[] = {0, 1, 2, 1, 0, 3, 0, 1, 4}, twice[] = {0, 1, 2, 2, 1, 0};
    qpc_mesh *mesh = make_mesh(x, 5, fan, 3), *other = make_mesh(x, 3, twice, 2);
    qpc_cloth_springs s;
    qpc_error err = {0};
    assert_ok(qpc_cloth_springs_make(mesh, 1, NULL, 1, 1, &s, &err), &err);
    assert_int_equal(s.count, 7);
    assert_int_equal(s.stretch_count, 7);
    qpc_cloth_springs_fini(&s);
    assert_ok(qpc_cloth_springs_make(other, 1, NULL, 1, 1, &s, &err), &err);
    assert_int_equal(s.count, 3);
    qpc_cloth_springs_fini(&s);
    qpc_mesh_unref(mesh);
    qpc_mesh_unref(other);
}

static void an_edge_of_no_length_is_refused(void **state) {
    (void)state;
    static const double x[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0};
    static const int32_t t[] = {0, 1, 2, 0, 2, 3};
    qpc_mesh *mesh = make_mesh(x, 4, t, 2);
    qpc_cloth_springs s;
    qpc_error err = {0};
    assert_fails(qpc_cloth_springs_make(mesh, 1, NULL, 1, 0, &s, &err), QPC_ERR_INVALID, &err, "vertices 2 and 3");
    qpc_mesh_unref(mesh);
}

/// A grid of n by n with springs along edges and across: K by columns against K of the same springs in a full band.
static void columns_hold_the_same_matrix_as_a_band(void **state) {
    (void)state;
    enum { SIDE = 4, NODES = SIDE * SIDE + 3, N = 3 * NODES };
    double rest[3 * SIDE * SIDE], x[N], v[N], Hv[2][N];
    int32_t t[6 * (SIDE - 1) * (SIDE - 1)], count = 0;
    for (int i = 0; i < SIDE * SIDE; i++) v3_store(rest + 3 * i, v3(i % SIDE, i / SIDE, 0));
    for (int j = 0; j + 1 < SIDE; j++)
        for (int i = 0; i + 1 < SIDE; i++) {
            int32_t p = j * SIDE + i, cell[] = {p, p + 1, p + SIDE + 1, p, p + SIDE + 1, p + SIDE};
            memcpy(t + count, cell, sizeof cell);
            count += 6;
        }
    qpc_mesh *mesh = make_mesh(rest, SIDE * SIDE, t, count / 3);
    qpc_cloth_springs s;
    qpc_error err = {0};
    assert_ok(qpc_cloth_springs_make(mesh, 1, NULL, 100, 9, &s, &err), &err);
    // and a cable of three nodes behind it
    int32_t springs = s.count + 2;
    int32_t *node = qpc_alloc_array((size_t)springs, sizeof *node), *other = qpc_alloc_array((size_t)springs, sizeof *other);
    int32_t *place = qpc_alloc_array((size_t)springs, sizeof *place), *start, *row;
    double *k = qpc_alloc_array((size_t)springs, sizeof *k), *l = qpc_alloc_array((size_t)springs, sizeof *l);
    memcpy(node, s.node, (size_t)s.count * sizeof *node);
    memcpy(other, s.other, (size_t)s.count * sizeof *other);
    memcpy(k, s.stiffness, (size_t)s.count * sizeof *k);
    memcpy(l, s.rest_length, (size_t)s.count * sizeof *l);
    for (int i = 0; i < 2; i++) {
        node[s.count + i] = SIDE * SIDE + i;
        other[s.count + i] = SIDE * SIDE + i + 1;
        k[s.count + i] = 50;
        l[s.count + i] = 0.4;
    }
    qpc_springs all = {.count = springs, .node = node, .stiffness = k, .rest_length = l, .other = other}, placed = all;
    placed.place = place;
    for (int i = 0; i < N; i++) {
        x[i] = (i < 3 * SIDE * SIDE ? rest[i] : 5 + i) + 0.3 * uniform();
        v[i] = uniform();
    }
    qpc_linsys band = {0}, columns = {0};
    assert_ok(qpc_springs_pattern(&placed, NODES, &start, &row, place, &err), &err);
    assert_ok(qpc_linsys_resize_sparse(&columns, N, start, row, &err), &err);
    assert_ok(qpc_linsys_resize(&band, N, N - 1, &err), &err);
    memset(Hv, 0, sizeof Hv);
    qpc_springs_stiffness(&all, x, v, 0.1, &band, Hv[0]);
    qpc_springs_stiffness(&placed, x, v, 0.1, &columns, Hv[1]);
    int stored = 0;
    for (int i = 0; i < N; i++) {
        assert_near(Hv[0][i], Hv[1][i], 0);
        for (int j = 0; j <= i; j++) {
            const double *a = qpc_linsys_entry(&band, i, j), *b = qpc_linsys_entry(&columns, i, j);
            assert_near(*a, b != NULL ? *b : 0, 0);
            stored += b != NULL;
        }
    }
    // nothing but the blocks of nodes and springs
    assert_int_equal(stored, 6 * NODES + 9 * springs);
    qpc_linsys_fini(&band);
    qpc_linsys_fini(&columns);
    void *arrays[] = {node, other, place, k, l, start, row};
    for (int i = 0; i < 7; i++) qpc_free(arrays[i]);
    qpc_cloth_springs_fini(&s);
    qpc_mesh_unref(mesh);
}

static void one_pair_of_nodes_may_have_two_springs(void **state) {
    (void)state;
    // of a tetrahedron every bending spring lies along an edge
    static const double x[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};
    static const int32_t t[] = {0, 2, 1, 0, 1, 3, 1, 2, 3, 0, 3, 2};
    qpc_mesh *mesh = make_mesh(x, 4, t, 4);
    qpc_cloth_springs s;
    qpc_error err = {0};
    int32_t place[12], *start, *row;
    assert_ok(qpc_cloth_springs_make(mesh, 1, NULL, 1, 1, &s, &err), &err);
    assert_int_equal(s.count, 12);
    qpc_springs all = {.count = s.count, .node = s.node, .stiffness = s.stiffness, .rest_length = s.rest_length, .other = s.other, .place = place};
    assert_ok(qpc_springs_pattern(&all, 4, &start, &row, place, &err), &err);
    assert_int_equal(start[12], 12 * 13 / 2); // full
    for (int i = 0; i < 12; i++) assert_int_equal(place[i], 3 * (s.other[i] - s.node[i] - 1));
    qpc_free(start);
    qpc_free(row);
    qpc_cloth_springs_fini(&s);
    qpc_mesh_unref(mesh);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(springs_lie_along_edges_and_across_them),
        cmocka_unit_test(edges_of_three_triangles_and_doubled_ones_do_not_bend),
        cmocka_unit_test(an_edge_of_no_length_is_refused),
        cmocka_unit_test(columns_hold_the_same_matrix_as_a_band),
        cmocka_unit_test(one_pair_of_nodes_may_have_two_springs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
