/// Simultaneous impulses as a linear complementarity problem, solved by complementary pivoting.
///
///     w = A f + q >= 0,   f >= 0,   f'w = 0,    A = J K^-1 J',   q = c - J K^-1 b
///
/// Giang, Bradshaw and O'Sullivan (2003), eqs. 19-20, pose the impacts on several points at once so: one unknown impulse a
/// contact, w what is left of the relative velocity. A is dense. Lemke's method (1965) goes from dictionary to dictionary, each basic
/// variable as a linear function of those at zero; a covering variable z0, large enough at first to make all of w positive, is driven
/// out. Ties are broken lexicographically, so that dependent contacts (a box on four corners) cannot make it cycle: for a positive
/// semidefinite A it ends with the answer or with a ray, which proves that the rows contradict.
///
/// Rows are scaled by the root of A's diagonal: neither their scale nor masses matter. Equalities have an impulse of either sign:
/// it is made basic first and never leaves. A warm start's rows come next, then z0. The last digits come from residuals and the inverse that
/// the dictionary holds; if those do not get there the dictionary is made afresh from the basis found, and pivoting goes on.
/// An independent second method beside the dual active set; time grows with the cube of the rows. Worker thread of the world.
#include "engine/solver/proof.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    ROWS_MOST = 2048, // two dense matrices of that order are 67 MB, a pivot is 4 million products
    ROUNDS = 6,       // dictionaries made afresh
    REFINEMENTS = 4,
    PIVOTS_A_ROW = 20,
};
static const double LEAST_PIVOT = 1e-11;     // of a dictionary whose entries are of order one
static const double DEPENDENT = 1e-10;       // squared distance of a unit row from those before it
static const double TIE = 1e-11;             // by which ratios differ
static const double NEGATIVE = 1e-12;        // of the largest q

/// Variables by number: w_i is i, f_i is m + i, z0 is 2 m.
typedef struct lemke {
    const qpc_work *work;
    const qpc_qp *qp;
    int32_t m;
    double *A;         // (m x m) scaled to a unit diagonal
    double *q;         // (m) scaled
    double *to_unit;   // (m) 1 / root of A's diagonal; 0: a row on which no impulse acts
    double unit;       // q and f are divided by this
    double *dictionary; // (m x (m + 1)) basic = value + dictionary * nonbasic; the last column is z0's
    double *value;     // (m) of the basic variables, those nonbasic being zero
    int32_t *basic;    // (m) variable of a row
    int32_t *nonbasic; // (m + 1) variable of a column
    int32_t *place;    // (2 m + 1) row if >= 0, else -1 - column
    int32_t *reference; // (m) what was basic in the rows when the covering variable came: the lexicographic order
    bool *idle;        // (m) equalities that depend on others: slack stays zero
    double *f, *w;     // (m) scaled: a change of the impulses, slack
    int32_t pivots, most;
} lemke;

static double *row_of(const lemke *s, int32_t row) { return s->dictionary + (size_t)row * (size_t)(s->m + 1); }
/// Impulse and slack of an equality are of either sign, or stay zero.
static bool is_free(const lemke *s, int32_t variable) {
    return variable < 2 * s->m && s->qp->equality[variable % s->m];
}

// ---- A and q ----

/// A = J K^-1 J' by blocks of right-hand sides.
static bool form_operator(lemke *s) {
    const qpc_qp *qp = s->qp;
    double *block = qpc_arena_array(s->work->arena, (size_t)qp->n * QPC_LINSYS_BLOCK, sizeof *block);
    if (block == NULL) return false;
    for (int32_t first = 0; first < s->m; first += QPC_LINSYS_BLOCK) {
        int32_t lanes = s->m - first < QPC_LINSYS_BLOCK ? s->m - first : QPC_LINSYS_BLOCK;
        memset(block, 0, (size_t)qp->n * QPC_LINSYS_BLOCK * sizeof *block);
        for (int32_t lane = 0; lane < lanes; lane++)
            for (int32_t k = qp->row_start[first + lane]; k < qp->row_start[first + lane + 1]; k++)
                block[(size_t)qp->column[k] * QPC_LINSYS_BLOCK + (size_t)lane] = qp->value[k];
        qpc_linsys_solve_block(qp->sys, block);
        for (int32_t i = 0; i < s->m; i++)
            for (int32_t lane = 0; lane < lanes; lane++) {
                double sum = 0;
                for (int32_t k = qp->row_start[i]; k < qp->row_start[i + 1]; k++)
                    sum += qp->value[k] * block[(size_t)qp->column[k] * QPC_LINSYS_BLOCK + (size_t)lane];
                s->A[(size_t)i * (size_t)s->m + (size_t)(first + lane)] = sum;
            }
    }
    return true;
}

