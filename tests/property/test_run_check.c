// qpc-run-check on run files made here: a clean one, one whose frames were bent through the mesh, ones
// with holes, and files that are none.
#include "tests/property/simulation.h"

#include "storage/reader.h"
#include "storage/writer.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char SCENE[] =
    "{'dt': 0.005, 'bodies': [{'kind': 'static', 'mesh': {'generate': {'kind': 'box', 'width': 0.6,"
    "'height': 0.2, 'depth': 0.6}}, 'position': [0, -0.2, 0], 'rotation': [0.9, 0, 0.4, 0],"
    "'scale': 1.1},"
    "{'kind': 'cable', 'nodes': {'generate': {'kind': 'line', 'from': [-0.5, 0, 0], 'to':"
    "[0.5, 0, 0], 'count': 21}}, 'mass': 0.02, 'stiffness': 1e4, 'radius': 0.02}]}";
enum { STEPS = 40 };

typedef enum damage { NONE, BENT, HOLE, FLOAT32, NO_SUBSTEPS } damage;

static void put_frame(qpc_run_handle *run, int64_t step, const double *x, int32_t nodes,
                      qpc_dtype dtype) {
    qpc_record *record;
    qpc_error err = {0};
    assert_ok(qpc_record_frame(step, -1, 0.005 * (double)step, 1, x, nodes, dtype, &record, &err),
              &err);
    assert_ok(qpc_writer_push(run, record, true, &err), &err);
}
// Records a short run with some damage and gives the path of its file.
static void record(const char *folder, damage d, char path[640]) {
    simulation sim;
    simulation_start(&sim, SCENE);
    qpc_world *w = sim.w.world;
    qpc_error err = {0};
    qpc_writer *writer;
    assert_ok(qpc_writer_create(&(qpc_writer_options){.data_dir = folder}, &writer, &err), &err);
    qpc_run_body bodies[2];
    qpc_run_mesh mesh = {0};
    uint8_t *bytes = NULL;
    for (int i = 0; i < 2; i++) {
        qpc_body_info info = qpc_world_body(w, i);
        bodies[i] = (qpc_run_body){.name = info.name, .kind = info.kind, .radius = info.radius,
                                   .element_count = info.element_count,
                                   .nodes_per_element = info.nodes_per_element};
        if (info.mesh == NULL) {
            bodies[i].first_node = 0;
            bodies[i].node_count = info.node_count;
            continue;
        }
        bodies[i].mesh_sha256 = qpc_mesh_sha256(info.mesh);
        mesh.size = qpc_mesh_canonical_size(info.mesh);
        bytes = malloc(mesh.size);
        qpc_mesh_canonical_bytes(info.mesh, bytes);
        mesh.sha256 = bodies[i].mesh_sha256;
        mesh.bytes = bytes;
    }
    static const qpc_run_column column = {"halvings", true};
    char *json;
    assert_ok(qpc_json_write(qpc_world_scene(w), 0, true, &json, &err), &err);
    int32_t nodes = bodies[1].node_count;
    qpc_dtype dtype = d == FLOAT32 ? QPC_F32 : QPC_F64;
    qpc_run_def def = {.world = (uint64_t)d + 1, .name = "test", .scene_json = json, .dt = 0.005,
                       .frame_dtype = dtype, .frame_nodes = nodes, .columns = &column,
                       .column_count = 1, .bodies = bodies, .body_count = 2, .meshes = &mesh,
                       .mesh_count = 1, .versions_json = "{}"};
    (void)snprintf(def.id, sizeof def.id, "%032x", 7 + (unsigned)d);
    qpc_run_handle *run;
    assert_ok(qpc_writer_open_run(writer, &def, &run, &err), &err);
    int first = qpc_world_body(w, 1).first_node;
    double *x = malloc(3 * (size_t)nodes * sizeof *x);
    for (int step = 1; step <= STEPS; step++) {
        simulation_step(&sim, 1);
        memcpy(x, qpc_world_positions(w) + 3 * (size_t)first, 3 * (size_t)nodes * sizeof *x);
        if (d == BENT && step == 30) x[3 * 10 + 1] -= 0.5; // a node through the box and back
        if (d == HOLE && step == 20) continue;
        put_frame(run, step, x, nodes, dtype);
        int64_t halvings = d == NO_SUBSTEPS && step == 25;
        qpc_record *r;
        assert_ok(qpc_record_step(step, &halvings, 1, &r, &err), &err);
        assert_ok(qpc_writer_push(run, r, true, &err), &err);
    }
    qpc_writer_close_run(run);
    qpc_catalog_run found;
    assert_ok(qpc_catalog_find_run(writer, def.id, &found, &err), &err);
    (void)snprintf(path, 640, "%s%s%s", found.path[0] == '/' ? "" : folder,
                   found.path[0] == '/' ? "" : "/", found.path);
    qpc_writer_destroy(writer);
    free(x);
    free(bytes);
    qpc_free(json);
    simulation_end(&sim);
}
static int run_check(const char *arguments) {
    char command[1024];
    (void)snprintf(command, sizeof command, "%s %s", QPC_RUN_CHECK, arguments);
    int status = system(command);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int make_folder(void **state) {
    static char folder[64];
    (void)snprintf(folder, sizeof folder, "/tmp/qpcollide-run-check-XXXXXX");
    *state = mkdtemp(folder);
    return *state == NULL;
}
static int remove_folder(void **state) {
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", (const char *)*state);
    return system(command);
}

static void a_clean_run_is_clean(void **state) {
    char path[640];
    record(*state, NONE, path);
    assert_int_equal(run_check(path), 0);
}
static void a_bent_run_is_broken(void **state) {
    char path[640], arguments[760];
    record(*state, BENT, path);
    assert_int_equal(run_check(path), 1);
    // before and after the damage it is clean
    (void)snprintf(arguments, sizeof arguments, "--to 29 %s", path);
    assert_int_equal(run_check(arguments), 0);
    (void)snprintf(arguments, sizeof arguments, "--from 31 %s", path);
    assert_int_equal(run_check(arguments), 0);
}
static void a_run_with_a_hole_is_incomplete(void **state) {
    char path[640];
    record(*state, HOLE, path);
    assert_int_equal(run_check(path), 3);
}
static void a_halved_step_without_its_middle_is_incomplete(void **state) {
    char path[640];
    record(*state, NO_SUBSTEPS, path);
    assert_int_equal(run_check(path), 3);
}
static void a_float32_run_can_be_checked(void **state) {
    char path[640];
    record(*state, FLOAT32, path);
    assert_int_equal(run_check(path), 0);
}
static void what_is_no_run_is_refused(void **state) {
    (void)state;
    assert_int_equal(run_check("/nonexistent.qpc 2>/dev/null"), 2);
    assert_int_equal(run_check("/etc/passwd 2>/dev/null"), 2);
    assert_int_equal(run_check("2>/dev/null"), 2);
    assert_int_equal(run_check("--bad x 2>/dev/null"), 2);
    assert_int_equal(run_check("--help >/dev/null"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clean_run_is_clean),
        cmocka_unit_test(a_bent_run_is_broken),
        cmocka_unit_test(a_run_with_a_hole_is_incomplete),
        cmocka_unit_test(a_halved_step_without_its_middle_is_incomplete),
        cmocka_unit_test(a_float32_run_can_be_checked),
        cmocka_unit_test(what_is_no_run_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
