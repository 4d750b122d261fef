/// Friction on a step's QP: closed forms in time loops, rows without friction, invariance, faults.
#include "tests/support/oracle.h"

#include "engine/solver/friction.h"
#include "tests/support/faults.h"
#include "tests/support/smallqp.h"

#include <stdlib.h>

static qpc_arena arena;
static smallqp small; // too large for the stack

enum { MOST = 40 };
typedef struct tangents { // dense rows of T, two a contact
    int32_t count, row[MOST], start[2 * MOST + 1], column[2 * MOST * SMALLQP_N];
    double mu[MOST], T[2 * MOST][SMALLQP_N], u0[2 * MOST], value[2 * MOST * SMALLQP_N];
} tangents;
static tangents contact;

typedef struct answer {
    double dv[SMALLQP_N], lambda[SMALLQP_M], beta[2 * MOST];
    qpc_solver_report solver;
    qpc_friction_report friction;
} answer;

static void clear(int32_t n, int32_t m, int32_t contacts) {
    qpc_linsys sys = small.sys;
    memset(&small, 0, sizeof small);
    memset(&contact, 0, sizeof contact);
    small.sys = sys;
    small.n = n;
    small.m = m;
    contact.count = contacts;
    for (int32_t i = 0; i < m; i++) {
        small.key[i] = (uint64_t)i;
        small.priority[i] = 1;
    }
    for (int32_t k = 0; k < contacts; k++) contact.row[k] = k;
}

static qpc_friction friction_of(tangents *t, int32_t n) {
    int32_t at = 0;
    for (int32_t i = 0; i < 2 * t->count; i++) {
        t->start[i] = at;
        for (int32_t j = 0; j < n; j++) {
            if (t->T[i][j] == 0) continue;
            t->column[at] = j;
            t->value[at++] = t->T[i][j];
        }
    }
    t->start[2 * t->count] = at;
    return (qpc_friction){.count = t->count,
                          .row = t->row,
                          .mu = t->mu,
                          .start = t->start,
                          .column = t->column,
                          .value = t->value,
                          .u0 = t->u0};
}

static qpc_status try_step(qpc_friction_mode mode, double tolerance, qpc_arena *memory, answer *a,
                           qpc_error *err) {
    qpc_solver_options options = qpc_solver_options_default();
    options.exact = true;
    options.residual_tolerance = 1e-10;
    qpc_friction friction = friction_of(&contact, small.n);
    qpc_friction_options how = {.mode = mode, .tolerance = tolerance};
    return qpc_solve_friction(QPC_SOLVER_ACTIVE_SET, &small.qp, &friction, &options, &how, memory,
                              a->dv, a->lambda, a->beta, &a->solver, &a->friction, err);
}

/// Solve what stands in `small` and `contact`, and hold the answer to the law.
static void step(qpc_friction_mode mode, double tolerance, answer *a) {
    qpc_error err = {0};
    assert_ok(try_step(mode, tolerance, &arena, a, &err), &err);
    if (!a->friction.converged)
        fail_msg("natural residual %g after %d + %d steps", a->friction.natural, a->friction.outers,
                 a->friction.newton);
    qpc_arena_reset(&arena);
    // K dv + J'lambda + T'beta = b, row by row, by hand.
    double worst = 0, largest = 0;
    for (int32_t i = 0; i < small.n; i++) {
        double s = -small.b[i], size = fabs(small.b[i]);
        for (int32_t j = 0; j < small.n; j++) {
            double K = i >= j ? small.K[i][j] : small.K[j][i];
            s += K * a->dv[j];
            size += fabs(K * a->dv[j]);
        }
        for (int32_t r = 0; r < small.m; r++) {
            s += small.J[r][i] * a->lambda[r];
            size += fabs(small.J[r][i] * a->lambda[r]);
        }
        for (int32_t t = 0; t < 2 * contact.count; t++) {
            s += contact.T[t][i] * a->beta[t];
            size += fabs(contact.T[t][i] * a->beta[t]);
        }
        worst = fmax(worst, fabs(s));
        largest = fmax(largest, size);
    }
    assert_near(worst, 0, 1e-12 * largest);
    // Dissipation: friction does no work on the contact, beyond the residual.
    for (int32_t k = 0; k < contact.count; k++) {
        double u[2], limit = contact.mu[k] * a->lambda[contact.row[k]];
        for (int32_t j = 0; j < 2; j++) {
            u[j] = contact.u0[2 * k + j];
            for (int32_t i = 0; i < small.n; i++) u[j] += contact.T[2 * k + j][i] * a->dv[i];
        }
        double pull = hypot(a->beta[2 * k], a->beta[2 * k + 1]);
        double slack = mode == QPC_FRICTION_EXACT ? 1e-9 : 3e-3;
        assert_true(pull <= limit + slack * (1 + limit));
        assert_true(a->beta[2 * k] * u[0] + a->beta[2 * k + 1] * u[1] >=
                    -slack * (1 + limit) * (1 + hypot(u[0], u[1])));
    }
}

