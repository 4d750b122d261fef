/// Surfaces in motion for tests and benches of the broad phase, and the pairs of their boxes by
/// looking at every two.
#ifndef QPC_TESTS_SUPPORT_SURFACES_H
#define QPC_TESTS_SUPPORT_SURFACES_H

#include "engine/collision/broad.h"
#include "tests/support/generate.h"

/// Random numbers of a test: the state is any number.
double surfaces_uniform(uint64_t *state); // [0, 1)
double surfaces_normal(uint64_t *state);  // mean 0, deviation 1

/// One surface and a motion of it. Grids have n x n vertices and 2 (n - 1)^2 triangles whose
/// diagonals alternate; h = 1 / (n - 1) is the length of their sides at rest.
typedef struct surfaces_scene {
    qpc_mesh *mesh;
    int32_t nodes;
    double *x0, *x1; // (nodes x 3) m
    double edge;     // mean length of the edges at x0, m
} surfaces_scene;
bool surfaces_drape(int n, surfaces_scene *ret);  // a sheet in loose folds that ripples
bool surfaces_rolled(int n, surfaces_scene *ret); // a sheet in a spiral of tight layers
/// Two lobes of 20 x 4^level triangles each, in contact, squeezed.
bool surfaces_organ(int level, surfaces_scene *ret);
bool surfaces_torus(surfaces_scene *ret);                    // 13,722 triangles, x0 = x1
void surfaces_cable(double x0[101 * 3], double x1[101 * 3]); // along the torus, 100 edges
void surfaces_scene_fini(surfaces_scene *s);
/// Where a sheet of n x n vertices is at time t (0 to 1) of a sequence: folding over on itself,
/// rolling up, or twisting. x: (n n x 3) m.
typedef enum surfaces_sequence { SURFACES_FOLD, SURFACES_ROLL, SURFACES_TWIST } surfaces_sequence;
void surfaces_sheet_at(surfaces_sequence sequence, int n, double t, double *x);
/// Triangles of such a sheet.
bool surfaces_grid(int n, generated *ret);

/// The pairs that the definition asks for, by brute force over boxes in double precision: sorted,
/// each once. most: the same with boxes grown by slack on top.
typedef struct surfaces_pairs {
    qpc_pairs vt, ee;
} surfaces_pairs;
bool surfaces_brute(const qpc_broad_surface *surface, int32_t count, const double *x0,
                    const double *x1, double reach, double slack, surfaces_pairs *least,
                    surfaces_pairs *most);
/// The same for a few vertices and edges only, drawn at random, against all others: those of their
/// pairs that are not among the found ones (sorted) are counted; *ret_pairs of them there were.
bool surfaces_sample(const qpc_broad_surface *surface, int32_t count, const double *x0,
                     const double *x1, double reach, int32_t draws, uint64_t *seed,
                     const surfaces_pairs *found, int64_t *ret_pairs, int64_t *ret_missing);
/// Order of pairs, for qsort and bsearch.
int surfaces_by_numbers(const void *a, const void *b);
/// The slices of the last update, put together and sorted.
bool surfaces_found(const qpc_broad *broad, surfaces_pairs *ret);
void surfaces_pairs_fini(surfaces_pairs *p);
/// Is every pair of a (sorted) in b (sorted, no pair twice)?
bool surfaces_contained(const qpc_pairs *a, const qpc_pairs *b);

#endif
