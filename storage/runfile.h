/// A run file open for recording: creation, batches, checkpoints, close. Made on any thread, then
/// used on the writer thread only. Only storage includes this.
#ifndef QPC_STORAGE_RUNFILE_H
#define QPC_STORAGE_RUNFILE_H

#include "storage/framecodec.h"
#include "storage/record.h"

typedef struct qpc_runfile qpc_runfile;

typedef struct qpc_run_gap { // records that were pushed or refused and are not in the file
    int64_t count;           // 0: none
    int64_t first_step, last_step;
    char reason[200];
} qpc_run_gap;

typedef struct qpc_run_totals {
    int64_t steps;  // last step with a frame or a row
    int64_t frames; // at ends of steps
    int64_t bytes;  // of the file
} qpc_run_totals;

/// QPC_ERR_EXISTS, INVALID (a column name, a number that is not finite), IO, FULL, ...; on failure
/// no file is left.
qpc_status qpc_runfile_create(const char *path, const qpc_run_def *def, qpc_runfile **ret,
                              qpc_error *err);
/// The records of a list and a gap event (gap may be NULL) in one transaction: all or nothing.
/// QPC_ERR_BUSY: another process holds the lock; try again. *ret_bytes: bytes of blobs and rows.
qpc_status qpc_runfile_write(qpc_runfile *file, const qpc_record *list, const qpc_run_gap *gap,
                             qpc_framecodec *codec, uint64_t *ret_bytes, qpc_error *err);
/// Is the -wal long enough (about 4 MB) for a checkpoint?
bool qpc_runfile_wants_checkpoint(const qpc_runfile *file);
/// Is anything in it that may not be in the main file?
bool qpc_runfile_has_wal(const qpc_runfile *file);
/// Never waits for readers: *ret_blocked says that some part had to stay in the -wal.
qpc_status qpc_runfile_checkpoint(qpc_runfile *file, bool *ret_blocked, qpc_error *err);
qpc_run_totals qpc_runfile_totals(const qpc_runfile *file);
bool qpc_runfile_is_wal(const qpc_runfile *file);
/// Marks the run `closed`, unless mark is false, and closes. *ret_totals is always written.
qpc_status qpc_runfile_close(qpc_runfile *file, bool mark, qpc_run_totals *ret_totals,
                             qpc_error *err);
/// What a killed process left at path: recover it, mark it `crashed` (*ret_crashed; false: it had
/// been closed), make it one file, count.
qpc_status qpc_runfile_recover(const char *path, qpc_run_totals *ret, bool *ret_crashed,
                               qpc_error *err);

#endif
