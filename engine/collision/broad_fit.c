/// Boxes of vertices, triangles and edges, and the trees over them; see broad_work.h.
///
/// A vertex has the float box of its motion, rounded outward; triangles and edges join the boxes of
/// their vertices. So as long as every vertex stays in its fat box, all else does too: one pass
/// over the vertices tells whether the lists can be used again.
#include "engine/collision/broad_work.h"

#include "base/vec.h"

#include <string.h>

// How many updates fat boxes shall be good for, and how wide a margin may be at most, in mean
// lengths of an edge; below LEAST updates a margin does not pay. Trees are built again when they
// have grown LOOSE times as wide. Measured: bench/broad.c.
static const double LIFE = 8, WIDEST = 0.1, LEAST = 2, LOOSE = 1.5;

// ---- boxes of the motion ----

typedef struct vertex_pass {
    qpc_d3 step, low, high;
    qpc_md3 finite;
} vertex_pass;

/// The float box of a motion, outward; as qpc_fbox_around does it.
static inline qpc_fbox swept(qpc_d3 a, qpc_d3 b, qpc_d3 grow, qpc_d3 origin, vertex_pass *pass) {
    const qpc_d3 farthest = d3_all(QPC_BROAD_FARTHEST), ulps = d3_all(0x1p-22),
                 tiny = d3_all(0x1p-126);
    pass->finite =
        md3_and(pass->finite, md3_and(d3_le(d3_abs(a), farthest), d3_le(d3_abs(b), farthest)));
    qpc_d3 l = d3_min(a, b), h = d3_max(a, b);
    pass->step = d3_max(d3_sub(h, l), pass->step);
    pass->low = d3_min(l, pass->low);
    pass->high = d3_max(h, pass->high);
    l = d3_sub(d3_sub(l, grow), origin);
    h = d3_sub(d3_add(h, grow), origin);
    qpc_fbox box;
    f4_store(box.lo, d3_float(d3_sub(d3_sub(l, d3_mul(d3_abs(l), ulps)), tiny)));
    f4_store(box.hi, d3_float(d3_add(d3_add(h, d3_mul(d3_abs(h), ulps)), tiny)));
    return box;
}

static void fit_vertices(qpc_broad *broad, qpc_broad_chunk *c) {
    const qpc_broad_part *p = &broad->parts[c->part];
    const qpc_d3 grow = d3_all(p->def.motion == QPC_STATIC ? 0 : broad->reach * p->def.radius),
                 origin = d3_load(broad->origin);
    qpc_fbox *box = broad->box[VERTEX];
    const int32_t *id = broad->id[VERTEX];
    const qpc_fbox *fat = broad->fat;
    const qpc_d3 zero = d3_all(0);
    vertex_pass pass = {zero, d3_all(QPC_BROAD_FARTHEST), d3_all(-QPC_BROAD_FARTHEST),
                        d3_le(zero, zero)};
    qpc_f4 drift = f4_all(0), within = f4_all(INFINITY);
    for (int32_t s = c->first; s < c->first + c->count; s++) {
        if (id[s] < 0) continue;
        const double *a, *b;
        if (p->rest != NULL) {
            a = b = p->rest + 3 * (int64_t)(s - p->slot[VERTEX]);
        } else {
            a = broad->x0 + 3 * (int64_t)id[s];
            b = broad->x1 + 3 * (int64_t)id[s];
        }
        qpc_fbox v = swept(d3_load(a), d3_load(b), grow, origin, &pass);
        qpc_f4 below = f4_sub(f4_load(v.lo), f4_load(fat[s].lo));
        qpc_f4 above = f4_sub(f4_load(fat[s].hi), f4_load(v.hi));
        within = f4_min(within, f4_min(below, above));
        // Twice the way of the middle.
        drift = f4_max(drift, f4_max(f4_sub(below, above), f4_sub(above, below)));
        box[s] = v;
    }
    float way[4], room[4];
    double step[3];
    f4_store(way, drift);
    f4_store(room, within);
    d3_store(step, pass.step);
    d3_store(c->low, pass.low);
    d3_store(c->high, pass.high);
    c->finite = md3_true(pass.finite);
    c->excess = -(double)fminf(fminf(room[0], room[1]), room[2]);
    c->drift = 0.5 * (double)fmaxf(fmaxf(way[0], way[1]), way[2]);
    c->step = fmax(fmax(step[0], step[1]), step[2]);
}

