/// De Saxce's fixed point to the end: g = |y_T| of the solution of the convex problem with g.
///
/// Newton and the interior point that follows g along go round in circles on a few problems, mostly
/// of redundant contacts whose impulses grow large. There each convex problem is solved for itself
/// and g moves a part of the way, which settles; Newton is tried now and then, and ends it. Dear:
/// some 20 factorisations an outer step. Worker thread of the world; memory from the arena.
#include "engine/solver/cones.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { NEWTON_EVERY = 3, NEWTON_STEPS = 25 };

static void keep(const double *x, double norm, size_t size, double *best, double *least) {
    if (!(norm < *least)) return;
    memcpy(best, x, size * sizeof *x);
    *least = norm;
}

static qpc_status solve_convex(const qpc_cone_problem *p, const double *g, qpc_arena *arena,
                               double *x, int32_t *ret_outers, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    qpc_interior interior;
    qpc_status status = qpc_interior_init(&interior, p, 1, 1, arena, err);
    if (status == QPC_OK) memcpy(interior.slide, g, (size_t)p->count * sizeof *g);
    interior.held = true;
    if (status == QPC_OK) status = qpc_interior_converge(&interior, p, arena, x, err);
    *ret_outers += interior.iterations;
    qpc_arena_rewind(arena, mark);
    return status;
}

qpc_status qpc_cone_fixed_point(const qpc_cone_problem *p, double damping, int32_t most,
                                double goal, double tolerance, int32_t max_steps, qpc_arena *arena,
                                double *x, double *ret_norm, int32_t *ret_outers,
                                int32_t *ret_newton, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    size_t size = (size_t)p->size;
    double *slow = qpc_arena_array(arena, size, sizeof *slow),
           *fast = qpc_arena_array(arena, size, sizeof *fast);
    double *g = qpc_arena_array(arena, (size_t)p->count, sizeof *g);
    qpc_natural natural;
    qpc_status status = QPC_OK;
    if (slow == NULL || fast == NULL || g == NULL || !qpc_natural_alloc(&natural, p, arena)) {
        qpc_arena_rewind(arena, mark);
        return QPC_CONE_MEMORY(err, p);
    }
    qpc_natural_map(p, x, &natural);
    double least = natural.norm;
    for (int32_t k = 0; k < p->count; k++) g[k] = 0;
    for (int32_t outer = 0; outer < most && least > tolerance; outer++) {
        if (*ret_outers + *ret_newton >= max_steps) break;
        status = solve_convex(p, g, arena, slow, ret_outers, err);
        if (status != QPC_OK) break;
        qpc_natural_map(p, slow, &natural);
        keep(slow, natural.norm, size, x, &least);
        for (int32_t k = 0; k < p->count; k++) {
            const double *y = natural.y + p->at[k];
            if (p->kind[k] != QPC_BLOCK_CONTACT) continue;
            double slide = hypot(y[1], y[2]);
            if (isfinite(slide)) g[k] += damping * (slide - g[k]);
        }
        if (outer % NEWTON_EVERY != NEWTON_EVERY - 1) continue;
        double norm = DBL_MAX;
        int32_t left = max_steps - *ret_outers - *ret_newton;
        if (left <= 0) break;
        memcpy(fast, slow, size * sizeof *fast);
        status =
            qpc_cone_newton(p, goal, tolerance, true, left < NEWTON_STEPS ? left : NEWTON_STEPS,
                            arena, fast, &norm, ret_newton, err);
        if (status != QPC_OK) break;
        keep(fast, norm, size, x, &least);
    }
    *ret_norm = least;
    qpc_arena_rewind(arena, mark);
    return status;
}
