/// One step of the pipeline, in order (docs/architecture.md, "One step"):
///
///   advance(h)    try the motion of length h; if its energy grows or it would still collide, try two
///                 halves; at the bottom cut the motion before its first impact (failsafe.c)
///   attempt(h)    predict: K, b and rows where the present velocity leads to, QP; correct: Newton on
///                 the incremental potential with re-detected rows; collide: passes of continuous
///                 detection; energy test; accept
///
/// The paper's "goto 2" is two loops here, the Newton correction and the passes, kept apart. Runs on
/// the one thread that is in the world. Nothing is ordered by pointer, thread or clock.
#include "engine/world/world.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const double ENERGY_TOLERANCE = 1e-6; // of the energy scale
static const double STAT_TOLERANCE = 1e-6;
static const double NEWTON_TOLERANCE = 1e-2; // of (smallest separation) / h; see docs/architecture.md
static const double REDETECTED_DEPTH = 0.1;  // of the separation: cap on the push of a re-detected row
static const double ABSURD_SPEED = 10.0;     // times the fastest thing that explains it
static const double ABSURD_ENERGY = 10.0;    // kinetic and elastic, times all the energy there is
static const double STRAIN_SLACK = 1e-3;     // relative; cuts stop here
enum {
    MAX_ROUNDS = 3,          // corrections that the energy test asks for
    MAX_BACKTRACKS = 6,
    MAX_HOLDS = 2,           // to a part of the way, to nothing
    GENTLE_PASSES = 12,      // of the last attempt, whatever the scene says
    MOST_UNSOLVED = 4,       // QPs of an attempt given up at an iteration limit
    MOST_NEWTON_STEPS = 100, // of augmented-lagrangian named alone
    MOST_RELAXATIONS = 8,    // of an attempt
    RELAX_STEPS = 6,
};

