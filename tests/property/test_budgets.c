/// Budgets on the example scenes, with and without friction and restitution: what a step spends, and that nothing is crossed,
/// no energy gained, however little it may spend.
///
///     test_budgets [full]      without: pulley-1 alone, and few steps
#include "tests/property/simulation.h"

#include <math.h>
#include <string.h>

static bool full;

static const char *const SCENES[] = {"pulley-1", "pulley-2", "pulley-funnel", "cylinder", "drum-turning",
                                     "pulley-1-ea", "pulley-1-strain", "pulley-funnel-strain"};
static const int BUDGETS[] = {1, 3, 10, 30, 100};
static const struct {
    double friction, restitution;
    const char *mode, *impacts;
} LAWS[] = {{0, 0, NULL, NULL},
            {0.3, 0, "exact", NULL},
            {0.3, 0, "staggered", NULL},
            {0.3, 0.5, "exact", "simultaneous"},
            {0.3, 0.5, "exact", "sequential"}};

static void set(qpc_value *map, const char *key, qpc_value v) {
    assert_int_equal(qpc_map_set(map, key, v), QPC_OK);
}

/// The map under that key, made if there is none.
static qpc_value *map_of(qpc_value *scene, const char *key) {
    if (qpc_map_get(scene, key) == NULL) set(scene, key, qpc_map());
    const qpc_value *found = qpc_map_get(scene, key);
    int32_t at = 0;
    while (&scene->map.pairs[at].value != found) at++;
    return &scene->map.pairs[at].value;
}

static void start(simulation *sim, const char *name, int law, int budget) {
    char path[512];
    qpc_error err = {0};
    qpc_scene_variant as_it_is = qpc_scene_variant_none();
    *sim = (simulation){.meshes = qpc_test_meshes_create()};
    (void)snprintf(path, sizeof path, "%s/%s.json", QPC_EXAMPLE_SCENES, name);
    assert_ok(qpc_test_scene_read(path, &as_it_is, sim->meshes, &sim->scene, &err), &err);
    qpc_value *contacts = map_of(&sim->scene, "contacts");
    set(contacts, "friction", qpc_real(LAWS[law].friction));
    set(contacts, "restitution", qpc_real(LAWS[law].restitution));
    qpc_value *solver = map_of(&sim->scene, "solver"); // may move the one above
    set(solver, "budget", qpc_int(budget));
    if (LAWS[law].mode != NULL) set(solver, "friction", qpc_text_borrow(LAWS[law].mode));
    if (LAWS[law].impacts != NULL) set(solver, "impact", qpc_text_borrow(LAWS[law].impacts));
    assert_ok(qpc_watched_create(&sim->scene, sim->meshes, &sim->w, NULL, &err), &err);
}

static void a_budget_is_never_exceeded(void **state) {
    (void)state;
    int64_t exhausted = 0, steps = 0;
    for (size_t s = 0; s < (full ? sizeof SCENES / sizeof *SCENES : 1); s++)
        for (int law = 0; law < (int)(sizeof LAWS / sizeof *LAWS); law++)
            for (size_t b = 0; b < sizeof BUDGETS / sizeof *BUDGETS; b++) {
                simulation sim;
                start(&sim, SCENES[s], law, BUDGETS[b]);
                for (int k = 0; k < (60); k++) {
                    simulation_step(&sim, 1);
                    const qpc_step_report *r = &sim.report;
                    int64_t spent = r->solver_iterations + r->set_changes;
                    if (spent > BUDGETS[b] || r->proven != 1 || !(r->energy_drift <= 1e-5))
                        print_message("%s, law %d, budget %d, step %d: spent %lld, proven %lld, energy %g\n", SCENES[s], law,
                                      BUDGETS[b], k, (long long)spent, (long long)r->proven, r->energy_drift);
                    assert_true(spent <= BUDGETS[b]);
                    assert_int_equal(r->proven, 1);
                    assert_true(r->energy_drift <= 1e-5);
                    exhausted += r->exhausted;
                    steps++;
                }
                simulation_end(&sim);
            }
    assert_true(exhausted > steps / 10);
    assert_true(exhausted < steps);
}

