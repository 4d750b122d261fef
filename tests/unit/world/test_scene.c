/// Scenes: good ones are read as written, bad ones are refused with the key, the place and what would be right.
#include "tests/unit/world/support.h"

#include "tests/support/faults.h"

#include <stdio.h>
#include <string.h>

static void refused(const char *text, qpc_status status, const char *message) {
    qpc_world *w = NULL;
    qpc_error err = {0};
    assert_fails(world_of(text, &w, NULL, &err), status, &err, message);
    assert_null(w);
}

static void a_scene_gives_its_bodies_in_order(void **state) {
    (void)state;
    qpc_world *w;
    qpc_error err = {0};
    assert_ok(world_of("{'bodies':[" FLOOR "," CABLE "],'dt':0.01}", &w, NULL, &err), &err);
    assert_int_equal(qpc_world_body_count(w), 2);
    qpc_body_info floor = qpc_world_body(w, 0), cable = qpc_world_body(w, 1);
    assert_string_equal(floor.kind, "static");
    assert_string_equal(cable.name, "c");
    assert_int_equal(cable.first_node, 0); // nodes that move come first
    assert_int_equal(floor.first_node, 3);
    assert_true(cable.moves && !floor.moves);
    assert_near(qpc_world_positions(w)[3 * (cable.first_node + 1)], 0.1, 0.0);
    assert_near(qpc_world_dt(w), 0.01, 0.0);
    qpc_world_destroy(w);
}

static void unknown_keys_name_the_nearest_known_one(void **state) {
    (void)state;
    refused("{'bodies':[" CABLE "],'gravitty':[0,0,0]}", QPC_ERR_INVALID, "gravity");
    refused("{'bodies':[{'kind':'cable','nodes':[[0,0,0],[1,0,0]],'mas':1,'stiffness':1,'radius':1}]}", QPC_ERR_INVALID, "mass");
    refused("{'bodies':[" CABLE "],'solver':{'nam':'auto'}}", QPC_ERR_INVALID, "name");
    refused("{'bodies':[" CABLE "],'solver':{'name':'activ-set'}}", QPC_ERR_INVALID, "active-set");
    refused("{'bodies':[{'kind':'cable','nodes':[[0,0,0],[1,0,0]],'mass':[1,1e-320],'stiffness':1,'radius':1}]}", QPC_ERR_INVALID,
            "gives node 1 a mass of 9.99989e-321 kg; the least is 1e-30 kg");
    refused("{'bodies':[{'kind':'rigid','shape':{'kind':'sphere','radius':1},'density':1e-31}]}", QPC_ERR_INVALID, "the least is 1e-30 kg");
    refused("{'bodies':[{'kind':'cabel'}]}", QPC_ERR_INVALID, "cable");
    refused("{'bodies':[" CABLE "],'constraints':[{'kind':'fixed','body':'d','nodes':[0]}]}", QPC_ERR_INVALID, "\"c\"");
    refused("{'bodies':[" CABLE "],'record':{'frame':1}}", QPC_ERR_INVALID, "frames");
}

