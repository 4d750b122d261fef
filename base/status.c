/// Status names and error texts. Any thread; no state.
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// Cut s to fit size bytes without splitting a UTF-8 sequence (s may fill all of size).
static void cut_utf8(char *s, size_t size) {
    size_t n = strnlen(s, size);
    if (n < size - 1) return;
    n = size - 1;
    while (n > 0 && ((unsigned char)s[n] & 0xC0U) == 0x80U) n--;
    s[n] = '\0';
}

static void set_message(qpc_error *err, size_t used, const char *format, va_list args) {
    // One spare byte tells a cut text from one that fits exactly.
    char *out = err->message + used;
    size_t room = sizeof err->message - used;
    int wanted = vsnprintf(out, room, format, args);
    if (wanted < 0) out[0] = '\0';
    if (wanted >= (int)room) cut_utf8(err->message, sizeof err->message - 1);
}

qpc_status qpc_fail(qpc_error *err, qpc_status status, const char *format, ...) {
    if (err != NULL) {
        va_list args;
        err->status = status;
        err->where[0] = '\0';
        va_start(args, format);
        set_message(err, 0, format, args);
        va_end(args);
    }
    return status;
}

qpc_status qpc_fail_at(qpc_error *err, qpc_status status, const char *where, const char *format,
                       ...) {
    if (err != NULL) {
        va_list args;
        err->status = status;
        snprintf(err->where, sizeof err->where, "%s", where);
        cut_utf8(err->where, sizeof err->where);
        int used = snprintf(err->message, sizeof err->message, "%s: ", err->where);
        va_start(args, format);
        set_message(err, (size_t)used, format, args);
        va_end(args);
    }
    return status;
}

const char *qpc_status_name(qpc_status status) {
    switch (status) {
    case QPC_OK: return "OK";
#define QPC_STATUS_CASE(name, code, text)                                                          \
    case QPC_ERR_##name: return #name;
        QPC_STATUS_LIST(QPC_STATUS_CASE)
#undef QPC_STATUS_CASE
    }
    return "UNKNOWN";
}

const char *qpc_status_text(qpc_status status) {
    switch (status) {
    case QPC_OK: return "no error";
#define QPC_STATUS_CASE(name, code, text)                                                          \
    case QPC_ERR_##name: return text;
        QPC_STATUS_LIST(QPC_STATUS_CASE)
#undef QPC_STATUS_CASE
    }
    return "unknown status";
}

void qpc_assert_failed(const char *expression, const char *file, int line) {
    fprintf(stderr, "qpcollide: broken invariant at %s:%d: %s\n", file, line, expression);
    abort();
}
