/// Life of a detector; see detect.h. What it does is in lists.c, pairs.c and overlap.c.
#include "engine/collision/obstacles.h"
#include "engine/collision/sheets.h"

#include "base/mem.h"

#include <string.h>

enum { MOST_NUMBERS = 1 << 30 }; // nodes, edges, triangles: what a key has room for

static qpc_status no_memory(qpc_error *err) {
    return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a detector");
}

static void static_planes(qpc_mesh_part *m, const double *x) {
    for (int32_t t = 0; t < m->triangle_count; t++) {
        float *plane = m->plane + 4 * (int64_t)t;
        memset(plane, 0, 4 * sizeof *plane);
        if (m->topology->triangle_degenerate[t]) continue;
        qpc_vec3 p[3];
        for (int k = 0; k < 3; k++)
            p[k] = v3_sub(v3_load(x + 3 * (int64_t)(m->first_node + m->triangles[3 * t + k])),
                          v3_load(m->origin));
        qpc_vec3 n = v3_cross(v3_sub(p[1], p[0]), v3_sub(p[2], p[0]));
        double length = v3_norm(n);
        if (!(length > 0)) continue;
        n = v3_scale(1 / length, n);
        // A sliver's normal is too poor to reject anything with: its corners must agree.
        double h[3] = {v3_dot(n, p[0]), v3_dot(n, p[1]), v3_dot(n, p[2])};
        if (fabs(h[1] - h[0]) + fabs(h[2] - h[0]) > 64 * 0x1p-52 * m->size) continue;
        plane[0] = (float)n.x;
        plane[1] = (float)n.y;
        plane[2] = (float)n.z;
        plane[3] = (float)h[0];
    }
}

/// Directions away from each edge in its first two triangles that have one, in nodes' positions.
static void static_tangents(qpc_mesh_part *m, const double *x) {
    const qpc_topology *t = m->topology;
    for (int32_t e = 0; e < m->edge_count; e++) {
        double *to = m->tangent + 6 * (int64_t)e;
        int32_t first = t->edge_triangle_start[e], last = t->edge_triangle_start[e + 1] - 1;
        memset(to, 0, 6 * sizeof *to);
        m->beside[2 * e] = t->edge_triangle[first];
        m->beside[2 * e + 1] = t->edge_triangle[last > first ? first + 1 : first];
        for (int s = 0; s < 2; s++)
            v3_store(to + 3 * s, qpc_edge_tangent(m, x, e, m->beside[2 * e + s]));
        m->flat[e] = last == first + 1 && v3_norm2(v3_load(to)) > 0.5 &&
                     v3_norm(v3_add(v3_load(to), v3_load(to + 3))) < 1e-10;
    }
}

/// One lane of qpc_is_beside: never within, if there is no u.
static void put_side(float *lane, const double *u, qpc_vec3 corner) {
    double h = u != NULL ? v3_dot(v3_load(u), corner) : HUGE_VAL;
    for (int d = 0; d < 3; d++) lane[4 * d] = u != NULL ? (float)u[d] : 0;
    lane[12] = (float)h;
}

static void static_sides(qpc_mesh_part *m, const double *x) {
    for (int32_t t = 0; t < m->triangle_count; t++) {
        float *sides = m->sides + 32 * (int64_t)t;
        for (int side = 0; side < 3; side++) {
            int32_t e = m->topology->triangle_edge[3 * (int64_t)t + side];
            const int32_t *beside = e >= 0 ? m->beside + 2 * (int64_t)e : NULL;
            int mine = e < 0 || beside[0] == t ? 0 : 1;
            bool known = e >= 0 && beside[mine] == t; // else one of many triangles at this edge
            bool rim = !known || beside[1 - mine] == t;
            const double *u = known ? m->tangent + 6 * (int64_t)e : NULL;
            qpc_vec3 corner = v3_sub(v3_load(x + 3 * (int64_t)(m->first_node + m->triangles[3 * (int64_t)t + side])),
                                     v3_load(m->origin));
            put_side(sides + side, known ? u + 3 * mine : NULL, corner);
            put_side(sides + 16 + side, rim ? NULL : u + 3 * (1 - mine), corner);
        }
        put_side(sides + 3, NULL, v3(0, 0, 0));
        put_side(sides + 19, NULL, v3(0, 0, 0));
        sides[15] = -INFINITY; // a fourth side, which everything is within
    }
}

