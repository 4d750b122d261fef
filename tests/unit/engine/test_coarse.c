/// Conjugate gradients with a coarse space: against factors, with and without rows, what they take, and where
/// there is none.
#include "engine/dynamics/blocks.h"
#include "engine/dynamics/coarse.h"
#include "engine/dynamics/linsys.h"
#include "engine/dynamics/ssor.h"
#include "tests/support/check.h"
#include "tests/support/drape.h"
#include "tests/support/faults.h"

#include <stdlib.h>

enum { FINE = 80 };

/// A sheet with waves in it, so that no direction stands alone.
static void load(drape *d, int32_t k, double membrane) {
    assert_true(drape_init(d, k, membrane));
    for (int32_t i = 0; i < d->n / 3; i++) d->x[3 * i + 1] += 0.02 * sin(9 * d->x[3 * i]) * cos(7 * d->x[3 * i + 2]);
    assert_true(drape_assemble(d));
    for (int32_t i = 0; i < d->n; i++) d->b[i] = 1e-3 * (sin(1e-3 * i) + (i * 7) % 13 - 6);
}

static void drop_coarse(drape *d) {
    qpc_coarse_destroy(d->sys.blocks->coarse);
    d->sys.blocks->coarse = NULL;
}

static double energy_of_difference(const drape *d, const double *x, const double *y) {
    double *e = calloc(2 * (size_t)d->n, sizeof *e), *Ke = e + d->n, sum = 0;
    for (int32_t i = 0; i < d->n; i++) e[i] = x[i] - (y != NULL ? y[i] : 0);
    qpc_linsys_multiply(&d->sys, e, Ke);
    for (int32_t i = 0; i < d->n; i++) sum += e[i] * Ke[i];
    free(e);
    return sum;
}

static void check_partition(const qpc_blocks *K) {
    const qpc_coarse *z = K->coarse;
    int32_t *size = calloc((size_t)z->count + 1, sizeof *size);
    for (int32_t i = 0; i < K->count; i++) {
        assert_in_range(z->of[i], 0, z->count);
        assert_int_equal(z->at[K->sweep.position[i]], z->of[i]);
        size[z->of[i]]++;
    }
    for (int32_t a = 0; a < z->count; a++) assert_in_range(size[a], 8, 400);
    free(size);
}

/// Solves with K, with and without a coarse space, against its factor; steps are exact counts.
static void solves_agree_with_a_factor_and_take_fewer_steps(void **state) {
    (void)state;
    drape d;
    load(&d, FINE, 500);
    qpc_linsys_prepare(&d.sys);
    assert_non_null(d.sys.blocks->coarse);
    assert_true(d.sys.blocks->coarse->pays);
    check_partition(d.sys.blocks);
    double *x = calloc(3 * (size_t)d.n, sizeof *x), *y = x + d.n, *w = y + d.n;
    qpc_linsys_solve(&d.sys, d.b, x);
    uint64_t fine = d.sys.cg_steps;
    qpc_linsys_solve(&d.sys, d.b, w);
    assert_memory_equal(x, w, (size_t)d.n * sizeof *x);
    drop_coarse(&d);
    uint64_t before = d.sys.cg_steps;
    qpc_linsys_solve(&d.sys, d.b, w);
    uint64_t plain = d.sys.cg_steps - before;
    assert_true(fine > 20 && 2 * fine < plain);
    assert_int_equal(qpc_linsys_factor(&d.sys, NULL), QPC_OK);
    qpc_linsys_solve(&d.sys, d.b, y);
    double size = energy_of_difference(&d, y, NULL);
    assert_true(energy_of_difference(&d, x, y) <= 1e-22 * size);
    assert_true(energy_of_difference(&d, w, y) <= 1e-22 * size);
    free(x);
    drape_fini(&d);
}

typedef struct loaded { // K + J'RJ of all rows of a sheet
    drape d;
    double *R, *memory, *x, *r;
    int32_t *list;
    qpc_ssor cg;
} loaded;

