/// Projected Gauss-Seidel: right where it converges, honest where it does not.
#include "tests/support/instances.h"
#include "tests/support/smallqp.h"

#include <math.h>
#include <stdlib.h>

static qpc_arena arena;
static smallqp small;

static qpc_solver_report solve(const qpc_qp *qp, const qpc_solver_options *options, double *x,
                               double *lambda) {
    qpc_solver_report report;
    qpc_error err = {0};
    assert_ok(qpc_solve(QPC_SOLVER_PROJECTED, qp, options, &arena, x, lambda, &report, &err), &err);
    assert_int_equal(report.engine, QPC_SOLVER_PROJECTED);
    return report;
}

static void it_has_a_name(void **state) {
    (void)state;
    qpc_solver_id id;
    assert_true(qpc_solver_from_name("projected", &id));
    assert_int_equal(id, QPC_SOLVER_PROJECTED);
}

static void two_rows_by_hand(void **state) {
    (void)state;
    // K = diag(1, 4), b = (3, 0); x0 <= 1 and x0 + x1 = 0: x = (1, -1), lambda = (6, -4)
    memset(&small, 0, sizeof small);
    small.n = small.m = 2;
    small.K[0][0] = 1;
    small.K[1][1] = 4;
    small.b[0] = 3;
    small.J[0][0] = 1;
    small.c[0] = 1;
    small.J[1][0] = small.J[1][1] = 1;
    small.equality[1] = 1;
    qpc_solver_options options = instance_options();
    double x[2] = {0}, lambda[2] = {0};
    // The free motion of the second row alone is x = (0.6, -0.6): the first would be slack. Push
    // harder.
    small.b[0] = 8;
    qpc_solver_report r = solve(smallqp_build(&small), &options, x, lambda);
    assert_int_equal(r.outcome, QPC_OUTCOME_OPTIMAL);
    assert_near(x[0], 1, 1e-9);
    assert_near(x[1], -1, 1e-9);
    // K x - b + J'lambda = 0: 1 - 8 + l0 + l1 = 0, -4 + l1 = 0
    assert_near(lambda[0], 3, 1e-8);
    assert_near(lambda[1], 4, 1e-8);
    small.b[0] = -8; // now the first row is slack and the equality pulls the other way
    lambda[0] = lambda[1] = 0;
    r = solve(smallqp_build(&small), &options, x, lambda);
    assert_int_equal(r.outcome, QPC_OUTCOME_OPTIMAL);
    assert_near(x[0], -1.6, 1e-9);
    assert_near(x[1], 1.6, 1e-9);
    assert_near(lambda[0], 0, 0);
    assert_near(lambda[1], -6.4, 1e-8);
    qpc_linsys_fini(&small.sys);
}

static void solved_instances_are_solved(void **state) {
    (void)state;
    const char *const names[] = {"tiny_dup3", "tiny_pyramid4", "tiny_depeq", "tiny_eqfix",
                                 "cable_050", "stack_03",      "cloth_10",   "cable_050_near"};
    qpc_solver_options options = instance_options();
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        qpb_problem p;
        instance_load(names[k], &p);
        double *x = calloc((size_t)p.qp.n, sizeof *x),
               *lambda = calloc((size_t)p.qp.m, sizeof *lambda);
        qpc_solver_report cold = solve(&p.qp, &options, x, lambda);
        if (cold.outcome != QPC_OUTCOME_OPTIMAL) fail_msg("%s: outcome %d", names[k], cold.outcome);
        instance_check(&p, x, lambda, &arena);
        // Its own answer is where it stays.
        double *again = calloc((size_t)p.qp.n, sizeof *again);
        qpc_solver_report warm = solve(&p.qp, &options, again, lambda);
        assert_int_equal(warm.outcome, QPC_OUTCOME_OPTIMAL);
        if (warm.iterations > 1)
            fail_msg("%s: %d sweeps from the answer", names[k], warm.iterations);
        assert_true(qpb_distance(&p, again, x) < 1e-9);
        free(again);
        free(x);
        free(lambda);
        qpb_free(&p);
    }
}

static double dual_objective(const qpb_problem *p, const double *x, const double *lambda) {
    // at x = K^-1 (b - J'lambda): -1/2 x'K x - c'lambda
    double *Kx = calloc((size_t)p->qp.n, sizeof *Kx), sum = 0;
    qpc_linsys_multiply(&p->sys, x, Kx);
    for (int32_t i = 0; i < p->qp.n; i++) sum -= 0.5 * x[i] * Kx[i];
    for (int32_t i = 0; i < p->qp.m; i++) sum -= p->qp.c[i] * lambda[i];
    free(Kx);
    return sum;
}

