/// Pre-flight of a mesh: welding, triangles, edges, parts; see preflight.h. Crossings are in
/// crossings.c, sizes in sizes.c.
///
///     positions -> weld -> triangles over welded vertices -> without area, repeated: out
///     sides sorted by their two vertices -> edges -> open, non-manifold, flipped; parts
///
/// All in linear time by counting sorts and one hash table.
#include "engine/preflight/internal.h"

#include "base/mem.h"
#include "base/vec.h"

#include <string.h>

#define SPEC(id, name, elements, numbers, weight, text) {name, elements, weight, text, numbers},
const qpc_finding_spec qpc_finding_specs[QPC_FINDING_COUNT] = {QPC_PREFLIGHT_FINDINGS(SPEC)};
#undef SPEC
#define NAME(id, name) name,
const char *const qpc_mesh_use_names[QPC_USE_COUNT] = {QPC_PREFLIGHT_USES(NAME)};
#undef NAME

void qpc_check_add(qpc_check *c, qpc_finding_kind kind, int32_t a, int32_t b, int32_t third) {
    qpc_finding *f = &c->ret->finding[kind];
    int32_t numbers = qpc_finding_specs[kind].numbers;
    f->total++;
    if (f->count >= c->list || c->no_memory) return;
    if (numbers > 0 && (f->count & (f->count - 1)) == 0) { // grows at powers of two
        int32_t room = f->count > 0 ? 2 * f->count : 1;
        int32_t *items = qpc_realloc_array(f->items, (size_t)room, (size_t)numbers * sizeof *items);
        if (items == NULL) {
            c->no_memory = true;
            return;
        }
        f->items = items;
    }
    int32_t item[3] = {a, b, third};
    if (numbers > 0)
        memcpy(f->items + (int64_t)numbers * f->count, item, (size_t)numbers * sizeof *item);
    f->count++;
}

// ---- welding ----

static qpc_status weld(qpc_check *c, qpc_error *err) {
    size_t slots = 16;
    while (slots < 2 * (size_t)c->vertex_count) slots *= 2;
    int32_t *slot = qpc_alloc_array(slots, sizeof *slot);
    if (slot == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory to check %lld vertices",
                        (long long)c->vertex_count);
    memset(slot, 0xff, slots * sizeof *slot);
    for (int32_t v = 0; v < c->vertex_count; v++) {
        const double *p = c->x + 3 * (int64_t)v;
        uint64_t hash = 0x9e3779b97f4a7c15ULL;
        for (int d = 0; d < 3; d++) {
            double value = p[d] + 0.0; // -0 is 0
            uint64_t bits;
            memcpy(&bits, &value, sizeof bits);
            hash = (hash ^ bits) * 0xff51afd7ed558ccdULL;
            hash ^= hash >> 32;
        }
        size_t at = (size_t)hash & (slots - 1);
        for (; slot[at] >= 0; at = (at + 1) & (slots - 1)) {
            const double *q = c->x + 3 * (int64_t)slot[at];
            if (p[0] == q[0] && p[1] == q[1] && p[2] == q[2]) break;
        }
        if (slot[at] < 0) slot[at] = v;
        c->weld[v] = slot[at];
    }
    qpc_free(slot);
    return QPC_OK;
}

