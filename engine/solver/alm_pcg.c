/// augmented-lagrangian without a factor: inexact Newton steps by conjugate gradients.
///
/// The same function phi as in augmented_lagrangian.c, with a small rhoF. (K + J_A'R J_A) d = -grad is solved
/// by conjugate gradients (dynamics/ssor.h) only as far as pays. mu <- (u)_+ as soon as the gradient is
/// small against the change of mu that this makes, both measured as energies; so neither of the two errors is
/// pushed down far below the other. Good where nodes are many and K is well-conditioned in its blocks
/// (cloth), hopeless where a heavy thing rests on a light one; what it cannot solve in its budget is left to
/// a factor. Runs on the worker in the world; memory from the arena.
#include "engine/dynamics/ssor.h"
#include "engine/solver/alm.h"
#include "engine/solver/work.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    NEWTON_MOST = 400,
    CG_AT_ONCE = 100,
    SLOW_MOST = 3,
    STUCK = 60,
    WIDE = 24,   // entries: beyond, a row is a wide one
    REFRESH = 8, // updates of mu after which K x - b is formed afresh
};
// Measured on a sheet of 50 x 50 over a ball: 103 CG steps a QP at rhoF 2, 113 at 1, 135 at 5; reductions of 0.3
// are no better than 0.1; THETA 0.5 takes a tenth as many steps again and can fail to converge.
static const double RHO = 2, ETA = 0.1, THETA = 0.3;
static const double WELL = 0.3; // of THETA's measure: no step of Newton goes below. At 0.5 it takes a fifth as many again, at 0.2 6 % more CG steps
static const double BLIND = 0.03; // the first step of a warm start from K^-1 b, where energies say what the rows will do, not what is left
static const double RHO_GROWTH = 4, RHO_MOST = 1e4, SOFTEN = 16, STRIDE = 0.3; // STRIDE: of the energy, in SLOW_MOST updates
static const double HARDEN = 0.01; // of the largest part in that energy: rows that get a larger rhoF
// What is expected of either way: CG steps here, factorisations there, those being so much dearer than K's own.
static const double STEPS = 200, FACTORS = 12, FILL = 1.5;
// Rows of contacts and springs touch four nodes. A wider one couples its unknowns in pairs, half of the rows being active: operations
// a pair and step (blocks go through memory twice), and K + J'RJ is full whatever K is.
static const double OF_A_PAIR = 16, ACTIVE_SHARE = 0.5;
static const double FULL = 0.5; // of K's triangle: no net of springs, and how many steps that takes nobody knows

static const double LINE_PRECISION = 1e-6; // inexact steps need no more
static const double FADED = 6e-7, FADED_LEAST = 1e-4, FADED_MOST = 1e-2;
static const double STRICTEST = 1e-8; // beyond, doubles do not go

double qpc_alm_pcg_step_operations(const qpc_linsys *sys) {
    int64_t entries;
    (void)qpc_linsys_values(sys, &entries);
    return 2 * (double)entries + 15.0 * sys->n;
}

bool qpc_alm_pcg_pays(const qpc_linsys *sys) {
    if (sys->blocks == NULL) return false;
    if (2.0 * (double)sys->start[sys->n] > FULL * sys->n * (double)sys->n) return false;
    return STEPS * qpc_alm_pcg_step_operations(sys) < FACTORS * FILL * sys->operations;
}

/// Sum of squared widths of wide rows.
static double wide_pairs(const qpc_qp *qp) {
    double pairs = 0;
    for (int32_t i = 0; i < qp->m; i++) {
        double width = qp->row_start[i + 1] - qp->row_start[i];
        if (width > WIDE) pairs += width * width;
    }
    return pairs;
}

/// What the factorisations would cost, in CG steps.
static double steps_for_factors(const qpc_qp *qp) {
    double pairs = wide_pairs(qp), n = qp->n, one = FILL * qp->sys->operations;
    if (pairs > 0) one = fmax(one, n * n * n / 3);
    return FACTORS * one / (qpc_alm_pcg_step_operations(qp->sys) + ACTIVE_SHARE * OF_A_PAIR * pairs);
}

bool qpc_alm_pcg_pays_with(const qpc_qp *qp) {
    return qpc_alm_pcg_pays(qp->sys) && STEPS < steps_for_factors(qp);
}

typedef struct pcg {
    const qpc_work *work;
    const qpc_qp *qp;
    qpc_ssor ssor;
    double *x, *mu;                  // (3 count), (m) the caller's lambda
    double *R, *u, *g, *Jd, *answer, *moved; // (m)
    double *r, *z;                   // (3 count) of a check
    uint8_t *active;                 // (m)
    int32_t *list, listed;           // active rows
    double *rd, *grad, *d, *Kd;      // (3 count)
    double most;                     // rhoF that a row may have
    double least, reference;         // least: energy of an update so far
    bool single;                     // K d of steps in single precision
    double peak, faded;              // of the gradients since K x - b was formed; part of it at which it is formed afresh
    int32_t slow, updates;
    bool renew;                      // R has changed
    qpc_solver_report *report;
} pcg;

