/// SQLite files of ours: creation as a whole, refusal of foreign files, journal modes, error texts.
///
/// A file is looked at through an `immutable` connection before anything else touches it: that one
/// never makes a -wal, -shm or -journal, never rolls back, and (unlike open and close of a
/// descriptor of our own) never drops the POSIX locks of other connections of this process.
/// New files are written under another name and renamed, so that a path holds all or nothing.
#include "storage/store.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

// ---- errors ----

const char *qpc_store_why(int system_error) {
    const char *text = strerrordesc_np(system_error);
    return text != NULL ? text : "unknown system error";
}

void qpc_store_copy_text(char *out, size_t size, const char *text) {
    size_t n = text != NULL ? strlen(text) : 0;
    if (n >= size) {
        n = size - 1;
        while (n > 0 && ((unsigned char)text[n] & 0xC0U) == 0x80U) n--;
    }
    if (n > 0) memcpy(out, text, n);
    out[n] = '\0';
}

/// The errno behind an I/O error. SQLite keeps it for some errors only (not for those of COMMIT);
/// its VFS knows the last one of this thread, which is ours since we set errno to 0 before a step.
static int errno_of(sqlite3 *db) {
    sqlite3_vfs *vfs = NULL;
    int code = 0;
    if (sqlite3_file_control(db, "main", SQLITE_FCNTL_VFS_POINTER, &vfs) == SQLITE_OK &&
        vfs != NULL && vfs->xGetLastError != NULL)
        code = vfs->xGetLastError(vfs, 0, NULL);
    return code != 0 ? code : sqlite3_system_errno(db);
}

qpc_status qpc_store_fail(sqlite3 *db, int rc, const char *what, qpc_error *err) {
    if (db == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "%s: out of memory", what);
    int system_error = errno_of(db);
    const char *path = sqlite3_db_filename(db, "main");
    qpc_status status = QPC_ERR_INTERNAL;
    bool show_errno = false;
    switch (rc & 0xff) {
    case SQLITE_FULL:
        status = QPC_ERR_FULL;
        break;
    case SQLITE_IOERR:
        show_errno = system_error != 0;
        // EFBIG is a file size limit (ulimit -f), EDQUOT a quota: to a user they are a full disk.
        status = system_error == ENOSPC || system_error == EFBIG || system_error == EDQUOT
                     ? QPC_ERR_FULL
                     : QPC_ERR_IO;
        if (rc == SQLITE_IOERR_NOMEM) status = QPC_ERR_MEMORY;
        break;
    case SQLITE_CANTOPEN:
        show_errno = system_error != 0;
        status = QPC_ERR_IO;
        break;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        status = QPC_ERR_IO;
        break;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        status = QPC_ERR_BUSY;
        break;
    case SQLITE_NOMEM:
        status = QPC_ERR_MEMORY;
        break;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        status = QPC_ERR_CORRUPT;
        break;
    case SQLITE_TOOBIG:
        status = QPC_ERR_LIMIT;
        break;
    default:
        break;
    }
    const char *text = (sqlite3_extended_errcode(db) & 0xff) == (rc & 0xff) ? sqlite3_errmsg(db)
                                                                            : sqlite3_errstr(rc);
    char reason[128] = "";
    if (show_errno) snprintf(reason, sizeof reason, ": %s", qpc_store_why(system_error));
    return qpc_fail(err, status, "%s: %s: %s (SQLite %d)%s",
                    path != NULL && path[0] != '\0' ? path : "database", what, text, rc, reason);
}

// ---- journal modes ----

