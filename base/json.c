/// JSON by jansson in, by hand out (exact reals, tensors, canonical keys). Any thread.
///
/// jansson allocates through base/mem for the whole process, so that fault injection reaches it;
/// a thread-local flag tells its out-of-memory apart from its other errors. Depth and NUL bytes are
/// checked before jansson sees them, since its own limit is far deeper than ours.
#include "base/json.h"

#include "base/mem.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The writer goes deeper than the reader, so that wrapping a parsed document never fails.
enum { PARSE_DEPTH = 64, WRITE_DEPTH = 128 };

static _Thread_local bool out_of_memory;

static void *json_alloc(size_t size) {
    void *p = qpc_alloc(size);
    if (p == NULL) out_of_memory = true;
    return p;
}

static void use_our_memory(void) {
    json_set_alloc_funcs(json_alloc, qpc_free);
}

// ---- reading ----

/// What jansson does not see to: depth, and NUL bytes, which it skips.
static qpc_status check_bytes(const char *text, size_t size, qpc_error *err) {
    int depth = 0, line = 1;
    size_t line_start = 0;
    bool in_string = false;
    bool escaped = false;
    for (size_t i = 0; i < size; i++) {
        char c = text[i], where[60];
        if (c == '\n') {
            line++;
            line_start = i + 1;
        }
        if (c == '\0') {
            snprintf(where, sizeof where, "line %d, column %zu", line, i - line_start + 1);
            return qpc_fail_at(err, QPC_ERR_INVALID, where, "not JSON: a NUL byte");
        }
        if (in_string) {
            if (escaped)
                escaped = false;
            else if (c == '\\')
                escaped = true;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > PARSE_DEPTH) {
                snprintf(where, sizeof where, "line %d, column %zu", line, i - line_start + 1);
                return qpc_fail_at(err, QPC_ERR_INVALID, where, "nested deeper than %d levels",
                                   PARSE_DEPTH);
            }
        } else if (c == ']' || c == '}') {
            depth--;
        }
    }
    return QPC_OK;
}

static qpc_status convert(const json_t *json, qpc_value *ret) {
    qpc_status status = QPC_OK;
    qpc_value v = qpc_nil(), child;
    *ret = qpc_nil();
    switch (json_typeof(json)) {
    case JSON_NULL:
        break;
    case JSON_TRUE:
        v = qpc_bool(true);
        break;
    case JSON_FALSE:
        v = qpc_bool(false);
        break;
    case JSON_INTEGER:
        v = qpc_int(json_integer_value(json));
        break;
    case JSON_REAL:
        v = qpc_real(json_real_value(json));
        break;
    case JSON_STRING:
        status = qpc_str_copy(json_string_value(json), json_string_length(json), &v);
        break;
    case JSON_ARRAY:
        v = qpc_list();
        for (size_t i = 0; i < json_array_size(json) && status == QPC_OK; i++) {
            status = convert(json_array_get(json, i), &child);
            if (status == QPC_OK) status = qpc_list_push(&v, child);
        }
        break;
    case JSON_OBJECT: {
        // jansson's iterators want a non-const object but change nothing.
        json_t *object = (json_t *)(uintptr_t)json;
        v = qpc_map();
        for (void *it = json_object_iter(object); it != NULL && status == QPC_OK;
             it = json_object_iter_next(object, it)) {
            const char *name = json_object_iter_key(it);
            qpc_value key;
            status = qpc_str_copy(name, strlen(name), &key);
            if (status != QPC_OK) break;
            status = convert(json_object_iter_value(it), &child);
            if (status == QPC_OK)
                status = qpc_map_append(&v, key, child);
            else
                qpc_value_fini(&key);
        }
        break;
    }
    }
    if (status != QPC_OK)
        qpc_value_fini(&v);
    else
        *ret = v;
    return status;
}

