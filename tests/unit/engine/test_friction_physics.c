/// Friction against closed forms: slopes, stopping, balls that roll, capstans, a pull by a spring;
/// both modes.
#include "engine/solver/friction.h"
#include "tests/support/oracle.h"
#include "tests/support/smallqp.h"

#include <stdlib.h>

static qpc_arena arena;

/// A smallqp with tangents; both are filled by hand and then built.
enum { CONTACTS = 24 };
typedef struct rubbing {
    smallqp qp;
    int32_t contacts;
    int32_t row[CONTACTS];
    double mu[CONTACTS], T[2 * CONTACTS][SMALLQP_N], u0[2 * CONTACTS];
    double v[SMALLQP_N], dv[SMALLQP_N], lambda[SMALLQP_M], beta[2 * CONTACTS];
    int32_t start[2 * CONTACTS + 1], column[2 * CONTACTS * SMALLQP_N];
    double value[2 * CONTACTS * SMALLQP_N];
    qpc_friction friction;
    qpc_friction_report report;
} rubbing;
static rubbing s; // large

static void clear(int32_t n, int32_t m, int32_t contacts) {
    qpc_linsys_fini(&s.qp.sys);
    memset(&s, 0, sizeof s);
    s.qp.n = n;
    s.qp.m = m;
    s.contacts = contacts;
    for (int32_t i = 0; i < m; i++) {
        s.qp.key[i] = (uint64_t)i;
        s.qp.priority[i] = 1;
    }
}

static void build(void) {
    int32_t at = 0;
    smallqp_build(&s.qp);
    for (int32_t i = 0; i < 2 * s.contacts; i++) {
        s.start[i] = at;
        for (int32_t j = 0; j < s.qp.n; j++) {
            if (s.T[i][j] == 0) continue;
            s.column[at] = j;
            s.value[at++] = s.T[i][j];
        }
    }
    s.start[2 * s.contacts] = at;
    s.friction = (qpc_friction){.count = s.contacts,
                                .row = s.row,
                                .mu = s.mu,
                                .start = s.start,
                                .column = s.column,
                                .value = s.value,
                                .u0 = s.u0};
}

static double dot(const double *row, const double *x) {
    double sum = 0;
    for (int32_t j = 0; j < s.qp.n; j++) sum += row[j] * x[j];
    return sum;
}

/// One step from v, whose rows say J (v + dv) <= bound; what every answer to it must be.
static void step(qpc_friction_mode mode, const double *bound) {
    qpc_solver_options options = qpc_solver_options_default();
    qpc_friction_options friction = {.mode = mode,
                                     .tolerance = mode == QPC_FRICTION_EXACT ? 0 : 1e-10};
    qpc_solver_report report;
    qpc_error err = {0};
    options.exact = true;
    for (int32_t i = 0; i < s.qp.m; i++)
        s.qp.c[i] = (bound != NULL ? bound[i] : 0) - dot(s.qp.J[i], s.v);
    for (int32_t i = 0; i < 2 * s.contacts; i++) s.u0[i] = dot(s.T[i], s.v);
    assert_ok(qpc_solve_friction(QPC_SOLVER_AUTO, &s.qp.qp, &s.friction, &options, &friction,
                                 &arena, s.dv, s.lambda, s.beta, &report, &s.report, &err),
              &err);
    if (!s.report.converged) fail_msg("not converged: natural residual %g", s.report.natural);
    for (int32_t j = 0; j < s.qp.n; j++) s.v[j] += s.dv[j];
    for (int32_t k = 0; k < s.contacts; k++) {
        const double *b = s.beta + 2 * k;
        double push = s.lambda[s.row[k]], pull = hypot(b[0], b[1]), limit = s.mu[k] * push;
        double power = b[0] * dot(s.T[2 * k], s.v) + b[1] * dot(s.T[2 * k + 1], s.v);
        assert_true(pull <= limit + 1e-9 * (push + pull));
        assert_true(power >= -1e-12 * (1 + pull)); // it dissipates
    }
}

