/// hello, rpc.describe, server.stats, server.drain. Loop thread.
#include "server/router.h"

#include "base/hash.h"
#include "base/log.h"
#include "server/builder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PROTOCOL_VERSION = 1, TOKEN_TRIES = 3 };

// ---- hello ----

/// Compares in a time that depends on nothing secret: both texts are spread over one fixed size.
static bool token_is_right(const qpc_options *options, const qpc_value *token) {
    char given[QPC_TOKEN_SIZE] = {0}, known[QPC_TOKEN_SIZE] = {0};
    if (token == NULL || token->kind != QPC_STR || token->str.size >= sizeof given) return false;
    memcpy(given, token->str.bytes, token->str.size);
    memcpy(known, options->token, (size_t)options->token_size);
    return qpc_equal_constant_time(given, known, sizeof given);
}

static qpc_status limits_value(const qpc_server *server, qpc_value *ret, qpc_error *err) {
    const qpc_options *o = &server->options;
    qpc_value map = qpc_map();
    qpc_status status = QPC_OK;
    qpc_put(&map, &status, "max_message_bytes", qpc_int(o->max_message_bytes));
    qpc_put(&map, &status, "max_depth", qpc_int(o->max_depth));
    qpc_put(&map, &status, "max_items", qpc_int(o->max_items));
    qpc_put(&map, &status, "max_text_bytes",
            qpc_uint(qpc_scan_limits_default().max_key));
    qpc_put(&map, &status, "max_requests_queued", qpc_int(o->max_requests_queued));
    qpc_put(&map, &status, "max_queued_bytes", qpc_int(o->max_queued_bytes));
    qpc_put(&map, &status, "max_session_bytes", qpc_int(o->max_session_bytes));
    qpc_put(&map, &status, "max_vertices", qpc_int(o->max_vertices));
    qpc_put(&map, &status, "max_elements", qpc_int(o->max_elements));
    qpc_put(&map, &status, "max_meshes", qpc_int(o->max_meshes));
    qpc_put(&map, &status, "max_mesh_bytes", qpc_int(o->max_mesh_bytes));
    qpc_put(&map, &status, "max_worlds", qpc_int(o->max_worlds));
    qpc_put(&map, &status, "max_nodes", qpc_int(o->max_nodes));
    qpc_put(&map, &status, "max_world_memory", qpc_int(o->max_world_memory));
    qpc_put(&map, &status, "max_uploads", qpc_int(QPC_UPLOADS_MAX));
    qpc_put(&map, &status, "max_subscriptions", qpc_int(QPC_SUBSCRIPTIONS_MAX));
    return qpc_finish(&map, status, ret, err);
}

QPC_HANDLER(qpc_handle_hello) {
    (void)ret_data;
    qpc_session *session = call->session;
    const qpc_options *o = &call->server->options;
    const qpc_value *version = qpc_map_get(call->params, "version");
    if (version != NULL && version->i != PROTOCOL_VERSION) {
        return qpc_fail_at(err, QPC_ERR_UNSUPPORTED, "version",
                           "protocol version %" PRId64 " is not known: this server speaks %d",
                           version->i, PROTOCOL_VERSION);
    }
    const qpc_value *token = qpc_map_get(call->params, "token");
    if (o->token_size > 0 && !session->authorised) {
        if (!token_is_right(o, token)) {
            qpc_log(QPC_LOG_WARN, "wrong_token", "session=%" PRIu64 " peer=%s", session->id,
                    session->peer);
            if (++session->garbage >= TOKEN_TRIES) {
                // Closed once this reply is out.
                session->abandon = true;
                session->state = QPC_SESSION_FINISHING;
            }
            return qpc_fail(err, QPC_ERR_UNAUTHORISED, "the token is %s",
                            token == NULL ? "missing" : "wrong");
        }
        session->authorised = true;
    }
    const qpc_value *client = qpc_map_get(call->params, "client");
    if (client != NULL) {
        snprintf(session->client, sizeof session->client, "%.*s",
                 (int)(client->str.size < 60 ? client->str.size : 60), client->str.bytes);
    }
    const qpc_value *role = qpc_map_get(call->params, "role");
    if (role != NULL) session->bulk = qpc_str_equal(role, "bulk");
    const qpc_value *keys = qpc_map_get(call->params, "array_keys");
    if (keys != NULL) session->bin_keys = qpc_str_equal(keys, "bin");
    char quoted[200];
    qpc_log(QPC_LOG_DEBUG, "hello", "session=%" PRIu64 " role=%s client=%s", session->id,
            session->bulk ? "bulk" : "control",
            qpc_log_quote(session->client, quoted, sizeof quoted));

    qpc_value limits = qpc_nil();
    qpc_status status = limits_value(call->server, &limits, err);
    if (status != QPC_OK) return status;
    qpc_value map = qpc_map();
    qpc_put(&map, &status, "server", qpc_text_borrow("qpcollided"));
    qpc_put(&map, &status, "version", qpc_text_borrow(QPC_VERSION));
    qpc_put(&map, &status, "protocol", qpc_int(PROTOCOL_VERSION));
    qpc_put(&map, &status, "limits", limits);
    qpc_put(&map, &status, "session", qpc_uint(session->id));
    qpc_put(&map, &status, "role", qpc_text_borrow(session->bulk ? "bulk" : "control"));
    return qpc_finish(&map, status, ret, err);
}