static oracle open_case(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/physics/%s.json", QPC_TEST_DATA, name);
    return oracle_open(path);
}

static double expected(const oracle *o, const char *quantity, double *ret_tolerance) {
    double value[8];
    oracle_result(o, quantity, value, 8, ret_tolerance);
    return value[0];
}

// ---- one particle on a plane ----

typedef struct block { // a point of mass m on a plane through 0 with normal n
    double mass, mu, gravity, tilt, dt, x[3], v[3], n[3], t1[3], t2[3];
    answer last;
} block;

static void block_set(block *b, double mass, double mu, double gravity, double tilt_deg,
                      double dt) {
    double a = tilt_deg * acos(-1) / 180;
    *b = (block){.mass = mass,
                 .mu = mu,
                 .gravity = gravity,
                 .tilt = a,
                 .dt = dt,
                 .n = {sin(a), 0, cos(a)},
                 .t1 = {cos(a), 0, -sin(a)},
                 .t2 = {0, 1, 0}};
}

static double dot(const double *a, const double *b) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void block_step(block *b, qpc_friction_mode mode) {
    clear(3, 1, 1);
    for (int32_t i = 0; i < 3; i++) {
        small.K[i][i] = b->mass;
        small.J[0][i] = -b->n[i];
        contact.T[0][i] = b->t1[i];
        contact.T[1][i] = b->t2[i];
    }
    small.b[2] = -b->dt * b->mass * b->gravity;
    small.c[0] = dot(b->n, b->x) / b->dt + dot(b->n, b->v);
    contact.mu[0] = b->mu;
    contact.u0[0] = dot(b->t1, b->v);
    contact.u0[1] = dot(b->t2, b->v);
    smallqp_build(&small);
    step(mode, mode == QPC_FRICTION_EXACT ? 1e-12 : 1e-9, &b->last);
    for (int32_t i = 0; i < 3; i++) {
        b->v[i] += b->last.dv[i];
        b->x[i] += b->dt * b->v[i];
    }
}

static void a_block_below_the_threshold_does_not_creep(void **state) {
    (void)state;
    oracle o = open_case("incline_stick");
    double tolerance, force[2];
    block b;
    oracle_result(&o, "normal and friction force", force, 2, &tolerance);
    for (int32_t mode = QPC_FRICTION_STAGGERED; mode <= QPC_FRICTION_EXACT; mode++) {
        block_set(&b, oracle_setup(&o, "mass_kg"), oracle_setup(&o, "mu"),
                  oracle_setup(&o, "gravity_m_s2"), oracle_setup(&o, "tilt_deg"), 0.005);
        for (int32_t s = 0; s < 12000; s++) block_step(&b, (qpc_friction_mode)mode); // 60 s
        // Round-off of 12,000 steps, each at most 1e-17 m.
        assert_near(sqrt(dot(b.x, b.x)), 0, 1e-13);
        assert_near(sqrt(dot(b.v, b.v)), 0, 1e-15);
        assert_near(b.last.lambda[0] / b.dt, force[0], tolerance);
        assert_near(hypot(b.last.beta[0], b.last.beta[1]) / b.dt, force[1], tolerance);
        assert_int_equal(b.last.friction.sticking, 1);
    }
    // A hair on either side of atan(mu).
    double limit = expected(&o, "tilt at which it starts to slip", &tolerance);
    for (int32_t side = -1; side <= 1; side += 2) {
        block_set(&b, 2, oracle_setup(&o, "mu"), 9.81, limit + side * 1e-6, 0.005);
        for (int32_t s = 0; s < 200; s++) block_step(&b, QPC_FRICTION_EXACT);
        double speed = sqrt(dot(b.v, b.v)), slip = 9.81 * 1e-6 * acos(-1) / 180 / cos(b.tilt);
        assert_near(speed, side < 0 ? 0 : slip, side < 0 ? 1e-14 : 1e-3 * slip);
    }
    oracle_close(&o);
}

