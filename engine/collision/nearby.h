/// Which vertices of a mesh are nearer to each other along its rest shape than a given length:
/// what self-contact of a surface leaves to its thickness (docs/theory-ccd.md, *Self-contact*).
///
/// Lengths are of shortest paths over the mesh as it was created, along edges and straight across
/// pairs of neighbouring triangles. Made once; asking does
/// not change it: any number of threads. Where edges are longer than the length nothing is stored;
/// else a vertex keeps its near ones as runs of successive numbers in breadth-first order, about
/// 2 length / edge of them, so that memory is linear in vertices and grows with the radius of what
/// is near, not with its area.
#ifndef QPC_ENGINE_COLLISION_NEARBY_H
#define QPC_ENGINE_COLLISION_NEARBY_H

#include "engine/geometry/mesh.h"

typedef struct qpc_nearby qpc_nearby;

/// length >= 0, m; may be infinite. QPC_ERR_LIMIT if more pairs of vertices are near than are worth
/// looking up one by one (a length of dozens of edges on a large mesh).
qpc_status qpc_nearby_create(const qpc_mesh *mesh, double length, qpc_nearby **ret, qpc_error *err);
void qpc_nearby_destroy(qpc_nearby *nearby);
/// No two vertices are near.
bool qpc_nearby_is_empty(const qpc_nearby *nearby);
/// Symmetrical; a and b differ.
bool qpc_nearby_has(const qpc_nearby *nearby, int32_t a, int32_t b);
size_t qpc_nearby_bytes(const qpc_nearby *nearby);

#endif
