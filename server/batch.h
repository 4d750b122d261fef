/// A batch of steps: its progress, its summary, its reply, and the replies kept for retries.
/// The worker in the world.
#ifndef QPC_SERVER_BATCH_H
#define QPC_SERVER_BATCH_H

#include "server/request.h"
#include "server/snapshot.h"

typedef enum qpc_batch_status {
    QPC_BATCH_OK,
    QPC_BATCH_FAILED,
    QPC_BATCH_CANCELLED,
    QPC_BATCH_DEADLINE,
    QPC_BATCH_DRAINING,
} qpc_batch_status;

typedef struct qpc_batch {
    int64_t n, done;
    qpc_batch_status status;
    qpc_error error; // of the step that failed
    int64_t wall_ns, cpu_ns;
    int64_t contacts_max, active_max, passes_max, newton_max, halvings, failsafe;
    int64_t not_proven, ccd_uncertain;
    int64_t exhausted, friction_missed, conflicts, relaxed; // steps
    double toi_margin;
    double min_gap, stat, prim, dual, comp, natural_ratio, friction_natural, energy_drift_max;
} qpc_batch;

void qpc_batch_begin(qpc_batch *batch, int64_t n);
void qpc_batch_add(qpc_batch *batch, const qpc_step_report *report);

/// Replies by idempotency key: the last 256 of a world, and at most 32 MiB of them.
enum { QPC_REPLIES_MAX = 256, QPC_REPLIES_BYTES = 32 << 20 };
typedef struct qpc_kept_reply {
    char key[QPC_KEY_SIZE];
    int64_t n;
    uint8_t *bytes; // the encoded result
    size_t size;
} qpc_kept_reply;
typedef struct qpc_reply_cache {
    qpc_kept_reply *kept; // ring of QPC_REPLIES_MAX, made when first needed
    int32_t first, count;
    size_t bytes;
} qpc_reply_cache;
void qpc_reply_cache_fini(qpc_reply_cache *cache);
/// QPC_OK: the kept reply is the reply of request. QPC_ERR_NOT_FOUND; QPC_ERR_INVALID: the key was
/// used for another number of steps.
qpc_status qpc_reply_cache_find(const qpc_reply_cache *cache, const char *key, int64_t n,
                                qpc_request *request, qpc_error *err);

/// Encode the reply of a batch that ended. snapshot: of the state reached. report: the last step of
/// the world, if stepped. trouble: why nothing is recorded, or "". cache: keep the reply there, or
/// NULL.
void qpc_batch_reply(const qpc_batch *batch, const qpc_snapshot *snapshot,
                     const qpc_layout *layout, const qpc_step_report *report, bool stepped,
                     const char *trouble, qpc_request *request, size_t max_message,
                     qpc_reply_cache *cache);

#endif
