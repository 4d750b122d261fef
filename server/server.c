/// The daemon's loop: start, turns, drain, end. See server.h. Loop thread.
#include "server/server.h"

#include "base/log.h"
#include "base/mem.h"
#include "server/router.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    BACKLOG = 511,
    SLICE_MS = 20,
    PUBLISH_MS = 10,
    DRAIN_TICK_MS = 50,
    // Descriptors that sessions must leave to the loop, the catalogue and the run files.
    RESERVED_FILES = 32,
    MESH_CACHE_BYTES = 512 << 20,
};

#define SECOND_NS INT64_C(1000000000)

// ---- listening ----

static void say(const char *text) { fprintf(stderr, "qpcollided: %s\n", text); }

static void on_connection(uv_stream_t *stream, int status) {
    qpc_listener *listener = stream->data;
    qpc_server *server = listener->server;
    int64_t suppressed;
    qpc_server_touch(server);
    if (status != 0) {
        // libuv has closed the waiting connections with its spare descriptor, so that nothing spins.
        qpc_count(&server->counters, sessions_refused, 1);
        if (qpc_log_admit(&server->accept_log, 1000, &suppressed)) {
            qpc_log(QPC_LOG_WARN, "accept_failed", "suppressed=%" PRId64 " msg=\"%s\"", suppressed,
                    uv_strerror(status));
        }
        return;
    }
    bool full = server->session_count >= server->session_limit;
    qpc_session *session = qpc_session_accept(server, stream, listener->local);
    if (session == NULL) {
        qpc_count(&server->counters, sessions_refused, 1);
        return;
    }
    if (full) {
        qpc_error error = {0};
        qpc_fail(&error, QPC_ERR_LIMIT,
                 "%d sessions are open: --max-connections is %" PRId64
                 ", and the limit on open files counts too",
                 server->session_count - 1, server->options.max_connections);
        qpc_count(&server->counters, sessions_refused, 1);
        qpc_session_reject(session, &error);
        qpc_session_flush(session);
        qpc_session_close(session);
        return;
    }
    qpc_count(&server->counters, sessions_opened, 1);
    qpc_log(QPC_LOG_DEBUG, "session_opened", "session=%" PRIu64 " peer=%s", session->id,
            session->peer);
}

static qpc_status listen_failed(const char *address, int rc, qpc_error *err) {
    return qpc_fail(err, QPC_ERR_IO, "cannot listen on address %s: %s", address,
                    rc == UV_EADDRINUSE ? "the address is already in use" : uv_strerror(rc));
}

/// The name of a bound TCP listener, with the port that was picked.
static void name_listener(qpc_listener *listener) {
    struct sockaddr_storage address;
    int size = sizeof address;
    char text[INET6_ADDRSTRLEN] = "";
    memset(&address, 0, sizeof address);
    if (uv_tcp_getsockname(&listener->io.tcp, (struct sockaddr *)&address, &size) != 0) return;
    if (address.ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address;
        uv_ip6_name(v6, text, sizeof text);
        snprintf(listener->address, sizeof listener->address, "[%s]:%d", text,
                 ntohs(v6->sin6_port));
    } else {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address;
        uv_ip4_name(v4, text, sizeof text);
        snprintf(listener->address, sizeof listener->address, "%s:%d", text, ntohs(v4->sin_port));
    }
}

static qpc_status start_listening(qpc_listener *listener, const char *address, qpc_error *err) {
    int rc = uv_listen(&listener->io.stream, BACKLOG, on_connection);
    if (rc != 0) return listen_failed(address, rc, err);
    qpc_log(QPC_LOG_INFO, "listening", "kind=%s address=%s", listener->local ? "unix" : "tcp",
            listener->address);
    return QPC_OK;
}

static qpc_listener *new_listener(qpc_server *server, bool local) {
    qpc_listener *listener = &server->listeners[server->listener_count];
    listener->server = server;
    listener->local = local;
    int rc = local ? uv_pipe_init(&server->loop, &listener->io.pipe, 0)
                   : uv_tcp_init(&server->loop, &listener->io.tcp);
    if (rc != 0) return NULL;
    server->listener_count++;
    listener->open = true;
    listener->io.handle.data = listener;
    return listener;
}

