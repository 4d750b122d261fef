/// augmented-lagrangian where K has any pattern: the instance files by a sparse factor and by conjugate
/// gradients, a falling sheet, the certificate without a factor.
#include "engine/dynamics/blocks.h"
#include "tests/support/drape.h"
#include "engine/solver/work.h"
#include "tests/support/instances.h"

#include "tests/support/faults.h"

#include <stdlib.h>

static qpc_arena arena;

static const char *const sheets[] = {"cloth_10", "cloth_16", "cloth_24", "cloth_3x10_heavy", "cloth_2x16_1e4", NULL};

static void load(const char *name, qpb_problem *p) {
    char path[512];
    snprintf(path, sizeof path, "%s/qp/%s.qpb", QPC_TEST_DATA, name);
    if (!qpb_load_as(QPC_LINSYS_SPARSE, path, p)) fail_msg("cannot load %s", path);
}

/// From now on a factor is the only way.
static void forbid_cg(qpc_linsys *sys) {
    qpc_blocks_destroy(sys->blocks);
    sys->blocks = NULL;
    assert_int_equal(qpc_linsys_factor(sys, NULL), QPC_OK);
}

static uint64_t cold_factorizations, warm_factorizations; // of all instances checked so far

/// Cold, once more with the same bits, and warm. At the last digits (rand_200_1e8) a warm start can take as long as a cold one,
/// and how long depends on the BLAS, so that they are compared over all instances.
static qpc_solver_report check_instance(qpb_problem *p) {
    qpc_error err = {0};
    qpc_solver_report cold, again, warm;
    qpc_solver_options options = instance_options();
    size_t n = (size_t)p->qp.n, m = (size_t)p->qp.m;
    double *x = calloc(n + 1, sizeof *x), *y = calloc(n + 1, sizeof *y), *l = calloc(m + 1, sizeof *l),
           *k = calloc(m + 1, sizeof *k);
    qpc_solver_id id = QPC_SOLVER_AUGMENTED_LAGRANGIAN;
    p->sys.factored = false;
    assert_ok(qpc_solve(id, &p->qp, &options, &arena, x, l, &cold, &err), &err);
    instance_check(p, x, l, &arena);
    p->sys.factored = false; // it may have come on the way
    assert_ok(qpc_solve(id, &p->qp, &options, &arena, y, k, &again, &err), &err);
    assert_memory_equal(x, y, n * sizeof *x);
    assert_memory_equal(l, k, m * sizeof *l);
    assert_int_equal(cold.iterations, again.iterations);
    assert_int_equal(cold.cg_steps, again.cg_steps);
    assert_ok(qpc_solve(id, &p->qp, &options, &arena, y, k, &warm, &err), &err);
    instance_check(p, y, k, &arena);
    cold_factorizations += cold.factorizations;
    warm_factorizations += warm.factorizations;
    free(x);
    free(y);
    free(l);
    free(k);
    qpc_arena_reset(&arena);
    return cold;
}

static void every_instance_is_solved_with_a_sparse_matrix(void **state) {
    (void)state;
    for (int32_t k = 0; instance_names[k] != NULL; k++) {
        qpb_problem p;
        load(instance_names[k], &p);
        check_instance(&p);
        qpb_free(&p);
    }
    assert_true(cold_factorizations > 100);
    assert_true(3 * warm_factorizations < cold_factorizations);
}

static void sheets_are_solved_by_either_way(void **state) {
    (void)state;
    int32_t went = 0;
    for (int32_t k = 0; sheets[k] != NULL; k++) {
        qpb_problem p;
        load(sheets[k], &p);
        assert_non_null(p.sys.blocks);
        qpc_solver_report by_cg = check_instance(&p);
        print_message("%s: %d steps of conjugate gradients\n", sheets[k], by_cg.cg_steps);
        if (by_cg.cg_steps == 0) { // a small factor costs less
            assert_false(qpc_alm_pcg_pays(&p.sys));
            qpb_free(&p);
            continue;
        }
        went++;
        assert_int_equal(by_cg.factorizations, 0);
        forbid_cg(&p.sys);
        qpc_solver_report by_factor = check_instance(&p);
        assert_int_equal(by_factor.cg_steps, 0);
        assert_true(by_factor.factorizations > 0);
        qpb_free(&p);
    }
    assert_true(went >= 1);
}

