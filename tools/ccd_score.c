/// Judging and timing of continuous detection; ccd_score.h says what counts as what.
#include "tools/ccd_score.h"

#include "base/mem.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

void ccd_engine(const ccd_query *q, const ccd_options *opt, qpc_ccd_result *ret) {
    if (q->edges)
        qpc_ccd_ee(q->x0, q->x1, opt->separation, opt->tolerance, ret);
    else
        qpc_ccd_vt(q->x0, q->x1, opt->separation, opt->tolerance, ret);
}

static double norm1(qpc_vec3 a) {
    return fabs(a.x) + fabs(a.y) + fabs(a.z);
}

/// The largest difference of points across the features, at either end; not finite if a
/// coordinate is not.
static double local_size(const ccd_query *q) {
    double largest = 0, sum = 0;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            double a = norm1(v3_sub(q->x0[i], q->x0[j])), b = norm1(v3_sub(q->x1[i], q->x1[j]));
            largest = fmax(largest, fmax(a, b));
            sum += a + b; // fmax loses what is not a number
        }
    return isfinite(sum) ? largest : HUGE_VAL;
}

static ccd_truth truth_of(const ccd_query *q, double separation) {
    // At 1e60 both detectors give up, each by its own sum of coordinates: a margin around it.
    double size = local_size(q);
    if (!(size < 3e60)) return CCD_OUTSIDE;
    if (size > 1e58) return CCD_UNDECIDED;
    if (!(separation > 0)) return q->truth ? CCD_TOUCH : CCD_APART;
    if (q->dmin[1] <= separation) return CCD_TOUCH;
    return q->dmin[0] > separation ? CCD_APART : CCD_UNDECIDED;
}

void ccd_judge(ccd_method method, const ccd_query_file *file, const ccd_options *opt,
               ccd_answer *answers) {
    for (int32_t i = 0; i < file->count; i++) {
        const ccd_query *q = &file->queries[i];
        qpc_ccd_result r = {0};
        method(q, opt, &r);
        ccd_answer a = {.truth = truth_of(q, opt->separation), .early = -1};
        a.hit = r.outcome != QPC_CCD_MISS;
        a.uncertain = a.hit && r.uncertain;
        a.iterations = r.iterations;
        a.missed = !a.hit && (a.truth == CCD_TOUCH || a.truth == CCD_OUTSIDE);
        // 5 E: a hit may lie that far beyond, whatever the tolerance (T-ccd4).
        double tolerance = fmax(opt->tolerance, 80 * DBL_EPSILON * local_size(q));
        if (a.hit && a.truth == CCD_APART) {
            a.beyond = q->dmin[0] > opt->separation + tolerance;
            a.within = !a.beyond;
        }
        if (a.hit && a.truth == CCD_TOUCH && q->truth) {
            a.late = r.toi > q->toi[1];
            if (!(opt->separation > 0)) a.early = fmax(q->toi[0] - r.toi, 0);
        }
        answers[i] = a;
    }
}

void ccd_time(ccd_method method, const ccd_query_file *file, const ccd_options *opt,
              ccd_answer *answers, double ret_in_order[2]) {
    enum { ROUNDS = 9, CALLS = 8 };
    qpc_ccd_result r;
    double look = INFINITY;
    for (int i = 0; i < 1000; i++) {
        double begin = clock_ns(CLOCK_MONOTONIC);
        look = fmin(look, clock_ns(CLOCK_MONOTONIC) - begin);
    }
    for (int32_t i = 0; i < file->count; i++) answers[i].ns = INFINITY;
    for (int round = 0; round < ROUNDS; round++)
        for (int32_t i = 0; i < file->count; i++) {
            double begin = clock_ns(CLOCK_MONOTONIC);
            for (int k = 0; k < CALLS; k++) method(&file->queries[i], opt, &r);
            double ns = (clock_ns(CLOCK_MONOTONIC) - begin - look) / CALLS;
            answers[i].ns = fmin(answers[i].ns, fmax(ns, 0));
        }
    for (int kind = 0; kind < 2; kind++) {
        int32_t n = 0;
        double best = INFINITY;
        for (int round = 0; round < ROUNDS; round++) {
            double begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
            n = 0;
            for (int32_t i = 0; i < file->count; i++) {
                if (file->queries[i].edges != (kind == 1)) continue;
                method(&file->queries[i], opt, &r);
                n++;
            }
            best = fmin(best, clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin);
        }
        ret_in_order[kind] = n > 0 ? best / n : 0;
    }
}

