/// Candidates near one place: what is left of the lists when every chain vertex stays in its tight
/// box.
///
/// A step asks several times about nearly the same positions (predicted ends and the end itself), and
/// about the motion there. A tight box is where a vertex is asked about first, the step before that and
/// some to come, and a little to all sides. Box, plane, direction and cone tests over these boxes are
/// made once; as long as the boxes hold, only what passed is walked (motions do without the cones).
/// That is complete by itself, so fat boxes and lists are not looked at meanwhile. Motions that leave
/// the boxes walk the lists, and leave the choice as it is.
#include "engine/collision/walk.h"

#include "base/mem.h"

static const double margin = 0.15;   // of the radius: what a tight box has to spare on all sides
static const double slow_step = 1.2; // of the radius: motions below it are led by some more of them
static const double lead = 3;        // so many

bool qpc_shortlist_holds(const qpc_detector *det, const double *x, double reach) {
    if (!det->near_valid || !(reach <= det->near_reach)) return false;
    for (int32_t i = 0; i < det->chain_count; i++) {
        const qpc_chain_part *c = &det->chains[i];
        const double *p = x + 3 * (int64_t)c->first_node;
        for (int32_t f = c->feature_base; f < c->feature_base + c->node_count; f++, p += 3)
            if (!qpc_dbox_holds(&det->tight[f], p)) return false;
    }
    return true;
}

qpc_dbox qpc_tight_box(const qpc_chain_part *c, const double *p, qpc_vec3 motion) {
    qpc_dbox b = qpc_dbox_empty();
    double step = qpc_largest(motion);
    qpc_dbox_add(&b, p);
    if (step < slow_step * c->radius) {
        for (int end = 0; end < 2; end++) {
            qpc_vec3 q = v3_madd(v3_load(p), end == 0 ? -1 : lead, motion);
            qpc_dbox_add(&b, (double[3]){q.x, q.y, q.z});
        }
    }
    return qpc_dbox_grow(&b, margin * c->radius);
}

/// A chain feature that stays within tight boxes (two for an edge), as seen by one mesh.
static void face_mesh(qpc_side *s, const qpc_mesh_part *m, const qpc_dbox *a, const qpc_dbox *b,
                      double reach) {
    qpc_dbox both = qpc_dbox_join(a, b);
    qpc_side_start(s, m, &both, reach);
    if (m->moving) return;
    // Centres of the boxes stand for the vertices; half a diagonal goes into the reach.
    double size = m->size, far = 0;
    s->points = a == b ? 1 : 2;
    for (int32_t i = 0; i < 2; i++) {
        const qpc_dbox *box = i == 0 ? a : b;
        qpc_vec3 low = v3_load(box->lo), high = v3_load(box->hi);
        s->p[i] = v3_sub(v3_scale(0.5, v3_add(low, high)), v3_load(m->origin));
        double half = 0.5 * v3_norm(v3_sub(high, low));
        far = half > far ? half : far;
        double norm = fabs(s->p[i].x) + fabs(s->p[i].y) + fabs(s->p[i].z) + far;
        size = norm > size ? norm : size;
    }
    s->p[2] = s->p[3] = s->p[1];
    s->far = far * (1 + 1e-12) + 64 * DBL_EPSILON * size;
    qpc_side_finish(s, reach + far * (1 + 1e-12), size, a != b);
}

/// The cones would reject a mesh feature from everywhere in the tight boxes.
static bool no_feature(const qpc_side *s, const double *x, int32_t i, bool edge) {
    const qpc_mesh_part *m = s->mesh;
    if (!edge) return qpc_is_beside(m, i, s->p[0], s->beyond, s->far);
    qpc_vec3 origin = v3_load(m->origin);
    qpc_vec3 p[4] = {v3_add(s->p[0], origin), v3_add(s->p[1], origin), qpc_node(x, m->first_node + qpc_edge_nodes(m, i)[0])};
    return qpc_behind_edge(m, i, p, s->beyond, s->far);
}

static bool push(qpc_detector *det, int32_t *used, int32_t item) {
    if (*used == det->near_capacity) {
        int64_t capacity = 2 * (int64_t)det->near_capacity + 1024;
        if (capacity > INT32_MAX) return false;
        int32_t *grown = qpc_realloc_array(det->near_items, (size_t)capacity, sizeof *grown);
        if (grown == NULL) return false;
        det->near_items = grown;
        det->near_capacity = (int32_t)capacity;
    }
    det->near_items[(*used)++] = item;
    return true;
}

