/// Sparse factor of K + J'RJ against dense elimination; QPs of coils, where rows reach from turn to
/// turn, by the augmented Lagrangian alone against active-set.
#include "engine/solver/sparse.h"

#include "engine/solver/rows.h"
#include "engine/solver/solver.h"
#include "tests/support/check.h"
#include "tests/support/faults.h"

#include <stdlib.h>

static qpc_arena arena;
static uint64_t seed;
static double uniform(void) { // in [-1, 1)
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (double)(int64_t)(seed >> 11) / (double)(1LL << 52) - 1;
}

enum { N_MOST = 300, M_MOST = 1200, NNZ = 12 * M_MOST };
typedef struct problem {
    qpc_linsys sys;
    qpc_qp qp;
    int32_t row_start[M_MOST + 1], column[NNZ];
    double value[NNZ], c[M_MOST], b[3 * N_MOST];
    uint8_t equality[M_MOST], priority[M_MOST];
    uint64_t key[M_MOST];
} problem;
static problem p;

/// A chain: K = M + springs, half bandwidth 5 with full 3x3 blocks, or some other band.
static void make_K(int32_t n, int32_t w) {
    qpc_error err = {0};
    p.sys = (qpc_linsys){0};
    assert_ok(qpc_linsys_resize(&p.sys, n, w, &err), &err);
    for (int32_t i = 0; i < n; i++) {
        qpc_linsys_add(&p.sys, i, i, 1 + uniform() / 2);
        for (int32_t j = i > w ? i - w : 0; j < i; j++) {
            double v = uniform(); // adds v (e_i - e_j)(e_i - e_j)' of a random sign: definite
            if (v > 0.6) continue;
            qpc_linsys_add(&p.sys, i, i, fabs(v));
            qpc_linsys_add(&p.sys, j, j, fabs(v));
            qpc_linsys_add(&p.sys, i, j, v);
        }
    }
    assert_ok(qpc_linsys_factor(&p.sys, &err), &err);
    p.qp = (qpc_qp){.n = n, .sys = &p.sys, .b = p.b, .row_start = p.row_start, .column = p.column,
                    .value = p.value, .c = p.c, .equality = p.equality, .priority = p.priority,
                    .key = p.key};
    for (int32_t i = 0; i < n; i++) p.b[i] = uniform();
    memset(p.equality, 0, sizeof p.equality);
    memset(p.priority, 1, sizeof p.priority);
}

/// A row on the unknowns of nodes a, a + 1 and b, b + 1 (a + 1 < b), as two links of a cable in contact.
static void add_link_row(int32_t a, int32_t b) {
    int32_t at = p.row_start[p.qp.m], node[4] = {a, a + 1, b, b + 1};
    double s = 0.5 + uniform() / 2, t = 0.5 + uniform() / 2, normal[3] = {uniform(), uniform(), uniform()};
    double weight[4] = {-(1 - s), -s, 1 - t, t};
    for (int k = 0; k < 4; k++)
        for (int d = 0; d < 3; d++) {
            if (3 * node[k] + d >= p.qp.n) continue;
            p.column[at] = 3 * node[k] + d;
            p.value[at++] = weight[k] * normal[d];
        }
    p.c[p.qp.m] = 0.3 * uniform();
    p.key[p.qp.m] = (uint64_t)p.qp.m;
    p.row_start[++p.qp.m] = at;
}

