/// Impacts: the stored LCPs, closed forms, cradles, energy.
#include "engine/solver/impact.h"

#include "tests/support/oracle.h"

#include "tests/support/cones.h"
#include "tests/support/faults.h"

static qpc_arena arena;

enum { N = 64, M = 32 };
typedef struct bodies { // dense, small
    int32_t n, m;
    double mass[N], J[M][N], eps[M], v[N], f[M], beta[2 * M];
    double T[2 * M][N], u0[2 * M], mu[M];
    int32_t contacts;
    qpc_impact_report report;
} bodies;

static qpc_linsys mass_of(const bodies *b) {
    qpc_linsys sys = {0};
    qpc_error err = {0};
    assert_ok(qpc_linsys_resize(&sys, b->n, 0, &err), &err);
    for (int32_t i = 0; i < b->n; i++) qpc_linsys_add(&sys, i, i, b->mass[i]);
    assert_ok(qpc_linsys_factor(&sys, &err), &err);
    return sys;
}

static void sparse(int32_t rows, int32_t n, double (*dense)[N], int32_t *start, int32_t *column,
                   double *value) {
    int32_t at = 0;
    for (int32_t i = 0; i < rows; i++) {
        start[i] = at;
        for (int32_t j = 0; j < n; j++) {
            if (dense[i][j] == 0) continue;
            column[at] = j;
            value[at++] = dense[i][j];
        }
    }
    start[rows] = at;
}

static int32_t start[M + 1], column[M * N], t_start[2 * M + 1], t_column[2 * M * N], row[M];
static double value[M * N], t_value[2 * M * N];

static qpc_status try_impact(bodies *b, qpc_linsys *sys, qpc_impact_mode mode,
                             const double *approach, double threshold, qpc_arena *memory,
                             qpc_error *err) {
    sparse(b->m, b->n, b->J, start, column, value);
    sparse(2 * b->contacts, b->n, b->T, t_start, t_column, t_value);
    for (int32_t k = 0; k < b->contacts; k++) row[k] = k;
    qpc_friction friction = {.count = b->contacts,
                             .row = row,
                             .mu = b->mu,
                             .start = t_start,
                             .column = t_column,
                             .value = t_value,
                             .u0 = b->u0};
    return qpc_solve_impact(sys, b->m, start, column, value, b->eps, approach, threshold,
                            b->contacts > 0 ? &friction : NULL, mode, memory, b->v, b->f, b->beta,
                            &b->report, err);
}

static void impact(bodies *b, qpc_impact_mode mode) {
    qpc_error err = {0};
    qpc_linsys sys = mass_of(b);
    assert_ok(try_impact(b, &sys, mode, NULL, 0, &arena, &err), &err);
    assert_true(b->report.converged);
    assert_true(b->report.energy_after <= b->report.energy_before * (1 + 1e-12));
    qpc_linsys_fini(&sys);
    qpc_arena_reset(&arena);
}

static const char *const lcps[] = {
    "ball_floor", "box_floor4",   "box_tilted16", "box_tilted4", "cradle20_r100",
    "cradle3",    "cradle5_half", "funnel12",     "pile4",       "rack5",
    "rack5_off",  "separating",   "stack20",      "stack5_1e4",  NULL};

