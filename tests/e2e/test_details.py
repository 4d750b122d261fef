"""What a step tells: rows that contradict by name, forces of fixed points and strain limits, friction that was missed; in
the state, in the run file, over the wire and by the command line."""

import contextlib
import json
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import unittest

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "python"))

import qpcollide  # noqa: E402
from support import TIME_SCALE, Daemon  # noqa: E402
from daemon import BUILD  # noqa: E402


def line(start, end, count):
    return numpy.linspace(start, end, count).tolist()


def torn(**changes):
    """A cable over a cylinder, held at both ends: pulled apart, limit and pins contradict."""
    return {"dt": 0.01, **changes, "bodies": [
        {"kind": "static", "name": "drum", "position": [0, -0.12, 0],
         "mesh": {"generate": {"kind": "cylinder", "radius": 0.1, "length": 0.6, "segments": 16}}},
        {"kind": "cable", "name": "c", "nodes": line([-0.3, 0.01, 0.04], [0.3, 0.01, 0.04], 21), "mass": 0.1,
         "radius": 0.01, "stiffness": 100.0}],
        "constraints": [{"kind": "fixed", "body": "c", "nodes": [0, -1]},
                        {"kind": "strain-limit", "body": "c", "max": 1.02}]}


PULL = {"targets": [{"body": "c", "node": 0, "velocity": [-0.2, -0.1, 0]},
                    {"body": "c", "node": -1, "velocity": [0.2, -0.1, 0]}]}


