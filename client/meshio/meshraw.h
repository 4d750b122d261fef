/// What a reader of a format fills: nodes, tetrahedra, triangles, in the order of the file; and the
/// readers, one format each.
///
/// Readers take bytes, so that fuzzing reaches all of them. What is in a raw mesh is checked: nodes
/// are finite, indices are in range, a tetrahedron has four different nodes. Arrays grow with what
/// has been read, never with what a header announces. After an error the raw mesh is still good
/// for fini only. Any thread.
#ifndef QPC_CLIENT_MESHIO_MESHRAW_H
#define QPC_CLIENT_MESHIO_MESHRAW_H

#include "base/array.h"
#include "client/meshio/meshtext.h"

typedef struct qpc_mesh_raw {
    QPC_ARRAY(double) nodes;      // 3 per node
    QPC_ARRAY(int32_t) tets;      // 4 per tetrahedron
    QPC_ARRAY(int32_t) triangles; // 3 per triangle
    int64_t skipped;              // points, lines and the like
    const char *format;           // such as "Gmsh 2.2 binary"; static
    QPC_ARRAY(int32_t) corners;   // scratch: a polygon
    QPC_ARRAY(int32_t) ring;      // scratch of its triangulation
    QPC_ARRAY(double) plane;
    int64_t work; // spent on polygons that are not convex
} qpc_mesh_raw;

enum { QPC_POLYGON_WORK_MOST = 200000000 };

void qpc_raw_fini(qpc_mesh_raw *raw);
static inline int32_t qpc_raw_node_count(const qpc_mesh_raw *raw) {
    return raw->nodes.count / 3;
}

/// QPC_ERR_INVALID for a coordinate that is not finite.
qpc_status qpc_raw_node(qpc_mesh_raw *raw, const qpc_mesh_text *t, const double x[3],
                        qpc_error *err);
/// index - base as a node, checked.
qpc_status qpc_raw_index(const qpc_mesh_raw *raw, const qpc_mesh_text *t, int64_t index,
                         int64_t base, int32_t *ret, qpc_error *err);
qpc_status qpc_raw_tet(qpc_mesh_raw *raw, const qpc_mesh_text *t, const int32_t nodes[4],
                       qpc_error *err);
qpc_status qpc_raw_triangle(qpc_mesh_raw *raw, int32_t a, int32_t b, int32_t c, qpc_error *err);
/// A polygon as triangles that keep its orientation: a fan where it is convex, else ears cut off
/// one by one, in its plane. Fewer than 3 corners are counted as skipped. QPC_ERR_LIMIT past
/// QPC_POLYGON_WORK_MOST tests of corners in one file.
qpc_status qpc_raw_polygon(qpc_mesh_raw *raw, const int32_t *corners, int32_t count,
                           qpc_error *err);

/// Gmsh 1 ($NOD), 2.0 to 2.2 and 4.1, text and binary.
qpc_status qpc_gmsh_parse(const void *bytes, size_t size, qpc_mesh_raw *raw, qpc_error *err);
/// Legacy VTK, text and binary: an unstructured grid of version 2 to 5.
qpc_status qpc_vtk_parse(const void *bytes, size_t size, qpc_mesh_raw *raw, qpc_error *err);
/// VTK XML unstructured grid: ascii, binary, appended; not compressed.
qpc_status qpc_vtu_parse(const void *bytes, size_t size, qpc_mesh_raw *raw, qpc_error *err);
/// Medit text (.mesh).
qpc_status qpc_medit_parse(const void *bytes, size_t size, qpc_mesh_raw *raw, qpc_error *err);
/// TetGen's .node and .ele, and .face where face is not NULL.
qpc_status qpc_tetgen_parse(const void *node, size_t node_size, const void *ele, size_t ele_size,
                            const void *face, size_t face_size, qpc_mesh_raw *raw, qpc_error *err);
/// Surfaces: Wavefront OBJ, PLY (text, both binary orders), OFF, STL (text and binary).
qpc_status qpc_obj_parse(const void *bytes, size_t size, qpc_mesh_raw *raw, qpc_error *err);
qpc_status qpc_ply_parse(const void *bytes, size_t size, qpc_mesh_raw *raw, qpc_error *err);
qpc_status qpc_off_parse(const void *bytes, size_t size, qpc_mesh_raw *raw, qpc_error *err);
qpc_status qpc_stl_parse(const void *bytes, size_t size, qpc_mesh_raw *raw, qpc_error *err);

#endif
