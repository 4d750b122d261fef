/// Semismooth Newton on the augmented Lagrangian (T33).
///
///     phi(x) = 1/2 x'Kx - b'x + sum_i R_i/2 (J_i x - c_i + mu_i / R_i)_+^2     R_i = rhoF / kt_i^2
///
/// (no + on equalities) is convex and piecewise quadratic. A Newton step takes the rows with
/// u_i = mu_i + R_i (J_i x - c_i) > 0 as active, solves (K + J_A'R_A J_A) d = -grad, and goes to
/// the exact minimum along d. When a full step leaves the active set as it was, x minimises phi,
/// and mu <- (u)_+ is the next multiplier. Many rows change at once, and dependent rows need no
/// care.
///
/// The matrix: rows whose columns lie within the band of K keep it banded (a cable's contacts);
/// a few rows that reach further (cable on cable) enter by the Woodbury formula on the banded factor,
/// many by a sparse factor of their own (sparse.h). Where the band is wide or the sparse factor would
/// be too full, Woodbury goes on up to FAR_DIRECT of them, then come conjugate gradients preconditioned
/// with the banded part (or, under `auto`, active-set, which is faster there). From afar rhoF rises from small to large by
/// tenths: a soft minimum finds nearly the right set in few Newton steps, and each stage starts next
/// to its own. All at once, the set grows and shrinks by the rows at its borders only, and a cable
/// along a drum takes hundreds of steps. A warm start tries the last set at the final rhoF first.
/// It cannot prove that rows contradict: it stops at its limits then. Runs on the worker in the
/// world; memory from the arena.
#include "engine/solver/sparse.h"
#include "engine/solver/work.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const double SMALL_COMP = 1e-14; // sum |lambda s| / S^2: dv is known to 1e-7 then
static const double RHO_FIRST = 1e2, RHO_FIRST_OF_MANY = 1, RHO_GROWTH = 10, RHO = 1e6, RHO_MOST = 1e9;

enum {
    OUTER_MOST = 40,
    INNER_MOST = 100, // Newton steps per multiplier update
    FAR_DIRECT = 128, // active rows beyond the band that Woodbury takes
    FAR_MOST = 800,   // up to which active-set beats CG
    FAR_FEW = 12,     // up to which Woodbury beats the sparse factor
    NARROW = 8,       // half bandwidth of K up to which there is one
    SPARSE_MOST = 3000000, // block products a factorisation, 30 ms
    FEW = 12,         // missed rows that need no soft start
    MANY = 150,       // missed rows that need a softer one
    PROBE = 12,       // Newton steps that the last set gets to prove itself
    PROBE_OF_MANY = 4, // the same where many rows are missed
    SLOW_MOST = 6,    // multiplier updates in a row that do not help
};

typedef struct alm {
    const qpc_work *work;
    const qpc_qp *qp;
    double *x;                        // (n)
    double *mu;                       // (m) the caller's lambda
    double *R, *u, *g, *Jd, *trial;   // (m)
    uint8_t *active, *factored, *far; // (m) now; in the factor; columns beyond the band
    double *grad, *d, *t, *rd;        // (n)
    double *band, *factor;            // K + near rows
    int64_t band_size;
    int32_t far_rows;  // rows that reach beyond the band
    int32_t far_count; // active ones
    int32_t *far_row;  // (far_rows)
    double *Y;         // blocks of (n x 4): B^-1 J_far'
    double *S;         // packed factor of R^-1 + J_far Y, as in delassus.c
    double *e;         // (FAR_DIRECT)
    double *cg;        // (3 n) CG
    bool have_factor;
    bool have_band;    // the banded factor is that of `factored`
    bool by_sparse;    // the sparse factor is
    int8_t sparse_fits; // -1 not analysed yet, 0 no, 1 yes
    bool no_memory;     // for it
    qpc_sparse sparse;  // of K, near rows and those with `used`
    qpc_arena_mark sparse_from;
    uint8_t *used;      // (m)
    bool hand_over; // stop where active-set is faster
    qpc_solver_report *report;
} alm;

static bool far_direct(const alm *s) {
    return s->far_count <= FAR_DIRECT;
}