typedef struct state { // what (x, u_+) would be as an answer, and the energy that an update of mu moves
    double natural, prim, comp, energy;
} state;

static bool allocate(pcg *s, qpc_arena *arena) {
    size_t m = (size_t)s->qp->m, n = 3 * (size_t)s->qp->sys->blocks->count;
    int64_t couplings = qpc_ssor_couplings(s->qp->m, s->qp->row_start, s->qp->column);
    double *memory = qpc_arena_array(arena, qpc_ssor_size(s->qp->sys->blocks, true, couplings), sizeof(double));
    if (memory == NULL) return false;
    qpc_ssor_init(&s->ssor, s->qp->sys->blocks, true, couplings, memory);
    double *rows = qpc_arena_array(arena, 6 * m, sizeof(double));
    double *columns = qpc_arena_array(arena, 7 * n, sizeof(double));
    s->active = qpc_arena_array(arena, m, 1);
    s->list = qpc_arena_array(arena, m, sizeof *s->list);
    if (rows == NULL || columns == NULL || s->active == NULL || s->list == NULL) return false;
    s->R = rows;
    s->u = rows + m;
    s->g = rows + 2 * m;
    s->Jd = rows + 3 * m;
    s->answer = rows + 4 * m;
    s->moved = rows + 5 * m;
    s->x = columns;
    s->rd = columns + n;
    s->grad = columns + 2 * n;
    s->d = columns + 3 * n;
    s->Kd = columns + 4 * n;
    s->r = columns + 5 * n;
    s->z = columns + 6 * n;
    return true;
}

/// E = J_A'R J_A of the active rows into what preconditions and is solved.
static bool precondition(pcg *s) {
    const qpc_qp *qp = s->qp;
    return qpc_ssor_prepare(&s->ssor, s->listed, s->list, qp->row_start, qp->column, qp->value, s->R);
}

static void refresh(pcg *s) {
    const qpc_qp *qp = s->qp;
    qpc_blocks_multiply(qp->sys->blocks, s->x, s->rd);
    for (int32_t i = 0; i < qp->n; i++) s->rd[i] -= qp->b[i];
    for (int32_t i = 0; i < qp->m; i++) s->g[i] = qpc_row_dot(qp, i, s->x) - qp->c[i];
}

/// u and the set it makes active (`warm`: that of mu); true if it changed.
static bool update_active(pcg *s, bool warm) {
    const qpc_qp *qp = s->qp;
    bool changed = false;
    s->listed = 0;
    for (int32_t i = 0; i < qp->m; i++) {
        s->u[i] = s->mu[i] + s->R[i] * s->g[i];
        bool on = qp->equality[i] || (warm ? s->mu[i] > 0 : s->u[i] > 0);
        on &= s->work->kt2[i] > 0;
        changed |= on != s->active[i];
        s->active[i] = on;
        if (on) s->list[s->listed++] = i;
    }
    return changed;
}

static state look(const pcg *s) {
    const qpc_qp *qp = s->qp;
    state out = {0};
    for (int32_t i = 0; i < qp->m; i++) {
        double slack = -s->g[i], violation = qp->equality[i] ? fabs(slack) : -slack;
        if (s->work->kt2[i] == 0) { // an empty row
            if (violation > out.natural) out.natural = violation;
            continue;
        }
        double u = qp->equality[i] || s->u[i] > 0 ? s->u[i] : 0, change = u - s->mu[i];
        double push = u * s->work->kt2[i], miss = fabs(qp->equality[i] || slack < push ? slack : push);
        if (miss > out.natural) out.natural = miss;
        if (violation > out.prim * s->work->kt[i]) out.prim = violation / s->work->kt[i];
        out.comp += fabs(u * slack);
        out.energy += change * change / s->R[i];
    }
    out.energy = sqrt(out.energy);
    return out;
}

