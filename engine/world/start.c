/// The start of a world: what intersects or lies within its thickness, and, if the scene asks for it
/// (start: "push-out"), the smallest moves of free nodes that separate it.
///
/// The moves u solve  min 1/2 |u|^2  subject to  n.(sum w (x0 + u)) >= thickness  for every pair of
/// features, linearised again where the last solution led to until nothing is left: the QP of a step with K = I.
/// |u_i| <= limit is a ball, cut by planes. The answer counts only when the exact overlap test and the proximity
/// test find nothing at it, and continuous detection nothing on the way that was apart before. Nodes that are not
/// moved keep their bits. Runs on the thread that makes the world.
#include "engine/world/sides.h"
#include "engine/world/world.h"

#include <stdio.h>
#include <string.h>

static const double AIM = 1e-3;      // of the thickness: how much more than it is asked for
static const double ENOUGH = 1e-9;   // of the thickness: what may be missing
static const double TOUCHING = 1e-9; // of the thickness: nearer than this a pair says nothing about direction
enum {
    MOST_ROUNDS = 60,  // linearisations
    MOST_CUTS = 12,    // solutions of one linearisation until every node is within its limit
    MOST_STALLS = 8,   // rounds without a smaller rest
    RELAX_STEPS = 6,
    NAMED_PAIRS = 4,
};

typedef struct push_out {
    qpc_world *w;
    double *x0;     // (nodes x 3) as the scene has it
    double *x;      // (nodes x 3) where the last solution led to: w->x1
    double *limit;  // (free nodes) m
    qpc_sides sides;
    QPC_ARRAY(qpc_overlap) overlaps; // at x
    int64_t overlap_count;
    double rest;                     // what is missing at x: sum over pairs within thickness, m
    int64_t close_count;
    qpc_contacts planes;             // contacts with a row so far, sorted by key
    QPC_ARRAY(qpc_contact) cuts;     // of the balls; separation is what keeps the node within
    qpc_arena arena;
} push_out;

// ---- what is there ----

/// "body 1 (pulley)" into out.
static const char *body_label(const qpc_world *w, int32_t body, char *out, size_t size) {
    if (w->bodies[body].name[0] != '\0')
        snprintf(out, size, "body %d (%s)", body, w->bodies[body].name);
    else
        snprintf(out, size, "body %d", body);
    return out;
}

static void add_pair(qpc_scene_report *report, const int32_t body[2], const int32_t feature[2], double depth) {
    if (report->pair_count >= QPC_SCENE_PAIRS_MAX) return;
    qpc_scene_pair *pair = &report->pair[report->pair_count++];
    memcpy(pair->body, body, sizeof pair->body);
    memcpy(pair->feature, feature, sizeof pair->feature);
    pair->depth = depth;
}

/// The first pairs of a report as text, after what `text` holds.
static void name_pairs(const qpc_world *w, const qpc_scene_report *report, int64_t total, const char *what, char *text,
                       size_t size) {
    char a[96], b[96];
    size_t used = strlen(text);
    for (int32_t i = 0; i < report->pair_count && i < NAMED_PAIRS && used < size; i++) {
        const qpc_scene_pair *p = &report->pair[i];
        used += (size_t)snprintf(text + used, size - used, "%s%s feature %d with %s feature %d, %s %.3g m", i > 0 ? "; " : "",
                                 body_label(w, p->body[0], a, sizeof a), p->feature[0],
                                 body_label(w, p->body[1], b, sizeof b), p->feature[1], what, p->depth);
    }
    if (total > NAMED_PAIRS && used < size) snprintf(text + used, size - used, "; ...");
}

static bool is_close(const qpc_contact *c) { return c->distance < c->separation * (1.0 - ENOUGH); }

