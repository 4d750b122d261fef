/// What a QP of the step is made of: K and b at a linearisation point, rows of contacts and strain limits,
/// and multipliers carried from one solve to the next by the keys of rows.
#include "engine/world/attempt.h"
#include "engine/world/elastic.h"
#include "engine/world/integrate.h"
#include "engine/world/loads.h"
#include "engine/world/obstacles.h"

#include <string.h>

static const double REDETECTED_DEPTH = 0.1; // of the separation: cap on the push of a re-detected row

// ---- K and b ----

static const double CURVATURE_MOST = 10; // of a limit, in units of a node's own m + h^2 k

/// K[i][j] as it is stored, either order of i and j; nodes that a spring joins, or one node.
static double *entry(qpc_linsys *sys, int32_t i, int32_t j) {
    return i < j ? qpc_linsys_entry(sys, j, i) : qpc_linsys_entry(sys, i, j);
}

/// Fixed nodes: dv is known, so their columns move to the right-hand side and their rows become the
/// identity (the three equality rows of section 4.4, eliminated). Blocks are kept for the reactions.
static void eliminate_pins(qpc_world *w) {
    for (int32_t i = 0; i < w->pin_count; i++) {
        qpc_pin *pin = &w->pins[i];
        pin->b = v3_load(w->b + 3 * pin->node);
        for (int32_t k = pin->first; k < pin->first + pin->count; k++)
            for (int32_t a = 0; a < 3; a++)
                for (int32_t c = 0; c < 3; c++)
                    w->pin_block[9 * k + 3 * a + c] = *entry(&w->sys, 3 * pin->node + a, 3 * w->pin_other[k] + c);
    }
    for (int32_t i = 0; i < w->pin_count; i++) {
        const qpc_pin *pin = &w->pins[i];
        double dv[3];
        for (int32_t a = 0; a < 3; a++) dv[a] = w->v_frame[3 * pin->node + a] - w->v[3 * pin->node + a];
        for (int32_t k = pin->first; k < pin->first + pin->count; k++) {
            int32_t other = w->pin_other[k];
            for (int32_t a = 0; a < 3; a++)
                for (int32_t c = 0; c < 3; c++) {
                    double *value = entry(&w->sys, 3 * pin->node + a, 3 * other + c);
                    if (other != pin->node) w->b[3 * other + c] -= *value * dv[a];
                    if (other != pin->node || a >= c) *value = other == pin->node && a == c ? 1.0 : 0.0;
                }
        }
    }
    for (int32_t i = 0; i < w->pin_count; i++)
        for (int32_t a = 0; a < 3; a++) {
            int32_t k = 3 * w->pins[i].node + a;
            w->b[k] = w->v_frame[k] - w->v[k];
        }
}

/// The curvature of strain limits that hold (T38): with multiplier lambda the Lagrangian has the second derivative
/// h lambda (I - nn') / l, the lateral stiffness that the tension in the row gives. Without it a heavily loaded limit is
/// a string without tension, and the iteration goes from side to side. Vanishes from the optimum with d = 0.
static void add_limit_curvature(qpc_world *w, double h, const double *x, const double *u, double *Hu) {
    int32_t i = w->warm_count;
    while (i > 0 && w->warm_key[i - 1] >> 62 == 3) i--;
    for (; i < w->warm_count; i++) {
        int32_t s = (int32_t)(uint32_t)w->warm_key[i], node = 3 * w->spring_node[s], other = 3 * qpc_springs_other(&w->springs, s);
        qpc_vec3 n;
        if (w->giving[s] != 0) continue;
        double length = qpc_spring_direction(w, s, x, &n);
        double lambda = w->warm_lambda[i] * h / w->warm_h;
        if (!(length > 0.0)) continue;
        // Multipliers of rows that contradict run away; a bound keeps them from burying K in round-off.
        double own = w->mass[w->spring_node[s]] + h * h * (w->base != NULL ? w->base : w->stiffness)[s];
        double c = fmin(h * lambda / length, CURVATURE_MOST * own), m[3] = {n.x, n.y, n.z}; // adds c (I - nn'), and h^2 H u likewise
        double add[3][3];
        for (int32_t a = 0; a < 3; a++)
            for (int32_t b = 0; b < 3; b++) {
                add[a][b] = c * ((a == b ? 1.0 : 0.0) - m[a] * m[b]);
                double t = add[a][b] / (h * h) * (u[node + b] - u[other + b]);
                Hu[node + a] += t;
                Hu[other + a] -= t;
            }
        qpc_springs_add(&w->springs, s, &w->sys, 1.0, add);
    }
}

