/// Mesh files: QPM, and what the readers of the other formats give. See meshfile.h.
#include "client/meshio/meshfile.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "client/meshio/meshload.h"
#include "client/meshio/weld.h"

enum { QPM_HEADER = 24 };

// ---- QPM ----

static uint64_t get_little(const uint8_t *bytes, int size) {
    uint64_t v = 0;
    for (int i = size - 1; i >= 0; i--) v = v << 8 | bytes[i];
    return v;
}

static qpc_status read_qpm(const char *path, FILE *file, int64_t size, const qpc_load_limits *limit,
                           qpc_mesh_data *ret, qpc_error *err) {
    uint8_t head[QPM_HEADER];
    if (size < QPM_HEADER || fread(head, 1, sizeof head, file) != sizeof head ||
        memcmp(head, "QPM1", 4) != 0)
        return qpc_fail(err, QPC_ERR_INVALID, "%s: not a QPM1 file", path);
    uint64_t nodes = get_little(head + 4, 4);
    uint64_t vertices = get_little(head + 8, 8), elements = get_little(head + 16, 8);
    if (nodes < 2 || nodes > 4)
        return qpc_fail(err, QPC_ERR_INVALID, "%s: %llu nodes per element; 2, 3 or 4", path,
                        (unsigned long long)nodes);
    qpc_status status = qpc_load_check_counts(path, vertices, elements, limit, err);
    if (status != QPC_OK) return status;
    if ((uint64_t)size != QPM_HEADER + vertices * 24 + elements * nodes * 4)
        return qpc_fail(
            err, QPC_ERR_INVALID, "%s: %lld bytes do not hold %llu vertices and %llu elements",
            path, (long long)size, (unsigned long long)vertices, (unsigned long long)elements);
    qpc_mesh_data mesh = {.vertex_count = (int32_t)vertices,
                          .element_count = (int32_t)elements,
                          .nodes_per_element = (int32_t)nodes};
    mesh.vertices = qpc_alloc_array((size_t)vertices, 3 * sizeof(double));
    mesh.elements = qpc_alloc_array((size_t)elements, nodes * sizeof(int32_t));
    if (mesh.vertices == NULL || mesh.elements == NULL) {
        status = qpc_fail(err, QPC_ERR_MEMORY, "%s: out of memory", path);
    } else if (fread(mesh.vertices, 24, (size_t)vertices, file) != vertices ||
               fread(mesh.elements, 4 * nodes, (size_t)elements, file) != elements) {
        status = qpc_fail(err, QPC_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
    }
    if (status != QPC_OK) {
        qpc_mesh_data_fini(&mesh);
        return status;
    }
    *ret = mesh;
    return QPC_OK;
}

// ---- the other formats ----

static qpc_status find_unused(const char *path, const qpc_mesh_raw *raw, qpc_mesh_file_report *report, qpc_error *err) {
    int64_t count = qpc_raw_node_count(raw);
    uint8_t *used = qpc_calloc((size_t)count + 1, 1);
    if (used == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "%s: out of memory", path);
    for (int32_t i = 0; i < raw->triangles.count; i++) used[raw->triangles.data[i]] = 1;
    for (int64_t v = 0; v < count; v++) {
        if (used[v]) continue;
        if (report->unused < QPC_MESH_FILE_NAMED) report->unused_first[report->unused] = (int32_t)v;
        report->unused++;
    }
    qpc_free(used);
    return QPC_OK;
}

/// Triangles of a raw mesh: vertices in the order of their first use, merged where they are at one
/// position.
static qpc_status take_triangles(const char *path, const qpc_mesh_raw *raw, qpc_mesh_data *ret,
                                 qpc_mesh_file_report *report, qpc_error *err) {
    qpc_weld weld = {0};
    qpc_status st = QPC_OK;
    if (raw->triangles.count == 0)
        return qpc_fail(err, QPC_ERR_INVALID, "%s: the file has no triangle", path);
    int32_t *elements = qpc_alloc_array((size_t)raw->triangles.count, sizeof *elements);
    if (elements == NULL || qpc_weld_init(&weld, qpc_raw_node_count(raw)) != QPC_OK)
        st = qpc_fail(err, QPC_ERR_MEMORY, "%s: out of memory", path);
    for (int32_t i = 0; i < raw->triangles.count && st == QPC_OK; i++) {
        const double *x = raw->nodes.data + 3 * (size_t)raw->triangles.data[i];
        elements[i] = qpc_weld_find(&weld, x); // there is room for all nodes
    }
    *report = (qpc_mesh_file_report){.merged = weld.merged, .skipped = raw->skipped};
    if (st == QPC_OK) st = find_unused(path, raw, report, err);
    if (st == QPC_OK) {
        *ret = (qpc_mesh_data){.vertices = weld.vertices,
                               .elements = elements,
                               .vertex_count = weld.count,
                               .element_count = raw->triangles.count / 3,
                               .nodes_per_element = 3};
        weld.vertices = NULL;
        elements = NULL;
    }
    qpc_free(elements);
    qpc_weld_fini(&weld);
    return st;
}

/// Tetrahedra, by the way of volume.h.
static qpc_status take_tets(qpc_mesh_raw *raw, qpc_mesh_data *ret, qpc_mesh_file_report *report,
                            qpc_error *err) {
    qpc_volume_mesh volume = {0};
    qpc_volume_report found;
    qpc_status st = qpc_volume_from_raw(raw, &volume, &found, err);
    if (st != QPC_OK) return st;
    *ret = (qpc_mesh_data){.vertices = volume.nodes,
                           .elements = volume.tets,
                           .vertex_count = volume.node_count,
                           .element_count = volume.tet_count,
                           .nodes_per_element = 4};
    *report = (qpc_mesh_file_report){.skipped = found.skipped};
    volume.nodes = NULL;
    volume.tets = NULL;
    qpc_volume_mesh_fini(&volume);
    return QPC_OK;
}

static qpc_status read_other(const char *path, const qpc_load_limits *limit, qpc_mesh_data *ret,
                           qpc_mesh_file_report *report, qpc_error *err) {
    qpc_mesh_raw raw = {0};
    qpc_status st = qpc_load_raw(path, limit, &raw, err);
    if (st == QPC_OK)
        st = raw.tets.count > 0 ? take_tets(&raw, ret, report, err)
                                : take_triangles(path, &raw, ret, report, err);
    qpc_raw_fini(&raw);
    return st;
}

qpc_status qpc_mesh_file_read(const char *path, const qpc_mesh_file_limits *given,
                              qpc_mesh_data *ret, qpc_mesh_file_report *report, qpc_error *err) {
    qpc_load_limits limit = qpc_load_limits_from(given);
    qpc_mesh_file_report ignored;
    if (report == NULL) report = &ignored;
    const char *extension = qpc_load_extension(path);
    if (qpc_load_kind(path) != QPC_FILE_UNKNOWN)
        return read_other(path, &limit, ret, report, err);
    FILE *file = NULL;
    int64_t size = 0;
    qpc_status status = qpc_load_open(path, &limit, &file, &size, err);
    if (status != QPC_OK) return status;
    if (strcasecmp(extension, "qpm") == 0) {
        *report = (qpc_mesh_file_report){0};
        status = read_qpm(path, file, size, &limit, ret, err);
    } else {
        status = qpc_fail(err, QPC_ERR_UNSUPPORTED,
                          "%s: unknown mesh format; files end in .obj, .stl, .ply, .off or .qpm, "
                          "those of tetrahedra in .msh, .vtk, .vtu, .node, .ele or .mesh",
                          path);
    }
    fclose(file);
    return status;
}
