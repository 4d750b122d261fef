/// Log lines of key=value pairs:
///     ts=2026-01-02T03:04:05.678Z level=warn event=step_failed world=3 msg="..."
/// Only programs (server, client) log; libraries return errors. Any thread; one line per call,
/// written at once. Values with spaces, quotes or control bytes are quoted and escaped.
#ifndef QPC_BASE_LOG_H
#define QPC_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

typedef enum qpc_log_level {
    QPC_LOG_DEBUG,
    QPC_LOG_INFO,
    QPC_LOG_WARN,
    QPC_LOG_ERROR,
    QPC_LOG_OFF,
} qpc_log_level;

/// Lines below `level` are dropped. fd: where lines go (2 for standard error).
void qpc_log_init(qpc_log_level level, int fd);
bool qpc_log_level_from_name(const char *name, qpc_log_level *ret);
bool qpc_log_enabled(qpc_log_level level);

/// format makes the rest of the line, already in key=value form, e.g. "world=%d step=%lld"; use
/// qpc_log_quote for text from outside. event is a literal in snake_case.
void qpc_log(qpc_log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/// Write s as a quoted, escaped value into out (size bytes, cut if need be); returns out.
const char *qpc_log_quote(const char *s, char *out, int size);

/// At most one true per interval per limiter; *ret_suppressed counts the calls refused since.
typedef struct qpc_log_limit {
    _Atomic int64_t next_ns;
    _Atomic int64_t suppressed;
} qpc_log_limit;
bool qpc_log_admit(qpc_log_limit *limit, int64_t interval_ms, int64_t *ret_suppressed);

#endif
