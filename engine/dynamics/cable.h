/// Springs between particles, along cables and over cloth. Energy, forces and the clamped Jacobian.
///
/// Spring between i and j: U = k/2 (l - l0)^2, force on i: k (l - l0) n, n = (x_j - x_i)/l.
/// H = k n n' + max(0, 1 - l0/l) k (I - n n') (positive semidefinite by construction); the same H
/// goes into K = M + dt^2 H (implicit Euler, eq. 1 of the 2006 paper) and b = dt (f - dt H v).
#ifndef QPC_ENGINE_DYNAMICS_CABLE_H
#define QPC_ENGINE_DYNAMICS_CABLE_H

#include "engine/dynamics/linsys.h"

#include <stdint.h>

#define QPC_LIMIT_SLACK 1e-3     // relative; what a limit that holds may be overrun by
#define QPC_LIMIT_STIFFNESS 100.0 // of a limit that gives way, in units of the base

typedef struct qpc_springs { // all springs of a world
    int32_t count;
    const int32_t *node;
    const double *stiffness;   // N/m
    const double *rest_length; // m, > 0
    const int32_t *other;      // the other end, > node[s]; NULL: node[s] + 1 (cables alone)
    const int32_t *place;      // sparse K: see qpc_springs_pattern(); NULL with a band
    const double *least, *most;  // m, limits of length, 0 and infinity: none; NULL: none at all
    const uint8_t *giving;       // the limit gives way: it is a spring; NULL: none does
    const double *base;          // N/m, what limits that give way are in units of; NULL: stiffness
} qpc_springs;
static inline int32_t qpc_springs_other(const qpc_springs *springs, int32_t s) {
    return springs->other != NULL ? springs->other[s] : springs->node[s] + 1;
}

/// The pattern of a sparse K over nodes 0 to node_count - 1, as qpc_linsys_resize_sparse() wants it: 3x3 blocks on the
/// diagonal and where a spring joins two nodes. start (3 nodes + 1) and row are new and the caller's; place (springs): how
/// far into the part below the diagonal block of its columns the block (other, node) of a spring begins.
/// QPC_ERR_MEMORY; QPC_ERR_LIMIT for 2^31 entries or more.
qpc_status qpc_springs_pattern(const qpc_springs *springs, int32_t node_count, int32_t **ret_start, int32_t **ret_row,
                               int32_t *place, qpc_error *err);

/// Elastic energy, J; without limits.
double qpc_springs_energy(const qpc_springs *springs, const double *x);
/// How far a spring is past its limit and the slack of that, m: positive if too long, negative if too short.
double qpc_springs_past_limit(const qpc_springs *springs, int32_t s, const double *x);
/// f += forces, N, of all limits that are overrun at x, as springs: those whose energy is qpc_springs_limit_energy(., x, false).
void qpc_springs_add_limit_forces(const qpc_springs *springs, const double *x, double *f);
/// What lengths past their limits store, J (T40): of all springs, or of those whose limits give way.
double qpc_springs_limit_energy(const qpc_springs *springs, const double *x, bool giving);
/// Force of the limit of a spring that is past it, N (negative: it pushes); 0 if it does not give way.
double qpc_springs_limit_force(const qpc_springs *springs, int32_t s, const double *x);
/// f (3 n) += spring forces at x, N.
void qpc_springs_force(const qpc_springs *springs, const double *x, double *f);
/// Tension of each spring, N (negative: compression).
void qpc_springs_tension(const qpc_springs *springs, const double *x, double *ret);
/// K += dt^2 H(x); Hv (3 n) += H(x) v. A band takes springs between neighbours only.
void qpc_springs_stiffness(const qpc_springs *springs, const double *x, const double *v, double dt,
                           qpc_linsys *K, double *Hv);
/// The same, and f (3 n) += spring forces at x, unless it is NULL. Limits that give way are in both.
void qpc_springs_linearise(const qpc_springs *springs, const double *x, const double *v, double dt,
                           qpc_linsys *K, double *f, double *Hv);
/// K += factor [h, -h; -h, h] between the ends of a spring; h symmetric.
void qpc_springs_add(const qpc_springs *springs, int32_t s, qpc_linsys *K, double factor, double h[3][3]);

#endif
