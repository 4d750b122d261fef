/// The only file that knows msgpack-c.
///
/// Decoding: scan, msgpack_unpack_next() into a zone, then one walk from its objects to values. The
/// walk recurses, at most QPC_SCAN_MAX_DEPTH levels; a linked list of frames on the stack gives the
/// path for error messages. Containers are allocated once at their exact size. Encoding walks the
/// tree and packs straight into the buffer. No state. Any thread.
#include "protocol/codec.h"

#include "base/mem.h"
#include "protocol/scan.h"
#include "protocol/text.h"

#include <inttypes.h>
#include <msgpack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENCODE_MAX_DEPTH = 64, PATH_SIZE = 120, SHOWN_SIZE = 48 };

// ---- the buffer ----

void qpc_buffer_fini(qpc_buffer *buffer) {
    if (buffer == NULL) return;
    qpc_free(buffer->data);
    *buffer = (qpc_buffer){0};
}

qpc_status qpc_buffer_reserve(qpc_buffer *buffer, size_t more) {
    size_t want;
    if (!qpc_add_size(buffer->size, more, &want)) return QPC_ERR_MEMORY;
    if (want <= buffer->capacity) return QPC_OK;
    size_t grown = buffer->capacity < 256 ? 256 : buffer->capacity;
    while (grown < want && grown <= SIZE_MAX / 2) grown *= 2;
    // Large messages are mostly one array: no need to double for the few bytes around it.
    if (grown < want || grown - want >= (size_t)1 << 20) grown = want + want / 8;
    uint8_t *data = qpc_realloc(buffer->data, grown);
    if (data == NULL) return QPC_ERR_MEMORY;
    buffer->data = data;
    buffer->capacity = grown;
    return QPC_OK;
}

qpc_status qpc_buffer_append(qpc_buffer *buffer, const void *bytes, size_t size) {
    if (size == 0) return QPC_OK;
    if (qpc_buffer_reserve(buffer, size) != QPC_OK) return QPC_ERR_MEMORY;
    memcpy(buffer->data + buffer->size, bytes, size);
    buffer->size += size;
    return QPC_OK;
}

// ---- paths for messages ----

/// One level of the walk: a key of a map or an index of a list.
typedef struct frame {
    const struct frame *up;
    const char *key; // NULL: index
    size_t key_size;
    uint32_t index;
} frame;

static size_t write_path(const frame *at, char *out, size_t room) {
    if (at == NULL) return 0;
    size_t n = write_path(at->up, out, room);
    char key[SHOWN_SIZE];
    if (n + 1 >= room) return n;
    int wrote;
    if (at->key != NULL) {
        qpc_utf8_clean(at->key, at->key_size, key, sizeof key);
        wrote = snprintf(out + n, room - n, "%s%s", n > 0 ? "." : "", key);
    } else {
        wrote = snprintf(out + n, room - n, "[%" PRIu32 "]", at->index);
    }
    n += wrote > 0 ? (size_t)wrote : 0;
    return n < room ? n : room - 1;
}

#define FAIL_AT(at, err, status, ...)                                                              \
    do {                                                                                           \
        char path_[PATH_SIZE] = "";                                                                \
        write_path((at), path_, sizeof path_);                                                     \
        return path_[0] != '\0' ? qpc_fail_at((err), (status), path_, __VA_ARGS__)                 \
                                : qpc_fail((err), (status), __VA_ARGS__);                          \
    } while (0)

// ---- decoding ----

static const char *type_name(const msgpack_object *o) {
    switch (o->type) {
    case MSGPACK_OBJECT_NIL:
        return "nil";
    case MSGPACK_OBJECT_BOOLEAN:
        return "a boolean";
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        return "an integer";
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        return "a real number";
    case MSGPACK_OBJECT_STR:
        return "a str";
    case MSGPACK_OBJECT_BIN:
        return "a bin";
    case MSGPACK_OBJECT_ARRAY:
        return "a list";
    case MSGPACK_OBJECT_MAP:
        return "a map";
    case MSGPACK_OBJECT_EXT:
        return "an extension type";
    }
    return "something unknown";
}

/// msgpack-c points empty text nowhere; ours always has an address, so that it may be compared and copied.
static const char *address(const char *bytes, size_t size) { return size > 0 ? bytes : ""; }

