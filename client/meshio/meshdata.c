/// Mesh arrays, canonical bytes, output. Any thread; no state.
#include "client/meshio/meshdata.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

enum { HEADER_SIZE = 24 };

void qpc_mesh_data_fini(qpc_mesh_data *mesh) {
    if (mesh == NULL) return;
    qpc_free(mesh->vertices);
    qpc_free(mesh->elements);
    *mesh = (qpc_mesh_data){0};
}

static size_t vertex_bytes(const qpc_mesh_data *mesh) {
    return (size_t)mesh->vertex_count * 3 * sizeof(double);
}

static size_t element_bytes(const qpc_mesh_data *mesh) {
    return (size_t)mesh->element_count * (size_t)mesh->nodes_per_element * sizeof(int32_t);
}

size_t qpc_mesh_data_canonical_size(const qpc_mesh_data *mesh) {
    return HEADER_SIZE + vertex_bytes(mesh) + element_bytes(mesh);
}

static void put_little(uint8_t *out, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) out[i] = (uint8_t)(v >> (8 * i));
}

qpc_status qpc_mesh_data_canonical(const qpc_mesh_data *mesh, uint8_t **ret, qpc_error *err) {
    size_t size = qpc_mesh_data_canonical_size(mesh);
    uint8_t *bytes = qpc_alloc(size);
    if (bytes == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory: canonical bytes of a mesh (%zu)",
                        size);
    memcpy(bytes, "QPM1", 4);
    put_little(bytes + 4, (uint64_t)mesh->nodes_per_element, 4);
    put_little(bytes + 8, (uint64_t)mesh->vertex_count, 8);
    put_little(bytes + 16, (uint64_t)mesh->element_count, 8);
    uint8_t *out = bytes + HEADER_SIZE;
    for (size_t i = 0; i < (size_t)mesh->vertex_count * 3; i++, out += 8) {
        double v = mesh->vertices[i] + 0.0; // -0 becomes 0
        uint64_t bits;
        memcpy(&bits, &v, sizeof bits);
        put_little(out, bits, 8);
    }
    size_t count = (size_t)mesh->element_count * (size_t)mesh->nodes_per_element;
    for (size_t i = 0; i < count; i++, out += 4) put_little(out, (uint32_t)mesh->elements[i], 4);
    *ret = bytes;
    return QPC_OK;
}

qpc_status qpc_mesh_data_sha256(const qpc_mesh_data *mesh, char ret[65], qpc_error *err) {
    uint8_t *bytes, hash[32];
    qpc_status status = qpc_mesh_data_canonical(mesh, &bytes, err);
    if (status != QPC_OK) return status;
    status = qpc_sha256_of(bytes, qpc_mesh_data_canonical_size(mesh), hash, err);
    qpc_free(bytes);
    if (status == QPC_OK) qpc_hex_encode(hash, sizeof hash, ret);
    return status;
}

static double tetrahedra_volume(const qpc_mesh_data *mesh) {
    double six = 0;
    for (int32_t t = 0; t < mesh->element_count; t++) {
        const int32_t *v = mesh->elements + 4 * (size_t)t;
        const double *o = mesh->vertices + 3 * (size_t)v[0];
        double e[3][3];
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < 3; k++) e[i][k] = mesh->vertices[3 * (size_t)v[i + 1] + k] - o[k];
        six += e[0][0] * (e[1][1] * e[2][2] - e[1][2] * e[2][1]) +
               e[0][1] * (e[1][2] * e[2][0] - e[1][0] * e[2][2]) +
               e[0][2] * (e[1][0] * e[2][1] - e[1][1] * e[2][0]);
    }
    return six / 6;
}

double qpc_mesh_data_volume(const qpc_mesh_data *mesh) {
    if (mesh->nodes_per_element == 4) return tetrahedra_volume(mesh);
    if (mesh->nodes_per_element != 3) return 0;
    double six = 0;
    for (int32_t f = 0; f < mesh->element_count; f++) {
        const int32_t *e = mesh->elements + 3 * (size_t)f;
        const double *a = mesh->vertices + 3 * (size_t)e[0];
        const double *b = mesh->vertices + 3 * (size_t)e[1];
        const double *c = mesh->vertices + 3 * (size_t)e[2];
        six += a[0] * (b[1] * c[2] - b[2] * c[1]) + a[1] * (b[2] * c[0] - b[0] * c[2]) +
               a[2] * (b[0] * c[1] - b[1] * c[0]);
    }
    return six / 6;
}

static qpc_status check_stream(FILE *out, qpc_error *err) {
    if (fflush(out) == 0 && !ferror(out)) return QPC_OK;
    return qpc_fail(err, QPC_ERR_IO, "cannot write the mesh: %s", strerror(errno));
}

qpc_status qpc_mesh_data_write_obj(const qpc_mesh_data *mesh, const char *comment, FILE *out,
                                   qpc_error *err) {
    if (mesh->nodes_per_element != 2 && mesh->nodes_per_element != 3)
        return qpc_fail(err, QPC_ERR_UNSUPPORTED,
                        "OBJ holds edges and triangles; elements here have %d nodes",
                        mesh->nodes_per_element);
    if (comment != NULL) fprintf(out, "# %s\n", comment);
    for (int32_t i = 0; i < mesh->vertex_count; i++) {
        const double *v = mesh->vertices + 3 * (size_t)i;
        fprintf(out, "v %.17g %.17g %.17g\n", v[0] + 0.0, v[1] + 0.0, v[2] + 0.0);
    }
    for (int32_t i = 0; i < mesh->element_count; i++) {
        const int32_t *e = mesh->elements + (size_t)mesh->nodes_per_element * (size_t)i;
        if (mesh->nodes_per_element == 3) {
            fprintf(out, "f %d %d %d\n", e[0] + 1, e[1] + 1, e[2] + 1);
        } else {
            fprintf(out, "l %d %d\n", e[0] + 1, e[1] + 1);
        }
    }
    return check_stream(out, err);
}

qpc_status qpc_mesh_data_write_qpm(const qpc_mesh_data *mesh, FILE *out, qpc_error *err) {
    uint8_t *bytes;
    qpc_status status = qpc_mesh_data_canonical(mesh, &bytes, err);
    if (status != QPC_OK) return status;
    size_t size = qpc_mesh_data_canonical_size(mesh);
    if (fwrite(bytes, 1, size, out) != size)
        status = qpc_fail(err, QPC_ERR_IO, "cannot write the mesh: %s", strerror(errno));
    qpc_free(bytes);
    return status == QPC_OK ? check_stream(out, err) : status;
}
