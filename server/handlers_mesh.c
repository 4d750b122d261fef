/// mesh.upload (whole and in chunks), mesh.list, mesh.get, mesh.delete.
///
/// Checking, hashing and storing a mesh runs on a worker; the loop only gathers chunks. A pending
/// upload belongs to its session and to one hash, is charged to the session's budget as its bytes
/// arrive, and goes with the session.
#include "server/router.h"

#include "base/hash.h"
#include "base/mem.h"
#include "server/builder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CANONICAL_HEADER = 24 };

struct qpc_upload {
    qpc_session *session;
    uint8_t sha256[32];
    char name[QPC_NAME_SIZE];
    uint8_t *bytes;
    size_t size, received, capacity;
};

void qpc_upload_destroy(qpc_upload *upload) {
    if (upload == NULL) return;
    if (upload->session != NULL) qpc_session_discharge(upload->session, upload->capacity);
    qpc_free(upload->bytes);
    qpc_free(upload);
}

static void free_upload(void *object) { qpc_upload_destroy(object); }

static qpc_status read_sha256(const qpc_value *v, uint8_t ret[32], qpc_error *err) {
    if (v == NULL || v->kind != QPC_STR ||
        !qpc_hex_decode(v->str.bytes, v->str.size, ret, 32)) {
        return qpc_fail_at(err, QPC_ERR_INVALID, "sha256", "want 64 hex digits");
    }
    return QPC_OK;
}

static void read_name(const qpc_value *params, char *out, size_t size) {
    const qpc_value *v = qpc_map_get(params, "name");
    out[0] = '\0';
    if (v == NULL) return;
    // Labels are cut, not refused; a cut character becomes '?' on its way out.
    size_t length = v->str.size < size - 1 ? v->str.size : size - 1;
    memcpy(out, v->str.bytes, length);
    out[length] = '\0';
}

// ---- what an upload says ----

static void put_report(qpc_value *map, qpc_status *status, const qpc_mesh_report *r) {
    qpc_value report = qpc_map(), zero = qpc_list(), loose = qpc_list();
    qpc_put(&report, status, "zero_area", qpc_int(r->zero_area_count));
    qpc_put(&report, status, "unreferenced", qpc_int(r->unreferenced_count));
    qpc_put(&report, status, "duplicate", qpc_int(r->duplicate_count));
    qpc_put(&report, status, "boundary_edges", qpc_int(r->boundary_edge_count));
    qpc_put(&report, status, "non_manifold_edges", qpc_int(r->nonmanifold_edge_count));
    qpc_put(&report, status, "closed",
            qpc_bool(r->boundary_edge_count == 0 && r->nonmanifold_edge_count == 0));
    for (int i = 0; i < 8 && i < r->zero_area_count; i++) {
        qpc_add(&zero, status, qpc_int(r->zero_area[i]));
    }
    for (int i = 0; i < 8 && i < r->unreferenced_count; i++) {
        qpc_add(&loose, status, qpc_int(r->unreferenced[i]));
    }
    qpc_put(&report, status, "zero_area_examples", zero);
    qpc_put(&report, status, "unreferenced_examples", loose);
    qpc_put(map, status, "report", report);
}

static void put_mesh_facts(qpc_value *map, qpc_status *status, const uint8_t sha256[32],
                           int64_t vertices, int64_t elements, uint64_t bytes, bool known) {
    char hex[65];
    qpc_hex_encode(sha256, 32, hex);
    qpc_put_text(map, status, "sha256", hex);
    qpc_put(map, status, "vertices", qpc_int(vertices));
    qpc_put(map, status, "elements", qpc_int(elements));
    qpc_put(map, status, "bytes", qpc_uint(bytes));
    qpc_put(map, status, "known", qpc_bool(known));
}

/// Worker: store a mesh that has been checked, and answer.
static void store_and_reply(qpc_request *request, qpc_mesh *mesh, const char *name,
                            const qpc_mesh_report *report, size_t received) {
    qpc_server *server = request->server;
    qpc_error error = {0};
    bool known = false;
    qpc_status status = qpc_meshes_add(server->meshes, mesh, name, &known, &error);
    if (status != QPC_OK) {
        qpc_request_fail(request, &error, NULL);
        return;
    }
    qpc_value map = qpc_map();
    put_mesh_facts(&map, &status, qpc_mesh_sha256(mesh), qpc_mesh_vertex_count(mesh),
                   qpc_mesh_element_count(mesh), qpc_mesh_canonical_size(mesh), known);
    put_report(&map, &status, report);
    qpc_put(&map, &status, "received",
            qpc_uint(received > 0 ? received : qpc_mesh_canonical_size(mesh)));
    qpc_put(&map, &status, "complete", qpc_bool(true));
    if (status != QPC_OK) {
        qpc_fail(&error, status, "out of memory for a reply");
        qpc_request_fail(request, &error, NULL);
    } else {
        qpc_request_succeed(request, &map, 0);
    }
    qpc_value_fini(&map);
}

