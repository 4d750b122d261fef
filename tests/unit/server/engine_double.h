/// A stand-in for the engine's worlds in unit tests of the server: particles that fall freely, with
/// failures and slow steps on demand. Meshes are the real ones. Links instead of engine/world.
///
/// Scene: nodes: int (default 1), static: int (nodes of a static body in front, default 0),
/// fail_at: int (the step of that number fails with NUMERIC), dt: real.
/// Control: {push: real} adds to the velocity; {bad: ...} is refused.
#ifndef QPC_TESTS_ENGINE_DOUBLE_H
#define QPC_TESTS_ENGINE_DOUBLE_H

#include "engine/engine.h"

/// Called in every step, to let a test act in the middle of a batch; NULL: nothing.
extern void (*qpc_double_on_step)(int64_t step);
/// Worlds alive.
extern int qpc_double_worlds;

#endif
