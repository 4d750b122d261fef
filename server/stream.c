/// Queue and policies of a subscription. See stream.h. Loop thread.
#include "server/stream.h"

#include "base/mem.h"

#include <stdatomic.h>
#include <string.h>

qpc_status qpc_stream_policy_read(const qpc_value *v, qpc_stream_policy *ret, qpc_error *err) {
    static const struct {
        const char *name;
        qpc_stream_policy policy;
    } names[] = {
        {"drop-oldest", QPC_STREAM_DROP_OLDEST},
        {"drop-newest", QPC_STREAM_DROP_NEWEST},
        {"latest", QPC_STREAM_LATEST},
        {"close", QPC_STREAM_CLOSE},
    };
    if (v == NULL) {
        *ret = QPC_STREAM_LATEST;
        return QPC_OK;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (qpc_str_equal(v, names[i].name)) {
            *ret = names[i].policy;
            return QPC_OK;
        }
    }
    return qpc_fail_at(err, QPC_ERR_INVALID, "policy",
                       "want drop-oldest, drop-newest, latest or close");
}

qpc_subscription *qpc_subscription_create(qpc_stream_policy policy, int32_t capacity) {
    if (policy == QPC_STREAM_LATEST || capacity < 1) capacity = 1;
    qpc_subscription *s =
        qpc_calloc(1, sizeof *s + (size_t)capacity * sizeof s->waiting[0]);
    if (s == NULL) return NULL;
    s->policy = policy;
    s->capacity = capacity;
    s->every = 1;
    return s;
}

static qpc_snapshot *take_oldest(qpc_subscription *s) {
    qpc_snapshot *frame = s->waiting[s->first];
    s->first = (s->first + 1) % s->capacity;
    s->count--;
    if (s->held != NULL) *s->held -= qpc_snapshot_size(frame);
    return frame;
}

void qpc_subscription_destroy(qpc_subscription *s) {
    if (s == NULL) return;
    while (s->count > 0) qpc_snapshot_unref(take_oldest(s));
    qpc_free(s);
}

void qpc_subscription_missed(qpc_subscription *s, uint64_t count) {
    s->dropped += count;
    s->dropped_since += count;
    if (s->lost != NULL) atomic_fetch_add_explicit(s->lost, count, memory_order_relaxed);
}

static bool may_send(const qpc_subscription *s) {
    if (s->over || (s->counted && s->credit <= 0)) return false;
    return s->sink.ready(s->sink.user);
}

static void send_frame(qpc_subscription *s, const qpc_snapshot *frame) {
    uint64_t dropped = s->dropped_since;
    s->dropped_since = 0;
    s->sent++;
    if (s->counted) s->credit--;
    s->sink.send(s->sink.user, s, frame, dropped);
}

/// One frame is always admitted when no other waits.
static bool is_full(const qpc_subscription *s, const qpc_snapshot *frame) {
    if (s->count == s->capacity) return true;
    return s->held != NULL && *s->held > 0 && *s->held + qpc_snapshot_size(frame) > s->held_most;
}

void qpc_subscription_offer(qpc_subscription *s, qpc_snapshot *frame) {
    if (s->over || frame->step % s->every != 0) return;
    qpc_subscription_pump(s); // older ones first
    if (s->count == 0 && may_send(s)) {
        send_frame(s, frame);
        return;
    }
    while (is_full(s, frame)) {
        if (s->policy == QPC_STREAM_CLOSE) {
            s->over = true;
            return;
        }
        qpc_subscription_missed(s, 1);
        // Without a frame of its own to drop it is the session's other queues that are full.
        if (s->policy == QPC_STREAM_DROP_NEWEST || s->count == 0) return;
        qpc_snapshot_unref(take_oldest(s));
    }
    s->waiting[(s->first + s->count) % s->capacity] = qpc_snapshot_ref(frame);
    s->count++;
    if (s->held != NULL) *s->held += qpc_snapshot_size(frame);
}

void qpc_subscription_pump(qpc_subscription *s) {
    while (s->count > 0 && may_send(s)) {
        qpc_snapshot *frame = take_oldest(s);
        send_frame(s, frame);
        qpc_snapshot_unref(frame);
    }
}
