/// The boundary of a mesh of tetrahedra; see skin.h. Once, when a scene is read.
#include "engine/geometry/skin.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static const int FACES[4][3] = {{0, 2, 1}, {0, 1, 3}, {1, 2, 3}, {0, 3, 2}};

typedef struct face {
    int32_t low, middle, high, at; // its vertices ascending; 4 times its tetrahedron and the face of it
} face;

static int by_vertices(const void *a, const void *b) {
    const face *p = a, *q = b;
    if (p->low != q->low) return p->low < q->low ? -1 : 1;
    if (p->middle != q->middle) return p->middle < q->middle ? -1 : 1;
    if (p->high != q->high) return p->high < q->high ? -1 : 1;
    return (p->at > q->at) - (p->at < q->at);
}

static int by_place(const void *a, const void *b) {
    const face *p = a, *q = b;
    return (p->at > q->at) - (p->at < q->at);
}

static bool same(const face *p, const face *q) { return p->low == q->low && p->middle == q->middle && p->high == q->high; }

static void swap(int32_t *a, int32_t *b) {
    int32_t t = *a;
    *a = *b;
    *b = t;
}

static face make_face(const int32_t *node, int32_t at, int k) {
    int32_t v[3] = {node[FACES[k][0]], node[FACES[k][1]], node[FACES[k][2]]};
    if (v[0] > v[1]) swap(&v[0], &v[1]);
    if (v[1] > v[2]) swap(&v[1], &v[2]);
    if (v[0] > v[1]) swap(&v[0], &v[1]);
    return (face){v[0], v[1], v[2], at};
}

/// Those that occur once, moved to the front in the order of the tetrahedra.
static qpc_status keep_single(face *list, int64_t count, int64_t *ret_kept, qpc_error *err) {
    int64_t kept = 0;
    qsort(list, (size_t)count, sizeof *list, by_vertices);
    for (int64_t i = 0, next; i < count; i = next) {
        next = i + 1;
        while (next < count && same(&list[i], &list[next])) next++;
        if (next - i > 2)
            return qpc_fail(err, QPC_ERR_INVALID, "the face of vertices %d, %d, %d belongs to %d tetrahedra; at most two can meet "
                            "there", list[i].low, list[i].middle, list[i].high, (int)(next - i));
        if (next - i == 1) list[kept++] = list[i];
    }
    qsort(list, (size_t)kept, sizeof *list, by_place);
    *ret_kept = kept;
    return QPC_OK;
}

qpc_status qpc_mesh_skin(const qpc_mesh *tets, qpc_mesh **ret, qpc_error *err) {
    int64_t count = qpc_mesh_element_count(tets), kept = 0;
    if (qpc_mesh_nodes_per_element(tets) != 4)
        return qpc_fail(err, QPC_ERR_INVALID, "elements have %d nodes; tetrahedra have 4", qpc_mesh_nodes_per_element(tets));
    if (count > INT32_MAX / 4) return qpc_fail(err, QPC_ERR_LIMIT, "%lld tetrahedra are too many", (long long)count);
    const int32_t *node = qpc_mesh_elements(tets);
    face *list = qpc_alloc_array((size_t)count + 1, 4 * sizeof *list);
    int32_t *triangle = NULL;
    qpc_status st = list != NULL ? QPC_OK : qpc_fail(err, QPC_ERR_MEMORY, "no memory for the faces of %lld tetrahedra", (long long)count);
    for (int32_t e = 0; e < count && st == QPC_OK; e++)
        for (int k = 0; k < 4; k++) list[4 * (int64_t)e + k] = make_face(node + 4 * (int64_t)e, 4 * e + k, k);
    if (st == QPC_OK) st = keep_single(list, 4 * count, &kept, err);
    if (st == QPC_OK && (triangle = qpc_alloc_array((size_t)kept + 1, 3 * sizeof *triangle)) == NULL)
        st = qpc_fail(err, QPC_ERR_MEMORY, "no memory for %lld triangles", (long long)kept);
    for (int64_t i = 0; i < kept && st == QPC_OK; i++) {
        const int32_t *n = node + (int64_t)(list[i].at & ~3);
        for (int k = 0; k < 3; k++) triangle[3 * i + k] = n[FACES[list[i].at & 3][k]];
    }
    if (st == QPC_OK)
        st = qpc_mesh_create(qpc_mesh_vertices(tets), qpc_mesh_vertex_count(tets), triangle, kept, 3, NULL, ret, NULL, err);
    qpc_free(list);
    qpc_free(triangle);
    return st;
}