/// Factor of K + J_A'R J_A for the present active set. Rows of the matrix above the first unknown
/// of any row that came or went are as they were, and so is their part of the factor.
static bool factor_band(alm *s) {
    const qpc_qp *qp = s->qp;
    int32_t n = qp->n, w = qp->sys->bandwidth, from = s->have_band ? n : 0;
    int64_t stride = w + 1;
    for (int32_t i = 0; i < qp->m && s->have_band; i++) {
        if (s->active[i] == s->factored[i] || s->far[i]) continue;
        int32_t first = qp->column[qp->row_start[i]];
        if (first < from) from = first;
    }
    memcpy(s->band + from * stride, qp->sys->band + from * stride,
           (size_t)(s->band_size - from * stride) * sizeof(double));
    s->far_count = 0;
    for (int32_t i = 0; i < qp->m; i++) {
        s->factored[i] = s->active[i];
        if (!s->active[i]) continue;
        if (s->far[i]) {
            s->far_row[s->far_count++] = i;
            continue;
        }
        int32_t first = qp->row_start[i], last = qp->row_start[i + 1];
        for (int32_t k = first; k < last; k++) {
            if (qp->column[k] < from) continue;
            double v = s->R[i] * qp->value[k];
            double *row = s->band + (int64_t)qp->column[k] * stride + (w - qp->column[k]);
            for (int32_t l = first; l <= k; l++) row[qp->column[l]] += v * qp->value[l];
        }
    }
    s->have_band = s->have_factor = qpc_band_factor(n, w, s->band, s->factor, from) < 0;
    if (!s->have_factor) return false;
    if (s->hand_over && s->far_count > FAR_DIRECT && s->far_count <= FAR_MOST) return false;
    if (s->far_count == 0 || !far_direct(s)) return true;
    // Y = B^-1 J_far', S = R^-1 + J_far Y = L D L'
    for (int32_t first = 0; first < s->far_count; first += QPC_LINSYS_BLOCK) {
        double *block = s->Y + (int64_t)first * n;
        memset(block, 0, (size_t)n * QPC_LINSYS_BLOCK * sizeof(double));
        for (int32_t lane = 0; lane < QPC_LINSYS_BLOCK && first + lane < s->far_count; lane++) {
            int32_t row = s->far_row[first + lane];
            for (int32_t k = qp->row_start[row]; k < qp->row_start[row + 1]; k++)
                block[(int64_t)qp->column[k] * QPC_LINSYS_BLOCK + lane] = qp->value[k];
        }
        qpc_band_solve_block(n, w, s->factor, block);
    }
    for (int32_t i = 0; i < s->far_count; i++) {
        int32_t row = s->far_row[i];
        double *l = s->S + (int64_t)i * (i + 1) / 2;
        for (int32_t j = 0; j <= i; j++) {
            const double *y = s->Y + (int64_t)(j - j % QPC_LINSYS_BLOCK) * n + j % QPC_LINSYS_BLOCK;
            double sum = 0;
            for (int32_t k = qp->row_start[row]; k < qp->row_start[row + 1]; k++)
                sum += qp->value[k] * y[(int64_t)qp->column[k] * QPC_LINSYS_BLOCK];
            l[j] = sum;
        }
        l[i] += 1 / s->R[row];
        double pivot = l[i];
        for (int32_t j = 0; j < i; j++) {
            const double *above = s->S + (int64_t)j * (j + 1) / 2;
            for (int32_t k = 0; k < j; k++) l[j] -= l[k] * above[k];
        }
        for (int32_t j = 0; j < i; j++) {
            double v = l[j] / s->S[(int64_t)j * (j + 1) / 2 + j];
            pivot -= v * l[j];
            l[j] = v;
        }
        l[i] = pivot;
        if (!(pivot > 0)) return s->have_band = s->have_factor = false;
    }
    return true;
}

