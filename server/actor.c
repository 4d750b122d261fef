/// The worker's side of a world. See actor.h.
///
/// Under the lock: the mailbox, the published snapshot and the ring of frames; everything else is the
/// worker's alone, or atomic. The pool's own lock orders what one worker leaves to the next.
#include "server/actor.h"

#include "base/array.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/batch.h"
#include "server/builder.h"
#include "server/recordlist.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { FRAME_RING = 256, FRAME_RING_BYTES = 16 << 20 };

struct qpc_actor {
    qpc_task task;       // to the pool
    qpc_post frames_post; // to the loop
    const qpc_actor_env *env;
    uint64_t id; // 0 for a dry run
    char name[QPC_NAME_SIZE];
    qpc_layout *layout;
    qpc_world *world;
    qpc_recorder *recorder; // NULL: not recorded
    uint8_t (*held)[32];    // meshes in use
    int32_t held_count;
    double dt;
    uint64_t scene_hash;

    pthread_mutex_t lock;
    // Under the lock.
    qpc_request *first, *last;
    int32_t waiting; // in the mailbox, the running one included
    bool scheduled;  // in the pool's queue, or on a worker
    bool doomed;
    qpc_snapshot *published;
    qpc_snapshot *ring[FRAME_RING];
    int32_t ring_first, ring_count;
    size_t ring_bytes;
    uint64_t ring_missed;
    bool frames_posted;

    atomic_bool stopping; // doomed, for the worker between steps
    _Atomic int64_t frames_every;
    _Atomic uint32_t frames_parts;
    _Atomic int64_t memory;

    // The worker's.
    qpc_batch batch; // progress of the running step request
    bool batch_begun;
    qpc_reply_cache replies;
    qpc_step_report report; // of the last step
    bool stepped;
    int64_t published_ns;
    int64_t published_step;
    qpc_log_limit trouble_log, failure_log, proof_log, conflict_log, still_log;

    qpc_actor_owner owner; // the loop's
};

// ---- life ----

static qpc_status lookup_mesh(void *user, const uint8_t sha256[32], qpc_mesh **ret,
                              qpc_error *err) {
    qpc_actor *actor = user;
    qpc_mesh *mesh = NULL;
    qpc_status status = qpc_meshes_find(actor->env->meshes, sha256, &mesh, err);
    if (status != QPC_OK) return status;
    uint8_t(*grown)[32] =
        qpc_realloc_array(actor->held, (size_t)actor->held_count + 1, sizeof *grown);
    if (grown == NULL) {
        qpc_mesh_unref(mesh);
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for the list of meshes");
    }
    actor->held = grown;
    memcpy(actor->held[actor->held_count++], sha256, 32);
    qpc_meshes_hold(actor->env->meshes, sha256);
    *ret = mesh;
    return QPC_OK;
}

static void on_substep(void *user, int64_t step, double time, const double *x,
                       int32_t node_count) {
    qpc_actor *actor = user;
    (void)node_count;
    if (actor->recorder != NULL) qpc_recorder_substep(actor->recorder, step, time, x);
}

static void account_memory(qpc_actor *actor) {
    int64_t now = (int64_t)qpc_world_memory(actor->world);
    int64_t before = atomic_exchange(&actor->memory, now);
    atomic_fetch_add(actor->env->worlds_memory, now - before);
}

static qpc_status check_memory(qpc_actor *actor, qpc_error *err) {
    const qpc_actor_env *env = actor->env;
    account_memory(actor);
    int64_t mine = atomic_load(&actor->memory), all = atomic_load(env->worlds_memory);
    if (mine > env->max_world_memory) {
        return qpc_fail(err, QPC_ERR_LIMIT,
                        "the world takes %" PRId64 " bytes: --max-world-memory is %" PRId64, mine,
                        env->max_world_memory);
    }
    if (all > env->max_worlds_memory) {
        return qpc_fail(err, QPC_ERR_LIMIT,
                        "all worlds take %" PRId64 " bytes: --max-worlds-memory is %" PRId64, all,
                        env->max_worlds_memory);
    }
    return QPC_OK;
}

