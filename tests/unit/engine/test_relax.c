/// Relaxation of rows that contradict: the stored least-norm s, levels, and solving after it.
#include "tests/support/instances.h"
#include "tests/support/smallqp.h"

#include "tests/support/faults.h"

#include <stdlib.h>

static qpc_arena arena;
static smallqp small;

static void stored_relaxations_are_found(void **state) {
    (void)state;
    for (int32_t k = 0; infeasible_names[k] != NULL; k++) {
        qpb_problem p;
        qpc_error err = {0};
        instance_load(infeasible_names[k], &p);
        size_t n = (size_t)p.qp.n, m = (size_t)p.qp.m;
        assert_non_null(p.relax);
        double *c = calloc(m, sizeof *c), *x = calloc(n, sizeof *x), *l = calloc(m, sizeof *l);
        double largest = 0, most = 0;
        memcpy(c, p.c, m * sizeof *c);
        assert_ok(qpc_relax(&p.qp, 1, QPC_RELAX_EXACT, &arena, c, &largest, &err), &err);
        for (size_t i = 0; i < m; i++)
            if (fabs(p.relax[i]) > most) most = fabs(p.relax[i]);
        for (size_t i = 0; i < m; i++) {
            double s = c[i] - p.c[i];
            if (!(fabs(s - p.relax[i]) <= 1e-7 * most))
                fail_msg("%s: s[%zu] is %.12g, want %.12g", p.name, i, s, p.relax[i]);
        }
        assert_near(largest, most, 1e-7 * most);
        // What is left can be solved.
        qpc_qp relaxed = p.qp;
        relaxed.c = c;
        const qpc_solver_id ids[] = {QPC_SOLVER_ACTIVE_SET, QPC_SOLVER_AUTO};
        for (int32_t i = 0; i < 2; i++) {
            qpc_solver_report report;
            qpc_solver_options options = qpc_solver_options_default();
            memset(l, 0, m * sizeof *l);
            assert_ok(qpc_solve(ids[i], &relaxed, &options, &arena, x, l, &report, &err), &err);
            if (report.outcome != QPC_OUTCOME_OPTIMAL)
                fail_msg("%s relaxed: outcome %d of %s", p.name, report.outcome,
                         qpc_solver_name(report.engine));
        }
        free(c);
        free(x);
        free(l);
        qpb_free(&p);
    }
}

/// A chain of n particles, each at most 1 from the one before, its end at n + 2 or more: two too much, shared alike by the
/// n + 1 rows. Many rows go another way than few.
static void a_long_chain_gives_way_evenly(void **state) {
    (void)state;
    static const int32_t lengths[] = {40, 700};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        int32_t n = lengths[k], m = n + 1, at = 0;
        qpc_error err = {0};
        qpc_linsys K = {0};
        assert_ok(qpc_linsys_resize(&K, n, 0, &err), &err);
        for (int32_t i = 0; i < n; i++) qpc_linsys_add(&K, i, i, 1 + i % 3);
        assert_ok(qpc_linsys_factor(&K, &err), &err);
        int32_t *start = calloc((size_t)m + 1, sizeof *start), *column = calloc(2 * (size_t)m, sizeof *column);
        double *value = calloc(2 * (size_t)m, sizeof *value), *c = calloc((size_t)m, sizeof *c),
               *was = calloc((size_t)m, sizeof *was), *b = calloc((size_t)n, sizeof *b), largest = 0;
        uint8_t *none = calloc((size_t)m, 1), *priority = malloc((size_t)m);
        uint64_t *key = calloc((size_t)m, sizeof *key);
        for (int32_t i = 0; i < m; i++) {
            if (i > 0) column[at] = i - 1, value[at++] = -1;
            if (i < n) column[at] = i, value[at++] = 1;
            c[i] = was[i] = i < n ? 1 : -(n + 2);
            key[i] = (uint64_t)i;
            priority[i] = 1;
            start[i + 1] = at;
        }
        const qpc_qp qp = {.n = n, .m = m, .sys = &K, .b = b, .row_start = start, .column = column, .value = value,
                           .c = c, .equality = none, .priority = priority, .key = key};
        assert_ok(qpc_relax(&qp, 1, QPC_RELAX_EXACT, &arena, c, &largest, &err), &err);
        for (int32_t i = 0; i < m; i++) assert_near((c[i] - was[i]) * m / 2, 1, 1e-6);
        assert_near(largest * m / 2, 1, 1e-6);
        // A few steps of it make the rows feasible as well.
        memcpy(c, was, (size_t)m * sizeof *c);
        assert_ok(qpc_relax(&qp, 1, 3, &arena, c, &largest, &err), &err);
        double room = 0;
        for (int32_t i = 0; i < m; i++) room += c[i];
        assert_true(room >= 0);
        qpc_linsys_fini(&K);
        free(start), free(column), free(value), free(c), free(was), free(b), free(none), free(priority), free(key);
    }
    qpc_arena_fini(&arena);
}

