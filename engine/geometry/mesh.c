/// Meshes: validation, canonical bytes and their hash, topology, counted references; see mesh.h.
///
/// A mesh is one block of vertices, one of elements and, for triangles, the topology; all are built
/// in qpc_mesh_create in linear time by counting sorts, so that a mesh of millions of triangles
/// costs no more than reading it. Immutable afterwards; the count of references is atomic.
#include "engine/geometry/mesh.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/vec.h"
#include "engine/geometry/topology.h"

#include <stdatomic.h>
#include <string.h>

enum { HEADER_SIZE = 24, DIMENSIONS = 3 };

struct qpc_mesh {
    qpc_mesh *self; // what the const pointers of users may not change: count and end of life
    atomic_llong references;
    int32_t nodes_per_element;
    int64_t vertex_count, element_count;
    double *vertices;
    int32_t *elements;
    qpc_topology topology;
    bool has_topology;
    uint8_t sha256[32];
};

static void free_mesh(qpc_mesh *m) {
    if (m == NULL) return;
    qpc_free(m->vertices);
    qpc_free(m->elements);
    qpc_free(m->topology.edge_vertex);
    qpc_free(m->topology.edge_triangle_start);
    qpc_free(m->topology.edge_triangle);
    qpc_free(m->topology.triangle_edge);
    qpc_free(m->topology.triangle_owns);
    qpc_free(m->topology.triangle_degenerate);
    qpc_free(m->topology.vertex_edge_start);
    qpc_free(m->topology.vertex_edge);
    qpc_free(m);
}

// ---- sorting of element corners ----

/// Order, stably, the numbers in `from` by key[from[i]] into `to`; count has keys + 1 entries.
static void counting_sort(const int32_t *from, int32_t *to, int64_t n, const int32_t *key,
                          int64_t keys, int32_t *count) {
    memset(count, 0, (size_t)(keys + 1) * sizeof *count);
    for (int64_t i = 0; i < n; i++) count[key[i] + 1]++;
    for (int64_t k = 0; k < keys; k++) count[k + 1] += count[k];
    for (int64_t i = 0; i < n; i++) to[count[key[from[i]]]++] = from[i];
}

/// Elements whose set of vertices an earlier element has too.
static qpc_status count_duplicates(const qpc_mesh *m, int64_t *ret, qpc_error *err) {
    int64_t n = m->element_count;
    int32_t k = m->nodes_per_element;
    int32_t *sorted = qpc_alloc_array((size_t)n, (size_t)k * sizeof *sorted);
    int32_t *order = qpc_alloc_array((size_t)n, 2 * sizeof *order);
    int32_t *count = qpc_alloc_array((size_t)m->vertex_count + 1, sizeof *count);
    qpc_status status = QPC_OK;
    if (sorted == NULL || order == NULL || count == NULL) {
        status = qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a mesh of %lld elements",
                          (long long)n);
        goto done;
    }
    // Column j of `sorted` holds the j-th smallest vertex of every element.
    for (int64_t e = 0; e < n; e++) {
        int32_t v[4];
        memcpy(v, m->elements + e * k, (size_t)k * sizeof *v);
        for (int32_t i = 1; i < k; i++)
            for (int32_t j = i; j > 0 && v[j] < v[j - 1]; j--) {
                int32_t swap = v[j];
                v[j] = v[j - 1];
                v[j - 1] = swap;
            }
        for (int32_t j = 0; j < k; j++) sorted[j * n + e] = v[j];
    }
    int32_t *a = order, *b = order + n;
    for (int64_t e = 0; e < n; e++) a[e] = (int32_t)e;
    for (int32_t j = k - 1; j >= 0; j--) {
        counting_sort(a, b, n, sorted + j * n, m->vertex_count, count);
        int32_t *swap = a;
        a = b;
        b = swap;
    }
    int64_t duplicates = 0;
    for (int64_t i = 1; i < n; i++) {
        bool same = true;
        for (int32_t j = 0; j < k; j++) same &= sorted[j * n + a[i]] == sorted[j * n + a[i - 1]];
        duplicates += same;
    }
    *ret = duplicates;
