/// Quick ways of detection against the plain ones: a test of cones in single precision against the one in
/// double precision, and the order that contacts are delivered in against their keys.
#include "engine/collision/walk.h"
#include "tests/support/check.h"
#include "tests/support/generate.h"

#include <math.h>
#include <string.h>

static uint64_t seed = 17;
static double uniform(void) { // in [-1, 1)
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (double)(int64_t)(seed >> 11) / (double)(1LL << 52) - 1;
}

/// A sphere that stands, and a particle far from it.
static qpc_detector *make(qpc_mesh **ret_mesh, double **ret_x) {
    generated g = {0};
    assert_true(generate_sphere(&g, 8, 0.5));
    *ret_mesh = generated_mesh(&g);
    assert_non_null(*ret_mesh);
    int32_t vertices = g.x.count / 3;
    *ret_x = qpc_alloc_array((size_t)g.x.count + 3, sizeof(double));
    memcpy(*ret_x, g.x.data, (size_t)g.x.count * sizeof(double));
    v3_store(*ret_x + g.x.count, v3(9, 9, 9));
    qpc_surface s[2] = {{.motion = QPC_STATIC, .node_count = vertices, .mesh = *ret_mesh},
                        {.motion = QPC_DYNAMIC, .first_node = vertices, .node_count = 1, .radius = 0.03}};
    qpc_detector *det = NULL;
    qpc_error err = {0};
    assert_ok(qpc_detector_create(s, 2, *ret_x, vertices + 1, 1000, &det, &err), &err);
    generated_fini(&g);
    return det;
}

static void drop(qpc_detector *det, qpc_mesh *mesh, double *x) {
    qpc_detector_destroy(det);
    qpc_mesh_unref(mesh);
    qpc_free(x);
}

static void what_single_precision_rejects_is_rejected_in_double(void **state) {
    (void)state;
    qpc_mesh *mesh;
    double *x;
    qpc_detector *det = make(&mesh, &x);
    const qpc_mesh_part *m = &det->meshes[0];
    int32_t quick = 0, plain = 0;
    for (int i = 0; i < 2000; i++) {
        double height = 0.5 + 0.05 * uniform(), by = i % 2 == 0 ? 0 : 0.01;
        qpc_vec3 p = v3_scale(height, qpc_unit(v3(uniform(), uniform(), uniform())));
        for (int32_t t = 0; t < m->triangle_count; t++) {
            qpc_vec3 q[4] = {p};
            for (int k = 0; k < 3; k++) q[1 + k] = qpc_node(x, m->triangles[3 * t + k]);
            bool is = qpc_is_beside(m, t, v3_sub(p, v3_load(m->origin)), 0.04, by);
            assert_true(!is || qpc_beside_triangle(m, t, q, 0.04, by));
            quick += is;
            plain += qpc_beside_triangle(m, t, q, 0.04, by);
        }
    }
    assert_true(plain > 1000 && quick > 0.99 * plain);
    drop(det, mesh, x);
}

/// Contacts of four types, as good as in order of their vertices or at random, some twice; then from the
/// last to the first.
static void contacts_are_delivered_by_key_once(void **state) {
    (void)state;
    qpc_mesh *mesh;
    double *x;
    qpc_detector *det = make(&mesh, &x);
    qpc_error err = {0};
    qpc_contacts out = {0};
    for (int way = 0; way < 6; way++) {
        int32_t n = way % 2 == 0 ? 300 : 3000;
        det->raw.count = 0;
        for (int32_t i = 0; i < n; i++) {
            int32_t vertex = way < 2 ? i / 12 : way < 4 ? (int32_t)(500 + 499 * uniform()) : n - i;
            qpc_contact c = {.distance = 1 + uniform(), .feature = {vertex, i}};
            c.key = qpc_contact_key((qpc_key_type)(i % 4), vertex, i % 7);
            assert_true(qpc_array_push(&det->raw, c));
        }
        assert_ok(qpc_contacts_deliver(det, &out, &err), &err);
        for (int32_t i = 1; i < out.count; i++) assert_true(out.data[i - 1].key < out.data[i].key);
        int32_t met = 0;
        for (int32_t i = 0; i < n; i++)
            for (int32_t low = 0, high = out.count - 1; low <= high;) {
                int32_t k = (low + high) / 2;
                if (out.data[k].key == det->raw.data[i].key) {
                    assert_true(out.data[k].distance <= det->raw.data[i].distance);
                    met++;
                    break;
                }
                if (out.data[k].key < det->raw.data[i].key) low = k + 1;
                else high = k - 1;
            }
        assert_int_equal(met, n);
    }
    qpc_array_fini(&out);
    drop(det, mesh, x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_single_precision_rejects_is_rejected_in_double),
        cmocka_unit_test(contacts_are_delivered_by_key_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
