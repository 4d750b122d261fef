/// Sides of meshes at the start; see sides.h.
///
///        group 0         group 1          group 2
///      o-----o-----o  |              |  o-----o-----o
///   ===============\==================/===============   mesh
///                   o-----o-----o----o
///
/// The cost of a group is the longest way of its nodes to the mesh; a group with a fixed node, or with
/// one that is farther from the mesh than it may move, cannot go. Groups of one parity stay: that of
/// the group that cannot go, or else the one whose others have the shorter way. Nodes that lie on the
/// mesh have no side of their own: they follow a neighbour, or the outward normal.
#include "engine/world/sides.h"

#include "engine/geometry/closest.h"
#include "engine/geometry/topology.h"
#include "engine/world/attempt.h"

#include <string.h>

static const double ON = 1e-9; // of the thickness: nearer than this a node has no side
static const double THERE = 0.999; // of the thickness: a node that has gone so far through is there

static qpc_vec3 corner(const qpc_world *w, const double *x, int32_t body, int32_t triangle, int32_t k) {
    const qpc_body *b = &w->bodies[body];
    return v3_load(x + 3 * (int64_t)(b->first_node + qpc_mesh_elements(b->mesh)[3 * (int64_t)triangle + k]));
}

qpc_status qpc_sides_init(qpc_sides *s, const qpc_world *w, const double *limit, qpc_error *err) {
    size_t n = (size_t)w->free_count + 1;
    *s = (qpc_sides){.w = w, .limit = limit};
    s->tree = qpc_calloc((size_t)w->body_count, sizeof *s->tree);
    s->seen = qpc_calloc((size_t)w->body_count, sizeof *s->seen);
    s->first = qpc_alloc_array(n, sizeof *s->first);
    s->first_exit = qpc_alloc_array(n, sizeof *s->first_exit);
    s->group = qpc_calloc(n, sizeof *s->group);
    s->closest = qpc_calloc(n, sizeof *s->closest);
    s->distance = qpc_calloc(n, sizeof *s->distance);
    s->toward = qpc_calloc(n, sizeof *s->toward);
    s->bary = qpc_calloc(n, sizeof *s->bary);
    if (s->seen == NULL || s->first == NULL || s->first_exit == NULL || s->tree == NULL || s->group == NULL || s->closest == NULL || s->distance == NULL || s->toward == NULL ||
        s->bary == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory to separate the start");
    for (size_t i = 0; i < n; i++) s->first[i] = s->first_exit[i] = -1;
    return QPC_OK;
}

void qpc_sides_fini(qpc_sides *s) {
    for (int32_t i = 0; s->tree != NULL && i < s->w->body_count; i++) {
        qpc_bvh_destroy(s->tree[i].bvh);
        qpc_free(s->tree[i].boxes);
    }
    void *arrays[] = {s->seen, s->first, s->first_exit, s->tree, s->group, s->closest, s->distance, s->toward, s->bary};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) qpc_free(arrays[i]);
    qpc_array_fini(&s->found);
    qpc_array_fini(&s->through);
    qpc_array_fini(&s->exits);
}

const qpc_through *qpc_sides_find(const qpc_sides *s, int32_t node, int32_t body) {
    if (node >= s->w->free_count) return NULL;
    for (int32_t i = s->first[node]; i >= 0; i = s->through.data[i].next)
        if (s->through.data[i].body == body) return &s->through.data[i];
    return NULL;
}

bool qpc_sides_passes(const qpc_sides *s, int32_t node, int32_t body) {
    if (node >= s->w->free_count) return false;
    if (qpc_sides_find(s, node, body) != NULL) return true;
    for (int32_t from = node > 0 ? node - 1 : node; from <= node; from++)
        for (int32_t i = s->first_exit[from]; i >= 0; i = s->exits.data[i].next)
            if (s->exits.data[i].body == body) return true;
    return false;
}

