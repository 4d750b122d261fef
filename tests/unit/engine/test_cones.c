/// Friction in algebraic form: the stored problems, random ones against projected Gauss-Seidel,
/// invariance.
#include "tests/support/check.h"
#include "tests/support/cones.h"
#include "tests/support/faults.h"

#include <pthread.h>

static qpc_arena arena;

static const char *const names[] = {"Box_Stacks-i0122-82-5",
                                    "BoxesStack1-i100000-32",
                                    "Capsules-i100-1090",
                                    "Capsules-i125-1213",
                                    "Confeti-ex03-Fc3D-SBM",
                                    "Confeti-ex13-4contact-Fc3D-SBM",
                                    "FC3D_Example1",
                                    "FrictionContact3D_1c",
                                    "LMGC_100_PR_PerioBox-i00361-60-03000",
                                    "NESpheres_10_1",
                                    "OneObject-i100000-499",
                                    "own_slope_slip",
                                    "own_slope_stick",
                                    "own_spheres2x3",
                                    "own_stack5_push",
                                    "own_wall4x4",
                                    "spheres-in-a-box-98-i10000-256-10",
                                    NULL};

static void load(const char *name, cones_file *f) {
    char path[512];
    snprintf(path, sizeof path, "%s/qp/fc_%s.qpb", QPC_TEST_DATA, name);
    if (!cones_open(path, 3, f)) fail_msg("cannot load %s", path);
}

static qpc_friction_report solve(const qpc_cones *cones, qpc_friction_mode mode, double tolerance,
                                 double *r) {
    qpc_error err = {0};
    qpc_friction_report report;
    qpc_friction_options options = {.mode = mode, .tolerance = tolerance};
    assert_ok(qpc_solve_cones(cones, &options, &arena, r, &report, &err), &err);
    qpc_arena_reset(&arena);
    return report;
}

static void stored_problems_are_solved(void **state) {
    (void)state;
    int32_t fine = 0, all = 0;
    for (int32_t k = 0; names[k] != NULL; k++, all++) {
        cones_file f;
        load(names[k], &f);
        size_t bytes = 3 * (size_t)f.cones.count * sizeof(double);
        double *r = calloc(1, bytes), *again = calloc(1, bytes);
        qpc_friction_report report = solve(&f.cones, QPC_FRICTION_EXACT, 1e-9, r);
        double natural = cones_natural(&f.cones, r);
        if (!(natural <= 1e-6)) fail_msg("%s: natural residual %g", names[k], natural);
        if (natural <= 1e-9) fine++;
        // The report says what is so: within 1 % and round-off.
        assert_near(report.natural, natural, 0.01 * natural + 1e-14);
        assert_true(report.converged == (report.natural <= 1e-9));
        assert_true(report.cone <= 1e-6 && report.penetration <= 1e-6);
        assert_true(report.complementarity <= 1e-6 && report.dissipation_defect <= 1e-6);
        assert_int_equal(report.sticking + report.sliding + report.open, f.cones.count);
        // The same bits again; from the answer no step is needed.
        if (f.cones.count < 100) {
            solve(&f.cones, QPC_FRICTION_EXACT, 1e-9, again);
            assert_memory_equal(r, again, bytes);
        }
        memcpy(again, r, bytes);
        if (report.converged) {
            qpc_friction_report warm = solve(&f.cones, QPC_FRICTION_EXACT, 1e-9, again);
            assert_true(warm.converged && warm.newton <= 3 && warm.outers == 0);
        }
        free(r);
        free(again);
        cones_close(&f);
    }
    if (fine < 15) fail_msg("%d of %d to 1e-9, want 15", fine, all);
}

static void stored_solutions_have_small_residuals(void **state) {
    (void)state;
    for (int32_t k = 0; names[k] != NULL; k++) {
        cones_file f;
        load(names[k], &f);
        qpc_friction_report report;
        qpc_error err = {0};
        assert_ok(qpc_cones_residuals(&f.cones, f.r, &arena, &report, &err), &err);
        if (!(report.natural <= 2e-12)) fail_msg("%s: %g", names[k], report.natural);
        cones_close(&f);
    }
}

