/// Mesh index, cache and users. See meshes.h.
///
/// One lock guards the index; it is never held while the catalogue is read or written, so that the
/// loop never waits for a disk.
#include "server/meshes.h"

#include "base/array.h"
#include "base/hash.h"
#include "base/mem.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct entry {
    qpc_catalog_mesh info;
    qpc_mesh *mesh; // decoded, or NULL; a reference of ours
    int32_t users;  // live worlds
    uint64_t used;  // when last asked for
} entry;

struct qpc_meshes {
    pthread_mutex_t lock;
    qpc_writer *writer;
    qpc_meshes_options options;
    QPC_ARRAY(entry) entries; // oldest first
    int64_t bytes;            // of all entries and of those being stored
    int64_t storing;          // meshes being stored
    int64_t cached;           // bytes of decoded ones
    uint64_t clock;
};

static entry *find_locked(qpc_meshes *meshes, const uint8_t sha256[32]) {
    for (int32_t i = 0; i < meshes->entries.count; i++) {
        if (memcmp(meshes->entries.data[i].info.sha256, sha256, 32) == 0) {
            return &meshes->entries.data[i];
        }
    }
    return NULL;
}

static void drop_decoded_locked(qpc_meshes *meshes, entry *e) {
    if (e->mesh == NULL) return;
    meshes->cached -= e->info.bytes;
    qpc_mesh_unref(e->mesh);
    e->mesh = NULL;
}

/// Keep the decoded mesh; drop the least recently used ones that no world holds.
static void cache_locked(qpc_meshes *meshes, entry *e, const qpc_mesh *mesh) {
    e->used = ++meshes->clock;
    if (e->mesh != NULL) return;
    e->mesh = qpc_mesh_ref(mesh);
    meshes->cached += e->info.bytes;
    while (meshes->cached > meshes->options.cache_bytes) {
        entry *oldest = NULL;
        for (int32_t i = 0; i < meshes->entries.count; i++) {
            entry *other = &meshes->entries.data[i];
            if (other == e || other->mesh == NULL || other->users > 0) continue;
            if (oldest == NULL || other->used < oldest->used) oldest = other;
        }
        if (oldest == NULL) break;
        drop_decoded_locked(meshes, oldest);
    }
}

