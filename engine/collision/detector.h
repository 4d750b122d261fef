/// Inside of the detector, shared by lists.c (what may be near), pairs.c (what is), overlap.c and
/// detect.c. Not for users of detection.
///
/// Global numbers: nodes as the caller numbers them; triangles and edges counted over all surfaces
/// in order, so that two features and a type make a key. A *feature* f of chains numbers their
/// vertices, and with the same number the edge from that vertex to the next.
#ifndef QPC_ENGINE_COLLISION_DETECTOR_H
#define QPC_ENGINE_COLLISION_DETECTOR_H

#include "engine/collision/broad.h"
#include "engine/collision/bvh.h"
#include "engine/collision/detect.h"
#include "engine/collision/nearby.h"
#include "engine/geometry/topology.h"

#define QPC_COVER 1.26 // usual reach of the lists, in separations

typedef struct qpc_dbox {
    double lo[3], hi[3];
} qpc_dbox;

typedef struct qpc_mesh_part {
    int32_t surface, first_node;
    qpc_motion_kind motion;
    bool moving;          // not static
    bool rigid;           // never touches itself; motion is QPC_DYNAMIC
    const qpc_mesh *mesh; // referenced
    const qpc_topology *topology;
    const int32_t *triangles; // (triangles x 3) mesh vertices
    int32_t node_count, triangle_count, edge_count;
    int32_t triangle_base, edge_base; // global numbers of the first
    int32_t sheet_edge_base;          // the same among edges of meshes only
    double radius;
    double origin[3]; // of the float boxes
    double size;      // largest distance of a node from origin, by coordinate
    qpc_bvh *bvh;
    qpc_fbox *triangle_box, *edge_box;
    float *plane;       // static: (triangles x 4) unit normal and offset from origin; zeros if none
    float *sides;       // static: (triangles x 32) x, y, z and offset from origin of those tangents of
                        // its three sides, four by four: into the triangle, then into the one next to it
    double *tangent;    // static: (edges x 6) in-face directions away from the edge of two of its
                        // triangles, zeros if none
    int32_t *beside;    // static: (edges x 2) those triangles
    float *line;        // static: (edges x 8) ax bx ay by az bz 0 0 of its ends, from origin
    uint8_t *flat;      // static: (edges) 1: its two triangles lie in one plane, on either side
    double *reference;  // moving: (nodes x 3) where the boxes were taken
    double slack;       // moving: nodes within this of the reference need no new boxes, m
    double last_step;   // moving: largest motion of a coordinate in the last tested motion, m
    qpc_nearby *nearby; // dynamic: vertices near each other along the rest shape
} qpc_mesh_part;

typedef struct qpc_chain_part {
    int32_t surface, first_node, node_count, edge_count;
    int32_t feature_base, edge_base;
    qpc_motion_kind motion;
    double radius, self_exclusion;
    double *arc;     // (nodes) rest length from the first node
    int32_t *neighbour; // (edges) the last edge ahead that is no pair of the lists, see kinks.c
    uint8_t *kinked;    // (edges) scratch: those pairs are to be tested
    bool has_neighbours;
    double lead_max; // how far a fat box reaches ahead at most, m
    int32_t leaves;  // power of two
    qpc_dbox *tree;  // (2 leaves) implicit binary tree over the fat boxes of edges; root is 1
} qpc_chain_part;

typedef struct qpc_obstacle_part {
    int32_t surface, first_node;
    double radius;
    qpc_implicit shape;
} qpc_obstacle_part;

typedef struct qpc_sheets qpc_sheets; // see sheets.h

/// What contacts are sorted by, and where they are.
typedef struct qpc_order {
    uint64_t key;
    int32_t item;
} qpc_order;

typedef struct qpc_list {
    int32_t start, count, capacity;
} qpc_list;

/// A pair of triangle surfaces that a proximity call tested, and its distance then, in separations.
typedef struct qpc_tested {
    qpc_pair pair;
    int32_t mesh[2];
    bool vt;
    double ratio;
} qpc_tested;

