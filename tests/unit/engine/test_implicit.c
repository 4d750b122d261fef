/// Signed distances to simple shapes, nearest points of triangles, times of impact, and how contacts move with an obstacle. Second
/// method: the distance to a convex set is max over unit d of d.y - h(d), h(d) = max of d.z over the set, outside and inside.
#include "base/mem.h"
#include "engine/collision/detect.h"
#include "tests/support/check.h"

#include <math.h>
#include <string.h>

static uint64_t seed = 5;
static double uniform(void) { // in [-1, 1)
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (double)(int64_t)(seed >> 11) / (double)(1LL << 52) - 1;
}

static qpc_vec3 anywhere(double size) { return v3(size * uniform(), size * uniform(), size * uniform()); }

static qpc_vec3 direction(void) {
    qpc_vec3 d = anywhere(1);
    return v3_norm(d) > 0.1 ? v3_scale(1 / v3_norm(d), d) : direction();
}

static const qpc_implicit SHAPES[] = {
    {QPC_IMPLICIT_SPHERE, 2, 0.7, {0, 0, 0}},      {QPC_IMPLICIT_CAPSULE, 0, 0.3, {0.8, 0, 0}},  {QPC_IMPLICIT_BOX, 2, 0, {0.5, 0.9, 0.2}},
    {QPC_IMPLICIT_CYLINDER, 1, 0.4, {0, 0.6, 0}}, {QPC_IMPLICIT_CYLINDER, 2, 0.9, {0, 0, 0.1}}, {QPC_IMPLICIT_PLANE, 1, 0, {0, 0, 0}},
};
enum { SHAPE_COUNT = 6, ROUND_COUNT = 5 }; // the last one is the plane

/// h(d) of a bounded shape.
static double farthest(const qpc_implicit *s, qpc_vec3 d) {
    const double a[3] = {fabs(d.x), fabs(d.y), fabs(d.z)};
    double along = a[s->axis], across = sqrt(fmax(v3_norm2(d) - along * along, 0));
    switch (s->kind) {
    case QPC_IMPLICIT_SPHERE: return s->radius * v3_norm(d);
    case QPC_IMPLICIT_CAPSULE: return s->radius * v3_norm(d) + s->half[s->axis] * along;
    case QPC_IMPLICIT_BOX: return s->half[0] * a[0] + s->half[1] * a[1] + s->half[2] * a[2];
    default: return s->radius * across + s->half[s->axis] * along;
    }
}

static void every_distance_is_the_largest_over_supporting_planes(void **state) {
    (void)state;
    for (int k = 0; k < ROUND_COUNT; k++)
        for (int i = 0; i < 400; i++) {
            const qpc_implicit *s = &SHAPES[k];
            qpc_vec3 y = anywhere(i % 4 == 0 ? 0.5 : i % 4 == 1 ? 100 : 1.5), n;
            if (i % 7 == 0) y = v3(s->half[0], s->half[1], s->half[2]); // a corner, the end of an axis
            if (i % 7 == 1) y = v3(i % 3 == 0 ? y.x : 0, i % 3 == 1 ? y.y : 0, i % 3 == 2 ? y.z : 0);
            double phi = qpc_implicit_phi(s, y, &n);
            assert_near(v3_norm(n), 1, 1e-12);
            assert_near(phi, v3_dot(n, y) - farthest(s, n), 1e-12 * (1 + v3_norm(y)));
            for (int j = 0; j < 50; j++) {
                qpc_vec3 d = direction();
                if (j % 2 == 0) d = v3_madd(n, 0.05, d), d = v3_scale(1 / v3_norm(d), d);
                assert_true(v3_dot(d, y) - farthest(s, d) <= phi + 1e-12 * (1 + v3_norm(y)));
            }
        }
}

static void every_gradient_is_that_of_finite_differences(void **state) {
    (void)state;
    for (int k = 0; k < SHAPE_COUNT; k++)
        for (int i = 0; i < 300; i++) {
            qpc_vec3 y = anywhere(2), n, m, d = direction();
            double h = 1e-6, phi = qpc_implicit_phi(&SHAPES[k], y, &n);
            if (phi < 1e-3) continue; // inside there are edges where it jumps
            double ahead = qpc_implicit_phi(&SHAPES[k], v3_madd(y, h, d), NULL), behind = qpc_implicit_phi(&SHAPES[k], v3_madd(y, -h, d), &m);
            assert_near((ahead - behind) / (2 * h), v3_dot(n, d), 1e-8 + h / phi);
        }
}

