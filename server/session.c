/// Connections. See session.h. Loop thread.
#include "server/session.h"

#include "base/log.h"
#include "base/mem.h"
#include "server/router.h"
#include "server/server.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum {
    KEEP_OUTPUT = 256 * 1024,       // a larger output buffer is given back when it is empty
    TURN_MESSAGES = 64,             // of one session, then the others have their turn
    UNKNOWN_MESSAGE = 64 * 1024,    // longest message before the token was given
    LINGER_MS = 1000,
    LINGER_DRAIN_MS = 200,
    KEEPALIVE_S = 60,
};

typedef struct write_job {
    uv_write_t write;
    qpc_session *session;
    uint8_t *data;
    size_t size; // still to be written when it was handed over
} write_job;

static void settle(qpc_session *session);
static void consume_waiting(qpc_session *session);

// ---- budgets ----

qpc_status qpc_session_charge(qpc_session *session, size_t bytes, qpc_error *err) {
    qpc_server *server = session->server;
    const qpc_options *o = &server->options;
    if (session->charged + bytes > (size_t)o->max_session_bytes) {
        return qpc_fail(err, QPC_ERR_LIMIT,
                        "this session holds %zu bytes of unanswered input, %zu more are asked for: "
                        "--max-session-bytes is %" PRId64,
                        session->charged, bytes, o->max_session_bytes);
    }
    if (server->charged + bytes > (size_t)o->max_total_bytes) {
        return qpc_fail(err, QPC_ERR_LIMIT,
                        "all sessions hold %zu bytes of unanswered input, %zu more are asked for: "
                        "--max-total-bytes is %" PRId64,
                        server->charged, bytes, o->max_total_bytes);
    }
    session->charged += bytes;
    server->charged += bytes;
    return QPC_OK;
}

void qpc_session_discharge(qpc_session *session, size_t bytes) {
    QPC_ASSERT(session->charged >= bytes);
    session->charged -= bytes;
    session->server->charged -= bytes;
}

// ---- life ----

static void free_if_gone(qpc_session *session) {
    if (!session->handle_gone || session->in_flight > 0 || session->dirty) return;
    qpc_buffer_fini(&session->out);
    qpc_free(session->in);
    qpc_free(session);
}

static void on_closed(uv_handle_t *handle) {
    qpc_session *session = handle->data;
    session->handle_gone = true;
    free_if_gone(session);
}

void qpc_session_close(qpc_session *session) {
    if (session->state == QPC_SESSION_CLOSED) return;
    session->state = QPC_SESSION_CLOSED;
    qpc_stream_end_session(session);
    for (int i = 0; i < QPC_UPLOADS_MAX; i++) {
        qpc_upload_destroy(session->uploads[i]);
        session->uploads[i] = NULL;
    }
    // Requests under way keep their charge until they come back; the rest is returned here.
    qpc_free(session->in);
    qpc_session_discharge(session, session->in_capacity);
    session->in = NULL;
    session->in_size = session->in_capacity = 0;
    qpc_buffer_fini(&session->out);
    qpc_log(QPC_LOG_DEBUG, "session_closed", "session=%" PRIu64 " in_flight=%d", session->id,
            session->in_flight);
    qpc_server_forget_session(session->server, session);
    uv_close(&session->io.handle, on_closed);
}

static void name_peer(qpc_session *session) {
    struct sockaddr_storage address;
    int size = sizeof address;
    char text[INET6_ADDRSTRLEN] = "";
    int port = 0;
    if (session->local) {
        snprintf(session->peer, sizeof session->peer, "unix");
        return;
    }
    memset(&address, 0, sizeof address);
    if (uv_tcp_getpeername(&session->io.tcp, (struct sockaddr *)&address, &size) == 0) {
        if (address.ss_family == AF_INET) {
            const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address;
            uv_ip4_name(v4, text, sizeof text);
            port = ntohs(v4->sin_port);
        } else if (address.ss_family == AF_INET6) {
            const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address;
            uv_ip6_name(v6, text, sizeof text);
            port = ntohs(v6->sin6_port);
        }
    }
    snprintf(session->peer, sizeof session->peer, "%s:%d", text, port);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf);
