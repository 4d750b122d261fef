/// Coulomb friction in algebraic form, u = W r + q: the public entry, its residuals, and the order
/// of methods.
///
/// Exact: Newton from the warm start, then on the law as Alart and Curnier have it; then interior point with De Saxce's fixed point, Newton
/// whenever two more digits are gained; then sweeps and Newton in turn; the interior point with De
/// Saxce's derivative; the fixed point with its convex problems solved to the end; many more
/// sweeps; and the interior point from other starting points. Every iterate is judged by the
/// natural residual alone and the best is returned. The residuals of a report are computed from W,
/// q and r as they came in. Worker thread of the world; memory from the arena: two to four dense
/// matrices of the order of the problem.
#include "engine/solver/cones.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { FIRST_STEPS = 12, ALART_STEPS = 60, END_STEPS = 8, POLISH_STEPS = 30, SMALL = 60 };
enum { FOLLOWED = 2, ROUND_SIZE = 400, SWEEPS = 250, FIRST_ROUNDS = 8, MANY_ROUNDS = 40 };
enum { OWN_BOUND = 8000 };

/// What Newton aims at beyond the tolerance: sticking contacts stand still to round-off.
static const double FINE = 1e-15;

typedef struct best {
    double *x, norm;
    size_t size;
} best;

static void keep(best *b, const double *x, double norm) {
    if (!(norm < b->norm)) return;
    memcpy(b->x, x, b->size * sizeof *x);
    b->norm = norm;
}

/// Interior point from one starting point, handing over to Newton on its way.
static qpc_status from_start(const qpc_cone_problem *p, double start, double follow,
                             double tolerance, int32_t max_steps, qpc_arena *arena, double *x,
                             best *found, int32_t *ret_outers, int32_t *ret_newton,
                             qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    qpc_interior interior;
    qpc_status status = qpc_interior_init(&interior, p, start, follow, arena, err);
    bool stuck = false;
    for (double target = 1e-4; status == QPC_OK && target > 1e-15; target *= 1e-2) {
        int32_t rest = max_steps - *ret_newton - *ret_outers;
        if (rest < interior.most) interior.most = rest;
        status = qpc_interior_run(&interior, p, target, arena, x, &stuck, err);
        if (status != QPC_OK) break;
        keep(found, x, interior.best);
        double norm = DBL_MAX;
        int32_t left = max_steps - *ret_newton - *ret_outers - interior.iterations;
        if (left <= 0) break;
        status = qpc_cone_newton(p, FINE, tolerance, stuck || target < 1e-7,
                                 left < POLISH_STEPS ? left : POLISH_STEPS, arena, x, &norm,
                                 ret_newton, err);
        if (status != QPC_OK) break;
        keep(found, x, norm);
        // A little beyond the tolerance while it is cheap: the report measures in the units that
        // came in.
        if (found->norm <= 0.1 * tolerance || stuck) break;
        while (target > interior.best) target *= 1e-2;
        target *= 1e2;
    }
    *ret_outers += interior.iterations;
    qpc_arena_rewind(arena, mark);
    return status;
}

/// What is tried before a start of the interior point: sweeps before the second; before the third
/// the fixed point solved to the end, the more damped the longer, then many more sweeps.
static qpc_status between(const qpc_cone_problem *p, int32_t place, double tolerance,
                          int32_t max_steps, qpc_arena *arena, best *found, int32_t *ret_outers,
                          int32_t *ret_newton, qpc_error *err) {
    static const struct {
        double damping;
        int32_t most;
    } tries[] = {{0.5, 45}, {0.2, 60}, {1, 30}};
    double enough = 0.9 * tolerance;
    if (place == 1)
        return qpc_cone_sweep(p, FIRST_ROUNDS, SWEEPS, FINE, enough, max_steps, arena, found->x,
                              &found->norm, ret_outers, ret_newton, err);
    if (place != FOLLOWED) return QPC_OK;
    // Outer steps of a large problem take too long.
    int32_t limit = p->size <= ROUND_SIZE ? 1000 : 12;
    qpc_status status = QPC_OK;
    for (size_t i = 0; i < sizeof tries / sizeof *tries && status == QPC_OK; i++) {
        int32_t most = tries[i].most < limit ? tries[i].most : limit;
        if (found->norm <= enough) return status;
        status = qpc_cone_fixed_point(p, tries[i].damping, most, FINE, enough, max_steps, arena,
                                      found->x, &found->norm, ret_outers, ret_newton, err);
    }
    if (status != QPC_OK || found->norm <= enough) return status;
    return qpc_cone_sweep(p, MANY_ROUNDS, 2 * SWEEPS, FINE, enough, max_steps, arena, found->x,
                          &found->norm, ret_outers, ret_newton, err);
}

