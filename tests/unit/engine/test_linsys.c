/// Banded factor and solves against dense elimination.
#include "engine/dynamics/linsys.h"

#include "tests/support/check.h"
#include "tests/support/faults.h"

#include <stdlib.h>

static uint64_t seed = 1;
static double uniform(void) { // in [-1, 1)
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (double)(int64_t)(seed >> 11) / (double)(1LL << 52) - 1;
}

/// Random positive definite band matrix: diagonally dominant in part, indefinite parts pushed up.
static void fill(qpc_linsys *sys, int32_t n, int32_t w, double *dense) {
    qpc_error err = {0};
    assert_ok(qpc_linsys_resize(sys, n, w, &err), &err);
    w = sys->bandwidth;
    memset(dense, 0, (size_t)n * (size_t)n * sizeof *dense);
    for (int32_t i = 0; i < n; i++) {
        for (int32_t j = i - w > 0 ? i - w : 0; j < i; j++) {
            double v = uniform();
            if (v > 0.5) v = 0; // zeros inside the band, too
            qpc_linsys_add(sys, i, j, v);
            dense[i * n + j] = dense[j * n + i] = v;
        }
    }
    for (int32_t i = 0; i < n; i++) {
        double sum = 0.1 + 0.05 * (uniform() + 1);
        for (int32_t j = 0; j < n; j++) sum += fabs(dense[i * n + j]);
        qpc_linsys_add(sys, i, i, sum);
        dense[i * n + i] = sum;
    }
}

/// x = A^-1 b by elimination with row exchanges; A and b are overwritten.
static void eliminate(int32_t n, double *A, double *b) {
    for (int32_t k = 0; k < n; k++) {
        int32_t best = k;
        for (int32_t i = k + 1; i < n; i++)
            if (fabs(A[i * n + k]) > fabs(A[best * n + k])) best = i;
        for (int32_t j = 0; j < n; j++) {
            double t = A[k * n + j];
            A[k * n + j] = A[best * n + j];
            A[best * n + j] = t;
        }
        double t = b[k];
        b[k] = b[best];
        b[best] = t;
        for (int32_t i = k + 1; i < n; i++) {
            double f = A[i * n + k] / A[k * n + k];
            for (int32_t j = k; j < n; j++) A[i * n + j] -= f * A[k * n + j];
            b[i] -= f * b[k];
        }
    }
    for (int32_t i = n - 1; i >= 0; i--) {
        for (int32_t j = i + 1; j < n; j++) b[i] -= A[i * n + j] * b[j];
        b[i] /= A[i * n + i];
    }
}

enum { MOST = 48 };

static void solves_agree_with_dense_elimination(void **state) {
    (void)state;
    static double dense[MOST * MOST];
    const int32_t widths[] = {0, 1, 2, 3, 5, 6, 11, MOST};
    qpc_linsys sys = {0};
    qpc_error err = {0};
    for (int32_t n = 1; n <= MOST; n++) {
        for (size_t k = 0; k < sizeof widths / sizeof *widths; k++) {
            double rhs[MOST], x[MOST], y[MOST], want[MOST], block[4 * MOST];
            fill(&sys, n, widths[k], dense);
            assert_ok(qpc_linsys_factor(&sys, &err), &err);
            for (int32_t i = 0; i < n; i++) want[i] = rhs[i] = uniform();
            qpc_linsys_solve(&sys, rhs, x);
            qpc_linsys_multiply(&sys, x, y);
            for (int32_t i = 0; i < n; i++) {
                double sum = 0;
                for (int32_t j = 0; j < n; j++) sum += dense[i * n + j] * x[j];
                assert_near(y[i], sum, 1e-12);    // multiply against the dense product
                assert_near(y[i], rhs[i], 1e-12); // diagonally dominant: condition near 1
                for (int32_t c = 0; c < 4; c++) block[4 * i + c] = (c - 1.5) * rhs[i];
            }
            qpc_linsys_solve_block(&sys, block);
            eliminate(n, dense, want);
            for (int32_t i = 0; i < n; i++) {
                assert_near(x[i], want[i], 1e-12);
                for (int32_t c = 0; c < 4; c++)
                    assert_near(block[4 * i + c], (c - 1.5) * want[i], 1e-11);
            }
            qpc_linsys_solve(&sys, rhs, rhs); // in place
            assert_memory_equal(rhs, x, (size_t)n * sizeof *x);
        }
    }
    qpc_linsys_fini(&sys);
}

