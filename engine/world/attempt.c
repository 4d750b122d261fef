/// One try of a motion of length h:
///
///   predict   K, b and rows where the present velocity leads to, QP
///   correct   Newton on the incremental potential with re-detected rows
///   collide   passes of continuous detection, each hit a row
///   then the energy test (tightened correction if it fails) and the acceptance test
///
/// The paper's "goto 2" is two loops here, the Newton correction and the passes, kept apart.
#include "engine/world/attempt.h"
#include "engine/world/elastic.h"
#include "engine/world/integrate.h"
#include "engine/world/joints.h"
#include "engine/world/loads.h"
#include "engine/world/obstacles.h"

#include <string.h>

static const double NEWTON_TOLERANCE = 1e-2; // of (smallest separation) / h; see docs/architecture.md
static const double ROUND_TOLERANCE = 0.1;   // of that, where something may rub on what is round (T50)
static const double FREE_TOLERANCE = 1e-4;   // of that, where the answer is to be of second order
static const double STIFF_TOLERANCE = 1e-5;  // of (smallest separation) / h, where K has the curvature of joints
static const double SETTLING = 0.7;          // changes of dv that fall faster are left alone
static const double CHORD = 0.25;            // of the first change, the most that K of the prediction may leave to the second,
static const double CHORD_FINE = 0.05;       // unless that is so small a part of the tolerance
static const double LEAST_DAMPED = 0.25;     // part of a Newton step that is always gone
static const double RELAXED_APPROACH = 1e-3; // of the least gap in a step, below the acceptance distance
static const double SLOWED = 0.8;            // of the speed at which pushing out would just do what it may
static const double MOST_SWERVE = 20.0;      // separations around that are looked at
enum {
    MAX_ROUNDS = 3,          // corrections that the energy test asks for
    MAX_BACKTRACKS = 6,
    GENTLE_PASSES = 12,      // of a gentle attempt, whatever the scene says
    PATIENT_NEWTON = 40,     // of a patient attempt
    MOST_SLOWED = 3,         // attempts that push out more slowly
    LOST_NEWTON = 3,         // corrections from a prediction without its contacts, before it is tried in halves
    GIVING_NEWTON = 3,       // corrections where limits give way, whatever the scene says
    NEEDED_NEWTON = 10,      // the same where energy is gained, or the first QP says little (T45)
};

/// Newton corrections of an attempt. Limits that give way are springs a hundred times as stiff that begin at their length: one
/// linear solve steps far over that, and what it stores comes back as speed. So does what the first QP does not know of (T45).
static int32_t corrections(const qpc_world *w, const qpc_trial *t) {
    if (t->downhill) return 0;
    if (t->patient) return PATIENT_NEWTON;
    int32_t least = t->rough || t->gaining || t->divided ? NEEDED_NEWTON : w->springs.giving != NULL ? GIVING_NEWTON : 0;
    return w->solver.newton < least ? least : w->solver.newton;
}

void qpc_step_place_end(qpc_world *w, double h, const double *dv) {
    qpc_integrate_place(w, h, dv);
    qpc_rigid_place_ends(w, h, dv);
}

/// The incremental potential 1/2 dv'M dv + U(x + h (v + dv)), whose minimum is the implicit step.
static double incremental_potential(qpc_world *w, double h, const double *dv) {
    if (w->load_count > 0) qpc_step_place_end(w, h, dv); // springs between points of rigid bodies
    else qpc_integrate_place(w, h, dv);
    double phi = qpc_rigid_potential(w, h, dv) + qpc_elastic_energy(w, w->x1, true) + qpc_loads_potential(w, h, dv);
    for (int32_t i = 0; i < w->free_count; i++) {
        qpc_vec3 x1 = v3_load(w->x1 + 3 * i), force = v3_load(w->force + 3 * i);
        phi += 0.5 * w->mass[i] * v3_norm2(v3_load(dv + 3 * i));
        phi -= v3_dot(v3_madd(force, w->mass[i], w->gravity), v3_sub(x1, v3_load(w->x + 3 * i)));
    }
    return phi;
}

/// sum lambda_i viol_i of the present rows at dv: the exact penalty of the merit function.
static double row_penalty(const qpc_rows *rows, const double *dv) {
    double sum = 0.0;
    for (int32_t i = 0; i < rows->m; i++) {
        double value = -rows->c[i];
        for (int32_t k = rows->row_start[i]; k < rows->row_start[i + 1]; k++) value += rows->value[k] * dv[rows->column[k]];
        if (value > 0.0 || rows->equality[i]) sum += fabs(rows->lambda[i] * value);
    }
    return sum;
}