static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf);

qpc_session *qpc_session_accept(qpc_server *server, uv_stream_t *listener, bool local) {
    qpc_session *session = qpc_calloc(1, sizeof *session);
    if (session == NULL) return NULL;
    session->server = server;
    session->local = local;
    session->authorised = local || server->options.token_size == 0;
    session->next_subscription = 1;
    session->input_ns = (int64_t)uv_hrtime();
    int rc = local ? uv_pipe_init(&server->loop, &session->io.pipe, 0)
                   : uv_tcp_init(&server->loop, &session->io.tcp);
    if (rc != 0) {
        qpc_free(session);
        return NULL;
    }
    session->io.handle.data = session;
    rc = uv_accept(listener, &session->io.stream);
    if (rc == 0 && !local) {
        rc = uv_tcp_nodelay(&session->io.tcp, 1);
        uv_tcp_keepalive(&session->io.tcp, 1, KEEPALIVE_S); // notices peers that vanished
    }
    if (rc == 0) rc = uv_read_start(&session->io.stream, on_alloc, on_read);
    if (rc != 0) {
        // Not in the server's list yet: only the handle is to be closed.
        session->state = QPC_SESSION_CLOSED;
        uv_close(&session->io.handle, on_closed);
        return NULL;
    }
    session->reading = true;
    session->id = ++server->next_session;
    name_peer(session);
    session->next = server->sessions;
    if (server->sessions != NULL) server->sessions->previous = session;
    server->sessions = session;
    server->session_count++;
    return session;
}

/// Read when there is somebody to read for.
static void update_reading(qpc_session *session) {
    bool want = false;
    if (session->state == QPC_SESSION_OPEN) {
        want = !session->eof && !session->decoding && !session->held_back && !session->resting;
    } else if (session->state == QPC_SESSION_FINISHING) {
        want = session->shut && !session->eof; // to throw away, until the peer has closed too
    }
    if (want == session->reading || session->state == QPC_SESSION_CLOSED) return;
    session->reading = want;
    if (!want) {
        uv_read_stop(&session->io.stream);
    } else if (uv_read_start(&session->io.stream, on_alloc, on_read) != 0) {
        qpc_session_close(session);
    }
}

static void on_shutdown(uv_shutdown_t *shutdown, int status) {
    qpc_session *session = shutdown->data;
    if (session->state != QPC_SESSION_CLOSED && status != 0) qpc_session_close(session);
}

/// What follows from the present state: end of input, end of output, reading or not.
static void settle(qpc_session *session) {
    if (session->state == QPC_SESSION_OPEN && session->eof && !session->decoding &&
        !session->held_back && !session->resting) {
        session->state = QPC_SESSION_FINISHING; // every whole message has been handled
    }
    if (session->state == QPC_SESSION_FINISHING && !session->shut &&
        (session->in_flight == 0 || session->abandon) && qpc_session_queued(session) == 0) {
        if (session->eof) {
            qpc_session_close(session);
            return;
        }
        session->shut = true;
        bool hurry = atomic_load_explicit(&session->server->draining, memory_order_relaxed);
        session->linger_until = (int64_t)uv_hrtime() +
                                (hurry ? LINGER_DRAIN_MS : LINGER_MS) * INT64_C(1000000);
        session->shutdown.data = session;
        if (uv_shutdown(&session->shutdown, &session->io.stream, on_shutdown) != 0) {
            qpc_session_close(session);
            return;
        }
    }
    update_reading(session);
}

void qpc_session_finish(qpc_session *session) {
    if (session->state == QPC_SESSION_OPEN) session->state = QPC_SESSION_FINISHING;
    settle(session);
}

