/// Condensation of a chain onto the nodes that rows touch, against the whole system.
#include "engine/solver/certificate.h"
#include "engine/solver/condense.h"
#include "engine/solver/solver.h"
#include "tests/support/check.h"

#define CHAIN_NODES 40
#define CHAIN_ROWS 60
#define CHAIN_ENTRIES 3
#define CHAIN_SEED 7
#include "tests/support/chain.h"

/// Springs of very different stiffness along a chain; `broken`: node with no spring to the next one.
static void make_chain(chain *q, int32_t broken) {
    qpc_error err = {0};
    assert_ok(qpc_linsys_resize(&q->K, N, 5, &err), &err);
    for (int32_t i = 0; i < N; i++) qpc_linsys_add(&q->K, i, i, 0.5 + 0.4 * uniform());
    for (int32_t i = 0; i + 1 < NODES; i++) {
        double n[3] = {uniform(), uniform(), uniform()}, k = pow(10, 3 * uniform());
        if (i == broken) continue;
        for (int32_t a = 0; a < 3; a++)
            for (int32_t c = 0; c < 3; c++) {
                double h = k * (n[a] * n[c] + (a == c ? 0.1 : 0));
                if (c <= a) {
                    qpc_linsys_add(&q->K, 3 * i + a, 3 * i + c, h);
                    qpc_linsys_add(&q->K, 3 * i + 3 + a, 3 * i + 3 + c, h);
                }
                qpc_linsys_add(&q->K, 3 * i + 3 + a, 3 * i + c, -h);
            }
    }
    for (int32_t i = 0; i < N; i++) q->b[i] = uniform();
    chain_point(q, 0);
}

/// One row on each of these nodes (-1 ends the list), held below c.
static void put_rows(chain *q, const int32_t *nodes, double c) {
    int32_t m = 0, at = 0;
    for (; nodes[m] >= 0; m++) {
        for (int32_t a = 0; a < 3; a++) {
            q->column[at] = 3 * nodes[m] + a;
            q->value[at++] = uniform();
        }
        chain_close_row(q, m, at, c, false);
    }
    q->qp.m = m;
}

static const int32_t SETS[][ROWS] = {
    {0, -1},
    {NODES - 1, -1},
    {17, -1},
    {0, NODES - 1, -1},
    {5, 6, 7, -1},
    {3, 3, 11, 12, 20, 39, -1},
    {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, -1},
};
enum { SET_COUNT = sizeof SETS / sizeof SETS[0] };

static void the_condensed_system_has_the_solution_of_the_whole(void **state) {
    (void)state;
    static chain q;
    qpc_arena arena = {0};
    for (int32_t broken = -1; broken < NODES; broken += 9) {
        make_chain(&q, broken);
        for (int32_t s = 0; s < SET_COUNT; s++) {
            qpc_error err = {0};
            qpc_condensed less;
            bool done = false;
            double whole[N], kept[N], back[N];
            put_rows(&q, SETS[s], 1);
            assert_ok(qpc_condense(&q.qp, &arena, &less, &done, &err), &err);
            assert_true(done);
            assert_ok(qpc_linsys_factor(&q.K, &err), &err);
            qpc_linsys_solve(&q.K, q.b, whole);
            qpc_linsys_solve(&less.sys, less.qp.b, kept);
            qpc_condensed_expand(&less, kept, back);
            for (int32_t i = 0; i < N; i++) assert_near(back[i], whole[i], 1e-9 * (1 + fabs(whole[i])));
            // With a load J'l on the kept nodes as well: K_c is the whole's compliance there.
            double load[N] = {0}, part[N] = {0};
            for (int32_t i = 0; i < q.qp.m; i++)
                for (int32_t k = q.row_start[i]; k < q.row_start[i + 1]; k++) {
                    load[q.column[k]] += (i + 1) * q.value[k];
                    part[less.qp.column[k]] += (i + 1) * q.value[k];
                }
            for (int32_t i = 0; i < N; i++) load[i] += q.b[i];
            for (int32_t i = 0; i < less.qp.n; i++) part[i] += less.qp.b[i];
            qpc_linsys_solve(&q.K, load, whole);
            qpc_linsys_solve(&less.sys, part, kept);
            qpc_condensed_expand(&less, kept, back);
            for (int32_t i = 0; i < N; i++) assert_near(back[i], whole[i], 1e-9 * (1 + fabs(whole[i])));
            qpc_arena_reset(&arena);
        }
    }
    qpc_linsys_fini(&q.K);
    qpc_arena_fini(&arena);
}

