/// What messages cost: scan, decode, encode of a step's request and reply and of a reply with 1 MB
/// of positions, and the answer to an unknown method. Prints the median of 15 blocks, ns an
/// operation, and exact counts (bytes, allocations). One thread.
#include "base/mem.h"
#include "protocol/methods.h"
#include "protocol/rpc.h"
#include "protocol/scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCKS = 15 };

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void need(qpc_status status) {
    if (status == QPC_OK) return;
    fprintf(stderr, "bench: %s\n", qpc_status_name(status));
    exit(1);
}

/// A message, ready to be read and written again and again.
typedef struct message {
    const char *name;
    qpc_value value; // params or result
    bool request;
    qpc_buffer bytes, out;
} message;

static void write_message(message *m, qpc_buffer *out) {
    out->size = 0;
    need(m->request ? qpc_rpc_request(1234, "world.step", &m->value, false, out, NULL)
                    : qpc_rpc_result(1234, &m->value, false, out, NULL));
}

static void encode(message *m) {
    write_message(m, &m->out);
}

static void scan(message *m) {
    qpc_scan_limits limits = qpc_scan_limits_default();
    qpc_scanner scanner = {0};
    size_t whole = 0;
    if (qpc_scan(&scanner, m->bytes.data, m->bytes.size, &limits, &whole, NULL) != QPC_SCAN_WHOLE)
        need(QPC_ERR_MALFORMED);
}

static void decode(message *m) {
    qpc_rpc_message parsed;
    need(qpc_rpc_parse(m->bytes.data, m->bytes.size, &parsed, NULL));
    qpc_rpc_message_fini(&parsed);
}

/// All that a server does to a request before its handler: scan, parse, find, check.
static void receive(message *m) {
    qpc_rpc_message parsed;
    qpc_method method = QPC_METHOD_COUNT;
    scan(m);
    need(qpc_rpc_parse(m->bytes.data, m->bytes.size, &parsed, NULL));
    need(qpc_method_resolve(parsed.method, parsed.method_known_text, &method, NULL));
    need(qpc_method_check_params(method, &parsed.params, NULL));
    qpc_rpc_message_fini(&parsed);
}

static void answer_unknown(message *m) {
    qpc_method method = QPC_METHOD_COUNT;
    qpc_error err = {0};
    qpc_method_resolve("no_such_method", true, &method, &err);
    m->out.size = 0;
    need(qpc_rpc_error(1234, &err, NULL, &m->out));
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const char *what, message *m, void (*operation)(message *)) {
    double block[BLOCKS];
    operation(m);
    uint64_t allocations = qpc_mem_thread_allocations();
    operation(m);
    allocations = qpc_mem_thread_allocations() - allocations;
    // Blocks of about 5 ms.
    double start = now_ns();
    operation(m);
    double once = now_ns() - start;
    int repeat = once > 5e6 ? 1 : (int)(5e6 / (once > 50 ? once : 50));
    for (int b = 0; b < BLOCKS; b++) {
        start = now_ns();
        for (int i = 0; i < repeat; i++) operation(m);
        block[b] = (now_ns() - start) / repeat;
    }
    qsort(block, BLOCKS, sizeof block[0], by_value);
    printf("protocol %-24s %-10s %12.0f ns %9zu bytes %4llu allocations\n", m->name, what,
           block[BLOCKS / 2], m->bytes.size, (unsigned long long)allocations);
}

static void put(qpc_value *map, const char *key, qpc_value item) {
    need(qpc_map_set(map, key, item));
}

static qpc_value step_params(void) {
    qpc_value map = qpc_map();
    put(&map, "world", qpc_int(3));
    put(&map, "n", qpc_int(1));
    put(&map, "expect_step", qpc_int(120000));
    put(&map, "positions", qpc_bool(true));
    return map;
}

/// A reply with the summary of a step (63 fields) and the positions of `nodes` nodes.
static qpc_value step_result(int64_t nodes, const float *positions) {
    static char names[63][16];
    qpc_value map = qpc_map(), summary = qpc_map(), last = qpc_map(), worst = qpc_map();
    put(&map, "reached", qpc_int(120001));
    put(&map, "status", qpc_text_borrow("ok"));
    put(&map, "error", qpc_nil());
    put(&map, "hash", qpc_uint(0x9e3779b97f4a7c15ULL));
    put(&map, "time", qpc_real(600.005));
    for (int i = 0; i < 63; i++) {
        snprintf(names[i], sizeof names[i], "step_field_%02d", i);
        put(&last, names[i], i % 2 == 0 ? qpc_int(i * 1000) : qpc_real(1.0 / (i + 1)));
    }
    static const char *const worst_names[] = {"stat", "prim",          "dual",
                                              "comp", "natural_ratio", "penetration"};
    for (int i = 0; i < 6; i++) put(&worst, worst_names[i], qpc_real(1e-9 * i));
    static const char *const counts[] = {"steps",      "contacts_max", "active_max", "passes_max",
                                         "newton_max", "halvings",     "failsafe"};
    for (int i = 0; i < 7; i++) put(&summary, counts[i], qpc_int(i));
    put(&summary, "wall_s", qpc_real(0.001));
    put(&summary, "cpu_s", qpc_real(0.0009));
    put(&summary, "min_gap", qpc_real(0.98));
    put(&summary, "worst", worst);
    put(&summary, "last", last);
    put(&map, "summary", summary);
    put(&map, "positions", qpc_tensor_borrow(QPC_F32, 2, (const int64_t[]){nodes, 3}, positions));
    return map;
}

int main(void) {
    enum { MANY = 87382 }; // 1 MiB of float32 triples
    float *positions = calloc((size_t)3 * MANY, sizeof *positions);
    if (positions == NULL) need(QPC_ERR_MEMORY);
    message messages[] = {
        {.name = "step request", .value = step_params(), .request = true},
        {.name = "step reply, 1 node", .value = step_result(1, positions)},
        {.name = "step reply, 100 nodes", .value = step_result(100, positions)},
        {.name = "step reply, 1 MiB", .value = step_result(MANY, positions)},
    };
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        message *m = &messages[i];
        write_message(m, &m->bytes);
        measure("encode", m, encode);
        measure("scan", m, scan);
        measure("decode", m, decode);
        if (m->request) measure("receive", m, receive);
        if (m->request) measure("unknown", m, answer_unknown);
        qpc_value_fini(&m->value);
        qpc_buffer_fini(&m->bytes);
        qpc_buffer_fini(&m->out);
    }
    free(positions);
    return 0;
}