static oracle open_oracle(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/physics/%s.json", QPC_TEST_DATA, name);
    return oracle_open(path);
}

static void expect(const oracle *o, const char *quantity, const double *got, int32_t count) {
    double want[8], tolerance;
    assert_int_equal(oracle_result(o, quantity, want, 8, &tolerance), count);
    for (int32_t i = 0; i < count; i++)
        if (!(fabs(got[i] - want[i]) <= tolerance + 1e-13 * fabs(want[i])))
            fail_msg("%s [%d]: %.15g, want %.15g", quantity, i, got[i], want[i]);
}

static double wanted(const oracle *o, const char *quantity) {
    double want, tolerance;
    assert_int_equal(oracle_result(o, quantity, &want, 1, &tolerance), 1);
    return want;
}

static const double DEGREE = 0.017453292519943295;

/// A particle on a plane through the origin, tilted about y: x goes down the slope, z off it.
static void set_block(double mass, double mu, double tilt, double gravity, double h) {
    clear(3, 1, 1);
    for (int32_t a = 0; a < 3; a++) s.qp.K[a][a] = mass;
    s.qp.b[0] = h * mass * gravity * sin(tilt);
    s.qp.b[2] = -h * mass * gravity * cos(tilt);
    s.qp.J[0][2] = -1;
    s.mu[0] = mu;
    // tangents that are not along the slope
    s.T[0][0] = s.T[1][1] = cos(0.3);
    s.T[0][1] = sin(0.3);
    s.T[1][0] = -sin(0.3);
    build();
}

static void a_block_below_the_threshold_does_not_creep(void **state) {
    (void)state;
    oracle o = open_oracle("incline_stick");
    double mass = oracle_setup(&o, "mass_kg"), mu = oracle_setup(&o, "mu"),
           g = oracle_setup(&o, "gravity_m_s2");
    double tilt = oracle_setup(&o, "tilt_deg") * DEGREE, h = 0.01;
    for (int mode = QPC_FRICTION_STAGGERED; mode <= QPC_FRICTION_EXACT; mode++) {
        double x = 0, y = 0;
        set_block(mass, mu, tilt, g, h);
        for (int32_t i = 0; i < 6000; i++) { // 60 s
            step((qpc_friction_mode)mode, NULL);
            x += h * s.v[0];
            y += h * s.v[1];
        }
        if (!(hypot(x, y) <= 1e-11))
            fail_msg("mode %d crept %g m", mode, hypot(x, y)); // 6000 times 1e-14 m/s
        double force[2] = {s.lambda[0] / h, hypot(s.beta[0], s.beta[1]) / h},
               speed = hypot(s.v[0], s.v[1]);
        expect(&o, "speed after any time", &speed, 1);
        expect(&o, "normal and friction force", force, 2);
        assert_int_equal(s.report.sticking, 1);
        // The friction points up the slope on the block: -T'beta.
        assert_true(s.beta[0] * s.T[0][0] + s.beta[1] * s.T[1][0] > 0);
        double limit = wanted(&o, "tilt at which it starts to slip");
        set_block(mass, mu, (limit - 1e-7) * DEGREE, g, h);
        step((qpc_friction_mode)mode, NULL);
        assert_true(hypot(s.v[0], s.v[1]) <= 1e-14);
        set_block(mass, mu, (limit + 1e-7) * DEGREE, g, h);
        step((qpc_friction_mode)mode, NULL);
        assert_true(s.v[0] > 0);
        assert_near(s.v[0],
                    h * g * (sin((limit + 1e-7) * DEGREE) - mu * cos((limit + 1e-7) * DEGREE)),
                    1e-12);
    }
    oracle_close(&o);
}

