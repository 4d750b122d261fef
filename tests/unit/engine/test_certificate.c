/// The certificate: small for stored solutions, and each perturbation shows in the figure it
/// breaks.
#include "tests/support/instances.h"
#include "tests/support/smallqp.h"

#include "tests/support/faults.h"

#include <stdlib.h>
#include <xxhash.h>

#define CHAIN_NODES 40
#define CHAIN_ROWS 12
#define CHAIN_ENTRIES 6
#define CHAIN_SEED 11
#include "tests/support/chain.h"

static qpc_arena arena;
static smallqp small;

static qpc_certificate certify(const qpc_qp *qp, const double *x, const double *l) {
    qpc_certificate c;
    qpc_error err = {0};
    assert_ok(qpc_certify(qp, x, l, &arena, &c, &err), &err);
    return c;
}

static void stored_solutions_pass(void **state) {
    (void)state;
    for (int32_t k = 0; instance_names[k] != NULL; k++) {
        qpb_problem p;
        instance_load(instance_names[k], &p);
        instance_check(&p, p.x, p.lambda, &arena);
        qpb_free(&p);
    }
}

static void perturbed_solutions_fail_where_they_were_bent(void **state) {
    (void)state;
    const char *const names[] = {"cable_050", "stack_03", "rand_060", "cloth_10", "massspan_40"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        qpb_problem p;
        instance_load(names[k], &p);
        size_t n = (size_t)p.qp.n, m = (size_t)p.qp.m;
        double *x = calloc(n, sizeof *x), *l = calloc(m, sizeof *l);
        memcpy(x, p.x, n * sizeof *x);
        memcpy(l, p.lambda, m * sizeof *l);
        qpc_certificate good = certify(&p.qp, x, l);
        // x off by 1e-6: stat shows it, and err bounds the distance.
        for (size_t i = 0; i < n; i++) x[i] += 1e-6 * good.scale / sqrt(p.sys.diagonal[i]);
        qpc_certificate c = certify(&p.qp, x, l);
        if (!(c.stat > 1e-10 && c.stat > 1e3 * good.stat))
            fail_msg("%s: stat %g, was %g", p.name, c.stat, good.stat);
        memcpy(x, p.x, n * sizeof *x);
        // A multiplier off by 1 %.
        size_t largest = 0;
        for (size_t i = 0; i < m; i++)
            if (fabs(l[i]) > fabs(l[largest])) largest = i;
        l[largest] *= 1.01;
        c = certify(&p.qp, x, l);
        assert_true(c.stat > 1e-8 && c.stat > 1e3 * good.stat);
        assert_true(c.active_hash == good.active_hash);
        // A dropped row.
        l[largest] = 0;
        c = certify(&p.qp, x, l);
        assert_true(c.stat > 1e-6 && c.stat > 1e3 * good.stat);
        if (!p.equality[largest]) {
            assert_true(c.active_hash != good.active_hash);
            assert_int_equal(c.active, good.active - 1);
            l[largest] = -1;
            assert_true(certify(&p.qp, x, l).dual > 0);
        }
        free(x);
        free(l);
        qpb_free(&p);
    }
}

