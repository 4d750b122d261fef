/// The broad phase of surfaces, timed: sheets, an organ, a cable against a mesh that stands still,
/// growth with size, and a loose octree for comparison.
///
///     bench_broad [--rounds N] [--quick] [--commit ID] [--csv FILE]
///
/// Times are medians of thread CPU time. On two threads: the work of the longer one when slices are
/// taken in turn, and the best wall time, which needs an idle machine. Counts are exact and
/// the same in every round. See docs/benchmarks.md.
#include "bench/machine.h"
#include "bench/octree.h"
#include "bench/timing.h"
#include "engine/collision/broad_work.h"
#include "tests/support/surfaces.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST_ROUNDS = 101, STEPS = 120 };

typedef struct figures {
    const char *scene;
    int32_t triangles;
    double speed; // of the sequence, in mean edges a step; 0: cold
    int64_t vt, ee, fat;
    double box_tests, lists; // a step
    size_t bytes;
    double ms, two_ms, two_cpu_ms, boxes_ms, build_ms; // see write_csv
    double octree_ms, octree_build_ms, octree_tests;
} figures;

static int rounds = 15;
static FILE *csv;
static const char *commit = "unknown";

static double cpu(void) {
    return bench_ms(CLOCK_THREAD_CPUTIME_ID);
} // the machine may be shared
static double wall(void) {
    return bench_ms(CLOCK_MONOTONIC);
}

static void need(bool ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "bench_broad: %s\n", what);
    exit(1);
}

static void write_csv(const figures *f) {
    if (csv == NULL) return;
    if (ftell(csv) == 0)
        fprintf(csv, "cpu,compiler,commit,scene,triangles,edges_a_step,vt,ee,fat_pairs,box_tests,"
                     "lists_a_step,bytes,ms,two_threads_ms,two_threads_cpu_ms,boxes_refit_ms,"
                     "create_ms,octree_ms,"
                     "octree_build_ms,octree_box_tests\n");
    char model[256];
    bench_cpu(model, sizeof model);
    fprintf(csv, "%s,%s,%s,%s,%d,%g,%lld,%lld,%lld,%.0f,%.3f,%zu", model, bench_compiler(), commit,
            f->scene, (int)f->triangles, f->speed, (long long)f->vt, (long long)f->ee,
            (long long)f->fat, f->box_tests, f->lists, f->bytes);
    const double ms[] = {f->ms,       f->two_ms,    f->two_cpu_ms,     f->boxes_ms,
                         f->build_ms, f->octree_ms, f->octree_build_ms};
    for (size_t i = 0; i < sizeof ms / sizeof *ms; i++) {
        if (ms[i] > 0)
            fprintf(csv, ",%.3f", ms[i]);
        else
            fprintf(csv, ",");
    }
    if (f->octree_tests > 0)
        fprintf(csv, ",%.0f\n", f->octree_tests);
    else
        fprintf(csv, ",\n");
}

static void count_pairs(const qpc_broad *broad, figures *f) {
    f->vt = f->ee = 0;
    for (int32_t i = 0; i < qpc_broad_slice_count(broad); i++) {
        f->vt += qpc_broad_vt(broad, i)->count;
        f->ee += qpc_broad_ee(broad, i)->count;
    }
}

static qpc_broad *create(const surfaces_scene *s, double radius, double *ret_ms) {
    qpc_broad_surface surface = {QPC_DYNAMIC, 0, s->mesh, radius};
    qpc_broad *broad = NULL;
    qpc_error err = {0};
    double t = cpu();
    need(qpc_broad_create(&surface, 1, s->x0, 1 << 28, &broad, &err) == QPC_OK, err.message);
    if (ret_ms != NULL) *ret_ms = cpu() - t;
    return broad;
}

static void update(qpc_broad *broad, const double *x0, const double *x1,
                   const qpc_parallel *parallel) {
    qpc_error err = {0};
    need(qpc_broad_update(broad, x0, x1, 1, parallel, &err) == QPC_OK, err.message);
}

