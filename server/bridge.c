/// Posts from workers to the loop thread. See bridge.h.
///
/// A stack that is taken as a whole and turned round. The sleeping flag and the list are both read
/// and written with sequential consistency, so that of "push, then look at the flag" and "set the
/// flag, then look at the list" at least one sees the other: no wake-up is lost.
#include "server/bridge.h"

static void on_wake(uv_async_t *wake) {
    // Waking is all; the owner of the loop drains after every turn.
    (void)wake;
}

qpc_status qpc_bridge_init(qpc_bridge *bridge, uv_loop_t *loop, qpc_error *err) {
    atomic_init(&bridge->head, NULL);
    atomic_init(&bridge->asleep, false);
    bridge->drained = 0;
    int rc = uv_async_init(loop, &bridge->wake, on_wake);
    if (rc != 0) return qpc_fail(err, QPC_ERR_IO, "uv_async_init: %s", uv_strerror(rc));
    bridge->open = true;
    return QPC_OK;
}

void qpc_bridge_close(qpc_bridge *bridge) {
    if (!bridge->open) return;
    bridge->open = false;
    uv_close((uv_handle_t *)&bridge->wake, NULL);
}

void qpc_bridge_send(qpc_bridge *bridge, qpc_post *post) {
    qpc_post *head = atomic_load_explicit(&bridge->head, memory_order_relaxed);
    do {
        post->next = head;
    } while (!atomic_compare_exchange_weak(&bridge->head, &head, post));
    if (atomic_load(&bridge->asleep)) uv_async_send(&bridge->wake);
}

int qpc_bridge_drain(qpc_bridge *bridge) {
    if (atomic_load_explicit(&bridge->head, memory_order_relaxed) == NULL) return 0;
    qpc_post *newest = atomic_exchange(&bridge->head, NULL);
    qpc_post *oldest = NULL;
    while (newest != NULL) {
        qpc_post *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    int count = 0;
    while (oldest != NULL) {
        qpc_post *next = oldest->next; // the post may be freed, or sent again, by its own run
        oldest->run(oldest);
        oldest = next;
        count++;
    }
    bridge->drained += (uint64_t)count;
    return count;
}

bool qpc_bridge_may_sleep(qpc_bridge *bridge) {
    atomic_store(&bridge->asleep, true);
    if (atomic_load(&bridge->head) == NULL) return true;
    atomic_store(&bridge->asleep, false);
    return false;
}

void qpc_bridge_awake(qpc_bridge *bridge) { atomic_store(&bridge->asleep, false); }
