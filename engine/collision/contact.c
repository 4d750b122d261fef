/// Keys, order and merging of contacts; see contact.h. Internal to detection.
#include "engine/collision/detector.h"

#include "base/mem.h"

#include <string.h>

/// Key of an edge-edge contact: node are a0, a1, b0, b1.
uint64_t qpc_ee_key(const int32_t node_of[4], const double *weight, int32_t edge_i,
                    int32_t edge_j) {
    int32_t i = weight[1] == 0 ? node_of[0] : weight[0] == 0 ? node_of[1] : -1;
    int32_t j = weight[3] == 0 ? node_of[2] : weight[2] == 0 ? node_of[3] : -1;
    if (i >= 0 && j >= 0) return qpc_contact_key(QPC_KEY_VERTEX_VERTEX, i, j);
    if (i >= 0) return qpc_contact_key(QPC_KEY_VERTEX_EDGE, i, edge_j);
    if (j >= 0) return qpc_contact_key(QPC_KEY_EDGE_VERTEX, edge_i, j);
    return qpc_contact_key(QPC_KEY_EDGE_EDGE, edge_i, edge_j);
}

static int compare(const qpc_contact *a, const qpc_contact *b) {
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    if (a->toi != b->toi) return a->toi < b->toi ? -1 : 1;
    if (a->distance != b->distance) return a->distance < b->distance ? -1 : 1;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    for (int s = 0; s < 2; s++)
        if (a->feature[s] != b->feature[s]) return a->feature[s] < b->feature[s] ? -1 : 1;
    return 0;
}

/// Of two that are alike but for rounding: what is kept of a pair of solid surfaces must not depend on which was found first.
static int compare_bits(const qpc_detector *det, const qpc_contact *a, const qpc_contact *b) {
    if (!det->solid[a->surface[0]] || !det->solid[a->surface[1]]) return 0;
    for (int k = 0; k < 4; k++)
        if (a->weight[k] != b->weight[k]) return a->weight[k] < b->weight[k] ? -1 : 1;
    const double p[3] = {a->n.x, a->n.y, a->n.z}, q[3] = {b->n.x, b->n.y, b->n.z};
    for (int k = 0; k < 3; k++)
        if (p[k] != q[k]) return p[k] < q[k] ? -1 : 1;
    return 0;
}

/// a, nearly in order, to order, while that takes few moves; false if it is not done. Stable.
static bool insert(qpc_order *a, int32_t n, int64_t *moves) {
    for (int32_t i = 1; i < n; i++) {
        if (a[i - 1].key <= a[i].key) continue;
        qpc_order at = a[i];
        int32_t k = i;
        for (; k > 0 && a[k - 1].key > at.key; k--) a[k] = a[k - 1];
        a[k] = at;
        *moves -= i - k;
        if (*moves < 0) return false;
    }
    return true;
}

/// Contacts are found feature by feature, so that those of one type are nearly in order: from a to b by
/// type, then each type by few moves if that will do. Stable as far as it gets.
static bool sort_types(const qpc_order *a, qpc_order *b, int32_t n) {
    int32_t count[16] = {0}, start[16];
    int64_t moves = 4 * (int64_t)n;
    for (int32_t i = 0; i < n; i++) count[a[i].key >> 60]++;
    for (int32_t type = 0, sum = 0; type < 16; type++) {
        start[type] = sum;
        sum += count[type];
    }
    for (int32_t i = 0; i < n; i++) b[start[a[i].key >> 60]++] = a[i];
    for (int32_t type = 0; type < 16; type++)
        if (!insert(b + start[type] - count[type], count[type], &moves)) return false;
    return true;
}

