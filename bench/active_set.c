/// active-set over instance files: residuals, set changes and times, cold and along sequences.
///
///     bench_active_set FILE.qpb ...
///
/// Prints one line a file, then geometric means by size. Times are thread CPU time, best of several, with K
/// ordered, analysed and factored anew each time ("all") and the solve alone ("solve").
#include "bench/timing.h"
#include "engine/solver/certificate.h"
#include "engine/solver/solver.h"
#include "tests/support/qpb_any.h"

#include <math.h>

typedef struct verdict {
    double distance, stat, prim, dual, comp;
} verdict;

static void must(qpc_status status, const qpc_error *err) {
    if (status == QPC_OK) return;
    fprintf(stderr, "bench_active_set: %s: %s\n", qpc_status_name(status), err->message);
    exit(1);
}

/// Residuals as tests/data/qp/README.md defines them: with kappa and the scale of the file.
static verdict judge(qpb_any *a, const double *x, const double *lambda, double *r, double *z) {
    const qpc_qp *qp = &a->p.qp;
    double S = a->p.scale > 1e-140 ? a->p.scale : 1e-140;
    verdict v = {.distance = qpb_distance(&a->p, x, a->p.x)};
    qpc_linsys_multiply(qp->sys, x, r);
    for (int32_t i = 0; i < qp->n; i++) r[i] -= qp->b[i];
    for (int32_t i = 0; i < qp->m; i++) {
        double s = qp->c[i];
        for (int32_t k = qp->row_start[i]; k < qp->row_start[i + 1]; k++) {
            s -= qp->value[k] * x[qp->column[k]];
            r[qp->column[k]] += lambda[i] * qp->value[k];
        }
        double violation = qp->equality[i] ? fabs(s) : fmax(-s, 0);
        v.prim = fmax(v.prim, violation / (a->kappa[i] * S));
        if (!qp->equality[i]) v.dual = fmax(v.dual, -lambda[i] * a->kappa[i] / S);
        v.comp += fabs(lambda[i] * s) / (S * S);
    }
    qpc_linsys_solve(a->p.qp.sys, r, z);
    double rz = 0;
    for (int32_t i = 0; i < qp->n; i++) rz += r[i] * z[i];
    v.stat = sqrt(fabs(rz)) / S;
    return v;
}

enum { CLASSES = 4 };
static const int32_t bound[CLASSES] = {100, 400, 1200, INT32_MAX};

int main(int argc, char **argv) {
    qpc_arena arena = {0};
    double logs[CLASSES] = {0}, solve_logs[CLASSES] = {0};
    int32_t counts[CLASSES] = {0}, bad = 0;
    qpc_solver_id id = QPC_SOLVER_ACTIVE_SET;
    printf("%-24s %5s %5s %4s %9s %9s %5s %5s %5s %6s %4s %4s %8s %8s %8s %8s\n", "instance", "n", "m", "out", "all ms",
           "solve ms", "adds", "drops", "exch", "solves", "reb", "impl", "distance", "stat", "prim", "comp");
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--engine=", 9) == 0) {
            if (!qpc_solver_from_name(argv[i] + 9, &id)) return 2;
            continue;
        }
        qpb_any a;
        if (!qpb_any_load(argv[i], &a)) continue;
        size_t n = (size_t)a.p.qp.n, m = (size_t)a.p.qp.m;
        double *x = calloc(n + 1, sizeof *x), *l = calloc(m + 1, sizeof *l);
        double *r = calloc(n + 1, sizeof *r), *z = calloc(n + 1, sizeof *z);
        if (x == NULL || l == NULL || r == NULL || z == NULL) return 1;
        qpc_solver_options options = qpc_solver_options_default();
        options.exact = true;
        options.residual_tolerance = HUGE_VAL;
        qpc_solver_report report = {0};
        qpc_error err = {0};
        double best = HUGE_VAL, best_solve = HUGE_VAL, spent = 0;
        for (int32_t turn = 0; turn < 3 || (turn < 50 && spent < 30); turn++) {
            memset(l, 0, m * sizeof *l);
            qpc_arena_reset(&arena);
            double t0 = bench_ms(CLOCK_THREAD_CPUTIME_ID);
            must(qpb_any_factor(&a, &err), &err);
            double t1 = bench_ms(CLOCK_THREAD_CPUTIME_ID);
            must(qpc_solve(id, &a.p.qp, &options, &arena, x, l, &report, &err), &err);
            double t2 = bench_ms(CLOCK_THREAD_CPUTIME_ID);
            best = fmin(best, t2 - t0);
            best_solve = fmin(best_solve, t2 - t1);
            spent += t2 - t0;
            if (spent > 1500) break;
        }
        verdict v = judge(&a, x, l, r, z);
        bool good = a.p.infeasible ? report.outcome == QPC_OUTCOME_INFEASIBLE
                                   : report.outcome == QPC_OUTCOME_OPTIMAL && v.stat <= 1e-9 && v.prim <= 1e-9 &&
                                         v.dual <= 0 && v.comp <= 1e-12 && v.distance <= 1e-8;
        bad += !good;
        printf("%-24.24s %5d %5d %4d %9.4f %9.4f %5d %5d %5d %6d %4d %4d %8.0e %8.0e %8.0e %8.0e%s\n", a.p.name,
               a.p.qp.n, a.p.qp.m, report.outcome, best, best_solve, report.adds, report.drops, report.exchanges,
               report.solves, report.rebuilds, report.implied, v.distance, v.stat, v.prim, v.comp,
               good ? "" : "  <-- short");
        fflush(stdout);
        if (!a.p.infeasible && !a.lcp) {
            int32_t c = 0;
            while (a.p.qp.n >= bound[c]) c++;
            logs[c] += log(best);
            solve_logs[c] += log(best_solve);
            counts[c]++;
        }
        free(x);
        free(l);
        free(r);
        free(z);
        qpb_any_free(&a);
    }
    for (int32_t c = 0; c < CLASSES; c++)
        if (counts[c] > 0)
            printf("n < %d: %d instances, geometric mean %.4f ms, solve alone %.4f ms\n", bound[c], counts[c],
                   exp(logs[c] / counts[c]), exp(solve_logs[c] / counts[c]));
    printf("%d short of what is promised\n", bad);
    qpc_arena_fini(&arena);
    return bad > 0;
}