// ---- features ----

static qpc_vec3 point_of(const qpc_vec3 p[3], const double w[3]) { return v3_madd(v3_madd(v3_scale(w[0], p[0]), w[1], p[1]), w[2], p[2]); }

static void place_triangle(int i, const qpc_implicit *s, qpc_vec3 p[3]) {
    double size = i % 3 == 0 ? 0.3 : i % 3 == 1 ? 2 : 10;
    qpc_vec3 middle = v3_scale(0.8 * qpc_implicit_reach(s) + fabs(uniform()), direction());
    for (int k = 0; k < 3; k++) p[k] = v3_add(middle, anywhere(size));
    if (i % 5 == 0) // parallel to a side
        for (int k = 0; k < 3; k++) p[k].z = middle.z;
}

static void the_nearest_point_of_a_triangle_has_a_plane_between_it_and_the_shape(void **state) {
    (void)state;
    int inside = 0, meets = 0;
    for (int k = 0; k < ROUND_COUNT; k++)
        for (int i = 0; i < 600; i++) {
            const qpc_implicit *s = &SHAPES[k];
            qpc_vec3 p[3];
            place_triangle(i, s, p);
            qpc_implicit_nearest near = qpc_implicit_closest(s, 3, p);
            assert_near(v3_norm(v3_sub(point_of(p, near.weight), near.at)), 0, 1e-12 * 10);
            assert_near(near.phi, qpc_implicit_phi(s, near.at, NULL), 1e-13);
            for (int j = 0; j < 100; j++) {
                double a = 0.5 * (1 + uniform()), b = 0.5 * (1 + uniform()), w[3] = {1 - a, a * (1 - b), a * b};
                double phi = qpc_implicit_phi(s, point_of(p, w), NULL);
                if (near.phi > 0) assert_true(phi >= near.phi - 1e-10);
                else assert_true(near.phi <= 0);
                if (near.phi > 0) continue;
            }
            if (near.phi <= 0) {
                meets++;
                continue;
            }
            for (int c = 0; c < 3; c++) assert_true(v3_dot(near.n, p[c]) - farthest(s, near.n) >= near.phi - 1e-9);
            inside += near.weight[0] > 1e-6 && near.weight[1] > 1e-6 && near.weight[2] > 1e-6;
        }
    print_message("  %d nearest inside of their triangle, %d meet\n", inside, meets);
    assert_true(inside > 200 && meets > 200);
}

static void a_triangle_that_meets_the_shape_is_never_said_to_be_apart(void **state) {
    (void)state;
    int found = 0;
    for (int k = 0; k < ROUND_COUNT; k++)
        for (int i = 0; i < 600; i++) {
            const qpc_implicit *s = &SHAPES[k];
            qpc_vec3 p[3], at = v3(s->half[0] * uniform(), s->half[1] * uniform(), s->half[2] * uniform());
            at = v3_madd(at, 0.99 * s->radius, direction());
            place_triangle(1 + i % 2, s, p);
            double a = 0.5 * (1 + uniform()), b = 0.5 * (1 + uniform()), w[3] = {1 - a, a * (1 - b), a * b};
            qpc_vec3 move = v3_sub(at, point_of(p, w)); // a point of the triangle comes to one of the shape
            if (qpc_implicit_phi(s, at, NULL) > 0) continue;
            for (int c = 0; c < 3; c++) p[c] = v3_add(p[c], move);
            assert_true(qpc_implicit_closest(s, 3, p).phi <= 1e-12);
            found++;
        }
    assert_true(found > 1000);
}

