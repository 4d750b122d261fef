/// The detector against brute force over all pairs, on random cables and meshes that move at
/// random: nothing is missed, nothing is made up, and lists that were kept over many steps give the
/// same contacts, bit for bit, as a detector made on the spot.
#include "tests/support/check.h"
#include "tests/support/generate.h"

#include "engine/collision/ccd.h"
#include "engine/collision/detect.h"
#include "engine/geometry/closest.h"
#include "engine/geometry/predicates.h"
#include "engine/geometry/topology.h"

#include <stdlib.h>

static uint64_t seed = 4711;
static double uniform(void) { // [-1, 1)
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(seed & ~(uint64_t)2047) * 0x1p-63;
}

enum { MESHES = 2, CHAINS = 3, NODES = 14, CHAIN_NODES = NODES + NODES + 1 };

typedef struct scene {
    qpc_surface surface[MESHES + CHAINS];
    qpc_mesh *mesh[MESHES];
    double rest[NODES];
    int32_t nodes, chain_first; // node number of the first chain's first node
    double *x0, *x1, *v;
    qpc_detector *det;
    qpc_contacts contacts;
} scene;

/// Triangles without order: some share vertices, some have no area, edges with many triangles.
static void make_soup(generated *g) {
    enum { POINTS = 24, TRIANGLES = 30 };
    for (int k = 0; k < 3 * POINTS; k++)
        assert_true(qpc_array_push(&g->x, (k % 3 == 2 ? -0.6 + 0.2 * uniform() : uniform())));
    // One point in the middle of two others, one where another is.
    for (int d = 0; d < 3; d++) {
        g->x.data[d] = 0.5 * (g->x.data[3 + d] + g->x.data[6 + d]);
        g->x.data[9 + d] = g->x.data[12 + d];
    }
    for (int t = 0; t < TRIANGLES; t++)
        for (int k = 0; k < 3; k++)
            assert_true(qpc_array_push(&g->triangle, t == 0   ? k
                                                     : t == 1 ? 3 + k
                                                     : t == 2
                                                         ? 5 + k / 2
                                                         : (int32_t)(fabs(uniform()) * POINTS)));
}

static void make(scene *s, int variant) {
    generated g[MESHES];
    memset(g, 0, sizeof g);
    *s = (scene){0};
    assert_true(generate_sphere(&g[0], 7, 0.5));
    if (variant % 3 == 0)
        assert_true(generate_sheet(&g[1], 4, 4, 0.5, -1, -1));
    else if (variant % 3 == 1)
        assert_true(
            generate_box(&g[1], (double[3]){-0.7, -0.2, -0.9}, (double[3]){0.8, 0.3, -0.6}));
    else
        make_soup(&g[1]);
    for (int m = 0; m < MESHES; m++) {
        s->mesh[m] = generated_mesh(&g[m]);
        assert_non_null(s->mesh[m]);
        s->surface[m] =
            (qpc_surface){.mesh = s->mesh[m],
                          .motion = m == 0 && variant % 2 == 0 ? QPC_KINEMATIC : QPC_STATIC,
                          .first_node = s->nodes,
                          .node_count = g[m].x.count / 3,
                          .radius = m * 0.01};
        s->nodes += g[m].x.count / 3;
    }
    s->chain_first = s->nodes;
    const int32_t count[CHAINS] = {NODES, NODES, 1};
    for (int k = 0; k < NODES; k++) s->rest[k] = 0.1;
    for (int c = 0; c < CHAINS; c++) {
        s->surface[MESHES + c] = (qpc_surface){.motion = QPC_DYNAMIC,
                                               .first_node = s->nodes,
                                               .node_count = count[c],
                                               .rest_length = s->rest,
                                               .radius = c == 1 ? 0.02 : 0.04,
                                               .self_exclusion = -1};
        s->nodes += count[c];
    }
    s->x0 = calloc((size_t)s->nodes, 3 * sizeof *s->x0);
    s->x1 = calloc((size_t)s->nodes, 3 * sizeof *s->x1);
    s->v = calloc((size_t)s->nodes, 3 * sizeof *s->v);
    int32_t at = 0;
    for (int m = 0; m < MESHES; m++) {
        memcpy(s->x0 + at, g[m].x.data, (size_t)g[m].x.count * sizeof *s->x0);
        at += g[m].x.count;
        generated_fini(&g[m]);
    }
    // Cables start as random walks outside the sphere.
    for (int c = 0; c < CHAINS; c++) {
        qpc_vec3 p = {0.8 * uniform(), 0.8 * uniform(), 0.65 + 0.1 * c};
        for (int k = 0; k < count[c]; k++) {
            v3_store(s->x0 + at, p);
            at += 3;
            p = v3_add(p, v3(0.09 * uniform(), 0.09 * uniform(), 0.03 * uniform()));
        }
    }
}

