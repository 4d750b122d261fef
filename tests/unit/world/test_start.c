/// Starts that intersect or lie within their thickness: pushed out within a bound, or refused.
#include "tests/unit/world/support.h"

#include "tests/support/checker.h"
#include "tests/support/faults.h"

#include "base/vec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_NODES = 64 };

/// A cable as a body, with positions p (n x 3).
static size_t put_cable(char *to, size_t room, const char *name, double radius, const double *p, int32_t n) {
    size_t used = (size_t)snprintf(to, room, "{'kind':'cable','name':'%s','mass':0.1,'stiffness':1000,'radius':%.17g,'nodes':[", name, radius);
    for (int32_t i = 0; i < n; i++)
        used += (size_t)snprintf(to + used, room - used, "%s[%.17g,%.17g,%.17g]", i > 0 ? "," : "", p[3 * i], p[3 * i + 1], p[3 * i + 2]);
    return used + (size_t)snprintf(to + used, room - used, "]}");
}

/// The checker's word on positions of a world: nothing intersects, nothing is closer than its thickness.
static void assert_separated(const qpc_world *w) {
    int32_t bodies = qpc_world_body_count(w);
    qpc_checker_body def[8];
    qpc_check_report report;
    qpc_checker *checker;
    qpc_error err = {0};
    for (int32_t i = 0; i < bodies; i++) {
        qpc_body_info b = qpc_world_body(w, i);
        def[i] = (qpc_checker_body){.first_node = b.first_node, .node_count = b.node_count, .moves = b.moves,
                                    .radius = b.radius, .self_exclusion = -1.0};
        if (b.mesh != NULL) {
            def[i].triangles = qpc_mesh_elements(b.mesh);
            def[i].triangle_count = (int32_t)qpc_mesh_element_count(b.mesh);
        }
    }
    assert_ok(qpc_checker_create(def, bodies, qpc_world_positions(w), qpc_world_node_count(w), &checker, &err), &err);
    qpc_check_report_init(&report);
    qpc_checker_state(checker, qpc_world_positions(w), &report);
    qpc_checker_destroy(checker);
    assert_int_equal(report.intersections, 0);
    assert_int_equal(report.undecided, 0);
    assert_true(report.least_ratio >= 1.0 - 1e-9);
}

/// Largest move against p; nodes beyond count are not looked at.
static double largest_move(const qpc_world *w, int32_t body, const double *p, int32_t n) {
    const double *x = qpc_world_positions(w) + 3 * qpc_world_body(w, body).first_node;
    double most = 0.0;
    for (int32_t i = 0; i < n; i++) most = fmax(most, v3_norm(v3_sub(v3_load(x + 3 * i), v3_load(p + 3 * i))));
    return most;
}

static void a_cable_that_dips_through_a_sheet_comes_back(void **state) {
    (void)state;
    double p[3 * 9];
    char text[4096];
    for (int32_t i = 0; i < 9; i++) {
        p[3 * i] = -0.2 + 0.05 * i;
        p[3 * i + 1] = 0.012 * (abs(i - 4) - 2);
        p[3 * i + 2] = 0.1;
    }
    size_t used = (size_t)snprintf(text, sizeof text, "{'start':'push-out','bodies':[");
    used += put_cable(text + used, sizeof text - used, "rope", 0.01, p, 9);
    snprintf(text + used, sizeof text - used, "," FLOOR "],'constraints':[{'kind':'fixed','body':'rope','nodes':[0]}]}");
    qpc_world *w = NULL;
    qpc_error err = {0};
    qpc_scene_report report;
    assert_ok(world_of(text, &w, &report, &err), &err);
    assert_true(report.overlap_count > 0);
    assert_true(report.moved_count > 0 && report.moved_count <= 7);
    assert_separated(w);
    const double *x = qpc_world_positions(w);
    for (int32_t i = 0; i < 9; i++) assert_true(x[3 * i + 1] >= 0.01);
    assert_true(memcmp(x, p, 3 * sizeof(double)) == 0); // fixed
    double most = largest_move(w, 0, p, 9);
    assert_near(report.largest_move, most, 0.0);
    assert_near(most, 0.034, 1e-4); // straight up, by no more than it takes
    qpc_world_destroy(w);
}

