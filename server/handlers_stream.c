/// world.subscribe, credit, unsubscribe, and the way of frames from a world to its subscribers.
/// Loop thread.
#include "server/router.h"

#include "base/mem.h"
#include "server/builder.h"

#include <inttypes.h>

enum { FRAMES_AT_ONCE = 32 };

// ---- sending ----

static bool reader_is_ready(void *user) {
    const qpc_session *session = user;
    return session->state == QPC_SESSION_OPEN && !session->eof &&
           qpc_session_queued(session) <=
               (size_t)session->server->options.max_queued_bytes / 16;
}

static void send_frame(void *user, const qpc_subscription *s, const qpc_snapshot *frame,
                       uint64_t dropped) {
    qpc_session *session = user;
    qpc_value map = qpc_map();
    qpc_status status = QPC_OK;
    qpc_put(&map, &status, "subscription", qpc_int(s->id));
    qpc_put(&map, &status, "world", qpc_uint(s->world));
    qpc_put(&map, &status, "step", qpc_int(frame->step));
    qpc_put(&map, &status, "time", qpc_real(frame->time));
    qpc_put(&map, &status, "hash", qpc_uint(frame->hash));
    qpc_put(&map, &status, "dropped", qpc_uint(dropped));
    if (status == QPC_OK) status = qpc_snapshot_to_map(frame, NULL, s->parts, s->single, -1, &map);
    if (status == QPC_OK) {
        status = qpc_rpc_notify("frame", &map, session->bin_keys, qpc_session_output(session),
                                NULL);
    }
    qpc_value_fini(&map);
    if (status != QPC_OK) {
        qpc_session_close(session); // a frame would be missing without notice
        return;
    }
    qpc_count(&session->server->counters, frames_sent, 1);
    qpc_session_sent(session);
}

/// The notification that ends a subscription from our side.
static void send_end(qpc_subscription *s, const char *reason) {
    qpc_session *session = s->session;
    if (session->state != QPC_SESSION_OPEN) return;
    qpc_value map = qpc_map(), whole = qpc_nil();
    qpc_status status = QPC_OK;
    qpc_put(&map, &status, "subscription", qpc_int(s->id));
    qpc_put(&map, &status, "world", qpc_uint(s->world));
    qpc_put(&map, &status, "reason", qpc_text_borrow(reason));
    qpc_put(&map, &status, "sent", qpc_uint(s->sent));
    qpc_put(&map, &status, "dropped", qpc_uint(s->dropped));
    if (qpc_finish(&map, status, &whole, NULL) != QPC_OK) return;
    if (qpc_rpc_notify("end", &whole, session->bin_keys, qpc_session_output(session), NULL) ==
        QPC_OK) {
        qpc_session_sent(session);
    }
    qpc_value_fini(&whole);
}

// ---- lists of subscriptions ----

