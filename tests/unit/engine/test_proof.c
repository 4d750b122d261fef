/// Proofs that rows contradict by interior-point and the augmented Lagrangian: their rows against active-set, rows that only a
/// motion without bounds would satisfy, relaxations that end before one, and running out of memory.
#include "engine/solver/proof.h"
#include "tests/support/instances.h"
#include "tests/support/smallqp.h"

#include <stdlib.h>

static qpc_arena arena;
static smallqp small, part;

static double next(uint64_t *seed) { // -1 to 1
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(int64_t)(*seed >> 11) / 4503599627370496.0 - 1;
}

static void clear(smallqp *s, int32_t n, int32_t m) {
    qpc_linsys sys = s->sys;
    memset(s, 0, sizeof *s);
    s->sys = sys;
    s->n = n;
    s->m = m;
}

static qpc_solver_report solve(qpc_solver_id id, const qpc_qp *qp, double beyond, double *x) {
    double l[SMALLQP_M] = {0};
    qpc_error err = {0};
    qpc_solver_report report;
    qpc_solver_options options = qpc_solver_options_default();
    options.beyond = beyond;
    assert_ok(qpc_solve(id, qp, &options, &arena, x, l, &report, &err), &err);
    return report;
}

/// Random rows, one of them less than what some others leave: sum of y_i J_i = 0, sum of y_i c_i = -1.
static void make_contradiction(uint64_t *seed, int32_t n, int32_t m, int32_t in_it) {
    clear(&small, n, m);
    for (int32_t i = 0; i < n; i++) {
        small.K[i][i] = 3 + next(seed);
        if (i > 0) small.K[i][i - 1] = small.K[i - 1][i] = next(seed);
        small.b[i] = next(seed);
    }
    double c = 0;
    for (int32_t i = 0; i < m; i++) {
        for (int32_t j = 0; j < n; j++) small.J[i][j] = next(seed);
        small.c[i] = 0.5 + next(seed);
        small.priority[i] = 1;
        small.key[i] = (uint64_t)i;
    }
    for (int32_t j = 0; j < n; j++) small.J[in_it][j] = 0;
    for (int32_t i = 0; i < in_it; i++) {
        double y = 1.5 + next(seed);
        for (int32_t j = 0; j < n; j++) small.J[in_it][j] -= y * small.J[i][j];
        c += y * small.c[i];
    }
    small.c[in_it] = -1 - c;
    smallqp_build(&small);
}

/// The named rows, without the one at `left_out`, alone.
static void take_rows(const qpc_solver_report *r, int32_t left_out) {
    clear(&part, small.n, 0);
    memcpy(part.K, small.K, sizeof part.K);
    memcpy(part.b, small.b, sizeof part.b);
    for (int32_t k = 0; k < r->conflict_count; k++) {
        if (k == left_out) continue;
        memcpy(part.J[part.m], small.J[r->conflict_row[k]], sizeof part.J[0]);
        part.key[part.m] = (uint64_t)k;
        part.c[part.m++] = small.c[r->conflict_row[k]];
    }
    smallqp_build(&part);
}

static void every_row_that_interior_point_names_is_needed(void **state) {
    (void)state;
    uint64_t seed = 7;
    double x[SMALLQP_N];
    for (int32_t round = 0; round < 60; round++) {
        int32_t n = 4 + round % 20, in_it = 1 + round % n;
        make_contradiction(&seed, n, in_it + 1 + round % 30, in_it);
        assert_int_equal(solve(QPC_SOLVER_ACTIVE_SET, &small.qp, 0, x).outcome, QPC_OUTCOME_INFEASIBLE);
        qpc_solver_report r = solve(QPC_SOLVER_INTERIOR_POINT, &small.qp, 0, x);
        if (r.outcome != QPC_OUTCOME_INFEASIBLE) fail_msg("round %d: outcome %d", round, r.outcome);
        assert_true(r.conflict_count >= 2 && r.conflict_count <= n + 1);
        take_rows(&r, -1);
        assert_int_equal(solve(QPC_SOLVER_ACTIVE_SET, &part.qp, 0, x).outcome, QPC_OUTCOME_INFEASIBLE);
        for (int32_t k = 0; k < r.conflict_count; k++) {
            assert_true(k == 0 || r.conflict_row[k] > r.conflict_row[k - 1]);
            take_rows(&r, k);
            qpc_solver_report less = solve(QPC_SOLVER_ACTIVE_SET, &part.qp, 0, x);
            if (less.outcome != QPC_OUTCOME_OPTIMAL) fail_msg("round %d: row %d is not needed", round, r.conflict_row[k]);
        }
    }
}

