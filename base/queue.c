/// A ring under one mutex with two conditions on the monotonic clock.
///
/// A pop wakes every waiting producer: with weights, the one that a single signal would wake may
/// be the one that does not fit. Waiting producers are not served in order.
#include "base/queue.h"

#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

typedef struct queue_slot {
    void *item;
    uint64_t weight;
} queue_slot;

struct qpc_queue {
    pthread_mutex_t mutex;
    pthread_cond_t not_empty, not_full;
    queue_slot *slots; // (capacity) ring
    int32_t capacity, first, waiting_producers;
    uint64_t max_weight;
    bool closed;
    qpc_queue_stats stats; // count and weight are the queue's own
};

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

qpc_status qpc_queue_create(int32_t capacity, uint64_t max_weight, qpc_queue **ret,
                            qpc_error *err) {
    if (capacity <= 0)
        return qpc_fail(err, QPC_ERR_INVALID, "queue of %d items; want at least 1", (int)capacity);
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);
    if (rc != 0) return qpc_fail(err, QPC_ERR_MEMORY, "no condition variable (errno %d)", rc);

    qpc_queue *queue = qpc_calloc(1, sizeof *queue);
    if (queue == NULL) goto no_queue;
    queue->slots = qpc_alloc_array((size_t)capacity, sizeof *queue->slots);
    if (queue->slots == NULL) goto no_slots;
    queue->capacity = capacity;
    queue->max_weight = max_weight;
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (pthread_mutex_init(&queue->mutex, NULL) != 0) goto no_mutex;
    if (pthread_cond_init(&queue->not_empty, &attr) != 0) goto no_first;
    if (pthread_cond_init(&queue->not_full, &attr) != 0) goto no_second;
    pthread_condattr_destroy(&attr);
    *ret = queue;
    return QPC_OK;

no_second:
    pthread_cond_destroy(&queue->not_empty);
no_first:
    pthread_mutex_destroy(&queue->mutex);
no_mutex:
    qpc_free(queue->slots);
no_slots:
    qpc_free(queue);
no_queue:
    pthread_condattr_destroy(&attr);
    return qpc_fail(err, QPC_ERR_MEMORY, "no memory for a queue of %d items", (int)capacity);
}

void qpc_queue_destroy(qpc_queue *queue) {
    if (queue == NULL) return;
    pthread_cond_destroy(&queue->not_full);
    pthread_cond_destroy(&queue->not_empty);
    pthread_mutex_destroy(&queue->mutex);
    qpc_free(queue->slots);
    qpc_free(queue);
}

// ---- all below: the mutex is held ----

static bool has_room(const qpc_queue *queue, uint64_t weight) {
    if (queue->stats.count == 0) return true;
    if (queue->stats.count == queue->capacity) return false;
    if (queue->max_weight == 0) return true;
    return queue->stats.weight <= queue->max_weight &&
           weight <= queue->max_weight - queue->stats.weight;
}

static void put(qpc_queue *queue, void *item, uint64_t weight) {
    int32_t slot = (int32_t)(((int64_t)queue->first + queue->stats.count) % queue->capacity);
    queue->slots[slot] = (queue_slot){item, weight};
    queue->stats.count++;
    queue->stats.pushed++;
    queue->stats.weight += weight;
    if (queue->stats.count > queue->stats.high_water) queue->stats.high_water = queue->stats.count;
    pthread_cond_signal(&queue->not_empty);
}

static int32_t take(qpc_queue *queue, void **items, int32_t max) {
    int32_t n = 0;
    for (; n < max && queue->stats.count > 0; n++) {
        items[n] = queue->slots[queue->first].item;
        queue->stats.weight -= queue->slots[queue->first].weight;
        queue->first = queue->first + 1 == queue->capacity ? 0 : queue->first + 1;
        queue->stats.count--;
    }
    if (n > 0 && queue->waiting_producers > 0) pthread_cond_broadcast(&queue->not_full);
    return n;
}

/// Absolute time of a time-out; a wait of more than a century is one for ever.
static bool deadline_after(int64_t timeout_ms, struct timespec *ret) {
    if (timeout_ms < 0 || timeout_ms > INT64_C(3155760000000)) return false;
    clock_gettime(CLOCK_MONOTONIC, ret);
    ret->tv_sec += (time_t)(timeout_ms / 1000);
    ret->tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (ret->tv_nsec >= 1000000000) {
        ret->tv_nsec -= 1000000000;
        ret->tv_sec++;
    }
    return true;
}

/// False when the time is up.
static bool wait_on(qpc_queue *queue, pthread_cond_t *cond, const struct timespec *deadline) {
    if (deadline == NULL) return pthread_cond_wait(cond, &queue->mutex) == 0;
    return pthread_cond_timedwait(cond, &queue->mutex, deadline) != ETIMEDOUT;
}

// ---- public ----

qpc_status qpc_queue_try_push(qpc_queue *queue, void *item, uint64_t weight) {
    return qpc_queue_push(queue, item, weight, 0);
}

qpc_status qpc_queue_push(qpc_queue *queue, void *item, uint64_t weight, int64_t timeout_ms) {
    if (QPC_NEVER(item == NULL)) return QPC_ERR_INTERNAL;
    qpc_status status = QPC_OK;
    pthread_mutex_lock(&queue->mutex);
    if (!queue->closed && !has_room(queue, weight) && timeout_ms != 0) {
        struct timespec deadline;
        bool timed = deadline_after(timeout_ms, &deadline);
        int64_t start_ns = now_ns();
        queue->waiting_producers++;
        while (!queue->closed && !has_room(queue, weight))
            if (!wait_on(queue, &queue->not_full, timed ? &deadline : NULL)) break;
        queue->waiting_producers--;
        queue->stats.wait_ns += (uint64_t)(now_ns() - start_ns);
    }
    if (queue->closed) {
        status = QPC_ERR_STATE;
    } else if (!has_room(queue, weight)) {
        queue->stats.refused++;
        status = QPC_ERR_BUSY;
    } else {
        put(queue, item, weight);
    }
    pthread_mutex_unlock(&queue->mutex);
    return status;
}

void *qpc_queue_try_pop(qpc_queue *queue) {
    return qpc_queue_pop(queue, 0);
}

void *qpc_queue_pop(qpc_queue *queue, int64_t timeout_ms) {
    void *item = NULL;
    return qpc_queue_pop_many(queue, &item, 1, timeout_ms) == 1 ? item : NULL;
}

int32_t qpc_queue_pop_many(qpc_queue *queue, void **items, int32_t max, int64_t timeout_ms) {
    pthread_mutex_lock(&queue->mutex);
    if (queue->stats.count == 0 && !queue->closed && timeout_ms != 0) {
        struct timespec deadline;
        bool timed = deadline_after(timeout_ms, &deadline);
        while (queue->stats.count == 0 && !queue->closed)
            if (!wait_on(queue, &queue->not_empty, timed ? &deadline : NULL)) break;
    }
    int32_t n = take(queue, items, max);
    pthread_mutex_unlock(&queue->mutex);
    return n;
}

void qpc_queue_close(qpc_queue *queue) {
    pthread_mutex_lock(&queue->mutex);
    queue->closed = true;
    pthread_cond_broadcast(&queue->not_empty);
    pthread_cond_broadcast(&queue->not_full);
    pthread_mutex_unlock(&queue->mutex);
}

qpc_queue_stats qpc_queue_get_stats(qpc_queue *queue) {
    pthread_mutex_lock(&queue->mutex);
    qpc_queue_stats stats = queue->stats;
    pthread_mutex_unlock(&queue->mutex);
    return stats;
}
