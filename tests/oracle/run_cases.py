#!/usr/bin/python3
"""Run the case files: ccd, qp, dynamics, storage, mesh and protocol. Prints pass, fail or skip with the
reason for every id, and the counts. Exit status 1 if anything failed.

    tests/oracle/run_cases.py [--build DIR] [GROUP or ID ...]
    tests/oracle/run_cases.py [--build DIR] FOLDER [FILE NAME PART ...]

FOLDER: any folder of scene cases (*.json), of mesh cases (*.expect.json beside each file), or of meshes with known counts (stats.json),
or one that has such folders in it.

ccd and qp ask the engine through the program case_tool; dynamics and storage run against a
qpcollided of their own; mesh is mesh_cases.py beside this file; protocol is tests/e2e/test_protocol_cases.py, whose results are counted
here by id. test_cases.py beside this file is the same under unittest (protocol left out: it runs by
itself there). What the files mean is in tests/data/cases/FORMAT.md.
"""

import argparse
import contextlib
import functools
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

SOURCE = pathlib.Path(os.environ.get("QPC_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
sys.path[:0] = [str(SOURCE / "tests" / "support"), str(SOURCE / "tests" / "oracle")]
CASES = SOURCE / "tests" / "data" / "cases"


import mesh_cases  # noqa: E402


class Skip(Exception):
    """The case does not apply, or cannot run here; the reason."""


def need(condition, text):
    if not condition:
        raise AssertionError(text)


def build():
    return pathlib.Path(os.environ.get("QPC_BUILD", SOURCE / "build-test"))


def case_files(group):
    return {json.loads(path.read_text())["id"] + path.name.split("-")[0][3:]: path
            for path in sorted((CASES / group).glob("*.json"))}


def run_program(*command, timeout=60):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=timeout)


# ---- ccd and qp ----

def ask_case_tool(path):
    result = run_program(build() / "tests" / "support" / "case_tool", path)
    need(result.returncode == 0, f"case_tool: {result.stderr.strip()}")
    return [json.loads(line) for line in result.stdout.splitlines()]


def run_ccd(path):
    case = json.loads(path.read_text())
    (answer,) = ask_case_tool(path)
    want = case["expect"]
    need(answer["exact_hit"] == want["hit"], "the exact test disagrees with the file")
    need(answer["hit"] == want["hit"], f"hit is {answer['hit']}, want {want['hit']}")
    need(answer["finite"], "a number of the answer is not finite")
    need(answer["seconds"] <= want["within_s"], f"took {answer['seconds']} s")
    if want["hit"]:
        low, high = want["accepted_time"]
        need(low <= answer["toi"] <= high, f"time {answer['toi']}, want {low} to {high}")
        need(answer["toi"] <= answer["exact_toi"], f"time {answer['toi']} is later than the contact")


def run_ccd_any(paths):
    """C02: at least one of the pairs reports the hit; ours reports both, being closed."""
    problems = []
    for path in paths:
        try:
            run_ccd(path)
        except AssertionError as error:
            problems.append(str(error))
    need(len(problems) < len(paths), "; ".join(problems))


def run_qp(path):
    case = json.loads(path.read_text())
    want = case["expect"]
    answers = ask_case_tool(path)
    need(len(answers) >= 3, "no answers")
    for answer in answers:
        who = f"{answer['solver']} from start {answer['start']}"
        need(answer["status"] == "OK", f"{who}: status {answer['status']}")
        need(answer["seconds"] <= want["within_s"], f"{who}: took {answer['seconds']} s")
        need(answer["iterations"] <= want["max_iterations"], f"{who}: {answer['iterations']} iterations")
        need(all(abs(x) < 1e100 for x in answer["x"]), f"{who}: x is not finite")
        if want["status"] == "optimal":
            need(answer["outcome"] == "optimal", f"{who}: {answer['outcome']}")
            for got, right in zip(answer["x"], want["x"], strict=True):
                need(abs(got - right) <= want["tolerance_x"], f"{who}: x = {answer['x']}")
            need(abs(answer["objective"] - want["objective"]) <= want["tolerance_objective"],
                 f"{who}: objective {answer['objective']}")
        else:
            # infeasible, or relaxed with the violation shown; a part of `auto` may give up, auto not
            need(answer["outcome"] != "optimal", f"{who}: calls it optimal")
            if answer["solver"] != "augmented-lagrangian":
                need(answer["outcome"] == "infeasible", f"{who}: {answer['outcome']}")
                need(answer["conflicts"] >= 2, f"{who}: names {answer['conflicts']} rows")
                need(answer["relaxed"] >= 0.5 - 1e-9, f"{who}: relaxation {answer['relaxed']}")


# ---- dynamics, through the daemon ----

def need_daemon():
    from daemon import QPCOLLIDED
    need(QPCOLLIDED.exists(), f"{QPCOLLIDED} is not built")


def daemon(*options, **more):
    from daemon import Daemon
    need_daemon()
    return Daemon(*options, **more)


def connect(server, timeout=60):
    from wire import Client
    return Client(server.address, timeout=timeout)


def run_files(server):
    return sorted((server.data / "runs").glob("*.qpc"))


def run_check(path):
    return run_program(build() / "tools" / "qpc-run-check", path, timeout=300)


def destroy(client, world, run):
    """world.destroy, and wait until the writer has closed the run file, which it does behind the reply."""
    client.call("world.destroy", world=world)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with contextlib.closing(sqlite3.connect(f"file:{run}?mode=ro", uri=True)) as db:
            if db.execute("SELECT state FROM run").fetchone()[0] == "closed":
                return
        time.sleep(0.02)
    raise AssertionError(f"{run.name} is not closed after 20 s")


def scene_of(case, client):
    """scene/1 in the product's own keys; meshes are uploaded."""
    from wire import pack_array
    import numpy
    bodies, constraints = [], []
    # Rigid and soft bodies have no thickness of their own there: the pair's is the margin.
    margin = case["contact"]["margin"] if any(body["kind"] in ("rigid", "soft") for body in case["bodies"]) else 0
    for body in case["bodies"]:
        if body["kind"] == "cable":
            need(body.get("bend_stiffness", 0) == 0, "bending is not known")
            bodies.append({"kind": "cable", "name": body["name"],
                           "nodes": pack_array(numpy.array(body["vertices"], "<f8")),
                           "mass": body["vertex_mass"], "radius": body["radius"],
                           "axial_stiffness": body["axial_stiffness"]})
            if body.get("linear_velocity"):
                bodies[-1]["velocity"] = body["linear_velocity"]
            if body.get("fixed"):
                constraints.append({"kind": "fixed", "body": body["name"], "nodes": body["fixed"]})
            continue
        mesh = client.call("mesh.upload", name=body["name"],
                           vertices=pack_array(numpy.array(body["vertices"], "<f8")),
                           elements=pack_array(numpy.array(body.get("tetrahedra") or body["triangles"], "<i4")))
        if body["kind"] == "cloth":
            edge = numpy.linalg.norm(numpy.subtract(*(body["vertices"][i] for i in body["triangles"][0][:2])))
            bodies.append({"kind": "cloth", "name": body["name"], "mesh": {"sha256": mesh["sha256"]},
                           "radius": body["thickness"] / 2, "area_density": body["areal_density"],
                           "membrane_stiffness": body["stretch_stiffness"],
                           "bending_stiffness": body["bend_stiffness"] / edge ** 2})
            if body.get("fixed"):
                constraints.append({"kind": "fixed", "body": body["name"], "nodes": body["fixed"]})
        elif body["kind"] == "soft":  # without its damping: that of the integrator is more
            bodies.append({"kind": "soft", "name": body["name"], "mesh": {"sha256": mesh["sha256"]}, "radius": margin / 2,
                           "density": body["density"], "young": body["young_modulus"], "poisson": body["poisson_ratio"]})
            if body.get("fixed"):
                constraints.append({"kind": "fixed", "body": body["name"], "nodes": body["fixed"]})
        else:
            bodies.append({"kind": body["kind"], "name": body["name"],
                           "mesh": {"sha256": mesh["sha256"]}, "radius": body.get("thickness", margin) / 2})
        if body["kind"] == "rigid":
            bodies[-1].update(mass=body["mass"], velocity=[float(v) for v in body["linear_velocity"]],
                              angular_velocity=body["angular_velocity"])
    law = {key: case["contact"][key] for key in ("friction", "restitution") if case.get("contact", {}).get(key)}
    return {"name": case["id"], "dt": case["dt"], "gravity": case["gravity"], "bodies": bodies,
            "constraints": constraints,
            "contacts": law,
            "record": {"frames": 1, "precision": "float64", "substeps": True}}


def control_at(case, step):
    """What is to be applied before a step (from 1), or None: velocities of the kinematic bodies, whose motion is linear between
    times, and bodies that an event takes out of the world."""
    orders, t = [], (step - 0.5) * case["dt"]
    for body in case["bodies"]:
        for p, q in zip(body.get("motion", []), body.get("motion", [])[1:]):
            if p["t"] <= t < q["t"]:
                velocity = [(b - a) / (q["t"] - p["t"]) for a, b in zip(p["translation"], q["translation"])]
                orders.append({"body": body["name"], "velocity": velocity})
    control = {"motions": orders} if orders else {}
    removed = [event["body"] for event in case.get("events", []) if event["at_step"] == step - 1]  # counted from 0
    return control | ({"remove": removed} if removed else {})


def contacts_of(reply, names):
    """Of a step: the names of the two bodies, normal, force and friction of each contact."""
    c = reply["contacts"]
    return [([names[i] for i in pair], normal, force, friction)
            for pair, normal, force, friction in zip(c["bodies"], c["normal"], c["force"], c["friction"])]


def positions_of(folder, name, step):
    """Positions of the bodies of a case of a folder after so many steps, by name."""
    (path,) = folder.glob(f"{name}-*.json")
    case = json.loads(path.read_text())
    with daemon("--workers", "1") as server, connect(server) as client:
        made = client.call("world.create", scene=scene_of(case, client))
        reply = client.call("world.step", world=made["world"], n=step, positions=True, precision="float64")
        return {body["name"]: reply["positions"][body["first_node"]:body["first_node"] + body["node_count"]]
                for body in made["bodies"] if body["node_count"] > 0}


def run_dynamics(path):
    from scene_checks import Checker, may_be_refused, reason_to_skip
    from wire import RpcError
    case = json.loads(path.read_text())
    reason = reason_to_skip(case)
    if reason:
        raise Skip(reason)
    refusable, wanted = may_be_refused(case)
    checker = Checker(case, wanted, functools.partial(positions_of, path.parent))
    with daemon("--workers", "1") as server, connect(server) as client:
        try:
            made = client.call("world.create", scene=scene_of(case, client))
        except RpcError:
            need(refusable, "the scene was refused")
            with connect(server) as fresh:
                fresh.call("hello", version=1)
            return
        world = made["world"]
        slices = {body["name"]: slice(body["first_node"], body["first_node"] + body["node_count"])
                  for body in made["bodies"] if body["node_count"] > 0}
        names = [body["name"] for body in made["bodies"]]
        forces = any(check["check"].startswith("contact_force") for check in wanted)
        for step in range(1, case["steps"] + 1):
            control = control_at(case, step)
            reply = client.call("world.step", world=world, n=1, positions=True, velocities=True, contacts=forces,
                                precision="float64", **({"control": control} if control else {}))
            need(reply["status"] == "ok" and reply["reached"] == step,
                 f"step {step}: {reply['status']}, {reply['error']}")
            positions = {name: reply["positions"][part] for name, part in slices.items()}
            checker.step(step, step == case["steps"], positions, reply["velocities"],
                         reply["summary"]["last"], slices, contacts_of(reply, names) if forces else None)
        with connect(server) as fresh:
            fresh.call("hello", version=1)
        (run,) = run_files(server)
        destroy(client, world, run)
        # every case, asked for or not: the promise holds anyhow
        result = run_check(run)
        need(result.returncode == 0, f"qpc-run-check: {result.stdout.strip()} {result.stderr.strip()}")
    need(not checker.failures, "; ".join(checker.failures))


# ---- storage ----

def long_cable(nodes=833, **record):
    """A loose chain whose frames do not compress: 10 kB each in float32."""
    rng = random.Random(1)
    return {"dt": 1e-4, "gravity": [0, 0, -9.81],
            "bodies": [{"kind": "cable", "nodes": [[0.1 * i, 0, 0] for i in range(nodes)],
                        "mass": 0.01, "stiffness": 10, "radius": 0.001,
                        "velocity": [[0, rng.uniform(-0.1, 0.1), rng.uniform(-0.1, 0.1)]
                                     for _ in range(nodes)]}],
            "record": {"frames": 1, **record}}


def wal_size(run):
    path = pathlib.Path(f"{run}-wal")
    return path.stat().st_size if path.exists() else 0


def frames_of(run, copy=None):
    """Step numbers of the frames at ends of steps; integrity is insisted on."""
    with contextlib.closing(sqlite3.connect(f"file:{copy or run}?mode=ro", uri=True)) as db:
        need(db.execute("PRAGMA integrity_check").fetchone()[0] == "ok", f"{run}: integrity_check")
        return [row[0] for row in db.execute("SELECT step FROM frames WHERE substep < 0 ORDER BY step")]


def contiguous(steps, what):
    need(steps, f"{what}: no frames")
    need(steps == list(range(steps[0], steps[0] + len(steps))), f"{what}: frames have holes")


def c_test(name):
    """A function of a C test program of this build, by name; runs the program once."""
    for program in sorted((build() / "tests").glob("**/test_*")):
        if not os.access(program, os.X_OK) or program.is_dir():
            continue
        if name.encode() not in program.read_bytes():
            continue
        result = subprocess.run([str(program)], capture_output=True, text=True, timeout=300,
                                env={**os.environ, "CMOCKA_MESSAGE_OUTPUT": "TAP"})
        need(re.search(rf"^ok\b.*\b{name}\s*$", result.stdout + result.stderr, re.M),
             f"{program.name}: {name} is not ok")
        return
    raise AssertionError(f"no test program has {name}")


def storage_s01(quick):
    with daemon() as server, connect(server) as client:
        world = client.call("world.create", scene=long_cable())["world"]
        client.call("world.step", world=world, n=200)
        (run,) = run_files(server)
        start = time.monotonic()
        client.call("world.step", world=world, n=600)
        alone = (time.monotonic() - start) / 600
        with contextlib.closing(sqlite3.connect(f"file:{run}?mode=ro", uri=True,
                                                isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM frames").fetchone()
            start = time.monotonic()
            client.call("world.step", world=world, n=2000)
            held = (time.monotonic() - start) / 2000
            if not quick:
                time.sleep(10)
            reader.execute("ROLLBACK")
        # half speed, with grace for a machine that others use
        need(held <= 4 * alone + 1e-3, f"{1e3 * held:.2f} ms a step with a reader, {1e3 * alone:.2f} without")
        client.call("world.step", world=world, n=200)
        time.sleep(0.5)
        need(wal_size(run) < 16 << 20, f"wal of {wal_size(run)} bytes after the reader ended")
        if not quick:
            most = 0
            for _ in range(20):
                client.call("world.step", world=world, n=1000)
                most = max(most, wal_size(run))
            need(most < 16 << 20, f"wal of {most} bytes without a reader")
        blocked = [line for line in server.log().splitlines() if "checkpoint" in line]
        need(len(blocked) <= 2, f"{len(blocked)} log lines about the checkpoint")
        destroy(client, world, run)
        contiguous(frames_of(run), run.name)


def storage_s02(quick):
    hold_s = 1 if quick else 3
    with daemon() as server, connect(server) as client, connect(server, timeout=10) as other:
        world = client.call("world.create", scene=long_cable(100))["world"]
        client.call("world.step", world=world, n=50)
        (run,) = run_files(server)
        time.sleep(0.3)
        stop, slowest = threading.Event(), [0.0]

        def probe():
            while not stop.is_set():
                start = time.monotonic()
                other.call("server.stats")
                slowest[0] = max(slowest[0], time.monotonic() - start)
                time.sleep(0.02)

        thread = threading.Thread(target=probe)
        thread.start()
        try:
            with contextlib.closing(sqlite3.connect(run, isolation_level=None, timeout=5)) as foreign:
                foreign.execute("BEGIN IMMEDIATE")
                end = time.monotonic() + hold_s
                while time.monotonic() < end:
                    client.call("world.step", world=world, n=1)
                    time.sleep(0.01)
                foreign.execute("ROLLBACK")
            for _ in range(50):
                client.call("world.step", world=world, n=1)
                time.sleep(0.01)
        finally:
            stop.set()
            thread.join()
        need(slowest[0] < 1, f"an answer took {slowest[0]:.2f} s")
        reached = client.call("world.step", world=world, n=1)["reached"]
        destroy(client, world, run)
        steps = frames_of(run)
        contiguous(steps, run.name)
        need(steps[-1] == reached, f"frames end at {steps[-1]}, the world at {reached}")


def full_disk(server, client, world, run, sleep_s):
    """Step until the log is full; the server answers all the time and says what happened."""
    errors = 0
    end = time.monotonic() + sleep_s
    for _ in range(60):
        try:
            client.call("world.step", world=world, n=50)
        except Exception as error:  # noqa: BLE001 - an RPC error that says FULL is allowed
            errors += 1
            need(getattr(error, "name", "") in ("FULL", "IO"), f"step: {error}")
        start = time.monotonic()
        stats = client.call("server.stats")
        need(time.monotonic() - start < 1, "server.stats took a second")
    time.sleep(max(0.0, end - time.monotonic()))
    stats = client.call("server.stats")["storage"]
    need(errors > 0 or stats["errors"] > 0, "nothing says that the log is full")
    need(server.process.poll() is None, "the server died")
    need(len(server.log().splitlines()) < 100, f"{len(server.log().splitlines())} log lines")


def storage_s03(quick):
    from daemon import Daemon

    # b: a limit on the size of files; SIGXFSZ would end a careless process
    class Limited(Daemon):
        def start(self):
            old = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, old[1]))
            try:
                return super().start()
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, old)

    need_daemon()
    with Limited() as server, connect(server) as client:
        world = client.call("world.create", scene=long_cable(full="drop"))["world"]
        (run,) = run_files(server)
        full_disk(server, client, world, run, 1)
        client.call("world.destroy", world=world)  # the run cannot be closed: it stays full
        steps = frames_of(run)
        contiguous(steps[:50], run.name)
    # a: a small file system, enlarged later
    if os.geteuid() != 0:
        return
    folder = tempfile.mkdtemp(prefix="qpcollide-small-")
    if run_program("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder).returncode != 0:
        os.rmdir(folder)
        return
    try:
        with daemon(data=pathlib.Path(folder) / "data") as server, connect(server) as client:
            world = client.call("world.create", scene=long_cable(full="drop"))["world"]
            (run,) = run_files(server)
            full_disk(server, client, world, run, 1)
            need(run_program("mount", "-o", "remount,size=64m", folder).returncode == 0, "remount")
            time.sleep(2)
            before = client.call("world.step", world=world, n=1)["reached"]
            client.call("world.step", world=world, n=20)
            destroy(client, world, run)
            steps = frames_of(run)
            contiguous(steps[:50], run.name)
            need(steps[-1] > before, f"recording did not resume: last frame {steps[-1]}, step {before}")
            with contextlib.closing(sqlite3.connect(f"file:{run}?mode=ro", uri=True)) as db:
                events = [row[0] for row in db.execute("SELECT kind FROM events")]
            need("gap" in events, f"no event tells of the gap: {events}")
    finally:
        run_program("umount", "-l", folder)
        os.rmdir(folder)


def storage_s04(quick):
    rng = random.Random(4)
    server = daemon()
    kept = {}
    try:
        server.start()
        for _ in range(4 if quick else 20):
            with connect(server) as client:
                world = client.call("world.create", scene=long_cable(200))["world"]
                end = time.monotonic() + rng.uniform(0.2, 0.5 if quick else 2)
                reached = 0
                while time.monotonic() < end:
                    reached = client.call("world.step", world=world, n=5)["reached"]
                server.kill()
            runs = run_files(server)
            new = [run for run in runs if run.name not in kept]
            need(len(new) == 1, f"{len(new)} new runs")
            need(set(kept) <= {run.name for run in runs}, "an old run is gone")
            steps = frames_of(new[0])
            contiguous(steps, new[0].name)
            need(steps[0] in (0, 1), f"frames begin at {steps[0]}")
            # batches are 50 ms old at most (docs/storage.md); with grace for a busy machine
            need(steps[-1] <= reached + 5, "frames of steps that were never answered")
            result = run_check(new[0])
            need(result.returncode == 0, f"reader: {result.stdout} {result.stderr}")
            kept[new[0].name] = len(steps)
            server.restart()
            for name, count in kept.items():
                need(len(frames_of(server.data / "runs" / name)) == count, f"{name} changed")
        server.stop()
    finally:
        server.remove()


def refused_at_start(name, words):
    """The daemon does not touch a catalogue that is not its own; returns its message."""
    source = CASES / "storage" / name
    server = daemon()
    try:
        server.data.mkdir(parents=True)
        target = server.data / "catalog.db"
        shutil.copyfile(source, target)
        digest = hashlib.sha256(target.read_bytes()).digest()
        start = time.monotonic()
        try:
            server.start()
        except RuntimeError:
            pass
        else:
            raise AssertionError("the server started")
        need(time.monotonic() - start < 2 * 5, "took too long")
        need(server.process.returncode not in (0, None), f"exit status {server.process.returncode}")
        log = server.log()
        need(str(target) in log or "catalog.db" in log, f"the message does not name the file: {log}")
        for word in words:
            need(word.lower() in log.lower(), f"the message lacks {word!r}: {log}")
        need(hashlib.sha256(target.read_bytes()).digest() == digest, "the file was changed")
        left = [path.name for path in server.data.glob("catalog.db-*")]
        need(not left, f"left behind: {left}")
    finally:
        server.remove()


def refused_by_reader(name, words):
    with tempfile.TemporaryDirectory(prefix="qpcollide-") as folder:
        path = pathlib.Path(folder) / "run.qpc"
        shutil.copyfile(CASES / "storage" / name, path)
        digest = hashlib.sha256(path.read_bytes()).digest()
        result = run_check(path)
        need(result.returncode == 2, f"reader: exit status {result.returncode}")
        for word in words:
            need(word.lower() in result.stderr.lower(), f"the reader's message lacks {word!r}: {result.stderr}")
        need(hashlib.sha256(path.read_bytes()).digest() == digest, "the file was changed")
        need(len(list(pathlib.Path(folder).iterdir())) == 1, "files are left beside it")


def storage_s05(quick):
    refused_at_start("S05-not-a-database.db", ["not a database"])


def storage_s06(quick):
    refused_at_start("S06-newer-schema.db", [])
    refused_by_reader("S06-newer-schema.db", [])
    # the file is another program's too; a catalogue of ours from a newer version names both numbers
    server = daemon()
    try:
        server.start()
        server.stop()
        target = server.data / "catalog.db"
        with contextlib.closing(sqlite3.connect(target)) as db:
            db.execute("PRAGMA user_version = 2147483647")
            db.commit()
        digest = hashlib.sha256(target.read_bytes()).digest()
        try:
            server.restart()
        except RuntimeError:
            pass
        else:
            raise AssertionError("the server started on a newer catalogue")
        need("2147483647" in server.log(), f"the message lacks the version found: {server.log()}")
        need(re.search(r"\b1\b", server.log().split("2147483647")[-1]) or
             re.search(r"version 1\b|supports? 1\b|up to 1\b", server.log()),
             f"the message lacks the version supported: {server.log()}")
        need(hashlib.sha256(target.read_bytes()).digest() == digest, "the file was changed")
    finally:
        server.remove()


def storage_s07(quick):
    c_test("non_finite_numbers_are_kept_apart_from_missing_ones")


def storage_s08(quick):
    with tempfile.TemporaryDirectory(prefix="qpcollide-") as folder:
        copy = pathlib.Path(folder) / "copy.qpc"
        with daemon() as server:
            with connect(server) as client:
                world = client.call("world.create", scene=long_cable(100))["world"]
                client.call("world.step", world=world, n=500)
                (run,) = run_files(server)
                # case 3: only the main file, while it is recorded
                early = pathlib.Path(folder) / "early.qpc"
                shutil.copyfile(run, early)
                result = run_check(early)
                if result.returncode != 2:  # a prefix is fine; wrong frames are not
                    contiguous(frames_of(early), "copy of a recording")
            server.stop()
            shutil.copyfile(run, copy)
        # case 1: after an orderly stop the main file has everything
        steps = frames_of(copy)
        contiguous(steps, "copy of the main file")
        need(steps[0] in (0, 1) and steps[-1] == 500, f"frames {steps[0]} to {steps[-1]} in the copy")
        result = run_check(copy)
        need(result.returncode == 0, f"reader: {result.stdout} {result.stderr}")
    # case 2: the export while recording
    c_test("copies_and_exports")


def storage_s09(quick):
    refused_at_start("S09-other-application.db", [])
    refused_by_reader("S09-other-application.db", [])


def storage_s10(quick):
    for name in ("network_file_systems_get_no_wal", "local_file_systems_get_wal",
                 "the_choice_is_what_sqlite_answers", "a_run_records_without_wal"):
        c_test(name)


# ---- protocol ----

def protocol_results():
    """id -> (ok, text), from the end-to-end test that plays the files."""
    path = SOURCE / "tests" / "e2e" / "test_protocol_cases.py"
    if not path.exists():
        raise Skip(f"{path.name} is not there")
    env = {**os.environ, "QPC_BUILD": str(build()), "PYTHONPATH": os.pathsep.join(
        [str(SOURCE / "client" / "python"), str(SOURCE / "tests" / "support")])}
    result = subprocess.run([sys.executable, str(SOURCE / "tests" / "support" / "run_python.py"),
                             str(path)], capture_output=True, text=True, env=env, timeout=900)
    results = {}
    for line in result.stdout.splitlines():
        match = re.match(r"(ok|not ok)\b(.*)", line)
        number = re.search(r"[pP](\d\d)(?!\d)", line)
        if not match or not number:
            continue
        name = "P" + number[1]
        skipped = "# SKIP" in line
        ok, text = results.get(name, (True, ""))
        results[name] = (ok and match[1] == "ok", text if match[1] == "ok" and not skipped else line)
    return results


# ---- all of it ----

def cases(quick=False):
    """id -> function, in order."""
    table = {}
    ccd = case_files("ccd")
    halves = [path for name, path in ccd.items() if name.startswith("C02")]
    for name, path in ccd.items():
        if name.startswith("C02"):
            table.setdefault("C02", lambda: run_ccd_any(halves))
        else:
            table[name] = lambda path=path: run_ccd(path)
    for name, path in case_files("qp").items():
        table[name] = lambda path=path: run_qp(path)
    for name, path in case_files("dynamics").items():
        table[name] = lambda path=path: run_dynamics(path)
    for number in range(1, 11):
        name = f"S{number:02d}"
        table[name] = lambda name=name: globals()[f"storage_{name.lower()}"](quick)
    for name, path in mesh_cases.files_of(CASES / "mesh").items():
        table[name] = lambda path=path: mesh_cases.run_mesh(path, build())
    return table


GROUPS = {"ccd": "C", "qp": "Q", "dynamics": "D", "storage": "S", "protocol": "P", "mesh": "M"}


def check_index_row(name, error):
    need(error is None, f"{name}: {error}")


def folder_cases(folder):
    """What is in a folder, by its files: name -> function."""
    if (folder / "stats.json").exists():
        return {name: functools.partial(check_index_row, name, error)
                for name, error in mesh_cases.run_index(folder, build())}
    if any(folder.glob("*.expect.json")):
        return {name: functools.partial(mesh_cases.run_mesh, path, build())
                for name, path in mesh_cases.files_of(folder).items()}
    table = {}
    for path in sorted(folder.glob("*.json")):
        try:
            case = json.loads(path.read_text())
        except ValueError:
            continue  # no case
        if isinstance(case, dict) and {"id", "steps", "expect"} <= case.keys():
            table[path.stem] = functools.partial(run_dynamics, path)
    return table


def cases_of(folder, parts):
    """Of a folder, or of those in it; with parts, what has one of them in its name."""
    table = folder_cases(folder)
    if not table:
        for inner in sorted(path for path in folder.iterdir() if path.is_dir()):
            table.update(folder_cases(inner))
    return {name: function for name, function in table.items()
            if not parts or any(part in name for part in parts)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, help="build folder (build-test)")
    parser.add_argument("--quick", action="store_true", help="shorter waits, fewer repetitions")
    parser.add_argument("wanted", nargs="*", help="groups (ccd, qp, ...) or ids (C01, ...); or a folder")
    args = parser.parse_args()
    if args.build:
        os.environ["QPC_BUILD"] = str(args.build.resolve())
    folder = pathlib.Path(args.wanted[0]) if args.wanted else None
    if folder is not None and args.wanted[0] not in GROUPS and folder.is_dir():
        wanted, table = [], cases_of(folder, args.wanted[1:])
        if not table:
            parser.error(f"{folder} has no cases of a known format")
    else:
        folder, wanted = None, [GROUPS.get(word, word) for word in args.wanted]
        table = cases(args.quick)
    counts = {"pass": 0, "fail": 0, "skip": 0}

    def say(result, name, text=""):
        counts[result] += 1
        print(f"{result} {name}{': ' + text if text else ''}", flush=True)

    def is_wanted(name):
        return not wanted or any(name.startswith(word) for word in wanted)

    for name, function in table.items():
        if not is_wanted(name):
            continue
        try:
            function()
        except Skip as reason:
            say("skip", name, str(reason))
        except Exception as error:  # noqa: BLE001 - every failure is counted
            say("fail", name, f"{type(error).__name__}: {error}")
        else:
            say("pass", name)
    if folder is None and (is_wanted("P") or any(word.startswith("P") for word in wanted)):
        try:
            results = protocol_results()
        except Skip as reason:
            results = {}
            missing = str(reason)
        else:
            missing = "test_protocol_cases.py has no test of that name"
        for number in range(1, 17):
            name = f"P{number:02d}"
            if not is_wanted(name):
                continue
            if name not in results:
                say("skip", name, missing)
            elif "# SKIP" in results[name][1]:
                say("skip", name, results[name][1].split("# SKIP", 1)[1].strip())
            else:
                say("pass" if results[name][0] else "fail", name, results[name][1])
    print(f"{counts['pass']} passed, {counts['fail']} failed, {counts['skip']} skipped")
    return counts["fail"] > 0


if __name__ == "__main__":
    sys.exit(main())
