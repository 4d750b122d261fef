/// Pair tests: contacts by proximity, hits over a motion, the smallest gap.
///
/// Each pair is decided by its own positions alone, never by what the lists hold besides it: an
/// exact box test comes first, so a list that holds more gives the same contacts, bit for bit.
/// Vertex-triangle tests find what a cable's vertices are near, edge-edge tests what the inside of
/// its edges is near. Feature pairs that several tests find (a vertex and an edge that two
/// triangles share) have one key; the nearest (or earliest) of them is kept.
#include "base/cpu.h"
#include "engine/collision/ccd.h"
#include "engine/collision/filter.h"
#include "engine/collision/obstacles.h"
#include "engine/collision/sheets.h"
#include "engine/collision/walk.h"
#include "engine/geometry/closest.h"

#include <float.h>
#include <string.h>

static const double past_end = 1e-3;  // parallel edges: how far past an end still counts as over it
static const double tolerance = 0.01; // of the separation: largest stop tolerance of a motion test

// ---- contacts ----

/// Key of a vertex-triangle contact by the features its weights name.
static uint64_t vt_key(const qpc_mesh_part *m, int32_t vertex_node, int32_t t, const double *weight,
                       int32_t *ret_edge, int32_t *ret_vertex) {
    qpc_triangle_feature(m, t, weight, ret_edge, ret_vertex);
    if (*ret_edge >= 0)
        return qpc_contact_key(QPC_KEY_VERTEX_EDGE, vertex_node, m->edge_base + *ret_edge);
    if (*ret_vertex >= 0)
        return qpc_contact_key(QPC_KEY_VERTEX_VERTEX, vertex_node, m->first_node + *ret_vertex);
    return qpc_contact_key(QPC_KEY_VERTEX_FACE, vertex_node, m->triangle_base + t);
}

static qpc_contact mesh_contact(const qpc_chain_part *c, const qpc_mesh_part *m, int kind,
                                int32_t feature_i, int32_t feature_j) {
    qpc_contact r = {.kind = (uint8_t)kind, .separation = c->radius + m->radius};
    r.surface[0] = c->surface;
    r.surface[1] = m->surface;
    r.feature[0] = feature_i;
    r.feature[1] = feature_j;
    if (kind == QPC_CONTACT_VT) {
        r.node[0] = c->first_node + feature_i;
        for (int k = 0; k < 3; k++)
            r.node[1 + k] = m->first_node + m->triangles[3 * (int64_t)feature_j + k];
    } else {
        r.node[0] = c->first_node + feature_i;
        r.node[1] = qpc_chain_next(c, feature_i);
        for (int k = 0; k < 2; k++) r.node[2 + k] = m->first_node + qpc_edge_nodes(m, feature_j)[k];
    }
    return r;
}

static void load_vt(const double *x, const qpc_chain_part *c, int32_t k, const qpc_mesh_part *m,
                    int32_t t, qpc_vec3 p[4]) {
    const int32_t *v = m->triangles + 3 * (int64_t)t;
    p[0] = qpc_node(x, c->first_node + k);
    for (int i = 0; i < 3; i++) p[1 + i] = qpc_node(x, m->first_node + v[i]);
}

static void load_ee(const double *x, const qpc_chain_part *c, int32_t k, const qpc_mesh_part *m,
                    int32_t e, qpc_vec3 p[4]) {
    const int32_t *v = qpc_edge_nodes(m, e);
    p[0] = qpc_node(x, c->first_node + k);
    p[1] = qpc_node(x, qpc_chain_next(c, k));
    for (int i = 0; i < 2; i++) p[2 + i] = qpc_node(x, m->first_node + v[i]);
}

static void fill(qpc_contact *c, const qpc_closest *near) {
    memcpy(c->weight, near->weight, sizeof near->weight);
    c->distance = near->distance;
    c->n = near->distance > 0 ? v3_scale(1 / near->distance, near->d) : v3(0, 0, 0);
}

// ---- walking lists ----

