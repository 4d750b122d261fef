/// A QP over a choice of its rows against the same over all of them.
#include "engine/solver/certificate.h"
#include "engine/solver/solver.h"
#include "tests/support/check.h"

#include <math.h>
#include <string.h>

#define CHAIN_NODES 150
#define CHAIN_ROWS 420
#define CHAIN_ENTRIES 6
#define CHAIN_SEED 5
#include "tests/support/chain.h"

/// A chain pulled down by b onto a bumpy floor: rows between neighbours, near each other, few of which hold.
static void make(chain *q, double softness) {
    qpc_error err = {0};
    qpc_linsys_clear(&q->K);
    for (int32_t i = 0; i < N; i++) {
        qpc_linsys_add(&q->K, i, i, 1 + 0.4 * uniform());
        if (i >= 3) {
            qpc_linsys_add(&q->K, i, i, softness);
            qpc_linsys_add(&q->K, i - 3, i - 3, softness);
            qpc_linsys_add(&q->K, i, i - 3, -softness);
        }
        q->b[i] = i % 3 == 1 ? -1 : 0.2 * uniform();
    }
    int32_t at = 0;
    for (int32_t i = 0; i < ROWS; i++) {
        int32_t node = (int32_t)((int64_t)i * (NODES - 1) / ROWS);
        double w = 0.5 + 0.5 * uniform();
        for (int32_t k = 0; k < 6; k++) {
            q->column[at] = 3 * node + k;
            q->value[at++] = -(k < 3 ? 1 - w : w) * (k % 3 == 1 ? 1 : 0.2 * uniform());
        }
        double c = 0.3 + 0.2 * uniform() - (i % 60 == 7 ? 0.25 : 0);
        chain_close_row(q, i, at, c, i % 200 == 150);
    }
    chain_point(q, ROWS);
    assert_ok(qpc_linsys_ensure(&q->K, &err), &err);
}

static void a_choice_of_rows_gives_the_answer_of_all(void **state) {
    (void)state;
    static chain q;
    static double x[2][N], lambda[2][ROWS];
    qpc_arena arena = {0};
    qpc_error err = {0};
    assert_ok(qpc_linsys_resize(&q.K, N, 5, &err), &err);
    for (int32_t run = 0; run < 40; run++) {
        qpc_solver_options options = qpc_solver_options_default();
        qpc_solver_report report[2];
        qpc_certificate seen;
        options.exact = false;
        options.residual_tolerance = 1e-9;
        options.stat_tolerance = 1e-9;
        make(&q, run % 2 == 0 ? 1 : 100);
        memset(lambda, 0, sizeof lambda);
        assert_ok(qpc_solve(QPC_SOLVER_ACTIVE_SET, &q.qp, &options, &arena, x[0], lambda[0], &report[0], &err), &err);
        for (int32_t warm = 0; warm < 3; warm++) { // cold; warm; with a guess of dv and misleading multipliers
            if (warm == 2)
                for (int32_t i = 0; i < ROWS; i++) lambda[1][i] = i % 9 == 0 ? 0.1 : 0;
            options.start = warm == 2 ? x[1] : NULL;
            assert_ok(qpc_solve(QPC_SOLVER_AUTO, &q.qp, &options, &arena, x[1], lambda[1], &report[1], &err), &err);
            assert_int_equal(report[1].outcome, QPC_OUTCOME_OPTIMAL);
            assert_int_equal(report[1].active, report[0].active);
            assert_true(report[1].active > 10 && report[1].active < ROWS / 2);
            assert_ok(qpc_certify(&q.qp, x[1], lambda[1], &arena, &seen, &err), &err);
            assert_true(seen.natural <= 1e-9 && seen.stat <= 1e-9);
            for (int32_t i = 0; i < N; i++) assert_true(fabs(x[1][i] - x[0][i]) <= 1e-7);
        }
    }
    qpc_linsys_fini(&q.K);
    qpc_arena_fini(&arena);
}

