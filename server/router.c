/// Dispatch. See router.h. Loop thread.
#include "server/router.h"

#include "base/log.h"
#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

enum { GARBAGE_MAX = 3 };

typedef struct route {
    qpc_handler handler;
    bool starts_work; // refused while the server drains
} route;

static const route routes[QPC_METHOD_COUNT] = {
    [QPC_METHOD_HELLO] = {qpc_handle_hello, false},
    [QPC_METHOD_RPC_DESCRIBE] = {qpc_handle_rpc_describe, false},
    [QPC_METHOD_MESH_UPLOAD] = {qpc_handle_mesh_upload, true},
    [QPC_METHOD_MESH_LIST] = {qpc_handle_mesh_list, false},
    [QPC_METHOD_MESH_GET] = {qpc_handle_mesh_get, true},
    [QPC_METHOD_MESH_DELETE] = {qpc_handle_mesh_delete, true},
    [QPC_METHOD_MESH_CHECK] = {qpc_handle_mesh_check, true},
    [QPC_METHOD_SCENE_CHECK] = {qpc_handle_scene_check, true},
    [QPC_METHOD_WORLD_CREATE] = {qpc_handle_world_create, true},
    [QPC_METHOD_WORLD_LIST] = {qpc_handle_world_list, false},
    [QPC_METHOD_WORLD_DESCRIBE] = {qpc_handle_world_describe, false},
    [QPC_METHOD_WORLD_DESTROY] = {qpc_handle_world_destroy, true},
    [QPC_METHOD_WORLD_STEP] = {qpc_handle_world_step, true},
    [QPC_METHOD_WORLD_STATE] = {qpc_handle_world_state, false},
    [QPC_METHOD_WORLD_CONTROL] = {qpc_handle_world_control, true},
    [QPC_METHOD_WORLD_CANCEL] = {qpc_handle_world_cancel, false},
    [QPC_METHOD_WORLD_SUBSCRIBE] = {qpc_handle_world_subscribe, true},
    [QPC_METHOD_WORLD_CREDIT] = {qpc_handle_world_credit, false},
    [QPC_METHOD_WORLD_UNSUBSCRIBE] = {qpc_handle_world_unsubscribe, false},
    [QPC_METHOD_RUN_LIST] = {qpc_handle_run_list, true},
    [QPC_METHOD_RUN_DESCRIBE] = {qpc_handle_run_describe, true},
    [QPC_METHOD_RUN_FRAMES] = {qpc_handle_run_frames, true},
    [QPC_METHOD_RUN_DIAGNOSTICS] = {qpc_handle_run_diagnostics, true},
    [QPC_METHOD_RUN_DETAILS] = {qpc_handle_run_details, true},
    [QPC_METHOD_RUN_EVENTS] = {qpc_handle_run_events, true},
    [QPC_METHOD_SERVER_STATS] = {qpc_handle_server_stats, false},
    [QPC_METHOD_SERVER_DRAIN] = {qpc_handle_server_drain, false},
};

// ---- replies at once ----

static void reply_error(qpc_session *session, uint32_t id, const qpc_error *error,
                        const qpc_value *data) {
    qpc_count(&session->server->counters, errors, 1);
    if (qpc_rpc_error(id, error, data, qpc_session_output(session)) != QPC_OK) {
        qpc_session_close(session); // no memory even for that
        return;
    }
    qpc_session_sent(session);
}

static void reply_result(qpc_session *session, uint32_t id, const qpc_value *result) {
    qpc_server *server = session->server;
    qpc_buffer *out = qpc_session_output(session);
    size_t before = out->size;
    qpc_error error = {0};
    qpc_status status = qpc_rpc_result(id, result, session->bin_keys, out, &error);
    size_t limit = (size_t)server->options.max_message_bytes;
    if (status == QPC_OK && out->size - before > limit) {
        status = qpc_fail(&error, QPC_ERR_LIMIT,
                          "the reply has %zu bytes: --max-message-bytes is %zu; ask for less",
                          out->size - before, limit);
        out->size = before;
    }
    if (status != QPC_OK) {
        reply_error(session, id, &error, NULL);
    } else {
        qpc_session_sent(session);
    }
}

