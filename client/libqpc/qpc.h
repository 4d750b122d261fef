/// libqpc: the C client of qpcollided. MessagePack-RPC over TCP or a Unix socket.
///
///     qpc_client *c; qpc_message m; qpc_error err;
///     if (qpc_client_connect("127.0.0.1:7447", NULL, &c, &err) != QPC_OK) ...err.message...
///     if (qpc_call(c, "server.stats", NULL, &m, &err) == QPC_OK) { ...m.value...;
///     qpc_message_fini(&m); } qpc_client_close(c);
///
/// Blocking use: qpc_call() and the qpc_client_...() helpers send one request and wait for its
/// answer. Asynchronous use: qpc_send() gives the id of a request; wait for qpc_client_fd() in a
/// loop of your own (readable; also writable while qpc_client_wants_write()), then take what has
/// come with qpc_poll(c, 0, ...) until it gives QPC_MESSAGE_NONE. Both may be mixed: whatever
/// arrives while a call waits is kept for later.
///
/// Parameters and results are value trees (base/value.h): qpc_map(), qpc_map_set(), qpc_map_get(),
/// qpc_read_real() ... What methods there are and what they take is in docs/protocol.md.
///
/// Errors. Every fallible call returns a qpc_status and fills *err, which may be NULL. If the
/// server answered with an error, qpc_client_answered() is true and qpc_client_error_data() has its
/// data; the connection is good. QPC_ERR_DEADLINE without an answer: the time-out passed; the
/// connection is good and a late answer is dropped. QPC_ERR_IO, QPC_ERR_MALFORMED: the connection
/// is gone (qpc_client_is_open() is false). Nothing reconnects by itself: connect again, and repeat
/// a world.step with the same `key` (it then never steps twice).
///
/// Threads: a client belongs to one thread at a time; different clients are independent. No signal
/// is raised by a closed connection.
///
/// Values that came in a message are borrowed from it until qpc_message_fini(). The header works
/// from C++, and brings base/value.h and base/json.h with C linkage: do not include those before
/// it. Link with `pkg-config --cflags --libs libqpc`.
#ifndef QPC_LIBQPC_QPC_H
#define QPC_LIBQPC_QPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "base/json.h"
#include "base/mem.h" // qpc_free() for what is newly allocated
#include "base/value.h"

#define QPC_DEFAULT_ADDRESS "127.0.0.1:7447"
#define QPC_DEFAULT_PORT "7447"

typedef struct qpc_client qpc_client;

// ---- connecting ----

typedef struct qpc_connect_options { // zero-initialised: the defaults
    int32_t timeout_ms;              // of connecting and of each call; 0: 30 s; < 0: for ever
    size_t max_message;              // largest message accepted, bytes; 0: 512 MiB
    int32_t max_kept;                // notifications kept while calls wait; 0: 4096
    size_t max_kept_bytes;           // ... and their bytes; 0: 256 MiB. The oldest go first
    /// Asked whenever a signal interrupts waiting; true ends the call with QPC_ERR_CANCELLED.
    bool (*interrupted)(void *user);
    void *user;
} qpc_connect_options;

/// address: "host:port", "host" (port 7447), "[ipv6]:port" or "unix:/path". QPC_ERR_INVALID: not of
/// these forms; QPC_ERR_NOT_FOUND: no such host or socket; QPC_ERR_IO: nobody listens;
/// QPC_ERR_DEADLINE. options may be NULL.
qpc_status qpc_client_connect(const char *address, const qpc_connect_options *options,
                              qpc_client **ret, qpc_error *err);
/// NULL is accepted. Requests in flight are abandoned; the server finishes them.
void qpc_client_close(qpc_client *client);

bool qpc_client_is_open(const qpc_client *client);
int qpc_client_fd(const qpc_client *client); // -1 when closed
bool qpc_client_wants_write(const qpc_client *client);
void qpc_client_set_timeout(qpc_client *client, int32_t timeout_ms); // as in the options
/// The last call that failed was answered by the server with an error.
bool qpc_client_answered(const qpc_client *client);
/// `data` of that answer; nil if it had none. Borrowed until the next call that fails.
const qpc_value *qpc_client_error_data(const qpc_client *client);
/// Notifications dropped because more than max_kept were waiting.
uint64_t qpc_client_dropped(const qpc_client *client);

// ---- messages ----

