// Cloth in worlds: against closed forms and the numbers of tests/data/physics, and the promise in scenes in which it
// falls on things, folds, is pulled and carried. QPC_TEST_VERBOSE=1 prints every step.
#include "base/vec.h"
#include "tests/property/promised.h"
#include "tests/property/text.h"

#include <math.h>
#include <stdlib.h>

static qpc_vec3 reactions(const simulation *sim, int32_t first, int32_t count) {
    int32_t all;
    const int32_t *node;
    const double *r = qpc_world_reactions(sim->w.world, &node, &all);
    qpc_vec3 sum = v3(0, 0, 0);
    assert_true(first + count <= all);
    for (int32_t i = first; i < first + count; i++) sum = v3_add(sum, v3_load(r + 3 * i));
    return sum;
}

// ---- closed forms ----

static void a_sheet_falls_as_a_particle_does(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    simulation_start(&sim, "{'dt': 0.01, 'gravity': [0, 0, -10], 'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid',"
                           "'columns': 7, 'rows': 5}}, 'position': [0, 0, 100], 'mass': 0.7, 'membrane_stiffness': 1e3,"
                           "'bending_stiffness': 1, 'radius': 0.01}]}");
    double height[35];
    for (int i = 0; i < 35; i++) height[i] = simulation_x(&sim, i)[2];
    run(&sim, 200, &w);
    for (int i = 0; i < 35; i++) {
        assert_near(simulation_v(&sim, i)[2], -20, 1e-9);
        // -g dt^2 N (N + 1) / 2; forces of springs at rest round at 1e3 N/m times an ulp
        assert_near(simulation_x(&sim, i)[2], height[i] - 10 * 1e-4 * 200 * 201 / 2, 1e-9);
    }
    assert_near(w.strain, 0, 1e-10);
    end_promised(&sim, &w, 0);
}

static void one_spring_of_cloth_follows_backward_euler(void **state) {
    (void)state;
    // a square of which one edge alone is stiff; its other two vertices fly on by themselves
    simulation sim;
    simulation_start(&sim,
                     "{'dt': 0.01, 'gravity': [0, 0, 0], 'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid',"
                     "'columns': 2, 'width': 0.5, 'alternate': false}}, 'nodes': [[0, 0, 0], [0.6, 0, 0], [0, 0, 0.5],"
                     "[0.5, 0, 0.5]], 'stiffness': [1e4, 0, 0, 0, 0], 'mass': [0.7, 2.1, 1, 1],"
                     "'velocity': [[1, 0, 0], [-0.5, 0, 0], [0, 0, 1], [0, 0, 1]], 'radius': 0.001}]}");
    simulation_step(&sim, 25);
    assert_oracle(simulation_x(&sim, 0)[0], "two_particle_spring", 0, 0);
    assert_oracle(simulation_x(&sim, 1)[0], "two_particle_spring", 0, 1);
    assert_oracle(sim.report.momentum_x, "two_particle_spring", 1, 0);
    assert_near(simulation_x(&sim, 3)[2], 0.75, 1e-12);
    simulation_end(&sim);
}

/// Edges of a plain grid in order: from each vertex along its row, along the diagonal, along its column.
static void put_structural(text *t, int columns, int rows, double stiffness) {
    const char *comma = "";
    for (int j = 0; j < rows; j++)
        for (int i = 0; i < columns; i++) {
            if (i + 1 < columns) put(t, "%s%g", comma, stiffness), comma = ",";
            if (i > 0 && j + 1 < rows) put(t, "%s0", comma), comma = ",";
            if (j + 1 < rows) put(t, "%s%g", comma, stiffness), comma = ",";
        }
}

