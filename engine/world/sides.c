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
#include "engine/geometry/mesh.h"

#include <string.h>

static const double ON = 1e-9; // of the thickness: nearer than this a node has no side

static qpc_vec3 corner(const qpc_world *w, const double *x, int32_t body, int32_t triangle, int32_t k) {
    const qpc_body *b = &w->bodies[body];
    return v3_load(x + 3 * (int64_t)(b->first_node + qpc_mesh_elements(b->mesh)[3 * (int64_t)triangle + k]));
}

qpc_status qpc_sides_init(qpc_sides *s, const qpc_world *w, const double *limit, qpc_error *err) {
    size_t n = (size_t)w->free_count + 1;
    *s = (qpc_sides){.w = w, .limit = limit};
    s->tree = qpc_calloc((size_t)w->body_count, sizeof *s->tree);
    s->group = qpc_calloc(n, sizeof *s->group);
    s->closest = qpc_calloc(n, sizeof *s->closest);
    s->distance = qpc_calloc(n, sizeof *s->distance);
    s->toward = qpc_calloc(n, sizeof *s->toward);
    s->bary = qpc_calloc(n, sizeof *s->bary);
    if (s->tree == NULL || s->group == NULL || s->closest == NULL || s->distance == NULL || s->toward == NULL ||
        s->bary == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory to separate the start");
    return QPC_OK;
}

void qpc_sides_fini(qpc_sides *s) {
    for (int32_t i = 0; s->tree != NULL && i < s->w->body_count; i++) {
        qpc_bvh_destroy(s->tree[i].bvh);
        qpc_free(s->tree[i].boxes);
    }
    void *arrays[] = {s->tree, s->group, s->closest, s->distance, s->toward, s->bary};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) qpc_free(arrays[i]);
    qpc_array_fini(&s->found);
    qpc_array_fini(&s->through);
}

