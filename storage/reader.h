/// Reading a run file: frames and diagnostics by step, on a read-only connection of its own.
/// One thread at a time; safe while the run is being recorded.
#ifndef QPC_STORAGE_READER_H
#define QPC_STORAGE_READER_H

#include "base/status.h"
#include "base/value.h"

typedef struct qpc_reader qpc_reader;

qpc_status qpc_reader_open(const char *path, qpc_reader **ret, qpc_error *err);
void qpc_reader_close(qpc_reader *reader);

typedef struct qpc_run_facts { // borrowed until close
    const char *id, *name, *scene_json, *versions_json;
    uint64_t world, scene_hash, start_hash;
    double dt;
    qpc_dtype frame_dtype;
    int32_t frame_nodes;
    int64_t first_step, last_step, frame_count;
} qpc_run_facts;
qpc_run_facts qpc_reader_facts(const qpc_reader *reader);

/// Frames with from <= step <= to in order, at most limit, as doubles. visit returns false to stop.
typedef bool (*qpc_frame_visit)(void *user, int64_t step, int32_t substep, double time, uint64_t hash,
                                const double *positions, int32_t nodes);
qpc_status qpc_reader_frames(qpc_reader *reader, int64_t from, int64_t to, int64_t limit, bool substeps,
                             qpc_frame_visit visit, void *user, qpc_error *err);
/// Columns of table steps; values: row-major 8-byte entries as in qpc_record_step (NULL as NaN). Newly allocated.
qpc_status qpc_reader_steps(qpc_reader *reader, int64_t from, int64_t to, int64_t limit,
                            const char *const *columns, int32_t column_count, void **ret_values,
                            int64_t *ret_rows, qpc_error *err);
/// Names and types of the columns, in order; borrowed until close.
qpc_status qpc_reader_columns(qpc_reader *reader, const char *const **ret_names, const bool **ret_integer, int32_t *ret_count);
#endif
