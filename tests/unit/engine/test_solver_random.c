/// Random cables: all exact engines agree by certificate, whatever the stiffness, masses and rows.
///
/// A cable (or several) of random shape, stiffness 10 to 1e9 N/m, masses 0.01 to 1e4 kg, and random
/// rows: particles and links against planes, cable against cable, strain limits, exact and nearly
/// exact copies, copies scaled by 1e-6 to 1e6, fixed points. Rows are feasible by construction (a
/// random dv satisfies them all).
#include "engine/dynamics/cable.h"
#include "engine/solver/certificate.h"
#include "engine/solver/solver.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 60, N = 3 * NODES, ROWS = 160, ENTRIES = 12 };

static uint64_t seed;
static double uniform(void) { // in [0, 1)
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (double)(seed >> 11) / (double)(1ULL << 53);
}
static int32_t below(int32_t count) {
    return (int32_t)(uniform() * count);
}
static double power(double low, double high) {
    return low * pow(high / low, uniform());
}

typedef struct random_qp {
    qpc_qp qp;
    qpc_linsys K;
    double b[N], c[ROWS], value[ROWS * ENTRIES], x[N], v[N], feasible[N];
    int32_t row_start[ROWS + 1], column[ROWS * ENTRIES];
    uint8_t equality[ROWS], priority[ROWS];
    uint64_t key[ROWS];
} random_qp;

static random_qp q;
static qpc_arena arena;

static void unit(double *n) {
    double l;
    do {
        for (int32_t k = 0; k < 3; k++) n[k] = 2 * uniform() - 1;
        l = sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
    } while (l < 0.1 || l > 1);
    for (int32_t k = 0; k < 3; k++) n[k] /= l;
}

static void term(int32_t *at, int32_t node, double w, const double *n) {
    for (int32_t k = 0; k < 3; k++) {
        q.column[*at] = 3 * node + k;
        q.value[(*at)++] = w * n[k];
    }
}

/// least_bend: the least relative change of a bent copy; scaled: copies are scaled by up to 1e6,
/// too.
static void make(uint64_t s, double stiffness, double heaviest, double least_bend, bool scaled) {
    static double k[NODES], l0[NODES], f[N], Hv[N];
    static int32_t node[NODES];
    qpc_error err = {0};
    qpc_linsys K = q.K;
    memset(&q, 0, sizeof q);
    q.K = K;
    seed = s * 977 + 3;
    double dt = 0.005;
    int32_t springs = 0;
    for (int32_t i = 0; i < NODES; i++) {
        for (int32_t a = 0; a < 3; a++) {
            q.x[3 * i + a] = (a == 0 ? 0.1 * i : 0) + 0.03 * uniform();
            q.v[3 * i + a] = 4 * uniform() - 2;
        }
        if (i % 20 != 19) { // three cables
            node[springs] = i;
            k[springs] = stiffness;
            l0[springs++] = 0.09 + 0.02 * uniform();
        }
    }
    memset(f, 0, sizeof f);
    memset(Hv, 0, sizeof Hv);
    assert_ok(qpc_linsys_resize(&q.K, N, 5, &err), &err);
    qpc_springs cable = {.count = springs, .node = node, .stiffness = k, .rest_length = l0};
    qpc_springs_stiffness(&cable, q.x, q.v, dt, &q.K, Hv);
    qpc_springs_force(&cable, q.x, f);
    for (int32_t i = 0; i < NODES; i++) {
        double mass = i % 20 == 0 ? heaviest : power(0.01, 1);
        for (int32_t a = 0; a < 3; a++) {
            qpc_linsys_add(&q.K, 3 * i + a, 3 * i + a, mass);
            q.b[3 * i + a] = dt * (f[3 * i + a] - dt * Hv[3 * i + a] - (a == 1 ? 10 * mass : 0));
            q.feasible[3 * i + a] = 2 * uniform() - 1;
        }
    }
    assert_ok(qpc_linsys_factor(&q.K, &err), &err);
    int32_t at = 0, m = 0;
    for (; m < ROWS; m++) {
        double n[3], factor = 1;
        int32_t kind = below(8), i = below(NODES - 1), start = at;
        unit(n);
        if (kind == 0 && m > 0) { // a copy, exact, scaled or bent a little
            int32_t from = below(m);
            factor = below(2) || !scaled ? 1 : power(1e-6, 1e6);
            double bend = below(2) ? 0 : power(least_bend, 1e-3);
            for (int32_t e = q.row_start[from]; e < q.row_start[from + 1]; e++) {
                q.column[at] = q.column[e];
                q.value[at++] = factor * q.value[e] * (1 + bend * (uniform() - 0.5));
            }
        } else if (kind <= 3) { // a particle against a plane
            term(&at, i, -1, n);
        } else if (kind <= 5) { // a link against an edge of something known
            double w = uniform();
            term(&at, i, -(1 - w), n);
            term(&at, i + 1, -w, n);
        } else if (kind == 6) { // link against link, far apart in the numbering
            int32_t j = (i + 5 + below(NODES - 15)) % (NODES - 1);
            int32_t low = i < j ? i : j, high = i < j ? j : i;
            double w = uniform(), u = uniform();
            if (high - low < 2) high = low + 2 < NODES - 1 ? low + 2 : NODES - 2;
            if (high - low < 2) low = high - 2;
            term(&at, low, -(1 - w), n);
            term(&at, low + 1, -w, n);
            term(&at, high, 1 - u, n);
            term(&at, high + 1, u, n);
        } else { // strain limit
            term(&at, i, 1, n);
            term(&at, i + 1, -1, n);
        }
        q.row_start[m] = start;
        q.row_start[m + 1] = at;
        double bound = 0, size = 0;
        for (int32_t e = start; e < at; e++) {
            bound += q.value[e] * q.feasible[q.column[e]];
            size += fabs(q.value[e]);
        }
        q.equality[m] = m < 3;
        q.c[m] = bound + (q.equality[m] || below(3) == 0 ? 0 : power(1e-6, 1) * size);
        q.key[m] = (uint64_t)below(1000);
        q.priority[m] = 1;
    }
    q.qp = (qpc_qp){.n = N,
                    .m = m,
                    .sys = &q.K,
                    .b = q.b,
                    .row_start = q.row_start,
                    .column = q.column,
                    .value = q.value,
                    .c = q.c,
                    .equality = q.equality,
                    .priority = q.priority,
                    .key = q.key};
}

