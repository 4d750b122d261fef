/// STL files. See fuzz_mesh.h.
#include "tests/fuzz/fuzz_mesh.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_mesh(qpc_stl_parse, data, size);
}