typedef enum qpc_message_kind {
    QPC_MESSAGE_NONE,
    QPC_MESSAGE_REPLY,
    QPC_MESSAGE_NOTIFICATION,
} qpc_message_kind;

typedef struct qpc_message {
    qpc_message_kind kind;
    uint32_t id;       // of a reply
    char method[64];   // of a notification
    qpc_status status; // of a reply; other than QPC_OK: error and error_data tell
    qpc_error error;
    const qpc_value *error_data; // NULL or nil if there is none
    const qpc_value *value;      // result, or the map of a notification; never NULL when OK
    void *memory;                // owns all of that
} qpc_message;
/// NULL and zeroed messages are accepted; leaves it zeroed.
void qpc_message_fini(qpc_message *message);

/// Send a request and wait for its answer. params: a map, or NULL for none. ret may be NULL if the
/// result is not wanted.
qpc_status qpc_call(qpc_client *client, const char *method, const qpc_value *params,
                    qpc_message *ret, qpc_error *err);

/// Queue a request and send what goes without waiting.
qpc_status qpc_send(qpc_client *client, const char *method, const qpc_value *params,
                    uint32_t *ret_id, qpc_error *err);
/// The same for a notification (world.control, world.credit): never answered.
qpc_status qpc_notify(qpc_client *client, const char *method, const qpc_value *params,
                      qpc_error *err);
/// Next reply or notification, oldest first; sends what is queued meanwhile. timeout_ms 0: do not
/// wait, < 0: for ever. Nothing in time: QPC_OK with kind QPC_MESSAGE_NONE.
qpc_status qpc_poll(qpc_client *client, int32_t timeout_ms, qpc_message *ret, qpc_error *err);
/// The answer to one request; others are kept. The server's errors come in ret->status.
/// QPC_ERR_DEADLINE: not yet (wait again, or forget it). QPC_ERR_NOT_FOUND: no such request in
/// flight.
qpc_status qpc_wait(qpc_client *client, uint32_t id, int32_t timeout_ms, qpc_message *ret,
                    qpc_error *err);
/// Drop the answer to a request when it comes.
void qpc_forget(qpc_client *client, uint32_t id);

// ---- the methods; each is one qpc_call() ----

typedef struct qpc_server_info {
    char server[64], version[64];
    int32_t protocol;
    uint64_t max_message; // bytes the server accepts in one message; 0: it did not say
} qpc_server_info;
/// name: of this program, for the server's log. token, role ("control", "bulk") and ret may be
/// NULL.
qpc_status qpc_client_hello(qpc_client *client, const char *name, const char *token,
                            const char *role, qpc_server_info *ret, qpc_error *err);

typedef struct qpc_mesh_source {
    const char *name;        // label; may be NULL
    const double *vertices;  // (vertex_count x 3) m
    const int32_t *elements; // (element_count x nodes_per_element)
    int64_t vertex_count, element_count;
    int32_t nodes_per_element; // 2, 3, 4
    /// Called as bytes go out; may be NULL.
    void (*progress)(void *user, uint64_t sent, uint64_t total);
    void *user;
} qpc_mesh_source;

typedef struct qpc_mesh_receipt {
    char sha256[65];
    bool known;          // the server had it already
    uint64_t bytes;      // of the canonical form
    qpc_message message; // the server's answer with its `report`; zeroed if nothing was sent
} qpc_mesh_receipt;
/// Upload a mesh: small ones in one message; larger ones in chunks (of 4 MiB or half the server's
/// limit), and only if the server does not list their hash. The mesh is borrowed for the call.
/// QPC_ERR_INVALID for counts that are not positive. Free ret->message.
qpc_status qpc_client_mesh_upload(qpc_client *client, const qpc_mesh_source *mesh,
                                  qpc_mesh_receipt *ret, qpc_error *err);

typedef struct qpc_world_receipt {
    uint64_t world; // 0 after a dry run
    char run[33];   // "" if it is not recorded
    uint64_t hash;
    qpc_message message; // bodies, warnings, close_pairs
} qpc_world_receipt;
/// scene: wire form. name may be NULL. Free ret->message.
qpc_status qpc_client_world_create(qpc_client *client, const qpc_value *scene, const char *name,
                                   bool dry_run, qpc_world_receipt *ret, qpc_error *err);

