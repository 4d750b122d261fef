/// Slices of one job on several threads, joined before the call returns.
///
/// A job is split into slices by its size alone, never by how many threads there are; slices write
/// to places of their own and are merged in slice order, so results have the same bits on any
/// number of threads. Whoever calls works through the slices himself; threads with nothing else to
/// do join in (qpc_crew_help). With no crew at all, slices run in place, in order.
#ifndef QPC_BASE_PARALLEL_H
#define QPC_BASE_PARALLEL_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef void qpc_slice_fn(void *data, int32_t slice);

typedef struct qpc_parallel {
    void (*run)(void *user, int32_t slice_count, qpc_slice_fn *fn, void *data);
    void *user;
} qpc_parallel;

/// fn(data, 0 .. slice_count - 1), each once, in any order and at once; all have returned when this
/// returns. parallel may be NULL. fn must not call this again.
void qpc_parallel_run(const qpc_parallel *parallel, int32_t slice_count, qpc_slice_fn *fn,
                      void *data);

/// Where jobs wait for helping hands. wake is called (from any thread, must not block) when there
/// is a new job. Several callers may have jobs in it at once.
typedef struct qpc_crew qpc_crew;
qpc_status qpc_crew_create(void (*wake)(void *user), void *user, qpc_crew **ret, qpc_error *err);
void qpc_crew_destroy(qpc_crew *crew); // no job may be in it
/// Work on slices of the oldest job that has any left; false if there was none.
bool qpc_crew_help(qpc_crew *crew);
/// Is there a job with slices left? A hint, for waiting.
bool qpc_crew_has_work(qpc_crew *crew);
qpc_parallel qpc_crew_parallel(qpc_crew *crew);

/// A crew with threads of its own, for programs without a pool.
typedef struct qpc_team qpc_team;
qpc_status qpc_team_create(int32_t thread_count, qpc_team **ret, qpc_error *err);
void qpc_team_destroy(qpc_team *team);
qpc_parallel qpc_team_parallel(qpc_team *team); // NULL team: in place

#endif