done:
    qpc_free(sorted);
    qpc_free(order);
    qpc_free(count);
    return status;
}

// ---- measures ----

static qpc_vec3 corner(const qpc_mesh *m, int64_t element, int32_t k) {
    return v3_load(m->vertices + 3 * (int64_t)m->elements[element * m->nodes_per_element + k]);
}

/// No length, area or volume, up to what rounding leaves of it.
static bool has_no_measure(const qpc_mesh *m, int64_t e) {
    qpc_vec3 a = corner(m, e, 0), u = v3_sub(corner(m, e, 1), a);
    double l2 = v3_norm2(u);
    if (m->nodes_per_element == 2) return !(l2 > 0);
    qpc_vec3 v = v3_sub(corner(m, e, 2), a), n = v3_cross(u, v);
    l2 = fmax(l2, fmax(v3_norm2(v), v3_norm2(v3_sub(u, v))));
    if (m->nodes_per_element == 3) return !(v3_norm(n) > 1e-14 * l2);
    qpc_vec3 w = v3_sub(corner(m, e, 3), a);
    l2 = fmax(l2, fmax(v3_norm2(w), fmax(v3_norm2(v3_sub(u, w)), v3_norm2(v3_sub(v, w)))));
    return !(fabs(v3_dot(n, w)) > 1e-14 * l2 * sqrt(l2));
}

static qpc_status measure(const qpc_mesh *m, qpc_mesh_report *report, qpc_error *err) {
    uint8_t *used = qpc_calloc((size_t)m->vertex_count, 1);
    if (used == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a mesh of %lld vertices",
                        (long long)m->vertex_count);
    for (int d = 0; d < DIMENSIONS; d++) report->low[d] = INFINITY, report->high[d] = -INFINITY;
    for (int64_t e = 0; e < m->element_count; e++) {
        for (int32_t k = 0; k < m->nodes_per_element; k++) {
            int32_t v = m->elements[e * m->nodes_per_element + k];
            used[v] = 1;
            for (int d = 0; d < DIMENSIONS; d++) {
                report->low[d] = fmin(report->low[d], m->vertices[3 * (int64_t)v + d]);
                report->high[d] = fmax(report->high[d], m->vertices[3 * (int64_t)v + d]);
            }
        }
        if (!has_no_measure(m, e)) continue;
        if (report->zero_area_count < 8) report->zero_area[report->zero_area_count] = (int32_t)e;
        report->zero_area_count++;
    }
    for (int64_t v = 0; v < m->vertex_count; v++) {
        if (used[v]) continue;
        if (report->unreferenced_count < 8)
            report->unreferenced[report->unreferenced_count] = (int32_t)v;
        report->unreferenced_count++;
    }
    qpc_free(used);
    return QPC_OK;
}

// ---- topology ----

