/// The way back to the loop: any thread sends posts, the loop thread runs them.
///
///     worker --push--> lock-free list --drain--> post->run(post) on the loop
///                           \--one write to an eventfd, only if the loop sleeps or is about to
///
/// A post is embedded in what it carries (a request, an actor), so that sending takes no memory. The
/// list is bounded by construction: a request is in it at most once, and so is an actor. Wake-ups
/// merge, therefore a drain always empties the whole list. Not uv_async_t: its handle makes the loop
/// wait, spinning, for the sender to get out of its call, and the sender is a niced thread that the
/// loop has just preempted.
#ifndef QPC_SERVER_BRIDGE_H
#define QPC_SERVER_BRIDGE_H

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

typedef struct qpc_post qpc_post;
struct qpc_post {
    qpc_post *next;
    void (*run)(qpc_post *post);
};

typedef struct qpc_bridge {
    _Atomic(qpc_post *) head; // newest first
    atomic_bool asleep;       // the loop waits, or is about to, and wants a wake-up
    int fd; // eventfd; -1: not open
    uv_poll_t wake;
    uint64_t drained;
} qpc_bridge;

qpc_status qpc_bridge_init(qpc_bridge *bridge, uv_loop_t *loop, qpc_error *err);
/// Loop thread. Closes the wake-up handle; the loop must run once more before it is closed.
void qpc_bridge_close(qpc_bridge *bridge);
/// Any thread. The post must stay valid until it has run.
void qpc_bridge_send(qpc_bridge *bridge, qpc_post *post);
/// Loop thread: runs everything that was sent, in the order of each sender. Returns the count.
int qpc_bridge_drain(qpc_bridge *bridge);
/// Loop thread, before it sleeps: false if posts have arrived (then do not sleep).
bool qpc_bridge_may_sleep(qpc_bridge *bridge);
/// Loop thread, after it woke up.
void qpc_bridge_awake(qpc_bridge *bridge);

#endif
