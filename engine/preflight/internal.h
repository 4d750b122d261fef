/// What the files of engine/preflight share.
#ifndef QPC_ENGINE_PREFLIGHT_INTERNAL_H
#define QPC_ENGINE_PREFLIGHT_INTERNAL_H

#include "engine/preflight/preflight.h"

/// The mesh under examination: triangles over welded vertices.
typedef struct qpc_check {
    const double *x;      // (vertex_count x 3), of the caller
    int64_t vertex_count;
    int32_t *weld;        // (vertex_count) first vertex at the same position
    int32_t *corner;      // (triangle_count x 3) welded vertices
    int32_t *element;     // (triangle_count) number of the element that it came from
    int64_t triangle_count;
    int64_t repeated_count; // triangles behind those, with the corners of one of them
    int64_t *order[2], *key_count; // room for sorting: 3 * triangle_count each; vertex_count + 1
    int32_t list;
    int64_t max_pairs;
    qpc_preflight *ret;
    bool no_memory;
} qpc_check;

/// One more of a kind; numbers as the kind has.
void qpc_check_add(qpc_check *c, qpc_finding_kind kind, int32_t a, int32_t b, int32_t third);
/// Crossings of the triangles that are left.
qpc_status qpc_check_crossings(qpc_check *c, qpc_error *err);
/// Far vertices, edges out of proportion, the whole size.
qpc_status qpc_check_sizes(qpc_check *c, const int32_t *edge, const int32_t *edge_triangle,
                           qpc_error *err);

#endif
