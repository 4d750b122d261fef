/// See step_run.h.
#include "bench/step_run.h"

#include "bench/timing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void count_step(bench_steps *f, const qpc_step_report *r, double steps) {
    f->mean_us += 1e-3 * (double)r->ns_total / steps;
    f->wall_us += 1e-3 * (double)r->ns_wall / steps;
#define ADD(name) f->name += r->name;
    BENCH_STEP_COUNTS(ADD)
#undef ADD
#define ADD(name) f->name += 1e-3 * (double)r->name / steps;
    BENCH_STEP_PHASES(ADD)
#undef ADD
#define MOST(name) f->name = fmax(f->name, r->name);
    BENCH_STEP_WORST(MOST)
#undef MOST
    f->min_gap = fmin(f->min_gap, r->min_gap);
    if (r->contacts > f->contacts_max) f->contacts_max = r->contacts;
    if (r->rows > f->rows_max) f->rows_max = r->rows;
    if (r->active > f->active_max) f->active_max = r->active;
    if (r->passes > f->passes_max) f->passes_max = r->passes;
    if (r->arena_bytes > f->arena_bytes) f->arena_bytes = r->arena_bytes;
}

bool bench_steps_run(const qpc_value *scene, qpc_test_meshes *meshes, double seconds, bool check, bench_steps *ret,
                     qpc_error *err) {
    qpc_watched w;
    if (qpc_watched_create(scene, meshes, &w, NULL, err) != QPC_OK) return false;
    int64_t steps = (int64_t)lround(seconds / qpc_world_dt(w.world));
    double *us = malloc((size_t)steps * sizeof *us + 1);
    bench_steps f = {.steps = steps, .min_gap = 2};
    bool ok = us != NULL;
    if (!ok) qpc_fail(err, QPC_ERR_MEMORY, "out of memory for %lld steps", (long long)steps);
    for (int64_t i = 0; ok && i < steps; i++) {
        qpc_step_report r;
        ok = qpc_world_step(w.world, &r, err) == QPC_OK;
        if (!ok) break;
        if (check) (void)qpc_check_scene_next(&w.check, qpc_world_positions(w.world), &w.found);
        us[i] = 1e-3 * (double)r.ns_total;
        count_step(&f, &r, (double)steps);
    }
    if (ok && steps > 0) {
        f.hash = qpc_world_hash(w.world);
        f.world_bytes = (int64_t)qpc_world_memory(w.world);
        f.penetration = w.found.worst_penetration;
        f.crossings = w.found.crossings + w.found.intersections + w.found.undecided;
        f.median_us = bench_quantile(us, steps, 0.5);
        f.p99_us = bench_quantile(us, steps, 0.99);
        f.max_us = us[steps - 1];
    }
    if (ok) *ret = f;
    qpc_watched_fini(&w);
    free(us);
    return ok;
}

bench_steps bench_steps_median(const bench_steps *runs, int count) {
    bench_steps s = runs[0];
    double v[BENCH_RUNS_MAX];
#define TIME(name)                                                                                 \
    for (int i = 0; i < count; i++) v[i] = runs[i].name;                                           \
    s.name = bench_quantile(v, count, 0.5);
    TIME(median_us)
    TIME(p99_us)
    TIME(mean_us)
    TIME(wall_us)
    TIME(max_us)
    BENCH_STEP_PHASES(TIME)
#undef TIME
    return s;
}

int bench_steps_differ(const char *name, const bench_steps *runs, int count) {
    int differ = 0;
    for (int i = 1; i < count; i++) {
        if (runs[i].hash == runs[0].hash) continue;
        fprintf(stderr, "%s: two runs ended in different states\n", name);
        differ++;
    }
    return differ;
}

void bench_steps_print_times(const bench_steps *r) {
    printf("  step, thread CPU ms: median %.3f  p99 %.3f  mean %.3f  max %.3f   (wall mean %.3f)\n", 1e-3 * r->median_us,
           1e-3 * r->p99_us, 1e-3 * r->mean_us, 1e-3 * r->max_us, 1e-3 * r->wall_us);
    printf("  by phase, mean us:");
#define SHOW(name) printf(" %s %.1f", &#name[3], r->name);
    BENCH_STEP_PHASES(SHOW)
#undef SHOW
}
