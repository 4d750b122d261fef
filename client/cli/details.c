/// `qpc events`, `qpc forces`: what happened in a recorded run, and the forces of one of its steps.
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "client/cli/cli.h"

/// Reads the arguments, connects, and finds the run that the one positional argument names. False: the command ends with *ret_code.
static bool open_run(cli *c, const cli_command *command, const cli_option *options, int argc, char **argv, char ret_id[33],
                     cli_exit *ret_code) {
    const char *text;
    int count;
    if (!cli_parse(command, options, argc, argv, &text, &count, ret_code)) return false;
    qpc_value entry = qpc_nil();
    cli_exit code = cli_connect(c, true);
    if (code == CLI_OK) code = cli_find_run(c, text, ret_id, &entry);
    qpc_value_fini(&entry);
    *ret_code = code;
    return code == CLI_OK;
}

static cli_exit print_copy(const cli *c, const qpc_value *v) {
    qpc_value copy;
    return qpc_value_copy(v, &copy) == QPC_OK ? cli_print_json(c, &copy) : cli_no_memory(c);
}

// ---- events ----

static qpc_status ask_events(cli *c, const char *run, int64_t from, int64_t to, qpc_message *ret, qpc_error *err) {
    qpc_value params = qpc_map();
    bool ok = cli_set(&params, "run", qpc_text_borrow(run)) && cli_set(&params, "from", qpc_int(from));
    if (ok && to >= 0) ok = cli_set(&params, "to", qpc_int(to));
    qpc_status status = ok ? qpc_call(c->client, "run.events", &params, ret, err)
                           : qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    qpc_value_fini(&params);
    return status;
}

static void print_events(const qpc_value *events) {
    for (int32_t i = 0; i < events->list.count; i++) {
        const qpc_value *e = &events->list.items[i];
        char kind[32], subject[80], message[1024];
        cli_text(e, "subject", subject, sizeof subject);
        printf("%10lld  %-16s  %s%s%s\n", (long long)cli_int(e, "step", -1), cli_text(e, "kind", kind, sizeof kind),
               subject, subject[0] != '\0' ? ": " : "", cli_text(e, "message", message, sizeof message));
    }
}

/// Adds a page to `all`, for JSON.
static bool keep_events(qpc_value *all, const qpc_value *events) {
    for (int32_t i = 0; i < events->list.count; i++) {
        qpc_value copy;
        if (qpc_value_copy(&events->list.items[i], &copy) != QPC_OK || qpc_list_push(all, copy) != QPC_OK) return false;
    }
    return true;
}

cli_exit cli_events(cli *c, int argc, char **argv) {
    int64_t from = 0, to = -1;
    const cli_option options[] = {{"from", CLI_COUNT, &from, "STEP", "first step"},
                                  {"to", CLI_COUNT, &to, "STEP", "last step"},
                                  CLI_DATA_OPTION(c),
                                  CLI_SERVER_OPTIONS(c),
                                  {NULL, CLI_FLAG, NULL, NULL, NULL}};
    static const cli_command command = {"events", "RUN", "What happened in a recorded run: rows that contradicted, motions cut short, gaps.",
                                        1, 1, "RUN is an id, the beginning of one, the path of its file, or \"last\"."};
    char id[33];
    cli_exit code;
    if (!open_run(c, &command, options, argc, argv, id, &code)) return code;
    qpc_value all = qpc_list();
    while (code == CLI_OK && from >= 0) {
        qpc_message m = {0};
        qpc_error err = {0};
        if (ask_events(c, id, from, to, &m, &err) != QPC_OK) {
            code = cli_fail_call(c, &err);
            break;
        }
        const qpc_value *events = cli_at(m.value, "events");
        int64_t next = cli_int(m.value, "next", -1);
        if (events->kind == QPC_LIST && !c->json) print_events(events);
        if (events->kind == QPC_LIST && c->json && !keep_events(&all, events)) code = cli_no_memory(c);
        from = next > from ? next : -1;
        qpc_message_fini(&m);
    }
    if (code == CLI_OK && c->json) return cli_print_json(c, &all);
    qpc_value_fini(&all);
    return code;
}

