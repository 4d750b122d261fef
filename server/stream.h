/// Subscriptions: frames of a world to one session, within its credit and its reader's speed.
///
/// A subscription has a queue of frames that may not go out yet, because credit is used up or the
/// reader is behind; when that is full, by frames or by the bytes that the session may hold, its policy
/// decides:
///     drop-oldest   the oldest waiting frame goes
///     drop-newest   the new frame goes
///     latest        only the newest waits (a queue of one)
///     close         the subscription ends
/// Each frame sent says how many were lost before it. Loop thread.
#ifndef QPC_SERVER_STREAM_H
#define QPC_SERVER_STREAM_H

#include "server/request.h"
#include "server/snapshot.h"

typedef enum qpc_stream_policy {
    QPC_STREAM_DROP_OLDEST,
    QPC_STREAM_DROP_NEWEST,
    QPC_STREAM_LATEST,
    QPC_STREAM_CLOSE,
} qpc_stream_policy;
/// NULL: latest.
qpc_status qpc_stream_policy_read(const qpc_value *v, qpc_stream_policy *ret, qpc_error *err);

typedef struct qpc_subscription qpc_subscription;

/// What a subscription sends through; a session, or a test.
typedef struct qpc_stream_sink {
    /// Is the reader fast enough for one more?
    bool (*ready)(void *user);
    void (*send)(void *user, const qpc_subscription *subscription, const qpc_snapshot *frame,
                 uint64_t dropped);
    void *user;
} qpc_stream_sink;

struct qpc_subscription {
    uint32_t id; // within the session
    uint64_t world;
    qpc_session *session;
    qpc_actor *actor;
    qpc_subscription *next_of_session, *next_of_actor;
    qpc_stream_sink sink;
    int64_t every;
    uint32_t parts;
    bool single;
    bool counted; // by credit
    int64_t credit;
    qpc_stream_policy policy;
    bool over; // ended by its policy; sends nothing any more
    int32_t capacity, first, count;
    size_t *held;     // bytes of the frames that wait in all queues of the session; NULL: not counted
    size_t held_most; // then the queue counts as full
    uint64_t sent, dropped, dropped_since; // since the last frame sent
    _Atomic uint64_t *lost; // counter of dropped frames of all subscriptions; NULL: none
    qpc_snapshot *waiting[];
};

/// capacity: frames that may wait; 1 for `latest`.
qpc_subscription *qpc_subscription_create(qpc_stream_policy policy, int32_t capacity);
void qpc_subscription_destroy(qpc_subscription *subscription);
/// A frame of the world: sent, queued or dropped. Frames that are not due (every) are ignored.
void qpc_subscription_offer(qpc_subscription *subscription, qpc_snapshot *frame);
/// `count` frames were lost on the way here.
void qpc_subscription_missed(qpc_subscription *subscription, uint64_t count);
/// Credit came, or the reader caught up: send what may go.
void qpc_subscription_pump(qpc_subscription *subscription);

#endif
