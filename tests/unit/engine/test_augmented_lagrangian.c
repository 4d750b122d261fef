/// Semismooth Newton: the instance files alone and under `auto`, against active-set, warm,
/// repeated.
#include "tests/support/instances.h"

#include <stdlib.h>

static qpc_arena arena;

static qpc_solver_report solve(qpc_solver_id id, const qpc_qp *qp, double *x, double *l) {
    qpc_error err = {0};
    qpc_solver_report report;
    qpc_solver_options options = instance_options();
    assert_ok(qpc_solve(id, qp, &options, &arena, x, l, &report, &err), &err);
    return report;
}

typedef struct answers {
    qpb_problem p;
    double *x, *l, *y, *m;
} answers;

static void open(answers *a, const char *name) {
    instance_load(name, &a->p);
    a->x = calloc((size_t)a->p.qp.n + 1, sizeof *a->x);
    a->y = calloc((size_t)a->p.qp.n + 1, sizeof *a->x);
    a->l = calloc((size_t)a->p.qp.m + 1, sizeof *a->x);
    a->m = calloc((size_t)a->p.qp.m + 1, sizeof *a->x);
}

static void shut(answers *a) {
    free(a->x);
    free(a->y);
    free(a->l);
    free(a->m);
    qpb_free(&a->p);
}

// Cables, stacks and cloth, which the engine is for: no fallback allowed.
static const char *const mechanical[] = {"tiny_depeq",
                                         "tiny_dup3",
                                         "tiny_eqfix",
                                         "tiny_floor1",
                                         "tiny_free",
                                         "tiny_nearpar",
                                         "tiny_pyramid4",
                                         "tiny_ratio",
                                         "tiny_ring64",
                                         "tiny_weak",
                                         "cable_050",
                                         "cable_050_dup",
                                         "cable_050_near",
                                         "cable_100_10t",
                                         "cable_100_light",
                                         "cable_100_soft",
                                         "cable_3x40_cross3",
                                         "stack_03",
                                         "stack_10_16pt",
                                         "stack_10_1e4",
                                         "stack_10_static",
                                         "stack_30_1e4",
                                         "wall_6x4",
                                         "needles_30x8",
                                         "needles_60x10",
                                         "massspan_40",
                                         "seq_cable_00",
                                         "seq_cable_05",
                                         "seq_cable_09",
                                         "cloth_10",
                                         NULL};

static void mechanical_instances_are_solved_alone(void **state) {
    (void)state;
    for (int32_t k = 0; mechanical[k] != NULL; k++) {
        answers a;
        open(&a, mechanical[k]);
        qpc_solver_report cold = solve(QPC_SOLVER_AUGMENTED_LAGRANGIAN, &a.p.qp, a.x, a.l);
        if (cold.outcome != QPC_OUTCOME_OPTIMAL)
            fail_msg("%s: outcome %d after %d", a.p.name, cold.outcome, cold.iterations);
        instance_check(&a.p, a.x, a.l, &arena);
        solve(QPC_SOLVER_AUGMENTED_LAGRANGIAN, &a.p.qp, a.y, a.m);
        assert_memory_equal(a.x, a.y, (size_t)a.p.qp.n * sizeof *a.x);
        assert_memory_equal(a.l, a.m, (size_t)a.p.qp.m * sizeof *a.l);
        // Warm: one set, so at most a few Newton steps.
        qpc_solver_report warm = solve(QPC_SOLVER_AUGMENTED_LAGRANGIAN, &a.p.qp, a.y, a.m);
        instance_check(&a.p, a.y, a.m, &arena);
        if (warm.iterations > 10) fail_msg("%s: %d warm steps", a.p.name, warm.iterations);
        // Two engines, one answer.
        memset(a.m, 0, (size_t)a.p.qp.m * sizeof *a.m);
        solve(QPC_SOLVER_ACTIVE_SET, &a.p.qp, a.y, a.m);
        assert_true(qpb_distance(&a.p, a.x, a.y) <= 1e-8);
        shut(&a);
        qpc_arena_reset(&arena);
    }
}

static void a_draft_keeps_its_tolerances_in_fewer_steps(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_solver_options options = qpc_solver_options_default();
    options.residual_tolerance = options.stat_tolerance = 1e-3;
    int32_t steps[2] = {0};
    for (int32_t k = 0; mechanical[k] != NULL; k++) {
        answers a;
        open(&a, mechanical[k]);
        for (int draft = 0; draft < 2; draft++) {
            qpc_solver_report report;
            qpc_certificate certificate;
            options.draft = draft == 1;
            memset(a.m, 0, (size_t)a.p.qp.m * sizeof *a.m);
            assert_ok(qpc_solve(QPC_SOLVER_AUGMENTED_LAGRANGIAN, &a.p.qp, &options, &arena, a.y, a.m, &report, &err), &err);
            assert_int_equal(report.outcome, QPC_OUTCOME_OPTIMAL);
            assert_ok(qpc_certify(&a.p.qp, a.y, a.m, &arena, &certificate, &err), &err);
            assert_true(certificate.natural <= options.residual_tolerance && certificate.stat <= options.stat_tolerance);
            steps[draft] += report.iterations;
        }
        shut(&a);
        qpc_arena_reset(&arena);
    }
    assert_true(steps[1] < 0.9 * steps[0]);
}

