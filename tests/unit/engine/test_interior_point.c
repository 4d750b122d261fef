/// Interior point: the instance files, LCPs, walls, rows that contradict, limits and faults; and
/// the engines that `auto` picks where K is not banded.
#include "tests/support/instances.h"

#include "bench/wall.h"
#include "tests/support/faults.h"
#include "tests/support/qpb_any.h"
#include "tests/support/smallqp.h"

#include <stdlib.h>

static qpc_arena arena;
static smallqp small;

static qpc_solver_report solve(qpc_solver_id id, const qpc_qp *qp, double *x, double *l) {
    qpc_error err = {0};
    qpc_solver_report report;
    qpc_solver_options options = instance_options();
    assert_ok(qpc_solve(id, qp, &options, &arena, x, l, &report, &err), &err);
    return report;
}

static double *zeros(int32_t count) {
    return calloc((size_t)count + 1, sizeof(double));
}

static void every_instance_has_its_stored_solution(void **state) {
    (void)state;
    for (int32_t k = 0; instance_names[k] != NULL; k++) {
        for (int32_t storage = 0; storage < 2; storage++) {
            qpb_problem p;
            char path[512];
            snprintf(path, sizeof path, "%s/qp/%s.qpb", QPC_TEST_DATA, instance_names[k]);
            assert_true(qpb_load_as(storage == 0 ? QPC_LINSYS_BAND : QPC_LINSYS_SPARSE, path, &p));
            double *x = zeros(p.qp.n), *l = zeros(p.qp.m);
            for (int32_t i = 0; i < p.qp.m; i++) l[i] = i % 3; // no warm start: it must not matter
            qpc_solver_report r = solve(QPC_SOLVER_INTERIOR_POINT, &p.qp, x, l);
            if (r.outcome != QPC_OUTCOME_OPTIMAL) fail_msg("%s: outcome %d", p.name, r.outcome);
            assert_int_equal(r.engine, QPC_SOLVER_INTERIOR_POINT);
            assert_int_equal(r.iterations, r.factorizations);
            if (r.iterations > 50) fail_msg("%s: %d steps", p.name, r.iterations);
            instance_check(&p, x, l, &arena);
            free(x);
            free(l);
            qpb_free(&p);
        }
    }
    qpc_arena_fini(&arena);
    assert_int_equal(qpc_mem_live_blocks(), 0);
}

static void impacts_of_rigid_bodies_are_solved(void **state) {
    (void)state;
    const char *const names[] = {"ball_floor",    "box_floor4", "box_tilted16", "box_tilted4",
                                 "cradle20_r100", "cradle3",    "cradle5_half", "funnel12",
                                 "pile4",         "rack5",      "rack5_off",    "separating",
                                 "stack20",       "stack5_1e4"};
    const qpc_solver_id ids[] = {QPC_SOLVER_INTERIOR_POINT, QPC_SOLVER_AUTO};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        qpb_any a;
        char path[512];
        snprintf(path, sizeof path, "%s/qp/lcp_%s.qpb", QPC_TEST_DATA, names[k]);
        assert_true(qpb_any_load(path, &a));
        double *x = zeros(a.p.qp.n), *l = zeros(a.p.qp.m);
        for (int32_t e = 0; e < 2; e++) {
            memset(l, 0, (size_t)a.p.qp.m * sizeof *l);
            assert_int_equal(solve(ids[e], &a.p.qp, x, l).outcome, QPC_OUTCOME_OPTIMAL);
            instance_check(&a.p, x, l, &arena);
        }
        free(x);
        free(l);
        qpb_any_free(&a);
    }
    qpc_arena_fini(&arena);
}

static void rows_that_contradict_are_never_called_solved(void **state) {
    (void)state;
    for (int32_t k = 0; infeasible_names[k] != NULL; k++) {
        qpb_problem p;
        char path[512];
        snprintf(path, sizeof path, "%s/qp/%s.qpb", QPC_TEST_DATA, infeasible_names[k]);
        assert_true(qpb_load_as(QPC_LINSYS_SPARSE, path, &p));
        double *x = zeros(p.qp.n), *l = zeros(p.qp.m);
        qpc_solver_report r = solve(QPC_SOLVER_INTERIOR_POINT, &p.qp, x, l);
        assert_true(r.outcome == QPC_OUTCOME_INFEASIBLE || r.outcome == QPC_OUTCOME_STALLED || r.outcome == QPC_OUTCOME_ITERATION_LIMIT);
        for (int32_t i = 0; i < p.qp.n; i++) assert_true(isfinite(x[i]));
        memset(l, 0, (size_t)p.qp.m * sizeof *l);
        r = solve(QPC_SOLVER_AUTO, &p.qp, x, l);
        assert_int_equal(r.outcome, QPC_OUTCOME_INFEASIBLE);
        assert_int_equal(r.engine, QPC_SOLVER_ACTIVE_SET);
        assert_true(r.conflict_count > 0);
        free(x);
        free(l);
        qpb_free(&p);
    }
    qpc_arena_fini(&arena);
}