static void close_listener(qpc_listener *listener) {
    if (!listener->open) return;
    listener->open = false;
    if (listener->bound && listener->local) unlink(listener->address);
    uv_close(&listener->io.handle, NULL);
}

static qpc_status listen_tcp(qpc_server *server, const char *text, qpc_error *err) {
    char host[QPC_ADDRESS_SIZE];
    int port;
    qpc_status status = qpc_options_split_address(text, host, sizeof host, &port, err);
    if (status != QPC_OK) return status;
    struct sockaddr_storage address;
    memset(&address, 0, sizeof address);
    unsigned flags = 0;
    if (uv_ip4_addr(host, port, (struct sockaddr_in *)&address) != 0) {
        if (uv_ip6_addr(host, port, (struct sockaddr_in6 *)&address) == 0) {
            flags = UV_TCP_IPV6ONLY;
        } else {
            // A name: ask the resolver, here at the start where waiting is fine.
            uv_getaddrinfo_t query;
            char service[8];
            snprintf(service, sizeof service, "%d", port);
            struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
            int rc = uv_getaddrinfo(&server->loop, &query, NULL, host, service, &hints);
            if (rc != 0) {
                return qpc_fail(err, QPC_ERR_IO, "cannot listen on address %s: %s", text,
                                uv_strerror(rc));
            }
            memcpy(&address, query.addrinfo->ai_addr, query.addrinfo->ai_addrlen);
            if (address.ss_family == AF_INET6) flags = UV_TCP_IPV6ONLY;
            uv_freeaddrinfo(query.addrinfo);
        }
    }
    qpc_listener *listener = new_listener(server, false);
    if (listener == NULL) return qpc_fail(err, QPC_ERR_IO, "cannot make a socket for %s", text);
    int rc = uv_tcp_bind(&listener->io.tcp, (const struct sockaddr *)&address, flags);
    bool missing = rc == UV_EADDRNOTAVAIL || rc == UV_EAFNOSUPPORT;
    if (missing && server->options.listen_default && address.ss_family == AF_INET6) {
        qpc_log(QPC_LOG_INFO, "no_ipv6", "msg=\"not listening on %s: %s\"", text,
                uv_strerror(rc));
        close_listener(listener);
        return QPC_OK;
    }
    if (rc != 0) return listen_failed(text, rc, err);
    name_listener(listener);
    return start_listening(listener, text, err);
}

/// Somebody answers on the socket: another daemon. Nobody does: a leftover.
static bool unix_socket_is_alive(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = strlen(path);
    if (size >= sizeof address.sun_path) return false;
    memcpy(address.sun_path, path, size);
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0) return false;
    int rc = connect(probe, (const struct sockaddr *)&address, sizeof address);
    bool alive = rc == 0 || errno == EAGAIN;
    close(probe);
    return alive;
}

static qpc_status listen_unix(qpc_server *server, const char *path, qpc_error *err) {
    struct stat info;
    if (lstat(path, &info) == 0) {
        if (!S_ISSOCK(info.st_mode)) {
            return qpc_fail(err, QPC_ERR_IO, "cannot listen on address %s: it is not a socket",
                            path);
        }
        if (unix_socket_is_alive(path)) return listen_failed(path, UV_EADDRINUSE, err);
        unlink(path);
    }
    qpc_listener *listener = new_listener(server, true);
    if (listener == NULL) return qpc_fail(err, QPC_ERR_IO, "cannot make a socket for %s", path);
    snprintf(listener->address, sizeof listener->address, "%s", path);
    mode_t before = umask(0177); // for the user alone, from its first moment
    int rc = uv_pipe_bind(&listener->io.pipe, path);
    umask(before);
    if (rc != 0) return listen_failed(path, rc, err);
    listener->bound = true;
    return start_listening(listener, path, err);
}