/// Overlaps and pairs within thickness at w->x into the report; proximity into w->near.
static qpc_status look(qpc_world *w, qpc_scene_report *report, qpc_error *err) {
    qpc_overlap found[QPC_SCENE_PAIRS_MAX];
    int64_t count;
    qpc_status st = qpc_detect_overlaps(w->detector, w->x, found, QPC_SCENE_PAIRS_MAX, &count, err);
    if (st != QPC_OK) return st;
    report->overlap_count = count;
    for (int32_t i = 0; i < count && i < QPC_SCENE_PAIRS_MAX; i++)
        add_pair(report, found[i].surface, found[i].feature, found[i].depth);
    st = qpc_detect_proximity(w->detector, w->x, w->solver.reach, &w->near, err);
    if (st != QPC_OK) return st;
    w->near_valid = true;
    for (int32_t i = 0; i < w->near.count; i++) {
        const qpc_contact *c = &w->near.data[i];
        if (!is_close(c)) continue;
        report->close_count++;
        add_pair(report, c->surface, c->feature, c->separation - c->distance);
    }
    return QPC_OK;
}

// ---- planes ----

static bool is_mesh(const qpc_world *w, int32_t body) { return w->bodies[body].mesh != NULL; }

/// An edge that crosses a mesh says nothing about where to go; neither does a node on its wrong side.
static bool misleads(const push_out *p, const qpc_contact *c) {
    const qpc_world *w = p->w;
    if (!is_mesh(w, c->surface[1])) return false;
    int32_t nodes = c->kind == QPC_CONTACT_VT ? 1 : 2;
    for (int32_t k = 0; k < nodes; k++) {
        const qpc_through *t = qpc_sides_find(&p->sides, c->node[k], c->surface[1]);
        if (t != NULL && v3_dot(t->row.n, c->n) < 0.0) return true;
    }
    for (int32_t i = 0; i < p->overlaps.count; i++) {
        const qpc_overlap *o = &p->overlaps.data[i];
        if (o->surface[0] != c->surface[0] || o->surface[1] != c->surface[1]) continue;
        bool touches = c->kind == QPC_CONTACT_EE ? o->feature[0] == c->feature[0]
                                                 : o->feature[0] == c->feature[0] || o->feature[0] + 1 == c->feature[0];
        if (touches && (c->kind == QPC_CONTACT_EE || c->distance < TOUCHING * c->separation)) return true;
    }
    return false;
}

/// Cables whose centre lines meet have no direction: one across both, carried on along the cables so
/// that neighbouring pairs agree.
static qpc_vec3 carried(const push_out *p, const qpc_contact *c, qpc_vec3 last) {
    qpc_vec3 a = v3_sub(v3_load(p->x + 3 * c->node[1]), v3_load(p->x + 3 * c->node[0]));
    qpc_vec3 b = v3_sub(v3_load(p->x + 3 * c->node[3]), v3_load(p->x + 3 * c->node[2]));
    double lengths = v3_norm(a) * v3_norm(b);
    if (v3_norm(v3_cross(a, b)) > 1e-3 * lengths) return v3_dot(c->n, last) < 0.0 ? v3_neg(c->n) : c->n;
    qpc_vec3 along = v3_norm2(a) > 0.0 ? a : b;
    if (!(v3_norm2(along) > 0.0) || !(v3_norm2(last) > 0.0)) return c->n;
    qpc_vec3 n = v3_madd(last, -v3_dot(last, along) / v3_norm2(along), along);
    return v3_norm(n) > 1e-3 ? v3_scale(1.0 / v3_norm(n), n) : c->n;
}

