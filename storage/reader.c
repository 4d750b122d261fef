/// Reading run files. Every call is one read transaction of its own, ended before it returns.
///
/// Which connection is right depends on what lies beside the main file:
///   a -wal with bytes, or a -journal   a recording, alive or killed: an ordinary read-only
///   connection an empty -wal                      the same, unless the state in the main file says
///   it ended nothing                            closed, crashed or exported: immutable. State
///   `recording`: a
///                                      copy of a recording without its -wal: refused
#include "storage/reader.h"

#include "base/array.h"
#include "base/hash.h"
#include "base/mem.h"
#include "storage/framecodec.h"
#include "storage/store.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct qpc_reader {
    sqlite3 *db;
    char *path;
    qpc_framecodec *codec;
    qpc_run_facts facts;
    char *id, *name, *scene, *versions, state[16];
    char **column_names;
    bool *column_integer;
    int32_t column_count;
    qpc_run_body *bodies;
    char **body_texts; // name, kind of each
    uint8_t (*body_sha)[32];
    int32_t body_count;
    sqlite3_stmt *frames, *ends, *mesh, *commands, *events, *non_finite;
    sqlite3_stmt *list[QPC_LIST_COUNT]; // NULL: the file is older than the list
};

/// Size of a file beside path; -1: there is none.
static int64_t size_beside(const char *path, const char *suffix) {
    char name[4096];
    struct stat st;
    if (snprintf(name, sizeof name, "%s%s", path, suffix) >= (int)sizeof name) return -1;
    return stat(name, &st) == 0 ? (int64_t)st.st_size : -1;
}

static bool beside(const char *path, const char *suffix) {
    return size_beside(path, suffix) >= 0;
}

/// SQLite's error, with the path even where SQLite gives none.
static qpc_status read_failed(qpc_reader *r, int rc, const char *what, qpc_error *err) {
    return qpc_store_fail(r->db, rc, what, err);
}

// ---- opening ----

static qpc_status incomplete(const char *path, qpc_error *err) {
    return qpc_fail(
        err, QPC_ERR_CORRUPT,
        "%s: incomplete: copied while it was being recorded, without its -wal or -journal "
        "file; copy a live run with the export instead",
        path);
}

