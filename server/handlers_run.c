/// run.list, run.describe, run.frames, run.diagnostics, run.details, run.events: jobs on a worker, each with a
/// read-only connection of its own. Runs that are being recorded can be read too, up to the last finished step.
#include "server/router.h"

#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "server/builder.h"
#include "server/recordlist.h"
#include "storage/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { REPLY_BYTES = 16 << 20 }; // frames of one reply, roughly

static void answer(qpc_request *request, qpc_status status, qpc_value *map, qpc_error *error) {
    if (status != QPC_OK) {
        if (error->status == QPC_OK) qpc_fail(error, status, "out of memory for a reply");
        qpc_request_fail(request, error, NULL);
    } else {
        qpc_request_succeed(request, map, (size_t)request->server->options.max_message_bytes);
    }
    qpc_value_fini(map);
}

static qpc_status find_run(qpc_request *request, qpc_catalog_run *ret, qpc_error *err) {
    char id[33];
    uint8_t bytes[16];
    const qpc_value *v = qpc_map_get(&request->params, "run");
    if (v == NULL || v->kind != QPC_STR || !qpc_hex_decode(v->str.bytes, v->str.size, bytes, 16)) {
        return qpc_fail_at(err, QPC_ERR_INVALID, "run", "want 32 hex digits");
    }
    qpc_hex_encode(bytes, 16, id);
    return qpc_catalog_find_run(request->server->writer, id, ret, err);
}

static qpc_status open_run(qpc_request *request, qpc_catalog_run *ret_run, qpc_reader **ret,
                           qpc_error *err) {
    qpc_status status = find_run(request, ret_run, err);
    if (status == QPC_OK) status = qpc_reader_open(ret_run->path, ret, err);
    return status;
}

// ---- run.list ----

static qpc_value run_value(const qpc_catalog_run *run, qpc_status *status) {
    qpc_value map = qpc_map();
    qpc_put_text(&map, status, "run", run->id);
    qpc_put(&map, status, "world", qpc_uint(run->world));
    qpc_put_text(&map, status, "name", run->name);
    qpc_put_text(&map, status, "state", run->state);
    qpc_put_text(&map, status, "path", run->path);
    qpc_put(&map, status, "steps", qpc_int(run->steps));
    qpc_put(&map, status, "frames", qpc_int(run->frames));
    qpc_put(&map, status, "bytes", qpc_int(run->bytes));
    qpc_put(&map, status, "created", qpc_real(run->created));
    qpc_put(&map, status, "scene_hash", qpc_uint(run->scene_hash));
    return map;
}

static void list_runs(qpc_request *request) {
    qpc_catalog_run *runs = NULL;
    int32_t count = 0;
    qpc_error error = {0};
    qpc_value map = qpc_map(), list = qpc_list();
    qpc_status status = qpc_catalog_list_runs(request->server->writer, &runs, &count, &error);
    for (int32_t i = count - 1; i >= 0 && status == QPC_OK; i--) { // the newest first
        qpc_value run = run_value(&runs[i], &status);
        qpc_add(&list, &status, run);
    }
    qpc_put(&map, &status, "runs", list);
    qpc_free(runs);
    answer(request, status, &map, &error);
}

// ---- run.describe ----

static qpc_status parse_json(const char *text, qpc_value *ret, qpc_error *err) {
    return qpc_json_parse(text, strlen(text), ret, err);
}

static qpc_value body_value(const qpc_run_body *body, qpc_status *status) {
    qpc_value map = qpc_map();
    qpc_put_text(&map, status, "name", body->name);
    qpc_put_text(&map, status, "kind", body->kind);
    qpc_put(&map, status, "first_node", qpc_int(body->first_node));
    qpc_put(&map, status, "node_count", qpc_int(body->node_count));
    qpc_put(&map, status, "radius", qpc_real(body->radius));
    qpc_put(&map, status, "elements", qpc_int(body->element_count));
    qpc_put(&map, status, "nodes_per_element", qpc_int(body->nodes_per_element));
    if (body->mesh_sha256 != NULL) {
        char hex[65];
        qpc_hex_encode(body->mesh_sha256, 32, hex);
        qpc_put_text(&map, status, "mesh", hex);
    }
    return map;
}

