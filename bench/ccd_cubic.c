/// What the classic way misses: continuous detection by the roots of the coplanarity polynomial, as
/// the 2006 slides describe it (cubic when both features move, quadratic when one of them rests,
/// roots in floating point, then a check of the distance at each root), beside the conservative
/// advancement of the engine, on queries with exact ground truth.
///
///     bench_ccd [--commit ID] [--csv FILE] tests/data/ccd/*.bin
///
/// FN: contacts that are not reported. late: reported after they happened. FP: reported although
/// they do not touch, but come within the tolerance; FP>: although not even that. early: how much
/// before the exact time, median and 99 %. Then ns a query: median, 99 %, worst, and mean in file
/// order (tools/ccd_score.h), the part of the pairs apart that the filter proves, and its ns a
/// query in each width.
#include "base/mem.h"
#include "bench/machine.h"
#include "engine/geometry/closest.h"
#include "tools/ccd_score.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static const double proximity = 1e-8; // at a root: how near the features must be, of their size

// ---- roots in [0, 1], ascending ----

static int quadratic_roots(double c, double b, double a, double *t) { // a t^2 + b t + c
    int n = 0;
    double r[2];
    if (a == 0) {
        if (b != 0) r[n++] = -c / b;
    } else {
        double d = b * b - 4 * a * c;
        if (d < 0) return 0;
        double q = -0.5 * (b + copysign(sqrt(d), b));
        r[n++] = q / a;
        if (q != 0) r[n++] = c / q;
        if (n == 2 && r[1] < r[0]) {
            double swap = r[0];
            r[0] = r[1];
            r[1] = swap;
        }
    }
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (r[i] >= 0 && r[i] <= 1) t[kept++] = r[i];
    return kept;
}

static double value(const double f[4], double t) {
    return f[0] + t * (f[1] + t * (f[2] + t * f[3]));
}

/// Between the turning points the cubic is monotonic: bisect and polish there.
static int cubic_roots(const double f[4], double *t) {
    double largest = fmax(fmax(fabs(f[0]), fabs(f[1])), fmax(fabs(f[2]), fabs(f[3])));
    if (fabs(f[3]) <= 1e-14 * largest) return quadratic_roots(f[0], f[1], f[2], t);
    double turn[4] = {0};
    int turns = 1 + quadratic_roots(f[1], 2 * f[2], 3 * f[3], turn + 1), n = 0;
    turn[turns] = 1;
    for (int i = 0; i < turns; i++) {
        double a = turn[i], b = turn[i + 1], fa = value(f, a), fb = value(f, b);
        if (fa == 0) {
            t[n++] = a;
        } else if ((fa < 0) != (fb < 0)) {
            for (int k = 0; k < 100 && b - a > 1e-16 * b; k++) {
                double m = a + (b - a) * fmin(fmax(fa / (fa - fb), 0.05), 0.95), fm = value(f, m);
                if ((fm < 0) == (fa < 0))
                    a = m, fa = fm;
                else
                    b = m, fb = fm;
                if (fm == 0) break;
            }
            t[n++] = 0.5 * (a + b);
        }
    }
    if (value(f, 1) == 0) t[n++] = 1;
    return n;
}

// ---- the two tests of the slides ----

/// det(e1, e2, q) along the motion, rising powers of t.
static void coplanarity(const qpc_vec3 x[3], const qpc_vec3 v[3], double f[4]) {
    f[0] = v3_dot(v3_cross(x[0], x[1]), x[2]);
    f[1] = v3_dot(v3_cross(v[0], x[1]), x[2]) + v3_dot(v3_cross(x[0], v[1]), x[2]) +
           v3_dot(v3_cross(x[0], x[1]), v[2]);
    f[2] = v3_dot(v3_cross(v[0], v[1]), x[2]) + v3_dot(v3_cross(v[0], x[1]), v[2]) +
           v3_dot(v3_cross(x[0], v[1]), v[2]);
    f[3] = v3_dot(v3_cross(v[0], v[1]), v[2]);
}

/// True and the time if a root has the features within proximity of each other.
static bool cubic_ccd(bool ee, const qpc_vec3 x0[4], const qpc_vec3 x1[4], double *ret_toi) {
    qpc_vec3 x[3], v[3];
    int from[3] = {0, ee ? 2 : 0, 0}, to[3] = {1, ee ? 3 : 2, ee ? 2 : 3};
    double f[4], t[8], size = 0;
    for (int i = 0; i < 3; i++) {
        x[i] = v3_sub(x0[to[i]], x0[from[i]]);
        v[i] = v3_sub(v3_sub(x1[to[i]], x1[from[i]]), x[i]);
        size = fmax(size, fmax(v3_norm(x[i]), v3_norm(v3_add(x[i], v[i]))));
    }
    coplanarity(x, v, f);
    // One feature at rest, so that its two vectors do not turn: the cubic term vanishes by itself.
    int n = cubic_roots(f, t);
    for (int i = 0; i < n; i++) {
        qpc_vec3 p[4];
        qpc_closest c;
        for (int k = 0; k < 4; k++) p[k] = v3_lerp(x0[k], x1[k], t[i]);
        if (ee)
            qpc_closest_ee(p, &c);
        else
            qpc_closest_vt(p, &c);
        if (c.distance <= proximity * size) return *ret_toi = t[i], true;
    }
    return false;
}

static void classic(const ccd_query *q, const ccd_options *opt, qpc_ccd_result *ret) {
    double toi = 1;
    (void)opt;
    bool hit = cubic_ccd(q->edges, q->x0, q->x1, &toi);
    *ret = (qpc_ccd_result){.outcome = hit ? QPC_CCD_HIT : QPC_CCD_MISS, .toi = toi};
}