static void a_block_slips_and_stops_as_computed(void **state) {
    (void)state;
    block b;
    double tolerance;
    for (int32_t mode = QPC_FRICTION_STAGGERED; mode <= QPC_FRICTION_EXACT; mode++) {
        oracle o = open_case("incline_slip");
        block_set(&b, oracle_setup(&o, "mass_kg"), oracle_setup(&o, "mu"),
                  oracle_setup(&o, "gravity_m_s2"), oracle_setup(&o, "tilt_deg"),
                  oracle_setup(&o, "dt_s"));
        for (int32_t i = 0; i < 3; i++) b.v[i] = oracle_setup(&o, "v0_m_s") * b.t1[i];
        int32_t steps = (int32_t)oracle_setup(&o, "steps");
        for (int32_t s = 0; s < steps; s++) block_step(&b, (qpc_friction_mode)mode);
        double want = expected(&o, "distance after n steps", &tolerance);
        assert_near(dot(b.x, b.t1), want, tolerance);
        assert_near((dot(b.v, b.t1) - oracle_setup(&o, "v0_m_s")) / (steps * b.dt),
                    expected(&o, "acceleration down the slope", &tolerance), tolerance);
        oracle_close(&o);

        o = open_case("block_stopping_distance");
        block_set(&b, oracle_setup(&o, "mass_kg"), oracle_setup(&o, "mu"),
                  oracle_setup(&o, "gravity_m_s2"), 0, oracle_setup(&o, "dt_s"));
        b.v[0] = oracle_setup(&o, "v0_m_s") * 0.6; // any direction: the cone is round
        b.v[1] = oracle_setup(&o, "v0_m_s") * 0.8;
        int32_t moving = 0;
        for (int32_t s = 0; s < 200; s++) {
            block_step(&b, (qpc_friction_mode)mode);
            moving += hypot(b.v[0], b.v[1]) > 1e-12;
        }
        want = expected(&o, "distance until rest, backward Euler", &tolerance);
        assert_near(hypot(b.x[0], b.x[1]), want, tolerance);
        assert_near(b.x[1] * 0.6, b.x[0] * 0.8, 1e-12);
        assert_int_equal(moving + 1, (int32_t)expected(&o, "steps until rest", &tolerance));
        oracle_close(&o);
    }
}

// ---- a sphere ----

static void a_sphere_slides_until_it_rolls(void **state) {
    (void)state;
    oracle o = open_case("billiard_slip_to_roll");
    double R = oracle_setup(&o, "radius_m"), m = oracle_setup(&o, "mass_kg"), dt = 0.002, tolerance;
    double v[6] = {oracle_setup(&o, "v0_m_s")}, x = 0, when = -1, where = 0;
    static answer a;
    memset(&a, 0, sizeof a);
    for (int32_t s = 0; s < 400; s++) {
        clear(6, 1, 1);
        for (int32_t i = 0; i < 6; i++) small.K[i][i] = i < 3 ? m : 0.4 * m * R * R;
        small.b[2] = -dt * m * oracle_setup(&o, "gravity_m_s2");
        small.J[0][2] = -1;
        contact.T[0][0] = contact.T[1][1] = 1;
        contact.T[0][4] = -R; // (w x (0, 0, -R))_x
        contact.T[1][3] = R;
        contact.mu[0] = oracle_setup(&o, "mu");
        small.c[0] = v[2];
        contact.u0[0] = v[0] - R * v[4];
        contact.u0[1] = v[1] + R * v[3];
        smallqp_build(&small);
        step(QPC_FRICTION_EXACT, 1e-11, &a);
        for (int32_t i = 0; i < 6; i++) v[i] += a.dv[i];
        x += dt * v[0];
        if (when < 0 && fabs(v[0] - R * v[4]) < 1e-9) {
            when = (s + 1) * dt;
            where = x;
        }
    }
    assert_near(when, expected(&o, "time at which it rolls", &tolerance), 2 * dt);
    assert_near(where, expected(&o, "distance until it rolls", &tolerance), tolerance);
    assert_near(v[0], expected(&o, "speed when rolling", &tolerance), 1e-9);
    double before = 0.5 * m * 4, after = 0.5 * m * v[0] * v[0] + 0.2 * m * R * R * v[4] * v[4];
    assert_near(1 - after / before, expected(&o, "energy lost / energy at the start", &tolerance),
                1e-9);
    oracle_close(&o);
}