static void a_matrix_that_is_not_positive_definite_is_refused_by_row(void **state) {
    (void)state;
    qpc_linsys sys = {0};
    qpc_error err = {0};
    const int32_t widths[] = {1, 5, 8};
    for (int32_t k = 0; k < 3; k++) {
        assert_ok(qpc_linsys_resize(&sys, 12, widths[k], &err), &err);
        for (int32_t i = 0; i < 12; i++) qpc_linsys_add(&sys, i, i, i == 7 ? -1.0 : 1.0);
        assert_fails(qpc_linsys_factor(&sys, &err), QPC_ERR_NUMERIC, &err, "row 7");
        qpc_linsys_add(&sys, 7, 7, 1.0); // now zero
        assert_fails(qpc_linsys_factor(&sys, &err), QPC_ERR_NUMERIC, &err, "row 7");
        qpc_linsys_add(&sys, 7, 7, (double)NAN);
        assert_fails(qpc_linsys_factor(&sys, &err), QPC_ERR_NUMERIC, &err, "row 7");
        qpc_linsys_clear(&sys);
        for (int32_t i = 0; i < 12; i++) qpc_linsys_add(&sys, i, i, 1.0);
        qpc_linsys_add(&sys, 4, 3, 1.0); // semidefinite: [1 1; 1 1]
        assert_fails(qpc_linsys_factor(&sys, &err), QPC_ERR_NUMERIC, &err, "row 4");
        qpc_linsys_add(&sys, 5, 5, (double)INFINITY);
        qpc_linsys_add(&sys, 4, 4, 1.0);
        assert_fails(qpc_linsys_factor(&sys, &err), QPC_ERR_NUMERIC, &err, "row 5");
    }
    qpc_linsys_fini(&sys);
}

static void smaller_systems_reuse_the_memory(void **state) {
    (void)state;
    qpc_linsys sys = {0};
    qpc_error err = {0};
    assert_ok(qpc_linsys_resize(&sys, 300, 5, &err), &err);
    uint64_t before = qpc_mem_thread_allocations();
    assert_ok(qpc_linsys_resize(&sys, 30, 5, &err), &err);
    assert_ok(qpc_linsys_resize(&sys, 30, 29, &err), &err);
    assert_ok(qpc_linsys_resize(&sys, 300, 5, &err), &err);
    assert_int_equal(qpc_mem_thread_allocations(), before);
    assert_ok(qpc_linsys_resize(&sys, 3, 5, &err), &err);
    assert_int_equal(sys.bandwidth, 2); // no wider than the matrix
    assert_ok(qpc_linsys_resize(&sys, 0, 5, &err), &err);
    assert_ok(qpc_linsys_factor(&sys, &err), &err);
    assert_fails(qpc_linsys_resize(&sys, -1, 5, &err), QPC_ERR_INVALID, &err, "-1");
    qpc_linsys_fini(&sys);
    qpc_linsys_fini(&sys);
}

static void a_failed_resize_leaves_the_old_system(void **state) {
    (void)state;
    QPC_FAULTS(f) {
        qpc_linsys sys = {0};
        qpc_error err = {0};
        qpc_status status = qpc_linsys_resize(&sys, 9, 5, &err);
        if (qpc_faults_ended(&f, status))
            assert_int_equal(sys.n, 9);
        else
            assert_int_equal(sys.n, 0);
        qpc_linsys_fini(&sys);
    }
}