static void unmake(scene *s) {
    qpc_detector_destroy(s->det);
    for (int m = 0; m < MESHES; m++) qpc_mesh_unref(s->mesh[m]);
    free(s->x0);
    free(s->x1);
    free(s->v);
    qpc_array_fini(&s->contacts);
}

static void move(scene *s, int step, double speed) {
    memcpy(s->x1, s->x0, (size_t)s->nodes * 3 * sizeof *s->x0);
    for (int32_t i = 3 * s->chain_first; i < 3 * s->nodes; i++) {
        s->v[i] = 0.9 * s->v[i] + 0.1 * speed * uniform();
        if (i % 3 == 2) s->v[i] -= 0.02 * speed * (s->x0[i] > 0 ? 1 : -1);
        s->x1[i] += s->v[i];
    }
    if (s->surface[0].motion == QPC_KINEMATIC)
        for (int32_t i = 0; i < s->surface[0].node_count; i++) {
            s->x1[3 * i] += 0.01 * cos(0.1 * step);
            s->x1[3 * i + 2] += 0.01 * sin(0.13 * step);
        }
}

// ---- brute force ----

typedef struct brute {
    qpc_contact *item;
    int32_t count, capacity;
} brute;

static void add(brute *b, qpc_contact c) {
    if (b->count == b->capacity) {
        b->capacity = 2 * b->capacity + 64;
        b->item = realloc(b->item, (size_t)b->capacity * sizeof *b->item);
        assert_non_null(b->item);
    }
    b->item[b->count++] = c;
}

/// The nodes that carry weight, as one sorted list: two contacts of one feature pair agree in it.
static void support(const qpc_contact *c, int32_t ret[4]) {
    int n = 0;
    for (int k = 0; k < 4; k++) {
        ret[k] = -1;
        if (c->weight[k] == 0) continue;
        int i = n++;
        for (; i > 0 && ret[i - 1] > c->node[k]; i--) ret[i] = ret[i - 1];
        ret[i] = c->node[k];
    }
}

static bool same_features(const qpc_contact *a, const qpc_contact *b) {
    int32_t p[4], q[4];
    support(a, p);
    support(b, q);
    return memcmp(p, q, sizeof p) == 0;
}

static int32_t next_node(const qpc_surface *c, int32_t k) {
    return c->first_node + (k + 1 < c->node_count ? k + 1 : k);
}

/// Call for every pair that detection is to look at; kind, nodes, separation are filled in.
typedef void on_pair(const scene *s, qpc_contact *c, void *user);
static void all_pairs(const scene *s, on_pair *visit, void *user) {
    for (int i = MESHES; i < MESHES + CHAINS; i++) {
        const qpc_surface *c = &s->surface[i];
        int32_t edges = c->node_count > 1 ? c->node_count - 1 : 1;
        for (int j = 0; j < MESHES; j++) {
            const qpc_surface *m = &s->surface[j];
            const qpc_topology *t = qpc_mesh_topology(m->mesh);
            const int32_t *v = qpc_mesh_elements(m->mesh);
            qpc_contact r = {.separation = c->radius + m->radius};
            for (int32_t k = 0; k < c->node_count; k++)
                for (int32_t q = 0; q < qpc_mesh_element_count(m->mesh); q++) {
                    r.kind = QPC_CONTACT_VT;
                    r.node[0] = c->first_node + k;
                    for (int z = 0; z < 3; z++) r.node[1 + z] = m->first_node + v[3 * q + z];
                    visit(s, &r, user);
                }
            for (int32_t k = 0; k < edges && c->node_count > 1; k++)
                for (int32_t q = 0; q < t->edge_count; q++) {
                    r.kind = QPC_CONTACT_EE;
                    r.node[0] = c->first_node + k;
                    r.node[1] = next_node(c, k);
                    for (int z = 0; z < 2; z++)
                        r.node[2 + z] = m->first_node + t->edge_vertex[2 * q + z];
                    visit(s, &r, user);
                }
        }
        for (int j = i; j < MESHES + CHAINS; j++) {
            const qpc_surface *o = &s->surface[j];
            int32_t others = o->node_count > 1 ? o->node_count - 1 : 1;
            for (int32_t k = 0; k < edges; k++)
                for (int32_t q = i == j ? k + 2 : 0; q < others; q++) {
                    qpc_contact r = {.kind = QPC_CONTACT_EE, .separation = c->radius + o->radius};
                    // 0.1 of rest length per edge; the exclusion is pi r.
                    if (i == j && 0.1 * (q - k - 1) < acos(-1.0) * c->radius - 1e-12) {
                        r.flags = QPC_CONTACT_NEAR_SELF;
                        r.separation *= 0.01;
                    }
                    r.node[0] = c->first_node + k;
                    r.node[1] = next_node(c, k);
                    r.node[2] = o->first_node + q;
                    r.node[3] = next_node(o, q);
                    visit(s, &r, user);
                }
        }
    }
}

