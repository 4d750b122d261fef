/// Detection on small scenes with known contacts.
#include "tests/support/check.h"
#include "tests/support/faults.h"
#include "tests/support/generate.h"

#include "base/mem.h"
#include "engine/collision/detect.h"

#include <stdlib.h>

typedef struct scene {
    qpc_surface surface[4];
    int32_t surface_count, node_count;
    double *x; // (nodes x 3)
    double *rest[4];
    qpc_mesh *mesh[4];
    qpc_detector *det;
    qpc_contacts contacts;
} scene;

static double *grow_nodes(scene *s, int32_t count) {
    s->x = realloc(s->x, (size_t)(s->node_count + count) * 3 * sizeof *s->x);
    assert_non_null(s->x);
    s->surface[s->surface_count].first_node = s->node_count;
    s->surface[s->surface_count].node_count = count;
    s->node_count += count;
    return s->x + 3 * (s->node_count - count);
}

static void add_mesh(scene *s, generated *g, qpc_motion_kind motion, double radius) {
    int i = s->surface_count;
    double *x = grow_nodes(s, g->x.count / 3);
    memcpy(x, g->x.data, (size_t)g->x.count * sizeof *x);
    s->mesh[i] = generated_mesh(g);
    assert_non_null(s->mesh[i]);
    s->surface[i].mesh = s->mesh[i];
    s->surface[i].motion = motion;
    s->surface[i].radius = radius;
    s->surface_count++;
    generated_fini(g);
}

static void add_chain(scene *s, int32_t n, qpc_vec3 from, qpc_vec3 to, double radius) {
    int i = s->surface_count;
    double *x = grow_nodes(s, n);
    s->rest[i] = calloc((size_t)n, sizeof *s->rest[i]);
    for (int32_t k = 0; k < n; k++) {
        v3_store(x + 3 * k, n > 1 ? v3_lerp(from, to, (double)k / (n - 1)) : from);
        if (k > 0) s->rest[i][k - 1] = v3_norm(v3_sub(to, from)) / (n - 1);
    }
    s->surface[i].rest_length = s->rest[i];
    s->surface[i].motion = QPC_DYNAMIC;
    s->surface[i].radius = radius;
    s->surface[i].self_exclusion = -1;
    s->surface_count++;
}

static void start(scene *s) {
    qpc_error err = {0};
    assert_ok(qpc_detector_create(s->surface, s->surface_count, s->x, s->node_count, 1000000,
                                  &s->det, &err),
              &err);
}

static void end(scene *s) {
    qpc_detector_destroy(s->det);
    for (int i = 0; i < 4; i++) {
        free(s->rest[i]);
        qpc_mesh_unref(s->mesh[i]);
    }
    free(s->x);
    qpc_array_fini(&s->contacts);
    *s = (scene){0};
}

static void near_at(scene *s, double reach) {
    qpc_error err = {0};
    assert_ok(qpc_detect_proximity(s->det, s->x, reach, &s->contacts, &err), &err);
}

/// What every contact promises.
static void check_contacts(const scene *s, const double *x0, const double *x1) {
    for (int32_t i = 0; i < s->contacts.count; i++) {
        const qpc_contact *c = &s->contacts.data[i];
        assert_true(i == 0 || c->key > s->contacts.data[i - 1].key);
        assert_near(v3_norm(c->n), 1, 1e-12);
        qpc_vec3 d = v3(0, 0, 0);
        double left = 0, right = 0;
        for (int k = 0; k < 4; k++) {
            qpc_vec3 x =
                v3_lerp(v3_load(x0 + 3 * c->node[k]), v3_load(x1 + 3 * c->node[k]), c->toi);
            d = v3_madd(d, c->weight[k], x);
            if (k < (c->kind == QPC_CONTACT_VT ? 1 : 2)) {
                assert_true(c->weight[k] >= 0);
                left += c->weight[k];
            } else {
                assert_true(c->weight[k] <= 0);
                right += c->weight[k];
            }
        }
        assert_near(left, 1, 1e-14);
        assert_near(right, -1, 1e-14);
        assert_near(v3_norm(d), c->distance, 1e-9);
        assert_near(v3_dot(d, c->n), c->distance, 1e-9);
    }
}

// ---- one particle ----