// ---- the octree's way ----

typedef struct octree_phase {
    const surfaces_scene *scene;
    double radius;
    const double *origin;
    qpc_fbox *box[KINDS];
    octree *triangles, *edges;
    qpc_items found;
    surfaces_pairs pairs;
    uint64_t tests;
} octree_phase;

static void join(const qpc_fbox *box, const int32_t *node, int count, qpc_fbox *ret) {
    qpc_f4 lo = f4_load(box[node[0]].lo), hi = f4_load(box[node[0]].hi);
    for (int k = 1; k < count; k++) {
        lo = f4_min(lo, f4_load(box[node[k]].lo));
        hi = f4_max(hi, f4_load(box[node[k]].hi));
    }
    f4_store(ret->lo, lo);
    f4_store(ret->hi, hi);
}

static void octree_boxes(octree_phase *o) {
    const surfaces_scene *s = o->scene;
    const qpc_topology *topo = qpc_mesh_topology(s->mesh);
    const int32_t *triangle = qpc_mesh_elements(s->mesh);
    for (int32_t i = 0; i < s->nodes; i++) {
        double lo[3], hi[3];
        for (int d = 0; d < 3; d++) {
            double a = s->x0[3 * i + d], b = s->x1[3 * i + d];
            lo[d] = (a < b ? a : b) - o->radius;
            hi[d] = (a < b ? b : a) + o->radius;
        }
        o->box[VERTEX][i] = qpc_fbox_around(lo, hi, o->origin);
    }
    for (int32_t t = 0; t < (int32_t)qpc_mesh_element_count(s->mesh); t++)
        join(o->box[VERTEX], triangle + 3 * t, 3, &o->box[TRIANGLE][t]);
    for (int32_t e = 0; e < topo->edge_count; e++)
        join(o->box[VERTEX], topo->edge_vertex + 2 * e, 2, &o->box[EDGE][e]);
}

static void octree_pairs(octree_phase *o) {
    const surfaces_scene *s = o->scene;
    const qpc_topology *topo = qpc_mesh_topology(s->mesh);
    const int32_t *triangle = qpc_mesh_elements(s->mesh);
    bool ok = true;
    o->pairs.vt.count = o->pairs.ee.count = 0;
    for (int32_t i = 0; i < s->nodes && ok; i++) {
        o->found.count = 0;
        ok = octree_query(o->triangles, &o->box[VERTEX][i], &o->found, &o->tests);
        for (int32_t k = 0; k < o->found.count && ok; k++) {
            const int32_t *v = triangle + 3 * o->found.data[k];
            if (v[0] != i && v[1] != i && v[2] != i)
                ok = qpc_array_push(&o->pairs.vt, ((qpc_pair){i, o->found.data[k]}));
        }
    }
    for (int32_t e = 0; e < topo->edge_count && ok; e++) {
        const int32_t *v = topo->edge_vertex + 2 * e;
        o->found.count = 0;
        ok = octree_query(o->edges, &o->box[EDGE][e], &o->found, &o->tests);
        for (int32_t k = 0; k < o->found.count && ok; k++) {
            int32_t f = o->found.data[k];
            const int32_t *w = topo->edge_vertex + 2 * f;
            if (f > e && v[0] != w[0] && v[0] != w[1] && v[1] != w[0] && v[1] != w[1])
                ok = qpc_array_push(&o->pairs.ee, ((qpc_pair){e, f}));
        }
    }
    need(ok, "out of memory");
}

static bool same_set(qpc_pairs *a, const qpc_pairs *b) {
    if (a->count != b->count) return false;
    qsort(a->data, (size_t)a->count, sizeof *a->data, surfaces_by_numbers);
    return a->count == 0 || memcmp(a->data, b->data, (size_t)a->count * sizeof *a->data) == 0;
}

