/// active-set on every stored QP and LCP with K as sparse as it is, along sequences, and under
/// changes that must not move x: rows doubled, permuted, rescaled by up to 1e6 either way, masses
/// rescaled by as much.
#include "tests/support/instances.h"
#include "tests/support/qpb_any.h"

static qpc_arena arena;
static uint64_t seed;
static double uniform(void) { // in [0, 1)
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (double)(seed >> 11) / (double)(1ULL << 53);
}

static const char *const lcp_names[] = {
    "lcp_ball_floor",    "lcp_box_floor4", "lcp_box_tilted16", "lcp_box_tilted4",
    "lcp_cradle20_r100", "lcp_cradle3",    "lcp_cradle5_half", "lcp_funnel12",
    "lcp_pile4",         "lcp_rack5",      "lcp_rack5_off",    "lcp_separating",
    "lcp_stack20",       "lcp_stack5_1e4", "seq_cloth_00",     "seq_cloth_03",
    "seq_cloth_07",      "seq_cable_02",   "seq_cable_07",     NULL};

static void load(const char *name, qpb_any *a) {
    char path[512];
    snprintf(path, sizeof path, "%s/qp/%s.qpb", QPC_TEST_DATA, name);
    if (!qpb_any_load(path, a)) fail_msg("cannot load %s", path);
}

static qpc_solver_report solve(const qpc_qp *qp, double *x, double *lambda) {
    qpc_error err = {0};
    qpc_solver_report report;
    qpc_solver_options options = instance_options();
    qpc_arena_reset(&arena);
    assert_ok(qpc_solve(QPC_SOLVER_ACTIVE_SET, qp, &options, &arena, x, lambda, &report, &err),
              &err);
    return report;
}

/// The residuals of tests/data/qp/README.md, with the file's own kappa and scale.
static void judge(qpb_any *a, const double *x, const double *lambda) {
    const qpc_qp *qp = &a->p.qp;
    double S = a->p.scale > 1e-140 ? a->p.scale : 1e-140, prim = 0, dual = 0, comp = 0, stat = 0;
    double *r = calloc((size_t)qp->n + 1, sizeof *r), *z = calloc((size_t)qp->n + 1, sizeof *z);
    qpc_linsys_multiply(qp->sys, x, r);
    for (int32_t i = 0; i < qp->n; i++) r[i] -= qp->b[i];
    for (int32_t i = 0; i < qp->m; i++) {
        double s = qp->c[i];
        for (int32_t k = qp->row_start[i]; k < qp->row_start[i + 1]; k++) {
            s -= qp->value[k] * x[qp->column[k]];
            r[qp->column[k]] += lambda[i] * qp->value[k];
        }
        double violation = qp->equality[i] ? fabs(s) : fmax(-s, 0);
        prim = fmax(prim, violation / (a->kappa[i] * S));
        if (!qp->equality[i]) dual = fmax(dual, -lambda[i] * a->kappa[i] / S);
        comp += fabs(lambda[i] * s) / (S * S);
    }
    qpc_linsys_solve(qp->sys, r, z);
    for (int32_t i = 0; i < qp->n; i++) stat += r[i] * z[i];
    stat = sqrt(fabs(stat)) / S;
    double distance = qpb_distance(&a->p, x, a->p.x);
    if (!(stat <= 1e-9 && prim <= 1e-9 && dual <= 0 && comp <= 1e-12 && distance <= 1e-8))
        fail_msg("%s: stat %g prim %g dual %g comp %g, %g from the solution", a->p.name, stat, prim,
                 dual, comp, distance);
    free(r);
    free(z);
}

static void one_instance(const char *name) {
    qpb_any a;
    load(name, &a);
    size_t n = (size_t)a.p.qp.n, m = (size_t)a.p.qp.m;
    double *x = calloc(n + 1, sizeof *x), *l = calloc(m + 1, sizeof *l);
    double *y = calloc(n + 1, sizeof *x), *k = calloc(m + 1, sizeof *l);
    qpc_solver_report report = solve(&a.p.qp, x, l);
    if (report.outcome != QPC_OUTCOME_OPTIMAL) fail_msg("%s: outcome %d", name, report.outcome);
    judge(&a, x, l);
    solve(&a.p.qp, y, k);
    assert_memory_equal(x, y, n * sizeof *x);
    assert_memory_equal(l, k, m * sizeof *l);
    // From its own answer nothing joins, and only what round-off made of weakly active rows leaves.
    report = solve(&a.p.qp, y, k);
    judge(&a, y, k);
    if (report.adds > 0 || report.drops > report.restored / 4)
        fail_msg("%s: warm %d +%d -%d", name, report.restored, report.adds, report.drops);
    free(x);
    free(l);
    free(y);
    free(k);
    qpb_any_free(&a);
}

