/// Scores continuous detection on a file of queries: every answer against the exact one, and how
/// long it takes. For the tool ccd_queries and for bench_ccd. One thread.
#ifndef QPC_TOOLS_CCD_SCORE_H
#define QPC_TOOLS_CCD_SCORE_H

#include "engine/collision/ccd.h"
#include "engine/collision/filter.h"
#include "tools/query_file.h"

#include <stdio.h>

/// What a query is at the separation asked for.
typedef enum ccd_truth {
    CCD_TOUCH,     // comes within the separation
    CCD_APART,     // stays above it
    CCD_UNDECIDED, // the stored bracket of the least distance straddles it
    CCD_OUTSIDE    // a coordinate is not finite, or beyond 1e60: no truth, must be a hit
} ccd_truth;

typedef struct ccd_answer {
    ccd_truth truth;
    bool hit, uncertain;
    bool missed;         // touches (or is outside), but is no hit: false negative
    bool within, beyond; // apart, but a hit: nearer than separation + tolerance, or not even that
    bool late;           // the time is after the exact first contact
    bool proven;         // by the filter
    bool filter_missed;  // touches, but the filter proves it apart: a false negative of the filter
    int32_t iterations;
    double early; // exact time - reported time of a contact, never below 0; -1: not known
    double ns;    // of one call; 0 unless timed
} ccd_answer;

typedef struct ccd_options {
    double separation, tolerance; // m
} ccd_options;

/// What answers a query; outcome, toi and iterations matter. ccd_engine is the one of the product.
typedef void (*ccd_method)(const ccd_query *q, const ccd_options *opt, qpc_ccd_result *ret);
void ccd_engine(const ccd_query *q, const ccd_options *opt, qpc_ccd_result *ret);

/// How the filter did on one kind of a file. ns < 0: the machine does not run that width.
typedef struct ccd_filter_times {
    double ns[QPC_FILTER_WIDTHS]; // a query
    bool differ;                  // two widths gave different bits
} ccd_filter_times;

/// Sums over some of the answers. Quantiles are 0 where there is nothing to take them of.
typedef struct ccd_tally {
    int32_t count, touch, apart, undecided, outside;
    int32_t hits, uncertain, missed, within, beyond, late, proven, filter_missed;
    int32_t early_count, iterations_most;
    double early_median, early_p99, early_worst;
    double ns_median, ns_p99, ns_worst, iterations_mean;
} ccd_tally;

/// Runs every query once and judges the answer. answers: file->count of them.
void ccd_judge(ccd_method method, const ccd_query_file *file, const ccd_options *opt,
               ccd_answer *answers);

/// Times every query: several rounds over the file, in each some calls of a query in a row between
/// two looks at the clock, less what looking costs; of the rounds the best, so that another program
/// that ran in between is not counted. ret_in_order[kind]: mean over whole passes in file order,
/// where nothing is predicted from the call before; CPU time of the thread.
void ccd_time(ccd_method method, const ccd_query_file *file, const ccd_options *opt,
              ccd_answer *answers, double ret_in_order[2]);

/// Runs the filter in every width over the queries of a kind and times it (unless !timed).
/// QPC_ERR_MEMORY.
qpc_status ccd_filter(const ccd_query_file *file, const ccd_options *opt, bool edges, bool timed,
                      ccd_answer *answers, ccd_filter_times *ret, qpc_error *err);

/// Over the queries of a kind, and of a class unless that is -1. QPC_ERR_MEMORY.
qpc_status ccd_sum(const ccd_query_file *file, const ccd_answer *answers, bool edges, int32_t class,
                   ccd_tally *ret, qpc_error *err);

/// Names of the values of a row, from `queries` on, and the values, each after a comma. Times are
/// left empty where there are none: !timed, in_order < 0, filter NULL (which leaves its counts
/// empty too).
void ccd_csv_names(FILE *out);
void ccd_csv_values(FILE *out, const ccd_tally *t, bool timed, double in_order,
                    const ccd_filter_times *filter);

#endif
