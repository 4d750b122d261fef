/// zstd with reused contexts and one output buffer that grows to the largest blob seen.
#include "storage/framecodec.h"

#include "base/mem.h"

#include <string.h>
#include <zstd.h>

struct qpc_framecodec {
    ZSTD_CCtx *compress;
    ZSTD_DCtx *decompress;
    uint8_t *buffer;
    size_t capacity;
};

qpc_status qpc_framecodec_create(int level, qpc_framecodec **ret, qpc_error *err) {
    qpc_framecodec *codec = qpc_calloc(1, sizeof *codec);
    if (codec == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a codec");
    codec->compress = ZSTD_createCCtx();
    codec->decompress = ZSTD_createDCtx();
    if (codec->compress == NULL || codec->decompress == NULL ||
        ZSTD_isError(ZSTD_CCtx_setParameter(codec->compress, ZSTD_c_compressionLevel, level)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(codec->compress, ZSTD_c_checksumFlag, 1))) {
        qpc_framecodec_destroy(codec);
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a codec");
    }
    *ret = codec;
    return QPC_OK;
}

void qpc_framecodec_destroy(qpc_framecodec *codec) {
    if (codec == NULL) return;
    ZSTD_freeCCtx(codec->compress);
    ZSTD_freeDCtx(codec->decompress);
    qpc_free(codec->buffer);
    qpc_free(codec);
}

qpc_status qpc_framecodec_encode(qpc_framecodec *codec, const void *data, size_t size,
                                 const void **ret, size_t *ret_size, const char **ret_encoding,
                                 qpc_error *err) {
    size_t bound = ZSTD_compressBound(size);
    if (ZSTD_isError(bound)) return qpc_fail(err, QPC_ERR_LIMIT, "a blob of %zu bytes", size);
    if (bound > codec->capacity) {
        uint8_t *larger = qpc_alloc(bound);
        if (larger == NULL)
            return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a blob of %zu bytes", size);
        qpc_free(codec->buffer);
        codec->buffer = larger;
        codec->capacity = bound;
    }
    size_t n = ZSTD_compress2(codec->compress, codec->buffer, codec->capacity, data, size);
    if (ZSTD_isError(n))
        return qpc_fail(err, QPC_ERR_MEMORY, "zstd: %s", ZSTD_getErrorName(n));
    *ret = codec->buffer;
    *ret_size = n;
    *ret_encoding = "zstd";
    return QPC_OK;
}

qpc_status qpc_framecodec_decode(qpc_framecodec *codec, const char *encoding, const void *data,
                                 size_t size, void *out, size_t out_size, qpc_error *err) {
    if (encoding == NULL || strcmp(encoding, "zstd") != 0)
        return qpc_fail(err, QPC_ERR_CORRUPT, "a blob of unknown encoding \"%.16s\"",
                        encoding != NULL ? encoding : "");
    unsigned long long content = ZSTD_getFrameContentSize(data, size);
    if (content != out_size)
        return qpc_fail(err, QPC_ERR_CORRUPT, "a zstd blob does not hold the %zu bytes wanted",
                        out_size);
    size_t n = ZSTD_decompressDCtx(codec->decompress, out, out_size, data, size);
    if (ZSTD_isError(n) || n != out_size)
        return qpc_fail(err, QPC_ERR_CORRUPT, "a zstd blob is damaged: %s",
                        ZSTD_isError(n) ? ZSTD_getErrorName(n) : "short");
    return QPC_OK;
}
