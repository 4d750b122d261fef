/// Motion of one rigid body: free motion against closed forms over 100 s, tops and pendulums,
/// impacts by lever arms, independence of the frame, refusals.
#include "engine/dynamics/rigid.h"

#include "engine/dynamics/inertia.h"
#include "engine/dynamics/rigid_rows.h"
#include "tests/support/check.h"
#include "tests/support/oracle.h"

#define PHYSICS QPC_TEST_DATA "/physics/"

static const double PI = 3.14159265358979323846;

static void drift(const qpc_rigid_body *body, double h, qpc_rigid_state *state) {
    qpc_error err = {0};
    assert_ok(qpc_rigid_drift(body, h, state, &err), &err);
}

static qpc_vec3 own_rate(const qpc_rigid_state *s) {
    return qpc_quat_unrotate(s->q, s->w);
}

/// A body turned somehow with this angular velocity along its own axes.
static qpc_rigid_state turning(qpc_vec3 own) {
    qpc_rigid_state s = {.x = v3(0.3, -2, 1), .q = {0.5, -0.1, 0.7, 0.2}, .v = v3(1, 2, -0.5)};
    assert_true(qpc_quat_normalise(s.q));
    s.w = v3_rotate(s.q, own);
    return s;
}

/// The time from `s` at which own rate w2 passes zero, within the next h.
static double zero_of_w2(const qpc_rigid_body *body, const qpc_rigid_state *s, double h) {
    double low = 0, high = h, sign = own_rate(s).y;
    for (int i = 0; i < 60; i++) {
        qpc_rigid_state at = *s;
        double middle = 0.5 * (low + high);
        drift(body, middle, &at);
        *(own_rate(&at).y * sign > 0 ? &low : &high) = middle;
    }
    return 0.5 * (low + high);
}

static void the_middle_axis_flips_in_time_for_100_s(void **state) {
    (void)state;
    oracle o = oracle_open(PHYSICS "torque_free_intermediate_axis.json");
    double w[3], period, flip, energy2, momentum2, tolerance;
    qpc_rigid_body body = {.mass = 1};
    oracle_setup_list(&o, "inertia_kg_m2", body.moment, 3);
    oracle_setup_list(&o, "omega0_rad_s", w, 3);
    oracle_result(&o, "period", &period, 1, &tolerance);
    oracle_result(&o, "time of the first flip", &flip, 1, &tolerance);
    oracle_result(&o, "twice the kinetic energy", &energy2, 1, &tolerance);
    oracle_result(&o, "square of the angular momentum", &momentum2, 1, &tolerance);
    const double steps[] = {0.001, 0.003, 0.01, 0.1};
    for (int k = 0; k < 4; k++) {
        double h = steps[k], first = -1, last = -1, energy_error = 0, momentum_error = 0;
        int crossings = 0, count = (int)(100 / h + 0.5);
        qpc_rigid_state s = turning(v3_load(w));
        s.v = v3(0, 0, 0);
        qpc_vec3 L0 = qpc_rigid_inertia_times(&body, s.q, s.w);
        for (int i = 0; i < count; i++) {
            qpc_rigid_state before = s;
            drift(&body, h, &s);
            double e = 2 * qpc_rigid_energy(&body, &s) / energy2 - 1;
            qpc_vec3 L = qpc_rigid_inertia_times(&body, s.q, s.w);
            energy_error = fmax(energy_error, fabs(e));
            momentum_error = fmax(momentum_error, v3_norm(v3_sub(L, L0)) / v3_norm(L0));
            if (own_rate(&s).y * own_rate(&before).y > 0) continue;
            last = i * h + zero_of_w2(&body, &before, h);
            if (crossings++ == 0) first = last;
        }
        assert_near(v3_norm2(L0), momentum2, 1e-13 * momentum2);
        assert_near(energy_error, 0, 1e-12);
        assert_near(momentum_error, 0, 1e-12);
        assert_int_equal(crossings, 19); // 3.009 + 5.278 k up to 100 s
        // The period goes to infinity as 2 E I2 - L^2 goes to 0, and here that is 1e-4 of L^2: an
        // error of 1e-13 in the energy is 1e-9 in the period.
        assert_near(first, flip, 1e-10);
        assert_near((last - first) / (crossings - 1) * 2, period, 3e-9);
        double norm = 0;
        for (int i = 0; i < 4; i++) norm += s.q[i] * s.q[i];
        assert_near(norm, 1, 4e-16);
    }
    oracle_close(&o);
}

