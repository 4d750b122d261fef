/// Walk over the pairs that the broad phase of surfaces leaves; see sheets.h.
///
/// One job a slice of the broad phase: pairs are gathered in chunks, the batch filter proves most
/// of them apart, the rest is tested one by one. A slice writes to its own place; places are joined
/// in slice order, so that contacts have the same bits on any number of threads. The filter works
/// at the reach of the boxes, which is beyond what any test can report: it changes no result.
#include "engine/collision/sheets.h"

#include "base/mem.h"
#include "engine/collision/features.h"
#include "engine/collision/filter.h"

enum { CHUNK = 64, BLOCKS = CHUNK / QPC_FILTER_LANES };

struct qpc_sheets {
    qpc_broad *broad;
    qpc_kept kept;
    qpc_slice *slices; // (slice_capacity)
    int32_t slice_capacity;
};

typedef enum purpose { PROXIMITY, MOTION, GAP } purpose;

typedef struct walk {
    const qpc_detector *det;
    purpose purpose;
    const double *x0, *x1;
    double reach, factor; // in separations
    const uint8_t *skip;  // (meshes) pairs of two of these are known; NULL: none are
    const uint8_t *keep;  // (meshes) which pairs of two of these were tested is noted; NULL: none
} walk;

qpc_status qpc_sheets_create(const qpc_detector *det, const double *x, qpc_sheets **ret,
                             qpc_error *err) {
    qpc_sheets *sheets = qpc_calloc(1, sizeof *sheets);
    qpc_broad_surface *defs = qpc_alloc_array((size_t)det->mesh_count, sizeof *defs);
    qpc_status status = QPC_OK;
    if (sheets == NULL || defs == NULL)
        status = qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a detector");
    for (int32_t i = 0; i < det->mesh_count && status == QPC_OK; i++) {
        const qpc_mesh_part *m = &det->meshes[i];
        defs[i] = (qpc_broad_surface){
            .motion = m->rigid ? QPC_RIGID : m->motion, .first_node = m->first_node, .mesh = m->mesh, .radius = m->radius};
    }
    if (status == QPC_OK)
        status =
            qpc_broad_create(defs, det->mesh_count, x, det->max_candidates, &sheets->broad, err);
    qpc_free(defs);
    if (status == QPC_OK) status = qpc_kept_init(&sheets->kept, det, x, err);
    if (status == QPC_OK)
        *ret = sheets;
    else
        qpc_sheets_destroy(sheets);
    return status;
}

void qpc_sheets_destroy(qpc_sheets *sheets) {
    if (sheets == NULL) return;
    qpc_broad_destroy(sheets->broad);
    qpc_kept_fini(&sheets->kept);
    for (int32_t i = 0; i < sheets->slice_capacity; i++) {
        qpc_array_fini(&sheets->slices[i].found);
        qpc_array_fini(&sheets->slices[i].tested);
    }
    qpc_free(sheets->slices);
    qpc_free(sheets);
}

const qpc_broad *qpc_sheets_broad(const qpc_sheets *sheets) {
    return sheets->broad;
}

// ---- from numbers to features ----

/// Meshes are few and pairs come in runs: `last` is tried first.
static const qpc_mesh_part *mesh_of_node(const qpc_detector *det, const qpc_mesh_part *last,
                                         int32_t node) {
    if (node - last->first_node >= 0 && node - last->first_node < last->node_count) return last;
    const qpc_mesh_part *m = det->meshes;
    while (node - m->first_node < 0 || node - m->first_node >= m->node_count) m++;
    return m;
}

static const qpc_mesh_part *mesh_of_triangle(const qpc_detector *det, const qpc_mesh_part *last,
                                             int32_t triangle) {
    const qpc_mesh_part *m = last;
    while (m > det->meshes && triangle < m->triangle_base) m--;
    while (triangle - m->triangle_base >= m->triangle_count) m++;
    return m;
}

static const qpc_mesh_part *mesh_of_edge(const qpc_detector *det, const qpc_mesh_part *last,
                                         int32_t edge) {
    const qpc_mesh_part *m = last;
    while (m > det->meshes && edge < m->sheet_edge_base) m--;
    while (edge - m->sheet_edge_base >= m->edge_count) m++;
    return m;
}