static void corners_of_a_side_hold_a_triangle_that_lies_on_it(void **state) {
    (void)state;
    const struct {
        int shape, corners;
    } expected[] = {{0, 1}, {1, 2}, {2, 4}, {3, 2}, {4, 4}}; // the wide cylinder is on its end
    for (int i = 0; i < 5; i++)
        for (int tilted = 0; tilted < 2; tilted++) {
            const qpc_implicit *s = &SHAPES[expected[i].shape];
            const double e = tilted * 1e-3;
            double top = s->kind == QPC_IMPLICIT_SPHERE || s->axis != 2 ? s->radius : s->half[2];
            qpc_vec3 p[3] = {{-6, -5, top + 0.01 - 6 * e}, {6, -5, top + 0.01 + 6 * e}, {0, 7, top + 0.01}};
            qpc_implicit_nearest near[QPC_IMPLICIT_CORNERS];
            int count = qpc_implicit_over_corners(s, p, near);
            assert_int_equal(count, expected[i].corners);
            for (int k = 0; k < count; k++) {
                assert_near(v3_norm(v3_sub(point_of(p, near[k].weight), near[k].at)), 0, 1e-12);
                assert_near(near[k].phi, 0.01 + e * near[k].at.x, 1e-5);
            }
        }
}

static void an_edge_on_a_box_is_held_where_the_box_ends(void **state) {
    (void)state;
    const qpc_implicit *s = &SHAPES[2]; // half widths 0.5, 0.9, 0.2
    qpc_implicit_nearest ends[2];
    for (int tilted = -1; tilted <= 1; tilted++) {
        qpc_vec3 p[2] = {{-2, 0.3, 0.21 - 2e-3 * tilted}, {3, 0.3, 0.21 + 3e-3 * tilted}};
        qpc_implicit_nearest near = qpc_implicit_closest(s, 2, p);
        assert_int_equal(qpc_implicit_level_ends(s, p, &near, 2.5e-3, 0.02, ends), 2);
        assert_near(ends[0].at.x, -0.5, 1e-3);
        assert_near(ends[1].at.x, 0.5, 1e-3);
    }
    qpc_vec3 across[2] = {{-2, 0.3, 1}, {2, 0.3, -0.7}}; // over an edge
    qpc_implicit_nearest near = qpc_implicit_closest(s, 2, across);
    assert_int_equal(qpc_implicit_level_ends(s, across, &near, 2.5e-3, 0.02, ends), 0);
}

// ---- motions ----

/// Quaternion of a turn about an axis.
static void turn_of(qpc_vec3 axis, double angle, double q[4]) {
    q[0] = cos(0.5 * angle);
    v3_store(q + 1, v3_scale(sin(0.5 * angle), axis));
}