/// x = (K + sum weight_i J_i'J_i)^-1 rhs by Gauss elimination; the matrix is definite.
static void dense_solve(const double *weight, const double *rhs, double *x) {
    int32_t n = p.qp.n, w = p.sys.bandwidth;
    double *A = calloc((size_t)n * (size_t)n, sizeof *A);
    assert_non_null(A);
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = i > w ? i - w : 0; j <= i; j++)
            A[i * n + j] = A[j * n + i] = p.sys.band[i * (w + 1) + j - i + w];
    for (int32_t r = 0; r < p.qp.m; r++)
        for (int32_t k = p.row_start[r]; k < p.row_start[r + 1]; k++)
            for (int32_t l = p.row_start[r]; l < p.row_start[r + 1]; l++)
                A[p.column[k] * n + p.column[l]] += weight[r] * p.value[k] * p.value[l];
    memcpy(x, rhs, (size_t)n * sizeof *x);
    for (int32_t k = 0; k < n; k++)
        for (int32_t i = k + 1; i < n; i++) {
            double f = A[i * n + k] / A[k * n + k];
            for (int32_t j = k; f != 0 && j < n; j++) A[i * n + j] -= f * A[k * n + j];
            x[i] -= f * x[k];
        }
    for (int32_t i = n - 1; i >= 0; i--) {
        for (int32_t j = i + 1; j < n; j++) x[i] -= A[i * n + j] * x[j];
        x[i] /= A[i * n + i];
    }
    free(A);
}

static void solves_agree_with_dense_elimination(void **state) {
    (void)state;
    double x[N_MOST], y[N_MOST], weight[200], rhs[N_MOST];
    for (int round = 0; round < 60; round++) {
        seed = 77 + (uint64_t)round;
        int32_t n = 13 + round * 2, rows = 3 * (round % 13); // n of every rest by 3
        make_K(n, round % 3 == 0 ? 5 : 1 + round % 8);
        for (int32_t i = 0; i < rows; i++) {
            int32_t a = (int32_t)(fabs(uniform()) * (n / 3 - 4));
            add_link_row(a, a + 2 + (int32_t)(fabs(uniform()) * (n / 3 - 4 - a)));
        }
        qpc_sparse s;
        bool fits = false;
        assert_true(qpc_sparse_analyse(&s, &arena, &p.qp, INT64_MAX, &fits));
        assert_true(fits);
        for (int set = 0; set < 3; set++) { // rows come and go, values are made anew
            qpc_sparse_load(&s);
            for (int32_t i = 0; i < rows; i++) {
                weight[i] = uniform() > 0 ? 0 : pow(10, 3 * uniform());
                if (weight[i] > 0) qpc_sparse_add_row(&s, i, weight[i]);
            }
            for (int32_t i = 0; i < n; i++) x[i] = rhs[i] = uniform();
            assert_true(qpc_sparse_factor(&s));
            qpc_sparse_solve(&s, x, x); // in place
            dense_solve(weight, rhs, y);
            // condition up to about 1e5, |x| about 1
            for (int32_t i = 0; i < n; i++) assert_near(x[i], y[i], 1e-9);
        }
        qpc_linsys_fini(&p.sys);
        qpc_arena_reset(&arena);
    }
}

static void what_is_not_definite_or_too_full_is_refused(void **state) {
    (void)state;
    seed = 5;
    make_K(60, 5);
    for (int32_t a = 0; a < 17; a++) add_link_row(a, a + 2);
    qpc_sparse s;
    bool fits = true;
    assert_true(qpc_sparse_analyse(&s, &arena, &p.qp, 60, &fits));
    assert_false(fits);
    assert_true(qpc_sparse_analyse(&s, &arena, &p.qp, 100000, &fits));
    assert_true(fits && s.products > 60 && s.products <= 100000);
    for (double weight = -1e3; weight != 0; weight = weight < -1e300 ? NAN : weight == -1e3 ? -INFINITY : 0) {
        qpc_sparse_load(&s);
        for (int32_t i = 0; i < p.qp.m; i++) qpc_sparse_add_row(&s, i, weight);
        assert_false(qpc_sparse_factor(&s));
        if (isnan(weight)) break;
    }
    qpc_sparse_load(&s);
    assert_true(qpc_sparse_factor(&s));
    QPC_FAULTS(f) {
        qpc_arena own = {0};
        bool done = qpc_sparse_analyse(&s, &own, &p.qp, 100000, &fits);
        qpc_arena_fini(&own);
        qpc_faults_ended(&f, done ? QPC_OK : QPC_ERR_MEMORY);
    }
    qpc_linsys_fini(&p.sys);
    qpc_arena_reset(&arena);
}

