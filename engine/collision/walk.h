/// The box, plane and edge tests that come before a pair test, and what they need to know of a
/// chain feature's motion. Inlined into the loops of pairs.c and shortlist.c. Not for users of
/// detection.
///
/// They reject only pairs that stay out of reach over the whole motion, rounding included.
#ifndef QPC_ENGINE_COLLISION_WALK_H
#define QPC_ENGINE_COLLISION_WALK_H

#include "engine/collision/features.h"

#include <float.h>

/// The stretch of `before` and `after` that a motion covers, as a box.
static inline qpc_dbox qpc_swept(const double *x0, const double *x1, int32_t a, int32_t b) {
    qpc_dbox box = qpc_dbox_empty();
    qpc_dbox_add(&box, x0 + 3 * (int64_t)a);
    qpc_dbox_add(&box, x0 + 3 * (int64_t)b);
    if (x1 != x0) {
        qpc_dbox_add(&box, x1 + 3 * (int64_t)a);
        qpc_dbox_add(&box, x1 + 3 * (int64_t)b);
    }
    return box;
}

typedef struct qpc_side {
    // A chain feature against one mesh: its box over the motion, grown by the reach of the pair.
    const qpc_mesh_part *mesh;
    qpc_fbox box;   // static meshes
    qpc_dbox exact; // moving ones
    qpc_vec3 p[4];  // positions of the feature's nodes, x0 then x1, relative to the mesh's origin
    int32_t points;
    double beyond; // farther than this to one side of a plane is out of reach
    double far;    // tight boxes: half of the largest diagonal
    // Edges: two directions across by x, y, z, and what the motion covers of them, grown by the
    // reach and rounded outward; each twice, for both ends of a mesh edge.
    float direction[3][4], below[4], above[4];
    float point[3][4]; // p by x, y, z; the points that there are fill it
    float off[4];      // beyond, rounded up
} qpc_side;

/// With points and mesh given: reach in doubles, directions across an edge. size: largest 1-norm.
static inline void qpc_side_finish(qpc_side *s, double reach, double size, bool edge) {
    // Six roundings of 2^-24 in each term, 1-norms of mesh nodes up to 3 sizes; with a margin.
    double rounding = 0x1p-18 * size;
    s->beyond = reach + 64 * DBL_EPSILON * size;
    for (int i = 0; i < 4; i++) {
        s->point[0][i] = (float)s->p[i].x;
        s->point[1][i] = (float)s->p[i].y;
        s->point[2][i] = (float)s->p[i].z;
        s->off[i] = (float)(s->beyond + rounding);
    }
    if (!edge) return;
    qpc_vec3 along = qpc_unit(v3_sub(s->p[1], s->p[0]));
    double x = fabs(along.x), y = fabs(along.y), z = fabs(along.z);
    qpc_vec3 axis = z <= x && z <= y ? v3(0, 0, 1) : y <= x ? v3(0, 1, 0) : v3(1, 0, 0);
    qpc_vec3 across[2] = {qpc_unit(v3_cross(along, axis))};
    across[1] = v3_cross(along, across[0]);
    for (int k = 0; k < 2; k++) {
        double low = INFINITY, high = -INFINITY;
        for (int32_t i = 0; i < s->points; i++) {
            double h = v3_dot(across[k], s->p[i]);
            low = h < low ? h : low;
            high = h > high ? h : high;
        }
        for (int i = 2 * k; i < 2 * k + 2; i++) {
            s->direction[0][i] = (float)across[k].x;
            s->direction[1][i] = (float)across[k].y;
            s->direction[2][i] = (float)across[k].z;
            s->below[i] = (float)(low - s->beyond - rounding);
            s->above[i] = (float)(high + s->beyond + rounding);
        }
    }
}

/// The box of a feature over its motion, grown by the reach of the pair.
static inline void qpc_side_start(qpc_side *s, const qpc_mesh_part *m, const qpc_dbox *swept,
                                  double reach) {
    s->mesh = m;
    s->exact = qpc_dbox_grow(swept, reach);
    // A moving mesh's float boxes are as old as its slack allows; the exact test comes after them.
    double old = m->moving ? m->slack + 1e-6 * m->size : 0;
    qpc_dbox around = qpc_dbox_grow(&s->exact, old);
    s->box = qpc_fbox_around(around.lo, around.hi, m->origin);
}

