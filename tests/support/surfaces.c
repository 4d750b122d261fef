/// Surfaces in motion and brute force over their boxes; see surfaces.h.
#include "tests/support/surfaces.h"

#include "engine/geometry/topology.h"

#include <stdlib.h>

double surfaces_uniform(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

double surfaces_normal(uint64_t *state) {
    double a = 1 - surfaces_uniform(state), b = surfaces_uniform(state);
    return sqrt(-2 * log(a)) * cos(2 * acos(-1.0) * b);
}

// ---- scenes ----

static bool add_triangle(generated *g, int32_t a, int32_t b, int32_t c) {
    return qpc_array_push(&g->triangle, a) && qpc_array_push(&g->triangle, b) &&
           qpc_array_push(&g->triangle, c);
}

static bool add_vertex(generated *g, double x, double y, double z) {
    return qpc_array_push(&g->x, x) && qpc_array_push(&g->x, y) && qpc_array_push(&g->x, z);
}

bool surfaces_grid(int n, generated *ret) {
    for (int32_t i = 0; i < n - 1; i++)
        for (int32_t j = 0; j < n - 1; j++) {
            int32_t a = i * n + j, b = a + n, c = b + 1, d = a + 1;
            bool ok = (i + j) % 2 == 0 ? add_triangle(ret, a, b, c) && add_triangle(ret, a, c, d)
                                       : add_triangle(ret, a, b, d) && add_triangle(ret, b, c, d);
            if (!ok) return false;
        }
    return true;
}

/// Take over what was generated at x0; x1 starts as the same.
static bool finish(generated *g, surfaces_scene *s) {
    s->nodes = g->x.count / 3;
    s->mesh = generated_mesh(g);
    s->x0 = malloc((size_t)g->x.count * sizeof *s->x0);
    s->x1 = malloc((size_t)g->x.count * sizeof *s->x1);
    if (s->mesh == NULL || s->x0 == NULL || s->x1 == NULL) {
        generated_fini(g);
        surfaces_scene_fini(s);
        return false;
    }
    memcpy(s->x0, g->x.data, (size_t)g->x.count * sizeof *s->x0);
    memcpy(s->x1, g->x.data, (size_t)g->x.count * sizeof *s->x1);
    generated_fini(g);
    const qpc_topology *topo = qpc_mesh_topology(s->mesh);
    double sum = 0;
    for (int32_t e = 0; e < topo->edge_count; e++) {
        const double *a = s->x0 + 3 * topo->edge_vertex[2 * e],
                     *b = s->x0 + 3 * topo->edge_vertex[2 * e + 1];
        sum += sqrt((a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]) +
                    (a[2] - b[2]) * (a[2] - b[2]));
    }
    s->edge = sum / topo->edge_count;
    return true;
}

bool surfaces_drape(int n, surfaces_scene *ret) {
    *ret = (surfaces_scene){0};
    generated g = {0};
    uint64_t seed = 5;
    double h = 1.0 / (n - 1);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double x = i * h, y = j * h;
            double z = .15 * sin(7 * x + 2 * y) * cos(5 * y) + .02 * sin(40 * x) * sin(33 * y);
            double at[3] = {.6 * x + .1 * sin(20 * x), y, z};
            for (int d = 0; d < 3; d++) at[d] += .15 * h * surfaces_normal(&seed);
            if (!add_vertex(&g, at[0], at[1], at[2])) return false;
        }
    if (!surfaces_grid(n, &g) || !finish(&g, ret)) return false;
    for (int32_t i = 0; i < 3 * ret->nodes; i++)
        ret->x1[i] += .1 * h * surfaces_normal(&seed) - (i % 3 == 2 ? .2 * h : 0);
    return true;
}

