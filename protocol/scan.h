/// Walks raw bytes before anything is allocated: is one whole MessagePack object there, and is it within
/// limits? Depth, claimed counts against bytes present, lengths against limits. No recursion, no memory.
#ifndef QPC_PROTOCOL_SCAN_H
#define QPC_PROTOCOL_SCAN_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { QPC_SCAN_MAX_DEPTH = 64 };

typedef struct qpc_scan_limits {
    size_t max_message;  // bytes of one message
    int32_t max_depth;   // <= QPC_SCAN_MAX_DEPTH; containers inside containers
    size_t max_items;    // elements of all containers together
    size_t max_key;      // bytes of one str (method names, keys, labels, text)
} qpc_scan_limits;
qpc_scan_limits qpc_scan_limits_default(void); // 64 MiB, 32, 4 Mi, 1 Mi

typedef enum qpc_scan_outcome {
    QPC_SCAN_WHOLE,     // *ret_size bytes are one object
    QPC_SCAN_PARTIAL,   // more bytes are needed; nothing wrong so far
    QPC_SCAN_MALFORMED, // not MessagePack (0xc1), or not within limits: err says which
} qpc_scan_outcome;

/// Resumable: zero-initialise; after PARTIAL call again with the same bytes and more (the buffer may have
/// moved). Work is linear in the bytes in all. A container that claims more elements than could still fit
/// under max_message is MALFORMED at once.
typedef struct qpc_scanner {
    size_t at;                 // bytes walked
    size_t items;
    int32_t depth;
    uint64_t left[QPC_SCAN_MAX_DEPTH]; // elements still to come at each level
} qpc_scanner;
/// On MALFORMED err->status is QPC_ERR_MALFORMED or QPC_ERR_LIMIT.
qpc_scan_outcome qpc_scan(qpc_scanner *scanner, const uint8_t *bytes, size_t size,
                          const qpc_scan_limits *limits, size_t *ret_size, qpc_error *err);

#endif
