/// What `qpc` prints: errors, JSON, progress, and reading of result maps.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "client/cli/cli.h"
#include "client/libqpc/address.h"

// ---- errors and JSON ----

bool cli_set(qpc_value *map, const char *key, qpc_value v) {
    return qpc_map_set(map, key, v) == QPC_OK;
}

cli_exit cli_print_json(const cli *c, qpc_value *v) {
    char *text;
    qpc_error err = {0};
    qpc_status status = qpc_json_write(v, 2, false, &text, &err);
    qpc_value_fini(v);
    if (status != QPC_OK) {
        fprintf(stderr, "qpc: %s\n", err.message);
        return CLI_SERVER_ERROR;
    }
    puts(text);
    qpc_free(text);
    if (fflush(stdout) == 0 && !ferror(stdout)) return CLI_OK;
    (void)c;
    fprintf(stderr, "qpc: cannot write to standard output\n");
    return CLI_BAD_FILE;
}

cli_exit cli_fail(const cli *c, cli_exit code, const qpc_error *err, const qpc_value *data) {
    fflush(stdout);
    fprintf(stderr, "qpc: %s\n",
            err->message[0] != '\0' ? err->message : qpc_status_text(err->status));
    if (!c->json) return code;
    qpc_value error = qpc_map(), root = qpc_map(), copy = qpc_nil();
    if (data != NULL) qpc_value_copy(data, &copy);
    bool ok = cli_set(&error, "code", qpc_int(err->status));
    ok = cli_set(&error, "name", qpc_text_borrow(qpc_status_name(err->status))) && ok;
    ok = cli_set(&error, "message", qpc_text_borrow(err->message)) && ok;
    ok = cli_set(&error, "data", copy) && ok;
    ok = cli_set(&root, "error", error) && ok;
    ok = cli_set(&root, "exit", qpc_int(code)) && ok;
    if (ok) {
        cli_print_json(c, &root);
    } else {
        qpc_value_fini(&root);
    }
    return code;
}

cli_exit cli_fail_call(const cli *c, const qpc_error *err) {
    if (err->status == QPC_ERR_CANCELLED && cli_interrupted())
        return cli_fail(c, CLI_INTERRUPTED, err, NULL);
    bool answered = c->client != NULL && qpc_client_answered(c->client);
    return cli_fail(c, answered ? CLI_SERVER_ERROR : CLI_NO_CONNECTION, err,
                    answered ? qpc_client_error_data(c->client) : NULL);
}

static const qpc_value *answered_data(const cli *c) {
    return c->client != NULL && qpc_client_answered(c->client) ? qpc_client_error_data(c->client) : NULL;
}

bool cli_is_of_input(const cli *c, const qpc_error *err) {
    bool answered = c->client != NULL && qpc_client_answered(c->client), open = c->client != NULL && qpc_client_is_open(c->client);
    switch (err->status) {
    case QPC_ERR_INVALID:
        return answered || open;
    case QPC_ERR_NUMERIC:
    case QPC_ERR_EXISTS:
    case QPC_ERR_NOT_FOUND: // a mesh that nobody uploaded
    case QPC_ERR_UNSUPPORTED:
        return answered;
    case QPC_ERR_LIMIT: // too much of something that has a place; other limits are about what the server holds
        return answered ? cli_at(answered_data(c), "where")->kind == QPC_STR : open;
    default:
        return false;
    }
}

cli_exit cli_fail_input(const cli *c, const qpc_error *err, const char *path) {
    return cli_is_of_input(c, err) ? cli_fail_file(c, err, path, answered_data(c)) : cli_fail_call(c, err);
}

cli_exit cli_fail_file(const cli *c, const qpc_error *err, const char *path, const qpc_value *data) {
    qpc_error named = {0};
    qpc_fail(&named, err->status, "%s: %s", path, err->message);
    return cli_fail(c, CLI_BAD_FILE, &named, data);
}

cli_exit cli_no_memory(const cli *c) {
    qpc_error err = {0};
    qpc_fail(&err, QPC_ERR_MEMORY, "out of memory");
    return cli_fail(c, CLI_SERVER_ERROR, &err, NULL);
}

