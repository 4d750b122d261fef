/// Cables: particles joined by springs along a chain. Energy, forces and the clamped Jacobian.
///
/// Spring between i and i+1: U = k/2 (l - l0)^2, force on i: k (l - l0) n, n = (x_{i+1} - x_i)/l.
/// H = k n n' + max(0, 1 - l0/l) k (I - n n') (positive semidefinite by construction); the same H
/// goes into K = M + dt^2 H (implicit Euler, eq. 1 of the 2006 paper) and b = dt (f - dt H v).
#ifndef QPC_ENGINE_DYNAMICS_CABLE_H
#define QPC_ENGINE_DYNAMICS_CABLE_H

#include "engine/dynamics/linsys.h"

#include <stdint.h>

typedef struct qpc_springs { // all cables of a world; spring s joins nodes node[s] and node[s] + 1
    int32_t count;
    const int32_t *node;
    const double *stiffness;   // N/m
    const double *rest_length; // m, > 0
} qpc_springs;

/// Elastic energy, J.
double qpc_springs_energy(const qpc_springs *springs, const double *x);
/// f (3 n) += spring forces at x, N.
void qpc_springs_force(const qpc_springs *springs, const double *x, double *f);
/// Tension of each spring, N (negative: compression).
void qpc_springs_tension(const qpc_springs *springs, const double *x, double *ret);
/// K += dt^2 H(x) into the band; Hv (3 n) += H(x) v.
void qpc_springs_stiffness(const qpc_springs *springs, const double *x, const double *v, double dt,
                           qpc_linsys *K, double *Hv);

#endif
