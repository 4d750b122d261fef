/// What qp_instances prints: lines for people, CSV, JSON lines; and sums by size class. One thread.
#ifndef QPC_TOOLS_QP_REPORT_H
#define QPC_TOOLS_QP_REPORT_H

#include "tools/qp_run.h"

typedef enum qp_format { QP_TEXT, QP_CSV, QP_JSON } qp_format;

/// QPs by unknowns, warm steps of sequences, LCPs, friction.
enum { QP_CLASS_LCP = 4, QP_CLASS_FRICTION, QP_CLASS_WARM, QP_CLASS_INFEASIBLE, QP_CLASSES };

typedef struct qp_sum {
    int32_t count, held;
    double log_ms, most_ms; // sum of logarithms over those that held
    double worst_stat, worst_prim, worst_dual, worst_comp, worst_distance;
    int32_t most_changes;
    int32_t tight; // friction: natural residual <= 1e-9
} qp_sum;

enum { QP_FINDINGS = 64 };
typedef struct qp_report {
    qp_format format;
    const char *commit; // CSV; may be NULL
    qp_sum sums[QPC_SOLVER_COUNT]
               [QP_CLASSES];         // friction under AUTO (exact) and AUGMENTED_CG (staggered)
    int32_t wrong, broken, short_of; // broken: counts for the exit status
    int32_t checked; // answers judged
    int32_t finding_count;
    char findings[QP_FINDINGS][320];
} qp_report;

void qp_report_begin(const qp_report *report);
void qp_report_result(qp_report *report, const char *name, const qp_file *file,
                      const qp_result *result);
/// Sums and findings. unread: files left out. True if every promise holds of what was judged.
bool qp_report_end(qp_report *report, int unread);

#endif
