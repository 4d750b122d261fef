/// Addresses and connecting. See address.h.
#include "client/libqpc/address.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_PORT "7447"

static qpc_status parse_port(const char *text, const char *port, qpc_address *ret, qpc_error *err) {
    char *end;
    size_t size = strlen(port);
    errno = 0;
    unsigned long number = strtoul(port, &end, 10);
    if (size == 0 || size > 5 || port[0] < '0' || port[0] > '9' || *end != '\0' || number < 1 ||
        number > 65535)
        return qpc_fail(err, QPC_ERR_INVALID, "address \"%s\": the port must be 1 to 65535", text);
    memcpy(ret->port, port, size + 1);
    return QPC_OK;
}

static qpc_status copy_host(const char *text, const char *host, size_t size, qpc_address *ret,
                            qpc_error *err) {
    if (size == 0) return qpc_fail(err, QPC_ERR_INVALID, "address \"%s\": the host is empty", text);
    if (size >= sizeof ret->host)
        return qpc_fail(err, QPC_ERR_INVALID, "address \"%.60s...\": the host is too long", text);
    memcpy(ret->host, host, size);
    ret->host[size] = '\0';
    return QPC_OK;
}

qpc_status qpc_address_parse(const char *text, qpc_address *ret, qpc_error *err) {
    qpc_address address = {.port = DEFAULT_PORT};
    qpc_status status;
    if (strncmp(text, "unix:", 5) == 0) {
        const char *path = text + 5;
        const size_t room = sizeof((struct sockaddr_un *)NULL)->sun_path;
        if (path[0] == '\0')
            return qpc_fail(err, QPC_ERR_INVALID, "address \"unix:\": the path is empty");
        if (strlen(path) >= room)
            return qpc_fail(err, QPC_ERR_INVALID,
                            "the path of a Unix socket has at most %zu bytes, \"%.60s...\" has %zu",
                            room - 1, path, strlen(path));
        address.is_unix = true;
        status = copy_host(text, path, strlen(path), &address, err);
    } else if (text[0] == '[') {
        const char *close = strchr(text, ']');
        if (close == NULL || (close[1] != ':' && close[1] != '\0'))
            return qpc_fail(err, QPC_ERR_INVALID, "address \"%s\": wanted [ipv6]:port", text);
        status = copy_host(text, text + 1, (size_t)(close - text - 1), &address, err);
        if (status == QPC_OK && close[1] == ':')
            status = parse_port(text, close + 2, &address, err);
    } else {
        const char *colon = strchr(text, ':');
        if (colon != NULL && strchr(colon + 1, ':') != NULL)
            return qpc_fail(err, QPC_ERR_INVALID,
                            "address \"%s\": an IPv6 address goes in brackets: [%s] or [::1]:7447",
                            text, text);
        size_t size = colon != NULL ? (size_t)(colon - text) : strlen(text);
        status = copy_host(text, text, size, &address, err);
        if (status == QPC_OK && colon != NULL) status = parse_port(text, colon + 1, &address, err);
    }
    if (status == QPC_OK) *ret = address;
    return status;
}

int64_t qpc_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

qpc_status qpc_wait_fd(int fd, short events, int64_t deadline_ms, bool (*interrupted)(void *user),
                       void *user, short *ret_events, qpc_error *err) {
    for (;;) {
        int timeout = -1;
        if (deadline_ms >= 0) {
            int64_t left = deadline_ms - qpc_now_ms();
            timeout = left < 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
        }
        struct pollfd p = {.fd = fd, .events = events};
        int got = poll(&p, 1, timeout);
        if (got > 0) {
            *ret_events = p.revents;
            return QPC_OK;
        }
        if (got < 0 && errno != EINTR)
            return qpc_fail(err, QPC_ERR_IO, "poll: %s", strerror(errno));
        if (got < 0 && interrupted != NULL && interrupted(user))
            return qpc_fail(err, QPC_ERR_CANCELLED, "interrupted");
        if (got == 0 && deadline_ms >= 0 && qpc_now_ms() >= deadline_ms)
            return qpc_fail(err, QPC_ERR_DEADLINE, "no answer in time");
    }
}

/// Connect one socket; its errno, or 0, goes to *ret_errno.
static qpc_status try_connect(int family, const struct sockaddr *where, socklen_t size,
                              int64_t deadline_ms, bool (*interrupted)(void *user), void *user,
                              int *ret_fd, int *ret_errno, qpc_error *err) {
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    *ret_errno = 0;
    if (fd < 0) {
        *ret_errno = errno;
        return qpc_fail(err, QPC_ERR_IO, "cannot make a socket: %s", strerror(errno));
    }
    qpc_status status = QPC_OK;
    if (connect(fd, where, size) != 0) {
        if (errno == EINPROGRESS || errno == EINTR) {
            short events = 0;
            status = qpc_wait_fd(fd, POLLOUT, deadline_ms, interrupted, user, &events, err);
            int failure = 0;
            socklen_t length = sizeof failure;
            if (status == QPC_OK && getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &length) != 0)
                failure = errno;
            *ret_errno = failure;
        } else {
            *ret_errno = errno;
        }
        if (*ret_errno != 0) status = qpc_fail(err, QPC_ERR_IO, "%s", strerror(*ret_errno));
    }
    if (status != QPC_OK) {
        close(fd);
        return status;
    }
    *ret_fd = fd;
    return QPC_OK;
}

static qpc_status connect_unix(const qpc_address *address, int64_t deadline_ms,
                               bool (*interrupted)(void *user), void *user, int *ret_fd,
                               qpc_error *err) {
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    snprintf(where.sun_path, sizeof where.sun_path, "%.107s", address->host);
    int failure;
    qpc_status status = try_connect(AF_UNIX, (const struct sockaddr *)&where, sizeof where,
                                    deadline_ms, interrupted, user, ret_fd, &failure, err);
    if (status != QPC_OK && failure != 0)
        status = qpc_fail(err, failure == ENOENT ? QPC_ERR_NOT_FOUND : QPC_ERR_IO,
                          "cannot connect to unix:%s: %s", address->host, strerror(failure));
    return status;
}

qpc_status qpc_address_connect(const qpc_address *address, int64_t deadline_ms,
                               bool (*interrupted)(void *user), void *user, int *ret_fd,
                               qpc_error *err) {
    if (address->is_unix) return connect_unix(address, deadline_ms, interrupted, user, ret_fd, err);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int rc = getaddrinfo(address->host, address->port, &hints, &found);
    if (rc != 0)
        return qpc_fail(err, QPC_ERR_NOT_FOUND, "cannot find host \"%s\": %s", address->host,
                        rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
    qpc_status status =
        qpc_fail(err, QPC_ERR_NOT_FOUND, "host \"%s\" has no address", address->host);
    for (const struct addrinfo *a = found; a != NULL; a = a->ai_next) {
        int failure;
        status = try_connect(a->ai_family, a->ai_addr, a->ai_addrlen, deadline_ms, interrupted,
                             user, ret_fd, &failure, err);
        if (status == QPC_OK) {
            int on = 1;
            setsockopt(*ret_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            break;
        }
        if (failure != 0)
            status = qpc_fail(err, QPC_ERR_IO, "cannot connect to %s%s%s:%s: %s",
                              strchr(address->host, ':') != NULL ? "[" : "", address->host,
                              strchr(address->host, ':') != NULL ? "]" : "", address->port,
                              strerror(failure));
        if (status == QPC_ERR_DEADLINE || status == QPC_ERR_CANCELLED) break;
    }
    freeaddrinfo(found);
    return status;
}
