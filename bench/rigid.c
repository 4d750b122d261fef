/// Free motion of a rigid body by three methods, and a heavy top: a study of dt.
///
///     bench_rigid COMMIT > bench/results/rigid.csv
///
/// flip: 100 s of a body that turns over about its middle axis (I = 1, 2, 3; 4 rad/s): largest
/// error of energy and of angular momentum (relative), of the first flip and of the period (s).
/// Methods: series (the engine's, TR6), splitting (rotations about three axes, Strang), midpoint
/// (implicit, on the momentum along body axes, Newton to rounding). top: 1 s of a top's slow
/// precession by TR10; energy: largest nutation, rad; period: error of the angle turned, rad. ns:
/// thread CPU time a step.
#include "engine/dynamics/rigid.h"

#include "bench/machine.h"
#include "bench/timing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct integrator {
    const char *name;
    void (*drift)(const qpc_rigid_body *body, double h, qpc_rigid_state *s);
} integrator;

static void series(const qpc_rigid_body *body, double h, qpc_rigid_state *s) {
    qpc_error err = {0};
    if (qpc_rigid_drift(body, h, s, &err) == QPC_OK) return;
    fprintf(stderr, "%s\n", err.message);
    exit(1);
}

/// What the other two change: the momentum along body axes and the orientation.
static void take(const qpc_rigid_body *body, const qpc_rigid_state *s, double m[3]) {
    v3_store(m, qpc_quat_unrotate(s->q, s->w));
    for (int i = 0; i < 3; i++) m[i] *= body->moment[i];
}

static void give(const qpc_rigid_body *body, const double m[3], qpc_rigid_state *s) {
    qpc_quat_normalise(s->q);
    s->w =
        v3_rotate(s->q, v3(m[0] / body->moment[0], m[1] / body->moment[1], m[2] / body->moment[2]));
}

static void about_axis(const qpc_rigid_body *body, int i, double h, double m[3], double q[4]) {
    double angle = h * m[i] / body->moment[i], c = cos(angle), s = sin(angle);
    int j = (i + 1) % 3, k = (i + 2) % 3;
    double mj = c * m[j] + s * m[k], mk = c * m[k] - s * m[j];
    m[j] = mj;
    m[k] = mk;
    double p[4] = {cos(angle / 2), 0, 0, 0};
    p[1 + i] = sin(angle / 2);
    qpc_quat_multiply(q, p, q);
}

static void splitting(const qpc_rigid_body *body, double h, qpc_rigid_state *s) {
    double m[3];
    take(body, s, m);
    about_axis(body, 0, h / 2, m, s->q);
    about_axis(body, 1, h / 2, m, s->q);
    about_axis(body, 2, h, m, s->q);
    about_axis(body, 1, h / 2, m, s->q);
    about_axis(body, 0, h / 2, m, s->q);
    give(body, m, s);
}

static qpc_vec3 solve3(qpc_vec3 a, qpc_vec3 b, qpc_vec3 c, qpc_vec3 rhs) { // columns a, b, c
    double d = v3_dot(a, v3_cross(b, c));
    return v3(v3_dot(rhs, v3_cross(b, c)) / d, v3_dot(a, v3_cross(rhs, c)) / d,
              v3_dot(a, v3_cross(b, rhs)) / d);
}

static void midpoint(const qpc_rigid_body *body, double h, qpc_rigid_state *s) {
    double start[3];
    const double *I = body->moment;
    take(body, s, start);
    qpc_vec3 m0 = v3_load(start), mean = m0, W = v3(0, 0, 0);
    for (int k = 0; k < 20; k++) { // mean = m0 + h/2 mean x W(mean)
        W = v3(mean.x / I[0], mean.y / I[1], mean.z / I[2]);
        qpc_vec3 r = v3_sub(v3_madd(m0, h / 2, v3_cross(mean, W)), mean), column[3];
        for (int i = 0; i < 3; i++) {
            qpc_vec3 e = v3(i == 0, i == 1, i == 2);
            qpc_vec3 change = v3_add(v3_cross(e, W), v3_scale(1 / I[i], v3_cross(mean, e)));
            column[i] = v3_madd(e, -h / 2, change);
        }
        qpc_vec3 d = solve3(column[0], column[1], column[2], r);
        mean = v3_add(mean, d);
        if (v3_norm(d) <= 1e-15 * v3_norm(mean)) break;
    }
    W = v3(mean.x / I[0], mean.y / I[1], mean.z / I[2]);
    double p[4] = {1, h / 2 * W.x, h / 2 * W.y, h / 2 * W.z}, m[3];
    qpc_quat_multiply(s->q, p, s->q);
    v3_store(m, v3_sub(v3_scale(2, mean), m0));
    give(body, m, s);
}

static double middle_rate(const qpc_rigid_state *s) {
    return qpc_quat_unrotate(s->q, s->w).y;
}

