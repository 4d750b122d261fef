#!/usr/bin/python3
"""Run mesh cases (mesh/1 of tests/data/cases/FORMAT.md): `qpc mesh file` on each file, its answer and its
cost against what the case expects.

    tests/oracle/mesh_cases.py [--build DIR] [FOLDER]

FOLDER has *.expect.json files beside the mesh files; without it the cases of the repository are run. What
is accepted goes through `qpc check` too: closed and oriented where the case knows a volume, the edge named
where it knows one. A FOLDER with a stats.json instead (an index of meshes: counts of edges, parts, crossings
and so on by another program) is held against what the server finds (mesh.check), row by row.
Prints pass or fail with the reason for every case; exit status 1 if any failed.
"""

import argparse
import json
import math
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(os.environ.get("QPC_SOURCE", pathlib.Path(__file__).resolve().parents[2]))


def need(condition, text):
    if not condition:
        raise AssertionError(text)


def read_qpm(path):
    data = path.read_bytes()
    need(data[:4] == b"QPM1", "the output is no QPM1 file")
    nodes, vertices, elements = struct.unpack_from("<IQQ", data, 4)
    x = list(struct.iter_unpack("<3d", data[24:24 + 24 * vertices]))
    e = list(struct.iter_unpack(f"<{nodes}i", data[24 + 24 * vertices:]))
    need(len(x) == vertices and len(e) == elements, "the output is cut short")
    return nodes, x, e


def run_qpc(program, arguments, environment):
    """(exit code, standard error, seconds, largest resident size in MB)"""
    return run_qpc_text(program, arguments, environment)[:4]


def run_qpc_text(program, arguments, environment=None):
    """The same, and standard output."""
    start = time.monotonic()
    process = subprocess.Popen([str(program), *map(str, arguments)], stderr=subprocess.PIPE,
                               stdout=subprocess.PIPE, env={**os.environ, **(environment or {})})
    out = process.stdout.read().decode()  # errors are short: they fit the pipe
    err = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    process.stderr.close()
    return process.returncode, err, time.monotonic() - start, usage.ru_maxrss / 1024, out


def sub(a, b):
    return [p - q for p, q in zip(a, b)]


def cross(a, b):
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def dot(a, b):
    return sum(p * q for p, q in zip(a, b))


def check_mesh(expect, nodes, x, elements):
    tolerance = expect.get("relative_tolerance", 1e-9)

    def near(name, got):
        if name in expect:
            need(abs(got - expect[name]) <= tolerance * abs(expect[name]),
                 f"{name} {got}, not {expect[name]}")

    corners = [[x[v] for v in e] for e in elements]
    if "tetrahedra" in expect:
        need(nodes == 4, f"{nodes} nodes per element, not tetrahedra")
        near("tetrahedra", len(elements))
        volumes = [dot(cross(sub(b, a), sub(c, a)), sub(d, a)) / 6 for a, b, c, d in corners]
        need(min(volumes) > 0, "a tetrahedron of volume 0 or less")
        near("total_volume", math.fsum(volumes))
    else:
        need(nodes == 3, f"{nodes} nodes per element, not triangles")
        near("triangles", len(elements))
        normals = [cross(sub(b, a), sub(c, a)) for a, b, c in corners]
        near("area", math.fsum(math.sqrt(dot(n, n)) for n in normals) / 2)
        near("enclosed_volume", math.fsum(dot(a, cross(b, c)) for a, b, c in corners) / 6)
        if expect.get("all_normals") == "+z":
            need(all(n[2] > 0 and n[0] == n[1] == 0 for n in normals), "a normal is not +z")
    used = {v for e in elements for v in e}
    near("vertices", len(used))
    near("welded_vertices", len({x[v] for v in used}))
    if "bounding_box" in expect:
        box = [[f(x[v][k] for v in used) for k in range(3)] for f in (min, max)]
        size = max(abs(c) for corner in expect["bounding_box"] for c in corner)
        need(all(abs(a - b) <= tolerance * size for got, want in zip(box, expect["bounding_box"])
                 for a, b in zip(got, want)), f"bounding box {box}")


def check_refusal(expect, err, seconds, growth):
    need(err.startswith("qpc: "), "no message")
    need(seconds <= expect.get("error_within_s", 1), f"the error took {seconds:.2f} s")
    need(growth <= expect.get("memory_growth_below_mb", math.inf), f"{growth:.0f} MB more in memory")
    if "error_mentions_line" in expect:
        line = expect["error_mentions_line"]
        need(re.search(rf"\bline {line}\b", err), f"line {line} is not named: {err.strip()}")