static qpc_status write_port_file(qpc_server *server, qpc_error *err) {
    const char *path = server->options.port_file;
    if (path[0] == '\0') return QPC_OK;
    // Whole or not at all: whoever waits for the file never reads half of it.
    char temporary[QPC_PATH_SIZE + 16];
    snprintf(temporary, sizeof temporary, "%s.%d", path, (int)getpid());
    FILE *out = fopen(temporary, "we");
    if (out == NULL) {
        return qpc_fail(err, QPC_ERR_IO, "--port-file: cannot write '%s': %s", path,
                        strerror(errno));
    }
    for (int32_t i = 0; i < server->listener_count; i++) {
        const qpc_listener *listener = &server->listeners[i];
        if (!listener->open) continue;
        if (listener->local) {
            fprintf(out, "unix %s\n", listener->address);
        } else {
            char host[QPC_ADDRESS_SIZE];
            int port = 0;
            qpc_options_split_address(listener->address, host, sizeof host, &port, NULL);
            fprintf(out, "tcp %s %d\n", host, port);
        }
    }
    bool good = fclose(out) == 0 && rename(temporary, path) == 0;
    if (!good) {
        qpc_fail(err, QPC_ERR_IO, "--port-file: cannot write '%s': %s", path, strerror(errno));
        unlink(temporary);
        return QPC_ERR_IO;
    }
    server->wrote_port_file = true;
    return QPC_OK;
}

// ---- sessions ----

void qpc_server_touch(qpc_server *server) { server->active_ns = (int64_t)uv_hrtime(); }

void qpc_server_forget_session(qpc_server *server, qpc_session *session) {
    if (session->previous != NULL) {
        session->previous->next = session->next;
    } else {
        server->sessions = session->next;
    }
    if (session->next != NULL) session->next->previous = session->previous;
    server->session_count--;
    if (server->session_count == 0) server->idle_since_ns = (int64_t)uv_hrtime();
    for (int32_t i = 0; i < server->worlds.actors.count; i++) {
        qpc_actor_owner *owner = qpc_actor_get_owner(server->worlds.actors.data[i]);
        if (owner->exclusive == session) owner->exclusive = NULL;
    }
}

/// Sessions may use what the limit on open files leaves; it is raised first as far as it goes.
static int32_t session_limit(const qpc_options *options) {
    struct rlimit files;
    int64_t limit = options->max_connections;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        if (files.rlim_cur < files.rlim_max) {
            rlim_t before = files.rlim_cur;
            rlim_t want = (rlim_t)(options->max_connections + 4 * options->max_worlds + 256);
            files.rlim_cur = want < files.rlim_max ? want : files.rlim_max;
            if (files.rlim_cur < before || setrlimit(RLIMIT_NOFILE, &files) != 0) {
                files.rlim_cur = before;
            }
        }
        if (files.rlim_cur != RLIM_INFINITY) {
            int64_t reserved = RESERVED_FILES;
            if (files.rlim_cur > 256) reserved = (int64_t)files.rlim_cur / 4;
            int64_t left = (int64_t)files.rlim_cur - reserved;
            if (left < 4) left = 4;
            if (left < limit) limit = left;
        }
    }
    return (int32_t)limit;
}

// ---- worlds ----

static void on_frames(void *user, qpc_actor *actor) { qpc_stream_deliver(user, actor); }

static void discard_idle_worlds(qpc_server *server, int64_t now) {
    for (int32_t i = server->worlds.actors.count - 1; i >= 0; i--) {
        qpc_actor *actor = server->worlds.actors.data[i];
        qpc_actor_owner *owner = qpc_actor_get_owner(actor);
        if (owner->idle_limit_ns == 0 || qpc_actor_get_info(actor).busy) continue;
        if (now - owner->used_ns > owner->idle_limit_ns) {
            qpc_world_discard(server, actor, "idle");
        }
    }
}

// ---- storage ----

