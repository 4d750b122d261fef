/// The one table of methods: dispatch, parameter checks, rpc.describe and docs/protocol.md come
/// from it.
#ifndef QPC_PROTOCOL_METHODS_H
#define QPC_PROTOCOL_METHODS_H

#include "base/value.h"

typedef enum qpc_field_type {
    QPC_FIELD_BOOL,
    QPC_FIELD_INT,
    QPC_FIELD_UINT,
    QPC_FIELD_REAL,
    QPC_FIELD_STR,
    QPC_FIELD_BIN,
    QPC_FIELD_TENSOR, // tensor or nested lists of numbers
    QPC_FIELD_LIST,
    QPC_FIELD_MAP,
    QPC_FIELD_ANY,
} qpc_field_type;

typedef struct qpc_field_spec {
    const char *name;
    qpc_field_type type;
    bool required;      // of a result: always there
    double low, high;   // INT, UINT, REAL: inclusive range; STR: high = most bytes. 0, 0: any
    const char *doc;    // one sentence or two; units and the default in it
    const char *one_of; // STR: the words allowed, "a|b|c"; NULL: any text
} qpc_field_spec;

/// X(enumerator, "name"): one list gives the enum; methods.c adds fields and texts.
#define QPC_METHOD_LIST(X)                                                                         \
    X(HELLO, "hello")                                                                              \
    X(RPC_DESCRIBE, "rpc.describe")                                                                \
    X(MESH_UPLOAD, "mesh.upload")                                                                  \
    X(MESH_LIST, "mesh.list")                                                                      \
    X(MESH_GET, "mesh.get")                                                                        \
    X(MESH_DELETE, "mesh.delete")                                                                  \
    X(MESH_CHECK, "mesh.check")                                                                    \
    X(SCENE_CHECK, "scene.check")                                                                  \
    X(WORLD_CREATE, "world.create")                                                                \
    X(WORLD_LIST, "world.list")                                                                    \
    X(WORLD_DESCRIBE, "world.describe")                                                            \
    X(WORLD_DESTROY, "world.destroy")                                                              \
    X(WORLD_STEP, "world.step")                                                                    \
    X(WORLD_STATE, "world.state")                                                                  \
    X(WORLD_CONTROL, "world.control")                                                              \
    X(WORLD_CANCEL, "world.cancel")                                                                \
    X(WORLD_SUBSCRIBE, "world.subscribe")                                                          \
    X(WORLD_CREDIT, "world.credit")                                                                \
    X(WORLD_UNSUBSCRIBE, "world.unsubscribe")                                                      \
    X(RUN_LIST, "run.list")                                                                        \
    X(RUN_DESCRIBE, "run.describe")                                                                \
    X(RUN_FRAMES, "run.frames")                                                                    \
    X(RUN_DIAGNOSTICS, "run.diagnostics")                                                          \
    X(RUN_DETAILS, "run.details")                                                                  \
    X(RUN_EVENTS, "run.events")                                                                    \
    X(SERVER_STATS, "server.stats")                                                                \
    X(SERVER_DRAIN, "server.drain")

typedef enum qpc_method {
#define QPC_METHOD_ENUM(id, name) QPC_METHOD_##id,
    QPC_METHOD_LIST(QPC_METHOD_ENUM)
#undef QPC_METHOD_ENUM
        QPC_METHOD_COUNT
} qpc_method;

typedef struct qpc_method_spec {
    const char *name, *doc; // doc: a short paragraph
    const qpc_field_spec *params, *results;
    int32_t param_count, result_count;
    bool bulk;         // moves large data (may go to a loop of its own later)
    bool notification; // may be sent as a notification
    uint32_t errors; // bit 1 << code: errors of this method, besides those of QPC_METHOD_ANY_ERRORS
} qpc_method_spec;

/// Errors that every method may answer: INVALID, UNAUTHORISED, MEMORY, INTERNAL.
#define QPC_METHOD_ANY_ERRORS                                                                      \
    (1U << QPC_ERR_INVALID | 1U << QPC_ERR_UNAUTHORISED | 1U << QPC_ERR_MEMORY |                   \
     1U << QPC_ERR_INTERNAL)

/// QPC_METHOD_COUNT if unknown.
qpc_method qpc_method_find(const char *name);
const char *qpc_method_nearest(const char *name); // NULL if nothing is near
/// What a request's qpc_rpc_message says: method and method_known_text. QPC_ERR_UNKNOWN_METHOD with
/// the nearest name in the message.
qpc_status qpc_method_resolve(const char *name, bool known_text, qpc_method *ret, qpc_error *err);
const qpc_method_spec *qpc_method_get(qpc_method method);
/// "bool", "int", "uint", "real", "str", "bin", "array", "list", "map", "any"
const char *qpc_field_type_name(qpc_field_type type);
/// Unknown names (nearest known one named), missing ones, types and ranges. params is a map.
qpc_status qpc_method_check_params(qpc_method method, const qpc_value *params, qpc_error *err);
/// For tests of a server: the same check of a result against the table; nil passes for any type.
qpc_status qpc_method_check_results(qpc_method method, const qpc_value *result, qpc_error *err);
/// {methods: [...], errors: [...]} for rpc.describe; step fields are added by the server.
/// QPC_ERR_MEMORY: *ret is nil.
qpc_status qpc_methods_describe(qpc_value *ret);

#endif