static void filter_by(bool edges, qpc_filter_width width, const qpc_filter_block *blocks,
                      int32_t count, uint8_t *open) {
    if (edges)
        qpc_filter_ee_by(width, blocks, count, open);
    else
        qpc_filter_vt_by(width, blocks, count, open);
}

/// Best of several passes, each over pairs enough to take some 100 us.
static double time_filter(bool edges, qpc_filter_width width, const qpc_filter_block *blocks,
                          int32_t count, uint8_t *open) {
    int repeat = 1 + 4096 / count;
    double best = INFINITY;
    for (int round = 0; round < 16; round++) {
        double begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        for (int k = 0; k < repeat; k++) filter_by(edges, width, blocks, count, open);
        best = fmin(best, clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin);
    }
    return best / repeat / count;
}

qpc_status ccd_filter(const ccd_query_file *file, const ccd_options *opt, bool edges, bool timed,
                      ccd_answer *answers, ccd_filter_times *ret, qpc_error *err) {
    ccd_filter_times out = {{0}, false};
    for (int w = 0; w < QPC_FILTER_WIDTHS; w++)
        out.ns[w] = qpc_filter_runs((qpc_filter_width)w) ? 0 : -1;
    size_t bytes = (size_t)file->count / QPC_FILTER_LANES + 1;
    void *room = qpc_calloc(bytes, sizeof(qpc_filter_block) + 64); // and to align the first
    uint8_t *open = qpc_calloc(2, bytes);
    if (room == NULL || open == NULL) {
        qpc_free(room);
        qpc_free(open);
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory to filter %d queries", (int)file->count);
    }
    qpc_filter_block *blocks = (void *)(((uintptr_t)room + 63) & ~(uintptr_t)63);
    int32_t count = 0;
    for (int32_t i = 0; i < file->count; i++) {
        const ccd_query *q = &file->queries[i];
        if (q->edges != edges) continue;
        qpc_filter_put(&blocks[count / QPC_FILTER_LANES], count % QPC_FILTER_LANES, q->x0, q->x1,
                       opt->separation);
        count++;
    }
    filter_by(edges, QPC_FILTER_SCALAR, blocks, count, open);
    for (int w = 0; w < QPC_FILTER_WIDTHS && count > 0; w++) {
        if (out.ns[w] < 0) continue;
        uint8_t *other = open + bytes;
        memset(other, 0, bytes);
        filter_by(edges, (qpc_filter_width)w, blocks, count, other);
        out.differ |= memcmp(open, other, bytes) != 0;
        if (timed) out.ns[w] = time_filter(edges, (qpc_filter_width)w, blocks, count, other);
    }
    count = 0;
    for (int32_t i = 0; i < file->count; i++) {
        if (file->queries[i].edges != edges) continue;
        ccd_answer *a = &answers[i];
        a->proven = !(open[count / QPC_FILTER_LANES] >> count % QPC_FILTER_LANES & 1);
        a->filter_missed = a->proven && (a->truth == CCD_TOUCH || a->truth == CCD_OUTSIDE);
        count++;
    }
    qpc_free(room);
    qpc_free(open);
    *ret = out;
    return QPC_OK;
}

