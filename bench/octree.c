/// Loose octree in Morton order; see octree.h.
#include "bench/octree.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH = 10, DIGIT = 11 }; // levels 0 to DEPTH; bits a pass of the sort

typedef struct entry {
    uint64_t key; // Morton code of the corner of the cell at the finest level, then its level
    int32_t item;
} entry;

typedef struct cell {
    qpc_fbox loose;
    int32_t first, count, next; // items in it, not in cells within; next cell outside
} cell;

struct octree {
    int32_t count, cell_count, cell_capacity;
    entry *entry, *spare;
    qpc_fbox *box; // in the order of entry, next to each other in memory
    cell *cells;
};

octree *octree_create(int32_t count) {
    octree *t = calloc(1, sizeof *t);
    if (t == NULL) return NULL;
    t->count = count;
    t->entry = malloc((size_t)count * sizeof *t->entry);
    t->spare = malloc((size_t)count * sizeof *t->spare);
    t->box = malloc((size_t)count * sizeof *t->box);
    if (t->entry != NULL && t->spare != NULL && t->box != NULL) return t;
    octree_destroy(t);
    return NULL;
}

void octree_destroy(octree *t) {
    if (t == NULL) return;
    free(t->entry);
    free(t->spare);
    free(t->box);
    free(t->cells);
    free(t);
}

static uint64_t spread(uint64_t x) { // bit i to bit 3 i
    x = (x | x << 16) & 0x30000ff0000ffu;
    x = (x | x << 8) & 0x300f00f00f00fu;
    x = (x | x << 4) & 0x30c30c30c30c3u;
    return (x | x << 2) & 0x9249249249249u;
}

static void sort(octree *t) {
    static uint32_t start[1 << DIGIT];
    for (int shift = 0; shift < 3 * DEPTH + 4; shift += DIGIT) {
        memset(start, 0, sizeof start);
        uint64_t mask = (1u << DIGIT) - 1;
        for (int32_t i = 0; i < t->count; i++) start[t->entry[i].key >> shift & mask]++;
        uint32_t sum = 0;
        for (size_t i = 0; i <= mask; i++) {
            uint32_t n = start[i];
            start[i] = sum;
            sum += n;
        }
        for (int32_t i = 0; i < t->count; i++)
            t->spare[start[t->entry[i].key >> shift & mask]++] = t->entry[i];
        entry *swap = t->entry;
        t->entry = t->spare;
        t->spare = swap;
    }
}

static cell *push_cell(octree *t) {
    if (t->cell_count == t->cell_capacity) {
        int32_t capacity = 2 * t->cell_capacity + 1024;
        cell *grown = realloc(t->cells, (size_t)capacity * sizeof *grown);
        if (grown == NULL) return NULL;
        t->cells = grown;
        t->cell_capacity = capacity;
    }
    return &t->cells[t->cell_count++];
}

/// Cells of the sorted entries, with all that contain them.
static bool make_cells(octree *t, const double low[3], double size) {
    int32_t open[DEPTH + 1], height = 0;
    uint64_t open_key[DEPTH + 1];
    t->cell_count = 0;
    for (int32_t i = 0; i < t->count; i++) {
        uint64_t code = t->entry[i].key >> 4;
        int level = (int)(t->entry[i].key & 15);
        // Close what this item is not in; open the way down to its cell.
        while (height > 0 &&
               (height - 1 > level || open_key[height - 1] != code >> 3 * (DEPTH - (height - 1))))
            t->cells[open[--height]].next = t->cell_count;
        while (height <= level) {
            cell *c = push_cell(t);
            if (c == NULL) return false;
            *c = (cell){.first = i};
            double width = size / (1 << height), corner[3], lo[3], hi[3];
            uint64_t key = code >> 3 * (DEPTH - height);
            for (int d = 0; d < 3; d++) {
                uint64_t at = 0;
                for (int b = 0; b < height; b++) at |= (key >> (3 * b + d) & 1) << b;
                corner[d] = low[d] + (double)at * width;
                lo[d] = corner[d] - 0.5001 * width; // some spare for the rounding of centres
                hi[d] = corner[d] + 1.5001 * width;
            }
            c->loose = qpc_fbox_around(lo, hi, (const double[3]){0, 0, 0});
            open_key[height] = key;
            open[height++] = t->cell_count - 1;
        }
        t->cells[open[height - 1]].count++;
    }
    while (height > 0) t->cells[open[--height]].next = t->cell_count;
    return true;
}

bool octree_build(octree *t, const qpc_fbox *boxes) {
    double low[3] = {INFINITY, INFINITY, INFINITY}, size = 0;
    for (int32_t i = 0; i < t->count; i++)
        for (int d = 0; d < 3; d++) low[d] = fmin(low[d], (double)boxes[i].lo[d]);
    for (int32_t i = 0; i < t->count; i++)
        for (int d = 0; d < 3; d++) size = fmax(size, (double)boxes[i].hi[d] - low[d]);
    size = size > 0 ? size * (1 + 1e-9) : 1;
    for (int32_t i = 0; i < t->count; i++) {
        const qpc_fbox *b = &boxes[i];
        double extent = 0;
        for (int d = 0; d < 3; d++) extent = fmax(extent, (double)b->hi[d] - (double)b->lo[d]);
        int level = DEPTH;
        while (level > 0 && size / (1 << level) < extent) level--;
        uint64_t code = 0;
        for (int d = 0; d < 3; d++) {
            double c = 0.5 * ((double)b->lo[d] + (double)b->hi[d]) - low[d];
            uint64_t at = (uint64_t)(c / size * (1 << level));
            if (at >> level != 0) at = (1u << level) - 1;
            code |= spread(at << (DEPTH - level)) << d;
        }
        t->entry[i] = (entry){code << 4 | (uint64_t)level, i};
    }
    sort(t);
    for (int32_t i = 0; i < t->count; i++) t->box[i] = boxes[t->entry[i].item];
    return make_cells(t, low, size);
}

bool octree_query(const octree *t, const qpc_fbox *box, qpc_items *ret, uint64_t *box_tests) {
    uint64_t tests = 0;
    for (int32_t i = 0; i < t->cell_count;) {
        const cell *c = &t->cells[i];
        tests++;
        if (!qpc_fbox_overlap(&c->loose, box)) {
            i = c->next;
            continue;
        }
        tests += (uint64_t)c->count;
        for (int32_t k = c->first; k < c->first + c->count; k++)
            if (qpc_fbox_overlap(&t->box[k], box) && !qpc_array_push(ret, t->entry[k].item))
                return false;
        i++;
    }
    *box_tests += tests;
    return true;
}
