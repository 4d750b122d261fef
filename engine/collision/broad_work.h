/// What the files of the broad phase share: broad.c (surfaces, updates, numbers), broad_fit.c
/// (boxes and trees), broad_planes.c (planes of large triangles), broad_lists.c (walks and lists).
///
/// Vertices, triangles and edges of all surfaces lie in slots, in the order of the leaves of the
/// trees, so that what is near in space is near in memory. Slots without an item hold an empty box.
#ifndef QPC_ENGINE_COLLISION_BROAD_WORK_H
#define QPC_ENGINE_COLLISION_BROAD_WORK_H

#include "engine/collision/boxtree.h"
#include "engine/collision/broad.h"
#include "engine/geometry/topology.h"

#include <stdatomic.h>

#define QPC_BROAD_FARTHEST 1e30 // m, by coordinate: floats hold it with room to spare

enum { VERTEX, TRIANGLE, EDGE, KINDS }; // kinds of items, one tree each

typedef struct qpc_broad_plane qpc_broad_plane;

typedef struct qpc_broad_part { // a surface
    qpc_broad_surface def;
    const int32_t *triangle; // (triangles x 3) nodes of the mesh
    const qpc_topology *topology;
    int32_t node_count, triangle_base, edge_base; // numbers of the first over all surfaces
    qpc_boxtree tree[KINDS];
    int32_t slot[KINDS];      // first slots
    int32_t *node_slot;       // (nodes) slot of a vertex, -1 if it belongs to no triangle
    double *rest;             // static: (vertex slots x 3) m
    qpc_broad_plane *plane;   // static, of few triangles: (triangles)
    double length;            // mean extent of the triangles when last built, m
    double seen, seen_before; // largest motion of one update since the lists were last made, and
                              // between the last two times
    double pass_margin;       // that several updates over one step have needed, m
    float margin;             // of the fat boxes, m
} qpc_broad_part;

typedef struct qpc_broad_chunk { // of the passes over boxes
    int32_t part, kind, first, count;
    // Of vertices: all finite; m: largest motion by coordinate, where they are, farthest way from
    // the middle of a fat box, farthest way out of one (negative: all are inside)
    bool finite;
    double step, low[3], high[3], drift, excess;
} qpc_broad_chunk;

/// Two nodes of two trees to be walked together; the same node of the same tree: within it.
typedef struct qpc_broad_task {
    int32_t part_a, part_b, node_a, node_b;
    uint8_t kind_a, kind_b;
    float grow; // of the boxes of a, m: what a static surface's boxes lack
} qpc_broad_task;
typedef QPC_ARRAY(qpc_broad_task) qpc_broad_tasks;

typedef struct qpc_broad_segment { // of a list: from here on, the static side has this radius
    int32_t first;
    double radius;
} qpc_broad_segment;
typedef QPC_ARRAY(qpc_broad_segment) qpc_broad_segments;

typedef struct qpc_broad_slice {
    qpc_pairs fat[2], out[2]; // vt, ee: slots, fat boxes; numbers, boxes of the last update
    qpc_broad_segments segments[2];
    uint64_t box_tests;
    bool failed;  // memory
    char pad[64]; // slices are written by different threads
} qpc_broad_slice;

struct qpc_broad {
    qpc_broad_part *parts;
    int32_t part_count, slice_count, chunk_count[2]; // chunks of vertices, of the others
    qpc_broad_chunk *chunks;
    qpc_broad_slice *slices;
    qpc_broad_tasks tasks[2]; // second: scratch
    int32_t *by_node;         // (parts) in the order of their nodes
    int64_t max_pairs;
    double origin[3]; // of all boxes, m
    int32_t slot_count[KINDS];
    qpc_fbox *box[KINDS];   // (slots) of the last update, grown by reach x radius if not static; of triangles and edges that move
                            // only if it had pairs enough
    qpc_fbox *fat;          // (vertex slots) what the lists are good for
    int32_t *id[KINDS];     // (slots) global number of the item (vertex: node), or -1
    int32_t *corner[KINDS]; // triangle, edge: (slots x 3, x 2) vertex slots; NULL for vertices
    bool few;               // pairs in the lists: no boxes of triangles and edges are made for them
    bool exact;             // the lists were made of this update's own boxes
    bool listed;            // the lists can be used again
    int32_t list_age;       // updates since they were made, 0: not known
    double cover;           // reach of static boxes in the lists
    double reach_seen, reach_seen_before;
    qpc_broad_counts counts;
    // Of the update that runs:
    const double *x0, *x1;
    double reach;
    int64_t most;           // pairs that may be listed
    _Atomic int64_t so_far; // pairs listed by all slices, roughly
};

