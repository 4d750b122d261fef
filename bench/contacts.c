/// How a step grows with the number of contacts that hold at once: a sheet of cloth, two sheets one on the other, or ten
/// cables side by side, fall flat on a floor and come to rest on it. In process, one thread, default settings, no friction.
///
///     bench_contacts [--scene cloth|layers|cables] [--size N]... [--seconds S] [--dt S] [--commit ID] [--csv FILE] [--check] [--verbose]
///
/// cloth: N x N particles every 10 mm (26, 51, 72, 101), r 4 mm, 0.2 kg/m2, 500 N/m. layers: two such sheets (18, 28, 40, 58),
/// the upper one turned by 10 degrees. cables: ten of N particles every
/// 10 mm (63, 250, 500, 1,000), r 4 mm, 12 mm apart. The floor is a grid of cells of about 0.1 m, turned by 17 degrees, so that
/// nothing lies along its edges; all starts half a millimetre above its separation. A run ends when nothing has been faster
/// than 1 mm/s for five steps, or after --seconds. Times are thread CPU time; counts are exact. --check hands every
/// state to the independent checker, outside the time measured. See docs/benchmarks.md.
#include "bench/machine.h"
#include "bench/timing.h"
#include "engine/solver/solver.h"
#include "tests/support/scenes.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES_MOST = 16, SCENE_BYTES = 8192, CABLES = 10, REST_STEPS = 5, ENGINES = 6 };
static const double SPACING = 0.01, RADIUS = 0.004, LIFT = 5e-4, REST_SPEED = 1e-3;

typedef struct options {
    double dt, seconds;
    bool check, verbose;
} options;

#define COUNTS(X)                                                                                  \
    X(passes) X(newton) X(qps) X(halvings) X(failsafe) X(rows) X(active) X(solver_iterations)      \
    X(set_changes) X(factorizations) X(solves) X(fallbacks) X(candidates) X(vt_tests) X(ee_tests) X(hits)
#define PHASES(X) X(ns_assemble) X(ns_detect) X(ns_rows) X(ns_solve) X(ns_certify)
#define WORST(X) X(stat) X(prim) X(comp) X(natural_ratio) X(violation) X(energy_drift)

typedef struct figures {
    int64_t steps, nodes, rows_max, active_max, not_optimal, unproven, crossings, world_bytes;
    int64_t engine[ENGINES]; // steps that each answered
    uint64_t hash;
    double median_ms, p99_ms, mean_ms, max_ms, min_gap, penetration, speed;
#define MEMBER(name) int64_t name;
    COUNTS(MEMBER)
#undef MEMBER
#define MEMBER(name) double name; // means of a step, ms; worst of a run
    PHASES(MEMBER) WORST(MEMBER)
#undef MEMBER
} figures;

typedef struct kind {
    const char *name;
    int sizes[4];
    int (*write)(int size, double dt, char *text, size_t bytes);
} kind;

static int write_floor(double dt, double width, double depth, char *text, size_t bytes) {
    double half = 17 * acos(-1.0) / 360, reach = hypot(width, depth) + 0.1;
    int cells = (int)ceil(reach / 0.1);
    return snprintf(text, bytes,
                    "{'dt': %.17g, 'bodies': [{'kind': 'static', 'rotation': [%.17g, 0, %.17g, 0], 'mesh': {'generate': {'kind': "
                    "'grid', 'columns': %d, 'rows': %d, 'width': %.17g, 'depth': %.17g}}}",
                    dt, cos(half), sin(half), cells + 1, cells + 1, reach, reach);
}

static int write_sheet(int size, double height, double degrees, char *text, size_t bytes) {
    double half = degrees * acos(-1.0) / 360;
    return snprintf(text, bytes,
                    ", {'kind': 'cloth', 'radius': %.17g, 'area_density': 0.2, 'membrane_stiffness': 500, 'bending_stiffness': 0.5, "
                    "'position': [0, %.17g, 0], 'rotation': [%.17g, 0, %.17g, 0], 'mesh': {'generate': {'kind': 'grid', 'columns': "
                    "%d, 'width': %.17g}}}",
                    RADIUS, height, cos(half), sin(half), size, SPACING * (size - 1));
}

