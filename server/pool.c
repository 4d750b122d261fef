/// The workers. See pool.h.
///
///     push:    lock, append, unlock; wake a sleeper unless a spinner will take the task
///     worker:  take one, run it, take the next ...; when there is none, help with slices of a job that
///              another worker is in; when there is no such job, spin, then sleep
///
/// A spinner always looks once more under the lock before it sleeps, so a push that counted on it is
/// never lost. At most one worker spins.
#include "server/pool.h"

#include "base/mem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

struct qpc_pool {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    qpc_task *head, *tail;   // under lock
    int32_t sleeping;        // under lock
    bool stop;               // under lock
    _Atomic int32_t ready;   // tasks in the queue; written under lock
    _Atomic int32_t spinning; // 0 or 1
    _Atomic int32_t busy;
    int32_t ready_high_water;
    uint64_t tasks, sleeps;
    qpc_crew *crew; // jobs of workers, for others to help with
    qpc_parallel parallel;
    qpc_pool_options options;
    int32_t thread_count;
    pthread_t threads[];
};

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static qpc_task *take_locked(qpc_pool *pool) {
    qpc_task *task = pool->head;
    if (task == NULL) return NULL;
    pool->head = task->next;
    if (pool->head == NULL) pool->tail = NULL;
    task->next = NULL;
    atomic_fetch_sub(&pool->ready, 1);
    atomic_fetch_add(&pool->busy, 1);
    pool->tasks++;
    return task;
}

/// Look for work without sleeping; true as soon as something is queued.
static bool spin(qpc_pool *pool) {
    int32_t nobody = 0;
    if (pool->options.spin_us <= 0) return false;
    if (!atomic_compare_exchange_strong(&pool->spinning, &nobody, 1)) return false;
    int64_t end = now_ns() + (int64_t)pool->options.spin_us * 1000;
    bool found = false;
    for (int32_t i = 1; !found; i++) {
        found = atomic_load_explicit(&pool->ready, memory_order_acquire) > 0 ||
                qpc_crew_has_work(pool->crew);
        relax();
        // Not sched_yield(): it may give a whole time slice away. A niced thread is preempted anyway.
        if (i % 64 == 0 && now_ns() >= end) break;
    }
    atomic_store(&pool->spinning, 0);
    return found;
}

/// Slices of another worker's job; false if there are none.
static bool help(qpc_pool *pool) {
    if (!qpc_crew_has_work(pool->crew)) return false;
    atomic_fetch_add(&pool->busy, 1);
    bool helped = qpc_crew_help(pool->crew);
    atomic_fetch_sub(&pool->busy, 1);
    return helped;
}

/// A worker has a job with slices: wake who sleeps.
static void call_for_help(void *user) {
    qpc_pool *pool = user;
    pthread_mutex_lock(&pool->lock);
    bool wake = pool->sleeping > 0;
    pthread_mutex_unlock(&pool->lock);
    if (wake) pthread_cond_broadcast(&pool->wake);
}

static void *worker(void *user) {
    qpc_pool *pool = user;
    if (pool->options.nice > 0) {
        // On Linux a niceness belongs to the thread; failing only costs latency.
        int before = getpriority(PRIO_PROCESS, (id_t)gettid());
        setpriority(PRIO_PROCESS, (id_t)gettid(), before + pool->options.nice);
    }
    for (;;) {
        pthread_mutex_lock(&pool->lock);
        qpc_task *task = take_locked(pool);
        if (task == NULL && !pool->stop) {
            pthread_mutex_unlock(&pool->lock);
            if (help(pool)) continue;
            spin(pool);
            pthread_mutex_lock(&pool->lock);
            while ((task = take_locked(pool)) == NULL && !pool->stop &&
                   !qpc_crew_has_work(pool->crew)) {
                pool->sleeping++;
                pool->sleeps++;
                pthread_cond_wait(&pool->wake, &pool->lock);
                pool->sleeping--;
            }
        }
        bool stopped = task == NULL && pool->stop;
        pthread_mutex_unlock(&pool->lock);
        if (stopped) return NULL; // and empty
        if (task == NULL) continue; // there is something to help with
        task->run(task);
        atomic_fetch_sub(&pool->busy, 1);
    }
}

