/// Detection of one simulated step, timed: the geometry of the demo scenes, the motion made up (the
/// cable runs along its own line and shakes), so that only detection is measured.
///
///     bench_detect [steps]
///
/// Prints medians per call and exact counts per step, one thread.
#include "engine/collision/detect.h"
#include "bench/timing.h"
#include "tests/support/generate.h"
#include "tests/support/surfaces.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/// Point at arc length l of the line of demo 1: up the left leg, over the half circle, down.
static qpc_vec3 on_line(double l, double leg, double radius) {
    double pi = acos(-1.0);
    if (l < leg) return v3(-radius, l - leg, 0);
    l -= leg;
    if (l < pi * radius) return v3(-radius * cos(l / radius), radius * sin(l / radius), 0);
    return v3(radius, -(l - pi * radius), 0);
}

static void run(const char *name, int n, double spacing, double radius, double speed, double shake,
                double dt, double driven, int steps) {
    generated g = {0};
    qpc_error err = {0};
    if (!generate_sheave(&g)) exit(1);
    qpc_mesh *mesh = generated_mesh(&g);
    int32_t mesh_nodes = g.x.count / 3, nodes = mesh_nodes + n;
    double *x0 = calloc((size_t)nodes, 3 * sizeof *x0), *x1 = calloc((size_t)nodes, 3 * sizeof *x1);
    double *rest = calloc((size_t)n, sizeof *rest);
    double *time[5];
    for (int i = 0; i < 5; i++) time[i] = calloc((size_t)steps, sizeof **time);
    memcpy(x0, g.x.data, (size_t)g.x.count * sizeof *x0);
    memcpy(x1, g.x.data, (size_t)g.x.count * sizeof *x1);
    for (int i = 0; i < n; i++) rest[i] = spacing;
    // 2 mm into the thickness where the cable lies in the groove: a chord's sagitta is 1.2 mm.
    double line = 1 + radius - 0.0005, length = (n - 1) * spacing;
    double leg = (length - acos(-1.0) * line) / 2 + 1;
    qpc_surface surface[2] = {
        {.motion = driven > 0 ? QPC_KINEMATIC : QPC_STATIC, .node_count = mesh_nodes, .mesh = mesh},
        {.motion = QPC_DYNAMIC,
         .first_node = mesh_nodes,
         .node_count = n,
         .rest_length = rest,
         .radius = radius,
         .self_exclusion = -1}};
    qpc_detector *det = NULL;
    qpc_contacts contacts = {0};
    double build = bench_ms(CLOCK_THREAD_CPUTIME_ID);
    int64_t rows = 0, hits = 0;
    for (int step = -20; step < steps; step++) {
        for (int k = 0; k < 2; k++) {
            double *x = k == 0 ? x0 : x1, t = (step + k) * dt;
            for (int i = 0; i < mesh_nodes && driven > 0; i++)
                x[3 * i + 1] = g.x.data[3 * i + 1] + driven * t; // pulley and cable go up
            for (int i = 0; i < n; i++) {
                qpc_vec3 p = on_line(i * spacing + speed * t, leg, line);
                // A little off the line, differently at each particle, at some 20 Hz.
                double a = shake * sin(0.7 * i + 120 * t), b = shake * cos(1.3 * i + 90 * t);
                v3_store(x + 3 * (mesh_nodes + i), v3(p.x + a, p.y + a + driven * t, p.z + b));
            }
        }
        if (det == NULL) {
            if (qpc_detector_create(surface, 2, x0, nodes, 1 << 22, &det, &err) != QPC_OK) {
                fprintf(stderr, "%s\n", err.message);
                exit(1);
            }
            printf("%s: detector built in %.2f ms\n", name,
                   bench_ms(CLOCK_THREAD_CPUTIME_ID) - build);
        }
        if (step == 0) qpc_detector_counts_reset(det);
        double t[6], gap;
        t[0] = bench_ms(CLOCK_THREAD_CPUTIME_ID);
        if (qpc_detect_proximity(det, x0, 1.25, &contacts, &err) != QPC_OK) exit(1);
        if (step >= 0) rows += contacts.count;
        t[1] = bench_ms(CLOCK_THREAD_CPUTIME_ID);
        if (qpc_detect_motion(det, x0, x1, 0.95, &contacts, &err) != QPC_OK) exit(1);
        t[2] = bench_ms(CLOCK_THREAD_CPUTIME_ID);
        if (qpc_detect_motion(det, x0, x1, 0.95, &contacts, &err) != QPC_OK) exit(1);
        if (step >= 0) hits += contacts.count;
        t[3] = bench_ms(CLOCK_THREAD_CPUTIME_ID);
        if (qpc_detect_motion(det, x0, x1, 0.3, &contacts, &err) != QPC_OK) exit(1);
        t[4] = bench_ms(CLOCK_THREAD_CPUTIME_ID);
        if (qpc_detect_minimum_gap(det, x1, &gap, &err) != QPC_OK) exit(1);
        t[5] = bench_ms(CLOCK_THREAD_CPUTIME_ID);
        for (int i = 0; i < 5 && step >= 0; i++) time[i][step] = t[i + 1] - t[i];
    }
    qpc_detect_counts c = qpc_detector_counts(det);
    double *all = calloc((size_t)steps, sizeof *all);
    for (int k = 0; k < steps; k++) all[k] = time[0][k] + time[1][k] + time[2][k] + time[3][k];
    printf("  us, median: proximity %.1f, pass %.1f, pass %.1f, acceptance %.1f, gap %.1f\n",
           1e3 * bench_quantile(time[0], steps, 0.5), 1e3 * bench_quantile(time[1], steps, 0.5),
           1e3 * bench_quantile(time[2], steps, 0.5), 1e3 * bench_quantile(time[3], steps, 0.5),
           1e3 * bench_quantile(time[4], steps, 0.5));
    printf("  detection of a step (the first four): median %.3f ms, p99 %.3f ms\n",
           bench_quantile(all, steps, 0.5), bench_quantile(all, steps, 0.99));
    printf("  per step: candidates %.0f, vt %.1f, ee %.1f, iterations %.1f, box tests %.0f, lists "
           "made %.2f, contacts %.1f, hits of the second pass %.1f\n",
           (double)c.candidates / steps, (double)c.vt_tests / steps, (double)c.ee_tests / steps,
           (double)c.ccd_iterations / steps, (double)c.box_tests / steps,
           (double)c.list_rebuilds / steps, (double)rows / steps, (double)hits / steps);
    qpc_detector_destroy(det);
    qpc_array_fini(&contacts);
    qpc_mesh_unref(mesh);
    generated_fini(&g);
    for (int i = 0; i < 5; i++) free(time[i]);
    free(all);
    free(x0);
    free(x1);
    free(rest);
}