static void prepare(loaded *s, double weight) {
    drape *d = &s->d;
    int64_t couplings = qpc_ssor_couplings(d->m, d->row_start, d->column);
    s->R = calloc((size_t)d->m + 1, sizeof *s->R);
    s->list = calloc((size_t)d->m + 1, sizeof *s->list);
    s->x = calloc(2 * (size_t)d->n + 6, sizeof *s->x);
    s->r = s->x + d->n + 3;
    for (int32_t i = 0; i < d->m; i++) {
        double kt2 = 0;
        for (int32_t k = d->row_start[i]; k < d->row_start[i + 1]; k++)
            kt2 += d->value[k] * d->value[k] / d->sys.diagonal[d->column[k]];
        s->R[i] = weight / kt2;
        s->list[i] = i;
    }
    s->memory = calloc(qpc_ssor_size(d->sys.blocks, true, couplings), sizeof *s->memory);
    qpc_ssor_init(&s->cg, d->sys.blocks, true, couplings, s->memory);
    for (int time = 0; time < 2; time++) { // with rows the coarse space comes when a solve has taken many steps
        assert_true(qpc_ssor_prepare(&s->cg, d->m, s->list, d->row_start, d->column, d->value, s->R));
        assert_true((s->cg.coarse != NULL) == (time > 0 && d->sys.blocks->coarse != NULL));
        if (time == 0) (void)qpc_ssor_solve(&s->cg, 1e-4 * qpc_ssor_start(&s->cg, d->b), 1000, s->x);
    }
    s->cg.steps = 0;
}

static void drop(loaded *s) {
    free(s->R);
    free(s->list);
    free(s->x);
    free(s->memory);
}

/// A few steps are cheaper without.
static void rows_that_take_few_steps_are_left_alone(void **state) {
    (void)state;
    loaded s = {0};
    load(&s.d, FINE, 500);
    const drape *d = &s.d;
    qpc_linsys_prepare(&s.d.sys);
    prepare(&s, 2);
    (void)qpc_ssor_solve(&s.cg, 0.5 * qpc_ssor_start(&s.cg, d->b), 1000, s.x);
    assert_true(qpc_ssor_prepare(&s.cg, d->m, s.list, d->row_start, d->column, d->value, s.R));
    assert_null(s.cg.coarse);
    assert_true(qpc_ssor_prepare(&s.cg, 0, NULL, d->row_start, d->column, d->value, s.R)); // K's is there anyway
    assert_non_null(s.cg.coarse);
    drop(&s);
    // Without one and with one that is not used: the same bits.
    qpc_coarse *keep = s.d.sys.blocks->coarse;
    double *x = calloc(2 * (size_t)s.d.n + 6, sizeof *x);
    for (int time = 0; time < 2; time++) {
        s.d.sys.blocks->coarse = time == 0 ? keep : NULL;
        prepare(&s, 2);
        s.cg.many_steps = false;
        assert_true(qpc_ssor_prepare(&s.cg, d->m, s.list, d->row_start, d->column, d->value, s.R));
        (void)qpc_ssor_solve(&s.cg, 1e-2 * qpc_ssor_start(&s.cg, d->b), 1000, x + time * (s.d.n + 3));
        drop(&s);
    }
    s.d.sys.blocks->coarse = keep;
    assert_memory_equal(x, x + s.d.n + 3, (size_t)s.d.n * sizeof *x);
    free(x);
    drape_fini(&s.d);
}

/// r = b - (K + J'RJ) x, its size of b's.
static double residual(loaded *s) {
    const drape *d = &s->d;
    double r2 = 0, b2 = 0;
    qpc_linsys_multiply(&d->sys, s->x, s->r);
    for (int32_t i = 0; i < d->m; i++) {
        double Jx = 0;
        for (int32_t k = d->row_start[i]; k < d->row_start[i + 1]; k++) Jx += d->value[k] * s->x[d->column[k]];
        for (int32_t k = d->row_start[i]; k < d->row_start[i + 1]; k++)
            s->r[d->column[k]] += s->R[i] * Jx * d->value[k];
    }
    for (int32_t i = 0; i < d->n; i++) {
        s->r[i] = d->b[i] - s->r[i];
        r2 += s->r[i] * s->r[i];
        b2 += d->b[i] * d->b[i];
    }
    return sqrt(r2 / b2);
}

/// Rounds of refinement until the true residual, in double precision, is 1e-10 of b; the steps they take.
static int64_t refine(loaded *s) {
    double *d = calloc((size_t)s->d.n + 3, sizeof *d);
    memset(s->x, 0, (size_t)s->d.n * sizeof *s->x);
    for (int round = 0; residual(s) > 1e-10; round++) {
        assert_true(round < 30);
        double norm = qpc_ssor_start(&s->cg, s->r);
        (void)qpc_ssor_solve(&s->cg, 1e-2 * norm, 1000, d);
        assert_false(s->cg.lost);
        for (int32_t i = 0; i < s->d.n; i++) s->x[i] += d[i];
    }
    free(d);
    return s->cg.steps;
}