/// q(t) = turn by |L|/I1 t about L, then q(0), then turn by (1/I3 - 1/I1) L3 t about the body's
/// axis.
static void symmetric_motion(const qpc_rigid_body *body, const qpc_rigid_state *s, double t,
                             double q[4]) {
    qpc_vec3 L = qpc_rigid_inertia_times(body, s->q, s->w);
    double I1 = body->moment[0], I3 = body->moment[2];
    double half = 0.5 * t * v3_norm(L) / I1, spin = 0.5 * t * own_rate(s).z * (1 - I3 / I1);
    qpc_vec3 a = v3_scale(sin(half) / v3_norm(L), L);
    const double about_L[4] = {cos(half), a.x, a.y, a.z}, own[4] = {cos(spin), 0, 0, sin(spin)};
    qpc_quat_multiply(s->q, own, q);
    qpc_quat_multiply(about_L, q, q);
}

static double turned(const double p[4], const double q[4]) { // how far two orientations are apart
    double plus = 0, minus = 0;
    for (int i = 0; i < 4; i++) {
        plus += (p[i] + q[i]) * (p[i] + q[i]);
        minus += (p[i] - q[i]) * (p[i] - q[i]);
    }
    return 2 * sqrt(fmin(plus, minus));
}

static void a_symmetric_body_moves_as_the_closed_form(void **state) {
    (void)state;
    oracle o = oracle_open(PHYSICS "torque_free_symmetric.json");
    double w[3], want[3], tolerance, end = oracle_setup(&o, "end_time_s");
    double I1 = oracle_setup(&o, "I1_kg_m2"), I3 = oracle_setup(&o, "I3_kg_m2");
    const qpc_rigid_body body = {2, {I1, I1, I3}};
    oracle_setup_list(&o, "omega0_rad_s", w, 3);
    qpc_rigid_state start = turning(v3_load(w)), s = start;
    for (int i = 0; i < 200; i++) drift(&body, end / 200, &s);
    oracle_result(&o, "angular velocity in the body frame", want, 3, &tolerance);
    qpc_vec3 own = own_rate(&s);
    assert_near(own.x, want[0], 1e-12);
    assert_near(own.y, want[1], 1e-12);
    assert_near(own.z, want[2], 1e-12);
    oracle_result(&o, "rate at which", want, 1, &tolerance);
    assert_near(remainder(atan2(own.y, own.x) - want[0] * end, 2 * PI), 0, 1e-12);
    oracle_result(&o, "precession rate", want, 1, &tolerance);
    assert_near(v3_norm(qpc_rigid_inertia_times(&body, s.q, s.w)) / I1, want[0], 1e-13);
    double q[4];
    symmetric_motion(&body, &start, end, q);
    assert_near(turned(q, s.q), 0, 1e-13);
    qpc_vec3 x = v3_madd(start.x, end, start.v);
    assert_near(v3_norm(v3_sub(x, s.x)), 0, 1e-13);
    oracle_close(&o);
}

static void one_long_step_is_as_good_as_many(void **state) {
    (void)state;
    // From a needle to a disc, and steps up to a hundred turns.
    const double moments[4][3] = {{1, 1, 1}, {1e-6, 1, 1}, {1, 1, 1.999}, {3, 3, 1}};
    for (int k = 0; k < 4; k++) {
        const qpc_rigid_body body = {1, {moments[k][0], moments[k][1], moments[k][2]}};
        const qpc_rigid_body swapped = {1, {moments[k][1], moments[k][2], moments[k][0]}};
        const qpc_rigid_body *use = k == 1 ? &swapped : &body;
        for (double h = 1e-4; h < 101; h *= 10) {
            qpc_rigid_state start = turning(v3(2, -1, k == 1 ? 0.1 : 6)), s = start;
            // Phases add rounding up; the spin of a needle is L along it, rounded with L, over its
            // moment.
            double q[4], most = 1e-14 * (1 + 30 * h) * (k == 1 ? 1e5 : 1);
            drift(use, h, &s);
            symmetric_motion(use, &start, h, q);
            assert_near(turned(q, s.q), 0, most);
            drift(use, -h, &s); // and back
            assert_near(turned(start.q, s.q), 0, most);
        }
    }
}