/// Point i of a line of steps h along a spiral of the given spacing, turned by phase.
static void spiral(int n, double spacing, double phase, double *ret) {
    double pi = acos(-1.0), b = spacing / (2 * pi), a = 0.02, theta = 0, h = 1.0 / (n - 1);
    for (int i = 0; i < n; i++) {
        double r = a + b * theta;
        ret[2 * i] = r * cos(theta + phase);
        ret[2 * i + 1] = r * sin(theta + phase);
        theta += h / hypot(r, b);
    }
}

bool surfaces_rolled(int n, surfaces_scene *ret) {
    *ret = (surfaces_scene){0};
    generated g = {0};
    uint64_t seed = 5;
    double h = 1.0 / (n - 1), *line = malloc(4 * (size_t)n * sizeof *line), *after = line + 2 * n;
    if (line == NULL) return false;
    spiral(n, 1.5 * h, 0, line);
    spiral(n, 1.45 * h, .02, after);
    bool ok = true;
    for (int i = 0; ok && i < n; i++)
        for (int j = 0; ok && j < n; j++) ok = add_vertex(&g, line[2 * i], line[2 * i + 1], j * h);
    ok = ok && surfaces_grid(n, &g) && finish(&g, ret);
    for (int32_t i = 0; ok && i < 3 * ret->nodes; i++) {
        double noise = .15 * h * surfaces_normal(&seed);
        ret->x0[i] += noise;
        if (i % 3 < 2) ret->x1[i] = after[2 * (i / 3 / n) + i % 3];
        ret->x1[i] += noise + .05 * h * surfaces_normal(&seed);
    }
    free(line);
    return ok;
}

/// Index of the middle of two corners on the unit sphere, made when first asked for. key and value
/// are a table of open addresses, mask + 1 entries, empty: value < 0.
static int32_t middle(generated *g, int32_t a, int32_t b, uint64_t *key, int32_t *value,
                      uint64_t mask) {
    uint64_t k = a < b ? (uint64_t)a << 32 | (uint64_t)b : (uint64_t)b << 32 | (uint64_t)a;
    uint64_t at = k * 0x9e3779b97f4a7c15u >> 20 & mask;
    while (value[at] >= 0 && key[at] != k) at = (at + 1) & mask;
    if (value[at] >= 0) return value[at];
    double p[3], length = 0;
    for (int d = 0; d < 3; d++) {
        p[d] = g->x.data[3 * a + d] + g->x.data[3 * b + d];
        length += p[d] * p[d];
    }
    length = sqrt(length);
    if (!add_vertex(g, p[0] / length, p[1] / length, p[2] / length)) return -1;
    key[at] = k;
    return value[at] = g->x.count / 3 - 1;
}

static bool refine(generated *g) {
    uint64_t size = 1;
    while (size < 4 * (uint64_t)g->triangle.count) size *= 2;
    uint64_t *key = malloc(size * sizeof *key);
    int32_t *value = malloc(size * sizeof *value);
    generated fine = {0};
    bool ok = key != NULL && value != NULL;
    if (ok) memset(value, 0xff, size * sizeof *value);
    for (int32_t t = 0; ok && t < g->triangle.count; t += 3) {
        const int32_t *v = g->triangle.data + t;
        int32_t ab = middle(g, v[0], v[1], key, value, size - 1),
                bd = middle(g, v[1], v[2], key, value, size - 1),
                da = middle(g, v[2], v[0], key, value, size - 1);
        ok = ab >= 0 && bd >= 0 && da >= 0 && add_triangle(&fine, v[0], ab, da) &&
             add_triangle(&fine, v[1], bd, ab) && add_triangle(&fine, v[2], da, bd) &&
             add_triangle(&fine, ab, bd, da);
    }
    qpc_array_fini(&g->triangle);
    g->triangle.data = fine.triangle.data;
    g->triangle.count = fine.triangle.count;
    g->triangle.capacity = fine.triangle.capacity;
    free(key);
    free(value);
    return ok;
}