static void fit_features(qpc_broad *broad, const qpc_broad_chunk *c) {
    const qpc_fbox *box = broad->box[VERTEX];
    const int32_t *corner = broad->corner[c->kind];
    qpc_fbox *to = broad->box[c->kind];
    int64_t from = c->first, end = from + c->count;
    if (c->kind == TRIANGLE)
        for (int64_t s = from; s < end; s++) to[s] = qpc_broad_join(box, corner + 3 * s, 3);
    else
        for (int64_t s = from; s < end; s++) to[s] = qpc_broad_join(box, corner + 2 * s, 2);
}

static void fit_vertex_chunk(void *data, int32_t slice) {
    qpc_broad *broad = data;
    if (broad->parts[broad->chunks[slice].part].def.motion != QPC_STATIC)
        fit_vertices(broad, &broad->chunks[slice]);
}

static void fit_feature_chunk(void *data, int32_t slice) {
    qpc_broad *broad = data;
    const qpc_broad_chunk *c = &broad->chunks[broad->chunk_count[0] + slice];
    if (broad->parts[c->part].def.motion != QPC_STATIC) fit_features(broad, c);
}

bool qpc_broad_boxes(qpc_broad *broad, const qpc_parallel *parallel, bool *ret_inside,
                     int32_t *ret_part) {
    qpc_parallel_run(parallel, broad->chunk_count[0], fit_vertex_chunk, broad);
    bool inside = true;
    for (int32_t i = 0; i < broad->chunk_count[0]; i++) {
        const qpc_broad_chunk *c = &broad->chunks[i];
        qpc_broad_part *p = &broad->parts[c->part];
        if (p->def.motion == QPC_STATIC) continue;
        if (!c->finite) {
            *ret_part = c->part;
            return false;
        }
        inside &= c->excess <= 0;
    }
    for (int32_t i = 0; i < broad->chunk_count[0]; i++) {
        const qpc_broad_chunk *c = &broad->chunks[i];
        qpc_broad_part *p = &broad->parts[c->part];
        if (p->def.motion != QPC_STATIC) p->seen = fmax(p->seen, c->step);
    }
    *ret_inside = inside;
    return true;
}

void qpc_broad_feature_boxes(qpc_broad *broad, const qpc_parallel *parallel) {
    qpc_parallel_run(parallel, broad->chunk_count[1], fit_feature_chunk, broad);
}

// ---- trees ----

static qpc_fbox fat_box(const qpc_broad *broad, int kind, int64_t slot) {
    if (kind == TRIANGLE) return qpc_broad_join(broad->fat, broad->corner[TRIANGLE] + 3 * slot, 3);
    if (kind == EDGE) return qpc_broad_join(broad->fat, broad->corner[EDGE] + 2 * slot, 2);
    return broad->fat[slot];
}

static void fit_tree(const qpc_broad *broad, qpc_broad_part *p, int kind) {
    qpc_boxtree *tree = &p->tree[kind];
    if (tree->count == 0) return;
    for (int32_t l = 0; l < tree->leaf_count; l++) {
        qpc_fbox box[QPC_BOX_LANES];
        for (int k = 0; k < QPC_BOX_LANES; k++)
            box[k] = fat_box(broad, kind, p->slot[kind] + (int64_t)QPC_BOX_LANES * l + k);
        qpc_boxtree_set_leaf(tree, l, box);
    }
    double grow = p->def.motion == QPC_STATIC ? 0 : broad->reach * p->def.radius;
    qpc_boxtree_fit(tree, grow + (double)p->margin);
}

