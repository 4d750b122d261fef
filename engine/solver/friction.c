/// The QP of a step with Coulomb friction: the entry, the staggered mode and the exact mode.
///
/// Staggered: qpc_solve() with b - T'beta, then beta within mu lambda, in turn; the best iterate by
/// the natural residual comes back. Exact: the rows that push (from the warm start or from a solve
/// without friction) are condensed to u = W r + q, solved as one cone problem, rows outside that
/// are violated then are pulled in, and so on until none is. Worker thread of the world; memory
/// from the arena.
#include "engine/solver/friction_chain.h"
#include "engine/solver/friction_job.h"
#include "engine/solver/friction_sparse.h"
#include "engine/solver/glance.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    ROUNDS = 60,
    CHAIN_STEPS = 300,
    SPARSE_STEPS = 150,
    DENSE_AFTER = 120,        // unknowns that dense matrices may have where a band or a sparse K was not solved
    DENSE_FIRST = 300,        // unknowns up to which they go first, where K is small and has a factor anyway,
    SMALL = 600,              // unknowns of it,
    FIRST_STEPS = 72,         // for so many steps from the warm start: Newton's
    STAGGERED_MOST = 600,     // of alternations where K is sparse
};
static const double DENSE_OPERATIONS = 1e9; // of their factorisations
static const double FAR_OFF = 1e-3, WORTHLESS = 1; // natural residuals: nothing to go on from; worse than no impulse at all

static bool all_finite(const double *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(v[i])) return false;
    return true;
}

static qpc_status check(const qpc_qp *qp, const qpc_friction *f, const double *lambda,
                        const double *beta, qpc_error *err) {
    size_t m = (size_t)qp->m;
    if (!all_finite(qp->b, (size_t)qp->n) || !all_finite(qp->c, m) || !all_finite(lambda, m) ||
        !all_finite(qp->value, m > 0 ? (size_t)qp->row_start[m] : 0))
        return qpc_fail(err, QPC_ERR_NUMERIC, "b, J, c or the warm start is not finite");
    for (int32_t k = 0; k < f->count; k++) {
        int32_t i = f->row[k];
        if (i < 0 || i >= qp->m || qp->equality[i])
            return qpc_fail(err, QPC_ERR_INVALID,
                            "friction contact %d is on row %d, no inequality of %d rows", k, i,
                            qp->m);
        if (!(f->mu[k] >= 0 && f->mu[k] < 1e6))
            return qpc_fail(err, QPC_ERR_INVALID,
                            "friction contact %d: coefficient %g is not in [0, 1e6)", k, f->mu[k]);
        bool good = isfinite(beta[2 * k]) && isfinite(beta[2 * k + 1]) && isfinite(f->u0[2 * k]) &&
                    isfinite(f->u0[2 * k + 1]);
        for (int32_t l = f->start[2 * k]; l < f->start[2 * k + 2]; l++)
            good = good && isfinite(f->value[l]);
        if (!good) return qpc_fail(err, QPC_ERR_NUMERIC, "friction contact %d is not finite", k);
    }
    return QPC_OK;
}

/// What is left of the bound on all iterations together; INT32_MAX: there is none.
int32_t qpc_friction_left(const qpc_friction_job *job) {
    if (job->total <= 0) return INT32_MAX;
    int32_t spent = job->report.iterations + job->found.iterations;
    return spent < job->total ? job->total - spent : 0;
}

/// Options of a QP within what is left, at least one iteration of it.
static qpc_solver_options options_left(const qpc_friction_job *job) {
    qpc_solver_options o = *job->options;
    if (job->total > 0 && (o.max_iterations <= 0 || qpc_friction_left(job) < o.max_iterations))
        o.max_iterations = qpc_friction_left(job) > 1 ? qpc_friction_left(job) : 1;
    return o;
}