static void figures_follow_their_definitions(void **state) {
    (void)state;
    // K = diag(4, 1), b = (4, 0), rows -x1 <= -2 and x0 = 0.5; x = (1, 1), lambda = (3, -1).
    memset(&small, 0, sizeof small);
    small.n = small.m = 2;
    small.K[0][0] = 4;
    small.K[1][1] = 1;
    small.b[0] = 4;
    small.J[0][1] = -1;
    small.c[0] = -2;
    small.J[1][0] = 1;
    small.c[1] = 0.5;
    small.equality[1] = 1;
    small.key[0] = 30;
    small.key[1] = 20;
    const double x[2] = {1, 1}, l[2] = {3, -1};
    qpc_certificate c = certify(smallqp_build(&small), x, l);
    // r = (4, 1) - (4, 0) + (-1, -3) = (-1, -2); |r|^2 in K^-1 = 1/4 + 4
    // kt = (1, 1/2); |x|_K^2 = 5; |K^-1 b|_K = 2; viol(K^-1 b)/kt = 2, 1: S = sqrt 5
    double S = sqrt(5);
    assert_near(c.scale, S, 1e-15);
    assert_near(c.stat, sqrt(4.25) / S, 1e-15);
    assert_near(c.violation, 1, 1e-15);
    assert_near(c.prim, 1 / S, 1e-15); // 1/1 and 0.5/0.5
    assert_near(c.natural, 1, 1e-15);  // min(-1, 3) and |-0.5|
    assert_near(c.comp, (3 * 1 + 1 * 0.5) / 5, 1e-15);
    assert_near(c.err, c.stat + sqrt(c.comp), 1e-15);
    assert_near(c.dual, 0, 0); // an equality may pull
    assert_near(c.solve_check, 0, 1e-15);
    const uint64_t keys[2] = {20, 30};
    assert_int_equal(c.active, 2);
    assert_true(c.active_hash == XXH3_64bits(keys, sizeof keys));
    const double wrong[2] = {-3, -1};
    assert_near(certify(&small.qp, x, wrong).dual, 3 / S, 1e-15);
    // Natural residual of a slack row with a multiplier: lambda kt^2.
    small.c[0] = 5;
    small.c[1] = 1;
    assert_near(certify(&small.qp, x, l).natural, 3, 1e-15);
}

static void an_empty_row_counts_as_it_is(void **state) {
    (void)state;
    // 0 <= -1 cannot hold: prim shows it (kt = 1), S does not know of it.
    smallqp *s = calloc(1, sizeof *s);
    s->n = s->m = 1;
    s->K[0][0] = 4;
    s->b[0] = 4;
    s->c[0] = -1;
    const double x[1] = {1}, l[1] = {0};
    qpc_certificate c = certify(smallqp_build(s), x, l);
    assert_near(c.scale, 2, 1e-15);
    assert_near(c.prim, 0.5, 1e-15);
    assert_near(c.violation, 1, 1e-15);
    qpc_linsys_fini(&s->sys);
    free(s);
}

static void near(const char *name, const char *what, double a, double b) {
    // Round-off of stat in another order of sums, which is all that a solution's residual is.
    if (!(fabs(a - b) <= 1e-12 + 1e-6 * fabs(b))) fail_msg("%s: %s %.17g, %.17g", name, what, a, b);
}

/// Every storage and width of K, against each other: the stored solution, bent so that no figure is zero.
static void both_storages_agree(void **state) {
    (void)state;
    for (int32_t k = 0; instance_names[k] != NULL; k++) {
        qpb_problem p;
        instance_load(instance_names[k], &p);
        if (p.sys.kind != QPC_LINSYS_BAND) {
            qpb_free(&p);
            continue;
        }
        int32_t n = p.qp.n, w = p.sys.bandwidth, nnz = 0;
        int32_t *start = calloc((size_t)n + 1, sizeof *start);
        int32_t *row = calloc((size_t)n * (size_t)(w + 1), sizeof *row);
        double *x = calloc((size_t)n, sizeof *x);
        qpc_linsys sparse = {0};
        qpc_error err = {0};
        for (int32_t j = 0; j < n; start[++j] = nnz)
            for (int32_t i = j; i < n && i <= j + w; i++)
                if (i == j || *qpc_linsys_entry(&p.sys, i, j) != 0) row[nnz++] = i;
        assert_ok(qpc_linsys_resize_sparse(&sparse, n, start, row, &err), &err);
        for (int32_t j = 0; j < n; j++)
            for (int32_t e = start[j]; e < start[j + 1]; e++)
                *qpc_linsys_entry(&sparse, row[e], j) = *qpc_linsys_entry(&p.sys, row[e], j);
        for (int32_t i = 0; i < n; i++) x[i] = p.x[i] + 1e-3 * p.scale / sqrt(p.sys.diagonal[i]) * (i % 3 - 1);
        qpc_certificate a = certify(&p.qp, x, p.lambda);
        qpc_qp other = p.qp;
        other.sys = &sparse;
        assert_ok(qpc_linsys_factor(&sparse, &err), &err);
        qpc_certificate b = certify(&other, x, p.lambda);
        near(p.name, "scale", a.scale, b.scale);
        near(p.name, "stat", a.stat, b.stat);
        near(p.name, "prim", a.prim, b.prim);
        near(p.name, "comp", a.comp, b.comp);
        near(p.name, "natural", a.natural, b.natural);
        assert_true(a.solve_check <= 1e-6 && b.solve_check <= 1e-6);
        assert_true(a.by == QPC_BY_FACTOR && b.by == QPC_BY_FACTOR);
        assert_true(a.active_hash == b.active_hash);
        qpc_linsys_fini(&sparse);
        free(start);
        free(row);
        free(x);
        qpb_free(&p);
    }
}