/// K = M + h^2 H(x), b = h f(x) + sign h^2 H u. At the start of a step u = v, sign = -1
/// (eq. 1 of the paper, its misprint corrected); at a Newton iterate u = dv, sign = +1. Other integrators: integrate.h.
void qpc_step_assemble(qpc_world *w, double h, const double *x, const double *u, double sign) {
    int64_t t = qpc_clock_ns(CLOCK_MONOTONIC);
    int32_t n = 3 * w->free_count, all = 3 * w->block_count;
    bool implicit = qpc_is_implicit(w);
    memset(w->f, 0, (size_t)all * sizeof(double));
    qpc_linsys_clear(&w->sys);
    if (implicit) {
        memset(w->Hu, 0, (size_t)all * sizeof(double));
        qpc_elastic_linearise(w, qpc_integrate_linearise_at(w, x), u, h, &w->sys, w->f, w->Hu);
        qpc_integrate_adapt(w, x);
        if (w->any_limit) add_limit_curvature(w, h, x, u, w->Hu);
        qpc_step_add_contact_curvature(w, h, &w->probe, x, u, w->Hu);
    } else if (w->integrator != QPC_RK4) {
        qpc_elastic_force(w, w->x, w->f); // wherever rows are made: that is what keeps the areas of phase space
    }
    for (int32_t i = 0; i < w->free_count; i++) {
        double g[3] = {w->gravity.x, w->gravity.y, w->gravity.z};
        for (int32_t a = 0; a < 3; a++) {
            double b = h * (w->f[3 * i + a] + w->mass[i] * g[a] + w->force[3 * i + a]);
            if (w->integrator == QPC_RK4) b = w->mass[i] * w->free_kick[3 * i + a];
            w->b[3 * i + a] = implicit ? b + sign * h * h * w->Hu[3 * i + a] : b;
        }
    }
    for (int32_t i = 0; i < n; i++) {
        if (w->sys.kind == QPC_LINSYS_BAND) qpc_linsys_add(&w->sys, i, i, w->mass[i / 3]);
        else w->sys.value[w->sys.start[i]] += w->mass[i / 3];
    }
    qpc_rigid_add_masses(w, w->pose, &w->sys);
    qpc_rigid_add_loads(w, h, w->b);
    qpc_loads_linearise(w, h, x, u, sign);
    qpc_still_assemble(w);
    eliminate_pins(w);
    qpc_lap(&t, &w->report->ns_assemble);
}

bool qpc_step_may_keep_matrix(const qpc_world *w) {
    bool alone = w->springs.count == 0 && w->sheet_count == 0 && w->load_count == 0;
    return w->softs.tets.count > 0 && alone && w->integrator == QPC_IMPLICIT_EULER && !w->solver.position_based;
}

/// b of fixed nodes with K of before, from the blocks that were kept; w->b has h f.
static void renew_pins(qpc_world *w, const double *u) {
    for (int32_t i = 0; i < w->pin_count; i++) {
        qpc_pin *pin = &w->pins[i];
        const double *own = u + 3 * pin->node;
        double *b = w->b + 3 * pin->node;
        for (int32_t a = 0; a < 3; a++) b[a] -= w->mass[pin->node] * own[a];
        for (int32_t k = pin->first; k < pin->first + pin->count; k++)
            for (int32_t a = 0; a < 3; a++)
                for (int32_t c = 0; c < 3; c++) b[a] += w->pin_block[9 * k + 3 * a + c] * u[3 * w->pin_other[k] + c];
        pin->b = v3_load(b);
        for (int32_t a = 0; a < 3; a++) b[a] = w->v_frame[3 * pin->node + a] - w->v[3 * pin->node + a];
    }
}

void qpc_step_assemble_forces(qpc_world *w, double h, const double *x, const double *u) {
    int64_t t = qpc_clock_ns(CLOCK_MONOTONIC);
    memset(w->f, 0, 3 * (size_t)w->block_count * sizeof(double));
    qpc_elastic_force(w, x, w->f);
    // What fixed nodes add to others is not in K any more, nor would it be in b: they cancel, u being what it is there.
    qpc_linsys_product(&w->sys, u, w->Hu);
    for (int32_t i = 0; i < w->free_count; i++) {
        double g[3] = {w->gravity.x, w->gravity.y, w->gravity.z};
        bool fixed = w->row_dof[i] < 0;
        for (int32_t a = 0; a < 3; a++) {
            int32_t k = 3 * i + a;
            w->b[k] = h * (w->f[k] + w->mass[i] * g[a] + w->force[k]);
            if (!fixed) w->b[k] += w->Hu[k] - w->mass[i] * u[k];
        }
    }
    qpc_rigid_add_loads(w, h, w->b);
    renew_pins(w, u);
    qpc_lap(&t, &w->report->ns_assemble);
}

