/// The factor of the coarse matrix A_c = Z'(K + E) Z, in a band. Runs on whoever solves; memory from the caller.
#include "engine/dynamics/coarse.h"
#include "engine/dynamics/linsys.h"

#include <string.h>

enum { WIDER = 4 }; // how much wider than Z'KZ with its rows it may be

typedef struct walk {
    int32_t count;
    const int32_t *start[2], *other[2];
    int32_t *place, *queue, *mark;
    int32_t stamp;
} walk;

static int32_t degree(const walk *w, int32_t i) {
    int32_t d = w->start[0][i + 1] - w->start[0][i];
    return w->start[1] != NULL ? d + w->start[1][i + 1] - w->start[1][i] : d;
}

/// Breadth first from a vertex, those next to each one by degree, then as they come; the number reached, in w->queue.
static int32_t breadth_first(walk *w, int32_t from) {
    int32_t head = 0, tail = 1;
    w->stamp++;
    w->queue[0] = from;
    w->mark[from] = w->stamp;
    while (head < tail) {
        int32_t i = w->queue[head++], first = tail;
        for (int g = 0; g < 2 && w->start[g] != NULL; g++)
            for (int32_t k = w->start[g][i]; k < w->start[g][i + 1]; k++) {
                int32_t j = w->other[g][k], own = degree(w, j), at = tail;
                if (w->mark[j] == w->stamp) continue;
                w->mark[j] = w->stamp;
                for (; at > first && degree(w, w->queue[at - 1]) > own; at--) w->queue[at] = w->queue[at - 1];
                w->queue[at] = j;
                tail++;
            }
    }
    return tail;
}

int32_t qpc_coarse_order(int32_t count, const int32_t *start, const int32_t *other, const int32_t *more_start,
                         const int32_t *more_other, int32_t *place, int32_t *scratch) {
    walk w = {.count = count, .start = {start, more_start}, .other = {other, more_other}, .place = place,
              .queue = scratch, .mark = scratch + count};
    int32_t next = count, width = 0;
    for (int32_t i = 0; i < count; i++) place[i] = w.mark[i] = -1;
    for (int32_t i = 0; i < count; i++) {
        if (place[i] >= 0) continue;
        int32_t reached = breadth_first(&w, i); // from one end to the other, twice
        reached = breadth_first(&w, w.queue[reached - 1]);
        reached = breadth_first(&w, w.queue[reached - 1]);
        for (int32_t k = 0; k < reached; k++) place[w.queue[k]] = --next;
    }
    for (int32_t i = 0; i < count; i++)
        for (int g = 0; g < 2 && w.start[g] != NULL; g++)
            for (int32_t k = w.start[g][i]; k < w.start[g][i + 1]; k++) {
                int32_t far = place[i] - place[w.other[g][k]];
                if (far > width) width = far;
            }
    return width;
}

static int64_t band_room(const qpc_coarse *z) {
    int64_t order = 3 * (int64_t)z->count, width = WIDER * (int64_t)z->factor.width;
    return order * ((width < order ? width : order) + 1);
}

int64_t qpc_coarse_factor_size(const qpc_coarse *z, int64_t couplings) {
    int64_t ints = 5 * (int64_t)z->count + 2 + 2 * couplings;
    return band_room(z) + 3 * (int64_t)z->count + ints / 2 + 1;
}

void qpc_coarse_factor_init(const qpc_coarse *z, qpc_coarse_factor *f, double *memory) {
    f->room = band_room(z);
    f->width = 0;
    f->band = memory;
    f->x = f->band + f->room;
    f->place = (int32_t *)(f->x + 3 * (int64_t)z->count);
    f->scratch = f->place + z->count; // (2 count), then what rows couple: (count + 2), (2 couplings)
}

/// The next node of a row from entry k on: its aggregate, v (3) = its part of the row; the entry behind it.
static int32_t next_node(const qpc_coarse *z, const qpc_coarse_rows *rows, int32_t k, int32_t end, int32_t *a, double *v) {
    int32_t own = rows->column[k] / 3;
    *a = z->of[own];
    v[0] = v[1] = v[2] = 0;
    for (; k < end && rows->column[k] / 3 == own; k++) v[rows->column[k] % 3] += rows->value[k];
    return k;
}