/// Whether the present active set goes to the sparse factor.
static bool wants_sparse(alm *s) {
    int32_t far = 0;
    for (int32_t i = 0; i < s->qp->m; i++) far += s->far[i] && s->active[i];
    if (far <= FAR_FEW || s->qp->sys->bandwidth > NARROW) return false;
    bool anew = s->sparse_fits < 0;
    for (int32_t i = 0; i < s->qp->m; i++) {
        if (!s->far[i] || !s->active[i] || s->used[i]) continue;
        s->used[i] = 1;
        anew |= s->sparse_fits > 0 && !qpc_sparse_holds(&s->sparse, i);
    }
    if (anew && s->sparse_fits != 0) {
        bool fits = false;
        qpc_arena_rewind(s->work->arena, s->sparse_from);
        s->no_memory = !qpc_sparse_analyse(&s->sparse, s->work->arena, s->qp, s->used, SPARSE_MOST, &fits);
        s->sparse_fits = fits && !s->no_memory;
    }
    return s->sparse_fits > 0;
}

static bool factor(alm *s) {
    s->report->factorizations++;
    s->by_sparse = wants_sparse(s);
    if (s->no_memory) return s->have_factor = false;
    if (!s->by_sparse) return factor_band(s);
    s->have_band = false;
    qpc_sparse_load(&s->sparse);
    for (int32_t i = 0; i < s->qp->m; i++) {
        s->factored[i] = s->active[i];
        if (s->active[i]) qpc_sparse_add_row(&s->sparse, i, s->R[i]);
    }
    return s->have_factor = qpc_sparse_factor(&s->sparse);
}

static void far_system_solve(const alm *s, double *e) {
    for (int32_t i = 0; i < s->far_count; i++) {
        const double *l = s->S + (int64_t)i * (i + 1) / 2;
        for (int32_t j = 0; j < i; j++) e[i] -= l[j] * e[j];
    }
    for (int32_t i = 0; i < s->far_count; i++) e[i] /= s->S[(int64_t)i * (i + 1) / 2 + i];
    for (int32_t i = s->far_count - 1; i > 0; i--) {
        const double *l = s->S + (int64_t)i * (i + 1) / 2;
        for (int32_t j = 0; j < i; j++) e[j] -= l[j] * e[i];
    }
}

/// y = (K + J_A'R J_A) x of the factored set.
static void multiply(const alm *s, const double *x, double *y) {
    const qpc_qp *qp = s->qp;
    qpc_linsys_multiply(qp->sys, x, y);
    for (int32_t i = 0; i < qp->m; i++)
        if (s->factored[i]) qpc_row_add(qp, i, s->R[i] * qpc_row_dot(qp, i, x), y);
}

/// d = (K + J_A'R J_A)^-1 rhs; rhs is kept.
static void solve(alm *s, const double *rhs, double *d) {
    const qpc_qp *qp = s->qp;
    int32_t n = qp->n, w = qp->sys->bandwidth;
    qp->sys->solves++;
    if (s->by_sparse) {
        qpc_sparse_solve(&s->sparse, rhs, d);
        return;
    }
    memcpy(d, rhs, (size_t)n * sizeof(double));
    qpc_band_solve(n, w, s->factor, d);
    if (s->far_count == 0) return;
    if (far_direct(s)) {
        for (int32_t i = 0; i < s->far_count; i++) s->e[i] = qpc_row_dot(qp, s->far_row[i], d);
        far_system_solve(s, s->e);
        for (int32_t i = 0; i < s->far_count; i++) {
            const double *y = s->Y + (int64_t)(i - i % QPC_LINSYS_BLOCK) * n + i % QPC_LINSYS_BLOCK;
            for (int32_t k = 0; k < n; k++) d[k] -= y[(int64_t)k * QPC_LINSYS_BLOCK] * s->e[i];
        }
        return;
    }
    // Preconditioned CG from the banded solution.
    double *r = s->cg, *p = s->cg + n, *q = s->cg + 2 * (int64_t)n, *z = s->t;
    multiply(s, d, q);
    double norm0 = 0, rz = 0;
    for (int32_t i = 0; i < n; i++) {
        r[i] = rhs[i] - q[i];
        norm0 += rhs[i] * d[i];
    }
    for (int32_t step = 0; step < 4 * s->far_count + 40; step++) {
        memcpy(z, r, (size_t)n * sizeof(double));
        qpc_band_solve(n, w, s->factor, z);
        qp->sys->solves++;
        double last = rz;
        rz = 0;
        for (int32_t i = 0; i < n; i++) rz += r[i] * z[i];
        if (!(rz > 1e-22 * fabs(norm0))) break;
        double beta = step > 0 ? rz / last : 0;
        for (int32_t i = 0; i < n; i++) p[i] = z[i] + (step > 0 ? beta * p[i] : 0);
        multiply(s, p, q);
        double pq = 0;
        for (int32_t i = 0; i < n; i++) pq += p[i] * q[i];
        if (!(pq > 0)) break;
        double alpha = rz / pq;
        for (int32_t i = 0; i < n; i++) {
            d[i] += alpha * p[i];
            r[i] -= alpha * q[i];
        }
    }
}

