/// A scene stepped several times over, each run measured the same way; times are then the median over the runs. In process, on
/// the calling thread.
#ifndef QPC_BENCH_STEP_RUN_H
#define QPC_BENCH_STEP_RUN_H

#include "tests/support/scenes.h"

// What is summed over a run, timed, and the worst of it; names of qpc_step_report.
#define BENCH_STEP_COUNTS(X)                                                                       \
    X(passes) X(newton) X(halvings) X(failsafe) X(contacts) X(rows) X(active) X(solver_iterations) \
    X(set_changes) X(factorizations) X(solves) X(fallbacks) X(candidates) X(vt_tests) X(ee_tests)  \
    X(hits) X(list_rebuilds) X(allocations)
#define BENCH_STEP_PHASES(X) X(ns_assemble) X(ns_detect) X(ns_rows) X(ns_solve) X(ns_certify)
#define BENCH_STEP_WORST(X) X(natural_ratio) X(err) X(energy_step) X(energy_drift) X(max_strain)

enum { BENCH_RUNS_MAX = 31 };

typedef struct bench_steps {
    int64_t steps;
    uint64_t hash;
#define MEMBER(name) int64_t name;
    BENCH_STEP_COUNTS(MEMBER)
#undef MEMBER
#define MEMBER(name) double name;
    BENCH_STEP_WORST(MEMBER)
    BENCH_STEP_PHASES(MEMBER) // mean of a step, us
#undef MEMBER
    double min_gap, penetration;
    int64_t crossings, contacts_max, rows_max, active_max, passes_max, world_bytes, arena_bytes;
    double median_us, p99_us, mean_us, wall_us, max_us; // of a step
} bench_steps;

/// check: every state goes to the independent checker, outside the time measured.
bool bench_steps_run(const qpc_value *scene, qpc_test_meshes *meshes, double seconds, bool check, bench_steps *ret,
                     qpc_error *err);
/// The median of every time; counts are those of the first.
bench_steps bench_steps_median(const bench_steps *runs, int count);
/// How many of the runs ended in another state than the first; each is told on standard error.
int bench_steps_differ(const char *name, const bench_steps *runs, int count);
/// The lines of times and phases.
void bench_steps_print_times(const bench_steps *r);

#endif
