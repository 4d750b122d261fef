/// Scenes of deforming surfaces; see deforming.h.
#include "tests/support/deforming.h"

#include "engine/geometry/topology.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool grow(deforming *d, int32_t more) {
    size_t bytes = (size_t)(d->nodes + more) * 3 * sizeof(double);
    double *x0 = realloc(d->x0, bytes);
    if (x0 != NULL) d->x0 = x0;
    double *x1 = realloc(d->x1, bytes);
    if (x1 != NULL) d->x1 = x1;
    return x0 != NULL && x1 != NULL;
}

int32_t deforming_add(deforming *d, generated *g, qpc_motion_kind motion, double radius) {
    int32_t s = d->count, n = g->x.count / 3;
    qpc_mesh *mesh = generated_mesh(g);
    if (mesh == NULL || !grow(d, n)) return -1;
    d->rest[s] = *g;
    *g = (generated){0};
    d->surface[s] = (qpc_surface){.motion = motion,
                                  .first_node = d->nodes,
                                  .node_count = n,
                                  .mesh = mesh,
                                  .radius = radius,
                                  .self_exclusion = -1};
    memcpy(d->x0 + 3 * d->nodes, d->rest[s].x.data, (size_t)n * 3 * sizeof(double));
    memcpy(d->x1 + 3 * d->nodes, d->rest[s].x.data, (size_t)n * 3 * sizeof(double));
    d->nodes += n;
    return d->count++;
}

int32_t deforming_add_chain(deforming *d, int32_t n, const double a[3], const double b[3],
                            qpc_motion_kind motion, double radius) {
    int32_t s = d->count;
    double length = sqrt(pow(b[0] - a[0], 2) + pow(b[1] - a[1], 2) + pow(b[2] - a[2], 2));
    if (!grow(d, n) || (d->rest_length[s] = calloc((size_t)n, sizeof(double))) == NULL) return -1;
    for (int32_t i = 0; i + 1 < n; i++) d->rest_length[s][i] = length / (n - 1);
    d->surface[s] = (qpc_surface){.motion = motion,
                                  .first_node = d->nodes,
                                  .node_count = n,
                                  .rest_length = d->rest_length[s],
                                  .radius = radius,
                                  .self_exclusion = -1};
    for (int32_t i = 0; i < n; i++)
        for (int k = 0; k < 3; k++)
            d->x0[3 * (d->nodes + i) + k] = d->x1[3 * (d->nodes + i) + k] =
                n > 1 ? a[k] + (b[k] - a[k]) * i / (n - 1) : a[k];
    d->nodes += n;
    return d->count++;
}

void deforming_fini(deforming *d) {
    for (int32_t i = 0; i < d->count; i++) {
        qpc_mesh_unref(d->surface[i].mesh);
        generated_fini(&d->rest[i]);
        free(d->rest_length[i]);
        free(d->near[i]);
    }
    free(d->x0);
    free(d->x1);
    *d = (deforming){0};
}

double *deforming_at(const deforming *d, double *x, int32_t surface) {
    return x + 3 * (int64_t)d->surface[surface].first_node;
}

void deforming_advance(deforming *d) {
    memcpy(d->x0, d->x1, (size_t)d->nodes * 3 * sizeof *d->x0);
}

double deforming_uniform(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(*seed & ~(uint64_t)2047) * 0x1p-63;
}

// ---- shapes ----

bool deforming_add_soup(deforming *d, int points, int triangles, qpc_motion_kind motion,
                        double radius, uint64_t *seed) {
    bool ok = true;
    generated g = {0};
    for (int k = 0; k < 3 * points; k++) ok &= qpc_array_push(&g.x, deforming_uniform(seed));
    for (int k = 0; k < 3 && ok; k++) {
        g.x.data[k] = 0.5 * (g.x.data[3 + k] + g.x.data[6 + k]);
        g.x.data[9 + k] = g.x.data[12 + k];
    }
    for (int t = 0; t < triangles; t++)
        for (int k = 0; k < 3; k++)
            ok &= qpc_array_push(
                &g.triangle, t == 0   ? k
                             : t == 1 ? 3 + k
                             : t == 2 ? 5 + k / 2
                             : t == 3 ? 7
                                      : (int32_t)(fabs(deforming_uniform(seed)) * (points - 1)));
    return ok && deforming_add(d, &g, motion, radius) >= 0;
}

void sheet_fold(const double *rest, int32_t n, double at, double angle, double radius,
                double *out) {
    for (int32_t i = 0; i < n; i++, rest += 3, out += 3) {
        double s = rest[0] - at, bent = fmin(fmax(s, 0), radius * angle) / radius;
        double straight = fmax(s - radius * angle, 0);
        double x = fmin(rest[0], at) + radius * sin(bent) + straight * cos(angle);
        double y = rest[1], z = radius * (1 - cos(bent)) + straight * sin(angle);
        out[0] = x - rest[2] * sin(bent);
        out[1] = y;
        out[2] = z + rest[2] * cos(bent);
    }
}