static double distance(const double *x, const double *y, double scale) {
    double d[N], e[N], sum = 0;
    for (int32_t i = 0; i < N; i++) d[i] = x[i] - y[i];
    qpc_linsys_multiply(&q.K, d, e);
    for (int32_t i = 0; i < N; i++) sum += d[i] * e[i];
    return sqrt(fabs(sum)) / scale;
}

static qpc_solver_report solve(qpc_solver_id id, const qpc_solver_options *options, double *x,
                               double *l, qpc_certificate *c) {
    qpc_error err = {0};
    qpc_solver_report report;
    assert_ok(qpc_solve(id, &q.qp, options, &arena, x, l, &report, &err), &err);
    assert_ok(qpc_certify(&q.qp, x, l, &arena, c, &err), &err);
    return report;
}

static void exact_engines_agree(void **state) {
    (void)state;
    const double stiffness[] = {10, 1e4, 1.38e6, 1.38e9}, heaviest[] = {1, 1e4};
    int32_t fallbacks = 0, runs = 0;
    for (int32_t turn = 0; turn < 80; turn++) {
        double x[N], y[N], l[ROWS] = {0}, m[ROWS] = {0};
        qpc_certificate c;
        qpc_solver_options exact = qpc_solver_options_default();
        exact.exact = true;
        exact.residual_tolerance = 1e300; // rows scaled by 1e6: m/s mean nothing
        make((uint64_t)turn, stiffness[turn % 4], heaviest[turn / 4 % 2], 1e-4, true);
        qpc_solver_report report = solve(QPC_SOLVER_ACTIVE_SET, &exact, x, l, &c);
        if (report.outcome != QPC_OUTCOME_OPTIMAL || !(c.stat <= 1e-9 && c.prim <= 1e-9) ||
            c.dual > 0 || !(c.comp <= 1e-8))
            fail_msg("turn %d: active-set outcome %d stat %g prim %g comp %g", turn, report.outcome,
                     c.stat, c.prim, c.comp);
        report = solve(QPC_SOLVER_AUTO, &exact, y, m, &c);
        if (report.outcome != QPC_OUTCOME_OPTIMAL || !(c.stat <= 1e-9 && c.prim <= 1e-9) ||
            c.dual > 0 || !(c.comp <= 1e-8))
            fail_msg("turn %d: auto outcome %d stat %g prim %g comp %g", turn, report.outcome,
                     c.stat, c.prim, c.comp);
        // Both bounds are on the distance to the one solution.
        if (!(distance(x, y, c.scale) <= 1e-6 + 2 * c.err))
            fail_msg("turn %d: engines differ by %g", turn, distance(x, y, c.scale));
        runs++;
        fallbacks += report.fell_back;
        // Warm from the answer, and from the answer with a third of its rows forgotten.
        for (int32_t i = 0; i < ROWS; i++)
            if (i % 3 == 0) m[i] = 0;
        report = solve(QPC_SOLVER_ACTIVE_SET, &exact, y, m, &c);
        assert_int_equal(report.outcome, QPC_OUTCOME_OPTIMAL);
        assert_true(distance(x, y, c.scale) <= 1e-7);
        qpc_arena_reset(&arena);
    }
    // Copies bent by 1e-4 ask for exact multipliers of 1e5 and more: often a case for active-set.
    assert_true(fallbacks <= runs * 3 / 4);
}

