/// TetGen's files, in one: the .node file up to a line "#ele", the .ele file up to a line "#face", and
/// a .face file behind it. See fuzz_mesh.h.
#include "tests/fuzz/fuzz_mesh.h"

static qpc_status parse(const void *bytes, size_t size, qpc_mesh_raw *raw, qpc_error *err) {
    const char *start = bytes, *end = start + size;
    const char *ele = size > 0 ? memmem(start, size, "#ele\n", 5) : NULL;
    if (ele == NULL) ele = end;
    const char *face = ele < end ? memmem(ele, (size_t)(end - ele), "#face\n", 6) : NULL;
    size_t faces = face != NULL ? (size_t)(end - face) : 0;
    return qpc_tetgen_parse(start, (size_t)(ele - start), ele,
                            (size_t)((face != NULL ? face : end) - ele), face, faces, raw, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_mesh(parse, data, size);
}
