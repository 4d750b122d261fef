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

/// Something pressed has rows from either side. No law has a solution then, and none is tried.
static void rows_from_either_side_that_leave_no_room_are_told_before_friction_is_tried(void **state) {
    (void)state;
    problem s = {0};
    load(FILES[1], &s);
    qpc_qp qp = s.p.qp;
    int32_t m = qp.m, entries = qp.row_start[m], first = qp.row_start[1];
    int32_t *row_start = calloc((size_t)m + 2, sizeof *row_start), *column = calloc((size_t)(entries + first), sizeof *column);
    double *value = calloc((size_t)(entries + first), sizeof *value), *c = calloc((size_t)m + 1, sizeof *c);
    double *lambda = calloc((size_t)m + 1, sizeof *lambda);
    uint8_t *equality = calloc((size_t)m + 1, 1), *priority = calloc((size_t)m + 1, 1);
    uint64_t *key = calloc((size_t)m + 1, sizeof *key);
    assert_true(row_start && column && value && c && lambda && equality && priority && key);
    memcpy(row_start, qp.row_start, ((size_t)m + 1) * sizeof *row_start);
    memcpy(column, qp.column, (size_t)entries * sizeof *column);
    memcpy(value, qp.value, (size_t)entries * sizeof *value);
    memcpy(c, qp.c, (size_t)m * sizeof *c);
    memcpy(lambda, s.first_lambda, (size_t)m * sizeof *lambda);
    for (int32_t k = 0; k < first; k++) { // row 0 once more, from the other side
        column[entries + k] = column[k];
        value[entries + k] = -value[k];
    }
    row_start[m + 1] = entries + first;
    c[m] = -c[0] - 1;
    qp.m = m + 1;
    qp.b = s.load;
    qp.row_start = row_start;
    qp.column = column;
    qp.value = value;
    qp.c = c;
    qp.equality = equality;
    qp.priority = priority;
    qp.key = key;
    qpc_solver_options options = qpc_solver_options_default();
    options.at_sight = true;
    qpc_friction_options how = {.mode = QPC_FRICTION_EXACT, .tolerance = 1e-7};
    qpc_solver_report report;
    qpc_friction_report found;
    qpc_error err = {0};
    memcpy(s.answer, s.first_beta, 2 * (size_t)m * sizeof *s.answer);
    assert_ok(qpc_solve_friction(QPC_SOLVER_AUTO, &qp, &s.friction, &options, &how, &arena, s.dv, lambda, s.answer, &report, &found, &err), &err);
    assert_int_equal(report.outcome, QPC_OUTCOME_INFEASIBLE);
    assert_false(found.converged);
    assert_int_equal(found.newton + found.outers, 0);
    assert_int_equal(report.conflict_count, 2);
    assert_int_equal(report.conflict_row[0], 0);
    assert_int_equal(report.conflict_row[1], m);
    for (int32_t k = 0; k < 2 * m; k++) assert_true(s.answer[k] == 0);
    void *all[] = {row_start, column, value, c, lambda, equality, priority, key};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    qpc_arena_reset(&arena);
    unload(&s);
}

enum { PROBLEMS = 60, NODES = 13, CONTACTS = 2 * NODES - 1, UNKNOWNS = 3 * CONTACTS, MOTIONS = 3 * NODES };

static double draw(uint64_t *seed) { // in [-1, 1)
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*seed >> 11) * 0x1p-52 - 1;
}

/// Row i of H: contacts at the nodes of an edge of a sheet and half way between them, so that 75 rows move 39 unknowns.
static void touch(int32_t i, double row[MOTIONS]) {
    memset(row, 0, MOTIONS * sizeof *row);
    int32_t contact = i / 3, node = contact / 2, axis = i % 3;
    row[3 * node + axis] = contact % 2 == 0 ? 1 : 0.5;
    if (contact % 2 == 1) row[3 * (node + 1) + axis] = 0.5;
}

