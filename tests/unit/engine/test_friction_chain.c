/// Friction on random chains: the answer against Coulomb's law by this file's own arithmetic, contacts in near-equal pairs and
/// beyond the band, what a bound on all iterations does, rows that contradict, faults; and the banded LU that it stands on.
#include "tests/support/oracle.h"

#include "engine/solver/band_lu.h"
#include "engine/solver/friction.h"
#include "tests/support/faults.h"

#include <math.h>
#include <string.h>

enum { NODES = 60, N = 3 * NODES, MOST = 128, ROOM = 6 * MOST };
static qpc_arena arena;

typedef struct problem {
    qpc_linsys K;
    double b[N], value[ROOM], c[MOST], t_value[2 * ROOM], mu[MOST], u0[2 * MOST];
    int32_t m, row_start[MOST + 1], column[ROOM], t_start[2 * MOST + 1], t_column[2 * ROOM], row[MOST];
    uint8_t equality[MOST], priority[MOST];
    uint64_t key[MOST];
} problem;
static problem p;

typedef struct answer {
    double dv[N], lambda[MOST], beta[2 * MOST];
    qpc_solver_report solver;
    qpc_friction_report friction;
} answer;
static answer a, before;

static double uniform(uint64_t *seed) { // [-1, 1)
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) * 0x1p-52 - 1;
}

/// A contact of node i, or of i and j with weights (part, other), normal about upwards.
static void add_contact(int32_t i, int32_t j, double part, double other, double x, double z, double c, double mu, const double *u) {
    double y = sqrt(1 - x * x - z * z), n[3] = {x, y, z}, first[3] = {y, -x, 0}, second[3];
    double size = sqrt(x * x + y * y);
    for (int k = 0; k < 3; k++) first[k] /= size;
    for (int k = 0; k < 3; k++) second[k] = n[(k + 1) % 3] * first[(k + 2) % 3] - n[(k + 2) % 3] * first[(k + 1) % 3];
    int32_t r = p.m++, at = p.row_start[r];
    for (int32_t node = 0; node < (j >= 0 ? 2 : 1); node++)
        for (int32_t k = 0; k < 3; k++, at++) {
            double weight = node == 0 ? part : other;
            int32_t column = 3 * (node == 0 ? i : j) + k;
            p.column[at] = p.t_column[p.t_start[2 * r] + at - p.row_start[r]] = column;
            p.value[at] = -weight * n[k];
            p.t_value[p.t_start[2 * r] + at - p.row_start[r]] = weight * first[k];
        }
    int32_t count = at - p.row_start[r], from = p.t_start[2 * r];
    p.row_start[r + 1] = at;
    p.t_start[2 * r + 1] = from + count;
    p.t_start[2 * r + 2] = from + 2 * count;
    for (int32_t k = 0; k < count; k++) {
        double weight = k < 3 ? part : other;
        p.t_column[from + count + k] = p.column[p.row_start[r] + k];
        p.t_value[from + count + k] = weight * second[k % 3];
    }
    p.c[r] = c;
    p.mu[r] = mu;
    p.u0[2 * r] = u[0];
    p.u0[2 * r + 1] = u[1];
    p.row[r] = r;
    p.key[r] = (uint64_t)r;
    p.priority[r] = 1;
}

/// far: contacts between distant nodes, too.
static void make(uint64_t seed, int32_t far) {
    qpc_linsys K = p.K;
    qpc_error err = {0};
    memset(&p, 0, sizeof p);
    p.K = K;
    assert_ok(qpc_linsys_resize(&p.K, N, 5, &err), &err);
    qpc_linsys_clear(&p.K);
    double stiff = pow(10, 2 + uniform(&seed));
    for (int32_t i = 0; i < NODES; i++) {
        double d[3] = {1, 0.5 * uniform(&seed), 0.5 * uniform(&seed)};
        for (int32_t r = 0; r < 3; r++) {
            qpc_linsys_add(&p.K, 3 * i + r, 3 * i + r, 0.1);
            for (int32_t q = 0; i > 0 && q < 3; q++) {
                double h = stiff * d[r] * d[q];
                if (q <= r) qpc_linsys_add(&p.K, 3 * i + r, 3 * i + q, h);
                if (q <= r) qpc_linsys_add(&p.K, 3 * i - 3 + r, 3 * i - 3 + q, h);
                qpc_linsys_add(&p.K, 3 * i + r, 3 * i - 3 + q, -h);
            }
            p.b[3 * i + r] = 0.1 * (r == 1 ? -1 : 0.5 * uniform(&seed));
        }
    }
    assert_ok(qpc_linsys_factor(&p.K, &err), &err);
    for (int32_t i = 5; i < 40; i++) {
        double u[2] = {0.3 * uniform(&seed), 0.3 * uniform(&seed)}, x = 0.2 * uniform(&seed), z = 0.2 * uniform(&seed);
        double mu = 0.35 + 0.25 * uniform(&seed), c = 0.05 * uniform(&seed), part = 0.5 + 0.4 * uniform(&seed);
        if (i % 3 == 0) add_contact(i, -1, 1, 0, x, z, c, mu, u);
        if (i % 3 == 1) { // an edge on an edge: one row a facet
            add_contact(i, i + 1, part, 1 - part, x, z, c, mu, u);
            add_contact(i, i + 1, part, 1 - part, x + 1e-3, z, c, mu, u);
        }
    }
    for (int32_t k = 0; k < far; k++) {
        double u[2] = {0.1 * uniform(&seed), 0.1 * uniform(&seed)};
        add_contact(5 + 2 * k, 45 + k, -1, 1, 0.2 * uniform(&seed), 0.2 * uniform(&seed), 0, 0.3, u);
    }
    assert_true(p.m <= MOST);
}