static void static_lines(qpc_mesh_part *m, const double *x) {
    memset(m->line, 0, 8 * (size_t)m->edge_count * sizeof *m->line);
    for (int32_t e = 0; e < m->edge_count; e++)
        for (int k = 0; k < 2; k++) {
            const double *p =
                x + 3 * (int64_t)(m->first_node + m->topology->edge_vertex[2 * e + k]);
            for (int d = 0; d < 3; d++)
                m->line[8 * (int64_t)e + 2 * d + k] = (float)(p[d] - m->origin[d]);
        }
}

static qpc_status add_mesh(qpc_detector *det, const qpc_surface *s, int32_t surface,
                           const double *x, int64_t *triangles, int64_t *edges, qpc_error *err) {
    qpc_mesh_part *m = &det->meshes[det->mesh_count++];
    m->surface = surface;
    m->first_node = s->first_node;
    m->motion = s->motion == QPC_RIGID ? QPC_DYNAMIC : s->motion;
    m->rigid = s->motion == QPC_RIGID;
    m->moving = s->motion != QPC_STATIC;
    m->mesh = qpc_mesh_ref(s->mesh);
    m->topology = qpc_mesh_topology(s->mesh);
    m->triangles = qpc_mesh_elements(s->mesh);
    m->triangle_count = (int32_t)qpc_mesh_element_count(s->mesh);
    m->edge_count = m->topology->edge_count;
    m->triangle_base = (int32_t)*triangles;
    m->edge_base = (int32_t)*edges;
    m->radius = s->radius;
    m->node_count = s->node_count;
    if (det->mesh_count > 1) m->sheet_edge_base = m[-1].sheet_edge_base + m[-1].edge_count;
    *triangles += m->triangle_count;
    *edges += m->edge_count;
    if (*triangles > MOST_NUMBERS || *edges > MOST_NUMBERS)
        return qpc_fail(err, QPC_ERR_LIMIT, "more than 2^30 triangles or edges in all surfaces");
    m->triangle_box = qpc_alloc_array((size_t)m->triangle_count, sizeof *m->triangle_box);
    m->edge_box = qpc_alloc_array((size_t)m->edge_count, sizeof *m->edge_box);
    if (m->triangle_box == NULL || m->edge_box == NULL) return no_memory(err);
    size_t nodes = (size_t)qpc_mesh_vertex_count(s->mesh);
    if (m->moving) {
        m->reference = qpc_alloc_array(nodes, 3 * sizeof *m->reference);
        if (m->reference == NULL) return no_memory(err);
        memcpy(m->reference, x + 3 * (int64_t)s->first_node, nodes * 3 * sizeof *x);
    }
    qpc_mesh_part_fit(m, x);
    m->slack = m->moving ? 1e-6 * m->size : 0;
    qpc_status status = qpc_bvh_build(m->triangle_box, m->triangle_count, &m->bvh, err);
    if (status == QPC_OK && s->motion == QPC_DYNAMIC) {
        double apart = s->self_exclusion < 0 ? acos(-1.0) * s->radius : s->self_exclusion;
        status = qpc_nearby_create(s->mesh, apart, &m->nearby, err);
    }
    if (status != QPC_OK || m->moving) return status;
    m->plane = qpc_alloc_array((size_t)m->triangle_count, 4 * sizeof *m->plane);
    m->sides = qpc_alloc_array((size_t)m->triangle_count, 32 * sizeof *m->sides);
    if (m->plane == NULL || m->sides == NULL) return no_memory(err);
    m->tangent = qpc_alloc_array((size_t)m->edge_count, 6 * sizeof *m->tangent);
    m->beside = qpc_alloc_array((size_t)m->edge_count, 2 * sizeof *m->beside);
    m->flat = qpc_alloc_array((size_t)m->edge_count, 1);
    m->line = qpc_alloc_array((size_t)m->edge_count, 8 * sizeof *m->line);
    if (m->tangent == NULL || m->beside == NULL || m->flat == NULL || m->line == NULL)
        return no_memory(err);
    static_planes(m, x);
    static_tangents(m, x);
    static_sides(m, x);
    static_lines(m, x);
    return QPC_OK;
}