static void staggered_projections_solve_most(void **state) {
    (void)state;
    int32_t good = 0;
    for (int32_t k = 0; names[k] != NULL; k++) {
        cones_file f;
        load(names[k], &f);
        double *r = calloc(3 * (size_t)f.cones.count, sizeof *r);
        qpc_friction_report report = solve(&f.cones, QPC_FRICTION_STAGGERED, 1e-3, r);
        double natural = cones_natural(&f.cones, r);
        assert_near(report.natural, natural, 0.01 * natural + 1e-14);
        assert_true(report.iterations <= 50);
        assert_true(report.converged == (report.natural <= 1e-3));
        good += natural <= 1e-3;
        free(r);
        cones_close(&f);
    }
    if (good < 12) fail_msg("%d of 17 to 1e-3", good);
}

// ---- random problems ----

static uint64_t seed;
static double draw(void) { // in (-1, 1)
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (double)(int64_t)(seed >> 11) * 0x1p-52 - 1;
}

enum { MOST = 12, N = 3 * MOST };
typedef struct dense {
    qpc_cones cones;
    int32_t start[N + 1], column[N * N];
    double value[N * N], q[N], mu[MOST];
} dense;

/// W = H H' with H (3 count x unknowns): hyperstatic where there are fewer unknowns. q = H x is in
/// its range, so that a solution exists.
static void random_problem(dense *d, int32_t count, int32_t unknowns, double mu) {
    double H[N][N];
    int32_t n = 3 * count;
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < unknowns; j++) H[i][j] = draw();
    for (int32_t i = 0; i < n; i++) {
        d->start[i] = i * n;
        for (int32_t j = 0; j < n; j++) {
            double s = 0;
            for (int32_t k = 0; k < unknowns; k++) s += H[i][k] * H[j][k];
            d->column[i * n + j] = j;
            d->value[i * n + j] = s;
        }
    }
    d->start[n] = n * n;
    memset(d->q, 0, sizeof d->q);
    for (int32_t k = 0; k < unknowns; k++) {
        double x = draw();
        for (int32_t i = 0; i < n; i++) d->q[i] += H[i][k] * x;
    }
    for (int32_t k = 0; k < count; k++) d->mu[k] = mu * (1 + 0.5 * draw());
    d->cones = (qpc_cones){.count = count,
                           .start = d->start,
                           .column = d->column,
                           .value = d->value,
                           .q = d->q,
                           .mu = d->mu};
}

/// Projected block Gauss-Seidel on the natural map, contact by contact.
static void gauss_seidel(const dense *d, int32_t sweeps, double *r) {
    int32_t count = d->cones.count, n = 3 * count;
    double rhos[MOST];
    for (int32_t k = 0; k < count; k++) {
        long double b[3][3];
        for (int32_t i = 0; i < 3; i++)
            for (int32_t j = 0; j < 3; j++)
                b[i][j] = (long double)d->value[(3 * k + i) * n + 3 * k + j];
        rhos[k] = (double)(1 / cones_lambda_max(b));
    }
    for (int32_t s = 0; s < sweeps; s++) {
        for (int32_t k = 0; k < count; k++) {
            for (int32_t inner = 0; inner < 5; inner++) {
                double u[3], z[3], mu = d->mu[k], rho = rhos[k];
                for (int32_t i = 0; i < 3; i++) {
                    u[i] = d->q[3 * k + i];
                    for (int32_t j = 0; j < n; j++) u[i] += d->value[(3 * k + i) * n + j] * r[j];
                }
                z[0] = r[3 * k] - rho * (u[0] + mu * hypot(u[1], u[2]));
                z[1] = r[3 * k + 1] - rho * u[1];
                z[2] = r[3 * k + 2] - rho * u[2];
                double t = hypot(z[1], z[2]), g = (z[0] + mu * t) / (1 + mu * mu);
                if (t > mu * z[0]) {
                    if (g < 0) g = 0;
                    z[0] = g;
                    z[1] *= t > 0 ? mu * g / t : 0;
                    z[2] *= t > 0 ? mu * g / t : 0;
                }
                memcpy(r + 3 * k, z, sizeof z);
            }
        }
    }
}

static void random_problems_agree_with_gauss_seidel(void **state) {
    (void)state;
    int32_t compared = 0;
    static dense d;
    for (int32_t i = 0; i < 120; i++) {
        seed = (uint64_t)i + 1;
        int32_t count = 1 + i % 5;
        // More unknowns than rows: W is regular, and small mu makes u unique.
        random_problem(&d, count, 3 * count + 6, 0.15);
        double r[N] = {0}, other[N] = {0};
        qpc_friction_report report = solve(&d.cones, QPC_FRICTION_EXACT, 1e-10, r);
        double natural = cones_natural(&d.cones, r);
        if (!report.converged || !(natural <= 1.1e-10)) fail_msg("problem %d: %g", i, natural);
        gauss_seidel(&d, 2000, other);
        if (cones_natural(&d.cones, other) > 1e-9) continue;
        compared++;
        for (int32_t j = 0; j < 3 * count; j++)
            assert_near(r[j], other[j], 1e-6 * (1 + fabs(r[j])));
    }
    assert_true(compared >= 100);
}

