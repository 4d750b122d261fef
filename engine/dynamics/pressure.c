/// Pressure on triangles; see pressure.h.
#include "engine/dynamics/pressure.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

// ---- edges ----

typedef struct half { // of a triangle, i before j
    int32_t low, high, opposite;
    bool forward; // from the lower to the higher
} half;

static int by_edge(const void *a, const void *b) {
    const half *x = a, *y = b;
    if (x->low != y->low) return x->low < y->low ? -1 : 1;
    if (x->high != y->high) return x->high < y->high ? -1 : 1;
    return (int)y->forward - (int)x->forward;
}

static void put_edge(int32_t *at, const half *one, const half *other) {
    at[0] = one->forward ? one->low : one->high;
    at[1] = one->forward ? one->high : one->low;
    at[2] = one->opposite;
    at[3] = other != NULL ? other->opposite : -1;
}

static qpc_status fill_edges(qpc_pressed *s, const half *list, int32_t count, qpc_error *err) {
    for (int pass = 0; pass < 2; pass++) { // first what two triangles share
        for (int32_t k = 0; k < count; k++) {
            const half *a = &list[k], *b = k + 1 < count ? &list[k + 1] : NULL;
            bool pair = b != NULL && a->low == b->low && a->high == b->high;
            const half *c = pair && k + 2 < count ? &list[k + 2] : NULL;
            if ((pair && a->forward == b->forward) || (c != NULL && c->low == a->low && c->high == a->high))
                return qpc_fail(err, QPC_ERR_INVALID, "pressure needs a surface of two sides: more than one triangle goes from vertex %d to %d, or back",
                                a->low - s->first_node, a->high - s->first_node);
            if (pair && pass == 0) put_edge(s->edge + 4 * (int64_t)s->edge_count++, a, b);
            if (!pair && pass == 1) put_edge(s->edge + 4 * (int64_t)(s->edge_count + s->border_count++), a, NULL);
            if (pair) k++;
        }
    }
    return QPC_OK;
}

qpc_status qpc_pressed_make(const int32_t *triangles, int32_t count, int32_t first_node, int32_t node_count, qpc_pressed *ret, qpc_error *err) {
    size_t n = (size_t)count;
    *ret = (qpc_pressed){.first_node = first_node, .node_count = node_count};
    half *list = qpc_alloc_array(3 * n, sizeof *list);
    ret->node = qpc_alloc_array(3 * n, sizeof *ret->node);
    ret->edge = qpc_alloc_array(3 * n, 4 * sizeof *ret->edge);
    ret->over = qpc_alloc_array((size_t)node_count, sizeof *ret->over);
    qpc_status st = QPC_OK;
    if (list == NULL || ret->node == NULL || ret->edge == NULL || ret->over == NULL)
        st = qpc_fail(err, QPC_ERR_MEMORY, "no memory for pressure on %d triangles", count);
    int32_t halves = 0;
    for (int32_t t = 0; t < count && st == QPC_OK; t++) {
        const int32_t *c = triangles + 3 * (int64_t)t;
        if (c[0] == c[1] || c[1] == c[2] || c[2] == c[0]) continue; // has no area, and no normal
        for (int k = 0; k < 3; k++) {
            int32_t i = first_node + c[k], j = first_node + c[(k + 1) % 3];
            ret->node[3 * (int64_t)ret->count + k] = i;
            list[halves++] = (half){i < j ? i : j, i < j ? j : i, first_node + c[(k + 2) % 3], i < j};
        }
        ret->count++;
    }
    if (st == QPC_OK) {
        qsort(list, (size_t)halves, sizeof *list, by_edge);
        st = fill_edges(ret, list, halves, err);
    }
    qpc_free(list);
    if (st != QPC_OK) qpc_pressed_fini(ret);
    return st;
}

void qpc_pressed_fini(qpc_pressed *s) {
    qpc_free(s->node);
    qpc_free(s->edge);
    qpc_free(s->over);
    *s = (qpc_pressed){0};
}

// ---- volume and forces ----

static qpc_vec3 at(const double *x, int32_t node) { return v3_load(x + 3 * (int64_t)node); }

static void add(double *f, int32_t node, double by, qpc_vec3 a) { v3_store(f + 3 * (int64_t)node, v3_madd(at(f, node), by, a)); }

qpc_vec3 qpc_pressed_origin(const qpc_pressed *s, const double *x) {
    qpc_vec3 sum = v3(0.0, 0.0, 0.0);
    if (s->border_count == 0) return at(x, s->first_node);
    for (int32_t k = s->edge_count; k < s->edge_count + s->border_count; k++) sum = v3_add(sum, at(x, s->edge[4 * (int64_t)k]));
    return v3_scale(1.0 / s->border_count, sum);
}

/// Between one triangle and o.
static double volume_of(const qpc_pressed *s, int32_t t, const double *x, qpc_vec3 o) {
    const int32_t *c = s->node + 3 * (int64_t)t;
    return v3_dot(v3_sub(at(x, c[0]), o), v3_cross(v3_sub(at(x, c[1]), o), v3_sub(at(x, c[2]), o))) / 6.0;
}

double qpc_pressed_volume(const qpc_pressed *s, const double *x, qpc_vec3 o) {
    double sum = 0.0;
    for (int32_t t = 0; t < s->count; t++) sum += volume_of(s, t, x, o);
    return sum;
}

