/// MessagePack bytes to and from value trees, by msgpack-c.
///
/// msgpack-numpy maps {nd: true, type, kind, shape, data} become tensors and {nd: false, type,
/// data} numbers (keys as str or bin); a malformed one, or type "O", is an error. Map keys must be
/// text and differ; extension types are refused. Decoded str, bin and tensor bytes are borrowed
/// from `bytes`. msgpack-c takes memory by malloc itself (a zone of 24 bytes an element, freed
/// before return): fault injection reaches the trees and buffers, not that zone. Any thread.
#ifndef QPC_PROTOCOL_CODEC_H
#define QPC_PROTOCOL_CODEC_H

#include "base/value.h"

/// `bytes` are exactly one object; qpc_scan() is run over them first (without limits of size, which
/// are the caller's), so that a claim without bytes never reaches msgpack-c. *ret borrows from
/// bytes. QPC_ERR_MALFORMED: not one whole object, or nested deeper than QPC_SCAN_MAX_DEPTH;
/// QPC_ERR_INVALID: MessagePack, but not what is said above (err->where is the path);
/// QPC_ERR_MEMORY.
qpc_status qpc_decode(const uint8_t *bytes, size_t size, qpc_value *ret, qpc_error *err);

/// Growable output buffer; fini with qpc_buffer_fini.
typedef struct qpc_buffer {
    uint8_t *data;
    size_t size, capacity;
} qpc_buffer;
void qpc_buffer_fini(qpc_buffer *buffer);
/// QPC_ERR_MEMORY: the buffer is as before.
qpc_status qpc_buffer_append(qpc_buffer *buffer, const void *bytes, size_t size);
/// Make room for `more` bytes, so that appending them cannot fail.
qpc_status qpc_buffer_reserve(qpc_buffer *buffer, size_t more);
/// Appends; on failure the buffer is as before. bin_keys: array map keys as bin (what Python's
/// msgpack_numpy reads). Bytes of a str that are not UTF-8 go out as '?'. QPC_ERR_LIMIT: a str, bin
/// or array of 4 GiB, or nested deeper than 64 levels; QPC_ERR_MEMORY.
qpc_status qpc_encode(const qpc_value *v, bool bin_keys, qpc_buffer *buffer, qpc_error *err);

#endif
