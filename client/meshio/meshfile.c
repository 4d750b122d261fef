/// Mesh files by assimp. See meshfile.h.
#include "client/meshio/meshfile.h"

#include <assimp/cimport.h>
#include <assimp/postprocess.h>
#include <assimp/scene.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "client/meshio/objtext.h"

enum { NODE_DEPTH_MAX = 64, QPM_HEADER = 24, CHILD_CPU_S = 600 };

typedef struct limits {
    int64_t bytes, vertices, elements;
} limits;

static qpc_status open_file(const char *path, const limits *limit, FILE **ret, int64_t *ret_size,
                            qpc_error *err) {
    struct stat info;
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        qpc_status status = errno == ENOENT ? QPC_ERR_NOT_FOUND : QPC_ERR_IO;
        return qpc_fail(err, status, "%s: cannot open the mesh file: %s", path, strerror(errno));
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

// ---- assimp, in a child process ----
//
// The child imports the file and writes a head and then the corners of every triangle, in order, to
// a pipe; the parent puts them together. What assimp cannot stand (there are files that crash it)
// ends the child only.

typedef struct stream_head {
    int32_t status;
    char message[400];
    int64_t triangles, corners, skipped;
} stream_head;

enum { BATCH = 256, TRIANGLE_NUMBERS = 9 };

/// In the child: what is being walked.
typedef struct emitter {
    const struct aiScene *scene;
    int fd;
    stream_head head;
    double batch[BATCH * TRIANGLE_NUMBERS];
    int32_t batch_count;
    bool counting;
} emitter;

static bool write_all(int fd, const void *bytes, size_t size) {
    const char *p = bytes;
    while (size > 0) {
        ssize_t n = write(fd, p, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

static bool flush_batch(emitter *e) {
    size_t size = (size_t)e->batch_count * TRIANGLE_NUMBERS * sizeof(double);
    e->batch_count = 0;
    return write_all(e->fd, e->batch, size);
}

static void child_fails(emitter *e, qpc_status status, const char *message) {
    if (e->head.status != QPC_OK) return;
    e->head.status = status;
    snprintf(e->head.message, sizeof e->head.message, "%s", message);
}

static void transform(const struct aiMatrix4x4 *m, const struct aiVector3D *p, double out[3]) {
    const double x = (double)p->x, y = (double)p->y, z = (double)p->z;
    out[0] = (double)m->a1 * x + (double)m->a2 * y + (double)m->a3 * z + (double)m->a4;
    out[1] = (double)m->b1 * x + (double)m->b2 * y + (double)m->b3 * z + (double)m->b4;
    out[2] = (double)m->c1 * x + (double)m->c2 * y + (double)m->c3 * z + (double)m->c4;
    for (int k = 0; k < 3; k++) out[k] += 0.0; // -0 becomes 0
}

static bool emit_mesh(emitter *e, const struct aiMesh *part, const struct aiMatrix4x4 *place) {
    if (e->counting) e->head.corners += part->mNumVertices;
    for (unsigned f = 0; f < part->mNumFaces; f++) {
        const struct aiFace *face = &part->mFaces[f];
        if (face->mNumIndices > 3)
            child_fails(e, QPC_ERR_INVALID, "a polygon was not triangulated");
        if (face->mNumIndices != 3) {
            if (e->counting) e->head.skipped++;
            continue;
        }
        for (int k = 0; k < 3; k++)
            if (face->mIndices[k] >= part->mNumVertices)
                child_fails(e, QPC_ERR_INVALID, "a face uses a vertex that is not there");
        if (e->head.status != QPC_OK) return false;
        if (e->counting) {
            e->head.triangles++;
            continue;
        }
        double *out = e->batch + TRIANGLE_NUMBERS * e->batch_count++;
        for (int k = 0; k < 3; k++)
            transform(place, &part->mVertices[face->mIndices[k]], out + 3 * k);
        if (e->batch_count == BATCH && !flush_batch(e)) return false;
    }
    return true;
}

/// Walk the tree of nodes, counting or writing.
static bool emit_node(emitter *e, const struct aiNode *node, const struct aiMatrix4x4 *above,
                      int depth) {
    if (depth > NODE_DEPTH_MAX) {
        child_fails(e, QPC_ERR_LIMIT, "nodes are nested too deep");
        return false;
    }
    struct aiMatrix4x4 place = *above;
    aiMultiplyMatrix4(&place, &node->mTransformation);
    for (unsigned i = 0; i < node->mNumMeshes; i++) {
        const struct aiMesh *part = e->scene->mMeshes[node->mMeshes[i]];
        if (part->mVertices != NULL && !emit_mesh(e, part, &place)) return false;
    }
    for (unsigned i = 0; i < node->mNumChildren; i++)
        if (!emit_node(e, node->mChildren[i], &place, depth + 1)) return false;
    return true;
}

/// text: an OBJ file's, or NULL: the file itself.
_Noreturn static void read_in_child(const char *path, const char *text, unsigned size, int fd) {
    static emitter e; // large; the child has its own
    static const int ours[] = {SIGINT, SIGTERM, SIGPIPE, SIGSEGV, SIGABRT, SIGBUS, SIGFPE};
    const struct rlimit no_core = {0, 0}, cpu = {CHILD_CPU_S, CHILD_CPU_S};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) signal(ours[i], SIG_DFL);
    setrlimit(RLIMIT_CORE, &no_core);
    setrlimit(RLIMIT_CPU, &cpu);
    // What libraries print while they crash is of no use to anyone.
    int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nothing >= 0) dup2(nothing, STDERR_FILENO);
    e.fd = fd;
    e.counting = true;
    e.scene = text != NULL ? aiImportFileFromMemory(text, size, aiProcess_Triangulate, "obj")
                           : aiImportFile(path, aiProcess_Triangulate);
    struct aiMatrix4x4 identity;
    aiIdentityMatrix4(&identity);
    if (e.scene == NULL) {
        const char *why = aiGetErrorString();
        child_fails(&e, QPC_ERR_INVALID, why != NULL && why[0] != '\0' ? why : "unknown reason");
    } else if (e.scene->mRootNode != NULL) {
        emit_node(&e, e.scene->mRootNode, &identity, 0);
    }
    bool going = write_all(fd, &e.head, sizeof e.head) && e.head.status == QPC_OK;
    e.counting = false;
    if (going && e.scene->mRootNode != NULL && emit_node(&e, e.scene->mRootNode, &identity, 0))
        flush_batch(&e);
    _exit(0);
}

/// In the parent: the mesh that comes through the pipe. slots is a hash set of vertices by exact
/// position.
typedef struct gather {
    qpc_mesh_data mesh;
    int32_t *slots; // vertex or -1; slot_mask + 1 of them
    size_t slot_mask;
    int64_t vertex_capacity, merged;
} gather;

/// -1: more vertices than the child announced.
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
            g->merged++;
            return g->slots[slot];
        }
        slot = (slot + 1) & g->slot_mask;
    }
    if (g->mesh.vertex_count >= g->vertex_capacity) return -1;
    int32_t vertex = g->mesh.vertex_count++;
    memcpy(g->mesh.vertices + 3 * (size_t)vertex, p, 3 * sizeof *p);
    g->slots[slot] = vertex;
    return vertex;
}