static void joints_that_make_no_sense_are_refused_by_place(void **state) {
    (void)state;
#define PLATE "{'kind':'rigid','mesh':{'sha256':'@'},'mass':1,'inertia':[1,1,1],'radius':0.001,'position':[0,5,0]}"
#define WITH(joint) "{'bodies':[" CABLE "," FLOOR "],'constraints':[" joint "]}"
    refused(WITH("{'kind':'atach'}"), QPC_ERR_INVALID, "attach");
    refused(WITH("{'kind':'attach','points':[{'body':'c','node':0}]}"), QPC_ERR_INVALID, "constraints[0].points: wanted a list of 2");
    refused(WITH("{'kind':'attach','points':[{'body':'d','node':0},{'at':[0,1,0]}]}"), QPC_ERR_INVALID, "no body is called");
    refused(WITH("{'kind':'attach','points':[{'body':'c','node':3},{'at':[0,1,0]}]}"), QPC_ERR_INVALID, "constraints[0].points[0].node");
    refused(WITH("{'kind':'attach','points':[{'body':'c','node':0,'at':[0,1,0]},{'at':[0,1,0]}]}"), QPC_ERR_INVALID, "not both");
    refused(WITH("{'kind':'attach','points':[{'body':'c'},{'at':[0,1,0]}]}"), QPC_ERR_INVALID, "give node");
    refused(WITH("{'kind':'attach','points':[{'body':'c','node':0},{}]}"), QPC_ERR_INVALID, "give body, at or both");
    refused(WITH("{'kind':'attach','points':[{'body':'c','node':0},{'node':1}]}"), QPC_ERR_INVALID, "needs a body");
    refused(WITH("{'kind':'attach','points':[{'body':'c','node':1},{'body':'c','node':-2}]}"), QPC_ERR_INVALID, "node 1 of body 0 is held to itself");
    refused(WITH("{'kind':'attach','points':[{'body':'c','node':0},{'at':[0,1.1,0]}]}"), QPC_ERR_INVALID, "0.1 m apart");
    refused(WITH("{'kind':'attach','points':[{'body':'floor','at':[0,0,0]},{'at':[0,0,0]}]}"), QPC_ERR_INVALID, "nothing that it holds can move");
    refused(WITH("{'kind':'fixed','body':'c','nodes':[0]},{'kind':'attach','points':[{'body':'c','node':0},{'at':[0,1,0]}]}"),
            QPC_ERR_INVALID, "constraints[1]: nothing that it holds can move");
    refused(WITH("{'kind':'ball','body':'c','at':[0,0,0]}"), QPC_ERR_INVALID, "attach");
    refused("{'bodies':[" PLATE "],'constraints':[{'kind':'ball','body':0}]}", QPC_ERR_INVALID, "constraints[0].at");
    refused("{'bodies':[" PLATE "],'constraints':[{'kind':'ball','body':0,'other':0,'at':[0,5,0]}]}", QPC_ERR_INVALID, "both are points of body 0");
    refused("{'bodies':[" PLATE "],'constraints':[{'kind':'ball','body':1,'at':[0,5,0]}]}", QPC_ERR_INVALID, "constraints[0].body");
    refused("{'bodies':[" PLATE "],'constraints':[{'kind':'hinge','body':0,'at':[0,5,0]}]}", QPC_ERR_INVALID, "constraints[0].axis");
    refused("{'bodies':[" PLATE "],'constraints':[{'kind':'hinge','body':0,'at':[0,5,0],'axis':[0,0,0]}]}", QPC_ERR_INVALID, "must not be zero");
    refused("{'bodies':[" PLATE "],'constraints':[{'kind':'ball','body':0,'at':[0,5.5,0]}]}", QPC_ERR_INVALID, "flat, and the point is 0.5 m off");
    refused(WITH("{'kind':'tendon','points':[{'body':'c','node':0}]}"), QPC_ERR_INVALID, "2 to 64 points, there is 1");
    refused(WITH("{'kind':'tendon','points':[{'body':'c','node':0},{'at':[0,3,0]}],'length':-1}"), QPC_ERR_INVALID, "constraints[0].length");
    refused(WITH("{'kind':'tendon','points':[{'body':'c','node':0},{'at':[0,3,0]}],'length':1.5}"), QPC_ERR_INVALID, "is 2 m, and length 1.5 m");
    refused(WITH("{'kind':'tendon','points':[{'body':'c','node':0},{'at':[0,3,0]}],'length':2.5,'equal':true}"), QPC_ERR_INVALID, "length 2.5 m");
    refused(WITH("{'kind':'tendon','points':[{'body':'c','node':0},{'at':[0,1,0]}]}"), QPC_ERR_INVALID, "points 0 and 1 are at one place");
#undef WITH
#undef PLATE
}