/// qpc_solve with friction as it stands.
qpc_status qpc_friction_under(qpc_friction_job *job, qpc_error *err) {
    const qpc_friction *f = job->friction;
    memcpy(job->rhs, job->qp->b, (size_t)job->qp->n * sizeof *job->rhs);
    for (int32_t t = 0; t < 2 * f->count; t++)
        for (int32_t k = f->start[t]; k < f->start[t + 1] && job->beta[t] != 0; k++)
            job->rhs[f->column[k]] -= job->beta[t] * f->value[k];
    qpc_qp loaded = *job->qp;
    loaded.b = job->rhs;
    qpc_solver_report before = job->report;
    qpc_solver_options options = options_left(job);
    qpc_status status = qpc_solve(job->id, &loaded, &options, job->arena, job->dv, job->lambda,
                                  &job->report, err);
    job->report.iterations += before.iterations;
    job->report.adds += before.adds;
    job->report.drops += before.drops;
    job->report.factorizations += before.factorizations;
    job->report.solves += before.solves;
    job->report.fell_back = job->report.fell_back || before.fell_back;
    return status;
}

/// No friction at all: what contradicting rows get, and mode off.
qpc_status qpc_friction_without(qpc_friction_job *job, qpc_error *err) {
    memset(job->beta, 0, 2 * (size_t)job->friction->count * sizeof *job->beta);
    return qpc_friction_under(job, err);
}

// ---- exact ----

/// Rows outside that dv violates come in: by more than tolerance in the metric of diag(K). *ret_worst: by how much at most.
static int32_t pull_in(qpc_friction_job *job, double tolerance, double *ret_worst) {
    const qpc_qp *qp = job->qp;
    int32_t added = 0;
    *ret_worst = 0;
    for (int32_t i = 0; i < qp->m; i++) {
        if (job->set.block_of[i] >= 0) continue;
        double s = qp->c[i], reach = 0, size = fabs(qp->c[i]);
        for (int32_t k = qp->row_start[i]; k < qp->row_start[i + 1]; k++) {
            double part = qp->value[k] * job->dv[qp->column[k]];
            s -= part;
            size += fabs(part);
            reach += qp->value[k] * qp->value[k] / qp->sys->diagonal[qp->column[k]];
        }
        if (!(reach > 0) || s >= -32 * DBL_EPSILON * size || s >= -tolerance * sqrt(reach))
            continue;
        added += qpc_friction_set_add(&job->set, i);
        *ret_worst = fmax(*ret_worst, -s / sqrt(reach));
    }
    return added;
}

/// The cone problem of the set as it is, from and to r.
static qpc_status solve_set(qpc_friction_job *job, double aim, double *r, double *ret_norm, double *ret_scale,
                            qpc_error *err) {
    const qpc_friction_set *set = &job->set;
    qpc_arena_mark mark = qpc_arena_get_mark(job->arena);
    size_t n = (size_t)set->size, count = (size_t)set->count;
    qpc_cone_problem p = {.count = set->count, .size = set->size, .kind = set->kind, .at = set->at};
    p.A = qpc_arena_array(job->arena, n * n, sizeof *p.A);
    p.p = qpc_arena_array(job->arena, n, sizeof *p.p);
    p.mu = qpc_arena_array(job->arena, count, sizeof *p.mu);
    p.root = qpc_arena_array(job->arena, count, sizeof *p.root);
    qpc_status status = QPC_OK;
    if (p.A == NULL || p.p == NULL || p.mu == NULL || p.root == NULL) {
        status = QPC_CONE_MEMORY(err, &p);
        goto out;
    }
    if (n > 0) memcpy(p.A, set->W, n * n * sizeof *p.A);
    if (n > 0) memcpy(p.p, set->q, n * sizeof *p.p);
    for (int32_t k = 0; k < p.count; k++)
        p.mu[k] =
            p.kind[k] == QPC_BLOCK_CONTACT ? set->friction->mu[set->contact_of[set->row[k]]] : 0;
    qpc_cone_scale(&p, NULL);
    for (int32_t k = 0; k < p.count; k++)
        for (int32_t i = p.at[k]; i < p.at[k + 1]; i++) r[i] /= p.root[k] * p.scale;
    int32_t steps = job->stop > 0 ? job->stop - job->found.newton - job->found.outers : 0;
    if (job->stop > 0 && steps <= 0) steps = 1;
    if (job->total > 0 && (steps <= 0 || qpc_friction_left(job) < steps)) steps = qpc_friction_left(job);
    if (job->bounded && job->stop > 0) {
        double bound = 1 + DENSE_OPERATIONS / (1 + (double)n * (double)n * (double)n / 3);
        if (bound < steps) steps = (int32_t)bound;
    }
    int32_t outers = 0, newton = 0;
    status = qpc_cone_solve(&p, aim, steps, job->arena, r, ret_norm, &outers, &newton, err);
    job->found.outers += outers;
    job->found.newton += newton;
    for (int32_t k = 0; k < p.count; k++)
        for (int32_t i = p.at[k]; i < p.at[k + 1]; i++) r[i] *= p.root[k] * p.scale;
    *ret_scale = p.scale;
out:
    qpc_arena_rewind(job->arena, mark);
    return status;
}