/// A cable of 100 edges along a torus of 13,722 triangles that stands still: one motion of 2 to 4
/// mm, with no list at hand (the cable was elsewhere) and with the lists of the same motion before.
static void cable_along_torus(double radius, int steps) {
    enum { CABLE = 101 };
    surfaces_scene torus;
    qpc_error err = {0};
    if (!surfaces_torus(&torus)) exit(1);
    int32_t nodes = torus.nodes + CABLE;
    double *x[3], rest[CABLE - 1];
    for (int k = 0; k < 3; k++) {
        x[k] = calloc((size_t)nodes, 3 * sizeof **x);
        memcpy(x[k], torus.x0, 3 * (size_t)torus.nodes * sizeof **x);
    }
    double *at = x[0] + 3 * (int64_t)torus.nodes;
    surfaces_cable(at, x[1] + 3 * (int64_t)torus.nodes);
    for (int i = 0; i < 3 * CABLE; i++) x[2][3 * torus.nodes + i] = at[i] + 10;
    for (int i = 0; i < CABLE - 1; i++)
        rest[i] = v3_norm(v3_sub(v3_load(at + 3 * (i + 1)), v3_load(at + 3 * i)));
    qpc_surface surface[2] = {{.motion = QPC_STATIC, .node_count = torus.nodes, .mesh = torus.mesh},
                              {.motion = QPC_DYNAMIC,
                               .first_node = torus.nodes,
                               .node_count = CABLE,
                               .rest_length = rest,
                               .radius = radius,
                               .self_exclusion = -1}};
    qpc_detector *det = NULL;
    qpc_contacts hits = {0};
    double *cold = calloc((size_t)steps, sizeof *cold),
           *again = calloc((size_t)steps, sizeof *again);
    if (qpc_detector_create(surface, 2, x[0], nodes, 1 << 24, &det, &err) != QPC_OK) exit(1);
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < 3 * CABLE; i++) x[2][3 * torus.nodes + i] += 1; // nowhere it was before
        if (qpc_detect_motion(det, x[2], x[2], 0.95, &hits, &err) != QPC_OK) exit(1);
        qpc_detector_counts_reset(det);
        double begin = bench_ms(CLOCK_THREAD_CPUTIME_ID);
        if (qpc_detect_motion(det, x[0], x[1], 0.95, &hits, &err) != QPC_OK) exit(1);
        double middle = bench_ms(CLOCK_THREAD_CPUTIME_ID);
        if (qpc_detect_motion(det, x[0], x[1], 0.95, &hits, &err) != QPC_OK) exit(1);
        again[step] = bench_ms(CLOCK_THREAD_CPUTIME_ID) - middle;
        cold[step] = middle - begin;
    }
    qpc_detect_counts c = qpc_detector_counts(det);
    printf(
        "cable of 100 edges along 13,722 triangles, r %g mm: one motion %.1f us cold, %.1f us with "
        "lists; of two, %llu candidates, %llu tests, %llu lists, %d hits\n",
        1e3 * radius, 1e3 * bench_quantile(cold, steps, 0.5),
        1e3 * bench_quantile(again, steps, 0.5), (unsigned long long)c.candidates,
        (unsigned long long)(c.vt_tests + c.ee_tests), (unsigned long long)c.list_rebuilds,
        (int)hits.count);
    qpc_detector_destroy(det);
    qpc_array_fini(&hits);
    surfaces_scene_fini(&torus);
    for (int k = 0; k < 3; k++) free(x[k]);
    free(cold);
    free(again);
}

int main(int argc, char **argv) {
    int steps = argc > 1 ? atoi(argv[1]) : 400;
    if (steps < 1) return 2;
    cable_along_torus(0.001, steps);
    cable_along_torus(0.005, steps);
    run("pulley-1, dt 5 ms, 2 m/s", 100, 0.1, 0.03, 2, 0.001, 0.005, 0, steps);
    run("pulley-1, dt 1 ms, 2 m/s", 100, 0.1, 0.03, 2, 0.001, 0.001, 0, steps);
    run("pulley-1, dt 10 ms, 8 m/s", 100, 0.1, 0.03, 8, 0.001, 0.01, 0, steps);
    run("pulley of thin cable, 250 x 0.05, r 3 mm", 250, 0.05, 0.003, 2, 0.0002, 0.005, 0, steps);
    run("pulley-1 on a pulley driven at 1 m/s, dt 5 ms", 100, 0.1, 0.03, 2, 0.001, 0.005, 1, steps);
    run("cable of 1600 particles, r 10 mm", 1600, 0.01, 0.01, 2, 0.0003, 0.005, 0, steps);
    return 0;
}
