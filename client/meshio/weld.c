/// A hash set of positions. See weld.h.
#include "client/meshio/weld.h"

#include <string.h>

#include "base/mem.h"

qpc_status qpc_weld_init(qpc_weld *weld, int64_t capacity) {
    size_t slots = 16;
    while (slots < 2 * (size_t)capacity) slots *= 2;
    *weld = (qpc_weld){.mask = slots - 1, .capacity = capacity};
    weld->vertices = qpc_alloc_array((size_t)capacity, 3 * sizeof(double));
    weld->slots = qpc_alloc_array(slots, sizeof *weld->slots);
    if (weld->vertices == NULL || weld->slots == NULL) return QPC_ERR_MEMORY;
    memset(weld->slots, 0xff, slots * sizeof *weld->slots);
    return QPC_OK;
}

void qpc_weld_fini(qpc_weld *weld) {
    qpc_free(weld->vertices);
    qpc_free(weld->slots);
    *weld = (qpc_weld){0};
}

int32_t qpc_weld_find(qpc_weld *weld, const double position[3]) {
    double p[3];
    uint64_t bits[3], hash = 0x9e3779b97f4a7c15ULL;
    for (int k = 0; k < 3; k++) p[k] = position[k] + 0.0;
    memcpy(bits, p, sizeof bits);
    for (int k = 0; k < 3; k++) {
        hash = (hash ^ bits[k]) * 0xff51afd7ed558ccdULL;
        hash ^= hash >> 32;
    }
    size_t slot = (size_t)hash & weld->mask;
    while (weld->slots[slot] >= 0) {
        if (memcmp(weld->vertices + 3 * (size_t)weld->slots[slot], p, sizeof p) == 0) {
            weld->merged++;
            return weld->slots[slot];
        }
        slot = (slot + 1) & weld->mask;
    }
    if (weld->count >= weld->capacity) return -1;
    int32_t vertex = weld->count++;
    memcpy(weld->vertices + 3 * (size_t)vertex, p, sizeof p);
    weld->slots[slot] = vertex;
    return vertex;
}