static void loads_that_make_no_sense_are_refused_by_place(void **state) {
    (void)state;
#define WITH(load) "{'bodies':[" CABLE "," FLOOR "],'loads':[" load "]}"
#define ENDS "'points':[{'body':'c','node':0},{'at':[0,3,0]}]"
    refused(WITH("{'kind':'sprin'}"), QPC_ERR_INVALID, "spring");
    refused(WITH("{'kind':'spring'," ENDS "}"), QPC_ERR_INVALID, "loads[0]: give stiffness, damping or both");
    refused(WITH("{'kind':'spring'," ENDS ",'stiffness':-1}"), QPC_ERR_INVALID, "loads[0].stiffness");
    refused(WITH("{'kind':'spring'," ENDS ",'damping':-1}"), QPC_ERR_INVALID, "loads[0].damping");
    refused(WITH("{'kind':'spring','points':[{'body':'c','node':0}],'stiffness':1}"), QPC_ERR_INVALID, "loads[0].points");
    refused(WITH("{'kind':'spring','points':[{'body':'c','node':0},{'at':[0,1,0]}],'stiffness':1}"), QPC_ERR_INVALID, "at one place");
    refused(WITH("{'kind':'drag','body':'floor','per_mass':1}"), QPC_ERR_INVALID, "loads[0].body");
    refused(WITH("{'kind':'drag','body':'d','per_mass':1}"), QPC_ERR_INVALID, "no body is called");
    refused(WITH("{'kind':'drag'}"), QPC_ERR_INVALID, "per_mass (1/s) and coefficient");
    refused(WITH("{'kind':'pressure','body':'c','pressure':1}"), QPC_ERR_INVALID, "loads[0].body: pressure is for");
    refused(WITH("{'kind':'pressure','body':'floor','pressure':1}"), QPC_ERR_INVALID, "loads[0].body: pressure is for");
    refused(WITH("{'kind':'wind','body':'c','velocity':[1,0,0]}"), QPC_ERR_INVALID, "loads[0].body: wind is for cloth and soft bodies");
    refused(WITH("{'kind':'wind','body':'floor','velocity':[1,0,0]}"), QPC_ERR_INVALID, "loads[0].body: wind is for cloth and soft bodies");
    refused(WITH("{'kind':'wind','velocity':[1,0,0]}"), QPC_ERR_INVALID, "loads[0].body: it is missing");
    refused(WITH("{'kind':'damping','body':'c','per_stiffness':1}"), QPC_ERR_INVALID, "loads[0].body: damping by stiffness is for soft bodies");
    refused(WITH("{'kind':'pressure','pressure':1}"), QPC_ERR_INVALID, "loads[0].body: it is missing; want a body: its name or its index");
    refused(WITH("{'kind':'damping','body':0.5,'per_stiffness':1}"), QPC_ERR_INVALID, "want a body: its name or its index");
    refused(WITH("{'kind':'drag','per_mass':-1}"), QPC_ERR_INVALID, "loads[0].per_mass");
    refused("{'integrator':'rk4','bodies':[" CABLE "],'loads':[{'kind':'drag','per_mass':1}]}", QPC_ERR_INVALID, "loads are for \"implicit-euler\"");
    refused("{'solver':{'name':'position-based'},'bodies':[" CABLE "],'loads':[{'kind':'drag','per_mass':1}]}", QPC_ERR_INVALID, "this scene has loads");
#undef ENDS
#undef WITH
}

static void numbers_out_of_range_are_refused_by_place(void **state) {
    (void)state;
    refused("{'bodies':[" CABLE "],'dt':0}", QPC_ERR_INVALID, "dt");
    refused("{'bodies':[" CABLE "],'dt':-1}", QPC_ERR_INVALID, "dt");
    refused("{'bodies':[" CABLE "],'dt':'1e9'}", QPC_ERR_INVALID, "from 1e-09 to 1000000");
    refused("{'bodies':[" CABLE "],'dt':1e40}", QPC_ERR_INVALID, "from 1e-09 to 1000000");
    refused("{'bodies':[{'kind':'cable','nodes':[[0,0,0],[1,0,0]],'mass':[1,0],'stiffness':1,'radius':0.1}]}", QPC_ERR_INVALID,
            "bodies[0].mass: entry 1 is 0");
    refused("{'bodies':[{'kind':'cable','nodes':[[0,0,0],[1,0,0]],'mass':-1,'stiffness':1,'radius':0.1}]}", QPC_ERR_INVALID, "mass");
    refused("{'bodies':[{'kind':'cable','nodes':[[0,0,0],[1,0,0]],'mass':1,'stiffness':1,'radius':0}]}", QPC_ERR_INVALID, "radius");
    refused("{'bodies':[{'kind':'cable','nodes':[[0,0,0],[1,0,0]],'mass':[1,2,3],'stiffness':1,'radius':0.1}]}", QPC_ERR_INVALID, "2");
    refused("{'bodies':[{'kind':'cable','nodes':[[0,0,0],[0,0,0]],'mass':1,'stiffness':1,'radius':0.1}]}", QPC_ERR_INVALID, "same place");
    refused("{'bodies':[{'kind':'cable','nodes':[],'mass':1,'stiffness':1,'radius':0.1}]}", QPC_ERR_INVALID, "nodes");
    refused("{'bodies':[" CABLE "],'constraints':[{'kind':'fixed','body':'c','nodes':[3]}]}", QPC_ERR_INVALID, "constraints[0].nodes");
    refused("{'bodies':[" CABLE "],'constraints':[{'kind':'strain-limit','body':'c','max':0.5}]}", QPC_ERR_INVALID, "max");
    refused("{'bodies':[" CABLE "],'constraints':[{'kind':'strain-limit','body':'c'}]}", QPC_ERR_INVALID, "max, min or both");
    refused("{'bodies':[]}", QPC_ERR_INVALID, "bodies");
    refused("{'bodies':[" CABLE "," CABLE "]}", QPC_ERR_EXISTS, "called");
    refused("{'bodies':[{'kind':'static','mesh':{'sha256':'00'}}]}", QPC_ERR_INVALID, "64 hex");
    refused("{'bodies':[{'kind':'static','mesh':{'sha256':'0000000000000000000000000000000000000000000000000000000000000000'}}]}",
            QPC_ERR_NOT_FOUND, "mesh");
    refused("{'bodies':[{'kind':'static','mesh':{'sha256':'@'},'rotation':[0,0,0,0]}]}", QPC_ERR_INVALID, "quaternion");
    refused("{'bodies':[{'kind':'cable','nodes':[[0,0,0],[1,0,0]],'mass':1,'radius':0.1}]}", QPC_ERR_INVALID, "stiffness");
    refused("{'bodies':[{'kind':'cable','nodes':[[0,0,0],[1,0,0]],'mass':1,'radius':0.1,'stiffness':1,'axial_stiffness':1}]}",
            QPC_ERR_INVALID, "not both");
}

