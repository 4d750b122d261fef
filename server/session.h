/// One connection: bytes in -> scan -> envelope -> router, replies out. Loop thread.
///
/// Input. Small messages are handled where they were read; a large one takes its buffer along and is
/// decoded on a worker, while the session waits for it, so that its messages keep their order.
/// Output. Replies gather in one buffer, written at once at the end of a turn; what the socket does
/// not take waits in libuv. Above a mark the session is not read any more (its requests wait in the
/// kernel), above the limit it is closed: a slow reader never grows the server.
/// End. A half-closed session gets all its replies, then it is closed. After bytes that make no
/// sense the error goes out first, then the session is closed; what still comes in is thrown away
/// for a moment, since closing on unread bytes would reset the connection and lose the error.
#ifndef QPC_SERVER_SESSION_H
#define QPC_SERVER_SESSION_H

#include "protocol/rpc.h"
#include "protocol/scan.h"
#include "server/request.h"
#include "server/stream.h"

#include <uv.h>

typedef struct qpc_upload qpc_upload; // handlers_mesh.c
void qpc_upload_destroy(qpc_upload *upload);

enum { QPC_CLIENT_NAME_SIZE = 64, QPC_UPLOADS_MAX = 4, QPC_SUBSCRIPTIONS_MAX = 64 };

struct qpc_session {
    qpc_server *server;
    qpc_session *previous, *next; // in the server's list
    qpc_session *next_dirty;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } io;
    uint64_t id;
    char peer[80], client[QPC_CLIENT_NAME_SIZE];
    bool local;      // Unix socket
    bool authorised; // no token is asked for, or it was right
    bool bulk;       // hello.role
    bool bin_keys;   // hello.array_keys

    enum {
        QPC_SESSION_OPEN,
        QPC_SESSION_FINISHING, // no more input is looked at; output goes out, then it is closed
        QPC_SESSION_CLOSED,    // uv_close was called
    } state;
    bool eof;      // the peer sends no more
    bool reading;  // uv_read_start is in force
    bool decoding; // a large message is on a worker: the next ones wait
    bool dirty;    // in the list of sessions with output to write
    bool held_back; // output is above the mark: no more requests until it has gone out
    bool resting;  // has had its share of this turn; goes on in the next one
    bool abandon;  // FINISHING does not wait for requests under way
    bool shut;     // our side has been shut down; waiting for the peer to close
    bool handle_gone; // libuv is done with the handle
    int64_t linger_until; // when shut: close by force then
    uv_shutdown_t shutdown;

    // Input that is not handled yet.
    uint8_t *in;
    size_t in_size, in_capacity;
    qpc_scanner scanner;
    int64_t input_ns; // when bytes came last

    // Output.
    qpc_buffer out;
    size_t out_before; // queued bytes before the message being appended
    size_t writing;    // bytes that libuv holds
    int32_t garbage; // malformed messages so far

    int32_t in_flight; // requests whose reply is to come; they keep the session alive
    size_t charged;    // bytes of the budget
    qpc_upload *uploads[QPC_UPLOADS_MAX];
    qpc_subscription *subscriptions;
    int32_t subscription_count;
    size_t frames_held; // bytes that wait in the queues of its subscriptions
    uint32_t next_subscription;
};

/// Takes a connection from the listener. NULL when memory is out or accepting failed.
qpc_session *qpc_session_accept(qpc_server *server, uv_stream_t *listener, bool local);
/// End of a turn: write what has gathered, go on with input that waited for that.
void qpc_session_flush(qpc_session *session);
/// Append encoded messages of the caller; moves the bytes if it can.
void qpc_session_send(qpc_session *session, qpc_buffer *buffer);
/// The buffer to append a message to; call qpc_session_sent afterwards.
qpc_buffer *qpc_session_output(qpc_session *session);
void qpc_session_sent(qpc_session *session);
/// Bytes that wait for the reader.
size_t qpc_session_queued(const qpc_session *session);
/// Send the notification "error" and close once it is out.
void qpc_session_reject(qpc_session *session, const qpc_error *error);
/// Look at no more input; close once all replies are out.
void qpc_session_finish(qpc_session *session);
/// Close at once.
void qpc_session_close(qpc_session *session);
/// A request of it came back: its reply is sent if the session still lives.
void qpc_session_complete(qpc_session *session, qpc_request *request);
/// Once a second: read timeout, lingering ends.
void qpc_session_tick(qpc_session *session, int64_t now_ns);
/// What a message takes once it is decoded, its own bytes included: elements cost far more as values
/// than on the wire.
static inline size_t qpc_message_cost(size_t size, size_t items) {
    return size + items * (sizeof(qpc_pair) + 24); // 24: what the decoder takes besides
}
/// Charge bytes to the budgets of the session and the server. QPC_ERR_LIMIT names the option.
qpc_status qpc_session_charge(qpc_session *session, size_t bytes, qpc_error *err);
void qpc_session_discharge(qpc_session *session, size_t bytes);

#endif