static void hyperstatic_and_sliding_random_problems_converge(void **state) {
    (void)state;
    static dense d;
    int32_t solved = 0, all = 200;
    for (int32_t i = 0; i < all; i++) {
        seed = 1000 + (uint64_t)i;
        int32_t count = 2 + i % 11;
        random_problem(&d, count, 6 + i % 7, i % 3 == 0 ? 0.9 : 0.4);
        if (i % 7 == 0) d.mu[0] = 0;
        double r[N] = {0};
        qpc_friction_report report = solve(&d.cones, QPC_FRICTION_EXACT, 1e-9, r);
        double natural = cones_natural(&d.cones, r);
        assert_true(!report.converged || natural <= 1.01e-9);
        for (int32_t k = 0; k < count; k++) // dissipation, contact by contact
            if (d.mu[k] == 0) assert_true(r[3 * k + 1] == 0 && r[3 * k + 2] == 0);
        solved += report.converged;
    }
    // Random directions are harsher than bodies are: a few may stay open. 1 % says that none fell
    // behind.
    if (solved < all - 2) fail_msg("%d of %d", solved, all);
}

static void units_do_not_matter(void **state) {
    (void)state;
    static dense d, e;
    for (int32_t i = 0; i < 40; i++) {
        seed = 77 + (uint64_t)i;
        random_problem(&d, 6, 24, 0.4);
        e = d;
        e.cones = (qpc_cones){.count = 6,
                              .start = e.start,
                              .column = e.column,
                              .value = e.value,
                              .q = e.q,
                              .mu = e.mu};
        double mass = i % 2 ? 1e6 : 1e-7, speed = i % 3 ? 1e-5 : 1e4;
        for (int32_t k = 0; k < e.start[18]; k++) e.value[k] /= mass;
        for (int32_t k = 0; k < 18; k++) e.q[k] *= speed;
        double r[N] = {0}, s[N] = {0}, largest = 0;
        qpc_friction_report a = solve(&d.cones, QPC_FRICTION_EXACT, 1e-10, r);
        qpc_friction_report b = solve(&e.cones, QPC_FRICTION_EXACT, 1e-10, s);
        assert_true(a.converged && b.converged);
        for (int32_t k = 0; k < 18; k++) largest = fmax(largest, fabs(r[k]));
        for (int32_t k = 0; k < 18; k++) assert_near(s[k] / (mass * speed), r[k], 1e-7 * largest);
    }
}

static void a_budget_is_kept(void **state) {
    (void)state;
    cones_file f;
    load("own_wall4x4", &f);
    double *r = calloc(3 * (size_t)f.cones.count, sizeof *r), last = HUGE_VAL;
    for (int32_t most = 1; most <= 64; most *= 2) {
        qpc_error err = {0};
        qpc_friction_report report;
        qpc_friction_options options = {.mode = QPC_FRICTION_EXACT, .max_iterations = most};
        memset(r, 0, 3 * (size_t)f.cones.count * sizeof *r);
        assert_ok(qpc_solve_cones(&f.cones, &options, &arena, r, &report, &err), &err);
        qpc_arena_reset(&arena);
        if (report.iterations > most || report.iterations < 1)
            fail_msg("%d steps of %d", report.iterations, most);
        assert_near(cones_natural(&f.cones, r), report.natural, 0.01 * report.natural + 1e-14);
        assert_true(report.natural <=
                    last * 1.0001); // the best iterate: more steps are never worse
        last = report.natural;
    }
    assert_true(last <= 1e-9);
    free(r);
    cones_close(&f);
}

typedef struct job {
    const qpc_cones *cones;
    double r[N];
} job;

static void *solve_in_thread(void *argument) {
    job *j = argument;
    qpc_arena own = {0};
    qpc_friction_options options = {.mode = QPC_FRICTION_EXACT};
    qpc_friction_report report;
    for (int32_t k = 0; k < 20; k++) {
        memset(j->r, 0, sizeof j->r);
        if (qpc_solve_cones(j->cones, &options, &own, j->r, &report, NULL) != QPC_OK) j->r[0] = NAN;
        qpc_arena_reset(&own);
    }
    qpc_arena_fini(&own);
    return NULL;
}