static bool icosphere(int level, generated *g) {
    double s = (1 + sqrt(5.0)) / 2, length = sqrt(1 + s * s);
    const double corner[12][3] = {{-1, s, 0}, {1, s, 0}, {-1, -s, 0}, {1, -s, 0},
                                  {0, -1, s}, {0, 1, s}, {0, -1, -s}, {0, 1, -s},
                                  {s, 0, -1}, {s, 0, 1}, {-s, 0, -1}, {-s, 0, 1}};
    static const int32_t face[20][3] = {
        {0, 11, 5},  {0, 5, 1},  {0, 1, 7},  {0, 7, 10}, {0, 10, 11}, {1, 5, 9}, {5, 11, 4},
        {11, 10, 2}, {10, 7, 6}, {7, 1, 8},  {3, 9, 4},  {3, 4, 2},   {3, 2, 6}, {3, 6, 8},
        {3, 8, 9},   {4, 9, 5},  {2, 4, 11}, {6, 2, 10}, {8, 6, 7},   {9, 8, 1}};
    bool ok = true;
    for (int i = 0; ok && i < 12; i++)
        ok = add_vertex(g, corner[i][0] / length, corner[i][1] / length, corner[i][2] / length);
    for (int i = 0; ok && i < 20; i++) ok = add_triangle(g, face[i][0], face[i][1], face[i][2]);
    for (int i = 0; ok && i < level; i++) ok = refine(g);
    return ok;
}

bool surfaces_organ(int level, surfaces_scene *ret) {
    *ret = (surfaces_scene){0};
    generated g = {0};
    uint64_t seed = 5;
    bool ok = icosphere(level, &g);
    int32_t n = g.x.count / 3, triangles = g.triangle.count;
    for (int32_t i = 0; ok && i < n; i++) {
        double *v = g.x.data + 3 * i, bump = 1 + .15 * sin(5 * v[0]) * cos(4 * v[1]);
        for (int d = 0; d < 3; d++) v[d] *= bump;
    }
    for (int32_t i = 0; ok && i < n; i++)
        ok = add_vertex(&g, .9 * g.x.data[3 * i] + 1.93, .9 * g.x.data[3 * i + 1],
                        .9 * g.x.data[3 * i + 2]);
    for (int32_t i = 0; ok && i < triangles; i++)
        ok = qpc_array_push(&g.triangle, g.triangle.data[i] + n);
    if (!ok || !finish(&g, ret)) return false;
    const double squeeze[3] = {.995, 1.002, 1};
    for (int32_t i = 0; i < 3 * ret->nodes; i++)
        ret->x1[i] = ret->x0[i] * squeeze[i % 3] + 1e-3 * surfaces_normal(&seed);
    return true;
}

bool surfaces_torus(surfaces_scene *ret) {
    enum { TURNS = 109, POINTS = 63, TRIANGLES = 13722 };
    *ret = (surfaces_scene){0};
    generated g = {0};
    double pi = acos(-1.0);
    bool ok = true;
    for (int i = 0; ok && i < TURNS; i++)
        for (int j = 0; ok && j < POINTS; j++) {
            double p = 2 * pi * i / TURNS, q = 2 * pi * j / POINTS;
            double r = 1 + .35 * cos(q) + .05 * sin(7 * p);
            ok = add_vertex(&g, r * cos(p), r * sin(p), .35 * sin(q) * (1 + .2 * sin(5 * p)));
        }
    for (int32_t i = 0; ok && i < TURNS; i++)
        for (int32_t j = 0; ok && j < POINTS; j++) {
            int32_t i1 = (i + 1) % TURNS, j1 = (j + 1) % POINTS;
            int32_t a = i * POINTS + j, b = i1 * POINTS + j, c = i1 * POINTS + j1,
                    d = i * POINTS + j1;
            if (g.triangle.count < 3 * TRIANGLES) ok = add_triangle(&g, a, b, c);
            if (ok && g.triangle.count < 3 * TRIANGLES) ok = add_triangle(&g, a, c, d);
        }
    return ok && finish(&g, ret);
}