static bool any_push(const qpc_friction_job *job) {
    for (int32_t i = 0; i < job->qp->m; i++)
        if (job->lambda[i] > 0) return true;
    return false;
}

/// Whether the rows contradict, by a solve of them alone; that is done once.
static qpc_status ask(void *context, bool *ret_contradict, qpc_error *err) {
    qpc_friction_job *job = context;
    const qpc_qp *qp = job->qp;
    qpc_status status = QPC_OK;
    if (!job->asked) {
        memset(job->alone_lambda, 0, (size_t)qp->m * sizeof *job->alone_lambda);
        qpc_solver_options options = options_left(job);
        status = qpc_solve(job->id, qp, &options, job->arena, job->alone_dv, job->alone_lambda, &job->alone, err);
        job->asked = true;
        job->report.iterations += job->alone.iterations;
        job->report.adds += job->alone.adds;
        job->report.drops += job->alone.drops;
    }
    *ret_contradict = status == QPC_OK && job->alone.outcome == QPC_OUTCOME_INFEASIBLE;
    return status;
}

/// From the rows alone, without friction.
static void start_over(qpc_friction_job *job) {
    memcpy(job->dv, job->alone_dv, (size_t)job->qp->n * sizeof *job->dv);
    memcpy(job->lambda, job->alone_lambda, (size_t)job->qp->m * sizeof *job->lambda);
    memset(job->beta, 0, 2 * (size_t)job->friction->count * sizeof *job->beta);
}

static void take_alone(qpc_friction_job *job) {
    qpc_solver_report alone = job->alone;
    alone.iterations = job->report.iterations;
    alone.adds = job->report.adds;
    alone.drops = job->report.drops;
    start_over(job);
    job->report = alone;
}

/// Rows from either side of what is pressed, that leave no room: seen before any law is tried on them.
static qpc_status look(qpc_friction_job *job, bool *ret_contradict, qpc_error *err) {
    int32_t row[2];
    bool found = false;
    *ret_contradict = false;
    if (!job->options->at_sight) return QPC_OK;
    qpc_status status = qpc_glance(job->qp, job->options->residual_tolerance, job->arena, row, &found, err);
    if (status == QPC_OK && found) status = ask(job, ret_contradict, err);
    if (status == QPC_OK && *ret_contradict) take_alone(job);
    return status;
}

/// The rows may contradict where the law was missed: only a solve of the rows alone tells.
static qpc_status alone(qpc_friction_job *job, bool warm, qpc_error *err) {
    if (job->found.natural <= job->tolerance || !warm || qpc_friction_left(job) < 1) return QPC_OK;
    bool contradict;
    qpc_status status = ask(job, &contradict, err);
    if (status != QPC_OK || !contradict) return status;
    take_alone(job);
    return QPC_OK;
}