static void put_bodies(qpc_value *map, qpc_status *status, qpc_reader *reader) {
    const qpc_run_body *bodies = NULL;
    int32_t count = 0;
    qpc_value list = qpc_list();
    if (*status == QPC_OK) *status = qpc_reader_bodies(reader, &bodies, &count);
    for (int32_t i = 0; i < count && *status == QPC_OK; i++) {
        qpc_value body = body_value(&bodies[i], status);
        qpc_add(&list, status, body);
    }
    qpc_put(map, status, "bodies", list);
}

/// What the file says about the proof of its steps. A file without the column says nothing.
static void put_proof(qpc_value *map, qpc_status *status, qpc_reader *reader, int64_t steps,
                      qpc_error *err) {
    int64_t proven = 0, not_proven = 0;
    if (*status == QPC_OK) *status = qpc_reader_count(reader, "proven", 1, &proven, err);
    if (*status == QPC_OK) *status = qpc_reader_count(reader, "proven", 0, &not_proven, err);
    if (*status == QPC_ERR_NOT_FOUND) {
        *status = QPC_OK;
        err->status = QPC_OK;
    }
    int64_t unknown = steps - proven - not_proven;
    qpc_put(map, status, "steps_proven", qpc_int(proven));
    qpc_put(map, status, "steps_not_proven", qpc_int(not_proven));
    qpc_put(map, status, "steps_unknown", qpc_int(unknown > 0 ? unknown : 0));
}

static void describe_run(qpc_request *request) {
    qpc_catalog_run run;
    qpc_reader *reader = NULL;
    qpc_error error = {0};
    qpc_value map = qpc_map(), scene = qpc_nil(), versions = qpc_nil();
    qpc_status status = open_run(request, &run, &reader, &error);
    if (status == QPC_OK) {
        qpc_run_facts facts = qpc_reader_facts(reader);
        status = parse_json(facts.scene_json, &scene, &error);
        if (status == QPC_OK) status = parse_json(facts.versions_json, &versions, &error);
        qpc_put(&map, &status, "scene", scene);
        qpc_put(&map, &status, "versions", versions);
        put_bodies(&map, &status, reader);
        qpc_put_text(&map, &status, "run", run.id);
        qpc_put(&map, &status, "world", qpc_uint(run.world));
        qpc_put_text(&map, &status, "name", run.name);
        qpc_put_text(&map, &status, "state", run.state);
        qpc_put_text(&map, &status, "path", run.path);
        qpc_put(&map, &status, "steps", qpc_int(run.steps));
        qpc_put(&map, &status, "frames", qpc_int(facts.frame_count));
        put_proof(&map, &status, reader, run.steps, &error);
        qpc_put(&map, &status, "first_step", qpc_int(facts.first_step));
        qpc_put(&map, &status, "last_step", qpc_int(facts.last_step));
        qpc_put(&map, &status, "dt", qpc_real(facts.dt));
        qpc_put(&map, &status, "scene_hash", qpc_uint(facts.scene_hash));
        qpc_put(&map, &status, "start_hash", qpc_uint(facts.start_hash));
    }
    answer(request, status, &map, &error);
    qpc_reader_close(reader);
}

// ---- run.frames ----

typedef struct frame_page {
    qpc_value list;
    qpc_status status;
    int64_t limit, next; // next: step of the first frame that is not in the page, or -1
    size_t bytes, first, count; // slice of the nodes
    bool single;
} frame_page;

static qpc_status frame_value(const frame_page *page, int64_t step, double time, uint64_t hash,
                              const double *positions, qpc_value *ret) {
    size_t numbers = 3 * page->count;
    int64_t shape[2] = {(int64_t)page->count, 3};
    const double *from = positions + 3 * page->first;
    void *copy = qpc_alloc_array(numbers, page->single ? sizeof(float) : sizeof(double));
    if (copy == NULL) return QPC_ERR_MEMORY;
    if (page->single) {
        for (size_t i = 0; i < numbers; i++) ((float *)copy)[i] = (float)from[i];
    } else if (numbers > 0) {
        memcpy(copy, from, numbers * sizeof(double));
    }
    qpc_value array = qpc_tensor_borrow(page->single ? QPC_F32 : QPC_F64, 2, shape, copy);
    array.owns = true;
    qpc_value map = qpc_map();
    qpc_status status = QPC_OK;
    qpc_put(&map, &status, "step", qpc_int(step));
    qpc_put(&map, &status, "time", qpc_real(time));
    qpc_put(&map, &status, "hash", qpc_uint(hash));
    qpc_put(&map, &status, "positions", array);
    return qpc_finish(&map, status, ret, NULL);
}