/// W = H K^-1 H' by a Cholesky of K: nodes of mass 1 and springs of `stiff` along the edge and across it.
static void condense_edge(double stiff, double *W) {
    static double L[MOTIONS][MOTIONS], half[UNKNOWNS][MOTIONS];
    memset(L, 0, sizeof L);
    for (int32_t i = 0; i < MOTIONS; i++) L[i][i] = 1;
    for (int32_t i = 3; i < MOTIONS; i++) {
        L[i][i] += stiff;
        L[i - 3][i - 3] += stiff;
        L[i][i - 3] -= stiff;
    }
    for (int32_t j = 0; j < MOTIONS; j++)
        for (int32_t i = j; i < MOTIONS; i++) {
            for (int32_t k = 0; k < j; k++) L[i][j] -= L[i][k] * L[j][k];
            L[i][j] = i == j ? sqrt(L[i][j]) : L[i][j] / L[j][j];
        }
    for (int32_t r = 0; r < UNKNOWNS; r++) { // L^-1 H'
        touch(r, half[r]);
        for (int32_t i = 0; i < MOTIONS; i++) {
            for (int32_t k = 0; k < i; k++) half[r][i] -= L[i][k] * half[r][k];
            half[r][i] /= L[i][i];
        }
    }
    for (int32_t r = 0; r < UNKNOWNS; r++)
        for (int32_t c = 0; c < UNKNOWNS; c++) {
            W[r * UNKNOWNS + c] = 0;
            for (int32_t k = 0; k < MOTIONS; k++) W[r * UNKNOWNS + c] += half[r][k] * half[c][k];
        }
}

/// Twice as many contacts as the nodes under them can tell apart, springs up to 1e8 times the masses: ten steps each, where the interior
/// point takes twenty and more.
static void contacts_that_depend_on_each_other_are_solved_in_few_steps(void **state) {
    (void)state;
    static double W[UNKNOWNS * UNKNOWNS], q[UNKNOWNS], r[UNKNOWNS], mu[CONTACTS];
    static int32_t start[UNKNOWNS + 1], column[UNKNOWNS * UNKNOWNS];
    uint64_t seed = 60;
    int32_t total = 0, missed = 0;
    for (int32_t i = 0; i <= UNKNOWNS; i++) start[i] = i * UNKNOWNS;
    for (int32_t i = 0; i < UNKNOWNS * UNKNOWNS; i++) column[i] = i % UNKNOWNS;
    for (int32_t turn = 0; turn < PROBLEMS; turn++) {
        double v[MOTIONS], row[MOTIONS];
        condense_edge(pow(10, 2 + turn % 7), W);
        for (int32_t i = 0; i < MOTIONS; i++) v[i] = draw(&seed) - (i % 3 == 0 ? 5 : 0);
        for (int32_t i = 0; i < UNKNOWNS; i++) {
            touch(i, row);
            q[i] = 0;
            for (int32_t k = 0; k < MOTIONS; k++) q[i] += row[k] * v[k];
            r[i] = 0;
        }
        for (int32_t k = 0; k < CONTACTS; k++) mu[k] = 0.3 + 0.7 * (turn % 2);
        qpc_cones cones = {CONTACTS, start, column, W, q, mu};
        qpc_friction_options how = {.mode = QPC_FRICTION_EXACT, .tolerance = 1e-7, .max_iterations = 72};
        qpc_friction_report found, again;
        qpc_error err = {0};
        assert_ok(qpc_solve_cones(&cones, &how, &arena, r, &found, &err), &err);
        assert_ok(qpc_cones_residuals(&cones, r, &arena, &again, &err), &err);
        total += found.newton + found.outers;
        missed += !(again.natural <= 1e-7);
        qpc_arena_reset(&arena);
    }
    if (missed > 0 || total > 15 * PROBLEMS) fail_msg("%d of %d missed; %d steps", missed, PROBLEMS, total);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stiff_sheets_are_solved_from_any_start),
        cmocka_unit_test(rows_from_either_side_that_leave_no_room_are_told_before_friction_is_tried),
        cmocka_unit_test(contacts_that_depend_on_each_other_are_solved_in_few_steps),
        cmocka_unit_test(what_is_left_unsolved_is_no_worse_than_the_rows_alone),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    qpc_arena_fini(&arena);
    return failed;
}