#define ROPE "{'kind':'cable','material':'rope','nodes':[[0,0,0],[1,0,0]],'mass':1,'stiffness':1,'radius':0.1}"
static void laws_of_contacts_are_read_by_pair(void **state) {
    (void)state;
    refused("{'bodies':[" ROPE "],'contacts':1}", QPC_ERR_INVALID, "contacts");
    refused("{'bodies':[" ROPE "],'contacts':{'fricton':1}}", QPC_ERR_INVALID, "friction");
    refused("{'bodies':[" ROPE "],'contacts':{'friction':-0.1}}", QPC_ERR_INVALID, "contacts.friction");
    refused("{'bodies':[" ROPE "],'contacts':{'restitution':1.01}}", QPC_ERR_INVALID, "contacts.restitution");
    refused("{'bodies':[" ROPE "],'contacts':{'pairs':[{'materials':['rope','ropes']}]}}", QPC_ERR_INVALID, "did you mean \"rope\"");
    refused("{'bodies':[" ROPE "],'contacts':{'pairs':[{'materials':['rope']}]}}", QPC_ERR_INVALID, "contacts.pairs[0].materials");
    refused("{'bodies':[" ROPE "],'contacts':{'pairs':[{'materials':['rope','rope'],'friction':101}]}}", QPC_ERR_INVALID,
            "contacts.pairs[0].friction");
    refused("{'bodies':[" ROPE "],'contacts':{'pairs':[{'materials':['rope','rope']},{'materials':['rope','rope']}]}}", QPC_ERR_EXISTS,
            "contacts.pairs[1]");
    refused("{'bodies':[" CABLE "],'contacts':{'pairs':[{'materials':['rope','rope']}]}}", QPC_ERR_INVALID, "no body");
    refused("{'bodies':[{'kind':'cable','material':'','nodes':[[0,0,0]],'mass':1,'radius':0.1}]}", QPC_ERR_INVALID, "material");
    refused("{'bodies':[" ROPE "],'solver':{'friction':'exat'}}", QPC_ERR_INVALID, "exact");
    refused("{'bodies':[" ROPE "],'solver':{'impact':'both'}}", QPC_ERR_INVALID, "solver.impact");
    refused("{'bodies':[" ROPE "],'solver':{'budget':-1}}", QPC_ERR_INVALID, "solver.budget");
    qpc_world *w = NULL;
    qpc_error err = {0};
    assert_ok(world_of("{'bodies':[" ROPE "," CABLE "],'contacts':{'friction':0.3,'pairs':[{'materials':['rope','rope'],'restitution':0.5}]}}",
                       &w, NULL, &err), &err);
    qpc_world_destroy(w);
}