/// Boxes of all chain edges over a motion, grown by `reach` radii.
static void sweep_chains(qpc_detector *det, const double *x0, const double *x1, double reach) {
    for (int32_t i = 0; i < det->chain_count; i++) {
        const qpc_chain_part *c = &det->chains[i];
        for (int32_t k = 0; k < c->edge_count; k++) {
            qpc_dbox b = qpc_swept(x0, x1, c->first_node + k, qpc_chain_next(c, k));
            det->edge_now[c->feature_base + k] = qpc_dbox_grow(&b, reach * c->radius);
        }
        qpc_chain_find_kinks(c, x0, x1, reach);
    }
}

/// One loop for all tests: visit is called for each pair whose boxes over the motion are in reach.
typedef struct walk {
    const qpc_detector *det;
    qpc_slice *to; // contacts in the order found, counts
    const double *x0, *x1;
    double reach;  // of the box tests, in separations
    double factor; // motion: tested separation; others: reach, before it shrinks
    double best;   // minimum gap
    struct batch *batch; // motion: edges that wait to be filtered
} walk;

typedef void vt_visit(walk *, const qpc_chain_part *, int32_t k, const qpc_mesh_part *, int32_t t);
typedef void ee_visit(walk *, const qpc_chain_part *, int32_t k, const qpc_mesh_part *, int32_t e);
typedef void cc_visit(walk *, const qpc_chain_part *, int32_t a, const qpc_chain_part *, int32_t b);

/// The items of a list; all: of a choice, with those that cones reject.
static inline const int32_t *near_items(const int32_t *items, const qpc_list *l, bool all) {
    return items + l->start + (all && l->capacity > l->count ? l->count : 0);
}

/// Pairs of features first to last - 1 with what their lists hold.
static inline QPC_ALWAYS_INLINE void
visit(walk *w, int32_t first, int32_t last, vt_visit *on_vt, ee_visit *on_ee, cc_visit *on_cc) {
    const qpc_detector *det = w->det;
    const double *x0 = w->x0, *x1 = w->x1;
    const qpc_list *vt = det->use_near ? det->near_vt : det->vt;
    const qpc_list *ee = det->use_near ? det->near_ee : det->ee;
    const qpc_list *cc = det->use_near ? det->near_cc : det->cc;
    const int32_t *items = det->use_near ? det->near_items : det->items;
    bool all = det->use_near && x0 != x1; // no cones for motions
    for (int32_t f = first; f < last;) {
        const qpc_chain_part *c = &det->chains[det->feature_chain[f]];
        for (int32_t k = f - c->feature_base; k < c->node_count && f < last; k++, f++) {
            int32_t a = c->first_node + k;
            const qpc_list *l = &vt[f];
            const int32_t *item = near_items(items, l, all);
            qpc_side s;
            s.mesh = NULL;
            int32_t count = all ? l->capacity : l->count;
            w->to->counts.candidates += (uint64_t)count;
            for (int32_t q = 0; q < count; q++) {
                const qpc_mesh_part *m =
                    qpc_mesh_of(s.mesh == NULL ? det->meshes : s.mesh, item[q], false);
                if (m != s.mesh)
                    qpc_face_mesh(&s, m, x0, x1, a, a, w->reach * (c->radius + m->radius));
                int32_t t = item[q] - m->triangle_base;
                if (qpc_near_triangle(&s, x0, x1, t)) on_vt(w, c, k, m, t);
            }
            if (k >= c->edge_count) continue;
            l = &ee[f];
            item = near_items(items, l, all);
            s.mesh = NULL;
            count = all ? l->capacity : l->count;
            w->to->counts.candidates += (uint64_t)count;
            for (int32_t q = 0; q < count; q++) {
                const qpc_mesh_part *m =
                    qpc_mesh_of(s.mesh == NULL ? det->meshes : s.mesh, item[q], true);
                if (m != s.mesh)
                    qpc_face_mesh(&s, m, x0, x1, a, qpc_chain_next(c, k),
                                  w->reach * (c->radius + m->radius));
                int32_t e = item[q] - m->edge_base;
                if (qpc_near_mesh_edge(&s, x0, x1, e)) on_ee(w, c, k, m, e);
            }
            l = &cc[f];
            item = items + l->start;
            for (int32_t q = 0; q < l->count; q++) {
                if (item[q] <= f) continue; // lists hold each pair twice
                w->to->counts.candidates++;
                if (!qpc_chains_in_reach(det, f, item[q], w->reach)) continue;
                const qpc_chain_part *o = &det->chains[det->feature_chain[item[q]]];
                on_cc(w, c, k, o, item[q] - o->feature_base);
            }
            for (int32_t o = k + 2; c->kinked[k] && o <= c->neighbour[k]; o++) {
                w->to->counts.candidates++;
                if (qpc_chains_in_reach(det, f, c->feature_base + o, w->reach)) on_cc(w, c, k, c, o);
            }
        }
    }
}

