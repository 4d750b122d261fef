/// Which side of a mesh the nodes of a cable belong on, when the cable crosses it at the start.
///
/// Proximity cannot tell: a node behind a sheet is pushed further behind. So the cable is cut into
/// groups where it exactly crosses the mesh; groups lie on alternating sides, and those with the
/// shorter way go through. An edge of which neither end can go, or which is left across a rim when its ends
/// have gone, leaves sideways, past the nearest rim or contour of the mesh, if there is one near enough. One thread, at creation only.
#ifndef QPC_ENGINE_WORLD_SIDES_H
#define QPC_ENGINE_WORLD_SIDES_H

#include "engine/collision/bvh.h"
#include "engine/world/world.h"

typedef struct qpc_through { // a node that has to get to a side of a mesh, along row.n
    int32_t body;            // the mesh
    int32_t next;            // of the same (first) node, or -1
    qpc_contact row;         // node[0] is the node; separation: the thickness
} qpc_through;

typedef struct qpc_mesh_tree {
    qpc_bvh *bvh; // NULL: not needed so far
    qpc_fbox *boxes;
    double origin[3];
} qpc_mesh_tree;

typedef struct qpc_sides {
    const qpc_world *w;
    const double *limit; // (free nodes) m, how far each may move
    qpc_mesh_tree *tree; // (bodies)
    qpc_items found;
    QPC_ARRAY(qpc_through) through; // what was decided so far, at most one a node and mesh
    QPC_ARRAY(qpc_through) exits;   // the same for edges that leave sideways: node[0] and node[1] are the edge
    int32_t *first, *first_exit;    // (free nodes) into through and exits by (first) node, or -1
    int32_t *seen;                  // (bodies) scratch: the cable that asked last, from 1
    int32_t *group, *closest;       // (free nodes) scratch
    double *distance;
    qpc_vec3 *toward;
    double (*bary)[3];
} qpc_sides;

qpc_status qpc_sides_init(qpc_sides *sides, const qpc_world *w, const double *limit, qpc_error *err);
void qpc_sides_fini(qpc_sides *sides);
/// Decide for all overlaps of cables with meshes at x; they come in order of cables and edges. A node
/// goes through a mesh once: what was decided stays. *ret_new: decisions that are new.
qpc_status qpc_sides_decide(qpc_sides *sides, const double *x, const qpc_overlap *overlaps, int32_t count,
                            int32_t *ret_new, qpc_error *err);
/// A node, or an edge with it, is on its way through a mesh.
bool qpc_sides_passes(const qpc_sides *sides, int32_t node, int32_t body);
/// The decision about a node and a mesh, or NULL.
const qpc_through *qpc_sides_find(const qpc_sides *sides, int32_t node, int32_t body);

#endif
