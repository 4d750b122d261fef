/// Counters of the daemon, for server.stats. Workers and the loop add; relaxed order is enough.
#ifndef QPC_SERVER_STATS_H
#define QPC_SERVER_STATS_H

#include <stdatomic.h>
#include <stdint.h>

/// X(name, one line)
#define QPC_COUNTER_LIST(X)                                                                        \
    X(requests, "requests and notifications received")                                             \
    X(errors, "error replies and error notifications")                                             \
    X(malformed, "messages that were not MessagePack-RPC or beyond a limit")                       \
    X(bytes_in, "bytes read from clients")                                                         \
    X(bytes_out, "bytes written to clients")                                                       \
    X(sessions_opened, "connections accepted")                                                     \
    X(sessions_refused, "connections closed at once: too many, or no descriptor left")             \
    X(sessions_slow, "sessions closed because their reader was too slow")                          \
    X(steps, "steps of all worlds")                                                                \
    X(steps_failed, "steps that failed")                                                           \
    X(steps_not_proven, "steps whose motion was not proven to be free of contact")                 \
    X(frames_sent, "frames sent to subscribers")                                                   \
    X(frames_dropped, "frames that subscribers lost by their policy")                              \
    X(worlds_created, "worlds created")

typedef struct qpc_counters {
#define QPC_COUNTER_MEMBER(name, text) _Atomic uint64_t name;
    QPC_COUNTER_LIST(QPC_COUNTER_MEMBER)
#undef QPC_COUNTER_MEMBER
} qpc_counters;

#define qpc_count(counters, name, by)                                                              \
    ((void)atomic_fetch_add_explicit(&(counters)->name, (uint64_t)(by), memory_order_relaxed))

#endif
