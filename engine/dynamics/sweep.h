/// K of blocks.h for sweeps of symmetric Gauss-Seidel in single precision, eight nodes at a time.
///
/// Each node's unknowns are scaled so that the diagonal is about 1. The nodes are dealt out to QPC_SWEEP_LANES parts
/// that take turns: a group is one node of each, and a sweep goes from group to group. Neighbours in a mesh are then
/// seldom in one group, a node seldom waits for the one before, and within its part a sweep runs as it would through
/// the whole. Nodes that no row is ever on (the inside of soft bodies) come first, so that what rows change is the end of a sweep. Blocks left of the diagonal lie in slots of a group, one block a lane, so that a group is solved for by
/// vertical arithmetic; the few between nodes of one group stand apart (`inner`). Vectors are by positions, three
/// unknowns and a zero each, up to a whole group: what is over stays zero.
#ifndef QPC_ENGINE_DYNAMICS_SWEEP_H
#define QPC_ENGINE_DYNAMICS_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

enum {
    QPC_SWEEP_LANES = 8,
    QPC_SWEEP_BLOCK = 9 * QPC_SWEEP_LANES,    // floats of a slot: entries by rows, each of all lanes
    QPC_SWEEP_DIAGONAL = 6 * QPC_SWEEP_LANES, // of a group's blocks on the diagonal: xx xy xz yy yz zz
};

typedef struct qpc_sweep {
    int32_t count, groups;        // nodes, count / 8 and one more for the rest
    int32_t *position, *node;     // (count) of each node in a sweep, and back
    int32_t *start, *column;      // (count + 1), blocks left of the diagonal by positions, columns ascending
    int32_t *from;                // block of K, or -1 - block: its transpose
    int32_t *place;               // first entry in value, or -1 - block in inner
    int32_t *slot_start;          // (groups + 1)
    int32_t *slot_column;         // (slots x 8) four times the position of each lane's block; where there is none, the node's own
    float *value;                 // (slots x QPC_SWEEP_BLOCK), zero where there is none
    int32_t *inner_start, *inner_column; // (count + 1), between nodes of a group
    float *inner;                 // (x 12) by rows of 3 and a zero
    float *diagonal, *inverse;    // (groups x QPC_SWEEP_DIAGONAL) D, D^-1; zero past the last node
} qpc_sweep;

/// Where a node of a group stands in a vector of lanes: pairs of nodes are loaded side by side, and taken apart.
static inline int32_t qpc_sweep_lane(int32_t position) { return position % 8 / 2 + 4 * (position % 2); }

/// First of the six entries of a position, QPC_SWEEP_LANES apart.
static inline int64_t qpc_sweep_diagonal(int32_t position) {
    return QPC_SWEEP_DIAGONAL * (int64_t)(position / QPC_SWEEP_LANES) + qpc_sweep_lane(position);
}

/// Places for the blocks left of the diagonal of `count` nodes (start, column: by rows, columns ascending); inside (count): those that
/// come first, as far as they fill groups; NULL: none. False: no memory.
bool qpc_sweep_make(qpc_sweep *w, int32_t count, const int32_t *start, const int32_t *column, const uint8_t *inside);
void qpc_sweep_fini(qpc_sweep *w);
/// Values of K's blocks (x 9 by rows), scaled by nodes.
void qpc_sweep_refill(qpc_sweep *w, const double *value, const double *scale);
/// Entry e (3 row + column) of block k of a row of a sweep.
static inline float qpc_sweep_entry(const qpc_sweep *w, int32_t k, int e) {
    int32_t place = w->place[k];
    return place >= 0 ? w->value[place + QPC_SWEEP_LANES * e] : w->inner[12 * (-1 - place) + 4 * (e / 3) + e % 3];
}
/// A block of D (9) and its inverse in single precision, into the places of a position; false if it is not positive definite.
bool qpc_sweep_round(const double *D, int32_t position, float *diagonal, float *inverse);

#endif