static void stored_impacts_are_solved(void **state) {
    (void)state;
    for (int32_t k = 0; lcps[k] != NULL; k++) {
        char path[512];
        cones_file f;
        snprintf(path, sizeof path, "%s/qp/lcp_%s.qpb", QPC_TEST_DATA, lcps[k]);
        if (!cones_open(path, 2, &f)) fail_msg("cannot load %s", path);
        qpc_linsys sys = {0};
        qpc_error err = {0};
        assert_ok(qpc_linsys_resize(&sys, f.n, 0, &err), &err);
        for (int32_t i = 0; i < f.n; i++) qpc_linsys_add(&sys, i, i, f.M[i]);
        assert_ok(qpc_linsys_factor(&sys, &err), &err);
        size_t rows = (size_t)f.rows, n = (size_t)f.n;
        double *eps = calloc(rows, sizeof *eps), *impulse = calloc(rows, sizeof *eps);
        double *v = calloc(n, sizeof *v);
        for (size_t i = 0; i < rows; i++) eps[i] = f.eps[f.eps_count > 1 ? i : 0];
        memcpy(v, f.v, n * sizeof *v);
        qpc_impact_report report;
        // The files have b = (1 + eps) J v on every contact; here eps acts on those that approach.
        double *approach = calloc(rows, sizeof *approach);
        bool all_close = true;
        for (size_t i = 0; i < rows; i++) {
            for (int32_t l = f.J_p[i]; l < f.J_p[i + 1]; l++)
                approach[i] += f.J_x[l] * f.v[f.J_i[l]];
            all_close = all_close && approach[i] <= 0;
        }
        assert_ok(qpc_solve_impact(&sys, f.rows, f.J_p, f.J_i, f.J_x, eps, NULL, 0, NULL,
                                   QPC_IMPACT_SIMULTANEOUS, &arena, v, impulse, NULL, &report,
                                   &err),
                  &err);
        assert_true(report.converged);
        assert_true(report.energy_after <= report.energy_before * (1 + 1e-12));
        assert_near(report.restitution_scale, 1, all_close ? 0 : 1);
        double distance = 0;
        for (size_t i = 0; i < n; i++)
            distance += f.M[i] * (v[i] - f.v_plus[i]) * (v[i] - f.v_plus[i]);
        bool compare = all_close || eps[0] == 0;
        if (compare && !(sqrt(distance) <= 1e-9 * f.scale))
            fail_msg("%s: v is off by %g", lcps[k], sqrt(distance) / f.scale);
        double comp = 0;
        for (size_t i = 0; i < rows; i++) {
            double w = approach[i] < 0 ? eps[i] * approach[i] : 0, A = 0;
            for (int32_t l = f.J_p[i]; l < f.J_p[i + 1]; l++) w += f.J_x[l] * v[f.J_i[l]];
            for (int32_t l = f.A_p[i]; l < f.A_p[i + 1]; l++)
                if (f.A_i[l] == (int32_t)i) A = f.A_x[l];
            if (compare) assert_near(w, f.w[i], 1e-9 * f.scale * sqrt(A));
            assert_true(w >= -1e-9 * sqrt(A) * f.scale && impulse[i] >= 0);
            comp += fabs(impulse[i] * w);
        }
        assert_true(comp <= 1e-9 * f.scale * f.scale);
        free(eps);
        free(impulse);
        free(v);
        free(approach);
        qpc_linsys_fini(&sys);
        qpc_arena_reset(&arena);
        cones_close(&f);
    }
}

