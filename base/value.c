/// Value trees: making, copying, comparing, and the typed reads that every parser of ours uses.
///
/// The reads are the one place where bad input becomes a sentence: path, what was found, what is
/// wanted. They take no memory but for the matrices they return. A tree belongs to one thread.
#include "base/value.h"

#include "base/array.h"
#include "base/nearest.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PATH_SIZE = 120, TEXT_SIZE = 160 };

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [QPC_F64] = {"<f8", 8}, [QPC_F32] = {"<f4", 4}, [QPC_I32] = {"<i4", 4},
    [QPC_U8] = {"|u1", 1},  [QPC_I64] = {"<i8", 8}, [QPC_U64] = {"<u8", 8},
};
enum { DTYPE_COUNT = sizeof dtypes / sizeof dtypes[0] };

size_t qpc_dtype_size(qpc_dtype dtype) {
    return dtypes[dtype].size;
}

const char *qpc_dtype_name(qpc_dtype dtype) {
    return dtypes[dtype].name;
}

bool qpc_dtype_from_name(const char *name, size_t size, qpc_dtype *ret) {
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (strlen(dtypes[i].name) == size && memcmp(dtypes[i].name, name, size) == 0) {
            *ret = (qpc_dtype)i;
            return true;
        }
    }
    return false;
}

/// Free bytes that the tree owns; the const of the view is not the owner's.
static void free_bytes(const void *bytes) {
    qpc_free((void *)(uintptr_t)bytes);
}

void qpc_value_fini(qpc_value *v) {
    if (v == NULL) return;
    switch (v->kind) {
    case QPC_STR:
    case QPC_BIN:
        if (v->owns) free_bytes(v->str.bytes);
        break;
    case QPC_TENSOR:
        if (v->owns) free_bytes(v->tensor.data);
        break;
    case QPC_LIST:
        for (int32_t i = 0; i < v->list.count; i++) qpc_value_fini(&v->list.items[i]);
        qpc_free(v->list.items);
        break;
    case QPC_MAP:
        for (int32_t i = 0; i < v->map.count; i++) {
            qpc_value_fini(&v->map.pairs[i].key);
            qpc_value_fini(&v->map.pairs[i].value);
        }
        qpc_free(v->map.pairs);
        break;
    case QPC_NIL:
    case QPC_BOOL:
    case QPC_INT:
    case QPC_REAL:
        break;
    }
    *v = qpc_nil();
}

// ---- making scalars ----

qpc_value qpc_nil(void) {
    return (qpc_value){.kind = QPC_NIL};
}

qpc_value qpc_bool(bool b) {
    return (qpc_value){.kind = QPC_BOOL, .b = b};
}

qpc_value qpc_int(int64_t i) {
    return (qpc_value){.kind = QPC_INT, .i = i};
}

qpc_value qpc_uint(uint64_t u) {
    return (qpc_value){.kind = QPC_INT, .is_unsigned = u > INT64_MAX, .u = u};
}

qpc_value qpc_real(double d) {
    return (qpc_value){.kind = QPC_REAL, .real = d};
}

qpc_value qpc_str_borrow(const char *bytes, size_t size) {
    return (qpc_value){.kind = QPC_STR, .str = {bytes, size}};
}

qpc_value qpc_text_borrow(const char *c_string) {
    return qpc_str_borrow(c_string, strlen(c_string));
}

qpc_value qpc_bin_borrow(const void *bytes, size_t size) {
    return (qpc_value){.kind = QPC_BIN, .str = {bytes, size}};
}

bool qpc_tensor_bytes(qpc_dtype dtype, int32_t ndim, const int64_t *shape, size_t *ret) {
    size_t bytes = qpc_dtype_size(dtype);
    if (ndim < 0 || ndim > QPC_TENSOR_MAX_DIMS) return false;
    for (int32_t d = 0; d < ndim; d++) {
        if (shape[d] < 0 || !qpc_mul_size(bytes, (size_t)shape[d], &bytes)) return false;
    }
    if (bytes > INT64_MAX) return false;
    *ret = bytes;
    return true;
}

