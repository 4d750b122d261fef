/// Soft bodies of a world: tetrahedra (engine/dynamics/tets.h) over its particles, which touch by the boundary of their mesh.
/// A world's own thread.
#ifndef QPC_ENGINE_WORLD_SOFTS_H
#define QPC_ENGINE_WORLD_SOFTS_H

#include "engine/dynamics/tets.h"

struct qpc_world;
struct qpc_scene_def;

typedef struct qpc_softs { // the tetrahedra of all soft bodies, body after body
    qpc_tets tets;         // over the world's nodes; its arrays are those below
    int32_t *node, *place;
    double *inverse, *volume, *mu, *lambda;
    uint8_t *material;
    double *seen; // (1 + 3 node_count) the last energy, NaN before, and the nodes that it was of
} qpc_softs;

/// The tetrahedra of a scene, sorted within each body; their places in K come with its pattern. QPC_ERR_MEMORY.
qpc_status qpc_softs_make(struct qpc_world *w, const struct qpc_scene_def *def, qpc_error *err);
/// Marks what is inside soft bodies (no triangle of their boundaries has it), in inside (block_count).
void qpc_softs_mark_inside(const struct qpc_world *w, uint8_t *inside);
void qpc_softs_fini(struct qpc_world *w);
size_t qpc_softs_memory(const struct qpc_world *w);
/// Square of about the highest frequency of a body, 1/s2: of one node against an element.
double qpc_softs_stiffest(const struct qpc_world *w, int32_t body);
/// Elastic energy, J; asked for again at the same nodes, to the bit, it is at hand.
double qpc_softs_energy(const struct qpc_world *w, const double *x);
/// A body's tetrahedra resist nothing any more.
void qpc_softs_slacken(struct qpc_world *w, int32_t body);
/// Those of one body.
qpc_tets qpc_softs_of(const struct qpc_world *w, int32_t body);

#endif
