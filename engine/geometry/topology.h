/// Edges and adjacency of a triangle mesh, built once with the mesh and shared by all its users.
/// For collision only; not part of the mesh's identity. Immutable: any thread.
#ifndef QPC_ENGINE_GEOMETRY_TOPOLOGY_H
#define QPC_ENGINE_GEOMETRY_TOPOLOGY_H

#include "engine/geometry/mesh.h"

/// Side k of a triangle joins its corners k and k + 1 (mod 3). Edges are numbered by their lower,
/// then their higher vertex. A side that joins a vertex to itself is no edge (-1).
typedef struct qpc_topology {
    int32_t edge_count;
    int32_t *edge_vertex;         // (edges x 2), lower vertex first
    int32_t *edge_triangle_start; // (edges + 1) into edge_triangle
    int32_t *edge_triangle;       // triangles of an edge, ascending; the first one owns it
    int32_t *triangle_edge;       // (triangles x 3)
    uint8_t *triangle_owns;       // (triangles) bit k: this triangle owns the edge of its side k
    uint8_t *triangle_degenerate; // (triangles) 1: no area, so no normal and no tangents
    int32_t *vertex_edge_start;   // (vertices + 1) into vertex_edge
    int32_t *vertex_edge;         // edges of a vertex, ascending
} qpc_topology;

/// NULL if the mesh is not made of triangles.
const qpc_topology *qpc_mesh_topology(const qpc_mesh *mesh);

/// The edge that joins two vertices, or -1.
int32_t qpc_topology_edge(const qpc_topology *topology, int32_t a, int32_t b);

#endif