static qpc_status add_chain(qpc_detector *det, const qpc_surface *s, int32_t surface,
                            int64_t *edges, qpc_error *err) {
    qpc_chain_part *c = &det->chains[det->chain_count++];
    c->surface = surface;
    c->first_node = s->first_node;
    c->node_count = s->node_count;
    c->edge_count = s->node_count > 1 ? s->node_count - 1 : 1;
    c->feature_base = det->feature_count;
    c->edge_base = (int32_t)*edges;
    c->motion = s->motion == QPC_RIGID ? QPC_DYNAMIC : s->motion;
    c->radius = s->radius;
    c->self_exclusion = s->self_exclusion < 0 ? acos(-1.0) * s->radius : s->self_exclusion;
    det->feature_count += s->node_count;
    *edges += c->edge_count;
    if (*edges > MOST_NUMBERS)
        return qpc_fail(err, QPC_ERR_LIMIT, "more than 2^30 edges in all surfaces");
    c->leaves = 1;
    while (c->leaves < c->edge_count) c->leaves *= 2;
    c->arc = qpc_alloc_array((size_t)s->node_count + 1, sizeof *c->arc);
    c->tree = qpc_alloc_array(2 * (size_t)c->leaves, sizeof *c->tree);
    c->neighbour = qpc_alloc_array((size_t)c->edge_count, sizeof *c->neighbour);
    c->kinked = qpc_alloc_array((size_t)c->edge_count, 1);
    if (c->arc == NULL || c->tree == NULL || c->neighbour == NULL || c->kinked == NULL) return no_memory(err);
    c->arc[0] = 0;
    for (int32_t k = 0; k + 1 < s->node_count; k++) c->arc[k + 1] = c->arc[k] + s->rest_length[k];
    c->arc[s->node_count] = c->arc[s->node_count - 1];
    qpc_chain_neighbours(c);
    c->lead_max = 2 * c->arc[s->node_count - 1] / c->edge_count + 4 * c->radius;
    for (int32_t i = 0; i < 2 * c->leaves; i++) c->tree[i] = qpc_dbox_empty();
    return QPC_OK;
}

static qpc_status check_surface(const qpc_surface *s, int32_t i, const double *x,
                                int32_t node_count, qpc_error *err) {
    if (s->node_count < 1 || s->first_node < 0 ||
        (int64_t)s->first_node + s->node_count > node_count)
        return qpc_fail(err, QPC_ERR_INVALID, "surface %d has nodes %d to %lld of %d", (int)i,
                        (int)s->first_node, (long long)s->first_node + s->node_count - 1,
                        (int)node_count);
    if (!isfinite(s->radius) || s->radius < 0 || (s->mesh == NULL && s->shape == NULL && !(s->radius > 0)))
        return qpc_fail(err, QPC_ERR_INVALID,
                        "surface %d has radius %g; a chain needs one above 0, a mesh 0 or more",
                        (int)i, s->radius);
    for (int64_t k = 0; k < 3 * (int64_t)s->node_count; k++)
        if (!isfinite(x[3 * (int64_t)s->first_node + k]))
            return qpc_fail(err, QPC_ERR_NUMERIC, "the position of node %lld is not finite",
                            (long long)(s->first_node + k / 3));
    if (s->shape != NULL) {
        if (s->mesh != NULL || s->motion >= QPC_DYNAMIC || s->node_count != QPC_IMPLICIT_NODES)
            return qpc_fail(err, QPC_ERR_INVALID, "surface %d is an obstacle: static or kinematic, over %d nodes of its frame", (int)i,
                            QPC_IMPLICIT_NODES);
        return QPC_OK;
    }
    if (s->mesh != NULL) {
        if (qpc_mesh_nodes_per_element(s->mesh) != 3)
            return qpc_fail(err, QPC_ERR_UNSUPPORTED,
                            "surface %d is a mesh of %d nodes per element; triangles are needed",
                            (int)i, (int)qpc_mesh_nodes_per_element(s->mesh));
        if (s->motion >= QPC_DYNAMIC && (!(s->radius > 0) || isnan(s->self_exclusion)))
            return qpc_fail(err, QPC_ERR_INVALID,
                            "surface %d is a dynamic mesh of radius %g and self-exclusion %g; it "
                            "needs a radius above 0 and a length",
                            (int)i, s->radius, s->self_exclusion);
        if (qpc_mesh_vertex_count(s->mesh) != s->node_count)
            return qpc_fail(err, QPC_ERR_INVALID, "surface %d has %d nodes but its mesh %lld",
                            (int)i, (int)s->node_count, (long long)qpc_mesh_vertex_count(s->mesh));
        return QPC_OK;
    }
    if (s->node_count > 1 && s->rest_length == NULL)
        return qpc_fail(err, QPC_ERR_INVALID, "surface %d is a chain without rest lengths", (int)i);
    for (int32_t k = 0; k + 1 < s->node_count; k++)
        if (!isfinite(s->rest_length[k]) || s->rest_length[k] < 0)
            return qpc_fail(err, QPC_ERR_INVALID, "rest length %d of surface %d is %g", (int)k,
                            (int)i, s->rest_length[k]);
    return QPC_OK;
}

