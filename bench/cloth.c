/// How a step grows with cloth: a sheet, folded over once, falls on a torus of 70,000 triangles and with its upper half on
/// its lower one. In process, one thread, default settings.
///
///     bench_cloth [--cells N]... [--seconds S] [--dt S] [--commit ID] [--csv FILE] [--check] [--verbose]
///
/// The sheet is 1 m wide, 0.2 kg/m2, 500 N/m, of N x N cells (2 N^2 triangles; without --cells 28, 56, 112 and 224) and
/// 0.4 edges thick. Times are thread CPU time; counts are exact. --check hands every state to the independent checker,
/// outside the time measured, and fails if anything crossed. See docs/benchmarks.md.
#include "bench/machine.h"
#include "bench/timing.h"
#include "base/mem.h"
#include "tests/support/deforming.h"
#include "tests/support/scenes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { CASES_MOST = 16 };

typedef struct options {
    double dt, seconds;
    bool check, verbose;
} options;

#define COUNTS(X)                                                                                  \
    X(passes) X(newton) X(halvings) X(failsafe) X(contacts) X(rows) X(active) X(solver_iterations) \
    X(factorizations) X(solves) X(fallbacks) X(candidates) X(vt_tests) X(ee_tests) X(hits)
#define PHASES(X) X(ns_assemble) X(ns_detect) X(ns_rows) X(ns_solve) X(ns_certify)

typedef struct figures {
    int64_t steps, nodes, triangles, rows_max, active_max, world_bytes, peak_bytes, unproven, not_optimal, crossings;
    uint64_t hash;
    double median_ms, p99_ms, mean_ms, max_ms, min_gap, energy_drift, penetration, natural_ratio;
#define MEMBER(name) int64_t name;
    COUNTS(MEMBER)
#undef MEMBER
#define MEMBER(name) double name; // mean of a step, ms
    PHASES(MEMBER)
#undef MEMBER
} figures;

static qpc_status put(qpc_value *map, const char *key, qpc_value v) { return qpc_map_set(map, key, v); }
static qpc_value text(const char *c) {
    qpc_value v = qpc_nil();
    (void)qpc_text_copy(c, &v);
    return v;
}

static qpc_status add_mesh(qpc_test_meshes *meshes, const generated *g, qpc_value *body, qpc_error *err) {
    char hex[65];
    qpc_status st = qpc_test_meshes_add(meshes, g->x.data, g->x.count / 3, g->triangle.data, g->triangle.count / 3, hex, err);
    qpc_value mesh = qpc_map();
    if (st == QPC_OK) st = put(&mesh, "sha256", text(hex));
    return st == QPC_OK ? put(body, "mesh", mesh) : st;
}