/// The largest change of the velocity of a point of a rigid body, from NULL: 0.
static double change_of_rigids(const qpc_world *w, const double *to, const double *from) {
    static const double zero[6];
    double change = 0.0;
    for (int32_t i = 0; i < w->rigid_count; i++) {
        const double *a = to + w->rigids[i].dof, *b = from != NULL ? from + w->rigids[i].dof : zero;
        change = fmax(change, qpc_rigid_speed(&w->rigids[i], v3_sub(v3_load(a), v3_load(b)), v3_sub(v3_load(a + 3), v3_load(b + 3))));
    }
    return change;
}

/// Move from dv towards dv_try, by the part `most` or as far below it as the merit falls. Returns the change of
/// velocities that the part `most` would be, and whether the whole way was gone. The largest one of cables; the root mean
/// square with cloth, where a few of thousands of nodes always are at an edge of something.
static double backtrack(qpc_world *w, double h, double most, bool *ret_full) {
    int32_t n = 3 * w->block_count;
    // Else there is no potential, and the energy test is the judge, or projections have done what they do.
    bool line_search = qpc_integrate_is_plain(w) && !w->solver.position_based;
    double merit = incremental_potential(w, h, w->dv) + row_penalty(&w->rows, w->dv) + qpc_rub_potential(&w->rub, w->dv);
    double scale = fabs(merit) + w->kinetic_start + w->elastic_most;
    double alpha = most;
    for (int32_t i = 0; i < MAX_BACKTRACKS; i++, alpha *= 0.5) {
        for (int32_t k = 0; k < n; k++) w->dv_best[k] = w->dv[k] + alpha * (w->dv_try[k] - w->dv[k]);
        if (alpha == 1.0) memcpy(w->dv_best, w->dv_try, (size_t)n * sizeof(double));
        if (!line_search) break;
        double tried = incremental_potential(w, h, w->dv_best) + row_penalty(&w->rows, w->dv_best) + qpc_rub_potential(&w->rub, w->dv_best);
        if (tried <= merit + 1e-12 * scale) break;
    }
    double change = 0.0;
    int32_t nodes = 3 * w->free_count;
    if (qpc_has_cloth(w)) {
        for (int32_t k = 0; k < nodes; k++) change += (w->dv_best[k] - w->dv[k]) * (w->dv_best[k] - w->dv[k]);
        change = sqrt(change / nodes);
    } else
        for (int32_t k = 0; k < nodes; k += 3) change = fmax(change, v3_norm(v3_sub(v3_load(w->dv_best + k), v3_load(w->dv + k))));
    change = fmax(change, change_of_rigids(w, w->dv_best, w->dv));
    memcpy(w->dv, w->dv_best, (size_t)n * sizeof(double));
    *ret_full = alpha == 1.0;
    return change;
}

static double size_of(const double *dv, int32_t n) {
    double sum = 0.0;
    for (int32_t k = 0; k < n; k++) sum += dv[k] * dv[k];
    return sqrt(sum / n);
}

// ---- the parts of an attempt ----

/// What has a row ends where rows say (integrate.h): K, b and x1 anew if there is such a node more.
static void keep_to_rows(qpc_world *w, const qpc_trial *t) {
    if (!qpc_integrate_by_rows(w)) return;
    qpc_step_place_end(w, t->h, w->dv);
    if (qpc_is_implicit(w)) qpc_step_assemble(w, t->h, w->x1, w->dv, 1.0);
}

/// The rows of an attempt, linearised at its present end x1 (strain limits: at x before the first QP
/// of a cautious one). Contacts: those re-detected so far, or when cautious those at the start; hits.
static qpc_status make_rows(qpc_world *w, qpc_trial *t, const double *x_strain, qpc_error *err) {
    int64_t since = qpc_clock_ns(CLOCK_MONOTONIC);
    qpc_step_clear_rows(w);
    qpc_rigid_linearise(w, t->h);
    qpc_status st = qpc_step_add_strain_rows(w, t, x_strain, err);
    if (st == QPC_OK) st = qpc_joints_add_rows(w, t, x_strain, err);
    if (st == QPC_OK && !t->cautious) st = qpc_step_merge_predicted(w, err);
    if (st == QPC_OK) st = t->cautious ? qpc_step_add_near_rows(w, t, err) : qpc_step_add_predicted_rows(w, t->h, err);
    for (int32_t i = 0; i < w->impacts.count && st == QPC_OK; i++) st = qpc_step_add_impact_row(w, t, &w->impacts.data[i], err);
    if (st == QPC_OK) st = qpc_step_start_warm(w, t->h, err);
    qpc_lap(&since, &w->report->ns_rows);
    keep_to_rows(w, t);
    return st;
}