// ---- rpc.describe ----

QPC_HANDLER(qpc_handle_rpc_describe) {
    (void)call;
    (void)ret_data;
    qpc_value map = qpc_nil(), fields = qpc_nil();
    qpc_status status = qpc_methods_describe(&map);
    if (status == QPC_OK) status = qpc_step_fields_to_value(&fields);
    qpc_put(&map, &status, "step_fields", fields);
    return qpc_finish(&map, status, ret, err);
}

// ---- server.stats ----

static qpc_status storage_value(qpc_server *server, qpc_value *ret, qpc_error *err) {
    qpc_writer_stats s = qpc_writer_get_stats(server->writer);
    qpc_value map = qpc_map();
    qpc_status status = QPC_OK;
    qpc_put(&map, &status, "queue", qpc_uint(s.queued_bytes));
    qpc_put(&map, &status, "queued_records", qpc_int(s.queued));
    qpc_put(&map, &status, "high_water", qpc_int(s.queued_high_water));
    qpc_put(&map, &status, "open_runs", qpc_int(s.open_runs));
    qpc_put(&map, &status, "failed_runs", qpc_int(s.failed_runs));
    qpc_put(&map, &status, "written_frames", qpc_uint(s.frames));
    qpc_put(&map, &status, "written_records", qpc_uint(s.records));
    qpc_put(&map, &status, "written_bytes", qpc_uint(s.bytes_written));
    qpc_put(&map, &status, "commits", qpc_uint(s.commits));
    qpc_put(&map, &status, "dropped", qpc_uint(s.dropped));
    qpc_put(&map, &status, "errors", qpc_uint(s.errors));
    qpc_put_text(&map, &status, "last_error", s.last_error);
    return qpc_finish(&map, status, ret, err);
}

static qpc_status workers_value(qpc_server *server, qpc_value *ret, qpc_error *err) {
    qpc_pool_stats s = qpc_pool_get_stats(server->pool);
    qpc_value map = qpc_map();
    qpc_status status = QPC_OK;
    qpc_put(&map, &status, "count", qpc_int(s.workers));
    qpc_put(&map, &status, "busy", qpc_int(s.busy));
    qpc_put(&map, &status, "ready", qpc_int(s.ready));
    qpc_put(&map, &status, "ready_high_water", qpc_int(s.ready_high_water));
    qpc_put(&map, &status, "tasks", qpc_uint(s.tasks));
    qpc_put(&map, &status, "sleeps", qpc_uint(s.sleeps));
    return qpc_finish(&map, status, ret, err);
}

static qpc_status memory_value(qpc_server *server, qpc_value *ret, qpc_error *err) {
    size_t resident = 0, queued = 0, frames = 0;
    uv_resident_set_memory(&resident);
    for (const qpc_session *s = server->sessions; s != NULL; s = s->next) {
        queued += qpc_session_queued(s);
        frames += s->frames_held;
    }
    qpc_value map = qpc_map();
    qpc_status status = QPC_OK;
    qpc_put(&map, &status, "resident", qpc_uint(resident));
    qpc_put(&map, &status, "worlds", qpc_int(atomic_load(&server->worlds_memory)));
    qpc_put(&map, &status, "meshes", qpc_int(qpc_meshes_memory(server->meshes)));
    qpc_put(&map, &status, "queued", qpc_uint(queued));
    qpc_put(&map, &status, "frames_held", qpc_uint(frames));
    qpc_put(&map, &status, "input", qpc_uint(server->charged));
    return qpc_finish(&map, status, ret, err);
}

