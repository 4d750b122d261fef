/// Inside of a record: one block of memory, linked into its run's queue. Only storage includes
/// this.
#ifndef QPC_STORAGE_RECORD_H
#define QPC_STORAGE_RECORD_H

#include "storage/run.h"

#include <stdalign.h>

typedef enum qpc_record_kind {
    QPC_RECORD_FRAME,
    QPC_RECORD_STEP,
    QPC_RECORD_LIST,
    QPC_RECORD_COMMAND, // data: method, NUL, JSON text, NUL
    QPC_RECORD_EVENT,   // data: kind, NUL, message, NUL
} qpc_record_kind;

struct qpc_record {
    qpc_record *next; // in a queue or batch
    int64_t step;
    double time;
    uint64_t hash;
    size_t payload;   // bytes in data
    size_t item_size; // of one entry of a list
    int32_t count;    // nodes, columns or entries
    int32_t substep;
    qpc_record_kind kind;
    qpc_run_list list; // which, of QPC_RECORD_LIST
    qpc_dtype dtype;
    alignas(8) unsigned char data[];
};

#endif
