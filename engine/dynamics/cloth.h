/// Cloth: a triangle mesh of particles and springs, along its edges (stretch) and across them (bending).
///
///        c            One stretch spring an edge: a-b, b-c, c-a, b-d, d-a.
///       / \           One bending spring c-d for the inner edge a-b, between the two vertices opposite it; its
///      a---b          rest length is their distance in the rest mesh, whether that is flat or not.
///       \ /           An edge with one triangle, or with more than two, gets none.
///        d
///
/// Membrane stiffness E h (N/m) becomes k = E h A / l^2 of an edge of length l whose triangles have the area A
/// together (Van Gelder 1998): a sheet is as stiff whatever its mesh. The springs themselves are in cable.h.
/// No state; any thread.
#ifndef QPC_ENGINE_DYNAMICS_CLOTH_H
#define QPC_ENGINE_DYNAMICS_CLOTH_H

#include "engine/geometry/topology.h"

#include <stdbool.h>

typedef struct qpc_cloth_springs { // of one body: stretch springs in the order of edges, then bending ones
    int32_t count, stretch_count;
    int32_t *node, *other; // (count) node < other, from 0; NULL: s and s + 1, as in a cable
    double *stiffness;     // (count) N/m
    double *rest_length;   // (count) m, > 0
} qpc_cloth_springs;

/// The springs of a mesh `scale` times as large. stiffness (edges) N/m, or NULL: from membrane, N/m. bending: N/m of a
/// bending spring, 0: there are none. QPC_ERR_INVALID for an edge of no length.
qpc_status qpc_cloth_springs_make(const qpc_mesh *mesh, double scale, const double *stiffness, double membrane,
                                  double bending, qpc_cloth_springs *ret, qpc_error *err);
void qpc_cloth_springs_fini(qpc_cloth_springs *springs);
/// The two vertices opposite an inner edge, the lower first; false if there are not two.
bool qpc_cloth_across(const qpc_mesh *mesh, int32_t edge, int32_t ret[2]);
/// Area that each vertex stands for, a third of each of its triangles, (vertices) m2; *ret_all: of the mesh.
void qpc_cloth_areas(const qpc_mesh *mesh, double scale, double *ret, double *ret_all);

#endif
