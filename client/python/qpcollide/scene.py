"""Scenes as files: from the disk form to the wire form (docs/scene.md).

Cables are laid out here; meshes are made and read by the program `qpc` (qpc mesh ... --format qpm),
so that there is one mesh reader and one set of generators. It is looked for in $QPC, in the build
folder of this checkout, and on PATH.
"""

import copy
import json
import math
import os
import pathlib
import shutil
import subprocess

import numpy as np

from . import wire


class SceneError(ValueError):
    """A scene file is wrong; the message names the place."""


def _find_qpc():
    given = os.environ.get("QPC")
    if given:
        return given
    root = pathlib.Path(__file__).resolve().parents[3]
    build = os.environ.get("QPC_BUILD", root / "build")
    for path in (pathlib.Path(build) / "client" / "cli" / "qpc", root / "build/client/cli/qpc"):
        if path.exists():
            return str(path)
    found = shutil.which("qpc")
    if found is None:
        raise SceneError("meshes need the program qpc: build it, or set QPC to its path")
    return found


def _mesh(arguments, where):
    command = [_find_qpc(), "mesh", *arguments, "-o", "-", "--format", "qpm"]
    done = subprocess.run(command, capture_output=True)
    if done.returncode != 0:
        message = done.stderr.decode(errors="replace").strip().removeprefix("qpc: ")
        raise SceneError(f"{where}: {message}")
    return wire.mesh_from_canonical(done.stdout)


def read_mesh(path):
    """(vertices, elements) of a mesh file: OBJ, STL, PLY, OFF, QPM."""
    return _mesh(["file", os.fspath(path)], os.fspath(path))


def generate_mesh(spec, where="generate"):
    """(vertices, elements) of a generator: {"kind": "sheave", "triangles": 13722, ...}."""
    if not isinstance(spec, dict) or not isinstance(spec.get("kind"), str):
        raise SceneError(f"{where}.kind: wanted the name of a generator")
    arguments = [spec["kind"]]
    for key, value in spec.items():
        if key != "kind":
            text = str(value).lower() if isinstance(value, bool) else str(value)
            arguments += [f"--{key}={text}"]
    return _mesh(arguments, where)


def _check_keys(map_, where, keys):
    for key in map_:
        if key not in keys:
            raise SceneError(f"{where}: unknown key {key!r} (known: {', '.join(keys)})")


def _number(map_, key, where, default=None):
    value = map_.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise SceneError(f"{where}.{key}: wanted a number")
    return value


def _point(map_, key, where):
    try:
        point = np.asarray(map_[key], float)
    except (KeyError, TypeError, ValueError):
        point = np.zeros(0)
    if point.shape != (3,) or not np.isfinite(point).all():
        raise SceneError(f"{where}.{key}: wanted three numbers [x, y, z]")
    return point


def _lay_helix(spec, where, count):
    spacing, radius = _number(spec, "spacing", where), _number(spec, "radius", where)
    pitch, turns = _number(spec, "pitch", where), spec.get("turns")
    if isinstance(turns, bool) or not isinstance(turns, int) or turns < 0:
        raise SceneError(f"{where}.turns: wanted a whole number from 0")
    rise, angle = pitch / (2 * math.pi), math.pi * (2 * turns + 1)
    per_radian = math.sqrt(radius * radius + rise * rise)
    length, wound = spacing * (count - 1), angle * per_radian
    up = (length - wound + _number(spec, "extra", where, 0)) / 2
    if not (spacing > 0 and radius > 0 and up > 0 and length - wound - up > 0):
        raise SceneError(f"{where}: a cable of {length:g} m leaves no leg on each side of {wound:g} m "
                         f"around the axis")
    nodes, half = np.zeros((count, 3)), rise * angle / 2
    for i in range(count):
        s = spacing * i - up
        if s < 0:
            nodes[i] = -radius, s, -half
        elif s < wound:
            turned = s / per_radian
            nodes[i] = -radius * math.cos(turned), radius * math.sin(turned), rise * turned - half
        else:
            nodes[i] = radius, wound - s, half
    return nodes


