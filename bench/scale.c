// How a step grows with the cable: one cable on a drum, four lengths, in process, one thread.
//
//     bench_scale [--seconds S] [--dt S] [--runs N] [--commit ID] [--csv FILE] [--check]
//
// The drum has a radius of 0.25 m; cables of r 5 mm with a particle every 10 mm are wound around it by
// 1/2, 1 1/2, 3 1/2 and 7 1/2 turns, so that about half of each lies on the drum, 40 kg at the first end
// and 36 kg at the last. Prints for each size the CPU time of a step, by phase, exact work counts and
// memory, and between sizes the exponent of the growth. Counts must agree between runs. --check hands
// every state to the independent checker, outside the time measured. docs/benchmarks.md.
#include "base/mem.h"
#include "bench/machine.h"
#include "bench/timing.h"
#include "tests/support/scenes.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

typedef struct size_case {
    int particles, turns;
} size_case;
static const size_case SIZES[] = {{250, 0}, {500, 1}, {1000, 3}, {2000, 7}};
enum { SIZE_COUNT = sizeof SIZES / sizeof SIZES[0], RUNS_MAX = 15 };

// What is summed over a run; names of qpc_step_report.
#define COUNTS(X)                                                                                  \
    X(passes) X(newton) X(halvings) X(failsafe) X(rows) X(active) X(solver_iterations)             \
    X(factorizations) X(solves) X(fallbacks) X(candidates) X(vt_tests) X(ee_tests) X(hits)         \
    X(list_rebuilds)
#define PHASES(X) X(ns_assemble) X(ns_detect) X(ns_rows) X(ns_solve) X(ns_certify)

typedef struct run {
    int64_t steps, rows_max, active_max, world_bytes, arena_bytes;
    uint64_t hash;
#define MEMBER(name) int64_t name;
    COUNTS(MEMBER)
#undef MEMBER
#define MEMBER(name) double name; // mean of a step, us
    PHASES(MEMBER)
#undef MEMBER
    double median_us, p99_us, mean_us, max_us;
    double natural_ratio, penetration;
    int64_t crossings;
} run;

typedef struct options {
    double seconds, dt;
    bool check;
} options;

static qpc_status read_scene(const size_case *c, double dt, qpc_test_meshes *meshes, qpc_value *ret, qpc_error *err) {
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "{'dt': %.17g, 'bodies': [{'kind': 'static', 'mesh': {'generate': {'kind': 'cylinder', "
                   "'radius': 0.25, 'length': 0.2, 'segments': 180}}}, {'kind': 'cable', 'radius': 0.005, "
                   "'axial_stiffness': 1e6, 'mass': {'all': 0.005, 'first': 40, 'last': 36}, 'nodes': "
                   "{'generate': {'kind': 'helix', 'count': %d, 'spacing': 0.01, 'radius': 0.2552, 'turns': "
                   "%d, 'pitch': 0.0135}}}]}",
                   dt, c->particles, c->turns);
    return qpc_test_scene_text(text, meshes, ret, err);
}

static void count_step(run *ret, const qpc_step_report *r, double steps) {
    ret->mean_us += 1e-3 * (double)r->ns_total / steps;
#define ADD(name) ret->name += r->name;
    COUNTS(ADD)
#undef ADD
#define ADD(name) ret->name += 1e-3 * (double)r->name / steps;
    PHASES(ADD)
#undef ADD
    ret->natural_ratio = fmax(ret->natural_ratio, r->natural_ratio);
    if (r->rows > ret->rows_max) ret->rows_max = r->rows;
    if (r->active > ret->active_max) ret->active_max = r->active;
    if (r->arena_bytes > ret->arena_bytes) ret->arena_bytes = r->arena_bytes;
}

