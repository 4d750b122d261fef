/// Presses: sheets and a cable between a floor and a plate that comes down all the same. Rows contradict in every step then; what such
/// a step may cost is stated in counts of work, and nothing is crossed.
#include "tests/property/simulation.h"

#include <math.h>

#define FLOOR "{'name':'floor','kind':'static','mesh':{'generate':{'kind':'box','width':4,'height':0.2,'depth':4}},'position':[0,-0.1,0]}"
#define PLATE(y, v)                                                                                                               \
    "{'name':'plate','kind':'kinematic','mesh':{'generate':{'kind':'box','width':1,'height':0.2,'depth':1}},'position':[0," y ",0],"  \
    "'velocity':[0," v ",0]}"
#define SHEET(name, nodes, width, radius, y)                                                                                      \
    "{'name':'" name "','kind':'cloth','mesh':{'generate':{'kind':'grid','columns':" nodes ",'rows':" nodes ",'width':" width "}},"   \
    "'mass':0.1,'membrane_stiffness':1000,'radius':" radius ",'position':[0," y ",0]}"

static const struct {
    const char *name, *bodies;
    int steps;
    int64_t changes, factorizations; // in a step, at most
} PRESSES[] = {
    {"two sheets", FLOOR "," PLATE("0.2", "-0.2") "," SHEET("s", "8", "0.5", "0.008", "0.0081") "," SHEET("t", "9", "0.45", "0.008", "0.03"), 76,
     3000, 1500},
    {"a cable on a sheet",
     FLOOR "," PLATE("0.25", "-0.1") "," SHEET("s", "10", "0.5", "0.01", "0.011") ",{'name':'c','kind':'cable','nodes':{'generate':{'kind':'line',"
     "'from':[-0.3,0.05,0],'to':[0.3,0.05,0.02],'count':30}},'mass':0.01,'stiffness':1e4,'radius':0.012}",
     262, 20000, 3000},
};

static void a_step_between_plates_costs_little(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof PRESSES / sizeof *PRESSES; k++) {
        char text[4096];
        simulation sim = {.meshes = qpc_test_meshes_create()};
        qpc_error err = {0};
        (void)snprintf(text, sizeof text, "{'dt':0.005,'gravity':[0,-9.81,0],'bodies':[%s]}", PRESSES[k].bodies);
        assert_ok(qpc_test_scene_text(text, sim.meshes, &sim.scene, &err), &err);
        assert_ok(qpc_watched_create(&sim.scene, sim.meshes, &sim.w, NULL, &err), &err);
        int32_t contradicting = 0;
        int64_t changes = 0, factorizations = 0;
        for (int i = 0; i < PRESSES[k].steps; i++) {
            qpc_step_report r;
            assert_ok(qpc_watched_step(&sim.w, &r, &err), &err);
            assert_int_equal(r.proven, 1);
            contradicting += r.conflicts > 0;
            changes = r.set_changes > changes ? r.set_changes : changes;
            factorizations = r.factorizations > factorizations ? r.factorizations : factorizations;
        }
        print_message("%s: %d steps contradict; at most %lld changes, %lld factorizations in a step\n", PRESSES[k].name, contradicting,
                      (long long)changes, (long long)factorizations);
        assert_true(contradicting > 0);
        assert_true(changes <= PRESSES[k].changes);
        assert_true(factorizations <= PRESSES[k].factorizations);
        assert_int_equal(sim.w.found.crossings + sim.w.found.intersections, 0);
        qpc_watched_fini(&sim.w);
        qpc_value_fini(&sim.scene);
        qpc_test_meshes_destroy(sim.meshes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_step_between_plates_costs_little)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
