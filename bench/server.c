/// What the daemon adds to a step: round trips of a one-particle world against a bare echo between
/// two threads over the same kind of socket, requests per second, and 100 worlds on 1 and 2 workers.
///
///     bench_server QPCOLLIDED [--rounds N] [--workers N] [--spin-us N] [--quick]
///
/// Starts daemons of its own with fresh data folders. Echo and steps take turns in one run, so that
/// both see the same machine; the client blocks in recv() for either. Prints medians over the rounds.
#include "protocol/rpc.h"
#include "protocol/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS_MAX = 31, TRIPS = 4000, WARM_UP = 500, WORLDS = 100 };

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static _Noreturn void give_up(const char *what) {
    fprintf(stderr, "bench_server: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, ascending);
    return values[count / 2];
}

// ---- sockets ----

static void send_all(int fd, const void *bytes, size_t size) {
    const char *at = bytes;
    while (size > 0) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
        if (sent < 0) give_up("send");
        at += sent;
        size -= (size_t)sent;
    }
}

static void receive_exactly(int fd, void *bytes, size_t size) {
    char *at = bytes;
    while (size > 0) {
        ssize_t got = recv(fd, at, size, 0);
        if (got <= 0) give_up("recv");
        at += got;
        size -= (size_t)got;
    }
}

static int connect_to(const char *path, int port) {
    int fd;
    if (path != NULL) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) give_up("connect");
    } else {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                      .sin_port = htons((uint16_t)port)};
        int one = 1;
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) give_up("connect");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    return fd;
}

// ---- the echo ----

typedef struct echo {
    int fd;
    size_t request, reply; // bytes
    pthread_t thread;
} echo;

static void *echo_thread(void *user) {
    echo *e = user;
    char buffer[65536];
    memset(buffer, 'x', sizeof buffer);
    for (;;) {
        ssize_t got = recv(e->fd, buffer, e->request, MSG_WAITALL);
        if (got <= 0) return NULL;
        send_all(e->fd, buffer, e->reply);
    }
}

/// Two connected sockets of the kind, one end served by a thread.
static int start_echo(echo *e, bool local) {
    int ends[2];
    if (local) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) give_up("socketpair");
    } else {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof address;
        int one = 1;
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
            listen(listener, 1) != 0 ||
            getsockname(listener, (struct sockaddr *)&address, &size) != 0) {
            give_up("listen");
        }
        ends[0] = connect_to(NULL, ntohs(address.sin_port));
        ends[1] = accept(listener, NULL, NULL);
        setsockopt(ends[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        close(listener);
    }
    e->fd = ends[1];
    pthread_create(&e->thread, NULL, echo_thread, e);
    return ends[0];
}

static void stop_echo(echo *e, int fd) {
    close(fd);
    pthread_join(e->thread, NULL);
    close(e->fd);
}

static double echo_trip(int fd, size_t request, size_t reply) {
    char buffer[65536];
    memset(buffer, 'x', request);
    double begin = now_us();
    send_all(fd, buffer, request);
    receive_exactly(fd, buffer, reply);
    return now_us() - begin;
}

// ---- the daemon ----

typedef struct daemon {
    pid_t pid;
    int port;
    char folder[64], socket[96];
} daemon_process;