/// Whether u of row i says other than `now`. Within round-off of zero it says nothing, so that
/// weakly active rows do not flip for ever.
static bool flips(const alm *s, int32_t i, double u, bool now) {
    if (s->qp->equality[i] || (u > 0) == now || s->work->kt2[i] == 0) return false;
    return fabs(u) > 16 * DBL_EPSILON * (s->R[i] * qpc_row_size(s->qp, i, s->x));
}

/// u = mu + R g, and the active set by u > 0, rows at zero staying as they are in the factor.
static void update_active(alm *s) {
    const qpc_qp *qp = s->qp;
    for (int32_t i = 0; i < qp->m; i++) {
        s->u[i] = s->mu[i] + s->R[i] * s->g[i];
        bool on = qp->equality[i] || s->u[i] > 0;
        if (s->have_factor && on != (s->factored[i] != 0) && !flips(s, i, s->u[i], s->factored[i]))
            on = s->factored[i] != 0;
        s->active[i] = on && s->work->kt2[i] > 0;
    }
}

/// Minimum of phi along d: the root of its slope, which is increasing and piecewise linear in t.
/// Newton on the slope, kept inside a bracket; exact once a step stays on one piece.
static double line_search(const alm *s, double slope0, double curve0) {
    const qpc_qp *qp = s->qp;
    double low = 0, high = HUGE_VAL, t = 1;
    for (int32_t turn = 0; turn < 60; turn++) {
        double slope = slope0 + t * curve0, curve = curve0;
        for (int32_t i = 0; i < qp->m; i++) {
            double u = s->u[i] + t * s->R[i] * s->Jd[i];
            if (u > 0 || qp->equality[i]) {
                slope += u * s->Jd[i];
                curve += s->R[i] * s->Jd[i] * s->Jd[i];
            }
        }
        if (slope > 0)
            high = t;
        else
            low = t;
        double next = t - slope / curve;
        if (!(next > low))
            next = high < HUGE_VAL ? 0.5 * (low + high) : low;
        else if (!(next < high))
            next = 0.5 * (low + high);
        if (!(fabs(next - t) > 1e-14 * t)) return next > 0 ? next : t;
        t = next;
    }
    return t;
}

static bool allocate(alm *s, qpc_arena *arena) {
    const qpc_qp *qp = s->qp;
    size_t n = (size_t)qp->n, m = (size_t)qp->m;
    s->band_size = (int64_t)qp->n * (qp->sys->bandwidth + 1);
    double *rows = qpc_arena_array(arena, 5 * m, sizeof(double));
    uint8_t *flags = qpc_arena_array(arena, 4 * m, 1);
    double *columns = qpc_arena_array(arena, 4 * n, sizeof(double));
    s->band = qpc_arena_array(arena, (size_t)s->band_size, sizeof(double));
    s->factor = qpc_arena_array(arena, (size_t)s->band_size, sizeof(double));
    if (rows == NULL || flags == NULL || columns == NULL || s->band == NULL || s->factor == NULL)
        return false;
    s->R = rows;
    s->u = rows + m;
    s->g = rows + 2 * m;
    s->Jd = rows + 3 * m;
    s->trial = rows + 4 * m;
    s->active = flags;
    s->factored = flags + m;
    s->far = flags + 2 * m;
    s->used = flags + 3 * m;
    s->grad = columns;
    s->d = columns + n;
    s->t = columns + 2 * n;
    s->rd = columns + 3 * n;
    for (int32_t i = 0; i < qp->m; i++) {
        int32_t first = qp->row_start[i], last = qp->row_start[i + 1];
        s->far[i] = last > first && qp->column[last - 1] - qp->column[first] > qp->sys->bandwidth;
        s->far_rows += s->far[i];
    }
    if (s->far_rows == 0) return true;
    size_t direct = s->far_rows < FAR_DIRECT ? (size_t)s->far_rows : FAR_DIRECT;
    size_t blocks = (direct + QPC_LINSYS_BLOCK - 1) / QPC_LINSYS_BLOCK;
    s->far_row = qpc_arena_array(arena, (size_t)s->far_rows, sizeof(int32_t));
    s->Y = qpc_arena_array(arena, blocks * QPC_LINSYS_BLOCK * n, sizeof(double));
    s->S = qpc_arena_array(arena, direct * (direct + 1) / 2, sizeof(double));
    s->e = qpc_arena_array(arena, direct, sizeof(double));
    s->cg = qpc_arena_array(arena, s->far_rows > FAR_DIRECT ? 3 * n : 0, sizeof(double));
    return s->far_row != NULL && s->Y != NULL && s->S != NULL && s->e != NULL && s->cg != NULL;
}

