/// Summary and reply of a batch of steps. See batch.h.
///
/// The reply is built on the stack out of borrowed parts, so that encoding it is all that takes
/// memory: a round trip of one small step should cost little more than the step.
#include "server/batch.h"

#include "base/mem.h"

#include <float.h>
#include <math.h>
#include <string.h>

// ---- summary ----

void qpc_batch_begin(qpc_batch *batch, int64_t n) {
    batch->n = n;
    batch->done = 0;
    batch->status = QPC_BATCH_OK;
    batch->error.status = QPC_OK;
    batch->error.where[0] = batch->error.message[0] = '\0';
    batch->wall_ns = batch->cpu_ns = 0;
    batch->contacts_max = batch->active_max = batch->passes_max = batch->newton_max = 0;
    batch->halvings = batch->failsafe = batch->not_proven = batch->ccd_uncertain = 0;
    batch->exhausted = batch->friction_missed = batch->conflicts = batch->relaxed = 0;
    batch->toi_margin = 1;
    batch->min_gap = DBL_MAX;
    batch->stat = batch->prim = batch->dual = batch->comp = batch->natural_ratio = 0;
    batch->friction_natural = batch->energy_drift_max = 0;
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/// The worse of two residuals; a number that is not finite is the worst.
static double worse(double a, double b) { return a > b || isnan(a) ? a : b; }

void qpc_batch_add(qpc_batch *batch, const qpc_step_report *r) {
    batch->done++;
    batch->wall_ns += r->ns_wall;
    batch->cpu_ns += r->ns_total;
    batch->contacts_max = larger(batch->contacts_max, r->contacts);
    batch->active_max = larger(batch->active_max, r->active);
    batch->passes_max = larger(batch->passes_max, r->passes);
    batch->newton_max = larger(batch->newton_max, r->newton);
    batch->halvings += r->halvings;
    batch->failsafe += r->failsafe;
    batch->not_proven += r->proven != 1;
    batch->ccd_uncertain += r->ccd_uncertain;
    batch->exhausted += r->exhausted != 0;
    batch->friction_missed += r->friction_missed != 0;
    batch->conflicts += r->conflicts > 0;
    batch->relaxed += r->outcome == QPC_STEP_RELAXED;
    if (!(r->toi_margin >= batch->toi_margin)) batch->toi_margin = r->toi_margin;
    if (r->min_gap < batch->min_gap) batch->min_gap = r->min_gap;
    batch->stat = worse(batch->stat, r->stat);
    batch->prim = worse(batch->prim, r->prim);
    batch->dual = worse(batch->dual, r->dual);
    batch->comp = worse(batch->comp, r->comp);
    batch->natural_ratio = worse(batch->natural_ratio, r->natural_ratio);
    batch->friction_natural = worse(batch->friction_natural, r->friction_natural);
    if (fabs(r->energy_drift) > fabs(batch->energy_drift_max)) {
        batch->energy_drift_max = r->energy_drift;
    }
}

// ---- building on the stack ----

enum { MAP_MAX = 24 };
typedef struct stack_map {
    qpc_pair pairs[MAP_MAX];
    int32_t count;
} stack_map;

static void set(stack_map *map, const char *key, qpc_value v) {
    QPC_ASSERT(map->count < MAP_MAX);
    map->pairs[map->count].key = qpc_text_borrow(key);
    map->pairs[map->count++].value = v;
}

/// Borrows the pairs: never for qpc_value_fini.
static qpc_value as_value(stack_map *map) {
    qpc_value v = {.kind = QPC_MAP};
    v.map.pairs = map->pairs;
    v.map.count = v.map.capacity = map->count;
    return v;
}

static qpc_value number_or_nil(double v) { return isfinite(v) ? qpc_real(v) : qpc_nil(); }

static const char *status_name(qpc_batch_status status) {
    static const char *const names[] = {"ok", "failed", "cancelled", "deadline", "draining"};
    return names[status];
}

// ---- kept replies ----

static qpc_kept_reply *kept_at(const qpc_reply_cache *cache, int32_t i) {
    return &cache->kept[(cache->first + i) % QPC_REPLIES_MAX];
}

static void forget_oldest(qpc_reply_cache *cache) {
    qpc_kept_reply *oldest = kept_at(cache, 0);
    cache->bytes -= oldest->size;
    qpc_free(oldest->bytes);
    *oldest = (qpc_kept_reply){0};
    cache->first = (cache->first + 1) % QPC_REPLIES_MAX;
    cache->count--;
}

void qpc_reply_cache_fini(qpc_reply_cache *cache) {
    while (cache->count > 0) forget_oldest(cache);
    qpc_free(cache->kept);
    *cache = (qpc_reply_cache){0};
}

qpc_status qpc_reply_cache_find(const qpc_reply_cache *cache, const char *key, int64_t n,
                                qpc_request *request, qpc_error *err) {
    for (int32_t i = cache->count - 1; i >= 0; i--) {
        const qpc_kept_reply *kept = kept_at(cache, i);
        if (strcmp(kept->key, key) != 0) continue;
        if (kept->n != n) {
            return qpc_fail_at(err, QPC_ERR_INVALID, "key",
                               "the key was used for a request of %lld steps, not %lld",
                               (long long)kept->n, (long long)n);
        }
        // Decoded and encoded again: the array keys of this connection may be of another type.
        qpc_value result = qpc_nil();
        qpc_status status = qpc_decode(kept->bytes, kept->size, &result, err);
        if (status != QPC_OK) return status;
        qpc_request_succeed(request, &result, 0);
        qpc_value_fini(&result);
        return QPC_OK;
    }
    return QPC_ERR_NOT_FOUND;
}

/// Not keeping it for want of memory only means that a retry would step again, as without a key.
static void keep(qpc_reply_cache *cache, const qpc_request *request, const qpc_value *result) {
    qpc_buffer bytes = {0};
    if (cache->kept == NULL) cache->kept = qpc_calloc(QPC_REPLIES_MAX, sizeof *cache->kept);
    if (cache->kept == NULL || qpc_encode(result, false, &bytes, NULL) != QPC_OK) {
        qpc_buffer_fini(&bytes);
        return;
    }
    while (cache->count > 0 && (cache->count == QPC_REPLIES_MAX ||
                                cache->bytes + bytes.size > (size_t)QPC_REPLIES_BYTES)) {
        forget_oldest(cache);
    }
    uint8_t *fitted = qpc_realloc(bytes.data, bytes.size);
    qpc_kept_reply *kept = kept_at(cache, cache->count++);
    memcpy(kept->key, request->step.key, sizeof kept->key);
    kept->n = request->step.n;
    kept->bytes = fitted != NULL ? fitted : bytes.data;
    kept->size = bytes.size;
    cache->bytes += bytes.size;
}

// ---- the reply ----

static void add_parts(const qpc_snapshot *snapshot, const qpc_layout *layout,
                      const qpc_request *request, qpc_value *arrays, qpc_status *status) {
    const qpc_step_params *p = &request->step;
    uint32_t parts = (p->positions ? QPC_PART_POSITIONS : 0) |
                     (p->velocities ? QPC_PART_VELOCITIES : 0) |
                     (p->contacts ? QPC_PART_CONTACTS : 0);
    *arrays = qpc_map();
    if (parts != 0) {
        *status = qpc_snapshot_to_map(snapshot, layout, parts, p->single, -1, arrays);
    }
}

void qpc_batch_reply(const qpc_batch *batch, const qpc_snapshot *snapshot,
                     const qpc_layout *layout, const qpc_step_report *report, bool stepped,
                     const char *trouble, qpc_request *request, size_t max_message,
                     qpc_reply_cache *cache) {
    qpc_pair last[QPC_STEP_FIELD_COUNT];
    stack_map worst = {.count = 0}, summary = {.count = 0}, result = {.count = 0};
    stack_map failure = {.count = 0}, failure_data = {.count = 0};
    double gap = batch->min_gap;

    set(&worst, "stat", number_or_nil(batch->stat));
    set(&worst, "prim", number_or_nil(batch->prim));
    set(&worst, "dual", number_or_nil(batch->dual));
    set(&worst, "comp", number_or_nil(batch->comp));
    set(&worst, "natural_ratio", number_or_nil(batch->natural_ratio));
    set(&worst, "friction_natural", number_or_nil(batch->friction_natural));
    // Fraction of the thickness by which two features came too close.
    set(&worst, "penetration", qpc_real(batch->done > 0 && gap < 1 ? 1 - gap : 0));

    set(&summary, "steps", qpc_int(batch->done));
    set(&summary, "wall_s", qpc_real(1e-9 * (double)batch->wall_ns));
    set(&summary, "cpu_s", qpc_real(1e-9 * (double)batch->cpu_ns));
    set(&summary, "contacts_max", qpc_int(batch->contacts_max));
    set(&summary, "active_max", qpc_int(batch->active_max));
    set(&summary, "passes_max", qpc_int(batch->passes_max));
    set(&summary, "newton_max", qpc_int(batch->newton_max));
    set(&summary, "halvings", qpc_int(batch->halvings));
    set(&summary, "failsafe", qpc_int(batch->failsafe));
    set(&summary, "not_proven", qpc_int(batch->not_proven));
    set(&summary, "ccd_uncertain", qpc_int(batch->ccd_uncertain));
    set(&summary, "exhausted", qpc_int(batch->exhausted));
    set(&summary, "friction_missed", qpc_int(batch->friction_missed));
    set(&summary, "conflicts", qpc_int(batch->conflicts));
    set(&summary, "relaxed", qpc_int(batch->relaxed));
    set(&summary, "toi_margin", batch->done > 0 ? number_or_nil(batch->toi_margin) : qpc_nil());
    set(&summary, "min_gap", batch->done > 0 ? number_or_nil(gap) : qpc_nil());
    set(&summary, "worst", as_value(&worst));
    set(&summary, "energy_drift_max", number_or_nil(batch->energy_drift_max));
    set(&summary, "last", stepped ? qpc_report_map(report, last) : qpc_nil());
    if (trouble[0] != '\0') set(&summary, "recording", qpc_text_borrow(trouble));

    set(&result, "reached", qpc_int(snapshot->step));
    set(&result, "status", qpc_text_borrow(status_name(batch->status)));
    if (batch->status == QPC_BATCH_FAILED) {
        const qpc_error *e = &batch->error;
        set(&failure, "code", qpc_int(e->status));
        set(&failure, "name", qpc_text_borrow(qpc_status_name(e->status)));
        set(&failure, "message", qpc_text_borrow(e->message));
        set(&failure_data, "where", qpc_text_borrow(e->where));
        set(&failure_data, "step", qpc_int(snapshot->step + 1));
        set(&failure, "data", as_value(&failure_data));
        set(&result, "error", as_value(&failure));
    } else {
        set(&result, "error", qpc_nil());
    }
    set(&result, "hash", qpc_uint(snapshot->hash));
    set(&result, "time", qpc_real(snapshot->time));
    set(&result, "summary", as_value(&summary));

    qpc_value arrays;
    qpc_status status = QPC_OK;
    add_parts(snapshot, layout, request, &arrays, &status);
    if (status != QPC_OK) {
        qpc_error error = {0};
        qpc_fail(&error, status, "out of memory for the reply; %lld steps were done",
                 (long long)batch->done);
        qpc_request_fail(request, &error, NULL);
    } else {
        for (int32_t i = 0; i < arrays.map.count; i++) {
            result.pairs[result.count++] = arrays.map.pairs[i]; // lent for the encoding
        }
        qpc_value whole = as_value(&result);
        qpc_request_succeed(request, &whole, max_message);
        if (cache != NULL) keep(cache, request, &whole);
    }
    qpc_value_fini(&arrays);
}