void surfaces_cable(double x0[101 * 3], double x1[101 * 3]) {
    uint64_t seed = 5;
    double pi = acos(-1.0);
    const double step[3] = {.002, -.003, .001};
    for (int i = 0; i < 101; i++) {
        double s = 1.6 * pi * i / 100, q = -pi / 2 + .8 * sin(3 * s);
        double r = 1 + .36 * cos(q) + .05 * sin(7 * s);
        const double at[3] = {r * cos(s), r * sin(s), .36 * sin(q) * (1 + .2 * sin(5 * s))};
        for (int d = 0; d < 3; d++) {
            x0[3 * i + d] = at[d];
            x1[3 * i + d] = at[d] + step[d] + 5e-4 * surfaces_normal(&seed);
        }
    }
}

void surfaces_scene_fini(surfaces_scene *s) {
    qpc_mesh_unref(s->mesh);
    free(s->x0);
    free(s->x1);
    *s = (surfaces_scene){0};
}

// ---- sequences ----

void surfaces_sheet_at(surfaces_sequence sequence, int n, double t, double *x) {
    double pi = acos(-1.0), h = 1.0 / (n - 1);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double u = i * h, v = j * h, *p = x + 3 * ((int64_t)i * n + j);
            double ripple = .1 * h * sin(9 * u + 5 * v + 20 * t);
            if (sequence == SURFACES_FOLD) {
                // The right half turns over on the left one about a bend of small radius.
                double r = 1.2 * h, bend = t * pi * r, over = u - .5;
                double angle = over <= 0 ? 0 : over < bend ? over / r : t * pi;
                double along = over <= 0 ? over : over < bend ? 0 : over - bend;
                p[0] = .5 + (over <= 0 ? along : r * sin(angle) + along * cos(angle));
                p[1] = v;
                p[2] = (over <= 0 ? 0 : r * (1 - cos(angle)) + along * sin(angle)) + ripple;
            } else if (sequence == SURFACES_ROLL) {
                // What is beyond 1 - t is wound up in a spiral that moves along.
                double start = 1 - .9 * t, over = u - start, r = 4 * h + .03 * (1 - t);
                double theta = over > 0 ? over / r : 0, shrink = r * exp(-.05 * theta);
                p[0] = over > 0 ? start + shrink * sin(theta) : u;
                p[1] = v;
                p[2] = (over > 0 ? r - shrink * cos(theta) : 0) + ripple;
            } else {
                // Ends turn against each other, the middle is wrung to a rope.
                double angle = 3 * pi * t * (v - .5), w = (u - .5) * (1 - .85 * t * sin(pi * v));
                p[0] = .5 + w * cos(angle);
                p[1] = v;
                p[2] = w * sin(angle) + ripple;
            }
        }
}

// ---- pairs ----

typedef struct item {
    double lo[3], hi[3];
    int32_t surface, number, node[3], node_count;
} item;
typedef QPC_ARRAY(item) items;

static bool push_item(items *list, const qpc_broad_surface *s, int32_t surface, int32_t number,
                      const int32_t *node, int32_t node_count, const double *x0, const double *x1,
                      double reach) {
    item it = {.surface = surface, .number = number, .node_count = node_count};
    double grow = reach * s->radius;
    for (int d = 0; d < 3; d++) it.lo[d] = INFINITY, it.hi[d] = -INFINITY;
    for (int32_t k = 0; k < node_count; k++) {
        it.node[k] = s->first_node + node[k];
        for (int d = 0; d < 3; d++) {
            double a = x0[3 * (int64_t)it.node[k] + d], b = x1[3 * (int64_t)it.node[k] + d];
            it.lo[d] = fmin(it.lo[d], fmin(a, b) - grow);
            it.hi[d] = fmax(it.hi[d], fmax(a, b) + grow);
        }
    }
    return qpc_array_push(list, it);
}

