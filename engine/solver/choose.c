/// The solver table. The rule of `auto` is in auto.c. Runs on the worker in the world.
#include "engine/solver/condense.h"
#include "engine/solver/glance.h"
#include "engine/solver/screen.h"
#include "engine/solver/work.h"

#include <math.h>
#include <string.h>

qpc_solver_options qpc_solver_options_default(void) {
    return (qpc_solver_options){
        .residual_tolerance = 1e-8,
        .stat_tolerance = 1e-6,
        .max_iterations = 0,
        .perturbation = -1e-9,
        .exact = false,
    };
}

static const char *const names[] = {
#define QPC_SOLVER_NAME(id, name, text) name,
    QPC_SOLVER_LIST(QPC_SOLVER_NAME)
#undef QPC_SOLVER_NAME
};

const char *qpc_solver_name(qpc_solver_id id) {
    return (int)id >= 0 && id < QPC_SOLVER_COUNT ? names[id] : "unknown";
}

bool qpc_solver_from_name(const char *name, qpc_solver_id *ret) {
    for (int32_t i = 0; i < QPC_SOLVER_COUNT; i++) {
        if (strcmp(name, names[i]) == 0) {
            *ret = (qpc_solver_id)i;
            return true;
        }
    }
    return false;
}

static qpc_status solve_as_it_is(qpc_solver_id id, const qpc_qp *qp, const qpc_solver_options *options,
                                 qpc_arena *arena, double *dv, double *lambda, qpc_solver_report *report,
                                 qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    qpc_solver_report local = {.engine = id};
    uint64_t solves = qp->sys->solves;
    qpc_work work;
    qpc_status status = qpc_work_init(&work, qp, options, arena, lambda, err);
    if (status != QPC_OK) goto out;
    size_t n = (size_t)qp->n, m = (size_t)qp->m;
    double *x = qpc_arena_array(arena, n, sizeof *x);
    double *l = qpc_arena_array(arena, m, sizeof *l);
    double *r = qpc_arena_array(arena, n, sizeof *r);
    double *z = qpc_arena_array(arena, n, sizeof *z);
    if (x == NULL || l == NULL || r == NULL || z == NULL) {
        status = QPC_SOLVER_MEMORY(err, &work);
        goto out;
    }
    for (size_t i = 0; i < m; i++) l[i] = qp->equality[i] || lambda[i] > 0 ? lambda[i] : 0;
    if (work.missed == 0 && id != QPC_SOLVER_COUNT) {
        // The free motion satisfies every row: it is the answer, whatever the warm start said.
        local.engine = id == QPC_SOLVER_AUTO ? QPC_SOLVER_AUGMENTED_LAGRANGIAN : id;
        memcpy(x, work.free_dv, n * sizeof *x);
        memset(l, 0, m * sizeof *l);
        goto finish;
    }
    int32_t impossible = id != QPC_SOLVER_COUNT ? qpc_work_impossible(&work) : -1;
    if (impossible >= 0) { // no engine is needed to tell; the free motion comes back
        local.engine = id == QPC_SOLVER_AUTO ? QPC_SOLVER_ACTIVE_SET : id;
        local.outcome = QPC_OUTCOME_INFEASIBLE;
        local.conflict_row[local.conflict_count++] = impossible;
        memcpy(x, work.free_dv, n * sizeof *x);
        memset(l, 0, m * sizeof *l);
        goto finish;
    }
    switch (id) {
    case QPC_SOLVER_AUTO:
        status = qpc_auto_run(&work, options, x, l, r, z, &local, err);
        break;
    case QPC_SOLVER_AUGMENTED_LAGRANGIAN:
        status = qpc_augmented_lagrangian_run(&work, options, false, x, l, &local, err);
        break;
    case QPC_SOLVER_ACTIVE_SET:
        status = qpc_active_set_run(&work, options, NULL, x, l, &local, err);
        if (status == QPC_OK && local.outcome == QPC_OUTCOME_OPTIMAL) {
            // Its own criterion is exact; this catches a QP that doubles cannot carry.
            qpc_residuals residuals = qpc_work_residuals(&work, x, l, r, z);
            if (!(residuals.stat <= options->stat_tolerance && residuals.prim <= 1e-6))
                local.outcome = QPC_OUTCOME_STALLED;
        }
        break;
    case QPC_SOLVER_AUGMENTED_CG:
        status = qpc_augmented_cg_run(&work, options, x, l, &local, err);
        break;
    case QPC_SOLVER_PROJECTED:
        status = qpc_projected_run(&work, options, x, l, &local, err);
        break;
    case QPC_SOLVER_INTERIOR_POINT:
        status = qpc_interior_point_run(&work, options, x, l, &local, err);
        break;
    case QPC_SOLVER_LCP_IMPULSE:
        status = qpc_lcp_impulse_run(&work, options, x, l, &local, err);
        break;
    case QPC_SOLVER_COUNT:
    default:
        status = qpc_fail(err, QPC_ERR_INTERNAL, "no solver has number %d", (int)id);
        break;
    }
    if (status != QPC_OK) goto out;
    if (options->anytime && local.outcome == QPC_OUTCOME_ITERATION_LIMIT && qp->sys->factored) {
        double *start = qpc_arena_array(arena, 2 * m, sizeof *start);
        if (start == NULL) {
            status = QPC_SOLVER_MEMORY(err, &work);
            goto out;
        }
        for (size_t i = 0; i < m; i++) start[i] = (qp->equality[i] || lambda[i] > 0) && work.kt2[i] > 0 ? lambda[i] : 0;
        qpc_work_best_between(&work, start, x, l, r, start + m);
    }
finish:
    for (size_t i = 0; i < n; i++) {
        if (isfinite(x[i])) continue;
        status = qpc_fail(err, QPC_ERR_NUMERIC, "%s: the solution is not finite",
                          qpc_solver_name(local.engine));
        goto out;
    }
    if (n > 0) memcpy(dv, x, n * sizeof *dv);
    if (m > 0) memcpy(lambda, l, m * sizeof *lambda);
    local.active = qpc_work_active(qp, l);
out:
    local.solves = (int32_t)(qp->sys->solves - solves);
    if (report != NULL) *report = local;
    qpc_arena_rewind(arena, mark);
    return status;
}