// ---- a box with redundant corners ----

/// A box on a plane tilted about y (gravity turned instead), corners by corners^2 contacts.
static void box_problem(int32_t corners, double mass, double tilt, double mu, double dt,
                        const double *v) {
    int32_t m = corners * corners;
    clear(6, m, m);
    double size[3] = {0.4, 0.3, 0.2};
    for (int32_t i = 0; i < 3; i++) {
        double s = size[(i + 1) % 3], t = size[(i + 2) % 3];
        small.K[i][i] = mass;
        small.K[3 + i][3 + i] = mass * (s * s + t * t) / 12;
    }
    small.b[0] = dt * mass * 9.81 * sin(tilt);
    small.b[2] = -dt * mass * 9.81 * cos(tilt);
    for (int32_t k = 0; k < m; k++) {
        double x = size[0] * ((k % corners) / (corners - 1.0) - 0.5), z = -0.5 * size[2];
        double y = size[1] * ((k / corners) / (corners - 1.0) - 0.5);
        double n[6] = {0, 0, 1, y, -x, 0}, t1[6] = {1, 0, 0, 0, z, -y}, t2[6] = {0, 1, 0, -z, 0, x};
        for (int32_t i = 0; i < 6; i++) {
            small.J[k][i] = -n[i];
            contact.T[2 * k][i] = t1[i];
            contact.T[2 * k + 1][i] = t2[i];
            small.c[k] += n[i] * v[i];
            contact.u0[2 * k] += t1[i] * v[i];
            contact.u0[2 * k + 1] += t2[i] * v[i];
        }
        contact.mu[k] = mu;
    }
    smallqp_build(&small);
}

static void a_box_on_many_points_sticks_and_slips(void **state) {
    (void)state;
    static answer a;
    for (int32_t corners = 2; corners <= 5; corners++) {
        for (int32_t k = 0; k < 4; k++) {
            double tilt = k % 2 ? 0.35 : 0.30, mu = tan(0.32), mass = k < 2 ? 3 : 3e5, v[6] = {0},
                   dt = 0.01;
            memset(&a, 0, sizeof a);
            for (int32_t s = 0; s < 100; s++) {
                box_problem(corners, mass, tilt, mu, dt, v);
                step(QPC_FRICTION_EXACT, 1e-11, &a);
                for (int32_t i = 0; i < 6; i++) v[i] += a.dv[i];
            }
            double want = k % 2 ? 9.81 * (sin(tilt) - mu * cos(tilt)) * 100 * dt : 0;
            assert_near(v[0], want, k % 2 ? 1e-9 : 1e-13);
            for (int32_t i = 1; i < 6; i++) assert_near(v[i], 0, k % 2 ? 1e-9 : 1e-12);
            double push = 0;
            for (int32_t i = 0; i < small.m; i++) push += a.lambda[i];
            assert_near(push, mass * 9.81 * cos(tilt) * dt, 1e-9 * mass);
        }
    }
}

// ---- capstan: equality rows beside friction ----

/// Nodes on a polygon of `contacts` nodes and an end on either side, links that do not stretch
/// (equality rows), in the plane; the second tangent of a contact is empty. Pulls are at the ends
/// along the links.
static void capstan(int32_t contacts, double mu, double wrap, double node_mass,
                    const double *end_mass, const double *pull, double dt) {
    int32_t nodes = contacts + 2, links = nodes - 1;
    clear(2 * nodes, contacts + links, contacts);
    double turn = wrap / contacts;
    for (int32_t i = 0; i < nodes; i++) {
        double m = i == 0 ? end_mass[0] : i == nodes - 1 ? end_mass[1] : node_mass;
        small.K[2 * i][2 * i] = small.K[2 * i + 1][2 * i + 1] = m;
    }
    for (int32_t k = 0; k < contacts; k++) {
        double a = (k + 0.5) * turn; // normal of node k + 1; links are at multiples of turn
        double n[2] = {cos(a), sin(a)};
        for (int32_t j = 0; j < 2; j++) small.J[k][2 * (k + 1) + j] = -n[j];
        contact.T[2 * k][2 * (k + 1)] = -n[1];
        contact.T[2 * k][2 * (k + 1) + 1] = n[0];
        contact.mu[k] = mu;
    }
    for (int32_t l = 0; l < links; l++) {
        double a = l * turn, d[2] = {-sin(a), cos(a)};
        int32_t row = contacts + l;
        small.equality[row] = 1;
        for (int32_t j = 0; j < 2; j++) {
            small.J[row][2 * l + j] = -d[j];
            small.J[row][2 * (l + 1) + j] = d[j];
            if (l == 0) small.b[j] = -pull[0] * dt * d[j];
            if (l == links - 1) small.b[2 * (nodes - 1) + j] = pull[1] * dt * d[j];
        }
    }
    smallqp_build(&small);
}

