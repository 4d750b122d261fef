/// Sweeps over groups of eight nodes: where blocks lie, and against plain substitution, also where all nodes of a group
/// are coupled.
#include "engine/dynamics/blocks.h"
#include "engine/dynamics/ssor.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 43, UNKNOWNS = 3 * NODES, ROWS = 30, ENTRIES = UNKNOWNS * (UNKNOWNS + 1) / 2, PART = 12 };

typedef struct problem { // K + J'RJ, dense, K alone, and as stored
    double full[UNKNOWNS][UNKNOWNS], alone[UNKNOWNS][UNKNOWNS], value[ENTRIES], J[PART * ROWS], R[ROWS], b[UNKNOWNS];
    int32_t start[UNKNOWNS + 1], row[ENTRIES], row_start[ROWS + 1], column[PART * ROWS], list[ROWS];
    qpc_blocks *K;
    qpc_ssor cg;
    double *memory;
} problem;

static double wave(int32_t k) { return sin(1.7 * k) + 0.3 * cos(31.0 * k); }

/// Every node joined to those at most `reach` after it; rows over four nodes each, some of them of one group.
static void make(problem *p, int32_t reach) {
    *p = (problem){0};
    int32_t at = 0;
    for (int32_t j = 0; j < UNKNOWNS; j++) {
        p->start[j] = at;
        for (int32_t i = j; i < UNKNOWNS; i++) {
            if (i / 3 > j / 3 + reach) break;
            p->row[at] = i;
            p->value[at] = i == j ? 2 * UNKNOWNS + 40 * wave(j) : wave(100 * j + i);
            p->full[i][j] = p->full[j][i] = p->alone[i][j] = p->alone[j][i] = p->value[at++];
        }
    }
    p->start[UNKNOWNS] = at;
    at = 0;
    for (int32_t r = 0; r < ROWS; r++) {
        p->list[r] = r;
        p->R[r] = 20 + 10 * wave(r);
        for (int32_t k = 0; k < 4; k++)
            for (int32_t a = 0; a < 3; a++) {
                p->column[at] = 3 * ((r + (r % 2 != 0 ? 5 : 11) * k) % NODES) + a;
                p->J[at++] = wave(7 * r + 3 * k + a);
            }
        p->row_start[r + 1] = at;
        for (int32_t i = at - PART; i < at; i++)
            for (int32_t j = at - PART; j < at; j++) p->full[p->column[i]][p->column[j]] += p->R[r] * p->J[i] * p->J[j];
    }
    for (int32_t i = 0; i < UNKNOWNS; i++) p->b[i] = wave(1000 + i);
    assert_int_equal(qpc_blocks_create(UNKNOWNS, p->start, p->row, NULL, &p->K, NULL), QPC_OK);
    qpc_blocks_refill(p->K, p->start, p->row, p->value);
    int64_t couplings = qpc_ssor_couplings(ROWS, p->row_start, p->column);
    p->memory = calloc(qpc_ssor_size(p->K, true, couplings), sizeof *p->memory);
    qpc_ssor_init(&p->cg, p->K, true, couplings, p->memory);
    assert_true(qpc_ssor_prepare(&p->cg, ROWS, p->list, p->row_start, p->column, p->J, p->R));
}

static void drop(problem *p) {
    qpc_blocks_destroy(p->K);
    free(p->memory);
}

/// b'M^-1 b, M = (D + L) D^-1 (D + L)' over positions, by substitution in double precision: y = (D + L)^-1 b, y'D y.
static double norm_of(const problem *p) {
    double y[UNKNOWNS], sum = 0;
    for (int32_t at = 0; at < NODES; at++) {
        int32_t node = p->K->sweep.node[at];
        double v[3], A[3][4];
        for (int a = 0; a < 3; a++) {
            v[a] = p->b[3 * node + a];
            for (int32_t other = 0; other < at; other++)
                for (int c = 0; c < 3; c++) v[a] -= p->full[3 * node + a][3 * p->K->sweep.node[other] + c] * y[3 * other + c];
            for (int c = 0; c < 3; c++) A[a][c] = p->full[3 * node + a][3 * node + c];
            A[a][3] = v[a];
        }
        for (int a = 0; a < 3; a++) // Gauss-Jordan
            for (int e = 0; e < 3; e++)
                for (int c = 3; c >= a && e != a; c--) A[e][c] -= A[e][a] / A[a][a] * A[a][c];
        for (int a = 0; a < 3; a++) {
            y[3 * at + a] = A[a][3] / A[a][a];
            sum += y[3 * at + a] * v[a]; // D y = v
        }
    }
    return sqrt(sum);
}

