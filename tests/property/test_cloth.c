// Cloth in worlds: against closed forms, against the promise, and against itself.
#include "tests/property/simulation.h"

#include <math.h>
#include <stdlib.h>

#define GRID(columns, rows, width, depth)                                                          \
    "'mesh': {'generate': {'kind': 'grid', 'columns': " #columns ", 'rows': " #rows                \
    ", 'width': " #width ", 'depth': " #depth "}}"

typedef struct worst {
    double natural, drift, step, speed, strain;
    int64_t halvings, failsafe, contacts, unproven, passes, newton, bad;
} worst;
static void run(simulation *sim, int steps, worst *w) {
    for (int i = 0; i < steps; i++) {
        simulation_step(sim, 1);
        const qpc_step_report *r = &sim->report;
        w->natural = fmax(w->natural, r->natural_ratio);
        w->drift = fmax(w->drift, r->energy_drift);
        w->step = fmax(w->step, r->energy_step);
        w->speed = fmax(w->speed, r->max_speed);
        w->strain = fmax(w->strain, r->max_strain);
        w->halvings += r->halvings;
        w->failsafe += r->failsafe;
        w->passes += r->passes;
        w->newton += r->newton;
        w->unproven += 1 - r->proven;
        w->bad += r->outcome != QPC_STEP_OPTIMAL;
        if (r->contacts > w->contacts) w->contacts = r->contacts;
        if (getenv("QPC_TEST_VERBOSE") != NULL)
            print_message("%4lld: rows %lld active %lld it %lld passes %lld newton %lld halvings %lld failsafe %lld outcome %lld engine %lld "
                          "speed %.3g strain %.3g gap %.4f drift %.1e, ms: all %.2f assemble %.2f detect %.2f rows %.2f solve %.2f certify %.2f\n",
                          (long long)r->step, (long long)r->rows, (long long)r->active, (long long)r->solver_iterations, (long long)r->passes, (long long)r->newton,
                          (long long)r->halvings, (long long)r->failsafe, (long long)r->outcome, (long long)r->engine, r->max_speed, r->max_strain, r->min_gap,
                          r->energy_drift, 1e-6 * (double)r->ns_total, 1e-6 * (double)r->ns_assemble, 1e-6 * (double)r->ns_detect,
                          1e-6 * (double)r->ns_rows, 1e-6 * (double)r->ns_solve, 1e-6 * (double)r->ns_certify);
    }
}

static void cloth_falls_on_a_sphere(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    simulation_start(&sim, "{'dt': 0.005, 'bodies': [{'kind': 'cloth', " GRID(12, 12, 1, 1) ", 'position': [0, 0.35, 0],"
                           "'area_density': 0.2, 'membrane_stiffness': 500, 'bending_stiffness': 0.5, 'radius': 0.004},"
                           "{'kind': 'static', 'mesh': {'generate': {'kind': 'sphere', 'radius': 0.3}}}]}");
    run(&sim, 150, &w);
    print_message("contacts %lld halvings %lld failsafe %lld bad %lld penetration %.4f drift %.2e strain %.3f\n", (long long)w.contacts, (long long)w.halvings,
                  (long long)w.failsafe, (long long)w.bad, sim.w.found.worst_penetration, w.drift, w.strain);
    assert_true(w.contacts > 20);
    assert_true(sim.w.found.worst_penetration <= 0.05);
    assert_int_equal(w.unproven, 0);
    simulation_end(&sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cloth_falls_on_a_sphere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
