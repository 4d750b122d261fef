/// Soft bodies of linear tetrahedra: rest shape, energy, forces and the clamped Jacobian, in the manner of cable.h.
///
/// The deformation gradient F of an element is constant. With F = U diag(s) V', U and V rotations (s3 < 0: the element is
/// inside out), the materials are functions of s alone (docs/theory-soft.md, TS4 and TS5):
///     corotational    mu sum (s_i - 1)^2 + lambda/2 (s1 + s2 + s3 - 3)^2
///     neo-Hookean     the stable one of Smith, de Goes and Kim 2018, with the same stress and stiffness near rest
/// Both have finite energy and forces at any F, flat and inverted ones too, and push back. H is the exact Hessian with its
/// negative eigenvalues set to 0 (TS6), so that M + dt^2 H is positive definite. No state; any thread; the same bits on
/// every processor and in every order of calls.
#ifndef QPC_ENGINE_DYNAMICS_TETS_H
#define QPC_ENGINE_DYNAMICS_TETS_H

#include "engine/dynamics/cable.h"
#include "engine/dynamics/linsys.h"

#include <stdint.h>

#define QPC_TET_POISSON_MOST 0.49
#define QPC_TET_FLAT 1e-9 // least volume of a rest shape, in cubes of its longest edge

typedef enum qpc_tet_material { QPC_TET_COROTATIONAL, QPC_TET_NEO_HOOKEAN } qpc_tet_material;

typedef struct qpc_tets { // all tetrahedra of a world
    int32_t count;
    const int32_t *node;     // (count x 4)
    const double *inverse;   // (count x 9) B = Dm^-1 by rows: gradients of the hat functions of nodes 1 to 3, 1/m
    const double *volume;    // at rest, m3
    const double *mu, *lambda; // Lame, Pa
    const uint8_t *material; // qpc_tet_material; neighbours of the same kind are dealt with at once
    const int32_t *place;    // (count x 6) see qpc_tets_pattern()
} qpc_tets;

/// What an element has from its rest shape.
typedef struct qpc_tet_rest {
    int32_t count;
    double *inverse, *volume; // as in qpc_tets
} qpc_tet_rest;

/// x (3 node_count) m, times scale: the rest shape. QPC_ERR_INVALID naming the element if it uses a node twice or one that
/// there is not, is inside out (order: node 3 on the side to which the normal of 0, 1, 2 points) or flat; QPC_ERR_MEMORY.
qpc_status qpc_tet_rest_make(const double *x, int32_t node_count, const int32_t *node, int32_t count, double scale,
                             qpc_tet_rest *ret, qpc_error *err);
void qpc_tet_rest_fini(qpc_tet_rest *rest);
/// mass (node_count) += a quarter of each element's, kg; density kg/m3.
void qpc_tet_rest_masses(const qpc_tet_rest *rest, const int32_t *node, double density, double *mass);
/// Lame's constants, Pa. QPC_ERR_INVALID unless young is positive and poisson above -1 and at most QPC_TET_POISSON_MOST.
qpc_status qpc_tet_lame(double young, double poisson, double *ret_mu, double *ret_lambda, qpc_error *err);
/// An order (count) in which elements that share nodes follow each other: by their nodes, lowest first. Elements may be
/// in any order; in this one they find their nodes and their places of K in the cache. QPC_ERR_MEMORY.
qpc_status qpc_tets_order(const int32_t *node, int32_t count, int32_t *ret, qpc_error *err);

/// The pattern of a sparse K that springs and tetrahedra over the same nodes share; as qpc_springs_pattern(). springs may
/// be NULL or without any. spring_place (springs) and tet_place (6 x tets): the edges 01 02 03 12 13 23 of each.
/// QPC_ERR_MEMORY; QPC_ERR_LIMIT.
qpc_status qpc_tets_pattern(const qpc_springs *springs, const qpc_tets *tets, int32_t node_count, int32_t **ret_start,
                            int32_t **ret_row, int32_t *spring_place, int32_t *tet_place, qpc_error *err);

/// Elastic energy, J; 0 at rest.
double qpc_tets_energy(const qpc_tets *tets, const double *x);
/// f (3 n) += elastic forces at x, N.
void qpc_tets_force(const qpc_tets *tets, const double *x, double *f);
/// K += dt^2 H(x); Hv (3 n) += H(x) v; f (3 n) += elastic forces at x. K (sparse), f and Hv may be NULL.
void qpc_tets_linearise(const qpc_tets *tets, const double *x, const double *v, double dt, qpc_linsys *K, double *f,
                        double *Hv);
/// Cauchy stress of each element, Pa: (count x 6) xx, yy, zz, xy, yz, zx. Not finite where an element is flat at x.
void qpc_tets_stress(const qpc_tets *tets, const double *x, double *ret);

#endif