/// w turns of k nodes: link i touches link i + k and its neighbours. Structure and effort stay linear.
static void a_coil_costs_in_proportion_to_its_length(void **state) {
    (void)state;
    int64_t products[2];
    for (int size = 0; size < 2; size++) {
        int32_t around = size == 0 ? 20 : 40, nodes = 4 * around;
        seed = 9;
        make_K(3 * nodes, 5);
        for (int32_t i = 0; i + around + 1 < nodes - 1; i++)
            for (int32_t k = -1; k <= 1; k++)
                if (i + around + k < nodes - 1) add_link_row(i, i + around + k);
        qpc_sparse s;
        bool fits;
        assert_true(qpc_sparse_analyse(&s, &arena, &p.qp, INT64_MAX, &fits));
        products[size] = s.products;
        qpc_linsys_fini(&p.sys);
        qpc_arena_reset(&arena);
    }
    assert_true(products[1] < 3 * products[0]);
}

static void coils_are_solved_without_a_fallback(void **state) {
    (void)state;
    static double x[3 * N_MOST], y[3 * N_MOST], lambda[M_MOST], mu[M_MOST];
    int32_t most = 0;
    for (int round = 0; round < 12; round++) {
        int32_t around = 10 + 2 * round, nodes = 4 * around;
        seed = 1000 + (uint64_t)round;
        make_K(3 * nodes, 5);
        for (int32_t i = 0; i + around + 1 < nodes - 1; i++)
            for (int32_t k = -1; k <= 1; k++)
                if (i + around + k < nodes - 1) add_link_row(i, i + around + k);
        for (int32_t i = 0; i < p.qp.m; i++) p.c[i] = 0.05 + 0.1 * uniform(); // mostly feasible at rest
        for (int32_t i = 0; i < p.qp.n; i++) p.b[i] = 3 * uniform();
        qpc_solver_options options = qpc_solver_options_default();
        qpc_solver_report report, other;
        qpc_error err = {0};
        memset(lambda, 0, sizeof lambda);
        memset(mu, 0, sizeof mu);
        assert_ok(qpc_solve(QPC_SOLVER_ACTIVE_SET, &p.qp, &options, &arena, y, mu, &other, &err), &err);
        assert_ok(qpc_solve(QPC_SOLVER_AUTO, &p.qp, &options, &arena, x, lambda, &report, &err), &err);
        if (other.outcome == QPC_OUTCOME_OPTIMAL) {
            assert_int_equal(report.outcome, QPC_OUTCOME_OPTIMAL);
            assert_false(report.fell_back);
            for (int32_t i = 0; i < p.qp.n; i++) assert_near(x[i], y[i], 1e-6); // residuals of 1e-8
            if (report.active > most) most = report.active;
            // warm: the same answer in a few steps
            assert_ok(qpc_solve(QPC_SOLVER_AUTO, &p.qp, &options, &arena, y, lambda, &other, &err), &err);
            assert_int_equal(other.outcome, QPC_OUTCOME_OPTIMAL);
            for (int32_t i = 0; i < p.qp.n; i++) assert_near(x[i], y[i], 1e-6);
            assert_true(other.iterations <= report.iterations);
        }
        qpc_linsys_fini(&p.sys);
        qpc_arena_reset(&arena);
    }
    assert_true(most > 30); // far rows beyond what Woodbury is asked for
}

static int finish(void **state) {
    (void)state;
    qpc_arena_fini(&arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(solves_agree_with_dense_elimination),
        cmocka_unit_test(what_is_not_definite_or_too_full_is_refused),
        cmocka_unit_test(a_coil_costs_in_proportion_to_its_length),
        cmocka_unit_test(coils_are_solved_without_a_fallback),
    };
    return cmocka_run_group_tests(tests, NULL, finish);
}
