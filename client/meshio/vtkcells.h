/// What legacy and XML files of VTK share: the names of number types, and cells of a grid.
/// Any thread; no state.
#ifndef QPC_CLIENT_MESHIO_VTKCELLS_H
#define QPC_CLIENT_MESHIO_VTKCELLS_H

#include "client/meshio/meshraw.h"

/// One cell of a VTK type with `count` points, each counted from 0 behind `first`. Tetrahedra,
/// triangles, quadrilaterals, pixels and polygons are taken, points and lines counted as skipped,
/// and anything else is refused.
qpc_status qpc_vtk_cell(qpc_mesh_raw *raw, const qpc_mesh_text *t, int64_t type,
                        const int64_t *points, int64_t count, int64_t first, qpc_error *err);

#endif
