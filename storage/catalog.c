/// The catalogue: meshes by hash, the counter of world ids, runs. Small synchronous transactions on
/// one connection behind a mutex. A foreign lock is waited for at most half a second, because a
/// loop thread may be calling.
#include "storage/catalog.h"

#include "base/array.h"
#include "base/hash.h"
#include "base/mem.h"
#include "schema_catalog.h"
#include "storage/store.h"

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct qpc_catalog {
    pthread_mutex_t mutex;
    sqlite3 *db;
    qpc_framecodec *codec;
    char data_dir[400];
    sqlite3_stmt *next_world, *put_mesh, *get_mesh, *delete_mesh, *list_meshes;
    sqlite3_stmt *add_run, *remove_run, *finish_run, *read_runs;
};

static double now_real(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

qpc_status qpc_catalog_open(const char *data_dir, qpc_catalog **ret, qpc_error *err) {
    qpc_catalog *c = qpc_calloc(1, sizeof *c);
    if (c == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for the catalogue");
    pthread_mutex_init(&c->mutex, NULL);
    char path[512];
    snprintf(path, sizeof path, "%s/catalog.db", data_dir);
    snprintf(c->data_dir, sizeof c->data_dir, "%s", data_dir);
    qpc_status status = qpc_store_open(path, QPC_OPEN_CREATE, QPC_CATALOG_APPLICATION_ID,
                                       qpc_schema_catalog, &c->db, err);
    if (status == QPC_OK) status = qpc_framecodec_create(1, &c->codec, err);
    const struct {
        const char *sql;
        sqlite3_stmt **ret;
    } list[] = {
        {"UPDATE counters SET value = value + 1 WHERE name = 'world' RETURNING value",
         &c->next_world},
        {"INSERT INTO meshes(sha256, name, vertices, elements, nodes_per_element, size, created, "
         "encoding, data) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
         &c->put_mesh},
        {"SELECT size, encoding, data FROM meshes WHERE sha256 = ?", &c->get_mesh},
        {"DELETE FROM meshes WHERE sha256 = ?", &c->delete_mesh},
        {"SELECT sha256, name, vertices, elements, nodes_per_element, size, created FROM meshes "
         "ORDER BY id",
         &c->list_meshes},
        {"INSERT INTO runs VALUES(?, ?, ?, 'recording', ?, ?, 0, 0, 0, ?, NULL)", &c->add_run},
        {"DELETE FROM runs WHERE id = ?", &c->remove_run},
        {"UPDATE runs SET state = ?2, steps = ?3, frames = ?4, bytes = ?5, closed = ?6 "
         "WHERE id = ?1",
         &c->finish_run},
        {"SELECT id, name, state, file, world, scene_hash, steps, frames, bytes, created FROM runs "
         "WHERE ?1 IS NULL OR id = ?1 ORDER BY created, rowid",
         &c->read_runs},
    };
    for (size_t i = 0; status == QPC_OK && i < sizeof list / sizeof list[0]; i++)
        status = qpc_store_prepare(c->db, list[i].sql, list[i].ret, err);
    if (status != QPC_OK) {
        qpc_catalog_close(c);
        return status;
    }
    *ret = c;
    return QPC_OK;
}

void qpc_catalog_close(qpc_catalog *catalog) {
    if (catalog == NULL) return;
    qpc_store_close(catalog->db);
    qpc_framecodec_destroy(catalog->codec);
    pthread_mutex_destroy(&catalog->mutex);
    qpc_free(catalog);
}

static void done(qpc_catalog *c, sqlite3_stmt *s) {
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    pthread_mutex_unlock(&c->mutex);
}

// ---- worlds ----

qpc_status qpc_catalog_next_world(qpc_writer *writer, uint64_t *ret, qpc_error *err) {
    qpc_catalog *c = qpc_writer_catalog(writer);
    pthread_mutex_lock(&c->mutex);
    qpc_status status = QPC_OK;
    int64_t value = 0;
    errno = 0;
    int rc = sqlite3_step(c->next_world);
    if (rc == SQLITE_ROW) {
        value = sqlite3_column_int64(c->next_world, 0);
        rc = sqlite3_step(c->next_world); // the change is committed by the last step
    } else if (rc == SQLITE_DONE) {
        status = qpc_fail(err, QPC_ERR_CORRUPT, "%s/catalog.db: the counter of worlds is missing",
                          c->data_dir);
    }
    if (status == QPC_OK && rc != SQLITE_DONE)
        status = qpc_store_fail(c->db, rc, "cannot count a world", err);
    done(c, c->next_world);
    if (status == QPC_OK) *ret = (uint64_t)value;
    return status;
}

// ---- meshes ----

qpc_status qpc_catalog_put_mesh(qpc_writer *writer, const qpc_catalog_mesh *info,
                                const void *canonical, size_t size, qpc_error *err) {
    qpc_catalog *c = qpc_writer_catalog(writer);
    pthread_mutex_lock(&c->mutex);
    const void *data;
    size_t stored;
    const char *encoding;
    sqlite3_stmt *s = c->put_mesh;
    qpc_status status =
        qpc_framecodec_encode(c->codec, canonical, size, &data, &stored, &encoding, err);
    if (status == QPC_OK) {
        sqlite3_bind_blob(s, 1, info->sha256, 32, SQLITE_STATIC);
        sqlite3_bind_text(s, 2, info->name, (int)strnlen(info->name, sizeof info->name),
                          SQLITE_STATIC);
        sqlite3_bind_int64(s, 3, info->vertices);
        sqlite3_bind_int64(s, 4, info->elements);
        sqlite3_bind_int(s, 5, info->nodes_per_element);
        sqlite3_bind_int64(s, 6, (int64_t)size);
        sqlite3_bind_double(s, 7, info->created > 0 ? info->created : now_real());
        sqlite3_bind_text(s, 8, encoding, -1, SQLITE_STATIC);
        if (sqlite3_bind_blob64(s, 9, data, stored, SQLITE_STATIC) == SQLITE_TOOBIG)
            status = qpc_fail(err, QPC_ERR_LIMIT, "a mesh of %zu bytes does not fit a row", stored);
        else
            status = qpc_store_run(c->db, s, "cannot store a mesh", err);
    }
    done(c, s);
    return status;
}

qpc_status qpc_catalog_get_mesh(qpc_writer *writer, const uint8_t sha256[32], uint8_t **ret,
                                size_t *ret_size, qpc_error *err) {
    qpc_catalog *c = qpc_writer_catalog(writer);
    char hex[65];
    qpc_hex_encode(sha256, 32, hex);
    pthread_mutex_lock(&c->mutex);
    sqlite3_stmt *s = c->get_mesh;
    uint8_t *bytes = NULL;
    size_t size = 0;
    sqlite3_bind_blob(s, 1, sha256, 32, SQLITE_STATIC);
    int rc = sqlite3_step(s);
    qpc_status status = QPC_OK;
    if (rc == SQLITE_DONE) {
        status = qpc_fail(err, QPC_ERR_NOT_FOUND, "no mesh %s", hex);
    } else if (rc != SQLITE_ROW) {
        status = qpc_store_fail(c->db, rc, "cannot read a mesh", err);
    } else {
        int64_t wanted = sqlite3_column_int64(s, 0);
        // zstd shrinks at best by some thousands, so a damaged size cannot ask for much.
        if (wanted < 0 || wanted > (int64_t)8 * 1000 * 1000 * 1000) {
            status = qpc_fail(err, QPC_ERR_CORRUPT, "%s/catalog.db: mesh %s has a size of %lld",
                              c->data_dir, hex, (long long)wanted);
        } else if ((bytes = qpc_alloc((size_t)wanted)) == NULL) {
            status = qpc_fail(err, QPC_ERR_MEMORY, "out of memory for mesh %s", hex);
        } else {
            size = (size_t)wanted;
            status = qpc_framecodec_decode(c->codec, (const char *)sqlite3_column_text(s, 1),
                                           sqlite3_column_blob(s, 2),
                                           (size_t)sqlite3_column_bytes(s, 2), bytes, size, err);
        }
    }
    done(c, s);
    uint8_t found[32];
    if (status == QPC_OK) status = qpc_sha256_of(bytes, size, found, err);
    if (status == QPC_OK && memcmp(found, sha256, 32) != 0)
        status =
            qpc_fail(err, QPC_ERR_CORRUPT,
                     "%s/catalog.db: the bytes of mesh %s do not have its hash", c->data_dir, hex);
    if (status != QPC_OK) {
        qpc_free(bytes);
        return status;
    }
    *ret = bytes;
    *ret_size = size;
    return QPC_OK;
}

qpc_status qpc_catalog_delete_mesh(qpc_writer *writer, const uint8_t sha256[32], qpc_error *err) {
    qpc_catalog *c = qpc_writer_catalog(writer);
    char hex[65];
    qpc_hex_encode(sha256, 32, hex);
    pthread_mutex_lock(&c->mutex);
    sqlite3_bind_blob(c->delete_mesh, 1, sha256, 32, SQLITE_STATIC);
    qpc_status status = qpc_store_run(c->db, c->delete_mesh, "cannot delete a mesh", err);
    if (status == QPC_OK && sqlite3_changes(c->db) == 0)
        status = qpc_fail(err, QPC_ERR_NOT_FOUND, "no mesh %s", hex);
    done(c, c->delete_mesh);
    return status;
}

qpc_status qpc_catalog_list_meshes(qpc_writer *writer, qpc_catalog_mesh **ret, int32_t *ret_count,
                                   qpc_error *err) {
    qpc_catalog *c = qpc_writer_catalog(writer);
    QPC_ARRAY(qpc_catalog_mesh) list = {0};
    pthread_mutex_lock(&c->mutex);
    sqlite3_stmt *s = c->list_meshes;
    qpc_status status = QPC_OK;
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        qpc_catalog_mesh mesh = {0};
        const void *sha = sqlite3_column_blob(s, 0);
        if (sha != NULL && sqlite3_column_bytes(s, 0) == 32) memcpy(mesh.sha256, sha, 32);
        qpc_store_copy_text(mesh.name, sizeof mesh.name, (const char *)sqlite3_column_text(s, 1));
        mesh.vertices = sqlite3_column_int64(s, 2);
        mesh.elements = sqlite3_column_int64(s, 3);
        mesh.nodes_per_element = sqlite3_column_int(s, 4);
        mesh.bytes = sqlite3_column_int64(s, 5);
        mesh.created = sqlite3_column_double(s, 6);
        if (!qpc_array_push(&list, mesh)) {
            status = qpc_fail(err, QPC_ERR_MEMORY, "out of memory for the list of meshes");
            break;
        }
    }
    if (status == QPC_OK && rc != SQLITE_DONE)
        status = qpc_store_fail(c->db, rc, "cannot list meshes", err);
    done(c, s);
    if (status != QPC_OK) {
        qpc_free(list.data);
        return status;
    }
    *ret = list.data;
    *ret_count = list.count;
    return QPC_OK;
}

// ---- runs ----

qpc_status qpc_catalog_add_run(qpc_catalog *c, const qpc_run_def *def, const char *file,
                               qpc_error *err) {
    pthread_mutex_lock(&c->mutex);
    sqlite3_stmt *s = c->add_run;
    sqlite3_bind_text(s, 1, def->id, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 2, (int64_t)def->world);
    sqlite3_bind_text(s, 3, def->name != NULL ? def->name : "", -1, SQLITE_STATIC);
    sqlite3_bind_text(s, 4, file, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 5, (int64_t)def->scene_hash);
    sqlite3_bind_double(s, 6, now_real());
    errno = 0;
    int rc = sqlite3_step(s);
    qpc_status status = QPC_OK;
    if ((rc & 0xff) == SQLITE_CONSTRAINT)
        status = qpc_fail(err, QPC_ERR_EXISTS, "run %s exists already", def->id);
    else if (rc != SQLITE_DONE)
        status = qpc_store_fail(c->db, rc, "cannot list a run", err);
    done(c, s);
    return status;
}

qpc_status qpc_catalog_remove_run(qpc_catalog *c, const char *id, qpc_error *err) {
    pthread_mutex_lock(&c->mutex);
    sqlite3_bind_text(c->remove_run, 1, id, -1, SQLITE_STATIC);
    qpc_status status = qpc_store_run(c->db, c->remove_run, "cannot remove a run", err);
    done(c, c->remove_run);
    return status;
}

qpc_status qpc_catalog_finish_run(qpc_catalog *c, const char *id, const char *state,
                                  const qpc_run_totals *totals, qpc_error *err) {
    pthread_mutex_lock(&c->mutex);
    sqlite3_stmt *s = c->finish_run;
    sqlite3_bind_text(s, 1, id, -1, SQLITE_STATIC);
    sqlite3_bind_text(s, 2, state, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 3, totals->steps);
    sqlite3_bind_int64(s, 4, totals->frames);
    sqlite3_bind_int64(s, 5, totals->bytes);
    sqlite3_bind_double(s, 6, now_real());
    qpc_status status = qpc_store_run(c->db, s, "cannot mark a run", err);
    done(c, s);
    return status;
}

qpc_status qpc_catalog_read_runs(qpc_catalog *c, const char *id, qpc_catalog_run **ret,
                                 int32_t *ret_count, qpc_error *err) {
    QPC_ARRAY(qpc_catalog_run) list = {0};
    pthread_mutex_lock(&c->mutex);
    sqlite3_stmt *s = c->read_runs;
    qpc_status status = QPC_OK;
    if (id != NULL) sqlite3_bind_text(s, 1, id, -1, SQLITE_STATIC);
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        qpc_catalog_run run = {0};
        qpc_store_copy_text(run.id, sizeof run.id, (const char *)sqlite3_column_text(s, 0));
        qpc_store_copy_text(run.name, sizeof run.name, (const char *)sqlite3_column_text(s, 1));
        qpc_store_copy_text(run.state, sizeof run.state, (const char *)sqlite3_column_text(s, 2));
        const char *file = (const char *)sqlite3_column_text(s, 3);
        snprintf(run.path, sizeof run.path, "%s/%.100s", c->data_dir, file != NULL ? file : "");
        run.world = (uint64_t)sqlite3_column_int64(s, 4);
        run.scene_hash = (uint64_t)sqlite3_column_int64(s, 5);
        run.steps = sqlite3_column_int64(s, 6);
        run.frames = sqlite3_column_int64(s, 7);
        run.bytes = sqlite3_column_int64(s, 8);
        run.created = sqlite3_column_double(s, 9);
        if (!qpc_array_push(&list, run)) {
            status = qpc_fail(err, QPC_ERR_MEMORY, "out of memory for the list of runs");
            break;
        }
    }
    if (status == QPC_OK && rc != SQLITE_DONE)
        status = qpc_store_fail(c->db, rc, "cannot list runs", err);
    done(c, s);
    if (status != QPC_OK) {
        qpc_free(list.data);
        return status;
    }
    *ret = list.data;
    *ret_count = list.count;
    return QPC_OK;
}

qpc_status qpc_catalog_list_runs(qpc_writer *writer, qpc_catalog_run **ret, int32_t *ret_count,
                                 qpc_error *err) {
    qpc_status status =
        qpc_catalog_read_runs(qpc_writer_catalog(writer), NULL, ret, ret_count, err);
    if (status == QPC_OK) qpc_writer_live_counts(writer, *ret, *ret_count);
    return status;
}

qpc_status qpc_catalog_find_run(qpc_writer *writer, const char *id, qpc_catalog_run *ret,
                                qpc_error *err) {
    qpc_catalog_run *list = NULL;
    int32_t count = 0;
    qpc_status status = qpc_catalog_read_runs(qpc_writer_catalog(writer), id, &list, &count, err);
    if (status != QPC_OK) return status;
    if (count == 0) return qpc_fail(err, QPC_ERR_NOT_FOUND, "no run %.40s", id);
    qpc_writer_live_counts(writer, list, 1);
    *ret = list[0];
    qpc_free(list);
    return QPC_OK;
}