static qpc_status detect_near(qpc_world *w, const double *x, qpc_contacts *ret, qpc_error *err) {
    int64_t since = qpc_clock_ns(CLOCK_MONOTONIC);
    qpc_status st = qpc_detect_proximity(w->detector, x, w->solver.reach, ret, err);
    qpc_lap(&since, &w->report->ns_detect);
    return st;
}

/// A run begins without a motion before: what is near counts as pushed.
static qpc_status note_start(qpc_world *w, qpc_error *err) {
    if (w->step > 0 || w->any_touched) return QPC_OK;
    qpc_status st = w->near_valid ? QPC_OK : detect_near(w, w->x, &w->near, err);
    w->near_valid = st == QPC_OK;
    if (st == QPC_OK) qpc_lost_start(w);
    return st;
}

/// The first QP. Bold: K, b and rows at the end x + h v that the present velocity would lead to, where a
/// sliding cable is next to the right features already. Cautious, when such rows proved to exclude each other
/// (a fast motion ends inside something): at x, as the paper has it; what comes after is found by continuous detection.
static qpc_status predict(qpc_world *w, qpc_trial *t, qpc_error *err) {
    qpc_status st;
    // Cloth goes on as it did: of its many rows the motion before tells more than K^-1 b.
    const double *before = qpc_has_cloth(w) && !w->rubs && w->step > 0 && !t->cautious ? w->dv_try : NULL;
    if (before != NULL) memcpy(w->dv_try, w->dv, 3 * (size_t)w->block_count * sizeof(double));
    if (w->any_limit) memset(w->limit_on, 0, (size_t)w->springs.count);
    memset(w->dv, 0, 3 * (size_t)w->block_count * sizeof(double));
    if (t->cautious) {
        qpc_rigid_place_ends(w, t->h, w->dv); // what rows are linearised at
        st = w->near_valid ? QPC_OK : detect_near(w, w->x, &w->near, err);
        w->near_valid = st == QPC_OK;
        if (st == QPC_OK) qpc_step_assemble(w, t->h, w->x, w->v, -1.0);
    } else {
        st = t->watched ? note_start(w, err) : QPC_OK;
        qpc_step_place_end(w, t->h, w->dv);
        if (st == QPC_OK) st = detect_near(w, w->x1, &w->probe, err);
        if (st == QPC_OK) t->lost = t->watched && qpc_lost_look(w);
        if (st == QPC_OK) qpc_step_assemble(w, t->h, w->x1, w->dv, 1.0);
    }
    if (st == QPC_OK) st = make_rows(w, t, t->cautious ? w->x : w->x1, err);
    // Nothing but rigid bodies: M stands, and rows are all that can change.
    bool bodies = w->free_count == 0 && w->rigid_count > 0 && w->load_count == 0;
    t->loose = corrections(w, t) > 0 && qpc_is_implicit(w) && !bodies; // a QP follows
    if (st == QPC_OK) st = qpc_step_solve(w, t, before, w->dv, err);
    t->loose = false;
    // Where it led is where rows were made, or there are none.
    t->settled = bodies && !t->cautious && w->joint_count == 0 && st == QPC_OK && !t->contradiction &&
                 (w->rows.m == 0 || change_of_rigids(w, w->dv, NULL) <= NEWTON_TOLERANCE * w->min_separation / t->h);
    if (st == QPC_OK) qpc_step_place_end(w, t->h, w->dv);
    if (st == QPC_OK && t->watched && !t->cautious && !t->contradiction) qpc_lost_compare(w, t);
    return st;
}