static qpc_status build_topology(qpc_mesh *m, qpc_error *err) {
    qpc_topology *t = &m->topology;
    int64_t n = m->element_count, sides = 0, vertices = m->vertex_count;
    size_t most = 3 * (size_t)n;
    int32_t *low = qpc_alloc_array(most, sizeof *low), *high = qpc_alloc_array(most, sizeof *high);
    int32_t *side = qpc_alloc_array(most, sizeof *side), *a = qpc_alloc_array(most, sizeof *a);
    int32_t *b = qpc_alloc_array(most, sizeof *b);
    int32_t *count = qpc_alloc_array((size_t)vertices + 1, sizeof *count);
    t->triangle_edge = qpc_alloc_array(most, sizeof *t->triangle_edge);
    t->triangle_owns = qpc_calloc((size_t)n, 1);
    t->triangle_degenerate = qpc_calloc((size_t)n, 1);
    t->edge_triangle = qpc_alloc_array(most, sizeof *t->edge_triangle);
    t->vertex_edge_start = qpc_calloc((size_t)vertices + 1, sizeof *t->vertex_edge_start);
    qpc_status status = QPC_ERR_MEMORY;
    if (low == NULL || high == NULL || side == NULL || a == NULL || b == NULL || count == NULL ||
        t->triangle_edge == NULL || t->triangle_owns == NULL || t->triangle_degenerate == NULL ||
        t->edge_triangle == NULL || t->vertex_edge_start == NULL)
        goto done;

    // Sides sorted by lower, then higher vertex, then triangle: equal pairs are one edge.
    for (int64_t i = 0; i < n; i++) {
        t->triangle_degenerate[i] = has_no_measure(m, i);
        for (int32_t k = 0; k < 3; k++) {
            int32_t p = m->elements[3 * i + k], q = m->elements[3 * i + (k + 1) % 3];
            t->triangle_edge[3 * i + k] = -1;
            if (p == q) continue;
            low[sides] = p < q ? p : q;
            high[sides] = p < q ? q : p;
            side[sides] = (int32_t)(3 * i + k);
            a[sides] = (int32_t)sides;
            sides++;
        }
    }
    counting_sort(a, b, sides, high, vertices, count);
    counting_sort(b, a, sides, low, vertices, count);
    int32_t edges = 0;
    for (int64_t i = 0; i < sides; i++)
        edges += i == 0 || low[a[i]] != low[a[i - 1]] || high[a[i]] != high[a[i - 1]];
    t->edge_count = edges;
    t->edge_vertex = qpc_alloc_array((size_t)edges, 2 * sizeof *t->edge_vertex);
    t->edge_triangle_start = qpc_alloc_array((size_t)edges + 1, sizeof *t->edge_triangle_start);
    t->vertex_edge = qpc_alloc_array((size_t)edges, 2 * sizeof *t->vertex_edge);
    if (t->edge_vertex == NULL || t->edge_triangle_start == NULL || t->vertex_edge == NULL)
        goto done;

    int32_t edge = -1, filled = 0;
    for (int64_t i = 0; i < sides; i++) {
        int32_t s = a[i], triangle = side[s] / 3, k = side[s] % 3;
        bool first = edge < 0 || low[s] != t->edge_vertex[2 * edge] ||
                     high[s] != t->edge_vertex[2 * edge + 1];
        if (first) {
            edge++;
            t->edge_vertex[2 * edge] = low[s];
            t->edge_vertex[2 * edge + 1] = high[s];
            t->edge_triangle_start[edge] = filled;
            t->triangle_owns[triangle] |= (uint8_t)(1 << k);
        }
        t->triangle_edge[3 * (int64_t)triangle + k] = edge;
        // A triangle that folds back on itself has an edge twice but counts once.
        if (first || t->edge_triangle[filled - 1] != triangle)
            t->edge_triangle[filled++] = triangle;
    }
    t->edge_triangle_start[edges] = filled;

    for (int32_t i = 0; i < 2 * edges; i++) t->vertex_edge_start[t->edge_vertex[i] + 1]++;
    for (int64_t v = 0; v < vertices; v++) t->vertex_edge_start[v + 1] += t->vertex_edge_start[v];
    memcpy(count, t->vertex_edge_start, ((size_t)vertices + 1) * sizeof *count);
    for (int32_t i = 0; i < 2 * edges; i++) t->vertex_edge[count[t->edge_vertex[i]]++] = i / 2;
    m->has_topology = true;
    status = QPC_OK;
done:
    qpc_free(low);
    qpc_free(high);
    qpc_free(side);
    qpc_free(a);
    qpc_free(b);
    qpc_free(count);
    if (status != QPC_OK)
        return qpc_fail(err, status, "out of memory for a mesh of %lld triangles", (long long)n);
    return QPC_OK;
}

// ---- canonical bytes ----

static void put(uint8_t *out, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) out[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t get(const uint8_t *in, int bytes) {
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++) v |= (uint64_t)in[i] << (8 * i);
    return v;
}

static void put_header(const qpc_mesh *m, uint8_t out[HEADER_SIZE]) {
    memcpy(out, "QPM1", 4);
    put(out + 4, (uint64_t)m->nodes_per_element, 4);
    put(out + 8, (uint64_t)m->vertex_count, 8);
    put(out + 16, (uint64_t)m->element_count, 8);
}