static void rows_of_any_weight_are_in_the_coarse_matrix(void **state) {
    (void)state;
    static const double weights[] = {2, 1e4};
    loaded s = {0};
    load(&s.d, FINE, 500);
    qpc_linsys_prepare(&s.d.sys);
    assert_true(s.d.m > 50);
    for (size_t w = 0; w < sizeof weights / sizeof *weights; w++) {
        prepare(&s, weights[w]);
        assert_non_null(s.cg.coarse);
        int64_t fine = refine(&s);
        qpc_coarse *keep = s.d.sys.blocks->coarse;
        drop(&s);
        s.d.sys.blocks->coarse = NULL;
        prepare(&s, weights[w]);
        assert_null(s.cg.coarse);
        int64_t plain = refine(&s);
        assert_true(2 * fine < plain);
        s.d.sys.blocks->coarse = keep;
        drop(&s);
    }
    drape_fini(&s.d);
}

static void both_instruction_sets_give_the_same_bits(void **state) {
    (void)state;
    if (qpc_ssor_kernels_of(1) == NULL) skip();
    loaded s = {0};
    load(&s.d, 72, 500);
    qpc_linsys_prepare(&s.d.sys);
    prepare(&s, 2);
    assert_non_null(s.cg.coarse);
    double *d = calloc(2 * (size_t)s.d.n + 6, sizeof *d), *Kd = calloc(2 * (size_t)s.d.n + 6, sizeof *Kd), norm[2], most = 0;
    for (int32_t set = 0; set < 2; set++) {
        s.cg.kernels = qpc_ssor_kernels_of(set);
        norm[set] = qpc_ssor_start(&s.cg, s.d.b);
        (void)qpc_ssor_solve(&s.cg, 1e-4 * norm[set], 1000, d + set * (s.d.n + 3));
        qpc_ssor_product(&s.cg, Kd + set * (s.d.n + 3));
    }
    assert_true(norm[0] == norm[1] && norm[0] > 0);
    assert_memory_equal(d, d + s.d.n + 3, (size_t)s.d.n * sizeof *d);
    assert_memory_equal(Kd, Kd + s.d.n + 3, (size_t)s.d.n * sizeof *Kd);
    // That product is K d without rows, to single precision of its terms.
    qpc_linsys_multiply(&s.d.sys, d, Kd);
    for (int32_t i = 0; i < s.d.n; i++) most = fmax(most, fabs(d[i]));
    for (int32_t i = 0; i < s.d.n; i++) assert_near(Kd[s.d.n + 3 + i], Kd[i], 1e-6 * most * s.d.sys.diagonal[i]);
    free(d);
    free(Kd);
    drop(&s);
    drape_fini(&s.d);
}

/// Two sheets and some nodes on their own side by side in one K; in one corner nodes are held by large masses.
static void sheets_apart_and_nodes_held_or_alone_are_solved(void **state) {
    (void)state;
    enum { ALONE = 10 };
    drape d;
    qpc_linsys both = {0};
    load(&d, 64, 500);
    int32_t n = 2 * d.n + 3 * ALONE, at = 0;
    int32_t *start = calloc((size_t)n + 1, sizeof *start), *row = calloc(2 * (size_t)d.sys.start[d.n] + 3 * ALONE, sizeof *row);
    for (int32_t j = 0; j < n; j++) {
        int32_t sheet = j / d.n, own = j % d.n;
        start[j] = at;
        if (sheet == 2) row[at++] = j;
        for (int32_t k = d.sys.start[own]; sheet < 2 && k < d.sys.start[own + 1]; k++) row[at++] = d.n * sheet + d.sys.row[k];
    }
    start[n] = at;
    assert_int_equal(qpc_linsys_resize_sparse(&both, n, start, row, NULL), QPC_OK);
    assert_non_null(both.blocks);
    at = 0;
    for (int32_t j = 0; j < n; j++) {
        if (j >= 2 * d.n) both.value[at++] = 1e-4;
        for (int32_t k = d.sys.start[j % d.n]; j < 2 * d.n && k < d.sys.start[j % d.n + 1]; k++)
            both.value[at++] = d.sys.value[k] + (d.sys.row[k] == j && j < 30 ? 1e6 : 0);
    }
    qpc_linsys_prepare(&both);
    const qpc_coarse *z = both.blocks->coarse;
    assert_true(z != NULL && z->pays);
    for (int32_t i = 0; i < d.n / 3; i++) { // no aggregate has nodes of both sheets, and none those alone
        assert_true(z->of[i] < z->count && z->of[d.n / 3 + i] < z->count);
        for (int32_t k = both.blocks->start[i]; k < both.blocks->start[i + 1]; k++) assert_true(both.blocks->column[k] < d.n / 3);
    }
    for (int32_t i = 0; i < ALONE; i++) assert_int_equal(z->of[2 * d.n / 3 + i], z->count);
    double *b = calloc(3 * (size_t)n, sizeof *b), *x = b + n, *y = x + n, size = 0;
    for (int32_t i = 0; i < n; i++) b[i] = 1e-3 * (1 + (i * 7) % 13);
    qpc_linsys_solve(&both, b, x);
    assert_int_equal(qpc_linsys_factor(&both, NULL), QPC_OK);
    qpc_linsys_solve(&both, b, y);
    for (int32_t i = 0; i < n; i++) size = fmax(size, fabs(y[i]));
    for (int32_t i = 0; i < n; i++) assert_true(fabs(x[i] - y[i]) <= 1e-11 * size);
    free(b);
    free(start);
    free(row);
    qpc_linsys_fini(&both);
    drape_fini(&d);
}