/// Two sheets with one still 1e4 or more times heavier: by conjugate gradients, and a factor if they do not get there.
static void sheets_of_very_unequal_mass_are_solved(void **state) {
    (void)state;
    qpc_error err = {0};
    for (double more = 1e4; more <= 1e8; more *= 1e4) {
        qpb_problem p;
        qpc_solver_report report;
        qpc_solver_options options = instance_options();
        load("cloth_2x16_1e4", &p);
        for (int32_t j = p.qp.n / 2; j < p.qp.n; j++) {
            for (int32_t k = p.sys.start[j]; k < p.sys.start[j + 1]; k++) p.sys.value[k] *= more;
            p.b[j] *= more;
        }
        qpc_linsys_prepare(&p.sys);
        p.sys.prepared = p.sys.factored = false;
        double *x = calloc((size_t)p.qp.n, sizeof *x), *l = calloc((size_t)p.qp.m, sizeof *l);
        assert_true(qpc_alm_pcg_pays(&p.sys));
        assert_ok(qpc_solve(QPC_SOLVER_AUGMENTED_LAGRANGIAN, &p.qp, &options, &arena, x, l, &report, &err), &err);
        assert_true(report.cg_steps > 0);
        qpc_certificate c;
        assert_ok(qpc_certify(&p.qp, x, l, &arena, &c, &err), &err);
        assert_int_equal(report.outcome, QPC_OUTCOME_OPTIMAL);
        assert_true(c.stat <= 1e-9 && c.prim <= 1e-9);
        free(x);
        free(l);
        qpb_free(&p);
        qpc_arena_reset(&arena);
    }
}

enum { SIDE = 24, STEPS = 45 };

/// Every step of a falling sheet: conjugate gradients, a factor, and active-set now and then.
static void a_falling_sheet_has_one_answer(void **state) {
    (void)state;
    static double dv[3 * SIDE * SIDE], other[3 * SIDE * SIDE], l[2 * SIDE * SIDE];
    drape d;
    assert_true(drape_init(&d, SIDE, 300));
    assert_non_null(d.sys.blocks);
    qpc_solver_options options = qpc_solver_options_default();
    int64_t cold_steps = 0, warm_steps = 0, most_active = 0;
    for (int32_t step = 0; step < STEPS; step++) {
        qpc_error err = {0};
        qpc_solver_report report;
        qpc_certificate c;
        drape_assemble(&d);
        memset(l, 0, sizeof l);
        assert_ok(qpc_solve(QPC_SOLVER_AUGMENTED_LAGRANGIAN, &d.qp, &options, &arena, other, l, &report, &err), &err);
        cold_steps += report.cg_steps;
        assert_int_equal(report.outcome, QPC_OUTCOME_OPTIMAL);
        assert_ok(qpc_solve(QPC_SOLVER_AUGMENTED_LAGRANGIAN, &d.qp, &options, &arena, dv, d.lambda, &report, &err),
                  &err);
        warm_steps += report.cg_steps;
        assert_int_equal(report.outcome, QPC_OUTCOME_OPTIMAL);
        assert_int_equal(report.factorizations, 0);
        assert_false(d.sys.factored); // nobody needed one, the certificate neither
        assert_ok(qpc_certify(&d.qp, dv, d.lambda, &arena, &c, &err), &err);
        assert_int_equal(c.by, QPC_BY_ESTIMATE);
        assert_false(d.sys.factored);
        assert_true(c.natural <= options.residual_tolerance && c.stat <= options.stat_tolerance);
        if (report.active > most_active) most_active = report.active;
        double far = 0;
        for (int32_t i = 0; i < d.n; i++) far = fmax(far, fabs(dv[i] - other[i]));
        assert_true(far <= 1e-4); // m/s: sqrt(comp) = 1e-5 of speeds of 1 m/s and less
        if (step % 15 == 14) {
            memset(l, 0, sizeof l);
            assert_ok(qpc_linsys_factor(&d.sys, &err), &err);
            assert_ok(qpc_solve(QPC_SOLVER_ACTIVE_SET, &d.qp, &options, &arena, other, l, &report, &err), &err);
            for (int32_t i = 0; i < d.n; i++) assert_near(dv[i], other[i], 1e-4);
        }
        drape_advance(&d, dv);
        qpc_arena_reset(&arena);
    }
    assert_true(most_active > 100);
    assert_true(warm_steps < cold_steps);
    drape_fini(&d);
}