static void a_factor_can_go_on_from_a_changed_row(void **state) {
    (void)state;
    static double dense[MOST * MOST], whole[MOST * (MOST + 1)];
    const int32_t widths[] = {1, 5, 9, MOST};
    qpc_linsys sys = {0};
    qpc_error err = {0};
    for (size_t k = 0; k < sizeof widths / sizeof *widths; k++) {
        for (int32_t n = 2; n <= MOST; n += 7) {
            for (int32_t from = 0; from <= n; from += 3) {
                fill(&sys, n, widths[k], dense);
                assert_ok(qpc_linsys_factor(&sys, &err), &err);
                int32_t w = sys.bandwidth;
                for (int32_t i = from; i < n; i++) qpc_linsys_add(&sys, i, i, 1 + uniform());
                assert_int_equal(qpc_band_factor(n, w, sys.band, whole, 0), -1);
                assert_int_equal(qpc_band_factor(n, w, sys.band, sys.factor, from), -1);
                assert_memory_equal(whole, sys.factor, (size_t)n * (size_t)(w + 1) * 8);
            }
        }
    }
    qpc_linsys_fini(&sys);
}

static void work_is_counted(void **state) {
    (void)state;
    qpc_linsys sys = {0};
    qpc_error err = {0};
    double x[8] = {1};
    assert_ok(qpc_linsys_resize(&sys, 2, 1, &err), &err);
    qpc_linsys_add(&sys, 0, 0, 2);
    qpc_linsys_add(&sys, 1, 1, 4);
    assert_ok(qpc_linsys_factor(&sys, &err), &err);
    qpc_linsys_solve(&sys, x, x);
    qpc_linsys_solve_block(&sys, x);
    assert_int_equal(sys.factorizations, 1);
    assert_int_equal(sys.solves, 5);
    assert_near(sys.diagonal[1], 4, 0);
    qpc_linsys_fini(&sys);
}

/// A random pattern of order n: the same matrix in both storages gives the same products and solves.
static void any_pattern_solves_as_the_dense_matrix_does(void **state) {
    (void)state;
    enum { LARGEST = 90 };
    static double dense[LARGEST * LARGEST], b[LARGEST], x[LARGEST], y[LARGEST], block[LARGEST * QPC_LINSYS_BLOCK];
    for (int32_t n = 1; n <= LARGEST; n += n < 10 ? 1 : 16) {
        qpc_linsys full = {0}, sys = {0};
        qpc_error err = {0};
        fill(&full, n, n - 1, dense);
        int32_t start[LARGEST + 1] = {0}, row[LARGEST * LARGEST], count = 0;
        for (int32_t j = 0; j < n; j++) {
            for (int32_t i = j; i < n; i++)
                if (i == j || dense[i * n + j] != 0) row[count++] = i;
            start[j + 1] = count;
        }
        assert_ok(qpc_linsys_resize_sparse(&sys, n, start, row, &err), &err);
        for (int round = 0; round < 2; round++) { // refilled with other values the second time
            double scale = 1 + round;
            qpc_linsys_clear(&sys);
            for (int32_t j = 0; j < n; j++)
                for (int32_t k = start[j]; k < start[j + 1]; k++)
                    *qpc_linsys_entry(&sys, row[k], j) += scale * dense[row[k] * n + j];
            assert_ok(qpc_linsys_factor(&sys, &err), &err);
            for (int32_t i = 0; i < n; i++) b[i] = uniform();
            qpc_linsys_solve(&sys, b, x);
            for (int32_t i = 0; i < n; i++) {
                double sum = 0;
                for (int32_t j = 0; j < n; j++) sum += scale * dense[i * n + j] * x[j];
                assert_near(sum, b[i], 1e-12);
            }
            qpc_linsys_multiply(&sys, x, y);
            for (int32_t i = 0; i < n; i++) {
                assert_near(y[i], b[i], 1e-12);
                for (int32_t k = 0; k < QPC_LINSYS_BLOCK; k++) block[i * QPC_LINSYS_BLOCK + k] = (k + 1) * b[i];
            }
            qpc_linsys_solve_block(&sys, block);
            for (int32_t i = 0; i < n; i++)
                for (int32_t k = 0; k < QPC_LINSYS_BLOCK; k++)
                    assert_near(block[i * QPC_LINSYS_BLOCK + k], (k + 1) * x[i], 1e-12);
        }
        for (int32_t j = 0; j < n; j++)
            for (int32_t i = j; i < n; i++)
                if (i != j && dense[i * n + j] == 0) assert_null(qpc_linsys_entry(&sys, i, j));
        *qpc_linsys_entry(&sys, n - 1, n - 1) = -1;
        assert_int_equal(qpc_linsys_factor(&sys, &err), QPC_ERR_NUMERIC);
        qpc_linsys_fini(&sys);
        qpc_linsys_fini(&full);
    }
}