/// Which vertices are used; repeated and unused ones are found, the box is measured.
static qpc_status look_at_vertices(qpc_check *c, const int32_t *elements, int64_t corners,
                                   qpc_error *err) {
    uint8_t *used = qpc_calloc((size_t)c->vertex_count, 1);
    if (used == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory to check %lld vertices",
                        (long long)c->vertex_count);
    for (int64_t i = 0; i < corners; i++) used[elements[i]] = 1;
    qpc_preflight *r = c->ret;
    for (int d = 0; d < 3; d++) r->low[d] = INFINITY, r->high[d] = -INFINITY;
    for (int32_t v = 0; v < c->vertex_count; v++) {
        if (c->weld[v] != v) qpc_check_add(c, QPC_FINDING_DUPLICATE_VERTICES, v, 0, 0);
        if ((used[v] & 1) == 0) {
            qpc_check_add(c, QPC_FINDING_UNREFERENCED_VERTICES, v, 0, 0);
            continue;
        }
        r->vertices += (used[c->weld[v]] & 2) == 0; // of a surface: counted again with its edges
        used[c->weld[v]] |= 2;
        for (int d = 0; d < 3; d++) {
            r->low[d] = fmin(r->low[d], c->x[3 * (int64_t)v + d]);
            r->high[d] = fmax(r->high[d], c->x[3 * (int64_t)v + d]);
        }
    }
    qpc_free(used);
    return QPC_OK;
}

// ---- triangles ----

/// `from` in the order of key(number), stably, into `to`. key(i) = keys[i * stride].
static void counting_sort(const qpc_check *c, const int64_t *from, int64_t *to, int64_t n,
                          const int32_t *keys, int64_t stride) {
    int64_t *count = c->key_count;
    memset(count, 0, (size_t)(c->vertex_count + 1) * sizeof *count);
    for (int64_t i = 0; i < n; i++) count[keys[i * stride] + 1]++;
    for (int64_t k = 0; k < c->vertex_count; k++) count[k + 1] += count[k];
    for (int64_t i = 0; i < n; i++) to[count[keys[from[i] * stride]]++] = from[i];
}

static void sort3(const int32_t v[3], int32_t ret[3]) {
    memcpy(ret, v, 3 * sizeof *v);
    for (int i = 1; i < 3; i++)
        for (int j = i; j > 0 && ret[j] < ret[j - 1]; j--) {
            int32_t swap = ret[j];
            ret[j] = ret[j - 1];
            ret[j - 1] = swap;
        }
}

/// Sorted corners, three a triangle, and the triangles ordered by them in order[0].
static int32_t *order_faces(qpc_check *c) {
    int64_t n = c->triangle_count;
    int32_t *sorted = qpc_alloc_array((size_t)(n > 0 ? n : 1), 3 * sizeof *sorted);
    if (sorted == NULL) return NULL;
    for (int64_t t = 0; t < n; t++) {
        sort3(c->corner + 3 * t, sorted + 3 * t);
        c->order[0][t] = t;
    }
    for (int k = 2; k >= 0; k--) {
        counting_sort(c, c->order[0], c->order[1], n, sorted + k, 3);
        int64_t *swap = c->order[0];
        c->order[0] = c->order[1];
        c->order[1] = swap;
    }
    return sorted;
}

/// Up to what rounding leaves of it, as qpc_mesh_create has it.
static bool has_no_area(const qpc_check *c, const int32_t v[3]) {
    if (v[0] == v[1] || v[1] == v[2] || v[2] == v[0]) return true;
    qpc_vec3 a = v3_load(c->x + 3 * (int64_t)v[0]);
    qpc_vec3 u = v3_sub(v3_load(c->x + 3 * (int64_t)v[1]), a);
    qpc_vec3 w = v3_sub(v3_load(c->x + 3 * (int64_t)v[2]), a);
    double l2 = fmax(v3_norm2(u), fmax(v3_norm2(w), v3_norm2(v3_sub(u, w))));
    return !(v3_norm(v3_cross(u, w)) > 1e-14 * l2);
}