/// Canonical bytes of `count` numbers from `first` on, vertices or elements.
static void put_vertices(const qpc_mesh *m, int64_t first, int64_t count, uint8_t *out) {
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, m->vertices + first + i, 8);
        put(out + 8 * i, bits, 8);
    }
}

static void put_elements(const qpc_mesh *m, int64_t first, int64_t count, uint8_t *out) {
    for (int64_t i = 0; i < count; i++) put(out + 4 * i, (uint32_t)m->elements[first + i], 4);
}

static qpc_status hash_mesh(qpc_mesh *m, qpc_error *err) {
    uint8_t chunk[4096];
    qpc_sha256 *hash = NULL;
    qpc_status status = qpc_sha256_create(&hash, err);
    if (status != QPC_OK) return status;
    put_header(m, chunk);
    status = qpc_sha256_update(hash, chunk, HEADER_SIZE);
    int64_t n = 3 * m->vertex_count, step = (int64_t)sizeof chunk / 8;
    for (int64_t i = 0; i < n && status == QPC_OK; i += step) {
        int64_t k = n - i < step ? n - i : step;
        put_vertices(m, i, k, chunk);
        status = qpc_sha256_update(hash, chunk, 8 * (size_t)k);
    }
    n = m->element_count * m->nodes_per_element;
    step = (int64_t)sizeof chunk / 4;
    for (int64_t i = 0; i < n && status == QPC_OK; i += step) {
        int64_t k = n - i < step ? n - i : step;
        put_elements(m, i, k, chunk);
        status = qpc_sha256_update(hash, chunk, 4 * (size_t)k);
    }
    if (status == QPC_OK) status = qpc_sha256_final(hash, m->sha256);
    qpc_sha256_destroy(hash);
    if (status != QPC_OK) return qpc_fail(err, status, "the hash of a mesh could not be taken");
    return QPC_OK;
}

// ---- making ----

static qpc_status check_counts(int64_t vertices, int64_t elements, int64_t nodes_per_element,
                               const qpc_mesh_limits *limits, qpc_error *err) {
    if (nodes_per_element < 2 || nodes_per_element > 4)
        return qpc_fail(err, QPC_ERR_INVALID, "a mesh has 2, 3 or 4 nodes per element, not %lld",
                        (long long)nodes_per_element);
    if (vertices < 0 || elements < 0)
        return qpc_fail(err, QPC_ERR_INVALID, "a mesh cannot have %lld vertices and %lld elements",
                        (long long)vertices, (long long)elements);
    if (elements == 0) return qpc_fail(err, QPC_ERR_INVALID, "the mesh has no element");
    if (vertices == 0) return qpc_fail(err, QPC_ERR_INVALID, "the mesh has no vertex");
    int64_t most_vertices = INT32_MAX / 4, most_elements = INT32_MAX / 4;
    if (limits != NULL && limits->max_vertices > 0 && limits->max_vertices < most_vertices)
        most_vertices = limits->max_vertices;
    if (limits != NULL && limits->max_elements > 0 && limits->max_elements < most_elements)
        most_elements = limits->max_elements;
    if (vertices > most_vertices)
        return qpc_fail_at(err, QPC_ERR_LIMIT, "vertices",
                           "the mesh has %lld vertices, more than the limit max_vertices of %lld",
                        (long long)vertices, (long long)most_vertices);
    if (elements > most_elements)
        return qpc_fail_at(err, QPC_ERR_LIMIT, "elements",
                           "the mesh has %lld elements, more than the limit max_elements of %lld",
                        (long long)elements, (long long)most_elements);
    return QPC_OK;
}

