/// Scenes that keep what every one promises: steps counted, and at the end no crossing, 5 % of the thickness, the energy bound, proven
/// steps. QPC_TEST_VERBOSE=1 prints every step.
#ifndef QPC_TESTS_PROPERTY_PROMISED_H
#define QPC_TESTS_PROPERTY_PROMISED_H

#include "tests/property/simulation.h"

#include <math.h>
#include <stdlib.h>

typedef struct worst {
    double drift, step, strain, energy_lost;
    int64_t steps, halvings, failsafe, contacts, unproven, bad, passes, newton;
} worst;
static inline void note(worst *w, const qpc_step_report *r) {
    w->steps++;
    w->drift = fmax(w->drift, r->energy_drift);
    w->step = fmax(w->step, r->energy_step);
    w->strain = fmax(w->strain, r->max_strain);
    w->halvings += r->halvings;
    w->failsafe += r->failsafe;
    w->passes += r->passes;
    w->newton += r->newton;
    w->unproven += 1 - r->proven;
    w->bad += r->outcome != QPC_STEP_OPTIMAL;
    if (r->contacts > w->contacts) w->contacts = r->contacts;
    if (getenv("QPC_TEST_VERBOSE") == NULL) return;
    print_message("%4lld: rows %lld active %lld iterations %lld passes %lld newton %lld halvings %lld failsafe %lld outcome "
                  "%lld engine %lld speed %.3g strain %.3g gap %.4f drift %.1e; ms %.2f: assemble %.2f detect %.2f rows "
                  "%.2f solve %.2f certify %.2f\n",
                  (long long)r->step, (long long)r->rows, (long long)r->active, (long long)r->solver_iterations,
                  (long long)r->passes, (long long)r->newton, (long long)r->halvings, (long long)r->failsafe,
                  (long long)r->outcome, (long long)r->engine, r->max_speed, r->max_strain, r->min_gap, r->energy_drift,
                  1e-6 * (double)r->ns_total, 1e-6 * (double)r->ns_assemble, 1e-6 * (double)r->ns_detect,
                  1e-6 * (double)r->ns_rows, 1e-6 * (double)r->ns_solve, 1e-6 * (double)r->ns_certify);
}
static inline void run(simulation *sim, int steps, worst *w) {
    for (int i = 0; i < steps; i++) {
        simulation_step(sim, 1);
        note(w, &sim->report);
    }
}
/// What every scene promises: no crossing (simulation_end), 5 % of the thickness, the energy bound, proven steps.
static inline void end_promised(simulation *sim, const worst *w, int64_t least_contacts) {
    print_message("  %lld steps: contacts %lld passes %lld newton %lld halvings %lld failsafe %lld not optimal %lld penetration %.4f "
                  "drift %.1e strain %.3f\n",
                  (long long)w->steps, (long long)w->contacts, (long long)w->passes, (long long)w->newton, (long long)w->halvings,
                  (long long)w->failsafe, (long long)w->bad, sim->w.found.worst_penetration, w->drift, w->strain);
    assert_true(w->contacts >= least_contacts);
    assert_true(sim->w.found.worst_penetration <= 0.05);
    assert_true(w->drift <= 1e-6 && w->step <= 1e-6);
    assert_int_equal(w->unproven, 0);
    assert_int_equal(w->failsafe, 0);
    assert_true(w->halvings <= w->steps / 10);
    simulation_end(sim);
}

#endif