static bool run_size(const size_case *c, const options *o, run *ret, qpc_error *err) {
    qpc_test_meshes *meshes = qpc_test_meshes_create();
    qpc_value scene = qpc_nil();
    qpc_watched w;
    int64_t steps = (int64_t)lround(o->seconds / o->dt);
    double *us = malloc((size_t)steps * sizeof *us + 1);
    bool ok = false, watched = false;
    *ret = (run){.steps = steps};
    if (read_scene(c, o->dt, meshes, &scene, err) != QPC_OK) goto done;
    if (qpc_watched_create(&scene, meshes, &w, NULL, err) != QPC_OK) goto done;
    watched = true;
    for (int64_t i = 0; i < steps; i++) {
        qpc_step_report r;
        if (qpc_world_step(w.world, &r, err) != QPC_OK) goto done;
        if (o->check) (void)qpc_check_scene_next(&w.check, qpc_world_positions(w.world), &w.found);
        us[i] = 1e-3 * (double)r.ns_total;
        count_step(ret, &r, (double)steps);
    }
    ret->hash = qpc_world_hash(w.world);
    ret->world_bytes = (int64_t)qpc_world_memory(w.world);
    ret->penetration = w.found.worst_penetration;
    ret->crossings = w.found.crossings + w.found.intersections + w.found.undecided;
    ret->median_us = bench_quantile(us, steps, 0.5);
    ret->p99_us = bench_quantile(us, steps, 0.99);
    ret->max_us = us[steps - 1];
    ok = true;
done:
    if (watched) qpc_watched_fini(&w);
    free(us);
    qpc_value_fini(&scene);
    qpc_test_meshes_destroy(meshes);
    return ok;
}

// The median over runs of every time; counts are those of the first.
static run summarise(const run *runs, int n) {
    run s = runs[0];
    double v[RUNS_MAX];
#define TIME(name)                                                                                 \
    for (int i = 0; i < n; i++) v[i] = runs[i].name;                                               \
    s.name = bench_quantile(v, n, 0.5);
    TIME(median_us)
    TIME(p99_us)
    TIME(mean_us)
    TIME(max_us)
    PHASES(TIME)
#undef TIME
    return s;
}

static void print_run(const size_case *c, const run *r, const size_case *smaller, const run *before) {
    double n = (double)r->steps, phases = r->ns_assemble + r->ns_detect + r->ns_rows + r->ns_solve + r->ns_certify;
    printf("%d particles, %d 1/2 turns: %lld steps, state %016llx\n", c->particles, c->turns, (long long)r->steps,
           (unsigned long long)r->hash);
    printf("  step, thread CPU ms: median %.3f  p99 %.3f  mean %.3f  max %.3f\n", 1e-3 * r->median_us,
           1e-3 * r->p99_us, 1e-3 * r->mean_us, 1e-3 * r->max_us);
    printf("  by phase, mean us:");
#define SHOW(name) printf(" %s %.1f", &#name[3], r->name);
    PHASES(SHOW)
#undef SHOW
    printf("  (detection %.0f %%, solvers %.0f %%)\n  a step, mean:", 100 * r->ns_detect / phases, 100 * r->ns_solve / phases);
#define SHOW(name) printf(" %s %.4g", #name, (double)r->name / n);
    COUNTS(SHOW)
#undef SHOW
    printf("\n  most: rows %lld active %lld; natural residual %.1e r/dt; memory of the world %.2f MB, of that step arena "
           "%.2f MB\n",
           (long long)r->rows_max, (long long)r->active_max, r->natural_ratio, 1e-6 * (double)r->world_bytes,
           1e-6 * (double)r->arena_bytes);
    if (before != NULL) {
        double ratio = log((double)c->particles / smaller->particles);
        printf("  exponents from %d: mean step %.2f detection %.2f solvers %.2f memory %.2f\n", smaller->particles,
               log(r->mean_us / before->mean_us) / ratio, log(r->ns_detect / before->ns_detect) / ratio,
               log(r->ns_solve / before->ns_solve) / ratio,
               log((double)r->world_bytes / (double)before->world_bytes) / ratio);
    }
    (void)fflush(stdout);
}

