"""The `qpc` command against real daemons: its output, its exit codes, its private daemon."""

import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "python"))

from daemon import QPC, SOURCE, TIME_SCALE, Daemon  # noqa: E402

PRIORITY = 110

SCENES = SOURCE / "examples" / "scenes"
FIGURES = ["steps_per_s", "real_time_factor", "contacts_max", "active_max", "passes_max", "min_gap",
           "failsafe", "halvings", "energy_drift_max", "path", "hash"]


def qpc(*arguments, env=None, timeout=60, **options):
    return subprocess.run([str(QPC), *map(str, arguments)], capture_output=True, text=True,
                          timeout=timeout * TIME_SCALE, stdin=subprocess.DEVNULL,
                          env={**os.environ, **(env or {})}, **options)


def write_scene(folder, name="scene.json", **changes):
    scene = {"name": "drop", "dt": 0.005, "gravity": [0, -10, 0],
             "bodies": [{"name": "floor", "kind": "static",
                         "mesh": {"generate": {"kind": "sheet", "width": 4, "depth": 4}}},
                        {"name": "ball", "kind": "cable", "nodes": [[0.1, 0.5, 0.2]], "mass": 1,
                         "radius": 0.1}], **changes}
    path = pathlib.Path(folder) / name
    path.write_text(json.dumps(scene))
    return path


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="qpc-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def run_qpc(self, code, *arguments, **options):
        done = qpc(*arguments, **options)
        self.assertEqual(done.returncode, code, f"{arguments}:\n{done.stdout}\n{done.stderr}")
        return done


class WithoutServer(Case):
    def test_help_says_everything(self):
        text = self.run_qpc(0, "--help").stdout
        for command in ["run", "check", "mesh", "upload", "worlds", "runs", "show", "diagnostics",
                        "stats"]:
            self.assertIn(f"\n  {command} ", text)
            self.assertIn("usage: qpc " + command, self.run_qpc(0, command, "--help").stdout)
        for code in ["0", "1", "2", "3", "4", "5", "130"]:
            self.assertRegex(text, rf"(?m)^  {code} ")
        self.assertRegex(self.run_qpc(0, "--version").stdout, r"^qpc \d+\.\d+\.\d+$")

    def test_wrong_usage_is_2_and_names_what_is_near(self):
        self.assertIn("usage", self.run_qpc(2).stderr)
        self.assertIn("did you mean run", self.run_qpc(2, "rnu").stderr)
        self.assertIn("--steps", self.run_qpc(2, "run", "x.json", "--step", "3").stderr)
        self.assertIn("whole number", self.run_qpc(2, "run", "x.json", "--steps", "-3").stderr)
        self.assertIn("wants a value", self.run_qpc(2, "run", "x.json", "--steps").stderr)
        self.run_qpc(2, "run")
        self.run_qpc(2, "run", "a", "b")
        self.run_qpc(2, "run", SCENES / "cylinder.json", "--steps", "1", "--seconds", "1")
        self.run_qpc(2, "run", SCENES / "cylinder.json", "--server", "::1")
        self.run_qpc(2, "runs", "--server", "h:1", "--data", "x")
        self.run_qpc(2, "worlds", "--timeout", "soon")

    def test_nobody_listening_is_3(self):
        self.assertIn("127.0.0.1:1", self.run_qpc(3, "stats", "--server", "127.0.0.1:1").stderr)
        self.run_qpc(3, "worlds", env={"QPC_SERVER": f"unix:{self.folder}/none"})
        error = json.loads(self.run_qpc(3, "runs", "--json", "--server", "127.0.0.1:1").stdout)
        self.assertEqual(error["error"]["name"], "IO")
        self.assertEqual(error["exit"], 3)

    def test_bad_scene_files_are_4_with_their_place(self):
        path = self.folder / "s.json"
        self.assertIn(str(path), self.run_qpc(4, "run", path).stderr)
        path.write_text('{"bodies":\n [1,]}')
        self.assertIn("line 2", self.run_qpc(4, "run", path).stderr)
        path.write_text('{"bodies": [{"mesh": {"generate": {"kind": "shere"}}}]}')
        self.assertIn("sphere", self.run_qpc(4, "run", path).stderr)
        path.write_text('{"bodies": [{"mesh": {"file": "none.obj"}}]}')
        self.assertIn("none.obj", self.run_qpc(4, "check", path).stderr)

    def test_meshes_are_made_and_converted(self):
        obj, qpm = self.folder / "a.obj", self.folder / "a.qpm"
        made = json.loads(self.run_qpc(0, "mesh", "sheave", "-o", obj, "--json").stdout)
        self.assertEqual(made["elements"], 13722)
        text = obj.read_text()
        self.assertEqual(text.count("\nf "), 13722)
        self.assertEqual(text.count("\nv "), made["vertices"])
        self.run_qpc(0, "mesh", "file", obj, "-o", qpm, "--quiet")
        self.assertEqual(qpm.read_bytes()[:4], b"QPM1")
        cube = SOURCE / "tests" / "data" / "meshes" / "gmsh" / "cube22.msh"
        tets = json.loads(self.run_qpc(0, "mesh", "file", cube, "-o", qpm, "--json").stdout)
        self.assertEqual((tets["vertices"], tets["elements"]), (8, 5))
        self.assertAlmostEqual(tets["volume"], 1, delta=1e-15)
        skin = json.loads(self.run_qpc(0, "mesh", "file", cube, "--surface", "-o", obj,
                                       "--json").stdout)
        self.assertEqual((skin["vertices"], skin["elements"]), (8, 12))
        self.assertAlmostEqual(skin["volume"], 1, delta=1e-15)
        self.assertIn("tetgen", self.run_qpc(4, "mesh", "file", obj, "--surface", "-o",
                                             qpm).stderr)
        out = subprocess.run([str(QPC), "mesh", "box", "--triangles=24", "-o", "-"],
                             capture_output=True, text=True)
        self.assertEqual(out.stdout.count("\nf "), 24)
        self.assertIn("12 or 14", self.run_qpc(2, "mesh", "box", "--triangles", "13", "-o",
                                               obj).stderr)
        self.run_qpc(2, "mesh", "box")
        self.run_qpc(2, "mesh", "cone", "-o", obj)
        self.run_qpc(2, "mesh", "box", "-o", obj, "--format", "stl")
        self.run_qpc(4, "mesh", "box", "-o", self.folder / "no" / "such.obj")
        self.run_qpc(4, "mesh", "file", self.folder / "none.stl", "-o", obj)

    def test_a_private_daemon_that_does_not_start_is_3(self):
        scene = write_scene(self.folder)
        done = self.run_qpc(3, "run", scene, "--data", self.folder / "data",
                            env={"QPCOLLIDED": str(self.folder / "none")})
        self.assertIn("QPCOLLIDED", done.stderr)
        fake = self.folder / "fake"
        fake.write_text("#!/bin/sh\necho the reason >&2\nexit 4\n")
        fake.chmod(0o755)
        done = self.run_qpc(4, "run", scene, "--data", self.folder / "data",
                            env={"QPCOLLIDED": str(fake)})
        self.assertIn("the reason", done.stderr)


