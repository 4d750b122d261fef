/// Envelopes. Parsing peeks at the few bytes in front (array header, type, id, method) by hand and
/// decodes what is behind them with qpc_decode(): so an error in params still leaves the id that
/// its answer needs. Writing puts the same few bytes by hand and the rest by qpc_encode(). No
/// state. Any thread.
#include "protocol/rpc.h"

#include "base/mem.h"
#include "protocol/scan.h"
#include "protocol/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// ---- reading the front of an envelope ----

/// A cursor over bytes that qpc_scan() accepted. What is not as wanted leaves it where it is.
typedef struct cursor {
    const uint8_t *bytes;
    size_t size, at;
} cursor;

static bool take_length(cursor *c, int field, uint64_t *ret) {
    if (c->size - c->at < (size_t)field + 1) return false;
    uint64_t v = 0;
    for (int i = 1; i <= field; i++) v = v << 8 | c->bytes[c->at + (size_t)i];
    c->at += (size_t)field + 1;
    *ret = v;
    return true;
}

static bool take_array(cursor *c, uint64_t *ret) {
    if (c->at >= c->size) return false;
    uint8_t b = c->bytes[c->at];
    if (b >= 0x90 && b <= 0x9f) {
        *ret = b & 0x0f;
        c->at++;
        return true;
    }
    if (b == 0xdc || b == 0xdd) return take_length(c, 2 << (b - 0xdc), ret);
    return false;
}

/// Any integer from 0 to 2^32-1, in any width.
static bool take_uint32(cursor *c, uint32_t *ret) {
    cursor start = *c;
    uint64_t v = 0;
    if (c->at >= c->size) return false;
    uint8_t b = c->bytes[c->at];
    if (b <= 0x7f) {
        c->at++;
        *ret = b;
        return true;
    }
    if (b >= 0xcc && b <= 0xcf) {
        if (!take_length(c, 1 << (b - 0xcc), &v)) return false;
    } else if (b >= 0xd0 && b <= 0xd3) {
        int field = 1 << (b - 0xd0);
        if (!take_length(c, field, &v)) return false;
        if (v >> (8 * field - 1) != 0) v = UINT64_MAX; // negative
    } else {
        return false;
    }
    if (v > UINT32_MAX) {
        *c = start;
        return false;
    }
    *ret = (uint32_t)v;
    return true;
}

/// str or bin. *ret_str: it is a str.
static bool take_text(cursor *c, const char **ret, size_t *ret_size, bool *ret_str) {
    cursor start = *c;
    uint64_t length = 0;
    if (c->at >= c->size) return false;
    uint8_t b = c->bytes[c->at];
    if (b >= 0xa0 && b <= 0xbf) {
        length = b & 0x1f;
        c->at++;
    } else if (b >= 0xd9 && b <= 0xdb) {
        if (!take_length(c, 1 << (b - 0xd9), &length)) return false;
    } else if (b >= 0xc4 && b <= 0xc6) {
        if (!take_length(c, 1 << (b - 0xc4), &length)) return false;
    } else {
        return false;
    }
    if (length > c->size - c->at) {
        *c = start;
        return false;
    }
    *ret = (const char *)c->bytes + c->at;
    *ret_size = (size_t)length;
    *ret_str = b < 0xc0 || b >= 0xd9;
    c->at += (size_t)length;
    return true;
}

/// Bytes of the object at the cursor; false if none is whole.
static bool object_size(const cursor *c, size_t *ret) {
    const qpc_scan_limits limits = {.max_message = SIZE_MAX / 2,
                                    .max_depth = QPC_SCAN_MAX_DEPTH,
                                    .max_items = SIZE_MAX / 2,
                                    .max_key = SIZE_MAX / 2};
    qpc_scanner scanner = {0};
    return qpc_scan(&scanner, c->bytes + c->at, c->size - c->at, &limits, ret, NULL) ==
           QPC_SCAN_WHOLE;
}

/// What is at the cursor, for messages.
static const char *found(const cursor *c) {
    if (c->at >= c->size) return "nothing";
    uint8_t b = c->bytes[c->at];
    if (b <= 0x7f || b >= 0xe0 || (b >= 0xcc && b <= 0xd3)) return "an integer";
    if (b <= 0x8f || b >= 0xde) return "a map";
    if (b <= 0x9f || b >= 0xdc) return "a list";
    if (b <= 0xbf || b >= 0xd9) return "a str";
    if (b == 0xc0) return "nil";
    if (b == 0xc2 || b == 0xc3) return "a boolean";
    if (b >= 0xc4 && b <= 0xc6) return "a bin";
    if (b == 0xca || b == 0xcb) return "a real number";
    return "an extension type";
}