qpc_status qpc_pool_create(const qpc_pool_options *options, qpc_pool **ret, qpc_error *err) {
    if (options->workers < 0 || options->workers > 1024) {
        return qpc_fail(err, QPC_ERR_INVALID, "%d workers: want 0 to 1024", options->workers);
    }
    qpc_pool *pool =
        qpc_calloc(1, sizeof *pool + (size_t)options->workers * sizeof(pthread_t));
    if (pool == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for the workers");
    pool->options = *options;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    qpc_status st = qpc_crew_create(call_for_help, pool, &pool->crew, err);
    if (st != QPC_OK) {
        qpc_pool_destroy(pool);
        return st;
    }
    if (options->workers > 1) pool->parallel = qpc_crew_parallel(pool->crew);
    for (int32_t i = 0; i < options->workers; i++) {
        int rc = pthread_create(&pool->threads[i], NULL, worker, pool);
        if (rc != 0) {
            qpc_fail(err, QPC_ERR_IO, "cannot start worker %d of %d: error %d", i + 1,
                     options->workers, rc);
            qpc_pool_destroy(pool);
            return QPC_ERR_IO;
        }
        pool->thread_count++;
    }
    *ret = pool;
    return QPC_OK;
}

void qpc_pool_destroy(qpc_pool *pool) {
    if (pool == NULL) return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int32_t i = 0; i < pool->thread_count; i++) pthread_join(pool->threads[i], NULL);
    while (qpc_pool_run_ready(pool, 1) > 0) continue;
    qpc_crew_destroy(pool->crew);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    qpc_free(pool);
}

void qpc_pool_push(qpc_pool *pool, qpc_task *task) {
    task->next = NULL;
    pthread_mutex_lock(&pool->lock);
    if (pool->tail == NULL) {
        pool->head = task;
    } else {
        pool->tail->next = task;
    }
    pool->tail = task;
    int32_t ready = atomic_fetch_add(&pool->ready, 1) + 1;
    if (ready > pool->ready_high_water) pool->ready_high_water = ready;
    bool wake = pool->sleeping > 0 && ready > atomic_load(&pool->spinning);
    pthread_mutex_unlock(&pool->lock);
    if (wake) pthread_cond_signal(&pool->wake);
}

bool qpc_pool_is_wanted(const qpc_pool *pool) {
    return atomic_load_explicit(&pool->ready, memory_order_relaxed) > 0;
}

bool qpc_pool_is_saturated(const qpc_pool *pool) {
    return atomic_load_explicit(&pool->busy, memory_order_relaxed) >= pool->options.workers;
}

const qpc_parallel *qpc_pool_parallel(const qpc_pool *pool) {
    return &pool->parallel;
}

int32_t qpc_pool_run_ready(qpc_pool *pool, int32_t max) {
    int32_t count = 0;
    while (count < max) {
        pthread_mutex_lock(&pool->lock);
        qpc_task *task = take_locked(pool);
        pthread_mutex_unlock(&pool->lock);
        if (task == NULL) break;
        task->run(task);
        atomic_fetch_sub(&pool->busy, 1);
        count++;
    }
    return count;
}

qpc_pool_stats qpc_pool_get_stats(qpc_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    qpc_pool_stats stats = {
        .workers = pool->options.workers,
        .busy = atomic_load(&pool->busy),
        .ready = atomic_load(&pool->ready),
        .ready_high_water = pool->ready_high_water,
        .tasks = pool->tasks,
        .sleeps = pool->sleeps,
    };
    pthread_mutex_unlock(&pool->lock);
    return stats;
}