static void a_sheet_hangs_as_its_columns_do(void **state) {
    (void)state;
    simulation sim;
    text *t = calloc(1, sizeof *t);
    put(t, "{'dt': 0.1, 'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 11, 'alternate': false,"
           "'axis': 'z'}}, 'radius': 0.001, 'stiffness': [");
    put_structural(t, 11, 11, 200);
    put(t, "], 'mass': [0.02");
    for (int i = 1; i < 121; i++) put(t, ", 0.02");
    put(t, "]}], 'constraints': [{'kind': 'fixed', 'body': 0, 'nodes': [110, 111, 112, 113, 114, 115, 116, 117, 118, 119, -1]}]}");
    simulation_start(&sim, t->c);
    double start = simulation_x(&sim, 5)[1];
    simulation_step(&sim, 400);
    for (int i = 0; i < 11; i++) assert_oracle(start - simulation_x(&sim, i)[1], "cloth_hanging_sheet", 0, 0);
    assert_oracle(reactions(&sim, 0, 11).y, "cloth_hanging_sheet", 1, 0);
    int32_t count;
    const double *tension = qpc_world_tensions(sim.w.world, &count);
    // the last row of cells: of each vertex but the last, along the row, diagonal and column
    int32_t at = 9 * (10 + 10 + 11);
    for (int i = 0; i < 11; i++) {
        int32_t column = at + (i < 10 ? 1 : 0) + (i > 0 ? 1 : 0);
        assert_oracle(tension[column], "cloth_hanging_sheet", 2, 0);
        at = column + 1;
    }
    simulation_end(&sim);
    free(t);
}

static void a_strip_hangs_as_a_catenary(void **state) {
    (void)state;
    enum { COLUMNS = 41, ROWS = 4 };
    simulation sim;
    worst w = {0};
    text t = {.used = 0};
    put(&t, "{'dt': 0.02, 'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 41, 'rows': 4, 'width': 1,"
            "'depth': 0.6}}, 'radius': 0.0005, 'area_density': 0.3, 'membrane_stiffness': 1e4}],"
            "'constraints': [{'kind': 'fixed', 'body': 0, 'nodes': [0, 41, 82, 123, 40, 81, 122, 163]}]}");
    simulation_start(&sim, t.c);
    for (int phase = 0; phase < 2; phase++) { // both bars inwards by 0.1 m, then rest
        for (int i = 0; i < 8; i++) {
            char control[200];
            (void)snprintf(control, sizeof control, "{'targets': [{'body': 0, 'node': %d, 'velocity': [%g, 0, 0]}]}",
                           41 * (i % 4) + (i < 4 ? 0 : 40), phase == 1 ? 0.0 : i < 4 ? 0.2 : -0.2);
            simulation_control(&sim, control);
        }
        run(&sim, phase == 0 ? 25 : 600, &w);
    }
    assert_near(simulation_x(&sim, 40)[0] - simulation_x(&sim, 0)[0], 0.8, 1e-12);
    assert_oracle(simulation_x(&sim, 0)[1] - simulation_x(&sim, 20 + 41)[1], "cloth_strip_trough", 0, 0);
    qpc_vec3 left = reactions(&sim, 0, 4), right = reactions(&sim, 4, 4);
    assert_oracle(-left.x, "cloth_strip_trough", 1, 0);
    assert_oracle(right.x, "cloth_strip_trough", 1, 0);
    assert_oracle(left.y, "cloth_strip_trough", 1, 1);
    assert_oracle(right.y, "cloth_strip_trough", 1, 1);
    end_promised(&sim, &w, 0);
}

static void an_isolated_sheet_keeps_its_momentum(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    text t = {.used = 0};
    put(&t, "{'dt': 0.01, 'gravity': [0, 0, 0], 'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 9}},"
            "'radius': 0.01, 'mass': 0.5, 'membrane_stiffness': 200, 'bending_stiffness': 5, 'velocity': [");
    for (int i = 0; i < 81; i++)
        put(&t, "%s[%g, %g, %g]", i ? "," : "", 2 * sin(3.0 * i) + 0.5, 2 * sin(5.0 * i + 1), 2 * cos(7.0 * i));
    put(&t, "]}]}");
    simulation_start(&sim, t.c);
    run(&sim, 1, &w);
    qpc_step_report first = sim.report;
    run(&sim, 199, &w);
    // 0.5 kg at 2 m/s, summed 81 times, over 200 solves of 1e-6 relative stationarity at most
    assert_near(sim.report.momentum_x, first.momentum_x, 1e-9);
    assert_near(sim.report.momentum_y, first.momentum_y, 1e-9);
    assert_near(sim.report.momentum_z, first.momentum_z, 1e-9);
    assert_true(sim.report.kinetic + sim.report.elastic < first.kinetic + first.elastic);
    end_promised(&sim, &w, 0);
}

