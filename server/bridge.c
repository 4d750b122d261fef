/// Posts from workers to the loop thread. See bridge.h.
///
/// A stack that is taken as a whole and turned round. The sleeping flag and the list are both read
/// and written with sequential consistency, so that of "push, then look at the flag" and "set the
/// flag, then look at the list" at least one sees the other: no wake-up is lost.
#include "server/bridge.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void on_wake(uv_poll_t *wake, int status, int events) {
    // Waking is all; the owner of the loop drains after every turn.
    qpc_bridge *bridge = wake->data;
    uint64_t count;
    (void)status;
    (void)events;
    while (read(bridge->fd, &count, sizeof count) < 0 && errno == EINTR) continue;
}

qpc_status qpc_bridge_init(qpc_bridge *bridge, uv_loop_t *loop, qpc_error *err) {
    atomic_init(&bridge->head, NULL);
    atomic_init(&bridge->asleep, false);
    bridge->drained = 0;
    bridge->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bridge->fd < 0) return qpc_fail(err, QPC_ERR_IO, "eventfd: %s", strerror(errno));
    int rc = uv_poll_init(loop, &bridge->wake, bridge->fd);
    bridge->wake.data = bridge;
    if (rc == 0) rc = uv_poll_start(&bridge->wake, UV_READABLE, on_wake);
    if (rc != 0) {
        close(bridge->fd);
        bridge->fd = -1;
        return qpc_fail(err, QPC_ERR_IO, "cannot watch the eventfd: %s", uv_strerror(rc));
    }
    return QPC_OK;
}

void qpc_bridge_close(qpc_bridge *bridge) {
    if (bridge->fd < 0) return;
    uv_poll_stop(&bridge->wake);
    uv_close((uv_handle_t *)&bridge->wake, NULL);
    close(bridge->fd);
    bridge->fd = -1;
}

void qpc_bridge_send(qpc_bridge *bridge, qpc_post *post) {
    qpc_post *head = atomic_load_explicit(&bridge->head, memory_order_relaxed);
    do {
        post->next = head;
    } while (!atomic_compare_exchange_weak(&bridge->head, &head, post));
    if (!atomic_load(&bridge->asleep) || !atomic_exchange(&bridge->asleep, false)) return;
    const uint64_t one = 1;
    while (write(bridge->fd, &one, sizeof one) < 0 && errno == EINTR) continue;
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
