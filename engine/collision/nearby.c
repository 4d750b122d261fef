/// Shortest paths over a mesh, bounded; see nearby.h. Steps are edges, and straight lines across an
/// edge from corner to corner of two triangles unfolded into a plane: with edges alone a path in
/// the poor direction of a regular mesh is 1.41 times too long, with both at most 1.08 times.
///
/// Vertices get ranks in breadth-first order, so that what is near a vertex lies in few runs of
/// successive ranks: one or two a level. From each vertex Dijkstra's search runs out to the length
/// and the ranks it settles become runs. A part of the mesh whose vertices are all near each other
/// (twice the eccentricity of one of them is within the length) needs no runs at all.
#include "engine/collision/nearby.h"

#include "base/array.h"
#include "base/vec.h"
#include "engine/geometry/topology.h"

#include <math.h>
#include <stdlib.h>

static const int64_t most_settled = (int64_t)1 << 26; // a few seconds of searching

typedef struct run {
    int32_t first, end; // ranks
} run;

struct qpc_nearby {
    int32_t count;
    bool empty;
    int32_t *rank;       // (vertices) in breadth-first order
    int32_t *part;       // (vertices) connected part, ~part if all of it is near
    int32_t *start;      // (vertices + 1) into runs, by vertex
    QPC_ARRAY(run) runs; // of a vertex: the ranks near it that are not below its own
};

typedef struct entry {
    double length;
    int32_t vertex;
} entry;

typedef struct link {
    int32_t to;
    double length;
} link;

typedef struct search {
    const qpc_topology *topology;
    const double *x; // rest positions
    const int32_t *triangles;
    int32_t *start; // (vertices + 1) into links
    link *links;    // by vertex
    double *length; // (vertices) best so far, infinite when untouched
    QPC_ARRAY(entry) heap;
    qpc_nearby *nearby;
    QPC_ARRAY(int32_t) touched, settled;
} search;

static bool push(search *s, double length, int32_t vertex) {
    if (!qpc_array_push(&s->heap, ((entry){length, vertex}))) return false;
    entry *h = s->heap.data;
    int32_t i = s->heap.count - 1;
    for (entry e = h[i]; i > 0; i = (i - 1) / 2) {
        if (h[(i - 1) / 2].length <= e.length) break;
        h[i] = h[(i - 1) / 2];
        h[(i - 1) / 2] = e;
    }
    return true;
}

static entry pop(search *s) {
    entry *h = s->heap.data, top = h[0], e = h[--s->heap.count];
    int32_t n = s->heap.count, i = 0, child;
    for (; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && h[child + 1].length < h[child].length) child++;
        if (e.length <= h[child].length) break;
        h[i] = h[child];
    }
    if (n > 0) h[i] = e;
    return top;
}

/// Settle all vertices within `bound` of `from`; *ret_farthest is the longest of the paths.
static bool run_search(search *s, int32_t from, double bound, double *ret_farthest) {
    s->settled.count = s->touched.count = s->heap.count = 0;
    *ret_farthest = 0;
    s->length[from] = 0;
    if (!qpc_array_push(&s->touched, from) || !push(s, 0, from)) return false;
    while (s->heap.count > 0) {
        entry e = pop(s);
        if (e.length > s->length[e.vertex]) continue; // reached by a shorter path since
        if (!qpc_array_push(&s->settled, e.vertex)) return false;
        *ret_farthest = e.length;
        for (int32_t i = s->start[e.vertex]; i < s->start[e.vertex + 1]; i++) {
            int32_t to = s->links[i].to;
            double length = e.length + s->links[i].length;
            if (!(length < bound) || !(length < s->length[to])) continue;
            if (isinf(s->length[to]) && !qpc_array_push(&s->touched, to)) return false;
            s->length[to] = length;
            if (!push(s, length, to)) return false;
        }
    }
    for (int32_t i = 0; i < s->touched.count; i++) s->length[s->touched.data[i]] = INFINITY;
    return true;
}

static qpc_vec3 rest(const search *s, int32_t v) {
    return v3_load(s->x + 3 * (int64_t)v);
}

