/// A world with its mailbox: at most one worker is in it at a time, requests run in order.
///
///     loop:   qpc_actor_post(request) --> mailbox --> (pool) --> worker: qpc_actor_run
///     worker: step, record, publish a snapshot, encode the reply --> qpc_bridge --> loop
///
/// A long batch of steps gives way after a time slice when others wait for a worker, and goes on
/// where it was; the requests behind it keep their order. Cancel, deadline, destroy and drain act
/// between two steps.
///
/// The published snapshot is the one thing that the loop reads while a worker is inside. Frames for
/// subscribers go through a ring of a few: when the loop does not keep up the oldest are dropped and
/// counted, so that a world never waits for a reader.
#ifndef QPC_SERVER_ACTOR_H
#define QPC_SERVER_ACTOR_H

#include "server/meshes.h"
#include "server/recorder.h"
#include "server/request.h"
#include "server/snapshot.h"
#include "server/stats.h"

/// What all actors share; outlives them.
typedef struct qpc_actor_env {
    qpc_pool *pool;
    qpc_bridge *bridge;
    qpc_writer *writer; // NULL: nothing is recorded
    qpc_meshes *meshes;
    qpc_counters *counters;
    const atomic_bool *draining;
    int64_t slice_ns;         // of one turn on a worker
    int64_t publish_ns;       // between snapshots inside a batch
    int32_t mailbox_capacity;
    size_t max_message;       // bytes of a reply
    int64_t max_nodes;
    int64_t max_world_memory, max_worlds_memory; // bytes
    _Atomic int64_t *worlds_memory;              // bytes of all worlds
    bool record;              // false: never, whatever a scene says
    /// Loop thread: the world has frames; take them all (qpc_actor_take_frames).
    void (*on_frames)(void *user, qpc_actor *actor);
    void *user;
} qpc_actor_env;

// ---- loop thread or a job: life ----

/// Builds the world of a scene and, unless dry_run, opens its run and gives it an id. Slow for large
/// scenes: runs as a job. name: "" takes the scene's. scene_report is always written.
qpc_status qpc_actor_create(const qpc_actor_env *env, const qpc_value *scene, const char *name,
                            bool dry_run, qpc_actor **ret, qpc_scene_report *scene_report,
                            qpc_error *err);
/// No worker may be inside and no request queued: after a destroy request, or before the first one.
void qpc_actor_free(qpc_actor *actor);

// ---- loop thread ----

/// To the mailbox. QPC_ERR_BUSY when it is full: the request stays the caller's.
qpc_status qpc_actor_post(qpc_actor *actor, qpc_request *request, qpc_error *err);
/// Stop the batches that run or wait, between two steps; true if there was one.
bool qpc_actor_cancel(qpc_actor *actor);
/// From now on nothing runs but the destroy request, which the caller posts next; it is admitted to
/// a full mailbox. What waited is answered CANCELLED.
void qpc_actor_doom(qpc_actor *actor);
/// A reference to the last published snapshot.
qpc_snapshot *qpc_actor_snapshot(qpc_actor *actor);
/// Frames since the last call, oldest first, at most max; references for the caller. *ret_missed: how
/// many were lost before the first of them.
int32_t qpc_actor_take_frames(qpc_actor *actor, qpc_snapshot **frames, int32_t max,
                              uint64_t *ret_missed);
/// Every which steps somebody wants frames of (0: nobody does), and which parts.
void qpc_actor_set_frames(qpc_actor *actor, int64_t every, uint32_t parts);

typedef struct qpc_actor_info {
    uint64_t id;
    const char *name; // for the life of the actor
    const char *run;  // 32 hex digits, or NULL
    int64_t step;
    double time, dt;
    uint64_t scene_hash;
    bool busy;
    int64_t memory;
    const qpc_layout *layout;
    const qpc_value *scene; // constant for the life of the world
} qpc_actor_info;
qpc_actor_info qpc_actor_get_info(qpc_actor *actor);
uint64_t qpc_actor_id(const qpc_actor *actor);
/// NULL: not recorded. Borrowed while the world lives.
qpc_recorder *qpc_actor_recorder(const qpc_actor *actor);

/// For the owner of the actor, loop thread: who holds the world exclusively, when it was last asked
/// for anything, how long it may be idle, and its subscriptions.
typedef struct qpc_actor_owner {
    qpc_session *exclusive;
    int64_t used_ns, idle_limit_ns; // 0: no limit
    struct qpc_subscription *subscriptions;
    int64_t rate_step; // for steps/s: the step and the time of the last look
    int64_t rate_ns;
    double steps_per_s;
    bool destroying;
} qpc_actor_owner;
qpc_actor_owner *qpc_actor_get_owner(qpc_actor *actor);

#endif
