/// How a step grows with cloth: a sheet, folded over once, falls on a torus of 70,000 triangles and with its upper half on
/// its lower one. In process, one thread, default settings.
///
///     bench_cloth [--cells N]... [--newton N] [--tolerance T] [--seconds S] [--dt S] [--commit ID] [--csv FILE] [--check] [--verbose]
///
/// The sheet is 1 m wide, 0.2 kg/m2, 500 N/m, of N x N cells (2 N^2 triangles; without --cells 28, 56, 112 and 224) and
/// 0.4 edges thick. --newton and --tolerance: keys of the scene's solver. Times are thread CPU time; counts are exact. --check hands every state to the independent checker,
/// outside the time measured, and fails if anything crossed. See docs/benchmarks.md.
#include "base/mem.h"
#include "bench/scene_run.h"
#include "tests/support/deforming.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES_MOST = 16 };

static qpc_status put(qpc_value *map, const char *key, qpc_value v) { return qpc_map_set(map, key, v); }
static qpc_value text(const char *c) {
    qpc_value v = qpc_nil();
    (void)qpc_text_copy(c, &v);
    return v;
}

static qpc_status add_mesh(qpc_test_meshes *meshes, const generated *g, qpc_value *body, qpc_error *err) {
    char hex[65];
    qpc_status st = qpc_test_meshes_add(meshes, g->x.data, g->x.count / 3, g->triangle.data, g->triangle.count / 3, 3, hex, err);
    qpc_value mesh = qpc_map();
    if (st == QPC_OK) st = put(&mesh, "sha256", text(hex));
    return st == QPC_OK ? put(body, "mesh", mesh) : st;
}

typedef struct solver_keys { // -1: the default
    int newton;
    double tolerance;
} solver_keys;

static qpc_status put_solver(qpc_value *scene, solver_keys keys) {
    qpc_value solver = qpc_map();
    qpc_status st = QPC_OK;
    if (keys.newton >= 0) st = put(&solver, "newton", qpc_int(keys.newton));
    if (keys.tolerance > 0 && st == QPC_OK) st = put(&solver, "tolerance", qpc_real(keys.tolerance));
    return st == QPC_OK ? put(scene, "solver", solver) : st;
}

static qpc_status make_scene(int cells, double dt, solver_keys keys, qpc_test_meshes *meshes, qpc_value *ret, qpc_error *err) {
    generated torus = {0}, sheet = {0};
    double pi = acos(-1.0), r = 0.2 / cells;
    if (!generate_torus(&torus, 350, 100, 0.35, 0.12, 0.005) || !generate_sheet(&sheet, cells, cells, 1.0 / cells, 0, 0))
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    int32_t count = sheet.x.count / 3;
    int64_t shape[2] = {count, 3};
    double *x = malloc(3 * sizeof *x * (size_t)count);
    if (x == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    sheet_fold(sheet.x.data, count, 0.5, 0.9 * pi, 2 * r, x);
    for (int32_t i = 0; i < count; i++) {
        x[3 * i] -= 0.5;
        x[3 * i + 1] -= 0.5;
        x[3 * i + 2] += 0.12 + 12 * r;
    }
    qpc_value scene = qpc_map(), bodies = qpc_list(), cloth = qpc_map(), solid = qpc_map(), nodes = qpc_nil(), g = qpc_list();
    qpc_status st = add_mesh(meshes, &sheet, &cloth, err);
    if (st == QPC_OK) st = add_mesh(meshes, &torus, &solid, err);
    if (st == QPC_OK) st = qpc_tensor_copy(QPC_F64, 2, shape, x, &nodes);
    for (int k = 0; k < 3 && st == QPC_OK; k++) st = qpc_list_push(&g, qpc_real(k == 2 ? -9.81 : 0));
    if (st == QPC_OK) st = put(&cloth, "kind", text("cloth"));
    if (st == QPC_OK) st = put(&cloth, "nodes", nodes);
    if (st == QPC_OK) st = put(&cloth, "radius", qpc_real(r));
    if (st == QPC_OK) st = put(&cloth, "area_density", qpc_real(0.2));
    if (st == QPC_OK) st = put(&cloth, "membrane_stiffness", qpc_real(500));
    if (st == QPC_OK) st = put(&cloth, "bending_stiffness", qpc_real(0.5));
    if (st == QPC_OK) st = put(&solid, "kind", text("static"));
    if (st == QPC_OK) st = qpc_list_push(&bodies, cloth);
    if (st == QPC_OK) st = qpc_list_push(&bodies, solid);
    if (st == QPC_OK) st = put(&scene, "dt", qpc_real(dt));
    if (st == QPC_OK) st = put(&scene, "gravity", g);
    if (st == QPC_OK) st = put(&scene, "bodies", bodies);
    if (st == QPC_OK) st = put_solver(&scene, keys);
    free(x);
    generated_fini(&torus);
    generated_fini(&sheet);
    if (st == QPC_OK) *ret = scene;
    return st;
}

static qpc_status run(int cells, solver_keys keys, const bench_scene_options *o, bench_scene_figures *ret, qpc_error *err) {
    qpc_test_meshes *meshes = qpc_test_meshes_create();
    qpc_value scene = qpc_nil();
    qpc_status st = make_scene(cells, o->dt, keys, meshes, &scene, err);
    if (st == QPC_OK) st = bench_scene_run(&scene, meshes, o, ret, err);
    qpc_value_fini(&scene);
    qpc_test_meshes_destroy(meshes);
    return st;
}

static int usage(void) {
    fprintf(stderr, "usage: bench_cloth [--cells N]... [--newton N] [--tolerance T] " BENCH_SCENE_USAGE "\n");
    return 2;
}

int main(int argc, char **argv) {
    int cells[CASES_MOST] = {28, 56, 112, 224}, count = 0, failures = 0;
    solver_keys keys = {-1, -1};
    bench_scene_options o = {.dt = 0.005, .seconds = 0.1, .commit = "unknown"};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--cells") == 0 && i + 1 < argc && count < CASES_MOST) cells[count++] = atoi(argv[++i]);
        else if (strcmp(argv[i], "--newton") == 0 && i + 1 < argc) keys.newton = atoi(argv[++i]);
        else if (strcmp(argv[i], "--tolerance") == 0 && i + 1 < argc) keys.tolerance = strtod(argv[++i], NULL);
        else if (!bench_scene_option(argc, argv, &i, &o)) return usage();
    }
    if (count == 0) count = 4;
    if (!(o.dt > 0) || !(o.seconds >= o.dt)) return usage();
    for (int k = 0; k < count; k++) {
        bench_scene_figures f = {0};
        qpc_error err = {0};
        char name[80];
        if (cells[k] < 2 || cells[k] > 1000) return usage();
        int used = snprintf(name, sizeof name, "fold-%d", cells[k]);
        if (keys.newton >= 0) used += snprintf(name + used, sizeof name - (size_t)used, "-newton-%d", keys.newton);
        if (keys.tolerance > 0) (void)snprintf(name + used, sizeof name - (size_t)used, "-tolerance-%g", keys.tolerance);
        if (run(cells[k], keys, &o, &f, &err) != QPC_OK) {
            fprintf(stderr, "%s: %s\n", name, err.message);
            return 1;
        }
        failures += bench_scene_report(name, &f, &o);
    }
    return failures > 0;
}
