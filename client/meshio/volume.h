/// Tetrahedral meshes from files, ready for a soft body: Gmsh (.msh: 1, 2.0 to 2.2, 4.1), VTK
/// (.vtk, .vtu), TetGen (.node with .ele), Medit (.mesh).
///
/// All tetrahedra come out with positive volume: where a file lists one the other way round, its
/// last two nodes are exchanged, and the report counts it. The surface is made from the
/// tetrahedra: the faces that belong to exactly one, seen counter-clockwise from outside.
/// Nodes keep the order of the file, unused ones too, so that a node's index here is its place
/// there. Files are taken as bytes in memory (at most max_bytes); what is allocated is bounded by
/// the file's size, not by what its header announces. The same file gives the same arrays, bit for
/// bit. Any thread; no state.
#ifndef QPC_CLIENT_MESHIO_VOLUME_H
#define QPC_CLIENT_MESHIO_VOLUME_H

#include "client/meshio/meshfile.h"

typedef struct qpc_volume_mesh {
    double *nodes;         // (node_count x 3), the file's unit: read as m; owned (qpc_free)
    int32_t *tets;         // (tet_count x 4); positive: (b-a) x (c-a) . (d-a) >= 0; owned
    int32_t *surface;      // (surface_count x 3), outward; in the order of the tetrahedra; owned
    int32_t *file_surface; // (file_surface_count x 3), triangles as the file lists them; owned
    int32_t node_count, tet_count, surface_count, file_surface_count;
} qpc_volume_mesh;

typedef struct qpc_volume_report {
    const char *format; // such as "Gmsh 4.1 binary"; static
    double volume;      // of all tetrahedra, m3
    int64_t flipped;    // tetrahedra whose orientation was set right
    int64_t flat;       // of volume exactly 0, or past the largest double: not for a soft body
    int32_t first_flat; // the first of them, or -1
    int64_t crowded;    // faces that belong to three tetrahedra or more
    int64_t unused;     // nodes that no tetrahedron has
    int64_t skipped;    // points and lines left out
} qpc_volume_report;

/// NULL and zeroed meshes are accepted; leaves it zeroed.
void qpc_volume_mesh_fini(qpc_volume_mesh *mesh);

/// limits (NULL or zeros: the defaults of meshfile.h) and report may be NULL; *ret and *report are
/// written on success only. Messages start with the path, then the line or byte in the file.
/// The format is told by the ending, for .msh and .mesh by the first word. A .node file is read
/// with the .ele beside it (and .face, if there is one), an .ele file with its .node.
/// QPC_ERR_NOT_FOUND, QPC_ERR_IO: a file cannot be opened or read. QPC_ERR_INVALID: it does not
/// read, or it has no tetrahedra; the message then says how to make them. QPC_ERR_UNSUPPORTED: not
/// one of these formats; for formats of surfaces, with the same advice. QPC_ERR_LIMIT,
/// QPC_ERR_MEMORY.
qpc_status qpc_volume_read(const char *path, const qpc_mesh_file_limits *limits,
                           qpc_volume_mesh *ret, qpc_volume_report *report, qpc_error *err);

/// Take out nodes that no tetrahedron has, in place, keeping the order of the others; triangles of
/// file_surface that use one go too. *ret_removed (may be NULL) is how many nodes went.
/// QPC_ERR_MEMORY leaves the mesh as it was.
qpc_status qpc_volume_mesh_compact(qpc_volume_mesh *mesh, int32_t *ret_removed, qpc_error *err);

/// The surface as a triangle mesh of its own: only the nodes that it has, in their order.
/// *ret_nodes (may be NULL): of each vertex of *ret the node of mesh, (ret->vertex_count); owned by
/// the caller (qpc_free). QPC_ERR_MEMORY.
qpc_status qpc_volume_mesh_skin(const qpc_volume_mesh *mesh, qpc_mesh_data *ret,
                                int32_t **ret_nodes, qpc_error *err);

#endif
