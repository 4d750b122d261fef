/// Dual active set: known answers, the instance files, the traps of such methods, and faults.
#include "tests/support/instances.h"

#include "tests/support/faults.h"
#include "tests/support/oracle.h"
#include "tests/support/smallqp.h"

#include <stdlib.h>

static smallqp small; // too large for the stack
static qpc_arena arena;

static qpc_solver_report solve(const qpc_qp *qp, double *x, double *lambda) {
    qpc_error err = {0};
    qpc_solver_report report;
    qpc_solver_options options = instance_options();
    assert_ok(qpc_solve(QPC_SOLVER_ACTIVE_SET, qp, &options, &arena, x, lambda, &report, &err),
              &err);
    return report;
}

static void clear(int32_t n, int32_t m) {
    qpc_linsys sys = small.sys;
    memset(&small, 0, sizeof small);
    small.sys = sys;
    small.n = n;
    small.m = m;
    for (int32_t i = 0; i < n; i++) small.K[i][i] = 1;
    for (int32_t i = 0; i < m; i++) {
        small.key[i] = (uint64_t)i;
        small.priority[i] = 1;
    }
}

/// min 1/2 x'Hx + g'x, A x >= b, E x = e: rows become -A x <= -b.
static void read_case(const char *file, oracle *o) {
    char path[512];
    snprintf(path, sizeof path, "%s/qp/%s", QPC_TEST_DATA, file);
    *o = oracle_open(path);
    const qpc_value *H = qpc_map_get(&o->root, "H"), *A = qpc_map_get(&o->root, "A"),
                    *E = qpc_map_get(&o->root, "E");
    int32_t rows = A->list.count, fixed = E != NULL ? E->list.count : 0;
    clear(H->list.count, rows + fixed);
    double c[SMALLQP_M];
    oracle_flatten(qpc_map_get(&o->root, "g"), small.b, small.n);
    for (int32_t i = 0; i < small.n; i++) {
        oracle_flatten(&H->list.items[i], small.K[i], small.n);
        small.b[i] = -small.b[i];
    }
    oracle_flatten(qpc_map_get(&o->root, "b"), c, rows);
    for (int32_t i = 0; i < rows; i++) {
        oracle_flatten(&A->list.items[i], small.J[i], small.n);
        for (int32_t j = 0; j < small.n; j++) small.J[i][j] = -small.J[i][j];
        small.c[i] = -c[i];
    }
    if (fixed > 0) oracle_flatten(qpc_map_get(&o->root, "e"), small.c + rows, fixed);
    for (int32_t i = 0; i < fixed; i++) {
        oracle_flatten(&E->list.items[i], small.J[rows + i], small.n);
        small.equality[rows + i] = 1;
    }
}

static void small_cases_have_their_known_answers(void **state) {
    (void)state;
    const char *const files[] = {"Q01-cone-collapsed-to-a-point.json",
                                 "Q02-forty-copies-of-one-row.json",
                                 "Q04-equality-and-inequalities.json"};
    for (int32_t k = 0; k < 3; k++) {
        oracle o;
        read_case(files[k], &o);
        const qpc_value *expect = qpc_map_get(&o.root, "expect");
        const qpc_qp *qp = smallqp_build(&small);
        double x[SMALLQP_N], lambda[SMALLQP_M] = {0}, want[SMALLQP_N];
        // From zero, from the answer's own multipliers, and from multipliers that say nothing.
        for (int32_t start = 0; start < 3; start++) {
            if (start == 2)
                for (int32_t i = 0; i < small.m; i++) lambda[i] = 1 + (i * 7) % 5;
            qpc_solver_report report = solve(qp, x, lambda);
            assert_int_equal(report.outcome, QPC_OUTCOME_OPTIMAL);
            assert_true(report.iterations <=
                        (int32_t)oracle_number(qpc_map_get(expect, "max_iterations"), "max"));
            oracle_flatten(qpc_map_get(expect, "x"), want, small.n);
            double objective = 0;
            for (int32_t i = 0; i < small.n; i++) {
                assert_near(x[i], want[i],
                            oracle_number(qpc_map_get(expect, "tolerance_x"), "tolerance"));
                for (int32_t j = 0; j < small.n; j++)
                    objective += 0.5 * x[i] * small.K[i][j] * x[j];
                objective -= small.b[i] * x[i];
            }
            assert_near(objective, oracle_number(qpc_map_get(expect, "objective"), "objective"),
                        1e-8);
        }
        oracle_close(&o);
    }
}