/// str and bin alike.
static bool as_bytes(const msgpack_object *o, const char **ret, size_t *ret_size) {
    if (o->type == MSGPACK_OBJECT_STR) {
        *ret = address(o->via.str.ptr, o->via.str.size);
        *ret_size = o->via.str.size;
        return true;
    }
    if (o->type == MSGPACK_OBJECT_BIN) {
        *ret = address(o->via.bin.ptr, o->via.bin.size);
        *ret_size = o->via.bin.size;
        return true;
    }
    return false;
}

static bool bytes_equal(const char *a, size_t size, const char *c_string) {
    return size == strlen(c_string) && memcmp(a, c_string, size) == 0;
}

/// The entries of a map that msgpack-numpy writes; NULL where absent.
typedef struct array_map {
    const msgpack_object *nd, *type, *kind, *shape, *data;
    bool other; // some other key is there too, or one of these twice
} array_map;

static array_map read_array_map(const msgpack_object_map *map) {
    array_map found = {0};
    for (uint32_t i = 0; i < map->size; i++) {
        const char *key;
        size_t size;
        const msgpack_object **slot = NULL;
        if (!as_bytes(&map->ptr[i].key, &key, &size))
            slot = NULL;
        else if (bytes_equal(key, size, "nd"))
            slot = &found.nd;
        else if (bytes_equal(key, size, "type"))
            slot = &found.type;
        else if (bytes_equal(key, size, "kind"))
            slot = &found.kind;
        else if (bytes_equal(key, size, "shape"))
            slot = &found.shape;
        else if (bytes_equal(key, size, "data"))
            slot = &found.data;
        if (slot == NULL || *slot != NULL)
            found.other = true;
        else
            *slot = &map->ptr[i].val;
    }
    return found;
}

#define DTYPES_WANTED "want \"<f8\", \"<f4\", \"<i4\", \"<i8\", \"<u8\" or \"|u1\""

/// Element type of an array or a numpy scalar, with an explanation for the ones that Python users
/// meet.
static qpc_status read_dtype(const array_map *a, const frame *at, qpc_dtype *ret, qpc_error *err) {
    const char *type = NULL, *kind = "";
    size_t type_size = 0, kind_size = 0;
    char shown[SHOWN_SIZE];
    if (a->kind != NULL && a->kind->type != MSGPACK_OBJECT_NIL &&
        !as_bytes(a->kind, &kind, &kind_size))
        FAIL_AT(at, err, QPC_ERR_INVALID, "kind of an array is %s; want an empty str",
                type_name(a->kind));
    if (kind_size > 0 && kind[0] == 'O')
        FAIL_AT(at, err, QPC_ERR_INVALID, "an array of Python objects (kind \"O\") is never read");
    if (kind_size > 0 && kind[0] == 'V')
        FAIL_AT(at, err, QPC_ERR_INVALID,
                "a structured array (kind \"V\"); send one array for each field");
    if (kind_size > 0) {
        qpc_utf8_clean(kind, kind_size, shown, sizeof shown);
        FAIL_AT(at, err, QPC_ERR_INVALID, "kind of an array is \"%s\"; want \"\"", shown);
    }
    if (a->type == NULL) FAIL_AT(at, err, QPC_ERR_INVALID, "an array without type; " DTYPES_WANTED);
    if (!as_bytes(a->type, &type, &type_size))
        FAIL_AT(at, err, QPC_ERR_INVALID, "type of an array is %s; " DTYPES_WANTED,
                type_name(a->type));
    if (qpc_dtype_from_name(type, type_size, ret)) return QPC_OK;
    qpc_utf8_clean(type, type_size, shown, sizeof shown);
    if (type_size > 0 && (type[0] == 'O' || (type_size > 1 && type[1] == 'O')))
        FAIL_AT(at, err, QPC_ERR_INVALID, "an array of Python objects (type \"%s\") is never read",
                shown);
    if (type_size > 0 && type[0] == '>')
        FAIL_AT(at, err, QPC_ERR_INVALID, "a big-endian array (type \"%s\"); " DTYPES_WANTED,
                shown);
    FAIL_AT(at, err, QPC_ERR_INVALID, "an array of type \"%s\"; " DTYPES_WANTED, shown);
}