static int64_t clock_ns(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/// Adds the wall time since *since to *sum and restarts it.
static void lap(int64_t *since, int64_t *sum) {
    int64_t now = clock_ns(CLOCK_MONOTONIC);
    *sum += now - *since;
    *since = now;
}

/// What an attempt has found out about itself.
typedef struct trial {
    double h, left;
    bool last_pass;                 // no further passes
    bool cautious;                  // rows at x and of hits only, see predict()
    bool gentle;                    // nothing is pushed out: rows ask for the present gap at most
    bool contradiction;             // rows of a bold attempt exclude each other
    bool relaxed, stalled, limited; // outcome of its last QP
    bool impact;                    // something would come closer than the acceptance distance
    bool absurd;                    // or the answer makes no sense
    bool doubtful;                  // energy is gained and the QP was not solved as it stood
    double toi;                     // least time of impact then
    double excess;                  // energy test: max of both figures over the scale
    double energy, kinetic, potential, elastic, work, work_pushed, elastic_most, height_low, height_high;
    double energy_scale, energy_step, energy_drift;
    int32_t newton, passes;
    int32_t held_back;              // driven bodies and pins that are not let go all of their way
    double relaxation;
    int32_t relaxations;            // rows relaxed so often
    int32_t unsolved;               // QPs that the solver gave up
} trial;

// ---- K and b ----

/// K[i][j] in the lower band, either order of i and j.
static double *band_entry(qpc_linsys *sys, int32_t i, int32_t j) {
    if (i < j) return band_entry(sys, j, i);
    return &sys->band[(int64_t)i * (sys->bandwidth + 1) + (j - i + sys->bandwidth)];
}

/// Fixed nodes: dv is known, so their columns move to the right-hand side and their rows become the
/// identity (the three equality rows of section 4.4, eliminated). Blocks are kept for the reactions.
static void eliminate_pins(qpc_world *w) {
    for (int32_t i = 0; i < w->pin_count; i++) {
        qpc_pin *pin = &w->pins[i];
        pin->b = v3_load(w->b + 3 * pin->node);
        for (int32_t side = -1; side <= 1; side++) {
            int32_t other = pin->node + side;
            double *block = pin->K + 9 * (side + 1);
            bool inside = other >= 0 && other < w->free_count;
            for (int32_t a = 0; a < 3; a++)
                for (int32_t c = 0; c < 3; c++)
                    block[3 * a + c] = inside ? *band_entry(&w->sys, 3 * pin->node + a, 3 * other + c) : 0.0;
        }
    }
    for (int32_t i = 0; i < w->pin_count; i++) {
        const qpc_pin *pin = &w->pins[i];
        double dv[3];
        for (int32_t a = 0; a < 3; a++) dv[a] = w->v_frame[3 * pin->node + a] - w->v[3 * pin->node + a];
        for (int32_t side = -1; side <= 1; side++) {
            int32_t other = pin->node + side;
            if (other < 0 || other >= w->free_count) continue;
            for (int32_t a = 0; a < 3; a++)
                for (int32_t c = 0; c < 3; c++) {
                    double *entry = band_entry(&w->sys, 3 * pin->node + a, 3 * other + c);
                    if (side != 0) w->b[3 * other + c] -= *entry * dv[a];
                    if (side != 0 || a >= c) *entry = side == 0 && a == c ? 1.0 : 0.0;
                }
        }
    }
    for (int32_t i = 0; i < w->pin_count; i++)
        for (int32_t a = 0; a < 3; a++) {
            int32_t k = 3 * w->pins[i].node + a;
            w->b[k] = w->v_frame[k] - w->v[k];
        }
}

/// K = M + h^2 H(x), b = h f(x) + sign h^2 H u, factored. At the start of a step u = v, sign = -1
/// (eq. 1 of the paper, its misprint corrected); at a Newton iterate u = dv, sign = +1.
static qpc_status assemble(qpc_world *w, double h, const double *x, const double *u, double sign, qpc_error *err) {
    int64_t t = clock_ns(CLOCK_MONOTONIC);
    int32_t n = 3 * w->free_count;
    memset(w->f, 0, (size_t)n * sizeof(double));
    qpc_springs_force(&w->springs, x, w->f);
    for (int32_t i = 0; i < w->free_count; i++) {
        double g[3] = {w->gravity.x, w->gravity.y, w->gravity.z};
        for (int32_t a = 0; a < 3; a++)
            w->b[3 * i + a] = h * (w->f[3 * i + a] + w->mass[i] * g[a] + w->force[3 * i + a]);
    }
    qpc_linsys_clear(&w->sys);
    if (w->integrator == QPC_IMPLICIT_EULER) {
        memset(w->Hu, 0, (size_t)n * sizeof(double));
        qpc_springs_stiffness(&w->springs, x, u, h, &w->sys, w->Hu);
        for (int32_t i = 0; i < n; i++) w->b[i] += sign * h * h * w->Hu[i];
    }
    for (int32_t i = 0; i < n; i++) qpc_linsys_add(&w->sys, i, i, w->mass[i / 3]);
    eliminate_pins(w);
    qpc_status st = qpc_linsys_factor(&w->sys, err);
    w->report->factorizations++;
    lap(&t, &w->report->ns_assemble);
    return st;
}

// ---- rows ----

static uint64_t strain_key(int32_t spring, bool maximum) {
    return UINT64_C(1) << 63 | (uint64_t)(maximum ? 1 : 0) << 62 | (uint64_t)(uint32_t)spring;
}

static qpc_row_frame frame_of(const qpc_world *w, double h) {
    return (qpc_row_frame){w->node_count, w->row_dof, w->x, w->v_frame, h};
}

/// Length and direction (from the second node to the first) of a spring at x.
static double spring_direction(const qpc_world *w, int32_t spring, const double *x, qpc_vec3 *ret_n) {
    int32_t i = w->spring_node[spring];
    qpc_vec3 d = v3_sub(v3_load(x + 3 * i), v3_load(x + 3 * (i + 1)));
    double length = v3_norm(d);
    *ret_n = length > 0.0 ? v3_scale(1.0 / length, d) : v3(1.0, 0.0, 0.0);
    return length;
}

static qpc_status add_strain_row(qpc_world *w, const trial *t, int32_t spring, qpc_vec3 n, bool maximum, qpc_error *err) {
    qpc_row_frame frame = frame_of(w, t->h);
    double limit = maximum ? w->spring_max[spring] : w->spring_min[spring];
    if (t->gentle) { // the present length will do
        const double *x = w->x + 3 * w->spring_node[spring];
        double length = v3_dot(n, v3_sub(v3_load(x), v3_load(x + 3)));
        limit = maximum ? fmax(limit, length) : fmin(limit, length);
    }
    return qpc_rows_add_strain(&w->rows, &frame, w->spring_node[spring], n, maximum, limit, strain_key(spring, maximum),
                               spring, err);
}

/// Strain rows: springs near a limit at x or in the motion on trial, and those that had a cut.
static qpc_status add_strain_rows(qpc_world *w, const trial *t, const double *x, qpc_error *err) {
    if (!w->any_limit) return QPC_OK;
    for (int32_t s = 0; s < w->springs.count; s++) {
        qpc_vec3 n;
        double length = spring_direction(w, s, x, &n);
        bool above = length > 0.98 * w->spring_max[s], below = length < 1.02 * w->spring_min[s];
        qpc_status st = QPC_OK;
        if (above || (w->limit_on[s] & 1U) != 0) st = add_strain_row(w, t, s, n, true, err);
        if (st == QPC_OK && (below || (w->limit_on[s] & 2U) != 0)) st = add_strain_row(w, t, s, n, false, err);
        if (st != QPC_OK) return st;
    }
    return QPC_OK;
}

static qpc_status hold(qpc_world *w, const qpc_contact *contact, qpc_error *err) {
    if (!qpc_array_push(&w->held, *contact)) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d contacts", w->held.count);
    return QPC_OK;
}

/// Gap of a contact's own points along its normal at x: n . sum w x, m.
static double gap_at(const qpc_contact *c, const double *x) {
    qpc_vec3 d = v3(0.0, 0.0, 0.0);
    for (int k = 0; k < 4; k++) d = v3_madd(d, c->weight[k], v3_load(x + 3 * c->node[k]));
    return v3_dot(c->n, d);
}

/// Merge what was re-detected at the latest iterate (probe) into what this attempt has re-detected so
/// far. Rows are never dropped between iterates, only renewed, so that the iteration cannot flip
/// between neighbouring features for ever. Both lists are sorted by key.
static qpc_status merge_predicted(qpc_world *w, qpc_error *err) {
    const qpc_contacts *a = &w->predicted, *b = &w->probe;
    if (!qpc_array_reserve(&w->merged, (int64_t)a->count + b->count))
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d contacts", a->count + b->count);
    qpc_contact *out = w->merged.data;
    int32_t i = 0, k = 0, count = 0;
    while (i < a->count || k < b->count) {
        if (k >= b->count || (i < a->count && a->data[i].key < b->data[k].key)) {
            out[count++] = a->data[i++];
            continue;
        }
        const qpc_contact *c = &b->data[k++];
        while (i < a->count && a->data[i].key == c->key) i++; // renewed
        // A pair that lay on the other side at the start is left to continuous detection.
        if (gap_at(c, w->x) > 0.0) out[count++] = *c;
    }
    w->merged.count = count;
    qpc_contacts swap = w->predicted;
    w->predicted = w->merged;
    w->merged = swap;
    return QPC_OK;
}

/// Rows of the contacts re-detected at predicted ends. The push of a deep one is capped.
static qpc_status add_predicted_rows(qpc_world *w, double h, qpc_error *err) {
    qpc_row_frame frame = frame_of(w, h);
    for (int32_t i = 0; i < w->predicted.count; i++) {
        const qpc_contact *c = &w->predicted.data[i];
        double depth = c->distance - c->separation, floor = -REDETECTED_DEPTH * c->separation;
        double separation = depth < floor ? c->distance - floor : c->separation;
        qpc_status st = hold(w, c, err);
        if (st == QPC_OK)
            st = qpc_rows_add_contact(&w->rows, &frame, c, separation, -w->solver.recovery_speed * h, w->held.count - 1, err);
        if (st != QPC_OK) return st;
    }
    return QPC_OK;
}

static qpc_status add_impact_row(qpc_world *w, double h, const qpc_contact *c, bool gentle, qpc_error *err) {
    qpc_row_frame frame = frame_of(w, h);
    double floor = (c->flags & QPC_CONTACT_AT_START) != 0 ? -w->solver.recovery_speed * h : -HUGE_VAL;
    if (gentle) floor = 0.0;
    qpc_status st = hold(w, c, err);
    if (st != QPC_OK) return st;
    return qpc_rows_add_contact(&w->rows, &frame, c, c->separation, floor, w->held.count - 1, err);
}

static void clear_rows(qpc_world *w) {
    qpc_rows_clear(&w->rows);
    w->held.count = 0;
}

// ---- warm multipliers ----

/// Keep the multipliers of the rows just solved, sorted by key.
static qpc_status keep_warm(qpc_world *w, double h, qpc_error *err) {
    const qpc_rows *rows = &w->rows;
    if (rows->m > w->warm_capacity) {
        int32_t capacity = rows->m + rows->m / 2 + 64;
        uint64_t *keys = qpc_realloc_array(w->warm_key, (size_t)capacity, sizeof *keys);
        if (keys != NULL) w->warm_key = keys;
        double *lambda = qpc_realloc_array(w->warm_lambda, (size_t)capacity, sizeof *lambda);
        if (lambda != NULL) w->warm_lambda = lambda;
        if (keys == NULL || lambda == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d multipliers", capacity);
        w->warm_capacity = capacity;
    }
    // Insertion sort of the few positive ones: rows come nearly sorted. Equal keys are summed up.
    int32_t count = 0;
    for (int32_t i = 0; i < rows->m; i++) {
        if (!(rows->lambda[i] > 0.0)) continue;
        int32_t at = count;
        while (at > 0 && w->warm_key[at - 1] > rows->key[i]) at--;
        if (at > 0 && w->warm_key[at - 1] == rows->key[i]) {
            w->warm_lambda[at - 1] += rows->lambda[i];
            continue;
        }
        memmove(w->warm_key + at + 1, w->warm_key + at, (size_t)(count - at) * sizeof *w->warm_key);
        memmove(w->warm_lambda + at + 1, w->warm_lambda + at, (size_t)(count - at) * sizeof *w->warm_lambda);
        w->warm_key[at] = rows->key[i];
        w->warm_lambda[at] = rows->lambda[i];
        count++;
    }
    w->warm_count = count;
    w->warm_h = h;
    return QPC_OK;
}

static void start_warm(qpc_world *w, double h) {
    qpc_rows_warm_start(&w->rows, w->warm_key, w->warm_lambda, w->warm_count);
    if (w->warm_h != h) // impulses of resting contacts are forces times h
        for (int32_t i = 0; i < w->rows.m; i++) w->rows.lambda[i] *= h / w->warm_h;
}

// ---- solving ----

static void count_solve(qpc_step_report *r, const qpc_solver_report *s) {
    r->engine = (int64_t)s->engine;
    r->solver_iterations += s->iterations;
    r->set_changes += s->adds + s->drops;
    r->factorizations += s->factorizations;
    r->solves += s->solves;
    r->fallbacks += s->fell_back ? 1 : 0;
    r->active = s->active;
}

/// Rows of strain limits (level 2) or contacts (level 1) that ask for more than to keep the present length or gap
/// ask for that only. False: there are none.
static bool drop_pushes(qpc_world *w, trial *t, int32_t level) {
    qpc_rows *rows = &w->rows;
    bool any = false;
    for (int32_t i = 0; i < rows->m; i++) {
        double keep = 0.0; // what c is for a gap of 0
        if (rows->kind[i] == QPC_ROW_CONTACT && level == 1) {
            const qpc_contact *c = &w->held.data[rows->source[i]];
            for (int k = 0; k < 4; k++) keep += c->weight[k] * v3_dot(c->n, v3_load(w->v_frame + 3 * c->node[k]));
        } else if ((rows->kind[i] == QPC_ROW_STRAIN_MAX || rows->kind[i] == QPC_ROW_STRAIN_MIN) && level == 2) {
            double n[3] = {0.0, 0.0, 0.0}; // with the sign of the row
            int32_t node = w->spring_node[rows->source[i]];
            for (int32_t k = rows->row_start[i]; k < rows->row_start[i + 1]; k++) // +-n at either free end
                n[rows->column[k] % 3] = rows->column[k] / 3 == node ? rows->value[k] : -rows->value[k];
            for (int32_t a = 0; a < 3; a++) keep -= n[a] * (w->v_frame[3 * node + a] - w->v_frame[3 * node + 3 + a]);
        } else
            continue;
        if (!(rows->c[i] < keep)) continue;
        t->relaxation = fmax(t->relaxation, keep - rows->c[i]);
        rows->c[i] = keep;
        any = true;
    }
    return any;
}

/// Solve the QP of the rows into dv (multipliers in rows.lambda). Rows that contradict end a bold
/// attempt (t->contradiction); in a cautious one they are relaxed: strain limits first, then contacts.
static qpc_status solve(qpc_world *w, trial *t, double *dv, qpc_error *err) {
    int64_t since = clock_ns(CLOCK_MONOTONIC);
    qpc_qp qp = qpc_rows_qp(&w->rows, &w->sys, w->b);
    qpc_solver_options options = qpc_solver_options_default();
    qpc_solver_report report;
    qpc_solver_id id = t->gentle ? QPC_SOLVER_AUTO : w->solver.id; // the last attempt is not for comparing solvers
    options.residual_tolerance = w->solver.tolerance * w->min_separation / t->h;
    options.stat_tolerance = STAT_TOLERANCE;
    options.perturbation = w->solver.perturbation;
    if (id == QPC_SOLVER_AUGMENTED_LAGRANGIAN) options.max_iterations = MOST_NEWTON_STEPS; // contradictions never end
    qpc_status st = qpc_solve(id, &qp, &options, &w->arena, dv, w->rows.lambda, &report, err);
    if (st == QPC_OK) count_solve(w->report, &report);
    if (st == QPC_OK && report.outcome == QPC_OUTCOME_INFEASIBLE && !t->cautious) {
        t->contradiction = true;
        lap(&since, &w->report->ns_solve);
        return QPC_OK;
    }
    // First nothing is pushed out any more: but for what is driven, standing still would do then.
    for (int32_t level = 2; level >= 1 && st == QPC_OK && report.outcome == QPC_OUTCOME_INFEASIBLE; level--) {
        if (!drop_pushes(w, t, level)) continue;
        t->relaxed = true;
        st = qpc_solve(id, &qp, &options, &w->arena, dv, w->rows.lambda, &report, err);
        if (st == QPC_OK) count_solve(w->report, &report);
    }
    for (int32_t level = 2; level >= 1 && st == QPC_OK && report.outcome == QPC_OUTCOME_INFEASIBLE; level--) {
        double largest = 0.0;
        if (++t->relaxations > MOST_RELAXATIONS) { // passes that go on contradicting: acceptance decides
            t->last_pass = true;
            break;
        }
        st = qpc_relax(&qp, level, RELAX_STEPS, &w->arena, w->rows.c, &largest, err);
        if (st == QPC_ERR_STATE) { // these rows alone cannot give way
            st = QPC_OK;
            continue;
        }
        if (st != QPC_OK) break;
        t->relaxed = true;
        t->relaxation = fmax(t->relaxation, largest);
        st = qpc_solve(id, &qp, &options, &w->arena, dv, w->rows.lambda, &report, err);
        if (st == QPC_OK) count_solve(w->report, &report);
    }
    if (st != QPC_OK) return st;
    t->stalled = report.outcome == QPC_OUTCOME_STALLED;
    // A solver that does not get there (named alone, it has no fallback) is not asked for ever.
    if (report.outcome == QPC_OUTCOME_ITERATION_LIMIT && ++t->unsolved >= MOST_UNSOLVED) t->last_pass = true;
    t->limited = report.outcome == QPC_OUTCOME_ITERATION_LIMIT || report.outcome == QPC_OUTCOME_INFEASIBLE;
    for (int32_t i = 0; i < 3 * w->free_count; i++)
        if (!isfinite(dv[i])) return qpc_fail(err, QPC_ERR_NUMERIC, "velocity of node %d is not finite", i / 3);
    lap(&since, &w->report->ns_solve);
    return keep_warm(w, t->h, err);
}

/// x1 = x + h (v + dv) for free nodes; driven and pinned ones are there already.
static void place_end(qpc_world *w, double h, const double *dv) {
    for (int32_t i = 0; i < w->free_count; i++) {
        if (w->row_dof[i] < 0) continue;
        for (int32_t a = 3 * i; a < 3 * i + 3; a++) w->x1[a] = w->x[a] + h * (w->v[a] + dv[a]);
    }
}

/// The incremental potential 1/2 dv'M dv + U(x + h (v + dv)), whose minimum is the implicit step.
static double incremental_potential(qpc_world *w, double h, const double *dv) {
    place_end(w, h, dv);
    double phi = qpc_springs_energy(&w->springs, w->x1);
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
        if (value > 0.0) sum += rows->lambda[i] * value;
    }
    return sum;
}

/// Move from dv towards dv_try as far as the merit falls. Returns the largest change of a velocity, and
/// whether the whole way was gone.
static double backtrack(qpc_world *w, double h, bool *ret_full) {
    int32_t n = 3 * w->free_count;
    double merit = incremental_potential(w, h, w->dv) + row_penalty(&w->rows, w->dv);
    double scale = fabs(merit) + w->kinetic_start + w->elastic_most;
    double alpha = 1.0;
    for (int32_t i = 0; i < MAX_BACKTRACKS; i++, alpha *= 0.5) {
        for (int32_t k = 0; k < n; k++) w->dv_best[k] = w->dv[k] + alpha * (w->dv_try[k] - w->dv[k]);
        if (alpha == 1.0) memcpy(w->dv_best, w->dv_try, (size_t)n * sizeof(double));
        double tried = incremental_potential(w, h, w->dv_best) + row_penalty(&w->rows, w->dv_best);
        if (tried <= merit + 1e-12 * scale) break;
    }
    double change = 0.0;
    for (int32_t k = 0; k < n; k++) change = fmax(change, fabs(w->dv_best[k] - w->dv[k]));
    memcpy(w->dv, w->dv_best, (size_t)n * sizeof(double));
    *ret_full = alpha == 1.0;
    return change;
}

// ---- the parts of an attempt ----

/// Rows of contacts by proximity at the start of the motion.
static qpc_status add_near_rows(qpc_world *w, double h, bool gentle, qpc_error *err) {
    qpc_row_frame frame = frame_of(w, h);
    double floor = gentle ? 0.0 : -w->solver.recovery_speed * h;
    for (int32_t i = 0; i < w->near.count; i++) {
        const qpc_contact *c = &w->near.data[i];
        qpc_status st = hold(w, c, err);
        if (st == QPC_OK)
            st = qpc_rows_add_contact(&w->rows, &frame, c, c->separation, floor, w->held.count - 1, err);
        if (st != QPC_OK) return st;
    }
    return QPC_OK;
}

/// The rows of an attempt, linearised at its present end x1 (strain limits: at x before the first QP
/// of a cautious one). Contacts: those re-detected so far, or when cautious those at the start; hits.
static qpc_status make_rows(qpc_world *w, trial *t, const double *x_strain, qpc_error *err) {
    int64_t since = clock_ns(CLOCK_MONOTONIC);
    clear_rows(w);
    qpc_status st = add_strain_rows(w, t, x_strain, err);
    if (st == QPC_OK && !t->cautious) st = merge_predicted(w, err);
    if (st == QPC_OK) st = t->cautious ? add_near_rows(w, t->h, t->gentle, err) : add_predicted_rows(w, t->h, err);
    for (int32_t i = 0; i < w->impacts.count && st == QPC_OK; i++) st = add_impact_row(w, t->h, &w->impacts.data[i], t->gentle, err);
    start_warm(w, t->h);
    lap(&since, &w->report->ns_rows);
    return st;
}

static qpc_status detect_near(qpc_world *w, const double *x, qpc_contacts *ret, qpc_error *err) {
    int64_t since = clock_ns(CLOCK_MONOTONIC);
    qpc_status st = qpc_detect_proximity(w->detector, x, w->solver.reach, ret, err);
    lap(&since, &w->report->ns_detect);
    return st;
}

/// The first QP. Bold: K, b and rows at the end x + h v that the present velocity would lead to, where a
/// sliding cable is next to the right features already. Cautious, when such rows proved to exclude each other
/// (a fast motion ends inside something): at x, as the paper has it; what comes after is found by continuous detection.
static qpc_status predict(qpc_world *w, trial *t, qpc_error *err) {
    qpc_status st;
    if (w->any_limit) memset(w->limit_on, 0, (size_t)w->springs.count);
    if (t->cautious) {
        st = w->near_valid ? QPC_OK : detect_near(w, w->x, &w->near, err);
        w->near_valid = st == QPC_OK;
        if (st == QPC_OK) st = assemble(w, t->h, w->x, w->v, -1.0, err);
    } else {
        memset(w->dv, 0, 3 * (size_t)w->free_count * sizeof(double));
        place_end(w, t->h, w->dv);
        st = detect_near(w, w->x1, &w->probe, err);
        if (st == QPC_OK) st = assemble(w, t->h, w->x1, w->dv, 1.0, err);
    }
    if (st == QPC_OK) st = make_rows(w, t, t->cautious ? w->x : w->x1, err);
    if (st == QPC_OK) st = solve(w, t, w->dv, err);
    if (st == QPC_OK) place_end(w, t->h, w->dv);
    return st;
}

/// Newton on the incremental potential: K and rows anew at the predicted end, until dv settles.
static qpc_status correct(qpc_world *w, trial *t, double tolerance, qpc_error *err) {
    if (w->integrator != QPC_IMPLICIT_EULER) return QPC_OK;
    bool full = true;
    double change = HUGE_VAL;
    while (t->newton < w->solver.newton && change > tolerance && !t->contradiction && !t->last_pass) {
        t->newton++;
        qpc_status st = t->cautious ? QPC_OK : detect_near(w, w->x1, &w->probe, err);
        if (st == QPC_OK) st = assemble(w, t->h, w->x1, w->dv, 1.0, err);
        if (st == QPC_OK) st = make_rows(w, t, w->x1, err);
        if (st == QPC_OK) st = solve(w, t, w->dv_try, err);
        if (st != QPC_OK || t->contradiction) return st;
        change = backtrack(w, t->h, &full);
        place_end(w, t->h, w->dv);
    }
    if (full) return QPC_OK;
    // The last step was shortened: the answer is the QP's, the energy test judges it.
    memcpy(w->dv, w->dv_try, (size_t)w->free_count * 3 * sizeof(double));
    place_end(w, t->h, w->dv);
    return QPC_OK;
}

static bool same_row(const qpc_contact *a, const qpc_contact *b) {
    if (a->key != b->key || v3_norm2(v3_sub(a->n, b->n)) > 1e-16) return false;
    for (int k = 0; k < 4; k++)
        if (a->node[k] != b->node[k] || fabs(a->weight[k] - b->weight[k]) > 1e-8) return false;
    return true;
}

/// Append rows for hits that have none yet; the number added.
static qpc_status add_hits(qpc_world *w, trial *t, int32_t *ret_added, qpc_error *err) {
    for (int32_t i = 0; i < w->probe.count; i++) {
        const qpc_contact *hit = &w->probe.data[i];
        bool known = false;
        for (int32_t k = 0; k < w->impacts.count && !known; k++) known = same_row(hit, &w->impacts.data[k]);
        if (known) continue;
        if (!qpc_array_push(&w->impacts, *hit)) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for impacts");
        qpc_status st = add_impact_row(w, t->h, hit, t->gentle, err);
        if (st != QPC_OK) return st;
        (*ret_added)++;
    }
    return QPC_OK;
}

/// Cutting planes for springs that the linearised rows let past their limit.
static qpc_status add_cuts(qpc_world *w, trial *t, int32_t *ret_added, qpc_error *err) {
    if (!w->any_limit) return QPC_OK;
    for (int32_t s = 0; s < w->springs.count; s++) {
        qpc_vec3 n;
        double length = spring_direction(w, s, w->x1, &n);
        bool above = length > w->spring_max[s] * (1.0 + STRAIN_SLACK), below = length < w->spring_min[s] * (1.0 - STRAIN_SLACK);
        if (!above && !below) continue;
        w->limit_on[s] |= above ? 1U : 2U;
        qpc_status st = add_strain_row(w, t, s, n, above, err);
        if (st != QPC_OK) return st;
        (*ret_added)++;
    }
    return QPC_OK;
}

/// Continuous detection of x -> x1: append what is hit, solve again, until nothing is new. *ret_clean: the
/// last detection found nothing at all.
static qpc_status collide(qpc_world *w, trial *t, bool *ret_clean, qpc_error *err) {
    *ret_clean = false;
    int32_t passes = t->gentle && w->solver.passes < GENTLE_PASSES ? GENTLE_PASSES : w->solver.passes;
    for (;;) {
        int64_t since = clock_ns(CLOCK_MONOTONIC);
        int32_t added = 0;
        qpc_status st = qpc_detect_motion(w->detector, w->x, w->x1, QPC_PASS_FACTOR, &w->probe, err);
        lap(&since, &w->report->ns_detect);
        if (st != QPC_OK) return st;
        *ret_clean = w->probe.count == 0;
        if (t->passes >= passes || t->last_pass) return QPC_OK;
        w->report->hits += w->probe.count;
        if ((st = add_hits(w, t, &added, err)) != QPC_OK) return st;
        if ((st = add_cuts(w, t, &added, err)) != QPC_OK) return st;
        lap(&since, &w->report->ns_rows);
        if (added == 0) return QPC_OK;
        t->passes++;
        if ((st = solve(w, t, w->dv, err)) != QPC_OK || t->contradiction) return st;
        place_end(w, t->h, w->dv);
    }
}

/// Rows that nearly exclude each other, or a driven body in a narrow wedge, can leave a solution of absurd speed and
/// energy: far above all that moves, falls, is stretched or drives.
static bool is_absurd(const qpc_world *w, const trial *t) {
    double fast = w->min_separation / t->h + t->h * v3_norm(w->gravity), speed = 0.0, kinetic = 0.0, weight = 0.0;
    for (int32_t i = 0; i < w->moving_count; i++) fast = fmax(fast, v3_norm(v3_load(w->v_frame + 3 * i)));
    for (int32_t i = 0; i < w->free_count; i++) {
        fast = fmax(fast, t->h * v3_norm(v3_load(w->force + 3 * i)) / w->mass[i]);
        speed = fmax(speed, v3_norm(v3_add(v3_load(w->v + 3 * i), v3_load(w->dv + 3 * i))));
    }
    if (!(speed > ABSURD_SPEED * fast)) return false;
    for (int32_t i = 0; i < w->free_count; i++) {
        kinetic += 0.5 * w->mass[i] * v3_norm2(v3_load(w->v + 3 * i));
        weight += w->mass[i] * v3_norm(w->gravity);
    }
    double there = kinetic + w->kinetic_start + w->elastic_most;
    if (w->height_high > w->height_low) there += weight * (w->height_high - w->height_low);
    return t->kinetic + t->elastic > ABSURD_ENERGY * there;
}

/// The acceptance distance follows pairs that are closer than 0.3 of their separation. Relaxed rows must not make use of
/// that, or orders that contradict would squeeze a contact a little further in every step.
static qpc_status accept_relaxed(qpc_world *w, trial *t, qpc_error *err) {
    double before, after;
    qpc_status st = qpc_detect_minimum_gap(w->detector, w->x1, &after, err);
    if (st != QPC_OK || after >= QPC_ACCEPT_FACTOR) return st;
    st = qpc_detect_minimum_gap(w->detector, w->x, &before, err);
    t->impact = st == QPC_OK && after < 0.99 * before;
    return st;
}

/// The acceptance test of the motion x -> x1: nothing may come closer than the acceptance distance.
static qpc_status accept(qpc_world *w, trial *t, bool clean, qpc_error *err) {
    t->absurd = t->impact = is_absurd(w, t);
    t->toi = 1.0;
    if (clean) return QPC_OK; // nothing came within 0.95 of a separation, or 0.9 of a start distance
    int64_t since = clock_ns(CLOCK_MONOTONIC);
    qpc_status st = qpc_detect_motion(w->detector, w->x, w->x1, QPC_ACCEPT_FACTOR, &w->probe, err);
    lap(&since, &w->report->ns_detect);
    if (st != QPC_OK) return st;
    t->impact = t->absurd || w->probe.count > 0;
    if (!t->impact && t->relaxed) st = accept_relaxed(w, t, err);
    for (int32_t i = 0; i < w->probe.count; i++) t->toi = fmin(t->toi, w->probe.data[i].toi);
    return QPC_OK;
}

/// Impulse of the fixed-point constraint of pin i on its node over the motion: K dv + J'lambda - b there.
static qpc_vec3 pin_impulse(const qpc_world *w, const qpc_pin *pin) {
    qpc_vec3 r = v3_neg(pin->b);
    for (int32_t side = -1; side <= 1; side++) {
        int32_t other = pin->node + side;
        if (other < 0 || other >= w->free_count) continue;
        const double *B = pin->K + 9 * (side + 1), *dv = w->dv + 3 * other;
        r.x += B[0] * dv[0] + B[1] * dv[1] + B[2] * dv[2];
        r.y += B[3] * dv[0] + B[4] * dv[1] + B[5] * dv[2];
        r.z += B[6] * dv[0] + B[7] * dv[1] + B[8] * dv[2];
    }
    return r;
}

/// Work of pins, driven bodies, applied forces; apart from it the work of rows that push outwards.
static void add_work(qpc_world *w, trial *t) {
    for (int32_t i = 0; i < w->pin_count; i++) {
        qpc_vec3 impulse = pin_impulse(w, &w->pins[i]);
        v3_store(w->reactions + 3 * i, impulse);
    }
    const qpc_rows *rows = &w->rows;
    for (int32_t i = 0; i < rows->m; i++) {
        double lambda = rows->lambda[i];
        if (lambda == 0.0) continue;
        if (rows->kind[i] == QPC_ROW_CONTACT) {
            const qpc_contact *c = &w->held.data[rows->source[i]];
            double opening = 0.0; // relative velocity along n at the end
            for (int k = 0; k < 4; k++) {
                int32_t node = c->node[k];
                qpc_vec3 v = v3_load(w->v_frame + 3 * node);
                if (node < w->free_count) v = v3_add(v3_load(w->v + 3 * node), v3_load(w->dv + 3 * node));
                double part = c->weight[k] * v3_dot(c->n, v);
                opening += part;
                if (node >= w->free_count) t->work -= lambda * part; // a driven body pushes
                for (int32_t p = 0; p < w->pin_count && node < w->free_count && w->row_dof[node] < 0; p++)
                    if (w->pin_node[p] == node) // the pin holds against the contact
                        v3_store(w->reactions + 3 * p, v3_madd(v3_load(w->reactions + 3 * p), -lambda * c->weight[k], c->n));
            }
            if (opening > 0.0) t->work_pushed += lambda * opening;
        } else if (rows->kind[i] == QPC_ROW_STRAIN_MAX || rows->kind[i] == QPC_ROW_STRAIN_MIN) {
            int32_t s = rows->source[i], node = w->spring_node[s];
            qpc_vec3 n;
            spring_direction(w, s, w->x1, &n);
            double sign = rows->kind[i] == QPC_ROW_STRAIN_MAX ? 1.0 : -1.0;
            double opening = 0.0;
            for (int32_t a = 0; a < 2; a++) {
                qpc_vec3 v = v3_add(v3_load(w->v + 3 * (node + a)), v3_load(w->dv + 3 * (node + a)));
                opening += (a == 0 ? 1.0 : -1.0) * v3_dot(n, v);
                for (int32_t p = 0; p < w->pin_count && w->row_dof[node + a] < 0; p++)
                    if (w->pin_node[p] == node + a)
                        v3_store(w->reactions + 3 * p,
                                 v3_madd(v3_load(w->reactions + 3 * p), lambda * sign * (a == 0 ? 1.0 : -1.0), n));
            }
            if (sign * opening < 0.0) t->work_pushed += lambda * fabs(opening);
        }
    }
    for (int32_t i = 0; i < w->pin_count; i++) {
        qpc_vec3 impulse = v3_load(w->reactions + 3 * i);
        t->work += v3_dot(impulse, v3_load(w->v_frame + 3 * w->pins[i].node));
    }
    for (int32_t i = 0; i < 3 * w->free_count; i++) t->work += w->force[i] * (w->x1[i] - w->x[i]);
}

/// Energies at the end of the motion and the test of item 4: E+ - E - W and E+ - E0 - W within tolerance.
static void test_energy(qpc_world *w, trial *t) {
    double *v1 = w->dv_best; // free for use between solves
    for (int32_t i = 0; i < 3 * w->free_count; i++) v1[i] = w->v[i] + w->dv[i];
    t->energy = qpc_world_energy(w, w->x1, v1, &t->kinetic, &t->potential, &t->elastic);
    t->work = t->work_pushed = 0.0;
    add_work(w, t);
    double weight = 0.0, g = v3_norm(w->gravity);
    t->elastic_most = fmax(w->elastic_most, t->elastic);
    t->height_low = w->height_low;
    t->height_high = w->height_high;
    for (int32_t i = 0; i < w->free_count; i++) {
        weight += w->mass[i] * g;
        double height = g > 0.0 ? -v3_dot(w->gravity, v3_load(w->x1 + 3 * i)) / g : 0.0;
        double before = g > 0.0 ? -v3_dot(w->gravity, v3_load(w->x + 3 * i)) / g : 0.0;
        t->height_low = fmin(t->height_low, fmin(height, before));
        t->height_high = fmax(t->height_high, fmax(height, before));
    }
    // Pushing out is answered for by what it gains, no more: multipliers can be far larger than what they do. Those of an
    // unsolved QP answer for nothing.
    t->work_pushed = t->limited ? 0.0 : fmin(t->work_pushed, fmax(0.0, t->energy - w->energy - t->work));
    t->energy_scale = w->kinetic_start + t->elastic_most;
    if (t->height_high > t->height_low) t->energy_scale += weight * (t->height_high - t->height_low);
    double scale = t->energy_scale > 1e-12 ? t->energy_scale : 1e-12;
    double gained = t->work + t->work_pushed;
    t->energy_step = (t->energy - w->energy - gained) / scale;
    t->energy_drift = (t->energy - w->energy_start - (w->work + w->work_pushed) - gained) / scale;
    t->excess = fmax(t->energy_step, t->energy_drift);
}

static bool gains(const qpc_world *w, const trial *t) {
    return w->integrator == QPC_IMPLICIT_EULER && t->excess > ENERGY_TOLERANCE;
}

static qpc_status try_motion(qpc_world *w, trial *t, qpc_error *err) {
    double tolerance = NEWTON_TOLERANCE * w->min_separation / t->h;
    bool clean = false;
    w->impacts.count = 0;
    w->predicted.count = 0;
    qpc_motion_prepare(w, t->h, t->left);
    qpc_status st = predict(w, t, err);
    for (int32_t round = 0; st == QPC_OK && !t->contradiction && round < MAX_ROUNDS; round++) {
        st = correct(w, t, tolerance, err);
        if (st == QPC_OK && !t->contradiction) st = collide(w, t, &clean, err);
        if (st != QPC_OK || t->contradiction) return st;
        int64_t since = clock_ns(CLOCK_MONOTONIC);
        test_energy(w, t);
        lap(&since, &w->report->ns_certify);
        // A gain may be a Newton iteration that stopped early: tighten before the step is halved.
        if (w->integrator != QPC_IMPLICIT_EULER || t->excess <= ENERGY_TOLERANCE || t->newton >= w->solver.newton) break;
        tolerance *= 1e-2;
    }
    if (st == QPC_OK && !t->contradiction) st = accept(w, t, clean, err);
    t->doubtful = gains(w, t) && (t->limited || t->relaxed);
    return st;
}

static void count_attempt(qpc_world *w, const trial *t) {
    w->report->newton += t->newton;
    w->report->passes += t->passes;
}

/// Try again with rows at the start of the motion and those of hits; what drives is let go as `hold` says.
static qpc_status attempt_cautiously(qpc_world *w, trial *t, bool gentle, qpc_error *err) {
    count_attempt(w, t);
    *t = (trial){.h = t->h, .left = t->left, .cautious = true, .gentle = gentle};
    if (gentle) w->warm_count = 0; // multipliers that led nowhere
    return try_motion(w, t, err);
}

static qpc_status attempt(qpc_world *w, trial *t, qpc_error *err) {
    qpc_status st = try_motion(w, t, err);
    if (st != QPC_OK || !t->contradiction) return st;
    return attempt_cautiously(w, t, false, err);
}

// ---- state that a failed attempt gives back ----

typedef struct saved_state {
    double *x, *v, *reactions, *warm_lambda;
    uint64_t *warm_key;
    qpc_body *bodies;
    qpc_pin *pins;
    int32_t warm_count;
    double warm_h, energy, work, work_pushed, elastic_most, height_low, height_high;
} saved_state;

static void *copy_into(qpc_arena *arena, const void *from, size_t size) {
    void *to = qpc_arena_alloc(arena, size);
    if (to != NULL && size > 0) memcpy(to, from, size);
    return to;
}

static qpc_status save_state(qpc_world *w, saved_state *s, qpc_error *err) {
    qpc_arena *a = &w->arena;
    size_t moving = 3 * (size_t)w->moving_count * sizeof(double), free_size = 3 * (size_t)w->free_count * sizeof(double);
    s->x = copy_into(a, w->x, moving);
    s->v = copy_into(a, w->v, free_size);
    s->reactions = copy_into(a, w->reactions, 3 * (size_t)w->pin_count * sizeof(double));
    s->warm_key = copy_into(a, w->warm_key, (size_t)w->warm_count * sizeof *w->warm_key);
    s->warm_lambda = copy_into(a, w->warm_lambda, (size_t)w->warm_count * sizeof(double));
    s->bodies = copy_into(a, w->bodies, (size_t)w->body_count * sizeof *w->bodies);
    s->pins = copy_into(a, w->pins, (size_t)w->pin_count * sizeof *w->pins);
    if (s->x == NULL || s->v == NULL || s->reactions == NULL || s->warm_key == NULL || s->warm_lambda == NULL ||
        s->bodies == NULL || s->pins == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory to keep the state of a step");
    s->warm_count = w->warm_count;
    s->warm_h = w->warm_h;
    s->energy = w->energy;
    s->work = w->work;
    s->work_pushed = w->work_pushed;
    s->elastic_most = w->elastic_most;
    s->height_low = w->height_low;
    s->height_high = w->height_high;
    return QPC_OK;
}

static void restore_state(qpc_world *w, const saved_state *s) {
    memcpy(w->x, s->x, 3 * (size_t)w->moving_count * sizeof(double));
    memcpy(w->v, s->v, 3 * (size_t)w->free_count * sizeof(double));
    memcpy(w->reactions, s->reactions, 3 * (size_t)w->pin_count * sizeof(double));
    if (s->warm_count > 0) { // the arrays only grow, so what was there fits
        memcpy(w->warm_key, s->warm_key, (size_t)s->warm_count * sizeof *w->warm_key);
        memcpy(w->warm_lambda, s->warm_lambda, (size_t)s->warm_count * sizeof(double));
    }
    memcpy(w->bodies, s->bodies, (size_t)w->body_count * sizeof *w->bodies);
    if (w->pin_count > 0) memcpy(w->pins, s->pins, (size_t)w->pin_count * sizeof *w->pins);
    w->warm_count = s->warm_count;
    w->warm_h = s->warm_h;
    w->energy = s->energy;
    w->work = s->work;
    w->work_pushed = s->work_pushed;
    w->elastic_most = s->elastic_most;
    w->height_low = s->height_low;
    w->height_high = s->height_high;
}

// ---- commit ----

static void count_certificate(qpc_world *w, const trial *t, const qpc_certificate *c) {
    qpc_step_report *r = w->report;
    r->stat = fmax(r->stat, c->stat);
    r->prim = fmax(r->prim, c->prim);
    r->dual = fmax(r->dual, c->dual);
    r->comp = fmax(r->comp, c->comp);
    r->err = fmax(r->err, c->err);
    r->natural = fmax(r->natural, c->natural);
    r->natural_ratio = fmax(r->natural_ratio, c->natural * t->h / w->min_separation);
    r->violation = fmax(r->violation, c->violation);
    r->solve_check = fmax(r->solve_check, c->solve_check);
    r->active_hash = (int64_t)c->active_hash;
    r->active = c->active;
}

/// Positions and forces of the contacts that have a row, for readers.
static qpc_status publish_contacts(qpc_world *w, double h, qpc_error *err) {
    const qpc_rows *rows = &w->rows;
    if (w->held.count > w->contact_info_capacity) {
        int32_t capacity = w->held.count + w->held.count / 2 + 16;
        qpc_contact_info *grown = qpc_realloc_array(w->contact_info, (size_t)capacity, sizeof *grown);
        if (grown == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d contacts", capacity);
        w->contact_info = grown;
        w->contact_info_capacity = capacity;
    }
    int32_t count = 0;
    memset(w->limit_force, 0, (size_t)w->springs.count * sizeof(double));
    for (int32_t i = 0; i < rows->m; i++) {
        if (rows->kind[i] != QPC_ROW_CONTACT) {
            if (rows->kind[i] == QPC_ROW_STRAIN_MAX) w->limit_force[rows->source[i]] += rows->lambda[i] / h;
            if (rows->kind[i] == QPC_ROW_STRAIN_MIN) w->limit_force[rows->source[i]] -= rows->lambda[i] / h;
            continue;
        }
        const qpc_contact *c = &w->held.data[rows->source[i]];
        qpc_contact_info *out = &w->contact_info[count++];
        qpc_vec3 at = v3(0.0, 0.0, 0.0);
        for (int k = 0; k < (c->kind == QPC_CONTACT_VT ? 1 : 2); k++) at = v3_madd(at, c->weight[k], v3_load(w->x + 3 * c->node[k]));
        *out = (qpc_contact_info){.kind = c->kind, .gap = gap_at(c, w->x) - c->separation, .force = rows->lambda[i] / h, .key = c->key};
        memcpy(out->body, c->surface, sizeof out->body);
        memcpy(out->feature, c->feature, sizeof out->feature);
        v3_store(out->position, at);
        v3_store(out->normal, c->n);
    }
    // By key; rows of one pair in the order they were made.
    for (int32_t i = 1; i < count; i++) {
        qpc_contact_info moved = w->contact_info[i];
        int32_t at = i;
        for (; at > 0 && w->contact_info[at - 1].key > moved.key; at--) w->contact_info[at] = w->contact_info[at - 1];
        w->contact_info[at] = moved;
    }
    w->contact_info_count = count;
    return QPC_OK;
}

/// The outcome of a step is the worst of its parts: fail-safe, relaxed, stalled, iteration limit, optimal.
static void worsen(qpc_step_report *r, int64_t outcome) {
    static const int rank[] = {[QPC_STEP_OPTIMAL] = 0, [QPC_STEP_ITERATION_LIMIT] = 1, [QPC_STEP_STALLED] = 2,
                               [QPC_STEP_RELAXED] = 3, [QPC_STEP_FAILSAFE] = 4};
    if (rank[outcome] > rank[r->outcome]) r->outcome = outcome;
}

/// A cut motion keeps its velocities, unless energy would come of it: who is stopped in the air and falls on in
/// velocity alone would be shot away later. Then what was cut is slowed down.
static void brake(const qpc_world *w, const trial *t, const double *cut, double *v1) {
    double part = 1.0, kinetic = 0.0;
    for (int32_t i = 0; i < w->body_count; i++) part = fmin(part, cut[i]);
    double gain = qpc_world_energy(w, w->x1, v1, NULL, NULL, NULL) - w->energy - part * fmax(0.0, t->work);
    for (int32_t pass = 0; pass < 2; pass++) { // energy of what was cut, then its velocities
        if (pass == 1 && !(gain > 0.0)) return;
        double factor = gain < kinetic ? sqrt(1.0 - gain / kinetic) : 0.0;
        for (int32_t i = 0; i < w->body_count; i++) {
            const qpc_body *body = &w->bodies[i];
            if (body->motion != QPC_DYNAMIC || cut[i] >= 1.0) continue;
            for (int32_t k = body->first_node; k < body->first_node + body->node_count; k++) {
                if (w->row_dof[k] < 0) continue;
                if (pass == 0) kinetic += 0.5 * w->mass[k] * v3_norm2(v3_load(v1 + 3 * k));
                else v3_store(v1 + 3 * k, v3_scale(factor, v3_load(v1 + 3 * k)));
            }
        }
    }
}

/// Take over x1 and v + dv. cut: factors of bodies whose motion the fail-safe shortened, or NULL.
static qpc_status commit(qpc_world *w, trial *t, const double *cut, qpc_error *err) {
    int64_t since = clock_ns(CLOCK_MONOTONIC);
    qpc_qp qp = qpc_rows_qp(&w->rows, &w->sys, w->b);
    qpc_certificate certificate;
    qpc_status st = qpc_certify(&qp, w->dv, w->rows.lambda, &w->arena, &certificate, err);
    if (st != QPC_OK) return st;
    count_certificate(w, t, &certificate);

    double *v1 = w->dv_best;
    for (int32_t i = 0; i < 3 * w->free_count; i++) v1[i] = w->v[i] + w->dv[i];
    if (cut != NULL) { // positions were shortened: what that changes of the energy is set apart
        brake(w, t, cut, v1);
        double energy = qpc_world_energy(w, w->x1, v1, &t->kinetic, &t->potential, &t->elastic);
        t->work_pushed += energy - t->energy;
        t->energy = energy;
        t->elastic_most = fmax(t->elastic_most, t->elastic);
    }
    for (int32_t i = 0; i < 3 * w->moving_count; i++)
        if (!isfinite(w->x1[i])) return qpc_fail(err, QPC_ERR_NUMERIC, "position of node %d is not finite", i / 3);
    qpc_motion_commit(w, t->h, cut);
    memcpy(w->x, w->x1, 3 * (size_t)w->moving_count * sizeof(double));
    memcpy(w->v, v1, 3 * (size_t)w->free_count * sizeof(double));
    for (int32_t i = 3 * w->free_count; i < 3 * w->moving_count; i++) w->v[i] = w->v_frame[i];
    w->energy = t->energy;
    w->work += t->work;
    w->work_pushed += t->work_pushed;
    w->elastic_most = t->elastic_most;
    w->height_low = t->height_low;
    w->height_high = t->height_high;
    for (int32_t i = 0; i < 3 * w->pin_count; i++) w->reactions[i] /= t->h;
    lap(&since, &w->report->ns_certify);

    st = qpc_detect_proximity(w->detector, w->x, w->solver.reach, &w->near, err);
    w->near_valid = st == QPC_OK;
    lap(&since, &w->report->ns_detect);
    qpc_step_report *r = w->report;
    r->kinetic = t->kinetic;
    r->potential = t->potential;
    r->elastic = t->elastic;
    r->energy_scale = t->energy_scale;
    r->energy_step = fmax(r->energy_step, t->energy_step);
    r->energy_drift = t->energy_drift;
    r->passes += t->passes;
    r->newton += t->newton;
    r->contacts = w->held.count;
    r->rows = w->rows.m;
    r->strain_rows = w->rows.m - w->held.count;
    r->relaxed = fmax(r->relaxed, t->relaxation);
    if (t->limited || gains(w, t) || certificate.natural > w->solver.tolerance * w->min_separation / t->h * 1.0000001)
        worsen(r, QPC_STEP_ITERATION_LIMIT);
    if (t->stalled) worsen(r, QPC_STEP_STALLED);
    if (t->relaxed) worsen(r, QPC_STEP_RELAXED);
    if (cut != NULL || t->held_back > 0) worsen(r, QPC_STEP_FAILSAFE);
    for (int32_t i = 0; i < w->near.count; i++) {
        const qpc_contact *c = &w->near.data[i];
        if ((c->flags & QPC_CONTACT_NEAR_SELF) == 0) r->min_gap = fmin(r->min_gap, c->distance / c->separation);
    }
    return st;
}

/// Last resort: cut the motion before its first impact, group by group.
static qpc_status commit_cut(qpc_world *w, trial *t, qpc_error *err) {
    double *scale = qpc_arena_array(&w->arena, (size_t)w->body_count, sizeof *scale);
    int32_t groups = 0;
    if (scale == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for the fail-safe");
    int64_t since = clock_ns(CLOCK_MONOTONIC);
    qpc_status st = qpc_failsafe_cut(w, t->h, scale, &groups, err);
    lap(&since, &w->report->ns_detect);
    if (st != QPC_OK) return st;
    w->report->failsafe += groups;
    w->report->toi_margin = fmin(w->report->toi_margin, t->toi);
    for (int32_t i = 0; i < w->body_count; i++) w->report->failsafe_scale = fmin(w->report->failsafe_scale, scale[i]);
    return commit(w, t, scale, err);
}

/// Hold back what drives bodies into the impacts of the last attempt: first to a part of its way, then all of it, and then
/// nothing is pushed out either, so that to stand still satisfies every row.
static qpc_status attempt_held_back(qpc_world *w, trial *t, qpc_error *err) {
    for (int32_t round = 0; round < MAX_HOLDS && (t->impact || t->doubtful); round++) {
        bool last = round == MAX_HOLDS - 1;
        int32_t count = 0;
        qpc_status st = QPC_OK;
        if (t->impact || t->relaxed) st = qpc_failsafe_hold(w, last, &count, err);
        if (st != QPC_OK) return st;
        if (count == 0 && !last) continue;
        w->report->toi_margin = fmin(w->report->toi_margin, t->toi);
        if ((st = attempt_cautiously(w, t, last, err)) != QPC_OK) return st;
    }
    return QPC_OK;
}

/// Something driven lags behind: what contradicted in the step before will do so again.
static bool lags(const qpc_world *w) {
    for (int32_t i = 0; i < w->body_count; i++)
        if (v3_norm2(w->bodies[i].owed) > 0.0 || v3_norm2(w->bodies[i].owed_turn) > 0.0) return true;
    for (int32_t i = 0; i < w->pin_count; i++)
        if (v3_norm(v3_sub(w->pins[i].target, v3_load(w->x + 3 * w->pins[i].node))) > 1.01 * w->dt * v3_norm(w->pins[i].velocity))
            return true;
    return false;
}

/// Count what is held back in the motion that is taken over.
static int32_t note_hold(qpc_world *w) {
    int32_t count = 0;
    double least = 1.0;
    for (int32_t i = 0; i < w->body_count; i++) {
        if (!qpc_motion_is_driven(&w->bodies[i]) || !(w->bodies[i].hold < 1.0)) continue;
        least = fmin(least, w->bodies[i].hold);
        count++;
    }
    for (int32_t i = 0; i < w->pin_count; i++) {
        if (!(w->pins[i].hold < 1.0)) continue;
        least = fmin(least, w->pins[i].hold);
        count++;
    }
    w->report->failsafe += count;
    w->report->failsafe_scale = fmin(w->report->failsafe_scale, least);
    return count;
}

/// Keep a state inside the step for whoever wants them: handed out when the step has succeeded.
static qpc_status keep_substate(qpc_world *w, double time, qpc_error *err) {
    if (w->env.substep == NULL) return QPC_OK;
    int32_t size = 3 * w->node_count;
    if (!qpc_array_reserve(&w->substates, (int64_t)w->substates.count + 1 + size))
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory for a state inside a step");
    double *to = w->substates.data + w->substates.count;
    to[0] = time;
    memcpy(to + 1, w->x, (size_t)size * sizeof(double));
    w->substates.count += 1 + size;
    return QPC_OK;
}

/// What is left then: everything free stops where it is; the fail-safe holds back what drives.
static void stand_still(qpc_world *w, trial *t) {
    for (int32_t i = 0; i < 3 * w->free_count; i++) {
        if (w->row_dof[i / 3] < 0) continue;
        w->dv[i] = -w->v[i];
        w->x1[i] = w->x[i];
    }
    for (int32_t i = 0; i < w->rows.m; i++) w->rows.lambda[i] = 0.0;
    w->warm_count = 0;
    test_energy(w, t);
}

static qpc_status advance(qpc_world *w, double h, double left, int32_t depth, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    saved_state saved;
    trial t = {.h = h, .left = left};
    qpc_status st = save_state(w, &saved, err);
    if (st != QPC_OK) return st;
    qpc_motion_release(w);
    st = attempt(w, &t, err);
    // Orders that contradicted before and still do: smaller steps would not help.
    if (st == QPC_OK && t.impact && (t.relaxed || t.limited) && lags(w)) st = attempt_held_back(w, &t, err);
    // An unsolved QP that gains energy: the same.
    if (st == QPC_OK && t.doubtful && t.limited && !t.impact) st = attempt_cautiously(w, &t, true, err);
    if (st == QPC_OK && (t.impact || gains(w, &t)) && depth < w->solver.halvings) {
        restore_state(w, &saved);
        w->report->halvings++;
        count_attempt(w, &t);
        st = advance(w, 0.5 * h, left, depth + 1, err);
        if (st == QPC_OK) st = keep_substate(w, w->time + (w->dt - left) + 0.5 * h, err);
        if (st == QPC_OK) st = advance(w, 0.5 * h, left - 0.5 * h, depth + 1, err);
        qpc_arena_rewind(&w->arena, mark);
        return st;
    }
    if (st == QPC_OK && (t.impact || t.doubtful) && !t.cautious) st = attempt_cautiously(w, &t, false, err);
    if (st == QPC_OK && (t.impact || t.doubtful)) st = attempt_held_back(w, &t, err);
    if (st == QPC_OK && t.absurd) stand_still(w, &t);
    if (st == QPC_OK) {
        t.held_back = note_hold(w);
        st = t.impact ? commit_cut(w, &t, err) : commit(w, &t, NULL, err);
    }
    qpc_arena_rewind(&w->arena, mark);
    return st;
}

// ---- the step ----

static void count_detection(qpc_world *w) {
    qpc_detect_counts c = qpc_detector_counts(w->detector);
    w->report->candidates = (int64_t)c.candidates;
    w->report->vt_tests = (int64_t)c.vt_tests;
    w->report->ee_tests = (int64_t)c.ee_tests;
    w->report->list_rebuilds = (int64_t)c.list_rebuilds;
}

/// Figures of the whole step, from the state after it.
static void finish_report(qpc_world *w) {
    qpc_step_report *r = w->report;
    r->step = w->step;
    r->time = w->time;
    r->hash = (int64_t)w->hash;
    r->work = w->work;
    r->work_pushed = w->work_pushed;
    r->lag = qpc_motion_lag(w);
    qpc_vec3 momentum = v3(0.0, 0.0, 0.0);
    for (int32_t i = 0; i < w->free_count; i++) {
        qpc_vec3 v = v3_load(w->v + 3 * i);
        momentum = v3_madd(momentum, w->mass[i], v);
        r->max_speed = fmax(r->max_speed, v3_norm(v));
    }
    r->momentum_x = momentum.x;
    r->momentum_y = momentum.y;
    r->momentum_z = momentum.z;
    qpc_springs_tension(&w->springs, w->x, w->tension);
    for (int32_t s = 0; s < w->springs.count; s++) {
        qpc_vec3 n;
        r->max_strain = fmax(r->max_strain, fabs(spring_direction(w, s, w->x, &n) / w->rest_length[s] - 1.0));
    }
    r->arena_bytes = (int64_t)w->arena.high_water;
}

qpc_status qpc_world_step(qpc_world *w, qpc_step_report *report, qpc_error *err) {
    int64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID), wall = clock_ns(CLOCK_MONOTONIC);
    uint64_t allocations = qpc_mem_thread_allocations();
    qpc_step_report unused;
    w->report = report != NULL ? report : &unused;
    *w->report = (qpc_step_report){.failsafe_scale = 1.0, .toi_margin = 1.0, .min_gap = w->solver.reach, .energy_step = -HUGE_VAL};
    qpc_arena_reset(&w->arena);
    qpc_detector_counts_reset(w->detector);

    saved_state saved;
    qpc_status st = save_state(w, &saved, err);
    if (st != QPC_OK) return st;
    w->substates.count = 0;
    qpc_motion_begin_step(w);
    st = advance(w, w->dt, w->dt, 0, err);
    if (st == QPC_OK) st = publish_contacts(w, w->warm_h, err); // of the last part of the step
    if (st != QPC_OK) {
        restore_state(w, &saved);
        w->near_valid = false;
        return st;
    }
    int64_t since = clock_ns(CLOCK_MONOTONIC);
    w->step++;
    for (int32_t i = 0; i < w->substates.count; i += 1 + 3 * w->node_count)
        w->env.substep(w->env.user, w->step, w->substates.data[i], w->substates.data + i + 1, w->node_count);
    w->time += w->dt;
    w->hash = qpc_world_state_hash(w);
    count_detection(w);
    finish_report(w);
    lap(&since, &w->report->ns_certify);
    w->report->allocations = (int64_t)(qpc_mem_thread_allocations() - allocations);
    w->report->ns_wall = clock_ns(CLOCK_MONOTONIC) - wall;
    w->report->ns_total = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
    return QPC_OK;
}
