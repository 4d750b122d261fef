/// Budgets on random small worlds: cables, sheets and rigid bodies that are driven by pins and plates, slide, fall and lie. What a
/// step spends, how near things come, what is gained, how fast it is, and whether it still moves.
///
///     test_budget_worlds [report [SEEDS]]
#include "engine/world/world.h"
#include "tests/property/random_world.h"
#include "tests/property/simulation.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const int BUDGETS[] = {0, 1, 2, 5, 10, 20, 50};
enum { BUDGET_COUNT = sizeof BUDGETS / sizeof *BUDGETS, STEPS = 80 };
static const double DT = 0.005;

typedef enum family { PIN, PRESS_CABLES, PRESS_SHEETS, SLIDE_CABLE, SLIDE_SHEET, STACK, DROP, MIXED, FAMILY_COUNT } family;
static const char *const NAMES[] = {"pin", "press-cables", "press-sheets", "slide-cable", "slide-sheet", "stack", "drop", "mixed"};

typedef struct written {
    char text[16384];
    size_t used;
    double speed; // m/s, that the orders, gravity and the height there is explain
    char control[256];
} written;

__attribute__((format(printf, 2, 3))) static void say(written *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    s->used += (size_t)vsnprintf(s->text + s->used, sizeof s->text - s->used, format, args);
    va_end(args);
}

#define BOX "'mesh': {'generate': {'kind': 'box', 'width': %g, 'height': %g, 'depth': %g}}"

static void begin(written *s, int budget, double friction, double gx, double gy) {
    say(s, "{'dt': %g, 'gravity': [%.17g, %.17g, 0], 'solver': {'budget': %d}, 'contacts': {'friction': %g}, ", DT, gx, gy, budget, friction);
}

static void floor_of(written *s) { say(s, "'bodies': [{'name': 'floor', 'kind': 'static', 'position': [0, -0.1, 0], 'radius': 0.001, " BOX "}", 4.0, 0.2, 4.0); }

static void sheet(written *s, double y, double turn, int cells) {
    say(s, ", {'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': %d, 'width': 0.5}}, 'position': [%g, %g, 0], 'rotation': [%g, 0, %g, 0],"
           "'radius': 0.01, 'area_density': 0.3, 'membrane_stiffness': 500, 'bending_stiffness': 0.01}", cells, 0.05 * turn, y, cos(turn), sin(turn));
}