static void a_tumbling_body_agrees_with_runge_kutta(void **state) {
    (void)state;
    const qpc_rigid_body body = {1, {0.4, 0.9, 1.1}};
    qpc_rigid_state s = turning(v3(3, 1, -2));
    qpc_vec3 L = qpc_rigid_inertia_times(&body, s.q, s.w);
    double y[4];
    memcpy(y, s.q, sizeof y);
    const double h = 2e-4; // error of order 4: about (4 h)^4/100
    for (int i = 0; i < 10000; i++) {
        double slope[4][4], at[4];
        for (int k = 0; k < 4; k++) {
            double part = k == 0 ? 0 : k == 3 ? h : h / 2;
            for (int j = 0; j < 4; j++) at[j] = y[j] + (k > 0 ? part * slope[k - 1][j] : 0);
            double n = sqrt(at[0] * at[0] + at[1] * at[1] + at[2] * at[2] + at[3] * at[3]);
            double unit[4] = {at[0] / n, at[1] / n, at[2] / n, at[3] / n};
            qpc_vec3 w = qpc_rigid_inertia_solve(&body, unit, L);
            const double rate[4] = {0, 0.5 * w.x, 0.5 * w.y, 0.5 * w.z};
            qpc_quat_multiply(rate, at, slope[k]);
        }
        for (int j = 0; j < 4; j++)
            y[j] += h / 6 * (slope[0][j] + 2 * slope[1][j] + 2 * slope[2][j] + slope[3][j]);
    }
    for (int i = 0; i < 200; i++) drift(&body, 0.01, &s);
    assert_near(turned(y, s.q), 0, 1e-11);
}

// ---- forces ----

typedef struct hung { // a body about a fixed pivot: weight at `arm` along its own axes
    qpc_vec3 arm, weight;
} hung;

static void weigh(void *context, const qpc_rigid_state *s, qpc_vec3 *force, qpc_vec3 *torque) {
    const hung *h = context;
    *force = v3(0, 0, 0);
    *torque = v3_cross(v3_rotate(s->q, h->arm), h->weight);
}

static void step(const qpc_rigid_body *body, double h, const hung *load, qpc_rigid_state *s) {
    qpc_error err = {0};
    hung copy = *load;
    assert_ok(qpc_rigid_step(body, h, weigh, &copy, s, &err), &err);
}

typedef struct top {
    qpc_rigid_body body;
    hung load;
    double tilt, spin;
} top;

static top read_top(const oracle *o) {
    double m = oracle_setup(o, "mass_kg"), R = oracle_setup(o, "disc_radius_m");
    double l = oracle_setup(o, "pivot_to_centre_m"), g = oracle_setup(o, "gravity_m_s2");
    double I1 = m * R * R / 4 + m * l * l, I3 = m * R * R / 2;
    return (top){{m, {I1, I1, I3}},
                 {v3(0, 0, l), v3(0, 0, -m * g)},
                 oracle_setup(o, "tilt_deg") * PI / 180,
                 oracle_setup(o, "omega3_rad_s")};
}

/// Steady precession at `rate` about z: w = rate z + (spin - rate cos) axis.
static qpc_rigid_state start_top(const top *t, double rate) {
    qpc_rigid_state s = {.q = {cos(t->tilt / 2), 0, sin(t->tilt / 2), 0}};
    qpc_vec3 axis = v3_rotate(s.q, v3(0, 0, 1));
    s.w = v3_madd(v3(0, 0, rate), t->spin - rate * cos(t->tilt), axis);
    return s;
}

