/// Files of tetrahedra: one cube in every format reads the same; bad files are errors that say where;
/// headers that promise too much take no memory.
#include "tests/support/check.h"

#include "client/meshio/meshload.h"
#include "client/meshio/volume.h"
#include "tests/support/faults.h"
#include "tests/support/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *put(const char *name, const char *text) {
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return path;
}

static void refuse(const char *path, qpc_status wanted, const char *text) {
    qpc_error err = {0};
    qpc_volume_mesh mesh = {0};
    assert_fails(qpc_volume_read(path, NULL, &mesh, NULL, &err), wanted, &err, text);
    assert_null(mesh.nodes);
}

static double volume_inside(const qpc_volume_mesh *m) {
    const qpc_mesh_data closed = {m->nodes, m->surface, m->node_count, m->surface_count, 3};
    return qpc_mesh_data_volume(&closed);
}

static double tet_volume(const qpc_volume_mesh *m, int32_t i) {
    const int32_t *t = m->tets + 4 * (size_t)i;
    int32_t faces[12] = {t[1], t[2], t[3], t[0], t[3], t[2], t[0], t[1], t[3], t[0], t[2], t[1]};
    const qpc_mesh_data one = {m->nodes, faces, m->node_count, 4, 3};
    return qpc_mesh_data_volume(&one);
}

static const struct {
    const char *file, *format;
    int32_t file_surface;
    int64_t skipped;
} CUBES[] = {
    {"gmsh/cube1.msh", "Gmsh 1", 0, 1},
    {"gmsh/cube22.msh", "Gmsh 2", 12, 1},
    {"gmsh/cube22bin.msh", "Gmsh 2 binary", 0, 1},
    {"gmsh/cube22big.msh", "Gmsh 2 binary", 0, 1},
    {"gmsh/cube41.msh", "Gmsh 4.1", 0, 1},
    {"gmsh/cube41bin.msh", "Gmsh 4.1 binary", 0, 0},
    {"vtk/cube.vtk", "VTK", 12, 1},
    {"vtk/cubebin.vtk", "VTK binary", 0, 0},
    {"vtk/cube5.vtk", "VTK binary", 0, 0},
    {"vtu/cubeascii.vtu", "VTU", 0, 0},
    {"vtu/cubebinary.vtu", "VTU", 0, 0},
    {"vtu/cuberaw.vtu", "VTU", 0, 0},
    {"vtu/cubeappended.vtu", "VTU", 0, 0},
    {"medit/cube.mesh", "Medit", 12, 1},
    {"tetgen/cube0.node", "TetGen", 12, 0},
    {"tetgen/cube0.ele", "TetGen", 12, 0},
    {"tetgen/cube1.node", "TetGen", 0, 0},
};
enum { CUBE_COUNT = sizeof CUBES / sizeof CUBES[0] };

static const char *data_path(const char *file) {
    static char path[400];
    snprintf(path, sizeof path, "%s%s", QPC_TEST_MESHES, file);
    return path;
}

static void one_cube_reads_the_same_from_every_format(void **state) {
    (void)state;
    for (int i = 0; i < CUBE_COUNT; i++) {
        qpc_error err = {0};
        qpc_volume_mesh m = {0};
        qpc_volume_report r;
        assert_ok(qpc_volume_read(data_path(CUBES[i].file), NULL, &m, &r, &err), &err);
        assert_string_equal(r.format, CUBES[i].format);
        assert_int_equal(m.node_count, 8);
        assert_int_equal(m.tet_count, 5);
        assert_int_equal(m.surface_count, 12);
        assert_int_equal(m.file_surface_count, CUBES[i].file_surface);
        assert_int_equal(r.flipped, 2);
        assert_int_equal(r.flat + r.crowded + r.unused, 0);
        assert_int_equal(r.first_flat, -1);
        assert_int_equal(r.skipped, CUBES[i].skipped);
        assert_near(r.volume, 1, 1e-15);
        assert_near(volume_inside(&m), 1, 1e-15);
        // Four corners of 1/6 around a tetrahedron of 1/3, in the order of the file.
        for (int32_t t = 0; t < 5; t++) assert_near(tet_volume(&m, t), t < 4 ? 1.0 / 6 : 1.0 / 3, 1e-15);
        const qpc_mesh_data own = {m.nodes, m.file_surface, 8, m.file_surface_count, 3};
        if (m.file_surface_count > 0) assert_near(qpc_mesh_data_volume(&own), 1, 1e-15);
        // All but the 4.1 text file, which sorts its nodes, list them in the same order.
        if (strcmp(CUBES[i].format, "Gmsh 4.1") != 0) {
            const double seventh[3] = {1, 1, 1};
            assert_memory_equal(m.nodes + 18, seventh, sizeof seventh);
        }
        qpc_volume_mesh_fini(&m);
    }
}