static void a_budget_is_kept_and_each_sweep_helps(void **state) {
    (void)state;
    qpb_problem p;
    instance_load("stack_10_1e4", &p);
    double *x = calloc((size_t)p.qp.n, sizeof *x), *lambda = calloc((size_t)p.qp.m, sizeof *lambda),
           last = -INFINITY;
    qpc_solver_options options = instance_options();
    for (int32_t sweeps = 1; sweeps <= 30; sweeps++) {
        options.max_iterations = sweeps;
        memset(lambda, 0, (size_t)p.qp.m * sizeof *lambda);
        qpc_solver_report r = solve(&p.qp, &options, x, lambda);
        assert_int_equal(r.outcome,
                         QPC_OUTCOME_ITERATION_LIMIT); // 1e4 on top: not in thirty, and it says so
        assert_int_equal(r.iterations, sweeps);
        double now = dual_objective(&p, x, lambda);
        if (!(now > last))
            fail_msg("sweep %d: the dual objective falls from %.17g to %.17g", sweeps, last, now);
        last = now;
        qpc_certificate c;
        qpc_error err = {0};
        assert_ok(qpc_certify(&p.qp, x, lambda, &arena, &c, &err), &err);
        assert_true(c.stat <= 1e-12 && c.dual <= 0); // x is that of lambda
        assert_true(c.prim > 1e-6);
    }
    free(x);
    free(lambda);
    qpb_free(&p);
}

static void contradictions_end_at_the_limit(void **state) {
    (void)state;
    for (int32_t k = 0; infeasible_names[k] != NULL; k++) {
        qpb_problem p;
        instance_load(infeasible_names[k], &p);
        double *x = calloc((size_t)p.qp.n, sizeof *x),
               *lambda = calloc((size_t)p.qp.m, sizeof *lambda);
        qpc_solver_options options = instance_options();
        assert_int_equal(solve(&p.qp, &options, x, lambda).outcome, QPC_OUTCOME_ITERATION_LIMIT);
        free(x);
        free(lambda);
        qpb_free(&p);
    }
}

/// A chain so long that the columns of K^-1 J' do not all fit: the others take solves, and agree.
static void rows_without_a_column_take_solves(void **state) {
    (void)state;
    enum { LONG = 2600 };
    qpc_linsys K = {0};
    qpc_error err = {0};
    assert_ok(qpc_linsys_resize(&K, LONG, 1, &err), &err);
    double *b = calloc(LONG, sizeof *b), *value = calloc(LONG, sizeof *value),
           *c = calloc(LONG, sizeof *c);
    double *x = calloc(LONG, sizeof *x), *lambda = calloc(LONG, sizeof *lambda);
    int32_t *start = calloc(LONG + 1, sizeof *start), *column = calloc(LONG, sizeof *column);
    uint8_t *flags = calloc(LONG, 1);
    uint64_t *key = calloc(LONG, sizeof *key);
    for (int32_t i = 0; i < LONG; i++) {
        qpc_linsys_add(&K, i, i, 2.0001);
        if (i > 0) qpc_linsys_add(&K, i, i - 1, -1); // so stiff that K^-1 has no zero
        b[i] = 1;
        start[i + 1] = i + 1;
        column[i] = i;
        value[i] = 1;
        c[i] = i % 97 == 0 ? 0.5 : 1e6;
    }
    assert_ok(qpc_linsys_factor(&K, &err), &err);
    qpc_qp qp = {.n = LONG,
                 .m = LONG,
                 .sys = &K,
                 .b = b,
                 .row_start = start,
                 .column = column,
                 .value = value,
                 .c = c,
                 .equality = flags,
                 .priority = flags,
                 .key = key};
    qpc_solver_options options = instance_options();
    options.max_iterations = 4;
    qpc_solver_report r = solve(&qp, &options, x, lambda);
    assert_true(r.solves > LONG); // those of the columns, and one a row beyond
    qpc_certificate cert;
    assert_ok(qpc_certify(&qp, x, lambda, &arena, &cert, &err), &err);
    assert_true(cert.stat <= 1e-12);
    int32_t pushed = 0;
    for (int32_t i = 0; i < LONG; i++) {
        assert_true(i % 97 == 0 || lambda[i] <= 0);
        pushed += lambda[i] > 0;
    }
    assert_true(pushed > 20);
    assert_true(lambda[97 * 26] > 0); // among the last rows, whose columns are not kept
    free(b), free(value), free(c), free(x), free(lambda), free(start), free(column), free(flags),
        free(key);
    qpc_linsys_fini(&K);
}

static void want_of_memory_leaves_the_answer_alone(void **state) {
    (void)state;
    instance_endures_want_of_memory(QPC_SOLVER_PROJECTED);
}

static int teardown(void **state) {
    (void)state;
    qpc_arena_fini(&arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_has_a_name),
        cmocka_unit_test(two_rows_by_hand),
        cmocka_unit_test(solved_instances_are_solved),
        cmocka_unit_test(a_budget_is_kept_and_each_sweep_helps),
        cmocka_unit_test(contradictions_end_at_the_limit),
        cmocka_unit_test(rows_without_a_column_take_solves),
        cmocka_unit_test(want_of_memory_leaves_the_answer_alone),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