static void a_node_may_be_fixed_under_two_names(void **state) {
    (void)state;
    qpc_world *w = NULL;
    qpc_error err = {0};
    int32_t count;
    const int32_t *node;
    assert_ok(world_of("{'bodies':[{'kind':'cable','name':'p','nodes':[[0,1,0]],'mass':1,'radius':0.1}],"
                       "'constraints':[{'kind':'fixed','body':'p','nodes':[0,-1,0]},{'kind':'fixed','body':'p','nodes':[-1]}]}",
                       &w, NULL, &err), &err);
    (void)qpc_world_reactions(w, &node, &count);
    assert_int_equal(count, 1);
    qpc_world_destroy(w);
    assert_fails(world_of("{'gravty':1,'bodies':[" CABLE "]}", &w, NULL, &err), QPC_ERR_INVALID, &err, "gravity");
    assert_string_equal(err.where, "gravty"); // places in scenes begin inside the scene
}

static void values_that_are_not_finite_are_refused(void **state) {
    (void)state;
    qpc_mesh *mesh = floor_mesh();
    qpc_value scene = scene_of("{'bodies':[" CABLE "]}", mesh);
    qpc_world_env env = {.user = mesh, .mesh_lookup = lookup};
    qpc_world *w = NULL;
    qpc_error err = {0};
    qpc_value *body = &((qpc_value *)(uintptr_t)qpc_map_get(&scene, "bodies"))->list.items[0];
    assert_ok(qpc_map_set(body, "mass", qpc_real((double)NAN)), &err);
    assert_fails(qpc_world_create(&scene, &env, &w, NULL, &err), QPC_ERR_INVALID, &err, "mass");
    assert_ok(qpc_map_set(body, "mass", qpc_real((double)INFINITY)), &err);
    assert_fails(qpc_world_create(&scene, &env, &w, NULL, &err), QPC_ERR_INVALID, &err, "mass");
    qpc_value_fini(&scene);
    qpc_mesh_unref(mesh);
}

static void bodies_that_intersect_at_the_start_are_listed(void **state) {
    (void)state;
    qpc_world *w = NULL;
    qpc_error err = {0};
    qpc_scene_report report;
    const char *through = "{'bodies':[{'kind':'cable','name':'needle','nodes':[[0.2,0.5,0.1],[0.2,-0.3,0.1]],'mass':1,'stiffness':10,"
                          "'radius':0.01}," FLOOR "]}";
    assert_fails(world_of(through, &w, &report, &err), QPC_ERR_INVALID, &err, "needle");
    assert_int_equal(report.overlap_count, 1);
    assert_int_equal(report.pair_count, 1);
    assert_near(report.pair[0].depth, 0.3, 1e-12); // the shorter way out
    const char *close = "{'bodies':[{'kind':'cable','nodes':[[0.2,0.004,0.1],[0.3,0.004,0.1]],'mass':1,'stiffness':10,"
                        "'radius':0.01}," FLOOR "]}";
    assert_ok(world_of(close, &w, &report, &err), &err);
    assert_true(report.close_count > 0);
    assert_true(report.warning_count > 0);
    qpc_world_destroy(w);
}

static void the_scene_hash_sees_what_changes_bits_and_nothing_else(void **state) {
    (void)state;
    static const char *const same[] = {
        "{'bodies':[" CABLE "],'dt':0.01}",
        "{'dt':0.01,'bodies':[" CABLE "]}",
        "{'name':'x','bodies':[" CABLE "],'dt':0.01,'record':{'frames':2}}",
        ("{'bodies':[{'kind':'cable','name':'other','nodes':[[0,1,0],[0.1,1,0],[0.2,1,0]],'mass':1e-1,'stiffness':1000.0,"
         "'radius':0.01}],'dt':0.01}"),
    };
    static const char *const other[] = {
        "{'bodies':[" CABLE "],'dt':0.02}",
        "{'bodies':[" CABLE "],'dt':0.01,'gravity':[0,-9.81,0]}",
        "{'bodies':[" CABLE "],'dt':0.01,'constraints':[{'kind':'fixed','body':'c','nodes':[0]}]}",
    };
    uint64_t first = 0;
    qpc_error err = {0};
    for (size_t i = 0; i < 7; i++) {
        qpc_world *w;
        assert_ok(world_of(i < 4 ? same[i] : other[i - 4], &w, NULL, &err), &err);
        uint64_t hash = qpc_world_scene_hash(w);
        if (i == 0) first = hash;
        if (i < 4) assert_true(hash == first);
        else assert_true(hash != first);
        qpc_world_destroy(w);
    }
}