qpc_value qpc_tensor_borrow(qpc_dtype dtype, int32_t ndim, const int64_t *shape, const void *data) {
    qpc_value v = {.kind = QPC_TENSOR};
    size_t size = 0;
    if (QPC_NEVER(!qpc_tensor_bytes(dtype, ndim, shape, &size))) return qpc_nil();
    v.tensor.dtype = dtype;
    v.tensor.ndim = ndim;
    for (int32_t d = 0; d < ndim; d++) v.tensor.shape[d] = shape[d];
    v.tensor.data = data;
    v.tensor.size = size;
    return v;
}

// ---- making trees ----

/// One spare byte holds a NUL, so that owned text is also a C string.
static void *copy_bytes(const void *bytes, size_t size) {
    size_t room;
    char *copy = qpc_add_size(size, 1, &room) ? qpc_alloc(room) : NULL;
    if (copy == NULL) return NULL;
    if (size > 0) memcpy(copy, bytes, size);
    copy[size] = '\0';
    return copy;
}

static qpc_status copy_as(qpc_kind kind, const void *bytes, size_t size, qpc_value *ret) {
    *ret = qpc_nil();
    char *copy = copy_bytes(bytes, size);
    if (copy == NULL) return QPC_ERR_MEMORY;
    *ret = (qpc_value){.kind = kind, .owns = true, .str = {copy, size}};
    return QPC_OK;
}

qpc_status qpc_text_copy(const char *c_string, qpc_value *ret) {
    return copy_as(QPC_STR, c_string, strlen(c_string), ret);
}

qpc_status qpc_str_copy(const char *bytes, size_t size, qpc_value *ret) {
    return copy_as(QPC_STR, bytes, size, ret);
}

qpc_status qpc_bin_copy(const void *bytes, size_t size, qpc_value *ret) {
    return copy_as(QPC_BIN, bytes, size, ret);
}

qpc_status qpc_tensor_copy(qpc_dtype dtype, int32_t ndim, const int64_t *shape, const void *data,
                           qpc_value *ret) {
    qpc_value v = qpc_tensor_borrow(dtype, ndim, shape, data);
    *ret = qpc_nil();
    if (v.kind != QPC_TENSOR) return QPC_ERR_INVALID;
    v.tensor.data = copy_bytes(data, v.tensor.size);
    if (v.tensor.data == NULL) return QPC_ERR_MEMORY;
    v.owns = true;
    *ret = v;
    return QPC_OK;
}

qpc_value qpc_list(void) {
    return (qpc_value){.kind = QPC_LIST};
}

qpc_value qpc_map(void) {
    return (qpc_value){.kind = QPC_MAP};
}

qpc_status qpc_list_push(qpc_value *list, qpc_value item) {
    QPC_ASSERT(list->kind == QPC_LIST);
    if (list->list.count == list->list.capacity &&
        !qpc_array_grow(&list->list.items, &list->list.capacity, (int64_t)list->list.count + 1,
                        sizeof(qpc_value))) {
        qpc_value_fini(&item);
        return QPC_ERR_MEMORY;
    }
    list->list.items[list->list.count++] = item;
    return QPC_OK;
}

qpc_status qpc_map_append(qpc_value *map, qpc_value key, qpc_value item) {
    QPC_ASSERT(map->kind == QPC_MAP && key.kind == QPC_STR);
    if (map->map.count == map->map.capacity &&
        !qpc_array_grow(&map->map.pairs, &map->map.capacity, (int64_t)map->map.count + 1,
                        sizeof(qpc_pair))) {
        qpc_value_fini(&key);
        qpc_value_fini(&item);
        return QPC_ERR_MEMORY;
    }
    map->map.pairs[map->map.count++] = (qpc_pair){key, item};
    return QPC_OK;
}

static qpc_value *find(const qpc_value *map, const char *key, size_t size) {
    for (int32_t i = 0; i < map->map.count; i++) {
        const qpc_value *k = &map->map.pairs[i].key;
        if (k->str.size == size && (size == 0 || memcmp(k->str.bytes, key, size) == 0))
            return &map->map.pairs[i].value;
    }
    return NULL;
}

qpc_status qpc_map_set(qpc_value *map, const char *key, qpc_value item) {
    qpc_value *held = find(map, key, strlen(key));
    if (held == NULL) return qpc_map_append(map, qpc_text_borrow(key), item);
    qpc_value_fini(held);
    *held = item;
    return QPC_OK;
}