static qpc_status solve(answer *to, qpc_friction_mode mode, int32_t total, qpc_error *err) {
    qpc_qp qp = {.n = N, .m = p.m, .sys = &p.K, .b = p.b, .row_start = p.row_start, .column = p.column, .value = p.value,
                 .c = p.c, .equality = p.equality, .priority = p.priority, .key = p.key};
    qpc_friction friction = {p.m, p.row, p.mu, p.t_start, p.t_column, p.t_value, p.u0};
    qpc_solver_options options = qpc_solver_options_default();
    qpc_friction_options how = {.mode = mode, .max_total = total};
    return qpc_solve_friction(QPC_SOLVER_AUTO, &qp, &friction, &options, &how, &arena, to->dv, to->lambda, to->beta, &to->solver,
                              &to->friction, err);
}

/// TF1 to TF3 by their definitions.
static void check(const answer *s, double tolerance) {
    double rest[N];
    qpc_linsys_multiply(&p.K, s->dv, rest);
    for (int32_t k = 0; k < N; k++) rest[k] -= p.b[k];
    for (int32_t i = 0; i < p.m; i++) {
        double u[3] = {p.c[i], p.u0[2 * i], p.u0[2 * i + 1]}, l = s->lambda[i], *b = (double[2]){s->beta[2 * i], s->beta[2 * i + 1]};
        for (int32_t k = p.row_start[i]; k < p.row_start[i + 1]; k++) {
            u[0] -= p.value[k] * s->dv[p.column[k]];
            rest[p.column[k]] += l * p.value[k];
        }
        for (int32_t t = 0; t < 2; t++)
            for (int32_t k = p.t_start[2 * i + t]; k < p.t_start[2 * i + t + 1]; k++) {
                u[1 + t] += p.t_value[k] * s->dv[p.t_column[k]];
                rest[p.t_column[k]] += b[t] * p.t_value[k];
            }
        double size = hypot(b[0], b[1]), slide = hypot(u[1], u[2]);
        assert_true(u[0] >= -tolerance && l >= 0);
        assert_true(fmin(u[0], l) <= tolerance);
        assert_true(size <= p.mu[i] * l + tolerance);
        if (slide > 1e3 * tolerance && l > 1e3 * tolerance) { // slips: all of the disc, along the sliding
            assert_true(fabs(size - p.mu[i] * l) <= 100 * tolerance);
            assert_true(b[0] * u[1] + b[1] * u[2] >= (1 - 1e-4) * size * slide);
        }
    }
    for (int32_t k = 0; k < N; k++) assert_true(fabs(rest[k]) <= 1e-11);
}

static void random_chains_obey_the_law(void **state) {
    (void)state;
    qpc_error err = {0};
    int32_t sticking = 0, sliding = 0, open = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        make(seed, seed % 3 == 0 ? 10 : 0);
        memset(&a, 0, sizeof a);
        assert_ok(solve(&a, QPC_FRICTION_EXACT, 0, &err), &err);
        if (!a.friction.converged) print_message("seed %d: natural %g\n", (int)seed, a.friction.natural);
        assert_true(a.friction.converged);
        check(&a, 1e-7);
        sticking += a.friction.sticking;
        sliding += a.friction.sliding;
        open += a.friction.open;
        // Again from its own answer: there already.
        before = a;
        assert_ok(solve(&a, QPC_FRICTION_EXACT, 0, &err), &err);
        assert_true(a.friction.converged && a.friction.newton <= before.friction.newton);
        for (int32_t k = 0; k < N; k++) assert_true(fabs(a.dv[k] - before.dv[k]) <= 1e-7);
    }
    assert_true(sticking > 100 && sliding > 100 && open > 100);
}

