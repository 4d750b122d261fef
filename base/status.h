/// Status codes and error texts: one list for functions, exit messages and the wire.
///
/// Every fallible function returns a qpc_status; QPC_OK is 0, the others are the stable codes that
/// travel on the wire. A qpc_error carries the sentence for a person: what was wrong, where, and
/// what would be right. Errors are values on the caller's stack; nothing here allocates or logs.
#ifndef QPC_BASE_STATUS_H
#define QPC_BASE_STATUS_H

#include <stddef.h>

/// X(suffix, code, one line for docs)
#define QPC_STATUS_LIST(X)                                                                         \
    X(INVALID, 1, "a parameter is missing, of the wrong type or out of range")                     \
    X(NOT_FOUND, 2, "no such world, mesh, run, step, subscription or file")                        \
    X(EXISTS, 3, "it exists already")                                                              \
    X(LIMIT, 4, "a documented limit would be exceeded; the message names it")                      \
    X(BUSY, 5, "a bounded queue is full; try again")                                               \
    X(STATE, 6, "not possible in the present state, such as an unexpected step number")            \
    X(UNAUTHORISED, 7, "the token is missing or wrong")                                            \
    X(UNSUPPORTED, 8, "known, but not in this build or for this object")                           \
    X(UNKNOWN_METHOD, 9, "no method of that name")                                                 \
    X(MALFORMED, 10, "bytes that are not MessagePack-RPC, or nested too deep")                     \
    X(MEMORY, 11, "out of memory")                                                                 \
    X(IO, 12, "the operating system refused an operation on a file or socket")                     \
    X(FULL, 13, "the disk or a store is full")                                                     \
    X(CORRUPT, 14, "stored data do not read back as written")                                      \
    X(NUMERIC, 15, "a number is not finite, or a matrix lost definiteness")                        \
    X(CANCELLED, 16, "cancelled by the caller")                                                    \
    X(DEADLINE, 17, "the deadline of the request passed")                                          \
    X(INTERNAL, 18, "an invariant of the program is broken; please report it")

typedef enum qpc_status {
    QPC_OK = 0,
#define QPC_STATUS_ENUM(name, code, text) QPC_ERR_##name = (code),
    QPC_STATUS_LIST(QPC_STATUS_ENUM)
#undef QPC_STATUS_ENUM
} qpc_status;

/// A message for the sender of bad input. `where` is the path of the offending thing, such as
/// "bodies[2].mass", or empty. Zero-initialise; written by qpc_fail() only.
typedef struct qpc_error {
    qpc_status status;
    char where[120];
    char message[640];
} qpc_error;

/// Set err (which may be NULL) and return status, so that a check fits one line:
///     return qpc_fail(err, QPC_ERR_INVALID, "face %d uses node %d, mesh has %d nodes", f, v, n);
/// A text that does not fit is cut at a UTF-8 boundary.
qpc_status qpc_fail(qpc_error *err, qpc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/// The same, naming the place: err->where = where, and the message starts with "where: ".
qpc_status qpc_fail_at(qpc_error *err, qpc_status status, const char *where, const char *format,
                       ...) __attribute__((format(printf, 4, 5)));

/// "INVALID", "NOT_FOUND", ... ; "OK" for 0; "UNKNOWN" for a code outside the list.
const char *qpc_status_name(qpc_status status);

/// The one line of the list above; "no error" for QPC_OK.
const char *qpc_status_text(qpc_status status);

/// Invariants of ours, never of input. QPC_ASSERT is checked in every build but packagers' ones;
/// QPC_NEVER(x) aborts in debug builds and otherwise is x, so that the error branch runs.
void qpc_assert_failed(const char *expression, const char *file, int line)
    __attribute__((noreturn));
#ifdef QPC_RELEASE
#define QPC_ASSERT(x) ((void)sizeof(x))
#define QPC_NEVER(x) __builtin_expect(!!(x), 0)
#else
#define QPC_ASSERT(x) ((x) ? (void)0 : qpc_assert_failed(#x, __FILE__, __LINE__))
#define QPC_NEVER(x) ((x) ? (qpc_assert_failed("never: " #x, __FILE__, __LINE__), 1) : 0)
#endif

#endif
