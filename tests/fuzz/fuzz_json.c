/// JSON: what was read is written, reads back equal, and is then written to the same text, plain
/// and in the canonical form. Nothing leaks.
#include "base/json.h"
#include "base/mem.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int64_t live = qpc_mem_live_blocks();
    qpc_value v = qpc_nil();
    qpc_error err = {0};
    qpc_status status = qpc_json_parse((const char *)data, size, &v, &err);
    if (status != QPC_OK) {
        FUZZ_CHECK(status == QPC_ERR_INVALID || status == QPC_ERR_LIMIT);
        FUZZ_CHECK(err.message[0] != '\0');
    } else {
        for (int form = 0; form < 3; form++) {
            char *first = NULL, *second = NULL;
            qpc_value back = qpc_nil();
            FUZZ_CHECK(qpc_json_write(&v, form == 1 ? 2 : 0, form == 2, &first, &err) == QPC_OK);
            FUZZ_CHECK(qpc_json_parse(first, strlen(first), &back, &err) == QPC_OK);
            FUZZ_CHECK(qpc_value_equal(&v, &back));
            FUZZ_CHECK(qpc_json_write(&back, form == 1 ? 2 : 0, form == 2, &second, &err) ==
                       QPC_OK);
            FUZZ_CHECK(strcmp(first, second) == 0);
            qpc_free(first);
            qpc_free(second);
            qpc_value_fini(&back);
        }
    }
    qpc_value_fini(&v);
    FUZZ_CHECK(qpc_mem_live_blocks() == live);
    return 0;
}