static void scale(lemke *s) {
    size_t m = (size_t)s->m;
    s->unit = 0;
    for (size_t i = 0; i < m; i++) {
        double d = s->A[i * m + i];
        s->to_unit[i] = d > 0 ? 1 / sqrt(d) : 0;
        double g = s->qp->c[i] - qpc_row_dot(s->qp, (int32_t)i, s->work->free_dv);
        // What an empty row misses is round-off (qpc_work_impossible): it holds.
        s->q[i] = s->to_unit[i] > 0 ? g * s->to_unit[i] : s->qp->equality[i] ? 0 : fmax(g, 0);
        if (s->to_unit[i] > 0) s->unit = fmax(s->unit, fabs(s->q[i]));
    }
    if (!(s->unit > 0)) s->unit = 1;
    for (size_t i = 0; i < m; i++) {
        s->q[i] /= s->unit;
        for (size_t j = 0; j < i; j++) {
            double a = 0.5 * (s->A[i * m + j] + s->A[j * m + i]) * s->to_unit[i] * s->to_unit[j];
            s->A[i * m + j] = s->A[j * m + i] = a;
        }
    }
    for (size_t i = 0; i < m; i++) s->A[i * m + i] = s->to_unit[i] > 0 ? 1 : 0;
}

// ---- dictionaries ----

/// w = q + A f + z0, z0 for the rows that may not be negative.
static void start(lemke *s) {
    for (int32_t i = 0; i < s->m; i++) {
        double *row = row_of(s, i);
        memcpy(row, s->A + (size_t)i * (size_t)s->m, (size_t)s->m * sizeof *row);
        row[s->m] = 0;
        s->value[i] = s->q[i];
        s->basic[i] = s->place[i] = i;
        s->nonbasic[i] = s->m + i;
        s->place[s->m + i] = -1 - i;
    }
    s->nonbasic[s->m] = 2 * s->m;
    s->place[2 * s->m] = -1 - s->m;
}

/// The variable of a column becomes basic in a row, what was basic there goes to zero.
static void pivot(lemke *s, int32_t row, int32_t column) {
    double *r = row_of(s, row), p = r[column];
    int32_t columns = s->m + 1;
    for (int32_t j = 0; j < columns; j++) r[j] /= -p;
    r[column] = 1 / p;
    s->value[row] /= -p;
    for (int32_t i = 0; i < s->m; i++) {
        double *to = row_of(s, i), t = to[column];
        if (i == row || t == 0) continue;
        to[column] = 0;
        for (int32_t j = 0; j < columns; j++) to[j] += t * r[j];
        s->value[i] += t * s->value[row];
    }
    int32_t leaves = s->basic[row], enters = s->nonbasic[column];
    s->basic[row] = enters;
    s->nonbasic[column] = leaves;
    s->place[enters] = row;
    s->place[leaves] = -1 - column;
    s->pivots++;
}

/// Impulses of the marked rows become basic in place of their slacks, best first; those that depend on the others do not.
static void make_basic(lemke *s, const uint8_t *marked) {
    for (;;) {
        int32_t best = -1;
        double most = DEPENDENT;
        for (int32_t i = 0; i < s->m; i++) {
            if (!marked[i] || s->place[i] < 0 || s->place[s->m + i] >= 0) continue;
            double d = row_of(s, s->place[i])[-1 - s->place[s->m + i]];
            if (d > most) most = d, best = i;
        }
        if (best < 0) return;
        pivot(s, s->place[best], -1 - s->place[s->m + best]);
    }
}