void sheet_roll(const double *rest, int32_t n, double length, double part, double inner,
                double pitch, double *out) {
    // A plane curve of curvature part / (radius of the spiral there), from its inner end. Curvature
    // that falls along a curve keeps its circles nested, so it never meets itself.
    enum { STEPS = 4096 };
    double *curve = calloc(STEPS + 1, 3 * sizeof *curve), h = length / STEPS, pi = acos(-1.0);
    for (int k = 0; curve != NULL && k < STEPS; k++) {
        double s = (k + 0.5) * h, radius = sqrt(inner * inner + s * pitch / pi);
        double *c = curve + 3 * k, turn = part * h / radius;
        c[3] = c[0] + h * cos(c[2] + 0.5 * turn);
        c[4] = c[1] + h * sin(c[2] + 0.5 * turn);
        c[5] = c[2] + turn;
    }
    for (int32_t i = 0; curve != NULL && i < n; i++) {
        double s = fmin(fmax(rest[3 * i] / h, 0), STEPS - 1e-9), f = s - floor(s);
        const double *c = curve + 3 * (int)s;
        double y = rest[3 * i + 1];
        out[3 * i] = c[0] + f * (c[3] - c[0]);
        out[3 * i + 1] = y;
        out[3 * i + 2] = c[1] + f * (c[4] - c[1]);
    }
    free(curve);
}

void sheet_twist(const double *rest, int32_t n, double y0, double rate, double *out) {
    for (int32_t i = 0; i < n; i++, rest += 3, out += 3) {
        double c = cos(rate * rest[0]), s = sin(rate * rest[0]), y = rest[1] - y0, z = rest[2];
        out[0] = rest[0];
        out[1] = y0 + c * y - s * z;
        out[2] = s * y + c * z;
    }
}

static bool add_vertex(generated *g, double x, double y, double z) {
    return qpc_array_push(&g->x, x) && qpc_array_push(&g->x, y) && qpc_array_push(&g->x, z);
}

static bool add_triangle(generated *g, int32_t a, int32_t b, int32_t c) {
    return qpc_array_push(&g->triangle, a) && qpc_array_push(&g->triangle, b) &&
           qpc_array_push(&g->triangle, c);
}

bool generate_torus(generated *g, int around, int along, double large, double small, double bump) {
    double pi = acos(-1.0);
    bool ok = true;
    for (int i = 0; i < around; i++)
        for (int k = 0; k < along; k++) {
            double a = 2 * pi * i / around, b = 2 * pi * k / along;
            double r = small + bump * sin(7 * a) * cos(3 * b);
            ok &= add_vertex(g, (large + r * cos(b)) * cos(a), (large + r * cos(b)) * sin(a),
                             r * sin(b));
        }
    for (int i = 0; i < around; i++)
        for (int k = 0; k < along; k++) {
            int32_t a = i * along + k, b = (i + 1) % around * along + k;
            int32_t c = (i + 1) % around * along + (k + 1) % along, e = i * along + (k + 1) % along;
            ok &= add_triangle(g, a, b, c) && add_triangle(g, a, c, e);
        }
    return ok;
}

/// The vertex half way between two, made once.
static int32_t middle(generated *g, int32_t *known, int32_t a, int32_t b, double radius, bool *ok) {
    int32_t low = a < b ? a : b, high = a < b ? b : a;
    for (int32_t k = 0; k < 6; k++) // a vertex has at most six neighbours above it
        if (known[12 * low + 2 * k] == high) return known[12 * low + 2 * k + 1];
    qpc_vec3 p = v3_add(v3_load(g->x.data + 3 * a), v3_load(g->x.data + 3 * b));
    p = v3_scale(radius / v3_norm(p), p);
    *ok &= add_vertex(g, p.x, p.y, p.z);
    int32_t k = 0;
    while (known[12 * low + 2 * k] >= 0) k++;
    known[12 * low + 2 * k] = high;
    return known[12 * low + 2 * k + 1] = g->x.count / 3 - 1;
}

