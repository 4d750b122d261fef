/// Detection of a deforming surface, all of it: a sheet folds on itself and comes down on a mesh of
/// 70,000 triangles that stands still, at four sizes.
///
///     bench_sheets [--commit ID] [--csv FILE]
///
/// A step is one motion test and one proximity at its end. Medians of thread CPU time over the
/// steps; on two threads wall time, which needs an idle machine. Counts are exact. See
/// docs/benchmarks.md.
#include "engine/collision/sheets.h"
#include "bench/machine.h"
#include "bench/timing.h"
#include "tests/support/deforming.h"

#include <errno.h>

enum { STEPS = 24 };

static void need(bool ok, const char *what) {
    if (ok) return;
    (void)fprintf(stderr, "bench_sheets: %s\n", what);
    exit(1);
}

static void fold(const deforming *d, double angle, double height, double radius, double *out) {
    double *x = deforming_at(d, out, 1);
    sheet_fold(d->rest[1].x.data, d->surface[1].node_count, 0.5, angle, radius, x);
    for (int32_t i = 0; i < d->surface[1].node_count; i++) {
        x[3 * i] -= 0.5;
        x[3 * i + 1] -= 0.5;
        x[3 * i + 2] += height;
    }
}

typedef struct figures {
    double motion, proximity, both_wall;
    int64_t hits, contacts, candidates, tests, lists;
    size_t bytes;
} figures;

static figures run(int cells, const qpc_parallel *parallel) {
    deforming d = {0};
    generated g = {0};
    qpc_error err = {0};
    figures f = {0};
    double pi = acos(-1.0), r = 0.2 / cells; // thickness 0.4 edges
    need(generate_torus(&g, 350, 100, 0.35, 0.12, 0.005), "out of memory");
    need(deforming_add(&d, &g, QPC_STATIC, 0) == 0, "out of memory");
    need(generate_sheet(&g, cells, cells, 1.0 / cells, 0, 0), "out of memory");
    need(deforming_add(&d, &g, QPC_DYNAMIC, r) == 1, "out of memory");
    fold(&d, 0.99 * pi, 0.12 + 12 * r, 0.95 * r, d.x0);
    qpc_detector *det = NULL;
    need(qpc_detector_create(d.surface, d.count, d.x0, d.nodes, 1 << 28, &det, &err) == QPC_OK,
         err.message);
    qpc_detector_set_parallel(det, parallel);
    qpc_contacts found = {0};
    double motion[STEPS], near[STEPS], wall[STEPS];
    for (int step = 0; step < STEPS; step++) {
        double part = (step + 1.0) / STEPS;
        fold(&d, (0.99 + 0.01 * part) * pi, 0.12 + (12 - 11.2 * part) * r, 0.95 * r, d.x1);
        qpc_detector_counts_reset(det);
        double start = bench_ms(CLOCK_THREAD_CPUTIME_ID), begin = bench_ms(CLOCK_MONOTONIC);
        need(qpc_detect_motion(det, d.x0, d.x1, 0.95, &found, &err) == QPC_OK, err.message);
        f.hits += found.count;
        motion[step] = bench_ms(CLOCK_THREAD_CPUTIME_ID) - start;
        start = bench_ms(CLOCK_THREAD_CPUTIME_ID);
        need(qpc_detect_proximity(det, d.x1, 1.1, &found, &err) == QPC_OK, err.message);
        near[step] = bench_ms(CLOCK_THREAD_CPUTIME_ID) - start;
        wall[step] = bench_ms(CLOCK_MONOTONIC) - begin;
        f.contacts += found.count;
        qpc_detect_counts c = qpc_detector_counts(det);
        f.candidates += (int64_t)c.candidates;
        f.tests += (int64_t)(c.vt_tests + c.ee_tests);
        f.lists += (int64_t)c.list_rebuilds;
        memcpy(d.x0, d.x1, 3 * (size_t)d.nodes * sizeof *d.x0);
    }
    f.motion = bench_quantile(motion, STEPS, 0.5);
    f.proximity = bench_quantile(near, STEPS, 0.5);
    f.both_wall = bench_quantile(wall, STEPS, 0.5);
    f.bytes = qpc_broad_bytes(qpc_sheets_broad(det->sheets));
    qpc_detector_destroy(det);
    qpc_array_fini(&found);
    deforming_fini(&d);
    return f;
}

int main(int argc, char **argv) {
    const char *commit = "unknown", *path = NULL;
    for (int i = 1; i < argc; i += 2) {
        bool value = i + 1 < argc;
        if (value && strcmp(argv[i], "--commit") == 0) {
            commit = argv[i + 1];
        } else if (value && strcmp(argv[i], "--csv") == 0) {
            path = argv[i + 1];
        } else {
            (void)fprintf(stderr, "usage: bench_sheets [--commit ID] [--csv FILE]\n");
            return 2;
        }
    }
    FILE *csv = path != NULL ? fopen(path, "we") : NULL;
    if (path != NULL && csv == NULL) {
        (void)fprintf(stderr, "bench_sheets: %s: %s\n", path, strerror(errno));
        return 1;
    }
    char cpu[128];
    bench_cpu(cpu, sizeof cpu);
    if (csv != NULL)
        (void)fprintf(csv, "cpu,compiler,commit,triangles,static_triangles,steps,hits,contacts,"
                           "candidates,tests,list_builds,broad_bytes,motion_ms,proximity_ms,"
                           "wall_ms,two_threads_wall_ms\n");
    printf("%s; %s; commit %s; medians of %d steps, a mesh of 70,000 triangles below\n", cpu,
           bench_compiler(), commit, STEPS);
    for (int cells = 56; cells <= 448; cells *= 2) {
        qpc_error err = {0};
        qpc_team *team = NULL;
        figures f = run(cells, NULL);
        need(qpc_team_create(1, &team, &err) == QPC_OK, err.message);
        qpc_parallel two = qpc_team_parallel(team);
        figures g = run(cells, &two);
        qpc_team_destroy(team);
        need(f.hits == g.hits && f.contacts == g.contacts, "two threads find something else");
        printf(
            "%7d triangles: motion %7.2f ms, proximity %7.2f ms, both %7.2f ms wall, %7.2f on two "
            "threads; a step %lld candidates, %lld tests, %lld hits, %lld contacts; %.0f bytes a "
            "triangle\n",
            2 * cells * cells, f.motion, f.proximity, f.both_wall, g.both_wall,
            (long long)(f.candidates / STEPS), (long long)(f.tests / STEPS),
            (long long)(f.hits / STEPS), (long long)(f.contacts / STEPS),
            (double)f.bytes / (2 * cells * cells + 70000));
        if (csv != NULL)
            (void)fprintf(
                csv, "%s,%s,%s,%d,70000,%d,%lld,%lld,%lld,%lld,%lld,%zu,%.3f,%.3f,%.3f,%.3f\n", cpu,
                bench_compiler(), commit, 2 * cells * cells, STEPS, (long long)f.hits,
                (long long)f.contacts, (long long)f.candidates, (long long)f.tests,
                (long long)f.lists, f.bytes, f.motion, f.proximity, f.both_wall, g.both_wall);
    }
    if (csv != NULL && fclose(csv) != 0) return 1;
    return 0;
}