qpc_status qpc_map_set_copy(qpc_value *map, const char *key, size_t key_size, qpc_value item) {
    qpc_value *held = find(map, key, key_size);
    if (held != NULL) {
        qpc_value_fini(held);
        *held = item;
        return QPC_OK;
    }
    qpc_value name;
    if (qpc_str_copy(key, key_size, &name) != QPC_OK) {
        qpc_value_fini(&item);
        return QPC_ERR_MEMORY;
    }
    return qpc_map_append(map, name, item);
}

qpc_status qpc_value_copy(const qpc_value *v, qpc_value *ret) {
    qpc_value copy = *v;
    qpc_value child;
    qpc_status status = QPC_OK;
    *ret = qpc_nil();
    switch (v->kind) {
    case QPC_STR:
    case QPC_BIN:
        return copy_as(v->kind, v->str.bytes, v->str.size, ret);
    case QPC_TENSOR:
        return qpc_tensor_copy(v->tensor.dtype, v->tensor.ndim, v->tensor.shape, v->tensor.data,
                               ret);
    case QPC_LIST:
        copy = qpc_list();
        for (int32_t i = 0; i < v->list.count && status == QPC_OK; i++) {
            status = qpc_value_copy(&v->list.items[i], &child);
            if (status == QPC_OK) status = qpc_list_push(&copy, child);
        }
        break;
    case QPC_MAP:
        copy = qpc_map();
        for (int32_t i = 0; i < v->map.count && status == QPC_OK; i++) {
            qpc_value key;
            status = qpc_value_copy(&v->map.pairs[i].key, &key);
            if (status != QPC_OK) break;
            status = qpc_value_copy(&v->map.pairs[i].value, &child);
            if (status == QPC_OK)
                status = qpc_map_append(&copy, key, child);
            else
                qpc_value_fini(&key);
        }
        break;
    case QPC_NIL:
    case QPC_BOOL:
    case QPC_INT:
    case QPC_REAL:
        break;
    }
    if (status != QPC_OK)
        qpc_value_fini(&copy);
    else
        *ret = copy;
    return status;
}

/// Does the real number d have exactly the value of the int v?
static bool int_equals_real(const qpc_value *v, double d) {
    if (!(d >= -0x1p63 && d < 0x1p64) || d != floor(d)) return false;
    if (v->is_unsigned) return d >= 0x1p63 && (uint64_t)d == v->u;
    return d < 0x1p63 && (int64_t)d == v->i;
}

bool qpc_value_equal(const qpc_value *a, const qpc_value *b) {
    if (a->kind == QPC_INT && b->kind == QPC_REAL) return int_equals_real(a, b->real);
    if (a->kind == QPC_REAL && b->kind == QPC_INT) return int_equals_real(b, a->real);
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case QPC_NIL:
        return true;
    case QPC_BOOL:
        return a->b == b->b;
    case QPC_INT:
        return a->is_unsigned == b->is_unsigned && a->u == b->u;
    case QPC_REAL:
        return a->real == b->real;
    case QPC_STR:
    case QPC_BIN:
        return a->str.size == b->str.size &&
               (a->str.size == 0 || memcmp(a->str.bytes, b->str.bytes, a->str.size) == 0);
    case QPC_TENSOR:
        if (a->tensor.dtype != b->tensor.dtype || a->tensor.ndim != b->tensor.ndim) return false;
        for (int32_t d = 0; d < a->tensor.ndim; d++)
            if (a->tensor.shape[d] != b->tensor.shape[d]) return false;
        return a->tensor.size == 0 || memcmp(a->tensor.data, b->tensor.data, a->tensor.size) == 0;
    case QPC_LIST:
        if (a->list.count != b->list.count) return false;
        for (int32_t i = 0; i < a->list.count; i++)
            if (!qpc_value_equal(&a->list.items[i], &b->list.items[i])) return false;
        return true;
    case QPC_MAP:
        if (a->map.count != b->map.count) return false;
        for (int32_t i = 0; i < a->map.count; i++) {
            const qpc_pair *pair = &a->map.pairs[i];
            const qpc_value *other = find(b, pair->key.str.bytes, pair->key.str.size);
            if (other == NULL || !qpc_value_equal(&pair->value, other)) return false;
        }
        return true;
    }
    return false;
}

// ---- reading ----

const qpc_value *qpc_map_get(const qpc_value *v, const char *key) {
    return v != NULL && v->kind == QPC_MAP ? find(v, key, strlen(key)) : NULL;
}

