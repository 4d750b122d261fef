/// SHA-256 by libcrypto's EVP, XXH3-64 by libxxhash, hex and random bytes. Objects belong to one
/// thread at a time; the functions without an object may run anywhere.
#include "base/hash.h"

#include "base/mem.h"

#include <endian.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/random.h>
#define XXH_STATIC_LINKING_ONLY // the state's size, so that it is ours to allocate
#include <xxhash.h>

// ---- SHA-256 ----

struct qpc_sha256 {
    EVP_MD_CTX *context;
    bool broken;
};

qpc_status qpc_sha256_create(qpc_sha256 **ret, qpc_error *err) {
    qpc_sha256 *h = qpc_calloc(1, sizeof *h);
    if (h == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for a SHA-256 state");
    h->context = EVP_MD_CTX_new();
    if (h->context == NULL || EVP_DigestInit_ex(h->context, EVP_sha256(), NULL) != 1) {
        qpc_sha256_destroy(h);
        return qpc_fail(err, QPC_ERR_MEMORY, "libcrypto has no SHA-256 to give");
    }
    *ret = h;
    return QPC_OK;
}

qpc_status qpc_sha256_update(qpc_sha256 *h, const void *data, size_t size) {
    if (size > 0 && EVP_DigestUpdate(h->context, data, size) != 1) h->broken = true;
    return h->broken ? QPC_ERR_INTERNAL : QPC_OK;
}

qpc_status qpc_sha256_final(qpc_sha256 *h, uint8_t ret[32]) {
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    if (h->broken || EVP_DigestFinal_ex(h->context, digest, &size) != 1 || size != 32) {
        h->broken = true;
        return QPC_ERR_INTERNAL;
    }
    h->broken = true; // until the end of its life: a digest is taken once
    memcpy(ret, digest, 32);
    return QPC_OK;
}

void qpc_sha256_destroy(qpc_sha256 *h) {
    if (h == NULL) return;
    EVP_MD_CTX_free(h->context);
    qpc_free(h);
}

qpc_status qpc_sha256_of(const void *data, size_t size, uint8_t ret[32], qpc_error *err) {
    qpc_sha256 *h = NULL;
    qpc_status status = qpc_sha256_create(&h, err);
    if (status != QPC_OK) return status;
    status = qpc_sha256_update(h, data, size);
    if (status == QPC_OK) status = qpc_sha256_final(h, ret);
    qpc_sha256_destroy(h);
    if (status != QPC_OK) return qpc_fail(err, status, "libcrypto failed inside SHA-256");
    return QPC_OK;
}

// ---- XXH3-64 ----

struct qpc_hash64 {
    XXH3_state_t state; // wants 64-byte alignment
    void *block;        // what was allocated
};

qpc_status qpc_hash64_create(qpc_hash64 **ret, qpc_error *err) {
    const uintptr_t align = _Alignof(struct qpc_hash64);
    void *block = qpc_alloc(sizeof(qpc_hash64) + align);
    if (block == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for a hash state");
    qpc_hash64 *h = (qpc_hash64 *)(((uintptr_t)block + align - 1) & ~(align - 1));
    memset(h, 0, sizeof *h);
    h->block = block;
    qpc_hash64_reset(h);
    *ret = h;
    return QPC_OK;
}

void qpc_hash64_destroy(qpc_hash64 *h) {
    if (h != NULL) qpc_free(h->block);
}

void qpc_hash64_reset(qpc_hash64 *h) {
    XXH3_64bits_reset(&h->state);
}

void qpc_hash64_bytes(qpc_hash64 *h, const void *data, size_t size) {
    if (size > 0) XXH3_64bits_update(&h->state, data, size);
}

void qpc_hash64_u64(qpc_hash64 *h, uint64_t v) {
    uint64_t little = htole64(v);
    qpc_hash64_bytes(h, &little, sizeof little);
}

void qpc_hash64_doubles(qpc_hash64 *h, const double *v, size_t count) {
    uint64_t chunk[128];
    const size_t room = sizeof chunk / sizeof chunk[0];
    for (size_t i = 0; i < count;) {
        size_t n = count - i < room ? count - i : room;
        for (size_t k = 0; k < n; k++) {
            double d = v[i + k] == 0.0 ? 0.0 : v[i + k]; // -0 as +0
            memcpy(&chunk[k], &d, sizeof d);
            chunk[k] = htole64(chunk[k]);
        }
        qpc_hash64_bytes(h, chunk, n * sizeof chunk[0]);
        i += n;
    }
}

uint64_t qpc_hash64_digest(const qpc_hash64 *h) {
    return XXH3_64bits_digest(&h->state);
}

// ---- hex, random, comparison ----

void qpc_hex_encode(const uint8_t *bytes, size_t size, char *out) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * size] = '\0';
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

bool qpc_hex_decode(const char *text, size_t text_size, uint8_t *out, size_t size) {
    if (text_size % 2 != 0 || text_size / 2 != size) return false;
    // Look before writing, so that out is untouched on failure.
    for (size_t i = 0; i < text_size; i++)
        if (hex_digit(text[i]) < 0) return false;
    for (size_t i = 0; i < size; i++)
        out[i] = (uint8_t)(hex_digit(text[2 * i]) * 16 + hex_digit(text[2 * i + 1]));
    return true;
}

qpc_status qpc_random_bytes(void *out, size_t size, qpc_error *err) {
    uint8_t *p = out;
    while (size > 0) {
        ssize_t n = getrandom(p, size, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return qpc_fail(err, QPC_ERR_IO, "getrandom: %s", strerror(errno));
        p += n;
        size -= (size_t)n;
    }
    return QPC_OK;
}

bool qpc_equal_constant_time(const void *a, const void *b, size_t size) {
    return CRYPTO_memcmp(a, b, size) == 0;
}
