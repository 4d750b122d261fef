/// A world made from a text in a test: create, step and look at it; everything asserted.
#ifndef QPC_TESTS_PROPERTY_SIMULATION_H
#define QPC_TESTS_PROPERTY_SIMULATION_H

#include "base/json.h"
#include "base/mem.h"
#include "client/meshio/scene.h"
#include "tests/support/check.h"
#include "tests/support/scenes.h"

#include <stdio.h>

typedef struct simulation {
    qpc_test_meshes *meshes;
    qpc_value scene;
    qpc_watched w;
    qpc_step_report report; // of the last step
} simulation;

/// text: JSON, disk form, with single quotes for double ones.
static inline void simulation_start(simulation *sim, const char *text) {
    qpc_error err = {0};
    *sim = (simulation){.meshes = qpc_test_meshes_create()};
    assert_non_null(sim->meshes);
    assert_ok(qpc_test_scene_text(text, sim->meshes, &sim->scene, &err), &err);
    assert_ok(qpc_watched_create(&sim->scene, sim->meshes, &sim->w, NULL, &err), &err);
}
static inline void simulation_step(simulation *sim, int steps) {
    qpc_error err = {0};
    for (int i = 0; i < steps; i++) assert_ok(qpc_watched_step(&sim->w, &sim->report, &err), &err);
}
/// Steps without the checker, each of them optimal and without a gain.
static inline void simulation_run(simulation *sim, int steps) {
    qpc_error err = {0};
    for (int i = 0; i < steps; i++) {
        assert_ok(qpc_world_step(sim->w.world, &sim->report, &err), &err);
        assert_int_equal(sim->report.outcome, QPC_STEP_OPTIMAL);
        assert_true(sim->report.energy_step <= 1e-6);
        assert_true(sim->report.energy_drift <= 1e-6);
    }
}
/// control: JSON text with single quotes.
static inline void simulation_control(simulation *sim, const char *control) {
    char text[1024];
    size_t size = strlen(control);
    assert_true(size < sizeof text);
    for (size_t i = 0; i <= size; i++) text[i] = control[i] == '\'' ? '"' : control[i];
    qpc_value v;
    qpc_error err = {0};
    assert_ok(qpc_json_parse(text, size, &v, &err), &err);
    assert_ok(qpc_world_control(sim->w.world, &v, &err), &err);
    qpc_value_fini(&v);
}
static inline const double *simulation_x(const simulation *sim, int node) {
    return qpc_world_positions(sim->w.world) + 3 * node;
}
static inline const double *simulation_v(const simulation *sim, int node) {
    return qpc_world_velocities(sim->w.world) + 3 * node;
}
/// Every test ends with it: nothing was crossed on the way.
static inline void simulation_end(simulation *sim) {
    assert_int_equal(sim->w.found.crossings, 0);
    assert_int_equal(sim->w.found.intersections, 0);
    assert_int_equal(sim->w.found.undecided, 0);
    qpc_watched_fini(&sim->w);
    qpc_value_fini(&sim->scene);
    qpc_test_meshes_destroy(sim->meshes);
}

#ifdef QPC_TEST_DATA
/// One entry of `results` in a file of tests/data/physics: value[item] and its tolerance.
typedef struct oracle {
    double value, tolerance;
} oracle;
static inline oracle oracle_read(const char *name, int result, int item) {
    char path[512];
    qpc_value file;
    qpc_error err = {0};
    (void)snprintf(path, sizeof path, "%s/physics/%s.json", QPC_TEST_DATA, name);
    assert_ok(qpc_json_read_file(path, &file, &err), &err);
    const qpc_value *results = qpc_map_get(&file, "results");
    assert_true(results != NULL && result < results->list.count);
    const qpc_value *r = &results->list.items[result];
    double *values;
    int64_t count;
    oracle o = {0};
    const qpc_value *v = qpc_map_get(r, "value");
    assert_non_null(v);
    int columns =
        v->kind == QPC_LIST && v->list.items[0].kind == QPC_LIST ? v->list.items[0].list.count : 1;
    if (v->kind == QPC_LIST) {
        assert_ok(qpc_read_matrix(v, "value", columns, 10000, &values, &count, &err), &err);
        assert_true(item < count * columns);
        o.value = values[item];
        qpc_free(values);
    } else {
        assert_ok(qpc_read_real(v, "value", -1e300, 1e300, &o.value, &err), &err);
    }
    assert_ok(qpc_read_real(qpc_map_get(r, "tolerance"), "tolerance", 0, 1e300, &o.tolerance, &err),
              &err);
    qpc_value_fini(&file);
    return o;
}
#define assert_oracle(actual, name, result, item)                                                  \
    do {                                                                                           \
        oracle assert_oracle_o = oracle_read(name, result, item);                                  \
        assert_near(actual, assert_oracle_o.value, assert_oracle_o.tolerance);                     \
    } while (0)
#endif

#endif