/// The same pairs by octrees that are built anew each step; fails if they are not the same.
static void run_octree(const surfaces_scene *s, double radius, const qpc_broad *broad, figures *f) {
    octree_phase o = {.scene = s, .radius = radius, .origin = broad->origin};
    int32_t triangles = (int32_t)qpc_mesh_element_count(s->mesh),
            edges = qpc_mesh_topology(s->mesh)->edge_count;
    const int32_t count[KINDS] = {s->nodes, triangles, edges};
    for (int k = 0; k < KINDS; k++) o.box[k] = malloc((size_t)count[k] * sizeof *o.box[k]);
    o.triangles = octree_create(triangles);
    o.edges = octree_create(edges);
    need(o.box[VERTEX] != NULL && o.box[TRIANGLE] != NULL && o.box[EDGE] != NULL &&
             o.triangles != NULL && o.edges != NULL,
         "out of memory");
    double all[MOST_ROUNDS], build[MOST_ROUNDS];
    int n = rounds < 5 ? rounds : 5;
    for (int i = 0; i < n; i++) {
        double t = cpu();
        octree_boxes(&o);
        double b = cpu();
        need(octree_build(o.triangles, o.box[TRIANGLE]) && octree_build(o.edges, o.box[EDGE]),
             "out of memory");
        build[i] = cpu() - b;
        o.tests = 0;
        octree_pairs(&o);
        all[i] = cpu() - t;
    }
    f->octree_ms = bench_quantile(all, n, 0.5);
    f->octree_build_ms = bench_quantile(build, n, 0.5);
    f->octree_tests = (double)o.tests;
    surfaces_pairs found = {0};
    need(surfaces_found(broad, &found), "out of memory");
    need(same_set(&o.pairs.vt, &found.vt) && same_set(&o.pairs.ee, &found.ee),
         "octree and trees of boxes differ");
    surfaces_pairs_fini(&found);
    surfaces_pairs_fini(&o.pairs);
    qpc_array_fini(&o.found);
    octree_destroy(o.triangles);
    octree_destroy(o.edges);
    for (int k = 0; k < KINDS; k++) free(o.box[k]);
}

// ---- two threads on a busy machine ----

/// Slices one after the other, each timed, as if two threads took them in turn: how long the longer
/// one works. What joining costs is not in it, nor what others do on the machine.
typedef struct two_threads {
    double all, longer; // ms of CPU
} two_threads;

static void run_timed(void *user, int32_t slice_count, qpc_slice_fn *fn, void *data) {
    two_threads *two = user;
    double load[2] = {0, 0};
    for (int32_t i = 0; i < slice_count; i++) {
        double t = cpu();
        fn(data, i);
        load[load[1] < load[0]] += cpu() - t;
    }
    two->all += load[0] + load[1];
    two->longer += fmax(load[0], load[1]);
}

// ---- scenes ----

