/// JSON text to and from value trees (by jansson). Any thread.
#ifndef QPC_BASE_JSON_H
#define QPC_BASE_JSON_H

#include "base/value.h"

/// Parse one JSON document (UTF-8, at most 64 levels deep). Duplicate keys, trailing text, NaN and
/// Infinity are errors with line and column, and so are integers that do not fit int64, reals that
/// do not fit a double, and NUL in text. Numbers without '.' and 'e' become ints.
qpc_status qpc_json_parse(const char *text, size_t size, qpc_value *ret, qpc_error *err);

/// Write a tree as JSON, newly allocated, NUL-terminated (qpc_free). indent 0 is one line. Real
/// numbers print so that they read back to the same bits; non-finite reals become null (a report
/// of ours must stay JSON). Tensors become nested lists; bin becomes lower-case hex text; bytes
/// that are not UTF-8 become U+FFFD. QPC_ERR_INVALID beyond 128 levels, QPC_ERR_MEMORY.
/// sort_keys gives the canonical form (keys in byte order, no spaces).
qpc_status qpc_json_write(const qpc_value *v, int indent, bool sort_keys, char **ret,
                          qpc_error *err);

#endif
