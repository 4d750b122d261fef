/// What is called optimal is: rows that no motion moves, answers out of steps; and which way `auto` goes where K is full.
#include "tests/support/instances.h"
#include "tests/support/smallqp.h"

#include <math.h>
#include <stdlib.h>

static qpc_arena arena;
static smallqp small;

static int teardown(void **state) {
    (void)state;
    qpc_linsys_fini(&small.sys);
    qpc_arena_fini(&arena);
    return 0;
}

/// A chain of unknowns pushed against a few rows of their own, and row 1 with nothing, or a zero, in it.
static const qpc_qp *with_an_empty_row(double c, bool equality, bool stored) {
    qpc_linsys sys = small.sys;
    memset(&small, 0, sizeof small);
    small.sys = sys;
    small.n = 12;
    small.m = 8;
    for (int32_t i = 0; i < small.n; i++) {
        small.K[i][i] = 3;
        for (int32_t d = 1; d <= 3 && d <= i; d++) small.K[i][i - d] = small.K[i - d][i] = -0.2;
        small.b[i] = 1;
    }
    for (int32_t i = 0; i < small.m; i++) {
        small.key[i] = (uint64_t)i;
        if (i != 1) small.J[i][i] = 1;
    }
    if (stored) small.J[1][1] = 1;
    small.c[1] = c;
    small.equality[1] = equality;
    smallqp_build(&small);
    if (stored) small.value[small.row_start[1]] = 0;
    return &small.qp;
}

static qpc_solver_report solve(qpc_solver_id id, const qpc_qp *qp, const qpc_solver_options *options, double *x, double *lambda) {
    qpc_error err = {0};
    qpc_solver_report report;
    assert_ok(qpc_solve(id, qp, options, &arena, x, lambda, &report, &err), &err);
    return report;
}

static void an_empty_row_that_fails_is_the_proof_whoever_is_asked(void **state) {
    (void)state;
    for (int32_t id = 0; id < QPC_SOLVER_COUNT; id++)
        for (int32_t kind = 0; kind < 8; kind++) { // 0 <= -1, 0 = -1, 0 = 1, and all but met
            double x[SMALLQP_N], lambda[SMALLQP_M] = {0};
            bool equality = kind % 4 >= 1, barely = kind % 4 == 3;
            double c = barely ? -1e-14 : kind % 4 == 2 ? 1 : -1;
            const qpc_qp *qp = with_an_empty_row(c, equality, kind >= 4);
            qpc_solver_options options = instance_options();
            lambda[1] = 3; // a warm start says nothing
            qpc_solver_report r = solve((qpc_solver_id)id, qp, &options, x, lambda);
            bool named = r.outcome == QPC_OUTCOME_INFEASIBLE && r.conflict_count == 1 && r.conflict_row[0] == 1;
            assert_true(r.engine != QPC_SOLVER_AUTO);
            if (named == barely) fail_msg("%s: %d says outcome %d", qpc_solver_name((qpc_solver_id)id), kind, r.outcome);
            if (!barely || id == QPC_SOLVER_AUGMENTED_CG) continue; // which is off by its perturbation
            assert_int_equal(r.outcome, QPC_OUTCOME_OPTIMAL);
            for (int32_t i = 0; i < small.m; i++) assert_near(i != 1 ? x[i] : 0, 0, 1e-9);
            assert_near(lambda[1], 0, 0);
        }
}

/// In a step what a row may be missed by decides, in m/s.
static void an_empty_row_of_a_step_is_met_to_its_tolerance(void **state) {
    (void)state;
    for (int32_t id = 0; id < QPC_SOLVER_COUNT; id++)
        for (int32_t side = 0; side < 2; side++) {
            double x[SMALLQP_N], lambda[SMALLQP_M] = {0};
            qpc_solver_options options = qpc_solver_options_default();
            const qpc_qp *qp = with_an_empty_row(-(side == 0 ? 0.2 : 1.01) * options.residual_tolerance, false, false);
            qpc_solver_report r = solve((qpc_solver_id)id, qp, &options, x, lambda);
            assert_int_equal(r.outcome == QPC_OUTCOME_INFEASIBLE, side == 1);
            if (side == 0 && id != QPC_SOLVER_AUGMENTED_CG) assert_int_equal(r.outcome, QPC_OUTCOME_OPTIMAL);
        }
}

