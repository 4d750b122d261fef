/// Tetrahedral meshes: orientation, surface, report. See volume.h.
#include "client/meshio/volume.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "client/meshio/meshload.h"

static const char HOW_TO[] =
    "fill a closed surface with tetrahedra first: `tetgen -pq surface.stl` (it also takes .ply and "
    ".off) writes surface.1.node and surface.1.ele; or `gmsh -3 surface.geo -o surface.msh` with, "
    "in surface.geo, Merge \"surface.stl\"; Surface Loop(1) = {1}; Volume(1) = {1};";

void qpc_volume_mesh_fini(qpc_volume_mesh *mesh) {
    if (mesh == NULL) return;
    qpc_free(mesh->nodes);
    qpc_free(mesh->tets);
    qpc_free(mesh->surface);
    qpc_free(mesh->file_surface);
    *mesh = (qpc_volume_mesh){0};
}

// ---- orientation ----

static double six_volumes(const double *nodes, const int32_t *tet) {
    const double *a = nodes + 3 * (size_t)tet[0];
    double e[3][3];
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) e[i][k] = nodes[3 * (size_t)tet[i + 1] + (size_t)k] - a[k];
    return e[0][0] * (e[1][1] * e[2][2] - e[1][2] * e[2][1]) +
           e[0][1] * (e[1][2] * e[2][0] - e[1][0] * e[2][2]) +
           e[0][2] * (e[1][0] * e[2][1] - e[1][1] * e[2][0]);
}

static void orient(qpc_volume_mesh *mesh, qpc_volume_report *report) {
    double six = 0;
    report->first_flat = -1;
    for (int32_t i = 0; i < mesh->tet_count; i++) {
        int32_t *tet = mesh->tets + 4 * (size_t)i;
        double v = six_volumes(mesh->nodes, tet);
        if (v < 0) {
            int32_t swap = tet[2];
            tet[2] = tet[3];
            tet[3] = swap;
            report->flipped++;
            v = -v;
        }
        if (!(v > 0 && isfinite(v))) {
            if (report->flat == 0) report->first_flat = i;
            report->flat++;
            continue;
        }
        six += v;
    }
    report->volume = six / 6;
}

// ---- surface ----
//
// Face f = 4 t + k of tetrahedron t is opposite its corner k. A hash table of the three nodes, in
// rising order, holds the first face that has them; `seen` counts the others.

static void face_corners(const int32_t *tets, int64_t face, int32_t out[3]) {
    // Outward for a positive tetrahedron.
    static const int8_t corners[4][3] = {{1, 2, 3}, {0, 3, 2}, {0, 1, 3}, {0, 2, 1}};
    const int32_t *tet = tets + 4 * (size_t)(face / 4);
    for (int k = 0; k < 3; k++) out[k] = tet[corners[face % 4][k]];
}

static void sorted_corners(const int32_t *tets, int64_t face, int32_t v[3]) {
    int32_t swap;
    face_corners(tets, face, v);
    if (v[0] > v[1]) swap = v[0], v[0] = v[1], v[1] = swap;
    if (v[1] > v[2]) swap = v[1], v[1] = v[2], v[2] = swap;
    if (v[0] > v[1]) swap = v[0], v[0] = v[1], v[1] = swap;
}

static size_t face_hash(const int32_t v[3]) {
    uint64_t h = 0x9e3779b97f4a7c15ULL;
    for (int k = 0; k < 3; k++) {
        h = (h ^ (uint32_t)v[k]) * 0xff51afd7ed558ccdULL;
        h ^= h >> 32;
    }
    return (size_t)h;
}

/// How many tetrahedra have each face, at the first face that it is; 3 stands for more.
static void count_faces(const qpc_volume_mesh *mesh, int32_t *slots, size_t mask, uint8_t *seen) {
    int64_t faces = 4 * (int64_t)mesh->tet_count;
    for (int64_t f = 0; f < faces; f++) {
        int32_t v[3], w[3];
        sorted_corners(mesh->tets, f, v);
        size_t at = face_hash(v) & mask;
        for (; slots[at] >= 0; at = (at + 1) & mask) {
            sorted_corners(mesh->tets, slots[at], w);
            if (memcmp(v, w, sizeof v) == 0) break;
        }
        if (slots[at] < 0) slots[at] = (int32_t)f;
        int64_t first = slots[at];
        if (seen[first] < 3) seen[first]++;
    }
}

