/// Printing and sums; qp_report.h says what of.
#include "tools/qp_report.h"

#include "bench/machine.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const OUTCOMES[] = {"optimal", "iteration limit", "infeasible", "stalled"};
static const char *const VERDICTS[] = {"holds", "short", "wrong"};
static const char *const KINDS[] = {"", "QP", "LCP", "friction"};

typedef struct class_info {
    const char *name;
    double target_ms; // geometric mean; 0: none
} class_info;
static const class_info CLASSES[QP_CLASSES] = {
    {"QP, n < 100", 0.04},
    {"QP, 100 <= n < 400", 0.7},
    {"QP, 400 <= n < 1200", 7},
    {"QP, n >= 1200", 35},
    {"LCP", 0},
    {"friction", 0},
    {"warm", 0},
    {"infeasible", 0},
};

static int class_of(const qp_file *f, const qp_result *r) {
    if (f->kind == QP_KIND_LCP) return QP_CLASS_LCP;
    if (f->kind == QP_KIND_FRICTION) return QP_CLASS_FRICTION;
    if (r->warm) return QP_CLASS_WARM;
    if (f->infeasible) return QP_CLASS_INFEASIBLE;
    return f->n < 100 ? 0 : f->n < 400 ? 1 : f->n < 1200 ? 2 : 3;
}

/// Friction has no entry in the table of solvers: its two modes take the places of two that do no
/// friction.
static int place_of(const qp_file *f, const qp_result *r) {
    if (f->kind != QP_KIND_FRICTION) return (int)r->asked;
    return r->mode == QPC_FRICTION_EXACT ? QPC_SOLVER_AUTO : QPC_SOLVER_AUGMENTED_CG;
}

static const char *asked_name(const qp_file *f, const qp_result *r) {
    if (f->kind != QP_KIND_FRICTION) return qpc_solver_name(r->asked);
    return r->mode == QPC_FRICTION_EXACT ? "friction-exact" : "friction-staggered";
}

static const char *outcome_name(const qp_file *f, const qp_result *r) {
    if (r->status != QPC_OK) return qpc_status_name(r->status);
    if (f->kind == QP_KIND_FRICTION) return r->friction.converged ? "converged" : "not converged";
    return OUTCOMES[r->report.outcome];
}

static int32_t iterations_of(const qp_file *f, const qp_result *r) {
    return f->kind == QP_KIND_FRICTION ? r->friction.iterations : r->report.iterations;
}

// ---- for people ----

static void print_conflict(const qp_file *f, const qp_result *r) {
    if (r->report.outcome != QPC_OUTCOME_INFEASIBLE) return;
    int32_t named = qpc_conflict_named(&r->report);
    printf("    %s: rows", r->conflict.holds ? "proved" : "not proved");
    for (int32_t i = 0; i < named; i++)
        printf("%s %d (id %d)", i > 0 ? "," : "", r->report.conflict_row[i],
               f->row_id[r->report.conflict_row[i]]);
    if (named < r->report.conflict_count) printf(" and %d more", r->report.conflict_count - named);
    printf("\n    |J'y| %.2g, c'y/|c|'|y| %.2g, no point within %.2g S", r->conflict.size,
           r->conflict.slope, r->conflict.radius);
    if (r->relaxation >= 0) printf("; relaxation off by %.2g", r->relaxation);
    printf("\n");
}