/// Where Newton on the natural map has stopped: in the form of Alart and Curnier, then on the natural map to the end.
static qpc_status in_other_form(const qpc_cone_problem *p, double tolerance, int32_t max_steps, qpc_arena *arena, double *x, best *found,
                                int32_t *ret_newton, qpc_error *err) {
    double norm, enough = 0.5 * tolerance;
    int32_t left = max_steps - *ret_newton;
    memcpy(x, found->x, found->size * sizeof *x);
    qpc_status status =
        qpc_cone_alart(p, enough, left < ALART_STEPS ? left : ALART_STEPS, arena, x, &norm, ret_newton, err);
    if (status != QPC_OK) return status;
    keep(found, x, norm);
    left = max_steps - *ret_newton;
    if (!(norm <= enough) || left <= 0) return QPC_OK;
    status = qpc_cone_newton(p, FINE, tolerance, false, left < END_STEPS ? left : END_STEPS, arena, x, &norm,
                             ret_newton, err);
    if (status == QPC_OK) keep(found, x, norm);
    return status;
}

/// A start that is further from solved than no impulse at all is none: what a problem was left at that nothing solved.
static bool is_of_use(const qpc_cone_problem *p, double *x, qpc_arena *arena) {
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    size_t size = (size_t)p->size;
    double *zero = qpc_arena_array(arena, size, sizeof *zero), norm = 0;
    qpc_natural natural;
    bool any = false;
    for (size_t i = 0; i < size; i++) any = any || x[i] != 0;
    if (any && zero != NULL && qpc_natural_alloc(&natural, p, arena)) {
        qpc_natural_map(p, x, &natural);
        norm = natural.norm;
        memset(zero, 0, size * sizeof *zero);
        qpc_natural_map(p, zero, &natural);
        any = norm <= natural.norm;
    }
    qpc_arena_rewind(arena, mark);
    return any;
}

qpc_status qpc_cone_solve(const qpc_cone_problem *p, double tolerance, int32_t max_steps,
                          qpc_arena *arena, double *x, double *ret_norm, int32_t *ret_outers,
                          int32_t *ret_newton, qpc_error *err) {
    static const struct {
        double start, follow;
    } starts[] = {{1, 1}, {1, 0}, {30, 0}, {0.03, 0}, {1, 0.3}, {30, 1}, {0.03, 0.1}};
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    size_t size = (size_t)p->size;
    best found = {.x = qpc_arena_array(arena, size, sizeof *x), .norm = DBL_MAX, .size = size};
    if (found.x == NULL) return QPC_CONE_MEMORY(err, p);
    bool warm = is_of_use(p, x, arena);
    if (!warm) memset(x, 0, size * sizeof *x);
    memcpy(found.x, x, size * sizeof *x);
    double norm = DBL_MAX;
    if (max_steps <= 0) max_steps = OWN_BOUND;
    qpc_status status = qpc_cone_newton(p, FINE, tolerance, p->size <= SMALL,
                                        FIRST_STEPS < max_steps ? FIRST_STEPS : max_steps, arena, x, &norm, ret_newton, err);
    if (status == QPC_OK) keep(&found, x, norm);
    if (status == QPC_OK && !(found.norm <= 0.9 * tolerance))
        status = in_other_form(p, tolerance, max_steps, arena, x, &found, ret_newton, err);
    for (size_t s = 0; s < sizeof starts / sizeof *starts && status == QPC_OK; s++) {
        if (found.norm <= 0.9 * tolerance || *ret_newton + *ret_outers >= max_steps) break;
        status = between(p, (int32_t)s, tolerance, max_steps, arena, &found, ret_outers, ret_newton,
                         err);
        if (found.norm <= 0.9 * tolerance || status != QPC_OK) break;
        if (*ret_newton + *ret_outers >= max_steps) break;
        status = from_start(p, starts[s].start, starts[s].follow, tolerance, max_steps, arena, x,
                            &found, ret_outers, ret_newton, err);
    }
    memcpy(x, found.x, size * sizeof *x);
    *ret_norm = found.norm;
    qpc_arena_rewind(arena, mark);
    return status;
}

// ---- the public form ----