/// One step of Newton: d by conjugate gradients down to `target`, and the way along it.
static bool newton(pcg *s, double target, bool whole) {
    const qpc_qp *qp = s->qp;
    int32_t n = qp->n;
    int64_t before = s->ssor.steps;
    qpc_ssor_solve(&s->ssor, target, CG_AT_ONCE, s->d);
    s->report->cg_steps += (int32_t)(s->ssor.steps - before);
    if (s->single) qpc_ssor_product(&s->ssor, s->Kd);
    else qpc_blocks_multiply(qp->sys->blocks, s->d, s->Kd);
    double curve = 0, slope = 0;
    for (int32_t i = 0; i < n; i++) {
        curve += s->d[i] * s->Kd[i];
        slope += s->rd[i] * s->d[i];
    }
    if (s->ssor.lost || !isfinite(curve) || !isfinite(slope)) return false;
    for (int32_t i = 0; i < qp->m; i++) s->Jd[i] = qpc_row_dot(qp, i, s->d);
    double t = whole ? 1 : qpc_alm_line_search(qp, s->R, s->u, s->Jd, slope, curve, LINE_PRECISION);
    for (int32_t i = 0; i < n; i++) {
        s->x[i] += t * s->d[i];
        s->rd[i] += t * s->Kd[i];
    }
    for (int32_t i = 0; i < qp->m; i++) s->g[i] += t * s->Jd[i];
    return true;
}

static void multipliers(const pcg *s, double *to) {
    for (int32_t i = 0; i < s->qp->m; i++)
        to[i] = s->work->kt2[i] > 0 && (s->qp->equality[i] || s->u[i] > 0) ? s->u[i] : 0;
}

static void take_multipliers(pcg *s) {
    multipliers(s, s->mu);
}

/// Whether x and the multipliers that u gives are an answer in the norm of K^-1; *strict: by how much less than that the
/// gradient must be in the norm of the preconditioner, which sees little of what rows hold.
static bool is_answer(pcg *s, const qpc_solver_options *options, double *strict) {
    multipliers(s, s->answer);
    qpc_residuals residuals = qpc_work_residuals(s->work, s->x, s->answer, s->r, s->z);
    if (qpc_work_accepts(&residuals, options, 1)) return true;
    double part = residuals.stat > 0 ? 0.3 * options->stat_tolerance / residuals.stat : 0.5;
    *strict *= part > 0.5 ? 0.5 : part < 0.02 ? 0.02 : part;
    return false;
}

/// A larger R for the rows whose updates carry the energy; false if they have the largest already.
static bool harden(pcg *s) {
    double most = 0;
    bool any = false;
    for (int32_t i = 0; i < s->qp->m; i++) most = fmax(most, s->moved[i]);
    for (int32_t i = 0; i < s->qp->m; i++) {
        if (!(s->moved[i] > 0 && s->moved[i] >= HARDEN * most)) continue;
        if (s->R[i] * s->work->kt2[i] >= s->most) continue;
        s->R[i] *= RHO_GROWTH;
        any = true;
    }
    return any;
}

/// A smaller R for the hardest rows, and for good: in single precision K + J_A'R J_A was no more positive definite. False if
/// it is not them.
static bool soften(pcg *s) {
    double hardest = 0;
    for (int32_t i = 0; i < s->qp->m; i++) hardest = fmax(hardest, s->R[i] * s->work->kt2[i]);
    s->most = hardest / SOFTEN;
    if (s->most < RHO) return false;
    for (int32_t i = 0; i < s->qp->m; i++)
        if (s->R[i] * s->work->kt2[i] > s->most) s->R[i] = s->most / s->work->kt2[i];
    s->least = s->reference = HUGE_VAL;
    s->ssor.lost = false;
    s->renew = true;
    return true;
}

/// mu <- (u)_+, and a larger rhoF where the energies of such updates hardly fall: rows that nearly depend on each
/// other sort their multipliers out at the rate of rhoF. False if that is exhausted.
static bool update(pcg *s, double energy) {
    for (int32_t i = 0; i < s->qp->m; i++) {
        double u = s->qp->equality[i] || s->u[i] > 0 ? s->u[i] : 0, change = u - s->mu[i];
        s->moved[i] = s->R[i] > 0 ? change * change / s->R[i] : 0;
    }
    take_multipliers(s);
    if (++s->updates % REFRESH == 0 && !s->single) refresh(s);
    if (energy < STRIDE * s->reference) {
        s->reference = energy;
        s->slow = 0;
        return true;
    }
    if (++s->slow < SLOW_MOST) return true;
    if (!harden(s)) return s->slow < STUCK;
    s->least *= sqrt(RHO_GROWTH);
    s->reference = HUGE_VAL;
    s->slow = 0;
    s->renew = true;
    return true;
}

/// Products in single precision leave some 6e-8 K_ii |d| in K x - b, in the norm of the masses m 6e-8 K_ii / m of what they took off the
/// gradient, and that is most: they will do while a gradient is ten times as large. Without masses nothing is known of that.
static void choose_precision(pcg *s) {
    const qpc_linsys *sys = s->qp->sys;
    double stiffest = 0;
    for (int32_t i = 0; sys->least != NULL && i < sys->n; i++) stiffest = fmax(stiffest, sys->diagonal[i] / sys->least[i]);
    s->faded = fmax(FADED_LEAST, FADED * stiffest);
    s->single = sys->least != NULL && s->faded <= FADED_MOST;
}

