/// The pre-scan: one loop over MessagePack headers, so that no later code sees a claim that the
/// bytes do not back.
///
///     header -> (payload bytes to skip, child elements to expect)
///
/// Payloads are skipped by arithmetic, `at` may point beyond the bytes at hand. `left` is a stack
/// of counts, one a level; `pending` is their sum, and since every element takes a byte at least, a
/// sum larger than what max_message still allows is refused as soon as its header is seen. No state
/// but the caller's. Any thread.
#include "protocol/scan.h"

#include <stdbool.h>
#include <string.h>

qpc_scan_limits qpc_scan_limits_default(void) {
    return (qpc_scan_limits){.max_message = (size_t)64 << 20,
                             .max_depth = QPC_SCAN_MAX_DEPTH,
                             .max_items = (size_t)1 << 20,
                             .max_key = (size_t)1 << 20};
}

static uint64_t big_endian(const uint8_t *p, int size) {
    uint64_t v = 0;
    for (int i = 0; i < size; i++) v = v << 8 | p[i];
    return v;
}

/// What one header says.
typedef struct header {
    int32_t size;      // bytes of the header itself, the length field included
    bool container;    // array or map
    bool text;         // str
    uint64_t payload;  // bytes after the header
    uint64_t elements; // elements after the header (a map's pairs count two each)
} header;

typedef enum header_outcome { HEADER_OK, HEADER_PARTIAL, HEADER_UNUSED } header_outcome;

/// Length field of `field` bytes after the first one.
static bool read_length(const uint8_t *p, size_t have, int field, uint64_t *ret) {
    if (have < (size_t)field + 1) return false;
    *ret = big_endian(p + 1, field);
    return true;
}

static header_outcome read_header(const uint8_t *p, size_t have, header *h) {
    uint8_t b = p[0];
    int field = 0; // bytes of the length field
    uint64_t length = 0;
    *h = (header){.size = 1};
    if (b <= 0x7f || b >= 0xe0) return HEADER_OK; // fixint
    if (b <= 0x8f) {
        h->container = true;
        h->elements = 2 * (uint64_t)(b & 0x0f);
        return HEADER_OK;
    }
    if (b <= 0x9f) {
        h->container = true;
        h->elements = b & 0x0f;
        return HEADER_OK;
    }
    if (b <= 0xbf) {
        h->text = true;
        h->payload = b & 0x1f;
        return HEADER_OK;
    }
    switch (b) {
    case 0xc0: // nil
    case 0xc2: // false
    case 0xc3: // true
        return HEADER_OK;
    case 0xcc: // uint8
    case 0xd0:
        h->payload = 1;
        return HEADER_OK;
    case 0xcd: // uint16
    case 0xd1:
        h->payload = 2;
        return HEADER_OK;
    case 0xca: // float32
    case 0xce: // uint32
    case 0xd2:
        h->payload = 4;
        return HEADER_OK;
    case 0xcb: // float64
    case 0xcf: // uint64
    case 0xd3:
        h->payload = 8;
        return HEADER_OK;
    case 0xd4: // fixext 1, 2, 4, 8, 16: one type byte
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8:
        h->payload = ((uint64_t)1 << (b - 0xd4)) + 1;
        return HEADER_OK;
    case 0xc4: // bin 8, 16, 32
    case 0xc5:
    case 0xc6:
        field = 1 << (b - 0xc4);
        break;
    case 0xc7: // ext 8, 16, 32
    case 0xc8:
    case 0xc9:
        field = 1 << (b - 0xc7);
        break;
    case 0xd9: // str 8, 16, 32
    case 0xda:
    case 0xdb:
        field = 1 << (b - 0xd9);
        break;
    case 0xdc: // array 16, 32
    case 0xdd:
        field = 2 << (b - 0xdc);
        break;
    case 0xde: // map 16, 32
    case 0xdf:
        field = 2 << (b - 0xde);
        break;
    default:
        return HEADER_UNUSED; // 0xc1
    }
    if (!read_length(p, have, field, &length)) return HEADER_PARTIAL;
    h->size = 1 + field;
    if (b >= 0xde) {
        h->container = true;
        h->elements = 2 * length;
    } else if (b >= 0xdc) {
        h->container = true;
        h->elements = length;
    } else {
        h->text = b >= 0xd9;
        h->payload = length + (b >= 0xc7 && b <= 0xc9 ? 1 : 0);
    }
    return HEADER_OK;
}