/// The files' own problem, with eps on every contact, separating ones too: a QP over K = M.
static void stored_lcps_are_solved_by_the_active_set(void **state) {
    (void)state;
    for (int32_t k = 0; lcps[k] != NULL; k++) {
        char path[512];
        cones_file f;
        snprintf(path, sizeof path, "%s/qp/lcp_%s.qpb", QPC_TEST_DATA, lcps[k]);
        if (!cones_open(path, 2, &f)) fail_msg("cannot load %s", path);
        size_t rows = (size_t)f.rows, n = (size_t)f.n, nnz = (size_t)f.J_p[f.rows], count;
        qpc_linsys sys = {0};
        qpc_error err = {0};
        assert_ok(qpc_linsys_resize(&sys, f.n, 0, &err), &err);
        for (int32_t i = 0; i < f.n; i++) qpc_linsys_add(&sys, i, i, f.M[i]);
        double *minus = calloc(nnz, sizeof *minus), *zero = calloc(n, sizeof *zero);
        double *x = calloc(n, sizeof *x), *l = calloc(rows, sizeof *l);
        uint8_t *no = calloc(rows, 1), *one = calloc(rows, 1);
        uint64_t *key = calloc(rows, sizeof *key);
        for (size_t i = 0; i < nnz; i++) minus[i] = -f.J_x[i];
        for (size_t i = 0; i < rows; i++) one[i] = 1;
        const double *b = cones_array(&f, "b", 8, &count);
        qpc_qp qp = {.n = f.n,
                     .m = f.rows,
                     .sys = &sys,
                     .b = zero,
                     .row_start = f.J_p,
                     .column = f.J_i,
                     .value = minus,
                     .c = b,
                     .equality = no,
                     .priority = one,
                     .key = key};
        qpc_solver_options options = qpc_solver_options_default();
        options.exact = true;
        options.residual_tolerance = 1e300;
        qpc_solver_report report;
        assert_ok(qpc_linsys_factor(&sys, &err), &err);
        assert_ok(qpc_solve(QPC_SOLVER_ACTIVE_SET, &qp, &options, &arena, x, l, &report, &err),
                  &err);
        double distance = 0, worst = 0;
        for (size_t i = 0; i < n; i++) {
            double d = f.v[i] + x[i] - f.v_plus[i];
            distance += f.M[i] * d * d;
        }
        for (size_t i = 0; i < rows; i++) {
            double w = b[i], A = 0;
            for (int32_t j = f.J_p[i]; j < f.J_p[i + 1]; j++) w += f.J_x[j] * x[f.J_i[j]];
            for (int32_t j = f.A_p[i]; j < f.A_p[i + 1]; j++)
                if (f.A_i[j] == (int32_t)i) A = f.A_x[j];
            worst = fmax(worst, fabs(w - f.w[i]) / (sqrt(A) * f.scale));
        }
        if (!(sqrt(distance) <= 1e-9 * f.scale && worst <= 1e-9))
            fail_msg("%s: v off by %g, w by %g", lcps[k], sqrt(distance) / f.scale, worst);
        free(minus);
        free(zero);
        free(x);
        free(l);
        free(no);
        free(one);
        free(key);
        qpc_linsys_fini(&sys);
        qpc_arena_reset(&arena);
        cones_close(&f);
    }
}

static oracle open_case(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/physics/%s.json", QPC_TEST_DATA, name);
    return oracle_open(path);
}

static void expect(const oracle *o, const char *quantity, const double *got, int32_t count) {
    double want[16], tolerance;
    assert_int_equal(oracle_result(o, quantity, want, 16, &tolerance), count);
    for (int32_t i = 0; i < count; i++) assert_near(got[i], want[i], tolerance);
}

/// Rod or plank: unknowns (vz, wy); contacts at xs, (w x r)_z = -w x.
static void two_points(bodies *b, const oracle *o, const double *xs, const double *eps,
                       int32_t count) {
    memset(b, 0, sizeof *b);
    double mass = oracle_setup(o, "mass_kg"), length = oracle_setup(o, "length_m");
    b->n = 2;
    b->m = count;
    b->mass[0] = mass;
    b->mass[1] = mass * length * length / 12;
    b->v[0] = -oracle_setup(o, "v_down_m_s");
    b->v[1] = oracle_setup(o, "omega_y_rad_s");
    for (int32_t i = 0; i < count; i++) {
        b->J[i][0] = 1;
        b->J[i][1] = -xs[i];
        b->eps[i] = eps[i];
    }
}