/// What the method starts from: impulses of equalities are basic, then those of the rows in `warm`. Returns how many.
static int32_t start_from(lemke *s, const uint8_t *warm) {
    int32_t before = s->pivots;
    start(s);
    make_basic(s, s->qp->equality);
    for (int32_t i = 0; i < s->m; i++) s->idle[i] = s->qp->equality[i] && s->place[i] >= 0;
    make_basic(s, warm);
    memcpy(s->reference, s->basic, (size_t)s->m * sizeof *s->reference);
    for (int32_t i = 0; i < s->m; i++) row_of(s, i)[s->m] = is_free(s, s->basic[i]) ? 0 : 1;
    int32_t restored = s->pivots - before;
    s->pivots = before;
    return restored;
}

/// Part k of the lexicographic right-hand side of a row.
static double perturbation(const lemke *s, int32_t row, int32_t k) {
    int32_t at = s->place[s->reference[k]];
    return at >= 0 ? (double)(at == row) : -row_of(s, row)[-1 - at];
}

/// Whether row a blocks before row b, both with a negative entry in the column.
static bool blocks_first(const lemke *s, int32_t a, int32_t b, int32_t column) {
    double ta = -row_of(s, a)[column], tb = -row_of(s, b)[column];
    double ra = fmax(s->value[a], 0) / ta, rb = fmax(s->value[b], 0) / tb;
    if (fabs(ra - rb) > TIE * fmax(fabs(ra), fabs(rb)) + DBL_MIN) return ra < rb;
    if (s->basic[a] == 2 * s->m || s->basic[b] == 2 * s->m) return s->basic[a] == 2 * s->m;
    for (int32_t k = 0; k < s->m; k++) {
        double pa = perturbation(s, a, k) / ta, pb = perturbation(s, b, k) / tb;
        if (fabs(pa - pb) > TIE * (fabs(pa) + fabs(pb))) return pa < pb;
    }
    return ta > tb;
}

/// The row that the growing variable of a column drives to zero first, or -1.
static int32_t blocking_row(const lemke *s, int32_t column) {
    double largest = 0;
    for (int32_t i = 0; i < s->m; i++) largest = fmax(largest, fabs(row_of(s, i)[column]));
    int32_t best = -1;
    for (int32_t i = 0; i < s->m; i++) {
        if (is_free(s, s->basic[i]) || !(row_of(s, i)[column] < -LEAST_PIVOT * fmax(largest, 1e-3))) continue;
        if (best < 0 || blocks_first(s, i, best, column)) best = i;
    }
    return best;
}

/// The row that z0 must make good first, or -1: the dictionary is the answer.
static int32_t worst_row(const lemke *s) {
    int32_t worst = -1;
    for (int32_t i = 0; i < s->m; i++) {
        if (is_free(s, s->basic[i]) || !(s->value[i] < -NEGATIVE)) continue;
        if (worst < 0 || s->value[i] <= s->value[worst]) worst = i; // of equal ones the last is lexicographically the least
    }
    return worst;
}

typedef enum lemke_end { DONE, RAY, LIMIT } lemke_end;

/// From a dictionary without z0 to one without it that is not negative anywhere. *ret_ray: the column that nothing blocks.
static lemke_end drive_out(lemke *s, int32_t *ret_ray) {
    int32_t row = worst_row(s);
    if (row < 0) return DONE;
    int32_t column = s->m; // z0's
    for (;;) {
        if (s->pivots >= s->most) return LIMIT;
        int32_t left = s->basic[row];
        pivot(s, row, column);
        if (left == 2 * s->m) return DONE;
        int32_t enters = left < s->m ? left + s->m : left - s->m;
        column = -1 - s->place[enters];
        row = blocking_row(s, column);
        if (row < 0) {
            *ret_ray = column;
            return RAY;
        }
    }
}

// ---- answers ----

/// d (m, scaled): change of the impulses that takes w, as it is, to zero where it is nonbasic.
static void correct(const lemke *s, double *d) {
    for (int32_t i = 0; i < s->m; i++) {
        int32_t at = s->place[s->m + i];
        d[i] = 0;
        for (int32_t k = 0; k < s->m && at >= 0; k++)
            if (s->place[k] < 0) d[i] -= row_of(s, at)[-1 - s->place[k]] * s->w[k];
    }
}

