"""Starts that are pushed out, and what is said about the proof of steps: over the wire, on disk, after a crash."""

import contextlib
import json
import pathlib
import sqlite3
import subprocess
import sys
import time
import unittest

import numpy

from support import Client, Daemon, RpcError, encode_array, sheet

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from daemon import BUILD, QPC  # noqa: E402

RUN_CHECK = BUILD / "tools" / "qpc-run-check"


def dipping(mesh, **more):
    """A cable whose middle is below a sheet, its first node fixed."""
    nodes = [[-0.2 + 0.05 * i, 0.012 * (abs(i - 4) - 2), 0.1] for i in range(9)]
    return {"bodies": [{"kind": "cable", "name": "rope", "nodes": nodes, "mass": 0.1,
                        "stiffness": 1000.0, "radius": 0.01},
                       {"kind": "static", "name": "sheet", "mesh": {"sha256": mesh}}],
            "constraints": [{"kind": "fixed", "body": "rope", "nodes": [0]}],
            "record": {"precision": "float64", "substeps": True}, **more}


class Case(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon().start()
        self.addCleanup(self.daemon.remove)
        self.connect()

    def connect(self):
        self.client = Client(self.daemon)
        self.addCleanup(self.client.close)
        vertices, elements = sheet(y=0.0)
        self.mesh = self.client.call("mesh.upload", vertices=encode_array(vertices),
                                     elements=encode_array(elements))["sha256"]


class PushedOut(Case):
    def test_the_reply_says_what_was_moved(self):
        scene = dipping(self.mesh, start="push-out")
        dry = self.client.call("world.create", scene=scene, dry_run=True)
        made = self.client.call("world.create", scene=scene)
        for reply in (dry, made):
            self.assertGreater(reply["overlap_count"], 0)
            self.assertEqual(reply["moved_nodes"], 5)
            self.assertAlmostEqual(reply["largest_move"], 0.034, places=4)
            self.assertIn("5 nodes were moved", " ".join(reply["warnings"]))
            self.assertTrue(reply["close_pairs"])
        self.assertEqual(dry["hash"], made["hash"])
        x = self.client.call("world.state", world=made["world"], precision="float64")["positions"]
        self.assertGreaterEqual(x[:, 1].min(), 0.01)
        numpy.testing.assert_array_equal(x[0], scene["bodies"][0]["nodes"][0])

    def test_without_it_the_scene_is_refused_as_ever(self):
        with self.assertRaises(RpcError) as caught:
            self.client.call("world.create", scene=dipping(self.mesh))
        self.assertEqual(caught.exception.data["where"], "bodies")
        self.assertEqual(caught.exception.data["moved_nodes"], 0)

    def test_what_cannot_be_separated_says_what_is_left(self):
        scene = dipping(self.mesh, start="push-out", start_push_limit=0.02)
        with self.assertRaises(RpcError) as caught:
            self.client.call("world.create", scene=scene)
        error = caught.exception
        self.assertEqual(error.name, "INVALID")
        self.assertEqual(error.data["where"], "start")
        self.assertGreater(error.data["stuck_count"], 0)
        self.assertGreater(error.data["close_pairs"][0]["depth"], 0)
        for word in ("start_push_limit", "rope", "sheet", "still to go"):
            self.assertIn(word, error.message)

    def test_a_killed_run_starts_again_from_the_same_bits(self):
        scene = dipping(self.mesh, start="push-out")
        made = self.client.call("world.create", scene=scene)
        reply = self.client.call("world.step", world=made["world"], n=40)
        self.client.call("run.frames", run=made["run"])  # everything is in the file
        self.daemon.kill()
        self.daemon.restart()
        self.connect()
        described = self.client.call("run.describe", run=made["run"])
        self.assertEqual(described["state"], "crashed")
        self.assertEqual(described["start_hash"], made["hash"])
        self.assertEqual((described["steps_proven"], described["steps_not_proven"]), (40, 0))
        frames = self.client.call("run.frames", run=made["run"], precision="float64")["frames"]
        again = self.client.call("world.create", scene=described["scene"])
        self.assertEqual((again["hash"], again["scene_hash"]), (made["hash"], made["scene_hash"]))
        state = self.client.call("world.state", world=again["world"], precision="float64")
        numpy.testing.assert_array_equal(state["positions"], frames[0]["positions"])
        for frame in frames[1:]:
            stepped = self.client.call("world.step", world=again["world"], positions=True,
                                       precision="float64")
            self.assertEqual(stepped["hash"], frame["hash"])
            numpy.testing.assert_array_equal(stepped["positions"], frame["positions"])
        self.assertEqual(stepped["hash"], reply["hash"])
        path = described["path"]
        self.client.call("world.destroy", world=again["world"])
        done = subprocess.run([str(RUN_CHECK), path], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("40 steps were proven", done.stdout)


class Proof(Case):
    def run_file(self, steps=10):
        made = self.client.call("world.create", scene=dipping(self.mesh, start="push-out"))
        reply = self.client.call("world.step", world=made["world"], n=steps)
        path = self.client.call("run.describe", run=made["run"])["path"]
        self.client.call("world.destroy", world=made["world"])
        return made["run"], path, reply

    def qpc(self, *arguments):
        return subprocess.run([str(QPC), *arguments, "--server", self.daemon.server],
                              capture_output=True, text=True, check=False, timeout=60)

    def closed(self, path):
        """Wait for the file to be closed, then change it as nobody should."""
        end = time.monotonic() + 20
        while self.client.call("run.list")["runs"][0]["state"] == "recording":
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        return contextlib.closing(sqlite3.connect(path))

    def test_every_step_is_proven_and_says_so(self):
        run, path, reply = self.run_file()
        summary = reply["summary"]
        self.assertEqual((summary["not_proven"], summary["ccd_uncertain"]), (0, 0))
        self.assertEqual(summary["last"]["proven"], 1)
        self.assertTrue(0 < summary["toi_margin"] <= 1)
        self.assertEqual(self.client.call("server.stats")["steps_not_proven"], 0)
        with self.closed(path):
            pass
        self.assertIn("proven           10 steps\n", self.qpc("show", run).stdout)
        self.assertRegex(self.qpc("runs").stdout, rf"{run}  closed +10  all ")

    def test_a_step_that_is_not_proven_is_seen_everywhere(self):
        run, path, _ = self.run_file()
        with self.closed(path) as db:
            db.execute("UPDATE steps SET proven = 0 WHERE step IN (3, 4)")
            db.commit()
        described = self.client.call("run.describe", run=run)
        self.assertEqual([described[f"steps_{k}"] for k in ("proven", "not_proven", "unknown")],
                         [8, 2, 0])
        shown = self.qpc("show", run)
        self.assertEqual(shown.returncode, 5)
        self.assertIn("NOT PROVEN 2", shown.stdout)
        self.assertEqual(json.loads(self.qpc("show", run, "--json").stdout)["facts"]["steps_not_proven"], 2)
        self.assertIn("2 NOT", self.qpc("runs").stdout)
        done = subprocess.run([str(RUN_CHECK), path], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("8 steps were proven when they were made, 2 were not", done.stdout)

    def test_a_file_without_the_columns_opens_and_says_that_it_is_unknown(self):
        run, path, _ = self.run_file()
        with self.closed(path) as db:
            for column in ("proven", "ccd_uncertain"):
                db.execute(f"ALTER TABLE steps DROP COLUMN {column}")
            db.commit()
        described = self.client.call("run.describe", run=run)
        self.assertEqual([described[f"steps_{k}"] for k in ("proven", "not_proven", "unknown")],
                         [0, 0, 10])
        shown = self.qpc("show", run)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("unknown 10", shown.stdout)
        self.assertIn("unknown", self.qpc("runs").stdout)
        columns = self.client.call("run.diagnostics", run=run)["columns"]
        self.assertNotIn("proven", columns)
        self.assertEqual(len(columns["step"]), 10)
        done = subprocess.run([str(RUN_CHECK), path], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("does not say which steps were proven", done.stdout)


if __name__ == "__main__":
    unittest.main()