static inline void qpc_face_mesh(qpc_side *s, const qpc_mesh_part *m, const double *x0,
                                 const double *x1, int32_t a, int32_t b, double reach) {
    qpc_dbox swept = qpc_swept(x0, x1, a, b);
    qpc_side_start(s, m, &swept, reach);
    if (m->moving) return;
    qpc_vec3 origin = v3_load(m->origin);
    s->points = (a != b ? 2 : 1) * (x0 != x1 ? 2 : 1);
    s->p[0] = v3_sub(qpc_node(x0, a), origin);
    s->p[1] = v3_sub(a != b ? qpc_node(x0, b) : qpc_node(x1, a), origin);
    s->p[2] = s->points > 2 ? v3_sub(qpc_node(x1, a), origin) : s->p[0];
    s->p[3] = s->points > 2 ? v3_sub(qpc_node(x1, b), origin) : s->p[0];
    double size = m->size;
    for (int32_t i = 0; i < s->points; i++) {
        double norm = fabs(s->p[i].x) + fabs(s->p[i].y) + fabs(s->p[i].z);
        size = norm > size ? norm : size;
    }
    qpc_side_finish(s, reach, size, a != b);
}

/// False if a static mesh edge stays out of reach in a direction across the cable edge.
static inline bool qpc_near_across(const qpc_side *s, int32_t e) {
    const float *line = s->mesh->line + 8 * (int64_t)e; // ax bx ay by az bz
    unsigned high, low;
#ifdef __SSE2__
    __m128 xy = _mm_loadu_ps(line), z = _mm_loadu_ps(line + 4);
    __m128 f = _mm_mul_ps(_mm_movelh_ps(xy, xy), _mm_loadu_ps(s->direction[0]));
    f = _mm_add_ps(f, _mm_mul_ps(_mm_movehl_ps(xy, xy), _mm_loadu_ps(s->direction[1])));
    f = _mm_add_ps(f, _mm_mul_ps(_mm_movelh_ps(z, z), _mm_loadu_ps(s->direction[2])));
    high = (unsigned)_mm_movemask_ps(_mm_cmpgt_ps(f, _mm_loadu_ps(s->above)));
    low = (unsigned)_mm_movemask_ps(_mm_cmplt_ps(f, _mm_loadu_ps(s->below)));
#else
    high = low = 0;
    for (int i = 0; i < 4; i++) {
        float f = line[i & 1] * s->direction[0][i] + line[2 + (i & 1)] * s->direction[1][i];
        f += line[4 + (i & 1)] * s->direction[2][i];
        high |= (unsigned)(f > s->above[i]) << i;
        low |= (unsigned)(f < s->below[i]) << i;
    }
#endif
    // Bits 0 and 1, or 2 and 3: both ends are beyond in one direction.
    return ((0xf888U >> high | 0xf888U >> low) & 1) == 0;
}

/// False if the feature stays out of reach on one side of a static triangle's plane.
static inline bool qpc_near_plane(const qpc_side *s, int32_t t) {
    const float *plane = s->mesh->plane + 4 * (int64_t)t;
#ifdef __SSE2__
    __m128 h = _mm_mul_ps(_mm_set1_ps(plane[0]), _mm_loadu_ps(s->point[0]));
    h = _mm_add_ps(h, _mm_mul_ps(_mm_set1_ps(plane[1]), _mm_loadu_ps(s->point[1])));
    h = _mm_add_ps(h, _mm_mul_ps(_mm_set1_ps(plane[2]), _mm_loadu_ps(s->point[2])));
    h = _mm_sub_ps(h, _mm_set1_ps(plane[3]));
    __m128 off = _mm_loadu_ps(s->off);
    return _mm_movemask_ps(_mm_cmpgt_ps(h, off)) != 15 &&
           _mm_movemask_ps(_mm_cmplt_ps(h, _mm_sub_ps(_mm_setzero_ps(), off))) != 15;
#else
    int high = 0, low = 0;
    for (int i = 0; i < 4; i++) {
        float h = plane[0] * s->point[0][i] + plane[1] * s->point[1][i];
        h += plane[2] * s->point[2][i];
        h -= plane[3];
        high += h > s->off[i];
        low += h < -s->off[i];
    }
    return high != 4 && low != 4;
#endif
}