/// What one slice of a walk found, on whichever thread.
typedef struct qpc_slice {
    qpc_contacts found;
    QPC_ARRAY(qpc_tested) tested; // of surfaces that keep their form
    qpc_detect_counts counts;
    double best; // smallest gap, in separations
    bool full;   // out of memory
} qpc_slice;
enum { QPC_CHAIN_SLICE = 256 }; // features of chains

struct qpc_detector {
    int32_t node_count, mesh_count, chain_count, feature_count;
    int64_t max_candidates;
    qpc_mesh_part *meshes;
    qpc_chain_part *chains;
    qpc_obstacle_part *obstacles;
    int32_t obstacle_count;
    uint8_t *solid;         // (surfaces) a mesh that keeps its form: static, kinematic or rigid
    int32_t *feature_chain; // (features)

    // Fat boxes and candidate lists, by feature: triangles near a vertex (vt), mesh edges near an
    // edge (ee), chain edges near an edge (cc; each pair is in both lists).
    qpc_dbox *fat;
    qpc_vec3 *last_motion;
    uint8_t *changed;
    qpc_list *vt, *ee, *cc;
    int32_t *items, *spare; // what lists point into, and its twin for compaction
    int32_t items_used, items_capacity;
    int64_t live; // entries in use
    double cover; // lists hold every pair that comes within cover * separation

    // The choice of them that may come near while every vertex stays in its tight box
    // (shortlist.c).
    qpc_dbox *tight;
    qpc_list *near_vt, *near_ee, *near_cc; // capacity: with those that cones reject, if
                                           // any, all of them once more behind the first `count`
    int32_t *near_items;
    int32_t near_capacity;
    bool near_valid, use_near; // use_near: what the last update left to be walked
    double near_reach, usual_reach;

    bool rebuild;    // every list is stale
    int32_t content; // calls of the smallest gap in a row that did without wide lists
    qpc_items found, near_edges, near_triangles;

    qpc_dbox *edge_now; // (features) scratch: box of each chain edge over the motion tested
    qpc_contacts raw;   // scratch: contacts before sorting
    qpc_order *order;   // scratch: twice order_capacity
    int32_t order_capacity;
    qpc_detect_counts counts;

    qpc_sheets *sheets; // NULL if no mesh is dynamic
    qpc_slice *slices;  // of the chains' features
    int32_t slice_count;
    const qpc_parallel *parallel;
};

/// Make the lists, and the choice of them in near_*, hold every pair that comes within reach *
/// separation while positions move straight from x0 to x1. QPC_ERR_NUMERIC, QPC_ERR_LIMIT,
/// QPC_ERR_MEMORY leave stale lists that the next call replaces.
qpc_status qpc_lists_update(qpc_detector *det, const double *x0, const double *x1, double reach,
                            qpc_error *err);
/// New reference positions, boxes and trees for moving meshes that have left their slack.
qpc_status qpc_lists_follow(qpc_detector *det, const double *x0, const double *x1, qpc_error *err);
/// Ascending.
void qpc_sort_items(int32_t *items, int32_t count);
/// How far the segment must move along the triangle's normal to leave its plane.
double qpc_overlap_depth(const qpc_vec3 p[2], const qpc_vec3 t[3]);

typedef enum qpc_key_type { // order of kinds in keys; part of warm starts, so it never changes
    QPC_KEY_VERTEX_FACE,
    QPC_KEY_VERTEX_EDGE,
    QPC_KEY_VERTEX_VERTEX,
    QPC_KEY_EDGE_VERTEX,
    QPC_KEY_EDGE_EDGE,
    QPC_KEY_VERTEX_OBSTACLE,
    QPC_KEY_EDGE_OBSTACLE = 7, // 6: joints (engine/world/joints.c)
} qpc_key_type;

static inline uint64_t qpc_contact_key(qpc_key_type type, int32_t i, int32_t j) {
    return (uint64_t)type << 60 | (uint64_t)(uint32_t)i << 30 | (uint64_t)(uint32_t)j;
}
/// Key of an edge-edge contact: node are a0, a1, b0, b1; edges by global number.
uint64_t qpc_ee_key(const int32_t node[4], const double *weight, int32_t edge_i, int32_t edge_j);
/// Empty a slice before it is worked on.
void qpc_slice_clear(qpc_slice *slice, double best);
/// Append what slices found to det->raw, in their order; add their counts; lower *best to theirs.
qpc_status qpc_slices_join(qpc_detector *det, const qpc_slice *slices, int32_t count, double *best,
                           qpc_error *err);