/// Each position and each block once; what couples nodes of a group stands apart.
static int32_t check_places(const qpc_blocks *K) {
    const qpc_sweep *w = &K->sweep;
    int32_t inner = 0, blocks = w->start[K->count], outer = 0;
    uint8_t *seen = calloc((size_t)blocks, 1);
    for (int32_t i = 0; i < K->count; i++) assert_int_equal(w->node[w->position[i]], i);
    for (int32_t i = 0; i < K->count; i++)
        for (int32_t k = w->start[i]; k < w->start[i + 1]; k++) {
            int32_t from = w->from[k] >= 0 ? w->from[k] : -1 - w->from[k], column = w->column[k];
            bool within = column / QPC_SWEEP_LANES == i / QPC_SWEEP_LANES;
            assert_true(column < i && seen[from] == 0);
            seen[from] = 1;
            assert_true(within == (w->place[k] < 0));
            inner += within;
            double scale = K->scale[w->node[i]] * K->scale[w->node[column]];
            for (int e = 0; e < 9; e++) {
                double value = scale * K->value[9 * from + (w->from[k] >= 0 ? e : e % 3 * 3 + e / 3)];
                assert_true(fabs((double)qpc_sweep_entry(w, k, e) - value) <= 1e-7 * fabs(value));
            }
        }
    for (int32_t k = 0; k < QPC_SWEEP_BLOCK * w->slot_start[w->groups]; k++) outer += w->value[k] != 0;
    assert_int_equal(outer, 9 * (blocks - inner)); // and nothing else
    free(seen);
    return inner;
}

static void sweeps_are_those_of_plain_substitution(void **state) {
    (void)state;
    static const int32_t reach[] = {NODES, 6, 1}; // 6: neighbours of neighbours share groups
    for (size_t k = 0; k < sizeof reach / sizeof *reach; k++) {
        static problem p;
        make(&p, reach[k]);
        assert_true((check_places(p.K) > 0) == (reach[k] > 1));
        double norm = qpc_ssor_start(&p.cg, p.b), expected = norm_of(&p), d[UNKNOWNS], Kd[UNKNOWNS], worst = 0;
        assert_true(fabs(norm - expected) <= 1e-5 * expected);
        (void)qpc_ssor_solve(&p.cg, 1e-5 * norm, UNKNOWNS, d);
        assert_false(p.cg.lost);
        assert_true(p.cg.steps < 40);
        qpc_ssor_product(&p.cg, Kd);
        for (int32_t i = 0; i < UNKNOWNS; i++) {
            double r = p.b[i];
            for (int32_t j = 0; j < UNKNOWNS; j++) {
                r -= p.full[i][j] * d[j];
                Kd[i] -= p.alone[i][j] * d[j];
            }
            worst = fmax(worst, fmax(fabs(r), fabs(Kd[i])));
        }
        assert_true(worst <= 1e-4);
        drop(&p);
    }
}

static void both_instruction_sets_give_the_same_bits_within_groups(void **state) {
    (void)state;
    if (qpc_ssor_kernels_of(1) == NULL) skip();
    static problem p;
    double d[2][UNKNOWNS];
    make(&p, NODES);
    for (int32_t set = 0; set < 2; set++) {
        p.cg.kernels = qpc_ssor_kernels_of(set);
        (void)qpc_ssor_solve(&p.cg, 1e-5 * qpc_ssor_start(&p.cg, p.b), UNKNOWNS, d[set]);
    }
    assert_memory_equal(d[0], d[1], sizeof d[0]);
    drop(&p);
}

/// Rows on what a sweep comes to from position `first` on, R as it is; K + J'RJ and E afresh.
static void move_rows(problem *p, int32_t first) {
    for (int32_t k = 0; k < PART * ROWS; k++) {
        int32_t at = p->K->sweep.position[p->column[k] / 3];
        if (at < first) p->column[k] = 3 * p->K->sweep.node[first + at] + p->column[k] % 3;
    }
    memcpy(p->full, p->alone, sizeof p->full);
    for (int32_t r = 0; r < ROWS; r++)
        for (int32_t i = PART * r; i < PART * (r + 1); i++)
            for (int32_t j = PART * r; j < PART * (r + 1); j++) p->full[p->column[i]][p->column[j]] += p->R[r] * p->J[i] * p->J[j];
    assert_true(qpc_ssor_prepare(&p->cg, ROWS, p->list, p->row_start, p->column, p->J, p->R));
}