static qpc_status read_shape(const msgpack_object *shape, const frame *at, int32_t *ret_ndim,
                             int64_t ret[QPC_TENSOR_MAX_DIMS], qpc_error *err) {
    if (shape == NULL) FAIL_AT(at, err, QPC_ERR_INVALID, "an array without shape");
    if (shape->type != MSGPACK_OBJECT_ARRAY)
        FAIL_AT(at, err, QPC_ERR_INVALID, "shape of an array is %s; want a list of sizes",
                type_name(shape));
    if (shape->via.array.size > QPC_TENSOR_MAX_DIMS)
        FAIL_AT(at, err, QPC_ERR_INVALID, "an array of %" PRIu32 " dimensions; at most %d",
                shape->via.array.size, QPC_TENSOR_MAX_DIMS);
    for (uint32_t d = 0; d < shape->via.array.size; d++) {
        const msgpack_object *n = &shape->via.array.ptr[d];
        if (n->type == MSGPACK_OBJECT_NEGATIVE_INTEGER)
            FAIL_AT(at, err, QPC_ERR_INVALID, "shape[%" PRIu32 "] of an array is %" PRId64, d,
                    n->via.i64);
        if (n->type != MSGPACK_OBJECT_POSITIVE_INTEGER)
            FAIL_AT(at, err, QPC_ERR_INVALID, "shape[%" PRIu32 "] of an array is %s; want a size",
                    d, type_name(n));
        if (n->via.u64 > INT64_MAX)
            FAIL_AT(at, err, QPC_ERR_INVALID, "shape[%" PRIu32 "] of an array is %" PRIu64, d,
                    n->via.u64);
        ret[d] = (int64_t)n->via.u64;
    }
    *ret_ndim = (int32_t)shape->via.array.size;
    return QPC_OK;
}

/// A numpy scalar {nd: false, type, data} as the number that it is.
static qpc_status read_numpy_scalar(qpc_dtype dtype, const char *data, size_t size, const frame *at,
                                    qpc_value *ret, qpc_error *err) {
    if (size != qpc_dtype_size(dtype))
        FAIL_AT(at, err, QPC_ERR_INVALID, "a scalar of type \"%s\" has %zu bytes; want %zu",
                qpc_dtype_name(dtype), size, qpc_dtype_size(dtype));
    union {
        double f64;
        float f32;
        int32_t i32;
        uint8_t u8;
        int64_t i64;
        uint64_t u64;
    } n;
    memcpy(&n, data, size);
    switch (dtype) {
    case QPC_F64:
        *ret = qpc_real(n.f64);
        break;
    case QPC_F32:
        *ret = qpc_real((double)n.f32);
        break;
    case QPC_I32:
        *ret = qpc_int(n.i32);
        break;
    case QPC_U8:
        *ret = qpc_int(n.u8);
        break;
    case QPC_I64:
        *ret = qpc_int(n.i64);
        break;
    case QPC_U64:
        *ret = qpc_uint(n.u64);
        break;
    }
    return QPC_OK;
}

static qpc_status read_array(const array_map *a, const frame *at, qpc_value *ret, qpc_error *err) {
    qpc_dtype dtype = QPC_F64;
    const char *data = NULL;
    size_t size = 0, wanted = 0;
    if (a->nd->type != MSGPACK_OBJECT_BOOLEAN)
        FAIL_AT(at, err, QPC_ERR_INVALID, "nd of an array is %s; want true or false",
                type_name(a->nd));
    if (a->other)
        FAIL_AT(
            at, err, QPC_ERR_INVALID,
            "a map with nd is an array: its keys are nd, type, kind, shape and data, once each");
    qpc_status status = read_dtype(a, at, &dtype, err);
    if (status != QPC_OK) return status;
    if (a->data == NULL || !as_bytes(a->data, &data, &size))
        FAIL_AT(at, err, QPC_ERR_INVALID, "data of an array is %s; want a bin",
                a->data == NULL ? "missing" : type_name(a->data));
    if (!a->nd->via.boolean) return read_numpy_scalar(dtype, data, size, at, ret, err);

    int32_t ndim = 0;
    int64_t shape[QPC_TENSOR_MAX_DIMS] = {0};
    status = read_shape(a->shape, at, &ndim, shape, err);
    if (status != QPC_OK) return status;
    // A size of zero must not hide an overflow of the others from whoever multiplies in another
    // order.
    int64_t nonzero[QPC_TENSOR_MAX_DIMS];
    for (int32_t d = 0; d < ndim; d++) nonzero[d] = shape[d] > 0 ? shape[d] : 1;
    if (!qpc_tensor_bytes(dtype, ndim, nonzero, &wanted) ||
        !qpc_tensor_bytes(dtype, ndim, shape, &wanted))
        FAIL_AT(at, err, QPC_ERR_INVALID, "the sizes in shape of an array overflow");
    if (wanted != size)
        FAIL_AT(at, err, QPC_ERR_INVALID,
                "an array whose shape and type \"%s\" make %zu bytes has %zu",
                qpc_dtype_name(dtype), wanted, size);
    *ret = qpc_tensor_borrow(dtype, ndim, shape, data);
    return QPC_OK;
}