static void a_block_above_the_threshold_slides_as_computed(void **state) {
    (void)state;
    oracle o = open_oracle("incline_slip");
    double h = oracle_setup(&o, "dt_s");
    for (int mode = QPC_FRICTION_STAGGERED; mode <= QPC_FRICTION_EXACT; mode++) {
        set_block(oracle_setup(&o, "mass_kg"), oracle_setup(&o, "mu"),
                  oracle_setup(&o, "tilt_deg") * DEGREE, oracle_setup(&o, "gravity_m_s2"), h);
        s.v[0] = oracle_setup(&o, "v0_m_s");
        double x = 0, a = 0;
        for (int32_t i = 0; i < (int32_t)oracle_setup(&o, "steps"); i++) {
            step((qpc_friction_mode)mode, NULL);
            x += h * s.v[0];
            a = s.dv[0] / h;
            assert_int_equal(s.report.sliding, 1);
        }
        expect(&o, "acceleration down the slope", &a, 1);
        expect(&o, "distance after n steps of backward Euler", &x, 1);
        assert_near(x, wanted(&o, "distance after n steps of backward Euler"), 1e-8);
    }
    oracle_close(&o);
}

static void a_block_stops_where_it_should(void **state) {
    (void)state;
    oracle o = open_oracle("block_stopping_distance");
    double h = oracle_setup(&o, "dt_s");
    for (int mode = QPC_FRICTION_STAGGERED; mode <= QPC_FRICTION_EXACT; mode++) {
        set_block(oracle_setup(&o, "mass_kg"), oracle_setup(&o, "mu"), 0,
                  oracle_setup(&o, "gravity_m_s2"), h);
        s.v[0] = oracle_setup(&o, "v0_m_s") * cos(2);
        s.v[1] = oracle_setup(&o, "v0_m_s") * sin(2);
        double x = 0, y = 0, steps = 0;
        for (int32_t i = 0; i < 200; i++) {
            if (hypot(s.v[0], s.v[1]) > 1e-12) steps++;
            step((qpc_friction_mode)mode, NULL);
            x += h * s.v[0];
            y += h * s.v[1];
        }
        double distance = hypot(x, y);
        expect(&o, "distance until rest, backward Euler", &distance, 1);
        expect(&o, "steps until rest", &steps, 1);
        assert_near(atan2(y, x), 2, 1e-9); // it did not turn
    }
    oracle_close(&o);
}

/// A solid ball on a plane as above: velocity and spin.
static void set_ball(double mass, double radius, double mu, double tilt, double gravity, double h) {
    clear(6, 1, 1);
    for (int32_t a = 0; a < 3; a++) {
        s.qp.K[a][a] = mass;
        s.qp.K[3 + a][3 + a] = 0.4 * mass * radius * radius;
    }
    s.qp.b[0] = h * mass * gravity * sin(tilt);
    s.qp.b[2] = -h * mass * gravity * cos(tilt);
    s.qp.J[0][2] = -1;
    s.mu[0] = mu;
    s.T[0][0] = s.T[1][1] = 1; // point at (0, 0, -radius): v_x - omega_y r, v_y + omega_x r
    s.T[0][4] = -radius;
    s.T[1][3] = radius;
    build();
}

static void a_billiard_ball_slips_then_rolls(void **state) {
    (void)state;
    oracle o = open_oracle("billiard_slip_to_roll");
    double h = 1e-3, radius = oracle_setup(&o, "radius_m"), v0 = oracle_setup(&o, "v0_m_s");
    set_ball(oracle_setup(&o, "mass_kg"), radius, oracle_setup(&o, "mu"), 0,
             oracle_setup(&o, "gravity_m_s2"), h);
    s.v[0] = v0;
    double x = 0, at = 0, distance = 0;
    for (int32_t i = 0; i < 500; i++) {
        step(QPC_FRICTION_EXACT, NULL);
        x += h * s.v[0];
        if (fabs(s.v[0] - radius * s.v[4]) > 1e-10) continue;
        if (at == 0) distance = x;
        if (at == 0) at = h * (i + 1);
    }
    double lost = 1 - (s.v[0] * s.v[0] + 0.4 * radius * radius * s.v[4] * s.v[4]) / (v0 * v0);
    expect(&o, "time at which it rolls", &at, 1);
    expect(&o, "speed when rolling", &s.v[0], 1);
    expect(&o, "distance until it rolls", &distance, 1);
    expect(&o, "energy lost / energy at the start", &lost, 1);
    assert_near(s.v[0], 5.0 / 7 * v0, 1e-12); // whatever the step is
    oracle_close(&o);
}

