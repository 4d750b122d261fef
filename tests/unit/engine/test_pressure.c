/// Pressure on triangles: balance, closed forms, forces and stiffness against differences of the volume.
#include "engine/dynamics/pressure.h"

#include "tests/support/check.h"

#include <string.h>

enum { NODES = 9, TRIANGLES = 14, N = 3 * NODES };

static uint64_t seed = 5;
static double uniform(void) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (double)(int64_t)(seed >> 11) / (double)(1LL << 52) - 1;
}

/// A cube with a corner in the middle of its top (the last four triangles), bent at random, from node `first`.
static const int32_t cube[3 * TRIANGLES] = {0, 2, 1, 0, 3, 2, 0, 1, 5, 0, 5, 4, 1, 2, 6, 1, 6, 5, 2, 3, 7, 2, 7, 6, 3, 0, 4, 3, 4, 7,
                                            4, 5, 8, 5, 6, 8, 6, 7, 8, 7, 4, 8};
static void bent_cube(double bend, double *x) {
    for (int32_t i = 0; i < NODES; i++) {
        int32_t corner = i % 4;
        x[3 * i] = i == 8 ? 0.5 : corner == 1 || corner == 2;
        x[3 * i + 1] = i == 8 ? 0.5 : corner >= 2;
        x[3 * i + 2] = i >= 4;
    }
    for (int32_t i = 0; i < N; i++) x[i] += bend * uniform();
}

static qpc_pressed made(int32_t triangles) {
    qpc_pressed s;
    qpc_error err = {0};
    assert_ok(qpc_pressed_make(cube, triangles, 0, NODES, &s, &err), &err);
    return s;
}

static void a_closed_surface_is_in_balance_however_it_is_bent(void **state) {
    (void)state;
    double x[N], f[N] = {0};
    bent_cube(0.3, x);
    qpc_pressed s = made(TRIANGLES);
    assert_int_equal(s.border_count, 0);
    assert_int_equal(s.edge_count, 21);
    qpc_pressed_force(&s, 700, x, f);
    qpc_vec3 sum = v3(0, 0, 0), moment = sum;
    double size = 0;
    for (int32_t i = 0; i < NODES; i++) {
        sum = v3_add(sum, v3_load(f + 3 * i));
        moment = v3_add(moment, v3_cross(v3_load(x + 3 * i), v3_load(f + 3 * i)));
        size += v3_norm(v3_load(f + 3 * i));
    }
    assert_true(size > 100);
    assert_true(v3_norm(sum) < 1e-14 * size && v3_norm(moment) < 1e-14 * size);
    qpc_pressed_fini(&s);
}

static void a_flat_patch_gets_p_times_its_area_and_a_box_has_its_volume(void **state) {
    (void)state;
    double x[N], f[N] = {0};
    bent_cube(0, x);
    qpc_pressed s = made(TRIANGLES), floor = made(2);
    assert_near(qpc_pressed_volume(&s, x, v3(3, 4, 5)), 1, 1e-14);
    assert_int_equal(floor.border_count, 4);
    qpc_pressed_force(&floor, 30, x, f); // seen from below
    for (int a = 0; a < 3; a++) assert_near(f[a] + f[3 + a] + f[6 + a] + f[9 + a], a == 2 ? -30 : 0, 1e-13);
    qpc_pressed_fini(&s);
    qpc_pressed_fini(&floor);
}

/// Forces are the gradient of p V, those on the open side made up for; the work of a short way is theirs.
static void forces_are_the_gradient_of_the_volume(void **state) {
    (void)state;
    for (int32_t triangles = TRIANGLES - 4; triangles <= TRIANGLES; triangles += 2) { // without its top, with half of it, closed
        double x[N], f[N] = {0}, whole[N], y[N], p = -40, e = 1e-5;
        bent_cube(0.2, x);
        qpc_pressed s = made(triangles);
        qpc_vec3 o = qpc_pressed_origin(&s, x);
        qpc_pressed_force(&s, p, x, f);
        memcpy(whole, f, sizeof whole);
        qpc_pressed_open_force(&s, p, x, o, whole);
        for (int32_t i = 0; i < N; i++) {
            memcpy(y, x, sizeof y);
            y[i] = x[i] + e;
            double high = qpc_pressed_volume(&s, y, o), work = qpc_pressed_work(&s, p, x, y, o);
            y[i] = x[i] - e;
            double low = qpc_pressed_volume(&s, y, o);
            assert_near(whole[i], p * (high - low) / (2 * e), 1e-8);
            assert_near(f[i], (work - qpc_pressed_work(&s, p, x, y, o)) / (2 * e), 1e-8);
        }
        qpc_pressed_fini(&s);
    }
}

/// K and H v of one surface, K dense in a band.
static void stiffness(const qpc_pressed *s, double p, const double *x, double h, const double *mass, qpc_linsys *K, const double *v, double *Hv) {
    qpc_error err = {0};
    memset(K, 0, sizeof *K);
    assert_ok(qpc_linsys_resize(K, N, N - 1, &err), &err);
    qpc_linsys_clear(K);
    memset(Hv, 0, N * sizeof *Hv);
    qpc_pressed_stiffness(s, p, x, qpc_pressed_origin(s, x), v, h, mass, K, Hv);
}