/// As qpc_beside_triangle() for a vertex at p from the mesh's origin, in single precision: rejects a little less.
static inline bool qpc_is_beside(const qpc_mesh_part *m, int32_t t, qpc_vec3 p, double reach, double by) {
    if (m->moving) return false;
    const float *side = m->sides + 32 * (int64_t)t; // x, y, z, offset; the same across
    double size = fabs(p.x) + fabs(p.y) + fabs(p.z);
    size = size > m->size ? size : m->size;
    float least = (float)(by + QPC_CONE_SLACK * reach + 0x1p-18 * size);
#ifdef __SSE2__
    __m128 x = _mm_set1_ps((float)p.x), y = _mm_set1_ps((float)p.y), z = _mm_set1_ps((float)p.z);
    __m128 low = _mm_set1_ps(least), f[2];
    for (int k = 0; k < 2; k++, side += 16) {
        f[k] = _mm_mul_ps(_mm_loadu_ps(side), x);
        f[k] = _mm_add_ps(f[k], _mm_mul_ps(_mm_loadu_ps(side + 4), y));
        f[k] = _mm_add_ps(f[k], _mm_mul_ps(_mm_loadu_ps(side + 8), z));
        f[k] = _mm_sub_ps(f[k], _mm_loadu_ps(side + 12));
    }
    __m128 within = _mm_or_ps(_mm_cmpge_ps(f[0], low), _mm_cmpge_ps(f[1], low));
    return _mm_movemask_ps(within) == 15 &&
           _mm_movemask_ps(_mm_cmple_ps(f[0], _mm_sub_ps(_mm_setzero_ps(), low))) != 0;
#else
    float q[3] = {(float)p.x, (float)p.y, (float)p.z};
    bool within = true, outside = false;
    for (int i = 0; i < 3; i++) {
        float f[2];
        for (int k = 0; k < 2; k++) {
            const float *u = side + 16 * k + i;
            f[k] = u[0] * q[0] + u[4] * q[1];
            f[k] += u[8] * q[2];
            f[k] -= u[12];
        }
        within &= f[0] >= least || f[1] >= least;
        outside |= f[0] <= -least;
    }
    return within && outside;
#endif
}

/// A static mesh edge; s->box is for its float box.
static inline bool qpc_edge_in_reach(const qpc_side *s, int32_t e) {
    const int32_t *beside = s->mesh->beside + 2 * (int64_t)e;
    return qpc_near_across(s, e) && qpc_fbox_overlap(&s->mesh->edge_box[e], &s->box) &&
           qpc_near_plane(s, beside[0]) && qpc_near_plane(s, beside[1]);
}

static inline bool qpc_near_triangle(const qpc_side *s, const double *x0, const double *x1,
                                     int32_t t) {
    const qpc_mesh_part *m = s->mesh;
    if (!m->moving) return qpc_fbox_overlap(&m->triangle_box[t], &s->box) && qpc_near_plane(s, t);
    if (!qpc_fbox_overlap(&m->triangle_box[t], &s->box)) return false;
    const int32_t *v = m->triangles + 3 * (int64_t)t;
    qpc_dbox b = qpc_swept(x0, x1, m->first_node + v[0], m->first_node + v[1]);
    qpc_dbox_add(&b, x0 + 3 * (int64_t)(m->first_node + v[2]));
    qpc_dbox_add(&b, x1 + 3 * (int64_t)(m->first_node + v[2]));
    return qpc_dbox_overlap(&b, &s->exact);
}

static inline bool qpc_near_mesh_edge(const qpc_side *s, const double *x0, const double *x1,
                                      int32_t e) {
    const qpc_mesh_part *m = s->mesh;
    if (!m->moving) return qpc_edge_in_reach(s, e);
    if (!qpc_fbox_overlap(&m->edge_box[e], &s->box)) return false;
    const int32_t *v = qpc_edge_nodes(m, e);
    qpc_dbox b = qpc_swept(x0, x1, m->first_node + v[0], m->first_node + v[1]);
    return qpc_dbox_overlap(&b, &s->exact);
}

/// May two chain edges come within reach, by det->edge_now? Near along the rest shape they keep a
/// hundredth of the separation only.
static inline bool qpc_chains_in_reach(const qpc_detector *det, int32_t f, int32_t g,
                                       double reach) {
    if (!qpc_dbox_overlap(&det->edge_now[f], &det->edge_now[g])) return false;
    const qpc_chain_part *c = &det->chains[det->feature_chain[f]];
    if (det->feature_chain[f] != det->feature_chain[g] ||
        !qpc_chain_near_self(c, f - c->feature_base, g - c->feature_base))
        return true;
    qpc_dbox near = qpc_dbox_grow(&det->edge_now[f], -1.98 * reach * c->radius);
    return qpc_dbox_overlap(&near, &det->edge_now[g]);
}

/// Lists go mesh by mesh: move on to the mesh that holds global triangle or edge number `item`.
static inline const qpc_mesh_part *qpc_mesh_of(const qpc_mesh_part *m, int32_t item, bool edge) {
    while (item >= (edge ? m->edge_base + m->edge_count : m->triangle_base + m->triangle_count))
        m++;
    return m;
}

#endif