const qpc_through *qpc_sides_find(const qpc_sides *s, int32_t node, int32_t body) {
    for (int32_t i = 0; i < s->through.count; i++)
        if (s->through.data[i].row.node[0] == node && s->through.data[i].body == body) return &s->through.data[i];
    return NULL;
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

static qpc_status decide_node(qpc_sides *s, const double *x, int32_t cable, int32_t body, int32_t node, qpc_vec3 n,
                              qpc_error *err) {
    const qpc_body *mesh = &s->w->bodies[body];
    const int32_t *corners = qpc_mesh_elements(mesh->mesh) + 3 * (int64_t)s->closest[node];
    qpc_through made = {.body = body};
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
    (void)x;
    if (!qpc_array_push(&s->through, made)) return qpc_fail(err, QPC_ERR_MEMORY, "no memory to separate the start");
    return QPC_OK;
}

/// Groups of the nodes of a cable, from 0; *ret_count of them. distance, toward and closest are of every node
/// within its limit of the mesh.
static qpc_status cut_into_groups(qpc_sides *s, const double *x, const qpc_body *cable, int32_t body, const qpc_overlap *o,
                                  int32_t count, int32_t *ret_count, qpc_error *err) {
    const qpc_world *w = s->w;
    double on = ON * (cable->radius + w->bodies[body].radius);
    int32_t first = cable->first_node, end = first + cable->node_count, group = 0, at = 0;
    for (int32_t node = first; node < end; node++) {
        qpc_status st = nearest(s, x, node, body, s->limit[node], err);
        if (st != QPC_OK) return st;
        s->group[node] = group;
        int32_t from = at;
        while (at < count && o[at].feature[0] == node - first) at++;
        if (node + 1 == end) break;
        if (s->distance[node] <= on) { // from the last node before those on the mesh to the next: has the side changed?
            int32_t back = node;
            while (back >= first && s->distance[back] <= on) back--;
            qpc_vec3 n = outward(w, x, body, s->closest[node]), here = v3_load(x + 3 * (int64_t)node);
            int next = sign_of(v3_dot(n, v3_sub(v3_load(x + 3 * (int64_t)node + 3), here)));
            int last = back < first ? next : sign_of(v3_dot(n, v3_sub(v3_load(x + 3 * (int64_t)back), here)));
            if (next * last < 0) group++;
            continue;
        }
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

/// Which parity of groups stays at group g, given the cost of each group.
static int staying_parity(const double *cost, int32_t count, int32_t g) {
    for (int32_t i = g; i >= 0; i--)
        if (isinf(cost[i])) return i % 2;
    for (int32_t i = g + 1; i < count; i++)
        if (isinf(cost[i])) return i % 2;
    double worst[2] = {0.0, 0.0};
    for (int32_t i = 0; i < count; i++) worst[i % 2] = fmax(worst[i % 2], cost[i]);
    return worst[1] <= worst[0] ? 0 : 1;
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
    if (cost == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory to separate the start");
    for (int32_t node = first; node < end; node++) {
        bool stuck = w->row_dof[node] < 0 || !(s->distance[node] + thickness <= s->limit[node]);
        if (s->distance[node] <= on) continue; // goes wherever its neighbours are
        if (stuck || qpc_sides_find(s, node, body) != NULL) cost[s->group[node]] = HUGE_VAL;
        cost[s->group[node]] = fmax(cost[s->group[node]], s->distance[node]);
    }
    for (int32_t node = first; node < end && st == QPC_OK; node++) {
        int32_t g = s->group[node];
        if (w->row_dof[node] < 0 || qpc_sides_find(s, node, body) != NULL) continue;
        if (s->distance[node] > on) {
            if (g % 2 == staying_parity(cost, groups, g) || isinf(cost[g])) continue;
            st = decide_node(s, x, index, body, node, v3_scale(1.0 / s->distance[node], s->toward[node]), err);
        } else { // on the mesh: to where the nearest neighbour off it ends up
            int32_t other = node;
            while (other >= first && s->distance[other] <= on) other--;
            if (other < first)
                for (other = node; other < end && s->distance[other] <= on;) other++;
            qpc_vec3 n = outward(w, x, body, s->closest[node]);
            int side = 1;
            if (other < end) {
                int32_t of = s->group[other];
                side = sign_of(v3_dot(n, v3_sub(v3_load(x + 3 * (int64_t)other), v3_load(x + 3 * (int64_t)node))));
                if (of % 2 != staying_parity(cost, groups, of) && !isinf(cost[of])) side = -side;
            }
            st = decide_node(s, x, index, body, node, side < 0 ? v3_neg(n) : n, err);
        }
        if (st == QPC_OK) ++*ret_new;
    }
    qpc_free(cost);
    return st;
}

/// Overlaps of one cable with several meshes are interleaved: by mesh, in order of edges.
qpc_status qpc_sides_decide(qpc_sides *s, const double *x, const qpc_overlap *overlaps, int32_t count, int32_t *ret_new,
                            qpc_error *err) {
    const qpc_world *w = s->w;
    qpc_overlap *mine = qpc_alloc_array((size_t)count + 1, sizeof *mine);
    qpc_status st = mine != NULL ? QPC_OK : qpc_fail(err, QPC_ERR_MEMORY, "no memory to separate the start");
    *ret_new = 0;
    for (int32_t i = 0; i < count && st == QPC_OK; i++) {
        const int32_t *pair = overlaps[i].surface;
        if (w->bodies[pair[1]].mesh == NULL) continue;
        bool done = false;
        for (int32_t k = 0; k < i && !done; k++) done = memcmp(overlaps[k].surface, pair, sizeof overlaps[k].surface) == 0;
        if (done) continue;
        int32_t found = 0;
        for (int32_t k = i; k < count; k++)
            if (memcmp(overlaps[k].surface, pair, sizeof overlaps[k].surface) == 0) mine[found++] = overlaps[k];
        st = decide_pair(s, x, pair[0], pair[1], mine, found, ret_new, err);
    }
    qpc_free(mine);
    return st;
}
