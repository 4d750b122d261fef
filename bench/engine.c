// Engine benchmark: the demo scenes in process, one thread, no recording, no server.
//
//     bench_engine [--scenes DIR] [--runs N] [--dt S] [--seconds S] [--commit ID] [--csv FILE]
//                  [--check] [SCENE...]
//
// Prints, for each scene, steps a second, median and 99th percentile of the thread CPU time of a step
// (the engine's own ns_total), time by phase, exact work counts and the worst residuals. Times are the
// median over the runs of each figure; counts must agree between runs (they are asserted to). --check
// hands every state to the independent checker, outside the time measured. --csv appends one line a
// scene; bench/compare.py compares two such files. How figures are made: docs/benchmarks.md.
#include "bench/machine.h"
#include "bench/step_run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct demo {
    const char *name, *scene;
    double seconds;
    int newton; // -1: as the scene says
} demo;
// pulley-2 over its first 1.3 s, before it slides off
static const demo DEMOS[] = {
    {"pulley-1", "pulley-1", 5, -1},
    {"pulley-2", "pulley-2", 1.3, -1},
    {"pulley-funnel", "pulley-funnel", 5, -1},
    {"cylinder", "cylinder", 5, -1},
    {"pulley-1-ea", "pulley-1-ea", 5, -1},
    {"pulley-1-newton-0", "pulley-1", 5, 0},
    {"pulley-2-newton-0", "pulley-2", 1.3, 0},
    {"pulley-funnel-newton-0", "pulley-funnel", 5, 0},
    {"pulley-fine", "pulley-fine", 5, -1},
    {"pulley-1-strain", "pulley-1-strain", 5, -1},
    {"pulley-funnel-strain", "pulley-funnel-strain", 5, -1},
    {"cloth-sphere", "cloth-sphere", 1.5, -1},
    {"stack-5", "stack-5", 5, -1},
    {"stack-20", "stack-20", 5, -1},
    {"organ", "organ", 0.4, -1},
    {"organ-small", "organ-small", 0.4, -1},
};
enum { DEMO_COUNT = sizeof DEMOS / sizeof DEMOS[0] };

static bool run_scene(const char *path, int newton, double dt, double seconds, bool check, bench_steps *ret,
                      qpc_error *err) {
    qpc_test_meshes *meshes = qpc_test_meshes_create();
    qpc_value scene = qpc_nil();
    qpc_scene_variant variant = qpc_scene_variant_none();
    variant.dt = dt;
    variant.newton = newton;
    bool ok = qpc_test_scene_read(path, &variant, meshes, &scene, err) == QPC_OK &&
              bench_steps_run(&scene, meshes, seconds, check, ret, err);
    qpc_value_fini(&scene);
    qpc_test_meshes_destroy(meshes);
    return ok;
}

static void print_run(const char *name, double dt, const bench_steps *r) {
    double n = (double)r->steps;
    printf("%s: dt %g ms, %lld steps, %.0f steps/s of CPU (real time x %.0f), state %016llx\n", name,
           1e3 * dt, (long long)r->steps, 1e6 / r->mean_us, 1e6 * dt / r->mean_us,
           (unsigned long long)r->hash);
    bench_steps_print_times(r);
    printf("\n  a step, mean:");
#define SHOW(name) printf(" %s %.4g", #name, (double)r->name / n);
    BENCH_STEP_COUNTS(SHOW)
#undef SHOW
    printf("\n  most: contacts %lld active %lld passes %lld; min gap %.4f of the thickness; worst:",
           (long long)r->contacts_max, (long long)r->active_max, (long long)r->passes_max,
           r->min_gap);
#define SHOW(name) printf(" %s %.1e", #name, r->name);
    BENCH_STEP_WORST(SHOW)
#undef SHOW
    printf("\n");
    (void)fflush(stdout);
}
static bool append_csv(const char *path, const char *commit, const char *name, double dt, int runs,
                       const bench_steps *r) {
    FILE *f = fopen(path, "ae");
    if (f == NULL) return false;
    if (ftell(f) == 0) {
        fprintf(f, "cpu,compiler,commit,scene,dt,runs,steps,hash");
#define HEAD(name) fprintf(f, ",%s", #name);
        BENCH_STEP_COUNTS(HEAD)
        fprintf(f, ",contacts_max,active_max,passes_max,min_gap");
        BENCH_STEP_WORST(HEAD)
        fprintf(f, ",median_us,p99_us,mean_us,max_us,wall_us");
        BENCH_STEP_PHASES(HEAD)
#undef HEAD
        fprintf(f, "\n");
    }
    char cpu[256];
    bench_cpu(cpu, sizeof cpu);
    fprintf(f, "%s,%s,%s,%s,%g,%d,%lld,%016llx", cpu, bench_compiler(), commit, name, dt, runs,
            (long long)r->steps, (unsigned long long)r->hash);
#define VALUE(name) fprintf(f, ",%lld", (long long)r->name);
    BENCH_STEP_COUNTS(VALUE)
    fprintf(f, ",%lld,%lld,%lld,%.17g", (long long)r->contacts_max, (long long)r->active_max,
            (long long)r->passes_max, r->min_gap);
#undef VALUE
#define VALUE(name) fprintf(f, ",%.3e", r->name);
    BENCH_STEP_WORST(VALUE)
#undef VALUE
    fprintf(f, ",%.1f,%.1f,%.1f,%.1f,%.1f", r->median_us, r->p99_us, r->mean_us, r->max_us,
            r->wall_us);
#define VALUE(name) fprintf(f, ",%.1f", r->name);
    BENCH_STEP_PHASES(VALUE)
#undef VALUE
    fprintf(f, "\n");
    return fclose(f) == 0;
}

