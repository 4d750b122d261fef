/// Budgets on the example scenes, with and without friction and restitution: what a step spends, and that nothing is crossed,
/// no energy gained, however little it may spend.
///
///     test_budgets [full]      without: pulley-1 alone, and few steps
#include "tests/property/simulation.h"

#include <math.h>

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

int main(int argc, char **argv) {
    full = argc > 1 && strcmp(argv[1], "full") == 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_budget_is_never_exceeded),
                                       cmocka_unit_test(a_world_gets_over_a_small_budget),
                                       cmocka_unit_test(a_run_under_a_budget_replays_exactly)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