static void particle_over_a_face(void **state) {
    (void)state;
    for (int below = 0; below < 2; below++) {
        scene s = {0};
        generated g = {0};
        assert_true(generate_sheet(&g, 1, 1, 1, 0, 0));
        add_mesh(&s, &g, QPC_STATIC, 0);
        double z = below ? -0.011 : 0.011;
        add_chain(&s, 1, v3(0.7, 0.2, z), v3(0, 0, 0), 0.01);
        start(&s);
        near_at(&s, 1.25);
        assert_int_equal(s.contacts.count, 1);
        const qpc_contact *c = &s.contacts.data[0];
        assert_int_equal(c->kind, QPC_CONTACT_VT);
        assert_near(c->n.z, below ? -1 : 1, 1e-15);
        assert_near(c->distance, 0.011, 1e-15);
        assert_true(c->separation == 0.01 && c->toi == 0);
        assert_int_equal(c->node[0], 4);
        check_contacts(&s, s.x, s.x);
        near_at(&s, 1.05);
        assert_int_equal(s.contacts.count, 0);
        end(&s);
    }
}

/// On an internal edge of a flat surface, exactly above a vertex of it, at its rim and beyond it.
static void particle_over_edges_and_vertices(void **state) {
    (void)state;
    const struct {
        double x, y, z;
        int count;
        qpc_vec3 n;
    } at[] = {
        {0.5, 0.5, 0.009, 1, {0, 0, 1}},     // diagonal inside a cell
        {1.0, 0.3, 0.009, 1, {0, 0, 1}},     // edge between cells
        {1.0, 1.0, 0.009, 1, {0, 0, 1}},     // vertex of six triangles
        {2.0, 1.0, 0.009, 1, {0, 0, 1}},     // vertex on the rim
        {2.006, 0.7, 0, 1, {1, 0, 0}},       // beside the rim, in the plane
        {2.006, 2.008, 0, 1, {0.6, 0.8, 0}}, // beyond the corner
        {2.006, 0.7, 0.008, 1, {0.6, 0, 0.8}},
    };
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        scene s = {0};
        generated g = {0};
        assert_true(generate_sheet(&g, 2, 2, 1, 0, 0));
        add_mesh(&s, &g, QPC_STATIC, 0);
        add_chain(&s, 1, v3(at[i].x, at[i].y, at[i].z), v3(0, 0, 0), 0.01);
        start(&s);
        near_at(&s, 1.05);
        check_contacts(&s, s.x, s.x);
        // Right above a shared feature more than one key may stand for it, all with one normal.
        assert_true(s.contacts.count >= 1 && s.contacts.count <= 2);
        for (int32_t k = 0; k < s.contacts.count; k++)
            assert_near(v3_norm(v3_sub(s.contacts.data[k].n, at[i].n)), 0, 1e-9);
        end(&s);
    }
}

// ---- internal edges ----

static void cable_on_a_flat_floor_feels_no_internal_edge(void **state) {
    (void)state;
    scene s = {0};
    generated g = {0};
    assert_true(generate_sheet(&g, 20, 20, 0.1, -1, -1));
    add_mesh(&s, &g, QPC_STATIC, 0);
    add_chain(&s, 17, v3(-0.83, -0.41, 0.02), v3(0.77, 0.36, 0.02), 0.02);
    start(&s);
    near_at(&s, 1.25);
    assert_true(s.contacts.count >= 17 && s.contacts.count <= 20);
    bool held[17] = {false};
    for (int32_t i = 0; i < s.contacts.count; i++) {
        const qpc_contact *c = &s.contacts.data[i];
        assert_near(c->n.z, 1, 1e-12);
        assert_int_equal(c->kind, QPC_CONTACT_VT);
        held[c->feature[0]] = true;
    }
    for (int k = 0; k < 17; k++) assert_true(held[k]);
    check_contacts(&s, s.x, s.x);
    // Sliding over edges: normals never lean.
    for (int step = 0; step < 50; step++) {
        for (int32_t k = s.surface[1].first_node; k < s.node_count; k++) {
            s.x[3 * k] += 0.0037;
            s.x[3 * k + 1] += 0.0011;
        }
        near_at(&s, 1.25);
        for (int32_t i = 0; i < s.contacts.count; i++)
            assert_near(s.contacts.data[i].n.z, 1, 1e-12);
        assert_true(s.contacts.count >= 17);
    }
    end(&s);
}

/// A long edge over a narrow box: its ends hang beyond, the rims of the top hold it.
static void edge_across_a_box_rests_on_two_rims(void **state) {
    (void)state;
    scene s = {0};
    generated g = {0};
    assert_true(generate_box(&g, (double[3]){-0.1, -0.5, -1}, (double[3]){0.1, 0.5, 0}));
    add_mesh(&s, &g, QPC_STATIC, 0);
    add_chain(&s, 2, v3(-0.5, 0.01, 0.01), v3(0.5, 0.02, 0.01), 0.01);
    start(&s);
    near_at(&s, 1.1);
    check_contacts(&s, s.x, s.x);
    assert_int_equal(s.contacts.count, 2);
    double x[2];
    for (int i = 0; i < 2; i++) {
        const qpc_contact *c = &s.contacts.data[i];
        assert_int_equal(c->kind, QPC_CONTACT_EE);
        assert_near(c->n.z, 1, 1e-12);
        x[i] = c->weight[0] * -0.5 + c->weight[1] * 0.5;
    }
    assert_near(fabs(x[0]), 0.1, 1e-9);
    assert_near(x[0], -x[1], 1e-9);
    end(&s);
}