// ---- whole uploads ----

/// Nodes per element: the columns of the array, or the length of the first row.
static int64_t element_columns(const qpc_value *v) {
    if (v->kind == QPC_TENSOR && v->tensor.ndim == 2) return v->tensor.shape[1];
    if (v->kind == QPC_LIST && v->list.count > 0) {
        const qpc_value *row = &v->list.items[0];
        if (row->kind == QPC_LIST) return row->list.count;
        if (row->kind == QPC_TENSOR && row->tensor.ndim == 1) return row->tensor.shape[0];
    }
    return 3;
}

static void upload_whole(qpc_request *request) {
    qpc_server *server = request->server;
    const qpc_value *vertices = qpc_map_get(&request->params, "vertices");
    const qpc_value *elements = qpc_map_get(&request->params, "elements");
    qpc_mesh_limits limits = qpc_meshes_limits(server->meshes);
    qpc_error error = {0};
    double *x = NULL;
    int32_t *e = NULL;
    qpc_mesh *mesh = NULL;
    int64_t vertex_count = 0, element_count = 0;
    qpc_mesh_report report;
    memset(&report, 0, sizeof report);
    int64_t columns = element_columns(elements);
    qpc_status status = QPC_OK;
    if (columns < 2 || columns > 4) {
        status = qpc_fail_at(&error, QPC_ERR_INVALID, "elements",
                             "%" PRId64 " nodes per element: want 2, 3 or 4", columns);
    }
    if (status == QPC_OK) {
        status = qpc_read_matrix(vertices, "vertices", 3, limits.max_vertices, &x, &vertex_count,
                                 &error);
    }
    if (status == QPC_OK) {
        status = qpc_read_int_matrix(elements, "elements", columns, limits.max_elements,
                                     0, vertex_count > 0 ? vertex_count - 1 : 0, &e,
                                     &element_count, &error);
    }
    if (status == QPC_OK) {
        status = qpc_mesh_create(x, vertex_count, e, element_count, (int32_t)columns, &limits,
                                 &mesh, &report, &error);
    }
    qpc_free(x);
    qpc_free(e);
    if (status != QPC_OK) {
        if (status == QPC_ERR_LIMIT) {
            size_t at = strlen(error.message);
            snprintf(error.message + at, sizeof error.message - at,
                     " (--max-vertices is %" PRId64 ", --max-elements %" PRId64 ")",
                     limits.max_vertices, limits.max_elements);
        }
        qpc_request_fail(request, &error, NULL);
        return;
    }
    char name[QPC_NAME_SIZE];
    read_name(&request->params, name, sizeof name);
    store_and_reply(request, mesh, name, &report, 0);
    qpc_mesh_unref(mesh);
}

// ---- chunked uploads ----

static void finish_upload(qpc_request *request) {
    qpc_upload *upload = request->object;
    qpc_mesh_limits limits = qpc_meshes_limits(request->server->meshes);
    qpc_error error = {0};
    uint8_t sha256[32];
    qpc_mesh *mesh = NULL;
    qpc_mesh_report report;
    memset(&report, 0, sizeof report);
    qpc_status status = qpc_sha256_of(upload->bytes, upload->size, sha256, &error);
    if (status == QPC_OK && memcmp(sha256, upload->sha256, 32) != 0) {
        char hex[65];
        qpc_hex_encode(sha256, 32, hex);
        status = qpc_fail_at(&error, QPC_ERR_INVALID, "sha256",
                             "the bytes received have the hash %s; nothing was kept", hex);
    }
    if (status == QPC_OK) {
        status = qpc_mesh_from_canonical(upload->bytes, upload->size, &limits, &mesh, &report,
                                         &error);
        // What was sent is wrong, not what is stored.
        if (status == QPC_ERR_CORRUPT) status = error.status = QPC_ERR_INVALID;
    }
    if (status == QPC_OK && memcmp(qpc_mesh_sha256(mesh), sha256, 32) != 0) {
        status = qpc_fail_at(&error, QPC_ERR_INVALID, "data",
                             "not the canonical bytes of a mesh (is there a -0?)");
    }
    if (status != QPC_OK) {
        qpc_request_fail(request, &error, NULL);
    } else {
        store_and_reply(request, mesh, upload->name, &report, upload->size);
    }
    qpc_mesh_unref(mesh);
}