static void every_instance_is_solved_with_sparse_K(void **state) {
    (void)state;
    for (int32_t k = 0; instance_names[k] != NULL; k++) one_instance(instance_names[k]);
    for (int32_t k = 0; lcp_names[k] != NULL; k++) one_instance(lcp_names[k]);
}

/// The QP of some rows of another; key, c and so on are copied.
typedef struct some_rows {
    qpc_qp qp;
    int32_t *start, *column;
    double *value, *c;
    uint8_t *equality, *priority;
    uint64_t *key;
} some_rows;

static some_rows take_rows(const qpc_qp *from, const int32_t *rows, const double *factor,
                           int32_t count) {
    some_rows s = {.qp = *from};
    size_t entries = 0, m = (size_t)count, at = 0;
    for (int32_t i = 0; i < count; i++)
        entries += (size_t)(from->row_start[rows[i] + 1] - from->row_start[rows[i]]);
    s.start = calloc(m + 1, sizeof *s.start);
    s.column = calloc(entries + 1, sizeof *s.column);
    s.value = calloc(entries + 1, sizeof *s.value);
    s.c = calloc(m + 1, sizeof *s.c);
    s.equality = calloc(m + 1, 1);
    s.priority = calloc(m + 1, 1);
    s.key = calloc(m + 1, sizeof *s.key);
    for (int32_t i = 0; i < count; i++) {
        double f = factor != NULL ? factor[i] : 1;
        for (int32_t k = from->row_start[rows[i]]; k < from->row_start[rows[i] + 1]; k++) {
            s.column[at] = from->column[k];
            s.value[at++] = f * from->value[k];
        }
        s.start[i + 1] = (int32_t)at;
        s.c[i] = f * from->c[rows[i]];
        s.equality[i] = from->equality[rows[i]];
        s.priority[i] = from->priority[rows[i]];
        s.key[i] = from->key[rows[i]];
    }
    s.qp.m = count;
    s.qp.row_start = s.start;
    s.qp.column = s.column;
    s.qp.value = s.value;
    s.qp.c = s.c;
    s.qp.equality = s.equality;
    s.qp.priority = s.priority;
    s.qp.key = s.key;
    return s;
}

static void free_rows(some_rows *s) {
    free(s->start);
    free(s->column);
    free(s->value);
    free(s->c);
    free(s->equality);
    free(s->priority);
    free(s->key);
}