static void a_capstan_holds_and_slips(void **state) {
    (void)state;
    static answer a;
    oracle o = open_case("capstan_polygon"), held = open_case("capstan_holding");
    double tolerance, ratio = expected(&o, "T1/T2", &tolerance), T2 = oracle_setup(&o, "T2_N"),
                      dt = 0.01;
    double mu = oracle_setup(&o, "mu"), wrap = oracle_setup(&o, "wrap_angle_rad"), ends[2] = {1, 1};
    int32_t contacts = (int32_t)oracle_setup(&o, "contact_nodes");
    // Holding: whatever lies between the limits, to a hair.
    const double share[] = {1 / ratio + 1e-6, 0.7, 1, 2, ratio - 1e-6};
    for (int32_t k = 0; k < 5; k++) {
        memset(&a, 0, sizeof a);
        double pull[2] = {T2 * share[k], T2};
        capstan(contacts, mu, wrap, 1e-3, ends, pull, dt);
        step(QPC_FRICTION_EXACT, 1e-11, &a);
        for (int32_t i = 0; i < small.n; i++) assert_near(a.dv[i], 0, 1e-9);
        assert_near(fabs(a.lambda[contacts]) / dt, pull[0], 1e-6);
        assert_near(fabs(a.lambda[small.m - 1]) / dt, T2, 1e-6);
    }
    // Within 1 % of the smooth cylinder (T2 / T1 of the file is the load).
    double load = oracle_setup(&held, "load_N"),
           least = expected(&held, "least T1 that holds", &tolerance);
    assert_near(load / ratio, least, 0.01 * least);
    // Slipping, slowly and with light nodes, so that the tensions at the ends are in the limit's
    // ratio but for what accelerates 20 nodes of 0.1 g at 0.04 m/s^2. (Lighter ones drown the
    // residual in round-off.)
    memset(&a, 0, sizeof a);
    double pull[2] = {1.001 * ratio * T2, T2};
    capstan(contacts, mu, wrap, 1e-4, ends, pull, dt);
    step(QPC_FRICTION_EXACT, 1e-10, &a);
    double T1 = a.lambda[contacts], other = a.lambda[small.m - 1], normal = 0;
    assert_near(T1 / other, ratio, 3e-6);
    for (int32_t k = 0; k < contacts; k++) normal += a.lambda[k];
    double want = (T1 - other) * cos(0.5 * wrap / contacts) / mu;
    assert_near(normal, fabs(want), 3e-6 * fabs(want));
    assert_int_equal(a.friction.sliding, contacts);
    oracle_close(&o);
    oracle_close(&held);

    o = open_case("capstan_slipping");
    double mass[2] = {oracle_setup(&o, "m1_kg"), oracle_setup(&o, "m2_kg")};
    double g = oracle_setup(&o, "gravity_m_s2"), weight[2] = {mass[0] * g, mass[1] * g};
    memset(&a, 0, sizeof a);
    capstan(20, oracle_setup(&o, "mu"), oracle_setup(&o, "wrap_angle_rad"), 1e-4, mass, weight, dt);
    step(QPC_FRICTION_EXACT, 1e-10, &a);
    want = expected(&o, "acceleration of m1 downward", &tolerance);
    assert_near(hypot(a.dv[0], a.dv[1]) / dt, want, 0.01 * want);
    want = expected(&o, "tension ratio T1/T2 while slipping", &tolerance);
    assert_near(a.lambda[20] / a.lambda[small.m - 1], want, 0.01 * want);
    oracle_close(&o);
}

// ---- random steps ----

static uint64_t seed;
static double draw(void) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (double)(int64_t)(seed >> 11) * 0x1p-52 - 1;
}