static void points(const double *x, const qpc_contact *c, qpc_vec3 p[4]) {
    for (int k = 0; k < 4; k++) p[k] = v3_load(x + 3 * c->node[k]);
}

typedef struct motion_user {
    brute all;
    double factor;
} motion_user;

static void motion_pair(const scene *s, qpc_contact *c, void *user) {
    motion_user *u = user;
    qpc_vec3 p[4], q[4];
    qpc_ccd_result r;
    double start;
    points(s->x0, c, p);
    points(s->x1, c, q);
    if (c->kind == QPC_CONTACT_VT)
        qpc_ccd_vt_keep(p, q, u->factor * c->separation, 0.01 * c->separation, &r, &start);
    else
        qpc_ccd_ee_keep(p, q, u->factor * c->separation, 0.01 * c->separation, &r, &start);
    if (r.outcome == QPC_CCD_MISS) return;
    qpc_contact hit = *c;
    hit.toi = r.toi;
    memcpy(hit.weight, r.weight, sizeof hit.weight);
    add(&u->all, hit);
}

static int32_t check_motion(scene *s, double factor) {
    motion_user u = {.factor = factor};
    qpc_error err = {0};
    assert_ok(qpc_detect_motion(s->det, s->x0, s->x1, factor, &s->contacts, &err), &err);
    all_pairs(s, motion_pair, &u);
    // Every hit of brute force is there, at its time or earlier; every contact is one of its hits.
    for (int32_t i = 0; i < u.all.count; i++) {
        bool found = false;
        for (int32_t k = 0; k < s->contacts.count; k++)
            found |= same_features(&u.all.item[i], &s->contacts.data[k]) &&
                     s->contacts.data[k].toi <= u.all.item[i].toi;
        if (!found) fail_msg("a hit at %g is missing", u.all.item[i].toi);
    }
    for (int32_t k = 0; k < s->contacts.count; k++) {
        bool found = false;
        for (int32_t i = 0; i < u.all.count; i++)
            found |= same_features(&u.all.item[i], &s->contacts.data[k]) &&
                     s->contacts.data[k].toi == u.all.item[i].toi;
        assert_true(found);
        assert_true(k == 0 || s->contacts.data[k].key > s->contacts.data[k - 1].key);
    }
    free(u.all.item);
    return s->contacts.count;
}

/// For each cable vertex and edge: the nearest point of a mesh (or other cable), if within reach,
/// is the nearest contact of that vertex or edge.
typedef struct near_user {
    double best[MESHES + CHAINS][CHAIN_NODES]; // by other surface, by cable edge
    double gap;
} near_user;

/// The cable's edge k goes through the mesh: then the nearest features are not where the nearest
/// points are, and no rule of proximity holds.
static bool pierces(const scene *s, const qpc_surface *c, int32_t k, const qpc_surface *m) {
    const int32_t *v = qpc_mesh_elements(m->mesh);
    qpc_vec3 p = v3_load(s->x0 + 3 * (c->first_node + k)), q = v3_load(s->x0 + 3 * next_node(c, k));
    for (int32_t t = 0; t < qpc_mesh_element_count(m->mesh); t++) {
        qpc_vec3 a[3];
        for (int z = 0; z < 3; z++) a[z] = v3_load(s->x0 + 3 * (m->first_node + v[3 * t + z]));
        if (qpc_segment_meets_triangle(p, q, a[0], a[1], a[2])) return true;
    }
    return false;
}

static int surface_of(const scene *s, int32_t node) {
    int i = 0;
    while (node >= s->surface[i].first_node + s->surface[i].node_count) i++;
    return i;
}