static void the_rows_named_contradict_and_none_of_them_is_idle(void **state) {
    (void)state;
    for (int32_t k = 0; infeasible_names[k] != NULL; k++) {
        qpb_any a;
        load(infeasible_names[k], &a);
        double *x = calloc((size_t)a.p.qp.n + 1, sizeof *x),
               *l = calloc((size_t)a.p.qp.m + 1, sizeof *l);
        qpc_solver_report report = solve(&a.p.qp, x, l);
        int32_t count = report.conflict_count, rows[QPC_CONFLICT_MAX];
        if (report.outcome != QPC_OUTCOME_INFEASIBLE || count < 2)
            fail_msg("%s: outcome %d", a.p.name, report.outcome);
        if (count <= QPC_CONFLICT_MAX) { // all of the proof is there
            memcpy(rows, report.conflict_row, sizeof rows);
            some_rows s = take_rows(&a.p.qp, rows, NULL, count);
            memset(l, 0, (size_t)a.p.qp.m * sizeof *l);
            assert_int_equal(solve(&s.qp, x, l).outcome, QPC_OUTCOME_INFEASIBLE);
            free_rows(&s);
            for (int32_t out = 0; out < count; out++) {
                int32_t rest[QPC_CONFLICT_MAX], left = 0;
                for (int32_t i = 0; i < count; i++)
                    if (i != out) rest[left++] = rows[i];
                s = take_rows(&a.p.qp, rest, NULL, left);
                memset(l, 0, (size_t)a.p.qp.m * sizeof *l);
                if (solve(&s.qp, x, l).outcome != QPC_OUTCOME_OPTIMAL)
                    fail_msg("%s: row %d is no part of the contradiction", a.p.name, rows[out]);
                free_rows(&s);
            }
        }
        // The least-norm relaxation, against the stored one.
        double *c = calloc((size_t)a.p.qp.m + 1, sizeof *c), most = 0, largest = 0;
        qpc_error err = {0};
        memcpy(c, a.p.c, (size_t)a.p.qp.m * sizeof *c);
        assert_ok(qpc_relax(&a.p.qp, 1, QPC_RELAX_EXACT, &arena, c, &largest, &err), &err);
        for (int32_t i = 0; i < a.p.qp.m; i++) most = fmax(most, fabs(a.p.relax[i]));
        for (int32_t i = 0; i < a.p.qp.m; i++)
            if (!(fabs(c[i] - a.p.c[i] - a.p.relax[i]) <= 1e-7 * most))
                fail_msg("%s: s[%d] is %.12g, want %.12g", a.p.name, i, c[i] - a.p.c[i],
                         a.p.relax[i]);
        free(c);
        // Twice and in another order: the same answer.
        int32_t m = a.p.qp.m, *both = calloc(2 * (size_t)m, sizeof *both);
        double *twice = calloc(2 * (size_t)m + 1, sizeof *twice);
        for (int32_t i = 0; i < 2 * m; i++) both[i] = m - 1 - i % m;
        some_rows s = take_rows(&a.p.qp, both, NULL, 2 * m);
        assert_int_equal(solve(&s.qp, x, twice).outcome, QPC_OUTCOME_INFEASIBLE);
        free_rows(&s);
        free(both);
        free(twice);
        free(x);
        free(l);
        qpb_any_free(&a);
    }
}

static void run_sequence(const char *family, int32_t count, int32_t most) {
    static uint64_t keys[512];
    static double kept[512];
    int32_t held = 0;
    for (int32_t step = 0; step < count; step++) {
        qpb_any a;
        char name[32];
        snprintf(name, sizeof name, "%s_%02d", family, step);
        load(name, &a);
        double *x = calloc((size_t)a.p.qp.n + 1, sizeof *x),
               *l = calloc((size_t)a.p.qp.m + 1, sizeof *l);
        for (int32_t i = 0; i < a.p.qp.m; i++)
            for (int32_t j = 0; j < held; j++)
                if (keys[j] == a.p.key[i]) l[i] = kept[j];
        qpc_solver_report report = solve(&a.p.qp, x, l);
        judge(&a, x, l);
        if (step > 0 && report.adds + report.drops > most)
            fail_msg("%s: +%d -%d", name, report.adds, report.drops);
        held = 0;
        for (int32_t i = 0; i < a.p.qp.m; i++) {
            if (!(l[i] > 0)) continue;
            keys[held] = a.p.key[i];
            kept[held++] = l[i];
        }
        free(x);
        free(l);
        qpb_any_free(&a);
    }
}

static void sequences_need_at_most_fifteen_changes_a_step(void **state) {
    (void)state;
    run_sequence("seq_cable", 10, 15);
    run_sequence("seq_cloth", 8, 15);
}