static void contradicting_rows_are_named(void **state) {
    (void)state;
    oracle o;
    read_case("Q03-contradictory-rows.json", &o);
    const qpc_qp *qp = smallqp_build(&small);
    double x[SMALLQP_N], lambda[SMALLQP_M] = {0};
    for (int32_t start = 0; start < 2; start++) {
        qpc_solver_report report = solve(qp, x, lambda);
        assert_int_equal(report.outcome, QPC_OUTCOME_INFEASIBLE);
        assert_int_equal(report.conflict_count, 2);
        assert_int_equal(report.conflict_row[0], 0);
        assert_int_equal(report.conflict_row[1], 1);
        assert_true(isfinite(x[0]));
        lambda[0] = lambda[1] = 1000;
    }
    oracle_close(&o);
}

static void instances_are_solved(void **state) {
    (void)state;
    for (int32_t k = 0; instance_names[k] != NULL; k++) {
        qpb_problem p;
        instance_load(instance_names[k], &p);
        double *x = calloc((size_t)p.qp.n, sizeof *x), *again = calloc((size_t)p.qp.n, sizeof *x);
        double *l = calloc((size_t)p.qp.m, sizeof *l), *m = calloc((size_t)p.qp.m, sizeof *l);
        qpc_solver_report cold = solve(&p.qp, x, l);
        if (cold.outcome != QPC_OUTCOME_OPTIMAL) fail_msg("%s: outcome %d", p.name, cold.outcome);
        instance_check(&p, x, l, &arena);
        // The same bits again.
        solve(&p.qp, again, m);
        assert_memory_equal(x, again, (size_t)p.qp.n * sizeof *x);
        assert_memory_equal(l, m, (size_t)p.qp.m * sizeof *l);
        // Warm from its own answer: the set stands.
        qpc_solver_report warm = solve(&p.qp, again, m);
        instance_check(&p, again, m, &arena);
        // (rand_300_weak has 225 weakly active rows: a few of those leave by round-off.)
        if (warm.adds > 0 || warm.drops > warm.restored / 4)
            fail_msg("%s: warm %d +%d -%d", p.name, warm.restored, warm.adds, warm.drops);
        // Warm from the stored multipliers, which need not be a basis: exchanges, few pivots.
        memcpy(m, p.lambda, (size_t)p.qp.m * sizeof *m);
        solve(&p.qp, again, m);
        instance_check(&p, again, m, &arena);
        free(x);
        free(again);
        free(l);
        free(m);
        qpb_free(&p);
        qpc_arena_reset(&arena);
    }
}

static void infeasible_instances_are_proved(void **state) {
    (void)state;
    for (int32_t k = 0; infeasible_names[k] != NULL; k++) {
        qpb_problem p;
        instance_load(infeasible_names[k], &p);
        double *x = calloc((size_t)p.qp.n, sizeof *x), *l = calloc((size_t)p.qp.m, sizeof *l);
        for (int32_t start = 0; start < 2; start++) {
            qpc_solver_report report = solve(&p.qp, x, l);
            if (report.outcome != QPC_OUTCOME_INFEASIBLE || report.conflict_count < 2)
                fail_msg("%s: outcome %d, %d rows", p.name, report.outcome, report.conflict_count);
            for (int32_t i = 1; i < report.conflict_count; i++)
                assert_true(report.conflict_row[i] > report.conflict_row[i - 1]);
        }
        free(x);
        free(l);
        qpb_free(&p);
    }
}

