/// See tets_mesh.h.
#include "bench/tets_mesh.h"

#include "bench/step_run.h"
#include "client/meshio/volume.h"

#include <math.h>
#include <stdio.h>

static const double SIZE = 0.2, SECONDS = 0.8; // m, s

/// Bounds of the nodes that are in a tetrahedron.
static void bounds(const qpc_volume_mesh *mesh, double low[3], double high[3]) {
    for (int a = 0; a < 3; a++) {
        low[a] = HUGE_VAL;
        high[a] = -HUGE_VAL;
    }
    for (int64_t k = 0; k < 4 * (int64_t)mesh->tet_count; k++)
        for (int a = 0; a < 3; a++) {
            double x = mesh->nodes[3 * (int64_t)mesh->tets[k] + a];
            low[a] = fmin(low[a], x);
            high[a] = fmax(high[a], x);
        }
}

static bool write_scene(const char *path, char *text, size_t size, qpc_error *err) {
    qpc_volume_mesh mesh = {0};
    double low[3], high[3], longest = 0;
    if (qpc_volume_read(path, NULL, &mesh, NULL, err) != QPC_OK) return false;
    bounds(&mesh, low, high);
    for (int a = 0; a < 3; a++) longest = fmax(longest, high[a] - low[a]);
    printf("%s: %d tetrahedra\n", path, mesh.tet_count);
    qpc_volume_mesh_fini(&mesh);
    double scale = SIZE / longest;
    int length = snprintf(
        text, size,
        "{'dt': 0.005, 'contacts': {'friction': 0.3}, 'bodies': [{'kind': 'soft', 'radius': 0.001, 'density': 1000, 'young': 10000,"
        "'poisson': 0.4, 'mesh': {'file': '%s'}, 'scale': %.17g, 'position': [%.17g, %.17g, %.17g]},"
        "{'kind': 'kinematic', 'radius': 0.001, 'position': [0.02, %.17g, 0.01], 'velocity': [0, -0.05, 0],"
        "'mesh': {'generate': {'kind': 'sphere', 'radius': 0.02, 'triangles': 400}}},"
        "{'kind': 'static', 'mesh': {'generate': {'kind': 'box', 'width': 0.6, 'height': 0.1, 'depth': 0.6}}, 'position': [0, -0.05, 0]}]}",
        path, scale, -0.5 * (low[0] + high[0]) * scale, 0.0015 - low[1] * scale, -0.5 * (low[2] + high[2]) * scale,
        (high[1] - low[1]) * scale + 0.024);
    if (length > 0 && (size_t)length < size) return true;
    (void)qpc_fail(err, QPC_ERR_LIMIT, "the name %s is too long", path);
    return false;
}

bool bench_tets_mesh(const char *path, int runs) {
    char text[4096];
    qpc_error err = {0};
    bench_steps r[BENCH_RUNS_MAX];
    bool ok = runs <= BENCH_RUNS_MAX && write_scene(path, text, sizeof text, &err);
    for (int i = 0; ok && i < runs; i++) {
        qpc_test_meshes *meshes = qpc_test_meshes_create();
        qpc_value scene = qpc_nil();
        ok = qpc_test_scene_text(text, meshes, &scene, &err) == QPC_OK && bench_steps_run(&scene, meshes, SECONDS, true, &r[i], &err);
        qpc_value_fini(&scene);
        qpc_test_meshes_destroy(meshes);
    }
    if (!ok) {
        fprintf(stderr, "%s: %s\n", path, err.message);
        return false;
    }
    bench_steps s = bench_steps_median(r, runs);
    bench_steps_print_times(&s);
    printf("\n  most contacts %lld, least gap %.4f of the thickness, crossings %lld, state %016llx\n", (long long)s.contacts_max, s.min_gap,
           (long long)s.crossings, (unsigned long long)s.hash);
    return bench_steps_differ(path, r, runs) == 0 && s.crossings == 0;
}
