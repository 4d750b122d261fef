/// Pre-flight of a mesh: what is wrong with it for a given use, before a world is made of it.
///
/// Positions that are exactly equal count as one vertex here, so that a file that repeats its
/// corners is judged by its shape; that they are repeated is a finding of its own. Triangles without
/// area and repeated ones are findings too and are left out of what follows: edges, parts, volume,
/// crossings. Of tetrahedra the surface is looked at, and its triangles are named by their
/// tetrahedron. Signs are exact (geometry/predicates.h). Findings have a total and the first few
/// elements, in ascending order: the same on every machine.
///
/// Any thread; nothing is kept.
#ifndef QPC_ENGINE_PREFLIGHT_PREFLIGHT_H
#define QPC_ENGINE_PREFLIGHT_PREFLIGHT_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// What the mesh is for: X(enumerator, "name"). A finding weighs differently for each.
#define QPC_PREFLIGHT_USES(X)                                                                      \
    X(SURFACE, "surface") /* static and kinematic bodies */                                        \
    X(CLOTH, "cloth")                                                                              \
    X(RIGID, "rigid")                                                                              \
    X(SOFT, "soft")

typedef enum qpc_mesh_use {
#define QPC_USE_ENUM(id, name) QPC_USE_##id,
    QPC_PREFLIGHT_USES(QPC_USE_ENUM)
#undef QPC_USE_ENUM
        QPC_USE_COUNT
} qpc_mesh_use;

/// X(enumerator, "name", "elements", numbers an element, weight by use, text). The weight has one
/// letter a use, in their order: E error, W warning, - nothing. Elements: vertex v; triangle t;
/// edge v v t, its vertices and the first triangle at it; pair t t.
#define QPC_PREFLIGHT_FINDINGS(X)                                                                  \
    X(ZERO_AREA, "zero_area", "triangle", 1, "WWWW", "triangles without area")                     \
    X(DUPLICATE_TRIANGLES, "duplicate_triangles", "triangle", 1, "WWWW",                           \
      "triangles with the three corners of an earlier one")                                        \
    X(DUPLICATE_VERTICES, "duplicate_vertices", "vertex", 1, "WWWW",                               \
      "vertices at exactly the position of an earlier one: the mesh is not joined there")          \
    X(UNREFERENCED_VERTICES, "unreferenced_vertices", "vertex", 1, "WEWE",                         \
      "vertices that no element uses: they get no mass")                                                             \
    X(OPEN_EDGES, "open_edges", "edge", 3, "W-EE", "edges with one triangle: the surface is open") \
    X(NON_MANIFOLD_EDGES, "non_manifold_edges", "edge", 3, "WWWE",                                 \
      "edges with three triangles or more")                                                        \
    X(FLIPPED_EDGES, "flipped_edges", "edge", 3, "WWEE",                                           \
      "edges whose two triangles are wound against each other")                                    \
    X(UNBALANCED_EDGES, "unbalanced_edges", "edge", 3, "WWEE",                                     \
      "edges with three triangles or more, or a repeated one, not as often forth as back")                                    \
    X(INSIDE_OUT, "inside_out", "triangle", 1, "W-EE",                                             \
      "the surface is wound inwards: its volume is negative; its first triangle")                  \
    X(SELF_INTERSECTIONS, "self_intersections", "pair", 2, "WEWE",                                 \
      "pairs of triangles without a common vertex that cross")                                     \
    X(TOUCHING_TRIANGLES, "touching_triangles", "pair", 2, "WEWE",                                 \
      "pairs of triangles without a common vertex that touch or lie on each other")                \
    X(FOLDED_TRIANGLES, "folded_triangles", "pair", 2, "WWWW",                                     \
      "pairs of triangles with a common vertex that cross beside it or lie on each other")         \
    X(FLAT_TETRAHEDRA, "flat_tetrahedra", "tetrahedron", 1, "WWWE", "tetrahedra without volume")   \
    X(INVERTED_TETRAHEDRA, "inverted_tetrahedra", "tetrahedron", 1, "WWWE",                        \
      "tetrahedra of negative volume")                                                             \
    X(FAR_VERTICES, "far_vertices", "vertex", 1, "WWWW",                                           \
      "vertices further from the middle than 1000 times the median distance")                      \
    X(EDGE_OUTLIERS, "edge_outliers", "edge", 3, "WWWW",                                           \
      "edges over 1000 times longer, or shorter, than the median")                                 \
    X(SCALE, "scale", "", 0, "WWWW",                                                               \
      "the mesh is larger than 100 m or smaller than 1 mm: is its unit the metre?")

typedef enum qpc_finding_kind {
#define QPC_FINDING_ENUM(id, name, elements, numbers, weight, text) QPC_FINDING_##id,
    QPC_PREFLIGHT_FINDINGS(QPC_FINDING_ENUM)
#undef QPC_FINDING_ENUM
        QPC_FINDING_COUNT
} qpc_finding_kind;

typedef struct qpc_finding_spec {
    const char *name, *elements, *weight, *text;
    int32_t numbers;
} qpc_finding_spec;
extern const qpc_finding_spec qpc_finding_specs[QPC_FINDING_COUNT];
extern const char *const qpc_mesh_use_names[QPC_USE_COUNT];

typedef struct qpc_finding {
    int64_t total;
    int32_t *items; // (count x numbers), owned
    int32_t count;  // of them listed
} qpc_finding;

enum { QPC_PREFLIGHT_LIST = 16, QPC_PREFLIGHT_LIST_MOST = 1000 };

typedef struct qpc_preflight_options { // 0: the default
    int32_t list;                      // elements listed of a finding; QPC_PREFLIGHT_LIST
    int64_t max_pairs;                 // pairs of boxes looked at for crossings; 100,000,000
} qpc_preflight_options;

typedef struct qpc_preflight {
    int64_t vertices;         // of the surface, equal positions once (of edges: used ones)
    int64_t triangles, edges; // of the surface, without those of no area and the repeated
    int64_t elements;         // as given
    int64_t parts;            // connected by edges
    int64_t euler;            // vertices - edges + triangles
    bool closed;              // no edge with one triangle, none with more than two
    bool oriented;            // closed, and no two triangles wound against each other
    bool complete;            // false: max_pairs was reached, crossings are counted in part
    double area, volume;      // m2, m3; the volume has a meaning if oriented
    double low[3], high[3];   // box of the used vertices, m
    int64_t pairs;            // of boxes that overlapped
    qpc_finding finding[QPC_FINDING_COUNT];
} qpc_preflight;

/// vertices (vertex_count x 3) m, finite; elements (element_count x nodes_per_element), 2, 3 or 4
/// nodes, indices in range: as qpc_mesh_create has checked. options may be NULL. QPC_ERR_MEMORY.
qpc_status qpc_preflight_run(const double *vertices, int64_t vertex_count, const int32_t *elements,
                             int64_t element_count, int32_t nodes_per_element,
                             const qpc_preflight_options *options, qpc_preflight *ret,
                             qpc_error *err);
void qpc_preflight_fini(qpc_preflight *preflight); // NULL and zeroed ones are accepted
/// What is to be done with a mesh of such elements before it can be that; NULL: it can.
const char *qpc_preflight_unfit(int32_t nodes_per_element, qpc_mesh_use use);
/// 'E', 'W' or '-'; '-' when there is none.
char qpc_preflight_weight(const qpc_preflight *preflight, qpc_finding_kind kind, qpc_mesh_use use);

#endif