static void write_world(written *s, family f, uint64_t seed, int budget) {
    random_source r = {seed * 77 + (uint64_t)f};
    double mu = random_chance(&r, 0.5) ? random_real(&r, 0.1, 0.5) : 0.0, u = random_real(&r, 0.05, 0.5), radius = random_real(&r, 0.008, 0.015);
    *s = (written){.speed = u};
    switch (f) {
    case PIN:
        begin(s, budget, mu, 0, -9.81);
        say(s, "'constraints': [{'kind': 'fixed', 'body': 'c', 'nodes': [0, -1]}], 'bodies': [{'kind': 'static', 'mesh': {'generate': {'kind': 'sphere', 'radius': 0.15, 'triangles': 320}}, 'position': [0, -0.16, 0]},"
               "{'name': 'c', 'kind': 'cable', 'mass': 0.05, 'stiffness': %g, 'radius': %g, 'nodes': {'generate': {'kind': 'line', 'from': [-0.4, 0.02, 0.01], 'to': [0.4, 0.02, 0.03], 'count': 30}}}]}",
            random_log(&r, 100, 1e4), radius);
        u *= 2;
        snprintf(s->control, sizeof s->control, "{'targets': [{'body': 'c', 'node': 0, 'velocity': [%g, %g, %g]}]}", random_real(&r, -0.5 * u, 0.3 * u), -u, random_real(&r, -u, u));
        s->speed = 4 * u + 3;
        return;
    case PRESS_CABLES: {
        int cables = random_int(&r, 1, 3);
        begin(s, budget, mu, 0, -9.81);
        floor_of(s);
        say(s, ", {'name': 'plate', 'kind': 'kinematic', 'position': [0, %.17g, 0], 'velocity': [0, %g, 0], 'radius': 0.001, " BOX "}", 0.1 + 0.008 + (cables == 1 ? 2 : 4) * radius, -u, 1.0, 0.2, 1.0);
        for (int k = 0; k < cables; k++) {
            double y = radius + 0.0015 + (k == 1 ? 2 * radius + 0.001 : 0), z = k == 2 ? -0.06 : 0;
            if (k == 1) say(s, ", {'kind': 'cable', 'mass': 0.01, 'stiffness': 1e4, 'radius': %g, 'nodes': {'generate': {'kind': 'line', 'from': [0.01, %g, -0.4], 'to': [-0.01, %g, 0.4], 'count': 40}}}", radius, y, y);
            else say(s, ", {'kind': 'cable', 'mass': 0.01, 'stiffness': 1e4, 'radius': %g, 'nodes': {'generate': {'kind': 'line', 'from': [-0.4, %g, %g], 'to': [0.4, %g, %g], 'count': 40}}}", radius, y, z, y, z + 0.02);
        }
        say(s, "]}");
        s->speed = 4 * u + sqrt(2 * 2 * radius * u / DT) + 1;
        return;
    }
    case PRESS_SHEETS:
        begin(s, budget, mu, 0, -9.81);
        floor_of(s);
        say(s, ", {'name': 'plate', 'kind': 'kinematic', 'position': [0, %.17g, 0], 'velocity': [0, %g, 0], 'radius': 0.001, " BOX "}", 0.1 + 0.012 + 0.044, -u, 1.0, 0.2, 1.0);
        sheet(s, 0.012, 0, 6);
        sheet(s, 0.033, random_real(&r, 0, 0.8), 6);
        say(s, "]}");
        s->speed = 4 * u + sqrt(2 * 0.02 * u / DT) + 1;
        return;
    case SLIDE_CABLE:
    case SLIDE_SHEET: {
        double a = 0.5;
        begin(s, budget, 0.3, 9.81 * sin(a), -9.81 * cos(a));
        floor_of(s);
        if (f == SLIDE_SHEET) sheet(s, 0.0111, random_real(&r, 0, 0.8), 7);
        else say(s, ", {'kind': 'cable', 'mass': 0.05, 'stiffness': 1e3, 'radius': 0.01, 'nodes': {'generate': {'kind': 'line', 'from': [-0.2, 0.0111, 0], 'to': [%g, 0.0111, %g], 'count': 20}}}", random_real(&r, -0.2, 0.2), random_real(&r, 0.1, 0.3));
        say(s, "]}");
        s->speed = 9.81 * DT * STEPS * sin(a);
        return;
    }
    case STACK:
        begin(s, budget, 0.5, 0, -9.81);
        floor_of(s);
        for (int k = 0; k < 5; k++) say(s, ", {'kind': 'rigid', " BOX ", 'radius': 0.001, 'density': 500, 'position': [%g, %.17g, 0]}", 0.1, 0.1, 0.1, random_real(&r, -0.005, 0.005), 0.0521 + k * 0.1021);
        say(s, "]}");
        s->speed = 0.3;
        return;
    case DROP:
    case MIXED:
        begin(s, budget, mu, 0, -9.81);
        if (f == MIXED) say(s, "'constraints': [{'kind': 'fixed', 'body': 'sheet', 'nodes': [0, 5, 30, -1]}], ");
        floor_of(s);
        if (f == MIXED)
            say(s, ", {'name': 'sheet', 'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 6, 'width': 0.5}}, 'position': [0, 0.3, 0], 'radius': 0.01, 'area_density': 0.3, 'membrane_stiffness': 500, 'bending_stiffness': 0.01}");
        for (int k = 0; k < 4; k++) {
            double a = random_real(&r, -0.5, 0.5);
            say(s, ", {'kind': 'rigid', " BOX ", 'radius': 0.002, 'density': 300, 'position': [%g, %g, %g], 'rotation': [%g, %g, 0, 0], 'velocity': [0, %g, 0], 'angular_velocity': [%g, 0, %g]}", 0.1, 0.06, 0.08,
                random_real(&r, -0.03, 0.03), (f == MIXED ? 0.42 : 0.12) + 0.16 * k, random_real(&r, -0.03, 0.03), cos(a), sin(a), -random_real(&r, 0, 1), random_real(&r, -3, 3), random_real(&r, -3, 3));
        }
        say(s, "]}");
        s->speed = 7;
        return;
    default: return;
    }
}

typedef struct figures {
    double gap, drift, step, speed, work, way; // way: mean of the free nodes, m
    int64_t over, failsafe, exhausted, still, missed;
} figures;

static double *free_nodes(const simulation *sim, int *count) { // positions, copied
    const qpc_world *w = sim->w.world;
    *count = w->live_count;
    double *copy = malloc(3 * (size_t)*count * sizeof *copy);
    memcpy(copy, qpc_world_positions(w), 3 * (size_t)*count * sizeof *copy);
    return copy;
}