static void creation_survives_every_failing_allocation(void **state) {
    (void)state;
    qpc_mesh *mesh = floor_mesh();
    qpc_value scene = scene_of("{'bodies':[" CABLE "," FLOOR "],'constraints':[{'kind':'fixed','body':'c','nodes':[0]},"
                               "{'kind':'strain-limit','body':'c','max':1.1}]}", mesh);
    qpc_world_env env = {.user = mesh, .mesh_lookup = lookup};
    QPC_FAULTS(f) {
        qpc_world *w = NULL;
        qpc_error err = {0};
        if (qpc_faults_ended(&f, qpc_world_create(&scene, &env, &w, NULL, &err))) qpc_world_destroy(w);
    }
    qpc_value_fini(&scene);
    qpc_mesh_unref(mesh);
}

/// Springs or a sheet.
static void cloth_survives(const char *stiffness) {
    qpc_mesh *mesh = floor_mesh();
    char text[2048];
    (void)snprintf(text, sizeof text, "{'bodies':[" CABLE ", {'kind':'cloth','name':'f','mesh':{'sha256':'@'},'position':[0,-1,0],"
                   "'radius':0.01,'mass':1,%s}, " FLOOR "],'constraints':[{'kind':'fixed','body':'f','nodes':[0]},"
                   "{'kind':'strain-limit','body':'f','max':1.1}]}", stiffness);
    qpc_value scene = scene_of(text, mesh);
    qpc_world_env env = {.user = mesh, .mesh_lookup = lookup};
    QPC_FAULTS(f) {
        qpc_world *w = NULL;
        qpc_error err = {0};
        qpc_status st = qpc_world_create(&scene, &env, &w, NULL, &err);
        if (st != QPC_OK && !qpc_faults_ended(&f, st)) continue;
        qpc_mem_disarm(); // what CHOLMOD can do without it does without
        qpc_body_info cable = qpc_world_body(w, 0), cloth = qpc_world_body(w, 1);
        assert_string_equal(cloth.kind, "cloth");
        assert_int_equal(cloth.first_node, 3);
        assert_int_equal(cloth.node_count, 4);
        assert_int_equal(cloth.element_count, 2);
        assert_int_equal(cloth.nodes_per_element, 3);
        assert_int_equal(cable.spring_count, 2);
        assert_int_equal(cloth.first_spring, 2);
        assert_int_equal(cloth.spring_count, 6); // five edges and one across
        assert_true(cloth.moves && cloth.mesh != NULL);
        qpc_world_destroy(w);
    }
    qpc_value_fini(&scene);
    qpc_mesh_unref(mesh);
}

static void cloth_survives_every_failing_allocation(void **state) {
    (void)state;
    cloth_survives("'membrane_stiffness':100,'bending_stiffness':1");
    cloth_survives("'young':1e5,'poisson':0.2,'thickness':0.001");
}

/// A unit cube of six tetrahedra around its diagonal.
static qpc_mesh *cube_mesh(bool spare) {
    static const int32_t tets[] = {0, 1, 3, 7, 0, 5, 1, 7, 0, 3, 2, 7, 0, 2, 6, 7, 0, 4, 5, 7, 0, 6, 4, 7};
    double x[27];
    qpc_mesh *mesh;
    for (int i = 0; i < 9; i++)
        for (int k = 0; k < 3; k++) x[3 * i + k] = i >> k & 1;
    assert_int_equal(qpc_mesh_create(x, spare ? 9 : 8, tets, 6, 4, NULL, &mesh, NULL, NULL), QPC_OK);
    return mesh;
}

