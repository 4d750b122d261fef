"""The Python package against a real daemon: every method, errors, frames, replays."""

import pathlib
import socket
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "python"))

import qpcollide  # noqa: E402
from qpcollide import wire  # noqa: E402
from qpcollide.client import parse_address  # noqa: E402

from daemon import SOURCE, TIME_SCALE, Daemon  # noqa: E402

PRIORITY = 50

SCENES = SOURCE / "examples" / "scenes"


def ball(**changes):
    return {"name": "ball", "dt": 0.01, "gravity": [0, -10, 0],
            "bodies": [{"name": "ball", "kind": "cable", "nodes": [[0, 1, 0]], "mass": 2,
                        "radius": 0.1}], **changes}


def rope(n=20):
    nodes = np.zeros((n, 3))
    nodes[:, 0] = 0.1 * np.arange(n)
    return {"dt": 0.01, "gravity": [0, -10, 0],
            "bodies": [{"name": "rope", "kind": "cable", "nodes": nodes, "mass": 0.1,
                        "stiffness": 1e4, "radius": 0.01}],
            "constraints": [{"kind": "fixed", "body": "rope", "nodes": [0, -1]}],
            "record": {"precision": "float64"}}


class Wire(unittest.TestCase):
    def test_arrays_survive_the_trip(self):
        for array in [np.arange(6.0).reshape(2, 3), np.zeros((0, 3)), np.float32([1.5]),
                      np.int32([[1, -2]]), np.arange(3, dtype=">f8"), np.arange(8)[::2],
                      np.zeros((2, 3, 4), np.uint8), np.array(2.5)]:
            back = wire.unpack(wire.pack({"a": [array]}))["a"][0]
            np.testing.assert_array_equal(back, array)
            self.assertEqual(back.shape, array.shape)
            self.assertEqual(back.dtype, array.dtype.newbyteorder("<"))
            back[...] = 0  # its own memory
        self.assertEqual(wire.unpack(wire.pack(np.float64(2.5))), 2.5)

    def test_keys_may_be_bytes(self):
        raw = {b"nd": True, b"type": b"<i4", b"kind": b"", b"shape": [2], b"data": b"\1\0\0\0\2\0\0\0"}
        np.testing.assert_array_equal(wire.unpack(wire.pack({"x": raw}))["x"], [1, 2])

    def test_arrays_of_objects_are_refused_both_ways(self):
        with self.assertRaises(TypeError):
            wire.pack(np.array([{}]))
        with self.assertRaises(ValueError):
            wire.unpack(wire.pack({"nd": True, "type": "|O", "kind": "", "shape": [1],
                                   "data": b"\0" * 8}))

    def test_meshes_hash_as_documented(self):
        vertices, elements = [[-0.0, 0, 0], [1, 0, 0], [0, 2, 0]], [[0, 1, 2]]
        data = wire.canonical_mesh(vertices, elements)
        self.assertEqual(data[:24], b"QPM1" + bytes([3, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1]) +
                         bytes(7))
        self.assertEqual(data[24:32], bytes(8))
        back = wire.mesh_from_canonical(data)
        np.testing.assert_array_equal(back[0], vertices)
        np.testing.assert_array_equal(back[1], elements)
        for bad in [b"", data[:-1], b"X" + data[1:]]:
            with self.assertRaises(ValueError):
                wire.mesh_from_canonical(bad)

    def test_addresses(self):
        self.assertEqual(parse_address("h:1"), ("tcp", "h", 1))
        self.assertEqual(parse_address("h"), ("tcp", "h", 7447))
        self.assertEqual(parse_address("[::1]:9"), ("tcp", "::1", 9))
        self.assertEqual(parse_address("unix:/a/b"), ("unix", "/a/b"))
        for bad in ["", ":1", "h:", "h:0", "h:x", "::1", "[::1", "unix:"]:
            with self.assertRaises(ValueError):
                parse_address(bad)