static int compare_keys(const void *a, const void *b) {
    const qpc_value *x = &(*(const qpc_pair *const *)a)->key;
    const qpc_value *y = &(*(const qpc_pair *const *)b)->key;
    size_t common = x->str.size < y->str.size ? x->str.size : y->str.size;
    int order = common > 0 ? memcmp(x->str.bytes, y->str.bytes, common) : 0;
    return order != 0 ? order : (x->str.size > y->str.size) - (x->str.size < y->str.size);
}

static bool keys_equal(const qpc_value *a, const qpc_value *b) {
    return a->str.size == b->str.size && memcmp(a->str.bytes, b->str.bytes, a->str.size) == 0;
}

/// Eight bits from the size and the ends of a key; good enough to tell the names of one map apart.
static uint8_t key_slot(const qpc_value *key) {
    uint64_t head = 0, tail = 0;
    size_t n = key->str.size < sizeof head ? key->str.size : sizeof head;
    memcpy(&head, key->str.bytes, n);
    memcpy(&tail, key->str.bytes + (key->str.size - n), n);
    uint64_t mixed = (head ^ (tail << 7 | tail >> 57) ^ key->str.size) * 0x9e3779b97f4a7c15ULL;
    return (uint8_t)(mixed >> 56);
}

/// Two equal keys make a message ambiguous. *ret: the second of the two, or NULL. Maps of the usual
/// size go through a table on the stack, small enough that keys chosen to collide cost little;
/// larger ones are sorted, so that many keys do not cost the square of their number.
static qpc_status find_duplicate(const qpc_value *map, const qpc_value **ret) {
    enum { TABLE_MOST = 128 };
    const qpc_pair *pairs = map->map.pairs;
    int32_t count = map->map.count;
    *ret = NULL;
    if (count <= TABLE_MOST) {
        uint8_t first[256] = {0}, next[TABLE_MOST]; // numbers of pairs from 1; 0 ends a chain
        for (int32_t i = 0; i < count; i++) {
            uint8_t slot = key_slot(&pairs[i].key);
            for (int32_t j = first[slot]; j != 0; j = next[j - 1])
                if (keys_equal(&pairs[j - 1].key, &pairs[i].key)) *ret = &pairs[i].key;
            next[i] = first[slot];
            first[slot] = (uint8_t)(i + 1);
        }
        return QPC_OK;
    }
    const qpc_pair **sorted = qpc_alloc_array((size_t)count, sizeof *sorted);
    if (sorted == NULL) return QPC_ERR_MEMORY;
    for (int32_t i = 0; i < count; i++) sorted[i] = &pairs[i];
    qsort(sorted, (size_t)count, sizeof *sorted, compare_keys);
    for (int32_t i = 1; i < count && *ret == NULL; i++)
        if (keys_equal(&sorted[i - 1]->key, &sorted[i]->key)) *ret = &sorted[i]->key;
    qpc_free(sorted);
    return QPC_OK;
}

static qpc_status from_object(const msgpack_object *o, const frame *at, qpc_value *ret,
                              qpc_error *err);

/// The largest counts are within QPC_SCAN's items of a message, but int32_t is what a value has.
static qpc_status check_count(uint32_t count, const frame *at, qpc_error *err) {
    if (count > INT32_MAX) FAIL_AT(at, err, QPC_ERR_LIMIT, "%" PRIu32 " elements", count);
    return QPC_OK;
}

