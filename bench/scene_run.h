/// A scene stepped at several sizes: what each run is measured by, its lines for people and its row of CSV. In process, on
/// the calling thread.
#ifndef QPC_BENCH_SCENE_RUN_H
#define QPC_BENCH_SCENE_RUN_H

#include "tests/support/scenes.h"

typedef struct bench_scene_options {
    double dt, seconds;  // s; the scene has dt in it as well
    double rest_speed;   // m/s: slower than that in contact for five steps ends a run; 0: never
    bool check, verbose; // by the independent checker, outside the time measured; a line a step
    const char *commit, *csv;
} bench_scene_options;

#define BENCH_SCENE_COUNTS(X)                                                                      \
    X(passes) X(newton) X(qps) X(halvings) X(failsafe) X(contacts) X(rows) X(active)               \
    X(solver_iterations) X(set_changes) X(factorizations) X(solves) X(fallbacks) X(candidates)     \
    X(vt_tests) X(ee_tests) X(hits) X(sticking) X(sliding) X(friction_missed)
#define BENCH_SCENE_PHASES(X) X(ns_assemble) X(ns_detect) X(ns_rows) X(ns_solve) X(ns_certify)
#define BENCH_SCENE_WORST(X)                                                                       \
    X(stat) X(prim) X(comp) X(natural_ratio) X(violation) X(energy_drift) X(max_strain)

enum { BENCH_SCENE_ENGINES = 6 };
typedef struct bench_scene_figures {
    int64_t steps, nodes, triangles, rows_max, active_max, not_optimal, unproven, crossings, world_bytes, peak_bytes;
    int64_t engine[BENCH_SCENE_ENGINES]; // steps whose answer came from each
    uint64_t hash;
    double median_ms, p99_ms, mean_ms, max_ms, min_gap, penetration, speed;
#define MEMBER(name) int64_t name;
    BENCH_SCENE_COUNTS(MEMBER)
#undef MEMBER
#define MEMBER(name) double name; // mean of a step, ms; worst of a run
    BENCH_SCENE_PHASES(MEMBER) BENCH_SCENE_WORST(MEMBER)
#undef MEMBER
} bench_scene_figures;

qpc_status bench_scene_run(const qpc_value *scene, qpc_test_meshes *meshes, const bench_scene_options *o,
                           bench_scene_figures *ret, qpc_error *err);
void bench_scene_print(const char *name, const bench_scene_figures *f, bool check);
/// Prints, appends a row if asked; the number of things that went wrong (a crossing, a step not proven, a file).
int bench_scene_report(const char *name, const bench_scene_figures *f, const bench_scene_options *o);

/// An option that every such program has: 1 taken (with *i moved on), 0 not one of them.
int bench_scene_option(int argc, char **argv, int *i, bench_scene_options *o);
#define BENCH_SCENE_USAGE "[--seconds S] [--dt S] [--commit ID] [--csv FILE] [--check] [--verbose]"

#endif
