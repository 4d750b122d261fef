/// Table of worlds, sorted by id; ids grow, so that adding is at the end as a rule. See worlds.h.
#include "server/worlds.h"

#include <inttypes.h>
#include <string.h>

void qpc_worlds_fini(qpc_worlds *worlds) { qpc_array_fini(&worlds->actors); }

qpc_status qpc_worlds_reserve(qpc_worlds *worlds, qpc_error *err) {
    int64_t count = worlds->actors.count + worlds->creating;
    if (count >= worlds->limit) {
        return qpc_fail(err, QPC_ERR_LIMIT,
                        "%" PRId64 " worlds are live: --max-worlds is %" PRId64, count,
                        worlds->limit);
    }
    if (!qpc_array_reserve(&worlds->actors, count + 1)) {
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for the table of worlds");
    }
    worlds->creating++;
    return QPC_OK;
}

/// Index of the first world whose id is not below id.
static int32_t lower_bound(const qpc_worlds *worlds, uint64_t id) {
    int32_t low = 0, high = worlds->actors.count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (qpc_actor_id(worlds->actors.data[middle]) < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void qpc_worlds_settle(qpc_worlds *worlds, qpc_actor *actor) {
    worlds->creating--;
    if (actor == NULL) return;
    int32_t at = lower_bound(worlds, qpc_actor_id(actor));
    qpc_actor **slot = &worlds->actors.data[at];
    memmove(slot + 1, slot, (size_t)(worlds->actors.count - at) * sizeof *slot);
    *slot = actor;
    worlds->actors.count++;
}

qpc_status qpc_worlds_find(const qpc_worlds *worlds, uint64_t id, qpc_actor **ret,
                           qpc_error *err) {
    int32_t at = lower_bound(worlds, id);
    if (at == worlds->actors.count || qpc_actor_id(worlds->actors.data[at]) != id) {
        return qpc_fail_at(err, QPC_ERR_NOT_FOUND, "world", "no world has the id %" PRIu64, id);
    }
    *ret = worlds->actors.data[at];
    return QPC_OK;
}

void qpc_worlds_remove(qpc_worlds *worlds, qpc_actor *actor) {
    for (int32_t i = 0; i < worlds->actors.count; i++) {
        if (worlds->actors.data[i] != actor) continue;
        qpc_actor **slot = &worlds->actors.data[i];
        memmove(slot, slot + 1, (size_t)(worlds->actors.count - i - 1) * sizeof *slot);
        worlds->actors.count--;
        return;
    }
}