static qpc_status from_list(const msgpack_object *o, const frame *at, qpc_value *ret,
                            qpc_error *err) {
    uint32_t count = o->via.array.size;
    qpc_status status = check_count(count, at, err);
    *ret = qpc_list();
    if (status != QPC_OK || count == 0) return status;
    ret->list.items = qpc_alloc_array(count, sizeof(qpc_value));
    if (ret->list.items == NULL) {
        *ret = qpc_nil();
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory for a list of %" PRIu32, count);
    }
    ret->list.capacity = (int32_t)count;
    for (uint32_t i = 0; i < count; i++) {
        frame below = {.up = at, .index = i};
        status = from_object(&o->via.array.ptr[i], &below, &ret->list.items[i], err);
        if (status != QPC_OK) break;
        ret->list.count++;
    }
    if (status != QPC_OK) qpc_value_fini(ret);
    return status;
}

static qpc_status check_utf8(const char *bytes, size_t size, const frame *at, qpc_error *err) {
    size_t bad = qpc_utf8_prefix(bytes, size);
    if (bad < size)
        FAIL_AT(at, err, QPC_ERR_INVALID, "a str that is not UTF-8 at byte %zu of %zu", bad, size);
    return QPC_OK;
}

static qpc_status map_pair(const msgpack_object_kv *kv, const frame *at, qpc_pair *ret,
                           qpc_error *err) {
    const char *key;
    size_t size;
    if (!as_bytes(&kv->key, &key, &size))
        FAIL_AT(at, err, QPC_ERR_INVALID, "a map key is %s; want text", type_name(&kv->key));
    qpc_status status = check_utf8(key, size, at, err);
    if (status != QPC_OK) return status;
    frame below = {.up = at, .key = key, .key_size = size};
    ret->key = qpc_str_borrow(key, size);
    return from_object(&kv->val, &below, &ret->value, err);
}

static qpc_status from_map(const msgpack_object *o, const frame *at, qpc_value *ret,
                           qpc_error *err) {
    uint32_t count = o->via.map.size;
    array_map array = {0};
    // Arrays have at most five entries; do not search large maps for nd.
    if (count > 0 && count <= 16) array = read_array_map(&o->via.map);
    if (array.nd != NULL) return read_array(&array, at, ret, err);

    qpc_status status = check_count(count, at, err);
    *ret = qpc_map();
    if (status != QPC_OK || count == 0) return status;
    ret->map.pairs = qpc_alloc_array(count, sizeof(qpc_pair));
    if (ret->map.pairs == NULL) {
        *ret = qpc_nil();
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory for a map of %" PRIu32, count);
    }
    ret->map.capacity = (int32_t)count;
    for (uint32_t i = 0; i < count && status == QPC_OK; i++) {
        status = map_pair(&o->via.map.ptr[i], at, &ret->map.pairs[i], err);
        if (status == QPC_OK) ret->map.count++;
    }
    const qpc_value *twice = NULL;
    if (status == QPC_OK) {
        status = find_duplicate(ret, &twice);
        if (status != QPC_OK) qpc_fail(err, status, "no memory to compare %" PRIu32 " keys", count);
    }
    if (status == QPC_OK && twice != NULL) {
        char path[PATH_SIZE] = "";
        frame below = {.up = at, .key = twice->str.bytes, .key_size = twice->str.size};
        write_path(&below, path, sizeof path);
        status = qpc_fail_at(err, QPC_ERR_INVALID, path, "the key is there twice");
    }
    if (status != QPC_OK) qpc_value_fini(ret);
    return status;
}

/// On failure *ret is nil or untouched; nothing is owned.
static qpc_status from_object(const msgpack_object *o, const frame *at, qpc_value *ret,
                              qpc_error *err) {
    qpc_status status;
    switch (o->type) {
    case MSGPACK_OBJECT_NIL:
        *ret = qpc_nil();
        return QPC_OK;
    case MSGPACK_OBJECT_BOOLEAN:
        *ret = qpc_bool(o->via.boolean);
        return QPC_OK;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        *ret = qpc_uint(o->via.u64);
        return QPC_OK;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        *ret = qpc_int(o->via.i64);
        return QPC_OK;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        *ret = qpc_real(o->via.f64);
        return QPC_OK;
    case MSGPACK_OBJECT_STR:
        status = check_utf8(o->via.str.ptr, o->via.str.size, at, err);
        if (status == QPC_OK)
            *ret = qpc_str_borrow(address(o->via.str.ptr, o->via.str.size), o->via.str.size);
        return status;
    case MSGPACK_OBJECT_BIN:
        *ret = qpc_bin_borrow(address(o->via.bin.ptr, o->via.bin.size), o->via.bin.size);
        return QPC_OK;
    case MSGPACK_OBJECT_ARRAY:
        return from_list(o, at, ret, err);
    case MSGPACK_OBJECT_MAP:
        return from_map(o, at, ret, err);
    case MSGPACK_OBJECT_EXT:
        FAIL_AT(at, err, QPC_ERR_INVALID, "extension type %d; none is used here", o->via.ext.type);
    }
    FAIL_AT(at, err, QPC_ERR_INTERNAL, "an object of unknown type");
}