/// Corrections that do not settle (change: the last one's, over its tolerance). Where the first QP told little, or energy was
/// gained, all are waited for: most do (a box that falls on a cable).
static bool is_too_long(const qpc_world *w, const qpc_trial *t, double change) {
    if (!t->divisible || t->exhausted || change <= 1.0) return false;
    bool astray = t->overshoots || t->rough || t->gaining;
    return (t->lost && t->newton >= LOST_NEWTON) || (astray && t->newton >= corrections(w, t));
}

/// Whether the QP's answer in dv_try gains nothing. With cloth a correction for a gain is for no more (T59): of thousands of nodes some always
/// change their facets, and dv never settles to a hundredth of what it does otherwise.
static bool undoes_gain(qpc_world *w, qpc_trial *t) {
    double *dv = w->dv;
    w->dv = w->dv_try;
    qpc_step_place_end(w, t->h, w->dv);
    qpc_trial_test_energy(w, t);
    w->dv = dv;
    return !qpc_trial_gains(w, t);
}

/// Newton on the incremental potential: K and rows anew at the predicted end, until dv settles. Where rows
/// change from iterate to iterate (strain limits, folds) it can go back and forth between two points, each better
/// than the other by its own rows: then steps are damped, and the QP's answer is taken once it settles. With cloth the
/// first round ends there: what is left is nodes that change their facets, and if it matters the energy test asks again.
/// There the QPs on the way are solved loosely, and the last one again in full from where it stands, with the rows that its motion hits.
static qpc_status correct(qpc_world *w, qpc_trial *t, double tolerance, int32_t round, qpc_error *err) {
    if (!qpc_is_implicit(w)) return QPC_OK;
    bool full = true, again = round > 0;
    double change = HUGE_VAL, most = 1.0;
    bool tight = t->newton > 0 || corrections(w, t) == 0 || t->exhausted || t->settled; // the answer at hand
    if (t->settled && !again) return QPC_OK;
    bool undoing = again && round < MAX_ROUNDS - 1 && qpc_has_cloth(w); // if full solves and hits bring it back twice, to the end
    // Of tetrahedra alone K of the prediction serves once more, and as a rule that is the answer.
    bool chord = t->newton == 0 && !t->cautious && qpc_step_may_keep_matrix(w), astray = false, stiff = false;
    double settled = STIFF_TOLERANCE * w->min_separation / t->h;
    while (t->newton < corrections(w, t) && (change > (stiff ? settled : tolerance) || astray || qpc_joints_open(w, t)) && !t->contradiction && !t->last_pass) {
        double before = chord ? size_of(w->dv, 3 * w->free_count) : 0.0;
        t->newton++;
        qpc_status st = t->cautious ? QPC_OK : detect_near(w, w->x1, &w->probe, err);
        if (st == QPC_OK && chord) qpc_step_assemble_forces(w, t->h, w->x1, w->dv);
        else if (st == QPC_OK) qpc_step_assemble(w, t->h, w->x1, w->dv, 1.0);
        if (st == QPC_OK) st = qpc_joints_stiffen(w, t->h, &stiff, err);
        if (st == QPC_OK) st = make_rows(w, t, w->x1, err);
        t->loose = qpc_has_cloth(w) && !chord;
        if (st == QPC_OK) st = qpc_step_solve(w, t, w->dv, w->dv_try, err);
        tight = !t->loose;
        t->loose = false;
        if (st != QPC_OK || t->contradiction) return st;
        if (undoing && undoes_gain(w, t)) {
            full = false;
            break;
        }
        double last = change;
        change = backtrack(w, t->h, most, &full) / most;
        astray = chord && change > fmax(CHORD * before, CHORD_FINE * tolerance);
        chord = false;
        if (is_too_long(w, t, change / tolerance)) {
            t->too_long = true;
            return QPC_OK;
        }
        if (change > SETTLING * last) {
            if (qpc_has_cloth(w) && !again) {
                full = false;
                break;
            }
            most = fmax(LEAST_DAMPED, 0.5 * most);
        }
        qpc_step_place_end(w, t->h, w->dv);
    }
    if (full && tight) return QPC_OK;
    // The last step was shortened: the answer is the QP's, the energy test judges it.
    if (!full) memcpy(w->dv, w->dv_try, (size_t)w->block_count * 3 * sizeof(double));
    t->unfinished = !tight && !t->exhausted;
    qpc_step_place_end(w, t->h, w->dv);
    return QPC_OK;
}