/// Renew and add the planes of what is near at x (w->probe, sorted by key).
static qpc_status take_planes(push_out *p, qpc_error *err) {
    qpc_world *w = p->w;
    qpc_vec3 last = v3(0.0, 0.0, 0.0);
    int32_t pair[2] = {-1, -1}, kept = 0;
    for (int32_t i = 0; i < w->probe.count; i++) {
        qpc_contact c = w->probe.data[i];
        double thickness = w->bodies[c.surface[0]].radius + w->bodies[c.surface[1]].radius;
        if (misleads(p, &c)) continue;
        if (!is_mesh(w, c.surface[1]) && c.distance < TOUCHING * thickness) {
            if (memcmp(pair, c.surface, sizeof pair) != 0) last = v3(0.0, 0.0, 0.0);
            memcpy(pair, c.surface, sizeof pair);
            c.n = last = carried(p, &c, last);
            if ((c.flags & QPC_CONTACT_NEAR_SELF) != 0) c.separation = 0.01 * thickness;
        }
        w->probe.data[kept++] = c;
    }
    w->probe.count = kept;
    if (!qpc_array_reserve(&w->merged, (int64_t)p->planes.count + kept))
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d contacts", p->planes.count + kept);
    int32_t i = 0, k = 0, count = 0;
    while (i < p->planes.count || k < kept) {
        if (k >= kept || (i < p->planes.count && p->planes.data[i].key < w->probe.data[k].key)) {
            w->merged.data[count++] = p->planes.data[i++];
            continue;
        }
        while (i < p->planes.count && p->planes.data[i].key == w->probe.data[k].key) i++;
        w->merged.data[count++] = w->probe.data[k++];
    }
    w->merged.count = count;
    qpc_contacts swap = p->planes;
    p->planes = w->merged;
    w->merged = swap;
    return QPC_OK;
}

/// What was apart and would be passed through on the straight way from x0 to x.
static qpc_status add_passed(push_out *p, int32_t *ret_count, qpc_error *err) {
    qpc_world *w = p->w;
    qpc_status st = qpc_detect_motion(w->detector, p->x0, p->x, QPC_ACCEPT_FACTOR, &w->probe, err);
    int32_t kept = 0;
    *ret_count = 0;
    if (st != QPC_OK) return st;
    for (int32_t i = 0; i < w->probe.count; i++) {
        const qpc_contact *c = &w->probe.data[i];
        bool through = false;
        for (int32_t k = 0; k < (c->kind == QPC_CONTACT_VT ? 1 : 2) && is_mesh(w, c->surface[1]); k++)
            through |= qpc_sides_find(&p->sides, c->node[k], c->surface[1]) != NULL;
        if (through || (c->flags & QPC_CONTACT_AT_START) != 0) continue;
        w->probe.data[kept++] = *c;
    }
    *ret_count = w->probe.count = kept;
    return kept > 0 ? take_planes(p, err) : QPC_OK;
}

// ---- one linearisation ----

static qpc_status make_rows(push_out *p, qpc_error *err) {
    qpc_world *w = p->w;
    qpc_row_frame frame = {w->node_count, w->row_dof, p->x0, w->v_frame, 1.0}; // nothing moves: u = dv
    qpc_status st = QPC_OK;
    qpc_rows_clear(&w->rows);
    for (int32_t i = 0; i < p->planes.count && st == QPC_OK; i++) {
        const qpc_contact *c = &p->planes.data[i];
        double aim = (c->flags & QPC_CONTACT_NEAR_SELF) != 0 ? 0.0 : AIM * c->separation;
        st = qpc_rows_add_contact(&w->rows, &frame, c, c->separation + aim, -HUGE_VAL, i, err);
    }
    for (int32_t i = 0; i < p->sides.through.count && st == QPC_OK; i++) {
        const qpc_contact *c = &p->sides.through.data[i].row;
        st = qpc_rows_add_contact(&w->rows, &frame, c, (1.0 + AIM) * c->separation, -HUGE_VAL, i, err);
    }
    for (int32_t i = 0; i < p->cuts.count && st == QPC_OK; i++) {
        const qpc_contact *c = &p->cuts.data[i];
        st = qpc_rows_add_contact(&w->rows, &frame, c, c->separation, -HUGE_VAL, i, err);
        if (st == QPC_OK) w->rows.priority[w->rows.m - 1] = 0; // the bound never gives way
    }
    return st;
}