/// A cube that friction would hold on a plane: whatever it misses is the budget's doing, as without one it misses nothing.
static void friction_that_a_budget_costs_is_told(void **state) {
    (void)state;
    static const char *const modes[] = {"exact", "staggered"};
    static const int budgets[] = {2, 5};
    int64_t missed = 0;
    for (int k = 0; k < 4; k++) {
        simulation sim;
        char text[1024];
        (void)snprintf(text, sizeof text,
                       "{'dt': 0.005, 'contacts': {'friction': 0.3}, 'solver': {'friction': '%s', 'budget': %d}, 'bodies': [{'kind': 'obstacle', "
                       "'shape': {'kind': 'plane'}, 'rotation': [0.99688118, 0, 0, -0.07891783]}, {'kind': 'rigid', 'mesh': {'generate': "
                       "{'kind': 'box', 'width': 0.2, 'height': 0.2, 'depth': 0.2}}, 'mass': 25, 'radius': 0.01, "
                       "'position': [0.017323, 0.108729, 0], 'rotation': [0.99688118, 0, 0, -0.07891783]}]}", modes[k / 2], budgets[k % 2]);
        simulation_start(&sim, text);
        for (int n = 0; n < 60; n++) {
            simulation_step(&sim, 1);
            if (n == 0) continue; // cold, of 150 steps
            missed += sim.report.friction_missed;
            assert_true(sim.report.friction_missed <= sim.report.exhausted);
        }
        simulation_end(&sim);
    }
    assert_true(missed > 59);
}

static void a_run_under_a_budget_replays_exactly(void **state) {
    (void)state;
    for (int law = 1; law < (int)(sizeof LAWS / sizeof *LAWS); law++) {
        uint64_t hash[2];
        for (int run = 0; run < 2; run++) {
            simulation sim;
            start(&sim, "pulley-1", law, 17);
            simulation_step(&sim, 60);
            hash[run] = qpc_world_hash(sim.w.world);
            simulation_end(&sim);
        }
        assert_true(hash[0] == hash[1]);
    }
}

/// Cloth lands on a floor with fewer iterations than its 64 contacts need at once: what a step came to is where the next goes on
/// from, rows of the warm start cost nothing, and in the end the floor carries the weight within the budget.
static void a_world_gets_over_a_small_budget(void **state) {
    (void)state;
    static const char *const scenes[] = {
#define CLOTH(budget, friction)                                                                                                   \
    "{'dt': 0.005, 'solver': {'budget': " budget "}, 'contacts': {'friction': " friction "}, 'bodies': ["                         \
    "{'kind': 'static', 'mesh': {'generate': {'kind': 'sheet', 'width': 4, 'depth': 4}}},"                                        \
    "{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 8, 'width': 0.5}}, 'position': [0, 0.0201, 0],"           \
    "'radius': 0.02, 'area_density': 0.3, 'membrane_stiffness': 500, 'bending_stiffness': 0.1}]}"
        CLOTH("10", "0"), CLOTH("20", "0"), CLOTH("10", "0.3"), CLOTH("20", "0.3")};
    for (size_t k = 0; k < sizeof scenes / sizeof *scenes; k++) {
        simulation sim;
        int exhausted = 0, late = 0;
        simulation_start(&sim, scenes[k]);
        for (int i = 0; i < 100; i++) {
            simulation_step(&sim, 1);
            exhausted += sim.report.exhausted != 0;
            late += i >= 50 && sim.report.exhausted != 0;
            assert_true(sim.report.min_gap > 0.5);
        }
        int32_t count;
        double force = 0;
        const qpc_contact_info *c = qpc_world_contacts(sim.w.world, &count);
        for (int32_t i = 0; i < count; i++) force += c[i].force;
        if (k < 2) assert_true(exhausted > 0); // the landing did not fit
        assert_int_equal(late, 0);
        assert_near(force, 0.3 * 0.25 * 9.81, 1e-6);
        simulation_end(&sim);
    }
}