class Scenes(unittest.TestCase):
    def test_the_examples_resolve_as_qpc_resolves_them(self):
        """The state hash before the first step covers the whole scene."""
        with Daemon() as daemon, qpcollide.connect(daemon.server) as client:
            for path in sorted(SCENES.glob("*.json")):
                ours = client.check_scene(qpcollide.load_scene(path, client))
                import json
                import subprocess
                from daemon import QPC
                theirs = json.loads(subprocess.run(
                    [str(QPC), "check", str(path), "--json", "--server", daemon.server],
                    capture_output=True, check=True).stdout)
                self.assertEqual(ours["scene_hash"], theirs["scene_hash"], path.name)
                self.assertEqual(ours["hash"], theirs["hash"], path.name)

    def test_mistakes_name_their_place(self):
        for scene, text in [
                ([], "map"),
                ({"bodies": [{"mesh": {"generat": {}}}]}, r"bodies\[0\].mesh"),
                ({"bodies": [{"mesh": {"file": "a", "generate": {}}}]}, "exactly one"),
                ({"bodies": [{"mesh": {"generate": {"kind": "box", "heigth": 1}}}]}, "height"),
                ({"bodies": [{"nodes": {"generate": {"kind": "line", "count": 0}}}]}, "count"),
                ({"bodies": [{"nodes": {"generate": {"kind": "arc"}}}]}, "line, pulley or helix"),
                ({"bodies": [{"nodes": {"generate": {"kind": "helix", "count": 9, "spacing": 1,
                                                     "radius": 1, "pitch": 1}}}]}, "generate.turns"),
                ({"bodies": [{"nodes": {"generate": {"kind": "helix", "count": 9, "spacing": 1,
                                                     "radius": 1, "pitch": 1, "turns": 2}}}]}, "leg"),
                ({"bodies": [{"nodes": [[0, 0, 0]], "mass": {"first": 1}}]}, "mass.all")]:
            with self.assertRaisesRegex(qpcollide.SceneError, text):
                qpcollide.resolve_scene(scene)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "s.json")
            path.write_text("{\n 1}")
            with self.assertRaisesRegex(qpcollide.SceneError, "line 2"):
                qpcollide.load_scene(path)


