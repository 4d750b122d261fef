// Deforming meshes in the independent checker, see checker.h.
//
// Each edge of one mesh, with the vertices that it is the first edge of, is tested against the triangles that
// the grid of the other mesh has near it, and the other way round: so a vertex meets a triangle once,
// two edges meet once (through the first triangle at one of them), and every edge is asked at the end whether it goes
// through a triangle. Features of one mesh that share a vertex are left out.
#include "tests/support/checker_inside.h"

#include <stdlib.h>

typedef struct side { // of a triangle, to be sorted
    int32_t low, high, triangle, k;
} side;
static int by_ends(const void *a, const void *b) {
    const side *p = a, *q = b;
    if (p->low != q->low) return p->low < q->low ? -1 : 1;
    if (p->high != q->high) return p->high < q->high ? -1 : 1;
    return (p->triangle > q->triangle) - (p->triangle < q->triangle);
}

static bool make_parts(const qpc_checker_body *b, int32_t body, mesh_parts *m) {
    int32_t sides = 3 * b->triangle_count, count = 0;
    side *all = malloc((size_t)sides * sizeof *all + 1);
    bool *seen = calloc((size_t)b->node_count + 1, sizeof *seen);
    m->edges = calloc((size_t)sides + 1, sizeof *m->edges);
    m->first = calloc((size_t)sides + 1, 1);
    m->triangle_edge = malloc((size_t)sides * sizeof *m->triangle_edge + 1);
    m->owns = calloc((size_t)b->triangle_count + 1, 1);
    bool ok = all != NULL && seen != NULL && m->edges != NULL && m->first != NULL && m->triangle_edge != NULL &&
              m->owns != NULL;
    for (int32_t t = 0; ok && t < b->triangle_count; t++)
        for (int32_t k = 0; k < 3; k++) {
            int32_t p = b->triangles[3 * t + k], q = b->triangles[3 * t + (k + 1) % 3];
            m->triangle_edge[3 * t + k] = -1;
            if (p != q) all[count++] = (side){p < q ? p : q, p < q ? q : p, t, k};
        }
    if (ok) qsort(all, (size_t)count, sizeof *all, by_ends);
    for (int32_t i = 0; ok && i < count; i++) {
        if (i == 0 || all[i].low != all[i - 1].low || all[i].high != all[i - 1].high) {
            int32_t e = m->edge_count++;
            m->edges[e] = (edge){.body = body,
                                 .node = b->first_node + all[i].low,
                                 .other = b->first_node + all[i].high,
                                 .local = e};
            m->first[e] = (uint8_t)((seen[all[i].low] ? 0 : 1) | (seen[all[i].high] ? 0 : 2));
            seen[all[i].low] = seen[all[i].high] = true;
            m->owns[all[i].triangle] |= (uint8_t)(1U << all[i].k);
        }
        m->triangle_edge[3 * all[i].triangle + all[i].k] = m->edge_count - 1;
    }
    free(all);
    free(seen);
    return ok;
}

bool qpc_checker_meshes_create(qpc_checker *c) {
    bool any = false;
    for (int32_t i = 0; i < c->body_count; i++) any = any || (c->bodies[i].deforms && c->bodies[i].triangles != NULL);
    if (!any) return true;
    c->parts = calloc((size_t)c->body_count, sizeof *c->parts);
    if (c->parts == NULL) return false;
    for (int32_t i = 0; i < c->body_count; i++) {
        qpc_checker_body *b = &c->bodies[i];
        if (b->triangles == NULL) continue;
        if (!make_parts(b, i, &c->parts[i])) return false;
        if (!b->deforms) continue;
        size_t size = 3 * (size_t)b->node_count * sizeof(double);
        c->parts[i].rest = malloc(size + 1);
        if (c->parts[i].rest == NULL) return false;
        memcpy(c->parts[i].rest, b->rest != NULL ? b->rest : c->x + 3 * (int64_t)b->first_node, size);
        b->rest = NULL;
    }
    return true;
}

void qpc_checker_meshes_destroy(qpc_checker *c) {
    for (int32_t i = 0; c->parts != NULL && i < c->body_count; i++) {
        mesh_parts *m = &c->parts[i];
        free(m->edges);
        free(m->first);
        free(m->triangle_edge);
        free(m->owns);
        free(m->rest);
    }
    free(c->parts);
}

// A pair of features of one mesh keeps its thickness only if all its vertices are apart at rest: a straight
// line is no longer than any way over the mesh, so no pair is asked for more than it promises.
static bool keeps_thickness(const qpc_checker *c, int32_t body, const int64_t *node, int split) {
    const qpc_checker_body *b = &c->bodies[body];
    double apart = b->self_exclusion * (1 + 1e-9);
    for (int i = 0; i < split; i++)
        for (int j = split; j < 4; j++) {
            double d[3];
            diff(c->parts[body].rest + 3 * (node[i] - b->first_node), c->parts[body].rest + 3 * (node[j] - b->first_node), d);
            if (d[0] * d[0] + d[1] * d[1] + d[2] * d[2] < apart * apart) return false;
        }
    return true;
}

typedef struct context {
    qpc_checker *c;
    bool moving;
    const double *x0, *x1;
    qpc_check_report *r;
} context;