/// The larger of the gaps by coordinate (negative: boxes overlap) if the two may be a pair at all.
static double gap(const item *a, const item *b, const qpc_broad_surface *surface) {
    double gap = -INFINITY;
    for (int d = 0; d < 3; d++) {
        double below = a->lo[d] - b->hi[d], above = b->lo[d] - a->hi[d];
        double larger = below > above ? below : above;
        gap = larger > gap ? larger : gap;
        if (gap > 0.01) return INFINITY; // beyond any slack
    }
    if (surface[a->surface].motion != QPC_DYNAMIC && surface[b->surface].motion != QPC_DYNAMIC)
        return INFINITY;
    for (int32_t i = 0; i < a->node_count; i++)
        for (int32_t k = 0; k < b->node_count; k++)
            if (a->node[i] == b->node[k]) return INFINITY;
    return gap;
}

int surfaces_by_numbers(const void *a, const void *b) {
    qpc_pair p, q;
    memcpy(&p, a, sizeof p);
    memcpy(&q, b, sizeof q);
    if (p.a != q.a) return p.a < q.a ? -1 : 1;
    return (p.b > q.b) - (p.b < q.b);
}

static void sort_pairs(qpc_pairs *p) {
    if (p->count > 1) qsort(p->data, (size_t)p->count, sizeof *p->data, surfaces_by_numbers);
}

/// Vertices, triangles and edges of all surfaces.
static bool list_items(const qpc_broad_surface *surface, int32_t count, const double *x0,
                       const double *x1, double reach, items ret[3]) {
    int32_t triangles = 0, edges = 0;
    for (int32_t s = 0; s < count; s++) {
        const qpc_broad_surface *f = &surface[s];
        const qpc_topology *topo = qpc_mesh_topology(f->mesh);
        const int32_t *t = qpc_mesh_elements(f->mesh);
        int32_t n = (int32_t)qpc_mesh_element_count(f->mesh),
                nodes = (int32_t)qpc_mesh_vertex_count(f->mesh);
        bool *used = calloc((size_t)nodes, 1), ok = used != NULL;
        for (int32_t i = 0; ok && i < 3 * n; i++) used[t[i]] = true;
        for (int32_t i = 0; ok && i < nodes; i++)
            if (used[i]) ok = push_item(&ret[0], f, s, f->first_node + i, &i, 1, x0, x1, reach);
        for (int32_t i = 0; ok && i < n; i++)
            ok = push_item(&ret[1], f, s, triangles + i, t + 3 * i, 3, x0, x1, reach);
        for (int32_t i = 0; ok && i < topo->edge_count; i++)
            ok = push_item(&ret[2], f, s, edges + i, topo->edge_vertex + 2 * i, 2, x0, x1, reach);
        free(used);
        if (!ok) return false;
        triangles += n;
        edges += topo->edge_count;
    }
    return true;
}

static bool compare_two(const item *a, const item *b, const qpc_broad_surface *surface,
                        double slack, qpc_pairs *least, qpc_pairs *most) {
    double g = gap(a, b, surface);
    if (g > 2 * slack) return true;
    qpc_pair p = {a->number, b->number};
    return qpc_array_push(most, p) && (g > 0 || qpc_array_push(least, p));
}