static void soft_bodies_survive_every_failing_allocation(void **state) {
    (void)state;
    qpc_mesh *mesh = cube_mesh(false);
    qpc_value scene = scene_of("{'bodies':[" CABLE ", {'kind':'soft','name':'s','mesh':{'sha256':'@'},'position':[0,-3,0],'radius':0.01,"
                               "'density':10,'young':1e4}],'constraints':[{'kind':'fixed','body':'s','nodes':[0,7]}]}", mesh);
    qpc_world_env env = {.user = mesh, .mesh_lookup = lookup};
    QPC_FAULTS(f) {
        qpc_world *w = NULL;
        qpc_error err = {0};
        qpc_status st = qpc_world_create(&scene, &env, &w, NULL, &err);
        if (st != QPC_OK && !qpc_faults_ended(&f, st)) continue;
        qpc_mem_disarm(); // what CHOLMOD can do without it does without
        qpc_body_info soft = qpc_world_body(w, 1);
        assert_string_equal(soft.kind, "soft");
        assert_int_equal(soft.first_node, 3);
        assert_int_equal(soft.node_count, 8);
        assert_int_equal(soft.element_count, 12); // triangles around it
        assert_int_equal(soft.spring_count, 0);
        assert_ptr_equal(soft.tets, mesh);
        double all = 0;
        for (int i = 0; i < 8; i++) all += qpc_world_masses(w)[3 + i];
        assert_true(fabs(all - 10) < 1e-12);
        qpc_world_destroy(w);
    }
    qpc_value_fini(&scene);
    qpc_mesh_unref(mesh);
}

static void a_soft_body_says_what_is_wrong_with_it(void **state) {
    (void)state;
    static const struct {
        const char *keys, *message;
    } cases[] = {
        {"'young':1e4", "bodies[0]: give density (kg/m3) or mass"},
        {"'density':1,'mass':1,'young':1e4", "bodies[0]: give density (kg/m3) or mass"},
        {"'density':1", "bodies[0].young"},
        {"'density':1,'young':1e4,'poisson':0.5", "bodies[0].poisson"},
        {"'density':1,'young':1e4,'model':'linear'", "bodies[0].model"},
        {"'density':1,'young':1e4,'stiffness':3", "stiffness"},
        {"'density':1,'young':1e4,'velocity':[[0,0,0],[1,0,0]]", "bodies[0].velocity"},
    };
    qpc_mesh *const meshes[] = {cube_mesh(false), cube_mesh(true), floor_mesh()};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0] + 3; i++) {
        bool mesh_case = i >= sizeof cases / sizeof cases[0];
        size_t m = mesh_case ? i - sizeof cases / sizeof cases[0] : 0;
        static const char *const of_meshes[] = {"bodies[0].radius", "vertex 8 of the mesh belongs to no tetrahedron", "a soft body needs tetrahedra"};
        char text[512];
        qpc_world *w = NULL;
        qpc_error err = {0};
        (void)snprintf(text, sizeof text, "{'bodies':[{'kind':'soft','mesh':{'sha256':'@'},'radius':%s,%s}]}",
                       mesh_case && m == 0 ? "0" : "0.01", mesh_case ? "'density':1,'young':1e4" : cases[i].keys);
        qpc_value scene = scene_of(text, meshes[m]);
        qpc_world_env env = {.user = meshes[m], .mesh_lookup = lookup};
        assert_int_equal(qpc_world_create(&scene, &env, &w, NULL, &err), QPC_ERR_INVALID);
        const char *wanted = mesh_case ? of_meshes[m] : cases[i].message;
        if (strstr(err.message, wanted) == NULL) print_error("%s: %s\n", text, err.message);
        assert_non_null(strstr(err.message, wanted));
        qpc_value_fini(&scene);
    }
    for (int m = 0; m < 3; m++) qpc_mesh_unref(meshes[m]);
}

static void a_sheet_says_what_is_wrong_with_it(void **state) {
    (void)state;
    static const struct {
        const char *keys, *message;
    } cases[] = {
        {"'young':1e5,'stiffness':10", "bodies[0]: give young or stiffness, not both"},
        {"'young':1e5,'bending_stiffness':10", "bodies[0]: give young or bending_stiffness, not both"},
        {"'membrane_stiffness':1e5,'poisson':0.1", "bodies[0]: poisson goes with young"},
        {"'young':0", "bodies[0].young"},
        {"'young':1e5,'poisson':1", "bodies[0].poisson"},
        {"'young':1e5,'thickness':-1", "bodies[0].thickness"},
        {"'young':1e5,'bending_rigidity':-1", "bodies[0].bending_rigidity"},
        {"'young':1e30,'thickness':1e9", "the stiffness of the sheet is"},
        {"'bending_stiffness':1", "bodies[0]: give young (Pa), stiffness"},
    };
    qpc_mesh *mesh = floor_mesh();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512];
        qpc_world *w = NULL;
        qpc_error err = {0};
        (void)snprintf(text, sizeof text, "{'bodies':[{'kind':'cloth','mesh':{'sha256':'@'},'radius':0.01,'mass':1,%s}]}", cases[i].keys);
        qpc_value scene = scene_of(text, mesh);
        qpc_world_env env = {.user = mesh, .mesh_lookup = lookup};
        assert_int_equal(qpc_world_create(&scene, &env, &w, NULL, &err), QPC_ERR_INVALID);
        if (strstr(err.message, cases[i].message) == NULL) print_error("%s: %s\n", cases[i].keys, err.message);
        assert_non_null(strstr(err.message, cases[i].message));
        qpc_value_fini(&scene);
    }
    qpc_mesh_unref(mesh);
}