/// Mesh features near one chain feature; edge: of edge k, else of vertex k.
static bool choose_mesh(qpc_detector *det, const double *x, const qpc_chain_part *c, int32_t k,
                        double reach, bool edge, int32_t *used) {
    int32_t f = c->feature_base + k, g = edge && k + 1 < c->node_count ? f + 1 : f;
    const qpc_list *l = edge ? &det->ee[f] : &det->vt[f];
    const int32_t *item = det->items + l->start;
    qpc_list *to = edge ? &det->near_ee[f] : &det->near_vt[f];
    qpc_side s = {0};
    s.mesh = NULL;
    to->start = *used;
    det->found.count = 0; // with what cones reject
    det->counts.box_tests += (uint64_t)l->count;
    for (int32_t q = 0; q < l->count; q++) {
        const qpc_mesh_part *m = qpc_mesh_of(s.mesh == NULL ? det->meshes : s.mesh, item[q], edge);
        if (m != s.mesh)
            face_mesh(&s, m, &det->tight[f], &det->tight[g], reach * (c->radius + m->radius));
        int32_t i = item[q] - (edge ? m->edge_base : m->triangle_base);
        // A moving mesh's boxes are good for all it may do before they are made anew.
        bool reached =
            edge && !m->moving
                ? qpc_edge_in_reach(&s, i)
                : qpc_fbox_overlap(edge ? &m->edge_box[i] : &m->triangle_box[i], &s.box) &&
                      (m->moving || qpc_near_plane(&s, i));
        if (!reached) continue;
        if (!qpc_array_push(&det->found, item[q])) return false;
        if (!m->moving && no_feature(&s, x, i, edge)) continue;
        if (!push(det, used, item[q])) return false;
    }
    to->count = *used - to->start;
    to->capacity = det->found.count;
    if (to->capacity == to->count) return true;
    for (int32_t q = 0; q < det->found.count; q++) // in their order: equal hits are told apart by it
        if (!push(det, used, det->found.data[q])) return false;
    return true;
}

static bool choose_chain(qpc_detector *det, const qpc_chain_part *c, int32_t k, double reach,
                         int32_t *used) {
    int32_t f = c->feature_base + k;
    const qpc_list *l = &det->cc[f];
    const int32_t *item = det->items + l->start;
    det->near_cc[f].start = *used;
    det->counts.box_tests += (uint64_t)l->count;
    for (int32_t q = 0; q < l->count; q++) {
        if (item[q] <= f || !qpc_chains_in_reach(det, f, item[q], reach)) continue;
        if (!push(det, used, item[q])) return false;
    }
    det->near_cc[f].count = det->near_cc[f].capacity = *used - det->near_cc[f].start;
    return true;
}

qpc_status qpc_shortlist_make(qpc_detector *det, const double *x, double reach, qpc_error *err) {
    for (int32_t f = 0; f < det->feature_count; f++) {
        const qpc_chain_part *c = &det->chains[det->feature_chain[f]];
        det->tight[f] = qpc_tight_box(c, x + 3 * (int64_t)(c->first_node + f - c->feature_base),
                                      det->last_motion[f]);
    }
    if (reach <= QPC_COVER) reach = det->usual_reach = fmax(reach, det->usual_reach);
    bool ok = true;
    int32_t used = 0;
    det->near_valid = false;
    for (int32_t i = 0; i < det->chain_count; i++) {
        const qpc_chain_part *c = &det->chains[i];
        for (int32_t k = 0; k < c->edge_count; k++) {
            int32_t f = c->feature_base + k, g = k + 1 < c->node_count ? f + 1 : f;
            qpc_dbox hull = qpc_dbox_join(&det->tight[f], &det->tight[g]);
            det->edge_now[f] = qpc_dbox_grow(&hull, reach * c->radius * (1 + 1e-12));
        }
    }
    for (int32_t i = 0; i < det->chain_count && ok; i++) {
        const qpc_chain_part *c = &det->chains[i];
        for (int32_t k = 0; k < c->node_count && ok; k++) {
            ok = choose_mesh(det, x, c, k, reach, false, &used);
            if (ok && k < c->edge_count) ok = choose_mesh(det, x, c, k, reach, true, &used);
            if (ok && k < c->edge_count) ok = choose_chain(det, c, k, reach, &used);
        }
    }
    if (!ok) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for candidate lists");
    det->near_reach = reach;
    det->near_valid = true;
    return QPC_OK;
}
