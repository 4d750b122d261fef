/// The start of a world: what intersects or lies within its thickness, and, if the scene asks for it
/// (start: "push-out"), the smallest moves of free nodes that separate it.
///
/// The moves u solve  min 1/2 |u|^2  subject to  n.(sum w (x0 + u)) >= thickness  for every pair of
/// features and |u_i| <= limit, linearised again where the last solution led to until nothing is left. With K = I
/// a QP is a projection, and Dykstra's alternating projections onto half-spaces and balls find it (for
/// half-spaces they are Hildreth's method); where there is none they end between. The answer counts only when the exact overlap test and the proximity
/// test find nothing at it, and continuous detection nothing on the way that was apart before. Nodes that are not
/// moved keep their bits. Runs on the thread that makes the world.
#include "engine/geometry/topology.h"
#include "engine/world/sides.h"
#include "engine/world/world.h"

#include <stdio.h>
#include <string.h>

static const double AIM = 1e-3;      // of the thickness: how much more than it is aimed at
static const double ENOUGH = 1e-9;   // of the thickness: what may be missing
static const double TOUCHING = 1e-9; // of the thickness: nearer than this a pair says nothing about direction
static const double SETTLED = 1e-7;  // of the smallest thickness: change of a sweep that ends the projections
static const double MOST_WORK = 2e7; // row entries that the projections of one linearisation may touch
enum {
    MOST_ROUNDS = 60,  // linearisations
    MOST_STALLS = 8,   // rounds without a smaller rest
    LEAST_SWEEPS = 100,
    MOST_SWEEPS = 5000,
    MOST_AGE = 3,      // rounds that a plane without a force is kept after it was seen last
    NAMED_PAIRS = 4,
};

