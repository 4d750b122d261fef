/// Meshes: what is refused, what is noticed, canonical bytes, topology, references.
#include "tests/support/check.h"
#include "tests/support/faults.h"
#include "tests/support/generate.h"

#include "base/hash.h"
#include "base/mem.h"
#include "engine/geometry/topology.h"

#include <pthread.h>
#include <stdlib.h>

static const double square[12] = {-0.0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0.5};
static const int32_t two[6] = {0, 1, 2, 1, 3, 2};

static void canonical_bytes_have_the_documented_hash(void **state) {
    (void)state;
    qpc_mesh *m = NULL, *again = NULL;
    qpc_mesh_report r, r2;
    qpc_error err = {0};
    assert_ok(qpc_mesh_create(square, 4, two, 2, 3, NULL, &m, &r, &err), &err);
    // Worked out apart from this code: header, -0 as 0, little-endian.
    char hex[65];
    qpc_hex_encode(qpc_mesh_sha256(m), 32, hex);
    assert_string_equal(hex, "5113be23ccbc4def5eb766cdb684a09ea50155db61ff192dd947e510c0d07713");
    assert_int_equal(qpc_mesh_canonical_size(m), 24 + 96 + 24);
    uint8_t bytes[24 + 96 + 24], hash[32];
    qpc_mesh_canonical_bytes(m, bytes);
    assert_memory_equal(bytes, "QPM1\3\0\0\0\4\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 24);
    assert_ok(qpc_sha256_of(bytes, sizeof bytes, hash, &err), &err);
    assert_memory_equal(hash, qpc_mesh_sha256(m), 32);
    assert_ok(qpc_mesh_from_canonical(bytes, sizeof bytes, NULL, &again, &r2, &err), &err);
    assert_memory_equal(qpc_mesh_sha256(again), qpc_mesh_sha256(m), 32);
    assert_memory_equal(&r, &r2, sizeof r);
    assert_int_equal(r.boundary_edge_count, 4);
    assert_int_equal(r.nonmanifold_edge_count + r.duplicate_count + r.zero_area_count, 0);
    assert_true(r.low[0] == 0 && r.high[2] == 0.5);
    qpc_mesh_unref(m);
    qpc_mesh_unref(again);
}

static void damaged_bytes_are_refused(void **state) {
    (void)state;
    qpc_mesh *m = NULL;
    qpc_error err = {0};
    assert_ok(qpc_mesh_create(square, 4, two, 2, 3, NULL, &m, NULL, &err), &err);
    uint8_t bytes[145] = {0}, good[144];
    qpc_mesh_canonical_bytes(m, good);
    qpc_mesh_unref(m);
    for (size_t size = 0; size <= 145; size++) {
        if (size == 144) continue;
        memcpy(bytes, good, 144);
        m = NULL;
        assert_fails(qpc_mesh_from_canonical(bytes, size, NULL, &m, NULL, &err), QPC_ERR_CORRUPT,
                     &err, "");
        assert_null(m);
    }
    // Counts that would overflow a size.
    memset(bytes + 8, 0xff, 16);
    assert_fails(qpc_mesh_from_canonical(bytes, 144, NULL, &m, NULL, &err), QPC_ERR_CORRUPT, &err,
                 "");
    memcpy(bytes, good, 144);
    bytes[13] = 1; // 2^40 + 4 vertices
    assert_fails(qpc_mesh_from_canonical(bytes, 144, NULL, &m, NULL, &err), QPC_ERR_LIMIT, &err,
                 "max_vertices");
    memcpy(bytes, good, 144);
    bytes[4] = 5;
    assert_fails(qpc_mesh_from_canonical(bytes, 144, NULL, &m, NULL, &err), QPC_ERR_INVALID, &err,
                 "nodes per element");
    // Any flipped byte gives a mesh or an error, never a crash.
    for (int i = 0; i < 144; i++) {
        memcpy(bytes, good, 144);
        bytes[i] ^= 0xff;
        m = NULL;
        if (qpc_mesh_from_canonical(bytes, 144, NULL, &m, NULL, &err) == QPC_OK) qpc_mesh_unref(m);
    }
}

static void bad_meshes_are_refused_by_name(void **state) {
    (void)state;
    qpc_mesh *m = NULL;
    qpc_error err = {0};
    double x[12];
    int32_t t[6];
#define REFUSED(vertices, triangles, limits, status, text)                                         \
    assert_fails(qpc_mesh_create(x, vertices, t, triangles, 3, limits, &m, NULL, &err), status,    \
                 &err, text);                                                                      \
    assert_null(m);                                                                                \
    memcpy(x, square, sizeof x);                                                                   \
    memcpy(t, two, sizeof t)
    memcpy(x, square, sizeof x);
    memcpy(t, two, sizeof t);
    REFUSED(4, 0, NULL, QPC_ERR_INVALID, "no element");
    REFUSED(0, 2, NULL, QPC_ERR_INVALID, "no vertex");
    REFUSED(-1, 2, NULL, QPC_ERR_INVALID, "-1");
    t[4] = 4;
    REFUSED(4, 2, NULL, QPC_ERR_INVALID, "element 1 uses vertex 4");
    t[0] = -1;
    REFUSED(4, 2, NULL, QPC_ERR_INVALID, "element 0 uses vertex -1");
    x[7] = NAN;
    REFUSED(4, 2, NULL, QPC_ERR_INVALID, "coordinate 1 of vertex 2");
    x[3] = -INFINITY;
    REFUSED(4, 2, NULL, QPC_ERR_INVALID, "vertex 1");
    t[2] = t[5] = 1;
    REFUSED(4, 2, NULL, QPC_ERR_INVALID, "no area");
    const qpc_mesh_limits few = {3, 100}, small = {100, 1};
    REFUSED(4, 2, &few, QPC_ERR_LIMIT, "max_vertices of 3");
    REFUSED(4, 2, &small, QPC_ERR_LIMIT, "max_elements of 1");
    // Checked before memory is taken.
    uint64_t before = qpc_mem_thread_allocations();
    REFUSED(10000000, 10000000, &few, QPC_ERR_LIMIT, "max_vertices");
    REFUSED(INT64_MAX, INT64_MAX, NULL, QPC_ERR_LIMIT, "max_vertices");
    assert_int_equal(qpc_mem_thread_allocations(), before);
    assert_fails(qpc_mesh_create(x, 4, t, 2, 5, NULL, &m, NULL, &err), QPC_ERR_INVALID, &err, "5");
    assert_fails(qpc_mesh_create(x, 4, t, 2, 1, NULL, &m, NULL, &err), QPC_ERR_INVALID, &err, "1");
}

static void oddities_are_counted(void **state) {
    (void)state;
    const double x[24] = {0,   0,   0, 1, 0, 0, 0, 1, 0, 1, 1, 0,
                          0.5, 0.5, 1, 9, 9, 9, 2, 0, 0, 0, 0, 0};
    const int32_t t[21] = {0, 1, 2, 2, 0, 1, 1, 3, 2, 1, 2, 4, 0, 1, 6, 0, 7, 1, 3, 3, 1};
    qpc_mesh *m = NULL;
    qpc_mesh_report r;
    qpc_error err = {0};
    assert_ok(qpc_mesh_create(x, 8, t, 7, 3, NULL, &m, &r, &err), &err);
    assert_int_equal(r.zero_area_count, 3); // collinear, coincident, repeated index
    assert_int_equal(r.zero_area[0], 4);
    assert_int_equal(r.zero_area[1], 5);
    assert_int_equal(r.zero_area[2], 6);
    assert_int_equal(r.duplicate_count, 1);
    assert_int_equal(r.unreferenced_count, 1);
    assert_int_equal(r.unreferenced[0], 5);
    assert_true(r.high[0] == 2); // the unreferenced vertex is not in the box
    assert_true(r.nonmanifold_edge_count >= 2);
    qpc_mesh_unref(m);
}

static void segments_and_tetrahedra_are_meshes_too(void **state) {
    (void)state;
    const double x[12] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};
    const int32_t lines[6] = {0, 1, 1, 2, 2, 3}, tets[8] = {0, 1, 2, 3, 3, 0, 1, 2};
    qpc_mesh *m = NULL;
    qpc_mesh_report r;
    qpc_error err = {0};
    assert_ok(qpc_mesh_create(x, 4, lines, 3, 2, NULL, &m, &r, &err), &err);
    assert_null(qpc_mesh_topology(m));
    qpc_mesh_unref(m);
    assert_ok(qpc_mesh_create(x, 4, tets, 2, 4, NULL, &m, &r, &err), &err);
    assert_int_equal(r.duplicate_count, 1);
    qpc_mesh_unref(m);
}