void qpc_call_reply(qpc_call *call, const qpc_value *result) {
    reply_result(call->session, call->id, result);
    call->deferred = true;
}

// ---- requests that leave the loop ----

static void on_reply(qpc_post *post) {
    qpc_request *request = (qpc_request *)(void *)((char *)post - offsetof(qpc_request, post));
    qpc_server *server = request->server;
    qpc_server_touch(server);
    server->work_ns += (request->work_ns - server->work_ns) / 8;
    if (request->done != NULL) request->done(request);
    qpc_session_complete(request->session, request);
}

qpc_status qpc_call_defer(qpc_call *call, bool keep_params, qpc_request **ret, qpc_error *err) {
    qpc_session *session = call->session;
    qpc_server *server = call->server;
    if (session->in_flight >= server->options.max_requests_queued) {
        return qpc_fail(err, QPC_ERR_BUSY,
                        "%d requests of this session wait for their reply: --max-requests-queued "
                        "is %" PRId64,
                        session->in_flight, server->options.max_requests_queued);
    }
    size_t charged = sizeof(qpc_request) + (keep_params ? call->cost : 0);
    qpc_status status = qpc_session_charge(session, charged, err);
    if (status != QPC_OK) return status;
    qpc_request *request = qpc_request_create(call->method);
    if (request == NULL) {
        qpc_session_discharge(session, charged);
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a request");
    }
    request->server = server;
    request->session = session;
    request->id = call->id;
    request->wants_reply = call->is_request;
    request->bin_keys = session->bin_keys;
    request->charged = charged;
    request->post.run = on_reply;
    if (keep_params && call->bytes != NULL && *call->bytes != NULL) {
        request->bytes = *call->bytes;
        request->size = call->size;
        *call->bytes = NULL;
        request->message = *call->message;
        memset(call->message, 0, sizeof *call->message);
        request->params = request->message.params;
        request->params_in_message = true;
        call->params = &request->params;
    } else if (keep_params) {
        status = qpc_value_copy(call->params, &request->params);
        if (status != QPC_OK) {
            qpc_session_discharge(session, charged);
            qpc_request_destroy(request);
            return qpc_fail(err, status, "out of memory for a request");
        }
    }
    session->in_flight++;
    server->in_flight++;
    call->deferred = true;
    *ret = request;
    return QPC_OK;
}

void qpc_call_undo(qpc_call *call, qpc_request *request) {
    call->session->in_flight--;
    call->server->in_flight--;
    qpc_session_discharge(call->session, request->charged);
    call->deferred = false;
    qpc_request_destroy(request);
}

static void run_job(qpc_task *task) {
    qpc_request *request = (qpc_request *)(void *)((char *)task - offsetof(qpc_request, task));
    int64_t begin = (int64_t)uv_hrtime();
    request->work(request);
    request->work_ns = (int64_t)uv_hrtime() - begin;
    qpc_bridge_send(&request->server->bridge, &request->post);
}

void qpc_call_run(qpc_call *call, qpc_request *request, void (*work)(qpc_request *request),
                  void (*done)(qpc_request *request)) {
    request->work = work;
    request->done = done;
    request->task.run = run_job;
    qpc_pool_push(call->server->pool, &request->task);
}

qpc_status qpc_call_world(qpc_call *call, bool change, qpc_actor **ret, qpc_error *err) {
    uint64_t id = 0;
    qpc_status status = qpc_read_uint(qpc_map_get(call->params, "world"), "world", &id, err);
    if (status == QPC_OK) status = qpc_worlds_find(&call->server->worlds, id, ret, err);
    if (status != QPC_OK) return status;
    qpc_actor_owner *owner = qpc_actor_get_owner(*ret);
    owner->used_ns = call->server->active_ns;
    if (change && owner->exclusive != NULL && owner->exclusive != call->session) {
        return qpc_fail_at(err, QPC_ERR_STATE, "world",
                           "session %" PRIu64 " holds world %" PRIu64 " exclusively",
                           owner->exclusive->id, id);
    }
    return QPC_OK;
}