static void load_stiffness_is_the_second_derivative_of_the_volume(void **state) {
    (void)state;
    for (int32_t triangles = TRIANGLES - 4; triangles <= TRIANGLES; triangles += 2) {
        double x[N], v[N], Hv[N], Kv[N], mass[NODES], p = 40, h = 0.01, e = 1e-4;
        bent_cube(0.2, x);
        qpc_pressed s = made(triangles);
        qpc_vec3 o = qpc_pressed_origin(&s, x);
        for (int32_t i = 0; i < N; i++) v[i] = uniform();
        for (int32_t i = 0; i < NODES; i++) mass[i] = 1; // heavy: nothing is left out
        qpc_linsys K;
        stiffness(&s, p, x, h, mass, &K, v, Hv);
        qpc_linsys_multiply(&K, v, Kv);
        double high[N] = {0}, low[N] = {0}, y[N];
        for (int32_t i = 0; i < N; i++) y[i] = x[i] + e * v[i];
        qpc_pressed_force(&s, p, y, high);
        qpc_pressed_open_force(&s, p, y, o, high);
        for (int32_t i = 0; i < N; i++) y[i] = x[i] - e * v[i];
        qpc_pressed_force(&s, p, y, low);
        qpc_pressed_open_force(&s, p, y, o, low);
        for (int32_t i = 0; i < N; i++) {
            assert_near(Hv[i], -(high[i] - low[i]) / (2 * e), 1e-8);
            assert_near(Kv[i], h * h * Hv[i], 1e-13);
        }
        qpc_linsys_fini(&K);
        qpc_pressed_fini(&s);
    }
}

/// Where masses do not outweigh it: K less the part of the masses that is promised has a Cholesky factor.
static void what_is_kept_never_takes_more_than_its_share_of_the_masses(void **state) {
    (void)state;
    double x[N], v[N] = {0}, Hv[N], mass[NODES];
    qpc_error err = {0};
    qpc_pressed s = made(TRIANGLES);
    for (int k = 0; k < 20; k++) {
        qpc_linsys K;
        bent_cube(0.4, x);
        for (int32_t i = 0; i < NODES; i++) mass[i] = pow(10, 2 * uniform());
        stiffness(&s, k % 2 == 0 ? 1e6 : -1e6, x, 0.1, mass, &K, v, Hv);
        for (int32_t i = 0; i < N; i++) qpc_linsys_add(&K, i, i, (QPC_PRESSED_SHARE + 1e-9) * mass[i / 3]);
        assert_ok(qpc_linsys_factor(&K, &err), &err);
        qpc_linsys_fini(&K);
    }
    qpc_pressed_fini(&s);
}

/// Whatever the masses leave of it: a translation is in the null space, and no velocities add to the momentum.
static void load_stiffness_of_a_closed_surface_keeps_translations_and_momentum(void **state) {
    (void)state;
    double x[N], v[N], Hv[N], Ku[N], u[N], mass[NODES];
    qpc_pressed s = made(TRIANGLES);
    for (int k = 0; k < 10; k++) {
        qpc_linsys K;
        double p = k % 2 == 0 ? 1e4 : -1e4, h = 0.1, sum[3] = {0}, size = 0;
        bent_cube(0.4, x);
        for (int32_t i = 0; i < NODES; i++) mass[i] = pow(10, 2 * uniform());
        for (int32_t i = 0; i < N; i++) v[i] = uniform(), u[i] = (double[]){3, -1, 2}[i % 3];
        stiffness(&s, p, x, h, mass, &K, v, Hv);
        qpc_linsys_multiply(&K, u, Ku);
        for (int32_t i = 0; i < N; i++) sum[i % 3] += Hv[i], size = fmax(size, fabs(Hv[i]));
        for (int32_t i = 0; i < N; i++) assert_near(Ku[i], 0, 1e-13 * h * h * size);
        for (int32_t e = 0; e < 3; e++) assert_near(sum[e], 0, 1e-13 * size);
        qpc_linsys_multiply(&K, v, Ku);
        for (int32_t i = 0; i < N; i++) assert_near(Ku[i], h * h * Hv[i], 1e-13 * h * h * size);
        qpc_linsys_fini(&K);
    }
    qpc_pressed_fini(&s);
}

static void a_surface_without_two_sides_is_refused(void **state) {
    (void)state;
    static const int32_t turned[] = {0, 1, 2, 1, 2, 3}, three[] = {0, 1, 2, 2, 1, 3, 1, 2, 4};
    qpc_pressed s;
    qpc_error err = {0};
    assert_int_equal(qpc_pressed_make(turned, 2, 0, 4, &s, &err), QPC_ERR_INVALID);
    assert_non_null(strstr(err.message, "from vertex 1 to 2"));
    assert_int_equal(qpc_pressed_make(three, 3, 0, 5, &s, &err), QPC_ERR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_closed_surface_is_in_balance_however_it_is_bent),
        cmocka_unit_test(a_flat_patch_gets_p_times_its_area_and_a_box_has_its_volume),
        cmocka_unit_test(forces_are_the_gradient_of_the_volume),
        cmocka_unit_test(load_stiffness_is_the_second_derivative_of_the_volume),
        cmocka_unit_test(what_is_kept_never_takes_more_than_its_share_of_the_masses),
        cmocka_unit_test(load_stiffness_of_a_closed_surface_keeps_translations_and_momentum),
        cmocka_unit_test(a_surface_without_two_sides_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