static int by_value(const void *a, const void *b) {
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/// Sorts v; median, 99 % and largest.
static void quantiles(double *v, int32_t n, double *median, double *p99, double *worst) {
    if (n == 0) return;
    qsort(v, (size_t)n, sizeof *v, by_value);
    *median = v[n / 2];
    *p99 = v[(int32_t)((int64_t)n * 99 / 100)];
    *worst = v[n - 1];
}

qpc_status ccd_sum(const ccd_query_file *file, const ccd_answer *answers, bool edges, int32_t class,
                   ccd_tally *ret, qpc_error *err) {
    ccd_tally t = {0};
    double *ns = qpc_calloc((size_t)file->count, sizeof *ns);
    double *early = qpc_calloc((size_t)file->count, sizeof *early), iterations = 0;
    if (ns == NULL || early == NULL) {
        qpc_free(ns);
        qpc_free(early);
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d answers", (int)file->count);
    }
    for (int32_t i = 0; i < file->count; i++) {
        const ccd_query *q = &file->queries[i];
        const ccd_answer *a = &answers[i];
        if (q->edges != edges || (class >= 0 && q->class != class)) continue;
        ns[t.count++] = a->ns;
        if (a->early >= 0) early[t.early_count++] = a->early;
        t.touch += a->truth == CCD_TOUCH;
        t.apart += a->truth == CCD_APART;
        t.undecided += a->truth == CCD_UNDECIDED;
        t.outside += a->truth == CCD_OUTSIDE;
        t.hits += a->hit;
        t.uncertain += a->uncertain;
        t.missed += a->missed;
        t.within += a->within;
        t.beyond += a->beyond;
        t.late += a->late;
        t.proven += a->proven;
        t.filter_missed += a->filter_missed;
        iterations += a->iterations;
        if (a->iterations > t.iterations_most) t.iterations_most = a->iterations;
    }
    if (t.count > 0) t.iterations_mean = iterations / t.count;
    quantiles(ns, t.count, &t.ns_median, &t.ns_p99, &t.ns_worst);
    quantiles(early, t.early_count, &t.early_median, &t.early_p99, &t.early_worst);
    qpc_free(ns);
    qpc_free(early);
    *ret = t;
    return QPC_OK;
}

void ccd_csv_names(FILE *out) {
    fprintf(out, "queries,touch,apart,undecided,outside,hits,uncertain,false_negatives,"
                 "false_positives_within,false_positives_beyond,late,early_median,early_p99,"
                 "early_worst,iterations_mean,iterations_most,ns_median,ns_p99,ns_worst,"
                 "ns_in_order,filter_proven,filter_false_negatives");
    for (int w = 0; w < QPC_FILTER_WIDTHS; w++)
        fprintf(out, ",filter_ns_%s", qpc_filter_name((qpc_filter_width)w));
}

void ccd_csv_values(FILE *out, const ccd_tally *t, bool timed, double in_order,
                    const ccd_filter_times *filter) {
    fprintf(out, ",%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d", (int)t->count, (int)t->touch, (int)t->apart,
            (int)t->undecided, (int)t->outside, (int)t->hits, (int)t->uncertain, (int)t->missed,
            (int)t->within, (int)t->beyond, (int)t->late);
    if (t->early_count > 0)
        fprintf(out, ",%.3g,%.3g,%.3g", t->early_median, t->early_p99, t->early_worst);
    else
        fprintf(out, ",,,");
    fprintf(out, ",%.3f,%d", t->iterations_mean, (int)t->iterations_most);
    if (timed)
        fprintf(out, ",%.1f,%.1f,%.1f", t->ns_median, t->ns_p99, t->ns_worst);
    else
        fprintf(out, ",,,");
    fprintf(out, ",");
    if (timed && in_order >= 0) fprintf(out, "%.1f", in_order);
    if (filter != NULL)
        fprintf(out, ",%d,%d", (int)t->proven, (int)t->filter_missed);
    else
        fprintf(out, ",,");
    for (int w = 0; w < QPC_FILTER_WIDTHS; w++) {
        fprintf(out, ",");
        if (timed && filter != NULL && filter->ns[w] > 0) fprintf(out, "%.1f", filter->ns[w]);
    }
}