bool qpc_store_wal_allowed(int64_t file_system_type, const char **ret_name) {
    // WAL needs shared memory that every process on the file sees: not given over a network, and
    // not to be relied upon through a user-space server. Types as in <linux/magic.h>.
    static const struct {
        uint32_t type;
        const char *name;
    } remote[] = {
        {0x00006969U, "NFS"},         {0xFF534D42U, "CIFS"},   {0xFE534D42U, "SMB2"},
        {0x0000517BU, "SMB"},         {0x01021997U, "9P"},     {0x65735546U, "FUSE"},
        {0x5346414FU, "AFS"},         {0x6B414653U, "kAFS"},   {0x00C36400U, "Ceph"},
        {0x73757245U, "Coda"},        {0x0000564CU, "NCP"},    {0x01161970U, "GFS2"},
        {0x7461636FU, "OCFS2"},       {0x0BD00BD0U, "Lustre"}, {0x786F4256U, "vboxsf"},
        {0xBACBACBCU, "VMware hgfs"},
    };
    uint32_t type = (uint32_t)file_system_type; // f_type is a signed long on some machines
    for (size_t i = 0; i < sizeof remote / sizeof remote[0]; i++) {
        if (remote[i].type != type) continue;
        if (ret_name != NULL) *ret_name = remote[i].name;
        return false;
    }
    if (ret_name != NULL) *ret_name = "local";
    return true;
}

bool qpc_store_wal_allowed_at(const char *path, const char **ret_name) {
    struct statfs fs;
    if (statfs(path, &fs) != 0) {
        char folder[4096];
        int n = snprintf(folder, sizeof folder, "%s", path);
        char *slash = n > 0 && n < (int)sizeof folder ? strrchr(folder, '/') : NULL;
        if (slash == folder) slash++;
        if (slash != NULL) *slash = '\0';
        if (statfs(slash != NULL ? folder : ".", &fs) != 0) {
            if (ret_name != NULL) *ret_name = "unknown";
            return false;
        }
    }
    return qpc_store_wal_allowed((int64_t)fs.f_type, ret_name);
}

/// Ask for a journal mode; true if SQLite answers that it is the one now.
static bool set_journal(sqlite3 *db, const char *mode) {
    char sql[64];
    snprintf(sql, sizeof sql, "PRAGMA journal_mode=%s", mode);
    sqlite3_stmt *s = NULL;
    bool is = false;
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW) {
        const char *answer = (const char *)sqlite3_column_text(s, 0);
        is = answer != NULL && sqlite3_stricmp(answer, mode) == 0;
    }
    return sqlite3_finalize(s) == SQLITE_OK && is;
}

bool qpc_store_is_wal(sqlite3 *db) {
    sqlite3_stmt *s = NULL;
    bool wal = false;
    if (sqlite3_prepare_v2(db, "PRAGMA journal_mode", -1, &s, NULL) == SQLITE_OK &&
        sqlite3_step(s) == SQLITE_ROW) {
        const char *answer = (const char *)sqlite3_column_text(s, 0);
        wal = answer != NULL && sqlite3_stricmp(answer, "wal") == 0;
    }
    sqlite3_finalize(s);
    return wal;
}

// ---- statements ----

qpc_status qpc_store_exec(sqlite3 *db, const char *sql, qpc_error *err) {
    errno = 0;
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    if (rc == SQLITE_OK) return QPC_OK;
    char what[64];
    snprintf(what, sizeof what, "%.60s", sql);
    what[strcspn(what, "\n(;")] = '\0';
    return qpc_store_fail(db, sqlite3_extended_errcode(db), what, err);
}

qpc_status qpc_store_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret, qpc_error *err) {
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &s, NULL);
    if (rc != SQLITE_OK) return qpc_store_fail(db, rc, "cannot prepare a statement", err);
    *ret = s;
    return QPC_OK;
}

qpc_status qpc_store_run(sqlite3 *db, sqlite3_stmt *statement, const char *what, qpc_error *err) {
    errno = 0;
    int rc = sqlite3_step(statement);
    qpc_status status = QPC_OK;
    if (rc != SQLITE_DONE) status = qpc_store_fail(db, rc, what, err);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return status;
}

qpc_status qpc_store_get_int(sqlite3 *db, const char *sql, int64_t *ret, qpc_error *err) {
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &s, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_step(s);
    qpc_status status = QPC_OK;
    if (rc == SQLITE_ROW)
        *ret = sqlite3_column_int64(s, 0);
    else
        status = qpc_store_fail(db, rc == SQLITE_DONE ? SQLITE_CORRUPT : rc, sql, err);
    sqlite3_finalize(s);
    return status;
}

// ---- opening ----