static void a_bad_pattern_is_refused(void **state) {
    (void)state;
    qpc_linsys sys = {0};
    qpc_error err = {0};
    static const int32_t start[] = {0, 2, 3}, good[] = {0, 1, 1}, no_diagonal[] = {1, 1, 1}, outside[] = {0, 2, 1},
                         empty[] = {0, 3, 3}, twice[] = {0, 0, 1};
    assert_int_equal(qpc_linsys_resize_sparse(&sys, 2, start, no_diagonal, &err), QPC_ERR_INVALID);
    assert_int_equal(qpc_linsys_resize_sparse(&sys, 2, start, outside, &err), QPC_ERR_INVALID);
    assert_int_equal(qpc_linsys_resize_sparse(&sys, 2, empty, good, &err), QPC_ERR_INVALID);
    assert_int_equal(qpc_linsys_resize_sparse(&sys, 2, start, twice, &err), QPC_ERR_INVALID);
    assert_ok(qpc_linsys_resize_sparse(&sys, 2, start, good, &err), &err);
    qpc_linsys_fini(&sys);
}

enum { ORDER = 600 };

/// A pattern of order n: full, blocks of 6, or a diagonal with a full last row. Values: diagonal `dominance`
/// times n, -1 elsewhere.
static void shape(qpc_linsys *sys, qpc_linsys_method method, int32_t n, double dominance) {
    static int32_t start[ORDER + 1], row[ORDER * 61];
    qpc_error err = {0};
    int32_t count = 0;
    for (int32_t j = 0; j < n; j++) {
        for (int32_t i = j; i < n; i++) {
            bool there = method == QPC_LINSYS_BY_DENSE  ? true
                         : method == QPC_LINSYS_BY_BAND ? i / 6 == j / 6
                                                        : i == j || i == n - 1;
            if (there) row[count++] = i;
        }
        start[j + 1] = count;
    }
    assert_ok(qpc_linsys_resize_sparse(sys, n, start, row, &err), &err);
    assert_int_equal(sys->method, method);
    for (int32_t j = 0; j < n; j++)
        for (int32_t k = start[j]; k < start[j + 1]; k++)
            *qpc_linsys_entry(sys, row[k], j) = row[k] == j ? dominance * n : -1;
}

static const qpc_linsys_method methods[] = {QPC_LINSYS_BY_BAND, QPC_LINSYS_BY_DENSE, QPC_LINSYS_BY_CHOLMOD};
static const int32_t orders[] = {ORDER, 60, ORDER};