static void auto_solves_every_instance(void **state) {
    (void)state;
    int32_t fell_back = 0;
    for (int32_t k = 0; instance_names[k] != NULL; k++) {
        answers a;
        open(&a, instance_names[k]);
        qpc_solver_report report = solve(QPC_SOLVER_AUTO, &a.p.qp, a.x, a.l);
        if (report.outcome != QPC_OUTCOME_OPTIMAL)
            fail_msg("%s: outcome %d", a.p.name, report.outcome);
        assert_int_not_equal(report.engine, QPC_SOLVER_AUTO);
        fell_back += report.fell_back;
        // Chains begin with augmented-lagrangian, anything else of this size with active-set.
        bool chain = a.p.sys.bandwidth >= 3;
        if (chain || report.engine != QPC_SOLVER_ACTIVE_SET)
            assert_true(report.fell_back == (report.engine == QPC_SOLVER_ACTIVE_SET));
        instance_check(&a.p, a.x, a.l, &arena);
        shut(&a);
        qpc_arena_reset(&arena);
    }
    assert_true(fell_back <= 10);
}

static void auto_proves_contradictions(void **state) {
    (void)state;
    for (int32_t k = 0; infeasible_names[k] != NULL; k++) {
        answers a;
        open(&a, infeasible_names[k]);
        // The tolerances of a step, so that a blown-up multiplier cannot pass for an answer.
        qpc_error err = {0};
        qpc_solver_report report;
        qpc_solver_options options = qpc_solver_options_default();
        assert_ok(qpc_solve(QPC_SOLVER_AUTO, &a.p.qp, &options, &arena, a.x, a.l, &report, &err),
                  &err);
        if (report.outcome != QPC_OUTCOME_INFEASIBLE)
            fail_msg("%s: outcome %d", a.p.name, report.outcome);
        assert_true(report.fell_back || a.p.sys.bandwidth < 3);
        assert_int_equal(report.engine, QPC_SOLVER_ACTIVE_SET);
        assert_true(report.conflict_count >= 2);
        assert_ok(qpc_solve(QPC_SOLVER_AUGMENTED_LAGRANGIAN, &a.p.qp, &options, &arena, a.x, a.l,
                            &report, &err),
                  &err);
        assert_int_equal(report.outcome, QPC_OUTCOME_ITERATION_LIMIT);
        shut(&a);
    }
}

static void a_step_limit_is_reported(void **state) {
    (void)state;
    answers a;
    qpc_error err = {0};
    qpc_solver_report report;
    qpc_solver_options options = instance_options();
    options.max_iterations = 2;
    open(&a, "cable_100_light");
    assert_ok(qpc_solve(QPC_SOLVER_AUGMENTED_LAGRANGIAN, &a.p.qp, &options, &arena, a.x, a.l,
                        &report, &err),
              &err);
    assert_int_equal(report.outcome, QPC_OUTCOME_ITERATION_LIMIT);
    assert_int_equal(report.iterations, 2);
    for (int32_t i = 0; i < a.p.qp.m; i++) assert_true(a.p.equality[i] || a.l[i] >= 0);
    shut(&a);
}

static void names_of_solvers_go_both_ways(void **state) {
    (void)state;
    qpc_solver_id id = QPC_SOLVER_COUNT;
    for (int32_t k = 0; k < QPC_SOLVER_COUNT; k++) {
        assert_true(qpc_solver_from_name(qpc_solver_name((qpc_solver_id)k), &id));
        assert_int_equal(id, k);
    }
    assert_false(qpc_solver_from_name("simplex", &id));
    assert_string_equal(qpc_solver_name(QPC_SOLVER_COUNT), "unknown");
}

/// A cable under 10 t, every second row with a force left out at first, as rows of hits are: the set of the answer is far from the last one then.
static void rows_of_hits_are_solved_from_afar(void **state) {
    (void)state;
    int32_t steps[2], with_force = 0;
    answers a;
    open(&a, "cable_100_10t");
    size_t n = (size_t)a.p.qp.n, m = (size_t)a.p.qp.m;
    double *c = malloc(m * sizeof *c), *warm = calloc(m, sizeof *warm);
    const double *asked = a.p.qp.c;
    memcpy(c, asked, m * sizeof *c);
    solve(QPC_SOLVER_AUGMENTED_LAGRANGIAN, &a.p.qp, a.x, a.l);
    for (size_t i = 0; i < m; i++)
        if (a.l[i] > 0 && with_force++ % 2 == 0) c[i] = 1e6;
    a.p.qp.c = c;
    solve(QPC_SOLVER_AUGMENTED_LAGRANGIAN, &a.p.qp, a.y, warm);
    a.p.qp.c = asked;
    for (int hits = 0; hits < 2; hits++) {
        qpc_error err = {0};
        qpc_solver_report report;
        qpc_solver_options options = instance_options();
        options.hits = hits;
        memcpy(a.m, warm, m * sizeof *c);
        assert_ok(qpc_solve(QPC_SOLVER_AUGMENTED_LAGRANGIAN, &a.p.qp, &options, &arena, a.y, a.m, &report, &err), &err);
        assert_int_equal(report.outcome, QPC_OUTCOME_OPTIMAL);
        for (size_t i = 0; i < n; i++) assert_near(a.y[i], a.x[i], 1e-7);
        steps[hits] = report.iterations;
    }
    assert_true(with_force > 40);
    assert_true(steps[1] + 6 <= steps[0]); // half of those that the last set is given
    free(c);
    free(warm);
    qpc_arena_reset(&arena);
    shut(&a);
}

static int teardown(void **state) {
    (void)state;
    qpc_arena_fini(&arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mechanical_instances_are_solved_alone),
        cmocka_unit_test(a_draft_keeps_its_tolerances_in_fewer_steps),
        cmocka_unit_test(auto_solves_every_instance),
        cmocka_unit_test(auto_proves_contradictions),
        cmocka_unit_test(a_step_limit_is_reported),
        cmocka_unit_test(rows_of_hits_are_solved_from_afar),
        cmocka_unit_test(names_of_solvers_go_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