/// K x - b anew as soon as a gradient may be no more than what products have left in it. True: that was done.
static bool is_refreshed(pcg *s, double gradient) {
    s->peak = fmax(s->peak, gradient);
    if (!s->single || !(gradient <= s->faded * s->peak)) return false;
    refresh(s);
    s->peak = 0;
    return true;
}

static bool start(pcg *s, const double *guess) {
    const qpc_qp *qp = s->qp;
    bool warm = false;
    for (int32_t i = 0; i < qp->m; i++) {
        if (s->work->kt2[i] == 0) s->mu[i] = 0;
        warm |= s->mu[i] != 0;
        s->R[i] = s->work->kt2[i] > 0 ? RHO / s->work->kt2[i] : 0;
        s->active[i] = 0;
    }
    s->least = s->reference = HUGE_VAL;
    s->most = RHO_MOST;
    s->renew = true;
    size_t padded = 3 * (size_t)qp->sys->blocks->count;
    memset(s->x, 0, padded * sizeof(double));
    memset(s->grad, 0, padded * sizeof(double));
    memcpy(s->x, guess != NULL ? guess : s->work->free_dv, (size_t)qp->n * sizeof(double));
    refresh(s);
    choose_precision(s);
    return warm;
}

qpc_status qpc_alm_pcg_run(const qpc_work *work, const qpc_solver_options *options, double *x,
                           double *lambda, qpc_solver_report *report, qpc_error *err) {
    const qpc_qp *qp = work->qp;
    pcg s = {.work = work, .qp = qp, .mu = lambda, .report = report};
    if (!allocate(&s, work->arena)) return QPC_SOLVER_MEMORY(err, work);
    // What the factorisations would have cost: beyond, they are the better way.
    double budget = steps_for_factors(qp);
    int32_t limit = options->max_iterations > 0 ? options->max_iterations : NEWTON_MOST;
    bool first = start(&s, options->start); // warm: the last set whole, as u > 0 only says what this x would need
    report->outcome = QPC_OUTCOME_ITERATION_LIMIT;
    double strict = 1;
    while (report->iterations < limit && report->cg_steps < budget && strict > STRICTEST) {
        bool fresh = update_active(&s, first) || s.renew;
        if (fresh && !precondition(&s)) {
            if (!soften(&s)) break;
            continue;
        }
        s.renew = false;
        for (int32_t i = 0; i < qp->n; i++) s.grad[i] = -s.rd[i];
        for (int32_t k = 0; k < s.listed; k++) qpc_row_add(qp, s.list[k], -s.u[s.list[k]], s.grad);
        double gradient = qpc_ssor_start(&s.ssor, s.grad), scale = work->scale;
        if (!isfinite(gradient)) break;
        if (is_refreshed(&s, gradient)) continue;
        state now = look(&s);
        double wanted = 0.1 * strict * options->stat_tolerance * scale;
        bool near = now.natural <= 0.25 * options->residual_tolerance, good = near && gradient <= wanted;
        if (good && options->exact)
            good = now.prim <= 0.25e-9 * scale && now.comp <= 0.25e-12 * scale * scale && gradient <= 0.1e-9 * scale;
        if (good && is_answer(&s, options, &strict)) {
            take_multipliers(&s);
            report->outcome = QPC_OUTCOME_OPTIMAL;
            break;
        }
        if (first && options->start != NULL && gradient <= WELL * THETA * now.energy) { // it stands where the last set, whole, would lead
            first = false;
            continue;
        }
        // Energies on which updates are based never rise, or the two errors could feed each other.
        double measure = now.energy < s.least ? now.energy : s.least;
        bool rows_do = near && !options->exact; // with mu as it is: what is left is the gradient (T59)
        if (gradient <= THETA * measure && !first && !rows_do) {
            s.least = measure;
            if (!update(&s, now.energy)) break;
            continue;
        }
        report->iterations++;
        double target = ETA * gradient, enough = WELL * THETA * measure;
        if (first && options->start == NULL) target = BLIND * gradient;
        else if (rows_do) target = fmax(target, WELL * wanted);
        else if (enough > target && enough < gradient) target = enough;
        if (!newton(&s, target, first) && !soften(&s)) break;
        first = false;
    }
    if (options->anytime && report->outcome == QPC_OUTCOME_ITERATION_LIMIT) { // R is small: u is an impulse before phi is at its minimum
        update_active(&s, false);
        take_multipliers(&s);
    }
    memcpy(x, s.x, (size_t)qp->n * sizeof(double));
    report->active = qpc_work_active(qp, lambda);
    return QPC_OK;
}