static void many_columns_are_solved_as_one_by_one(void **state) {
    (void)state;
    enum { COLUMNS = 41 };
    static double X[ORDER * COLUMNS], x[ORDER], y[ORDER];
    static const int32_t columns[] = {0, 1, 4, 7, 32, COLUMNS};
    for (int32_t k = 0; k < 3; k++) {
        qpc_linsys sys = {0};
        qpc_error err = {0};
        int32_t n = orders[k];
        shape(&sys, methods[k], n, 1.5);
        assert_ok(qpc_linsys_factor(&sys, &err), &err);
        for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
            uint64_t solves = sys.solves;
            for (int32_t i = 0; i < n * columns[c]; i++) X[i] = i % 7 == 0 ? (i % 13) - 6 : 0;
            assert_ok(qpc_linsys_solve_many(&sys, X, columns[c], &err), &err);
            assert_int_equal(sys.solves, solves + (uint64_t)columns[c]);
            for (int32_t j = 0; j < columns[c]; j++) {
                for (int32_t i = 0; i < n; i++) x[i] = (j * n + i) % 7 == 0 ? ((j * n + i) % 13) - 6 : 0;
                qpc_linsys_solve(&sys, x, y);
                for (int32_t i = 0; i < n; i++) assert_near(X[j * n + i], y[i], 1e-13);
                qpc_linsys_multiply(&sys, y, X + j * n);
                for (int32_t i = 0; i < n; i++) assert_near(X[j * n + i], x[i], 1e-11);
            }
        }
        qpc_linsys_fini(&sys);
    }
}

static void every_factor_names_the_row_without_a_pivot(void **state) {
    (void)state;
    for (int32_t k = 0; k < 3; k++) {
        qpc_linsys sys = {0};
        qpc_error err = {0};
        shape(&sys, methods[k], orders[k], 1.5);
        const double bad[] = {-1, 0, (double)NAN, (double)INFINITY};
        for (int32_t b = 0; b < 4; b++) {
            *qpc_linsys_entry(&sys, 47, 47) = bad[b];
            assert_fails(qpc_linsys_factor(&sys, &err), QPC_ERR_NUMERIC, &err, "row 47");
        }
        *qpc_linsys_entry(&sys, 47, 47) = 1.5 * orders[k];
        assert_ok(qpc_linsys_factor(&sys, &err), &err);
        qpc_linsys_fini(&sys);
    }
}

static void a_sparse_matrix_without_memory_is_an_error(void **state) {
    (void)state;
    static int32_t start[ORDER + 1], row[2 * ORDER];
    for (int32_t j = 0, count = 0; j < ORDER; j++) {
        row[count++] = j;
        if (j < ORDER - 1) row[count++] = ORDER - 1;
        start[j + 1] = count;
    }
    int64_t before = qpc_mem_live_blocks();
    bool failed = true;
    for (uint64_t nth = 1; failed; nth++) {
        qpc_linsys sys = {0};
        qpc_error err = {0};
        qpc_mem_fail_at(nth, false);
        qpc_status st = qpc_linsys_resize_sparse(&sys, ORDER, start, row, &err);
        if (st == QPC_OK) {
            for (int32_t j = 0; j < ORDER; j++) *qpc_linsys_entry(&sys, j, j) = 2;
            st = qpc_linsys_factor(&sys, &err);
        }
        failed = qpc_mem_failed();
        qpc_mem_fail_at(0, false);
        if (st != QPC_OK) assert_int_equal(st, QPC_ERR_MEMORY);
        if (!failed) {
            assert_int_equal(st, QPC_OK);
            assert_int_equal(sys.method, QPC_LINSYS_BY_CHOLMOD);
        }
        qpc_linsys_fini(&sys);
    }
    assert_int_equal(qpc_mem_live_blocks(), before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(solves_agree_with_dense_elimination),
        cmocka_unit_test(a_matrix_that_is_not_positive_definite_is_refused_by_row),
        cmocka_unit_test(smaller_systems_reuse_the_memory),
        cmocka_unit_test(a_failed_resize_leaves_the_old_system),
        cmocka_unit_test(a_factor_can_go_on_from_a_changed_row),
        cmocka_unit_test(work_is_counted),
        cmocka_unit_test(any_pattern_solves_as_the_dense_matrix_does),
        cmocka_unit_test(many_columns_are_solved_as_one_by_one),
        cmocka_unit_test(every_factor_names_the_row_without_a_pivot),
        cmocka_unit_test(a_bad_pattern_is_refused),
        cmocka_unit_test(a_sparse_matrix_without_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
