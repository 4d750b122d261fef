/// Substitutions with a supernodal factor: right, alike for one and for eight, the same bits on
/// every processor.
#include "engine/dynamics/factor_solve.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { N = 230, SUPERNODES = 60, ROWS = SUPERNODES * N, VALUES = N * N };

static uint64_t seed = 7;
static double uniform(void) { // in [0, 1)
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (double)(seed >> 11) / (double)(1ULL << 53);
}

static int32_t column[N + 1], row_start[N + 1], row_count[N], value_start[N + 1], row[ROWS];
static double value[VALUES], dense[N][N];

/// Supernodes of 1 to 40 columns, each with a random set of rows below.
static qpc_supernodes random_supernodes(double fill) {
    int32_t count = 0, at = 0, values = 0;
    memset(dense, 0, sizeof dense);
    for (int32_t first = 0; first < N; count++) {
        int32_t cols = 1 + (int32_t)(uniform() * (count % 5 == 0 ? 40 : 6)), rows = 0;
        if (first + cols > N) cols = N - first;
        column[count] = first;
        row_start[count] = at;
        value_start[count] = values;
        for (int32_t i = first; i < N; i++)
            if (i < first + cols || uniform() < fill) row[at + rows++] = i;
        for (int32_t j = 0; j < cols; j++) {
            for (int32_t i = 0; i < rows; i++) {
                // CHOLMOD leaves rubbish above the diagonal
                double v = i < j ? 77 : i == j ? 1 + uniform() : (uniform() - 0.5) / 8;
                value[values + j * rows + i] = v;
                if (i >= j) dense[row[at + i]][first + j] = v;
            }
        }
        at += rows;
        values += rows * cols;
        first += cols;
    }
    column[count] = N;
    row_start[count] = at;
    value_start[count] = values;
    return (qpc_supernodes){.n = N,
                            .count = count,
                            .column = column,
                            .row_start = row_start,
                            .value_start = value_start,
                            .row = row,
                            .value = value};
}

static qpc_supernodes random_columns(void) {
    int32_t at = 0;
    memset(dense, 0, sizeof dense);
    for (int32_t j = 0; j < N; j++) {
        row_start[j] = at;
        for (int32_t i = j; i < N; i++) {
            if (i > j && uniform() > 0.05) continue;
            row[at] = i;
            dense[i][j] = value[at++] = i == j ? 1 + uniform() : uniform() - 0.5;
        }
        row_count[j] = at - row_start[j];
        at += 3; // room to grow, as CHOLMOD may leave
    }
    return (qpc_supernodes){
        .n = N, .row_start = row_start, .row_count = row_count, .row = row, .value = value};
}

/// |L L' x - b| relative to |b|
static double residual(const double *x, const double *b, int32_t stride) {
    double y[N] = {0}, worst = 0, most = 0;
    for (int32_t i = 0; i < N; i++)
        for (int32_t j = 0; j <= i; j++) y[j] += dense[i][j] * x[i * stride];
    for (int32_t i = 0; i < N; i++) {
        double sum = -b[i * stride];
        for (int32_t j = 0; j <= i; j++) sum += dense[i][j] * y[j];
        worst = fmax(worst, fabs(sum));
        most = fmax(most, fabs(b[i * stride]));
    }
    return worst / most;
}

/// full: lane 0 has all its entries; else all lanes are nearly empty, like rows of J.
static void check_lanes(const qpc_supernodes *L, bool full) {
    enum { LANES = QPC_FACTOR_LANES };
    static double b[N * LANES], x[N * LANES], first[N * LANES], one[N], first_one[N], below[N + 8];
    for (int32_t i = 0; i < N; i++)
        for (int32_t k = 0; k < LANES; k++)
            b[i * LANES + k] =
                (k == 0 && full) || i == 31 * k + 1 || i == 17 * k + 3 ? uniform() - 0.5 : 0;
    for (int32_t width = QPC_FACTOR_BASE; width <= (int32_t)qpc_factor_widest(); width++) {
        memcpy(x, b, sizeof x);
        qpc_supernodes_solve_lanes(L, (qpc_factor_width)width, x);
        // Round-off of a few hundred operations on a factor of modest condition.
        for (int32_t k = 0; k < LANES; k++) assert_true(residual(x + k, b + k, LANES) <= 1e-11);
        if (width == QPC_FACTOR_BASE) memcpy(first, x, sizeof x);
        assert_memory_equal(first, x, sizeof x);
        for (int32_t k = 0; k < 2; k++) {
            for (int32_t i = 0; i < N; i++) one[i] = b[i * LANES + k];
            qpc_supernodes_solve(L, (qpc_factor_width)width, one, below);
            for (int32_t i = 0; i < N; i++) first_one[i] = b[i * LANES + k];
            qpc_supernodes_solve(L, QPC_FACTOR_BASE, first_one, below);
            assert_memory_equal(one, first_one, sizeof one);
            assert_true(residual(one, first_one, 1) > 0); // not by chance the right-hand side
            for (int32_t i = 0; i < N; i++) first_one[i] = b[i * LANES + k];
            assert_true(residual(one, first_one, 1) <= 1e-11);
        }
    }
}

static void check_all(const qpc_supernodes *L) {
    check_lanes(L, true);
    check_lanes(L, false);
}

static void supernodes_are_solved_alike_everywhere(void **state) {
    (void)state;
    const double fills[] = {0, 0.02, 0.3, 1};
    for (int32_t turn = 0; turn < 8; turn++) {
        qpc_supernodes L = random_supernodes(fills[turn % 4]);
        check_all(&L);
    }
}

static void columns_are_solved(void **state) {
    (void)state;
    qpc_supernodes L = random_columns();
    check_all(&L);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(supernodes_are_solved_alike_everywhere),
        cmocka_unit_test(columns_are_solved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