static void no_more_than_the_total_is_spent(void **state) {
    (void)state;
    qpc_error err = {0};
    for (uint64_t seed = 1; seed <= 6; seed++) {
        make(seed, 0);
        for (int32_t total = 2; total < 60; total += total < 12 ? 1 : 7)
            for (int32_t mode = QPC_FRICTION_STAGGERED; mode <= QPC_FRICTION_EXACT; mode++) {
                memset(&a, 0, sizeof a);
                assert_ok(solve(&a, (qpc_friction_mode)mode, total, &err), &err);
                assert_true(a.solver.iterations + a.friction.iterations <= total);
            }
    }
}

/// A node that is to rise and to sink: no law of friction makes that possible.
static void make_contradiction(uint64_t seed) {
    const double still[2] = {0, 0};
    make(seed, 0);
    add_contact(12, -1, 1, 0, 0.1, 0, -0.5, 0.3, still);
    add_contact(12, -1, -1, 0, 0.1, 0, -0.5, 0.3, still);
}

static void rows_that_contradict_are_told_before_friction_is_tried_to_the_end(void **state) {
    (void)state;
    qpc_error err = {0};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        make_contradiction(seed);
        memset(&before, 0, sizeof before);
        assert_ok(solve(&before, QPC_FRICTION_OFF, 0, &err), &err); // the second method
        assert_int_equal(before.solver.outcome, QPC_OUTCOME_INFEASIBLE);
        memset(&a, 0, sizeof a);
        assert_ok(solve(&a, QPC_FRICTION_EXACT, 0, &err), &err);
        assert_int_equal(a.solver.outcome, QPC_OUTCOME_INFEASIBLE);
        assert_false(a.friction.converged);
        assert_true(a.friction.newton <= 60); // bounds: 300 steps here, then dense ones
        assert_memory_equal(a.dv, before.dv, sizeof a.dv);
        assert_memory_equal(a.lambda, before.lambda, sizeof a.lambda);
        for (int32_t k = 0; k < 2 * p.m; k++) assert_true(a.beta[k] == 0);
    }
}

static void memory_faults_leave_the_answer_alone(void **state) {
    bool contradict = *state != NULL;
    if (contradict) make_contradiction(3);
    else make(3, 10);
    QPC_FAULTS(f) {
        qpc_error err = {0};
        qpc_arena own = {0};
        qpc_arena keep = arena;
        arena = own;
        memset(&a, 0, sizeof a);
        before = a;
        qpc_status status = solve(&a, QPC_FRICTION_EXACT, 0, &err);
        if (!qpc_faults_ended(&f, status)) assert_memory_equal(&before, &a, sizeof a);
        qpc_arena_fini(&arena);
        arena = keep;
    }
}

/// Bands with zeros on the diagonal, widths as cables and others have.
static void banded_factors_exchange_rows(void **state) {
    (void)state;
    enum { SIZE = 40 };
    uint64_t seed = 7;
    for (int32_t w = 1; w <= 8; w++) {
        double lu[SIZE * (3 * 8 + 1)] = {0}, dense[SIZE][SIZE] = {{0}}, x[SIZE], y[SIZE] = {0};
        int32_t pivot[SIZE];
        int64_t stride = qpc_band_lu_stride(w);
        for (int32_t i = 0; i < SIZE; i++) {
            x[i] = uniform(&seed);
            for (int32_t j = i > w ? i - w : 0; j <= i + w && j < SIZE; j++)
                dense[i][j] = lu[i * stride + j - i + w] = i == j && i % 2 == 0 ? 0 : uniform(&seed);
        }
        for (int32_t i = 0; i < SIZE; i++)
            for (int32_t j = 0; j < SIZE; j++) y[i] += dense[i][j] * x[j];
        assert_true(qpc_band_lu_factor(SIZE, w, lu, pivot));
        qpc_band_lu_solve(SIZE, w, lu, pivot, y);
        for (int32_t i = 0; i < SIZE; i++) assert_true(fabs(y[i] - x[i]) <= 1e-9);
    }
    double singular[4 * 4] = {0};
    int32_t pivot[4];
    assert_false(qpc_band_lu_factor(4, 1, singular, pivot));
}

static int finish(void **state) {
    (void)state;
    qpc_linsys_fini(&p.K);
    qpc_arena_fini(&arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(banded_factors_exchange_rows),
        cmocka_unit_test(random_chains_obey_the_law),
        cmocka_unit_test(no_more_than_the_total_is_spent),
        cmocka_unit_test(rows_that_contradict_are_told_before_friction_is_tried_to_the_end),
        cmocka_unit_test(memory_faults_leave_the_answer_alone),
        {"memory_faults_leave_the_answer_alone (rows that contradict)", memory_faults_leave_the_answer_alone, NULL, NULL, &p},
    };
    return cmocka_run_group_tests(tests, NULL, finish);
}
