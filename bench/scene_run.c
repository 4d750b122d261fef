/// See scene_run.h.
#include "bench/scene_run.h"

#include "bench/machine.h"
#include "bench/timing.h"
#include "engine/solver/solver.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { REST_STEPS = 5 };

static void count_step(bench_scene_figures *f, const qpc_step_report *r) {
    f->mean_ms += 1e-6 * (double)r->ns_total;
    f->steps++;
#define ADD(name) f->name += r->name;
    BENCH_SCENE_COUNTS(ADD)
#undef ADD
#define ADD(name) f->name += 1e-6 * (double)r->name;
    BENCH_SCENE_PHASES(ADD)
#undef ADD
#define ADD(name) f->name = fmax(f->name, r->name);
    BENCH_SCENE_WORST(ADD)
#undef ADD
    f->unproven += 1 - r->proven;
    f->not_optimal += r->outcome != QPC_STEP_OPTIMAL;
    f->engine[r->rows > 0 && r->engine > 0 && r->engine < BENCH_SCENE_ENGINES ? r->engine : 0]++;
    f->min_gap = fmin(f->min_gap, r->min_gap);
    f->speed = r->max_speed;
    if (r->rows > f->rows_max) f->rows_max = r->rows;
    if (r->active > f->active_max) f->active_max = r->active;
}

static void finish(bench_scene_figures *f, double *ms, const qpc_watched *w) {
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    f->peak_bytes = 1024 * (int64_t)usage.ru_maxrss;
    for (int32_t i = 0; i < qpc_world_body_count(w->world); i++) {
        qpc_body_info body = qpc_world_body(w->world, i);
        if (body.moves) f->nodes += body.node_count;
        if (body.moves && body.nodes_per_element == 3) f->triangles += body.element_count;
    }
    f->hash = qpc_world_hash(w->world);
    f->world_bytes = (int64_t)qpc_world_memory(w->world);
    f->penetration = w->found.worst_penetration;
    f->crossings = w->found.crossings + w->found.intersections + w->found.undecided;
    f->mean_ms /= (double)f->steps;
#define MEAN(name) f->name /= (double)f->steps;
    BENCH_SCENE_PHASES(MEAN)
#undef MEAN
    f->median_ms = bench_quantile(ms, f->steps, 0.5);
    f->p99_ms = bench_quantile(ms, f->steps, 0.99);
    f->max_ms = ms[f->steps - 1];
}

static void print_step(const qpc_step_report *r, const qpc_watched *w) {
    printf("  %lld: %.1f ms (detect %.1f solve %.1f certify %.1f) rows %lld active %lld newton %lld passes %lld halvings %lld outcome "
           "%lld engine %lld iterations %lld factors %lld fallbacks %lld gap %.4f penetration %.4f speed %.2e; sticking %lld sliding "
           "%lld missed %lld natural %.1e\n",
           (long long)r->step, 1e-6 * (double)r->ns_total, 1e-6 * (double)r->ns_detect, 1e-6 * (double)r->ns_solve,
           1e-6 * (double)r->ns_certify, (long long)r->rows, (long long)r->active, (long long)r->newton, (long long)r->passes,
           (long long)r->halvings, (long long)r->outcome, (long long)r->engine, (long long)r->solver_iterations,
           (long long)r->factorizations, (long long)r->fallbacks, r->min_gap, w->found.worst_penetration, r->max_speed, (long long)r->sticking,
           (long long)r->sliding, (long long)r->friction_missed, r->friction_natural);
    (void)fflush(stdout);
}

qpc_status bench_scene_run(const qpc_value *scene, qpc_test_meshes *meshes, const bench_scene_options *o,
                           bench_scene_figures *ret, qpc_error *err) {
    qpc_watched w = {0};
    int64_t most = (int64_t)lround(o->seconds / o->dt), still = 0;
    double *ms = malloc((size_t)most * sizeof *ms);
    bench_scene_figures f = {.min_gap = 2};
    qpc_status st = ms != NULL ? qpc_watched_create(scene, meshes, &w, NULL, err)
                               : qpc_fail(err, QPC_ERR_MEMORY, "out of memory for %lld steps", (long long)most);
    while (st == QPC_OK && f.steps < most && still < REST_STEPS) {
        qpc_step_report r;
        if ((st = qpc_world_step(w.world, &r, err)) != QPC_OK) break;
        if (o->check) (void)qpc_check_scene_next(&w.check, qpc_world_positions(w.world), &w.found);
        ms[f.steps] = 1e-6 * (double)r.ns_total;
        count_step(&f, &r);
        still = r.active > 0 && r.max_speed < o->rest_speed ? still + 1 : 0;
        if (o->verbose) print_step(&r, &w);
    }
    if (st == QPC_OK) finish(&f, ms, &w);
    if (st == QPC_OK) *ret = f;
    if (w.world != NULL) qpc_watched_fini(&w);
    free(ms);
    return st;
}