/// T55, against residuals in double precision: steps of 0.7 d, what rows push in between, another E.
static void residuals_follow_steps_and_rows_without_products(void **state) {
    (void)state;
    static const int32_t first[] = {0, 8, 16};
    for (size_t k = 0; k < sizeof first / sizeof *first; k++) {
        static problem p;
        double d[UNKNOWNS], r[UNKNOWNS], memory[4000];
        make(&p, 6);
        move_rows(&p, first[k]);
        assert_true(qpc_ssor_late_size(p.K) <= sizeof memory / sizeof *memory);
        qpc_ssor_late_init(&p.cg, ROWS, p.row_start, p.column, memory);
        assert_int_equal(p.cg.first, first[k]);
        double norm = qpc_ssor_late_start(&p.cg, p.b), start = norm;
        for (int32_t round = 0; round < 3; round++) {
            double dv[UNKNOWNS] = {0}, work = 0;
            qpc_ssor_late_solve(&p.cg, 0.3 * norm, UNKNOWNS, d);
            if (round == 0) { // a step that is not taken leaves all as it was
                qpc_ssor_late_forget(&p.cg);
                assert_true(fabs(qpc_ssor_late_restart(&p.cg) - norm) <= 1e-5 * norm);
                qpc_ssor_late_solve(&p.cg, 0.3 * norm, UNKNOWNS, d);
            }
            qpc_ssor_late_follow(&p.cg, 0.7);
            qpc_ssor_late_collect(&p.cg, dv);
            for (int32_t i = 0; i < UNKNOWNS; i++) work += dv[i] / 0.7 * p.b[i];
            assert_true(fabs(qpc_ssor_late_work(&p.cg) - work) <= 1e-4 * fabs(work));
            for (int32_t i = 0; i < UNKNOWNS; i++)
                for (int32_t j = 0; j < UNKNOWNS; j++) p.b[i] -= p.alone[i][j] * dv[j];
            for (int32_t e = 0; e < PART; e++) p.b[p.column[PART * round + e]] += p.J[PART * round + e];
            qpc_ssor_late_push(&p.cg, PART, p.column + PART * round, p.J + PART * round);
            for (int32_t i = 0; i < ROWS; i++) p.R[i] *= 1.5;
            move_rows(&p, first[k]);
            norm = qpc_ssor_late_restart(&p.cg);
            assert_true(fabs(norm - norm_of(&p)) <= 1e-5 * start);
            qpc_ssor_late_residual(&p.cg, r);
            for (int32_t i = 0; i < UNKNOWNS; i++) assert_true(fabs(r[i] - p.b[i]) <= 2e-5);
        }
        drop(&p);
    }
}

/// Rows of a grid as long as a part: dealt out straight, all neighbours across them would be in one group.
static void parts_are_turned_where_rows_of_a_grid_are_as_long(void **state) {
    (void)state;
    enum { LONG = 20, GRID = LONG * QPC_SWEEP_LANES };
    int32_t *start = calloc(GRID + 1, sizeof *start), column[2 * GRID], at = 0;
    for (int32_t i = 0; i < GRID; i++) {
        start[i] = at;
        if (i >= LONG) column[at++] = i - LONG;
        if (i % LONG > 0) column[at++] = i - 1;
    }
    start[GRID] = at;
    qpc_sweep w = {0};
    assert_true(qpc_sweep_make(&w, GRID, start, column, NULL));
    assert_int_equal(w.groups, LONG);
    assert_int_equal(w.inner_start[GRID], 0);
    qpc_sweep_fini(&w);
    free(start);
}

static void what_is_inside_comes_first_as_far_as_it_fills_groups(void **state) {
    (void)state;
    enum { CHAIN = 45, FIRST = 16 }; // 18 of them inside
    int32_t start[CHAIN + 1] = {0}, column[CHAIN], seen[CHAIN] = {0}, within = 0;
    uint8_t inside[CHAIN];
    for (int32_t i = 0; i < CHAIN; i++) {
        inside[i] = i % 5 < 2;
        column[i] = i; // of i + 1
        start[i + 1] = i;
    }
    qpc_sweep w = {0};
    assert_true(qpc_sweep_make(&w, CHAIN, start, column, inside));
    for (int32_t at = 0; at < CHAIN; at++) {
        assert_int_equal(w.position[w.node[at]], at);
        assert_int_equal(seen[w.node[at]]++, 0);
        if (at < FIRST) assert_true(inside[w.node[at]] != 0);
        else within += inside[w.node[at]];
    }
    assert_int_equal(within, 2);
    qpc_sweep_fini(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sweeps_are_those_of_plain_substitution),
        cmocka_unit_test(both_instruction_sets_give_the_same_bits_within_groups),
        cmocka_unit_test(residuals_follow_steps_and_rows_without_products),
        cmocka_unit_test(what_is_inside_comes_first_as_far_as_it_fills_groups),
        cmocka_unit_test(parts_are_turned_where_rows_of_a_grid_are_as_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