/// Where K is banded: in time linear in the unknowns.
static qpc_status chain(qpc_friction_job *job, const qpc_friction_doubt *doubt, qpc_error *err) {
    int32_t most = job->most > 0 && job->most < CHAIN_STEPS ? job->most : CHAIN_STEPS;
    if (qpc_friction_left(job) < most) most = qpc_friction_left(job);
    qpc_status status = qpc_friction_chain_solve(job->qp, job->friction, job->tolerance, most, doubt, job->arena,
                                                 job->dv, job->lambda, job->beta, &job->found, err);
    job->found.iterations = job->found.newton;
    return status;
}

/// Unknowns that dense matrices would have.
static int64_t pushing(const qpc_friction_job *job) {
    int64_t count = 0;
    for (int32_t i = 0; i < job->qp->m; i++) count += job->qp->equality[i] || job->lambda[i] > 0;
    return 3 * count;
}

/// Where K has any pattern: in memory linear in the rows.
static qpc_status sparse(qpc_friction_job *job, const qpc_friction_doubt *doubt, const double *start, qpc_error *err) {
    int32_t most = job->most > 0 && job->most < SPARSE_STEPS ? job->most : SPARSE_STEPS;
    if (qpc_friction_left(job) < most) most = qpc_friction_left(job);
    qpc_status status = qpc_friction_sparse_solve(job->qp, job->friction, job->tolerance, most, start, doubt, job->arena,
                                                  job->dv, job->lambda, job->beta, &job->report, &job->found, err);
    job->found.iterations = job->found.newton;
    return status;
}