static bool on_frame(void *user, int64_t step, int32_t substep, double time, uint64_t hash,
                     const double *positions, int32_t nodes) {
    frame_page *page = user;
    (void)substep;
    (void)nodes;
    size_t size = page->count * 3 * (page->single ? sizeof(float) : sizeof(double)) + 64;
    if (page->list.list.count >= page->limit ||
        (page->list.list.count > 0 && page->bytes + size > REPLY_BYTES)) {
        page->next = step;
        return false;
    }
    qpc_value frame;
    page->status = frame_value(page, step, time, hash, positions, &frame);
    if (page->status == QPC_OK) page->status = qpc_list_push(&page->list, frame);
    page->bytes += size;
    return page->status == QPC_OK;
}

/// params.body: a name or an index; none: all nodes.
static qpc_status choose_nodes(const qpc_value *which, qpc_reader *reader, frame_page *page,
                               qpc_error *err) {
    const qpc_run_body *bodies = NULL;
    int32_t count = 0;
    page->first = 0;
    page->count = (size_t)qpc_reader_facts(reader).frame_nodes;
    if (which == NULL) return QPC_OK;
    qpc_status status = qpc_reader_bodies(reader, &bodies, &count);
    if (status != QPC_OK) return qpc_fail(err, status, "cannot read the bodies of the run");
    for (int32_t i = 0; i < count; i++) {
        bool found = which->kind == QPC_INT ? which->i == i && !which->is_unsigned
                                            : qpc_str_equal(which, bodies[i].name);
        if (!found) continue;
        page->first = (size_t)bodies[i].first_node;
        page->count = (size_t)bodies[i].node_count;
        return QPC_OK;
    }
    return qpc_fail_at(err, QPC_ERR_NOT_FOUND, "body", "the run has no such body (it has %d)",
                       count);
}

static qpc_status read_range(const qpc_value *params, int64_t most, int64_t standard,
                             int64_t *from, int64_t *to, int64_t *limit, qpc_error *err) {
    const qpc_value *v;
    qpc_status status = QPC_OK;
    *from = 0;
    *to = INT64_MAX;
    *limit = standard;
    if ((v = qpc_map_get(params, "from")) != NULL) {
        status = qpc_read_int(v, "from", 0, INT64_MAX, from, err);
    }
    if (status == QPC_OK && (v = qpc_map_get(params, "to")) != NULL) {
        status = qpc_read_int(v, "to", 0, INT64_MAX, to, err);
    }
    if (status == QPC_OK && (v = qpc_map_get(params, "limit")) != NULL) {
        status = qpc_read_int(v, "limit", 1, most, limit, err);
    }
    return status;
}

static void read_frames(qpc_request *request) {
    const qpc_value *params = &request->params;
    qpc_catalog_run run;
    qpc_reader *reader = NULL;
    qpc_error error = {0};
    frame_page page = {.list = qpc_list(), .next = -1};
    int64_t from = 0, to = 0;
    qpc_value map = qpc_map();
    qpc_status status = read_range(params, 100000, 100, &from, &to, &page.limit, &error);
    if (status == QPC_OK) {
        status = qpc_single_from_value(qpc_map_get(params, "precision"), "precision",
                                       &page.single, &error);
    }
    if (status == QPC_OK) status = open_run(request, &run, &reader, &error);
    if (status == QPC_OK) {
        status = choose_nodes(qpc_map_get(params, "body"), reader, &page, &error);
    }
    if (status == QPC_OK) {
        // One more than asked for tells where the next page begins.
        status = qpc_reader_frames(reader, from, to, page.limit + 1, false, on_frame, &page,
                                   &error);
    }
    if (status == QPC_OK) status = page.status;
    qpc_put(&map, &status, "frames", page.list);
    qpc_put(&map, &status, "next", page.next >= 0 ? qpc_int(page.next) : qpc_nil());
    put_bodies(&map, &status, reader);
    answer(request, status, &map, &error);
    qpc_reader_close(reader);
}