static void a_heavy_top_precesses_and_its_error_is_of_second_order(void **state) {
    (void)state;
    oracle o = oracle_open(PHYSICS "spinning_top.json");
    top t = read_top(&o);
    const char *names[] = {"slow steady", "fast steady"};
    for (int k = 0; k < 2; k++) {
        double rate, tolerance, tilt_tolerance, tilt, error[3], tilts[3];
        oracle_result(&o, names[k], &rate, 1, &tolerance);
        oracle_result(&o, "tilt after 1 s", &tilt, 1, &tilt_tolerance);
        for (int r = 0; r < 3; r++) {
            int count = 500 << r;
            qpc_rigid_state s = start_top(&t, rate);
            double angle = 0, before = 0;
            tilts[r] = 0;
            for (int i = 0; i < count; i++) {
                step(&t.body, 1.0 / count, &t.load, &s);
                qpc_vec3 axis = v3_rotate(s.q, v3(0, 0, 1));
                double now = atan2(axis.y, axis.x);
                angle += remainder(now - before, 2 * PI);
                before = now;
                tilts[r] = fmax(tilts[r], fabs(acos(axis.z) - t.tilt) * 180 / PI);
            }
            error[r] = fabs(angle - rate);
            if (k == 0)
                assert_near(acos(v3_rotate(s.q, v3(0, 0, 1)).z) * 180 / PI, tilt, tilt_tolerance);
        }
        assert_near(error[0], 0, tolerance);
        assert_near(tilts[0] / tilts[1], 4, 0.2);
        assert_near(tilts[1] / tilts[2], 4, 0.2);
    }
    oracle_close(&o);
}

static void the_energy_of_a_swinging_top_stays_within_bounds(void **state) {
    (void)state;
    oracle o = oracle_open(PHYSICS "spinning_top.json");
    top t = read_top(&o);
    t.spin = 60; // slow: it nods
    const double h = 0.001;
    qpc_rigid_state s = start_top(&t, 0);
    double E0 = 0, widest[2] = {0}, least = 1;
    for (int i = 0; i <= 20000; i++) {
        qpc_vec3 arm = v3_rotate(s.q, t.load.arm);
        double E = qpc_rigid_energy(&t.body, &s) - v3_dot(arm, t.load.weight);
        if (i == 0) E0 = E;
        if (i <= 2000) widest[0] = fmax(widest[0], fabs(E / E0 - 1));
        if (i >= 18000) widest[1] = fmax(widest[1], fabs(E / E0 - 1));
        least = fmin(least, v3_rotate(s.q, v3(0, 0, 1)).z);
        step(&t.body, h, &t.load, &s);
    }
    assert_true(least < 0.2);                 // of cos 30 degrees: it does nod
    assert_true(widest[0] < 1e-5);            // second order in h
    assert_true(widest[1] < 1.1 * widest[0]); // and no drift
    oracle_close(&o);
}

static void an_upright_top_sleeps_above_its_least_spin(void **state) {
    (void)state;
    oracle o = oracle_open(PHYSICS "spinning_top.json");
    top t = read_top(&o);
    double least, tolerance, widest[2];
    oracle_result(&o, "least spin", &least, 1, &tolerance);
    for (int k = 0; k < 2; k++) {
        t.tilt = 1e-4;
        t.spin = least + (k ? tolerance : -tolerance);
        qpc_rigid_state s = start_top(&t, 0);
        widest[k] = 0;
        for (int i = 0; i < 4000; i++) {
            step(&t.body, 0.001, &t.load, &s);
            qpc_vec3 axis = v3_rotate(s.q, v3(0, 0, 1));
            widest[k] = fmax(widest[k], hypot(axis.x, axis.y));
        }
    }
    assert_true(widest[0] > 0.1);  // falls over
    assert_true(widest[1] < 2e-3); // wobbles about upright
    oracle_close(&o);
}

/// A rod of moment I across it, so thin that it has nearly none along it (x).
static qpc_rigid_body thin_rod(double mass, double length) {
    double across = mass * length * length / 12;
    return (qpc_rigid_body){mass, {1e-12 * across, across, across}};
}