bool generate_icosphere(generated *g, int level, double radius) {
    static const int8_t face[20][3] = {{0, 11, 5}, {0, 5, 1},  {0, 1, 7},   {0, 7, 10}, {0, 10, 11},
                                       {1, 5, 9},  {5, 11, 4}, {11, 10, 2}, {10, 7, 6}, {7, 1, 8},
                                       {3, 9, 4},  {3, 4, 2},  {3, 2, 6},   {3, 6, 8},  {3, 8, 9},
                                       {4, 9, 5},  {2, 4, 11}, {6, 2, 10},  {8, 6, 7},  {9, 8, 1}};
    double t = (1 + sqrt(5.0)) / 2, s = radius / sqrt(1 + t * t);
    bool ok = true;
    for (int axis = 0; axis < 3; axis++)
        for (int k = 0; k < 4; k++) {
            double a = (k & 1 ? 1 : -1) * s, b = (k & 2 ? -1 : 1) * s * t, p[3];
            p[axis] = a, p[(axis + 1) % 3] = b, p[(axis + 2) % 3] = 0;
            ok &= add_vertex(g, p[0], p[1], p[2]);
        }
    for (int f = 0; f < 20; f++) ok &= add_triangle(g, face[f][0], face[f][1], face[f][2]);
    for (int l = 0; l < level && ok; l++) {
        size_t slots = (size_t)g->x.count / 3 * 12;
        int32_t *known = malloc(slots * sizeof *known);
        generated next = {0};
        if (known == NULL) return false;
        memset(known, 0xff, slots * sizeof *known);
        for (int32_t f = 0; f < g->triangle.count; f += 3) {
            const int32_t *v = g->triangle.data + f;
            int32_t m[3];
            for (int k = 0; k < 3; k++) m[k] = middle(g, known, v[k], v[(k + 1) % 3], radius, &ok);
            for (int k = 0; k < 3; k++) ok &= add_triangle(&next, v[k], m[k], m[(k + 2) % 3]);
            ok &= add_triangle(&next, m[0], m[1], m[2]);
        }
        free(known);
        qpc_array_fini(&g->triangle);
        g->triangle.data = next.triangle.data;
        g->triangle.count = next.triangle.count;
        g->triangle.capacity = next.triangle.capacity;
    }
    return ok;
}

// ---- brute force ----

/// The angle at b of the triangle a b c.
static double angle(qpc_vec3 a, qpc_vec3 b, qpc_vec3 c) {
    qpc_vec3 p = v3_sub(a, b), q = v3_sub(c, b);
    return atan2(v3_norm(v3_cross(p, q)), v3_dot(p, q));
}

rest_links rest_links_of(const qpc_mesh *mesh) {
    const qpc_topology *t = qpc_mesh_topology(mesh);
    const double *x = qpc_mesh_vertices(mesh);
    const int32_t *tri = qpc_mesh_elements(mesh);
    int32_t count = (int32_t)qpc_mesh_element_count(mesh);
    rest_links links = {0};
    for (int32_t e = 0; e < t->edge_count; e++) {
        int32_t a = t->edge_vertex[2 * e], b = t->edge_vertex[2 * e + 1], corner[4], corners = 0;
        qpc_vec3 p = v3_load(x + 3 * a), q = v3_load(x + 3 * b);
        (void)qpc_array_push(&links, ((rest_link){{a, b}, v3_norm(v3_sub(p, q))}));
        // The corners opposite the edge, of the first four triangles that have it.
        for (int32_t f = 0, seen = 0; f < count && seen < 4; f++) {
            const int32_t *v = tri + 3 * (int64_t)f;
            int32_t has_a = -1, has_b = -1;
            for (int k = 0; k < 3; k++) {
                if (v[k] == a) has_a = k;
                if (v[k] == b) has_b = k;
            }
            if (has_a < 0 || has_b < 0) continue;
            seen++;
            if (!t->triangle_degenerate[f]) corner[corners++] = v[3 - has_a - has_b];
        }
        // Unfolded, the straight line between two corners crosses the edge if both its ends see the
        // corners less than half a turn apart; then the law of cosines.
        for (int i = 0; i < corners; i++)
            for (int j = i + 1; j < corners; j++) {
                qpc_vec3 c = v3_load(x + 3 * corner[i]), d = v3_load(x + 3 * corner[j]);
                double at_a = angle(c, p, q) + angle(q, p, d), pi = acos(-1.0);
                if (!(at_a < pi) || !(angle(c, q, p) + angle(p, q, d) < pi)) continue;
                double l = v3_norm(v3_sub(c, p)), m = v3_norm(v3_sub(d, p));
                double length = sqrt(fmax(0, l * l + m * m - 2 * l * m * cos(at_a)));
                (void)qpc_array_push(&links, ((rest_link){{corner[i], corner[j]}, length}));
            }
    }
    return links;
}

void rest_paths(const rest_links *links, int32_t n, int32_t from, double *far) {
    for (int32_t b = 0; b < n; b++) far[b] = INFINITY;
    far[from] = 0;
    for (bool again = true; again;) {
        again = false;
        for (int32_t i = 0; i < links->count; i++)
            for (int k = 0; k < 2; k++) {
                const rest_link *l = &links->data[i];
                double length = far[l->end[k]] + l->length;
                if (!(length < far[l->end[1 - k]])) continue;
                far[l->end[1 - k]] = length;
                again = true;
            }
    }
}