/// The moves into w->dv. Rows that contradict give way, least in all: then something is left.
static qpc_status solve(push_out *p, qpc_error *err) {
    qpc_world *w = p->w;
    int32_t n = 3 * w->free_count;
    qpc_linsys_clear(&w->sys);
    for (int32_t i = 0; i < n; i++) qpc_linsys_add(&w->sys, i, i, 1.0);
    memset(w->b, 0, (size_t)n * sizeof *w->b);
    qpc_status st = qpc_linsys_factor(&w->sys, err);
    if (st == QPC_OK) st = make_rows(p, err);
    if (st != QPC_OK) return st;
    qpc_arena_reset(&p->arena);
    qpc_qp qp = qpc_rows_qp(&w->rows, &w->sys, w->b);
    qpc_solver_options options = qpc_solver_options_default();
    qpc_solver_report report;
    options.residual_tolerance = 1e-7 * w->min_separation;
    memset(w->dv, 0, (size_t)n * sizeof *w->dv);
    st = qpc_solve(QPC_SOLVER_AUTO, &qp, &options, &p->arena, w->dv, w->rows.lambda, &report, err);
    if (st != QPC_OK || report.outcome != QPC_OUTCOME_INFEASIBLE) return st;
    double largest;
    st = qpc_relax(&qp, 1, RELAX_STEPS, &p->arena, w->rows.c, &largest, err);
    if (st == QPC_ERR_STATE) return QPC_OK; // the last iterate will do: something is left
    if (st != QPC_OK) return st;
    memset(w->rows.lambda, 0, (size_t)w->rows.m * sizeof(double));
    return qpc_solve(QPC_SOLVER_AUTO, &qp, &options, &p->arena, w->dv, w->rows.lambda, &report, err);
}

/// A plane at the ball of a node that the solution leaves; false if it leaves none.
static qpc_status cut_balls(push_out *p, bool *ret_any, qpc_error *err) {
    const qpc_world *w = p->w;
    *ret_any = false;
    for (int32_t i = 0; i < w->free_count; i++) {
        qpc_vec3 u = v3_load(w->dv + 3 * i);
        double length = v3_norm(u), most = p->limit[i] * (1.0 - 1e-9);
        if (w->row_dof[i] < 0 || !(length > p->limit[i])) continue;
        qpc_contact c = {.kind = QPC_CONTACT_VT, .n = v3_scale(-1.0 / length, u)};
        c.key = UINT64_C(0xE) << 60 | (uint64_t)(uint32_t)i << 28 | (uint64_t)(uint32_t)p->cuts.count;
        for (int k = 0; k < 4; k++) c.node[k] = i;
        c.weight[0] = 1.0;
        c.separation = v3_dot(c.n, v3_load(p->x0 + 3 * i)) - most;
        if (!qpc_array_push(&p->cuts, c)) return qpc_fail(err, QPC_ERR_MEMORY, "no memory to separate the start");
        *ret_any = true;
    }
    return QPC_OK;
}

/// x = x0 + u, no node farther than its limit.
static void place(push_out *p) {
    const qpc_world *w = p->w;
    for (int32_t i = 0; i < w->free_count; i++) {
        qpc_vec3 u = v3_load(w->dv + 3 * i), from = v3_load(p->x0 + 3 * i);
        double length = v3_norm(u);
        bool stays = w->row_dof[i] < 0 || !(length > 1e-12 * w->min_separation);
        if (length > p->limit[i]) u = v3_scale(p->limit[i] * (1.0 - 1e-9) / length, u);
        v3_store(p->x + 3 * i, stays ? from : v3_add(from, u));
    }
}

// ---- the loop ----

/// Overlaps and proximity at x.
static qpc_status measure(push_out *p, qpc_error *err) {
    qpc_world *w = p->w;
    int32_t room = p->overlaps.capacity > 0 ? p->overlaps.capacity : 64;
    qpc_status st = QPC_OK;
    for (;;) {
        if (!qpc_array_reserve(&p->overlaps, room)) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d overlaps", room);
        st = qpc_detect_overlaps(w->detector, p->x, p->overlaps.data, p->overlaps.capacity, &p->overlap_count, err);
        if (st != QPC_OK) return st;
        if (p->overlap_count <= p->overlaps.capacity) break;
        if (p->overlap_count > INT32_MAX / 2) return qpc_fail(err, QPC_ERR_LIMIT, "too many overlaps");
        room = (int32_t)p->overlap_count;
    }
    p->overlaps.count = (int32_t)p->overlap_count;
    st = qpc_detect_proximity(w->detector, p->x, w->solver.reach, &w->probe, err);
    p->rest = 0.0;
    p->close_count = 0;
    for (int32_t i = 0; st == QPC_OK && i < p->overlaps.count; i++) {
        const int32_t *body = p->overlaps.data[i].surface;
        p->rest += p->overlaps.data[i].depth + w->bodies[body[0]].radius + w->bodies[body[1]].radius;
    }
    for (int32_t i = 0; st == QPC_OK && i < w->probe.count; i++) {
        const qpc_contact *c = &w->probe.data[i];
        if (!is_close(c)) continue;
        p->rest += c->separation - c->distance;
        p->close_count++;
    }
    return st;
}

