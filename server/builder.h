/// Building a map key by key with one check at the end:
///     qpc_value map = qpc_map();
///     qpc_status status = QPC_OK;
///     qpc_put(&map, &status, "step", qpc_int(step));
/// After a failure the rest does nothing but free what it is given.
#ifndef QPC_SERVER_BUILDER_H
#define QPC_SERVER_BUILDER_H

#include "base/value.h"

static inline void qpc_put(qpc_value *map, qpc_status *status, const char *key, qpc_value item) {
    if (*status == QPC_OK) {
        *status = qpc_map_set(map, key, item);
    } else {
        qpc_value_fini(&item);
    }
}

/// A copy of text.
static inline void qpc_put_text(qpc_value *map, qpc_status *status, const char *key,
                                const char *text) {
    qpc_value copy = qpc_nil();
    if (*status == QPC_OK) *status = qpc_text_copy(text, &copy);
    qpc_put(map, status, key, copy);
}

static inline void qpc_add(qpc_value *list, qpc_status *status, qpc_value item) {
    if (*status == QPC_OK) {
        *status = qpc_list_push(list, item);
    } else {
        qpc_value_fini(&item);
    }
}

/// The finished value, or nothing: frees it when something failed.
static inline qpc_status qpc_finish(qpc_value *value, qpc_status status, qpc_value *ret,
                                    qpc_error *err) {
    if (status != QPC_OK) {
        qpc_value_fini(value);
        return qpc_fail(err, status, "out of memory for a reply");
    }
    *ret = *value;
    return QPC_OK;
}

#endif