/// On the writer thread.
static void on_storage_notice(void *user, const char *event, const char *run_id,
                              qpc_status status, const char *message) {
    char quoted[500];
    (void)user;
    qpc_log(status == QPC_OK ? QPC_LOG_INFO : QPC_LOG_WARN, "storage",
            "kind=%s run=%s status=%s msg=%s", event, run_id != NULL ? run_id : "-",
            qpc_status_name(status), qpc_log_quote(message, quoted, sizeof quoted));
}

static qpc_status open_storage(qpc_server *server, qpc_error *err) {
    const qpc_options *o = &server->options;
    qpc_writer_options writer = {
        .data_dir = o->data_dir,
        .queue_bytes = (uint64_t)o->storage_queue_bytes,
        .notice = on_storage_notice,
        .user = server,
    };
    qpc_status status = qpc_writer_create(&writer, &server->writer, err);
    if (status != QPC_OK) return status;
    qpc_meshes_options meshes = {
        .max_meshes = o->max_meshes,
        .max_bytes = o->max_mesh_bytes,
        .max_vertices = o->max_vertices,
        .max_elements = o->max_elements,
        .cache_bytes = MESH_CACHE_BYTES,
    };
    return qpc_meshes_create(&meshes, server->writer, &server->meshes, err);
}

// ---- timers and signals ----

static void on_tick(uv_timer_t *timer) {
    qpc_server *server = timer->data;
    int64_t now = (int64_t)uv_hrtime();
    qpc_session *next;
    for (qpc_session *session = server->sessions; session != NULL; session = next) {
        next = session->next;
        qpc_session_tick(session, now);
    }
    discard_idle_worlds(server, now);
    int64_t idle = server->options.idle_exit_s;
    if (idle > 0 && server->session_count == 0 && server->in_flight == 0 &&
        now - server->idle_since_ns >= idle * SECOND_NS) {
        qpc_server_drain(server, "idle");
    }
}

static void on_signal(uv_signal_t *handle, int number) {
    qpc_server *server = handle->data;
    if (atomic_load(&server->draining)) {
        qpc_log(QPC_LOG_WARN, "killed", "signal=%d msg=\"second signal: ending at once\"", number);
        _exit(QPC_EXIT_OTHER);
    }
    qpc_server_drain(server, number == SIGTERM  ? "SIGTERM"
                             : number == SIGINT ? "SIGINT"
                                                : "SIGHUP");
}

void qpc_server_drain(qpc_server *server, const char *reason) {
    if (atomic_exchange(&server->draining, true)) return;
    qpc_log(QPC_LOG_INFO, "draining", "reason=%s sessions=%d worlds=%d requests=%d", reason,
            server->session_count, server->worlds.actors.count, server->in_flight);
    for (int32_t i = 0; i < server->listener_count; i++) {
        qpc_listener *listener = &server->listeners[i];
        close_listener(listener);
    }
    uv_timer_start(&server->tick, on_tick, DRAIN_TICK_MS, DRAIN_TICK_MS);
}

// ---- turns ----

void qpc_server_flush(qpc_server *server) {
    qpc_session *session = server->dirty;
    server->dirty = NULL;
    while (session != NULL) {
        qpc_session *next = session->next_dirty;
        session->dirty = false;
        qpc_session_flush(session);
        session = next;
    }
}

/// While draining: true when nothing is left to wait for.
static bool is_drained(qpc_server *server) {
    if (!atomic_load_explicit(&server->draining, memory_order_relaxed)) return false;
    if (server->in_flight > 0) return false;
    int64_t now = (int64_t)uv_hrtime();
    if (server->drain_deadline_ns == 0) {
        server->drain_deadline_ns = now + server->options.drain_s * SECOND_NS;
    }
    qpc_session *next;
    for (qpc_session *session = server->sessions; session != NULL; session = next) {
        next = session->next;
        qpc_session_finish(session);
    }
    if (server->session_count > 0 && now < server->drain_deadline_ns) return false;
    while (server->sessions != NULL) qpc_session_close(server->sessions);
    return true;
}

