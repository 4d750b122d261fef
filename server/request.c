/// Life and replies of requests. See request.h.
#include "server/request.h"

#include "base/mem.h"

qpc_request *qpc_request_create(qpc_method method) {
    qpc_request *request = qpc_calloc(1, sizeof *request);
    if (request == NULL) return NULL;
    request->method = method;
    request->wants_reply = true;
    request->step.expect_step = -1;
    atomic_init(&request->cancel, false);
    return request;
}

void qpc_request_destroy(qpc_request *request) {
    if (request == NULL) return;
    if (!request->params_in_message) qpc_value_fini(&request->params);
    qpc_rpc_message_fini(&request->message);
    if (request->object != NULL && request->free_object != NULL) {
        request->free_object(request->object);
    }
    qpc_buffer_fini(&request->reply);
    qpc_free(request->bytes);
    qpc_free(request);
}

void qpc_request_fail(qpc_request *request, const qpc_error *error, const qpc_value *data) {
    request->failed = true;
    request->reply.size = 0;
    if (!request->wants_reply) return;
    if (qpc_rpc_error(request->id, error, data, &request->reply) != QPC_OK) {
        request->reply.size = 0;
    }
}

void qpc_request_succeed(qpc_request *request, const qpc_value *result, size_t max_message) {
    if (!request->wants_reply) return;
    qpc_error error = {0};
    qpc_status status =
        qpc_rpc_result(request->id, result, request->bin_keys, &request->reply, &error);
    if (status == QPC_OK && max_message > 0 && request->reply.size > max_message) {
        qpc_fail(&error, QPC_ERR_LIMIT,
                 "the reply has %zu bytes: --max-message-bytes is %zu; ask for less at a time",
                 request->reply.size, max_message);
        qpc_buffer_fini(&request->reply);
        status = QPC_ERR_LIMIT;
    }
    if (status != QPC_OK) qpc_request_fail(request, &error, NULL);
}