class Client(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.daemon = Daemon("--unix", cls.folder.name + "/socket").start()

    @classmethod
    def tearDownClass(cls):
        try:
            cls.daemon.stop()
        finally:
            cls.daemon.remove()
            cls.folder.cleanup()

    def setUp(self):
        self.client = qpcollide.connect(self.daemon.server, timeout=20 * TIME_SCALE)
        self.addCleanup(self.client.close)

    def test_hello_and_describe(self):
        self.assertEqual(self.client.server["protocol"], 1)
        self.assertIn("max_message_bytes", self.client.server["limits"])
        names = [method["name"] for method in self.client.describe()["methods"]]
        self.assertIn("world.step", names)

    def test_unix_sockets(self):
        with qpcollide.connect(f"unix:{self.folder.name}/socket") as client:
            self.assertGreaterEqual(client.stats()["sessions"], 2)

    def test_a_ball_falls_as_implicit_euler_says(self):
        world = self.client.create_world(ball())
        reply = world.step(50, positions=True, velocities=True, precision="float64")
        self.assertEqual((reply["reached"], reply["status"]), (50, "ok"))
        self.assertIsNone(reply["error"])
        np.testing.assert_allclose(reply["velocities"], [[0, -5, 0]], rtol=1e-12)
        np.testing.assert_allclose(reply["positions"], [[0, 1 - 10 * 1e-4 * 1275, 0]], rtol=1e-12)
        self.assertEqual(reply["summary"]["steps"], 50)
        state = world.state("positions", "velocities", "diagnostics", precision="float64")
        self.assertEqual(state["hash"], reply["hash"])
        np.testing.assert_array_equal(state["positions"], reply["positions"])
        self.assertEqual(world.positions().dtype, np.float64)
        self.assertEqual(world.describe()["step"], 50)
        self.assertEqual(self.client.world(world.id).info["step"], 50)
        self.assertIn(world.id, [w["world"] for w in self.client.list_worlds()])
        self.assertEqual(world.destroy()["steps"], 50)
        with self.assertRaises(qpcollide.NotFound) as caught:
            world.step()
        self.assertEqual((caught.exception.code, caught.exception.name), (2, "NOT_FOUND"))
        self.assertTrue(caught.exception.message)

    def test_a_step_with_a_key_is_made_once(self):
        world = self.client.create_world(ball())
        first = world.step(5, key="a", expect_step=0)
        again = world.step(5, key="a", expect_step=0)
        self.assertEqual(again, first)
        self.assertEqual(world.describe()["step"], 5)
        with self.assertRaises(qpcollide.StateError) as caught:
            world.step(1, expect_step=0)
        self.assertEqual(caught.exception.data["step"], 5)
        world.destroy()

    def test_bad_input_is_an_error_that_names_the_place(self):
        for scene, error, text in [
                (ball(gravty=[0, 0, 0]), qpcollide.Invalid, "gravity"),
                (ball(dt=float("nan")), qpcollide.Invalid, "dt"),
                (ball(dt=0), qpcollide.Invalid, "dt"),
                (ball(bodies=[]), qpcollide.Invalid, "bodies")]:
            with self.assertRaisesRegex(error, text):
                self.client.create_world(scene)
        with self.assertRaises(qpcollide.UnknownMethod):
            self.client.call("world.jump")
        with self.assertRaisesRegex(qpcollide.Invalid, "world"):
            self.client.call("world.step")
        self.assertTrue(self.client.stats()["uptime_s"] > 0)  # the connection goes on

    def test_meshes_whole_and_in_chunks(self):
        vertices, elements = qpcollide.scene.generate_mesh({"kind": "sphere", "triangles": 400000})
        sent = []
        sha256 = self.client.upload_mesh(vertices, elements, "large",
                                         lambda at, size: sent.append((at, size)))
        self.assertGreater(len(sent), 1)
        self.assertEqual(sent[-1][0], sent[-1][1])
        sent.clear()
        self.assertEqual(self.client.upload_mesh(vertices, elements, "large",
                                                 lambda *_: sent.append(1)), sha256)
        self.assertEqual(sent, [])
        back = self.client.get_mesh(sha256)
        np.testing.assert_array_equal(back[0], vertices)
        np.testing.assert_array_equal(back[1], elements)
        small = self.client.upload_mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]], "small")
        self.assertIn(small, [mesh["sha256"] for mesh in self.client.list_meshes()])
        found = self.client.check_mesh(small, use="rigid", list=2)
        self.assertEqual([(f["kind"], f["total"], len(f["items"])) for f in found["errors"]], [("open_edges", 3, 2)])
        scene = {"bodies": [{"kind": "static", "mesh": {"sha256": small}}]}
        self.assertEqual(self.client.preflight_scene(scene)["bodies"][0]["facts"]["triangles"], 1)
        self.client.delete_mesh(sha256)
        with self.assertRaises(qpcollide.NotFound):
            self.client.get_mesh(sha256)
        with self.assertRaises(qpcollide.Invalid):
            self.client.upload_mesh([[0, 0, 0]], [[0, 1, 2]])

    def test_control_moves_and_pulls(self):
        world = self.client.create_world(rope())
        self.assertEqual(world.slice_of("rope"), slice(0, 20))
        world.control(targets=[{"body": "rope", "node": -1, "velocity": [0, 1, 0]}])
        world.step(50, control={"forces": [{"body": "rope", "nodes": [10], "force": [0, 0, 5]}]})
        x = world.positions()
        np.testing.assert_allclose(x[-1], [1.9, 0.5, 0], atol=1e-12)
        np.testing.assert_array_equal(x[0], [0, 0, 0])
        self.assertGreater(x[10, 2], 0.01)
        tensions = world.state("tensions")["tensions"]
        self.assertEqual(tensions.shape, (19,))
        with self.assertRaisesRegex(qpcollide.Invalid, "targets"):
            world.control(targets=[{"body": "rope", "node": 5, "position": [0, 0, 0]}])
        world.destroy()

    def test_frames_are_streamed(self):
        world = self.client.create_world(rope())
        subscription = world.subscribe("positions", "velocities", every=5, precision="float64",
                                       policy="drop-newest", max_queue=100)
        reply = world.step(50, positions=True, precision="float64")
        frames = [self.client.next_frame(subscription) for _ in range(10)]
        self.assertEqual([frame.step for frame in frames], list(range(5, 51, 5)))
        self.assertEqual(frames[-1].hash, reply["hash"])
        self.assertEqual({frame.dropped for frame in frames}, {0})
        np.testing.assert_array_equal(frames[-1].positions, reply["positions"])
        self.assertEqual(frames[-1].velocities.shape, (20, 3))
        self.assertEqual(self.client.unsubscribe(subscription), {"sent": 10, "dropped": 0})
        self.assertIsNone(self.client.next_frame(subscription, timeout=0.05))
        world.destroy()

    def test_credit_holds_frames_back(self):
        world = self.client.create_world(ball())
        subscription = world.subscribe(credit=2, policy="drop-newest")
        world.step(5)
        self.assertEqual(self.client.next_frame(subscription).step, 1)
        self.assertEqual(self.client.next_frame(subscription).step, 2)
        self.assertIsNone(self.client.next_frame(subscription, timeout=0.1))
        self.client.grant_credit(subscription, 1)
        self.assertEqual(self.client.next_frame(subscription).step, 3)
        world.destroy()

    def test_requests_in_flight_together(self):
        world = self.client.create_world(ball())
        slow = self.client.send("world.step", {"world": world.id, "n": 20000})
        quick = self.client.send("server.stats")
        self.assertIn("steps", self.client.wait(quick))
        self.assertEqual(self.client.wait(slow)["reached"], 20000)
        number = self.client.send("world.step", {"world": world.id, "n": 10**9})
        time.sleep(0.05)
        self.assertTrue(world.cancel())
        reply = self.client.wait(number)
        self.assertEqual(reply["status"], "cancelled")
        number = self.client.send("server.stats")
        kind, got, error, result = self.client.poll(5 * TIME_SCALE)
        self.assertEqual((kind, got, error), ("reply", number, None))
        self.assertIsNone(self.client.poll(0.01))
        world.destroy()

    def test_a_removed_body_is_told_of_while_it_runs_and_in_its_run(self):
        scene = rope()
        name = scene["bodies"][0].setdefault("name", "rope")
        world = self.client.create_world(scene)
        world.step(3)
        self.assertEqual(world.describe()["removed"], [])
        world.control(remove=[name])
        before = world.positions()
        world.step(3)
        np.testing.assert_array_equal(world.positions()[world.slice_of(name)], before[world.slice_of(name)])
        self.assertEqual(world.describe()["removed"], [{"body": 0, "step": 3}])
        with self.assertRaises(qpcollide.QpcError):
            world.control(remove=[name])
        run = world.run
        world.destroy()
        end = time.monotonic() + 10 * TIME_SCALE
        while self.client.describe_run(run)["state"] != "closed" and time.monotonic() < end:
            time.sleep(0.01)
        path = next(r["path"] for r in self.client.list_runs() if r["run"] == run)
        with qpcollide.Replay(path) as replay:
            self.assertEqual(replay.removed(), {name: 3})

    def test_a_time_out_leaves_the_connection_good(self):
        world = self.client.create_world(ball())
        with self.assertRaises(qpcollide.Timeout):
            world.step(10**9, timeout=0.2)
        world.cancel()
        self.assertGreater(world.step(1)["reached"], 1)
        world.destroy()

    def test_runs_are_read_over_the_wire_and_from_the_file(self):
        world = self.client.create_world(rope(), "recorded")
        reply = world.step(30, positions=True, precision="float64")
        world.control(clear_forces=True)
        world.destroy()
        end = time.monotonic() + 10 * TIME_SCALE
        while True:
            run = next(r for r in self.client.list_runs() if r["run"] == world.run)
            if run["state"] == "closed" or time.monotonic() > end:
                break
            time.sleep(0.01)
        self.assertEqual((run["state"], run["steps"], run["name"]), ("closed", 30, "recorded"))
        frames = list(self.client.run_frames(world.run, precision="float64", page=7))
        self.assertEqual([frame["step"] for frame in frames], list(range(31)))
        np.testing.assert_array_equal(frames[-1]["positions"], reply["positions"])
        columns = self.client.run_diagnostics(world.run, fields=["step", "min_gap"], page=11)
        np.testing.assert_array_equal(columns["step"], np.arange(1, 31))
        self.assertEqual(self.client.describe_run(world.run)["steps"], 30)
        with qpcollide.Replay(run["path"]) as replay:
            self.assertEqual((replay.id, replay.name, replay.dt), (world.run, "recorded", 0.01))
            self.assertEqual(len(replay), 30)
            self.assertEqual([frame.step for frame in replay.frames(5, 8)], [5, 6, 7, 8])
            last = replay.frame(30)
            np.testing.assert_array_equal(last.positions, reply["positions"])
            self.assertEqual(last.hash, reply["hash"])
            np.testing.assert_array_equal(replay.steps("step")["step"], np.arange(1, 31))
            np.testing.assert_array_equal(replay.steps("min_gap")["min_gap"], columns["min_gap"])
            self.assertEqual(set(replay.steps()), set(replay.columns))
            self.assertEqual(replay.scene["bodies"][0]["kind"], "cable")
            self.assertEqual(replay.slice_of("rope"), slice(0, 20))
            self.assertIsNone(replay.mesh("rope"))
            for bad in (lambda: replay.frame(99), lambda: replay.steps("nothing"),
                        lambda: replay.mesh("nobody")):
                with self.assertRaises(KeyError):
                    bad()

    def test_cloth_is_driven_read_and_replayed(self):
        scene = qpcollide.resolve_scene(
            {"dt": 0.01, "bodies": [
                {"name": "rope", "kind": "cable", "nodes": [[5, 0, 0], [5.1, 0, 0]], "mass": 0.1, "stiffness": 1e4,
                 "radius": 0.01},
                {"name": "flag", "kind": "cloth", "radius": 0.01, "area_density": 0.3, "membrane_stiffness": 500,
                 "bending_stiffness": 0.1, "mesh": {"generate": {"kind": "grid", "columns": 6, "rows": 4}}}],
             "constraints": [{"kind": "fixed", "body": "flag", "nodes": [0, 5]}],
             "record": {"precision": "float64"}}, self.client)
        world = self.client.create_world(scene)
        body = world.bodies["flag"]
        self.assertEqual((body["kind"], body["node_count"], body["elements"], body["nodes_per_element"]),
                         ("cloth", 24, 30, 3))
        edges = 5 * 4 + 6 * 3 + 5 * 3
        inner = edges - 2 * (5 + 3)
        self.assertEqual((body["first_tension"], body["tension_count"]), (1, edges + inner))
        world.control(targets=[{"body": "flag", "node": 5, "velocity": [0, 0.5, 0]}])
        reply = world.step(40, positions=True, precision="float64", control={
            "forces": [{"body": "flag", "nodes": [-1], "force": [0, 0, 0.2]}]})
        rows = slice(body["first_node"], body["first_node"] + 24)
        flag = reply["positions"][rows]
        np.testing.assert_allclose(flag[5], [0.5, 0.2, -0.5], atol=1e-12)
        np.testing.assert_array_equal(flag[0], [-0.5, 0, -0.5])
        self.assertLess(flag[-1, 1], -0.1)
        state = world.state("tensions", "reactions", precision="float64")
        self.assertEqual(state["tensions"].shape, (1 + edges + inner,))
        self.assertGreater(state["tensions"][1:].max(), 0.1)
        self.assertEqual(state["reactions"]["node"].tolist(), [rows.start, rows.start + 5])
        path = next(r for r in self.client.list_runs() if r["run"] == world.run)["path"]
        world.destroy()
        end = time.monotonic() + 10 * TIME_SCALE
        while next(r for r in self.client.list_runs() if r["run"] == world.run)["state"] != "closed":
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        with qpcollide.Replay(path) as replay:
            np.testing.assert_array_equal(replay.frame(40).positions[replay.slice_of("flag")], flag)
            vertices, elements = replay.mesh("flag")
            self.assertEqual((vertices.shape, elements.shape), ((24, 3), (30, 3)))

    def test_a_budget_too_small_for_friction_is_said(self):
        scene = {"dt": 0.01, "gravity": [3, -10, 0], "contacts": {"friction": 0.5}, "solver": {"budget": 1},
                 "bodies": [{"name": "floor", "kind": "static",
                             "mesh": {"generate": {"kind": "sheet", "width": 2, "depth": 2}}},
                            {"name": "sheet", "kind": "cloth", "position": [0, 0.005, 0], "radius": 0.005,
                             "area_density": 0.3, "membrane_stiffness": 1000,
                             "mesh": {"generate": {"kind": "grid", "columns": 16, "width": 0.5}}}]}
        world = self.client.create_world(qpcollide.scene.resolve(scene, self.client))
        summary = world.step(5)["summary"]
        self.assertEqual((summary["exhausted"], summary["friction_missed"]), (5, 5))
        self.assertLessEqual(summary["last"]["solver_iterations"] + summary["last"]["set_changes"], 1)
        world.destroy()

    def test_friction_on_the_wire_and_in_the_file(self):
        scene = {"dt": 0.01, "gravity": [3, -10, 0], "contacts": {"friction": 0.5},
                 "bodies": [{"name": "floor", "kind": "static",
                             "mesh": {"generate": {"kind": "sheet", "width": 2, "depth": 2}}},
                            {"name": "ball", "kind": "cable", "nodes": [[0.1, 0.05, 0.2]], "mass": 2, "radius": 0.05}],
                 "record": {"contacts": True}}
        world = self.client.create_world(qpcollide.scene.resolve(scene, self.client))
        world.step(50)
        live = world.state("contacts", "positions", precision="float64")
        contacts = live["contacts"]
        side = 1 if contacts["bodies"][0][0] == 1 else -1  # which side the ball is
        self.assertAlmostEqual(contacts["force"].sum(), 20, delta=1e-4)
        np.testing.assert_allclose(side * contacts["friction"].sum(axis=0), [-6, 0, 0], atol=1e-4)
        self.assertLess(abs(live["positions"][0, 0] - 0.1), 1e-9)  # it sticks
        world.control({"parameters": {"gravity": [6, -10, 0]}})
        summary = world.step(20)["summary"]
        last = summary["last"]
        self.assertEqual((last["sticking"], last["sliding"] > 0, last["friction_missed"]), (0, True, 0))
        self.assertEqual((summary["friction_missed"], summary["exhausted"]), (0, 0))
        self.assertLess(summary["worst"]["friction_natural"], 1e-6)
        self.assertGreaterEqual(summary["worst"]["friction_natural"], last["friction_natural"])
        path = next(r for r in self.client.list_runs() if r["run"] == world.run)["path"]
        world.destroy()
        end = time.monotonic() + 10 * TIME_SCALE
        with qpcollide.Replay(path) as replay:
            while len(replay) < 70 and time.monotonic() < end:
                time.sleep(0.01)
            stored = replay.contacts(50)
            np.testing.assert_array_equal(stored["friction"], contacts["friction"])
            np.testing.assert_allclose(side * replay.contacts(70)["friction"].sum(axis=0), [-10, 0, 0], atol=1e-3)

    def test_contacts_and_meshes_are_in_the_file(self):
        scene = qpcollide.load_scene(SCENES / "cylinder.json", self.client)
        world = self.client.create_world(scene)
        reply = world.step(100, contacts=True)
        live = world.state("contacts", precision="float64")["contacts"]
        path = next(r for r in self.client.list_runs() if r["run"] == world.run)["path"]
        world.destroy()
        self.assertGreater(len(live["force"]), 0)
        end = time.monotonic() + 10 * TIME_SCALE
        with qpcollide.Replay(path) as replay:
            while len(replay) < 100 and time.monotonic() < end:
                time.sleep(0.01)
            stored = replay.contacts(100)
            np.testing.assert_array_equal(stored["force"], live["force"])
            np.testing.assert_array_equal(stored["position"], live["position"])
            np.testing.assert_array_equal(stored["body"], live["bodies"])
            self.assertEqual(len(reply["contacts"]["force"]), len(stored))
            vertices, elements = replay.mesh("cylinder")
            self.assertEqual(qpcollide.mesh_sha256(vertices, elements),
                             scene["bodies"][0]["mesh"]["sha256"])

    def test_other_files_are_no_replays(self):
        path = pathlib.Path(self.folder.name, "x.qpc")
        with self.assertRaises(Exception):
            qpcollide.Replay(path)
        self.assertFalse(path.exists())
        import sqlite3
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE t(a)")
        with self.assertRaisesRegex(ValueError, "not a run file"):
            qpcollide.Replay(path)