/// A cable edge that lies exactly along a ridge longer and shorter than itself: held at both ends
/// of the stretch they share.
static void edge_along_a_ridge_is_held_at_both_ends(void **state) {
    (void)state;
    for (int longer = 0; longer < 2; longer++) {
        scene s = {0};
        generated g = {0};
        // A roof: ridge from -0.3 to 0.3 along x.
        const double v[6][3] = {{-0.3, 0, 0},     {0.3, 0, 0},        {-0.3, 0.5, -0.5},
                                {0.3, 0.5, -0.5}, {-0.3, -0.5, -0.5}, {0.3, -0.5, -0.5}};
        const int32_t t[4][3] = {{0, 1, 2}, {1, 3, 2}, {0, 4, 1}, {1, 4, 5}};
        for (int i = 0; i < 18; i++) assert_true(qpc_array_push(&g.x, v[i / 3][i % 3]));
        for (int i = 0; i < 12; i++) assert_true(qpc_array_push(&g.triangle, t[i / 3][i % 3]));
        add_mesh(&s, &g, QPC_STATIC, 0);
        double half = longer ? 0.4 : 0.2;
        add_chain(&s, 2, v3(-half, 0, 0.02), v3(half, 0, 0.02), 0.02);
        start(&s);
        near_at(&s, 1.1);
        check_contacts(&s, s.x, s.x);
        double low = 1, high = -1;
        for (int32_t i = 0; i < s.contacts.count; i++) {
            const qpc_contact *c = &s.contacts.data[i];
            double x = 0;
            for (int k = 0; k < (c->kind == QPC_CONTACT_VT ? 1 : 2); k++)
                x += c->weight[k] * s.x[3 * c->node[k]];
            assert_near(c->n.z, 1, 1e-12);
            low = fmin(low, x);
            high = fmax(high, x);
        }
        assert_near(low, longer ? -0.3 : -0.2, 1e-12);
        assert_near(high, longer ? 0.3 : 0.2, 1e-12);
        end(&s);
    }
}

// ---- cables ----

static void aligned_parallel_cables_are_held_along_their_length(void **state) {
    (void)state;
    for (int shifted = 0; shifted < 2; shifted++) {
        scene s = {0};
        double dx = shifted ? 0.04 : 0;
        add_chain(&s, 6, v3(-0.25, 0, 0), v3(0.25, 0, 0), 0.01);
        add_chain(&s, 6, v3(-0.25 + dx, 0, 0.02), v3(0.25 + dx, 0, 0.02), 0.01);
        start(&s);
        near_at(&s, 1.1);
        check_contacts(&s, s.x, s.x);
        double low = 1, high = -1;
        for (int32_t i = 0; i < s.contacts.count; i++) {
            const qpc_contact *c = &s.contacts.data[i];
            assert_near(fabs(c->n.z), 1, 1e-12);
            double x = c->weight[0] * s.x[3 * c->node[0]] + c->weight[1] * s.x[3 * c->node[1]];
            low = fmin(low, x);
            high = fmax(high, x);
        }
        assert_near(low, -0.25 + dx, 1e-12);
        assert_near(high, 0.25, 1e-12);
        // Aligned: six vertex pairs. Shifted: every vertex over an edge of the other, or beyond.
        assert_int_equal(s.contacts.count, shifted ? 10 : 6);
        end(&s);
    }
}

static void crossing_cables_touch_once(void **state) {
    (void)state;
    scene s = {0};
    add_chain(&s, 11, v3(-0.5, 0, 0), v3(0.5, 0, 0), 0.03);
    add_chain(&s, 11, v3(0.013, -0.5, 0.06), v3(0.017, 0.5, 0.06), 0.03);
    start(&s);
    near_at(&s, 1.25);
    check_contacts(&s, s.x, s.x);
    assert_int_equal(s.contacts.count, 1);
    assert_near(s.contacts.data[0].n.z, -1, 1e-12);
    end(&s);
}