static qpc_status check(const qpc_cones *cones, const double *r, qpc_error *err) {
    for (int32_t k = 0; k < cones->count; k++)
        if (!(cones->mu[k] >= 0 && cones->mu[k] < 1e6))
            return qpc_fail(err, QPC_ERR_INVALID,
                            "contact %d: friction coefficient %g is not in [0, 1e6)", k,
                            cones->mu[k]);
    for (int32_t i = 0; i < 3 * cones->count; i++) {
        bool good = isfinite(cones->q[i]) && isfinite(r[i]);
        for (int32_t k = cones->start[i]; k < cones->start[i + 1]; k++)
            good = good && isfinite(cones->value[k]);
        if (!good)
            return qpc_fail(err, QPC_ERR_NUMERIC,
                            "friction: row %d of W, q or the start is not finite", i);
    }
    return QPC_OK;
}

typedef struct built {
    qpc_cone_problem problem;
    int32_t *from; // (size) unknown of the public form
    double *x;     // (size)
} built;

static void diagonal_block(const qpc_cones *cones, int32_t k, double *block) {
    memset(block, 0, 9 * sizeof *block);
    for (int32_t j = 0; j < 3; j++) {
        int32_t i = 3 * k + j;
        for (int32_t l = cones->start[i]; l < cones->start[i + 1]; l++)
            if (cones->column[l] / 3 == k) block[3 * j + cones->column[l] % 3] += cones->value[l];
    }
}

/// Dense and scaled. Contacts with mu = 0 become half-lines: their cone is one.
static qpc_status build(const qpc_cones *cones, const double *r, qpc_arena *arena, built *ret,
                        qpc_error *err) {
    size_t count = (size_t)cones->count, all = 3 * count;
    uint8_t *kind = qpc_arena_array(arena, count, 1);
    int32_t *at = qpc_arena_array(arena, count + 1, sizeof *at);
    int32_t *from = qpc_arena_array(arena, all, sizeof *from);
    int32_t *to = qpc_arena_array(arena, all, sizeof *to);
    qpc_cone_problem *p = &ret->problem;
    *p = (qpc_cone_problem){.count = cones->count, .size = (int32_t)all, .kind = kind, .at = at};
    p->mu = qpc_arena_array(arena, count, sizeof *p->mu);
    p->root = qpc_arena_array(arena, count, sizeof *p->root);
    if (kind == NULL || at == NULL || from == NULL || to == NULL || p->mu == NULL ||
        p->root == NULL)
        return QPC_CONE_MEMORY(err, p);
    int32_t size = 0;
    at[0] = 0;
    for (int32_t k = 0; k < cones->count; k++) {
        p->mu[k] = cones->mu[k];
        kind[k] = cones->mu[k] > 0 ? QPC_BLOCK_CONTACT : QPC_BLOCK_HALF_LINE;
        for (int32_t j = 0; j < 3; j++) {
            to[3 * k + j] = -1;
            if (j > 0 && kind[k] != QPC_BLOCK_CONTACT) continue;
            from[size] = 3 * k + j;
            to[3 * k + j] = size++;
        }
        at[k + 1] = size;
    }
    p->size = size;
    size_t n = (size_t)size;
    p->A = qpc_arena_array(arena, n * n, sizeof *p->A);
    p->p = qpc_arena_array(arena, n, sizeof *p->p);
    ret->x = qpc_arena_array(arena, n, sizeof *ret->x);
    ret->from = from;
    if (p->A == NULL || p->p == NULL || ret->x == NULL) return QPC_CONE_MEMORY(err, p);
    memset(p->A, 0, n * n * sizeof *p->A);
    for (size_t i = 0; i < n; i++) {
        int32_t row = from[i];
        p->p[i] = cones->q[row];
        for (int32_t k = cones->start[row]; k < cones->start[row + 1]; k++)
            if (to[cones->column[k]] >= 0)
                p->A[i * n + (size_t)to[cones->column[k]]] += cones->value[k];
    }
    // Without friction a contact is a half-line, but measured as the three rows that came in.
    double *rho = qpc_arena_array(arena, count, sizeof *rho);
    if (rho == NULL) return QPC_CONE_MEMORY(err, p);
    for (int32_t k = 0; k < cones->count; k++) {
        double block[9];
        rho[k] = 0;
        if (kind[k] == QPC_BLOCK_CONTACT) continue;
        diagonal_block(cones, k, block);
        rho[k] = qpc_cone_rho(3, block, 3);
    }
    qpc_cone_scale(p, rho);
    for (int32_t k = 0; k < p->count; k++)
        for (int32_t i = at[k]; i < at[k + 1]; i++)
            ret->x[i] = r[from[i]] / (p->root[k] * p->scale);
    return QPC_OK;
}