/// A step that runs out of the range of numbers says which body, and what of it.
static void a_step_beyond_all_numbers_names_its_cause(void **state) {
    (void)state;
    qpc_world *w = NULL;
    qpc_error err = {0};
    qpc_step_report r;
    assert_ok(world_of("{'dt':0.005,'bodies':[{'kind':'cable','nodes':[[0,0,0]],'mass':1,'radius':0.01},{'kind':'rigid','mesh':{'sha256':'@'},'mass':1,'inertia':[1,1,1],"
                       "'radius':0.01,'position':[0,5,0],'angular_velocity':[0,1e9,0]}]}", &w, NULL, &err), &err);
    assert_fails(qpc_world_step(w, &r, &err), QPC_ERR_NUMERIC, &err, "of bodies[1] its angular velocity is 1e+09 rad/s");
    qpc_world_destroy(w);
}

/// A node of 0.5 kg at a pin, dt 10 ms: 1e11 x 0.5 / 1e-4 N/m is where its mass has five digits left.
static void stiffness_that_drowns_the_masses_is_remarked_on(void **state) {
    (void)state;
    static const char *const pinned = "{'dt':0.01,'solver':{'name':'%s'},'bodies':[{'kind':'cable','nodes':[[0,0,0],[1,0,0]],'mass':0.5,'radius':0.01,"
                                      "'stiffness':%s}],'constraints':[{'kind':'fixed','body':0,'nodes':[0]}]}";
    char text[512];
    qpc_world *w = NULL;
    qpc_error err = {0};
    qpc_scene_report report;
    static const struct {
        const char *solver, *stiffness;
        int32_t warnings;
    } cases[] = {{"auto", "4.9e14", 0}, {"auto", "5.1e14", 1}, {"position-based", "1e30", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(text, sizeof text, pinned, cases[i].solver, cases[i].stiffness);
        assert_ok(world_of(text, &w, &report, &err), &err);
        assert_int_equal(report.warning_count, cases[i].warnings);
        if (cases[i].warnings > 0) assert_non_null(strstr(report.warning[0], "stiffness dt^2 / mass is 1e+11, right up to 1e+11"));
        qpc_world_destroy(w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scene_gives_its_bodies_in_order),
        cmocka_unit_test(unknown_keys_name_the_nearest_known_one),
        cmocka_unit_test(numbers_out_of_range_are_refused_by_place),
        cmocka_unit_test(joints_that_make_no_sense_are_refused_by_place),
        cmocka_unit_test(loads_that_make_no_sense_are_refused_by_place),
        cmocka_unit_test(laws_of_contacts_are_read_by_pair),
        cmocka_unit_test(a_node_may_be_fixed_under_two_names),
        cmocka_unit_test(values_that_are_not_finite_are_refused),
        cmocka_unit_test(bodies_that_intersect_at_the_start_are_listed),
        cmocka_unit_test(the_scene_hash_sees_what_changes_bits_and_nothing_else),
        cmocka_unit_test(creation_survives_every_failing_allocation),
        cmocka_unit_test(cloth_survives_every_failing_allocation),
        cmocka_unit_test(a_sheet_says_what_is_wrong_with_it),
        cmocka_unit_test(soft_bodies_survive_every_failing_allocation),
        cmocka_unit_test(a_soft_body_says_what_is_wrong_with_it),
        cmocka_unit_test(a_step_beyond_all_numbers_names_its_cause),
        cmocka_unit_test(stiffness_that_drowns_the_masses_is_remarked_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