static void a_ball_rolls_down_a_slope(void **state) {
    (void)state;
    oracle o = open_oracle("sphere_rolling");
    double h = oracle_setup(&o, "dt_s"), radius = oracle_setup(&o, "radius_m"), x = 0;
    double mass = oracle_setup(&o, "mass_kg"), tilt = oracle_setup(&o, "tilt_deg") * DEGREE;
    double g = oracle_setup(&o, "gravity_m_s2"), least = wanted(&o, "least mu for rolling");
    set_ball(mass, radius, oracle_setup(&o, "mu"), tilt, g, h);
    for (int32_t i = 0; i < (int32_t)oracle_setup(&o, "steps"); i++) {
        step(QPC_FRICTION_EXACT, NULL);
        x += h * s.v[0];
    }
    expect(&o, "acceleration down the slope", (double[]){s.dv[0] / h, s.dv[4] / h, s.beta[0] / h},
           3);
    expect(&o, "distance after n steps of backward Euler", &x, 1);
    for (int32_t side = -1; side <= 1; side += 2) {
        set_ball(mass, radius, least * (1 + 1e-6 * side), tilt, g, h);
        step(QPC_FRICTION_EXACT, NULL);
        double slip = s.v[0] - radius * s.v[4];
        assert_true(side > 0 ? fabs(slip) <= 1e-13 : slip > 1e-9);
    }
    oracle_close(&o);
}

// ---- capstans ----

/// A cable of straight links over `nodes` nodes on an arc, each turning it by angle / nodes, links
/// of fixed length as equalities. Two more particles hang on its ends if hung, else forces pull
/// there.
static void set_capstan(int32_t nodes, double angle, double mu, bool hung, double node_mass,
                        const double *end_mass) {
    int32_t ends = hung ? 2 : 0, total = nodes + ends, links = total - 1;
    clear(3 * total, nodes + links, nodes);
    double turn = angle / nodes;
    for (int32_t i = 0; i < total; i++) { // in order along the cable: 0 is an end if hung
        int32_t node = hung ? i - 1 : i;
        double mass = node < 0 ? end_mass[0] : node >= nodes ? end_mass[1] : node_mass;
        for (int32_t a = 0; a < 3; a++) s.qp.K[3 * i + a][3 * i + a] = mass;
        if (node < 0 || node >= nodes) continue;
        double middle = (node + 0.5) * turn;
        s.row[node] = node;
        s.mu[node] = mu;
        s.qp.J[node][3 * i] = -cos(middle); // outward normal (cos, sin, 0)
        s.qp.J[node][3 * i + 1] = -sin(middle);
        s.T[2 * node][3 * i] = -sin(middle);
        s.T[2 * node][3 * i + 1] = cos(middle);
        s.T[2 * node + 1][3 * i + 2] = 1;
    }
    for (int32_t l = 0; l < links;
         l++) { // between l and l + 1, along the tangent at a multiple of turn
        double at = (hung ? l : l + 1) * turn;
        s.qp.equality[nodes + l] = 1;
        s.qp.J[nodes + l][3 * l] = sin(at);
        s.qp.J[nodes + l][3 * l + 1] = -cos(at);
        s.qp.J[nodes + l][3 * l + 3] = -sin(at);
        s.qp.J[nodes + l][3 * l + 4] = cos(at);
    }
}