static qpc_status take_method(cursor *c, qpc_rpc_message *m, qpc_error *err) {
    const char *text = NULL;
    size_t size = 0;
    bool str = false;
    if (!take_text(c, &text, &size, &str))
        return qpc_fail(err, QPC_ERR_MALFORMED, "the method is %s; want its name", found(c));
    qpc_utf8_clean(text, size, m->method, sizeof m->method);
    m->method_known_text = str && size > 0 && size < sizeof m->method &&
                           memchr(text, 0, size) == NULL && qpc_utf8_prefix(text, size) == size;
    return QPC_OK;
}

/// A nil param counts as left out, so that None, null and v:null say "the default".
static void drop_nil(qpc_value *map) {
    int32_t kept = 0;
    for (int32_t i = 0; i < map->map.count; i++) {
        if (map->map.pairs[i].value.kind == QPC_NIL)
            qpc_value_fini(&map->map.pairs[i].key);
        else
            map->map.pairs[kept++] = map->map.pairs[i];
    }
    map->map.count = kept;
}

static qpc_status take_params(cursor *c, qpc_rpc_message *m, qpc_error *err) {
    uint64_t count = 0;
    cursor inner = *c;
    m->params = qpc_map();
    if (!take_array(&inner, &count))
        return qpc_fail(err, QPC_ERR_INVALID, "params are %s; want a list of one map, or []",
                        found(c));
    if (count > 1)
        return qpc_fail(err, QPC_ERR_INVALID,
                        "params are a list of %" PRIu64 "; want a list of one map, or []", count);
    if (count == 0) return QPC_OK;

    qpc_value map = qpc_nil();
    qpc_status status = qpc_decode(inner.bytes + inner.at, inner.size - inner.at, &map, err);
    if (status != QPC_OK) return status;
    if (map.kind == QPC_LIST && map.list.count == 0) return QPC_OK;
    if (map.kind != QPC_MAP) {
        qpc_value_fini(&map);
        return qpc_fail(err, QPC_ERR_INVALID, "params hold %s; want one map", found(&inner));
    }
    drop_nil(&map);
    m->root = map;
    m->params = map;
    return QPC_OK;
}

/// error and result, in a list that owns them.
static qpc_status take_outcome(cursor *c, qpc_rpc_message *m, qpc_error *err) {
    size_t first = 0;
    qpc_value error = qpc_nil(), result = qpc_nil();
    if (!object_size(c, &first)) return qpc_fail(err, QPC_ERR_MALFORMED, "a response is cut short");
    qpc_status status = qpc_decode(c->bytes + c->at, first, &error, err);
    if (status != QPC_OK) return status;
    c->at += first;
    status = qpc_decode(c->bytes + c->at, c->size - c->at, &result, err);
    if (status != QPC_OK) {
        qpc_value_fini(&error);
        return status;
    }
    m->root = qpc_list();
    status = qpc_list_push(&m->root, error);
    if (status == QPC_OK)
        status = qpc_list_push(&m->root, result);
    else
        qpc_value_fini(&result);
    if (status != QPC_OK) return qpc_fail(err, status, "no memory for a response");
    m->error = m->root.list.items[0];
    m->result = m->root.list.items[1];
    return QPC_OK;
}

