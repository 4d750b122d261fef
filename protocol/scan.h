/// Walks raw bytes before anything is allocated: is one whole MessagePack object there, and is it
/// within limits? Depth, claimed counts against bytes present, lengths against limits. No
/// recursion, no memory.
#ifndef QPC_PROTOCOL_SCAN_H
#define QPC_PROTOCOL_SCAN_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/// msgpack-c, which decodes what was scanned, has a stack of 32 levels: deeper is not possible.
enum { QPC_SCAN_MAX_DEPTH = 32 };

typedef struct qpc_scan_limits {
    size_t max_message; // bytes of one message
    int32_t max_depth;  // <= QPC_SCAN_MAX_DEPTH; containers inside containers, the outermost is 1
    size_t max_items;   // elements of all containers together (a map entry counts two)
    size_t max_key;     // bytes of one str (method names, keys, labels, text)
} qpc_scan_limits;
/// 64 MiB, 32, 1 Mi, 1 Mi. An element may take 90 bytes once decoded, so that items bound memory
/// more than message bytes do; bulk data belong into arrays (one bin each), which are borrowed.
qpc_scan_limits qpc_scan_limits_default(void);

typedef enum qpc_scan_outcome {
    QPC_SCAN_WHOLE,     // *ret_size bytes are one object
    QPC_SCAN_PARTIAL,   // more bytes are needed; nothing wrong so far
    QPC_SCAN_MALFORMED, // not MessagePack (0xc1), or not within limits: err says which
} qpc_scan_outcome;

/// Resumable: zero-initialise; after PARTIAL call again with the same bytes and more (the buffer
/// may have moved). Work is linear in the bytes in all. A container that claims more elements than
/// could still fit under max_message, or a str or bin longer than its limit, is MALFORMED at once.
/// After WHOLE zero it again for the next object; after MALFORMED it stays so.
typedef struct qpc_scanner {
    size_t at;        // where the next header is; beyond the bytes at hand inside a long str or bin
    size_t items;     // elements claimed so far
    uint64_t pending; // sum of left[]: at least so many bytes are still to come
    int32_t depth;
    uint64_t left[QPC_SCAN_MAX_DEPTH]; // elements still to come at each level
} qpc_scanner;
/// On MALFORMED err->status is QPC_ERR_MALFORMED (also for depth) or QPC_ERR_LIMIT.
qpc_scan_outcome qpc_scan(qpc_scanner *scanner, const uint8_t *bytes, size_t size,
                          const qpc_scan_limits *limits, size_t *ret_size, qpc_error *err);

#endif