static void a_capstan_of_straight_links_slips_at_its_ratio(void **state) {
    (void)state;
    oracle o = open_oracle("capstan_polygon");
    double mu = oracle_setup(&o, "mu"), angle = oracle_setup(&o, "wrap_angle_rad"),
           T2 = oracle_setup(&o, "T2_N");
    int32_t nodes = (int32_t)oracle_setup(&o, "contact_nodes");
    double ratio = wanted(&o, "T1/T2"), h = 0.005;
    for (int mode = QPC_FRICTION_EXACT; mode <= QPC_FRICTION_EXACT; mode++) {
        for (int32_t side = -1; side <= 1; side++) {
            double T1 = T2 * ratio * (1 + 1e-6 * side), a = 0.5 * angle / nodes;
            set_capstan(nodes, angle, mu, false, 0.01, NULL);
            int32_t last =
                3 *
                (nodes - 1); // T2 pulls at the start against the tangent, T1 at the end along it
            s.qp.b[1] = -h * T2;
            s.qp.b[last] = h * T1 * -sin(angle);
            s.qp.b[last + 1] = h * T1 * cos(angle);
            build();
            step((qpc_friction_mode)mode, NULL);
            double speed = 0, normal = 0;
            for (int32_t k = 0; k < nodes; k++) {
                speed = fmax(speed, fabs(dot(s.T[2 * k], s.v)));
                normal += s.lambda[k] / h;
            }
            // What drives it beyond the limit moves all nodes together.
            if (side < 0) assert_true(speed <= 1e-9 * h * T1 / 0.01);
            if (side > 0) assert_true(speed > 1e-8 * h * T1 / (0.01 * nodes));
            if (side > 0) assert_near(normal, (T1 - T2) * cos(a) / mu, 1e-5 * normal);
            if (side == 0)
                expect(&o, "sum of the normal forces", (double[]){(T1 - T2) * cos(a) / mu}, 1);
        }
    }
    expect(&o, "T1/T2 of the smooth cylinder", &ratio, 1);
    oracle_close(&o);
}

static void a_capstan_holds_between_its_limits(void **state) {
    (void)state;
    oracle o = open_oracle("capstan_holding");
    double mu = oracle_setup(&o, "mu"), angle = oracle_setup(&o, "wrap_angle_rad"),
           load = oracle_setup(&o, "load_N");
    double low = wanted(&o, "least T1 that holds"), high = wanted(&o, "greatest T1 without slip"),
           h = 0.005;
    const double factor[] = {0.99, 1.01, 1.01, 0.99}; // 1 %: the polygon of 20 links is 0.2 % off
    for (int32_t k = 0; k < 4; k++) {
        double T1 = (k % 2 == 0 ? (k < 2 ? low : high) : (k < 2 ? low : high)) * factor[k],
               speed = 0;
        set_capstan(20, angle, mu, false, 0.01, NULL);
        s.qp.b[1] = -h * load;
        s.qp.b[57] = h * T1 * -sin(angle);
        s.qp.b[58] = h * T1 * cos(angle);
        build();
        step(QPC_FRICTION_EXACT, NULL);
        for (int32_t i = 0; i < 20; i++) speed = fmax(speed, fabs(dot(s.T[2 * i], s.v)));
        bool holds = k % 2 == 1;
        if (holds) assert_true(speed <= 1e-9 * h * load / 0.01);
        if (!holds) assert_true(speed > 1e-4 * h * load / 0.01);
        // and slips to the side that pulls more
        if (!holds) assert_true((dot(s.T[0], s.v) > 0) == (k == 2));
    }
    oracle_close(&o);
}

