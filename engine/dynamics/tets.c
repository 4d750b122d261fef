/// Tetrahedra: what is made of them once, when a scene is read. Energy and forces: tets_forces.c.
#include "engine/dynamics/tets.h"

#include "base/mem.h"
#include "base/vec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int EDGES[6][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};

// ---- rest shape ----

static qpc_status check_nodes(const int32_t *node, int32_t element, int32_t node_count, qpc_error *err) {
    for (int a = 0; a < 4; a++) {
        if (node[a] < 0 || node[a] >= node_count)
            return qpc_fail(err, QPC_ERR_INVALID, "tetrahedron %d uses node %d, there are nodes 0 to %d", element, node[a],
                            node_count - 1);
        for (int b = 0; b < a; b++)
            if (node[a] == node[b])
                return qpc_fail(err, QPC_ERR_INVALID, "tetrahedron %d uses node %d twice: its four nodes must differ",
                                element, node[a]);
    }
    return QPC_OK;
}

static qpc_status make_one(const double *x, const int32_t *node, int32_t element, double scale, double inverse[9],
                           double *volume, qpc_error *err) {
    qpc_vec3 p[4], d[3];
    double longest = 0;
    for (int a = 0; a < 4; a++) p[a] = v3_load(x + 3 * (int64_t)node[a]);
    for (int a = 0; a < 3; a++) d[a] = v3_scale(scale, v3_sub(p[a + 1], p[0]));
    for (int e = 0; e < 6; e++) longest = fmax(longest, scale * v3_norm(v3_sub(p[EDGES[e][0]], p[EDGES[e][1]])));
    qpc_vec3 c[3] = {v3_cross(d[1], d[2]), v3_cross(d[2], d[0]), v3_cross(d[0], d[1])};
    double six = v3_dot(d[0], c[0]), least = 6 * QPC_TET_FLAT * longest * longest * longest;
    if (!(fabs(six) >= least) || !(longest > 0) || !isfinite(six))
        return qpc_fail(err, QPC_ERR_INVALID, "tetrahedron %d (nodes %d, %d, %d, %d) is flat: its volume of %g m3 must be "
                        "at least %g of the cube of its longest edge, %g m", element, node[0], node[1], node[2], node[3],
                        six / 6, QPC_TET_FLAT, longest);
    if (six < 0)
        return qpc_fail(err, QPC_ERR_INVALID, "tetrahedron %d (nodes %d, %d, %d, %d) is inside out: its volume is %g m3; "
                        "exchange two of its nodes, %d and %d say", element, node[0], node[1], node[2], node[3], six / 6,
                        node[2], node[3]);
    for (int a = 0; a < 3; a++) v3_store(inverse + 3 * a, v3_scale(1 / six, c[a]));
    *volume = six / 6;
    return QPC_OK;
}

qpc_status qpc_tet_rest_make(const double *x, int32_t node_count, const int32_t *node, int32_t count, double scale,
                             qpc_tet_rest *ret, qpc_error *err) {
    qpc_tet_rest rest = {.count = count};
    qpc_status st = QPC_OK;
    rest.inverse = qpc_alloc_array((size_t)count, 9 * sizeof *rest.inverse);
    rest.volume = qpc_alloc_array((size_t)count, sizeof *rest.volume);
    if (rest.inverse == NULL || rest.volume == NULL)
        st = qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d tetrahedra", count);
    for (int32_t e = 0; e < count && st == QPC_OK; e++) {
        st = check_nodes(node + 4 * (int64_t)e, e, node_count, err);
        if (st == QPC_OK)
            st = make_one(x, node + 4 * (int64_t)e, e, scale, rest.inverse + 9 * (int64_t)e, rest.volume + e, err);
    }
    if (st == QPC_OK) *ret = rest;
    else qpc_tet_rest_fini(&rest);
    return st;
}

void qpc_tet_rest_fini(qpc_tet_rest *rest) {
    if (rest == NULL) return;
    qpc_free(rest->inverse);
    qpc_free(rest->volume);
    memset(rest, 0, sizeof *rest);
}

void qpc_tet_rest_masses(const qpc_tet_rest *rest, const int32_t *node, double density, double *mass) {
    for (int32_t e = 0; e < rest->count; e++)
        for (int a = 0; a < 4; a++) mass[node[4 * (int64_t)e + a]] += 0.25 * density * rest->volume[e];
}