/// Faces of tetrahedra that belong to one of them only, outside to the front.
static qpc_status take_skin(qpc_check *c, const int32_t *elements, int64_t count, qpc_error *err) {
    static const int face[4][3] = {{0, 2, 1}, {0, 1, 3}, {1, 2, 3}, {0, 3, 2}};
    for (int64_t e = 0; e < count; e++) {
        int32_t v[4];
        qpc_vec3 p[4];
        for (int k = 0; k < 4; k++) {
            v[k] = c->weld[elements[4 * e + k]];
            p[k] = v3_load(c->x + 3 * (int64_t)v[k]);
        }
        qpc_vec3 a = v3_sub(p[1], p[0]), b = v3_sub(p[2], p[0]), d = v3_sub(p[3], p[0]);
        double volume = v3_dot(v3_cross(a, b), d);
        double l2 = fmax(v3_norm2(a), fmax(v3_norm2(b), v3_norm2(d)));
        l2 = fmax(l2, fmax(v3_norm2(v3_sub(a, b)), fmax(v3_norm2(v3_sub(b, d)), v3_norm2(v3_sub(a, d)))));
        bool flat = !(fabs(volume) > 1e-14 * l2 * sqrt(l2));
        if (flat) qpc_check_add(c, QPC_FINDING_FLAT_TETRAHEDRA, (int32_t)e, 0, 0);
        if (!flat && volume < 0) qpc_check_add(c, QPC_FINDING_INVERTED_TETRAHEDRA, (int32_t)e, 0, 0);
        for (int f = 0; f < 4; f++) {
            int64_t t = 4 * e + f;
            c->element[t] = (int32_t)e;
            bool turn = volume < 0;
            c->corner[3 * t] = v[face[f][0]];
            c->corner[3 * t + 1] = v[face[f][turn ? 2 : 1]];
            c->corner[3 * t + 2] = v[face[f][turn ? 1 : 2]];
        }
    }
    c->triangle_count = 4 * count;
    int32_t *sorted = order_faces(c);
    uint8_t *inner = qpc_calloc((size_t)c->triangle_count, 1);
    if (sorted == NULL || inner == NULL) {
        qpc_free(sorted);
        qpc_free(inner);
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory to check %lld tetrahedra", (long long)count);
    }
    for (int64_t i = 1; i < c->triangle_count; i++) {
        int64_t s = c->order[0][i - 1], t = c->order[0][i];
        if (memcmp(sorted + 3 * s, sorted + 3 * t, 3 * sizeof *sorted) == 0) inner[s] = inner[t] = 1;
    }
    int64_t kept = 0;
    for (int64_t t = 0; t < c->triangle_count; t++) {
        if (inner[t]) continue;
        memmove(c->corner + 3 * kept, c->corner + 3 * t, 3 * sizeof *c->corner);
        c->element[kept++] = c->element[t];
    }
    c->triangle_count = kept;
    qpc_free(sorted);
    qpc_free(inner);
    return QPC_OK;
}

/// Triangles without area and repeated ones are found and left out.
static qpc_status sift_triangles(qpc_check *c, qpc_error *err) {
    int64_t kept = 0;
    for (int64_t t = 0; t < c->triangle_count; t++) {
        if (has_no_area(c, c->corner + 3 * t)) {
            qpc_check_add(c, QPC_FINDING_ZERO_AREA, c->element[t], 0, 0);
            continue;
        }
        memmove(c->corner + 3 * kept, c->corner + 3 * t, 3 * sizeof *c->corner);
        c->element[kept++] = c->element[t];
    }
    c->triangle_count = kept;
    int32_t *sorted = order_faces(c);
    uint8_t *repeated = qpc_calloc((size_t)(kept > 0 ? kept : 1), 1);
    int32_t *aside = qpc_alloc_array((size_t)(kept > 0 ? kept : 1), 3 * sizeof *aside);
    if (sorted == NULL || repeated == NULL || aside == NULL) {
        qpc_free(sorted);
        qpc_free(repeated);
        qpc_free(aside);
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory to check %lld triangles", (long long)kept);
    }
    for (int64_t i = 1; i < kept; i++) { // stable: the first of equals stays
        int64_t s = c->order[0][i - 1], t = c->order[0][i];
        repeated[t] = memcmp(sorted + 3 * s, sorted + 3 * t, 3 * sizeof *sorted) == 0;
    }
    int64_t all = kept;
    kept = 0;
    for (int64_t t = 0; t < all; t++) {
        if (repeated[t]) {
            qpc_check_add(c, QPC_FINDING_DUPLICATE_TRIANGLES, c->element[t], 0, 0);
            memcpy(aside + 3 * c->repeated_count++, c->corner + 3 * t, 3 * sizeof *aside);
            continue;
        }
        memmove(c->corner + 3 * kept, c->corner + 3 * t, 3 * sizeof *c->corner);
        c->element[kept++] = c->element[t];
    }
    c->triangle_count = kept;
    memcpy(c->corner + 3 * kept, aside, (size_t)c->repeated_count * 3 * sizeof *aside);
    qpc_free(sorted);
    qpc_free(repeated);
    qpc_free(aside);
    return QPC_OK;
}

