/// augmented-lagrangian on K of any pattern: time and exact work against size, by a sparse factor and by
/// conjugate gradients.
///
///     bench_alm [--commit ID] [--csv FILE]
///
/// A sheet of k x k particles (membrane 300 N/m, 0.2 kg/m2) falls onto a ball for 50 steps of 5 ms
/// (tests/support/drape.h). From step 30 on each fifth step's QP is solved cold and warm, by conjugate gradients
/// and by a factor; medians of thread CPU time in ms, K's factor included where one is needed. The warm QP starts
/// from the multipliers of the step before, "again" from its own with a thousandth of b added, as passes and
/// corrections do.
#include "bench/machine.h"
#include "bench/timing.h"
#include "engine/dynamics/blocks.h"
#include "engine/solver/certificate.h"
#include "engine/solver/solver.h"
#include "tests/support/drape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STEPS = 50, FROM = 30, EVERY = 5, SOLVES = (STEPS - FROM) / EVERY, STARTS = 3 };
enum { FACTOR_MOST = 10000 }; // unknowns up to which the other way is timed as well: seconds a QP beyond

typedef struct figures {
    double ms[STARTS][SOLVES], iterations[STARTS], cg_steps[STARTS], factors[STARTS];
    double certificate[SOLVES], natural;
} figures;

static double now(void) {
    return bench_ms(CLOCK_THREAD_CPUTIME_ID);
}

static void check(qpc_status status, const qpc_error *err) {
    if (status == QPC_OK) return;
    fprintf(stderr, "bench_alm: %s: %s\n", qpc_status_name(status), err->message);
    exit(1);
}

/// One solve of the drape's QP, with nothing known of K; lambda in and out.
static void solve(drape *d, qpc_arena *arena, figures *f, int32_t start, int32_t at, double *dv, double *lambda) {
    qpc_error err = {0};
    qpc_solver_report report;
    qpc_solver_options options = qpc_solver_options_default();
    options.residual_tolerance = 1e-7 * 0.008 / 0.005;
    d->sys.factored = d->sys.prepared = false;
    double t = now();
    check(qpc_solve(QPC_SOLVER_AUGMENTED_LAGRANGIAN, &d->qp, &options, arena, dv, lambda, &report, &err), &err);
    f->ms[start][at] = now() - t;
    f->iterations[start] += (double)report.iterations / SOLVES;
    f->cg_steps[start] += (double)report.cg_steps / SOLVES;
    f->factors[start] += (double)report.factorizations / SOLVES;
    if (report.outcome != QPC_OUTCOME_OPTIMAL) fprintf(stderr, "bench_alm: outcome %d\n", report.outcome);
    qpc_certificate c;
    t = now();
    check(qpc_certify(&d->qp, dv, lambda, arena, &c, &err), &err);
    f->certificate[at] = now() - t;
    if (c.natural > f->natural) f->natural = c.natural;
}

static void solve_thrice(drape *d, qpc_arena *arena, figures *f, int32_t at, double *dv, double *lambda) {
    size_t m = (size_t)d->m;
    memset(lambda, 0, m * sizeof *lambda);
    solve(d, arena, f, 0, at, dv, lambda);
    memcpy(lambda, d->lambda, m * sizeof *lambda);
    solve(d, arena, f, 1, at, dv, lambda);
    for (int32_t i = 0; i < d->n; i++) d->b[i] *= 1.001;
    solve(d, arena, f, 2, at, dv, lambda);
    for (int32_t i = 0; i < d->n; i++) d->b[i] /= 1.001;
}

static const char *commit = "unknown";

static void print(FILE *csv, const drape *d, double rows, double active, const char *way, figures *f) {
    static const char *const starts[STARTS] = {"cold", "warm", "again"};
    char cpu[128];
    bench_cpu(cpu, sizeof cpu);
    for (int32_t s = 0; s < STARTS; s++) {
        double ms = bench_quantile(f->ms[s], SOLVES, 0.5);
        printf("%6d %6.0f %6.0f %-6s %-6s %9.2f ms %6.1f steps %7.1f cg %5.1f factors, certificate %.2f ms, natural %.0e\n", d->n,
               rows, active, way, starts[s], ms, f->iterations[s], f->cg_steps[s], f->factors[s],
               bench_quantile(f->certificate, SOLVES, 0.5), f->natural);
        if (csv != NULL)
            fprintf(csv, "%s,%s,%s,%d,%.0f,%.0f,%s,%s,%.3f,%.3f,%.2f,%.2f,%.2f,%.2e\n", cpu, bench_compiler(), commit, d->n,
                    rows, active, way, starts[s], ms, bench_quantile(f->certificate, SOLVES, 0.5), f->iterations[s],
                    f->cg_steps[s], f->factors[s], f->natural);
    }
}

static void bench(int32_t k, FILE *csv) {
    static figures by_cg, by_factor;
    memset(&by_cg, 0, sizeof by_cg);
    memset(&by_factor, 0, sizeof by_factor);
    drape d;
    qpc_arena arena = {0};
    if (!drape_init(&d, k, 300)) exit(1);
    double *dv = calloc((size_t)d.n, sizeof *dv), *other = calloc((size_t)d.n, sizeof *other);
    double *lambda = calloc(2 * (size_t)(k * k), sizeof *lambda), rows = 0, active = 0;
    if (dv == NULL || other == NULL || lambda == NULL) exit(1);
    for (int32_t step = 0; step < STEPS; step++) {
        drape_assemble(&d);
        if (step >= FROM && step % EVERY == 0) {
            int32_t at = (step - FROM) / EVERY;
            solve_thrice(&d, &arena, &by_cg, at, dv, lambda);
            struct qpc_blocks *blocks = d.sys.blocks;
            d.sys.blocks = NULL; // no other way than a factor
            if (d.n <= FACTOR_MOST) solve_thrice(&d, &arena, &by_factor, at, other, lambda);
            d.sys.blocks = blocks;
            d.sys.factored = d.sys.prepared = false;
            rows += (double)d.m / SOLVES;
            for (int32_t i = 0; i < d.m; i++) active += (lambda[i] > 0) / (double)SOLVES;
        }
        figures unused = {0};
        solve(&d, &arena, &unused, 0, 0, dv, d.lambda);
        drape_advance(&d, dv);
        qpc_arena_reset(&arena);
    }
    print(csv, &d, rows, active, "cg", &by_cg);
    if (d.n <= FACTOR_MOST) print(csv, &d, rows, active, "factor", &by_factor);
    (void)fflush(stdout);
    if (csv != NULL) (void)fflush(csv);
    free(dv);
    free(other);
    free(lambda);
    drape_fini(&d);
    qpc_arena_fini(&arena);
}

int main(int argc, char **argv) {
    FILE *csv = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--commit") == 0) commit = argv[i + 1];
        if (strcmp(argv[i], "--csv") == 0) csv = fopen(argv[i + 1], "we");
    }
    if (csv != NULL)
        fprintf(csv, "cpu,compiler,commit,n,rows,active,way,start,ms,certificate_ms,newton_steps,cg_steps,factorizations,"
                     "natural_m_s\n");
    static const int32_t sizes[] = {13, 25, 50, 71};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) bench(sizes[i], csv);
    return csv != NULL && fclose(csv) != 0;
}