/// A stiff sheet whose nodes fly apart at random: one linear solve turns links, whose stretch it does not know of, and gains energy.
static void a_gain_of_one_linear_solve_is_undone_and_no_more(void **state) {
    (void)state;
    enum { SIDE = 14, STEPS = 12 };
    simulation sim;
    text t = {.used = 0};
    double momentum = 0;
    int corrected = 0;
    put(&t, "{'dt': 0.005, 'gravity': [0, 0, 0], 'solver': {'newton': 0}, 'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid',"
            "'columns': 14}}, 'radius': 0.001, 'mass': 0.2, 'membrane_stiffness': 1e5, 'bending_stiffness': 0.5, 'velocity': [");
    for (int i = 0; i < SIDE * SIDE; i++)
        put(&t, "%s[%.17g, %.17g, %.17g]", i ? "," : "", sin(3.0 * i) + 0.5, sin(5.0 * i + 1), cos(7.0 * i));
    put(&t, "]}]}");
    simulation_start(&sim, t.c);
    for (int step = 0; step < STEPS; step++) {
        simulation_run(&sim, 1); // optimal, and without a gain
        assert_int_equal(sim.report.halvings, 0);
        assert_true(sim.report.newton <= 2); // to the end it takes four to ten
        corrected += sim.report.newton > 0;
        if (step == 0) momentum = sim.report.momentum_x;
        assert_near(sim.report.momentum_x, momentum, 1e-13);
    }
    assert_true(corrected > 0);
    simulation_end(&sim);
}

static void two_corners_carry_the_weight(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    simulation_start(&sim, "{'dt': 0.05, 'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 11}}, 'mass': 0.4,"
                           "'membrane_stiffness': 300, 'bending_stiffness': 0.2, 'radius': 0.005}],"
                           "'constraints': [{'kind': 'fixed', 'body': 0, 'nodes': [0, 10]}]}");
    run(&sim, 400, &w);
    qpc_vec3 a = reactions(&sim, 0, 1), b = reactions(&sim, 1, 1);
    assert_near(a.y + b.y, 0.4 * 9.81, 1e-4); // it still swings a little
    assert_near(a.x + b.x, 0, 1e-4);
    assert_near(a.y, b.y, 0.05); // diagonals alternate: the mesh is not its own mirror image
    end_promised(&sim, &w, 0);
}

static void strain_limits_hold_cloth(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    simulation_start(&sim, "{'dt': 0.005, 'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 7, 'width': 0.5, 'alternate': false}},"
                           "'mass': 1, 'stiffness': 60, 'bending_stiffness': 0.2, 'radius': 0.005}], 'constraints':"
                           "[{'kind': 'fixed', 'body': 0, 'nodes': [0, 6]}, {'kind': 'strain-limit', 'body': 0, 'max': 1.1}]}");
    double longest = 0, most = 0;
    for (int step = 0; step < 200; step++) {
        run(&sim, 1, &w);
        int32_t count, s = 0;
        const double *force = qpc_world_limit_forces(sim.w.world, &count), *tension = qpc_world_tensions(sim.w.world, &count);
        for (int j = 0; j < 7; j++)
            for (int i = 0; i < 7; i++) { // the edges in their order
                double side = 0.5 / 6;
                if (i < 6) longest = fmax(longest, tension[s++] / 60 / side);
                if (i > 0 && j < 6) longest = fmax(longest, tension[s++] / 60 / (side * sqrt(2)));
                if (j < 6) longest = fmax(longest, tension[s++] / 60 / side);
            }
        for (int32_t k = 0; k < count; k++) {
            most = fmax(most, force[k]);
            assert_true(k < s || force[k] == 0); // springs across edges have no limit
        }
    }
    print_message("  largest strain %.4f, largest force of a limit %.2f N, not optimal %lld\n", longest, most, (long long)w.bad);
    assert_true(most > 0.5);
    assert_true(longest > 0.09 && longest <= 0.102);
    simulation_end(&sim);
}

// ---- scenes ----

static void cloth_falls_on_a_sphere(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    simulation_start(&sim, "{'dt': 0.005, 'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 14}},"
                           "'position': [0, 0.35, 0], 'area_density': 0.2, 'membrane_stiffness': 500, 'bending_stiffness': 0.5,"
                           "'radius': 0.004}, {'kind': 'static', 'mesh': {'generate': {'kind': 'sphere', 'radius': 0.3}}}]}");
    run(&sim, 200, &w);
    end_promised(&sim, &w, 50);
}

