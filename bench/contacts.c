/// How a step grows with the number of contacts that hold at once: a sheet of cloth, two sheets one on the other, or ten
/// cables side by side, fall flat on a floor and come to rest on it; or a sheet falls on a ball. In process, one thread, default
/// settings, no friction unless asked for.
///
///     bench_contacts [--scene cloth|layers|cables|ball] [--size N]... [--friction MU] [--seconds S] [--dt S] [--commit ID] [--csv FILE] [--check] [--verbose]
///
/// cloth: N x N particles every 10 mm (26, 51, 72, 101), r 4 mm, 0.2 kg/m2, 500 N/m. layers: two such sheets (18, 28, 40, 58),
/// the upper one turned by 10 degrees. cables: ten of N particles every
/// 10 mm (63, 250, 500, 1,000), r 4 mm, 12 mm apart. ball: N x N particles over 1 m (26, 51, 72, 101), r 4 mm, on a sphere of
/// 0.3 m; in --seconds only as far as it gets. --friction MU: of all materials. The floor is a grid of cells of about 0.1 m, turned by 17 degrees, so that
/// nothing lies along its edges; all starts half a millimetre above its separation. A run ends when nothing has been faster
/// than 1 mm/s for five steps, or after --seconds. Times are thread CPU time; counts are exact. --check hands every
/// state to the independent checker, outside the time measured. See docs/benchmarks.md.
#include "bench/scene_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES_MOST = 16, SCENE_BYTES = 8192, CABLES = 10 };
static double friction;
static const double SPACING = 0.01, RADIUS = 0.004, LIFT = 5e-4, REST_SPEED = 1e-3;

typedef struct kind {
    const char *name;
    int sizes[4];
    int (*write)(int size, double dt, char *text, size_t bytes);
} kind;

static int write_floor(double dt, double width, double depth, char *text, size_t bytes) {
    double half = 17 * acos(-1.0) / 360, reach = hypot(width, depth) + 0.1;
    int cells = (int)ceil(reach / 0.1);
    return snprintf(text, bytes,
                    "{'dt': %.17g, 'bodies': [{'kind': 'static', 'rotation': [%.17g, 0, %.17g, 0], 'mesh': {'generate': {'kind': "
                    "'grid', 'columns': %d, 'rows': %d, 'width': %.17g, 'depth': %.17g}}}",
                    dt, cos(half), sin(half), cells + 1, cells + 1, reach, reach);
}

static int write_sheet(int size, double height, double degrees, char *text, size_t bytes) {
    double half = degrees * acos(-1.0) / 360;
    return snprintf(text, bytes,
                    ", {'kind': 'cloth', 'radius': %.17g, 'area_density': 0.2, 'membrane_stiffness': 500, 'bending_stiffness': 0.5, "
                    "'position': [0, %.17g, 0], 'rotation': [%.17g, 0, %.17g, 0], 'mesh': {'generate': {'kind': 'grid', 'columns': "
                    "%d, 'width': %.17g}}}",
                    RADIUS, height, cos(half), sin(half), size, SPACING * (size - 1));
}

static int write_end(char *text, size_t bytes) {
    return snprintf(text, bytes, "], 'contacts': {'friction': %.17g}}", friction);
}

static int write_cloth(int size, double dt, char *text, size_t bytes) {
    int n = write_floor(dt, SPACING * (size - 1), SPACING * (size - 1), text, bytes);
    n += write_sheet(size, RADIUS + LIFT, 0, text + n, bytes - (size_t)n);
    return n + write_end(text + n, bytes - (size_t)n);
}

static int write_layers(int size, double dt, char *text, size_t bytes) {
    int n = write_floor(dt, SPACING * (size - 1), SPACING * (size - 1), text, bytes);
    n += write_sheet(size, RADIUS + LIFT, 0, text + n, bytes - (size_t)n);
    n += write_sheet(size, 3 * RADIUS + 2 * LIFT, 10, text + n, bytes - (size_t)n);
    return n + write_end(text + n, bytes - (size_t)n);
}