// ---- edges, parts, measures ----

static int32_t root_of(int32_t *parent, int32_t v) {
    while (parent[v] != v) {
        parent[v] = parent[parent[v]];
        v = parent[v];
    }
    return v;
}

static void count_parts(qpc_check *c, const int32_t *edge, int32_t *parent) {
    qpc_preflight *r = c->ret;
    for (int32_t v = 0; v < c->vertex_count; v++) parent[v] = -1; // not on the surface
    for (int64_t i = 0; i < 2 * r->edges; i++) parent[edge[i]] = edge[i];
    for (int64_t e = 0; e < r->edges; e++) {
        int32_t a = root_of(parent, edge[2 * e]), b = root_of(parent, edge[2 * e + 1]);
        if (a != b) parent[a > b ? a : b] = a < b ? a : b;
    }
    r->vertices = 0;
    for (int32_t v = 0; v < c->vertex_count; v++) {
        r->parts += parent[v] == v;
        r->vertices += parent[v] >= 0;
    }
    r->euler = r->vertices - r->edges + c->triangle_count;
}

static void measure(qpc_check *c) {
    qpc_preflight *r = c->ret;
    qpc_vec3 middle = v3_scale(0.5, v3_add(v3_load(r->low), v3_load(r->high)));
    for (int64_t t = 0; t < c->triangle_count; t++) {
        qpc_vec3 p[3];
        for (int k = 0; k < 3; k++)
            p[k] = v3_sub(v3_load(c->x + 3 * (int64_t)c->corner[3 * t + k]), middle);
        r->area += 0.5 * v3_norm(v3_cross(v3_sub(p[1], p[0]), v3_sub(p[2], p[0])));
        r->volume += v3_dot(p[0], v3_cross(p[1], p[2])) / 6;
    }
}

