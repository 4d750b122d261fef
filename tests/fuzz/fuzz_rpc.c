/// A connection's bytes as a server reads them: scan, parse, resolve, check params, answer, next
/// message. Every answer is one whole small message of valid text. Nothing leaks.
#include "base/mem.h"
#include "protocol/methods.h"
#include "protocol/rpc.h"
#include "protocol/scan.h"
#include "protocol/text.h"
#include "tests/fuzz/fuzz.h"

static void answer(const qpc_rpc_message *m, const qpc_error *err) {
    qpc_buffer out = {0};
    qpc_rpc_message reply;
    qpc_error reply_err = {0}, back = {0};
    FUZZ_CHECK(err->message[0] != '\0');
    FUZZ_CHECK(qpc_rpc_error(m->id, err, NULL, &out) == QPC_OK);
    FUZZ_CHECK(out.size < 4096);
    FUZZ_CHECK(qpc_rpc_parse(out.data, out.size, &reply, &reply_err) == QPC_OK);
    FUZZ_CHECK(reply.type == QPC_RPC_RESPONSE && reply.id == m->id);
    qpc_error_from_value(&reply.error, &back);
    FUZZ_CHECK(back.status == err->status);
    qpc_rpc_message_fini(&reply);
    qpc_buffer_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qpc_scan_limits limits = qpc_scan_limits_default();
    int64_t live = qpc_mem_live_blocks();
    for (int count = 0; count < 16 && size > 0; count++) {
        qpc_scanner scanner = {0};
        qpc_error err = {0};
        size_t whole = 0;
        if (qpc_scan(&scanner, data, size, &limits, &whole, &err) != QPC_SCAN_WHOLE) break;
        qpc_rpc_message m;
        qpc_status status = qpc_rpc_parse(data, whole, &m, &err);
        FUZZ_CHECK(strnlen(m.method, sizeof m.method) < sizeof m.method);
        FUZZ_CHECK(qpc_utf8_prefix(m.method, strlen(m.method)) == strlen(m.method));
        FUZZ_CHECK(!m.has_id || m.type != QPC_RPC_NOTIFICATION);
        if (status == QPC_OK && m.type != QPC_RPC_RESPONSE) {
            qpc_method method = QPC_METHOD_COUNT;
            FUZZ_CHECK(m.params.kind == QPC_MAP);
            status = qpc_method_resolve(m.method, m.method_known_text, &method, &err);
            if (status == QPC_OK) status = qpc_method_check_params(method, &m.params, &err);
        }
        if (status != QPC_OK) answer(&m, &err);
        if (m.type == QPC_RPC_RESPONSE) {
            qpc_error got = {0};
            qpc_error_from_value(&m.error, &got);
        }
        qpc_rpc_message_fini(&m);
        data += whole;
        size -= whole;
    }
    FUZZ_CHECK(qpc_mem_live_blocks() == live);
    return 0;
}