bool qpc_str_equal(const qpc_value *v, const char *c_string) {
    size_t size = strlen(c_string);
    return v != NULL && v->kind == QPC_STR && v->str.size == size &&
           (size == 0 || memcmp(v->str.bytes, c_string, size) == 0);
}

/// Text from outside, quoted and cut to a few dozen bytes; control and quote bytes become '?'.
static const char *quote_some(const char *bytes, size_t size, char out[TEXT_SIZE]) {
    enum { SHOWN = 48 };
    size_t n = 0, taken = size <= SHOWN ? size : SHOWN;
    // Do not cut inside a UTF-8 sequence.
    while (taken > 0 && taken < size && ((unsigned char)bytes[taken] & 0xC0U) == 0x80U) taken--;
    out[n++] = '"';
    for (size_t i = 0; i < taken; i++) {
        unsigned char c = (unsigned char)bytes[i];
        out[n++] = (c < 0x20 || c == 0x7F || c == '"') ? '?' : (char)c;
    }
    out[n++] = '"';
    out[n] = '\0';
    if (taken < size) snprintf(out + n, TEXT_SIZE - n, "... (%zu bytes)", size);
    return out;
}

/// What was found, for the message.
static const char *describe(const qpc_value *v, char out[TEXT_SIZE]) {
    size_t n = 0;
    if (v == NULL) return "it is missing";
    switch (v->kind) {
    case QPC_NIL:
        return "got null";
    case QPC_BOOL:
        return v->b ? "got true" : "got false";
    case QPC_INT:
        if (v->is_unsigned)
            snprintf(out, TEXT_SIZE, "got %" PRIu64, v->u);
        else
            snprintf(out, TEXT_SIZE, "got %" PRId64, v->i);
        return out;
    case QPC_REAL:
        if (isnan(v->real)) return "got NaN";
        if (isinf(v->real)) return v->real > 0 ? "got +infinity" : "got -infinity";
        snprintf(out, TEXT_SIZE, "got %.10g%s", v->real,
                 v->real == floor(v->real) && fabs(v->real) < 1e10 ? ".0" : "");
        return out;
    case QPC_STR: {
        char quoted[TEXT_SIZE];
        snprintf(out, TEXT_SIZE, "got %.150s", quote_some(v->str.bytes, v->str.size, quoted));
        return out;
    }
    case QPC_BIN:
        snprintf(out, TEXT_SIZE, "got %zu bytes (bin)", v->str.size);
        return out;
    case QPC_LIST:
        snprintf(out, TEXT_SIZE, "got a list of %" PRId32, v->list.count);
        return out;
    case QPC_MAP:
        snprintf(out, TEXT_SIZE, "got a map of %" PRId32, v->map.count);
        return out;
    case QPC_TENSOR:
        n = (size_t)snprintf(out, TEXT_SIZE, "got an array of %s, shape (",
                             qpc_dtype_name(v->tensor.dtype));
        for (int32_t d = 0; d < v->tensor.ndim; d++)
            n += (size_t)snprintf(out + n, TEXT_SIZE - n, "%s%" PRId64, d > 0 ? ", " : "",
                                  v->tensor.shape[d]);
        snprintf(out + n, TEXT_SIZE - n, ")");
        return out;
    }
    return "got something unknown";
}

qpc_status qpc_fail_unwanted(const qpc_value *v, const char *where, const char *wanted, qpc_error *err) {
    char found[TEXT_SIZE];
    return qpc_fail_at(err, QPC_ERR_INVALID, where, "%s; want %s", describe(v, found), wanted);
}

static const char *int_range(const char *what, int64_t low, int64_t high, char out[TEXT_SIZE]) {
    if (low != INT64_MIN && high != INT64_MAX)
        snprintf(out, TEXT_SIZE, "%s from %" PRId64 " to %" PRId64, what, low, high);
    else if (low != INT64_MIN)
        snprintf(out, TEXT_SIZE, "%s of at least %" PRId64, what, low);
    else if (high != INT64_MAX)
        snprintf(out, TEXT_SIZE, "%s of at most %" PRId64, what, high);
    else
        snprintf(out, TEXT_SIZE, "%s", what);
    return out;
}