/// Memory for a mesh of these counts, vertices and elements not filled in yet.
static qpc_status allocate(int64_t vertices, int64_t elements, int32_t nodes_per_element,
                           qpc_mesh **ret, qpc_error *err) {
    qpc_mesh *m = qpc_calloc(1, sizeof *m);
    if (m != NULL) {
        m->self = m;
        atomic_init(&m->references, 1);
        m->nodes_per_element = nodes_per_element;
        m->vertex_count = vertices;
        m->element_count = elements;
        m->vertices = qpc_alloc_array((size_t)vertices, 3 * sizeof *m->vertices);
        m->elements =
            qpc_alloc_array((size_t)elements, (size_t)nodes_per_element * sizeof *m->elements);
        if (m->vertices != NULL && m->elements != NULL) return *ret = m, QPC_OK;
    }
    free_mesh(m);
    return qpc_fail(err, QPC_ERR_MEMORY,
                    "out of memory for a mesh of %lld vertices and %lld elements",
                    (long long)vertices, (long long)elements);
}

/// Check what was filled in, build the rest. Takes the mesh: frees it on failure.
static qpc_status complete(qpc_mesh *m, qpc_mesh **ret, qpc_mesh_report *report, qpc_error *err) {
    qpc_status status;
    qpc_mesh_report local = {0};
    for (int64_t i = 0; i < 3 * m->vertex_count; i++) {
        if (!isfinite(m->vertices[i])) {
            status = qpc_fail(err, QPC_ERR_INVALID, "coordinate %d of vertex %lld is not finite",
                              (int)(i % 3), (long long)(i / 3));
            goto failed;
        }
        m->vertices[i] += 0.0; // -0 becomes 0
    }
    for (int64_t i = 0; i < m->element_count * m->nodes_per_element; i++) {
        if (m->elements[i] < 0 || m->elements[i] >= m->vertex_count) {
            status = qpc_fail(err, QPC_ERR_INVALID,
                              "element %lld uses vertex %d, but the mesh has vertices 0 to %lld",
                              (long long)(i / m->nodes_per_element), (int)m->elements[i],
                              (long long)m->vertex_count - 1);
            goto failed;
        }
    }
    if ((status = measure(m, &local, err)) != QPC_OK) goto failed;
    if (local.zero_area_count == m->element_count) {
        status = qpc_fail(err, QPC_ERR_INVALID, "all %lld elements of the mesh have no %s",
                          (long long)m->element_count,
                          m->nodes_per_element == 2   ? "length"
                          : m->nodes_per_element == 3 ? "area"
                                                      : "volume");
        goto failed;
    }
    if ((status = count_duplicates(m, &local.duplicate_count, err)) != QPC_OK) goto failed;
    if (m->nodes_per_element == 3) {
        if ((status = build_topology(m, err)) != QPC_OK) goto failed;
        for (int32_t e = 0; e < m->topology.edge_count; e++) {
            int32_t triangles =
                m->topology.edge_triangle_start[e + 1] - m->topology.edge_triangle_start[e];
            local.boundary_edge_count += triangles == 1;
            local.nonmanifold_edge_count += triangles > 2;
        }
    }
    if ((status = hash_mesh(m, err)) != QPC_OK) goto failed;
    if (report != NULL) *report = local;
    *ret = m;
    return QPC_OK;
failed:
    free_mesh(m);
    return status;
}

qpc_status qpc_mesh_create(const double *vertices, int64_t vertex_count, const int32_t *elements,
                           int64_t element_count, int32_t nodes_per_element,
                           const qpc_mesh_limits *limits, qpc_mesh **ret, qpc_mesh_report *report,
                           qpc_error *err) {
    qpc_mesh *m;
    qpc_status status = check_counts(vertex_count, element_count, nodes_per_element, limits, err);
    if (status != QPC_OK) return status;
    status = allocate(vertex_count, element_count, nodes_per_element, &m, err);
    if (status != QPC_OK) return status;
    memcpy(m->vertices, vertices, 3 * (size_t)vertex_count * sizeof *vertices);
    memcpy(m->elements, elements,
           (size_t)element_count * (size_t)nodes_per_element * sizeof *elements);
    return complete(m, ret, report, err);
}

