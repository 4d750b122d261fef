/// What the files of libqpc share. Not installed.
#ifndef QPC_LIBQPC_INTERNAL_H
#define QPC_LIBQPC_INTERNAL_H

#include "client/libqpc/qpc.h"

/// Next kept or coming notification of a method whose map is wanted; others stay. Nothing in time:
/// QPC_OK with kind QPC_MESSAGE_NONE.
qpc_status qpc_client_take_notification(qpc_client *client, const char *method,
                                        bool (*wanted)(void *user, const qpc_value *map),
                                        void *user, int32_t timeout_ms, qpc_message *ret,
                                        qpc_error *err);

/// Bytes that the server accepts in one message, as hello told; 0: not known.
uint64_t qpc_client_server_limit(const qpc_client *client);
void qpc_client_set_server_limit(qpc_client *client, uint64_t bytes);

/// qpc_error of an error map.
void qpc_client_error_read(const qpc_value *map, qpc_error *ret);

#endif