/// Everything made anew for one motion, on one thread and on two.
static void run_cold(const char *name, const surfaces_scene *s, double radius, bool with_octree,
                     const qpc_parallel *two) {
    figures f = {.scene = name, .triangles = (int32_t)qpc_mesh_element_count(s->mesh), .lists = 1};
    qpc_broad *broad = create(s, radius, &f.build_ms);
    double one[MOST_ROUNDS], pair[MOST_ROUNDS], halves[MOST_ROUNDS], boxes[MOST_ROUNDS];
    update(broad, s->x0, s->x1, NULL);
    for (int i = 0; i < rounds; i++) {
        qpc_broad_forget(broad);
        qpc_broad_counts_reset(broad);
        double t = cpu();
        update(broad, s->x0, s->x1, NULL);
        one[i] = cpu() - t;
        f.box_tests = (double)qpc_broad_get_counts(broad).box_tests;
        qpc_broad_forget(broad);
        t = wall();
        update(broad, s->x0, s->x1, two);
        pair[i] = wall() - t;
        qpc_broad_forget(broad);
        two_threads timed = {0, 0};
        t = cpu();
        update(broad, s->x0, s->x1, &(qpc_parallel){run_timed, &timed});
        halves[i] = cpu() - t - timed.all + timed.longer;
        bool inside;
        int32_t part;
        t = cpu();
        need(qpc_broad_boxes(broad, NULL, &inside, &part), "positions");
        qpc_broad_fatten(broad, NULL, false);
        boxes[i] = cpu() - t;
        qpc_broad_forget(broad);
    }
    update(broad, s->x0, s->x1, NULL);
    count_pairs(broad, &f);
    f.fat = (int64_t)qpc_broad_get_counts(broad).fat_pairs / 4; // updates since the reset
    f.bytes = qpc_broad_bytes(broad);
    f.ms = bench_quantile(one, rounds, 0.5);
    f.two_ms = pair[0]; // the best: other work on the machine counts against wall time
    for (int i = 0; i < rounds; i++) f.two_ms = fmin(f.two_ms, pair[i]);
    f.two_cpu_ms = bench_quantile(halves, rounds, 0.5);
    f.boxes_ms = bench_quantile(boxes, rounds, 0.5);
    if (with_octree) run_octree(s, radius, broad, &f);
    double pairs = (double)(f.vt + f.ee);
    printf("%-8s cold   %7d triangles: VT %lld + EE %lld pairs; %.2f ms on one thread, of which "
           "boxes and refit %.2f; on two %.2f (the longer one's work), %.2f wall at best; %.0f box "
           "tests, %.1f ns a pair\n",
           name, (int)f.triangles, (long long)f.vt, (long long)f.ee, f.ms, f.boxes_ms, f.two_cpu_ms,
           f.two_ms, f.box_tests, 1e6 * f.ms / pairs);
    if (with_octree)
        printf(
            "%-8s octree of the same pairs: %.2f ms, of which building %.2f; %.0f box tests: the "
            "trees are %.1f times as fast\n",
            name, f.octree_ms, f.octree_build_ms, f.octree_tests, f.octree_ms / f.ms);
    write_csv(&f);
    qpc_broad_destroy(broad);
    (void)fflush(stdout);
}

/// The scene in a slow, smooth flow of about `speed` mean edges a step at most.
static void flow(const surfaces_scene *s, double speed, int step, double *x) {
    double amplitude = 0.1, rate = speed * s->edge / amplitude, t = step * rate;
    for (int32_t i = 0; i < s->nodes; i++) {
        const double *p = s->x0 + 3 * i;
        x[3 * i] = p[0] + amplitude * sin(4 * p[1] + t);
        x[3 * i + 1] = p[1] + amplitude * 0.6 * sin(5 * p[2] + 1.3 * t);
        x[3 * i + 2] = p[2] + amplitude * sin(6 * p[0] + 3 * p[1] + 0.9 * t);
    }
}

static void run_sequence(const char *name, const surfaces_scene *s, double radius, double speed) {
    figures f = {
        .scene = name, .triangles = (int32_t)qpc_mesh_element_count(s->mesh), .speed = speed};
    size_t bytes = 3 * (size_t)s->nodes * sizeof(double);
    double *x0 = malloc(bytes), *x1 = malloc(bytes), worst = 0, sum = 0;
    need(x0 != NULL && x1 != NULL, "out of memory");
    qpc_broad *broad = create(s, radius, NULL);
    int warm = STEPS / 4;
    flow(s, speed, 0, x1);
    for (int step = 1; step <= STEPS + warm; step++) {
        if (step == warm + 1) qpc_broad_counts_reset(broad);
        memcpy(x0, x1, bytes);
        flow(s, speed, step, x1);
        double t = cpu();
        update(broad, x0, x1, NULL);
        t = cpu() - t;
        if (step > warm) sum += t, worst = fmax(worst, t);
    }
    qpc_broad_counts c = qpc_broad_get_counts(broad);
    count_pairs(broad, &f);
    f.ms = sum / STEPS;
    f.lists = (double)c.list_builds / STEPS;
    f.box_tests = (double)c.box_tests / STEPS;
    f.fat = (int64_t)(c.fat_pairs / (c.list_builds > 0 ? c.list_builds : 1));
    f.bytes = qpc_broad_bytes(broad);
    printf("%-8s moving %5.3f edges a step: %6.2f ms a step (mean of %d; worst %.2f), a list every "
           "%.1f steps; %lld pairs in fat lists, %.0f found\n",
           name, speed, f.ms, STEPS, worst, 1 / fmax(f.lists, 1.0 / STEPS), (long long)f.fat,
           (double)c.pairs / STEPS);
    write_csv(&f);
    qpc_broad_destroy(broad);
    free(x0);
    free(x1);
    (void)fflush(stdout);
}

