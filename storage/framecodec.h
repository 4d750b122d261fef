/// Blobs of a run file: zstd with reused contexts. One thread at a time.
///
/// Encodings, each one zstd frame with content size and checksum, so that a torn or altered blob is
/// noticed, also one that zstd could not make smaller:
///   zstd         the bytes
///   zstd-planes  an array (rows x columns) of numbers, taken apart: for each column, for each byte
///   of a
///                number (lowest first), that byte of every row. Smooth positions shrink by a third
///                where plain zstd finds next to nothing.
#ifndef QPC_STORAGE_FRAMECODEC_H
#define QPC_STORAGE_FRAMECODEC_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct qpc_framecodec qpc_framecodec;

/// level: of zstd, 1 (fast) to 19.
qpc_status qpc_framecodec_create(int level, qpc_framecodec **ret, qpc_error *err);
void qpc_framecodec_destroy(qpc_framecodec *codec); // NULL is accepted
/// *ret is borrowed until the next call. *ret_encoding is a literal.
qpc_status qpc_framecodec_encode(qpc_framecodec *codec, const void *data, size_t size,
                                 const void **ret, size_t *ret_size, const char **ret_encoding,
                                 qpc_error *err);
/// The same as zstd-planes; data has rows x columns numbers of item_size bytes.
qpc_status qpc_framecodec_encode_planes(qpc_framecodec *codec, const void *data, size_t rows,
                                        size_t columns, size_t item_size, const void **ret,
                                        size_t *ret_size, const char **ret_encoding,
                                        qpc_error *err);
/// Exactly out_size bytes into out, else QPC_ERR_CORRUPT. encoding may be NULL (damaged row).
qpc_status qpc_framecodec_decode(qpc_framecodec *codec, const char *encoding, const void *data,
                                 size_t size, void *out, size_t out_size, qpc_error *err);
/// rows x columns numbers into out, from either encoding.
qpc_status qpc_framecodec_decode_planes(qpc_framecodec *codec, const char *encoding,
                                        const void *data, size_t size, void *out, size_t rows,
                                        size_t columns, size_t item_size, qpc_error *err);
#endif