static void mesh_files_with_tetrahedra_give_them_to_the_common_reader(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_mesh_data m = {0};
    assert_ok(qpc_mesh_file_read(data_path("gmsh/cube22.msh"), NULL, &m, NULL, &err), &err);
    assert_int_equal(m.nodes_per_element, 4);
    assert_int_equal(m.element_count, 5);
    qpc_mesh_data_fini(&m);
    // Without tetrahedra: the triangles.
    put("skin.msh", "$NOD\n3\n1 0 0 0\n2 1 0 0\n3 0 1 0\n$ENDNOD\n$ELM\n1\n1 2 0 0 3 1 2 3\n$ENDELM\n");
    char path[200];
    snprintf(path, sizeof path, "%s/skin.msh", folder);
    assert_ok(qpc_mesh_file_read(path, NULL, &m, NULL, &err), &err);
    assert_int_equal(m.nodes_per_element, 3);
    assert_int_equal(m.element_count, 1);
    qpc_mesh_data_fini(&m);
    refuse(path, QPC_ERR_INVALID, "1 triangles and no tetrahedra; fill a closed surface");
    refuse(path, QPC_ERR_INVALID, "tetgen -pq");
    refuse(path, QPC_ERR_INVALID, "gmsh -3");
}

static void surfaces_are_refused_with_the_way_to_tetrahedra(void **state) {
    (void)state;
    refuse(data_path("obj/cube.obj"), QPC_ERR_UNSUPPORTED, "tetgen -pq");
    refuse(data_path("stl/cube.stl"), QPC_ERR_UNSUPPORTED, "gmsh -3");
    refuse(put("a.blend", "x"), QPC_ERR_UNSUPPORTED, ".msh (Gmsh)");
    refuse(put("lonely.node", "1 3\n0 0 0 0\n"), QPC_ERR_NOT_FOUND, "lonely.ele is not there");
    refuse(put("none.msh", ""), QPC_ERR_INVALID, "empty");
}

#define MSH2 "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n"
#define NODES4 "$Nodes\n4\n1 0 0 0\n2 1 0 0\n3 0 1 0\n4 0 0 1\n$EndNodes\n"
#define VTK4 "# vtk DataFile Version 3.0\nt\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 4 float\n0 0 0 1 0 0 0 1 0 0 0 1\n"
#define MEDIT4 "MeshVersionFormatted 2\nDimension 3\nVertices 4\n0 0 0 0\n1 0 0 0\n0 1 0 0\n0 0 1 0\n"
#define VTU(points, cells) "<VTKFile type=\"UnstructuredGrid\">\n<Piece NumberOfPoints=\"" points "\" NumberOfCells=\"" cells "\">\n"

