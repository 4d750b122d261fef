/// K + J'DJ against dense sums and elimination, both storages of K; refilling; faults.
#include "engine/solver/normal.h"

#include "tests/support/check.h"
#include "tests/support/faults.h"

#include <stdlib.h>

enum { N = 120, M = 90 };

static uint64_t seed = 1;
static double uniform(void) { // in [-1, 1)
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (double)(int64_t)(seed >> 11) / (double)(1LL << 52) - 1;
}
static int32_t below(int32_t count) {
    return (int32_t)((uniform() + 1) / 2 * count);
}

static struct {
    int32_t n, m;
    double K[N][N], J[M][N], b[N], c[M], weight[M];
    uint8_t use[M], has[M][N]; // has: in the pattern, be the value zero or not
    qpc_linsys sys;
    int32_t row_start[M + 1], column[M * N];
    double value[M * N];
    qpc_qp qp;
} t;

/// K from t.K, in a band or sparse.
static void store_k(bool sparse) {
    qpc_error err = {0};
    static int32_t start[N + 1], row[N * N];
    int32_t width = 0, at = 0;
    for (int32_t j = 0; j < t.n; j++) {
        start[j] = at;
        for (int32_t i = j; i < t.n; i++) {
            if (i != j && t.K[i][j] == 0) continue;
            row[at++] = i;
            if (i - j > width) width = i - j;
        }
    }
    start[t.n] = at;
    if (sparse)
        assert_ok(qpc_linsys_resize_sparse(&t.sys, t.n, start, row, &err), &err);
    else
        assert_ok(qpc_linsys_resize(&t.sys, t.n, width, &err), &err);
    for (int32_t j = 0; j < t.n; j++)
        for (int32_t k = start[j]; k < start[j + 1]; k++)
            *qpc_linsys_entry(&t.sys, row[k], j) = t.K[row[k]][j];
}

static void fill_k(void) {
    for (int32_t i = 0; i < t.n; i++) t.K[i][i] = 1;
    for (int32_t i = 0; i < t.n; i++) {
        for (int32_t j = 0; j < i; j++) {
            if (t.K[i][j] == 0) continue;
            t.K[i][j] = t.K[j][i] = uniform();
            t.K[i][i] += fabs(t.K[i][j]);
            t.K[j][j] += fabs(t.K[i][j]);
        }
    }
}

static void fill_j(void) {
    int32_t at = 0;
    for (int32_t i = 0; i < t.m; i++) {
        t.row_start[i] = at;
        for (int32_t j = 0; j < t.n; j++) {
            t.J[i][j] = 0;
            if (!t.has[i][j]) continue;
            t.J[i][j] = below(9) == 0 ? 0 : uniform(); // stored zeros, too
            t.column[at] = j;
            t.value[at++] = t.J[i][j];
        }
    }
    t.row_start[t.m] = at;
    t.qp = (qpc_qp){.n = t.n,
                    .m = t.m,
                    .sys = &t.sys,
                    .b = t.b,
                    .row_start = t.row_start,
                    .column = t.column,
                    .value = t.value,
                    .c = t.c};
}

/// Rows of few entries, of the same columns as the row before, empty ones, and from `dense` on full
/// or half full.
static void make(int32_t n, int32_t m, int32_t band, int32_t dense, bool sparse) {
    t.n = n;
    t.m = m;
    memset(t.K, 0, sizeof t.K);
    memset(t.has, 0, sizeof t.has);
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < i; j++) t.K[i][j] = i - j <= band && below(3) > 0;
    fill_k();
    store_k(sparse);
    for (int32_t i = 0; i < m; i++) {
        t.use[i] = below(4) > 0;
        if (i > 0 && below(2)) {
            memcpy(t.has[i], t.has[i - 1], sizeof t.has[i]);
        } else if (i >= dense) {
            int32_t skip = below(2);
            for (int32_t j = 0; j < n; j++) t.has[i][j] = !skip || below(2);
        } else {
            int32_t entries = below(5) == 0 ? 0 : 1 + below(12);
            for (int32_t k = 0; k < entries; k++) t.has[i][below(n)] = 1;
        }
    }
    fill_j();
}

static double dense_sum(int32_t i, int32_t j) {
    double s = i >= j ? t.K[i][j] : t.K[j][i];
    for (int32_t r = 0; r < t.m; r++) s += t.weight[r] * t.J[r][i] * t.J[r][j];
    return s;
}

/// The factor solves (K + J'DJ) x = rhs, checked by the dense product.
static void check_factor(qpc_normal *normal, bool with_use) {
    qpc_error err = {0};
    double x[N], rhs[N], in_place[N], largest = 0;
    for (int32_t i = 0; i < t.m; i++)
        t.weight[i] = with_use && !t.use[i] ? 0 : below(5) == 0 ? 0 : pow(10, 3 * uniform());
    assert_ok(qpc_normal_factor(normal, &t.qp, t.weight, &err), &err);
    for (int32_t i = 0; i < t.n; i++) in_place[i] = rhs[i] = uniform();
    assert_ok(qpc_normal_solve(normal, rhs, x, &err), &err);
    for (int32_t i = 0; i < t.n; i++)
        if (fabs(x[i]) > largest) largest = fabs(x[i]);
    for (int32_t i = 0; i < t.n; i++) {
        double sum = 0, size = 1;
        for (int32_t j = 0; j < t.n; j++) {
            sum += dense_sum(i, j) * x[j];
            size += fabs(dense_sum(i, j)) * largest;
        }
        assert_near(sum, rhs[i], 1e-13 * size); // backward error of a Cholesky solve, n = 120
    }
    assert_ok(qpc_normal_solve(normal, in_place, in_place, &err), &err);
    assert_memory_equal(x, in_place, (size_t)t.n * sizeof *x);
}