static void straight_cable_has_no_contact_with_itself(void **state) {
    (void)state;
    scene s = {0};
    add_chain(&s, 50, v3(0, 0, 0), v3(1, 0, 0), 0.03); // far thicker than its edges
    start(&s);
    near_at(&s, 1.25);
    assert_int_equal(s.contacts.count, 0);
    double gap = 0;
    assert_ok(qpc_detect_minimum_gap(s.det, s.x, &gap, NULL), &(qpc_error){0});
    // Pairs just past the exclusion of pi r: their distance over 2 r, within one edge.
    assert_true(gap >= acos(-1.0) / 2 && gap < acos(-1.0) / 2 + 1.1 / 49 / 0.06);
    end(&s);
}

/// Edge 4 lies over the elbow between edges 0 and 1. Edge 1 comes closest to it but has lost its
/// thickness (self_exclusion); vertex 1, with edge 0 behind it, must not be left out for that.
static void a_vertex_keeps_its_contact_where_the_nearer_edge_is_exempt(void **state) {
    (void)state;
    scene s = {0};
    add_chain(&s, 6, v3(0, 0, 0), v3(5, 0, 0), 0.5);
    const double x[18] = {-1,  0, -0.2, 0,   0,    0,   0.3, 0,   0.95,
                          1.3, 0, 1,    0.2, -0.5, 0.5, 0.2, 0.5, 0.5};
    memcpy(s.x, x, sizeof x);
    s.surface[0].self_exclusion = 2.5;
    start(&s);
    near_at(&s, 1.1);
    bool found = false;
    for (int32_t i = 0; i < s.contacts.count; i++) {
        const qpc_contact *c = &s.contacts.data[i];
        found = found || ((c->flags & QPC_CONTACT_NEAR_SELF) == 0 && c->feature[0] == 0 &&
                          c->feature[1] == 4 && c->weight[1] == 1);
    }
    assert_true(found);
    end(&s);
}

static void cable_folded_on_itself_has_contact(void **state) {
    (void)state;
    scene s = {0};
    add_chain(&s, 31, v3(0, 0, 0), v3(3, 0, 0), 0.02);
    // A hairpin: out, half a turn of radius 0.1, back 0.041 above the start.
    for (int k = 0; k < 31; k++) {
        double l = 0.1 * k;
        double *x = s.x + 3 * k;
        x[1] = 0;
        if (l < 1.45) {
            x[0] = l, x[2] = 0;
        } else if (l < 1.55) {
            x[0] = 1.45, x[2] = 0.0205;
        } else {
            x[0] = 3 - l, x[2] = 0.041;
        }
    }
    start(&s);
    near_at(&s, 1.25);
    check_contacts(&s, s.x, s.x);
    int32_t full = 0;
    for (int32_t i = 0; i < s.contacts.count; i++)
        if (!(s.contacts.data[i].flags & QPC_CONTACT_NEAR_SELF)) {
            full++;
            // At the turn the nearest edge is exempt: the first one that is not stands in for it.
            if (s.contacts.data[i].feature[1] - s.contacts.data[i].feature[0] <= 2) continue;
            assert_near(fabs(s.contacts.data[i].n.z), 1, 1e-9);
        }
    assert_true(full >= 14);
    end(&s);
}

// ---- motion ----

static void motion_finds_what_passes_through(void **state) {
    (void)state;
    scene s = {0};
    generated g = {0};
    qpc_error err = {0};
    assert_true(generate_sheet(&g, 10, 10, 0.1, -0.5, -0.5));
    add_mesh(&s, &g, QPC_STATIC, 0);
    add_chain(&s, 5, v3(-0.23, 0.02, 0.3), v3(0.21, 0.07, 0.33), 0.003);
    start(&s);
    double *x1 = malloc((size_t)s.node_count * 3 * sizeof *x1);
    memcpy(x1, s.x, (size_t)s.node_count * 3 * sizeof *x1);
    for (int32_t k = s.surface[1].first_node; k < s.node_count; k++) x1[3 * k + 2] -= 0.5;
    assert_ok(qpc_detect_motion(s.det, s.x, x1, 0.95, &s.contacts, &err), &err);
    check_contacts(&s, s.x, x1);
    bool vertex[5] = {false}, edge[5] = {false};
    double first = 2;
    for (int32_t i = 0; i < s.contacts.count; i++) {
        const qpc_contact *c = &s.contacts.data[i];
        if (c->kind == QPC_CONTACT_VT) vertex[c->feature[0]] = true;
        if (c->kind == QPC_CONTACT_EE) edge[c->feature[0]] = true;
        first = fmin(first, c->toi);
        assert_true(c->distance >= 0.95 * 0.003 - 1e-12 && c->distance <= 0.96 * 0.003 + 1e-12);
    }
    for (int k = 0; k < 5; k++) assert_true(vertex[k]);
    for (int k = 0; k < 4; k++) assert_true(edge[k]);
    assert_true(first <= (0.3 - 0.95 * 0.003) / 0.5 && first >= (0.3 - 0.96 * 0.003) / 0.5);
    // Away from it: nothing.
    for (int32_t k = s.surface[1].first_node; k < s.node_count; k++) x1[3 * k + 2] += 1.0;
    assert_ok(qpc_detect_motion(s.det, s.x, x1, 0.95, &s.contacts, &err), &err);
    assert_int_equal(s.contacts.count, 0);
    free(x1);
    end(&s);
}

