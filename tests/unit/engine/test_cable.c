/// Springs: energy, force, clamped Jacobian, and two oracles of backward Euler.
#include "base/vec.h"
#include "engine/dynamics/cable.h"
#include "tests/support/check.h"
#include "tests/support/oracle.h"

enum { NODES = 6, N = 3 * NODES };

static uint64_t seed = 7;
static double uniform(void) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (double)(int64_t)(seed >> 11) / (double)(1LL << 52) - 1;
}

// Two cables: nodes 0-3 and 4-5.
static const int32_t node[] = {0, 1, 2, 4};
static const double stiffness[] = {1000, 2500, 50, 7}, rest[] = {0.5, 0.7, 0.4, 1.2};
static const qpc_springs springs = {.count = 4, .node = node, .stiffness = stiffness, .rest_length = rest};

static void place(double *x, double spacing) {
    for (int32_t i = 0; i < NODES; i++) {
        x[3 * i] = spacing * i + 0.1 * uniform();
        x[3 * i + 1] = 0.3 * uniform();
        x[3 * i + 2] = 0.3 * uniform();
    }
}

static void force_is_minus_the_gradient_of_the_energy(void **state) {
    (void)state;
    for (int32_t turn = 0; turn < 20; turn++) {
        double x[N], f[N] = {0};
        place(x, turn % 2 == 0 ? 0.9 : 0.3);
        qpc_springs_force(&springs, x, f);
        for (int32_t i = 0; i < N; i++) {
            double keep = x[i], h = 1e-6;
            x[i] = keep + h;
            double up = qpc_springs_energy(&springs, x);
            x[i] = keep - h;
            double down = qpc_springs_energy(&springs, x);
            x[i] = keep;
            // Central difference: error h^2 k / l, round-off eps U / h.
            assert_near(f[i], -(up - down) / (2 * h), 1e-5);
        }
    }
}

static double giving_energy(const qpc_springs *s, const double *x) {
    return qpc_springs_energy(s, x) + qpc_springs_limit_energy(s, x, true);
}

/// Limits that give way: forces against differences of the energy, the Jacobian against differences of the forces.
static void limits_that_give_way_are_springs(void **state) {
    (void)state;
    const double least[] = {0.9, 0, 0.2, 0.95}, most[] = {1.0, 0.6, HUGE_VAL, 1.1};
    const uint8_t giving[] = {1, 1, 1, 0};
    qpc_springs limited = springs;
    limited.least = least;
    limited.most = most;
    double x[N], none[N] = {0};
    int32_t past = 0;
    for (int32_t turn = 0; turn < 20; turn++) {
        qpc_linsys K = {0};
        qpc_error err = {0};
        double f[N] = {0}, up[N], down[N], Hv[N] = {0};
        place(x, turn % 2 == 0 ? 1.3 : 0.5);
        assert_near(giving_energy(&limited, x), qpc_springs_energy(&springs, x), 0);
        assert_near(qpc_springs_limit_force(&limited, 0, x), 0, 0);
        limited.giving = giving;
        assert_int_equal(qpc_linsys_resize(&K, N, 5, &err), QPC_OK);
        qpc_springs_linearise(&limited, x, none, 1.0, &K, f, Hv);
        bool stretched = true, smooth = true; // away from kinks, where the clamped Jacobian is the whole one
        for (int32_t s = 0; s < 4; s++) {
            double part = qpc_springs_past_limit(&limited, s, x);
            if (giving[s] != 0 && part != 0) past++;
            stretched &= part >= 0;
            qpc_vec3 d = v3_sub(v3_load(x + 3 * node[s] + 3), v3_load(x + 3 * node[s]));
            stretched &= v3_norm(d) > rest[s];
            smooth &= fabs(v3_norm(d) / most[s] - 1.001) > 1e-4;
            assert_near(qpc_springs_limit_force(&limited, s, x), giving[s] != 0 ? 100 * stiffness[s] * part : 0, 1e-9 * fabs(part) * 1e5);
        }
        for (int32_t i = 0; i < N; i++) {
            double keep = x[i], h = 1e-6;
            x[i] = keep + h;
            double above = giving_energy(&limited, x);
            x[i] = keep - h;
            double below = giving_energy(&limited, x);
            x[i] = keep;
            if (smooth) assert_near(f[i], -(above - below) / (2 * h), 1e-3); // h^2 100 k / l, eps U / h
        }
        if (stretched && smooth) {
            for (int32_t i = 0; i < N; i++) {
                qpc_linsys scratch = {0};
                double keep = x[i], h = 1e-6, ignored[N] = {0};
                memset(up, 0, sizeof up);
                memset(down, 0, sizeof down);
                assert_int_equal(qpc_linsys_resize(&scratch, N, 5, &err), QPC_OK);
                x[i] = keep + h;
                qpc_springs_linearise(&limited, x, none, 1.0, &scratch, up, ignored);
                x[i] = keep - h;
                qpc_springs_linearise(&limited, x, none, 1.0, &scratch, down, ignored);
                x[i] = keep;
                qpc_linsys_fini(&scratch);
                for (int32_t j = 0; j < N; j++) {
                    double entry = j > i + 5 || i > j + 5 ? 0 : i >= j ? *qpc_linsys_entry(&K, i, j) : *qpc_linsys_entry(&K, j, i);
                    assert_near(entry, -(up[j] - down[j]) / (2 * h), 2e-2); // of 1e5
                }
            }
        }
        qpc_linsys_fini(&K);
        limited.giving = NULL;
    }
    assert_true(past > 20);
}