static figures run(family f, uint64_t seed, int budget, double *moved, bool against) {
    static written s;
    simulation sim;
    figures g = {.gap = 2};
    write_world(&s, f, seed, budget);
    simulation_start(&sim, s.text);
    if (s.control[0] != 0) simulation_control(&sim, s.control);
    int n;
    double *first = free_nodes(&sim, &n), *before = free_nodes(&sim, &n);
    for (int k = 0; k < STEPS; k++) {
        simulation_step(&sim, 1);
        const qpc_step_report *r = &sim.report;
        const double *x = qpc_world_positions(sim.w.world);
        double way = 0;
        for (int i = 0; i < 3 * n; i++) way = fmax(way, fabs(x[i] - before[i]));
        memcpy(before, x, 3 * (size_t)n * sizeof *x);
        if (!against) moved[k] = way;
        else g.still += way < 1e-2 * moved[k] && moved[k] > 1e-4;
        int64_t spent = r->solver_iterations + r->set_changes;
        if (budget > 0 && spent - budget > g.over) g.over = spent - budget;
        g.gap = fmin(g.gap, r->min_gap);
        g.drift = fmax(g.drift, r->energy_drift);
        g.step = fmax(g.step, r->energy_step);
        g.speed = fmax(g.speed, r->max_speed / s.speed);
        g.work = fmax(g.work, fabs(r->work));
        g.failsafe += r->failsafe > 0;
        g.exhausted += r->exhausted;
        g.missed += r->friction_missed;
        if (getenv("EACH") != NULL)
            print_message("  %3d out %lld gap %.3g spent %lld ex %lld fs %lld way %.3g v %.3g work %.4g drift %.2g step %.2g contacts %lld miss %lld qps %lld it %lld set %lld lag %.3g\n", k, (long long)r->outcome, r->min_gap, (long long)spent, (long long)r->exhausted, (long long)r->failsafe,
                          way, r->max_speed, r->work, r->energy_drift, r->energy_step, (long long)r->contacts, (long long)r->friction_missed, (long long)r->qps, (long long)r->solver_iterations, (long long)r->set_changes, r->lag);
    }
    for (int i = 0; i < n; i++) {
        double d = 0;
        for (int a = 0; a < 3; a++) d += (before[3 * i + a] - first[3 * i + a]) * (before[3 * i + a] - first[3 * i + a]);
        g.way += sqrt(d) / n;
    }
    free(first);
    free(before);
    simulation_end(&sim);
    return g;
}

static void tell(int seeds, int only, int first_seed) {
    double moved[STEPS];
    print_message("%-13s %6s %9s %9s %9s %9s %9s %6s %5s %5s %5s %5s %5s\n", "family", "budget", "gap", "drift", "step", "speed", "work", "way", "over", "fs", "exh", "still", "miss");
    for (int f = 0; f < FAMILY_COUNT; f++) {
        figures worst[BUDGET_COUNT];
        if (only >= 0 && f != only) continue;
        for (int b = 0; b < BUDGET_COUNT; b++) worst[b] = (figures){.gap = 2};
        for (int seed = first_seed; seed < first_seed + seeds; seed++) {
            double way = 1;
            for (int b = 0; b < BUDGET_COUNT; b++) {
                if (getenv("BUDGET") != NULL && b > 0 && atoi(getenv("BUDGET")) != BUDGETS[b]) continue;
                if (getenv("EACH") != NULL) print_message("%s seed %d budget %d\n", NAMES[f], seed, BUDGETS[b]);
                figures g = run((family)f, (uint64_t)seed, BUDGETS[b], moved, b > 0);
                if (b == 0) way = g.way;
                figures *w = &worst[b];
                w->gap = fmin(w->gap, g.gap);
                w->drift = fmax(w->drift, g.drift);
                w->step = fmax(w->step, g.step);
                w->speed = fmax(w->speed, g.speed);
                w->work = fmax(w->work, g.work);
                w->way += g.way / way / seeds;
                w->over = g.over > w->over ? g.over : w->over;
                w->failsafe += g.failsafe;
                w->exhausted += g.exhausted;
                w->still += g.still;
                w->missed += g.missed;
            }
        }
        for (int b = 0; b < BUDGET_COUNT; b++)
            print_message("%-13s %6d %9.3g %9.2g %9.2g %9.3g %9.3g %6.3f %5lld %5lld %5lld %5lld %5lld\n", NAMES[f], BUDGETS[b], worst[b].gap, worst[b].drift, worst[b].step, worst[b].speed, worst[b].work, worst[b].way,
                          (long long)worst[b].over, (long long)worst[b].failsafe, (long long)worst[b].exhausted, (long long)worst[b].still, (long long)worst[b].missed);
    }
}

int main(int argc, char **argv) {
    tell(argc > 1 ? atoi(argv[1]) : 2, argc > 2 ? atoi(argv[2]) : -1, argc > 3 ? atoi(argv[3]) : 1);
    return 0;
}
