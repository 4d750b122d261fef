/// active-set on random QPs made to be degenerate: rows of small whole numbers, so that exact
/// dependencies, copies, empty rows and ties of every kind abound; bounds that a known point meets
/// exactly; K diagonal, of a graph, or full. Feasible ones are solved, by certificate, from any
/// start; contradictory ones are proved.
#include "tests/support/instances.h"

enum { N_MOST = 60, M_MOST = 180 };

static qpc_arena arena;
static uint64_t seed;
static double uniform(void) { // in [0, 1)
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (double)(seed >> 11) / (double)(1ULL << 53);
}
static int32_t below(int32_t count) {
    return (int32_t)(uniform() * count);
}

typedef struct random_qp {
    qpc_qp qp;
    qpc_linsys K;
    double b[N_MOST], c[M_MOST], value[M_MOST * N_MOST], feasible[N_MOST];
    int32_t start[M_MOST + 1], column[M_MOST * N_MOST];
    uint8_t equality[M_MOST], priority[M_MOST];
    uint64_t key[M_MOST];
} random_qp;
static random_qp q;

static void make_K(int32_t n) {
    static double dense[N_MOST][N_MOST];
    static int32_t start[N_MOST + 1], row[N_MOST * N_MOST];
    int32_t kind = below(3), at = 0;
    double heavy = below(2) ? 1 : 1e4;
    qpc_error err = {0};
    memset(dense, 0, sizeof dense);
    for (int32_t i = 0; i < n; i++) dense[i][i] = below(4) == 0 ? heavy : 1 + below(3);
    int32_t links = kind == 0 ? 0 : kind == 1 ? 2 * n : 3 * n;
    for (int32_t k = 0; k < links; k++) { // springs between unknowns
        int32_t i = below(n), j = below(n);
        double s = kind == 1 ? 1 + below(5) : uniform() * 100;
        if (i == j) continue;
        dense[i][i] += s;
        dense[j][j] += s;
        dense[i][j] -= s;
        dense[j][i] -= s;
    }
    for (int32_t j = 0; j < n; j++) {
        start[j] = at;
        for (int32_t i = j; i < n; i++)
            if (i == j || dense[i][j] != 0 || kind == 2) row[at++] = i;
    }
    start[n] = at;
    assert_ok(qpc_linsys_resize_sparse(&q.K, n, start, row, &err), &err);
    for (int32_t j = 0; j < n; j++)
        for (int32_t k = start[j]; k < start[j + 1]; k++) q.K.value[k] = dense[row[k]][j];
    assert_ok(qpc_linsys_factor(&q.K, &err), &err);
}

static void add_row(const double *dense, double c, bool equality) {
    int32_t i = q.qp.m++, at = q.start[i];
    for (int32_t j = 0; j < q.qp.n; j++) {
        if (dense[j] == 0) continue;
        q.column[at] = j;
        q.value[at++] = dense[j];
    }
    q.start[i + 1] = at;
    q.c[i] = c;
    q.equality[i] = equality;
    q.key[i] = (uint64_t)below(50); // ties of keys, too
}

/// c of a row at the known point: met exactly, or with whole-number room.
static double bound_at(const double *dense) {
    double v = 0;
    for (int32_t j = 0; j < q.qp.n; j++) v += dense[j] * q.feasible[j];
    return v;
}

static void make(uint64_t s) {
    qpc_linsys K = q.K;
    memset(&q, 0, sizeof q);
    q.K = K;
    seed = s * 7907 + 11;
    int32_t n = q.qp.n = 1 + below(below(2) ? 8 : N_MOST), rows = 1 + below(M_MOST - 20);
    make_K(n);
    for (int32_t j = 0; j < n; j++) {
        q.feasible[j] = below(7) - 3;
        q.b[j] = below(5) == 0 ? 0 : (double)(below(41) - 20);
    }
    if (below(5) == 0) memset(q.b, 0, sizeof q.b);
    int32_t equalities = 0;
    while (q.qp.m < rows) {
        double row[N_MOST] = {0};
        int32_t from = q.qp.m > 0 ? below(q.qp.m) : 0, how = q.qp.m > 0 ? below(6) : 5;
        bool equality = below(12) == 0 && equalities < n + 3;
        if (how == 0 || how == 1) { // a copy, scaled, or the sum of two rows
            double factor = how == 0 ? 1 + below(3) : 1;
            for (int32_t k = q.start[from]; k < q.start[from + 1]; k++)
                row[q.column[k]] += factor * q.value[k];
            from = below(q.qp.m);
            for (int32_t k = q.start[from]; how == 1 && k < q.start[from + 1]; k++)
                row[q.column[k]] += q.value[k];
        } else if (how != 2 || below(10) != 0) { // a few whole numbers; else an empty row
            for (int32_t k = 1 + below(4); k > 0; k--) row[below(n)] = below(5) - 2;
        }
        double room = equality || below(3) != 0 ? 0 : below(4);
        add_row(row, bound_at(row) + room, equality);
        equalities += equality;
    }
    if (s % 3 == 2) { // each row in a unit of its own
        for (int32_t i = 0; i < q.qp.m; i++) {
            double unit = pow(10, 12 * uniform() - 6);
            for (int32_t k = q.start[i]; k < q.start[i + 1]; k++) q.value[k] *= unit;
            q.c[i] *= unit;
        }
    }
    qpc_qp qp = {.n = n,
                 .m = q.qp.m,
                 .sys = &q.K,
                 .b = q.b,
                 .row_start = q.start,
                 .column = q.column,
                 .value = q.value,
                 .c = q.c,
                 .equality = q.equality,
                 .priority = q.priority,
                 .key = q.key};
    q.qp = qp;
}

