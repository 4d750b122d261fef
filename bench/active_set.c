/// active-set over instance files: residuals, set changes and times, cold and along sequences.
///
///     bench_active_set [--engine=NAME] [--commit=ID] FILE.qpb ... > bench/results/active_set.csv
///
/// One CSV row a file: exact counts, times, residuals. Files named seq_*_NN get a second row, warm
/// from the multipliers of the file before, by row id. Then, on stderr, geometric means by size.
/// Times are thread CPU time, best of several, with K ordered, analysed and factored anew each time
/// (all_ms) and the solve alone (solve_ms).
#include "bench/machine.h"
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

enum { CLASSES = 4, KEPT = 4096 };
static const int32_t bound[CLASSES] = {100, 400, 1200, INT32_MAX};

typedef struct totals {
    double logs[CLASSES], solve_logs[CLASSES];
    int32_t counts[CLASSES], bad;
} totals;

/// The multipliers of the file before, if it belongs to the same sequence.
static struct {
    char family[32];
    int32_t count;
    uint64_t key[KEPT];
    double lambda[KEPT];
} kept;

typedef struct run {
    double *x, *l, *start, *r, *z; // (n), (m), (m), (n), (n)
    qpc_solver_id id;
    qpc_arena arena;
    const char *commit;
} run;

static void measure(qpb_any *a, run *s, const char *how, totals *sum) {
    size_t m = (size_t)a->p.qp.m;
    qpc_solver_options options = qpc_solver_options_default();
    options.exact = true;
    options.residual_tolerance = HUGE_VAL;
    qpc_solver_report report = {0};
    qpc_error err = {0};
    double best = HUGE_VAL, best_solve = HUGE_VAL, spent = 0;
    for (int32_t turn = 0; turn < 3 || (turn < 50 && spent < 30); turn++) {
        memcpy(s->l, s->start, (m + 1) * sizeof *s->l);
        qpc_arena_reset(&s->arena);
        double t0 = bench_ms(CLOCK_THREAD_CPUTIME_ID);
        must(qpb_any_factor(a, &err), &err);
        double t1 = bench_ms(CLOCK_THREAD_CPUTIME_ID);
        must(qpc_solve(s->id, &a->p.qp, &options, &s->arena, s->x, s->l, &report, &err), &err);
        double t2 = bench_ms(CLOCK_THREAD_CPUTIME_ID);
        best = fmin(best, t2 - t0);
        best_solve = fmin(best_solve, t2 - t1);
        spent += t2 - t0;
        if (spent > 1500) break;
    }
    verdict v = judge(a, s->x, s->l, s->r, s->z);
    bool good = a->p.infeasible
                    ? report.outcome == QPC_OUTCOME_INFEASIBLE
                    : report.outcome == QPC_OUTCOME_OPTIMAL && v.stat <= 1e-9 && v.prim <= 1e-9 &&
                          v.dual <= 0 && v.comp <= 1e-12 && v.distance <= 1e-8;
    sum->bad += !good;
    if (!good) fprintf(stderr, "%s (%s) is short of what is promised\n", a->p.name, how);
    char cpu[128];
    bench_cpu(cpu, sizeof cpu);
    printf(
        "%s,%s,%s,%s,%.*s,%s,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%.5f,%.5f,%.1e,%.1e,%.1e,%.1e,%.1e\n",
        cpu, bench_compiler(), s->commit, qpc_solver_name(s->id), (int)strcspn(a->p.name, "."),
        a->p.name, how, a->p.qp.n, a->p.qp.m, (int)report.outcome, report.restored, report.adds,
        report.drops, report.exchanges, report.implied, report.rebuilds, report.solves,
        report.active, best, best_solve, v.distance, v.stat, v.prim, v.dual, v.comp);
    if (a->p.infeasible || a->lcp || strcmp(how, "cold") != 0) return;
    int32_t c = 0;
    while (a->p.qp.n >= bound[c]) c++;
    sum->logs[c] += log(best);
    sum->solve_logs[c] += log(best_solve);
    sum->counts[c]++;
}

static void keep(const qpb_any *a, const char *family, const double *l) {
    snprintf(kept.family, sizeof kept.family, "%s", family);
    kept.count = 0;
    for (int32_t i = 0; i < a->p.qp.m && kept.count < KEPT; i++) {
        if (!(l[i] > 0)) continue;
        kept.key[kept.count] = a->p.key[i];
        kept.lambda[kept.count++] = l[i];
    }
}

static void bench_file(qpb_any *a, run *s, totals *sum) {
    size_t n = (size_t)a->p.qp.n, m = (size_t)a->p.qp.m;
    s->x = calloc(n + 1, sizeof *s->x);
    s->l = calloc(m + 1, sizeof *s->l);
    s->start = calloc(m + 1, sizeof *s->start);
    s->r = calloc(n + 1, sizeof *s->r);
    s->z = calloc(n + 1, sizeof *s->z);
    if (s->x == NULL || s->l == NULL || s->start == NULL || s->r == NULL || s->z == NULL) exit(1);
    measure(a, s, "cold", sum);
    char family[32] = "";
    const char *number = strrchr(a->p.name, '_');
    if (strncmp(a->p.name, "seq_", 4) == 0 && number != NULL)
        snprintf(family, sizeof family, "%.*s", (int)(number - a->p.name), a->p.name);
    if (family[0] != 0 && strcmp(family, kept.family) == 0) {
        for (size_t i = 0; i < m; i++)
            for (int32_t k = 0; k < kept.count; k++)
                if (kept.key[k] == a->p.key[i]) s->start[i] = kept.lambda[k];
        measure(a, s, "warm", sum);
    }
    keep(a, family, s->l);
    free(s->x);
    free(s->l);
    free(s->start);
    free(s->r);
    free(s->z);
}

int main(int argc, char **argv) {
    totals sum = {0};
    run s = {.id = QPC_SOLVER_ACTIVE_SET, .commit = "unknown"};
    printf("cpu,compiler,commit,engine,instance,start,n,m,outcome,restored,adds,drops,exchanges,"
           "implied,rebuilds,solves,"
           "active,all_ms,solve_ms,distance,stat,prim,dual,comp\n");
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--engine=", 9) == 0) {
            if (!qpc_solver_from_name(argv[i] + 9, &s.id)) return 2;
        } else if (strncmp(argv[i], "--commit=", 9) == 0) {
            s.commit = argv[i] + 9;
        } else {
            qpb_any a;
            if (!qpb_any_load(argv[i], &a)) continue; // friction
            bench_file(&a, &s, &sum);
            qpb_any_free(&a);
        }
    }
    for (int32_t c = 0; c < CLASSES; c++)
        if (sum.counts[c] > 0)
            fprintf(stderr, "n < %d: %d instances, geometric mean %.4f ms, solve alone %.4f ms\n",
                    bound[c], sum.counts[c], exp(sum.logs[c] / sum.counts[c]),
                    exp(sum.solve_logs[c] / sum.counts[c]));
    fprintf(stderr, "%d short of what is promised\n", sum.bad);
    qpc_arena_fini(&s.arena);
    return sum.bad > 0;
}
