/// run.list, run.describe, run.frames, run.diagnostics: jobs on a worker, each with a read-only
/// connection of its own. Runs that are being recorded can be read too; what a world has not yet
/// committed is seen a moment later.
#include "server/router.h"

#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "server/builder.h"
#include "storage/reader.h"

#include <inttypes.h>
#include <math.h>
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
    for (int32_t i = 0; i < count && status == QPC_OK; i++) {
        qpc_value run = run_value(&runs[i], &status);
        qpc_add(&list, &status, run);
    }
    qpc_put(&map, &status, "runs", list);
    qpc_free(runs);
    answer(request, status, &map, &error);
}

// ---- run.describe ----

/// Bodies of a run, from its scene? No: from the file's own table, through the reader's facts.
static qpc_status parse_json(const char *text, qpc_value *ret, qpc_error *err) {
    return qpc_json_parse(text, strlen(text), ret, err);
}

static void describe_run(qpc_request *request) {
    qpc_catalog_run run;
    qpc_reader *reader = NULL;
    qpc_error error = {0};
    qpc_value map = qpc_map(), scene = qpc_nil(), versions = qpc_nil(), bodies = qpc_nil();
    qpc_status status = open_run(request, &run, &reader, &error);
    if (status == QPC_OK) {
        qpc_run_facts facts = qpc_reader_facts(reader);
        status = parse_json(facts.scene_json, &scene, &error);
        if (status == QPC_OK) status = parse_json(facts.versions_json, &versions, &error);
        if (status == QPC_OK) status = qpc_run_bodies(reader, &bodies, NULL, NULL, &error);
        qpc_put(&map, &status, "scene", scene);
        qpc_put(&map, &status, "versions", versions);
        qpc_put(&map, &status, "bodies", bodies);
        qpc_put_text(&map, &status, "run", run.id);
        qpc_put(&map, &status, "world", qpc_uint(run.world));
        qpc_put_text(&map, &status, "name", run.name);
        qpc_put_text(&map, &status, "state", run.state);
        qpc_put_text(&map, &status, "path", run.path);
        qpc_put(&map, &status, "steps", qpc_int(run.steps));
        qpc_put(&map, &status, "frames", qpc_int(facts.frame_count));
        qpc_put(&map, &status, "first_step", qpc_int(facts.first_step));
        qpc_put(&map, &status, "last_step", qpc_int(facts.last_step));
        qpc_put(&map, &status, "dt", qpc_real(facts.dt));
        qpc_put(&map, &status, "scene_hash", qpc_uint(facts.scene_hash));
        qpc_put(&map, &status, "start_hash", qpc_uint(facts.start_hash));
    }
    qpc_reader_close(reader);
    answer(request, status, &map, &error);
}
