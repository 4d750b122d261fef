/// A mesh on the client side: plain arrays, their canonical bytes and hash, OBJ and QPM1 output.
///
/// Nothing is validated here beyond what reading needs: the server validates what it is sent.
/// Any thread; a mesh belongs to one thread at a time.
#ifndef QPC_CLIENT_MESHIO_MESHDATA_H
#define QPC_CLIENT_MESHIO_MESHDATA_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct qpc_mesh_data {
    double *vertices;  // (vertex_count x 3) m; owned (qpc_free)
    int32_t *elements; // (element_count x nodes_per_element); owned
    int32_t vertex_count, element_count, nodes_per_element;
} qpc_mesh_data;

/// NULL and zeroed meshes are accepted; leaves it zeroed.
void qpc_mesh_data_fini(qpc_mesh_data *mesh);

/// "QPM1", uint32 nodes per element, uint64 vertex count, uint64 element count, float64 vertices
/// (-0 as 0), int32 elements, little-endian: what the SHA-256 of a mesh is taken over.
size_t qpc_mesh_data_canonical_size(const qpc_mesh_data *mesh);
/// *ret has qpc_mesh_data_canonical_size() bytes, newly allocated (qpc_free).
qpc_status qpc_mesh_data_canonical(const qpc_mesh_data *mesh, uint8_t **ret, qpc_error *err);
/// 64 lower-case hex digits and a NUL.
qpc_status qpc_mesh_data_sha256(const qpc_mesh_data *mesh, char ret[65], qpc_error *err);

/// Volume inside a closed, outward oriented triangle mesh (negative: oriented inwards), or of
/// tetrahedra, m3; 0 for edges.
double qpc_mesh_data_volume(const qpc_mesh_data *mesh);

/// Wavefront OBJ; numbers read back to the same doubles. comment may be NULL; one line.
/// Triangle and edge meshes only. QPC_ERR_IO if the stream fails.
qpc_status qpc_mesh_data_write_obj(const qpc_mesh_data *mesh, const char *comment, FILE *out,
                                   qpc_error *err);
/// The canonical bytes as a file.
qpc_status qpc_mesh_data_write_qpm(const qpc_mesh_data *mesh, FILE *out, qpc_error *err);

#endif