static void steps_are_accepted_at_high_stiffness(void **state) {
    (void)state;
    // The acceptance of a step: natural residual in m/s and stat, without exact.
    for (int32_t turn = 0; turn < 60; turn++) {
        double x[N], l[ROWS] = {0};
        qpc_certificate c;
        qpc_solver_options options = qpc_solver_options_default();
        options.residual_tolerance = 6e-7;
        make((uint64_t)(1000 + turn), turn % 2 ? 1.38e9 : 1.38e6, 1e4, 1e-3, false);
        qpc_solver_report report = solve(QPC_SOLVER_AUTO, &options, x, l, &c);
        if (report.outcome != QPC_OUTCOME_OPTIMAL || !(c.stat <= 1e-6 && c.natural <= 6e-7))
            fail_msg("turn %d: %s outcome %d stat %g natural %g", turn,
                     qpc_solver_name(report.engine), report.outcome, c.stat, c.natural);
        qpc_arena_reset(&arena);
    }
}

static void what_doubles_cannot_carry_is_reported_honestly(void **state) {
    (void)state;
    // Tight rows bent by 1e-9 over stiff springs: multipliers of 1e9 and more would be exact. The
    // rows do not contradict, so no proof may be claimed, and "optimal" is said of nothing worse
    // than asked.
    int32_t missed = 0;
    for (int32_t turn = 0; turn < 100; turn++) {
        double x[N], l[ROWS] = {0};
        qpc_certificate c;
        qpc_solver_options options = qpc_solver_options_default();
        options.residual_tolerance = 6e-7;
        make((uint64_t)(5000 + turn), turn % 2 ? 1.38e9 : 1e5, 1e4, 1e-9, false);
        qpc_solver_report report = solve(QPC_SOLVER_AUTO, &options, x, l, &c);
        if (report.outcome == QPC_OUTCOME_INFEASIBLE) fail_msg("turn %d: no contradiction", turn);
        for (int32_t i = 0; i < N; i++) assert_true(isfinite(x[i]));
        assert_near(c.dual, 0, 0);
        if (report.outcome == QPC_OUTCOME_OPTIMAL) {
            if (!(c.stat <= 1.01e-6 && c.natural <= 6.1e-7))
                fail_msg("turn %d: %s stat %g natural %g", turn, qpc_solver_name(report.engine),
                         c.stat, c.natural);
        } else {
            missed++;
            if (!(c.natural <= 1e-3)) fail_msg("turn %d: missed by %g m/s", turn, c.natural);
        }
        qpc_arena_reset(&arena);
    }
    assert_true(missed <= 20);
}

/// -1/2 (b - J'l)'K^-1 (b - J'l) - c'l; x (N): K^-1 (b - J'l).
static double dual_objective(const double *l, double *x) {
    double load[N], sum = 0;
    memcpy(load, q.b, sizeof load);
    for (int32_t i = 0; i < q.qp.m; i++) {
        for (int32_t e = q.row_start[i]; e < q.row_start[i + 1]; e++) load[q.column[e]] -= l[i] * q.value[e];
        sum -= q.c[i] * l[i];
    }
    qpc_linsys_solve(&q.K, load, x);
    for (int32_t i = 0; i < N; i++) sum -= 0.5 * load[i] * x[i];
    return sum;
}

/// T43: a motion of its impulses, whose dual objective is no less than that of the warm start; so solves of two iterations each, one
/// after the other, come nearer and nearer.
static void what_is_interrupted_never_falls_behind_its_warm_start(void **state) {
    (void)state;
    static const qpc_solver_id ids[] = {QPC_SOLVER_AUTO, QPC_SOLVER_ACTIVE_SET, QPC_SOLVER_AUGMENTED_LAGRANGIAN, QPC_SOLVER_INTERIOR_POINT};
    for (int32_t turn = 0; turn < 40; turn++) {
        double x[N], y[N], l[ROWS] = {0};
        qpc_certificate c;
        qpc_solver_options options = qpc_solver_options_default();
        qpc_solver_id id = ids[turn % 4];
        options.anytime = true;
        make((uint64_t)(9000 + turn), turn / 4 % 2 ? 1e4 : 1.38e6, 1, 1e-3, false);
        double before = dual_objective(l, y), first = before;
        for (int32_t part = 0; part < 6; part++) {
            options.max_iterations = 2;
            qpc_solver_report report = solve(id, &options, x, l, &c);
            double after = dual_objective(l, y);
            assert_true(report.iterations <= 2);
            assert_near(c.dual, 0, 0);
            if (!(distance(x, y, c.scale) <= 1e-7) || !(after >= before - 1e-9 * fabs(before)))
                fail_msg("turn %d, %s: off by %g, from %.12g to %.12g", turn, qpc_solver_name(id), distance(x, y, c.scale), before, after);
            before = after;
        }
        if (id != QPC_SOLVER_INTERIOR_POINT) assert_true(before > first);
        qpc_arena_reset(&arena);
    }
}

static int teardown(void **state) {
    (void)state;
    qpc_linsys_fini(&q.K);
    qpc_arena_fini(&arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_engines_agree),
        cmocka_unit_test(steps_are_accepted_at_high_stiffness),
        cmocka_unit_test(what_is_interrupted_never_falls_behind_its_warm_start),
        cmocka_unit_test(what_doubles_cannot_carry_is_reported_honestly),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
