/// libqpc: one helper for each method, made of qpc_call(). See qpc.h.
#include "client/libqpc/qpc.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "client/libqpc/internal.h"

enum { CHUNK_SIZE = 4 << 20, WHOLE_MAX = 48 << 10 };

/// A map of parameters being put together; the first failure sticks, so that callers check once.
typedef struct params {
    qpc_value map;
    qpc_status status;
} params;

static params params_new(void) {
    return (params){.map = qpc_map()};
}

static void put(params *p, const char *key, qpc_value v) {
    if (p->status == QPC_OK) {
        p->status = qpc_map_set(&p->map, key, v);
    } else {
        qpc_value_fini(&v);
    }
}

static void put_text(params *p, const char *key, const char *text) {
    if (text != NULL) put(p, key, qpc_text_borrow(text));
}

static void put_texts(params *p, const char *key, const char *const *texts) {
    if (texts == NULL) return;
    qpc_value list = qpc_list();
    for (; *texts != NULL && p->status == QPC_OK; texts++)
        p->status = qpc_list_push(&list, qpc_text_borrow(*texts));
    put(p, key, list);
}

/// A view of a tree that the caller keeps.
static void put_view(params *p, const char *key, const qpc_value *v) {
    if (v == NULL) return;
    qpc_value copy = qpc_nil();
    if (p->status == QPC_OK) p->status = qpc_value_copy(v, &copy);
    put(p, key, copy);
}

static void put_precision(params *p, bool float64) {
    put_text(p, "precision", float64 ? "float64" : "float32");
}

/// Call with the parameters and free them.
static qpc_status call(qpc_client *client, const char *method, params *p, qpc_message *ret,
                       qpc_error *err) {
    qpc_status status = p->status;
    if (status == QPC_OK) {
        status = qpc_call(client, method, &p->map, ret, err);
    } else {
        qpc_fail(err, status, "out of memory: parameters of %s", method);
    }
    qpc_value_fini(&p->map);
    return status;
}

// ---- reading results ----

static qpc_status get_int(const qpc_value *map, const char *key, int64_t *ret, qpc_error *err) {
    return qpc_read_int(qpc_map_get(map, key), key, INT64_MIN, INT64_MAX, ret, err);
}

static qpc_status get_uint(const qpc_value *map, const char *key, uint64_t *ret, qpc_error *err) {
    return qpc_read_uint(qpc_map_get(map, key), key, ret, err);
}

static qpc_status get_real(const qpc_value *map, const char *key, double *ret, qpc_error *err) {
    return qpc_read_real(qpc_map_get(map, key), key, -1e308, 1e308, ret, err);
}

static void get_text(const qpc_value *map, const char *key, char *out, size_t size) {
    const qpc_value *v = qpc_map_get(map, key);
    out[0] = '\0';
    if (v != NULL && v->kind == QPC_STR) qpc_read_text(v, key, out, size, NULL);
}

static const qpc_tensor *get_tensor(const qpc_value *map, const char *key) {
    const qpc_value *v = qpc_map_get(map, key);
    return v != NULL && v->kind == QPC_TENSOR ? &v->tensor : NULL;
}

// ---- hello ----

qpc_status qpc_client_hello(qpc_client *client, const char *name, const char *token,
                            const char *role, qpc_server_info *ret, qpc_error *err) {
    params p = params_new();
    put(&p, "version", qpc_int(1));
    put_text(&p, "client", name);
    put_text(&p, "token", token);
    put_text(&p, "role", role);
    qpc_message m = {0};
    qpc_status status = call(client, "hello", &p, &m, err);
    if (status != QPC_OK) return status;
    qpc_server_info info = {0};
    int64_t protocol = 0;
    get_text(m.value, "server", info.server, sizeof info.server);
    get_text(m.value, "version", info.version, sizeof info.version);
    status =
        qpc_read_int(qpc_map_get(m.value, "protocol"), "protocol", 0, INT32_MAX, &protocol, err);
    info.protocol = (int32_t)protocol;
    const qpc_value *limits = qpc_map_get(m.value, "limits");
    if (limits != NULL) get_uint(limits, "max_message_bytes", &info.max_message, NULL);
    qpc_message_fini(&m);
    if (status != QPC_OK) return status;
    qpc_client_set_server_limit(client, info.max_message);
    if (ret != NULL) *ret = info;
    return QPC_OK;
}

