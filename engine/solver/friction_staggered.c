/// The staggered mode: qpc_solve() with b - T'beta, then beta within mu lambda, in turn; the best iterate by the natural residual comes
/// back (Kaufman et al. 2008). Worker thread of the world; memory from the arena.
#include "engine/solver/friction_job.h"

#include <float.h>
#include <string.h>

enum { STAGGER_CAP = 50 };
static const double STILL = 1e-14;

/// beta of the contacts that push, within mu lambda, with the normal impulses as they are.
static qpc_status project_friction(qpc_friction_job *job, const double *r, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(job->arena);
    const qpc_friction_set *set = &job->set;
    size_t count = (size_t)set->count, n = 0;
    uint8_t *kind = qpc_arena_array(job->arena, count, 1);
    int32_t *at = qpc_arena_array(job->arena, count + 1, sizeof *at);
    int32_t *from = qpc_arena_array(job->arena, 2 * count, sizeof *from);
    double *mu = qpc_arena_array(job->arena, count, sizeof *mu);
    double *root = qpc_arena_array(job->arena, count, sizeof *root);
    double *A = NULL, *p = NULL, *x = NULL, norm;
    qpc_status status = QPC_OK;
    qpc_cone_problem discs = {.kind = kind, .at = at, .mu = mu, .root = root};
    if (kind == NULL || at == NULL || from == NULL || mu == NULL || root == NULL) goto memory;
    at[0] = 0;
    for (int32_t block = 0; block < set->count; block++) {
        int32_t i = set->at[block];
        if (set->kind[block] != QPC_BLOCK_CONTACT || !(r[i] > 0)) continue;
        kind[discs.count] = QPC_BLOCK_DISC;
        mu[discs.count] = set->friction->mu[set->contact_of[set->row[block]]] * r[i];
        from[n++] = i + 1;
        from[n++] = i + 2;
        at[++discs.count] = (int32_t)n;
    }
    discs.size = (int32_t)n;
    A = discs.A = qpc_arena_array(job->arena, n * n, sizeof *A);
    p = discs.p = qpc_arena_array(job->arena, n, sizeof *p);
    x = qpc_arena_array(job->arena, n, sizeof *x);
    if (A == NULL || p == NULL || x == NULL) goto memory;
    // u_T as it is (all rows push through lambda, friction or not), less the share of friction
    // itself.
    int32_t next = 0;
    for (int32_t block = 0; block < set->count; block++) {
        if (set->kind[block] != QPC_BLOCK_CONTACT || !(r[set->at[block]] > 0)) continue;
        double u[3];
        qpc_friction_set_velocity(set, block, job->dv, u);
        p[next++] = u[1];
        p[next++] = u[2];
    }
    for (size_t i = 0; i < n; i++) {
        const double *row = set->W + (int64_t)from[i] * set->size;
        for (size_t j = 0; j < n; j++) {
            A[i * n + j] = row[from[j]];
            p[i] -= row[from[j]] * r[from[j]];
        }
    }
    qpc_cone_scale(&discs, NULL);
    for (size_t i = 0; i < n; i++) x[i] = r[from[i]] / (root[i / 2] * discs.scale);
    if (n > 0) status = qpc_disc_solve(&discs, 0.01 * job->tolerance, job->arena, x, &norm, err);
    if (status != QPC_OK) goto out;
    memset(job->beta, 0, 2 * (size_t)job->friction->count * sizeof *job->beta);
    int32_t disc = 0;
    for (int32_t block = 0; block < set->count; block++) {
        if (set->kind[block] != QPC_BLOCK_CONTACT || !(r[set->at[block]] > 0)) continue;
        double *b = job->beta + 2 * set->contact_of[set->row[block]];
        b[0] = -x[2 * disc] * root[disc] * discs.scale;
        b[1] = -x[2 * disc + 1] * root[disc] * discs.scale;
        disc++;
    }
    goto out;
memory:
    status = qpc_fail(err, QPC_ERR_MEMORY, "out of memory for friction on %d rows", job->qp->m);
out:
    qpc_arena_rewind(job->arena, mark);
    return status;
}

qpc_status qpc_friction_stagger(qpc_friction_job *job, double *best_dv, double *best_lambda,
                          double *best_beta, qpc_error *err) {
    const qpc_qp *qp = job->qp;
    size_t n = (size_t)qp->n, m = (size_t)qp->m, t = 2 * (size_t)job->friction->count;
    int32_t cap = job->most > 0 && job->most < STAGGER_CAP ? job->most : STAGGER_CAP;
    double *r = qpc_arena_array(job->arena, 3 * m, sizeof *r);
    if (r == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for friction on %d rows", qp->m);
    job->found.natural = DBL_MAX;
    for (int32_t i = 1;; i++) {
        job->found.iterations = i;
        qpc_status status = qpc_friction_under(job, err);
        if (status != QPC_OK) return status;
        if (job->report.outcome == QPC_OUTCOME_INFEASIBLE && i == 1) {
            status = qpc_friction_without(job, err);
            memcpy(best_dv, job->dv, n * sizeof *best_dv);
            memcpy(best_lambda, job->lambda, m * sizeof *best_lambda);
            memset(best_beta, 0, t * sizeof *best_beta);
            return status;
        }
        for (int32_t k = 0; k < job->friction->count; k++)
            if (job->lambda[job->friction->row[k]] > 0)
                qpc_friction_set_add(&job->set, job->friction->row[k]);
        if (job->set.done < job->set.count)
            status = qpc_friction_set_condense(&job->set, job->arena, err);
        if (status != QPC_OK) return status;
        qpc_friction_set_gather(&job->set, job->lambda, job->beta, r);
        qpc_friction_report now = {.iterations = i, .path = QPC_FRICTION_BY_TURNS};
        qpc_friction_set_report(&job->set, job->dv, r, &now);
        if (now.natural < job->found.natural) {
            job->found = now;
            memcpy(best_dv, job->dv, n * sizeof *best_dv);
            memcpy(best_lambda, job->lambda, m * sizeof *best_lambda);
            memcpy(best_beta, job->beta, t * sizeof *best_beta);
        }
        // An old beta counts at round-off only: within the tolerance it would let things creep.
        double enough = i == 1 && job->tolerance > STILL ? STILL : job->tolerance;
        job->found.iterations = i;
        if (now.natural <= enough || i >= cap || qpc_friction_left(job) < 2) return QPC_OK;
        status = project_friction(job, r, err);
        if (status != QPC_OK) return status;
    }
}