static qpc_status reserve_scratch(qpc_detector *det, qpc_error *err) {
    size_t n = (size_t)det->feature_count;
    det->feature_chain = qpc_alloc_array(n, sizeof *det->feature_chain);
    det->fat = qpc_alloc_array(n, sizeof *det->fat);
    det->last_motion = qpc_calloc(n, sizeof *det->last_motion);
    det->changed = qpc_calloc(n, 1);
    det->vt = qpc_calloc(n, sizeof *det->vt);
    det->ee = qpc_calloc(n, sizeof *det->ee);
    det->cc = qpc_calloc(n, sizeof *det->cc);
    det->tight = qpc_alloc_array(n, sizeof *det->tight);
    det->near_vt = qpc_calloc(n, sizeof *det->near_vt);
    det->near_ee = qpc_calloc(n, sizeof *det->near_ee);
    det->near_cc = qpc_calloc(n, sizeof *det->near_cc);
    det->edge_now = qpc_alloc_array(n, sizeof *det->edge_now);
    // Room that steps rarely outgrow: 64 candidates of each kind for every feature, to a limit.
    int64_t items = 192 * (int64_t)det->feature_count + 64;
    if (items > 1 << 22) items = 1 << 22; // they grow
    det->items_capacity = (int32_t)items;
    det->items = qpc_alloc_array((size_t)items, 2 * sizeof *det->items);
    det->spare = det->items != NULL ? det->items + items : NULL;
    det->slice_count = (det->feature_count + QPC_CHAIN_SLICE - 1) / QPC_CHAIN_SLICE;
    det->slices = qpc_calloc((size_t)det->slice_count, sizeof *det->slices);
    if (det->slices == NULL) return no_memory(err);
    for (int32_t i = 0; i < det->slice_count; i++)
        if (!qpc_array_reserve(&det->slices[i].found, 4 * QPC_CHAIN_SLICE)) return no_memory(err);
    det->near_capacity = (int32_t)(items / 2);
    det->near_items = qpc_alloc_array((size_t)det->near_capacity, sizeof *det->near_items);
    det->order_capacity = det->feature_count < 1 << 17 ? 8 * det->feature_count + 64 : 1 << 20;
    det->order = qpc_alloc_array((size_t)det->order_capacity, 2 * sizeof *det->order);
    if (det->feature_chain == NULL || det->fat == NULL || det->last_motion == NULL ||
        det->changed == NULL || det->vt == NULL || det->ee == NULL || det->cc == NULL ||
        det->tight == NULL || det->near_vt == NULL || det->near_ee == NULL ||
        det->near_cc == NULL || det->near_items == NULL || det->edge_now == NULL ||
        det->items == NULL || det->order == NULL ||
        !qpc_array_reserve(&det->raw, det->order_capacity) ||
        !qpc_array_reserve(&det->found, 1024) || !qpc_array_reserve(&det->near_edges, 1024) ||
        !qpc_array_reserve(&det->near_triangles, 1024))
        return no_memory(err);
    for (int32_t i = 0; i < det->chain_count; i++)
        for (int32_t k = 0; k < det->chains[i].node_count; k++) {
            int32_t f = det->chains[i].feature_base + k;
            det->feature_chain[f] = i;
            det->fat[f] = qpc_dbox_empty();
        }
    return QPC_OK;
}