static void cloth_is_pulled_off_a_sphere(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    // held by one edge, it falls over the sphere; then the edge is pulled up and away
    simulation_start(&sim, "{'dt': 0.005, 'contacts': {'friction': 0.3}, 'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid',"
                           "'columns': 9, 'width': 0.8}}, 'position': [0.1, 0.31, 0], 'area_density': 0.2, 'membrane_stiffness': 500,"
                           "'bending_stiffness': 0.5, 'radius': 0.006}, {'kind': 'static', 'mesh': {'generate': {'kind': 'sphere', 'radius': 0.3}}}],"
                           "'constraints': [{'kind': 'fixed', 'body': 0, 'nodes': [0, 9, 18, 27, 36, 45, 54, 63, 72]}]}");
    int64_t touched = 0, last = 0;
    for (int i = 0; i < 220; i++) {
        if (i == 100) {
            text t = {.used = 0};
            put(&t, "{'targets': [");
            for (int k = 0; k < 9; k++) put(&t, "%s{'body': 0, 'node': %d, 'velocity': [-1.5, 0.5, 0]}", k ? "," : "", 9 * k);
            put(&t, "]}");
            simulation_control(&sim, t.c);
        }
        run(&sim, 1, &w);
        touched += i < 100 && sim.report.active > 0;
        last = sim.report.active;
    }
    assert_true(touched > 50 && last == 0); // it lay on it, and has come off
    assert_true(simulation_x(&sim, 80)[0] < -0.3);
    end_promised(&sim, &w, 20);
}

static void cloth_hangs_over_a_cylinder(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    // no friction: symmetrical, so it stays for a while, and the contacts carry all of it
    simulation_start(&sim, "{'dt': 0.02, 'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 13, 'width': 0.6}},"
                           "'position': [0, 0.256, 0], 'area_density': 0.2, 'membrane_stiffness': 200, 'radius': 0.004},"
                           "{'kind': 'static', 'mesh': {'generate': {'kind': 'cylinder', 'radius': 0.25, 'length': 1}}}]}");
    // An equilibrium that is not stable: the least difference between the sides grows tenfold in a dozen steps.
    run(&sim, 20, &w);
    double last[3] = {0}, x = sim.report.momentum_x, y = sim.report.momentum_y, z = sim.report.momentum_z;
    for (int step = 0; step < 20; step++) {
        run(&sim, 1, &w);
        int32_t count;
        const qpc_contact_info *c = qpc_world_contacts(sim.w.world, &count);
        for (int32_t i = 0; i < count; i++) {
            double sign = c[i].body[0] == 0 ? 1 : -1, n[3] = {c[i].normal[0], c[i].normal[1], c[i].normal[2]};
            for (int k = 0; k < 3; k++) last[k] += sign * c[i].force * n[k] / 20;
        }
    }
    last[0] -= (sim.report.momentum_x - x) / (20 * 0.02); // what swings, or begins to slide off
    last[1] -= (sim.report.momentum_y - y) / (20 * 0.02);
    last[2] -= (sim.report.momentum_z - z) / (20 * 0.02);
    print_message("  force %g %g %g\n", last[0], last[1], last[2]);
    assert_oracle(last[1], "cloth_on_cylinder_weight", 0, 0);
    assert_oracle(last[0], "cloth_on_cylinder_weight", 1, 0);
    assert_oracle(last[2], "cloth_on_cylinder_weight", 1, 1);
    end_promised(&sim, &w, 20);
}

static void cloth_folds_on_itself(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    // a strip that stands on its edge and falls onto a floor
    simulation_start(&sim, "{'dt': 0.005, 'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 5, 'rows': 21,"
                           "'width': 0.2, 'depth': 1, 'axis': 'z'}}, 'position': [0, 0.52, 0], 'rotation': [0.9995, 0.03, 0, 0],"
                           "'area_density': 0.3, 'membrane_stiffness': 300, 'bending_stiffness': 1, 'radius': 0.005},"
                           "{'kind': 'static', 'mesh': {'generate': {'kind': 'sheet', 'width': 4, 'depth': 4}}}]}");
    int64_t self = 0;
    for (int i = 0; i < 200; i++) {
        run(&sim, 1, &w);
        int32_t count;
        const qpc_contact_info *c = qpc_world_contacts(sim.w.world, &count);
        for (int32_t k = 0; k < count; k++) self += c[k].body[0] == 0 && c[k].body[1] == 0 && c[k].force > 0;
    }
    print_message("  self-contacts with a force: %lld\n", (long long)self);
    assert_true(self > 100);
    end_promised(&sim, &w, 20);
}

