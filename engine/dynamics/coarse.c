/// Aggregates of the nodes of K, and what K is in them. Made once per pattern, refilled with K.
#include "engine/dynamics/coarse.h"

#include "base/mem.h"
#include "engine/dynamics/blocks.h"

#include <string.h>

// Measured (bench_cloth): below either of the first two plain conjugate gradients are as fast. STIFF: diagonal of K against
// masses, 8 h^2 k / m in a sheet.
enum { NODES_LEAST = 4000, SIZE_LEAST = 50, SMALLEST = 8, APART_FIRST = 3, APART_MOST = 40, COUNT_MOST = 1200 };
static const double STIFF = 200;

typedef struct graph { // of nodes; who is next to whom, both ways
    int32_t count, *start, *other, *queue, *depth;
} graph;

static void drop_graph(graph *g) {
    qpc_free(g->start);
    qpc_free(g->other);
    qpc_free(g->queue);
    qpc_free(g->depth);
}

static bool make_graph(const qpc_blocks *K, graph *g) {
    int32_t count = K->count, *at;
    size_t nodes = (size_t)count, blocks = (size_t)K->start[count];
    *g = (graph){.count = count, .start = qpc_calloc(nodes + 2, sizeof *g->start)};
    g->other = qpc_alloc_array(2 * blocks, sizeof *g->other);
    g->queue = qpc_alloc_array(nodes, sizeof *g->queue);
    g->depth = qpc_alloc_array(nodes, sizeof *g->depth);
    if (g->start == NULL || g->other == NULL || g->queue == NULL || g->depth == NULL) return false;
    at = g->start + 1;
    for (int32_t i = 0; i < count; i++)
        for (int32_t k = K->start[i]; k < K->start[i + 1]; k++) {
            if (i + 1 < count) at[i + 1]++;
            if (K->column[k] + 1 < count) at[K->column[k] + 1]++;
        }
    for (int32_t i = 0; i < count; i++) at[i] += i > 0 ? at[i - 1] : 0; // where i's begin; its end when they are in
    for (int32_t i = 0; i < count; i++)
        for (int32_t k = K->start[i]; k < K->start[i + 1]; k++) {
            g->other[at[i]++] = K->column[k];
            g->other[at[K->column[k]]++] = i;
        }
    return true;
}

/// Walks from `from` to those within `apart`, whose depth is that or less after it.
static void cover(graph *g, int32_t from, int32_t apart) {
    int32_t head = 0, tail = 1;
    g->queue[0] = from;
    g->depth[from] = 0;
    while (head < tail) {
        int32_t i = g->queue[head++], next = g->depth[i] + 1;
        if (next > apart) continue;
        for (int32_t k = g->start[i]; k < g->start[i + 1]; k++) {
            int32_t j = g->other[k];
            if (g->depth[j] <= next) continue;
            g->depth[j] = next;
            g->queue[tail++] = j; // none twice: depths are found in ascending order
        }
    }
}

/// The aggregate that each node is nearest to, those of fewer than SMALLEST nodes excepted; their number.
static int32_t assign(graph *g, int32_t apart, int32_t *of, int32_t *size) {
    int32_t roots = 0, head = 0, tail = 0, kept = 0;
    for (int32_t i = 0; i < g->count; i++) g->depth[i] = INT32_MAX;
    for (int32_t i = 0; i < g->count; i++) {
        of[i] = -1;
        if (g->depth[i] <= apart) continue;
        cover(g, i, apart);
        of[i] = roots++;
    }
    for (int32_t i = 0; i < g->count; i++)
        if (of[i] >= 0) {
            size[of[i]] = 1;
            g->queue[tail++] = i;
        }
    while (head < tail) {
        int32_t i = g->queue[head++];
        for (int32_t k = g->start[i]; k < g->start[i + 1]; k++) {
            int32_t j = g->other[k];
            if (of[j] >= 0) continue;
            of[j] = of[i];
            size[of[i]]++;
            g->queue[tail++] = j;
        }
    }
    for (int32_t a = 0; a < roots; a++) size[a] = size[a] >= SMALLEST ? kept++ : -1;
    for (int32_t i = 0; i < g->count; i++) of[i] = size[of[i]] >= 0 ? size[of[i]] : kept;
    return kept;
}

