/// Impacts with restitution, all at once or one after the other.
///
/// Simultaneous: x = v+ - v solves min 1/2 x'Mx with -J x <= J v + eps a, a the approach speed
/// (negative) of contacts that hit; by the dual active set, or with friction by the exact cone
/// solver. Where kinetic energy would grow, eps is scaled down by bisection; at zero v+ is a
/// projection of v, which cannot gain. If a is from before the step that stopped the contacts, the
/// energy that this took, at least 1/2 |x|^2_M of the least x with J (v + x) <= a, is there to be
/// given back. Sequential: the fastest approaching contact alone, again and again; what is left
/// below round-off, or after too many impacts, is ended by a simultaneous impact without
/// restitution. Worker thread of the world.
#include "engine/solver/impact.h"

#include "engine/solver/cones.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { BISECTIONS = 20 };
static const double GAIN = 1e-12; // relative growth of energy that round-off may show

typedef struct impact_job {
    qpc_linsys *M;
    qpc_qp qp;       // over -J; c changes
    const double *J; // (nnz) as the caller has it
    const double *eps, *approach;
    double threshold;
    const qpc_friction *friction;
    qpc_friction sliding; // with u0 = T v
    qpc_arena *arena;
    double *minus, *c, *zero; // (nnz), (m), (n)
    uint8_t *equality, *priority;
    uint64_t *key;
    double *u0;           // (2 count)
    double *x, *v, *work; // (n)
    double *f, *beta;     // (m), (2 count)
    double *total_f, *total_beta;
    double limit; // kinetic energy that may not be exceeded
    bool converged;
} impact_job;

static double row_dot(const impact_job *job, int32_t i, const double *v) {
    double s = 0;
    for (int32_t k = job->qp.row_start[i]; k < job->qp.row_start[i + 1]; k++)
        s += job->J[k] * v[job->qp.column[k]];
    return s;
}

static double tangent_dot(const qpc_friction *f, int32_t t, const double *v) {
    double s = 0;
    for (int32_t k = f->start[t]; k < f->start[t + 1]; k++) s += f->value[k] * v[f->column[k]];
    return s;
}

static double energy(impact_job *job, const double *v) {
    double s = 0;
    qpc_linsys_multiply(job->M, v, job->work);
    for (int32_t i = 0; i < job->qp.n; i++) s += v[i] * job->work[i];
    return 0.5 * s;
}

/// The bounce of row i: eps times its approach, 0 for what rests or separates.
static double bounce(const impact_job *job, int32_t i, double approach) {
    return approach < -job->threshold ? job->eps[i] * approach : 0;
}

/// One simultaneous impact from v with eps scaled: job->x, f, beta.
static qpc_status solve_scaled(impact_job *job, const double *v, double scale, qpc_error *err) {
    int32_t m = job->qp.m;
    for (int32_t i = 0; i < m; i++) {
        double now = row_dot(job, i, v);
        double a = job->approach != NULL ? job->approach[i] : now;
        job->c[i] = now + scale * bounce(job, i, a);
        job->f[i] = 0;
    }
    qpc_solver_options options = qpc_solver_options_default();
    options.exact = true;
    options.residual_tolerance = DBL_MAX;
    qpc_solver_report report;
    if (job->friction == NULL) {
        qpc_status status = qpc_solve(QPC_SOLVER_ACTIVE_SET, &job->qp, &options, job->arena, job->x,
                                      job->f, &report, err);
        job->converged = status == QPC_OK && report.outcome == QPC_OUTCOME_OPTIMAL;
        return status;
    }
    for (int32_t t = 0; t < 2 * job->friction->count; t++) {
        job->u0[t] = job->friction->u0[t] + tangent_dot(job->friction, t, v);
        job->beta[t] = 0;
    }
    qpc_friction_options exact = {.mode = QPC_FRICTION_EXACT, .tolerance = 1e-9};
    qpc_friction_report friction;
    qpc_status status =
        qpc_solve_friction(QPC_SOLVER_ACTIVE_SET, &job->qp, &job->sliding, &options, &exact,
                           job->arena, job->x, job->f, job->beta, &report, &friction, err);
    job->converged = status == QPC_OK && friction.converged;
    return status;
}