enum { SIDE = 30, SHEET = 3 * SIDE * SIDE, SHEET_ROWS = 40 };

/// A sheet of masses (1e-2 to 1e2) and springs, `stiff` each: K = diag(mass) + (positive semidefinite), too
/// wide for a band, and rows of two unknowns.
typedef struct sheet {
    qpc_linsys sys;
    qpc_qp qp;
    double mass[SHEET], b[SHEET], x[SHEET], value[2 * SHEET_ROWS], c[SHEET_ROWS], lambda[SHEET_ROWS];
    int32_t row_start[SHEET_ROWS + 1], column[2 * SHEET_ROWS];
    uint8_t equality[SHEET_ROWS];
    uint64_t key[SHEET_ROWS];
} sheet;

static uint32_t seed;
static double any(void) { // -0.5 to 0.5
    seed = seed * 1664525U + 1013904223U;
    return seed / 4294967296.0 - 0.5;
}

static void sheet_init(sheet *s, double stiff) {
    memset(s, 0, sizeof *s);
    static int32_t start[SHEET + 1], row[9 * SHEET];
    qpc_error err = {0};
    int32_t nnz = 0;
    for (int32_t j = 0; j < SHEET; start[++j] = nnz) { // full 3x3 blocks with itself, the right, the next line
        int32_t node = j / 3;
        for (int32_t i = j; i < 3 * node + 3; i++) row[nnz++] = i;
        for (int32_t k = 0; k < 3 && node % SIDE + 1 < SIDE; k++) row[nnz++] = 3 * (node + 1) + k;
        for (int32_t k = 0; k < 3 && node + SIDE < SIDE * SIDE; k++) row[nnz++] = 3 * (node + SIDE) + k;
    }
    assert_ok(qpc_linsys_resize_sparse(&s->sys, SHEET, start, row, &err), &err);
    assert_non_null(s->sys.blocks); // conjugate gradients can do it
    for (int32_t i = 0; i < SHEET; i++) {
        s->mass[i] = pow(10, 4 * any());
        *qpc_linsys_entry(&s->sys, i, i) += s->mass[i];
        for (int32_t way = 0; way < 2; way++) {
            int32_t node = i / 3, other = node + (way == 0 ? 1 : SIDE);
            if (other >= SIDE * SIDE || (way == 0 && node % SIDE + 1 == SIDE)) continue;
            int32_t j = 3 * other + i % 3;
            *qpc_linsys_entry(&s->sys, i, i) += stiff;
            *qpc_linsys_entry(&s->sys, j, j) += stiff;
            *qpc_linsys_entry(&s->sys, j, i) -= stiff;
        }
        s->b[i] = any() * s->mass[i];
        s->x[i] = any();
    }
    for (int32_t i = 0; i < SHEET_ROWS; i++) {
        s->row_start[i + 1] = 2 * (i + 1);
        s->column[2 * i] = 60 * i;
        s->column[2 * i + 1] = 60 * i + 7;
        s->value[2 * i] = any();
        s->value[2 * i + 1] = any();
        s->c[i] = any();
        s->lambda[i] = any();
        s->equality[i] = i == 3;
        s->key[i] = (uint64_t)i;
    }
    s->qp = (qpc_qp){.n = SHEET, .m = SHEET_ROWS, .sys = &s->sys, .b = s->b, .row_start = s->row_start,
                     .column = s->column, .value = s->value, .c = s->c, .equality = s->equality,
                     .priority = s->equality, .key = s->key};
}