/// x of `p` with its rows permuted, doubled or rescaled, against the stored x.
static void transformed(qpb_problem *p, int32_t how) {
    int32_t m = p->qp.m, copies = how == 1 ? 2 : 1, nnz = p->row_start[m];
    size_t rows = (size_t)m * (size_t)copies, entries = (size_t)nnz * (size_t)copies;
    int32_t *start = calloc(rows + 1, sizeof *start), *column = calloc(entries + 1, sizeof *column);
    double *value = calloc(entries + 1, sizeof *value), *c = calloc(rows + 1, sizeof *c);
    double *l = calloc(rows + 1, sizeof *l), *x = calloc((size_t)p->qp.n, sizeof *x);
    uint8_t *equality = calloc(rows + 1, 1);
    uint64_t *key = calloc(rows + 1, sizeof *key);
    int32_t at = 0;
    for (int32_t r = 0; r < (int32_t)rows; r++) {
        int32_t from = how == 0 ? (int32_t)(((int64_t)r * 7919 + 13) % m) : r % m;
        if (how == 0 && m % 7919 == 0) from = r;
        double factor = how == 2 ? pow(10, (r * 5) % 13 - 6) : 1;
        for (int32_t k = p->row_start[from]; k < p->row_start[from + 1]; k++) {
            column[at] = p->column[k];
            value[at++] = factor * p->value[k];
        }
        start[r + 1] = at;
        c[r] = factor * p->c[from];
        equality[r] = p->equality[from];
        key[r] = p->key[from];
    }
    qpc_qp qp = p->qp;
    qp.m = (int32_t)rows;
    qp.row_start = start;
    qp.column = column;
    qp.value = value;
    qp.c = c;
    qp.equality = equality;
    qp.priority = equality;
    qp.key = key;
    qpc_solver_report report = solve(&qp, x, l);
    if (report.outcome != QPC_OUTCOME_OPTIMAL)
        fail_msg("%s, change %d: outcome %d", p->name, how, report.outcome);
    double moved = qpb_distance(p, x, p->x);
    // needles: near-duplicates at 1e-9 rad leave x itself known to 1e-10 only.
    if (!(moved <= 2e-10)) fail_msg("%s, change %d: x moved by %g", p->name, how, moved);
    free(start);
    free(column);
    free(value);
    free(c);
    free(l);
    free(x);
    free(equality);
    free(key);
}

static void permuted_doubled_and_rescaled_rows_give_the_same_x(void **state) {
    (void)state;
    const char *const names[] = {"cable_100_10t", "cable_050_near",   "stack_10_1e4",
                                 "rand_200_dup",  "needles_60x10",    "tiny_ring64p",
                                 "mm_QPCBOEI2",   "wall_6x4",         "massspan_40",
                                 "rand_030_m400", "cable_3x40_cross3"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        qpb_problem p;
        instance_load(names[k], &p);
        for (int32_t how = 0; how < 3; how++) transformed(&p, how);
        qpb_free(&p);
    }
}

static void a_sequence_of_steps_needs_few_pivots_when_warm(void **state) {
    (void)state;
    int32_t changes = 0;
    uint64_t keys[256];
    double kept[256];
    int32_t count = 0;
    for (int32_t step = 0; step < 10; step++) {
        qpb_problem p;
        char name[32];
        snprintf(name, sizeof name, "seq_cable_%02d", step);
        instance_load(name, &p);
        double *x = calloc((size_t)p.qp.n, sizeof *x), *l = calloc((size_t)p.qp.m, sizeof *l);
        int32_t started = 0;
        for (int32_t i = 0; i < p.qp.m; i++)
            for (int32_t j = 0; j < count; j++)
                if (keys[j] == p.key[i]) l[i] = kept[j], started++;
        qpc_solver_report report = solve(&p.qp, x, l);
        instance_check(&p, x, l, &arena);
        if (report.adds + report.drops > 15) fail_msg("step %d: +%d -%d", step, report.adds, report.drops);
        assert_true(report.restored <= started);
        changes += report.adds + report.drops;
        count = 0;
        for (int32_t i = 0; i < p.qp.m; i++) {
            if (l[i] <= 0) continue;
            keys[count] = p.key[i];
            kept[count++] = l[i];
        }
        free(x);
        free(l);
        qpb_free(&p);
    }
    assert_true(changes <= 10 * 15); // the sets themselves change by one or two rows a step
}

static void no_forces_at_all_still_has_a_scale(void **state) {
    (void)state;
    // b = 0: a scale taken from K^-1 b alone would be zero, and the tolerance with it.
    clear(3, 3);
    for (int32_t i = 0; i < 3; i++) {
        small.J[i][i] = -1;
        small.J[i][(i + 1) % 3] = -0.5;
        small.c[i] = -1;
    }
    double x[3], lambda[3] = {0};
    qpc_solver_report report = solve(smallqp_build(&small), x, lambda);
    assert_int_equal(report.outcome, QPC_OUTCOME_OPTIMAL);
    assert_true(report.iterations <= 6);
    for (int32_t i = 0; i < 3; i++) assert_near(x[i], 2.0 / 3, 1e-14);
}