static void contradictions_are_named_by_the_rows_of_the_whole(void **state) {
    (void)state;
    static chain q;
    static double x[N], lambda[ROWS];
    qpc_arena arena = {0};
    qpc_error err = {0};
    qpc_solver_options options = qpc_solver_options_default();
    qpc_solver_report report;
    assert_ok(qpc_linsys_resize(&q.K, N, 5, &err), &err);
    make(&q, 1);
    // Row 300 is the reverse of row 301, and both cannot hold.
    for (int32_t k = 0; k < 6; k++) {
        q.column[q.row_start[301] + k] = q.column[q.row_start[300] + k];
        q.value[q.row_start[301] + k] = -q.value[q.row_start[300] + k];
    }
    q.c[300] = q.c[301] = -0.1;
    assert_ok(qpc_solve(QPC_SOLVER_AUTO, &q.qp, &options, &arena, x, lambda, &report, &err), &err);
    assert_int_equal(report.outcome, QPC_OUTCOME_INFEASIBLE);
    assert_int_equal(report.conflict_count, 2);
    assert_int_equal(report.conflict_row[0] + report.conflict_row[1], 601);
    qpc_linsys_fini(&q.K);
    qpc_arena_fini(&arena);
}

/// Row 300 becomes s times the reverse of row 301, with that much less than no room between them.
static void oppose(chain *q, double s, double missing) {
    for (int32_t k = 0; k < 6; k++) {
        q->column[q->row_start[300] + k] = q->column[q->row_start[301] + k];
        q->value[q->row_start[300] + k] = -s * q->value[q->row_start[301] + k];
    }
    double largest = 0;
    for (int32_t k = 0; k < 6; k++) largest = fmax(largest, fabs(q->value[q->row_start[301] + k]));
    q->c[301] = 0.2 * largest;
    q->c[300] = -s * (0.2 + missing) * largest;
}

static void contradictions_are_told_at_sight(void **state) {
    (void)state;
    static chain q;
    static double x[N], start[N], lambda[ROWS];
    qpc_arena arena = {0};
    qpc_error err = {0};
    qpc_solver_options options = qpc_solver_options_default();
    options.residual_tolerance = 1e-7;
    qpc_solver_report report;
    assert_ok(qpc_linsys_resize(&q.K, N, 5, &err), &err);
    make(&q, 1);
    for (int32_t i = 0; i < N; i++) start[i] = i;
    static const double scales[] = {1, 1e-3, 40};
    for (int turn = 0; turn < 3; turn++) {
        oppose(&q, scales[turn], 1.1e-6); // a little more than ten tolerances
        options.at_sight = true;
        options.start = turn > 0 ? start : NULL;
        for (int32_t i = 0; i < ROWS; i++) lambda[i] = i == 7 ? 3 : 0;
        assert_ok(qpc_solve(turn == 1 ? QPC_SOLVER_ACTIVE_SET : QPC_SOLVER_AUTO, &q.qp, &options, &arena, x, lambda, &report, &err), &err);
        assert_int_equal(report.outcome, QPC_OUTCOME_INFEASIBLE);
        assert_int_equal(report.conflict_count, 2);
        assert_int_equal(report.conflict_row[0], 300);
        assert_int_equal(report.conflict_row[1], 301);
        assert_int_equal(report.iterations + report.factorizations + report.solves, 0);
        assert_true(lambda[7] == 3 && x[N - 1] == (turn > 0 ? N - 1 : 0));
        // The engines see the same.
        options.at_sight = false;
        assert_ok(qpc_solve(QPC_SOLVER_ACTIVE_SET, &q.qp, &options, &arena, x, lambda, &report, &err), &err);
        assert_int_equal(report.outcome, QPC_OUTCOME_INFEASIBLE);
        assert_true(report.iterations > 0);
    }
    qpc_linsys_fini(&q.K);
    qpc_arena_fini(&arena);
}

