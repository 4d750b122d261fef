/// Random impacts, with and without friction, all at once and one after the other: solved, no gain
/// of energy, no momentum lost, no approach left, the same bits twice, units that do not matter.
#include "engine/solver/impact.h"
#include "tests/support/check.h"

#include <stdlib.h>

static qpc_arena arena;
static int32_t rounds = 60; // argument: more

/// A system with diagonal masses and dense rows, small enough to be written by hand.
enum { N_MAX = 36, M_MAX = 24 };
typedef struct small {
    int32_t n, m, contacts;
    double mass[N_MAX], v[N_MAX], J[M_MAX][N_MAX], eps[M_MAX], T[2 * M_MAX][N_MAX], mu[M_MAX];
    int32_t row[M_MAX];
    // made by build()
    qpc_linsys sys;
    int32_t start[M_MAX + 1], column[M_MAX * N_MAX], t_start[2 * M_MAX + 1],
        t_column[2 * M_MAX * N_MAX];
    double value[M_MAX * N_MAX], t_value[2 * M_MAX * N_MAX], u0[2 * M_MAX];
    qpc_friction friction;
} small;

static void rows_of(int32_t m, int32_t n, const double (*rows)[N_MAX], int32_t *start,
                    int32_t *column, double *value) {
    int32_t at = 0;
    for (int32_t i = 0; i < m; i++) {
        start[i] = at;
        for (int32_t j = 0; j < n; j++) {
            if (rows[i][j] == 0) continue;
            column[at] = j;
            value[at++] = rows[i][j];
        }
    }
    start[m] = at;
}

static void build(small *s) {
    qpc_error err = {0};
    assert_ok(qpc_linsys_resize(&s->sys, s->n, 0, &err), &err);
    for (int32_t i = 0; i < s->n; i++) qpc_linsys_add(&s->sys, i, i, s->mass[i]);
    assert_ok(qpc_linsys_factor(&s->sys, &err), &err);
    rows_of(s->m, s->n, (const double(*)[N_MAX])s->J, s->start, s->column, s->value);
    rows_of(2 * s->contacts, s->n, (const double(*)[N_MAX])s->T, s->t_start, s->t_column,
            s->t_value);
    s->friction = (qpc_friction){.count = s->contacts,
                                 .row = s->row,
                                 .mu = s->mu,
                                 .start = s->t_start,
                                 .column = s->t_column,
                                 .value = s->t_value,
                                 .u0 = s->u0};
}

static qpc_status solve(small *s, double threshold, qpc_impact_mode mode, double *v, double *f,
                        double *beta, qpc_impact_report *report, qpc_error *err) {
    memcpy(v, s->v, (size_t)s->n * sizeof *v);
    return qpc_solve_impact(&s->sys, s->m, s->start, s->column, s->value, s->eps, NULL, threshold,
                            s->contacts > 0 ? &s->friction : NULL, mode, &arena, v, f, beta, report,
                            err);
}

static double row_of(const small *s, int32_t i, const double *v) {
    double sum = 0;
    for (int32_t j = 0; j < s->n; j++) sum += s->J[i][j] * v[j];
    return sum;
}

static double energy_of(const small *s, const double *v) {
    double sum = 0;
    for (int32_t j = 0; j < s->n; j++) sum += 0.5 * s->mass[j] * v[j] * v[j];
    return sum;
}

// ---- random systems ----

static uint64_t seed;
static double uniform(double low, double high) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return low + (high - low) * (double)(seed >> 11) * 0x1p-53;
}