static void small_and_soft_sheets_have_none(void **state) {
    (void)state;
    drape d;
    load(&d, 60, 500); // few nodes
    assert_null(d.sys.blocks->coarse);
    drape_fini(&d);
    load(&d, FINE, 5); // soft
    qpc_linsys_prepare(&d.sys);
    assert_non_null(d.sys.blocks->coarse);
    assert_false(d.sys.blocks->coarse->pays);
    drape_fini(&d);
}

static void making_one_without_memory_says_so(void **state) {
    (void)state;
    drape d;
    load(&d, 65, 500);
    QPC_FAULTS(f) {
        qpc_blocks *b = NULL;
        qpc_error err = {0};
        qpc_status status = qpc_blocks_create(d.n, d.sys.start, d.sys.row, NULL, &b, &err);
        if (qpc_faults_ended(&f, status)) {
            assert_non_null(b->coarse);
            qpc_blocks_destroy(b);
        }
    }
    drape_fini(&d);
}

/// A path and a star: what the order makes of them.
static void the_order_is_narrow(void **state) {
    (void)state;
    enum { COUNT = 40 };
    int32_t start[COUNT + 1], other[2 * COUNT], place[COUNT], scratch[2 * COUNT], at = 0;
    int32_t chain[COUNT], where[COUNT]; // a path through nodes in no order: 0, 7, 14, ..
    for (int32_t i = 0; i < COUNT; i++) {
        chain[i] = i * 7 % COUNT;
        where[chain[i]] = i;
    }
    for (int32_t i = 0; i < COUNT; i++) {
        start[i] = at;
        if (where[i] > 0) other[at++] = chain[where[i] - 1];
        if (where[i] < COUNT - 1) other[at++] = chain[where[i] + 1];
    }
    start[COUNT] = at;
    assert_int_equal(qpc_coarse_order(COUNT, start, other, NULL, NULL, place, scratch), 1);
    bool seen[COUNT] = {false};
    for (int32_t i = 0; i < COUNT; i++) seen[place[i]] = true;
    for (int32_t i = 0; i < COUNT; i++) assert_true(seen[i]);
    // With both ends joined it is a ring.
    int32_t more_start[COUNT + 1] = {0}, more[2] = {0, 0};
    int32_t ends[2] = {chain[0], chain[COUNT - 1]}, low = ends[0] < ends[1] ? 0 : 1;
    more[0] = ends[1 - low];
    more[1] = ends[low];
    for (int32_t i = 0; i < COUNT; i++) more_start[i + 1] = more_start[i] + (i == ends[0] || i == ends[1]);
    assert_int_equal(qpc_coarse_order(COUNT, start, other, more_start, more, place, scratch), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(solves_agree_with_a_factor_and_take_fewer_steps),
        cmocka_unit_test(rows_of_any_weight_are_in_the_coarse_matrix),
        cmocka_unit_test(rows_that_take_few_steps_are_left_alone),
        cmocka_unit_test(both_instruction_sets_give_the_same_bits),
        cmocka_unit_test(sheets_apart_and_nodes_held_or_alone_are_solved),
        cmocka_unit_test(small_and_soft_sheets_have_none),
        cmocka_unit_test(making_one_without_memory_says_so),
        cmocka_unit_test(the_order_is_narrow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
