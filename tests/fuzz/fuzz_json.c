/// Any bytes are JSON or an error; what was read writes and reads back to an equal tree, and the
/// canonical form of a canonical form is itself.
#include "base/json.h"
#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool held) {
    if (!held) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qpc_error err = {0};
    qpc_value v, again;
    qpc_status status = qpc_json_parse((const char *)data, size, &v, &err);
    must(status == QPC_OK || (status == QPC_ERR_INVALID && err.message[0] != '\0'));
    if (status == QPC_OK) {
        char *text = NULL, *twice = NULL;
        must(qpc_json_write(&v, 0, true, &text, &err) == QPC_OK);
        must(qpc_json_parse(text, strlen(text), &again, &err) == QPC_OK);
        must(qpc_value_equal(&v, &again));
        must(qpc_json_write(&again, 0, true, &twice, &err) == QPC_OK);
        must(strcmp(text, twice) == 0);
        qpc_free(text);
        qpc_free(twice);
        qpc_value_fini(&v);
        qpc_value_fini(&again);
    }
    must(qpc_mem_live_blocks() == 0);
    return 0;
}