/// Twice the area vector of (o, j, i), which closes a border from i to j.
static qpc_vec3 closing(const qpc_pressed *s, int32_t k, const double *x, qpc_vec3 o) {
    const int32_t *e = s->edge + 4 * (int64_t)k;
    return v3_cross(v3_sub(at(x, e[1]), o), v3_sub(at(x, e[0]), o));
}

double qpc_pressed_work(const qpc_pressed *s, double p, const double *x, const double *x1, qpc_vec3 o) {
    double sum = 0.0;
    for (int32_t t = 0; t < s->count; t++) sum += volume_of(s, t, x1, o) - volume_of(s, t, x, o);
    for (int32_t k = s->edge_count; k < s->edge_count + s->border_count; k++) {
        const int32_t *e = s->edge + 4 * (int64_t)k;
        qpc_vec3 way = v3_add(v3_sub(at(x1, e[0]), at(x, e[0])), v3_sub(at(x1, e[1]), at(x, e[1])));
        sum -= v3_dot(closing(s, k, x, o), way) / 6.0;
    }
    return p * sum;
}

void qpc_pressed_force(const qpc_pressed *s, double p, const double *x, double *f) {
    for (int32_t t = 0; t < s->count; t++) {
        const int32_t *c = s->node + 3 * (int64_t)t;
        qpc_vec3 a = v3_cross(v3_sub(at(x, c[1]), at(x, c[0])), v3_sub(at(x, c[2]), at(x, c[0])));
        for (int k = 0; k < 3; k++) add(f, c[k], p / 6.0, a);
    }
}

void qpc_pressed_open_force(const qpc_pressed *s, double p, const double *x, qpc_vec3 o, double *f) {
    for (int32_t k = s->edge_count; k < s->edge_count + s->border_count; k++) {
        const int32_t *e = s->edge + 4 * (int64_t)k;
        qpc_vec3 a = closing(s, k, x, o);
        for (int c = 0; c < 2; c++) add(f, e[c], p / 6.0, a);
    }
}

// ---- load stiffness ----

/// Of a node's blocks over what its mass stands: beyond that all of H is reduced. Springs that weigh more than what holds the surface would
/// make Newton's iteration creep (docs/theory-joints.md, TJ11).
static const double MOST_OVER = 8.0;

/// c of the block H_ij = p [c] / 6 of an edge, [c] y = c x y.
static qpc_vec3 across(const qpc_pressed *s, int32_t k, const double *x, qpc_vec3 o) {
    const int32_t *e = s->edge + 4 * (int64_t)k;
    return v3_sub(at(x, e[2]), e[3] >= 0 ? at(x, e[3]) : o);
}

static void add_edge(qpc_linsys *K, int32_t i, int32_t j, qpc_vec3 c, double spring) {
    const double block[3][3] = {{-spring, -c.z, c.y}, {c.z, -spring, -c.x}, {-c.y, c.x, -spring}};
    for (int32_t a = 0; a < 3; a++) {
        for (int32_t b = 0; b < 3; b++) {
            double *value = i > j ? qpc_linsys_entry(K, 3 * i + a, 3 * j + b) : qpc_linsys_entry(K, 3 * j + b, 3 * i + a);
            *value += block[a][b];
        }
        *qpc_linsys_entry(K, 3 * i + a, 3 * i + a) += spring;
        *qpc_linsys_entry(K, 3 * j + a, 3 * j + a) += spring;
    }
}

/// Spring of an edge over h^2 |H_ij|, from how much the blocks of its ends are over what their masses stand, each (docs/theory-joints.md, TJ11).
static double spring_of(double one, double other) {
    if (!(one > 1.0) && !(other > 1.0)) return 0.0;
    return (one > 1.0 ? 0.25 * one : 0.5) + (other > 1.0 ? 0.25 * other : 0.5);
}

void qpc_pressed_stiffness(const qpc_pressed *s, double p, const double *x, qpc_vec3 o, const double *v, double h, const double *mass,
                           qpc_linsys *K, double *Hv) {
    double *over = s->over - s->first_node;
    int32_t all = s->edge_count + s->border_count;
    for (int32_t i = 0; i < s->node_count; i++) s->over[i] = 0.0;
    for (int32_t k = 0; k < all; k++) {
        const int32_t *e = s->edge + 4 * (int64_t)k;
        double size = h * h * fabs(p) / 6.0 * v3_norm(across(s, k, x, o));
        for (int c = 0; c < 2; c++) over[e[c]] += size / (QPC_PRESSED_SHARE * mass[e[c]]);
    }
    double most = 1.0;
    for (int32_t i = 0; i < s->node_count; i++) most = fmax(most, s->over[i] / MOST_OVER);
    for (int32_t k = 0; k < all; k++) {
        const int32_t *e = s->edge + 4 * (int64_t)k;
        qpc_vec3 c = v3_scale(p / 6.0 / most, across(s, k, x, o));
        double spring = spring_of(over[e[0]] / most, over[e[1]] / most) * v3_norm(c);
        qpc_vec3 pull = v3_scale(spring, v3_sub(at(v, e[0]), at(v, e[1])));
        add(Hv, e[0], 1.0, v3_add(v3_cross(c, at(v, e[1])), pull));
        add(Hv, e[1], -1.0, v3_add(v3_cross(c, at(v, e[0])), pull));
        add_edge(K, e[0], e[1], v3_scale(h * h, c), h * h * spring);
    }
}