static void an_empty_row_that_fails_is_named(void **state) {
    (void)state;
    memset(&small.K, 0, sizeof small.K);
    small.n = 3;
    small.m = 4;
    for (int32_t i = 0; i < 3; i++) small.K[i][i] = 1 + i;
    for (int32_t i = 0; i < 4; i++) {
        memset(small.J[i], 0, sizeof small.J[i]);
        small.J[i][i % 3] = i == 2 ? 0 : 1;
        small.c[i] = -1;
        small.key[i] = (uint64_t)i;
    }
    const qpc_qp *qp = smallqp_build(&small);
    double x[SMALLQP_N], l[SMALLQP_M] = {0};
    qpc_solver_report r = solve(QPC_SOLVER_INTERIOR_POINT, qp, x, l);
    assert_int_equal(r.outcome, QPC_OUTCOME_INFEASIBLE);
    assert_int_equal(r.conflict_count, 1);
    assert_int_equal(r.conflict_row[0], 2);
    small.c[2] = 0; // and one that holds is nothing
    assert_int_equal(solve(QPC_SOLVER_INTERIOR_POINT, qp, x, l).outcome, QPC_OUTCOME_OPTIMAL);
    assert_near(x[0], -1, 1e-9);
    assert_near(x[1], -1, 1e-9);
    assert_near(x[2], 0, 1e-9);
    qpc_linsys_fini(&small.sys);
    qpc_arena_fini(&arena);
}

static uint64_t seed;
static double uniform(void) { // in [-1, 1)
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (double)(int64_t)(seed >> 11) / (double)(1LL << 52) - 1;
}

/// K diagonally dominant, masses over six decades; rows feasible at a random point, many tight
/// there, copied, summed, scaled by 1e-6 to 1e6; a few equalities, dependent ones among them.
static const qpc_qp *random_qp(uint64_t s) {
    seed = s * 7919 + 1;
    int32_t n = 3 + (int32_t)((uniform() + 1) * 20), m = 2 + (int32_t)((uniform() + 1) * 40);
    double mass[SMALLQP_N], point[SMALLQP_N], scale[SMALLQP_M];
    qpc_linsys keep = small.sys;
    memset(&small, 0, sizeof small);
    small.sys = keep;
    small.n = n;
    small.m = m;
    for (int32_t i = 0; i < n; i++) {
        mass[i] = pow(10, 3 * uniform());
        point[i] = uniform();
    }
    for (int32_t i = 0; i < n; i++) {
        small.K[i][i] += mass[i];
        small.b[i] = 3 * mass[i] * uniform();
        for (int32_t j = 0; j < i; j++) {
            if (uniform() < 0.6) continue;
            double v = uniform() * fmin(mass[i], mass[j]);
            small.K[i][j] = small.K[j][i] = v;
            small.K[i][i] += fabs(v);
            small.K[j][j] += fabs(v);
        }
    }
    for (int32_t i = 0; i < m; i++) {
        double c = 0;
        scale[i] = uniform() < 0.5 ? 1 : pow(10, 6 * uniform());
        small.equality[i] = i < 2;
        if (i > 2 && uniform() > 0.3) {
            int32_t a = (int32_t)((uniform() + 1) / 2 * i), b = (int32_t)((uniform() + 1) / 2 * i);
            double share = uniform() > 0 ? uniform() / scale[b] : 0;
            for (int32_t j = 0; j < n; j++)
                small.J[i][j] = scale[i] * (small.J[a][j] / scale[a] + share * small.J[b][j]);
        } else {
            for (int32_t k = 0; k < 4; k++)
                small.J[i][(int32_t)((uniform() + 1) / 2 * n)] = scale[i] * uniform();
        }
        for (int32_t j = 0; j < n; j++) c += small.J[i][j] * point[j];
        small.c[i] = c + (small.equality[i] || uniform() > 0 ? 0 : 0.1 * scale[i]);
        small.key[i] = (uint64_t)i;
        small.priority[i] = 1;
    }
    return smallqp_build(&small);
}