static bool append_csv(const char *path, const char *commit, const options *o, const size_case *c, int runs, const run *r) {
    FILE *f = fopen(path, "ae");
    if (f == NULL) return false;
    if (ftell(f) == 0) {
        fprintf(f, "cpu,compiler,commit,scene,dt,runs,steps,hash,particles,turns");
#define HEAD(name) fprintf(f, ",%s", #name);
        COUNTS(HEAD)
        fprintf(f, ",rows_max,active_max,world_bytes,arena_bytes,natural_ratio,median_us,p99_us,mean_us,max_us");
        PHASES(HEAD)
#undef HEAD
        fprintf(f, "\n");
    }
    char cpu[256];
    bench_cpu(cpu, sizeof cpu);
    fprintf(f, "%s,%s,%s,drum-%d,%g,%d,%lld,%016llx,%d,%.1f", cpu, bench_compiler(), commit, c->particles, o->dt, runs,
            (long long)r->steps, (unsigned long long)r->hash, c->particles, c->turns + 0.5);
#define VALUE(name) fprintf(f, ",%lld", (long long)r->name);
    COUNTS(VALUE)
    VALUE(rows_max)
    VALUE(active_max)
    VALUE(world_bytes)
    VALUE(arena_bytes)
#undef VALUE
    fprintf(f, ",%.3e,%.1f,%.1f,%.1f,%.1f", r->natural_ratio, r->median_us, r->p99_us, r->mean_us, r->max_us);
#define VALUE(name) fprintf(f, ",%.1f", r->name);
    PHASES(VALUE)
#undef VALUE
    fprintf(f, "\n");
    return fclose(f) == 0;
}

static int usage(void) {
    fprintf(stderr, "usage: bench_scale [--seconds S] [--dt S] [--runs N] [--commit ID] [--csv FILE] [--check]\n");
    return 2;
}

int main(int argc, char **argv) {
    const char *commit = "unknown", *csv = NULL;
    options o = {.seconds = 0.5, .dt = 0.005};
    int runs = 1, failures = 0;
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--check") == 0) o.check = true;
        else if (strcmp(argv[i], "--seconds") == 0 && more) o.seconds = atof(argv[++i]);
        else if (strcmp(argv[i], "--dt") == 0 && more) o.dt = atof(argv[++i]);
        else if (strcmp(argv[i], "--runs") == 0 && more) runs = atoi(argv[++i]);
        else if (strcmp(argv[i], "--commit") == 0 && more) commit = argv[++i];
        else if (strcmp(argv[i], "--csv") == 0 && more) csv = argv[++i];
        else return usage();
    }
    if (runs < 1 || runs > RUNS_MAX || !(o.dt > 0) || !(o.seconds >= o.dt)) return usage();
    run before = {0};
    for (int k = 0; k < SIZE_COUNT; k++) {
        run r[RUNS_MAX];
        qpc_error err = {0};
        for (int i = 0; i < runs; i++)
            if (!run_size(&SIZES[k], &o, &r[i], &err)) {
                fprintf(stderr, "%d particles: %s\n", SIZES[k].particles, err.message);
                return 1;
            }
        for (int i = 1; i < runs; i++) {
            if (r[i].hash == r[0].hash) continue;
            fprintf(stderr, "%d particles: two runs ended in different states\n", SIZES[k].particles);
            failures++;
        }
        run s = summarise(r, runs);
        print_run(&SIZES[k], &s, k > 0 ? &SIZES[k - 1] : NULL, k > 0 ? &before : NULL);
        before = s;
        if (o.check)
            printf("  independent check: %lld crossings or intersections, penetration %.4f\n", (long long)s.crossings,
                   s.penetration);
        if (o.check && s.crossings > 0) failures++;
        if (csv != NULL && !append_csv(csv, commit, &o, &SIZES[k], runs, &s)) {
            fprintf(stderr, "%s: %s\n", csv, strerror(errno));
            failures++;
        }
    }
    return failures > 0;
}