/// Make the scanner answer MALFORMED from now on.
static qpc_scan_outcome refuse(qpc_scanner *s) {
    s->depth = -1;
    return QPC_SCAN_MALFORMED;
}

qpc_scan_outcome qpc_scan(qpc_scanner *s, const uint8_t *bytes, size_t size,
                          const qpc_scan_limits *limits, size_t *ret_size, qpc_error *err) {
    int32_t max_depth =
        limits->max_depth < QPC_SCAN_MAX_DEPTH ? limits->max_depth : QPC_SCAN_MAX_DEPTH;
    if (s->depth < 0) {
        qpc_fail(err, QPC_ERR_MALFORMED, "the bytes before these were malformed");
        return QPC_SCAN_MALFORMED;
    }
    // Everything walked and nothing expected: only the last payload was missing.
    if (s->at > 0 && s->pending == 0) {
        if (s->at > size) return QPC_SCAN_PARTIAL;
        *ret_size = s->at;
        return QPC_SCAN_WHOLE;
    }
    while (s->at < size) {
        header h;
        switch (read_header(bytes + s->at, size - s->at, &h)) {
        case HEADER_OK:
            break;
        case HEADER_PARTIAL:
            goto partial;
        case HEADER_UNUSED:
            qpc_fail(err, QPC_ERR_MALFORMED, "byte 0xc1 at offset %zu is not MessagePack", s->at);
            return refuse(s);
        }
        // The element is one of its container's; its own elements are expected below.
        if (s->depth > 0) {
            s->left[s->depth - 1]--;
            s->pending--;
        }
        if (h.text && h.payload > limits->max_key) {
            qpc_fail(err, QPC_ERR_LIMIT, "a str of %llu bytes at offset %zu; the limit is %zu",
                     (unsigned long long)h.payload, s->at, limits->max_key);
            return refuse(s);
        }
        if (h.container && s->depth >= max_depth) {
            qpc_fail(err, QPC_ERR_MALFORMED, "nested deeper than %d levels at offset %zu",
                     (int)max_depth, s->at);
            return refuse(s);
        }
        if (h.elements > limits->max_items || s->items > limits->max_items - h.elements) {
            qpc_fail(
                err, QPC_ERR_LIMIT,
                "%llu elements are claimed up to offset %zu, the limit is %zu; send numbers in "
                "bulk as arrays {nd, type, kind, shape, data}",
                (unsigned long long)(s->items + h.elements), s->at, limits->max_items);
            return refuse(s);
        }
        s->items += (size_t)h.elements;
        s->pending += h.elements;

        // Header and payload, and one byte at least for whatever is still expected. No sum here can
        // overflow: lengths have 32 bits, pending is within max_items.
        uint64_t end = (uint64_t)s->at + (uint64_t)h.size + h.payload;
        if (end > limits->max_message || s->pending > limits->max_message - end) {
            qpc_fail(err, QPC_ERR_LIMIT,
                     "a message of at least %llu bytes is claimed at offset %zu; the limit is %zu",
                     (unsigned long long)(end + s->pending), s->at, limits->max_message);
            return refuse(s);
        }
        s->at = (size_t)end;
        if (h.container && h.elements > 0) s->left[s->depth++] = h.elements;

        // Containers that are complete.
        while (s->depth > 0 && s->left[s->depth - 1] == 0) s->depth--;
        if (s->pending == 0) {
            if (s->at > size) return QPC_SCAN_PARTIAL;
            *ret_size = s->at;
            return QPC_SCAN_WHOLE;
        }
    }
partial:
    // A whole message cannot be longer than the limit, so a partial one at the limit is too long.
    if (size >= limits->max_message) {
        qpc_fail(err, QPC_ERR_LIMIT, "a message is longer than the limit of %zu bytes",
                 limits->max_message);
        return refuse(s);
    }
    return QPC_SCAN_PARTIAL;
}