qpc_status qpc_meshes_create(const qpc_meshes_options *options, qpc_writer *writer,
                             qpc_meshes **ret, qpc_error *err) {
    qpc_meshes *meshes = qpc_calloc(1, sizeof *meshes);
    if (meshes == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for the meshes");
    pthread_mutex_init(&meshes->lock, NULL);
    meshes->options = *options;
    meshes->writer = writer;
    qpc_catalog_mesh *stored = NULL;
    int32_t count = 0;
    qpc_status status = qpc_catalog_list_meshes(writer, &stored, &count, err);
    if (status == QPC_OK && !qpc_array_reserve(&meshes->entries, count)) {
        status = qpc_fail(err, QPC_ERR_MEMORY, "out of memory for %d meshes", count);
    }
    for (int32_t i = 0; i < count && status == QPC_OK; i++) {
        meshes->entries.data[i] = (entry){.info = stored[i]};
        meshes->entries.count++;
        meshes->bytes += stored[i].bytes;
    }
    qpc_free(stored);
    if (status != QPC_OK) {
        qpc_meshes_destroy(meshes);
        return status;
    }
    *ret = meshes;
    return QPC_OK;
}

void qpc_meshes_destroy(qpc_meshes *meshes) {
    if (meshes == NULL) return;
    for (int32_t i = 0; i < meshes->entries.count; i++) {
        qpc_mesh_unref(meshes->entries.data[i].mesh);
    }
    qpc_array_fini(&meshes->entries);
    pthread_mutex_destroy(&meshes->lock);
    qpc_free(meshes);
}

/// Reserve a place in the budget, or say which limit is in the way.
static qpc_status admit_locked(qpc_meshes *meshes, int64_t bytes, qpc_error *err) {
    const qpc_meshes_options *o = &meshes->options;
    int64_t count = meshes->entries.count + meshes->storing;
    if (count >= o->max_meshes) {
        return qpc_fail(err, QPC_ERR_LIMIT,
                        "%" PRId64 " meshes are stored: --max-meshes is %" PRId64
                        "; delete some",
                        count, o->max_meshes);
    }
    if (bytes > o->max_bytes - meshes->bytes) {
        return qpc_fail(err, QPC_ERR_LIMIT,
                        "a mesh of %" PRId64 " bytes besides %" PRId64
                        " stored ones: --max-mesh-bytes is %" PRId64 "; delete some",
                        bytes, meshes->bytes, o->max_bytes);
    }
    if (!qpc_array_reserve(&meshes->entries, count + 1)) {
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for the index of meshes");
    }
    meshes->storing++;
    meshes->bytes += bytes;
    return QPC_OK;
}

qpc_status qpc_meshes_add(qpc_meshes *meshes, const qpc_mesh *mesh, const char *name,
                          bool *ret_known, qpc_error *err) {
    const uint8_t *sha256 = qpc_mesh_sha256(mesh);
    size_t size = qpc_mesh_canonical_size(mesh);
    pthread_mutex_lock(&meshes->lock);
    entry *known = find_locked(meshes, sha256);
    qpc_status status = QPC_OK;
    if (known != NULL) {
        cache_locked(meshes, known, mesh);
    } else {
        status = admit_locked(meshes, (int64_t)size, err);
    }
    pthread_mutex_unlock(&meshes->lock);
    if (known != NULL || status != QPC_OK) {
        if (status == QPC_OK) *ret_known = true;
        return status;
    }

    // Into the catalogue, without the lock.
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    qpc_catalog_mesh info = {
        .vertices = qpc_mesh_vertex_count(mesh),
        .elements = qpc_mesh_element_count(mesh),
        .bytes = (int64_t)size,
        .nodes_per_element = qpc_mesh_nodes_per_element(mesh),
        .created = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec,
    };
    memcpy(info.sha256, sha256, 32);
    snprintf(info.name, sizeof info.name, "%s", name);
    uint8_t *bytes = qpc_alloc(size);
    if (bytes == NULL) {
        status = qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a mesh of %zu bytes", size);
    } else {
        qpc_mesh_canonical_bytes(mesh, bytes);
        status = qpc_catalog_put_mesh(meshes->writer, &info, bytes, size, err);
        qpc_free(bytes);
    }

    // Into the index; another upload of the same bytes may have been faster.
    pthread_mutex_lock(&meshes->lock);
    meshes->storing--;
    entry *e = find_locked(meshes, sha256);
    bool first = status == QPC_OK && e == NULL;
    if (first) {
        meshes->entries.data[meshes->entries.count] = (entry){.info = info};
        e = &meshes->entries.data[meshes->entries.count++];
    } else {
        meshes->bytes -= (int64_t)size;
    }
    if (status == QPC_OK) cache_locked(meshes, e, mesh);
    pthread_mutex_unlock(&meshes->lock);
    if (status == QPC_OK) *ret_known = !first;
    return status;
}

qpc_status qpc_meshes_find(qpc_meshes *meshes, const uint8_t sha256[32], qpc_mesh **ret,
                           qpc_error *err) {
    char hex[65];
    pthread_mutex_lock(&meshes->lock);
    entry *e = find_locked(meshes, sha256);
    bool known = e != NULL;
    qpc_mesh *mesh = known && e->mesh != NULL ? qpc_mesh_ref(e->mesh) : NULL;
    if (mesh != NULL) e->used = ++meshes->clock;
    pthread_mutex_unlock(&meshes->lock);
    if (mesh != NULL) {
        *ret = mesh;
        return QPC_OK;
    }
    qpc_hex_encode(sha256, 32, hex);
    if (!known) {
        return qpc_fail(err, QPC_ERR_NOT_FOUND, "no mesh %s is stored; upload it first", hex);
    }
    uint8_t *bytes = NULL;
    size_t size = 0;
    qpc_status status = qpc_catalog_get_mesh(meshes->writer, sha256, &bytes, &size, err);
    if (status != QPC_OK) return status;
    status = qpc_mesh_from_canonical(bytes, size, NULL, &mesh, NULL, err);
    qpc_free(bytes);
    if (status != QPC_OK) return status;
    if (memcmp(qpc_mesh_sha256(mesh), sha256, 32) != 0) {
        qpc_mesh_unref(mesh);
        return qpc_fail(err, QPC_ERR_CORRUPT, "the stored bytes of mesh %s have another hash", hex);
    }
    pthread_mutex_lock(&meshes->lock);
    e = find_locked(meshes, sha256);
    if (e != NULL) cache_locked(meshes, e, mesh);
    pthread_mutex_unlock(&meshes->lock);
    *ret = mesh;
    return QPC_OK;
}

bool qpc_meshes_known(qpc_meshes *meshes, const uint8_t sha256[32], qpc_catalog_mesh *info) {
    pthread_mutex_lock(&meshes->lock);
    entry *e = find_locked(meshes, sha256);
    if (e != NULL && info != NULL) *info = e->info;
    pthread_mutex_unlock(&meshes->lock);
    return e != NULL;
}

void qpc_meshes_hold(qpc_meshes *meshes, const uint8_t sha256[32]) {
    pthread_mutex_lock(&meshes->lock);
    entry *e = find_locked(meshes, sha256);
    if (e != NULL) e->users++;
    pthread_mutex_unlock(&meshes->lock);
}

void qpc_meshes_release(qpc_meshes *meshes, const uint8_t sha256[32]) {
    pthread_mutex_lock(&meshes->lock);
    entry *e = find_locked(meshes, sha256);
    if (e != NULL && e->users > 0) e->users--;
    pthread_mutex_unlock(&meshes->lock);
}

qpc_status qpc_meshes_delete(qpc_meshes *meshes, const uint8_t sha256[32], qpc_error *err) {
    char hex[65];
    qpc_hex_encode(sha256, 32, hex);
    pthread_mutex_lock(&meshes->lock);
    entry *e = find_locked(meshes, sha256);
    qpc_status status = QPC_OK;
    if (e == NULL) {
        status = qpc_fail(err, QPC_ERR_NOT_FOUND, "no mesh %s is stored", hex);
    } else if (e->users > 0) {
        status = qpc_fail(err, QPC_ERR_STATE, "mesh %s is used by a live world (%d times)", hex,
                          e->users);
    }
    pthread_mutex_unlock(&meshes->lock);
    if (status != QPC_OK) return status;
    status = qpc_catalog_delete_mesh(meshes->writer, sha256, err);
    if (status != QPC_OK) return status;
    pthread_mutex_lock(&meshes->lock);
    e = find_locked(meshes, sha256);
    if (e != NULL) {
        drop_decoded_locked(meshes, e);
        meshes->bytes -= e->info.bytes;
        int32_t at = (int32_t)(e - meshes->entries.data);
        memmove(e, e + 1, (size_t)(meshes->entries.count - at - 1) * sizeof *e);
        meshes->entries.count--;
    }
    pthread_mutex_unlock(&meshes->lock);
    return QPC_OK;
}

qpc_status qpc_meshes_list(qpc_meshes *meshes, qpc_catalog_mesh **ret, int32_t *ret_count,
                           qpc_error *err) {
    pthread_mutex_lock(&meshes->lock);
    int32_t count = meshes->entries.count;
    qpc_catalog_mesh *list = qpc_alloc_array((size_t)count, sizeof *list);
    for (int32_t i = 0; i < count && list != NULL; i++) list[i] = meshes->entries.data[i].info;
    pthread_mutex_unlock(&meshes->lock);
    if (list == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for %d meshes", count);
    *ret = list;
    *ret_count = count;
    return QPC_OK;
}

int64_t qpc_meshes_memory(qpc_meshes *meshes) {
    pthread_mutex_lock(&meshes->lock);
    int64_t bytes = meshes->cached;
    pthread_mutex_unlock(&meshes->lock);
    return bytes;
}

uint64_t qpc_meshes_largest(const qpc_meshes *meshes) {
    return 24 + 24 * (uint64_t)meshes->options.max_vertices +
           16 * (uint64_t)meshes->options.max_elements;
}

qpc_mesh_limits qpc_meshes_limits(const qpc_meshes *meshes) {
    return (qpc_mesh_limits){meshes->options.max_vertices, meshes->options.max_elements};
}