static void rods_and_planks_land_as_computed(void **state) {
    (void)state;
    static bodies b;
    const char *const names[] = {"rod_flat", "rod_flat_two_restitutions", "rod_tilted",
                                 "plank_two_supports", "plank_one_sided_supports"};
    for (int32_t k = 0; k < 5; k++) {
        oracle o = open_case(names[k]);
        double eps[2], xs[2], half = 0.5 * oracle_setup(&o, "length_m");
        int32_t count = oracle_setup_list(&o, "restitution", eps, 2);
        if (k < 2) {
            xs[0] = -half;
            xs[1] = half;
        } else if (k == 2) {
            xs[0] = half * cos(oracle_setup(&o, "tilt_deg") * acos(-1) / 180);
        } else {
            eps[1] = eps[0];
            count = oracle_setup_list(&o, "supports_x_m", xs, 2);
        }
        two_points(&b, &o, xs, eps, count);
        impact(&b, QPC_IMPACT_SIMULTANEOUS);
        expect(&o, k == 2 ? "impulse at the lower end" : "impulses at", b.f, count);
        expect(&o, "centre velocity after", &b.v[0], 1);
        expect(&o, "angular velocity about y after", &b.v[1], 1);
        double ratio = b.report.energy_after / b.report.energy_before;
        if (k == 2) expect(&o, "kinetic energy after / before", &ratio, 1);
        oracle_close(&o);
    }
}

static void box(bodies *b, const oracle *o, double tilt, int32_t corners) {
    double size[3], mass = oracle_setup(o, "mass_kg");
    memset(b, 0, sizeof *b);
    oracle_setup_list(o, "size_xyz_m", size, 3);
    b->n = 6;
    b->m = corners;
    b->v[2] = -oracle_setup(o, "v_down_m_s");
    for (int32_t i = 0; i < 3; i++) {
        double s = size[(i + 1) % 3], t = size[(i + 2) % 3];
        b->mass[i] = mass;
        b->mass[3 + i] =
            mass * (s * s + t * t) / 12; // about the y axis whatever the tilt about y is
    }
    for (int32_t k = 0; k < corners; k++) {
        double x = (corners == 4 && k >= 2 ? -0.5 : 0.5) * size[0],
               y = (k % 2 ? -0.5 : 0.5) * size[1];
        double z = -0.5 * size[2], c = cos(tilt), s = sin(tilt);
        double rx = c * x + s * z; // turned so that the edge at +x is lower
        b->J[k][2] = 1;
        b->J[k][3] = y; // (w x r)_z = wx y - wy x
        b->J[k][4] = -rx;
        b->eps[k] = oracle_setup(o, "restitution");
    }
}

static void boxes_land_as_computed(void **state) {
    (void)state;
    static bodies b;
    oracle o = open_case("box_four_corners");
    box(&b, &o, 0, 4);
    impact(&b, QPC_IMPACT_SIMULTANEOUS);
    double sum = b.f[0] + b.f[1] + b.f[2] + b.f[3], velocity[2] = {b.v[2], hypot(b.v[3], b.v[4])};
    double moments[2] = {0, 0};
    for (int32_t k = 0; k < 4; k++) {
        moments[0] += b.J[k][3] * b.f[k];
        moments[1] += b.J[k][4] * b.f[k];
    }
    expect(&o, "sum of the four impulses", &sum, 1);
    expect(&o, "moments of the impulses", moments, 2);
    expect(&o, "velocity after (z) and spin", velocity, 2);
    oracle_close(&o);
    o = open_case("box_edge_landing");
    box(&b, &o, oracle_setup(&o, "tilt_deg") * acos(-1) / 180, 2);
    // Spin about x and z stays zero, so that the tensor's turn about y does not show.
    impact(&b, QPC_IMPACT_SIMULTANEOUS);
    double spin[3] = {b.v[3], b.v[4], b.v[5]};
    expect(&o, "impulse of each corner", b.f, 2);
    expect(&o, "centre velocity after", &b.v[2], 1);
    expect(&o, "angular velocity after", spin, 3);
    oracle_close(&o);
}

static void cradle(bodies *b, const oracle *o) {
    memset(b, 0, sizeof *b);
    b->n = oracle_setup_list(o, "masses_kg", b->mass, 16);
    b->m = b->n - 1;
    b->v[0] = oracle_setup(o, "v_m_s");
    for (int32_t i = 0; i < b->m; i++) {
        b->J[i][i] = -1;
        b->J[i][i + 1] = 1;
        b->eps[i] = oracle_setup(o, "restitution");
    }
}