static void a_rod_swings_with_the_period_of_the_closed_form(void **state) {
    (void)state;
    oracle o = oracle_open(PHYSICS "physical_pendulum_rod.json");
    double m = oracle_setup(&o, "mass_kg"), L = oracle_setup(&o, "length_m");
    double g = oracle_setup(&o, "gravity_m_s2"), a = oracle_setup(&o, "angle0_deg") * PI / 180;
    double period, tolerance, want, error[2];
    oracle_result(&o, "period", &period, 1, &tolerance);
    const double I = m * L * L / 3;
    const qpc_rigid_body body = {m, {1e-6 * I, I, I}};
    const hung load = {v3(0.5 * L, 0, 0), v3(0, 0, -m * g)};
    for (int r = 0; r < 2; r++) {
        double h = r ? 0.0025 : 0.005, fastest = 0, at = -1, before = 0;
        double down = PI / 2 - a; // x axis turned down by this, about y
        qpc_rigid_state s = {.q = {cos(down / 2), 0, sin(down / 2), 0}};
        int crossings = 0;
        double first = 0;
        for (int i = 0; i < (int)(6 * period / h); i++) {
            step(&body, h, &load, &s);
            qpc_vec3 axis = v3_rotate(s.q, v3(1, 0, 0));
            fastest = fmax(fastest, fabs(s.w.y));
            if (i > 0 && axis.x * before < 0) {
                at = (i + 1) * h - h * axis.x / (axis.x - before);
                if (crossings++ == 0) first = at;
            }
            before = axis.x;
        }
        error[r] = fabs(2 * (at - first) / (crossings - 1) - period);
        assert_near(error[r], 0, tolerance);
        oracle_result(&o, "hinge force at the bottom", &want, 1, &tolerance);
        assert_near(m * g + m * fastest * fastest * L / 2, want, tolerance);
    }
    assert_near(error[0] / error[1], 4, 0.4);
    oracle_close(&o);
}

/// Impulses f that give points of a body the changes of velocity `rise` along n_k at r_k (k of
/// them, at most 3), by the response of each row to each impulse.
static void impulses(const qpc_rigid_body *body, const qpc_rigid_state *s, int count,
                     const qpc_vec3 *n, const qpc_vec3 *r, const double *rise, double *f) {
    double A[3][4];
    for (int j = 0; j < count; j++) {
        qpc_rigid_state still = {.q = {s->q[0], s->q[1], s->q[2], s->q[3]}};
        qpc_rigid_kick(body, n[j], v3_cross(r[j], n[j]), &still);
        for (int i = 0; i < count; i++) {
            double row[6];
            qpc_rigid_point_row(n[i], r[i], row);
            A[i][j] = v3_dot(v3_load(row), still.v) + v3_dot(v3_load(row + 3), still.w);
        }
        assert_near(qpc_rigid_mobility(body, s->q, n[j], r[j]), A[j][j], 1e-12 * A[j][j]);
    }
    for (int i = 0; i < count; i++) A[i][count] = rise[i];
    for (int p = 0; p < count; p++) // symmetric and positive definite: no pivoting
        for (int i = 0; i < count; i++)
            for (int j = count; i != p && j >= p; j--) A[i][j] -= A[i][p] / A[p][p] * A[p][j];
    for (int i = 0; i < count; i++) f[i] = A[i][count] / A[i][i];
}

static void the_hinge_holds_a_rod_at_release(void **state) {
    (void)state;
    oracle o = oracle_open(PHYSICS "physical_pendulum_rod.json");
    double L = oracle_setup(&o, "length_m"), g = oracle_setup(&o, "gravity_m_s2");
    double a = oracle_setup(&o, "angle0_deg") * PI / 180, want[2], tolerance, f[2];
    const qpc_rigid_body body = thin_rod(oracle_setup(&o, "mass_kg"), L);
    double down = PI / 2 - a;
    const qpc_rigid_state s = {.q = {cos(down / 2), 0, sin(down / 2), 0}};
    qpc_vec3 hinge = v3_rotate(s.q, v3(-0.5 * L, 0, 0));
    const qpc_vec3 n[2] = {v3(1, 0, 0), v3(0, 0, 1)}, r[2] = {hinge, hinge};
    impulses(&body, &s, 2, n, r, (const double[2]){0, g}, f); // per second
    oracle_result(&o, "hinge force at release", want, 2, &tolerance);
    assert_near(fabs(f[0]), fabs(want[0]), 1e-9); // the sign of x is the side it hangs to
    assert_near(f[1], want[1], 1e-9);
    oracle_close(&o);
}