void qpc_sheet_pair_make(const qpc_detector *det, qpc_pair numbers, bool vt, const qpc_mesh_part *last[2], qpc_sheet_pair *ret) {
    ret->vt = vt;
    if (vt) {
        const qpc_mesh_part *i = last[0] = mesh_of_node(det, last[0], numbers.a);
        const qpc_mesh_part *j = last[1] = mesh_of_triangle(det, last[1], numbers.b);
        ret->feature[0] = numbers.a - i->first_node;
        ret->feature[1] = numbers.b - j->triangle_base;
        ret->node[0] = numbers.a;
        for (int k = 0; k < 3; k++)
            ret->node[1 + k] = j->first_node + j->triangles[3 * (int64_t)ret->feature[1] + k];
    } else {
        int32_t number[2] = {numbers.a, numbers.b};
        if (numbers.b < numbers.a) number[0] = numbers.b, number[1] = numbers.a;
        for (int s = 0; s < 2; s++) {
            last[s] = mesh_of_edge(det, last[s], number[s]);
            ret->feature[s] = number[s] - last[s]->sheet_edge_base;
            for (int k = 0; k < 2; k++)
                ret->node[2 * s + k] =
                    last[s]->first_node + qpc_edge_nodes(last[s], ret->feature[s])[k];
        }
    }
    for (int s = 0; s < 2; s++) ret->mesh[s] = last[s];
    ret->separation = last[0]->radius + last[1]->radius;
    ret->near_self = qpc_sheet_near_self(ret);
    if (ret->near_self) ret->separation *= 0.01;
}

// ---- the walk ----

static void note(const walk *w, const qpc_sheet_pair *pair, qpc_pair numbers, double distance, qpc_slice *out) {
    int32_t i = (int32_t)(pair->mesh[0] - w->det->meshes), j = (int32_t)(pair->mesh[1] - w->det->meshes);
    if (w->keep == NULL || !w->keep[i] || !w->keep[j]) return;
    qpc_tested tested = {.pair = numbers, .mesh = {i, j}, .vt = pair->vt, .ratio = distance / pair->separation};
    if (!qpc_array_push(&out->tested, tested)) out->full = true;
}

static void test(const walk *w, const qpc_sheet_pair *pair, qpc_pair numbers, qpc_slice *out) {
    if (w->purpose == PROXIMITY)
        note(w, pair, numbers, qpc_sheet_proximity(pair, w->x0, w->reach, out), out);
    else if (w->purpose == MOTION)
        qpc_sheet_motion(pair, w->x0, w->x1, w->factor, out);
    else
        qpc_sheet_gap(pair, w->x0, out);
}

static void walk_pairs(const walk *w, const qpc_pairs *pairs, bool vt, qpc_slice *out) {
    const qpc_mesh_part *last[2] = {w->det->meshes, w->det->meshes};
    qpc_sheet_pair pair[CHUNK];
    qpc_pair numbers[CHUNK];
    qpc_filter_block block[BLOCKS];
    uint8_t open[BLOCKS];
    int32_t cleared = 0; // blocks that hold numbers: most lists fill few, and lanes past the end are read
    out->counts.candidates += (uint64_t)pairs->count;
    for (int32_t at = 0; at < pairs->count;) {
        int32_t n = 0;
        for (; n < CHUNK && at < pairs->count; at++) {
            qpc_sheet_pair_make(w->det, pairs->data[at], vt, last, &pair[n]);
            if (w->skip != NULL && w->skip[last[0] - w->det->meshes] && w->skip[last[1] - w->det->meshes]) continue;
            if (w->purpose == GAP && pair[n].near_self) continue;
            numbers[n] = pairs->data[at];
            double reach = w->purpose == GAP ? out->best : w->reach;
            int32_t b = n / QPC_FILTER_LANES;
            if (b == cleared) memset(&block[cleared++], 0, sizeof *block);
            qpc_filter_put_nodes(&block[b], n % QPC_FILTER_LANES, w->x0, w->x1, pair[n].node,
                                 reach * pair[n].separation);
            n++;
        }
        if (vt)
            qpc_filter_vt(block, n, open);
        else
            qpc_filter_ee(block, n, open);
        for (int32_t i = 0; i < n; i++)
            if (open[i / QPC_FILTER_LANES] >> i % QPC_FILTER_LANES & 1) test(w, &pair[i], numbers[i], out);
    }
}