static void cradles_do_both(void **state) {
    (void)state;
    static bodies b;
    const char *const names[] = {"newton_cradle_3", "newton_cradle_5"};
    for (int32_t k = 0; k < 2; k++) {
        oracle o = open_case(names[k]);
        cradle(&b, &o);
        impact(&b, QPC_IMPACT_SIMULTANEOUS);
        // eps acts on contacts that approach: the first one. The files' law bounces there alone
        // too.
        expect(&o, "impulses, simultaneous", b.f, b.m);
        expect(&o, "velocities after, simultaneous", b.v, b.n);
        cradle(&b, &o);
        impact(&b, QPC_IMPACT_SEQUENTIAL);
        expect(&o, "velocities after, sequential", b.v, b.n);
        assert_int_equal(b.report.rounds, b.m);
        for (int32_t i = 0; i + 1 < b.n; i++) assert_true(b.v[i] == 0); // the first stops, exactly
        oracle_close(&o);
    }
}

static void two_balls_leave_when_two_come(void **state) {
    (void)state;
    static bodies b;
    oracle o = open_case("newton_cradle_5");
    cradle(&b, &o);
    b.v[1] = b.v[0];
    impact(&b, QPC_IMPACT_SEQUENTIAL);
    for (int32_t i = 0; i < 5; i++)
        assert_near(b.v[i], i < 3 ? 0 : oracle_setup(&o, "v_m_s"), 1e-12);
    oracle_close(&o);
}

static void many_small_impacts_end(void **state) {
    (void)state;
    static bodies b;
    oracle o = open_case("newton_cradle_5");
    for (int32_t k = 0; k < 3; k++) {
        cradle(&b, &o);
        b.v[4] = -3;
        for (int32_t i = 0; i < 4; i++) b.eps[i] = 0.3 * k;
        b.mass[2] = 100;
        impact(&b, QPC_IMPACT_SEQUENTIAL);
        for (int32_t i = 0; i < 4; i++) assert_true(b.v[i + 1] - b.v[i] >= -1e-12);
    }
    oracle_close(&o);
}

static void resting_contacts_do_not_bounce(void **state) {
    (void)state;
    static bodies b;
    memset(&b, 0, sizeof b);
    b.n = 2;
    b.m = 2;
    for (int32_t i = 0; i < 2; i++) {
        b.mass[i] = 2;
        b.J[i][i] = 1;
        b.eps[i] = 0.5;
    }
    double h = 0.005, g = 9.81, approach[2] = {-2, -1.9 * g * h};
    qpc_error err = {0};
    qpc_linsys sys = mass_of(&b);
    b.v[0] = approach[0];
    b.v[1] = approach[1];
    assert_ok(try_impact(&b, &sys, QPC_IMPACT_SIMULTANEOUS, NULL, 2 * g * h, &arena, &err), &err);
    assert_near(b.v[0], 1, 1e-12);
    assert_near(b.v[1], 0, 1e-12);
    assert_int_equal(b.report.impacts, 1);
    // The same told by the approach when the step has stopped both already: what it took is given
    // back.
    for (int32_t mode = 0; mode < 2; mode++) {
        b.v[0] = b.v[1] = 0;
        assert_ok(try_impact(&b, &sys, mode ? QPC_IMPACT_SEQUENTIAL : QPC_IMPACT_SIMULTANEOUS,
                             approach, 2 * g * h, &arena, &err),
                  &err);
        assert_near(b.v[0], 1, 1e-12);
        assert_near(b.v[1], 0, 1e-12);
        assert_near(b.f[0], 2, 1e-12);
        assert_near(b.report.energy_before, 4, 1e-12);
        assert_near(b.report.energy_after, 1, 1e-12);
        assert_true(b.report.restitution_scale == 1);
    }
    // A bounce that was announced where the step took nothing (both fall on): no double energy.
    b.v[0] = -2;
    b.v[1] = 0;
    assert_ok(try_impact(&b, &sys, QPC_IMPACT_SIMULTANEOUS, approach, 2 * g * h, &arena, &err),
              &err);
    assert_near(b.report.energy_before, 4, 1e-12);
    qpc_linsys_fini(&sys);
}