qpc_status qpc_solve_cones(const qpc_cones *cones, const qpc_friction_options *options,
                           qpc_arena *arena, double *r, qpc_friction_report *report,
                           qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    qpc_friction_report local = {0};
    qpc_status status = check(cones, r, err);
    built b;
    if (status == QPC_OK) status = build(cones, r, arena, &b, err);
    if (status != QPC_OK) goto out;
    const qpc_cone_problem *p = &b.problem;
    double *answer = qpc_arena_array(arena, 3 * (size_t)cones->count, sizeof *answer), norm = 0;
    if (answer == NULL) {
        status = QPC_CONE_MEMORY(err, p);
        goto out;
    }
    bool staggered = options->mode == QPC_FRICTION_STAGGERED;
    double tolerance = options->tolerance > 0 ? options->tolerance : staggered ? 1e-3 : 1e-9;
    int32_t outers = 0, newton = 0;
    if (staggered)
        status = qpc_cone_stagger(p, tolerance, options->max_iterations, arena, b.x, &norm, &outers,
                                  err);
    else
        status = qpc_cone_solve(p, tolerance, options->max_iterations, arena, b.x, &norm, &outers,
                                &newton, err);
    if (status != QPC_OK) goto out;
    memset(answer, 0, 3 * (size_t)cones->count * sizeof *answer);
    for (int32_t k = 0; k < p->count; k++)
        for (int32_t i = p->at[k]; i < p->at[k + 1]; i++)
            answer[b.from[i]] = b.x[i] * p->root[k] * p->scale;
    status = qpc_cones_residuals(cones, answer, arena, &local, err);
    if (status != QPC_OK) goto out;
    local.outers = outers;
    local.newton = newton;
    local.iterations = outers + newton;
    local.converged = local.natural <= tolerance;
    memcpy(r, answer, 3 * (size_t)cones->count * sizeof *r);
    *report = local;
out:
    qpc_arena_rewind(arena, mark);
    return status;
}

void qpc_contact_judge(double mu, double rho, const double *u, const double *r,
                       qpc_contact_sums *sums, qpc_friction_report *report) {
    double slide = hypot(u[1], u[2]), pull = hypot(r[1], r[2]);
    double z[3] = {r[0] - rho * (u[0] + mu * slide), r[1] - rho * u[1], r[2] - rho * u[2]};
    double t = hypot(z[1], z[2]), P[3] = {0, 0, 0};
    if (t <= mu * z[0]) {
        memcpy(P, z, sizeof P);
        report->sticking++;
    } else if (mu * t <= -z[0]) {
        report->open++;
    } else {
        P[0] = (z[0] + mu * t) / (1 + mu * mu);
        P[1] = t > 0 ? mu * P[0] * z[1] / t : 0;
        P[2] = t > 0 ? mu * P[0] * z[2] / t : 0;
        report->sliding++;
    }
    for (int32_t i = 0; i < 3; i++) sums->natural += (r[i] - P[i]) * (r[i] - P[i]) / rho;
    double root = sqrt(rho), below = -u[0] * root, over = (pull - mu * r[0]) / root;
    if (below > sums->penetration) sums->penetration = below;
    if (over > sums->cone) sums->cone = over;
    sums->complementarity += fabs(r[0] * u[0]);
    sums->dissipation += fabs(mu * r[0] * slide + r[1] * u[1] + r[2] * u[2]);
}

void qpc_contact_sums_finish(const qpc_contact_sums *sums, double scale,
                             qpc_friction_report *report) {
    report->natural = sqrt(sums->natural) / scale;
    report->penetration = sums->penetration / scale;
    report->cone = sums->cone / scale;
    report->complementarity = sums->complementarity / (scale * scale);
    report->dissipation_defect = sums->dissipation / (scale * scale);
}

qpc_status qpc_cones_residuals(const qpc_cones *cones, const double *r, qpc_arena *arena,
                               qpc_friction_report *report, qpc_error *err) {
    (void)arena;
    (void)err;
    qpc_friction_report local = {0};
    qpc_contact_sums sums = {0};
    double square = 0;
    for (int32_t k = 0; k < cones->count; k++) {
        double u[3], block[9];
        diagonal_block(cones, k, block);
        for (int32_t j = 0; j < 3; j++) {
            int32_t i = 3 * k + j;
            u[j] = cones->q[i];
            for (int32_t l = cones->start[i]; l < cones->start[i + 1]; l++)
                u[j] += cones->value[l] * r[cones->column[l]];
        }
        double rho = qpc_cone_rho(3, block, 3);
        for (int32_t j = 0; j < 3; j++) square += rho * cones->q[3 * k + j] * cones->q[3 * k + j];
        qpc_contact_judge(cones->mu[k], rho, u, r + 3 * (int64_t)k, &sums, &local);
    }
    double scale = square > 0 ? sqrt(square) : 1;
    qpc_contact_sums_finish(&sums, scale, &local);
    *report = local;
    return QPC_OK;
}