/// Sides sorted by their vertices: runs of equal ones are edges. Repeated triangles make none of their own, but count in
/// how often an edge is run along in each direction, as in what a rigid body is made of.
static qpc_status look_at_edges(qpc_check *c, qpc_error *err) {
    qpc_preflight *r = c->ret;
    int64_t own = 3 * c->triangle_count, n = own + 3 * c->repeated_count;
    size_t room = (size_t)(n > 0 ? n : 1);
    int32_t *low = qpc_alloc_array(room, sizeof *low), *high = qpc_alloc_array(room, sizeof *high);
    int32_t *edge = qpc_alloc_array(room, 2 * sizeof *edge);
    int32_t *first = qpc_alloc_array(room, sizeof *first);
    int32_t *parent = qpc_alloc_array((size_t)c->vertex_count, sizeof *parent);
    qpc_status status = QPC_OK;
    if (low == NULL || high == NULL || edge == NULL || first == NULL || parent == NULL) {
        status = qpc_fail(err, QPC_ERR_MEMORY, "out of memory to check %lld triangles",
                          (long long)c->triangle_count);
        goto done;
    }
    for (int64_t s = 0; s < n; s++) {
        int32_t p = c->corner[s], q = c->corner[s % 3 == 2 ? s - 2 : s + 1];
        low[s] = p < q ? p : q;
        high[s] = p < q ? q : p;
        c->order[0][s] = s;
    }
    counting_sort(c, c->order[0], c->order[1], n, high, 1);
    counting_sort(c, c->order[1], c->order[0], n, low, 1);
    for (int64_t i = 0, end; i < n; i = end) {
        const int64_t *s = c->order[0];
        int64_t forward = 0, sheets = 0, along = 0; // along: sheets that run forward
        for (end = i; end < n && low[s[end]] == low[s[i]] && high[s[end]] == high[s[i]]; end++) {
            forward += c->corner[s[end]] == low[s[end]];
            sheets += s[end] < own;
            along += s[end] < own && c->corner[s[end]] == low[s[end]];
        }
        int32_t a = low[s[i]], b = high[s[i]], t = c->element[s[i] / 3];
        edge[2 * r->edges] = a;
        edge[2 * r->edges + 1] = b;
        first[r->edges++] = t;
        if (sheets == 1) qpc_check_add(c, QPC_FINDING_OPEN_EDGES, a, b, t);
        if (sheets > 2) qpc_check_add(c, QPC_FINDING_NON_MANIFOLD_EDGES, a, b, t);
        bool flipped = sheets == 2 && along != 1;
        if (flipped) qpc_check_add(c, QPC_FINDING_FLIPPED_EDGES, a, b, t);
        if (sheets >= 2 && !flipped && 2 * forward != end - i)
            qpc_check_add(c, QPC_FINDING_UNBALANCED_EDGES, a, b, t);
    }
    count_parts(c, edge, parent);
    r->closed = c->triangle_count > 0 && r->finding[QPC_FINDING_OPEN_EDGES].total == 0 &&
                r->finding[QPC_FINDING_NON_MANIFOLD_EDGES].total == 0;
    r->oriented = r->closed && r->finding[QPC_FINDING_FLIPPED_EDGES].total == 0;
    measure(c);
    // Where several sheets meet at an edge, each wound with the next, they enclose something all the same.
    bool encloses = c->triangle_count > 0 && r->finding[QPC_FINDING_OPEN_EDGES].total == 0 &&
                    r->finding[QPC_FINDING_FLIPPED_EDGES].total == 0 &&
                    r->finding[QPC_FINDING_UNBALANCED_EDGES].total == 0;
    if (encloses && r->volume < 0)
        qpc_check_add(c, QPC_FINDING_INSIDE_OUT, c->element[0], 0, 0);
    status = qpc_check_sizes(c, edge, first, err);
done:
    qpc_free(low);
    qpc_free(high);
    qpc_free(edge);
    qpc_free(first);
    qpc_free(parent);
    return status;
}

/// Edges as elements: no surface, but vertices, lengths and repeats.
static qpc_status look_at_lines(qpc_check *c, const int32_t *elements, int64_t count, qpc_error *err) {
    int32_t *edge = qpc_alloc_array((size_t)count, 2 * sizeof *edge);
    int32_t *number = qpc_alloc_array((size_t)count, sizeof *number);
    if (edge == NULL || number == NULL) {
        qpc_free(edge);
        qpc_free(number);
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory to check %lld edges", (long long)count);
    }
    for (int64_t e = 0; e < count; e++) {
        for (int k = 0; k < 2; k++) edge[2 * e + k] = c->weld[elements[2 * e + k]];
        number[e] = (int32_t)e;
    }
    c->ret->edges = count;
    qpc_status status = qpc_check_sizes(c, edge, number, err);
    qpc_free(edge);
    qpc_free(number);
    return status;
}

// ---- the whole ----