static int write_cloth(int size, double dt, char *text, size_t bytes) {
    int n = write_floor(dt, SPACING * (size - 1), SPACING * (size - 1), text, bytes);
    n += write_sheet(size, RADIUS + LIFT, 0, text + n, bytes - (size_t)n);
    return n + snprintf(text + n, bytes - (size_t)n, "]}");
}

static int write_layers(int size, double dt, char *text, size_t bytes) {
    int n = write_floor(dt, SPACING * (size - 1), SPACING * (size - 1), text, bytes);
    n += write_sheet(size, RADIUS + LIFT, 0, text + n, bytes - (size_t)n);
    n += write_sheet(size, 3 * RADIUS + 2 * LIFT, 10, text + n, bytes - (size_t)n);
    return n + snprintf(text + n, bytes - (size_t)n, "]}");
}

static int write_cables(int size, double dt, char *text, size_t bytes) {
    double half = 0.5 * SPACING * (size - 1);
    int n = write_floor(dt, 2 * half, 0.012 * CABLES, text, bytes);
    for (int k = 0; k < CABLES; k++) {
        double z = 0.012 * (k - 0.5 * (CABLES - 1));
        n += snprintf(text + n, bytes - (size_t)n,
                      ", {'kind': 'cable', 'radius': %.17g, 'axial_stiffness': 1e5, 'mass': 0.005, 'nodes': {'generate': {'kind': "
                      "'line', 'from': [%.17g, %.17g, %.17g], 'to': [%.17g, %.17g, %.17g], 'count': %d}}}",
                      RADIUS, -half, RADIUS + LIFT, z, half, RADIUS + LIFT, z, size);
    }
    return n + snprintf(text + n, bytes - (size_t)n, "]}");
}

static const kind KINDS[] = {{"cloth", {26, 51, 72, 101}, write_cloth},
                             {"layers", {18, 28, 40, 58}, write_layers},
                             {"cables", {63, 250, 500, 1000}, write_cables}};

static void count_step(figures *f, const qpc_step_report *r, double ms) {
    f->mean_ms += ms;
    f->steps++;
#define ADD(name) f->name += r->name;
    COUNTS(ADD)
#undef ADD
#define ADD(name) f->name += 1e-6 * (double)r->name;
    PHASES(ADD)
#undef ADD
#define ADD(name) f->name = fmax(f->name, r->name);
    WORST(ADD)
#undef ADD
    f->unproven += 1 - r->proven;
    f->not_optimal += r->outcome != QPC_STEP_OPTIMAL;
    f->engine[r->rows > 0 && r->engine > 0 && r->engine < ENGINES ? r->engine : 0]++;
    f->min_gap = fmin(f->min_gap, r->min_gap);
    f->speed = r->max_speed;
    if (r->rows > f->rows_max) f->rows_max = r->rows;
    if (r->active > f->active_max) f->active_max = r->active;
}

static void finish(figures *f, double *ms, const qpc_watched *w) {
    f->nodes = qpc_world_node_count(w->world);
    f->hash = qpc_world_hash(w->world);
    f->world_bytes = (int64_t)qpc_world_memory(w->world);
    f->penetration = w->found.worst_penetration;
    f->crossings = w->found.crossings + w->found.intersections + w->found.undecided;
    f->mean_ms /= (double)f->steps;
#define MEAN(name) f->name /= (double)f->steps;
    PHASES(MEAN)
#undef MEAN
    f->median_ms = bench_quantile(ms, f->steps, 0.5);
    f->p99_ms = bench_quantile(ms, f->steps, 0.99);
    f->max_ms = ms[f->steps - 1];
}

static void print_step(const qpc_step_report *r) {
    printf("  %lld: %.1f ms (detect %.1f solve %.1f certify %.1f) rows %lld active %lld newton %lld passes %lld halvings %lld outcome "
           "%lld engine %lld iterations %lld factors %lld fallbacks %lld gap %.4f speed %.2e\n",
           (long long)r->step, 1e-6 * (double)r->ns_total, 1e-6 * (double)r->ns_detect, 1e-6 * (double)r->ns_solve,
           1e-6 * (double)r->ns_certify, (long long)r->rows, (long long)r->active, (long long)r->newton, (long long)r->passes,
           (long long)r->halvings, (long long)r->outcome, (long long)r->engine, (long long)r->solver_iterations,
           (long long)r->factorizations, (long long)r->fallbacks, r->min_gap, r->max_speed);
    (void)fflush(stdout);
}