static const struct {
    const char *name, *text, *message;
} BAD[] = {
    {"a.msh", MSH2 "$Nodes\n2147483648\n1 0 0 0\n", "line 5: 2147483648 nodes are announced"},
    {"b.msh", MSH2 "$Nodes\n9223372036854775807\n", "bytes left cannot hold"},
    {"c.msh", MSH2 "$Nodes\n99999999999999999999\n", "no integer"},
    {"d.msh", MSH2 "$Nodes\n-1\n", "is -1"},
    {"e.msh", MSH2 "$Nodes\n1\n1 0 nan 0\n$EndNodes\n", "\"nan\" is no finite decimal number"},
    {"f.msh", MSH2 "$Nodes\n1\n1 0 1e999 0\n$EndNodes\n", "line 6"},
    {"g.msh", MSH2 "$Nodes\n1\n1 0 0,5 0\n$EndNodes\n", "\"0,5\""},
    {"h.msh", MSH2 "$Nodes\n2\n7 0 0 0\n7 1 0 0\n$EndNodes\n", "7 is there twice"},
    {"i.msh", MSH2 NODES4 "$Elements\n1\n1 4 0 1 2 3 9\n$EndElements\n", "node number 9, which is not there"},
    {"j.msh", MSH2 NODES4 "$Elements\n1\n1 4 0 1 2 3 3\n$EndElements\n", "has a node twice"},
    {"k.msh", MSH2 NODES4 "$Elements\n1\n1 5 0 1 2 3 4\n$EndElements\n", "hexahedra"},
    {"l.msh", MSH2 NODES4 "$Elements\n1\n1 11 0 1 2 3 4\n$EndElements\n", "of second order"},
    {"m.msh", MSH2 NODES4 "$Elements\n1\n1 77 0 1 2 3 4\n$EndElements\n", "type 77"},
    {"n.msh", MSH2 NODES4 "$Elements\n2\n1 4 0 1 2 3 4\n$EndElements\n", "is no integer"},
    {"o.msh", MSH2 NODES4 "$Elements\n1\n1 4 0 1 2 3 4\n2 4 0 1 2 3 4\n$EndElements\n", "$EndElements should"},
    {"p.msh", MSH2 NODES4, "ends without elements"},
    {"q.msh", MSH2 "$Elements\n0\n$EndElements\n", "before the nodes"},
    {"r.msh", "$MeshFormat\n4.0 0 8\n$EndMeshFormat\n", "version 4;"},
    {"s.msh", "$MeshFormat\n4.1 0 8\n$EndMeshFormat\n$Nodes\n1 9999999 1 9\n", "9999999 nodes"},
    {"t.msh", MSH2 "$Physical\n1 2 3\n", "has no end"},
    {"a.vtk", VTK4 "CELLS 1 5\n4 0 1 2 4\nCELL_TYPES 1\n10\n", "node 4; the nodes are 0 to 3"},
    {"b.vtk", VTK4 "CELLS 1 5\n4 0 1 2 -1\nCELL_TYPES 1\n10\n", "point -1"},
    {"c.vtk", VTK4 "CELLS 1 5\n5 0 1 2 3\nCELL_TYPES 1\n10\n", "cell 0 does not fit"},
    {"d.vtk", VTK4 "CELLS 1 5\n4 0 1 2 3\nCELL_TYPES 1\n12\n", "hexahedra"},
    {"e.vtk", VTK4 "CELLS 2000000000 2000000001\n", "2000000000 cells are announced"},
    {"f.vtk", VTK4 "CELLS 1 5\n4 0 1 2 3\n", "before CELLS and CELL_TYPES"},
    {"g.vtk", "# vtk DataFile Version 3.0\nt\nASCII\nDATASET POLYDATA\n", "only UNSTRUCTURED_GRID"},
    {"h.vtk", "# vtk DataFile Version 3.0\nt\nBINARY\nDATASET UNSTRUCTURED_GRID\nPOINTS 4 double\n0123", "cannot hold"},
    {"a.vtu", VTU("4000000000", "1"), "4000000000 NumberOfPoints are announced"},
    {"b.vtu", "<VTKFile type=\"UnstructuredGrid\" compressor=\"vtkZLibDataCompressor\">\n", "without compression"},
    {"c.vtu", "<VTKFile type=\"PolyData\">\n", "only UnstructuredGrid"},
    {"d.vtu", VTU("0", "0") "</Piece>\n", "one of them is missing"},
    {"e.vtu", VTU("1", "0") "<Points><DataArray type=\"Float32\" NumberOfComponents=\"3\" format=\"ascii\">0 0</DataArray>", "bytes left cannot hold"},
    {"f.vtu", VTU("1", "0") "<Points><DataArray type=\"Float32\" NumberOfComponents=\"3\" format=\"ascii\">0 0 0 1</DataArray>", "more numbers"},
    {"g.vtu", VTU("1", "0") "<Points><DataArray type=\"Float32\" NumberOfComponents=\"3\" format=\"binary\">BAAAAA==</DataArray>", "wanted"},
    {"h.vtu", VTU("1", "0") "<Points><DataArray type=\"Float32\" NumberOfComponents=\"3\" format=\"appended\" offset=\"5\"/>", "no appended data"},
    {"a.mesh", MEDIT4 "Tetrahedra 1\n1 2 3 5 0\nEnd\n", "node 5; the nodes are 1 to 4"},
    {"b.mesh", MEDIT4 "Tetrahedra 1\n0 2 3 4 0\nEnd\n", "node 0"},
    {"c.mesh", MEDIT4 "Tetrahedra 1\n1 2 3 4 0\n", "without \"End\""},
    {"d.mesh", MEDIT4 "Hexahedra 1\n", "only tetrahedra"},
    {"e.mesh", MEDIT4 "Banana 1\n", "\"Banana\""},
    {"f.mesh", MEDIT4 "Triangles 4000000000\n", "4000000000 Triangles"},
    {"g.mesh", "MeshVersionFormatted 2\nDimension 2\n", "dimension 2"},
};