void cli_warn(const cli *c, const char *format, ...) {
    if (c->quiet) return;
    va_list args;
    va_start(args, format);
    fprintf(stderr, "qpc: ");
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

// ---- result maps ----

const qpc_value *cli_at(const qpc_value *map, const char *key) {
    static const qpc_value nil = {.kind = QPC_NIL};
    const qpc_value *v = map != NULL ? qpc_map_get(map, key) : NULL;
    return v != NULL ? v : &nil;
}

double cli_real(const qpc_value *map, const char *key, double standard) {
    const qpc_value *v = cli_at(map, key);
    if (v->kind == QPC_REAL) return v->real;
    if (v->kind == QPC_INT) return v->is_unsigned ? (double)v->u : (double)v->i;
    return standard;
}

int64_t cli_int(const qpc_value *map, const char *key, int64_t standard) {
    const qpc_value *v = cli_at(map, key);
    if (v->kind == QPC_INT) return v->is_unsigned ? INT64_MAX : v->i;
    if (v->kind == QPC_REAL && fabs(v->real) < 9e15) return (int64_t)v->real;
    return standard;
}

const char *cli_text(const qpc_value *map, const char *key, char *buffer, size_t size) {
    const qpc_value *v = cli_at(map, key);
    buffer[0] = '\0';
    if (v->kind == QPC_STR)
        snprintf(buffer, size, "%.*s", (int)(v->str.size < size ? v->str.size : size - 1),
                 v->str.bytes);
    return buffer;
}

double cli_tensor_at(const qpc_tensor *t, int64_t i) {
    double d;
    float f;
    int64_t l;
    int32_t k;
    uint64_t u;
    size_t size = qpc_dtype_size(t->dtype);
    if (i < 0 || ((size_t)i + 1) * size > t->size) return NAN;
    const char *at = (const char *)t->data + (size_t)i * size;
    switch (t->dtype) {
    case QPC_F64:
        memcpy(&d, at, sizeof d);
        return d;
    case QPC_F32:
        memcpy(&f, at, sizeof f);
        return (double)f;
    case QPC_I32:
        memcpy(&k, at, sizeof k);
        return k;
    case QPC_I64:
        memcpy(&l, at, sizeof l);
        return (double)l;
    case QPC_U64:
        memcpy(&u, at, sizeof u);
        return (double)u;
    case QPC_U8:
        return (double)*(const unsigned char *)at;
    }
    return NAN;
}

void cli_print_bodies(const qpc_value *bodies) {
    if (bodies->kind != QPC_LIST) return;
    int64_t moving = 0;
    for (int32_t i = 0; i < bodies->list.count; i++)
        moving += cli_int(&bodies->list.items[i], "node_count", 0);
    printf("  bodies           %d, %lld nodes that move\n", bodies->list.count, (long long)moving);
    for (int32_t i = 0; i < bodies->list.count; i++) {
        char name[80], kind[32];
        const qpc_value *b = &bodies->list.items[i];
        printf("    %-14s %-10s %lld nodes, radius %g m\n", cli_text(b, "name", name, sizeof name),
               cli_text(b, "kind", kind, sizeof kind), (long long)cli_int(b, "node_count", 0),
               cli_real(b, "radius", 0));
    }
}

/// A body of a pair, given by name or by index.
static void body_name(const qpc_value *which, const qpc_value *bodies, char *out, size_t size) {
    if (which->kind == QPC_STR) {
        snprintf(out, size, "%.*s", (int)which->str.size, which->str.bytes);
        return;
    }
    int64_t i = which->kind == QPC_INT ? which->i : -1;
    out[0] = '\0';
    if (bodies != NULL && bodies->kind == QPC_LIST && i >= 0 && i < bodies->list.count)
        cli_text(&bodies->list.items[i], "name", out, size);
    if (out[0] == '\0') snprintf(out, size, "body %lld", (long long)i);
}

void cli_print_pairs(FILE *out, const qpc_value *pairs, const qpc_value *bodies) {
    if (pairs == NULL || pairs->kind != QPC_LIST) return;
    for (int32_t i = 0; i < pairs->list.count; i++) {
        const qpc_value *pair = &pairs->list.items[i];
        const qpc_value *which = cli_at(pair, "bodies"), *features = cli_at(pair, "features");
        if (which->kind != QPC_LIST || which->list.count != 2) continue;
        char a[80], b[80];
        body_name(&which->list.items[0], bodies, a, sizeof a);
        body_name(&which->list.items[1], bodies, b, sizeof b);
        fprintf(out, "    %s and %s, depth %g m", a, b, cli_real(pair, "depth", NAN));
        if (features->kind == QPC_LIST && features->list.count == 2)
            fprintf(out, " (elements %lld and %lld)", (long long)features->list.items[0].i,
                    (long long)features->list.items[1].i);
        fputc('\n', out);
    }
}

void cli_print_proof(int64_t proven, int64_t not_proven, int64_t unknown) {
    printf("  proven           %lld steps", (long long)proven);
    if (not_proven > 0) printf(", NOT PROVEN %lld", (long long)not_proven);
    if (unknown > 0) printf(", unknown %lld", (long long)unknown);
    putchar('\n');
}

// ---- progress ----

void cli_progress_start(cli_progress *p, const cli *c, const char *label) {
    *p = (cli_progress){.on = !c->quiet,
                        .terminal = isatty(STDERR_FILENO) == 1,
                        .label = label,
                        .started_ms = qpc_now_ms(),
                        .percent = -1};
}

void cli_progress_show(cli_progress *p, double part, const char *text) {
    if (!p->on) return;
    int64_t now = qpc_now_ms();
    int percent = (int)(100 * part);
    if (p->terminal) {
        // Ten times a second is enough for the eye.
        if (p->percent >= 0 && part < 1 && now - p->shown_ms < 100) return;
        char bar[33];
        int filled = (int)(32 * part);
        for (int i = 0; i < 32; i++) bar[i] = i < filled ? '#' : '.';
        bar[32] = '\0';
        fprintf(stderr, "\r%s [%s] %3d %% %s\033[K", p->label, bar, percent, text);
        fflush(stderr);
    } else {
        // A line at each tenth, but not more than one a second before the end.
        if (percent / 10 <= p->percent / 10 && p->percent >= 0) return;
        if (part < 1 && now - p->shown_ms < 1000) return;
        fprintf(stderr, "%s %d %% %s\n", p->label, percent, text);
    }
    p->shown_ms = now;
    p->percent = percent;
}

void cli_progress_end(cli_progress *p) {
    if (p->on && p->terminal && p->percent >= 0) {
        fprintf(stderr, "\r\033[K");
        fflush(stderr);
    }
    p->percent = -1;
}
