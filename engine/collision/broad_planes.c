/// Planes of the triangles of static surfaces; see broad_work.h.
///
/// The box of a large triangle that lies aslant holds half of what is above it: two scanned meshes
/// over two ramps had a million pairs. What lies on one side of the plane of a triangle by more
/// than both reach is apart from it, and from its sides. Used where triangles are much larger than
/// what they meet, so that trees are cut off far above the leaves; elsewhere boxes are as good and
/// cheaper.
#include "base/mem.h"
#include "base/vec.h"
#include "engine/collision/broad_work.h"

enum { MOST_TRIANGLES = 4096 };
static const double LARGER = 4;       // mean lengths of the two surfaces
static const double ROUNDING = 1e-12; // of distances from the origin

struct qpc_broad_plane {
    double n[3], d; // n x = d, from the origin of the boxes; 0: there is none
};

qpc_status qpc_broad_planes_init(qpc_broad_part *p, qpc_error *err) {
    int32_t count = p->tree[TRIANGLE].count;
    if (p->def.motion != QPC_STATIC || count == 0 || count > MOST_TRIANGLES) return QPC_OK;
    p->plane = qpc_alloc_array((size_t)count, sizeof *p->plane);
    return p->plane != NULL ? QPC_OK
                            : qpc_fail(err, QPC_ERR_MEMORY,
                                       "out of memory for the planes of %d triangles", (int)count);
}

void qpc_broad_planes_fit(const qpc_broad *broad, qpc_broad_part *p) {
    for (int32_t t = 0; p->plane != NULL && t < p->tree[TRIANGLE].count; t++) {
        qpc_vec3 x[3];
        for (int k = 0; k < 3; k++)
            x[k] = v3_sub(v3_load(p->rest + 3 * (int64_t)(p->node_slot[p->triangle[3 * t + k]] -
                                                          p->slot[VERTEX])),
                          v3_load(broad->origin));
        qpc_vec3 n = v3_cross(v3_sub(x[1], x[0]), v3_sub(x[2], x[0]));
        double size = v3_norm(n);
        bool flat = size > 0 && isfinite(size) && !p->topology->triangle_degenerate[t];
        n = flat ? v3_scale(1 / size, n) : v3(0, 0, 0);
        p->plane[t] = (qpc_broad_plane){{n.x, n.y, n.z}, v3_dot(n, x[0])};
    }
}

size_t qpc_broad_planes_bytes(const qpc_broad_part *p) {
    return p->plane != NULL ? (size_t)p->tree[TRIANGLE].count * sizeof *p->plane : 0;
}

bool qpc_broad_planes_pay(const qpc_broad_part *p, const qpc_broad_part *other) {
    return p->plane != NULL && p->length > LARGER * other->length;
}

static bool off(const qpc_broad_plane *p, const float lo[3], const float hi[3], double grow) {
    double distance = -p->d, half = 0, size = fabs(p->d);
    for (int d = 0; d < 3; d++) {
        double middle = 0.5 * ((double)lo[d] + (double)hi[d]);
        distance += p->n[d] * middle;
        size += fabs(middle);
        half += fabs(p->n[d]) * ((double)hi[d] - middle);
    }
    return fabs(distance) > half + grow + ROUNDING * size;
}

bool qpc_broad_beside(const qpc_broad *broad, const qpc_broad_part *p, int kind, int32_t slot,
                      const float lo[3], const float hi[3], float grow) {
    int32_t id = broad->id[kind][slot];
    if (id < 0) return true;
    if (kind == TRIANGLE) return off(&p->plane[id - p->triangle_base], lo, hi, (double)grow);
    if (kind != EDGE) return false;
    const qpc_topology *topology = p->topology;
    int32_t e = id - p->edge_base;
    for (int32_t k = topology->edge_triangle_start[e]; k < topology->edge_triangle_start[e + 1];
         k++)
        if (off(&p->plane[topology->edge_triangle[k]], lo, hi, (double)grow)) return true;
    return false;
}
