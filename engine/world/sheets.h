/// Cloth that is a thin sheet (engine/dynamics/shell.h) rather than springs: what a world keeps of it. Its edges and pairs across
/// them are springs without stiffness: they carry strain limits, the pattern of K, and what is reported per spring.
/// A world's own thread.
#ifndef QPC_ENGINE_WORLD_SHEETS_H
#define QPC_ENGINE_WORLD_SHEETS_H

#include "engine/dynamics/shell.h"

struct qpc_world;
struct qpc_scene_def;

typedef struct qpc_sheet {
    int32_t body;
    qpc_shells shells; // over the world's nodes; its arrays are those below
    int32_t *node, *place, *bend, *hinge, *hinge_place;
    double *inverse, *area, *mu, *lambda, *couple, *stiffness, *angle, *scratch;
} qpc_sheet;

/// The sheets of a scene; after the pattern of K. QPC_ERR_MEMORY.
qpc_status qpc_sheets_make(struct qpc_world *w, const struct qpc_scene_def *def, qpc_error *err);
void qpc_sheets_fini(struct qpc_world *w);
size_t qpc_sheets_memory(const struct qpc_world *w);

/// Elastic energy, J, of all sheets, or of those of one body.
double qpc_sheets_energy(const struct qpc_world *w, const double *x);
double qpc_sheets_energy_of(const struct qpc_world *w, int32_t body, const double *x);
/// The sheet of a body resists nothing any more.
void qpc_sheets_slacken(struct qpc_world *w, int32_t body);
/// As qpc_shells_linearise(), of all.
void qpc_sheets_linearise(const struct qpc_world *w, const double *x, const double *v, double dt, qpc_linsys *K, double *f,
                          double *Hv);

#endif