/// Particles joined by springs (K banded), each against a plane with friction, some with
/// frictionless rows, one equality.
static void random_step(int32_t particles, double mu) {
    int32_t rows = 2 * particles + 1;
    clear(3 * particles, rows, particles);
    for (int32_t i = 0; i < particles; i++) {
        double m = exp(2 * draw());
        for (int32_t j = 0; j < 3; j++) {
            int32_t d = 3 * i + j;
            small.K[d][d] += m;
            small.b[d] = m * (draw() - (j == 2 ? 2 : 0));
            contact.u0[2 * i + j % 2] = 0.5 * draw();
        }
        if (i > 0) {
            double k = exp(2 * draw()), n[3] = {draw(), draw(), draw()};
            for (int32_t p = 0; p < 3; p++)
                for (int32_t q = 0; q < 3; q++) {
                    small.K[3 * i + p][3 * i + q] += k * n[p] * n[q];
                    small.K[3 * i - 3 + p][3 * i - 3 + q] += k * n[p] * n[q];
                    small.K[3 * i + p][3 * i - 3 + q] -= k * n[p] * n[q];
                }
        }
        double a = 0.4 * draw(), s = sin(a), c = cos(a);
        small.J[i][3 * i] = -s;
        small.J[i][3 * i + 2] = -c;
        contact.T[2 * i][3 * i] = c;
        contact.T[2 * i][3 * i + 2] = -s;
        contact.T[2 * i + 1][3 * i + 1] = 1;
        small.c[i] = i % 3 ? 0.3 * draw() : 0;
        contact.mu[i] = mu;
        small.J[particles + i][3 * i + 1] = draw() > 0 ? 1 : -1; // a wall without friction
        small.c[particles + i] = 0.4 + 0.4 * draw();
    }
    small.J[2 * particles][0] = 1;
    small.J[2 * particles][3] = -1;
    small.equality[2 * particles] = 1;
    small.c[2 * particles] = 0.1 * draw();
    smallqp_build(&small);
}

static void both_modes_agree_on_random_steps(void **state) {
    (void)state;
    static answer a, b, c;
    int32_t compared = 0;
    for (int32_t i = 0; i < 150; i++) {
        seed = 50 + (uint64_t)i;
        random_step(2 + i % 12, 0.1 + 0.1 * (i % 5));
        memset(&a, 0, sizeof a);
        step(QPC_FRICTION_EXACT, 1e-10, &a);
        for (int32_t r = 0; r < small.m;
             r++) { // every row holds, those that were not in the set too
            double s = small.c[r];
            for (int32_t j = 0; j < small.n; j++) s -= small.J[r][j] * a.dv[j];
            assert_true(small.equality[r] ? fabs(s) <= 1e-9 : s >= -1e-9);
            if (!small.equality[r]) assert_true(a.lambda[r] >= 0 && fabs(a.lambda[r] * s) <= 1e-8);
        }
        // Warm from its own answer, and from multipliers that mislead.
        memcpy(&c, &a, sizeof a);
        step(QPC_FRICTION_EXACT, 1e-10, &c);
        for (int32_t j = 0; j < small.n; j++) assert_near(c.dv[j], a.dv[j], 1e-8);
        assert_true(c.friction.outers == 0 && c.friction.newton <= 2);
        for (int32_t r = 0; r < small.m; r++) c.lambda[r] = r % 3 == 0 ? 5 : 0;
        step(QPC_FRICTION_EXACT, 1e-10, &c);
        memset(&b, 0, sizeof b);
        qpc_error err = {0};
        assert_ok(try_step(QPC_FRICTION_STAGGERED, 1e-7, &arena, &b, &err), &err);
        qpc_arena_reset(&arena);
        if (!b.friction.converged) continue;
        compared++;
        for (int32_t j = 0; j < small.n; j++) assert_near(b.dv[j], a.dv[j], 1e-4);
    }
    if (compared < 120) fail_msg("staggered converged on %d of 150", compared);
}

static void a_contact_that_friction_opens_is_pulled_in(void **state) {
    (void)state;
    // Without friction the particle slides past the second wall; with it, it is thrown against the
    // first.
    static answer a;
    memset(&a, 0, sizeof a);
    clear(3, 2, 2);
    for (int32_t i = 0; i < 3; i++) small.K[i][i] = 1;
    small.b[2] = -1;
    small.J[0][2] = -1; // floor
    contact.T[0][0] = contact.T[1][1] = 1;
    contact.u0[0] = 0.5;
    contact.mu[0] = 0.4;
    contact.mu[1] = 0;  // else it would carry weight too
    small.J[1][0] = -1; // a wall that x may not leave to the left by more than 0.3
    small.c[1] = 0.3;
    contact.T[2][1] = contact.T[3][2] = 1;
    smallqp_build(&small);
    step(QPC_FRICTION_EXACT, 1e-12, &a);
    assert_near(a.dv[0], -0.3, 1e-12); // 0.4 of braking, held at 0.3 by the wall
    assert_near(a.lambda[1], 0.1, 1e-12);
    assert_near(a.lambda[0], 1, 1e-12);
}