static void what_is_no_contradiction_is_solved_all_the_same(void **state) {
    (void)state;
    static chain q;
    static double x[2][N], lambda[2][ROWS];
    qpc_arena arena = {0};
    qpc_error err = {0};
    qpc_solver_options options = qpc_solver_options_default();
    qpc_solver_report report;
    assert_ok(qpc_linsys_resize(&q.K, N, 5, &err), &err);
    for (int turn = 0; turn < 4; turn++) {
        make(&q, 1);
        oppose(&q, 1, turn == 0 ? -1e-3 : 0.1);
        if (turn == 1) q.value[q.row_start[300]] += 1e-6; // not opposite
        if (turn == 2) q.column[q.row_start[300] + 5] = q.column[q.row_start[301] + 5] + 1; // over other columns
        if (turn == 3) q.c[300] = HUGE_VAL / HUGE_VAL;    // the engines complain, and so it stays
        for (int sight = 0; sight < 2; sight++) {
            options.at_sight = sight != 0;
            memset(lambda[sight], 0, sizeof lambda[0]);
            qpc_status st = qpc_solve(QPC_SOLVER_AUTO, &q.qp, &options, &arena, x[sight], lambda[sight], &report, &err);
            assert_int_equal(st, turn == 3 ? QPC_ERR_NUMERIC : QPC_OK);
            if (turn < 3) assert_int_equal(report.outcome, QPC_OUTCOME_OPTIMAL);
        }
        if (turn == 3) continue;
        assert_memory_equal(x[0], x[1], sizeof x[0]);
        assert_memory_equal(lambda[0], lambda[1], sizeof lambda[0]);
    }
    // Those that cannot prove anything do not claim to.
    make(&q, 1);
    oppose(&q, 1, 0.1);
    options.at_sight = true;
    options.max_iterations = 5;
    assert_ok(qpc_solve(QPC_SOLVER_PROJECTED, &q.qp, &options, &arena, x[0], lambda[0], &report, &err), &err);
    assert_int_equal(report.outcome, QPC_OUTCOME_ITERATION_LIMIT);
    qpc_linsys_fini(&q.K);
    qpc_arena_fini(&arena);
}

static void a_budget_counts_all_rounds_together(void **state) {
    (void)state;
    static chain q;
    static double x[N], lambda[ROWS];
    qpc_arena arena = {0};
    qpc_error err = {0};
    qpc_solver_options options = qpc_solver_options_default();
    qpc_solver_report report;
    int32_t least = 41; // that it takes
    assert_ok(qpc_linsys_resize(&q.K, N, 5, &err), &err);
    make(&q, 100);
    for (int32_t most = 40; most >= 1; most--) {
        memset(lambda, 0, sizeof lambda);
        options.max_iterations = most;
        assert_ok(qpc_solve(QPC_SOLVER_AUTO, &q.qp, &options, &arena, x, lambda, &report, &err), &err);
        assert_true(report.iterations <= most);
        if (report.outcome == QPC_OUTCOME_OPTIMAL && most == least - 1) least = most;
        assert_int_equal(report.outcome, most >= least ? QPC_OUTCOME_OPTIMAL : QPC_OUTCOME_ITERATION_LIMIT);
    }
    assert_true(least > 1 && least < 40);
    qpc_linsys_fini(&q.K);
    qpc_arena_fini(&arena);
}

static void what_is_not_finite_is_refused(void **state) {
    (void)state;
    static chain q;
    static double x[N], lambda[ROWS];
    qpc_arena arena = {0};
    qpc_error err = {0};
    qpc_solver_options options = qpc_solver_options_default();
    assert_ok(qpc_linsys_resize(&q.K, N, 5, &err), &err);
    for (int32_t what = 0; what < 3; what++) {
        make(&q, 1);
        memset(lambda, 0, sizeof lambda);
        if (what == 0) q.c[17] = HUGE_VAL; // a row that would never be chosen
        if (what == 1) q.value[6 * 17] = (double)NAN;
        if (what == 2) lambda[17] = (double)NAN;
        assert_int_equal(qpc_solve(QPC_SOLVER_AUTO, &q.qp, &options, &arena, x, lambda, NULL, &err), QPC_ERR_NUMERIC);
    }
    qpc_linsys_fini(&q.K);
    qpc_arena_fini(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_choice_of_rows_gives_the_answer_of_all),
        cmocka_unit_test(contradictions_are_named_by_the_rows_of_the_whole),
        cmocka_unit_test(contradictions_are_told_at_sight),
        cmocka_unit_test(what_is_no_contradiction_is_solved_all_the_same),
        cmocka_unit_test(a_budget_counts_all_rounds_together),
        cmocka_unit_test(what_is_not_finite_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