/// *ret_done: x is separated. Otherwise x is as near to it as was found.
static qpc_status separate(push_out *p, bool *ret_done, qpc_error *err) {
    double least = HUGE_VAL;
    int32_t stalls = 0;
    *ret_done = false;
    for (int32_t round = 0; round < MOST_ROUNDS; round++) {
        int32_t passed = 0, decided = 0;
        bool any = true;
        qpc_status st = measure(p, err);
        if (st == QPC_OK && round > 0 && p->overlap_count + p->close_count == 0) {
            st = add_passed(p, &passed, err);
            if (st == QPC_OK && passed == 0) {
                *ret_done = true;
                return QPC_OK;
            }
        } else if (st == QPC_OK) {
            st = qpc_sides_decide(&p->sides, p->x, p->overlaps.data, p->overlaps.count, &decided, err);
            if (st == QPC_OK) st = take_planes(p, err);
        }
        stalls = p->rest < 0.999 * least || decided > 0 ? 0 : stalls + 1;
        least = fmin(least, p->rest);
        if (st != QPC_OK || stalls > MOST_STALLS) return st;
        for (int32_t cut = 0; cut < MOST_CUTS && any; cut++) {
            if ((st = solve(p, err)) != QPC_OK) return st;
            if ((st = cut_balls(p, &any, err)) != QPC_OK) return st;
        }
        place(p);
    }
    return measure(p, err);
}

static int worse(const qpc_scene_pair *a, const qpc_scene_pair *b) { return a->depth > b->depth; }

/// Keep the worst pairs, worst first; among equal ones the first.
static void keep_worst(qpc_scene_report *report, const int32_t body[2], const int32_t feature[2], double depth) {
    qpc_scene_pair pair = {.depth = depth};
    memcpy(pair.body, body, sizeof pair.body);
    memcpy(pair.feature, feature, sizeof pair.feature);
    int32_t at = report->pair_count < QPC_SCENE_PAIRS_MAX ? report->pair_count++ : QPC_SCENE_PAIRS_MAX;
    while (at > 0 && worse(&pair, &report->pair[at - 1])) {
        if (at < QPC_SCENE_PAIRS_MAX) report->pair[at] = report->pair[at - 1];
        at--;
    }
    if (at < QPC_SCENE_PAIRS_MAX) report->pair[at] = pair;
}

/// What is left at x, into the report and the error.
static qpc_status refuse(push_out *p, qpc_scene_report *report, qpc_error *err) {
    qpc_world *w = p->w;
    char text[900];
    double most = 0.0, longest = 0.0;
    report->pair_count = 0;
    for (int32_t i = 0; i < p->overlaps.count; i++) {
        const qpc_overlap *o = &p->overlaps.data[i];
        double thickness = w->bodies[o->surface[0]].radius + w->bodies[o->surface[1]].radius;
        keep_worst(report, o->surface, o->feature, is_mesh(w, o->surface[1]) ? o->depth + thickness : thickness);
    }
    for (int32_t i = 0; i < w->probe.count; i++) {
        const qpc_contact *c = &w->probe.data[i];
        if (is_close(c)) keep_worst(report, c->surface, c->feature, c->separation - c->distance);
    }
    for (int32_t i = 0; i < w->free_count; i++) {
        if (w->row_dof[i] < 0) continue;
        most = fmax(most, v3_norm(v3_sub(v3_load(p->x + 3 * i), v3_load(p->x0 + 3 * i))));
        longest = fmax(longest, p->limit[i]);
    }
    report->stuck_count = p->overlap_count + p->close_count;
    snprintf(text, sizeof text,
             "the start cannot be separated by moves of at most %.3g m (start_push_limit): %lld pairs intersected and %lld were "
             "within their thickness; after moves of up to %.3g m %lld and %lld still are",
             longest, (long long)report->overlap_count, (long long)report->close_count, most, (long long)p->overlap_count,
             (long long)p->close_count);
    size_t used = strlen(text);
    if (report->pair_count > 0) snprintf(text + used, sizeof text - used, ": ");
    name_pairs(w, report, report->stuck_count, "still to go", text, sizeof text);
    return qpc_fail_at(err, QPC_ERR_INVALID, "start", "%s", text);
}