qpc_status qpc_json_parse(const char *text, size_t size, qpc_value *ret, qpc_error *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, use_our_memory);

    qpc_status status = check_bytes(text, size, err);
    if (status != QPC_OK) return status;

    json_error_t error;
    memset(&error, 0, sizeof error);
    out_of_memory = false;
    json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (json == NULL) {
        if (out_of_memory) return qpc_fail(err, QPC_ERR_MEMORY, "no memory to parse JSON");
        char where[60];
        for (char *c = error.text; *c != '\0'; c++)
            if ((unsigned char)*c < 0x20) *c = ' ';
        snprintf(where, sizeof where, "line %d, column %d", error.line, error.column);
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "not JSON: %s", error.text);
    }
    qpc_value v;
    status = convert(json, &v);
    json_decref(json);
    if (status != QPC_OK) return qpc_fail(err, status, "no memory for a JSON tree");
    *ret = v;
    return QPC_OK;
}

// ---- writing ----

typedef struct writer {
    char *text;
    size_t size, capacity;
    int indent;
    bool sort_keys;
} writer;

static bool put(writer *w, const char *bytes, size_t size) {
    size_t want;
    if (!qpc_add_size(w->size, size, &want) || !qpc_add_size(want, 1, &want)) return false;
    if (want > w->capacity) {
        size_t grown = 2 * w->capacity + 256;
        if (grown < want) grown = want;
        char *p = qpc_realloc(w->text, grown);
        if (p == NULL) return false;
        w->text = p;
        w->capacity = grown;
    }
    memcpy(w->text + w->size, bytes, size);
    w->size += size;
    w->text[w->size] = '\0';
    return true;
}

static bool put_text(writer *w, const char *text) {
    return put(w, text, strlen(text));
}

/// A new line and its indentation, or nothing when everything goes on one line.
static bool put_break(writer *w, int depth) {
    if (w->indent <= 0) return true;
    if (!put(w, "\n", 1)) return false;
    for (int i = 0; i < w->indent * depth; i++)
        if (!put(w, " ", 1)) return false;
    return true;
}

/// The fewest digits that read back to the same number; JSON has no others than finite ones.
static bool put_real(writer *w, double d, bool single) {
    char text[40];
    if (!isfinite(d)) return put_text(w, "null");
    int most = single ? 9 : 17;
    for (int digits = single ? 6 : 15; digits <= most; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, d);
        if (single ? strtof(text, NULL) == (float)d : strtod(text, NULL) == d) break;
    }
    // The host program's locale may have another decimal point.
    bool integral = true;
    for (char *c = text; *c != '\0'; c++) {
        if (*c == ',') *c = '.';
        if (*c == '.' || *c == 'e') integral = false;
    }
    return put_text(w, text) && (!integral || put(w, ".0", 2));
}

/// Bytes of the well-formed UTF-8 sequence at s, 0 if it is none.
static size_t utf8_size(const unsigned char *s, size_t left) {
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    if (n == 0 || n > left || s[0] > 0xF4) return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xC0U) != 0x80U) return 0;
    if (s[0] == 0xE0 && s[1] < 0xA0) return 0; // overlong
    if (s[0] == 0xED && s[1] > 0x9F) return 0; // surrogates
    if (s[0] == 0xF0 && s[1] < 0x90) return 0; // overlong
    if (s[0] == 0xF4 && s[1] > 0x8F) return 0; // above U+10FFFF
    return n;
}

/// Bytes that are not UTF-8 become U+FFFD, so that the output is JSON whatever came in.
static bool put_string(writer *w, const char *bytes, size_t size) {
    const unsigned char *s = (const unsigned char *)bytes;
    if (!put(w, "\"", 1)) return false;
    for (size_t i = 0; i < size;) {
        char escape[8];
        size_t n = utf8_size(s + i, size - i);
        bool ok;
        if (n == 0) {
            ok = put(w, "\xEF\xBF\xBD", 3);
            n = 1;
        } else if (s[i] == '"' || s[i] == '\\') {
            escape[0] = '\\';
            escape[1] = (char)s[i];
            ok = put(w, escape, 2);
        } else if (s[i] == '\n') {
            ok = put(w, "\\n", 2);
        } else if (s[i] == '\t') {
            ok = put(w, "\\t", 2);
        } else if (s[i] < 0x20) {
            snprintf(escape, sizeof escape, "\\u%04x", s[i]);
            ok = put(w, escape, 6);
        } else {
            ok = put(w, bytes + i, n);
        }
        if (!ok) return false;
        i += n;
    }
    return put(w, "\"", 1);
}