void qpc_session_reject(qpc_session *session, const qpc_error *error) {
    qpc_server *server = session->server;
    int64_t suppressed;
    qpc_count(&server->counters, errors, 1);
    if (qpc_log_admit(&server->garbage_log, 1000, &suppressed)) {
        char quoted[400];
        qpc_log(QPC_LOG_WARN, "session_rejected",
                "session=%" PRIu64 " peer=%s status=%s suppressed=%" PRId64 " msg=%s", session->id,
                session->peer, qpc_status_name(error->status), suppressed,
                qpc_log_quote(error->message, quoted, sizeof quoted));
    }
    qpc_value v = qpc_nil();
    if (qpc_error_to_value(error, NULL, &v) == QPC_OK &&
        qpc_rpc_notify("error", &v, false, qpc_session_output(session), NULL) == QPC_OK) {
        qpc_session_sent(session);
    }
    qpc_value_fini(&v);
    session->abandon = true;
    if (session->state == QPC_SESSION_OPEN) session->state = QPC_SESSION_FINISHING;
}

void qpc_session_tick(qpc_session *session, int64_t now_ns) {
    const qpc_options *o = &session->server->options;
    if (session->shut && now_ns >= session->linger_until) {
        qpc_session_close(session);
        return;
    }
    if (session->state == QPC_SESSION_OPEN && session->in_size > 0 && session->reading &&
        now_ns - session->input_ns > o->read_timeout_s * INT64_C(1000000000)) {
        qpc_error error = {0};
        qpc_fail(&error, QPC_ERR_DEADLINE,
                 "a message began but did not go on for %" PRId64 " s: --read-timeout-s",
                 o->read_timeout_s);
        qpc_session_reject(session, &error);
    }
}

// ---- output ----

size_t qpc_session_queued(const qpc_session *session) {
    return session->out.size + session->writing;
}

static size_t output_mark(const qpc_session *session) {
    return (size_t)session->server->options.max_queued_bytes / 16;
}

/// To be flushed at the end of the turn.
static void mark_dirty(qpc_session *session) {
    if (session->dirty) return;
    session->dirty = true;
    session->next_dirty = session->server->dirty;
    session->server->dirty = session;
}

qpc_buffer *qpc_session_output(qpc_session *session) {
    session->out_before = qpc_session_queued(session);
    return &session->out;
}

void qpc_session_sent(qpc_session *session) {
    qpc_server *server = session->server;
    if (session->state == QPC_SESSION_CLOSED) {
        session->out.size = 0;
        return;
    }
    size_t queued = qpc_session_queued(session);
    // One message is always admitted to an empty queue.
    if (queued > (size_t)server->options.max_queued_bytes && session->out_before > 0) {
        qpc_count(&server->counters, sessions_slow, 1);
        qpc_log(QPC_LOG_WARN, "session_slow",
                "session=%" PRIu64 " peer=%s queued=%zu msg=\"closed: its reader is too slow, "
                "--max-queued-bytes\"",
                session->id, session->peer, queued);
        qpc_session_close(session);
        return;
    }
    if (queued > output_mark(session)) session->held_back = true;
    mark_dirty(session);
}

void qpc_session_send(qpc_session *session, qpc_buffer *buffer) {
    if (session->state == QPC_SESSION_CLOSED || buffer->size == 0) return;
    qpc_buffer *out = qpc_session_output(session);
    if (out->size == 0 && buffer->size >= 4096) {
        qpc_buffer empty = *out;
        *out = *buffer;
        *buffer = empty;
    } else if (qpc_buffer_append(out, buffer->data, buffer->size) != QPC_OK) {
        qpc_session_close(session); // a reply would be missing
        return;
    }
    qpc_session_sent(session);
}

/// Room again: go on with what was held back.
static void on_output_room(qpc_session *session) {
    if (session->held_back && qpc_session_queued(session) <= output_mark(session) / 2) {
        session->held_back = false;
        consume_waiting(session);
    }
    if (session->state == QPC_SESSION_OPEN) qpc_stream_resume(session);
}

static void on_written(uv_write_t *write, int status) {
    write_job *job = (write_job *)(void *)write;
    qpc_session *session = job->session;
    session->writing -= job->size;
    if (status == 0) qpc_count(&session->server->counters, bytes_out, job->size);
    qpc_free(job->data);
    qpc_free(job);
    if (session->state == QPC_SESSION_CLOSED) return;
    if (status != 0) {
        qpc_session_close(session);
        return;
    }
    qpc_server_touch(session->server);
    qpc_session_flush(session);
}

