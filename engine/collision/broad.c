/// Broad phase of surfaces; see broad.h.
///
/// First, plain form: two trees a surface, refitted on every update, one query a vertex and an edge.
#include "engine/collision/broad.h"

#include "base/mem.h"
#include "engine/geometry/topology.h"

#include <string.h>

typedef struct part {
    qpc_broad_surface def;
    const int32_t *triangle; // (triangles x 3) local nodes
    const qpc_topology *topology;
    int32_t node_count, triangle_count, edge_count;
    int32_t triangle_base, edge_base; // global number of the first
    bool *used;                       // (nodes) belongs to a triangle
    qpc_fbox *node_box, *triangle_box, *edge_box;
    qpc_bvh *triangles, *edges;
    bool fitted;
} part;

struct qpc_broad {
    part *parts;
    int32_t count;
    int64_t max_pairs;
    double origin[3];
    qpc_items found;
    qpc_pairs vt, ee;
    qpc_broad_counts counts;
};

static bool fit(const qpc_broad *broad, part *p, const double *x0, const double *x1, double grow) {
    double sum = 0;
    for (int32_t i = 0; i < p->node_count; i++) {
        if (!p->used[i]) continue;
        const double *a = x0 + 3 * ((int64_t)p->def.first_node + i),
                     *b = x1 + 3 * ((int64_t)p->def.first_node + i);
        double lo[3], hi[3];
        for (int d = 0; d < 3; d++) {
            sum += fabs(a[d]) + fabs(b[d]);
            lo[d] = fmin(a[d], b[d]) - grow;
            hi[d] = fmax(a[d], b[d]) + grow;
        }
        p->node_box[i] = qpc_fbox_around(lo, hi, broad->origin);
    }
    return isfinite(sum);
}

static qpc_fbox join(const qpc_fbox *box, const int32_t *node, int count) {
    qpc_fbox b = box[node[0]];
    for (int k = 1; k < count; k++)
        for (int d = 0; d < 3; d++) {
            b.lo[d] = fminf(b.lo[d], box[node[k]].lo[d]);
            b.hi[d] = fmaxf(b.hi[d], box[node[k]].hi[d]);
        }
    return b;
}

static void fit_features(part *p) {
    for (int32_t t = 0; t < p->triangle_count; t++)
        p->triangle_box[t] = join(p->node_box, p->triangle + 3 * t, 3);
    for (int32_t e = 0; e < p->edge_count; e++)
        p->edge_box[e] = join(p->node_box, p->topology->edge_vertex + 2 * e, 2);
}

