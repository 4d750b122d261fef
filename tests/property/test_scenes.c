// Every example scene under the independent checker: `test_scenes quick` (seconds), `test_scenes full`
// (minutes), or `test_scenes full TEXT` for the cases whose name holds TEXT.
//
// Strict cases are the promise as the scenes are meant: no crossing, no intersection, penetration at
// most 5 % of the thickness, the fail-safe silent, the QP solved to 1e-7 r/dt, energy never gained,
// every number finite, at dt 1, 5 and 10 ms over 5 s (cables of 1,000 particles on drums: 2 s, at 1 ms half a second). Harsh cases are thin cables and fast starts: the
// fail-safe may fire and energy may be lost, but nothing may ever cross.
#include "tests/property/simulation.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#ifndef QPC_EXAMPLE_SCENES
#error "the folder of the example scenes"
#endif

typedef struct scene_case {
    const char *scene;
    double dt, seconds;
    double radius, speed; // 0 and NAN: as the scene says
    bool strict, quick;
} scene_case;

#define STRICT(name, dt) {name, dt, 5, 0, NAN, true, false}
#define DRUM(name, dt, seconds) {name, dt, seconds, 0, NAN, true, false} // by 5 s the light end would be at the drum
#define THIN(name, dt, radius) {name, dt, 5, radius, NAN, false, false}
#define FAST(name, dt, radius, speed, seconds) {name, dt, seconds, radius, speed, false, false}
#define QUICK(name, dt, seconds, radius, speed, strict)                                            \
    {name, dt, seconds, radius, speed, strict, true}
static const scene_case CASES[] = {
    QUICK("cylinder", 0.005, 2, 0, NAN, true),
    QUICK("pulley-1", 0.005, 0.4, 0, NAN, true),
    QUICK("pulley-2", 0.01, 0.4, 0, NAN, true),
    QUICK("pulley-1", 0.01, 0.15, 0.003, -50, false),
    QUICK("drum", 0.005, 0.08, 0, NAN, true),
    STRICT("pulley-1", 0.001),
    STRICT("pulley-1", 0.005),
    STRICT("pulley-1", 0.01),
    STRICT("pulley-2", 0.001),
    STRICT("pulley-2", 0.005),
    STRICT("pulley-2", 0.01),
    STRICT("pulley-funnel", 0.001),
    STRICT("pulley-funnel", 0.005),
    STRICT("pulley-funnel", 0.01),
    STRICT("cylinder", 0.001),
    STRICT("cylinder", 0.005),
    STRICT("cylinder", 0.01),
    STRICT("pulley-1-ea", 0.001),
    STRICT("pulley-1-ea", 0.005),
    STRICT("pulley-1-ea", 0.01),
    DRUM("drum", 0.001, 0.5),
    DRUM("drum", 0.005, 2),
    DRUM("drum", 0.01, 2),
    DRUM("drum-turning", 0.001, 0.5),
    DRUM("drum-turning", 0.005, 2),
    DRUM("drum-turning", 0.01, 2),
    DRUM("drum-flange", 0.001, 0.5),
    DRUM("drum-flange", 0.005, 2),
    DRUM("drum-flange", 0.01, 2),
    THIN("pulley-1", 0.005, 0.003),
    THIN("pulley-1", 0.01, 0.003),
    THIN("pulley-1", 0.01, 0.01),
    THIN("pulley-2", 0.01, 0.003),
    THIN("pulley-2", 0.01, 0.01),
    THIN("pulley-funnel", 0.01, 0.003),
    THIN("pulley-funnel", 0.01, 0.01),
    THIN("cylinder", 0.01, 0.003),
    FAST("pulley-1", 0.01, 0, -10, 1),
    FAST("pulley-1", 0.005, 0, -50, 1),
    FAST("pulley-1", 0.01, 0, -50, 1),
    FAST("pulley-1", 0.01, 0.003, -50, 1),
    FAST("pulley-2", 0.01, 0, -50, 1),
    FAST("pulley-2", 0.01, 0.01, -50, 1),
    FAST("pulley-funnel", 0.01, 0, -50, 1),
    FAST("pulley-funnel", 0.01, 0.003, -20, 1),
    FAST("cylinder", 0.01, 0, -50, 1),
    FAST("cylinder", 0.01, 0.003, -50, 1),
};
enum { CASE_COUNT = sizeof CASES / sizeof CASES[0] };