/// Boxes of a cable's edges against the tree of a mesh that stands still.
static void run_cable(void) {
    surfaces_scene s;
    double x0[303], x1[303], origin[3] = {0, 0, 0}, time[MOST_ROUNDS];
    need(surfaces_torus(&s), "out of memory");
    surfaces_cable(x0, x1);
    int32_t n = (int32_t)qpc_mesh_element_count(s.mesh);
    const int32_t *triangle = qpc_mesh_elements(s.mesh);
    qpc_fbox *box = malloc((size_t)n * sizeof *box);
    need(box != NULL, "out of memory");
    for (int32_t t = 0; t < n; t++) {
        double lo[3] = {INFINITY, INFINITY, INFINITY}, hi[3] = {-INFINITY, -INFINITY, -INFINITY};
        for (int k = 0; k < 9; k++) {
            double x = s.x0[3 * triangle[3 * t + k / 3] + k % 3];
            lo[k % 3] = fmin(lo[k % 3], x);
            hi[k % 3] = fmax(hi[k % 3], x);
        }
        box[t] = qpc_fbox_around(lo, hi, origin);
    }
    qpc_bvh *bvh = NULL;
    qpc_error err = {0};
    double build = cpu();
    need(qpc_bvh_build(box, n, &bvh, &err) == QPC_OK, err.message);
    build = cpu() - build;
    qpc_items found = {0};
    uint64_t tests = 0;
    // Grown by a tenth of the mesh's edges, as the sheets are.
    double grow = 0.1 * s.edge;
    for (int i = 0; i < rounds; i++) {
        enum { REPEAT = 200 };
        double t = cpu();
        for (int r = 0; r < REPEAT; r++) {
            found.count = 0;
            tests = 0;
            // A little further each time, or the processor would learn the answers by heart.
            double along = (double)r / REPEAT - 0.5;
            for (int e = 0; e < 100; e++) {
                double lo[3], hi[3];
                for (int d = 0; d < 3; d++) {
                    const double *p = x0 + 3 * e + d, *q = x1 + 3 * e + d;
                    double l = p[0] < p[3] ? p[0] : p[3], m = q[0] < q[3] ? q[0] : q[3];
                    double h = p[0] < p[3] ? p[3] : p[0], k = q[0] < q[3] ? q[3] : q[0];
                    double shift = along * (x1[d] - x0[d]);
                    lo[d] = (l < m ? l : m) - grow + shift;
                    hi[d] = (h > k ? h : k) + grow + shift;
                }
                qpc_fbox b = qpc_fbox_around(lo, hi, origin);
                need(qpc_bvh_query(bvh, box, &b, &found, &tests) == QPC_OK, "out of memory");
            }
        }
        time[i] = (cpu() - t) / REPEAT;
    }
    figures f = {.scene = "cable",
                 .triangles = n,
                 .vt = found.count,
                 .box_tests = (double)tests,
                 .ms = bench_quantile(time, rounds, 0.5),
                 .build_ms = build};
    printf(
        "cable    100 edges against %d triangles: %d box pairs, %.0f box tests, %.2f us cold; tree "
        "built in %.2f ms\n",
        (int)n, (int)found.count, f.box_tests, 1e3 * f.ms, build);
    write_csv(&f);
    qpc_bvh_destroy(bvh);
    qpc_array_fini(&found);
    free(box);
    surfaces_scene_fini(&s);
}