// ---- scoring ----

typedef struct run {
    const char *method;
    ccd_method ask;
    ccd_options opt;
} run;

static const run runs[] = {
    {"cubic", classic, {0, 1e-6}},         {"engine", ccd_engine, {0, 1e-6}},
    {"engine", ccd_engine, {0, 1e-12}},    {"engine", ccd_engine, {1e-3, 1e-6}},
    {"engine", ccd_engine, {1e-3, 1e-12}},
};

static void print_head(void) {
    printf("%-20s %-6s %-2s %5s %5s %6s %4s %4s %4s %4s %4s %8s %8s %5s %4s  %5s %6s %7s %5s  %6s",
           "file", "method", "", "s", "tol", "pairs", "hits", "FN", "late", "FP", "FP>", "early",
           "p99", "iter", "most", "ns", "p99", "worst", "order", "filter");
    for (int w = 0; w < QPC_FILTER_WIDTHS; w++)
        printf(" %6s", qpc_filter_name((qpc_filter_width)w));
    printf("\n");
}

static void print_row(const char *file, const run *r, bool edges, const ccd_tally *t,
                      double in_order, const ccd_filter_times *filter) {
    printf("%-20s %-6s %s %5g %5g %6d %4d %4d %4d %4d %4d %8.1e %8.1e %5.2f %4d  %5.0f %6.0f %7.0f "
           "%5.0f",
           file, r->method, edges ? "EE" : "VT", r->opt.separation, r->opt.tolerance, (int)t->count,
           (int)t->hits, (int)t->missed, (int)t->late, (int)t->within, (int)t->beyond,
           t->early_median, t->early_p99, t->iterations_mean, (int)t->iterations_most, t->ns_median,
           t->ns_p99, t->ns_worst, in_order);
    if (filter != NULL) {
        printf("  %5.1f%%", t->apart > 0 ? 100.0 * t->proven / t->apart : 0);
        for (int w = 0; w < QPC_FILTER_WIDTHS; w++)
            if (filter->ns[w] > 0) printf(" %6.1f", filter->ns[w]);
    }
    printf("\n");
}

static bool append_row(const char *path, const char *commit, const char *file, const run *r,
                       bool edges, const ccd_tally *t, double in_order,
                       const ccd_filter_times *filter) {
    FILE *out = fopen(path, "ae");
    if (out == NULL) return false;
    if (ftell(out) == 0) {
        fprintf(out, "cpu,compiler,commit,file,method,kind,separation,tolerance,");
        ccd_csv_names(out);
        fprintf(out, "\n");
    }
    char cpu[256];
    bench_cpu(cpu, sizeof cpu);
    fprintf(out, "%s,%s,%s,%s,%s,%s,%g,%g", cpu, bench_compiler(), commit, file, r->method,
            edges ? "EE" : "VT", r->opt.separation, r->opt.tolerance);
    ccd_csv_values(out, t, true, in_order, filter);
    fprintf(out, "\n");
    return fclose(out) == 0;
}

static qpc_status score(const char *name, const ccd_query_file *file, const run *r, const char *csv,
                        const char *commit, qpc_error *err) {
    qpc_status status = QPC_OK;
    ccd_answer *answers = qpc_calloc((size_t)file->count, sizeof *answers);
    if (answers == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for answers");
    double in_order[2];
    ccd_judge(r->ask, file, &r->opt, answers);
    ccd_time(r->ask, file, &r->opt, answers, in_order);
    for (int kind = 0; kind < 2 && status == QPC_OK; kind++) {
        ccd_tally t;
        ccd_filter_times times;
        bool filter = r->ask == ccd_engine;
        if (filter) status = ccd_filter(file, &r->opt, kind == 1, true, answers, &times, err);
        if (status == QPC_OK) status = ccd_sum(file, answers, kind == 1, -1, &t, err);
        if (status != QPC_OK || t.count == 0) continue;
        print_row(name, r, kind == 1, &t, in_order[kind], filter ? &times : NULL);
        if (csv != NULL && !append_row(csv, commit, name, r, kind == 1, &t, in_order[kind],
                                       filter ? &times : NULL))
            status = qpc_fail(err, QPC_ERR_IO, "%s: %s", csv, strerror(errno));
    }
    qpc_free(answers);
    return status;
}

int main(int argc, char **argv) {
    const char *csv = NULL, *commit = "unknown";
    int i = 1;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        if (strcmp(argv[i], "--csv") == 0)
            csv = argv[i + 1];
        else if (strcmp(argv[i], "--commit") == 0)
            commit = argv[i + 1];
        else
            break;
    }
    if (i >= argc || argv[i][0] == '-') {
        fprintf(stderr, "usage: bench_ccd [--commit ID] [--csv FILE] FILE.bin...\n");
        return 2;
    }
    print_head();
    for (; i < argc; i++) {
        ccd_query_file file;
        qpc_error err = {0};
        qpc_status status = ccd_query_file_read(argv[i], &file, &err);
        const char *name = strrchr(argv[i], '/') != NULL ? strrchr(argv[i], '/') + 1 : argv[i];
        if (status == QPC_OK) {
            for (size_t k = 0; k < sizeof runs / sizeof *runs && status == QPC_OK; k++)
                status = score(name, &file, &runs[k], csv, commit, &err);
            ccd_query_file_fini(&file);
        }
        if (status != QPC_OK) {
            fprintf(stderr, "%s: %s\n", argv[i], err.message);
            return 1;
        }
    }
    return 0;
}