static qpc_status run(const kind *k, int size, const options *o, figures *ret, qpc_error *err) {
    qpc_test_meshes *meshes = qpc_test_meshes_create();
    qpc_value scene = qpc_nil();
    qpc_watched w = {0};
    int64_t most = (int64_t)lround(o->seconds / o->dt), still = 0;
    double *ms = malloc((size_t)most * sizeof *ms);
    char text[SCENE_BYTES];
    figures f = {.min_gap = 2};
    qpc_status st = ms != NULL && k->write(size, o->dt, text, sizeof text) < SCENE_BYTES
                        ? qpc_test_scene_text(text, meshes, &scene, err)
                        : qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    if (st == QPC_OK) st = qpc_watched_create(&scene, meshes, &w, NULL, err);
    while (st == QPC_OK && f.steps < most && still < REST_STEPS) {
        qpc_step_report r;
        if ((st = qpc_world_step(w.world, &r, err)) != QPC_OK) break;
        if (o->check) (void)qpc_check_scene_next(&w.check, qpc_world_positions(w.world), &w.found);
        ms[f.steps] = 1e-6 * (double)r.ns_total;
        count_step(&f, &r, ms[f.steps]);
        still = r.active > 0 && r.max_speed < REST_SPEED ? still + 1 : 0;
        if (o->verbose) print_step(&r);
    }
    if (st == QPC_OK) finish(&f, ms, &w);
    if (st == QPC_OK) *ret = f;
    if (w.world != NULL) qpc_watched_fini(&w);
    free(ms);
    qpc_value_fini(&scene);
    qpc_test_meshes_destroy(meshes);
    return st;
}

static void print(const kind *k, int size, const figures *f, bool check) {
    printf("%s %d: %lld nodes, %lld steps, state %016llx\n", k->name, size, (long long)f->nodes, (long long)f->steps,
           (unsigned long long)f->hash);
    printf("  step, thread CPU ms: median %.2f  p99 %.2f  mean %.2f  max %.2f; by phase, mean:", f->median_ms, f->p99_ms, f->mean_ms,
           f->max_ms);
#define SHOW(name) printf(" %s %.2f", &#name[3], f->name);
    PHASES(SHOW)
#undef SHOW
    printf("\n  a step, mean:");
#define SHOW(name) printf(" %s %.4g", #name, (double)f->name / (double)f->steps);
    COUNTS(SHOW)
#undef SHOW
    printf("\n  most: rows %lld active %lld; answered, steps:", (long long)f->rows_max, (long long)f->active_max);
    for (int i = 1; i < ENGINES; i++)
        if (f->engine[i] > 0) printf(" %s %lld", qpc_solver_name((qpc_solver_id)i), (long long)f->engine[i]);
    printf("\n  worst:");
#define SHOW(name) printf(" %s %.1e", #name, f->name);
    WORST(SHOW)
#undef SHOW
    printf("; min gap %.4f; speed at the end %.1e; not optimal %lld; not proven %lld; memory %.1f MB\n", f->min_gap, f->speed,
           (long long)f->not_optimal, (long long)f->unproven, 1e-6 * (double)f->world_bytes);
    if (check)
        printf("  independent check: %lld crossings or intersections, penetration %.4f\n", (long long)f->crossings, f->penetration);
    (void)fflush(stdout);
}