typedef void slice_visit(walk *w, int32_t first, int32_t last);

typedef struct slices { // of the features, by their number alone
    const walk *walk;
    slice_visit *visit;
    qpc_detector *det;
} slices;

static void visit_slice(void *data, int32_t slice) {
    const slices *s = data;
    int32_t first = slice * QPC_CHAIN_SLICE, last = first + QPC_CHAIN_SLICE;
    walk w = *s->walk;
    w.to = &s->det->slices[slice];
    qpc_slice_clear(w.to, w.best);
    s->visit(&w, first, last < s->det->feature_count ? last : s->det->feature_count);
    w.to->best = w.best;
}

/// Visit all pairs; contacts into det->raw by feature, the least of `best` into w->best.
static qpc_status visit_all(qpc_detector *det, walk *w, slice_visit *visit_one, qpc_error *err) {
    sweep_chains(det, w->x0, w->x1, w->reach);
    slices job = {w, visit_one, det};
    qpc_parallel_run(det->parallel, det->slice_count, visit_slice, &job);
    det->raw.count = 0;
    return qpc_slices_join(det, det->slices, det->slice_count, &w->best, err);
}

// ---- proximity ----

static void proximity_vt(walk *w, const qpc_chain_part *c, int32_t k, const qpc_mesh_part *m,
                         int32_t t) {
    qpc_vec3 p[4];
    qpc_closest near;
    double reach = w->factor * (c->radius + m->radius);
    if (qpc_is_beside(m, t, v3_sub(qpc_node(w->x0, c->first_node + k), v3_load(m->origin)), reach, 0)) return;
    load_vt(w->x0, c, k, m, t, p);
    w->to->counts.vt_tests++;
    qpc_closest_vt(p, &near);
    if (!(near.distance < reach)) return;
    qpc_contact r = mesh_contact(c, m, QPC_CONTACT_VT, k, t);
    fill(&r, &near);
    int32_t e, v;
    r.key = vt_key(m, r.node[0], t, r.weight, &e, &v);
    if (near.distance <= qpc_direction_limit(p, 4)) {
        r.n = qpc_mesh_normal(m, w->x0, t, e);
    } else if (e >= 0 ? !qpc_mesh_edge_is_nearest(m, w->x0, e, near.d, false)
                      : v >= 0 && !qpc_mesh_vertex_is_nearest(m, w->x0, v, near.d, false)) {
        return;
    }
    w->to->full |= !qpc_array_push(&w->to->found, r);
}

/// An end of the mesh edge against the inside of the cable edge, for edges nearly parallel.
static void proximity_mesh_vertex(walk *w, const qpc_contact *base, const qpc_mesh_part *m,
                                  const qpc_vec3 p[4], int end) {
    double s;
    qpc_vec3 q = p[2 + end];
    qpc_vec3 d = qpc_origin_segment(v3_sub(p[0], q), v3_sub(p[1], q), &s);
    double distance = v3_norm(d);
    if (!(s > 0 && s < 1) || !(distance < w->factor * base->separation) || !(distance > 0)) return;
    if (!qpc_mesh_vertex_is_nearest(m, w->x0, base->node[2 + end] - m->first_node, d, true)) return;
    qpc_contact r = *base;
    r.weight[0] = 1 - s;
    r.weight[1] = s;
    r.weight[2] = end == 0 ? -1 : 0;
    r.weight[3] = end == 1 ? -1 : 0;
    r.distance = distance;
    r.n = v3_scale(1 / distance, d);
    r.key = qpc_contact_key(QPC_KEY_EDGE_VERTEX, (int32_t)(base->key >> 30 & 0x3fffffff),
                            r.node[2 + end]);
    w->to->full |= !qpc_array_push(&w->to->found, r);
}

