"""Recorded runs: read while recording and afterwards, crashes, full disks, policies."""

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import time
import unittest

import numpy

from support import SANITIZED, Client, Daemon, RpcError, cable, particle

PRIORITY = 40


def database(path, options="mode=ro"):
    return contextlib.closing(sqlite3.connect(f"file:{path}?{options}", uri=True))


def files_of(daemon):
    return sorted((daemon.data / "runs").glob("*.qpc"))


class Runs(unittest.TestCase):
    def start(self, *options, **more):
        self.daemon = Daemon(*options, **more).start()
        self.addCleanup(self.daemon.remove)
        self.client = Client(self.daemon)
        self.addCleanup(lambda: self.client.close())

    def record(self, scene, n):
        made = self.client.call("world.create", scene=scene)
        self.client.call("world.step", world=made["world"], n=n)
        return made["world"], made["run"]

    def test_frames_can_be_read_right_after_the_step(self):
        self.start()
        world, run = self.record(cable(record={"precision": "float64"}), 20)
        page = self.client.call("run.frames", run=run, precision="float64")
        self.assertEqual([f["step"] for f in page["frames"]], list(range(21)))
        self.assertIsNone(page["next"])
        state = self.client.call("world.state", world=world, precision="float64")
        numpy.testing.assert_array_equal(page["frames"][-1]["positions"], state["positions"])
        self.assertEqual(page["frames"][-1]["hash"], state["hash"])
        self.daemon.stop()

    def test_pages_and_ranges(self):
        self.start()
        _, run = self.record(cable(), 50)
        steps, at = [], 0
        while at is not None:
            page = self.client.call("run.frames", run=run, limit=8, **{"from": at})
            self.assertLessEqual(len(page["frames"]), 8)
            steps += [f["step"] for f in page["frames"]]
            at = page["next"]
        self.assertEqual(steps, list(range(51)))
        page = self.client.call("run.frames", run=run, to=12, **{"from": 10})
        self.assertEqual([f["step"] for f in page["frames"]], [10, 11, 12])
        self.assertEqual(page["frames"][0]["positions"].dtype, numpy.dtype("<f4"))
        columns = self.client.call("run.diagnostics", run=run, limit=20,
                                   fields=["time", "contacts", "kinetic"])
        self.assertEqual(set(columns["columns"]), {"time", "contacts", "kinetic"})
        self.assertEqual(len(columns["columns"]["time"]), 20)
        self.assertEqual(columns["next"], 21)
        self.assertEqual(columns["columns"]["contacts"].dtype, numpy.dtype("<i8"))
        everything = self.client.call("run.diagnostics", run=run, **{"from": 41})
        self.assertEqual(everything["columns"]["step"].tolist(), list(range(41, 51)))
        with self.assertRaises(RpcError):
            self.client.call("run.diagnostics", run=run, fields=["kinetics"])
        self.daemon.stop()

    def test_a_body_alone(self):
        self.start()
        scene = cable()
        scene["bodies"].append({**cable(count=3)["bodies"][0], "name": "d",
                                "nodes": [[1, 0, 0], [1.1, 0, 0], [1.2, 0, 0]]})
        _, run = self.record(scene, 2)
        page = self.client.call("run.frames", run=run, body="d")
        self.assertEqual(page["frames"][0]["positions"].shape, (3, 3))
        self.assertEqual(page["bodies"][1]["first_node"], 20)
        with self.assertRaises(RpcError) as caught:
            self.client.call("run.frames", run=run, body="e")
        self.assertEqual(caught.exception.name, "NOT_FOUND")
        self.daemon.stop()

    def test_describe_and_list(self):
        self.start()
        world, run = self.record(cable(name="hanging"), 5)
        described = self.client.call("run.describe", run=run)
        self.assertEqual((described["world"], described["name"]), (world, "hanging"))
        self.assertEqual((described["state"], described["frames"]), ("recording", 6))
        self.assertEqual(described["scene"]["constraints"][0]["kind"], "fixed")
        self.assertIn("qpcollided", described["versions"])
        self.client.call("world.destroy", world=world)
        deadline = time.monotonic() + 10
        while self.client.call("run.list")["runs"][0]["state"] != "closed":
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        _, second = self.record(particle(), 1)
        runs = self.client.call("run.list")["runs"]
        self.assertEqual([r["run"] for r in runs], [second, run])
        self.assertEqual((runs[1]["steps"], runs[1]["frames"]), (5, 6))
        with self.assertRaises(RpcError) as caught:
            self.client.call("run.describe", run="0" * 32)
        self.assertEqual(caught.exception.name, "NOT_FOUND")
        self.daemon.stop()

    def test_record_settings(self):
        self.start()
        _, sparse = self.record(particle(record={"frames": 10, "diagnostics": False}), 35)
        page = self.client.call("run.frames", run=sparse)
        self.assertEqual([f["step"] for f in page["frames"]], [0, 10, 20, 30])
        self.assertEqual(len(self.client.call("run.diagnostics", run=sparse)["columns"]["step"]), 0)
        _, none = self.record(particle(record={"frames": 0}), 5)
        self.assertEqual(self.client.call("run.frames", run=none)["frames"], [])
        self.assertEqual(len(self.client.call("run.diagnostics", run=none)["columns"]["step"]), 5)
        made = self.client.call("world.create", scene=particle(record={"enabled": False}))
        self.assertIsNone(made["run"])
        self.daemon.stop()

    def test_no_record_records_nothing(self):
        self.start("--no-record")
        made = self.client.call("world.create", scene=particle())
        self.assertIsNone(made["run"])
        self.client.call("world.step", world=made["world"], n=5)
        self.assertEqual(self.client.call("run.list")["runs"], [])
        self.daemon.stop()
        self.assertEqual(files_of(self.daemon), [])

    def test_controls_are_in_the_command_log(self):
        self.start()
        world, run = self.record(particle(), 3)
        control = {"forces": [{"body": "p", "force": [1.0, 0.0, 0.0]}]}
        self.client.call("world.control", world=world, control=control)
        self.client.call("world.step", world=world)
        path = self.client.call("run.describe", run=run)["path"]
        self.client.close()
        self.daemon.stop()
        with database(path) as db:
            columns = [row[1] for row in db.execute("PRAGMA table_info(commands)")]
            rows = [dict(zip(columns, row)) for row in db.execute("SELECT * FROM commands")]
        self.assertEqual(len(rows), 1)
        self.assertEqual(rows[0]["step"], 3)
        self.assertEqual(json.loads(next(v for k, v in rows[0].items()
                                         if isinstance(v, str) and v.startswith("{"))), control)

    def test_a_stopped_daemon_leaves_one_whole_file(self):
        self.start()
        self.record(cable(), 100)
        self.client.close()
        self.daemon.stop()
        path, = files_of(self.daemon)
        self.assertEqual([p.name for p in path.parent.iterdir()], [path.name])
        with database(path, "mode=ro&immutable=1") as db:
            self.assertEqual(db.execute("PRAGMA integrity_check").fetchone(), ("ok",))
            self.assertEqual(db.execute("SELECT count(*), max(step) FROM steps").fetchone(),
                             (100, 100))

    def test_kill_9_leaves_databases_that_open(self):
        """Storage case S04: killed at random moments while it records at full speed."""
        self.start()
        dice = random.Random(7)
        known = set()
        for _ in range(4 if SANITIZED else 8):
            world = self.client.call("world.create", scene=cable(count=50))["world"]
            batch = self.client.request("world.step", {"world": world, "n": 1000000000})
            time.sleep(dice.uniform(0.1, 0.6))
            self.daemon.kill()
            self.client.close()
            for path in files_of(self.daemon):
                with database(path, "mode=rw") as db:
                    self.assertEqual(db.execute("PRAGMA integrity_check").fetchone(), ("ok",))
            self.daemon.restart()
            self.client = Client(self.daemon)
            runs = self.client.call("run.list")["runs"]
            self.assertEqual({r["state"] for r in runs}, {"crashed"})
            new, = {r["run"] for r in runs} - known
            known.add(new)
            at, steps = 0, []
            while at is not None:
                page = self.client.call("run.frames", run=new, limit=10000, **{"from": at})
                steps += [f["step"] for f in page["frames"]]
                self.assertEqual({f["positions"].shape for f in page["frames"]}, {(50, 3)})
                at = page["next"]
            self.assertEqual(steps, list(range(len(steps))))
            self.assertGreater(len(steps), 1)
            del batch
        self.daemon.stop()

    def test_a_file_size_limit_does_not_stop_the_world(self):
        """Storage case S03, variant b."""
        self.start(wrapper=["prlimit", f"--fsize={4 << 20}"])
        made = self.client.call("world.create", scene=cable(
            count=200, record={"precision": "float64"}))
        world, trouble, begin = made["world"], None, time.monotonic()
        while trouble is None and time.monotonic() - begin < 120:
            reply = self.client.call("world.step", world=world, n=200, timeout=60)
            self.assertEqual(reply["status"], "ok")
            trouble = reply["summary"].get("recording")
        self.assertIsNotNone(trouble)
        self.assertTrue(trouble.startswith("failed: "), trouble)
        begin = time.monotonic()
        while time.monotonic() - begin < 2.5:
            self.assertEqual(self.client.call("world.step", world=world, n=20)["status"], "ok")
        stats = self.client.call("server.stats")["storage"]
        self.assertGreater(stats["dropped"], 0)
        self.assertGreater(stats["errors"], 0)
        self.assertNotEqual(stats["last_error"], "")
        lines = [line for line in self.daemon.log().splitlines()
                 if "event=recording_failed" in line or "kind=run_failed" in line]
        self.assertGreaterEqual(len(lines), 1)
        self.assertLess(len(lines), 3 + (time.monotonic() - begin) * 2)
        self.client.close()
        self.daemon.stop()
        path, = files_of(self.daemon)
        with database(path, "mode=rw") as db:
            self.assertEqual(db.execute("PRAGMA integrity_check").fetchone(), ("ok",))
            count, last = db.execute("SELECT count(*), max(step) FROM steps").fetchone()
            self.assertEqual(count, last)

    @unittest.skipUnless(os.geteuid() == 0, "mounting a file system needs root")
    def test_a_full_disk_that_gets_room_again(self):
        """Storage case S03, variant a."""
        self.start()
        self.client.close()
        self.daemon.stop()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "qpctest",
                                  self.daemon.data], check=False, capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("cannot mount a tmpfs here")
        try:
            self.daemon.restart()
            self.client = Client(self.daemon)
            world = self.client.call("world.create", scene=cable(
                count=200, record={"precision": "float64"}))["world"]
            reply, begin = {"summary": {}}, time.monotonic()
            while "recording" not in reply["summary"] and time.monotonic() - begin < 120:
                reply = self.client.call("world.step", world=world, n=200, timeout=60)
                self.assertEqual(reply["status"], "ok")
            self.assertIn("recording", reply["summary"])
            subprocess.run(["mount", "-o", "remount,size=64m", self.daemon.data], check=True)
            begin = time.monotonic()
            while "recording" in reply["summary"] and time.monotonic() - begin < 20:
                time.sleep(0.2)
                reply = self.client.call("world.step", world=world)
            self.assertNotIn("recording", reply["summary"])
            self.client.close()
            self.daemon.stop()
            path, = files_of(self.daemon)
            with database(path, "mode=rw") as db:
                self.assertEqual(db.execute("PRAGMA integrity_check").fetchone(), ("ok",))
                self.assertEqual(db.execute("SELECT max(step) FROM steps").fetchone()[0],
                                 reply["reached"])
                events = " ".join(str(row) for row in db.execute("SELECT * FROM events"))
                self.assertIn("gap", events)
        finally:
            self.daemon.kill()
            subprocess.run(["umount", self.daemon.data], check=False)

    def test_a_foreign_lock_delays_nobody(self):
        """Storage case S02: another process holds the write lock of the run file."""
        self.start("--workers", "1")
        world, run = self.record(particle(), 10)
        path = self.client.call("run.describe", run=run)["path"]
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("BEGIN IMMEDIATE")
        slowest, begin, done = 0.0, time.monotonic(), 10
        while time.monotonic() - begin < 2.0:
            before = time.monotonic()
            done = self.client.call("world.step", world=world)["reached"]
            slowest = max(slowest, time.monotonic() - before)
            time.sleep(0.01)
        db.execute("ROLLBACK")
        db.close()
        self.assertLess(slowest, 1.0)
        page = self.client.call("run.frames", run=run, limit=10000)
        self.assertEqual([f["step"] for f in page["frames"]], list(range(done + 1)))
        self.daemon.stop()

    def test_two_worlds_record_into_two_files(self):
        self.start()
        one, two = self.record(particle(), 3), self.record(particle(), 4)
        self.assertNotEqual(one[1], two[1])
        self.assertEqual(len(files_of(self.daemon)), 2)
        self.daemon.stop()

    def test_a_drain_writes_everything(self):
        self.start()
        world = self.client.call("world.create", scene=cable(count=50))["world"]
        batch = self.client.request("world.step", {"world": world, "n": 1000000000})
        time.sleep(0.3)
        self.daemon.signal(signal.SIGTERM)
        reply = self.client.result(batch)
        self.assertEqual(reply["status"], "draining")
        self.client.close()
        self.assertEqual(self.daemon.wait(), 0)
        path, = files_of(self.daemon)
        with database(path) as db:
            self.assertEqual(db.execute("SELECT max(step), count(*) FROM steps").fetchone(),
                             (reply["reached"], reply["reached"]))


if __name__ == "__main__":
    unittest.main()