static bool append_csv(const char *path, const char *commit, const options *o, const kind *k, int size, const figures *f) {
    FILE *out = fopen(path, "ae");
    if (out == NULL) return false;
    if (ftell(out) == 0) {
        fprintf(out, "cpu,compiler,commit,scene,dt,steps,hash,nodes,rows_max,active_max");
#define HEAD(name) fprintf(out, ",%s", #name);
        COUNTS(HEAD)
        for (int i = 1; i < ENGINES; i++) fprintf(out, ",by_%s", qpc_solver_name((qpc_solver_id)i));
        fprintf(out, ",not_optimal,unproven,crossings,world_bytes,min_gap,penetration,speed");
        WORST(HEAD)
        fprintf(out, ",median_ms,p99_ms,mean_ms,max_ms");
        PHASES(HEAD)
#undef HEAD
        fprintf(out, "\n");
    }
    char cpu[256], crossings[32] = "";
    bench_cpu(cpu, sizeof cpu);
    if (o->check) (void)snprintf(crossings, sizeof crossings, "%lld", (long long)f->crossings);
    fprintf(out, "%s,%s,%s,%s-%d,%g,%lld,%016llx,%lld,%lld,%lld", cpu, bench_compiler(), commit, k->name, size, o->dt,
            (long long)f->steps, (unsigned long long)f->hash, (long long)f->nodes, (long long)f->rows_max, (long long)f->active_max);
#define VALUE(name) fprintf(out, ",%lld", (long long)f->name);
    COUNTS(VALUE)
#undef VALUE
    for (int i = 1; i < ENGINES; i++) fprintf(out, ",%lld", (long long)f->engine[i]);
    fprintf(out, ",%lld,%lld,%s,%lld,%.6f,%.6f,%.3e", (long long)f->not_optimal, (long long)f->unproven, crossings,
            (long long)f->world_bytes, f->min_gap, f->penetration, f->speed);
#define VALUE(name) fprintf(out, ",%.3e", f->name);
    WORST(VALUE)
#undef VALUE
    fprintf(out, ",%.2f,%.2f,%.2f,%.2f", f->median_ms, f->p99_ms, f->mean_ms, f->max_ms);
#define VALUE(name) fprintf(out, ",%.3f", f->name);
    PHASES(VALUE)
#undef VALUE
    fprintf(out, "\n");
    return fclose(out) == 0;
}

static int usage(void) {
    fprintf(stderr, "usage: bench_contacts [--scene cloth|layers|cables] [--size N]... [--seconds S] [--dt S] [--commit ID] [--csv FILE] "
                    "[--check] [--verbose]\n");
    return 2;
}

int main(int argc, char **argv) {
    const char *commit = "unknown", *csv = NULL, *only = NULL;
    int sizes[SIZES_MOST], count = 0, failures = 0;
    options o = {.dt = 0.005, .seconds = 0.1};
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--check") == 0) o.check = true;
        else if (strcmp(argv[i], "--verbose") == 0) o.verbose = true;
        else if (strcmp(argv[i], "--scene") == 0 && more) only = argv[++i];
        else if (strcmp(argv[i], "--size") == 0 && more && count < SIZES_MOST) sizes[count++] = atoi(argv[++i]);
        else if (strcmp(argv[i], "--seconds") == 0 && more) o.seconds = atof(argv[++i]);
        else if (strcmp(argv[i], "--dt") == 0 && more) o.dt = atof(argv[++i]);
        else if (strcmp(argv[i], "--commit") == 0 && more) commit = argv[++i];
        else if (strcmp(argv[i], "--csv") == 0 && more) csv = argv[++i];
        else return usage();
    }
    if (!(o.dt > 0) || !(o.seconds >= o.dt)) return usage();
    for (size_t c = 0; c < sizeof KINDS / sizeof KINDS[0]; c++) {
        const kind *k = &KINDS[c];
        if (only != NULL && strcmp(only, k->name) != 0) continue;
        for (int i = 0; i < (count > 0 ? count : 4); i++) {
            int size = count > 0 ? sizes[i] : k->sizes[i];
            figures f = {0};
            qpc_error err = {0};
            if (size < 2 || size > 5000) return usage();
            if (run(k, size, &o, &f, &err) != QPC_OK) {
                fprintf(stderr, "%s %d: %s\n", k->name, size, err.message);
                return 1;
            }
            print(k, size, &f, o.check);
            if (f.crossings > 0 || f.unproven > 0) failures++;
            if (csv != NULL && !append_csv(csv, commit, &o, k, size, &f)) {
                fprintf(stderr, "%s: %s\n", csv, strerror(errno));
                failures++;
            }
        }
    }
    return failures > 0;
}
