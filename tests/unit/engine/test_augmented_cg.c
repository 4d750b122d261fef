/// The paper's CG on the augmented matrix: right where it can be, honest where it cannot.
#include "tests/support/instances.h"
#include "tests/support/smallqp.h"

#include <stdlib.h>

static qpc_arena arena;
static smallqp small;

static qpc_solver_report solve(const qpc_qp *qp, double L, double *x, double *l) {
    qpc_error err = {0};
    qpc_solver_report report;
    qpc_solver_options options = qpc_solver_options_default();
    options.perturbation = L;
    options.residual_tolerance = 1e-6;
    assert_ok(qpc_solve(QPC_SOLVER_AUGMENTED_CG, qp, &options, &arena, x, l, &report, &err), &err);
    return report;
}

static void a_small_problem_is_solved(void **state) {
    (void)state;
    // Three unit masses in a row, pushed together.
    memset(&small, 0, sizeof small);
    small.n = 3;
    small.m = 3;
    for (int32_t i = 0; i < 3; i++) small.K[i][i] = 1 + 0.5 * i;
    small.b[0] = 1;
    for (int32_t i = 0; i < 2; i++) {
        small.J[i][i] = 1;
        small.J[i][i + 1] = -1;
    }
    small.J[2][2] = 1;
    small.c[2] = 10;
    double x[3], l[3] = {0};
    qpc_solver_report report = solve(smallqp_build(&small), 0, x, l);
    assert_int_equal(report.outcome, QPC_OUTCOME_OPTIMAL);
    assert_int_equal(report.engine, QPC_SOLVER_AUGMENTED_CG);
    for (int32_t i = 0; i < 3; i++) assert_near(x[i], 1 / 4.5, 1e-9);
    assert_near(l[0], 1 - 1 / 4.5, 1e-9);
    assert_near(l[2], 0, 0);
}

static void the_perturbation_costs_what_it_says(void **state) {
    (void)state;
    // One row: J dv - c = L lambda.
    memset(&small.J, 0, sizeof small.J);
    small.m = 1;
    small.J[0][0] = 1;
    small.c[0] = 0.25;
    double x[3], l[1] = {0};
    qpc_solver_report report = solve(smallqp_build(&small), 1e-3, x, l);
    assert_near(x[0] - 0.25, 1e-3 * l[0], 1e-12);
    assert_int_equal(report.outcome, QPC_OUTCOME_ITERATION_LIMIT); // 7.5e-4 m/s is not solved
    l[0] = 0;
    report = solve(&small.qp, -1e-9, x, l); // relative to kt^2
    assert_near(x[0] - 0.25, 1e-9 * l[0], 1e-15);
    assert_int_equal(report.outcome, QPC_OUTCOME_OPTIMAL);
}

static void the_perturbation_is_absolute_or_relative_to_the_row(void **state) {
    (void)state;
    // The paper's L is one number for every row, so the error depends on the masses: 1e-3 is harmless beside
    // kt^2 = 1 and swamps kt^2 = 1e-4 (a body of 10 t). Relative to kt^2 the error is the same for both.
    for (int32_t heavy = 0; heavy < 2; heavy++) {
        double mass = heavy ? 1e4 : 1;
        memset(&small.K, 0, sizeof small.K);
        memset(&small.J, 0, sizeof small.J);
        small.n = 1;
        small.m = 1;
        small.K[0][0] = mass;
        small.b[0] = mass; // free: 1 m/s
        small.J[0][0] = 1;
        small.c[0] = 0;
        double x[1], l[1] = {0};
        solve(smallqp_build(&small), 1e-3, x, l);
        double want = heavy ? 10.0 / 11 : 1e-3 / (1 + 1e-3); // L / (L + 1 / mass)
        assert_near(x[0], want, 1e-9);
        l[0] = 0;
        solve(&small.qp, -1e-3, x, l);
        assert_near(x[0], 1e-3 / (1 + 1e-3), 1e-9);
    }
}

static void a_row_that_toggles_is_left_out_for_good(void **state) {
    (void)state;
    // Two bodies of mass ratio 1e4 between two walls, rows nearly parallel: with the block exchange of
    // Algorithm 1 some rows come and go, until the watch list of section 7.2 ends that: at most a few of its
    // rows happen to hold all the same, and the report tells.
    qpb_problem p;
    int32_t watched = 0, short_of = 0;
    const char *const names[] = {"needles_30x8", "rand_060", "stack_10_1e4", "rand_030_m400"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        instance_load(names[k], &p);
        double *x = calloc((size_t)p.qp.n, sizeof *x), *l = calloc((size_t)p.qp.m, sizeof *l);
        qpc_solver_report report = solve(&p.qp, -1e-9, x, l);
        watched += report.implied;
        if (report.implied > 0) {
            short_of += report.outcome != QPC_OUTCOME_OPTIMAL;
            assert_true(report.adds + report.drops >= 4 * report.implied); // each of them came and went more than three times
        }
        // The same QP by active-set: nothing is left out.
        memset(l, 0, (size_t)p.qp.m * sizeof *l);
        qpc_error err = {0};
        qpc_solver_options options = instance_options();
        assert_ok(qpc_solve(QPC_SOLVER_ACTIVE_SET, &p.qp, &options, &arena, x, l, &report, &err), &err);
        instance_check(&p, x, l, &arena);
        free(x);
        free(l);
        qpb_free(&p);
    }
    assert_true(watched > 0 && short_of > 0);
}

static void every_answer_is_finite_and_honest(void **state) {
    (void)state;
    const char *const names[] = {"cable_100_soft", "seq_cable_05",  "stack_03",
                                 "tiny_ring64",    "cable_050_dup", "tiny_free"};
    int32_t optimal = 0;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        qpb_problem p;
        qpc_certificate c;
        qpc_error err = {0};
        instance_load(names[k], &p);
        double *x = calloc((size_t)p.qp.n, sizeof *x), *l = calloc((size_t)p.qp.m, sizeof *l);
        double *y = calloc((size_t)p.qp.n, sizeof *x), *m = calloc((size_t)p.qp.m, sizeof *l);
        qpc_solver_report report = solve(&p.qp, -1e-9, x, l);
        solve(&p.qp, -1e-9, y, m);
        assert_memory_equal(x, y, (size_t)p.qp.n * sizeof *x);
        assert_ok(qpc_certify(&p.qp, x, l, &arena, &c, &err), &err);
        assert_true(isfinite(c.err));
        assert_near(c.dual, 0, 0);
        if (report.outcome == QPC_OUTCOME_OPTIMAL) {
            optimal++;
            assert_true(c.natural <= 1e-6);
            assert_true(qpb_distance(&p, x, p.x) <= 1e-3);
        }
        free(x);
        free(l);
        free(y);
        free(m);
        qpb_free(&p);
    }
    assert_true(optimal >= 2);
}

static int teardown(void **state) {
    (void)state;
    qpc_linsys_fini(&small.sys);
    qpc_arena_fini(&arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_problem_is_solved),
        cmocka_unit_test(the_perturbation_costs_what_it_says),
        cmocka_unit_test(the_perturbation_is_absolute_or_relative_to_the_row),
        cmocka_unit_test(a_row_that_toggles_is_left_out_for_good),
        cmocka_unit_test(every_answer_is_finite_and_honest),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