static qpc_status look(qpc_check *c, const int32_t *elements, int64_t count, int32_t nodes,
                       qpc_error *err) {
    int64_t triangles = nodes == 4 ? 4 * count : nodes == 3 ? count : 1;
    c->weld = qpc_alloc_array((size_t)c->vertex_count, sizeof *c->weld);
    c->corner = qpc_alloc_array((size_t)triangles, 3 * sizeof *c->corner);
    c->element = qpc_alloc_array((size_t)triangles, sizeof *c->element);
    for (int i = 0; i < 2; i++) c->order[i] = qpc_alloc_array((size_t)triangles, 3 * sizeof *c->order[i]);
    c->key_count = qpc_alloc_array((size_t)c->vertex_count + 1, sizeof *c->key_count);
    if (c->weld == NULL || c->corner == NULL || c->element == NULL || c->order[0] == NULL ||
        c->order[1] == NULL || c->key_count == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory to check %lld elements", (long long)count);
    qpc_status status = weld(c, err);
    if (status == QPC_OK) status = look_at_vertices(c, elements, count * nodes, err);
    if (status != QPC_OK) return status;
    if (nodes == 2) return look_at_lines(c, elements, count, err);
    if (nodes == 4) {
        status = take_skin(c, elements, count, err);
    } else {
        for (int64_t i = 0; i < 3 * count; i++) c->corner[i] = c->weld[elements[i]];
        for (int64_t t = 0; t < count; t++) c->element[t] = (int32_t)t;
        c->triangle_count = count;
    }
    if (status == QPC_OK) status = sift_triangles(c, err);
    if (status == QPC_OK) status = look_at_edges(c, err);
    c->ret->triangles = c->triangle_count;
    if (status == QPC_OK) status = qpc_check_crossings(c, err);
    return status;
}

qpc_status qpc_preflight_run(const double *vertices, int64_t vertex_count, const int32_t *elements,
                             int64_t element_count, int32_t nodes_per_element,
                             const qpc_preflight_options *options, qpc_preflight *ret,
                             qpc_error *err) {
    qpc_preflight report = {.elements = element_count, .complete = true};
    qpc_check c = {.x = vertices,
                   .vertex_count = vertex_count,
                   .list = options != NULL && options->list > 0 ? options->list : QPC_PREFLIGHT_LIST,
                   .max_pairs = options != NULL && options->max_pairs > 0 ? options->max_pairs
                                                                          : 100000000,
                   .ret = &report};
    if (c.list > QPC_PREFLIGHT_LIST_MOST) c.list = QPC_PREFLIGHT_LIST_MOST;
    qpc_status status = look(&c, elements, element_count, nodes_per_element, err);
    if (status == QPC_OK && c.no_memory)
        status = qpc_fail(err, QPC_ERR_MEMORY, "out of memory for what was found in a mesh");
    qpc_free(c.weld);
    qpc_free(c.corner);
    qpc_free(c.element);
    qpc_free(c.order[0]);
    qpc_free(c.order[1]);
    qpc_free(c.key_count);
    if (status == QPC_OK) {
        *ret = report;
    } else {
        qpc_preflight_fini(&report);
    }
    return status;
}

void qpc_preflight_fini(qpc_preflight *preflight) {
    if (preflight == NULL) return;
    for (int i = 0; i < QPC_FINDING_COUNT; i++) qpc_free(preflight->finding[i].items);
    memset(preflight, 0, sizeof *preflight);
}

const char *qpc_preflight_unfit(int32_t nodes_per_element, qpc_mesh_use use) {
    if (nodes_per_element == (use == QPC_USE_SOFT ? 4 : 3)) return NULL;
    if (use == QPC_USE_SOFT)
        return "elements that are no tetrahedra, of which a soft body is made: `tetgen -pq part.stl`, or `gmsh -3 part.geo -o part.msh`, makes them of a closed surface "
               "(docs/mesh-files.md)";
    if (nodes_per_element == 4)
        return "tetrahedra where triangles are wanted: `qpc mesh file part.msh --surface -o part.qpm` writes their surface (docs/mesh-files.md)";
    return "edges where triangles are wanted";
}

char qpc_preflight_weight(const qpc_preflight *preflight, qpc_finding_kind kind, qpc_mesh_use use) {
    return preflight->finding[kind].total > 0 ? qpc_finding_specs[kind].weight[use] : '-';
}