/// Without a factor no figure is smaller than with it, nor much larger.
static void what_is_known_without_a_factor(void **state) {
    (void)state;
    static sheet s;
    for (int32_t round = 0; round < 8; round++) {
        seed = (uint32_t)round + 1;
        sheet_init(&s, pow(10, round - 3));
        s.sys.least = s.mass;
        qpc_certificate bound = certify(&s.qp, s.x, s.lambda);
        s.sys.least = NULL;
        qpc_certificate guess = certify(&s.qp, s.x, s.lambda);
        assert_int_equal(s.sys.factorizations, 0);
        assert_int_equal(bound.by, QPC_BY_BOUND);
        assert_int_equal(guess.by, QPC_BY_ESTIMATE);
        qpc_error err = {0};
        assert_ok(qpc_linsys_factor(&s.sys, &err), &err);
        qpc_certificate exact = certify(&s.qp, s.x, s.lambda);
        assert_int_equal(exact.by, QPC_BY_FACTOR);
        double up = 1 - 1e-9, r = exact.stat * exact.scale;
        assert_true(bound.scale * up <= exact.scale && guess.scale * up <= exact.scale);
        assert_true(bound.stat >= up * exact.stat && bound.prim >= up * exact.prim);
        assert_true(bound.dual >= up * exact.dual && bound.comp >= up * exact.comp && bound.err >= up * exact.err);
        if (!(bound.stat * bound.scale <= (round <= 5 ? 1.3 : 20) * r)) fail_msg("%d: %g for %g", round, bound.stat * bound.scale, r);
        if (!(fabs(guess.stat * guess.scale - r) <= 0.02 * r)) fail_msg("%d: %g for %g", round, guess.stat * guess.scale, r);
        assert_near(bound.natural, exact.natural, 0);
        assert_true(bound.active_hash == exact.active_hash);
        qpc_linsys_fini(&s.sys);
    }
}

/// K^-1 b of the QP before, or what is none, and a motion that is nearly stationary: nothing is solved for, and no figure is too small.
static void what_is_known_of_nearly_stationary_motions(void **state) {
    (void)state;
    static sheet s;
    static double z[SHEET], off[SHEET], load[SHEET];
    const double nudge[] = {1e-12, 1e-10, 1e-6, 1e-5, 1e-3};
    for (int32_t round = 0; round < 15; round++) {
        qpc_error err = {0};
        seed = (uint32_t)round + 1;
        sheet_init(&s, 0.5);
        for (int32_t i = 0; i < SHEET; i++) load[i] = s.b[i] = 10 * any() * s.mass[i];
        for (int32_t i = 0; i < SHEET_ROWS; i++) {
            s.lambda[i] = 1e-3;
            for (int32_t k = 2 * i; k < 2 * i + 2; k++) load[s.column[k]] -= s.lambda[i] * s.value[k];
        }
        assert_ok(qpc_linsys_factor(&s.sys, &err), &err);
        qpc_linsys_solve(&s.sys, load, s.x);
        for (int32_t i = 0; i < SHEET; i++) s.x[i] += nudge[round % 5] * (off[i] = any());
        qpc_certificate exact = certify(&s.qp, s.x, s.lambda);
        s.sys.factored = false;
        s.sys.least = s.mass;
        if (round >= 5) qpc_linsys_solve_like_last(&s.sys, s.b, 1e-2, z);
        for (int32_t i = 0; i < SHEET && round >= 10; i++) s.sys.free[i] = 1e3 * off[i]; // of no use
        bool yes, no;
        assert_ok(qpc_is_stationary(&s.qp, s.x, s.lambda, 10 * exact.stat + 1e-12, &arena, &yes, &err), &err);
        assert_ok(qpc_is_stationary(&s.qp, s.x, s.lambda, 0.9 * exact.stat, &arena, &no, &err), &err);
        assert_true(yes && !no);
        uint64_t solves = s.sys.solves;
        qpc_certificate bound = certify(&s.qp, s.x, s.lambda);
        uint64_t expected = (round / 5 != 1) + (round % 5 > 2);
        if (s.sys.solves - solves != expected) fail_msg("%d: %d solves, stat %g", round, (int)(s.sys.solves - solves), bound.stat);
        assert_int_equal(bound.by, QPC_BY_BOUND);
        assert_true(bound.scale <= exact.scale * (1 + 1e-9) && bound.scale >= 0.5 * exact.scale);
        assert_true(bound.stat >= exact.stat * (1 - 1e-3) && bound.stat <= 10 * exact.stat + 1e-12);
        assert_true(bound.prim >= exact.prim * (1 - 1e-9) && bound.comp >= exact.comp * (1 - 1e-9));
        qpc_linsys_fini(&s.sys);
    }
}