def check_preflight(expect, program, file, folder):
    """What `qpc check` says of the file."""
    code, _, _, _, text = run_qpc_text(program, ["check", file, "--json", "--quiet", "--list", 100,
                                                 "--data", folder / "preflight"])
    need(code in (0, 4) and text.startswith("{"), f"qpc check: exit code {code}")
    found = json.loads(text)
    need("facts" in found, f"qpc check: {text[:200]}")
    facts, totals = found["facts"], totals_of(found)
    if "tetrahedra" in expect:
        need(found["use"] == "soft" and facts["elements"] == expect["tetrahedra"], f"as {found['use']}")
        need(not found["errors"], f"errors in {sorted(totals)}")
        return
    tolerance = expect.get("relative_tolerance", 1e-9)
    left_out = totals.get("zero_area", 0) + totals.get("duplicate_triangles", 0)
    need(abs(facts["triangles"] + left_out - expect["triangles"]) <= tolerance * expect["triangles"],
         f"{facts['triangles']} triangles")
    if "enclosed_volume" in expect:
        need(facts["closed"] and facts["oriented"], "not closed and oriented")
        need(abs(facts["volume"] - expect["enclosed_volume"]) <= tolerance * abs(expect["enclosed_volume"]),
             f"volume {facts['volume']}")
        need(set(totals) <= {"scale", "unreferenced_vertices"}, f"found {sorted(totals)}")
    else:
        need(totals.get("open_edges", 0) > 0, "no open edge")
    if "if_accepted" in expect:  # one edge has three triangles
        edges = [f["items"] for f in found["warnings"] if f["kind"] == "non_manifold_edges"]
        need(edges == [[[0, 1, 0]]], f"non-manifold edges {edges}")


def totals_of(found):
    return {f["kind"]: f["total"] for f in found["errors"] + found["warnings"]}


def run_hanging_sheet(program, path, folder):
    """50 steps as a sheet that hangs by its vertex 2; refused is right too if it says why."""
    scene = {"name": "sheet", "dt": 0.005, "gravity": [0, 0, -9.81], "bodies": [
        {"name": "sheet", "kind": "cloth", "mesh": {"file": str(path.resolve())}, "radius": 0.001,
         "area_density": 0.2, "membrane_stiffness": 500, "bending_stiffness": 0.5}],
        "constraints": [{"kind": "fixed", "body": "sheet", "nodes": [2]}]}
    at = folder / "sheet.json"
    at.write_text(json.dumps(scene))
    code, err, _, _ = run_qpc(program, ["run", at, "--steps", 50, "--data", folder / "data", "--quiet",
                                        "--positions", folder / "end.npy"], {})
    if code != 0:
        need(code == 4 and "edge" in err, f"exit code {code}: {err.strip()}")
        return
    data = (folder / "end.npy").read_bytes()
    start = 10 + struct.unpack_from("<H", data, 8)[0]
    need(all(math.isfinite(v[0]) for v in struct.iter_unpack("<d", data[start:])),
         "positions are not finite")