static void proximity_ee(walk *w, const qpc_chain_part *c, int32_t k, const qpc_mesh_part *m,
                         int32_t e) {
    qpc_vec3 p[4];
    qpc_closest near;
    double reach = w->factor * (c->radius + m->radius);
    load_ee(w->x0, c, k, m, e, p);
    if (qpc_behind_edge(m, e, p, reach, 0)) return;
    w->to->counts.ee_tests++;
    qpc_closest_ee(p, &near);
    if (!(near.distance < reach)) return;
    qpc_contact r = mesh_contact(c, m, QPC_CONTACT_EE, k, e);
    if (near.parallel && v3_norm2(v3_sub(p[1], p[0])) > 0) {
        r.key = qpc_contact_key(QPC_KEY_EDGE_EDGE, c->edge_base + k, m->edge_base + e);
        proximity_mesh_vertex(w, &r, m, p, 0);
        proximity_mesh_vertex(w, &r, m, p, 1);
    }
    // What a vertex of the cable is near is found by vertex-triangle tests.
    if (near.weight[0] == 0 || near.weight[1] == 0) return;
    fill(&r, &near);
    r.key = qpc_ee_key(r.node, r.weight, c->edge_base + k, m->edge_base + e);
    int32_t v = r.weight[3] == 0 ? r.node[2] : r.weight[2] == 0 ? r.node[3] : -1;
    if (near.distance <= qpc_direction_limit(p, 4)) {
        r.n = qpc_mesh_normal(m, w->x0, 0, e);
    } else if (v >= 0 ? !qpc_mesh_vertex_is_nearest(m, w->x0, v - m->first_node, near.d, true)
                      : !qpc_mesh_edge_is_nearest(m, w->x0, e, near.d, true)) {
        return;
    }
    w->to->full |= !qpc_array_push(&w->to->found, r);
}

static qpc_contact chain_contact(const qpc_chain_part *c, int32_t a, const qpc_chain_part *o,
                                 int32_t b) {
    qpc_contact r = {.kind = QPC_CONTACT_EE, .separation = c->radius + o->radius};
    r.surface[0] = c->surface;
    r.surface[1] = o->surface;
    r.feature[0] = a;
    r.feature[1] = b;
    r.node[0] = c->first_node + a;
    r.node[1] = qpc_chain_next(c, a);
    r.node[2] = o->first_node + b;
    r.node[3] = qpc_chain_next(o, b);
    if (c == o && qpc_chain_near_self(c, a, b)) {
        r.flags = QPC_CONTACT_NEAR_SELF;
        r.separation *= 0.01;
    }
    return r;
}

/// The four end points against the other edge, for edges nearly parallel: both ends of the stretch
/// along which they run side by side hold, so that they do not turn into each other.
static void proximity_parallel(walk *w, const qpc_contact *base, const qpc_vec3 p[4],
                               int32_t edge_i, int32_t edge_j) {
    for (int end = 0; end < 4; end++) {
        bool on_i = end < 2; // the end point belongs to side i
        qpc_vec3 q = p[end], a = p[on_i ? 2 : 0], b = p[on_i ? 3 : 1];
        qpc_vec3 e = v3_sub(b, a);
        double along = v3_dot(v3_sub(q, a), e) / v3_norm2(e);
        if (!(along >= -past_end && along <= 1 + past_end)) continue;
        double s;
        qpc_vec3 d = qpc_origin_segment(v3_sub(q, a), v3_sub(q, b), &s); // q - point on a b
        double distance = v3_norm(d);
        if (!(distance < w->factor * base->separation) || distance <= qpc_direction_limit(p, 4))
            continue;
        qpc_contact r = *base;
        r.weight[0] = on_i ? end == 0 : 1 - s;
        r.weight[1] = on_i ? end == 1 : s;
        r.weight[2] = -(on_i ? 1 - s : end == 2);
        r.weight[3] = -(on_i ? s : end == 3);
        for (int k = 2; k < 4; k++) r.weight[k] += 0.0; // no -0
        r.distance = distance;
        r.n = v3_scale((on_i ? 1 : -1) / distance, d);
        r.key = qpc_ee_key(r.node, r.weight, edge_i, edge_j);
        if (r.flags & QPC_CONTACT_NEAR_SELF) r.separation = fmin(r.separation, distance);
        w->to->full |= !qpc_array_push(&w->to->found, r);
    }
}

