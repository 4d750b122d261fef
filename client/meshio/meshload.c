/// Opening mesh files and choosing the reader. See meshload.h.
#include "client/meshio/meshload.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

typedef qpc_status parser(const void *bytes, size_t size, qpc_mesh_raw *raw, qpc_error *err);

typedef struct format {
    const char *extension;
    qpc_file_kind kind;
    parser *parse; // NULL: TetGen, which has two files or three
} format;

static const format FORMATS[] = {
    {"obj", QPC_FILE_SURFACE, qpc_obj_parse}, {"ply", QPC_FILE_SURFACE, qpc_ply_parse},
    {"off", QPC_FILE_SURFACE, qpc_off_parse}, {"stl", QPC_FILE_SURFACE, qpc_stl_parse},
    {"msh", QPC_FILE_VOLUME, qpc_gmsh_parse}, {"vtk", QPC_FILE_VOLUME, qpc_vtk_parse},
    {"vtu", QPC_FILE_VOLUME, qpc_vtu_parse},  {"mesh", QPC_FILE_VOLUME, qpc_medit_parse},
    {"node", QPC_FILE_VOLUME, NULL},          {"ele", QPC_FILE_VOLUME, NULL},
};

typedef struct file_bytes {
    char *bytes;
    size_t size;
} file_bytes;

qpc_load_limits qpc_load_limits_from(const qpc_mesh_file_limits *given) {
    static const qpc_mesh_file_limits none;
    if (given == NULL) given = &none;
    return (qpc_load_limits){given->max_bytes > 0 ? given->max_bytes : (int64_t)1 << 31,
                             given->max_vertices > 0 ? given->max_vertices : 60000000,
                             given->max_elements > 0 ? given->max_elements : 20000000};
}

const char *qpc_load_extension(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot != NULL && strchr(dot, '/') == NULL ? dot + 1 : "";
}

static const format *format_of(const char *path) {
    const char *extension = qpc_load_extension(path);
    for (size_t i = 0; i < sizeof FORMATS / sizeof *FORMATS; i++)
        if (strcasecmp(extension, FORMATS[i].extension) == 0) return &FORMATS[i];
    return NULL;
}

qpc_file_kind qpc_load_kind(const char *path) {
    const format *f = format_of(path);
    return f != NULL ? f->kind : QPC_FILE_UNKNOWN;
}

qpc_status qpc_load_open(const char *path, const qpc_load_limits *limit, FILE **ret,
                         int64_t *ret_size, qpc_error *err) {
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

qpc_status qpc_load_check_counts(const char *path, uint64_t vertices, uint64_t elements,
                                 const qpc_load_limits *limit, qpc_error *err) {
    if (vertices > (uint64_t)limit->vertices)
        return qpc_fail(err, QPC_ERR_LIMIT,
                        "%s: %llu vertices (corners), the limit (max_vertices) is %lld", path,
                        (unsigned long long)vertices, (long long)limit->vertices);
    if (elements > (uint64_t)limit->elements)
        return qpc_fail(err, QPC_ERR_LIMIT, "%s: %llu elements, the limit (max_elements) is %lld",
                        path, (unsigned long long)elements, (long long)limit->elements);
    return QPC_OK;
}

static qpc_status read_bytes(const char *path, const qpc_load_limits *limit, file_bytes *ret,
                             qpc_error *err) {
    FILE *file = NULL;
    int64_t size = 0;
    qpc_status st = qpc_load_open(path, limit, &file, &size, err);
    if (st != QPC_OK) return st;
    char *bytes = qpc_alloc((size_t)size);
    if (bytes == NULL)
        st = qpc_fail(err, QPC_ERR_MEMORY, "%s: out of memory", path);
    else if (fread(bytes, 1, (size_t)size, file) != (size_t)size)
        st = qpc_fail(err, QPC_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
    fclose(file);
    if (st != QPC_OK) {
        qpc_free(bytes);
        return st;
    }
    *ret = (file_bytes){bytes, (size_t)size};
    return QPC_OK;
}

/// The files NAME.node, NAME.ele and, where it is, NAME.face, of a path that names one of them.
static qpc_status load_tetgen(const char *path, const qpc_load_limits *limit, qpc_mesh_raw *raw,
                              qpc_error *err) {
    static const char *const endings[] = {"node", "ele", "face"};
    file_bytes files[3] = {0};
    size_t stem = (size_t)(qpc_load_extension(path) - path);
    char *other = qpc_alloc(stem + 5);
    qpc_status st = QPC_OK;
    if (other == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "%s: out of memory", path);
    memcpy(other, path, stem);
    for (int i = 0; i < 3 && st == QPC_OK; i++) {
        qpc_error why = {0};
        memcpy(other + stem, endings[i], strlen(endings[i]) + 1);
        bool given = strcasecmp(path + stem, endings[i]) == 0;
        st = read_bytes(given ? path : other, limit, &files[i], &why);
        if (i == 2 && st == QPC_ERR_NOT_FOUND) st = QPC_OK;
        if (st == QPC_ERR_NOT_FOUND && !given)
            st = qpc_fail(err, st, "%s: TetGen's tetrahedra are in two files; %s is not there",
                          path, other);
        else if (st != QPC_OK)
            st = qpc_fail(err, st, "%s", why.message);
    }
    qpc_error why = {0};
    if (st == QPC_OK) {
        st = qpc_tetgen_parse(files[0].bytes, files[0].size, files[1].bytes, files[1].size,
                              files[2].bytes, files[2].size, raw, &why);
        if (st != QPC_OK)
            (void)qpc_fail(err, st, "%s: cannot read the mesh: %s", path, why.message);
    }
    for (int i = 0; i < 3; i++) qpc_free(files[i].bytes);
    qpc_free(other);
    return st;
}

static bool starts_with(const file_bytes *file, const char *word) {
    size_t i = 0, n = strlen(word);
    while (i < file->size && (uint8_t)file->bytes[i] <= ' ') i++;
    return file->size - i >= n && strncasecmp(file->bytes + i, word, n) == 0;
}

qpc_status qpc_load_raw(const char *path, const qpc_load_limits *limit, qpc_mesh_raw *ret,
                        qpc_error *err) {
    const format *f = format_of(path);
    *ret = (qpc_mesh_raw){0};
    if (f == NULL) return qpc_fail(err, QPC_ERR_UNSUPPORTED, "%s: unknown mesh format", path);
    qpc_status st;
    if (f->parse == NULL) {
        st = load_tetgen(path, limit, ret, err);
    } else {
        file_bytes file = {0};
        qpc_error why = {0};
        st = read_bytes(path, limit, &file, err);
        if (st != QPC_OK) return st;
        // Both endings are used for either format.
        parser *parse = f->parse;
        if (parse == qpc_gmsh_parse && starts_with(&file, "MeshVersionFormatted"))
            parse = qpc_medit_parse;
        if (parse == qpc_medit_parse && starts_with(&file, "$")) parse = qpc_gmsh_parse;
        st = parse(file.bytes, file.size, ret, &why);
        if (st != QPC_OK)
            (void)qpc_fail(err, st, "%s: cannot read the mesh: %s", path, why.message);
        qpc_free(file.bytes);
    }
    if (st != QPC_OK) return st;
    uint64_t tets = (uint64_t)ret->tets.count / 4, triangles = (uint64_t)ret->triangles.count / 3;
    return qpc_load_check_counts(path, (uint64_t)qpc_raw_node_count(ret),
                                 tets > triangles ? tets : triangles, limit, err);
}
