// Random worlds under the independent checker: `test_random [SEEDS [FIRST]]`.
//
// Cables of 1 to 40 particles, thick and thin, soft and stiff, thrown at each other, at boxes, spheres
// and sheets that stand or move, with fixed ends and strain limits here and there. Whatever happens,
// nothing may cross, no number may leave the finite range, and the engine and the checker must agree
// on which starts intersect. A failing seed is printed: `test_random 1 SEED` runs it alone.
#include "tests/property/simulation.h"

#include <math.h>
#include <stdlib.h>

static int seed_count = 60, seed_first = 1;

typedef struct maker {
    uint64_t state;
    char text[65536];
    size_t used;
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

static void put_solid(maker *m, int i) {
    static const char *const kinds[] = {
        "'kind': 'box', 'width': 0.5, 'height': 0.3, 'depth': 0.4, 'triangles': 48",
        "'kind': 'sphere', 'radius': 0.3, 'triangles': 180",
        "'kind': 'sheet', 'width': 1.5, 'depth': 1.5, 'triangles': 18",
        "'kind': 'cylinder', 'radius': 0.15, 'length': 1, 'segments': 16",
        "'kind': 'funnel', 'triangles': 400",
    };
    bool moves = pick(m, 3) == 0;
    put(m, "{'kind': '%s', 'mesh': {'generate': {%s}}, 'radius': %g, 'position': [%.17g, %.17g, %.17g]",
        moves ? "kinematic" : "static", kinds[pick(m, 5)], pick(m, 2) ? 0 : uniform(m, 0, 0.01),
        uniform(m, -0.5, 0.5), uniform(m, -1, -0.4) - 0.4 * i, uniform(m, -0.5, 0.5));
    put(m, ", 'rotation': [%.17g, %.17g, %.17g, %.17g], 'scale': %.17g", uniform(m, 0.2, 1),
        uniform(m, -1, 1), uniform(m, -1, 1), uniform(m, -1, 1), uniform(m, 0.5, 1.5));
    if (moves)
        put(m, ", 'velocity': [%.17g, %.17g, %.17g], 'angular_velocity': [%.17g, 0, %.17g]",
            uniform(m, -1, 1), uniform(m, -0.5, 2), uniform(m, -1, 1), uniform(m, -3, 3),
            uniform(m, -3, 3));
    put(m, "},");
}
static void put_cable(maker *m, int i, double fastest, bool *fixed, bool *limited) {
    int n = pick(m, 6) == 0 ? 1 : 2 + pick(m, 39);
    double length = uniform(m, 0.2, 1.6), turn = uniform(m, 0, 6.3), tilt = uniform(m, -0.4, 0.4);
    double at[3] = {uniform(m, -0.4, 0.4), 0.09 * i + uniform(m, 0, 0.05), uniform(m, -0.4, 0.4)};
    double wave = pick(m, 2) ? uniform(m, 0, 0.1) : 0, speed = pick(m, 3) ? fastest : 0;
    put(m, "%s{'kind': 'cable', 'radius': %.17g, 'mass': %.17g, 'velocity': [%.17g, %.17g, %.17g],",
        i ? "," : "", pow(10, uniform(m, -2.7, -1.6)), pow(10, uniform(m, -3, 1)),
        speed * uniform(m, -0.3, 0.3), -speed * uniform(m, 0.1, 1), speed * uniform(m, -0.3, 0.3));
    if (n > 1) put(m, "'stiffness': %.17g,", pow(10, uniform(m, 2, 6)));
    put(m, "'nodes': [");
    for (int k = 0; k < n; k++) {
        double s = n > 1 ? length * (k / (n - 1.0) - 0.5) : 0;
        put(m, "%s[%.17g, %.17g, %.17g]", k ? "," : "", at[0] + s * cos(turn),
            at[1] + tilt * s * 0.1, at[2] + s * sin(turn) + wave * sin(9 * s));
    }
    put(m, "]}");
    *fixed = n > 2 && pick(m, 4) == 0;
    *limited = n > 1 && pick(m, 5) == 0;
}
static void make_scene(maker *m, double *ret_dt) {
    int solids = pick(m, 3), cables = 1 + pick(m, 6);
    static const double steps[] = {0.001, 0.005, 0.01, 0.02};
    double fastest = pick(m, 4) == 0 ? 50 : uniform(m, 0, 8);
    *ret_dt = steps[pick(m, 4)];
    put(m, "{'dt': %g, 'gravity': [0, %g, 0], 'bodies': [", *ret_dt, pick(m, 4) ? -9.81 : 0.0);
    bool fixed[8], limited[8], any = false;
    for (int i = 0; i < solids; i++) put_solid(m, i);
    for (int i = 0; i < cables; i++) put_cable(m, i, fastest, &fixed[i], &limited[i]);
    put(m, "], 'constraints': [");
    for (int i = 0; i < cables; i++) {
        if (fixed[i])
            put(m, "%s{'kind': 'fixed', 'body': %d, 'nodes': [0]}", any ? "," : "", solids + i);
        any = any || fixed[i];
        if (limited[i])
            put(m, "%s{'kind': 'strain-limit', 'body': %d, 'max': 1.2}", any ? "," : "", solids + i);
        any = any || limited[i];
    }
    put(m, "]}");
}

// The checker's word on the start, without a world.
static int64_t intersections_at_start(const qpc_value *scene, qpc_test_meshes *meshes) {
    qpc_error err = {0};
    const qpc_value *bodies = qpc_map_get(scene, "bodies");
    int32_t first[16];
    for (int32_t i = 0; i < bodies->list.count; i++) first[i] = -1;
    qpc_check_scene check;
    qpc_check_report r;
    qpc_check_report_init(&r);
    assert_ok(qpc_check_scene_create(scene, first, 0, NULL, qpc_test_check_lookup, meshes, &check, &err),
              &err);
    qpc_checker_state(check.checker, check.x0, &r);
    qpc_check_scene_fini(&check);
    return r.intersections;
}

static void random_worlds_never_cross(void **state) {
    (void)state;
    int refused = 0, held = 0, failsafe = 0, failed = 0;
    for (int seed = seed_first; seed < seed_first + seed_count; seed++) {
        static maker m;
        double dt;
        m = (maker){.state = (uint64_t)seed * 0x9e3779b97f4a7c15u};
        for (int k = 0; k < 4; k++) (void)uniform(&m, 0, 1);
        make_scene(&m, &dt);
        qpc_error err = {0};
        simulation sim = {.meshes = qpc_test_meshes_create()};
        assert_ok(qpc_test_scene_text(m.text, sim.meshes, &sim.scene, &err), &err);
        int64_t meet = intersections_at_start(&sim.scene, sim.meshes);
        qpc_scene_report start;
        qpc_status status = qpc_watched_create(&sim.scene, sim.meshes, &sim.w, &start, &err);
        if ((meet > 0) != (status != QPC_OK)) {
            print_error("seed %d: %lld intersections at the start, but: %s\n", seed, (long long)meet,
                        status == QPC_OK ? "accepted" : err.message);
            failed++;
        }
        if (status != QPC_OK) {
            refused++;
            assert_int_equal(status, QPC_ERR_INVALID);
        }
        double cpu = 0;
        int steps = status == QPC_OK ? (int)fmin((double)lround(0.6 / dt), 200) : 0;
        for (int i = 0; i < steps; i++) {
            status = qpc_watched_step(&sim.w, &sim.report, &err);
            if (status != QPC_OK) {
                print_error("seed %d step %d: %s: %s\n", seed, i + 1, qpc_status_name(status),
                            err.message);
                failed++;
                break;
            }
            cpu += 1e-6 * (double)sim.report.ns_total;
            failsafe += sim.report.failsafe > 0;
            held += sim.report.active > 0;
        }
        const qpc_check_report *f = &sim.w.found;
        if (f->crossings + f->intersections + f->undecided > 0) {
            char name[64];
            (void)snprintf(name, sizeof name, "seed %d", seed);
            qpc_check_report_print(name, f);
            failed++;
        }
        if (seed_count == 1) {
            printf("%s\n%d steps, %.2f ms a step\n", m.text, steps, steps ? cpu / steps : 0);
            qpc_check_report_print("seed", f);
        }
        if (sim.w.world != NULL) qpc_watched_fini(&sim.w);
        qpc_value_fini(&sim.scene);
        qpc_test_meshes_destroy(sim.meshes);
    }
    printf("%d random worlds: %d refused at the start, %d steps with active rows, %d with the fail-safe, "
           "%d failures\n",
           seed_count, refused, held, failsafe, failed);
    assert_int_equal(failed, 0);
    if (seed_count > 50) {
        assert_true(refused < seed_count / 2);
        assert_true(held > 10 * seed_count);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) seed_count = atoi(argv[1]);
    if (argc > 2) seed_first = atoi(argv[2]);
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_worlds_never_cross)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