static bool read_all(int fd, void *bytes, size_t size) {
    char *p = bytes;
    while (size > 0) {
        ssize_t n = read(fd, p, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

static qpc_status gather_init(gather *g, const stream_head *head) {
    size_t slots = 16;
    while (slots < 2 * (size_t)head->corners) slots *= 2;
    g->slot_mask = slots - 1;
    g->vertex_capacity = head->corners;
    g->mesh.nodes_per_element = 3;
    g->mesh.vertices = qpc_alloc_array((size_t)head->corners, 3 * sizeof(double));
    g->mesh.elements = qpc_alloc_array((size_t)head->triangles, 3 * sizeof(int32_t));
    g->slots = qpc_alloc_array(slots, sizeof *g->slots);
    if (g->mesh.vertices == NULL || g->mesh.elements == NULL || g->slots == NULL)
        return QPC_ERR_MEMORY;
    memset(g->slots, 0xff, slots * sizeof *g->slots);
    return QPC_OK;
}

/// Everything that comes through the pipe. QPC_ERR_CORRUPT: it ended too early; the caller knows
/// why.
static qpc_status gather_stream(gather *g, int fd, const char *path, const limits *limit,
                                qpc_mesh_file_report *report, qpc_error *err) {
    stream_head head;
    double batch[BATCH * TRIANGLE_NUMBERS];
    if (!read_all(fd, &head, sizeof head)) return QPC_ERR_CORRUPT;
    head.message[sizeof head.message - 1] = '\0';
    if (head.status != QPC_OK)
        return qpc_fail(err, (qpc_status)head.status, "%s: cannot read the mesh: %s", path,
                        head.message);
    if (head.triangles <= 0 || head.corners <= 0)
        return qpc_fail(err, QPC_ERR_INVALID, "%s: the file has no triangle", path);
    qpc_status status =
        check_counts(path, (uint64_t)head.corners, (uint64_t)head.triangles, limit, err);
    if (status != QPC_OK) return status;
    if (gather_init(g, &head) != QPC_OK)
        return qpc_fail(err, QPC_ERR_MEMORY, "%s: out of memory", path);
    for (int64_t left = head.triangles; left > 0;) {
        int32_t n = left < BATCH ? (int32_t)left : BATCH;
        if (!read_all(fd, batch, (size_t)n * TRIANGLE_NUMBERS * sizeof *batch))
            return QPC_ERR_CORRUPT;
        for (int32_t i = 0; i < 3 * n; i++) {
            int32_t vertex = find_vertex(g, batch + 3 * i);
            if (vertex < 0) return QPC_ERR_CORRUPT;
            g->mesh.elements[3 * (size_t)g->mesh.element_count + (size_t)(i % 3)] = vertex;
            if (i % 3 == 2) g->mesh.element_count++;
        }
        left -= n;
    }
    report->merged = g->merged;
    report->skipped = head.skipped;
    return QPC_OK;
}

static qpc_status read_by_assimp(const char *path, const char *text, size_t size, const limits *limit,
                                 qpc_mesh_data *ret, qpc_mesh_file_report *report, qpc_error *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return qpc_fail(err, QPC_ERR_IO, "%s: cannot make a pipe: %s", path, strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        read_in_child(path, text, (unsigned)size, ends[1]);
    }
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return qpc_fail(err, QPC_ERR_IO, "%s: cannot start a reader: %s", path, strerror(errno));
    }
    gather g = {0};
    qpc_mesh_file_report found = {0};
    qpc_status status = gather_stream(&g, ends[0], path, limit, &found, err);
    close(ends[0]); // ends a child that still writes
    int state = 0;
    while (waitpid(child, &state, 0) < 0 && errno == EINTR) continue;
    if (status == QPC_ERR_CORRUPT)
        status = qpc_fail(err, QPC_ERR_INVALID,
                          "%s: cannot read the mesh: the reader gave up on it (%s %d)", path,
                          WIFSIGNALED(state) ? "signal" : "exit code",
                          WIFSIGNALED(state) ? WTERMSIG(state) : WEXITSTATUS(state));
    qpc_free(g.slots);
    if (status != QPC_OK) {
        qpc_mesh_data_fini(&g.mesh);
        return status;
    }
    *ret = g.mesh;
    *report = found;
    return QPC_OK;
}

/// An OBJ file, its text set right first.
static qpc_status read_obj(const char *path, FILE *file, size_t size, const limits *limit, qpc_mesh_data *ret,
                           qpc_mesh_file_report *report, qpc_error *err) {
    char *text = qpc_alloc(size), *right = NULL;
    qpc_error why = {0};
    qpc_status st = QPC_OK;
    if (text == NULL)
        st = qpc_fail(err, QPC_ERR_MEMORY, "%s: out of memory", path);
    else if (fread(text, 1, size, file) != size)
        st = qpc_fail(err, QPC_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
    else if ((st = qpc_obj_text(text, size, &right, &size, &why)) != QPC_OK)
        (void)qpc_fail(err, st, "%s: cannot read the mesh: %s", path, why.message);
    qpc_free(text);
    if (st == QPC_OK)
        st = size <= UINT_MAX ? read_by_assimp(path, right, size, limit, ret, report, err)
                              : qpc_fail(err, QPC_ERR_LIMIT, "%s: the text is too long", path);
    qpc_free(right);
    return st;
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
    static const char *const known[] = {"stl", "ply", "off"};
    bool by_assimp = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        by_assimp |= strcasecmp(extension, known[i]) == 0;
    if (strcasecmp(extension, "qpm") == 0) {
        *report = (qpc_mesh_file_report){0};
        status = read_qpm(path, file, size, &limit, ret, err);
    } else if (strcasecmp(extension, "obj") == 0) {
        status = read_obj(path, file, (size_t)size, &limit, ret, report, err);
    } else if (!by_assimp) {
        status =
            qpc_fail(err, QPC_ERR_UNSUPPORTED,
                     "%s: unknown mesh format; files end in .obj, .stl, .ply, .off or .qpm", path);
    } else {
        status = read_by_assimp(path, NULL, 0, &limit, ret, report, err);
    }
    fclose(file);
    return status;
}
