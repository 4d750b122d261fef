/// Stiff sheets with friction: problems of steps (tests/data/qp, sheet_friction_*) whose contacts depend on each other, that no mode
/// but dense matrices comes to the end of, and whose warm start may be what a miss left behind. Answers against Coulomb's law by the
/// certificate, which shares nothing with the solvers, and against the stored ones.
#include "tests/support/oracle.h"

#include "engine/solver/certificate.h"
#include "engine/solver/friction.h"
#include "tests/support/qpb.h"

#include <math.h>

static qpc_arena arena;

typedef struct problem {
    qpb_problem p;
    double *load, *value, *u0, *mu, *beta, *first_lambda, *first_beta; // load: b without friction; first: what the step before left
    int32_t *start, *column, *row;
    qpc_friction friction;
    double *dv, *lambda, *answer; // answer: of friction
} problem;

static unsigned char *bytes_of(const char *path, size_t *ret_size) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *ret_size = (size_t)ftell(f);
    rewind(f);
    unsigned char *bytes = malloc(*ret_size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *ret_size, f), *ret_size);
    (void)fclose(f);
    return bytes;
}

static void load(const char *name, problem *s) {
    char path[512];
    size_t size, count = 0;
    (void)snprintf(path, sizeof path, QPC_TEST_DATA "/qp/%s", name);
    assert_true(qpb_load_as(QPC_LINSYS_SPARSE, path, &s->p));
    unsigned char *bytes = bytes_of(path, &size);
    size_t n = (size_t)s->p.qp.n, m = (size_t)s->p.qp.m;
    assert_non_null(qpb_find(bytes, size, "T_x", 8, &count));
    s->start = qpb_copy(bytes, size, "T_p", 4, 2 * m + 1);
    s->column = qpb_copy(bytes, size, "T_i", 4, count);
    s->value = qpb_copy(bytes, size, "T_x", 8, count);
    s->u0 = qpb_copy(bytes, size, "u0", 8, 2 * m);
    s->mu = qpb_copy(bytes, size, "mu", 8, m);
    s->beta = qpb_copy(bytes, size, "beta", 8, 2 * m);
    s->first_lambda = qpb_copy(bytes, size, "lam_start", 8, m);
    s->first_beta = qpb_copy(bytes, size, "beta_start", 8, 2 * m);
    free(bytes);
    s->load = calloc(n, sizeof(double));
    s->dv = calloc(n, sizeof(double));
    s->lambda = calloc(m, sizeof(double));
    s->answer = calloc(2 * m, sizeof(double));
    s->row = calloc(m, sizeof(int32_t));
    assert_true(s->start && s->column && s->value && s->u0 && s->mu && s->beta && s->first_lambda && s->first_beta);
    assert_true(s->load && s->dv && s->lambda && s->answer && s->row);
    memcpy(s->load, s->p.b, n * sizeof(double)); // the file's is under the friction that solves it
    for (size_t t = 0; t < 2 * m; t++)
        for (int32_t k = s->start[t]; k < s->start[t + 1]; k++) s->load[s->column[k]] += s->beta[t] * s->value[k];
    for (size_t i = 0; i < m; i++) s->row[i] = (int32_t)i;
    s->friction = (qpc_friction){(int32_t)m, s->row, s->mu, s->start, s->column, s->value, s->u0};
}

static void unload(problem *s) {
    void *all[] = {s->load, s->value, s->u0, s->mu, s->beta, s->first_lambda, s->first_beta, s->start, s->column, s->row, s->dv, s->lambda, s->answer};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    qpb_free(&s->p);
    memset(s, 0, sizeof *s);
}

/// From the step before, each impulse times `part`.
static qpc_friction_report solve(problem *s, double part, double tolerance, int32_t most) {
    qpc_qp qp = s->p.qp;
    qpc_solver_options options = qpc_solver_options_default();
    qpc_friction_options how = {.mode = QPC_FRICTION_EXACT, .tolerance = tolerance, .max_iterations = most};
    qpc_solver_report report;
    qpc_friction_report found;
    qpc_error err = {0};
    qp.b = s->load;
    for (int32_t i = 0; i < qp.m; i++) s->lambda[i] = part * s->first_lambda[i];
    for (int32_t i = 0; i < 2 * qp.m; i++) s->answer[i] = part * s->first_beta[i];
    assert_ok(qpc_solve_friction(QPC_SOLVER_AUTO, &qp, &s->friction, &options, &how, &arena, s->dv, s->lambda, s->answer, &report, &found, &err), &err);
    assert_true(found.converged == (report.outcome == QPC_OUTCOME_OPTIMAL));
    return found;
}

