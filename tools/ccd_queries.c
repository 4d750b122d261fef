// ccd_queries: re-check continuous detection on queries with exact answers.
//
//     ccd_queries [--separation S] [--tolerance T] [--classes] [--csv] [--no-times] FILE...
//
// Asks the engine's narrow phase and its batch filter every query of a file in the layout of
// tests/data/ccd and compares with the exact answer: false negatives, false positives within and
// beyond the tolerance, late times; then how early times are, and how long a query takes.
// Exit status: 0 every promise holds, 1 one is broken, 2 usage or a file that does not read.
// See docs/checking.md.
#include "base/mem.h"
#include "tools/ccd_score.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_HOLDS = 0, EXIT_BROKEN = 1, EXIT_ERROR = 2, FINDINGS = 16 };

typedef struct request {
    ccd_options opt;
    bool classes, csv, timed;
} request;

/// What one file gave, as far as it does not come from the tally.
typedef struct timing {
    double in_order;
    ccd_filter_times filter;
} timing;

static bool broken(const ccd_answer *a) {
    return a->missed || a->beyond || a->late || a->filter_missed;
}

static int32_t list_findings(const char *path, const ccd_query_file *file,
                             const ccd_answer *answers) {
    int32_t found = 0;
    for (int32_t i = 0; i < file->count; i++) {
        const ccd_answer *a = &answers[i];
        if (!broken(a)) continue;
        if (++found > FINDINGS) continue;
        const ccd_query *q = &file->queries[i];
        fprintf(stderr, "%s: record %d (%s, %s):%s%s%s%s\n", path, (int)i, q->edges ? "EE" : "VT",
                file->classes[q->class], a->missed ? " missed" : "",
                a->beyond ? " a hit, but never that near" : "", a->late ? " late" : "",
                a->filter_missed ? " missed by the filter" : "");
    }
    if (found > FINDINGS) fprintf(stderr, "%s: and %d more\n", path, (int)(found - FINDINGS));
    return found;
}

static void print_csv(const char *name, bool edges, const char *class, const request *r,
                      const ccd_tally *t, const timing *time) {
    printf("%s,%s,%s,%g,%g", name, edges ? "EE" : "VT", class, r->opt.separation, r->opt.tolerance);
    ccd_csv_values(stdout, t, r->timed, time->in_order, &time->filter);
    printf("\n");
}

static void print_kind(bool edges, const request *r, const ccd_tally *t, const timing *time) {
    printf("  %s  %d queries: %d touch, %d apart", edges ? "EE" : "VT", (int)t->count,
           (int)t->touch, (int)t->apart);
    if (t->undecided > 0) printf(", %d undecided by the file", (int)t->undecided);
    if (t->outside > 0)
        printf(", %d with numbers that are not finite or too large", (int)t->outside);
    printf("\n      %d hits, %d uncertain; false negatives %d, false positives %d within the "
           "tolerance and %d beyond, late %d\n",
           (int)t->hits, (int)t->uncertain, (int)t->missed, (int)t->within, (int)t->beyond,
           (int)t->late);
    if (t->early_count > 0)
        printf("      times early by %.2g in the median, p99 %.2g, at most %.2g\n", t->early_median,
               t->early_p99, t->early_worst);
    printf("      iterations: mean %.2f, most %d\n", t->iterations_mean, (int)t->iterations_most);
    if (r->timed)
        printf("      ns a query: median %.0f, p99 %.0f, worst %.0f; %.0f in file order\n",
               t->ns_median, t->ns_p99, t->ns_worst, time->in_order);
    printf("      filter: %d proven apart (%.1f %% of those apart), false negatives %d",
           (int)t->proven, t->apart > 0 ? 100.0 * t->proven / t->apart : 0, (int)t->filter_missed);
    const char *separator = r->timed ? "; ns a query:" : "; widths:";
    for (int w = 0; w < QPC_FILTER_WIDTHS; w++) {
        if (time->filter.ns[w] < 0) continue;
        printf("%s %s", separator, qpc_filter_name((qpc_filter_width)w));
        if (r->timed) printf(" %.1f", time->filter.ns[w]);
        separator = ",";
    }
    printf("\n");
}

static void print_class(const char *class, const request *r, const ccd_tally *t) {
    printf("        %-24s %5d queries %5d hits %3d uncertain  FN %d  FP %d + %d  late %d", class,
           (int)t->count, (int)t->hits, (int)t->uncertain, (int)t->missed, (int)t->within,
           (int)t->beyond, (int)t->late);
    if (r->timed) printf("  ns %.0f, %.0f, %.0f", t->ns_median, t->ns_p99, t->ns_worst);
    printf("\n");
}