/// Is it worth looking for work without sleeping? For spin_us after the last, while requests are as
/// a rule done sooner than a sleeping thread wakes up; and never while all workers are busy, since
/// then somebody else has better use for the processor.
static bool should_spin(const qpc_server *server) {
    int64_t spin_ns = server->options.spin_us * 1000;
    if (spin_ns == 0 || server->work_ns > spin_ns) return false;
    if (qpc_pool_is_saturated(server->pool)) return false;
    return (int64_t)uv_hrtime() - server->active_ns < spin_ns;
}

/// One turn: posts, sockets, output; sleeps only when there is nothing to do.
static void turn(qpc_server *server) {
    bool busy = qpc_bridge_drain(&server->bridge) > 0;
    if (busy) qpc_server_flush(server);
    while (!busy && server->dirty == NULL && should_spin(server)) {
        busy = qpc_bridge_drain(&server->bridge) > 0;
        if (busy) qpc_server_flush(server);
        // What a worker has in hand comes through the bridge in a moment; else look at the sockets.
        if (!busy && server->in_flight == 0) uv_run(&server->loop, UV_RUN_NOWAIT);
    }
    if (busy || server->dirty != NULL) {
        uv_run(&server->loop, UV_RUN_NOWAIT);
    } else if (qpc_bridge_may_sleep(&server->bridge)) {
        uv_run(&server->loop, UV_RUN_ONCE);
        qpc_bridge_awake(&server->bridge);
    }
    qpc_server_flush(server);
}

// ---- start and end ----

static qpc_status start_loop(qpc_server *server, qpc_error *err) {
    int rc = uv_loop_init(&server->loop);
    if (rc != 0) return qpc_fail(err, QPC_ERR_IO, "uv_loop_init: %s", uv_strerror(rc));
    qpc_status status = qpc_bridge_init(&server->bridge, &server->loop, err);
    if (status != QPC_OK) return status;
    uv_timer_init(&server->loop, &server->tick);
    server->tick.data = server;
    uv_timer_start(&server->tick, on_tick, 1000, 1000);
    static const int numbers[QPC_SIGNALS] = {SIGTERM, SIGINT, SIGHUP};
    for (int i = 0; i < QPC_SIGNALS; i++) {
        struct sigaction before;
        // Who started us with a signal ignored (nohup) means it.
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN) continue;
        uv_signal_init(&server->loop, &server->signals[i]);
        server->signals[i].data = server;
        rc = uv_signal_start(&server->signals[i], on_signal, numbers[i]);
        if (rc != 0) return qpc_fail(err, QPC_ERR_IO, "uv_signal_start: %s", uv_strerror(rc));
    }
    return QPC_OK;
}

static qpc_status start_workers(qpc_server *server, qpc_error *err) {
    const qpc_options *o = &server->options;
    qpc_pool_options pool = {
        .workers = (int32_t)o->workers,
        .nice = (int32_t)o->nice,
        .spin_us = (int32_t)o->spin_us,
    };
    server->worlds.limit = o->max_worlds;
    qpc_status status = qpc_pool_create(&pool, &server->pool, err);
    if (status != QPC_OK) return status;
    server->actor_env = (qpc_actor_env){
        .pool = server->pool,
        .bridge = &server->bridge,
        .writer = server->writer,
        .meshes = server->meshes,
        .counters = &server->counters,
        .draining = &server->draining,
        .slice_ns = SLICE_MS * INT64_C(1000000),
        .publish_ns = PUBLISH_MS * INT64_C(1000000),
        .mailbox_capacity = (int32_t)o->max_requests_queued,
        .max_message = (size_t)o->max_message_bytes,
        .max_nodes = o->max_nodes,
        .max_world_memory = o->max_world_memory,
        .max_worlds_memory = o->max_worlds_memory,
        .worlds_memory = &server->worlds_memory,
        .record = o->record,
        .on_frames = on_frames,
        .user = server,
    };
    return QPC_OK;
}

static void close_any(uv_handle_t *handle, void *user) {
    (void)user;
    if (!uv_is_closing(handle)) uv_close(handle, NULL);
}