static void threads_get_the_same_bits(void **state) {
    (void)state;
    static dense d;
    static job jobs[4];
    pthread_t threads[4];
    seed = 31;
    random_problem(&d, 12, 10, 0.5);
    for (int32_t k = 0; k < 4; k++) {
        jobs[k].cones = &d.cones;
        assert_int_equal(pthread_create(&threads[k], NULL, solve_in_thread, &jobs[k]), 0);
    }
    for (int32_t k = 0; k < 4; k++) assert_int_equal(pthread_join(threads[k], NULL), 0);
    for (int32_t k = 1; k < 4; k++) assert_memory_equal(jobs[0].r, jobs[k].r, sizeof jobs[0].r);
}

static void bad_input_is_refused(void **state) {
    (void)state;
    static dense d;
    seed = 5;
    random_problem(&d, 3, 12, 0.3);
    double r[N] = {0};
    qpc_error err = {0};
    qpc_friction_report report = {.iterations = 77};
    qpc_friction_options options = {.mode = QPC_FRICTION_EXACT};
    d.mu[1] = -0.1;
    assert_fails(qpc_solve_cones(&d.cones, &options, &arena, r, &report, &err), QPC_ERR_INVALID,
                 &err, "contact 1");
    d.mu[1] = NAN;
    assert_fails(qpc_solve_cones(&d.cones, &options, &arena, r, &report, &err), QPC_ERR_INVALID,
                 &err, "contact 1");
    d.mu[1] = 0.3;
    d.value[4] = INFINITY;
    assert_fails(qpc_solve_cones(&d.cones, &options, &arena, r, &report, &err), QPC_ERR_NUMERIC,
                 &err, "row 0");
    assert_int_equal(report.iterations, 77);
    d.cones.count = 0;
    assert_ok(qpc_solve_cones(&d.cones, &options, &arena, r, &report, &err), &err);
    assert_true(report.converged);
}

static void nothing_to_do_gives_zero(void **state) {
    (void)state;
    static dense d;
    seed = 9;
    random_problem(&d, 4, 12, 0.3);
    for (int32_t i = 0; i < 12; i++) d.q[i] = i % 3 == 0 ? 1 : 0.5 * draw();
    double r[N] = {1, 0.1, 0.1};
    qpc_friction_report report = solve(&d.cones, QPC_FRICTION_EXACT, 0, r);
    assert_int_equal(report.open, 4);
    for (int32_t i = 0; i < 12; i++) assert_true(r[i] == 0);
    memset(d.q, 0, sizeof d.q);
    report = solve(&d.cones, QPC_FRICTION_EXACT, 0, r);
    assert_true(report.converged && report.natural == 0);
}

static void memory_faults_leave_r_alone(void **state) {
    (void)state;
    static dense d;
    seed = 21;
    random_problem(&d, 12, 9, 0.4);
    qpc_arena_fini(&arena);
    for (int32_t mode = QPC_FRICTION_STAGGERED; mode <= QPC_FRICTION_EXACT; mode++) {
        QPC_FAULTS(f) {
            qpc_arena fresh = {0};
            double r[N] = {0.5}, before[N] = {0.5};
            qpc_error err = {0};
            qpc_friction_report report;
            qpc_friction_options options = {.mode = (qpc_friction_mode)mode};
            qpc_status status = qpc_solve_cones(&d.cones, &options, &fresh, r, &report, &err);
            if (!qpc_faults_ended(&f, status)) assert_memory_equal(r, before, sizeof r);
            qpc_arena_fini(&fresh);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_solutions_have_small_residuals),
        cmocka_unit_test(stored_problems_are_solved),
        cmocka_unit_test(staggered_projections_solve_most),
        cmocka_unit_test(random_problems_agree_with_gauss_seidel),
        cmocka_unit_test(hyperstatic_and_sliding_random_problems_converge),
        cmocka_unit_test(units_do_not_matter),
        cmocka_unit_test(a_budget_is_kept),
        cmocka_unit_test(threads_get_the_same_bits),
        cmocka_unit_test(bad_input_is_refused),
        cmocka_unit_test(nothing_to_do_gives_zero),
        cmocka_unit_test(memory_faults_leave_r_alone),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    qpc_arena_fini(&arena);
    return failed;
}
