/// Closest points: the optimality condition itself is the oracle. d is shortest exactly if no
/// corner of the difference set lies nearer along d: d.w >= |d|^2 for every corner w.
#include "tests/support/check.h"

#include "engine/geometry/closest.h"

static uint64_t seed = 12345;
static double uniform(void) { // [-1, 1)
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(seed & ~(uint64_t)2047) * 0x1p-63;
}
static qpc_vec3 point(void) {
    return v3(uniform(), uniform(), uniform());
}

static void check(const qpc_vec3 x[4], const qpc_closest *c, bool vt, double eps) {
    int split = vt ? 1 : 2;
    double size = 0;
    qpc_vec3 d = v3(0, 0, 0);
    for (int k = 0; k < 4; k++) {
        d = v3_madd(d, c->weight[k], x[k]);
        assert_true(k < split ? c->weight[k] >= 0 : c->weight[k] <= 0);
        assert_int_equal(c->mask >> k & 1, c->weight[k] != 0);
    }
    assert_near(vt ? c->weight[0] : c->weight[0] + c->weight[1], 1, 1e-15);
    assert_near(vt ? c->weight[1] + c->weight[2] + c->weight[3] : c->weight[2] + c->weight[3], -1,
                4e-15);
    for (int i = 0; i < split; i++)
        for (int j = split; j < 4; j++) size = fmax(size, v3_norm(v3_sub(x[i], x[j])));
    assert_near(v3_norm(v3_sub(d, c->d)), 0, eps * size);
    assert_near(c->distance, v3_norm(c->d), 1e-15 * size);
    for (int i = 0; i < split; i++)
        for (int j = split; j < 4; j++)
            if (!(v3_dot(c->d, v3_sub(x[i], x[j])) >=
                  c->distance * c->distance - eps * size * (c->distance + eps * size)))
                fail_msg("not the closest: %g < %g", v3_dot(c->d, v3_sub(x[i], x[j])),
                         c->distance * c->distance);
}

static void random_shapes(void **state) {
    (void)state;
    for (int i = 0; i < 200000; i++) {
        qpc_vec3 x[4] = {point(), point(), point(), point()};
        qpc_closest c;
        // Random triangles get as thin as 1e-5, which costs digits of the weights.
        qpc_closest_vt(x, &c);
        check(x, &c, true, 1e-10);
        qpc_closest_ee(x, &c);
        check(x, &c, false, 1e-10);
    }
}

static void degenerate_shapes(void **state) {
    (void)state;
    for (int i = 0; i < 20000; i++) {
        qpc_vec3 a = point(), u = point(), w = point();
        double s = uniform(), t = uniform(), thin = pow(10, -2 - 7 * fabs(uniform()));
        qpc_vec3 shapes[][4] = {
            {point(), a, a, a},                                             // all corners one point
            {point(), a, a, v3_add(a, u)},                                  // two of them
            {point(), a, v3_madd(a, s, u), v3_madd(a, t, u)},               // collinear
            {point(), a, v3_add(a, u), v3_madd(v3_madd(a, s, u), thin, w)}, // slivers
            {a, v3_add(a, u), w, v3_madd(w, s, u)},                         // parallel edges
            {a, v3_add(a, u), w, v3_madd(v3_madd(w, s, u), thin, point())},
            {a, a, w, v3_add(w, u)}, // a particle
            {a, a, w, w},
            {a, v3_add(a, u), v3_madd(a, s, u), v3_madd(a, t, u)}, // on one line
        };
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            qpc_closest c;
            if (k < 4) {
                qpc_closest_vt(shapes[k], &c);
                check(shapes[k], &c, true, 1e-7); // slivers of 1e-9: plane known to 1e-7
            }
            qpc_closest_ee(shapes[k], &c);
            check(shapes[k], &c, false, 1e-7);
        }
    }
}

static void weights_on_the_boundary_are_exact(void **state) {
    (void)state;
    const qpc_vec3 t[3] = {{0.1, 0, 0}, {1.3, 0.2, 0}, {0, 1.1, 0.3}};
    const struct {
        qpc_vec3 p;
        unsigned mask;
    } at[] = {
        {{-1, -1, 0}, 0x3}, {{3, 0.2, -1}, 0x5}, {{-1, 3, 1}, 0x9},    {{0.7, -1, 0}, 0x7},
        {{1, 1, 0.5}, 0xd}, {{-1, 0.5, 0}, 0xb}, {{0.4, 0.4, 1}, 0xf},
    };
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        qpc_vec3 x[4] = {at[i].p, t[0], t[1], t[2]};
        qpc_closest c;
        qpc_closest_vt(x, &c);
        assert_int_equal(c.mask, at[i].mask);
    }
    qpc_vec3 e[4] = {{0, 0, 0}, {1, 0, 0}, {2, 1, 0}, {2, 2, 0}};
    qpc_closest c;
    qpc_closest_ee(e, &c);
    assert_true(c.weight[0] == 0 && c.weight[1] == 1 && c.weight[2] == -1 && c.weight[3] == 0);
    assert_false(c.parallel);
    e[3] = v3(3, 1.001, 0);
    qpc_closest_ee(e, &c);
    assert_true(c.parallel);
}

static void result_does_not_depend_on_the_origin(void **state) {
    (void)state;
    for (int i = 0; i < 1000; i++) {
        qpc_vec3 x[4], y[4], far = {0x1p20, -0x1p19, 0x1p21};
        qpc_closest a, b;
        for (int k = 0; k < 4; k++) {
            // Few bits, so that the sums are exact.
            qpc_vec3 p = v3_scale(0x1p20, point());
            x[k] = v3_scale(0x1p-20, v3(floor(p.x), floor(p.y), floor(p.z)));
            y[k] = v3_add(x[k], far);
        }
        qpc_closest_vt(x, &a);
        qpc_closest_vt(y, &b);
        assert_memory_equal(a.weight, b.weight, sizeof a.weight);
        assert_true(a.distance == b.distance);
        qpc_closest_ee(x, &a);
        qpc_closest_ee(y, &b);
        assert_memory_equal(a.weight, b.weight, sizeof a.weight);
        assert_true(a.distance == b.distance);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_shapes),
        cmocka_unit_test(degenerate_shapes),
        cmocka_unit_test(weights_on_the_boundary_are_exact),
        cmocka_unit_test(result_does_not_depend_on_the_origin),
    };
    return cmocka_run_group_tests_name("engine/geometry/closest", tests, NULL, NULL);
}