qpc_status qpc_decode(const uint8_t *bytes, size_t size, qpc_value *ret, qpc_error *err) {
    // Whatever is claimed must be there: msgpack-c reserves memory from headers alone.
    const qpc_scan_limits limits = {.max_message = SIZE_MAX / 2,
                                    .max_depth = QPC_SCAN_MAX_DEPTH,
                                    .max_items = SIZE_MAX / 2,
                                    .max_key = SIZE_MAX / 2};
    qpc_scanner scanner = {0};
    size_t used = 0;
    switch (qpc_scan(&scanner, bytes, size, &limits, &used, err)) {
    case QPC_SCAN_WHOLE:
        break;
    case QPC_SCAN_PARTIAL:
        return qpc_fail(err, QPC_ERR_MALFORMED, "a message is cut short");
    case QPC_SCAN_MALFORMED:
        return QPC_ERR_MALFORMED;
    }
    if (used != size)
        return qpc_fail(err, QPC_ERR_MALFORMED, "%zu bytes follow the message", size - used);

    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    size_t at = 0;
    qpc_status status = QPC_OK;
    switch (msgpack_unpack_next(&unpacked, (const char *)bytes, size, &at)) {
    case MSGPACK_UNPACK_SUCCESS:
    case MSGPACK_UNPACK_EXTRA_BYTES:
        break;
    case MSGPACK_UNPACK_NOMEM_ERROR:
        status = qpc_fail(err, QPC_ERR_MEMORY, "no memory to decode %zu bytes", size);
        break;
    case MSGPACK_UNPACK_CONTINUE:
    case MSGPACK_UNPACK_PARSE_ERROR:
        status = qpc_fail(err, QPC_ERR_MALFORMED, "%zu bytes are not MessagePack", size);
        break;
    }
    if (status == QPC_OK) {
        qpc_value value = qpc_nil();
        status = from_object(&unpacked.data, NULL, &value, err);
        if (status == QPC_OK) *ret = value;
    }
    msgpack_unpacked_destroy(&unpacked);
    return status;
}

// ---- encoding ----

/// What msgpack-c writes through: non-zero stops nothing by itself, so the failure is kept.
typedef struct sink {
    qpc_buffer *buffer;
    bool failed;
} sink;

static int sink_write(void *data, const char *bytes, size_t size) {
    sink *s = data;
    qpc_buffer *buffer = s->buffer;
    if (s->failed) return -1;
    if (size > buffer->capacity - buffer->size && qpc_buffer_reserve(buffer, size) != QPC_OK) {
        s->failed = true;
        return -1;
    }
    if (size > 0) memcpy(buffer->data + buffer->size, bytes, size);
    buffer->size += size;
    return 0;
}

static void pack_text(msgpack_packer *pk, const char *bytes, size_t size) {
    msgpack_pack_str(pk, size);
    size_t good = qpc_utf8_prefix(bytes, size);
    msgpack_pack_str_body(pk, bytes, good);
    // Rare: some file name of another encoding in an error message, say.
    while (good < size) {
        int n = qpc_utf8_length(bytes + good, size - good);
        msgpack_pack_str_body(pk, n > 0 ? bytes + good : "?", n > 0 ? (size_t)n : 1);
        good += n > 0 ? (size_t)n : 1;
    }
}

static void pack_key(msgpack_packer *pk, bool bin, const char *name) {
    size_t size = strlen(name);
    if (bin)
        msgpack_pack_bin_with_body(pk, name, size);
    else
        msgpack_pack_str_with_body(pk, name, size);
}

