/// Complementary pivoting against stored solutions and proofs, closed forms, and the dual active set on random rows.
#include "tests/support/instances.h"
#include "tests/support/qpb_any.h"
#include "tests/support/smallqp.h"

#include <math.h>
#include <stdlib.h>

static qpc_arena arena;
static smallqp small;

enum { FEW_ROWS = 800 }; // time grows with the cube

static qpc_solver_report solve_by(qpc_solver_id id, const qpc_qp *qp, int32_t most, double *x, double *lambda) {
    qpc_solver_report report;
    qpc_error err = {0};
    qpc_solver_options options = instance_options();
    options.max_iterations = most;
    assert_ok(qpc_solve(id, qp, &options, &arena, x, lambda, &report, &err), &err);
    return report;
}

static qpc_solver_report solve(const qpc_qp *qp, double *x, double *lambda) {
    qpc_solver_report report = solve_by(QPC_SOLVER_LCP_IMPULSE, qp, 0, x, lambda);
    assert_int_equal(report.engine, QPC_SOLVER_LCP_IMPULSE);
    return report;
}

static double *zeros(int32_t count) { return calloc((size_t)count + 1, sizeof(double)); }

static void check_solved(qpb_problem *p) {
    double *x = zeros(p->qp.n), *lambda = zeros(p->qp.m);
    qpc_solver_report r = solve(&p->qp, x, lambda);
    if (r.outcome != QPC_OUTCOME_OPTIMAL) fail_msg("%s: outcome %d", p->name, r.outcome);
    instance_check(p, x, lambda, &arena);
    // Warm from its own answer nothing is left to pivot.
    int32_t positive = 0;
    for (int32_t i = 0; i < p->qp.m; i++) positive += lambda[i] != 0;
    r = solve(&p->qp, x, lambda);
    assert_int_equal(r.outcome, QPC_OUTCOME_OPTIMAL);
    instance_check(p, x, lambda, &arena);
    if (r.iterations > 2) fail_msg("%s: %d pivots from the answer, %d rows", p->name, r.iterations, positive);
    free(x);
    free(lambda);
}

static void stored_instances_are_solved(void **state) {
    (void)state;
    int32_t solved = 0;
    for (int32_t k = 0; instance_names[k] != NULL; k++) {
        qpb_problem p;
        instance_load(instance_names[k], &p);
        if (p.qp.m <= FEW_ROWS) {
            check_solved(&p);
            solved++;
        }
        qpb_free(&p);
    }
    assert_true(solved > 35);
}

static void impacts_of_rigid_bodies_are_solved(void **state) {
    (void)state;
    const char *const names[] = {"ball_floor", "box_floor4", "box_tilted16", "box_tilted4", "cradle20_r100", "cradle3", "cradle5_half",
                                 "funnel12", "pile4", "rack5", "rack5_off", "separating", "stack20", "stack5_1e4"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        qpb_any a;
        char path[512];
        (void)snprintf(path, sizeof path, "%s/qp/lcp_%s.qpb", QPC_TEST_DATA, names[k]);
        assert_true(qpb_any_load(path, &a));
        double *x = zeros(a.p.qp.n), *lambda = zeros(a.p.qp.m);
        assert_int_equal(solve(&a.p.qp, x, lambda).outcome, QPC_OUTCOME_OPTIMAL);
        instance_check(&a.p, x, lambda, &arena);
        free(x);
        free(lambda);
        qpb_any_free(&a);
    }
}

/// y >= 0 on inequalities with J'y = 0 and c'y < 0 exists on the named rows alone: they contradict without the others.
static void contradictions_are_proved_by_their_rows(void **state) {
    (void)state;
    for (int32_t k = 0; infeasible_names[k] != NULL; k++) {
        qpb_problem p;
        instance_load(infeasible_names[k], &p);
        double *x = zeros(p.qp.n), *lambda = zeros(p.qp.m);
        qpc_solver_report r = solve(&p.qp, x, lambda);
        if (r.outcome != QPC_OUTCOME_INFEASIBLE) fail_msg("%s: outcome %d", p.name, r.outcome);
        assert_true(r.conflict_count > 0);
        for (int32_t i = 0; i < p.qp.n; i++) assert_true(isfinite(x[i]));
        // The other engine finds them contradicting as well when all other rows are let go.
        double *c = zeros(p.qp.m);
        uint8_t *equality = calloc((size_t)p.qp.m, 1);
        for (int32_t i = 0; i < p.qp.m; i++) c[i] = 1e9;
        for (int32_t i = 0; i < r.conflict_count; i++) {
            c[r.conflict_row[i]] = p.qp.c[r.conflict_row[i]];
            equality[r.conflict_row[i]] = p.qp.equality[r.conflict_row[i]];
        }
        qpc_qp named = p.qp;
        named.c = c;
        named.equality = equality;
        memset(lambda, 0, (size_t)p.qp.m * sizeof *lambda);
        assert_int_equal(solve_by(QPC_SOLVER_ACTIVE_SET, &named, 0, x, lambda).outcome, QPC_OUTCOME_INFEASIBLE);
        free(c);
        free(equality);
        free(x);
        free(lambda);
        qpb_free(&p);
    }
}