static void an_equality_missed_from_below_is_pulled_up(void **state) {
    (void)state;
    clear(2, 3);
    small.J[0][0] = 1; // x0 = 3, from 0: multiplier negative
    small.c[0] = 3;
    small.equality[0] = 1;
    small.J[1][0] = 1; // x0 + x1 = 3.5
    small.J[1][1] = 1;
    small.c[1] = 3.5;
    small.equality[1] = 1;
    small.J[2][1] = 1; // x1 <= 4: idle
    small.c[2] = 4;
    double x[2], lambda[3] = {0};
    for (int32_t start = 0; start < 2; start++) {
        qpc_solver_report report = solve(smallqp_build(&small), x, lambda);
        assert_int_equal(report.outcome, QPC_OUTCOME_OPTIMAL);
        assert_near(x[0], 3, 1e-14);
        assert_near(x[1], 0.5, 1e-14);
        assert_near(lambda[1], -0.5, 1e-14);
        assert_near(lambda[0], -2.5, 1e-14);
        assert_near(lambda[2], 0, 0);
        lambda[0] = 77; // a start of the wrong sign
    }
}

static void empty_rows_hold_or_contradict_by_their_bound(void **state) {
    (void)state;
    clear(2, 3);
    small.b[0] = 1;
    small.J[1][0] = 1;
    small.c[1] = 0.5;
    double x[2], lambda[3] = {4, 0, 4}; // a warm start on an empty row is dropped
    qpc_solver_report report = solve(smallqp_build(&small), x, lambda);
    assert_int_equal(report.outcome, QPC_OUTCOME_OPTIMAL);
    assert_near(x[0], 0.5, 1e-15);
    assert_near(lambda[0], 0, 0);
    small.c[2] = -1; // 0 <= -1
    report = solve(smallqp_build(&small), x, lambda);
    assert_int_equal(report.outcome, QPC_OUTCOME_INFEASIBLE);
    assert_int_equal(report.conflict_count, 1);
    assert_int_equal(report.conflict_row[0], 2);
}

/// A chain of n particles, each at most 1 from the one before, its end at n + 1 or more: it takes every row to say that
/// this cannot be. One idle row a particle besides.
static void every_row_of_a_long_proof_is_counted(void **state) {
    (void)state;
    static const int32_t lengths[] = {40, 700, 1400};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        int32_t n = lengths[k], m = 2 * n + 1, at = 0;
        qpc_error err = {0};
        qpc_linsys K = {0};
        assert_ok(qpc_linsys_resize(&K, n, 0, &err), &err);
        for (int32_t i = 0; i < n; i++) qpc_linsys_add(&K, i, i, 1);
        assert_ok(qpc_linsys_factor(&K, &err), &err);
        int32_t *start = calloc((size_t)m + 1, sizeof *start), *column = calloc(3 * (size_t)m, sizeof *column);
        double *value = calloc(3 * (size_t)m, sizeof *value), *c = calloc((size_t)m, sizeof *c),
               *b = calloc((size_t)n, sizeof *b), *x = calloc((size_t)n, sizeof *x), *l = calloc((size_t)m, sizeof *l);
        uint8_t *none = calloc((size_t)m, 1);
        uint64_t *key = calloc((size_t)m, sizeof *key);
        for (int32_t i = 0; i < m; i++) {
            int32_t node = i / 2;
            bool link = i % 2 == 0;
            if (link && node > 0) column[at] = node - 1, value[at++] = -1;
            if (node < n) column[at] = node, value[at++] = 1;
            c[i] = node == n ? -(n + 1) : link ? 1 : 10 * n;
            key[i] = (uint64_t)i;
            start[i + 1] = at;
        }
        const qpc_qp qp = {.n = n, .m = m, .sys = &K, .b = b, .row_start = start, .column = column, .value = value,
                           .c = c, .equality = none, .priority = none, .key = key};
        qpc_solver_report report = solve(&qp, x, l);
        assert_int_equal(report.outcome, QPC_OUTCOME_INFEASIBLE);
        assert_int_equal(report.conflict_count, n + 1);
        assert_int_equal(qpc_conflict_named(&report), n + 1 < QPC_CONFLICT_MAX ? n + 1 : QPC_CONFLICT_MAX);
        for (int32_t i = 0; i < qpc_conflict_named(&report); i++) assert_int_equal(report.conflict_row[i], 2 * i);
        qpc_linsys_fini(&K);
        free(start), free(column), free(value), free(c), free(b), free(x), free(l), free(none), free(key);
    }
    qpc_arena_fini(&arena);
}