static bool put_hex(writer *w, const unsigned char *bytes, size_t size) {
    static const char digits[] = "0123456789abcdef";
    bool ok = put(w, "\"", 1);
    for (size_t i = 0; ok && i < size; i++) {
        char pair[2] = {digits[bytes[i] >> 4], digits[bytes[i] & 15]};
        ok = put(w, pair, 2);
    }
    return ok && put(w, "\"", 1);
}

static bool put_tensor_item(writer *w, const qpc_tensor *t, size_t index) {
    const char *p = (const char *)t->data + index * qpc_dtype_size(t->dtype);
    char text[32];
    double d;
    float f;
    int32_t i32;
    int64_t i64;
    uint64_t u64;
    switch (t->dtype) {
    case QPC_F64:
        memcpy(&d, p, sizeof d);
        return put_real(w, d, false);
    case QPC_F32:
        memcpy(&f, p, sizeof f);
        return put_real(w, (double)f, true);
    case QPC_I32:
        memcpy(&i32, p, sizeof i32);
        snprintf(text, sizeof text, "%" PRId32, i32);
        break;
    case QPC_U8:
        snprintf(text, sizeof text, "%u", *(const unsigned char *)p);
        break;
    case QPC_I64:
        memcpy(&i64, p, sizeof i64);
        snprintf(text, sizeof text, "%" PRId64, i64);
        break;
    case QPC_U64:
        memcpy(&u64, p, sizeof u64);
        snprintf(text, sizeof text, "%" PRIu64, u64);
        break;
    }
    return put_text(w, text);
}

/// Dimension `dim` and below, from element *index on; the innermost rows stay on one line.
static bool put_tensor(writer *w, const qpc_tensor *t, int32_t dim, int depth, size_t *index) {
    // The second bound tells the compiler what the first one means.
    if (dim >= t->ndim || dim >= QPC_TENSOR_MAX_DIMS) return put_tensor_item(w, t, (*index)++);
    bool inner = dim + 1 == t->ndim;
    bool ok = put(w, "[", 1);
    for (int64_t i = 0; ok && i < t->shape[dim]; i++) {
        if (i > 0) ok = put_text(w, inner && w->indent > 0 ? ", " : ",");
        if (ok && !inner) ok = put_break(w, depth + 1);
        if (ok) ok = put_tensor(w, t, dim + 1, depth + 1, index);
    }
    if (ok && !inner && t->shape[dim] > 0) ok = put_break(w, depth);
    return ok && put(w, "]", 1);
}

static int compare_pairs(const void *a, const void *b) {
    const qpc_value *x = &(*(const qpc_pair *const *)a)->key;
    const qpc_value *y = &(*(const qpc_pair *const *)b)->key;
    size_t n = x->str.size < y->str.size ? x->str.size : y->str.size;
    int order = n > 0 ? memcmp(x->str.bytes, y->str.bytes, n) : 0;
    if (order != 0) return order;
    return x->str.size < y->str.size ? -1 : x->str.size > y->str.size;
}

static qpc_status put_value(writer *w, const qpc_value *v, int depth);