/// Stable sort by key: by types, then merging where there are few; else by one byte after the other, lowest
/// first, leaving out bytes that all have in common. Either array may hold the result, which is returned.
static qpc_order *sort(qpc_order *a, qpc_order *b, int32_t n) {
    int32_t in_order = 1;
    while (in_order < n && a[in_order - 1].key <= a[in_order].key) in_order++;
    if (in_order >= n) return a;
    if (sort_types(a, b, n)) return b;
    qpc_order *typed = b;
    b = a;
    a = typed;
    if (n <= 1024) {
        for (int32_t width = 1; width < n; width *= 2) {
            for (int32_t start = 0; start < n; start += 2 * width) {
                int32_t middle = start + width < n ? start + width : n;
                int32_t end = middle + width < n ? middle + width : n;
                int32_t i = start, j = middle;
                for (int32_t k = start; k < end; k++)
                    b[k] = j >= end || (i < middle && a[i].key <= a[j].key) ? a[i++] : a[j++];
            }
            qpc_order *swap = a;
            a = b;
            b = swap;
        }
        return a;
    }
    static const int byte[] = {0, 8, 16, 24, 32, 40, 48, 56};
    int32_t at[8][256];
    memset(at, 0, sizeof at);
    for (int32_t i = 0; i < n; i++)
        for (int d = 0; d < 8; d++) at[d][a[i].key >> byte[d] & 255]++;
    for (int d = 0; d < 8; d++) {
        if (at[d][a[0].key >> byte[d] & 255] == n) continue;
        int32_t sum = 0;
        for (int k = 0; k < 256; k++) {
            int32_t count = at[d][k];
            at[d][k] = sum;
            sum += count;
        }
        for (int32_t i = 0; i < n; i++) b[at[d][a[i].key >> byte[d] & 255]++] = a[i];
        qpc_order *swap = a;
        a = b;
        b = swap;
    }
    return a;
}

void qpc_slice_clear(qpc_slice *slice, double best) {
    slice->found.count = slice->tested.count = 0;
    slice->counts = (qpc_detect_counts){0};
    slice->best = best;
    slice->full = false;
}

qpc_status qpc_slices_join(qpc_detector *det, const qpc_slice *slices, int32_t count, double *best,
                           qpc_error *err) {
    int64_t total = det->raw.count;
    bool full = false;
    for (int32_t i = 0; i < count; i++) {
        const qpc_detect_counts *c = &slices[i].counts;
        det->counts.candidates += c->candidates;
        det->counts.vt_tests += c->vt_tests;
        det->counts.ee_tests += c->ee_tests;
        det->counts.hits += c->hits;
        det->counts.ccd_iterations += c->ccd_iterations;
        *best = fmin(*best, slices[i].best);
        full |= slices[i].full;
        total += slices[i].found.count;
    }
    if (full || !qpc_array_reserve(&det->raw, total))
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for contacts");
    for (int32_t i = 0; i < count; i++) {
        const qpc_contacts *from = &slices[i].found;
        if (from->count == 0) continue;
        memcpy(det->raw.data + det->raw.count, from->data,
               (size_t)from->count * sizeof *from->data);
        det->raw.count += from->count;
    }
    return QPC_OK;
}

/// Sort by key, keep the first of each key, write to ret.
qpc_status qpc_contacts_deliver(qpc_detector *det, qpc_contacts *ret, qpc_error *err) {
    int32_t n = det->raw.count;
    const qpc_contact *raw = det->raw.data;
    if (n > det->order_capacity) {
        qpc_order *grown = qpc_realloc_array(det->order, (size_t)n, 4 * sizeof *grown);
        if (grown == NULL) goto no_memory;
        det->order = grown;
        det->order_capacity = n <= INT32_MAX / 2 ? 2 * n : n;
    }
    if (!qpc_array_reserve(ret, n)) goto no_memory;
    for (int32_t i = 0; i < n; i++) det->order[i] = (qpc_order){raw[i].key, i};
    const qpc_order *order = sort(det->order, det->order + det->order_capacity, n);
    ret->count = 0;
    for (int32_t i = 0; i < n;) {
        uint64_t key = order[i].key;
        const qpc_contact *best = &raw[order[i].item];
        for (i++; i < n && order[i].key == key; i++) {
            const qpc_contact *c = &raw[order[i].item];
            int how = compare(c, best);
            if (how < 0 || (how == 0 && compare_bits(det, c, best) < 0)) best = c;
        }
        ret->data[ret->count++] = *best;
    }
    return QPC_OK;
no_memory:
    return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for %d contacts", (int)n);
}
