/// The pre-scan: the same answer whole, in two pieces and byte by byte; whole objects are whole at
/// exactly their size; nothing is allocated.
#include "base/mem.h"
#include "protocol/scan.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    // The first byte chooses limits.
    qpc_scan_limits limits = qpc_scan_limits_default();
    size_t split = 0;
    if (size > 0) {
        if (data[0] & 1U) limits.max_depth = 1 + (data[0] >> 4);
        if (data[0] & 2U) limits.max_items = data[0];
        if (data[0] & 4U) limits.max_message = 16 + data[0];
        if (data[0] & 8U) limits.max_key = 4;
        split = data[0] % size;
    }
    for (int part = 0; part < 2; part++) {
        // Once with the limits chosen and the rest of the bytes, once the whole input by the
        // defaults.
        const uint8_t *bytes = data + (part == 0 && size > 0 ? 1 : 0);
        size_t count = size - (size_t)(bytes - data);
        uint64_t allocations = qpc_mem_thread_allocations();
        qpc_scanner a = {0}, b = {0}, c = {0};
        qpc_error err = {0};
        size_t whole = 0, in_pieces = 0, bytewise = 0;
        if (part == 1) limits = qpc_scan_limits_default();
        qpc_scan_outcome outcome = qpc_scan(&a, bytes, count, &limits, &whole, &err);
        FUZZ_CHECK(outcome != QPC_SCAN_WHOLE || (whole > 0 && whole <= count));
        FUZZ_CHECK(outcome != QPC_SCAN_MALFORMED || err.status == QPC_ERR_MALFORMED ||
                   err.status == QPC_ERR_LIMIT);

        qpc_scan_outcome pieces = QPC_SCAN_PARTIAL;
        if (split < count) pieces = qpc_scan(&b, bytes, split, &limits, &in_pieces, NULL);
        if (pieces == QPC_SCAN_PARTIAL)
            pieces = qpc_scan(&b, bytes, count, &limits, &in_pieces, NULL);
        FUZZ_CHECK(pieces == outcome && in_pieces == whole);

        if (count <= 4096) {
            qpc_scan_outcome one = QPC_SCAN_PARTIAL;
            for (size_t n = 1; n <= count && one == QPC_SCAN_PARTIAL; n++) {
                one = qpc_scan(&c, bytes, n, &limits, &bytewise, NULL);
                FUZZ_CHECK(one != QPC_SCAN_WHOLE || n == bytewise);
            }
            FUZZ_CHECK(count == 0 || (one == outcome && bytewise == whole));
        }
        FUZZ_CHECK(qpc_mem_thread_allocations() == allocations);
    }
    return 0;
}