class PrivateDaemon(Case):
    """Without --server, on a data folder of the test's own."""

    def daemons(self):
        """Processes that were started on our folder."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(self.folder).encode() in command and b"qpcollided" in command.split(b"\0")[0]:
                found.append(int(entry.name))
        return found

    def test_a_run_leaves_its_file_and_nothing_else(self):
        data = self.folder / "data"
        scratch = self.folder / "scratch"
        scratch.mkdir(mode=0o700)
        done = self.run_qpc(0, "run", SCENES / "cylinder.json", "--steps", "40", "--data", data,
                            "--json", "--quiet", env={"XDG_RUNTIME_DIR": str(scratch)})
        report = json.loads(done.stdout)
        self.assertEqual(done.stderr, "")
        self.assertEqual(report["steps"], 40)
        self.assertAlmostEqual(report["time"], 0.2)
        for key in FIGURES:
            self.assertIn(key, report)
        for key in ["stat", "prim", "dual", "comp", "natural", "penetration"]:
            self.assertGreaterEqual(report["worst"][key], 0)
        self.assertGreater(report["step_ms"]["cpu_p99"], 0)
        self.assertGreaterEqual(report["step_ms"]["cpu_p99"], report["step_ms"]["cpu_median"])
        self.assertEqual(list(scratch.iterdir()), [])
        self.assertEqual(self.daemons(), [])
        with sqlite3.connect(report["path"]) as db:
            self.assertEqual(db.execute("SELECT count(*), max(step) FROM steps").fetchone(),
                             (40, 40))
            self.assertEqual(db.execute("SELECT state FROM run").fetchone(), ("closed",))
        # The run is there for the next command, by the beginning of its id and as the last one.
        runs = json.loads(self.run_qpc(0, "runs", "--data", data, "--json").stdout)["runs"]
        self.assertEqual([run["run"] for run in runs], [report["run"]])
        for name in [report["run"], report["run"][:6], "last"]:
            shown = json.loads(self.run_qpc(0, "show", name, "--data", data, "--json").stdout)
            self.assertEqual(shown["run"], report["run"])
            self.assertAlmostEqual(shown["figures"]["min_gap"], report["min_gap"])
        csv = self.run_qpc(0, "diagnostics", "last", "--csv", "--data", data, "--from", 5, "--to", 9,
                           "--fields", "step,time,min_gap").stdout.splitlines()
        self.assertEqual(csv[0], "step,time,min_gap")
        self.assertEqual([line.split(",")[0] for line in csv[1:]], ["5", "6", "7", "8", "9"])
        table = self.run_qpc(0, "diagnostics", "last", "--data", data).stdout
        self.assertIn("40 steps", table)
        self.assertIn("ns_total", table)
        columns = json.loads(self.run_qpc(0, "diagnostics", "last", "--json", "--data",
                                          data).stdout)
        self.assertEqual(len(columns["time"]), 40)
        self.assertIn("no run", self.run_qpc(1, "show", "zz", "--data", data).stderr)

    def test_the_summary_for_people(self):
        done = self.run_qpc(0, "run", write_scene(self.folder), "--seconds", "0.5", "--data",
                            self.folder / "data")
        for word in ["100 steps, 0.5 s simulated", "steps/s, real-time factor", "median", "p99",
                     "contacts", "active rows", "passes", "worst gap", "stat", "fail-safe",
                     "energy drift", "run file"]:
            self.assertIn(word, done.stdout)
        self.assertIn("drop 100 % 100/100 steps", done.stderr)  # plain lines: no terminal here
        self.assertNotIn("\r", done.stderr)

    def test_a_progress_bar_on_a_terminal(self):
        import pty
        leader, follower = pty.openpty()
        process = subprocess.Popen(
            [str(QPC), "run", str(write_scene(self.folder)), "--steps", "20", "--data",
             str(self.folder / "data")], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=follower)
        os.close(follower)
        seen = b""
        try:
            while data := os.read(leader, 4096):
                seen += data
        except OSError:
            pass  # the terminal's other end is closed
        os.close(leader)
        self.assertEqual(process.wait(30 * TIME_SCALE), 0)
        self.assertIn(b"\rdrop [####", seen)

    def test_dt_positions_and_no_record(self):
        data, npy, csv = self.folder / "data", self.folder / "x.npy", self.folder / "x.csv"
        scene = write_scene(self.folder)
        report = json.loads(self.run_qpc(0, "run", scene, "--dt", "0.01", "--steps", "10", "--data",
                                         data, "--json", "--no-record", "--positions", npy).stdout)
        self.assertAlmostEqual(report["time"], 0.1)
        self.assertIsNone(report["run"])
        self.assertFalse(list(data.glob("runs/*")))
        x = np.load(npy)
        self.assertEqual(x.shape, (1, 3))
        # Implicit Euler: y falls by g dt^2 n (n + 1) / 2.
        self.assertAlmostEqual(x[0, 1], 0.5 - 10 * 1e-4 * 55, places=12)
        self.run_qpc(0, "run", scene, "--dt", "0.01", "--steps", "10", "--data", data, "--positions",
                     csv)
        lines = csv.read_text().splitlines()
        self.assertEqual(lines[0], "x,y,z")
        self.assertEqual([float(v) for v in lines[1].split(",")], list(x[0]))

    def test_the_state_hash_does_not_depend_on_how_the_steps_are_cut(self):
        hashes = set()
        for steps in ["--steps", "60"], ["--seconds", "0.3"]:
            report = json.loads(self.run_qpc(0, "run", SCENES / "cylinder.json", *steps, "--data",
                                             self.folder / "data", "--json").stdout)
            hashes.add(report["hash"])
        self.assertEqual(len(hashes), 1)

    def test_check_of_a_mesh_file_tells_errors_from_warnings(self):
        data = ["--data", self.folder / "data"]
        meshes = SOURCE / "tests" / "data" / "meshes"
        text = self.run_qpc(0, "check", meshes / "obj" / "cube.obj", *data).stdout
        self.assertIn("closed and oriented", text)
        wall = meshes / "index" / "erleben_hole.obj"
        text = self.run_qpc(0, "check", wall, *data).stdout
        self.assertIn("warning: 12 edges with one triangle", text)
        text = self.run_qpc(4, "check", wall, "--use", "rigid", *data).stdout
        self.assertIn("error: 12 edges with one triangle", text)
        self.assertIn("warning: 4 pairs of triangles without a common vertex that touch", text)
        answer = json.loads(self.run_qpc(4, "check", wall, "--use", "rigid", "--list", "2", "--json", *data).stdout)
        self.assertEqual([(f["kind"], f["total"], len(f["items"])) for f in answer["errors"]],
                         [("open_edges", 12, 2), ("touching_triangles", 4, 2)][:1])
        self.assertEqual(answer["facts"]["euler"], -2)
        loose = self.folder / "loose.obj"
        loose.write_text("v 9 9 9\nv 0 0 0\nv 1 0 0\nv 0 1 0\nv 8 8 8\nf 2 3 4\n")
        text = self.run_qpc(0, "check", loose, "--use", "cloth", *data).stdout
        self.assertIn("warning: 2 vertices of the file are used by no triangle: they are left out, and the others renumbered (vertex 0, 4)", text)
        answer = json.loads(self.run_qpc(4, "check", loose, "--use", "soft", "--list", "1", "--json", *data).stdout)
        self.assertEqual([f["items"] for f in answer["warnings"] if f["kind"] == "unreferenced_vertices"], [[[0]]])
        wrong, = (f for f in answer["errors"] if f["kind"] == "wrong_elements")
        self.assertIn("tetgen -pq", wrong["text"])
        self.assertEqual(wrong["total"], 1)
        self.assertIn("use", self.run_qpc(1, "check", wall, "--use", "rope", *data).stderr)
        self.run_qpc(4, "check", meshes.parent / "cases" / "mesh" / "M20b-nothing-in-it.obj", *data)
        scene = write_scene(self.folder, bodies=[
            {"name": "wall", "kind": "static", "mesh": {"file": str(wall)}},
            {"name": "rope", "kind": "cable", "nodes": [[5, 5, 5], [5.1, 5, 5]], "mass": [1, 1e-5], "stiffness": 100, "radius": 0.01}])
        text = self.run_qpc(0, "check", scene, *data).stdout
        self.assertIn("warning: wall: 12 edges with one triangle", text)
        self.assertIn("a ratio of 1.0e+05", text)
        answer = json.loads(self.run_qpc(0, "check", scene, "--json", *data).stdout)
        self.assertEqual(answer["preflight"]["bodies"][0]["facts"]["triangles"], 88)

    def test_check_tells_good_scenes_from_bad_ones(self):
        data = ["--data", self.folder / "data"]
        self.assertIn("good", self.run_qpc(0, "check", SCENES / "pulley-2.json", *data).stdout)
        bad = write_scene(self.folder, gravty=[0, 0, 0])
        self.assertIn("gravity", self.run_qpc(4, "check", bad, *data).stderr)
        self.assertIn("gravity", self.run_qpc(4, "run", bad, *data).stderr)
        crossing = write_scene(self.folder, bodies=[
            {"name": "floor", "kind": "static", "mesh": {"generate": {"kind": "sheet"}}},
            {"name": "needle", "kind": "cable", "nodes": [[0.1, 0.2, 0.03], [0.1, -0.2, 0.03]],
             "mass": 1, "stiffness": 1e4, "radius": 0.01}])
        done = self.run_qpc(4, "check", crossing, *data)
        self.assertIn("floor", done.stderr)
        self.assertIn("needle", done.stderr)
        tube = {"name": "tube", "kind": "rigid", "density": 100, "radius": 0.01,
                "mesh": {"generate": {"kind": "cylinder", "caps": False, "segments": 8}}}
        self.assertIn("is open", self.run_qpc(4, "check", write_scene(self.folder, bodies=[tube]), *data).stderr)
        worse = write_scene(self.folder, bodies=[{**tube, "name": "first"}, {**tube, "name": "second", "position": [5, 0, 0]}])
        done = self.run_qpc(4, "check", worse, *data)
        self.assertIn("bodies[0].mesh", done.stderr)  # why there is no world of it
        for name in ("first", "second"):
            self.assertRegex(done.stdout, f"error: {name}: .*edge")
        found = json.loads(self.run_qpc(4, "check", worse, "--json", *data).stdout)["error"]["data"]["preflight"]
        self.assertEqual({e["body"] for e in found["errors"] if "body" in e}, {0, 1})
        done = self.run_qpc(0, "check", write_scene(self.folder, bodies=[{**tube, "close": True}]), *data)
        self.assertIn("good", done.stdout)
        self.assertIn("warning: tube: 16 edges with one triangle", done.stdout)
        close = write_scene(self.folder, bodies=[
            {"name": "floor", "kind": "static", "mesh": {"generate": {"kind": "sheet"}}},
            {"name": "ball", "kind": "cable", "nodes": [[0.1, 0.05, 0.03]], "mass": 1,
             "radius": 0.1}])
        done = self.run_qpc(0, "check", close, *data)
        self.assertIn("closer than their thickness", done.stdout)
        answer = json.loads(self.run_qpc(0, "check", close, "--json", *data).stdout)
        self.assertEqual(len(answer["close_pairs"]), 1)
        scene = json.loads(close.read_text())
        close.write_text(json.dumps({**scene, "start": "push-out"}))
        done = self.run_qpc(0, "check", close, *data)
        self.assertIn("pushed out: 1 nodes moved, by up to 0.05", done.stdout)
        close.write_text(json.dumps({**scene, "start": "push-out", "start_push_limit": 0.01}))
        self.assertIn("start_push_limit", self.run_qpc(4, "check", close, *data).stderr)

    def test_what_is_wrong_with_a_file_is_4_and_names_it(self):
        data = ["--data", self.folder / "data"]
        cable = {"name": "c", "kind": "cable", "nodes": [[0, 1, 0], [0.1, 1, 0]], "mass": 1,
                 "stiffness": 10, "radius": 0.01}
        flat = self.folder / "flat.obj"
        flat.write_text("v 0 0 0\nv 1 0 0\nv 2 0 0\nf 1 2 3\n")
        static = {"kind": "static", "name": "s"}
        scenes = {
            "unknown hash": [cable, {**static, "mesh": {"sha256": "ab" * 32}}],
            "no area": [cable, {**static, "mesh": {"file": "flat.obj"}}],
            "too many triangles": [cable, {**static, "mesh": {"generate": {
                "kind": "box", "triangles": 120000}}}],
        }
        for name, bodies in scenes.items():
            with self.subTest(name=name):
                scene = write_scene(self.folder, bodies=bodies)
                with Daemon("--max-elements", "100000") as daemon:
                    at = ["--server", daemon.server]
                    for command in ("check", "run"):
                        done = self.run_qpc(4, command, scene, *at)
                        self.assertIn(str(scene), done.stderr)
        done = self.run_qpc(4, "upload", flat, *data)
        self.assertIn("flat.obj", done.stderr)
        once = write_scene(self.folder, bodies=[cable], constraints=[
            {"kind": "fixed", "body": "c", "nodes": [0, -2, 0, 1, 1]}])
        self.run_qpc(0, "check", once, *data)  # naming a node twice is harmless
        beyond = write_scene(self.folder, bodies=[cable], constraints=[
            {"kind": "fixed", "body": "c", "nodes": [0, 2]}])
        self.assertIn("constraints[0].nodes", self.run_qpc(4, "check", beyond, "--json", *data).stdout)
        with Daemon("--max-worlds", "1") as daemon:  # not the scene's fault
            scene = write_scene(self.folder)
            self.run_qpc(0, "run", scene, "--steps", 1, "--keep", "--server", daemon.server)
            self.run_qpc(1, "run", scene, "--steps", 1, "--server", daemon.server)

    def test_ctrl_c_stops_between_steps_and_is_130(self):
        data = self.folder / "data"
        process = subprocess.Popen(
            [str(QPC), "run", str(SCENES / "pulley-1.json"), "--seconds", "100000", "--data",
             str(data), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(1.5 * TIME_SCALE)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60 * TIME_SCALE)
        self.assertEqual(process.returncode, 130, err)
        report = json.loads(out)
        self.assertEqual(report["status"], "cancelled")
        with sqlite3.connect(report["path"]) as db:
            self.assertEqual(db.execute("SELECT max(step) FROM steps").fetchone()[0],
                             report["steps"])
        self.assertEqual(self.daemons(), [])

    def test_a_killed_command_takes_its_daemon_along(self):
        process = subprocess.Popen(
            [str(QPC), "run", str(SCENES / "cylinder.json"), "--seconds", "100000", "--data",
             str(self.folder / "data")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 20 * TIME_SCALE
        while not self.daemons() and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(0.3)
        process.kill()
        process.wait()
        while self.daemons() and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(self.daemons(), [])


class WithServer(Case):
    def test_everything_against_one_server(self):
        with Daemon("--workers", "1") as daemon:
            at = ["--server", daemon.server]
            scene = write_scene(self.folder)
            report = json.loads(self.run_qpc(0, "run", scene, "--steps", "50", "--json", "--keep",
                                             "--name", "kept", *at).stdout)
            worlds = json.loads(self.run_qpc(0, "worlds", "--json", *at).stdout)["worlds"]
            self.assertEqual([(w["world"], w["name"], w["step"]) for w in worlds],
                             [(report["world"], "kept", 50)])
            self.assertIn("kept", self.run_qpc(0, "worlds", *at).stdout)
            # A second run of the same scene destroys its world, and gives the same states.
            again = json.loads(self.run_qpc(0, "run", scene, "--steps", "50", "--json", *at).stdout)
            self.assertEqual(again["hash"], report["hash"])
            worlds = json.loads(self.run_qpc(0, "worlds", "--json", *at).stdout)["worlds"]
            self.assertEqual(len(worlds), 1)
            stats = json.loads(self.run_qpc(0, "stats", "--json", *at).stdout)
            self.assertEqual(stats["steps"], 100)
            self.assertIn("uptime_s", self.run_qpc(0, "stats", *at).stdout)
            # Uploads: a mesh that is known is not sent again.
            mesh = self.folder / "m.obj"
            self.run_qpc(0, "mesh", "sphere", "--triangles", "20000", "-o", mesh)
            first = json.loads(self.run_qpc(0, "upload", mesh, "--json", *at).stdout)
            second = json.loads(self.run_qpc(0, "upload", mesh, "--json", *at).stdout)
            self.assertEqual((first["known"], second["known"]), (False, True))
            self.assertEqual(first["sha256"], second["sha256"])
            self.run_qpc(4, "upload", self.folder / "none.obj", *at)
            # Scenes may name it by its hash; an unknown hash is refused by name.
            by_hash = write_scene(self.folder, bodies=[
                {"kind": "static", "mesh": {"sha256": first["sha256"]}}])
            self.run_qpc(0, "check", by_hash, *at)
            wrong = write_scene(self.folder, bodies=[
                {"kind": "static", "mesh": {"sha256": "0" * 64}}])
            self.run_qpc(4, "check", wrong, *at)

    def test_a_recording_that_lost_something_is_told(self):
        # A run of 20 nodes writes about 1 MB in 2000 steps; the daemon may write files of 600 KB.
        with Daemon(wrapper=["prlimit", f"--fsize={600 << 10}"]) as daemon:
            scene = write_scene(self.folder)
            done = self.run_qpc(1, "run", scene, "--steps", "20000", "--json", "--server", daemon.server)
            self.assertIn("the run file is incomplete", done.stderr)
            self.assertEqual(json.loads(done.stdout)["steps"], 20000)
            give_up = time.monotonic() + 10 * TIME_SCALE  # the file is closed a little after the world
            while True:
                run, = json.loads(self.run_qpc(0, "runs", "--json", "--server", daemon.server).stdout)["runs"]
                if run["state"] != "recording" or time.monotonic() > give_up:
                    break
                time.sleep(0.05)
            self.assertEqual(run["state"], "failed")
            self.assertLess(run["steps"], 20000)

    def test_a_length_of_a_step_must_be_positive(self):
        scene = write_scene(self.folder)
        for bad in ("0", "-1"):
            self.assertIn("--dt", self.run_qpc(2, "run", scene, "--dt", bad).stderr)

    def test_the_environment_names_the_server(self):
        with Daemon() as daemon:
            self.run_qpc(0, "stats", env={"QPC_SERVER": daemon.server})

    def test_limits_of_the_server_are_kept_or_named(self):
        """Chunks fit a server that takes small messages only; too many triangles are refused."""
        with Daemon("--max-message-bytes", "65536", "--max-elements", "5000") as daemon:
            at = ["--server", daemon.server]
            mesh = self.folder / "m.qpm"
            self.run_qpc(0, "mesh", "sphere", "--triangles", "5000", "-o", mesh)
            self.run_qpc(0, "upload", mesh, *at)
            self.run_qpc(0, "mesh", "sphere", "--triangles", "5002", "-o", mesh)
            self.assertIn("5002", self.run_qpc(4, "upload", mesh, *at).stderr)
            from qpcollide import connect, scene
            with connect(daemon.server) as client:
                arrays = scene.generate_mesh({"kind": "box", "triangles": 4998})
                client.upload_mesh(*arrays)
                self.assertEqual(len(client.list_meshes()), 2)

    def test_a_token_is_sent(self):
        token = self.folder / "token"
        token.write_text("s3cret-and-long\n")
        with Daemon("--token", str(token)) as daemon:
            at = ["--server", daemon.server]
            self.assertIn("token", self.run_qpc(1, "stats", *at).stderr)
            self.run_qpc(0, "stats", "--token", token, *at)
            wrong = self.folder / "wrong"
            wrong.write_text("guess-and-wrong\n")
            self.run_qpc(1, "stats", "--token", wrong, *at)

    def test_a_run_goes_on_after_a_lost_connection(self):
        """Every connection is cut after a while: the steps must still be made once each."""
        import socket
        import threading
        with Daemon("--workers", "1") as daemon:
            listener = socket.create_server(("127.0.0.1", 0))
            cuts = []

            def copy(source, target):
                try:
                    while data := source.recv(65536):
                        target.sendall(data)
                except OSError:
                    pass

            def relay():
                while True:
                    try:
                        near, _ = listener.accept()
                    except OSError:
                        return
                    far = socket.create_connection(daemon.address)
                    for pair in ((near, far), (far, near)):
                        threading.Thread(target=copy, args=pair, daemon=True).start()
                    if len(cuts) < 3:
                        time.sleep(0.3)
                        cuts.append(1)
                        for end in (near, far):
                            end.shutdown(socket.SHUT_RDWR)

            threading.Thread(target=relay, daemon=True).start()
            scene = write_scene(self.folder)
            direct = json.loads(self.run_qpc(0, "run", scene, "--steps", "300000", "--json",
                                             "--no-record", "--server", daemon.server).stdout)
            port = listener.getsockname()[1]
            done = self.run_qpc(0, "run", scene, "--steps", "300000", "--json", "--no-record",
                                "--server", f"127.0.0.1:{port}")
            cut = json.loads(done.stdout)
            listener.close()
            self.assertEqual(cut["hash"], direct["hash"])
            self.assertEqual(cut["steps"], 300000)
            self.assertGreater(len(cuts), 0)
            self.assertIn("trying again", done.stderr)
            stats = json.loads(self.run_qpc(0, "stats", "--json", "--server", daemon.server).stdout)
            self.assertEqual(stats["steps"], 600000)


class Scripted(Case):
    """Against a server that says what the test wants."""

    def serve(self, steps):
        """steps: results of world.step, one after the other; the address."""
        import socket
        import threading

        import msgpack
        answers = {"hello": {"server": "fake", "version": "0", "protocol": 1, "limits": {}},
                   "world.create": {"world": 7, "run": None, "hash": 1, "scene_hash": 2, "dt": 0.005,
                                    "bodies": [], "warnings": ["it wobbles"], "close_pairs": []},
                   "world.destroy": {"destroyed": True, "steps": 0}}
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        self.asked = []

        def run():
            peer, _ = listener.accept()
            unpacker = msgpack.Unpacker()
            while data := peer.recv(65536):
                unpacker.feed(data)
                for _, number, method, params in unpacker:
                    self.asked.append((method, params[0] if params else {}))
                    result = steps.pop(0) if method == "world.step" else answers[method]
                    peer.sendall(msgpack.packb([1, number, None, result]))
            peer.close()

        threading.Thread(target=run, daemon=True).start()
        return f"127.0.0.1:{listener.getsockname()[1]}"

    def scene(self):
        return write_scene(self.folder, bodies=[
            {"kind": "cable", "nodes": [[0, 1, 0]], "mass": 1, "radius": 0.1}])

    @staticmethod
    def step(reached, status="ok", error=None):
        return {"reached": reached, "status": status, "error": error, "hash": 2**64 - 1,
                "time": 0.005 * reached, "summary": {"steps": reached, "min_gap": 0.5, "worst": {}}}

    def test_a_failed_step_is_5(self):
        error = {"code": 15, "name": "NUMERIC", "message": "node 3 left the finite range",
                 "data": None}
        at = self.serve([self.step(10), self.step(12, "failed", error)])
        done = self.run_qpc(5, "run", self.scene(), "--steps", 100, "--server", at, "--json")
        report = json.loads(done.stdout)
        self.assertEqual((report["status"], report["steps"]), ("failed", 12))
        self.assertEqual(report["error"]["name"], "NUMERIC")
        self.assertEqual(report["hash"], "f" * 16)
        self.assertIn("step 13 failed: node 3 left the finite range", done.stderr)
        self.assertIn("warning: it wobbles", done.stderr)
        steps = [params for method, params in self.asked if method == "world.step"]
        self.assertEqual([params["expect_step"] for params in steps], [0, 10])
        self.assertNotEqual(steps[0]["key"], steps[1]["key"])
        self.assertEqual(self.asked[-1][0], "world.destroy")

    def test_a_step_that_is_not_proven_is_5(self):
        reply = self.step(10)
        reply["summary"].update(not_proven=2, ccd_uncertain=3)
        at = self.serve([self.step(5), reply])
        done = self.run_qpc(5, "run", self.scene(), "--steps", 10, "--server", at)
        self.assertIn("NOT PROVEN 2, unknown 5", done.stdout)
        self.assertIn("2 steps are not proven", done.stderr)
        self.assertNotIn("failed", done.stderr)
        reply = self.step(10)
        reply["summary"].update(not_proven=0)
        at = self.serve([reply])
        done = self.run_qpc(0, "run", self.scene(), "--steps", 10, "--server", at, "--json")
        self.assertEqual(json.loads(done.stdout)["not_proven"], 0)
        at = self.serve([self.step(10)])  # a server that does not say it
        done = self.run_qpc(0, "run", self.scene(), "--steps", 10, "--server", at, "--json")
        self.assertIsNone(json.loads(done.stdout)["not_proven"])

    def test_a_server_that_drains_is_1(self):
        at = self.serve([self.step(4, "draining")])
        done = self.run_qpc(1, "run", self.scene(), "--steps", 10, "--server", at, "--json")
        self.assertEqual(json.loads(done.stdout)["status"], "draining")

    def test_a_server_that_does_not_advance_does_not_hang(self):
        at = self.serve([self.step(10), self.step(10)])
        self.run_qpc(3, "run", self.scene(), "--steps", 100, "--server", at)

    def test_a_server_of_another_kind_is_3(self):
        import socket
        import threading
        with socket.create_server(("127.0.0.1", 0)) as listener:
            def run():
                peer, _ = listener.accept()
                peer.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                peer.recv(1000)
                peer.close()
            threading.Thread(target=run, daemon=True).start()
            self.run_qpc(3, "stats", "--server", f"127.0.0.1:{listener.getsockname()[1]}")


class Schema(unittest.TestCase):
    """docs/scene.schema.json agrees with the examples, with docs/scene.md and with the server."""

    def setUp(self):
        self.schema = json.loads((SOURCE / "docs" / "scene.schema.json").read_text())

    def fits(self, value, schema, path="scene"):
        """Why a value does not fit, or None. The few keywords that the schema uses."""
        if "$ref" in schema:
            schema = self.schema["$defs"][schema["$ref"].rpartition("/")[2]]
        if "oneOf" in schema:
            fitting = [s for s in schema["oneOf"] if self.fits(value, s, path) is None]
            return None if len(fitting) == 1 else f"{path}: {len(fitting)} of oneOf fit"
        if "const" in schema:
            return None if value == schema["const"] else f"{path}: not {schema['const']!r}"
        if "enum" in schema:
            return None if value in schema["enum"] else f"{path}: not one of {schema['enum']}"
        kind = schema.get("type")
        kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int,
                 "number": (int, float)}
        if kind and (not isinstance(value, kinds[kind]) or
                     (isinstance(value, bool) and kind != "boolean")):
            return f"{path}: not a {kind}"
        if kind == "object":
            for key in schema.get("required", []):
                if key not in value:
                    return f"{path}: {key} is missing"
            forbidden = schema.get("not", {}).get("required")
            if forbidden and all(key in value for key in forbidden):
                return f"{path}: {forbidden} exclude each other"
            for key, item in value.items():
                if key not in schema["properties"]:
                    return f"{path}: unknown key {key}"
                why = self.fits(item, schema["properties"][key], f"{path}.{key}")
                if why:
                    return why
        if kind == "array":
            if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 1e9):
                return f"{path}: {len(value)} items"
            for i, item in enumerate(value):
                why = self.fits(item, schema["items"], f"{path}[{i}]")
                if why:
                    return why
        if kind in ("number", "integer"):
            if value < schema.get("minimum", value) or value > schema.get("maximum", value) or \
                    value <= schema.get("exclusiveMinimum", value - 1) or \
                    value % schema.get("multipleOf", 1) and "multipleOf" in schema:
                return f"{path}: {value} is out of range"
        return None

    def test_the_examples_fit(self):
        for path in sorted(SCENES.glob("*.json")):
            self.assertIsNone(self.fits(json.loads(path.read_text()), self.schema), path.name)

    def test_mistakes_do_not_fit(self):
        good = json.loads((SCENES / "cylinder.json").read_text())
        for change in [{"gravty": [0, 0, 0]}, {"dt": 0}, {"gravity": [0, 1]}, {"bodies": []},
                       {"solver": {"name": "best"}}, {"solver": {"friction": "on"}},
                       {"contacts": {"friction": -1}}, {"contacts": {"restitution": 1.5}},
                       {"contacts": {"pairs": [{"materials": ["a"]}]}}, {"record": {"frames": -1}},
                       {"bodies": [{"kind": "cable"}]},
                       {"bodies": [{"kind": "cloth", "radius": 0.1}]},
                       {"bodies": [{"kind": "cloth", "radius": 0.1, "mesh": {"file": "a.obj"}, "edges": 3}]},
                       {"constraints": [{"kind": "fixed", "body": 0}]}]:
            self.assertIsNotNone(self.fits({**good, **change}, self.schema), change)

    def test_every_key_is_in_the_manual(self):
        manual = (SOURCE / "docs" / "scene.md").read_text()

        def keys(schema):
            for key, item in schema.get("properties", {}).items():
                yield key
                yield from keys(item)
            for item in schema.get("oneOf", []):
                yield from keys(item)
            for item in schema.get("$defs", {}).values():
                yield from keys(item)

        for key in set(keys(self.schema)):
            self.assertRegex(manual, rf"[`\"]{key}[`\"]", key)

    def test_the_server_knows_every_key_of_the_schema_and_no_other(self):
        """An unknown key is refused; so a scene with all keys of the schema at once must pass."""
        numbers = {"solver": {"name": "active-set", "budget": 1000, "iterations": 30, "newton": 3, "passes": 5, "halvings": 2,
                              "tolerance": 1e-7, "perturbation": -1, "reach": 1.2,
                              "recovery_speed": 0.1, "friction": "staggered", "friction_tolerance": 1e-6,
                              "impact": "sequential"},
                   "record": {"enabled": True, "reactions": False, "frames": 2, "precision": "float64",
                              "contacts": False, "diagnostics": True, "substeps": True,
                              "full": "drop"}}
        scene = {
            "name": "all", "start": "push-out", "start_push_limit": 0.05, "dt": 0.01, "gravity": [0, 0, -9], "integrator": "implicit-euler",
            **numbers,
            "contacts": {"friction": 0.3, "restitution": 0.5, "pairs": [
                {"materials": ["rope", "ice"], "friction": 0.02, "restitution": 0.1}]},
            "bodies": [
                {"kind": "cable", "name": "c", "nodes": [[0, 0, 5], [0.1, 0, 5]],
                 "mass": {"all": 1, "first": 2, "last": 3}, "stiffness": 1e4, "rest_length": 0.1,
                 "radius": 0.01, "velocity": [0, 0, 1], "self_exclusion": 0.03, "material": "rope"},
                {"kind": "cloth", "name": "f", "material": "rope", "mesh": {"generate": {"kind": "grid", "columns": 4, "rows": 3,
                 "width": 1, "depth": 2, "alternate": False, "axis": "z"}}, "radius": 0.01, "scale": 2,
                 "position": [0, 0, 15], "rotation": [1, 0, 0, 0], "mass": 1, "stiffness": 100,
                 "bending_stiffness": 0.1, "velocity": [0, 0, 1], "self_exclusion": 0.03},
                {"kind": "cloth", "name": "g", "mesh": {"generate": {"kind": "sheet", "width": 1, "depth": 1}},
                 "radius": 0.01, "area_density": 0.1, "membrane_stiffness": 100,
                 "nodes": [[0, 0, 20], [0, 0, 21], [1, 0, 20], [1, 0, 21]]},
                {"kind": "soft", "name": "t", "mesh": {"generate": {"kind": "block", "columns": 1, "width": 0.1, "height": 0.1, "depth": 0.1}},
                 "radius": 0.01, "density": 100, "young": 1e4, "poisson": 0.2, "position": [0, 0, 30]},
                {"kind": "static", "name": "s", "material": "ice", "mesh": {"generate": {"kind": "box"}}, "radius": 0.1,
                 "position": [9, 0, 0], "rotation": [1, 0, 0, 0], "scale": 2},
                {"kind": "kinematic", "name": "k", "material": "ice", "mesh": {"generate": {"kind": "sphere"}},
                 "radius": 0.1, "position": [0, 9, 0], "rotation": [1, 0, 0, 0], "scale": 0.5,
                 "velocity": [0, 0, 1], "angular_velocity": [0, 1, 0]}],
            "constraints": [{"kind": "fixed", "body": "c", "nodes": [0]},
                            {"kind": "fixed", "body": "f", "nodes": [0, -1]},
                            {"kind": "strain-limit", "body": 0, "max": 1.1, "min": 0.9},
                            {"kind": "strain-limit", "body": "f", "max": 1.1},
                            {"kind": "attach", "points": [{"body": "c", "node": -1}, {"at": [0.1, 0, 5]}]},
                            {"kind": "tendon", "points": [{"body": "c", "node": 1}, {"body": "k", "at": [0, 9, 0]}], "length": 20,
                             "equal": False}],
            "loads": [{"kind": "spring", "points": [{"body": "c", "node": 1}, {"at": [0.1, 0, 6]}], "stiffness": 10,
                       "damping": 1, "rest_length": 0.9},
                      {"kind": "drag", "body": "f", "per_mass": 0.1}, {"kind": "drag", "coefficient": 0.1},
                      {"kind": "pressure", "body": "f", "pressure": 2},
                      {"kind": "damping", "body": "t", "per_stiffness": 0.01}]}
        self.assertIsNone(self.fits(scene, self.schema))
        for group in ["solver", "record"]:
            self.assertEqual(set(scene[group]), set(self.schema["$defs"][group]["properties"]))
        self.assertEqual(set(scene), set(self.schema["properties"]))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "all.json"
            path.write_text(json.dumps(scene))
            done = qpc("check", path, "--data", pathlib.Path(folder) / "data")
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