/// Inside the thickness already: leaving is free, coming 10 % nearer is a hit.
static void pair_inside_its_thickness_may_leave(void **state) {
    (void)state;
    scene s = {0};
    generated g = {0};
    qpc_error err = {0};
    assert_true(generate_sheet(&g, 1, 1, 1, 0, 0));
    add_mesh(&s, &g, QPC_STATIC, 0);
    add_chain(&s, 1, v3(0.7, 0.2, 0.005), v3(0, 0, 0), 0.01);
    start(&s);
    double x1[15];
    const struct {
        double z;
        int hits;
    } to[] = {{0.5, 0}, {0.005, 0}, {0.0046, 0}, {0.0044, 1}, {-0.5, 1}};
    for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
        memcpy(x1, s.x, sizeof x1);
        x1[14] = to[i].z;
        assert_ok(qpc_detect_motion(s.det, s.x, x1, 0.95, &s.contacts, &err), &err);
        assert_int_equal(s.contacts.count, to[i].hits);
        if (to[i].hits == 0) continue;
        assert_true(s.contacts.data[0].flags & QPC_CONTACT_AT_START);
        assert_true(s.contacts.data[0].toi > 0);
        assert_near(s.contacts.data[0].distance, 0.0045, 0.0001);
    }
    // At the tested separation to a bit: resting does not stop sliding or leaving.
    for (double off = -1e-15; off <= 1e-15; off += 1e-15) {
        s.x[14] = 0.0095 + off;
        memcpy(x1, s.x, sizeof x1);
        x1[12] = 0.6;
        assert_ok(qpc_detect_motion(s.det, s.x, x1, 0.95, &s.contacts, &err), &err);
        assert_int_equal(s.contacts.count, 0);
    }
    end(&s);
}

static void kinematic_mesh_is_followed(void **state) {
    (void)state;
    scene s = {0};
    generated g = {0};
    qpc_error err = {0};
    assert_true(generate_sphere(&g, 12, 0.5));
    add_mesh(&s, &g, QPC_KINEMATIC, 0);
    add_chain(&s, 5, v3(-0.2, 0, 2), v3(0.2, 0.01, 2), 0.01);
    start(&s);
    int32_t n = s.surface[0].node_count, hits = 0;
    double *x1 = malloc((size_t)s.node_count * 3 * sizeof *x1);
    memcpy(x1, s.x, (size_t)s.node_count * 3 * sizeof *x1);
    for (int step = 0; step < 100 && hits == 0; step++) {
        for (int32_t k = 0; k < n; k++) x1[3 * k + 2] = s.x[3 * k + 2] + 0.02;
        assert_true(qpc_detector_check(s.det, s.x, x1, &err));
        assert_ok(qpc_detect_motion(s.det, s.x, x1, 0.95, &s.contacts, &err), &err);
        check_contacts(&s, s.x, x1);
        hits = s.contacts.count;
        if (hits > 0) {
            // Top of the sphere at 2 - 0.0095 or so: between steps 74 and 75.
            assert_int_equal(step, 74);
            for (int32_t i = 0; i < hits; i++) assert_true(s.contacts.data[i].n.z > 0.8);
        }
        memcpy(s.x, x1, (size_t)s.node_count * 3 * sizeof *x1);
    }
    assert_true(hits > 0);
    free(x1);
    end(&s);
}

// ---- overlaps and gaps ----