static int64_t gcd(int64_t a, int64_t b) {
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/// Tell the world which steps and which parts its subscribers want.
static void update_wishes(qpc_actor *actor) {
    int64_t every = 0;
    uint32_t parts = 0;
    for (qpc_subscription *s = qpc_actor_get_owner(actor)->subscriptions; s != NULL;
         s = s->next_of_actor) {
        every = gcd(every, s->every);
        parts |= s->parts | (s->single ? QPC_PART_SINGLE : 0);
    }
    qpc_actor_set_frames(actor, every, parts);
}

static void unlink_from_actor(qpc_subscription *s) {
    qpc_subscription **at = &qpc_actor_get_owner(s->actor)->subscriptions;
    while (*at != s) at = &(*at)->next_of_actor;
    *at = s->next_of_actor;
}

static void unlink_from_session(qpc_subscription *s) {
    qpc_subscription **at = &s->session->subscriptions;
    while (*at != s) at = &(*at)->next_of_session;
    *at = s->next_of_session;
    s->session->subscription_count--;
}

static void end_subscription(qpc_subscription *s) {
    qpc_actor *actor = s->actor;
    unlink_from_actor(s);
    unlink_from_session(s);
    update_wishes(actor);
    qpc_subscription_destroy(s);
}

void qpc_stream_end_session(qpc_session *session) {
    while (session->subscriptions != NULL) end_subscription(session->subscriptions);
}

void qpc_stream_end_world(qpc_actor *actor) {
    qpc_subscription *s;
    while ((s = qpc_actor_get_owner(actor)->subscriptions) != NULL) {
        qpc_subscription_pump(s);
        send_end(s, "the world was destroyed");
        // Sending may have closed the session, and with it the subscription.
        if (qpc_actor_get_owner(actor)->subscriptions == s) end_subscription(s);
    }
}

void qpc_stream_deliver(qpc_server *server, qpc_actor *actor) {
    qpc_snapshot *frames[FRAMES_AT_ONCE];
    uint64_t missed = 0;
    int32_t count;
    qpc_server_touch(server);
    while ((count = qpc_actor_take_frames(actor, frames, FRAMES_AT_ONCE, &missed)) > 0) {
        int64_t every = 0;
        qpc_subscription *next;
        for (qpc_subscription *s = qpc_actor_get_owner(actor)->subscriptions; s != NULL;
             s = s->next_of_actor) {
            every = gcd(every, s->every);
        }
        for (qpc_subscription *s = qpc_actor_get_owner(actor)->subscriptions; s != NULL; s = next) {
            next = s->next_of_actor;
            // Of the frames lost in between those count that were due to this one.
            if (missed > 0) {
                uint64_t share = missed * (uint64_t)every / (uint64_t)s->every;
                qpc_subscription_missed(s, share > 0 ? share : 1);
            }
            qpc_session *session = s->session;
            for (int32_t i = 0; i < count && session->state == QPC_SESSION_OPEN; i++) {
                qpc_subscription_offer(s, frames[i]);
            }
            // A closed session has taken its subscriptions along.
            if (session->state == QPC_SESSION_OPEN && s->over) {
                send_end(s, "its reader was too slow (policy close)");
                if (session->state == QPC_SESSION_OPEN) end_subscription(s);
            }
        }
        for (int32_t i = 0; i < count; i++) qpc_snapshot_unref(frames[i]);
    }
}

void qpc_stream_resume(qpc_session *session) {
    qpc_subscription *next;
    for (qpc_subscription *s = session->subscriptions; s != NULL; s = next) {
        next = s->next_of_session;
        if (s->count == 0) continue;
        qpc_subscription_pump(s);
        if (session->state != QPC_SESSION_OPEN) return;
    }
}

// ---- methods ----

static qpc_status read_subscription(const qpc_call *call, qpc_subscription **ret,
                                    qpc_error *err) {
    const qpc_value *params = call->params, *v;
    qpc_stream_policy policy;
    int64_t every = 1, credit = 0, queue = 64;
    uint32_t parts = 0;
    bool single = false;
    qpc_status status = qpc_stream_policy_read(qpc_map_get(params, "policy"), &policy, err);
    if (status == QPC_OK && (v = qpc_map_get(params, "every")) != NULL) {
        status = qpc_read_int(v, "every", 1, 1000000000, &every, err);
    }
    if (status == QPC_OK && (v = qpc_map_get(params, "credit")) != NULL) {
        status = qpc_read_int(v, "credit", 0, 1000000000, &credit, err);
    }
    if (status == QPC_OK && (v = qpc_map_get(params, "max_queue")) != NULL) {
        status = qpc_read_int(v, "max_queue", 1, 4096, &queue, err);
    }
    if (status == QPC_OK) {
        status = qpc_parts_from_value(qpc_map_get(params, "fields"), "fields", QPC_PART_POSITIONS,
                                      &parts, err);
    }
    if (status == QPC_OK) {
        status = qpc_single_from_value(qpc_map_get(params, "precision"), "precision", &single, err);
    }
    if (status != QPC_OK) return status;
    qpc_subscription *s = qpc_subscription_create(policy, (int32_t)queue);
    if (s == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a subscription");
    s->every = every;
    s->parts = parts;
    s->single = single;
    s->counted = credit > 0;
    s->credit = credit;
    *ret = s;
    return QPC_OK;
}

QPC_HANDLER(qpc_handle_world_subscribe) {
    (void)ret_data;
    qpc_session *session = call->session;
    qpc_actor *actor = NULL;
    qpc_subscription *s = NULL;
    qpc_status status = qpc_call_world(call, false, &actor, err);
    if (status == QPC_OK && session->subscription_count >= QPC_SUBSCRIPTIONS_MAX) {
        status = qpc_fail(err, QPC_ERR_LIMIT, "this session has %d subscriptions already",
                          QPC_SUBSCRIPTIONS_MAX);
    }
    if (status == QPC_OK) status = read_subscription(call, &s, err);
    if (status != QPC_OK) return status;
    const qpc_layout *layout = qpc_actor_get_info(actor).layout;
    qpc_value map = qpc_map(), bodies = qpc_nil(), whole = qpc_nil();
    status = qpc_layout_to_value(layout, &bodies);
    qpc_put(&map, &status, "subscription", qpc_int(session->next_subscription));
    qpc_put(&map, &status, "node_count", qpc_int(layout->node_count));
    qpc_put(&map, &status, "bodies", bodies);
    status = qpc_finish(&map, status, &whole, err);
    if (status != QPC_OK) {
        qpc_subscription_destroy(s);
        return status;
    }
    s->id = session->next_subscription++;
    s->world = qpc_actor_id(actor);
    s->session = session;
    s->actor = actor;
    s->sink = (qpc_stream_sink){reader_is_ready, send_frame, session};
    s->held = &session->frames_held;
    s->held_most = (size_t)call->server->options.max_queued_bytes;
    s->lost = &call->server->counters.frames_dropped;
    s->next_of_session = session->subscriptions;
    session->subscriptions = s;
    session->subscription_count++;
    qpc_actor_owner *owner = qpc_actor_get_owner(actor);
    s->next_of_actor = owner->subscriptions;
    owner->subscriptions = s;
    update_wishes(actor);
    *ret = whole;
    return QPC_OK;
}

static qpc_status find_subscription(const qpc_call *call, qpc_subscription **ret,
                                    qpc_error *err) {
    uint64_t id = 0;
    qpc_status status =
        qpc_read_uint(qpc_map_get(call->params, "subscription"), "subscription", &id, err);
    if (status != QPC_OK) return status;
    for (qpc_subscription *s = call->session->subscriptions; s != NULL; s = s->next_of_session) {
        if (s->id == id) {
            *ret = s;
            return QPC_OK;
        }
    }
    return qpc_fail_at(err, QPC_ERR_NOT_FOUND, "subscription",
                       "this connection has no subscription %" PRIu64, id);
}

QPC_HANDLER(qpc_handle_world_credit) {
    (void)ret_data;
    qpc_subscription *s = NULL;
    int64_t add = 0;
    qpc_status status = find_subscription(call, &s, err);
    if (status == QPC_OK) {
        status = qpc_read_int(qpc_map_get(call->params, "add"), "add", 1, 1000000000, &add, err);
    }
    if (status != QPC_OK) return status;
    if (!s->counted) {
        return qpc_fail_at(err, QPC_ERR_STATE, "subscription",
                           "subscription %u is not bound by credit", s->id);
    }
    if (s->credit > INT64_MAX - add) add = INT64_MAX - s->credit;
    s->credit += add;
    qpc_session *session = call->session;
    qpc_subscription_pump(s);
    if (session->state != QPC_SESSION_OPEN) return QPC_OK;
    qpc_value map = qpc_map();
    qpc_put(&map, &status, "credit", qpc_int(s->credit));
    return qpc_finish(&map, status, ret, err);
}

QPC_HANDLER(qpc_handle_world_unsubscribe) {
    (void)ret_data;
    qpc_subscription *s = NULL;
    qpc_status status = find_subscription(call, &s, err);
    if (status != QPC_OK) return status;
    qpc_value map = qpc_map(), whole = qpc_nil();
    qpc_put(&map, &status, "sent", qpc_uint(s->sent));
    qpc_put(&map, &status, "dropped", qpc_uint(s->dropped));
    status = qpc_finish(&map, status, &whole, err);
    if (status != QPC_OK) return status;
    end_subscription(s);
    *ret = whole;
    return QPC_OK;
}