static void clear(void) {
    qpc_linsys_fini(&small.sys);
    memset(&small, 0, sizeof small);
}

/// A rod of mass m and length L that falls flat on both ends at speed u: impulses m u / 2 each, it stops. At an angle on one end: the
/// impulse is m u / (1 + 3 cos^2) (J M^-1 J' = (1 + 3 cos^2 a) / m for a thin rod).
static void a_rod_lands_as_two_equations_say(void **state) {
    (void)state;
    const double m = 3, L = 0.8, I = m * L * L / 12, u = 2;
    clear();
    small.n = small.m = 2; // height and angle
    small.K[0][0] = m;
    small.K[1][1] = I;
    small.b[0] = -m * u;
    for (int32_t i = 0; i < 2; i++) {
        small.J[i][0] = -1; // -(v + w arm) <= 0
        small.J[i][1] = i == 0 ? L / 2 : -L / 2;
        small.key[i] = (uint64_t)i;
    }
    double x[2], lambda[2] = {0};
    assert_int_equal(solve(smallqp_build(&small), x, lambda).outcome, QPC_OUTCOME_OPTIMAL);
    assert_near(lambda[0], m * u / 2, 1e-14);
    assert_near(lambda[1], m * u / 2, 1e-14);
    assert_near(x[0], 0, 1e-15);
    const double cosine = 0.6;
    small.J[0][1] = cosine * L / 2;
    small.J[1][1] = -cosine * L / 2;
    small.c[1] = 10; // the other end is far off
    lambda[0] = lambda[1] = 0;
    assert_int_equal(solve(smallqp_build(&small), x, lambda).outcome, QPC_OUTCOME_OPTIMAL);
    assert_near(lambda[0], m * u / (1 + 3 * cosine * cosine), 1e-13);
    assert_near(lambda[1], 0, 0);
    qpc_linsys_fini(&small.sys);
}

/// Many copies of few rows, all ties: the lexicographic rule ends it, and the motion is that of one copy each.
static void copies_do_not_make_it_cycle(void **state) {
    (void)state;
    double once[3] = {0}, x[3], lambda[SMALLQP_M] = {0};
    for (int32_t copies = 1; copies <= 30; copies += 29) {
        clear();
        small.n = 3;
        small.m = 4 * copies;
        small.K[0][0] = 2;
        small.K[1][1] = small.K[2][2] = 0.1;
        small.b[0] = -1;
        for (int32_t i = 0; i < small.m; i++) { // four corners of a box on a floor
            small.J[i][0] = -1;
            small.J[i][1] = i % 2 == 0 ? 1 : -1;
            small.J[i][2] = i % 4 < 2 ? 1 : -1;
            small.key[i] = (uint64_t)i;
        }
        memset(lambda, 0, sizeof lambda);
        qpc_solver_report r = solve(smallqp_build(&small), x, lambda);
        assert_int_equal(r.outcome, QPC_OUTCOME_OPTIMAL);
        assert_true(r.iterations <= 12);
        double sum = 0;
        for (int32_t i = 0; i < small.m; i++) sum += lambda[i];
        assert_near(sum, 1, 1e-14);
        for (int32_t j = 0; j < 3; j++) {
            if (copies == 1) once[j] = x[j];
            assert_near(x[j], once[j], 1e-15);
        }
    }
    qpc_linsys_fini(&small.sys);
}

static uint64_t seed = 5;
static double uniform(double low, double high) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return low + (high - low) * (double)(seed >> 11) * 0x1p-53;
}

/// Rows that some dv satisfies, of rank below their number, with copies, equalities and scales of 1e-4 to 1e4.
static void make_random(void) {
    double inside[SMALLQP_N];
    clear();
    small.n = 2 + (int32_t)uniform(0, 12);
    small.m = 1 + (int32_t)uniform(0, 40);
    for (int32_t i = 0; i < small.n; i++) {
        small.K[i][i] = pow(10, uniform(-2, 2));
        small.b[i] = small.K[i][i] * uniform(-1, 1);
        inside[i] = uniform(-1, 1);
    }
    for (int32_t i = 0; i < small.m; i++) {
        double at = 0, scale = pow(10, uniform(-4, 4)), size = 0;
        bool copy = i > 0 && uniform(0, 1) < 0.3;
        small.equality[i] = i < small.n / 3 && uniform(0, 1) < 0.5;
        small.key[i] = (uint64_t)i;
        for (int32_t j = 0; j < small.n; j++) {
            small.J[i][j] = scale * (copy ? small.J[i / 2][j] : uniform(0, 1) < 0.5 ? uniform(-1, 1) : 0);
            at += small.J[i][j] * inside[j];
            size = fmax(size, fabs(small.J[i][j]));
        }
        small.c[i] = at + (small.equality[i] || uniform(0, 1) < 0.3 ? 0 : size * uniform(0, 0.3));
    }
}

