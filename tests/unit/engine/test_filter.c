/// Batch filter: proofs against exact truth, the same bits in every width that runs here, numbers
/// that are not numbers, and the helpers that fill blocks.
#include "tests/support/check.h"

#include "engine/collision/filter.h"
#include "tests/unit/engine/queries.h"

typedef void (*filter)(qpc_filter_width, const qpc_filter_block *, int32_t, uint8_t *);
static const filter filter_of[2] = {qpc_filter_vt_by, qpc_filter_ee_by};

static qpc_filter_block *new_blocks(int32_t count) {
    size_t size = ((size_t)count / QPC_FILTER_LANES + 1) * sizeof(qpc_filter_block);
    qpc_filter_block *blocks = aligned_alloc(64, size);
    assert_non_null(blocks);
    memset(blocks, 0, size);
    return blocks;
}

/// Runs all widths, which must agree, and returns the bits of the scalar one.
static uint8_t *run_all(int kind, const qpc_filter_block *blocks, int32_t count) {
    size_t bytes = (size_t)count / QPC_FILTER_LANES + 1;
    uint8_t *open = calloc(bytes, 1), *other = calloc(bytes, 1);
    assert_true(open != NULL && other != NULL);
    filter_of[kind](QPC_FILTER_SCALAR, blocks, count, open);
    for (int w = QPC_FILTER_SCALAR; w < QPC_FILTER_WIDTHS; w++) {
        if (!qpc_filter_runs((qpc_filter_width)w)) continue;
        memset(other, 0, bytes);
        filter_of[kind]((qpc_filter_width)w, blocks, count, other);
        assert_memory_equal(open, other, bytes);
    }
    free(other);
    return open;
}

/// least: the part of the misses that must be proven, in percent.
static void check_file(const char *name, double s, int least) {
    char path[512];
    int32_t n = 0;
    snprintf(path, sizeof path, "%s/ccd/%s.bin", QPC_TEST_DATA, name);
    query *q = read_queries(path, &n);
    assert_non_null(q);
    for (int kind = 0; kind < 2; kind++) {
        qpc_filter_block *blocks = new_blocks(n);
        int32_t *of = calloc((size_t)n, sizeof *of), count = 0, misses = 0, proven = 0;
        assert_non_null(of);
        for (int32_t i = 0; i < n; i++) {
            if (q[i].kind != kind) continue;
            qpc_vec3 x0[4], x1[4];
            query_points(&q[i], x0, x1);
            qpc_filter_put(&blocks[count / QPC_FILTER_LANES], count % QPC_FILTER_LANES, x0, x1, s);
            of[count++] = i;
        }
        uint8_t *open = run_all(kind, blocks, count);
        for (int32_t i = 0; i < count; i++) {
            const query *k = &q[of[i]];
            bool apart = !(open[i / QPC_FILTER_LANES] >> i % QPC_FILTER_LANES & 1);
            bool must = s > 0 ? k->dmin[1] <= s : k->truth == 1;
            if (must && apart) fail_msg("%s %d at s = %g: missed", name, (int)of[i], s);
            misses += s > 0 ? k->dmin[0] > s : k->truth == 0;
            proven += apart;
        }
        if (proven * 100 < misses * least)
            fail_msg("%s at s = %g: only %d of %d misses proven", name, s, proven, misses);
        free(open);
        free(of);
        free(blocks);
    }
    free(q);
}

static void sample_queries(void **state) {
    (void)state;
    check_file("sample_queries", 0, 95);
    check_file("sample_queries", 1e-3, 97);
}

static void simulation_queries(void **state) {
    (void)state;
    check_file("sim", 0, 96);
    check_file("sim", 1e-3, 96);
}

static void degenerate_queries(void **state) {
    (void)state;
    check_file("degenerate", 0, 30);
    check_file("degenerate", 1e-3, 50);
    check_file("degenerate", 1e-9, 20);
}

static const qpc_vec3 above[4] = {{0.2, 0.2, 1}, {0, 0, 0}, {1, 0, 0}, {0, 1, 0}};

static void bits_past_the_end_are_clear(void **state) {
    (void)state;
    qpc_filter_block *blocks = new_blocks(16);
    qpc_vec3 below[4];
    memcpy(below, above, sizeof below);
    below[0].z = -1; // crosses: open
    for (int i = 0; i < 16; i++) qpc_filter_put(&blocks[i / 8], i % 8, above, below, 0);
    for (int count = 0; count <= 16; count++) {
        uint8_t open[3] = {0xa5, 0xa5, 0xa5};
        qpc_filter_vt(blocks, count, open);
        for (int b = 0; b < 3; b++) {
            int left = count - 8 * b;
            assert_int_equal(open[b], left <= 0 ? 0xa5 : left >= 8 ? 0xff : (1 << left) - 1);
        }
    }
    free(blocks);
}

/// In any coordinate of any point at either end, in every width: never a proof.
static void numbers_that_are_not_finite_stay_open(void **state) {
    (void)state;
    const double bad[] = {NAN, -NAN, INFINITY, -INFINITY, 1e200, -1e200, 1e308};
    qpc_filter_block *blocks = new_blocks(8);
    for (size_t b = 0; b < sizeof bad / sizeof *bad; b++)
        for (int place = 0; place < 24; place++)
            for (int kind = 0; kind < 2; kind++) {
                for (int lane = 0; lane < 8; lane++)
                    qpc_filter_put(blocks, lane, above, above, 1e-3);
                double(*x)[3][QPC_FILTER_LANES] = place < 12 ? blocks->x0 : blocks->x1;
                x[place % 12 / 3][place % 3][5] = bad[b];
                uint8_t *open = run_all(kind, blocks, 8);
                assert_int_equal(open[0], 1 << 5);
                free(open);
            }
    for (int lane = 0; lane < 8; lane++) qpc_filter_put(blocks, lane, above, above, NAN);
    uint8_t *open = run_all(0, blocks, 8);
    assert_int_equal(open[0], 0xff);
    free(open);
    free(blocks);
}

static void gathered_blocks_hold_the_nodes(void **state) {
    (void)state;
    enum { NODES = 30, PAIRS = 11 };
    double x0[3 * NODES], x1[3 * NODES];
    int32_t nodes[PAIRS][4];
    for (int i = 0; i < 3 * NODES; i++) x0[i] = i, x1[i] = -i;
    for (int i = 0; i < PAIRS; i++)
        for (int k = 0; k < 4; k++) nodes[i][k] = (7 * i + 3 * k) % NODES;
    qpc_filter_block *blocks = new_blocks(PAIRS);
    qpc_filter_gather(x0, x1, nodes[0], PAIRS, 0.25, blocks);
    for (int i = 0; i < 16; i++) {
        const int32_t *node = nodes[i < PAIRS ? i : PAIRS - 1];
        for (int k = 0; k < 4; k++)
            for (int d = 0; d < 3; d++) {
                assert_true(blocks[i / 8].x0[k][d][i % 8] == 3 * node[k] + d);
                assert_true(blocks[i / 8].x1[k][d][i % 8] == -(3 * node[k] + d));
            }
        assert_true(blocks[i / 8].s[i % 8] == 0.25);
    }
    free(blocks);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sample_queries),
        cmocka_unit_test(simulation_queries),
        cmocka_unit_test(degenerate_queries),
        cmocka_unit_test(bits_past_the_end_are_clear),
        cmocka_unit_test(numbers_that_are_not_finite_stay_open),
        cmocka_unit_test(gathered_blocks_hold_the_nodes),
    };
    return cmocka_run_group_tests_name("engine/collision/filter", tests, NULL, NULL);
}