/// However few iterations it is given: optimal is only what has the residuals of an exact answer, and never rows that contradict.
static void auto_out_of_steps_is_optimal_only_with_small_residuals(void **state) {
    (void)state;
    static const char *const names[] = {"inf_strain_chain", "inf_strain_chain_contact", "inf_jam", "cable_050", "cable_050_dup",
                                        "tiny_pyramid4", "massspan_40", "nearinf_20", NULL};
    qpc_solver_options options = instance_options();
    int32_t interrupted = 0;
    for (int32_t k = 0; names[k] != NULL; k++) {
        qpb_problem p;
        instance_load(names[k], &p);
        double *x = calloc((size_t)p.qp.n, sizeof *x), *lambda = calloc((size_t)p.qp.m, sizeof *lambda);
        for (options.max_iterations = 1; options.max_iterations <= 40; options.max_iterations++) {
            qpc_certificate seen;
            memset(lambda, 0, (size_t)p.qp.m * sizeof *lambda);
            qpc_solver_report r = solve(QPC_SOLVER_AUTO, &p.qp, &options, x, lambda);
            interrupted += r.outcome == QPC_OUTCOME_ITERATION_LIMIT;
            if (r.outcome != QPC_OUTCOME_OPTIMAL) continue;
            if (p.infeasible) fail_msg("%s: optimal with %d iterations", p.name, options.max_iterations);
            qpc_error err = {0};
            assert_ok(qpc_certify(&p.qp, x, lambda, &arena, &seen, &err), &err);
            if (!(seen.stat <= 1e-9 && seen.prim <= 1e-9 && seen.comp <= 1e-12))
                fail_msg("%s: optimal with %d iterations, prim %g", p.name, options.max_iterations, seen.prim);
        }
        free(x);
        free(lambda);
        qpb_free(&p);
    }
    assert_true(interrupted > 40);
}

static double next(uint64_t *seed) { // -1 to 1
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(int64_t)(*seed >> 11) / 4503599627370496.0 - 1;
}

/// K full, or the first `kept` of every `period` diagonals of it; rows of 160 entries. That is no net of springs.
static void check_wide_rows(int32_t period, int32_t kept) {
    enum { N = 404, ROWS = 404, EACH = 160 };
    uint64_t seed = 3;
    qpc_error err = {0};
    qpc_linsys K = {0};
    int32_t *start = calloc(N + 1, sizeof *start), *row = calloc((size_t)N * N, sizeof *row);
    int32_t *row_start = calloc(ROWS + 1, sizeof *row_start), *column = calloc((size_t)ROWS * EACH, sizeof *column);
    double *value = calloc((size_t)ROWS * EACH, sizeof *value), *c = calloc(ROWS, sizeof *c), *b = calloc(N, sizeof *b);
    double *x = calloc(N, sizeof *x), *lambda = calloc(ROWS, sizeof *lambda);
    uint8_t *none = calloc(ROWS, 1);
    uint64_t *key = calloc(ROWS, sizeof *key);
    for (int32_t j = 0, at = 0; j < N; j++) {
        for (int32_t i = j; i < N; i++)
            if ((i - j) % period < kept) row[at++] = i;
        start[j + 1] = at;
    }
    assert_ok(qpc_linsys_resize_sparse(&K, N, start, row, &err), &err);
    for (int32_t j = 0; j < N; j++) // diagonally dominant
        for (int32_t i = j; i < N; i++)
            if ((i - j) % period < kept) *qpc_linsys_entry(&K, i, j) = i == j ? 60 : 0.1 * next(&seed);
    for (int32_t i = 0, at = 0; i < ROWS; i++) {
        for (int32_t k = 0; k < EACH; k++) {
            column[at] = k * N / EACH + i % 2;
            value[at++] = next(&seed);
        }
        row_start[i + 1] = at;
        c[i] = 0.1 + 0.1 * next(&seed);
        key[i] = (uint64_t)i;
    }
    for (int32_t j = 0; j < N; j++) b[j] = 60 * next(&seed);
    qpc_qp qp = {.n = N, .m = ROWS, .sys = &K, .b = b, .row_start = row_start, .column = column, .value = value, .c = c,
                 .equality = none, .priority = none, .key = key};
    qpc_solver_options options = instance_options();
    qpc_solver_report r = solve(QPC_SOLVER_AUTO, &qp, &options, x, lambda);
    qpc_certificate seen;
    assert_int_equal(r.outcome, QPC_OUTCOME_OPTIMAL);
    assert_ok(qpc_certify(&qp, x, lambda, &arena, &seen, &err), &err);
    assert_true(seen.stat <= 1e-9 && seen.prim <= 1e-9 && seen.comp <= 1e-12);
    assert_int_equal(r.cg_steps, 0);
    assert_true(r.engine == QPC_SOLVER_ACTIVE_SET || r.engine == QPC_SOLVER_INTERIOR_POINT);
    assert_true(r.factorizations <= 40 && r.active > 50);
    qpc_linsys_fini(&K);
    free(start);
    free(row);
    free(row_start);
    free(column);
    free(value);
    free(c);
    free(b);
    free(x);
    free(lambda);
    free(none);
    free(key);
}

static void many_wide_rows_go_by_a_factor(void **state) {
    (void)state;
    check_wide_rows(1, 1);
    check_wide_rows(9, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_row_that_fails_is_the_proof_whoever_is_asked),
        cmocka_unit_test(an_empty_row_of_a_step_is_met_to_its_tolerance),
        cmocka_unit_test(auto_out_of_steps_is_optimal_only_with_small_residuals),
        cmocka_unit_test(many_wide_rows_go_by_a_factor),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