static qpc_status parse(const uint8_t *bytes, size_t size, qpc_rpc_message *m, qpc_error *err) {
    cursor c = {bytes, size, 0};
    uint64_t count = 0;
    uint32_t type = 0;
    if (!take_array(&c, &count))
        return qpc_fail(err, QPC_ERR_MALFORMED,
                        "a message is %s; want [0, id, method, params] or [2, method, params]",
                        found(&c));
    if (count == 0) return qpc_fail(err, QPC_ERR_MALFORMED, "a message is an empty list");
    cursor at_type = c;
    bool typed = take_uint32(&c, &type) && type <= QPC_RPC_NOTIFICATION;
    if (typed) m->type = (qpc_rpc_type)type;

    if (typed && type == QPC_RPC_NOTIFICATION) {
        if (count != 3)
            return qpc_fail(err, QPC_ERR_MALFORMED,
                            "a notification of %" PRIu64 " elements; want [2, method, params]",
                            count);
        qpc_status status = take_method(&c, m, err);
        return status == QPC_OK ? take_params(&c, m, err) : status;
    }

    // The id first: whatever else is wrong, the answer can then say to what.
    if (!typed) {
        size_t skipped = 0;
        if (object_size(&at_type, &skipped)) c.at = at_type.at + skipped;
    }
    if (count > 1 && take_uint32(&c, &m->id)) m->has_id = true;
    if (!typed)
        return qpc_fail(err, QPC_ERR_MALFORMED, "the type of a message is %s; want 0, 1 or 2",
                        type > QPC_RPC_NOTIFICATION ? "another integer" : found(&at_type));
    if (count != 4)
        return qpc_fail(err, QPC_ERR_MALFORMED, "a %s of %" PRIu64 " elements; want %s",
                        type == QPC_RPC_REQUEST ? "request" : "response", count,
                        type == QPC_RPC_REQUEST ? "[0, id, method, params]"
                                                : "[1, id, error, result]");
    if (!m->has_id)
        return qpc_fail(err, QPC_ERR_MALFORMED,
                        "the id of a %s is %s; want an integer from 0 to 4294967295",
                        type == QPC_RPC_REQUEST ? "request" : "response",
                        strcmp(found(&c), "an integer") == 0 ? "out of range" : found(&c));
    if (type == QPC_RPC_RESPONSE) return take_outcome(&c, m, err);
    qpc_status status = take_method(&c, m, err);
    return status == QPC_OK ? take_params(&c, m, err) : status;
}

qpc_status qpc_rpc_parse(const uint8_t *bytes, size_t size, qpc_rpc_message *ret, qpc_error *err) {
    *ret = (qpc_rpc_message){.type = QPC_RPC_REQUEST};
    qpc_status status = parse(bytes, size, ret, err);
    if (status != QPC_OK) {
        qpc_value_fini(&ret->root);
        ret->params = ret->error = ret->result = qpc_nil();
    }
    return status;
}

void qpc_rpc_message_fini(qpc_rpc_message *message) {
    if (message == NULL) return;
    qpc_value_fini(&message->root);
    message->params = message->error = message->result = qpc_nil();
}

// ---- writing ----

static size_t put_uint(uint8_t *p, uint32_t v) {
    if (v <= 0x7f) {
        p[0] = (uint8_t)v;
        return 1;
    }
    int field = v <= 0xff ? 1 : v <= 0xffff ? 2 : 4;
    p[0] = (uint8_t)(field == 1 ? 0xcc : field == 2 ? 0xcd : 0xce);
    for (int i = 0; i < field; i++) p[1 + i] = (uint8_t)(v >> (8 * (field - 1 - i)));
    return 1 + (size_t)field;
}

/// [type, id, ...
static qpc_status open_with_id(qpc_rpc_type type, uint32_t id, qpc_buffer *out) {
    uint8_t front[8] = {0x94, (uint8_t)type};
    return qpc_buffer_append(out, front, 2 + put_uint(front + 2, id));
}

static qpc_status put_method_and_params(const char *method, const qpc_value *params, bool bin_keys,
                                        qpc_buffer *out, qpc_error *err) {
    qpc_value name = qpc_text_borrow(method);
    uint8_t one = 0x91, none = 0x90;
    qpc_status status = qpc_encode(&name, false, out, err);
    if (status != QPC_OK) return status;
    status = qpc_buffer_append(out, params != NULL ? &one : &none, 1);
    if (status != QPC_OK) return qpc_fail(err, status, "no memory to encode a message");
    return params != NULL ? qpc_encode(params, bin_keys, out, err) : QPC_OK;
}

qpc_status qpc_rpc_request(uint32_t id, const char *method, const qpc_value *params, bool bin_keys,
                           qpc_buffer *out, qpc_error *err) {
    size_t before = out->size;
    qpc_status status = open_with_id(QPC_RPC_REQUEST, id, out);
    if (status == QPC_OK)
        status = put_method_and_params(method, params, bin_keys, out, err);
    else
        qpc_fail(err, status, "no memory to encode a message");
    if (status != QPC_OK) out->size = before;
    return status;
}

qpc_status qpc_rpc_notify(const char *method, const qpc_value *params, bool bin_keys,
                          qpc_buffer *out, qpc_error *err) {
    size_t before = out->size;
    const uint8_t front[2] = {0x93, QPC_RPC_NOTIFICATION};
    qpc_status status = qpc_buffer_append(out, front, sizeof front);
    if (status == QPC_OK)
        status = put_method_and_params(method, params, bin_keys, out, err);
    else
        qpc_fail(err, status, "no memory to encode a message");
    if (status != QPC_OK) out->size = before;
    return status;
}