static void a_cable_that_hangs_through_a_sheet_goes_to_the_nearer_side(void **state) {
    (void)state;
    // All but the last two nodes are below: those come down.
    double p[3 * 6];
    char text[4096];
    for (int32_t i = 0; i < 6; i++) {
        p[3 * i] = 0.3;
        p[3 * i + 1] = 0.014 - 0.02 * i;
        p[3 * i + 2] = 0.2;
    }
    size_t used = (size_t)snprintf(text, sizeof text, "{'start':'push-out','bodies':[");
    used += put_cable(text + used, sizeof text - used, "rope", 0.01, p, 6);
    snprintf(text + used, sizeof text - used, "," FLOOR "]}");
    qpc_world *w = NULL;
    qpc_error err = {0};
    qpc_scene_report report;
    assert_ok(world_of(text, &w, &report, &err), &err);
    assert_separated(w);
    assert_true(qpc_world_positions(w)[1] < 0.0);
    assert_near(report.largest_move, 0.024, 1e-4);
    assert_int_equal(report.moved_count, 2);
    qpc_world_destroy(w);
}

static void cables_on_top_of_one_another_part_evenly(void **state) {
    (void)state;
    double p[3 * 12];
    char text[8192];
    for (int32_t i = 0; i < 12; i++) { // a helix, so that no one direction does for all
        p[3 * i] = 0.1 * cos(0.5 * i);
        p[3 * i + 1] = 0.04 * i + 1.0;
        p[3 * i + 2] = 0.1 * sin(0.5 * i);
    }
    size_t used = (size_t)snprintf(text, sizeof text, "{'start':'push-out','bodies':[");
    used += put_cable(text + used, sizeof text - used, "a", 0.01, p, 12);
    used += (size_t)snprintf(text + used, sizeof text - used, ",");
    used += put_cable(text + used, sizeof text - used, "b", 0.01, p, 12);
    snprintf(text + used, sizeof text - used, "]}");
    qpc_world *w = NULL;
    qpc_error err = {0};
    qpc_scene_report report;
    assert_ok(world_of(text, &w, &report, &err), &err);
    assert_separated(w);
    assert_int_equal(report.moved_count, 24);
    assert_true(report.largest_move < 0.02);
    qpc_world_destroy(w);
}

static void a_cable_in_the_plane_of_a_sheet_goes_to_its_outer_side(void **state) {
    (void)state;
    double p[3 * 7];
    char text[4096];
    for (int32_t i = 0; i < 7; i++) {
        p[3 * i] = -0.3 + 0.1 * i;
        p[3 * i + 1] = 0.0;
        p[3 * i + 2] = 0.05 * i;
    }
    size_t used = (size_t)snprintf(text, sizeof text, "{'start':'push-out','bodies':[");
    used += put_cable(text + used, sizeof text - used, "rope", 0.01, p, 7);
    snprintf(text + used, sizeof text - used, "," FLOOR "]}");
    qpc_world *w = NULL;
    qpc_error err = {0};
    qpc_scene_report report;
    assert_ok(world_of(text, &w, &report, &err), &err);
    assert_separated(w);
    for (int32_t i = 0; i < 7; i++) assert_near(qpc_world_positions(w)[3 * i + 1], 0.01, 1e-4);
    qpc_world_destroy(w);
}

static void what_the_bound_does_not_allow_is_refused_with_what_is_left(void **state) {
    (void)state;
    double p[3 * 9];
    char text[4096];
    for (int32_t i = 0; i < 9; i++) {
        p[3 * i] = -0.2 + 0.05 * i;
        p[3 * i + 1] = 0.012 * (abs(i - 4) - 2);
        p[3 * i + 2] = 0.1;
    }
    size_t used = (size_t)snprintf(text, sizeof text, "{'start':'push-out','start_push_limit':0.03,'bodies':[");
    used += put_cable(text + used, sizeof text - used, "rope", 0.01, p, 9);
    snprintf(text + used, sizeof text - used, "," FLOOR "]}");
    qpc_world *w = NULL;
    qpc_error err = {0};
    qpc_scene_report report;
    assert_fails(world_of(text, &w, &report, &err), QPC_ERR_INVALID, &err, "start_push_limit");
    assert_non_null(strstr(err.message, "rope"));
    assert_non_null(strstr(err.message, "floor"));
    assert_string_equal(err.where, "start");
    assert_true(report.stuck_count > 0 && report.pair_count > 0 && report.pair[0].depth > 0.0);
}

static void of_rigid_bodies_it_says_that_they_are_not_moved(void **state) {
    (void)state;
#define RIGID(name, y) "{'kind':'rigid','name':'" name "','mesh':{'sha256':'@'},'mass':1,'inertia':[1,1,1],'radius':0.1,'position':[0," y ",0]}"
    qpc_world *w = NULL;
    qpc_error err = {0};
    qpc_scene_report report;
    assert_fails(world_of("{'start':'push-out','bodies':[" RIGID("a", "5") "," RIGID("b", "5.05") "]}", &w, &report, &err), QPC_ERR_INVALID, &err,
                 "rigid bodies are not moved; nothing here can be pushed out");
    assert_null(strstr(err.message, "0 m"));
}

