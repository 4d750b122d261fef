/// libqpc: the connection. One buffer in, one out, one queue of messages that came unasked for.
///
/// Bytes in are walked by protocol/scan until one message is whole; the message then owns a copy of
/// its bytes (or the whole buffer, when it is large), since decoded text and arrays point into
/// them. Replies are taken only for ids in `pending`; others (forgotten, timed out) are dropped.
/// All waiting goes through pump(), which writes what is queued while it waits for bytes: so a
/// large upload and a stream of frames never block each other. A client belongs to one thread at a
/// time.
#include "client/libqpc/qpc.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "base/mem.h"
#include "client/libqpc/address.h"
#include "client/libqpc/internal.h"
#include "protocol/rpc.h"
#include "protocol/scan.h"

enum { READ_SIZE = 65536, STEAL_SIZE = 65536, DEFAULT_TIMEOUT_MS = 30000, DEFAULT_KEPT = 4096 };

/// A message that came, in a list; what qpc_message.memory points at.
typedef struct kept {
    struct kept *next;
    qpc_rpc_message rpc;
    uint8_t *bytes; // that rpc borrows from
    size_t size;
} kept;

struct qpc_client {
    int fd;
    qpc_connect_options options;
    qpc_scan_limits limits;

    uint8_t *in; // in[in_at .. in_size) is not yet taken
    size_t in_at, in_size, in_capacity;
    qpc_scanner scanner;
    qpc_buffer out; // out.data[out_at ..] is not yet sent
    size_t out_at;

    uint64_t server_limit; // bytes of a message, 0: not known
    uint32_t next_id;
    QPC_ARRAY(uint32_t) pending; // ids in flight
    kept *first, **last;         // messages that came, oldest first
    int32_t kept_count;          // of notifications among them
    size_t kept_bytes;
    uint64_t dropped;

    bool answered;
    qpc_value error_data; // owned
    qpc_error farewell;   // "error" notification of the server, said before it closes
};

static void destroy_kept(kept *k) {
    if (k == NULL) return;
    qpc_rpc_message_fini(&k->rpc);
    qpc_free(k->bytes);
    qpc_free(k);
}

void qpc_message_fini(qpc_message *message) {
    if (message == NULL) return;
    destroy_kept(message->memory);
    *message = (qpc_message){0};
}

// ---- life ----

static int64_t deadline_of(int32_t timeout_ms) {
    return timeout_ms < 0 ? -1 : qpc_now_ms() + timeout_ms;
}

static int64_t call_deadline(const qpc_client *client) {
    int32_t timeout = client->options.timeout_ms;
    return deadline_of(timeout == 0 ? DEFAULT_TIMEOUT_MS : timeout);
}