qpc_status qpc_mesh_from_canonical(const uint8_t *bytes, size_t size, const qpc_mesh_limits *limits,
                                   qpc_mesh **ret, qpc_mesh_report *report, qpc_error *err) {
    if (size < HEADER_SIZE || memcmp(bytes, "QPM1", 4) != 0)
        return qpc_fail(err, QPC_ERR_CORRUPT, "these %zu bytes do not start with a mesh's header",
                        size);
    uint64_t nodes = get(bytes + 4, 4), vertices = get(bytes + 8, 8), elements = get(bytes + 16, 8);
    if (vertices > INT64_MAX || elements > INT64_MAX)
        return qpc_fail(err, QPC_ERR_CORRUPT, "the counts of the mesh's header make no sense");
    qpc_status status =
        check_counts((int64_t)vertices, (int64_t)elements, (int64_t)nodes, limits, err);
    if (status != QPC_OK) return status;
    uint64_t want = HEADER_SIZE + 24 * vertices + 4 * nodes * elements; // counts are below 2^29
    if (want != size)
        return qpc_fail(err, QPC_ERR_CORRUPT,
                        "a mesh of %llu vertices and %llu elements takes %llu bytes, not %zu",
                        (unsigned long long)vertices, (unsigned long long)elements,
                        (unsigned long long)want, size);
    qpc_mesh *m;
    status = allocate((int64_t)vertices, (int64_t)elements, (int32_t)nodes, &m, err);
    if (status != QPC_OK) return status;
    const uint8_t *in = bytes + HEADER_SIZE;
    for (uint64_t i = 0; i < 3 * vertices; i++, in += 8) {
        uint64_t bits = get(in, 8);
        memcpy(m->vertices + i, &bits, 8);
    }
    for (uint64_t i = 0; i < nodes * elements; i++, in += 4) {
        uint32_t bits = (uint32_t)get(in, 4);
        memcpy(m->elements + i, &bits, 4);
    }
    return complete(m, ret, report, err);
}

qpc_mesh *qpc_mesh_ref(const qpc_mesh *mesh) {
    atomic_fetch_add_explicit(&mesh->self->references, 1, memory_order_relaxed);
    return mesh->self;
}

void qpc_mesh_unref(const qpc_mesh *mesh) {
    if (mesh == NULL) return;
    if (atomic_fetch_sub_explicit(&mesh->self->references, 1, memory_order_acq_rel) == 1)
        free_mesh(mesh->self);
}

int32_t qpc_mesh_nodes_per_element(const qpc_mesh *mesh) {
    return mesh->nodes_per_element;
}
int64_t qpc_mesh_vertex_count(const qpc_mesh *mesh) {
    return mesh->vertex_count;
}
int64_t qpc_mesh_element_count(const qpc_mesh *mesh) {
    return mesh->element_count;
}
const double *qpc_mesh_vertices(const qpc_mesh *mesh) {
    return mesh->vertices;
}
const int32_t *qpc_mesh_elements(const qpc_mesh *mesh) {
    return mesh->elements;
}
const uint8_t *qpc_mesh_sha256(const qpc_mesh *mesh) {
    return mesh->sha256;
}

int32_t qpc_topology_edge(const qpc_topology *t, int32_t a, int32_t b) {
    for (int32_t i = t->vertex_edge_start[a]; i < t->vertex_edge_start[a + 1]; i++) {
        const int32_t *ends = t->edge_vertex + 2 * (int64_t)t->vertex_edge[i];
        if (ends[0] == b || ends[1] == b) return t->vertex_edge[i];
    }
    return -1;
}

const qpc_topology *qpc_mesh_topology(const qpc_mesh *mesh) {
    return mesh->has_topology ? &mesh->topology : NULL;
}

size_t qpc_mesh_canonical_size(const qpc_mesh *mesh) {
    return HEADER_SIZE + 24 * (size_t)mesh->vertex_count +
           4 * (size_t)mesh->nodes_per_element * (size_t)mesh->element_count;
}

void qpc_mesh_canonical_bytes(const qpc_mesh *mesh, uint8_t *out) {
    put_header(mesh, out);
    put_vertices(mesh, 0, 3 * mesh->vertex_count, out + HEADER_SIZE);
    put_elements(mesh, 0, mesh->element_count * mesh->nodes_per_element,
                 out + HEADER_SIZE + 24 * (size_t)mesh->vertex_count);
}