/// The elastic problem proves what the stored files say, and nothing of what has a solution.
static void the_elastic_problem_proves_what_is_so(void **state) {
    (void)state;
    for (int pass = 0; pass < 2; pass++) {
        const char *const *names = pass == 0 ? infeasible_names : instance_names;
        for (int32_t k = 0; names[k] != NULL; k++) {
            qpb_problem p;
            qpc_error err = {0};
            instance_load(names[k], &p);
            qpc_solver_options options = qpc_solver_options_default();
            qpc_solver_report r = {0};
            qpc_work work;
            qpc_arena_mark mark = qpc_arena_get_mark(&arena);
            double *none = calloc((size_t)p.qp.m + 1, sizeof *none);
            assert_ok(qpc_linsys_ensure(p.qp.sys, &err), &err);
            assert_ok(qpc_work_init(&work, &p.qp, &options, &arena, none, &err), &err);
            assert_ok(qpc_interior_point_prove(&work, &options, &r, &err), &err);
            if ((r.outcome == QPC_OUTCOME_INFEASIBLE) != (pass == 0)) fail_msg("%s: outcome %d", p.name, r.outcome);
            qpc_arena_rewind(&arena, mark);
            free(none);
            qpb_free(&p);
        }
    }
}

/// x >= 1 + slope y and x <= slope y - 1 leave room where |slope| y is 1 at least: far off if the slope is small.
static void make_wedge(double slope) {
    clear(&small, 2, 2);
    small.K[0][0] = small.K[1][1] = 1;
    small.J[0][0] = -1;
    small.J[0][1] = slope;
    small.c[0] = -1;
    small.J[1][0] = 1;
    small.J[1][1] = slope;
    small.c[1] = -1;
    small.key[1] = 1;
    small.priority[0] = small.priority[1] = 1;
    smallqp_build(&small);
}

static void what_is_beyond_use_contradicts(void **state) {
    (void)state;
    const qpc_solver_id ids[] = {QPC_SOLVER_AUTO, QPC_SOLVER_ACTIVE_SET, QPC_SOLVER_AUGMENTED_LAGRANGIAN, QPC_SOLVER_INTERIOR_POINT};
    double x[SMALLQP_N];
    make_wedge(1e-3);
    for (size_t k = 0; k < sizeof ids / sizeof *ids; k++) {
        qpc_solver_report r = solve(ids[k], &small.qp, 0, x);
        assert_int_equal(r.outcome, QPC_OUTCOME_OPTIMAL);
        assert_near(x[1], -1000, 1e-4);
        assert_int_equal(solve(ids[k], &small.qp, 2000, x).outcome, QPC_OUTCOME_OPTIMAL);
        r = solve(ids[k], &small.qp, 100, x);
        assert_int_equal(r.outcome, QPC_OUTCOME_INFEASIBLE);
        assert_int_equal(r.conflict_count, 2);
    }
}

/// Many wedges side by side take active-set long enough to see where it is going.
static void active_set_turns_back(void **state) {
    (void)state;
    double x[SMALLQP_N];
    clear(&small, 40, 40);
    for (int32_t i = 0; i < 20; i++) {
        small.K[2 * i][2 * i] = small.K[2 * i + 1][2 * i + 1] = 1;
        for (int32_t k = 0; k < 2; k++) {
            small.J[2 * i + k][2 * i] = k == 0 ? -1 : 1;
            small.J[2 * i + k][2 * i + 1] = 1e-3;
            small.c[2 * i + k] = -1 - 0.01 * i;
            small.key[2 * i + k] = (uint64_t)(2 * i + k);
        }
    }
    smallqp_build(&small);
    qpc_solver_report whole = solve(QPC_SOLVER_ACTIVE_SET, &small.qp, 0, x);
    assert_int_equal(whole.outcome, QPC_OUTCOME_OPTIMAL);
    qpc_solver_report r = solve(QPC_SOLVER_ACTIVE_SET, &small.qp, 100, x);
    assert_int_equal(r.outcome, QPC_OUTCOME_INFEASIBLE);
    assert_int_equal(r.conflict_count, 2);
    assert_int_equal(r.conflict_row[0] / 2, r.conflict_row[1] / 2);
}

