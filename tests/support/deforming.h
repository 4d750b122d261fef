/// Scenes of deforming surfaces for tests and benches of detection: surfaces over one array of
/// nodes, motions of sheets with known shapes, and brute force over all pairs.
#ifndef QPC_TESTS_SUPPORT_DEFORMING_H
#define QPC_TESTS_SUPPORT_DEFORMING_H

#include "engine/collision/detect.h"
#include "tests/support/generate.h"

enum { DEFORMING_MOST = 8 };

typedef struct deforming {
    qpc_surface surface[DEFORMING_MOST];
    generated rest[DEFORMING_MOST]; // meshes
    double *rest_length[DEFORMING_MOST];
    int32_t count, nodes;
    double *x0, *x1;               // (nodes x 3)
    uint8_t *near[DEFORMING_MOST]; // of brute force, made once
    bool near_made[DEFORMING_MOST];
} deforming;

/// A mesh at its generated positions, which it takes over; returns the number of the surface, -1
/// when memory is out.
int32_t deforming_add(deforming *d, generated *g, qpc_motion_kind motion, double radius);
/// A chain of n nodes from a to b.
int32_t deforming_add_chain(deforming *d, int32_t n, const double a[3], const double b[3],
                            qpc_motion_kind motion, double radius);
void deforming_fini(deforming *d);
/// x0 = x1.
void deforming_advance(deforming *d);
/// Triangles without order: shared vertices, edges with many triangles, no area, one point twice,
/// one vertex in no triangle, one triangle that is a point. Coordinates in [-1, 1).
bool deforming_add_soup(deforming *d, int points, int triangles, qpc_motion_kind motion,
                        double radius, uint64_t *seed);
double deforming_uniform(uint64_t *seed); // [-1, 1)
/// First coordinate of a surface in x.
double *deforming_at(const deforming *d, double *x, int32_t surface);

// ---- shapes: rest is a sheet in the plane z = 0, points x, y >= 0; out the same points moved ----

/// Bent along x = at by an angle, over a cylinder of the given radius; layers end up 2 radius
/// apart.
void sheet_fold(const double *rest, int32_t n, double at, double angle, double radius, double *out);
/// Rolled up to `part` (0 flat, 1 a spiral from inner radius, layers `pitch` apart).
void sheet_roll(const double *rest, int32_t n, double length, double part, double inner,
                double pitch, double *out);
/// Turned about the line y = y0, z = 0 by `rate` radians per metre of x; z is kept as offset.
void sheet_twist(const double *rest, int32_t n, double y0, double rate, double *out);

/// A torus with bumps about the z axis: around x along cells, 2 around along triangles.
bool generate_torus(generated *g, int around, int along, double large, double small, double bump);
/// A sphere of 20 4^level triangles.
bool generate_icosphere(generated *g, int level, double radius);

// ---- brute force ----

/// What lengths along a rest shape are made of: edges, and straight lines across an edge between
/// the corners opposite it, where two triangles unfold so that the line stays in them.
typedef struct rest_link {
    int32_t end[2];
    double length;
} rest_link;
typedef QPC_ARRAY(rest_link) rest_links;
rest_links rest_links_of(const qpc_mesh *mesh);
/// Shortest paths from a vertex by relaxing all links again and again.
void rest_paths(const rest_links *links, int32_t n, int32_t from, double *far);

/// For every pair that detection is to look at between meshes of which one is dynamic, and within
/// dynamic ones: kind, nodes, surfaces, features; flags and separation for near_self pairs
/// (shortest paths over the rest mesh by another method). Every stride-th feature of side i only.
typedef void deforming_visit(const deforming *d, qpc_contact *pair, void *user);
void deforming_pairs(deforming *d, int32_t stride, deforming_visit *visit, void *user);

#endif