static int usage(void) {
    fprintf(stderr, "usage: bench_engine [--scenes DIR] [--runs N] [--dt S] [--seconds S] "
                    "[--commit ID] [--csv FILE] [--check] [SCENE...]\n");
    return 2;
}
int main(int argc, char **argv) {
    const char *folder = QPC_EXAMPLE_SCENES, *csv = NULL, *commit = "unknown", *only[64];
    int runs = 3, only_count = 0;
    double dt = 0.005, seconds = 0;
    bool check = false;
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--check") == 0) check = true;
        else if (strcmp(argv[i], "--scenes") == 0 && more) folder = argv[++i];
        else if (strcmp(argv[i], "--runs") == 0 && more) runs = atoi(argv[++i]);
        else if (strcmp(argv[i], "--dt") == 0 && more) dt = atof(argv[++i]);
        else if (strcmp(argv[i], "--seconds") == 0 && more) seconds = atof(argv[++i]);
        else if (strcmp(argv[i], "--commit") == 0 && more) commit = argv[++i];
        else if (strcmp(argv[i], "--csv") == 0 && more) csv = argv[++i];
        else if (argv[i][0] == '-' || only_count == 64) return usage();
        else only[only_count++] = argv[i];
    }
    if (runs < 1 || runs > BENCH_RUNS_MAX || !(dt > 0)) return usage();
    char cpu[256];
    bench_cpu(cpu, sizeof cpu);
    printf("%s; %s; commit %s; median of %d runs\n", cpu, bench_compiler(), commit, runs);
    int failures = 0;
    for (int d = 0; d < DEMO_COUNT; d++) {
        bool wanted = only_count == 0;
        for (int i = 0; i < only_count; i++) wanted = wanted || strcmp(only[i], DEMOS[d].name) == 0;
        if (!wanted) continue;
        char path[1024];
        bench_steps r[BENCH_RUNS_MAX];
        qpc_error err = {0};
        (void)snprintf(path, sizeof path, "%s/%s.json", folder, DEMOS[d].scene);
        double length = seconds > 0 ? seconds : DEMOS[d].seconds;
        bool ok = true;
        for (int i = 0; ok && i < runs; i++) ok = run_scene(path, DEMOS[d].newton, dt, length, check, &r[i], &err);
        if (!ok) {
            fprintf(stderr, "%s: %s\n", path, err.message);
            failures++;
            continue;
        }
        failures += bench_steps_differ(path, r, runs);
        bench_steps s = bench_steps_median(r, runs);
        print_run(DEMOS[d].name, dt, &s);
        if (check)
            printf("  independent check: %lld crossings or intersections, penetration %.4f\n",
                   (long long)s.crossings, s.penetration);
        if (check && s.crossings > 0) failures++;
        if (csv != NULL && !append_csv(csv, commit, DEMOS[d].name, dt, runs, &s)) {
            fprintf(stderr, "%s: %s\n", csv, strerror(errno));
            failures++;
        }
    }
    return failures > 0;
}