/// A sheet falls on a sphere and a cable beside it on the same floor, with and without a budget.
static void drop(simulation *sim, const char *budget, const char *friction) {
    char text[2048];
    (void)snprintf(text, sizeof text,
                   "{'dt': 0.005, 'solver': {'budget': %s}, 'contacts': {'friction': %s}, 'bodies': ["
                   "{'kind': 'static', 'mesh': {'generate': {'kind': 'sheet', 'width': 8, 'depth': 8}}},"
                   "{'kind': 'static', 'mesh': {'generate': {'kind': 'sphere', 'radius': 0.3, 'triangles': 320}}, 'position': [0, 0.3, 0]},"
                   "{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 14, 'rows': 14, 'width': 0.8}}, 'mass': 0.2,"
                   "'membrane_stiffness': 1000, 'radius': 0.008, 'position': [0.05, 0.65, 0.02]},"
                   "{'kind': 'cable', 'nodes': [[2, 0.3, 0], [2.1, 0.34, 0], [2.2, 0.38, 0], [2.3, 0.42, 0], [2.4, 0.46, 0]],"
                   "'radius': 0.01, 'mass': 0.05, 'stiffness': 1e4}]}",
                   budget, friction);
    simulation_start(sim, text);
}

/// What a step cannot solve is settled: it stays apart, loses energy, goes on moving; and what lies elsewhere does nearly
/// what it does without a budget, though they share a floor.
static void a_small_budget_does_not_freeze_a_world(void **state) {
    (void)state;
    static const char *const budgets[] = {"20", "40"}, *const laws[] = {"0", "0.3"};
    for (int law = 0; law < 2; law++) {
        double cable[120], sheet = 0;
        for (int run = -1; run < 2; run++) {
            simulation sim;
            int exhausted = 0, stood = 0;
            drop(&sim, run < 0 ? "0" : budgets[run], laws[law]);
            qpc_body_info cloth = qpc_world_body(sim.w.world, 2), rope = qpc_world_body(sim.w.world, 3);
            double before[3 * 196], centre = 0;
            for (int k = 0; k < 120; k++) {
                const double *x = qpc_world_positions(sim.w.world);
                memcpy(before, x + 3 * cloth.first_node, sizeof before);
                simulation_step(&sim, 1);
                const qpc_step_report *r = &sim.report;
                assert_int_equal(r->proven, 1);
                assert_int_equal(r->failsafe, 0);
                assert_true(r->energy_drift <= 1e-5);
                assert_true(r->min_gap > 0.29);
                exhausted += r->exhausted != 0;
                x = qpc_world_positions(sim.w.world);
                double moved = 0, height = 0;
                centre = 0;
                for (int i = 0; i < 3 * 196; i++) moved = fmax(moved, fabs(x[3 * cloth.first_node + i] - before[i]));
                for (int i = 0; i < 196; i++) centre += x[3 * (cloth.first_node + i) + 1] / 196;
                for (int i = 0; i < 5; i++) height += x[3 * (rope.first_node + i) + 1] / 5;
                // Once it is down, it may come to rest before the free edges have swung out.
                stood += moved < 1e-4 && (run < 0 || fabs(centre - sheet) > 0.005);
                if (run < 0) cable[k] = height;
                else assert_near(height, cable[k], 0.02);
            }
            if (run < 0) sheet = centre;
            else assert_near(centre, sheet, 0.1);
            assert_int_equal(stood, 0);
            if (run >= 0) assert_true(exhausted > 20);
            simulation_end(&sim);
        }
    }
}