def lay_cable(spec, where="generate"):
    """Nodes (n, 3) of {"kind": "line", from, to, count}; of {"kind": "pulley", count, spacing, radius,
    extra}: up along x = -radius, half around the axis z, down along x = +radius; or of {"kind": "helix",
    count, spacing, radius, turns, pitch, extra}: the same with more turns around the axis."""
    keys = {"line": ("kind", "count", "from", "to"),
            "pulley": ("kind", "count", "spacing", "radius", "extra"),
            "helix": ("kind", "count", "spacing", "radius", "turns", "pitch", "extra")}
    kind = spec.get("kind") if isinstance(spec, dict) else None
    keys = keys.get(kind) if isinstance(kind, str) else None
    if keys is None:
        raise SceneError(f"{where}.kind: wanted line, pulley or helix, not {kind!r}")
    _check_keys(spec, where, keys)
    count = spec.get("count")
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise SceneError(f"{where}.count: wanted a whole number from 1")
    if kind == "line":
        start, end = _point(spec, "from", where), _point(spec, "to", where)
        parts = np.arange(count) / (count - 1) if count > 1 else np.zeros(1)
        return start + parts[:, None] * (end - start)
    if kind == "helix":
        return _lay_helix(spec, where, count)
    spacing, radius = _number(spec, "spacing", where), _number(spec, "radius", where)
    length, turn = spacing * (count - 1), math.pi * radius
    up = (length - turn) / 2 + _number(spec, "extra", where, 1.0)
    if not (spacing > 0 and radius > 0 and up > 0 and length - turn - up > 0):
        raise SceneError(f"{where}: a cable of {length:g} m leaves no leg on each side of a half "
                         f"circle of {turn:g} m")
    nodes = np.zeros((count, 3))
    for i in range(count):
        s = spacing * i - up
        if s < 0:
            nodes[i, :2] = -radius, s
        elif s < turn:
            nodes[i, :2] = -radius * math.cos(s / radius), radius * math.sin(s / radius)
        else:
            nodes[i, :2] = radius, turn - s
    return nodes


def _resolve_body(body, where, base, upload):
    nodes = body.get("nodes")
    if isinstance(nodes, dict):
        _check_keys(nodes, f"{where}.nodes", ("generate",))
        body["nodes"] = lay_cable(nodes.get("generate"), f"{where}.nodes.generate")
    mass = body.get("mass")
    if isinstance(mass, dict):
        _check_keys(mass, f"{where}.mass", ("all", "first", "last"))
        if "nodes" not in body:
            raise SceneError(f"{where}.mass: {{all, first, last}} needs the cable's nodes")
        masses = [_number(mass, "all", f"{where}.mass")] * len(body["nodes"])
        masses[-1] = _number(mass, "last", f"{where}.mass", masses[-1])
        masses[0] = _number(mass, "first", f"{where}.mass", mass["all"])
        body["mass"] = masses
    mesh = body.get("mesh")
    if isinstance(mesh, dict) and "sha256" not in mesh:
        place = f"{where}.mesh"
        _check_keys(mesh, place, ("sha256", "file", "generate"))
        if len(mesh) != 1:
            raise SceneError(f"{place}: wanted exactly one of file, generate, sha256")
        if "file" in mesh:
            path = pathlib.Path(base, mesh["file"])
            arrays, name = _mesh(["file", str(path)], f"{place}.file"), path.name
        else:
            arrays = generate_mesh(mesh["generate"], f"{place}.generate")
            name = mesh["generate"]["kind"]
        body["mesh"] = {"sha256": upload(*arrays, name)}


def resolve(scene, client=None, base="."):
    """The wire form of a scene map; meshes are uploaded to the client (None: only hashed). Files are
    relative to base."""
    if not isinstance(scene, dict):
        raise SceneError("a scene is a map {bodies: [...], ...}")
    upload = client.upload_mesh if client else lambda v, e, name: wire.mesh_sha256(v, e)
    scene = copy.deepcopy(scene)
    bodies = scene.get("bodies")
    for i, body in enumerate(bodies if isinstance(bodies, list) else []):
        if isinstance(body, dict):
            _resolve_body(body, f"bodies[{i}]", base, upload)
    return scene


def load(path, client=None):
    """The wire form of a scene file."""
    path = pathlib.Path(path)
    try:
        scene = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise SceneError(f"{path}: line {error.lineno}, column {error.colno}: {error.msg}") from None
    try:
        return resolve(scene, client, path.parent)
    except SceneError as error:
        raise SceneError(f"{path}: {error}") from None