static qpc_status make_surface(qpc_volume_mesh *mesh, qpc_volume_report *report, qpc_error *err) {
    size_t faces = 4 * (size_t)mesh->tet_count, slots = 16;
    while (slots < 2 * faces) slots *= 2;
    int32_t *table = qpc_alloc_array(slots, sizeof *table);
    uint8_t *seen = qpc_calloc(faces, 1);
    qpc_status st = QPC_OK;
    if (table != NULL && seen != NULL) {
        memset(table, 0xff, slots * sizeof *table);
        count_faces(mesh, table, slots - 1, seen);
        for (size_t f = 0; f < faces; f++) {
            mesh->surface_count += seen[f] == 1;
            report->crowded += seen[f] == 3;
        }
        mesh->surface = qpc_alloc_array((size_t)mesh->surface_count, 3 * sizeof(int32_t));
    }
    if (mesh->surface == NULL) {
        st = qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    } else {
        int32_t *to = mesh->surface;
        for (size_t f = 0; f < faces; f++)
            if (seen[f] == 1) {
                face_corners(mesh->tets, (int64_t)f, to);
                to += 3;
            }
    }
    qpc_free(table);
    qpc_free(seen);
    return st;
}

// ---- nodes in use ----

/// used[i]: 1 if a tetrahedron has node i. NULL: out of memory.
static uint8_t *nodes_in_use(const qpc_volume_mesh *mesh, int32_t *ret_count) {
    uint8_t *used = qpc_calloc((size_t)mesh->node_count, 1);
    int32_t count = 0;
    if (used == NULL) return NULL;
    for (size_t i = 0; i < 4 * (size_t)mesh->tet_count; i++) {
        count += !used[mesh->tets[i]];
        used[mesh->tets[i]] = 1;
    }
    *ret_count = count;
    return used;
}

static void renumber(int32_t *elements, size_t count, const int32_t *to) {
    for (size_t i = 0; i < count; i++) elements[i] = to[elements[i]];
}

qpc_status qpc_volume_mesh_compact(qpc_volume_mesh *mesh, int32_t *ret_removed, qpc_error *err) {
    int32_t used_count = 0, next = 0, kept = 0;
    uint8_t *used = nodes_in_use(mesh, &used_count);
    int32_t *to = qpc_alloc_array((size_t)mesh->node_count, sizeof *to);
    if (used == NULL || to == NULL) {
        qpc_free(used);
        qpc_free(to);
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    }
    for (int32_t i = 0; i < mesh->node_count; i++) {
        to[i] = used[i] ? next : -1;
        if (used[i]) memmove(mesh->nodes + 3 * (size_t)next++, mesh->nodes + 3 * (size_t)i, 24);
    }
    renumber(mesh->tets, 4 * (size_t)mesh->tet_count, to);
    renumber(mesh->surface, 3 * (size_t)mesh->surface_count, to);
    renumber(mesh->file_surface, 3 * (size_t)mesh->file_surface_count, to);
    for (int32_t i = 0; i < mesh->file_surface_count; i++) {
        const int32_t *v = mesh->file_surface + 3 * (size_t)i;
        if (v[0] >= 0 && v[1] >= 0 && v[2] >= 0)
            memmove(mesh->file_surface + 3 * (size_t)kept++, v, 3 * sizeof *v);
    }
    if (ret_removed != NULL) *ret_removed = mesh->node_count - next;
    mesh->node_count = next;
    mesh->file_surface_count = kept;
    qpc_free(used);
    qpc_free(to);
    return QPC_OK;
}