static void print_text(const char *name, const qp_file *f, const qp_result *r) {
    const qp_score *s = &r->score;
    const qpc_solver_report *p = &r->report;
    printf("%-28s %s %d x %d  %s", name, KINDS[f->kind], f->n, f->m, asked_name(f, r));
    if (f->kind != QP_KIND_FRICTION && p->engine != r->asked && r->status == QPC_OK)
        printf(" -> %s", qpc_solver_name(p->engine));
    if (r->warm) printf(" (warm)");
    printf(": %s, %.4g ms, %d iterations", outcome_name(f, r), r->ms, iterations_of(f, r));
    if (f->kind == QP_KIND_FRICTION)
        printf(" (%d outer, %d Newton), %d stick, %d slide, %d open", r->friction.outers,
               r->friction.newton, r->friction.sticking, r->friction.sliding, r->friction.open);
    else
        printf(", +%d -%d", p->adds, p->drops);
    if (r->warm) printf(", %d set changes (%d net)", r->changes, r->net);
    if (r->verdict != QP_HOLDS) printf("  [%s]", VERDICTS[r->verdict]);
    printf("\n");
    if (r->status != QPC_OK) {
        printf("    %s\n", r->message);
    } else if (f->kind == QP_KIND_FRICTION) {
        printf(
            "    natural %.2g, penetration %.2g, cone %.2g, comp %.2g, dissipation defect %.2g\n",
            s->natural, s->penetration, s->cone, s->comp, s->dissipation);
    } else if (f->kind == QP_KIND_LCP) {
        printf(
            "    stat %.2g, w- %.2g, f- %.2g, comp %.2g; from the solution: v_plus %.2g, w %.2g\n",
            s->stat, s->prim, s->dual, s->comp, s->distance, s->w_distance);
    } else if (f->infeasible) {
        print_conflict(f, r);
    } else {
        printf(
            "    stat %.2g (%.2g by component), prim %.2g, dual %.2g, comp %.2g; distance %.2g\n",
            s->stat, s->stat_cw, s->prim, s->dual, s->comp, s->distance);
    }
}

// ---- for programs ----

/// Without commas.
static const char *class_word(const qp_file *f, const qp_result *r) {
    static const char *const words[QP_CLASSES] = {
        "n<100", "100<=n<400", "400<=n<1200", "n>=1200", "LCP", "friction", "warm", "infeasible"};
    return words[class_of(f, r)];
}

static void print_csv(const qp_report *report, const char *name, const qp_file *f,
                      const qp_result *r) {
    char cpu[128];
    bench_cpu(cpu, sizeof cpu);
    const qp_score *s = &r->score;
    const qpc_solver_report *p = &r->report;
    bool friction = f->kind == QP_KIND_FRICTION;
    printf("%s,%s,%s,%s,%s,%d,%d,%s,%s,%s,%d,%s,%s,%.5g", cpu, bench_compiler(),
           report->commit != NULL ? report->commit : "", name, KINDS[f->kind], f->n, f->m,
           class_word(f, r), asked_name(f, r), friction ? "" : qpc_solver_name(p->engine), r->warm,
           outcome_name(f, r), VERDICTS[r->verdict], r->ms);
    printf(",%d,%d,%d,%d,%d,%d,%d,%d", iterations_of(f, r), p->adds, p->drops, p->restored,
           p->exchanges, p->factorizations, p->solves, r->changes);
    printf(",%.3g,%.3g,%.3g,%.3g,%.3g,%.3g", s->stat, s->prim, s->dual, s->comp, s->distance,
           s->w_distance);
    if (friction)
        printf(",%.3g,%.3g,%.3g,%.3g", s->natural, s->penetration, s->cone, s->dissipation);
    else
        printf(",,,,");
    if (f->infeasible)
        printf(",%d,%.3g,%.3g\n", p->conflict_count, r->conflict.size, r->relaxation);
    else
        printf(",,,\n");
}

/// A number, or null for what JSON has no word for.
static void print_number(const char *key, double v) {
    if (isfinite(v))
        printf(", \"%s\": %.17g", key, v);
    else
        printf(", \"%s\": null", key);
}

static void print_string(const char *key, const char *text) {
    printf(", \"%s\": \"", key);
    for (const unsigned char *c = (const unsigned char *)text; *c != 0; c++) {
        if (*c == '"' || *c == '\\')
            printf("\\%c", *c);
        else if (*c < ' ' || *c > '~')
            printf("\\u%04x", *c); // a byte, whatever its encoding
        else
            putchar(*c);
    }
    putchar('"');
}