/// Corners opposite edge e in its i-th and j-th triangle, and their distance straight across the
/// edge when both are unfolded; infinite if the line would leave the two triangles.
static double across(const search *s, int32_t e, int32_t i, int32_t j, int32_t ret_corner[2]) {
    const qpc_topology *t = s->topology;
    const int32_t *v = t->edge_vertex + 2 * (int64_t)e;
    qpc_vec3 a = rest(s, v[0]), along = v3_sub(rest(s, v[1]), a);
    double length = v3_norm(along), at[2], high[2];
    for (int k = 0; k < 2; k++) {
        int32_t triangle = t->edge_triangle[t->edge_triangle_start[e] + (k == 0 ? i : j)];
        const int32_t *c = s->triangles + 3 * (int64_t)triangle;
        if (t->triangle_degenerate[triangle]) return INFINITY;
        ret_corner[k] = c[0] != v[0] && c[0] != v[1]   ? c[0]
                        : c[1] != v[0] && c[1] != v[1] ? c[1]
                                                       : c[2];
        qpc_vec3 to = v3_sub(rest(s, ret_corner[k]), a);
        at[k] = v3_dot(to, along) / length;
        high[k] = v3_norm(v3_madd(to, -at[k] / length, along));
    }
    double through = (at[0] * high[1] + at[1] * high[0]) / (high[0] + high[1]);
    if (!(through > 0 && through < length)) return INFINITY;
    return hypot(at[1] - at[0], high[0] + high[1]);
}

/// Visit all links: count them (links NULL), or put them where start points to.
static void each_link(search *s, int32_t vertices) {
    const qpc_topology *t = s->topology;
    for (int32_t v = 0; v <= vertices && s->links == NULL; v++) s->start[v] = 0;
    for (int32_t e = 0; e < t->edge_count; e++) {
        // Of edges with many triangles the first few are looked at.
        int32_t many = t->edge_triangle_start[e + 1] - t->edge_triangle_start[e];
        if (many > 4) many = 4;
        for (int32_t i = -1; i < many; i++)
            for (int32_t j = i + 1; j < (i < 0 ? 1 : many); j++) {
                int32_t end[2] = {t->edge_vertex[2 * (int64_t)e],
                                  t->edge_vertex[2 * (int64_t)e + 1]};
                double length = i < 0 ? v3_norm(v3_sub(rest(s, end[0]), rest(s, end[1])))
                                      : across(s, e, i, j, end);
                if (isinf(length)) continue;
                for (int k = 0; k < 2; k++)
                    if (s->links == NULL)
                        s->start[end[k]]++;
                    else
                        s->links[s->start[end[k]]++] = (link){end[1 - k], length};
            }
    }
}

static bool make_links(search *s, int32_t vertices) {
    s->start = qpc_alloc_array((size_t)vertices + 1, sizeof *s->start);
    if (s->start == NULL) return false;
    each_link(s, vertices);
    int32_t sum = 0;
    for (int32_t v = 0; v < vertices; v++) {
        int32_t count = s->start[v];
        s->start[v] = sum;
        sum += count;
    }
    s->links = qpc_alloc_array((size_t)sum, sizeof *s->links);
    if (s->links == NULL) return false;
    each_link(s, vertices);
    // Each start has moved on to the next one's.
    for (int32_t v = vertices; v > 0; v--) s->start[v] = s->start[v - 1];
    s->start[0] = 0;
    return true;
}

/// Ranks and parts, from unreached vertices in order.
static void number(qpc_nearby *n, const qpc_topology *t, int32_t *queue, int32_t *ret_parts) {
    int32_t parts = 0, tail = 0;
    for (int32_t v = 0; v < n->count; v++) n->rank[v] = -1;
    for (int32_t first = 0; first < n->count; first++) {
        if (n->rank[first] >= 0) continue;
        int32_t head = tail;
        n->rank[first] = tail;
        queue[tail++] = first;
        for (; head < tail; head++) {
            int32_t v = queue[head];
            n->part[v] = parts;
            for (int32_t i = t->vertex_edge_start[v]; i < t->vertex_edge_start[v + 1]; i++) {
                const int32_t *w = t->edge_vertex + 2 * (int64_t)t->vertex_edge[i];
                int32_t to = w[0] == v ? w[1] : w[0];
                if (n->rank[to] >= 0) continue;
                n->rank[to] = tail;
                queue[tail++] = to;
            }
        }
        parts++;
    }
    *ret_parts = parts;
}

