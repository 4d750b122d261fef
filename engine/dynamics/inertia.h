/// Mass, centre and inertia of rigid bodies: of closed triangle meshes, of primitives, or given
/// (docs/theory-rigid.md, TR1 to TR4). Made once, when a scene is read. No state; any thread.
#ifndef QPC_ENGINE_DYNAMICS_INERTIA_H
#define QPC_ENGINE_DYNAMICS_INERTIA_H

#include "base/vec.h"
#include "engine/geometry/topology.h"

typedef struct qpc_inertia {
    double volume;    // m3; 0 if it was given
    int32_t closed;   // edges of holes that were closed for it
    double mass;      // kg, > 0
    qpc_vec3 centre;  // m, in the frame of the mesh
    qpc_mat3 tensor;  // kg m2, about the centre, along the axes of the mesh; symmetric
    double moment[3]; // kg m2, principal, each > 0, none above the sum of the others
    double axes[4];   // unit quaternion (w, x, y, z): principal axes to those of the mesh
} qpc_inertia;

/// Of the volume inside a mesh `scale` times as large, density kg/m3: exact integrals over
/// tetrahedra, as good a kilometre from the origin as coordinates there are. close: holes are
/// closed by fans from their middles (TR3), for the integrals alone: the mesh stays as it is.
/// QPC_ERR_INVALID: not triangles, open (without close) or with triangles that run against each
/// other (an edge is named), inside out, no volume, a density or scale that is not positive.
/// QPC_ERR_MEMORY.
qpc_status qpc_inertia_of_mesh(const qpc_mesh *mesh, double scale, double density, bool close,
                               qpc_inertia *ret, qpc_error *err);
/// Solids about the origin. size: whole edges, m. Axis of capsule and cylinder: z; length: of the
/// cylindrical part, without the caps (0 in a capsule: a sphere).
qpc_status qpc_inertia_of_sphere(double radius, double density, qpc_inertia *ret, qpc_error *err);
qpc_status qpc_inertia_of_box(qpc_vec3 size, double density, qpc_inertia *ret, qpc_error *err);
qpc_status qpc_inertia_of_capsule(double radius, double length, double density, qpc_inertia *ret,
                                  qpc_error *err);
qpc_status qpc_inertia_of_cylinder(double radius, double length, double density, qpc_inertia *ret,
                                   qpc_error *err);
/// Given by the scene: what is asked for is checked. tensor about the centre, kg m2.
/// QPC_ERR_INVALID: not finite, not symmetric, a principal moment that is not positive or above the
/// sum of the two others (no distribution of mass has that).
qpc_status qpc_inertia_given(double mass, qpc_vec3 centre, const qpc_mat3 *tensor, qpc_inertia *ret,
                             qpc_error *err);
/// The same body with another mass, evenly heavier or lighter: a solid of given mass is one of
/// density 1 and this.
qpc_status qpc_inertia_set_mass(qpc_inertia *inertia, double mass, qpc_error *err);

/// tensor = Q diag(moment) Q', Q the rotation of the unit quaternion `axes` (Jacobi's method). A
/// diagonal tensor keeps its axes; off-diagonal entries below 1e-14 of the trace count as none.
void qpc_principal_axes(const qpc_mat3 *tensor, double moment[3], double axes[4]);

#endif