static double energy_after(impact_job *job, const double *v) {
    for (int32_t i = 0; i < job->qp.n; i++) job->v[i] = v[i] + job->x[i];
    return energy(job, job->v);
}

/// The least x with J (v + x) <= approach on contacts that hit: what the step took from them. In
/// job->x, f.
static qpc_status restore(impact_job *job, const double *v, bool *ret_any, qpc_error *err) {
    double speed = 0;
    *ret_any = false;
    for (int32_t i = 0; i < job->qp.m; i++) {
        double now = fabs(row_dot(job, i, v)), a = fabs(job->approach[i]);
        speed = now > speed ? now : speed;
        speed = a > speed ? a : speed;
    }
    for (int32_t i = 0; i < job->qp.m; i++) {
        double now = row_dot(job, i, v), a = job->approach[i];
        bool took = a < -job->threshold && a < now;
        job->c[i] = took ? a - now : 1e9 * speed; // the others: out of reach
        job->f[i] = 0;
        *ret_any = *ret_any || took;
    }
    if (!*ret_any) return QPC_OK;
    qpc_qp back = job->qp;
    back.value = job->J;
    qpc_solver_options options = qpc_solver_options_default();
    options.exact = true;
    options.residual_tolerance = DBL_MAX;
    qpc_solver_report report;
    qpc_status status =
        qpc_solve(QPC_SOLVER_ACTIVE_SET, &back, &options, job->arena, job->x, job->f, &report, err);
    // Approach speeds that contradict each other give nothing back.
    if (report.outcome != QPC_OUTCOME_OPTIMAL) *ret_any = false;
    return status;
}

/// Largest scale of eps without a gain, by bisection; x, f, beta are its.
static qpc_status simultaneous(impact_job *job, const double *v, double highest, double *ret_scale,
                               qpc_error *err) {
    double limit = job->limit * (1 + GAIN), low = 0, high = highest;
    qpc_status status = solve_scaled(job, v, high, err);
    *ret_scale = high;
    if (status != QPC_OK || energy_after(job, v) <= limit) return status;
    for (int32_t k = 0; k < BISECTIONS; k++) {
        double middle = 0.5 * (low + high);
        status = solve_scaled(job, v, middle, err);
        if (status != QPC_OK) return status;
        if (energy_after(job, v) <= limit)
            low = middle;
        else
            high = middle;
    }
    *ret_scale = low;
    return solve_scaled(job, v, low, err);
}

// ---- sequential ----

/// The contact of row i alone: (N, T1, T2) or N. W, q and the impulse r; false if nothing moves
/// there.
typedef struct single {
    int32_t row, contact, size;
    double W[9], q[3], r[3], a;
    double *columns; // (n x 4) M^-1 H'
} single;

static void single_build(impact_job *job, const double *v, single *s) {
    const qpc_friction *f = job->friction;
    memset(s->columns, 0, (size_t)job->qp.n * QPC_LINSYS_BLOCK * sizeof *s->columns);
    for (int32_t k = job->qp.row_start[s->row]; k < job->qp.row_start[s->row + 1]; k++)
        s->columns[job->qp.column[k] * QPC_LINSYS_BLOCK] = job->J[k];
    for (int32_t j = 1; j < s->size; j++)
        for (int32_t t = 2 * s->contact + j - 1, k = f->start[t]; k < f->start[t + 1]; k++)
            s->columns[f->column[k] * QPC_LINSYS_BLOCK + j] = f->value[k];
    qpc_linsys_solve_block(job->M, s->columns);
    for (int32_t j = 0; j < s->size; j++) {
        double w[3] = {0, 0, 0};
        if (j == 0) {
            for (int32_t k = job->qp.row_start[s->row]; k < job->qp.row_start[s->row + 1]; k++)
                for (int32_t l = 0; l < s->size; l++)
                    w[l] += job->J[k] * s->columns[job->qp.column[k] * QPC_LINSYS_BLOCK + l];
            s->q[0] = row_dot(job, s->row, v);
        } else {
            int32_t t = 2 * s->contact + j - 1;
            for (int32_t k = f->start[t]; k < f->start[t + 1]; k++)
                for (int32_t l = 0; l < s->size; l++)
                    w[l] += f->value[k] * s->columns[f->column[k] * QPC_LINSYS_BLOCK + l];
            s->q[j] = f->u0[t] + tangent_dot(f, t, v);
        }
        for (int32_t l = 0; l < s->size; l++) s->W[j * s->size + l] = w[l];
    }
}

