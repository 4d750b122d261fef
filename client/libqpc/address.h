/// Addresses of a server as text, and connecting to them with a time-out. Any thread; no state.
#ifndef QPC_LIBQPC_ADDRESS_H
#define QPC_LIBQPC_ADDRESS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct qpc_address {
    bool is_unix;
    char host[256]; // or the path of a Unix socket
    char port[16];
} qpc_address;

/// "host:port", "host" (port 7447), "[ipv6]:port", "[ipv6]", "unix:/path". QPC_ERR_INVALID says
/// what is wrong with it.
qpc_status qpc_address_parse(const char *text, qpc_address *ret, qpc_error *err);

/// A connected, non-blocking, close-on-exec socket; TCP ones with TCP_NODELAY. Tries every address
/// of a host name in order. deadline_ms: of qpc_now_ms(); < 0: none. interrupted may be NULL.
qpc_status qpc_address_connect(const qpc_address *address, int64_t deadline_ms,
                               bool (*interrupted)(void *user), void *user, int *ret_fd,
                               qpc_error *err);

/// Milliseconds of the monotonic clock.
int64_t qpc_now_ms(void);
/// poll(2) on one descriptor until `events`, the deadline or an interruption. QPC_ERR_DEADLINE,
/// QPC_ERR_CANCELLED, QPC_ERR_IO.
qpc_status qpc_wait_fd(int fd, short events, int64_t deadline_ms, bool (*interrupted)(void *user),
                       void *user, short *ret_events, qpc_error *err);

#endif