static void print_json(const char *name, const qp_file *f, const qp_result *r) {
    const qp_score *s = &r->score;
    const qpc_solver_report *p = &r->report;
    printf("{\"type\": \"instance\"");
    print_string("file", name);
    print_string("kind", KINDS[f->kind]);
    printf(", \"n\": %d, \"m\": %d", f->n, f->m);
    print_string("class", CLASSES[class_of(f, r)].name);
    print_string("asked", asked_name(f, r));
    if (f->kind != QP_KIND_FRICTION) print_string("engine", qpc_solver_name(p->engine));
    printf(", \"warm\": %s", r->warm ? "true" : "false");
    print_string("outcome", outcome_name(f, r));
    print_string("verdict", VERDICTS[r->verdict]);
    print_string("why", r->why);
    print_number("ms", r->ms);
    printf(", \"iterations\": %d", iterations_of(f, r));
    if (f->kind == QP_KIND_FRICTION) {
        print_number("natural", s->natural);
        print_number("penetration", s->penetration);
        print_number("cone", s->cone);
        print_number("comp", s->comp);
        print_number("dissipation_defect", s->dissipation);
    } else {
        printf(", \"adds\": %d, \"drops\": %d, \"restored\": %d, \"exchanges\": %d, "
               "\"set_changes\": %d",
               p->adds, p->drops, p->restored, p->exchanges, r->changes);
        print_number("stat", s->stat);
        print_number("prim", s->prim);
        print_number("dual", s->dual);
        print_number("comp", s->comp);
        print_number("distance", s->distance);
    }
    if (f->infeasible) {
        int32_t named = qpc_conflict_named(p);
        printf(", \"proved\": %s, \"conflict_rows\": [", r->conflict.holds ? "true" : "false");
        for (int32_t i = 0; i < named; i++) printf("%s%d", i > 0 ? ", " : "", p->conflict_row[i]);
        printf("]");
        print_number("proof", r->conflict.size);
        print_number("relaxation", r->relaxation);
    }
    printf("}\n");
}

// ---- sums ----