/// What an engine knew of K^-1 r: where the masses say too little it is taken over if it is of use, and no figure is too small whatever it is.
static void what_an_engine_knew_of_the_residual(void **state) {
    (void)state;
    static sheet s;
    static double load[SHEET], off[SHEET];
    for (int32_t round = 0; round < 6; round++) {
        qpc_error err = {0};
        seed = (uint32_t)round + 1;
        sheet_init(&s, 300);
        for (int32_t i = 0; i < SHEET; i++) s.b[i] = 10 * any() * s.mass[i];
        memset(s.lambda, 0, sizeof s.lambda);
        assert_ok(qpc_linsys_factor(&s.sys, &err), &err);
        qpc_linsys_solve(&s.sys, s.b, s.x);
        for (int32_t i = 0; i < SHEET; i++) s.x[i] += off[i] = 1e-7 * any(); // |r|_{D^-1} is some tens of |r|_{K^-1}
        qpc_certificate exact = certify(&s.qp, s.x, s.lambda);
        qpc_linsys_solve(&s.sys, s.b, load);
        s.sys.factored = false;
        s.sys.least = s.mass;
        qpc_linsys_solve_like_last(&s.sys, s.b, 1e-2, load);
        memcpy(s.sys.left, off, sizeof off); // K^-1 r
        for (int32_t i = 0; i < SHEET && round % 3 == 1; i++) s.sys.left[i] += 0.005 * off[i] * any();
        for (int32_t i = 0; i < SHEET && round % 3 == 2; i++) s.sys.left[i] = any();
        s.sys.left_known = true;
        uint64_t solves = s.sys.solves;
        qpc_certificate bound = certify(&s.qp, s.x, s.lambda);
        uint64_t expected = round % 3 == 2;
        if (s.sys.solves - solves != expected) fail_msg("%d: %d solves, stat %g for %g", round, (int)(s.sys.solves - solves), bound.stat, exact.stat);
        if (!(bound.stat >= exact.stat * (1 - 1e-3) && bound.stat <= 3 * exact.stat)) fail_msg("%d: %g for %g", round, bound.stat, exact.stat);
        qpc_linsys_fini(&s.sys);
    }
}

/// A chain with masses and springs, and a QP over it that dv and lambda solve to round-off. still: dv is next to nothing.
static void solved_chain(chain *q, bool still, double mass[N], double dv[N], double lambda[ROWS]) {
    qpc_error err = {0};
    assert_ok(qpc_linsys_resize(&q->K, N, 5, &err), &err);
    for (int32_t i = 0; i < N; i++) {
        mass[i] = 0.5 + 0.4 * uniform();
        qpc_linsys_add(&q->K, i, i, mass[i]);
        dv[i] = (still ? 1e-14 : 1) * uniform();
    }
    for (int32_t i = 3; i < N; i++) {
        double k = pow(10, 2 + uniform());
        qpc_linsys_add(&q->K, i, i, k);
        qpc_linsys_add(&q->K, i - 3, i - 3, k);
        qpc_linsys_add(&q->K, i, i - 3, -k);
    }
    chain_point(q, ROWS);
    qpc_linsys_multiply(&q->K, dv, q->b);
    for (int32_t i = 0; i < ROWS; i++) { // every other row holds
        double s = 0;
        lambda[i] = i % 2 == 0 ? 1 + uniform() : 0;
        for (int32_t k = CHAIN_ENTRIES * i; k < CHAIN_ENTRIES * (i + 1); k++) {
            q->column[k] = 6 * i + k % CHAIN_ENTRIES;
            q->value[k] = uniform();
            s += q->value[k] * dv[q->column[k]];
            q->b[q->column[k]] += lambda[i] * q->value[k];
        }
        chain_close_row(q, i, CHAIN_ENTRIES * (i + 1), s + (i % 2 == 0 ? 0 : 0.1), false);
    }
}