typedef struct worst { // of a run
    double natural_ratio, energy_drift, energy_step, err, cpu_s;
    double own_drift, own_step; // energy by this file's own arithmetic, over its own scale
    double own_differs;         // largest difference to the report's energy, over the scale
    int64_t failsafe, halvings, passes, newton, active, fallbacks, outcome;
    int64_t strange_step; // the first step with a number that is not finite, 0: none
} worst;

static void note_step(worst *w, const qpc_step_report *r) {
    w->natural_ratio = fmax(w->natural_ratio, r->natural_ratio);
    w->energy_drift = fmax(w->energy_drift, r->energy_drift);
    w->energy_step = fmax(w->energy_step, r->energy_step);
    w->err = fmax(w->err, r->err);
    w->failsafe += r->failsafe;
    w->halvings += r->halvings;
    w->fallbacks += r->fallbacks;
    if (r->passes > w->passes) w->passes = r->passes;
    if (r->newton > w->newton) w->newton = r->newton;
    if (r->active > w->active) w->active = r->active;
    if (r->outcome > w->outcome) w->outcome = r->outcome;
    bool finite = true;
#define CHECK_I(name) (void)r->name
#define CHECK_R(name) finite = finite && isfinite(r->name)
#define CHECK_FIELD(type, name, unit, text) CHECK_##type(name);
    QPC_STEP_FIELDS(CHECK_FIELD)
    if (!finite && w->strange_step == 0) w->strange_step = r->step;
}
static double cpu_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static void case_name(const scene_case *c, char *ret, size_t size) {
    int n = snprintf(ret, size, "%s dt %g ms %g s", c->scene, 1e3 * c->dt, c->seconds);
    if (c->radius > 0) n += snprintf(ret + n, size - (size_t)n, " r %g mm", 1e3 * c->radius);
    if (isfinite(c->speed)) (void)snprintf(ret + n, size - (size_t)n, " v %g m/s", c->speed);
}

// ---- energy, counted again from positions, velocities and the scene ----

typedef struct meter {
    int32_t springs;
    double *stiffness, *rest; // by spring, cable after cable
    double start, before, kinetic_start, elastic_most, low, high, scale, offset, work_before;
} meter;