static qpc_status init_part(qpc_broad *broad, int32_t s, const qpc_broad_surface *def,
                            const double *x, qpc_error *err) {
    part *p = &broad->parts[s];
    p->def = *def;
    p->topology = qpc_mesh_topology(def->mesh);
    if (p->topology == NULL)
        return qpc_fail(err, QPC_ERR_INVALID, "surface %d is not made of triangles", (int)s);
    if (!(def->radius >= 0) || !isfinite(def->radius))
        return qpc_fail(err, QPC_ERR_INVALID, "surface %d has radius %g, must be >= 0", (int)s,
                        def->radius);
    p->triangle = qpc_mesh_elements(def->mesh);
    p->node_count = (int32_t)qpc_mesh_vertex_count(def->mesh);
    p->triangle_count = (int32_t)qpc_mesh_element_count(def->mesh);
    p->edge_count = p->topology->edge_count;
    p->used = qpc_calloc((size_t)p->node_count, sizeof *p->used);
    p->node_box = qpc_calloc((size_t)p->node_count, sizeof *p->node_box);
    p->triangle_box = qpc_calloc((size_t)p->triangle_count, sizeof *p->triangle_box);
    p->edge_box = qpc_calloc((size_t)p->edge_count + 1, sizeof *p->edge_box);
    if (p->used == NULL || p->node_box == NULL || p->triangle_box == NULL || p->edge_box == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for the boxes of surface %d", (int)s);
    for (int64_t i = 0; i < 3 * (int64_t)p->triangle_count; i++) p->used[p->triangle[i]] = true;
    if (!fit(broad, p, x, x, 0))
        return qpc_fail(err, QPC_ERR_NUMERIC, "a position of surface %d is not finite", (int)s);
    fit_features(p);
    qpc_status status = qpc_bvh_build(p->triangle_box, p->triangle_count, &p->triangles, err);
    if (status == QPC_OK && p->edge_count > 0)
        status = qpc_bvh_build(p->edge_box, p->edge_count, &p->edges, err);
    broad->counts.builds += 2;
    return status;
}

qpc_status qpc_broad_create(const qpc_broad_surface *surfaces, int32_t surface_count,
                            const double *x, int64_t max_pairs, qpc_broad **ret, qpc_error *err) {
    qpc_broad *broad = qpc_calloc(1, sizeof *broad);
    if (broad != NULL) broad->parts = qpc_calloc((size_t)surface_count, sizeof *broad->parts);
    if (broad == NULL || broad->parts == NULL) {
        qpc_broad_destroy(broad);
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for %d surfaces", (int)surface_count);
    }
    broad->max_pairs = max_pairs;
    broad->count = surface_count;
    int32_t triangles = 0, edges = 0;
    for (int32_t s = 0; s < surface_count; s++) {
        qpc_status status = init_part(broad, s, &surfaces[s], x, err);
        if (status != QPC_OK) {
            qpc_broad_destroy(broad);
            return status;
        }
        broad->parts[s].triangle_base = triangles;
        broad->parts[s].edge_base = edges;
        triangles += broad->parts[s].triangle_count;
        edges += broad->parts[s].edge_count;
    }
    *ret = broad;
    return QPC_OK;
}

void qpc_broad_destroy(qpc_broad *broad) {
    if (broad == NULL) return;
    for (int32_t s = 0; broad->parts != NULL && s < broad->count; s++) {
        part *p = &broad->parts[s];
        qpc_free(p->used);
        qpc_free(p->node_box);
        qpc_free(p->triangle_box);
        qpc_free(p->edge_box);
        qpc_bvh_destroy(p->triangles);
        qpc_bvh_destroy(p->edges);
    }
    qpc_free(broad->parts);
    qpc_array_fini(&broad->found);
    qpc_array_fini(&broad->vt);
    qpc_array_fini(&broad->ee);
    qpc_free(broad);
}

// ---- pairs ----

static qpc_status add(qpc_broad *broad, qpc_pairs *list, int32_t a, int32_t b, qpc_error *err) {
    if ((int64_t)broad->vt.count + broad->ee.count >= broad->max_pairs)
        return qpc_fail(err, QPC_ERR_LIMIT,
                        "more than max_candidates = %lld candidate pairs are near each other",
                        (long long)broad->max_pairs);
    if (!qpc_array_push(list, ((qpc_pair){a, b})))
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for candidate pairs");
    return QPC_OK;
}

static qpc_status query(qpc_broad *broad, const qpc_bvh *bvh, const qpc_fbox *boxes,
                        const qpc_fbox *box, qpc_error *err) {
    broad->found.count = 0;
    if (bvh == NULL) return QPC_OK;
    qpc_status status =
        qpc_bvh_query(bvh, boxes, box, &broad->found, &broad->counts.box_tests);
    if (status != QPC_OK) return qpc_fail(err, status, "out of memory for candidate pairs");
    return QPC_OK;
}

/// Vertices of p against triangles of q, which may be p.
static qpc_status find_vt(qpc_broad *broad, const part *p, const part *q, qpc_error *err) {
    for (int32_t i = 0; i < p->node_count; i++) {
        if (!p->used[i]) continue;
        qpc_status status = query(broad, q->triangles, q->triangle_box, &p->node_box[i], err);
        for (int32_t k = 0; k < broad->found.count && status == QPC_OK; k++) {
            int32_t t = broad->found.data[k];
            const int32_t *v = q->triangle + 3 * t;
            if (p == q && (v[0] == i || v[1] == i || v[2] == i)) continue;
            status = add(broad, &broad->vt, p->def.first_node + i, q->triangle_base + t, err);
        }
        if (status != QPC_OK) return status;
    }
    return QPC_OK;
}

static qpc_status find_ee(qpc_broad *broad, const part *p, const part *q, qpc_error *err) {
    for (int32_t i = 0; i < p->edge_count; i++) {
        const int32_t *a = p->topology->edge_vertex + 2 * i;
        qpc_status status = query(broad, q->edges, q->edge_box, &p->edge_box[i], err);
        for (int32_t k = 0; k < broad->found.count && status == QPC_OK; k++) {
            int32_t e = broad->found.data[k];
            const int32_t *b = q->topology->edge_vertex + 2 * e;
            if (p == q && (e <= i || a[0] == b[0] || a[0] == b[1] || a[1] == b[0] || a[1] == b[1]))
                continue;
            status = add(broad, &broad->ee, p->edge_base + i, q->edge_base + e, err);
        }
        if (status != QPC_OK) return status;
    }
    return QPC_OK;
}

qpc_status qpc_broad_update(qpc_broad *broad, const double *x0, const double *x1, double reach,
                            const qpc_parallel *parallel, qpc_error *err) {
    (void)parallel;
    broad->vt.count = broad->ee.count = 0;
    for (int32_t s = 0; s < broad->count; s++) {
        part *p = &broad->parts[s];
        if (!fit(broad, p, x0, x1, reach * p->def.radius))
            return qpc_fail(err, QPC_ERR_NUMERIC, "a position of surface %d is not finite", (int)s);
        fit_features(p);
        qpc_bvh_refit(p->triangles, p->triangle_box);
        if (p->edges != NULL) qpc_bvh_refit(p->edges, p->edge_box);
        broad->counts.refits += 2;
    }
    qpc_status status = QPC_OK;
    for (int32_t s = 0; s < broad->count && status == QPC_OK; s++)
        for (int32_t t = s; t < broad->count && status == QPC_OK; t++) {
            const part *p = &broad->parts[s], *q = &broad->parts[t];
            if (p->def.motion != QPC_DYNAMIC && q->def.motion != QPC_DYNAMIC) continue;
            status = find_vt(broad, p, q, err);
            if (status == QPC_OK && p != q) status = find_vt(broad, q, p, err);
            if (status == QPC_OK) status = find_ee(broad, p, q, err);
        }
    if (status != QPC_OK) broad->vt.count = broad->ee.count = 0;
    broad->counts.pairs += (uint64_t)broad->vt.count + (uint64_t)broad->ee.count;
    return status;
}

// ---- what was found ----

int32_t qpc_broad_slice_count(const qpc_broad *broad) {
    (void)broad;
    return 1;
}
const qpc_pairs *qpc_broad_vt(const qpc_broad *broad, int32_t slice) {
    (void)slice;
    return &broad->vt;
}
const qpc_pairs *qpc_broad_ee(const qpc_broad *broad, int32_t slice) {
    (void)slice;
    return &broad->ee;
}

void qpc_broad_triangle(const qpc_broad *broad, int32_t b, int32_t *ret_surface, int32_t *ret_local,
                        int32_t node[3]) {
    int32_t s = 0;
    while (s + 1 < broad->count && broad->parts[s + 1].triangle_base <= b) s++;
    const part *p = &broad->parts[s];
    *ret_surface = s;
    *ret_local = b - p->triangle_base;
    for (int k = 0; k < 3; k++) node[k] = p->def.first_node + p->triangle[3 * *ret_local + k];
}

void qpc_broad_edge(const qpc_broad *broad, int32_t e, int32_t *ret_surface, int32_t *ret_local,
                    int32_t node[2]) {
    int32_t s = 0;
    while (s + 1 < broad->count && broad->parts[s + 1].edge_base <= e) s++;
    const part *p = &broad->parts[s];
    *ret_surface = s;
    *ret_local = e - p->edge_base;
    for (int k = 0; k < 2; k++)
        node[k] = p->def.first_node + p->topology->edge_vertex[2 * *ret_local + k];
}

int32_t qpc_broad_node_surface(const qpc_broad *broad, int32_t node) {
    for (int32_t s = 0; s < broad->count; s++) {
        int32_t local = node - broad->parts[s].def.first_node;
        if (local >= 0 && local < broad->parts[s].node_count) return s;
    }
    return -1;
}

qpc_broad_counts qpc_broad_get_counts(const qpc_broad *broad) {
    return broad->counts;
}
void qpc_broad_counts_reset(qpc_broad *broad) {
    broad->counts = (qpc_broad_counts){0};
}

size_t qpc_broad_bytes(const qpc_broad *broad) {
    size_t bytes = sizeof *broad + (size_t)broad->count * sizeof *broad->parts;
    for (int32_t s = 0; s < broad->count; s++) {
        const part *p = &broad->parts[s];
        bytes += (size_t)p->node_count * (sizeof *p->used + sizeof *p->node_box);
        bytes += (size_t)(p->triangle_count + p->edge_count) * 3 * sizeof *p->triangle_box;
    }
    return bytes + (size_t)(broad->vt.capacity + broad->ee.capacity) * sizeof(qpc_pair);
}

bool qpc_broad_check(const qpc_broad *broad, qpc_error *err) {
    for (int32_t s = 0; s < broad->count; s++) {
        const part *p = &broad->parts[s];
        if (qpc_bvh_check(p->triangles, p->triangle_box) &&
            (p->edges == NULL || qpc_bvh_check(p->edges, p->edge_box)))
            continue;
        qpc_fail(err, QPC_ERR_INTERNAL, "a tree of surface %d does not hold its boxes", (int)s);
        return false;
    }
    return true;
}