static void find(qp_report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void find(qp_report *report, const char *format, ...) {
    if (report->finding_count++ >= QP_FINDINGS) return;
    va_list list;
    va_start(list, format);
    (void)vsnprintf(report->findings[report->finding_count - 1], sizeof report->findings[0], format,
                    list);
    va_end(list);
}

static void add(qp_sum *sum, const qp_file *f, const qp_result *r) {
    sum->count++;
    if (r->warm && r->changes > sum->most_changes) sum->most_changes = r->changes;
    if (f->kind == QP_KIND_FRICTION && r->status == QPC_OK && r->score.natural <= QP_LIMIT)
        sum->tight++;
    if (r->verdict != QP_HOLDS) return;
    sum->held++;
    sum->log_ms += log(fmax(r->ms, 1e-9));
    sum->most_ms = fmax(sum->most_ms, r->ms);
    sum->worst_stat = fmax(sum->worst_stat, r->score.stat);
    sum->worst_prim = fmax(sum->worst_prim, r->score.prim);
    sum->worst_dual = fmax(sum->worst_dual, r->score.dual);
    sum->worst_comp = fmax(sum->worst_comp, r->score.comp);
    sum->worst_distance = fmax(sum->worst_distance, r->score.distance);
}

void qp_report_begin(const qp_report *report) {
    if (report->format != QP_CSV) return;
    printf("cpu,compiler,commit,file,kind,n,m,class,asked,engine,warm,outcome,verdict,ms,"
           "iterations,adds,drops,restored,"
           "exchanges,factorizations,solves,set_changes,stat,prim,dual,comp,distance,w_distance,"
           "natural,penetration,cone,"
           "dissipation_defect,conflict_rows,proof,relaxation\n");
}

void qp_report_result(qp_report *report, const char *name, const qp_file *f, const qp_result *r) {
    if (report->format == QP_TEXT)
        print_text(name, f, r);
    else if (report->format == QP_CSV)
        print_csv(report, name, f, r);
    else
        print_json(name, f, r);
    report->checked++;
    add(&report->sums[place_of(f, r)][class_of(f, r)], f, r);
    if (r->verdict == QP_HOLDS) return;
    bool compares = f->kind == QP_KIND_FRICTION ? r->mode != QPC_FRICTION_EXACT : qp_engine_compares(r->asked);
    report->wrong += r->verdict == QP_WRONG;
    report->short_of += r->verdict == QP_SHORT;
    report->broken += r->verdict == QP_WRONG || !compares;
    find(report, "%s, %s%s: %s%s", name, asked_name(f, r), r->warm ? " (warm)" : "", r->why,
         r->verdict == QP_SHORT && compares ? " (for comparison: no promise)" : "");
}

static void print_sum(int engine, int class, const qp_sum *s) {
    bool friction = class == QP_CLASS_FRICTION;
    const char *who = !friction                   ? qpc_solver_name((qpc_solver_id)engine)
                      : engine == QPC_SOLVER_AUTO ? "friction-exact"
                                                  : "friction-staggered";
    printf("  %-22s %-20s %3d of %3d", who, CLASSES[class].name, s->held, s->count);
    if (s->held > 0) {
        double mean = exp(s->log_ms / s->held), target = CLASSES[class].target_ms;
        printf("  %8.4g ms, at most %.4g", mean, s->most_ms);
        if (target > 0 && engine == QPC_SOLVER_AUTO) printf(" (goal %g)", target);
        if (class < QP_CLASS_FRICTION || class == QP_CLASS_WARM)
            printf("; worst: stat %.1g prim %.1g dual %.1g comp %.1g distance %.1g", s->worst_stat,
                   s->worst_prim, s->worst_dual, s->worst_comp, s->worst_distance);
    }
    if (class == QP_CLASS_WARM) printf("; set changes at most %d", s->most_changes);
    if (friction) printf("; %d of %d to 1e-9", s->tight, s->count);
    printf("\n");
}

static void print_summary(qp_report *report) {
    printf("\ngeometric mean over what holds, thread CPU time, set-up and factor of K included:\n");
    for (int e = 0; e < QPC_SOLVER_COUNT; e++)
        for (int c = 0; c < QP_CLASSES; c++)
            if (report->sums[e][c].count > 0) print_sum(e, c, &report->sums[e][c]);
}

static void print_json_summary(const qp_report *report) {
    for (int e = 0; e < QPC_SOLVER_COUNT; e++)
        for (int c = 0; c < QP_CLASSES; c++) {
            const qp_sum *s = &report->sums[e][c];
            if (s->count == 0) continue;
            printf("{\"type\": \"class\"");
            print_string("class", CLASSES[c].name);
            print_string("asked", c != QP_CLASS_FRICTION ? qpc_solver_name((qpc_solver_id)e)
                                  : e == QPC_SOLVER_AUTO ? "friction-exact"
                                                         : "friction-staggered");
            printf(", \"count\": %d, \"held\": %d, \"to_1e-9\": %d", s->count, s->held, s->tight);
            print_number("mean_ms", s->held > 0 ? exp(s->log_ms / s->held) : HUGE_VAL);
            print_number("most_ms", s->most_ms);
            printf("}\n");
        }
    printf("{\"type\": \"summary\", \"broken\": %d, \"wrong\": %d, \"short\": %d}\n",
           report->broken, report->wrong, report->short_of);
}

bool qp_report_end(qp_report *report, int unread) {
    const qp_sum *exact = &report->sums[QPC_SOLVER_AUTO][QP_CLASS_FRICTION];
    if (17 * (exact->count - exact->tight) > 2 * exact->count) { // 15 of 17
        report->broken++;
        find(report, "friction-exact: natural residual <= 1e-9 on %d of %d, must be 15 of 17",
             exact->tight, exact->count);
    }
    if (report->format == QP_TEXT && report->checked > 0) print_summary(report);
    if (report->format == QP_JSON) print_json_summary(report);
    FILE *out = report->format == QP_TEXT ? stdout : stderr;
    if (report->checked == 0)
        fprintf(stderr, "nothing was checked\n"); // an error, not a success
    else if (report->format == QP_TEXT && report->finding_count == 0)
        printf(unread > 0 ? "nothing of what was read fell short\n" : "nothing fell short\n");
    if (report->finding_count > 0) fprintf(out, "fell short: %d\n", report->finding_count);
    for (int32_t i = 0; i < report->finding_count && i < QP_FINDINGS; i++)
        fprintf(out, "  %s\n", report->findings[i]);
    if (report->finding_count > QP_FINDINGS)
        fprintf(out, "  and %d more\n", report->finding_count - QP_FINDINGS);
    return report->broken == 0;
}