static void a_cable_lies_on_cloth(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    simulation_start(&sim,
                     "{'dt': 0.005, 'bodies': ["
                     "{'kind': 'cable', 'nodes': {'generate': {'kind': 'line', 'from': [-0.2, 0.03, 0.011], 'to': [0.2, 0.05, -0.02],"
                     "'count': 9}}, 'mass': 0.01, 'stiffness': 1e3, 'radius': 0.01},"
                     "{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 9, 'width': 0.6}}, 'mass': 0.2,"
                     "'membrane_stiffness': 300, 'bending_stiffness': 0.5, 'radius': 0.005}],"
                     "'constraints': [{'kind': 'fixed', 'body': 1, 'nodes': [0, 8, 72, 80]}]}");
    run(&sim, 200, &w);
    for (int i = 0; i < 9; i++) assert_true(fabs(simulation_x(&sim, i)[0]) < 0.3); // in the trough
    end_promised(&sim, &w, 5);
}

static void cloth_is_carried_by_a_moving_box(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    simulation_start(&sim,
                     "{'dt': 0.005, 'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 13, 'width': 0.6}},"
                     "'position': [0, 0.21, 0], 'mass': 0.1, 'membrane_stiffness': 300, 'bending_stiffness': 0.5, 'radius': 0.004},"
                     "{'kind': 'kinematic', 'mesh': {'generate': {'kind': 'box', 'width': 0.3, 'height': 0.4, 'depth': 0.3}},"
                     "'velocity': [0.1, 0.5, 0], 'angular_velocity': [0, 0.5, 0.4]}]}");
    run(&sim, 120, &w);
    end_promised(&sim, &w, 20);
}

static void the_same_scene_gives_the_same_bits(void **state) {
    (void)state;
    const char *scene = "{'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 8}}, 'position': [0, 0.32, 0],"
                        "'mass': 0.1, 'membrane_stiffness': 300, 'bending_stiffness': 0.5, 'radius': 0.006},"
                        "{'kind': 'static', 'mesh': {'generate': {'kind': 'sphere', 'radius': 0.3}}}]}";
    uint64_t hash[2];
    for (int i = 0; i < 2; i++) {
        simulation sim;
        simulation_start(&sim, scene);
        simulation_step(&sim, 60);
        hash[i] = qpc_world_hash(sim.w.world);
        simulation_end(&sim);
    }
    assert_true(hash[0] == hash[1]);
}

static void the_number_of_threads_changes_no_bit(void **state) {
    (void)state;
    qpc_test_meshes *meshes = qpc_test_meshes_create();
    qpc_value scene;
    qpc_error err = {0};
    uint64_t hash[3];
    assert_ok(qpc_test_scene_text("{'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 24}}, 'position':"
                                  "[0, 0.32, 0], 'mass': 0.1, 'membrane_stiffness': 300, 'bending_stiffness': 0.5, 'radius': 0.006},"
                                  "{'kind': 'static', 'mesh': {'generate': {'kind': 'sphere', 'radius': 0.3}}}]}",
                                  meshes, &scene, &err), &err);
    for (int threads = 0; threads < 3; threads++) {
        qpc_team *team = NULL;
        qpc_world *world;
        if (threads > 0) assert_ok(qpc_team_create(threads, &team, &err), &err);
        qpc_parallel parallel = qpc_team_parallel(team);
        qpc_world_env env = {.user = meshes, .mesh_lookup = qpc_test_mesh_lookup, .parallel = team != NULL ? &parallel : NULL};
        assert_ok(qpc_world_create(&scene, &env, &world, NULL, &err), &err);
        for (int i = 0; i < 25; i++) assert_ok(qpc_world_step(world, NULL, &err), &err);
        hash[threads] = qpc_world_hash(world);
        qpc_world_destroy(world);
        qpc_team_destroy(team);
    }
    assert_true(hash[0] == hash[1] && hash[0] == hash[2]);
    qpc_value_fini(&scene);
    qpc_test_meshes_destroy(meshes);
}