/// Aggregates next to each other, both ways; `last` (nodes) is scratch.
static bool couple(qpc_coarse *z, const graph *g, int32_t *last) {
    int32_t count = z->count, *member = g->queue, *begin = g->depth; // the nodes by aggregates
    memset(begin, 0, ((size_t)count + 2) * sizeof *begin);
    for (int32_t i = 0; i < g->count; i++) begin[z->of[i]]++;
    for (int32_t a = 0, sum = 0; a <= count; a++) {
        int32_t own = begin[a];
        begin[a] = sum;
        sum += own;
    }
    for (int32_t i = 0; i < g->count; i++) member[begin[z->of[i]]++] = i;
    z->start = qpc_calloc((size_t)count + 1, sizeof *z->start);
    if (z->start == NULL) return false;
    for (int fill = 0; fill < 2; fill++) {
        int32_t found = 0;
        for (int32_t a = 0; a < count; a++) last[a] = -1;
        for (int32_t a = 0; a < count; a++) {
            z->start[a] = found;
            for (int32_t m = a > 0 ? begin[a - 1] : 0; m < begin[a]; m++)
                for (int32_t k = g->start[member[m]]; k < g->start[member[m] + 1]; k++) {
                    int32_t b = z->of[g->other[k]];
                    if (b == a || last[b] == a) continue;
                    last[b] = a;
                    if (fill == 1) z->other[found] = b;
                    found++;
                }
        }
        z->start[count] = found;
        if (fill == 0 && (z->other = qpc_alloc_array((size_t)found, sizeof *z->other)) == NULL) return false;
    }
    return true;
}

/// Where each block of K goes in Z'KZ.
static bool place_values(qpc_coarse *z, const qpc_blocks *K) {
    z->value_place = qpc_alloc_array((size_t)K->start[K->count], sizeof *z->value_place);
    z->value = qpc_alloc_array(9 * (size_t)z->start[z->count], sizeof *z->value);
    z->diagonal = qpc_alloc_array(9 * (size_t)z->count, sizeof *z->diagonal);
    z->trace = qpc_alloc_array(2 * (size_t)z->count, sizeof *z->trace);
    if (z->value_place == NULL || z->value == NULL || z->diagonal == NULL || z->trace == NULL) return false;
    for (int32_t i = 0; i < K->count; i++)
        for (int32_t k = K->start[i]; k < K->start[i + 1]; k++) {
            int32_t a = z->of[i], b = z->of[K->column[k]], high = a > b ? a : b, low = a > b ? b : a;
            z->value_place[k] = -1;
            for (int32_t e = z->start[high]; high != low && e < z->start[high + 1]; e++)
                if (z->other[e] == low) z->value_place[k] = e;
        }
    return true;
}