/// The tree over a mesh that does not move while the start is separated.
static qpc_status plant(qpc_sides *s, const double *x, int32_t body, qpc_error *err) {
    qpc_mesh_tree *tree = &s->tree[body];
    if (tree->bvh != NULL) return QPC_OK;
    int32_t count = (int32_t)qpc_mesh_element_count(s->w->bodies[body].mesh);
    tree->boxes = qpc_alloc_array((size_t)count, sizeof *tree->boxes);
    if (tree->boxes == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory to separate the start");
    v3_store(tree->origin, corner(s->w, x, body, 0, 0));
    for (int32_t t = 0; t < count; t++) {
        double low[3] = {HUGE_VAL, HUGE_VAL, HUGE_VAL}, high[3] = {-HUGE_VAL, -HUGE_VAL, -HUGE_VAL};
        for (int32_t k = 0; k < 3; k++) {
            double p[3];
            v3_store(p, corner(s->w, x, body, t, k));
            for (int d = 0; d < 3; d++) {
                low[d] = fmin(low[d], p[d]);
                high[d] = fmax(high[d], p[d]);
            }
        }
        tree->boxes[t] = qpc_fbox_around(low, high, tree->origin);
    }
    return qpc_bvh_build(tree->boxes, count, &tree->bvh, err);
}

/// Nearest point of a mesh to a node, if it is within reach; of equally near triangles the first.
static qpc_status nearest(qpc_sides *s, const double *x, int32_t node, int32_t body, double reach, qpc_error *err) {
    const qpc_mesh_tree *tree = &s->tree[body];
    qpc_vec3 at = v3_load(x + 3 * (int64_t)node);
    double low[3] = {at.x - reach, at.y - reach, at.z - reach}, high[3] = {at.x + reach, at.y + reach, at.z + reach};
    qpc_fbox box = qpc_fbox_around(low, high, tree->origin);
    uint64_t tests = 0;
    s->found.count = 0;
    s->distance[node] = HUGE_VAL;
    qpc_status st = qpc_bvh_query(tree->bvh, tree->boxes, &box, &s->found, &tests);
    if (st != QPC_OK) return qpc_fail(err, st, "no memory to separate the start");
    for (int32_t i = 0; i < s->found.count; i++) {
        int32_t t = s->found.data[i];
        qpc_vec3 p[4] = {at, corner(s->w, x, body, t, 0), corner(s->w, x, body, t, 1), corner(s->w, x, body, t, 2)};
        qpc_closest near;
        qpc_closest_vt(p, &near);
        if (near.distance > reach || near.distance > s->distance[node]) continue;
        if (near.distance == s->distance[node] && t > s->closest[node]) continue;
        s->distance[node] = near.distance;
        s->closest[node] = t;
        s->toward[node] = v3_neg(near.d);
        memcpy(s->bary[node], near.weight + 1, 3 * sizeof(double));
    }
    return QPC_OK;
}

static qpc_vec3 outward(const qpc_world *w, const double *x, int32_t body, int32_t triangle) {
    qpc_vec3 a = corner(w, x, body, triangle, 0);
    qpc_vec3 n = v3_cross(v3_sub(corner(w, x, body, triangle, 1), a), v3_sub(corner(w, x, body, triangle, 2), a));
    double length = v3_norm(n);
    return length > 0.0 ? v3_scale(1.0 / length, n) : v3(0.0, 0.0, 1.0);
}

static int sign_of(double a) { return (a > 0.0) - (a < 0.0); }

/// Does the edge come out on the other side? The number of distinct points where it crosses is odd.
static bool changes_side(const qpc_world *w, const double *x, int32_t node, int32_t body, const qpc_overlap *o, int32_t count) {
    qpc_vec3 p = v3_load(x + 3 * (int64_t)node), q = v3_load(x + 3 * (int64_t)node + 3);
    bool odd = false;
    for (int32_t i = 0; i < count; i++) {
        qpc_vec3 n = outward(w, x, body, o[i].feature[1]), a = corner(w, x, body, o[i].feature[1], 0);
        double before = v3_dot(n, v3_sub(p, a)), after = v3_dot(n, v3_sub(q, a));
        if (!(before * after < 0.0)) continue; // along the plane
        double t = before / (before - after);
        bool same = false; // an edge or corner of the mesh is crossed in each of its triangles, once
        for (int32_t k = 0; k < i && !same; k++) {
            qpc_vec3 m = outward(w, x, body, o[k].feature[1]), b = corner(w, x, body, o[k].feature[1], 0);
            double f = v3_dot(m, v3_sub(p, b)), g = v3_dot(m, v3_sub(q, b));
            same = f * g < 0.0 && sign_of(f) == sign_of(before) && fabs(f / (f - g) - t) < 1e-9;
        }
        if (!same) odd = !odd;
    }
    return odd;
}

static qpc_status decide_node(qpc_sides *s, int32_t cable, int32_t body, int32_t node, qpc_vec3 n, qpc_error *err) {
    const qpc_body *mesh = &s->w->bodies[body];
    const int32_t *corners = qpc_mesh_elements(mesh->mesh) + 3 * (int64_t)s->closest[node];
    qpc_through made = {.body = body, .next = s->first[node]};
    qpc_contact *c = &made.row;
    c->kind = QPC_CONTACT_VT;
    c->key = UINT64_C(0xD) << 60 | (uint64_t)(uint32_t)node << 28 | (uint64_t)(uint32_t)body;
    c->node[0] = node;
    c->weight[0] = 1.0;
    for (int32_t k = 0; k < 3; k++) {
        c->node[1 + k] = mesh->first_node + corners[k];
        c->weight[1 + k] = s->bary[node][k];
    }
    c->n = n;
    c->distance = s->distance[node];
    c->separation = s->w->bodies[cable].radius + mesh->radius;
    c->surface[0] = cable;
    c->surface[1] = body;
    c->feature[0] = node - s->w->bodies[cable].first_node;
    c->feature[1] = s->closest[node];
    if (!qpc_array_push(&s->through, made)) return qpc_fail(err, QPC_ERR_MEMORY, "no memory to separate the start");
    s->first[node] = s->through.count - 1;
    return QPC_OK;
}

/// Groups of the nodes of a cable, from 0; *ret_count of them. distance, toward and closest are of every node
/// within its limit of the mesh.
static qpc_status cut_into_groups(qpc_sides *s, const double *x, const qpc_body *cable, int32_t body, const qpc_overlap *o,
                                  int32_t count, int32_t *ret_count, qpc_error *err) {
    const qpc_world *w = s->w;
    double on = ON * (cable->radius + w->bodies[body].radius);
    int32_t first = cable->first_node, end = first + cable->node_count, group = 0, at = 0;
    int32_t back = first - 1; // the last node so far that is not on the mesh
    for (int32_t node = first; node < end; node++) {
        qpc_status st = nearest(s, x, node, body, s->limit[node], err);
        if (st != QPC_OK) return st;
        s->group[node] = group;
        int32_t from = at;
        while (at < count && o[at].feature[0] == node - first) at++;
        if (node + 1 == end) break;
        if (s->distance[node] <= on) { // from the last node before those on the mesh to the next: has the side changed?
            qpc_vec3 n = outward(w, x, body, s->closest[node]), here = v3_load(x + 3 * (int64_t)node);
            int next = sign_of(v3_dot(n, v3_sub(v3_load(x + 3 * (int64_t)node + 3), here)));
            int last = back < first ? next : sign_of(v3_dot(n, v3_sub(v3_load(x + 3 * (int64_t)back), here)));
            if (next * last < 0) group++;
            continue;
        }
        back = node;
        qpc_vec3 p = v3_load(x + 3 * (int64_t)node + 3);
        bool next_on = false;
        for (int32_t i = from; i < at && !next_on; i++) {
            qpc_vec3 t[4] = {p, corner(w, x, body, o[i].feature[1], 0), corner(w, x, body, o[i].feature[1], 1),
                             corner(w, x, body, o[i].feature[1], 2)};
            qpc_closest near;
            qpc_closest_vt(t, &near);
            next_on = near.distance <= on;
        }
        if (!next_on && changes_side(w, x, node, body, o + from, at - from)) group++;
    }
    *ret_count = group + 1;
    return QPC_OK;
}

/// Which groups go, given the cost of each: those of the other parity than the last one before them that cannot
/// go, or the first one after them; if all can, those with the shorter way.
static void choose_groups(const double *cost, int32_t count, bool *goes) {
    double worst[2] = {0.0, 0.0};
    int32_t stays = -1;
    for (int32_t i = count - 1; i >= 0; i--) {
        if (isinf(cost[i])) stays = i % 2;
        worst[i % 2] = fmax(worst[i % 2], cost[i]);
    }
    if (stays < 0) stays = worst[1] <= worst[0] ? 0 : 1;
    for (int32_t i = 0; i < count; i++) {
        if (isinf(cost[i])) stays = i % 2;
        goes[i] = i % 2 != stays;
    }
}

/// One cable against one mesh.
static qpc_status decide_pair(qpc_sides *s, const double *x, int32_t index, int32_t body, const qpc_overlap *o, int32_t count,
                              int32_t *ret_new, qpc_error *err) {
    const qpc_world *w = s->w;
    const qpc_body *cable = &w->bodies[index];
    double thickness = cable->radius + w->bodies[body].radius, on = ON * thickness;
    int32_t first = cable->first_node, end = first + cable->node_count, groups = 0;
    qpc_status st = plant(s, x, body, err);
    if (st == QPC_OK) st = cut_into_groups(s, x, cable, body, o, count, &groups, err);
    if (st != QPC_OK) return st;
    double *cost = qpc_calloc((size_t)groups, sizeof *cost);
    bool *goes = qpc_calloc((size_t)groups, sizeof *goes);
    if (cost == NULL || goes == NULL) {
        qpc_free(cost);
        qpc_free(goes);
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory to separate the start");
    }
    for (int32_t node = first; node < end; node++) {
        bool stuck = w->row_dof[node] < 0 || !(s->distance[node] + thickness <= s->limit[node]);
        if (s->distance[node] <= on) continue; // goes wherever its neighbours are
        if (stuck || qpc_sides_find(s, node, body) != NULL) cost[s->group[node]] = HUGE_VAL;
        cost[s->group[node]] = fmax(cost[s->group[node]], s->distance[node]);
    }
    choose_groups(cost, groups, goes);
    int32_t other = first; // the nearest node off the mesh, before or, at the beginning, after
    while (other < end && s->distance[other] <= on) other++;
    for (int32_t node = first; node < end && st == QPC_OK; node++) {
        int32_t g = s->group[node];
        if (s->distance[node] > on) other = node;
        if (w->row_dof[node] < 0 || qpc_sides_find(s, node, body) != NULL) continue;
        if (s->distance[node] > on) {
            if (!goes[g]) continue;
            st = decide_node(s, index, body, node, v3_scale(1.0 / s->distance[node], s->toward[node]), err);
        } else { // on the mesh: to where the nearest neighbour off it ends up
            qpc_vec3 n = outward(w, x, body, s->closest[node]);
            int side = 1;
            if (other < end) {
                side = sign_of(v3_dot(n, v3_sub(v3_load(x + 3 * (int64_t)other), v3_load(x + 3 * (int64_t)node))));
                if (goes[s->group[other]]) side = -side;
            }
            st = decide_node(s, index, body, node, side < 0 ? v3_neg(n) : n, err);
        }
        if (st == QPC_OK) ++*ret_new;
    }
    qpc_free(cost);
    qpc_free(goes);
    return st;
}

/// The way out for the edge p past edge e of a mesh: away from all triangles there, which have to lie on one side.
/// False if the surface goes on to the other side.
static bool way_past(const double *x, const qpc_body *mesh, int32_t e, const qpc_vec3 p[2], qpc_closest *ret,
                     qpc_vec3 *ret_n) {
    const qpc_topology *t = qpc_mesh_topology(mesh->mesh);
    const int32_t *ends = t->edge_vertex + 2 * (int64_t)e;
    qpc_vec3 q[4] = {p[0], p[1], v3_load(x + 3 * (int64_t)(mesh->first_node + ends[0])),
                     v3_load(x + 3 * (int64_t)(mesh->first_node + ends[1]))};
    qpc_vec3 n = v3_cross(v3_sub(p[1], p[0]), v3_sub(q[3], q[2]));
    double length = v3_norm(n);
    if (!(length > 1e-6 * v3_norm(v3_sub(p[1], p[0])) * v3_norm(v3_sub(q[3], q[2])))) return false; // side by side
    n = v3_scale(1.0 / length, n);
    int side = 0;
    for (int32_t i = t->edge_triangle_start[e]; i < t->edge_triangle_start[e + 1]; i++) {
        const int32_t *corners = qpc_mesh_elements(mesh->mesh) + 3 * (int64_t)t->edge_triangle[i];
        for (int k = 0; k < 3; k++) {
            if (corners[k] == ends[0] || corners[k] == ends[1]) continue;
            double off = v3_dot(n, v3_sub(v3_load(x + 3 * (int64_t)(mesh->first_node + corners[k])), q[2]));
            if (off == 0.0 || side * off < 0.0) return false;
            side = off > 0.0 ? 1 : -1;
        }
    }
    qpc_closest_ee(q, ret);
    *ret_n = side > 0 ? v3_neg(n) : n;
    return side != 0;
}

/// The shortest way out of a mesh for an edge that crosses it, into exits; none near enough: nothing is done.
static qpc_status decide_exit(qpc_sides *s, const double *x, int32_t index, int32_t body, int32_t feature, int32_t *ret_new,
                              qpc_error *err) {
    const qpc_world *w = s->w;
    const qpc_body *cable = &w->bodies[index], *mesh = &w->bodies[body];
    const qpc_mesh_tree *tree = &s->tree[body];
    const qpc_topology *topology = qpc_mesh_topology(mesh->mesh);
    int32_t node = cable->first_node + feature;
    double thickness = cable->radius + mesh->radius, reach = fmax(s->limit[node], s->limit[node + 1]), best = reach;
    qpc_vec3 p[2] = {v3_load(x + 3 * (int64_t)node), v3_load(x + 3 * (int64_t)node + 3)};
    double low[3] = {fmin(p[0].x, p[1].x) - reach, fmin(p[0].y, p[1].y) - reach, fmin(p[0].z, p[1].z) - reach};
    double high[3] = {fmax(p[0].x, p[1].x) + reach, fmax(p[0].y, p[1].y) + reach, fmax(p[0].z, p[1].z) + reach};
    qpc_fbox box = qpc_fbox_around(low, high, tree->origin);
    qpc_through made = {.body = body, .next = s->first_exit[node]};
    uint64_t tests = 0;
    s->found.count = 0;
    qpc_status st = qpc_bvh_query(tree->bvh, tree->boxes, &box, &s->found, &tests);
    if (st != QPC_OK) return qpc_fail(err, st, "no memory to separate the start");
    for (int32_t i = 0; i < 3 * s->found.count; i++) {
        int32_t e = topology->triangle_edge[3 * (int64_t)s->found.data[i / 3] + i % 3];
        qpc_closest near;
        qpc_vec3 n;
        if (e < 0 || !way_past(x, mesh, e, p, &near, &n)) continue;
        double way = thickness - v3_dot(n, near.d);
        if (way > best || (way == best && made.row.node[3] != 0 && e > made.row.feature[1])) continue;
        if (v3_dot(n, near.d) > 0.0) continue; // not in the way
        best = way;
        made.row.n = n;
        memcpy(made.row.weight, near.weight, sizeof near.weight);
        made.row.feature[1] = e;
        for (int k = 0; k < 2; k++) made.row.node[2 + k] = mesh->first_node + topology->edge_vertex[2 * (int64_t)e + k];
    }
    if (made.row.node[3] == 0) return QPC_OK; // node 0 is a cable's
    made.row.kind = QPC_CONTACT_EE;
    made.row.key = UINT64_C(0xC) << 60 | (uint64_t)(uint32_t)node << 28 | (uint64_t)(uint32_t)body;
    made.row.node[0] = node;
    made.row.node[1] = node + 1;
    made.row.separation = thickness;
    made.row.distance = best;
    made.row.surface[0] = index;
    made.row.surface[1] = body;
    made.row.feature[0] = feature;
    for (int32_t i = s->first_exit[node]; i >= 0; i = s->exits.data[i].next)
        if (s->exits.data[i].body == body) { // it slid along: the rim turned
            s->exits.data[i].row = made.row;
            return QPC_OK;
        }
    if (!qpc_array_push(&s->exits, made)) return qpc_fail(err, QPC_ERR_MEMORY, "no memory to separate the start");
    s->first_exit[node] = s->exits.count - 1;
    ++*ret_new;
    return QPC_OK;
}

/// The node has still to go through the mesh at x.
static bool on_its_way(const qpc_sides *s, const double *x, int32_t node, int32_t body) {
    const qpc_through *t = qpc_sides_find(s, node, body);
    return t != NULL && qpc_contact_gap_at(&t->row, x) < THERE * t->row.separation;
}

/// Exits of edges that cross a mesh and of which neither end has still to go through it: it cannot, or it is there and
/// the edge is left across a rim, its ends on two sides of it.
static qpc_status decide_exits(qpc_sides *s, const double *x, const qpc_overlap *o, int32_t count, int32_t *ret_new,
                               qpc_error *err) {
    qpc_status st = QPC_OK;
    for (int32_t i = 0; i < count && st == QPC_OK; i++) {
        int32_t node = s->w->bodies[o[i].surface[0]].first_node + o[i].feature[0];
        if (i > 0 && o[i - 1].feature[0] == o[i].feature[0]) continue;
        if (s->w->bodies[o[i].surface[0]].node_count < 2) continue;
        if (on_its_way(s, x, node, o[i].surface[1]) || on_its_way(s, x, node + 1, o[i].surface[1])) continue;
        st = decide_exit(s, x, o[i].surface[0], o[i].surface[1], o[i].feature[0], ret_new, err);
    }
    return st;
}

/// Overlaps of one cable with several meshes are interleaved: by mesh, in order of edges.
qpc_status qpc_sides_decide(qpc_sides *s, const double *x, const qpc_overlap *overlaps, int32_t count, int32_t *ret_new,
                            qpc_error *err) {
    const qpc_world *w = s->w;
    qpc_overlap *mine = qpc_alloc_array((size_t)count + 1, sizeof *mine);
    qpc_status st = mine != NULL ? QPC_OK : qpc_fail(err, QPC_ERR_MEMORY, "no memory to separate the start");
    *ret_new = 0;
    memset(s->seen, 0, (size_t)w->body_count * sizeof *s->seen);
    int32_t end = 0;
    for (int32_t i = 0; i < count && st == QPC_OK; i++) {
        int32_t cable = overlaps[i].surface[0], body = overlaps[i].surface[1], found = 0;
        while (end < count && (end <= i || overlaps[end].surface[0] == cable)) end++;
        if (w->bodies[cable].mesh != NULL) continue; // cloth that intersects is not separated
        if (w->bodies[body].mesh == NULL || w->bodies[body].motion == QPC_DYNAMIC || s->seen[body] == cable + 1) continue;
        s->seen[body] = cable + 1;
        for (int32_t k = i; k < end; k++)
            if (overlaps[k].surface[1] == body) mine[found++] = overlaps[k];
        st = decide_pair(s, x, cable, body, mine, found, ret_new, err);
        if (st == QPC_OK) st = decide_exits(s, x, mine, found, ret_new, err);
    }
    qpc_free(mine);
    return st;
}