/// x of the file against x of its rows permuted, some of them several times, each rescaled; K and b
/// rescaled.
static void one_change(const char *name, uint64_t s) {
    qpb_any a;
    seed = s * 7919 + 1;
    load(name, &a);
    int32_t n = a.p.qp.n, m = a.p.qp.m, count = 0;
    int32_t *rows = calloc(3 * (size_t)m + 1, sizeof *rows);
    double *factor = calloc(3 * (size_t)m + 1, sizeof *factor),
           *l = calloc(3 * (size_t)m + 1, sizeof *l);
    double *x = calloc((size_t)n + 1, sizeof *x), *y = calloc((size_t)n + 1, sizeof *y);
    solve(&a.p.qp, x, l);
    memset(l, 0, (size_t)m * sizeof *l);
    bool doubled = s % 2 == 0, rescaled = s % 3 != 1;
    for (int32_t i = 0; i < m; i++)
        for (int32_t k = doubled ? (int32_t)(uniform() * 2) : 0; k >= 0; k--) rows[count++] = i;
    for (int32_t i = count - 1; i > 0; i--) {
        int32_t j = (int32_t)(uniform() * (i + 1)), t = rows[i];
        rows[i] = rows[j];
        rows[j] = t;
    }
    for (int32_t i = 0; i < count; i++) factor[i] = rescaled ? pow(10, 12 * uniform() - 6) : 1;
    double mass = s % 3 == 2 ? pow(10, 12 * uniform() - 6) : 1;
    for (int32_t k = 0; k < a.K_p[n]; k++) a.K_x[k] *= mass;
    for (int32_t i = 0; i < n; i++) a.p.b[i] *= mass;
    qpc_error err = {0};
    assert_ok(qpb_any_factor(&a, &err), &err);
    a.p.scale *= sqrt(mass);
    some_rows changed = take_rows(&a.p.qp, rows, factor, count);
    qpc_solver_report report = solve(&changed.qp, y, l);
    if (report.outcome != QPC_OUTCOME_OPTIMAL)
        fail_msg("%s, %d: outcome %d", name, (int)s, report.outcome);
    double moved = qpb_distance(&a.p, x, y);
    // Round-off of rescaled rows and of another order of sums; near-duplicates at 1e-9 rad know x
    // to 1e-10.
    if (!(moved <= 1e-10)) fail_msg("%s, change %d: x moved by %g", name, (int)s, moved);
    free_rows(&changed);
    free(rows);
    free(factor);
    free(l);
    free(x);
    free(y);
    qpb_any_free(&a);
}

static int32_t turns = 6;

static void changes_that_mean_nothing_do_not_move_x(void **state) {
    (void)state;
    const char *const names[] = {
        "cable_100_10t", "cable_050_near", "stack_10_1e4", "rand_200_dup", "needles_60x10",
        "tiny_ring64p",  "mm_QPCBOEI2",    "wall_6x4",     "massspan_40",  "rand_030_m400",
        "cloth_10",      "lcp_stack20",    "lcp_funnel12", "seq_cloth_05", "tiny_nearpar",
        "nearinf_20",    "pyramid_10",     "mm_HS118",     "rand_200_1e8", "cable_3x40_cross3"};
    for (int32_t turn = 0; turn < turns; turn++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            one_change(names[k], (uint64_t)turn);
}

static void any_warm_start_leads_to_the_same_x(void **state) {
    (void)state;
    for (int32_t turn = 0; turn < turns; turn++) {
        for (int32_t k = 0; instance_names[k] != NULL; k++) {
            qpb_any a;
            load(instance_names[k], &a);
            seed = (uint64_t)(1000 * turn + k) * 31 + 5;
            double *x = calloc((size_t)a.p.qp.n + 1, sizeof *x),
                   *l = calloc((size_t)a.p.qp.m + 1, sizeof *l);
            double share = turn % 2 == 0 ? 0.2 : 0.9;
            for (int32_t i = 0; i < a.p.qp.m; i++) // of any size, equalities of either sign
                l[i] = uniform() < share ? pow(10, 8 * uniform() - 4) * a.p.scale / a.kappa[i] : 0;
            for (int32_t i = 0; i < a.p.qp.m; i++)
                if (a.p.equality[i] && uniform() < 0.5) l[i] = -l[i];
            qpc_solver_report report = solve(&a.p.qp, x, l);
            if (report.outcome != QPC_OUTCOME_OPTIMAL)
                fail_msg("%s, %d: outcome %d", a.p.name, turn, report.outcome);
            judge(&a, x, l);
            free(x);
            free(l);
            qpb_any_free(&a);
        }
    }
}

static int teardown(void **state) {
    (void)state;
    qpc_arena_fini(&arena);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1) turns = atoi(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_instance_is_solved_with_sparse_K),
        cmocka_unit_test(the_rows_named_contradict_and_none_of_them_is_idle),
        cmocka_unit_test(sequences_need_at_most_fifteen_changes_a_step),
        cmocka_unit_test(any_warm_start_leads_to_the_same_x),
        cmocka_unit_test(changes_that_mean_nothing_do_not_move_x),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