/// Largest |w| of the rows that it should be zero in; w of the motion x, scaled.
static double residual(const lemke *s, const double *x) {
    double largest = 0;
    for (int32_t i = 0; i < s->m; i++) {
        double part = s->to_unit[i] / s->unit;
        s->w[i] = part * (s->qp->c[i] - qpc_row_dot(s->qp, i, x));
        if (s->place[i] < 0) largest = fmax(largest, fabs(s->w[i]));
    }
    return largest;
}

/// Multipliers in the units of the QP, and the motion that goes with them. The last digits of both come from what is left of w: a
/// motion computed from large impulses afresh loses them. r, z (n): scratch.
static void give(lemke *s, double *x, double *lambda, double *r, double *z) {
    const qpc_qp *qp = s->qp;
    size_t n = (size_t)qp->n;
    if (n > 0) memcpy(r, qp->b, n * sizeof *r);
    for (int32_t i = 0; i < s->m; i++) {
        int32_t at = s->place[s->m + i];
        double f = at >= 0 ? s->value[at] * s->to_unit[i] * s->unit : 0;
        lambda[i] = qp->equality[i] || f > 0 ? f : 0;
        if (lambda[i] != 0) qpc_row_add(qp, i, -lambda[i], r);
    }
    qpc_linsys_solve(qp->sys, r, x);
    double left = residual(s, x);
    for (int32_t round = 0; round < REFINEMENTS && left > 0; round++) {
        memset(r, 0, n * sizeof *r);
        correct(s, s->f);
        for (int32_t i = 0; i < s->m; i++) {
            double d = s->f[i] * s->to_unit[i] * s->unit;
            if (!qp->equality[i] && lambda[i] + d < 0) d = -lambda[i];
            lambda[i] += d;
            if (d != 0) qpc_row_add(qp, i, -d, r);
        }
        qpc_linsys_solve(qp->sys, r, z);
        for (size_t i = 0; i < n; i++) x[i] += z[i];
        double now = residual(s, x);
        if (!(now < 0.5 * left)) break;
        left = now;
    }
}

/// Of the basic and the growing impulses along a ray, y (m): a proof, if it holds, is named in the report.
static qpc_status prove_by_ray(lemke *s, int32_t column, double *r, double *z, qpc_solver_report *report, qpc_error *err) {
    double *y = qpc_arena_array(s->work->arena, (size_t)s->m, sizeof *y), largest = 0;
    if (y == NULL) return QPC_SOLVER_MEMORY(err, s->work);
    for (int32_t i = 0; i < s->m; i++) {
        int32_t at = s->place[s->m + i];
        y[i] = at >= 0 ? row_of(s, at)[column] : (double)(-1 - at == column);
        largest = fmax(largest, fabs(y[i]));
    }
    for (int32_t i = 0; i < s->m; i++) {
        if (fabs(y[i]) < 1e-9 * largest || (!s->qp->equality[i] && y[i] < 0)) y[i] = 0;
        y[i] *= s->to_unit[i];
    }
    report->outcome = QPC_OUTCOME_STALLED;
    return qpc_proof_holds(s->work, y, r, z) ? qpc_proof_name(s->work, y, report, err) : QPC_OK;
}

/// Equalities that depend on others hold by themselves or contradict.
static qpc_status look_at_idle(lemke *s, double *r, double *z, bool *ret_contradict, qpc_solver_report *report, qpc_error *err) {
    *ret_contradict = false;
    for (int32_t i = 0; i < s->m; i++) {
        if (!(s->idle[i] && fabs(s->value[s->place[i]]) > 1e-9)) continue;
        double *y = qpc_arena_array(s->work->arena, (size_t)s->m, sizeof *y);
        if (y == NULL) return QPC_SOLVER_MEMORY(err, s->work);
        memset(y, 0, (size_t)s->m * sizeof *y);
        double sign = s->value[s->place[i]] > 0 ? -1 : 1;
        y[i] = sign * s->to_unit[i];
        for (int32_t k = 0; k < s->m; k++)
            if (s->qp->equality[k] && s->place[s->m + k] >= 0)
                y[k] = sign * row_of(s, s->place[s->m + k])[-1 - s->place[s->m + i]] * s->to_unit[k];
        if (!qpc_proof_holds(s->work, y, r, z)) continue;
        *ret_contradict = true;
        return qpc_proof_name(s->work, y, report, err);
    }
    return QPC_OK;
}

