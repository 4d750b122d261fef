/// Pressure on a surface of triangles: volume, nodal forces, load stiffness (docs/theory-joints.md, TJ10 to TJ12).
///
/// A triangle of corners 0, 1, 2 has the area vector a = 1/2 (x1 - x0) x (x2 - x0), seen counter-clockwise from where it points to; positive
/// pressure p acts along it, p a / 3 at each corner. No state but scratch: any thread, one at a time for the same surface.
#ifndef QPC_ENGINE_DYNAMICS_PRESSURE_H
#define QPC_ENGINE_DYNAMICS_PRESSURE_H

#include "base/vec.h"
#include "engine/dynamics/linsys.h"

#include <stdint.h>

typedef struct qpc_pressed {
    int32_t count, edge_count, border_count; // triangles; edges between two of them, borders (of one) behind those
    int32_t *node;                           // (count x 3)
    int32_t *edge;   // (edge_count + border_count, x 4) i, j, corner opposite of the triangle that goes from i to j, of the other; -1: none
    int32_t first_node, node_count;
    double *over;    // (node_count) scratch of the stiffness
} qpc_pressed;

/// Triangles (count x 3) of vertices 0 .. node_count - 1, which are nodes from first_node. QPC_ERR_INVALID if two triangles go along an edge
/// in one direction: then there is no side that they share; QPC_ERR_MEMORY.
qpc_status qpc_pressed_make(const int32_t *triangles, int32_t count, int32_t first_node, int32_t node_count, qpc_pressed *ret, qpc_error *err);
void qpc_pressed_fini(qpc_pressed *s);

/// Where volumes are measured from: a node, or the mean of what is on a border.
qpc_vec3 qpc_pressed_origin(const qpc_pressed *s, const double *x);
/// Between the surface and o, m3; of a closed one the same from everywhere.
double qpc_pressed_volume(const qpc_pressed *s, const double *x, qpc_vec3 o);
/// Work of the pressure p over x -> x1, J, the force on the open side (below) as it is at x. What the implicit step takes.
double qpc_pressed_work(const qpc_pressed *s, double p, const double *x, const double *x1, qpc_vec3 o);
/// f (3 n) += forces of the pressure p (Pa) at x, N.
void qpc_pressed_force(const qpc_pressed *s, double p, const double *x, double *f);
/// Of the open side: f (3 n) += p times the gradient of the volume less what qpc_pressed_force() gives; 0 where nothing is on a border.
void qpc_pressed_open_force(const qpc_pressed *s, double p, const double *x, qpc_vec3 o, double *f);
/// K += h^2 H and Hv += H v (3 n, both), H = -p times the second derivatives of the volume. Where a node's blocks are more than QPC_PRESSED_SHARE
/// of its mass, springs of length 0 along its edges are in both as well (TJ11): K is not less than the rest of the masses, and H of a closed
/// surface has columns that sum to zero, springs or not: no iterate of Newton's gains momentum.
#define QPC_PRESSED_SHARE 0.5
void qpc_pressed_stiffness(const qpc_pressed *s, double p, const double *x, qpc_vec3 o, const double *v, double h, const double *mass,
                           qpc_linsys *K, double *Hv);

#endif
