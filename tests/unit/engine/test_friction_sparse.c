/// Friction of sheets without dense matrices: a sheet falls on a ball and slides off it. The answers against Coulomb's law by this
/// file's own arithmetic, against the dense methods on W formed here, with conjugate gradients and with a factor; bounds,
/// memory, faults.
#include "tests/support/oracle.h"

#include "engine/solver/friction.h"
#include "tests/support/drape.h"
#include "tests/support/faults.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static qpc_arena arena;

typedef struct sheet {
    drape d;
    double *least, *mu, *t_value, *u0; // (n); of contacts
    int32_t *row, *t_start, *t_column;
    double *dv, *beta, *last_beta, *lambda;
    qpc_friction friction;
    qpc_solver_report solver;
    qpc_friction_report report;
} sheet;
static sheet s;

static void *zeros(size_t count, size_t size) {
    void *p = calloc(count, size);
    assert_non_null(p);
    return p;
}

static void begin(int32_t k, double membrane) {
    assert_true(drape_init(&s.d, k, membrane));
    size_t n = (size_t)s.d.n, rows = 2 * (size_t)(k * k);
    s.least = zeros(n, sizeof(double));
    for (size_t i = 0; i < n; i++) s.least[i] = s.d.mass;
    s.d.sys.least = s.least;
    s.mu = zeros(rows, sizeof(double));
    s.row = zeros(rows, sizeof(int32_t));
    s.u0 = zeros(2 * rows, sizeof(double));
    s.beta = zeros(2 * rows, sizeof(double));
    s.last_beta = zeros(2 * rows, sizeof(double));
    s.lambda = zeros(rows, sizeof(double));
    s.t_start = zeros(2 * rows + 1, sizeof(int32_t));
    s.t_column = zeros(12 * rows, sizeof(int32_t));
    s.t_value = zeros(12 * rows, sizeof(double));
    s.dv = zeros(n, sizeof(double));
}