qpc_status qpc_client_connect(const char *address, const qpc_connect_options *options,
                              qpc_client **ret, qpc_error *err) {
    qpc_address where;
    qpc_status status = qpc_address_parse(address, &where, err);
    if (status != QPC_OK) return status;
    qpc_client *client = qpc_calloc(1, sizeof *client);
    if (client == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory: a client");
    client->fd = -1;
    client->last = &client->first;
    client->next_id = 1;
    if (options != NULL) client->options = *options;
    if (client->options.max_kept <= 0) client->options.max_kept = DEFAULT_KEPT;
    if (client->options.max_kept_bytes == 0) client->options.max_kept_bytes = (size_t)256 << 20;
    client->limits = qpc_scan_limits_default();
    client->limits.max_message =
        client->options.max_message > 0 ? client->options.max_message : (size_t)512 << 20;
    client->limits.max_items = client->limits.max_message; // answers may be long lists
    status = qpc_address_connect(&where, call_deadline(client), client->options.interrupted,
                                 client->options.user, &client->fd, err);
    if (status != QPC_OK) {
        qpc_client_close(client);
        return status;
    }
    *ret = client;
    return QPC_OK;
}

/// Close the socket; what came before stays to be polled.
static void drop_connection(qpc_client *client) {
    if (client->fd >= 0) close(client->fd);
    client->fd = -1;
    client->pending.count = 0;
}

void qpc_client_close(qpc_client *client) {
    if (client == NULL) return;
    drop_connection(client);
    while (client->first != NULL) {
        kept *next = client->first->next;
        destroy_kept(client->first);
        client->first = next;
    }
    qpc_value_fini(&client->error_data);
    qpc_buffer_fini(&client->out);
    qpc_array_fini(&client->pending);
    qpc_free(client->in);
    qpc_free(client);
}

bool qpc_client_is_open(const qpc_client *client) {
    return client->fd >= 0;
}
int qpc_client_fd(const qpc_client *client) {
    return client->fd;
}
bool qpc_client_wants_write(const qpc_client *client) {
    return client->out_at < client->out.size;
}
bool qpc_client_answered(const qpc_client *client) {
    return client->answered;
}
uint64_t qpc_client_dropped(const qpc_client *client) {
    return client->dropped;
}
const qpc_value *qpc_client_error_data(const qpc_client *client) {
    return &client->error_data;
}

uint64_t qpc_client_server_limit(const qpc_client *client) {
    return client->server_limit;
}

void qpc_client_set_server_limit(qpc_client *client, uint64_t bytes) {
    client->server_limit = bytes;
}

void qpc_client_set_timeout(qpc_client *client, int32_t timeout_ms) {
    client->options.timeout_ms = timeout_ms;
}

// ---- messages in ----

static kept *unlink_kept(qpc_client *client, kept **at) {
    kept *k = *at;
    *at = k->next;
    if (client->last == &k->next) client->last = at;
    k->next = NULL;
    if (k->rpc.type == QPC_RPC_NOTIFICATION) client->kept_count--;
    client->kept_bytes -= k->size;
    return k;
}

/// Notifications only: replies were asked for, and there are no more of them than requests.
static void drop_oldest_notification(qpc_client *client) {
    for (kept **at = &client->first; *at != NULL; at = &(*at)->next) {
        if ((*at)->rpc.type != QPC_RPC_NOTIFICATION) continue;
        destroy_kept(unlink_kept(client, at));
        client->dropped++;
        return;
    }
}

/// True if the id was in flight; it is not any more.
static bool take_pending(qpc_client *client, uint32_t id) {
    for (int32_t i = 0; i < client->pending.count; i++) {
        if (client->pending.data[i] != id) continue;
        client->pending.data[i] = client->pending.data[--client->pending.count];
        return true;
    }
    return false;
}

/// Put a decoded message where it belongs; takes it.
static void keep(qpc_client *client, kept *k) {
    bool wanted = k->rpc.type == QPC_RPC_NOTIFICATION ||
                  (k->rpc.type == QPC_RPC_RESPONSE && take_pending(client, k->rpc.id));
    if (!wanted) {
        destroy_kept(k);
        return;
    }
    if (k->rpc.type == QPC_RPC_NOTIFICATION) {
        if (strcmp(k->rpc.method, "error") == 0)
            qpc_error_from_value(&k->rpc.params, &client->farewell);
        while (client->kept_count > 0 &&
               (client->kept_count >= client->options.max_kept ||
                client->kept_bytes + k->size > client->options.max_kept_bytes))
            drop_oldest_notification(client);
        client->kept_count++;
    }
    client->kept_bytes += k->size;
    *client->last = k;
    client->last = &k->next;
}

/// The bytes of a message get an owner of their own.
static uint8_t *take_bytes(qpc_client *client, size_t size) {
    bool all = client->in_at == 0 && client->in_size == size && size >= STEAL_SIZE;
    if (all) {
        uint8_t *bytes = client->in;
        client->in = NULL;
        client->in_size = client->in_capacity = 0;
        return bytes;
    }
    uint8_t *bytes = qpc_alloc(size);
    if (bytes == NULL) return NULL;
    memcpy(bytes, client->in + client->in_at, size);
    client->in_at += size;
    if (client->in_at == client->in_size) client->in_at = client->in_size = 0;
    return bytes;
}

/// Take every whole message out of the buffer. On failure the connection is dropped.
static qpc_status take_messages(qpc_client *client, qpc_error *err) {
    while (client->in_at < client->in_size) {
        size_t size = 0;
        qpc_scan_outcome outcome =
            qpc_scan(&client->scanner, client->in + client->in_at, client->in_size - client->in_at,
                     &client->limits, &size, err);
        if (outcome == QPC_SCAN_PARTIAL) return QPC_OK;
        if (outcome == QPC_SCAN_MALFORMED) {
            drop_connection(client);
            return err != NULL ? err->status : QPC_ERR_MALFORMED;
        }
        memset(&client->scanner, 0, sizeof client->scanner);
        kept *k = qpc_calloc(1, sizeof *k);
        uint8_t *bytes = k != NULL ? take_bytes(client, size) : NULL;
        if (bytes == NULL) {
            // The message cannot be kept and its request would wait for ever: give up the
            // connection.
            qpc_free(k);
            drop_connection(client);
            return qpc_fail(err, QPC_ERR_MEMORY, "out of memory: a message of %zu bytes", size);
        }
        k->bytes = bytes;
        k->size = size;
        qpc_status status = qpc_rpc_parse(bytes, size, &k->rpc, err);
        if (status != QPC_OK) {
            destroy_kept(k);
            drop_connection(client);
            return status;
        }
        keep(client, k);
    }
    return QPC_OK;
}

// ---- bytes in and out ----

static qpc_status make_room(qpc_client *client, qpc_error *err) {
    if (client->in_at > 0) {
        client->in_size -= client->in_at;
        memmove(client->in, client->in + client->in_at, client->in_size);
        client->in_at = 0;
    }
    if (client->in_capacity - client->in_size >= READ_SIZE) return QPC_OK;
    size_t wanted = client->in_capacity + client->in_capacity / 2;
    if (wanted < client->in_size + READ_SIZE) wanted = client->in_size + READ_SIZE;
    uint8_t *grown = qpc_realloc(client->in, wanted);
    if (grown == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory: a message");
    client->in = grown;
    client->in_capacity = wanted;
    return QPC_OK;
}

static qpc_status connection_lost(qpc_client *client, const char *how, qpc_error *err) {
    drop_connection(client);
    if (client->farewell.status != QPC_OK)
        return qpc_fail(err, QPC_ERR_IO, "the server closed the connection: %s: %s",
                        qpc_status_name(client->farewell.status), client->farewell.message);
    return qpc_fail(err, QPC_ERR_IO, "%s", how);
}

/// Read what is there without waiting.
static qpc_status read_some(qpc_client *client, qpc_error *err) {
    for (int rounds = 0; rounds < 16; rounds++) {
        qpc_status status = make_room(client, err);
        if (status != QPC_OK) {
            drop_connection(client);
            return status;
        }
        size_t room = client->in_capacity - client->in_size;
        ssize_t got = recv(client->fd, client->in + client->in_size, room, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return QPC_OK;
        if (got < 0) {
            char how[120];
            snprintf(how, sizeof how, "the connection broke: %s", strerror(errno));
            return connection_lost(client, how, err);
        }
        if (got == 0) return connection_lost(client, "the server closed the connection", err);
        client->in_size += (size_t)got;
        status = take_messages(client, err);
        if (status != QPC_OK || (size_t)got < room) return status;
    }
    return QPC_OK;
}

/// Send what the socket takes without waiting.
static qpc_status write_some(qpc_client *client, qpc_error *err) {
    while (client->out_at < client->out.size) {
        ssize_t sent = send(client->fd, client->out.data + client->out_at,
                            client->out.size - client->out_at, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return QPC_OK;
        if (sent < 0) {
            // The server may have said why before it closed.
            char how[120];
            snprintf(how, sizeof how, "the connection broke: %s", strerror(errno));
            qpc_status status = read_some(client, err);
            return status != QPC_OK ? status : connection_lost(client, how, err);
        }
        client->out_at += (size_t)sent;
    }
    client->out.size = client->out_at = 0;
    return QPC_OK;
}

/// Wait once for the socket, then move bytes both ways.
static qpc_status pump(qpc_client *client, int64_t deadline_ms, qpc_error *err) {
    if (client->fd < 0) return connection_lost(client, "the connection is closed", err);
    short events = POLLIN, got = 0;
    if (qpc_client_wants_write(client)) events |= POLLOUT;
    qpc_status status = qpc_wait_fd(client->fd, events, deadline_ms, client->options.interrupted,
                                    client->options.user, &got, err);
    if (status != QPC_OK) return status;
    if ((got & POLLOUT) != 0) status = write_some(client, err);
    if (status == QPC_OK && (got & (POLLIN | POLLHUP | POLLERR)) != 0 && client->fd >= 0)
        status = read_some(client, err);
    return status;
}

// ---- requests ----

static const qpc_value *or_empty(const qpc_value *params, qpc_value *empty) {
    *empty = qpc_map();
    return params != NULL ? params : empty;
}

/// Give back the space of what was sent, so that a long queue does not keep it.
static void compact_out(qpc_client *client) {
    if (client->out_at == 0 || client->out_at < client->out.size / 2) return;
    client->out.size -= client->out_at;
    memmove(client->out.data, client->out.data + client->out_at, client->out.size);
    client->out_at = 0;
}

qpc_status qpc_send(qpc_client *client, const char *method, const qpc_value *params,
                    uint32_t *ret_id, qpc_error *err) {
    client->answered = false;
    if (client->fd < 0) return connection_lost(client, "the connection is closed", err);
    qpc_value empty;
    uint32_t id = client->next_id;
    if (!qpc_array_push(&client->pending, id))
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory: a request");
    compact_out(client);
    qpc_status status =
        qpc_rpc_request(id, method, or_empty(params, &empty), false, &client->out, err);
    if (status != QPC_OK) {
        take_pending(client, id);
        return status;
    }
    client->next_id++;
    status = write_some(client, err);
    if (status != QPC_OK) return status;
    *ret_id = id;
    return QPC_OK;
}

qpc_status qpc_notify(qpc_client *client, const char *method, const qpc_value *params,
                      qpc_error *err) {
    client->answered = false;
    if (client->fd < 0) return connection_lost(client, "the connection is closed", err);
    qpc_value empty;
    compact_out(client);
    qpc_status status = qpc_rpc_notify(method, or_empty(params, &empty), false, &client->out, err);
    return status == QPC_OK ? write_some(client, err) : status;
}

/// Hand a kept message to the caller.
static void fill_message(kept *k, qpc_message *ret) {
    *ret = (qpc_message){.memory = k};
    if (k->rpc.type == QPC_RPC_NOTIFICATION) {
        ret->kind = QPC_MESSAGE_NOTIFICATION;
        snprintf(ret->method, sizeof ret->method, "%s", k->rpc.method);
        ret->value = &k->rpc.params;
        return;
    }
    ret->kind = QPC_MESSAGE_REPLY;
    ret->id = k->rpc.id;
    ret->value = &k->rpc.result;
    if (k->rpc.error.kind == QPC_NIL) return;
    qpc_error_from_value(&k->rpc.error, &ret->error);
    if (ret->error.status == QPC_OK) ret->error.status = QPC_ERR_INTERNAL;
    ret->status = ret->error.status;
    ret->error_data = qpc_map_get(&k->rpc.error, "data");
}

qpc_status qpc_poll(qpc_client *client, int32_t timeout_ms, qpc_message *ret, qpc_error *err) {
    int64_t deadline = deadline_of(timeout_ms);
    client->answered = false;
    if (client->first == NULL && client->fd < 0)
        return connection_lost(client, "the connection is closed", err);
    while (client->first == NULL) {
        qpc_status status = pump(client, deadline, err);
        if (client->first != NULL) break; // what came before a failure is delivered first
        if (status == QPC_ERR_DEADLINE && client->fd >= 0) {
            *ret = (qpc_message){0};
            return QPC_OK;
        }
        if (status != QPC_OK) return status;
    }
    fill_message(unlink_kept(client, &client->first), ret);
    return QPC_OK;
}

static kept **find_reply(qpc_client *client, uint32_t id) {
    for (kept **at = &client->first; *at != NULL; at = &(*at)->next)
        if ((*at)->rpc.type == QPC_RPC_RESPONSE && (*at)->rpc.id == id) return at;
    return NULL;
}

static bool is_pending(const qpc_client *client, uint32_t id) {
    for (int32_t i = 0; i < client->pending.count; i++)
        if (client->pending.data[i] == id) return true;
    return false;
}

static qpc_status wait_reply(qpc_client *client, uint32_t id, int64_t deadline, qpc_message *ret,
                             qpc_error *err) {
    for (;;) {
        kept **at = find_reply(client, id);
        if (at != NULL) {
            fill_message(unlink_kept(client, at), ret);
            return QPC_OK;
        }
        if (client->fd >= 0 && !is_pending(client, id))
            return qpc_fail(err, QPC_ERR_NOT_FOUND, "request %u is not in flight", id);
        qpc_status status = pump(client, deadline, err);
        if (status != QPC_OK && find_reply(client, id) == NULL) return status;
    }
}

qpc_status qpc_wait(qpc_client *client, uint32_t id, int32_t timeout_ms, qpc_message *ret,
                    qpc_error *err) {
    client->answered = false;
    return wait_reply(client, id, deadline_of(timeout_ms), ret, err);
}

void qpc_forget(qpc_client *client, uint32_t id) {
    kept **at = find_reply(client, id);
    if (at != NULL) {
        destroy_kept(unlink_kept(client, at));
    } else {
        take_pending(client, id);
    }
}

/// An error in a reply becomes the call's; its data stay with the client.
static qpc_status take_answer(qpc_client *client, qpc_message *message, qpc_error *err) {
    if (message->status == QPC_OK) return QPC_OK;
    qpc_status status = message->status;
    if (err != NULL) *err = message->error;
    client->answered = true;
    qpc_value_fini(&client->error_data);
    if (message->error_data != NULL &&
        qpc_value_copy(message->error_data, &client->error_data) != QPC_OK)
        client->error_data = qpc_nil();
    qpc_message_fini(message);
    return status;
}

qpc_status qpc_call(qpc_client *client, const char *method, const qpc_value *params,
                    qpc_message *ret, qpc_error *err) {
    int64_t deadline = call_deadline(client);
    uint32_t id = 0;
    qpc_message message = {0};
    qpc_status status = qpc_send(client, method, params, &id, err);
    if (status != QPC_OK) return status;
    status = wait_reply(client, id, deadline, &message, err);
    if (status != QPC_OK) {
        if (client->fd >= 0) qpc_forget(client, id);
        if (status == QPC_ERR_DEADLINE) qpc_fail(err, status, "%s: no answer in time", method);
        return status;
    }
    status = take_answer(client, &message, err);
    if (status != QPC_OK) return status;
    if (ret != NULL) {
        *ret = message;
    } else {
        qpc_message_fini(&message);
    }
    return QPC_OK;
}

qpc_status qpc_client_take_notification(qpc_client *client, const char *method,
                                        bool (*wanted)(void *user, const qpc_value *map),
                                        void *user, int32_t timeout_ms, qpc_message *ret,
                                        qpc_error *err) {
    int64_t deadline = deadline_of(timeout_ms);
    client->answered = false;
    for (;;) {
        for (kept **at = &client->first; *at != NULL; at = &(*at)->next) {
            const qpc_rpc_message *rpc = &(*at)->rpc;
            if (rpc->type != QPC_RPC_NOTIFICATION || strcmp(rpc->method, method) != 0) continue;
            if (!wanted(user, &rpc->params)) continue;
            fill_message(unlink_kept(client, at), ret);
            return QPC_OK;
        }
        uint64_t before = client->kept_bytes + client->dropped;
        qpc_status status = pump(client, deadline, err);
        if (status == QPC_OK || client->kept_bytes + client->dropped != before) continue;
        if (status == QPC_ERR_DEADLINE && client->fd >= 0) {
            *ret = (qpc_message){0};
            return QPC_OK;
        }
        return status;
    }
}

void qpc_client_error_read(const qpc_value *map, qpc_error *ret) {
    qpc_error_from_value(map, ret);
    if (ret->status == QPC_OK) ret->status = QPC_ERR_INTERNAL;
}