static void agrees_with_active_set_on_random_rows(void **state) {
    (void)state;
    int32_t solved = 0, agreed = 0;
    for (uint64_t s = 0; s < 400; s++) {
        const qpc_qp *qp = random_qp(s);
        double x[SMALLQP_N], y[SMALLQP_N], l[SMALLQP_M] = {0}, k[SMALLQP_M] = {0}, d[SMALLQP_N],
                                           e[SMALLQP_N];
        qpc_solver_report r = solve(QPC_SOLVER_INTERIOR_POINT, qp, x, l);
        qpc_solver_report a = solve(QPC_SOLVER_ACTIVE_SET, qp, y, k);
        qpc_error err = {0};
        qpc_certificate c;
        assert_ok(qpc_certify(qp, x, l, &arena, &c, &err), &err);
        for (int32_t i = 0; i < qp->m; i++) assert_true(qp->equality[i] || l[i] >= 0);
        if (r.outcome != QPC_OUTCOME_OPTIMAL) continue;
        solved++;
        // What it calls optimal is so by a certificate of other code.
        assert_true(c.stat <= 1e-9 && c.prim <= 1e-9 && c.comp <= 1e-12);
        if (a.outcome != QPC_OUTCOME_OPTIMAL) continue;
        double miss = 0;
        for (int32_t i = 0; i < qp->n; i++) d[i] = x[i] - y[i];
        qpc_linsys_multiply(qp->sys, d, e);
        for (int32_t i = 0; i < qp->n; i++) miss += d[i] * e[i];
        if (!(sqrt(miss) <= 1e-8 * c.scale))
            fail_msg("seed %d: %g apart", (int)s, sqrt(miss) / c.scale);
        agreed++;
    }
    print_message("%d solved, %d agreed\n", solved, agreed);
    if (solved < 390 || agreed < 390) fail_msg("%d solved, %d agreed", solved, agreed);
    qpc_linsys_fini(&small.sys);
    qpc_arena_fini(&arena);
}

static void scaling_and_order_of_rows_do_not_move_the_solution(void **state) {
    (void)state;
    qpb_problem p;
    instance_load("cable_050", &p);
    int32_t n = p.qp.n, m = p.qp.m;
    double *x = zeros(n), *y = zeros(n), *l = zeros(m);
    assert_int_equal(solve(QPC_SOLVER_INTERIOR_POINT, &p.qp, x, l).outcome, QPC_OUTCOME_OPTIMAL);
    for (int32_t i = 0; i < m; i++) {
        double f = i % 3 == 0 ? 1 : i % 3 == 1 ? 1e6 : 1e-6;
        for (int32_t k = p.row_start[i]; k < p.row_start[i + 1]; k++) p.value[k] *= f;
        p.c[i] *= f;
    }
    assert_int_equal(solve(QPC_SOLVER_INTERIOR_POINT, &p.qp, y, l).outcome, QPC_OUTCOME_OPTIMAL);
    assert_true(qpb_distance(&p, x, y) <= 1e-10);
    // Back to front.
    int32_t at = 0, *start = calloc((size_t)m + 1, sizeof *start),
            *column = calloc((size_t)p.row_start[m], sizeof *column);
    double *value = zeros(p.row_start[m]), *c = zeros(m);
    uint8_t *equality = calloc((size_t)m + 1, 1);
    for (int32_t i = 0; i < m; i++) {
        int32_t from = m - 1 - i;
        for (int32_t k = p.row_start[from]; k < p.row_start[from + 1]; k++, at++) {
            column[at] = p.column[k];
            value[at] = p.value[k];
        }
        start[i + 1] = at;
        c[i] = p.c[from];
        equality[i] = p.equality[from];
    }
    qpc_qp turned = p.qp;
    turned.row_start = start;
    turned.column = column;
    turned.value = value;
    turned.c = c;
    turned.equality = equality;
    assert_int_equal(solve(QPC_SOLVER_INTERIOR_POINT, &turned, y, l).outcome, QPC_OUTCOME_OPTIMAL);
    assert_true(qpb_distance(&p, x, y) <= 1e-10);
    free(start);
    free(column);
    free(value);
    free(c);
    free(equality);
    free(x);
    free(y);
    free(l);
    qpb_free(&p);
    qpc_arena_fini(&arena);
}

