// Random starts that intersect, pushed out: `test_start [SEEDS [FIRST]]`.
//
// Cables through boxes, spheres, sheets, drums and each other, some on top of one another, some with
// fixed nodes. A start is either separated, by the independent checker's word, with no node farther than
// its limit and no fixed node moved, the same bits when asked twice, and nothing crossed in the steps after; or
// refused with what is left. A failing seed is printed: `test_start 1 SEED` runs it alone.
#include "tests/property/simulation.h"

#include "base/vec.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

static int seed_count = 150, seed_first = 1;

typedef struct maker {
    uint64_t state;
    char text[65536];
    size_t used;
    double limit; // 0: not said
    bool lattice; // nodes and corners on a grid: everything that can be degenerate is
} maker;
static double uniform(maker *m, double low, double high) {
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(m->state >> 11) * 0x1p-53;
}
static int pick(maker *m, int n) { return (int)uniform(m, 0, n); }
static void put(maker *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(maker *m, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(m->text + m->used, sizeof m->text - m->used, format, args);
    va_end(args);
    assert_true(n >= 0 && (size_t)n < sizeof m->text - m->used);
    m->used += (size_t)n;
}

static double snap(double a) { return 0.05 * nearbyint(a / 0.05); }

static void put_solid(maker *m) {
    static const char *const kinds[] = {
        "'kind': 'box', 'width': 0.5, 'height': 0.3, 'depth': 0.4, 'triangles': 48",
        "'kind': 'sphere', 'radius': 0.3, 'triangles': 180",
        "'kind': 'sheet', 'width': 1.5, 'depth': 1.5, 'triangles': 18",
        "'kind': 'cylinder', 'radius': 0.15, 'length': 1, 'segments': 16",
        "'kind': 'funnel', 'triangles': 400",
    };
    int kind = m->lattice ? 2 * pick(m, 2) : pick(m, 5);
    if (m->lattice) {
        put(m, "{'kind': 'static', 'mesh': {'generate': {%s}}, 'position': [%.17g, %.17g, %.17g]},", kinds[kind], snap(uniform(m, -0.1, 0.1)),
            snap(uniform(m, -0.1, 0.1)), snap(uniform(m, -0.1, 0.1)));
        return;
    }
    put(m, "{'kind': '%s', 'mesh': {'generate': {%s}}, 'radius': %g, 'position': [%.17g, %.17g, %.17g]",
        pick(m, 3) ? "static" : "kinematic", kinds[kind], pick(m, 2) ? 0 : uniform(m, 0, 0.01), uniform(m, -0.1, 0.1),
        (kind == 2 ? 0.0 : -0.2) + uniform(m, -0.05, 0.05), uniform(m, -0.1, 0.1));
    if (pick(m, 2)) put(m, ", 'rotation': [1, %.17g, %.17g, %.17g]", uniform(m, -0.1, 0.1), uniform(m, -2, 2), uniform(m, -0.1, 0.1));
    put(m, "},");
}
static void put_cable(maker *m, int i, int shape) {
    int n = pick(m, 8) == 0 ? 1 : 3 + pick(m, 30);
    double radius = pow(10, uniform(m, -2.5, -1.7)), length = fmin(1.4, radius * n * uniform(m, 1.5, 5));
    double turn = uniform(m, 0, 6.3), height = uniform(m, -0.02, 0.06), wave = pick(m, 3) ? uniform(m, 0, 0.06) : 0;
    if (shape) turn = 0.7, height = 0.01, wave = 0.03, length = 0.8, radius = 0.01, n = 20; // on top of one another
    put(m, "%s{'kind': 'cable', 'radius': %.17g, 'mass': 0.05, 'stiffness': 1000, 'nodes': [", i ? "," : "", radius);
    if (m->lattice) { // a walk on the grid
        int at[3] = {pick(m, 5) - 2, pick(m, 5) - 2, pick(m, 5) - 2}, last = -1;
        for (int k = 0; k < n; k++) {
            put(m, "%s[%.17g, %.17g, %.17g]", k ? "," : "", 0.05 * at[0], 0.05 * at[1], 0.05 * at[2]);
            int way = pick(m, 6);
            if (last >= 0 && way == (last + 3) % 6) way = last; // not straight back
            at[way % 3] += way < 3 ? 1 : -1;
            last = way;
        }
        put(m, "]}");
        return;
    }
    for (int k = 0; k < n; k++) {
        double s = n > 1 ? length * (k / (n - 1.0) - 0.5) : 0;
        put(m, "%s[%.17g, %.17g, %.17g]", k ? "," : "", s * cos(turn), height + wave * sin(11 * s), s * sin(turn));
    }
    put(m, "]}");
}
static void make_scene(maker *m) {
    int solids = pick(m, 3), cables = 1 + pick(m, 5);
    m->lattice = pick(m, 4) == 0;
    bool same = cables > 1 && pick(m, 5) == 0;
    put(m, "{'start': 'push-out', 'dt': 0.002, ");
    if (pick(m, 3) == 0) put(m, "'start_push_limit': %.17g, ", m->limit = uniform(m, 0.005, 0.1));
    put(m, "'bodies': [");
    for (int i = 0; i < solids; i++) put_solid(m);
    for (int i = 0; i < cables; i++) put_cable(m, i, same && i < 2);
    put(m, "], 'constraints': [");
    for (int i = 0, any = 0; i < cables; i++)
        if (pick(m, 4) == 0) put(m, "%s{'kind': 'fixed', 'body': %d, 'nodes': [0]}", any++ ? "," : "", solids + i);
    put(m, "]}");
}

/// Nothing intersects, nothing is within its thickness, what may not move has not moved.
static bool is_good(int seed, const maker *m, const qpc_world *w, const qpc_value *scene, const qpc_scene_report *start) {
    int32_t bodies = qpc_world_body_count(w);
    qpc_checker_body def[16];
    double *nodes[16] = {0}, *rest[16] = {0};
    const qpc_value *list = qpc_map_get(scene, "bodies"), *fixed = qpc_map_get(scene, "constraints");
    const double *x = qpc_world_positions(w);
    qpc_error err = {0};
    int64_t moved = 0;
    double most = 0;
    bool good = true;
    for (int32_t i = 0; i < bodies; i++) {
        qpc_body_info b = qpc_world_body(w, i);
        def[i] = (qpc_checker_body){.first_node = b.first_node, .node_count = b.node_count, .moves = b.moves, .radius = b.radius,
                                    .self_exclusion = -1.0};
        if (b.mesh != NULL) {
            def[i].triangles = qpc_mesh_elements(b.mesh);
            def[i].triangle_count = (int32_t)qpc_mesh_element_count(b.mesh);
            continue;
        }
        int64_t count;
        assert_ok(qpc_read_matrix(qpc_map_get(&list->list.items[i], "nodes"), "nodes", 3, 1000, &nodes[i], &count, &err), &err);
        rest[i] = calloc((size_t)count, sizeof **rest);
        assert_non_null(rest[i]);
        double limit = m->limit > 0 ? m->limit : 4 * b.radius;
        for (int32_t k = 0; k < count; k++) {
            double move = v3_norm(v3_sub(v3_load(x + 3 * (b.first_node + k)), v3_load(nodes[i] + 3 * k)));
            moved += move > 0;
            most = fmax(most, move);
            if (move > limit * (1 + 1e-9)) good = false;
            if (k + 1 < count) rest[i][k] = v3_norm(v3_sub(v3_load(nodes[i] + 3 * k + 3), v3_load(nodes[i] + 3 * k)));
        }
        def[i].rest_length = rest[i];
        for (int32_t k = 0; k < fixed->list.count; k++)
            if (qpc_map_get(&fixed->list.items[k], "body")->i == i &&
                memcmp(x + 3 * b.first_node, nodes[i], 3 * sizeof(double)) != 0)
                good = false;
    }
    if (!good || moved != start->moved_count || most != start->largest_move) {
        print_error("seed %d: %lld nodes moved by up to %g, said to be %lld by %g\n", seed, (long long)moved, most,
                    (long long)start->moved_count, start->largest_move);
        good = false;
    }
    qpc_checker *checker;
    qpc_check_report r;
    qpc_check_report_init(&r);
    assert_ok(qpc_checker_create(def, bodies, x, qpc_world_node_count(w), &checker, &err), &err);
    qpc_checker_state(checker, x, &r);
    qpc_checker_destroy(checker);
    if (r.intersections + r.undecided > 0 || r.least_ratio < 1 - 2e-9) {
        print_error("seed %d: %lld intersections, least distance %.17g of the thickness\n", seed, (long long)r.intersections,
                    r.least_ratio);
        good = false;
    }
    for (int32_t i = 0; i < bodies; i++) {
        qpc_free(nodes[i]);
        free(rest[i]);
    }
    return good;
}

static void random_starts_are_separated_or_refused(void **state) {
    (void)state;
    int separated = 0, refused = 0, fine = 0, failed = 0;
    for (int seed = seed_first; seed < seed_first + seed_count; seed++) {
        static maker m;
        m = (maker){.state = (uint64_t)seed * 0x9e3779b97f4a7c15u};
        for (int k = 0; k < 4; k++) (void)uniform(&m, 0, 1);
        make_scene(&m);
        if (seed_count == 1) printf("%s\n", m.text);
        qpc_error err = {0};
        qpc_test_meshes *meshes = qpc_test_meshes_create();
        qpc_value scene;
        assert_ok(qpc_test_scene_text(m.text, meshes, &scene, &err), &err);
        qpc_world_env env = {.user = meshes, .mesh_lookup = qpc_test_mesh_lookup};
        qpc_world *w = NULL;
        qpc_watched again = {0};
        qpc_scene_report start;
        qpc_status status = qpc_world_create(&scene, &env, &w, &start, &err);
        if (status == QPC_OK) {
            fine += start.overlap_count + start.close_count == 0;
            separated += start.moved_count > 0;
            if (!is_good(seed, &m, w, &scene, &start)) failed++;
            assert_ok(qpc_watched_create(&scene, meshes, &again, NULL, &err), &err);
            size_t size = 3 * (size_t)qpc_world_node_count(w) * sizeof(double);
            if (qpc_world_hash(w) != qpc_world_hash(again.world) ||
                memcmp(qpc_world_positions(w), qpc_world_positions(again.world), size) != 0) {
                print_error("seed %d: other bits when asked again\n", seed);
                failed++;
            }
            for (int i = 0; i < 5; i++) {
                qpc_step_report r;
                assert_ok(qpc_watched_step(&again, &r, &err), &err);
                if (r.proven != 1) print_error("seed %d: step %d is not proven\n", seed, i + 1);
                failed += r.proven != 1;
            }
            if (again.found.crossings + again.found.intersections + again.found.undecided > 0) {
                print_error("seed %d: something crosses after the start\n", seed);
                failed++;
            }
            qpc_watched_fini(&again);
        } else {
            refused++;
            if (seed_count == 1) printf("%s\n", err.message);
            bool said = strstr(err.message, "start_push_limit") != NULL || strstr(err.message, "nothing here can be pushed out") != NULL;
            if (status != QPC_ERR_INVALID || start.stuck_count <= 0 || !said) {
                print_error("seed %d: %s\n", seed, err.message);
                failed++;
            }
        }
        qpc_world_destroy(w);
        qpc_value_fini(&scene);
        qpc_test_meshes_destroy(meshes);
    }
    printf("%d random starts: %d separated, %d refused, %d with nothing to do, %d failures\n", seed_count, separated, refused, fine,
           failed);
    assert_int_equal(failed, 0);
    if (seed_count >= 100) {
        assert_true(separated > seed_count / 4);
        assert_true(refused > 0);
    }
}

static void a_spring_in_and_out_of_a_rod_leaves_sideways(void **state) {
    (void)state;
    simulation sim;
    simulation_start(&sim, "{'start': 'push-out', 'dt': 0.001, 'bodies': [{'kind': 'cable', 'radius': 0.01, 'mass': 1, 'stiffness': 100,"
                           "'nodes': [[-0.6, 0.002, 0.1], [-0.3, 0.002, 0.1], [0.02, 0.002, 0.1], [0.3, 0.002, 0.1]]},"
                           "{'kind': 'static', 'mesh': {'generate': {'kind': 'cylinder', 'radius': 0.015, 'length': 2, 'segments': 24}},"
                           "'position': [0.15, 0, 0]}]}");
    assert_true(simulation_x(&sim, 2)[1] > 0.02 && simulation_x(&sim, 3)[1] > 0.02); // up: y is above the axis
    assert_true(simulation_x(&sim, 1)[1] == 0.002);
    simulation_step(&sim, 50);
    simulation_end(&sim);
}

/// A few millimetres under the top of a box and out of both its sides: nodes near a side go past that, the others up,
/// and the springs between them past the rim. The way is 2 cm at most.
static void a_cable_under_the_top_of_a_box_leaves_across_its_rims(void **state) {
    (void)state;
    static const int counts[] = {30, 45, 60, 80, 100};
    static const double heights[] = {0.09, 0.092, 0.095};
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 3; k++) {
            char text[1024];
            simulation sim;
            snprintf(text, sizeof text,
                     "{'start': 'push-out', 'dt': 0.002, 'bodies': [{'kind': 'cable', 'radius': 0.01, 'mass': 0.05, 'stiffness': 1000,"
                     "'nodes': {'generate': {'kind': 'line', 'from': [-0.8, %g, 0.011], 'to': [0.8, %g, 0.011], 'count': %d}}},"
                     "{'kind': 'static', 'mesh': {'generate': {'kind': 'box', 'width': 1, 'height': 0.2, 'depth': 1}}}]}",
                     heights[k], heights[k], counts[i]);
            simulation_start(&sim, text);
            for (int32_t n = 0; n < counts[i]; n++) {
                const double *x = simulation_x(&sim, n);
                double from[3] = {-0.8 + 1.6 * n / (counts[i] - 1), heights[k], 0.011};
                assert_true(hypot(hypot(x[0] - from[0], x[1] - from[1]), x[2] - from[2]) <= 0.04);
            }
            simulation_step(&sim, 20);
            simulation_end(&sim);
        }
}

int main(int argc, char **argv) {
    if (argc > 1) seed_count = atoi(argv[1]);
    if (argc > 2) seed_first = atoi(argv[2]);
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_starts_are_separated_or_refused),
                                       cmocka_unit_test(a_spring_in_and_out_of_a_rod_leaves_sideways),
                                       cmocka_unit_test(a_cable_under_the_top_of_a_box_leaves_across_its_rims)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