/// state and journal of the run; out is state then journal, each cut to 16 bytes.
static qpc_status read_state(sqlite3 *db, char out[2][16], qpc_error *err) {
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(db, "SELECT state, journal FROM run", -1, &s, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_step(s);
    qpc_status status = QPC_OK;
    if (rc == SQLITE_ROW) {
        for (int i = 0; i < 2; i++) {
            const char *text = (const char *)sqlite3_column_text(s, i);
            snprintf(out[i], 16, "%s", text != NULL ? text : "");
        }
    } else {
        status = qpc_store_fail(db, rc == SQLITE_DONE ? SQLITE_CORRUPT : rc,
                                "cannot read the state of the run", err);
    }
    sqlite3_finalize(s);
    return status;
}

/// The ways to open a file beside which no -wal lies, or an empty one; *ret stays NULL if the
/// ordinary way is right. Immutable connections read rollback and WAL headers alike and make no
/// files.
static qpc_status open_alone(const char *path, bool empty_wal, sqlite3 **ret, qpc_error *err) {
    sqlite3 *db = NULL;
    char text[2][16];
    qpc_status status =
        qpc_store_open(path, QPC_OPEN_IMMUTABLE, QPC_RUN_APPLICATION_ID, NULL, &db, err);
    if (status != QPC_OK) return status;
    status = read_state(db, text, err);
    if (empty_wal || beside(path, "-journal")) {
        // A recording between two checkpoints or commits, or what a killed one left; unless it
        // ended.
        bool ended = status == QPC_OK && strcmp(text[0], "created") != 0 &&
                     strcmp(text[0], "recording") != 0;
        if (ended && !beside(path, "-journal")) {
            *ret = db;
            return QPC_OK;
        }
        sqlite3_close_v2(db);
        return QPC_OK;
    }
    if (status == QPC_OK && strcmp(text[0], "created") == 0) {
        // Just made and about to have its -wal, or a copy taken before the first checkpoint,
        // without a frame in it.
        for (int i = 0; i < 20; i++) {
            if (beside(path, "-wal") || beside(path, "-journal")) {
                sqlite3_close_v2(db);
                return QPC_OK;
            }
            usleep(10000);
        }
    } else if (status == QPC_OK && strcmp(text[0], "recording") == 0) {
        // VACUUM INTO of a recording in WAL mode gives a rollback header: a whole copy.
        if (strcmp(text[1], "wal") != 0 || qpc_store_header_is_wal(db))
            status = incomplete(path, err);
    }
    if (status != QPC_OK) {
        sqlite3_close_v2(db);
        return status;
    }
    *ret = db;
    return QPC_OK;
}

static qpc_status open_db(const char *path, sqlite3 **ret, qpc_error *err) {
    sqlite3 *db = NULL;
    int64_t wal = size_beside(path, "-wal");
    if (wal <= 0) {
        qpc_status status = open_alone(path, wal == 0, &db, err);
        if (status != QPC_OK || db != NULL) {
            if (status == QPC_OK) *ret = db;
            return status;
        }
    }
    qpc_status status = qpc_store_open(path, QPC_OPEN_READ, QPC_RUN_APPLICATION_ID, NULL, &db, err);
    if (status == QPC_OK) {
        *ret = db;
        return QPC_OK;
    }
    // A hot journal needs one writer to roll it back; then reading works.
    if (status == QPC_ERR_IO && beside(path, "-journal")) {
        qpc_status rolled =
            qpc_store_open(path, QPC_OPEN_WRITE, QPC_RUN_APPLICATION_ID, NULL, &db, NULL);
        if (rolled == QPC_OK) {
            qpc_store_close(db);
            return qpc_store_open(path, QPC_OPEN_READ, QPC_RUN_APPLICATION_ID, NULL, ret, err);
        }
    }
    if (status == QPC_ERR_IO && err != NULL && beside(path, "-wal")) {
        qpc_error inner = *err;
        qpc_fail(err, status,
                 "%s; its -wal file must be merged: copy both to a folder that can be written",
                 inner.message);
    }
    return status;
}

static char *column_copy(sqlite3_stmt *s, int i) {
    const char *text = (const char *)sqlite3_column_text(s, i);
    return qpc_strdup(text != NULL ? text : "");
}

static qpc_status no_memory(const qpc_reader *r, qpc_error *err) {
    return qpc_fail(err, QPC_ERR_MEMORY, "%s: out of memory",
                    r->path != NULL ? r->path : "run file");
}

static qpc_status load_facts(qpc_reader *r, qpc_error *err) {
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(
        r->db,
        "SELECT id, name, json, versions, world, run.scene_hash, start_hash, dt, "
        "frame_dtype, frame_nodes FROM run, scene",
        -1, &s, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_step(s);
    qpc_status status = QPC_OK;
    if (rc == SQLITE_ROW) {
        qpc_run_facts *f = &r->facts;
        f->id = r->id = column_copy(s, 0);
        f->name = r->name = column_copy(s, 1);
        f->scene_json = r->scene = column_copy(s, 2);
        f->versions_json = r->versions = column_copy(s, 3);
        f->state = r->state;
        f->world = (uint64_t)sqlite3_column_int64(s, 4);
        f->scene_hash = (uint64_t)sqlite3_column_int64(s, 5);
        f->start_hash = (uint64_t)sqlite3_column_int64(s, 6);
        f->dt = sqlite3_column_double(s, 7);
        const char *dtype = (const char *)sqlite3_column_text(s, 8);
        int64_t nodes = sqlite3_column_int64(s, 9);
        if (f->id == NULL || f->name == NULL || f->scene_json == NULL || f->versions_json == NULL)
            status = no_memory(r, err);
        else if (dtype == NULL || !qpc_dtype_from_name(dtype, strlen(dtype), &f->frame_dtype) ||
                 (f->frame_dtype != QPC_F32 && f->frame_dtype != QPC_F64) || nodes < 0 ||
                 nodes > 40 * 1000 * 1000)
            status = qpc_fail(err, QPC_ERR_CORRUPT, "%s: frames of %lld nodes as \"%.16s\"",
                              r->path, (long long)nodes, dtype != NULL ? dtype : "");
        f->frame_nodes = (int32_t)nodes;
    } else {
        status = read_failed(r, rc == SQLITE_DONE ? SQLITE_CORRUPT : rc,
                             "cannot read the facts of the run", err);
    }
    sqlite3_finalize(s);
    return status;
}

static qpc_status load_columns(qpc_reader *r, qpc_error *err) {
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(
        r->db, "SELECT name, type, count(*) OVER () FROM pragma_table_info('steps') ORDER BY cid",
        -1, &s, NULL);
    qpc_status status = QPC_OK;
    while (status == QPC_OK && rc == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW) {
        if (r->column_names == NULL) {
            size_t count = (size_t)sqlite3_column_int(s, 2);
            r->column_names = qpc_calloc(count, sizeof *r->column_names);
            r->column_integer = qpc_calloc(count, sizeof *r->column_integer);
            if (r->column_names == NULL || r->column_integer == NULL) {
                status = no_memory(r, err);
                break;
            }
        }
        char *name = column_copy(s, 0);
        if (name == NULL) {
            status = no_memory(r, err);
            break;
        }
        const char *type = (const char *)sqlite3_column_text(s, 1);
        r->column_integer[r->column_count] = type != NULL && sqlite3_stricmp(type, "INTEGER") == 0;
        r->column_names[r->column_count++] = name;
    }
    rc = sqlite3_finalize(s);
    if (status == QPC_OK && rc != SQLITE_OK)
        status = read_failed(r, rc, "cannot read the columns of steps", err);
    if (status == QPC_OK && r->column_count == 0)
        status = qpc_fail(err, QPC_ERR_CORRUPT, "%s: there is no table steps", r->path);
    return status;
}

static qpc_status load_bodies(qpc_reader *r, qpc_error *err) {
    int64_t count = 0;
    qpc_status status = qpc_store_get_int(r->db, "SELECT count(*) FROM bodies", &count, err);
    if (status != QPC_OK) return status;
    if (count > INT32_MAX / 2)
        return qpc_fail(err, QPC_ERR_CORRUPT, "%s: too many bodies", r->path);
    r->bodies = qpc_calloc((size_t)count, sizeof *r->bodies);
    r->body_texts = qpc_calloc((size_t)count * 2, sizeof *r->body_texts);
    r->body_sha = qpc_calloc((size_t)count, sizeof *r->body_sha);
    if (r->bodies == NULL || r->body_texts == NULL || r->body_sha == NULL) return no_memory(r, err);
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(r->db,
                                "SELECT name, kind, first_node, node_count, element_count, "
                                "nodes_per_element, radius, mesh FROM bodies ORDER BY body",
                                -1, &s, NULL);
    while (status == QPC_OK && rc == SQLITE_OK && r->body_count < count &&
           sqlite3_step(s) == SQLITE_ROW) {
        int32_t i = r->body_count++;
        qpc_run_body *b = &r->bodies[i];
        b->name = r->body_texts[2 * i] = column_copy(s, 0);
        b->kind = r->body_texts[2 * i + 1] = column_copy(s, 1);
        if (b->name == NULL || b->kind == NULL) {
            status = no_memory(r, err);
            break;
        }
        b->first_node = sqlite3_column_int(s, 2);
        b->node_count = sqlite3_column_int(s, 3);
        b->element_count = sqlite3_column_int(s, 4);
        b->nodes_per_element = sqlite3_column_int(s, 5);
        b->radius = sqlite3_column_double(s, 6);
        const void *sha = sqlite3_column_blob(s, 7);
        if (sha != NULL && sqlite3_column_bytes(s, 7) == 32) {
            memcpy(r->body_sha[i], sha, 32);
            b->mesh_sha256 = r->body_sha[i];
        }
        // Users slice frames by these.
        if (b->first_node < 0 || b->node_count < 0 ||
            (int64_t)b->first_node + b->node_count > r->facts.frame_nodes)
            if (b->node_count != 0)
                status =
                    qpc_fail(err, QPC_ERR_CORRUPT, "%s: body %d is outside of frames", r->path, i);
    }
    rc = sqlite3_finalize(s);
    if (status == QPC_OK && rc != SQLITE_OK) status = read_failed(r, rc, "cannot read bodies", err);
    return status;
}

qpc_status qpc_reader_refresh(qpc_reader *r, qpc_error *err) {
    char text[2][16];
    int64_t first = 0, last = 0, count = 0;
    qpc_status status = qpc_store_exec(r->db, "BEGIN", err);
    if (status != QPC_OK) return status;
    status = read_state(r->db, text, err);
    if (status == QPC_OK)
        status =
            qpc_store_get_int(r->db, "SELECT count(*) FROM frames WHERE substep = -1", &count, err);
    if (status == QPC_OK)
        status = qpc_store_get_int(r->db,
                                   "SELECT coalesce((SELECT step FROM frames WHERE substep = -1 "
                                   "ORDER BY step LIMIT 1), 0)",
                                   &first, err);
    if (status == QPC_OK)
        status = qpc_store_get_int(r->db,
                                   "SELECT coalesce((SELECT step FROM frames WHERE substep = -1 "
                                   "ORDER BY step DESC LIMIT 1), 0)",
                                   &last, err);
    sqlite3_exec(r->db, "COMMIT", NULL, NULL, NULL);
    if (status != QPC_OK) return status;
    memcpy(r->state, text[0], sizeof r->state);
    r->facts.first_step = first;
    r->facts.last_step = last;
    r->facts.frame_count = count;
    return QPC_OK;
}

static qpc_status prepare_all(qpc_reader *r, qpc_error *err) {
    const struct {
        const char *sql;
        sqlite3_stmt **ret;
    } list[] = {
        {"SELECT step, substep, time, hash, dtype, nodes, encoding, base, data FROM frames "
         "WHERE step BETWEEN ?1 AND ?2 ORDER BY step, substep < 0, substep LIMIT ?3",
         &r->frames},
        {"SELECT step, substep, time, hash, dtype, nodes, encoding, base, data FROM frames "
         "WHERE step BETWEEN ?1 AND ?2 AND substep = -1 ORDER BY step LIMIT ?3",
         &r->ends},
        {"SELECT size, encoding, data FROM meshes WHERE sha256 = ?", &r->mesh},
        {"SELECT step, method, json FROM commands WHERE step BETWEEN ? AND ? ORDER BY step, id",
         &r->commands},
        {"SELECT step, kind, subject, message FROM events WHERE step BETWEEN ? AND ? "
         "ORDER BY step, id",
         &r->events},
        {"SELECT message FROM events WHERE step = ? AND kind = 'non-finite' AND subject = ?",
         &r->non_finite},
    };
    qpc_status status = QPC_OK;
    for (size_t i = 0; status == QPC_OK && i < sizeof list / sizeof list[0]; i++)
        status = qpc_store_prepare(r->db, list[i].sql, list[i].ret, err);
    int64_t version = 0;
    if (status == QPC_OK) status = qpc_store_get_int(r->db, "PRAGMA user_version", &version, err);
    int32_t known = qpc_run_list_count(version);
    for (int32_t i = 0; status == QPC_OK && i < known; i++) {
        char sql[96];
        snprintf(sql, sizeof sql, "SELECT count, record_size, encoding, data FROM %s WHERE step = ?",
                 qpc_run_list_table((qpc_run_list)i));
        status = qpc_store_prepare(r->db, sql, &r->list[i], err);
    }
    return status;
}

qpc_status qpc_reader_open(const char *path, qpc_reader **ret, qpc_error *err) {
    qpc_reader *r = qpc_calloc(1, sizeof *r);
    if (r == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a reader");
    r->path = qpc_strdup(path);
    qpc_status status = r->path != NULL ? open_db(path, &r->db, err) : no_memory(r, err);
    if (status == QPC_OK) status = qpc_framecodec_create(1, &r->codec, err);
    if (status == QPC_OK) status = load_facts(r, err);
    if (status == QPC_OK) status = load_columns(r, err);
    if (status == QPC_OK) status = load_bodies(r, err);
    if (status == QPC_OK) status = prepare_all(r, err);
    if (status == QPC_OK) status = qpc_reader_refresh(r, err);
    if (status != QPC_OK) {
        qpc_reader_close(r);
        return status;
    }
    *ret = r;
    return QPC_OK;
}

void qpc_reader_close(qpc_reader *r) {
    if (r == NULL) return;
    qpc_store_close(r->db);
    qpc_framecodec_destroy(r->codec);
    for (int32_t i = 0; i < r->column_count; i++) qpc_free(r->column_names[i]);
    for (int32_t i = 0; r->body_texts != NULL && i < 2 * r->body_count; i++)
        qpc_free(r->body_texts[i]);
    qpc_free(r->column_names);
    qpc_free(r->column_integer);
    qpc_free(r->bodies);
    qpc_free(r->body_texts);
    qpc_free(r->body_sha);
    qpc_free(r->id);
    qpc_free(r->name);
    qpc_free(r->scene);
    qpc_free(r->versions);
    qpc_free(r->path);
    qpc_free(r);
}

qpc_run_facts qpc_reader_facts(const qpc_reader *reader) {
    return reader->facts;
}

qpc_status qpc_reader_columns(qpc_reader *reader, const char *const **ret_names,
                              const bool **ret_integer, int32_t *ret_count) {
    *ret_names = (const char *const *)reader->column_names;
    *ret_integer = reader->column_integer;
    *ret_count = reader->column_count;
    return QPC_OK;
}

qpc_status qpc_reader_bodies(qpc_reader *reader, const qpc_run_body **ret, int32_t *ret_count) {
    *ret = reader->bodies;
    *ret_count = reader->body_count;
    return QPC_OK;
}

// ---- reading ----

static void done(sqlite3_stmt *s) {
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
}

/// What a NULL real of this row was: an event says so. NaN if none does.
static double lost_real(qpc_reader *r, int64_t step, const char *table, const char *column) {
    char subject[128];
    snprintf(subject, sizeof subject, "%s.%s", table, column);
    sqlite3_bind_int64(r->non_finite, 1, step);
    sqlite3_bind_text(r->non_finite, 2, subject, -1, SQLITE_STATIC);
    double v = (double)NAN;
    if (sqlite3_step(r->non_finite) == SQLITE_ROW) {
        const char *kind = (const char *)sqlite3_column_text(r->non_finite, 0);
        if (kind != NULL && strcmp(kind, "inf") == 0) v = (double)INFINITY;
        if (kind != NULL && strcmp(kind, "-inf") == 0) v = -(double)INFINITY;
    }
    done(r->non_finite);
    return v;
}

/// One row of frames into positions (frame_nodes x 3) and, for float32, through raw of the same
/// size.
static qpc_status decode_frame(qpc_reader *r, sqlite3_stmt *s, double *positions, float *raw,
                               qpc_error *err) {
    int64_t step = sqlite3_column_int64(s, 0);
    const char *dtype = (const char *)sqlite3_column_text(s, 4);
    const char *encoding = (const char *)sqlite3_column_text(s, 6);
    qpc_dtype type;
    if (dtype == NULL || !qpc_dtype_from_name(dtype, strlen(dtype), &type) ||
        (type != QPC_F32 && type != QPC_F64) || sqlite3_column_int64(s, 5) != r->facts.frame_nodes)
        return qpc_fail(
            err, QPC_ERR_CORRUPT, "%s: the frame of step %lld has %lld nodes as \"%.16s\"", r->path,
            (long long)step, (long long)sqlite3_column_int64(s, 5), dtype != NULL ? dtype : "");
    size_t n = (size_t)r->facts.frame_nodes * 3;
    qpc_error inner = {0};
    const void *data = sqlite3_column_blob(s, 8);
    size_t size = (size_t)sqlite3_column_bytes(s, 8);
    qpc_status status = qpc_framecodec_decode_planes(
        r->codec, encoding, data, size, type == QPC_F64 ? (void *)positions : (void *)raw, n / 3, 3,
        qpc_dtype_size(type), &inner);
    if (status != QPC_OK)
        return qpc_fail(err, status, "%s: the frame of step %lld: %s", r->path, (long long)step,
                        inner.message);
    if (type == QPC_F32)
        for (size_t i = 0; i < n; i++) positions[i] = (double)raw[i];
    return QPC_OK;
}

qpc_status qpc_reader_frames(qpc_reader *r, int64_t from, int64_t to, int64_t limit, bool substeps,
                             qpc_frame_visit visit, void *user, qpc_error *err) {
    size_t n = (size_t)r->facts.frame_nodes * 3;
    double *positions = qpc_alloc_array(n, sizeof(double));
    float *raw = qpc_alloc_array(n, sizeof(float));
    qpc_status status = QPC_OK;
    if (positions == NULL || raw == NULL) {
        status = no_memory(r, err);
        goto out;
    }
    sqlite3_stmt *s = substeps ? r->frames : r->ends;
    sqlite3_bind_int64(s, 1, from);
    sqlite3_bind_int64(s, 2, to);
    sqlite3_bind_int64(s, 3, limit < 0 ? 0 : limit);
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        status = decode_frame(r, s, positions, raw, err);
        if (status != QPC_OK) break;
        int64_t step = sqlite3_column_int64(s, 0);
        double time = sqlite3_column_type(s, 2) == SQLITE_NULL
                          ? lost_real(r, step, "frames", "time")
                          : sqlite3_column_double(s, 2);
        if (!visit(user, step, sqlite3_column_int(s, 1), time, (uint64_t)sqlite3_column_int64(s, 3),
                   positions, r->facts.frame_nodes))
            break;
    }
    if (status == QPC_OK && rc != SQLITE_DONE && rc != SQLITE_ROW)
        status = read_failed(r, rc, "cannot read frames", err);
    done(s);
out:
    qpc_free(positions);
    qpc_free(raw);
    return status;
}

/// Where the columns asked for are in the table; INVALID for an unknown one.
static qpc_status find_columns(const qpc_reader *r, const char *const *columns, int32_t count,
                               int32_t *index, qpc_error *err) {
    for (int32_t i = 0; i < count; i++) {
        int32_t k = 0;
        while (k < r->column_count && strcmp(columns[i], r->column_names[k]) != 0) k++;
        if (k == r->column_count)
            return qpc_fail(err, QPC_ERR_INVALID, "table steps has no column \"%.64s\"",
                            columns[i]);
        index[i] = k;
    }
    return QPC_OK;
}

qpc_status qpc_reader_steps(qpc_reader *r, int64_t from, int64_t to, int64_t limit,
                            const char *const *columns, int32_t column_count, void **ret_values,
                            int64_t *ret_rows, qpc_error *err) {
    if (column_count < 1 || column_count > 1000)
        return qpc_fail(err, QPC_ERR_INVALID, "%d columns asked for", column_count);
    int32_t *index = qpc_alloc_array((size_t)column_count, sizeof *index);
    QPC_ARRAY(int64_t) values = {0}; // a double as its bits
    sqlite3_stmt *s = NULL;
    char *sql = NULL;
    int64_t rows = 0;
    qpc_status status =
        index != NULL ? find_columns(r, columns, column_count, index, err) : no_memory(r, err);
    if (status != QPC_OK) goto out;
    sqlite3_str *text = sqlite3_str_new(r->db);
    sqlite3_str_appendall(text, "SELECT step");
    for (int32_t i = 0; i < column_count; i++) sqlite3_str_appendf(text, ", \"%w\"", columns[i]);
    sqlite3_str_appendall(text, " FROM steps WHERE step BETWEEN ? AND ? ORDER BY step LIMIT ?");
    sql = sqlite3_str_finish(text);
    if (sql == NULL) {
        status = no_memory(r, err);
        goto out;
    }
    int rc = sqlite3_prepare_v2(r->db, sql, -1, &s, NULL);
    if (rc != SQLITE_OK) {
        status = read_failed(r, rc, "cannot read steps", err);
        goto out;
    }
    sqlite3_bind_int64(s, 1, from);
    sqlite3_bind_int64(s, 2, to);
    sqlite3_bind_int64(s, 3, limit < 0 ? 0 : limit);
    if (!qpc_array_reserve(&values, 1)) status = no_memory(r, err);
    while (status == QPC_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        int64_t step = sqlite3_column_int64(s, 0);
        if (!qpc_array_reserve(&values, (int64_t)values.count + column_count)) {
            status = no_memory(r, err);
            break;
        }
        for (int32_t i = 0; i < column_count; i++) {
            bool null = sqlite3_column_type(s, i + 1) == SQLITE_NULL;
            int64_t bits = INT64_MIN;
            if (r->column_integer[index[i]]) {
                if (!null) bits = sqlite3_column_int64(s, i + 1);
            } else {
                double v = null ? lost_real(r, step, "steps", columns[i])
                                : sqlite3_column_double(s, i + 1);
                memcpy(&bits, &v, sizeof bits);
            }
            values.data[values.count++] = bits;
        }
        rows++;
    }
    if (status == QPC_OK && rc != SQLITE_DONE)
        status = read_failed(r, rc, "cannot read steps", err);
out:
    sqlite3_finalize(s);
    sqlite3_free(sql);
    qpc_free(index);
    if (status != QPC_OK) {
        qpc_free(values.data);
        return status;
    }
    *ret_values = values.data;
    *ret_rows = rows;
    return QPC_OK;
}

qpc_status qpc_reader_count(qpc_reader *r, const char *column, int64_t value, int64_t *ret,
                            qpc_error *err) {
    int32_t index;
    if (find_columns(r, &column, 1, &index, NULL) != QPC_OK)
        return qpc_fail(err, QPC_ERR_NOT_FOUND, "table steps has no column \"%.64s\"", column);
    char *sql = sqlite3_mprintf("SELECT count(*) FROM steps WHERE \"%w\" = %lld", column,
                                (long long)value);
    if (sql == NULL) return no_memory(r, err);
    qpc_status status = qpc_store_get_int(r->db, sql, ret, err);
    sqlite3_free(sql);
    return status;
}

/// Bytes of size `size` out of columns encoding, data of a row, newly allocated.
static qpc_status decode_blob(qpc_reader *r, sqlite3_stmt *s, int encoding, int data, size_t size,
                              const char *what, uint8_t **ret, qpc_error *err) {
    uint8_t *bytes = qpc_alloc(size);
    if (bytes == NULL) return no_memory(r, err);
    qpc_error inner = {0};
    qpc_status status = qpc_framecodec_decode(
        r->codec, (const char *)sqlite3_column_text(s, encoding), sqlite3_column_blob(s, data),
        (size_t)sqlite3_column_bytes(s, data), bytes, size, &inner);
    if (status != QPC_OK) {
        qpc_free(bytes);
        return qpc_fail(err, status, "%s: %s: %s", r->path, what, inner.message);
    }
    *ret = bytes;
    return QPC_OK;
}

qpc_status qpc_reader_list(qpc_reader *r, qpc_run_list list, int64_t step, void **ret,
                           int32_t *ret_count, size_t *ret_record_size, qpc_error *err) {
    sqlite3_stmt *s = r->list[list];
    const char *name = qpc_run_list_table(list);
    if (s == NULL)
        return qpc_fail(err, QPC_ERR_NOT_FOUND, "%s: written before there was a table %s", r->path,
                        name);
    sqlite3_bind_int64(s, 1, step);
    int rc = sqlite3_step(s);
    qpc_status status;
    uint8_t *bytes = NULL;
    int64_t count = 0, record_size = 0;
    if (rc == SQLITE_ROW) {
        count = sqlite3_column_int64(s, 0);
        record_size = sqlite3_column_int64(s, 1);
        if (count < 0 || count > INT32_MAX || record_size < 1 || record_size > 65536 ||
            count * record_size > 1000000000)
            status = qpc_fail(err, QPC_ERR_CORRUPT, "%s: %lld %s of %lld bytes in step %lld",
                              r->path, (long long)count, name, (long long)record_size, (long long)step);
        else
            status =
                decode_blob(r, s, 2, 3, (size_t)(count * record_size), name, &bytes, err);
    } else if (rc == SQLITE_DONE) {
        status = qpc_fail(err, QPC_ERR_NOT_FOUND, "%s: no %s are stored for step %lld",
                          r->path, name, (long long)step);
    } else {
        status = read_failed(r, rc, "cannot read a list of a step", err);
    }
    done(s);
    if (status != QPC_OK) return status;
    *ret = bytes;
    *ret_count = (int32_t)count;
    *ret_record_size = (size_t)record_size;
    return QPC_OK;
}

qpc_status qpc_reader_mesh(qpc_reader *r, const uint8_t sha256[32], uint8_t **ret, size_t *ret_size,
                           qpc_error *err) {
    char hex[65];
    qpc_hex_encode(sha256, 32, hex);
    sqlite3_stmt *s = r->mesh;
    sqlite3_bind_blob(s, 1, sha256, 32, SQLITE_STATIC);
    int rc = sqlite3_step(s);
    qpc_status status;
    uint8_t *bytes = NULL, found[32];
    int64_t size = 0;
    if (rc == SQLITE_ROW) {
        size = sqlite3_column_int64(s, 0);
        if (size < 0 || size > (int64_t)8 * 1000 * 1000 * 1000)
            status = qpc_fail(err, QPC_ERR_CORRUPT, "%s: mesh %s has a size of %lld", r->path, hex,
                              (long long)size);
        else
            status = decode_blob(r, s, 1, 2, (size_t)size, "mesh", &bytes, err);
    } else if (rc == SQLITE_DONE) {
        status = qpc_fail(err, QPC_ERR_NOT_FOUND, "%s: no mesh %s", r->path, hex);
    } else {
        status = read_failed(r, rc, "cannot read a mesh", err);
    }
    done(s);
    if (status == QPC_OK) status = qpc_sha256_of(bytes, (size_t)size, found, err);
    if (status == QPC_OK && memcmp(found, sha256, 32) != 0)
        status = qpc_fail(err, QPC_ERR_CORRUPT, "%s: the bytes of mesh %s do not have its hash",
                          r->path, hex);
    if (status != QPC_OK) {
        qpc_free(bytes);
        return status;
    }
    *ret = bytes;
    *ret_size = (size_t)size;
    return QPC_OK;
}

static qpc_status visit_texts(qpc_reader *r, sqlite3_stmt *s, bool events, int64_t from, int64_t to,
                              qpc_text_visit visit, void *user, qpc_error *err) {
    sqlite3_bind_int64(s, 1, from);
    sqlite3_bind_int64(s, 2, to);
    int rc;
    bool more = true;
    while (more && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        const char *kind = (const char *)sqlite3_column_text(s, 1);
        const char *subject = events ? (const char *)sqlite3_column_text(s, 2) : NULL;
        const char *text = (const char *)sqlite3_column_text(s, events ? 3 : 2);
        if (events && subject == NULL) subject = "";
        more = visit(user, sqlite3_column_int64(s, 0), kind != NULL ? kind : "", subject,
                     text != NULL ? text : "");
    }
    qpc_status status = QPC_OK;
    if (more && rc != SQLITE_DONE) status = read_failed(r, rc, "cannot read a log", err);
    done(s);
    return status;
}

qpc_status qpc_reader_commands(qpc_reader *reader, int64_t from, int64_t to, qpc_text_visit visit,
                               void *user, qpc_error *err) {
    return visit_texts(reader, reader->commands, false, from, to, visit, user, err);
}

qpc_status qpc_reader_events(qpc_reader *reader, int64_t from, int64_t to, qpc_text_visit visit,
                             void *user, qpc_error *err) {
    return visit_texts(reader, reader->events, true, from, to, visit, user, err);
}

// ---- export ----

static qpc_status copy_pages(sqlite3 *from, sqlite3 *to, qpc_error *err) {
    sqlite3_backup *backup = sqlite3_backup_init(to, "main", from, "main");
    if (backup == NULL)
        return qpc_store_fail(to, sqlite3_errcode(to), "cannot begin the export", err);
    // All pages in one go: one snapshot of the source.
    int rc = sqlite3_backup_step(backup, -1);
    int end = sqlite3_backup_finish(backup);
    if (rc == SQLITE_DONE && end == SQLITE_OK) return QPC_OK;
    sqlite3 *at_fault =
        sqlite3_errcode(to) != SQLITE_OK && sqlite3_errcode(to) != SQLITE_DONE ? to : from;
    return qpc_store_fail(at_fault, end != SQLITE_OK ? end : rc, "the export failed", err);
}

qpc_status qpc_run_export(const char *path, const char *out_path, qpc_error *err) {
    struct stat st;
    if (lstat(out_path, &st) == 0)
        return qpc_fail(err, QPC_ERR_EXISTS, "%s: exists already", out_path);
    sqlite3 *from = NULL, *to = NULL;
    char *temporary = NULL;
    qpc_status status = open_db(path, &from, err);
    if (status != QPC_OK) return status;
    size_t size;
    if (!qpc_add_size(strlen(out_path), 8, &size) || (temporary = qpc_alloc(size)) == NULL) {
        status = qpc_fail(err, QPC_ERR_MEMORY, "%s: out of memory", out_path);
        goto out;
    }
    snprintf(temporary, size, "%s.new", out_path);
    unlink(temporary);
    int rc = sqlite3_open_v2(
        temporary, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc != SQLITE_OK) {
        status =
            to == NULL
                ? qpc_fail(err, QPC_ERR_MEMORY, "%s: out of memory", out_path)
                : qpc_fail(err, QPC_ERR_IO, "%s: the export cannot be made: %s", out_path,
                           sqlite3_system_errno(to) != 0 ? qpc_store_why(sqlite3_system_errno(to))
                                                         : sqlite3_errmsg(to));
        goto out;
    }
    sqlite3_extended_result_codes(to, 1);
    status = qpc_store_exec(to, "PRAGMA synchronous=OFF", err);
    if (status == QPC_OK) status = copy_pages(from, to, err);
    // A copy is not being recorded; rollback mode, so that it is one file.
    if (status == QPC_OK)
        status = qpc_store_exec(
            to,
            "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=DELETE; "
            "UPDATE run SET state='exported' WHERE state IN ('created', 'recording')",
            err);
    if (status != QPC_OK) goto out;
    if (sqlite3_close(to) != SQLITE_OK) {
        status = qpc_fail(err, QPC_ERR_INTERNAL, "%s: a statement was left open", temporary);
        goto out;
    }
    to = NULL;
    int fd = open(temporary, O_RDWR | O_CLOEXEC);
    bool synced = fd >= 0 && fsync(fd) == 0;
    int why = errno;
    if (fd >= 0) close(fd);
    // link and unlink instead of rename: never over a file that came up meanwhile.
    if (synced && link(temporary, out_path) != 0) {
        why = errno;
        // A file system without links: rename it is.
        synced = why != EEXIST && rename(temporary, out_path) == 0;
    }
    if (!synced)
        status = qpc_fail(err,
                          why == EEXIST   ? QPC_ERR_EXISTS
                          : why == ENOSPC ? QPC_ERR_FULL
                                          : QPC_ERR_IO,
                          "%s: cannot be completed: %s", out_path, qpc_store_why(why));
out:
    sqlite3_close_v2(to);
    qpc_store_close(from);
    if (temporary != NULL) {
        static const char *const suffix[] = {"", "-wal", "-shm", "-journal"};
        char name[4096];
        for (size_t i = 0; i < sizeof suffix / sizeof suffix[0]; i++)
            if (snprintf(name, sizeof name, "%s%s", temporary, suffix[i]) < (int)sizeof name)
                unlink(name);
    }
    qpc_free(temporary);
    return status;
}