static qpc_status single_solve(impact_job *job, single *s, double scale, qpc_error *err) {
    double normal = s->q[0] + scale * bounce(job, s->row, s->a);
    s->r[0] = s->r[1] = s->r[2] = 0;
    if (s->size == 1) {
        s->r[0] = normal < 0 && s->W[0] > 0 ? -normal / s->W[0] : 0;
        return QPC_OK;
    }
    double W[9], q[3] = {normal, s->q[1], s->q[2]}, mu = job->friction->mu[s->contact], root, norm;
    memcpy(W, s->W, sizeof W);
    uint8_t kind = QPC_BLOCK_CONTACT;
    int32_t at[2] = {0, 3}, outers = 0, newton = 0;
    qpc_cone_problem p = {
        .count = 1, .size = 3, .kind = &kind, .at = at, .mu = &mu, .A = W, .p = q, .root = &root};
    qpc_cone_scale(&p, NULL);
    qpc_status status =
        qpc_cone_solve(&p, 1e-11, 0, job->arena, s->r, &norm, &outers, &newton, err);
    for (int32_t j = 0; j < 3; j++) s->r[j] *= root * p.scale;
    if (!(norm <= 1e-9)) job->converged = false;
    return status;
}

/// v of the single impact into job->v.
static void single_move(impact_job *job, const single *s, const double *v) {
    for (int32_t i = 0; i < job->qp.n; i++) {
        job->v[i] = v[i];
        for (int32_t j = 0; j < s->size; j++)
            job->v[i] += s->columns[i * QPC_LINSYS_BLOCK + j] * s->r[j];
    }
}

static qpc_status single_impact(impact_job *job, double *v, single *s, double *ret_scale,
                                qpc_error *err) {
    single_build(job, v, s);
    s->a = s->q[0];
    double limit = energy(job, v) * (1 + GAIN), low = 0, high = 1, scale = 1;
    qpc_status status = single_solve(job, s, scale, err);
    if (status != QPC_OK) return status;
    single_move(job, s, v);
    if (!(energy(job, job->v) <= limit)) {
        for (int32_t k = 0; k < BISECTIONS && status == QPC_OK; k++) {
            double middle = 0.5 * (low + high);
            status = single_solve(job, s, middle, err);
            single_move(job, s, v);
            if (energy(job, job->v) <= limit)
                low = middle;
            else
                high = middle;
        }
        if (status != QPC_OK) return status;
        scale = low;
        status = single_solve(job, s, scale, err);
        single_move(job, s, v);
    }
    if (scale < *ret_scale) *ret_scale = scale;
    memcpy(v, job->v, (size_t)job->qp.n * sizeof *v);
    job->total_f[s->row] += s->r[0];
    if (s->size == 3) {
        job->total_beta[2 * s->contact] -= s->r[1];
        job->total_beta[2 * s->contact + 1] -= s->r[2];
    }
    return status;
}

static int32_t contact_of(const impact_job *job, int32_t row) {
    if (job->friction == NULL) return -1;
    for (int32_t k = 0; k < job->friction->count; k++)
        if (job->friction->row[k] == row && job->friction->mu[k] > 0) return k;
    return -1;
}

/// The row that approaches fastest, or -1; speed: the least speed that counts.
static int32_t fastest(const impact_job *job, const double *v, double speed) {
    int32_t found = -1;
    double most = -speed;
    for (int32_t i = 0; i < job->qp.m; i++) {
        double a = row_dot(job, i, v);
        if (a < most) {
            most = a;
            found = i;
        }
    }
    return found;
}