/// Where each block of a sweep goes in L'Z.
static bool place_left(qpc_coarse *z, const qpc_blocks *K) {
    size_t nodes = (size_t)K->count, blocks = (size_t)K->start[K->count];
    z->at = qpc_alloc_array(nodes, sizeof *z->at);
    z->weight = qpc_alloc_array(nodes, sizeof *z->weight);
    z->left_start = qpc_calloc(nodes + 1, sizeof *z->left_start);
    z->left_other = qpc_alloc_array(blocks, sizeof *z->left_other);
    z->left_place = qpc_alloc_array(blocks, sizeof *z->left_place);
    if (z->at == NULL || z->weight == NULL || z->left_start == NULL || z->left_other == NULL || z->left_place == NULL)
        return false;
    int32_t *count = z->left_start + 1, *other = z->left_other, room = 0;
    for (int32_t i = 0; i < K->count; i++) z->at[i] = z->of[K->sweep.node[i]];
    for (int32_t k = 0; k < K->sweep.start[K->count]; k++) count[K->sweep.column[k]]++;
    for (int32_t i = 0; i < K->count; i++) count[i] += i > 0 ? count[i - 1] : 0;
    for (int32_t i = 0; i < K->count; i++) // room for all of them; what is not used goes below
        for (int32_t e = z->left_start[i]; e < z->left_start[i + 1]; e++) other[e] = -1;
    for (int32_t i = 0; i < K->count; i++)
        for (int32_t k = K->sweep.start[i]; k < K->sweep.start[i + 1]; k++) {
            int32_t e = z->left_start[K->sweep.column[k]];
            z->left_place[k] = -1;
            if (z->at[i] == z->count) continue;
            while (other[e] >= 0 && other[e] != z->at[i]) e++;
            other[e] = z->at[i];
            z->left_place[k] = e;
        }
    // Close the gaps: entry e moves down by what was left free before it in other rows.
    for (int32_t i = 0; i < K->count; i++)
        for (int32_t k = K->sweep.start[i]; k < K->sweep.start[i + 1]; k++)
            if (z->left_place[k] >= 0) z->left_place[k] -= z->left_start[K->sweep.column[k]];
    for (int32_t i = 0, begin = 0; i < K->count; i++) {
        int32_t end = z->left_start[i + 1];
        z->left_start[i] = room;
        for (; begin < end && other[begin] >= 0; begin++) other[room++] = other[begin];
        begin = end;
    }
    z->left_start[K->count] = room;
    for (int32_t k = 0; k < K->sweep.start[K->count]; k++)
        if (z->left_place[k] >= 0) z->left_place[k] += z->left_start[K->sweep.column[k]];
    z->left = qpc_alloc_array(12 * (size_t)room, sizeof *z->left);
    return z->left != NULL;
}

static bool make_factor(qpc_coarse *z) {
    qpc_coarse_factor *f = &z->factor;
    size_t count = (size_t)z->count;
    f->place = qpc_alloc_array(count, sizeof *f->place);
    f->scratch = qpc_alloc_array(2 * count, sizeof *f->scratch);
    f->x = qpc_alloc_array(3 * count, sizeof *f->x);
    if (f->place == NULL || f->scratch == NULL || f->x == NULL) return false;
    f->width = 3 * qpc_coarse_order(z->count, z->start, z->other, NULL, NULL, f->place, f->scratch) + 2;
    f->room = 3 * (int64_t)z->count * (f->width + 1);
    f->band = qpc_alloc_array((size_t)f->room, sizeof *f->band);
    return f->band != NULL;
}

qpc_status qpc_coarse_create(const qpc_blocks *K, qpc_coarse **ret, qpc_error *err) {
    *ret = NULL;
    int32_t most = K->count / SIZE_LEAST < COUNT_MOST ? K->count / SIZE_LEAST : COUNT_MOST;
    if (K->count < NODES_LEAST) return QPC_OK;
    graph g = {0};
    qpc_coarse *z = qpc_calloc(1, sizeof *z);
    int32_t *scratch = qpc_alloc_array((size_t)K->count + 1, sizeof *scratch);
    bool good = z != NULL && scratch != NULL && make_graph(K, &g);
    if (good) good = (z->of = qpc_alloc_array((size_t)K->count, sizeof *z->of)) != NULL;
    bool pays = false;
    for (int32_t apart = APART_FIRST; good && !pays && apart <= APART_MOST; apart += apart > 8 ? apart / 4 : 1) {
        z->count = assign(&g, apart, z->of, scratch);
        pays = z->count <= most;
    }
    pays &= good && z->count > 1;
    if (pays) good = couple(z, &g, scratch) && place_values(z, K) && place_left(z, K) && make_factor(z);
    drop_graph(&g);
    qpc_free(scratch);
    if (good && pays) {
        *ret = z;
        return QPC_OK;
    }
    qpc_coarse_destroy(z);
    return good ? QPC_OK : qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a coarse space of %d nodes", K->count);
}