// ---- forces ----

typedef struct names { // of bodies; borrowed
    const qpc_value *bodies;
} names;

static const char *body_name(const names *n, double body, char *buffer, size_t size) {
    int32_t i = (int32_t)body;
    buffer[0] = '\0';
    if (n->bodies->kind == QPC_LIST && i >= 0 && i < n->bodies->list.count)
        cli_text(&n->bodies->list.items[i], "name", buffer, size);
    if (buffer[0] == '\0') snprintf(buffer, size, "%d", i);
    return buffer;
}

/// Column of a list; an empty one if it is not there.
static const qpc_tensor *column(const qpc_value *list, const char *name) {
    static const qpc_tensor none;
    const qpc_value *v = cli_at(list, name);
    return v->kind == QPC_TENSOR ? &v->tensor : &none;
}

static int64_t rows_of(const qpc_value *list, const char *name) {
    const qpc_tensor *t = column(list, name);
    return t->ndim > 0 ? t->shape[0] : 0;
}

static void print_contacts(const qpc_value *list, const names *n) {
    const qpc_tensor *body = column(list, "bodies"), *feature = column(list, "features"), *kind = column(list, "kind");
    const qpc_tensor *force = column(list, "force"), *friction = column(list, "friction"), *gap = column(list, "gap");
    int64_t count = rows_of(list, "force");
    char a[80], b[80];
    printf("contacts: %lld\n", (long long)count);
    for (int64_t i = 0; i < count; i++)
        printf("  %s %.0f, %s %.0f (%s): %.6g N, friction %.4g %.4g %.4g N, gap %.4g m\n",
               body_name(n, cli_tensor_at(body, 2 * i), a, sizeof a), cli_tensor_at(feature, 2 * i),
               body_name(n, cli_tensor_at(body, 2 * i + 1), b, sizeof b), cli_tensor_at(feature, 2 * i + 1),
               cli_tensor_at(kind, i) == 0 ? "vertex, triangle" : "edges", cli_tensor_at(force, i),
               cli_tensor_at(friction, 3 * i), cli_tensor_at(friction, 3 * i + 1), cli_tensor_at(friction, 3 * i + 2),
               cli_tensor_at(gap, i));
}

static void print_reactions(const qpc_value *list, const names *n) {
    const qpc_tensor *body = column(list, "body"), *node = column(list, "node"), *force = column(list, "force");
    int64_t count = rows_of(list, "force");
    char a[80];
    printf("fixed points: %lld\n", (long long)count);
    for (int64_t i = 0; i < count; i++)
        printf("  %s node %.0f: %.6g %.6g %.6g N\n", body_name(n, cli_tensor_at(body, i), a, sizeof a),
               cli_tensor_at(node, i), cli_tensor_at(force, 3 * i), cli_tensor_at(force, 3 * i + 1),
               cli_tensor_at(force, 3 * i + 2));
}

static void print_limits(const qpc_value *list, const names *n) {
    const qpc_tensor *body = column(list, "body"), *spring = column(list, "spring"), *force = column(list, "force");
    int64_t count = rows_of(list, "force");
    char a[80];
    printf("strain limits that hold: %lld\n", (long long)count);
    for (int64_t i = 0; i < count; i++)
        printf("  %s spring %.0f: %.6g N\n", body_name(n, cli_tensor_at(body, i), a, sizeof a),
               cli_tensor_at(spring, i), cli_tensor_at(force, i));
}

static void print_conflicts(const qpc_value *list, const names *n) {
    static const char *const kinds[] = {"vertex, triangle", "edges", "largest strain", "least strain", "joint"};
    const qpc_tensor *body = column(list, "bodies"), *feature = column(list, "features"), *kind = column(list, "kind");
    int64_t count = rows_of(list, "kind");
    char a[80], b[80];
    printf("contradicting: %lld\n", (long long)count);
    for (int64_t i = 0; i < count; i++) {
        int32_t k = (int32_t)cli_tensor_at(kind, i);
        printf("  %s: %s %.0f", k >= 0 && k < 5 ? kinds[k] : "?", body_name(n, cli_tensor_at(body, 2 * i), a, sizeof a),
               cli_tensor_at(feature, 2 * i));
        if (cli_tensor_at(body, 2 * i + 1) >= 0)
            printf(", %s %.0f", body_name(n, cli_tensor_at(body, 2 * i + 1), b, sizeof b), cli_tensor_at(feature, 2 * i + 1));
        printf("\n");
    }
}