void bench_scene_print(const char *name, const bench_scene_figures *f, bool check) {
    printf("%s: %lld nodes and %lld triangles that move, %lld steps, state %016llx\n", name, (long long)f->nodes,
           (long long)f->triangles, (long long)f->steps, (unsigned long long)f->hash);
    printf("  step, thread CPU ms: median %.2f  p99 %.2f  mean %.2f  max %.2f; by phase, mean:", f->median_ms, f->p99_ms, f->mean_ms,
           f->max_ms);
#define SHOW(name) printf(" %s %.2f", &#name[3], f->name);
    BENCH_SCENE_PHASES(SHOW)
#undef SHOW
    printf("\n  a step, mean:");
#define SHOW(name) printf(" %s %.4g", #name, (double)f->name / (double)f->steps);
    BENCH_SCENE_COUNTS(SHOW)
#undef SHOW
    printf("\n  most: rows %lld active %lld; answered, steps:", (long long)f->rows_max, (long long)f->active_max);
    for (int i = 1; i < BENCH_SCENE_ENGINES; i++)
        if (f->engine[i] > 0) printf(" %s %lld", qpc_solver_name((qpc_solver_id)i), (long long)f->engine[i]);
    printf("\n  worst:");
#define SHOW(name) printf(" %s %.1e", #name, f->name);
    BENCH_SCENE_WORST(SHOW)
#undef SHOW
    printf("; min gap %.4f; speed at the end %.1e; not optimal %lld; not proven %lld\n  memory of the world %.1f MB, peak of the process "
           "%.1f MB\n",
           f->min_gap, f->speed, (long long)f->not_optimal, (long long)f->unproven, 1e-6 * (double)f->world_bytes,
           1e-6 * (double)f->peak_bytes);
    if (check)
        printf("  independent check: %lld crossings or intersections, penetration %.4f\n", (long long)f->crossings, f->penetration);
    (void)fflush(stdout);
}

static bool append_csv(const char *name, const bench_scene_figures *f, const bench_scene_options *o) {
    FILE *out = fopen(o->csv, "ae");
    if (out == NULL) return false;
    if (ftell(out) == 0) {
        fprintf(out, "cpu,compiler,commit,scene,dt,steps,hash,nodes,triangles,rows_max,active_max");
#define HEAD(name) fprintf(out, ",%s", #name);
        BENCH_SCENE_COUNTS(HEAD)
        for (int i = 1; i < BENCH_SCENE_ENGINES; i++) fprintf(out, ",by_%s", qpc_solver_name((qpc_solver_id)i));
        fprintf(out, ",not_optimal,unproven,crossings,world_bytes,peak_bytes,min_gap,penetration,speed");
        BENCH_SCENE_WORST(HEAD)
        fprintf(out, ",median_ms,p99_ms,mean_ms,max_ms");
        BENCH_SCENE_PHASES(HEAD)
#undef HEAD
        fprintf(out, "\n");
    }
    char cpu[256], crossings[32] = ""; // empty: nobody looked
    bench_cpu(cpu, sizeof cpu);
    if (o->check) (void)snprintf(crossings, sizeof crossings, "%lld", (long long)f->crossings);
    fprintf(out, "%s,%s,%s,%s,%g,%lld,%016llx,%lld,%lld,%lld,%lld", cpu, bench_compiler(), o->commit, name, o->dt, (long long)f->steps,
            (unsigned long long)f->hash, (long long)f->nodes, (long long)f->triangles, (long long)f->rows_max,
            (long long)f->active_max);
#define VALUE(name) fprintf(out, ",%lld", (long long)f->name);
    BENCH_SCENE_COUNTS(VALUE)
#undef VALUE
    for (int i = 1; i < BENCH_SCENE_ENGINES; i++) fprintf(out, ",%lld", (long long)f->engine[i]);
    fprintf(out, ",%lld,%lld,%s,%lld,%lld,%.6f,%.6f,%.3e", (long long)f->not_optimal, (long long)f->unproven, crossings,
            (long long)f->world_bytes, (long long)f->peak_bytes, f->min_gap, f->penetration, f->speed);
#define VALUE(name) fprintf(out, ",%.3e", f->name);
    BENCH_SCENE_WORST(VALUE)
#undef VALUE
    fprintf(out, ",%.2f,%.2f,%.2f,%.2f", f->median_ms, f->p99_ms, f->mean_ms, f->max_ms);
#define VALUE(name) fprintf(out, ",%.3f", f->name);
    BENCH_SCENE_PHASES(VALUE)
#undef VALUE
    fprintf(out, "\n");
    return fclose(out) == 0;
}

int bench_scene_report(const char *name, const bench_scene_figures *f, const bench_scene_options *o) {
    int failures = f->crossings > 0 || f->unproven > 0;
    bench_scene_print(name, f, o->check);
    if (o->csv != NULL && !append_csv(name, f, o)) {
        fprintf(stderr, "%s: %s\n", o->csv, strerror(errno));
        failures++;
    }
    return failures;
}

int bench_scene_option(int argc, char **argv, int *i, bench_scene_options *o) {
    bool more = *i + 1 < argc;
    const char *name = argv[*i];
    if (strcmp(name, "--check") == 0) o->check = true;
    else if (strcmp(name, "--verbose") == 0) o->verbose = true;
    else if (strcmp(name, "--seconds") == 0 && more) o->seconds = atof(argv[++*i]);
    else if (strcmp(name, "--dt") == 0 && more) o->dt = atof(argv[++*i]);
    else if (strcmp(name, "--commit") == 0 && more) o->commit = argv[++*i];
    else if (strcmp(name, "--csv") == 0 && more) o->csv = argv[++*i];
    else return 0;
    return 1;
}