static void publish(qpc_actor *actor, qpc_snapshot *snapshot) {
    pthread_mutex_lock(&actor->lock);
    qpc_snapshot *before = actor->published;
    actor->published = snapshot;
    pthread_mutex_unlock(&actor->lock);
    qpc_snapshot_unref(before);
    actor->published_step = snapshot->step;
}

/// A full snapshot of the present state becomes the published one. Failing (memory) leaves the old.
static void publish_now(qpc_actor *actor) {
    if (actor->published != NULL && actor->published_step == qpc_world_step_number(actor->world)) {
        return;
    }
    qpc_snapshot *snapshot = NULL;
    if (qpc_snapshot_take(actor->world, actor->layout, actor->stepped ? &actor->report : NULL,
                          QPC_PART_ALL, &snapshot, NULL) == QPC_OK) {
        publish(actor, snapshot);
    }
}

static void actor_run(qpc_task *task);
static void run_frames_post(qpc_post *post);

static qpc_status begin_recording(qpc_actor *actor, const qpc_record_settings *settings,
                                  qpc_error *err) {
    if (actor->env->writer == NULL || !actor->env->record || !settings->enabled) return QPC_OK;
    return qpc_recorder_open(actor->env->writer, actor->world, actor->layout, settings, actor->id,
                             actor->name, &actor->recorder, err);
}