static uint64_t seed;
static double draw(void) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (double)(int64_t)(seed >> 11) * 0x1p-52 - 1;
}

/// A body of 6 unknowns on corner contacts with friction (lever arms at random), or a few of them
/// stacked.
static void random_bodies(bodies *b, int32_t count, double eps, double mu) {
    memset(b, 0, sizeof *b);
    b->n = 6 * count;
    for (int32_t i = 0; i < count; i++) {
        double m = exp(3 * draw());
        for (int32_t j = 0; j < 6; j++) b->mass[6 * i + j] = j < 3 ? m : m * (0.02 + 0.01 * draw());
        for (int32_t j = 0; j < 6; j++) b->v[6 * i + j] = 2 * draw();
        b->v[6 * i + 2] = -1 - i + draw();
        for (int32_t k = 0; k < 3; k++) {
            double r[3] = {0.3 * draw(), 0.3 * draw(), -0.1};
            int32_t c = b->m++;
            for (int32_t side = 0; side < (i > 0 ? 2 : 1); side++) {
                double *n = b->J[c], *t1 = b->T[2 * c], *t2 = b->T[2 * c + 1], s = side ? -1 : 1;
                int32_t at = 6 * (i - side);
                if (side) r[2] = 0.1;
                n[at + 2] = s;
                n[at + 3] = s * r[1];
                n[at + 4] = -s * r[0];
                t1[at] = s;
                t1[at + 4] = s * r[2];
                t1[at + 5] = -s * r[1];
                t2[at + 1] = s;
                t2[at + 3] = -s * r[2];
                t2[at + 5] = s * r[0];
            }
            b->eps[c] = eps;
            b->mu[c] = mu;
        }
    }
    b->contacts = b->m;
}

static void friction_and_restitution_gain_nothing(void **state) {
    (void)state;
    static bodies b;
    int32_t lowered = 0, unsolved = 0;
    for (int32_t i = 0; i < 150; i++) {
        seed = 300 + (uint64_t)i;
        double eps = i % 3 == 0 ? 1 : 0.7, mu = 0.2 + 0.3 * (i % 4);
        qpc_impact_mode mode = i % 2 ? QPC_IMPACT_SEQUENTIAL : QPC_IMPACT_SIMULTANEOUS;
        random_bodies(&b, 1 + i % 3, eps, mu);
        qpc_error err = {0};
        qpc_linsys sys = mass_of(&b);
        assert_ok(try_impact(&b, &sys, mode, NULL, 0, &arena, &err), &err);
        qpc_linsys_fini(&sys);
        qpc_arena_reset(&arena);
        unsolved += !b.report.converged;
        assert_true(b.report.energy_after <= b.report.energy_before * (1 + 1e-12));
        lowered += b.report.restitution_scale < 1;
        for (int32_t c = 0; c < b.m; c++) {
            double w = 0;
            for (int32_t j = 0; j < b.n; j++) w += b.J[c][j] * b.v[j];
            if (b.report.converged) assert_true(w >= -1e-6);
            assert_true(b.f[c] >= 0);
            // Sequential impulses add up along changing directions: inside mu f all the same.
            assert_true(hypot(b.beta[2 * c], b.beta[2 * c + 1]) <=
                        b.mu[c] * b.f[c] * (1 + 1e-6) + 1e-9);
        }
    }
    assert_int_equal(unsolved, 0);
    assert_true(lowered > 0); // else this tests nothing
}

