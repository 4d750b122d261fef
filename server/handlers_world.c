/// world.create, list, describe, destroy, step, state, control, cancel.
///
/// Making a world is a job; steps, controls and the end of a world go through its mailbox; the rest
/// is answered on the loop from the published snapshot.
#include "server/router.h"

#include "base/log.h"
#include "base/mem.h"
#include "server/builder.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void put_run(qpc_value *map, qpc_status *status, const char *run) {
    if (run != NULL) {
        qpc_put_text(map, status, "run", run);
    } else {
        qpc_put(map, status, "run", qpc_nil());
    }
}

static void put_bodies(qpc_value *map, qpc_status *status, const qpc_layout *layout) {
    qpc_value bodies = qpc_nil();
    if (*status == QPC_OK) *status = qpc_layout_to_value(layout, &bodies);
    qpc_put(map, status, "bodies", bodies);
}

// ---- world.create ----

typedef struct creation {
    char name[QPC_NAME_SIZE];
    bool dry_run, exclusive;
    double idle_limit_s;
    qpc_actor *actor; // once made, until the table has it
} creation;

static qpc_value pair_value(const qpc_scene_pair *pair, qpc_status *status) {
    qpc_value map = qpc_map(), bodies = qpc_list(), features = qpc_list();
    for (int k = 0; k < 2; k++) {
        qpc_add(&bodies, status, qpc_int(pair->body[k]));
        qpc_add(&features, status, qpc_int(pair->feature[k]));
    }
    qpc_put(&map, status, "bodies", bodies);
    qpc_put(&map, status, "features", features);
    qpc_put(&map, status, "depth", isfinite(pair->depth) ? qpc_real(pair->depth) : qpc_nil());
    return map;
}

static void put_scene_report(qpc_value *map, qpc_status *status, const qpc_scene_report *report) {
    qpc_value pairs = qpc_list(), warnings = qpc_list();
    for (int32_t i = 0; i < report->pair_count && i < QPC_SCENE_PAIRS_MAX; i++) {
        qpc_value pair = pair_value(&report->pair[i], status);
        qpc_add(&pairs, status, pair);
    }
    for (int32_t i = 0; i < report->warning_count && i < 8; i++) {
        qpc_value text = qpc_nil();
        if (*status == QPC_OK) *status = qpc_text_copy(report->warning[i], &text);
        qpc_add(&warnings, status, text);
    }
    qpc_put(map, status, "warnings", warnings);
    qpc_put(map, status, "close_pairs", pairs);
    qpc_put(map, status, "overlap_count", qpc_int(report->overlap_count));
    qpc_put(map, status, "close_count", qpc_int(report->close_count));
    qpc_put(map, status, "moved_nodes", qpc_int(report->moved_count));
    qpc_put(map, status, "largest_move", qpc_real(report->largest_move));
}

/// An overlap names its first pairs; everything else its place in the scene.
static void fail_creation(qpc_request *request, const qpc_error *error,
                          const qpc_scene_report *report) {
    if (report->overlap_count + report->stuck_count == 0) {
        qpc_request_fail(request, error, NULL);
        return;
    }
    qpc_value data = qpc_map();
    qpc_status status = QPC_OK;
    qpc_put_text(&data, &status, "where", error->where);
    qpc_put(&data, &status, "stuck_count", qpc_int(report->stuck_count));
    put_scene_report(&data, &status, report);
    qpc_request_fail(request, error, status == QPC_OK ? &data : NULL);
    qpc_value_fini(&data);
}

/// Worker: build the world, open its run.
static void create_world(qpc_request *request) {
    creation *c = request->object;
    qpc_server *server = request->server;
    qpc_error error = {0};
    qpc_scene_report report;
    qpc_actor *actor = NULL;
    const qpc_value *scene = qpc_map_get(&request->params, "scene");
    qpc_status status = qpc_actor_create(&server->actor_env, scene, c->name, c->dry_run, &actor,
                                         &report, &error);
    if (status != QPC_OK) {
        fail_creation(request, &error, &report);
        return;
    }
    qpc_actor_info info = qpc_actor_get_info(actor);
    qpc_snapshot *snapshot = qpc_actor_snapshot(actor);
    qpc_value map = qpc_map();
    if (!c->dry_run) {
        qpc_put(&map, &status, "world", qpc_uint(info.id));
        put_run(&map, &status, info.run);
    }
    qpc_put(&map, &status, "hash", qpc_uint(snapshot->hash));
    qpc_put(&map, &status, "scene_hash", qpc_uint(info.scene_hash));
    qpc_put(&map, &status, "dt", qpc_real(info.dt));
    put_bodies(&map, &status, info.layout);
    put_scene_report(&map, &status, &report);
    if (status != QPC_OK) {
        qpc_fail(&error, status, "out of memory for a reply");
        qpc_request_fail(request, &error, NULL);
    } else {
        qpc_request_succeed(request, &map, (size_t)server->options.max_message_bytes);
    }
    qpc_value_fini(&map);
    qpc_snapshot_unref(snapshot);
    if (c->dry_run || request->failed) {
        qpc_actor_free(actor);
    } else {
        c->actor = actor;
    }
}