/// Numbers of items into slots, and the slots of their vertices; the trees' order is in id, local.
static void number(qpc_broad *broad, qpc_broad_part *p) {
    int32_t n = QPC_BOX_LANES * p->tree[VERTEX].leaf_count;
    for (int32_t i = 0; i < p->node_count; i++) p->node_slot[i] = -1;
    for (int32_t s = p->slot[VERTEX]; s < p->slot[VERTEX] + n; s++) {
        int32_t *id = &broad->id[VERTEX][s];
        if (*id < 0) continue;
        p->node_slot[*id] = s;
        *id += p->def.first_node;
    }
    for (int kind = TRIANGLE; kind <= EDGE; kind++) {
        int corners = qpc_broad_corners(kind);
        const int32_t *node = kind == TRIANGLE ? p->triangle : p->topology->edge_vertex;
        int32_t base = kind == TRIANGLE ? p->triangle_base : p->edge_base;
        for (int64_t s = p->slot[kind], i = 0;
             i < QPC_BOX_LANES * (int64_t)p->tree[kind].leaf_count; i++, s++) {
            int32_t item = broad->id[kind][s];
            for (int k = 0; k < corners; k++)
                broad->corner[kind][corners * s + k] =
                    item < 0 ? qpc_broad_no_vertex(p)
                             : p->node_slot[node[(int64_t)corners * item + k]];
            if (item >= 0) broad->id[kind][s] = item + base;
        }
    }
}

/// Centres of the items of a kind, from the positions at x1; their order into id.
static void build_tree(qpc_broad *broad, qpc_broad_part *p, int kind) {
    qpc_boxtree *tree = &p->tree[kind];
    if (tree->count == 0) return;
    const double *x = broad->x1 + 3 * (int64_t)p->def.first_node;
    const double *from = x + 3 * (int64_t)p->triangle[0]; // floats are finest near the surface
    const int32_t *node = kind == TRIANGLE ? p->triangle : p->topology->edge_vertex;
    int corners = qpc_broad_corners(kind);
    qpc_box_centre *c = qpc_boxtree_centres(tree);
    int32_t count = 0;
    for (int32_t i = 0; count < tree->count; i++) {
        if (kind == VERTEX && p->node_slot[i] == -1) continue;
        double lo[3] = {INFINITY, INFINITY, INFINITY}, hi[3] = {-INFINITY, -INFINITY, -INFINITY};
        for (int k = 0; k < corners; k++) {
            const double *v =
                x + 3 * (int64_t)(kind == VERTEX ? i : node[(int64_t)corners * i + k]);
            for (int d = 0; d < 3; d++) {
                lo[d] = v[d] < lo[d] ? v[d] : lo[d];
                hi[d] = v[d] > hi[d] ? v[d] : hi[d];
            }
        }
        for (int d = 0; d < 3; d++)
            c[count].c[d] = (float)(0.5 * (lo[d] - from[d]) + 0.5 * (hi[d] - from[d]));
        c[count++].item = i;
    }
    qpc_boxtree_build(tree, broad->id[kind] + p->slot[kind]);
}

typedef struct build_job {
    qpc_broad *broad;
    qpc_broad_part *part;
} build_job;

static void build_one(void *data, int32_t kind) {
    const build_job *job = data;
    build_tree(job->broad, job->part, kind);
}

/// Mean length of the triangles' first sides: what margins are measured by.
static double mean_length(const qpc_broad *broad, const qpc_broad_part *p) {
    const double *x = broad->x1 + 3 * (int64_t)p->def.first_node;
    int32_t n = p->tree[TRIANGLE].count;
    double sum = 0;
    for (int64_t t = 0; t < n; t++)
        sum += v3_norm(v3_sub(v3_load(x + 3 * (int64_t)p->triangle[3 * t]),
                              v3_load(x + 3 * (int64_t)p->triangle[3 * t + 1])));
    return sum / n;
}

