/// Order of a sweep and where its blocks lie.
#include "engine/dynamics/sweep.h"

#include "base/mem.h"

#include <string.h>

enum { LANES = QPC_SWEEP_LANES, TURNS = 8 };

/// Nodes [begin, end) of an order in LANES parts, those of part l beginning `turn` l nodes further on in theirs.
static void deal_some(qpc_sweep *w, const int32_t *order, int32_t begin, int32_t end, int32_t turn) {
    int32_t groups = (end - begin + LANES - 1) / LANES, missing = LANES * groups - (end - begin);
    for (int32_t l = 0, first = begin; l < LANES; l++) {
        int32_t size = groups - (l >= LANES - missing ? 1 : 0);
        for (int32_t k = 0; k < size; k++) {
            int32_t node = order[first + (k + turn * l) % size], at = begin + LANES * k + l;
            w->position[node] = at;
            w->node[at] = node;
        }
        first += size;
    }
}

/// Those that are inside first, if they fill groups; how many.
static int32_t put_in_order(int32_t count, const uint8_t *inside, int32_t *order) {
    int32_t inner = 0, at = 0;
    for (int32_t i = 0; i < count && inside != NULL; i++) inner += inside[i] != 0;
    inner -= inner % LANES;
    for (int32_t i = 0, before = 0; i < count; i++) {
        bool first = inner > 0 && inside[i] != 0 && before < inner;
        order[first ? before++ : inner + at++] = i;
    }
    return inner;
}

/// With the turn of which the fewest blocks are between nodes of one group (a grid whose rows are as long as a part has them all there).
static void deal(qpc_sweep *w, const int32_t *order, int32_t inner, const int32_t *start, const int32_t *column) {
    int32_t best = 0, least = INT32_MAX;
    for (int32_t turn = 0; turn < TURNS && least > 0; turn++) {
        int32_t within = 0;
        deal_some(w, order, 0, inner, turn);
        deal_some(w, order, inner, w->count, turn);
        for (int32_t i = 0; i < w->count; i++)
            for (int32_t k = start[i]; k < start[i + 1]; k++) within += w->position[i] / LANES == w->position[column[k]] / LANES;
        if (within < least) {
            least = within;
            best = turn;
        }
    }
    deal_some(w, order, 0, inner, best);
    deal_some(w, order, inner, w->count, best);
}

/// Each block goes to the row of its later node, into its place there; `next` (count) is scratch.
static void make_rows(qpc_sweep *w, const int32_t *k_start, const int32_t *k_column, int32_t *next) {
    int32_t *start = w->start;
    for (int32_t i = 0; i < w->count; i++)
        for (int32_t k = k_start[i]; k < k_start[i + 1]; k++) {
            int32_t p = w->position[i], q = w->position[k_column[k]];
            start[(p > q ? p : q) + 1]++;
        }
    for (int32_t i = 0; i < w->count; i++) start[i + 1] += start[i];
    for (int32_t i = 0; i < w->count; i++) next[i] = start[i];
    for (int32_t i = 0; i < w->count; i++)
        for (int32_t k = k_start[i]; k < k_start[i + 1]; k++) {
            int32_t p = w->position[i], q = w->position[k_column[k]], place = next[p > q ? p : q]++;
            int32_t column = p > q ? q : p, from = p > q ? k : -1 - k;
            for (; place > start[p > q ? p : q] && w->column[place - 1] > column; place--) {
                w->column[place] = w->column[place - 1];
                w->from[place] = w->from[place - 1];
            }
            w->column[place] = column;
            w->from[place] = from;
        }
}

/// Blocks of row i that end before its group; columns ascend.
static int32_t outer(const qpc_sweep *w, int32_t i) {
    int32_t k = w->start[i + 1];
    while (k > w->start[i] && w->column[k - 1] >= i / LANES * LANES) k--;
    return k - w->start[i];
}

/// How many slots each group takes, and inner blocks each row.
static void count_slots(qpc_sweep *w) {
    for (int32_t i = 0; i < w->count; i++) {
        int32_t blocks = outer(w, i), *slots = &w->slot_start[i / LANES + 1];
        if (blocks > *slots) *slots = blocks;
        w->inner_start[i + 1] = w->inner_start[i] + w->start[i + 1] - w->start[i] - blocks;
    }
    for (int32_t g = 0; g < w->groups; g++) w->slot_start[g + 1] += w->slot_start[g];
}

/// The last block of every lane is in its group's last slot: it is what a sweep came to most recently.
static void fill_slots(qpc_sweep *w) {
    for (int32_t s = 0, g = 0; s < w->slot_start[w->groups]; s++) {
        while (s >= w->slot_start[g + 1]) g++;
        for (int32_t l = 0; l < LANES; l++) w->slot_column[LANES * s + l] = 4 * (LANES * g + l);
    }
    for (int32_t i = 0, inner = 0; i < w->count; i++) {
        int32_t blocks = outer(w, i), slot = w->slot_start[i / LANES + 1] - blocks;
        for (int32_t k = w->start[i]; k < w->start[i + 1]; k++) {
            if (k - w->start[i] < blocks) {
                w->slot_column[LANES * slot + i % LANES] = 4 * w->column[k];
                w->place[k] = QPC_SWEEP_BLOCK * slot++ + qpc_sweep_lane(i);
                continue;
            }
            w->inner_column[inner] = w->column[k];
            w->place[k] = -1 - inner++;
        }
    }
}