/// Loop: into the table; unless nobody is left to learn its id.
static void world_created(qpc_request *request) {
    creation *c = request->object;
    qpc_server *server = request->server;
    qpc_actor *actor = c->actor;
    c->actor = NULL;
    qpc_worlds_settle(&server->worlds, actor);
    if (actor == NULL) return;
    qpc_actor_info info = qpc_actor_get_info(actor);
    qpc_actor_owner *owner = qpc_actor_get_owner(actor);
    owner->used_ns = server->active_ns;
    owner->idle_limit_ns = (int64_t)(c->idle_limit_s * 1e9);
    if (c->exclusive) owner->exclusive = request->session;
    char quoted[200];
    qpc_count(&server->counters, worlds_created, 1);
    qpc_log(QPC_LOG_INFO, "world_created",
            "world=%" PRIu64 " session=%" PRIu64 " bodies=%d nodes=%d run=%s name=%s", info.id,
            request->session->id, info.layout->body_count, info.layout->engine_node_count,
            info.run != NULL ? info.run : "-", qpc_log_quote(info.name, quoted, sizeof quoted));
    if (request->session->state == QPC_SESSION_CLOSED) {
        qpc_world_discard(server, actor, "its client has gone");
    }
}

QPC_HANDLER(qpc_handle_world_create) {
    (void)ret;
    (void)ret_data;
    qpc_server *server = call->server;
    const qpc_value *v;
    creation *c = qpc_calloc(1, sizeof *c);
    if (c == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a world");
    if ((v = qpc_map_get(call->params, "name")) != NULL) {
        size_t size = v->str.size < sizeof c->name - 1 ? v->str.size : sizeof c->name - 1;
        memcpy(c->name, v->str.bytes, size);
    }
    if ((v = qpc_map_get(call->params, "dry_run")) != NULL) c->dry_run = v->b;
    if ((v = qpc_map_get(call->params, "exclusive")) != NULL) c->exclusive = v->b;
    qpc_status status = QPC_OK;
    if ((v = qpc_map_get(call->params, "idle_limit_s")) != NULL) {
        status = qpc_read_real(v, "idle_limit_s", 0, 1e9, &c->idle_limit_s, err);
    }
    if (status == QPC_OK) status = qpc_worlds_reserve(&server->worlds, err);
    if (status != QPC_OK) {
        qpc_free(c);
        return status;
    }
    qpc_request *request = NULL;
    status = qpc_call_defer(call, true, &request, err);
    if (status != QPC_OK) {
        qpc_worlds_settle(&server->worlds, NULL);
        qpc_free(c);
        return status;
    }
    request->object = c;
    request->free_object = qpc_free;
    qpc_call_run(call, request, create_world, world_created);
    return QPC_OK;
}

// ---- the end of a world ----

static void world_destroyed(qpc_post *post) {
    qpc_request *request = (qpc_request *)(void *)((char *)post - offsetof(qpc_request, post));
    qpc_actor *actor = request->object;
    qpc_server *server = request->server;
    request->object = NULL;
    qpc_log(QPC_LOG_INFO, "world_destroyed", "world=%" PRIu64, qpc_actor_id(actor));
    qpc_actor_free(actor);
    if (request->session != NULL) {
        qpc_session_complete(request->session, request);
    } else {
        server->in_flight--;
        qpc_request_destroy(request);
    }
}

/// No more requests for it: out of the table, subscriptions ended, and the last request posted.
static void end_world(qpc_server *server, qpc_actor *actor, qpc_request *request) {
    request->object = actor;
    request->post.run = world_destroyed;
    qpc_stream_end_world(actor);
    qpc_worlds_remove(&server->worlds, actor);
    qpc_actor_doom(actor);
    qpc_status status = qpc_actor_post(actor, request, NULL);
    QPC_ASSERT(status == QPC_OK); // a doomed mailbox admits it
    (void)status;
}

void qpc_world_discard(qpc_server *server, qpc_actor *actor, const char *reason) {
    qpc_request *request = qpc_request_create(QPC_METHOD_WORLD_DESTROY);
    if (request == NULL) return; // the next tick tries again
    request->server = server;
    request->wants_reply = false;
    server->in_flight++;
    qpc_log(QPC_LOG_INFO, "world_discarded", "world=%" PRIu64 " reason=\"%s\"",
            qpc_actor_id(actor), reason);
    end_world(server, actor, request);
}

QPC_HANDLER(qpc_handle_world_destroy) {
    (void)ret;
    (void)ret_data;
    qpc_actor *actor = NULL;
    qpc_request *request = NULL;
    qpc_status status = qpc_call_world(call, true, &actor, err);
    if (status == QPC_OK) status = qpc_call_defer(call, false, &request, err);
    if (status == QPC_OK) end_world(call->server, actor, request);
    return status;
}

// ---- steps and controls ----

static bool flag(const qpc_value *params, const char *key) {
    const qpc_value *v = qpc_map_get(params, key);
    return v != NULL && v->kind == QPC_BOOL && v->b;
}

static qpc_status read_step_params(const qpc_call *call, qpc_step_params *ret, qpc_error *err) {
    const qpc_value *params = call->params, *v;
    qpc_status status = QPC_OK;
    // Types and ranges are the method table's; here the values are only taken.
    ret->n = 1;
    ret->expect_step = -1;
    if ((v = qpc_map_get(params, "n")) != NULL) {
        status = qpc_read_int(v, "n", 1, 1000000000, &ret->n, err);
    }
    if (status == QPC_OK && (v = qpc_map_get(params, "expect_step")) != NULL) {
        status = qpc_read_int(v, "expect_step", 0, INT64_MAX, &ret->expect_step, err);
    }
    if (status == QPC_OK && (v = qpc_map_get(params, "key")) != NULL) {
        status = qpc_read_text(v, "key", ret->key, sizeof ret->key, err);
    }
    if (status == QPC_OK && (v = qpc_map_get(params, "deadline_ms")) != NULL) {
        int64_t ms = 0;
        status = qpc_read_int(v, "deadline_ms", 1, 86400000, &ms, err);
        ret->deadline_ns = (int64_t)uv_hrtime() + ms * 1000000;
    }
    if (status == QPC_OK) {
        status = qpc_single_from_value(qpc_map_get(params, "precision"), "precision",
                                       &ret->single, err);
    }
    ret->positions = flag(params, "positions");
    ret->velocities = flag(params, "velocities");
    ret->contacts = flag(params, "contacts");
    return status;
}

static qpc_status post_to_world(qpc_call *call, qpc_actor *actor, qpc_request *request,
                                qpc_error *err) {
    qpc_status status = qpc_actor_post(actor, request, err);
    if (status != QPC_OK) qpc_call_undo(call, request);
    return status;
}

QPC_HANDLER(qpc_handle_world_step) {
    (void)ret;
    (void)ret_data;
    qpc_actor *actor = NULL;
    qpc_request *request = NULL;
    qpc_step_params step = {0};
    qpc_status status = qpc_call_world(call, true, &actor, err);
    if (status == QPC_OK) status = read_step_params(call, &step, err);
    if (status == QPC_OK) {
        bool control = qpc_map_get(call->params, "control") != NULL;
        status = qpc_call_defer(call, control, &request, err);
    }
    if (status != QPC_OK) return status;
    request->step = step;
    return post_to_world(call, actor, request, err);
}

QPC_HANDLER(qpc_handle_world_control) {
    (void)ret;
    (void)ret_data;
    qpc_actor *actor = NULL;
    qpc_request *request = NULL;
    qpc_status status = qpc_call_world(call, true, &actor, err);
    if (status == QPC_OK) status = qpc_call_defer(call, true, &request, err);
    if (status != QPC_OK) return status;
    return post_to_world(call, actor, request, err);
}

QPC_HANDLER(qpc_handle_world_cancel) {
    (void)ret_data;
    qpc_actor *actor = NULL;
    qpc_status status = qpc_call_world(call, true, &actor, err);
    if (status != QPC_OK) return status;
    bool cancelled = qpc_actor_cancel(actor);
    qpc_value map = qpc_map();
    qpc_put(&map, &status, "cancelled", qpc_bool(cancelled));
    return qpc_finish(&map, status, ret, err);
}

// ---- reading ----

QPC_HANDLER(qpc_handle_world_list) {
    (void)ret_data;
    qpc_server *server = call->server;
    qpc_value list = qpc_list();
    qpc_status status = QPC_OK;
    for (int32_t i = 0; i < server->worlds.actors.count && status == QPC_OK; i++) {
        qpc_actor_info info = qpc_actor_get_info(server->worlds.actors.data[i]);
        const qpc_actor_owner *owner = qpc_actor_get_owner(server->worlds.actors.data[i]);
        qpc_value map = qpc_map();
        qpc_put(&map, &status, "world", qpc_uint(info.id));
        qpc_put_text(&map, &status, "name", info.name);
        qpc_put(&map, &status, "step", qpc_int(info.step));
        qpc_put(&map, &status, "time", qpc_real(info.time));
        qpc_put(&map, &status, "nodes", qpc_int(info.layout->engine_node_count));
        put_run(&map, &status, info.run);
        qpc_put(&map, &status, "busy", qpc_bool(info.busy));
        qpc_put(&map, &status, "exclusive", qpc_bool(owner->exclusive != NULL));
        qpc_put(&map, &status, "owner",
                owner->exclusive != NULL ? qpc_uint(owner->exclusive->id) : qpc_nil());
        qpc_put(&map, &status, "idle_s",
                qpc_real(1e-9 * (double)(server->active_ns - owner->used_ns)));
        qpc_add(&list, &status, map);
    }
    qpc_value map = qpc_map();
    qpc_put(&map, &status, "worlds", list);
    return qpc_finish(&map, status, ret, err);
}

static void put_removed(qpc_value *map, qpc_status *status, const qpc_snapshot *snapshot) {
    qpc_value list = qpc_list();
    for (int32_t i = 0; i < snapshot->body_count; i++) {
        if (snapshot->removed[i] < 0) continue;
        qpc_value one = qpc_map();
        qpc_put(&one, status, "body", qpc_int(i));
        qpc_put(&one, status, "step", qpc_int(snapshot->removed[i]));
        qpc_add(&list, status, one);
    }
    qpc_put(map, status, "removed", list);
}

QPC_HANDLER(qpc_handle_world_describe) {
    (void)ret_data;
    qpc_actor *actor = NULL;
    qpc_status status = qpc_call_world(call, false, &actor, err);
    if (status != QPC_OK) return status;
    qpc_actor_info info = qpc_actor_get_info(actor);
    qpc_snapshot *snapshot = qpc_actor_snapshot(actor);
    qpc_value map = qpc_map(), scene = qpc_nil();
    status = qpc_value_copy(info.scene, &scene);
    qpc_put(&map, &status, "scene", scene);
    qpc_put_text(&map, &status, "name", info.name);
    put_bodies(&map, &status, info.layout);
    put_removed(&map, &status, snapshot);
    qpc_put(&map, &status, "step", qpc_int(snapshot->step));
    qpc_put(&map, &status, "time", qpc_real(snapshot->time));
    qpc_put(&map, &status, "dt", qpc_real(info.dt));
    qpc_put(&map, &status, "hash", qpc_uint(snapshot->hash));
    qpc_put(&map, &status, "scene_hash", qpc_uint(info.scene_hash));
    put_run(&map, &status, info.run);
    qpc_put(&map, &status, "memory_bytes", qpc_int(info.memory));
    qpc_snapshot_unref(snapshot);
    return qpc_finish(&map, status, ret, err);
}

/// The result borrows arrays from the snapshot, so it is encoded here, before the reference goes.
QPC_HANDLER(qpc_handle_world_state) {
    (void)ret;
    (void)ret_data;
    qpc_actor *actor = NULL;
    uint32_t parts = 0;
    bool single = false;
    int32_t body = -1;
    qpc_status status = qpc_call_world(call, false, &actor, err);
    if (status == QPC_OK) {
        status = qpc_parts_from_value(qpc_map_get(call->params, "fields"), "fields",
                                      QPC_PART_POSITIONS, &parts, err);
    }
    if (status == QPC_OK) {
        status = qpc_single_from_value(qpc_map_get(call->params, "precision"), "precision",
                                       &single, err);
    }
    if (status != QPC_OK) return status;
    const qpc_layout *layout = qpc_actor_get_info(actor).layout;
    const qpc_value *which = qpc_map_get(call->params, "body");
    if (which != NULL) {
        status = qpc_layout_find_body(layout, which, "body", &body, err);
        if (status != QPC_OK) return status;
    }
    qpc_snapshot *snapshot = qpc_actor_snapshot(actor);
    qpc_value map = qpc_map();
    qpc_put(&map, &status, "step", qpc_int(snapshot->step));
    qpc_put(&map, &status, "time", qpc_real(snapshot->time));
    qpc_put(&map, &status, "hash", qpc_uint(snapshot->hash));
    if (status == QPC_OK) {
        status = qpc_snapshot_to_map(snapshot, layout, parts, single, body, &map);
    }
    if (status == QPC_OK && call->is_request) {
        qpc_call_reply(call, &map);
    } else if (status != QPC_OK) {
        qpc_fail(err, status, "out of memory for a reply");
    }
    qpc_value_fini(&map);
    qpc_snapshot_unref(snapshot);
    return status;
}
