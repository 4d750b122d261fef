/// The boundary of a mesh of tetrahedra, as a triangle mesh over the same vertices.
#ifndef QPC_ENGINE_GEOMETRY_SKIN_H
#define QPC_ENGINE_GEOMETRY_SKIN_H

#include "engine/geometry/mesh.h"

/// Faces that belong to one tetrahedron only, in the order of the tetrahedra, seen counter-clockwise from outside where those
/// have positive volume. Vertices keep their numbers, inner ones are in no triangle. QPC_ERR_INVALID if the mesh is not of
/// tetrahedra, or a face belongs to three; QPC_ERR_MEMORY; QPC_ERR_LIMIT.
qpc_status qpc_mesh_skin(const qpc_mesh *tets, qpc_mesh **ret, qpc_error *err);

#endif