static void the_same_input_gives_the_same_bits(void **state) {
    (void)state;
    generated g;
    assert_true(wall_make(9, 8, 100, 0.05, &g));
    double *x = zeros(g.qp.n), *y = zeros(g.qp.n), *l = zeros(g.qp.m), *k = zeros(g.qp.m);
    qpc_solver_report a = solve(QPC_SOLVER_INTERIOR_POINT, &g.qp, x, l);
    qpc_arena_fini(&arena); // other memory
    qpc_solver_report b = solve(QPC_SOLVER_INTERIOR_POINT, &g.qp, y, k);
    assert_memory_equal(x, y, (size_t)g.qp.n * sizeof *x);
    assert_memory_equal(l, k, (size_t)g.qp.m * sizeof *l);
    assert_memory_equal(&a, &b, sizeof a);
    free(x);
    free(y);
    free(l);
    free(k);
    generated_free(&g);
    qpc_arena_fini(&arena);
}

static void limits_are_kept_and_said(void **state) {
    (void)state;
    generated g;
    assert_true(wall_make(9, 8, 100, 0.05, &g));
    double *x = zeros(g.qp.n), *l = zeros(g.qp.m);
    qpc_error err = {0};
    qpc_solver_options options = instance_options();
    const qpc_solver_id ids[] = {QPC_SOLVER_INTERIOR_POINT, QPC_SOLVER_AUTO};
    for (int32_t most = 1; most <= 8; most++) {
        for (int32_t e = 0; e < 2; e++) {
            qpc_solver_report r;
            options.max_iterations = most;
            memset(l, 0, (size_t)g.qp.m * sizeof *l);
            assert_ok(qpc_solve(ids[e], &g.qp, &options, &arena, x, l, &r, &err), &err);
            assert_int_equal(r.outcome, QPC_OUTCOME_ITERATION_LIMIT);
            assert_int_equal(r.iterations, most);
            for (int32_t i = 0; i < g.qp.m; i++) assert_true(l[i] >= 0);
        }
    }
    free(x);
    free(l);
    generated_free(&g);
    qpc_arena_fini(&arena);
}

static void auto_takes_the_engine_that_fits(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_certificate c;
    // Many rows that depend on each other, cold: interior-point, at once.
    generated g;
    assert_true(wall_make(24, 18, 100, 0.05, &g));
    double *x = zeros(g.qp.n), *l = zeros(g.qp.m);
    qpc_solver_report r = solve(QPC_SOLVER_AUTO, &g.qp, x, l);
    assert_int_equal(r.outcome, QPC_OUTCOME_OPTIMAL);
    assert_int_equal(r.engine, QPC_SOLVER_INTERIOR_POINT);
    assert_false(r.fell_back);
    assert_true(r.iterations <= 25);
    assert_ok(qpc_certify(&g.qp, x, l, &arena, &c, &err), &err);
    assert_true(c.stat <= 1e-9 && c.prim <= 1e-9 && c.dual <= 0 && c.comp <= 1e-12);
    // From its own multipliers: another one, and the same solution.
    double *y = zeros(g.qp.n), miss = 0;
    r = solve(QPC_SOLVER_AUTO, &g.qp, y, l);
    assert_int_equal(r.outcome, QPC_OUTCOME_OPTIMAL);
    for (int32_t i = 0; i < g.qp.n; i++) miss += (x[i] - y[i]) * (x[i] - y[i]) * g.sys.value[i];
    assert_true(sqrt(miss) <= 1e-8 * c.scale);
    free(x);
    free(l);
    free(y);
    // The same wall with a row that no other agrees with: proved by the engine that begins.
    int32_t last = g.qp.m - 1;
    for (int32_t k = g.row_start[last], from = g.row_start[last - 8]; k < g.row_start[last + 1];
         k++, from++) {
        g.column[k] = g.column[from];
        g.value[k] = -g.value[from];
    }
    g.c[last] = -g.c[last - 8] - 0.1;
    x = zeros(g.qp.n);
    l = zeros(g.qp.m);
    r = solve(QPC_SOLVER_AUTO, &g.qp, x, l);
    assert_int_equal(r.outcome, QPC_OUTCOME_INFEASIBLE);
    assert_true(r.engine == QPC_SOLVER_INTERIOR_POINT && !r.fell_back); // by its own multipliers
    bool named = false;
    for (int32_t i = 0; i < qpc_conflict_named(&r); i++) named |= r.conflict_row[i] == last;
    assert_true(named);
    free(x);
    free(l);
    generated_free(&g);
    // Few rows: active-set.
    qpb_problem p;
    char path[512];
    snprintf(path, sizeof path, "%s/qp/cloth_10.qpb", QPC_TEST_DATA);
    assert_true(qpb_load_as(QPC_LINSYS_SPARSE, path, &p));
    x = zeros(p.qp.n);
    l = zeros(p.qp.m);
    r = solve(QPC_SOLVER_AUTO, &p.qp, x, l);
    assert_int_equal(r.engine, QPC_SOLVER_ACTIVE_SET);
    assert_false(r.fell_back);
    free(x);
    free(l);
    qpb_free(&p);
    qpc_arena_fini(&arena);
}