static void a_ball_with_friction_bounces_and_spins(void **state) {
    (void)state;
    static bodies b;
    memset(&b, 0, sizeof b);
    // Sphere of radius R, vz -3, vx 2: friction mu (1 + eps) m v unless it rolls before.
    double R = 0.1, m = 0.5, eps = 0.6;
    b.n = 6;
    b.m = b.contacts = 1;
    for (int32_t i = 0; i < 6; i++) b.mass[i] = i < 3 ? m : 0.4 * m * R * R;
    b.J[0][2] = 1;
    b.T[0][0] = 1;
    b.T[0][4] = -R;
    b.T[1][1] = 1;
    b.T[1][3] = R;
    for (int32_t mode = 0; mode < 2; mode++) {
        for (int32_t k = 0; k < 2; k++) {
            double mu = k ? 0.5 : 0.05;
            memset(b.v, 0, sizeof b.v);
            b.v[0] = 2;
            b.v[2] = -3;
            b.eps[0] = eps;
            b.mu[0] = mu;
            impact(&b, mode ? QPC_IMPACT_SEQUENTIAL : QPC_IMPACT_SIMULTANEOUS);
            double pull = fmin(mu * (1 + eps) * m * 3, 2 * m * 2 / 7.0);
            assert_near(b.f[0], (1 + eps) * m * 3, 1e-10);
            assert_near(b.beta[0], pull, 1e-9);
            assert_near(b.v[0], 2 - pull / m, 1e-9);
            assert_near(b.v[4], pull * R / (0.4 * m * R * R), 1e-7);
            assert_near(b.v[2], eps * 3, 1e-10);
        }
    }
}

static void bad_input_is_refused(void **state) {
    (void)state;
    static bodies b;
    seed = 1;
    random_bodies(&b, 1, 0.5, 0.3);
    qpc_linsys sys = mass_of(&b);
    qpc_error err = {0};
    double before[N];
    b.eps[1] = 1.5;
    memcpy(before, b.v, sizeof before);
    assert_fails(try_impact(&b, &sys, QPC_IMPACT_SIMULTANEOUS, NULL, 0, &arena, &err),
                 QPC_ERR_INVALID, &err, "contact 1");
    b.eps[1] = 0.5;
    b.v[3] = NAN;
    assert_fails(try_impact(&b, &sys, QPC_IMPACT_SEQUENTIAL, NULL, 0, &arena, &err),
                 QPC_ERR_NUMERIC, &err, "not finite");
    b.v[3] = before[3];
    assert_memory_equal(before, b.v, sizeof before);
    qpc_linsys_fini(&sys);
}

static void memory_faults_leave_velocities_alone(void **state) {
    (void)state;
    static bodies b;
    qpc_arena_fini(&arena);
    for (int32_t mode = 0; mode < 4; mode++) {
        seed = 8;
        random_bodies(&b, 2, 0.5, 0.3);
        if (mode >= 2) b.contacts = 0;
        qpc_linsys sys = mass_of(&b);
        double before[N];
        memcpy(before, b.v, sizeof before);
        QPC_FAULTS(f) {
            qpc_arena fresh = {0};
            qpc_error err = {0};
            memcpy(b.v, before, sizeof before);
            qpc_status status =
                try_impact(&b, &sys, mode % 2 ? QPC_IMPACT_SEQUENTIAL : QPC_IMPACT_SIMULTANEOUS,
                           NULL, 0, &fresh, &err);
            if (!qpc_faults_ended(&f, status)) assert_memory_equal(before, b.v, sizeof before);
            qpc_arena_fini(&fresh);
        }
        qpc_linsys_fini(&sys);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_lcps_are_solved_by_the_active_set),
        cmocka_unit_test(stored_impacts_are_solved),
        cmocka_unit_test(rods_and_planks_land_as_computed),
        cmocka_unit_test(boxes_land_as_computed),
        cmocka_unit_test(cradles_do_both),
        cmocka_unit_test(two_balls_leave_when_two_come),
        cmocka_unit_test(many_small_impacts_end),
        cmocka_unit_test(resting_contacts_do_not_bounce),
        cmocka_unit_test(friction_and_restitution_gain_nothing),
        cmocka_unit_test(a_ball_with_friction_bounces_and_spins),
        cmocka_unit_test(bad_input_is_refused),
        cmocka_unit_test(memory_faults_leave_velocities_alone),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    qpc_arena_fini(&arena);
    return failed;
}