typedef struct qpc_step_request { // start from qpc_step_request_default()
    int64_t n;                    // 1
    int64_t expect_step;          // < 0: any
    const char *key;              // idempotency key, NULL: none
    const qpc_value *control;     // NULL: none; borrowed
    bool positions, velocities, contacts;
    bool float64;        // of those arrays; else float32
    int64_t deadline_ms; // 0: none
} qpc_step_request;
qpc_step_request qpc_step_request_default(void);

typedef struct qpc_step_reply {
    int64_t reached;
    char status[16]; // "ok", "failed", "cancelled", "deadline", "draining"
    qpc_error error; // why it failed; QPC_OK if it did not
    uint64_t hash;
    double time;                              // s
    const qpc_value *summary;                 // a map
    const qpc_tensor *positions, *velocities; // NULL if not asked for
    qpc_message message;                      // owns the above
} qpc_step_reply;
/// A batch that stops early is QPC_OK with its status; QPC_ERR_STATE: expect_step did not match.
qpc_status qpc_client_world_step(qpc_client *client, uint64_t world,
                                 const qpc_step_request *request, qpc_step_reply *ret,
                                 qpc_error *err);
/// For asynchronous use: the parameters of world.step, and the reply of one that was sent. Reading
/// moves the message into ret.
qpc_status qpc_step_params(uint64_t world, const qpc_step_request *request, qpc_value *ret,
                           qpc_error *err);
qpc_status qpc_step_reply_read(qpc_message *message, qpc_step_reply *ret, qpc_error *err);

/// fields: NULL-terminated, such as {"positions", "velocities", NULL}; NULL: positions.
qpc_status qpc_client_world_state(qpc_client *client, uint64_t world, const char *const *fields,
                                  bool float64, qpc_message *ret, qpc_error *err);
/// Forces, targets, motions, parameters; ret_step may be NULL.
qpc_status qpc_client_world_control(qpc_client *client, uint64_t world, const qpc_value *control,
                                    int64_t *ret_step, qpc_error *err);
qpc_status qpc_client_world_cancel(qpc_client *client, uint64_t world, bool *ret, qpc_error *err);
qpc_status qpc_client_world_destroy(qpc_client *client, uint64_t world, qpc_error *err);

typedef struct qpc_subscribe_request { // zero-initialised: the defaults
    int64_t every;                     // 0: every step
    const char *const *fields;         // as above
    bool float64;
    int64_t credit;     // frames that may come before world.credit; 0: no limit
    const char *policy; // "drop-oldest", "drop-newest", "latest" (NULL), "close"
    int64_t max_queue;  // 0: the server's default
} qpc_subscribe_request;
/// ret_nodes: nodes in a frame; may be NULL.
qpc_status qpc_client_subscribe(qpc_client *client, uint64_t world,
                                const qpc_subscribe_request *request, uint64_t *ret_subscription,
                                int64_t *ret_nodes, qpc_error *err);
qpc_status qpc_client_unsubscribe(qpc_client *client, uint64_t subscription, qpc_error *err);

typedef struct qpc_frame {
    uint64_t subscription, world, hash;
    int64_t step, dropped;                    // frames left out since the one before
    double time;                              // s
    const qpc_tensor *positions, *velocities; // NULL if not subscribed
    qpc_message message;                      // owns the above; other fields are in its value
} qpc_frame;
/// Next frame of a subscription (0: of any); other messages are kept. kind of ret->message is
/// QPC_MESSAGE_NONE if none came in time. Free ret->message.
qpc_status qpc_client_next_frame(qpc_client *client, uint64_t subscription, int32_t timeout_ms,
                                 qpc_frame *ret, qpc_error *err);

qpc_status qpc_client_run_list(qpc_client *client, qpc_message *ret, qpc_error *err);
/// Frames with from <= step <= to (to < 0: the last), at most limit (0: the server's default).
qpc_status qpc_client_run_frames(qpc_client *client, const char *run, int64_t from, int64_t to,
                                 int64_t limit, bool float64, qpc_message *ret, qpc_error *err);
/// columns: a map of name to tensor. fields: NULL-terminated, NULL: all.
qpc_status qpc_client_run_diagnostics(qpc_client *client, const char *run, int64_t from, int64_t to,
                                      int64_t limit, const char *const *fields, qpc_message *ret,
                                      qpc_error *err);
qpc_status qpc_client_server_stats(qpc_client *client, qpc_message *ret, qpc_error *err);

#ifdef __cplusplus
}
#endif

#endif
