// How a step grows with the cable: one cable on a drum, four lengths, in process, one thread.
//
//     bench_scale [--seconds S] [--dt S] [--runs N] [--commit ID] [--csv FILE] [--check]
//
// The drum has a radius of 0.25 m; cables of r 5 mm with a particle every 10 mm are wound around it by
// 1/2, 1 1/2, 3 1/2 and 7 1/2 turns, so that about half of each lies on the drum, 40 kg at the first end
// and 36 kg at the last. Prints for each size the CPU time of a step, by phase, exact work counts and
// memory, and between sizes the exponent of the growth. Counts must agree between runs. --check hands
// every state to the independent checker, outside the time measured. docs/benchmarks.md.
#include "bench/machine.h"
#include "bench/step_run.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

typedef struct size_case {
    int particles, turns;
} size_case;
static const size_case SIZES[] = {{250, 0}, {500, 1}, {1000, 3}, {2000, 7}};
enum { SIZE_COUNT = sizeof SIZES / sizeof SIZES[0] };

// Of what bench_steps counts.
#define COUNTS(X)                                                                                  \
    X(passes) X(newton) X(halvings) X(failsafe) X(rows) X(active) X(solver_iterations)             \
    X(factorizations) X(solves) X(fallbacks) X(candidates) X(vt_tests) X(ee_tests) X(hits)         \
    X(list_rebuilds)
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

static bool run_size(const size_case *c, const options *o, bench_steps *ret, qpc_error *err) {
    qpc_test_meshes *meshes = qpc_test_meshes_create();
    qpc_value scene = qpc_nil();
    bool ok = read_scene(c, o->dt, meshes, &scene, err) == QPC_OK &&
              bench_steps_run(&scene, meshes, o->seconds, o->check, ret, err);
    qpc_value_fini(&scene);
    qpc_test_meshes_destroy(meshes);
    return ok;
}

static void print_run(const size_case *c, const bench_steps *r, const size_case *smaller, const bench_steps *before) {
    double n = (double)r->steps, phases = r->ns_assemble + r->ns_detect + r->ns_rows + r->ns_solve + r->ns_certify;
    printf("%d particles, %d 1/2 turns: %lld steps, state %016llx\n", c->particles, c->turns, (long long)r->steps,
           (unsigned long long)r->hash);
    bench_steps_print_times(r);
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

static bool append_csv(const char *path, const char *commit, const options *o, const size_case *c, int runs, const bench_steps *r) {
    FILE *f = fopen(path, "ae");
    if (f == NULL) return false;
    if (ftell(f) == 0) {
        fprintf(f, "cpu,compiler,commit,scene,dt,runs,steps,hash,particles,turns");
#define HEAD(name) fprintf(f, ",%s", #name);
        COUNTS(HEAD)
        fprintf(f, ",rows_max,active_max,world_bytes,arena_bytes,natural_ratio,median_us,p99_us,mean_us,max_us");
        BENCH_STEP_PHASES(HEAD)
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
    BENCH_STEP_PHASES(VALUE)
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
    if (runs < 1 || runs > BENCH_RUNS_MAX || !(o.dt > 0) || !(o.seconds >= o.dt)) return usage();
    bench_steps before = {0};
    for (int k = 0; k < SIZE_COUNT; k++) {
        bench_steps r[BENCH_RUNS_MAX];
        qpc_error err = {0};
        for (int i = 0; i < runs; i++)
            if (!run_size(&SIZES[k], &o, &r[i], &err)) {
                fprintf(stderr, "%d particles: %s\n", SIZES[k].particles, err.message);
                return 1;
            }
        char name[32];
        (void)snprintf(name, sizeof name, "%d particles", SIZES[k].particles);
        failures += bench_steps_differ(name, r, runs);
        bench_steps s = bench_steps_median(r, runs);
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