/// The rows that push, condensed; those outside that are violated then are pulled in, until none is. `most`: unknowns.
static qpc_status dense(qpc_friction_job *job, int32_t most, qpc_error *err) {
    const qpc_qp *qp = job->qp;
    double *r = qpc_arena_array(job->arena, 3 * (size_t)qp->m, sizeof *r), norm = 0, scale = 1, aim = job->tolerance;
    if (r == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for friction on %d rows", qp->m);
    qpc_status status = qpc_linsys_ensure(qp->sys, err);
    if (status == QPC_OK) status = qpc_friction_set_init(&job->set, qp, job->friction, job->arena, err);
    if (status != QPC_OK) return status;
    for (int32_t i = 0; i < qp->m; i++)
        if (qp->equality[i] || job->lambda[i] > 0) qpc_friction_set_add(&job->set, i);
    for (int32_t round = 0; round < ROUNDS && qpc_friction_left(job) > 1; round++) {
        job->found.iterations = round + 1 + job->found.newton + job->found.outers;
        status = qpc_friction_set_condense(&job->set, job->arena, err);
        if (status != QPC_OK) return status;
        qpc_friction_set_gather(&job->set, job->lambda, job->beta, r);
        status = solve_set(job, aim, r, &norm, &scale, err);
        if (status != QPC_OK) return status;
        job->found.iterations = round + 1 + job->found.newton + job->found.outers;
        qpc_friction_set_scatter(&job->set, r, job->lambda, job->beta);
        qpc_friction_set_gather(&job->set, job->lambda, job->beta, r);
        qpc_friction_set_motion(&job->set, r, job->rhs, job->dv);
        qpc_friction_set_report(&job->set, job->dv, r, &job->found);
        double worst;
        if (pull_in(job, 1e-3 * job->tolerance * scale, &worst) == 0) {
            // Within the tolerance in the units of the condensed problem is not quite so in those of the report.
            if (job->found.natural <= job->tolerance || !(norm <= aim) || aim < job->tolerance) break;
            aim = 0.1 * job->tolerance;
        }
        job->found.natural = hypot(job->found.natural, worst / scale); // of all rows, if this is the end
        if (most > 0 && job->set.size > most) break;
        if (job->stop > 0 && job->found.newton + job->found.outers >= job->stop) break; // all it was given
    }
    return QPC_OK;
}

/// What was come to is kept if it is the best so far; else the best is put back, in the end.
static void keep_best(qpc_friction_job *job) {
    size_t n = (size_t)job->qp->n, m = (size_t)job->qp->m, t = 2 * (size_t)job->friction->count;
    if (!(job->found.natural < job->least)) return;
    job->least = job->found.natural;
    job->best = job->found;
    memcpy(job->best_dv, job->dv, n * sizeof *job->dv);
    memcpy(job->best_lambda, job->lambda, m * sizeof *job->lambda);
    memcpy(job->best_beta, job->beta, t * sizeof *job->beta);
}

static void take_best(qpc_friction_job *job) {
    size_t n = (size_t)job->qp->n, m = (size_t)job->qp->m, t = 2 * (size_t)job->friction->count;
    if (!(job->least < job->found.natural)) return;
    qpc_friction_report counts = job->found;
    job->found = job->best;
    job->found.iterations = counts.iterations;
    job->found.newton = counts.newton;
    job->found.outers = counts.outers;
    memcpy(job->dv, job->best_dv, n * sizeof *job->dv);
    memcpy(job->lambda, job->best_lambda, m * sizeof *job->lambda);
    memcpy(job->beta, job->best_beta, t * sizeof *job->beta);
}

/// Few rows push on a K that has a factor: dense matrices are no dearer then, and get to the end where the others go round in circles
/// (stiff sheets). From the warm start, then from the rows alone.
static qpc_status dense_first(qpc_friction_job *job, bool warm, bool *ret_contradict, qpc_error *err) {
    job->found.path = QPC_FRICTION_BY_DENSE;
    job->bounded = true;
    job->stop = warm && (job->most <= 0 || job->most > FIRST_STEPS) ? FIRST_STEPS : job->most;
    qpc_status status = dense(job, 2 * DENSE_FIRST, err);
    keep_best(job);
    if (status != QPC_OK || job->found.natural <= job->tolerance || !warm || job->total > 0) return status;
    status = ask(job, ret_contradict, err);
    if (status != QPC_OK || *ret_contradict) return status;
    start_over(job);
    job->stop = job->most;
    if (pushing(job) <= DENSE_FIRST) status = dense(job, 2 * DENSE_FIRST, err);
    keep_best(job);
    return status;
}

static qpc_status exact(qpc_friction_job *job, qpc_error *err) {
    const qpc_qp *qp = job->qp;
    qpc_friction_path path = qpc_friction_choose(qp, job->friction);
    job->found.path = path;
    bool meshed = path == QPC_FRICTION_BY_SPARSE, banded = path == QPC_FRICTION_BY_CHAIN, warm = banded || any_push(job);
    bool contradict;
    qpc_status status = look(job, &contradict, err);
    if (status != QPC_OK || contradict) return status;
    if (!meshed) status = qpc_linsys_ensure(qp->sys, err);
    if (status == QPC_OK && !warm) status = qpc_friction_without(job, err);
    if (status != QPC_OK || job->report.outcome == QPC_OUTCOME_INFEASIBLE) return status;
    bool few = meshed && qp->n <= SMALL && !qpc_friction_is_mild(qp->sys);
    bool small = !banded && (!meshed || few) && pushing(job) <= DENSE_FIRST;
    if (small) {
        status = dense_first(job, warm, &contradict, err);
        if (status != QPC_OK || job->found.natural <= job->tolerance) return status;
        take_best(job);
        if (contradict) return alone(job, warm, err);
    }
    if (banded || meshed) {
        // A bound on all iterations leaves nothing for that before the end.
        qpc_friction_doubt asking = {ask, job}, *doubt = warm && job->total <= 0 ? &asking : NULL;
        job->found.path = path;
        status = banded ? chain(job, doubt, err) : sparse(job, doubt, warm ? job->options->start : job->dv, err);
        keep_best(job);
        if (status != QPC_OK || job->found.natural <= job->tolerance) return status;
        if (doubt != NULL) status = ask(job, &contradict, err);
        if (status != QPC_OK || contradict) return status == QPC_OK ? alone(job, warm, err) : status;
        job->after = job->bounded = true;
        if (job->asked && job->found.natural > FAR_OFF) start_over(job);
    }
    bool bounded = meshed || job->most > 0, large = pushing(job) > (few ? DENSE_FIRST : DENSE_AFTER);
    bool spent = job->most > 0 && job->found.newton >= job->most;
    if (!small && !(job->after && bounded && (large || spent))) {
        job->found.path = QPC_FRICTION_BY_DENSE;
        job->stop = job->most;
        status = dense(job, job->after ? 2 * (few ? DENSE_FIRST : DENSE_AFTER) : 0, err);
        keep_best(job);
    }
    take_best(job);
    if (job->asked && !(job->found.natural < WORTHLESS)) start_over(job); // nobody shall go on from that
    return status == QPC_OK ? alone(job, warm, err) : status;
}

// ---- entry ----

qpc_friction_path qpc_friction_choose(const qpc_qp *qp, const qpc_friction *friction) {
    return qpc_friction_chain_pays(qp, friction)    ? QPC_FRICTION_BY_CHAIN
           : qpc_friction_sparse_pays(qp, friction) ? QPC_FRICTION_BY_SPARSE
                                                    : QPC_FRICTION_BY_DENSE;
}

static bool prepare(qpc_friction_job *job, const double *lambda, const double *beta) {
    size_t n = (size_t)job->qp->n, m = (size_t)job->qp->m, t = 2 * (size_t)job->friction->count;
    job->dv = qpc_arena_array(job->arena, n, sizeof *job->dv);
    job->rhs = qpc_arena_array(job->arena, n, sizeof *job->rhs);
    job->lambda = qpc_arena_array(job->arena, m, sizeof *job->lambda);
    job->beta = qpc_arena_array(job->arena, t, sizeof *job->beta);
    job->alone_dv = qpc_arena_array(job->arena, n, sizeof *job->alone_dv);
    job->alone_lambda = qpc_arena_array(job->arena, m, sizeof *job->alone_lambda);
    job->best_dv = qpc_arena_array(job->arena, n, sizeof *job->best_dv);
    job->best_lambda = qpc_arena_array(job->arena, m, sizeof *job->best_lambda);
    job->best_beta = qpc_arena_array(job->arena, t, sizeof *job->best_beta);
    job->least = DBL_MAX;
    if (job->dv == NULL || job->rhs == NULL || job->lambda == NULL || job->beta == NULL ||
        job->alone_dv == NULL || job->alone_lambda == NULL || job->best_dv == NULL || job->best_lambda == NULL || job->best_beta == NULL)
        return false;
    memset(job->dv, 0, n * sizeof *job->dv);
    for (size_t i = 0; i < m; i++)
        job->lambda[i] = job->qp->equality[i] || lambda[i] > 0 ? lambda[i] : 0;
    memcpy(job->beta, beta, t * sizeof *beta);
    for (int32_t k = 0; k < job->friction->count; k++)
        if (!(job->lambda[job->friction->row[k]] > 0 && job->friction->mu[k] > 0))
            job->beta[2 * k] = job->beta[2 * k + 1] = 0;
    return true;
}

static qpc_status run(qpc_friction_job *job, qpc_friction_mode mode, double *best_dv,
                      double *best_lambda, double *best_beta, qpc_error *err) {
    size_t n = (size_t)job->qp->n, m = (size_t)job->qp->m, t = 2 * (size_t)job->friction->count;
    qpc_status status;
    if (mode == QPC_FRICTION_STAGGERED && qpc_friction_choose(job->qp, job->friction) == QPC_FRICTION_BY_SPARSE &&
        3 * job->friction->count > STAGGERED_MOST) {
        mode = QPC_FRICTION_EXACT; // alternations need dense matrices
        job->most = 0;
    }
    if (mode == QPC_FRICTION_STAGGERED) {
        status = qpc_linsys_ensure(job->qp->sys, err);
        if (status == QPC_OK) status = qpc_friction_set_init(&job->set, job->qp, job->friction, job->arena, err);
        return status == QPC_OK ? qpc_friction_stagger(job, best_dv, best_lambda, best_beta, err) : status;
    }
    status = mode == QPC_FRICTION_EXACT ? exact(job, err) : qpc_friction_without(job, err);
    memcpy(best_dv, job->dv, n * sizeof *best_dv);
    memcpy(best_lambda, job->lambda, m * sizeof *best_lambda);
    memcpy(best_beta, job->beta, t * sizeof *best_beta);
    return status;
}

qpc_status qpc_solve_friction(qpc_solver_id id, const qpc_qp *qp, const qpc_friction *friction,
                              const qpc_solver_options *options,
                              const qpc_friction_options *friction_options, qpc_arena *arena,
                              double *dv, double *lambda, double *beta, qpc_solver_report *report,
                              qpc_friction_report *friction_report, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    size_t n = (size_t)qp->n, m = (size_t)qp->m, t = 2 * (size_t)friction->count;
    qpc_friction_mode mode = friction_options->mode;
    qpc_friction_job job = {
        .id = id, .qp = qp, .friction = friction, .options = options, .arena = arena};
    job.report.engine = id == QPC_SOLVER_AUTO ? QPC_SOLVER_AUGMENTED_LAGRANGIAN : id;
    job.most = friction_options->max_iterations;
    job.total = friction_options->max_total;
    job.tolerance = friction_options->tolerance;
    if (!(job.tolerance > 0)) job.tolerance = mode == QPC_FRICTION_STAGGERED ? 1e-3 : 1e-9;
    uint64_t solves = qp->sys->solves;
    qpc_status status = check(qp, friction, lambda, beta, err);
    double *best_dv = NULL, *best_lambda = NULL, *best_beta = NULL;
    if (status == QPC_OK) {
        best_dv = qpc_arena_array(arena, n, sizeof *best_dv);
        best_lambda = qpc_arena_array(arena, m, sizeof *best_lambda);
        best_beta = qpc_arena_array(arena, t, sizeof *best_beta);
        if (best_dv == NULL || best_lambda == NULL || best_beta == NULL ||
            !prepare(&job, lambda, beta))
            status = qpc_fail(err, QPC_ERR_MEMORY, "out of memory for friction on %d rows", qp->m);
    }
    if (status == QPC_OK) status = run(&job, mode, best_dv, best_lambda, best_beta, err);
    if (status == QPC_OK) {
        bool rows_hold = job.report.outcome != QPC_OUTCOME_INFEASIBLE;
        job.found.converged =
            mode == QPC_FRICTION_OFF || (rows_hold && job.found.natural <= job.tolerance);
        if (mode == QPC_FRICTION_EXACT && rows_hold)
            job.report.outcome =
                job.found.converged ? QPC_OUTCOME_OPTIMAL : QPC_OUTCOME_ITERATION_LIMIT;
        job.report.active = 0;
        for (size_t i = 0; i < m; i++) job.report.active += qp->equality[i] || best_lambda[i] > 0;
        job.report.solves = (int32_t)(qp->sys->solves - solves);
        memcpy(dv, best_dv, n * sizeof *dv);
        memcpy(lambda, best_lambda, m * sizeof *lambda);
        memcpy(beta, best_beta, t * sizeof *beta);
        *report = job.report;
        *friction_report = job.found;
    }
    qpc_arena_rewind(arena, mark);
    return status;
}