static void every_engine_certifies_against_the_whole(void **state) {
    (void)state;
    static chain q;
    qpc_arena arena = {0};
    static const qpc_solver_id ids[] = {QPC_SOLVER_AUTO, QPC_SOLVER_AUGMENTED_LAGRANGIAN, QPC_SOLVER_ACTIVE_SET};
    make_chain(&q, 21);
    for (int32_t s = 0; s < SET_COUNT; s++) {
        put_rows(&q, SETS[s], -0.3); // K^-1 b misses them
        for (size_t e = 0; e < sizeof ids / sizeof ids[0]; e++) {
            qpc_error err = {0};
            qpc_solver_options options = qpc_solver_options_default();
            qpc_solver_report report;
            qpc_certificate certificate;
            double dv[N], lambda[ROWS] = {0};
            options.exact = true;
            q.K.factored = false;
            assert_ok(qpc_solve(ids[e], &q.qp, &options, &arena, dv, lambda, &report, &err), &err);
            assert_int_equal(report.outcome, QPC_OUTCOME_OPTIMAL);
            assert_ok(qpc_certify(&q.qp, dv, lambda, &arena, &certificate, &err), &err);
            if (!(certificate.stat <= 1e-9 && certificate.prim <= 1e-9 && certificate.comp <= 1e-12 && certificate.dual <= 0))
                fail_msg("set %d, %s: stat %g prim %g comp %g", s, qpc_solver_name(ids[e]), certificate.stat,
                         certificate.prim, certificate.comp);
            qpc_arena_reset(&arena);
        }
    }
    qpc_linsys_fini(&q.K);
    qpc_arena_fini(&arena);
}

static void what_would_gain_little_is_left_alone(void **state) {
    (void)state;
    static chain q;
    qpc_arena arena = {0};
    qpc_error err = {0};
    qpc_condensed less;
    bool done = true;
    int32_t many[NODES];
    make_chain(&q, -1);
    for (int32_t i = 0; i < NODES; i++) many[i] = i + 1 < NODES ? i : -1;
    put_rows(&q, many, 1);
    assert_ok(qpc_condense(&q.qp, &arena, &less, &done, &err), &err);
    assert_false(done);
    q.qp.m = 0;
    done = true;
    assert_ok(qpc_condense(&q.qp, &arena, &less, &done, &err), &err);
    assert_false(done);
    qpc_linsys_fini(&q.K);
    qpc_arena_fini(&arena);
}

static void a_matrix_that_is_not_positive_definite_is_refused(void **state) {
    (void)state;
    static chain q;
    qpc_arena arena = {0};
    const int32_t nodes[] = {2, 30, -1};
    const double bad[] = {-1, HUGE_VAL, (double)NAN};
    for (int32_t at = 0; at < 2; at++) // an eliminated node, a kept one
        for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
            qpc_error err = {0};
            qpc_condensed less;
            bool done = false;
            int32_t row = 3 * (at == 0 ? 15 : 30) + 1;
            make_chain(&q, -1);
            put_rows(&q, nodes, 1);
            *qpc_linsys_entry(&q.K, row, row) = bad[k];
            assert_int_equal(qpc_condense(&q.qp, &arena, &less, &done, &err), QPC_ERR_NUMERIC);
            assert_false(done);
            if (at == 0) assert_non_null(strstr(err.message, "node 15"));
            qpc_arena_reset(&arena);
        }
    qpc_linsys_fini(&q.K);
    qpc_arena_fini(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_condensed_system_has_the_solution_of_the_whole),
        cmocka_unit_test(every_engine_certifies_against_the_whole),
        cmocka_unit_test(what_would_gain_little_is_left_alone),
        cmocka_unit_test(a_matrix_that_is_not_positive_definite_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
