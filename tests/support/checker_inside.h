/// Inside of the independent checker: what checker.c (queries, chains) and checker_meshes.c (deforming
/// meshes) share. Not for users of the checker.
#ifndef QPC_TESTS_SUPPORT_CHECKER_INSIDE_H
#define QPC_TESTS_SUPPORT_CHECKER_INSIDE_H

#include "tests/support/checker.h"
#include "tests/support/exact.h"

#include <math.h>
#include <string.h>

#define QPC_CHECK_FAR 2.0 // distances up to so many thicknesses are looked at

typedef struct box {
    double low[3], high[3];
} box;
typedef struct grid { // of one mesh
    box bounds;
    double cell[3];
    int32_t n[3];
    int32_t *start; // (cells + 1)
    int32_t *item;  // triangle numbers, cell after cell
    int64_t item_capacity;
    int32_t *stamp; // (triangles) last edge that saw it
    int32_t stamp_now;
    box *boxes; // (triangles) swept
} grid;
typedef struct edge {
    int32_t body, node, local; // nodes node and node + 1; a lone particle: twice the same
    int32_t other;             // node + 1, or node
    double arc;                // rest length from the first node of the chain to node
    double rest;
} edge;
typedef struct mesh_parts { // of one mesh body
    edge *edges;
    int32_t edge_count;
    uint8_t *first;         // (edges) 1: the first edge at its node, 2: at its other
    int32_t *triangle_edge; // (triangles x 3) side k joins corners k and k + 1; -1: no length
    uint8_t *owns;          // (triangles) bit k: the first triangle at its side k
    double *rest;           // (nodes x 3), deforming meshes
} mesh_parts;
struct qpc_checker {
    qpc_checker_body *bodies; // owns copies of triangles
    int32_t body_count, node_count;
    grid *grids; // (bodies)
    bool *grid_ready;
    mesh_parts *parts; // (bodies), empty for chains; NULL: no mesh deforms
    edge *edges;
    box *swept; // (edges), grown by nothing
    int32_t *order;
    int32_t edge_count;
    double *x; // start positions, (nodes x 3)
    double radius_max;
    qpc_exact *exact;
};

static inline void diff(const double *a, const double *b, double *r) {
    for (int i = 0; i < 3; i++) r[i] = a[i] - b[i];
}
static inline void box_empty(box *b) {
    for (int k = 0; k < 3; k++) b->low[k] = INFINITY, b->high[k] = -INFINITY;
}
static inline void box_point(box *b, const double *p) {
    for (int k = 0; k < 3; k++) {
        b->low[k] = fmin(b->low[k], p[k]);
        b->high[k] = fmax(b->high[k], p[k]);
    }
}
static inline bool boxes_overlap(const box *a, const box *b, double grow) {
    for (int k = 0; k < 3; k++)
        if (a->low[k] - grow > b->high[k] || b->low[k] - grow > a->high[k]) return false;
    return true;
}
static inline void put(double *to, const double *x, int64_t node) {
    memcpy(to, x + 3 * node, 3 * sizeof *to);
}


/// Cells of the grid that the box, grown, overlaps.
void qpc_checker_cells(const grid *g, const box *b, double grow, int32_t low[3], int32_t high[3]);
/// Grid over the swept triangles of a body. False: no memory.
bool qpc_checker_grid(const qpc_checker_body *body, grid *g, const double *x0, const double *x1);
void qpc_checker_found(qpc_check_report *r, qpc_finding_kind kind, const edge *e, int32_t body,
                       int32_t feature, double time);
void qpc_checker_note(qpc_check_report *r, double distance, double thickness);
/// Runs one query and folds its answer into *ret (1 hit wins over -1 undecided over 0).
void qpc_checker_ask(qpc_checker *c, bool edges, const double x0[12], const double x1[12],
                     qpc_check_report *r, int *ret, double *time);

// ---- checker_meshes.c ----

/// Edges and owners of every mesh. False: no memory.
bool qpc_checker_meshes_create(qpc_checker *c);
void qpc_checker_meshes_destroy(qpc_checker *c);
/// Every deforming mesh against itself and the other meshes.
void qpc_checker_meshes(qpc_checker *c, bool moving, const double *x0, const double *x1,
                        qpc_check_report *r);

#endif