void qpc_coarse_destroy(qpc_coarse *z) {
    if (z == NULL) return;
    qpc_free(z->of);
    qpc_free(z->at);
    qpc_free(z->weight);
    qpc_free(z->start);
    qpc_free(z->other);
    qpc_free(z->value);
    qpc_free(z->diagonal);
    qpc_free(z->value_place);
    qpc_free(z->left_start);
    qpc_free(z->left_other);
    qpc_free(z->left);
    qpc_free(z->left_place);
    qpc_free(z->trace);
    qpc_free(z->factor.place);
    qpc_free(z->factor.scratch);
    qpc_free(z->factor.band);
    qpc_free(z->factor.x);
    qpc_free(z);
}

static double trace(const double *m) { return m[0] + m[4] + m[8]; }

/// Z'KZ, in K's own unknowns.
static void refill_values(qpc_coarse *z, const qpc_blocks *K) {
    memset(z->value, 0, 9 * (size_t)z->start[z->count] * sizeof *z->value);
    memset(z->diagonal, 0, 9 * (size_t)z->count * sizeof *z->diagonal);
    memset(z->trace, 0, 2 * (size_t)z->count * sizeof *z->trace);
    for (int32_t i = 0; i < K->count; i++) {
        int32_t a = z->of[i];
        if (a == z->count) continue;
        double *own = z->diagonal + 9 * (int64_t)a;
        z->trace[2 * a] += trace(K->diagonal + 9 * (int64_t)i);
        for (int e = 0; e < 9; e++) own[e] += K->diagonal[9 * (int64_t)i + e];
        for (int32_t k = K->start[i]; k < K->start[i + 1]; k++) {
            const double *m = K->value + 9 * (int64_t)k;
            int32_t place = z->value_place[k];
            bool across = z->of[K->column[k]] > a;
            double *to = place < 0 ? own : z->value + 9 * (int64_t)place;
            for (int e = 0; e < 9; e++) {
                int turned = 3 * (e % 3) + e / 3;
                to[e] += place < 0 ? m[e] + m[turned] : across ? m[turned] : m[e];
            }
        }
    }
    for (int32_t a = 0; a < z->count; a++) {
        z->trace[2 * a + 1] += trace(z->diagonal + 9 * (int64_t)a);
        for (int32_t e = z->start[a]; e < z->start[a + 1]; e++) {
            if (z->other[e] > a) continue;
            double t = trace(z->value + 9 * (int64_t)e);
            z->trace[2 * a + 1] += t;
            z->trace[2 * z->other[e] + 1] += t;
        }
    }
}

static void refill_left(qpc_coarse *z, const qpc_blocks *K) {
    memset(z->left, 0, 12 * (size_t)z->left_start[K->count] * sizeof *z->left);
    for (int32_t i = 0; i < K->count; i++) {
        z->weight[i] = z->at[i] < z->count ? (float)(1 / K->scale[K->sweep.node[i]]) : 0;
        for (int32_t k = K->sweep.start[i]; k < K->sweep.start[i + 1]; k++) {
            if (z->left_place[k] < 0) continue;
            float *to = z->left + 12 * (int64_t)z->left_place[k];
            for (int e = 0; e < 9; e++) to[4 * (e / 3) + e % 3] += z->weight[i] * qpc_sweep_entry(&K->sweep, k, e);
        }
    }
}

void qpc_coarse_refill(qpc_coarse *z, const qpc_blocks *K) {
    int32_t stiff = 0;
    refill_values(z, K);
    for (int32_t a = 0; a < z->count; a++) stiff += z->trace[2 * a] >= STIFF * z->trace[2 * a + 1];
    z->pays = 2 * (int64_t)stiff >= z->count;
    if (z->pays) z->pays = qpc_coarse_factor_make(z, NULL, &z->factor);
    if (z->pays) refill_left(z, K);
}