/// The QP that was solved loosely, in full from where it stands.
static qpc_status finish(qpc_world *w, qpc_trial *t, qpc_error *err) {
    if (!t->unfinished) return QPC_OK;
    t->unfinished = false;
    qpc_status st = qpc_step_solve(w, t, w->dv, w->dv, err);
    if (st == QPC_OK && !t->contradiction) qpc_step_place_end(w, t->h, w->dv);
    return st;
}

static bool same_row(const qpc_contact *a, const qpc_contact *b) {
    if (a->key != b->key || v3_norm2(v3_sub(a->n, b->n)) > 1e-16) return false;
    for (int k = 0; k < QPC_CONTACT_NODES; k++)
        if (a->node[k] != b->node[k] || fabs(a->weight[k] - b->weight[k]) > 1e-8) return false;
    return true;
}

static bool is_of_rigid(const qpc_world *w, const qpc_contact *c) {
    return w->bodies[c->surface[0]].motion == QPC_RIGID || w->bodies[c->surface[1]].motion == QPC_RIGID;
}

qpc_status qpc_step_add_hits(qpc_world *w, qpc_trial *t, int32_t *ret_added, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    int32_t before = w->impacts.count;
    qpc_keyed *list = qpc_arena_array(&w->arena, 2 * (size_t)before, sizeof *list);
    if (list == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for impacts");
    for (int32_t i = 0; i < before; i++) list[i] = (qpc_keyed){w->impacts.data[i].key, i};
    list = qpc_keyed_sort(list, list + before, before);
    qpc_status st = QPC_OK;
    for (int32_t i = 0, from = 0; i < w->probe.count && st == QPC_OK; i++) { // both by key; a key is hit once at a time
        const qpc_contact *hit = &w->probe.data[i];
        bool known = qpc_obstacle_responds(w, hit);
        while (from < before && list[from].key < hit->key) from++;
        for (int32_t k = from; k < before && list[k].key == hit->key && !known; k++)
            known = same_row(hit, &w->impacts.data[list[k].item]);
        if (is_of_rigid(w, hit) && qpc_rigid_is_beside(w, hit)) continue; // whether it still is one, acceptance decides
        if (is_of_rigid(w, hit)) { // along arcs: the same row says more where it is linearised anew
            t->renew = true;
            if (known) {
                ++*ret_added;
                continue;
            }
        }
        if (known) continue;
        if (!qpc_array_push(&w->impacts, *hit)) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for impacts");
        st = qpc_step_add_impact_row(w, t, hit, err);
        ++*ret_added;
    }
    qpc_arena_rewind(&w->arena, mark);
    return st;
}

/// Cutting planes for springs that the linearised rows let past their limit.
static qpc_status add_cuts(qpc_world *w, qpc_trial *t, int32_t *ret_added, qpc_error *err) {
    if (!w->any_limit || t->relaxed) return QPC_OK; // limits that gave way once are not asked for again
    for (int32_t s = 0; s < w->springs.count; s++) {
        qpc_vec3 n;
        if (w->giving[s] != 0) continue;
        double length = qpc_spring_direction(w, s, w->x1, &n);
        bool above = length > w->spring_max[s] * (1.0 + QPC_LIMIT_SLACK), below = length < w->spring_min[s] * (1.0 - QPC_LIMIT_SLACK);
        if (!above && !below) continue;
        qpc_vec3 at;
        double before = qpc_spring_direction(w, s, w->x, &at); // what was past its limit may come back more slowly
        if (w->integrator == QPC_IMPLICIT_EULER && (above ? length <= before : length >= before)) continue;
        w->limit_on[s] |= above ? 1U : 2U;
        qpc_status st = qpc_step_add_strain_row(w, t, s, n, above, err);
        if (st != QPC_OK) return st;
        (*ret_added)++;
    }
    return QPC_OK;
}

/// A strain limit carries a force: where rows leave no room it gives way first.
static bool limits_hold(const qpc_world *w) {
    for (int32_t i = 0; i < w->rows.m && w->any_limit; i++)
        if (qpc_row_limits_strain(w->rows.kind[i]) && w->rows.lambda[i] > 0.0) return true;
    return false;
}

/// The QP with hits in it. If they contradict once more, or nearly do, so that the answer runs away, the motion and its
/// multipliers stay what they were: hits of that would be rows that nothing needs.
static qpc_status solve_hits(qpc_world *w, qpc_trial *t, qpc_error *err) {
    size_t n = 3 * (size_t)w->block_count * sizeof(double), m = (size_t)w->rows.m * sizeof(double);
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    double *lambda = qpc_arena_alloc(&w->arena, m);
    if (lambda == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d multipliers", w->rows.m);
    memcpy(lambda, w->rows.lambda, m);
    memcpy(w->dv_try, w->dv, n);
    t->hits = true;
    qpc_status st = qpc_step_solve(w, t, w->dv_try, w->dv, err);
    t->hits = false;
    if (st == QPC_OK && !t->contradiction && !t->squeezed && !t->exhausted && !limits_hold(w)) {
        qpc_step_place_end(w, t->h, w->dv);
        qpc_trial_test_energy(w, t);
        if (qpc_trial_is_absurd(w, t) || qpc_trial_runs_away(w, t, w->dv_try)) t->squeezed = t->last_pass = true;
    }
    if (st == QPC_OK && t->squeezed) {
        memcpy(w->dv, w->dv_try, n);
        memcpy(w->rows.lambda, lambda, m);
    }
    qpc_arena_rewind(&w->arena, mark);
    return st;
}

qpc_status qpc_step_renew_rows(qpc_world *w, qpc_trial *t, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    w->probe.count = 0; // its hits are in the list of impacts
    t->renew = false;
    qpc_status st = make_rows(w, t, w->x1, err);
    qpc_arena_rewind(&w->arena, mark);
    return st;
}

/// Continuous detection of x -> x1: append what is hit, solve again, until nothing is new. *ret_clean: the
/// last detection found nothing at all. A motion that is not solved in full yet is, with its hits if there are any.
static qpc_status collide(qpc_world *w, qpc_trial *t, bool *ret_clean, qpc_error *err) {
    *ret_clean = false;
    int32_t passes = t->gentle && w->solver.passes < GENTLE_PASSES ? GENTLE_PASSES : w->solver.passes;
    for (;;) {
        int64_t since = qpc_clock_ns(CLOCK_MONOTONIC);
        int32_t added = 0;
        bool last = t->passes >= passes || t->last_pass;
        qpc_status st = last || w->responds ? finish(w, t, err) : QPC_OK;
        if (t->contradiction) return st;
        if (st == QPC_OK) st = qpc_obstacles_respond(w, t, err);
        if (st == QPC_OK) st = qpc_motion_test(w, QPC_PASS_FACTOR, &t->near, err);
        qpc_lap(&since, &w->report->ns_detect);
        if (st != QPC_OK) return st;
        *ret_clean = w->probe.count == 0;
        if (last) return QPC_OK;
        if ((st = qpc_step_add_hits(w, t, &added, err)) != QPC_OK) return st;
        if ((st = add_cuts(w, t, &added, err)) != QPC_OK) return st;
        qpc_lap(&since, &w->report->ns_rows);
        if (added == 0 && !t->unfinished) return QPC_OK;
        if (added == 0) {
            if ((st = finish(w, t, err)) != QPC_OK || t->contradiction) return st;
            continue;
        }
        t->unfinished = false;
        keep_to_rows(w, t);
        if (t->renew && (st = qpc_step_renew_rows(w, t, err)) != QPC_OK) return st;
        t->passes++;
        if ((st = solve_hits(w, t, err)) != QPC_OK || t->contradiction) return st;
        qpc_step_place_end(w, t->h, w->dv);
    }
}

/// The acceptance distance follows pairs that are closer than 0.3 of their separation. Relaxed rows must not make use of
/// that, or orders that contradict would squeeze a contact a little further in every step.
static qpc_status accept_relaxed(qpc_world *w, qpc_trial *t, qpc_error *err) {
    double before, after;
    qpc_status st = qpc_detect_minimum_gap(w->detector, w->x1, &after, err);
    if (st != QPC_OK || after >= QPC_ACCEPT_FACTOR) return st;
    st = qpc_detect_minimum_gap(w->detector, w->x, &before, err);
    t->impact = st == QPC_OK && after < before * (1.0 - RELAXED_APPROACH * t->h / w->dt);
    return st;
}

/// The acceptance test of the motion x -> x1: nothing may come closer than the acceptance distance.
static qpc_status accept(qpc_world *w, qpc_trial *t, bool clean, qpc_error *err) {
    t->absurd = t->impact = t->broken || qpc_trial_is_absurd(w, t);
    if (clean && !t->relaxed) return QPC_OK; // nothing came within 0.95 of a separation, or 0.9 of a start distance
    int64_t since = qpc_clock_ns(CLOCK_MONOTONIC);
    qpc_status st = QPC_OK;
    if (!clean) st = qpc_motion_test(w, QPC_ACCEPT_FACTOR, NULL, err);
    if (st == QPC_OK && w->probe.count == 0 && !t->absurd && t->relaxed) st = accept_relaxed(w, t, err);
    t->impact = t->impact || w->probe.count > 0;
    double gap = QPC_PASS_FACTOR;
    if (st == QPC_OK && !t->impact && !t->relaxed) st = qpc_motion_find_end(w, &gap, &t->tight, err);
    qpc_lap(&since, &w->report->ns_detect);
    if (st != QPC_OK) return st;
    if (t->squeezed && !t->impact) st = qpc_motion_test(w, QPC_PASS_FACTOR, NULL, err); // what it is squeezed by
    return st;
}

/// Vertices of rigid bodies go along arcs, and what was tested are their chords. Both bodies of a pair swerve by less than
/// the distance that the chords keep, or nothing is that near (TR20): else the motion is one for smaller steps.
static qpc_status test_swerve(qpc_world *w, qpc_trial *t, bool clean, qpc_error *err) {
    double swerve = w->rigid_count > 0 ? qpc_rigid_swerve(w, t->h) : 0.0;
    t->swerves = false;
    if (t->impact || t->squeezed || swerve <= (clean ? QPC_PASS_FACTOR : QPC_ACCEPT_FACTOR)) return QPC_OK;
    t->swerves = swerve > MOST_SWERVE; // nobody looks so far around
    if (t->swerves) return QPC_OK;
    int64_t since = qpc_clock_ns(CLOCK_MONOTONIC);
    qpc_status st = qpc_detect_motion(w->detector, w->x, w->x1, swerve, &w->probe, err);
    for (int32_t i = 0; i < w->probe.count && st == QPC_OK; i++) t->swerves = t->swerves || is_of_rigid(w, &w->probe.data[i]);
    w->probe.count = 0;
    qpc_lap(&since, &w->report->ns_detect);
    return st;
}

/// What was hit may have made of a first answer that needed no corrections one that does.
static bool turns_rough(const qpc_world *w, qpc_trial *t) {
    if (!t->watched || t->cautious || t->newton > 0 || t->passes == 0 || t->exhausted) return false;
    qpc_lost_compare(w, t);
    return t->rough;
}

/// Change of dv, m/s, below which Newton stops. On what has no facets each position has a normal of its own: what is left of the
/// iteration shakes light nodes, and what is shaken creeps.
static double newton_tolerance(const qpc_world *w, double h) {
    bool round = false;
    for (int32_t i = 0; i < w->body_count && w->rubs; i++) {
        const qpc_body *body = &w->bodies[i];
        round = round || body->core_count > 0 || (body->obstacle && body->shape.kind != QPC_IMPLICIT_PLANE);
    }
    return (round ? ROUND_TOLERANCE : 1.0) * NEWTON_TOLERANCE * w->min_separation / h;
}

static qpc_status try_motion(qpc_world *w, qpc_trial *t, qpc_error *err) {
    double tolerance = newton_tolerance(w, t->h);
    bool clean = false;
    w->impacts.count = 0;
    w->predicted.count = 0;
    qpc_motion_prepare(w, t->h, t->left);
    qpc_status st = qpc_integrate_begin(w, t->h, t->cautious, err);
    if (st == QPC_OK) st = predict(w, t, err);
    if (!qpc_integrate_is_plain(w)) tolerance *= FREE_TOLERANCE;
    for (int32_t round = 0; st == QPC_OK && !t->contradiction && round < MAX_ROUNDS; round++) {
        st = correct(w, t, tolerance, round, err);
        if (t->too_long) return st;
        if (st == QPC_OK && !t->contradiction) st = collide(w, t, &clean, err);
        if (st != QPC_OK || t->contradiction) return st;
        int64_t since = qpc_clock_ns(CLOCK_MONOTONIC);
        qpc_trial_test_energy(w, t);
        qpc_lap(&since, &w->report->ns_certify);
        // A gain may be a Newton iteration that stopped early: tighten before the step is halved.
        bool gains = qpc_trial_gains(w, t);
        if (!gains && !turns_rough(w, t)) break;
        if ((t->newton >= corrections(w, t) || round == MAX_ROUNDS - 1) && qpc_integrate_fall_back(w)) { // by implicit Euler, then
            qpc_trial_count(w, t);
            t->newton = t->passes = round = 0;
            tolerance = newton_tolerance(w, t->h);
            qpc_step_place_end(w, t->h, w->dv);
            continue;
        }
        t->gaining = t->gaining || gains;
        if (t->newton >= corrections(w, t)) break;
        if (gains) tolerance *= 1e-2;
    }
    if (st != QPC_OK || t->contradiction) return st;
    t->giving = t->contradiction = qpc_step_overrun_gives(w, t);
    if (t->contradiction) return QPC_OK;
    t->doubtful = qpc_trial_gains(w, t) && (t->limited || t->relaxed);
    t->given = qpc_step_given(w, t->h);
    t->apart = qpc_joints_apart(w, t, &t->apart_joint);
    st = accept(w, t, clean, err);
    return st == QPC_OK ? test_swerve(w, t, clean, err) : st;
}

void qpc_trial_count(qpc_world *w, const qpc_trial *t) {
    w->report->newton += t->newton;
    w->report->passes += t->passes;
}

/// Anew, bold or cautious. An attempt that found that limits have to give way is no answer: the next one is.
static qpc_status restart(qpc_world *w, qpc_trial *t, bool cautious, bool gentle, qpc_error *err) {
    qpc_trial_count(w, t);
    *t = (qpc_trial){.h = t->h, .left = t->left, .pressing = t->pressing, .patient = t->patient, .downhill = t->downhill, .watched = t->watched, .divided = t->divided,
                     .divisible = t->divisible, .cautious = cautious, .gentle = gentle};
    return try_motion(w, t, err);
}

/// Try again with rows at the start of the motion and those of hits; what drives is let go as `hold` says.
qpc_status qpc_trial_attempt_cautiously(qpc_world *w, qpc_trial *t, bool gentle, qpc_error *err) {
    if (gentle) w->warm_count = w->kept.count = 0; // multipliers that led nowhere
    qpc_status st = restart(w, t, true, gentle, err);
    while (st == QPC_OK && t->contradiction && !t->pressed) { // each time the limits of a body more give way
        if (!gentle) st = restart(w, t, false, false, err);
        if (st == QPC_OK && (gentle || (t->contradiction && !t->giving))) st = restart(w, t, true, gentle, err);
    }
    return st;
}

qpc_status qpc_trial_attempt_slowly(qpc_world *w, qpc_trial *t, qpc_error *err) {
    for (int32_t i = 0; i < MOST_SLOWED && t->pushes && qpc_trial_gains(w, t) && !t->impact && !t->exhausted; i++) {
        w->recovery = fmin(w->recovery, t->fastest_push) * SLOWED / t->overpush; // work is in proportion, as long as forces stay
        qpc_status st = restart(w, t, false, false, err);
        if (st == QPC_OK && t->contradiction) st = qpc_trial_attempt_cautiously(w, t, false, err);
        if (st != QPC_OK) return st;
    }
    return QPC_OK;
}

qpc_status qpc_trial_attempt_patiently(qpc_world *w, qpc_trial *t, qpc_error *err) {
    t->patient = true;
    qpc_status st = restart(w, t, false, false, err);
    return st == QPC_OK && t->contradiction ? qpc_trial_attempt_cautiously(w, t, false, err) : st;
}

qpc_status qpc_trial_attempt_downhill(qpc_world *w, qpc_trial *t, qpc_error *err) {
    t->downhill = true;
    return qpc_trial_attempt_cautiously(w, t, false, err);
}

qpc_status qpc_trial_attempt(qpc_world *w, qpc_trial *t, qpc_error *err) {
    qpc_step_hold_limits(w);
    qpc_status st = try_motion(w, t, err);
    while (st == QPC_OK && t->contradiction && t->giving) st = restart(w, t, false, false, err);
    t->too_long = t->too_long || (t->contradiction && t->lost && t->divisible && !t->exhausted);
    if (st == QPC_OK && t->contradiction && !t->too_long) st = qpc_trial_attempt_cautiously(w, t, false, err);
    // Once more with nothing pushed out, by the default engine.
    if (st == QPC_OK && t->broken && !t->exhausted) st = qpc_trial_attempt_cautiously(w, t, true, err);
    return st;
}