static void bad_files_say_what_is_wrong_and_where(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        refuse(put(BAD[i].name, BAD[i].text), QPC_ERR_INVALID, BAD[i].message);
    put("x.ele", "1 4\n1 1 2 3 4\n");
    refuse(put("x.node", "4 3\n1 0 0 0\n2 1 0 0\n3 0 1 0\n5 0 0 1\n"), QPC_ERR_INVALID, ".node file, line 5: number 5");
    refuse(put("x.node", "4 3\n2 0 0 0\n3 1 0 0\n4 0 1 0\n5 0 0 1\n"), QPC_ERR_INVALID, "0 or 1");
    refuse(put("x.node", "4000000000 3\n"), QPC_ERR_INVALID, "4000000000 nodes");
    refuse(put("x.node", "4 3\n0 0 0 0\n1 1 0 0\n2 0 1 0\n3 0 0 1\n"), QPC_ERR_INVALID, ".ele file, line 2");
    put("x.node", "4 3\n1 0 0 0\n2 1 0 0\n3 0 1 0\n4 0 0 1\n");
    refuse(put("x.ele", "1 10\n1 1 2 3 4 1 2 3 4 1 2\n"), QPC_ERR_INVALID, "second order");
}

static void every_cut_of_every_file_is_an_error_or_a_mesh(void **state) {
    (void)state;
    for (int i = 0; i < CUBE_COUNT; i++) {
        FILE *file = fopen(data_path(CUBES[i].file), "rb");
        assert_non_null(file);
        char bytes[4096], name[40], path[200];
        size_t size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        snprintf(name, sizeof name, "cut%s", strrchr(CUBES[i].file, '.'));
        snprintf(path, sizeof path, "%s/%s", folder, name);
        if (strncmp(CUBES[i].file, "tetgen", 6) == 0) continue; // fuzz_tetgen does it
        for (size_t cut = 1; cut < size; cut += 3) {
            qpc_volume_mesh m = {0};
            qpc_error err = {0};
            file = fopen(path, "wb");
            assert_non_null(file);
            assert_int_equal(fwrite(bytes, 1, cut, file), cut);
            fclose(file);
            qpc_status st = qpc_volume_read(path, NULL, &m, NULL, &err);
            if (st == QPC_OK) assert_int_equal(m.tet_count, 5); // what is behind them is not needed
            else assert_int_equal(st, QPC_ERR_INVALID);
            qpc_volume_mesh_fini(&m);
        }
    }
}

static void flat_and_crowded_and_unused_are_reported(void **state) {
    (void)state;
    // Node 6 is unused; tetrahedron 1 is flat; three tetrahedra have the face of nodes 1, 2, 3.
    const char *path = put("odd.msh", MSH2 "$Nodes\n7\n1 0 0 0\n2 1 0 0\n3 0 1 0\n4 0 0 1\n5 1 1 0\n6 9 9 9\n7 0 0 2\n$EndNodes\n"
                                      "$Elements\n4\n1 4 0 1 2 3 4\n2 4 0 1 2 3 5\n3 4 0 1 2 3 7\n4 2 0 1 2 6\n$EndElements\n");
    qpc_error err = {0};
    qpc_volume_mesh m = {0};
    qpc_volume_report r;
    assert_ok(qpc_volume_read(path, NULL, &m, &r, &err), &err);
    assert_int_equal(r.flat, 1);
    assert_int_equal(r.first_flat, 1);
    assert_int_equal(r.crowded, 1);
    assert_int_equal(r.unused, 1);
    assert_int_equal(m.surface_count, 9);
    int32_t removed = 0;
    assert_ok(qpc_volume_mesh_compact(&m, &removed, &err), &err);
    assert_int_equal(removed, 1);
    assert_int_equal(m.node_count, 6);
    assert_int_equal(m.file_surface_count, 0);
    assert_int_equal(m.tets[11] + m.tets[10] + m.tets[9] + m.tets[8], 0 + 1 + 2 + 5); // the old node 6
    assert_true(m.nodes[17] == 2);
    qpc_volume_mesh_fini(&m);
}