/// Its place in the session, or -1.
static int find_upload(const qpc_session *session, const uint8_t sha256[32]) {
    for (int i = 0; i < QPC_UPLOADS_MAX; i++) {
        const qpc_upload *upload = session->uploads[i];
        if (upload != NULL && memcmp(upload->sha256, sha256, 32) == 0) return i;
    }
    return -1;
}

static qpc_status begin_upload(qpc_call *call, const uint8_t sha256[32], uint64_t size,
                               int *ret, qpc_error *err) {
    qpc_session *session = call->session;
    uint64_t largest = qpc_meshes_largest(call->server->meshes);
    if (size > largest) {
        qpc_mesh_limits limits = qpc_meshes_limits(call->server->meshes);
        return qpc_fail_at(err, QPC_ERR_LIMIT, "size",
                           "%" PRIu64 " bytes: the largest mesh has %" PRIu64
                           " (--max-vertices is %" PRId64 ", --max-elements %" PRId64 ")",
                           size, largest, limits.max_vertices, limits.max_elements);
    }
    int slot = find_upload(session, sha256);
    if (slot >= 0) {
        qpc_upload_destroy(session->uploads[slot]); // offset 0 starts anew
        session->uploads[slot] = NULL;
    }
    for (int i = 0; i < QPC_UPLOADS_MAX && slot < 0; i++) {
        if (session->uploads[i] == NULL) slot = i;
    }
    if (slot < 0) {
        return qpc_fail(err, QPC_ERR_LIMIT, "this session has %d pending uploads already",
                        QPC_UPLOADS_MAX);
    }
    qpc_upload *upload = qpc_calloc(1, sizeof *upload);
    if (upload == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for an upload");
    upload->session = session;
    memcpy(upload->sha256, sha256, 32);
    upload->size = (size_t)size;
    read_name(call->params, upload->name, sizeof upload->name);
    session->uploads[slot] = upload;
    *ret = slot;
    return QPC_OK;
}

/// Grows with what has arrived, never with what is claimed.
static qpc_status append_chunk(qpc_upload *upload, const uint8_t *data, size_t size,
                               qpc_error *err) {
    size_t want = upload->received + size;
    if (want > upload->capacity) {
        size_t grown = 2 * upload->capacity;
        if (grown < want) grown = want;
        if (grown > upload->size) grown = upload->size;
        qpc_status status =
            qpc_session_charge(upload->session, grown - upload->capacity, err);
        if (status != QPC_OK) return status;
        uint8_t *bytes = qpc_realloc(upload->bytes, grown);
        if (bytes == NULL) {
            qpc_session_discharge(upload->session, grown - upload->capacity);
            return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for an upload of %zu bytes", grown);
        }
        upload->bytes = bytes;
        upload->capacity = grown;
    }
    memcpy(upload->bytes + upload->received, data, size);
    upload->received += size;
    return QPC_OK;
}

/// The counts stand at the beginning: refuse what is too large before the rest has come.
static qpc_status check_header(qpc_call *call, const qpc_upload *upload, qpc_error *err) {
    if (upload->received < CANONICAL_HEADER) return QPC_OK;
    uint64_t vertices, elements;
    qpc_mesh_limits limits = qpc_meshes_limits(call->server->meshes);
    memcpy(&vertices, upload->bytes + 8, 8);
    memcpy(&elements, upload->bytes + 16, 8);
    if (memcmp(upload->bytes, "QPM1", 4) != 0) {
        return qpc_fail_at(err, QPC_ERR_INVALID, "data",
                           "canonical bytes of a mesh begin with \"QPM1\"");
    }
    if (vertices > (uint64_t)limits.max_vertices) {
        return qpc_fail_at(err, QPC_ERR_LIMIT, "data",
                           "%" PRIu64 " vertices: --max-vertices is %" PRId64, vertices,
                           limits.max_vertices);
    }
    if (elements > (uint64_t)limits.max_elements) {
        return qpc_fail_at(err, QPC_ERR_LIMIT, "data",
                           "%" PRIu64 " elements: --max-elements is %" PRId64, elements,
                           limits.max_elements);
    }
    return QPC_OK;
}

static qpc_status reply_known(const qpc_catalog_mesh *info, qpc_value *ret, qpc_error *err) {
    qpc_value map = qpc_map();
    qpc_status status = QPC_OK;
    put_mesh_facts(&map, &status, info->sha256, info->vertices, info->elements,
                   (uint64_t)info->bytes, true);
    qpc_put(&map, &status, "received", qpc_int(info->bytes));
    qpc_put(&map, &status, "complete", qpc_bool(true));
    return qpc_finish(&map, status, ret, err);
}

static qpc_status upload_chunk(qpc_call *call, qpc_value *ret, qpc_error *err) {
    qpc_session *session = call->session;
    const qpc_value *data = qpc_map_get(call->params, "data");
    uint8_t sha256[32];
    uint64_t size = 0, offset = 0;
    qpc_status status = read_sha256(qpc_map_get(call->params, "sha256"), sha256, err);
    if (status == QPC_OK) {
        status = qpc_read_uint(qpc_map_get(call->params, "size"), "size", &size, err);
    }
    if (status == QPC_OK) {
        status = qpc_read_uint(qpc_map_get(call->params, "offset"), "offset", &offset, err);
    }
    if (status == QPC_OK && data == NULL) {
        status = qpc_fail_at(err, QPC_ERR_INVALID, "data", "missing: want the bytes of the chunk");
    }
    if (status != QPC_OK) return status;
    qpc_catalog_mesh info;
    if (offset == 0 && qpc_meshes_known(call->server->meshes, sha256, &info)) {
        return reply_known(&info, ret, err);
    }
    int slot = -1;
    if (offset == 0) {
        status = begin_upload(call, sha256, size, &slot, err);
        if (status != QPC_OK) return status;
    } else {
        slot = find_upload(session, sha256);
        if (slot < 0) {
            return qpc_fail_at(err, QPC_ERR_STATE, "offset",
                               "no upload of this hash is pending: begin at offset 0");
        }
    }
    qpc_upload *upload = session->uploads[slot];
    if (size != upload->size) {
        return qpc_fail_at(err, QPC_ERR_INVALID, "size",
                           "%" PRIu64 ": the first chunk said %zu", size, upload->size);
    }
    if (offset != upload->received) {
        return qpc_fail_at(err, QPC_ERR_STATE, "offset",
                           "%" PRIu64 ": chunks come in order, the next one is at %zu", offset,
                           upload->received);
    }
    size_t length = data->str.size;
    if (length > upload->size - upload->received) {
        return qpc_fail_at(err, QPC_ERR_INVALID, "data",
                           "%zu bytes at offset %zu are beyond the size of %zu", length,
                           upload->received, upload->size);
    }
    status = append_chunk(upload, (const uint8_t *)data->str.bytes, length, err);
    if (status == QPC_OK) status = check_header(call, upload, err);
    if (status != QPC_OK) {
        session->uploads[slot] = NULL;
        qpc_upload_destroy(upload);
        return status;
    }
    if (upload->received < upload->size) {
        qpc_value map = qpc_map();
        qpc_put(&map, &status, "received", qpc_uint(upload->received));
        qpc_put(&map, &status, "complete", qpc_bool(false));
        return qpc_finish(&map, status, ret, err);
    }
    // All there: the rest is a worker's, and so are the bytes (charged to the request).
    qpc_request *request = NULL;
    status = qpc_call_defer(call, false, &request, err);
    if (status != QPC_OK) return status;
    session->uploads[slot] = NULL;
    upload->session = NULL;
    request->charged += upload->capacity;
    request->object = upload;
    request->free_object = free_upload;
    qpc_call_run(call, request, finish_upload, NULL);
    return QPC_OK;
}

QPC_HANDLER(qpc_handle_mesh_upload) {
    (void)ret_data;
    const qpc_value *vertices = qpc_map_get(call->params, "vertices");
    const qpc_value *elements = qpc_map_get(call->params, "elements");
    bool chunked = qpc_map_get(call->params, "sha256") != NULL;
    if (chunked && vertices == NULL && elements == NULL) return upload_chunk(call, ret, err);
    if (chunked) {
        return qpc_fail_at(err, QPC_ERR_INVALID, "sha256",
                           "either vertices and elements, or sha256, size, offset and data");
    }
    if (vertices == NULL || elements == NULL) {
        return qpc_fail_at(err, QPC_ERR_INVALID, vertices == NULL ? "vertices" : "elements",
                           "missing: want vertices and elements, or sha256, size, offset and data");
    }
    qpc_request *request = NULL;
    qpc_status status = qpc_call_defer(call, true, &request, err);
    if (status == QPC_OK) qpc_call_run(call, request, upload_whole, NULL);
    return status;
}

// ---- the others ----

QPC_HANDLER(qpc_handle_mesh_list) {
    (void)ret_data;
    qpc_catalog_mesh *meshes = NULL;
    int32_t count = 0;
    qpc_status status = qpc_meshes_list(call->server->meshes, &meshes, &count, err);
    if (status != QPC_OK) return status;
    qpc_value list = qpc_list();
    for (int32_t i = 0; i < count && status == QPC_OK; i++) {
        char hex[65];
        qpc_value map = qpc_map();
        qpc_hex_encode(meshes[i].sha256, 32, hex);
        qpc_put_text(&map, &status, "sha256", hex);
        qpc_put_text(&map, &status, "name", meshes[i].name);
        qpc_put(&map, &status, "vertices", qpc_int(meshes[i].vertices));
        qpc_put(&map, &status, "elements", qpc_int(meshes[i].elements));
        qpc_put(&map, &status, "nodes_per_element", qpc_int(meshes[i].nodes_per_element));
        qpc_put(&map, &status, "bytes", qpc_int(meshes[i].bytes));
        qpc_put(&map, &status, "created", qpc_real(meshes[i].created));
        qpc_add(&list, &status, map);
    }
    qpc_free(meshes);
    qpc_value map = qpc_map();
    qpc_put(&map, &status, "meshes", list);
    return qpc_finish(&map, status, ret, err);
}

static void get_mesh(qpc_request *request) {
    qpc_server *server = request->server;
    qpc_error error = {0};
    uint8_t sha256[32];
    qpc_mesh *mesh = NULL;
    qpc_status status = read_sha256(qpc_map_get(&request->params, "sha256"), sha256, &error);
    if (status == QPC_OK) status = qpc_meshes_find(server->meshes, sha256, &mesh, &error);
    if (status != QPC_OK) {
        qpc_request_fail(request, &error, NULL);
        return;
    }
    int64_t vertex_shape[2] = {qpc_mesh_vertex_count(mesh), 3};
    int64_t element_shape[2] = {qpc_mesh_element_count(mesh), qpc_mesh_nodes_per_element(mesh)};
    qpc_value map = qpc_map();
    qpc_put(&map, &status, "vertices",
            qpc_tensor_borrow(QPC_F64, 2, vertex_shape, qpc_mesh_vertices(mesh)));
    qpc_put(&map, &status, "elements",
            qpc_tensor_borrow(QPC_I32, 2, element_shape, qpc_mesh_elements(mesh)));
    if (status != QPC_OK) {
        qpc_fail(&error, status, "out of memory for a reply");
        qpc_request_fail(request, &error, NULL);
    } else {
        qpc_request_succeed(request, &map, (size_t)server->options.max_message_bytes);
    }
    qpc_value_fini(&map);
    qpc_mesh_unref(mesh);
}

QPC_HANDLER(qpc_handle_mesh_get) {
    (void)ret;
    (void)ret_data;
    qpc_request *request = NULL;
    qpc_status status = qpc_call_defer(call, true, &request, err);
    if (status == QPC_OK) qpc_call_run(call, request, get_mesh, NULL);
    return status;
}

static void delete_mesh(qpc_request *request) {
    qpc_error error = {0};
    uint8_t sha256[32];
    qpc_status status = read_sha256(qpc_map_get(&request->params, "sha256"), sha256, &error);
    if (status == QPC_OK) status = qpc_meshes_delete(request->server->meshes, sha256, &error);
    if (status != QPC_OK) {
        qpc_request_fail(request, &error, NULL);
        return;
    }
    qpc_pair pair = {qpc_text_borrow("deleted"), qpc_bool(true)};
    qpc_value map = {.kind = QPC_MAP};
    map.map.pairs = &pair;
    map.map.count = map.map.capacity = 1;
    qpc_request_succeed(request, &map, 0);
}

QPC_HANDLER(qpc_handle_mesh_delete) {
    (void)ret;
    (void)ret_data;
    qpc_request *request = NULL;
    qpc_status status = qpc_call_defer(call, true, &request, err);
    if (status == QPC_OK) qpc_call_run(call, request, delete_mesh, NULL);
    return status;
}
