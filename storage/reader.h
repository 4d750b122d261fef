/// Reading a run file: frames and diagnostics by step, on a read-only connection of its own.
/// One thread at a time; safe while the run is being recorded.
///
/// Opens: a run being recorded; one that a killed process left (with its -wal); a closed one, also
/// alone and in a folder that cannot be written. Refuses, with QPC_ERR_CORRUPT: files of other
/// programs, newer schemas, damaged files, and a main file that was copied out of a recording
/// without its -wal (it may be torn: qpc_run_export makes copies).
#ifndef QPC_STORAGE_READER_H
#define QPC_STORAGE_READER_H

#include "base/status.h"
#include "base/value.h"
#include "storage/run.h"

typedef struct qpc_reader qpc_reader;

qpc_status qpc_reader_open(const char *path, qpc_reader **ret, qpc_error *err);
void qpc_reader_close(qpc_reader *reader);

typedef struct qpc_run_facts { // borrowed until close
    const char *id, *name, *scene_json, *versions_json;
    const char
        *state; // "created", "recording", "closed", "crashed", "exported", at open or refresh
    uint64_t world, scene_hash, start_hash;
    double dt;
    qpc_dtype frame_dtype;
    int32_t frame_nodes;
    int64_t first_step, last_step, frame_count; // of frames at ends of steps; as of open or refresh
} qpc_run_facts;
qpc_run_facts qpc_reader_facts(const qpc_reader *reader);
/// Read state and counts again, of a run that is still growing.
qpc_status qpc_reader_refresh(qpc_reader *reader, qpc_error *err);

/// Frames with from <= step <= to in order, at most limit, as doubles. visit returns false to stop.
/// substeps: also the states inside steps (substep 0, 1, ...), before the end of their step (-1).
/// positions are borrowed during the call. A long visit keeps the -wal of a recording from
/// shrinking.
typedef bool (*qpc_frame_visit)(void *user, int64_t step, int32_t substep, double time,
                                uint64_t hash, const double *positions, int32_t nodes);
qpc_status qpc_reader_frames(qpc_reader *reader, int64_t from, int64_t to, int64_t limit,
                             bool substeps, qpc_frame_visit visit, void *user, qpc_error *err);
/// Columns of table steps; values: row-major 8-byte entries as in qpc_record_step, newly allocated
/// (qpc_free). Non-finite numbers come back as NaN, Inf or -Inf; other NULLs as NaN, in integer
/// columns as INT64_MIN. QPC_ERR_INVALID: no such column.
qpc_status qpc_reader_steps(qpc_reader *reader, int64_t from, int64_t to, int64_t limit,
                            const char *const *columns, int32_t column_count, void **ret_values,
                            int64_t *ret_rows, qpc_error *err);
/// Rows of table steps whose integer column has this value. QPC_ERR_NOT_FOUND: there is no such column.
qpc_status qpc_reader_count(qpc_reader *reader, const char *column, int64_t value, int64_t *ret,
                            qpc_error *err);
/// Names and types of the columns, in order; borrowed until close.
qpc_status qpc_reader_columns(qpc_reader *reader, const char *const **ret_names,
                              const bool **ret_integer, int32_t *ret_count);

/// Bodies in order; borrowed until close.
qpc_status qpc_reader_bodies(qpc_reader *reader, const qpc_run_body **ret, int32_t *ret_count);
/// Canonical bytes of a mesh, checked against their hash; newly allocated. QPC_ERR_NOT_FOUND.
qpc_status qpc_reader_mesh(qpc_reader *reader, const uint8_t sha256[32], uint8_t **ret,
                           size_t *ret_size, qpc_error *err);
/// The packed records of a list of a step, newly allocated (never NULL). QPC_ERR_NOT_FOUND: none stored, or the
/// file is older than the list.
qpc_status qpc_reader_list(qpc_reader *reader, qpc_run_list list, int64_t step, void **ret,
                           int32_t *ret_count, size_t *ret_record_size, qpc_error *err);
/// Commands and events in order; visit returns false to stop; texts are borrowed during the call.
/// subject: of an event, "" if it has none; NULL for a command (kind: its method, text: its JSON).
typedef bool (*qpc_text_visit)(void *user, int64_t step, const char *kind, const char *subject,
                               const char *text);
qpc_status qpc_reader_commands(qpc_reader *reader, int64_t from, int64_t to, qpc_text_visit visit,
                               void *user, qpc_error *err);
qpc_status qpc_reader_events(qpc_reader *reader, int64_t from, int64_t to, qpc_text_visit visit,
                             void *user, qpc_error *err);

/// Copy the run at path, also one that is being recorded, to a self-contained file: a consistent
/// state with everything committed before the call. out_path must not exist (QPC_ERR_EXISTS); it
/// appears complete or not at all.
qpc_status qpc_run_export(const char *path, const char *out_path, qpc_error *err);
#endif