class Broken(unittest.TestCase):
    def test_a_server_that_goes_away(self):
        daemon = Daemon().start()
        try:
            client = qpcollide.connect(daemon.server)
            daemon.stop()
            with self.assertRaises(qpcollide.ConnectionLost):
                for _ in range(100):
                    client.stats()
            self.assertFalse(client.is_open)
            with self.assertRaises(qpcollide.ConnectionLost):
                client.stats()
            with self.assertRaises(OSError):
                qpcollide.connect(daemon.server)
        finally:
            daemon.remove()

    def scripted(self, answer):
        """A server that reads a little, sends `answer` and closes; the exception of one call."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            def serve():
                peer, _ = listener.accept()
                peer.recv(1000)
                peer.sendall(answer)
                peer.close()
            thread = threading.Thread(target=serve)
            thread.start()
            client = qpcollide.connect(f"127.0.0.1:{listener.getsockname()[1]}", hello=False)
            try:
                client.stats()
            except Exception as error:
                return error
            finally:
                client.close()
                thread.join()
        self.fail("no error")

    def test_what_the_server_said_last_is_told(self):
        error = self.scripted(wire.pack([2, "error", [{"code": 4, "name": "LIMIT",
                                                       "message": "too long"}]]))
        self.assertIsInstance(error, qpcollide.ConnectionLost)
        self.assertIn("LIMIT: too long", str(error))

    def test_nonsense_ends_the_connection(self):
        self.assertIsInstance(self.scripted(b"\x07"), qpcollide.ConnectionLost)
        self.assertIsInstance(self.scripted(wire.pack([1, 1, {"code": 99}, None])),
                              qpcollide.QpcError)


if __name__ == "__main__":
    unittest.main()