/// near[a * n + b]: vertices nearer along the rest shape than the exclusion; NULL if none are
/// (links longer than that) or memory is out.
static uint8_t *near_vertices(const deforming *d, int32_t s) {
    const qpc_surface *m = &d->surface[s];
    double apart = m->self_exclusion < 0 ? acos(-1.0) * m->radius : m->self_exclusion;
    int32_t n = m->node_count;
    const qpc_topology *t = qpc_mesh_topology(m->mesh);
    const double *x = qpc_mesh_vertices(m->mesh);
    double shortest = INFINITY;
    for (int32_t e = 0; e < t->edge_count; e++)
        shortest = fmin(shortest, v3_norm(v3_sub(v3_load(x + 3 * t->edge_vertex[2 * e]),
                                                 v3_load(x + 3 * t->edge_vertex[2 * e + 1]))));
    if (0.7 * shortest > apart) return NULL; // a large mesh of good triangles
    double *far = calloc((size_t)n, sizeof *far);
    rest_links links = rest_links_of(m->mesh);
    shortest = INFINITY;
    for (int32_t i = 0; i < links.count; i++) shortest = fmin(shortest, links.data[i].length);
    uint8_t *near = NULL;
    if (shortest < apart && far != NULL) near = calloc((size_t)n * (size_t)n, 1);
    for (int32_t a = 0; near != NULL && a < n; a++) {
        rest_paths(&links, n, a, far);
        for (int32_t b = 0; b < n; b++) near[(size_t)a * (size_t)n + (size_t)b] = far[b] < apart;
    }
    qpc_array_fini(&links);
    free(far);
    return near;
}

/// False if the pair shares a node; sets flag and separation if it is near itself.
static bool admit(const deforming *d, qpc_contact *c, int split, const uint8_t *near) {
    const qpc_surface *s = &d->surface[c->surface[0]];
    c->flags = 0;
    c->separation = s->radius + d->surface[c->surface[1]].radius;
    if (c->surface[0] != c->surface[1]) return true;
    for (int a = 0; a < split; a++)
        for (int b = split; b < 4; b++) {
            if (c->node[a] == c->node[b]) return false;
            if (near != NULL && near[(size_t)(c->node[a] - s->first_node) * (size_t)s->node_count +
                                     (size_t)(c->node[b] - s->first_node)])
                c->flags = QPC_CONTACT_NEAR_SELF;
        }
    if (c->flags != 0) c->separation *= 0.01;
    return true;
}

static void pairs_of(const deforming *d, int32_t i, int32_t j, int32_t stride, const uint8_t *near,
                     deforming_visit *visit, void *user) {
    const qpc_surface *a = &d->surface[i], *b = &d->surface[j];
    const qpc_topology *ta = qpc_mesh_topology(a->mesh), *tb = qpc_mesh_topology(b->mesh);
    const int32_t *triangles = qpc_mesh_elements(b->mesh);
    qpc_contact c = {.surface = {i, j}};
    for (int32_t v = 0; v < a->node_count; v += stride) {
        if (ta->vertex_edge_start[v] == ta->vertex_edge_start[v + 1]) continue;
        for (int32_t t = 0; t < qpc_mesh_element_count(b->mesh); t++) {
            c.kind = QPC_CONTACT_VT;
            c.feature[0] = v, c.feature[1] = t;
            c.node[0] = a->first_node + v;
            for (int k = 0; k < 3; k++) c.node[1 + k] = b->first_node + triangles[3 * t + k];
            if (admit(d, &c, 1, near)) visit(d, &c, user);
        }
    }
    for (int32_t e = 0; e < ta->edge_count && j >= i; e += stride)
        for (int32_t f = i == j ? e + 1 : 0; f < tb->edge_count; f++) {
            c.kind = QPC_CONTACT_EE;
            c.feature[0] = e, c.feature[1] = f;
            for (int k = 0; k < 2; k++) {
                c.node[k] = a->first_node + ta->edge_vertex[2 * e + k];
                c.node[2 + k] = b->first_node + tb->edge_vertex[2 * f + k];
            }
            if (admit(d, &c, 2, near)) visit(d, &c, user);
        }
}

void deforming_pairs(deforming *d, int32_t stride, deforming_visit *visit, void *user) {
    for (int32_t i = 0; i < d->count; i++)
        for (int32_t j = 0; j < d->count; j++) {
            const qpc_surface *a = &d->surface[i], *b = &d->surface[j];
            if (a->mesh == NULL || b->mesh == NULL) continue;
            if (a->motion != QPC_DYNAMIC && b->motion != QPC_DYNAMIC) continue;
            if (i == j && !d->near_made[i]) {
                d->near[i] = near_vertices(d, i);
                d->near_made[i] = true;
            }
            pairs_of(d, i, j, stride, i == j ? d->near[i] : NULL, visit, user);
        }
}
