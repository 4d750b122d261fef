/// Mesh files by assimp. See meshfile.h.
#include "client/meshio/meshfile.h"

#include <assimp/cimport.h>
#include <assimp/postprocess.h>
#include <assimp/scene.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/mem.h"

enum { NODE_DEPTH_MAX = 64, QPM_HEADER = 24 };

typedef struct limits {
    int64_t bytes, vertices, elements;
} limits;

static qpc_status open_file(const char *path, const limits *limit, FILE **ret, int64_t *ret_size,
                            qpc_error *err) {
    struct stat info;
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        qpc_status status = errno == ENOENT ? QPC_ERR_NOT_FOUND : QPC_ERR_IO;
        return qpc_fail(err, status, "%s: cannot open the mesh file: %s", path,
                        strerror(errno));
    }
    qpc_status status = QPC_OK;
    if (fstat(fileno(file), &info) != 0) {
        status = qpc_fail(err, QPC_ERR_IO, "%s: %s", path, strerror(errno));
    } else if (!S_ISREG(info.st_mode)) {
        status = qpc_fail(err, QPC_ERR_IO, "%s: not a regular file", path);
    } else if (info.st_size > limit->bytes) {
        status = qpc_fail(err, QPC_ERR_LIMIT, "%s: %lld bytes, the limit (max_bytes) is %lld", path,
                          (long long)info.st_size, (long long)limit->bytes);
    } else if (info.st_size == 0) {
        status = qpc_fail(err, QPC_ERR_INVALID, "%s: the mesh file is empty", path);
    }
    if (status != QPC_OK) {
        fclose(file);
        return status;
    }
    *ret = file;
    *ret_size = info.st_size;
    return QPC_OK;
}

// ---- QPM ----

static uint64_t get_little(const uint8_t *bytes, int size) {
    uint64_t v = 0;
    for (int i = size - 1; i >= 0; i--) v = v << 8 | bytes[i];
    return v;
}

static qpc_status check_counts(const char *path, uint64_t vertices, uint64_t elements,
                               const limits *limit, qpc_error *err) {
    if (vertices > (uint64_t)limit->vertices)
        return qpc_fail(err, QPC_ERR_LIMIT,
                        "%s: %llu vertices (corners), the limit (max_vertices) is %lld", path,
                        (unsigned long long)vertices, (long long)limit->vertices);
    if (elements > (uint64_t)limit->elements)
        return qpc_fail(err, QPC_ERR_LIMIT, "%s: %llu elements, the limit (max_elements) is %lld",
                        path, (unsigned long long)elements, (long long)limit->elements);
    return QPC_OK;
}

