#!/usr/bin/python3
"""Writes the mesh files beside it: one unit cube in every format that client/meshio reads.

Five tetrahedra (two of them listed the wrong way round), 8 nodes, and 12 triangles where a format
has a surface of its own. Run it without arguments; the files are in the repository.
"""
import base64
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
NODES = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1)]
TETS = [(0, 1, 3, 4), (1, 2, 3, 6), (4, 5, 6, 1), (4, 6, 7, 3), (1, 3, 4, 6)]
QUADS = [(0, 3, 2, 1), (4, 5, 6, 7), (0, 1, 5, 4), (1, 2, 6, 5), (2, 3, 7, 6), (3, 0, 4, 7)]
TRIANGLES = [t for a, b, c, d in QUADS for t in ((a, b, c), (a, c, d))]
NUMBERS = [10, 3, 77, 4000000, 5, 12, 9, 1]  # of the nodes in Gmsh's files: with gaps


def put(name, data):
    path = os.path.join(HERE, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def rows(table):
    return "".join(" ".join(str(v) for v in row) + "\n" for row in table)


def named(element):
    return [NUMBERS[v] for v in element]


def gmsh():
    nodes = rows([n, *x] for n, x in zip(NUMBERS, NODES))
    put("gmsh/cube1.msh", "$NOD\n8\n" + nodes + "$ENDNOD\n$ELM\n6\n1 15 0 1 1 10\n" +
        rows([i + 2, 4, 1, 1, 4, *named(t)] for i, t in enumerate(TETS)) + "$ENDELM\n")
    elements = [[1, 15, 2, 0, 1, 10]]
    elements += [[2 + i, 2, 2, 1, 1, *named(t)] for i, t in enumerate(TRIANGLES)]
    elements += [[20 + i, 4, 3, 1, 1, 0, *named(t)] for i, t in enumerate(TETS)]
    put("gmsh/cube22.msh", '$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$PhysicalNames\n1\n3 1 "a $End"\n'
        "$EndPhysicalNames\n$Nodes\n8\n" + nodes + f"$EndNodes\n$Elements\n{len(elements)}\n" +
        rows(elements) + "$EndElements\n")
    for order, name in (("<", "cube22bin"), (">", "cube22big")):
        b = b"$MeshFormat\n2.2 1 8\n" + struct.pack(order + "i", 1) + b"\n$EndMeshFormat\n$Nodes\n8\n"
        for n, x in zip(NUMBERS, NODES):
            b += struct.pack(order + "i3d", n, *x)
        b += b"\n$EndNodes\n$Elements\n6\n" + struct.pack(order + "6i", 15, 1, 2, 1, 0, 1)
        b += struct.pack(order + "i", 10) + struct.pack(order + "3i", 4, 5, 2)
        for i, t in enumerate(TETS):
            b += struct.pack(order + "7i", i + 2, 0, 1, *named(t))
        put(f"gmsh/{name}.msh", b + b"\n$EndElements\n")
    order = sorted(range(8), key=lambda v: NUMBERS[v])  # not needed by the format, for variety
    put("gmsh/cube41.msh", "$MeshFormat\n4.1 0 8\n$EndMeshFormat\n$Entities\n0 0 0 1\n"
        "1 0 0 0 1 1 1 0 0\n$EndEntities\n$Nodes\n2 8 1 4000000\n3 1 0 5\n" +
        rows([NUMBERS[v]] for v in order[:5]) + rows(NODES[v] for v in order[:5]) +
        "1 1 1 3\n" + rows([NUMBERS[v]] for v in order[5:]) +
        rows([*NODES[v], 0.5] for v in order[5:]) + "$EndNodes\n$Elements\n2 6 1 6\n0 1 15 1\n1 10\n"
        "3 1 4 5\n" + rows([i + 2, *named(t)] for i, t in enumerate(TETS)) + "$EndElements\n")
    b = b"$MeshFormat\n4.1 1 8\n" + struct.pack("<i", 1) + b"\n$EndMeshFormat\n$Entities\n"
    b += struct.pack("<4Q", 0, 0, 0, 0) + b"\n$EndEntities\n$Nodes\n"
    b += struct.pack("<4Q3iQ8Q", 1, 8, 1, 4000000, 3, 1, 0, 8, *NUMBERS)
    for x in NODES:
        b += struct.pack("<3d", *x)
    b += b"\n$EndNodes\n$Elements\n" + struct.pack("<4Q3iQ", 1, 5, 1, 5, 3, 1, 4, 5)
    for i, t in enumerate(TETS):
        b += struct.pack("<5Q", i + 1, *named(t))
    put("gmsh/cube41bin.msh", b + b"\n$EndElements\n")


def vtk():
    cells = [[4, *t] for t in TETS] + [[3, *t] for t in TRIANGLES] + [[1, 0]]
    types = [10] * 5 + [5] * 12 + [1]
    size = sum(len(c) for c in cells)
    put("vtk/cube.vtk", "# vtk DataFile Version 2.0\na cube\nASCII\nDATASET UNSTRUCTURED_GRID\n"
        "FIELD FieldData 1\nTIME 1 1 double\n0.5\nPOINTS 8 double\n" + rows(NODES) +
        f"CELLS 18 {size}\n" + rows(cells) + "CELL_TYPES 18\n" + rows([t] for t in types) +
        "POINT_DATA 8\n")
    b = b"# vtk DataFile Version 4.2\na cube\nBINARY\nDATASET UNSTRUCTURED_GRID\nPOINTS 8 float\n"
    b += b"".join(struct.pack(">3f", *x) for x in NODES)
    b += b"\nCELLS 5 25\n" + b"".join(struct.pack(">5i", 4, *t) for t in TETS)
    put("vtk/cubebin.vtk", b + b"\nCELL_TYPES 5\n" + struct.pack(">5i", *[10] * 5) + b"\n")
    b = b"# vtk DataFile Version 5.1\na cube\nBINARY\nDATASET UNSTRUCTURED_GRID\nPOINTS 8 double\n"
    b += b"".join(struct.pack(">3d", *x) for x in NODES)
    b += b"\nMETADATA\nINFORMATION 0\n\nCELLS 6 20\nOFFSETS vtktypeint64\n"
    b += struct.pack(">6q", *range(0, 21, 4)) + b"\nCONNECTIVITY vtktypeint64\n"
    b += b"".join(struct.pack(">4q", *t) for t in TETS)
    put("vtk/cube5.vtk", b + b"\nCELL_TYPES 5\n" + struct.pack(">5i", *[10] * 5) + b"\n")


def vtu():
    arrays = [("Float64", "", struct.pack("<24d", *[c for x in NODES for c in x]),
               rows(NODES), ' NumberOfComponents="3"'),
              ("Int64", "connectivity", struct.pack("<20q", *[v for t in TETS for v in t]),
               rows(TETS), ""),
              ("Int32", "offsets", struct.pack("<5i", 4, 8, 12, 16, 20), "4 8 12 16 20\n", ""),
              ("UInt8", "types", bytes([10] * 5), "10 10 10 10 10\n", "")]

    def one(kind):
        out, appended, bodies = "", b"", []
        for scalar, name, data, text, more in arrays:
            with_size = struct.pack("<I", len(data)) + data
            tag = f'<DataArray type="{scalar}" Name="{name}"{more} format="'
            if kind == "ascii":
                bodies.append(tag + 'ascii">\n' + text + "</DataArray>\n")
            elif kind == "binary":
                body = base64.b64encode(with_size).decode()
                bodies.append(tag + 'binary">\n' + body + "\n</DataArray>\n")
            else:
                bodies.append(tag + f'appended" offset="{len(appended)}"/>\n')
                appended += with_size if kind == "raw" else base64.b64encode(with_size)
        out = ('<?xml version="1.0"?>\n<!-- a cube -->\n<VTKFile type="UnstructuredGrid" version="0.1" '
               'byte_order="LittleEndian">\n<UnstructuredGrid>\n<Piece NumberOfPoints="8" '
               'NumberOfCells="5">\n<PointData/>\n<Points>\n' + bodies[0] + "</Points>\n<Cells>\n" +
               "".join(bodies[1:]) + "</Cells>\n</Piece>\n</UnstructuredGrid>\n").encode()
        if appended:
            name = "raw" if kind == "raw" else "base64"
            out += f'<AppendedData encoding="{name}">\n_'.encode() + appended + b"\n</AppendedData>\n"
        return out + b"</VTKFile>\n"

    for kind in ("ascii", "binary", "raw", "appended"):
        put(f"vtu/cube{kind}.vtu", one(kind))


def medit_and_tetgen():
    one = [[v + 1 for v in t] for t in TETS]
    put("medit/cube.mesh", "MeshVersionFormatted 2\nDimension\n3\n# a cube\nVertices\n8\n" +
        rows([*x, 0] for x in NODES) + "Quadrilaterals\n6\n" +
        rows([*[v + 1 for v in q], 1] for q in QUADS) + "Edges\n1\n1 2 0\nTetrahedra\n5\n" +
        rows([*t, 0] for t in one) + "Hexahedra\n0\nEnd\n")
    node = "# a cube\n8 3 1 1\n" + rows([i, *x, 0.5, 1] for i, x in enumerate(NODES))
    ele = "5 4 0\n" + rows([i, *t] for i, t in enumerate(TETS))
    face = "12 1\n" + rows([i, *t, 1] for i, t in enumerate(TRIANGLES))
    put("tetgen/cube0.node", node)
    put("tetgen/cube0.ele", ele)
    put("tetgen/cube0.face", face)
    node1 = "8 3\n" + rows([i + 1, *x] for i, x in enumerate(NODES)) + "# made by hand\n"
    ele1 = "5 4\n" + rows([i + 1, *t] for i, t in enumerate(one))
    put("tetgen/cube1.node", node1)
    put("tetgen/cube1.ele", ele1)
    # What the fuzz target takes: all files in one.
    put("../../fuzz/corpus/tetgen/cube0", node + "#ele\n" + ele + "#face\n" + face)
    put("../../fuzz/corpus/tetgen/cube1", node1 + "#ele\n" + ele1)


def surfaces():
    obj = "\ufeffv 0 0 0 1 1 1\n" + "".join(f"v {x} {y} {z}\n" for x, y, z in NODES[1:]) + "o caf\u00e9\n"
    obj += "p 1\nl 1\nl 1 2 3\nf 1/1 4/1 3/1 2\nf -4//1 -3//1 -2//1 -1//1\n"
    obj += "".join("f " + " ".join(str(v + 1) for v in q) + "\n" for q in QUADS[2:])
    put("obj/cube.obj", obj)
    head = "ply\r\nformat ascii 1.0\r\ncomment a cube\r\nelement vertex 8\r\nproperty float32 x\r\n"
    head += "property float y\r\nproperty double z\r\nproperty uchar red\r\nelement face 6\r\n"
    head += "property list uint8 int32 vertex_index\r\nproperty int flags\r\nend_header\r\n"
    put("ply/cube.ply", head + rows([*x, 7] for x in NODES) + rows([4, *q, 0] for q in QUADS))
    for order, name in (("<", "little"), (">", "big")):
        b = f"ply\nformat binary_{name}_endian 1.0\nelement info 2\nproperty list uchar short a\n"
        b += "element vertex 8\nproperty double x\nproperty double y\nproperty double z\n"
        b += "element face 12\nproperty list ushort uint vertex_indices\nend_header\n"
        b = b.encode() + struct.pack(order + "BhB", 1, 5, 0)
        b += b"".join(struct.pack(order + "3d", *x) for x in NODES)
        b += b"".join(struct.pack(order + "H3I", 3, *t) for t in TRIANGLES)
        put(f"ply/{name}.ply", b)
    put("off/cube.off", "# first\nOFF # tail\n8 6 0\n" + rows(NODES) + "\n# faces\n" +
        rows([4, *q, 255, 0, 0] for q in QUADS))
    put("off/line.off", "COFF 8 6 12\n" + rows([*x, 0.5, 0.5, 0.5, 1] for x in NODES) +
        rows([4, *q] for q in QUADS))
    text = "SOLID a facet\n"
    for t in TRIANGLES:
        text += "\tFACET NORMAL 0 0 0\n OUTER LOOP\n"
        text += "".join("  VERTEX " + " ".join(str(c) for c in NODES[v]) + "\n" for v in t)
        text += " ENDLOOP\nENDFACET\n"
    put("stl/cube.stl", text + "ENDSOLID a facet\n")
    b = b"solid but binary".ljust(80) + struct.pack("<I", 12)
    for t in TRIANGLES:
        b += struct.pack("<12fH", 0, 0, 0, *[c for v in t for c in NODES[v]], 0)
    put("stl/cubebin.stl", b)


gmsh()
vtk()
vtu()
medit_and_tetgen()
surfaces()
