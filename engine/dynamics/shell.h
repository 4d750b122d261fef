/// Cloth as a thin sheet of triangles: stretch, shear and bending of a plane material, in the manner of tets.h.
///
/// Each triangle is a membrane with a constant deformation gradient F (3 x 2) of principal stretches s1, s2 (TC3):
///     W = mu ((s1 - 1)^2 + (s2 - 1)^2) + lambda/2 (s1 + s2 - 2)^2    J per m2
/// Hooke's law of plane stress turned with the sheet, which is Chao, Pinkall, Sanan & Schroeder 2010 in the plane: alike in
/// all directions, with no axes to be given. Inner edges are hinges of angle theta; the three of a triangle give it a
/// curvature Lambda, constant over it (Morley's element with the slopes of Grinspun, Gingold, Reisman & Zorin 2006; TC5):
///     W = D/2 ((1 - nu) Lambda : Lambda + nu (tr Lambda)^2)    J per m2
/// H is the exact Hessian of a membrane with its negative eigenvalues set to 0 (as Smith, de Goes & Kim 2019; what a
/// compressed sheet has out of its plane is among them) and k g g' of a hinge, g = d theta / dx, with k large enough for
/// what triangles couple (TC6): M + dt^2 H is positive definite. Any thread, but one at a time for the same sheets.
#ifndef QPC_ENGINE_DYNAMICS_SHELL_H
#define QPC_ENGINE_DYNAMICS_SHELL_H

#include "engine/dynamics/linsys.h"
#include "engine/geometry/mesh.h"

#include <stdint.h>

#define QPC_SHELL_NARROW 1e-6 // least area of a triangle at rest, in squares of its longest side

typedef struct qpc_shells { // all sheets of a world
    int32_t count;
    const int32_t *node;       // (count x 3)
    const double *inverse;     // (count x 4) B = Dm^-1 by rows: gradients of the hat functions of corners 1 and 2, 1/m
    const double *area;        // (count) at rest, m2
    const double *mu, *lambda; // (count) Lame's constants of plane stress times the thickness, N/m
    const int32_t *place;      // (count x 3) of pairs 01, 12, 20 in a sparse K: see qpc_springs_pattern()
    const int32_t *bend;       // (count x 3) hinge of the side opposite corner 2, 0, 1; -1: a free side
    const double *couple;      // (count x 6) C of its angles, J: 00, 11, 22, 01, 12, 20; 0 for free sides
    int32_t hinge_count;
    const int32_t *hinge;       // (hinges x 4) ends of the edge, then the corners opposite it
    const double *stiffness;    // (hinges) k of H, J
    const double *angle;        // (hinges) at rest, rad
    const int32_t *hinge_place; // (hinges x 6) of pairs 01, 02, 03, 12, 13, 23
    double *scratch;            // (2 hinges)
} qpc_shells;

/// What a sheet has from its rest shape. A pair is a spring of qpc_cloth_springs_make() of the same mesh with a
/// bending stiffness above 0: the pattern of K is that of those springs.
typedef struct qpc_shell_rest {
    int32_t count, hinge_count;
    int32_t *pair, *hinge_pair;                // (count x 3), (hinges x 6)
    int32_t *bend, *hinge;                     // as in qpc_shells
    double *inverse, *area, *angle;            // as in qpc_shells
    double *couple, *stiffness;                // those of D = 1 J
} qpc_shell_rest;

/// The rest shape of a mesh `scale` times as large; poisson is for its bending. QPC_ERR_INVALID naming a triangle with a corner
/// used twice or narrower than QPC_SHELL_NARROW; QPC_ERR_MEMORY.
qpc_status qpc_shell_rest_make(const qpc_mesh *mesh, double scale, double poisson, qpc_shell_rest *ret, qpc_error *err);
void qpc_shell_rest_fini(qpc_shell_rest *rest);

/// Of a plane material `thickness` m thick: mu and lambda in N/m, bending rigidity D = E h^3 / 12 (1 - nu^2) in J.
/// QPC_ERR_INVALID unless young (Pa) and thickness are positive and poisson is above -1 and below 1.
qpc_status qpc_shell_moduli(double young, double poisson, double thickness, double *ret_mu, double *ret_lambda,
                            double *ret_rigidity, qpc_error *err);

/// Elastic energy, J; 0 at rest.
double qpc_shells_energy(const qpc_shells *shells, const double *x);
/// f (3 n) += elastic forces at x, N.
void qpc_shells_force(const qpc_shells *shells, const double *x, double *f);
/// K += dt^2 H(x); Hv (3 n) += H(x) v; f (3 n) += elastic forces at x. K (sparse), f and Hv may be NULL.
void qpc_shells_linearise(const qpc_shells *shells, const double *x, const double *v, double dt, qpc_linsys *K, double *f,
                          double *Hv);
/// Principal stretches of each triangle (count x 2), the larger first; 1 at rest.
void qpc_shells_stretches(const qpc_shells *shells, const double *x, double *ret);
/// Angle of the hinge, rad, in (-pi, pi]: 0 if flat, positive if both corners are on the side of (b - a) x (c - a); 0 as well where a
/// triangle has no area.
double qpc_shells_angle(const double *x, const int32_t hinge[4]);

#endif