// ---- rows ----

uint64_t qpc_step_strain_key(int32_t spring, bool maximum) {
    return UINT64_C(1) << 63 | (uint64_t)(maximum ? 1 : 0) << 62 | (uint64_t)(uint32_t)spring;
}

qpc_row_frame qpc_step_frame(const qpc_world *w, double h) {
    return (qpc_row_frame){.node_count = w->node_count, .dof = w->row_dof, .turn = w->row_turn, .arm = w->arm, .x = w->x, .v = w->v_frame, .dt = h};
}

/// Length and direction (from the second node to the first) of a spring at x.
double qpc_spring_direction(const qpc_world *w, int32_t spring, const double *x, qpc_vec3 *ret_n) {
    int32_t i = w->spring_node[spring], j = qpc_springs_other(&w->springs, spring);
    qpc_vec3 d = v3_sub(v3_load(x + 3 * i), v3_load(x + 3 * j));
    double length = v3_norm(d);
    *ret_n = length > 0.0 ? v3_scale(1.0 / length, d) : v3(1.0, 0.0, 0.0);
    return length;
}

/// How much of what a spring is past its limit at x may be made up for in the motion, m: all springs in a line together at the speed
/// at which pairs that start too near are pushed apart.
static double most_recovered(const qpc_world *w, double h, int32_t spring) {
    const qpc_body *body = &w->bodies[qpc_world_body_of_spring(w, spring)];
    double in_line = body->mesh != NULL ? sqrt(body->stretch_count) : body->stretch_count;
    return w->recovery * h / in_line;
}

/// The length that a limit asks for in a motion, along n. In a gentle one the present length will do.
static double limit_of(const qpc_world *w, const qpc_trial *t, int32_t spring, qpc_vec3 n, bool maximum) {
    qpc_vec3 at;
    double limit = maximum ? w->spring_max[spring] : w->spring_min[spring], length = qpc_spring_direction(w, spring, w->x, &at);
    if (t->gentle) {
        length *= v3_dot(n, at);
        return maximum ? fmax(limit, length) : fmin(limit, length);
    }
    // Where limits do not give way as springs they hold, whatever it takes.
    if ((maximum ? length <= limit : length >= limit) || !qpc_is_implicit(w)) return limit;
    double most = most_recovered(w, t->h, spring);
    return maximum ? fmax(limit, length - most) : fmin(limit, length + most);
}

qpc_status qpc_step_add_strain_row(qpc_world *w, const qpc_trial *t, int32_t spring, qpc_vec3 n, bool maximum,
                                   qpc_error *err) {
    qpc_row_frame frame = qpc_step_frame(w, t->h);
    int32_t i = w->spring_node[spring], j = qpc_springs_other(&w->springs, spring);
    if (w->still[qpc_world_body_of_spring(w, spring)] != 0) return QPC_OK;
    double limit = limit_of(w, t, spring, n, maximum);
    return qpc_rows_add_strain(&w->rows, &frame, i, j, n, maximum, limit, qpc_step_strain_key(spring, maximum), spring, err);
}

/// Strain rows: springs near a limit at x or in the motion on trial, and those that had a cut.
qpc_status qpc_step_add_strain_rows(qpc_world *w, const qpc_trial *t, const double *x, qpc_error *err) {
    if (!w->any_limit) return QPC_OK;
    for (int32_t s = 0; s < w->springs.count; s++) {
        qpc_vec3 n;
        if (w->giving[s] != 0) continue;
        double length = qpc_spring_direction(w, s, x, &n);
        bool above = length > 0.98 * w->spring_max[s], below = length < 1.02 * w->spring_min[s];
        qpc_status st = QPC_OK;
        if (above || (w->limit_on[s] & 1U) != 0) st = qpc_step_add_strain_row(w, t, s, n, true, err);
        if (st == QPC_OK && (below || (w->limit_on[s] & 2U) != 0)) st = qpc_step_add_strain_row(w, t, s, n, false, err);
        if (st != QPC_OK) return st;
    }
    return QPC_OK;
}

static qpc_status hold(qpc_world *w, const qpc_contact *contact, qpc_error *err) {
    if (!qpc_array_push(&w->held, *contact)) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d contacts", w->held.count);
    return QPC_OK;
}