enum { COPIES = 4, ROWS_MOST = COPIES * 2 * SIDE * SIDE, ENTRIES_MOST = 6 * ROWS_MOST };
typedef struct many_rows {
    int32_t start[ROWS_MOST + 1], column[ENTRIES_MOST];
    double value[ENTRIES_MOST], c[ROWS_MOST];
    uint8_t equality[ROWS_MOST], priority[ROWS_MOST];
    uint64_t key[ROWS_MOST];
} many_rows;

/// Every row of the sheet four times, each bent a little, so that all of them nearly depend on each other.
static qpc_qp with_copies(const drape *d, many_rows *r) {
    int32_t m = 0, at = 0;
    for (int32_t i = 0; i < d->m; i++)
        for (int32_t k = 0; k < COPIES; k++) {
            for (int32_t e = d->row_start[i]; e < d->row_start[i + 1]; e++, at++) {
                r->column[at] = d->column[e];
                r->value[at] = d->value[e] + 3e-3 * sin(7.0 * e + 3 * k);
            }
            r->c[m] = d->c[i];
            r->key[m] = COPIES * d->key[i] + (uint64_t)k;
            r->priority[m] = 1;
            r->start[++m] = at;
        }
    qpc_qp qp = d->qp;
    qp.m = m;
    qp.row_start = r->start;
    qp.column = r->column;
    qp.value = r->value;
    qp.c = r->c;
    qp.equality = r->equality;
    qp.priority = r->priority;
    qp.key = r->key;
    return qp;
}

/// Multipliers of such rows are sorted out for long, and whoever asks for little of the rows does not ask for that (T59).
static void rows_that_are_met_are_not_sorted_out_further(void **state) {
    (void)state;
    static double dv[3 * SIDE * SIDE], lambda[ROWS_MOST];
    static many_rows rows;
    drape d;
    const double looser[] = {1e4, 1e5};
    int64_t steps[2] = {0, 0};
    assert_true(drape_init(&d, SIDE, 300));
    for (int32_t step = 0; step < STEPS; step++) {
        qpc_error err = {0};
        qpc_solver_report report;
        qpc_certificate c;
        drape_assemble(&d);
        qpc_qp many = with_copies(&d, &rows);
        for (int32_t k = 0; k < 2 && step % 10 == 9; k++) {
            qpc_solver_options options = qpc_solver_options_default();
            options.residual_tolerance *= looser[k];
            memset(lambda, 0, sizeof lambda);
            assert_ok(qpc_solve(QPC_SOLVER_AUGMENTED_LAGRANGIAN, &many, &options, &arena, dv, lambda, &report, &err), &err);
            assert_int_equal(report.outcome, QPC_OUTCOME_OPTIMAL);
            assert_int_equal(report.factorizations, 0);
            assert_ok(qpc_certify(&many, dv, lambda, &arena, &c, &err), &err);
            assert_true(c.natural <= options.residual_tolerance && c.stat <= options.stat_tolerance);
            steps[k] += report.cg_steps;
        }
        qpc_solver_options options = qpc_solver_options_default();
        assert_ok(qpc_solve(QPC_SOLVER_AUGMENTED_LAGRANGIAN, &d.qp, &options, &arena, dv, d.lambda, &report, &err), &err);
        drape_advance(&d, dv);
        qpc_arena_reset(&arena);
    }
    print_message("%lld and %lld steps of conjugate gradients\n", (long long)steps[0], (long long)steps[1]);
    assert_true(2 * steps[1] < steps[0]);
    drape_fini(&d);
}