// Two features, node[0 .. 3]: vertex and corners, or two edges.
static void pair(const context *k, bool edges, const edge *e, int32_t body, int32_t feature, const int64_t node[4], bool touch) {
    double p0[12], p1[12], time = 1;
    int answer = 0;
    for (int i = 0; i < 4; i++) {
        put(p0 + 3 * i, k->x0, node[i]);
        put(p1 + 3 * i, k->x1, node[i]);
    }
    if (k->moving && touch) qpc_checker_ask(k->c, edges, p0, p1, k->r, &answer, &time);
    if (answer == 1) qpc_checker_found(k->r, QPC_FOUND_CROSSING, e, body, feature, time);
    if (answer < 0) qpc_checker_found(k->r, QPC_FOUND_UNDECIDED, e, body, feature, 0);
    if (e->body == body && !keeps_thickness(k->c, body, node, edges ? 2 : 1)) return;
    double distance = edges ? qpc_checker_distance_ee(p1) : qpc_checker_distance_vt(p1);
    qpc_checker_note(k->r, distance, k->c->bodies[e->body].radius + k->c->bodies[body].radius);
}

// Does the edge go through the triangle at the end? A point that runs along it meets the triangle at rest.
static void through(const context *k, const edge *e, int32_t body, int32_t t, const int64_t corner[3]) {
    double p0[12], p1[12], time;
    int answer = 0;
    put(p0, k->x1, e->node);
    put(p1, k->x1, e->other);
    for (int i = 0; i < 3; i++) {
        put(p0 + 3 + 3 * i, k->x1, corner[i]);
        put(p1 + 3 + 3 * i, k->x1, corner[i]);
    }
    qpc_checker_ask(k->c, false, p0, p1, k->r, &answer, &time);
    if (answer != 1) return;
    qpc_checker_found(k->r, QPC_FOUND_INTERSECTION, e, body, t, 1);
    qpc_checker_note(k->r, 0, k->c->bodies[e->body].radius + k->c->bodies[body].radius);
}

static void edge_triangle(const context *k, const edge *e, int32_t body, int32_t t, bool touch) {
    const qpc_checker_body *b = &k->c->bodies[body];
    const mesh_parts *mine = &k->c->parts[e->body], *m = &k->c->parts[body];
    int64_t corner[3], end[2] = {e->node, e->other};
    bool shared[2] = {false, false}; // the end is a corner
    for (int i = 0; i < 3; i++) {
        corner[i] = b->first_node + b->triangles[3 * t + i];
        for (int v = 0; v < 2; v++) shared[v] = shared[v] || corner[i] == end[v];
    }
    for (int v = 0; v < 2; v++)
        if ((mine->first[e->local] & (1 << v)) != 0 && !shared[v])
            pair(k, false, e, body, t, (int64_t[4]){end[v], corner[0], corner[1], corner[2]}, touch);
    for (int i = 0; i < 3; i++) {
        int32_t other = m->triangle_edge[3 * t + i];
        int64_t p = corner[i], q = corner[(i + 1) % 3];
        if (other < 0 || (m->owns[t] & (1 << i)) == 0) continue;
        if (e->body > body || (e->body == body && e->local >= other)) continue; // once
        if (p == end[0] || p == end[1] || q == end[0] || q == end[1]) continue;
        pair(k, true, e, body, t, (int64_t[4]){end[0], end[1], p, q}, touch);
    }
    if (touch && !shared[0] && !shared[1]) through(k, e, body, t, corner);
}

static void edge_mesh(const context *k, const edge *e, int32_t body, double grow) {
    const qpc_checker_body *b = &k->c->bodies[body];
    grid *g = &k->c->grids[body];
    int32_t low[3], high[3];
    box swept;
    box_empty(&swept);
    for (int v = 0; v < 2; v++) {
        int64_t node = v ? e->other : e->node;
        box_point(&swept, k->x0 + 3 * node);
        box_point(&swept, k->x1 + 3 * node);
    }
    if (!boxes_overlap(&swept, &g->bounds, grow)) return;
    qpc_checker_cells(g, &swept, grow, low, high);
    if (++g->stamp_now == INT32_MAX) {
        memset(g->stamp, 0, (size_t)b->triangle_count * sizeof *g->stamp);
        g->stamp_now = 1;
    }
    for (int32_t u = low[0]; u <= high[0]; u++)
        for (int32_t v = low[1]; v <= high[1]; v++)
            for (int32_t w = low[2]; w <= high[2]; w++) {
                int32_t cell = (u * g->n[1] + v) * g->n[2] + w;
                for (int32_t i = g->start[cell]; i < g->start[cell + 1]; i++) {
                    int32_t t = g->item[i];
                    if (g->stamp[t] == g->stamp_now) continue;
                    g->stamp[t] = g->stamp_now;
                    if (!boxes_overlap(&swept, &g->boxes[t], grow)) continue;
                    k->r->pairs++;
                    edge_triangle(k, e, body, t, boxes_overlap(&swept, &g->boxes[t], 0));
                }
            }
}

void qpc_checker_meshes(qpc_checker *c, bool moving, const double *x0, const double *x1, qpc_check_report *r) {
    const context k = {c, moving, x0, x1, r};
    for (int32_t i = 0; c->parts != NULL && i < c->body_count; i++)
        for (int32_t j = 0; j < c->body_count; j++) {
            const qpc_checker_body *a = &c->bodies[i], *b = &c->bodies[j];
            if (a->triangles == NULL || b->triangles == NULL || b->triangle_count == 0) continue;
            if (!a->deforms && !b->deforms) continue;
            if (i == j && a->self_exclusion == HUGE_VAL) continue; // rigid: however it meets itself, it always does
            for (int32_t e = 0; e < c->parts[i].edge_count; e++)
                edge_mesh(&k, &c->parts[i].edges[e], j, QPC_CHECK_FAR * (a->radius + b->radius));
        }
}