static void print_joints(const qpc_value *list) {
    static const char *const kinds[] = {"attach", "ball", "hinge", "tendon"};
    const qpc_tensor *constraint = column(list, "constraint"), *kind = column(list, "kind"), *force = column(list, "force");
    const qpc_tensor *torque = column(list, "torque"), *tension = column(list, "tension"), *gap = column(list, "gap");
    int64_t count = rows_of(list, "constraint");
    printf("joints: %lld\n", (long long)count);
    for (int64_t i = 0; i < count; i++) {
        int32_t k = (int32_t)cli_tensor_at(kind, i);
        printf("  constraint %.0f (%s): ", cli_tensor_at(constraint, i), k >= 0 && k < 4 ? kinds[k] : "?");
        if (k == 3) printf("tension %.6g N", cli_tensor_at(tension, i));
        else printf("%.6g %.6g %.6g N", cli_tensor_at(force, 3 * i), cli_tensor_at(force, 3 * i + 1), cli_tensor_at(force, 3 * i + 2));
        if (k == 2)
            printf(", torque %.6g %.6g %.6g N m", cli_tensor_at(torque, 3 * i), cli_tensor_at(torque, 3 * i + 1),
                   cli_tensor_at(torque, 3 * i + 2));
        printf(", gap %.4g m\n", cli_tensor_at(gap, i));
    }
}

static qpc_status ask(cli *c, const char *method, const char *run, int64_t step, qpc_message *ret, qpc_error *err) {
    qpc_value params = qpc_map();
    bool ok = cli_set(&params, "run", qpc_text_borrow(run));
    if (ok && step >= 0) ok = cli_set(&params, "step", qpc_int(step));
    qpc_status status = ok ? qpc_call(c->client, method, &params, ret, err)
                           : qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    qpc_value_fini(&params);
    return status;
}

cli_exit cli_forces(cli *c, int argc, char **argv) {
    int64_t step = -1;
    const cli_option options[] = {{"step", CLI_COUNT, &step, "STEP", "which step (default the last)"},
                                  CLI_DATA_OPTION(c),
                                  CLI_SERVER_OPTIONS(c),
                                  {NULL, CLI_FLAG, NULL, NULL, NULL}};
    static const cli_command command = {"forces", "RUN",
                                        "Forces of contacts, fixed points, strain limits and joints in a step of a recorded run, and what contradicted.",
                                        1, 1, "RUN is an id, the beginning of one, the path of its file, or \"last\"."};
    char id[33];
    cli_exit code;
    if (!open_run(c, &command, options, argc, argv, id, &code)) return code;
    qpc_message facts = {0}, m = {0};
    qpc_error err = {0};
    qpc_status status = ask(c, "run.describe", id, -1, &facts, &err);
    if (status == QPC_OK && step < 0) step = cli_int(facts.value, "steps", 0);
    if (status == QPC_OK) status = ask(c, "run.details", id, step, &m, &err);
    if (status != QPC_OK) {
        code = cli_fail_call(c, &err);
    } else if (c->json) {
        code = print_copy(c, m.value);
    } else {
        names n = {cli_at(facts.value, "bodies")};
        printf("step %lld\n", (long long)step);
        print_contacts(cli_at(m.value, "contacts"), &n);
        print_reactions(cli_at(m.value, "reactions"), &n);
        print_limits(cli_at(m.value, "limit_forces"), &n);
        print_joints(cli_at(m.value, "joints"));
        print_conflicts(cli_at(m.value, "conflicts"), &n);
    }
    qpc_message_fini(&facts);
    qpc_message_fini(&m);
    return code;
}