typedef struct push_out {
    qpc_world *w;
    double *x0;     // (nodes x 3) as the scene has it
    double *x;      // (nodes x 3) where the last solution led to: w->x1
    double *limit;  // (free nodes) m
    int32_t *dof;   // (nodes) row_dof, but -1 for rigid bodies: they are not pushed
    qpc_sides sides;
    QPC_ARRAY(qpc_overlap) overlaps; // at x
    int64_t overlap_count;
    double rest;                     // what is missing at x: sum over pairs within thickness, m
    int64_t close_count;
    qpc_contacts planes;             // contacts with a row, sorted by key; toi: the round that saw it last
    double *pulled;                  // (free nodes x 3) Dykstra's increments of the balls, m
    int32_t round;
    bool tangled;                    // cloth intersects something: not separated
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

/// The first pairs of a report as text, after what `text` holds, with what is still to go.
static void name_pairs(const qpc_world *w, const qpc_scene_report *report, int64_t total, char *text, size_t size) {
    char a[96], b[96];
    size_t used = strlen(text);
    for (int32_t i = 0; i < report->pair_count && i < NAMED_PAIRS && used < size; i++) {
        const qpc_scene_pair *p = &report->pair[i];
        used += (size_t)snprintf(text + used, size - used, "%s%s feature %d with %s feature %d, still to go at least %.3g m", i > 0 ? "; " : "",
                                 body_label(w, p->body[0], a, sizeof a), p->feature[0],
                                 body_label(w, p->body[1], b, sizeof b), p->feature[1], p->depth);
    }
    if (total > NAMED_PAIRS && used < size) snprintf(text + used, size - used, "; ...");
}

/// The ends of an edge: of a cable by their order, of a mesh by its topology.
static void edge_ends(const qpc_world *w, int32_t body, int32_t edge, int32_t ret[2]) {
    const qpc_body *b = &w->bodies[body];
    const int32_t *ends = b->mesh != NULL ? qpc_mesh_topology(b->mesh)->edge_vertex + 2 * (int64_t)edge : NULL;
    for (int k = 0; k < 2; k++) ret[k] = ends != NULL ? ends[k] : edge + k < b->node_count ? edge + k : b->node_count - 1;
}

/// Where an edge passes the plane of a triangle; its middle if it lies in it.
static qpc_vec3 passes_at(const qpc_vec3 edge[2], const qpc_vec3 t[3]) {
    qpc_vec3 n = v3_cross(v3_sub(t[1], t[0]), v3_sub(t[2], t[0]));
    double a = v3_dot(n, v3_sub(edge[0], t[0])), b = v3_dot(n, v3_sub(edge[1], t[0]));
    double at = a == b ? 0.5 : fmin(fmax(a / (a - b), 0.0), 1.0);
    return v3_add(v3_scale(1.0 - at, edge[0]), v3_scale(at, edge[1]));
}

/// "node 3", "edge between nodes 3 and 4" or "triangle 7": what of a body is inside an obstacle.
static void name_feature(const qpc_world *w, const qpc_scene_pair *p, char *out, size_t size) {
    int32_t end[2];
    if (p->feature[1] != 1) {
        snprintf(out, size, "%s %d", p->feature[1] == 0 ? "node" : "triangle", p->feature[0]);
        return;
    }
    edge_ends(w, p->body[0], p->feature[0], end);
    snprintf(out, size, "edge between nodes %d and %d", end[0], end[1]);
}

/// What meets what, and where. How far an edge reaches behind one triangle tells nothing of how deep bodies are in each other: not said.
static void name_overlaps(const qpc_world *w, const qpc_scene_report *report, char *text, size_t size) {
    char a[96], b[96];
    size_t used = 0;
    for (int32_t i = 0; i < report->pair_count && i < report->overlap_count && i < NAMED_PAIRS && used < size; i++) {
        const qpc_scene_pair *p = &report->pair[i];
        const qpc_body *other = &w->bodies[p->body[1]];
        const char *first = body_label(w, p->body[0], a, sizeof a), *second = body_label(w, p->body[1], b, sizeof b);
        const char *then = i > 0 ? "; " : "";
        if (other->obstacle) {
            char what[80];
            name_feature(w, p, what, sizeof what);
            used += (size_t)snprintf(text + used, size - used, "%s%s %s is %.3g m inside %s", then, first, what, p->depth, second);
            continue;
        }
        int32_t end[2], with[2];
        qpc_vec3 edge[2], t[3];
        edge_ends(w, p->body[0], p->feature[0], end);
        for (int k = 0; k < 2; k++) edge[k] = v3_load(w->x + 3 * ((int64_t)w->bodies[p->body[0]].first_node + end[k]));
        if (other->mesh == NULL) {
            edge_ends(w, p->body[1], p->feature[1], with);
            used += (size_t)snprintf(text + used, size - used, "%s%s meets %s between their nodes %d, %d and %d, %d", then, first, second, end[0], end[1],
                                     with[0], with[1]);
            continue;
        }
        const int32_t *corner = qpc_mesh_elements(other->mesh) + 3 * (int64_t)p->feature[1];
        for (int k = 0; k < 3; k++) t[k] = v3_load(w->x + 3 * ((int64_t)other->first_node + corner[k]));
        qpc_vec3 at = passes_at(edge, t);
        used += (size_t)snprintf(text + used, size - used, "%s%s between its nodes %d and %d meets %s triangle %d at (%.6g, %.6g, %.6g)", then, first, end[0],
                                 end[1], second, p->feature[1], at.x, at.y, at.z);
    }
    if (report->overlap_count > NAMED_PAIRS && used < size) snprintf(text + used, size - used, "; ...");
}

static bool is_cloth(const qpc_world *w, int32_t body) {
    return w->bodies[body].motion == QPC_DYNAMIC && w->bodies[body].mesh != NULL;
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

/// It is a surface that says of every point where out is.
static bool is_obstacle(const qpc_world *w, int32_t body) { return w->bodies[body].obstacle; }

/// Edge `edge` of side i crosses the mesh of side j. Overlaps are in order of cables and edges.
static bool crosses(const push_out *p, const qpc_contact *c, int32_t edge) {
    int32_t low = 0, high = p->overlaps.count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        const qpc_overlap *o = &p->overlaps.data[middle];
        bool before = o->surface[0] != c->surface[0] ? o->surface[0] < c->surface[0] : o->feature[0] < edge;
        *(before ? &low : &high) = before ? middle + 1 : middle;
    }
    for (; low < p->overlaps.count; low++) {
        const qpc_overlap *o = &p->overlaps.data[low];
        if (o->surface[0] != c->surface[0] || o->feature[0] != edge) return false;
        if (o->surface[1] == c->surface[1]) return true;
    }
    return false;
}

/// An edge that crosses a mesh says nothing about where to go; neither does a node on its wrong side.
static bool misleads(const push_out *p, const qpc_contact *c) {
    const qpc_world *w = p->w;
    if (!is_mesh(w, c->surface[1]) || is_mesh(w, c->surface[0])) return false;
    int32_t nodes = qpc_contact_split(c);
    for (int32_t k = 0; k < nodes; k++) {
        const qpc_through *t = qpc_sides_find(&p->sides, c->node[k], c->surface[1]);
        if (t != NULL && v3_dot(t->row.n, c->n) < 0.0) return true;
    }
    if (c->kind == QPC_CONTACT_EE) return crosses(p, c, c->feature[0]);
    if (!(c->distance < TOUCHING * c->separation)) return false;
    return crosses(p, c, c->feature[0]) || crosses(p, c, c->feature[0] - 1);
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

/// Where the sides that were decided send the nodes of side i, less those of side j.
static qpc_vec3 sent(const push_out *p, const qpc_contact *c) {
    qpc_vec3 sum = v3(0.0, 0.0, 0.0);
    for (int k = 0; k < QPC_CONTACT_NODES; k++)
        for (int32_t i = p->sides.first[c->node[k]]; i >= 0; i = p->sides.through.data[i].next)
            sum = v3_madd(sum, c->weight[k], p->sides.through.data[i].row.n);
    return sum;
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
        c.toi = p->round;
        if (!is_mesh(w, c.surface[1]) && !is_obstacle(w, c.surface[1]) && c.distance < TOUCHING * thickness) {
            if (memcmp(pair, c.surface, sizeof pair) != 0) last = v3(0.0, 0.0, 0.0);
            memcpy(pair, c.surface, sizeof pair);
            c.n = carried(p, &c, last);
            if (v3_dot(c.n, sent(p, &c)) < -0.1) c.n = v3_neg(c.n); // one of them is on its way through a mesh
            last = c.n;
            if ((c.flags & QPC_CONTACT_NEAR_SELF) != 0) c.separation = 0.01 * thickness;
        }
        w->probe.data[kept++] = c;
    }
    w->probe.count = kept;
    if (!qpc_array_reserve(&w->merged, (int64_t)p->planes.count + kept))
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d contacts", p->planes.count + kept);
    // Planes that hold something stay, also when a pair is seen again with others: replacing them would let the solution
    // go back and forth between two linearisations. What holds nothing is renewed, and dropped when out of sight for long.
    int32_t i = 0, k = 0, count = 0;
    while (i < p->planes.count || k < kept) {
        if (k < kept && (i >= p->planes.count || w->probe.data[k].key < p->planes.data[i].key)) {
            w->merged.data[count++] = w->probe.data[k++];
            continue;
        }
        const qpc_contact *c = &p->planes.data[i];
        bool renewed = k < kept && w->probe.data[k].key == c->key;
        if (w->rows.lambda[i] > 0.0 || (!renewed && p->round - c->toi <= MOST_AGE)) w->merged.data[count++] = *c;
        i++;
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
        for (int32_t k = 0; k < qpc_contact_split(c) && is_mesh(w, c->surface[1]); k++)
            through |= qpc_sides_passes(&p->sides, c->node[k], c->surface[1]);
        if (through || (c->flags & QPC_CONTACT_AT_START) != 0) continue;
        w->probe.data[kept++] = *c;
    }
    *ret_count = w->probe.count = kept;
    return kept > 0 ? take_planes(p, err) : QPC_OK;
}

// ---- one linearisation ----

static qpc_status make_rows(push_out *p, qpc_error *err) {
    qpc_world *w = p->w;
    qpc_row_frame frame = {.node_count = w->node_count, .dof = p->dof, .x = p->x0, .v = w->v_frame, .dt = 1.0}; // nothing moves: u = dv
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
    for (int32_t i = 0; i < p->sides.exits.count && st == QPC_OK; i++) {
        const qpc_contact *c = &p->sides.exits.data[i].row;
        st = qpc_rows_add_contact(&w->rows, &frame, c, (1.0 + AIM) * c->separation, -HUGE_VAL, i, err);
    }
    return st;
}

/// One projection onto every half-space. Returns the largest change of a coordinate.
static double sweep_rows(const qpc_rows *rows, double *u) {
    double largest = 0.0;
    for (int32_t i = 0; i < rows->m; i++) {
        double past = -rows->c[i], norm2 = 0.0;
        for (int32_t k = rows->row_start[i]; k < rows->row_start[i + 1]; k++) {
            past += rows->value[k] * u[rows->column[k]];
            norm2 += rows->value[k] * rows->value[k];
        }
        if (!(norm2 > 0.0)) continue; // nothing of it can move
        double change = fmax(past / norm2, -rows->lambda[i]);
        rows->lambda[i] += change;
        for (int32_t k = rows->row_start[i]; k < rows->row_start[i + 1]; k++) {
            u[rows->column[k]] -= change * rows->value[k];
            largest = fmax(largest, fabs(change * rows->value[k]));
        }
    }
    return largest;
}

/// The same onto the balls of the nodes.
static void sweep_balls(push_out *p, double *u) {
    for (int32_t i = 0; i < p->w->free_count; i++) {
        qpc_vec3 at = v3_add(v3_load(u + 3 * i), v3_load(p->pulled + 3 * i));
        double length = v3_norm(at), most = p->limit[i] * (1.0 - 1e-9);
        qpc_vec3 inside = length > most ? v3_scale(most / length, at) : at;
        v3_store(u + 3 * i, inside);
        v3_store(p->pulled + 3 * i, v3_sub(at, inside));
    }
}

/// The moves into w->dv.
static qpc_status solve(push_out *p, qpc_error *err) {
    qpc_world *w = p->w;
    size_t n = 3 * (size_t)w->free_count;
    qpc_status st = make_rows(p, err);
    if (st != QPC_OK) return st;
    memset(w->dv, 0, n * sizeof(double));
    memset(p->pulled, 0, n * sizeof(double));
    double sweeps = fmax(LEAST_SWEEPS, fmin(MOST_SWEEPS, MOST_WORK / (w->rows.nnz + 3.0 * w->free_count + 1.0)));
    for (int32_t i = 0; i < sweeps; i++) {
        double change = sweep_rows(&w->rows, w->dv);
        sweep_balls(p, w->dv);
        if (change < SETTLED * w->min_separation) break;
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
    qpc_status first = measure(p, err);
    for (int32_t i = 0; first == QPC_OK && i < p->overlaps.count; i++) // which way cloth is to go, nothing tells
        p->tangled = p->tangled || is_cloth(p->w, p->overlaps.data[i].surface[0]) || is_cloth(p->w, p->overlaps.data[i].surface[1]);
    if (first != QPC_OK || p->tangled) return first;
    for (int32_t round = 0; round < MOST_ROUNDS; round++) {
        p->round = round;
        int32_t passed = 0, decided = 0;
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
        if ((st = solve(p, err)) != QPC_OK) return st;
        place(p);
    }
    return measure(p, err);
}

/// Keep the worst pairs, worst first; among equal ones the first.
static void keep_worst(qpc_scene_report *report, const int32_t body[2], const int32_t feature[2], double depth) {
    qpc_scene_pair pair = {.depth = depth};
    memcpy(pair.body, body, sizeof pair.body);
    memcpy(pair.feature, feature, sizeof pair.feature);
    for (int32_t i = 0; i < report->pair_count; i++) { // several closest points of one pair
        qpc_scene_pair *known = &report->pair[i];
        if (memcmp(known->body, body, sizeof pair.body) == 0 && memcmp(known->feature, feature, sizeof pair.feature) == 0 &&
            known->depth >= depth)
            return;
    }
    int32_t at = report->pair_count < QPC_SCENE_PAIRS_MAX ? report->pair_count++ : QPC_SCENE_PAIRS_MAX;
    while (at > 0 && depth > report->pair[at - 1].depth) {
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
        keep_worst(report, o->surface, o->feature, is_mesh(w, o->surface[1]) || is_obstacle(w, o->surface[1]) ? o->depth + thickness : thickness);
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
    snprintf(text, sizeof text, "%s%s", p->tangled ? "cloth or a soft body that intersects itself or something else is not pushed out; " : "",
             w->rigid_count > 0 ? "rigid bodies are not moved; " : "");
    size_t begun = strlen(text);
    if (longest > 0.0)
        snprintf(text + begun, sizeof text - begun,
                 "the start cannot be separated by moves of at most %.3g m (start_push_limit): %lld pairs intersected and %lld were "
                 "within their thickness; after moves of up to %.3g m %lld still intersect and %lld are still within it",
                 longest, (long long)report->overlap_count, (long long)report->close_count, most, (long long)p->overlap_count,
                 (long long)p->close_count);
    else
        snprintf(text + begun, sizeof text - begun,
                 "nothing here can be pushed out: %lld pairs intersect and %lld are within their thickness at the start",
                 (long long)p->overlap_count, (long long)p->close_count);
    size_t used = strlen(text);
    if (report->pair_count > 0) snprintf(text + used, sizeof text - used, ": ");
    name_pairs(w, report, report->stuck_count, text, sizeof text);
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
        p.dof = qpc_alloc_array((size_t)w->node_count, sizeof *p.dof);
        p.limit = qpc_calloc((size_t)w->free_count + 1, sizeof *p.limit);
        p.pulled = qpc_calloc((size_t)w->free_count + 1, 3 * sizeof *p.pulled);
        if (p.x0 == NULL || p.limit == NULL || p.pulled == NULL || p.dof == NULL) st = qpc_fail(err, QPC_ERR_MEMORY, "no memory to separate the start");
    }
    if (st == QPC_OK) {
        memcpy(p.x0, w->x, all);
        memcpy(p.x, w->x, all);
        for (int32_t i = 0; i < w->node_count; i++) p.dof[i] = i < w->free_count ? w->row_dof[i] : -1;
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
    qpc_free(p.pulled);
    qpc_free(p.x0);
    qpc_free(p.dof);
    qpc_free(p.limit);
    return st;
}

qpc_status qpc_start_check(qpc_world *w, bool push, double push_limit, qpc_scene_report *report, qpc_error *err) {
    qpc_status st = look(w, report, err);
    if (st != QPC_OK) return st;
    if (push && report->overlap_count + report->close_count > 0) return push_apart(w, push_limit, report, err);
    if (report->overlap_count > 0) {
        char text[900] = "";
        name_overlaps(w, report, text, sizeof text);
        return qpc_fail_at(err, QPC_ERR_INVALID, "bodies", "%lld pairs intersect at the start: %s",
                           (long long)report->overlap_count, text);
    }
    if (report->close_count > 0)
        qpc_scene_warn(report, "%lld pairs start within their thickness; they are pushed out at up to %g m/s",
                       (long long)report->close_count, w->solver.recovery_speed);
    return QPC_OK;
}