static void forces_are_internal_and_tension_is_their_size(void **state) {
    (void)state;
    double x[N], f[N] = {0}, tension[4], sum[3] = {0};
    place(x, 0.6);
    qpc_springs_force(&springs, x, f);
    qpc_springs_tension(&springs, x, tension);
    for (int32_t i = 0; i < N; i++) sum[i % 3] += f[i];
    for (int32_t k = 0; k < 3; k++) assert_near(sum[k], 0, 1e-10); // round-off of 1e3 N
    double end = sqrt(f[0] * f[0] + f[1] * f[1] + f[2] * f[2]);
    assert_near(end, fabs(tension[0]), 1e-10);
    // A stretched spring pulls its ends together.
    double apart[6] = {0, 0, 0, 2, 0, 0}, g[6] = {0};
    const int32_t first[] = {0};
    qpc_springs one = {.count = 1, .node = first, .stiffness = stiffness, .rest_length = rest};
    qpc_springs_force(&one, apart, g);
    assert_near(g[0], 1500, 1e-9);
    assert_near(g[3], -1500, 1e-9);
}

static void stiffness_is_the_jacobian_where_springs_are_stretched(void **state) {
    (void)state;
    qpc_linsys K = {0};
    qpc_error err = {0};
    double dt = 0.01;
    for (int32_t turn = 0; turn < 10; turn++) {
        double x[N], v[N], Hv[N] = {0}, column[N], e[N] = {0};
        place(x, 1.6); // every spring longer than its rest length: nothing is clamped
        for (int32_t i = 0; i < N; i++) v[i] = uniform();
        assert_ok(qpc_linsys_resize(&K, N, 5, &err), &err);
        qpc_springs_stiffness(&springs, x, v, dt, &K, Hv);
        for (int32_t i = 0; i < N; i++) {
            double up[N] = {0}, down[N] = {0}, keep = x[i], h = 1e-5;
            x[i] = keep + h;
            qpc_springs_force(&springs, x, up);
            x[i] = keep - h;
            qpc_springs_force(&springs, x, down);
            x[i] = keep;
            e[i] = 1;
            qpc_linsys_multiply(&K, e, column);
            e[i] = 0;
            for (int32_t j = 0; j < N; j++)
                assert_near(column[j] / (dt * dt), -(up[j] - down[j]) / (2 * h), 1e-4);
        }
        qpc_linsys_multiply(&K, v, column);
        for (int32_t i = 0; i < N; i++) assert_near(Hv[i], column[i] / (dt * dt), 1e-8);
    }
    qpc_linsys_fini(&K);
}