bool qpc_sweep_make(qpc_sweep *w, int32_t count, const int32_t *start, const int32_t *column, const uint8_t *inside) {
    size_t nodes = (size_t)count, blocks = (size_t)start[count];
    w->count = count;
    w->groups = (count + LANES - 1) / LANES;
    size_t groups = (size_t)w->groups;
    w->position = qpc_alloc_array(nodes, sizeof *w->position);
    w->node = qpc_alloc_array(nodes, sizeof *w->node);
    w->start = qpc_calloc(nodes + 1, sizeof *w->start);
    w->column = qpc_alloc_array(blocks, sizeof *w->column);
    w->from = qpc_alloc_array(blocks, sizeof *w->from);
    w->place = qpc_alloc_array(blocks, sizeof *w->place);
    w->slot_start = qpc_calloc(groups + 1, sizeof *w->slot_start);
    w->inner_start = qpc_calloc(nodes + 1, sizeof *w->inner_start);
    w->diagonal = qpc_calloc(QPC_SWEEP_DIAGONAL * groups, sizeof *w->diagonal);
    w->inverse = qpc_calloc(QPC_SWEEP_DIAGONAL * groups, sizeof *w->inverse);
    int32_t *next = qpc_alloc_array(nodes, sizeof *next);
    bool good = w->position != NULL && w->node != NULL && w->start != NULL && w->column != NULL && w->from != NULL && w->place != NULL &&
                w->slot_start != NULL && w->inner_start != NULL && w->diagonal != NULL && w->inverse != NULL && next != NULL;
    if (good) {
        deal(w, next, put_in_order(count, inside, next), start, column);
        make_rows(w, start, column, next);
        count_slots(w);
        size_t slots = (size_t)w->slot_start[groups], inner = (size_t)w->inner_start[nodes];
        w->slot_column = qpc_alloc_array(LANES * slots, sizeof *w->slot_column);
        w->value = qpc_calloc(QPC_SWEEP_BLOCK * slots, sizeof *w->value);
        w->inner_column = qpc_alloc_array(inner, sizeof *w->inner_column);
        w->inner = qpc_calloc(12 * inner, sizeof *w->inner);
        good = w->slot_column != NULL && w->value != NULL && w->inner_column != NULL && w->inner != NULL;
    }
    if (good) fill_slots(w);
    qpc_free(next);
    return good;
}

void qpc_sweep_fini(qpc_sweep *w) {
    qpc_free(w->position);
    qpc_free(w->node);
    qpc_free(w->start);
    qpc_free(w->column);
    qpc_free(w->from);
    qpc_free(w->place);
    qpc_free(w->slot_start);
    qpc_free(w->slot_column);
    qpc_free(w->value);
    qpc_free(w->inner_start);
    qpc_free(w->inner_column);
    qpc_free(w->inner);
    qpc_free(w->diagonal);
    qpc_free(w->inverse);
}

void qpc_sweep_refill(qpc_sweep *w, const double *value, const double *scale) {
    for (int32_t i = 0; i < w->count; i++) {
        double own = scale[w->node[i]];
        for (int32_t k = w->start[i]; k < w->start[i + 1]; k++) {
            int32_t from = w->from[k], place = w->place[k];
            const double *m = value + 9 * (int64_t)(from >= 0 ? from : -1 - from);
            double s = own * scale[w->node[w->column[k]]];
            for (int e = 0; e < 9; e++) {
                float entry = (float)(s * m[from >= 0 ? e : e % 3 * 3 + e / 3]);
                if (place >= 0) w->value[place + LANES * e] = entry;
                else w->inner[12 * (-1 - place) + 4 * (e / 3) + e % 3] = entry;
            }
        }
    }
}

bool qpc_sweep_round(const double *D, int32_t position, float *diagonal, float *inverse) {
    float *m = diagonal + qpc_sweep_diagonal(position), *out = inverse + qpc_sweep_diagonal(position);
    static const int ENTRY[6] = {0, 1, 2, 4, 5, 8};
    for (int e = 0; e < 6; e++) m[LANES * e] = (float)D[ENTRY[e]];
    // D^-1 by L D L' of [a b c; b d e; c e f], from the rounded D
    double a = (double)m[0], b = (double)m[LANES], c = (double)m[2 * LANES], l10 = b / a, l20 = c / a;
    double d = (double)m[3 * LANES] - l10 * b, e = (double)m[4 * LANES] - l20 * b, l21 = e / d, f = (double)m[5 * LANES] - l20 * c - l21 * e;
    if (!(a > 0 && d > 0 && f > 0)) return false;
    double i2 = 1 / f, i1 = 1 / d, i0 = 1 / a, k = l10 * l21 - l20; // L^-1 = [1; -l10 1; k -l21 1]
    out[5 * LANES] = (float)i2;
    out[4 * LANES] = (float)(-l21 * i2);
    out[2 * LANES] = (float)(k * i2);
    out[3 * LANES] = (float)(i1 + l21 * l21 * i2);
    out[LANES] = (float)(-l10 * i1 - l21 * k * i2);
    out[0] = (float)(i0 + l10 * l10 * i1 + k * k * i2);
    return true;
}
