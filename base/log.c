/// Log lines: formatted on the stack, written with one write(2). Level and descriptor are atomics.
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

enum { LINE_SIZE = 4096 };

static const char *const level_names[] = {"debug", "info", "warn", "error", "off"};
enum { LEVEL_COUNT = sizeof level_names / sizeof level_names[0] };

static atomic_int log_level = QPC_LOG_INFO;
static atomic_int log_fd = STDERR_FILENO;

void qpc_log_init(qpc_log_level level, int fd) {
    atomic_store(&log_level, (int)level);
    atomic_store(&log_fd, fd);
}

bool qpc_log_level_from_name(const char *name, qpc_log_level *ret) {
    for (int i = 0; i < LEVEL_COUNT; i++) {
        if (strcasecmp(name, level_names[i]) == 0) {
            *ret = (qpc_log_level)i;
            return true;
        }
    }
    return false;
}

bool qpc_log_enabled(qpc_log_level level) {
    return level < QPC_LOG_OFF && (int)level >= atomic_load(&log_level);
}

/// "2026-01-02T03:04:05.678Z"
static void format_time(char *out, size_t size) {
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(out, size, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, size - n, ".%03ldZ", now.tv_nsec / 1000000);
}

static void write_all(int fd, const char *bytes, size_t size) {
    while (size > 0) {
        ssize_t n = write(fd, bytes, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return; // A log that cannot be written is no reason to stop.
        bytes += n;
        size -= (size_t)n;
    }
}

void qpc_log(qpc_log_level level, const char *event, const char *format, ...) {
    if (!qpc_log_enabled(level)) return;
    int saved_errno = errno;
    char line[LINE_SIZE], stamp[40];
    format_time(stamp, sizeof stamp);
    size_t n = (size_t)snprintf(line, sizeof line, "ts=%s level=%s event=%.100s", stamp,
                                level_names[level], event);
    size_t start = n;
    if (format != NULL && format[0] != '\0') {
        va_list args;
        line[n++] = ' ';
        va_start(args, format);
        int wanted = vsnprintf(line + n, sizeof line - n - 1, format, args);
        va_end(args);
        size_t room = sizeof line - n - 2;
        if (wanted > 0) n += (size_t)wanted < room ? (size_t)wanted : room;
        if (wanted > 0 && (size_t)wanted > room) memcpy(line + n - 3, "...", 3);
    }
    // One call, one line, whatever was passed.
    for (size_t i = start; i < n; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7F) line[i] = ' ';
    line[n++] = '\n';
    write_all(atomic_load(&log_fd), line, n);
    errno = saved_errno;
}

const char *qpc_log_quote(const char *s, char *out, int size) {
    if (size <= 0) return "";
    size_t room = (size_t)size - 1, n = 0;
    if (room < 2) {
        out[0] = '\0';
        return out;
    }
    out[n++] = '"';
    for (; *s != '\0'; s++) {
        char piece[8];
        unsigned char c = (unsigned char)*s;
        size_t need;
        if (c == '"' || c == '\\')
            need = (size_t)snprintf(piece, sizeof piece, "\\%c", c);
        else if (c == '\n')
            need = (size_t)snprintf(piece, sizeof piece, "\\n");
        else if (c < 0x20 || c == 0x7F)
            need = (size_t)snprintf(piece, sizeof piece, "\\x%02x", c);
        else
            need = (size_t)snprintf(piece, sizeof piece, "%c", c);
        if (n + need + 1 > room) { // keep room for the closing quote
            // Do not leave the head of a cut UTF-8 sequence.
            if ((c & 0xC0U) == 0x80U) {
                while (n > 1 && ((unsigned char)out[n - 1] & 0xC0U) == 0x80U) n--;
                if (n > 1 && (unsigned char)out[n - 1] >= 0xC0U) n--;
            }
            break;
        }
        memcpy(out + n, piece, need);
        n += need;
    }
    out[n++] = '"';
    out[n] = '\0';
    return out;
}

bool qpc_log_admit(qpc_log_limit *limit, int64_t interval_ms, int64_t *ret_suppressed) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    int64_t now_ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    int64_t next_ns = atomic_load(&limit->next_ns);
    if (now_ns < next_ns || !atomic_compare_exchange_strong(&limit->next_ns, &next_ns,
                                                            now_ns + interval_ms * 1000000)) {
        atomic_fetch_add(&limit->suppressed, 1);
        return false;
    }
    *ret_suppressed = atomic_exchange(&limit->suppressed, 0);
    return true;
}