static void no_rows_give_the_free_motion(void **state) {
    (void)state;
    clear(2, 0);
    small.K[0][0] = 4;
    small.b[0] = 2;
    double x[2], lambda[1];
    qpc_solver_report report = solve(smallqp_build(&small), x, lambda);
    assert_int_equal(report.outcome, QPC_OUTCOME_OPTIMAL);
    assert_near(x[0], 0.5, 0);
    clear(0, 0);
    report = solve(smallqp_build(&small), x, lambda);
    assert_int_equal(report.outcome, QPC_OUTCOME_OPTIMAL);
}

static void the_free_motion_is_the_answer_where_it_holds(void **state) {
    (void)state;
    // All rows hold at K^-1 b: no engine does anything, and old multipliers are gone.
    clear(2, 2);
    small.b[0] = 1;
    small.J[0][0] = 1;
    small.c[0] = 1; // just touched
    small.J[1][1] = 1;
    small.c[1] = 3;
    smallqp_build(&small);
    for (int32_t id = 0; id < QPC_SOLVER_COUNT; id++) {
        double x[2], lambda[2] = {5, 5};
        qpc_error err = {0};
        qpc_solver_report report;
        qpc_solver_options options = qpc_solver_options_default();
        assert_ok(
            qpc_solve((qpc_solver_id)id, &small.qp, &options, &arena, x, lambda, &report, &err),
            &err);
        assert_int_equal(report.outcome, QPC_OUTCOME_OPTIMAL);
        assert_int_not_equal(report.engine, QPC_SOLVER_AUTO);
        assert_int_equal(report.iterations, 0);
        assert_int_equal(report.active, 0);
        assert_near(x[0], 1, 0);
        assert_near(lambda[0], 0, 0);
    }
}

static void dependent_warm_rows_are_shifted_not_dropped(void **state) {
    (void)state;
    // 64 tight rows of rank 3, all with multipliers: the build keeps J'lambda, and no pivot
    // follows.
    qpb_problem p;
    instance_load("tiny_ring64", &p);
    double x[3], l[64];
    for (int32_t i = 0; i < 64; i++) l[i] = 1.0 / 64;
    qpc_solver_report report = solve(&p.qp, x, l);
    instance_check(&p, x, l, &arena);
    assert_true(report.exchanges >= 61);
    assert_int_equal(report.restored - report.drops, 3);
    assert_int_equal(report.adds, 0);
    qpb_free(&p);
}

static void an_iteration_limit_is_reported(void **state) {
    (void)state;
    qpb_problem p;
    qpc_error err = {0};
    instance_load("cable_050", &p);
    double x[150], l[153] = {0};
    qpc_solver_options options = instance_options();
    qpc_solver_report report;
    options.max_iterations = 5;
    assert_ok(qpc_solve(QPC_SOLVER_ACTIVE_SET, &p.qp, &options, &arena, x, l, &report, &err), &err);
    assert_int_equal(report.outcome, QPC_OUTCOME_ITERATION_LIMIT);
    for (int32_t i = 0; i < 153; i++) assert_true(p.equality[i] || l[i] >= 0);
    qpb_free(&p);
}

static void more_rows_than_it_is_for_end_at_once(void **state) {
    (void)state;
    // 5000 particles pressed to a floor, all multipliers known: x follows from them, and no factor is made.
    enum { MANY = 5000 };
    static double K[MANY], b[MANY], c[MANY], one[MANY], x[MANY], l[MANY];
    static int32_t start[MANY + 1], column[MANY];
    static uint8_t no[MANY];
    static uint64_t key[MANY];
    qpc_linsys sys = {0};
    qpc_error err = {0};
    for (int32_t i = 0; i < MANY; i++) {
        start[i + 1] = i + 1;
        column[i] = i;
        one[i] = b[i] = l[i] = 1;
        key[i] = (uint64_t)i;
        K[i] = 2;
    }
    assert_ok(qpc_linsys_resize_sparse(&sys, MANY, start, column, &err), &err);
    memcpy(sys.value, K, sizeof K);
    assert_ok(qpc_linsys_factor(&sys, &err), &err);
    qpc_qp qp = {.n = MANY, .m = MANY, .sys = &sys, .b = b, .row_start = start, .column = column, .value = one, .c = c,
                 .equality = no, .priority = no, .key = key};
    qpc_solver_report report = solve(&qp, x, l);
    assert_int_equal(report.outcome, QPC_OUTCOME_ITERATION_LIMIT);
    assert_int_equal(report.active, MANY);
    for (int32_t i = 0; i < MANY; i++) assert_near(x[i], 0, 1e-15);
    assert_true(arena.high_water < 8U << 20);
    qpc_linsys_fini(&sys);
}