static void run_scaling(bool quick) {
    const int side[4] = {56, 113, 225, 449};
    double base = 0;
    printf("draped sheets: creation, cold update per triangle and doubling, memory\n");
    for (int i = 0; i < (quick ? 2 : 4); i++) {
        surfaces_scene s;
        need(surfaces_drape(side[i], &s), "out of memory");
        double radius = 0.1 * s.edge, time[MOST_ROUNDS];
        figures f = {.scene = "scaling", .triangles = (int32_t)qpc_mesh_element_count(s.mesh)};
        qpc_broad *broad = create(&s, radius, &f.build_ms);
        for (int k = 0; k < rounds; k++) {
            qpc_broad_forget(broad);
            qpc_broad_counts_reset(broad);
            double t = cpu();
            update(broad, s.x0, s.x1, NULL);
            time[k] = cpu() - t;
        }
        f.ms = bench_quantile(time, rounds, 0.5);
        count_pairs(broad, &f);
        f.box_tests = (double)qpc_broad_get_counts(broad).box_tests;
        f.fat = (int64_t)qpc_broad_get_counts(broad).fat_pairs;
        f.bytes = qpc_broad_bytes(broad);
        f.lists = 1;
        double n = f.triangles, level = n * log2(n);
        if (i == 0) base = f.ms / level;
        printf("  %7d triangles: creation %.2f ms, update %.2f ms = %.2f x n log n of the first; "
               "%lld pairs (%.2f a triangle), %.1f box tests and %.0f bytes a triangle\n",
               (int)f.triangles, f.build_ms, f.ms, f.ms / level / base, (long long)(f.vt + f.ee),
               (double)(f.vt + f.ee) / n, f.box_tests / n, (double)f.bytes / n);
        write_csv(&f);
        qpc_broad_destroy(broad);
        surfaces_scene_fini(&s);
    }
}

static int usage(void) {
    fprintf(stderr, "usage: bench_broad [--rounds N] [--quick] [--commit ID] [--csv FILE]\n");
    return 2;
}

int main(int argc, char **argv) {
    const char *path = NULL;
    bool quick = false;
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--quick") == 0)
            quick = true;
        else if (strcmp(argv[i], "--rounds") == 0 && more)
            rounds = atoi(argv[++i]);
        else if (strcmp(argv[i], "--commit") == 0 && more)
            commit = argv[++i];
        else if (strcmp(argv[i], "--csv") == 0 && more)
            path = argv[++i];
        else
            return usage();
    }
    if (rounds < 1 || rounds > MOST_ROUNDS) return usage();
    if (path != NULL && (csv = fopen(path, "ae")) == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    char model[256];
    bench_cpu(model, sizeof model);
    printf("%s; %s; commit %s; medians of %d rounds\n", model, bench_compiler(), commit, rounds);
    qpc_team *team = NULL;
    qpc_error err = {0};
    need(qpc_team_create(1, &team, &err) == QPC_OK, err.message); // and the caller
    qpc_parallel two = qpc_team_parallel(team);
    run_cable();
    for (int i = 0; i < 3; i++) {
        static const char *const name[3] = {"drape", "rolled", "organ"};
        static const double speed[4] = {0.01, 0.03, 0.1, 0.3};
        surfaces_scene s;
        int n = quick ? 57 : 225;
        need(i == 0   ? surfaces_drape(n, &s)
             : i == 1 ? surfaces_rolled(n, &s)
                      : surfaces_organ(quick ? 3 : 5, &s),
             "out of memory");
        // The sheets that figures are compared with had the counts of 1 mm here.
        double radius = i == 0 && !quick ? 1e-3 : 0.1 * s.edge;
        run_cold(name[i], &s, radius, true, &two);
        for (int k = 0; k < 4; k++) run_sequence(name[i], &s, radius, speed[k]);
        surfaces_scene_fini(&s);
    }
    run_scaling(quick);
    qpc_team_destroy(team);
    return csv != NULL && fclose(csv) != 0;
}
