/// A request that left its session: to a world's mailbox, or as a job to a worker.
///
/// Ownership moves with it: the loop makes it, one queue or worker holds it, and its post brings it
/// back to the loop, which sends the reply and frees it. What it needs of the message it owns: small
/// ones as copied values, large ones as the message itself.
#ifndef QPC_SERVER_REQUEST_H
#define QPC_SERVER_REQUEST_H

#include "protocol/methods.h"
#include "protocol/rpc.h"
#include "server/bridge.h"
#include "server/pool.h"

#include <stdatomic.h>

typedef struct qpc_session qpc_session;
typedef struct qpc_server qpc_server;
typedef struct qpc_actor qpc_actor;
typedef struct qpc_request qpc_request;

enum { QPC_KEY_SIZE = 65 };

typedef struct qpc_step_params {
    int64_t n;
    int64_t expect_step; // -1: any
    int64_t deadline_ns; // on the clock of uv_hrtime(); 0: none
    bool positions, velocities, contacts, single;
    char key[QPC_KEY_SIZE]; // "": none
} qpc_step_params;

struct qpc_request {
    qpc_post post; // back to the loop
    qpc_task task; // to a worker, for jobs
    qpc_request *next; // in a mailbox
    qpc_server *server;
    qpc_session *session; // kept alive by the request; loop only
    uint32_t id;
    bool wants_reply; // false for notifications
    bool bin_keys;
    qpc_method method;
    size_t charged; // bytes of the session's budget

    // What was asked. params borrow from `bytes` or own their parts.
    uint8_t *bytes;
    size_t size;
    qpc_rpc_message message;
    qpc_value params; // owned, unless they are those of the message
    bool params_in_message;
    qpc_step_params step;
    atomic_bool cancel; // set by the loop: stop between two steps

    // Jobs: what to do on the worker and, before the reply goes out, on the loop.
    void (*work)(qpc_request *request);
    void (*done)(qpc_request *request);
    void *object; // of the job
    void (*free_object)(void *object);

    int64_t work_ns; // time on workers

    // What came of it: an encoded reply.
    qpc_buffer reply;
    bool failed; // the reply is an error; for the counters
};

/// NULL when memory is out.
qpc_request *qpc_request_create(qpc_method method);
void qpc_request_destroy(qpc_request *request);

/// Encode the reply. When that fails (memory, a result beyond max_message bytes) an error is encoded
/// instead; an empty buffer means that not even that was possible. max_message 0: no limit.
void qpc_request_succeed(qpc_request *request, const qpc_value *result, size_t max_message);
void qpc_request_fail(qpc_request *request, const qpc_error *error, const qpc_value *data);

#endif