static int write_cables(int size, double dt, char *text, size_t bytes) {
    double half = 0.5 * SPACING * (size - 1);
    int n = write_floor(dt, 2 * half, 0.012 * CABLES, text, bytes);
    for (int k = 0; k < CABLES; k++) {
        double z = 0.012 * (k - 0.5 * (CABLES - 1));
        n += snprintf(text + n, bytes - (size_t)n,
                      ", {'kind': 'cable', 'radius': %.17g, 'axial_stiffness': 1e5, 'mass': 0.005, 'nodes': {'generate': {'kind': "
                      "'line', 'from': [%.17g, %.17g, %.17g], 'to': [%.17g, %.17g, %.17g], 'count': %d}}}",
                      RADIUS, -half, RADIUS + LIFT, z, half, RADIUS + LIFT, z, size);
    }
    return n + write_end(text + n, bytes - (size_t)n);
}

static int write_ball(int size, double dt, char *text, size_t bytes) {
    int n = snprintf(text, bytes,
                     "{'dt': %.17g, 'bodies': [{'kind': 'cloth', 'radius': %.17g, 'area_density': 0.2, 'membrane_stiffness': 500, "
                     "'bending_stiffness': 0.5, 'position': [0, %.17g, 0], 'mesh': {'generate': {'kind': 'grid', 'columns': %d, "
                     "'width': 1}}}, {'kind': 'static', 'mesh': {'generate': {'kind': 'sphere', 'radius': 0.3, 'triangles': 2000}}}",
                     dt, RADIUS, 0.3 + RADIUS + LIFT, size);
    return n + write_end(text + n, bytes - (size_t)n);
}

static const kind KINDS[] = {{"cloth", {26, 51, 72, 101}, write_cloth},
                             {"layers", {18, 28, 40, 58}, write_layers},
                             {"cables", {63, 250, 500, 1000}, write_cables},
                             {"ball", {26, 51, 72, 101}, write_ball}};

static qpc_status run(const kind *k, int size, const bench_scene_options *o, bench_scene_figures *ret, qpc_error *err) {
    qpc_test_meshes *meshes = qpc_test_meshes_create();
    qpc_value scene = qpc_nil();
    char text[SCENE_BYTES];
    qpc_status st = k->write(size, o->dt, text, sizeof text) < SCENE_BYTES
                        ? qpc_test_scene_text(text, meshes, &scene, err)
                        : qpc_fail(err, QPC_ERR_INTERNAL, "the scene's text is too long");
    if (st == QPC_OK) st = bench_scene_run(&scene, meshes, o, ret, err);
    qpc_value_fini(&scene);
    qpc_test_meshes_destroy(meshes);
    return st;
}

static int usage(void) {
    fprintf(stderr, "usage: bench_contacts [--scene cloth|layers|cables|ball] [--size N]... [--friction MU] " BENCH_SCENE_USAGE "\n");
    return 2;
}

int main(int argc, char **argv) {
    const char *only = NULL;
    int sizes[SIZES_MOST], count = 0, failures = 0;
    bench_scene_options o = {.dt = 0.005, .seconds = 0.1, .rest_speed = REST_SPEED, .commit = "unknown"};
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--scene") == 0 && more) only = argv[++i];
        else if (strcmp(argv[i], "--size") == 0 && more && count < SIZES_MOST) sizes[count++] = atoi(argv[++i]);
        else if (strcmp(argv[i], "--friction") == 0 && more) friction = atof(argv[++i]);
        else if (!bench_scene_option(argc, argv, &i, &o)) return usage();
    }
    if (!(o.dt > 0) || !(o.seconds >= o.dt)) return usage();
    for (size_t c = 0; c < sizeof KINDS / sizeof KINDS[0]; c++) {
        const kind *k = &KINDS[c];
        if (only != NULL && strcmp(only, k->name) != 0) continue;
        for (int i = 0; i < (count > 0 ? count : 4); i++) {
            int size = count > 0 ? sizes[i] : k->sizes[i];
            bench_scene_figures f = {0};
            qpc_error err = {0};
            char name[32];
            if (size < 2 || size > 5000) return usage();
            (void)snprintf(name, sizeof name, friction > 0 ? "%s-%d-mu-%g" : "%s-%d", k->name, size, friction);
            if (run(k, size, &o, &f, &err) != QPC_OK) {
                fprintf(stderr, "%s: %s\n", name, err.message);
                return 1;
            }
            failures += bench_scene_report(name, &f, &o);
        }
    }
    return failures > 0;
}