static void stiffness_is_semidefinite_in_any_state(void **state) {
    (void)state;
    qpc_linsys K = {0};
    qpc_error err = {0};
    for (int32_t turn = 0; turn < 200; turn++) {
        double x[N], v[N] = {0}, Hv[N] = {0};
        place(x, 0.05 * (turn % 30));
        if (turn % 7 == 0) // a spring of no length
            for (int32_t k = 0; k < 3; k++) x[3 + k] = x[k];
        assert_ok(qpc_linsys_resize(&K, N, 5, &err), &err);
        // Almost no mass: any negative curvature of the springs would show.
        for (int32_t i = 0; i < N; i++) qpc_linsys_add(&K, i, i, 1e-9);
        qpc_springs_stiffness(&springs, x, v, 1.0, &K, Hv);
        assert_ok(qpc_linsys_factor(&K, &err), &err);
    }
    qpc_linsys_fini(&K);
}

static void a_spring_of_no_length_stays_finite(void **state) {
    (void)state;
    double x[6] = {1, 2, 3, 1, 2, 3}, f[6] = {0}, v[6] = {1}, Hv[6] = {0}, tension;
    const int32_t first[] = {0};
    qpc_springs one = {.count = 1, .node = first, .stiffness = stiffness, .rest_length = rest};
    qpc_linsys K = {0};
    qpc_error err = {0};
    assert_ok(qpc_linsys_resize(&K, 6, 5, &err), &err);
    qpc_springs_force(&one, x, f);
    qpc_springs_stiffness(&one, x, v, 0.01, &K, Hv);
    qpc_springs_tension(&one, x, &tension);
    assert_near(qpc_springs_energy(&one, x), 0.5 * 1000 * 0.25, 1e-12);
    assert_near(tension, -500, 1e-12);
    for (int32_t i = 0; i < 6; i++) assert_near(f[i] + Hv[i], 0, 0);
    qpc_linsys_fini(&K);
}

static void two_particles_follow_the_oracle(void **state) {
    (void)state;
    oracle o = oracle_open(QPC_TEST_DATA "/physics/two_particle_spring.json");
    double m[2] = {oracle_setup(&o, "mass1_kg"), oracle_setup(&o, "mass2_kg")};
    double k = oracle_setup(&o, "stiffness_N_m"), l0 = oracle_setup(&o, "rest_length_m");
    double dt = oracle_setup(&o, "dt_s");
    int32_t steps = (int32_t)oracle_setup(&o, "steps");
    double x[6] = {oracle_setup(&o, "x1_m"), 0, 0, oracle_setup(&o, "x2_m"), 0, 0};
    double v[6] = {oracle_setup(&o, "v1_m_s"), 0, 0, oracle_setup(&o, "v2_m_s"), 0, 0};
    const int32_t first[] = {0};
    qpc_springs one = {.count = 1, .node = first, .stiffness = &k, .rest_length = &l0};
    qpc_linsys K = {0};
    qpc_error err = {0};
    assert_ok(qpc_linsys_resize(&K, 6, 5, &err), &err);
    for (int32_t step = 0; step < steps; step++) {
        double b[6], f[6] = {0}, Hv[6] = {0};
        qpc_linsys_clear(&K);
        for (int32_t i = 0; i < 6; i++) qpc_linsys_add(&K, i, i, m[i / 3]);
        qpc_springs_stiffness(&one, x, v, dt, &K, Hv);
        qpc_springs_force(&one, x, f);
        for (int32_t i = 0; i < 6; i++) b[i] = dt * (f[i] - dt * Hv[i]);
        assert_ok(qpc_linsys_factor(&K, &err), &err);
        qpc_linsys_solve(&K, b, b);
        for (int32_t i = 0; i < 6; i++) {
            v[i] += b[i];
            x[i] += dt * v[i];
        }
    }
    double want[2], tolerance;
    oracle_result(&o, "x1, x2 after n steps", want, 2, &tolerance);
    assert_near(x[0], want[0], tolerance);
    assert_near(x[3], want[1], tolerance);
    oracle_result(&o, "total momentum", want, 1, &tolerance);
    assert_near(m[0] * v[0] + m[1] * v[3], want[0], tolerance);
    qpc_linsys_fini(&K);
    oracle_close(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(force_is_minus_the_gradient_of_the_energy),
        cmocka_unit_test(limits_that_give_way_are_springs),
        cmocka_unit_test(forces_are_internal_and_tension_is_their_size),
        cmocka_unit_test(stiffness_is_the_jacobian_where_springs_are_stretched),
        cmocka_unit_test(stiffness_is_semidefinite_in_any_state),
        cmocka_unit_test(a_spring_of_no_length_stays_finite),
        cmocka_unit_test(two_particles_follow_the_oracle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
