// Large QPs, cold: walls of rigid bricks in four sizes, sheets in four, one engine.
//
//     bench_interior [--engine NAME] [--runs N] [--commit ID] [--csv FILE] [--only wall|sheet]
//
// bench/wall.h makes them. Thread CPU time of the whole: order and factor of K, and the solve with
// everything that it sets up; the least of N runs. Counts and bytes are exact. Ends with status 1
// if a certificate is above 1e-9 (comp: 1e-12). docs/benchmarks.md.
#include "base/mem.h"
#include "bench/machine.h"
#include "bench/timing.h"
#include "bench/wall.h"
#include "engine/solver/certificate.h"
#include "engine/solver/solver.h"

#include <sys/resource.h>

typedef struct size_case {
    const char *name;
    int32_t a, b; // columns and courses of a wall; side of a sheet and one row in so many nodes
} size_case;

static const size_case SIZES[] = {
    {"wall-15x12", 15, 12},     {"wall-30x25", 30, 25}, {"wall-60x50", 60, 50},
    {"wall-120x100", 120, 100}, {"sheet-46", 46, 3},    {"sheet-92", 92, 3},
    {"sheet-130", 130, 3},      {"sheet-184", 184, 3},
};

static const double JITTER = 0.05; // m/s: what gravity does in a step

typedef struct options {
    const char *commit, *csv, *only;
    qpc_solver_id engine;
    int runs;
} options;

static void check(qpc_status status, const qpc_error *err) {
    if (status == QPC_OK) return;
    fprintf(stderr, "bench_interior: %s: %s\n", qpc_status_name(status), err->message);
    exit(1);
}

static bool run(const size_case *c, const options *o, FILE *csv, const char *cpu) {
    generated g;
    qpc_error err = {0};
    bool made = strncmp(c->name, "wall", 4) == 0 ? wall_make(c->a, c->b, 100, JITTER, &g)
                                                 : sheet_make(c->a, c->b, &g);
    if (!made) {
        fprintf(stderr, "bench_interior: %s cannot be made\n", c->name);
        exit(1);
    }
    const qpc_qp *qp = &g.qp;
    qpc_solver_options exact = qpc_solver_options_default();
    exact.exact = true;
    exact.residual_tolerance = 1e300;
    qpc_arena arena = {0};
    qpc_solver_report report;
    double *x = calloc((size_t)qp->n, sizeof *x), *lambda = calloc((size_t)qp->m, sizeof *lambda),
           best = HUGE_VAL;
    double *values = calloc((size_t)g.sys.start[qp->n], sizeof *values);
    if (x == NULL || lambda == NULL || values == NULL) exit(1);
    memcpy(values, g.sys.value, (size_t)g.sys.start[qp->n] * sizeof *values);
    for (int k = 0; k < o->runs; k++) {
        qpc_arena_reset(&arena);
        memset(lambda, 0, (size_t)qp->m * sizeof *lambda);
        double t = bench_ms(CLOCK_THREAD_CPUTIME_ID);
        check(qpc_linsys_resize_sparse(&g.sys, qp->n, g.sys.start, g.sys.row, &err), &err);
        memcpy(g.sys.value, values, (size_t)g.sys.start[qp->n] * sizeof *values);
        check(qpc_linsys_factor(&g.sys, &err), &err);
        check(qpc_solve(o->engine, qp, &exact, &arena, x, lambda, &report, &err), &err);
        t = bench_ms(CLOCK_THREAD_CPUTIME_ID) - t;
        if (t < best) best = t;
    }
    size_t bytes = arena.high_water;
    qpc_certificate z;
    check(qpc_certify(qp, x, lambda, &arena, &z, &err), &err);
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    bool good = report.outcome == QPC_OUTCOME_OPTIMAL && z.stat <= 1e-9 && z.prim <= 1e-9 &&
                z.dual <= 0 && z.comp <= 1e-12;
    printf("%-13s n %6d m %6d  %-20s %8.1f ms  steps %3d factors %3d solves %4d active %6d  stat "
           "%.1e prim %.1e comp %.1e%s\n",
           c->name, qp->n, qp->m, qpc_solver_name(report.engine), best, report.iterations,
           report.factorizations, report.solves, report.active, z.stat, z.prim, z.comp,
           good ? "" : "  NOT SOLVED");
    if (csv != NULL)
        fprintf(csv, "%s,%s,%s,%s,%d,%d,%s,%d,%d,%d,%d,%d,%d,%zu,%ld,%.3e,%.3e,%.3e,%.1f\n", cpu,
                bench_compiler(), o->commit, c->name, qp->n, qp->m, qpc_solver_name(report.engine),
                o->runs, report.outcome, report.iterations, report.factorizations, report.solves,
                report.active, bytes, usage.ru_maxrss, z.stat, z.prim, z.comp, best);
    qpc_arena_fini(&arena);
    free(x);
    free(lambda);
    free(values);
    generated_free(&g);
    return good;
}

int main(int argc, char **argv) {
    options o = {.commit = "unknown", .engine = QPC_SOLVER_INTERIOR_POINT, .runs = 3};
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--commit") == 0 && more)
            o.commit = argv[++i];
        else if (strcmp(argv[i], "--csv") == 0 && more)
            o.csv = argv[++i];
        else if (strcmp(argv[i], "--only") == 0 && more)
            o.only = argv[++i];
        else if (strcmp(argv[i], "--runs") == 0 && more && atoi(argv[i + 1]) > 0)
            o.runs = atoi(argv[++i]);
        else if (strcmp(argv[i], "--engine") == 0 && more &&
                 qpc_solver_from_name(argv[i + 1], &o.engine))
            i++;
        else {
            fprintf(stderr, "usage: bench_interior [--engine NAME] [--runs N] [--commit ID] [--csv "
                            "FILE] [--only TEXT]\n");
            return 2;
        }
    }
    char cpu[128];
    bench_cpu(cpu, sizeof cpu);
    FILE *csv = NULL;
    if (o.csv != NULL) {
        csv = fopen(o.csv, "ae");
        if (csv == NULL) return 1;
        if (fseek(csv, 0, SEEK_END) == 0 && ftell(csv) == 0)
            fprintf(csv, "cpu,compiler,commit,case,n,m,engine,runs,outcome,steps,factorizations,"
                         "solves,active,arena_bytes,"
                         "rss_kb_so_far,stat,prim,comp,cpu_ms\n");
    }
    bool good = true;
    for (size_t k = 0; k < sizeof SIZES / sizeof *SIZES; k++)
        if (o.only == NULL || strstr(SIZES[k].name, o.only) != NULL)
            good &= run(&SIZES[k], &o, csv, cpu);
    if (csv != NULL && fclose(csv) != 0) return 1;
    return good ? 0 : 1;
}