// ---- impacts ----

/// A body falls with points at arms r on the ground; every one leaves with its restitution.
static void land(const qpc_rigid_body *body, qpc_rigid_state *s, int count, const qpc_vec3 *r,
                 const double *eps, double *f) {
    qpc_vec3 up[3] = {v3(0, 0, 1), v3(0, 0, 1), v3(0, 0, 1)};
    double rise[3] = {0};
    for (int k = 0; k < count; k++) rise[k] = -(1 + eps[k]) * v3_add(s->v, v3_cross(s->w, r[k])).z;
    impulses(body, s, count, up, r, rise, f);
    for (int k = 0; k < count; k++)
        qpc_rigid_kick(body, v3(0, 0, f[k]), v3_cross(r[k], v3(0, 0, f[k])), s);
}

static void rods_and_boxes_bounce_as_computed_by_hand(void **state) {
    (void)state;
    const char *files[] = {PHYSICS "rod_flat.json", PHYSICS "rod_flat_two_restitutions.json",
                           PHYSICS "rod_tilted.json"};
    for (int k = 0; k < 3; k++) {
        oracle o = oracle_open(files[k]);
        double length = oracle_setup(&o, "length_m"),
               tilt = oracle_setup(&o, "tilt_deg") * PI / 180;
        double eps[2], f[2], want[2], tolerance;
        int count = oracle_setup_list(&o, "restitution", eps, 2);
        const qpc_rigid_body rod = thin_rod(oracle_setup(&o, "mass_kg"), length);
        qpc_rigid_state s = {.q = {cos(tilt / 2), 0, sin(tilt / 2), 0},
                             .v = v3(0, 0, -oracle_setup(&o, "v_down_m_s")),
                             .w = v3(0, oracle_setup(&o, "omega_y_rad_s"), 0)};
        qpc_vec3 end = v3_rotate(s.q, v3(0.5 * length, 0, 0));
        qpc_vec3 r[2] = {count == 2 ? v3_neg(end) : end, end};
        land(&rod, &s, count, r, eps, f);
        oracle_result(&o, count == 2 ? "impulses" : "impulse", want, 2, &tolerance);
        for (int i = 0; i < count; i++) assert_near(f[i], want[i], tolerance);
        oracle_result(&o, "centre velocity", want, 1, &tolerance);
        assert_near(s.v.z, want[0], tolerance);
        oracle_result(&o, "angular velocity", want, 1, &tolerance);
        assert_near(s.w.y, want[0], fmax(tolerance, 1e-11));
        oracle_close(&o);
    }
    oracle o = oracle_open(PHYSICS "box_edge_landing.json");
    double size[3], f[2], want[3], tolerance, tilt = oracle_setup(&o, "tilt_deg") * PI / 180;
    double e = oracle_setup(&o, "restitution");
    qpc_inertia inertia;
    qpc_error err = {0};
    oracle_setup_list(&o, "size_xyz_m", size, 3);
    assert_ok(qpc_inertia_of_box(v3_load(size), 1, &inertia, &err), &err);
    assert_ok(qpc_inertia_set_mass(&inertia, oracle_setup(&o, "mass_kg"), &err), &err);
    qpc_rigid_body box = {inertia.mass, {inertia.moment[0], inertia.moment[1], inertia.moment[2]}};
    qpc_rigid_state s = {.q = {cos(tilt / 2), 0, sin(tilt / 2), 0},
                         .v = v3(0, 0, -oracle_setup(&o, "v_down_m_s"))};
    const qpc_vec3 r[2] = {v3_rotate(s.q, v3(0.5 * size[0], -0.5 * size[1], -0.5 * size[2])),
                           v3_rotate(s.q, v3(0.5 * size[0], 0.5 * size[1], -0.5 * size[2]))};
    land(&box, &s, 2, r, (const double[2]){e, e}, f);
    oracle_result(&o, "impulse of each corner", want, 2, &tolerance);
    assert_near(f[0], want[0], tolerance);
    assert_near(f[1], want[1], tolerance);
    oracle_result(&o, "angular velocity after", want, 3, &tolerance);
    assert_near(s.w.x, want[0], tolerance);
    assert_near(s.w.y, want[1], tolerance);
    assert_near(s.w.z, want[2], tolerance);
    oracle_close(&o);
}