void qpc_broad_build(qpc_broad *broad, qpc_broad_part *p, const qpc_parallel *parallel) {
    build_job job = {broad, p};
    qpc_parallel_run(parallel, KINDS, build_one, &job);
    number(broad, p);
    p->length = mean_length(broad, p);
    broad->counts.builds += KINDS;
}

/// Static boxes and trees for the present origin.
static void fit_static(qpc_broad *broad, qpc_broad_part *p) {
    for (int32_t i = 0; i < broad->chunk_count[0] + broad->chunk_count[1]; i++) {
        qpc_broad_chunk *c = &broad->chunks[i]; // vertices come first
        if (&broad->parts[c->part] != p) continue;
        if (c->kind == VERTEX)
            fit_vertices(broad, c);
        else
            fit_features(broad, c);
    }
    memcpy(broad->fat + p->slot[VERTEX], broad->box[VERTEX] + p->slot[VERTEX],
           (size_t)QPC_BOX_LANES * (size_t)p->tree[VERTEX].leaf_count * sizeof *broad->fat);
    for (int kind = 0; kind < KINDS; kind++) fit_tree(broad, p, kind);
    qpc_broad_planes_fit(broad, p);
}

// ---- fat boxes ----

/// How much wider than this motion the boxes shall be: what was seen to move, a few times. Passes
/// over one fast step differ little; so if no margin lasts for several steps, one as wide as what
/// such passes have needed lately.
static float choose_margin(const qpc_broad *broad, qpc_broad_part *p, double drift, double excess) {
    double step = fmax(p->seen, p->seen_before);
    double most = WIDEST * (p->length + 2 * broad->reach * p->def.radius);
    if (broad->list_age > 0) {
        step = fmax(step, drift / broad->list_age);
        bool little = excess > 0 && 2 * excess <= most;
        p->pass_margin = little ? 2 * (p->pass_margin + excess) : 0.9 * p->pass_margin;
    }
    if (step == 0) step = 0.01 * p->length / LIFE;
    double margin = LEAST * step <= most ? fmin(LIFE * step, most) : 0;
    return (float)fmin(fmax(margin, p->pass_margin), most);
}

static void choose_margins(qpc_broad *broad) {
    for (int32_t i = 0, end; i < broad->chunk_count[0]; i = end) {
        // Chunks of a surface are next to each other.
        qpc_broad_part *p = &broad->parts[broad->chunks[i].part];
        double drift = 0, excess = 0;
        for (end = i;
             end < broad->chunk_count[0] && broad->chunks[end].part == broad->chunks[i].part;
             end++) {
            drift = fmax(drift, broad->chunks[end].drift);
            excess = fmax(excess, broad->chunks[end].excess);
        }
        if (p->def.motion == QPC_STATIC) continue;
        // A reach that alternates between calls shall not matter either.
        double reach = (broad->cover - broad->reach) * p->def.radius;
        p->margin = choose_margin(broad, p, drift, excess) + (float)reach;
        p->seen_before = p->seen;
        p->seen = 0;
    }
    broad->list_age = 0;
}

static void fatten_chunk(void *data, int32_t index) {
    qpc_broad *broad = data;
    const qpc_broad_chunk *c = &broad->chunks[index];
    const qpc_broad_part *p = &broad->parts[c->part];
    if (p->def.motion == QPC_STATIC) return;
    qpc_f4 m = f4_all(p->margin);
    for (int32_t s = c->first; s < c->first + c->count; s++) {
        // The fourth lanes become -m and m, which is as good as 0 and 0.
        f4_store(broad->fat[s].lo, f4_sub(f4_load(broad->box[VERTEX][s].lo), m));
        f4_store(broad->fat[s].hi, f4_add(f4_load(broad->box[VERTEX][s].hi), m));
    }
}

