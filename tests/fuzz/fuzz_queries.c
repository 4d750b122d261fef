/// Any bytes are a file of queries or an error that says why not. Whatever coordinates it holds,
/// the narrow phase and its filter answer: a time within the step, finite weights where the input
/// is finite, the same bits in every width, no proof of a pair that touches by the narrow phase,
/// and nothing that is not finite is a miss.
#include "tests/fuzz/fuzz.h"

#include "base/mem.h"
#include "engine/collision/ccd.h"
#include "engine/collision/filter.h"
#include "tools/query_file.h"

static bool finite_points(const ccd_query *q) {
    for (int k = 0; k < 4; k++)
        if (!v3_finite(q->x0[k]) || !v3_finite(q->x1[k])) return false;
    return true;
}

static bool proven(const ccd_query *q, double s) {
    static qpc_filter_block block;
    uint8_t open = 0, other;
    qpc_filter_put(&block, 3, q->x0, q->x1, s);
    for (int w = 0; w < QPC_FILTER_WIDTHS; w++) {
        if (!qpc_filter_runs((qpc_filter_width)w)) continue;
        if (q->edges)
            qpc_filter_ee_by((qpc_filter_width)w, &block, QPC_FILTER_LANES, &other);
        else
            qpc_filter_vt_by((qpc_filter_width)w, &block, QPC_FILTER_LANES, &other);
        if (w == 0) open = other;
        FUZZ_CHECK(open == other);
    }
    return !(open >> 3 & 1);
}

static void ask(const ccd_query *q, double s, double tolerance) {
    qpc_ccd_result r;
    if (q->edges)
        qpc_ccd_ee(q->x0, q->x1, s, tolerance, &r);
    else
        qpc_ccd_vt(q->x0, q->x1, s, tolerance, &r);
    bool hit = r.outcome != QPC_CCD_MISS, apart = proven(q, s);
    FUZZ_CHECK(r.toi >= 0 && r.toi <= 1);
    FUZZ_CHECK(r.iterations <= 100);
    if (!finite_points(q)) FUZZ_CHECK(hit && !apart);
    if (!hit) return;
    FUZZ_CHECK(r.distance >= 0);
    FUZZ_CHECK(fabs(v3_norm(r.n) - 1) < 1e-12);
    for (int k = 0; k < 4; k++) FUZZ_CHECK(fabs(r.weight[k]) <= 1);
    if (apart && !r.uncertain) FUZZ_CHECK(r.distance > s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qpc_error err = {0};
    ccd_query_file file;
    qpc_status status = ccd_query_file_parse(data, size, &file, &err);
    FUZZ_CHECK(status == QPC_OK || (status == QPC_ERR_CORRUPT && err.message[0] != '\0'));
    if (status == QPC_OK) {
        for (int32_t i = 0; i < file.count; i++) {
            ask(&file.queries[i], 0, 1e-6);
            ask(&file.queries[i], 1e-3, 1e-9);
        }
        ccd_query_file_fini(&file);
    }
    FUZZ_CHECK(qpc_mem_live_blocks() == 0);
    return 0;
}
