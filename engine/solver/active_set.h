/// What the files of the dual active set share (active_set.c says what it is): its state, and the
/// calls between the loop, the building of a working set, and the push of one row.
#ifndef QPC_ENGINE_SOLVER_ACTIVE_SET_H
#define QPC_ENGINE_SOLVER_ACTIVE_SET_H

#include "engine/solver/delassus.h"
#include "engine/solver/work.h"

#include <float.h>
#include <math.h>

#define QPC_DAS_FEASIBLE 1e-11  // rows hold when viol <= this kt S, or at round-off
#define QPC_DAS_DEPENDENT 1e-14 // d / a_pp of a row nearly in the span of W

enum {
    QPC_DAS_COLUMNS = 32, // right-hand sides of a block solve where they go by columns
    QPC_DAS_NEAR = 8,     // rows kept of a look at all
    QPC_DAS_ROWS_MOST =
        4096, // in W: seconds and 70 MB; beyond, the other engines are better anyway
};

typedef enum qpc_row_state {
    QPC_ROW_OUT,
    QPC_ROW_WORKING,
    QPC_ROW_IMPLIED,
    QPC_ROW_EMPTY
} qpc_row_state;

typedef struct qpc_das {
    const qpc_work *work;
    const qpc_qp *qp;
    const double *shift; // or NULL
    qpc_delassus del;
    double *x, *lambda; // (n), (m)
    double *z, *q, *w;  // (n) K^-1 J_p', J_p' - J_W' r, K^-1 q
    double *y, *r,
        *e;        // (n + 2) by place in W: L^-1 J_W z, r, scratch. W is independent: count <= n
    double *block; // right-hand sides of a block solve: (n x lanes), or `lanes` columns of n
    int32_t lanes;
    double *a_diag;                  // (m) A_ii of rows that have been looked at, else 0
    double *weight;                  // (m) what sorts a list
    uint8_t *state;                  // (m) enum qpc_row_state
    int32_t *list;                   // (m + 1) candidates
    int32_t near[QPC_DAS_NEAR];      // the most violated rows at the last look at all
    int32_t near_count, near_solved; // those, and how many have their K^-1 J_i' in near_z
    double near_most;                // the worst violation then, in units of kt
    double *near_z;                  // (near_solved columns of n), where block solves go by columns
    double scale;
    int32_t max_count; // most rows W may hold
    int64_t limit;     // changes that are allowed in all; as good as none: INT64_MAX
    bool unsettled;    // it was met before lambda was at the stationary point of W
    int32_t implied;   // rows in that state now
    bool least_index;
    int32_t unproven; // rows that could neither join nor be shown to contradict
    qpc_solver_report *report;
    qpc_error *err;
} qpc_das;

/// Whether a block of right-hand sides goes to K by columns; else four side by side.
static inline bool qpc_das_columns(const qpc_linsys *sys) {
    return sys->kind == QPC_LINSYS_SPARSE && sys->method != QPC_LINSYS_BY_BAND;
}

static inline double qpc_das_shift(const qpc_das *s, int32_t row) {
    return s->shift != NULL ? s->shift[row] : 0;
}

/// J_i x - c_i - shift_i lambda_i: > 0 where an inequality is violated.
static inline double qpc_das_excess(const qpc_das *s, int32_t row) {
    return qpc_row_dot(s->qp, row, s->x) - s->qp->c[row] - qpc_das_shift(s, row) * s->lambda[row];
}

static inline double qpc_das_tolerance(const qpc_das *s, int32_t row) {
    double t = QPC_DAS_FEASIBLE * s->work->kt[row] * s->scale;
    double round_off = 32 * DBL_EPSILON * qpc_row_size(s->qp, row, s->x);
    return t > round_off ? t : round_off;
}

/// Changes of W that are left, those of restored rows included.
static inline int64_t qpc_das_left(const qpc_das *s) {
    return s->limit - s->report->adds - s->report->drops;
}

/// x = K^-1 (b - J'lambda), once refined if asked.
void qpc_das_refresh(qpc_das *s, bool refine);
/// The last digits of lambda_W and x.
void qpc_das_polish(qpc_das *s);
/// Take the row at `place` out of W.
void qpc_das_drop(qpc_das *s, int32_t place);

/// W and its factor from the rows with lambda != 0 and all equalities, then lambda at the
/// stationary point of W, or on the way there as far as the limit allows (unsettled). Also the way to start
/// afresh when the factor has worn out. False when memory is out.
bool qpc_das_build(qpc_das *s);
/// From any W with lambda >= 0: put violated rows into W many at a time while there are many. What
/// is left to do is for the exact loop. budget: adds and drops at most, as far as whole rounds
/// allow. False when memory is out.
bool qpc_das_guess(qpc_das *s, int64_t budget);

/// r, q, w and d of row p against W (z is there). *ret_error: what J_W w should be and is not,
/// relative.
double qpc_das_direction(qpc_das *s, int32_t p, double a_pp, double *ret_error);
typedef enum qpc_das_verdict {
    QPC_DAS_GO_ON,
    QPC_DAS_REBUILD,
    QPC_DAS_CONTRADICTION,
    QPC_DAS_NO_MEMORY,
    QPC_DAS_OUT_OF_STEPS // x and lambda belong together all the same
} qpc_das_verdict;
/// Push violated row p into W. *ret_rise: by how much the dual objective rose.
qpc_das_verdict qpc_das_push(qpc_das *s, int32_t p, double *ret_rise);

#endif