static const char *real_range(double low, double high, char out[TEXT_SIZE]) {
    bool bottom = low > -DBL_MAX, top = high < DBL_MAX;
    size_t n = (size_t)snprintf(out, TEXT_SIZE, "a finite number");
    // The least positive numbers stand for an open end at zero.
    if (bottom && low > 0 && low <= DBL_MIN)
        n += (size_t)snprintf(out + n, TEXT_SIZE - n, " greater than 0");
    else if (bottom && top)
        n += (size_t)snprintf(out + n, TEXT_SIZE - n, " from %.10g", low);
    else if (bottom)
        n += (size_t)snprintf(out + n, TEXT_SIZE - n, " of at least %.10g", low);
    if (top && bottom)
        snprintf(out + n, TEXT_SIZE - n, "%s %.10g", low > 0 && low <= DBL_MIN ? " up to" : " to",
                 high);
    else if (top)
        snprintf(out + n, TEXT_SIZE - n, " of at most %.10g", high);
    return out;
}

qpc_status qpc_read_bool(const qpc_value *v, const char *where, bool *ret, qpc_error *err) {
    if (v == NULL || v->kind != QPC_BOOL) return qpc_fail_unwanted(v, where, "true or false", err);
    *ret = v->b;
    return QPC_OK;
}

qpc_status qpc_read_int(const qpc_value *v, const char *where, int64_t low, int64_t high,
                        int64_t *ret, qpc_error *err) {
    if (v == NULL || v->kind != QPC_INT || v->is_unsigned || v->i < low || v->i > high) {
        char wanted[TEXT_SIZE];
        return qpc_fail_unwanted(v, where, int_range("an integer", low, high, wanted), err);
    }
    *ret = v->i;
    return QPC_OK;
}

qpc_status qpc_read_uint(const qpc_value *v, const char *where, uint64_t *ret, qpc_error *err) {
    if (v == NULL || v->kind != QPC_INT || (!v->is_unsigned && v->i < 0))
        return qpc_fail_unwanted(v, where, "an integer from 0 to 18446744073709551615", err);
    *ret = v->u;
    return QPC_OK;
}

/// The value of an int or a real as a double; false for other kinds.
static bool as_double(const qpc_value *v, double *ret) {
    if (v->kind == QPC_REAL)
        *ret = v->real;
    else if (v->kind == QPC_INT)
        *ret = v->is_unsigned ? (double)v->u : (double)v->i;
    else
        return false;
    return true;
}

qpc_status qpc_read_real(const qpc_value *v, const char *where, double low, double high,
                         double *ret, qpc_error *err) {
    double d = 0.0;
    if (v == NULL || !as_double(v, &d) || !isfinite(d) || !(d >= low && d <= high)) {
        char wanted[TEXT_SIZE];
        return qpc_fail_unwanted(v, where, real_range(low, high, wanted), err);
    }
    *ret = d;
    return QPC_OK;
}

qpc_status qpc_read_text(const qpc_value *v, const char *where, char *out, size_t size,
                         qpc_error *err) {
    if (v == NULL || v->kind != QPC_STR) return qpc_fail_unwanted(v, where, "text", err);
    if (v->str.size >= size) {
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "text of %zu bytes; want at most %zu",
                           v->str.size, size - 1);
    }
    if (v->str.size > 0 && memchr(v->str.bytes, 0, v->str.size) != NULL)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "a NUL byte inside; want text without");
    if (v->str.size > 0) memcpy(out, v->str.bytes, v->str.size);
    out[v->str.size] = '\0';
    return QPC_OK;
}

// ---- matrices ----

/// Element `index` of a tensor as a scalar value.
static qpc_value tensor_item(const qpc_tensor *t, int64_t index) {
    const char *p = (const char *)t->data + (size_t)index * qpc_dtype_size(t->dtype);
    switch (t->dtype) {
    case QPC_F64: {
        double d;
        memcpy(&d, p, sizeof d);
        return qpc_real(d);
    }
    case QPC_F32: {
        float f;
        memcpy(&f, p, sizeof f);
        return qpc_real((double)f);
    }
    case QPC_I32: {
        int32_t i;
        memcpy(&i, p, sizeof i);
        return qpc_int(i);
    }
    case QPC_U8:
        return qpc_int(*(const unsigned char *)p);
    case QPC_I64: {
        int64_t i;
        memcpy(&i, p, sizeof i);
        return qpc_int(i);
    }
    case QPC_U64: {
        uint64_t u;
        memcpy(&u, p, sizeof u);
        return qpc_uint(u);
    }
    }
    return qpc_nil();
}

