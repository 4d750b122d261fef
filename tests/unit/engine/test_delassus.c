/// The factor of A_WW: right after thousands of rows have come and gone, and when memory is out.
#include "engine/solver/delassus.h"

#include "tests/support/check.h"
#include "tests/support/faults.h"

#include <math.h>
#include <string.h>

enum { N = 40, ROWS = 90 };

static uint64_t seed = 3;
static double uniform(void) { // in [-1, 1)
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (double)(int64_t)(seed >> 11) / (double)(1LL << 52) - 1;
}

static double V[ROWS][N]; // rows of J in the metric of K^-1
static double product(int32_t i, int32_t j) {
    double sum = 0;
    for (int32_t k = 0; k < N; k++) sum += V[i][k] * V[j][k];
    return sum;
}

/// The miss of A_WW r = g for a random g, row by row against the size of what is summed there.
static double miss(const qpc_delassus *del) {
    double g[N], r[N], worst = 0;
    for (int32_t i = 0; i < del->count; i++) g[i] = r[i] = uniform();
    qpc_delassus_solve(del, r);
    for (int32_t i = 0; i < del->count; i++) {
        double sum = -g[i], size = fabs(g[i]);
        for (int32_t j = 0; j < del->count; j++) {
            double term = product(del->row[i], del->row[j]) * r[j];
            sum += term;
            size += sqrt(product(del->row[i], del->row[i]) * product(del->row[j], del->row[j])) *
                    fabs(r[j]);
        }
        worst = fmax(worst, fabs(sum) / size);
    }
    return worst;
}

static bool append(qpc_delassus *del, int32_t row, bool *ret_joined) {
    double y[N];
    *ret_joined = false;
    for (int32_t i = 0; i < del->count; i++) y[i] = product(del->row[i], row);
    double a = product(row, row), d = a - qpc_delassus_forward(del, y);
    if (del->count == N || d <= 1e-4 * a) return true;
    *ret_joined = true;
    return qpc_delassus_append(del, row, y, d);
}

static void make_rows(void) {
    for (int32_t i = 0; i < ROWS; i++)
        for (int32_t k = 0; k < N; k++) V[i][k] = uniform() * (i % 7 == 0 ? 1e3 : 1);
}

static void thousands_of_changes_leave_the_factor_right(void **state) {
    (void)state;
    qpc_arena arena = {0};
    qpc_delassus del;
    bool in[ROWS] = {0};
    int32_t changes = 0;
    make_rows();
    assert_true(qpc_delassus_init(&del, &arena, 2)); // it grows
    for (int32_t turn = 0; turn < 6000; turn++) {
        int32_t row = (int32_t)((uniform() + 1) * 0.5 * ROWS);
        if (in[row]) {
            int32_t at = 0;
            while (del.row[at] != row) at++;
            qpc_delassus_remove(&del, at);
            in[row] = false;
            changes++;
        } else {
            assert_true(append(&del, row, &in[row]));
            changes += in[row];
        }
        // Backward stable to round-off that grows with the changes.
        if (turn % 50 == 0) assert_true(miss(&del) <= 1e-12);
    }
    assert_true(changes >= 3000);
    assert_true(miss(&del) <= 1e-12);
    qpc_arena_fini(&arena);
}

static void every_instruction_set_gives_the_same_bits(void **state) {
    (void)state;
    enum { LONG = 131 };
    double v[5][LONG], y[LONG], z[LONG];
    const qpc_delassus_loops *base = qpc_delassus_loops_of(0);
    for (int32_t i = 0; i < 5; i++)
        for (int32_t k = 0; k < LONG; k++) v[i][k] = uniform();
    for (int32_t set = 0; set < 3; set++) {
        const qpc_delassus_loops *loops = qpc_delassus_loops_of(set);
        if (loops == NULL) continue;
        for (int32_t count = 0; count <= LONG; count++) {
            double plain = 0, one = base->dot(v[0], v[1], count),
                   other = loops->dot(v[0], v[1], count);
            for (int32_t k = 0; k < count; k++) plain += v[0][k] * v[1][k];
            assert_memory_equal(&one, &other, sizeof one);
            assert_near(one, plain, 1e-13);
            memcpy(y, v[4], sizeof y);
            memcpy(z, v[4], sizeof z);
            base->take4(v[0], v[1], v[2], v[3], v[4], y, count);
            loops->take4(v[0], v[1], v[2], v[3], v[4], z, count);
            assert_memory_equal(y, z, sizeof y);
            for (int32_t k = 0; k < LONG; k++) {
                double want = v[4][k];
                for (int32_t i = 0; i < 4 && k < count; i++) want -= v[4][i] * v[i][k];
                assert_near(y[k], want, 1e-14);
            }
        }
    }
    assert_non_null(qpc_delassus_loops_of(-1));
}

static void forward_gives_the_squared_distance(void **state) {
    (void)state;
    // Rows (1, 0), (1, 2), then (3, 1, 5): its distance from their span is 5.
    qpc_arena arena = {0};
    qpc_delassus del;
    double y[2] = {0};
    assert_true(qpc_delassus_init(&del, &arena, 4));
    assert_true(qpc_delassus_append(&del, 0, y, 1));
    y[0] = 1; // (1, 0) . (1, 2)
    assert_near(5 - qpc_delassus_forward(&del, y), 4, 1e-15);
    assert_true(qpc_delassus_append(&del, 1, y, 4));
    double third[2] = {3, 5};
    assert_near(35 - qpc_delassus_forward(&del, third), 25, 1e-14);
    qpc_delassus_backward(&del, third); // 2.5 (1, 0) + 0.5 (1, 2) = (3, 1)
    assert_near(third[0], 2.5, 1e-15);
    assert_near(third[1], 0.5, 1e-15);
    qpc_arena_fini(&arena);
}

static void out_of_memory_leaves_the_factor_as_it_was(void **state) {
    (void)state;
    qpc_arena arena = {0};
    qpc_delassus del;
    bool joined;
    make_rows();
    assert_true(qpc_delassus_init(&del, &arena, 4));
    for (int32_t row = 1; row < 5; row++) assert_true(append(&del, row, &joined) && joined);
    while (arena.head != NULL && qpc_arena_alloc(&arena, 64) != NULL && arena.used < 60000)
        continue;
    qpc_mem_fail_at(1, true);
    bool grown = true;
    for (int32_t row = 8; row < 30 && grown; row++)
        grown = row % 7 == 0 || append(&del, row, &joined);
    qpc_mem_disarm();
    if (!grown) assert_true(del.count >= 4);
    assert_true(miss(&del) <= 1e-10);
    qpc_mem_fail_at(0, false);
    qpc_arena_fini(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thousands_of_changes_leave_the_factor_right),
        cmocka_unit_test(every_instruction_set_gives_the_same_bits),
        cmocka_unit_test(forward_gives_the_squared_distance),
        cmocka_unit_test(out_of_memory_leaves_the_factor_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
