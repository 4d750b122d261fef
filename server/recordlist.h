/// What a step leaves in the lists of a run file beside its row and frame: contacts, reactions of fixed points, forces of
/// strain limits and of joints, rows that contradict. Their layout (docs/storage.md), written and read here. No state; any thread.
#ifndef QPC_SERVER_RECORDLIST_H
#define QPC_SERVER_RECORDLIST_H

#include "engine/engine.h"
#include "storage/run.h"

/// A block that grows and is used again.
typedef struct qpc_packed {
    char *data;
    size_t capacity;
} qpc_packed;
void qpc_packed_fini(qpc_packed *packed);

/// Bytes of one record of a list, little-endian, no padding.
size_t qpc_recordlist_size(qpc_run_list list);
/// What the last step of a world has for that list, packed. QPC_ERR_MEMORY.
qpc_status qpc_recordlist_pack(qpc_run_list list, const qpc_world *world, qpc_packed *packed,
                               int32_t *ret_count);
/// Records as a map of arrays, one row a record. record_size: as stored; what older files lack is zero. QPC_ERR_CORRUPT:
/// of a size that no version wrote.
qpc_status qpc_recordlist_to_value(qpc_run_list list, const void *records, int32_t count,
                                   size_t record_size, qpc_value *ret, qpc_error *err);
/// The first few names of the rows that contradict, for people; cut to size.
void qpc_recordlist_conflict_text(const qpc_world *world, char *out, size_t size);
/// Which bodies were made to stand in the last step, and why. False: none were.
bool qpc_recordlist_still_text(const qpc_world *world, char *out, size_t size);

#endif