/// The free motion: what there is as long as nothing better is.
static void begin(const qpc_work *work, double *x, double *lambda) {
    if (work->qp->n > 0) memcpy(x, work->free_dv, (size_t)work->qp->n * sizeof *x);
    memset(lambda, 0, (size_t)work->qp->m * sizeof *lambda);
}

static bool allocate(lemke *s) {
    qpc_arena *arena = s->work->arena;
    size_t m = (size_t)s->m;
    s->A = qpc_arena_array(arena, m * m, sizeof *s->A);
    s->dictionary = qpc_arena_array(arena, m * (m + 1), sizeof *s->dictionary);
    s->q = qpc_arena_array(arena, 5 * m, sizeof *s->q);
    s->basic = qpc_arena_array(arena, 5 * m + 2, sizeof *s->basic);
    s->idle = qpc_arena_array(arena, m, sizeof *s->idle);
    if (s->A == NULL || s->dictionary == NULL || s->q == NULL || s->basic == NULL || s->idle == NULL) return false;
    s->to_unit = s->q + m;
    s->value = s->q + 2 * m;
    s->f = s->q + 3 * m;
    s->w = s->q + 4 * m;
    s->nonbasic = s->basic + m;
    s->place = s->basic + 2 * m + 1;
    s->reference = s->basic + 4 * m + 2;
    return true;
}

qpc_status qpc_lcp_impulse_run(const qpc_work *work, const qpc_solver_options *options, double *x, double *lambda,
                               qpc_solver_report *report, qpc_error *err) {
    const qpc_qp *qp = work->qp;
    lemke s = {.work = work, .qp = qp, .m = qp->m, .most = PIVOTS_A_ROW * qp->m + 100};
    report->engine = QPC_SOLVER_LCP_IMPULSE;
    report->outcome = QPC_OUTCOME_ITERATION_LIMIT;
    if (options->max_iterations > 0 && options->max_iterations < s.most) s.most = options->max_iterations;
    if (qp->m > ROWS_MOST) {
        begin(work, x, lambda); // and the certificate tells
        return QPC_OK;
    }
    double *r = qpc_arena_array(work->arena, (size_t)qp->n, sizeof *r);
    double *z = qpc_arena_array(work->arena, (size_t)qp->n, sizeof *z);
    uint8_t *warm = qpc_arena_array(work->arena, (size_t)qp->m, sizeof *warm);
    if (r == NULL || z == NULL || warm == NULL || !allocate(&s) || !form_operator(&s)) return QPC_SOLVER_MEMORY(err, work);
    scale(&s);
    for (int32_t i = 0; i < s.m; i++) warm[i] = !qp->equality[i] && lambda[i] > 0;
    begin(work, x, lambda);
    for (int32_t round = 0; round < ROUNDS; round++) {
        int32_t ray = -1;
        int32_t restored = start_from(&s, warm);
        report->restored += restored;
        report->rebuilds += round > 0;
        bool contradict = false;
        qpc_status status = round > 0 ? QPC_OK : look_at_idle(&s, r, z, &contradict, report, err);
        if (status != QPC_OK || contradict) return status;
        lemke_end end = drive_out(&s, &ray);
        report->iterations = s.pivots;
        give(&s, x, lambda, r, z);
        if (end == RAY) {
            status = prove_by_ray(&s, ray, r, z, report, err);
            if (status != QPC_OK || report->outcome == QPC_OUTCOME_INFEASIBLE) return status;
        }
        if (end == LIMIT) {
            report->outcome = QPC_OUTCOME_ITERATION_LIMIT;
            return QPC_OK;
        }
        qpc_residuals residuals = qpc_work_residuals(work, x, lambda, r, z);
        bool met = qpc_work_accepts(&residuals, options, 1.0);
        report->outcome = met ? QPC_OUTCOME_OPTIMAL : QPC_OUTCOME_STALLED;
        if (met) return QPC_OK;
        for (int32_t i = 0; i < s.m; i++) warm[i] = !qp->equality[i] && lambda[i] > 0;
    }
    return QPC_OK;
}