static int by_number(const void *a, const void *b) {
    int32_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/// The settled ranks from that of `vertex` on, as runs.
static bool add_runs(search *s, int32_t vertex) {
    qpc_nearby *n = s->nearby;
    int32_t *r = s->settled.data, count = 0;
    for (int32_t i = 0; i < s->settled.count; i++)
        if (n->rank[r[i]] >= n->rank[vertex]) r[count++] = n->rank[r[i]];
    qsort(r, (size_t)count, sizeof *r, by_number);
    for (int32_t i = 0; i < count;) {
        run next = {r[i], r[i] + 1};
        for (i++; i < count && r[i] == next.end; i++) next.end++;
        if (!qpc_array_push(&n->runs, next)) return false;
    }
    return true;
}

static qpc_status fill(search *s, double length, int32_t *queue, qpc_error *err) {
    qpc_nearby *n = s->nearby;
    int32_t parts;
    double shortest = INFINITY, farthest;
    for (int32_t i = 0; i < s->start[n->count]; i++) shortest = fmin(shortest, s->links[i].length);
    n->empty = !(shortest < length);
    number(n, s->topology, queue, &parts);
    if (n->empty) return QPC_OK;
    // queue holds the vertices in order of their ranks, part by part.
    int64_t settled = 0;
    for (int32_t q = 0; q < n->count;) {
        int32_t end = q, part = n->part[queue[q]];
        while (end < n->count && n->part[queue[end]] == part) end++;
        if (!run_search(s, queue[q], INFINITY, &farthest)) goto no_memory;
        if (2 * farthest < length)
            for (int32_t i = q; i < end; i++) n->part[queue[i]] = ~part;
        q = end;
    }
    for (int32_t v = 0; v < n->count; v++) {
        n->start[v] = n->runs.count;
        if (n->part[v] < 0) continue;
        if (!run_search(s, v, length, &farthest)) goto no_memory;
        settled += s->settled.count;
        if (settled > most_settled)
            return qpc_fail(err, QPC_ERR_LIMIT,
                            "self_exclusion = %g m spans too many vertices of the mesh: more than "
                            "%lld pairs are that near along the rest shape",
                            length, (long long)most_settled);
        if (!add_runs(s, v)) goto no_memory;
    }
    n->start[n->count] = n->runs.count;
    return QPC_OK;
no_memory:
    return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for the rest shape of a surface");
}

qpc_status qpc_nearby_create(const qpc_mesh *mesh, double length, qpc_nearby **ret,
                             qpc_error *err) {
    size_t vertices = (size_t)qpc_mesh_vertex_count(mesh);
    search s = {.topology = qpc_mesh_topology(mesh),
                .x = qpc_mesh_vertices(mesh),
                .triangles = qpc_mesh_elements(mesh)};
    qpc_status status = QPC_ERR_MEMORY;
    qpc_nearby *n = s.nearby = qpc_calloc(1, sizeof *n);
    int32_t *queue = qpc_alloc_array(vertices, sizeof *queue);
    s.length = qpc_alloc_array(vertices, sizeof *s.length);
    if (n != NULL) {
        n->count = (int32_t)vertices;
        n->rank = qpc_alloc_array(vertices, sizeof *n->rank);
        n->part = qpc_alloc_array(vertices, sizeof *n->part);
        n->start = qpc_calloc(vertices + 1, sizeof *n->start);
    }
    if (n == NULL || queue == NULL || s.length == NULL || n->rank == NULL || n->part == NULL ||
        n->start == NULL || !make_links(&s, (int32_t)vertices)) {
        qpc_fail(err, QPC_ERR_MEMORY, "out of memory for the rest shape of a surface");
    } else {
        for (size_t v = 0; v < vertices; v++) s.length[v] = INFINITY;
        status = fill(&s, length, queue, err);
    }
    qpc_free(queue);
    qpc_free(s.start);
    qpc_free(s.links);
    qpc_free(s.length);
    qpc_array_fini(&s.heap);
    qpc_array_fini(&s.touched);
    qpc_array_fini(&s.settled);
    if (status == QPC_OK)
        *ret = n;
    else
        qpc_nearby_destroy(n);
    return status;
}

void qpc_nearby_destroy(qpc_nearby *n) {
    if (n == NULL) return;
    qpc_free(n->rank);
    qpc_free(n->part);
    qpc_free(n->start);
    qpc_array_fini(&n->runs);
    qpc_free(n);
}

bool qpc_nearby_is_empty(const qpc_nearby *n) {
    return n->empty;
}

bool qpc_nearby_has(const qpc_nearby *n, int32_t a, int32_t b) {
    if (n->empty || n->part[a] != n->part[b]) return false;
    if (n->part[a] < 0) return true;
    int32_t from = n->rank[a] <= n->rank[b] ? a : b, rank = n->rank[from == a ? b : a];
    int32_t low = n->start[from],
            high = n->start[from + 1]; // the last run that starts at or before
    const run *r = n->runs.data;
    while (high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        if (r[middle].first <= rank)
            low = middle;
        else
            high = middle;
    }
    return low < high && r[low].first <= rank && rank < r[low].end;
}

size_t qpc_nearby_bytes(const qpc_nearby *n) {
    return sizeof *n + (3 * (size_t)n->count + 1) * sizeof(int32_t) +
           (size_t)n->runs.capacity * sizeof(run);
}