/// Bodies of 6 unknowns that lie on a floor or on one another, at points with arms; masses over
/// five decades.
static void set_random(small *s, bool friction, int32_t round) {
    seed = 77 + (uint64_t)round;
    int32_t bodies = 1 + round % 6;
    *s = (small){.n = 6 * bodies, .m = 1 + round % M_MAX};
    for (int32_t i = 0; i < bodies; i++) {
        double m = pow(10, uniform(-2, 3));
        for (int32_t a = 0; a < 3; a++) {
            s->mass[6 * i + a] = m;
            s->mass[6 * i + 3 + a] = m * uniform(0.1, 0.5);
            s->v[6 * i + a] = uniform(-1, 1) - (a == 2);
            s->v[6 * i + 3 + a] = uniform(-1, 1);
        }
    }
    s->contacts = friction ? s->m : 0;
    for (int32_t i = 0; i < s->m; i++) {
        double n[3], t[3], b[3], arm[3], length = 0;
        // The first lies on the second or on the floor, so that all contacts can open at once;
        // friction is less than would wedge a body that is lifted straight up: then a solution is
        // sure to be there.
        int32_t first = (int32_t)uniform(0, bodies), second = (int32_t)floor(uniform(-1, first));
        for (int32_t a = 0; a < 2; a++) n[a] = uniform(-1, 1);
        n[2] = uniform(0.2, 1);
        for (int32_t a = 0; a < 3; a++) length += n[a] * n[a];
        for (int32_t a = 0; a < 3; a++) n[a] /= sqrt(length);
        double flat = hypot(n[0], n[2]);
        t[0] = n[2] / flat;
        t[1] = 0;
        t[2] = -n[0] / flat;
        for (int32_t a = 0; a < 3; a++)
            b[a] = n[(a + 1) % 3] * t[(a + 2) % 3] - n[(a + 2) % 3] * t[(a + 1) % 3];
        for (int32_t side = 0; side < 2; side++) {
            int32_t body = side == 0 ? first : second;
            if (body < 0 || (side == 1 && body == first)) continue;
            double sign = side == 0 ? 1 : -1;
            for (int32_t a = 0; a < 3; a++) arm[a] = uniform(-1, 1);
            const double *directions[] = {n, t, b};
            double *rows[] = {s->J[i], s->T[2 * i], s->T[2 * i + 1]};
            for (int32_t d = 0; d < (friction ? 3 : 1); d++)
                for (int32_t a = 0; a < 3; a++) {
                    int32_t p = (a + 1) % 3, q = (a + 2) % 3;
                    rows[d][6 * body + a] = sign * directions[d][a];
                    rows[d][6 * body + 3 + a] =
                        sign * (arm[p] * directions[d][q] - arm[q] * directions[d][p]);
                }
        }
        s->eps[i] = uniform(0, 1) < 0.3 ? 1 : uniform(0, 1);
        s->row[i] = i;
        s->mu[i] = uniform(0, 1) * fmin(1, 0.9 * n[2] / sqrt(1 - n[2] * n[2]));
    }
    build(s);
}

static void check_random(small *s, qpc_impact_mode mode, int32_t round) {
    double v[N_MAX], f[M_MAX], beta[2 * M_MAX] = {0}, again[N_MAX], momentum[N_MAX];
    qpc_impact_report report;
    qpc_error err = {0};
    assert_ok(solve(s, 0, mode, v, f, beta, &report, &err), &err);
    double before = energy_of(s, s->v), after = energy_of(s, v), largest = 0;
    if (!report.converged) fail_msg("round %d, mode %d: not converged", round, mode);
    if (!(after <= before * (1 + 4e-12)) ||
        !(report.energy_after <= report.energy_before * (1 + 1e-12)))
        fail_msg("round %d, mode %d: energy %.17g from %.17g, scale %g", round, mode, after, before,
                 report.restitution_scale);
    assert_near(after, report.energy_after, 1e-12 * before);
    for (int32_t j = 0; j < s->n; j++) momentum[j] = s->mass[j] * (v[j] - s->v[j]);
    for (int32_t i = 0; i < s->m; i++) {
        double w = row_of(s, i, v), a = 0, friction = hypot(beta[2 * i], beta[2 * i + 1]);
        for (int32_t j = 0; j < s->n; j++) {
            a += s->J[i][j] * s->J[i][j] / s->mass[j];
            momentum[j] -= s->J[i][j] * f[i];
            if (s->contacts > 0)
                momentum[j] += s->T[2 * i][j] * beta[2 * i] + s->T[2 * i + 1][j] * beta[2 * i + 1];
        }
        if (!(w >= -1e-8 * sqrt(a * 2 * before)))
            fail_msg("round %d, mode %d: contact %d approaches with %g", round, mode, i, w);
        assert_true(f[i] >= 0);
        // Sums of impulses in one cone are in it.
        if (s->contacts > 0)
            assert_true(friction <= s->mu[i] * f[i] * (1 + 1e-8) + 1e-8 * sqrt(2 * before / a));
    }
    for (int32_t j = 0; j < s->n; j++) {
        largest = fmax(largest, fabs(momentum[j]) / sqrt(s->mass[j]));
    }
    if (!(largest <= 1e-9 * sqrt(2 * before)))
        fail_msg("round %d, mode %d: M dv is %g off", round, mode, largest);
    assert_ok(solve(s, 0, mode, again, f, beta, &report, &err), &err);
    assert_memory_equal(v, again, (size_t)s->n * sizeof *v); // same bits
}

