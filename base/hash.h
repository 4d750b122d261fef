/// Hashes: SHA-256 (libcrypto) for content addresses, streaming XXH3-64 for state, hex, random.
#ifndef QPC_BASE_HASH_H
#define QPC_BASE_HASH_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct qpc_sha256 qpc_sha256; // streaming
qpc_status qpc_sha256_create(qpc_sha256 **ret, qpc_error *err);
qpc_status qpc_sha256_update(qpc_sha256 *h, const void *data, size_t size);
qpc_status qpc_sha256_final(qpc_sha256 *h, uint8_t ret[32]);
void qpc_sha256_destroy(qpc_sha256 *h);
qpc_status qpc_sha256_of(const void *data, size_t size, uint8_t ret[32], qpc_error *err);

/// Streaming XXH3-64 over exact bytes; doubles go in with -0 as +0. No memory taken after create.
typedef struct qpc_hash64 qpc_hash64;
qpc_status qpc_hash64_create(qpc_hash64 **ret, qpc_error *err);
void qpc_hash64_destroy(qpc_hash64 *h);
void qpc_hash64_reset(qpc_hash64 *h);
void qpc_hash64_bytes(qpc_hash64 *h, const void *data, size_t size);
void qpc_hash64_u64(qpc_hash64 *h, uint64_t v);
void qpc_hash64_doubles(qpc_hash64 *h, const double *v, size_t count);
uint64_t qpc_hash64_digest(const qpc_hash64 *h);

/// out has 2 * size + 1 bytes.
void qpc_hex_encode(const uint8_t *bytes, size_t size, char *out);
/// Exactly 2 * size hex digits (either case), else false.
bool qpc_hex_decode(const char *text, size_t text_size, uint8_t *out, size_t size);
/// getrandom(2); QPC_ERR_IO if the system has none to give.
qpc_status qpc_random_bytes(void *out, size_t size, qpc_error *err);
/// Compares in time that depends on size only.
bool qpc_equal_constant_time(const void *a, const void *b, size_t size);

#endif