static void flip(const integrator *method, double h, const char *commit, const char *cpu) {
    const qpc_rigid_body body = {1, {1, 2, 3}};
    const double flip_at = 3.008713681301547, period = 10.556831804092111;
    qpc_rigid_state s = {.q = {1, 0, 0, 0}, .w = v3(0.05, 4, 0.02)};
    qpc_vec3 L0 = qpc_rigid_inertia_times(&body, s.q, s.w);
    double E0 = qpc_rigid_energy(&body, &s), energy = 0, momentum = 0, first = 0, last = 0,
           spent = 0;
    int count = (int)(100 / h + 0.5), flips = 0;
    for (int i = 0; i < count;) {
        qpc_rigid_state kept[16];
        int batch = 0;
        double t = bench_ms(CLOCK_THREAD_CPUTIME_ID);
        for (kept[0] = s; batch < 15 && i + batch < count; batch++) {
            method->drift(&body, h, &s);
            kept[batch + 1] = s;
        }
        spent += bench_ms(CLOCK_THREAD_CPUTIME_ID) - t;
        for (int k = 0; k < batch; k++) {
            qpc_vec3 L = qpc_rigid_inertia_times(&body, kept[k + 1].q, kept[k + 1].w);
            energy = fmax(energy, fabs(qpc_rigid_energy(&body, &kept[k + 1]) / E0 - 1));
            momentum = fmax(momentum, v3_norm(v3_sub(L, L0)) / v3_norm(L0));
            if (middle_rate(&kept[k]) * middle_rate(&kept[k + 1]) > 0) continue;
            double low = 0, high = h; // within the step by shorter steps
            for (int n = 0; n < 50; n++) {
                qpc_rigid_state at = kept[k];
                method->drift(&body, (low + high) / 2, &at);
                *(middle_rate(&at) * middle_rate(&kept[k]) > 0 ? &low : &high) = (low + high) / 2;
            }
            last = (i + k) * h + low;
            if (flips++ == 0) first = last;
        }
        i += batch;
    }
    printf("%s,%s,%s,flip,%s,%g,%.2e,%.2e,%.2e,%.2e,%.0f\n", cpu, bench_compiler(), commit,
           method->name, h, energy, momentum, fabs(first - flip_at),
           fabs(2 * (last - first) / (flips - 1) - period), spent * 1e6 / count);
}

static void weigh(void *context, const qpc_rigid_state *s, qpc_vec3 *force, qpc_vec3 *torque) {
    (void)context;
    *force = v3(0, 0, 0);
    *torque = v3_cross(v3_rotate(s->q, v3(0, 0, 0.06)), v3(0, 0, -0.5 * 9.81));
}

static void top(double h, const char *commit, const char *cpu) {
    const double rate = 2.441654050501063, tilt = 3.14159265358979323846 / 6;
    const double I1 = 0.5 * (0.05 * 0.05 / 4 + 0.06 * 0.06), I3 = 0.5 * 0.05 * 0.05 / 2;
    const qpc_rigid_body body = {0.5, {I1, I1, I3}};
    qpc_rigid_state s = {.q = {cos(tilt / 2), 0, sin(tilt / 2), 0}};
    s.w = v3_madd(v3(0, 0, rate), 200 - rate * cos(tilt), v3_rotate(s.q, v3(0, 0, 1)));
    int count = (int)(1 / h + 0.5);
    double nutation = 0, angle = 0, before = 0, t = bench_ms(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < count; i++) {
        qpc_error err = {0};
        if (qpc_rigid_step(&body, h, weigh, NULL, &s, &err) != QPC_OK) exit(1);
        qpc_vec3 axis = v3_rotate(s.q, v3(0, 0, 1));
        nutation = fmax(nutation, fabs(acos(axis.z) - tilt));
        angle += remainder(atan2(axis.y, axis.x) - before, 2 * 3.14159265358979323846);
        before = atan2(axis.y, axis.x);
    }
    t = bench_ms(CLOCK_THREAD_CPUTIME_ID) - t;
    printf("%s,%s,%s,top,series,%g,%.2e,,,%.2e,%.0f\n", cpu, bench_compiler(), commit, h, nutation,
           fabs(angle - rate), t * 1e6 / count);
}

int main(int argc, char **argv) {
    static const integrator methods[] = {
        {"series", series}, {"splitting", splitting}, {"midpoint", midpoint}};
    static const double steps[] = {0.001, 0.002, 0.005, 0.01, 0.1};
    char cpu[128];
    bench_cpu(cpu, sizeof cpu);
    if (argc != 2) return fprintf(stderr, "usage: bench_rigid COMMIT\n"), 2;
    printf("cpu,compiler,commit,scene,method,dt_s,energy,momentum,flip_s,period_s,ns\n");
    for (int m = 0; m < 3; m++)
        for (int k = 0; k < 5; k++) flip(&methods[m], steps[k], argv[1], cpu);
    for (double h = 0.004; h > 2e-4; h /= 2) top(h, argv[1], cpu);
    return 0;
}
