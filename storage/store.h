/// Opening SQLite files of ours: pragmas, application_id, versions, journal mode by file system.
/// Used on the writer thread and, read-only, on others; a connection belongs to one thread.
#ifndef QPC_STORAGE_STORE_H
#define QPC_STORAGE_STORE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sqlite3 sqlite3;

enum {
    QPC_CATALOG_APPLICATION_ID = 0x51504343, // "QPCC"
    QPC_RUN_APPLICATION_ID = 0x51504352,     // "QPCR"
    QPC_SCHEMA_VERSION = 1,
};

typedef enum qpc_open_mode { QPC_OPEN_CREATE, QPC_OPEN_WRITE, QPC_OPEN_READ } qpc_open_mode;

/// Open or create path. QPC_ERR_CORRUPT: not a database, of another application, or a newer schema
/// version (message names found and supported); the file is left unchanged, with no -wal or -shm beside it.
/// QPC_ERR_IO, QPC_ERR_FULL, QPC_ERR_NOT_FOUND as they say. schema: SQL of the current version.
qpc_status qpc_store_open(const char *path, qpc_open_mode mode, int32_t application_id,
                          const char *schema, sqlite3 **ret, qpc_error *err);
void qpc_store_close(sqlite3 *db); // checkpoints and truncates the WAL when it was writable
/// SQLite's error of db as ours ("disk full" -> QPC_ERR_FULL, ...).
qpc_status qpc_store_fail(sqlite3 *db, int rc, const char *what, qpc_error *err);
/// WAL on local file systems, a rollback journal on network ones (f_type of statfs): see tests.
bool qpc_store_wal_allowed(int64_t file_system_type, const char **ret_name);

#endif