static void two_masses_slip_over_a_capstan_as_computed(void **state) {
    (void)state;
    oracle o = open_oracle("capstan_slipping");
    double mu = oracle_setup(&o, "mu"), angle = oracle_setup(&o, "wrap_angle_rad"),
           g = oracle_setup(&o, "gravity_m_s2");
    double m1 = oracle_setup(&o, "m1_kg"), m2 = oracle_setup(&o, "m2_kg"), h = 0.005;
    enum { NODES = 18 };
    double a = 0.5 * angle / NODES;
    double ratio = pow((cos(a) + mu * sin(a)) / (cos(a) - mu * sin(a)), NODES);
    const double masses[] = {m2, m1}; // m1 at the end, along the tangent
    set_capstan(NODES, angle, mu, true, 1e-5, masses);
    int32_t last = 3 * (NODES + 1);
    s.qp.b[1] =
        -h * m2 *
        g; // tangents at the ends: (0, 1) and (0, -1) for half a turn, both legs hang along -y
    s.qp.b[last + 1] = -h * m1 * g;
    build();
    step(QPC_FRICTION_EXACT, NULL);
    double acceleration = -s.v[last + 1] / h, T2 = m2 * (g + s.v[1] / h),
           T1 = m1 * (g - acceleration);
    expect(&o, "tension ratio T1/T2 while slipping", (double[]){T1 / T2}, 1);
    expect(&o, "acceleration of m1 downward", &acceleration, 1);
    assert_near(T1 / T2, ratio, 1e-4 * ratio); // the nodes weigh 1e-5 of 1
    assert_near(T1 / T2, exp(mu * angle), 0.01 * ratio);
    // Multipliers of the end links are the tensions.
    assert_near(fabs(s.lambda[NODES]) / h, T2, 1e-4 * T2);
    assert_near(fabs(s.lambda[2 * NODES]) / h, T1, 1e-4 * T1);
    oracle_close(&o);
}

// ---- a pull by a spring ----

static void a_spring_pulls_a_block_loose_when_it_should(void **state) {
    (void)state;
    // The spring's far end moves at V: the block sticks until k V t = mu m g, then x' = V (1 - cos
    // w t).
    const double mass = 2, mu = 0.3, g = 10, k = 50, V = 0.4, h = 2e-4,
                 start = mu * mass * g / (k * V);
    double x = 0, w = sqrt(k / mass), loose = -1, worst = 0;
    set_block(mass, mu, 0, g, h);
    s.qp.K[0][0] = mass + h * h * k;
    build();
    for (int32_t i = 0; i < (int32_t)((start + 1) / h); i++) {
        double t = h * (i + 1);
        s.qp.b[0] = h * k *
                    (V * t - x -
                     h * s.v[0]); // implicit in the block, the driven end at the end of the step
        step(QPC_FRICTION_EXACT, NULL);
        x += h * s.v[0];
        if (loose < 0 && fabs(s.v[0]) > 1e-12) loose = t;
        if (loose < 0) assert_true(fabs(x) <= 1e-14);
        if (t > start) worst = fmax(worst, fabs(s.v[0] - V * (1 - cos(w * (t - start)))));
    }
    assert_near(loose, start, 1.5 * h);
    assert_true(worst <=
                8 * h * w *
                    V); // first order in the step: error about V w^2 t h / 2 over one second
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_below_the_threshold_does_not_creep),
        cmocka_unit_test(a_block_above_the_threshold_slides_as_computed),
        cmocka_unit_test(a_block_stops_where_it_should),
        cmocka_unit_test(a_billiard_ball_slips_then_rolls),
        cmocka_unit_test(a_ball_rolls_down_a_slope),
        cmocka_unit_test(a_capstan_of_straight_links_slips_at_its_ratio),
        cmocka_unit_test(a_capstan_holds_between_its_limits),
        cmocka_unit_test(two_masses_slip_over_a_capstan_as_computed),
        cmocka_unit_test(a_spring_pulls_a_block_loose_when_it_should),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    qpc_linsys_fini(&s.qp.sys);
    qpc_arena_fini(&arena);
    return failed;
}
