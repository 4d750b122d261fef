/// Scan, decode, encode, decode: what was decoded can be encoded, reads back, and is then written
/// to the same bytes, with array keys either way. Nothing leaks.
#include "base/mem.h"
#include "protocol/codec.h"
#include "protocol/scan.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qpc_scan_limits limits = qpc_scan_limits_default();
    qpc_scanner scanner = {0};
    qpc_error err = {0};
    size_t whole = 0;
    int64_t live = qpc_mem_live_blocks();
    qpc_scan_outcome outcome = qpc_scan(&scanner, data, size, &limits, &whole, &err);
    qpc_value v = qpc_nil();
    if (outcome != QPC_SCAN_WHOLE) {
        // Bytes that did not pass are not decoded either.
        qpc_status status = qpc_decode(data, size, &v, &err);
        FUZZ_CHECK(status != QPC_OK || err.status == QPC_ERR_LIMIT);
        qpc_value_fini(&v);
        FUZZ_CHECK(qpc_mem_live_blocks() == live);
        return 0;
    }
    qpc_status status = qpc_decode(data, whole, &v, &err);
    FUZZ_CHECK(status == QPC_OK || status == QPC_ERR_INVALID);
    if (status == QPC_OK) {
        for (int bin_keys = 0; bin_keys < 2; bin_keys++) {
            qpc_buffer first = {0}, second = {0};
            qpc_value back = qpc_nil();
            FUZZ_CHECK(qpc_encode(&v, bin_keys != 0, &first, &err) == QPC_OK);
            FUZZ_CHECK(qpc_decode(first.data, first.size, &back, &err) == QPC_OK);
            FUZZ_CHECK(qpc_encode(&back, bin_keys != 0, &second, &err) == QPC_OK);
            FUZZ_CHECK(first.size == second.size &&
                       memcmp(first.data, second.data, first.size) == 0);
            qpc_value_fini(&back);
            qpc_buffer_fini(&first);
            qpc_buffer_fini(&second);
        }
    }
    qpc_value_fini(&v);
    FUZZ_CHECK(qpc_mem_live_blocks() == live);
    return 0;
}