static void start_daemon(daemon_process *d, const char *program, int workers, const char *spin) {
    char data[96], port_file[96], worker_text[16];
    snprintf(d->folder, sizeof d->folder, "/tmp/qpcollide-bench-XXXXXX");
    if (mkdtemp(d->folder) == NULL) give_up("mkdtemp");
    snprintf(data, sizeof data, "%s/data", d->folder);
    snprintf(port_file, sizeof port_file, "%s/port", d->folder);
    snprintf(d->socket, sizeof d->socket, "%s/socket", d->folder);
    snprintf(worker_text, sizeof worker_text, "%d", workers);
    d->pid = fork();
    if (d->pid == 0) {
        execl(program, program, "--listen", "127.0.0.1:0", "--unix", d->socket, "--data", data,
              "--port-file", port_file, "--workers", worker_text, "--log-level", "warn",
              spin != NULL ? "--spin-us" : (char *)NULL, spin, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 500; i++) {
        FILE *file = fopen(port_file, "r");
        if (file != NULL) {
            int got = fscanf(file, "tcp 127.0.0.1 %d", &d->port);
            fclose(file);
            if (got == 1) return;
        }
        usleep(10000);
    }
    give_up("the daemon does not start");
}

static void stop_daemon(daemon_process *d) {
    char command[128];
    int status = 0;
    kill(d->pid, SIGTERM);
    waitpid(d->pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) give_up("the daemon ended badly");
    snprintf(command, sizeof command, "rm -rf %s", d->folder);
    if (system(command) != 0) give_up("rm");
}

// ---- calls ----

typedef struct client {
    int fd;
    uint32_t next_id;
    uint8_t *in;
    size_t size, capacity;
    size_t reply_size;   // of the last one
    double received_us;  // when its bytes had come
} client;

static client open_client(const char *path, int port) {
    client c = {.fd = connect_to(path, port), .capacity = 1 << 20};
    c.in = malloc(c.capacity);
    return c;
}

static void close_client(client *c) {
    close(c->fd);
    free(c->in);
}

static qpc_buffer make_request(client *c, const char *method, const qpc_value *params) {
    qpc_buffer out = {0};
    if (qpc_rpc_request(++c->next_id, method, params, false, &out, NULL) != QPC_OK) {
        give_up("encode");
    }
    return out;
}

/// Wait for one whole message; it stays in c->in until the next call.
static size_t receive_reply(client *c) {
    qpc_scan_limits limits = qpc_scan_limits_default();
    qpc_scanner scanner = {0};
    for (;;) {
        size_t whole = 0;
        if (c->size > 0 &&
            qpc_scan(&scanner, c->in, c->size, &limits, &whole, NULL) == QPC_SCAN_WHOLE) {
            return whole;
        }
        ssize_t got = recv(c->fd, c->in + c->size, c->capacity - c->size, 0);
        if (got <= 0) give_up("recv");
        c->received_us = now_us(); // the echo does not look at its bytes either
        c->size += (size_t)got;
    }
}

static void drop_reply(client *c, size_t size) {
    c->reply_size = size;
    c->size -= size;
    memmove(c->in, c->in + size, c->size);
}

static void check_reply(const client *c, size_t size) {
    qpc_rpc_message m;
    if (qpc_rpc_parse(c->in, size, &m, NULL) != QPC_OK || m.error.kind != QPC_NIL) {
        qpc_error error = {0};
        qpc_error_from_value(&m.error, &error);
        fprintf(stderr, "bench_server: the daemon says: %s\n", error.message);
        exit(1);
    }
    qpc_rpc_message_fini(&m);
}

static uint64_t create_world(client *c, int particles, bool record) {
    qpc_value scene = qpc_map(), bodies = qpc_list(), body = qpc_map(), nodes = qpc_list();
    qpc_value params = qpc_map(), recording = qpc_map();
    for (int i = 0; i < particles; i++) {
        qpc_value point = qpc_list();
        qpc_list_push(&point, qpc_real(0.1 * i));
        qpc_list_push(&point, qpc_real(0));
        qpc_list_push(&point, qpc_real(0));
        qpc_list_push(&nodes, point);
    }
    qpc_map_set(&body, "kind", qpc_text_borrow("cable"));
    qpc_map_set(&body, "nodes", nodes);
    qpc_map_set(&body, "mass", qpc_real(0.7));
    qpc_map_set(&body, "stiffness", qpc_real(1e4));
    qpc_map_set(&body, "radius", qpc_real(0.01));
    qpc_list_push(&bodies, body);
    qpc_map_set(&recording, "enabled", qpc_bool(record));
    qpc_map_set(&scene, "bodies", bodies);
    qpc_map_set(&scene, "record", recording);
    qpc_map_set(&params, "scene", scene);
    qpc_buffer out = make_request(c, "world.create", &params);
    send_all(c->fd, out.data, out.size);
    size_t size = receive_reply(c);
    check_reply(c, size);
    qpc_rpc_message m;
    qpc_rpc_parse(c->in, size, &m, NULL);
    uint64_t id = qpc_map_get(&m.result, "world")->u;
    qpc_rpc_message_fini(&m);
    drop_reply(c, size);
    qpc_buffer_fini(&out);
    qpc_value_fini(&params);
    return id;
}

static qpc_buffer step_request(client *c, uint64_t world, int64_t n) {
    qpc_value params = qpc_map();
    qpc_map_set(&params, "world", qpc_uint(world));
    if (n > 1) qpc_map_set(&params, "n", qpc_int(n));
    qpc_buffer out = make_request(c, "world.step", &params);
    qpc_value_fini(&params);
    return out;
}

// ---- round trips ----

typedef struct figures {
    double p50[ROUNDS_MAX], p99[ROUNDS_MAX];
} figures;

static void note_round(figures *f, int round, double *trips, int count) {
    qsort(trips, (size_t)count, sizeof *trips, ascending);
    f->p50[round] = trips[count / 2];
    f->p99[round] = trips[count * 99 / 100];
}

static void steps_round(client *c, uint64_t world, figures *f, int round) {
    static double trips[TRIPS];
    for (int i = -WARM_UP; i < TRIPS; i++) {
        qpc_buffer out = step_request(c, world, 1);
        double begin = now_us();
        send_all(c->fd, out.data, out.size);
        size_t size = receive_reply(c);
        double took = c->received_us - begin;
        if (i < 0) check_reply(c, size);
        drop_reply(c, size);
        qpc_buffer_fini(&out);
        if (i >= 0) trips[i] = took;
    }
    note_round(f, round, trips, TRIPS);
}

static void echo_round(int fd, size_t request, size_t reply, figures *f, int round) {
    static double trips[TRIPS];
    for (int i = -WARM_UP; i < TRIPS; i++) {
        double took = echo_trip(fd, request, reply);
        if (i >= 0) trips[i] = took;
    }
    note_round(f, round, trips, TRIPS);
}

static void bench_trips(daemon_process *d, bool local, int rounds) {
    const char *kind = local ? "unix" : "tcp";
    client c = open_client(local ? d->socket : NULL, d->port);
    uint64_t plain = create_world(&c, 1, false), recorded = create_world(&c, 1, true);
    static figures bare, sized, steps, recording;
    qpc_buffer probe = step_request(&c, plain, 1);
    size_t request = probe.size;
    send_all(c.fd, probe.data, probe.size);
    size_t reply = receive_reply(&c);
    drop_reply(&c, reply);
    qpc_buffer_fini(&probe);
    for (int round = 0; round < rounds; round++) {
        echo e = {.request = request, .reply = request};
        int fd = start_echo(&e, local);
        echo_round(fd, request, request, &bare, round);
        stop_echo(&e, fd);
        steps_round(&c, plain, &steps, round);
        e = (echo){.request = request, .reply = reply};
        fd = start_echo(&e, local);
        echo_round(fd, request, reply, &sized, round);
        stop_echo(&e, fd);
        steps_round(&c, recorded, &recording, round);
    }
    double echo50 = median(bare.p50, rounds), sized50 = median(sized.p50, rounds);
    double step50 = median(steps.p50, rounds), record50 = median(recording.p50, rounds);
    printf("%-5s echo of %3zu bytes             p50 %7.1f us  p99 %7.1f us\n", kind, request, echo50,
           median(bare.p99, rounds));
    printf("%-5s echo of %3zu, back %4zu bytes   p50 %7.1f us  p99 %7.1f us\n", kind, request,
           reply, sized50, median(sized.p99, rounds));
    printf("%-5s step, not recorded            p50 %7.1f us  p99 %7.1f us  over the echo %+6.1f us\n",
           kind, step50, median(steps.p99, rounds), step50 - echo50);
    printf("%-5s step, recorded                p50 %7.1f us  p99 %7.1f us  over the echo %+6.1f us\n",
           kind, record50, median(recording.p99, rounds), record50 - echo50);
    close_client(&c);
}

// ---- requests per second ----

static void bench_pipeline(daemon_process *d, const char *method, bool world, int depth) {
    enum { TOTAL = 100000 };
    client c = open_client(NULL, d->port);
    qpc_value params = qpc_map();
    if (world) qpc_map_set(&params, "world", qpc_uint(create_world(&c, 1, false)));
    qpc_buffer one = make_request(&c, method, &params);
    double begin = now_us();
    int sent = 0, received = 0;
    while (received < TOTAL) {
        while (sent < TOTAL && sent - received < depth) {
            send_all(c.fd, one.data, one.size);
            sent++;
        }
        size_t size = receive_reply(&c);
        if (received == 0 && world) check_reply(&c, size);
        // Take all that is there at once: moving the rest each time would be quadratic.
        drop_reply(&c, size);
        received++;
    }
    double took = now_us() - begin;
    printf("tcp   %-14s %3d in flight    %9.0f requests/s\n", method, depth, 1e6 * TOTAL / took);
    qpc_buffer_fini(&one);
    qpc_value_fini(&params);
    close_client(&c);
}

// ---- many worlds ----

static double bench_worlds(const char *program, const char *spin, int workers, int steps) {
    daemon_process d;
    start_daemon(&d, program, workers, spin);
    client c = open_client(NULL, d.port);
    uint64_t worlds[WORLDS];
    for (int i = 0; i < WORLDS; i++) worlds[i] = create_world(&c, 50, false);
    double begin = 0;
    for (int round = 0; round < 2; round++) { // the first one warms up
        begin = now_us();
        for (int i = 0; i < WORLDS; i++) {
            qpc_buffer out = step_request(&c, worlds[i], round == 0 ? 10 : steps);
            send_all(c.fd, out.data, out.size);
            qpc_buffer_fini(&out);
        }
        for (int i = 0; i < WORLDS; i++) {
            size_t size = receive_reply(&c);
            check_reply(&c, size);
            drop_reply(&c, size);
        }
    }
    double rate = 1e6 * WORLDS * steps / (now_us() - begin);
    printf("%d worlds of 50 particles on %d worker%s  %9.0f steps/s\n", WORLDS, workers,
           workers == 1 ? " " : "s", rate);
    close_client(&c);
    stop_daemon(&d);
    return rate;
}

int main(int argc, char **argv) {
    const char *program = argc > 1 ? argv[1] : NULL, *spin = NULL;
    int rounds = 7, workers = 2, steps = 400;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            rounds = 1;
            steps = 50;
        } else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
            rounds = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--workers") == 0 && i + 1 < argc) {
            workers = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--spin-us") == 0 && i + 1 < argc) {
            spin = argv[++i];
        } else {
            program = NULL;
        }
    }
    if (program == NULL || rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr,
                "usage: bench_server QPCOLLIDED [--rounds N] [--workers N] [--spin-us N] "
                "[--quick]\n");
        return 2;
    }
    setlinebuf(stdout);
    daemon_process d;
    start_daemon(&d, program, workers, spin);
    bench_trips(&d, false, rounds);
    bench_trips(&d, true, rounds);
    bench_pipeline(&d, "no_such_method", false, 1);
    bench_pipeline(&d, "world.state", true, 1);
    bench_pipeline(&d, "world.step", true, 1);
    bench_pipeline(&d, "world.step", true, 64);
    bench_pipeline(&d, "world.state", true, 64);
    bench_pipeline(&d, "no_such_method", false, 64);
    stop_daemon(&d);
    double one = bench_worlds(program, spin, 1, steps);
    double two = bench_worlds(program, spin, 2, steps);
    printf("two workers are %.2f times as fast as one\n", two / one);
    return 0;
}