qpc_status qpc_volume_mesh_skin(const qpc_volume_mesh *mesh, qpc_mesh_data *ret,
                                int32_t **ret_nodes, qpc_error *err) {
    size_t corners = 3 * (size_t)mesh->surface_count;
    int32_t count = 0;
    int32_t *to = qpc_alloc_array((size_t)mesh->node_count, sizeof *to), *nodes = NULL;
    qpc_mesh_data skin = {.nodes_per_element = 3, .element_count = mesh->surface_count};
    if (to == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    memset(to, 0xff, (size_t)mesh->node_count * sizeof *to);
    for (size_t i = 0; i < corners; i++) to[mesh->surface[i]] = 0;
    for (int32_t i = 0; i < mesh->node_count; i++)
        if (to[i] == 0) to[i] = count++;
    skin.vertices = qpc_alloc_array((size_t)count, 3 * sizeof(double));
    skin.elements = qpc_alloc_array(corners, sizeof(int32_t));
    nodes = qpc_alloc_array((size_t)count, sizeof *nodes);
    if (skin.vertices == NULL || skin.elements == NULL || nodes == NULL) {
        qpc_mesh_data_fini(&skin);
        qpc_free(nodes);
        qpc_free(to);
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    }
    for (int32_t i = 0; i < mesh->node_count; i++) {
        if (to[i] < 0) continue;
        memcpy(skin.vertices + 3 * (size_t)to[i], mesh->nodes + 3 * (size_t)i, 24);
        nodes[to[i]] = i;
    }
    for (size_t i = 0; i < corners; i++) skin.elements[i] = to[mesh->surface[i]];
    skin.vertex_count = count;
    qpc_free(to);
    if (ret_nodes != NULL)
        *ret_nodes = nodes;
    else
        qpc_free(nodes);
    *ret = skin;
    return QPC_OK;
}

// ---- reading ----

static qpc_status check_kind(const char *path, qpc_error *err) {
    qpc_file_kind kind = qpc_load_kind(path);
    if (kind == QPC_FILE_SURFACE)
        return qpc_fail(err, QPC_ERR_UNSUPPORTED,
                        "%s: this format holds surfaces, and tetrahedra are wanted; %s", path,
                        HOW_TO);
    if (kind == QPC_FILE_UNKNOWN)
        return qpc_fail(err, QPC_ERR_UNSUPPORTED,
                        "%s: unknown format of tetrahedra; files end in .msh (Gmsh), .vtk, .vtu, "
                        ".node and .ele (TetGen) or .mesh (Medit)",
                        path);
    return QPC_OK;
}

qpc_status qpc_volume_from_raw(qpc_mesh_raw *raw, qpc_volume_mesh *ret, qpc_volume_report *report,
                               qpc_error *err) {
    qpc_volume_report found = {.format = raw->format, .skipped = raw->skipped};
    qpc_volume_mesh mesh = {.nodes = raw->nodes.data,
                            .tets = raw->tets.data,
                            .file_surface = raw->triangles.data,
                            .node_count = qpc_raw_node_count(raw),
                            .tet_count = raw->tets.count / 4,
                            .file_surface_count = raw->triangles.count / 3};
    raw->nodes.data = NULL;
    raw->tets.data = raw->triangles.data = NULL;
    orient(&mesh, &found);
    int32_t used = 0;
    uint8_t *in_use = nodes_in_use(&mesh, &used);
    found.unused = mesh.node_count - used;
    qpc_status st = in_use == NULL ? qpc_fail(err, QPC_ERR_MEMORY, "out of memory")
                                   : make_surface(&mesh, &found, err);
    qpc_free(in_use);
    if (st != QPC_OK) {
        qpc_volume_mesh_fini(&mesh);
        return st;
    }
    *ret = mesh;
    *report = found;
    return QPC_OK;
}

qpc_status qpc_volume_read(const char *path, const qpc_mesh_file_limits *limits,
                           qpc_volume_mesh *ret, qpc_volume_report *report, qpc_error *err) {
    qpc_load_limits limit = qpc_load_limits_from(limits);
    qpc_volume_report found = {0};
    qpc_mesh_raw raw = {0};
    qpc_status st = check_kind(path, err);
    if (st == QPC_OK) st = qpc_load_raw(path, &limit, &raw, err);
    if (st == QPC_OK && raw.tets.count == 0)
        st = qpc_fail(err, QPC_ERR_INVALID, "%s: the file has %d triangles and no tetrahedra; %s",
                      path, raw.triangles.count / 3, HOW_TO);
    if (st == QPC_OK) st = qpc_volume_from_raw(&raw, ret, &found, err);
    qpc_raw_fini(&raw);
    if (st == QPC_OK && report != NULL) *report = found;
    return st;
}