/// "file:" URI of path with what is special in URIs escaped; newly allocated.
static char *uri_of(const char *path, const char *query) {
    size_t length = strlen(path), size;
    if (!qpc_mul_size(length, 3, &size) || !qpc_add_size(size, strlen(query) + 32, &size))
        return NULL;
    char *uri = qpc_alloc(size);
    if (uri == NULL) return NULL;
    char *out = uri + sprintf(uri, "file:");
    if (path[0] == '/') out += sprintf(out, "//"); // an empty authority: /a//b stays a path
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)path[i];
        if (c == '%' || c == '?' || c == '#' || c < 0x20)
            out += sprintf(out, "%%%02x", c);
        else
            *out++ = (char)c;
    }
    sprintf(out, "?%s", query);
    return uri;
}

static qpc_status open_connection(const char *path, int flags, const char *query, sqlite3 **ret,
                                  qpc_error *err) {
    char *uri = uri_of(path, query);
    if (uri == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "%s: out of memory", path);
    sqlite3 *db = NULL;
    int rc = sqlite3_open_v2(uri, &db, flags | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
    qpc_free(uri);
    if (rc != SQLITE_OK) {
        if (db == NULL || (rc & 0xff) == SQLITE_NOMEM)
            qpc_fail(err, QPC_ERR_MEMORY, "%s: out of memory", path);
        else
            qpc_fail(err, QPC_ERR_IO, "%s: cannot be opened: %s", path,
                     sqlite3_system_errno(db) != 0 ? qpc_store_why(sqlite3_system_errno(db))
                                                   : sqlite3_errmsg(db));
        bool memory = db == NULL || (rc & 0xff) == SQLITE_NOMEM;
        sqlite3_close(db);
        return memory ? QPC_ERR_MEMORY : QPC_ERR_IO;
    }
    sqlite3_extended_result_codes(db, 1);
    *ret = db;
    return QPC_OK;
}

static int read_header(sqlite3 *db, unsigned char header[100]) {
    sqlite3_file *file = NULL;
    int rc = sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (rc == SQLITE_OK && file != NULL && file->pMethods != NULL)
        rc = file->pMethods->xRead(file, header, 100, 0);
    return rc;
}

bool qpc_store_header_is_wal(sqlite3 *db) {
    unsigned char header[100] = {0};
    return read_header(db, header) == SQLITE_OK && header[18] == 2;
}

static uint32_t big_endian(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

static void fourcc(int64_t id, char out[5]) {
    for (int i = 0; i < 4; i++) {
        int c = (int)((uint64_t)id >> (24 - 8 * i) & 0xff);
        out[i] = c >= 0x20 && c < 0x7f ? (char)c : '.';
    }
    out[4] = '\0';
}

/// Schema version that this program writes; older ones are read.
static int version_of(int32_t application_id) {
    return application_id == QPC_RUN_APPLICATION_ID ? QPC_RUN_VERSION : QPC_CATALOG_VERSION;
}

/// Is it ours? db is an immutable connection to path. The header is read as bytes: during a
/// checkpoint of a recording the pages behind it may not fit it for a moment.
static qpc_status check_identity(sqlite3 *db, const char *path, int32_t application_id,
                                 qpc_error *err) {
    unsigned char header[100] = {0};
    int rc = read_header(db, header);
    if (rc != SQLITE_OK && rc != SQLITE_IOERR_SHORT_READ)
        return qpc_fail(err, QPC_ERR_IO, "%s: cannot be read: %s", path, sqlite3_errstr(rc));
    if (rc != SQLITE_OK || memcmp(header, "SQLite format 3", 16) != 0)
        return qpc_fail(err, QPC_ERR_CORRUPT, "%s: this file is not a database", path);
    const int supported = version_of(application_id);
    int64_t id = big_endian(header + 68), version = (int32_t)big_endian(header + 60);
    if (id != application_id) {
        char found[5], wanted[5];
        fourcc(id, found);
        fourcc(application_id, wanted);
        return qpc_fail(
            err, QPC_ERR_CORRUPT,
            "%s: a database, but not one of this program's %s (application_id is 0x%08llx \"%s\", "
            "wanted 0x%08llx \"%s\"; its schema version is %lld, supported is %d)",
            path, application_id == QPC_RUN_APPLICATION_ID ? "run files" : "catalogues",
            (unsigned long long)(uint32_t)id, found, (unsigned long long)(uint32_t)application_id,
            wanted, (long long)version, supported);
    }
    if (version > supported)
        return qpc_fail(
            err, QPC_ERR_CORRUPT,
            "%s: written by a newer version of this program: schema version %lld found, "
            "%d supported",
            path, (long long)version, supported);
    if (version < 1)
        return qpc_fail(err, QPC_ERR_CORRUPT,
                        "%s: schema version %lld found, %d supported: the file was never completed",
                        path, (long long)version, supported);
    return QPC_OK;
}

qpc_status qpc_store_create(const char *path, int32_t application_id, const char *schema,
                            qpc_store_fill fill, void *user, qpc_error *err) {
    struct stat st;
    if (stat(path, &st) == 0 && st.st_size > 0)
        return qpc_fail(err, QPC_ERR_EXISTS, "%s: exists already", path);
    size_t size;
    char *temporary = NULL;
    if (!qpc_add_size(strlen(path), 8, &size) || (temporary = qpc_alloc(size)) == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "%s: out of memory", path);
    snprintf(temporary, size, "%s.new", path);
    unlink(temporary); // of a process that died in here

    // No journal and no syncs: until the rename the file counts for nothing.
    sqlite3 *db = NULL;
    qpc_status status =
        open_connection(temporary, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "", &db, err);
    if (status != QPC_OK) goto out;
    char identity[128];
    snprintf(identity, sizeof identity, "PRAGMA application_id=%d; PRAGMA user_version=%d",
             application_id, version_of(application_id));
    // 8 KiB pages: rows of small frames fill them better than 4 KiB ones, and the few pages that
    // every batch writes again stay small.
    status = qpc_store_exec(
        db, "PRAGMA page_size=8192; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN", err);
    if (status == QPC_OK) status = qpc_store_exec(db, identity, err);
    if (status == QPC_OK) status = qpc_store_exec(db, schema, err);
    if (status == QPC_OK && fill != NULL) status = fill(user, db, err);
    if (status == QPC_OK) status = qpc_store_exec(db, "COMMIT", err);
    if (status != QPC_OK) goto out;
    // The switch to WAL is in the header; made here it costs no sync. A file system without shared
    // memory answers another mode, which is not an error.
    if (qpc_store_wal_allowed_at(temporary, NULL) && !set_journal(db, "wal")) {
        int rc = sqlite3_extended_errcode(db), primary = rc & 0xff;
        if (primary == SQLITE_FULL || primary == SQLITE_IOERR || primary == SQLITE_NOMEM)
            status = qpc_store_fail(db, rc, "cannot choose WAL", err);
        if (status != QPC_OK) goto out;
    }
    if (sqlite3_close(db) != SQLITE_OK) {
        status = qpc_fail(err, QPC_ERR_INTERNAL, "%s: a statement was left open", temporary);
        goto out;
    }
    db = NULL;

    // Content first, then the name. Nobody else has this file open, so plain descriptors are safe.
    int fd = open(temporary, O_RDWR | O_CLOEXEC);
    bool synced = fd >= 0 && fsync(fd) == 0;
    int saved = errno;
    if (fd >= 0) close(fd);
    if (!synced) {
        status = qpc_fail(err, saved == ENOSPC || saved == EDQUOT ? QPC_ERR_FULL : QPC_ERR_IO,
                          "%s: cannot be synced: %s", temporary, qpc_store_why(saved));
        goto out;
    }
    if (rename(temporary, path) != 0) {
        status = qpc_fail(err, QPC_ERR_IO, "%s: cannot be renamed to %s: %s", temporary, path,
                          qpc_store_why(errno));
        goto out;
    }
    char *slash = strrchr(temporary, '/'); // the folder; its sync is best effort
    if (slash != NULL) slash[slash == temporary ? 1 : 0] = '\0';
    fd = open(slash != NULL ? temporary : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    qpc_free(temporary);
    return QPC_OK;

out:
    sqlite3_close_v2(db);
    unlink(temporary);
    qpc_free(temporary);
    return status;
}

/// Pragmas of a writable connection. The mode that SQLite answers counts, not the one asked for.
static qpc_status prepare_writable(sqlite3 *db, const char *path, qpc_error *err) {
    bool wal = qpc_store_wal_allowed_at(path, NULL) && set_journal(db, "wal");
    if (!wal && !set_journal(db, "truncate")) {
        int rc = sqlite3_extended_errcode(db);
        if (rc != SQLITE_OK && rc != SQLITE_ROW && rc != SQLITE_DONE)
            return qpc_store_fail(db, rc, "cannot choose a journal mode", err);
        return qpc_fail(err, QPC_ERR_IO, "%s: neither WAL nor a truncated journal can be had",
                        path);
    }
    char sql[256];
    snprintf(sql, sizeof sql,
             "PRAGMA synchronous=NORMAL; PRAGMA journal_size_limit=%d; PRAGMA secure_delete=OFF; "
             "PRAGMA temp_store=MEMORY; PRAGMA trusted_schema=OFF",
             QPC_WAL_KEEP_BYTES);
    return qpc_store_exec(db, sql, err);
}

qpc_status qpc_store_open(const char *path, qpc_open_mode mode, int32_t application_id,
                          const char *schema, sqlite3 **ret, qpc_error *err) {
    struct stat st;
    bool there = stat(path, &st) == 0;
    if (!there && errno != ENOENT)
        return qpc_fail(err, QPC_ERR_IO, "%s: %s", path, qpc_store_why(errno));
    if (there && !S_ISREG(st.st_mode))
        return qpc_fail(err, QPC_ERR_IO, "%s: is not a regular file", path);
    if (mode == QPC_OPEN_CREATE && (!there || st.st_size == 0)) {
        qpc_status status = qpc_store_create(path, application_id, schema, NULL, NULL, err);
        if (status != QPC_OK) return status;
    } else if (!there) {
        return qpc_fail(err, QPC_ERR_NOT_FOUND, "%s: no such file", path);
    } else if (st.st_size == 0) {
        return qpc_fail(err, QPC_ERR_CORRUPT, "%s: this file is empty, not a database", path);
    }

    sqlite3 *db = NULL;
    qpc_status status = open_connection(path, SQLITE_OPEN_READONLY, "immutable=1", &db, err);
    if (status != QPC_OK) return status;
    status = check_identity(db, path, application_id, err);
    if (status == QPC_OK && mode == QPC_OPEN_IMMUTABLE) {
        *ret = db;
        return QPC_OK;
    }
    sqlite3_close_v2(db);
    db = NULL;
    if (status != QPC_OK) return status;

    int flags = mode == QPC_OPEN_READ ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
    status = open_connection(path, flags, "", &db, err);
    if (status != QPC_OK) return status;
    if (mode == QPC_OPEN_READ) {
        sqlite3_busy_timeout(db, 2000); // a moment of recovery or, in rollback mode, of a commit
        status = qpc_store_exec(db, "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON", err);
    } else if (sqlite3_db_readonly(db, "main") != 0) {
        status = qpc_fail(err, QPC_ERR_IO, "%s: is read-only", path);
    } else {
        sqlite3_busy_timeout(db, 500);
        status = prepare_writable(db, path, err);
    }
    int64_t version = 0; // the first read: rolls back or recovers what a killed process left
    if (status == QPC_OK) status = qpc_store_get_int(db, "PRAGMA schema_version", &version, err);
    if (status != QPC_OK) {
        sqlite3_close_v2(db);
        return status;
    }
    *ret = db;
    return QPC_OK;
}

void qpc_store_close(sqlite3 *db) {
    if (db == NULL) return;
    for (sqlite3_stmt *s; (s = sqlite3_next_stmt(db, NULL)) != NULL;) sqlite3_finalize(s);
    if (sqlite3_db_readonly(db, "main") == 0) {
        if (sqlite3_get_autocommit(db) == 0) sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
        // Rollback mode needs no file beside the main one, so a closed file can be copied alone and
        // read from read-only media. A reader in the way keeps it in WAL mode, which is as good.
        sqlite3_busy_timeout(db, 0);
        if (!set_journal(db, "delete"))
            sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    }
    sqlite3_close_v2(db);
}
