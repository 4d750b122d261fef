/// Random worlds that are pressed and pulled at: what may come of it, from the orders and the scene alone. Energy is not gained (T6), pushing
/// out does no more than all that is free has at the speed of pushing out, and under a plate no gap falls below 0.9 of the thickness in
/// cables that cross. Argument: full (hundreds of worlds), else those that broke these promises once.
#include "tests/property/press_world.h"
#include "tests/property/simulation.h"

#include <math.h>

static bool full;

/// Mass of all that is free, kg. (Cables only.)
static double free_mass(const simulation *sim) {
    double mass = 0;
    for (int32_t i = 0; i < qpc_world_node_count(sim->w.world); i++) mass += qpc_world_masses(sim->w.world)[i];
    return mass;
}

static void run(press_kind kind, uint64_t seed) {
    static press_world p;
    simulation sim;
    char control[512];
    press_world_make(kind, seed, &p);
    simulation_start(&sim, p.text);
    double pushed = 0, recovery = 0.5 * free_mass(&sim) * 0.2 * 0.2;
    for (int i = 0; i < (full || kind != PRESS_CROSSING ? p.steps : 60); i++) {
        if (press_world_control(&p, control, sizeof control)) simulation_control(&sim, control);
        simulation_step(&sim, 1);
        const qpc_step_report *r = &sim.report;
        if (!(r->energy_step <= 1e-6 && r->energy_drift <= 1e-6))
            print_message("%s %d, step %lld: energy %g, drift %g\n", press_kind_name(kind), (int)seed, (long long)r->step, r->energy_step, r->energy_drift);
        assert_int_equal(r->proven, 1);
        assert_true(r->energy_step <= 1e-6 && r->energy_drift <= 1e-6);
        if (kind == PRESS_CROSSING) { // a step made in parts may push in each of them
            assert_true(r->min_gap > 0.9);
            assert_true(r->max_speed <= press_world_speed(&p));
            assert_true(r->work_pushed - pushed <= 8 * (recovery + 1e-3 * r->energy_scale));
        }
        pushed = r->work_pushed;
    }
    simulation_end(&sim);
}

static void limits_that_give_way_gain_nothing(void **state) {
    (void)state;
    static const uint64_t BROKE[] = {17, 28, 84, 141};
    for (size_t k = 0; k < sizeof BROKE / sizeof *BROKE && !full; k++) run(PRESS_LIMITS, BROKE[k]);
    for (uint64_t seed = 1; seed <= 200 && full; seed++) run(PRESS_LIMITS, seed);
}

static void pushing_out_stays_within_bounds(void **state) {
    (void)state;
    run(PRESS_CROSSING, 64);
    for (uint64_t seed = 1; seed <= 60 && full; seed++) run(PRESS_CROSSING, seed);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(limits_that_give_way_gain_nothing), cmocka_unit_test(pushing_out_stays_within_bounds)};
    full = argc > 1 && strcmp(argv[1], "full") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