static void pack_tensor(msgpack_packer *pk, sink *s, const qpc_tensor *t, bool bin_keys) {
    const char *name = qpc_dtype_name(t->dtype);
    size_t room;
    if (!qpc_add_size(t->size, 128, &room) || qpc_buffer_reserve(s->buffer, room) != QPC_OK) {
        s->failed = true;
        return;
    }
    msgpack_pack_map(pk, 5);
    pack_key(pk, bin_keys, "nd");
    msgpack_pack_true(pk);
    pack_key(pk, bin_keys, "type");
    msgpack_pack_str_with_body(pk, name, strlen(name));
    pack_key(pk, bin_keys, "kind");
    pack_key(pk, bin_keys, "");
    pack_key(pk, bin_keys, "shape");
    msgpack_pack_array(pk, (size_t)t->ndim);
    for (int32_t d = 0; d < t->ndim; d++) msgpack_pack_int64(pk, t->shape[d]);
    pack_key(pk, bin_keys, "data");
    msgpack_pack_bin(pk, t->size);
    if (t->size > 0) msgpack_pack_bin_body(pk, t->data, t->size);
}

static qpc_status too_long(size_t size, qpc_error *err) {
    return qpc_fail(err, QPC_ERR_LIMIT, "%zu bytes do not fit one MessagePack bin or str", size);
}

static qpc_status pack_value(msgpack_packer *pk, sink *s, const qpc_value *v, bool bin_keys,
                             int depth, qpc_error *err) {
    qpc_status status = QPC_OK;
    if (depth > ENCODE_MAX_DEPTH)
        return qpc_fail(err, QPC_ERR_LIMIT, "a tree of more than %d levels", ENCODE_MAX_DEPTH);
    switch (v->kind) {
    case QPC_NIL:
        msgpack_pack_nil(pk);
        break;
    case QPC_BOOL:
        if (v->b)
            msgpack_pack_true(pk);
        else
            msgpack_pack_false(pk);
        break;
    case QPC_INT:
        if (v->is_unsigned)
            msgpack_pack_uint64(pk, v->u);
        else
            msgpack_pack_int64(pk, v->i);
        break;
    case QPC_REAL:
        msgpack_pack_double(pk, v->real);
        break;
    case QPC_STR:
        if (v->str.size > UINT32_MAX) return too_long(v->str.size, err);
        pack_text(pk, v->str.bytes, v->str.size);
        break;
    case QPC_BIN:
        if (v->str.size > UINT32_MAX) return too_long(v->str.size, err);
        msgpack_pack_bin(pk, v->str.size);
        if (v->str.size > 0) msgpack_pack_bin_body(pk, v->str.bytes, v->str.size);
        break;
    case QPC_TENSOR:
        if (v->tensor.size > UINT32_MAX) return too_long(v->tensor.size, err);
        pack_tensor(pk, s, &v->tensor, bin_keys);
        break;
    case QPC_LIST:
        msgpack_pack_array(pk, (size_t)v->list.count);
        for (int32_t i = 0; i < v->list.count && status == QPC_OK && !s->failed; i++)
            status = pack_value(pk, s, &v->list.items[i], bin_keys, depth + 1, err);
        break;
    case QPC_MAP:
        msgpack_pack_map(pk, (size_t)v->map.count);
        for (int32_t i = 0; i < v->map.count && status == QPC_OK && !s->failed; i++) {
            const qpc_pair *pair = &v->map.pairs[i];
            if (pair->key.str.size > UINT32_MAX) return too_long(pair->key.str.size, err);
            pack_text(pk, pair->key.str.bytes, pair->key.str.size);
            status = pack_value(pk, s, &pair->value, bin_keys, depth + 1, err);
        }
        break;
    }
    return status;
}

qpc_status qpc_encode(const qpc_value *v, bool bin_keys, qpc_buffer *buffer, qpc_error *err) {
    size_t before = buffer->size;
    sink s = {.buffer = buffer};
    msgpack_packer pk;
    msgpack_packer_init(&pk, &s, sink_write);
    qpc_status status = pack_value(&pk, &s, v, bin_keys, 0, err);
    if (status == QPC_OK && s.failed)
        status = qpc_fail(err, QPC_ERR_MEMORY, "no memory to encode a message");
    if (status != QPC_OK) buffer->size = before;
    return status;
}