static qpc_solver_report solve(double *x, double *l, qpc_certificate *c) {
    qpc_error err = {0};
    qpc_solver_report report;
    qpc_solver_options options = instance_options();
    qpc_arena_reset(&arena);
    assert_ok(qpc_solve(QPC_SOLVER_ACTIVE_SET, &q.qp, &options, &arena, x, l, &report, &err), &err);
    assert_ok(qpc_certify(&q.qp, x, l, &arena, c, &err), &err);
    return report;
}

static int32_t turns = 1500;

static void feasible_ones_are_solved_from_any_start(void **state) {
    (void)state;
    for (int32_t turn = 0; turn < turns; turn++) {
        double x[N_MOST], first[N_MOST], l[M_MOST] = {0};
        make((uint64_t)turn);
        for (int32_t start = 0; start < 3; start++) {
            qpc_certificate c;
            for (int32_t i = 0; start == 1 && i < q.qp.m; i++) l[i] = 10 * uniform();
            qpc_solver_report report = solve(x, l, &c); // the third from what the second left
            if (report.outcome != QPC_OUTCOME_OPTIMAL ||
                !(c.stat <= 1e-9 && c.prim <= 1e-9 && c.dual <= 0) || !(c.comp <= 1e-12))
                fail_msg("turn %d start %d: outcome %d stat %g prim %g dual %g comp %g", turn,
                         start, report.outcome, c.stat, c.prim, c.dual, c.comp);
            if (start == 0) memcpy(first, x, sizeof x);
            double d[N_MOST], e[N_MOST], sum = 0;
            for (int32_t i = 0; i < q.qp.n; i++) d[i] = x[i] - first[i];
            qpc_linsys_multiply(&q.K, d, e);
            for (int32_t i = 0; i < q.qp.n; i++) sum += d[i] * e[i];
            if (!(sqrt(fabs(sum)) <= 1e-10 * c.scale))
                fail_msg("turn %d: x differs by %g", turn, sqrt(fabs(sum)) / c.scale);
        }
    }
}

static void contradictions_are_proved(void **state) {
    (void)state;
    for (int32_t turn = 0; turn < turns; turn++) {
        double x[N_MOST], l[M_MOST] = {0}, row[N_MOST] = {0};
        qpc_certificate c;
        make(100000 + (uint64_t)turn);
        // The opposite of a sum of rows, with less room than there is. (Rows whose units differ by
        // 1e12 would need multipliers that differ by as much: summed in units of their own.)
        double bound = 0;
        for (int32_t k = 1 + below(3); k > 0; k--) {
            int32_t from = below(q.qp.m);
            double unit = 0;
            for (int32_t i = q.start[from]; i < q.start[from + 1]; i++)
                unit = fmax(unit, fabs(q.value[i]));
            if (unit == 0) continue;
            for (int32_t i = q.start[from]; i < q.start[from + 1]; i++)
                row[q.column[i]] -= q.value[i] / unit;
            bound -= q.c[from] / unit;
        }
        for (int32_t j = 0; j < q.qp.n; j++) // what cancels, cancels
            if (fabs(row[j]) < 1e-12) row[j] = 0;
        add_row(row, bound - 1 - below(3), false);
        qpc_solver_report report = solve(x, l, &c);
        if (report.outcome != QPC_OUTCOME_INFEASIBLE)
            fail_msg("turn %d: outcome %d", turn, report.outcome);
        // The added row is the only one that contradicts.
        bool named = false;
        for (int32_t i = 0; i < qpc_conflict_named(&report); i++)
            named = named || report.conflict_row[i] == q.qp.m - 1;
        if (!named)
            fail_msg("turn %d: row not named", turn);
    }
}

static int teardown(void **state) {
    (void)state;
    qpc_linsys_fini(&q.K);
    qpc_arena_fini(&arena);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1) turns = atoi(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(feasible_ones_are_solved_from_any_start),
        cmocka_unit_test(contradictions_are_proved),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