qpc_status qpc_rpc_result(uint32_t id, const qpc_value *result, bool bin_keys, qpc_buffer *out,
                          qpc_error *err) {
    size_t before = out->size;
    const uint8_t nil = 0xc0;
    qpc_status status = open_with_id(QPC_RPC_RESPONSE, id, out);
    if (status == QPC_OK) status = qpc_buffer_append(out, &nil, 1);
    if (status == QPC_OK)
        status = qpc_encode(result, bin_keys, out, err);
    else
        qpc_fail(err, status, "no memory to encode a message");
    if (status != QPC_OK) out->size = before;
    return status;
}

// ---- errors ----

/// The map on the caller's stack, for encoding: nothing is allocated, all is borrowed.
typedef struct error_map {
    qpc_pair top[4], where[1];
    qpc_value value;
} error_map;

static void make_error_map(const qpc_error *error, const qpc_value *data, error_map *ret) {
    qpc_value inner = qpc_nil();
    if (data != NULL) {
        inner = *data;
    } else if (error->where[0] != '\0') {
        ret->where[0] = (qpc_pair){qpc_text_borrow("where"), qpc_text_borrow(error->where)};
        inner = qpc_map();
        inner.map.pairs = ret->where;
        inner.map.count = inner.map.capacity = 1;
    }
    const char *text = error->message[0] != '\0' ? error->message : qpc_status_text(error->status);
    ret->top[0] = (qpc_pair){qpc_text_borrow("code"), qpc_int(error->status)};
    ret->top[1] =
        (qpc_pair){qpc_text_borrow("name"), qpc_text_borrow(qpc_status_name(error->status))};
    ret->top[2] = (qpc_pair){qpc_text_borrow("message"), qpc_text_borrow(text)};
    ret->top[3] = (qpc_pair){qpc_text_borrow("data"), inner};
    ret->value = qpc_map();
    ret->value.map.pairs = ret->top;
    ret->value.map.count = ret->value.map.capacity = 4;
}

qpc_status qpc_rpc_error(uint32_t id, const qpc_error *error, const qpc_value *data,
                         qpc_buffer *out) {
    size_t before = out->size;
    const uint8_t nil = 0xc0;
    error_map map;
    make_error_map(error, data, &map);
    qpc_status status = open_with_id(QPC_RPC_RESPONSE, id, out);
    if (status == QPC_OK) status = qpc_encode(&map.value, false, out, NULL);
    if (status == QPC_OK) status = qpc_buffer_append(out, &nil, 1);
    if (status != QPC_OK) out->size = before;
    return status;
}

qpc_status qpc_error_to_value(const qpc_error *error, const qpc_value *data, qpc_value *ret) {
    error_map map;
    make_error_map(error, data, &map);
    return qpc_value_copy(&map.value, ret);
}

static qpc_status status_of_code(int64_t code) {
    switch (code) {
#define QPC_STATUS_KNOWN(name, number, text)                                                       \
    case number:                                                                                   \
        return QPC_ERR_##name;
        QPC_STATUS_LIST(QPC_STATUS_KNOWN)
#undef QPC_STATUS_KNOWN
    default:
        return QPC_ERR_INTERNAL;
    }
}

void qpc_error_from_value(const qpc_value *v, qpc_error *ret) {
    char text[sizeof ret->message] = "";
    *ret = (qpc_error){0};
    if (v == NULL || v->kind == QPC_NIL) return;
    if (v->kind == QPC_STR) {
        qpc_utf8_clean(v->str.bytes, v->str.size, text, sizeof text);
        qpc_fail(ret, QPC_ERR_INTERNAL, "%s", text);
        return;
    }
    const qpc_value *code = qpc_map_get(v, "code"), *message = qpc_map_get(v, "message");
    const qpc_value *where = qpc_map_get(qpc_map_get(v, "data"), "where");
    qpc_status status = QPC_ERR_INTERNAL;
    if (code != NULL && code->kind == QPC_INT && !code->is_unsigned)
        status = status_of_code(code->i);
    if (message != NULL && message->kind == QPC_STR)
        qpc_utf8_clean(message->str.bytes, message->str.size, text, sizeof text);
    if (text[0] != '\0')
        qpc_fail(ret, status, "%s", text);
    else
        qpc_fail(ret, status, "an error without a message (%s)", qpc_status_name(status));
    if (where != NULL && where->kind == QPC_STR)
        qpc_utf8_clean(where->str.bytes, where->str.size, ret->where, sizeof ret->where);
}