static void write_out(qpc_session *session) {
    qpc_buffer *out = &session->out;
    if (out->size == 0 || session->writing > 0) return;
    uv_buf_t whole = uv_buf_init((char *)out->data, (unsigned)out->size);
    int written = uv_try_write(&session->io.stream, &whole, 1);
    if (written < 0 && written != UV_EAGAIN) {
        qpc_session_close(session);
        return;
    }
    size_t done = written > 0 ? (size_t)written : 0;
    qpc_count(&session->server->counters, bytes_out, done);
    if (done == out->size) {
        out->size = 0;
        if (out->capacity > KEEP_OUTPUT) qpc_buffer_fini(out);
        return;
    }
    // The socket is full: libuv writes the rest when it can, and owns the bytes until then.
    write_job *job = qpc_alloc(sizeof *job);
    if (job == NULL) {
        qpc_session_close(session);
        return;
    }
    job->session = session;
    job->data = out->data;
    job->size = out->size - done;
    uv_buf_t rest = uv_buf_init((char *)out->data + done, (unsigned)job->size);
    *out = (qpc_buffer){0};
    session->writing = job->size;
    if (uv_write(&job->write, &session->io.stream, &rest, 1, on_written) != 0) {
        session->writing = 0;
        qpc_free(job->data);
        qpc_free(job);
        qpc_session_close(session);
    }
}

void qpc_session_flush(qpc_session *session) {
    if (session->state != QPC_SESSION_CLOSED) write_out(session);
    if (session->state != QPC_SESSION_CLOSED) on_output_room(session);
    if (session->state == QPC_SESSION_OPEN && session->resting) {
        session->resting = false;
        consume_waiting(session);
    }
    if (session->state != QPC_SESSION_CLOSED) settle(session);
    free_if_gone(session);
}

// ---- requests that come back ----

void qpc_session_complete(qpc_session *session, qpc_request *request) {
    qpc_server *server = session->server;
    session->in_flight--;
    server->in_flight--;
    qpc_session_discharge(session, request->charged);
    if (request->failed) qpc_count(&server->counters, errors, 1);
    if (request->wants_reply && session->state != QPC_SESSION_CLOSED) {
        if (request->reply.size > 0) {
            qpc_session_send(session, &request->reply);
        } else {
            qpc_session_close(session); // not even an error could be encoded
        }
    }
    qpc_request_destroy(request);
    if (session->state != QPC_SESSION_CLOSED) settle(session);
    free_if_gone(session);
}

// ---- large messages ----

typedef struct decoding {
    qpc_status status;
    qpc_error error;
} decoding;

static void decode_on_worker(qpc_task *task) {
    qpc_request *request = (qpc_request *)(void *)((char *)task - offsetof(qpc_request, task));
    decoding *d = request->object;
    d->status = qpc_rpc_parse(request->bytes, request->size, &request->message, &d->error);
    qpc_bridge_send(&request->server->bridge, &request->post);
}

static void decoded(qpc_post *post) {
    qpc_request *request = (qpc_request *)(void *)((char *)post - offsetof(qpc_request, post));
    qpc_session *session = request->session;
    decoding *d = request->object;
    session->decoding = false;
    session->in_flight--;
    session->server->in_flight--;
    qpc_session_discharge(session, request->charged);
    if (session->state == QPC_SESSION_OPEN) {
        qpc_router_dispatch(session, &request->message, d->status, &d->error, &request->bytes,
                            request->size, request->charged);
    }
    qpc_request_destroy(request);
    if (session->state == QPC_SESSION_OPEN) consume_waiting(session);
    if (session->state != QPC_SESSION_CLOSED) settle(session);
    free_if_gone(session);
}