static void take_over(push_out *p, qpc_scene_report *report) {
    qpc_world *w = p->w;
    for (int32_t i = 0; i < w->free_count; i++) {
        double move = v3_norm(v3_sub(v3_load(p->x + 3 * i), v3_load(p->x0 + 3 * i)));
        if (!(move > 0.0)) continue;
        memcpy(w->x + 3 * i, p->x + 3 * i, 3 * sizeof(double));
        report->moved_count++;
        report->largest_move = fmax(report->largest_move, move);
    }
    qpc_scene_warn(report, "%lld pairs intersected and %lld were within their thickness at the start: %lld nodes were moved, by up to %g m",
                   (long long)report->overlap_count, (long long)report->close_count, (long long)report->moved_count,
                   report->largest_move);
}

static qpc_status push_apart(qpc_world *w, double limit, qpc_scene_report *report, qpc_error *err) {
    push_out p = {.w = w, .x = w->x1};
    size_t all = 3 * (size_t)w->node_count * sizeof(double);
    bool done = false;
    qpc_status st = qpc_sides_init(&p.sides, w, NULL, err);
    if (st == QPC_OK) {
        p.x0 = qpc_alloc(all);
        p.limit = qpc_calloc((size_t)w->free_count + 1, sizeof *p.limit);
        if (p.x0 == NULL || p.limit == NULL) st = qpc_fail(err, QPC_ERR_MEMORY, "no memory to separate the start");
    }
    if (st == QPC_OK) {
        memcpy(p.x0, w->x, all);
        memcpy(p.x, w->x, all);
        p.sides.limit = p.limit;
        for (int32_t i = 0; i < w->body_count; i++)
            for (int32_t k = 0; k < w->bodies[i].node_count && w->bodies[i].motion == QPC_DYNAMIC; k++)
                p.limit[w->bodies[i].first_node + k] = limit > 0.0 ? limit : QPC_START_PUSH_RADII * w->bodies[i].radius;
        st = separate(&p, &done, err);
    }
    if (st == QPC_OK && !done) st = refuse(&p, report, err);
    if (st == QPC_OK) take_over(&p, report);
    if (st == QPC_OK) st = qpc_detect_proximity(w->detector, w->x, w->solver.reach, &w->near, err);
    qpc_rows_clear(&w->rows);
    qpc_sides_fini(&p.sides);
    qpc_array_fini(&p.overlaps);
    qpc_array_fini(&p.planes);
    qpc_array_fini(&p.cuts);
    qpc_arena_fini(&p.arena);
    qpc_free(p.x0);
    qpc_free(p.limit);
    return st;
}

qpc_status qpc_start_check(qpc_world *w, bool push, double push_limit, qpc_scene_report *report, qpc_error *err) {
    qpc_status st = look(w, report, err);
    if (st != QPC_OK) return st;
    if (push && report->overlap_count + report->close_count > 0) return push_apart(w, push_limit, report, err);
    if (report->overlap_count > 0) {
        char text[512] = "";
        name_pairs(w, report, report->overlap_count, "depth", text, sizeof text);
        return qpc_fail_at(err, QPC_ERR_INVALID, "bodies", "%lld pairs intersect at the start: %s",
                           (long long)report->overlap_count, text);
    }
    if (report->close_count > 0)
        qpc_scene_warn(report, "%lld pairs start within their thickness; they are pushed out at up to %g m/s",
                       (long long)report->close_count, w->solver.recovery_speed);
    return QPC_OK;
}
