/// What the fuzz targets of mesh files share: whatever the bytes, a reader gives a checked mesh or
/// an error with a message, takes no more memory than the bytes pay for, and leaks nothing.
#ifndef QPC_TESTS_FUZZ_FUZZ_MESH_H
#define QPC_TESTS_FUZZ_FUZZ_MESH_H

#include "base/mem.h"
#include "client/meshio/meshload.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>

static inline void fuzz_check_volume(qpc_mesh_raw *raw) {
    qpc_volume_mesh mesh = {0};
    qpc_volume_report report;
    qpc_error err = {0};
    FUZZ_CHECK(qpc_volume_from_raw(raw, &mesh, &report, &err) == QPC_OK);
    FUZZ_CHECK(mesh.tet_count > 0 && report.flat <= mesh.tet_count);
    FUZZ_CHECK(!(report.volume < 0));
    FUZZ_CHECK((report.first_flat >= 0) == (report.flat > 0));
    for (int32_t i = 0; i < 3 * mesh.surface_count; i++)
        FUZZ_CHECK(mesh.surface[i] >= 0 && mesh.surface[i] < mesh.node_count);
    int32_t removed = -1, before = mesh.node_count;
    FUZZ_CHECK(qpc_volume_mesh_compact(&mesh, &removed, &err) == QPC_OK);
    FUZZ_CHECK(removed == report.unused && mesh.node_count == before - removed);
    for (int32_t i = 0; i < 4 * mesh.tet_count; i++)
        FUZZ_CHECK(mesh.tets[i] >= 0 && mesh.tets[i] < mesh.node_count);
    qpc_volume_mesh_fini(&mesh);
}

/// What a reader left, after it returned st.
static inline void fuzz_check_mesh(qpc_mesh_raw *raw, size_t size, qpc_status st,
                                   const qpc_error *err) {
    int32_t nodes = qpc_raw_node_count(raw);
    FUZZ_CHECK(st == QPC_OK || st == QPC_ERR_INVALID || st == QPC_ERR_LIMIT);
    FUZZ_CHECK(st == QPC_OK || err->message[0] != '\0');
    FUZZ_CHECK(raw->format != NULL);
    // The shortest node is that of a binary VTK file with a byte a coordinate; the shortest
    // triangle a corner more of a polygon, of one byte in a PLY file.
    FUZZ_CHECK((size_t)nodes <= size / 3 && (size_t)raw->tets.count <= 4 * size);
    FUZZ_CHECK((size_t)raw->triangles.count <= 3 * size);
    for (int32_t i = 0; i < 3 * nodes; i++) FUZZ_CHECK(isfinite(raw->nodes.data[i]));
    for (int32_t i = 0; i < raw->tets.count; i++)
        FUZZ_CHECK(raw->tets.data[i] >= 0 && raw->tets.data[i] < nodes);
    for (int32_t i = 0; i < raw->triangles.count; i++)
        FUZZ_CHECK(raw->triangles.data[i] >= 0 && raw->triangles.data[i] < nodes);
    if (st == QPC_OK && raw->tets.count > 0) fuzz_check_volume(raw);
}

typedef qpc_status fuzz_parser(const void *bytes, size_t size, qpc_mesh_raw *raw, qpc_error *err);

static inline int fuzz_mesh(fuzz_parser *parse, const uint8_t *data, size_t size) {
    int64_t live = qpc_mem_live_blocks();
    qpc_mesh_raw raw = {0};
    qpc_error err = {0};
    qpc_status st = parse(data, size, &raw, &err);
    fuzz_check_mesh(&raw, size, st, &err);
    qpc_raw_fini(&raw);
    FUZZ_CHECK(qpc_mem_live_blocks() == live);
    return 0;
}

#endif