static void no_friction_is_the_plain_solver(void **state) {
    (void)state;
    static answer a;
    seed = 4;
    random_step(5, 0.3);
    memset(&a, 0, sizeof a);
    double dv[SMALLQP_N], lambda[SMALLQP_M] = {0};
    qpc_solver_options options = qpc_solver_options_default();
    options.exact = true;
    options.residual_tolerance = 1e-10;
    qpc_solver_report report;
    qpc_error err = {0};
    a.beta[3] = 7;
    assert_ok(try_step(QPC_FRICTION_OFF, 0, &arena, &a, &err), &err);
    assert_ok(
        qpc_solve(QPC_SOLVER_ACTIVE_SET, &small.qp, &options, &arena, dv, lambda, &report, &err),
        &err);
    assert_memory_equal(dv, a.dv, (size_t)small.n * sizeof *dv);
    assert_true(a.beta[3] == 0 && a.friction.converged);
    // mu = 0 everywhere is the same motion.
    for (int32_t k = 0; k < contact.count; k++) contact.mu[k] = 0;
    for (int32_t mode = QPC_FRICTION_STAGGERED; mode <= QPC_FRICTION_EXACT; mode++) {
        memset(&a, 0, sizeof a);
        step((qpc_friction_mode)mode, 1e-10, &a);
        for (int32_t i = 0; i < small.n; i++) assert_near(a.dv[i], dv[i], 1e-9);
    }
}

static void contradicting_rows_are_told(void **state) {
    (void)state;
    static answer a;
    for (int32_t warm = 0; warm < 2; warm++) {
        for (int32_t mode = QPC_FRICTION_STAGGERED; mode <= QPC_FRICTION_EXACT; mode++) {
            memset(&a, 0, sizeof a);
            seed = 4;
            random_step(3, 0.3);
            memset(small.J[3], 0, sizeof small.J[3]);
            memset(small.J[4], 0, sizeof small.J[4]);
            small.J[3][4] = 1;
            small.J[4][4] = -1;
            small.c[3] = -1;
            small.c[4] = 0.5;
            smallqp_build(&small);
            if (warm) a.lambda[3] = a.lambda[0] = 1;
            qpc_error err = {0};
            assert_ok(try_step((qpc_friction_mode)mode, 0, &arena, &a, &err), &err);
            assert_int_equal(a.solver.outcome, QPC_OUTCOME_INFEASIBLE);
            assert_int_equal(a.solver.conflict_count, 2);
            assert_false(a.friction.converged);
            for (int32_t k = 0; k < 6; k++) assert_true(a.beta[k] == 0);
            qpc_arena_reset(&arena);
        }
    }
}

static void units_do_not_matter(void **state) {
    (void)state;
    static answer a, b;
    for (int32_t i = 0; i < 40; i++) {
        seed = 500 + (uint64_t)i;
        random_step(6, 0.3);
        memset(&a, 0, sizeof a);
        memset(&b, 0, sizeof b);
        step(QPC_FRICTION_EXACT, 1e-10, &a);
        double mass = i % 2 ? 1e6 : 1e-6, speed = i % 3 ? 1e-3 : 1e5;
        for (int32_t p = 0; p < small.n; p++) {
            small.b[p] *= mass * speed;
            for (int32_t q = 0; q < small.n; q++) small.K[p][q] *= mass;
        }
        for (int32_t r = 0; r < small.m; r++) {
            double s =
                contact.row[r % contact.count] == r ? 1 : 1e3; // rows without friction: any scale
            small.c[r] *= speed * s;
            for (int32_t q = 0; q < small.n; q++) small.J[r][q] *= s;
        }
        for (int32_t t = 0; t < 2 * contact.count; t++) contact.u0[t] *= speed;
        smallqp_build(&small);
        qpc_error err = {0};
        assert_ok(try_step(QPC_FRICTION_EXACT, 1e-10, &arena, &b, &err), &err);
        assert_true(b.friction.converged);
        for (int32_t j = 0; j < small.n; j++) assert_near(b.dv[j] / speed, a.dv[j], 1e-7);
    }
}