/// A pin is led to and fro at 3 m/s, far past the limits of the cable. In steps out of budget what the limits store is work of the
/// pin, not energy from nowhere (0.9 of the scale once): all else stood.
static void what_limits_store_out_of_budget_is_work_of_the_pins(void **state) {
    (void)state;
    static const char *const limits[] = {"'min': 0.95", "'max': 1.0"}, *const budgets[] = {"5", "10"};
    int exhausted = 0;
    for (int run = 0; run < 4; run++) {
        char text[1024];
        simulation sim;
        (void)snprintf(text, sizeof text,
                       "{'dt': 0.005, 'solver': {'budget': %s}, 'bodies': [{'kind': 'cable', 'name': 'c', 'radius': 0.01, 'mass': 0.02, 'stiffness': 2000,"
                       "'nodes': {'generate': {'kind': 'line', 'from': [0, 0, 0], 'to': [1, 0, 0], 'count': 21}}}],"
                       "'constraints': [{'kind': 'fixed', 'body': 'c', 'nodes': [0, -1]}, {'kind': 'strain-limit', 'body': 'c', %s}]}",
                       budgets[run / 2], limits[run % 2]);
        simulation_start(&sim, text);
        for (int k = 0; k < 40; k++) {
            if (k == 0 || k == 10)
                simulation_control(&sim, k == 0 ? "{'targets': [{'body': 'c', 'node': -1, 'velocity': [-3, 0, 0]}]}"
                                                : "{'targets': [{'body': 'c', 'node': -1, 'velocity': [3, 0, 0]}]}");
            simulation_step(&sim, 1);
            exhausted += sim.report.exhausted != 0;
            assert_true(sim.report.energy_step <= 1e-6);
            assert_true(sim.report.energy_drift <= 1e-6);
        }
        simulation_end(&sim);
    }
    assert_true(exhausted > 10);
}

/// Three boxes on each other, in steps of three iterations: many end with the boxes made to stand, and have no multipliers of their
/// own. The floor carries the weight all the same.
static void boxes_that_stand_out_of_budget_weigh_what_they_weigh(void **state) {
    (void)state;
    simulation sim;
    int exhausted = 0;
    simulation_start(&sim, "{'dt': 0.005, 'solver': {'budget': 3}, 'bodies': ["
                           "{'kind': 'static', 'mesh': {'generate': {'kind': 'sheet', 'width': 30, 'depth': 30}}},"
#define BOX(y) "{'kind': 'rigid', 'mesh': {'generate': {'kind': 'box', 'width': 0.2, 'height': 0.2, 'depth': 0.2}}, 'density': 300, 'radius': 0.002, 'position': [0, " y ", 0]}"
                           BOX("0.102") "," BOX("0.306") "," BOX("0.51") "]}");
#undef BOX
    for (int k = 0; k < 200; k++) {
        simulation_step(&sim, 1);
        int32_t count;
        double force = 0;
        const qpc_contact_info *c = qpc_world_contacts(sim.w.world, &count);
        for (int32_t i = 0; i < count; i++) force += c[i].body[0] == 0 || c[i].body[1] == 0 ? c[i].force : 0;
        if (k >= 150) assert_near(force, 3 * 0.008 * 300 * 9.81, 0.5);
        exhausted += k >= 150 && sim.report.exhausted != 0 && sim.report.max_speed == 0;
    }
    assert_true(exhausted > 20);
    simulation_end(&sim);
}

int main(int argc, char **argv) {
    full = argc > 1 && strcmp(argv[1], "full") == 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_budget_is_never_exceeded),
                                       cmocka_unit_test(a_world_gets_over_a_small_budget),
                                       cmocka_unit_test(a_small_budget_does_not_freeze_a_world),
                                       cmocka_unit_test(what_limits_store_out_of_budget_is_work_of_the_pins),
                                       cmocka_unit_test(boxes_that_stand_out_of_budget_weigh_what_they_weigh),
                                       cmocka_unit_test(friction_that_a_budget_costs_is_told),
                                       cmocka_unit_test(a_run_under_a_budget_replays_exactly)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
