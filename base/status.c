/// Status names and error texts. Any thread; no state.
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// Drop the head of a UTF-8 sequence that was cut at the end of s.
static void drop_partial_utf8(char *s) {
    size_t n = strlen(s), head = n;
    while (head > 0 && n - head < 3 && ((unsigned char)s[head - 1] & 0xC0U) == 0x80U) head--;
    if (head == 0) return;
    unsigned char c = (unsigned char)s[head - 1];
    size_t needs = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
    if (needs > n - head + 1) s[head - 1] = '\0';
}

/// Copy text, cut at a character if it is too long.
static void copy_cut(char *out, size_t size, const char *text) {
    if (snprintf(out, size, "%s", text) >= (int)size) drop_partial_utf8(out);
}

/// The arguments may point into err itself (a message that is wrapped by a caller), so the text is
/// made on the stack and err is written last.
__attribute__((format(printf, 4, 0))) static void
set(qpc_error *err, qpc_status status, const char *where, const char *format, va_list args) {
    char message[sizeof err->message], path[sizeof err->where];
    copy_cut(path, sizeof path, where);
    size_t used = 0;
    if (path[0] != '\0') used = (size_t)snprintf(message, sizeof message, "%s: ", path);
    int wanted = vsnprintf(message + used, sizeof message - used, format, args);
    if (wanted < 0) message[used] = '\0';
    if (wanted >= (int)(sizeof message - used)) drop_partial_utf8(message);
    err->status = status;
    memcpy(err->where, path, sizeof path);
    memcpy(err->message, message, sizeof message);
}

qpc_status qpc_fail(qpc_error *err, qpc_status status, const char *format, ...) {
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        set(err, status, "", format, args);
        va_end(args);
    }
    return status;
}

qpc_status qpc_fail_at(qpc_error *err, qpc_status status, const char *where, const char *format,
                       ...) {
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        set(err, status, where != NULL ? where : "", format, args);
        va_end(args);
    }
    return status;
}

const char *qpc_status_name(qpc_status status) {
    switch (status) {
    case QPC_OK:
        return "OK";
#define QPC_STATUS_CASE(name, code, text)                                                          \
    case QPC_ERR_##name:                                                                           \
        return #name;
        QPC_STATUS_LIST(QPC_STATUS_CASE)
#undef QPC_STATUS_CASE
    }
    return "UNKNOWN";
}

const char *qpc_status_text(qpc_status status) {
    switch (status) {
    case QPC_OK:
        return "no error";
#define QPC_STATUS_CASE(name, code, text)                                                          \
    case QPC_ERR_##name:                                                                           \
        return text;
        QPC_STATUS_LIST(QPC_STATUS_CASE)
#undef QPC_STATUS_CASE
    }
    return "unknown status";
}

void qpc_assert_failed(const char *expression, const char *file, int line) {
    fprintf(stderr, "qpcollide: broken invariant at %s:%d: %s\n", file, line, expression);
    abort();
}