/// The largest of the natural residuals of rows and of friction, m/s, by the certificate.
static double certified(problem *s, double *ret_stat) {
    qpc_qp qp = s->p.qp;
    qpc_certificate rows;
    qpc_error err = {0};
    double *under = calloc((size_t)qp.n, sizeof *under);
    assert_non_null(under);
    memcpy(under, s->load, (size_t)qp.n * sizeof *under);
    for (int32_t t = 0; t < 2 * qp.m; t++)
        for (int32_t k = s->start[t]; k < s->start[t + 1]; k++) under[s->column[k]] -= s->answer[t] * s->value[k];
    qp.b = under;
    assert_ok(qpc_certify(&qp, s->dv, s->lambda, &arena, &rows, &err), &err);
    qpc_friction_certificate law = qpc_certify_friction(&qp, &s->friction, s->dv, s->lambda, s->answer, rows.scale);
    free(under);
    *ret_stat = rows.stat;
    return fmax(rows.natural, law.natural);
}

static const char *const FILES[] = {"sheet_friction_15.qpb", "sheet_friction_63.qpb", "sheet_friction_104.qpb"};
enum { FILE_COUNT = 3, STEPS = 150 }; // STEPS: of one solve; half of what a step of a world grants

/// Starts: as the step before left them (of the last file 7e9 times further from solved than none), none, and absurd.
static void stiff_sheets_are_solved_from_any_start(void **state) {
    (void)state;
    static const double parts[] = {1, 0, 1e12}, tolerances[] = {1e-3, 1e-7};
    for (int32_t f = 0; f < FILE_COUNT; f++) {
        problem s = {0};
        load(FILES[f], &s);
        for (int32_t k = 0; k < 6; k++) {
            double stat, tolerance = tolerances[k % 2];
            qpc_friction_report found = solve(&s, parts[k / 2], tolerance, STEPS);
            if (!found.converged)
                fail_msg("%s from %g of its start: natural %g, wanted %g", FILES[f], parts[k / 2], found.natural, tolerance);
            assert_true(found.natural <= tolerance && found.newton + found.outers <= STEPS);
            double left = certified(&s, &stat);
            if (!(stat <= 1e-9 && left <= 100 * tolerance)) fail_msg("%s: stat %g, natural %g m/s", FILES[f], stat, left);
            if (tolerance > 1e-6) continue;
            double off = qpb_distance(&s.p, s.dv, s.p.x);
            if (!(off <= 1e-5)) fail_msg("%s: %g off the stored answer in the norm of K", FILES[f], off);
            qpc_arena_reset(&arena);
        }
        unload(&s);
    }
}

/// Nobody goes on from what is worse than no friction at all: a step too few leads to the rows alone, or to something near.
static void what_is_left_unsolved_is_no_worse_than_the_rows_alone(void **state) {
    (void)state;
    for (int32_t f = 0; f < FILE_COUNT; f++) {
        problem s = {0};
        load(FILES[f], &s);
        double most = 0;
        for (int32_t i = 0; i < s.p.qp.m; i++) most = fmax(most, s.p.lambda[i]);
        for (int32_t steps = 1; steps <= 9; steps += 4) {
            (void)solve(&s, 1, 1e-12, steps);
            for (int32_t i = 0; i < s.p.qp.m; i++)
                if (!(s.lambda[i] <= 1e3 * most)) fail_msg("%s, %d steps: an impulse of %g, the largest is %g", FILES[f], steps, s.lambda[i], most);
            qpc_arena_reset(&arena);
        }
        unload(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stiff_sheets_are_solved_from_any_start),
        cmocka_unit_test(what_is_left_unsolved_is_no_worse_than_the_rows_alone),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    qpc_arena_fini(&arena);
    return failed;
}