static qpc_status put_map(writer *w, const qpc_value *v, int depth) {
    qpc_status status = QPC_OK;
    int32_t count = v->map.count;
    const qpc_pair **sorted = NULL;
    if (w->sort_keys && count > 1) {
        sorted = qpc_alloc_array((size_t)count, sizeof(const qpc_pair *));
        if (sorted == NULL) return QPC_ERR_MEMORY;
        for (int32_t i = 0; i < count; i++) sorted[i] = &v->map.pairs[i];
        qsort(sorted, (size_t)count, sizeof(const qpc_pair *), compare_pairs);
    }
    bool ok = put(w, "{", 1);
    for (int32_t i = 0; ok && i < count; i++) {
        const qpc_pair *pair = sorted != NULL ? sorted[i] : &v->map.pairs[i];
        ok = (i == 0 || put(w, ",", 1)) && put_break(w, depth + 1) &&
             put_string(w, pair->key.str.bytes, pair->key.str.size) &&
             put_text(w, w->indent > 0 ? ": " : ":");
        if (ok) status = put_value(w, &pair->value, depth + 1);
        if (status != QPC_OK) break;
    }
    qpc_free((void *)sorted);
    if (status != QPC_OK) return status;
    if (ok && count > 0) ok = put_break(w, depth);
    return ok && put(w, "}", 1) ? QPC_OK : QPC_ERR_MEMORY;
}

static qpc_status put_list(writer *w, const qpc_value *v, int depth) {
    // A list of scalars stays on one line.
    bool inner = true;
    for (int32_t i = 0; i < v->list.count; i++) {
        qpc_kind kind = v->list.items[i].kind;
        if (kind == QPC_LIST || kind == QPC_MAP || kind == QPC_TENSOR) inner = false;
    }
    bool ok = put(w, "[", 1);
    for (int32_t i = 0; ok && i < v->list.count; i++) {
        if (i > 0) ok = put_text(w, inner && w->indent > 0 ? ", " : ",");
        if (ok && !inner) ok = put_break(w, depth + 1);
        if (!ok) break;
        qpc_status status = put_value(w, &v->list.items[i], depth + 1);
        if (status != QPC_OK) return status;
    }
    if (ok && !inner) ok = put_break(w, depth);
    return ok && put(w, "]", 1) ? QPC_OK : QPC_ERR_MEMORY;
}

static qpc_status put_value(writer *w, const qpc_value *v, int depth) {
    char text[32];
    bool ok = true;
    size_t index = 0;
    if (depth > WRITE_DEPTH) return QPC_ERR_INVALID;
    switch (v->kind) {
    case QPC_NIL:
        ok = put_text(w, "null");
        break;
    case QPC_BOOL:
        ok = put_text(w, v->b ? "true" : "false");
        break;
    case QPC_INT:
        if (v->is_unsigned)
            snprintf(text, sizeof text, "%" PRIu64, v->u);
        else
            snprintf(text, sizeof text, "%" PRId64, v->i);
        ok = put_text(w, text);
        break;
    case QPC_REAL:
        ok = put_real(w, v->real, false);
        break;
    case QPC_STR:
        ok = put_string(w, v->str.bytes, v->str.size);
        break;
    case QPC_BIN:
        ok = put_hex(w, (const unsigned char *)v->str.bytes, v->str.size);
        break;
    case QPC_TENSOR:
        ok = put_tensor(w, &v->tensor, 0, depth, &index);
        break;
    case QPC_LIST:
        return put_list(w, v, depth);
    case QPC_MAP:
        return put_map(w, v, depth);
    }
    return ok ? QPC_OK : QPC_ERR_MEMORY;
}

qpc_status qpc_json_write(const qpc_value *v, int indent, bool sort_keys, char **ret,
                          qpc_error *err) {
    writer w = {.indent = indent, .sort_keys = sort_keys};
    qpc_status status = put_value(&w, v, 0);
    if (status == QPC_OK) {
        *ret = w.text;
        return QPC_OK;
    }
    qpc_free(w.text);
    if (status == QPC_ERR_INVALID)
        return qpc_fail(err, status, "a tree nested deeper than %d levels", WRITE_DEPTH);
    return qpc_fail(err, status, "no memory to write JSON (%zu bytes so far)", w.size);
}
