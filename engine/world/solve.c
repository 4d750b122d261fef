/// QPs of an attempt: within the budget, with friction, and what is done where rows contradict.
///
/// Runs on the worker in the world.
#include "engine/world/attempt.h"
#include "engine/world/position.h"

#include <string.h>

static const double FRICTION_OPERATIONS = 1e9;
static const double FARTHEST = 1e20;         // m, of a node
enum { FACTOR_FIRST = 100 };                 // steps that begin with a factor after conjugate gradients did not do
static const double LOOSE = 1e4;             // times the tolerances, of QPs on the way: a tenth of what the Newton iteration may leave (T56);
static const double LOOSE_TETS = 100;        // where all that is elastic are tetrahedra,
static const double LOOSE_FRICTION = 1e-3, LOOSE_SOFT = 3e-2; // natural residual of friction there; where all that is elastic are tetrahedra
static const double NEARLY = 10;             // times its tolerance, and its motion is kept although it missed
static const double LOOSE_CABLES = 3e4;      // and of cables: a third of what the Newton iteration may leave
static const double LOOSENED = 1e-7;         // of a larger tolerance of rows no more than of this: Newton's does not grow with it (T59)
enum { FRICTION_ENGINES = 16 };              // engines of a report from here on are ways of friction
enum {
    MOST_UNSOLVED = 2,       // QPs of an attempt given up at an iteration limit
    MOST_NEWTON_STEPS = 60,  // of augmented-lagrangian named alone, as in auto
    MOST_RELAXATIONS = 8,    // of an attempt
    RELAX_STEPS = 6,
    MOST_ALTERNATIONS = 12,
    MOST_CHAIN_STEPS = 300,  // of a friction problem without dense matrices
    MOST_FRICTION_STEPS = 150, // of a friction problem; warm ones take two to six, some have no solution at all
};

static void count_solve(qpc_step_report *r, const qpc_solver_report *s) {
    r->engine = (int64_t)s->engine;
    r->qps++;
    r->solver_iterations += s->iterations - s->adds - s->drops; // those are among them
    r->set_changes += s->adds + s->drops;
    r->factorizations += s->factorizations;
    r->solves += s->solves;
    r->fallbacks += s->fell_back ? 1 : 0;
    r->active = s->active;
}

int32_t qpc_step_budget_left(const qpc_world *w) {
    if (w->solver.budget <= 0) return INT32_MAX;
    int64_t left = w->solver.budget - w->report->solver_iterations - w->report->set_changes;
    return left > 0 ? (int32_t)left : 0;
}

/// qpc_solve within what is left of the budget, counted. *ret_out: nothing is left, and nothing was done.
static qpc_status solve_rows(qpc_world *w, qpc_solver_id id, const qpc_qp *qp, const qpc_solver_options *options, double *dv,
                             qpc_solver_report *report, bool *ret_out, qpc_error *err) {
    qpc_solver_options o = *options;
    int32_t left = qpc_step_budget_left(w);
    *ret_out = left == 0;
    if (left == 0) return QPC_OK;
    o.anytime = left < INT32_MAX;
    if (left < INT32_MAX && (o.max_iterations == 0 || left < o.max_iterations)) o.max_iterations = left;
    qpc_status st = qpc_solve(id, qp, &o, &w->arena, dv, w->rows.lambda, report, err);
    if (st == QPC_OK) count_solve(w->report, report);
    if (st == QPC_OK && o.max_iterations == left && report->outcome == QPC_OUTCOME_ITERATION_LIMIT) w->report->exhausted = 1;
    return st;
}