qpc_status qpc_tet_lame(double young, double poisson, double *ret_mu, double *ret_lambda, qpc_error *err) {
    if (!(young > 0) || !isfinite(young))
        return qpc_fail(err, QPC_ERR_INVALID, "Young's modulus is %g Pa, it must be positive", young);
    if (!(poisson > -1) || !(poisson <= QPC_TET_POISSON_MOST))
        return qpc_fail(err, QPC_ERR_INVALID, "Poisson's ratio is %g, it must be above -1 and at most %g", poisson,
                        QPC_TET_POISSON_MOST);
    *ret_mu = young / (2 * (1 + poisson));
    *ret_lambda = young * poisson / ((1 + poisson) * (1 - 2 * poisson));
    return QPC_OK;
}

// ---- order ----

typedef struct sorted {
    int32_t node[4], element; // nodes ascending
} sorted;

static int by_nodes(const void *a, const void *b) {
    const sorted *p = a, *q = b;
    for (int k = 0; k < 4; k++)
        if (p->node[k] != q->node[k]) return p->node[k] < q->node[k] ? -1 : 1;
    return (p->element > q->element) - (p->element < q->element);
}

qpc_status qpc_tets_order(const int32_t *node, int32_t count, int32_t *ret, qpc_error *err) {
    sorted *list = qpc_alloc_array((size_t)count, sizeof *list);
    if (list == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory to sort %d tetrahedra", count);
    for (int32_t e = 0; e < count; e++) {
        int32_t *n = list[e].node;
        list[e].element = e;
        for (int a = 0; a < 4; a++) {
            int32_t value = node[4 * (int64_t)e + a];
            int at = a;
            for (; at > 0 && n[at - 1] > value; at--) n[at] = n[at - 1];
            n[at] = value;
        }
    }
    if (count > 0) qsort(list, (size_t)count, sizeof *list, by_nodes);
    for (int32_t e = 0; e < count; e++) ret[e] = list[e].element;
    qpc_free(list);
    return QPC_OK;
}

// ---- the pattern ----

/// Edges of tetrahedra are springs to the pattern.
qpc_status qpc_tets_pattern(const qpc_springs *springs, const qpc_tets *tets, int32_t node_count, int32_t **ret_start,
                            int32_t **ret_row, int32_t *spring_place, int32_t *tet_place, qpc_error *err) {
    int32_t first = springs != NULL ? springs->count : 0;
    int64_t count = first + 6 * (int64_t)tets->count;
    if (count >= INT32_MAX)
        return qpc_fail(err, QPC_ERR_LIMIT, "a matrix of %lld springs and edges is too large", (long long)count);
    int32_t *node = qpc_alloc_array((size_t)count, sizeof *node), *other = qpc_alloc_array((size_t)count, sizeof *other);
    int32_t *place = qpc_alloc_array((size_t)count, sizeof *place);
    qpc_status st = QPC_OK;
    if (node == NULL || other == NULL || place == NULL)
        st = qpc_fail(err, QPC_ERR_MEMORY, "no memory for a matrix over %d nodes", node_count);
    if (st == QPC_OK) {
        for (int32_t s = 0; s < first; s++) {
            node[s] = springs->node[s];
            other[s] = qpc_springs_other(springs, s);
        }
        for (int32_t e = 0, at = first; e < tets->count; e++)
            for (int k = 0; k < 6; k++, at++) {
                int32_t a = tets->node[4 * (int64_t)e + EDGES[k][0]], b = tets->node[4 * (int64_t)e + EDGES[k][1]];
                node[at] = a < b ? a : b;
                other[at] = a < b ? b : a;
            }
        qpc_springs all = {.count = (int32_t)count, .node = node, .other = other};
        st = qpc_springs_pattern(&all, node_count, ret_start, ret_row, place, err);
    }
    if (st == QPC_OK) {
        if (first > 0) memcpy(spring_place, place, (size_t)first * sizeof *place);
        if (tets->count > 0) memcpy(tet_place, place + first, 6 * (size_t)tets->count * sizeof *place);
    }
    qpc_free(node);
    qpc_free(other);
    qpc_free(place);
    return st;
}