/// In the reverse order of the start; works after a start that failed half-way.
static void stop(qpc_server *server) {
    for (int32_t i = 0; i < server->listener_count; i++) {
        close_listener(&server->listeners[i]);
    }
    qpc_pool_destroy(server->pool);
    qpc_bridge_drain(&server->bridge);
    qpc_server_flush(server);
    while (server->worlds.actors.count > 0) {
        qpc_actor *actor = server->worlds.actors.data[server->worlds.actors.count - 1];
        qpc_stream_end_world(actor);
        qpc_worlds_remove(&server->worlds, actor);
        qpc_actor_free(actor);
    }
    qpc_worlds_fini(&server->worlds);
    qpc_meshes_destroy(server->meshes);
    qpc_writer_destroy(server->writer);
    qpc_bridge_close(&server->bridge);
    uv_walk(&server->loop, close_any, NULL);
    uv_run(&server->loop, UV_RUN_DEFAULT);
    uv_loop_close(&server->loop);
    if (server->wrote_port_file) unlink(server->options.port_file);
}

static void log_start(const qpc_server *server) {
    const qpc_options *o = &server->options;
    char quoted[QPC_PATH_SIZE + 16];
    qpc_log(QPC_LOG_INFO, "started",
            "version=%s pid=%d workers=%" PRId64 " spin_us=%" PRId64
            " sessions_max=%d record=%s data=%s",
            QPC_VERSION, (int)getpid(), o->workers, o->spin_us, server->session_limit,
            o->record ? "yes" : "no", qpc_log_quote(o->data_dir, quoted, sizeof quoted));
}

static int fail_start(const qpc_error *error, int code) {
    char quoted[700];
    qpc_log(QPC_LOG_ERROR, "start_failed", "status=%s msg=%s", qpc_status_name(error->status),
            qpc_log_quote(error->message, quoted, sizeof quoted));
    say(error->message);
    return code;
}

int qpc_server_run(const qpc_options *options) {
    qpc_server *server = qpc_calloc(1, sizeof *server);
    qpc_error error = {0};
    if (server == NULL) {
        say("out of memory");
        return QPC_EXIT_OTHER;
    }
    server->options = *options;
    server->started_ns = server->idle_since_ns = (int64_t)uv_hrtime();
    server->session_limit = session_limit(options);
    int code = QPC_EXIT_CLEAN;
    // Writing to a closed socket or beyond a file size limit is an error to handle, not the end.
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);

    if (start_loop(server, &error) != QPC_OK) {
        code = fail_start(&error, QPC_EXIT_OTHER);
        qpc_free(server);
        return code;
    }
    for (int32_t i = 0; i < options->listen_count && code == QPC_EXIT_CLEAN; i++) {
        if (listen_tcp(server, options->listen[i], &error) != QPC_OK) {
            code = fail_start(&error, QPC_EXIT_LISTEN);
        }
    }
    if (code == QPC_EXIT_CLEAN && options->unix_path[0] != '\0' &&
        listen_unix(server, options->unix_path, &error) != QPC_OK) {
        code = fail_start(&error, QPC_EXIT_LISTEN);
    }
    if (code == QPC_EXIT_CLEAN && open_storage(server, &error) != QPC_OK) {
        code = fail_start(&error, QPC_EXIT_DATA);
    }
    if (code == QPC_EXIT_CLEAN && (start_workers(server, &error) != QPC_OK ||
                                   write_port_file(server, &error) != QPC_OK)) {
        code = fail_start(&error, QPC_EXIT_OTHER);
    }
    if (code == QPC_EXIT_CLEAN) {
        log_start(server);
        while (!is_drained(server)) turn(server);
    }
    stop(server);
    if (code == QPC_EXIT_CLEAN) {
        qpc_log(QPC_LOG_INFO, "stopped", "steps=%" PRIu64 " requests=%" PRIu64,
                atomic_load(&server->counters.steps), atomic_load(&server->counters.requests));
    }
    qpc_free(server);
    return code;
}