static void squeeze(void) {
    // x <= 0 (strain, 2), -x <= -1 (contact, 1), y = 0 (fixed, 0), and a copy of the strain row
    qpc_linsys sys = small.sys;
    memset(&small, 0, sizeof small);
    small.sys = sys;
    small.n = 2;
    small.m = 4;
    small.K[0][0] = 2;
    small.K[1][1] = 1;
    small.J[0][0] = 1;
    small.priority[0] = 2;
    small.J[1][0] = -1;
    small.c[1] = -1;
    small.priority[1] = 1;
    small.J[2][1] = 1;
    small.equality[2] = 1;
    small.J[3][0] = 1;
    small.priority[3] = 2;
    smallqp_build(&small);
}

static void only_rows_of_the_level_give_way(void **state) {
    (void)state;
    qpc_error err = {0};
    double c[4], largest;
    squeeze();
    memcpy(c, small.c, sizeof c);
    assert_ok(qpc_relax(&small.qp, 2, QPC_RELAX_EXACT, &arena, c, &largest, &err), &err);
    assert_near(c[0], 1, 1e-8);
    assert_near(c[3], 1, 1e-8);
    assert_near(c[1], -1, 0);
    assert_near(c[2], 0, 0);
    assert_near(largest, 1, 1e-8);
    // Contacts too: min s0^2 + s1^2 + s3^2 with x <= s0, x <= s3, x >= 1 - s1: x = 1/3
    memcpy(c, small.c, sizeof c);
    assert_ok(qpc_relax(&small.qp, 1, QPC_RELAX_EXACT, &arena, c, &largest, &err), &err);
    assert_near(c[0], 1.0 / 3, 1e-8);
    assert_near(c[3], 1.0 / 3, 1e-8);
    assert_near(c[1], -1.0 / 3, 1e-8);
    assert_near(largest, 2.0 / 3, 1e-8);
}

static void what_the_level_cannot_mend_is_refused(void **state) {
    (void)state;
    qpc_error err = {0};
    double c[4], largest = 77;
    squeeze();
    memcpy(c, small.c, sizeof c);
    assert_fails(qpc_relax(&small.qp, 3, QPC_RELAX_EXACT, &arena, c, &largest, &err), QPC_ERR_STATE, &err,
                 "priority 3");
    small.priority[1] = 0; // now the strain rows could, but at level 2 only
    small.priority[0] = small.priority[3] = 0;
    small.priority[2] = 2; // an idle row is there to relax, and does not help
    assert_fails(qpc_relax(&small.qp, 2, QPC_RELAX_EXACT, &arena, c, &largest, &err), QPC_ERR_STATE, &err,
                 "contradict");
    assert_memory_equal(c, small.c, sizeof c);
    assert_near(largest, 77, 0);
}

static void feasible_rows_stay_as_they_are(void **state) {
    (void)state;
    qpc_error err = {0};
    double c[4], largest;
    squeeze();
    small.c[1] = 1; // -x <= 1
    memcpy(c, small.c, sizeof c);
    assert_ok(qpc_relax(&small.qp, 1, QPC_RELAX_EXACT, &arena, c, &largest, &err), &err);
    assert_near(largest, 0, 1e-12);
    for (int32_t i = 0; i < 4; i++) assert_near(c[i], small.c[i], 1e-12);
}

static void an_empty_row_gives_way_by_its_bound(void **state) {
    (void)state;
    qpc_error err = {0};
    double c[4], largest;
    squeeze();
    memset(small.J, 0, sizeof small.J);
    small.J[2][1] = 1;
    small.J[0][0] = 1;
    small.c[1] = -0.25; // 0 <= -0.25
    smallqp_build(&small);
    memcpy(c, small.c, sizeof c);
    assert_ok(qpc_relax(&small.qp, 1, QPC_RELAX_EXACT, &arena, c, &largest, &err), &err);
    assert_near(c[1], 0, 1e-9);
    assert_near(largest, 0.25, 1e-9);
}

static void out_of_memory_leaves_c(void **state) {
    (void)state;
    squeeze();
    QPC_FAULTS(f) {
        qpc_arena own = {0};
        qpc_error err = {0};
        double c[4], largest;
        memcpy(c, small.c, sizeof c);
        if (!qpc_faults_ended(&f, qpc_relax(&small.qp, 1, QPC_RELAX_EXACT, &own, c, &largest, &err)))
            assert_memory_equal(c, small.c, sizeof c);
        qpc_arena_fini(&own);
    }
}

static int teardown(void **state) {
    (void)state;
    qpc_linsys_fini(&small.sys);
    qpc_arena_fini(&arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_relaxations_are_found),
        cmocka_unit_test(a_long_chain_gives_way_evenly),
        cmocka_unit_test(only_rows_of_the_level_give_way),
        cmocka_unit_test(what_the_level_cannot_mend_is_refused),
        cmocka_unit_test(feasible_rows_stay_as_they_are),
        cmocka_unit_test(an_empty_row_gives_way_by_its_bound),
        cmocka_unit_test(out_of_memory_leaves_c),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