static qpc_status worlds_value(qpc_server *server, qpc_value *ret, qpc_error *err) {
    qpc_value list = qpc_list();
    qpc_status status = QPC_OK;
    int64_t now = (int64_t)uv_hrtime();
    for (int32_t i = 0; i < server->worlds.actors.count && status == QPC_OK; i++) {
        qpc_actor_info info = qpc_actor_get_info(server->worlds.actors.data[i]);
        qpc_actor_owner *owner = qpc_actor_get_owner(server->worlds.actors.data[i]);
        // Rate since the last look, at least a tenth of a second ago.
        if (now - owner->rate_ns > 100000000) {
            if (owner->rate_ns > 0) {
                owner->steps_per_s = 1e9 * (double)(info.step - owner->rate_step) /
                                     (double)(now - owner->rate_ns);
            }
            owner->rate_step = info.step;
            owner->rate_ns = now;
        }
        qpc_value map = qpc_map();
        qpc_put(&map, &status, "world", qpc_uint(info.id));
        qpc_put_text(&map, &status, "name", info.name);
        qpc_put(&map, &status, "step", qpc_int(info.step));
        qpc_put(&map, &status, "steps_per_s", qpc_real(owner->steps_per_s));
        qpc_put(&map, &status, "memory_bytes", qpc_int(info.memory));
        qpc_put(&map, &status, "busy", qpc_bool(info.busy));
        qpc_add(&list, &status, map);
    }
    return qpc_finish(&list, status, ret, err);
}

static int32_t count_bulk(const qpc_server *server) {
    int32_t count = 0;
    for (const qpc_session *s = server->sessions; s != NULL; s = s->next) count += s->bulk;
    return count;
}

QPC_HANDLER(qpc_handle_server_stats) {
    (void)ret_data;
    qpc_server *server = call->server;
    qpc_value storage = qpc_nil(), workers = qpc_nil(), memory = qpc_nil(), worlds = qpc_nil();
    qpc_status status = storage_value(server, &storage, err);
    if (status == QPC_OK) status = workers_value(server, &workers, err);
    if (status == QPC_OK) status = memory_value(server, &memory, err);
    if (status == QPC_OK) status = worlds_value(server, &worlds, err);
    qpc_value map = qpc_map();
    qpc_put(&map, &status, "uptime_s",
            qpc_real(1e-9 * (double)((int64_t)uv_hrtime() - server->started_ns)));
    qpc_put(&map, &status, "version", qpc_text_borrow(QPC_VERSION));
    qpc_put(&map, &status, "draining", qpc_bool(atomic_load(&server->draining)));
    qpc_put(&map, &status, "sessions", qpc_int(server->session_count));
    qpc_put(&map, &status, "sessions_max", qpc_int(server->session_limit));
    qpc_put(&map, &status, "sessions_bulk", qpc_int(count_bulk(server)));
    qpc_put(&map, &status, "in_flight", qpc_int(server->in_flight));
    qpc_put(&map, &status, "worlds", qpc_int(server->worlds.actors.count));
#define PUT_COUNTER(name, text)                                                                    \
    qpc_put(&map, &status, #name, qpc_uint(atomic_load(&server->counters.name)));
    QPC_COUNTER_LIST(PUT_COUNTER)
#undef PUT_COUNTER
    qpc_put(&map, &status, "storage", storage);
    qpc_put(&map, &status, "workers", workers);
    qpc_put(&map, &status, "memory", memory);
    qpc_put(&map, &status, "worlds_detail", worlds);
    return qpc_finish(&map, status, ret, err);
}

QPC_HANDLER(qpc_handle_server_drain) {
    (void)ret_data;
    qpc_server_drain(call->server, "server.drain");
    qpc_value map = qpc_map();
    qpc_status status = QPC_OK;
    qpc_put(&map, &status, "draining", qpc_bool(true));
    return qpc_finish(&map, status, ret, err);
}