// ---- meshes ----

static void put_little(uint8_t *out, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) out[i] = (uint8_t)(v >> (8 * i));
}

/// Canonical bytes of a mesh (docs/protocol.md), newly allocated.
static qpc_status canonical(const qpc_mesh_source *mesh, uint8_t **ret, size_t *ret_size,
                            qpc_error *err) {
    if (mesh->vertex_count < 1 || mesh->element_count < 1)
        return qpc_fail(err, QPC_ERR_INVALID,
                        "a mesh needs vertices and elements, not %lld and %lld",
                        (long long)mesh->vertex_count, (long long)mesh->element_count);
    if (mesh->nodes_per_element < 2 || mesh->nodes_per_element > 4)
        return qpc_fail(err, QPC_ERR_INVALID, "an element has 2, 3 or 4 nodes, not %d",
                        mesh->nodes_per_element);
    size_t vertex_bytes, element_bytes, size;
    if (!qpc_mul_size((size_t)mesh->vertex_count, 24, &vertex_bytes) ||
        !qpc_mul_size((size_t)mesh->element_count, 4 * (size_t)mesh->nodes_per_element,
                      &element_bytes) ||
        !qpc_add_size(vertex_bytes, element_bytes, &size) || !qpc_add_size(size, 24, &size))
        return qpc_fail(err, QPC_ERR_LIMIT, "the mesh is too large");
    uint8_t *bytes = qpc_alloc(size);
    if (bytes == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory: a mesh");
    memcpy(bytes, "QPM1", 4);
    put_little(bytes + 4, (uint64_t)mesh->nodes_per_element, 4);
    put_little(bytes + 8, (uint64_t)mesh->vertex_count, 8);
    put_little(bytes + 16, (uint64_t)mesh->element_count, 8);
    uint8_t *out = bytes + 24;
    for (int64_t i = 0; i < mesh->vertex_count * 3; i++, out += 8) {
        double v = mesh->vertices[i] + 0.0; // -0 becomes 0
        uint64_t bits;
        memcpy(&bits, &v, sizeof bits);
        put_little(out, bits, 8);
    }
    for (int64_t i = 0; i < mesh->element_count * mesh->nodes_per_element; i++, out += 4)
        put_little(out, (uint32_t)mesh->elements[i], 4);
    *ret = bytes;
    *ret_size = size;
    return QPC_OK;
}

static qpc_status server_has(qpc_client *client, const char *sha256, bool *ret, qpc_error *err) {
    qpc_message m = {0};
    qpc_status status = qpc_call(client, "mesh.list", NULL, &m, err);
    if (status != QPC_OK) return status;
    const qpc_value *meshes = qpc_map_get(m.value, "meshes");
    *ret = false;
    for (int32_t i = 0; meshes != NULL && meshes->kind == QPC_LIST && i < meshes->list.count; i++) {
        const qpc_value *hash = qpc_map_get(&meshes->list.items[i], "sha256");
        if (hash != NULL && qpc_str_equal(hash, sha256)) *ret = true;
    }
    qpc_message_fini(&m);
    return QPC_OK;
}

static qpc_status send_whole(qpc_client *client, const qpc_mesh_source *mesh, qpc_message *ret,
                             qpc_error *err) {
    const int64_t vertices[2] = {mesh->vertex_count, 3};
    const int64_t elements[2] = {mesh->element_count, mesh->nodes_per_element};
    params p = params_new();
    put(&p, "vertices", qpc_tensor_borrow(QPC_F64, 2, vertices, mesh->vertices));
    put(&p, "elements", qpc_tensor_borrow(QPC_I32, 2, elements, mesh->elements));
    put_text(&p, "name", mesh->name);
    return call(client, "mesh.upload", &p, ret, err);
}

/// At most half of what the server accepts in one message (after hello; before it is not known).
static size_t within_limit(const qpc_client *client, size_t wanted) {
    uint64_t limit = qpc_client_server_limit(client);
    return limit > 0 && limit / 2 < wanted ? (size_t)(limit / 2) : wanted;
}

static qpc_status send_chunks(qpc_client *client, const qpc_mesh_source *mesh, const char *sha256,
                              const uint8_t *bytes, size_t size, qpc_message *ret, qpc_error *err) {
    size_t chunk = within_limit(client, CHUNK_SIZE);
    qpc_message m = {0};
    for (size_t at = 0; at < size;) {
        size_t part = size - at < chunk ? size - at : chunk;
        params p = params_new();
        put_text(&p, "sha256", sha256);
        put(&p, "size", qpc_uint(size));
        put(&p, "offset", qpc_uint(at));
        put(&p, "data", qpc_bin_borrow(bytes + at, part));
        if (at == 0) put_text(&p, "name", mesh->name);
        qpc_message_fini(&m);
        qpc_status status = call(client, "mesh.upload", &p, &m, err);
        if (status != QPC_OK) return status;
        at += part;
        if (mesh->progress != NULL) mesh->progress(mesh->user, at, size);
        const qpc_value *complete = qpc_map_get(m.value, "complete");
        if (complete != NULL && complete->kind == QPC_BOOL && complete->b) break;
    }
    *ret = m;
    return QPC_OK;
}

qpc_status qpc_client_mesh_upload(qpc_client *client, const qpc_mesh_source *mesh,
                                  qpc_mesh_receipt *ret, qpc_error *err) {
    uint8_t *bytes = NULL, hash[32];
    size_t size = 0;
    qpc_status status = canonical(mesh, &bytes, &size, err);
    if (status != QPC_OK) return status;
    qpc_mesh_receipt receipt = {.bytes = size};
    status = qpc_sha256_of(bytes, size, hash, err);
    if (status == QPC_OK) qpc_hex_encode(hash, sizeof hash, receipt.sha256);
    if (status == QPC_OK && size <= within_limit(client, WHOLE_MAX)) {
        status = send_whole(client, mesh, &receipt.message, err);
    } else if (status == QPC_OK) {
        status = server_has(client, receipt.sha256, &receipt.known, err);
        if (status == QPC_OK && !receipt.known)
            status = send_chunks(client, mesh, receipt.sha256, bytes, size, &receipt.message, err);
    }
    qpc_free(bytes);
    if (status != QPC_OK) return status;
    if (receipt.message.value != NULL) {
        const qpc_value *known = qpc_map_get(receipt.message.value, "known");
        receipt.known = known != NULL && known->kind == QPC_BOOL && known->b;
        char theirs[65];
        get_text(receipt.message.value, "sha256", theirs, sizeof theirs);
        if (strcmp(theirs, receipt.sha256) != 0) {
            qpc_message_fini(&receipt.message);
            return qpc_fail(err, QPC_ERR_CORRUPT,
                            "the server has the mesh under another hash, \"%s\" instead of %s",
                            theirs, receipt.sha256);
        }
    }
    *ret = receipt;
    return QPC_OK;
}

// ---- worlds ----

qpc_status qpc_client_world_create(qpc_client *client, const qpc_value *scene, const char *name,
                                   bool dry_run, qpc_world_receipt *ret, qpc_error *err) {
    params p = params_new();
    put_view(&p, "scene", scene);
    put_text(&p, "name", name);
    if (dry_run) put(&p, "dry_run", qpc_bool(true));
    qpc_world_receipt receipt = {0};
    qpc_status status = call(client, "world.create", &p, &receipt.message, err);
    if (status != QPC_OK) return status;
    const qpc_value *map = receipt.message.value;
    if (!dry_run) status = get_uint(map, "world", &receipt.world, err);
    if (status == QPC_OK) status = get_uint(map, "hash", &receipt.hash, err);
    get_text(map, "run", receipt.run, sizeof receipt.run);
    if (status != QPC_OK) {
        qpc_message_fini(&receipt.message);
        return status;
    }
    *ret = receipt;
    return QPC_OK;
}

qpc_step_request qpc_step_request_default(void) {
    return (qpc_step_request){.n = 1, .expect_step = -1};
}

qpc_status qpc_step_params(uint64_t world, const qpc_step_request *request, qpc_value *ret,
                           qpc_error *err) {
    params p = params_new();
    put(&p, "world", qpc_uint(world));
    put(&p, "n", qpc_int(request->n));
    if (request->expect_step >= 0) put(&p, "expect_step", qpc_int(request->expect_step));
    put_text(&p, "key", request->key);
    put_view(&p, "control", request->control);
    if (request->positions) put(&p, "positions", qpc_bool(true));
    if (request->velocities) put(&p, "velocities", qpc_bool(true));
    if (request->contacts) put(&p, "contacts", qpc_bool(true));
    if (request->positions || request->velocities) put_precision(&p, request->float64);
    if (request->deadline_ms > 0) put(&p, "deadline_ms", qpc_int(request->deadline_ms));
    if (p.status != QPC_OK) {
        qpc_value_fini(&p.map);
        return qpc_fail(err, p.status, "out of memory: parameters of world.step");
    }
    *ret = p.map;
    return QPC_OK;
}

qpc_status qpc_step_reply_read(qpc_message *message, qpc_step_reply *ret, qpc_error *err) {
    const qpc_value *map = message->value;
    qpc_step_reply reply = {0};
    qpc_status status = get_int(map, "reached", &reply.reached, err);
    if (status == QPC_OK) status = get_uint(map, "hash", &reply.hash, err);
    if (status == QPC_OK) status = get_real(map, "time", &reply.time, err);
    if (status == QPC_OK)
        status = qpc_read_text(qpc_map_get(map, "status"), "status", reply.status,
                               sizeof reply.status, err);
    if (status != QPC_OK) return status;
    const qpc_value *error = qpc_map_get(map, "error");
    if (error != NULL && error->kind == QPC_MAP) qpc_client_error_read(error, &reply.error);
    reply.summary = qpc_map_get(map, "summary");
    reply.positions = get_tensor(map, "positions");
    reply.velocities = get_tensor(map, "velocities");
    reply.message = *message;
    *message = (qpc_message){0};
    *ret = reply;
    return QPC_OK;
}

qpc_status qpc_client_world_step(qpc_client *client, uint64_t world,
                                 const qpc_step_request *request, qpc_step_reply *ret,
                                 qpc_error *err) {
    params p = params_new();
    qpc_status status = qpc_step_params(world, request, &p.map, err);
    if (status != QPC_OK) return status;
    qpc_message m = {0};
    status = call(client, "world.step", &p, &m, err);
    if (status != QPC_OK) return status;
    status = qpc_step_reply_read(&m, ret, err);
    qpc_message_fini(&m);
    return status;
}

qpc_status qpc_client_world_state(qpc_client *client, uint64_t world, const char *const *fields,
                                  bool float64, qpc_message *ret, qpc_error *err) {
    params p = params_new();
    put(&p, "world", qpc_uint(world));
    put_texts(&p, "fields", fields);
    put_precision(&p, float64);
    return call(client, "world.state", &p, ret, err);
}

qpc_status qpc_client_world_control(qpc_client *client, uint64_t world, const qpc_value *control,
                                    int64_t *ret_step, qpc_error *err) {
    params p = params_new();
    put(&p, "world", qpc_uint(world));
    put_view(&p, "control", control);
    qpc_message m = {0};
    qpc_status status = call(client, "world.control", &p, &m, err);
    if (status == QPC_OK && ret_step != NULL) status = get_int(m.value, "step", ret_step, err);
    qpc_message_fini(&m);
    return status;
}

qpc_status qpc_client_world_cancel(qpc_client *client, uint64_t world, bool *ret, qpc_error *err) {
    params p = params_new();
    put(&p, "world", qpc_uint(world));
    qpc_message m = {0};
    qpc_status status = call(client, "world.cancel", &p, &m, err);
    if (status == QPC_OK && ret != NULL)
        status = qpc_read_bool(qpc_map_get(m.value, "cancelled"), "cancelled", ret, err);
    qpc_message_fini(&m);
    return status;
}

qpc_status qpc_client_world_destroy(qpc_client *client, uint64_t world, qpc_error *err) {
    params p = params_new();
    put(&p, "world", qpc_uint(world));
    return call(client, "world.destroy", &p, NULL, err);
}

// ---- frames ----

qpc_status qpc_client_subscribe(qpc_client *client, uint64_t world,
                                const qpc_subscribe_request *request, uint64_t *ret_subscription,
                                int64_t *ret_nodes, qpc_error *err) {
    params p = params_new();
    put(&p, "world", qpc_uint(world));
    if (request->every > 0) put(&p, "every", qpc_int(request->every));
    put_texts(&p, "fields", request->fields);
    put_precision(&p, request->float64);
    if (request->credit > 0) put(&p, "credit", qpc_int(request->credit));
    put_text(&p, "policy", request->policy);
    if (request->max_queue > 0) put(&p, "max_queue", qpc_int(request->max_queue));
    qpc_message m = {0};
    uint64_t subscription = 0;
    int64_t nodes = 0;
    qpc_status status = call(client, "world.subscribe", &p, &m, err);
    if (status == QPC_OK) status = get_uint(m.value, "subscription", &subscription, err);
    if (status == QPC_OK && ret_nodes != NULL) status = get_int(m.value, "node_count", &nodes, err);
    qpc_message_fini(&m);
    if (status != QPC_OK) return status;
    *ret_subscription = subscription;
    if (ret_nodes != NULL) *ret_nodes = nodes;
    return QPC_OK;
}

qpc_status qpc_client_unsubscribe(qpc_client *client, uint64_t subscription, qpc_error *err) {
    params p = params_new();
    put(&p, "subscription", qpc_uint(subscription));
    return call(client, "world.unsubscribe", &p, NULL, err);
}

static bool of_subscription(void *user, const qpc_value *map) {
    uint64_t wanted = *(const uint64_t *)user, got = 0;
    return wanted == 0 || (get_uint(map, "subscription", &got, NULL) == QPC_OK && got == wanted);
}

qpc_status qpc_client_next_frame(qpc_client *client, uint64_t subscription, int32_t timeout_ms,
                                 qpc_frame *ret, qpc_error *err) {
    qpc_frame frame = {0};
    qpc_status status = qpc_client_take_notification(
        client, "frame", of_subscription, &subscription, timeout_ms, &frame.message, err);
    if (status != QPC_OK) return status;
    if (frame.message.kind != QPC_MESSAGE_NONE) {
        const qpc_value *map = frame.message.value;
        status = get_uint(map, "subscription", &frame.subscription, err);
        if (status == QPC_OK) status = get_uint(map, "world", &frame.world, err);
        if (status == QPC_OK) status = get_int(map, "step", &frame.step, err);
        if (status == QPC_OK) status = get_real(map, "time", &frame.time, err);
        if (status == QPC_OK) status = get_uint(map, "hash", &frame.hash, err);
        get_int(map, "dropped", &frame.dropped, NULL);
        frame.positions = get_tensor(map, "positions");
        frame.velocities = get_tensor(map, "velocities");
        if (status != QPC_OK) {
            qpc_message_fini(&frame.message);
            return status;
        }
    }
    *ret = frame;
    return QPC_OK;
}

// ---- runs and the server ----

qpc_status qpc_client_run_list(qpc_client *client, qpc_message *ret, qpc_error *err) {
    return qpc_call(client, "run.list", NULL, ret, err);
}

static params range(const char *run, int64_t from, int64_t to, int64_t limit) {
    params p = params_new();
    put_text(&p, "run", run);
    put(&p, "from", qpc_int(from > 0 ? from : 0));
    if (to >= 0) put(&p, "to", qpc_int(to));
    if (limit > 0) put(&p, "limit", qpc_int(limit));
    return p;
}

qpc_status qpc_client_run_frames(qpc_client *client, const char *run, int64_t from, int64_t to,
                                 int64_t limit, bool float64, qpc_message *ret, qpc_error *err) {
    params p = range(run, from, to, limit);
    put_precision(&p, float64);
    return call(client, "run.frames", &p, ret, err);
}

qpc_status qpc_client_run_diagnostics(qpc_client *client, const char *run, int64_t from, int64_t to,
                                      int64_t limit, const char *const *fields, qpc_message *ret,
                                      qpc_error *err) {
    params p = range(run, from, to, limit);
    put_texts(&p, "fields", fields);
    return call(client, "run.diagnostics", &p, ret, err);
}

qpc_status qpc_client_server_stats(qpc_client *client, qpc_message *ret, qpc_error *err) {
    return qpc_call(client, "server.stats", NULL, ret, err);
}