static void near_pair(const scene *s, qpc_contact *c, void *user) {
    near_user *u = user;
    qpc_vec3 p[4];
    qpc_closest near;
    points(s->x0, c, p);
    if (c->kind == QPC_CONTACT_VT)
        qpc_closest_vt(p, &near);
    else
        qpc_closest_ee(p, &near);
    if (!(c->flags & QPC_CONTACT_NEAR_SELF)) u->gap = fmin(u->gap, near.distance / c->separation);
    int other = surface_of(s, c->node[3]);
    if (other == surface_of(s, c->node[0])) return; // self pairs have no such rule
    // A vertex belongs to its edges.
    int32_t k = c->node[0] - s->chain_first;
    const qpc_surface *mine = &s->surface[surface_of(s, c->node[0])];
    if (c->kind == QPC_CONTACT_EE || c->node[0] < mine->first_node + mine->node_count - 1 ||
        mine->node_count == 1)
        u->best[other][k] = fmin(u->best[other][k], near.distance);
    if (c->kind == QPC_CONTACT_VT && c->node[0] > mine->first_node)
        u->best[other][k - 1] = fmin(u->best[other][k - 1], near.distance);
}

static int32_t check_proximity(scene *s, double reach) {
    near_user u;
    qpc_error err = {0};
    double gap = 0;
    bool through = false;
    u.gap = 2;
    for (int j = 0; j < MESHES + CHAINS; j++)
        for (int k = 0; k < CHAIN_NODES; k++) u.best[j][k] = INFINITY;
    all_pairs(s, near_pair, &u);
    assert_ok(qpc_detect_proximity(s->det, s->x0, reach, &s->contacts, &err), &err);
    for (int32_t i = 0; i < s->contacts.count; i++) {
        const qpc_contact *c = &s->contacts.data[i];
        qpc_vec3 p[4], d = v3(0, 0, 0);
        points(s->x0, c, p);
        for (int k = 0; k < 4; k++) d = v3_madd(d, c->weight[k], p[k]);
        assert_near(v3_norm(d), c->distance, 1e-9);
        assert_near(v3_dot(d, c->n), c->distance, 1e-9);
        assert_near(v3_norm(c->n), 1, 1e-12);
    }
    for (int i = MESHES; i < MESHES + CHAINS; i++)
        for (int j = 0; j < MESHES + CHAINS; j++) {
            const qpc_surface *c = &s->surface[i], *o = &s->surface[j];
            if (j >= MESHES && j <= i) continue;
            double least = INFINITY; // over the whole cable against a cable
            for (int32_t k = 0; k < (c->node_count > 1 ? c->node_count - 1 : 1); k++) {
                int32_t a = c->first_node + k, b = next_node(c, k);
                if (j < MESHES && pierces(s, c, k, o)) {
                    through = true;
                    continue;
                }
                double best = u.best[j][a - s->chain_first], got = INFINITY;
                if (j >= MESHES) {
                    least = fmin(least, best);
                    if (k + 1 < c->node_count - 1) continue;
                    best = least;
                }
                if (!(best < reach * (c->radius + o->radius) * (1 - 1e-9))) continue;
                for (int32_t q = 0; q < s->contacts.count; q++) {
                    const qpc_contact *r = &s->contacts.data[q];
                    if (surface_of(s, r->node[0]) != i || surface_of(s, r->node[3]) != j) continue;
                    // Nearest to a point of this edge, its ends included.
                    bool on = j >= MESHES;
                    for (int z = 0; z < (r->kind == QPC_CONTACT_VT ? 1 : 2); z++)
                        on |= r->weight[z] != 0 && (r->node[z] == a || r->node[z] == b);
                    if (on) got = fmin(got, r->distance);
                }
                if (!(got <= best * (1 + 1e-6)))
                    fail_msg("surface %d, edge %d and surface %d: nearest %.9g, contact %.9g", i,
                             (int)k, j, best, got);
            }
        }
    assert_ok(qpc_detect_minimum_gap(s->det, s->x0, &gap, &err), &err);
    if (!through) assert_near(gap, u.gap, 1e-9);
    return s->contacts.count;
}