qpc_status qpc_actor_create(const qpc_actor_env *env, const qpc_value *scene, const char *name,
                            bool dry_run, qpc_actor **ret, qpc_scene_report *scene_report,
                            qpc_error *err) {
    memset(scene_report, 0, sizeof *scene_report);
    qpc_actor *actor = qpc_calloc(1, sizeof *actor);
    if (actor == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a world");
    actor->env = env;
    actor->task.run = actor_run;
    actor->frames_post.run = run_frames_post;
    pthread_mutex_init(&actor->lock, NULL);
    qpc_record_settings settings;
    qpc_status status =
        qpc_record_settings_read(qpc_map_get(scene, "record"), &settings, err);
    if (status != QPC_OK) goto failed;
    qpc_world_env world_env = {
        .user = actor,
        .mesh_lookup = lookup_mesh,
        .substep = settings.substeps ? on_substep : NULL,
        .limits = {.max_nodes = env->max_nodes},
        .parallel = env->pool != NULL ? qpc_pool_parallel(env->pool) : NULL,
    };
    status = qpc_world_create(scene, &world_env, &actor->world, scene_report, err);
    if (status == QPC_OK) status = check_memory(actor, err);
    if (status == QPC_OK) status = qpc_layout_create(actor->world, &actor->layout, err);
    if (status != QPC_OK) goto failed;
    actor->dt = qpc_world_dt(actor->world);
    actor->scene_hash = qpc_world_scene_hash(actor->world);
    const qpc_value *label = qpc_map_get(scene, "name");
    if (name[0] == '\0' && label != NULL && label->kind == QPC_STR) {
        snprintf(actor->name, sizeof actor->name, "%.*s", (int)label->str.size, label->str.bytes);
    } else {
        snprintf(actor->name, sizeof actor->name, "%s", name);
    }
    qpc_snapshot *snapshot = NULL;
    status = qpc_snapshot_take(actor->world, actor->layout, NULL, QPC_PART_ALL, &snapshot, err);
    if (status != QPC_OK) goto failed;
    publish(actor, snapshot);
    if (!dry_run && env->writer != NULL) {
        status = qpc_catalog_next_world(env->writer, &actor->id, err);
        if (status == QPC_OK) status = begin_recording(actor, &settings, err);
        if (status != QPC_OK) goto failed;
    }
    *ret = actor;
    return QPC_OK;
failed:
    qpc_actor_free(actor);
    return status;
}

void qpc_actor_free(qpc_actor *actor) {
    if (actor == NULL) return;
    for (int32_t i = 0; i < actor->ring_count; i++) {
        qpc_snapshot_unref(actor->ring[(actor->ring_first + i) % FRAME_RING]);
    }
    qpc_snapshot_unref(actor->published);
    qpc_recorder_unref(actor->recorder);
    qpc_world_destroy(actor->world);
    atomic_fetch_sub(actor->env->worlds_memory, atomic_load(&actor->memory));
    for (int32_t i = 0; i < actor->held_count; i++) {
        qpc_meshes_release(actor->env->meshes, actor->held[i]);
    }
    qpc_free(actor->held);
    qpc_free(actor->layout);
    qpc_reply_cache_fini(&actor->replies);
    pthread_mutex_destroy(&actor->lock);
    qpc_free(actor);
}

// ---- the loop's side ----

qpc_status qpc_actor_post(qpc_actor *actor, qpc_request *request, qpc_error *err) {
    bool schedule = false, full = false;
    request->next = NULL;
    pthread_mutex_lock(&actor->lock);
    if (actor->waiting >= actor->env->mailbox_capacity && !actor->doomed) {
        full = true;
    } else {
        if (actor->last == NULL) {
            actor->first = request;
        } else {
            actor->last->next = request;
        }
        actor->last = request;
        actor->waiting++;
        schedule = !actor->scheduled;
        actor->scheduled = true;
    }
    pthread_mutex_unlock(&actor->lock);
    if (full) {
        return qpc_fail(err, QPC_ERR_BUSY,
                        "world %" PRIu64 " has %d requests waiting: --max-requests-queued is %d",
                        actor->id, actor->env->mailbox_capacity, actor->env->mailbox_capacity);
    }
    if (schedule) qpc_pool_push(actor->env->pool, &actor->task);
    return QPC_OK;
}

bool qpc_actor_cancel(qpc_actor *actor) {
    bool found = false;
    pthread_mutex_lock(&actor->lock);
    for (qpc_request *r = actor->first; r != NULL; r = r->next) {
        if (r->method != QPC_METHOD_WORLD_STEP) continue;
        atomic_store_explicit(&r->cancel, true, memory_order_relaxed);
        found = true;
    }
    pthread_mutex_unlock(&actor->lock);
    return found;
}

void qpc_actor_doom(qpc_actor *actor) {
    pthread_mutex_lock(&actor->lock);
    actor->doomed = true;
    pthread_mutex_unlock(&actor->lock);
    atomic_store(&actor->stopping, true);
}

qpc_snapshot *qpc_actor_snapshot(qpc_actor *actor) {
    pthread_mutex_lock(&actor->lock);
    qpc_snapshot *snapshot = qpc_snapshot_ref(actor->published);
    pthread_mutex_unlock(&actor->lock);
    return snapshot;
}

int32_t qpc_actor_take_frames(qpc_actor *actor, qpc_snapshot **frames, int32_t max,
                              uint64_t *ret_missed) {
    pthread_mutex_lock(&actor->lock);
    int32_t count = actor->ring_count < max ? actor->ring_count : max;
    for (int32_t i = 0; i < count; i++) {
        frames[i] = actor->ring[actor->ring_first];
        actor->ring_bytes -= qpc_snapshot_size(frames[i]);
        actor->ring_first = (actor->ring_first + 1) % FRAME_RING;
    }
    actor->ring_count -= count;
    *ret_missed = actor->ring_missed;
    actor->ring_missed = 0;
    pthread_mutex_unlock(&actor->lock);
    return count;
}

void qpc_actor_set_frames(qpc_actor *actor, int64_t every, uint32_t parts) {
    atomic_store(&actor->frames_parts, parts);
    atomic_store(&actor->frames_every, every);
}

qpc_actor_info qpc_actor_get_info(qpc_actor *actor) {
    qpc_actor_info info = {
        .id = actor->id,
        .name = actor->name,
        .run = actor->recorder != NULL ? qpc_recorder_run(actor->recorder) : NULL,
        .dt = actor->dt,
        .scene_hash = actor->scene_hash,
        .memory = atomic_load(&actor->memory),
        .layout = actor->layout,
        .scene = qpc_world_scene(actor->world),
    };
    pthread_mutex_lock(&actor->lock);
    info.step = actor->published->step;
    info.time = actor->published->time;
    info.busy = actor->first != NULL;
    pthread_mutex_unlock(&actor->lock);
    return info;
}

qpc_recorder *qpc_actor_recorder(const qpc_actor *actor) { return actor->recorder; }

uint64_t qpc_actor_id(const qpc_actor *actor) { return actor->id; }

qpc_actor_owner *qpc_actor_get_owner(qpc_actor *actor) { return &actor->owner; }

static void run_frames_post(qpc_post *post) {
    qpc_actor *actor = (qpc_actor *)(void *)((char *)post - offsetof(qpc_actor, frames_post));
    // Only here, where the post has left the list: frames are taken from other places too, and a post
    // that is sent twice would tie the list into a ring.
    pthread_mutex_lock(&actor->lock);
    actor->frames_posted = false;
    pthread_mutex_unlock(&actor->lock);
    actor->env->on_frames(actor->env->user, actor);
}

// ---- the worker's side: one step ----

static void offer_frame(qpc_actor *actor, qpc_snapshot *snapshot) {
    size_t size = qpc_snapshot_size(snapshot);
    bool post = false;
    qpc_snapshot *dropped[FRAME_RING];
    int32_t dropped_count = 0;
    pthread_mutex_lock(&actor->lock);
    while (actor->ring_count > 0 && (actor->ring_count == FRAME_RING ||
                                     actor->ring_bytes + size > (size_t)FRAME_RING_BYTES)) {
        qpc_snapshot *oldest = actor->ring[actor->ring_first];
        actor->ring_first = (actor->ring_first + 1) % FRAME_RING;
        actor->ring_count--;
        actor->ring_bytes -= qpc_snapshot_size(oldest);
        actor->ring_missed++;
        dropped[dropped_count++] = oldest;
    }
    actor->ring[(actor->ring_first + actor->ring_count) % FRAME_RING] = snapshot;
    actor->ring_count++;
    actor->ring_bytes += size;
    post = !actor->frames_posted;
    actor->frames_posted = true;
    pthread_mutex_unlock(&actor->lock);
    for (int32_t i = 0; i < dropped_count; i++) qpc_snapshot_unref(dropped[i]);
    if (post) qpc_bridge_send(actor->env->bridge, &actor->frames_post);
}

/// Frame for subscribers if this step is one of theirs.
static void serve_subscribers(qpc_actor *actor) {
    int64_t every = atomic_load_explicit(&actor->frames_every, memory_order_relaxed);
    if (every <= 0 || qpc_world_step_number(actor->world) % every != 0) return;
    uint32_t parts = atomic_load_explicit(&actor->frames_parts, memory_order_relaxed);
    qpc_snapshot *snapshot = NULL;
    if (qpc_snapshot_take(actor->world, actor->layout, &actor->report, parts, &snapshot, NULL) ==
        QPC_OK) {
        offer_frame(actor, snapshot);
    }
}

static qpc_status step_once(qpc_actor *actor, qpc_error *err) {
    qpc_status status = qpc_world_step(actor->world, &actor->report, err);
    if (status != QPC_OK) {
        qpc_count(actor->env->counters, steps_failed, 1);
        if (actor->recorder != NULL) {
            qpc_recorder_event(actor->recorder, qpc_world_step_number(actor->world), "step_failed",
                               err->message);
        }
        int64_t suppressed = 0;
        if (qpc_log_admit(&actor->failure_log, 1000, &suppressed)) {
            char quoted[400];
            qpc_log(QPC_LOG_WARN, "step_failed",
                    "world=%" PRIu64 " step=%" PRId64 " status=%s suppressed=%" PRId64 " msg=%s",
                    actor->id, qpc_world_step_number(actor->world) + 1, qpc_status_name(status),
                    suppressed, qpc_log_quote(err->message, quoted, sizeof quoted));
        }
        return status;
    }
    actor->stepped = true;
    qpc_count(actor->env->counters, steps, 1);
    if (actor->report.proven != 1) {
        int64_t suppressed = 0;
        qpc_count(actor->env->counters, steps_not_proven, 1);
        if (qpc_log_admit(&actor->proof_log, 1000, &suppressed)) {
            qpc_log(QPC_LOG_WARN, "step_not_proven",
                    "world=%" PRIu64 " step=%" PRId64 " uncertain=%" PRId64 " suppressed=%" PRId64,
                    actor->id, actor->report.step, actor->report.ccd_uncertain, suppressed);
        }
    }
    int64_t unsaid = 0;
    if (actor->report.conflicts > 0 && qpc_log_admit(&actor->conflict_log, 1000, &unsaid)) {
        char text[400], quoted[500];
        qpc_recordlist_conflict_text(actor->world, text, sizeof text);
        qpc_log(QPC_LOG_INFO, "rows_contradict",
                "world=%" PRIu64 " step=%" PRId64 " rows=%" PRId64 " suppressed=%" PRId64 " msg=%s", actor->id,
                actor->report.step, actor->report.conflicts, unsaid, qpc_log_quote(text, quoted, sizeof quoted));
    }
    char still[400], still_quoted[500];
    if (actor->report.failsafe > 0 && qpc_recordlist_still_text(actor->world, still, sizeof still) && qpc_log_admit(&actor->still_log, 10000, &unsaid))
        qpc_log(QPC_LOG_WARN, "body_stands", "world=%" PRIu64 " step=%" PRId64 " suppressed=%" PRId64 " msg=%s", actor->id,
                actor->report.step, unsaid, qpc_log_quote(still, still_quoted, sizeof still_quoted));
    if (actor->recorder != NULL) qpc_recorder_step(actor->recorder, actor->world, &actor->report);
    serve_subscribers(actor);
    return QPC_OK;
}

/// One event a body, so that readers of the run know from which step on its nodes mean nothing.
static void record_removals(qpc_actor *actor, int64_t step, const qpc_value *list) {
    for (int32_t i = 0; list != NULL && i < list->list.count; i++) {
        const qpc_value *item = &list->list.items[i];
        char name[QPC_NAME_SIZE];
        if (item->kind == QPC_INT) qpc_recorder_event(actor->recorder, step, "removed", qpc_world_body(actor->world, (int32_t)item->i).name);
        else if (qpc_read_text(item, "control.remove", name, sizeof name, NULL) == QPC_OK) qpc_recorder_event(actor->recorder, step, "removed", name);
    }
}

static qpc_status apply_control(qpc_actor *actor, const qpc_value *control, qpc_error *err) {
    int64_t step = qpc_world_step_number(actor->world);
    qpc_status status = qpc_world_control(actor->world, control, err);
    if (status == QPC_OK && actor->recorder != NULL) {
        qpc_recorder_command(actor->recorder, step, "world.control", control);
        record_removals(actor, step, qpc_map_get(control, "remove"));
    }
    return status;
}

// ---- the worker's side: requests ----

/// Checks and control before the first step. False: the reply is made already.
static bool begin_steps(qpc_actor *actor, qpc_request *request) {
    const qpc_step_params *p = &request->step;
    qpc_error error = {0};
    int64_t at = qpc_world_step_number(actor->world);
    if (p->key[0] != '\0') {
        qpc_status found = qpc_reply_cache_find(&actor->replies, p->key, p->n, request, &error);
        if (found == QPC_OK) return false;
        if (found != QPC_ERR_NOT_FOUND) {
            qpc_request_fail(request, &error, NULL);
            return false;
        }
    }
    if (p->expect_step >= 0 && p->expect_step != at) {
        qpc_fail_at(&error, QPC_ERR_STATE, "expect_step",
                    "the last finished step is %" PRId64 ", not %" PRId64, at, p->expect_step);
        qpc_pair pair = {qpc_text_borrow("step"), qpc_int(at)};
        qpc_value data = {.kind = QPC_MAP};
        data.map.pairs = &pair;
        data.map.count = data.map.capacity = 1;
        qpc_request_fail(request, &error, &data);
        return false;
    }
    if (atomic_load(&actor->stopping)) {
        qpc_fail(&error, QPC_ERR_CANCELLED, "world %" PRIu64 " is being destroyed", actor->id);
        qpc_request_fail(request, &error, NULL);
        return false;
    }
    const qpc_value *control = qpc_map_get(&request->params, "control");
    if (control != NULL && apply_control(actor, control, &error) != QPC_OK) {
        qpc_request_fail(request, &error, NULL);
        return false;
    }
    if (check_memory(actor, &error) != QPC_OK) {
        qpc_request_fail(request, &error, NULL);
        return false;
    }
    qpc_batch_begin(&actor->batch, p->n);
    return true;
}

/// Run steps until the batch ends (true) or the slice is over and others wait (false).
static bool run_steps(qpc_actor *actor, qpc_request *request, int64_t slice_end) {
    const qpc_actor_env *env = actor->env;
    qpc_batch *batch = &actor->batch;
    bool timed = request->step.deadline_ns > 0 || batch->n > 1;
    while (batch->done < batch->n) {
        if (atomic_load_explicit(&request->cancel, memory_order_relaxed) ||
            atomic_load_explicit(&actor->stopping, memory_order_relaxed)) {
            batch->status = QPC_BATCH_CANCELLED;
            return true;
        }
        if (atomic_load_explicit(env->draining, memory_order_relaxed)) {
            batch->status = QPC_BATCH_DRAINING;
            return true;
        }
        if (timed) {
            int64_t now = (int64_t)uv_hrtime();
            if (request->step.deadline_ns > 0 && now >= request->step.deadline_ns) {
                batch->status = QPC_BATCH_DEADLINE;
                return true;
            }
            if (now >= slice_end && qpc_pool_is_wanted(env->pool)) return false;
            if (now - actor->published_ns > env->publish_ns) {
                publish_now(actor);
                actor->published_ns = now;
            }
        }
        if (step_once(actor, &batch->error) != QPC_OK) {
            batch->status = QPC_BATCH_FAILED;
            return true;
        }
        qpc_batch_add(batch, &actor->report);
    }
    return true;
}

static void finish_steps(qpc_actor *actor, qpc_request *request) {
    qpc_batch *batch = &actor->batch;
    publish_now(actor);
    if (actor->published_step != qpc_world_step_number(actor->world)) {
        qpc_error error = {0};
        qpc_fail(&error, QPC_ERR_MEMORY, "out of memory for the state; %" PRId64 " steps were done",
                 batch->done);
        qpc_request_fail(request, &error, NULL);
        return;
    }
    if (batch->n > 1) account_memory(actor);
    const char *trouble =
        actor->recorder != NULL ? qpc_recorder_trouble(actor->recorder) : "";
    int64_t suppressed = 0;
    if (trouble[0] != '\0' && qpc_log_admit(&actor->trouble_log, 1000, &suppressed)) {
        char quoted[300];
        qpc_log(QPC_LOG_WARN, "recording_failed",
                "world=%" PRIu64 " run=%s dropped=%" PRIu64 " suppressed=%" PRId64 " msg=%s",
                actor->id, qpc_recorder_run(actor->recorder),
                qpc_recorder_dropped(actor->recorder), suppressed,
                qpc_log_quote(trouble, quoted, sizeof quoted));
    }
    qpc_batch_reply(batch, actor->published, actor->layout, &actor->report, actor->stepped, trouble,
                    request, actor->env->max_message,
                    request->step.key[0] != '\0' ? &actor->replies : NULL);
}

static void do_control(qpc_actor *actor, qpc_request *request) {
    qpc_error error = {0};
    const qpc_value *control = qpc_map_get(&request->params, "control");
    if (atomic_load(&actor->stopping)) {
        qpc_fail(&error, QPC_ERR_CANCELLED, "world %" PRIu64 " is being destroyed", actor->id);
        qpc_request_fail(request, &error, NULL);
        return;
    }
    if (apply_control(actor, control, &error) != QPC_OK) {
        qpc_request_fail(request, &error, NULL);
        return;
    }
    // A control may change the hash (what is pending belongs to the state): publish it.
    actor->published_step = -1;
    publish_now(actor);
    qpc_pair pairs[2] = {
        {qpc_text_borrow("step"), qpc_int(qpc_world_step_number(actor->world))},
        {qpc_text_borrow("accepted"), qpc_bool(true)},
    };
    qpc_value result = {.kind = QPC_MAP};
    result.map.pairs = pairs;
    result.map.count = result.map.capacity = 2;
    qpc_request_succeed(request, &result, actor->env->max_message);
}

/// The world goes: run closed, memory returned. The rest of the actor goes on the loop.
static void do_destroy(qpc_actor *actor, qpc_request *request) {
    int64_t steps = qpc_world_step_number(actor->world);
    qpc_error recording = {0};
    if (actor->recorder != NULL) {
        qpc_recorder_event(actor->recorder, steps, "destroyed", "by world.destroy");
        qpc_recorder_flush(actor->recorder, &recording); // who reads the run file after the answer finds it all
        qpc_recorder_unref_and_wait(actor->recorder); // and that it is closed
        actor->recorder = NULL;
    }
    qpc_world_destroy(actor->world);
    actor->world = NULL;
    int64_t memory = atomic_exchange(&actor->memory, 0);
    atomic_fetch_sub(actor->env->worlds_memory, memory);
    qpc_pair pairs[3] = {
        {qpc_text_borrow("destroyed"), qpc_bool(true)},
        {qpc_text_borrow("steps"), qpc_int(steps)},
        {qpc_text_borrow("recording"), qpc_text_borrow(recording.message)},
    };
    qpc_value result = {.kind = QPC_MAP};
    result.map.pairs = pairs;
    result.map.count = result.map.capacity = recording.status != QPC_OK ? 3 : 2;
    qpc_request_succeed(request, &result, actor->env->max_message);
}

/// False: not done yet, the slice is over.
static bool execute(qpc_actor *actor, qpc_request *request, int64_t slice_end) {
    switch (request->method) {
    case QPC_METHOD_WORLD_STEP:
        if (!actor->batch_begun) {
            if (!begin_steps(actor, request)) return true;
            actor->batch_begun = true;
        }
        if (!run_steps(actor, request, slice_end)) return false;
        actor->batch_begun = false;
        finish_steps(actor, request);
        return true;
    case QPC_METHOD_WORLD_CONTROL: do_control(actor, request); return true;
    case QPC_METHOD_WORLD_DESTROY: do_destroy(actor, request); return true;
    default: {
        qpc_error error = {0};
        qpc_fail(&error, QPC_ERR_INTERNAL, "a world does not serve this method");
        qpc_request_fail(request, &error, NULL);
        return true;
    }
    }
}

static void actor_run(qpc_task *task) {
    qpc_actor *actor = (qpc_actor *)(void *)((char *)task - offsetof(qpc_actor, task));
    const qpc_actor_env *env = actor->env;
    int64_t begin = (int64_t)uv_hrtime(), slice_end = begin + env->slice_ns;
    pthread_mutex_lock(&actor->lock);
    qpc_request *request = actor->first;
    pthread_mutex_unlock(&actor->lock);
    while (request != NULL) {
        bool last = request->method == QPC_METHOD_WORLD_DESTROY;
        if (!execute(actor, request, slice_end)) break; // more to do after the others
        int64_t now = (int64_t)uv_hrtime();
        request->work_ns = now - begin;
        begin = now;
        // Take it out of the mailbox and look at the next one; then its reply may go.
        pthread_mutex_lock(&actor->lock);
        qpc_request *next = request->next;
        actor->first = next;
        if (next == NULL) actor->last = NULL;
        actor->waiting--;
        bool give_way = next != NULL && now >= slice_end && qpc_pool_is_wanted(env->pool);
        if (next == NULL) actor->scheduled = false;
        pthread_mutex_unlock(&actor->lock);
        // With an empty mailbox another worker may be in the actor from here on, and after a destroy
        // the loop may free it: touch nothing of it any more.
        qpc_bridge_send(env->bridge, &request->post);
        if (last || next == NULL) return;
        request = next;
        if (give_way) break;
    }
    if (request != NULL) qpc_pool_push(env->pool, &actor->task);
}
