/// Meshes and cables of the demo scenes, generated: what benches and tests of collision run on.
#ifndef QPC_TESTS_SUPPORT_GENERATE_H
#define QPC_TESTS_SUPPORT_GENERATE_H

#include "base/array.h"
#include "engine/geometry/mesh.h"

typedef struct generated {
    QPC_ARRAY(double) x;         // 3 per vertex
    QPC_ARRAY(int32_t) triangle; // 3 per triangle
} generated;

void generated_fini(generated *g);
/// The grooved pulley of 13,722 triangles: axis z, groove of radius 1 m.
bool generate_sheave(generated *g);
/// A flat sheet of nx x ny cells of size h in the plane z = 0, corner at (x0, y0).
bool generate_sheet(generated *g, int nx, int ny, double h, double x0, double y0);
/// A closed sphere by latitude and longitude, about 2 n (n - 1) triangles.
bool generate_sphere(generated *g, int n, double radius);
/// Axis-aligned box of 12 triangles.
bool generate_box(generated *g, const double low[3], const double high[3]);
qpc_mesh *generated_mesh(const generated *g); // NULL on failure

#endif