/// With a factor, with the bound by the masses, and estimated: stat of an answer that is a little off.
static void the_certificate_says_what_it_stands_on(void **state) {
    (void)state;
    static double dv[3 * SIDE * SIDE], mass[3 * SIDE * SIDE];
    drape d;
    qpc_error err = {0};
    qpc_solver_options options = qpc_solver_options_default();
    qpc_solver_report report;
    assert_true(drape_init(&d, SIDE, 300));
    for (int32_t i = 0; i < d.n; i++) mass[i] = d.mass;
    for (int32_t step = 0; step < 8; step++) {
        drape_assemble(&d);
        assert_ok(qpc_solve(QPC_SOLVER_AUGMENTED_LAGRANGIAN, &d.qp, &options, &arena, dv, d.lambda, &report, &err),
                  &err);
        const double nudge[] = {0, 1e-6, 1e-3};
        for (int32_t k = 0; k < 3; k++) {
            qpc_certificate exact, bound, estimate;
            for (int32_t i = 0; i < d.n; i += 5) dv[i] += nudge[k] * (i % 3 - 1);
            d.sys.factored = false;
            assert_ok(qpc_certify(&d.qp, dv, d.lambda, &arena, &estimate, &err), &err);
            d.sys.least = mass;
            assert_ok(qpc_certify(&d.qp, dv, d.lambda, &arena, &bound, &err), &err);
            d.sys.least = NULL;
            assert_ok(qpc_linsys_factor(&d.sys, &err), &err);
            assert_ok(qpc_certify(&d.qp, dv, d.lambda, &arena, &exact, &err), &err);
            assert_int_equal(estimate.by, QPC_BY_ESTIMATE);
            assert_int_equal(bound.by, QPC_BY_BOUND);
            assert_int_equal(exact.by, QPC_BY_FACTOR);
            // S may be some percent too small.
            assert_true(bound.stat * bound.scale >= exact.stat * exact.scale * (1 - 1e-9));
            assert_true(bound.stat <= 1e-8 || bound.stat * bound.scale <= 1.1 * exact.stat * exact.scale);
            assert_near(estimate.stat * estimate.scale, exact.stat * exact.scale, 1e-2 * exact.stat * exact.scale);
            assert_true(bound.scale <= exact.scale * (1 + 1e-2) && bound.scale >= 0.9 * exact.scale);
            assert_near(bound.natural, exact.natural, 1e-12);
            d.sys.factored = false;
        }
        drape_advance(&d, dv);
        qpc_arena_reset(&arena);
    }
    drape_fini(&d);
}

static void a_matrix_solves_alike_with_and_without_its_factor(void **state) {
    (void)state;
    static double x[3 * SIDE * SIDE], y[3 * SIDE * SIDE];
    drape d;
    assert_true(drape_init(&d, SIDE, 300));
    drape_assemble(&d);
    for (int32_t i = 0; i < d.n; i++) d.b[i] = (i * 7) % 13 - 6;
    qpc_linsys_prepare(&d.sys);
    qpc_linsys_solve(&d.sys, d.b, x);
    assert_true(d.sys.cg_steps > 10);
    assert_int_equal(d.sys.factorizations, 0);
    uint64_t steps = d.sys.cg_steps;
    assert_int_equal(qpc_linsys_factor(&d.sys, NULL), QPC_OK);
    qpc_linsys_solve(&d.sys, d.b, y);
    assert_int_equal(d.sys.cg_steps, steps);
    double size = 0;
    for (int32_t i = 0; i < d.n; i++) size = fmax(size, fabs(y[i]));
    for (int32_t i = 0; i < d.n; i++) assert_near(x[i], y[i], 1e-11 * size);
    memcpy(x, d.b, sizeof x); // in place
    d.sys.factored = false;
    qpc_linsys_solve_roughly(&d.sys, x, NULL, 1e-3, 0, x);
    double miss = 0, sum = 0;
    for (int32_t i = 0; i < d.n; i++) {
        miss += (x[i] - y[i]) * (x[i] - y[i]);
        sum += y[i] * y[i];
    }
    assert_true(miss <= 1e-4 * sum && miss > 0);
    drape_fini(&d);
}

/// The fifth step of a small sheet, K made anew each time.
static void the_free_motion_is_measured_from_below_wherever_it_starts(void **state) {
    (void)state;
    qpb_problem p;
    qpc_error err = {0};
    qpc_work rough, exact;
    qpc_solver_options options = qpc_solver_options_default();
    load("cloth_24", &p);
    size_t n = (size_t)p.qp.n;
    double *lambda = calloc((size_t)p.qp.m, sizeof *lambda);
    p.sys.factored = false;
    assert_ok(qpc_work_init(&rough, &p.qp, &options, &arena, lambda, &err), &err);
    uint64_t steps = p.sys.cg_steps;
    double first = rough.free_norm;
    assert_true(rough.rough && steps > 0);
    // Once more: nothing is left to do.
    assert_ok(qpc_work_init(&rough, &p.qp, &options, &arena, lambda, &err), &err);
    assert_int_equal(p.sys.cg_steps, steps);
    assert_true(rough.free_norm == first);
    assert_ok(qpc_linsys_factor(&p.sys, &err), &err);
    assert_ok(qpc_work_init(&exact, &p.qp, &options, &arena, lambda, &err), &err);
    assert_false(exact.rough);
    double S = exact.free_norm;
    assert_true(first <= S * (1 + 1e-12) && first >= 0.99 * S);
    // From somewhere else, on the far side too, where b'x would be more than b'K^-1 b.
    for (int sign = -1; sign <= 1; sign += 2) {
        for (size_t i = 0; i < n; i++) p.sys.free[i] = exact.free_dv[i] * (1 + sign * 0.005);
        p.sys.factored = false;
        assert_ok(qpc_work_init(&rough, &p.qp, &options, &arena, lambda, &err), &err);
        assert_true(rough.free_norm <= S * (1 + 1e-12) && rough.free_norm >= 0.99 * S);
    }
    free(lambda);
    qpb_free(&p);
    qpc_arena_reset(&arena);
}

