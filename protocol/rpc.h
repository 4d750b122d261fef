/// MessagePack-RPC envelopes: request [0, id, method, params], response [1, id, error, result],
/// notification [2, method, params].
#ifndef QPC_PROTOCOL_RPC_H
#define QPC_PROTOCOL_RPC_H

#include "protocol/codec.h"

typedef enum qpc_rpc_type {
    QPC_RPC_REQUEST = 0,
    QPC_RPC_RESPONSE = 1,
    QPC_RPC_NOTIFICATION = 2,
} qpc_rpc_type;

/// Text in it is borrowed from the bytes that were parsed: keep them, or qpc_value_copy() what
/// stays.
typedef struct qpc_rpc_message {
    qpc_rpc_type type;
    bool has_id; // also true after a failed parse if the id could be recovered
    uint32_t id;
    char method[64];         // cut, and made valid UTF-8, for messages; "" for responses
    bool method_known_text;  // false: not a str, or longer than the buffer, or not UTF-8: surely
                             // unknown
    qpc_value params;        // the one map (empty map if none); for responses nil
    qpc_value error, result; // responses
    qpc_value root;          // owns the above
} qpc_rpc_message;

/// `bytes` are one object that qpc_scan() found WHOLE. Ids are 0 to 2^32-1 in any integer width.
/// QPC_ERR_MALFORMED: not an RPC envelope. QPC_ERR_INVALID: an envelope whose params are not [map]
/// or [], or hold something that qpc_decode() refuses (a bad array, say). QPC_ERR_MEMORY. In all
/// cases ret->has_id tells whether an error response is possible: to a request only, so check
/// ret->type too where responses come in. What is not clearly a response or a notification but has
/// a valid id in its place counts as a request. After a failure *ret owns nothing; its type, id and
/// method are filled in as far as they could be read. A nil param is the same as one left out, and
/// so are [[]] and [{}] (an empty Lua table is sent as an empty list).
qpc_status qpc_rpc_parse(const uint8_t *bytes, size_t size, qpc_rpc_message *ret, qpc_error *err);
void qpc_rpc_message_fini(qpc_rpc_message *message);

/// Append one encoded message. On failure the buffer is as before.
/// params: a map, or NULL for none.
qpc_status qpc_rpc_request(uint32_t id, const char *method, const qpc_value *params, bool bin_keys,
                           qpc_buffer *out, qpc_error *err);
qpc_status qpc_rpc_result(uint32_t id, const qpc_value *result, bool bin_keys, qpc_buffer *out,
                          qpc_error *err);
/// error -> {code, name, message, data}; data = {where} or, if given, data (a map; borrowed). An
/// array in data has its keys as str.
qpc_status qpc_rpc_error(uint32_t id, const qpc_error *error, const qpc_value *data,
                         qpc_buffer *out);
qpc_status qpc_rpc_notify(const char *method, const qpc_value *params, bool bin_keys,
                          qpc_buffer *out, qpc_error *err);
/// The map {code, name, message, data} as a value that borrows nothing (client side and "error"
/// notifications). QPC_ERR_MEMORY.
qpc_status qpc_error_to_value(const qpc_error *error, const qpc_value *data, qpc_value *ret);
/// From whatever a server sent as error: nil gives QPC_OK, a map its code (one outside the list
/// becomes INTERNAL), anything else INTERNAL with what can be shown of it.
void qpc_error_from_value(const qpc_value *v, qpc_error *ret);

#endif