// A number for all or a list of n; the default if the key is missing.
static void read_per(const qpc_value *map, const char *key, int32_t n, double *ret) {
    const qpc_value *v = qpc_map_get(map, key);
    double *data, one;
    int64_t rows;
    qpc_error err = {0};
    if (v == NULL) return;
    if (v->kind == QPC_LIST || v->kind == QPC_TENSOR) {
        assert_ok(qpc_read_matrix(v, key, 1, n, &data, &rows, &err), &err);
        assert_int_equal(rows, n);
        memcpy(ret, data, (size_t)n * sizeof *ret);
        qpc_free(data);
        return;
    }
    assert_ok(qpc_read_real(v, key, 0, 1e300, &one, &err), &err);
    for (int32_t i = 0; i < n; i++) ret[i] = one;
}
static double distance(const double *a, const double *b) {
    return sqrt((a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]) +
                (a[2] - b[2]) * (a[2] - b[2]));
}
// Energy now; parts are noted for the scale.
static double meter_energy(meter *m, const qpc_world *w, const double gravity[3]) {
    const double *x = qpc_world_positions(w), *v = qpc_world_velocities(w);
    const double *mass = qpc_world_masses(w);
    double kinetic = 0, potential = 0, elastic = 0, weight = 0;
    int32_t spring = 0;
    for (int32_t b = 0; b < qpc_world_body_count(w); b++) {
        qpc_body_info info = qpc_world_body(w, b);
        if (info.mesh != NULL) continue;
        for (int32_t i = info.first_node; i < info.first_node + info.node_count; i++) {
            kinetic += 0.5 * mass[i] * (v[3 * i] * v[3 * i] + v[3 * i + 1] * v[3 * i + 1] +
                                        v[3 * i + 2] * v[3 * i + 2]);
            double down = gravity[0] * x[3 * i] + gravity[1] * x[3 * i + 1] + gravity[2] * x[3 * i + 2];
            potential -= mass[i] * down;
            weight += mass[i]; // times a height in m2/s2, gravity included
            m->low = fmin(m->low, -down);
            m->high = fmax(m->high, -down);
            if (i + 1 == info.first_node + info.node_count) continue;
            double stretch = distance(x + 3 * i, x + 3 * i + 3) - m->rest[spring];
            elastic += 0.5 * m->stiffness[spring++] * stretch * stretch;
        }
    }
    m->elastic_most = fmax(m->elastic_most, elastic);
    m->scale = m->kinetic_start + weight * (m->high - m->low) + m->elastic_most;
    if (m->kinetic_start < 0) m->kinetic_start = kinetic;
    return kinetic + potential + elastic;
}
static void meter_start(meter *m, const qpc_value *scene, const qpc_world *w, const double gravity[3]) {
    *m = (meter){.kinetic_start = -1, .low = INFINITY, .high = -INFINITY};
    const double *x = qpc_world_positions(w);
    m->stiffness = calloc((size_t)qpc_world_node_count(w), sizeof *m->stiffness);
    m->rest = calloc((size_t)qpc_world_node_count(w), sizeof *m->rest);
    assert_true(m->stiffness != NULL && m->rest != NULL);
    for (int32_t b = 0; b < qpc_world_body_count(w); b++) {
        qpc_body_info info = qpc_world_body(w, b);
        const qpc_value *map = &qpc_map_get(scene, "bodies")->list.items[b];
        if (info.mesh != NULL) continue;
        int32_t n = info.node_count - 1;
        double *k = m->stiffness + m->springs, *rest = m->rest + m->springs;
        for (int32_t i = 0; i < n; i++)
            rest[i] = distance(x + 3 * (info.first_node + i), x + 3 * (info.first_node + i + 1));
        read_per(map, "rest_length", n, rest);
        read_per(map, "stiffness", n, k);
        if (qpc_map_get(map, "axial_stiffness") != NULL) {
            read_per(map, "axial_stiffness", n, k);
            for (int32_t i = 0; i < n; i++) k[i] /= rest[i];
        }
        m->springs += n;
    }
    m->start = m->before = meter_energy(m, w, gravity);
}
static void meter_step(meter *m, const qpc_world *w, const double gravity[3], const qpc_step_report *r,
                       worst *ret) {
    double now = meter_energy(m, w, gravity), done = r->work + r->work_pushed;
    double step = now - m->before - (done - m->work_before);
    ret->own_step = fmax(ret->own_step, step / m->scale);
    ret->own_drift = fmax(ret->own_drift, (now - m->start - done) / m->scale);
    // the report counts gravity from another zero: the difference must stay what it was
    double offset = r->kinetic + r->potential + r->elastic - now;
    if (r->step == 1) m->offset = offset;
    ret->own_differs = fmax(ret->own_differs, fabs(offset - m->offset) / m->scale);
    m->before = now;
    m->work_before = done;
}
static void meter_fini(meter *m) {
    free(m->stiffness);
    free(m->rest);
}