static qpc_status read_qpm(const char *path, FILE *file, int64_t size, const limits *limit,
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
    qpc_status status = check_counts(path, vertices, elements, limit, err);
    if (status != QPC_OK) return status;
    if ((uint64_t)size != QPM_HEADER + vertices * 24 + elements * nodes * 4)
        return qpc_fail(err, QPC_ERR_INVALID,
                        "%s: %lld bytes do not hold %llu vertices and %llu elements", path,
                        (long long)size, (unsigned long long)vertices,
                        (unsigned long long)elements);
    qpc_mesh_data mesh = {.vertex_count = (int32_t)vertices, .element_count = (int32_t)elements,
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

// ---- assimp ----

/// What is being gathered from assimp's scene. slots is a hash set of vertices by exact position.
typedef struct gather {
    const char *path;
    const struct aiScene *scene;
    const limits *limit;
    qpc_mesh_data mesh;
    int32_t *slots; // vertex or -1; slot_mask + 1 of them
    size_t slot_mask;
    int64_t corners, elements; // counted first, so that memory is taken once
    qpc_mesh_file_report report;
    qpc_error *err;
} gather;

static void transform(const struct aiMatrix4x4 *m, const struct aiVector3D *p, double out[3]) {
    const double x = (double)p->x, y = (double)p->y, z = (double)p->z;
    out[0] = (double)m->a1 * x + (double)m->a2 * y + (double)m->a3 * z + (double)m->a4;
    out[1] = (double)m->b1 * x + (double)m->b2 * y + (double)m->b3 * z + (double)m->b4;
    out[2] = (double)m->c1 * x + (double)m->c2 * y + (double)m->c3 * z + (double)m->c4;
    for (int k = 0; k < 3; k++) out[k] += 0.0; // -0 becomes 0
}

static int32_t find_vertex(gather *g, const double p[3]) {
    uint64_t bits[3], hash = 0x9e3779b97f4a7c15ULL;
    memcpy(bits, p, sizeof bits);
    for (int k = 0; k < 3; k++) {
        hash = (hash ^ bits[k]) * 0xff51afd7ed558ccdULL;
        hash ^= hash >> 32;
    }
    size_t slot = (size_t)hash & g->slot_mask;
    while (g->slots[slot] >= 0) {
        if (memcmp(g->mesh.vertices + 3 * (size_t)g->slots[slot], p, 3 * sizeof *p) == 0) {
            g->report.merged++;
            return g->slots[slot];
        }
        slot = (slot + 1) & g->slot_mask;
    }
    int32_t vertex = g->mesh.vertex_count++;
    memcpy(g->mesh.vertices + 3 * (size_t)vertex, p, 3 * sizeof *p);
    g->slots[slot] = vertex;
    return vertex;
}

static qpc_status take_mesh(gather *g, const struct aiMesh *part, const struct aiMatrix4x4 *place) {
    for (unsigned f = 0; f < part->mNumFaces; f++) {
        const struct aiFace *face = &part->mFaces[f];
        if (face->mNumIndices != 3) {
            if (face->mNumIndices > 3)
                return qpc_fail(g->err, QPC_ERR_INVALID,
                                "%s: face %u with %u corners was not triangulated", g->path, f,
                                face->mNumIndices);
            g->report.skipped++;
            continue;
        }
        int32_t *out = g->mesh.elements + 3 * (size_t)g->mesh.element_count++;
        for (int k = 0; k < 3; k++) {
            unsigned index = face->mIndices[k];
            if (index >= part->mNumVertices)
                return qpc_fail(g->err, QPC_ERR_INVALID, "%s: face %u uses vertex %u of %u",
                                g->path, f, index, part->mNumVertices);
            double p[3];
            transform(place, &part->mVertices[index], p);
            out[k] = find_vertex(g, p);
        }
    }
    return QPC_OK;
}

/// Walk the tree of nodes, counting (slots NULL) or taking.
static qpc_status walk(gather *g, const struct aiNode *node, const struct aiMatrix4x4 *above,
                       int depth) {
    if (depth > NODE_DEPTH_MAX)
        return qpc_fail(g->err, QPC_ERR_LIMIT, "%s: nodes nested deeper than %d", g->path,
                        NODE_DEPTH_MAX);
    struct aiMatrix4x4 place = *above;
    aiMultiplyMatrix4(&place, &node->mTransformation);
    qpc_status status = QPC_OK;
    for (unsigned i = 0; status == QPC_OK && i < node->mNumMeshes; i++) {
        const struct aiMesh *part = g->scene->mMeshes[node->mMeshes[i]];
        if (part->mVertices == NULL) continue;
        if (g->slots != NULL) {
            status = take_mesh(g, part, &place);
        } else {
            g->corners += part->mNumVertices;
            g->elements += part->mNumFaces;
            status = check_counts(g->path, (uint64_t)g->corners, (uint64_t)g->elements, g->limit,
                                  g->err);
        }
    }
    for (unsigned i = 0; status == QPC_OK && i < node->mNumChildren; i++)
        status = walk(g, node->mChildren[i], &place, depth + 1);
    return status;
}

static qpc_status gather_scene(gather *g) {
    struct aiMatrix4x4 identity;
    aiIdentityMatrix4(&identity);
    qpc_status status = walk(g, g->scene->mRootNode, &identity, 0);
    if (status != QPC_OK) return status;
    size_t slots = 16;
    while (slots < 2 * (size_t)g->corners) slots *= 2;
    g->slot_mask = slots - 1;
    g->mesh.nodes_per_element = 3;
    g->mesh.vertices = qpc_alloc_array((size_t)g->corners, 3 * sizeof(double));
    g->mesh.elements = qpc_alloc_array((size_t)g->elements, 3 * sizeof(int32_t));
    g->slots = qpc_alloc_array(slots, sizeof *g->slots);
    if (g->mesh.vertices == NULL || g->mesh.elements == NULL || g->slots == NULL)
        return qpc_fail(g->err, QPC_ERR_MEMORY, "%s: out of memory", g->path);
    memset(g->slots, 0xff, slots * sizeof *g->slots);
    status = walk(g, g->scene->mRootNode, &identity, 0);
    if (status == QPC_OK && g->mesh.element_count == 0)
        status = qpc_fail(g->err, QPC_ERR_INVALID, "%s: the file has no triangle", g->path);
    return status;
}

static qpc_status read_by_assimp(const char *path, const limits *limit, qpc_mesh_data *ret,
                                 qpc_mesh_file_report *report, qpc_error *err) {
    const struct aiScene *scene = aiImportFile(path, aiProcess_Triangulate);
    if (scene == NULL) {
        const char *why = aiGetErrorString();
        return qpc_fail(err, QPC_ERR_INVALID, "%s: cannot read the mesh: %s", path,
                        why != NULL && why[0] != '\0' ? why : "unknown reason");
    }
    gather g = {.path = path, .scene = scene, .limit = limit, .err = err};
    qpc_status status;
    if (scene->mRootNode == NULL || scene->mNumMeshes == 0) {
        status = qpc_fail(err, QPC_ERR_INVALID, "%s: the file has no triangle", path);
    } else {
        status = gather_scene(&g);
    }
    aiReleaseImport(scene);
    qpc_free(g.slots);
    if (status != QPC_OK) {
        qpc_mesh_data_fini(&g.mesh);
        return status;
    }
    *ret = g.mesh;
    *report = g.report;
    return QPC_OK;
}

qpc_status qpc_mesh_file_read(const char *path, const qpc_mesh_file_limits *given,
                              qpc_mesh_data *ret, qpc_mesh_file_report *report, qpc_error *err) {
    static const qpc_mesh_file_limits none;
    if (given == NULL) given = &none;
    limits limit = {given->max_bytes > 0 ? given->max_bytes : (int64_t)1 << 31,
                    given->max_vertices > 0 ? given->max_vertices : 60000000,
                    given->max_elements > 0 ? given->max_elements : 20000000};
    qpc_mesh_file_report ignored;
    if (report == NULL) report = &ignored;
    FILE *file = NULL;
    int64_t size = 0;
    qpc_status status = open_file(path, &limit, &file, &size, err);
    if (status != QPC_OK) return status;
    const char *dot = strrchr(path, '.');
    const char *extension = dot != NULL && strchr(dot, '/') == NULL ? dot + 1 : "";
    static const char *const known[] = {"obj", "stl", "ply", "off"};
    bool by_assimp = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        by_assimp |= strcasecmp(extension, known[i]) == 0;
    if (strcasecmp(extension, "qpm") == 0) {
        *report = (qpc_mesh_file_report){0};
        status = read_qpm(path, file, size, &limit, ret, err);
    } else if (!by_assimp) {
        status = qpc_fail(err, QPC_ERR_UNSUPPORTED,
                          "%s: unknown mesh format; files end in .obj, .stl, .ply, .off or .qpm",
                          path);
    } else {
        status = read_by_assimp(path, &limit, ret, report, err);
    }
    fclose(file);
    return status;
}