/// Both kinds of a file, and their classes if asked for.
static qpc_status report(const char *name, const ccd_query_file *file, const request *r,
                         const ccd_answer *answers, const timing time[2], qpc_error *err) {
    if (!r->csv)
        printf("%s: %d queries, separation %g, tolerance %g\n", name, (int)file->count,
               r->opt.separation, r->opt.tolerance);
    const timing none = {.in_order = -1}; // classes are not timed as a whole
    for (int kind = 0; kind < 2; kind++) {
        ccd_tally t;
        qpc_status status = ccd_sum(file, answers, kind == 1, -1, &t, err);
        if (status != QPC_OK) return status;
        if (t.count == 0) continue;
        if (r->csv)
            print_csv(name, kind == 1, "all", r, &t, &time[kind]);
        else
            print_kind(kind == 1, r, &t, &time[kind]);
        for (int32_t c = 0; r->classes && c < file->class_count; c++) {
            status = ccd_sum(file, answers, kind == 1, c, &t, err);
            if (status != QPC_OK) return status;
            if (t.count == 0) continue;
            if (r->csv)
                print_csv(name, kind == 1, file->classes[c], r, &t, &none);
            else
                print_class(file->classes[c], r, &t);
        }
    }
    return QPC_OK;
}

static int check_file(const char *path, const request *r) {
    ccd_query_file file = {0};
    ccd_answer *answers = NULL;
    qpc_error err = {0};
    timing time[2] = {0};
    int result = EXIT_HOLDS;
    qpc_status status = ccd_query_file_read(path, &file, &err);
    if (status == QPC_OK) {
        answers = qpc_calloc((size_t)file.count, sizeof *answers);
        if (answers == NULL)
            status = qpc_fail(&err, QPC_ERR_MEMORY, "no memory for %d answers", (int)file.count);
    }
    if (status == QPC_OK) {
        ccd_judge(ccd_engine, &file, &r->opt, answers);
        double in_order[2] = {0};
        if (r->timed) ccd_time(ccd_engine, &file, &r->opt, answers, in_order);
        for (int kind = 0; kind < 2 && status == QPC_OK; kind++) {
            time[kind].in_order = in_order[kind];
            status =
                ccd_filter(&file, &r->opt, kind == 1, r->timed, answers, &time[kind].filter, &err);
        }
    }
    const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    if (status == QPC_OK) status = report(name, &file, r, answers, time, &err);
    if (status != QPC_OK) {
        fprintf(stderr, "%s: %s\n", path, err.message);
        result = EXIT_ERROR;
    } else {
        if (list_findings(path, &file, answers) > 0) result = EXIT_BROKEN;
        if (time[0].filter.differ || time[1].filter.differ) {
            fprintf(stderr, "%s: widths of the filter differ in their bits\n", path);
            result = EXIT_BROKEN;
        }
    }
    qpc_free(answers);
    ccd_query_file_fini(&file);
    return result;
}

static int usage(FILE *out, int status) {
    fprintf(out,
            "usage: ccd_queries [--separation S] [--tolerance T] [--classes] [--csv] [--no-times] "
            "FILE...\n"
            "Checks continuous collision detection on files of queries with exact answers.\n"
            "  --separation S   m, at least 0; default 0\n"
            "  --tolerance T    m, above 0; default 1e-6\n"
            "  --classes        a line for each class of queries too\n"
            "  --csv            one line a file, kind and class, values separated by commas\n"
            "  --no-times       answers only\n"
            "Exit status: 0 every promise holds, 1 one is broken, 2 usage, a file that does not "
            "read or an output that does not write.\n");
    return status;
}

static bool read_length(const char *text, double *ret) {
    char *end;
    *ret = strtod(text, &end);
    return end != text && *end == '\0' && *ret >= 0 && *ret <= 1e9;
}

int main(int argc, char **argv) {
    static const struct option options[] = {
        {"separation", required_argument, NULL, 's'},
        {"tolerance", required_argument, NULL, 't'},
        {"classes", no_argument, NULL, 'c'},
        {"csv", no_argument, NULL, 'v'},
        {"no-times", no_argument, NULL, 'n'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    request r = {.opt = {0, 1e-6}, .timed = true};
    for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        switch (c) {
        case 's':
            if (read_length(optarg, &r.opt.separation)) break;
            fprintf(stderr, "--separation %s: not a length of 0 to 1e9\n", optarg);
            return EXIT_ERROR;
        case 't':
            if (read_length(optarg, &r.opt.tolerance) && r.opt.tolerance > 0) break;
            fprintf(stderr, "--tolerance %s: not a length above 0, at most 1e9\n", optarg);
            return EXIT_ERROR;
        case 'c':
            r.classes = true;
            break;
        case 'v':
            r.csv = true;
            break;
        case 'n':
            r.timed = false;
            break;
        case 'h':
            return usage(stdout, EXIT_HOLDS);
        default:
            return usage(stderr, EXIT_ERROR);
        }
    }
    if (optind == argc) return usage(stderr, EXIT_ERROR);
    if (r.csv) {
        printf("file,kind,class,separation,tolerance,");
        ccd_csv_names(stdout);
        printf("\n");
    }
    // A broken promise is worse than a file that does not read.
    int worst = EXIT_HOLDS;
    for (int i = optind; i < argc; i++) {
        int result = check_file(argv[i], &r);
        if (result != EXIT_HOLDS && worst != EXIT_BROKEN) worst = result;
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "standard output: %s\n", strerror(errno));
        if (worst == EXIT_HOLDS) worst = EXIT_ERROR; // nobody can read that every promise holds
    }
    return worst;
}