class Details(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon("--workers", "1").start()
        self.addCleanup(self.daemon.remove)
        self.client = qpcollide.connect(self.daemon.server)
        self.addCleanup(lambda: self.client.close())

    def make(self, scene):
        return self.client.create_world(qpcollide.scene.resolve(scene, self.client))

    def qpc(self, *arguments):
        done = subprocess.run([str(BUILD / "client" / "cli" / "qpc"), *arguments, "--server", self.daemon.server],
                              capture_output=True, text=True, timeout=60 * TIME_SCALE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_what_contradicts_is_named_once_and_recorded(self):
        world = self.make(torn())
        world.control(PULL)
        named = []
        relaxed = conflicts = 0
        for _ in range(30):
            summary = world.step()["summary"]
            last = summary["last"]
            conflicts += summary["conflicts"]
            relaxed += summary["relaxed"]
            self.assertEqual((summary["conflicts"], summary["relaxed"]), (last["conflicts"] > 0, last["outcome"] == 2))
            state = world.state("conflicts", "reactions", "limit_forces", "contacts", precision="float64")
            c = state["conflicts"]
            names = list(zip(c["kind"].tolist(), map(tuple, c["bodies"].tolist()), map(tuple, c["features"].tolist())))
            self.assertEqual(len(set(names)), len(names))
            self.assertEqual(len(names) > 0, last["conflicts"] > 0)
            self.assertLessEqual(len(names), last["conflicts"])
            named.append((names, state))
        self.assertGreater(relaxed, 5)
        self.assertGreater(conflicts, 0)
        path = self.client.describe_run(world.run)["path"]
        with qpcollide.Replay(path) as replay:
            for step, (names, state) in enumerate(named, 1):
                there = replay.conflicts(step)
                self.assertEqual(list(zip(there["kind"].tolist(), map(tuple, there["body"].tolist()),
                                          map(tuple, there["feature"].tolist()))), names)
                wire = self.client.run_details(world.run, step)
                for key in ("kind", "bodies", "features", "key"):
                    numpy.testing.assert_array_equal(wire["conflicts"][key], state["conflicts"][key])
                for key in ("bodies", "features", "kind", "position", "normal", "gap", "force", "friction", "key"):
                    numpy.testing.assert_array_equal(wire["contacts"][key], state["contacts"][key])
                self.check_forces(replay.reactions(step), replay.limit_forces(step), state)
                numpy.testing.assert_array_equal(wire["reactions"]["force"], state["reactions"]["force"])
                self.assertEqual(wire["reactions"]["node"].tolist(), [0, 20])
                numpy.testing.assert_array_equal(wire["limit_forces"]["force"], replay.limit_forces(step)["force"])
            events = [e for e in replay.events() if e[1] == "conflict"]
        first = next(i for i, (names, _) in enumerate(named, 1) if names)
        self.assertEqual([e[0] for e in events], [first])  # one for the whole series
        self.assertRegex(events[0][2], r"^\d+ features contradict each other: largest strain of c spring \d+; ")
        self.assertEqual([(e["step"], e["message"]) for e in self.client.run_events(world.run) if e["kind"] == "conflict"],
                         [(first, events[0][2])])
        self.assertIn(events[0][2], self.qpc("events", world.run))
        text = self.qpc("forces", world.run, "--step", str(first))
        self.assertIn(f"contradicting: {len(named[first - 1][0])}\n  largest strain: c ", text)
        self.assertIn("fixed points: 2\n  c node 0: ", text)
        path = next(run["path"] for run in self.client.list_runs() if run["run"] == world.run)
        self.assertEqual(self.qpc("forces", path, "--step", str(first)), text)
        told = json.loads(self.qpc("forces", world.run, "--step", str(first), "--json"))
        self.assertEqual(told["step"], first)
        self.assertRegex(self.daemon.log(), r"rows_contradict.*largest strain of c spring")
        self.assertIn("contradictions", self.qpc("show", world.run))
        world.destroy()

    def check_forces(self, reactions, limits, state):
        numpy.testing.assert_array_equal(reactions["force"], state["reactions"]["force"])
        self.assertEqual(reactions["body"].tolist(), [1, 1])
        self.assertEqual(reactions["node"].tolist(), [0, 20])
        held = numpy.flatnonzero(state["limit_forces"])
        self.assertEqual(limits["spring"].tolist(), held.tolist())
        numpy.testing.assert_array_equal(limits["force"], state["limit_forces"][held])

    def test_reactions_balance_what_hangs_and_can_be_left_out(self):
        for keep in (True, False):
            world = self.make({**torn(), "record": {"reactions": keep}})
            world.step(200)
            wire = self.client.run_details(world.run, 200, fields=["reactions", "contacts"])
            self.assertEqual(set(wire), {"step", "reactions", "contacts"})
            self.assertEqual(len(wire["reactions"]["node"]), 2 * keep)
            if keep:  # pins and contacts carry the cable
                up = wire["reactions"]["force"].sum(axis=0)
                contacts = wire["contacts"]
                sign = numpy.where(contacts["bodies"][:, 0] == 1, 1.0, -1.0)
                up = up + (sign[:, None] * contacts["normal"] * contacts["force"][:, None]).sum(axis=0)
                numpy.testing.assert_allclose(up, [0, 2.1 * 9.81, 0], atol=1e-4)
            world.destroy()
        with self.assertRaises(qpcollide.Invalid):
            self.make({**torn(), "record": {"reactions": 3}})
        with self.assertRaises(qpcollide.Invalid):
            self.client.run_details(world.run, 1, fields=["forces"])
        with self.assertRaises(qpcollide.NotFound):
            self.client.run_details("0" * 32, 1)

    def test_a_step_that_the_run_does_not_have_is_an_error(self):
        for record in ({}, {"diagnostics": False}, {"frames": 0}, {"frames": 7}):
            with self.subTest(record=record):
                world = self.make({**torn(), "record": record})
                world.step(10)
                for _ in range(2):  # live, and closed
                    for step in (0, 1, 10):
                        self.assertEqual(self.client.run_details(world.run, step)["step"], step)
                    for step in (11, 99999):
                        with self.assertRaisesRegex(qpcollide.NotFound, f"the run has no step {step} .its last is 10"):
                            self.client.run_details(world.run, step)
                        done = subprocess.run([str(BUILD / "client" / "cli" / "qpc"), "forces", world.run, "--step", str(step),
                                               "--server", self.daemon.server], capture_output=True, text=True,
                                              timeout=60 * TIME_SCALE)
                        self.assertEqual((done.returncode, done.stdout), (1, ""))
                        self.assertIn(f"the run has no step {step}", done.stderr)
                    if world.run and self.client.describe_run(world.run)["state"] == "recording":
                        world.destroy()

    def test_a_run_is_closed_when_destroy_answers(self):
        for _ in range(10):
            world = self.make(torn())
            world.step(3)
            world.destroy()
            run = self.client.describe_run(world.run)
            self.assertEqual((run["state"], run["steps"]), ("closed", 3))

    def test_forces_of_joints_are_in_the_run_and_those_of_closed_forms(self):
        g, length, weight, theta, dt = 9.81, 0.8, 1.5, 0.6, 0.0005
        bob = [length * numpy.sin(theta), 0, -length * numpy.cos(theta)]
        world = self.make({"dt": dt, "gravity": [0, 0, -g], "record": {"precision": "float64"}, "bodies": [
            {"kind": "cable", "name": "bob", "nodes": [bob], "mass": weight, "radius": 0.01},
            {"kind": "cable", "name": "left", "nodes": [[2, 0, 0]], "mass": 1, "radius": 0.01},
            {"kind": "cable", "name": "right", "nodes": [[3, 0, 0]], "mass": 3, "radius": 0.01},
            {"kind": "cable", "name": "still", "nodes": [[5, 0, 0]], "mass": 2, "radius": 0.01}],
            "constraints": [{"kind": "tendon", "points": [{"at": [0, 0, 0]}, {"body": "bob", "node": 0}], "equal": True},
                            {"kind": "tendon", "points": [{"body": "left", "node": 0}, {"at": [2, 0, 2]}, {"at": [3, 0, 2]},
                                                          {"body": "right", "node": 0}]},
                            {"kind": "attach", "points": [{"body": "still", "node": 0}, {"at": [5, 0, 0]}]}]})
        world.step(900)
        now = world.state("joints", precision="float64")["joints"]
        with qpcollide.Replay(self.client.describe_run(world.run)["path"]) as replay:
            there = [replay.joints(step) for step in (1, 400, 900)]
            at = [replay.frame(step).positions[0] for step in (1, 400, 900)]
        for name in ("constraint", "kind", "position", "force", "torque", "tension", "gap"):
            numpy.testing.assert_array_equal(there[2][name], now[name])
            numpy.testing.assert_array_equal(self.client.run_details(world.run, 900, fields=["joints"])["joints"][name], now[name])
        for joints, x in zip(there, at):  # m (g cos + v^2 / l), v by energy; a first-order step loses a little of it
            self.assertEqual(joints["kind"].tolist(), [3, 3, 0])
            cosine = -x[2] / length
            speed2 = 2 * g * length * (cosine - numpy.cos(theta))
            self.assertAlmostEqual(joints["tension"][0], weight * (g * cosine + speed2 / length), delta=5e-3 * weight * g)
            self.assertAlmostEqual(joints["tension"][1], 2 * 1 * 3 / (1 + 3) * g, delta=1e-5)
            numpy.testing.assert_allclose(joints["force"][2], [0, 0, 2 * g], atol=1e-5)
        self.assertGreater(abs(there[1]["tension"][0] - there[0]["tension"][0]), 0.1 * weight * g)
        text = self.qpc("forces", world.run, "--step", "900")
        self.assertIn("joints: 3\n  constraint 0 (tendon): tension ", text)
        self.assertRegex(text, r"constraint 1 \(tendon\): tension 14\.715\d* N, gap ")
        self.assertRegex(text, r"constraint 2 \(attach\): \S+ \S+ 19\.62\d* N, gap ")
        world.destroy()
        left_out = self.make({"dt": 0.01, "record": {"reactions": False}, "bodies": [
            {"kind": "cable", "nodes": [[0, 0, 0]], "mass": 2, "radius": 0.01}],
            "constraints": [{"kind": "attach", "points": [{"body": 0, "node": 0}, {"at": [0, 0, 0]}]}]})
        left_out.step(3)
        self.assertEqual(len(self.client.run_details(left_out.run, 3)["joints"]["kind"]), 0)
        left_out.destroy()

    def test_a_file_of_version_1_still_reads(self):
        world = self.make(torn())
        world.step(5)
        path = self.client.describe_run(world.run)["path"]
        run = world.run
        world.destroy()
        self.client.close()
        self.daemon.stop()
        with contextlib.closing(sqlite3.connect(path)) as db:
            self.assertEqual(db.execute("PRAGMA user_version").fetchone(), (3,))
            db.execute("DROP TABLE joints")
            db.execute("PRAGMA user_version = 2")
            db.commit()
        with qpcollide.Replay(path) as replay:
            self.assertEqual((len(replay.reactions(5)), len(replay.joints(5))), (2, 0))
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute("DROP TABLE reactions")
            db.execute("DROP TABLE limit_forces")
            db.execute("DROP TABLE conflicts")
            db.execute("PRAGMA user_version = 1")
            db.commit()
        with qpcollide.Replay(path) as replay:
            self.assertEqual((len(replay), len(replay.reactions(5)), len(replay.conflicts(5))), (5, 0, 0))
        self.daemon.start()
        self.client = qpcollide.connect(self.daemon.server)
        self.assertEqual(len(self.client.run_diagnostics(run)["step"]), 5)
        self.assertEqual(len(self.client.run_details(run, 5)["reactions"]["node"]), 0)
        self.assertEqual([e["kind"] for e in self.client.run_events(run)], ["destroyed"])
        copy = pathlib.Path(path).with_name("copy.qpc")
        shutil.copy(path, copy)
        with contextlib.closing(sqlite3.connect(copy)) as db:
            db.execute("PRAGMA user_version = 4")
            db.commit()
        with self.assertRaisesRegex(ValueError, "version 4"):
            qpcollide.Replay(copy)

    def test_friction_that_is_missed_shows(self):
        scene = {"dt": 0.01, "gravity": [3, -10, 0], "contacts": {"friction": 0.5}, "bodies": [
            {"name": "floor", "kind": "static", "mesh": {"generate": {"kind": "sheet", "width": 2, "depth": 2}}},
            {"name": "sheet", "kind": "cloth", "mesh": {"generate": {"kind": "grid", "columns": 16, "width": 0.5}},
             "position": [0, 0.005, 0], "area_density": 0.3, "membrane_stiffness": 1000, "radius": 0.005}]}
        for solver, missed in (({}, 0), ({"budget": 1}, 5), ({"friction_tolerance": 1e-12, "friction": "exact"}, None)):
            world = self.make({**scene, "solver": solver})
            for _ in range(5):
                last = world.step()["summary"]["last"]
                if missed == 0:
                    self.assertEqual((last["outcome"], last["friction_missed"]), (0, 0))
                if last["friction_missed"] and last["friction_natural"] > 1e-6:
                    self.assertNotEqual(last["outcome"], 0)
            kinds = [e["kind"] for e in self.client.run_events(world.run)]
            if missed is not None:
                self.assertEqual(kinds.count("friction_missed"), int(missed > 0))
            path = self.daemon.folder / "missed.json"
            path.write_text(json.dumps({**scene, "solver": solver}))
            run = subprocess.run([str(BUILD / "client" / "cli" / "qpc"), "run", str(path), "--steps", "5", "--quiet",
                                  "--server", self.daemon.server], capture_output=True, text=True,
                                 timeout=60 * TIME_SCALE)
            if missed is not None:
                self.assertEqual("5 steps miss Coulomb's law" in run.stderr, missed > 0, run.stderr)
            world.destroy()

    def test_energy_of_a_driven_scene_is_measured_by_the_work_put_in(self):
        scene = {"dt": 0.01, "contacts": {"friction": 0.5}, "bodies": [
            {"name": "floor", "kind": "static", "mesh": {"generate": {"kind": "sheet", "width": 4, "depth": 4}}},
            {"name": "c", "kind": "cable", "nodes": line([0, 0.02, 0.03], [0.4, 0.02, 0.03], 5), "mass": 0.1,
             "radius": 0.02, "stiffness": 1000.0}],
            "constraints": [{"kind": "fixed", "body": "c", "nodes": [-1]}]}
        world = self.make(scene)
        world.control({"targets": [{"body": "c", "node": -1, "velocity": [0.5, 0, 0]}]})
        most = 0
        for _ in range(100):
            last = world.step()["summary"]["last"]
            most = max(most, abs(last["work"]))
            self.assertGreaterEqual(last["energy_scale"], most)
            self.assertLessEqual(abs(last["energy_drift"]), 1.0)
            self.assertLessEqual(last["energy_step"], 1e-6)
        self.assertGreater(last["work"], 0.5)  # 0.4 kg over half a metre under friction, most of it gone
        self.assertLess(last["energy_drift"], -0.5)
        world.destroy()


if __name__ == "__main__":
    unittest.main()
