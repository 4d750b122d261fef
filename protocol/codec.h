/// MessagePack bytes to and from value trees, by msgpack-c. Bytes must have passed qpc_scan().
///
/// msgpack-numpy maps {nd: true, type, kind, shape, data} become tensors (keys as str or bin); a malformed
/// one, or type "O", is an error. Decoded str, bin and tensor bytes are borrowed from `bytes`.
#ifndef QPC_PROTOCOL_CODEC_H
#define QPC_PROTOCOL_CODEC_H

#include "base/value.h"

qpc_status qpc_decode(const uint8_t *bytes, size_t size, qpc_value *ret, qpc_error *err);

/// Growable output buffer; fini with qpc_buffer_fini.
typedef struct qpc_buffer {
    uint8_t *data;
    size_t size, capacity;
} qpc_buffer;
void qpc_buffer_fini(qpc_buffer *buffer);
qpc_status qpc_buffer_append(qpc_buffer *buffer, const void *bytes, size_t size);
/// Appends; on failure the buffer is as before. bin_keys: array map keys as bin (what Python's msgpack_numpy reads).
qpc_status qpc_encode(const qpc_value *v, bool bin_keys, qpc_buffer *buffer, qpc_error *err);

#endif