/// Random sheets with random orders over random things: the promise holds whatever comes.
static void random_cloth_keeps_the_promise(void **state) {
    (void)state;
    uint64_t seed = 17;
    double largest = 0;
    int64_t halvings = 0, failsafe = 0, contacts = 0;
    for (int turn = 0; turn < 12; turn++) {
        double u[12];
        for (int i = 0; i < 12; i++) {
            seed = seed * 6364136223846793005U + 1442695040888963407U;
            u[i] = (double)(seed >> 11) * 0x1p-53;
        }
        simulation sim;
        text t = {.used = 0};
        double r = 0.002 * pow(5, u[0]);
        put(&t, "{'dt': %g, 'bodies': [", turn % 3 == 0 ? 0.01 : 0.005);
        for (int i = 0; i < 2; i++) // two sheets, one above the other, at up to 5 m/s
            put(&t, "{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': %d, 'rows': %d, 'width': %g}}, 'position':"
                    "[%g, %g, 0], 'rotation': [1, %g, %g, %g], 'radius': %g, 'area_density': %g, 'membrane_stiffness': %g,"
                    "'bending_stiffness': %g, 'velocity': [%g, %g, 0]},",
                4 + (int)(5 * u[1]), 4 + (int)(5 * u[2]), 0.3 + 0.2 * u[3], 0.05 * i, 0.35 + 0.3 * i, 0.3 * (u[4] - 0.5),
                0.3 * (u[5] - 0.5), 0.3 * (u[6] - 0.5), r, 0.05 + u[7], pow(10, 1 + 3 * u[8]), u[9] < 0.3 ? 0 : u[9],
                (1 - 2 * i) * u[10], -5 * u[11] * i);
        put(&t, "{'kind': 'cable', 'nodes': {'generate': {'kind': 'line', 'from': [-0.4, 0.9, 0.01], 'to': [0.4, 0.95, 0.02],"
                "'count': 12}}, 'mass': 0.02, 'stiffness': 1e3, 'radius': 0.01, 'velocity': [0, -3, 0]},");
        if (turn % 2 == 0)
            put(&t, "{'kind': 'kinematic', 'mesh': {'generate': {'kind': 'box', 'width': 0.3, 'height': 0.2, 'depth': 0.3}}, 'velocity':"
                    "[0, %g, 0.3], 'angular_velocity': [0, 2, %g]}]", 2 * u[4], 3 * u[5]);
        else
            put(&t, "{'kind': 'static', 'mesh': {'generate': {'kind': 'sphere', 'radius': 0.15, 'triangles': 80}}}]");
        put(&t, ", 'constraints': [{'kind': 'fixed', 'body': %d, 'nodes': [0%s]}%s]}", turn % 2, turn % 4 == 0 ? ", -1" : "",
            turn % 5 == 0 ? ", {'kind': 'strain-limit', 'body': 0, 'max': 1.1}" : "");
        worst w = {0};
        simulation_start(&sim, t.c);
        run(&sim, 60, &w);
        halvings += w.halvings;
        failsafe += w.failsafe;
        contacts += w.contacts;
        largest = fmax(largest, sim.w.found.worst_penetration);
        assert_int_equal(w.unproven, 0);
        assert_true(w.drift <= 1e-6 || w.bad > 0);
        simulation_end(&sim); // nothing was crossed
    }
    print_message("  contacts %lld halvings %lld failsafe %lld penetration %.4f\n", (long long)contacts, (long long)halvings,
                  (long long)failsafe, largest);
    assert_true(contacts > 100);
}

// ---- what is refused ----

