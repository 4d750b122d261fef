/// Corners at exactly the same position become one vertex: a hash set of positions.
///
/// Vertices are numbered in the order of their first use; nothing is merged within a tolerance.
/// -0 is 0. Any thread; a set belongs to one thread at a time.
#ifndef QPC_CLIENT_MESHIO_WELD_H
#define QPC_CLIENT_MESHIO_WELD_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct qpc_weld {
    double *vertices; // (count x 3); owned, may be taken (set to NULL) before fini
    int32_t *slots;   // vertex or -1; mask + 1 of them
    size_t mask;
    int64_t capacity, merged; // merged: how often a position had been there before
    int32_t count;
} qpc_weld;

/// Room for `capacity` vertices. QPC_ERR_MEMORY; fini is due either way.
qpc_status qpc_weld_init(qpc_weld *weld, int64_t capacity);
void qpc_weld_fini(qpc_weld *weld);
/// The vertex at that position, a new one if need be; -1: there is no room for another one.
int32_t qpc_weld_find(qpc_weld *weld, const double position[3]);

#endif
