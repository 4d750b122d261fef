/// One run file on the writing side: schema and facts at creation, then batches of records.
///
/// A batch is one transaction, rolled back as a whole on any error, so the caller may simply write
/// it again. Checkpoints are ours, not SQLite's automatic ones: a passive one after a commit when
/// the -wal holds 500 pages (4 MB); once everything is back in the main file a -wal larger than
/// QPC_WAL_KEEP_BYTES is truncated. Neither ever waits for a reader.
#include "storage/runfile.h"

#include "base/mem.h"
#include "schema_run.h"
#include "storage/store.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CHECKPOINT_PAGES = 500, COLUMN_NAME_MAX = 63, COLUMNS_MAX = 500 };

struct qpc_runfile {
    sqlite3 *db;
    char *path;
    bool wal;
    int wal_pages;  // as of the last commit
    bool oversized; // the -wal is longer than it should be; truncate when possible
    int32_t column_count;
    qpc_run_column *columns; // names in the same block
    int32_t step_column;     // the caller's column named step, or -1
    qpc_run_totals totals;
    sqlite3_stmt *begin, *commit, *rollback;
    sqlite3_stmt *frame, *step, *command, *event, *list[QPC_LIST_COUNT];
};

static double now_real(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// ---- creation ----

static qpc_status check_columns(const qpc_run_def *def, qpc_error *err) {
    if (def->column_count < 0 || def->column_count > COLUMNS_MAX)
        return qpc_fail(err, QPC_ERR_LIMIT, "%d columns of step diagnostics: at most %d",
                        def->column_count, COLUMNS_MAX);
    for (int32_t i = 0; i < def->column_count; i++) {
        const char *name = def->columns[i].name;
        size_t n = strlen(name);
        bool good =
            n > 0 && n <= COLUMN_NAME_MAX && (isalpha((unsigned char)name[0]) || name[0] == '_');
        for (size_t k = 0; good && k < n; k++)
            good = isalnum((unsigned char)name[k]) || name[k] == '_';
        if (!good)
            return qpc_fail(err, QPC_ERR_INVALID, "column %d: \"%.64s\" is not a plain identifier",
                            i, name);
        for (int32_t j = 0; j < i; j++)
            if (sqlite3_stricmp(name, def->columns[j].name) == 0)
                return qpc_fail(err, QPC_ERR_INVALID, "column %d: \"%s\" is there twice", i, name);
        if (sqlite3_stricmp(name, "step") == 0 && !def->columns[i].integer)
            return qpc_fail(err, QPC_ERR_INVALID, "column \"step\" must be an integer");
    }
    return QPC_OK;
}

static qpc_status check_def(const qpc_run_def *def, qpc_error *err) {
    if (!(isfinite(def->dt) && def->dt > 0))
        return qpc_fail_at(err, QPC_ERR_INVALID, "dt", "%g, must be finite and above 0", def->dt);
    if (def->frame_dtype != QPC_F32 && def->frame_dtype != QPC_F64)
        return qpc_fail_at(err, QPC_ERR_INVALID, "frame_dtype", "must be float32 or float64");
    if (def->frame_nodes < 0 || def->body_count < 0 || def->mesh_count < 0)
        return qpc_fail(err, QPC_ERR_INVALID, "a negative count of nodes, bodies or meshes");
    for (int32_t i = 0; i < def->body_count; i++)
        if (!isfinite(def->bodies[i].radius))
            return qpc_fail(err, QPC_ERR_INVALID, "bodies[%d].radius is not finite", i);
    return check_columns(def, err);
}

/// CREATE TABLE steps, or the INSERT into it; sqlite3_free.
static char *steps_sql(const qpc_run_column *columns, int32_t count, bool insert) {
    sqlite3_str *s = sqlite3_str_new(NULL);
    sqlite3_str_appendall(s, insert ? "INSERT INTO steps(step"
                                    : "CREATE TABLE steps(step INTEGER PRIMARY KEY");
    for (int32_t i = 0; i < count; i++) {
        if (sqlite3_stricmp(columns[i].name, "step") == 0) continue;
        sqlite3_str_appendf(s, ", \"%w\"", columns[i].name);
        if (!insert) sqlite3_str_appendall(s, columns[i].integer ? " INTEGER" : " REAL");
    }
    if (insert) {
        sqlite3_str_appendall(s, ") VALUES(?");
        for (int32_t i = 0; i < count; i++)
            if (sqlite3_stricmp(columns[i].name, "step") != 0) sqlite3_str_appendall(s, ", ?");
        sqlite3_str_appendall(s, ") ON CONFLICT DO NOTHING");
    } else {
        sqlite3_str_appendall(s, ")");
    }
    return sqlite3_str_finish(s);
}

static void bind_text(sqlite3_stmt *s, int i, const char *text) {
    sqlite3_bind_text(s, i, text != NULL ? text : "", -1, SQLITE_STATIC);
}

static qpc_status fill_facts(sqlite3 *db, const qpc_run_def *def, qpc_error *err) {
    sqlite3_stmt *s;
    qpc_status status = qpc_store_prepare(
        db, "INSERT INTO run VALUES(?, ?, ?, 'created', '', ?, NULL, ?, ?, ?, ?, ?, ?)", &s, err);
    if (status != QPC_OK) return status;
    bind_text(s, 1, def->id);
    sqlite3_bind_int64(s, 2, (int64_t)def->world);
    bind_text(s, 3, def->name);
    sqlite3_bind_double(s, 4, now_real());
    sqlite3_bind_double(s, 5, def->dt);
    sqlite3_bind_int64(s, 6, (int64_t)def->scene_hash);
    sqlite3_bind_int64(s, 7, (int64_t)def->start_hash);
    bind_text(s, 8, qpc_dtype_name(def->frame_dtype));
    sqlite3_bind_int(s, 9, def->frame_nodes);
    bind_text(s, 10, def->versions_json);
    status = qpc_store_run(db, s, "cannot store the facts of the run", err);
    sqlite3_finalize(s);
    if (status != QPC_OK) return status;

    status = qpc_store_prepare(db, "INSERT INTO scene VALUES(?)", &s, err);
    if (status != QPC_OK) return status;
    bind_text(s, 1, def->scene_json);
    status = qpc_store_run(db, s, "cannot store the scene", err);
    sqlite3_finalize(s);
    return status;
}

static qpc_status fill_bodies(sqlite3 *db, const qpc_run_def *def, qpc_error *err) {
    sqlite3_stmt *s;
    qpc_status status =
        qpc_store_prepare(db, "INSERT INTO bodies VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)", &s, err);
    for (int32_t i = 0; status == QPC_OK && i < def->body_count; i++) {
        const qpc_run_body *b = &def->bodies[i];
        sqlite3_bind_int(s, 1, i);
        bind_text(s, 2, b->name);
        bind_text(s, 3, b->kind);
        sqlite3_bind_int(s, 4, b->first_node);
        sqlite3_bind_int(s, 5, b->node_count);
        sqlite3_bind_int(s, 6, b->element_count);
        sqlite3_bind_int(s, 7, b->nodes_per_element);
        sqlite3_bind_double(s, 8, b->radius);
        if (b->mesh_sha256 != NULL) sqlite3_bind_blob(s, 9, b->mesh_sha256, 32, SQLITE_STATIC);
        status = qpc_store_run(db, s, "cannot store a body", err);
    }
    if (status == QPC_OK) sqlite3_finalize(s);
    return status;
}

static qpc_status fill_meshes(sqlite3 *db, const qpc_run_def *def, qpc_error *err) {
    if (def->mesh_count == 0) return QPC_OK;
    qpc_framecodec *codec = NULL;
    sqlite3_stmt *s = NULL;
    qpc_status status = qpc_framecodec_create(1, &codec, err);
    if (status == QPC_OK)
        status = qpc_store_prepare(
            db, "INSERT INTO meshes VALUES(?, ?, ?, ?) ON CONFLICT DO NOTHING", &s, err);
    for (int32_t i = 0; status == QPC_OK && i < def->mesh_count; i++) {
        const void *data;
        size_t size;
        const char *encoding;
        status = qpc_framecodec_encode(codec, def->meshes[i].bytes, def->meshes[i].size, &data,
                                       &size, &encoding, err);
        if (status != QPC_OK) break;
        sqlite3_bind_blob(s, 1, def->meshes[i].sha256, 32, SQLITE_STATIC);
        sqlite3_bind_int64(s, 2, (int64_t)def->meshes[i].size);
        bind_text(s, 3, encoding);
        if (sqlite3_bind_blob64(s, 4, data, size, SQLITE_STATIC) == SQLITE_TOOBIG) {
            status =
                qpc_fail(err, QPC_ERR_LIMIT, "meshes[%d]: %zu bytes do not fit a row", i, size);
            break;
        }
        status = qpc_store_run(db, s, "cannot store a mesh", err);
    }
    sqlite3_finalize(s);
    qpc_framecodec_destroy(codec);
    return status;
}

static qpc_status fill_file(void *user, sqlite3 *db, qpc_error *err) {
    const qpc_run_def *def = user;
    char *sql = steps_sql(def->columns, def->column_count, false);
    if (sql == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a run file");
    qpc_status status = qpc_store_exec(db, sql, err);
    sqlite3_free(sql);
    if (status == QPC_OK) status = fill_facts(db, def, err);
    if (status == QPC_OK) status = fill_bodies(db, def, err);
    if (status == QPC_OK) status = fill_meshes(db, def, err);
    return status;
}

static qpc_status copy_columns(qpc_runfile *file, const qpc_run_def *def, qpc_error *err) {
    size_t size = sizeof(qpc_run_column) * (size_t)def->column_count + 1;
    for (int32_t i = 0; i < def->column_count; i++) size += strlen(def->columns[i].name) + 1;
    file->columns = qpc_alloc(size);
    if (file->columns == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a run file");
    char *names = (char *)(file->columns + def->column_count);
    file->step_column = -1;
    for (int32_t i = 0; i < def->column_count; i++) {
        size_t n = strlen(def->columns[i].name) + 1;
        memcpy(names, def->columns[i].name, n);
        file->columns[i] = (qpc_run_column){names, def->columns[i].integer};
        if (sqlite3_stricmp(names, "step") == 0) file->step_column = i;
        names += n;
    }
    file->column_count = def->column_count;
    return QPC_OK;
}

static int on_wal(void *user, sqlite3 *db, const char *schema, int pages) {
    (void)db, (void)schema;
    ((qpc_runfile *)user)->wal_pages = pages;
    return SQLITE_OK;
}

static qpc_status prepare_all(qpc_runfile *file, qpc_error *err) {
    char *insert_step = steps_sql(file->columns, file->column_count, true);
    if (insert_step == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a run file");
    const struct {
        const char *sql;
        sqlite3_stmt **ret;
    } list[] = {
        {"BEGIN IMMEDIATE", &file->begin},
        {"COMMIT", &file->commit},
        {"ROLLBACK", &file->rollback},
        {"INSERT INTO frames(step, substep, time, hash, dtype, nodes, encoding, data) "
         "VALUES(?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
         &file->frame},
        {insert_step, &file->step},
        {"INSERT INTO commands(step, method, json) VALUES(?, ?, ?)", &file->command},
        {"INSERT INTO events(step, created, kind, subject, message) VALUES(?, ?, ?, ?, ?)",
         &file->event},
    };
    qpc_status status = QPC_OK;
    for (size_t i = 0; status == QPC_OK && i < sizeof list / sizeof list[0]; i++)
        status = qpc_store_prepare(file->db, list[i].sql, list[i].ret, err);
    sqlite3_free(insert_step);
    for (int32_t i = 0; status == QPC_OK && i < QPC_LIST_COUNT; i++) {
        char sql[96];
        snprintf(sql, sizeof sql, "INSERT INTO %s VALUES(?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                 qpc_run_list_table((qpc_run_list)i));
        status = qpc_store_prepare(file->db, sql, &file->list[i], err);
    }
    return status;
}

static void runfile_free(qpc_runfile *file) {
    qpc_store_close(file->db); // finalises the statements
    qpc_free(file->columns);
    qpc_free(file->path);
    qpc_free(file);
}

static void unlink_with_journals(const char *path) {
    static const char *const suffix[] = {"", "-wal", "-shm", "-journal"};
    char name[4096];
    for (size_t i = 0; i < sizeof suffix / sizeof suffix[0]; i++)
        if (snprintf(name, sizeof name, "%s%s", path, suffix[i]) < (int)sizeof name) unlink(name);
}

qpc_status qpc_runfile_create(const char *path, const qpc_run_def *def, qpc_runfile **ret,
                              qpc_error *err) {
    qpc_status status = check_def(def, err);
    if (status != QPC_OK) return status;
    qpc_runfile *file = qpc_calloc(1, sizeof *file);
    if (file == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a run file");
    bool made = false;
    file->path = qpc_strdup(path);
    status = file->path != NULL ? copy_columns(file, def, err)
                                : qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a run file");
    if (status == QPC_OK) {
        qpc_run_def copy = *def; // the callback takes no const
        status =
            qpc_store_create(path, QPC_RUN_APPLICATION_ID, qpc_schema_run, fill_file, &copy, err);
        made = status == QPC_OK;
    }
    if (status == QPC_OK)
        status = qpc_store_open(path, QPC_OPEN_WRITE, QPC_RUN_APPLICATION_ID, NULL, &file->db, err);
    if (status == QPC_OK) {
        file->wal = qpc_store_is_wal(file->db);
        if (file->wal) sqlite3_wal_hook(file->db, on_wal, file); // replaces automatic checkpoints
        // The first write of the recording: from here on the main file alone is not the run.
        status = qpc_store_exec(file->db,
                                file->wal ? "UPDATE run SET state='recording', journal='wal'"
                                          : "UPDATE run SET state='recording', journal='truncate'",
                                err);
    }
    if (status == QPC_OK) status = prepare_all(file, err);
    if (status != QPC_OK) {
        runfile_free(file);
        if (made) unlink_with_journals(path);
        return status;
    }
    // The writer thread serves all runs: a lock is waited for by trying again later. In rollback
    // mode a commit needs readers to leave, which a short wait (it keeps new ones out) helps.
    sqlite3_busy_timeout(file->db, file->wal ? 0 : 100);
    *ret = file;
    return QPC_OK;
}

// ---- writing ----

static qpc_status write_event(qpc_runfile *file, int64_t step, const char *kind,
                              const char *subject, const char *message, qpc_error *err) {
    sqlite3_stmt *s = file->event;
    sqlite3_bind_int64(s, 1, step);
    sqlite3_bind_double(s, 2, now_real());
    bind_text(s, 3, kind);
    if (subject != NULL) bind_text(s, 4, subject);
    bind_text(s, 5, message);
    return qpc_store_run(file->db, s, "cannot store an event", err);
}

static const char *non_finite_name(double v) {
    return isnan(v) ? "nan" : v > 0 ? "inf" : "-inf";
}

/// SQLite keeps NaN as NULL; infinities it could keep, but then no SQL arithmetic is safe.
static void bind_real(sqlite3_stmt *s, int i, double v) {
    if (isfinite(v))
        sqlite3_bind_double(s, i, v);
    else
        sqlite3_bind_null(s, i);
}

/// An INSERT that found its key taken wrote nothing: keep the first, say so.
static qpc_status note_duplicate(qpc_runfile *file, int64_t step, const char *table,
                                 qpc_error *err) {
    if (sqlite3_changes(file->db) > 0) return QPC_OK;
    return write_event(file, step, "duplicate", table, "a second record of this step was dropped",
                       err);
}

static qpc_status write_frame(qpc_runfile *file, const qpc_record *r, qpc_framecodec *codec,
                              uint64_t *bytes, qpc_run_totals *totals, qpc_error *err) {
    const void *data;
    size_t size;
    const char *encoding;
    qpc_status status =
        qpc_framecodec_encode_planes(codec, r->data, (size_t)r->count, 3, qpc_dtype_size(r->dtype),
                                     &data, &size, &encoding, err);
    if (status != QPC_OK) return status;
    sqlite3_stmt *s = file->frame;
    sqlite3_bind_int64(s, 1, r->step);
    sqlite3_bind_int(s, 2, r->substep);
    bind_real(s, 3, r->time);
    sqlite3_bind_int64(s, 4, (int64_t)r->hash);
    bind_text(s, 5, qpc_dtype_name(r->dtype));
    sqlite3_bind_int(s, 6, r->count);
    bind_text(s, 7, encoding);
    sqlite3_bind_blob64(s, 8, data, size, SQLITE_STATIC);
    status = qpc_store_run(file->db, s, "cannot store a frame", err);
    if (status != QPC_OK) return status;
    if (sqlite3_changes(file->db) == 0) return note_duplicate(file, r->step, "frames", err);
    *bytes += size;
    if (r->substep < 0) {
        totals->frames++;
        if (r->step > totals->steps) totals->steps = r->step;
    }
    if (!isfinite(r->time))
        return write_event(file, r->step, "non-finite", "frames.time", non_finite_name(r->time),
                           err);
    return QPC_OK;
}

static qpc_status write_step(qpc_runfile *file, const qpc_record *r, uint64_t *bytes,
                             qpc_run_totals *totals, qpc_error *err) {
    sqlite3_stmt *s = file->step;
    int32_t bad = 0;
    sqlite3_bind_int64(s, 1, r->step);
    int at = 2;
    for (int32_t i = 0; i < file->column_count; i++) {
        if (i == file->step_column) continue; // the key
        if (file->columns[i].integer) {
            int64_t v;
            memcpy(&v, r->data + 8 * (size_t)i, 8);
            sqlite3_bind_int64(s, at++, v);
        } else {
            double v;
            memcpy(&v, r->data + 8 * (size_t)i, 8);
            bind_real(s, at++, v);
            if (!isfinite(v)) bad++;
        }
    }
    qpc_status status = qpc_store_run(file->db, s, "cannot store a row of steps", err);
    if (status != QPC_OK) return status;
    if (sqlite3_changes(file->db) == 0) return note_duplicate(file, r->step, "steps", err);
    *bytes += r->payload;
    if (r->step > totals->steps) totals->steps = r->step;
    for (int32_t i = 0; status == QPC_OK && bad > 0 && i < file->column_count; i++) {
        double v;
        memcpy(&v, r->data + 8 * (size_t)i, 8);
        if (file->columns[i].integer || i == file->step_column || isfinite(v)) continue;
        char subject[COLUMN_NAME_MAX + 8];
        snprintf(subject, sizeof subject, "steps.%s", file->columns[i].name);
        status = write_event(file, r->step, "non-finite", subject, non_finite_name(v), err);
        bad--;
    }
    return status;
}

static qpc_status write_list(qpc_runfile *file, const qpc_record *r, qpc_framecodec *codec,
                             uint64_t *bytes, qpc_error *err) {
    const void *data;
    size_t size;
    const char *encoding;
    qpc_status status =
        qpc_framecodec_encode(codec, r->data, r->payload, &data, &size, &encoding, err);
    if (status != QPC_OK) return status;
    sqlite3_stmt *s = file->list[r->list];
    sqlite3_bind_int64(s, 1, r->step);
    sqlite3_bind_int(s, 2, r->count);
    sqlite3_bind_int64(s, 3, (int64_t)r->item_size);
    bind_text(s, 4, encoding);
    sqlite3_bind_blob64(s, 5, data, size, SQLITE_STATIC);
    status = qpc_store_run(file->db, s, "cannot store a list of a step", err);
    if (status != QPC_OK) return status;
    *bytes += size;
    return note_duplicate(file, r->step, qpc_run_list_table(r->list), err);
}

static qpc_status write_texts(qpc_runfile *file, const qpc_record *r, uint64_t *bytes,
                              qpc_error *err) {
    const char *first = (const char *)r->data, *second = first + strlen(first) + 1;
    *bytes += r->payload;
    if (r->kind == QPC_RECORD_EVENT) return write_event(file, r->step, first, NULL, second, err);
    sqlite3_bind_int64(file->command, 1, r->step);
    bind_text(file->command, 2, first);
    bind_text(file->command, 3, second);
    return qpc_store_run(file->db, file->command, "cannot store a command", err);
}

static qpc_status write_gap(qpc_runfile *file, const qpc_run_gap *gap, qpc_error *err) {
    char message[400];
    snprintf(message, sizeof message, "%lld records of steps %lld to %lld were not recorded: %s",
             (long long)gap->count, (long long)gap->first_step, (long long)gap->last_step,
             gap->reason);
    return write_event(file, gap->last_step, "gap", NULL, message, err);
}

qpc_status qpc_runfile_write(qpc_runfile *file, const qpc_record *list, const qpc_run_gap *gap,
                             qpc_framecodec *codec, uint64_t *ret_bytes, qpc_error *err) {
    uint64_t bytes = 0;
    qpc_run_totals totals = file->totals;
    qpc_status status = qpc_store_run(file->db, file->begin, "cannot begin a batch", err);
    if (status != QPC_OK) return status;
    for (const qpc_record *r = list; status == QPC_OK && r != NULL; r = r->next) {
        switch (r->kind) {
        case QPC_RECORD_FRAME:
            status = write_frame(file, r, codec, &bytes, &totals, err);
            break;
        case QPC_RECORD_STEP:
            status = write_step(file, r, &bytes, &totals, err);
            break;
        case QPC_RECORD_LIST:
            status = write_list(file, r, codec, &bytes, err);
            break;
        case QPC_RECORD_COMMAND:
        case QPC_RECORD_EVENT:
            status = write_texts(file, r, &bytes, err);
            break;
        }
    }
    if (status == QPC_OK && gap != NULL && gap->count > 0) status = write_gap(file, gap, err);
    if (status == QPC_OK)
        status = qpc_store_run(file->db, file->commit, "cannot commit a batch", err);
    if (status != QPC_OK) {
        // Some errors roll back by themselves.
        if (sqlite3_get_autocommit(file->db) == 0)
            qpc_store_run(file->db, file->rollback, "cannot roll back", NULL);
        return status;
    }
    file->totals = totals;
    *ret_bytes = bytes;
    return QPC_OK;
}

// ---- checkpoints and the end ----

static int64_t size_of(const char *path, const char *suffix) {
    char name[4096];
    struct stat st;
    if (snprintf(name, sizeof name, "%s%s", path, suffix) >= (int)sizeof name) return 0;
    return stat(name, &st) == 0 ? (int64_t)st.st_size : 0;
}

bool qpc_runfile_wants_checkpoint(const qpc_runfile *file) {
    return file->wal && (file->wal_pages >= CHECKPOINT_PAGES || file->oversized);
}

bool qpc_runfile_has_wal(const qpc_runfile *file) {
    return file->wal && file->wal_pages > 0;
}

qpc_status qpc_runfile_checkpoint(qpc_runfile *file, bool *ret_blocked, qpc_error *err) {
    *ret_blocked = false;
    if (!file->wal) return QPC_OK;
    int in_log = 0, done = 0;
    errno = 0;
    int rc = sqlite3_wal_checkpoint_v2(file->db, NULL, SQLITE_CHECKPOINT_PASSIVE, &in_log, &done);
    bool blocked = (rc & 0xff) == SQLITE_BUSY || (rc == SQLITE_OK && done < in_log);
    if (rc != SQLITE_OK && !blocked) return qpc_store_fail(file->db, rc, "cannot checkpoint", err);
    file->oversized = size_of(file->path, "-wal") > QPC_WAL_KEEP_BYTES;
    if (!blocked) file->wal_pages = 0; // the next commit starts the -wal from its beginning
    if (!blocked && file->oversized) {
        rc = sqlite3_wal_checkpoint_v2(file->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
        if (rc == SQLITE_OK)
            file->oversized = false;
        else if ((rc & 0xff) == SQLITE_BUSY)
            blocked = true;
        else
            return qpc_store_fail(file->db, rc, "cannot truncate the -wal", err);
    }
    *ret_blocked = blocked;
    return QPC_OK;
}

qpc_run_totals qpc_runfile_totals(const qpc_runfile *file) {
    qpc_run_totals totals = file->totals;
    totals.bytes = size_of(file->path, "") + (file->wal ? size_of(file->path, "-wal") : 0);
    return totals;
}

bool qpc_runfile_is_wal(const qpc_runfile *file) {
    return file->wal;
}

static qpc_status mark_state(sqlite3 *db, const char *state, qpc_error *err) {
    sqlite3_stmt *s;
    qpc_status status = qpc_store_prepare(db, "UPDATE run SET state=?, closed=?", &s, err);
    if (status != QPC_OK) return status;
    bind_text(s, 1, state);
    sqlite3_bind_double(s, 2, now_real());
    status = qpc_store_run(db, s, "cannot mark the run", err);
    sqlite3_finalize(s);
    return status;
}

qpc_status qpc_runfile_close(qpc_runfile *file, bool mark, qpc_run_totals *ret_totals,
                             qpc_error *err) {
    qpc_status status = QPC_OK;
    if (mark) {
        sqlite3_busy_timeout(file->db, 1000);
        status = mark_state(file->db, "closed", err);
    }
    qpc_run_totals totals = file->totals;
    char *path = file->path;
    file->path = NULL;
    runfile_free(file);
    totals.bytes = size_of(path, "") + size_of(path, "-wal");
    *ret_totals = totals;
    qpc_free(path);
    return status;
}

qpc_status qpc_runfile_recover(const char *path, qpc_run_totals *ret, bool *ret_crashed,
                               qpc_error *err) {
    sqlite3 *db = NULL;
    qpc_run_totals totals = {0};
    int64_t frame_step = 0, recording = 0, closed = 0;
    qpc_status status =
        qpc_store_open(path, QPC_OPEN_WRITE, QPC_RUN_APPLICATION_ID, NULL, &db, err);
    if (status != QPC_OK) return status;
    status = qpc_store_get_int(db, "SELECT coalesce(max(step), 0) FROM steps", &totals.steps, err);
    if (status == QPC_OK)
        status = qpc_store_get_int(db,
                                   "SELECT coalesce((SELECT step FROM frames WHERE substep = -1 "
                                   "ORDER BY step DESC LIMIT 1), 0)",
                                   &frame_step, err);
    if (status == QPC_OK)
        status = qpc_store_get_int(db, "SELECT count(*) FROM frames WHERE substep = -1",
                                   &totals.frames, err);
    if (status == QPC_OK)
        status = qpc_store_get_int(
            db, "SELECT count(*) FROM run WHERE state IN ('created', 'recording')", &recording,
            err);
    // A process may also have been killed after it had marked the file and before the catalogue.
    if (status == QPC_OK)
        status =
            qpc_store_get_int(db, "SELECT count(*) FROM run WHERE state = 'closed'", &closed, err);
    if (frame_step > totals.steps) totals.steps = frame_step;
    if (status == QPC_OK && recording > 0) status = mark_state(db, "crashed", err);
    qpc_store_close(db);
    if (status != QPC_OK) return status;
    totals.bytes = size_of(path, "");
    *ret = totals;
    *ret_crashed = closed == 0;
    return QPC_OK;
}