static void set_penalty(alm *s, double rho) {
    for (int32_t i = 0; i < s->qp->m; i++)
        s->R[i] = s->work->kt2[i] > 0 ? rho / s->work->kt2[i] : 0;
    s->have_band = s->have_factor = false;
    if (s->far_rows == 0) return;
    for (int32_t i = 0; i < s->qp->m; i++) s->used[i] = !s->far[i]; // the stage finds its own rows
    if (s->sparse_fits > 0) s->sparse_fits = -1;
}

/// Minimise phi from x for the present mu. Returns false if a limit or a lost factor stops it; x
/// and u are those of the last point in any case. K x - b and J x - c are formed afresh at the
/// start and carried along by K d and J d from there.
static bool minimise(alm *s, bool warm, int32_t limit) {
    const qpc_qp *qp = s->qp;
    int32_t n = qp->n, m = qp->m;
    qpc_linsys_multiply(qp->sys, s->x, s->rd);
    for (int32_t i = 0; i < n; i++) s->rd[i] -= qp->b[i];
    for (int32_t i = 0; i < m; i++) s->g[i] = qpc_row_dot(qp, i, s->x) - qp->c[i];
    for (int32_t step = 0;; step++) {
        if (warm && step == 0) {
            // The set of the last solve, whole: u > 0 only says what this x would need.
            for (int32_t i = 0; i < m; i++) {
                s->u[i] = s->mu[i] + s->R[i] * s->g[i];
                s->active[i] = (qp->equality[i] || s->mu[i] > 0) && s->work->kt2[i] > 0;
            }
        } else {
            update_active(s);
        }
        if (step >= INNER_MOST || s->report->iterations >= limit) return false;
        s->report->iterations++;
        // -grad = -(K x - b) - J_A' u_A
        bool fresh = !s->have_factor;
        for (int32_t i = 0; i < n; i++) s->grad[i] = -s->rd[i];
        for (int32_t i = 0; i < m; i++) {
            if (s->active[i]) qpc_row_add(qp, i, -s->u[i], s->grad);
            fresh |= s->active[i] != s->factored[i];
        }
        if (fresh && !factor(s)) return false;
        solve(s, s->grad, s->d);
        qpc_linsys_multiply(qp->sys, s->d, s->t);
        double curve = 0, slope = 0;
        for (int32_t i = 0; i < n; i++) {
            curve += s->d[i] * s->t[i];
            slope += s->rd[i] * s->d[i];
        }
        if (!isfinite(curve)) return false;
        // The full step, if the set holds there: then it is the minimum of phi.
        bool same = true;
        for (int32_t i = 0; i < m; i++) {
            s->Jd[i] = qpc_row_dot(qp, i, s->d);
            s->trial[i] = s->u[i] + s->R[i] * s->Jd[i];
            same &= !flips(s, i, s->trial[i], s->active[i] != 0);
        }
        // A step below round-off ends it as well: nothing along d can be told from noise.
        if (same || curve <= 1e-30 * s->work->scale * s->work->scale) {
            // Multipliers from the same J x - c that made the right-hand side: its round-off, times
            // R, then cancels in K x - b + J'u.
            for (int32_t i = 0; i < n; i++) s->x[i] += s->d[i];
            memcpy(s->u, s->trial, (size_t)m * sizeof(double));
            return true;
        }
        double t = warm && step == 0 ? 1 : line_search(s, slope, curve);
        for (int32_t i = 0; i < n; i++) {
            s->x[i] += t * s->d[i];
            s->rd[i] += t * s->t[i];
        }
        for (int32_t i = 0; i < m; i++) s->g[i] += t * s->Jd[i];
    }
}