static qpc_status sequential(impact_job *job, double *v, qpc_impact_report *report,
                             qpc_error *err) {
    int32_t m = job->qp.m, cap = 200 + 50 * m;
    double speed = 0;
    for (int32_t i = 0; i < m; i++) {
        double a = fabs(row_dot(job, i, v));
        if (a > speed) speed = a;
    }
    single s = {.columns = qpc_arena_array(job->arena, (size_t)job->qp.n * QPC_LINSYS_BLOCK,
                                           sizeof(double))};
    if (s.columns == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for an impact");
    job->converged = true;
    while (report->rounds < cap) {
        s.row = fastest(job, v, 1e-12 * speed);
        if (s.row < 0) break;
        s.contact = contact_of(job, s.row);
        s.size = s.contact >= 0 ? 3 : 1;
        qpc_status status = single_impact(job, v, &s, &report->restitution_scale, err);
        if (status != QPC_OK) return status;
        report->rounds++;
    }
    // The tail: what is left of many small impacts, and what is below round-off already.
    bool left = false;
    for (int32_t i = 0; i < m; i++) left = left || row_dot(job, i, v) < -1e-13 * speed;
    if (!left) return QPC_OK;
    double scale;
    bool good = job->converged;
    job->limit = energy(job, v);
    qpc_status status = simultaneous(job, v, 0, &scale, err);
    if (status != QPC_OK) return status;
    job->converged = job->converged && good;
    for (int32_t i = 0; i < job->qp.n; i++) v[i] += job->x[i];
    for (int32_t i = 0; i < m; i++) job->total_f[i] += job->f[i];
    for (int32_t t = 0; job->friction != NULL && t < 2 * job->friction->count; t++)
        job->total_beta[t] += job->beta[t];
    return QPC_OK;
}

// ---- entry ----

static bool prepare(impact_job *job, int32_t m, const int32_t *start, const int32_t *column) {
    size_t n = (size_t)job->M->n, rows = (size_t)m, nnz = m > 0 ? (size_t)start[m] : 0;
    size_t t = job->friction != NULL ? 2 * (size_t)job->friction->count : 0;
    double **numbers[] = {&job->minus, &job->c, &job->zero, &job->u0,      &job->x,         &job->v,
                          &job->work,  &job->f, &job->beta, &job->total_f, &job->total_beta};
    size_t sizes[] = {nnz, rows, n, t, n, n, n, rows, t, rows, t};
    bool good = true;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        *numbers[i] = qpc_arena_array(job->arena, sizes[i], sizeof(double));
        good = good && *numbers[i] != NULL;
        if (good) memset(*numbers[i], 0, sizes[i] * sizeof(double));
    }
    job->equality = qpc_arena_array(job->arena, rows, 1);
    job->priority = qpc_arena_array(job->arena, rows, 1);
    job->key = qpc_arena_array(job->arena, rows, sizeof *job->key);
    if (!good || job->equality == NULL || job->priority == NULL || job->key == NULL) return false;
    for (size_t k = 0; k < nnz; k++) job->minus[k] = -job->J[k];
    for (size_t i = 0; i < rows; i++) {
        job->equality[i] = 0;
        job->priority[i] = 1;
        job->key[i] = i;
    }
    job->qp = (qpc_qp){.n = job->M->n,
                       .m = m,
                       .sys = job->M,
                       .b = job->zero,
                       .row_start = start,
                       .column = column,
                       .value = job->minus,
                       .c = job->c,
                       .equality = job->equality,
                       .priority = job->priority,
                       .key = job->key};
    if (job->friction != NULL) {
        job->sliding = *job->friction;
        job->sliding.u0 = job->u0;
    }
    return true;
}

static qpc_status check(const impact_job *job, const double *v, qpc_error *err) {
    bool good = job->threshold >= 0;
    for (int32_t i = 0; i < job->qp.n; i++) good = good && isfinite(v[i]);
    if (!good) return qpc_fail(err, QPC_ERR_NUMERIC, "velocities or the threshold are not finite");
    for (int32_t i = 0; i < job->qp.m; i++) {
        if (!(job->eps[i] >= 0 && job->eps[i] <= 1))
            return qpc_fail(err, QPC_ERR_INVALID, "contact %d: restitution %g is not in [0, 1]", i,
                            job->eps[i]);
        if (!isfinite(row_dot(job, i, v)) || (job->approach != NULL && !isfinite(job->approach[i])))
            return qpc_fail(err, QPC_ERR_NUMERIC, "contact %d of an impact is not finite", i);
    }
    return QPC_OK;
}

