/// A cable over a round obstacle against the closed form of bars that touch it at their middles (T53): it holds and slips at the
/// ratio of the polygon, not at e^(mu theta).
#include "tests/unit/world/support.h"

#include <math.h>
#include <stdio.h>

static const double PI = 3.14159265358979323846, G = 10.0, STEP = 0.005;

/// Angles (rad) between a bar and what pulls at its ends where all bars touch at their middles, turn the force by phi and rub to
/// their limit, and the ratio of the pulls.
typedef struct bar {
    double slack, tight, ratio;
} bar;

/// cot(tight) - cot(slack) = 2 mu and slack + tight = phi; p is the product of the tangents.
static bar bar_of(double mu, double phi) {
    double T = tan(phi), a = T * T - 4.0 * mu * mu, b = T * T + 2.0, p = T * T / (b + sqrt(b * b - a * T * T));
    double sum = T * (1.0 - p), difference = 2.0 * mu * p, cone = atan(mu);
    double slack = atan((sum + difference) / 2.0), tight = atan((sum - difference) / 2.0);
    return (bar){slack, tight, cos(slack - cone) / cos(tight + cone)};
}

/// Half a turn of `bars` bars over a cylinder of 0.2 m, thickness 0.01 m, both ends hanging down: 1 kg, and `heavy` kg on the right.
static qpc_world *capstan(int bars, double mu, double slack, double heavy, int newton) {
    static char text[8192];
    double phi = PI / bars, corner = (0.205 + 1e-6) / cos(phi / 2.0);
    int at = snprintf(text, sizeof text, "{'dt':0.005,'gravity':[0,-10,0],'solver':{'newton':%d},'contacts':{'friction':%.17g},'bodies':[{'kind':'obstacle',"
                      "'shape':{'kind':'cylinder','radius':0.2,'length':1}},{'kind':'cable','radius':0.005,'stiffness':1e7,'mass':[1", newton, mu);
    for (int i = 0; i <= bars; i++) at += snprintf(text + at, sizeof text - (size_t)at, ",1e-6");
    at += snprintf(text + at, sizeof text - (size_t)at, ",%.17g],'nodes':[", heavy);
    for (int i = -1; i <= bars + 1; i++) {
        bool hangs = i < 0 || i > bars;
        double angle = slack + ((i < 0 ? 0 : i > bars ? bars : i) - 0.5) * phi; // of the corner before the i-th point that touches
        at += snprintf(text + at, sizeof text - (size_t)at, "%s[%.17g,%.17g,0]", i < 0 ? "" : ",", -corner * cos(angle),
                       corner * sin(angle) - (hangs ? 0.3 : 0.0));
    }
    (void)snprintf(text + at, sizeof text - (size_t)at, "]}]}");
    return world_made(text);
}

static double fall_of(const qpc_world *w) { // speed of the heavy end, m/s
    qpc_body_info cable = qpc_world_body(w, 1);
    return -qpc_world_velocities(w)[3 * (cable.first_node + cable.node_count - 1) + 1];
}

static void it_holds_and_slips_at_the_ratio_of_its_bars(void **state) {
    (void)state;
    static const struct { int bars; double mu; } cases[] = {{8, 0.3}, {16, 0.5}, {12, 1.0}};
    for (int k = 0; k < 3; k++) {
        double mu = cases[k].mu, phi = PI / cases[k].bars;
        bar of = bar_of(mu, phi);
        double ratio = pow(of.ratio, cases[k].bars), smooth = exp(mu * PI);
        assert_near(of.slack + of.tight, phi, 1e-12);
        assert_near(log(ratio / smooth), -mu * PI * (1.0 + mu * mu) * phi * phi / 6.0, 0.05 * log(smooth / ratio)); // second order
        for (int side = -1; side <= 1; side += 2) {
            double heavy = ratio * (1.0 + 1e-3 * side);
            qpc_world *w = capstan(cases[k].bars, mu, of.slack, heavy, 10);
            qpc_step_report r;
            world_steps(w, side < 0 ? 350 : 60, &r); // what the start stretched is over, and what slid by that has stopped
            double v = fall_of(w);
            world_steps(w, 40, &r);
            double a = (fall_of(w) - v) / (40 * STEP);
            if (side < 0) assert_true(fabs(fall_of(w)) <= 1e-8 && r.sticking > 0);
            if (side > 0) assert_near(heavy * (G - a) / (G + a), ratio, 2e-4 * ratio); // the pulls on the legs
            qpc_world_destroy(w);
        }
    }
}

/// One linearisation a step. Edges that roll on the cylinder, every other one the other way, would shake more from step to step, and what is shaken creeps.
static void it_does_not_creep_by_one_linearisation(void **state) {
    (void)state;
    bar of = bar_of(0.3, PI / 25.0);
    qpc_world *w = capstan(25, 0.3, of.slack, 0.97 * pow(of.ratio, 25), 0);
    const qpc_body_info cable = qpc_world_body(w, 1);
    qpc_step_report r;
    world_steps(w, 200, &r);
    double y = qpc_world_positions(w)[3 * (cable.first_node + cable.node_count - 1) + 1];
    world_steps(w, 100, &r);
    assert_near(qpc_world_positions(w)[3 * (cable.first_node + cable.node_count - 1) + 1], y, 1e-7);
    qpc_world_destroy(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_holds_and_slips_at_the_ratio_of_its_bars),
        cmocka_unit_test(it_does_not_creep_by_one_linearisation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