static void auto_solves_every_instance_with_sparse_storage(void **state) {
    (void)state;
    for (int32_t k = 0; instance_names[k] != NULL; k++) {
        qpb_problem p;
        char path[512];
        snprintf(path, sizeof path, "%s/qp/%s.qpb", QPC_TEST_DATA, instance_names[k]);
        assert_true(qpb_load_as(QPC_LINSYS_SPARSE, path, &p));
        double *x = zeros(p.qp.n), *l = zeros(p.qp.m);
        for (int32_t turn = 0; turn < 2; turn++) { // cold, then from its own multipliers
            assert_int_equal(solve(QPC_SOLVER_AUTO, &p.qp, x, l).outcome, QPC_OUTCOME_OPTIMAL);
            instance_check(&p, x, l, &arena);
        }
        free(x);
        free(l);
        qpb_free(&p);
    }
    qpc_arena_fini(&arena);
}

static void nothing_leaks_when_memory_runs_out(void **state) {
    (void)state;
    const qpc_solver_id ids[] = {QPC_SOLVER_INTERIOR_POINT, QPC_SOLVER_AUTO};
    generated g;
    assert_true(wall_make(9, 8, 100, 0.05, &g));
    double *x = zeros(g.qp.n), *l = zeros(g.qp.m);
    for (int32_t e = 0; e < 2; e++) {
        int64_t live = qpc_mem_live_blocks();
        // Every allocation up to the first factor, then with growing strides: there are hundreds in
        // CHOLMOD.
        for (uint64_t nth = 1; nth < 100000; nth += nth < 40 ? 1 : nth / 8) {
            qpc_arena own = {0};
            qpc_error err = {0};
            qpc_solver_report r;
            qpc_solver_options options = instance_options();
            memset(l, 0, (size_t)g.qp.m * sizeof *l);
            x[0] = 123;
            qpc_mem_fail_at(nth, false);
            qpc_status st = qpc_solve(ids[e], &g.qp, &options, &own, x, l, &r, &err);
            bool failed = qpc_mem_failed();
            qpc_mem_fail_at(0, false);
            // CHOLMOD's analysis may do without what one of its attempts wanted.
            if (st == QPC_OK)
                assert_int_equal(r.outcome, QPC_OUTCOME_OPTIMAL);
            else
                assert_true(st == QPC_ERR_MEMORY && failed && x[0] == 123);
            qpc_arena_fini(&own);
            assert_int_equal(qpc_mem_live_blocks(), live);
            if (!failed) break;
        }
    }
    free(x);
    free(l);
    generated_free(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_instance_has_its_stored_solution),
        cmocka_unit_test(impacts_of_rigid_bodies_are_solved),
        cmocka_unit_test(rows_that_contradict_are_never_called_solved),
        cmocka_unit_test(an_empty_row_that_fails_is_named),
        cmocka_unit_test(agrees_with_active_set_on_random_rows),
        cmocka_unit_test(scaling_and_order_of_rows_do_not_move_the_solution),
        cmocka_unit_test(the_same_input_gives_the_same_bits),
        cmocka_unit_test(limits_are_kept_and_said),
        cmocka_unit_test(auto_takes_the_engine_that_fits),
        cmocka_unit_test(auto_solves_every_instance_with_sparse_storage),
        cmocka_unit_test(nothing_leaks_when_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