static void the_same_bits_twice(void **state) {
    (void)state;
    static answer a, b;
    for (int32_t mode = QPC_FRICTION_STAGGERED; mode <= QPC_FRICTION_EXACT; mode++) {
        seed = 12;
        random_step(12, 0.4);
        memset(&a, 0, sizeof a);
        memset(&b, 0, sizeof b);
        qpc_error err = {0};
        assert_ok(try_step((qpc_friction_mode)mode, 1e-6, &arena, &a, &err), &err);
        (void)qpc_arena_alloc(&arena, 12345); // other addresses
        assert_ok(try_step((qpc_friction_mode)mode, 1e-6, &arena, &b, &err), &err);
        assert_memory_equal(a.dv, b.dv, sizeof a.dv);
        assert_memory_equal(a.beta, b.beta, sizeof a.beta);
        qpc_arena_reset(&arena);
        uint64_t before = qpc_mem_thread_allocations();
        memset(&b, 0, sizeof b);
        assert_ok(try_step((qpc_friction_mode)mode, 1e-6, &arena, &b, &err), &err);
        assert_int_equal(qpc_mem_thread_allocations(), before); // all of it from the arena
        qpc_arena_reset(&arena);
    }
}

static void bad_input_is_refused(void **state) {
    (void)state;
    static answer a;
    qpc_error err = {0};
    seed = 3;
    random_step(3, 0.3);
    memset(&a, 0, sizeof a);
    contact.mu[2] = -1;
    assert_fails(try_step(QPC_FRICTION_EXACT, 0, &arena, &a, &err), QPC_ERR_INVALID, &err,
                 "contact 2");
    contact.mu[2] = 0.3;
    contact.row[1] = 6; // the equality
    assert_fails(try_step(QPC_FRICTION_EXACT, 0, &arena, &a, &err), QPC_ERR_INVALID, &err, "row 6");
    contact.row[1] = 1;
    contact.u0[3] = NAN;
    assert_fails(try_step(QPC_FRICTION_STAGGERED, 0, &arena, &a, &err), QPC_ERR_NUMERIC, &err,
                 "contact 1");
    contact.u0[3] = 0;
    small.b[0] = INFINITY;
    a.lambda[0] = 1;
    assert_fails(try_step(QPC_FRICTION_EXACT, 0, &arena, &a, &err), QPC_ERR_NUMERIC, &err,
                 "not finite");
    assert_true(a.dv[0] == 0 && a.lambda[0] == 1);
}

static void memory_faults_leave_the_answer_alone(void **state) {
    (void)state;
    static answer a, before;
    qpc_arena_fini(&arena);
    seed = 12;
    random_step(8, 0.4);
    for (int32_t mode = QPC_FRICTION_OFF; mode <= QPC_FRICTION_EXACT; mode++) {
        QPC_FAULTS(f) {
            qpc_arena fresh = {0};
            qpc_error err = {0};
            memset(&a, 0, sizeof a);
            memcpy(&before, &a, sizeof a);
            qpc_status status = try_step((qpc_friction_mode)mode, 0, &fresh, &a, &err);
            if (!qpc_faults_ended(&f, status)) assert_memory_equal(&before, &a, sizeof a);
            qpc_arena_fini(&fresh);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_below_the_threshold_does_not_creep),
        cmocka_unit_test(a_block_slips_and_stops_as_computed),
        cmocka_unit_test(a_sphere_slides_until_it_rolls),
        cmocka_unit_test(a_box_on_many_points_sticks_and_slips),
        cmocka_unit_test(a_capstan_holds_and_slips),
        cmocka_unit_test(both_modes_agree_on_random_steps),
        cmocka_unit_test(a_contact_that_friction_opens_is_pulled_in),
        cmocka_unit_test(no_friction_is_the_plain_solver),
        cmocka_unit_test(contradicting_rows_are_told),
        cmocka_unit_test(units_do_not_matter),
        cmocka_unit_test(the_same_bits_twice),
        cmocka_unit_test(bad_input_is_refused),
        cmocka_unit_test(memory_faults_leave_the_answer_alone),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    qpc_arena_fini(&arena);
    qpc_linsys_fini(&small.sys);
    return failed;
}