static void walk_slice(void *data, int32_t slice) {
    const walk *w = data;
    const qpc_sheets *sheets = w->det->sheets;
    qpc_slice *out = &sheets->slices[slice];
    walk_pairs(w, qpc_broad_vt(sheets->broad, slice), true, out);
    walk_pairs(w, qpc_broad_ee(sheets->broad, slice), false, out);
}

qpc_status qpc_sheets_update(qpc_detector *det, const double *x0, const double *x1, double reach,
                             qpc_error *err) {
    qpc_broad *broad = det->sheets->broad;
    qpc_status status = qpc_broad_update(broad, x0, x1, reach, det->parallel, err);
    qpc_broad_counts counts = qpc_broad_get_counts(broad);
    det->counts.box_tests += counts.box_tests;
    det->counts.list_rebuilds += counts.list_builds;
    qpc_broad_counts_reset(broad);
    return status;
}

/// *best: the smallest gap so far, lowered.
static qpc_status run(qpc_detector *det, const walk *w, double *best, qpc_error *err) {
    qpc_sheets *sheets = det->sheets;
    qpc_status status = qpc_sheets_update(det, w->x0, w->x1, w->reach, err);
    if (status != QPC_OK) return status;
    int32_t count = qpc_broad_slice_count(sheets->broad);
    if (count > sheets->slice_capacity) {
        qpc_slice *grown = qpc_realloc_array(sheets->slices, (size_t)count, sizeof *grown);
        if (grown == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for contacts");
        memset(grown + sheets->slice_capacity, 0,
               (size_t)(count - sheets->slice_capacity) * sizeof *grown);
        sheets->slices = grown;
        sheets->slice_capacity = count;
    }
    for (int32_t i = 0; i < count; i++) qpc_slice_clear(&sheets->slices[i], *best);
    walk copy = *w;
    qpc_parallel_run(det->parallel, count, walk_slice, &copy);
    return qpc_slices_join(det, sheets->slices, count, best, err);
}

qpc_status qpc_sheets_proximity(qpc_detector *det, const double *x, double reach, qpc_error *err) {
    if (det->sheets == NULL) return QPC_OK;
    walk w = {.det = det, .purpose = PROXIMITY, .x0 = x, .x1 = x, .reach = reach};
    double none = 0; // no gap is asked for
    qpc_kept *kept = &det->sheets->kept;
    if (kept->x == NULL) return run(det, &w, &none, err);
    if (qpc_kept_compare(kept, det, x, reach)) return qpc_kept_deliver(kept, det, err);
    qpc_kept_drop(kept);
    qpc_status status = qpc_kept_deliver(kept, det, err);
    w.skip = kept->still;
    w.keep = kept->solid;
    if (status == QPC_OK) status = run(det, &w, &none, err);
    if (status == QPC_OK) status = qpc_kept_add(kept, det, det->sheets->slices, qpc_broad_slice_count(det->sheets->broad), x, reach, err);
    return status;
}

qpc_status qpc_sheets_keep(qpc_detector *det, const qpc_contacts *contacts, qpc_error *err) {
    return det->sheets != NULL ? qpc_kept_close(&det->sheets->kept, det, contacts, err) : QPC_OK;
}

qpc_status qpc_sheets_motion(qpc_detector *det, const double *x0, const double *x1, double reach,
                             double factor, qpc_error *err) {
    if (det->sheets == NULL) return QPC_OK;
    walk w = {.det = det, .purpose = MOTION, .x0 = x0, .x1 = x1, .reach = reach, .factor = factor};
    double none = 0; // no gap is asked for
    qpc_kept *kept = &det->sheets->kept;
    if (kept->x != NULL) {
        if (qpc_kept_rest(kept, det, x0, x1)) return QPC_OK;
        w.skip = kept->still;
    }
    return run(det, &w, &none, err);
}

qpc_status qpc_sheets_gap(qpc_detector *det, const double *x, double reach, double *best,
                          qpc_error *err) {
    if (det->sheets == NULL) return QPC_OK;
    walk w = {.det = det, .purpose = GAP, .x0 = x, .x1 = x, .reach = reach};
    qpc_kept *kept = &det->sheets->kept;
    if (kept->x != NULL && qpc_kept_gap(kept, det, x, best)) {
        if (!kept->deforming) return QPC_OK;
        w.skip = kept->solid;
    }
    return run(det, &w, best, err);
}