/// With a D below K what is solved, in motion or at rest, is certified by a product or two, in bounds from above; what is not is judged by the factor.
static void what_is_solved_costs_no_factor(void **state) {
    (void)state;
    static chain q;
    static double mass[N], dv[N], lambda[ROWS];
    for (int32_t round = 0; round < 20; round++) {
        solved_chain(&q, round % 2 == 1, mass, dv, lambda);
        q.K.least = mass;
        qpc_certificate bound = certify(&q.qp, dv, lambda);
        assert_int_equal(bound.by, QPC_BY_BOUND);
        assert_int_equal(q.K.factorizations + q.K.solves, 0);
        assert_true(bound.stat <= 1e-9 && bound.prim <= 1e-9 && bound.dual <= 1e-9 && bound.comp <= 1e-12);
        q.K.least = NULL;
        qpc_certificate exact = certify(&q.qp, dv, lambda);
        assert_int_equal(exact.by, QPC_BY_FACTOR);
        assert_true(bound.scale <= exact.scale * (1 + 1e-12) && bound.scale >= 1e-3 * exact.scale); // k / m to 1e4
        // Both are round-off here, whose size the factor adds to.
        assert_true(bound.stat * bound.scale >= exact.stat * exact.scale * (1 - 1e-6) - 1e-14);
        assert_true(bound.prim >= exact.prim && bound.comp >= exact.comp * (1 - 1e-12) && bound.natural == exact.natural);
        assert_true(bound.active_hash == exact.active_hash && bound.active == exact.active);
        for (int32_t bend = 0; bend < 3; bend++) { // each of them must not pass by the bound
            double was = bend == 0 ? dv[7] : bend == 1 ? lambda[0] : lambda[1];
            if (bend == 0) dv[7] += 1e-6;
            else if (bend == 1) lambda[0] += 1e-4;
            else lambda[1] = -1e-3;
            qpc_certificate off = certify(&q.qp, dv, lambda);
            q.K.least = mass;
            qpc_certificate again = certify(&q.qp, dv, lambda);
            assert_int_equal(again.by, QPC_BY_FACTOR);
            assert_near(again.stat, off.stat, 0);
            assert_near(again.scale, off.scale, 0);
            assert_true(again.stat > 1e-9 || again.prim > 1e-9 || again.dual > 1e-9);
            q.K.least = NULL;
            *(bend == 0 ? &dv[7] : bend == 1 ? &lambda[0] : &lambda[1]) = was;
        }
        qpc_linsys_fini(&q.K);
    }
}

static void nan_never_looks_solved(void **state) {
    (void)state;
    const double l[2] = {0, 0}, x[2] = {1, (double)NAN};
    qpc_certificate c = certify(&small.qp, x, l);
    assert_false(c.stat <= 1e300);
    assert_false(c.natural <= 1e300);
}

static void out_of_memory_is_reported(void **state) {
    (void)state;
    const double l[2] = {0, 0}, x[2] = {1, 1};
    QPC_FAULTS(f) {
        qpc_arena own = {0};
        qpc_certificate c;
        qpc_error err = {0};
        qpc_faults_ended(&f, qpc_certify(&small.qp, x, l, &own, &c, &err));
        qpc_arena_fini(&own);
    }
}

static int teardown(void **state) {
    (void)state;
    qpc_linsys_fini(&small.sys);
    qpc_arena_fini(&arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_solutions_pass),
        cmocka_unit_test(perturbed_solutions_fail_where_they_were_bent),
        cmocka_unit_test(figures_follow_their_definitions),
        cmocka_unit_test(an_empty_row_counts_as_it_is),
        cmocka_unit_test(both_storages_agree),
        cmocka_unit_test(what_is_known_without_a_factor),
        cmocka_unit_test(what_is_known_of_nearly_stationary_motions),
        cmocka_unit_test(what_an_engine_knew_of_the_residual),
        cmocka_unit_test(what_is_solved_costs_no_factor),
        cmocka_unit_test(nan_never_looks_solved),
        cmocka_unit_test(out_of_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