/// What a matrix is made of: double or int32_t elements, and their bounds.
typedef struct element_rule {
    bool integer;
    int64_t low, high;
} element_rule;

/// Write one scalar as element `index` of out, or say what is wrong with it at `where`.
static bool store_element(const qpc_value *v, const element_rule *rule, void *out, int64_t index) {
    double d = 0.0;
    if (!as_double(v, &d) || !isfinite(d)) return false;
    if (!rule->integer) {
        ((double *)out)[index] = d;
        return true;
    }
    if (d != floor(d) || d < (double)INT32_MIN || d > (double)INT32_MAX) return false;
    if ((int64_t)d < rule->low || (int64_t)d > rule->high) return false;
    ((int32_t *)out)[index] = (int32_t)d;
    return true;
}

static qpc_status bad_element(const qpc_value *v, const element_rule *rule, const char *where,
                              qpc_error *err) {
    char wanted[TEXT_SIZE];
    if (!rule->integer) return qpc_fail_unwanted(v, where, real_range(-DBL_MAX, DBL_MAX, wanted), err);
    return qpc_fail_unwanted(v, where, int_range("an integer", rule->low, rule->high, wanted), err);
}

/// All elements of a tensor into out at `first`. row < 0: the tensor is the whole matrix.
static qpc_status store_tensor(const qpc_tensor *t, int64_t columns, const element_rule *rule,
                               const char *where, int64_t row, void *out, int64_t first,
                               qpc_error *err) {
    int64_t count = (int64_t)(t->size / qpc_dtype_size(t->dtype));
    for (int64_t i = 0; i < count; i++) {
        qpc_value item = tensor_item(t, i);
        if (store_element(&item, rule, out, first + i)) continue;
        char path[PATH_SIZE];
        int64_t r = row >= 0 ? row : i / columns;
        if (row < 0 && t->ndim == 1)
            snprintf(path, sizeof path, "%s[%" PRId64 "]", where, i);
        else
            snprintf(path, sizeof path, "%s[%" PRId64 "][%" PRId64 "]", where, r, i % columns);
        return bad_element(&item, rule, path, err);
    }
    return QPC_OK;
}

/// The whole list, nested or flat, into out.
static qpc_status store_list(const qpc_value *v, bool nested, int64_t columns,
                             const element_rule *rule, const char *where, void *out,
                             qpc_error *err) {
    char path[PATH_SIZE], wanted[TEXT_SIZE];
    for (int32_t r = 0; r < v->list.count; r++) {
        const qpc_value *row = &v->list.items[r];
        snprintf(path, sizeof path, "%s[%" PRId32 "]", where, r);
        if (!nested) {
            if (!store_element(row, rule, out, r)) return bad_element(row, rule, path, err);
            continue;
        }
        snprintf(wanted, sizeof wanted, "a list of %" PRId64 " numbers", columns);
        if (row->kind == QPC_TENSOR && row->tensor.ndim == 1 && row->tensor.shape[0] == columns) {
            qpc_status status =
                store_tensor(&row->tensor, columns, rule, where, r, out, (int64_t)r * columns, err);
            if (status != QPC_OK) return status;
            continue;
        }
        if (row->kind != QPC_LIST || row->list.count != columns)
            return qpc_fail_unwanted(row, path, wanted, err);
        for (int32_t c = 0; c < row->list.count; c++) {
            if (store_element(&row->list.items[c], rule, out, (int64_t)r * columns + c)) continue;
            snprintf(path, sizeof path, "%s[%" PRId32 "][%" PRId32 "]", where, r, c);
            return bad_element(&row->list.items[c], rule, path, err);
        }
    }
    return QPC_OK;
}