static void a_relaxation_stays_within(void **state) {
    (void)state;
    qpc_error err = {0};
    // Forty unknowns between walls that leave room a long way off only.
    clear(&small, 40, 40);
    for (int32_t i = 0; i < 20; i++) {
        small.K[2 * i][2 * i] = small.K[2 * i + 1][2 * i + 1] = 1;
        for (int32_t k = 0; k < 2; k++) {
            small.J[2 * i + k][2 * i] = k == 0 ? -1 : 1;
            small.J[2 * i + k][2 * i + 1] = 1e-3;
            small.c[2 * i + k] = -1;
            small.priority[2 * i + k] = 1;
        }
    }
    smallqp_build(&small);
    double c[SMALLQP_M], x[SMALLQP_N], largest;
    memcpy(c, small.c, sizeof c);
    assert_ok(qpc_relax_within(&small.qp, 1, QPC_RELAX_EXACT, 50, &arena, c, &largest, &err), &err);
    assert_true(largest > 0.9 && largest <= 1.0); // all of it but what 50 are worth
    small.qp.c = c;
    assert_int_equal(solve(QPC_SOLVER_ACTIVE_SET, &small.qp, 0, x).outcome, QPC_OUTCOME_OPTIMAL);
    for (int32_t i = 0; i < 40; i++) assert_true(fabs(x[i]) <= 50);
}

/// Every row gives way: by active-set on its dual, and, with a bound that is never met, by the augmented Lagrangian in the unknowns.
static void both_ways_of_a_relaxation_agree(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (int32_t round = 0; round < 20; round++) {
        double c[2][SMALLQP_M], x[2][SMALLQP_N], largest[2], Kd[SMALLQP_N], far = 0, size = 0;
        make_contradiction(&seed, 10 + round, 40 + 2 * round, 3 + round % 7);
        for (int way = 0; way < 2; way++) {
            qpc_error err = {0};
            memcpy(c[way], small.c, sizeof c[way]);
            assert_ok(qpc_relax_within(&small.qp, 1, QPC_RELAX_EXACT, way == 0 ? 0 : 1e12, &arena, c[way], &largest[way], &err), &err);
            qpc_qp relaxed = small.qp;
            relaxed.c = c[way];
            assert_int_equal(solve(QPC_SOLVER_ACTIVE_SET, &relaxed, 0, x[way]).outcome, QPC_OUTCOME_OPTIMAL);
        }
        for (int32_t i = 0; i < small.m; i++)
            if (!(fabs(c[0][i] - c[1][i]) <= 1e-9 * largest[0])) fail_msg("round %d: row %d %g", round, i, c[0][i] - c[1][i]);
        for (int32_t i = 0; i < small.n; i++) x[1][i] -= x[0][i];
        qpc_linsys_multiply(&small.sys, x[1], Kd);
        for (int32_t i = 0; i < small.n; i++) far += x[1][i] * Kd[i];
        qpc_linsys_multiply(&small.sys, x[0], Kd);
        for (int32_t i = 0; i < small.n; i++) size += x[0][i] * Kd[i];
        if (!(sqrt(far) <= 1e-9 * sqrt(size))) fail_msg("round %d: %g apart in energy", round, sqrt(far / size));
    }
}

static void out_of_memory_proves_nothing(void **state) {
    (void)state;
    uint64_t seed = 11;
    make_contradiction(&seed, 8, 14, 5);
    for (uint64_t nth = 1; nth < 100000; nth++) {
        int64_t live = qpc_mem_live_blocks();
        qpc_arena own = {0};
        qpc_error err = {0};
        double x[SMALLQP_N], l[SMALLQP_M] = {0};
        qpc_solver_report r;
        qpc_solver_options options = qpc_solver_options_default();
        qpc_mem_fail_at(nth, false);
        qpc_status st = qpc_solve(QPC_SOLVER_INTERIOR_POINT, &small.qp, &options, &own, x, l, &r, &err);
        bool failed = qpc_mem_failed();
        qpc_mem_fail_at(0, false);
        // CHOLMOD's analysis may do without what one of its attempts wanted.
        if (st == QPC_OK)
            assert_int_equal(r.outcome, QPC_OUTCOME_INFEASIBLE);
        else
            assert_true(st == QPC_ERR_MEMORY && failed);
        qpc_arena_fini(&own);
        assert_int_equal(qpc_mem_live_blocks(), live);
        if (!failed) break;
    }
}

static int teardown(void **state) {
    (void)state;
    qpc_linsys_fini(&small.sys);
    qpc_linsys_fini(&part.sys);
    qpc_arena_fini(&arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_that_interior_point_names_is_needed),
        cmocka_unit_test(the_elastic_problem_proves_what_is_so),
        cmocka_unit_test(what_is_beyond_use_contradicts),
        cmocka_unit_test(active_set_turns_back),
        cmocka_unit_test(a_relaxation_stays_within),
        cmocka_unit_test(both_ways_of_a_relaxation_agree),
        cmocka_unit_test(out_of_memory_proves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