def run_mesh(path, build):
    """One case; AssertionError if it is not as expected."""
    case = json.loads(path.read_text())
    expect, accept = case["expect"], case["accept"]
    program = build / "client" / "cli" / "qpc"
    file = path.parent / case["file"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        usual = run_qpc(program, ["--version"], {})[3]
        out = folder / "out.qpm"
        code, err, seconds, size = run_qpc(program, ["mesh", "file", file, "-o", out, "--quiet"],
                                           expect.get("environment", {}))
        need(code in (0, 4), f"exit code {code}: {err.strip()}")
        if code == 4:
            need(accept is not True, f"refused: {err.strip()}")
            check_refusal(expect.get("if_refused", expect), err, seconds, size - usual)
            return
        need(accept is not False, "accepted")
        check_mesh(expect, *read_qpm(out))
        need(size - usual <= expect.get("memory_growth_below_mb", math.inf),
             f"{size - usual:.0f} MB more in memory")
        check_preflight(expect, program, file, folder)
        if "if_accepted" in expect:
            run_hanging_sheet(program, file, folder)


# ---- an index of meshes ----

def fanned(path):
    """An OBJ file with every polygon as a fan, as the index has it."""
    vertices, elements = [], []
    for line in path.read_text(errors="replace").replace("\\\n", " ").splitlines():
        words = line.split()
        if words[:1] == ["v"]:
            vertices.append([float(w) for w in words[1:4]])
        elif words[:1] == ["f"]:
            corners = [int(w.split("/")[0]) for w in words[1:]]
            corners = [v - 1 if v > 0 else len(vertices) + v for v in corners]
            elements += [[corners[0], a, b] for a, b in zip(corners[1:], corners[2:])]
    return vertices, elements


def check_row(row, found):
    facts, totals = found["facts"], totals_of(found)
    got = {"V": facts["vertices"], "chi": facts["euler"], "components": facts["parts"],
           "boundary_edges": totals.get("open_edges", 0), "nonmanifold_edges": totals.get("non_manifold_edges", 0),
           "flipped_edges": totals.get("flipped_edges", 0), "degenerate": totals.get("zero_area", 0),
           "duplicate": totals.get("duplicate_triangles", 0), "watertight": facts["closed"],
           "oriented": facts["oriented"]}
    got["F"] = facts["triangles"] + got["degenerate"] + got["duplicate"]
    wrong = {k: (v, row[k]) for k, v in got.items() if v != row[k]}
    need(not wrong, "; ".join(f"{k} {a}, not {b}" for k, (a, b) in wrong.items()))
    for key in ("area", "volume") if row["oriented"] else ("area",):
        # The volume of the index is that of the tetrahedra where there are some.
        need(abs(facts[key] - row[key]) <= 1e-9 * max(abs(row[key]), facts["area"] ** 1.5),
             f"{key} {facts[key]}, not {row[key]}")
    # The index decides in floating point what passes exactly through an edge; that is a touch here.
    crossings, touches = totals.get("self_intersections", 0), totals.get("touching_triangles", 0)
    need(facts["complete"] and crossings <= row["selfx"] <= crossings + touches,
         f"{crossings} crossings and {touches} touches, not {row['selfx']}")


def run_row(client, folder, row, build):
    """One row of an index; client: a wire.Client."""
    import wire  # noqa: PLC0415 - numpy and msgpack are needed for this alone
    path = folder / row["file"]
    if "polygons_over_3" in row and path.suffix == ".obj":
        vertices, elements = fanned(path)
    else:
        with tempfile.TemporaryDirectory() as name:
            out = pathlib.Path(name) / "out.qpm"
            code, err, _, _ = run_qpc(build / "client" / "cli" / "qpc",
                                      ["mesh", "file", path, "-o", out, "--quiet"], {})
            need(code == 0, f"refused: {err.strip()}")
            _, vertices, elements = read_qpm(out)
    import numpy  # noqa: PLC0415
    sent = client.call("mesh.upload", vertices=wire.pack_array(numpy.array(vertices, "<f8")),
                       elements=wire.pack_array(numpy.array(elements, "<i4")))
    check_row(row, client.call("mesh.check", sha256=sent["sha256"]))


def run_index(folder, build):
    """(file, error or None) of every row."""
    sys.path[:0] = [str(SOURCE / "tests" / "oracle"), str(SOURCE / "tests" / "support")]
    os.environ["QPC_BUILD"] = str(build)
    import daemon  # noqa: PLC0415
    import wire  # noqa: PLC0415
    with daemon.Daemon() as server, wire.Client(server.address) as client:
        for row in json.loads((folder / "stats.json").read_text()):
            try:
                run_row(client, folder, row, build)
            except Exception as error:  # noqa: BLE001 - every failure is counted
                yield row["file"], f"{type(error).__name__}: {error}"
            else:
                yield row["file"], None


def files_of(folder):
    """id -> path, in order."""
    return {json.loads(path.read_text())["id"]: path
            for path in sorted(folder.glob("*.expect.json"))}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build-test")
    parser.add_argument("folder", nargs="?", type=pathlib.Path,
                        default=SOURCE / "tests" / "data" / "cases" / "mesh")
    args = parser.parse_args()
    failed = 0
    if (args.folder / "stats.json").exists():
        rows = list(run_index(args.folder, args.build.resolve()))
        for name, error in rows:
            print(f"pass {name}" if error is None else f"fail {name}: {error}")
            failed += error is not None
        print(f"{len(rows) - failed} passed, {failed} failed")
        return failed > 0 or not rows
    files = files_of(args.folder)
    for name, path in files.items():
        try:
            run_mesh(path, args.build)
        except Exception as error:  # noqa: BLE001 - every failure is counted
            failed += 1
            print(f"fail {name}: {type(error).__name__}: {error}")
        else:
            print(f"pass {name}")
    print(f"{len(files) - failed} passed, {failed} failed")
    return failed > 0 or not files


if __name__ == "__main__":
    sys.exit(main())
