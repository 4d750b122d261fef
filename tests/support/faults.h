/// Fault injection for tests: run an operation with its 1st, 2nd, ... allocation failing, until it
/// passes, and see after each run that nothing leaked.
///
///     QPC_FAULTS(f) {
///         qpc_value v;
///         qpc_error err = {0};
///         qpc_status status = qpc_json_parse(text, size, &v, &err);
///         if (qpc_faults_ended(&f, status)) qpc_value_fini(&v);
///     }
///
/// Every sequence runs twice: with one failure, and with all allocations failing from the Nth on.
/// Only the calling thread's allocations fail; live blocks are counted over the whole process, so
/// other threads must be quiet between the start and the end of the body. Include after cmocka.h.
#ifndef QPC_TESTS_SUPPORT_FAULTS_H
#define QPC_TESTS_SUPPORT_FAULTS_H

#include "base/mem.h"
#include "base/status.h"

typedef struct qpc_faults {
    uint64_t nth; // the allocation that fails, 1, 2, ...
    bool and_after;
    int64_t live; // blocks before the first run
} qpc_faults;

enum { QPC_FAULTS_MOST = 100000 };

/// Arm the next run; false after the one in which nothing failed.
static inline bool qpc_faults_next(qpc_faults *f) {
    if (f->nth == 0) {
        f->live = qpc_mem_live_blocks();
    } else {
        bool failed = qpc_mem_failed();
        qpc_mem_fail_at(0, false);
        if (qpc_mem_live_blocks() != f->live)
            fail_msg("%lld blocks leaked when allocation %llu failed%s",
                     (long long)(qpc_mem_live_blocks() - f->live), (unsigned long long)f->nth,
                     f->and_after ? " with all after it" : "");
        if (!failed && f->and_after) return false;
        if (!failed) {
            f->and_after = true;
            f->nth = 0;
        }
    }
    if (++f->nth > QPC_FAULTS_MOST) fail_msg("still failing after %d allocations", QPC_FAULTS_MOST);
    qpc_mem_fail_at(f->nth, f->and_after);
    return true;
}

#define QPC_FAULTS(f) for (qpc_faults f = {0}; qpc_faults_next(&f);)

/// The operation has ended with `status`: it must be QPC_OK exactly if nothing was made to fail,
/// and QPC_ERR_MEMORY otherwise. Injection is off from here on, so that the body can look at what
/// is left and clean up. True if there is a result.
static inline bool qpc_faults_ended(const qpc_faults *f, qpc_status status) {
    qpc_mem_disarm();
    qpc_status wanted = qpc_mem_failed() ? QPC_ERR_MEMORY : QPC_OK;
    if (status != wanted)
        fail_msg("status %s when allocation %llu failed; want %s", qpc_status_name(status),
                 (unsigned long long)f->nth, qpc_status_name(wanted));
    return status == QPC_OK;
}

#endif
