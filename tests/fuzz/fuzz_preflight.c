/// Any bytes are a mesh on a coarse lattice, or the canonical bytes of one: pre-flight ends, its lists
/// name what there is, it says the same when asked again, and leaks nothing.
#include "tests/fuzz/fuzz.h"

#include "base/mem.h"
#include "engine/geometry/mesh.h"
#include "engine/preflight/preflight.h"

#include <string.h>

static void check_numbers(const qpc_preflight *r, const qpc_mesh *mesh) {
    for (int kind = 0; kind < QPC_FINDING_COUNT; kind++) {
        const qpc_finding *f = &r->finding[kind];
        const qpc_finding_spec *spec = &qpc_finding_specs[kind];
        FUZZ_CHECK(f->count <= f->total && f->count <= 5 && f->total >= 0);
        FUZZ_CHECK(f->count == 5 || f->count == f->total);
        bool vertex = spec->elements[0] == 'v', edge = spec->elements[0] == 'e';
        for (int32_t i = 0; i < f->count * spec->numbers; i++) {
            bool is_vertex = vertex || (edge && i % 3 < 2);
            int64_t most = is_vertex ? qpc_mesh_vertex_count(mesh) : qpc_mesh_element_count(mesh);
            FUZZ_CHECK(f->items[i] >= 0 && f->items[i] < most);
        }
    }
    FUZZ_CHECK(!r->oriented || r->closed);
    FUZZ_CHECK(r->triangles == 0 || r->euler == r->vertices - r->edges + r->triangles);
}

static void check(const qpc_mesh *mesh) {
    qpc_preflight first, again;
    qpc_error err = {0};
    qpc_preflight_options options = {.list = 5, .max_pairs = 20000};
    qpc_preflight *runs[2] = {&first, &again};
    for (int i = 0; i < 2; i++)
        FUZZ_CHECK(qpc_preflight_run(qpc_mesh_vertices(mesh), qpc_mesh_vertex_count(mesh), qpc_mesh_elements(mesh),
                                     qpc_mesh_element_count(mesh), qpc_mesh_nodes_per_element(mesh), &options,
                                     runs[i], &err) == QPC_OK);
    check_numbers(&first, mesh);
    for (int kind = 0; kind < QPC_FINDING_COUNT; kind++) {
        FUZZ_CHECK(first.finding[kind].total == again.finding[kind].total);
        size_t size = (size_t)first.finding[kind].count * (size_t)qpc_finding_specs[kind].numbers;
        FUZZ_CHECK(size == 0 || memcmp(first.finding[kind].items, again.finding[kind].items,
                                       size * sizeof(int32_t)) == 0);
    }
    qpc_preflight_fini(&first);
    qpc_preflight_fini(&again);
}

/// nodes per element, vertices, three bytes a vertex, then corners.
static qpc_status lattice(const uint8_t *data, size_t size, qpc_mesh **ret, qpc_error *err) {
    if (size < 3) return QPC_ERR_INVALID;
    int32_t nodes = 2 + data[0] % 3, vertices = 1 + data[1] % 64;
    double x[3 * 64];
    int32_t corners[4096];
    size_t at = 2, count = 0;
    for (int32_t i = 0; i < 3 * vertices; i++) x[i] = at < size ? 0.1 * (data[at++] % 7) : 0;
    while (at < size && count < 4092) corners[count++] = data[at++] % vertices;
    return qpc_mesh_create(x, vertices, corners, (int64_t)count / nodes, nodes, NULL, ret, NULL, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int64_t live = qpc_mem_live_blocks();
    qpc_mesh_limits limits = {.max_vertices = 2000, .max_elements = 2000};
    qpc_error err = {0};
    qpc_mesh *mesh = NULL;
    bool canonical = size > 4 && memcmp(data, "QPM1", 4) == 0;
    qpc_status status = canonical ? qpc_mesh_from_canonical(data, size, &limits, &mesh, NULL, &err)
                                  : lattice(data, size, &mesh, &err);
    if (status == QPC_OK) check(mesh);
    qpc_mesh_unref(mesh);
    FUZZ_CHECK(qpc_mem_live_blocks() == live);
    return 0;
}