static void check_topology(const qpc_mesh *m) {
    const qpc_topology *t = qpc_mesh_topology(m);
    const int32_t *v = qpc_mesh_elements(m);
    int64_t triangles = qpc_mesh_element_count(m), owned = 0, ends = 0;
    for (int64_t i = 0; i < triangles; i++)
        for (int k = 0; k < 3; k++) {
            int32_t e = t->triangle_edge[3 * i + k], p = v[3 * i + k], q = v[3 * i + (k + 1) % 3];
            if (p == q) {
                assert_int_equal(e, -1);
                continue;
            }
            assert_true(e >= 0 && e < t->edge_count);
            assert_int_equal(t->edge_vertex[2 * e], p < q ? p : q);
            assert_int_equal(t->edge_vertex[2 * e + 1], p < q ? q : p);
            bool listed = false;
            for (int32_t j = t->edge_triangle_start[e]; j < t->edge_triangle_start[e + 1]; j++)
                listed |= t->edge_triangle[j] == i;
            assert_true(listed);
            if (t->triangle_owns[i] >> k & 1) {
                owned++;
                assert_int_equal(t->edge_triangle[t->edge_triangle_start[e]], i);
            }
        }
    assert_int_equal(owned, t->edge_count);
    for (int64_t i = 0; i < qpc_mesh_vertex_count(m); i++)
        for (int32_t j = t->vertex_edge_start[i]; j < t->vertex_edge_start[i + 1]; j++, ends++) {
            int32_t e = t->vertex_edge[j];
            assert_true(t->edge_vertex[2 * e] == i || t->edge_vertex[2 * e + 1] == i);
        }
    assert_int_equal(ends, 2 * t->edge_count);
}