static qpc_status make_scene(int cells, double dt, qpc_test_meshes *meshes, qpc_value *ret, qpc_error *err) {
    generated torus = {0}, sheet = {0};
    double pi = acos(-1.0), r = 0.2 / cells;
    if (!generate_torus(&torus, 350, 100, 0.35, 0.12, 0.005) || !generate_sheet(&sheet, cells, cells, 1.0 / cells, 0, 0))
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    int32_t count = sheet.x.count / 3;
    int64_t shape[2] = {count, 3};
    double *x = malloc(3 * sizeof *x * (size_t)count);
    if (x == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    sheet_fold(sheet.x.data, count, 0.5, 0.9 * pi, 2 * r, x);
    for (int32_t i = 0; i < count; i++) {
        x[3 * i] -= 0.5;
        x[3 * i + 1] -= 0.5;
        x[3 * i + 2] += 0.12 + 12 * r;
    }
    qpc_value scene = qpc_map(), bodies = qpc_list(), cloth = qpc_map(), solid = qpc_map(), nodes = qpc_nil(), g = qpc_list();
    qpc_status st = add_mesh(meshes, &sheet, &cloth, err);
    if (st == QPC_OK) st = add_mesh(meshes, &torus, &solid, err);
    if (st == QPC_OK) st = qpc_tensor_copy(QPC_F64, 2, shape, x, &nodes);
    for (int k = 0; k < 3 && st == QPC_OK; k++) st = qpc_list_push(&g, qpc_real(k == 2 ? -9.81 : 0));
    if (st == QPC_OK) st = put(&cloth, "kind", text("cloth"));
    if (st == QPC_OK) st = put(&cloth, "nodes", nodes);
    if (st == QPC_OK) st = put(&cloth, "radius", qpc_real(r));
    if (st == QPC_OK) st = put(&cloth, "area_density", qpc_real(0.2));
    if (st == QPC_OK) st = put(&cloth, "membrane_stiffness", qpc_real(500));
    if (st == QPC_OK) st = put(&cloth, "bending_stiffness", qpc_real(0.5));
    if (st == QPC_OK) st = put(&solid, "kind", text("static"));
    if (st == QPC_OK) st = qpc_list_push(&bodies, cloth);
    if (st == QPC_OK) st = qpc_list_push(&bodies, solid);
    if (st == QPC_OK) st = put(&scene, "dt", qpc_real(dt));
    if (st == QPC_OK) st = put(&scene, "gravity", g);
    if (st == QPC_OK) st = put(&scene, "bodies", bodies);
    free(x);
    generated_fini(&torus);
    generated_fini(&sheet);
    if (st == QPC_OK) *ret = scene;
    return st;
}

static void count_step(figures *f, const qpc_step_report *r, double steps) {
    f->mean_ms += 1e-6 * (double)r->ns_total / steps;
#define ADD(name) f->name += r->name;
    COUNTS(ADD)
#undef ADD
#define ADD(name) f->name += 1e-6 * (double)r->name / steps;
    PHASES(ADD)
#undef ADD
    f->unproven += 1 - r->proven;
    f->not_optimal += r->outcome != QPC_STEP_OPTIMAL;
    f->min_gap = fmin(f->min_gap, r->min_gap);
    f->energy_drift = fmax(f->energy_drift, r->energy_drift);
    f->natural_ratio = fmax(f->natural_ratio, r->natural_ratio);
    if (r->rows > f->rows_max) f->rows_max = r->rows;
    if (r->active > f->active_max) f->active_max = r->active;
}

static qpc_status run(int cells, const options *o, figures *ret, qpc_error *err) {
    qpc_test_meshes *meshes = qpc_test_meshes_create();
    qpc_value scene = qpc_nil();
    qpc_watched w = {0};
    int64_t steps = (int64_t)lround(o->seconds / o->dt);
    double *ms = malloc((size_t)steps * sizeof *ms + 1);
    *ret = (figures){.steps = steps, .min_gap = 2};
    qpc_status st = make_scene(cells, o->dt, meshes, &scene, err);
    if (st == QPC_OK) st = qpc_watched_create(&scene, meshes, &w, NULL, err);
    for (int64_t i = 0; i < steps && st == QPC_OK; i++) {
        qpc_step_report r;
        if ((st = qpc_world_step(w.world, &r, err)) != QPC_OK) break;
        if (o->check) (void)qpc_check_scene_next(&w.check, qpc_world_positions(w.world), &w.found);
        ms[i] = 1e-6 * (double)r.ns_total;
        count_step(ret, &r, (double)steps);
        if (!o->verbose) continue;
        printf("  %lld: %.0f ms (detect %.0f solve %.0f) rows %lld active %lld newton %lld passes %lld halvings %lld outcome %lld gap "
               "%.4f penetration %.4f speed %.2f\n",
               (long long)r.step, ms[i], 1e-6 * (double)r.ns_detect, 1e-6 * (double)r.ns_solve, (long long)r.rows,
               (long long)r.active, (long long)r.newton, (long long)r.passes, (long long)r.halvings, (long long)r.outcome,
               r.min_gap, w.found.worst_penetration, r.max_speed);
        (void)fflush(stdout);
    }
    if (st == QPC_OK) {
        struct rusage usage;
        (void)getrusage(RUSAGE_SELF, &usage);
        ret->nodes = qpc_world_body(w.world, 0).node_count;
        ret->triangles = qpc_world_body(w.world, 0).element_count;
        ret->hash = qpc_world_hash(w.world);
        ret->world_bytes = (int64_t)qpc_world_memory(w.world);
        ret->peak_bytes = 1024 * (int64_t)usage.ru_maxrss;
        ret->penetration = w.found.worst_penetration;
        ret->crossings = w.found.crossings + w.found.intersections + w.found.undecided;
        ret->median_ms = bench_quantile(ms, steps, 0.5);
        ret->p99_ms = bench_quantile(ms, steps, 0.99);
        ret->max_ms = ms[steps - 1];
    }
    if (w.world != NULL) qpc_watched_fini(&w);
    free(ms);
    qpc_value_fini(&scene);
    qpc_test_meshes_destroy(meshes);
    return st;
}

static void print(int cells, const figures *f, bool check) {
    double n = (double)f->steps;
    printf("%d x %d cells, %lld triangles, %lld nodes: %lld steps, state %016llx\n", cells, cells, (long long)f->triangles,
           (long long)f->nodes, (long long)f->steps, (unsigned long long)f->hash);
    printf("  step, thread CPU ms: median %.2f  p99 %.2f  mean %.2f  max %.2f; by phase, mean:", f->median_ms, f->p99_ms,
           f->mean_ms, f->max_ms);
#define SHOW(name) printf(" %s %.2f", &#name[3], f->name);
    PHASES(SHOW)
#undef SHOW
    printf("\n  a step, mean:");
#define SHOW(name) printf(" %s %.4g", #name, (double)f->name / n);
    COUNTS(SHOW)
#undef SHOW
    printf("\n  most: rows %lld active %lld; min gap %.4f; drift %.1e; natural residual %.1e r/dt; not optimal %lld; not proven "
           "%lld; memory of the world %.1f MB, peak of the process %.1f MB\n",
           (long long)f->rows_max, (long long)f->active_max, f->min_gap, f->energy_drift, f->natural_ratio,
           (long long)f->not_optimal, (long long)f->unproven, 1e-6 * (double)f->world_bytes, 1e-6 * (double)f->peak_bytes);
    if (check)
        printf("  independent check: %lld crossings or intersections, penetration %.4f\n", (long long)f->crossings, f->penetration);
    (void)fflush(stdout);
}

static bool append_csv(const char *path, const char *commit, const options *o, int cells, const figures *f) {
    FILE *out = fopen(path, "ae");
    if (out == NULL) return false;
    if (ftell(out) == 0) {
        fprintf(out, "cpu,compiler,commit,scene,dt,steps,hash,triangles,static_triangles");
#define HEAD(name) fprintf(out, ",%s", #name);
        COUNTS(HEAD)
        fprintf(out, ",rows_max,active_max,not_optimal,unproven,min_gap,energy_drift,natural_ratio,world_bytes,peak_bytes,median_ms,"
                     "p99_ms,mean_ms,max_ms");
        PHASES(HEAD)
#undef HEAD
        fprintf(out, "\n");
    }
    char cpu[256];
    bench_cpu(cpu, sizeof cpu);
    fprintf(out, "%s,%s,%s,fold-%d,%g,%lld,%016llx,%lld,70000", cpu, bench_compiler(), commit, cells, o->dt, (long long)f->steps,
            (unsigned long long)f->hash, (long long)f->triangles);
#define VALUE(name) fprintf(out, ",%lld", (long long)f->name);
    COUNTS(VALUE)
    VALUE(rows_max)
    VALUE(active_max)
    VALUE(not_optimal)
    VALUE(unproven)
#undef VALUE
    fprintf(out, ",%.17g,%.3e,%.3e,%lld,%lld,%.2f,%.2f,%.2f,%.2f", f->min_gap, f->energy_drift, f->natural_ratio,
            (long long)f->world_bytes, (long long)f->peak_bytes, f->median_ms, f->p99_ms, f->mean_ms, f->max_ms);
#define VALUE(name) fprintf(out, ",%.3f", f->name);
    PHASES(VALUE)
#undef VALUE
    fprintf(out, "\n");
    return fclose(out) == 0;
}

static int usage(void) {
    fprintf(stderr, "usage: bench_cloth [--cells N]... [--seconds S] [--dt S] [--commit ID] [--csv FILE] [--check] [--verbose]\n");
    return 2;
}

int main(int argc, char **argv) {
    const char *commit = "unknown", *csv = NULL;
    int cells[CASES_MOST] = {28, 56, 112, 224}, count = 0, failures = 0;
    options o = {.dt = 0.005, .seconds = 0.1};
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--check") == 0) o.check = true;
        else if (strcmp(argv[i], "--verbose") == 0) o.verbose = true;
        else if (strcmp(argv[i], "--cells") == 0 && more && count < CASES_MOST) cells[count++] = atoi(argv[++i]);
        else if (strcmp(argv[i], "--seconds") == 0 && more) o.seconds = atof(argv[++i]);
        else if (strcmp(argv[i], "--dt") == 0 && more) o.dt = atof(argv[++i]);
        else if (strcmp(argv[i], "--commit") == 0 && more) commit = argv[++i];
        else if (strcmp(argv[i], "--csv") == 0 && more) csv = argv[++i];
        else return usage();
    }
    if (count == 0) count = 4;
    if (!(o.dt > 0) || !(o.seconds >= o.dt)) return usage();
    for (int k = 0; k < count; k++) {
        figures f;
        qpc_error err = {0};
        if (cells[k] < 2 || cells[k] > 1000) return usage();
        if (run(cells[k], &o, &f, &err) != QPC_OK) {
            fprintf(stderr, "%d cells: %s\n", cells[k], err.message);
            return 1;
        }
        print(cells[k], &f, o.check);
        if (f.crossings > 0 || f.unproven > 0) failures++;
        if (csv != NULL && !append_csv(csv, commit, &o, cells[k], &f)) {
            fprintf(stderr, "%s: %s\n", csv, strerror(errno));
            failures++;
        }
    }
    return failures > 0;
}