qpc_status qpc_detector_create(const qpc_surface *surfaces, int32_t surface_count, const double *x,
                               int32_t node_count, int64_t max_candidates, qpc_detector **ret,
                               qpc_error *err) {
    if (surface_count < 0 || node_count < 0 || node_count > MOST_NUMBERS || max_candidates < 0)
        return qpc_fail(err, QPC_ERR_INVALID,
                        "a detector of %d surfaces over %d nodes makes no sense",
                        (int)surface_count, (int)node_count);
    int64_t features = 0, triangles = 0, edges = 0;
    int32_t meshes = 0, chains = 0;
    for (int32_t i = 0; i < surface_count; i++) {
        qpc_status status = check_surface(&surfaces[i], i, x, node_count, err);
        if (status != QPC_OK) return status;
        if (surfaces[i].absent) continue;
        meshes += surfaces[i].mesh != NULL;
        if (surfaces[i].mesh != NULL || surfaces[i].shape != NULL) continue;
        features += surfaces[i].node_count;
        chains++;
    }
    if (features > MOST_NUMBERS)
        return qpc_fail(err, QPC_ERR_LIMIT, "more than 2^30 nodes in all chains");
    qpc_detector *det = qpc_calloc(1, sizeof *det);
    if (det == NULL) return no_memory(err);
    det->node_count = node_count;
    det->max_candidates = max_candidates;
    det->cover = QPC_COVER;
    det->rebuild = true;
    det->meshes = qpc_calloc((size_t)meshes, sizeof *det->meshes);
    det->chains = qpc_calloc((size_t)chains, sizeof *det->chains);
    det->solid = qpc_calloc((size_t)surface_count, 1);
    qpc_status status = qpc_obstacles_init(det, surfaces, surface_count, err);
    if (det->meshes == NULL || det->chains == NULL || det->solid == NULL) status = no_memory(err);
    for (int32_t i = 0; i < surface_count && status == QPC_OK; i++) det->solid[i] = surfaces[i].mesh != NULL && surfaces[i].motion != QPC_DYNAMIC;
    for (int32_t i = 0; i < surface_count && status == QPC_OK; i++) {
        if (surfaces[i].absent) continue;
        if (surfaces[i].mesh != NULL) status = add_mesh(det, &surfaces[i], i, x, &triangles, &edges, err);
        else if (surfaces[i].shape == NULL) status = add_chain(det, &surfaces[i], i, &edges, err);
    }
    if (status == QPC_OK) status = reserve_scratch(det, err);
    bool deforming = false;
    for (int32_t i = 0; i < det->mesh_count && status == QPC_OK; i++)
        deforming |= det->meshes[i].motion == QPC_DYNAMIC;
    if (deforming) status = qpc_sheets_create(det, x, &det->sheets, err);
    if (status == QPC_OK) status = qpc_lists_update(det, x, x, 0, err);
    if (status != QPC_OK) {
        qpc_detector_destroy(det);
        return status;
    }
    *ret = det;
    return QPC_OK;
}

void qpc_detector_destroy(qpc_detector *det) {
    if (det == NULL) return;
    for (int32_t i = 0; i < det->mesh_count; i++) {
        qpc_mesh_part *m = &det->meshes[i];
        qpc_mesh_unref(m->mesh);
        qpc_bvh_destroy(m->bvh);
        qpc_free(m->triangle_box);
        qpc_free(m->edge_box);
        qpc_free(m->plane);
        qpc_free(m->sides);
        qpc_free(m->tangent);
        qpc_free(m->beside);
        qpc_free(m->flat);
        qpc_free(m->line);
        qpc_free(m->reference);
        qpc_nearby_destroy(m->nearby);
    }
    for (int32_t i = 0; i < det->chain_count; i++) {
        qpc_free(det->chains[i].arc);
        qpc_free(det->chains[i].tree);
        qpc_free(det->chains[i].neighbour);
        qpc_free(det->chains[i].kinked);
    }
    qpc_free(det->meshes);
    qpc_free(det->chains);
    qpc_free(det->obstacles);
    qpc_free(det->solid);
    qpc_free(det->feature_chain);
    qpc_free(det->fat);
    qpc_free(det->last_motion);
    qpc_free(det->changed);
    qpc_free(det->vt);
    qpc_free(det->ee);
    qpc_free(det->cc);
    qpc_free(det->items < det->spare ? det->items : det->spare);
    qpc_array_fini(&det->found);
    qpc_array_fini(&det->near_edges);
    qpc_array_fini(&det->near_triangles);
    qpc_free(det->tight);
    qpc_free(det->near_vt);
    qpc_free(det->near_ee);
    qpc_free(det->near_cc);
    qpc_free(det->near_items);
    qpc_free(det->edge_now);
    for (int32_t i = 0; i < det->slice_count && det->slices != NULL; i++)
        qpc_array_fini(&det->slices[i].found);
    qpc_free(det->slices);
    qpc_array_fini(&det->raw);
    qpc_free(det->order);
    qpc_sheets_destroy(det->sheets);
    qpc_free(det);
}

void qpc_detector_set_parallel(qpc_detector *det, const qpc_parallel *parallel) {
    det->parallel = parallel;
}

qpc_detect_counts qpc_detector_counts(const qpc_detector *det) {
    return det->counts;
}
void qpc_detector_counts_reset(qpc_detector *det) {
    det->counts = (qpc_detect_counts){0};
}
