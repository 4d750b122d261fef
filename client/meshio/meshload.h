/// Files to raw meshes: opening, limits, which reader. Inside client/meshio only. Any thread.
#ifndef QPC_CLIENT_MESHIO_MESHLOAD_H
#define QPC_CLIENT_MESHIO_MESHLOAD_H

#include "client/meshio/meshraw.h"
#include "client/meshio/volume.h"

#include <stdio.h>

typedef struct qpc_load_limits {
    int64_t bytes, vertices, elements;
} qpc_load_limits;

typedef enum qpc_file_kind {
    QPC_FILE_UNKNOWN,
    QPC_FILE_SURFACE, // formats that cannot hold tetrahedra
    QPC_FILE_VOLUME,  // formats that can
} qpc_file_kind;

/// given may be NULL; the defaults of meshfile.h.
qpc_load_limits qpc_load_limits_from(const qpc_mesh_file_limits *given);
/// Behind the last point of the name, or "".
const char *qpc_load_extension(const char *path);
qpc_file_kind qpc_load_kind(const char *path);

/// A regular file that is not empty and not over the limit.
qpc_status qpc_load_open(const char *path, const qpc_load_limits *limit, FILE **ret,
                         int64_t *ret_size, qpc_error *err);
/// QPC_ERR_LIMIT, naming max_vertices or max_elements.
qpc_status qpc_load_check_counts(const char *path, uint64_t vertices, uint64_t elements,
                                 const qpc_load_limits *limit, qpc_error *err);
/// Read by the reader of the format (not QPM). *ret is to be finished in any case.
qpc_status qpc_load_raw(const char *path, const qpc_load_limits *limit, qpc_mesh_raw *ret,
                        qpc_error *err);

/// Takes the arrays of raw, which has tetrahedra; raw is still to be finished.
qpc_status qpc_volume_from_raw(qpc_mesh_raw *raw, qpc_volume_mesh *ret, qpc_volume_report *report,
                               qpc_error *err);

#endif