/// A cable of 20 m, half of it below the floor: it meets it where y = 0, and 10 m is no depth of anything.
static void what_intersects_is_named_with_the_place(void **state) {
    (void)state;
    double p[] = {0.5, 10, -0.25, 0.5, -10, -0.25};
    char text[1024];
    size_t used = (size_t)snprintf(text, sizeof text, "{'bodies':[");
    used += put_cable(text + used, sizeof text - used, "rope", 0.01, p, 2);
    snprintf(text + used, sizeof text - used, "," FLOOR "]}");
    qpc_world *w = NULL;
    qpc_error err = {0};
    qpc_scene_report report;
    assert_fails(world_of(text, &w, &report, &err), QPC_ERR_INVALID, &err, "body 0 (rope) between its nodes 0 and 1 meets body 1 (floor) triangle ");
    assert_non_null(strstr(err.message, "at (0.5, 0, -0.25)"));
    assert_null(strstr(err.message, "10 m"));
    double q[] = {0, 1, 0.25, 0, 1, -0.25, -0.5, 1, 0, 0.5, 1, 0};
    used = (size_t)snprintf(text, sizeof text, "{'bodies':[");
    used += put_cable(text + used, sizeof text - used, "rope", 0.01, q, 2);
    text[used++] = ',';
    used += put_cable(text + used, sizeof text - used, "cord", 0.01, q + 6, 2);
    snprintf(text + used, sizeof text - used, "]}");
    assert_fails(world_of(text, &w, &report, &err), QPC_ERR_INVALID, &err, "body 0 (rope) meets body 1 (cord) between their nodes 0, 1 and 0, 1");
}

/// A node 3 cm inside a ball of 10 cm; then an edge whose middle is 9 cm inside, and no node of it.
static void what_is_inside_an_obstacle_is_named(void **state) {
    (void)state;
    static const char *const BALL = ",{'kind':'obstacle','name':'ball','shape':{'kind':'sphere','radius':0.1}}]}";
    double node[] = {0.07, 0, 0, 0.5, 0, 0}, edge[] = {-0.5, 0.01, 0, 0.5, 0.01, 0};
    qpc_world *w = NULL;
    qpc_error err = {0};
    qpc_scene_report report;
    for (int k = 0; k < 2; k++) {
        char text[1024];
        size_t used = (size_t)snprintf(text, sizeof text, "{'bodies':[");
        used += put_cable(text + used, sizeof text - used, "rope", 0.01, k == 0 ? node : edge, 2);
        snprintf(text + used, sizeof text - used, "%s", BALL);
        assert_fails(world_of(text, &w, &report, &err), QPC_ERR_INVALID, &err,
                     k == 0 ? "body 0 (rope) node 0 is 0.03 m inside body 1 (ball)" : "body 0 (rope) edge between nodes 0 and 1 is 0.09 m inside body 1 (ball)");
        assert_int_equal(report.overlap_count, 1);
        assert_int_equal(report.pair[0].feature[1], k);
    }
}

static void a_start_that_is_fine_keeps_its_bits(void **state) {
    (void)state;
    qpc_world *w = NULL, *v = NULL;
    qpc_error err = {0};
    qpc_scene_report report;
    assert_ok(world_of("{'start':'push-out','bodies':[" CABLE "," FLOOR "]}", &w, &report, &err), &err);
    assert_int_equal(report.moved_count, 0);
    assert_true(report.largest_move == 0.0);
    assert_int_equal(report.warning_count, 0);
    assert_ok(world_of("{'bodies':[" CABLE "," FLOOR "]}", &v, &report, &err), &err);
    assert_memory_equal(qpc_world_positions(w), qpc_world_positions(v), 9 * sizeof(double));
    qpc_world_destroy(w);
    qpc_world_destroy(v);
}

static void a_cable_through_a_sheet_near_its_rim_leaves_past_it(void **state) {
    (void)state;
    double p[3 * 5];
    char text[4096];
    for (int32_t i = 0; i < 5; i++) { // both ends are far away on either side
        p[3 * i] = 0.985;
        p[3 * i + 1] = 0.5 - 0.2 * i;
        p[3 * i + 2] = 0.1;
    }
    size_t used = (size_t)snprintf(text, sizeof text, "{'start':'push-out','bodies':[");
    used += put_cable(text + used, sizeof text - used, "rope", 0.01, p, 5);
    snprintf(text + used, sizeof text - used, "," FLOOR "]}");
    qpc_world *w = NULL;
    qpc_error err = {0};
    qpc_scene_report report;
    assert_ok(world_of(text, &w, &report, &err), &err);
    assert_separated(w);
    assert_int_equal(report.moved_count, 2);
    assert_near(report.largest_move, 0.025, 1e-4);
    qpc_world_destroy(w);
    for (int32_t i = 0; i < 5; i++) p[3 * i] = 0.9; // too far from the rim
    used = (size_t)snprintf(text, sizeof text, "{'start':'push-out','bodies':[");
    used += put_cable(text + used, sizeof text - used, "rope", 0.01, p, 5);
    snprintf(text + used, sizeof text - used, "," FLOOR "]}");
    assert_fails(world_of(text, &w, &report, &err), QPC_ERR_INVALID, &err, "start_push_limit");
}