static void refused(const char *json, const char *message) {
    qpc_test_meshes *meshes = qpc_test_meshes_create();
    qpc_value scene;
    qpc_watched w;
    qpc_error err = {0};
    assert_ok(qpc_test_scene_text(json, meshes, &scene, &err), &err);
    assert_fails(qpc_watched_create(&scene, meshes, &w, NULL, &err), QPC_ERR_INVALID, &err, message);
    qpc_value_fini(&scene);
    qpc_test_meshes_destroy(meshes);
}
#define CLOTH(more) "{'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 3}}" more "}]}"
static void scenes_that_say_too_little_or_too_much_are_refused(void **state) {
    (void)state;
    refused(CLOTH(", 'radius': 0.01, 'membrane_stiffness': 1"), "bodies[0]: give mass");
    refused(CLOTH(", 'radius': 0.01, 'membrane_stiffness': 1, 'mass': 1, 'area_density': 1"), "bodies[0]: give mass");
    refused(CLOTH(", 'radius': 0.01, 'mass': 1"), "bodies[0]: give young (Pa), stiffness");
    refused(CLOTH(", 'radius': 0.01, 'mass': 1, 'stiffness': [1, 2]"), "bodies[0].stiffness: has 2 numbers; wanted one for all or 16");
    refused(CLOTH(", 'radius': 0.01, 'mass': [1, 2], 'stiffness': 1"), "bodies[0].mass: has 2 numbers");
    refused(CLOTH(", 'radius': 0, 'mass': 1, 'stiffness': 1"), "bodies[0].radius");
    refused(CLOTH(", 'radius': 1e-3, 'mass': 1, 'stiffness': 1, 'bending_stifness': 1"), "bending_stiffness");
    refused(CLOTH(", 'radius': 1e-3, 'mass': 1, 'stiffness': 1, 'nodes': [[0, 0, 0]]"), "bodies[0].nodes: has 1 points; the mesh has 9");
}
static void cloth_that_intersects_is_refused_by_name(void **state) {
    (void)state;
#define TANGLE(start)                                                                                                          \
    "{'start': '" start "', 'bodies': [{'name': 'flag', 'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 6}}," \
    "'radius': 0.01, 'mass': 1, 'stiffness': 1e3, 'position': [0, 0.1, 0]},"                                                   \
    "{'name': 'ball', 'kind': 'static', 'mesh': {'generate': {'kind': 'sphere', 'radius': 0.3}}}]}"
    refused(TANGLE("refuse"), "body 0 (flag)");
    refused(TANGLE("push-out"), "cloth or a soft body that intersects itself or something else is not pushed out");
}
static void cloth_within_its_thickness_is_pushed_out(void **state) {
    (void)state;
    simulation sim;
    worst w = {0};
    simulation_start(&sim, "{'start': 'push-out', 'bodies': [{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 6}},"
                           "'radius': 0.01, 'mass': 1, 'membrane_stiffness': 1e3, 'position': [0, 0.305, 0]},"
                           "{'kind': 'static', 'mesh': {'generate': {'kind': 'sphere', 'radius': 0.3, 'axis': 'y'}}}]}");
    run(&sim, 10, &w);
    end_promised(&sim, &w, 1);
}

/// test_cloth [PATTERN]: the functions whose names match.
int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sheet_falls_as_a_particle_does),
        cmocka_unit_test(one_spring_of_cloth_follows_backward_euler),
        cmocka_unit_test(a_sheet_hangs_as_its_columns_do),
        cmocka_unit_test(a_strip_hangs_as_a_catenary),
        cmocka_unit_test(an_isolated_sheet_keeps_its_momentum),
        cmocka_unit_test(a_gain_of_one_linear_solve_is_undone_and_no_more),
        cmocka_unit_test(two_corners_carry_the_weight),
        cmocka_unit_test(strain_limits_hold_cloth),
        cmocka_unit_test(cloth_falls_on_a_sphere),
        cmocka_unit_test(cloth_is_pulled_off_a_sphere),
        cmocka_unit_test(cloth_hangs_over_a_cylinder),
        cmocka_unit_test(cloth_folds_on_itself),
        cmocka_unit_test(a_cable_lies_on_cloth),
        cmocka_unit_test(cloth_is_carried_by_a_moving_box),
        cmocka_unit_test(the_same_scene_gives_the_same_bits),
        cmocka_unit_test(the_number_of_threads_changes_no_bit),
        cmocka_unit_test(random_cloth_keeps_the_promise),
        cmocka_unit_test(scenes_that_say_too_little_or_too_much_are_refused),
        cmocka_unit_test(cloth_that_intersects_is_refused_by_name),
        cmocka_unit_test(cloth_within_its_thickness_is_pushed_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