static void overlaps_are_listed_with_their_depth(void **state) {
    (void)state;
    scene s = {0};
    generated g = {0};
    qpc_error err = {0};
    assert_true(generate_sheet(&g, 1, 1, 1, 0, 0));
    add_mesh(&s, &g, QPC_STATIC, 0);
    add_chain(&s, 2, v3(0.7, 0.2, -0.1), v3(0.7, 0.2, 0.3), 0.01);
    add_chain(&s, 2, v3(0.2, 0.2, 0.2), v3(1.2, 0.2, 0.2), 0.01); // meets the first cable
    start(&s);
    qpc_overlap o[4];
    int64_t count = 0;
    assert_ok(qpc_detect_overlaps(s.det, s.x, o, 4, &count, &err), &err);
    assert_int_equal(count, 2);
    assert_int_equal(o[0].surface[0], 1);
    assert_int_equal(o[0].surface[1], 0);
    assert_near(o[0].depth, 0.1, 1e-15);
    assert_int_equal(o[1].surface[0], 1);
    assert_int_equal(o[1].surface[1], 2);
    assert_ok(qpc_detect_overlaps(s.det, s.x, o, 0, &count, &err), &err);
    assert_int_equal(count, 2);
    // Touching counts, a gap of one rounding does not.
    s.x[3 * 4 + 2] = 0;
    s.x[3 * 6 + 1] = s.x[3 * 7 + 1] = 0.9;
    assert_ok(qpc_detect_overlaps(s.det, s.x, o, 4, &count, &err), &err);
    assert_int_equal(count, 1);
    s.x[3 * 4 + 2] = 1e-300;
    assert_ok(qpc_detect_overlaps(s.det, s.x, o, 4, &count, &err), &err);
    assert_int_equal(count, 0);
    end(&s);
}

static void smallest_gap_is_over_the_separation(void **state) {
    (void)state;
    const double z[3] = {0.009, 0.0175, 0.05}, want[3] = {0.9, 1.75, 2};
    for (int i = 0; i < 3; i++) {
        scene s = {0};
        generated g = {0};
        double gap = 0;
        assert_true(generate_sheet(&g, 3, 3, 1, 0, 0));
        add_mesh(&s, &g, QPC_STATIC, 0.004);
        add_chain(&s, 3, v3(0.7, 0.2, z[i]), v3(2.1, 2.2, z[i] + 0.3), 0.006);
        start(&s);
        assert_ok(qpc_detect_minimum_gap(s.det, s.x, &gap, NULL), &(qpc_error){0});
        assert_near(gap, want[i], 1e-12);
        end(&s);
    }
}

// ---- limits and faults ----

static void too_many_candidates_are_an_error_and_not_a_loss(void **state) {
    (void)state;
    scene s = {0};
    generated g = {0};
    qpc_error err = {0};
    assert_true(generate_sheet(&g, 20, 20, 0.01, 0, 0));
    add_mesh(&s, &g, QPC_STATIC, 0);
    add_chain(&s, 10, v3(0.02, 0.02, 0.5), v3(0.18, 0.18, 0.5), 0.01);
    assert_ok(qpc_detector_create(s.surface, s.surface_count, s.x, s.node_count, 200, &s.det, &err),
              &err);
    for (int32_t k = s.surface[1].first_node; k < s.node_count; k++) s.x[3 * k + 2] = 0.01;
    for (int i = 0; i < 3; i++)
        assert_fails(qpc_detect_proximity(s.det, s.x, 1.1, &s.contacts, &err), QPC_ERR_LIMIT, &err,
                     "max_candidates");
    for (int32_t k = s.surface[1].first_node; k < s.node_count; k++) s.x[3 * k + 2] = 0.5;
    near_at(&s, 1.1);
    assert_int_equal(s.contacts.count, 0);
    end(&s);
}

static void bad_surfaces_are_refused(void **state) {
    (void)state;
    scene s = {0};
    generated g = {0};
    qpc_error err = {0};
    assert_true(generate_sheet(&g, 1, 1, 1, 0, 0));
    add_mesh(&s, &g, QPC_STATIC, 0);
    add_chain(&s, 3, v3(0, 0, 1), v3(1, 1, 1), 0.01);
    qpc_surface good = s.surface[1];
#define REFUSED(status, text)                                                                      \
    assert_fails(qpc_detector_create(s.surface, 2, s.x, s.node_count, 1000, &s.det, &err), status, \
                 &err, text);                                                                      \
    s.surface[1] = good
    s.surface[1].radius = 0;
    REFUSED(QPC_ERR_INVALID, "radius");
    s.surface[1].radius = NAN;
    REFUSED(QPC_ERR_INVALID, "radius");
    s.surface[1].first_node = 5;
    REFUSED(QPC_ERR_INVALID, "nodes 5 to 7 of 7");
    s.surface[1].rest_length = NULL;
    REFUSED(QPC_ERR_INVALID, "rest length");
    s.surface[0].motion = QPC_DYNAMIC;
    REFUSED(QPC_ERR_INVALID, "dynamic mesh");
    s.surface[0].motion = QPC_STATIC;
    double keep = s.x[13];
    s.x[13] = NAN;
    REFUSED(QPC_ERR_NUMERIC, "node 4");
    s.x[13] = keep;
    start(&s);
    s.x[13] = INFINITY;
    assert_fails(qpc_detect_proximity(s.det, s.x, 1.1, &s.contacts, &err), QPC_ERR_NUMERIC, &err,
                 "node 4");
    s.x[13] = keep;
    near_at(&s, 1.1);
    end(&s);
}