bool surfaces_brute(const qpc_broad_surface *surface, int32_t count, const double *x0,
                    const double *x1, double reach, double slack, surfaces_pairs *least,
                    surfaces_pairs *most) {
    items list[3] = {{0}, {0}, {0}};
    bool ok = list_items(surface, count, x0, x1, reach, list);
    least->vt.count = least->ee.count = most->vt.count = most->ee.count = 0;
    for (int32_t i = 0; ok && i < list[0].count; i++)
        for (int32_t k = 0; ok && k < list[1].count; k++)
            ok = compare_two(&list[0].data[i], &list[1].data[k], surface, slack, &least->vt,
                             &most->vt);
    for (int32_t i = 0; ok && i < list[2].count; i++)
        for (int32_t k = i + 1; ok && k < list[2].count; k++)
            ok = compare_two(&list[2].data[i], &list[2].data[k], surface, slack, &least->ee,
                             &most->ee);
    for (int i = 0; i < 3; i++) qpc_array_fini(&list[i]);
    sort_pairs(&least->vt);
    sort_pairs(&least->ee);
    sort_pairs(&most->vt);
    sort_pairs(&most->ee);
    return ok;
}

static bool has_pair(const qpc_pairs *list, qpc_pair p) {
    return list->count > 0 &&
           bsearch(&p, list->data, (size_t)list->count, sizeof p, surfaces_by_numbers);
}

bool surfaces_sample(const qpc_broad_surface *surface, int32_t count, const double *x0,
                     const double *x1, double reach, int32_t draws, uint64_t *seed,
                     const surfaces_pairs *found, int64_t *ret_pairs, int64_t *ret_missing) {
    items list[3] = {{0}, {0}, {0}};
    bool ok = list_items(surface, count, x0, x1, reach, list);
    *ret_pairs = *ret_missing = 0;
    for (int32_t n = 0; ok && n < draws; n++) {
        const item *v = &list[0].data[(int32_t)(surfaces_uniform(seed) * list[0].count)];
        const item *e = &list[2].data[(int32_t)(surfaces_uniform(seed) * list[2].count)];
        for (int32_t k = 0; k < list[1].count; k++) {
            if (gap(v, &list[1].data[k], surface) > 0) continue;
            ++*ret_pairs;
            *ret_missing += !has_pair(&found->vt, (qpc_pair){v->number, list[1].data[k].number});
        }
        for (int32_t k = 0; k < list[2].count; k++) {
            const item *f = &list[2].data[k];
            if (f == e || gap(e, f, surface) > 0) continue;
            ++*ret_pairs;
            *ret_missing +=
                !has_pair(&found->ee, e->number < f->number ? (qpc_pair){e->number, f->number}
                                                            : (qpc_pair){f->number, e->number});
        }
    }
    for (int i = 0; i < 3; i++) qpc_array_fini(&list[i]);
    return ok;
}

static bool append(qpc_pairs *to, const qpc_pairs *from) {
    if (!qpc_array_reserve(to, (int64_t)to->count + from->count)) return false;
    if (from->count > 0)
        memcpy(to->data + to->count, from->data, (size_t)from->count * sizeof *from->data);
    to->count += from->count;
    return true;
}

bool surfaces_found(const qpc_broad *broad, surfaces_pairs *ret) {
    ret->vt.count = ret->ee.count = 0;
    for (int32_t i = 0; i < qpc_broad_slice_count(broad); i++)
        if (!append(&ret->vt, qpc_broad_vt(broad, i)) || !append(&ret->ee, qpc_broad_ee(broad, i)))
            return false;
    sort_pairs(&ret->vt);
    sort_pairs(&ret->ee);
    return true;
}

void surfaces_pairs_fini(surfaces_pairs *p) {
    qpc_array_fini(&p->vt);
    qpc_array_fini(&p->ee);
}

bool surfaces_contained(const qpc_pairs *a, const qpc_pairs *b) {
    int32_t k = 0;
    for (int32_t i = 1; i < b->count; i++)
        if (surfaces_by_numbers(&b->data[i - 1], &b->data[i]) == 0) return false;
    for (int32_t i = 0; i < a->count; i++) {
        while (k < b->count && surfaces_by_numbers(&b->data[k], &a->data[i]) < 0) k++;
        if (k == b->count || surfaces_by_numbers(&b->data[k], &a->data[i]) != 0) return false;
    }
    return true;
}
