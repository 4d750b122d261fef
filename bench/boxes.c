/// Rigid boxes of 10 cm, friction 0.5: at rest, at rest on what creeps, and falling on each other.
///
///     bench_boxes [--boxes N] [--seconds S] [--dt S] [--commit ID] [--csv FILE] [--check] [--verbose]
///
/// stack: N boxes (default 20) on each other, on a static floor. creep: the same on a floor that is driven up at 1 nm/s: every step
/// is almost the one before, and no position is the same to the bit. heap: N boxes turned at random (fixed seed) fall from a grid.
/// Counts are exact; times are thread CPU time. See docs/benchmarks.md.
#include "bench/scene_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 16, MOST = 200 };

static char text[ROOM];
static size_t used;

static void put(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void put(const char *format, ...) {
    va_list list;
    va_start(list, format);
    int n = vsnprintf(text + used, ROOM - used, format, list);
    va_end(list);
    if (n < 0 || used + (size_t)n >= ROOM) exit(1);
    used += (size_t)n;
}

static double uniform(uint64_t *seed) { // [-1, 1)
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) * 0x1p-52 - 1;
}

static void put_box(double x, double y, double z, const double q[4]) {
    put(",{'kind':'rigid','mesh':{'generate':{'kind':'box','width':0.1,'height':0.1,'depth':0.1}},'radius':0.001,'density':1000,"
        "'position':[%.17g,%.17g,%.17g],'rotation':[%.17g,%.17g,%.17g,%.17g]}",
        x, y, z, q[0], q[1], q[2], q[3]);
}

static void make(const char *name, int boxes, double dt) {
    static const double upright[4] = {1, 0, 0, 0};
    uint64_t seed = 2006;
    used = 0;
    put("{'dt':%g,'contacts':{'friction':0.5},'record':{'frames':0},'bodies':[{'kind':'%s','radius':0.001,'position':[0,-0.05,0]%s,"
        "'mesh':{'generate':{'kind':'box','width':2,'height':0.1,'depth':2}}}",
        dt, strcmp(name, "creep") == 0 ? "kinematic" : "static", strcmp(name, "creep") == 0 ? ",'velocity':[0,1e-9,0]" : "");
    for (int i = 0; i < boxes; i++) {
        if (strcmp(name, "heap") != 0) {
            put_box(0, 0.052 + 0.102 * i, 0, upright);
            continue;
        }
        double q[4];
        for (int k = 0; k < 4; k++) q[k] = uniform(&seed); // scenes take any length
        put_box(0.2 * (i % 3 - 1), 0.12 + 0.2 * (i / 6), 0.2 * (i / 3 % 2) - 0.1, q);
    }
    put("]}");
}

int main(int argc, char **argv) {
    static const char *const names[] = {"stack", "creep", "heap"};
    bench_scene_options o = {.dt = 0.005, .seconds = 2, .commit = "unknown"};
    int boxes = 20, failures = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--boxes") == 0 && i + 1 < argc) boxes = atoi(argv[++i]);
        else if (!bench_scene_option(argc, argv, &i, &o)) boxes = 0;
    }
    if (boxes < 1 || boxes > MOST) return fprintf(stderr, "usage: bench_boxes [--boxes N] " BENCH_SCENE_USAGE "\n"), 2;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        qpc_test_meshes *meshes = qpc_test_meshes_create();
        qpc_value scene = qpc_nil();
        qpc_error err = {0};
        bench_scene_figures f;
        char name[64];
        make(names[k], boxes, o.dt);
        (void)snprintf(name, sizeof name, "%s-%d", names[k], boxes);
        qpc_status st = qpc_test_scene_text(text, meshes, &scene, &err);
        if (st == QPC_OK) st = bench_scene_run(&scene, meshes, &o, &f, &err);
        if (st == QPC_OK) failures += bench_scene_report(name, &f, &o);
        else failures += fprintf(stderr, "%s: %s\n", name, err.message) > 0;
        qpc_value_fini(&scene);
        qpc_test_meshes_destroy(meshes);
    }
    return failures > 0;
}
