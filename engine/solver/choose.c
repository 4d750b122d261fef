/// The solver table, and the relaxation of rows that contradict. The rule of `auto` is in auto.c. Runs
/// on the worker in the world.
#include "engine/solver/condense.h"
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
    qpc_status status = qpc_work_init(&work, qp, arena, lambda, err);
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
    case QPC_SOLVER_COUNT:
    default:
        status = qpc_fail(err, QPC_ERR_INTERNAL, "no solver has number %d", (int)id);
        break;
    }
    if (status != QPC_OK) goto out;
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
        bool lazy = (id == QPC_SOLVER_AUTO || id == QPC_SOLVER_AUGMENTED_LAGRANGIAN) && qpc_alm_pcg_pays(qp->sys);
        if (lazy)
            qpc_linsys_prepare(qp->sys);
        else
            status = qpc_linsys_ensure(qp->sys, err);
        if (status == QPC_OK) status = solve_as_it_is(id, qp, options, arena, dv, lambda, report, err);
    }
    qpc_arena_rewind(arena, mark);
    return status;
}

qpc_status qpc_solve(qpc_solver_id id, const qpc_qp *qp, const qpc_solver_options *options,
                     qpc_arena *arena, double *dv, double *lambda, qpc_solver_report *report,
                     qpc_error *err) {
    bool done = false;
    qpc_solver_report screened, all;
    qpc_status status = qpc_screen(id, qp, options, arena, solve_condensed, dv, lambda, &screened, &done, err);
    if (status == QPC_OK && !done) {
        qpc_solver_options left = *options;
        if (left.max_iterations > 0) left.max_iterations -= screened.iterations < left.max_iterations ? screened.iterations : left.max_iterations - 1;
        status = solve_condensed(id, qp, &left, arena, dv, lambda, &all, err);
        if (status == QPC_OK) qpc_screen_count(&screened, &all);
    }
    if (status == QPC_OK && report != NULL) *report = screened;
    return status;
}

// ---- relaxation ----

qpc_status qpc_relax(const qpc_qp *qp, int32_t level, int32_t most_steps, qpc_arena *arena,
                     double *c, double *ret_largest, qpc_error *err) {
    // min 1/2 |s|^2 subject to J x <= c + s: proximal steps of the dual,
    //     lambda+ = argmin 1/2 l'A l - (J K^-1 b - c)'l + eps/2 |l - lambda|^2 over relaxed rows,
    // s = eps (lambda+ - lambda). Rows below the level are in every subproblem as they stand. The
    // (T36) multipliers grow for ever, along a proof of the contradiction; s converges, linearly
    // and fast as eps is small against A (Chiche & Gilbert 2016).
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    size_t n = (size_t)qp->n, m = (size_t)qp->m;
    qpc_solver_options options = qpc_solver_options_default();
    qpc_work work;
    double *zero = qpc_arena_array(arena, m, sizeof *zero);
    double *shift = qpc_arena_array(arena, m, sizeof *shift);
    double *moved = qpc_arena_array(arena, m, sizeof *moved);
    double *s = qpc_arena_array(arena, m, sizeof *s);
    double *lambda = qpc_arena_array(arena, m, sizeof *lambda);
    double *old = qpc_arena_array(arena, m, sizeof *old);
    double *x = qpc_arena_array(arena, n, sizeof *x);
    qpc_qp inner = *qp;
    qpc_status status = QPC_OK;
    if (zero == NULL || shift == NULL || moved == NULL || s == NULL || lambda == NULL ||
        old == NULL || x == NULL) {
        status = qpc_fail(err, QPC_ERR_MEMORY, "out of memory to relax %d rows", qp->m);
        goto out;
    }
    for (size_t i = 0; i < m; i++) zero[i] = lambda[i] = s[i] = 0;
    inner.c = moved;
    memcpy(moved, c, m * sizeof *moved);
    status = qpc_linsys_ensure(qp->sys, err);
    if (status == QPC_OK) status = qpc_work_init(&work, &inner, arena, zero, err);
    if (status != QPC_OK) goto out;
    double least = 0;
    int32_t relaxed = 0;
    for (size_t i = 0; i < m; i++) {
        relaxed += qp->priority[i] >= level;
        if (work.kt2[i] > 0 && (least == 0 || work.kt2[i] < least)) least = work.kt2[i];
    }
    if (least == 0) least = 1; // nothing but empty rows
    if (relaxed == 0) {
        status =
            qpc_fail(err, QPC_ERR_STATE, "no row of priority %d or more is there to relax", level);
        goto out;
    }
    double eps = 1e-6 * least, largest = 0;
    for (size_t i = 0; i < m; i++) shift[i] = qp->priority[i] >= level ? eps : 0;
    for (int32_t step = 0; step < most_steps; step++) {
        memcpy(old, lambda, m * sizeof *old);
        for (size_t i = 0; i < m; i++) {
            moved[i] = c[i] - shift[i] * old[i];
            if (shift[i] > 0 && work.kt2[i] == 0) moved[i] = 0; // an empty row: s = -c at once
        }
        qpc_solver_report report = {0};
        qpc_arena_mark inside = qpc_arena_get_mark(arena);
        status = qpc_active_set_run(&work, &options, shift, x, lambda, &report, err);
        qpc_arena_rewind(arena, inside);
        if (status != QPC_OK) goto out;
        if (report.outcome == QPC_OUTCOME_INFEASIBLE) {
            status = qpc_fail(err, QPC_ERR_STATE,
                              "rows contradict even with those of priority %d and more relaxed "
                              "(row %d and %d more)",
                              level, report.conflict_row[0], report.conflict_count - 1);
            goto out;
        }
        double change = 0;
        largest = 0;
        for (size_t i = 0; i < m; i++) {
            double now = shift[i] * (lambda[i] - old[i]);
            // Row by row: what is left over at this x, which is free of the cancellation above.
            if (shift[i] > 0) now = qpc_row_dot(qp, (int32_t)i, x) - c[i];
            if (!qp->equality[i] && now < 0) now = 0;
            if (fabs(now - s[i]) > change) change = fabs(now - s[i]);
            if (fabs(now) > largest) largest = fabs(now);
            s[i] = now;
        }
        if (change <= 1e-10 * largest) break;
    }
    // A hair more than needed, so that round-off does not contradict again.
    for (size_t i = 0; i < m; i++) {
        if (shift[i] == 0 || s[i] == 0) continue;
        if (fabs(s[i]) <= 1e-9 * largest) continue;
        c[i] += s[i] + (qp->equality[i] ? 0 : 1e-10 * largest);
    }
    if (ret_largest != NULL) *ret_largest = largest;
out:
    qpc_arena_rewind(arena, mark);
    return status;
}