static void volumes_past_the_largest_double_are_reported(void **state) {
    (void)state;
    const char *path = put("far.msh", MSH2 "$Nodes\n5\n1 0 0 0\n2 1e200 0 0\n3 0 1e200 0\n4 0 0 1e200\n5 0 0 -1e-200\n$EndNodes\n"
                                      "$Elements\n1\n1 4 0 1 2 3 4\n$EndElements\n");
    qpc_error err = {0};
    qpc_volume_mesh m = {0};
    qpc_volume_report r;
    assert_ok(qpc_volume_read(path, NULL, &m, &r, &err), &err);
    assert_int_equal(r.flat, 1);
    assert_int_equal(r.first_flat, 0);
    assert_true(r.volume == 0);
    assert_int_equal(r.unused, 1);
    qpc_volume_mesh_fini(&m);
}

static void the_skin_has_only_the_nodes_of_the_surface(void **state) {
    (void)state;
    // A tetrahedron cut into four at its middle, which is listed first.
    const char *path = put("middle.msh", MSH2 "$Nodes\n5\n9 0.25 0.25 0.25\n1 0 0 0\n2 1 0 0\n3 0 1 0\n4 0 0 1\n$EndNodes\n"
                                         "$Elements\n4\n1 4 0 9 2 3 4\n2 4 0 1 9 3 4\n3 4 0 1 2 9 4\n4 4 0 1 2 3 9\n$EndElements\n");
    qpc_error err = {0};
    qpc_volume_mesh m = {0};
    qpc_mesh_data skin = {0};
    int32_t *nodes = NULL;
    assert_ok(qpc_volume_read(path, NULL, &m, NULL, &err), &err);
    assert_ok(qpc_volume_mesh_skin(&m, &skin, &nodes, &err), &err);
    assert_int_equal(skin.vertex_count, 4);
    assert_int_equal(skin.element_count, 4);
    assert_near(qpc_mesh_data_volume(&skin), 1.0 / 6, 1e-16);
    for (int32_t i = 0; i < 4; i++) {
        assert_int_equal(nodes[i], i + 1);
        assert_memory_equal(skin.vertices + 3 * i, m.nodes + 3 * nodes[i], 24);
    }
    const qpc_mesh_data whole = {m.nodes, m.tets, m.node_count, m.tet_count, 4};
    assert_near(qpc_mesh_data_volume(&whole), 1.0 / 6, 1e-16);
    qpc_free(nodes);
    qpc_mesh_data_fini(&skin);
    QPC_FAULTS(f) {
        qpc_status st = qpc_volume_mesh_skin(&m, &skin, &nodes, &err);
        if (qpc_faults_ended(&f, st)) {
            qpc_free(nodes);
            qpc_mesh_data_fini(&skin);
        }
    }
    qpc_volume_mesh_fini(&m);
}

static void limits_are_named(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_volume_mesh m = {0};
    const char *path = data_path("gmsh/cube22.msh");
    qpc_mesh_file_limits bytes = {.max_bytes = 10}, nodes = {.max_vertices = 7}, cells = {.max_elements = 4};
    assert_fails(qpc_volume_read(path, &bytes, &m, NULL, &err), QPC_ERR_LIMIT, &err, "max_bytes");
    assert_fails(qpc_volume_read(path, &nodes, &m, NULL, &err), QPC_ERR_LIMIT, &err, "max_vertices");
    assert_fails(qpc_volume_read(path, &cells, &m, NULL, &err), QPC_ERR_LIMIT, &err, "max_elements");
}

static void allocation_failures_leak_nothing(void **state) {
    (void)state;
    for (int i = 0; i < CUBE_COUNT; i++) {
        QPC_FAULTS(f) {
            qpc_volume_mesh m = {0};
            qpc_error err = {0};
            qpc_status st = qpc_volume_read(data_path(CUBES[i].file), NULL, &m, NULL, &err);
            if (st == QPC_OK) st = qpc_volume_mesh_compact(&m, NULL, &err);
            (void)qpc_faults_ended(&f, st);
            qpc_volume_mesh_fini(&m);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_cube_reads_the_same_from_every_format),
        cmocka_unit_test(mesh_files_with_tetrahedra_give_them_to_the_common_reader),
        cmocka_unit_test(surfaces_are_refused_with_the_way_to_tetrahedra),
        cmocka_unit_test(bad_files_say_what_is_wrong_and_where),
        cmocka_unit_test(every_cut_of_every_file_is_an_error_or_a_mesh),
        cmocka_unit_test(flat_and_crowded_and_unused_are_reported),
        cmocka_unit_test(volumes_past_the_largest_double_are_reported),
        cmocka_unit_test(the_skin_has_only_the_nodes_of_the_surface),
        cmocka_unit_test(limits_are_named),
        cmocka_unit_test(allocation_failures_leak_nothing),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
