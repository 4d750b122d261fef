/// Sizes out of proportion: far vertices, long and short edges, a unit that is not the metre.
///
/// Everything is measured against medians, which a few wrong vertices do not move. A median is found
/// to about one part in a thousand by bisection of the ordered bits of the numbers: linear, no copy.
#include "engine/preflight/internal.h"

#include "base/mem.h"
#include "base/vec.h"

#include <string.h>

static const double OUTLIER = 1000; // times the median
static const double LARGEST = 100, SMALLEST = 1e-3; // m

/// Doubles in the order of unsigned integers.
static uint64_t ordered(double x) {
    uint64_t bits;
    x += 0.0;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 63 ? ~bits : bits | 1ULL << 63;
}

static double from_ordered(uint64_t bits) {
    double x;
    bits = bits >> 63 ? bits & ~(1ULL << 63) : ~bits;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double median(const double *x, int64_t stride, int64_t n) {
    uint64_t at = 0;
    for (int bit = 63; bit >= 42; bit--) {
        uint64_t below = at | 1ULL << bit;
        int64_t count = 0;
        for (int64_t i = 0; i < n; i++) count += ordered(x[i * stride]) < below;
        if (2 * count <= n) at = below;
    }
    return from_ordered(at);
}

static void far_vertices(qpc_check *c, double *room) {
    int64_t n = c->vertex_count;
    qpc_vec3 middle = v3(median(c->x, 3, n), median(c->x + 1, 3, n), median(c->x + 2, 3, n));
    for (int64_t v = 0; v < n; v++) room[v] = v3_norm(v3_sub(v3_load(c->x + 3 * v), middle));
    double typical = median(room, 1, n);
    if (!(typical > 0)) return;
    for (int64_t v = 0; v < n; v++)
        if (room[v] > OUTLIER * typical)
            qpc_check_add(c, QPC_FINDING_FAR_VERTICES, (int32_t)v, 0, 0);
}

qpc_status qpc_check_sizes(qpc_check *c, const int32_t *edge, const int32_t *edge_triangle,
                           qpc_error *err) {
    const qpc_preflight *r = c->ret;
    int64_t most = c->vertex_count > r->edges ? c->vertex_count : r->edges;
    double *room = qpc_alloc_array((size_t)most, sizeof *room);
    if (room == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory to measure %lld edges", (long long)r->edges);
    far_vertices(c, room);
    for (int64_t e = 0; e < r->edges; e++)
        room[e] = v3_norm(v3_sub(v3_load(c->x + 3 * (int64_t)edge[2 * e]),
                                 v3_load(c->x + 3 * (int64_t)edge[2 * e + 1])));
    double typical = r->edges > 0 ? median(room, 1, r->edges) : 0;
    for (int64_t e = 0; e < r->edges && typical > 0; e++)
        if (room[e] > OUTLIER * typical || OUTLIER * room[e] < typical)
            qpc_check_add(c, QPC_FINDING_EDGE_OUTLIERS, edge[2 * e], edge[2 * e + 1], edge_triangle[e]);
    qpc_free(room);
    double size = 0;
    for (int d = 0; d < 3; d++) size = fmax(size, r->high[d] - r->low[d]);
    if (size > LARGEST || size < SMALLEST) qpc_check_add(c, QPC_FINDING_SCALE, 0, 0, 0);
    return QPC_OK;
}
