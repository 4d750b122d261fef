/// Typed growable arrays: QPC_ARRAY(int32_t) a = {0};  qpc_array_push(&a, v) is false when memory is
/// out (the array is unchanged). Read a.data[i], a.count. Growth doubles, so pushes are amortised.
#ifndef QPC_BASE_ARRAY_H
#define QPC_BASE_ARRAY_H

#include "base/mem.h"

#include <string.h>

#define QPC_ARRAY(type)                                                                            \
    struct {                                                                                       \
        type *data;                                                                                \
        int32_t count, capacity;                                                                   \
    }

/// Make room for at least `want` elements; false when memory is out or the count overflows.
#define qpc_array_reserve(a, want)                                                                 \
    ((want) <= (a)->capacity ||                                                                    \
     qpc_array_grow(&(a)->data, &(a)->capacity, (int64_t)(want), sizeof *(a)->data))
#define qpc_array_push(a, value)                                                                   \
    (qpc_array_reserve((a), (int64_t)(a)->count + 1)                                               \
         ? ((a)->data[(a)->count++] = (value), true)                                               \
         : false)
#define qpc_array_fini(a) (qpc_free((a)->data), (a)->data = NULL, (a)->count = (a)->capacity = 0)

/// data is the address of the array's typed pointer, moved as bytes: a void ** would alias it.
static inline bool qpc_array_grow(void *data, int32_t *capacity, int64_t want, size_t size) {
    int64_t grown = 2 * (int64_t)*capacity + 8;
    if (want > INT32_MAX) return false;
    if (grown < want) grown = want;
    if (grown > INT32_MAX) grown = INT32_MAX;
    void *p;
    memcpy(&p, data, sizeof p);
    p = qpc_realloc_array(p, (size_t)grown, size);
    if (p == NULL) return false;
    memcpy(data, &p, sizeof p);
    *capacity = (int32_t)grown;
    return true;
}

#endif
