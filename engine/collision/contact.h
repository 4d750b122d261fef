/// A contact: one closest pair of features, as detection reports it and rows are made from it.
#ifndef QPC_ENGINE_COLLISION_CONTACT_H
#define QPC_ENGINE_COLLISION_CONTACT_H

#include "base/array.h"
#include "base/vec.h"

typedef enum qpc_contact_kind {
    QPC_CONTACT_VT = 0, // node[0] a vertex, node[1..3] a triangle
    QPC_CONTACT_EE = 1, // node[0..1] edge i, node[2..3] edge j; a lone particle is an edge (p, p)
    QPC_CONTACT_TO = 2, // node[0..2] a triangle, node[3..5] of an obstacle (with vertices and edges it is VT and EE)
} qpc_contact_kind;

enum { QPC_CONTACT_NODES = 6 }; // three at most that are not those of an obstacle's frame, or four without one

enum {
    QPC_CONTACT_AT_START = 1,  // closer than the tested separation at t = 0 already
    QPC_CONTACT_UNCERTAIN = 2, // the iteration cap was met; reported as a hit to be safe
    QPC_CONTACT_NEAR_SELF = 4, // near along the rest shape: keeps a reduced separation only
};

/// The difference of the two closest points is  x_i - x_j = sum_k weight[k] x[node[k]], so weights
/// of side i are >= 0 and those of side j <= 0; each side sums to +-1. Of an obstacle the weights of side j have any sign, and
/// the points are farther apart by `offset` than they are.
typedef struct qpc_contact {
    uint64_t key;       // persistent over steps: the feature pair (never depends on order found)
    int32_t node[QPC_CONTACT_NODES];  // global node numbers; those that no feature has: weight 0
    double weight[QPC_CONTACT_NODES]; // signed barycentric weights, see above
    qpc_vec3 n;         // unit normal from feature j to feature i
    double distance;    // |x_i - x_j| at the time of evaluation, m
    double offset;      // of an obstacle: its points are held by its frame nodes this far inside along n (theory-obstacles.md, TO3), m; else 0
    double separation;  // target separation of the pair (r_i + r_j as a rule), m
    double toi;         // fraction of the motion in [0, 1]; 0 for proximity
    int32_t surface[2]; // side i, side j
    int32_t feature[2]; // vertex, edge or triangle numbers within each surface
    uint8_t kind, flags;
} qpc_contact;

typedef QPC_ARRAY(qpc_contact) qpc_contacts;

/// Nodes of side i come first: how many.
static inline int qpc_contact_split(const qpc_contact *c) { return c->kind == QPC_CONTACT_VT ? 1 : c->kind == QPC_CONTACT_EE ? 2 : 3; }

/// Gap of a contact's own points along its normal at x (nodes x 3): n . sum w x - offset, m.
static inline double qpc_contact_gap_at(const qpc_contact *c, const double *x) {
    qpc_vec3 d = v3(0.0, 0.0, 0.0);
    for (int k = 0; k < QPC_CONTACT_NODES; k++) d = v3_madd(d, c->weight[k], v3_load(x + 3 * (int64_t)c->node[k]));
    return v3_dot(c->n, d) - c->offset;
}

#endif