static qpc_status read_matrix(const qpc_value *v, const char *where, int64_t columns,
                              int64_t max_rows, const element_rule *rule, void **ret,
                              int64_t *ret_rows, qpc_error *err) {
    char wanted[TEXT_SIZE];
    int64_t rows = -1;
    bool nested = false;
    QPC_ASSERT(columns > 0);

    // The number of rows, by shape alone.
    if (v != NULL && v->kind == QPC_LIST) {
        int32_t count = v->list.count;
        nested =
            count > 0 && (v->list.items[0].kind == QPC_LIST || v->list.items[0].kind == QPC_TENSOR);
        if (nested)
            rows = count;
        else if (count % columns == 0)
            rows = count / columns;
    } else if (v != NULL && v->kind == QPC_TENSOR) {
        if (v->tensor.ndim == 2 && v->tensor.shape[1] == columns)
            rows = v->tensor.shape[0];
        else if (v->tensor.ndim == 1 && v->tensor.shape[0] % columns == 0)
            rows = v->tensor.shape[0] / columns;
    }
    if (rows < 0) {
        snprintf(wanted, sizeof wanted, "rows of %" PRId64 " numbers, as nested lists or an array",
                 columns);
        return qpc_fail_unwanted(v, where, wanted, err);
    }
    if (rows > max_rows)
        return qpc_fail_at(err, QPC_ERR_LIMIT, where, "%" PRId64 " rows; the limit is %" PRId64,
                           rows, max_rows);

    size_t count;
    size_t element = rule->integer ? sizeof(int32_t) : sizeof(double);
    void *out = qpc_mul_size((size_t)rows, (size_t)columns, &count)
                    ? qpc_alloc_array(count, element)
                    : NULL;
    if (out == NULL)
        return qpc_fail_at(err, QPC_ERR_MEMORY, where, "no memory for %" PRId64 " rows of %" PRId64,
                           rows, columns);
    qpc_status status = v->kind == QPC_TENSOR
                            ? store_tensor(&v->tensor, columns, rule, where, -1, out, 0, err)
                            : store_list(v, nested, columns, rule, where, out, err);
    if (status != QPC_OK) {
        qpc_free(out);
        return status;
    }
    *ret = out;
    *ret_rows = rows;
    return QPC_OK;
}

qpc_status qpc_read_matrix(const qpc_value *v, const char *where, int64_t columns, int64_t max_rows,
                           double **ret, int64_t *ret_rows, qpc_error *err) {
    element_rule rule = {.integer = false};
    void *out = NULL;
    qpc_status status = read_matrix(v, where, columns, max_rows, &rule, &out, ret_rows, err);
    if (status == QPC_OK) *ret = out;
    return status;
}

qpc_status qpc_read_int_matrix(const qpc_value *v, const char *where, int64_t columns,
                               int64_t max_rows, int64_t low, int64_t high, int32_t **ret,
                               int64_t *ret_rows, qpc_error *err) {
    element_rule rule = {.integer = true, .low = low, .high = high};
    void *out = NULL;
    qpc_status status = read_matrix(v, where, columns, max_rows, &rule, &out, ret_rows, err);
    if (status == QPC_OK) *ret = out;
    return status;
}

static bool listed(const qpc_value *key, const char *const *keys) {
    for (; *keys != NULL; keys++)
        if (qpc_str_equal(key, *keys)) return true;
    return false;
}

qpc_status qpc_map_check_keys(const qpc_value *map, const char *where, const char *const *keys,
                              qpc_error *err) {
    if (map == NULL || map->kind != QPC_MAP) return qpc_fail_unwanted(map, where, "a map", err);
    for (int32_t i = 0; i < map->map.count; i++) {
        const qpc_value *key = &map->map.pairs[i].key;
        if (listed(key, keys)) continue;

        char quoted[TEXT_SIZE], path[PATH_SIZE], known[400];
        quote_some(key->str.bytes, key->str.size, quoted);
        int shown = (int)strcspn(quoted + 1, "\"");
        snprintf(path, sizeof path, "%s%s%.*s", where, where[0] != '\0' ? "." : "", shown,
                 quoted + 1);
        const char *nearest = qpc_nearest(key->str.bytes, key->str.size, keys);
        if (nearest != NULL)
            return qpc_fail_at(err, QPC_ERR_INVALID, path,
                               "unknown key %s; the nearest known one is \"%s\"", quoted, nearest);
        size_t n = 0;
        known[0] = '\0';
        for (const char *const *k = keys; *k != NULL && n < sizeof known; k++)
            n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", k == keys ? "" : ", ", *k);
        return qpc_fail_at(err, QPC_ERR_INVALID, path, "unknown key %s; known here: %s", quoted,
                           known[0] != '\0' ? known : "none");
    }
    return QPC_OK;
}