static void proximity_cc(walk *w, const qpc_chain_part *c, int32_t a, const qpc_chain_part *o,
                         int32_t b) {
    qpc_contact r = chain_contact(c, a, o, b);
    qpc_vec3 p[4];
    qpc_closest near;
    w->to->counts.ee_tests++;
    qpc_load_nodes(w->x0, r.node, p);
    qpc_closest_ee(p, &near);
    if (!(near.distance < w->factor * r.separation)) return;
    int32_t edge_i = c->edge_base + a, edge_j = o->edge_base + b;
    if (near.parallel && v3_norm2(v3_sub(p[1], p[0])) > 0 && v3_norm2(v3_sub(p[3], p[2])) > 0)
        proximity_parallel(w, &r, p, edge_i, edge_j);
    fill(&r, &near);
    r.key = qpc_ee_key(r.node, r.weight, edge_i, edge_j);
    if (near.distance <= qpc_direction_limit(p, 4)) {
        r.n = qpc_chain_normal(p);
    } else {
        int32_t i = r.weight[1] == 0 ? a : r.weight[0] == 0 ? a + 1 : -1;
        int32_t j = r.weight[3] == 0 ? b : r.weight[2] == 0 ? b + 1 : -1;
        bool near_self = (r.flags & QPC_CONTACT_NEAR_SELF) != 0;
        if (i >= 0 && !qpc_chain_vertex_is_nearest(c, w->x0, i, r.n, o, b, near_self)) return;
        if (j >= 0 && !qpc_chain_vertex_is_nearest(o, w->x0, j, v3_neg(r.n), c, a, near_self))
            return;
    }
    if (r.flags & QPC_CONTACT_NEAR_SELF) r.separation = fmin(r.separation, r.distance);
    w->to->full |= !qpc_array_push(&w->to->found, r);
}

static void proximity_slice(walk *w, int32_t first, int32_t last) {
    visit(w, first, last, proximity_vt, proximity_ee, proximity_cc);
}

qpc_status qpc_detect_proximity(qpc_detector *det, const double *x, double reach, qpc_contacts *ret,
                                qpc_error *err) {
    qpc_status status = qpc_lists_update(det, x, x, reach, err);
    if (status != QPC_OK) return status;
    walk w = {.det = det, .x0 = x, .x1 = x, .reach = reach, .factor = reach};
    status = visit_all(det, &w, proximity_slice, err);
    if (status == QPC_OK) status = qpc_sheets_proximity(det, x, reach, err);
    if (status == QPC_OK) status = qpc_obstacles_proximity(det, x, reach, err);
    if (status == QPC_OK) status = qpc_contacts_deliver(det, ret, err);
    return status == QPC_OK ? qpc_sheets_keep(det, ret, err) : status;
}

// ---- motion ----

typedef struct motion_hit {
    qpc_ccd_result hit;
    double start; // distance at the start
    bool inside;  // closer than the tested separation there
} motion_hit;

static inline bool moves_into(walk *w, bool vt, const qpc_vec3 p[4], const qpc_vec3 q[4],
                              double separation, motion_hit *ret) {
    double s = w->factor * separation;
    if (vt)
        qpc_ccd_vt_keep(p, q, s, tolerance * separation, &ret->hit, &ret->start);
    else
        qpc_ccd_ee_keep(p, q, s, tolerance * separation, &ret->hit, &ret->start);
    w->to->counts.ccd_iterations += (uint64_t)ret->hit.iterations;
    if (ret->hit.outcome == QPC_CCD_MISS) return false;
    ret->inside = ret->start < s;
    w->to->counts.hits++;
    return true;
}

static void take(qpc_contact *r, const motion_hit *h) {
    memcpy(r->weight, h->hit.weight, sizeof h->hit.weight);
    r->n = h->hit.n;
    r->distance = h->hit.distance;
    r->toi = h->hit.toi;
    if (h->inside) r->flags |= QPC_CONTACT_AT_START;
    if (h->hit.uncertain) r->flags |= QPC_CONTACT_UNCERTAIN;
}