static void failing_memory_leaves_no_trace(void **state) {
    (void)state;
    scene s = {0};
    generated g = {0};
    assert_true(generate_sheet(&g, 4, 4, 0.1, 0, 0));
    add_mesh(&s, &g, QPC_KINEMATIC, 0);
    add_chain(&s, 4, v3(0.02, 0.02, 0.01), v3(0.18, 0.18, 0.01), 0.01);
    QPC_FAULTS(f) {
        qpc_error err = {0};
        qpc_contacts contacts = {0};
        qpc_detector *det = NULL;
        qpc_status status = qpc_detector_create(s.surface, 2, s.x, s.node_count, 10000, &det, &err);
        if (status == QPC_OK) status = qpc_detect_proximity(det, s.x, 1.1, &contacts, &err);
        if (status == QPC_OK) status = qpc_detect_motion(det, s.x, s.x, 0.95, &contacts, &err);
        qpc_faults_ended(&f, status);
        qpc_detector_destroy(det);
        qpc_array_fini(&contacts);
    }
    end(&s);
}

static void nothing_is_allocated_after_warm_up(void **state) {
    (void)state;
    scene s = {0};
    generated g = {0};
    qpc_error err = {0};
    assert_true(generate_sheet(&g, 40, 40, 0.05, -1, -1));
    add_mesh(&s, &g, QPC_STATIC, 0);
    add_chain(&s, 30, v3(-0.9, -0.7, 0.031), v3(0.5, 0.6, 0.031), 0.03);
    start(&s);
    double *x1 = malloc((size_t)s.node_count * 3 * sizeof *x1);
    uint64_t before = 0;
    for (int step = 0; step < 60; step++) {
        if (step == 5) before = qpc_mem_thread_allocations();
        memcpy(x1, s.x, (size_t)s.node_count * 3 * sizeof *x1);
        for (int32_t k = s.surface[1].first_node; k < s.node_count; k++) {
            x1[3 * k] += 0.004;
            x1[3 * k + 2] = 0.0301 + 0.001 * sin(k + step);
        }
        near_at(&s, 1.25);
        assert_ok(qpc_detect_motion(s.det, s.x, x1, 0.95, &s.contacts, &err), &err);
        memcpy(s.x, x1, (size_t)s.node_count * 3 * sizeof *x1);
    }
    assert_int_equal(qpc_mem_thread_allocations() - before, 0);
    free(x1);
    end(&s);
}

/// What was asked about before changes no hit: also a motion that stays in the tight boxes of a
/// proximity test, whose short list leaves out edges of flat surfaces.
static void hits_do_not_depend_on_what_was_asked_before(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_contacts hits[2] = {{0}};
    for (int asked = 0; asked < 2; asked++) {
        scene s = {0};
        generated g = {0};
        assert_true(generate_sheet(&g, 10, 10, 0.1, 0, 0));
        add_mesh(&s, &g, QPC_STATIC, 0);
        add_chain(&s, 12, v3(0.11, 0.23, 0.0099), v3(0.93, 0.47, 0.0099), 0.01);
        start(&s);
        if (asked) near_at(&s, 1.25);
        double *x1 = calloc((size_t)s.node_count * 3, sizeof *x1);
        memcpy(x1, s.x, (size_t)s.node_count * 3 * sizeof *x1);
        for (int32_t k = s.surface[1].first_node; k < s.node_count; k++) x1[3 * k + 2] -= 0.0012;
        assert_ok(qpc_detect_motion(s.det, s.x, x1, 0.95, &hits[asked], &err), &err);
        free(x1);
        end(&s);
    }
    assert_true(hits[0].count > 12); // edges too
    assert_int_equal(hits[0].count, hits[1].count);
    for (int32_t i = 0; i < hits[0].count; i++) {
        assert_true(hits[0].data[i].key == hits[1].data[i].key);
        assert_true(hits[0].data[i].toi == hits[1].data[i].toi);
    }
    for (int k = 0; k < 2; k++) qpc_array_fini(&hits[k]);
}