/// Sort det->raw by key, keep the first (earliest, nearest) of each key, write to ret.
qpc_status qpc_contacts_deliver(qpc_detector *det, qpc_contacts *ret, qpc_error *err);
/// shortlist.c: do the tight boxes hold these positions, and the choice made for them reach so far?
bool qpc_shortlist_holds(const qpc_detector *det, const double *x, double reach);
/// The tight box of a vertex asked about at p; motion: its last one.
qpc_dbox qpc_tight_box(const qpc_chain_part *c, const double *p, qpc_vec3 motion);
/// Choose from the lists by tight boxes around x. QPC_ERR_MEMORY.
qpc_status qpc_shortlist_make(qpc_detector *det, const double *x, double reach, qpc_error *err);
/// Float boxes of a mesh part at positions x, and its tree if there is one already.
void qpc_mesh_part_fit(qpc_mesh_part *m, const double *x);
/// Direction in a triangle's plane away from its edge e; zero if the triangle has no area.
qpc_vec3 qpc_edge_tangent(const qpc_mesh_part *m, const double *x, int32_t e, int32_t triangle);
/// kinks.c: who is a close neighbour of whom; whose neighbours may come near them over the motion, at
/// reach of their separation.
void qpc_chain_neighbours(qpc_chain_part *chain);
void qpc_chain_find_kinks(const qpc_chain_part *chain, const double *x0, const double *x1, double reach);

static inline bool qpc_dbox_overlap(const qpc_dbox *a, const qpc_dbox *b) {
    return (a->lo[0] <= b->hi[0]) & (b->lo[0] <= a->hi[0]) & (a->lo[1] <= b->hi[1]) &
           (b->lo[1] <= a->hi[1]) & (a->lo[2] <= b->hi[2]) & (b->lo[2] <= a->hi[2]);
}
static inline bool qpc_dbox_holds(const qpc_dbox *b, const double *p) {
    return (b->lo[0] <= p[0]) & (p[0] <= b->hi[0]) & (b->lo[1] <= p[1]) & (p[1] <= b->hi[1]) &
           (b->lo[2] <= p[2]) & (p[2] <= b->hi[2]);
}
static inline qpc_dbox qpc_dbox_empty(void) {
    return (qpc_dbox){{INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};
}
static inline void qpc_dbox_add(qpc_dbox *b, const double *p) {
    for (int d = 0; d < 3; d++) {
        b->lo[d] = p[d] < b->lo[d] ? p[d] : b->lo[d];
        b->hi[d] = p[d] > b->hi[d] ? p[d] : b->hi[d];
    }
}
static inline qpc_dbox qpc_dbox_join(const qpc_dbox *a, const qpc_dbox *b) {
    qpc_dbox c = *a;
    qpc_dbox_add(&c, b->lo);
    qpc_dbox_add(&c, b->hi);
    return c;
}
static inline qpc_dbox qpc_dbox_grow(const qpc_dbox *a, double by) {
    qpc_dbox b;
    for (int d = 0; d < 3; d++) b.lo[d] = a->lo[d] - by, b.hi[d] = a->hi[d] + by;
    return b;
}

/// Of the coordinates.
static inline double qpc_largest(qpc_vec3 a) {
    double x = fabs(a.x), y = fabs(a.y), z = fabs(a.z);
    x = y > x ? y : x;
    return z > x ? z : x;
}

/// Second node of edge k; a lone particle's edge is (p, p).
static inline int32_t qpc_chain_next(const qpc_chain_part *c, int32_t k) {
    return c->first_node + (k + 1 < c->node_count ? k + 1 : k);
}
/// Edges of one chain that are nearer along the rest shape than its exclusion.
static inline bool qpc_chain_near_self(const qpc_chain_part *c, int32_t a, int32_t b) {
    int32_t low = a < b ? a : b, high = a < b ? b : a;
    return c->arc[high] - c->arc[low + 1] < c->self_exclusion;
}

#endif