static void motion_vt(walk *w, const qpc_chain_part *c, int32_t k, const qpc_mesh_part *m,
                      int32_t t) {
    qpc_vec3 p[4], q[4];
    motion_hit h;
    w->to->counts.vt_tests++;
    load_vt(w->x0, c, k, m, t, p);
    load_vt(w->x1, c, k, m, t, q);
    if (!moves_into(w, true, p, q, c->radius + m->radius, &h)) return;
    qpc_contact r = mesh_contact(c, m, QPC_CONTACT_VT, k, t);
    take(&r, &h);
    int32_t e, v;
    r.key = vt_key(m, r.node[0], t, r.weight, &e, &v);
    if (r.distance <= qpc_direction_limit(p, 4)) r.n = qpc_mesh_normal(m, w->x0, t, e);
    w->to->full |= !qpc_array_push(&w->to->found, r);
}

/// Edges of chains and meshes, eight at a time: most are proven apart by a fixed direction (filter.h).
typedef struct batch {
    qpc_filter_block block;
    const qpc_chain_part *chain[QPC_FILTER_LANES];
    const qpc_mesh_part *mesh[QPC_FILTER_LANES];
    int32_t edge[QPC_FILTER_LANES][2], count;
} batch;

static void test_ee(walk *w, const qpc_chain_part *c, int32_t k, const qpc_mesh_part *m, int32_t e) {
    qpc_vec3 p[4], q[4];
    motion_hit h;
    load_ee(w->x0, c, k, m, e, p);
    load_ee(w->x1, c, k, m, e, q);
    if (!moves_into(w, false, p, q, c->radius + m->radius, &h)) return;
    qpc_contact r = mesh_contact(c, m, QPC_CONTACT_EE, k, e);
    take(&r, &h);
    r.key = qpc_ee_key(r.node, r.weight, c->edge_base + k, m->edge_base + e);
    if (r.distance <= qpc_direction_limit(p, 4)) r.n = qpc_mesh_normal(m, w->x0, 0, e);
    w->to->full |= !qpc_array_push(&w->to->found, r);
}

static void filter_batch(walk *w) {
    batch *b = w->batch;
    uint8_t open;
    if (b->count == 0) return;
    qpc_filter_ee(&b->block, b->count, &open);
    for (int32_t i = 0; i < b->count; i++)
        if (open >> i & 1) test_ee(w, b->chain[i], b->edge[i][0], b->mesh[i], b->edge[i][1]);
    b->count = 0;
}

static void motion_ee(walk *w, const qpc_chain_part *c, int32_t k, const qpc_mesh_part *m, int32_t e) {
    qpc_vec3 p[4], q[4];
    batch *b = w->batch;
    w->to->counts.ee_tests++;
    load_ee(w->x0, c, k, m, e, p);
    load_ee(w->x1, c, k, m, e, q);
    // Beyond this nothing is reported, whatever the tolerance.
    qpc_filter_put(&b->block, b->count, p, q, w->reach * (c->radius + m->radius));
    b->chain[b->count] = c;
    b->mesh[b->count] = m;
    b->edge[b->count][0] = k;
    b->edge[b->count][1] = e;
    if (++b->count == QPC_FILTER_LANES) filter_batch(w);
}

static void motion_cc(walk *w, const qpc_chain_part *c, int32_t a, const qpc_chain_part *o,
                      int32_t b) {
    qpc_contact r = chain_contact(c, a, o, b);
    qpc_vec3 p[4], q[4];
    motion_hit h;
    w->to->counts.ee_tests++;
    qpc_load_nodes(w->x0, r.node, p);
    qpc_load_nodes(w->x1, r.node, q);
    if (!moves_into(w, false, p, q, r.separation, &h)) return;
    take(&r, &h);
    r.key = qpc_ee_key(r.node, r.weight, c->edge_base + a, o->edge_base + b);
    if (r.distance <= qpc_direction_limit(p, 4)) r.n = qpc_chain_normal(p);
    if (r.flags & QPC_CONTACT_NEAR_SELF) r.separation = fmin(r.separation, h.start);
    w->to->full |= !qpc_array_push(&w->to->found, r);
}

static void motion_slice(walk *w, int32_t first, int32_t last) {
    batch b;
    memset(&b.block, 0, sizeof b.block);
    b.count = 0;
    w->batch = &b;
    visit(w, first, last, motion_vt, motion_ee, motion_cc);
    filter_batch(w);
}

