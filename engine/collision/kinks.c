/// Pairs of edges of one chain that are close neighbours along it.
///
/// The boxes of an edge and of the next few always overlap where particles are close together, and such
/// pairs keep a hundredth of the thickness only: as long as the chain runs on nearly straight there,
/// none of them can touch. So they are in no list, and a chain is looked at stretch by stretch: with d
/// from one end of a stretch to the other, if every edge of it goes at least `apart` along d, at the
/// start and at the end of the motion (and so all through it, since both are linear), then what lies
/// between two of its edges keeps them that far apart. Only stretches that fail have their pairs tested.
#include "engine/collision/walk.h"

enum {
    MOST_NEIGHBOURS = 64, // edges ahead of an edge; more of them are in lists
    STRETCH = 3,          // times the neighbours of an edge
};
static const double reach_of_boxes = 4;    // radii along the chain within which boxes always overlap
static const double rounding = 1 + 1e-6;

void qpc_chain_neighbours(qpc_chain_part *c) {
    double within = fmin(c->self_exclusion, reach_of_boxes * c->radius);
    c->has_neighbours = false;
    for (int32_t k = 0, last = 0; k < c->edge_count; k++) {
        if (last < k + 1) last = k + 1;
        while (c->motion == QPC_DYNAMIC && last + 1 < c->edge_count && last < k + MOST_NEIGHBOURS &&
               c->arc[last + 1] - c->arc[k + 1] < within)
            last++;
        c->neighbour[k] = last;
        c->has_neighbours |= last > k + 1;
        c->kinked[k] = 0;
    }
}

/// Every edge of first to last goes at least `apart` in the direction d.
static bool runs_along(const qpc_chain_part *c, const double *x, int32_t first, int32_t last, qpc_vec3 d,
                       double apart) {
    const double *p = x + 3 * (int64_t)(c->first_node + first);
    double before = d.x * p[0] + d.y * p[1] + d.z * p[2], least = INFINITY;
    for (int32_t k = first; k <= last; k++) {
        p += 3;
        double now = d.x * p[0] + d.y * p[1] + d.z * p[2], step = now - before;
        least = step < least ? step : least;
        before = now;
    }
    return least >= apart;
}

void qpc_chain_find_kinks(const qpc_chain_part *c, const double *x0, const double *x1, double reach) {
    if (!c->has_neighbours) return;
    double apart = 0.02 * reach * c->radius * rounding; // of the pairs, as qpc_chains_in_reach has it
    for (int32_t k = 0; k < c->edge_count;) {
        int32_t end = k + STRETCH * (c->neighbour[k] - k); // of the first edges
        end = end < c->edge_count ? end : c->edge_count;
        int32_t last = c->neighbour[end - 1] < c->edge_count ? c->neighbour[end - 1] : c->edge_count - 1;
        qpc_vec3 d = v3_sub(qpc_node(x0, c->first_node + last + 1), qpc_node(x0, c->first_node + k));
        double least = apart * v3_norm(d);
        bool straight = runs_along(c, x0, k, last, d, least) && (x0 == x1 || runs_along(c, x1, k, last, d, least));
        for (; k < end; k++) c->kinked[k] = !straight;
    }
}