static void input_that_is_not_finite_is_refused_untouched(void **state) {
    (void)state;
    clear(2, 1);
    small.J[0][0] = 1;
    small.c[0] = -1;
    double x[2] = {7, 7}, lambda[1] = {5};
    qpc_error err = {0};
    qpc_solver_report report;
    qpc_solver_options options = qpc_solver_options_default();
    smallqp_build(&small);
    double *spots[] = {&small.b[1], &small.c[0], &small.value[0], &lambda[0], &small.sys.band[0]};
    const char *const names[] = {"b is", "c is", "J is", "warm start", "K is"};
    for (int32_t k = 0; k < 5; k++) {
        for (int32_t id = 0; id < QPC_SOLVER_COUNT; id++) {
            double keep = *spots[k];
            *spots[k] = id % 2 == 0 ? (double)NAN : (double)INFINITY;
            assert_fails(
                qpc_solve((qpc_solver_id)id, &small.qp, &options, &arena, x, lambda, &report, &err),
                QPC_ERR_NUMERIC, &err, names[k]);
            *spots[k] = keep;
            assert_near(x[0], 7, 0);
            assert_near(lambda[0], 5, 0);
        }
    }
}

static void running_out_of_memory_leaves_the_answer_untouched(void **state) {
    (void)state;
    qpb_problem p;
    instance_load("cable_3x40_cross3", &p);
    const qpc_solver_id ids[] = {QPC_SOLVER_ACTIVE_SET, QPC_SOLVER_AUGMENTED_LAGRANGIAN,
                                 QPC_SOLVER_AUTO, QPC_SOLVER_AUGMENTED_CG};
    for (int32_t k = 0; k < 4; k++) {
        QPC_FAULTS(f) {
            qpc_arena own = {0};
            qpc_error err = {0};
            qpc_solver_report report;
            qpc_solver_options options = instance_options();
            static double x[450], l[499];
            if (ids[k] == QPC_SOLVER_AUGMENTED_CG) options.max_iterations = 1;
            for (int32_t i = 0; i < 450; i++) x[i] = 3;
            for (int32_t i = 0; i < 499; i++) l[i] = 0.25;
            qpc_status status = qpc_solve(ids[k], &p.qp, &options, &own, x, l, &report, &err);
            if (!qpc_faults_ended(&f, status)) {
                for (int32_t i = 0; i < 450; i++) assert_near(x[i], 3, 0);
                for (int32_t i = 0; i < 499; i++) assert_near(l[i], 0.25, 0);
            }
            qpc_arena_fini(&own);
        }
    }
    qpb_free(&p);
}

static void the_arena_is_given_back(void **state) {
    (void)state;
    qpb_problem p;
    instance_load("cable_050", &p);
    double x[150], l[153] = {0};
    qpc_arena_reset(&arena);
    assert_non_null(qpc_arena_alloc(&arena, 100));
    size_t used = arena.total + arena.used;
    solve(&p.qp, x, l);
    assert_int_equal(arena.total + arena.used, used);
    qpb_free(&p);
}

static int teardown(void **state) {
    (void)state;
    qpc_linsys_fini(&small.sys);
    qpc_arena_fini(&arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_cases_have_their_known_answers),
        cmocka_unit_test(contradicting_rows_are_named),
        cmocka_unit_test(instances_are_solved),
        cmocka_unit_test(infeasible_instances_are_proved),
        cmocka_unit_test(permuted_doubled_and_rescaled_rows_give_the_same_x),
        cmocka_unit_test(a_sequence_of_steps_needs_few_pivots_when_warm),
        cmocka_unit_test(no_forces_at_all_still_has_a_scale),
        cmocka_unit_test(an_equality_missed_from_below_is_pulled_up),
        cmocka_unit_test(empty_rows_hold_or_contradict_by_their_bound),
        cmocka_unit_test(every_row_of_a_long_proof_is_counted),
        cmocka_unit_test(no_rows_give_the_free_motion),
        cmocka_unit_test(the_free_motion_is_the_answer_where_it_holds),
        cmocka_unit_test(dependent_warm_rows_are_shifted_not_dropped),
        cmocka_unit_test(an_iteration_limit_is_reported),
        cmocka_unit_test(more_rows_than_it_is_for_end_at_once),
        cmocka_unit_test(input_that_is_not_finite_is_refused_untouched),
        cmocka_unit_test(running_out_of_memory_leaves_the_answer_untouched),
        cmocka_unit_test(the_arena_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
