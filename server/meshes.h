/// The meshes of the daemon: an index over the catalogue, a cache of decoded ones, and who uses them.
///
/// Any thread but the loop for what reads or writes the catalogue (it may wait for the disk); the
/// loop may ask for the list, known meshes and totals. A mesh is immutable, so worlds share it.
#ifndef QPC_SERVER_MESHES_H
#define QPC_SERVER_MESHES_H

#include "engine/geometry/mesh.h"
#include "storage/writer.h"

typedef struct qpc_meshes qpc_meshes;

typedef struct qpc_meshes_options {
    int64_t max_meshes, max_bytes;         // of the catalogue
    int64_t max_vertices, max_elements;    // of one mesh
    int64_t cache_bytes;                   // decoded meshes that nobody uses
} qpc_meshes_options;

/// Reads the list of meshes from the catalogue. The writer must outlive the meshes.
qpc_status qpc_meshes_create(const qpc_meshes_options *options, qpc_writer *writer,
                             qpc_meshes **ret, qpc_error *err);
void qpc_meshes_destroy(qpc_meshes *meshes);

/// Store a mesh unless it is known. *ret_known: it was. QPC_ERR_LIMIT names limit and option.
qpc_status qpc_meshes_add(qpc_meshes *meshes, const qpc_mesh *mesh, const char *name,
                          bool *ret_known, qpc_error *err);
/// A new reference; from the cache or the catalogue. QPC_ERR_NOT_FOUND.
qpc_status qpc_meshes_find(qpc_meshes *meshes, const uint8_t sha256[32], qpc_mesh **ret,
                           qpc_error *err);
/// Loop: is it stored? info may be NULL.
bool qpc_meshes_known(qpc_meshes *meshes, const uint8_t sha256[32], qpc_catalog_mesh *info);
/// A live world uses it (once per call), so that it cannot be deleted.
void qpc_meshes_hold(qpc_meshes *meshes, const uint8_t sha256[32]);
void qpc_meshes_release(qpc_meshes *meshes, const uint8_t sha256[32]);
/// QPC_ERR_NOT_FOUND; QPC_ERR_STATE while a world uses it.
qpc_status qpc_meshes_delete(qpc_meshes *meshes, const uint8_t sha256[32], qpc_error *err);
/// Loop: a copy of the index, oldest first (qpc_free).
qpc_status qpc_meshes_list(qpc_meshes *meshes, qpc_catalog_mesh **ret, int32_t *ret_count,
                           qpc_error *err);
/// Bytes of decoded meshes in memory.
int64_t qpc_meshes_memory(qpc_meshes *meshes);
/// Most canonical bytes that a mesh within the limits can have.
uint64_t qpc_meshes_largest(const qpc_meshes *meshes);
qpc_mesh_limits qpc_meshes_limits(const qpc_meshes *meshes);

#endif
