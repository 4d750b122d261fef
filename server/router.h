/// From a message to its handler, and from what the handler returns to a reply. Loop thread.
///
/// A handler answers at once (result or status), or it lets a request go to a world or to a worker
/// (qpc_call_defer) and returns QPC_OK; the reply then comes with the request.
#ifndef QPC_SERVER_ROUTER_H
#define QPC_SERVER_ROUTER_H

#include "server/server.h"

typedef struct qpc_call {
    qpc_server *server;
    qpc_session *session;
    qpc_method method;
    uint32_t id;
    bool is_request;         // not a notification
    const qpc_value *params; // a map, checked against the method table
    qpc_rpc_message *message;
    uint8_t **bytes; // the message's own buffer, to be taken over; NULL: it lies in the session's
    size_t size, cost; // bytes of the message, and what it takes decoded
    bool deferred; // the reply comes later, or went out already
} qpc_call;

/// ret: the result, nil before. ret_data: data of an error, nil before.
typedef qpc_status (*qpc_handler)(qpc_call *call, qpc_value *ret, qpc_value *ret_data,
                                  qpc_error *err);

/// One message of a session, in the buffer it was read into; cost as by qpc_message_cost().
void qpc_router_handle(qpc_session *session, const uint8_t *at, size_t size, size_t cost);
/// The same for a message that a worker has decoded, with a buffer of its own that may be taken;
/// parsed is what qpc_rpc_parse returned.
void qpc_router_dispatch(qpc_session *session, qpc_rpc_message *message, qpc_status parsed,
                         const qpc_error *parse_error, uint8_t **bytes, size_t size, size_t cost);
/// A request for this call, charged to the session. keep_params: it also gets the params (a copy, or
/// the message with its buffer); call->params must not be used after that. QPC_ERR_BUSY beyond
/// --max-requests-queued.
qpc_status qpc_call_defer(qpc_call *call, bool keep_params, qpc_request **ret, qpc_error *err);
/// Gives a request back that could not be queued.
void qpc_call_undo(qpc_call *call, qpc_request *request);
/// As a job on a worker: work there, then done (may be NULL) on the loop before the reply goes out.
void qpc_call_run(qpc_call *call, qpc_request *request, void (*work)(qpc_request *request),
                  void (*done)(qpc_request *request));
/// Answer now; for results that borrow from what does not outlive the handler.
void qpc_call_reply(qpc_call *call, const qpc_value *result);
/// The world of params.world; notes that it is in use. QPC_ERR_NOT_FOUND; with `change`, QPC_ERR_STATE
/// while another session holds it exclusively.
qpc_status qpc_call_world(qpc_call *call, bool change, qpc_actor **ret, qpc_error *err);

// ---- handlers, one a method ----
#define QPC_HANDLER(name)                                                                          \
    qpc_status name(qpc_call *call, qpc_value *ret, qpc_value *ret_data, qpc_error *err)
QPC_HANDLER(qpc_handle_hello); // handlers_server.c
QPC_HANDLER(qpc_handle_rpc_describe);
QPC_HANDLER(qpc_handle_server_stats);
QPC_HANDLER(qpc_handle_server_drain);
QPC_HANDLER(qpc_handle_mesh_upload); // handlers_mesh.c
QPC_HANDLER(qpc_handle_mesh_list);
QPC_HANDLER(qpc_handle_mesh_get);
QPC_HANDLER(qpc_handle_mesh_delete);
QPC_HANDLER(qpc_handle_mesh_check); // handlers_check.c
QPC_HANDLER(qpc_handle_scene_check);
QPC_HANDLER(qpc_handle_world_create); // handlers_world.c
QPC_HANDLER(qpc_handle_world_list);
QPC_HANDLER(qpc_handle_world_describe);
QPC_HANDLER(qpc_handle_world_destroy);
QPC_HANDLER(qpc_handle_world_step);
QPC_HANDLER(qpc_handle_world_state);
QPC_HANDLER(qpc_handle_world_control);
QPC_HANDLER(qpc_handle_world_cancel);
QPC_HANDLER(qpc_handle_world_subscribe); // handlers_stream.c
QPC_HANDLER(qpc_handle_world_credit);
QPC_HANDLER(qpc_handle_world_unsubscribe);
QPC_HANDLER(qpc_handle_run_list); // handlers_run.c
QPC_HANDLER(qpc_handle_run_describe);
QPC_HANDLER(qpc_handle_run_frames);
QPC_HANDLER(qpc_handle_run_diagnostics);
QPC_HANDLER(qpc_handle_run_details);
QPC_HANDLER(qpc_handle_run_events);

/// handlers_world.c: a world that goes without being asked to (idle limit, owner gone).
void qpc_world_discard(qpc_server *server, qpc_actor *actor, const char *reason);
/// handlers_stream.c: frames of a world for its subscribers; a session's subscriptions end; those
/// of a world end; a session's output has room again.
void qpc_stream_deliver(qpc_server *server, qpc_actor *actor);
void qpc_stream_end_session(qpc_session *session);
void qpc_stream_end_world(qpc_actor *actor);
void qpc_stream_resume(qpc_session *session);

#endif
