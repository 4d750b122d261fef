/// MessagePack-RPC envelopes: request [0, id, method, params], response [1, id, error, result],
/// notification [2, method, params].
#ifndef QPC_PROTOCOL_RPC_H
#define QPC_PROTOCOL_RPC_H

#include "protocol/codec.h"

typedef enum qpc_rpc_type { QPC_RPC_REQUEST = 0, QPC_RPC_RESPONSE = 1, QPC_RPC_NOTIFICATION = 2 } qpc_rpc_type;

typedef struct qpc_rpc_message {
    qpc_rpc_type type;
    bool has_id;          // also true after a failed parse if the id could be recovered
    uint32_t id;
    char method[64];      // cut, and made valid UTF-8, for messages; "" for responses
    bool method_known_text; // false: not a str, or longer than the buffer, or not UTF-8: surely unknown
    qpc_value params;     // the one map (empty map if none); for responses nil
    qpc_value error, result; // responses
    qpc_value root;       // owns the above
} qpc_rpc_message;

/// QPC_ERR_MALFORMED: not an RPC envelope. QPC_ERR_INVALID: an envelope with an id whose params are not
/// [map] or []. In both cases ret->has_id tells whether an error response is possible.
qpc_status qpc_rpc_parse(const uint8_t *bytes, size_t size, qpc_rpc_message *ret, qpc_error *err);
void qpc_rpc_message_fini(qpc_rpc_message *message);

/// Append one encoded message. On failure the buffer is as before.
qpc_status qpc_rpc_request(uint32_t id, const char *method, const qpc_value *params, bool bin_keys,
                           qpc_buffer *out, qpc_error *err);
qpc_status qpc_rpc_result(uint32_t id, const qpc_value *result, bool bin_keys, qpc_buffer *out, qpc_error *err);
/// error -> {code, name, message, data}; data = {where} or, if given, data (a map; borrowed).
qpc_status qpc_rpc_error(uint32_t id, const qpc_error *error, const qpc_value *data, qpc_buffer *out);
qpc_status qpc_rpc_notify(const char *method, const qpc_value *params, bool bin_keys, qpc_buffer *out, qpc_error *err);
/// The map {code, name, message, data} as a value (client side and "error" notifications).
qpc_status qpc_error_to_value(const qpc_error *error, const qpc_value *data, qpc_value *ret);
void qpc_error_from_value(const qpc_value *v, qpc_error *ret);

#endif
