/// Surfaces in motion for tests and benches of the broad phase, and the pairs of their boxes by
/// looking at every two.
#ifndef QPC_TESTS_SUPPORT_SURFACES_H
#define QPC_TESTS_SUPPORT_SURFACES_H

#include "engine/collision/broad.h"
#include "tests/support/generate.h"

/// Random numbers of a test: the state is any number.
double surfaces_uniform(uint64_t *state); // [0, 1)

/// The pairs that the definition asks for, by brute force over boxes in double precision, each
/// grown by slack on top: sorted, each once.
typedef struct surfaces_pairs {
    qpc_pairs vt, ee;
} surfaces_pairs;
bool surfaces_brute(const qpc_broad_surface *surface, int32_t count, const double *x0,
                    const double *x1, double reach, double slack, surfaces_pairs *ret);
/// The slices of the last update, put together and sorted.
bool surfaces_found(const qpc_broad *broad, surfaces_pairs *ret);
void surfaces_pairs_fini(surfaces_pairs *p);
/// Is every pair of a (sorted) in b (sorted, no pair twice)?
bool surfaces_contained(const qpc_pairs *a, const qpc_pairs *b);

#endif