/// Merge what was re-detected at the latest iterate (probe) into what this attempt has re-detected so
/// far. Rows are never dropped between iterates, only renewed, so that the iteration cannot flip
/// between neighbouring features for ever. Both lists are sorted by key.
qpc_status qpc_step_merge_predicted(qpc_world *w, qpc_error *err) {
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
        // A pair that lay on the other side at the start is left to continuous detection; so is what came deep into an obstacle, where
        // the nearest way out need not be the way in.
        if (!qpc_obstacle_responds(w, c) && c->distance > -c->separation && qpc_contact_gap_at(c, w->x) > 0.0 && (w->rigid_count == 0 || qpc_rigid_is_outside(w, c, w->x1))) out[count++] = *c;
    }
    w->merged.count = count;
    qpc_contacts swap = w->predicted;
    w->predicted = w->merged;
    w->merged = swap;
    return QPC_OK;
}

/// Rows of the contacts re-detected at predicted ends. The push of a deep one is capped.
qpc_status qpc_step_add_predicted_rows(qpc_world *w, double h, qpc_error *err) {
    qpc_row_frame frame = qpc_step_frame(w, h);
    for (int32_t i = 0; i < w->predicted.count; i++) {
        const qpc_contact *c = &w->predicted.data[i];
        double separation = qpc_step_separation(w, h, c), depth = c->distance - separation, floor = -REDETECTED_DEPTH * c->separation;
        if (depth < floor) separation = c->distance - floor;
        qpc_status st = hold(w, c, err);
        if (st == QPC_OK)
            st = qpc_rows_add_contact(&w->rows, &frame, c, separation, -w->recovery * h, w->held.count - 1, err);
        if (st != QPC_OK) return st;
    }
    return QPC_OK;
}

qpc_status qpc_step_add_impact_row(qpc_world *w, const qpc_trial *t, const qpc_contact *c, qpc_error *err) {
    qpc_row_frame frame = qpc_step_frame(w, t->h);
    double floor = (c->flags & QPC_CONTACT_AT_START) != 0 ? -w->recovery * t->h : -HUGE_VAL;
    if (t->gentle) floor = 0.0;
    qpc_status st = hold(w, c, err);
    if (st != QPC_OK) return st;
    return qpc_rows_add_contact(&w->rows, &frame, c, qpc_step_separation(w, t->h, c), floor, w->held.count - 1, err);
}

qpc_vec3 qpc_step_limit_direction(const qpc_world *w, int32_t row) {
    const qpc_rows *rows = &w->rows;
    int32_t node = w->spring_node[rows->source[row]];
    double n[3] = {0.0, 0.0, 0.0};
    for (int32_t k = rows->row_start[row]; k < rows->row_start[row + 1]; k++) // +-n at either free end
        n[rows->column[k] % 3] = rows->column[k] / 3 == node ? rows->value[k] : -rows->value[k];
    return v3_load(n);
}

bool qpc_step_drop_pushes(qpc_world *w, int32_t level, double *largest) {
    qpc_rows *rows = &w->rows;
    bool any = false;
    for (int32_t i = 0; i < rows->m; i++) {
        double keep = 0.0; // what c is for a gap of 0
        if (rows->kind[i] == QPC_ROW_CONTACT && level == 1) {
            const qpc_contact *c = &w->held.data[rows->source[i]];
            for (int k = 0; k < QPC_CONTACT_NODES; k++) keep += c->weight[k] * v3_dot(c->n, v3_load(w->v_frame + 3 * c->node[k]));
        } else if (qpc_row_limits_strain(rows->kind[i]) && level == 2) {
            int32_t node = w->spring_node[rows->source[i]], other = qpc_springs_other(&w->springs, rows->source[i]);
            keep = -v3_dot(qpc_step_limit_direction(w, i), v3_sub(v3_load(w->v_frame + 3 * node), v3_load(w->v_frame + 3 * other)));
        } else
            continue;
        if (!(rows->c[i] < keep)) continue;
        *largest = fmax(*largest, keep - rows->c[i]);
        rows->c[i] = keep;
        any = true;
    }
    return any;
}

void qpc_step_clear_rows(qpc_world *w) {
    qpc_rows_clear(&w->rows);
    w->held.count = 0;
}

// ---- warm multipliers ----

