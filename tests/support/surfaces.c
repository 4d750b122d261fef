/// Surfaces in motion and brute force over their boxes; see surfaces.h.
#include "tests/support/surfaces.h"

#include "engine/geometry/topology.h"

#include <stdlib.h>

double surfaces_uniform(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

// ---- pairs ----

typedef struct item {
    double lo[3], hi[3];
    int32_t surface, number, node[3], node_count;
} item;
typedef QPC_ARRAY(item) items;

static bool push_item(items *list, const qpc_broad_surface *s, int32_t surface, int32_t number,
                      const int32_t *node, int32_t node_count, const double *x0, const double *x1,
                      double grow) {
    item it = {.surface = surface, .number = number, .node_count = node_count};
    for (int d = 0; d < 3; d++) it.lo[d] = INFINITY, it.hi[d] = -INFINITY;
    for (int32_t k = 0; k < node_count; k++) {
        it.node[k] = s->first_node + node[k];
        for (int d = 0; d < 3; d++) {
            double a = x0[3 * (int64_t)it.node[k] + d], b = x1[3 * (int64_t)it.node[k] + d];
            it.lo[d] = fmin(it.lo[d], fmin(a, b) - grow);
            it.hi[d] = fmax(it.hi[d], fmax(a, b) + grow);
        }
    }
    return qpc_array_push(list, it);
}

static bool near_apart(const item *a, const item *b, const qpc_broad_surface *surface) {
    if (surface[a->surface].motion != QPC_DYNAMIC && surface[b->surface].motion != QPC_DYNAMIC)
        return false;
    for (int d = 0; d < 3; d++)
        if (!(a->lo[d] <= b->hi[d] && b->lo[d] <= a->hi[d])) return false;
    for (int32_t i = 0; i < a->node_count; i++)
        for (int32_t k = 0; k < b->node_count; k++)
            if (a->node[i] == b->node[k]) return false;
    return true;
}

static int by_numbers(const void *a, const void *b) {
    qpc_pair p, q;
    memcpy(&p, a, sizeof p);
    memcpy(&q, b, sizeof q);
    if (p.a != q.a) return p.a < q.a ? -1 : 1;
    return (p.b > q.b) - (p.b < q.b);
}

static void sort_pairs(qpc_pairs *p) {
    if (p->count > 1) qsort(p->data, (size_t)p->count, sizeof *p->data, by_numbers);
}

static bool list_items(const qpc_broad_surface *surface, int32_t count, const double *x0,
                       const double *x1, double reach, double slack, items ret[3]) {
    int32_t triangles = 0, edges = 0;
    for (int32_t s = 0; s < count; s++) {
        const qpc_topology *topo = qpc_mesh_topology(surface[s].mesh);
        const int32_t *t = qpc_mesh_elements(surface[s].mesh);
        int32_t n = (int32_t)qpc_mesh_element_count(surface[s].mesh),
                nodes = (int32_t)qpc_mesh_vertex_count(surface[s].mesh);
        double grow = reach * surface[s].radius + slack;
        bool *used = calloc((size_t)nodes, 1), ok = used != NULL;
        for (int32_t i = 0; ok && i < 3 * n; i++) used[t[i]] = true;
        for (int32_t i = 0; ok && i < nodes; i++)
            if (used[i])
                ok = push_item(&ret[0], &surface[s], s, surface[s].first_node + i, &i, 1, x0, x1,
                               grow);
        for (int32_t i = 0; ok && i < n; i++)
            ok = push_item(&ret[1], &surface[s], s, triangles + i, t + 3 * i, 3, x0, x1, grow);
        for (int32_t i = 0; ok && i < topo->edge_count; i++)
            ok = push_item(&ret[2], &surface[s], s, edges + i, topo->edge_vertex + 2 * i, 2, x0, x1,
                           grow);
        free(used);
        if (!ok) return false;
        triangles += n;
        edges += topo->edge_count;
    }
    return true;
}

bool surfaces_brute(const qpc_broad_surface *surface, int32_t count, const double *x0,
                    const double *x1, double reach, double slack, surfaces_pairs *ret) {
    items list[3] = {{0}, {0}, {0}}; // vertices, triangles, edges
    bool ok = list_items(surface, count, x0, x1, reach, slack, list);
    ret->vt.count = ret->ee.count = 0;
    for (int32_t i = 0; ok && i < list[0].count; i++)
        for (int32_t k = 0; ok && k < list[1].count; k++) {
            const item *a = &list[0].data[i], *b = &list[1].data[k];
            if (near_apart(a, b, surface))
                ok = qpc_array_push(&ret->vt, ((qpc_pair){a->number, b->number}));
        }
    for (int32_t i = 0; ok && i < list[2].count; i++)
        for (int32_t k = i + 1; ok && k < list[2].count; k++) {
            const item *a = &list[2].data[i], *b = &list[2].data[k];
            if (near_apart(a, b, surface))
                ok = qpc_array_push(&ret->ee, ((qpc_pair){a->number, b->number}));
        }
    for (int i = 0; i < 3; i++) qpc_array_fini(&list[i]);
    sort_pairs(&ret->vt);
    sort_pairs(&ret->ee);
    return ok;
}

static bool append(qpc_pairs *to, const qpc_pairs *from) {
    if (!qpc_array_reserve(to, (int64_t)to->count + from->count)) return false;
    if (from->count > 0)
        memcpy(to->data + to->count, from->data, (size_t)from->count * sizeof *from->data);
    to->count += from->count;
    return true;
}

bool surfaces_found(const qpc_broad *broad, surfaces_pairs *ret) {
    ret->vt.count = ret->ee.count = 0;
    for (int32_t i = 0; i < qpc_broad_slice_count(broad); i++)
        if (!append(&ret->vt, qpc_broad_vt(broad, i)) || !append(&ret->ee, qpc_broad_ee(broad, i)))
            return false;
    sort_pairs(&ret->vt);
    sort_pairs(&ret->ee);
    return true;
}

void surfaces_pairs_fini(surfaces_pairs *p) {
    qpc_array_fini(&p->vt);
    qpc_array_fini(&p->ee);
}

bool surfaces_contained(const qpc_pairs *a, const qpc_pairs *b) {
    int32_t k = 0;
    for (int32_t i = 1; i < b->count; i++)
        if (by_numbers(&b->data[i - 1], &b->data[i]) == 0) return false;
    for (int32_t i = 0; i < a->count; i++) {
        while (k < b->count && by_numbers(&b->data[k], &a->data[i]) < 0) k++;
        if (k == b->count || by_numbers(&b->data[k], &a->data[i]) != 0) return false;
    }
    return true;
}