static void topology_is_complete(void **state) {
    (void)state;
    generated g = {0};
    assert_true(generate_sheave(&g));
    assert_int_equal(g.triangle.count / 3, 13722);
    qpc_mesh *m = generated_mesh(&g);
    assert_non_null(m);
    check_topology(m);
    // A closed surface of genus 1: V - E + F = 0.
    assert_int_equal(qpc_mesh_vertex_count(m) - qpc_mesh_topology(m)->edge_count + 13722, 0);
    qpc_mesh_unref(m);
    generated_fini(&g);
    const int32_t fold[9] = {0, 1, 0, 1, 3, 2, 0, 1, 2};
    assert_ok(qpc_mesh_create(square, 4, fold, 3, 3, NULL, &m, NULL, NULL), &(qpc_error){0});
    check_topology(m);
    qpc_mesh_unref(m);
}

static void *hold_and_release(void *p) {
    for (int i = 0; i < 10000; i++) qpc_mesh_unref(qpc_mesh_ref(p));
    return NULL;
}

static void references_are_counted_over_threads(void **state) {
    (void)state;
    qpc_mesh *m = NULL;
    int64_t live = qpc_mem_live_blocks();
    assert_ok(qpc_mesh_create(square, 4, two, 2, 3, NULL, &m, NULL, NULL), &(qpc_error){0});
    pthread_t thread[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, hold_and_release, m), 0);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    assert_int_equal(qpc_mesh_vertex_count(m), 4);
    qpc_mesh_unref(m);
    qpc_mesh_unref(NULL);
    assert_int_equal(qpc_mem_live_blocks(), live);
}

static void failing_memory_leaves_no_trace(void **state) {
    (void)state;
    QPC_FAULTS(f) {
        qpc_mesh *m = NULL;
        qpc_error err = {0};
        qpc_status status = qpc_mesh_create(square, 4, two, 2, 3, NULL, &m, NULL, &err);
        if (qpc_faults_ended(&f, status)) qpc_mesh_unref(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_bytes_have_the_documented_hash),
        cmocka_unit_test(damaged_bytes_are_refused),
        cmocka_unit_test(bad_meshes_are_refused_by_name),
        cmocka_unit_test(oddities_are_counted),
        cmocka_unit_test(segments_and_tetrahedra_are_meshes_too),
        cmocka_unit_test(topology_is_complete),
        cmocka_unit_test(references_are_counted_over_threads),
        cmocka_unit_test(failing_memory_leaves_no_trace),
    };
    return cmocka_run_group_tests_name("engine/geometry/mesh", tests, NULL, NULL);
}