/// A worker decodes it, so that the loop stays free; takes bytes over, also on failure.
static void decode_apart(qpc_session *session, uint8_t *bytes, size_t size, size_t cost) {
    qpc_error error = {0};
    qpc_request *request = qpc_request_create(QPC_METHOD_COUNT);
    decoding *d = qpc_calloc(1, sizeof *d);
    qpc_status status = QPC_OK;
    if (bytes == NULL || request == NULL || d == NULL) {
        status = qpc_fail(&error, QPC_ERR_MEMORY, "out of memory for a message of %zu bytes", size);
    } else {
        status = qpc_session_charge(session, cost, &error);
    }
    if (status != QPC_OK) {
        qpc_free(bytes);
        qpc_free(d);
        qpc_request_destroy(request);
        qpc_session_reject(session, &error);
        return;
    }
    request->server = session->server;
    request->session = session;
    request->bytes = bytes;
    request->size = size;
    request->charged = cost;
    request->object = d;
    request->free_object = qpc_free;
    request->task.run = decode_on_worker;
    request->post.run = decoded;
    session->decoding = true;
    session->in_flight++;
    session->server->in_flight++;
    qpc_pool_push(session->server->pool, &request->task);
}

static uint8_t *copy_of(const uint8_t *bytes, size_t size) {
    uint8_t *copy = qpc_alloc(size);
    if (copy != NULL) memcpy(copy, bytes, size);
    return copy;
}

/// The first message of the session's own buffer is a large one: it takes the buffer along.
static void take_buffer(qpc_session *session, size_t size, size_t cost) {
    size_t rest = session->in_size - size;
    uint8_t *bytes = session->in;
    uint8_t *tail = rest > 0 ? copy_of(bytes + size, rest) : NULL;
    qpc_session_discharge(session, session->in_capacity);
    session->in = NULL;
    session->in_size = session->in_capacity = 0;
    if (rest > 0) {
        qpc_error error = {0};
        qpc_status status = tail != NULL ? qpc_session_charge(session, rest, &error)
                                         : qpc_fail(&error, QPC_ERR_MEMORY, "out of memory");
        if (status != QPC_OK) {
            qpc_free(tail);
            qpc_free(bytes);
            qpc_session_reject(session, &error);
            return;
        }
        session->in = tail;
        session->in_size = session->in_capacity = rest;
    }
    decode_apart(session, bytes, size, cost);
}

// ---- input ----

static bool may_consume(const qpc_session *session) {
    return session->state == QPC_SESSION_OPEN && !session->decoding && !session->held_back &&
           !session->resting;
}

static qpc_scan_limits scan_limits(const qpc_session *session) {
    const qpc_options *o = &session->server->options;
    qpc_scan_limits limits = qpc_scan_limits_default();
    limits.max_message = session->authorised ? (size_t)o->max_message_bytes : UNKNOWN_MESSAGE;
    limits.max_depth = (int32_t)o->max_depth;
    limits.max_items = (size_t)o->max_items;
    return limits;
}

/// Handles the whole messages in bytes; returns how many bytes that were. own: bytes are the
/// session's buffer; if a large message takes it along, *ret_taken is set and nothing is left to do.
static size_t consume(qpc_session *session, const uint8_t *bytes, size_t size, bool own,
                      bool *ret_taken) {
    qpc_error error;
    size_t at = 0;
    for (int messages = 0; at < size && may_consume(session); messages++) {
        if (messages == TURN_MESSAGES) {
            session->resting = true;
            mark_dirty(session);
            break;
        }
        qpc_scan_limits limits = scan_limits(session);
        size_t whole = 0;
        qpc_scan_outcome outcome =
            qpc_scan(&session->scanner, bytes + at, size - at, &limits, &whole, &error);
        if (outcome == QPC_SCAN_PARTIAL) break;
        if (outcome == QPC_SCAN_MALFORMED) {
            // Where the next message would begin is unknown.
            qpc_count(&session->server->counters, malformed, 1);
            qpc_session_reject(session, &error);
            return size;
        }
        size_t cost = qpc_message_cost(whole, session->scanner.items);
        session->scanner = (qpc_scanner){0};
        if (whole < QPC_LARGE_MESSAGE) {
            qpc_router_handle(session, bytes + at, whole, cost);
            at += whole;
        } else if (own && at == 0) {
            *ret_taken = true;
            take_buffer(session, whole, cost);
            return 0;
        } else {
            decode_apart(session, copy_of(bytes + at, whole), whole, cost);
            at += whole;
        }
    }
    return at;
}

