/// Immutable triangle (or edge, or tetrahedron) mesh: validation, canonical bytes and SHA-256,
/// edges and adjacency. Reference-counted; worlds on any thread share one mesh.
#ifndef QPC_ENGINE_GEOMETRY_MESH_H
#define QPC_ENGINE_GEOMETRY_MESH_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct qpc_mesh qpc_mesh;

typedef struct qpc_mesh_limits {
    int64_t max_vertices, max_elements; // 0: no limit
} qpc_mesh_limits;

/// What was noticed and tolerated. Zero-area elements stay in the mesh (their edges and vertices
/// still collide); their first few numbers are given. Unreferenced vertices never collide.
typedef struct qpc_mesh_report {
    int64_t zero_area_count, unreferenced_count, duplicate_count;
    int64_t boundary_edge_count, nonmanifold_edge_count;
    int32_t zero_area[8], unreferenced[8];
    double low[3], high[3]; // bounding box of referenced vertices, m
} qpc_mesh_report;

/// Copies its input. vertices (vertex_count x 3) m; elements (element_count x nodes_per_element),
/// nodes_per_element 2, 3 or 4.
/// Refused with QPC_ERR_INVALID: no element, an index out of range, a coordinate that is not
/// finite, every element degenerate; QPC_ERR_LIMIT beyond limits (checked before memory is taken).
/// report and limits may be NULL.
qpc_status qpc_mesh_create(const double *vertices, int64_t vertex_count, const int32_t *elements,
                           int64_t element_count, int32_t nodes_per_element,
                           const qpc_mesh_limits *limits, qpc_mesh **ret, qpc_mesh_report *report,
                           qpc_error *err);
qpc_mesh *qpc_mesh_ref(const qpc_mesh *mesh);
void qpc_mesh_unref(const qpc_mesh *mesh); // NULL is accepted

int32_t qpc_mesh_nodes_per_element(const qpc_mesh *mesh);
int64_t qpc_mesh_vertex_count(const qpc_mesh *mesh);
int64_t qpc_mesh_element_count(const qpc_mesh *mesh);
const double *qpc_mesh_vertices(const qpc_mesh *mesh);  // (n x 3) m
const int32_t *qpc_mesh_elements(const qpc_mesh *mesh); // (m x nodes_per_element)
/// SHA-256 of the canonical bytes: "QPM1", uint32 nodes per element, uint64 vertex count, uint64
/// element count, float64 vertices (-0 as 0), int32 elements, little-endian, in the order given.
const uint8_t *qpc_mesh_sha256(const qpc_mesh *mesh);
size_t qpc_mesh_canonical_size(const qpc_mesh *mesh);
void qpc_mesh_canonical_bytes(const qpc_mesh *mesh, uint8_t *out);
/// Inverse of the above; validates like qpc_mesh_create. QPC_ERR_CORRUPT if sizes do not add up.
qpc_status qpc_mesh_from_canonical(const uint8_t *bytes, size_t size, const qpc_mesh_limits *limits,
                                   qpc_mesh **ret, qpc_mesh_report *report, qpc_error *err);

#endif