/// Nothing is left of the budget: the motion that the multipliers at hand lead to.
static qpc_status take_as_it_is(qpc_world *w, double *dv, qpc_solver_report *report, qpc_error *err) {
    int32_t n = 3 * w->block_count;
    double *load = qpc_arena_array(&w->arena, (size_t)n, sizeof *load);
    if (load == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d unknowns", n);
    qpc_status st = qpc_linsys_ensure(&w->sys, err);
    if (st != QPC_OK) return st;
    for (int32_t i = 0; i < w->rows.m; i++)
        if (!w->rows.equality[i] && !(w->rows.lambda[i] > 0.0)) w->rows.lambda[i] = 0.0;
    qpc_rub_load(&w->rub, n, w->b, load);
    for (int32_t i = 0; i < w->rows.m; i++)
        for (int32_t k = w->rows.row_start[i]; k < w->rows.row_start[i + 1]; k++)
            load[w->rows.column[k]] -= w->rows.lambda[i] * w->rows.value[k];
    qpc_linsys_solve(&w->sys, load, dv);
    *report = (qpc_solver_report){.outcome = QPC_OUTCOME_ITERATION_LIMIT};
    return QPC_OK;
}

static void note_budget(qpc_world *w, qpc_trial *t) {
    if (qpc_step_budget_left(w) > 0) return;
    t->exhausted = t->last_pass = true;
    w->report->exhausted = 1;
}

/// Where K is banded, or sparse with more than a few contacts, a step costs what is linear in the unknowns or a factor of K.
/// Else friction works on dense matrices of three unknowns a contact with a force: so many steps, or none, that one problem takes a
/// bounded number of operations.
static int32_t friction_steps(const qpc_world *w, bool dense) {
    bool staggered = w->solver.friction == QPC_FRICTION_STAGGERED;
    if (!dense) return staggered ? MOST_ALTERNATIONS : MOST_CHAIN_STEPS;
    int32_t most = staggered ? MOST_ALTERNATIONS : MOST_FRICTION_STEPS;
    double pushing = 0.0;
    for (int32_t k = 0; k < w->rub.row.count; k++) pushing += w->rows.lambda[w->rub.row.data[k]] > 0.0;
    if (pushing == 0.0) pushing = 0.5 * w->rub.row.count; // cold
    double n = 3.0 * pushing, steps = FRICTION_OPERATIONS / (1.0 + n * n * n / 3.0);
    return steps < most ? (int32_t)steps : most;
}

/// The QP under the friction impulses that stand, each no larger than its contact's force allows.
static qpc_status solve_under_friction(qpc_world *w, qpc_solver_id id, qpc_qp qp, const qpc_solver_options *options, double *dv,
                                       qpc_solver_report *report, bool *ret_out, qpc_error *err) {
    qpc_rub *rub = &w->rub;
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    double *load = qpc_arena_array(&w->arena, (size_t)qp.n, sizeof *load);
    if (load == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for the friction of %d contacts", rub->row.count);
    for (int32_t k = 0; k < rub->row.count; k++) {
        double *beta = rub->beta.data + 2 * k, size = hypot(beta[0], beta[1]);
        double most = rub->mu.data[k] * fmax(w->rows.lambda[rub->row.data[k]], 0.0);
        for (int a = 0; a < 2; a++) beta[a] = size > most ? beta[a] * (most / size) : beta[a];
        if (!isfinite(beta[0]) || !isfinite(beta[1])) beta[0] = beta[1] = 0.0;
    }
    qpc_rub_load(rub, qp.n, w->b, load);
    qp.b = load;
    qpc_status st = solve_rows(w, id, &qp, options, dv, report, ret_out, err);
    qpc_arena_rewind(&w->arena, mark);
    return st;
}

typedef struct before { // what a friction problem began with
    double *lambda, *beta;
} before;

static bool keep_before(qpc_world *w, before *b) {
    size_t m = (size_t)w->rows.m, r = 2 * (size_t)w->rub.row.count;
    b->lambda = qpc_arena_array(&w->arena, m + r, sizeof(double));
    if (b->lambda == NULL) return false;
    b->beta = b->lambda + m;
    memcpy(b->lambda, w->rows.lambda, m * sizeof(double));
    memcpy(b->beta, w->rub.beta.data, r * sizeof(double));
    return true;
}

/// Where a budget cut it short, what the step before came to is worth more; multipliers of the rows, if there were enough.
static void take_before(qpc_world *w, const before *b) {
    int32_t warm = 0, reached = 0;
    for (int32_t i = 0; i < w->rows.m; i++) {
        warm += b->lambda[i] > 0.0;
        reached += w->rows.lambda[i] > 0.0;
    }
    if (2 * warm > reached) memcpy(w->rows.lambda, b->lambda, (size_t)w->rows.m * sizeof(double));
    memcpy(w->rub.beta.data, b->beta, 2 * (size_t)w->rub.row.count * sizeof(double));
}

/// Coulomb friction on the rows, in the mode of the scene. Where that has no solution, or none was found, the rows hold all
/// the same under what it came to. Half of a budget is kept for that; there friction is tried once a step, and a miss takes
/// one step of its fixed point from what the step before came to instead.
static qpc_status solve_friction(qpc_world *w, qpc_solver_id id, const qpc_qp *qp, const qpc_friction *friction,
                                 const qpc_solver_options *options, bool loose, double *dv, qpc_solver_report *report, bool *ret_out,
                                 qpc_error *err) {
    qpc_friction_options how = {.mode = w->solver.friction, .tolerance = w->solver.friction_tolerance};
    qpc_friction_report rubbing = {.converged = false};
    int32_t left = qpc_step_budget_left(w);
    // Contacts of rigid bodies share too few unknowns for steps of the fixed point that are taken at once.
    bool bounded = left < INT32_MAX && w->rigid_count == 0 && how.mode == QPC_FRICTION_EXACT, tried = left > 2 && !(bounded && w->rub.missed > 0);
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    before old;
    if (bounded && !keep_before(w, &old)) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for the friction of %d contacts", w->rub.row.count);
    if (loose && qpc_has_cloth(w)) how.tolerance = fmax(how.tolerance, qpc_step_may_keep_matrix(w) ? LOOSE_SOFT : LOOSE_FRICTION);
    bool dense = qpc_friction_choose(qp, friction) == QPC_FRICTION_BY_DENSE;
    how.max_iterations = friction_steps(w, dense);
    // Less and less is tried in a step that misses.
    how.max_iterations >>= (dense || how.mode != QPC_FRICTION_EXACT ? 2 : 1) * w->rub.missed;
    if (left < INT32_MAX) how.max_total = left - (bounded ? left / 2 : left / 3);
    tried = tried && how.max_iterations > 0;
    qpc_status st = QPC_OK;
    if (tried)
        st = qpc_solve_friction(id, qp, friction, options, &how, &w->arena, dv, w->rows.lambda, w->rub.beta.data, report, &rubbing, err);
    if (st != QPC_OK) return st;
    if (tried) {
        count_solve(w->report, report);
        w->report->solver_iterations += rubbing.iterations;
        if (rubbing.converged) w->report->engine = FRICTION_ENGINES + (int64_t)rubbing.path;
        if (rubbing.converged || report->outcome == QPC_OUTCOME_INFEASIBLE) {
            qpc_arena_rewind(&w->arena, mark);
            return QPC_OK;
        }
    }
    // A budget kept it from being tried, or ended it (its last iteration begins nothing), although something is left for the rows.
    if (left < INT32_MAX && (!tried || report->iterations + rubbing.iterations + 1 >= how.max_total)) w->rub.cut_short = true;
    if (w->rub.missed < 15) w->rub.missed++;
    w->rub.unmet = true;
    bool nearly = tried && !loose && left == INT32_MAX && how.mode == QPC_FRICTION_EXACT && rubbing.natural <= NEARLY * how.tolerance;
    if (bounded) take_before(w, &old);
    qpc_arena_rewind(&w->arena, mark);
    if (nearly) { // so do the rows
        report->outcome = QPC_OUTCOME_OPTIMAL;
        w->report->engine = FRICTION_ENGINES + (int64_t)rubbing.path;
        return QPC_OK;
    }
    if (bounded && (st = qpc_step_guess_friction(w, options->start, err)) != QPC_OK) return st;
    return solve_under_friction(w, id, *qp, options, dv, report, ret_out, err);
}

static qpc_solver_options options_of(const qpc_world *w, const qpc_trial *t, qpc_solver_id id, const double *start) {
    qpc_solver_options options = qpc_solver_options_default();
    options.residual_tolerance = w->solver.tolerance * w->min_separation / t->h;
    options.stat_tolerance = QPC_STAT_TOLERANCE;
    options.perturbation = w->solver.perturbation;
    options.start = start;
    // Of rows that contradict nothing is taken over: this attempt ends, or they give way.
    options.at_sight = !t->cautious || (w->solver.budget <= 0 && t->relaxations + 2 <= MOST_RELAXATIONS);
    if (options.at_sight) options.beyond = qpc_step_beyond(w, t->h);
    options.hits = t->hits;
    options.draft = t->loose && !qpc_has_cloth(w) && !w->rubs; // friction starts from its forces
    if (t->loose) {
        double loose = !qpc_has_cloth(w) ? LOOSE_CABLES : qpc_step_may_keep_matrix(w) ? LOOSE_TETS : LOOSE;
        options.residual_tolerance = fmax(options.residual_tolerance, loose * fmin(w->solver.tolerance, LOOSENED) * w->min_separation / t->h);
        options.stat_tolerance *= loose;
    }
    if (id == QPC_SOLVER_AUGMENTED_LAGRANGIAN) options.max_iterations = MOST_NEWTON_STEPS; // contradictions never end
    return options;
}

/// Sweeps of projections, counted.
static qpc_status solve_positions(qpc_world *w, const qpc_trial *t, const qpc_friction *friction, double *dv, qpc_solver_report *report,
                                  qpc_error *err) {
    int32_t left = qpc_step_budget_left(w), most = w->solver.iterations < left ? w->solver.iterations : left;
    double tolerance = w->solver.tolerance * w->min_separation / t->h;
    qpc_status st = qpc_position_solve(w, t->h, friction, most, tolerance, dv, report, err);
    if (st == QPC_OK) count_solve(w->report, report);
    w->rub.unmet = friction->count > 0 && report->outcome != QPC_OUTCOME_OPTIMAL; // unless the certificate finds that it is
    return st;
}

/// The proof needs no strain limit, which would give way first.
static bool contacts_alone(const qpc_world *w, const qpc_solver_report *report) {
    for (int32_t k = 0; k < qpc_conflict_named(report); k++)
        if (w->rows.kind[report->conflict_row[k]] != QPC_ROW_CONTACT) return false;
    return true;
}

/// Every node ends where detection can go, and no body turns faster than can be followed.
static bool leads_somewhere(const qpc_world *w, const qpc_trial *t, const double *dv) {
    for (int32_t i = 0; i < 3 * w->free_count; i++)
        if (!(fabs(w->x[i] + t->h * (w->v[i] + dv[i])) < FARTHEST)) return false;
    return qpc_rigid_leads_somewhere(w, t->h, FARTHEST, dv);
}

/// An engine ran into infinity: what is free stands still, as absurd as any other answer that is none.
static void give_up(qpc_world *w, qpc_trial *t, double *dv) {
    for (int32_t i = 0; i < 3 * w->free_count; i++) dv[i] = (w->row_dof[i / 3] < 0 ? w->v_frame[i] : 0.0) - w->v[i];
    for (int32_t i = 0; i < w->rigid_count; i++) qpc_rigid_stop(w, i, dv);
    for (int32_t i = 0; i < w->rows.m; i++) w->rows.lambda[i] = 0.0;
    qpc_step_drop_friction(w);
    w->warm_count = w->kept.count = 0;
    t->broken = t->limited = t->last_pass = true;
}

/// Conjugate gradients end by a norm of their own, which sees little of what moves softly beside what is stiff. Whether an answer without
/// a factor is one that the certificate would not call stationary.
static qpc_status is_refused(qpc_world *w, const qpc_qp *qp, const double *dv, bool *ret, qpc_error *err) {
    bool stationary = false;
    qpc_qp rows = *qp;
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    double *load = qpc_arena_array(&w->arena, (size_t)qp->n, sizeof *load);
    if (load == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d unknowns", qp->n);
    qpc_rub_load(&w->rub, qp->n, w->b, load);
    rows.b = load;
    qpc_status st = qpc_is_stationary(&rows, dv, w->rows.lambda, QPC_STAT_TOLERANCE, &w->arena, &stationary, err);
    *ret = st == QPC_OK && !stationary;
    qpc_arena_rewind(&w->arena, mark);
    return st;
}

/// The rows, with friction where there is some; again by a factor of K where conjugate gradients did not do, which is remembered for some steps.
static qpc_status solve_with(qpc_world *w, const qpc_trial *t, qpc_solver_id id, const qpc_qp *qp, const qpc_friction *friction,
                             const qpc_solver_options *options, double *dv, qpc_solver_report *report, bool *ret_out, qpc_error *err) {
    for (;;) {
        bool refused = false, first = w->sys.blocks != NULL && w->factor_first > 0;
        qpc_status st = first ? qpc_linsys_ensure(&w->sys, err) : QPC_OK;
        bool by_factor = first || w->sys.factored || w->sys.blocks == NULL; // a factor that there is not is the last word as well
        if (st == QPC_OK && friction->count > 0) st = solve_friction(w, id, qp, friction, options, t->loose, dv, report, ret_out, err);
        else if (st == QPC_OK) st = solve_rows(w, id, qp, options, dv, report, ret_out, err);
        if (by_factor) return st;
        if (st == QPC_ERR_NUMERIC) refused = true; // not positive definite to single precision, it may be
        else if (st != QPC_OK || t->loose || *ret_out || report->outcome != QPC_OUTCOME_OPTIMAL) return st;
        else st = is_refused(w, qp, dv, &refused, err);
        if (st != QPC_ERR_NUMERIC && (st != QPC_OK || !refused)) return st;
        w->factor_first = FACTOR_FIRST;
    }
}

/// Whether a row asks for what no free node can give: between things that are driven.
static bool asks_of_nobody(const qpc_qp *qp, double tolerance) {
    for (int32_t i = 0; i < qp->m; i++)
        if (qp->row_start[i] == qp->row_start[i + 1] && (qp->c[i] < -tolerance || (qp->equality[i] && qp->c[i] > tolerance))) return true;
    return false;
}

/// Multipliers of rows that contradict grow without bound along what J' takes to zero, and nothing takes that back: the forces of joints
/// begin anew where they gave way.
static void forget_joint_forces(qpc_rows *rows) {
    for (int32_t i = 0; i < rows->m; i++)
        if (rows->kind[i] == QPC_ROW_JOINT) rows->lambda[i] = 0.0;
}

/// Rows that gave way, with the friction of those that have nothing to do with it.
static qpc_status solve_relaxed(qpc_world *w, const qpc_trial *t, qpc_solver_id id, const qpc_qp *qp, const qpc_friction *friction,
                                const qpc_solver_options *options, double *dv, qpc_solver_report *report, bool *ret_out, qpc_error *err) {
    forget_joint_forces(&w->rows);
    if (friction->count == 0) return solve_rows(w, id, qp, options, dv, report, ret_out, err);
    return solve_with(w, t, id, qp, friction, options, dv, report, ret_out, err);
}

/// Rows that contradict and cannot be told from a bold attempt's any more are relaxed: strain limits first (where they do not
/// give way as springs, giveway.c), then contacts.
static qpc_status relax(qpc_world *w, qpc_trial *t, qpc_solver_id id, const qpc_qp *qp, const qpc_friction *friction,
                        const qpc_solver_options *options, double *dv, qpc_solver_report *report, bool *ret_out, qpc_error *err) {
    qpc_status st = QPC_OK;
    // First nothing is pushed out any more: but for what is driven, standing still would do then.
    for (int32_t level = 2; level >= 1 && st == QPC_OK && report->outcome == QPC_OUTCOME_INFEASIBLE && !t->exhausted; level--) {
        if (!qpc_step_drop_pushes(w, level, &t->relaxation)) continue;
        t->relaxed = true;
        st = solve_relaxed(w, t, id, qp, friction, options, dv, report, ret_out, err);
        note_budget(w, t);
    }
    for (int32_t level = 2; level >= 1 && st == QPC_OK && report->outcome == QPC_OUTCOME_INFEASIBLE && !t->exhausted; level--) {
        double largest = 0.0;
        if (++t->relaxations > MOST_RELAXATIONS || w->solver.budget > 0) { // passes that go on contradicting: acceptance decides; nor in bounded time
            t->last_pass = true;
            break;
        }
        st = qpc_relax_within(qp, level, RELAX_STEPS, options->beyond, &w->arena, w->rows.c, &largest, err);
        if (st == QPC_ERR_STATE) { // these rows alone cannot give way
            st = QPC_OK;
            continue;
        }
        if (st != QPC_OK) break;
        t->relaxed = true;
        t->relaxation = fmax(t->relaxation, largest);
        st = solve_relaxed(w, t, id, qp, friction, options, dv, report, ret_out, err);
    }
    return st;
}

/// Solve the QP of the rows into dv (multipliers in rows.lambda), from a guess of it if start is not NULL. Rows that contradict end a bold
/// attempt (t->contradiction), and a cautious one if limits may give way (t->giving); else they are relaxed.
qpc_status qpc_step_solve(qpc_world *w, qpc_trial *t, const double *start, double *dv, qpc_error *err) {
    int64_t since = qpc_clock_ns(CLOCK_MONOTONIC);
    qpc_qp qp = qpc_rows_qp(&w->rows, &w->sys, w->b);
    qpc_solver_report report;
    qpc_solver_id id = t->gentle ? QPC_SOLVER_AUTO : w->solver.id;
    qpc_solver_options options = options_of(w, t, id, start);
    qpc_friction friction = {0};
    w->rub.beta.count = w->rub.row.count = 0;
    w->rub.unmet = false;
    bool out = qpc_step_budget_left(w) == 0;
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    qpc_status st = qpc_step_ask_nobody(w, t, options.residual_tolerance, err);
    bool nobody = asks_of_nobody(&qp, options.residual_tolerance), smooth = t->gentle || w->rub.contradicts || nobody;
    // Rows that contradict know no law, nor do those of bodies that are joined to them.
    if (st == QPC_OK && !t->gentle && !nobody) st = qpc_rub_make_lawful(w, t->h, &friction, err);
    if (st != QPC_OK) return st;
    bool projects = w->solver.position_based && !t->gentle; // the last attempt is not for comparing solvers
    if (!out && projects)
        st = solve_positions(w, t, &friction, dv, &report, err);
    else if (!out)
        st = solve_with(w, t, id, &qp, &friction, &options, dv, &report, &out, err);
    if (st == QPC_OK && out) st = take_as_it_is(w, dv, &report, err);
    if (st == QPC_OK && report.outcome == QPC_OUTCOME_INFEASIBLE) st = qpc_rub_find_contradiction(w, &report, err);
    note_budget(w, t);
    if (st == QPC_OK && report.outcome == QPC_OUTCOME_INFEASIBLE && (t->cautious || t->exhausted))
        st = qpc_step_keep_conflict(w, &report, err);
    if (st == QPC_OK && report.outcome == QPC_OUTCOME_INFEASIBLE && !t->exhausted) {
        t->pressed = t->pressing && t->cautious && qpc_press_is_in_proof(w, &report);
        t->giving = t->cautious && !t->pressed && qpc_step_conflict_gives(w, &report);
        t->contradiction = !t->cautious || t->pressed || t->giving;
    }
    if (st == QPC_OK && t->contradiction) {
        if (t->pressed || t->giving) qpc_rub_forget_contradiction(&w->rub); // what comes next is a problem without it
        qpc_arena_rewind(&w->arena, mark);
        qpc_lap(&since, &w->report->ns_solve);
        return QPC_OK;
    }
    if (st == QPC_OK && report.outcome == QPC_OUTCOME_INFEASIBLE) t->walls = contacts_alone(w, &report);
    // Hits of a motion whose rows gave way contradict once more: it is between two walls. It stands as it was.
    if (st == QPC_OK && report.outcome == QPC_OUTCOME_INFEASIBLE && t->walls && t->relaxed && t->passes > 0 && !t->exhausted) {
        t->squeezed = t->last_pass = true;
        qpc_arena_rewind(&w->arena, mark);
        qpc_lap(&since, &w->report->ns_solve);
        return QPC_OK;
    }
    if (st == QPC_OK && report.outcome == QPC_OUTCOME_INFEASIBLE && !t->exhausted) {
        smooth = true;
        friction = (qpc_friction){0};
        if (!t->gentle && !projects) st = qpc_rub_make_lawful(w, t->h, &friction, err);
        if (friction.count == 0) qpc_step_drop_friction(w);
        if (st == QPC_OK) st = relax(w, t, id, &qp, &friction, &options, dv, &report, &out, err);
    }
    if (st == QPC_OK && !projects) st = qpc_momentum_balance(w, dv, err);
    qpc_arena_rewind(&w->arena, mark);
    if (st == QPC_ERR_NUMERIC) {
        give_up(w, t, dv);
        qpc_lap(&since, &w->report->ns_solve);
        return QPC_OK;
    }
    if (st != QPC_OK) return st;
    if (smooth && !qpc_rub_is_whole(w)) w->rub.unmet = true;
    t->stalled = report.outcome == QPC_OUTCOME_STALLED;
    // A solver that does not get there (named alone, it has no fallback) is not asked for ever.
    if (!projects && (t->stalled || report.outcome == QPC_OUTCOME_ITERATION_LIMIT) && ++t->unsolved >= MOST_UNSOLVED) t->last_pass = true;
    // Nor are hits collected of an answer that is none, between rows that left each other no more than a hair.
    if (t->relaxed && report.outcome != QPC_OUTCOME_OPTIMAL) t->last_pass = true;
    note_budget(w, t);
    t->limited = report.outcome == QPC_OUTCOME_ITERATION_LIMIT || report.outcome == QPC_OUTCOME_INFEASIBLE;
    if (!leads_somewhere(w, t, dv)) give_up(w, t, dv);
    qpc_lap(&since, &w->report->ns_solve);
    if (t->broken) return QPC_OK;
    if (w->rubs && (st = qpc_step_keep_friction(w, err)) != QPC_OK) return st;
    return qpc_step_keep_warm(w, t->h, err);
}