/// 1,500 particles in a wave over a bumpy floor, folded over themselves: alone, with one helper and
/// with three.
static void helping_threads_change_no_bit(void **state) {
    (void)state;
    enum { TEAMS = 3, STEPS = 6 };
    qpc_error err = {0};
    qpc_contacts expected[2 * STEPS] = {{0}};
    double gaps[STEPS] = {0};
    qpc_detect_counts counts[STEPS];
    for (int team = 0; team < TEAMS; team++) {
        scene s = {0};
        generated g = {0};
        assert_true(generate_sheet(&g, 45, 12, 0.1, 0, 0));
        add_mesh(&s, &g, QPC_STATIC, 0);
        for (int i = 0; i < 2; i++)
            add_chain(&s, 750, v3(0.1, 0.3 + 0.1 * i, 0.012),
                      v3(3.9, 0.6 - 0.1 * i, 0.012), 0.01);
        start(&s);
        qpc_team *threads = NULL;
        if (team > 0) assert_ok(qpc_team_create(2 * team - 1, &threads, &err), &err);
        qpc_parallel parallel = qpc_team_parallel(threads);
        qpc_detector_set_parallel(s.det, &parallel);
        double *x1 = calloc((size_t)s.node_count * 3, sizeof *x1);
        qpc_contacts hits = {0};
        for (int step = 0; step < STEPS; step++) {
            qpc_detector_counts_reset(s.det);
            near_at(&s, 1.25);
            memcpy(x1, s.x, (size_t)s.node_count * 3 * sizeof *x1);
            for (int32_t k = s.surface[1].first_node; k < s.node_count; k++)
                x1[3 * k + 2] += 0.01 * sin(0.1 * k + step) - 0.003;
            assert_ok(qpc_detect_motion(s.det, s.x, x1, 0.95, &hits, &err), &err);
            double gap;
            assert_ok(qpc_detect_minimum_gap(s.det, s.x, &gap, &err), &err);
            qpc_detect_counts c = qpc_detector_counts(s.det);
            qpc_contacts *both[2] = {&s.contacts, &hits};
            for (int k = 0; k < 2; k++) {
                qpc_contacts *e = &expected[2 * step + k];
                if (team == 0) {
                    assert_true(qpc_array_reserve(e, both[k]->count));
                    for (int32_t i = 0; i < both[k]->count; i++)
                        assert_true(qpc_array_push(e, both[k]->data[i]));
                }
                assert_true(e->count > 300);
                assert_int_equal(both[k]->count, e->count);
                for (int32_t i = 0; i < e->count; i++) {
                    const qpc_contact *a = &both[k]->data[i], *b = &e->data[i];
                    assert_true(a->key == b->key && a->toi == b->toi);
                    assert_true(a->distance == b->distance && a->kind == b->kind);
                    assert_memory_equal(&a->n, &b->n, sizeof a->n);
                    assert_memory_equal(a->weight, b->weight, sizeof a->weight);
                }
            }
            if (team == 0) gaps[step] = gap, counts[step] = c;
            assert_true(gap == gaps[step]);
            assert_memory_equal(&c, &counts[step], sizeof c);
            memcpy(s.x, x1, (size_t)s.node_count * 3 * sizeof *x1);
        }
        free(x1);
        qpc_array_fini(&hits);
        end(&s);
        qpc_team_destroy(threads);
    }
    for (int i = 0; i < 2 * STEPS; i++) qpc_array_fini(&expected[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(particle_over_a_face),
        cmocka_unit_test(particle_over_edges_and_vertices),
        cmocka_unit_test(cable_on_a_flat_floor_feels_no_internal_edge),
        cmocka_unit_test(edge_across_a_box_rests_on_two_rims),
        cmocka_unit_test(edge_along_a_ridge_is_held_at_both_ends),
        cmocka_unit_test(aligned_parallel_cables_are_held_along_their_length),
        cmocka_unit_test(crossing_cables_touch_once),
        cmocka_unit_test(straight_cable_has_no_contact_with_itself),
        cmocka_unit_test(a_vertex_keeps_its_contact_where_the_nearer_edge_is_exempt),
        cmocka_unit_test(cable_folded_on_itself_has_contact),
        cmocka_unit_test(motion_finds_what_passes_through),
        cmocka_unit_test(pair_inside_its_thickness_may_leave),
        cmocka_unit_test(kinematic_mesh_is_followed),
        cmocka_unit_test(overlaps_are_listed_with_their_depth),
        cmocka_unit_test(smallest_gap_is_over_the_separation),
        cmocka_unit_test(too_many_candidates_are_an_error_and_not_a_loss),
        cmocka_unit_test(bad_surfaces_are_refused),
        cmocka_unit_test(failing_memory_leaves_no_trace),
        cmocka_unit_test(nothing_is_allocated_after_warm_up),
        cmocka_unit_test(hits_do_not_depend_on_what_was_asked_before),
        cmocka_unit_test(helping_threads_change_no_bit),
    };
    return cmocka_run_group_tests_name("engine/collision/detect", tests, NULL, NULL);
}