static void fit_one(void *data, int32_t index) {
    qpc_broad *broad = data;
    qpc_broad_part *p = &broad->parts[index / KINDS];
    if (p->def.motion != QPC_STATIC) fit_tree(broad, p, index % KINDS);
}

/// Has a tree of this part grown loose? Notes how wide it is if it is new.
static bool is_loose(qpc_broad_part *p) {
    bool loose = false;
    for (int kind = 0; kind < KINDS; kind++) {
        qpc_boxtree *t = &p->tree[kind];
        if (t->built_area < 0) t->built_area = t->area;
        // What is flat and thin may double without costing anything.
        double spare = 0.01 * p->length * p->length * t->leaf_count;
        loose |= t->area > LOOSE * t->built_area + spare;
    }
    return loose;
}

void qpc_broad_fatten(qpc_broad *broad, const qpc_parallel *parallel, bool with_margin) {
    if (with_margin)
        choose_margins(broad);
    else
        for (int32_t s = 0; s < broad->part_count; s++) broad->parts[s].margin = 0;
    for (bool again = true; again;) {
        qpc_parallel_run(parallel, broad->chunk_count[0], fatten_chunk, broad);
        qpc_parallel_run(parallel, KINDS * broad->part_count, fit_one, broad);
        again = false;
        for (int32_t s = 0; s < broad->part_count; s++) {
            qpc_broad_part *p = &broad->parts[s];
            if (p->def.motion == QPC_STATIC) continue;
            broad->counts.refits += KINDS;
            if (!is_loose(p)) continue;
            qpc_broad_build(broad, p, parallel); // its areas are new: not loose next time
            again = true;
        }
        bool inside;
        int32_t part;
        if (again) (void)qpc_broad_boxes(broad, parallel, &inside, &part);
    }
}

// ---- origin ----

bool qpc_broad_is_far(const qpc_broad *broad) {
    double lo[3] = {INFINITY, INFINITY, INFINITY}, hi[3] = {-INFINITY, -INFINITY, -INFINITY};
    for (int32_t i = 0; i < broad->chunk_count[0]; i++) {
        const qpc_broad_chunk *c = &broad->chunks[i];
        if (broad->parts[c->part].def.motion == QPC_STATIC) continue;
        for (int d = 0; d < 3; d++) lo[d] = fmin(lo[d], c->low[d]), hi[d] = fmax(hi[d], c->high[d]);
    }
    double size = 0, far = 0;
    for (int d = 0; d < 3 && lo[0] <= hi[0]; d++) {
        size = fmax(size, hi[d] - lo[d]);
        far = fmax(far, fmax(hi[d] - broad->origin[d], broad->origin[d] - lo[d]));
    }
    return far > 2 * size; // half a size is as near as it gets
}

void qpc_broad_choose_origin(qpc_broad *broad) {
    double lo[3] = {INFINITY, INFINITY, INFINITY}, hi[3] = {-INFINITY, -INFINITY, -INFINITY};
    for (int32_t s = 0; s < broad->part_count; s++) {
        const qpc_broad_part *p = &broad->parts[s];
        if (p->def.motion == QPC_STATIC) continue;
        for (int32_t i = 0; i < p->node_count; i++) {
            if (p->node_slot[i] < 0) continue;
            const double *x = broad->x1 + 3 * ((int64_t)p->def.first_node + i);
            for (int d = 0; d < 3; d++) lo[d] = fmin(lo[d], x[d]), hi[d] = fmax(hi[d], x[d]);
        }
    }
    for (int d = 0; d < 3 && lo[0] <= hi[0]; d++) broad->origin[d] = 0.5 * lo[d] + 0.5 * hi[d];
    for (int32_t s = 0; s < broad->part_count; s++)
        if (broad->parts[s].def.motion == QPC_STATIC) fit_static(broad, &broad->parts[s]);
}