// ---- run.diagnostics ----

typedef struct column_choice {
    const char **names; // those asked for, then "step"
    bool *integer;
    int32_t count;      // without the extra "step"
} column_choice;

static qpc_status choose_columns(const qpc_value *fields, qpc_reader *reader,
                                 column_choice *choice, qpc_error *err) {
    const char *const *known = NULL;
    const bool *integer = NULL;
    int32_t known_count = 0;
    qpc_status status = qpc_reader_columns(reader, &known, &integer, &known_count);
    if (status != QPC_OK) return qpc_fail(err, status, "cannot read the columns of the run");
    int32_t most = fields != NULL ? fields->list.count : known_count;
    choice->names = qpc_alloc_array((size_t)most + 1, sizeof *choice->names);
    choice->integer = qpc_alloc_array((size_t)most + 1, sizeof *choice->integer);
    if (choice->names == NULL || choice->integer == NULL) {
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for %d columns", most);
    }
    for (int32_t i = 0; i < most; i++) {
        int32_t found = fields == NULL ? i : -1;
        for (int32_t k = 0; k < known_count && found < 0; k++) {
            if (qpc_str_equal(&fields->list.items[i], known[k])) found = k;
        }
        if (found < 0) {
            char path[32], name[64] = "";
            snprintf(path, sizeof path, "fields[%d]", i);
            status = qpc_read_text(&fields->list.items[i], path, name, sizeof name, err);
            if (status != QPC_OK) return status;
            return qpc_fail_at(err, QPC_ERR_INVALID, path, "'%s' is not a step field of this run",
                               name);
        }
        choice->names[choice->count] = known[found];
        choice->integer[choice->count++] = integer[found];
    }
    choice->names[choice->count] = "step";
    return QPC_OK;
}

/// Column `at` of row-major entries of eight bytes.
static qpc_value column_value(const char *values, int64_t rows, int32_t columns, int32_t at,
                              bool integer, qpc_status *status) {
    if (*status != QPC_OK) return qpc_nil();
    char *copy = qpc_alloc_array((size_t)rows, 8);
    if (copy == NULL) {
        *status = QPC_ERR_MEMORY;
        return qpc_nil();
    }
    for (int64_t row = 0; row < rows; row++) {
        memcpy(copy + 8 * row, values + 8 * (row * columns + at), 8);
    }
    qpc_value v = qpc_tensor_borrow(integer ? QPC_I64 : QPC_F64, 1, &rows, copy);
    v.owns = true;
    return v;
}

static void read_diagnostics(qpc_request *request) {
    const qpc_value *params = &request->params;
    qpc_catalog_run run;
    qpc_reader *reader = NULL;
    qpc_error error = {0};
    column_choice choice = {0};
    int64_t from = 0, to = 0, limit = 0, rows = 0, next = -1;
    void *values = NULL;
    qpc_value map = qpc_map(), columns = qpc_map();
    qpc_status status = read_range(params, 1000000, 1000, &from, &to, &limit, &error);
    if (status == QPC_OK) status = open_run(request, &run, &reader, &error);
    if (status == QPC_OK) {
        status = choose_columns(qpc_map_get(params, "fields"), reader, &choice, &error);
    }
    if (status == QPC_OK) {
        // Not more than a reply can carry; one row more tells where the next page begins.
        int64_t most = REPLY_BYTES / (8 * (int64_t)(choice.count + 1));
        if (limit > most) limit = most;
        status = qpc_reader_steps(reader, from, to, limit + 1, choice.names, choice.count + 1,
                                  &values, &rows, &error);
    }
    if (status == QPC_OK && rows > limit) {
        rows = limit;
        memcpy(&next, (char *)values + 8 * (rows * (choice.count + 1) + choice.count), 8);
    }
    for (int32_t i = 0; i < choice.count && status == QPC_OK; i++) {
        qpc_value column =
            column_value(values, rows, choice.count + 1, i, choice.integer[i], &status);
        qpc_put(&columns, &status, choice.names[i], column);
    }
    qpc_put(&map, &status, "columns", columns);
    qpc_put(&map, &status, "next", next >= 0 ? qpc_int(next) : qpc_nil());
    answer(request, status, &map, &error); // before the reader, which owns the names
    qpc_free(values);
    qpc_free(choice.names);
    qpc_free(choice.integer);
    qpc_reader_close(reader);
}

