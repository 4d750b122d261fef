/// Opening SQLite files of ours: pragmas, application_id, versions, journal mode by file system.
/// Used on the writer thread and, read-only, on others; a connection belongs to one thread at a
/// time.
#ifndef QPC_STORAGE_STORE_H
#define QPC_STORAGE_STORE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;

enum {
    QPC_CATALOG_APPLICATION_ID = 0x51504343, // "QPCC"
    QPC_RUN_APPLICATION_ID = 0x51504352,     // "QPCR"
    QPC_CATALOG_VERSION = 1,
    QPC_RUN_VERSION = 3, // 2: without the table joints; 1: without reactions, limit_forces and conflicts, too
};
/// Size to which a -wal file is cut back when nothing holds it (journal_size_limit).
enum { QPC_WAL_KEEP_BYTES = 8 * 1024 * 1024 };

typedef enum qpc_open_mode {
    QPC_OPEN_CREATE,    // for writing; a file that is missing or has no byte is made
    QPC_OPEN_WRITE,     // for writing; the file must exist
    QPC_OPEN_READ,      // read-only, safe beside a writer; may need to make a -shm file
    QPC_OPEN_IMMUTABLE, // read-only of a file that nobody writes: touches no other file, ignores a
                        // -wal
} qpc_open_mode;

/// Open or create path. QPC_ERR_CORRUPT: not a database, of another application, or a newer schema
/// version (message names found and supported); the file is left unchanged, with no -wal or -shm
/// beside it. QPC_ERR_IO, QPC_ERR_FULL, QPC_ERR_NOT_FOUND as they say. schema: SQL of the current
/// version (used by QPC_OPEN_CREATE only). Writable connections are in WAL mode or, where that is
/// not to be had, in TRUNCATE mode; qpc_store_is_wal tells.
qpc_status qpc_store_open(const char *path, qpc_open_mode mode, int32_t application_id,
                          const char *schema, sqlite3 **ret, qpc_error *err);
/// Fills a new database, inside its one transaction.
typedef qpc_status (*qpc_store_fill)(void *user, sqlite3 *db, qpc_error *err);
/// Make a complete new file at path, or none: written beside it as path.new, synced, renamed.
/// fill may be NULL. QPC_ERR_EXISTS if path is there with at least one byte.
qpc_status qpc_store_create(const char *path, int32_t application_id, const char *schema,
                            qpc_store_fill fill, void *user, qpc_error *err);
/// Checkpoints a writable WAL and leaves one self-contained file (rollback mode, no -wal) unless a
/// reader is in the way. Statements left are finalised. NULL is accepted.
void qpc_store_close(sqlite3 *db);
/// SQLite's error of db as ours ("disk full" -> QPC_ERR_FULL, ...), with the path in the message.
qpc_status qpc_store_fail(sqlite3 *db, int rc, const char *what, qpc_error *err);
/// Copy text (NULL: "") into a fixed field, cut at a UTF-8 boundary.
void qpc_store_copy_text(char *out, size_t size, const char *text);
/// Text of an errno; any thread.
const char *qpc_store_why(int system_error);
/// WAL on local file systems, a rollback journal on network and user-space ones (f_type of
/// statfs). ret_name may be NULL; a literal such as "NFS", or "local".
bool qpc_store_wal_allowed(int64_t file_system_type, const char **ret_name);
/// The same for the file system that holds path (its folder if path does not exist yet).
bool qpc_store_wal_allowed_at(const char *path, const char **ret_name);
bool qpc_store_is_wal(sqlite3 *db);
/// The same from the bytes of the main file, also on immutable connections.
bool qpc_store_header_is_wal(sqlite3 *db);

/// Run statements without results. qpc_store_prepare makes a kept (persistent) statement.
qpc_status qpc_store_exec(sqlite3 *db, const char *sql, qpc_error *err);
qpc_status qpc_store_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **ret, qpc_error *err);
/// Step a statement that gives no row, then reset it and clear its bindings.
qpc_status qpc_store_run(sqlite3 *db, sqlite3_stmt *statement, const char *what, qpc_error *err);
/// First column of the first row as an integer.
qpc_status qpc_store_get_int(sqlite3 *db, const char *sql, int64_t *ret, qpc_error *err);

#endif