/// Go on with what waits in the session's buffer.
static void consume_waiting(qpc_session *session) {
    if (session->in_size == 0) return;
    bool taken = false;
    size_t used = consume(session, session->in, session->in_size, true, &taken);
    if (taken || session->state == QPC_SESSION_CLOSED) return;
    session->in_size -= used;
    if (session->in_size > 0) {
        memmove(session->in, session->in + used, session->in_size);
        return;
    }
    qpc_free(session->in);
    session->in = NULL;
    qpc_session_discharge(session, session->in_capacity);
    session->in_capacity = 0;
}

/// Room for more bytes behind those that wait. Grows with what has arrived, never with what a header
/// claims.
static qpc_status reserve_input(qpc_session *session, size_t more, qpc_error *err) {
    size_t want = session->in_size + more;
    if (want <= session->in_capacity) return QPC_OK;
    size_t grown = 2 * session->in_capacity;
    if (grown < want) grown = want;
    size_t added = grown - session->in_capacity;
    qpc_status status = qpc_session_charge(session, added, err);
    if (status != QPC_OK) return status;
    uint8_t *in = qpc_realloc(session->in, grown);
    if (in == NULL) {
        qpc_session_discharge(session, added);
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for %zu bytes of input", grown);
    }
    session->in = in;
    session->in_capacity = grown;
    return QPC_OK;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf) {
    qpc_session *session = handle->data;
    qpc_server *server = session->server;
    (void)suggested;
    if (session->in_size == 0 || session->state != QPC_SESSION_OPEN) {
        *buf = uv_buf_init((char *)server->chunk, sizeof server->chunk);
        return;
    }
    qpc_error error = {0};
    if (reserve_input(session, QPC_READ_CHUNK / 4, &error) != QPC_OK) {
        *buf = uv_buf_init(NULL, 0);
        qpc_session_reject(session, &error);
        return;
    }
    *buf = uv_buf_init((char *)session->in + session->in_size,
                       (unsigned)(session->in_capacity - session->in_size));
}

/// What is left of the server's chunk waits in a buffer of the session's own.
static void keep_rest(qpc_session *session, const uint8_t *bytes, size_t size) {
    if (size == 0 || session->state != QPC_SESSION_OPEN) return;
    qpc_error error = {0};
    if (reserve_input(session, size, &error) != QPC_OK) {
        qpc_session_reject(session, &error);
        return;
    }
    memcpy(session->in + session->in_size, bytes, size);
    session->in_size += size;
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf) {
    qpc_session *session = stream->data;
    qpc_server *server = session->server;
    if (count == 0 || session->state == QPC_SESSION_CLOSED) return;
    if (count < 0) {
        if (count == UV_ENOBUFS) {
            settle(session); // rejected in on_alloc
        } else if (count == UV_EOF) {
            session->eof = true;
            session->reading = false; // libuv has stopped by itself
            uv_read_stop(stream);
            if (session->shut) {
                qpc_session_close(session);
            } else {
                settle(session);
            }
        } else {
            qpc_session_close(session);
        }
        return;
    }
    qpc_count(&server->counters, bytes_in, count);
    qpc_server_touch(server);
    if (session->state != QPC_SESSION_OPEN) return; // thrown away
    session->input_ns = server->active_ns;
    if (buf->base == (char *)server->chunk) {
        bool taken = false;
        size_t used = consume(session, server->chunk, (size_t)count, false, &taken);
        keep_rest(session, server->chunk + used, (size_t)count - used);
    } else {
        session->in_size += (size_t)count;
        consume_waiting(session);
    }
    if (session->state != QPC_SESSION_CLOSED) settle(session);
}