// ---- dispatch ----

/// Not MessagePack-RPC, or an envelope with wrong params: an error reply if it has an id.
static void handle_malformed(qpc_session *session, const qpc_rpc_message *message,
                             const qpc_error *error) {
    qpc_count(&session->server->counters, malformed, 1);
    if (message->type == QPC_RPC_NOTIFICATION) {
        // Never answered; who goes on like that is cut off.
        if (++session->garbage >= GARBAGE_MAX) qpc_session_finish(session);
        return;
    }
    if (!message->has_id) {
        qpc_session_reject(session, error);
        return;
    }
    reply_error(session, message->id, error, NULL);
    if (error->status == QPC_ERR_MALFORMED && ++session->garbage >= GARBAGE_MAX) {
        session->abandon = true;
        qpc_session_finish(session);
    }
}

static qpc_status check_call(qpc_call *call, qpc_error *err) {
    const qpc_server *server = call->server;
    if (!call->session->authorised && call->method != QPC_METHOD_HELLO) {
        return qpc_fail(err, QPC_ERR_UNAUTHORISED,
                        "call hello with the token of this server first");
    }
    if (atomic_load_explicit(&server->draining, memory_order_relaxed) &&
        routes[call->method].starts_work) {
        return qpc_fail(err, QPC_ERR_STATE, "the server is draining: it takes no more work");
    }
    return qpc_method_check_params(call->method, call->params, err);
}

static void handle_call(qpc_call *call) {
    qpc_error error;
    error.where[0] = error.message[0] = '\0';
    error.status = QPC_OK;
    qpc_value result = qpc_nil(), data = qpc_nil();
    qpc_status status = check_call(call, &error);
    if (status == QPC_OK) status = routes[call->method].handler(call, &result, &data, &error);
    if (!call->deferred && call->is_request) {
        if (status != QPC_OK) {
            reply_error(call->session, call->id, &error, data.kind == QPC_MAP ? &data : NULL);
        } else {
            reply_result(call->session, call->id, &result);
        }
    } else if (status != QPC_OK) {
        qpc_count(&call->server->counters, errors, 1);
    }
    qpc_value_fini(&result);
    qpc_value_fini(&data);
}

void qpc_router_dispatch(qpc_session *session, qpc_rpc_message *message, qpc_status parsed,
                         const qpc_error *parse_error, uint8_t **bytes, size_t size,
                         size_t cost) {
    qpc_server *server = session->server;
    qpc_count(&server->counters, requests, 1);
    if (parsed != QPC_OK) {
        handle_malformed(session, message, parse_error);
        return;
    }
    if (message->type == QPC_RPC_RESPONSE) {
        qpc_error error = {0};
        qpc_fail(&error, QPC_ERR_MALFORMED, "a response to nothing: this server asks for nothing");
        qpc_count(&server->counters, malformed, 1);
        qpc_session_reject(session, &error);
        return;
    }
    qpc_call call = {
        .server = server,
        .session = session,
        .id = message->id,
        .is_request = message->type == QPC_RPC_REQUEST,
        .params = &message->params,
        .message = message,
        .bytes = bytes,
        .size = size,
        .cost = cost,
    };
    qpc_error error;
    if (qpc_method_resolve(message->method, message->method_known_text, &call.method, &error) !=
        QPC_OK) {
        if (call.is_request) reply_error(session, call.id, &error, NULL);
        return;
    }
    if (!call.is_request && !qpc_method_get(call.method)->notification) return;
    handle_call(&call);
}

void qpc_router_handle(qpc_session *session, const uint8_t *at, size_t size, size_t cost) {
    qpc_rpc_message message;
    qpc_error error;
    qpc_status status = qpc_rpc_parse(at, size, &message, &error);
    qpc_router_dispatch(session, &message, status, &error, NULL, size, cost);
    qpc_rpc_message_fini(&message);
}
