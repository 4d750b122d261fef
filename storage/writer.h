/// The writer thread: one queue for all runs, batched transactions, bounded bytes.
///
/// Any thread pushes records; one thread owns every writable connection. A batch is committed when
/// it holds 256 records or 4 MiB, or when the oldest record is 50 ms old. On a full or failing disk
/// the run turns to `failed`: its records are dropped and counted, a retry is made once a second,
/// and when space is back recording resumes behind an event that states the gap.
#ifndef QPC_STORAGE_WRITER_H
#define QPC_STORAGE_WRITER_H

#include "storage/run.h"

typedef struct qpc_writer qpc_writer;
typedef struct qpc_run_handle qpc_run_handle; // a recording run; reference counted inside

typedef struct qpc_writer_options {
    const char *data_dir;  // holds catalog.db and runs/; made if missing
    int32_t queue_records; // 0: 4096
    uint64_t queue_bytes;  // 0: 64 MiB
    int32_t batch_ms;      // 0: 50
    int32_t retry_ms;      // 0: 1000; between two tries of a failed run
    int32_t busy_ms;       // 0: 10000; how long another process may hold a run's lock
    /// To be logged. Called on the writer thread, or inside qpc_writer_create:
    ///   run_failed          writing stopped; records are dropped until run_recovered
    ///   run_recovered       recording goes on behind a gap event
    ///   run_busy            another process has held the run's lock for a second (once a time)
    ///   checkpoint_blocked  a reader has kept the -wal from shrinking for a second (once a time)
    ///   checkpoint_failed   the run goes on in the -wal (at most once a minute)
    ///   rollback_journal    no WAL on this file system (once, at create): slower, readers may
    ///   delay commits run_crashed         found at create, left by a killed server;
    ///   run_unreadable: and cannot be opened close_failed        a run could not be marked closed;
    ///   it will be found at the next create
    void (*notice)(void *user, const char *event, const char *run_id, qpc_status status,
                   const char *message);
    void *user;
} qpc_writer_options;

typedef struct qpc_writer_stats {
    int32_t queued, queued_high_water, open_runs, failed_runs;
    uint64_t queued_bytes, records, frames, dropped, bytes_written, commits, errors;
    char last_error[256];
} qpc_writer_stats;

/// Opens (creates) the catalogue and marks runs left `recording` by a killed server as `crashed`.
/// Takes DIR/lock (flock) so that two daemons never share a folder: QPC_ERR_BUSY.
qpc_status qpc_writer_create(const qpc_writer_options *options, qpc_writer **ret, qpc_error *err);
/// Drain the queue, close every run, stop the thread.
void qpc_writer_destroy(qpc_writer *writer);
qpc_writer_stats qpc_writer_get_stats(qpc_writer *writer);

/// Create the run file (synchronously: an error here is the caller's). The handle is used by one
/// thread at a time.
qpc_status qpc_writer_open_run(qpc_writer *writer, const qpc_run_def *def, qpc_run_handle **ret,
                               qpc_error *err);
/// Takes the record also on failure. wait: block until there is room (the run's policy "wait"),
/// else QPC_ERR_BUSY counts as a dropped record of this run (a gap event follows). QPC_ERR_FULL/IO
/// while the run is failed (record dropped and counted).
qpc_status qpc_writer_push(qpc_run_handle *run, qpc_record *record, bool wait, qpc_error *err);
/// Wait until everything pushed so far for this run is committed (or failed: its error).
qpc_status qpc_writer_flush(qpc_run_handle *run, qpc_error *err);
/// Ends the handle and returns at once; the writer thread writes what is queued, then closes: state
/// `closed`, final counts in the catalogue, one file without a -wal.
void qpc_writer_close_run(qpc_run_handle *run);
/// The same, and returns when it is done: the catalogue has the final state.
void qpc_writer_close_run_and_wait(qpc_run_handle *run);
uint64_t qpc_run_handle_dropped(const qpc_run_handle *run);

// ---- the catalogue; synchronous, any thread (own mutex) ----
typedef struct qpc_catalog_mesh {
    uint8_t sha256[32];
    char name[64];
    int64_t vertices, elements, bytes;
    int32_t nodes_per_element;
    double created; // seconds since 1970
} qpc_catalog_mesh;
/// Next world id (uint64, unique in the data folder).
qpc_status qpc_catalog_next_world(qpc_writer *writer, uint64_t *ret, qpc_error *err);
qpc_status qpc_catalog_put_mesh(qpc_writer *writer, const qpc_catalog_mesh *info,
                                const void *canonical, size_t size, qpc_error *err);
/// *ret newly allocated (qpc_free). QPC_ERR_NOT_FOUND.
qpc_status qpc_catalog_get_mesh(qpc_writer *writer, const uint8_t sha256[32], uint8_t **ret,
                                size_t *ret_size, qpc_error *err);
qpc_status qpc_catalog_delete_mesh(qpc_writer *writer, const uint8_t sha256[32], qpc_error *err);
/// Newly allocated array (qpc_free), oldest first.
qpc_status qpc_catalog_list_meshes(qpc_writer *writer, qpc_catalog_mesh **ret, int32_t *ret_count,
                                   qpc_error *err);

typedef struct qpc_catalog_run {
    char id[33], name[64], state[16], path[512];
    uint64_t world, scene_hash;
    int64_t steps, frames, bytes;
    double created;
} qpc_catalog_run;
qpc_status qpc_catalog_list_runs(qpc_writer *writer, qpc_catalog_run **ret, int32_t *ret_count,
                                 qpc_error *err);
qpc_status qpc_catalog_find_run(qpc_writer *writer, const char *id, qpc_catalog_run *ret,
                                qpc_error *err);

#endif
