/// Worker threads and one first-in-first-out queue of ready tasks.
///
/// A task is embedded in what it serves: a world (actor.h) that has mail, or a job such as hashing a
/// mesh. It is in the queue at most once; its owner sees to that. A world runs for a time slice and
/// pushes itself to the end of the queue if it has more to do, so that all share the workers. Workers
/// with no task help with slices of the large steps that others are in (base/parallel.h).
///
/// Waking a sleeping thread costs more than a small step, so the last idle worker looks at the queue
/// for spin_us before it sleeps; it yields the processor between looks. Threads are niced, so that
/// the loop keeps its latency.
#ifndef QPC_SERVER_POOL_H
#define QPC_SERVER_POOL_H

#include "base/parallel.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct qpc_task qpc_task;
struct qpc_task {
    qpc_task *next;
    void (*run)(qpc_task *task); // on a worker; may push the task again, or free it
};

typedef struct qpc_pool qpc_pool;

typedef struct qpc_pool_options {
    int32_t workers; // 0: no threads; qpc_pool_run_ready() runs tasks in place (unit tests)
    int32_t nice;    // 0 to 19, added to that of the process
    int32_t spin_us;
} qpc_pool_options;

typedef struct qpc_pool_stats {
    int32_t workers, busy, ready, ready_high_water;
    uint64_t tasks, sleeps;
} qpc_pool_stats;

qpc_status qpc_pool_create(const qpc_pool_options *options, qpc_pool **ret, qpc_error *err);
/// Runs what is still queued, then joins the threads. NULL is accepted.
void qpc_pool_destroy(qpc_pool *pool);
/// Any thread. The task must not be in the queue already.
void qpc_pool_push(qpc_pool *pool, qpc_task *task);
/// Does another task wait for a worker? A world asks this to decide whether to give way.
bool qpc_pool_is_wanted(const qpc_pool *pool);
/// Are all workers busy? Then nobody has a processor to spare for spinning.
bool qpc_pool_is_saturated(const qpc_pool *pool);
/// Who helps with slices of a job that a worker is in; lives as long as the pool. Without threads,
/// nobody.
const qpc_parallel *qpc_pool_parallel(const qpc_pool *pool);
/// Without threads: run at most max tasks in place; returns the count.
int32_t qpc_pool_run_ready(qpc_pool *pool, int32_t max);
qpc_pool_stats qpc_pool_get_stats(qpc_pool *pool);

#endif