/// max |min(w_i, A_ii f_i)|, A_ii by the diagonal of M.
static double natural(const impact_job *job, const double *v, bool bounces) {
    double worst = 0;
    for (int32_t i = 0; i < job->qp.m; i++) {
        double w = bounces ? job->c[i] : 0, reach = 0;
        for (int32_t k = job->qp.row_start[i]; k < job->qp.row_start[i + 1]; k++) {
            int32_t j = job->qp.column[k];
            w += job->J[k] * (bounces ? job->x[j] : v[j]);
            reach += job->J[k] * job->J[k] / job->M->diagonal[j];
        }
        // Sequential impulses need not be complementary to the end velocity: only w >= 0 is asked.
        double f = bounces ? reach * job->f[i] : DBL_MAX, r = w < f ? w : f;
        if (!bounces && r > 0) r = 0;
        if (fabs(r) > worst) worst = fabs(r);
    }
    return worst;
}

qpc_status qpc_solve_impact(qpc_linsys *M, int32_t m, const int32_t *start, const int32_t *column,
                            const double *value, const double *eps, const double *approach,
                            double threshold, const qpc_friction *friction, qpc_impact_mode mode,
                            qpc_arena *arena, double *v, double *f, double *beta,
                            qpc_impact_report *report, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    impact_job job = {.M = M,
                      .J = value,
                      .eps = eps,
                      .approach = approach,
                      .threshold = threshold,
                      .friction = friction != NULL && friction->count > 0 ? friction : NULL,
                      .arena = arena};
    qpc_impact_report local = {.restitution_scale = 1};
    size_t n = (size_t)M->n, t = friction != NULL ? 2 * (size_t)friction->count : 0;
    double *end = NULL;
    qpc_status status = qpc_linsys_ensure(M, err);
    if (status != QPC_OK) goto out;
    end = qpc_arena_array(arena, n, sizeof *end);
    if (end == NULL || !prepare(&job, m, start, column)) {
        status = qpc_fail(err, QPC_ERR_MEMORY, "out of memory for an impact on %d contacts", m);
        goto out;
    }
    status = check(&job, v, err);
    if (status != QPC_OK) goto out;
    for (int32_t i = 0; i < m; i++)
        local.impacts += (approach != NULL ? approach[i] : row_dot(&job, i, v)) < -threshold;
    memcpy(end, v, n * sizeof *end);
    job.limit = energy(&job, v);
    bool took = false;
    if (approach != NULL) status = restore(&job, v, &took, err);
    if (status != QPC_OK) goto out;
    if (took) job.limit += energy(&job, job.x);
    local.energy_before = job.limit;
    if (mode == QPC_IMPACT_SEQUENTIAL) {
        // From the velocities that the step took, as near as they are known.
        for (size_t i = 0; took && i < n; i++) end[i] += job.x[i];
        for (int32_t i = 0; took && i < m; i++) job.total_f[i] = -job.f[i];
        job.approach = NULL;
        status = sequential(&job, end, &local, err);
        local.natural = natural(&job, end, false);
    } else {
        status = simultaneous(&job, v, 1, &local.restitution_scale, err);
        local.rounds = 1;
        for (size_t i = 0; i < n; i++) end[i] = v[i] + job.x[i];
        memcpy(job.total_f, job.f, (size_t)m * sizeof *f);
        memcpy(job.total_beta, job.beta, t * sizeof *beta);
        local.natural = natural(&job, end, true);
    }
    if (status != QPC_OK) goto out;
    local.energy_after = energy(&job, end);
    local.converged = job.converged;
    memcpy(v, end, n * sizeof *v);
    memcpy(f, job.total_f, (size_t)m * sizeof *f);
    if (t > 0) memcpy(beta, job.total_beta, t * sizeof *beta);
    *report = local;
out:
    qpc_arena_rewind(arena, mark);
    return status;
}
