/// Rows J dv <= c made from contacts, strain limits, fixed points (docs/theory-rows.md, T20 to T28) and joints
/// (docs/theory-joints.md).
///
/// Velocities of nodes that are not degrees of freedom (static, driven or pinned nodes) are known at the
/// end of the step: they move to the right-hand side. dof[node] is the first unknown of a node or -1.
#ifndef QPC_ENGINE_SOLVER_ROWS_H
#define QPC_ENGINE_SOLVER_ROWS_H

#include "engine/collision/contact.h"
#include "engine/solver/qp.h"

typedef enum qpc_row_kind {
    QPC_ROW_CONTACT,
    QPC_ROW_STRAIN_MAX,
    QPC_ROW_STRAIN_MIN,
    QPC_ROW_FIXED,
    QPC_ROW_JOINT,
} qpc_row_kind;
static inline bool qpc_row_limits_strain(uint8_t kind) {
    return kind == QPC_ROW_STRAIN_MAX || kind == QPC_ROW_STRAIN_MIN;
}

/// Growable arrays, kept over steps (no allocation after warm-up). What a qpc_qp borrows.
typedef struct qpc_rows {
    int32_t m, m_capacity;
    int32_t nnz, nnz_capacity;
    int32_t *row_start, *column;
    double *value, *c, *lambda;
    uint8_t *equality, *priority, *kind;
    uint64_t *key;
    int32_t *source;    // contact, spring, node or joint the row was made from
    int32_t *order;     // scratch of the warm start
} qpc_rows;

typedef struct qpc_row_frame { // what rows are linearised against
    int32_t node_count;
    const int32_t *dof;    // (nodes) first unknown of the node, or -1
    const int32_t *turn;   // (nodes) first unknown of the turning of the body that it is part of, or -1; NULL: no rigid bodies
    const double *arm;     // (nodes x 3) with turn: from the body's centre, m (contacts alone; docs/theory-rigid.md, TR13)
    const double *x;       // (nodes x 3) positions at the start of the step, m
    const double *v;       // (nodes x 3) m/s: dynamic nodes at the start of the step; others their
                           // velocity over the step, so that x + dt v is where they end
    double dt;             // s
} qpc_row_frame;

void qpc_rows_clear(qpc_rows *rows);
void qpc_rows_fini(qpc_rows *rows);

/// -n.(sum w_k dv_k) <= (g - separation)/dt + n.(sum w_k v_k), g = n.(sum w_k x_k) - offset at the start of the
/// step (eq. 11-15 with corrected signs; a CCD hit's n and weights are those at its time of impact).
/// gap_floor: g - separation is taken as at least this (caps the recovery speed), m, <= 0.
qpc_status qpc_rows_add_contact(qpc_rows *rows, const qpc_row_frame *frame, const qpc_contact *contact,
                                double separation, double gap_floor, int32_t source, qpc_error *err);
/// Spring between node and other held below limit (maximum) or above it (minimum), m (eq. 16-17),
/// with direction n (unit, from other to node; the direction of the start or of a cut).
qpc_status qpc_rows_add_strain(qpc_rows *rows, const qpc_row_frame *frame, int32_t node, int32_t other, qpc_vec3 n,
                               bool maximum, double limit, uint64_t key, int32_t source, qpc_error *err);
/// Three equality rows dv = target - v (section 4.4). Steps eliminate fixed nodes instead; this is the
/// paper's form, for comparison and tests.
qpc_status qpc_rows_add_fixed(qpc_rows *rows, const qpc_row_frame *frame, int32_t node,
                              qpc_vec3 target_velocity, qpc_error *err);
/// A point that moves with what it is of: sum w_k x_k of up to four nodes (sum w_k = 1); node[0] < 0: it stays where it is. All of
/// its nodes are of one rigid body, or none is.
typedef struct qpc_row_point {
    int32_t node[4]; // -1: none
    double weight[4];
} qpc_row_point;
/// sum a_k.dp_k = -(gap)/dt - sum a_k.v_k over points, or <=: with a the gradient of a function of the points, `gap` its value at
/// the start of the step, m (TJ1). more (count): what is added to the moments arm x a_k of points of rigid bodies, m (TJ16); v does not
/// know of it. At most QPC_ROW_POINTS points.
enum { QPC_ROW_POINTS = 64 };
qpc_status qpc_rows_add_joint(qpc_rows *rows, const qpc_row_frame *frame, int32_t count, const qpc_row_point *points,
                              const qpc_vec3 *a, const qpc_vec3 *more, double gap, bool equality, uint64_t key, int32_t source, qpc_error *err);
/// Copy multipliers of equal keys from the list (keys, lambda) of the last solve, sorted by key; the
/// k-th row of a key takes the k-th entry of that key. Rows without an entry get zero.
void qpc_rows_warm_start(qpc_rows *rows, const uint64_t *keys, const double *lambda, int32_t count);
/// The QP over these rows (everything borrowed).
qpc_qp qpc_rows_qp(const qpc_rows *rows, qpc_linsys *sys, const double *b);

#endif