static void solves_without_memory_say_so(void **state) {
    (void)state;
    static double dv[3 * SIDE * SIDE], l[2 * SIDE * SIDE];
    for (int way = 0; way < 2; way++) {
        drape d;
        qpc_solver_options options = qpc_solver_options_default();
        assert_true(drape_init(&d, 16, 300));
        for (int32_t step = 0; step < 5; step++) {
            drape_assemble(&d);
            assert_int_equal(qpc_solve(QPC_SOLVER_AUGMENTED_LAGRANGIAN, &d.qp, &options, &arena, dv, d.lambda, NULL, NULL),
                             QPC_OK);
            if (step < 4) drape_advance(&d, dv);
        }
        if (way == 1) forbid_cg(&d.sys);
        QPC_FAULTS(f) {
            qpc_arena fresh = {0};
            qpc_error err = {0};
            qpc_solver_report report;
            memset(l, 0, sizeof l);
            qpc_status status = qpc_solve(QPC_SOLVER_AUGMENTED_LAGRANGIAN, &d.qp, &options, &fresh, dv, l, &report, &err);
            bool endured = status == QPC_OK && way == 1 && qpc_mem_failed();
            if (endured) { // CHOLMOD's analysis goes on without some of what it asks for
                qpc_mem_disarm();
                assert_int_equal(report.outcome, QPC_OUTCOME_OPTIMAL);
            } else if (qpc_faults_ended(&f, status)) {
                assert_int_equal(report.outcome, QPC_OUTCOME_OPTIMAL);
                assert_true((report.cg_steps > 0) == (way == 0));
            } else {
                for (int32_t i = 0; i < d.m; i++) assert_true(l[i] == 0);
            }
            qpc_arena_fini(&fresh);
        }
        drape_fini(&d);
        qpc_arena_reset(&arena);
    }
}

static void a_matrix_that_is_not_positive_definite_is_refused_without_a_factor(void **state) {
    (void)state;
    static double dv[3 * SIDE * SIDE], l[2 * SIDE * SIDE];
    const double bad[] = {-1, 0, (double)NAN, (double)INFINITY};
    drape d;
    assert_true(drape_init(&d, SIDE, 300));
    for (int32_t k = 0; k < 5; k++) {
        qpc_error err = {0};
        qpc_solver_options options = qpc_solver_options_default();
        drape_assemble(&d);
        if (k < 4)
            *qpc_linsys_entry(&d.sys, 301, 301) = bad[k];
        else // both diagonal entries are fine
            *qpc_linsys_entry(&d.sys, 301, 300) = 2 * *qpc_linsys_entry(&d.sys, 300, 300);
        dv[0] = 7;
        qpc_status st = qpc_solve(QPC_SOLVER_AUGMENTED_LAGRANGIAN, &d.qp, &options, &arena, dv, l, NULL, &err);
        assert_int_equal(st, QPC_ERR_NUMERIC);
        assert_true(dv[0] == 7);
    }
    drape_fini(&d);
}

static int teardown(void **state) {
    (void)state;
    qpc_arena_fini(&arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_instance_is_solved_with_a_sparse_matrix),
        cmocka_unit_test(sheets_are_solved_by_either_way),
        cmocka_unit_test(sheets_of_very_unequal_mass_are_solved),
        cmocka_unit_test(a_falling_sheet_has_one_answer),
        cmocka_unit_test(rows_that_are_met_are_not_sorted_out_further),
        cmocka_unit_test(the_certificate_says_what_it_stands_on),
        cmocka_unit_test(a_matrix_solves_alike_with_and_without_its_factor),
        cmocka_unit_test(a_matrix_that_is_not_positive_definite_is_refused_without_a_factor),
        cmocka_unit_test(the_free_motion_is_measured_from_below_wherever_it_starts),
        cmocka_unit_test(solves_without_memory_say_so),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
