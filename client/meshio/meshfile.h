/// Reading mesh files, in one place: triangles from OBJ, PLY, OFF and STL, triangles or tetrahedra
/// from the formats of volume.h, and our own QPM.
///
/// Polygons are triangulated, points and lines are left out and counted. Corners of triangles at
/// exactly the same position become one vertex (files such as STL repeat them); nothing is
/// smoothed, moved, or merged within a tolerance. Coordinates are doubles. A file with tetrahedra
/// gives these (4 nodes per element, the file's nodes). The file is taken into memory; beyond that,
/// what is allocated is bounded by its size, whatever its header says. docs/mesh-files.md lists
/// what is read of each format. Any thread.
#ifndef QPC_CLIENT_MESHIO_MESHFILE_H
#define QPC_CLIENT_MESHIO_MESHFILE_H

#include "client/meshio/meshdata.h"

typedef struct qpc_mesh_file_limits { // 0: the default
    int64_t max_bytes;                // of the file; 2 GiB
    int64_t max_vertices;             // as the file has them; 60,000,000
    int64_t max_elements;             // 20,000,000
} qpc_mesh_file_limits;

enum { QPC_MESH_FILE_NAMED = 16 };

typedef struct qpc_mesh_file_report {
    int64_t merged;  // corners that shared a position with an earlier one
    int64_t skipped; // points and lines left out
    int64_t unused;  // vertices of a file of triangles that no triangle has, left out
    int32_t unused_first[QPC_MESH_FILE_NAMED]; // the first of them, counted from 0 in the order of the file
} qpc_mesh_file_report;

/// limits and report may be NULL. Messages start with the path. QPC_ERR_NOT_FOUND and QPC_ERR_IO:
/// the file cannot be opened; QPC_ERR_UNSUPPORTED: not one of these formats (by extension);
/// QPC_ERR_INVALID: it does not read, or has no triangle; QPC_ERR_LIMIT.
qpc_status qpc_mesh_file_read(const char *path, const qpc_mesh_file_limits *limits,
                              qpc_mesh_data *ret, qpc_mesh_file_report *report, qpc_error *err);

#endif