static void runs_without_crossing(void **state) {
    const scene_case *c = *state;
    char path[512], name[128];
    (void)snprintf(path, sizeof path, "%s/%s.json", QPC_EXAMPLE_SCENES, c->scene);
    case_name(c, name, sizeof name);
    qpc_scene_variant variant = qpc_scene_variant_none();
    variant.dt = c->dt;
    variant.cable_radius = c->radius;
    variant.cable_speed = c->speed;
    qpc_error err = {0};
    simulation sim = {.meshes = qpc_test_meshes_create()};
    assert_ok(qpc_test_scene_read(path, &variant, sim.meshes, &sim.scene, &err), &err);
    assert_ok(qpc_watched_create(&sim.scene, sim.meshes, &sim.w, NULL, &err), &err);
    worst w = {.energy_drift = -INFINITY, .energy_step = -INFINITY, .own_drift = -INFINITY,
               .own_step = -INFINITY};
    double gravity[3] = {0, -9.81, 0}, *g;
    int64_t rows;
    if (qpc_map_get(&sim.scene, "gravity") != NULL) {
        assert_ok(qpc_read_matrix(qpc_map_get(&sim.scene, "gravity"), "gravity", 3, 1, &g, &rows, &err),
                  &err);
        memcpy(gravity, g, sizeof gravity);
        qpc_free(g);
    }
    meter energy;
    meter_start(&energy, &sim.scene, sim.w.world, gravity);
    double start = cpu_now(), step_s = 0;
    int steps = (int)lround(c->seconds / c->dt);
    for (int i = 0; i < steps; i++) {
        double before = cpu_now();
        qpc_status status = qpc_world_step(sim.w.world, &sim.report, &err);
        step_s += cpu_now() - before;
        if (status != QPC_OK)
            fail_msg("%s: step %d: %s: %s", name, i + 1, qpc_status_name(status), err.message);
        (void)qpc_check_scene_next(&sim.w.check, qpc_world_positions(sim.w.world), &sim.w.found);
        note_step(&w, &sim.report);
        meter_step(&energy, sim.w.world, gravity, &sim.report, &w);
    }
    meter_fini(&energy);
    w.cpu_s = cpu_now() - start;
    const qpc_check_report *f = &sim.w.found;
    printf("%-44s %5d steps %4lld sub %6.3f ms/step, check %6.3f ms | cross %lld meet %lld undecided "
           "%lld pen %.4f | fail-safe %lld halved %lld passes %lld newton %lld active %lld fallback "
           "%lld outcome %lld | natural %.1e err %.1e energy drift %.1e step %.1e (own %.1e %.1e, differs "
           "%.0e)\n",
           name, steps, (long long)sim.w.substeps, 1e3 * step_s / steps,
           1e3 * (w.cpu_s - step_s) / steps, (long long)f->crossings, (long long)f->intersections,
           (long long)f->undecided, f->worst_penetration, (long long)w.failsafe,
           (long long)w.halvings, (long long)w.passes, (long long)w.newton, (long long)w.active,
           (long long)w.fallbacks, (long long)w.outcome, w.natural_ratio, w.err, w.energy_drift,
           w.energy_step, w.own_drift, w.own_step, w.own_differs);
    (void)fflush(stdout);
    if (f->finding_count > 0) qpc_check_report_print(name, f);
    assert_int_equal(w.strange_step, 0);
    // sums of some hundred terms, each of a size up to the scale, in another order
    assert_true(w.own_differs <= 1e-11);
    if (c->strict) {
        assert_true(w.own_drift <= 1e-6);
        assert_true(w.own_step <= 1e-6);
        assert_true(f->worst_penetration <= 0.05);
        assert_int_equal(w.failsafe, 0);
        assert_true(w.natural_ratio <= 1e-7);
        assert_true(w.energy_drift <= 1e-6);
        assert_true(w.energy_step <= 1e-6);
    }
    simulation_end(&sim);
}

int main(int argc, char **argv) {
    bool full = argc > 1 && strcmp(argv[1], "full") == 0;
    const char *only = argc > 2 ? argv[2] : "";
    if (argc < 2 || (!full && strcmp(argv[1], "quick") != 0)) {
        fprintf(stderr, "usage: %s quick | full [TEXT]\n", argv[0]);
        return 2;
    }
    static struct CMUnitTest tests[CASE_COUNT];
    static char names[CASE_COUNT][128];
    size_t count = 0;
    for (size_t i = 0; i < CASE_COUNT; i++) {
        case_name(&CASES[i], names[i], sizeof names[i]);
        if (CASES[i].quick == full || strstr(names[i], only) == NULL) continue;
        tests[count++] = (struct CMUnitTest){.name = names[i],
                                             .test_func = runs_without_crossing,
                                             .initial_state = (void *)(uintptr_t)&CASES[i]};
    }
    if (count == 0) {
        fprintf(stderr, "no case is called %s\n", only);
        return 2;
    }
    return _cmocka_run_group_tests("scenes", tests, count, NULL, NULL);
}