static void a_sphere_rolls_down_a_slope(void **state) {
    (void)state;
    oracle o = oracle_open(PHYSICS "sphere_rolling.json");
    double R = oracle_setup(&o, "radius_m"), m = oracle_setup(&o, "mass_kg");
    double tilt = oracle_setup(&o, "tilt_deg") * PI / 180, g = oracle_setup(&o, "gravity_m_s2");
    double dt = oracle_setup(&o, "dt_s"), want[3], tolerance, f[2] = {0}, distance = 0;
    double I = 0.4 * m * R * R;
    const qpc_rigid_body ball = {m, {I, I, I}};
    qpc_rigid_state s = {.q = {1, 0, 0, 0}};
    qpc_vec3 n = v3(-sin(tilt), 0, cos(tilt)), t = v3(-cos(tilt), 0, -sin(tilt)); // t: downhill
    n = v3(-sin(tilt), 0, cos(tilt));
    const qpc_vec3 along[2] = {n, t}, r[2] = {v3_scale(-R, n), v3_scale(-R, n)};
    int steps = (int)oracle_setup(&o, "steps");
    for (int i = 0; i < steps; i++) {
        qpc_rigid_kick(&ball, v3(0, 0, -dt * m * g), v3(0, 0, 0), &s);
        double rise[2];
        for (int k = 0; k < 2; k++) rise[k] = -v3_dot(along[k], v3_add(s.v, v3_cross(s.w, r[k])));
        impulses(&ball, &s, 2, along, r, rise, f);
        for (int k = 0; k < 2; k++)
            qpc_rigid_kick(&ball, v3_scale(f[k], along[k]),
                           v3_cross(r[k], v3_scale(f[k], along[k])), &s);
        drift(&ball, dt, &s);
    }
    distance = v3_dot(s.x, t);
    oracle_result(&o, "acceleration", want, 3, &tolerance);
    assert_near(v3_dot(s.v, t) / (steps * dt), want[0], 1e-11);
    assert_near(v3_norm(s.w) / (steps * dt), want[1], 1e-10);
    assert_near(-f[1] / dt, want[2], 1e-10);
    oracle_result(&o, "least mu", want, 1, &tolerance);
    assert_near(-f[1] / f[0], want[0], 1e-11);
    oracle_result(&o, "distance", want, 1, &tolerance);
    assert_near(distance, want[0], 1e-11);
    oracle_close(&o);
}

// ---- frames, refusals ----

static void motion_does_not_depend_on_the_frame(void **state) {
    (void)state;
    oracle o = oracle_open(PHYSICS "spinning_top.json");
    top t = read_top(&o), t2 = t;
    double turn[4] = {0.3, -0.8, 0.4, 0.35};
    assert_true(qpc_quat_normalise(turn));
    qpc_rigid_state a = start_top(&t, 30), b = a;
    a.v = v3(1, -2, 3);
    b.x = v3(1000, -1000, 1000);
    b.v = v3_rotate(turn, a.v);
    b.w = v3_rotate(turn, a.w);
    qpc_quat_multiply(turn, a.q, b.q);
    t2.load.weight = v3_rotate(turn, t.load.weight);
    for (int i = 0; i < 1000; i++) {
        step(&t.body, 0.001, &t.load, &a);
        step(&t2.body, 0.001, &t2.load, &b);
    }
    double q[4];
    qpc_quat_multiply(turn, a.q, q);
    assert_near(turned(q, b.q), 0, 1e-11);
    assert_near(v3_norm(v3_sub(b.w, v3_rotate(turn, a.w))) / v3_norm(a.w), 0, 1e-11);
    qpc_vec3 x = v3_add(v3(1000, -1000, 1000), v3_rotate(turn, a.x));
    assert_near(v3_norm(v3_sub(x, b.x)), 0, 1e-9); // 1,000 roundings of 1 km: 1e-13 each
    oracle_close(&o);
}

