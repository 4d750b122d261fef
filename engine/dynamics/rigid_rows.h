/// Rows J dv <= c with lever arms, and the 6x6 mass blocks that they go with
/// (docs/theory-rigid.md, TR12 to TR16; signs as in docs/theory-rows.md, T20 to T25).
///
/// A rigid body has six unknowns, velocity of its centre and angular velocity, both along space
/// axes. Its vertices are nodes like others: a row is first a sum over nodes, w_k n at each, and
/// what falls to vertices of one body is gathered as (sum w_k n, sum w_k r_k x n). So vertex
/// against triangle, edge against edge and any mixture with particles, driven and static nodes are
/// one code. No state; any thread; no memory is taken.
#ifndef QPC_ENGINE_DYNAMICS_RIGID_ROWS_H
#define QPC_ENGINE_DYNAMICS_RIGID_ROWS_H

#include "engine/dynamics/linsys.h"
#include "engine/dynamics/rigid.h"

enum { QPC_RIGID_ROW_MOST = 24 }; // four nodes of four bodies

typedef struct qpc_rigid_row { // one line of J
    int32_t count;
    int32_t column[QPC_RIGID_ROW_MOST]; // strictly increasing
    double value[QPC_RIGID_ROW_MOST];   // 1, and m for angular unknowns
    double c;                           // m/s
} qpc_rigid_row;

/// What rows are linearised against: the pose at the start of the step, or the one at the end of an
/// iterate dv (Newton: a turning body's points go along arcs, TR14).
typedef struct qpc_rigid_frame {
    int32_t node_count, body_count;
    const int32_t *dof;  // (nodes) first of three unknowns of a particle; -1: of a body, or known
    const int32_t *body; // (nodes) rigid body that a vertex belongs to, or -1; NULL: none does
    const int32_t *body_dof; // (bodies) first of six unknowns, or -1: static or driven
    const double *centre;    // (bodies x 3) m, in the pose of x
    const double *x;         // (nodes x 3) m
    const double *v;  // (nodes x 3) m/s at the start (of known nodes: over the step); contact
                      // rows with dv do without: NULL is 0
    const double *dv; // (unknowns) x is the end of the step under this; NULL: x is its start
    double dt;        // s
} qpc_rigid_frame;

/// Entries of d . sum_k weight_k dv_k over four nodes (the same one may come twice; weight 0: left
/// out), and in c the same sum over v: a tangent row of friction (u_T = row dv + c) along a unit
/// vector d, or minus a contact row. QPC_ERR_INVALID for a node or body that is none.
qpc_status qpc_rigid_row_along(const qpc_rigid_frame *frame, const int32_t node[4],
                               const double weight[4], qpc_vec3 d, qpc_rigid_row *ret,
                               qpc_error *err);
/// Contact row: weights and unit normal as in qpc_contact (side i positive, n towards it).
/// x at the start:  -n.(sum w dv) <= (gap - separation)/dt + n.(sum w v);
/// x under dv:      the same with -dv for v. gap - separation is taken as gap_floor (<= 0) at
/// least.
qpc_status qpc_rigid_row_contact(const qpc_rigid_frame *frame, const int32_t node[4],
                                 const double weight[4], qpc_vec3 n, double separation,
                                 double gap_floor, qpc_rigid_row *ret, qpc_error *err);

/// n . velocity of a body's point at r from its centre, as six numbers: (n, r x n).
void qpc_rigid_point_row(qpc_vec3 n, qpc_vec3 r, double ret[6]);
/// How much that velocity gains by a unit impulse along n there, 1/kg: |n|^2/m + (r x n).I^-1(r x
/// n). The effective mass of a contact is one over the sum of both sides'.
double qpc_rigid_mobility(const qpc_rigid_body *body, const double q[4], qpc_vec3 n, qpc_vec3 r);
/// M = diag(m, m, m, R I R'), row-major, kg and kg m2.
void qpc_rigid_mass_block(const qpc_rigid_body *body, const double q[4], double ret[36]);
/// The lower triangle of M onto K at unknown `dof`. QPC_ERR_INVALID if the pattern of K lacks it.
qpc_status qpc_rigid_add_mass(const qpc_rigid_body *body, const double q[4], int32_t dof,
                              qpc_linsys *K, qpc_error *err);

#endif