/// += R va vb' between two aggregates; on the diagonal its lower triangle.
static void add_block(const qpc_coarse_factor *f, int32_t a, int32_t b, double R, const double *va, const double *vb) {
    if (f->place[a] < f->place[b]) {
        add_block(f, b, a, R, vb, va);
        return;
    }
    int64_t row = 3 * (int64_t)f->place[a], column = 3 * (int64_t)f->place[b];
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3 && column + c <= row + r; c++)
            f->band[(row + r) * (f->width + 1) + column + c - row - r + f->width] += R * va[r] * vb[c];
}

/// Blocks of the rows listed: 0 counts who is coupled, 1 writes it down, 2 adds the values.
static void walk_rows(const qpc_coarse *z, const qpc_coarse_rows *rows, const qpc_coarse_factor *f, int32_t *start, int32_t *other,
                      int what) {
    int32_t a, b;
    double va[3], vb[3];
    for (int32_t l = 0; l < rows->listed; l++) {
        int32_t i = rows->list[l], end = rows->row_start[i + 1];
        for (int32_t k = rows->row_start[i]; k < end;) {
            k = next_node(z, rows, k, end, &a, va);
            if (a == z->count) continue;
            if (what == 2) add_block(f, a, a, rows->R[i], va, va);
            for (int32_t k2 = k; k2 < end;) {
                k2 = next_node(z, rows, k2, end, &b, vb);
                if (b == z->count) continue;
                if (what == 2) {
                    add_block(f, a, b, rows->R[i], va, vb);
                    if (a == b) add_block(f, a, b, rows->R[i], vb, va);
                } else if (a != b && what == 1) {
                    other[start[a + 1]++] = b;
                    other[start[b + 1]++] = a;
                } else if (a != b) {
                    start[a + 2]++;
                    start[b + 2]++;
                }
            }
        }
    }
}

static void fill_band(const qpc_coarse *z, const qpc_coarse_factor *f) {
    int64_t stride = f->width + 1;
    memset(f->band, 0, 3 * (size_t)z->count * (size_t)stride * sizeof *f->band);
    for (int32_t a = 0; a < z->count; a++) {
        int64_t row = 3 * (int64_t)f->place[a];
        for (int r = 0; r < 3; r++)
            for (int c = 0; c <= r; c++)
                f->band[(row + r) * stride + c - r + f->width] = z->diagonal[9 * (int64_t)a + 3 * r + c];
        for (int32_t e = z->start[a]; e < z->start[a + 1]; e++) {
            if (z->other[e] > a) continue;
            int64_t column = 3 * (int64_t)f->place[z->other[e]];
            const double *m = z->value + 9 * (int64_t)e;
            for (int r = 0; r < 3; r++)
                for (int c = 0; c < 3; c++) {
                    int64_t i = row > column ? row + r : column + c, j = row > column ? column + c : row + r;
                    f->band[i * stride + j - i + f->width] = m[3 * r + c];
                }
        }
    }
}

bool qpc_coarse_factor_make(const qpc_coarse *z, const qpc_coarse_rows *rows, qpc_coarse_factor *f) {
    int32_t order = 3 * z->count;
    if (rows != NULL) {
        int32_t *start = f->scratch + 2 * (int64_t)z->count, *other = start + z->count + 2;
        memset(start, 0, ((size_t)z->count + 2) * sizeof *start);
        walk_rows(z, rows, f, start, other, 0);
        for (int32_t a = 0; a < z->count; a++) start[a + 2] += start[a + 1];
        walk_rows(z, rows, f, start, other, 1);
        f->width = 3 * qpc_coarse_order(z->count, z->start, z->other, start, other, f->place, f->scratch) + 2;
    }
    if (f->width > order - 1) f->width = order - 1;
    if ((int64_t)order * (f->width + 1) > f->room) return false;
    fill_band(z, f);
    if (rows != NULL) walk_rows(z, rows, f, NULL, NULL, 2);
    return qpc_band_factor(order, f->width, f->band, f->band, 0) < 0;
}

void qpc_coarse_solve(const qpc_coarse *z, const qpc_coarse_factor *f, const double *c, float *mu) {
    for (int64_t a = 0; a < z->count; a++)
        for (int r = 0; r < 3; r++) f->x[3 * (int64_t)f->place[a] + r] = c[4 * a + r];
    qpc_band_solve(3 * z->count, f->width, f->band, f->x);
    for (int64_t a = 0; a < z->count; a++)
        for (int r = 0; r < 3; r++) mu[4 * a + r] = (float)f->x[3 * (int64_t)f->place[a] + r];
}