static void factors_agree_with_dense_sums(void **state) {
    (void)state;
    qpc_error err = {0};
    for (int32_t round = 0; round < 160; round++) {
        bool sparse = round % 2 != 0, with_use = round % 4 >= 2;
        int32_t n = round < 100 ? 1 + below(20) : 40 + below(N - 40);
        make(n, below(round < 100 ? 12 : M), below(n < 30 ? n : 30), 1 + below(M), sparse);
        qpc_normal *normal;
        assert_ok(qpc_normal_create(&t.qp, with_use ? t.use : NULL, &normal, &err), &err);
        assert_true(qpc_normal_entries(normal) >= t.n);
        assert_true(qpc_normal_operations(normal) >= t.n);
        check_factor(normal, with_use);
        check_factor(normal, with_use); // other weights
        fill_k();                       // other values
        store_k(sparse);
        fill_j();
        check_factor(normal, with_use);
        qpc_normal_destroy(normal);
    }
    qpc_linsys_fini(&t.sys);
    assert_int_equal(qpc_mem_live_blocks(), 0);
}

static void dense_rows_and_many_copies(void **state) {
    (void)state;
    qpc_error err = {0};
    for (int32_t round = 0; round < 6; round++) {
        make(N, M, 2, 0, round % 2 != 0);
        if (round >= 2) // all of one pattern, in more than one group
            for (int32_t i = 0; i < M; i++)
                for (int32_t j = 0; j < N; j++) t.has[i][j] = round >= 4 ? j < 5 : j % 2 == 0;
        fill_j();
        qpc_normal *normal;
        assert_ok(qpc_normal_create(&t.qp, NULL, &normal, &err), &err);
        check_factor(normal, false);
        qpc_normal_destroy(normal);
    }
    qpc_linsys_fini(&t.sys);
}

static void the_same_input_gives_the_same_bits(void **state) {
    (void)state;
    qpc_error err = {0};
    double x[2][N], rhs[N];
    make(N, M, 5, M / 2, true);
    for (int32_t i = 0; i < M; i++) t.weight[i] = pow(10, 3 * uniform());
    for (int32_t i = 0; i < N; i++) rhs[i] = uniform();
    for (int32_t k = 0; k < 2; k++) {
        qpc_normal *normal;
        assert_ok(qpc_normal_create(&t.qp, NULL, &normal, &err), &err);
        for (int32_t again = 0; again <= k; again++)
            assert_ok(qpc_normal_factor(normal, &t.qp, t.weight, &err), &err);
        assert_ok(qpc_normal_solve(normal, rhs, x[k], &err), &err);
        qpc_normal_destroy(normal);
    }
    assert_memory_equal(x[0], x[1], sizeof x[0]);
    qpc_linsys_fini(&t.sys);
}

static void what_is_not_positive_definite_is_refused(void **state) {
    (void)state;
    qpc_error err = {0};
    make(30, 20, 3, 20, true);
    qpc_normal *normal;
    assert_ok(qpc_normal_create(&t.qp, NULL, &normal, &err), &err);
    for (int32_t i = 0; i < t.m; i++) t.weight[i] = 0;
    *qpc_linsys_entry(&t.sys, 7, 7) = -3;
    assert_fails(qpc_normal_factor(normal, &t.qp, t.weight, &err), QPC_ERR_NUMERIC, &err, "row 7");
    *qpc_linsys_entry(&t.sys, 7, 7) = t.K[7][7];
    for (int32_t i = 0; i < t.m; i++) t.weight[i] = (double)NAN;
    assert_fails(qpc_normal_factor(normal, &t.qp, t.weight, &err), QPC_ERR_NUMERIC, &err, "");
    check_factor(normal, false); // good again
    qpc_normal_destroy(normal);
    qpc_normal_destroy(NULL);
    qpc_linsys_fini(&t.sys);
}

static void nothing_leaks_when_memory_runs_out(void **state) {
    (void)state;
    for (int32_t sparse = 0; sparse < 2; sparse++) {
        seed = 5;
        make(60, 40, 3, 30, sparse != 0);
        for (int32_t i = 0; i < t.m; i++) t.weight[i] = 1;
        QPC_FAULTS(f) {
            qpc_error err = {0};
            double x[N] = {0};
            qpc_normal *normal = NULL;
            qpc_status st = qpc_normal_create(&t.qp, NULL, &normal, &err);
            if (st == QPC_OK) st = qpc_normal_factor(normal, &t.qp, t.weight, &err);
            if (st == QPC_OK) st = qpc_normal_solve(normal, x, x, &err);
            // The analysis may do without what one of its attempts wanted: it goes on with another
            // then.
            qpc_mem_disarm();
            assert_true(st == QPC_OK || (st == QPC_ERR_MEMORY && qpc_mem_failed()));
            if (st == QPC_OK) check_factor(normal, false);
            qpc_normal_destroy(normal);
        }
    }
    qpc_linsys_fini(&t.sys);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_agree_with_dense_sums),
        cmocka_unit_test(dense_rows_and_many_copies),
        cmocka_unit_test(the_same_input_gives_the_same_bits),
        cmocka_unit_test(what_is_not_positive_definite_is_refused),
        cmocka_unit_test(nothing_leaks_when_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