qpc_status qpc_detect_motion(qpc_detector *det, const double *x0, const double *x1, double factor,
                             qpc_contacts *ret, qpc_error *err) {
    double reach = factor + 1.1 * tolerance;
    qpc_status status = qpc_lists_update(det, x0, x1, reach, err);
    if (status != QPC_OK) return status;
    walk w = {.det = det, .x0 = x0, .x1 = x1, .reach = reach, .factor = factor};
    status = visit_all(det, &w, motion_slice, err);
    if (status == QPC_OK) status = qpc_sheets_motion(det, x0, x1, reach, factor, err);
    if (status == QPC_OK) status = qpc_obstacles_motion(det, x0, x1, factor, err);
    return status == QPC_OK ? qpc_contacts_deliver(det, ret, err) : status;
}

// ---- smallest gap ----

static void keep_smallest(walk *w, bool vt, const qpc_vec3 p[4], double separation) {
    qpc_closest near;
    if (vt)
        qpc_closest_vt(p, &near);
    else
        qpc_closest_ee(p, &near);
    if (near.distance < w->best * separation) w->best = w->reach = near.distance / separation;
}

// The nearest pair of all lies in the cone of its mesh feature, so the forerunners of the cones may
// reject here too.
static void gap_vt(walk *w, const qpc_chain_part *c, int32_t k, const qpc_mesh_part *m, int32_t t) {
    qpc_vec3 p[4];
    double reach = w->factor * (c->radius + m->radius);
    if (qpc_is_beside(m, t, v3_sub(qpc_node(w->x0, c->first_node + k), v3_load(m->origin)), reach, 0)) return;
    load_vt(w->x0, c, k, m, t, p);
    keep_smallest(w, true, p, c->radius + m->radius);
}

static void gap_ee(walk *w, const qpc_chain_part *c, int32_t k, const qpc_mesh_part *m, int32_t e) {
    qpc_vec3 p[4];
    load_ee(w->x0, c, k, m, e, p);
    if (qpc_behind_edge(m, e, p, w->factor * (c->radius + m->radius), 0)) return;
    keep_smallest(w, false, p, c->radius + m->radius);
}

static void gap_cc(walk *w, const qpc_chain_part *c, int32_t a, const qpc_chain_part *o,
                   int32_t b) {
    qpc_contact r = chain_contact(c, a, o, b);
    if (r.flags & QPC_CONTACT_NEAR_SELF) return;
    qpc_vec3 p[4];
    qpc_load_nodes(w->x0, r.node, p);
    keep_smallest(w, false, p, r.separation);
}

static void gap_slice(walk *w, int32_t first, int32_t last) {
    visit(w, first, last, gap_vt, gap_ee, gap_cc);
}

static qpc_status smallest_gap(qpc_detector *det, const double *x, double reach, walk *w, qpc_error *err) {
    w->best = w->reach = w->factor = reach;
    qpc_status status = qpc_lists_update(det, x, x, w->reach, err);
    if (status == QPC_OK) status = visit_all(det, w, gap_slice, err);
    if (status == QPC_OK) status = qpc_sheets_gap(det, x, w->factor, &w->best, err);
    if (status == QPC_OK) qpc_obstacles_gap(det, x, &w->best);
    return status;
}

qpc_status qpc_detect_gap_within(qpc_detector *det, const double *x, double reach, double *ret_ratio,
                                 qpc_error *err) {
    walk w = {.det = det, .x0 = x, .x1 = x};
    qpc_status status = smallest_gap(det, x, reach, &w, err);
    if (status == QPC_OK) *ret_ratio = w.best;
    return status;
}

qpc_status qpc_detect_minimum_gap(qpc_detector *det, const double *x, double *ret_ratio,
                                  qpc_error *err) {
    // Where there is contact something is nearer than 1.1, and wide lists are not needed. Once
    // made, they are kept for a while; what is found does not depend on them.
    walk w = {.det = det, .x0 = x, .x1 = x};
    for (int pass = 0; pass == 0 || (pass == 1 && !(w.best < 1.1)); pass++) {
        qpc_status status = smallest_gap(det, x, pass == 0 ? 1.1 : 2, &w, err);
        if (status != QPC_OK) return status;
        det->content = pass == 0 ? det->content + 1 : 0;
    }
    if (det->content > 100) { // lists narrow as they renew
        det->cover = QPC_COVER;
        det->content = 0;
    }
    *ret_ratio = w.best;
    return QPC_OK;
}
