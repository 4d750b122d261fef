/// Slices and who works on them; see parallel.h.
///
/// A job lives on the caller's stack, in a list of the crew for as long as slices are left to take.
/// One mutex guards the list and every job's counters; slices are coarse, so it is rarely waited
/// for. The caller takes slices like everyone else, then waits for those that others still run.
#include "base/parallel.h"

#include "base/mem.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct job job;
struct job {
    qpc_slice_fn *fn;
    void *data;
    int32_t slice_count, next, running; // under lock; running: by others than the caller
    job *after;
};

struct qpc_crew {
    pthread_mutex_t lock;
    pthread_cond_t returned;
    job *first;          // under lock, oldest first; each has slices left
    _Atomic int32_t open; // jobs in the list; written under lock
    void (*wake)(void *user);
    void *user;
};

void qpc_parallel_run(const qpc_parallel *parallel, int32_t slice_count, qpc_slice_fn *fn,
                      void *data) {
    if (parallel != NULL && parallel->run != NULL && slice_count > 1) {
        parallel->run(parallel->user, slice_count, fn, data);
        return;
    }
    for (int32_t i = 0; i < slice_count; i++) fn(data, i);
}

/// The next slice of a job, which leaves the list with its last one. Lock held.
static int32_t take(qpc_crew *crew, job *j) {
    int32_t slice = j->next++;
    if (j->next == j->slice_count) {
        job **at = &crew->first;
        while (*at != j) at = &(*at)->after;
        *at = j->after;
        atomic_fetch_sub(&crew->open, 1);
    }
    return slice;
}

static void run(void *user, int32_t slice_count, qpc_slice_fn *fn, void *data) {
    qpc_crew *crew = user;
    job j = {.fn = fn, .data = data, .slice_count = slice_count};
    pthread_mutex_lock(&crew->lock);
    job **at = &crew->first;
    while (*at != NULL) at = &(*at)->after;
    *at = &j;
    atomic_fetch_add(&crew->open, 1);
    pthread_mutex_unlock(&crew->lock);
    crew->wake(crew->user);

    pthread_mutex_lock(&crew->lock);
    while (j.next < j.slice_count) {
        int32_t slice = take(crew, &j);
        pthread_mutex_unlock(&crew->lock);
        fn(data, slice);
        pthread_mutex_lock(&crew->lock);
    }
    while (j.running > 0) pthread_cond_wait(&crew->returned, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
}

bool qpc_crew_help(qpc_crew *crew) {
    if (!qpc_crew_has_work(crew)) return false;
    pthread_mutex_lock(&crew->lock);
    job *j = crew->first;
    if (j == NULL) {
        pthread_mutex_unlock(&crew->lock);
        return false;
    }
    j->running++;
    while (j->next < j->slice_count) {
        int32_t slice = take(crew, j);
        pthread_mutex_unlock(&crew->lock);
        j->fn(j->data, slice);
        pthread_mutex_lock(&crew->lock);
    }
    // The last touch of j: its caller may return as soon as the lock is free.
    if (--j->running == 0) pthread_cond_broadcast(&crew->returned);
    pthread_mutex_unlock(&crew->lock);
    return true;
}

bool qpc_crew_has_work(qpc_crew *crew) {
    return atomic_load_explicit(&crew->open, memory_order_acquire) > 0;
}

qpc_status qpc_crew_create(void (*wake)(void *user), void *user, qpc_crew **ret, qpc_error *err) {
    qpc_crew *crew = qpc_calloc(1, sizeof *crew);
    if (crew == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for a crew of threads");
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->returned, NULL);
    crew->wake = wake;
    crew->user = user;
    *ret = crew;
    return QPC_OK;
}

void qpc_crew_destroy(qpc_crew *crew) {
    if (crew == NULL) return;
    QPC_ASSERT(crew->first == NULL);
    pthread_cond_destroy(&crew->returned);
    pthread_mutex_destroy(&crew->lock);
    qpc_free(crew);
}

qpc_parallel qpc_crew_parallel(qpc_crew *crew) {
    return (qpc_parallel){crew != NULL ? run : NULL, crew};
}

// ---- a team: a crew and its threads ----

struct qpc_team {
    qpc_crew *crew;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop;            // under lock
    uint64_t calls;       // under lock: wake-ups so far, so that none is missed
    int32_t thread_count;
    pthread_t threads[];
};

static void wake_team(void *user) {
    qpc_team *team = user;
    pthread_mutex_lock(&team->lock);
    team->calls++;
    pthread_cond_broadcast(&team->wake);
    pthread_mutex_unlock(&team->lock);
}

static void *member(void *user) {
    qpc_team *team = user;
    uint64_t seen = 0;
    pthread_mutex_lock(&team->lock);
    while (!team->stop) {
        if (seen == team->calls) {
            pthread_cond_wait(&team->wake, &team->lock);
            continue;
        }
        seen = team->calls;
        pthread_mutex_unlock(&team->lock);
        while (qpc_crew_help(team->crew)) continue;
        pthread_mutex_lock(&team->lock);
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

qpc_status qpc_team_create(int32_t thread_count, qpc_team **ret, qpc_error *err) {
    if (thread_count < 1 || thread_count > 1024)
        return qpc_fail(err, QPC_ERR_INVALID, "a team of %d threads: want 1 to 1024", thread_count);
    qpc_team *team = qpc_calloc(1, sizeof *team + (size_t)thread_count * sizeof(pthread_t));
    if (team == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for a team of threads");
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->wake, NULL);
    qpc_status st = qpc_crew_create(wake_team, team, &team->crew, err);
    for (int32_t i = 0; i < thread_count && st == QPC_OK; i++) {
        int rc = pthread_create(&team->threads[i], NULL, member, team);
        if (rc != 0)
            st = qpc_fail(err, QPC_ERR_IO, "cannot start thread %d of %d: error %d", i + 1,
                          thread_count, rc);
        else
            team->thread_count++;
    }
    if (st != QPC_OK)
        qpc_team_destroy(team);
    else
        *ret = team;
    return st;
}

void qpc_team_destroy(qpc_team *team) {
    if (team == NULL) return;
    pthread_mutex_lock(&team->lock);
    team->stop = true;
    pthread_cond_broadcast(&team->wake);
    pthread_mutex_unlock(&team->lock);
    for (int32_t i = 0; i < team->thread_count; i++) pthread_join(team->threads[i], NULL);
    qpc_crew_destroy(team->crew);
    pthread_cond_destroy(&team->wake);
    pthread_mutex_destroy(&team->lock);
    qpc_free(team);
}

qpc_parallel qpc_team_parallel(qpc_team *team) {
    return team != NULL ? qpc_crew_parallel(team->crew) : (qpc_parallel){NULL, NULL};
}