static inline int32_t qpc_broad_corners(int kind) {
    return kind == TRIANGLE ? 3 : kind == EDGE ? 2 : 1;
}
/// The slot of a part without an item, after all others.
static inline int32_t qpc_broad_no_vertex(const qpc_broad_part *p) {
    return p->slot[VERTEX] + QPC_BOX_LANES * p->tree[VERTEX].leaf_count;
}

/// The box around some vertex boxes.
static inline qpc_fbox qpc_broad_join(const qpc_fbox *box, const int32_t *corner, int count) {
    qpc_f4 lo = f4_load(box[corner[0]].lo), hi = f4_load(box[corner[0]].hi);
    for (int k = 1; k < count; k++) {
        lo = f4_min(lo, f4_load(box[corner[k]].lo));
        hi = f4_max(hi, f4_load(box[corner[k]].hi));
    }
    qpc_fbox b;
    f4_store(b.lo, lo);
    f4_store(b.hi, hi);
    return b;
}

// broad.c

qpc_status qpc_broad_not_finite(int32_t surface, qpc_error *err);

// broad_fit.c

/// Trees over the positions x1, slots numbered by them; boxes have to follow.
void qpc_broad_build(qpc_broad *broad, qpc_broad_part *part, const qpc_parallel *parallel);
/// Boxes of all vertices that move; false if a position is not finite (*ret_part has it).
/// *ret_inside: the lists can be used again as far as positions go.
bool qpc_broad_boxes(qpc_broad *broad, const qpc_parallel *parallel, bool *ret_inside,
                     int32_t *ret_part);
/// Boxes of all triangles and edges that move, from those of vertices.
void qpc_broad_feature_boxes(qpc_broad *broad, const qpc_parallel *parallel);
/// Fat boxes and trees of all that moves; trees that have grown loose are built again.
void qpc_broad_fatten(qpc_broad *broad, const qpc_parallel *parallel, bool with_margin);
/// Have things moved so far from the origin that float boxes are coarser than they need be?
bool qpc_broad_is_far(const qpc_broad *broad);
/// In the middle of what moves, at x1; static boxes and trees follow.
void qpc_broad_choose_origin(qpc_broad *broad);

// broad_planes.c

qpc_status qpc_broad_planes_init(qpc_broad_part *part, qpc_error *err);
/// For the present origin.
void qpc_broad_planes_fit(const qpc_broad *broad, qpc_broad_part *part);
size_t qpc_broad_planes_bytes(const qpc_broad_part *part);
/// Whether planes are worth a look: the triangles of `part` are much larger than those of the other.
bool qpc_broad_planes_pay(const qpc_broad_part *part, const qpc_broad_part *other);
/// A box that is apart, by a plane and more than grow, from the item in a slot of a surface with planes.
bool qpc_broad_beside(const qpc_broad *broad, const qpc_broad_part *part, int kind, int32_t slot, const float lo[3],
                      const float hi[3], float grow);

// broad_lists.c

qpc_status qpc_broad_list(qpc_broad *broad, const qpc_parallel *parallel, bool *ret_too_many,
                          qpc_error *err);
/// The lists' pairs whose boxes touch now.
qpc_status qpc_broad_filter(qpc_broad *broad, const qpc_parallel *parallel, qpc_error *err);

#endif
