/// zstd with reused contexts and two buffers that grow to the largest blob seen.
#include "storage/framecodec.h"

#include "base/mem.h"

#include <string.h>
#include <zstd.h>

struct qpc_framecodec {
    ZSTD_CCtx *compress;
    ZSTD_DCtx *decompress;
    uint8_t *buffer; // compressed
    size_t capacity;
    uint8_t *planes;
    size_t plane_capacity;
};

static bool grow(uint8_t **buffer, size_t *capacity, size_t want) {
    if (want <= *capacity) return true;
    uint8_t *larger = qpc_alloc(want);
    if (larger == NULL) return false;
    qpc_free(*buffer);
    *buffer = larger;
    *capacity = want;
    return true;
}

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
    qpc_free(codec->planes);
    qpc_free(codec);
}

qpc_status qpc_framecodec_encode(qpc_framecodec *codec, const void *data, size_t size,
                                 const void **ret, size_t *ret_size, const char **ret_encoding,
                                 qpc_error *err) {
    size_t bound = ZSTD_compressBound(size);
    if (ZSTD_isError(bound)) return qpc_fail(err, QPC_ERR_LIMIT, "a blob of %zu bytes", size);
    if (!grow(&codec->buffer, &codec->capacity, bound))
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a blob of %zu bytes", size);
    size_t n = ZSTD_compress2(codec->compress, codec->buffer, codec->capacity, data, size);
    if (ZSTD_isError(n)) return qpc_fail(err, QPC_ERR_MEMORY, "zstd: %s", ZSTD_getErrorName(n));
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

qpc_status qpc_framecodec_encode_planes(qpc_framecodec *codec, const void *data, size_t rows,
                                        size_t columns, size_t item_size, const void **ret,
                                        size_t *ret_size, const char **ret_encoding,
                                        qpc_error *err) {
    size_t stride, size;
    if (!qpc_mul_size(columns, item_size, &stride) || !qpc_mul_size(rows, stride, &size) ||
        !grow(&codec->planes, &codec->plane_capacity, size))
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for an array of %zu rows", rows);
    const uint8_t *in = data;
    uint8_t *out = codec->planes;
    for (size_t plane = 0; plane < stride; plane++)
        for (size_t i = 0; i < rows; i++) *out++ = in[i * stride + plane];
    qpc_status status =
        qpc_framecodec_encode(codec, codec->planes, size, ret, ret_size, ret_encoding, err);
    if (status == QPC_OK) *ret_encoding = "zstd-planes";
    return status;
}

qpc_status qpc_framecodec_decode_planes(qpc_framecodec *codec, const char *encoding,
                                        const void *data, size_t size, void *out, size_t rows,
                                        size_t columns, size_t item_size, qpc_error *err) {
    size_t stride, bytes;
    if (!qpc_mul_size(columns, item_size, &stride) || !qpc_mul_size(rows, stride, &bytes))
        return qpc_fail(err, QPC_ERR_CORRUPT, "an array of %zu rows", rows);
    if (encoding == NULL || strcmp(encoding, "zstd-planes") != 0)
        return qpc_framecodec_decode(codec, encoding, data, size, out, bytes, err);
    if (!grow(&codec->planes, &codec->plane_capacity, bytes))
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for an array of %zu rows", rows);
    qpc_status status = qpc_framecodec_decode(codec, "zstd", data, size, codec->planes, bytes, err);
    if (status != QPC_OK) return status;
    const uint8_t *in = codec->planes;
    uint8_t *to = out;
    for (size_t plane = 0; plane < stride; plane++)
        for (size_t i = 0; i < rows; i++) to[i * stride + plane] = *in++;
    return QPC_OK;
}
