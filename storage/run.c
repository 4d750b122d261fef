/// Making records: one allocation and one copy each, on the caller's thread. Nothing here waits.
#include "storage/record.h"

#include "base/mem.h"

#include <string.h>

// Blobs are little-endian; so is every machine this is built for.
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "blobs are written as they lie in memory");

enum { BLOB_MAX = 1000000000 }; // SQLite's own limit

/// NULL on failure, with *ret_status.
static qpc_record *record_create(qpc_record_kind kind, int64_t step, size_t payload,
                                 qpc_status *ret_status, qpc_error *err) {
    size_t size;
    if (payload > BLOB_MAX) {
        *ret_status = qpc_fail(err, QPC_ERR_LIMIT, "a record of %zu bytes: at most %d fit a row",
                               payload, BLOB_MAX);
        return NULL;
    }
    qpc_record *record = qpc_add_size(sizeof(qpc_record), payload, &size) ? qpc_alloc(size) : NULL;
    if (record == NULL) {
        *ret_status = qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a record");
        return NULL;
    }
    memset(record, 0, sizeof *record);
    record->kind = kind;
    record->step = step;
    record->payload = payload;
    return record;
}

qpc_status qpc_record_frame(int64_t step, int32_t substep, double time, uint64_t hash,
                            const double *positions, int32_t frame_nodes, qpc_dtype dtype,
                            qpc_record **ret, qpc_error *err) {
    if (frame_nodes < 0 || (dtype != QPC_F32 && dtype != QPC_F64))
        return qpc_fail(err, QPC_ERR_INVALID, "a frame of %d nodes and dtype %d", frame_nodes,
                        (int)dtype);
    size_t n = (size_t)frame_nodes * 3;
    qpc_status status;
    qpc_record *record =
        record_create(QPC_RECORD_FRAME, step,
                      n * (dtype == QPC_F32 ? sizeof(float) : sizeof(double)), &status, err);
    if (record == NULL) return status;
    record->substep = substep < 0 ? -1 : substep;
    record->time = time;
    record->hash = hash;
    record->count = frame_nodes;
    record->dtype = dtype;
    if (dtype == QPC_F32) {
        float *out = (float *)(void *)record->data;
        for (size_t i = 0; i < n; i++) out[i] = (float)positions[i];
    } else if (n > 0) {
        memcpy(record->data, positions, n * sizeof(double));
    }
    *ret = record;
    return QPC_OK;
}

qpc_status qpc_record_step(int64_t step, const void *values, int32_t column_count, qpc_record **ret,
                           qpc_error *err) {
    if (column_count < 0)
        return qpc_fail(err, QPC_ERR_INVALID, "a row of %d columns", column_count);
    qpc_status status;
    qpc_record *record =
        record_create(QPC_RECORD_STEP, step, (size_t)column_count * 8, &status, err);
    if (record == NULL) return status;
    record->count = column_count;
    if (column_count > 0) memcpy(record->data, values, record->payload);
    *ret = record;
    return QPC_OK;
}

const char *qpc_run_list_table(qpc_run_list list) {
    static const char *const names[QPC_LIST_COUNT] = {"contacts", "reactions", "limit_forces",
                                                      "conflicts", "joints"};
    return names[list];
}

int32_t qpc_run_list_count(int64_t version) {
    return version >= 3 ? QPC_LIST_COUNT : version == 2 ? QPC_LIST_JOINTS : QPC_LIST_REACTIONS;
}

qpc_status qpc_record_list(qpc_run_list list, int64_t step, const void *records, int32_t count,
                           size_t record_size, qpc_record **ret, qpc_error *err) {
    size_t size;
    if (count < 0 || record_size == 0 || !qpc_mul_size((size_t)count, record_size, &size))
        return qpc_fail(err, QPC_ERR_INVALID, "%d %s of %zu bytes", count, qpc_run_list_table(list),
                        record_size);
    qpc_status status;
    qpc_record *record = record_create(QPC_RECORD_LIST, step, size, &status, err);
    if (record == NULL) return status;
    record->list = list;
    record->count = count;
    record->item_size = record_size;
    if (size > 0) memcpy(record->data, records, size);
    *ret = record;
    return QPC_OK;
}

static qpc_status record_texts(qpc_record_kind kind, int64_t step, const char *first,
                               const char *second, qpc_record **ret, qpc_error *err) {
    size_t n1 = strlen(first) + 1, n2 = strlen(second) + 1, size;
    if (!qpc_add_size(n1, n2, &size)) return qpc_fail(err, QPC_ERR_LIMIT, "a text too long");
    qpc_status status;
    qpc_record *record = record_create(kind, step, size, &status, err);
    if (record == NULL) return status;
    memcpy(record->data, first, n1);
    memcpy(record->data + n1, second, n2);
    *ret = record;
    return QPC_OK;
}

qpc_status qpc_record_command(int64_t step, const char *method, const char *json, qpc_record **ret,
                              qpc_error *err) {
    return record_texts(QPC_RECORD_COMMAND, step, method, json, ret, err);
}

qpc_status qpc_record_event(int64_t step, const char *kind, const char *message, qpc_record **ret,
                            qpc_error *err) {
    return record_texts(QPC_RECORD_EVENT, step, kind, message, ret, err);
}

size_t qpc_record_size(const qpc_record *record) {
    return sizeof *record + record->payload;
}

void qpc_record_destroy(qpc_record *record) {
    qpc_free(record);
}