static void motion_scales_with_its_units(void **state) {
    (void)state;
    // Powers of two change no bit: lengths by 1024, masses by 64, times by 4.
    const qpc_rigid_body small = {1, {0.5, 0.7, 0.9}};
    const double I = 64.0 * 1024 * 1024;
    const qpc_rigid_body large = {64, {0.5 * I, 0.7 * I, 0.9 * I}};
    qpc_rigid_state a = turning(v3(1, 2, 3)), b = a;
    b.x = v3_scale(1024, a.x);
    b.v = v3_scale(256, a.v);
    b.w = v3_scale(0.25, a.w);
    for (int i = 0; i < 100; i++) {
        drift(&small, 0.01, &a);
        drift(&large, 0.04, &b);
    }
    assert_memory_equal(a.q, b.q, sizeof a.q);
    assert_near(b.x.x, 1024 * a.x.x, 0);
    assert_near(b.w.y, 0.25 * a.w.y, 0);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_rigid_body body = {1, {1, 2, 2}};
    qpc_rigid_state s = turning(v3(1, 2, 3)), kept;
    s.q[0] *= 3, s.q[1] *= 3, s.q[2] *= 3, s.q[3] *= 3;
    assert_ok(qpc_rigid_check(&body, &s, &err), &err);
    assert_near(turned(s.q, turning(v3(1, 2, 3)).q), 0, 1e-15);
    kept = s;
    body.moment[1] = 0;
    assert_fails(qpc_rigid_check(&body, &s, &err), QPC_ERR_INVALID, &err, "moment of inertia 1");
    body.moment[1] = 2;
    body.mass = NAN;
    assert_fails(qpc_rigid_check(&body, &s, &err), QPC_ERR_INVALID, &err, "mass");
    body.mass = 1;
    memset(s.q, 0, sizeof s.q);
    assert_fails(qpc_rigid_check(&body, &s, &err), QPC_ERR_INVALID, &err, "quaternion");
    s = kept;
    s.w.z = NAN;
    assert_fails(qpc_rigid_check(&body, &s, &err), QPC_ERR_INVALID, &err, "not finite");
    assert_fails(qpc_rigid_drift(&body, 0.01, &s, &err), QPC_ERR_NUMERIC, &err, "not finite");
    s = kept;
    s.w = v3_scale(1e9, kept.w);
    qpc_rigid_state fast = s;
    assert_fails(qpc_rigid_drift(&body, 1, &s, &err), QPC_ERR_NUMERIC, &err, "too fast");
    assert_memory_equal(&s, &fast, sizeof s);
    s.w = v3(0, 0, 0);
    drift(&body, 10, &s);
    assert_memory_equal(s.q, kept.q, sizeof s.q); // a body that does not turn keeps every bit
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_middle_axis_flips_in_time_for_100_s),
        cmocka_unit_test(a_symmetric_body_moves_as_the_closed_form),
        cmocka_unit_test(one_long_step_is_as_good_as_many),
        cmocka_unit_test(a_tumbling_body_agrees_with_runge_kutta),
        cmocka_unit_test(a_heavy_top_precesses_and_its_error_is_of_second_order),
        cmocka_unit_test(the_energy_of_a_swinging_top_stays_within_bounds),
        cmocka_unit_test(an_upright_top_sleeps_above_its_least_spin),
        cmocka_unit_test(a_rod_swings_with_the_period_of_the_closed_form),
        cmocka_unit_test(the_hinge_holds_a_rod_at_release),
        cmocka_unit_test(rods_and_boxes_bounce_as_computed_by_hand),
        cmocka_unit_test(a_sphere_rolls_down_a_slope),
        cmocka_unit_test(motion_does_not_depend_on_the_frame),
        cmocka_unit_test(motion_scales_with_its_units),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