static void random_rows_agree_with_the_active_set(void **state) {
    (void)state;
    int32_t pushed = 0;
    for (int32_t round = 0; round < 400; round++) {
        make_random();
        const qpc_qp *qp = smallqp_build(&small);
        double x[2][SMALLQP_N], lambda[2][SMALLQP_M] = {{0}};
        qpc_solver_report r = solve(qp, x[0], lambda[0]);
        if (r.outcome != QPC_OUTCOME_OPTIMAL) fail_msg("round %d: outcome %d after %d pivots", round, r.outcome, r.iterations);
        assert_int_equal(solve_by(QPC_SOLVER_ACTIVE_SET, qp, 0, x[1], lambda[1]).outcome, QPC_OUTCOME_OPTIMAL);
        for (int32_t j = 0; j < small.n; j++)
            if (!(fabs(x[0][j] - x[1][j]) <= 1e-8)) fail_msg("round %d: %g against %g", round, x[0][j], x[1][j]);
        pushed += r.iterations > 0;
    }
    assert_true(pushed > 200);
    qpc_linsys_fini(&small.sys);
}

static void a_budget_is_kept(void **state) {
    (void)state;
    qpb_problem p;
    instance_load("stack_10_1e4", &p);
    double *x = zeros(p.qp.n), *lambda = zeros(p.qp.m);
    int32_t needed = solve(&p.qp, x, lambda).iterations;
    assert_true(needed > 10);
    for (int32_t most = 1; most < needed; most++) {
        memset(lambda, 0, (size_t)p.qp.m * sizeof *lambda);
        qpc_solver_report r = solve_by(QPC_SOLVER_LCP_IMPULSE, &p.qp, most, x, lambda);
        assert_int_equal(r.outcome, QPC_OUTCOME_ITERATION_LIMIT);
        assert_int_equal(r.iterations, most);
        for (int32_t i = 0; i < p.qp.m; i++) assert_true(p.qp.equality[i] || lambda[i] >= 0);
    }
    free(x);
    free(lambda);
    qpb_free(&p);
}

static void more_rows_than_it_takes_are_told(void **state) {
    (void)state;
    enum { ROWS = 2100 };
    int32_t start[ROWS + 1] = {0}, column[ROWS] = {0};
    double value[ROWS], c[ROWS], lambda[ROWS] = {0}, x = 0, b = 1;
    uint8_t flags[ROWS] = {0};
    uint64_t key[ROWS];
    for (int32_t i = 0; i < ROWS; i++) {
        start[i + 1] = i + 1;
        value[i] = 1;
        c[i] = 0.5 + i;
        key[i] = (uint64_t)i;
    }
    qpc_linsys K = {0};
    qpc_error err = {0};
    assert_ok(qpc_linsys_resize(&K, 1, 0, &err), &err);
    qpc_linsys_add(&K, 0, 0, 1);
    assert_ok(qpc_linsys_factor(&K, &err), &err);
    qpc_qp qp = {.n = 1, .m = ROWS, .sys = &K, .b = &b, .row_start = start, .column = column, .value = value, .c = c,
                 .equality = flags, .priority = flags, .key = key};
    assert_int_equal(solve(&qp, &x, lambda).outcome, QPC_OUTCOME_ITERATION_LIMIT);
    assert_near(x, 1, 0);
    qp.m = 2000;
    assert_int_equal(solve(&qp, &x, lambda).outcome, QPC_OUTCOME_OPTIMAL);
    assert_near(x, 0.5, 1e-15);
    qpc_linsys_fini(&K);
}

static void want_of_memory_leaves_the_answer_alone(void **state) {
    (void)state;
    instance_endures_want_of_memory(QPC_SOLVER_LCP_IMPULSE);
}

static int teardown(void **state) {
    (void)state;
    qpc_arena_fini(&arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_instances_are_solved),
        cmocka_unit_test(impacts_of_rigid_bodies_are_solved),
        cmocka_unit_test(contradictions_are_proved_by_their_rows),
        cmocka_unit_test(a_rod_lands_as_two_equations_say),
        cmocka_unit_test(copies_do_not_make_it_cycle),
        cmocka_unit_test(random_rows_agree_with_the_active_set),
        cmocka_unit_test(a_budget_is_kept),
        cmocka_unit_test(more_rows_than_it_takes_are_told),
        cmocka_unit_test(want_of_memory_leaves_the_answer_alone),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