/// Intersections one by one, in order of surfaces and features.
static int64_t check_overlaps(scene *s) {
    enum { MOST = 4096 };
    qpc_overlap *got = calloc(MOST, sizeof *got);
    int64_t count = 0, k = 0;
    qpc_error err = {0};
    assert_non_null(got);
    assert_ok(qpc_detect_overlaps(s->det, s->x0, got, MOST, &count, &err), &err);
    for (int i = MESHES; i < MESHES + CHAINS; i++) {
        const qpc_surface *c = &s->surface[i];
        for (int32_t e = 0; e < (c->node_count > 1 ? c->node_count - 1 : 1); e++) {
            qpc_vec3 p = v3_load(s->x0 + 3 * (c->first_node + e));
            qpc_vec3 q = v3_load(s->x0 + 3 * next_node(c, e));
            for (int j = 0; j < MESHES; j++) {
                const qpc_surface *m = &s->surface[j];
                const int32_t *v = qpc_mesh_elements(m->mesh);
                for (int32_t t = 0; t < qpc_mesh_element_count(m->mesh); t++) {
                    qpc_vec3 a[3];
                    for (int z = 0; z < 3; z++)
                        a[z] = v3_load(s->x0 + 3 * (m->first_node + v[3 * t + z]));
                    if (!qpc_segment_meets_triangle(p, q, a[0], a[1], a[2])) continue;
                    assert_true(k < count);
                    assert_int_equal(got[k].surface[0], i);
                    assert_int_equal(got[k].surface[1], j);
                    assert_int_equal(got[k].feature[0], e);
                    assert_int_equal(got[k].feature[1], t);
                    assert_true(got[k].depth >= 0);
                    k++;
                }
            }
        }
    }
    assert_int_equal(k, count); // random cables do not meet each other exactly
    free(got);
    return count;
}

static void assert_same(const qpc_contacts *a, const qpc_contacts *b) {
    assert_int_equal(a->count, b->count);
    for (int32_t i = 0; i < a->count; i++) {
        const qpc_contact *p = &a->data[i], *q = &b->data[i];
        assert_true(p->key == q->key);
        assert_memory_equal(p->node, q->node, sizeof p->node);
        assert_memory_equal(p->weight, q->weight, sizeof p->weight);
        assert_memory_equal(&p->n, &q->n, sizeof p->n);
        assert_true(p->distance == q->distance && p->separation == q->separation);
        assert_true(p->toi == q->toi && p->kind == q->kind && p->flags == q->flags);
        assert_memory_equal(p->feature, q->feature, sizeof p->feature);
    }
}

/// A detector made now, with no past.
static void check_against_a_fresh_one(scene *s, double reach) {
    qpc_detector *fresh = NULL;
    qpc_contacts now = {0};
    qpc_error err = {0};
    assert_ok(
        qpc_detector_create(s->surface, MESHES + CHAINS, s->x0, s->nodes, 1 << 20, &fresh, &err),
        &err);
    assert_ok(qpc_detect_motion(fresh, s->x0, s->x1, 0.95, &now, &err), &err);
    assert_ok(qpc_detect_motion(s->det, s->x0, s->x1, 0.95, &s->contacts, &err), &err);
    assert_same(&now, &s->contacts);
    assert_ok(qpc_detect_proximity(fresh, s->x0, reach, &now, &err), &err);
    assert_ok(qpc_detect_proximity(s->det, s->x0, reach, &s->contacts, &err), &err);
    assert_same(&now, &s->contacts);
    qpc_detector_destroy(fresh);
    qpc_array_fini(&now);
}

static int64_t run(int variant, double speed, int steps) {
    scene s;
    qpc_error err = {0};
    int32_t hits = 0, contacts = 0;
    int64_t overlaps = 0;
    make(&s, variant);
    assert_ok(qpc_detector_create(s.surface, MESHES + CHAINS, s.x0, s.nodes, 1 << 20, &s.det, &err),
              &err);
    for (int step = 0; step < steps; step++) {
        double reach = step % 3 ? 1.25 : 1.05;
        move(&s, step, speed);
        contacts += check_proximity(&s, reach);
        hits += check_motion(&s, 0.95);
        check_motion(&s, 0.3);
        overlaps += check_overlaps(&s);
        check_against_a_fresh_one(&s, reach);
        if (!qpc_detector_check(s.det, s.x0, s.x1, &err)) fail_msg("%s", err.message);
        double *swap = s.x0;
        s.x0 = s.x1;
        s.x1 = swap;
    }
    assert_true(hits > 20 && contacts > 20);
    unmake(&s);
    return overlaps;
}

static void run_all(double speed, int steps) {
    int64_t overlaps = 0;
    for (int variant = 0; variant < 6; variant++) overlaps += run(variant, speed, steps);
    assert_true(overlaps > 20); // nothing holds these cables back
}

static void slow_cables(void **state) {
    (void)state;
    run_all(0.02, 40);
}
static void fast_cables(void **state) {
    (void)state;
    run_all(0.2, 40);
}
static void cables_that_cross_the_scene_in_a_step(void **state) {
    (void)state;
    run_all(3, 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_cables),
        cmocka_unit_test(fast_cables),
        cmocka_unit_test(cables_that_cross_the_scene_in_a_step),
    };
    return cmocka_run_group_tests_name("property/detect", tests, NULL, NULL);
}
