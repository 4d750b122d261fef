/// The daemon: one loop, its listeners and sessions, the workers, the worlds and the storage.
///
/// Start: listeners, data folder, workers. Then the loop turns: sockets and timers by libuv, posts
/// of the workers by the bridge, output of the sessions at the end of each turn. It spins for a
/// moment after it was busy, since waking from sleep takes longer than a small step.
/// Drain (SIGTERM, SIGINT, SIGHUP, server.drain, idle exit): no more connections; batches stop between two
/// steps; replies go out; sessions close; worlds and runs close; the writer empties. A second signal
/// ends the process at once.
#ifndef QPC_SERVER_SERVER_H
#define QPC_SERVER_SERVER_H

#include "server/actor.h"
#include "server/meshes.h"
#include "server/options.h"
#include "server/session.h"
#include "server/worlds.h"

enum { QPC_READ_CHUNK = 64 * 1024, QPC_LARGE_MESSAGE = 32 * 1024, QPC_SIGNALS = 3 };

typedef struct qpc_listener {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } io;
    qpc_server *server;
    bool open, local, bound;
    char address[QPC_PATH_SIZE]; // "127.0.0.1:7447", or the path
} qpc_listener;

struct qpc_server {
    qpc_options options;
    uv_loop_t loop;
    qpc_bridge bridge;
    uv_timer_t tick;
    uv_signal_t signals[QPC_SIGNALS];
    qpc_listener listeners[QPC_LISTEN_MAX + 1];
    int32_t listener_count;
    qpc_pool *pool;
    qpc_writer *writer;
    qpc_meshes *meshes;
    qpc_worlds worlds;
    qpc_actor_env actor_env;
    qpc_counters counters;
    qpc_session *sessions, *dirty;
    int32_t session_count, session_limit;
    uint64_t next_session;
    int32_t in_flight; // requests outside the loop
    size_t charged;    // bytes of input of all sessions
    size_t queued;     // bytes of output of all sessions
    int64_t started_ns, idle_since_ns, active_ns;
    int64_t work_ns; // running mean of what a request takes on a worker
    int64_t drain_deadline_ns;
    atomic_bool draining;
    _Atomic int64_t worlds_memory;
    qpc_log_limit refused_log, accept_log, garbage_log;
    uint8_t chunk[QPC_READ_CHUNK]; // where sessions without a half message read into
    bool wrote_port_file;
};

enum {
    QPC_EXIT_CLEAN = 0,
    QPC_EXIT_USAGE = 2,
    QPC_EXIT_LISTEN = 3,
    QPC_EXIT_DATA = 4,
    QPC_EXIT_OTHER = 5,
};

/// Everything from start to end; returns the exit code. Errors are logged and written to standard
/// error.
int qpc_server_run(const qpc_options *options);
/// Begin to stop; reason for the log.
void qpc_server_drain(qpc_server *server, const char *reason);
/// A session has gone: counts, list.
void qpc_server_forget_session(qpc_server *server, qpc_session *session);
/// End of a turn: write what the sessions have to say, go on with what waited for that.
void qpc_server_flush(qpc_server *server);
/// The loop had something to do: spin for a while before it sleeps.
void qpc_server_touch(qpc_server *server);

#endif