/// Keep the multipliers of the rows just solved, sorted by key.
qpc_status qpc_step_keep_warm(qpc_world *w, double h, qpc_error *err) {
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
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    qpc_keyed *list = qpc_arena_array(&w->arena, 2 * (size_t)rows->m, sizeof *list);
    if (list == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d multipliers", rows->m);
    int32_t positive = 0, count = 0;
    for (int32_t i = 0; i < rows->m; i++)
        if ((rows->lambda[i] > 0.0 || (rows->equality[i] && rows->lambda[i] < 0.0)) && isfinite(rows->lambda[i])) list[positive++] = (qpc_keyed){rows->key[i], i};
    list = qpc_keyed_sort(list, list + rows->m, positive);
    for (int32_t i = 0; i < positive; i++) { // equal keys are summed up
        double lambda = rows->lambda[list[i].item];
        if (i > 0 && list[i].key == list[i - 1].key) {
            w->warm_lambda[count - 1] += lambda;
            continue;
        }
        w->warm_key[count] = list[i].key;
        w->warm_lambda[count++] = lambda;
    }
    qpc_arena_rewind(&w->arena, mark);
    w->warm_count = count;
    w->warm_h = h;
    return QPC_OK;
}

/// What a contact is to the obstacle: kind and number of its second feature; 0 for rows that are no contacts.
static uint64_t place_of(uint64_t key) {
    static const uint64_t kind[16] = {[0] = 1, [1] = 2, [2] = 3, [3] = 3, [4] = 2}; // face, edge, vertex
    return kind[key >> 60] << 30 | (kind[key >> 60] != 0 ? key & 0x3fffffff : 0);
}

/// Multipliers whose row is gone. A cable of fine particles slides on by an edge or two a step: its contact with an edge
/// of the obstacle has another name then, but is the same. The most violated row at that feature gets what is left there.
static qpc_status hand_on(qpc_world *w, qpc_error *err) {
    const qpc_rows *rows = &w->rows;
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    qpc_keyed *left = qpc_arena_array(&w->arena, 2 * (size_t)w->warm_count, sizeof *left);
    int32_t *heir = qpc_arena_array(&w->arena, (size_t)w->warm_count, sizeof *heir);
    if (left == NULL || heir == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d multipliers", w->warm_count);
    int32_t count = 0;
    for (int32_t i = 0, at = 0; i < w->warm_count; i++) {
        while (at < rows->m && rows->key[rows->order[at]] < w->warm_key[i]) at++;
        if (at < rows->m && rows->key[rows->order[at]] == w->warm_key[i]) continue;
        uint64_t place = place_of(w->warm_key[i]);
        if (place != 0) left[count++] = (qpc_keyed){place, i};
    }
    left = qpc_keyed_sort(left, left + w->warm_count, count);
    for (int32_t i = 0; i < count; i++) heir[i] = -1;
    for (int32_t r = 0; r < rows->m && count > 0; r++) {
        uint64_t place = place_of(rows->key[r]);
        if (rows->kind[r] != QPC_ROW_CONTACT || rows->lambda[r] > 0.0) continue;
        int32_t low = 0, high = count - 1; // the first one there
        while (low < high) {
            int32_t middle = low + (high - low) / 2;
            if (left[middle].key < place) low = middle + 1;
            else high = middle;
        }
        if (left[low].key == place && (heir[low] < 0 || rows->c[r] < rows->c[heir[low]])) heir[low] = r;
    }
    for (int32_t i = 0, first = 0; i < count; i++) {
        if (left[i].key != left[first].key) first = i;
        if (heir[first] >= 0) rows->lambda[heir[first]] += w->warm_lambda[left[i].item];
    }
    qpc_arena_rewind(&w->arena, mark);
    return QPC_OK;
}

qpc_status qpc_step_start_warm(qpc_world *w, double h, qpc_error *err) {
    qpc_rows_warm_start(&w->rows, w->warm_key, w->warm_lambda, w->warm_count);
    qpc_status st = w->rows.m > 0 ? hand_on(w, err) : QPC_OK;
    if (w->warm_h != h) // impulses of resting contacts are forces times h
        for (int32_t i = 0; i < w->rows.m; i++) w->rows.lambda[i] *= h / w->warm_h;
    return st;
}

/// Rows of contacts by proximity at the start of the motion.
qpc_status qpc_step_add_near_rows(qpc_world *w, const qpc_trial *t, qpc_error *err) {
    qpc_row_frame frame = qpc_step_frame(w, t->h);
    double floor = t->gentle ? 0.0 : -w->recovery * t->h;
    for (int32_t i = 0; i < w->near.count; i++) {
        const qpc_contact *c = &w->near.data[i];
        if (qpc_obstacle_responds(w, c)) continue;
        qpc_status st = hold(w, c, err);
        if (st == QPC_OK)
            st = qpc_rows_add_contact(&w->rows, &frame, c, qpc_step_separation(w, t->h, c), floor, w->held.count - 1, err);
        if (st != QPC_OK) return st;
    }
    return QPC_OK;
}
