/// Contradictions at sight.
///
/// Something pressed between two others has rows from either side: n.dv >= a and -n.dv >= b with a + b > 0. Each such pair is
/// a proof (y = 1 on both has J'y = 0 and c'y < 0), and is found by comparing rows over the same columns, where an engine
/// factors K and K + J'RJ a dozen times before active-set gets to it. Rows are dealt out by their columns; those of a place
/// where one of them asks for something are compared in pairs. Runs on the worker in the world; memory from the arena, given back.
#include "engine/solver/glance.h"

#include <math.h>

static const double PARALLEL = 1e-12; // of the largest value: what opposite rows may differ by
static const double CERTAIN = 10;     // times the tolerance: what is missing at least
enum {
    COMPARED_MOST = 64, // rows before it in one place that a row is compared with
    UNUSED = -2,        // a place without a row that asks for anything
    LAST = -1,
};

/// Of its first and last column and their number: rows of the same nodes have the same place.
static size_t place_of(const qpc_qp *qp, int32_t i, size_t places) {
    int32_t first = qp->row_start[i], last = qp->row_start[i + 1] - 1;
    uint64_t h = (uint64_t)(uint32_t)qp->column[first] << 32 | (uint64_t)(uint32_t)(qp->column[last] + (last - first));
    return (size_t)(h * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (places - 1);
}

static bool may_oppose(const qpc_qp *qp, int32_t i) { return !qp->equality[i] && qp->row_start[i + 1] > qp->row_start[i]; }

static double largest_value(const qpc_qp *qp, int32_t i) {
    double size = 0;
    for (int32_t k = qp->row_start[i]; k < qp->row_start[i + 1]; k++) size = fmax(size, fabs(qp->value[k]));
    return size;
}

/// Values over the same columns, each row by its largest one: opposite.
static bool opposite(const qpc_qp *qp, int32_t i, int32_t k, const double *size) {
    int32_t at = qp->row_start[i], other = qp->row_start[k], count = qp->row_start[i + 1] - at;
    if (qp->row_start[k + 1] - other != count) return false;
    for (int32_t e = 0; e < count; e++) {
        if (qp->column[at + e] != qp->column[other + e]) return false;
        if (!(fabs(qp->value[at + e] / size[i] + qp->value[other + e] / size[k]) <= PARALLEL)) return false;
    }
    return true;
}

qpc_status qpc_glance(const qpc_qp *qp, double tolerance, qpc_arena *arena, int32_t ret_row[2], bool *ret_found, qpc_error *err) {
    *ret_found = false;
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    size_t m = (size_t)qp->m, places = 16;
    while (places < 2 * m) places *= 2;
    int32_t *first = qpc_arena_array(arena, places, sizeof *first);
    int32_t *next = qpc_arena_array(arena, m, sizeof *next);
    double *size = qpc_arena_array(arena, m, sizeof *size);
    if (first == NULL || next == NULL || size == NULL) {
        qpc_arena_rewind(arena, mark);
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for %d rows", qp->m);
    }
    for (size_t i = 0; i < places; i++) first[i] = UNUSED;
    for (int32_t i = 0; i < qp->m; i++) // one of the two asks for more than 0 leaves
        if (qp->c[i] < 0 && may_oppose(qp, i)) first[place_of(qp, i, places)] = LAST;
    double least = -CERTAIN * tolerance;
    for (int32_t i = 0; i < qp->m; i++) {
        if (!may_oppose(qp, i)) continue;
        int32_t *head = &first[place_of(qp, i, places)];
        if (*head == UNUSED || !((size[i] = largest_value(qp, i)) > 0)) continue;
        int32_t compared = 0;
        for (int32_t k = *head; k != LAST && compared < COMPARED_MOST; k = next[k], compared++) {
            double room = qp->c[i] / size[i] + qp->c[k] / size[k];
            if (!(room < least) || !opposite(qp, i, k, size)) continue;
            least = room;
            ret_row[0] = k;
            ret_row[1] = i;
            *ret_found = true;
        }
        next[i] = *head;
        *head = i;
    }
    qpc_arena_rewind(arena, mark);
    return QPC_OK;
}