static void end(void) {
    drape_fini(&s.d);
    void *all[] = {s.least, s.mu, s.row, s.u0, s.beta, s.last_beta, s.lambda, s.t_start, s.t_column, s.t_value, s.dv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    memset(&s, 0, sizeof s);
}

/// The next step's rows, each a contact with friction: tangents along the ball, impulses of the step before by key.
static void assemble(double mu) {
    int32_t before = s.d.last_m;
    assert_true(drape_assemble(&s.d));
    memset(s.beta, 0, 4 * (size_t)(s.d.k * s.d.k) * sizeof *s.beta);
    for (int32_t i = 0, j = 0; i < s.d.m; i++) {
        int32_t from = s.d.row_start[i], count = s.d.row_start[i + 1] - from;
        double part = count > 3 ? 0.5 : 1, n[3], t[2][3], size;
        for (int32_t k = 0; k < 3; k++) n[k] = -s.d.value[from + k] / part;
        t[0][0] = n[1], t[0][1] = -n[0], t[0][2] = 0;
        size = hypot(n[0], n[1]);
        for (int32_t k = 0; k < 3; k++) t[0][k] /= size;
        for (int32_t k = 0; k < 3; k++) t[1][k] = n[(k + 1) % 3] * t[0][(k + 2) % 3] - n[(k + 2) % 3] * t[0][(k + 1) % 3];
        for (int32_t a = 0; a < 2; a++) {
            int32_t at = s.t_start[2 * i + a];
            s.u0[2 * i + a] = 0;
            for (int32_t k = 0; k < count; k++, at++) {
                s.t_column[at] = s.d.column[from + k];
                s.t_value[at] = part * t[a][k % 3];
                s.u0[2 * i + a] += s.t_value[at] * s.d.v[s.t_column[at]];
            }
            s.t_start[2 * i + a + 1] = at;
        }
        s.row[i] = i;
        s.mu[i] = mu;
        while (j < before && s.d.last_key[j] < s.d.key[i]) j++;
        for (int32_t a = 0; a < 2 && j < before && s.d.last_key[j] == s.d.key[i]; a++) s.beta[2 * i + a] = s.last_beta[2 * j + a];
    }
    memcpy(s.lambda, s.d.lambda, (size_t)s.d.m * sizeof *s.lambda);
    s.friction = (qpc_friction){s.d.m, s.row, s.mu, s.t_start, s.t_column, s.t_value, s.u0};
}

static qpc_status solve(double tolerance, int32_t most, int32_t total, qpc_error *err) {
    qpc_solver_options options = qpc_solver_options_default();
    qpc_friction_options how = {.mode = QPC_FRICTION_EXACT, .tolerance = tolerance, .max_iterations = most, .max_total = total};
    return qpc_solve_friction(QPC_SOLVER_AUTO, &s.d.qp, &s.friction, &options, &how, &arena, s.dv, s.lambda, s.beta, &s.solver,
                              &s.report, err);
}

static void advance(void) {
    memcpy(s.d.lambda, s.lambda, (size_t)s.d.m * sizeof *s.lambda);
    memcpy(s.last_beta, s.beta, 2 * (size_t)s.d.m * sizeof *s.beta);
    drape_advance(&s.d, s.dv);
    qpc_arena_reset(&arena);
}

/// u of all contacts; velocities are compared with their size.
static double velocities(const double *dv, double *u) {
    double most = 0;
    for (int32_t i = 0; i < s.d.m; i++) {
        double *v = u + 3 * (int64_t)i;
        v[0] = s.d.c[i];
        for (int32_t k = s.d.row_start[i]; k < s.d.row_start[i + 1]; k++) v[0] -= s.d.value[k] * dv[s.d.column[k]];
        for (int32_t a = 0; a < 2; a++) {
            v[1 + a] = s.u0[2 * i + a];
            for (int32_t k = s.t_start[2 * i + a]; k < s.t_start[2 * i + a + 1]; k++) v[1 + a] += s.t_value[k] * dv[s.t_column[k]];
        }
        for (int32_t a = 0; a < 3; a++) most = fmax(most, fabs(v[a]));
    }
    return most;
}

/// TF1 to TF3 by their definitions, to `tolerance` of the speeds and impulses that there are.
static void check(double tolerance) {
    size_t n = (size_t)s.d.n;
    double *rest = zeros(n, sizeof *rest), *u = zeros(3 * (size_t)s.d.m, sizeof *u), impulse = 0, load = 0;
    double speed = fmax(velocities(s.dv, u), 9.81 * 0.005);
    qpc_linsys_multiply(&s.d.sys, s.dv, rest);
    for (size_t k = 0; k < n; k++) rest[k] -= s.d.b[k];
    for (size_t k = 0; k < n; k++) load = fmax(load, fabs(s.d.b[k]));
    for (int32_t i = 0; i < s.d.m; i++) impulse = fmax(impulse, s.lambda[i]);
    for (int32_t i = 0; i < s.d.m; i++) {
        double l = s.lambda[i], *b = s.beta + 2 * (int64_t)i, *v = u + 3 * (int64_t)i;
        for (int32_t k = s.d.row_start[i]; k < s.d.row_start[i + 1]; k++) rest[s.d.column[k]] += l * s.d.value[k];
        for (int32_t t = 0; t < 2; t++)
            for (int32_t k = s.t_start[2 * i + t]; k < s.t_start[2 * i + t + 1]; k++) rest[s.t_column[k]] += b[t] * s.t_value[k];
        double size = hypot(b[0], b[1]), slide = hypot(v[1], v[2]);
        assert_true(v[0] >= -tolerance * speed && l >= 0);
        assert_true(v[0] <= tolerance * speed || l <= tolerance * impulse);
        assert_true(size <= s.mu[i] * l + tolerance * impulse);
        if (slide > 1e3 * tolerance * speed && l > 1e3 * tolerance * impulse) { // slips: all of the disc, along the sliding
            assert_true(fabs(size - s.mu[i] * l) <= 100 * tolerance * impulse);
            assert_true(b[0] * v[1] + b[1] * v[2] >= (1 - 1e-4) * size * slide);
        }
    }
    for (size_t k = 0; k < n; k++) assert_true(fabs(rest[k]) <= tolerance * (load + impulse));
    free(rest);
    free(u);
}

/// The same problem as u = W r + q, W formed by solves with K, by the dense methods from nothing.
static void compare_with_dense(double tolerance) {
    size_t n = (size_t)s.d.n, size = 3 * (size_t)s.d.m;
    qpc_error err = {0};
    double *X = zeros(n * size, sizeof *X), *W = zeros(size * size, sizeof *W), *q = zeros(size, sizeof *q), *r = zeros(size, sizeof *r);
    double *u = zeros(size, sizeof *u), *column_u = zeros(size, sizeof *column_u), *zero = zeros(n, sizeof *zero);
    int32_t *start = zeros(size + 1, sizeof *start), *column = zeros(size * size, sizeof *column);
    for (int32_t i = 0; i < s.d.m; i++) {
        for (int32_t k = s.d.row_start[i]; k < s.d.row_start[i + 1]; k++) X[3 * (size_t)i * n + (size_t)s.d.column[k]] = -s.d.value[k];
        for (int32_t a = 0; a < 2; a++)
            for (int32_t k = s.t_start[2 * i + a]; k < s.t_start[2 * i + a + 1]; k++)
                X[(3 * (size_t)i + 1 + (size_t)a) * n + (size_t)s.t_column[k]] = s.t_value[k];
    }
    double *free_dv = zeros(n, sizeof *free_dv);
    assert_ok(qpc_linsys_ensure(&s.d.sys, &err), &err);
    assert_ok(qpc_linsys_solve_many(&s.d.sys, X, (int32_t)size, &err), &err);
    qpc_linsys_solve(&s.d.sys, s.d.b, free_dv);
    velocities(free_dv, q);
    velocities(zero, column_u); // the offsets
    for (size_t j = 0; j < size; j++) {
        velocities(X + j * n, u);
        for (size_t i = 0; i < size; i++) W[i * size + j] = u[i] - column_u[i];
    }
    for (size_t i = 0; i < size; i++) {
        start[i + 1] = (int32_t)((i + 1) * size);
        for (size_t j = 0; j < size; j++) column[i * size + j] = (int32_t)j;
    }
    qpc_cones cones = {.count = s.d.m, .start = start, .column = column, .value = W, .q = q, .mu = s.mu};
    qpc_friction_options how = {.mode = QPC_FRICTION_EXACT, .tolerance = 1e-10};
    qpc_friction_report report;
    assert_ok(qpc_solve_cones(&cones, &how, &arena, r, &report, &err), &err);
    assert_true(report.converged);
    double speed = fmax(velocities(s.dv, column_u), 9.81 * 0.005), most = 0;
    for (size_t i = 0; i < size; i++) {
        u[i] = q[i];
        for (size_t j = 0; j < size; j++) u[i] += W[i * size + j] * r[j];
        most = fmax(most, fabs(u[i] - column_u[i]));
    }
    if (!(most <= tolerance * speed)) fail_msg("%d contacts: velocities differ by %g of %g m/s", s.d.m, most, speed);
    void *all[] = {X, W, q, r, u, column_u, zero, start, column, free_dv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static void sheets_obey_the_law_as_dense_methods_do(void **state) {
    (void)state;
    static const struct {
        int32_t k, steps, least;
        double mu, membrane;
        bool factor; // without conjugate gradients
    } cases[] = {{18, 16, 30, 0.3, 100, false}, {24, 14, 50, 0.4, 500, false}, {18, 16, 30, 0.5, 500, true}, {44, 14, 200, 0.8, 500, false}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        qpc_error err = {0};
        int32_t compared = 0, sticking = 0, sliding = 0, most = 0;
        begin(cases[c].k, cases[c].membrane);
        struct qpc_blocks *blocks = s.d.sys.blocks;
        for (int32_t step = 0; step < cases[c].steps; step++) {
            assemble(cases[c].mu);
            if (cases[c].factor) s.d.sys.blocks = NULL;
            if (s.d.m >= 24) assert_int_equal(qpc_friction_choose(&s.d.qp, &s.friction), QPC_FRICTION_BY_SPARSE);
            assert_ok(solve(1e-10, 0, 0, &err), &err);
            if (!s.report.converged) fail_msg("case %d step %d: natural %g", (int)c, step, s.report.natural);
            check(1e-7);
            if (s.d.m >= 24 && cases[c].factor) assert_true(s.solver.factorizations > 0);
            sticking += s.report.sticking;
            sliding += s.report.sliding;
            if (s.d.m > most) most = s.d.m;
            if (s.d.m >= cases[c].least && compared < 2) {
                compare_with_dense(1e-8);
                compared++;
            }
            s.d.sys.blocks = blocks;
            advance();
        }
        if (!(compared == 2 && sliding > 50)) fail_msg("case %d: %d compared, %d contacts, %d sticking, %d sliding", (int)c, compared, most, sticking, sliding);
        end();
    }
}

static void the_same_again_is_the_same_and_costs_less(void **state) {
    (void)state;
    qpc_error err = {0};
    begin(24, 500);
    size_t n = (size_t)s.d.n;
    double *first = zeros(n, sizeof *first), *l = zeros(2 * (size_t)(s.d.k * s.d.k), sizeof *l), *b = zeros(4 * (size_t)(s.d.k * s.d.k), sizeof *b);
    for (int32_t step = 0; step < 8; step++) {
        assemble(0.4);
        memcpy(l, s.lambda, (size_t)s.d.m * sizeof *l);
        memcpy(b, s.beta, 2 * (size_t)s.d.m * sizeof *b);
        assert_ok(solve(1e-9, 0, 0, &err), &err);
        memcpy(first, s.dv, n * sizeof *first);
        int32_t steps = s.report.newton;
        memcpy(s.lambda, l, (size_t)s.d.m * sizeof *l);
        memcpy(s.beta, b, 2 * (size_t)s.d.m * sizeof *b);
        qpc_linsys_clear(&s.d.sys); // no factor from before
        assemble(0.4);
        assert_ok(solve(1e-9, 0, 0, &err), &err);
        assert_memory_equal(first, s.dv, n * sizeof *first);
        assert_ok(solve(1e-9, 0, 0, &err), &err); // from its own answer
        assert_true(s.report.converged && s.report.newton <= steps);
        advance();
    }
    free(first);
    free(l);
    free(b);
    end();
}

/// What the next correction of a step asks: speeds a percent away, from the impulses before. The fixed point takes twelve for it.
static void with_a_factor_a_problem_near_the_last_takes_few_steps(void **state) {
    (void)state;
    qpc_error err = {0};
    int32_t asked = 0, steps = 0;
    begin(24, 500);
    struct qpc_blocks *blocks = s.d.sys.blocks;
    for (int32_t step = 0; step < 12; step++) {
        assemble(0.4);
        s.d.sys.blocks = NULL;
        assert_ok(solve(1e-10, 0, 0, &err), &err);
        for (int32_t k = 0; k < 2 * s.d.m; k++) s.u0[k] *= 1.01;
        assert_ok(solve(1e-10, 0, 0, &err), &err);
        assert_true(s.report.converged);
        check(1e-7);
        if (s.d.m >= 24) {
            asked++;
            steps += s.report.newton;
        }
        s.d.sys.blocks = blocks;
        advance();
    }
    if (!(asked >= 3 && steps <= 6 * asked)) fail_msg("%d problems took %d steps", asked, steps);
    end();
}

static void bounds_hold_and_memory_is_linear(void **state) {
    (void)state;
    qpc_error err = {0};
    begin(40, 500);
    for (int32_t step = 0; step < 9; step++) {
        assemble(0.4);
        qpc_arena_reset(&arena);
        assert_ok(solve(1e-7, 300, 0, &err), &err);
        advance();
    }
    assemble(0.4);
    assert_true(s.d.m > 100);
    for (int32_t total = 2; total < 40; total += 5) {
        assemble(0.4);
        assert_ok(solve(1e-7, 300, total, &err), &err);
        assert_true(s.solver.iterations + s.report.iterations <= total);
        for (int32_t k = 0; k < s.d.n; k++) assert_true(isfinite(s.dv[k]));
        assert_true(s.report.converged == (s.report.natural <= 1e-7));
    }
    end();
    qpc_arena_fini(&arena);
    begin(40, 500);
    size_t most = 0;
    for (int32_t step = 0; step < 9; step++) {
        assemble(0.4);
        assert_ok(solve(1e-7, 300, 0, &err), &err);
        most = arena.high_water > most ? arena.high_water : most;
        assert_true(s.report.converged);
        advance();
    }
    assert_true(most <= 4000 * (size_t)(2 * s.d.k * s.d.k) + 1200 * (size_t)s.d.n);
    end();
}

static void memory_faults_leave_the_answer_alone(void **state) {
    (void)state;
    for (int32_t k = 18; k <= 26; k += 8) {
        qpc_error ignored = {0};
        begin(k, 200);
        for (int32_t step = 0; step < 6; step++) {
            assemble(0.4);
            assert_ok(solve(1e-8, 0, 0, &ignored), &ignored);
            advance();
        }
        assemble(0.4);
        assert_int_equal(qpc_friction_choose(&s.d.qp, &s.friction), QPC_FRICTION_BY_SPARSE);
        size_t n = (size_t)s.d.n, m = (size_t)s.d.m;
        double *l = zeros(m, sizeof *l), *b = zeros(2 * m, sizeof *b), *dv = zeros(n, sizeof *dv);
        memcpy(l, s.lambda, m * sizeof *l);
        memcpy(b, s.beta, 2 * m * sizeof *b);
        memcpy(dv, s.dv, n * sizeof *dv);
        QPC_FAULTS(f) {
            qpc_error err = {0};
            qpc_arena keep = arena;
            arena = (qpc_arena){0};
            qpc_status status = solve(1e-8, 0, 0, &err);
            bool endured = qpc_mem_failed() && status == QPC_OK && s.solver.factorizations > 0;
            if (endured) { // CHOLMOD's analysis does without what one of its attempts wanted
                qpc_mem_disarm();
                assert_true(s.report.converged);
            } else if (!qpc_faults_ended(&f, status)) {
                assert_memory_equal(dv, s.dv, n * sizeof *dv);
                assert_memory_equal(l, s.lambda, m * sizeof *l);
                assert_memory_equal(b, s.beta, 2 * m * sizeof *b);
            }
            memcpy(s.lambda, l, m * sizeof *l);
            memcpy(s.beta, b, 2 * m * sizeof *b);
            memcpy(s.dv, dv, n * sizeof *dv);
            qpc_arena_fini(&arena);
            arena = keep;
        }
        free(l);
        free(b);
        free(dv);
        end();
    }
}

static int finish(void **state) {
    (void)state;
    qpc_arena_fini(&arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sheets_obey_the_law_as_dense_methods_do),
        cmocka_unit_test(the_same_again_is_the_same_and_costs_less),
        cmocka_unit_test(with_a_factor_a_problem_near_the_last_takes_few_steps),
        cmocka_unit_test(bounds_hold_and_memory_is_linear),
        cmocka_unit_test(memory_faults_leave_the_answer_alone),
    };
    return cmocka_run_group_tests(tests, NULL, finish);
}
