/// A bounded queue of pointers between threads, with close. Multiple producers and consumers.
#ifndef QPC_BASE_QUEUE_H
#define QPC_BASE_QUEUE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct qpc_queue qpc_queue;

/// capacity > 0 items. Besides the count the sum of item weights (bytes, say) is bounded by
/// max_weight (0: unbounded); one item is always admitted to an empty queue.
qpc_status qpc_queue_create(int32_t capacity, uint64_t max_weight, qpc_queue **ret, qpc_error *err);
/// No thread may be inside. Items left belong to the caller's drain beforehand. NULL is accepted.
void qpc_queue_destroy(qpc_queue *queue);

/// QPC_OK; QPC_ERR_BUSY when full; QPC_ERR_STATE when closed. Never blocks.
qpc_status qpc_queue_try_push(qpc_queue *queue, void *item, uint64_t weight);
/// Waits for room up to timeout_ms (-1: for ever): QPC_ERR_BUSY on time-out, QPC_ERR_STATE when
/// closed. The time waited is added to the queue's statistics.
qpc_status qpc_queue_push(qpc_queue *queue, void *item, uint64_t weight, int64_t timeout_ms);
/// NULL when empty (or closed and empty).
void *qpc_queue_try_pop(qpc_queue *queue);
/// Waits up to timeout_ms (-1: for ever). NULL on time-out, or when closed and empty.
void *qpc_queue_pop(qpc_queue *queue, int64_t timeout_ms);
/// Up to max items at once in order; waits like pop for the first one. Returns the count.
int32_t qpc_queue_pop_many(qpc_queue *queue, void **items, int32_t max, int64_t timeout_ms);
/// No more pushes; poppers drain what is left, then get NULL.
void qpc_queue_close(qpc_queue *queue);

typedef struct qpc_queue_stats {
    int32_t count, high_water;
    uint64_t weight, pushed, refused, wait_ns;
} qpc_queue_stats;
qpc_queue_stats qpc_queue_get_stats(qpc_queue *queue);

#endif