// ---- run.details ----

/// Which lists are asked for, as bits; NULL: all.
static qpc_status choose_lists(const qpc_value *fields, uint32_t *ret, qpc_error *err) {
    *ret = fields == NULL ? (1U << QPC_LIST_COUNT) - 1 : 0;
    for (int32_t i = 0; fields != NULL && i < fields->list.count; i++) {
        int32_t list = 0;
        while (list < QPC_LIST_COUNT && !qpc_str_equal(&fields->list.items[i], qpc_run_list_table((qpc_run_list)list))) list++;
        if (list == QPC_LIST_COUNT) {
            char path[32];
            snprintf(path, sizeof path, "fields[%d]", i);
            return qpc_fail_at(err, QPC_ERR_INVALID, path, "want contacts, reactions, limit_forces, conflicts or joints");
        }
        *ret |= 1U << list;
    }
    return QPC_OK;
}

static qpc_status list_value(qpc_reader *reader, qpc_run_list list, int64_t step, qpc_value *ret, qpc_error *err) {
    void *records = NULL;
    int32_t count = 0;
    size_t size = qpc_recordlist_size(list);
    qpc_status status = qpc_reader_list(reader, list, step, &records, &count, &size, err);
    if (status == QPC_ERR_NOT_FOUND) { // nothing there, or an older file
        status = QPC_OK;
        err->status = QPC_OK;
    }
    if (status == QPC_OK) status = qpc_recordlist_to_value(list, records, count, size, ret, err);
    qpc_free(records);
    return status;
}

/// Frames and counts say how far the run goes; of a run that was cut off, rows of the table steps do.
static qpc_status check_step(const qpc_catalog_run *run, qpc_reader *reader, int64_t step, qpc_error *err) {
    static const char *const column[] = {"step"};
    int64_t last = qpc_reader_facts(reader).last_step, rows = 0;
    void *values = NULL;
    if (run->steps > last) last = run->steps;
    if (step <= last) return QPC_OK;
    qpc_status status = qpc_reader_steps(reader, step, step, 1, column, 1, &values, &rows, err);
    qpc_free(values);
    if (status != QPC_OK || rows > 0) return status;
    return qpc_fail_at(err, QPC_ERR_NOT_FOUND, "step", "the run has no step %lld (its last is %lld)", (long long)step,
                       (long long)last);
}

static void read_details(qpc_request *request) {
    const qpc_value *params = &request->params;
    qpc_catalog_run run;
    qpc_reader *reader = NULL;
    qpc_error error = {0};
    uint32_t wanted = 0;
    int64_t step = 0;
    qpc_value map = qpc_map();
    qpc_status status = qpc_read_int(qpc_map_get(params, "step"), "step", 0, INT64_MAX, &step, &error);
    if (status == QPC_OK) status = choose_lists(qpc_map_get(params, "fields"), &wanted, &error);
    if (status == QPC_OK) status = open_run(request, &run, &reader, &error);
    if (status == QPC_OK) status = check_step(&run, reader, step, &error);
    qpc_put(&map, &status, "step", qpc_int(step));
    for (int32_t i = 0; status == QPC_OK && i < QPC_LIST_COUNT; i++) {
        qpc_value list = qpc_nil();
        if ((wanted >> i & 1) == 0) continue;
        status = list_value(reader, (qpc_run_list)i, step, &list, &error);
        qpc_put(&map, &status, qpc_run_list_table((qpc_run_list)i), list);
    }
    answer(request, status, &map, &error);
    qpc_reader_close(reader);
}

// ---- run.events ----

typedef struct event_page {
    qpc_value list;
    qpc_status status;
    int64_t limit, next, last; // last: step of the newest in the page
    size_t bytes;
} event_page;