qpc_status qpc_augmented_lagrangian_run(const qpc_work *work, const qpc_solver_options *options,
                                        bool hand_over, double *x, double *lambda,
                                        qpc_solver_report *report, qpc_error *err) {
    const qpc_qp *qp = work->qp;
    alm s = {
        .work = work, .qp = qp, .x = x, .mu = lambda, .hand_over = hand_over, .report = report,
        .sparse_fits = -1};
    report->engine = QPC_SOLVER_AUGMENTED_LAGRANGIAN;
    report->outcome = QPC_OUTCOME_ITERATION_LIMIT;
    if (qp->sys->kind != QPC_LINSYS_BAND) { // no band to work on: active-set takes over
        memcpy(x, work->free_dv, (size_t)qp->n * sizeof(double));
        return QPC_OK;
    }
    if (!allocate(&s, work->arena)) return QPC_SOLVER_MEMORY(err, work);
    s.sparse_from = qpc_arena_get_mark(work->arena); // nothing is taken from the arena behind it
    bool warm = false, improved = false;
    for (int32_t i = 0; i < qp->m; i++) {
        if (work->kt2[i] == 0) lambda[i] = 0;
        warm |= lambda[i] != 0;
    }
    memcpy(x, work->free_dv, (size_t)qp->n * sizeof(double));
    int32_t limit = options->max_iterations > 0 ? options->max_iterations : 400, slow = 0;
    double rho = RHO, best = DBL_MAX;
    set_penalty(&s, rho);
    int32_t probe = work->missed > MANY ? PROBE_OF_MANY : PROBE;
    bool probed = warm && work->missed > FEW && minimise(&s, true, limit < probe ? limit : probe);
    if (work->missed > FEW && !probed) {
        rho = work->missed > MANY ? RHO_FIRST_OF_MANY : RHO_FIRST;
        set_penalty(&s, rho);
        memcpy(x, work->free_dv, (size_t)qp->n * sizeof(double));
    }
    for (int32_t outer = 0; outer < OUTER_MOST; outer++) {
        bool done = (probed && outer == 0) || minimise(&s, warm && outer == 0, limit);
        if (s.no_memory) return QPC_SOLVER_MEMORY(err, work);
        // lambda <- (u)_+
        double runaway = 0;
        for (int32_t i = 0; i < qp->m; i++) {
            double u = work->kt2[i] > 0 && (qp->equality[i] || s.u[i] > 0) ? s.u[i] : 0;
            lambda[i] = u;
            if (fabs(u) * work->kt[i] > runaway) runaway = fabs(u) * work->kt[i];
        }
        qpc_residuals residuals = qpc_work_residuals(work, x, lambda, s.grad, s.t);
        if (qpc_work_accepts(&residuals, options, 0.25)) {
            // Accepted; one more update with the factor at hand squares the error bound away.
            report->outcome = QPC_OUTCOME_OPTIMAL;
            if (residuals.comp <= SMALL_COMP || improved || !done) break;
            improved = true;
        } else if (improved) {
            improved = false; // never worse than what was accepted, up to round-off
            report->outcome = QPC_OUTCOME_ITERATION_LIMIT;
        }
        if (!done || !isfinite(runaway)) break;
        if (rho < RHO) {
            rho = fmin(RHO, RHO_GROWTH * rho);
            set_penalty(&s, rho);
            continue;
        }
        // Progress: of the violation, or of the stationarity when only that is left.
        double measure = residuals.prim + residuals.stat;
        if (measure > 0.25 * best) {
            if (++slow >= SLOW_MOST) break;
            if (rho < RHO_MOST && slow >= 2 && residuals.prim > residuals.stat) {
                rho *= 10;
                set_penalty(&s, rho);
            }
        } else {
            slow = 0;
        }
        if (measure < best) best = measure;
    }
    report->active = qpc_work_active(qp, lambda);
    return QPC_OK;
}