/// Over the nodes that the rows touch, if that is less.
static qpc_status solve_condensed(qpc_solver_id id, const qpc_qp *qp, const qpc_solver_options *options,
                                  qpc_arena *arena, double *dv, double *lambda, qpc_solver_report *report,
                                  qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    qpc_condensed less;
    bool condensed = false;
    qpc_status status = qpc_condense(qp, arena, &less, &condensed, err);
    if (status == QPC_OK && condensed) {
        double *kept = qpc_arena_array(arena, (size_t)less.qp.n, sizeof *kept);
        double *x = qpc_arena_array(arena, (size_t)qp->n, sizeof *x);
        double *l = qpc_arena_array(arena, (size_t)qp->m, sizeof *l);
        if (kept == NULL || x == NULL || l == NULL) {
            status = qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a QP of %d unknowns", qp->n);
        } else {
            memcpy(l, lambda, (size_t)qp->m * sizeof *l);
            status = solve_as_it_is(id, &less.qp, options, arena, kept, l, report, err);
        }
        if (status == QPC_OK) {
            qpc_condensed_expand(&less, kept, x);
            for (int32_t i = 0; i < qp->n && status == QPC_OK; i++)
                if (!isfinite(x[i])) status = qpc_fail(err, QPC_ERR_NUMERIC, "%s: the solution is not finite", qpc_solver_name(id));
        }
        if (status == QPC_OK) {
            memcpy(dv, x, (size_t)qp->n * sizeof *dv);
            memcpy(lambda, l, (size_t)qp->m * sizeof *lambda);
        }
    } else if (status == QPC_OK) {
        // A K that conjugate gradients are enough for is factored when somebody needs it.
        bool lazy = (id == QPC_SOLVER_AUTO || id == QPC_SOLVER_AUGMENTED_LAGRANGIAN) && qpc_alm_pcg_pays_with(qp);
        if (lazy)
            qpc_linsys_prepare(qp->sys);
        else
            status = qpc_linsys_ensure(qp->sys, err);
        if (status == QPC_OK) status = solve_as_it_is(id, qp, options, arena, dv, lambda, report, err);
    }
    qpc_arena_rewind(arena, mark);
    return status;
}

/// Two rows that leave no room between them: told without an engine. dv is the guess then, or nothing.
static qpc_status solve_at_sight(qpc_solver_id id, const qpc_qp *qp, const qpc_solver_options *options, qpc_arena *arena, double *dv,
                                 qpc_solver_report *report, bool *ret_done, qpc_error *err) {
    *ret_done = false;
    if (!options->at_sight || (id != QPC_SOLVER_AUTO && id != QPC_SOLVER_ACTIVE_SET)) return QPC_OK;
    int32_t row[2];
    qpc_status status = qpc_glance(qp, options->residual_tolerance, arena, row, ret_done, err);
    if (status != QPC_OK || !*ret_done) return status;
    if (options->start == NULL) memset(dv, 0, (size_t)qp->n * sizeof *dv);
    else if (options->start != dv) memcpy(dv, options->start, (size_t)qp->n * sizeof *dv);
    *report = (qpc_solver_report){.engine = QPC_SOLVER_ACTIVE_SET, .outcome = QPC_OUTCOME_INFEASIBLE, .conflict_count = 2};
    report->conflict_row[0] = row[0];
    report->conflict_row[1] = row[1];
    return QPC_OK;
}

qpc_status qpc_solve(qpc_solver_id id, const qpc_qp *qp, const qpc_solver_options *options,
                     qpc_arena *arena, double *dv, double *lambda, qpc_solver_report *report,
                     qpc_error *err) {
    bool done = false;
    qpc_solver_report screened, all;
    qpc_status status = solve_at_sight(id, qp, options, arena, dv, &screened, &done, err);
    if (status == QPC_OK && !done) status = qpc_screen(id, qp, options, arena, solve_condensed, dv, lambda, &screened, &done, err);
    if (status == QPC_OK && !done) {
        qpc_solver_options left = *options;
        if (left.max_iterations > 0) left.max_iterations -= screened.iterations; // some are left, or that was the answer
        status = solve_condensed(id, qp, &left, arena, dv, lambda, &all, err);
        if (status == QPC_OK) qpc_report_add(&screened, &all);
    }
    if (status == QPC_OK && report != NULL) *report = screened;
    return status;
}