static void separating_survives_every_failing_allocation(void **state) {
    (void)state;
    qpc_mesh *mesh = floor_mesh();
    qpc_value scene = scene_of("{'start':'push-out','bodies':[{'kind':'cable','name':'a','mass':0.1,'stiffness':1000,'radius':0.01,"
                               "'nodes':[[0,0.02,0.1],[0.1,-0.01,0.1],[0.2,0.02,0.1]]},{'kind':'cable','name':'b','mass':0.1,"
                               "'stiffness':1000,'radius':0.01,'nodes':[[0.1,-0.01,0.05],[0.1,-0.01,0.15]]}," FLOOR "]}", mesh);
    qpc_world_env env = {.user = mesh, .mesh_lookup = lookup};
    qpc_scene_report report;
    QPC_FAULTS(f) {
        qpc_world *w = NULL;
        qpc_error err = {0};
        if (qpc_faults_ended(&f, qpc_world_create(&scene, &env, &w, &report, &err))) {
            assert_true(report.moved_count > 0);
            assert_separated(w);
            qpc_world_destroy(w);
        }
    }
    qpc_value_fini(&scene);
    qpc_mesh_unref(mesh);
}

static void a_pellet_on_a_sheet_and_cables_that_meet_in_a_point_part(void **state) {
    (void)state;
    qpc_world *w = NULL;
    qpc_error err = {0};
    qpc_scene_report report;
    // A particle exactly on the diagonal edge of the floor, and one exactly on a node of a cable.
    assert_ok(world_of("{'start':'push-out','bodies':[{'kind':'cable','name':'p','mass':1,'radius':0.02,'nodes':[[0.25,0,0.25]]},"
                       "{'kind':'cable','name':'q','mass':1,'radius':0.02,'nodes':[[0,1,0]]},"
                       "{'kind':'cable','name':'r','mass':1,'stiffness':10,'radius':0.02,'nodes':[[-0.1,1,0],[0,1,0],[0.1,1,0]]},"
                       "{'kind':'cable','name':'s','mass':1,'stiffness':10,'radius':0.02,'nodes':[[0.05,1,-0.1],[0.05,1,0.1]]}," FLOOR
                       "]}", &w, &report, &err), &err);
    assert_separated(w);
    assert_near(qpc_world_positions(w)[1], 0.02, 1e-4);
    qpc_world_destroy(w);
}

static void keys_of_the_start_are_checked(void **state) {
    (void)state;
    qpc_world *w = NULL;
    qpc_error err = {0};
    assert_fails(world_of("{'start':'push','bodies':[" CABLE "]}", &w, NULL, &err), QPC_ERR_INVALID, &err, "push-out");
    assert_fails(world_of("{'start':'push-out','start_push_limit':0,'bodies':[" CABLE "]}", &w, NULL, &err), QPC_ERR_INVALID, &err,
                 "greater than 0");
    assert_fails(world_of("{'start_push_limit':0.1,'bodies':[" CABLE "]}", &w, NULL, &err), QPC_ERR_INVALID, &err, "push-out");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cable_that_dips_through_a_sheet_comes_back),
        cmocka_unit_test(a_cable_that_hangs_through_a_sheet_goes_to_the_nearer_side),
        cmocka_unit_test(cables_on_top_of_one_another_part_evenly),
        cmocka_unit_test(a_cable_in_the_plane_of_a_sheet_goes_to_its_outer_side),
        cmocka_unit_test(what_the_bound_does_not_allow_is_refused_with_what_is_left),
        cmocka_unit_test(what_intersects_is_named_with_the_place),
        cmocka_unit_test(what_is_inside_an_obstacle_is_named),
        cmocka_unit_test(of_rigid_bodies_it_says_that_they_are_not_moved),
        cmocka_unit_test(a_start_that_is_fine_keeps_its_bits),
        cmocka_unit_test(a_cable_through_a_sheet_near_its_rim_leaves_past_it),
        cmocka_unit_test(separating_survives_every_failing_allocation),
        cmocka_unit_test(a_pellet_on_a_sheet_and_cables_that_meet_in_a_point_part),
        cmocka_unit_test(keys_of_the_start_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