static void frame_at(const qpc_implicit *s, qpc_vec3 o, const double q[4], double x[12]) {
    const qpc_vec3 axis[3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    v3_store(x, o);
    for (int i = 0; i < 3; i++) v3_store(x + 3 * (i + 1), v3_madd(o, qpc_implicit_reach(s), v3_rotate(q, axis[i])));
}

/// phi of p when the frame is at o, turned by q.
static double seen(const qpc_implicit *s, qpc_vec3 o, const double q[4], qpc_vec3 p) {
    const double back[4] = {q[0], -q[1], -q[2], -q[3]};
    return qpc_implicit_phi(s, v3_rotate(back, v3_sub(p, o)), NULL);
}

typedef struct flight {
    const qpc_implicit *s;
    qpc_vec3 o0, o1, axis, from[3], to[3];
    double angle;
} flight;

static flight random_flight(int i, const qpc_implicit *s, int count) {
    flight f = {.s = s, .o0 = anywhere(0.5), .o1 = anywhere(0.5), .axis = direction(), .angle = i % 3 == 0 ? 0 : 1.5 * fabs(uniform())};
    qpc_vec3 from = v3_scale(2.5, direction()), to = anywhere(2);
    for (int k = 0; k < count; k++) {
        f.from[k] = v3_add(from, anywhere(i % 2 == 0 ? 3 : 0.5));
        f.to[k] = v3_add(to, anywhere(i % 2 == 0 ? 3 : 0.5));
    }
    return f;
}

/// Least phi of many points of the feature at time t.
static double sampled(const flight *f, int count, double t) {
    double q[4], least = HUGE_VAL;
    turn_of(f->axis, t * f->angle, q);
    qpc_vec3 o = v3_lerp(f->o0, f->o1, t), p[3];
    for (int k = 0; k < count; k++) p[k] = v3_lerp(f->from[k], f->to[k], t);
    int most = count == 1 ? 0 : count == 2 ? 100 : 14;
    for (int a = 0; a <= most; a++)
        for (int b = 0; b <= (count == 3 ? most - a : 0); b++) {
            double n = most > 0 ? most : 1, w[3] = {1 - (a + b) / n, a / n, b / n};
            qpc_vec3 at = count == 1 ? p[0] : count == 2 ? v3_lerp(p[0], p[1], a / n) : point_of(p, w);
            least = fmin(least, seen(f->s, o, q, at));
        }
    return least;
}

static void nothing_comes_in_before_its_time_of_impact(void **state) {
    (void)state;
    const double s = 0.05, most = 5e-4, none[4] = {1, 0, 0, 0};
    int hits = 0, misses = 0, undecided = 0; // of 600,000 such flights 25 are: that is said, and never too late
    for (int i = 0; i < 1500; i++) {
        int count = 1 + i % 3;
        const qpc_implicit *shape = &SHAPES[i % ROUND_COUNT];
        flight f = random_flight(i, shape, count);
        if (sampled(&f, count, 0) < 2 * s) continue;
        double x0[12], x1[12], q[4];
        turn_of(f.axis, f.angle, q);
        frame_at(shape, f.o0, none, x0);
        frame_at(shape, f.o1, q, x1);
        qpc_implicit_motion m = qpc_implicit_motion_of(x0, x1);
        qpc_implicit_hit hit;
        bool hits_it = qpc_implicit_hits(shape, &m, count, f.from, f.to, s, most, &hit);
        if (hit.at_start) continue; // between the samples
        double end = hits_it ? hit.toi : 1;
        for (int k = 0; k <= 40; k++) assert_true(sampled(&f, count, end * k / 40) > s);
        if (hit.uncertain) undecided++;
        else if (hits_it) assert_true(hit.near.phi <= s + most + 1e-9);
        *(hits_it ? &hits : &misses) += 1;
    }
    print_message("  %d hits, %d misses\n", hits, misses);
    assert_true(hits > 200 && misses > 200 && undecided <= 2);
}

/// A triangle, its edges and vertices over an obstacle that moves: along n their contacts see the surface go as fast as it does.
static void contacts_move_along_their_normal_as_the_surface_does(void **state) {
    (void)state;
    int kinds[3] = {0, 0, 0};
    for (int i = 0; i < 600; i++) {
        const qpc_implicit *shape = &SHAPES[i % ROUND_COUNT];
        static const int32_t corner[3] = {0, 1, 2};
        static double vertices[9];
        double x[21], moved[12], q[4], r[4];
        qpc_vec3 o = anywhere(1), spin = anywhere(2), velocity = anywhere(1), p[3];
        qpc_vec3 axis = direction();
        turn_of(axis, uniform(), q);
        place_triangle(i, shape, p);
        if (i % 2 == 0) { // over its middle
            qpc_vec3 far = v3_scale(qpc_implicit_reach(shape) + 0.2 * uniform(), direction());
            qpc_vec3 middle = v3_scale(1.0 / 3, v3_add(p[0], v3_add(p[1], p[2])));
            for (int k = 0; k < 3; k++) p[k] = v3_add(far, v3_sub(p[k], middle)), p[k] = v3_madd(p[k], v3_dot(v3_sub(far, p[k]), far) / v3_norm2(far), far);
        }
        for (int k = 0; k < 3; k++) v3_store(x + 3 * k, v3_add(o, v3_rotate(q, p[k])));
        frame_at(shape, o, q, x + 9);
        memcpy(vertices, x, sizeof vertices);
        qpc_mesh *mesh = NULL;
        qpc_error err = {0};
        assert_ok(qpc_mesh_create(vertices, 3, corner, 1, 3, NULL, &mesh, NULL, &err), &err);
        const qpc_surface surfaces[2] = {{.motion = QPC_DYNAMIC, .node_count = 3, .mesh = mesh, .radius = 0.5, .self_exclusion = -1},
                                         {.motion = QPC_KINEMATIC, .first_node = 3, .node_count = 4, .shape = shape}};
        qpc_detector *det = NULL;
        assert_ok(qpc_detector_create(surfaces, 2, x, 7, 100000, &det, &err), &err);
        qpc_contacts found = {0};
        assert_ok(qpc_detect_proximity(det, x, 1.0, &found, &err), &err);
        double h = 1e-5, turn[4];
        turn_of(v3_scale(1 / v3_norm(spin), spin), h * v3_norm(spin), turn);
        qpc_vec3 u = {turn[1], turn[2], turn[3]}, w = {q[1], q[2], q[3]};
        r[0] = turn[0] * q[0] - v3_dot(u, w);
        v3_store(r + 1, v3_add(v3_madd(v3_scale(q[0], u), turn[0], w), v3_cross(u, w)));
        frame_at(shape, v3_madd(o, h, velocity), r, moved);
        for (int32_t k = 0; k < found.count; k++) {
            const qpc_contact *c = &found.data[k];
            if (!(c->distance > 0.01)) continue;
            qpc_vec3 at = {0, 0, 0}, apart = {0, 0, 0}, seen_rate = {0, 0, 0};
            for (int n = 0; n < QPC_CONTACT_NODES; n++) {
                bool ours = n < qpc_contact_split(c);
                if (ours) at = v3_madd(at, c->weight[n], v3_load(x + 3 * c->node[n]));
                apart = v3_madd(apart, c->weight[n], v3_load(x + 3 * c->node[n]));
                if (!ours && c->weight[n] != 0)
                    seen_rate = v3_madd(seen_rate, -c->weight[n] / h, v3_sub(v3_load(moved + 3 * (c->node[n] - 3)), v3_load(x + 3 * c->node[n])));
            }
            assert_near(v3_dot(c->n, apart) - c->offset, c->distance, 1e-9);
            qpc_vec3 surface = v3_madd(at, -c->distance, c->n);
            qpc_vec3 rate = v3_add(velocity, v3_cross(spin, v3_sub(surface, o)));
            assert_near(v3_dot(c->n, seen_rate), v3_dot(c->n, rate), 2e-3);
            kinds[c->kind]++;
        }
        qpc_array_fini(&found);
        qpc_detector_destroy(det);
        qpc_mesh_unref(mesh);
    }
    print_message("  %d vertices, %d edges, %d triangles\n", kinds[0], kinds[1], kinds[2]);
    assert_true(kinds[0] > 100 && kinds[1] > 100 && kinds[2] > 50);
}

static void curvature_is_that_of_finite_differences(void **state) {
    (void)state;
    int round = 0;
    for (int k = 0; k < SHAPE_COUNT; k++)
        for (int i = 0; i < 300; i++) {
            const qpc_implicit *s = &SHAPES[k];
            const double step = 1e-4;
            double radius, middle, slope;
            qpc_vec3 n, y = anywhere(1.5), d = anywhere(1);
            middle = qpc_implicit_phi(s, y, &n);
            slope = v3_dot(d, n);
            d = v3_madd(d, -slope, n);
            double part = qpc_implicit_bends(s, y, d, &radius);
            if (middle < 0.05 || part == 0) continue;
            double second = (qpc_implicit_phi(s, v3_madd(y, step, d), NULL) - 2 * middle + qpc_implicit_phi(s, v3_madd(y, -step, d), NULL)) / (step * step);
            assert_near(part * v3_norm2(d) / radius, second, 1e-5 + 1e-3 * second);
            round++;
        }
    assert_true(round > 400);
    qpc_vec3 along = v3(0, 0, 1), at = v3(1, 0, 0);
    double radius;
    assert_true(qpc_implicit_bends(&SHAPES[2], at, along, &radius) == 0); // a box, the axis of a cylinder, a plane
    assert_true(qpc_implicit_bends(&SHAPES[4], at, along, &radius) == 0);
    assert_true(qpc_implicit_bends(&SHAPES[5], v3(0, 1, 0), along, &radius) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_distance_is_the_largest_over_supporting_planes),
        cmocka_unit_test(every_gradient_is_that_of_finite_differences),
        cmocka_unit_test(curvature_is_that_of_finite_differences),
        cmocka_unit_test(the_nearest_point_of_a_triangle_has_a_plane_between_it_and_the_shape),
        cmocka_unit_test(a_triangle_that_meets_the_shape_is_never_said_to_be_apart),
        cmocka_unit_test(corners_of_a_side_hold_a_triangle_that_lies_on_it),
        cmocka_unit_test(an_edge_on_a_box_is_held_where_the_box_ends),
        cmocka_unit_test(nothing_comes_in_before_its_time_of_impact),
        cmocka_unit_test(contacts_move_along_their_normal_as_the_surface_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