/// A page ends between two steps, so that `from` can go on there.
static bool on_event(void *user, int64_t step, const char *kind, const char *subject, const char *text) {
    event_page *page = user;
    bool full = page->list.list.count >= page->limit || page->bytes >= REPLY_BYTES;
    if (full && step != page->last) {
        page->next = step;
        return false;
    }
    qpc_value map = qpc_map();
    qpc_put(&map, &page->status, "step", qpc_int(step));
    qpc_put_text(&map, &page->status, "kind", kind);
    qpc_put_text(&map, &page->status, "subject", subject);
    qpc_put_text(&map, &page->status, "message", text);
    page->bytes += strlen(kind) + strlen(subject) + strlen(text) + 64;
    page->last = step;
    qpc_add(&page->list, &page->status, map);
    return page->status == QPC_OK;
}

static void read_events(qpc_request *request) {
    qpc_catalog_run run;
    qpc_reader *reader = NULL;
    qpc_error error = {0};
    event_page page = {.list = qpc_list(), .next = -1, .last = -1};
    int64_t from = 0, to = 0;
    qpc_value map = qpc_map();
    qpc_status status = read_range(&request->params, 100000, 1000, &from, &to, &page.limit, &error);
    if (status == QPC_OK) status = open_run(request, &run, &reader, &error);
    if (status == QPC_OK) status = qpc_reader_events(reader, from, to, on_event, &page, &error);
    if (status == QPC_OK) status = page.status;
    qpc_put(&map, &status, "events", page.list);
    qpc_put(&map, &status, "next", page.next >= 0 ? qpc_int(page.next) : qpc_nil());
    answer(request, status, &map, &error);
    qpc_reader_close(reader);
}

// ---- methods ----

/// A run that a live world records is flushed first, so that a client reads what it has stepped.
static void flush_first(qpc_request *request) {
    // A failing disk is not the reader's error: what is there can be read.
    if (request->object != NULL) qpc_recorder_flush(request->object, NULL);
}

static void release_recorder(void *object) { qpc_recorder_unref(object); }

static void work_describe(qpc_request *request) {
    flush_first(request);
    describe_run(request);
}

static void work_frames(qpc_request *request) {
    flush_first(request);
    read_frames(request);
}

static void work_diagnostics(qpc_request *request) {
    flush_first(request);
    read_diagnostics(request);
}

static void work_details(qpc_request *request) {
    flush_first(request);
    read_details(request);
}

static void work_events(qpc_request *request) {
    flush_first(request);
    read_events(request);
}

/// The recorder of the run of a live world; NULL if it has none.
static qpc_recorder *live_recorder(const qpc_server *server, const qpc_value *run) {
    for (int32_t i = 0; i < server->worlds.actors.count && run != NULL; i++) {
        qpc_recorder *recorder = qpc_actor_recorder(server->worlds.actors.data[i]);
        if (recorder != NULL && qpc_str_equal(run, qpc_recorder_run(recorder))) return recorder;
    }
    return NULL;
}

static qpc_status read_run(qpc_call *call, void (*work)(qpc_request *request), qpc_error *err) {
    qpc_request *request = NULL;
    qpc_status status = qpc_call_defer(call, true, &request, err);
    if (status != QPC_OK) return status;
    qpc_recorder *live = live_recorder(call->server, qpc_map_get(call->params, "run"));
    if (live != NULL) {
        request->object = qpc_recorder_ref(live);
        request->free_object = release_recorder;
    }
    qpc_call_run(call, request, work, NULL);
    return QPC_OK;
}

QPC_HANDLER(qpc_handle_run_list) {
    (void)ret;
    (void)ret_data;
    qpc_request *request = NULL;
    qpc_status status = qpc_call_defer(call, true, &request, err);
    if (status == QPC_OK) qpc_call_run(call, request, list_runs, NULL);
    return status;
}

QPC_HANDLER(qpc_handle_run_describe) {
    (void)ret;
    (void)ret_data;
    return read_run(call, work_describe, err);
}

QPC_HANDLER(qpc_handle_run_frames) {
    (void)ret;
    (void)ret_data;
    return read_run(call, work_frames, err);
}

QPC_HANDLER(qpc_handle_run_diagnostics) {
    (void)ret;
    (void)ret_data;
    return read_run(call, work_diagnostics, err);
}

QPC_HANDLER(qpc_handle_run_details) {
    (void)ret;
    (void)ret_data;
    return read_run(call, work_details, err);
}

QPC_HANDLER(qpc_handle_run_events) {
    (void)ret;
    (void)ret_data;
    return read_run(call, work_events, err);
}