static void random_impacts_gain_no_energy(void **state) {
    (void)state;
    for (int32_t round = 0; round < 240; round++) {
        small s;
        set_random(&s, false, round);
        check_random(&s, QPC_IMPACT_SIMULTANEOUS, round);
        check_random(&s, QPC_IMPACT_SEQUENTIAL, round);
        qpc_linsys_fini(&s.sys);
    }
}

static void random_impacts_with_friction_gain_no_energy(void **state) {
    (void)state;
    for (int32_t round = 0; round < rounds; round++) {
        small s;
        set_random(&s, true, round);
        check_random(&s, QPC_IMPACT_SIMULTANEOUS, round);
        check_random(&s, QPC_IMPACT_SEQUENTIAL, round);
        qpc_linsys_fini(&s.sys);
    }
}

static void a_pushed_contact_that_separates_costs_restitution(void **state) {
    (void)state;
    // A light ball runs ahead of a heavy one that is hit from behind: eps 1 on the one that
    // approaches and 0 on the other would make energy.
    small s = {.n = 3, .m = 2, .mass = {100, 1, 10}, .v = {3, 0, 0.5}, .eps = {1, 1}};
    double v[N_MAX], f[M_MAX];
    qpc_impact_report report;
    qpc_error err = {0};
    for (int32_t i = 0; i < 2; i++) {
        s.J[i][i] = -1;
        s.J[i][i + 1] = 1;
    }
    build(&s);
    assert_ok(solve(&s, 0, QPC_IMPACT_SIMULTANEOUS, v, f, NULL, &report, &err), &err);
    assert_true(report.converged && f[0] > 0 && f[1] > 0);
    assert_true(report.restitution_scale < 0.999 && report.restitution_scale > 0.1);
    assert_near(energy_of(&s, v) / energy_of(&s, s.v), 1, 1e-6); // as much as can be had
    assert_true(report.energy_after <= report.energy_before * (1 + 1e-12));
    qpc_linsys_fini(&s.sys);
}

static void units_do_not_matter(void **state) {
    (void)state;
    for (int32_t round = 0; round < 40; round++) {
        small s, t;
        double v[N_MAX], w[N_MAX], f[M_MAX], beta[2 * M_MAX], scale = 0;
        qpc_impact_report report;
        qpc_error err = {0};
        const double mass = 0x1p-20, length = 0x1p10, time = 0x1p7; // exact: the same bits
        set_random(&s, round % 2 == 1, round);
        t = s;
        memset(&t.sys, 0, sizeof t.sys);
        for (int32_t j = 0; j < s.n; j++) {
            bool turn = j % 6 > 2;
            t.mass[j] *= mass * (turn ? length * length : 1);
            t.v[j] *= (turn ? 1 : length) / time;
            for (int32_t i = 0; i < s.m; i++) {
                t.J[i][j] *= turn ? length : 1;
                t.T[2 * i][j] *= turn ? length : 1;
                t.T[2 * i + 1][j] *= turn ? length : 1;
            }
        }
        build(&t);
        assert_ok(solve(&s, 0, QPC_IMPACT_SIMULTANEOUS, v, f, beta, &report, &err), &err);
        assert_ok(solve(&t, 0, QPC_IMPACT_SIMULTANEOUS, w, f, beta, &report, &err), &err);
        for (int32_t j = 0; j < s.n; j++) scale = fmax(scale, sqrt(s.mass[j]) * fabs(s.v[j]));
        for (int32_t j = 0; j < s.n; j++)
            assert_near(w[j] * (j % 6 > 2 ? 1 : 1 / length) * time, v[j],
                        1e-7 * scale / sqrt(s.mass[j]));
        qpc_linsys_fini(&s.sys);
        qpc_linsys_fini(&t.sys);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) rounds = atoi(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_impacts_gain_no_energy),
        cmocka_unit_test(random_impacts_with_friction_gain_no_energy),
        cmocka_unit_test(a_pushed_contact_that_separates_costs_restitution),
        cmocka_unit_test(units_do_not_matter),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    qpc_arena_fini(&arena);
    return failed;
}
