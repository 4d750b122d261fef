/// One run file: everything about one recorded world in one SQLite file. Records are made on any
/// thread, written on the writer thread only.
#ifndef QPC_STORAGE_RUN_H
#define QPC_STORAGE_RUN_H

#include "base/status.h"
#include "base/value.h"

/// A column of table `steps`: chosen by the caller at creation (storage knows no physics).
typedef struct qpc_run_column {
    const char *name; // a plain identifier
    bool integer;     // INTEGER, else REAL
} qpc_run_column;

typedef struct qpc_run_body {
    const char *name, *kind;
    int32_t first_node, node_count; // slice of a frame; 0 nodes: does not move
    int32_t element_count, nodes_per_element;
    double radius;
    const uint8_t *mesh_sha256; // 32 bytes or NULL
} qpc_run_body;

typedef struct qpc_run_mesh {
    const uint8_t *sha256;
    const uint8_t *bytes; // canonical
    size_t size;
} qpc_run_mesh;

typedef struct qpc_run_def {
    char id[33]; // 32 hex digits
    uint64_t world;
    const char *name;
    const char *scene_json; // canonical wire form
    uint64_t scene_hash, start_hash;
    double dt;
    qpc_dtype frame_dtype; // QPC_F32 or QPC_F64
    int32_t frame_nodes;
    const qpc_run_column *columns;
    int32_t column_count;
    const qpc_run_body *bodies;
    int32_t body_count;
    const qpc_run_mesh *meshes;
    int32_t mesh_count;
    const char *versions_json; // program and library versions, CPU
} qpc_run_def;

/// Lists of packed records, at most one of each a step. In the order in which schema versions added them.
typedef enum qpc_run_list {
    QPC_LIST_CONTACTS,
    QPC_LIST_REACTIONS,
    QPC_LIST_LIMIT_FORCES,
    QPC_LIST_CONFLICTS,
    QPC_LIST_JOINTS,
    QPC_LIST_COUNT,
} qpc_run_list;
/// How many of them files of a schema version have.
int32_t qpc_run_list_count(int64_t version);
/// Name of its table.
const char *qpc_run_list_table(qpc_run_list list);

/// What is stored; owned by the queue once pushed. Made by qpc_record_* below.
typedef struct qpc_record qpc_record;

/// Frame of a step; substep < 0: the end of the step; else a state travelled through inside it,
/// numbered. positions (frame_nodes x 3) doubles, copied (as float32 if the run says so). hash: 0
/// for substeps.
qpc_status qpc_record_frame(int64_t step, int32_t substep, double time, uint64_t hash,
                            const double *positions, int32_t frame_nodes, qpc_dtype dtype,
                            qpc_record **ret, qpc_error *err);
/// values: column_count entries of 8 bytes, int64 or double by column. Non-finite doubles become
/// NULL plus an event.
qpc_status qpc_record_step(int64_t step, const void *values, int32_t column_count, qpc_record **ret,
                           qpc_error *err);
/// One blob a step in the table of that list (layouts in docs/storage.md): count records of record_size bytes.
qpc_status qpc_record_list(qpc_run_list list, int64_t step, const void *records, int32_t count,
                           size_t record_size, qpc_record **ret, qpc_error *err);
/// Command log: what was asked before step `step` (JSON text).
qpc_status qpc_record_command(int64_t step, const char *method, const char *json, qpc_record **ret,
                              qpc_error *err);
qpc_status qpc_record_event(int64_t step, const char *kind, const char *message, qpc_record **ret,
                            qpc_error *err);
size_t qpc_record_size(const qpc_record *record);
void qpc_record_destroy(qpc_record *record);

#endif
